/* Composites: each means its body, and its attributes are checked. Golden tests hold passes to keeping them whole, and
 * to making one again of what is spelt out in core operators. */
#include <math.h>

#include "unit/pass_check.h"

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void pass_expand_all(tn__graph *g, const tn__optimize_options *options) {
  (void)options;
  int count = tn__graph_node_count(g);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(g, i);
    if (node->op->expand == NULL) continue;
    tn__value *body[3] = {NULL};
    node->op->expand(g, node, node->inputs, body);
    for (int o = 0; o < node->output_count; o++) tn__graph_replace_uses(g, node->outputs[o], body[o]);
    node->dead = true;
  }
  tn__graph_sweep(g);
}

static void every_composite_is_its_body(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 3, (int64_t[]){2, -1, 5}), *half = tn__g_convert(g, x, TN_F16);
  const int64_t both[] = {0, 2}, third = 2;
  tn__graph_output(g, "softmax", tn__g_softmax(g, x, 2, TN__SOFTMAX_PLAIN));
  tn__graph_output(g, "divided", tn__g_softmax(g, x, 1, TN__SOFTMAX_DIVIDE));
  tn__graph_output(g, "empty", tn__g_softmax(g, half, 2, TN__SOFTMAX_DIVIDE | TN__SOFTMAX_EMPTY));
  tn__graph_output(g, "log", tn__g_log_softmax(g, half, 2));
  tn__graph_output(g, "gelu", tn__g_gelu(g, x, false));
  tn__graph_output(g, "tanh", tn__g_gelu(g, x, true));
  tn__graph_output(g, "layer", tn__g_layer_norm(g, x, both, 2, 1e-5, TN__NORM_DIVIDE));
  tn__value *mean, *inverse;
  tn__graph_output(g, "all", tn__g_layer_norm_with_statistics(g, half, &third, 1, 1e-5, &mean, &inverse));
  tn__graph_output(g, "mean", mean);
  tn__graph_output(g, "inverse", inverse);
  tn__graph_output(g, "rms", tn__g_rms_norm(g, half, &third, 1, 1e-5, TN__NORM_RECIPROCAL));
  pass_fn *const passes[] = {pass_expand_all};
  const int64_t sizes[] = {3, 3, 3};
  check_passes_sized(state, passes, 1, sizes, 0);
  for (int i = 0; i < tn__graph_node_count(g); i++) assert_null(tn__graph_node_at(g, i)->op->expand);
}

/* Zero points along every dimension that they may have, padding, groups and a stride; words too, not bytes alone. */
static void quantised_composites_are_their_bodies(void **state) {
  tn__graph *g = graph_of(state);
  const tn__expr *one = tn__ir_index(tn__graph_ir(g), 1);
  tn__value *x = input_of(g, "x", TN_U8, 4, (int64_t[]){2, 4, 5, -1}),
            *w = input_of(g, "w", TN_I8, 4, (int64_t[]){6, 2, 3, 2});
  tn__value *x_zero = input_of(g, "xz", TN_U8, 0, NULL), *bias = input_of(g, "bias", TN_I32, 1, (int64_t[]){6});
  tn__value *w_zero = input_of(g, "wz", TN_I8, 4, (int64_t[]){6, 1, 1, 1});
  tn__conv_spec spec = {.spatial = 2,
                        .strides = {2, 1},
                        .lhs_dilation = {1, 1},
                        .rhs_dilation = {1, 1},
                        .low = {one, one},
                        .high = {one, one},
                        .feature_groups = 2};
  tn__value *sums = tn__g_quantized_convolution(g, x, x_zero, w, w_zero, bias, &spec);
  tn__graph_output(g, "convolution", sums);
  tn__graph_output(g, "plain", tn__g_quantized_convolution(g, x, NULL, w, NULL, NULL, &spec));
  tn__value *a = input_of(g, "a", TN_I16, 3, (int64_t[]){2, 3, 7}), *b = input_of(g, "b", TN_I8, 2, (int64_t[]){7, 4});
  tn__value *a_zero = input_of(g, "az", TN_I16, 3, (int64_t[]){2, 3, 1}),
            *b_zero = input_of(g, "bz", TN_I8, 1, (int64_t[]){4});
  tn__graph_output(g, "product", tn__g_quantized_matmul(g, a, a_zero, b, b_zero));
  tn__value *scale = input_of(g, "scale", TN_F32, 1, (int64_t[]){4});
  tn__value *real = tn__g_dequantize(g, b, scale, tn__g_convert(g, b_zero, TN_I32));
  tn__graph_output(g, "real", real);
  tn__graph_output(g, "steps", tn__g_quantize(g, real, scale, NULL, TN_I16, 16, false));
  tn__graph_output(g, "few", tn__g_quantize(g, real, scale, scale, TN_U8, 4, true));
  pass_fn *const passes[] = {pass_expand_all};
  const int64_t sizes[] = {3, 3, 3};
  check_passes_sized(state, passes, 1, sizes, 0);
}

