/* Sums of products of 8-bit integers: compiled kernels, for every instruction set that this machine has, against the
 * sums as they are written, element by element and exactly; and what the pass that brings four of them together
 * does. */
#include <stdio.h>
#include <stdlib.h>

#include "target/text/text.h"
#include "unit/compile_check.h"
#include "unit/pass_check.h"

/* ---- problems ---------------------------------------------------------------------------------------------------- */

enum zero_kind { NO_ZERO, ONE_ZERO, EACH_ZERO, FED_ZERO }; /* each: for each row of a or column of b; fed: an input */

/* A product [batch, rows, depth] x [batch, depth, columns], or a convolution with an image and a window on the side. */
typedef struct problem {
  int64_t batch, rows, depth, columns;
  tn_dtype a, b;
  int a_zero, b_zero;
  bool fed;                                                     /* b is an input */
  int64_t height, width, window, stride, pad, dilation, groups; /* window 0: a product; depth: all channels */
  uint8_t *data[2], zero_bytes[2][64];
  int64_t zero[2][64];
} problem;

enum { MOST = 80 };

typedef struct problems {
  problem list[MOST];
  int count, first, step; /* those that are computed: from `first` on, one in `step` */
  DLTensor inputs[3 * MOST];
  int64_t shapes[3 * MOST][4];
  int input_count;
} problems;

static uint32_t roll(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static int64_t element(tn_dtype dtype, const uint8_t *data, int64_t at) {
  return dtype == TN_U8 ? (int64_t)data[at] : (int64_t)(int8_t)data[at];
}

/* Half of the elements are the extremes: 255, 0, 127 or -128. */
static uint8_t *bytes_of(uint32_t *state, int64_t count) {
  static const uint8_t extremes[] = {0, 255, 127, 128};
  uint8_t *data = malloc((size_t)count + 1);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) data[i] = roll(state) % 2 == 0 ? extremes[roll(state) % 4] : (uint8_t)roll(state);
  return data;
}

static bool is_convolution(const problem *p) { return p->window > 0; }

static int64_t size_after(const problem *p, int64_t size) {
  return (size + 2 * p->pad - (p->window - 1) * p->dilation - 1) / p->stride + 1;
}

static int64_t a_count(const problem *p) {
  return p->batch * p->depth * (is_convolution(p) ? p->height * p->width : p->rows);
}

static int64_t b_count(const problem *p) {
  if (is_convolution(p)) return p->columns * (p->depth / p->groups) * p->window * p->window;
  return (p->fed ? p->batch : 1) * p->depth * p->columns;
}

static void add(problems *all, problem p, uint32_t *state) {
  assert_true(all->count < MOST);
  p.data[0] = bytes_of(state, a_count(&p));
  p.data[1] = bytes_of(state, b_count(&p));
  for (int side = 0; side < 2; side++) {
    int kind = side == 0 ? p.a_zero : p.b_zero;
    tn_dtype dtype = side == 0 ? p.a : p.b;
    for (int i = 0; i < 64; i++) {
      uint8_t byte = (uint8_t)roll(state);
      p.zero[side][i] = kind == NO_ZERO ? 0 : kind != EACH_ZERO && i > 0 ? p.zero[side][0] : element(dtype, &byte, 0);
      p.zero_bytes[side][i] = (uint8_t)p.zero[side][i];
    }
  }
  all->list[all->count++] = p;
}

static void drop(problems *all) {
  for (int i = 0; i < all->count; i++) {
    free(all->list[i].data[0]);
    free(all->list[i].data[1]);
  }
}

static int32_t product_at(const problem *p, int64_t n, int64_t row, int64_t column) {
  int64_t sum = 0;
  const uint8_t *b = p->data[1] + (p->fed ? n * p->depth * p->columns : 0);
  for (int64_t k = 0; k < p->depth; k++)
    sum += (element(p->a, p->data[0], (n * p->rows + row) * p->depth + k) - p->zero[0][row]) *
           (element(p->b, b, k * p->columns + column) - p->zero[1][column]);
  return (int32_t)sum;
}

