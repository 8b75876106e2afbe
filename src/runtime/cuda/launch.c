/* Loading programs, and launches of their kernels. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cuda/cuda.h"
#include "runtime/source/source.h"

enum { MOST_THREADS = 0, SHARED_BYTES = 1 }; /* of CUfunction_attribute */

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static tn_status *load_function(const tn__device *device, const tn__cuda_code *code, uint32_t number) {
  const tn__cuda *c = device->state;
  const char *name = tn__source_name(code->unit, &tn__source_launches(code->unit)[number]);
  tn__cuda_kernel *k = &code->kernels[number];
  tn__cuda_result result = c->cu.cuModuleGetFunction(&k->function, code->module, name);
  if (result != 0) return tn__cuda_failed(device, result, "its program has no kernel \"%s\"", name);
  result = c->cu.cuFuncGetAttribute(&k->most_threads, MOST_THREADS, k->function);
  if (result == 0) result = c->cu.cuFuncGetAttribute(&k->shared_bytes, SHARED_BYTES, k->function);
  return result == 0 ? NULL : tn__cuda_failed(device, result, "it tells nothing of the kernel \"%s\"", name);
}

/* Buffers, scalars and the result. */
static size_t value_count(const tn__source_kernel *kernel) {
  return (size_t)tn__source_buffers(kernel) + kernel->text_scalar_count + 1;
}

static tn_status *make_lists(const tn__device *device, tn__cuda_code *code) {
  const tn__source_kernel *kernels = tn__source_kernels(code->unit);
  void *memory;
  for (uint32_t i = 0; i < code->unit->kernel_count; i++)
    if (value_count(&kernels[i]) > code->most_values) code->most_values = value_count(&kernels[i]);
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, code->unit->launch_count, sizeof(tn__cuda_kernel), 0, &memory));
  code->kernels = memory;
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, code->most_values, sizeof(int64_t), 0, &memory));
  code->values = memory;
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, code->most_values, sizeof(void *), 0, &memory));
  code->parameters = memory;
  for (size_t i = 0; i < code->most_values; i++) code->parameters[i] = &code->values[i];
  return NULL;
}

/* In the device's context. */
static tn_status *load_module(const tn__device *device, tn__cuda_code *code, const void *image) {
  const tn__cuda *c = device->state;
  tn__cuda_result result = c->cu.cuModuleLoadDataEx(&code->module, image, 0, NULL, NULL);
  if (result != 0) {
    code->module = NULL;
    return tn__cuda_failed(device, result, "its kernels cannot be loaded");
  }
  for (uint32_t i = 0; i < code->unit->launch_count; i++) TN_RETURN_IF_ERROR(load_function(device, code, i));
  return NULL;
}

static tn_status *load(tn__device *device, const void *bytes, size_t size, tn__cuda_code *code) {
  void *image;
  TN_RETURN_IF_ERROR(tn__cuda_placed(device, tn__source_copy(device, bytes, size, TN__SOURCE_CUDA, &code->unit)));
  TN_RETURN_IF_ERROR(make_lists(device, code));
  TN_RETURN_IF_ERROR(tn__cuda_compile(device, tn__source_text(code->unit), &image));
  tn_status *status = tn__cuda_enter(device);
  if (status == NULL) {
    status = load_module(device, code, image);
    tn__cuda_leave(device);
  }
  free(image);
  return status;
}

tn_status *tn__cuda_load_code(tn__device *device, const void *bytes, size_t size, bool in_place, tn__device_code *out) {
  void *memory;
  *out = (tn__device_code){0};
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, sizeof(tn__cuda_code), 0, &memory));
  *out = (tn__device_code){.size = size, .kept = memory};
  pthread_mutex_init(&((tn__cuda_code *)memory)->mutex, NULL);
  tn_status *status = load(device, bytes, size, memory);
  out->base = ((tn__cuda_code *)memory)->unit;
  if (status != NULL) tn__cuda_unload_code(device, out);
  return status;
}

