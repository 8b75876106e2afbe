/* Products of bytes four at a time: which sums become that, and that the plain loops and schedules of both declarations
 * agree for all bytes. */
#include <stdio.h>

#include "target/text/text.h"
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

enum { KERNELS = 80 };

/* Any bytes, the least and the greatest more often than others. */
static uint8_t *elements_of(const tn__te *te, const tn__func *func, uint64_t seed, size_t *size) {
  static const uint8_t edges[] = {0x00, 0xff, 0x7f, 0x80};
  static const int64_t scalars[] = {OPEN_DIM, OPEN_DIM, OPEN_DIM, OPEN_DIM};
  const tn__interpret_options options = {.max_operations = 50000000};
  void *buffers[MOST_BUFFERS];
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    uint8_t *bytes = buffers[i] = fresh_bytes(func->params[i]);
    for (size_t b = 0; i < func->input_count && b < byte_count(func->params[i]); b++)
      bytes[b] = next(&seed) % 2 ? edges[next(&seed) % 4] : (uint8_t)next(&seed);
  }
  check_ok(tn__ir_interpret(tn__te_ir(te), func, buffers, scalars, &options));
  return take_outputs(func, buffers, size);
}

static void check_equal(const tn__te *te, const tn__te *other_te, const tn__func *func, uint64_t seed) {
  size_t size, other;
  uint8_t *before = elements_of(te, tn__te_lower(te), seed, &size);
  uint8_t *after = elements_of(other_te, func, seed, &other);
  assert_int_equal(size, other);
  assert_memory_equal(before, after, size);
  free(before);
  free(after);
}

static bool is_dot(tn__intrinsic call) { return call == TN__CALL_DOT4 || call == TN__CALL_DOT2; }

static int sums_of_words(const tn__te *te) {
  int count = 0;
  for (int s = 0; s < tn__te_stage_count(te); s++) {
    const tn__te_stage *stage = tn__te_stage_at(te, s);
    if (stage->kind != TN__TE_REDUCE) continue;
    count += stage->values[0]->kind == TN__EXPR_CALL && is_dot(stage->values[0]->intrinsic);
  }
  return count;
}

static void compare(tn__te *te, void *user) {
  const tn__te *words = tn__te_words(te, true);
  assert_int_equal(sums_of_words(words), *(const int *)user);
  assert_true((words == te) == (*(const int *)user == 0));
  check_ok(tn__te_verify(words));
  for (uint64_t seed = 1; seed < 4; seed++) check_equal(te, words, tn__te_lower(words), seed);
}

/* `sums`: of words, those that the turned operand needs included. */
static void check(const char *text, int sums) {
  te_text_job j = {.text = text, .then = compare, .user = &sums};
  tn_status *status = te_text_run(&j);
  if (status != NULL) print_message("%s\n", text);
  check_ok(status);
}

#define PRODUCT(left, right, term) \
  "kernel f(A: " left "[40, 24], B: " right "[24, 40]) -> C: i32[40, 40] { C[i, j] = sum(k: 24) " term " }"
#define PLAIN "i32(A[i, k]) * i32(B[k, j])"

static void bytes_of_all_kinds(void **state) {
  check(PRODUCT("u8", "i8", PLAIN), 1);
  check(PRODUCT("i8", "u8", PLAIN), 1);
  check(PRODUCT("i8", "i8", PLAIN), 2);
  check(PRODUCT("u8", "u8", PLAIN), 2);
  check(PRODUCT("u8", "i8", "i32(i16(A[i, k])) * i32(i16(B[k, j]))"), 1);
  check(PRODUCT("u8", "u8", "i32(u16(A[i, k])) * i32(i16(B[k, j]))"), 2);
  check(PRODUCT("i16", "i16", PLAIN), 1);
  check(PRODUCT("u8", "i16", PLAIN), 1);
  check(PRODUCT("i16", "i8", "i32(A[i, k]) * i32(i16(B[k, j]))"), 1);
}

static void axes_of_all_lengths(void **state) {
  check("kernel f(A: i8[40, 23], B: i8[40, 23]) -> C: i32[40, 40] { C[i, j] = sum(k) i32(A[i, k]) * i32(B[j, k]) }", 2);
  check("kernel f(A: u8[40, 5], B: i8[40, 5]) -> C: i32[40, 40] { C[i, j] = sum(k) i32(A[i, k]) * i32(B[j, k]) }", 1);
  check(
      "kernel f(A: u8[40, 24], B: i8[40, 30]) -> C: i32[40, 40] {\n"
      "  C[i, j] = sum(k: 24) i32(A[i, k]) * i32(B[j, k])\n"
      "}",
      1);
  check(
      "kernel f(X: u8[8, 20, 20], W: i8[24, 8, 3, 3]) -> Y: i32[24, 18, 18] {\n"
      "  Y[o, y, x] = sum(c, r, q) i32(X[c, y + r, x + q]) * i32(W[o, c, r, q])\n"
      "}",
      1);
  check(
      "kernel f(X: i8[20, 20, 6], W: i8[3, 3, 6, 24]) -> Y: i32[20, 20, 24] {\n"
      "  Y[y, x, o] = sum(r, q, c) i32(pad(X[y + r - 1, x + q - 1, c], 0)) * i32(W[r, q, c, o])\n"
      "}",
      2);
}