static int32_t convolution_at(const problem *p, int64_t n, int64_t o, int64_t y, int64_t x) {
  int64_t sum = 0, in = p->depth / p->groups, group = o / (p->columns / p->groups);
  for (int64_t c = 0; c < in; c++)
    for (int64_t r = 0; r < p->window; r++)
      for (int64_t s = 0; s < p->window; s++) {
        int64_t row = y * p->stride + r * p->dilation - p->pad, column = x * p->stride + s * p->dilation - p->pad;
        if (row < 0 || row >= p->height || column < 0 || column >= p->width) continue;
        int64_t at = ((n * p->depth + group * in + c) * p->height + row) * p->width + column;
        sum += (element(p->a, p->data[0], at) - p->zero[0][0]) *
               (element(p->b, p->data[1], ((o * in + c) * p->window + r) * p->window + s) - p->zero[1][o]);
      }
  return (int32_t)sum;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static tn__value *fed_of(tn__graph *g, problems *all, tn_dtype dtype, int rank, const int64_t *shape, void *data) {
  char name[16];
  const tn__expr *dims[4];
  int at = all->input_count++;
  snprintf(name, sizeof name, "x%d", at);
  for (int i = 0; i < rank; i++) {
    all->shapes[at][i] = shape[i];
    dims[i] = tn__ir_index(tn__graph_ir(g), shape[i]);
  }
  all->inputs[at] = (DLTensor){.data = data,
                               .device = {kDLCPU, 0},
                               .ndim = rank,
                               .dtype = {dtype == TN_U8 ? kDLUInt : kDLInt, 8, 1},
                               .shape = all->shapes[at]};
  return tn__graph_input(g, name, dtype, rank, dims);
}

/* The zero points of one side, of `count` elements along dimension `axis` of `rank`. */
static tn__value *zero_of(tn__graph *g, problems *all, problem *p, int side, int count, int axis, int rank) {
  int kind = side == 0 ? p->a_zero : p->b_zero;
  tn_dtype dtype = side == 0 ? p->a : p->b;
  int64_t shape[4] = {1, 1, 1, 1};
  uint8_t *bytes = p->zero_bytes[side];
  if (kind == NO_ZERO) return NULL;
  if (kind == ONE_ZERO) return tn__g_constant_value(g, dtype, 0, shape, bytes, false);
  if (kind == FED_ZERO) return fed_of(g, all, dtype, 0, shape, bytes);
  shape[axis] = count;
  return tn__g_constant_value(g, dtype, rank, shape, bytes, false);
}

static tn__value *build_product(tn__graph *g, problems *all, problem *p) {
  int64_t left[] = {p->batch, p->rows, p->depth}, right[] = {p->batch, p->depth, p->columns};
  tn__value *a = fed_of(g, all, p->a, 3, left, p->data[0]);
  tn__value *b = p->fed ? fed_of(g, all, p->b, 3, right, p->data[1])
                        : tn__g_constant_value(g, p->b, 2, right + 1, p->data[1], false);
  tn__value *a_zero = zero_of(g, all, p, 0, (int)p->rows, 1, 3);
  return tn__g_matmul_bytes(g, a, a_zero, b, zero_of(g, all, p, 1, (int)p->columns, p->fed ? 2 : 1, p->fed ? 3 : 2));
}

static tn__value *build_convolution(tn__graph *g, problems *all, problem *p) {
  int64_t image[] = {p->batch, p->depth, p->height, p->width};
  int64_t window[] = {p->columns, p->depth / p->groups, p->window, p->window};
  tn__conv_spec spec = {.spatial = 2, .feature_groups = p->groups};
  for (int i = 0; i < 2; i++) {
    spec.strides[i] = p->stride;
    spec.lhs_dilation[i] = 1;
    spec.rhs_dilation[i] = p->dilation;
    spec.low[i] = spec.high[i] = tn__ir_index(tn__graph_ir(g), p->pad);
  }
  tn__value *x = fed_of(g, all, p->a, 4, image, p->data[0]);
  tn__value *w = tn__g_constant_value(g, p->b, 4, window, p->data[1], false), *x_zero = zero_of(g, all, p, 0, 1, 0, 0);
  tn__value *w_zero = zero_of(g, all, p, 1, (int)p->columns, 1, 4);
  assert_true(tn__g_convolution_takes_bytes(x, w, w_zero, &spec));
  return tn__g_convolution_bytes(g, x, x_zero, w, w_zero, NULL, &spec);
}

static void build(tn__graph *g, const void *from) {
  problems *all = (problems *)(uintptr_t)from;
  all->input_count = 0;
  for (int i = all->first; i < all->count; i += all->step) {
    char name[16];
    problem *p = &all->list[i];
    snprintf(name, sizeof name, "y%d", i);
    tn__graph_output(g, name, is_convolution(p) ? build_convolution(g, all, p) : build_product(g, all, p));
  }
}

static void check_sums(const problem *p, int number, const int32_t *got, const char *target) {
  int64_t shape[4] = {p->batch, 1, p->rows, p->columns};
  if (is_convolution(p)) shape[1] = p->columns, shape[2] = size_after(p, p->height), shape[3] = size_after(p, p->width);
  for (int64_t n = 0; n < shape[0]; n++)
    for (int64_t o = 0; o < shape[1]; o++)
      for (int64_t y = 0; y < shape[2]; y++)
        for (int64_t x = 0; x < shape[3]; x++) {
          int32_t want = is_convolution(p) ? convolution_at(p, n, o, y, x) : product_at(p, n, y, x);
          int32_t is = got[((n * shape[1] + o) * shape[2] + y) * shape[3] + x];
          if (is != want)
            fail_msg("problem %d, depth %d, on %s: [%d, %d, %d, %d] is %d, not %d", number, (int)p->depth, target,
                     (int)n, (int)o, (int)y, (int)x, is, want);
        }
}

static bool runs_here(const char *text) {
  tn__target target;
  char missing[256];
  check_ok(tn__target_parse(text, &target));
  if (target.cpu.arch != tn__host_arch()) return false;
  return !tn__target_missing(target.cpu.arch, target.cpu.features, tn__host_features(), missing, sizeof missing);
}

/* All problems on this machine, and a third of them, others each time, for each target that it can run. */
static void check_everywhere(problems *all) {
  static const char *const targets[] = {
      "native", "x86-64-v4+avx512vnni", "x86-64-v4", "x86-64-v3+avxvnni", "x86-64-v3", "x86-64-v2", "x86-64",
      "aarch64"};
  int ran = 0;
  for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
    if (!runs_here(targets[t])) continue;
    all->step = t == 0 ? 1 : 3;
    all->first = t == 0 ? 0 : ran % 3;
    compile_case k = {.build_from = build, .from = all, .threads = t % 2 == 0 ? 1 : 2, .target = targets[t]};
    tn_session *session = compile(&k);
    check_ok(tn_session_invoke_with_outputs(session, NULL, all->inputs, (size_t)all->input_count, NULL, 0));
    for (int i = all->first, output = 0; i < all->count; i += all->step, output++) {
      DLTensor got;
      check_ok(tn_session_get_output(session, NULL, (size_t)output, &got));
      assert_int_equal(got.dtype.code, kDLInt);
      assert_int_equal(got.dtype.bits, 32);
      check_sums(&all->list[i], i, got.data, targets[t]);
    }
    finish(&k, session);
    ran++;
  }
  assert_true(ran >= 2);
}

