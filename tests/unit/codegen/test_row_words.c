/* Sums along rows of narrow integers in words: which sums become that, and that declarations, their schedules and
 * compiled kernels, for every instruction set that runs here, give what the plain loops give for all numbers, those at
 * the ends of their types above all. */
#include "target/text/text.h"
#include "unit/kernel.h"
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"
#include "unit/text_maker.h"

enum { KERNELS = 60, WORKSPACE = 1 << 20 };

static void fill(const tn__te *te, uint64_t seed, void **buffers) {
  static const uint8_t edges[] = {0x00, 0xff, 0x7f, 0x80};
  for (int i = 0; i < tn__te_input_count(te); i++) {
    const tn__buffer *buffer = tn__te_input_at(te, i);
    uint8_t *bytes = buffers[i] = fresh_bytes(buffer);
    for (size_t b = 0; b < byte_count(buffer); b++) {
      bytes[b] = next(&seed) % 2 ? edges[next(&seed) % 4] : (uint8_t)next(&seed);
      if (buffer->dtype == TN_BOOL) bytes[b] &= 1;
    }
  }
}

typedef struct expected {
  uint8_t *bytes;
  size_t size;
  uint64_t seed;
} expected;

static expected interpret(tn__ir *ir, const tn__te *te, const tn__func *func, uint64_t seed) {
  const tn__interpret_options options = {.max_operations = 50000000};
  void *buffers[MOST_BUFFERS] = {NULL};
  expected e = {.seed = seed};
  fill(te, seed, buffers);
  for (int i = func->input_count; i < func->input_count + func->output_count; i++)
    buffers[i] = fresh_bytes(func->params[i]);
  check_ok(tn__ir_interpret(ir, func, buffers, NULL, &options));
  e.bytes = take_outputs(func, buffers, &e.size);
  return e;
}

static void check_same(const expected *want, expected have) {
  assert_int_equal(want->size, have.size);
  assert_memory_equal(want->bytes, have.bytes, want->size);
  free(have.bytes);
}

/* The function compiled for the target, on this machine or emulated. */
static void check_compiled(tn__ir *ir, const tn__te *te, const tn__func *func, const tn__target *target,
                           const expected *want) {
  kernel_test t = {.ir = ir, .target = *target};
  void *buffers[MOST_BUFFERS] = {NULL}, *padded[MOST_BUFFERS] = {NULL};
  tn__arena_init(&t.arena, NULL, &t.escape);
  int count = func->input_count + func->output_count;
  size_t each = WORKSPACE;
  fill(te, want->seed, buffers);
  for (int i = 0; i < count; i++)
    if (byte_count(func->params[i]) > each) each = byte_count(func->params[i]);
  for (int i = 0; i <= count; i++) {
    padded[i] = kernel_alloc(each);
    if (i < func->input_count) memcpy(padded[i], buffers[i], byte_count(func->params[i]));
    if (i < func->input_count) free(buffers[i]);
  }
  tn_kernel kernel = kernel_compile(&t, func);
  assert_int_equal(kernel_run_anywhere(&t, kernel, padded, count + 1, each, NULL, 0), 0);
  for (int i = func->input_count; i < count; i++) {
    buffers[i] = fresh_bytes(func->params[i]);
    memcpy(buffers[i], padded[i], byte_count(func->params[i]));
  }
  for (int i = 0; i < func->input_count; i++) buffers[i] = fresh_bytes(func->params[i]);
  for (int i = 0; i <= count; i++) kernel_free(padded[i], each);
  expected have = {.seed = 0};
  have.bytes = take_outputs(func, buffers, &have.size);
  check_same(want, have);
  kernel_unmap(&t);
  tn__arena_release(&t.arena);
}

static int calls(const tn__te *te, const char *name) {
  tn__strbuf text;
  int count = 0;
  tn__strbuf_init(&text, NULL);
  tn__te_print(te, &text);
  for (const char *at = tn__strbuf_text(&text); (at = strstr(at, name)) != NULL; at++) count++;
  tn__strbuf_release(&text);
  return count;
}

/* ---- which sums -------------------------------------------------------------------------------------------------- */

typedef struct wanted {
  const char *call; /* NULL: nothing becomes words */
  bool bytes;
} wanted;

