/* Kernels that move constants: which declarations are moves, and that moving gives what the interpreter gives, to the
 * bit, for operands at odd addresses and loops cut anywhere. */
#include "kernels/moves.h"

#include "base/dtype.h"
#include "unit/kernel.h"
#include "unit/te_text_check.h"

static int64_t bytes_of(const tn__buffer *buffer) {
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype), extent;
  for (int i = 0; i < buffer->rank; i++) {
    assert_true(tn__ir_as_int(buffer->shape[i], &extent));
    bytes *= extent;
  }
  return bytes;
}

/* Any bits, but numbers: a factor that is no number may differ in what it is instead. */
static void *operand_of(tn__arena *arena, const tn__buffer *buffer, uint64_t seed) {
  int64_t bytes = bytes_of(buffer);
  char *data = (char *)tn__arena_alloc(arena, (size_t)bytes + 1) + 1;
  for (int64_t i = 0; i < bytes; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    data[i] = (char)(seed >> 58);
  }
  return data;
}

static void check_move(tn__te *te, void *user) {
  tn__ir *ir = tn__te_ir(te);
  tn__arena *arena = tn__ir_arena(ir);
  int count, inputs = tn__te_input_count(te);
  const int64_t *scalars = tn__move_scalars(te, &count);
  assert_non_null(scalars);
  assert_true(count <= (int)(sizeof(tn__move) / sizeof(int64_t)));
  int64_t bytes = bytes_of(tn__te_output_at(te, 0));
  void *moved[3], *expected[3];
  for (int i = 0; i < inputs; i++) {
    size_t size = (size_t)bytes_of(tn__te_input_at(te, i));
    moved[i] = operand_of(arena, tn__te_input_at(te, i), (uint64_t)i + 7);
    expected[i] = memcpy(tn__arena_alloc(arena, size), moved[i], size); /* the interpreter wants aligned elements */
  }
  moved[inputs] = tn__arena_alloc(arena, (size_t)bytes + 1), expected[inputs] = tn__arena_alloc(arena, (size_t)bytes);
  memset(moved[inputs], 0x5a, (size_t)bytes + 1);
  assert_int_equal(kernel_run(tn__move_run, moved, scalars), TN_KERNEL_OK);
  tn_status *status = tn__ir_interpret(ir, tn__te_lower(te), expected, NULL, &(tn__interpret_options){0});
  if (status != NULL) tn__throw(arena->escape, status);
  assert_memory_equal(moved[inputs], expected[inputs], bytes);
  assert_int_equal(((char *)moved[inputs])[bytes], 0x5a);
  *(int64_t *)user += ((const tn__move *)(const void *)scalars)->rank;
}

/* Returns how many loops the move has. */
static int64_t moves(const char *text) {
  int64_t rank = 0;
  te_text_job j = {.text = text, .then = check_move, .user = &rank};
  check_ok(te_text_run(&j));
  return rank;
}

static void a_permutation_is_one(void **state) {
  assert_int_equal(2, moves("kernel k(A: f32[37, 70]) -> C: f32[70, 37] { C[i, j] = A[j, i] }"));
  assert_int_equal(1, moves("kernel k(A: f32[3, 1]) -> C: f32[1, 3] { C[i, j] = A[j, i] }"));
  assert_int_equal(3, moves("kernel k(A: f32[2, 32, 66]) -> C: f32[2, 66, 32] { C[i, j, k] = A[i, k, j] }"));
  moves("kernel k(A: f32[2, 32, 5, 3, 3]) -> C: f32[2, 3, 3, 5, 32] { C[a, b, c, d, e] = A[a, e, d, b, c] }");
  moves("kernel k(A: f32[4, 6, 2, 32]) -> C: f32[4, 2, 6, 32] { C[a, b, c, d] = A[a, c, b, d] }");
  moves("kernel k(A: f32[9, 11, 13]) -> C: f32[13, 11, 9] { C[a, b, c] = A[c, b, a] }");
}

static void elements_may_have_any_size(void **state) {
  moves("kernel k(A: u8[37, 70]) -> C: u8[70, 37] { C[i, j] = A[j, i] }");
  moves("kernel k(A: bf16[5, 33, 7]) -> C: bf16[33, 5, 7] { C[i, j, k] = A[j, i, k] }");
  moves("kernel k(A: i32[40, 41]) -> C: i32[41, 40] { C[i, j] = A[j, i] }");
  moves("kernel k(A: f64[19, 70]) -> C: f64[70, 19] { C[i, j] = A[j, i] }");
}

static void rows_that_stay_rows_are_copied(void **state) {
  assert_int_equal(1, moves("kernel k(A: f32[70, 143]) -> C: f32[70, 143] { C[i, j] = A[i, j] }"));
  assert_int_equal(0, moves("kernel k(A: f32[]) -> C: f32[] { C = A }"));
  moves("kernel k(A: f32[9, 5, 1200]) -> C: f32[5, 9, 1200] { C[i, j, k] = A[j, i, k] }");
  moves("kernel k(A: f32[9]) -> C: f32[5, 9] { C[i, j] = A[j] }");
  moves("kernel k(A: f32[9]) -> C: f32[9, 70] { C[i, j] = A[i] }");
}

