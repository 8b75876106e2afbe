/* Every family of operators, declared, lowered and interpreted, against values worked out by hand or by plain loops. */
#include "unit/graph_check.h"

static const float six[6] = {1, -2, 3, -4, 5, -6};

static const tn__expr *ix(tn__graph *g, int64_t value) { return tn__ir_index(tn__graph_ir(g), value); }

static void computes_elementwise(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3}), *b = input_of(g, "b", TN_F32, 1, (int64_t[]){3});
  const tensor in[] = {{six, {2, 3}}, {(float[]){10, 20, 30}, {3}}};
  tn__value *sum = tn__g_binary(g, "add", a, b);
  check_type(sum, "f32[2, 3]");
  CHECK_RESULT(state, in, sum, 11, 18, 33, 6, 25, 24);
  CHECK_RESULT(state, in, tn__g_binary_s(g, "maximum", a, 0), 1, 0, 3, 0, 5, 0);
  CHECK_RESULT(state, in, tn__g_unary(g, "sign", a), 1, -1, 1, -1, 1, -1);
  CHECK_RESULT(state, in, tn__g_select(g, tn__g_compare(g, TN__CMP_GT, a, tn__g_scalar(g, TN_F32, 2)), a, b), 10, 20, 3,
               10, 5, 30);
  CHECK_RESULT(state, in, tn__g_unary(g, "logistic", a), 0.7310585786, 0.1192029220, 0.9525741268, 0.0179862100,
               0.9933071491, 0.0024726232);
  CHECK_RESULT(state, in, tn__g_clamp(g, a, -3, 4), 1, -2, 3, -3, 4, -3);
}

static void divides_integers(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_I32, 1, (int64_t[]){4}), *b = input_of(g, "b", TN_I32, 1, (int64_t[]){4});
  const tensor in[] = {{(int32_t[]){7, -7, 7, -7}, {4}}, {(int32_t[]){2, 2, -2, -2}, {4}}};
  CHECK_RESULT(state, in, tn__g_binary(g, "divide", a, b), 3, -3, -3, 3);
  CHECK_RESULT(state, in, tn__g_binary(g, "remainder", a, b), 1, -1, 1, -1);
  CHECK_RESULT(state, in, tn__g_binary(g, "floor_mod", a, b), 1, 1, -1, -1);
  const tensor zero[] = {{(int32_t[]){7, 7, 7, 7}, {4}}, {(int32_t[]){2, 0, 2, 2}, {4}}};
  tensor out;
  tn_status *status = run_graph(state, zero, a, &out);
  assert_int_equal(tn_status_code_of(status), TN_OUT_OF_RANGE);
  tn_status_free(status);
}

static void rounds_16_bit_types(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F16, 1, (int64_t[]){2});
  uint16_t data[2];
  for (int i = 0; i < 2; i++) tn__store_f64(TN_F16, data, i, i == 0 ? 2048 : 0.1);
  const tensor in[] = {{data, {2}}};
  /* 2048 + 1 lies between two halves and rounds to the even one, each time. */
  tn__value *one = tn__g_binary_s(g, "add", tn__g_binary_s(g, "add", a, 1), 1);
  tensor out;
  check_ok(run_graph(state, in, one, &out));
  assert_float_equal(tn__load_f64(TN_F16, out.data, 0), 2048, 0);
  /* A sum is carried in f32 and rounded once. */
  const int64_t axis = 0;
  tn__value *many = tn__g_full(g, TN_F16, 1, 1, (const tn__expr *[]){ix(g, 3000)});
  CHECK_RESULT(state, in, tn__g_reduce(g, TN__REDUCE_SUM, many, &axis, 1, false), 3000);
}

