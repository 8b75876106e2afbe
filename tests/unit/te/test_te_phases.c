/* Sums whose terms a remainder leaves out: what becomes of them, and that the plain loops of both compute the same. */
#include <stdio.h>

#include "unit/te_same.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

typedef struct expected {
  int stages;   /* of phases; 0: the declaration stays */
  int64_t work; /* terms of all their sums together */
} expected;

static int64_t positions(const tn__te_axes *axes) {
  int64_t count = 1, extent;
  for (int i = 0; i < axes->count; i++) count *= tn__ir_as_int(axes->var[i]->extent, &extent) ? extent : OPEN_DIM;
  return count;
}

static void te_text_show(const tn__te *te) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print(te, &text);
  print_message("%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *phases = tn__te_place(tn__te_phases(te), 32);
  int stages = tn__te_stage_count(phases) - tn__te_stage_count(te);
  int64_t work = 0;
  for (int s = 0; s < tn__te_stage_count(phases) && stages > 0; s++) {
    const tn__te_stage *stage = tn__te_stage_at(phases, s);
    if (stage->kind == TN__TE_REDUCE) work += positions(&stage->axes) * positions(&stage->reduce_axes);
  }
  if (stages != e->stages || work != e->work) te_text_show(phases);
  assert_int_equal(stages, e->stages);
  assert_int_equal(work, e->work);
  check_ok(tn__te_verify(phases));
  check_same_elements(te, phases);
}

static void check(const char *text, int stages, int64_t work) {
  expected e = {stages, work};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) print_message("%s\n", text);
  check_ok(status);
}

#define READ "0 <= (y + 1 - k) / 2 < 9, X[(y + 1 - k) / 2]"
#define HEAD "kernel f(X: f32[9], W: f32[4]) -> Y: f32[18] { Y[y] = "

/* 2 phases of (18 + 1 + 1) / 2 positions, of two terms each. */
static void masks_are_written_in_many_ways(void **state) {
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0 && " READ ", 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0 && " READ " * W[k], 0) }", 1, 40);
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0, select(" READ ", 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0, pad(X[(y + 1 - k) / 2], 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) W[k] * pad(X[(y + 1 - k) / 2], 0) * f32((y + 1 - k) % 2 == 0) }", 1, 40);
  check(HEAD "sum(k) select((y + 1 - k) % 2 != 0, 0, select(" READ ", 0)) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((y - k) % 2 != 0, select(" READ ", 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((k - y) % 2 == 1, select(" READ ", 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((y + 1) % 2 == k % 2, select(" READ ", 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select((y + 1 - k) / 2 * 2 == y + 1 - k && " READ ", 0) * W[k] }", 1, 40);
  check(HEAD "sum(k) select(!((y + k) % 4 % 2 == 0), select(" READ ", 0), 0) * W[k] }", 1, 40);
  check(HEAD "sum(t: 9, k: 4) select(2 * t + k == y + 1, X[t] * W[k], 0) }", 1, 40);
  check(HEAD "max(k) select((y + 1 - k) % 2 == 0, pad(X[(y + 1 - k) / 2], 0) * W[k], -inf) }", 1, 40);
  check("kernel f(X: i32[9]) -> Y: i32[9] { Y[y] = sum(k: 3 .. 9) select((y + k) % 2 == 0, X[k], 0) }", 1, 30);
}

static void windows_of_all_lengths_and_steps(void **state) {
  const char *text =
      "kernel f(X: i32[9], W: i32[%d]) -> Y: i32[%d] {\n"
      "  Y[y] = sum(k) select((y + %d %c k) %% %d == %d, pad(X[(y - k) / %d], 0) * W[k], 0)\n"
      "}";
  for (int step = 2; step < 6; step++) {
    for (int length = 2; length < 8; length++) {
      for (int start = 0; start < step; start++) {
        for (int size = 2 * step; size < 3 * step; size++) {
          bool turned = (start + size) % 2;
          char line[512];
          snprintf(line, sizeof line, text, length, size, start, turned ? '+' : '-', step, length % step, step);
          int64_t added = step == 2 || !turned ? start - length % step : start - length % step - 1;
          int64_t turns = (size - 1 + (added + step) % step) / step + 1;
          check(line, length < step || length % step == 0 ? 1 : 2, turns * length);
        }
      }
    }
  }
}

static void images_have_phases_in_each_dimension(void **state) {
  /* Sums of 2 x 2, 2, 2 and 1 terms, at 5 x 4 positions each. */
  check(
      "kernel f(X: f32[2, 4, 3], W: f32[2, 3, 3, 3]) -> Y: f32[3, 9, 7] {\n"
      "  Y[o, y, x] = sum(c, r, q) select((y + 1 - r) % 2 == 0 && (x + 1 - q) % 2 == 0,\n"
      "    pad(X[c, (y + 1 - r) / 2, (x + 1 - q) / 2], 0), 0) * W[c, o, r, q]\n"
      "}",
      4, INT64_C(3) * 5 * 4 * 2 * 9);
  check(
      "kernel f(X: f32[2, 4, 3], W: f32[2, 3, 4, 2]) -> Y: f32[3, 9, 7] {\n"
      "  Y[o, y, x] = sum(c, r, q) select((y + 1 - r) % 2 == 0 && (x + 1 - q) % 2 == 0,\n"
      "    pad(X[c, (y + 1 - r) / 2, (x + 1 - q) / 2], 0), 0) * W[c, o, r, q]\n"
      "}",
      1, INT64_C(3) * 5 * 4 * 2 * 8);
  check(
      "kernel f(X: f32[2, 4, N], W: f32[2, 3, 3, 3]) -> Y: f32[3, 9, N] {\n"
      "  Y[o, y, x] = sum(c, r, q) select((x + 1 - q) % 2 == 0,\n"
      "    pad(X[c, y - r, (x + 1 - q) / 2], 0), 0) * W[c, o, r, q]\n"
      "}",
      2, INT64_C(3) * 9 * OPEN_DIM * 2 * 3 * 3);
}

