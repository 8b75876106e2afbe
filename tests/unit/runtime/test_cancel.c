/* Kernels that would run for long end soon when they are told to. Each of these would take seconds to minutes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tenon/te.h"
#include "unit/check.h"
#include "unit/session_models.h"

static const char kernels[] =
    "function four(x) = sin(sin(sin(sin(x))))\n"
    "function many(x) = four(four(four(four(four(four(four(four(x))))))))\n"
    "kernel product(A: f32[4096, 4096], B: f32[4096, 4096]) -> C: f32[4096, 4096] {\n"
    "  C[i, j] = sum(k: 4096) A[i, k] * B[k, j]\n"
    "}\n"
    "kernel open_product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N] {\n"
    "  C[i, j] = sum(k: K) A[i, k] * B[k, j]\n"
    "}\n"
    "kernel one_sum(A: f32[1]) -> C: f32[1] {\n"
    "  C[i] = sum(k: 100000000000) sin(A[i] + f32(k))\n"
    "}\n"
    "kernel sums(A: f32[N]) -> C: f32[N] {\n"
    "  C[i] = sum(k: 100000000) sin(A[i] + f32(k))\n"
    "}\n"
    "kernel map(A: f32[1024, 4096]) -> C: f32[1024, 4096] {\n"
    "  C[i, j] = sum(k: 10000) sin(A[i, j] + f32(k))\n"
    "}\n"
    "kernel steps(A: f32[64]) -> C: f32[50000, 64] {\n"
    "  C[t, i] = scan(t) A[i] then many(C[t - 1, i]) + many(C[t - 1, i / 2])\n"
    "}\n";

typedef struct run {
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  char *memory[3];
  int64_t shapes[3][2];
  DLTensor inputs[2], output;
} run;

static void compile(run *r, const char *kernel, int threads) {
  tn_te *te;
  tn_schedule *schedule;
  tn_schedule_options how = {.size = sizeof(how), .threads = threads};
  tn_session_options options = {.size = sizeof(options), .threads = threads};
  check_ok(tn_te_parse("kernels.te", kernels, strlen(kernels), kernel, NULL, 0, NULL, &te));
  check_ok(tn_schedule_create(te, NULL, &how, &schedule));
  check_ok(tn_te_module(&schedule, 1, NULL, &r->module));
  check_ok(tn_module_load(r->module, NULL, &r->exe));
  check_ok(tn_session_create(r->exe, &options, &r->session));
  tn_schedule_release(schedule);
  tn_te_release(te);
}

/* Zeros of the kernel's own size, or of `open` where a dimension is open. */
static DLTensor tensor_of(run *r, int index, const tn_value_info *info, int64_t open) {
  int64_t count = 1;
  for (int i = 0; i < info->rank; i++) {
    r->shapes[index][i] = info->dims[i]->size < 0 ? open : info->dims[i]->size;
    count *= r->shapes[index][i];
  }
  r->memory[index] = calloc((size_t)count + 16, sizeof(float));
  assert_non_null(r->memory[index]);
  char *aligned = r->memory[index] + (64 - (uintptr_t)r->memory[index] % 64) % 64;
  return test_tensor(TN_F32, info->rank, r->shapes[index], aligned);
}

static void release(run *r) {
  for (int i = 0; i < 3; i++) free(r->memory[i]);
  tn_session_release(r->session);
  tn_executable_release(r->exe);
  tn_module_release(r->module);
}

/* CPU time of this process, which other work does not affect. */
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct canceller {
  tn_session *session;
  atomic_bool ended;
  double at; /* cpu_seconds() of the first time */
} canceller;

/* Cancels repeatedly, because the kernel may not have started yet. */
static void *cancel_soon(void *user) {
  canceller *c = user;
  while (!atomic_load(&c->ended)) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (c->at == 0) c->at = cpu_seconds();
    tn_session_cancel(c->session);
  }
  return NULL;
}

static void check_cancelled(const char *kernel, int threads, int64_t open) {
  run r = {0};
  compile(&r, kernel, threads);
  int count = tn_executable_input_count(r.exe, NULL);
  for (int i = 0; i < count; i++) r.inputs[i] = tensor_of(&r, i, tn_executable_input(r.exe, NULL, i), open);
  r.output = tensor_of(&r, 2, tn_executable_output(r.exe, NULL, 0), open);
  pthread_t thread;
  canceller c = {.session = r.session};
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
  tn_status *status = tn_session_invoke_with_outputs(r.session, NULL, r.inputs, count, &r.output, 1);
  const double end = cpu_seconds();
  atomic_store(&c.ended, true);
  pthread_join(thread, NULL);
  if (tn_status_code_of(status) != TN_CANCELLED || strstr(tn_status_message(status), "cancelled in kernel") == NULL)
    fail_msg("%s with %d threads was not cancelled: %s", kernel, threads, tn_status_message(status));
  tn_status_free(status);
  if (end - c.at > 20) /* the kernels take minutes; allow for slow machines */
    fail_msg("%s with %d threads ended %.2f s of CPU time after it was cancelled", kernel, threads, end - c.at);
  release(&r);
}

static void long_kernels_end_soon(void **state) {
  for (int threads = 1; threads <= 2; threads++) {
    check_cancelled("product", threads, 0);
    check_cancelled("open_product", threads, 4096);
    check_cancelled("one_sum", threads, 0);
    check_cancelled("sums", threads, 2000);
    check_cancelled("map", threads, 0);
    check_cancelled("steps", threads, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(long_kernels_end_soon)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