static void moves_elements(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3});
  const tensor in[] = {{six, {2, 3}}};
  CHECK_RESULT(state, in, tn__g_transpose(g, a, (int64_t[]){1, 0}), 1, -4, -2, 5, 3, -6);
  CHECK_RESULT(state, in, tn__g_reshape(g, a, 3, (const tn__expr *[]){ix(g, 3), ix(g, 1), ix(g, 2)}), 1, -2, 3, -4, 5,
               -6);
  CHECK_RESULT(state, in,
               tn__g_slice(g, a, (const tn__expr *[]){ix(g, 1), ix(g, 0)}, (const tn__expr *[]){ix(g, 2), ix(g, 3)},
                           (int64_t[]){1, 2}),
               -4, -6);
  CHECK_RESULT(state, in,
               tn__g_pad(g, a, tn__g_scalar(g, TN_F32, 9), (const tn__expr *[]){ix(g, 0), ix(g, -1)},
                         (const tn__expr *[]){ix(g, 1), ix(g, 1)}, (int64_t[]){1, 0}),
               -2, 3, 9, 9, 9, 9, 5, -6, 9, 9, 9, 9);
  CHECK_RESULT(state, in, tn__g_concatenate(g, (tn__value *[]){a, a}, 2, 1), 1, -2, 3, 1, -2, 3, -4, 5, -6, -4, 5, -6);
  CHECK_RESULT(state, in, tn__g_reverse(g, a, (int64_t[]){0, 1}, 2), -6, 5, -4, 3, -2, 1);
  CHECK_RESULT(state, in, tn__g_iota(g, TN_I32, 2, (const tn__expr *[]){ix(g, 2), ix(g, 2)}, 1), 0, 1, 0, 1);
  CHECK_RESULT(state, in,
               tn__g_broadcast_in_dim(g, a, 3, (const tn__expr *[]){ix(g, 2), ix(g, 2), ix(g, 3)}, (int64_t[]){1, 2}),
               1, -2, 3, -4, 5, -6, 1, -2, 3, -4, 5, -6);
}

static void reshapes_symbolic_shapes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){-1, -2, 4});
  const tn__expr *n = a->dims[0], *m = a->dims[1];
  tn__value *heads = tn__g_reshape(g, a, 4, (const tn__expr *[]){n, m, ix(g, 2), ix(g, 2)});
  check_type(heads, "f32[n1, n2, 2, 2]");
  tn__value *turned = tn__g_transpose(g, heads, (int64_t[]){0, 2, 1, 3});
  tn__value *rows = tn__g_reshape(
      g, turned, 2,
      (const tn__expr *[]){tn__ir_mul_i(tn__graph_ir(g), tn__ir_mul(tn__graph_ir(g), n, m), 2), ix(g, 2)});
  assert_int_equal(tn__graph_check_count(g), 0);
  float data[8];
  for (int i = 0; i < 8; i++) data[i] = (float)i;
  const tensor in[] = {{data, {1, 2, 4}}};
  CHECK_RESULT(state, in, rows, 0, 1, 4, 5, 2, 3, 6, 7);
}

static void reduces(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3});
  const tensor in[] = {{six, {2, 3}}};
  const int64_t axis = 1;
  CHECK_RESULT(state, in, tn__g_reduce(g, TN__REDUCE_SUM, a, &axis, 1, true), 2, -5);
  CHECK_RESULT(state, in, tn__g_reduce(g, TN__REDUCE_MAX, a, (int64_t[]){0}, 1, false), 1, 5, 3);
  CHECK_RESULT(state, in, tn__g_reduce(g, TN__REDUCE_PROD, a, (int64_t[]){0, 1}, 2, false), -720);
  CHECK_RESULT(state, in, tn__g_mean(g, a, (int64_t[]){0, 1}, 2, false), -0.5);
  CHECK_RESULT(state, in, tn__g_argreduce(g, a, 1, true, false, false, TN_I64), 2, 1);
  CHECK_RESULT(state, in, tn__g_argreduce(g, a, 0, false, false, true, TN_I64), 1, 0, 1);
  CHECK_RESULT(state, in, tn__g_softmax(g, a, 1, TN__SOFTMAX_PLAIN), 0.118499655, 0.00589975064, 0.875600595,
               0.000123379241, 0.999859922, 1.66976454e-05);
  CHECK_RESULT(state, in, tn__g_cumulative(g, TN__REDUCE_SUM, a, 1, false, false), 1, -1, 2, -4, 1, -5);
  CHECK_RESULT(state, in, tn__g_cumulative(g, TN__REDUCE_SUM, a, 1, true, false), 0, 1, -1, 0, -4, 1);
  CHECK_RESULT(state, in, tn__g_cumulative(g, TN__REDUCE_SUM, a, 1, false, true), 2, 1, 3, -5, -1, -6);
  CHECK_RESULT(state, in, tn__g_cumulative(g, TN__REDUCE_SUM, a, 1, true, true), 1, 3, 0, -1, -6, 0);
  tn__value *thin = input_of(g, "b", TN_F32, 2, (int64_t[]){6, 1});
  const tensor column[] = {{six, {2, 3}}, {six, {6, 1}}};
  CHECK_RESULT(state, column, tn__g_cumulative(g, TN__REDUCE_SUM, thin, 1, false, false), 1, -2, 3, -4, 5, -6);
  CHECK_RESULT(state, column, tn__g_cumulative(g, TN__REDUCE_PROD, thin, 1, true, true), 1, 1, 1, 1, 1, 1);
}

