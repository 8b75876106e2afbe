/* Products and convolutions: what folds into them, channels-last layout, rows, packing. */
#include "graph/passes/rewrite.h"
#include "unit/pass_check.h"

static const tn__expr *ix(tn__graph *g, int64_t value) { return tn__index(tn__graph_ir(g), value); }

static tn__value *weights_of(tn__graph *g, int64_t o, int64_t i, int64_t h, int64_t w) {
  return constant_of(g, TN_F32, 4, (int64_t[]){o, i, h, w});
}

/* A 2-D channels-first convolution. */
static tn__value *conv2(tn__graph *g, tn__value *x, tn__value *w, int64_t stride, int64_t pad, int64_t groups) {
  tn__conv_spec spec = {.spatial = 2,
                        .strides = {stride, stride},
                        .lhs_dilation = {1, 1},
                        .rhs_dilation = {1, 1},
                        .feature_groups = groups};
  for (int i = 0; i < 2; i++) spec.low[i] = spec.high[i] = ix(g, pad);
  return tn__g_convolution(g, x, w, &spec, TN_F32);
}

/* A vector over dimension 1 of a rank-4 tensor, as ONNX writes it. */
static tn__value *channels(tn__graph *g, tn__value *like) {
  tn__value *v = constant_of(g, TN_F32, 1, (int64_t[]){tn__dim_const(like, 1)});
  const tn__expr *dims[] = {ix(g, 1), like->dims[1], ix(g, 1), ix(g, 1)};
  return tn__g_broadcast_to(g, tn__g_reshape(g, v, 4, dims), 4, like->dims);
}

static tn__value *relu(tn__graph *g, tn__value *x) { return tn__g_binary_s(g, "maximum", x, 0); }

static tn__value *image(tn__graph *g, int64_t n, int64_t c, int64_t h, int64_t w) {
  return input_of(g, "x", TN_F32, 4, (int64_t[]){n, c, h, w});
}

/* ---- rules -------------------------------------------------------------------------------------- */

static void transposes_move_into_products(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *q = input_of(g, "q", TN_F32, 4, (int64_t[]){-1, 5, 2, 3}),
            *k = input_of(g, "k", TN_F32, 4, (int64_t[]){-1, 4, 2, 3});
  tn__value *a = tn__g_transpose(g, q, (int64_t[]){0, 2, 1, 3}), *b = tn__g_transpose(g, k, (int64_t[]){0, 2, 3, 1});
  tn__graph_output(g, "y", tn__g_matmul(g, a, b, TN_F32));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "transpose", 0);
}

static void transposes_that_turn_rows_stay(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 5, 3}),
            *w = input_of(g, "w", TN_F32, 2, (int64_t[]){3, 2});
  tn__graph_output(g, "y", tn__g_matmul(g, tn__g_transpose(g, x, (int64_t[]){1, 0, 2}), w, TN_F32));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "transpose", 1);
}

static void padding_moves_into_convolutions(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = image(g, -1, 3, 5, 6);
  const tn__expr *low[] = {ix(g, 0), ix(g, 0), ix(g, 1), ix(g, 0)}, *high[] = {ix(g, 0), ix(g, 0), ix(g, 0), ix(g, 2)};
  tn__value *padded = tn__g_pad(g, x, tn__g_scalar(g, TN_F32, 0), low, high, NULL);
  tn__graph_output(g, "y", conv2(g, padded, weights_of(g, 4, 3, 3, 3), 1, 1, 1));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "pad", 0);
}

static tn__value *dilated(tn__graph *g, tn__value *x, tn__value *w, int64_t stride, int64_t dilation, int64_t padding) {
  tn__conv_spec spec = {.spatial = 2, .feature_groups = 1};
  for (int i = 0; i < 2; i++) {
    spec.strides[i] = stride, spec.lhs_dilation[i] = 1, spec.rhs_dilation[i] = dilation;
    spec.low[i] = spec.high[i] = ix(g, padding);
  }
  return tn__g_convolution(g, x, w, &spec, TN_F32);
}