static void unload_module(const tn__device *device, const tn__cuda_code *code) {
  const tn__cuda *c = device->state;
  if (code->module == NULL) return;
  tn_status *status = tn__cuda_enter(device);
  if (status == NULL) {
    (void)c->cu.cuModuleUnload(code->module);
    tn__cuda_leave(device);
  }
  tn_status_free(status);
}

void tn__cuda_unload_code(tn__device *device, tn__device_code *out) {
  tn__cuda_code *code = out->kept;
  if (code != NULL) {
    unload_module(device, code);
    if (code->kernels != NULL)
      tn__free(device->allocator, code->kernels, code->unit->launch_count * sizeof *code->kernels, 0);
    tn__free(device->allocator, code->values, code->most_values * sizeof *code->values, 0);
    tn__free(device->allocator, code->parameters, code->most_values * sizeof *code->parameters, 0);
    tn__source_free(device, code->unit, out->size);
    pthread_mutex_destroy(&code->mutex);
    tn__free(device->allocator, code, sizeof *code, 0);
  }
  *out = (tn__device_code){0};
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

static tn_status *launch_one(const tn__stream *stream, const tn__device_launch *launch, uint32_t number) {
  const tn__device *device = stream->device;
  const tn__cuda *c = device->state;
  tn__cuda_stream *s = stream->state;
  const tn__cuda_code *code = launch->code->kept;
  const tn__source_launch *l = &tn__source_launches(code->unit)[number];
  const tn__cuda_kernel *k = &code->kernels[number];
  const char *name = tn__source_name(code->unit, l);
  tn__source_limits limits = {
      .kind = "cuda",
      .threads = (size_t)c->limits.threads_of_block,
      .along = {c->along[0], c->along[1], c->along[2]},
      .blocks = {c->blocks[0], c->blocks[1], c->blocks[2]},
      .shared = (size_t)k->shared_bytes > l->shared_bytes ? (size_t)k->shared_bytes : l->shared_bytes,
      .shared_there = c->limits.shared_bytes};
  if ((size_t)k->most_threads < limits.threads) limits.threads = (size_t)k->most_threads;
  size_t blocks[3];
  bool any;
  TN_RETURN_IF_ERROR(tn__cuda_placed(device, tn__source_grid(name, l, launch->scalars, &limits, blocks, &any)));
  if (!any) return NULL;
  tn__cuda_result result =
      c->cu.cuLaunchKernel(k->function, (unsigned)blocks[0], (unsigned)blocks[1], (unsigned)blocks[2], l->block[0],
                           l->block[1], l->block[2], 0, s->stream, code->parameters, NULL);
  if (result != 0) return tn__cuda_failed(device, result, "the kernel \"%s\" cannot be launched", name);
  s->unsettled = true;
  return NULL;
}

/* In the device's context, when the lists are this caller's. */
static tn_status *launch_all(const tn__stream *stream, const tn__device_launch *launch,
                             const tn__source_kernel *kernel) {
  const tn__cuda_stream *s = stream->state;
  const tn__cuda_code *code = launch->code->kept;
  size_t count = 0;
  for (uint32_t i = 0; i < launch->buffer_count; i++)
    memcpy(&code->values[count++], &launch->buffers[i], sizeof(void *));
  for (uint32_t i = 0; i < kernel->text_scalar_count; i++) code->values[count++] = launch->scalars[i];
  memcpy(&code->values[count], &s->status, sizeof s->status);
  for (uint32_t i = 0; i < kernel->launch_count; i++)
    TN_RETURN_IF_ERROR(launch_one(stream, launch, kernel->first_launch + i));
  return NULL;
}

tn_status *tn__cuda_launch(tn__stream *stream, const tn__device_launch *launch) {
  const tn__device *device = stream->device;
  tn__cuda_code *code = launch->code->kept;
  const tn__source_kernel *kernel;
  TN_RETURN_IF_ERROR(tn__cuda_placed(device, tn__source_launched(code == NULL ? NULL : code->unit, launch, &kernel)));
  TN_RETURN_IF_ERROR(tn__cuda_enter(device));
  pthread_mutex_lock(&code->mutex);
  tn_status *status = launch_all(stream, launch, kernel);
  pthread_mutex_unlock(&code->mutex);
  tn__cuda_leave(device);
  return status;
}
