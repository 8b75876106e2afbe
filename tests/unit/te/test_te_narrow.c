/* Integers in narrower types: how narrow they become, and that elements stay what they were for all numbers that the
 * inputs can hold. */
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

enum { KERNELS = 2500 };

/* Any numbers, and the least and greatest of the type more often than others. */
static void fill(const tn__buffer *buffer, uint64_t *state, uint8_t *bytes) {
  static const uint8_t edges[] = {0x00, 0xff, 0x7f, 0x80, 0x01};
  int size = (int)tn_dtype_size(buffer->dtype);
  for (int64_t e = 0; e < element_count(buffer); e++) {
    bool edge = next(state) % 2 == 0;
    uint8_t low = edges[next(state) % 5], high = edges[next(state) % 5];
    for (int b = 0; b < size; b++) bytes[e * size + b] = edge ? (b + 1 < size ? low : high) : (uint8_t)next(state);
  }
}

static uint8_t *elements_of(const tn__te *te, uint64_t seed, size_t *size) {
  const tn__interpret_options options = {.max_operations = 50000000};
  const tn__func *func = tn__te_lower(te);
  void *buffers[MOST_BUFFERS] = {NULL};
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    buffers[i] = fresh_bytes(func->params[i]);
    if (i < func->input_count) fill(func->params[i], &seed, buffers[i]);
  }
  check_ok(tn__ir_interpret(tn__te_ir(te), func, buffers, NULL, &options));
  return take_outputs(func, buffers, size);
}

static void same_elements(const tn__te *te, const tn__te *narrow) {
  check_ok(tn__te_verify(narrow));
  for (uint64_t seed = 1; seed < 4; seed++) {
    size_t size, other;
    uint8_t *before = elements_of(te, seed, &size), *after = elements_of(narrow, seed, &other);
    assert_int_equal(size, other);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
  }
}

static void see_bits(const tn__expr *e, void *user) {
  int *widest = user;
  if (tn__dtype_is_int(e->dtype) && e->dtype != TN_I64 && tn__dtype_bits(e->dtype) > *widest)
    *widest = tn__dtype_bits(e->dtype);
}

static void compare(tn__te *te, void *user) {
  int widest = 0;
  const tn__te *narrow = tn__te_narrow(te);
  for (int s = 0; s < tn__te_stage_count(narrow); s++)
    tn__te_visit(tn__te_ir(narrow), tn__te_stage_at(narrow, s)->values[0], see_bits, &widest);
  same_elements(te, narrow);
  assert_int_equal(widest, *(const int *)user);
}

/* No stage computes in more than so many bits. */
static void check(const char *text, int bits) {
  te_text_job j = {.text = text, .then = compare, .user = &bits};
  check_ok(te_text_run(&j));
}

static void arithmetic_is_as_narrow_as_its_numbers(void **state) {
  check(
      "kernel f(X: u8[40, 3]) -> Y: u8[40] {\n"
      "  Y[i] = u8((77 * i32(X[i, 0]) + 150 * i32(X[i, 1]) + 29 * i32(X[i, 2]) + 128) / 256)\n"
      "}",
      16);
  check(
      "kernel f(X: u8[40]) -> Y: u8[38] {\n"
      "  Y[i] = u8((i32(X[i]) + i32(X[i + 1]) + i32(X[i + 2])) / 3)\n"
      "}",
      16);
  check("kernel f(X: i8[40], Z: i8[40]) -> Y: i16[40] { Y[i] = i16(i32(X[i]) * i32(Z[i])) }", 16);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(i32(X[i]) * i32(Z[i])) }", 16);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(select(i32(X[i]) < i32(Z[i]), 3, i32(X[i]))) }", 8);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: i16[40] { Y[i] = i16(i32(X[i]) - i32(Z[i])) }", 16);
  check("kernel f(X: i16[40], Z: i16[40]) -> Y: i16[40] { Y[i] = i16(clamp(i32(X[i]) * i32(Z[i]), -9, 9)) }", 32);
  check("kernel f(X: u8[40]) -> Y: u8[40] { Y[i] = u8((-i32(X[i]) >> 1i32) ^ 3) }", 16);
}

static void idioms_need_no_wider_type(void **state) {
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(clamp(i32(X[i]) + i32(Z[i]), 0, 255)) }", 8);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(clamp(i32(X[i]) - i32(Z[i]), 0, 255)) }", 8);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(abs(i32(X[i]) - i32(Z[i]))) }", 8);
  check("kernel f(X: i8[40], Z: i8[40]) -> Y: u8[40] { Y[i] = u8(abs(i32(X[i]) - i32(Z[i]))) }", 8);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8((i32(X[i]) + i32(Z[i]) + 1) / 2) }", 8);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8((1 + i32(X[i]) + i32(Z[i])) / 2) }", 8);
  check("kernel f(X: i16[40], Z: i16[40]) -> Y: i16[40] { Y[i] = i16((i32(X[i]) + i32(Z[i]) + 1) / 2) }", 16);
  check("kernel f(X: i16[40], Z: i16[40]) -> Y: i16[40] { Y[i] = i16((i32(X[i]) + i32(Z[i])) >> 1i32) }", 16);
  check("kernel f(X: u16[40], Z: u16[40]) -> Y: u16[40] { Y[i] = u16(min(i32(X[i]) + i32(Z[i]), 65535)) }", 16);
  check("kernel f(X: u8[40], Z: u8[40]) -> Y: u8[40] { Y[i] = u8(min(i32(X[i]) + i32(Z[i]), 254)) }", 16);
}