/* Images of 5 rows and 6 columns; how many of 3x3 taps meet it. */
static void taps_beyond_the_image_go(void **state) {
  static const struct {
    int64_t stride, dilation, padding, rows, columns;
  } cases[] = {{1, 1, 1, 3, 3},   {1, 4, 4, 3, 3}, {1, 5, 5, 1, 3}, {1, 6, 6, 1, 1}, {1, 12, 12, 1, 1},
               {2, 12, 12, 1, 1}, {1, 5, 8, 3, 3}, {3, 5, 5, 1, 2}, {1, 7, 9, 1, 3}, {4, 6, 6, 1, 1}};
  enum { COUNT = sizeof cases / sizeof *cases };
  tn__graph *g = graph_of(state);
  tn__value *x = image(g, -1, 3, 5, 6);
  for (int i = 0; i < COUNT; i++)
    tn__graph_output(g, tn__arena_printf(tn__graph_arena(g), "y%d", i),
                     dilated(g, x, weights_of(g, 4, 3, 3, 3), cases[i].stride, cases[i].dilation, cases[i].padding));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  for (int i = 0; i < COUNT; i++) {
    const tn__value *weights = tn__graph_output_at(g, i)->producer->inputs[1];
    if (tn__dim_const(weights, 2) != cases[i].rows || tn__dim_const(weights, 3) != cases[i].columns)
      fail_msg("case %d: %lld x %lld taps", i, (long long)tn__dim_const(weights, 2),
               (long long)tn__dim_const(weights, 3));
  }
}

static void other_padding_stays(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = image(g, -1, 2, 5, 6);
  const tn__expr *none[] = {ix(g, 0), ix(g, 0), ix(g, 0), ix(g, 0)};
  const tn__expr *wide[] = {ix(g, 0), ix(g, 0), ix(g, 1), ix(g, 0)}, *deep[] = {ix(g, 0), ix(g, 1), ix(g, 0), ix(g, 0)};
  tn__value *ones = tn__g_pad(g, x, tn__g_scalar(g, TN_F32, 1), wide, none, NULL);
  tn__value *zeros = tn__g_pad(g, x, tn__g_scalar(g, TN_F32, 0), none, deep, NULL);
  tn__graph_output(g, "y", conv2(g, ones, weights_of(g, 4, 2, 3, 3), 1, 0, 1));
  tn__graph_output(g, "z", conv2(g, zeros, weights_of(g, 4, 3, 3, 3), 1, 0, 1));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "pad", 2);
}

/* Element-wise operators on activations (dimension 0 is symbolic) must be additions, so many. */
static void check_only_adds(tn__graph *g, int allowed) {
  int found = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    if (node->op->op_class != TN__CLASS_ELEMENTWISE || node->outputs[0]->rank == 0) continue;
    if (tn__dim_const(node->outputs[0], 0) >= 0) continue;
    if (strcmp(node->op->name, "add") != 0) fail_msg("%s is left in\n%s", node->op->name, text_of(g));
    found++;
  }
  assert_int_equal(found, allowed);
}

static void batch_normalisation_folds_into_convolutions(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *y = conv2(g, image(g, -1, 3, 5, 6), weights_of(g, 4, 3, 3, 3), 1, 1, 1);
  y = tn__g_binary(g, "add", y, channels(g, y));
  y = tn__g_binary(g, "subtract", y, channels(g, y));
  y = tn__g_binary(g, "multiply", y, channels(g, y));
  y = tn__g_binary(g, "divide", y, tn__g_full(g, TN_F32, 0.75, 4, y->dims));
  tn__graph_output(g, "y", tn__g_binary(g, "add", y, channels(g, y)));
  CHECK_PASSES(state, 1e-5, tn__pass_simplify, tn__pass_fold, tn__pass_simplify);
  check_only_adds(g, 1);
  check_ops(g, "convolution", 1);
}

