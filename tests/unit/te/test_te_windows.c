/* Reductions over windows that are made from runs of terms: which are, and that they compute the same. */
#include "unit/te_same.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

static void compare(tn__te *te, void *user) {
  const int *added = user;
  const tn__te *windows = tn__te_windows(te);
  check_ok(tn__te_verify(windows));
  assert_int_equal(tn__te_stage_count(windows) - tn__te_stage_count(te), *added);
  assert_ptr_equal(tn__te_windows(windows), windows);
  if (windows != te) check_same_elements(te, windows);
}

/* How many stages of runs there are. */
static void check(const char *text, int added) {
  te_text_job j = {.text = text, .then = compare, .user = &added};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void windows_are_made_from_runs(void **state) {
  check("kernel f(X: f32[500]) -> Y: f32[475] { Y[y] = max(r: 26) X[y + r] }", 4); /* 2, 4, 8, 16 */
  check("kernel f(X: i32[500]) -> Y: i32[469] { Y[y] = sum(r: 32) X[y + r] }", 4);
  check("kernel f(X: i32[500]) -> Y: i32[471] { Y[y] = sum(r: 30) X[y + r] }", 4);
  check("kernel f(X: f32[500]) -> Y: f32[477] { Y[y] = prod(r: 24) X[y + r] }", 4);
  check("kernel f(X: bool[500]) -> Y: bool[475] { Y[y] = any(r: 26) X[y + r] }", 4);
  check("kernel f(X: u8[500]) -> Y: u8[500] { Y[y] = min(r: 26) X[clamp(y + r - 10, 0, 499)] }", 4);
  check("kernel f(X: i16[500]) -> Y: i16[500] { Y[y] = sum(r: 26) pad(X[y - r + 9], 0) }", 4);
  check("kernel f(X: i32[N]) -> Y: i32[N] { Y[y] = sum(r: 26) pad(X[y + r - 9], 1) }", 4);
}

/* What short windows of images reduce along one axis is done once for each place along the other. */
static void axes_go_one_after_the_other(void **state) {
  check("kernel f(X: i32[46, 47]) -> Y: i32[40, 41] { Y[y, x] = sum(r: 7, q: 7) X[y + r, x + q] }", 1);
  check("kernel f(X: f32[45, 45]) -> Y: f32[41, 41] { Y[y, x] = max(r: 5, q: 5) X[y + r, x + 4 - q] }", 1);
  check("kernel f(X: i32[64, 45]) -> Y: i32[41] { Y[y] = sum(c: 64, r: 5) X[c, y + r] }", 1);
  check("kernel f(X: i32[46, 47]) -> Y: i32[40, 41] { Y[y, x] = sum(r: 7, q: 7) X[y + r, x + q] * X[y + r, x + q] }",
        2);
  check("kernel f(X: i32[46, 47]) -> Y: i32[44, 45] { Y[y, x] = sum(r: 3, q: 3) X[y + r, x + q] }", 0);
  check("kernel f(X: i32[46, 47], W: i32[7]) -> Y: i32[40, 41] { Y[y, x] = sum(r: 7, q: 7) X[y + r, x + q] * W[q] }",
        1);
}

/* Ends of rows that are clamped lie in a map beside the others. */
static void ends_of_rows_are_in_a_map(void **state) {
  check("kernel f(X: f32[45]) -> Y: f32[45] { Y[x] = max(r: 5) repeat(X[x + r - 2]) }", 1);
  check(
      "kernel f(X: i32[45, 45]) -> Y: i32[45, 45] { Y[y, x] = sum(r: 3, q: 3) X[clamp(y + r - 1, 0, 44), clamp(x + q - "
      "1, 0, 44)] }",
      2);
  check("kernel f(X: f32[9, 45]) -> Y: f32[9, 45] { Y[y, x] = max(r: 5) mirror(X[y + r - 2, x]) }", 0);
  check("kernel f(X: f32[9, 45]) -> Y: f32[9, 45] { Y[y, x] = max(r: 5) wrap(X[y + r - 2, x - 1]) }", 1);
}

/* What is computed of an element is computed once. */
static void terms_are_computed_once(void **state) {
  check("kernel f(X: i32[500], Z: i32[500]) -> Y: i32[475] { Y[y] = sum(r: 26) X[y + r] * Z[y + r] }", 5);
  check("kernel f(X: i32[500]) -> Y: i32[475] { Y[y] = max(r: 26) abs(X[y + r] - i32(y + r)) }", 5);
  check("kernel f(X: f32[50]) -> Y: f32[42] { Y[y] = max(r: 9) abs(X[y + r] - 3) }", 1);
  check("kernel f(X: f32[5, 500]) -> Y: f32[475] { Y[y] = max(c: 5, r: 26) X[c, y + r] }", 5);
}

static void windows_of_images_have_runs_along_both_axes(void **state) {
  check("kernel f(X: i32[95, 95]) -> Y: i32[70, 72] { Y[y, x] = sum(r: 26, q: 24) X[y + r, x + q] }", 9);
  check("kernel f(X: f32[120, 40]) -> Y: f32[95, 38] { Y[y, x] = max(r: 26, q: 3) X[y + r, x + q] }", 5);
  check("kernel f(X: f32[30, 120, 3]) -> Y: f32[28, 95, 3] { Y[y, x, c] = min(r: 3, q: 26) X[y + r, x + q, c] }", 5);
}

static void others_stay(void **state) {
  check("kernel f(X: f32[500]) -> Y: f32[492] { Y[y] = max(r: 9) X[y + r] }", 0);      /* short */
  check("kernel f(X: f32[500]) -> Y: f32[3] { Y[y] = max(r: 498) X[y + r] }", 0);      /* few results */
  check("kernel f(X: f32[950]) -> Y: f32[463] { Y[y] = max(r: 25) X[2 * y + r] }", 0); /* neighbours share less */
  check("kernel f(X: f32[500], W: f32[26]) -> Y: f32[475] { Y[y] = sum(r: 26) X[y + r] * W[r] }", 0);
  check("kernel f(X: f32[500]) -> Y: f32[475] { Y[y] = sum(r: 26) select(y > 3, X[y + r], 0) }", 0);
  check("kernel f(X: f32[500]) -> Y: f32[500] { Y[y] = sum(r: y + 1) X[y - r] }", 0);
  check("kernel f(X: f32[500]) -> (v: f32[475], a: i32[475]) { v[y], a[y] = argmax(r: 26) (X[y + r], i32(r)) }", 0);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */

enum { KERNELS = 60 };

/* A window along each of one or two axes, of which one at least is long, with the edges in one way or another. */
static void make_window(maker *m) {
  static const char *const types[] = {"f32", "f64", "i32", "u8", "i16", "f16"};
  static const char *const reducers[] = {"max", "min", "sum"};
  static const char *const edges[] = {"repeat", "mirror", "wrap"};
  const char *type = types[any(m, 6)], *reducer = reducers[any(m, 3)];
  const int rank = 1 + any(m, 2), edge = any(m, 4), squares = any(m, 3) == 0, longest = any(m, rank);
  const int channels = any(m, 3) == 0 ? 1 + any(m, 3) : 0;
  int size[2], window[2];
  add(m, "kernel f(X: %s[", type);
  for (int d = 0; d < rank; d++) {
    size[d] = d == longest ? 100 + any(m, 100) : 20 + any(m, 20);
    window[d] = d == longest ? 24 + any(m, 9) : 1 + any(m, 10);
    add(m, "%s%d", d == 0 ? "" : ", ", size[d]);
  }
  if (channels > 0) add(m, ", %d", channels);
  add(m, "]) -> Y: %s[", type);
  for (int d = 0; d < rank; d++) add(m, "%s%d", d == 0 ? "" : ", ", size[d]);
  add(m, "] {\n  Y[%s] = %s(", rank == 1 ? "y0" : "y0, y1", reducer);
  for (int d = 0; d < rank; d++) add(m, "%sk%d: %d", d == 0 ? "" : ", ", d, window[d]);
  if (channels > 0) add(m, ", c: %d", channels);
  const bool turned = any(m, 2);
  add(m, ") %s%s(X[", squares ? "3 - " : "", edge == 3 ? "pad" : edges[edge]);
  for (int d = 0; d < rank; d++)
    add(m, "%sy%d %c k%d %c %d", d == 0 ? "" : ", ", d, turned ? '-' : '+', d, turned ? '+' : '-', any(m, window[d]));
  add(m, "%s]%s)\n}\n", channels > 0 ? ", c" : "", edge == 3 ? ", 2" : "");
}

static void compare_chosen(tn__te *te, void *target) { check_rewritten(te, tn__te_windows(te), target); }

static void random_ones_keep_their_elements(void **state) { check_drawn_texts(KERNELS, make_window, compare_chosen); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(windows_are_made_from_runs),
                                     cmocka_unit_test(axes_go_one_after_the_other),
                                     cmocka_unit_test(ends_of_rows_are_in_a_map),
                                     cmocka_unit_test(terms_are_computed_once),
                                     cmocka_unit_test(windows_of_images_have_runs_along_both_axes),
                                     cmocka_unit_test(others_stay),
                                     cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
