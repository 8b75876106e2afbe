/* Sums of 64 bits in 32: which become that, and that elements stay what they were for all numbers. */
#include "unit/schedule_run.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

enum { KERNELS = 60 };

typedef struct expected {
  int counts; /* sums that are added up in 32 bits */
} expected;

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *counts = tn__te_counts(te);
  int found = 0;
  check_ok(tn__te_verify(counts));
  for (int s = 0; s < tn__te_stage_count(counts); s++) {
    const tn__te_stage *stage = tn__te_stage_at(counts, s);
    found += stage->kind == TN__TE_REDUCE && stage->values[0]->dtype == TN_I32;
  }
  assert_int_equal(found, e->counts);
  assert_ptr_equal(tn__te_counts(counts), counts);
  if (counts != te) check_same_elements(te, counts);
}

static void check(const char *text, int counts) {
  expected e = {counts};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void what_fits_is_counted_in_32_bits(void **state) {
  check("kernel f(X: f32[40]) -> n: i64 { n = sum(i) select(X[i] > 0, 1, 0) }", 1);
  check("kernel f(X: u8[5, 40]) -> n: i64[5] { n[i] = sum(j) i64(X[i, j]) * 3 - 1 }", 1);
  check("kernel f(X: bool[40, 6]) -> n: i64[6] { n[j] = 7 + (sum(i) i64(X[i, j])) }", 1);
  check(
      "kernel f(X: i32[70000], Y: u8[5, 40]) -> n: i64, m: i64[5] {\n"
      "  n = sum(i) select(X[i] > 5, -2, 1)\n  m[i] = sum(j) i64(Y[i, j])\n}",
      2);
}

/* Terms that may be large, or many of them; open numbers of terms; positions; few terms; other combiners and types. */
static void what_may_not_fit_stays(void **state) {
  check("kernel f(X: i32[40]) -> n: i64 { n = sum(i) i64(X[i]) }", 0);
  check("kernel f(X: i64[40]) -> n: i64 { n = sum(i) X[i] }", 0);
  check("kernel f(X: u8[9, 40]) -> n: i64[9] { n[j] = sum(i) i64(X[j, i]) * 300000 }", 0);
  check("kernel f[N](X: f32[N]) -> n: i64 { n = sum(i) select(X[i] > 0, 1, 0) }", 0);
  check("kernel f(X: f32[40]) -> n: i64 { n = sum(i) select(X[i] > 0, i, 0) }", 0);
  check("kernel f(X: f32[8]) -> n: i64 { n = sum(i) select(X[i] > 0, 1, 0) }", 0);
  check("kernel f(X: f32[40]) -> n: i64 { n = max(i) select(X[i] > 0, 1, 0) }", 0);
  check("kernel f(X: f32[40]) -> n: i64[3] { n[b] = sum(i) 1 into [i64(X[i])] }", 0);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */

static void add_term(maker *m, int depth) {
  static const char *const leaves[] = {"1", "0", "-3", "i64(A[i, j])", "i64(B[j])", "i64(A[i, j] > 9)"};
  static const char *const operations[] = {" + ", " - ", " * "};
  if (depth == 0 || any(m, 4) == 0) {
    add(m, "%s", leaves[any(m, 6)]);
  } else if (any(m, 3) == 0) {
    add(m, "select(B[j] < %d, ", any(m, 9) - 4);
    add_term(m, depth - 1);
    add(m, ", ");
    add_term(m, depth - 1);
    add(m, ")");
  } else {
    add(m, "(");
    add_term(m, depth - 1);
    add(m, "%s", operations[any(m, 3)]);
    add_term(m, depth - 1);
    add(m, ")");
  }
}

static void compare_any(tn__te *te, void *user) {
  const tn__te *counts = tn__te_counts(te);
  *(int *)user += counts != te;
  check_ok(tn__te_verify(counts));
  if (counts != te) check_same_elements(te, counts);
}

static void random_ones_keep_their_elements(void **state) {
  int changed = 0;
  for (uint64_t k = 0; k < KERNELS; k++) {
    maker m = {.state = k};
    add(&m, "kernel f(A: u8[4, 33], B: i16[33]) -> n: i64[4] { n[i] = %ssum(j: 33) ", any(&m, 2) ? "2 * " : "");
    add_term(&m, 3);
    add(&m, " }");
    te_text_job j = {.text = m.text, .then = compare_any, .user = &changed};
    tn_status *status = te_text_run(&j);
    if (status != NULL) print_message("%s\n", m.text);
    check_ok(status);
  }
  assert_true(changed > KERNELS / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_fits_is_counted_in_32_bits),
                                     cmocka_unit_test(what_may_not_fit_stays),
                                     cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
