/* For tests: loop IR compiled for this machine, linked to an image, mapped and called in place. */
#ifndef TENON_TESTS_UNIT_KERNEL_H
#define TENON_TESTS_UNIT_KERNEL_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/llvm/codegen.h"
#include "target/text/text.h"
#include "tenon/kernel_abi.h"
#include "unit/c99.h"
#include "unit/check.h"

/* One arena, one ir context; every test makes its own. */
typedef struct kernel_test {
  tn__arena arena;
  tn__escape escape;
  tn__ir *ir;
  tn__target target;
  void *mapped; /* the last image */
  size_t mapped_size, entry;
} kernel_test;

static inline void kernel_unmap(kernel_test *t) {
  if (t->mapped != NULL) munmap(t->mapped, t->mapped_size);
  t->mapped = NULL;
}

static inline tn__code kernel_code(tn__arena *arena, tn__ir *ir, const tn__func *func, const tn__target *target,
                                   tn__emit kind) {
  return tn__codegen_llvm(arena, &(tn__codegen_module){.irs = &ir, .funcs = &func, .count = 1, .target = target}, kind);
}

/* Are the kernels of these tests to come from the generator of C99? */
static inline bool kernel_is_c99(void) {
  const char *generator = getenv("TENON_TEST_GENERATOR");
  return generator != NULL && strcmp(generator, "c99") == 0;
}

static inline tn_kernel kernel_compile_c99(kernel_test *t, const tn__func *func) {
  tn__code code = tn__codegen_c99(
      &t->arena, &(tn__codegen_module){.irs = &t->ir, .funcs = &func, .count = 1, .target = &t->target});
  tn_kernel kernel = c99_kernel(c99_load(code.data, code.size), func->name);
  if (kernel == NULL) tn__throwf(&t->escape, TN_INTERNAL, "the C99 of %s does not compile", func->name);
  return kernel;
}

/* Compiles and maps; the kernel lives until the next call or the end of the test. */
static inline tn_kernel kernel_compile(kernel_test *t, const tn__func *func) {
  tn_status *bad = tn__func_verify(t->ir, func);
  if (bad != NULL) tn__throw(&t->escape, bad);
  if (kernel_is_c99()) return kernel_compile_c99(t, func);
  tn__code object = kernel_code(&t->arena, t->ir, func, &t->target, TN__EMIT_OBJECT);
  tn__image image = tn__cg_link_image(&t->arena, &object, 1);
  if (image.symbol_count != 1 || strcmp(image.symbols[0].name, func->name) != 0)
    tn__throwf(&t->escape, TN_INTERNAL, "the image of %s has %d symbols", func->name, image.symbol_count);
  kernel_unmap(t);
  t->mapped_size = (image.size + 4095) & ~(size_t)4095;
  t->mapped = mmap(NULL, t->mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(t->mapped, image.data, image.size);
  mprotect(t->mapped, t->mapped_size, PROT_READ | PROT_EXEC);
  t->entry = image.symbols[0].offset;
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = (char *)t->mapped + t->entry};
  return entry.code;
}

/* Runs pieces of three iterations, last piece first: nothing may depend on the order or the cut. */
static inline int32_t kernel_parallel_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  for (int64_t begin = (count + 2) / 3 * 3 - 3; begin >= 0; begin -= 3) {
    int32_t result = task(env, closure, begin, begin + 3 < count ? begin + 3 : count);
    if (result != TN_KERNEL_OK) return result;
  }
  return TN_KERNEL_OK;
}

static inline int32_t kernel_run(tn_kernel kernel, void *const *buffers, const int64_t *scalars) {
  tn_kernel_env env = {
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof(env), .parallel_for = kernel_parallel_for, .thread_count = 1};
  return kernel(&env, buffers, scalars);
}

#ifdef TN_TEST_RUNNER /* tests/cross/run_image.c for AArch64, and an emulator to run it */
#include <sys/wait.h>
#include <unistd.h>

enum { KERNEL_MAX_BUFFERS = 128 };
typedef struct kernel_file {
  uint64_t image, image_size, entry, buffer_count, scalar_count;
  uint64_t buffers[KERNEL_MAX_BUFFERS];
  int64_t scalars[8];
} kernel_file;