static void rows_of_negative_infinity_may_be_zeros(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 2, (int64_t[]){2, 2});
  const tensor in[] = {{(float[]){-INFINITY, -INFINITY, 1, 1}, {2, 2}}};
  CHECK_RESULT(state, in, tn__g_softmax(g, x, 1, TN__SOFTMAX_DIVIDE | TN__SOFTMAX_EMPTY), 0, 0, 0.5, 0.5);
}

/* x erf(x) would be twice as large on the way. */
static void gelu_does_not_overflow(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *x = input_of(g, "x", TN_F32, 1, (int64_t[]){2});
  const tensor in[] = {{(float[]){3e38F, -3e38F}, {2}}};
  CHECK_RESULT(state, in, tn__g_gelu(g, x, false), 3e38F, 0);
}

static void make(tn__graph *g, const char *op, const tn__attr *attrs, int count) {
  tn__value *x = tn__graph_input(g, "x", TN_F32, 1, (const tn__expr *[]){tn__ir_index(tn__graph_ir(g), 4)});
  tn__g_node(g, op, &x, 1, attrs, count);
}

static void axes_beyond(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_int(g, "axes", 1)};
  make(g, "softmax", attrs, 1);
}
static void axis_alone(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_int(g, "axis", 0)};
  make(g, "log_softmax", attrs, 1);
}
static void no_epsilon(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_int(g, "axes", 0)};
  make(g, "layer_norm", attrs, 1);
}
static void statistics_of_a_division(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_int(g, "axes", 0), tn__attr_float(g, "epsilon", 1e-5),
                            tn__attr_string(g, "scale", "divide"), tn__attr_int(g, "statistics", 1)};
  make(g, "layer_norm", attrs, 4);
}
static void odd_scale(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_int(g, "axes", 0), tn__attr_float(g, "epsilon", 1e-5),
                            tn__attr_string(g, "scale", "twice")};
  make(g, "rms_norm", attrs, 3);
}
static tn__value *of(tn__graph *g, const char *name, tn_dtype dtype, int64_t rows, int64_t columns) {
  const tn__expr *dims[] = {tn__ir_index(tn__graph_ir(g), rows), tn__ir_index(tn__graph_ir(g), columns)};
  return tn__graph_input(g, name, dtype, 2, dims);
}
static void words_for_numbers(tn__graph *g) {
  tn__value *x = of(g, "x", TN_F32, 2, 3);
  tn__g_quantize(g, x, x, NULL, TN_I32, 32, false);
}
static void nine_bits(tn__graph *g) {
  tn__value *x = of(g, "x", TN_F32, 2, 3);
  tn__g_quantize(g, x, x, NULL, TN_U8, 9, false);
}
static void long_zeros(tn__graph *g) {
  tn__value *a = of(g, "a", TN_U8, 2, 3), *b = of(g, "b", TN_U8, 3, 4);
  tn__g_quantized_matmul(g, a, of(g, "z", TN_U8, 5, 1), b, NULL);
}
static void odd_bias(tn__graph *g) {
  tn__value *x = of(g, "x", TN_U8, 2, 3), *w = of(g, "w", TN_I8, 4, 3);
  const tn__expr *five = tn__ir_index(tn__graph_ir(g), 5);
  tn__value *bias = tn__graph_input(g, "bias", TN_I32, 1, &five);
  tn__g_quantized_convolution(g, x, NULL, w, NULL, bias, &(tn__conv_spec){.feature_groups = 1});
}
static void odd_approximation(tn__graph *g) {
  const tn__attr attrs[] = {tn__attr_string(g, "approximate", "sine")};
  make(g, "gelu", attrs, 1);
}