static void parts_are_moved(void **state) {
  moves("kernel k(A: f32[40, 90]) -> C: f32[10, 20] { C[i, j] = A[3 * i + 2, j + 5] }");
  moves("kernel k(A: f32[90]) -> C: f32[10, 20] { C[i, j] = A[3 * i + 2 * j] }");
}

static void a_scale_goes_along(void **state) {
  moves(
      "kernel k(s: f32[40], A: f32[40, 6, 3]) -> C: f32[40, 6, 3] {\n"
      "  b: f32[i: 40, j: 6, k: 3] = s[i]\n  C[i, j, k] = A[i, j, k] * b[i, j, k]\n}");
  moves(
      "kernel k(A: f32[40, 70, 3, 3], s: f32[40]) -> C: f32[3, 3, 70, 40] {\n"
      "  C[a, b, c, d] = s[d] * A[d, c, a, b]\n}");
  moves("kernel k(A: f32[40, 70], s: f32[70]) -> C: f32[70, 40] { C[i, j] = A[j, i] * s[i] }");
  moves("kernel k(A: f32[40, 70], B: f32[70, 40]) -> C: f32[70, 40] { C[i, j] = A[j, i] * B[i, j] }");
  moves("kernel k(A: f32[40, 70], s: f32[5, 40]) -> C: f32[70, 40] { C[i, j] = A[j, i] * s[2, j] }");
}

static void what_is_behind_the_end_is_filled(void **state) {
  moves("kernel k(A: f32[37, 70]) -> C: f32[70, 64] { C[i, j] = select(j < 37, A[j, i], 0.5) }");
  moves("kernel k(A: f32[37, 70]) -> C: f32[80, 64] { C[i, j] = select(i < 70 && j < 37, A[j, i], 0.0) }");
  moves("kernel k(A: i8[70]) -> C: i8[80] { C[i] = select(i < 70, A[i], -3) }");
  moves("kernel k(A: f32[3]) -> C: f32[3, 4] { C[i, j] = select(j < 1, A[i], 2.5) }");
}

static void refuse(tn__te *te, void *user) {
  int count;
  assert_null(tn__move_scalars(te, &count));
}

static void anything_else_is_none(void **state) {
  static const char *const others[] = {
      "kernel k(A: f32[6, 7]) -> C: f32[7, 6] { C[i, j] = A[j, i] + 1.0 }",
      "kernel k(A: f32[6, 7]) -> C: f32[6] { C[i] = sum(j: 7) A[i, j] }",
      "kernel k(A: f32[60]) -> C: f32[60] { C[i] = A[59 - i] }",
      "kernel k(A: f32[60]) -> C: f32[60] { C[i] = A[i / 2] }",
      "kernel k(A: f32[60]) -> C: f32[60] { C[i] = select(2 < i, A[i], 0.0) }",
      "kernel k(A: f16[60]) -> C: f32[60] { C[i] = f32(A[i]) }",
      "kernel k(A: f16[60], B: f16[60]) -> C: f16[60] { C[i] = A[i] * B[i] }",
      "kernel k(A: f32[60], B: f32[60]) -> C: f32[60] { C[i] = A[i] * B[i] * A[i] }",
      "kernel k(A: f32[n]) -> C: f32[n] { C[i] = A[i] }",
      "kernel k(A: f32[60], B: i64[60]) -> C: f32[60] { C[i] = A[B[i]] }",
      "kernel k(A: f32[60]) -> C: f32[60], D: f32[60] { C[i] = A[i]\n  D[i] = A[i] }",
  };
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
    te_text_job j = {.text = others[i], .then = refuse};
    check_ok(te_text_run(&j));
  }
}

/* Written out, the element would be 2^60 factors. */
static void long_chains_are_read_as_far_as_a_move_goes(void **state) {
  char text[6000], *at = text, *end = text + sizeof(text);
  at += snprintf(at, (size_t)(end - at), "kernel k(A: f32[60]) -> C: f32[60] {\n");
  for (int i = 0; i < 60; i++) {
    char from[8] = "A";
    if (i > 0) snprintf(from, sizeof(from), "v%d", i - 1);
    at += snprintf(at, (size_t)(end - at), "  v%d: f32[i: 60] = %s[i] * %s[i]\n", i, from, from);
  }
  snprintf(at, (size_t)(end - at), "  C[i] = v59[i] * A[i]\n}");
  te_text_job j = {.text = text, .then = refuse};
  check_ok(te_text_run(&j));
  moves(
      "kernel k(A: f32[40, 70], s: f32[40]) -> C: f32[70, 64] {\n  b: f32[i: 40, j: 70] = s[i]\n"
      "  p: f32[i: 40, j: 70] = A[i, j] * b[i, j]\n  q: f32[i: 70, j: 40] = p[j, i]\n"
      "  C[i, j] = select(j < 40, q[i, j], 0.0)\n}");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(long_chains_are_read_as_far_as_a_move_goes),
                                     cmocka_unit_test(a_permutation_is_one),
                                     cmocka_unit_test(elements_may_have_any_size),
                                     cmocka_unit_test(rows_that_stay_rows_are_copied),
                                     cmocka_unit_test(parts_are_moved),
                                     cmocka_unit_test(a_scale_goes_along),
                                     cmocka_unit_test(what_is_behind_the_end_is_filled),
                                     cmocka_unit_test(anything_else_is_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