static void pools(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 4, (int64_t[]){1, 1, 3, 3});
  const tensor in[] = {{(float[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}}};
  const int64_t window[] = {1, 1, 2, 2}, strides[] = {1, 1, 2, 2}, ones[] = {1, 1, 1, 1};
  const tn__expr *none[4], *one[4];
  for (int i = 0; i < 4; i++) none[i] = ix(g, 0), one[i] = ix(g, i > 1);
  tn__value *max = tn__g_reduce_window(g, TN__REDUCE_MAX, a, window, strides, ones, one, none);
  check_type(max, "f32[1, 1, 2, 2]");
  CHECK_RESULT(state, in, max, 1, 3, 7, 9);
  CHECK_RESULT(state, in, tn__g_reduce_window(g, TN__REDUCE_SUM, a, window, ones, ones, none, none), 12, 16, 24, 28);
  CHECK_RESULT(state, in, tn__g_argreduce_window(g, a, window, strides, ones, one, none, false, TN_I64), 0, 2, 6, 8);
  CHECK_RESULT(state, in, tn__g_argreduce_window(g, a, window, ones, ones, none, none, true, TN_I64), 4, 7, 5, 8);
}

/* The node that makes `result`, with another right operand. */
static tn__value *right_in(tn__graph *g, const tn__value *result, tn__value *right) {
  const tn__node *node = result->producer;
  return tn__node_create(g, node->op, (tn__value *[]){node->inputs[0], right}, 2, node->attrs, node->attr_count, NULL,
                         0)
      ->outputs[0];
}

static void multiplies_matrices(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){-1, 2, 3}),
            *b = input_of(g, "b", TN_F32, 2, (int64_t[]){3, 5});
  float a_data[12], b_data[15];
  double want[20];
  for (int i = 0; i < 12; i++) a_data[i] = (float)(i % 5) - 2;
  for (int i = 0; i < 15; i++) b_data[i] = (float)(i % 7) - 3;
  for (int i = 0; i < 20; i++) {
    want[i] = 0;
    for (int k = 0; k < 3; k++) want[i] += (double)(a_data[i / 5 * 3 + k] * b_data[k * 5 + i % 5]);
  }
  const tensor in[] = {{a_data, {2, 2, 3}}, {b_data, {3, 5}}};
  tn__value *c = tn__g_matmul(g, a, b, TN_F32);
  check_type(c, "f32[n1, 2, 5]");
  check_result(state, in, c, want, 20, 0);
  const tn__operand_use use = {.dtype = TN_F32, .rank = 2, .order = {0, 1}, .columns = 5};
  static const int64_t widths[] = {4, 5};
  static const char *const types[] = {"f32[2, 3, 4] of [3, 5] in {1/4, 0, 1%4}",
                                      "f32[1, 3, 5] of [3, 5] in {1/5, 0, 1%5}"};
  for (int i = 0; i < 2; i++) {
    tn__layout layout = tn__layout_panels(&use, widths[i]);
    tn__value *packed = tn__g_relayout(g, b, &layout);
    check_type(packed, types[i]);
    tn__value *same = right_in(g, c, packed);
    check_type(same, "f32[n1, 2, 5]");
    check_result(state, in, same, want, 20, 0);
  }
}

