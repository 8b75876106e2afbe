/* Reductions whose results depend on a clamped position: which have fewer results, that the plain loops of both
 * declarations agree, and that schedules of the first compute what it declares. */
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"

typedef struct expected {
  int added, results; /* maps; of the smallest reduction that was made */
} expected;

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *made = tn__te_clamped(te);
  int64_t extent, least = INT64_MAX;
  check_ok(tn__te_verify(made));
  assert_int_equal(tn__te_stage_count(made) - tn__te_stage_count(te), e->added);
  if (e->added == 0) {
    assert_ptr_equal(made, te);
    return;
  }
  for (int s = 0; s < tn__te_stage_count(made); s++) {
    const tn__te_stage *stage = tn__te_stage_at(made, s);
    int64_t results = 1;
    if (strstr(stage->name, ".within") == NULL) continue;
    for (int a = 0; a < stage->axes.count; a++)
      if (tn__ir_as_int(stage->axes.var[a]->extent, &extent)) results *= extent;
    if (results < least) least = results;
  }
  assert_int_equal(least, e->results);
  assert_ptr_equal(tn__te_clamped(made), made);
  check_same_elements(te, made);
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  for (int t = 0; t < 2; t++) {
    tn__target target = test_target(targets[t]);
    tn__schedule_options options = {.threads = 1 + t};
    check_ok(compare_results(default_schedule(te, &target, &options), 5));
  }
}

static void check(const char *text, int added, int results) {
  expected e = {added, results};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void parts_side_by_side_have_results_of_their_own(void **state) {
  check(
      "kernel f(X: f32[5, 7, 20]) -> Y: f32[5, 40] {\n"
      "  Y[n, c] = select(c < 20, sum(t: 7) X[n, t, clamp(c, 0, 19)], max(t: 7) X[n, t, clamp(c - 20, 0, 19)])\n}",
      2, 100);
  check(
      "kernel f(A: i32[9, 6], U: i32[6, 20], B: i32[9, 5], V: i32[5, 13]) -> Y: i32[9, 33] {\n"
      "  Y[i, j] = select(j < 20, sum(k: 6) A[i, k] * U[k, clamp(j, 0, 19)],\n"
      "    sum(k: 5) B[i, k] * V[k, clamp(j - 20, 0, 12)])\n}",
      2, 117);
  check(
      "kernel f(X: i32[4, 9, 3], Z: i32[4, 9, 3]) -> Y: i32[12, 9] {\n"
      "  Y[i, j] = select(i < 4, sum(t: 3) X[clamp(i, 0, 3), j, t] * i32(clamp(i, 0, 3)),\n"
      "    max(t: 3) Z[clamp(i - 5, 0, 3), j, t])\n}",
      2, 36);
  /* What starts at another position than 0. */
  check("kernel f(X: i32[9, 30]) -> Y: i32[30] { Y[j] = 2 * sum(t: 9) X[t, clamp(j, 5, 11)] }", 1, 7);
}

static void others_stay(void **state) {
  check("kernel f(X: f32[9, 30]) -> Y: f32[30] { Y[j] = sum(t: 9) X[t, clamp(j, 5, 11)] }", 0, 0);     /* an output */
  check("kernel f(X: f32[9, 30]) -> Y: f32[30] { Y[j] = 2 * sum(t: 9) X[t, clamp(j, 0, 28)] }", 0, 0); /* nearly all */
  check("kernel f(X: f32[9, 30]) -> Y: f32[30] { Y[j] = 2 * sum(t: 9) X[t, clamp(j, 5, 11)] * f32(j) }", 0, 0);
  check("kernel f(X: f32[9, 30]) -> Y: f32[30] { Y[j] = 2 * sum(t: 9) X[t, clamp(j + t, 5, 11)] }", 0, 0);
  check("kernel f(X: f32[9, 30]) -> Y: f32[30] { Y[j] = 2 * sum(t: 9) X[t, clamp(j, 5, 11)] + X[t, clamp(j, 0, 9)] }",
        0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_side_by_side_have_results_of_their_own),
                                     cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
