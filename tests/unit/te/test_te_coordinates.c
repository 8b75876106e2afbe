/* Reductions over pairs of points: which short sums are written out, which results become tensors of one reduction,
 * which reductions share work and are one, and that all computes the same. Declarations of points of a few coordinates
 * are drawn at random; their schedules must compute what their plain loops do. */
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"

/* ---- what becomes of them ---------------------------------------------------------------------------------------- */

typedef struct expected {
  int stages, maps; /* after the rewriting; -1 stages: nothing changes */
  int tensors;      /* of the reduction with most of them */
} expected;

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *made = tn__te_siblings(tn__te_coordinates(te));
  int maps = 0, tensors = 0;
  check_ok(tn__te_verify(made));
  if (e->stages < 0) {
    assert_ptr_equal(made, te);
    return;
  }
  for (int s = 0; s < tn__te_stage_count(made); s++) {
    const tn__te_stage *stage = tn__te_stage_at(made, s);
    maps += stage->kind == TN__TE_COMPUTE;
    if (stage->kind == TN__TE_REDUCE && stage->tensor_count > tensors) tensors = stage->tensor_count;
  }
  assert_int_equal(tn__te_stage_count(made), e->stages);
  assert_int_equal(maps, e->maps);
  assert_int_equal(tensors, e->tensors);
  assert_ptr_equal(tn__te_coordinates(made), made);
  check_same_elements(te, made);
}

