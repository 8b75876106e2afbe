/* Declarations of any kind, drawn at random: what is chosen for them, for CPUs of several widths and for caches of all
 * sizes, must compute what their plain loops do, in the interpreter and, for this machine, compiled. */
#include <inttypes.h>

#include "te/text.h"
#include "unit/draw_declaration.h"
#include "unit/schedule_check.h"
#include "unit/schedule_compiled.h"

typedef struct job {
  const char *text, *target;
  uint64_t seed;
} job;

static const tn__te *declare(tn__ir *ir, const char *text) {
  tn__te_source *source;
  tn__te *te = NULL;
  tn_status *status = tn__te_parse(tn__ir_arena(ir), "drawn.te", text, strlen(text), &source);
  if (status == NULL) status = tn__te_declare(source, 0, NULL, 0, ir, &te);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), text);
  return te;
}

/* Caches are so small, now and then, that memory is as dear as it is for large tensors. */
static const tn__schedule *chosen(const tn__te *te, const job *j) {
  tn__target *target = TN__NEW(tn__ir_arena(tn__te_ir(te)), tn__target); /* as long as the schedule */
  *target = test_target(j->target);
  int64_t l1 = (int64_t)1024 << (j->seed % 6);
  target->cpu.machine.l1_bytes = l1;
  target->cpu.machine.l2_bytes = 4 * l1;
  target->cpu.machine.l3_bytes = 8 * l1;
  target->cpu.row = target->cpu.machine;
  tn__schedule_options options = {.threads = 1 + (int)(j->seed / 6 % 2), .cache_bytes = target->cpu.machine.l2_bytes};
  return default_schedule(te, target, &options);
}

static void check_drawn(tn_status *status, const job *j, const tn__schedule *s) {
  if (status == NULL) return;
  fprintf(stderr, "%s%s%s", j->text, schedule_text(s, false), schedule_text(s, true)); /* cmocka cuts messages */
  fail_msg("seed %" PRIu64 ", %s: %s", j->seed, j->target, tn_status_message(status));
}

static void interpret_drawn(tn__ir *ir, const void *arg) {
  const job *j = arg;
  const tn__schedule *s = chosen(declare(ir, j->text), j);
  check_drawn(compare_results(s, j->seed), j, s);
}

static void compile_drawn(kernel_test *t, void *arg) {
  const job *j = arg;
  const tn__schedule *s = chosen(declare(t->ir, j->text), j);
  check_drawn(compare_compiled(t, s, j->seed, true), j, s);
}

