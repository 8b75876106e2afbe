/* Long reductions to a few results: which become one, and that it computes the same. Declarations of such are drawn at
 * random; their schedules must compute what their plain loops do. */
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/te_same.h"
#include "unit/te_text_check.h"

/* ---- what becomes one -------------------------------------------------------------------------------------------- */

enum { MOST = 16, VECTOR_BYTES = 32, APART = 4 };

typedef struct expected {
  int stages;
  int64_t results; /* of the first reduction; 0: nothing changes */
} expected;

static void compare(tn__te *te, void *user) {
  const expected *wanted = user;
  const tn__te *joined = tn__te_together(te, MOST, VECTOR_BYTES, APART);
  check_ok(tn__te_verify(joined));
  assert_int_equal(tn__te_stage_count(joined), wanted->stages);
  assert_true((joined == te) == (wanted->results == 0));
  if (joined == te) return;
  assert_ptr_equal(tn__te_together(joined, MOST, VECTOR_BYTES, APART), joined);
  check_same_elements(te, joined);
  for (int s = 0; s < tn__te_stage_count(joined); s++) {
    const tn__te_stage *stage = tn__te_stage_at(joined, s);
    if (stage->kind != TN__TE_REDUCE) continue;
    const tn__te_axes *axes = &stage->axes;
    assert_true(tn__ir_is_int_value(axes->var[axes->count - 1]->extent, wanted->results));
    break;
  }
}

static void check(const char *text, int stages, int64_t results) {
  expected wanted = {stages, results};
  te_text_job j = {.text = text, .then = compare, .user = &wanted};
  tn_status *status = te_text_run(&j);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
}

static void results_of_different_shapes_are_together(void **state) {
  check(
      "kernel f(A: f32[70, 3], b: f32[70]) -> N: f32[3, 3], r: f32[3] {\n"
      "  N[i, j] = sum(n) A[n, i] * A[n, j]\n  r[i] = sum(n) A[n, i] * b[n]\n}",
      3, 9);
  check(
      "kernel f(P: f64[40, 2], w: f64[40]) -> s: f64, c: f64[2], M: f64[2, 2] {\n"
      "  s = sum(n: 40) w[n]\n  c[i] = (sum(n) P[n, i] * w[n]) / 40\n"
      "  M[i, j] = (sum(n) P[n, i] * w[n] * P[n, j]) - c[i] * c[j]\n}",
      6, 6);
  /* six numbers of one image */
  check(
      "kernel f(I: f32[9, 65]) -> a: f32, b: f32, c: f32, d: f32, e: f32 {\n"
      "  a = sum(y, x) I[y, x]\n  b = sum(y, x) f32(y) * I[y, x]\n  c = sum(y, x) f32(x) * I[y, x]\n"
      "  d = sum(y, x) I[y, x] * I[y, x]\n  e = sum(y, x) f32(x) * I[y, x] * f32(y)\n}",
      6, 5);
  /* behind what makes the second's weights */
  check(
      "kernel f(A: f32[70, 3], b: f32[70]) -> N: f32[3, 3], r: f32[3] {\n"
      "  N[i, j] = sum(n) A[n, i] * A[n, j]\n  w[n: 70] = exp(b[n])\n  r[i] = sum(n) A[n, i] * w[n]\n}",
      4, 9);
}

static void equal_results_are_computed_once(void **state) {
  check("kernel f(A: f32[70, 4]) -> N: f32[4, 4] { N[i, j] = sum(n) A[n, i] * A[n, j] }", 2, 10);
  check(
      "kernel f(A: f32[3, 70], m: f32[3]) -> N: f32[3, 3] {\n"
      "  N[i, j] = sum(n) (A[j, n] - m[j]) * (A[i, n] - m[i])\n}",
      2, 6);
  check("kernel f(A: i16[140, 3]) -> N: i16[3, 3] { N[i, j] = max(n) select(A[n, 0] > 2, A[n, i] * A[n, j], 0) }", 2,
        6);
}

/* Of a batch, each for itself, also where something is the same for all of it. */
static void axes_of_a_batch_stay(void **state) {
  check(
      "kernel f[B](A: f32[B, 70, 3], b: f32[B, 70]) -> N: f32[B, 3, 3], r: f32[B, 3] {\n"
      "  N[t, i, j] = sum(n) A[t, n, i] * A[t, n, j]\n  r[t, i] = sum(n) A[t, n, i] * b[t, n]\n}",
      3, 9);
  check(
      "kernel f(A: f32[3, 33, 2, 70], w: f32[70]) -> s: f32[3, 33], N: f32[3, 33, 2, 2] {\n"
      "  s[t, u] = sum(n) w[n] * A[t, u, 0, n]\n"
      "  N[v, u, i, j] = sum(n) w[n] * A[v, u, i, n] * A[v, u, j, n]\n}",
      3, 4);
  check(
      "kernel f(A: f32[99, 70, 2]) -> N: f32[99, 2, 2], s: f32[98, 2] {\n"
      "  N[t, i, j] = sum(n) A[t, n, i] * A[t, n, j]\n  s[t, i] = sum(n) A[t, n, i]\n}",
      3, 3);
}

