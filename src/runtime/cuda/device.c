/* Opening and closing, limits, memory and copies, the table, and the plug-in's one function. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/cuda/cuda.h"
#include "runtime/plugin/plugin.h"

/* Of CUdevice_attribute. */
enum {
  THREADS_OF_BLOCK = 1,
  THREADS_ALONG_X = 2, /* y and z behind it */
  BLOCKS_ALONG_X = 5,  /* the same */
  SHARED_OF_BLOCK = 8,
  CLOCK = 13, /* kHz */
  MULTIPROCESSORS = 16,
  INTEGRATED = 18,
  CAN_MAP_HOST = 19,
  MEMORY_CLOCK = 36, /* kHz */
  MEMORY_WIDTH = 37, /* bits */
  UNIFIED = 41,
  MAJOR = 75,
  MINOR = 76
};
enum { MEMORY_TYPE = 2 /* of CUpointer_attribute */, OF_HOST = 1 /* of CUmemorytype */ };
enum { DEVICE_MAP = 2 /* of cuMemHostAlloc */ };
enum { ALIGNMENT = 256 /* that cuMemAlloc gives */, NON_BLOCKING = 1 /* of streams */ };

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int attribute_of(const tn__cuda *c, int attribute) {
  int value = 0;
  return c->cu.cuDeviceGetAttribute(&value, attribute, c->device) == 0 && value > 0 ? value : 0;
}

/* What is left out stays unknown. Memory moves twice a cycle of its clock, which is in kHz. */
static tn__device_nature nature_of(const tn__cuda *c) {
  enum { LANES = 128, BITS = 8 };
  const int64_t clock = attribute_of(c, MEMORY_CLOCK), width = attribute_of(c, MEMORY_WIDTH);
  return (tn__device_nature){.shares_memory = attribute_of(c, INTEGRATED) != 0,
                             .units = attribute_of(c, MULTIPROCESSORS),
                             .lanes = LANES,
                             .megahertz = attribute_of(c, CLOCK) / 1000,
                             .memory_rate = 2 * clock * width / BITS / 1000};
}

static tn__cuda_result read_limits(tn__cuda *c) {
  int threads = 0, shared = 0, major = 0, minor = 0, value = 0;
  size_t memory = 0;
  tn__cuda_result result = c->cu.cuDeviceGetAttribute(&threads, THREADS_OF_BLOCK, c->device);
  if (result == 0) result = c->cu.cuDeviceGetAttribute(&shared, SHARED_OF_BLOCK, c->device);
  if (result == 0) result = c->cu.cuDeviceGetAttribute(&major, MAJOR, c->device);
  if (result == 0) result = c->cu.cuDeviceGetAttribute(&minor, MINOR, c->device);
  for (int a = 0; a < 3 && result == 0; a++) {
    result = c->cu.cuDeviceGetAttribute(&value, THREADS_ALONG_X + a, c->device);
    c->along[a] = (size_t)value;
    if (result == 0) result = c->cu.cuDeviceGetAttribute(&value, BLOCKS_ALONG_X + a, c->device);
    c->blocks[a] = (size_t)value;
  }
  if (result == 0) result = c->cu.cuDeviceTotalMem_v2(&memory, c->device);
  if (result == 0) result = c->cu.cuDriverGetVersion(&c->driver_version);
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  c->unified = attribute_of(c, UNIFIED) != 0 && attribute_of(c, CAN_MAP_HOST) != 0;
  c->host_bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
  c->architecture = 10 * major + minor;
  c->limits = (tn__device_limits){.alignment = ALIGNMENT,
                                  .most_bytes = memory,
                                  .memory_bytes = memory,
                                  .threads_of_block = threads,
                                  .shared_bytes = (size_t)shared,
                                  .nature = nature_of(c)};
  snprintf(c->limits.about, sizeof c->limits.about, "%s; sm_%d, driver of CUDA %d.%d", c->name, c->architecture,
           c->driver_version / 1000, c->driver_version % 1000 / 10);
  return result;
}

/* The primary contexts that are kept, a bit for each device; those of a higher number are not. So that it is made once,
 * the first that a process opens of a device holds one reference more, as CUDA's own runtime does. Where a kernel
 * failed a context takes nothing any more, and goes when the last that has it closes. */
static _Atomic uint64_t kept;

