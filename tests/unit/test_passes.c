/* Folding, simplification, common subexpressions and dead code. */
#include "unit/pass_check.h"

static tn__value *input2(tn__graph *g, const char *name, int64_t a, int64_t b) {
  return input_of(g, name, TN_F32, 2, (int64_t[]){a, b});
}

/* ---- fold --------------------------------------------------------------------------------------- */

static void folds_small_nodes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *c = constant_of(g, TN_F32, 2, (int64_t[]){3, 4}), *d = constant_of(g, TN_F32, 2, (int64_t[]){4, 2});
  tn__graph_output(g, "y", tn__g_unary(g, "exponential", tn__g_matmul(g, c, d, TN_F32)));
  CHECK_PASSES(state, 0, tn__pass_fold);
  assert_int_equal(tn__graph_node_count(g), 0);
}

static void leaves_large_nodes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *c = constant_of(g, TN_F32, 2, (int64_t[]){300, 300});
  tn__graph_output(g, "y", tn__g_unary(g, "negate", c));
  CHECK_PASSES(state, 0, tn__pass_fold);
  check_ops(g, "negate", 1);
}

static void splats_stay_splats(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = splat_of(g, 2, 2, (int64_t[]){1000, 1000}), *b = splat_of(g, 3, 2, (int64_t[]){1000, 1000});
  tn__value *sum = tn__g_binary(g, "add", tn__g_transpose(g, a, (int64_t[]){1, 0}), b);
  tn__graph_output(
      g, "y", tn__g_unary(g, "sqrt", tn__g_binary(g, "subtract", sum, splat_of(g, 1, 2, (int64_t[]){1000, 1000}))));
  tn__optimize_options options = pass_options();
  tn__pass_fold(g, &options);
  assert_string_equal(text_of(g), "graph \"test\" {\n  const c18: f32[1000, 1000] = 2.0\n  output \"y\" = c18\n}\n");
}

static void symbolic_splats_broadcast_a_scalar(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", -1, 4);
  tn__value *two = tn__g_full(g, TN_F32, 2, 2, x->dims), *four = tn__g_full(g, TN_F32, 4, 2, x->dims);
  tn__graph_output(g, "y", tn__g_binary(g, "add", x, tn__g_binary(g, "multiply", two, four)));
  CHECK_PASSES(state, 0, tn__pass_fold);
  check_ops(g, "multiply", 0);
  check_ops(g, "broadcast_in_dim", 1);
}

static void known_elements_are_constants(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", 5, 4);
  const tn__expr *dims[] = {x->dims[0], x->dims[1]};
  tn__value *shape = tn__g_from_elements(g, TN_I64, dims, 2, 1);
  tn__graph_output(g, "y", tn__g_binary(g, "multiply", shape, shape));
  CHECK_PASSES(state, 0, tn__pass_fold);
  assert_int_equal(tn__graph_node_count(g), 0);
}

static void nodes_over_inputs_stay(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *table = constant_of(g, TN_F32, 1, (int64_t[]){3}), *index = input_of(g, "i", TN_I64, 1, (int64_t[]){1});
  tn__value *far = tn__g_binary(g, "add", tn__g_i64s(g, (int64_t[]){0, 2}, 2), tn__g_i64s(g, (int64_t[]){0, 0}, 2));
  tn__graph_output(g, "y", tn__g_take(g, table, index, 0));
  tn__graph_output(g, "z", tn__g_take(g, table, far, 0));
  CHECK_PASSES(state, 0, tn__pass_fold);
  check_ops(g, "take", 1);
}

/* ---- simplify ----------------------------------------------------------------------------------- */

static const tn__expr *ix(tn__graph *g, int64_t value) { return tn__index(tn__graph_ir(g), value); }

static void neutral_operands_go(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", -1, 4), *y = x;
  y = tn__g_binary_s(g, "multiply", y, 1);
  y = tn__g_binary_s(g, "subtract", y, 0);
  y = tn__g_binary_s(g, "add", y, -0.0);
  y = tn__g_unary(g, "negate", tn__g_unary(g, "negate", y));
  y = tn__g_convert(g, tn__g_convert(g, y, TN_F64), TN_F32);
  tn__graph_output(g, "y", y);
  CHECK_PASSES(state, 0, tn__pass_simplify);
  assert_int_equal(tn__graph_node_count(g), 0);
}

