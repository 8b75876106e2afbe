/* Executables for tests whose kernels are C functions of the test: the image holds jumps to their addresses. */
#ifndef TENON_TESTS_UNIT_TRAMPOLINE_H
#define TENON_TESTS_UNIT_TRAMPOLINE_H

#include <string.h>

#include "program/exe_writer.h"
#include "target/text/text.h"
#include "tenon/kernel_abi.h"
#include "tenon/runtime.h"
#include "unit/check.h"

enum { TRAMPOLINE_SIZE = 16, TRAMPOLINE_MOST = 32 };

typedef struct test_exe {
  tn__arena arena;
  tn__escape escape;
  tn__exe *exe;
  uint8_t image[TRAMPOLINE_SIZE * TRAMPOLINE_MOST];
  int kernel_count;
} test_exe;

static inline void test_exe_init(test_exe *t, const char *target_text) {
  memset(t, 0, sizeof(*t));
  tn__arena_init(&t->arena, NULL, &t->escape);
  tn__target target;
  tn_status *status = tn__target_parse(target_text, &target);
  if (status != NULL) __builtin_trap();
  t->exe = tn__exe_create(&t->arena, &target, "test 1");
}

static inline int test_exe_kernel(test_exe *t, const char *name, tn_kernel function, int buffers, int scalars) {
  uint8_t *code = t->image + TRAMPOLINE_SIZE * t->kernel_count;
  uint64_t address;
  memcpy(&address, &function, sizeof(address));
#if defined(__x86_64__)
  const uint8_t x86[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov rax, address; jmp rax */
  memcpy(code, x86, sizeof(x86));
  memcpy(code + 2, &address, sizeof(address));
#else
  const uint32_t arm[2] = {0x58000050, 0xd61f0200}; /* ldr x16, .+8; br x16 */
  memcpy(code, arm, sizeof(arm));
  memcpy(code + 8, &address, sizeof(address));
#endif
  int offset = TRAMPOLINE_SIZE * t->kernel_count++;
  return tn__exe_kernel(t->exe, name, (uint64_t)offset, TRAMPOLINE_SIZE, buffers, scalars, 1.0, 2.0);
}

static inline tn__bytes test_exe_finish(test_exe *t) {
  tn__exe_image(t->exe, t->image, (size_t)(TRAMPOLINE_SIZE * t->kernel_count));
  return tn__exe_serialize(t->exe);
}

static inline void test_exe_release(test_exe *t) { tn__arena_release(&t->arena); }

/* What was written, loaded and ready to run; test_exe_close() releases all of it. */
static inline tn_session *test_exe_open(test_exe *t, tn_executable **exe) {
  tn__bytes bytes = test_exe_finish(t);
  tn_session *session;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, exe));
  check_ok(tn_session_create(*exe, NULL, &session));
  return session;
}

static inline void test_exe_close(test_exe *t, tn_executable *exe, tn_session *session) {
  tn_session_release(session);
  tn_executable_release(exe);
  test_exe_release(t);
}

/* A dense tensor on the CPU over the caller's memory; `shape` must outlive it. */
static inline DLTensor test_tensor(tn_dtype dtype, int rank, int64_t *shape, void *data) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = tn_dtype_to_dl(dtype), .shape = shape};
}

#endif