static uint64_t bit_of(const tn__device *device) {
  return device->id >= 0 && device->id < 64 ? (uint64_t)1 << device->id : 0;
}

static void keep_context(const tn__device *device) {
  tn__cuda *c = device->state;
  tn__cuda_handle again;
  uint64_t bit = bit_of(device);
  if (bit == 0 || (atomic_fetch_or(&kept, bit) & bit) != 0) return;
  if (c->cu.cuDevicePrimaryCtxRetain(&again, c->device) != 0) atomic_fetch_and(&kept, ~bit);
}

static void drop_context(const tn__device *device) {
  const tn__cuda *c = device->state;
  uint64_t bit = bit_of(device);
  if ((atomic_fetch_and(&kept, ~bit) & bit) != 0) (void)c->cu.cuDevicePrimaryCtxRelease_v2(c->device);
}

static tn_status *begin(const tn__device *device) {
  tn__cuda *c = device->state;
  tn__cuda_result result = c->cu.cuDeviceGetName(c->name, sizeof c->name, c->device);
  if (result == 0) result = read_limits(c);
  if (result != 0) return tn__cuda_failed(device, result, "it does not tell what it is like");
  result = c->cu.cuDevicePrimaryCtxRetain(&c->context, c->device);
  if (result == 0) {
    keep_context(device);
    return NULL;
  }
  c->context = NULL;
  return tn__cuda_failed(device, result, "there is no context for it");
}

static void cuda_close(tn__device *device) {
  tn__cuda *c = device->state;
  if (c->context != NULL) (void)c->cu.cuDevicePrimaryCtxRelease_v2(c->device);
  tn__free(device->allocator, c, sizeof *c, 0);
  device->state = NULL;
}