static void attributes_are_checked(void **state) {
  static const struct {
    void (*body)(tn__graph *g);
    const char *text;
  } cases[] = {
      {axes_beyond, "softmax: axes must be different ones of the 1 dimensions of the operand"},
      {axis_alone, "log_softmax: has no attribute axis"},
      {no_epsilon, "layer_norm: needs the attribute epsilon"},
      {statistics_of_a_division, "layer_norm: statistics are not made where scale is divide"},
      {odd_scale, "rms_norm: scale \"twice\" is not one of rsqrt, divide and reciprocal"},
      {words_for_numbers, "quantize: the result can't be of type i32"},
      {nine_bits, "quantize: u8 has no 9 bits"},
      {long_zeros, "quantized_matmul: dimension 0 of operand 2 is 5, but must be 2"},
      {odd_bias, "quantized_convolution: dimension 0 of operand 4 is 5, but must be 4"},
      {odd_approximation, "gelu: approximate \"sine\" is neither none nor tanh"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    graph_tear_down(state);
    graph_set_up(state);
    check_throws(state, cases[i].body, TN_INVALID_ARGUMENT, cases[i].text);
  }
}

/* ---- whole through the passes ------------------------------------------------------------------------------------ */

static void composites_of_constants_are_folded(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *c = constant_of(g, TN_F32, 2, (int64_t[]){3, 4});
  tn__graph_output(g, "rows", tn__g_softmax(g, c, 1, TN__SOFTMAX_PLAIN));
  tn__graph_output(g, "splat", tn__g_gelu(g, splat_of(g, 0.5, 2, (int64_t[]){1024, 1024}), false));
  CHECK_PASSES(state, 1e-6, tn__pass_fold);
  assert_int_equal(tn__graph_node_count(g), 0);
}

#define GRAPH_TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)

/* A body that a node carries along can be put back, constants and all. */
static void attention_is_its_body(void **state) {
  tn__graph *g = graph_of(state);
  const int64_t batch = 0, third = 2, second = 1;
  tn__value *q = input_of(g, "q", TN_F32, 3, (int64_t[]){2, 9, 4}),
            *k = input_of(g, "k", TN_F32, 3, (int64_t[]){2, -1, 4});
  tn__value *v = tn__graph_input(g, "v", TN_F32, 3, (const tn__expr *[]){k->dims[0], k->dims[1], k->dims[2]});
  tn__value *scores = tn__g_dot_general(g, q, k, &batch, &batch, 1, &third, &third, 1, TN_F32);
  tn__value *mask = tn__graph_input(g, "mask", TN_F32, 1, &k->dims[1]);
  scores = tn__g_binary_s(g, "multiply", scores, 0.5);
  scores = tn__g_binary(g, "add", scores, tn__g_broadcast_in_dim(g, mask, 3, scores->dims, &third));
  tn__value *weights = tn__g_softmax(g, scores, 2, TN__SOFTMAX_PLAIN);
  tn__graph_output(g, "y", tn__g_dot_general(g, weights, v, &batch, &batch, 1, &third, &second, 1, TN_F32));
  const int64_t sizes[] = {5, 5, 5};
  pass_fn *const whole[] = {tn__pass_attention}, *const apart[] = {pass_expand_all};
  check_passes_sized(state, whole, 1, sizes, 1e-6);
  assert_int_equal(tn__graph_node_count(g), 1);
  assert_non_null(strstr(text_of(g), "attention(q, k, mask, v)"));
  check_passes_sized(state, apart, 1, sizes, 0);
  check_ops(g, "attention", 0);
  check_ops(g, "dot_general", 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      GRAPH_TEST(every_composite_is_its_body),
      GRAPH_TEST(quantised_composites_are_their_bodies),
      GRAPH_TEST(rows_of_negative_infinity_may_be_zeros),
      GRAPH_TEST(gelu_does_not_overflow),
      GRAPH_TEST(attributes_are_checked),
      GRAPH_TEST(composites_of_constants_are_folded),
      GRAPH_TEST(attention_is_its_body),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
