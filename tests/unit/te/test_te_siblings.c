/* Reductions of the same rows: which become one, and that it computes the same. Declarations of siblings, and of maps
 * whose innermost axis has a few steps, are drawn at random; their schedules must compute what their plain loops do. */
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"

/* ---- what becomes one -------------------------------------------------------------------------------------------- */

static void compare(tn__te *te, void *user) {
  const int *stages = user;
  const tn__te *joined = tn__te_siblings(te);
  check_ok(tn__te_verify(joined));
  assert_int_equal(tn__te_stage_count(joined), *stages);
  assert_ptr_equal(tn__te_siblings(joined), joined);
  if (joined != te) check_same_elements(te, joined);
}

static void check(const char *text, int stages) {
  te_text_job j = {.text = text, .then = compare, .user = &stages};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void reductions_of_the_same_elements_are_one(void **state) {
  check("kernel f(X: f32[5, 7]) -> a: f32[5], b: f32[5] {\n  a[i] = sum(j: 7) X[i, j]\n  b[i] = max(j: 7) X[i, j]\n}",
        1);
  check(
      "kernel f(X: f32[5, 7], g: f32[7]) -> c: f32[5] {\n"
      "  a[i: 5] = sum(j: 7) X[i, j]\n  b[i: 5] = sum(k: 7) X[i, k] * g[k]\n"
      "  d[i: 5] = min(k: 7) X[i, k] * X[i, k]\n  c[i] = a[i] + b[i] * d[i]\n}",
      2);
  check(
      "kernel f(X: f32[5, 7]) -> (v: f32[7], at: i32[7], s: f32[7]) {\n"
      "  v[j], at[j] = argmax(i: 5) (X[i, j], i32(i))\n  s[j] = sum(i: 5) X[i, j]\n}",
      1);
  check(
      "kernel f(X: f32[5, 7]) -> a: f32[5], b: f32[5] {\n"
      "  a[i] = sum(j: 7) X[i, j]\n  h[i: 5] = 2 * a[i]\n  b[i] = (sum(j: 7) X[i, j] * X[i, j]) + h[i]\n}",
      3);
}

/* What they have in common is where they begin and end; one that ends elsewhere stays. */
static void reductions_over_the_same_bounds_are_one(void **state) {
  check(
      "kernel f(X: f32[9, 9], Y: f32[9, 9]) -> a: f32[9], b: f32[9] {\n"
      "  a[i] = max(k: i + 1) X[i, k]\n  b[j] = sum(q: j + 1) Y[q, j]\n}",
      1);
  check(
      "kernel f(X: f32[9, 9]) -> a: f32[9], b: f32[9], c: f32[9] {\n"
      "  a[i] = sum(k: i) X[i, k]\n  b[i] = sum(k: i + 1) X[i, k]\n  c[i] = prod(k: i) X[i, k]\n}",
      2);
}

static void maps_of_the_same_elements_are_one(void **state) {
  check(
      "kernel f(X: f32[20]) -> L: f32[10], H: f32[10] {\n"
      "  L[i] = X[2 * i] + X[2 * i + 1]\n  H[i] = X[2 * i] - X[2 * i + 1]\n}",
      1);
  check(
      "kernel f(p: f32[9], g: f32[9], m: f32[9]) -> P: f32[9], M: f32[9] {\n"
      "  M[i] = m[i] + 2 * g[i]\n  P[j] = p[j] - M[j] * M[j]\n}",
      1);
  check(
      "kernel f(X: i32[4, 9], W: i32[9]) -> A: i32[4, 9], B: i32[4, 9], C: i32[9] {\n"
      "  A[c, i] = X[c, i] * W[i]\n  B[c, i] = X[c, i] + i32(c)\n  C[i] = W[i] + 1\n}",
      2);
}

/* They stay apart, too: other elements, of other sizes, a stage between, intermediate tensors. */
static void other_maps_stay(void **state) {
  check("kernel f(X: f32[9], Y: f32[9]) -> A: f32[9], B: f32[9] {\n  A[i] = X[i] + 1\n  B[i] = Y[i] + 1\n}", 2);
  check("kernel f(X: f32[9]) -> A: f32[9], B: f32[9] {\n  A[i] = X[i] + 1\n  B[i] = A[8 - i] + X[i]\n}", 2);
  check("kernel f(X: f32[9]) -> A: f32[9], B: i8[9] {\n  A[i] = X[i] + 1\n  B[i] = i8(X[i] > 0)\n}", 2);
  check("kernel f(X: f32[9]) -> A: f32[9], B: f32[8] {\n  A[i] = X[i] + 1\n  B[i] = X[i] - 1\n}", 2);
  check(
      "kernel f(X: f32[9]) -> A: f32[9], B: f32[9] {\n  E[i: 9] = sqrt(X[i])\n  A[i] = E[i] + 1\n  B[i] = E[i] - 1\n}",
      3);
}

/* They stay apart: what one needs of the other, windows and products, others' rows, elements of other sizes, orders. */
static void others_stay(void **state) {
  check(
      "kernel f(X: f32[5, 7]) -> v: f32[5] {\n"
      "  m[i: 5] = sum(j: 7) X[i, j]\n  v[i] = sum(j: 7) (X[i, j] - m[i]) * X[i, j]\n}",
      2);
  check(
      "kernel f(X: f32[9]) -> a: f32[7], b: f32[7] {\n"
      "  a[i] = sum(j: 3) X[i + j]\n  b[i] = max(j: 3) X[i + j]\n}",
      2);
  check(
      "kernel f(A: f32[5, 7], B: f32[7, 6]) -> a: f32[5, 6], b: f32[5, 6] {\n"
      "  a[i, j] = sum(k) A[i, k] * B[k, j]\n  b[i, j] = max(k) A[i, k] * B[k, j]\n}",
      2);
  check(
      "kernel f(X: f32[7, 7]) -> a: f32[7], b: f32[7] {\n"
      "  a[i] = sum(j: 7) X[i, j]\n  b[i] = sum(j: 7) X[j, i]\n}",
      2);
  check(
      "kernel f(X: f32[5, 7]) -> a: f32[5], b: i64[5] {\n"
      "  a[i] = sum(j: 7) X[i, j]\n  b[i] = sum(j: 7) i64(X[i, j] > 0)\n}",
      2);
  check(
      "kernel f(X: f32[5, 7]) -> a: f32[5], b: f32[5] {\n"
      "  combiner in_order last(l: f32, r: f32) = r from 0\n"
      "  a[i] = sum(j: 7) X[i, j]\n  b[i] = last(j: 7) X[i, j]\n}",
      2);
  check(
      "kernel f(X: f32[5, 7]) -> a: f32[5], b: f32[5], c: f32[5], d: f32[5], e: f32[5] {\n"
      "  a[i] = sum(j: 7) X[i, j]\n  b[i] = max(j: 7) X[i, j]\n  c[i] = min(j: 7) X[i, j]\n"
      "  d[i] = sum(j: 7) X[i, j] * X[i, j]\n  e[i] = sum(j: 7) X[i, j] * 3\n}",
      2);
}

/* ---- drawn declarations ------------------------------------------------------------------------------------------ */

typedef struct drawing {
  uint64_t seed;
  tn__strbuf text;
  /* declarations that had siblings; whose maps run in vectors; which compute a map's rows near */
  int joined, woven, near;
} drawing;

static int draw(drawing *d, int below) {
  d->seed = d->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->seed >> 33) % (uint64_t)below);
}