static void check(const char *text, int stages, int maps, int tensors) {
  expected e = {stages, maps, tensors};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void results_with_work_in_common_are_tensors(void **state) {
  check(
      "kernel f(P: i32[9, 3], Q: i32[10, 3]) -> F: i32[9, 3] {\n"
      "  F[i, c] = sum(j: 10) max((P[i, 0] - Q[j, 0]) * (P[i, 1] - Q[j, 1]) + P[i, 2] * Q[j, 2], 3) * Q[j, c]\n}",
      2, 1, 3);
  check(
      "kernel f(P: i32[2, 9], Q: i32[2, 10]) -> F: i32[2, 9] {\n"
      "  R[i: 9, j: 10] = (P[0, i] - Q[0, j]) * (P[1, i] - Q[1, j]) * (P[0, i] + Q[0, j])\n"
      "  F[c, i] = max(j: 10) R[i, j] * Q[c, j]\n}",
      3, 2, 2);
  check(
      "kernel f(P: i32[9, 2], Q: i32[10, 2]) -> F: i32[9, 2] {\n"
      "  R[i: 9, j: 10] = (P[i, 0] - Q[j, 0]) * (P[i, 1] - Q[j, 1]) * (P[i, 0] + Q[j, 0])\n"
      "  s[i: 9] = sum(j: 10) R[i, j]\n  V[i: 9, c: 2] = sum(j: 10) R[i, j] * Q[j, c]\n"
      "  F[i, c] = V[i, c] + s[i]\n}",
      4, 3, 3);
}

static void results_of_the_same_elements_are_tensors(void **state) {
  check(
      "kernel f(A: i32[9, 12, 2], x: i32[12, 2]) -> y: i32[9, 2] {\n"
      "  y[i, c] = sum(j: 12) select(c == 0, A[i, j, 0] * x[j, 0] - A[i, j, 1] * x[j, 1],\n"
      "    A[i, j, 0] * x[j, 1] + A[i, j, 1] * x[j, 0])\n}",
      2, 1, 2);
  check(
      "kernel f(A: i32[12, 9, 2], B: i32[12, 9, 2]) -> y: i32[9, 2] {\n"
      "  y[i, c] = sum(j: 12) select(c == 0, A[j, i, 0] * B[j, i, 0], A[j, i, 0] - B[j, i, 0])\n}",
      2, 1, 2);
  /* Not where one reads more, or where other results read the same, as those of a filter do. */
  check(
      "kernel f(A: f32[9, 12, 2], x: f32[12, 2]) -> y: f32[9, 2] {\n"
      "  y[i, c] = sum(j: 12) select(c == 0, A[i, j, 0] * x[j, 0], A[i, j, 0] * x[j, 1] + A[i, j, 1] * x[j, 0])\n}",
      -1, 0, 0);
  check(
      "kernel f(X: f32[20, 2], h: f32[12, 2]) -> y: f32[9, 2] {\n"
      "  y[i, c] = sum(j: 12) select(c == 0, X[i + j, 0] * h[j, 0] - X[i + j, 1] * h[j, 1],\n"
      "    X[i + j, 0] * h[j, 1] + X[i + j, 1] * h[j, 0])\n}",
      -1, 0, 0);
}

static void short_sums_are_written_out(void **state) {
  check(
      "kernel f(P: i32[9, 3], Q: i32[10, 3]) -> m: i32[9] {\n"
      "  m[i] = min(j: 10) sum(d: 3) (P[i, d] - Q[j, d]) * (P[i, d] - Q[j, d])\n}",
      2, 1, 1);
  check(
      "kernel f(P: i32[9, 2, 2], Q: i32[10, 2, 2]) -> m: i32[9] {\n"
      "  D[i: 9, j: 10] = max(a: 2, b: 1 .. 2) P[i, a, b] * Q[j, a, b]\n  E[i: 9, j: 10] = D[i, j] * 2 + 1\n"
      "  m[i] = sum(j: 10) E[i, j]\n}",
      3, 2, 1);
}

static void windows_of_pixels_are_written_out(void **state) {
  check(
      "kernel f(X: i32[6, 7, 3], w: i32[2, 3]) -> Y: i32[5, 5, 3] {\n"
      "  Y[y, x, c] = sum(r: 2, q: 3) X[y + r, x + q, c] * w[r, q]\n}",
      1, 1, 0);
  check(
      "kernel f(X: i32[6, 7, 2]) -> Y: i32[5, 5, 2] {\n"
      "  m[y: 5, x: 5, c: 2] = max(r: 2, q: 3) X[y + r, x + q, c]\n  Y[y, x, c] = m[y, x, c] + X[y, x, c]\n}",
      2, 2, 0);
  check(
      "kernel f(X: f32[11, 12, 3]) -> Y: f32[5, 5, 3] {\n"
      "  Y[y, x, c] = sum(r: 7, q: 7) exp(X[y + r, x + q, c] - X[y + 3, x + 3, c])\n}",
      1, 1, 0);
  /* Not where terms take too much code together. */
  check(
      "kernel f(X: f32[11, 12, 3]) -> Y: f32[5, 5, 3] {\n"
      "  Y[y, x, c] = sum(r: 7, q: 7) exp(X[y + r, x + q, c] - exp(X[y + r, x + q, c]))\n}",
      -1, 0, 0);
  /* Nor where weights belong to channels, every other pixel is read, others read the sums elsewhere. */
  check(
      "kernel f(X: f32[6, 7, 3], w: f32[2, 3, 3]) -> Y: f32[5, 5, 3] {\n"
      "  Y[y, x, c] = sum(r: 2, q: 3) X[y + r, x + q, c] * w[r, q, c]\n}",
      -1, 0, 0);
  check(
      "kernel f(X: f32[6, 9, 3]) -> Y: f32[5, 4, 3] {\n"
      "  Y[y, x, c] = sum(r: 2, q: 2) X[y + r, 2 * x + q, c]\n}",
      -1, 0, 0);
  check(
      "kernel f(X: f32[6, 7, 3]) -> Y: f32[4, 5, 3] {\n"
      "  m[y: 5, x: 5, c: 3] = sum(r: 2, q: 3) X[y + r, x + q, c]\n  Y[y, x, c] = m[y, x, c] + m[y + 1, x, c]\n}",
      -1, 0, 0);
}

static void work_in_common_makes_siblings(void **state) {
  check(
      "kernel f(x: i32[9], y: i32[9]) -> a: i32[9], b: i32[9] {\n"
      "  a[i] = sum(j: 9) max((x[i] - x[j]) * (y[i] - y[j]) * (x[i] + y[j]), 1) * x[j]\n"
      "  b[i] = sum(j: 9) max((x[i] - x[j]) * (y[i] - y[j]) * (x[i] + y[j]), 1) * y[j]\n}",
      1, 0, 2);
  check(
      "kernel f(x: f32[9], y: f32[9]) -> a: f32[9], b: f32[9], c: f32[9] {\n"
      "  r[i: 9, j: 9] = x[i] + y[j]\n  a[i] = sum(j: 9) x[j] * r[i, j] * r[i, j] * r[i, j]\n"
      "  b[i] = sum(j: 9) r[i, j] * y[j] * r[i, j] * r[i, j]\n  c[i] = sum(j: 9) r[i, j] * r[i, j] * r[i, j]\n}",
      2, 1, 3);
}

static void scores_of_attention_stay(void **state) {
  static const char *const attention =
      "kernel f(P: %s[9, %d], Q: %s[10, %d], V: %s[10, 7]) -> F: %s[9, 7] {\n"
      "  S[i: 9, j: 10] = sum(d: %d) %s\n  T[i: 9, j: 10] = S[i, j] * 2\n  m[i: 9] = max(j: 10) T[i, j]\n"
      "  E[i: 9, j: 10] = T[i, j] - m[i]\n  t[i: 9] = sum(j: 10) E[i, j]\n  W[i: 9, j: 10] = E[i, j] + t[i]\n"
      "  F[i, c] = sum(j: 10) %s * V[j, c]\n}";
  static const struct {
    const char *type, *term, *weight;
    int depth;
    bool stay;
  } cases[] = {{"f32", "P[i, d] * Q[j, d]", "W[i, j]", 8, true},
               {"f32", "Q[j, d] * P[i, d]", "E[i, j]", 2, true},
               /* What no rule for attention takes is written out: distances, other types, other weights. */
               {"f32", "max(P[i, d], Q[j, d])", "W[i, j]", 3, false},
               {"i32", "P[i, d] * Q[j, d]", "W[i, j]", 3, false},
               {"f32", "P[i, d] * Q[j, d]", "(W[i, j] + 1)", 3, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *type = cases[i].type;
    char text[1024];
    int depth = cases[i].depth;
    snprintf(text, sizeof text, attention, type, depth, type, depth, type, type, depth, cases[i].term, cases[i].weight);
    check(text, cases[i].stay ? -1 : 7, 4, 1);
  }
}

/* They stay: products, elements of their own, groups, results of other reductions, long axes, what is stored. */
static void others_stay(void **state) {
  check("kernel f(A: f32[9, 30], B: f32[30, 3]) -> C: f32[9, 3] { C[i, c] = sum(k: 30) A[i, k] * B[k, c] }", -1, 0, 0);
  check("kernel f(X: f32[9, 30, 3]) -> C: f32[9, 3] { C[i, c] = sum(k: 30) X[i, k, c] * 2 }", -1, 0, 0);
  check("kernel f(P: f32[9, 3], Q: f32[10, 3]) -> D: f32[9, 10] { D[i, j] = sum(d: 3) P[i, d] * Q[j, d] }", -1, 0, 0);
  check(
      "kernel f(P: f32[9, 3], Q: f32[10, 3]) -> D: f32[9, 10] {\n"
      "  D[i, j] = sqrt(sum(d: 3) P[i, d] * Q[j, d])\n}",
      -1, 0, 0);
  check(
      "kernel f(P: f32[9, 5], w: f32[9, 4]) -> F: f32[9, 5] {\n"
      "  F[i, c] = sum(k: 4) exp(w[i, k]) * P[i, c]\n}",
      -1, 0, 0);
  check(
      "kernel f(P: f32[9, 16], Q: f32[10, 16], V: f32[10, 3]) -> F: f32[9, 3] {\n"
      "  S[i: 9, j: 10] = sum(d: 16) P[i, d] * Q[j, d]\n  F[i, c] = sum(j: 10) exp(S[i, j]) * V[j, c]\n}",
      -1, 0, 0);
  check(
      "kernel f(P: f32[9, 3], Q: f32[10, 3]) -> m: f32[9] {\n"
      "  store S[i: 9, j: 10] = sum(d: 3) P[i, d] * Q[j, d]\n  m[i] = max(j: 10) S[i, j]\n}",
      -1, 0, 0);
  check(
      "kernel f(P: f32[9, 3], Q: f32[10, 3]) -> m: i64[9] {\n"
      "  m[i] = argmin(j: 10) sum(d: 3) (P[i, d] - Q[j, d]) * (P[i, d] - Q[j, d])\n}",
      -1, 0, 0);
  check(
      "kernel f(x: f32[9], y: f32[9]) -> a: f32[9], b: f32[9] {\n"
      "  a[i] = sum(j: 9) x[j] * y[i]\n  b[i] = sum(j: 9) x[j] * x[i]\n}",
      -1, 0, 0);
}

/* ---- drawn declarations ------------------------------------------------------------------------------------------ */

typedef struct drawing {
  uint64_t seed;
  tn__strbuf text;
  int rewritten;
} drawing;

static int draw(drawing *d, int below) {
  d->seed = d->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->seed >> 33) % (uint64_t)below);
}