/* Small maps that only the reductions read are written out in the terms; not what is an output, read by others, or
 * takes functions. */
static void own_maps_are_written_out(void **state) {
  check(
      "kernel f(A: f32[3, 70], m: f32[70]) -> N: f32[3, 3], r: f32[3] {\n"
      "  B[n: 70, i: 3] = A[i, n] - m[n]\n  C[n: 70, i: 6] = select(i < 3, B[n, min(i, 2)], m[n])\n"
      "  N[i, j] = sum(n: 70) C[n, i] * C[n, j + 3]\n  r[i] = sum(n: 70) B[n, i]\n}",
      3, 6);
  check(
      "kernel f(A: f32[70, 3], m: f32[70]) -> B: f32[70, 3], N: f32[3, 3] {\n"
      "  B[n, i] = A[n, i] - m[n]\n  N[i, j] = sum(n) B[n, i] * B[n, j]\n}",
      3, 6);
  check(
      "kernel f(A: f32[70, 3], m: f32[70]) -> N: f32[3, 3], c: f32[70] {\n"
      "  B[n: 70, i: 3] = A[n, i] - m[n]\n  N[i, j] = sum(n) B[n, i] * B[n, j]\n  c[n] = B[n, 0] * 2\n}",
      4, 6);
  check(
      "kernel f(A: f32[70, 3]) -> N: f32[3, 3] {\n"
      "  B[n: 70, i: 3] = exp(A[n, i])\n  N[i, j] = sum(n) B[n, i] * B[n, j]\n}",
      3, 6);
}

/* As many to a reduction as registers hold. */
static void many_results_take_several_passes(void **state) {
  check(
      "kernel f(A: f32[70, 4], B: f32[70, 3]) -> N: f32[4, 4], R: f32[4, 3] {\n"
      "  N[i, j] = sum(n) A[n, i] * A[n, j]\n  R[i, k] = sum(n) A[n, i] * B[n, k]\n}",
      4, 11);
}

/* They stay apart: nothing in common, another combiner, other axes, one needs the other, siblings, far elements, few
 * terms, many results, terms in order, open lengths. */
static void others_stay(void **state) {
  check(
      "kernel f(A: f32[70, 3], B: f32[70]) -> p: f32[3], r: f32 {\n"
      "  p[i] = sum(n) A[n, i]\n  r = sum(n: 70) B[n]\n}",
      2, 0);
  check(
      "kernel f(A: f32[70, 3], b: f32[70]) -> p: f32[3], r: f32 {\n"
      "  p[i] = sum(n) A[n, i]\n  r = max(n: 70) A[n, 0]\n}",
      2, 0);
  check(
      "kernel f(A: f32[70, 3]) -> p: f32[3], r: f32 {\n"
      "  p[i] = sum(n) A[n, i]\n  r = sum(n: 69) A[n, 0]\n}",
      2, 0);
  check(
      "kernel f(A: f32[70, 3]) -> p: f32[3], r: f32 {\n"
      "  p[i] = sum(n) A[n, i]\n  r = sum(n: 70) A[n, 0] * p[1]\n}",
      2, 0);
  check(
      "kernel f(A: f32[70, 3]) -> p: f32[3], r: f32[3] {\n"
      "  p[i] = sum(n) A[n, i]\n  r[i] = sum(n) A[n, i] * A[n, i]\n}",
      2, 0);
  check("kernel f(A: f32[70, 5]) -> N: f32[5, 5] { N[i, j] = sum(n) A[n, i] * A[n, j] }", 1, 0);
  check("kernel f(A: f32[60, 4]) -> N: f32[4, 4] { N[i, j] = sum(n) A[n, i] * A[n, j] }", 1, 0);
  check("kernel f(A: f32[16, 70]) -> N: f32[16, 16] { N[i, j] = sum(n) A[i, n] * A[j, n] }", 1, 0);
  check(
      "kernel f(A: f32[70, 4]) -> N: f32[4, 4] {\n"
      "  combiner in_order plus(l: f32, r: f32) = l + r from 0\n  N[i, j] = plus(n) A[n, i] * A[n, j]\n}",
      1, 0);
  check("kernel f[K](A: f32[K, 4]) -> N: f32[4, 4] { N[i, j] = sum(n) A[n, i] * A[n, j] }", 1, 0);
  check("kernel f(A: f32[70, 4]) -> N: f32[4, 4] {\n  store N[i, j] = sum(n) A[n, i] * A[n, j]\n}", 1, 0);
}

/* ---- drawn declarations ------------------------------------------------------------------------------------------ */

