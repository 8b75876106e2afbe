/* What made-up inputs of integers are for: elements that they choose, also by tensors that are computed of them. */
#include "te/operand.h"
#include "unit/te_text_check.h"

typedef struct expected {
  int input;
  int64_t among;
  bool bounds, divides;
} expected;

static void look(tn__te *te, void *user) {
  const expected *e = user;
  const tn__buffer *input = tn__te_input_at(te, e->input);
  tn__te_operand_use use = tn__te_operand_use_of(te, input);
  assert_true(use.among == e->among);
  assert_int_equal(use.bounds, e->bounds);
  assert_int_equal(use.divides, e->divides);
  int64_t values[64];
  assert_int_equal(input->dtype, TN_I64);
  tn__te_operand_fill(&use, input->dtype, 7, 64, values);
  for (int i = 0; i < 64 && use.among < INT64_MAX; i++) assert_in_range(values[i], 0, use.among - 1);
  for (int i = 0; i < 64 && use.divides; i++) assert_int_not_equal(values[i], 0);
}

static void check(const char *text, expected e) {
  te_text_job j = {.text = text, .then = look, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void what_chooses_is_within(void **state) {
  check("kernel f(I: i64[64], T: f32[77, 5]) -> Y: f32[64, 5] { Y[i, j] = T[I[i], j] }",
        (expected){0, 77, false, false});
  check("kernel f(I: i64[64], T: f32[77, 5]) -> Y: f32[64] { Y[i] = T[I[i], I[i]] }", (expected){0, 5, false, false});
  check("kernel f(I: i64[64]) -> H: i64[9] { H[b] = sum(i: 64) 1 into [I[i]] }", (expected){0, 9, false, false});
  check("kernel f(I: i64[64]) -> Y: i64[64] { Y[i] = I[i] + 1 }", (expected){0, INT64_MAX, false, false});
}

static void what_chooses_by_a_tensor_that_is_computed_is_within(void **state) {
  check(
      "kernel f(I: i64[64], T: f32[77, 5]) -> Y: f32[64, 5] {\n"
      "  store P[i: 64] = select(I[i] < 0, I[i] + 77, I[i])\n"
      "  Y[i, j] = T[P[i], j]\n}",
      (expected){0, 77, false, false});
  check(
      "kernel f(I: i64[64], T: f32[9, 5]) -> Y: f32[64, 5] {\n"
      "  store P[i: 64] = min(I[i], 8)\n"
      "  store Q[i: 64] = max(P[i], 0)\n"
      "  Y[i, j] = T[Q[i], j]\n}",
      (expected){0, 9, false, false});
  check(
      "kernel f(I: i64[64], T: f32[9, 5]) -> Y: f32[64, 5] {\n"
      "  store P[i: 64] = f32(I[i]) * 0.5\n"
      "  Y[i, j] = T[0, j] + P[i]\n}",
      (expected){0, INT64_MAX, false, false});
}

static void what_divides_is_not_zero(void **state) {
  check("kernel f(A: i64[64], B: i64[64]) -> C: i64[64] { C[i] = A[i] % B[i] }", (expected){1, INT64_MAX, false, true});
  check("kernel f(A: i64[64], B: i64[64]) -> C: i64[64] { C[i] = A[i] % B[i] }",
        (expected){0, INT64_MAX, false, false});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_chooses_is_within),
      cmocka_unit_test(what_chooses_by_a_tensor_that_is_computed_is_within),
      cmocka_unit_test(what_divides_is_not_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