static const char *pick(drawing *d, const char *const *from, int count) { return from[draw(d, count)]; }

static void draw_pairs(drawing *d) {
  static const char *const types[] = {"f32", "f32", "f64", "i32"}, *const reducers[] = {"sum", "max", "min"};
  static const char *const distances[] = {"(P[i, d] - Q[j, d]) * (P[i, d] - Q[j, d])", "max(P[i, d], Q[j, d])",
                                          "P[i, d] * Q[j, d]"};
  static const char *const weights[] = {"max(R[i, j], 1) * w[j] * R[i, j]", "min(R[i, j], w[j] + v[i]) * R[i, j]",
                                        "R[i, j] * w[j] * w[j]"}; /* small enough for sums that do not round */
  static const char *const factors[] = {"Q[j, c]", "(Q[j, c] - P[i, c])", "select(c == 0, Q[j, 1], P[i, c])",
                                        "(v[i] + Q[j, %d - c])"};
  static const char *const sums[] = {"w[j]", "v[i]", "1"};
  const char *type = pick(d, types, 4), *reducer = pick(d, reducers, 3);
  int points = 1 + draw(d, 70), others = 1 + draw(d, 70), steps = 2 + draw(d, 4), outputs = draw(d, 3);
  bool last = draw(d, 2);
  char factor[64];
  snprintf(factor, sizeof factor, pick(d, factors, 4), steps - 1);
  const char *weight = pick(d, weights, 3);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(P: %s[%d, %d], Q: %s[%d, %d], v: %s[%d], w: %s[%d]) -> ", type, points,
                    steps, type, others, steps, type, points, type, others);
  for (int i = 0; i < outputs; i++) tn__strbuf_printf(&d->text, "s%d: %s[%d], ", i, type, points);
  tn__strbuf_printf(&d->text, "F: %s[%d, %d] {\n", type, last ? points : steps, last ? steps : points);
  const char *own = pick(d, reducers, 3); /* one draw after the other: compilers evaluate arguments in any order */
  tn__strbuf_printf(&d->text, "  R[i: %d, j: %d] = (%s(d: %d) %s) + 1\n", points, others, own, steps,
                    pick(d, distances, 3));
  for (int i = 0; i < outputs; i++) {
    own = pick(d, reducers, 3);
    const char *sum = pick(d, sums, 3);
    tn__strbuf_printf(&d->text, "  s%d[i] = %s(j: %d) %s * (%s)\n", i, own, others, sum,
                      draw(d, 2) ? weight : pick(d, weights, 3));
  }
  tn__strbuf_printf(&d->text, "  F[%s] = %s(%s(j: %d) ", last ? "i, c" : "c, i", draw(d, 2) ? "1 + " : "", reducer,
                    others);
  if (draw(d, 2))
    tn__strbuf_printf(&d->text, "%s * (%s))\n}\n", factor, weight);
  else
    tn__strbuf_printf(&d->text, "%s * %s)\n}\n", weight, factor);
}

