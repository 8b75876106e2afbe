/* Positions of the greatest elements of columns: which reductions take their terms in order, and that the plain loops
 * and the schedules of both declarations agree, NaNs, infinities and equal elements included. */
#include <math.h>

#include "base/dtype.h"
#include "target/text/text.h"
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"

typedef struct expected {
  bool in_order;
  tn_dtype position;
} expected;

/* Few numbers, so that many are equal, and now and then nothing but the identity of a maximum. */
static uint8_t *elements_of(const tn__te *te, const tn__func *func, uint64_t seed, size_t *size) {
  static const double numbers[] = {NAN, -INFINITY, -INFINITY, 0, -0.0, 1, 3, INFINITY};
  static const int64_t scalars[] = {OPEN_DIM, OPEN_DIM, OPEN_DIM, OPEN_DIM};
  const tn__interpret_options options = {.max_operations = 50000000};
  void *buffers[MOST_BUFFERS];
  int first = (int)(seed % 3), count = seed % 4 == 0 ? 1 : 3 + (int)(seed % 3);
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    const tn__buffer *buffer = func->params[i];
    buffers[i] = fresh_bytes(buffer);
    for (int64_t e = 0; i < func->input_count && e < element_count(buffer); e++) {
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      int n = (int)(seed >> 33) % count;
      double number = tn__dtype_is_float(buffer->dtype) ? numbers[first + n] : (double)(n == 0 ? 0 : n + 1);
      tn__store_f64(buffer->dtype, buffers[i], e, number);
    }
  }
  check_ok(tn__ir_interpret(tn__te_ir(te), func, buffers, scalars, &options));
  return take_outputs(func, buffers, size);
}

static void check_equal(const tn__te *te, const tn__func *func, const tn__te *other_te) {
  for (uint64_t seed = 0; seed < 12; seed++) {
    size_t size, other;
    uint8_t *before = elements_of(te, tn__te_lower(te), seed, &size);
    uint8_t *after = elements_of(other_te, func, seed, &other);
    assert_int_equal(size, other);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
  }
}

static void compare(tn__te *te, void *user) {
  const expected *e = user;
  const tn__te *ordered = tn__te_argmax(te, 32);
  const tn__te_stage *stage = tn__te_stage_at(ordered, 0);
  tn__target target;
  assert_true((ordered != te) == e->in_order);
  check_ok(tn__te_verify(ordered));
  assert_int_equal(stage->combiner->reorderable, !e->in_order);
  if (e->in_order) assert_int_equal(stage->tensors[1]->dtype, e->position);
  check_equal(te, tn__te_lower(ordered), ordered);
  check_ok(tn__target_parse("x86-64-v4", &target));
  const tn__schedule *s = default_schedule(te, &target, NULL);
  check_equal(te, tn__ir_lower_for_codegen(tn__te_ir(te), tn__schedule_func(s), NULL), tn__schedule_te(s));
}

static void check(const char *text, bool in_order, tn_dtype position) {
  expected e = {in_order, position};
  te_text_job j = {.text = text, .then = compare, .user = &e};
  tn_status *status = te_text_run(&j);
  if (status != NULL) print_message("%s\n", text);
  check_ok(status);
}

static void columns_are_taken_in_order(void **state) {
  check("kernel f(X: f32[9, 21]) -> a: i64[21] { a[j] = argmax(i) X[i, j] }", true, TN_I32);
  check("kernel f(X: f32[9, 21]) -> (v: f32[21], a: i64[21]) { v[j], a[j] = argmin(i) X[i, j] }", true, TN_I32);
  check("kernel f(X: f64[9, 21]) -> a: i64[21] { a[j] = argmax(i) X[i, j] }", true, TN_I64);
  check("kernel f(X: u8[9, 37]) -> a: i64[37] { a[j] = argmax(i) X[i, j] }", true, TN_I16);
  check("kernel f(X: i16[9, 37]) -> a: i32[37] { v[j], a[j] = argmin(i) (X[i, j], i32(2 * i + 3)) }", true, TN_I16);
  check("kernel f(X: f16[9, 37]) -> a: i64[37] { a[j] = argmax(i) X[i, j] }", true, TN_I32);
  check("kernel f(X: f32[3, 5, 4, 19]) -> a: i64[3, 19] { a[n, j] = argmax(i, k) X[n, i, k, j] }", true, TN_I32);
  check(
      "kernel f(X: f32[9, 21]) -> s: f32[21] {\n"
      "  v[j], a[j] = argmax(i) abs(X[i, j])\n"
      "  s[j] = v[j] + f32(a[j])\n"
      "}",
      true, TN_I32);
  check(
      "kernel f(X: f32[7, 21], A: f32[21, 21]) -> (b: f32[7, 21], a: i64[7, 21]) {\n"
      "  b[t, j], a[t, j] = scan(t) (X[0, j], 0) then\n"
      "    let (v[q: 21], p[q]) = argmax(i: 21) (b[t - 1, i] + A[i, q], i) in (v[j] + X[t, j], p[j])\n"
      "}",
      true, TN_I32);
}

static void others_are_not(void **state) {
  check("kernel f(X: f32[21, 9]) -> a: i64[21] { a[i] = argmax(j) X[i, j] }", false, TN_I64);
  check("kernel f(X: f32[9, 3]) -> a: i64[3] { a[j] = argmax(i) X[i, j] }", false, TN_I64);
  check("kernel f(X: f32[9, 21]) -> a: i64[21] { a[j] = argmax_last(i) X[i, j] }", false, TN_I64);
  check("kernel f(X: f32[9, 21]) -> a: i64[21] { v[j], a[j] = argmax(i) (X[i, j], 8 - i) }", false, TN_I64);
  check("kernel f(X: f32[9, 21], I: i64[9]) -> a: i64[21] { v[j], a[j] = argmax(i) (X[i, j], I[i]) }", false, TN_I64);
  check("kernel f(X: f32[9, 42]) -> a: i64[21] { a[j] = argmax(i: 9) X[i, 2 * j] }", false, TN_I64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(columns_are_taken_in_order), cmocka_unit_test(others_are_not)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