typedef struct drawing {
  uint64_t seed;
  tn__strbuf text;
  int joined;
} drawing;

static int draw(drawing *d, int below) {
  d->seed = d->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->seed >> 33) % (uint64_t)below);
}

/* Two to four reductions of points, or of planes, one set of them or several. */
static void draw_results(drawing *d) {
  static const char *const types[] = {"f32", "i32", "f64", "i16", "f32"}, *const reducers[] = {"sum", "sum", "max"};
  static const char *const matrices[] = {"%s * %s", "(%s + w[n]) * %s", "w[n] * %s * %s", "%s - %s"};
  static const char *const vectors[] = {"%s", "%s * w[n]", "w[n] * %s * w[n]", "select(w[n] < 1, %s, 0)"};
  const char *type = types[draw(d, 5)], *reducer = reducers[draw(d, 3)];
  const bool planes = draw(d, 3) == 0;
  const int terms = 20 + draw(d, 200), size = 2 + draw(d, 3), count = 2 + draw(d, 3);
  const int sets = draw(d, 3) == 0 ? 2 + draw(d, 40) : 0;
  const char *read = draw(d, 3) == 0 ? "B" : "A"; /* a map of the tensor, or the tensor */
  char set[16] = "", at[3][24];
  if (sets > 0) snprintf(set, sizeof set, "%d, ", sets);
  static const char *const positions[] = {"i", "j", "0"};
  for (int i = 0; i < 3; i++)
    snprintf(at[i], sizeof at[i], "%s[%s%s, %s]", read, sets > 0 ? "t, " : "", planes ? positions[i] : "n",
             planes ? "n" : positions[i]);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(A: %s[%s%d, %d], w: %s[%d]) -> ", type, set, planes ? size : terms,
                    planes ? terms : size, type, terms);
  int shape[4];
  for (int i = 0; i < count; i++) {
    shape[i] = sets > 0 ? 1 + draw(d, 2) : draw(d, 3);
    tn__strbuf_printf(&d->text, "%ss%d: %s", i > 0 ? ", " : "", i, type);
    if (shape[i] > 0) tn__strbuf_printf(&d->text, shape[i] == 1 ? "[%s%d]" : "[%s%d, %d]", set, size, size);
  }
  tn__strbuf_append(&d->text, " {\n");
  if (*read == 'B') {
    const char *of = sets > 0 ? (planes ? "t, i, n" : "t, n, i") : planes ? "i, n" : "n, i";
    tn__strbuf_printf(&d->text, "  B[%s] = select(i == 0, A[%s] - w[n], A[%s] * w[n])\n", of, of, of);
  }
  for (int i = 0; i < count; i++) {
    const char *axes[] = {"", sets > 0 ? "[t, i]" : "[i]", sets > 0 ? "[t, i, j]" : "[i, j]"};
    tn__strbuf_printf(&d->text, "  s%d%s = (%s(n: %d) ", i, axes[shape[i]], reducer, terms);
    if (shape[i] == 2)
      tn__strbuf_printf(&d->text, matrices[draw(d, 4)], at[0], at[1]);
    else
      tn__strbuf_printf(&d->text, vectors[draw(d, 4)], at[shape[i] == 1 ? 0 : 2]);
    tn__strbuf_append(&d->text, draw(d, 2) ? ")\n" : ") * 2\n");
  }
  tn__strbuf_append(&d->text, "}\n");
}

static void try_drawing(tn__ir *ir, const void *arg) {
  drawing *d = *(drawing *const *)arg;
  tn__te *te = declare_text(ir, tn__strbuf_text(&d->text));
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  tn__target target = test_target(targets[draw(d, 2)]);
  tn__schedule_options options = {.threads = 1 + draw(d, 3)};
  d->joined += tn__te_together(te, MOST, VECTOR_BYTES, APART) != te;
  tn__schedule *s = default_schedule(te, &target, &options);
  check_ok(compare_results(s, 3));
}

static void drawn_results_are_what_they_declare(void **state) {
  enum { DRAWN = 300 };
  drawing drawn = {.seed = 20261128}, *d = &drawn;
  for (int i = 0; i < DRAWN; i++) {
    draw_results(d);
    tn_status *status = in_context(try_drawing, &d);
    if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), tn__strbuf_text(&d->text));
    tn__strbuf_release(&d->text);
  }
  print_message("%d of %d drawn declarations are computed together\n", d->joined, DRAWN);
  assert_true(d->joined > DRAWN / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_of_different_shapes_are_together),
                                     cmocka_unit_test(equal_results_are_computed_once),
                                     cmocka_unit_test(axes_of_a_batch_stay),
                                     cmocka_unit_test(own_maps_are_written_out),
                                     cmocka_unit_test(many_results_take_several_passes),
                                     cmocka_unit_test(others_stay),
                                     cmocka_unit_test(drawn_results_are_what_they_declare)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