static void draw_windows(drawing *d) {
  static const char *const types[] = {"f32", "i32", "u8", "f64"}, *const reducers[] = {"sum", "max", "min"};
  static const char *const terms[] = {"X[y + r, x + q, c]", "X[y + r, x + q, c] * w[r, q]",
                                      "max(X[y + r, x + q, c], w[r, q])", "X[y + r, x + q, c] * X[y + r, x, c]",
                                      "X[y + r, x + q, c] + v[c]"};
  static const char *const maps[] = {"S[y, x, c] + 1", "S[y, x, c] * X[y, x, c]", "max(S[y, x, c], v[c])"};
  const char *type = pick(d, types, 4);
  int rows = 1 + draw(d, 4), columns = 1 + draw(d, 4), channels = 2 + draw(d, 4), height = 1 + draw(d, 20),
      width = 1 + draw(d, 40);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(X: %s[%d, %d, %d], w: %s[%d, %d], v: %s[%d]) -> ", type, height + rows,
                    width + columns, channels, type, rows, columns, type, channels);
  tn__strbuf_printf(&d->text, "Y: %s[%d, %d, %d] {\n", type, height, width, channels);
  const char *reducer = pick(d, reducers, 3);
  tn__strbuf_printf(&d->text, "  S[y: %d, x: %d, c: %d] = %s(r: %d, q: %d) %s\n", height, width, channels, reducer,
                    rows, columns, pick(d, terms, 5));
  tn__strbuf_printf(&d->text, "  Y[y, x, c] = %s\n}\n", pick(d, maps, 3));
}