static void draw_sums(drawing *d) {
  static const char *const types[] = {"f32", "i32", "f64", "i16"}, *const reducers[] = {"sum", "max", "min"};
  static const char *const terms[] = {"X[%s, %s]", "X[%s, %s] * Y[%s, %s]", "X[%s, %s] + g[q]", "Y[%s, %s] - h[p]"};
  const char *type = types[draw(d, 4)];
  bool down = draw(d, 2);
  int rows = 1 + draw(d, 70), columns = 1 + draw(d, 70), count = 2 + draw(d, 4);
  const char *p = down ? "q" : "p", *q = down ? "p" : "q";
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(X: %s[%d, %d], Y: %s[%d, %d], g: %s[%d], h: %s[%d]) -> ", type,
                    down ? columns : rows, down ? rows : columns, type, down ? columns : rows, down ? rows : columns,
                    type, columns, type, rows);
  for (int i = 0; i < count; i++) tn__strbuf_printf(&d->text, "s%d: %s[%d], ", i, type, rows);
  tn__strbuf_printf(&d->text, "z: %s[%d] {\n", type, rows);
  for (int i = 0; i < count; i++) {
    char term[64];
    snprintf(term, sizeof term, terms[draw(d, 4)], p, q, p, q);
    bool later = i > 0 && draw(d, 6) == 0; /* needs the one before */
    tn__strbuf_printf(&d->text, "  s%d[p] = %s(q: %d) ", i, reducers[draw(d, 3)], columns);
    if (later)
      tn__strbuf_printf(&d->text, "max(%s, s%d[p])\n", term, i - 1);
    else
      tn__strbuf_printf(&d->text, "%s\n", term);
  }
  tn__strbuf_printf(&d->text, "  z[p] = s%d[p] + s%d[p]\n}\n", draw(d, count), draw(d, count));
}

