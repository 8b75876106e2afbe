/* What accumulations compute, in the interpreter: the order of terms, what they start from, and where they go. */
#include "ir/passes.h"
#include "unit/te_text_check.h"

enum { MOST = 8 };

/* The inputs, then room for the outputs. */
typedef struct values {
  void *buffers[MOST];
  const int64_t *scalars;
} values;

/* The plain nests, as they are and as code generators get them. */
static void interpret(tn__te *te, void *user) {
  const values *v = user;
  const tn__func *func = tn__te_lower(te);
  check_ok(tn__te_verify(te));
  check_ok(tn__func_verify(tn__te_ir(te), func));
  check_ok(tn__ir_interpret(tn__te_ir(te), func, v->buffers, v->scalars, NULL));
  func = tn__ir_lower_for_codegen(tn__te_ir(te), func, NULL);
  check_ok(tn__ir_interpret(tn__te_ir(te), func, v->buffers, v->scalars, NULL));
}

static void run(const char *text, values v) {
  te_text_job j = {.text = text, .then = interpret, .user = &v};
  check_ok(te_text_run(&j));
}

static void check_i32(const int32_t *got, const int32_t *expected, int count) {
  for (int i = 0; i < count; i++)
    if (got[i] != expected[i]) fail_msg("element %d is %d, not %d", i, got[i], expected[i]);
}

static void check_f32(const float *got, const float *expected, int count) {
  for (int i = 0; i < count; i++)
    if (got[i] != expected[i]) fail_msg("element %d is %g, not %g", i, (double)got[i], (double)expected[i]);
}

static void counts(void **state) {
  uint8_t x[] = {3, 0, 3, 1, 3, 255};
  int32_t h[256], expected[256] = {[0] = 1, [1] = 1, [3] = 3, [255] = 1};
  run("kernel f(X: u8[2, 3]) -> H: i32[256] { H[b] = sum(i, j) 1 into [i64(X[i, j])] }", (values){{x, h}, NULL});
  check_i32(h, expected, 256);
}

static void leaves_out_what_is_outside(void **state) {
  int64_t x[] = {2, -1, 3, INT64_MIN, 0, INT64_MAX, 2};
  int32_t h[3], expected[] = {1, 0, 2};
  run("kernel f(X: i64[7]) -> H: i32[3] { H[b] = sum(i) 1 into [X[i]] }", (values){{x, h}, NULL});
  check_i32(h, expected, 3);
  int32_t start[] = {5, 6, 7};
  run("kernel f(X: i64[7], S: i32[3]) -> H: i32[3] { H[b] = sum(i) i32(X[i]) into [i/4 - 8] from S[b] }",
      (values){{x, start, h}, NULL});
  check_i32(h, start, 3);
}

static void adds_rows(void **state) {
  int64_t which[] = {1, 1, 9, 0};
  float d[] = {1, 2, 10, 20, 7, 7, 3, 4}, start[] = {100, 100, 0, 0, 5, 6};
  const float expected[] = {103, 104, 11, 22, 5, 6};
  float g[6];
  run("kernel f(I: i64[4], D: f32[4, 2], S: f32[3, 2]) -> G: f32[3, 2] {\n"
      "  G[v, j] = sum(n) D[n, j] into [I[n], j] from S[v, j]\n"
      "}",
      (values){{which, d, start, g}, NULL});
  check_f32(g, expected, 6);
}

/* 1 + 2^-24 is 1, and so is what follows; the other way round it is not. */
static void keeps_the_order(void **state) {
  const float tiny = 0x1p-24F, expected[] = {1, 1 + 0x1p-23F};
  float x[] = {1, tiny, tiny, tiny, tiny, 1};
  int64_t s[] = {0, 0, 0, 1, 1, 1};
  float y[2];
  run("kernel f(S: i64[6], X: f32[6]) -> Y: f32[2] { Y[s] = sum(i) X[i] into [S[i]] }", (values){{s, x, y}, NULL});
  check_f32(y, expected, 2);
}

