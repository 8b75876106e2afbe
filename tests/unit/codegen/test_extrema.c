/* Minima and maxima of floats keep NaN, wherever it stands, in every form that code generation gives them: default
 * schedules, compiled for several targets, against the interpreter. */
#include <math.h>

#include "unit/kernel.h"
#include "unit/schedule_run.h"
#include "unit/te_text_check.h"

static uint64_t next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

/* One element in `rare` is no usual number (0: none is). */
static void fill(const tn__buffer *buffer, uint64_t seed, uint64_t rare, void *bytes) {
  static const double odd[] = {NAN, -NAN, NAN, INFINITY, -INFINITY, -0.0, 0x1p-149, -0x1p-140};
  for (int64_t e = 0; e < element_count(buffer); e++) {
    double value = (double)(next(&seed) % 2001) - 1000;
    if (rare > 0 && next(&seed) % rare == 0) value = odd[next(&seed) % 8];
    tn__store_f64(buffer->dtype, bytes, e, value);
  }
}

static bool same(tn_dtype dtype, const uint8_t *a, const uint8_t *b) {
  if (memcmp(a, b, tn_dtype_size(dtype)) == 0) return true;
  if (!tn__dtype_is_float(dtype)) return false;
  double x = tn__load_f64(dtype, a, 0), y = tn__load_f64(dtype, b, 0);
  return (isnan(x) && isnan(y)) || (x == 0 && y == 0);
}

typedef struct run_state {
  const tn__func *plain, *func;
  tn_kernel kernel;
  size_t workspace;
} run_state;

static void run(kernel_test *t, const run_state *r, const char *text, uint64_t rare) {
  const tn__interpret_options options = {.max_operations = 50000000};
  void *buffers[2][MOST_BUFFERS] = {{NULL}};
  int inputs = r->plain->input_count, count = inputs + r->plain->output_count;
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < 2; k++) {
      buffers[k][i] = fresh_bytes(r->plain->params[i]);
      if (i < inputs) fill(r->plain->params[i], 7 * rare + (uint64_t)i, rare, buffers[k][i]);
    }
  }
  void *workspace = buffers[1][count] = kernel_alloc(r->workspace);
  check_ok(tn__ir_interpret(t->ir, r->plain, buffers[0], NULL, &options));
  assert_int_equal(kernel_run(r->kernel, buffers[1], NULL), TN_KERNEL_OK);
  for (int i = inputs; i < count; i++) {
    const tn__buffer *buffer = r->plain->params[i];
    size_t size = tn_dtype_size(buffer->dtype);
    for (int64_t e = 0; e < element_count(buffer); e++)
      if (!same(buffer->dtype, (uint8_t *)buffers[0][i] + e * (int64_t)size,
                (uint8_t *)buffers[1][i] + e * (int64_t)size))
        fail_msg("%s, one in %d: output %d differs at element %d: %s", t->target.name, (int)rare, i - inputs, (int)e,
                 text);
  }
  for (int i = 0; i < 2 * count; i++) free(buffers[i / count][i % count]);
  kernel_free(workspace, r->workspace);
}

static void compiled_alike(kernel_test *t, void *user) {
  const char *text = user;
  tn__te_source *source;
  tn__te *te;
  check_ok(tn__te_parse(&t->arena, "t.te", text, strlen(text), &source));
  check_ok(tn__te_declare(source, 0, NULL, 0, t->ir, &te));
  tn__schedule *s = default_schedule(te, &t->target, NULL);
  run_state r = {.plain = tn__te_lower(te)};
  r.func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  r.kernel = kernel_compile(t, r.func);
  r.workspace = (size_t)tn__cg_kernel_workspace(t->ir, r.func).workspace_bytes;
  static const uint64_t rare[] = {0, 2, 9, 70, 700};
  for (int i = 0; i < 5; i++) run(t, &r, text, rare[i]);
}

static void check_text(const char *text) {
  static const char *const targets[] = {NULL, "x86-64", "x86-64-v3"};
  int count = tn__host_arch() == TN__ARCH_X86_64 ? 3 : 1;
  for (int i = 0; i < count; i++) kernel_with(targets[i], compiled_alike, (void *)(uintptr_t)text);
}

static void reductions(void **state) {
  check_text("kernel f(X: f32[31, 131]) -> m: f32[31] { m[i] = max(j) X[i, j] }");
  check_text("kernel f(X: f64[31, 61]) -> m: f64[31] { m[i] = min(j) abs(X[i, j]) }");
  check_text("kernel f(X: f16[31, 61]) -> m: f16[31] { m[i] = max(j) X[i, j] }");
  check_text("kernel f(X: f32[61, 131]) -> m: f32[131] { m[j] = max(i) X[i, j] }");
  check_text("kernel f(X: f32[4001]) -> m: f32[1] { m[o: 1] = min(j) X[j] }");
  check_text(
      "kernel f(X: f32[1001]) -> l: f32[1], h: f32[1] {\n"
      "  l[o: 1] = min(i: 1001) X[i]\n"
      "  h[o: 1] = max(i: 1001) X[i]\n"
      "}");
  check_text("kernel f(A: f32[19, 67], B: f32[23, 67]) -> D: f32[19, 23] { D[i, j] = max(k) abs(A[i, k] - B[j, k]) }");
  check_text("kernel f(A: f32[19, 37], B: f32[37, 23]) -> D: f32[19, 23] { D[i, j] = min(k) A[i, k] + B[k, j] }");
  check_text("kernel f(A: f32[19, 37], b: f32[37]) -> D: f32[37] { D[j] = max(i) min(max(A[i, j], b[j]), A[i, 0]) }");
}