/* Once broken, in short. */
static const char *const found[] = {
    /* a tile's epilogue with an axis of its own, inside of vectors */
    "kernel drawn(C: u8[23], B: u8[33, 12]) -> (Y: u8[1, 33, 13]) {\n"
    "  Y[b, i, j] = min(min(k: i + 1) C[j] + C[2] * B[max(i - 1, 0), k % 12], 9)\n"
    "}\n",
    "kernel drawn(A: f32[33, 40], B: f32[40, 64], X: f32[3, 33, 64]) -> (Y: f32[3, 33, 64]) {\n"
    "  Y[b, i, j] = (sum(k) A[i, k] * B[k, j]) + X[b, i, j]\n"
    "}\n",
    /* a term that falls away, because its place is outside, and so is what it would read */
    "kernel drawn(A: i32[33, 12], B: i32[23, 3], I: i32[23]) -> (Y: i32[7]) {\n"
    "  Y[i] = max(n: 16) clamp(A[n, 2] - B[n, i64(I[n])] * 2 + 3, -9, 9) into [i64(I[n])]\n"
    "}\n",
    /* long reductions to a few results, in one pass and in several, of which nothing need divide anything */
    "kernel drawn(X: f32[1003, 3]) -> (S: f32[3, 3]) { S[i, j] = sum(n) X[n, i] * X[n, j] }\n",
    "kernel drawn(X: i16[5, 331, 4], w: i16[331]) -> (S: i32[4, 4]) {\n"
    "  S[i, j] = sum(b: 5, n: 331) i32(X[b, n, i]) * i32(X[b, n, j]) + i32(w[n])\n"
    "}\n",
    "kernel drawn(X: f64[6, 517], y: f64[517]) -> (m: f64[6]) { m[i] = min(n) X[i, n] + y[n] }\n",
    "kernel drawn(A: u8[700, 2], B: u8[700, 2], C: f32[700, 2]) -> (P: u8[2, 2], s: f32[2]) {\n"
    "  P[i, j] = sum(n) A[n, i] * B[n, j]\n"
    "  s[i] = max(n: 700) C[n, i] * C[n, 1 - i]\n"
    "}\n",
    /* running values in vectors of steps, of odd lengths, few rows, and by operations without zero or one */
    "kernel drawn(X: i32[203]) -> (S: i32[203]) { S[i] = scan(i) X[0] * 2 then S[i - 1] + X[i] }\n",
    "kernel drawn(X: u8[2, 333], Y: f32[333]) -> (S: u8[2, 333], M: f32[333], B: bool[333]) {\n"
    "  S[r, i] = scan(i) X[r, 0] then min(S[r, i - 1], X[r, i])\n"
    "  M[i] = scan(i) Y[0] then max(M[i - 1], Y[i] * Y[i] - 1)\n"
    "  B[i] = scan(i) Y[0] > 0 then B[i - 1] || X[0, i] > 200\n"
    "}\n",
    "kernel drawn(X: i64[131], Y: i16[3, 257]) -> (S: i64[131], P: i16[3, 257]) {\n"
    "  S[i] = scan(i) X[0] then X[i] * S[i - 1]\n"
    "  P[r, i] = scan(i) Y[r, 0] then P[r, i - 1] + select(i % 3 == 0, Y[r, i], 1i16)\n"
    "}\n",
    /* rows of a tile in the steps of a scan that start again from the other end */
    "kernel drawn(A: f32[3, 16]) -> (S: f32[3, 3, 40]) {\n"
    "  S[i0, i1, i2] = scan(i0) 0f32 then (sum(k9: 3) S[i0 - 1, k9, i2] + A[(i0 + i1) % 3, i1 + 1])\n"
    "}\n",
    /* powers that are others in each lane, running extrema that start from NaN */
    "kernel drawn(X: f32[37]) -> (Y: f32[37], Z: f32[37]) {\n"
    "  Y[j] = pow(abs(X[j]) + 0.5, f32(j % 5))\n"
    "  Z[j] = pow(f32(j % 7 + 1), X[j] * 0.01)\n"
    "}\n",
    "kernel drawn(X: f32[13], Y: f64[300]) -> (S: f32[13], T: f64[300]) {\n"
    "  S[t] = scan(t) f32(0.0 / 0.0) then max(S[t - 1], X[t])\n"
    "  T[t] = scan(-t) 0.0 / 0.0 then min(T[t + 1], Y[t])\n"
    "}\n",
    /* a part of a term whose axis has bounds that others say */
    "kernel drawn(A: f32[3], C: f32[17], I: i32[23]) -> (S: f32[9, 31, 17]) {\n"
    "  T[a: 3, b: 17, c: 9, d: 3] = select(b % 2 == 1, pad(A[a - 1], 3), C[b])\n"
    "  S[i, j, l] = max(k: i / 2 .. i + 1) (T[(2 * i + k) % 3, i, min(i / 2, 8), min(j, 2)] +\n"
    "    T[i64(I[i % 23]), l, clamp(i + 1, 0, 8), clamp(i, 0, 2)])\n"
    "}\n",
    /* sums over earlier elements of which there are none */
    "kernel drawn(U: f32[1, 1], b: f32[1, 2]) -> (x: f32[1, 2], y: f32[1, 2]) {\n"
    "  x[i, j] = scan(-i, 0) (b[i, j] - sum(k: i + 1 .. 1) U[i, k] * x[k, j]) * (U[i, i] + 3)\n"
    "  y[i, j] = scan(i, 0) b[i, j] - sum(k: i) U[i, k] * y[k, j]\n"
    "}\n",
    /* a diagonal, whose padded tensor would have 80 million elements */
    "kernel drawn(X: f32[33, 8, 64]) -> (Y: f32[130]) {\n"
    "  Y[i] = sum(k: 33) pad(X[i - 1, k - 1, i - 1], 3)\n"
    "}\n",
    /* rows of several outputs, of which some are read by others and some by nobody */
    "kernel drawn(X: f32[37, 33], g: f32[33]) -> (m: f32[37], Y: f32[37, 33], l: f32[37], e: f32[37, 33]) {\n"
    "  m[i] = max(j: 33) X[i, j]\n"
    "  e[i, j] = (X[i, j] - m[i]) * g[j]\n"
    "  s[i: 37] = sum(j: 33) e[i, j]\n"
    "  Y[i, j] = e[i, j] * 2 + min(s[i], m[i])\n"
    "  l[i] = max(m[i] * 3, s[i])\n"
    "}\n",
    /* an element for each row, computed for vectors of rows */
    "kernel drawn(A: f32[3, 43, 35], B: f32[3, 43, 35]) -> (c: f32[3, 43]) {\n"
    "  d[b: 3, i: 43] = sum(k: 35) A[b, i, k] * B[b, i, k]\n"
    "  a[b: 3, i: 43] = max(k: 35) A[b, i, k] - B[b, i, k]\n"
    "  c[b, i] = max(d[b, i] * 2 - a[b, i], min(a[b, i] + f32(b), 3)) * (a[b, i] - 1)\n"
    "}\n",
    /* windows that move on by a few elements, up to the end of their tensor and not */
    "kernel drawn(X: f32[3, 8, 77], Z: f32[131]) -> (Y: f32[3, 4, 38], V: f32[3, 4, 25], W: f32[32]) {\n"
    "  Y[c, y, x] = max(r: 2, q: 2) X[c, 2 * y + r, 2 * x + q]\n"
    "  V[c, y, x] = sum(q: 3) X[c, 2 * y, 3 * x + q]\n"
    "  W[x] = sum(q: 7) Z[4 * x + q] * 2\n"
    "}\n",
    /* short periods beside long ones */
    "kernel drawn(Q: u8[7, 100], s: f32[7, 8]) -> (W: f32[7, 200]) {\n"
    "  W[k, j] = f32(i32(select(j % 2 == 0, Q[k, j / 2] % 16, Q[k, j / 2] / 16)) - 8) * s[k, j / 25]\n"
    "}\n",
    /* groups that data choose */
    "kernel drawn(I: u8[5, 41], T: u8[256, 3], J: i32[23], U: f64[9, 6]) -> (O: u8[5, 41, 3], P: f64[23, 6]) {\n"
    "  O[y, x, c] = T[i64(I[y, x]), c]\n"
    "  P[n, c] = U[i64(J[n]), c] * 2 + U[i64(J[n]) + 1, c]\n"
    "}\n"};