static void scales_of_shared_convolutions_stay(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *y = conv2(g, image(g, -1, 3, 5, 6), weights_of(g, 4, 3, 1, 1), 1, 0, 1);
  tn__graph_output(g, "y", y);
  tn__graph_output(g, "z", tn__g_binary(g, "multiply", y, channels(g, y)));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "convolution", 1);
}

static void scales_that_are_not_of_columns_stay(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){4, 3});
  tn__value *y = tn__g_matmul(g, x, constant_of(g, TN_F32, 2, (int64_t[]){3, 4}), TN_F32);
  tn__value *rows = tn__g_broadcast_in_dim(g, constant_of(g, TN_F32, 1, (int64_t[]){4}), 2, y->dims, (int64_t[]){0});
  tn__graph_output(g, "y", tn__g_binary(g, "multiply", y, rows));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "multiply", 1);
  assert_int_equal(tn__graph_node_at(g, tn__graph_node_count(g) - 1)->outputs[0]->rank, 2);
}

static void equal_weights_keep_equal_columns(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *y = conv2(g, image(g, -1, 3, 5, 6), splat_of(g, 0.1, 4, (int64_t[]){4, 3, 3, 3}), 1, 1, 1);
  tn__value *scale = splat_of(g, 0.3, 1, (int64_t[]){4});
  y = tn__g_binary(g, "multiply", y, tn__g_broadcast_in_dim(g, scale, 4, y->dims, (int64_t[]){1}));
  tn__graph_output(g, "y", y);
  CHECK_PASSES(state, 1e-6, tn__pass_simplify, tn__pass_fold, tn__pass_layout);
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    const void *element;
    if (strcmp(node->op->name, "convolution") == 0) assert_true(tn__splat_element(node->inputs[1], &element));
  }
}

/* ---- layout ------------------------------------------------------------------------------------- */

static tn__value *pool(tn__graph *g, tn__value *x) {
  const tn__expr *low[] = {ix(g, 0), ix(g, 0), ix(g, 1), ix(g, 1)}, *high[] = {ix(g, 0), ix(g, 0), ix(g, 0), ix(g, 1)};
  return tn__g_reduce_window(g, TN__REDUCE_MAX, x, (int64_t[]){1, 1, 3, 3}, (int64_t[]){1, 1, 2, 2},
                             (int64_t[]){1, 1, 1, 1}, low, high);
}

/* A residual network in small: one transpose at the images, none at the classes. */
static tn__value *small_network(tn__graph *g, int64_t batch) {
  tn__value *y = conv2(g, image(g, batch, 3, 9, 8), weights_of(g, 4, 3, 3, 3), 1, 1, 1);
  y = relu(g, tn__g_binary(g, "add", tn__g_binary(g, "multiply", y, channels(g, y)), channels(g, y)));
  y = pool(g, y);
  tn__value *side = y;
  y = conv2(g, y, weights_of(g, 4, 4, 1, 1), 1, 0, 1);
  y = relu(g, tn__g_binary(g, "add", y, channels(g, y)));
  y = conv2(g, y, weights_of(g, 4, 1, 3, 3), 1, 1, 4);
  y = relu(g, tn__g_binary(g, "add", y, side));
  y = tn__g_concatenate(g, (tn__value *[]){y, conv2(g, y, weights_of(g, 4, 2, 1, 1), 1, 0, 2)}, 2, 1);
  /* squeeze and excite */
  tn__value *mean = tn__g_mean(g, y, (int64_t[]){2, 3}, 2, true);
  tn__value *gate = tn__g_unary(g, "logistic", conv2(g, mean, weights_of(g, 8, 8, 1, 1), 1, 0, 1));
  y = tn__g_binary(g, "multiply", y, gate);
  tn__value *features = tn__g_mean(g, y, (int64_t[]){2, 3}, 2, true);
  tn__value *flat = tn__g_reshape(g, features, 2, (const tn__expr *[]){features->dims[0], ix(g, 8)});
  return tn__g_matmul(g, flat, constant_of(g, TN_F32, 2, (int64_t[]){8, 5}), TN_F32);
}