/* Runs the last compiled kernel, which is for another machine, under the emulator. */
static inline int32_t kernel_run_emulated(kernel_test *t, void *const *buffers, int count, size_t bytes_each,
                                          const int64_t *scalars, int scalar_count) {
  kernel_file header = {
      .image = 65536, .image_size = t->mapped_size, .entry = t->entry, .buffer_count = (uint64_t)count};
  size_t each = (bytes_each + 63) / 64 * 64, first = (65536 + t->mapped_size + 4095) / 4096 * 4096;
  for (int i = 0; i < count; i++) header.buffers[i] = first + (size_t)i * each;
  for (int i = 0; i < scalar_count; i++) header.scalars[i] = scalars[i];
  char name[] = "/tmp/tenon-image-XXXXXX";
  int file = mkstemp(name);
  assert_true(file >= 0);
  bool ok = pwrite(file, &header, sizeof(header), 0) == (ssize_t)sizeof(header);
  ok = ok && pwrite(file, t->mapped, t->mapped_size, (off_t)header.image) == (ssize_t)t->mapped_size;
  ok = ok && ftruncate(file, (off_t)(first + (size_t)count * each)) == 0;
  for (int i = 0; i < count; i++)
    ok = ok && pwrite(file, buffers[i], bytes_each, (off_t)header.buffers[i]) == (ssize_t)bytes_each;
  assert_true(ok);
  pid_t child = fork();
  if (child == 0) {
    execl(TN_TEST_EMULATOR, TN_TEST_EMULATOR, TN_TEST_RUNNER, name, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  for (int i = 0; i < count; i++)
    assert_true(pread(file, buffers[i], bytes_each, (off_t)header.buffers[i]) == (ssize_t)bytes_each);
  close(file);
  unlink(name);
  return WEXITSTATUS(status);
}
#endif

/* On this machine, or emulated when the kernel is for another; every buffer has `bytes_each` bytes. */
static inline int32_t kernel_run_anywhere(kernel_test *t, tn_kernel kernel, void *const *buffers, int count,
                                          size_t bytes_each, const int64_t *scalars, int scalar_count) {
#ifdef TN_TEST_RUNNER
  if (t->target.cpu.arch != tn__host_arch() && !kernel_is_c99())
    return kernel_run_emulated(t, buffers, count, bytes_each, scalars, scalar_count);
#endif
  return kernel_run(kernel, buffers, scalars);
}

/* 64-byte aligned, with a guard of 64 bytes behind that kernel_free checks. */
static inline void *kernel_alloc(size_t size) {
  char *memory = aligned_alloc(64, (size + 127) / 64 * 64);
  assert_non_null(memory);
  memset(memory, 0x5a, (size + 127) / 64 * 64);
  return memory;
}
static inline void kernel_free(void *memory, size_t size) {
  for (size_t i = size; i < (size + 127) / 64 * 64; i++) assert_int_equal(((const unsigned char *)memory)[i], 0x5a);
  free(memory);
}

/* Runs `body` with a fresh context for the target given (NULL: native); fails with the words of what was thrown. */
typedef struct kernel_call {
  kernel_test *test;
  void (*body)(kernel_test *t, void *user);
  void *user;
} kernel_call;
static inline void kernel_protected(tn__escape *escape, void *arg) {
  kernel_call *call = arg;
  call->test->ir = tn__ir_create(&call->test->arena);
  call->body(call->test, call->user);
}
/* What was thrown, owned by the caller; NULL when all went well. */
static inline tn_status *kernel_try(const char *target, void (*body)(kernel_test *t, void *user), void *user) {
  kernel_test t = {.ir = NULL};
  check_ok(tn__target_parse(target, &t.target));
  tn__arena_init(&t.arena, NULL, &t.escape);
  kernel_call call = {&t, body, user};
  tn_status *status = tn__protect(&t.escape, kernel_protected, &call);
  kernel_unmap(&t);
  tn__arena_release(&t.arena);
  return status;
}
static inline void kernel_with(const char *target, void (*body)(kernel_test *t, void *user), void *user) {
  check_ok(kernel_try(target, body, user));
}

#endif
