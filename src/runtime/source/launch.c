/* The records of units, and launches. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/source/source.h"

tn_status *tn__source_copy(const tn__device *device, const void *bytes, size_t size, tn__source_language language,
                           tn__source_unit **out) {
  static const char *const names[] = {[TN__SOURCE_OPENCL] = "OpenCL C", [TN__SOURCE_CUDA] = "CUDA C"};
  void *memory;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__source_unit_check(bytes, size));
  if (((const tn__source_unit *)bytes)->language != language)
    return tn_status_create(TN_INVALID_ARGUMENT, "its kernels are not in %s", names[language]);
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, size, 0, &memory));
  *out = memcpy(memory, bytes, size);
  return NULL;
}

void tn__source_free(const tn__device *device, tn__source_unit *unit, size_t size) {
  tn__free(device->allocator, unit, size, 0);
}

tn_status *tn__source_launched(const tn__source_unit *unit, const tn__device_launch *launch,
                               const tn__source_kernel **out) {
  const tn__source_kernel *kernel = unit == NULL ? NULL : tn__source_unit_kernel(unit, launch->offset);
  *out = kernel;
  if (kernel == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "its program has no kernel at %llu",
                            (unsigned long long)launch->offset);
  if (launch->buffer_count == tn__source_buffers(kernel) && launch->scalar_count == kernel->scalar_count) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "a kernel is launched with %u buffers and %u scalars, and its record says %u and %u",
                          launch->buffer_count, launch->scalar_count, tn__source_buffers(kernel), kernel->scalar_count);
}

static tn_status *check_block(const char *name, const tn__source_launch *launch, const tn__source_limits *limits) {
  const uint32_t *b = launch->block;
  uint64_t threads = (uint64_t)b[0] * b[1] <= UINT32_MAX ? (uint64_t)b[0] * b[1] * b[2] : UINT64_MAX;
  if (threads > limits->threads)
    return tn_status_create(TN_UNSUPPORTED,
                            "the kernel \"%s\" has blocks of %u x %u x %u threads, and the device takes %zu at most: "
                            "compile for \"%s -threads=%zu\"",
                            name, b[0], b[1], b[2], limits->threads, limits->kind, limits->threads);
  for (int a = 0; a < 3; a++)
    if (b[a] > limits->along[a])
      return tn_status_create(TN_UNSUPPORTED,
                              "the kernel \"%s\" has blocks of %u threads along %c, and the device takes %zu at most: "
                              "compile for \"%s -threads=%zu\"",
                              name, b[a], "xyz"[a], limits -> along[a], limits -> kind, limits -> along[a]);
  if (limits->shared <= limits->shared_there) return NULL;
  return tn_status_create(TN_UNSUPPORTED,
                          "the kernel \"%s\" has %zu bytes that a block's threads share, and the device %zu: compile "
                          "for \"%s -shared_bytes=%zu\"",
                          name, limits->shared, limits->shared_there, limits->kind, limits->shared_there);
}

tn_status *tn__source_grid(const char *name, const tn__source_launch *launch, const int64_t *scalars,
                           const tn__source_limits *limits, size_t blocks[3], bool *any) {
  *any = true;
  for (int a = 0; a < 3; a++) {
    const tn__source_extent *e = &launch->grid[a];
    int64_t count = e->symbolic ? scalars[e->value] : e->value;
    size_t most = INT64_MAX / launch->block[a]; /* threads are counted, too */
    if (limits->blocks[a] < most) most = limits->blocks[a];
    if (count < 0 || (uint64_t)count > most)
      return tn_status_create(TN_UNSUPPORTED,
                              "the kernel \"%s\" is to run with %lld blocks along %c, and the device takes %zu at most",
                              name, (long long)count, "xyz"[a], most);
    blocks[a] = (size_t)count;
    *any = *any && count > 0;
  }
  return *any ? check_block(name, launch, limits) : NULL;
}