static void combines_several(void **state) {
  int64_t s[] = {1, 0, 1, 1, 0}, expected_at[] = {4, 2, -1};
  float x[] = {1, 2, 5, 5, 3}, expected[] = {3, 5, 7}, b[] = {-9, -9, 7};
  float best[3];
  int64_t at[3];
  run("kernel f(S: i64[N], X: f32[N], B: f32[3]) -> b: f32[3], at: i64[3] {\n"
      "  b[s], at[s] = argmax(i) (X[i], i) into [S[i]] from (B[s], -1)\n"
      "}",
      (values){{s, x, b, best, at}, (const int64_t[]){5}});
  check_f32(best, expected, 3);
  assert_memory_equal(at, expected_at, sizeof(at));
}

/* Both dimensions are computed, and overlapping windows add up: the transpose of a convolution. */
static void overlaps(void **state) {
  float x[] = {1, 2, 3}, w[] = {1, 10}, expected[] = {1, 12, 23};
  float y[3];
  run("kernel f(X: f32[3], W: f32[2]) -> Y: f32[3] { Y[o] = sum(i, k) X[i] * W[k] into [i + k] }",
      (values){{x, w, y}, NULL});
  check_f32(y, expected, 3);
}

/* Rows of a sparse matrix, one of them empty and one that ends before it starts; a triangle; the place in a row. */
static void takes_bounds_from_data(void **state) {
  int64_t start[] = {0, 2, 2, 5, 4}, c[] = {0, 3, 1, 2, 0}, at[4];
  float v[] = {1, 2, 3, 4, 5}, x[] = {1, 10, 100, 1000}, y[4], l[] = {1, 9, 9, 2, 3, 9, 4, 5, 6};
  const float expected[] = {2001, 0, 435, 0}, triangle[] = {0, 2, 54};
  const int64_t best[] = {1, -1, 4, -1};
  run("kernel f(s: i64[5], C: i64[5], V: f32[5], x: f32[4]) -> y: f32[4] {\n"
      "  y[i] = sum(k: s[i] .. s[i + 1]) V[k] * x[C[k]]\n"
      "}",
      (values){{start, c, v, x, y}, NULL});
  check_f32(y, expected, 4);
  run("kernel f(L: f32[3, 3], x: f32[4]) -> y: f32[3] { y[i] = sum(k: i) L[i, k] * x[k] }", (values){{l, x, y}, NULL});
  check_f32(y, triangle, 3);
  run("kernel f(s: i64[5], V: f32[5]) -> at: i64[4] { at[i] = argmax(k: s[i] .. s[i + 1]) V[k] }",
      (values){{start, v, at}, NULL});
  assert_memory_equal(at, best, sizeof(at));
}

/* Each row's terms go into elements of their own. */
static void scatters_ragged_rows(void **state) {
  int64_t start[] = {0, 2, 2, 4}, row[] = {1, 0, 1, 7};
  float v[] = {1, 2, 3, 4}, x[] = {1, 10, 100}, y[2];
  const float expected[] = {2, 301};
  run("kernel f(s: i64[N + 1], R: i64[4], V: f32[4], x: f32[N]) -> y: f32[2] {\n"
      "  y[r] = sum(i: N, k: s[i] .. s[i + 1]) V[k] * x[i] into [R[k]]\n"
      "}",
      (values){{start, row, v, x, y}, (const int64_t[]){3}});
  check_f32(y, expected, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts),
                                     cmocka_unit_test(leaves_out_what_is_outside),
                                     cmocka_unit_test(adds_rows),
                                     cmocka_unit_test(keeps_the_order),
                                     cmocka_unit_test(combines_several),
                                     cmocka_unit_test(takes_bounds_from_data),
                                     cmocka_unit_test(scatters_ragged_rows),
                                     cmocka_unit_test(overlaps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