/* The driver starts threads, which are not to get the program's signals. */
static tn_status *cuda_open(tn__device *device) {
  tn__cuda_api cu;
  tn__cuda_device found = 0;
  void *memory = NULL;
  sigset_t signals, before;
  device->state = NULL;
  sigfillset(&signals);
  pthread_sigmask(SIG_SETMASK, &signals, &before);
  tn_status *status = tn__cuda_load(&cu);
  if (status == NULL) status = tn__cuda_find(&cu, device->id, &found);
  if (status == NULL) status = tn__alloc(device->allocator, 1, sizeof(tn__cuda), 0, &memory);
  if (status == NULL) {
    tn__cuda *c = device->state = memory;
    c->cu = cu, c->device = found;
    status = begin(device);
    if (status != NULL) cuda_close(device);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

static void cuda_limits(const tn__device *device, tn__device_limits *out) {
  const tn__cuda *c = device->state;
  *out = c->limits;
  if (device->scope != TN__MEMORY_HOST_PINNED) return;
  out->most_bytes = c->host_bytes;
  out->memory_bytes = 0; /* how much of the machine's may be kept in its place nobody tells */
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tn__cuda_address address_of(const void *memory) { return (tn__cuda_address)(uintptr_t)memory; }

/* The driver would take pages until the machine has none. */
static tn_status *check_pinned(const tn__device *device, size_t bytes) {
  const tn__cuda *c = device->state;
  if (!c->unified)
    return tn__cuda_placed(device, tn_status_create(TN_UNSUPPORTED,
                                                    "it does not read the host's memory at the host's "
                                                    "addresses, so there is no host-pinned memory"));
  if (bytes <= c->host_bytes) return NULL;
  return tn__cuda_placed(device, tn_status_create(TN_OUT_OF_MEMORY,
                                                  "out of memory: this machine has %zu bytes, and %zu are asked for of "
                                                  "host-pinned memory",
                                                  c->host_bytes, bytes));
}

static tn_status *allocate_pinned(const tn__device *device, size_t bytes, void **out) {
  tn__cuda *c = device->state;
  TN_RETURN_IF_ERROR(check_pinned(device, bytes));
  TN_RETURN_IF_ERROR(tn__cuda_enter(device));
  tn__cuda_result result = c->cu.cuMemHostAlloc(out, bytes, DEVICE_MAP);
  tn__cuda_leave(device);
  if (result == 0) {
    atomic_fetch_add(&c->pinned, 1);
    return NULL;
  }
  *out = NULL;
  return tn__cuda_failed(device, result, "out of memory: %zu bytes are asked for of host-pinned memory", bytes);
}

static tn_status *cuda_allocate(tn__device *device, size_t bytes, void **out) {
  const tn__cuda *c = device->state;
  tn__cuda_address address = 0;
  *out = NULL;
  if (device->scope == TN__MEMORY_HOST_PINNED) return allocate_pinned(device, bytes, out);
  TN_RETURN_IF_ERROR(tn__cuda_enter(device));
  tn__cuda_result result = c->cu.cuMemAlloc_v2(&address, bytes);
  tn__cuda_leave(device);
  if (result != 0)
    return tn__cuda_failed(device, result, "out of memory: it has %zu bytes, and %zu more are asked for",
                           c->limits.memory_bytes, bytes);
  *out = (void *)(uintptr_t)address; /* nobody but the device reads there */
  return NULL;
}

static void cuda_free(tn__device *device, void *memory, size_t bytes) {
  tn__cuda *c = device->state;
  const bool pinned = device->scope == TN__MEMORY_HOST_PINNED;
  if (memory == NULL) return;
  tn_status *status = tn__cuda_enter(device);
  if (status == NULL) { /* a device that failed has nothing to give back */
    (void)(pinned ? c->cu.cuMemFreeHost(memory) : c->cu.cuMemFree_v2(address_of(memory)));
    tn__cuda_leave(device);
  }
  if (pinned) atomic_fetch_sub(&c->pinned, 1);
  tn_status_free(status);
}

static void *cuda_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void cuda_close_stream(tn__stream *stream) {
  const tn__cuda *c = stream->device->state;
  tn__cuda_stream *s = stream->state;
  tn_status *status = tn__cuda_enter(stream->device);
  if (status == NULL) {
    if (s->stream == NULL || c->cu.cuStreamSynchronize(s->stream) != 0) drop_context(stream->device);
    if (s->status != 0) (void)c->cu.cuMemFree_v2(s->status);
    if (s->stream != NULL) (void)c->cu.cuStreamDestroy_v2(s->stream);
    tn__cuda_leave(stream->device);
  }
  tn_status_free(status);
  tn__free(stream->allocator, s, sizeof *s, 0);
  stream->state = NULL;
}

static tn_status *make_stream(const tn__device *device, tn__cuda_stream *s) {
  const tn__cuda *c = device->state;
  TN_RETURN_IF_ERROR(tn__cuda_enter(device));
  tn__cuda_result result = c->cu.cuStreamCreate(&s->stream, NON_BLOCKING);
  if (result != 0) s->stream = NULL;
  if (result == 0) result = c->cu.cuMemAlloc_v2(&s->status, sizeof(int32_t));
  if (result == 0) result = c->cu.cuMemsetD32Async(s->status, TN_KERNEL_OK, 1, s->stream);
  if (result == 0) result = c->cu.cuStreamSynchronize(s->stream);
  tn__cuda_leave(device);
  return result == 0 ? NULL : tn__cuda_failed(device, result, "there is no stream for it");
}

static tn_status *cuda_open_stream(tn__stream *stream) {
  void *memory;
  stream->state = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(stream->allocator, 1, sizeof(tn__cuda_stream), 0, &memory));
  stream->state = memory;
  tn_status *status = make_stream(stream->device, memory);
  if (status != NULL) cuda_close_stream(stream);
  return status;
}

/* Parts of one allocation that overlap go through memory of its own. */
static tn__cuda_result copy_overlapping(const tn__cuda *c, tn__cuda_handle stream, tn__cuda_address to,
                                        tn__cuda_address from, size_t bytes) {
  tn__cuda_address between = 0;
  tn__cuda_result result = c->cu.cuMemAlloc_v2(&between, bytes), last;
  if (result != 0) return result;
  result = c->cu.cuMemcpyDtoDAsync_v2(between, from, bytes, stream);
  if (result == 0) result = c->cu.cuMemcpyDtoDAsync_v2(to, between, bytes, stream);
  last = c->cu.cuStreamSynchronize(stream);
  (void)c->cu.cuMemFree_v2(between);
  return result == 0 ? last : result;
}

static bool is_pinned(const tn__cuda *c, const void *memory) {
  unsigned type = 0;
  return atomic_load(&c->pinned) > 0 && c->cu.cuPointerGetAttribute(&type, MEMORY_TYPE, address_of(memory)) == 0 &&
         type == OF_HOST;
}

/* Behind all that was launched before. */
static tn__cuda_result copy_by_host(const tn__cuda *c, tn__cuda_handle stream, void *to, const void *from,
                                    size_t bytes) {
  tn__cuda_result result = c->cu.cuStreamSynchronize(stream);
  if (result == 0) memmove(to, from, bytes);
  return result;
}

/* Of memory of the device, pinned or its own, and of the host's. */
static tn__cuda_result copy(const tn__cuda *c, tn__cuda_handle stream, tn__copy_kind kind, void *to, const void *from,
                            size_t bytes) {
  tn__cuda_address target = address_of(to), source = address_of(from);
  const bool to_host = kind == TN__COPY_OUT || is_pinned(c, to), from_host = kind == TN__COPY_IN || is_pinned(c, from);
  if (to_host && from_host) return copy_by_host(c, stream, to, from, bytes);
  if (kind == TN__COPY_WITHIN && (to_host || from_host)) return c->cu.cuMemcpyAsync(target, source, bytes, stream);
  if (kind == TN__COPY_IN) return c->cu.cuMemcpyHtoDAsync_v2(target, from, bytes, stream);
  if (kind == TN__COPY_OUT) return c->cu.cuMemcpyDtoHAsync_v2(to, source, bytes, stream);
  if (source < target + bytes && target < source + bytes) return copy_overlapping(c, stream, target, source, bytes);
  return c->cu.cuMemcpyDtoDAsync_v2(target, source, bytes, stream);
}

static tn_status *cuda_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  static const char *const where[] = {[TN__COPY_IN] = "to", [TN__COPY_OUT] = "from", [TN__COPY_WITHIN] = "within"};
  const tn__device *device = stream->device;
  const tn__cuda *c = device->state;
  tn__cuda_handle own = ((const tn__cuda_stream *)stream->state)->stream;
  if (bytes == 0) return NULL;
  TN_RETURN_IF_ERROR(tn__cuda_enter(device));
  tn__cuda_result result = copy(c, own, kind, to, from, bytes);
  if (result == 0) result = c->cu.cuStreamSynchronize(own);
  tn__cuda_leave(device);
  return result == 0 ? NULL : tn__cuda_failed(device, result, "%zu bytes cannot be copied %s it", bytes, where[kind]);
}

static tn_status *cuda_wait(tn__stream *stream, int32_t *result) {
  const tn__cuda *c = stream->device->state;
  tn__cuda_stream *s = stream->state;
  int32_t value = TN_KERNEL_OK;
  *result = TN_KERNEL_OK;
  if (!s->unsettled) return NULL;
  s->unsettled = false;
  TN_RETURN_IF_ERROR(tn__cuda_enter(stream->device));
  tn__cuda_result said = c->cu.cuMemcpyDtoHAsync_v2(&value, s->status, sizeof value, s->stream);
  if (said == 0) said = c->cu.cuStreamSynchronize(s->stream);
  if (said == 0 && value != TN_KERNEL_OK) {
    said = c->cu.cuMemsetD32Async(s->status, TN_KERNEL_OK, 1, s->stream);
    if (said == 0) said = c->cu.cuStreamSynchronize(s->stream);
  }
  tn__cuda_leave(stream->device);
  if (said != 0) return tn__cuda_failed(stream->device, said, "its kernels cannot be waited for");
  *result = value;
  return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tn__device_driver cuda_driver = {
    .name = "cuda",
    .type = kDLCUDA,
    .scopes = 1u << TN__MEMORY_HOST_PINNED,
    .open = cuda_open,
    .close = cuda_close,
    .limits = cuda_limits,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .view = cuda_view,
    .load_code = tn__cuda_load_code,
    .unload_code = tn__cuda_unload_code,
    .open_stream = cuda_open_stream,
    .close_stream = cuda_close_stream,
    .copy = cuda_copy,
    .launch = tn__cuda_launch,
    .wait = cuda_wait,
};

const tn__device_driver *tn_plugin_driver(uint32_t runtime, uint32_t *own) {
  *own = TN__PLUGIN_VERSION;
  return runtime == TN__PLUGIN_VERSION ? &cuda_driver : NULL;
}
