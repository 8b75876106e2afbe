/* Allocations, and copies from, to and between them. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/invariant.h"
#include "runtime/opencl/opencl.h"

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static size_t reserved_bytes(size_t bytes) {
  long page = sysconf(_SC_PAGESIZE);
  size_t unit = page > 0 ? (size_t)page : 4096;
  return (bytes + unit - 1) / unit * unit + unit;
}

static tn_status *reserve(const tn__device *device, size_t bytes, char **out) {
  void *address = mmap(NULL, reserved_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return tn__opencl_refuse(device, TN_OUT_OF_MEMORY, "out of address space for %zu bytes of its memory", bytes);
  *out = address;
  return NULL;
}

/* The first block whose address is beyond the given one. */
static size_t block_behind(const tn__opencl *o, const char *address) {
  size_t low = 0, high = o->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (o->blocks[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

tn_status *tn__opencl_locate(const tn__device *device, const void *address, size_t bytes, cl_mem *memory,
                             size_t *offset) {
  tn__opencl *o = device->state;
  const char *at = address;
  pthread_mutex_lock(&o->mutex);
  size_t behind = block_behind(o, at);
  const tn__opencl_block none = {0}, block = behind > 0 ? o->blocks[behind - 1] : none;
  pthread_mutex_unlock(&o->mutex);
  *memory = block.memory;
  *offset = (size_t)(at - block.address);
  if (block.address != NULL && *offset <= block.bytes && bytes <= block.bytes - *offset) return NULL;
  return tn__opencl_refuse(device, TN_INVALID_ARGUMENT, "%zu bytes at %p are not in memory of this device", bytes,
                           address);
}

bool tn__opencl_holds(const tn__device *device, const void *address, size_t bytes) {
  cl_mem memory;
  size_t offset;
  tn_status *status = tn__opencl_locate(device, address, bytes, &memory, &offset);
  bool held = status == NULL;
  tn_status_free(status);
  return held;
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

static tn_status *add_block(const tn__device *device, tn__opencl_block block) {
  tn__opencl *o = device->state;
  if (o->count == o->capacity) {
    size_t capacity = o->capacity > 0 ? 2 * o->capacity : 16;
    void *grown = tn__realloc(device->allocator, o->blocks, o->capacity * sizeof block, capacity * sizeof block, 0);
    if (grown == NULL)
      return tn__opencl_refuse(device, TN_OUT_OF_MEMORY, "out of the host's memory for %zu allocations", capacity);
    o->blocks = grown;
    o->capacity = capacity;
  }
  size_t place = block_behind(o, block.address);
  memmove(o->blocks + place + 1, o->blocks + place, (o->count - place) * sizeof block);
  o->blocks[place] = block;
  o->count++;
  if (!block.borrowed) o->used += block.bytes;
  return NULL;
}

static tn_status *check_size(const tn__device *device, size_t bytes) {
  const tn__opencl *o = device->state;
  if (bytes > o->limits.most_bytes)
    return tn__opencl_refuse(device, TN_OUT_OF_MEMORY,
                             "out of memory: %zu bytes are asked for, and one allocation may have %zu", bytes,
                             o->limits.most_bytes);
  if (o->limits.memory_bytes > 0 && bytes > o->limits.memory_bytes - o->used)
    return tn__opencl_refuse(device, TN_OUT_OF_MEMORY,
                             "out of memory: it has %zu bytes, %zu of them in use, and %zu more are asked for",
                             o->limits.memory_bytes, o->used, bytes);
  return NULL;
}

static void drop(const tn__opencl *o, const tn__opencl_block *block) {
  if (block->memory != NULL) o->cl.clReleaseMemObject(block->memory);
  if (!block->borrowed) munmap(block->address, reserved_bytes(block->bytes));
}

tn_status *tn__opencl_allocate(tn__device *device, size_t bytes, void **out) {
  tn__opencl *o = device->state;
  tn__opencl_block block = {.bytes = bytes};
  cl_int error;
  *out = NULL;
  TN_RETURN_IF_ERROR(check_size(device, bytes));
  TN_RETURN_IF_ERROR(reserve(device, bytes, &block.address));
  cl_mem_flags pinned = device->scope == TN__MEMORY_HOST_PINNED ? CL_MEM_ALLOC_HOST_PTR : 0;
  block.memory = o->cl.clCreateBuffer(o->context, CL_MEM_READ_WRITE | pinned, bytes, NULL, &error);
  tn_status *status = NULL;
  if (error != CL_SUCCESS) {
    block.memory = NULL;
    status = tn__opencl_failed(device, error, "out of memory: %zu bytes are asked for", bytes);
  }
  pthread_mutex_lock(&o->mutex);
  if (status == NULL) status = add_block(device, block);
  pthread_mutex_unlock(&o->mutex);
  if (status == NULL)
    *out = block.address;
  else
    drop(o, &block);
  return status;
}

/* Is none of the bytes in a block? The lock is held. */
static bool is_apart(const tn__opencl *o, const char *begin, size_t bytes) {
  size_t behind = block_behind(o, begin);
  if (behind < o->count && o->blocks[behind].address < begin + bytes) return false;
  return behind == 0 || o->blocks[behind - 1].address + o->blocks[behind - 1].bytes <= begin;
}

/* What the driver does not take is copied instead. */
tn_status *tn__opencl_borrow(tn__device *device, const void *host, size_t bytes, void **out) {
  tn__opencl *o = device->state;
  tn__opencl_block block = {.address = (char *)(uintptr_t)host, .bytes = bytes, .borrowed = true};
  cl_int error;
  *out = NULL;
  if (!o->in_our_memory) return NULL;
  block.memory = o->cl.clCreateBuffer(o->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes, block.address, &error);
  if (error != CL_SUCCESS) return NULL;
  pthread_mutex_lock(&o->mutex);
  bool apart = is_apart(o, block.address, bytes);
  tn_status *status = apart ? add_block(device, block) : NULL;
  pthread_mutex_unlock(&o->mutex);
  if (apart && status == NULL)
    *out = block.address;
  else
    drop(o, &block);
  return status;
}

void tn__opencl_free(tn__device *device, void *memory, size_t bytes) {
  tn__opencl *o = device->state;
  if (memory == NULL) return;
  pthread_mutex_lock(&o->mutex);
  size_t behind = block_behind(o, memory);
  TN__INVARIANT(behind > 0 && o->blocks[behind - 1].address == memory && o->blocks[behind - 1].bytes == bytes);
  tn__opencl_block block = o->blocks[behind - 1];
  memmove(o->blocks + behind - 1, o->blocks + behind, (o->count - behind) * sizeof block);
  o->count--;
  if (!block.borrowed) o->used -= block.bytes;
  pthread_mutex_unlock(&o->mutex);
  drop(o, &block);
}

void *tn__opencl_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

void tn__opencl_release_blocks(tn__device *device) {
  tn__opencl *o = device->state;
  for (size_t i = 0; i < o->count; i++) drop(o, &o->blocks[i]);
  tn__free(device->allocator, o->blocks, o->capacity * sizeof *o->blocks, 0);
  o->blocks = NULL;
  o->count = o->capacity = o->used = 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* The device refuses to copy between parts of one object that overlap: then through memory of its own. */
static cl_int copy_overlapping(const tn__opencl *o, cl_command_queue queue, cl_mem memory, size_t from, size_t to,
                               size_t bytes) {
  cl_int error;
  cl_mem between = o->cl.clCreateBuffer(o->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (error != CL_SUCCESS) return error;
  error = o->cl.clEnqueueCopyBuffer(queue, memory, between, from, 0, bytes, 0, NULL, NULL);
  if (error == CL_SUCCESS) error = o->cl.clEnqueueCopyBuffer(queue, between, memory, 0, to, bytes, 0, NULL, NULL);
  o->cl.clReleaseMemObject(between);
  return error;
}

static tn_status *copy_within(const tn__device *device, cl_command_queue queue, void *to, const void *from,
                              size_t bytes) {
  const tn__opencl *o = device->state;
  cl_mem source, target;
  size_t source_at, target_at;
  TN_RETURN_IF_ERROR(tn__opencl_locate(device, from, bytes, &source, &source_at));
  TN_RETURN_IF_ERROR(tn__opencl_locate(device, to, bytes, &target, &target_at));
  bool overlap = source == target && source_at < target_at + bytes && target_at < source_at + bytes;
  cl_int error = overlap ? copy_overlapping(o, queue, source, source_at, target_at, bytes)
                         : o->cl.clEnqueueCopyBuffer(queue, source, target, source_at, target_at, bytes, 0, NULL, NULL);
  if (error == CL_SUCCESS) error = o->cl.clFinish(queue);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "%zu bytes cannot be copied within it", bytes);
}

tn_status *tn__opencl_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  const tn__device *device = stream->device;
  const tn__opencl *o = device->state;
  cl_command_queue queue = ((const tn__opencl_stream *)stream->state)->queue;
  cl_mem memory;
  size_t at;
  if (bytes == 0) return NULL;
  if (kind == TN__COPY_WITHIN) return copy_within(device, queue, to, from, bytes);
  cl_int error;
  if (kind == TN__COPY_IN) {
    TN_RETURN_IF_ERROR(tn__opencl_locate(device, to, bytes, &memory, &at));
    error = o->cl.clEnqueueWriteBuffer(queue, memory, CL_TRUE, at, bytes, from, 0, NULL, NULL);
    return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "%zu bytes cannot be copied to it", bytes);
  }
  TN_RETURN_IF_ERROR(tn__opencl_locate(device, from, bytes, &memory, &at));
  error = o->cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, at, bytes, to, 0, NULL, NULL);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "%zu bytes cannot be copied from it", bytes);
}