static tn_dtype dtype_of(int i) { return i % 2 == 0 ? TN_U8 : TN_I8; }

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void products_are_exact(void **state) {
  problems *all = calloc(1, sizeof *all);
  uint32_t seed = 1;
  assert_non_null(all);
  for (int k = 1; k <= 70; k++)
    add(all,
        (problem){.batch = 1 + k % 2,
                  .rows = 1 + k * 5 % 17,
                  .depth = k,
                  .columns = 1 + k * 11 % 43,
                  .a = dtype_of(k),
                  .b = dtype_of(k / 2),
                  .a_zero = k * 7 / 4 % 4,
                  .b_zero = k * 5 / 4 % 4,
                  .fed = k % 9 == 0},
        &seed);
  check_everywhere(all);
  drop(all);
  free(all);
  (void)state;
}

/* Sums that reach the ends of what 16 bits hold after two products, and of what is added up. */
static void extreme_products_are_exact(void **state) {
  problems *all = calloc(1, sizeof *all);
  uint32_t seed = 1;
  assert_non_null(all);
  static const uint8_t values[][2] = {{255, 127}, {255, 128}, {128, 128}, {0, 128}, {127, 127}};
  for (int i = 0; i < 10; i++) {
    add(all, (problem){.batch = 1, .rows = 5, .depth = 1027, .columns = 37, .a = dtype_of(i / 5), .b = TN_I8}, &seed);
    memset(all->list[i].data[0], values[i % 5][0], (size_t)a_count(&all->list[i]));
    memset(all->list[i].data[1], values[i % 5][1], (size_t)b_count(&all->list[i]));
  }
  check_everywhere(all);
  drop(all);
  free(all);
  (void)state;
}