static void multiplies_batches_and_vectors(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){2, 1, 2}),
            *b = input_of(g, "b", TN_F32, 3, (int64_t[]){2, 2, 1});
  tn__value *v = input_of(g, "v", TN_F32, 1, (int64_t[]){2});
  const tensor in[] = {{(float[]){1, 2, 3, 4}, {2, 1, 2}}, {(float[]){5, 6, 7, 8}, {2, 2, 1}}, {(float[]){1, 10}, {2}}};
  CHECK_RESULT(state, in, tn__g_matmul(g, a, b, TN_F32), 17, 53);
  tn__value *av = tn__g_matmul(g, a, v, TN_F32), *vb = tn__g_matmul(g, v, b, TN_F32);
  check_type(av, "f32[2, 1]");
  check_type(vb, "f32[2, 1]");
  CHECK_RESULT(state, in, av, 21, 43);
  CHECK_RESULT(state, in, vb, 65, 87);
  CHECK_RESULT(state, in, tn__g_matmul(g, v, v, TN_F32), 101);
}

/* ---- convolution against plain loops ----------------------------------------------------------------------------- */

enum { N = 2, C = 4, H = 5, W = 6, O = 6, KH = 3, KW = 2, GROUPS = 2 };

typedef struct conv_case {
  int stride, dilation, low, high, lhs_dilation;
  bool flip, last;
} conv_case;

static float conv_x(int n, int c, int h, int w) { return (float)((n * 31 + c * 17 + h * 5 + w * 3) % 11) - 5; }
static float conv_w(int o, int i, int h, int w) { return (float)((o * 13 + i * 7 + h * 3 + w) % 9) - 4; }

static double conv_want(const conv_case *t, int n, int o, int y, int x) {
  double sum = 0;
  for (int i = 0; i < C / GROUPS; i++)
    for (int kh = 0; kh < KH; kh++)
      for (int kw = 0; kw < KW; kw++) {
        int h = y * t->stride + kh * t->dilation - t->low, w = x * t->stride + kw * t->dilation - t->low;
        if (h < 0 || w < 0 || h % t->lhs_dilation != 0 || w % t->lhs_dilation != 0) continue;
        h /= t->lhs_dilation;
        w /= t->lhs_dilation;
        if (h >= H || w >= W) continue;
        int fh = t->flip ? KH - 1 - kh : kh, fw = t->flip ? KW - 1 - kw : kw;
        sum += (double)(conv_x(n, o / (O / GROUPS) * (C / GROUPS) + i, h, w) * conv_w(o, i, fh, fw));
      }
  return sum;
}

static void convolves_once(void **state, const conv_case *t) {
  tn__graph *g = tn__graph_create(tn__graph_ir(graph_of(state)), "conv");
  ((graph_fixture *)*state)->graph = g;
  static float x[N * C * H * W], k[O * C / GROUPS * KH * KW];
  const int I = C / GROUPS;
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int h = 0; h < H; h++)
        for (int w = 0; w < W; w++)
          x[t->last ? ((n * H + h) * W + w) * C + c : ((n * C + c) * H + h) * W + w] = conv_x(n, c, h, w);
  for (int o = 0; o < O; o++)
    for (int i = 0; i < I; i++)
      for (int h = 0; h < KH; h++)
        for (int w = 0; w < KW; w++)
          k[t->last ? ((h * KW + w) * I + i) * O + o : ((o * I + i) * KH + h) * KW + w] = conv_w(o, i, h, w);
  tn__value *a = input_of(g, "x", TN_F32, 4, t->last ? (int64_t[]){-1, H, W, C} : (int64_t[]){-1, C, H, W});
  tn__value *b = input_of(g, "k", TN_F32, 4, t->last ? (int64_t[]){KH, KW, I, O} : (int64_t[]){O, I, KH, KW});
  tn__conv_spec spec = {.spatial = 2, .feature_groups = GROUPS, .flip = t->flip, .channels_last = t->last};
  for (int i = 0; i < 2; i++) {
    spec.strides[i] = t->stride;
    spec.rhs_dilation[i] = t->dilation;
    spec.lhs_dilation[i] = t->lhs_dilation;
    spec.low[i] = ix(g, t->low);
    spec.high[i] = ix(g, t->high);
  }
  tn__value *y = tn__g_convolution(g, a, b, &spec, TN_F32);
  int oh = ((H - 1) * t->lhs_dilation + 1 + t->low + t->high - (KH - 1) * t->dilation - 1) / t->stride + 1;
  int ow = ((W - 1) * t->lhs_dilation + 1 + t->low + t->high - (KW - 1) * t->dilation - 1) / t->stride + 1;
  static double want[4096];
  for (int n = 0; n < N; n++)
    for (int o = 0; o < O; o++)
      for (int h = 0; h < oh; h++)
        for (int w = 0; w < ow; w++)
          want[t->last ? ((n * oh + h) * ow + w) * O + o : ((n * O + o) * oh + h) * ow + w] = conv_want(t, n, o, h, w);
  const tensor in[] = {{x, {N, t->last ? H : C, t->last ? W : H, t->last ? C : W}}, {k, {0}}};
  check_result(state, in, y, want, (int64_t)N * O * oh * ow, 0);
  if (!t->last) return;
  const tn__operand_use use = {.dtype = TN_F32, .rank = 4, .order = {0, 1, 2, 3}, .columns = O};
  tn__layout layout = tn__layout_panels(&use, 4);
  check_result(state, in, right_in(g, y, tn__g_relayout(g, b, &layout)), want, (int64_t)N * O * oh * ow, 0);
}