static void windows(void **state) {
  check_text(
      "kernel f(X: f32[21, 23, 37]) -> Y: f32[10, 11, 37] { Y[y, x, c] = max(r: 3, s: 3) X[2 * y + r, 2 * x + s, c] }");
  check_text(
      "kernel f(X: f32[5, 21, 59]) -> Y: f32[5, 10, 29] { Y[c, y, x] = max(r: 2, s: 2) X[c, 2 * y + r, 2 * x + s] }");
  check_text(
      "kernel f(X: f64[5, 21, 59]) -> Y: f64[5, 10, 29] { Y[c, y, x] = min(r: 3, s: 3) X[c, 2 * y + r, 2 * x + s] }");
  check_text("kernel f(X: f32[531]) -> Y: f32[500] { Y[i] = max(k: 32) X[i + k] }");
  check_text("kernel f(X: f32[31, 59]) -> Y: f32[27, 55] { Y[y, x] = max(r: 5, s: 5) X[y + r, x + s] }");
  check_text(
      "kernel f(X: f32[31, 59]) -> Y: f32[31, 59] { Y[y, x] = max(r: 3, s: 3) pad(X[y + r - 1, x + s - 1], -1) }");
}

static void maps(void **state) {
  check_text(
      "kernel f(X: f32[31, 67], L: f32[67], H: f32[67]) -> Y: f32[31, 67] { Y[i, j] = min(max(X[i, j], L[j]), H[j]) }");
  check_text("kernel f(X: f32[31, 67]) -> Y: f32[31, 67] { Y[i, j] = clamp(X[i, j], -3, 8) }");
  check_text("kernel f(A: f32[701], B: f32[701], C: f32[701]) -> Y: f32[701] { Y[i] = max(max(A[i], B[i]), C[i]) }");
  check_text("kernel f(A: f32[701], b: f32[3]) -> Y: f32[701] { Y[i] = max(min(A[i], b[0]), min(b[1], b[2])) }");
  check_text("kernel f(A: f32[701], B: f32[701]) -> Y: f32[701] { Y[i] = max(A[i], B[i]) - min(A[i], B[i]) }");
  check_text(
      "kernel f(X: f32[31, 67]) -> Y: f32[31, 65] {\n"
      "  Y[y, x] = max(min(X[y, x], X[y, x + 1]), min(max(X[y, x], X[y, x + 1]), X[y, x + 2]))\n"
      "}");
  check_text(
      "kernel f(X: f32[705]) -> Y: f32[701], Z: f32[701] {\n"
      "  Y[i] = max(max(max(X[i], X[i + 1]), max(X[i + 2], X[i + 3])), X[i + 4])\n"
      "  Z[i] = min(max(X[i], X[i + 1]), max(X[i + 2], X[i + 3]))\n"
      "}");
  check_text("kernel f(A: f32[61], N: i8[61]) -> Y: f32[61] { Y[i] = max(f32(N[i]), max(A[i], 0.5 * A[i])) }");
}

static void scans(void **state) {
  check_text("kernel f(X: f32[1001]) -> S: f32[1001] { S[i] = scan(i) X[0] then max(S[i - 1], X[i]) }");
  check_text("kernel f(X: f64[301]) -> S: f64[301] { S[i] = scan(i) X[0] then min(X[i], S[i - 1]) }");
  check_text("kernel f(X: f32[37, 67]) -> S: f32[37, 67] { S[i, j] = scan(i) X[0, j] then max(S[i - 1, j], X[i, j]) }");
  check_text("kernel f(X: f32[37, 67]) -> S: f32[37, 67] { S[i, j] = scan(j) X[i, 0] then max(S[i, j - 1], X[i, j]) }");
  check_text(
      "kernel f(X: f32[37, 67]) -> S: f32[37, 67] {\n"
      "  S[i, j] = scan(j) 0 then min(max(S[i, j - 1], X[i, j]), X[i, j - 1] + 9)\n"
      "}");
}

/* More of them in a row than are looked at together: the first, or the last, is the innermost. */
static void long_chains(void **state) {
  enum { PARTS = 150, MOST_TEXT = 8192 };
  for (int turned = 0; turned < 2; turned++) {
    char text[MOST_TEXT];
    int n = snprintf(text, MOST_TEXT, "kernel f(X: f32[301]) -> Y: f32[%d] { Y[i] = ", 301 - PARTS);
    for (int k = 1; k < PARTS; k++)
      n += snprintf(text + n, (size_t)(MOST_TEXT - n), turned ? "max(X[i + %d], " : "max(", k);
    n += snprintf(text + n, (size_t)(MOST_TEXT - n), "X[i]");
    for (int k = 1; k < PARTS; k++) n += snprintf(text + n, (size_t)(MOST_TEXT - n), turned ? ")" : ", X[i + %d])", k);
    assert_true(snprintf(text + n, (size_t)(MOST_TEXT - n), " }") < MOST_TEXT - n);
    check_text(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reductions), cmocka_unit_test(windows), cmocka_unit_test(maps),
                                     cmocka_unit_test(scans), cmocka_unit_test(long_chains)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