static void adding_zero_keeps_its_effect_on_signs(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", tn__g_binary_s(g, "add", input2(g, "x", 3, 4), 0.0));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "add", 1);
}

static void narrowing_conversions_stay(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", tn__g_convert(g, tn__g_convert(g, input2(g, "x", 3, 4), TN_F16), TN_F32));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "convert", 2);
}

static void squares_are_products(void **state) {
  tn__graph *g = graph_of(state);
  tn__graph_output(g, "y", tn__g_binary_s(g, "power", input2(g, "x", 3, 4), 2));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "power", 0);
}

/* Attention's scores have no weights to put the factor into, and GELU reads its argument undivided as well. What
 * is not behind a product is divided. */
static void numbers_behind_products_multiply(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input2(g, "a", 3, 4), *b = input2(g, "b", 4, 5), *c = input2(g, "c", 4, 5);
  tn__value *scores = tn__g_binary_s(g, "divide", tn__g_matmul(g, a, b, TN_F32), 3);
  const int64_t axis = 1, five = 5;
  tn__value *weights = constant_of(g, TN_F32, 2, (int64_t[]){4, 5}), *bias = constant_of(g, TN_F32, 1, &five);
  tn__value *y = tn__g_matmul(g, a, weights, TN_F32);
  y = tn__g_binary(g, "add", y, tn__g_broadcast_in_dim(g, bias, 2, y->dims, &axis));
  tn__graph_output(g, "scores", scores);
  tn__graph_output(g, "y", tn__g_binary(g, "multiply", y, tn__g_unary(g, "erf", tn__g_binary_s(g, "divide", y, 1.5))));
  tn__graph_output(g, "infinite", tn__g_binary_s(g, "divide", tn__g_matmul(g, a, c, TN_F32), 0));
  tn__graph_output(g, "plain", tn__g_binary_s(g, "divide", c, 3));
  CHECK_PASSES(state, 1e-6, tn__pass_simplify);
  check_ops(g, "divide", 2);
}

/* ---- attention ----------------------------------------------------------------------------------- */

/* What makes the left operand of the second product, in the body of an attention or outside. */
static const char *left_operand(const tn__graph *g) {
  const char *left = NULL;
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    const tn__graph *body = tn__composite_body(node);
    if (body != NULL) return left_operand(body);
    bool second = strcmp(node->op->name, "dot_general") == 0 && node->inputs[0]->producer != NULL;
    if (second) left = node->inputs[0]->producer->op->name;
  }
  return left;
}

/* softmax(a b) v, or its weights by a division; what makes the left operand of the second product afterwards. */
static const char *left_of_second(void **state, int64_t rows, bool divides, bool shared) {
  tn__graph *g = graph_of(state);
  const int64_t batch = 0, last = 2, middle = 1;
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){2, rows, 6}),
            *b = input_of(g, "b", TN_F32, 3, (int64_t[]){2, 6, -1});
  tn__value *v = tn__graph_input(g, "v", TN_F32, 3, (const tn__expr *[]){ix(g, 2), b->dims[2], ix(g, 5)});
  tn__value *scores = tn__g_dot_general(g, a, b, &batch, &batch, 1, &last, &middle, 1, TN_F32), *weights;
  if (divides) {
    tn__value *top = tn__g_reduce(g, TN__REDUCE_MAX, scores, &last, 1, true);
    tn__value *power = tn__g_unary(g, "exponential", tn__g_binary(g, "subtract", scores, top));
    weights = tn__g_binary(g, "divide", power, tn__g_reduce(g, TN__REDUCE_SUM, power, &last, 1, true));
  } else {
    weights = tn__g_softmax(g, scores, 2, TN__SOFTMAX_PLAIN);
  }
  if (shared) tn__graph_output(g, "weights", weights);
  tn__graph_output(g, "y", tn__g_dot_general(g, weights, v, &batch, &batch, 1, &last, &middle, 1, TN_F32));
  CHECK_PASSES(state, 1e-6, tn__pass_raise, tn__pass_attention);
  return left_operand(g);
}