/* Where words are not exact, or not worth being made. */
static void others_stay(void **state) {
  check(PRODUCT("u8", "i8", "i32(A[i, k] * 3) * i32(B[k, j])"), 0);
  check(PRODUCT("u8", "i8", "i32(i8(A[i, k])) * i32(B[k, j])"), 0);
  check(PRODUCT("u8", "i8", "i32(A[i, k]) * i32(u16(B[k, j]))"), 0);
  check(PRODUCT("u8", "i8", "i32(A[i, k]) + i32(B[k, j])"), 0);
  check(PRODUCT("u16", "i8", PLAIN), 0);
  check("kernel f(A: u8[40, 3], B: i8[40, 3]) -> C: i32[40, 40] { C[i, j] = sum(k) i32(A[i, k]) * i32(B[j, k]) }", 0);
  check("kernel f(A: u8[400, 24], B: i8[24]) -> C: i32[400] { C[i] = sum(k) i32(A[i, k]) * i32(B[k]) }", 0);
  check(
      "kernel f(A: u8[40, 48], B: i8[40, 48]) -> C: i32[40, 40] {\n"
      "  C[i, j] = sum(k: 24) i32(A[i, 2 * k]) * i32(B[j, 2 * k])\n"
      "}",
      0);
  check(
      "kernel f(A: u8[40, 30], B: i8[40, 30]) -> C: i32[40, 40] {\n"
      "  C[i, j] = sum(k: 23) i32(A[i, k]) * i32(B[j, k])\n"
      "}",
      0);
}

/* A pair in one order or the other. */
static void add_pair(maker *m, bool turned, const char *a, const char *b) {
  add(m, "%s, %s", turned ? b : a, turned ? a : b);
}

/* A product of matrices in any order of their axes, a batch of them at times, with a map behind it at times. */
static void make_product(maker *m) {
  static const char *const types[] = {"u8", "i8", "i16"};
  char rows[16], columns[16], depth[16];
  bool turned[] = {any(m, 2), any(m, 2), any(m, 2)}, batch = any(m, 3) == 0, map = any(m, 2);
  const char *two = batch ? "2, " : "", *n = batch ? "n, " : "";
  snprintf(rows, sizeof rows, "%d", 35 + any(m, 20));
  snprintf(columns, sizeof columns, "%d", 35 + any(m, 40));
  snprintf(depth, sizeof depth, "%d", 4 + any(m, 20));
  add(m, "kernel f(A: %s[%s", types[any(m, 3)], two);
  add_pair(m, turned[0], rows, depth);
  add(m, "], B: %s[%s", types[any(m, 3)], two);
  add_pair(m, turned[1], depth, columns);
  add(m, "]) -> Y: i32[%s", two);
  add_pair(m, turned[2], rows, columns);
  add(m, "] {\n  %s[%s", map ? "C" : "Y", batch && map ? "n: 2, " : n);
  if (map)
    add(m, "%s: %s, %s: %s", turned[2] ? "j" : "i", turned[2] ? columns : rows, turned[2] ? "i" : "j",
        turned[2] ? rows : columns);
  else
    add_pair(m, turned[2], "i", "j");
  add(m, "] = sum(k) i32(A[%s", n);
  add_pair(m, turned[0], "i", "k");
  add(m, "]) * i32(B[%s", n);
  add_pair(m, turned[1], "k", "j");
  add(m, "])\n");
  if (map) add(m, "  Y[%sp, q] = max(C[%sp, q] * 3, 7)\n", n, n);
  add(m, "}\n");
}

static void compare_chosen(tn__te *te, void *user) {
  tn__target target;
  bool vnni = *(const uint64_t *)user % 3 != 0;
  check_ok(tn__target_parse(vnni ? "x86-64-v4+avx512vnni" : "x86-64-v3", &target));
  const tn__schedule *s = default_schedule(te, &target, NULL);
  tn__ir *ir = tn__te_ir(te);
  assert_true(sums_of_words(tn__schedule_te(s)) > 0);
  check_equal(te, te, tn__schedule_func(s), *(const uint64_t *)user);
  check_equal(te, te, tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL), *(const uint64_t *)user);
}

static void random_ones_keep_their_elements(void **state) {
  for (uint64_t k = 0; k < KERNELS; k++) {
    maker m = {.state = k};
    make_product(&m);
    te_text_job j = {.text = m.text, .then = compare_chosen, .user = &k};
    tn_status *status = te_text_run(&j);
    if (status != NULL) print_message("%s", m.text);
    check_ok(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_of_all_kinds), cmocka_unit_test(axes_of_all_lengths),
                                     cmocka_unit_test(others_stay), cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