static void convolutions_are_exact(void **state) {
  static const problem cases[] = {
      {.depth = 64, .columns = 64, .height = 9, .width = 11, .window = 3, .stride = 1, .pad = 1, .dilation = 1},
      {.depth = 3, .columns = 17, .height = 13, .width = 10, .window = 3, .stride = 2, .pad = 1, .dilation = 1},
      {.depth = 16, .columns = 33, .height = 7, .width = 7, .window = 1, .stride = 1, .pad = 0, .dilation = 1},
      {.depth = 8, .columns = 9, .height = 12, .width = 12, .window = 1, .stride = 2, .pad = 1, .dilation = 1},
      {.depth = 5, .columns = 20, .height = 12, .width = 9, .window = 3, .stride = 1, .pad = 2, .dilation = 2},
      {.depth = 1, .columns = 6, .height = 12, .width = 9, .window = 5, .stride = 1, .pad = 3, .dilation = 1},
      {.depth = 12, .columns = 40, .height = 4, .width = 5, .window = 3, .stride = 1, .pad = 3, .dilation = 3},
  };
  problems *all = calloc(1, sizeof *all);
  uint32_t seed = 7;
  assert_non_null(all);
  for (int i = 0; i < 28; i++) {
    problem p = cases[i % 7];
    p.batch = 1 + i % 2;
    p.groups = 1;
    p.a = dtype_of(i / 7), p.b = dtype_of(i / 14);
    p.a_zero = i % 3 == 0 ? ONE_ZERO : i % 3 == 1 ? FED_ZERO : NO_ZERO;
    p.b_zero = i / 2 % 4;
    if (p.b_zero == FED_ZERO) p.b_zero = NO_ZERO;
    add(all, p, &seed);
  }
  for (int i = 0; i < 4; i++) /* groups */
    add(all,
        (problem){.batch = 1,
                  .depth = i % 2 == 0 ? 32 : 12,
                  .columns = i % 2 == 0 ? 64 : 9,
                  .height = 8,
                  .width = 9,
                  .window = 3,
                  .stride = 1,
                  .pad = 1,
                  .dilation = 1,
                  .groups = i % 2 == 0 ? 4 : 3,
                  .a = dtype_of(i / 2),
                  .b = TN_I8,
                  .a_zero = ONE_ZERO},
        &seed);
  check_everywhere(all);
  drop(all);
  free(all);
  (void)state;
}