/* Products of rows or columns of pairs. */
static void draw_pairs_of_numbers(drawing *d) {
  static const char *const types[] = {"f32", "f64", "i32"}, *const reducers[] = {"sum", "max"};
  static const char *const first[] = {"A[%s, 0] * B[%s, 0] - A[%s, 1] * B[%s, 1]",
                                      "max(A[%s, 0], B[%s, 1]) + A[%s, 1] * B[%s, 0]"};
  static const char *const second[] = {"A[%s, 0] * B[%s, 1] + A[%s, 1] * B[%s, 0]",
                                       "A[%s, 0] + B[%s, 1] - A[%s, 1] - B[%s, 0]"};
  const char *type = pick(d, types, 3), *reducer = pick(d, reducers, 2);
  int results = 1 + draw(d, 80), terms = 9 + draw(d, 60);
  bool down = draw(d, 2), shared = draw(d, 2);
  const char *a = down ? "j, i" : "i, j", *b = shared ? "j" : a;
  int rows = down ? terms : results, columns = down ? results : terms;
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(A: %s[%d, %d, 2], B: %s[", type, rows, columns, type);
  if (shared)
    tn__strbuf_printf(&d->text, "%d, 2]", terms);
  else
    tn__strbuf_printf(&d->text, "%d, %d, 2]", rows, columns);
  tn__strbuf_printf(&d->text, ") -> y: %s[%d, 2] {\n  y[i, c] = %s(j: %d) select(c == 0, ", type, results, reducer,
                    terms);
  tn__strbuf_printf(&d->text, pick(d, first, 2), a, b, a, b);
  tn__strbuf_append(&d->text, ", ");
  tn__strbuf_printf(&d->text, pick(d, second, 2), a, b, a, b);
  tn__strbuf_append(&d->text, ")\n}\n");
}

static void try_drawing(tn__ir *ir, const void *arg) {
  drawing *d = *(drawing *const *)arg;
  tn__te *te = declare_text(ir, tn__strbuf_text(&d->text));
  d->rewritten += tn__te_coordinates(te) != te;
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  tn__target target = test_target(targets[draw(d, 2)]);
  tn__schedule_options options = {.threads = 1 + draw(d, 3)};
  check_ok(compare_results(default_schedule(te, &target, &options), 3));
}

static int try_all(uint64_t seed, int count, void (*draw_kernel)(drawing *d)) {
  drawing d = {.seed = seed};
  for (int i = 0; i < count; i++) {
    draw_kernel(&d);
    drawing *own = &d;
    tn_status *status = in_context(try_drawing, &own);
    if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), tn__strbuf_text(&d.text));
    tn__strbuf_release(&d.text);
  }
  print_message("%d of %d drawn declarations are rewritten\n", d.rewritten, count);
  return d.rewritten;
}

static void drawn_pairs_compute_what_they_declare(void **state) {
  enum { DRAWN = 300 };
  assert_true(try_all(20261130, DRAWN, draw_pairs) > DRAWN / 2);
}

static void drawn_pairs_of_numbers_compute_what_they_declare(void **state) {
  enum { DRAWN = 200 };
  assert_true(try_all(20261202, DRAWN, draw_pairs_of_numbers) == DRAWN);
}

static void drawn_windows_compute_what_they_declare(void **state) {
  enum { DRAWN = 200 };
  assert_true(try_all(20261201, DRAWN, draw_windows) > DRAWN / 4);
}

/* Maps that each read the two before: there are as many ways through them as Fibonacci's numbers. */
static void ask_through_many_maps(tn__ir *ir, const void *arg) {
  (void)arg;
  enum { MAPS = 80 };
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text,
                    "kernel f(P: f32[9, 3]) -> y: f32[9] {\n"
                    "  m0[i: 9, j: 9] = sum(d: 3) (P[i, d] - P[j, d]) * (P[i, d] - P[j, d])\n"
                    "  m1[i: 9, j: 9] = sqrt(m0[i, j])\n");
  for (int m = 2; m < MAPS; m++)
    tn__strbuf_printf(&text, "  m%d[i: 9, j: 9] = m%d[i, j] * 0.5 + m%d[i, j]\n", m, m - 1, m - 2);
  tn__strbuf_printf(&text, "  y[i] = sum(j: 9) m%d[i, j]\n}\n", MAPS - 1);
  tn__te_coordinates(declare_text(ir, tn__strbuf_text(&text))); /* ends */
  tn__strbuf_release(&text);
}

static void many_maps_are_asked_once(void **state) { check_ok(in_context(ask_through_many_maps, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_with_work_in_common_are_tensors),
                                     cmocka_unit_test(results_of_the_same_elements_are_tensors),
                                     cmocka_unit_test(short_sums_are_written_out),
                                     cmocka_unit_test(windows_of_pixels_are_written_out),
                                     cmocka_unit_test(work_in_common_makes_siblings),
                                     cmocka_unit_test(scores_of_attention_stay),
                                     cmocka_unit_test(others_stay),
                                     cmocka_unit_test(many_maps_are_asked_once),
                                     cmocka_unit_test(drawn_pairs_compute_what_they_declare),
                                     cmocka_unit_test(drawn_pairs_of_numbers_compute_what_they_declare),
                                     cmocka_unit_test(drawn_windows_compute_what_they_declare)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
