/* A worker process that does to candidates what their task's name says, as compilers and kernels with defects do. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tune/worker/worker.h"

static bool is(const tn_tune_task *task, const char *name) { return strcmp(task->name, name) == 0; }

static void spin(void) {
  for (volatile unsigned long i = 0;; i++) continue;
}

/* As LLVM does when memory ends. */
static void eat_memory(void) {
  const size_t bytes = (size_t)8 << 20;
  for (;;) {
    char *more = malloc(bytes);
    if (more == NULL) break;
    memset(more, 1, bytes);
  }
  fputs("LLVM ERROR: out of memory\n", stderr);
  abort();
}

static void starting(void) {
  const char *start = getenv("TENON_FAULTY_START");
  if (start == NULL) return;
  if (strcmp(start, "killed") == 0) raise(SIGKILL);
  fputs("no library of this name\n", stderr);
  exit(7);
}

static void building(const tn_tune_task *task) {
  static const char garbage[64] = "not a message";
  if (is(task, "compiler aborts")) {
    fputs("Assertion `isa<X>(Val)' failed.\n\tin a pass\n", stderr);
    abort();
  }
  if (is(task, "compiler spins")) spin();
  if (is(task, "compiler eats memory")) eat_memory();
  if (is(task, "compiler is killed")) raise(SIGKILL);
  if (is(task, "compiler exits")) exit(3);
  if (is(task, "compiler is stopped")) raise(SIGSTOP);
  if (is(task, "compiler babbles") && write(3, garbage, sizeof garbage) < 0) abort();
  if (is(task, "compiler is slow")) usleep(300000);
}

/* ---- kernels of three buffers, the last of which is the result of 50 by 90 floats -------------------------------- */

enum { ELEMENTS = 50 * 90 };
static tn_kernel right; /* which one has the place of */

static int32_t crash(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  volatile int *nowhere = mmap(NULL, sizeof(int), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *nowhere = 1;
  return TN_KERNEL_OK;
}

static int32_t corrupt_heap(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  enum { BLOCKS = 32, BYTES = 100000, BEHIND = 64 };
  char *volatile blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BYTES);
  for (int i = 0; i < BLOCKS; i++)
    for (int at = BYTES; at < BYTES + BEHIND; at++) ((volatile char *)blocks[i])[at] = 0x55;
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  return TN_KERNEL_OK;
}

static int32_t run_on(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  spin();
  return TN_KERNEL_OK;
}

static int32_t eat(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  eat_memory();
  return TN_KERNEL_OK;
}

static int32_t be_wrong(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int32_t result = right(env, buffers, scalars);
  ((float *)buffers[2])[3 * 90 + 5] = 1000;
  return result;
}

static int32_t leave_out(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return TN_KERNEL_OK;
}

static int32_t write_behind(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int32_t result = right(env, buffers, scalars);
  ((volatile float *)buffers[2])[ELEMENTS] = 1;
  return result;
}

static int32_t write_far_behind(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  for (int i = 0; i < 64; i++) ((volatile float *)buffers[2])[ELEMENTS + i] = 1;
  return TN_KERNEL_OK;
}

static int32_t write_before(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int32_t result = right(env, buffers, scalars);
  ((volatile float *)buffers[2])[-1] = 1;
  return result;
}

static int32_t write_input(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  ((volatile float *)buffers[0])[0] = 1;
  return TN_KERNEL_OK;
}

static int32_t fail(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return TN_KERNEL_INDEX_OUT_OF_RANGE;
}

static void running(const tn_tune_task *task, tn_kernel *kernel) {
  static const struct {
    const char *name;
    tn_kernel kernel;
  } kernels[] = {{"kernel corrupts heap", corrupt_heap},
                 {"kernel crashes", crash},
                 {"kernel spins", run_on},
                 {"kernel eats memory", eat},
                 {"kernel is wrong", be_wrong},
                 {"kernel leaves out", leave_out},
                 {"kernel writes behind", write_behind},
                 {"kernel writes far", write_far_behind},
                 {"kernel writes before", write_before},
                 {"kernel writes input", write_input},
                 {"kernel fails", fail}};
  right = *kernel;
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
    if (is(task, kernels[i].name)) *kernel = kernels[i].kernel;
  if (is(task, "runner is killed")) raise(SIGKILL);
}

int main(int argc, char **argv) {
  static const tn__worker_hooks hooks = {starting, building, running};
  return tn__worker_main(argc - 1, argv + 1, &hooks);
}