static void rows_of_results_are_divided(void **state) {
  assert_string_equal(left_of_second(state, 9, false, false), "exponential");
}
static void rows_of_results_are_divided_by_sums(void **state) {
  assert_string_equal(left_of_second(state, 9, true, false), "exponential");
}
static void weights_that_others_read_are_divided(void **state) {
  assert_string_equal(left_of_second(state, 9, false, true), "softmax");
}
static void weights_of_one_row_are_divided(void **state) { /* no kernel of its own comes of it */
  assert_string_equal(left_of_second(state, 1, false, false), "softmax");
}

static void reshapes_and_transposes_cancel(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 4, 6});
  tn__value *y = tn__g_transpose(g, tn__g_transpose(g, x, (int64_t[]){2, 0, 1}), (int64_t[]){1, 2, 0});
  const tn__expr *n = x->dims[0];
  y = tn__g_reshape(g, y, 2, (const tn__expr *[]){n, ix(g, 24)});
  y = tn__g_reshape(g, y, 3, x->dims);
  tn__graph_output(g, "y", y);
  CHECK_PASSES(state, 0, tn__pass_simplify);
  assert_int_equal(tn__graph_node_count(g), 0);
}

/* [n, h, w, c] to [n, c, h, w] to [n, c, h w] to [n, h w, c]: what an image transformer does with its patches. */
static void transposes_cancel_through_a_reshape(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){-1, 3, 5, 4});
  tn__value *y = tn__g_transpose(g, x, (int64_t[]){0, 3, 1, 2});
  y = tn__g_reshape(g, y, 3, (const tn__expr *[]){x->dims[0], ix(g, 4), ix(g, 15)});
  tn__graph_output(g, "y", tn__g_transpose(g, y, (int64_t[]){0, 2, 1}));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "transpose", 0);
  check_ops(g, "reshape", 1);
}

/* A shuffle of channels between two changes of layout keeps one transpose. */
static void a_channel_shuffle_keeps_one_transpose(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){1, 3, 5, 6});
  tn__value *y = tn__g_transpose(g, x, (int64_t[]){0, 3, 1, 2});
  y = tn__g_reshape(g, y, 5, (const tn__expr *[]){ix(g, 1), ix(g, 2), ix(g, 3), ix(g, 3), ix(g, 5)});
  y = tn__g_transpose(g, y, (int64_t[]){0, 2, 1, 3, 4});
  y = tn__g_reshape(g, y, 4, (const tn__expr *[]){ix(g, 1), ix(g, 6), ix(g, 3), ix(g, 5)});
  tn__graph_output(g, "y", tn__g_transpose(g, y, (int64_t[]){0, 2, 3, 1}));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "transpose", 1);
}

/* What exporters write for rows of a cache: they are brought in front, written, and brought back. One is written
 * twice. */
static void scatters_go_before_transposes(void **state) {
  static const int64_t rows[] = {4, 0, 4}, front[] = {2, 0, 1, 3}, back[] = {1, 2, 0, 3};
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){4, 2, 5, 6});
  tn__value *news = input_of(g, "news", TN_F32, 4, (int64_t[]){3, 4, 2, 6});
  tn__value *one = tn__constant_value(g, TN_I64, 4, (int64_t[]){3, 1, 1, 1}, rows, false);
  tn__value *pair = tn__constant_value(g, TN_I64, 2, (int64_t[]){3, 1}, rows, false);
  tn__value *all = tn__g_broadcast_to(g, one, 4, news->dims);
  for (int form = 0; form < 4; form++) {
    const char *reduction = form % 2 == 0 ? "none" : "add";
    tn__value *moved = tn__g_transpose(g, x, front);
    moved = form < 2 ? tn__g_scatter_nd(g, moved, pair, news, reduction)
                     : tn__g_scatter_elements(g, moved, all, news, 0, reduction);
    static const char *const names[] = {"nd", "nd_add", "elements", "elements_add"};
    tn__graph_output(g, names[form], tn__g_transpose(g, moved, back));
  }
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "scatter_nd", 0);
  check_ops(g, "scatter_elements", 4);
  for (int form = 0; form < 4; form++) {
    const tn__node *scatter = tn__graph_output_at(g, form)->producer;
    assert_string_equal(scatter->op->name, "scatter_elements");
    assert_ptr_equal(scatter->inputs[0], x);
  }
}