static void convolves(void **state) {
  static const conv_case cases[] = {{1, 1, 0, 0, 1, false, false}, {2, 1, 1, 1, 1, false, false},
                                    {1, 2, 2, 1, 1, false, true},  {1, 1, 1, 2, 2, true, false},
                                    {2, 1, 1, 0, 1, false, true},  {1, 1, 2, 2, 3, true, true},
                                    {1, 1, 0, -1, 1, false, false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) convolves_once(state, &cases[i]);
}

/* ---- data-dependent ---------------------------------------------------------------------------------------------- */

static void gathers(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, 3}), *i = input_of(g, "i", TN_I64, 1, (int64_t[]){2});
  const tensor in[] = {{six, {2, 3}}, {(int64_t[]){2, -3}, {2}}};
  tn__value *taken = tn__g_take(g, a, i, 1);
  CHECK_RESULT(state, in, taken, 3, 1, -6, -4);
  CHECK_RESULT(state, in, tn__g_take(g, a, tn__g_scalar_i64(g, TN_I64, -1), 0), -4, 5, -6);
  tn__value *row = tn__g_reshape(g, i, 2, (const tn__expr *[]){ix(g, 1), ix(g, 2)});
  CHECK_RESULT(state, in, tn__g_take_along_axis(g, a, row, 1), 3, 1);
  tn__value *pairs =
      tn__g_reshape(g, tn__g_i64s(g, (int64_t[]){0, 1, -1, 2}, 4), 2, (const tn__expr *[]){ix(g, 2), ix(g, 2)});
  CHECK_RESULT(state, in, tn__g_gather_nd(g, a, pairs, 0), -2, -6);
  const tensor bad[] = {{six, {2, 3}}, {(int64_t[]){0, 3}, {2}}};
  tensor out;
  tn_status *status = run_graph(state, bad, taken, &out);
  assert_int_equal(tn_status_code_of(status), TN_OUT_OF_RANGE);
  tn_status_free(status);
}

static void scatters(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 1, (int64_t[]){6}), *i = input_of(g, "i", TN_I64, 1, (int64_t[]){3});
  tn__value *u = input_of(g, "u", TN_F32, 1, (int64_t[]){3});
  const tensor in[] = {{six, {6}}, {(int64_t[]){1, -1, 1}, {3}}, {(float[]){10, 20, 30}, {3}}};
  CHECK_RESULT(state, in, tn__g_scatter_elements(g, a, i, u, 0, "none"), 1, 30, 3, -4, 5, 20);
  CHECK_RESULT(state, in, tn__g_scatter_elements(g, a, i, u, 0, "add"), 1, 38, 3, -4, 5, 14);
  tn__value *m = tn__g_reshape(g, a, 2, (const tn__expr *[]){ix(g, 2), ix(g, 3)});
  tn__value *row = tn__g_i64s(g, (int64_t[]){1}, 1);
  tn__value *rows = tn__g_reshape(g, row, 2, (const tn__expr *[]){ix(g, 1), ix(g, 1)});
  tn__value *update = tn__g_reshape(g, u, 2, (const tn__expr *[]){ix(g, 1), ix(g, 3)});
  CHECK_RESULT(state, in, tn__g_scatter_nd(g, m, rows, update, "max"), 1, -2, 3, 10, 20, 30);
}