static int data_transposes(tn__graph *g) {
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    if (strcmp(node->op->name, "transpose") == 0 && !tn__is_precomputable(node->inputs[0])) count++;
  }
  return count;
}

static void a_network_has_one_transpose(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", small_network(g, -1));
  CHECK_PASSES(state, 1e-5, tn__pass_fold, tn__pass_simplify, tn__pass_layout, tn__pass_simplify);
  if (data_transposes(g) != 1) fail_msg("%s", text_of(g));
  for (int i = 0; i < tn__graph_node_count(g); i++)
    if (strcmp(tn__graph_node_at(g, i)->op->name, "convolution") == 0)
      assert_int_equal(tn__node_int(tn__graph_node_at(g, i), "channels_last", 0), 1);
}

static void a_network_is_the_same_after_all_passes(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", small_network(g, -1));
  CHECK_PASSES(state, 1e-5, tn__graph_optimize);
  if (data_transposes(g) != 1) fail_msg("%s", text_of(g));
}

static void one_image_is_the_same_after_all_passes(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", small_network(g, 1));
  CHECK_PASSES(state, 1e-5, tn__graph_optimize);
  if (data_transposes(g) != 1) fail_msg("%s", text_of(g));
}

/* Slices, padding, reversal, resizing, reductions, an output in the middle. */
static void many_operators_follow(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *y = conv2(g, image(g, -1, 3, 6, 5), weights_of(g, 4, 3, 3, 3), 1, 1, 1);
  tn__graph_output(g, "middle", y);
  const tn__expr *starts[] = {ix(g, 0), ix(g, 1), ix(g, 0), ix(g, 1)},
                 *limits[] = {y->dims[0], ix(g, 3), ix(g, 6), ix(g, 5)};
  y = tn__g_slice(g, y, starts, limits, (int64_t[]){1, 1, 2, 1});
  const tn__expr *low[] = {ix(g, 0), ix(g, 1), ix(g, 0), ix(g, 2)}, *high[] = {ix(g, 0), ix(g, 0), ix(g, 1), ix(g, 0)};
  y = tn__g_pad(g, y, tn__g_scalar(g, TN_F32, 0.5), low, high, NULL);
  y = tn__g_reverse(g, y, (int64_t[]){1, 3}, 2);
  y = tn__g_take(g, y, tn__g_i64s(g, (int64_t[]){0, 0, 1, 1, 3, 2}, 6), 3);
  y = tn__g_cumulative(g, TN__REDUCE_SUM, y, 2, false, false);
  tn__graph_output(g, "channel", tn__g_argreduce(g, y, 1, true, false, false, TN_I64));
  tn__graph_output(g, "rows", tn__g_reduce(g, TN__REDUCE_MAX, y, (int64_t[]){2}, 1, false));
  tn__value *z = tn__g_transpose(g, y, (int64_t[]){0, 2, 3, 1});
  tn__graph_output(g, "last", tn__g_unary(g, "negate", z));
  CHECK_PASSES(state, 1e-5, tn__pass_layout, tn__pass_simplify);
  /* the images, "middle" and "rows" */
  if (data_transposes(g) != 3) fail_msg("%s", text_of(g));
}