static void compare(tn__te *te, void *user) {
  const wanted *w = user;
  tn__ir *ir = tn__te_ir(te);
  const tn__te *words = tn__te_row_words(te, w->bytes);
  assert_true((words == te) == (w->call == NULL));
  if (w->call != NULL) assert_true(calls(words, w->call) > 0);
  check_ok(tn__te_verify(words));
  for (uint64_t seed = 1; seed < 4; seed++) {
    expected want = interpret(ir, te, tn__te_lower(te), seed);
    check_same(&want, interpret(ir, words, tn__te_lower(words), seed));
    free(want.bytes);
  }
}

static void check(const char *text, bool bytes, const char *call) {
  wanted w = {call, bytes};
  te_text_job j = {.text = text, .then = compare, .user = &w};
  tn_status *status = te_text_run(&j);
  if (status != NULL) print_message("%s\n", text);
  check_ok(status);
}

#define ROWS(left, right, term) \
  "kernel f(A: " left "[7, 259], B: " right "[7, 259]) -> s: i32[7] { s[i] = sum(k) " term " }"
#define PRODUCT "i32(A[i, k]) * i32(B[i, k])"
#define DISTANCE "abs(i32(A[i, k]) - i32(B[i, k]))"

static void terms_of_all_kinds(void **state) {
  check(ROWS("u8", "i8", PRODUCT), true, "dot4(");
  check(ROWS("i8", "u8", PRODUCT), true, "dot4(");
  check(ROWS("u8", "u8", PRODUCT), true, "dot4(");
  check(ROWS("i8", "i8", PRODUCT), true, "dot4(");
  check(ROWS("u8", "i8", PRODUCT), false, "dot2(");
  check(ROWS("i16", "i16", PRODUCT), true, "dot2(");
  check(ROWS("i16", "u8", PRODUCT), false, "dot2(");
  check(ROWS("u8", "u8", DISTANCE), true, "sum8(");
  check(ROWS("u8", "u8", DISTANCE " * " DISTANCE), true, "dot4(");
  check(ROWS("u8", "u8", DISTANCE " * " DISTANCE), false, "dot2(");
  check(ROWS("bool", "u8", "select(A[i, k], i32(B[i, k]), 0)"), true, "sum8(");
  check(ROWS("u8", "i8", "select(A[i, k] > 3, i32(B[i, k]), 0)"), true, "dot4(");
  check(ROWS("u8", "i8", "select(A[i, k] > 3, i32(B[i, k]), 0)"), false, "dot2(");
  check(ROWS("i16", "i16", "i32(A[i, k]) + i32(B[i, k] / 2) / 65536"), true, NULL);
  check(ROWS("i16", "i16", "i32(A[i, k]) / 2 + i32(B[i, k]) / 2"), true, "dot2(");
  check("kernel f(A: u8[999]) -> s: u64 { s = sum(k) u64(A[k]) }", true, "sum8(");
  check("kernel f(A: i16[999]) -> s: i64 { s = sum(k) i64(A[k]) }", true, "dot2(");
  check("kernel f(A: u8[9, 160]) -> s: u32 { s = sum(i, k) u32(A[i, k]) }", true, "sum8(");
  check("kernel f(A: u8[9, 160], t: u8) -> s: i32 { s = sum(i, k) i32(A[i, k] > t) }", true, "sum8(");
  check("kernel f(A: u64[9, 160]) -> s: i32[9] { s[i] = sum(k) i32(popcount(A[i, k])) }", true, NULL);
  check("kernel f(A: i16[5, 222], x: i16[222]) -> s: i32[5] { s[i] = sum(k: 215) i32(A[i, k + 3]) * i32(x[k + 7]) }",
        true, "dot2(");
}

/* Where words are not exact, not side by side, or where there are better ways. */
static void others_stay(void **state) {
  check(ROWS("u16", "i16", PRODUCT), true, NULL);
  check(ROWS("u8", "i8", "i32(A[i, k]) * i32(B[i, k]) * 40000"), true, NULL);
  check(ROWS("u8", "i8", "i32(A[i, 258 - k]) * i32(B[i, k])"), true, NULL);
  check("kernel f(A: i16[999], B: i16[999]) -> s: i64 { s = sum(k) i64(A[k]) * i64(B[k]) }", true, NULL);
  check("kernel f(A: u8[9, 100]) -> s: i32[9] { s[i] = sum(k) i32(A[i, k]) }", true, NULL);
  check("kernel f(A: u8[160, 9]) -> s: i32[9] { s[i] = sum(k) i32(A[k, i]) }", true, NULL);
  check("kernel f(A: u8[9, 161]) -> s: i32 { s = sum(i, k) i32(A[i, k]) }", true, NULL);
  check("kernel f(X: i16[900], h: i16[140]) -> Y: i32[700] { Y[i] = sum(k) i32(X[i + k]) * i32(h[k]) }", true, NULL);
  check("kernel f(A: i16[60, 150], B: i16[60, 150]) -> C: i32[60, 60] { C[i, j] = sum(k) i32(A[i, k]) * i32(B[j, k]) }",
        true, NULL);
  check("kernel f(A: u8[160], I: u8[160]) -> s: i32 { s = sum(k) i32(A[i64(I[k] / 2)]) }", true, NULL);
}