static void what_broke_once_holds(void **state) {
  for (int i = 0; i < (int)(sizeof(found) / sizeof(found[0])); i++) {
    job j = {found[i], "x86-64-v3", 12};
    check_ok(in_context(interpret_drawn, &j));
    check_ok(kernel_try(NULL, compile_drawn, &j));
  }
}

/* Decisions in which order terms are taken, as the static choice for so many threads makes them. */
typedef struct ordered {
  const char *text;
  int threads, count;
  int64_t values[TN__MAX_DECISIONS];
} ordered;

static void see_orders(tn__ir *ir, const void *arg) {
  ordered *o = *(ordered *const *)arg;
  tn__target target = test_target("x86-64-v4");
  tn__plan plan;
  choose_schedule(declare(ir, o->text), &target, &(tn__schedule_options){.threads = o->threads}, &plan);
  for (int i = 0; plan.sketch != NULL && i < plan.sketch->decision_count; i++)
    if (plan.sketch->decisions[i].orders) o->values[o->count++] = plan.values[i];
}

/* A space of more points than a search of half as many candidates looks at. */
static void threads_have_no_say_in_the_order_of_terms(void **state) {
  ordered alone = {.threads = 1}, *arg = &alone;
  alone.text =
      "kernel k(X: f32[2, 4, 5, 64], W: f32[64], V: f32[5, 2, 4]) -> Y: f32[64, 2] {\n"
      "  P[b: 64, a: 2] = sum(c: 4, d: 5) X[a, c, d, b] * W[b] * V[d, a, c]\n"
      "  Y[b, a] = P[b, a] + P[b, a]\n"
      "}\n";
  check_ok(in_context(see_orders, &arg));
  assert_true(alone.count > 0);
  for (int threads = 2; threads <= 16; threads *= 2) {
    ordered several = {.text = alone.text, .threads = threads};
    arg = &several;
    check_ok(in_context(see_orders, &arg));
    assert_int_equal(several.count, alone.count);
    assert_memory_equal(several.values, alone.values, sizeof alone.values);
  }
}

/* `unit_driver declarations COUNT FIRST` draws other declarations than the test. */
static int wanted = 400, first = 0;

static void what_is_chosen_computes_what_is_declared(void **state) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "x86-64-v2", "aarch64"};
  draw d = {.count = 0};
  for (int i = first; i < first + wanted; i++) {
    d.dice = (dice){.state = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 20261125};
    draw_kernel(&d);
    job j = {tn__strbuf_text(&d.text), targets[i % 4], (uint64_t)i};
    tn_status *status = in_context(interpret_drawn, &j);
    if (status != NULL) fail_msg("seed %d, %s: %s\n%s", i, j.target, tn_status_message(status), j.text);
    if (i % 4 == 0) {
      j.target = "native";
      status = kernel_try(NULL, compile_drawn, &j);
      if (status != NULL) fail_msg("seed %d, compiled: %s\n%s", i, tn_status_message(status), j.text);
    }
    tn__strbuf_release(&d.text);
  }
  for (int kind = 0; kind < DRAW_KINDS; kind++) assert_true(d.drawn[kind] >= wanted / 20);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_broke_once_holds),
                                     cmocka_unit_test(threads_have_no_say_in_the_order_of_terms),
                                     cmocka_unit_test(what_is_chosen_computes_what_is_declared)};
  if (argc > 1) wanted = atoi(argv[1]);
  if (argc > 2) first = atoi(argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