static void one_and_three_dimensions(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 3, 7}),
            *v = input_of(g, "v", TN_F32, 5, (int64_t[]){-1, 2, 3, 4, 3});
  tn__conv_spec spec = {.spatial = 1, .strides = {2}, .lhs_dilation = {1}, .rhs_dilation = {2}, .feature_groups = 1};
  spec.low[0] = spec.high[0] = ix(g, 1);
  tn__value *y = tn__g_convolution(g, x, constant_of(g, TN_F32, 3, (int64_t[]){4, 3, 3}), &spec, TN_F32);
  tn__graph_output(g, "y", relu(g, y));
  tn__conv_spec up = {.spatial = 3,
                      .strides = {1, 1, 1},
                      .lhs_dilation = {2, 1, 2},
                      .rhs_dilation = {1, 1, 1},
                      .feature_groups = 1,
                      .flip = true};
  for (int i = 0; i < 3; i++) up.low[i] = up.high[i] = ix(g, 1);
  tn__graph_output(g, "z", tn__g_convolution(g, v, constant_of(g, TN_F32, 5, (int64_t[]){3, 2, 2, 2, 2}), &up, TN_F32));
  CHECK_PASSES(state, 1e-5, tn__graph_optimize);
  if (data_transposes(g) != 4) fail_msg("%s", text_of(g));
}

/* ---- rows --------------------------------------------------------------------------------------- */

static void pointwise_convolutions_are_products(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = image(g, -1, 3, 5, 6);
  tn__value *y = conv2(g, x, weights_of(g, 4, 3, 1, 1), 1, 0, 1);
  y = relu(g, tn__g_binary(g, "add", y, channels(g, y)));
  tn__value *z = conv2(g, y, weights_of(g, 4, 4, 1, 1), 1, 0, 1);
  z = relu(g, tn__g_binary(g, "add", z, y));
  tn__graph_output(g, "y", conv2(g, z, weights_of(g, 4, 4, 3, 3), 1, 1, 1));
  CHECK_PASSES(state, 1e-5, tn__pass_simplify, tn__pass_layout, tn__pass_simplify, tn__pass_rows, tn__pass_simplify);
  check_ops(g, "dot_general", 2);
  check_ops(g, "convolution", 1);
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    if (strcmp(node->op->name, "maximum") == 0) assert_int_equal(node->outputs[0]->rank, 2);
  }
}

/* A dense layer, residual and layer normalisation over [batch, sequence, features]. */
static void rows_are_normalised_flat(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, -2, 4});
  tn__value *y = tn__g_matmul(g, x, constant_of(g, TN_F32, 2, (int64_t[]){4, 4}), TN_F32);
  y = tn__g_binary(g, "add", tn__g_binary(g, "add", y, constant_of(g, TN_F32, 1, (int64_t[]){4})), x);
  tn__value *centred = tn__g_binary(g, "subtract", y, tn__g_mean(g, y, (int64_t[]){2}, 1, true));
  tn__value *variance = tn__g_mean(g, tn__g_binary_s(g, "power", centred, 2), (int64_t[]){2}, 1, true);
  y = tn__g_binary(g, "divide", centred, tn__g_unary(g, "sqrt", tn__g_binary_s(g, "add", variance, 1e-3)));
  y = tn__g_binary(g, "multiply", y, constant_of(g, TN_F32, 1, (int64_t[]){4}));
  tn__graph_output(g, "y", tn__g_matmul(g, y, constant_of(g, TN_F32, 2, (int64_t[]){4, 5}), TN_F32));
  CHECK_PASSES(state, 1e-5, tn__graph_optimize);
  int views = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    views += strcmp(node->op->name, "reshape") == 0 && !tn__is_precomputable(node->inputs[0]);
  }
  if (views != 2) fail_msg("%d views in\n%s", views, text_of(g)); /* of x and of the result */
}

/* ---- pack --------------------------------------------------------------------------------------- */

static const tn__node *packed_node(tn__graph *g) {
  for (int i = 0; i < tn__graph_node_count(g); i++)
    if (tn__node_int(tn__graph_node_at(g, i), "packed", 0) == 8) return tn__graph_node_at(g, i);
  fail_msg("nothing is packed in\n%s", text_of(g));
  return NULL;
}