/* Two dimensions are chosen, or others read the transposed tensor too. */
static void other_scatters_stay_behind_transposes(void **state) {
  static const int64_t rows[] = {4, 0, 3, 1};
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", 3, 5), *turned = tn__g_transpose(g, x, (int64_t[]){1, 0});
  tn__value *pairs = tn__constant_value(g, TN_I64, 2, (int64_t[]){1, 2}, rows + 2, false);
  tn__value *news = input_of(g, "news", TN_F32, 1, (int64_t[]){1});
  tn__graph_output(g, "y", tn__g_scatter_nd(g, turned, pairs, news, "none"));
  turned = tn__g_transpose(g, input2(g, "z", 3, 5), (int64_t[]){1, 0});
  tn__value *single = tn__constant_value(g, TN_I64, 2, (int64_t[]){2, 1}, rows, false);
  tn__graph_output(g, "w", tn__g_scatter_nd(g, turned, single, input2(g, "rows", 2, 3), "none"));
  tn__graph_output(g, "v", tn__g_unary(g, "negate", turned));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "scatter_nd", 2);
}

static void transposes_of_ones_are_reshapes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){-1, 1, 1, 6});
  tn__value *y = tn__g_transpose(g, x, (int64_t[]){0, 3, 1, 2});
  tn__graph_output(g, "y", tn__g_reshape(g, y, 2, (const tn__expr *[]){x->dims[0], ix(g, 6)}));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "transpose", 0);
  check_ops(g, "reshape", 1);
}

static void broadcasts_sink(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 4, 5}),
            *scale = input_of(g, "s", TN_F32, 1, (int64_t[]){4});
  const int64_t axis = 1;
  tn__value *wide = tn__g_broadcast_in_dim(g, scale, 3, x->dims, &axis);
  wide = tn__g_unary(g, "exponential", tn__g_binary(g, "add", wide, tn__g_full(g, TN_F32, 2, 3, x->dims)));
  tn__value *turned = tn__g_transpose(g, wide, (int64_t[]){0, 1, 2});
  tn__graph_output(g, "y", tn__g_binary(g, "multiply", x, turned));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  for (int i = 0; i < tn__graph_node_count(g); i++) {
    const tn__node *node = tn__graph_node_at(g, i);
    if (strcmp(node->op->name, "exponential") == 0) assert_int_equal(node->outputs[0]->rank, 1);
  }
}

static void reshapes_go_through_broadcasts(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){3, 8});
  const tn__expr *wide[] = {ix(g, 5), ix(g, 3), ix(g, 2), ix(g, 8)},
                 *split[] = {ix(g, 15), ix(g, 1), ix(g, 2), ix(g, 2), ix(g, 4)};
  tn__value *y = tn__g_broadcast_in_dim(g, x, 4, wide, (int64_t[]){1, 3});
  const tn__expr *other[] = {ix(g, 5), ix(g, 3), ix(g, 1), ix(g, 2), ix(g, 2), ix(g, 4)};
  tn__graph_output(g, "y", tn__g_reshape(g, y, 6, other));
  tn__graph_output(g, "z", tn__g_reshape(g, y, 5, split)); /* joins a repeated dimension with one that is not: stays */
  CHECK_PASSES(state, 0, tn__pass_simplify);
  assert_string_equal(tn__graph_output_at(g, 0)->producer->op->name, "broadcast_in_dim");
  assert_string_equal(tn__graph_output_at(g, 1)->producer->op->name, "reshape");
}

