/* The CPU that the runtime itself runs on: memory is the allocator's, code is mapped, kernels are called. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sanitize.h"
#include "runtime/device.h"

static tn_status *cpu_open(tn__device *device) {
  device->state = NULL; /* all numbers of CPUs are this machine's: programs are planned for several */
  return NULL;
}

static void cpu_close(tn__device *device) {}

static void cpu_limits(const tn__device *device, tn__device_limits *out) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  *out = (tn__device_limits){.alignment = TN_KERNEL_ALIGNMENT,
                             .most_bytes = PTRDIFF_MAX,
                             .threads_of_block = 1,
                             .nature = {.is_cpu = true, .shares_memory = true}};
  if (pages > 0 && page > 0) out->memory_bytes = (size_t)pages * (size_t)page;
}

static tn_status *cpu_allocate(tn__device *device, size_t bytes, void **out) {
  *out = tn__realloc(device->allocator, NULL, 0, bytes, TN_KERNEL_ALIGNMENT);
  if (*out != NULL) {
    TN__INITIALIZED(*out, bytes); /* kernels write it */
    return NULL;
  }
  return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a session asked for %zu bytes", bytes);
}

static void cpu_free(tn__device *device, void *memory, size_t bytes) {
  tn__free(device->allocator, memory, bytes, TN_KERNEL_ALIGNMENT);
}

static void *cpu_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

static tn_status *cpu_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  if (bytes > 0) memmove(to, from, bytes);
  return NULL;
}

/* ---- code ------------------------------------------------------------------------------------------------------- */

static void flush_code(const void *code, size_t size) {
  char *begin = (char *)(uintptr_t)code;
  __builtin___clear_cache(begin, begin + size); /* AArch64's instruction cache does not watch writes */
}

/* Makes the code executable: where it is, when that is on a page of its own, else in a copy (larger pages, a file
 * system mounted noexec, memory that is the caller's). No page is ever writable and executable at once. */
static tn_status *cpu_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                tn__device_code *out) {
  *out = (tn__device_code){.base = bytes, .size = size};
  if (size == 0) return NULL;
  long page = sysconf(_SC_PAGESIZE);
  bool own_pages = page > 0 && (uintptr_t)bytes % (uintptr_t)page == 0;
  if (in_place && own_pages && mprotect((void *)(uintptr_t)bytes, size, PROT_READ | PROT_EXEC) == 0) {
    flush_code(bytes, size);
    return NULL;
  }
  void *copy;
  TN_RETURN_IF_ERROR(tn__map_copy(bytes, size, "native code", &copy));
  if (mprotect(copy, size, PROT_READ | PROT_EXEC) != 0) {
    tn_status *status =
        tn_status_prefix(tn__map_failed("native code", size), "this process may not run code from memory");
    munmap(copy, size);
    return status;
  }
  flush_code(copy, size);
  out->base = out->kept = copy;
  return NULL;
}

static void cpu_unload_code(tn__device *device, tn__device_code *code) {
  if (code->kept != NULL) munmap(code->kept, code->size);
  *code = (tn__device_code){0};
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* Results are kept in `state`, which is a pointer's worth of room: there is nothing else to keep. */
static tn_status *cpu_open_stream(tn__stream *stream) {
  stream->state = NULL;
  return NULL;
}

static void cpu_close_stream(tn__stream *stream) {}

static tn_status *cpu_launch(tn__stream *stream, const tn__device_launch *launch) {
  if (stream->state != NULL) return NULL; /* a kernel failed before */
  const char *entry = (const char *)launch->code->base + launch->offset;
  tn_kernel kernel;
  memcpy(&kernel, &entry, sizeof(kernel)); /* ISO C has no conversion from data to function pointers; POSIX has */
  stream->state = (void *)(intptr_t)kernel(launch->env, launch->buffers, launch->scalars);
  return NULL;
}

static tn_status *cpu_wait(tn__stream *stream, int32_t *result) {
  *result = (int32_t)(intptr_t)stream->state;
  stream->state = NULL;
  return NULL;
}

const tn__device_driver tn__device_cpu = {
    .name = "cpu",
    .type = kDLCPU,
    .inline_host = true,
    .synchronous = true,
    .open = cpu_open,
    .close = cpu_close,
    .limits = cpu_limits,
    .allocate = cpu_allocate,
    .free = cpu_free,
    .view = cpu_view,
    .load_code = cpu_load_code,
    .unload_code = cpu_unload_code,
    .open_stream = cpu_open_stream,
    .close_stream = cpu_close_stream,
    .copy = cpu_copy,
    .launch = cpu_launch,
    .wait = cpu_wait,
};