static void tensors_between_become_narrow(void **state) {
  check(
      "kernel f(X: u8[40, 40]) -> Y: u8[38, 38] {\n"
      "  A[y: 40, x: 38] = i32(X[y, x]) + i32(X[y, x + 1]) + i32(X[y, x + 2])\n"
      "  B[y: 38, x: 38] = A[y, x] + A[y + 1, x] + A[y + 2, x]\n"
      "  Y[y, x] = u8(B[y, x] / 9)\n"
      "}",
      16);
  check("kernel f(X: u8[20, 20]) -> Y: u8[18, 18] { Y[y, x] = u8((sum(r: 3, q: 3) i32(X[y + r, x + q])) / 9) }", 16);
  check("kernel f(X: u8[2, 300]) -> Y: u8[2] { Y[y] = u8((sum(r: 300) i32(X[y, r])) / 300) }", 32);
  /* Outputs keep their type. */
  check("kernel f(X: u8[40]) -> Y: i32[40] { Y[i] = i32(X[i]) + 1 }", 32);
  check("kernel f(X: i32[40]) -> Y: u8[40] { Y[i] = u8(clamp(X[i], 0, 255)) }", 32);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */

static const char *const types[] = {"u8", "i8", "u16", "i16", "i32", "u32"};

static void value(maker *m, const char *type, int depth);

static void leaf(maker *m, const char *type) {
  static const char *const loads[] = {"A[i]", "B[i]", "C[i]", "D[i + 1]", "T[i]"};
  if (any(m, 4) == 0)
    add(m, "%s(%d)", type, any(m, 3) == 0 ? any(m, 128) : any(m, 4));
  else
    add(m, "%s(%s)", type, loads[any(m, 5)]);
}

static void operation(maker *m, const char *type, int depth) {
  static const char *const between[] = {"+", "-", "*", "+", "&", "|", "^", "+"};
  static const char *const around[] = {"min", "max", "min", "max"};
  int which = any(m, 8);
  add(m, "(");
  if (any(m, 3) == 0) {
    add(m, "%s(", around[any(m, 4)]);
    value(m, type, depth - 1);
    add(m, ", ");
    value(m, type, depth - 1);
    add(m, ")");
  } else {
    value(m, type, depth - 1);
    add(m, " %s ", between[which]);
    value(m, type, depth - 1);
  }
  add(m, ")");
}

static void value(maker *m, const char *type, int depth) {
  const char *other = types[any(m, 6)];
  if (depth == 0) {
    leaf(m, type);
    return;
  }
  switch (any(m, 9)) {
    case 0:
      add(m, "%s(", type);
      value(m, other, depth - 1);
      add(m, ")");
      return;
    case 1:
      add(m, "(");
      value(m, type, depth - 1);
      add(m, " %s %s(%d))", any(m, 2) ? "/" : "%", type, any(m, 2) ? 2 : 1 + any(m, 100));
      return;
    case 2:
      add(m, "(");
      value(m, type, depth - 1);
      add(m, " %s %s(%d))", any(m, 2) ? ">>" : "<<", type, any(m, 3));
      return;
    case 3:
      add(m, "select(");
      value(m, other, depth - 1);
      add(m, " %s ", any(m, 2) ? "<" : "==");
      value(m, other, depth - 1);
      add(m, ", ");
      value(m, type, depth - 1);
      add(m, ", ");
      value(m, type, depth - 1);
      add(m, ")");
      return;
    case 4:
      add(m, "clamp(");
      value(m, type, depth - 1);
      add(m, ", %s(%d), %s(%d))", type, type[0] == 'u' || any(m, 2) ? 0 : -128, type,
          strcmp(type, "i8") == 0 || any(m, 2) ? 127 : 255);
      return;
    case 5:
      add(m, "abs(");
      value(m, type, depth - 1);
      add(m, ")");
      return;
    default: operation(m, type, depth); return;
  }
}

static void compare_random(tn__te *te, void *user) {
  const tn__te *narrow = tn__te_narrow(te);
  *(int *)user += narrow != te;
  same_elements(te, narrow);
}

static void random_ones_keep_their_elements(void **state) {
  int narrower = 0;
  for (int k = 0; k < KERNELS; k++) {
    maker m = {.state = (uint64_t)k};
    const char *between = types[any(&m, 6)], *last = types[any(&m, 6)];
    add(&m, "kernel f(A: u8[33], B: i8[33], C: u16[33], D: i16[34], W: u8[33]) -> Y: %s[33] {\n", last);
    if (any(&m, 3) == 0)
      add(&m, "  T[i: 33] = sum(k: 3) i32(W[i]) * i32(k + 1)\n");
    else
      add(&m, "  T[i: 33] = %s(W[i]) %s %s(3)\n", between, any(&m, 2) ? "+" : "*", between);
    add(&m, "  Y[i] = ");
    value(&m, last, 1 + any(&m, 5));
    add(&m, "\n}\n");
    te_text_job j = {.text = m.text, .then = compare_random, .user = &narrower};
    tn_status *status = te_text_run(&j);
    if (status != NULL) print_message("%s", m.text);
    check_ok(status);
  }
  assert_true(narrower > KERNELS / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic_is_as_narrow_as_its_numbers), cmocka_unit_test(idioms_need_no_wider_type),
      cmocka_unit_test(tensors_between_become_narrow), cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