/* ---- random ones ------------------------------------------------------------------------------------------------- */

/* A sum in i32 or a wider type of what two rows, or a row and a vector, have in common. */
static void make_sum(maker *m) {
  static const char *const types[] = {"u8", "i8", "i16", "u8", "bool"}, *const sums[] = {"i32", "u32", "i64", "u64"};
  static const char *const terms[] = {
      "T(A[i, k]) * T(B[i, k])",
      "T(A[i, k]) * T(x[k])",
      "T(x[k]) * T(B[i, k])",
      "T(abs(i32(A[i, k]) - i32(B[i, k])))",
      "T(i32(A[i, k]) - i32(B[i, k])) * T(i32(A[i, k]) - i32(x[k]))",
      "T(A[i, k])",
      "T(A[i, k] == B[i, k])",
      "select(i32(A[i, k]) < i32(x[k]), T(B[i, k]), 0)",
      "T(max(i32(A[i, k]), i32(B[i, k])))",
      "T(u8(i32(A[i, k]) + 77)) * T(i8(i32(B[i, k]) * 3))",
  };
  int rows = 1 + any(m, 5), length = 128 + any(m, 300), all = length + any(m, 3);
  const char *sum = sums[any(m, 4)], *a = types[any(m, 5)], *b = any(m, 2) ? a : types[any(m, 4)];
  bool map = any(m, 3) == 0;
  if (strcmp(a, "bool") == 0) b = a;
  add(m, "kernel f(A: %s[%d, %d], B: %s[%d, %d], x: %s[%d]) -> Y: %s[%d] {\n  %s[i: %d] = sum(k: %d) ", a, rows, all, b,
      rows, all, a, all, sum, rows, map ? "S" : "Y", rows, length);
  for (const char *at = terms[any(m, 10)]; *at != '\0'; at++) {
    if (*at == 'T')
      add(m, "%s", sum);
    else
      add(m, "%c", *at);
  }
  if (map) add(m, "\n  Y[i] = S[i] * 3 + 7");
  add(m, "\n}\n");
}

static void compare_chosen(tn__te *te, void *user) {
  static const char *const targets[] = {"x86-64-v4+avx512vnni",
                                        "x86-64-v4",
                                        "x86-64-v3+avxvnni",
                                        "x86-64-v3",
                                        "x86-64-v2",
                                        "x86-64",
#ifdef TN_TEST_RUNNER
                                        "aarch64"
#endif
  };
  const uint64_t seed = *(const uint64_t *)user;
  tn__ir *ir = tn__te_ir(te);
  expected want = interpret(ir, te, tn__te_lower(te), seed);
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    tn__target target;
    check_ok(tn__target_parse(targets[i], &target));
    const tn__schedule *s = default_schedule(te, &target, NULL);
    const tn__func *func = tn__schedule_func(s), *lowered = tn__ir_lower_for_codegen(ir, func, NULL);
    check_same(&want, interpret(ir, te, func, seed));
    check_same(&want, interpret(ir, te, lowered, seed));
    if (tn__target_runs_here(&target) || (target.cpu.arch != tn__host_arch() && seed % 4 == 0))
      check_compiled(ir, te, lowered, &target, &want);
  }
  free(want.bytes);
}

static void random_ones_keep_their_elements(void **state) {
  for (uint64_t k = 0; k < KERNELS; k++) {
    maker m = {.state = k};
    make_sum(&m);
    te_text_job j = {.text = m.text, .then = compare_chosen, .user = &k};
    tn_status *status = te_text_run(&j);
    if (status != NULL) print_message("%s", m.text);
    check_ok(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(terms_of_all_kinds), cmocka_unit_test(others_stay),
                                     cmocka_unit_test(random_ones_keep_their_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
