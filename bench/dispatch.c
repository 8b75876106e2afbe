// SPDX-License-Identifier: Apache-2.0
/* What the runtime itself costs: nanoseconds of processor time per instruction, per invoke, and per parallel loop, with
 * kernels that do nothing. Prints one line for each; the least of several rounds.
 *
 *   build/release/bench/bench_dispatch */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/pool.h"
#include "unit/trampoline.h"

enum { INSTRUCTIONS = 2000, ROUNDS = 30, REPEATS = 200 };

static int32_t nothing(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) { return TN_KERNEL_OK; }

/* A chain of multiplications, some 40 nanoseconds an iteration. */
static int32_t short_work(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  double x = 1;
  for (int64_t i = 0; i < (end - begin) * 40; i++) x = x * 0.9999999 + 1e-9;
  volatile double sink = x;
  (void)sink;
  return TN_KERNEL_OK;
}

static void check(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "bench_dispatch: %s\n", tn_status_message(status));
  exit(1);
}

static double clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* f(x: f32[n]) -> y, through `count` kernels of two reads, one write and a scalar each. */
static tn_session *open_session(int count) {
  test_exe t;
  test_exe_init(&t, NULL);
  int kernel = test_exe_kernel(&t, "nothing", nothing, 3, 1);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {tn__prog_operand_scalar(n)}, none = tn__prog_operand_const(0);
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_output(f, "y", TN_F32, 1, dims);
  int x = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, none);
  int y = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, none);
  for (int i = 0; i < count; i++) tn__exe_emit_kernel(f, kernel, (int[]){x, x}, 2, &y, 1, &n, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe;
  check(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  test_exe_release(&t);
  tn_session_options options = {.size = sizeof options, .threads = 1};
  tn_session *session;
  check(tn_session_create(exe, &options, &session)); /* both live as long as the program */
  static _Alignas(64) float in[16], out[16];
  static int64_t shape[1] = {16};
  DLTensor input = test_tensor(TN_F32, 1, shape, in), output = test_tensor(TN_F32, 1, shape, out);
  check(tn_session_set_inputs(session, NULL, NULL, &input, 1, TN_BIND_PERSISTENT));
  check(tn_session_set_outputs(session, NULL, NULL, &output, 1, TN_BIND_PERSISTENT));
  check(tn_session_invoke(session, NULL));
  return session;
}

static double of_one_invoke(tn_session *session) {
  double least = 1e18;
  for (int round = 0; round < ROUNDS; round++) {
    double began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < REPEATS; i++) check(tn_session_invoke(session, NULL));
    double took = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began) / REPEATS;
    if (took < least) least = took;
  }
  return least;
}

/* What a parallel loop on two threads takes beyond half of the time that its work takes on one. */
static double of_one_loop(void) {
  enum { LOOPS = 20, ITERATIONS = 64 };
  tn_thread_pool *pool;
  tn_thread_pool_options options = {.size = sizeof options, .threads = 2, .spin_microseconds = 1000};
  check(tn_thread_pool_create(&options, &pool));
  tn_kernel_env env = tn__pool_env(pool);
  double alone = 1e18, shared = 1e18;
  tn__pool_begin(pool);
  for (int round = 0; round < ROUNDS * REPEATS; round++) {
    double began = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < LOOPS; i++) (void)short_work(&env, NULL, 0, ITERATIONS);
    double middle = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < LOOPS; i++) (void)env.parallel_for(&env, short_work, NULL, ITERATIONS);
    double end = clock_ns(CLOCK_MONOTONIC);
    if (middle - began < alone) alone = middle - began;
    if (end - middle < shared) shared = end - middle;
  }
  tn__pool_end(pool);
  tn_thread_pool_release(pool);
  return (shared - alone / 2) / LOOPS;
}

int main(void) {
  double few = of_one_invoke(open_session(1)), many = of_one_invoke(open_session(1 + INSTRUCTIONS));
  printf("%-40s %8.1f ns\n", "an instruction that calls a kernel", (many - few) / INSTRUCTIONS);
  printf("%-40s %8.1f ns\n", "an invoke on persistent bindings", few);
  printf("%-40s %8.1f ns\n", "fork and join of 2 threads", of_one_loop());
  return 0;
}
