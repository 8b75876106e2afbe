/* What windows, borders, tiles and terms that are written out become: code of a bounded size. Copies are made where a
 * loop without conditions is faster, and what they cost the compiler is bytes and steps (base/arena.h), which this
 * counts. Nothing is timed. */
#include "codegen/backend.h"
#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "unit/te_text_check.h"

#define EDGES \
  "const H = 768\nconst W = 1280\nfunction row(y) = clamp(y, 0, H - 1)\nfunction column(x) = clamp(x, 0, W - 1)\n"
/* A window around each place, the terms of which are elementary functions, of the stage before. */
#define SOFT(to, of, n)                                                                                          \
  "  " to "[y: H, x: W] = sum(r: " #n ", q: " #n ") exp(-abs(" of "[row(y + r - " #n " / 2), column(x + q - " #n \
  " / 2)] - " of "[y, x]))\n"
#define SOFT_TEN(n) \
  SOFT("A", "I", n) \
  SOFT("B", "A", n) \
  SOFT("C", "B", n) \
  SOFT("D", "C", n) \
  SOFT("E", "D", n) SOFT("F", "E", n) SOFT("G", "F", n) SOFT("J", "G", n) SOFT("K", "J", n) SOFT("O", "K", n)
#define SUM(to, of) \
  "  " to "[y: H, x: W] = sum(r: 5, q: 5) f32(5 * r + q) * " of "[row(y + r - 2), column(x + q - 2)]\n"

static const struct {
  const char *of, *text;
  int kilobytes; /* of the object, on any of the targets */
} rows[] = {
    {"two sums of weights that differ around a pixel",
     EDGES
     "kernel k(I: f32[H, W]) -> O: f32[H, W] {\n"
     "  N[y: H, x: W] = sum(r: 5, q: 5) exp(-abs(I[row(y + r - 2), column(x + q - 2)] - I[y, x])) * I[row(y + r - "
     "2), column(x + q - 2)]\n"
     "  D[y: H, x: W] = sum(r: 5, q: 5) exp(-abs(I[row(y + r - 2), column(x + q - 2)] - I[y, x]))\n"
     "  O[y, x] = N[y, x] / D[y, x]\n}\n",
     200},
    {"ten windows of three in a row", EDGES "kernel k(I: f32[H, W]) -> O: f32[H, W] {\n" SOFT_TEN(3) "}\n", 450},
    {"ten windows of five in a row", EDGES "kernel k(I: f32[H, W]) -> O: f32[H, W] {\n" SOFT_TEN(5) "}\n", 600},
    {"weighted windows in a row",
     EDGES "kernel k(I: f32[H, W]) -> O: f32[H, W] {\n" SUM("A", "I") SUM("B", "A") SUM("O", "B") "}\n", 80},
    {"terms from places that data say",
     "const H = 383\nconst W = 639\n"
     "kernel k(P: u8[4, H, W], F: f32[H, W], N: f32[2, 32, 61, 67]) -> O: f32[3, H, W] {\n"
     "  U[i: 2, k: 32, y: H, x: W] = i64((N[i, k, y % 61, x % 67] - 0.5) * 2 * F[y, x])\n"
     "  T[k: 32, y: H, x: W] = clamp(y + U[0, k, y, x], 0, H - 1)\n"
     "  S[k: 32, y: H, x: W] = clamp(x + U[1, k, y, x], 0, W - 1)\n"
     "  G[k: 32, y: H, x: W] = f32(F[T[k, y, x], S[k, y, x]] < F[y, x])\n"
     "  E[c: 4, y: H, x: W] = sum(k: 32) G[k, y, x] * f32(P[c, T[k, y, x], S[k, y, x]])\n"
     "  O[c, y, x] = (f32(P[c, y, x]) + E[c, y, x]) / (f32(P[3, y, x]) + E[3, y, x])\n}\n",
     100},
    {"a window of two exponentials of pixels",
     "kernel k(X: f32[H + 6, W + 6, 3]) -> Y: f32[H, W, 3] {\n"
     "  Y[y, x, c] = sum(r: 7, q: 7) exp(X[y + r, x + q, c] - exp(X[y + 3, x + 3, c] + X[y + r, x + q, c]))\n}\n",
     40},
    {"a window of exponentials of pixels, written out",
     "kernel k(X: f32[H + 6, W + 6, 3]) -> Y: f32[H, W, 3] {\n"
     "  Y[y, x, c] = sum(r: 7, q: 7) exp(X[y + r, x + q, c] - X[y + 3, x + 3, c])\n}\n",
     130},
    {"a window along five axes, cut along that of the vectors",
     "kernel k(X: f32[N, N, N, N, N]) -> Y: f32[N, N, N, N, N] {\n"
     "  Y[a, b, c, d, e] = sum(h: 3, i: 3, j: 3, k: 3, l: 3)\n"
     "    repeat(X[a + 2 * h - 2, b + 2 * i - 2, c + 2 * j - 2, d + 2 * k - 2, e + 2 * l - 2])\n}\n",
     200},
    {"a window along six axes of open sizes",
     "kernel k(X: f32[N, N, N, N, N, N]) -> Y: f32[N, N, N, N, N, N] {\n"
     "  Y[a, b, c, d, e, g] = sum(h: 9, i: 9, j: 9, k: 9, l: 9, m: 9)\n"
     "    repeat(X[a + 2 * h - 8, b + 2 * i - 8, c + 2 * j - 8, d + 2 * k - 8, e + 2 * l - 8, g + 2 * m - 8])\n}\n",
     200},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct size_job {
  const char *target;
  double steps;
  size_t bytes;
} size_job;

static void build(tn__te *te, void *user) {
  size_job *job = user;
  tn__ir *ir = tn__te_ir(te);
  tn__arena *arena = tn__ir_arena(ir);
  const double before = (double)arena->steps;
  tn__target target;
  tn__check(arena->escape, tn__target_parse(job->target, &target));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, NULL);
  const tn__func *func = tn__schedule_func(tn__plan_kernel(&unit, &tn__chooser_static)->schedule);
  const tn__backend *backend = tn__backend_of(arena->escape, &target);
  func = backend->lower(ir, func, NULL);
  tn__codegen_module module = {.irs = &ir, .funcs = &func, .count = 1, .target = &target};
  job->bytes = backend->compile(arena, &module, TN__EMIT_OBJECT).size;
  job->steps = (double)arena->steps - before;
}

static void code_is_small(void **state) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
  const double most_steps = 1.5e6; /* choosing included */
  for (int i = 0; i < ROWS; i++)
    for (int t = 0; t < 2; t++) {
      size_job job = {.target = targets[t]};
      te_text_job text = {.text = rows[i].text, .then = build, .user = &job};
      check_ok(te_text_run(&text));
      print_message("%s, %s: %zu bytes, %.0f steps\n", rows[i].of, job.target, job.bytes, job.steps);
      if (job.bytes > (size_t)rows[i].kilobytes * 1024) fail_msg("%s: %zu bytes", rows[i].of, job.bytes);
      if (job.steps > most_steps) fail_msg("%s: %.0f steps", rows[i].of, job.steps);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(code_is_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
