/* Accumulations whose terms take work: what becomes of them, and that the plain loops of both declarations, and
 * schedules of the second, agree. */
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"

static void compare(tn__te *te, void *user) {
  const int *added = user;
  const tn__te *terms = tn__te_terms(te);
  check_ok(tn__te_verify(terms));
  assert_int_equal(tn__te_stage_count(terms) - tn__te_stage_count(te), *added);
  check_same_elements(te, terms);
  tn__target target = test_target("x86-64-v3");
  for (int threads = 1; threads <= 3; threads += 2) {
    tn__schedule_options options = {.threads = threads};
    check_ok(compare_results(default_schedule(te, &target, &options), 5));
  }
}

/* The declaration gets so many maps. */
static void check(const char *text, int added) {
  te_text_job j = {.text = text, .then = compare, .user = &added};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void places_and_values_are_maps(void **state) {
  check("kernel f(X: f32[5003]) -> H: i32[16] { H[b] = sum(i) 1 into [i64(X[i] * 2 + 8)] }", 1);
  check(
      "kernel f(X: f32[9001, 2], V: f32[9001]) -> G: f32[7, 9] {\n"
      "  G[a, b] = sum(n) V[n] into [i64(X[n, 0] * 1.5 + 3), i64(X[n, 1] + 4.5)]\n}",
      2);
  check("kernel f(I: i32[401], X: f32[401]) -> Y: f32[9] { Y[s] = max(n) sqrt(abs(X[n])) into [i64(I[n])] }", 1);
  check("kernel f(X: i32[37, 61]) -> H: i32[37, 5] { H[r, b] = sum(i: 61) 1 into [r, i64(X[r, i] % 5)] }", 1);
  check("kernel f(X: i32[5001]) -> H: i32[64] { H[b] = sum(i) 1 into [select(X[i] > 0, i64(X[i] * X[i] + 3), -1)] }",
        1);
}

/* Terms of channels are written out; the maps have them side by side. */
static void a_few_terms_are_written_out(void **state) {
  check("kernel f(X: u8[3001, 3]) -> H: i32[3, 256] { H[c, b] = sum(i, d: 3) 1 into [d, i64(X[i, d])] }", 0);
  check("kernel f(X: f32[801, 3]) -> H: i32[3, 8] { H[c, b] = sum(i, d: 3) 1 into [d, i64(X[i, d] * 0.5 + 4)] }", 1);
  check("kernel f(X: u8[5, 3]) -> H: i32[3, 256] { H[c, b] = sum(i, d: 3) 1 into [d, i64(X[i, d])] }", 0);
}

/* Coordinates of points go one by one, into copies where that is worth it; what does not depend on which corner a term
 * is of is computed once for all of them. */
static void a_few_coordinates_go_one_by_one(void **state) {
  check(
      "kernel f(P: i32[51, 3], T: i32[403, 3]) -> N: i32[51, 3] {\n"
      "  N[v, c] = sum(f, k: 3) P[i64(T[f, 0]) % 51, c] * 2 - P[i64(T[f, 1]) % 51, (c + 1) % 3] into [i64(T[f, k]), "
      "c]\n}",
      1);
  check(
      "kernel f(D: f32[301, 3], S: i32[301, 2], l: f32[301]) -> F: f32[40, 3] {\n"
      "  F[v, c] = sum(s, k: 2) select(k == 0, 1, -1) * D[s, c] * (1 - sqrt(abs(l[s]))) into [i64(S[s, k]), c]\n}",
      1);
  check("kernel f(X: f32[9001, 3], I: i32[9001]) -> Y: f32[5, 3] { Y[s, c] = sum(n) X[n, c] into [i64(I[n]), c] }", 0);
  check(
      "kernel f(X: f32[2001, 2], I: i32[2001]) -> Y: f32[7, 2] {\n"
      "  Y[s, c] = max(n) sqrt(abs(X[n, c])) into [i64(I[n]), c]\n}",
      1);
  check(
      "kernel f(X: f32[2001, 4], I: i32[2001]) -> Y: f32[7, 4] {\n"
      "  Y[s, c] = sum(n) exp(X[n, c]) into [i64(I[n]), c]\n}",
      1);
  check(
      "kernel f(X: i32[3, 99], I: i32[3, 99]) -> Y: i32[3, 7, 3] {\n"
      "  Y[b, s, c] = sum(n: 99) X[b, n] * i32(c) into [b, i64(I[b, n]), c]\n}",
      0);
}

static void others_stay(void **state) {
  check("kernel f(X: u8[99]) -> H: i32[256] { H[b] = sum(i) 1 into [i64(X[i])] }", 0);
  check("kernel f(X: u8[99]) -> H: i32[64] { H[b] = sum(i) 1 into [i64(X[i] >> 2)] }", 0);
  check(
      "kernel f(I: i32[99], X: f32[99, 8]) -> Y: f32[5, 8] { Y[s, d] = sum(n) abs(X[n, d] * 2 + 1) into [i64(I[n] * 3 "
      "+ 1), d] }",
      0);
  check("kernel f(X: i32[40], D: i32[40]) -> H: i32[8] { H[b] = sum(i) X[i] * 3 + 5 into [i64(X[i] / (D[i] + 9))] }",
        0);
  check("kernel f(X: f32[9, 9]) -> H: i32[8] { H[b] = sum(i, j: i + 1) 1 into [i64(X[i, j] * 2 + 4)] }", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places_and_values_are_maps),
                                     cmocka_unit_test(a_few_terms_are_written_out),
                                     cmocka_unit_test(a_few_coordinates_go_one_by_one), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