static void products_are_packed(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-1, 6});
  tn__graph_output(g, "y", tn__g_matmul(g, x, constant_of(g, TN_F32, 2, (int64_t[]){6, 11}), TN_F32));
  CHECK_PASSES(state, 1e-6, tn__pass_pack);
  const tn__node *node = packed_node(g);
  check_type(node->inputs[1], "f32[2, 6, 8]");
  assert_int_equal(tn__node_int(node, "columns", 0), 11);
}

static void batches_and_many_dimensions_are_packed(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){2, -1, 3, 4});
  tn__value *w = constant_of(g, TN_F32, 5, (int64_t[]){3, 5, 2, 4, 2});
  tn__value *y =
      tn__g_dot_general(g, x, w, (int64_t[]){0}, (int64_t[]){2}, 1, (int64_t[]){2, 3}, (int64_t[]){0, 3}, 2, TN_F32);
  tn__graph_output(g, "y", y);
  CHECK_PASSES(state, 1e-6, tn__pass_pack, tn__pass_simplify);
  check_type(packed_node(g)->inputs[1], "f32[2, 2, 12, 8]");
}

static void weights_that_are_inputs_are_not_packed(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-1, 6}), *w = input_of(g, "w", TN_F32, 2, (int64_t[]){6, 11});
  tn__graph_output(g, "y", tn__g_matmul(g, x, w, TN_F32));
  CHECK_PASSES(state, 0, tn__pass_pack);
  assert_int_equal(tn__graph_node_count(g), 1);
}

static void splats_are_their_own_packing(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){-1, 6});
  tn__graph_output(g, "y", tn__g_matmul(g, x, splat_of(g, 0.5, 2, (int64_t[]){6, 11}), TN_F32));
  CHECK_PASSES(state, 1e-6, tn__pass_pack);
  assert_true(packed_node(g)->inputs[1]->splat);
  check_type(packed_node(g)->inputs[1], "f32[2, 6, 8]");
}

static void convolutions_are_packed(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *y = conv2(g, image(g, -1, 3, 6, 5), weights_of(g, 10, 3, 3, 3), 2, 1, 1);
  tn__graph_output(g, "y", conv2(g, y, weights_of(g, 10, 1, 3, 3), 1, 1, 10));
  CHECK_PASSES(state, 1e-5, tn__pass_layout, tn__pass_pack, tn__pass_simplify, tn__pass_dce);
  check_type(packed_node(g)->inputs[1], "f32[2, 3, 3, 3, 8]");
  int packed = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) packed += tn__node_int(tn__graph_node_at(g, i), "packed", 0) > 0;
  assert_int_equal(packed, 1); /* the depthwise one is not */
}

static void wide_groups_are_packed(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", conv2(g, image(g, -1, 4, 6, 5), weights_of(g, 16, 2, 3, 3), 2, 1, 2));
  CHECK_PASSES(state, 1e-5, tn__pass_layout, tn__pass_pack);
  check_type(packed_node(g)->inputs[1], "f32[2, 3, 3, 2, 8]");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(transposes_move_into_products),
      TEST(transposes_that_turn_rows_stay),
      TEST(padding_moves_into_convolutions),
      TEST(taps_beyond_the_image_go),
      TEST(other_padding_stays),
      TEST(batch_normalisation_folds_into_convolutions),
      TEST(scales_of_shared_convolutions_stay),
      TEST(scales_that_are_not_of_columns_stay),
      TEST(equal_weights_keep_equal_columns),
      TEST(a_network_has_one_transpose),
      TEST(a_network_is_the_same_after_all_passes),
      TEST(one_image_is_the_same_after_all_passes),
      TEST(many_operators_follow),
      TEST(one_and_three_dimensions),
      TEST(pointwise_convolutions_are_products),
      TEST(rows_are_normalised_flat),
      TEST(products_are_packed),
      TEST(batches_and_many_dimensions_are_packed),
      TEST(weights_that_are_inputs_are_not_packed),
      TEST(splats_are_their_own_packing),
      TEST(convolutions_are_packed),
      TEST(wide_groups_are_packed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