static void four_bytes_come_together(void **state) {
  tn__graph *g = graph_of(state);
  tn__ir *ir = tn__graph_ir(g);
  tn__value *a = input_of(g, "a", TN_U8, 2, (int64_t[]){-1, 12}),
            *x = input_of(g, "x", TN_I8, 4, (int64_t[]){1, 5, 6, 7});
  tn__value *b = constant_of(g, TN_I8, 2, (int64_t[]){12, 9}), *w = constant_of(g, TN_I8, 4, (int64_t[]){8, 5, 3, 3});
  tn__value *zero = tn__g_scalar_i64(g, TN_U8, 3);
  tn__conv_spec spec = {.spatial = 2, .feature_groups = 1, .strides = {1, 1}, .lhs_dilation = {1, 1}};
  for (int i = 0; i < 2; i++) {
    spec.rhs_dilation[i] = 1;
    spec.low[i] = spec.high[i] = tn__ir_index(ir, 1);
  }
  tn__graph_output(g, "y", tn__g_matmul_bytes(g, a, zero, b, NULL));
  tn__graph_output(g, "z", tn__g_convolution_bytes(g, x, NULL, w, NULL, NULL, &spec));
  pass_fn *const passes[] = {tn__pass_layout, tn__pass_quads};
  const int64_t sizes[] = {6};
  check_passes_sized(state, passes, 2, sizes, 0);
  check_ops(g, "relayout", 4); /* two operands of each */
  check_ops(g, "pad", 2);      /* five channels become eight, in both */
}

static void a_row_by_a_fed_matrix_stays_as_it_is(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_U8, 2, (int64_t[]){1, 12}), *c = input_of(g, "c", TN_U8, 2, (int64_t[]){3, 12});
  tn__value *b = input_of(g, "b", TN_I8, 2, (int64_t[]){12, 9});
  tn__graph_output(g, "y", tn__g_matmul_bytes(g, a, NULL, b, NULL));
  tn__graph_output(g, "z", tn__g_matmul_bytes(g, c, NULL, b, NULL));
  pass_fn *const passes[] = {tn__pass_quads};
  check_passes_sized(state, passes, 1, NULL, 0);
  check_ops(g, "relayout", 2);
}

/* Of channels that are one another's neighbours there must be four in each group, and zero points of weights beside
 * them are not summed group by group. */
static void other_convolutions_stay_as_they_are(void **state) {
  tn__graph *g = graph_of(state);
  const int64_t image[] = {12, 12, 12, 12};
  tn__value *x = input_of(g, "x", TN_U8, 4, image), *floats = input_of(g, "f", TN_F32, 4, image);
  tn__value *w = constant_of(g, TN_I8, 4, (int64_t[]){12, 2, 3, 3}),
            *v = constant_of(g, TN_I8, 4, (int64_t[]){12, 4, 3, 3});
  tn__conv_spec six = {.feature_groups = 6}, three = {.feature_groups = 3};
  assert_false(tn__g_convolution_takes_bytes(x, w, NULL, &six));
  assert_true(tn__g_convolution_takes_bytes(x, v, NULL, &three));
  assert_true(tn__g_convolution_takes_bytes(x, v, tn__g_scalar_i64(g, TN_I8, 0), &three));
  assert_false(tn__g_convolution_takes_bytes(x, v, tn__g_scalar_i64(g, TN_I8, 1), &three));
  assert_false(tn__g_convolution_takes_bytes(floats, v, NULL, &three));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_exact),       cmocka_unit_test(extreme_products_are_exact),
      cmocka_unit_test(convolutions_are_exact),   TEST(four_bytes_come_together),
      TEST(a_row_by_a_fed_matrix_stays_as_it_is), TEST(other_convolutions_stay_as_they_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