static void sorts(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, -1});
  float data[2 * 37];
  double up[2 * 37], where[2 * 37];
  for (int i = 0; i < 74; i++) data[i] = (float)((i * 23) % 17);
  for (int r = 0; r < 2; r++)
    for (int i = 0; i < 37; i++) {
      int place = 0;
      for (int j = 0; j < 37; j++)
        place += data[r * 37 + j] < data[r * 37 + i] || (data[r * 37 + j] == data[r * 37 + i] && j < i);
      up[r * 37 + place] = (double)data[r * 37 + i];
      where[r * 37 + place] = i;
    }
  const tensor in[] = {{data, {2, 37}}};
  tn__value *values, *indices;
  tn__g_sort(g, a, 1, false, &values, &indices);
  check_result(state, in, values, up, 74, 0);
  check_result(state, in, indices, where, 74, 0);
  for (int k = 0; k <= 37; k = k < 3 ? k + 1 : k + 17) { /* 0, 1, 2, 3, 20, 37 */
    double first[2 * 37], from[2 * 37];
    for (int i = 0; i < 2 * k; i++) first[i] = up[i / k * 37 + i % k], from[i] = where[i / k * 37 + i % k];
    tn__g_top_k(g, a, 1, ix(g, k), false, &values, &indices);
    assert_string_equal(values->producer->op->name, "top_k");
    check_result(state, in, values, first, 2 * k, 0);
    check_result(state, in, indices, from, 2 * k, 0);
  }
  tn__value *b = input_of(g, "b", TN_F32, 2, (int64_t[]){2, 3});
  const tensor both[] = {{data, {2, 37}}, {(float[]){1, NAN, 1, 3, 2, 4}, {2, 3}}};
  tn__g_top_k(g, b, 1, ix(g, 2), true, &values, &indices);
  assert_string_equal(values->producer->op->name, "slice");
  CHECK_RESULT(state, both, values, NAN, 1, 4, 3);
  CHECK_RESULT(state, both, indices, 1, 0, 2, 0);
  tn__g_top_k(g, b, 1, ix(g, 1), true, &values, &indices);
  assert_string_equal(values->producer->op->name, "top_k");
  CHECK_RESULT(state, both, values, NAN, 4);
  CHECK_RESULT(state, both, indices, 1, 2);
}

/* More operands of unknown sizes than are asked for in turn for each element; one of them is empty. */
static void concatenates_many(void **state) {
  tn__graph *g = graph_of(state);
  enum { COUNT = 6 };
  static float data[COUNT][8];
  tensor in[COUNT];
  tn__value *parts[COUNT];
  double rows[COUNT * 8], columns[COUNT * 8];
  int64_t sizes[COUNT] = {2, 1, 0, 3, 4, 1}, total = 0;
  for (int k = 0; k < COUNT; k++) {
    const char *name = tn__arena_printf(tn__graph_arena(g), "x%d", k);
    parts[k] = tn__graph_input(g, name, TN_F32, 2, (const tn__expr *const[]){NULL, ix(g, 2)});
    tn__graph_input_symbol(g, name, parts[k], 0);
    for (int i = 0; i < 8; i++) data[k][i] = (float)(k * 10 + i);
    in[k] = (tensor){data[k], {sizes[k], 2}};
    for (int64_t i = 0; i < 2 * sizes[k]; i++) rows[2 * total + i] = (double)data[k][i];
    total += sizes[k];
  }
  check_result(state, in, tn__g_concatenate(g, parts, COUNT, 0), rows, 2 * total, 0);
  tn__value *turned[COUNT];
  for (int k = 0; k < COUNT; k++) turned[k] = tn__g_transpose(g, parts[k], (int64_t[]){1, 0});
  for (int64_t i = 0; i < 2 * total; i++) columns[i % 2 * total + i / 2] = rows[i];
  check_result(state, in, tn__g_concatenate(g, turned, COUNT, 1), columns, 2 * total, 0);
}