/* What stands at positions that no element has would be read outside of its tensor. */
static void nothing_is_read_outside(void **state) {
  check("kernel f(X: i32[9], W: i32[4]) -> Y: i32[9] { Y[y] = sum(k) select((y + 1 - k) % 2 == 0, X[y] * W[k], 0) }", 1,
        20);
  check("kernel f(X: i32[N], W: i32[4]) -> Y: i32[N] { Y[y] = sum(k) select((y + 1 - k) % 2 == 0, X[y] * W[k], 0) }", 1,
        4 * OPEN_DIM);
}

static void others_stay(void **state) {
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0 && " READ ", 1) * W[k] }", 0, 0);
  check(HEAD "max(k) select((y + 1 - k) % 2 == 0 && " READ ", 0) * W[k] }", 0, 0);
  check(HEAD "sum(k) select((y + 1 - k) % 2 == 0 || y > 3, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select((y + 1 - k) % 3 != 0, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select((y + 1 - k) % 2 != 3, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select((y + 1 - 2 * k) % 5 == 0, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select((y * k) % 2 == 0, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select(k % 2 == 0, W[k], 0) }", 0, 0);
  check(HEAD "sum(k) select((y + k) % 16 == 0, W[k], 0) }", 0, 0);
  check("kernel f(X: i32[9, 9]) -> Y: i32[9, 9] { Y[y, x] = sum(k: 4) select((y + x + k) % 2 == 0, X[y, x], 0) }", 0,
        0);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */

enum { KERNELS = 60 };

/* " && " and so on between the parts for each dimension of an image. */
static const char *between(int d, const char *text) { return d == 0 ? "" : text; }

static void add_mask(maker *m, int d, int start, int step) {
  switch (any(m, 4)) {
    case 0: add(m, "(y%d + %d - k%d) %% %d == 0", d, start, d, step); return;
    case 1: add(m, "y%d %% %d == (k%d + %d) %% %d", d, step, d, step - start % step, step); return;
    case 2: add(m, "(y%d + %d - k%d) / %d * %d == y%d + %d - k%d", d, start, d, step, step, d, start, d); return;
    default: add(m, "!((k%d - y%d - %d) %% %d != 0)", d, d, start, step); return;
  }
}

/* A convolution over an image whose pixels lie a few steps apart, of one or two dimensions, channels first or last. */
static void make_convolution(maker *m) {
  static const char *const types[] = {"f32", "f64", "i32", "i8", "f16"};
  const char *type = types[any(m, 5)];
  int rank = 1 + any(m, 2), last = any(m, 2), outside = any(m, 2);
  int step[2], window[2], image[2], result[2], start[2], channels = 1 + any(m, 20);
  for (int d = 0; d < rank; d++) {
    step[d] = 2 + any(m, 3);
    window[d] = 2 + any(m, 5);
    image[d] = 3 + any(m, d == 1 ? 20 : 6);
    result[d] = step[d] * image[d] + any(m, 3);
    start[d] = any(m, window[d]);
  }
  add(m, "kernel f(X: %s[3", type);
  for (int d = 0; d < rank; d++) add(m, ", %d", image[d]);
  add(m, "], W: %s[3, %d", type, channels);
  for (int d = 0; d < rank; d++) add(m, ", %d", window[d]);
  add(m, "]) -> Y: %s[", type);
  if (!last) add(m, "%d, ", channels);
  for (int d = 0; d < rank; d++) add(m, "%s%d", between(d, ", "), result[d]);
  if (last) add(m, ", %d", channels);
  add(m, "] {\n  Y[%s", last ? "" : "o, ");
  for (int d = 0; d < rank; d++) add(m, "%sy%d", between(d, ", "), d);
  add(m, "%s] = sum(c", last ? ", o" : "");
  for (int d = 0; d < rank; d++) add(m, ", k%d", d);
  add(m, ") select(");
  for (int d = 0; d < rank; d++) {
    add(m, "%s", between(d, " && "));
    add_mask(m, d, start[d], step[d]);
  }
  add(m, ", pad(X[c");
  for (int d = 0; d < rank; d++) add(m, ", (y%d + %d - k%d) / %d", d, start[d], d, step[d]);
  const char *weight = rank == 1 ? " * W[c, o, k0]" : " * W[c, o, k0, k1]";
  add(m, "], 0)%s, 0)%s\n}\n", outside ? "" : weight, outside ? weight : "");
}

static void compare_chosen(tn__te *te, void *target) { check_rewritten(te, tn__te_phases(te), target); }

static void random_ones_keep_their_elements(void **state) {
  check_drawn_texts(KERNELS, make_convolution, compare_chosen);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_written_in_many_ways),
                                     cmocka_unit_test(windows_of_all_lengths_and_steps),
                                     cmocka_unit_test(images_have_phases_in_each_dimension),
                                     cmocka_unit_test(nothing_is_read_outside),
                                     cmocka_unit_test(others_stay),
                                     cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
