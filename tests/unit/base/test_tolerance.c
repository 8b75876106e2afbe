/* Tolerances by type, and for 16-bit floats by the greatest element of the tensor. */
#include "base/tolerance.h"

#include <math.h>

#include "base/dtype.h"
#include "unit/check.h"

static void types_have_tolerances_of_their_own(void **state) {
  (void)state;
  assert_true(tn__tolerance_of(TN_F64, 1).rtol < tn__tolerance_of(TN_F32, 1).rtol);
  assert_true(tn__tolerance_of(TN_F32, 1).rtol < tn__tolerance_of(TN_F16, 1).rtol);
  assert_true(tn__tolerance_of(TN_F16, 1).rtol < tn__tolerance_of(TN_BF16, 1).rtol);
  const tn__tolerance half = tn__tolerance_of(TN_F16, 8), bytes = tn__tolerance_of(TN_U8, 200);
  assert_true(tn__tolerance_allows(&half, 4) >= 2.0 * 4 / 1024); /* two steps of an element */
  assert_true(tn__tolerance_allows(&half, 0.001) >= 8.0 / 1024); /* a step of the greatest */
  assert_true(tn__tolerance_allows(&half, 4) < 0.1);
  assert_true(tn__tolerance_allows(&bytes, 200) == 1);
  const tn__tolerance exact = tn__tolerance_of(TN_I64, 0);
  assert_true(tn__tolerance_allows(&exact, -5e9) == 0);
}

static void differences_know_what_is_no_number(void **state) {
  (void)state;
  assert_true(tn__tolerance_difference(NAN, NAN) == 0);
  assert_true(tn__tolerance_difference(INFINITY, INFINITY) == 0);
  assert_true(isinf(tn__tolerance_difference(INFINITY, 1)));
  assert_true(isnan(tn__tolerance_difference(NAN, 1)));
  assert_true(tn__tolerance_difference(-1, 2) == 3);
  const float values[] = {1, -7, NAN, INFINITY};
  assert_true(tn__tolerance_greatest(TN_F32, values, 4) == 7);
  assert_true(tn__tolerance_greatest(TN_F32, values, 0) == 0);
}

/* 2^53 + 1 is no f64. */
static void integers_of_64_bits_are_exact(void **state) {
  const int64_t big = (int64_t)1 << 53, got[2] = {big + 1, -big - 1}, want[2] = {big, -big};
  const uint64_t most[1] = {UINT64_MAX}, less[1] = {UINT64_MAX - 1};
  for (int i = 0; i < 2; i++) assert_true(tn__tolerance_apart(TN_I64, got, want, i) == 1);
  assert_true(tn__tolerance_apart(TN_U64, most, less, 0) == 1);
  assert_true(tn__tolerance_apart(TN_I64, got, got, 0) == 0);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(types_have_tolerances_of_their_own),
                                     cmocka_unit_test(differences_know_what_is_no_number),
                                     cmocka_unit_test(integers_of_64_bits_are_exact)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