static void top_k_over_a_middle_axis(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_I32, 3, (int64_t[]){2, 5, 2}), *values, *indices;
  const tensor in[] = {{(int32_t[]){3, 9, 1, 9, 4, -2, 1, 5, 5, 9, /* */ 2, 0, 6, 0, 5, 0, 3, 0, 5, 0}, {2, 5, 2}}};
  tn__g_top_k(g, a, 1, ix(g, 2), true, &values, &indices);
  CHECK_RESULT(state, in, values, 5, 9, 4, 9, 6, 0, 5, 0);
  CHECK_RESULT(state, in, indices, 4, 0, 2, 1, 1, 0, 2, 1);
  tn__g_top_k(g, a, 1, ix(g, 2), false, &values, &indices);
  CHECK_RESULT(state, in, values, 1, -2, 1, 5, 2, 0, 3, 0);
  CHECK_RESULT(state, in, indices, 1, 2, 3, 3, 0, 0, 3, 1);
}

static void finds_what_data_says(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){2, -1});
  const tensor in[] = {{(float[]){0, 1, 0, 2, 2, 0}, {2, 3}}};
  tn__value *found = tn__g_nonzero(g, a);
  check_type(found, "i64[2, find_true3_1_n]");
  CHECK_RESULT(state, in, found, 0, 1, 1, 1, 0, 1);
  tn__value *mask = tn__g_compare(g, TN__CMP_GT, a, tn__g_scalar(g, TN_F32, 1));
  CHECK_RESULT(
      state, in,
      tn__g_compress(g, a,
                     tn__g_reshape(g, mask, 1, (const tn__expr *[]){tn__ir_mul_i(tn__graph_ir(g), a->dims[1], 2)}), -1),
      2, 2);
  tn__unique u = tn__g_unique(g, a, -1, true);
  CHECK_RESULT(state, in, u.values, 0, 1, 2);
  CHECK_RESULT(state, in, u.indices, 0, 1, 3);
  CHECK_RESULT(state, in, u.inverse, 0, 1, 0, 2, 2, 0);
  CHECK_RESULT(state, in, u.counts, 3, 1, 2);
}

static void finds_unique_in_order(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_I64, 2, (int64_t[]){4, 2});
  const tensor in[] = {{(int64_t[]){2, 3, 1, 5, 2, 3, 1, 4}, {4, 2}}};
  tn__unique u = tn__g_unique(g, a, 0, true);
  CHECK_RESULT(state, in, u.values, 1, 4, 1, 5, 2, 3);
  CHECK_RESULT(state, in, u.inverse, 2, 1, 2, 0);
  tn__unique v = tn__g_unique(g, a, 0, false);
  CHECK_RESULT(state, in, v.values, 2, 3, 1, 5, 1, 4);
  CHECK_RESULT(state, in, v.indices, 0, 1, 3);
  CHECK_RESULT(state, in, v.inverse, 0, 1, 0, 2);
  CHECK_RESULT(state, in, v.counts, 2, 1, 1);
}

static void composes_masks(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *i = input_of(g, "i", TN_I32, 1, (int64_t[]){3});
  const tensor in[] = {{(int32_t[]){1, -1, 7}, {3}}};
  tn__value *on = tn__g_scalar(g, TN_F32, 5), *off = tn__g_scalar(g, TN_F32, 2);
  CHECK_RESULT(state, in, tn__g_one_hot(g, i, ix(g, 3), off, on, 1), 2, 5, 2, 2, 2, 5, 2, 2, 2);
  CHECK_RESULT(state, in, tn__g_one_hot(g, i, ix(g, 2), off, on, 0), 2, 2, 2, 5, 5, 2);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(computes_elementwise),
      TEST(divides_integers),
      TEST(rounds_16_bit_types),
      TEST(moves_elements),
      TEST(reshapes_symbolic_shapes),
      TEST(reduces),
      TEST(pools),
      TEST(multiplies_matrices),
      TEST(multiplies_batches_and_vectors),
      TEST(convolves),
      TEST(gathers),
      TEST(scatters),
      TEST(sorts),
      TEST(concatenates_many),
      TEST(top_k_over_a_middle_axis),
      TEST(finds_what_data_says),
      TEST(finds_unique_in_order),
      TEST(composes_masks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