/* A rule that looks at a node and leaves it must leave nothing behind that reads what other rules remove. */
static void attempts_leave_nothing(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){2, 1, 4});
  tn__value *y = tn__g_transpose(g, x, (int64_t[]){1, 0, 2});
  const tn__expr *starts[] = {ix(g, 0), ix(g, 0), ix(g, 1)}, *limits[] = {ix(g, 1), ix(g, 2), ix(g, 3)};
  tn__graph_output(g, "y", tn__g_slice(g, y, starts, limits, (int64_t[]){1, 1, 1}));
  tn__graph_output(g, "z", tn__g_slice(g, tn__g_binary_s(g, "multiply", y, 1), starts, limits, (int64_t[]){1, 1, 1}));
  CHECK_PASSES(state, 0, tn__pass_simplify, tn__pass_cse);
  check_ops(g, "slice", 1);
  check_ops(g, "transpose", 0);
}

static void reductions_of_ones_are_reshapes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 1, 5});
  const int64_t axis = 1;
  tn__graph_output(g, "y", tn__g_reduce(g, TN__REDUCE_MAX, x, &axis, 1, false));
  CHECK_PASSES(state, 0, tn__pass_simplify);
  check_ops(g, "reduce", 0);
}

/* ---- cse, dce ----------------------------------------------------------------------------------- */

static void equal_nodes_become_one(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", -1, 4);
  tn__value *a = tn__g_binary(g, "multiply", x, constant_of(g, TN_F32, 1, (int64_t[]){4}));
  tn__value *b = tn__g_binary(g, "multiply", x, constant_of(g, TN_F32, 1, (int64_t[]){4}));
  tn__graph_output(g, "y", tn__g_binary(g, "add", tn__g_unary(g, "exponential", a), tn__g_unary(g, "exponential", b)));
  CHECK_PASSES(state, 0, tn__pass_cse);
  check_ops(g, "multiply", 1);
  check_ops(g, "exponential", 1);
}

static void different_attributes_stay_apart(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", -1, 4);
  const int64_t axis = 1;
  tn__graph_output(g, "y",
                   tn__g_binary(g, "add", tn__g_reduce(g, TN__REDUCE_MAX, x, &axis, 1, true),
                                tn__g_reduce(g, TN__REDUCE_MIN, x, &axis, 1, true)));
  CHECK_PASSES(state, 0, tn__pass_cse);
  check_ops(g, "reduce", 2);
}

static void dead_nodes_go(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input2(g, "x", -1, 4);
  tn__g_unary(g, "exponential", tn__g_unary(g, "sqrt", x));
  tn__graph_output(g, "y", tn__g_unary(g, "negate", x));
  CHECK_PASSES(state, 0, tn__pass_dce);
  assert_int_equal(tn__graph_node_count(g), 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(folds_small_nodes),
      TEST(leaves_large_nodes),
      TEST(splats_stay_splats),
      TEST(symbolic_splats_broadcast_a_scalar),
      TEST(known_elements_are_constants),
      TEST(nodes_over_inputs_stay),
      TEST(neutral_operands_go),
      TEST(adding_zero_keeps_its_effect_on_signs),
      TEST(narrowing_conversions_stay),
      TEST(squares_are_products),
      TEST(numbers_behind_products_multiply),
      TEST(rows_of_results_are_divided),
      TEST(rows_of_results_are_divided_by_sums),
      TEST(weights_that_others_read_are_divided),
      TEST(weights_of_one_row_are_divided),
      TEST(reshapes_and_transposes_cancel),
      TEST(transposes_cancel_through_a_reshape),
      TEST(a_channel_shuffle_keeps_one_transpose),
      TEST(scatters_go_before_transposes),
      TEST(other_scatters_stay_behind_transposes),
      TEST(transposes_of_ones_are_reshapes),
      TEST(broadcasts_sink),
      TEST(reshapes_go_through_broadcasts),
      TEST(attempts_leave_nothing),
      TEST(reductions_of_ones_are_reshapes),
      TEST(equal_nodes_become_one),
      TEST(different_attributes_stay_apart),
      TEST(dead_nodes_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