static void draw_points(drawing *d) {
  static const char *const types[] = {"f32", "u8", "f64", "i16"};
  static const char *const values[] = {"X[i, c]", "W[i]",     "g[c]",
                                       "P[c, i]", "X[i, %d]", "select(c < 1, X[i, 0], W[i])"};
  const char *type = types[draw(d, 4)];
  int points = 1 + draw(d, 200), steps = 2 + draw(d, 4);
  tn__strbuf_init(&d->text, NULL);
  bool two = draw(d, 2) == 0;
  tn__strbuf_printf(&d->text, "kernel drawn(X: %s[%d, %d], W: %s[%d], g: %s[%d], P: %s[%d, %d]) -> ", type, points,
                    steps, type, points, type, steps, type, steps, points);
  if (two) tn__strbuf_printf(&d->text, "V: %s[%d, %d], ", type, points, steps);
  tn__strbuf_printf(&d->text, "Z: %s[%d, %d] {\n", type, points, steps);
  if (two) tn__strbuf_append(&d->text, draw(d, 2) ? "  V[i, c] = X[i, c] + g[c]\n" : "  V[i, c] = W[i] * X[i, 0]\n");
  tn__strbuf_append(&d->text, two && draw(d, 2) ? "  Z[i, c] = V[i, c] * 2 + " : "  Z[i, c] = ");
  for (int i = 1 + draw(d, 3); i >= 0; i--) {
    char value[48];
    snprintf(value, sizeof value, values[draw(d, 6)], draw(d, steps));
    tn__strbuf_printf(&d->text, "%s%s", value, i > 0 ? draw(d, 2) ? " + " : " * " : "\n}\n");
  }
}

/* Sums of which several read each row of a map. */
static void draw_forces(drawing *d) {
  static const char *const types[] = {"f32", "i32", "f64"}, *const reducers[] = {"sum", "max"};
  static const char *const orders[] = {"c, i", "i, c"};
  const char *type = types[draw(d, 3)], *reducer = reducers[draw(d, 2)];
  int points = 1 + draw(d, 90), others = 1 + draw(d, 90);
  int steps = draw(d, 3) == 0 ? 2 + draw(d, 3) : 5 + draw(d, 3); /* up to four are tensors of one reduction */
  bool first = draw(d, 2);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(X: %s[%d, %d], Y: %s[%d, %d], w: %s[%d]) -> F: %s[%d, %d] {\n", type, steps,
                    points, type, steps, others, type, others, type, first ? steps : points, first ? points : steps);
  tn__strbuf_printf(&d->text, "  R[i: %d, j: %d] = max(X[0, i] * Y[0, j] + w[j], Y[1, j] - X[1, i]) %s\n", points,
                    others, draw(d, 2) ? "* 2" : "+ X[1, i] * X[0, i]");
  tn__strbuf_printf(&d->text, "  F[%s] = %s(j: %d) %s * R[i, j]\n}\n", orders[first ? 0 : 1], reducer, others,
                    draw(d, 2) ? "(Y[c, j] - X[c, i])" : "w[j] * Y[c, j]");
}

static void try_drawing(tn__ir *ir, const void *arg) {
  drawing *d = *(drawing *const *)arg;
  tn__te *te = declare_text(ir, tn__strbuf_text(&d->text));
  d->joined += tn__te_siblings(te) != te;
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  tn__target target = test_target(targets[draw(d, 2)]);
  tn__schedule_options options = {.threads = 1 + draw(d, 3)};
  tn__schedule *s = default_schedule(te, &target, &options);
  d->woven += strstr(schedule_text(s, false), "\nvectorize \"") != NULL;
  d->near += strstr(schedule_text(s, false), "\ncompute_at \"R\" \"F.") != NULL;
  check_ok(compare_results(s, 3));
}

static void try_all(drawing *d, int count, void (*draw_kernel)(drawing *d)) {
  for (int i = 0; i < count; i++) {
    draw_kernel(d);
    tn_status *status = in_context(try_drawing, &d);
    if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), tn__strbuf_text(&d->text));
    tn__strbuf_release(&d->text);
  }
}

static void drawn_siblings_compute_what_they_declare(void **state) {
  enum { DRAWN = 200 };
  drawing d = {.seed = 20261125};
  try_all(&d, DRAWN, draw_sums);
  print_message("%d of %d drawn declarations have siblings\n", d.joined, DRAWN);
  assert_true(d.joined > DRAWN / 2);
}

static void drawn_points_compute_what_they_declare(void **state) {
  enum { DRAWN = 200 };
  drawing d = {.seed = 20261126};
  try_all(&d, DRAWN, draw_points);
  print_message("%d of %d drawn declarations run in vectors\n", d.woven, DRAWN);
  assert_true(d.woven > DRAWN / 4);
}

static void drawn_forces_compute_what_they_declare(void **state) {
  enum { DRAWN = 200 };
  drawing d = {.seed = 20261127};
  try_all(&d, DRAWN, draw_forces);
  print_message("in %d of %d drawn declarations a row of the map is computed at a time\n", d.near, DRAWN);
  assert_true(d.near > DRAWN / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reductions_of_the_same_elements_are_one),
                                     cmocka_unit_test(reductions_over_the_same_bounds_are_one),
                                     cmocka_unit_test(others_stay),
                                     cmocka_unit_test(maps_of_the_same_elements_are_one),
                                     cmocka_unit_test(other_maps_stay),
                                     cmocka_unit_test(drawn_siblings_compute_what_they_declare),
                                     cmocka_unit_test(drawn_points_compute_what_they_declare),
                                     cmocka_unit_test(drawn_forces_compute_what_they_declare)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
