/* Terms that name their position: what becomes of them, and that the plain loops of both declarations agree. */
#include "unit/te_same.h"
#include "unit/te_text_check.h"

typedef struct expected {
  tn__te_stage_kind kind; /* of the first stage, with so many axes to reduce */
  int reduce_axes;
} expected;

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *placed = tn__te_place(te, 32);
  const tn__te_stage *stage = tn__te_stage_at(placed, 0);
  check_ok(tn__te_verify(placed));
  assert_int_equal(stage->kind, e->kind);
  assert_int_equal(stage->reduce_axes.count, e->reduce_axes);
  check_same_elements(te, placed);
}

static void check(const char *text, tn__te_stage_kind kind, int reduce_axes) {
  expected e = {kind, reduce_axes};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  check_ok(te_text_run(&j));
}

static void terms_name_their_element(void **state) {
  check("kernel f(X: u8[5, 7]) -> H: i32[256] { H[b] = sum(i, j) select(i64(X[i, j]) == b, 1, 0) }", TN__TE_ACCUMULATE,
        2);
  check("kernel f(X: i8[9]) -> H: i32[128] { H[b] = sum(i) i32(X[i] == i8(b)) }", TN__TE_ACCUMULATE, 1);
  check("kernel f(X: i32[40], V: f32[40]) -> H: f32[64] { H[b] = max(i) select(b == i64(X[i]) + 3, V[i], -inf) }",
        TN__TE_ACCUMULATE, 1);
  check("kernel f(X: i32[40]) -> H: bool[64] { H[b] = any(i) i64(X[i]) == b }", TN__TE_ACCUMULATE, 1);
  check(
      "kernel f(X: i32[40], W: i32[40]) -> H: i32[4, 64] {\n"
      "  H[c, b] = sum(i) select(W[i] > i32(c) - 2 && X[i] + 4 == i32(b), W[i], 0)\n"
      "}",
      TN__TE_ACCUMULATE, 1);
  check("kernel f(X: i64[40], W: i32[40]) -> H: i32[64] { H[b] = sum(i) W[i] * i32(X[i] != b) }", TN__TE_REDUCE, 1);
  check("kernel f(X: i64[40], W: i32[40]) -> H: i32[64] { H[b] = sum(i) W[i] * i32(!(X[i] != b)) }", TN__TE_ACCUMULATE,
        1);
}

static void terms_name_a_step(void **state) {
  check("kernel f(I: i32[9], V: f32[5, 3]) -> Y: f32[9, 3] { Y[n, d] = sum(k) select(i64(I[n]) == k, V[k, d], 0) }",
        TN__TE_COMPUTE, 0);
  check("kernel f(A: f32[6], B: f32[5]) -> C: f32[10] { C[k] = sum(i, j) select(i + j == k, A[i] * B[j], 0) }",
        TN__TE_REDUCE, 1);
  check("kernel f(A: f32[6, 7]) -> t: f32 { t = sum(i, j) select(i == j, A[i, j], 0) }", TN__TE_REDUCE, 1);
  check("kernel f(A: i32[6, 7]) -> Y: i32[7] { Y[j] = sum(i) select(i == j && A[i, j] > 0, A[i, j], 0) }",
        TN__TE_COMPUTE, 0);
  check("kernel f(A: f32[8]) -> Y: f32[3] { Y[j] = sum(i: 2 .. 8) select(i == 2 * j, A[i], 0) }", TN__TE_COMPUTE, 0);
  check("kernel f(I: i64[4], A: f32[8]) -> Y: f32[4] { Y[j] = prod(i) select(I[j] == i, A[i], 1) }", TN__TE_COMPUTE, 0);
}

static void bounds_become_conditions(void **state) {
  check("kernel f(X: f32[9, 9]) -> Y: f32[9] { Y[i] = sum(j: i + 1) X[i, j] }", TN__TE_REDUCE, 1);
  check("kernel f(X: f32[9, 9]) -> Y: f32[9] { Y[i] = max(j: i .. 9) X[i, j] }", TN__TE_REDUCE, 1);
  check("kernel f(L: f32[9, 9], X: f32[9, 5]) -> Y: f32[9, 5] { Y[i, j] = sum(k: i) L[i, k] * X[k, j] }", TN__TE_REDUCE,
        1);
  check("kernel f(X: f32[7, 7]) -> s: f32 { s = sum(i: 7, j: i + 1) X[i, j] }", TN__TE_REDUCE, 2);
  check("kernel f(X: f32[9, 9]) -> (V: f32[9], I: i64[9]) { V[i], I[i] = argmax(j: i + 1) X[i, j] }", TN__TE_REDUCE, 1);
  check("kernel f(X: f32[9], n: i64[4]) -> Y: f32[4] { Y[i] = sum(j: n[i]) X[j] }", TN__TE_ACCUMULATE, 1);
}

/* Each of these says less than which one position it is, or would change what is computed. */
static void others_stay(void **state) {
  check("kernel f(X: u8[9]) -> H: i32[8] { H[b] = sum(i) select(i64(X[i]) == b, 1, 0) }", TN__TE_REDUCE, 1);
  check("kernel f(X: f32[9]) -> H: i32[64] { H[b] = sum(i) select(X[i] == f32(b), 1, 0) }", TN__TE_REDUCE, 1);
  check("kernel f(X: u8[9]) -> H: i32[300] { H[b] = sum(i) select(X[i] == u8(b), 1, 0) }", TN__TE_REDUCE, 1);
  check("kernel f(X: i64[9]) -> H: i32[64] { H[b] = sum(i) select(X[i] == b, 2, 1) }", TN__TE_REDUCE, 1);
  check("kernel f(X: i64[9]) -> H: i32[64] { H[b] = sum(i) select(X[i] == 2 * b, 1, 0) }", TN__TE_REDUCE, 1);
  check("kernel f(X: i64[9], V: f32[9]) -> H: f32[64] { H[b] = sum(i) V[i] * f32(X[i] == b) }", TN__TE_REDUCE, 1);
  check("kernel f(X: i64[9]) -> H: i64[64] { H[b] = sum(i) select(X[i] == b, b, 0) }", TN__TE_REDUCE, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(terms_name_their_element), cmocka_unit_test(terms_name_a_step),
                                     cmocka_unit_test(bounds_become_conditions), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
