/* Launches of kernels: arguments, limits, and the functions of a program. */
#include "base/alloc.h"
#include "runtime/opencl/opencl.h"
#include "runtime/source/source.h"

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Parameters of a function: a pointer and an offset for each buffer, scalars, the result. */
static uint32_t parameter_count(const tn__source_kernel *kernel) {
  return 2 * tn__source_buffers(kernel) + kernel->text_scalar_count + 1;
}

static tn_status *make_function(const tn__device *device, const tn__opencl_code *code, const char *name,
                                tn__opencl_kernel *k) {
  const tn__opencl *o = device->state;
  cl_int error;
  cl_ulong shared = 0;
  k->kernel = o->cl.clCreateKernel(code->program, name, &error);
  if (error != CL_SUCCESS) {
    k->kernel = NULL;
    return tn__opencl_failed(device, error, "its program has no kernel \"%s\"", name);
  }
  error = o->cl.clGetKernelInfo(k->kernel, CL_KERNEL_NUM_ARGS, sizeof k->arguments, &k->arguments, NULL);
  if (error == CL_SUCCESS)
    error = o->cl.clGetKernelWorkGroupInfo(k->kernel, o->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof k->most_threads,
                                           &k->most_threads, NULL);
  if (error == CL_SUCCESS)
    error =
        o->cl.clGetKernelWorkGroupInfo(k->kernel, o->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL);
  k->shared_bytes = shared;
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "it tells nothing of the kernel \"%s\"", name);
}

static tn_status *load_function(const tn__device *device, const tn__opencl_code *code, const tn__source_kernel *kernel,
                                uint32_t number) {
  const char *name = tn__source_name(code->unit, &tn__source_launches(code->unit)[number]);
  tn__opencl_kernel *k = &code->kernels[number];
  if (k->kernel == NULL) TN_RETURN_IF_ERROR(make_function(device, code, name, k)); /* kernels may share launches */
  if (k->arguments == parameter_count(kernel)) return NULL;
  return tn__opencl_refuse(device, TN_DATA_LOSS, "the kernel \"%s\" takes %u arguments, and its record says %u", name,
                           k->arguments, parameter_count(kernel));
}

static tn_status *load_functions(const tn__device *device, const tn__opencl_code *code) {
  const tn__source_kernel *kernels = tn__source_kernels(code->unit);
  for (uint32_t i = 0; i < code->unit->kernel_count; i++)
    for (uint32_t k = 0; k < kernels[i].launch_count; k++)
      TN_RETURN_IF_ERROR(load_function(device, code, &kernels[i], kernels[i].first_launch + k));
  return NULL;
}

static tn_status *load(tn__device *device, const void *bytes, size_t size, tn__opencl_code *code) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__opencl_placed(device, tn__source_copy(device, bytes, size, TN__SOURCE_OPENCL, &code->unit)));
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, code->unit->launch_count, sizeof(tn__opencl_kernel), 0, &memory));
  code->kernels = memory;
  TN_RETURN_IF_ERROR(tn__opencl_build(device, tn__source_text(code->unit), code->unit->text_size, &code->program));
  return load_functions(device, code);
}

tn_status *tn__opencl_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                tn__device_code *out) {
  void *memory;
  *out = (tn__device_code){0};
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, sizeof(tn__opencl_code), 0, &memory));
  *out = (tn__device_code){.size = size, .kept = memory};
  pthread_mutex_init(&((tn__opencl_code *)memory)->mutex, NULL);
  tn_status *status = load(device, bytes, size, memory);
  out->base = ((tn__opencl_code *)memory)->unit;
  if (status != NULL) tn__opencl_unload_code(device, out);
  return status;
}

void tn__opencl_unload_code(tn__device *device, tn__device_code *out) {
  const tn__opencl *o = device->state;
  tn__opencl_code *code = out->kept;
  if (code != NULL) {
    uint32_t count = code->kernels == NULL ? 0 : code->unit->launch_count;
    for (uint32_t i = 0; i < count; i++)
      if (code->kernels[i].kernel != NULL) o->cl.clReleaseKernel(code->kernels[i].kernel);
    if (code->program != NULL) o->cl.clReleaseProgram(code->program);
    tn__free(device->allocator, code->kernels, count * sizeof *code->kernels, 0);
    tn__source_free(device, code->unit, out->size);
    pthread_mutex_destroy(&code->mutex);
    tn__free(device->allocator, code, sizeof *code, 0);
  }
  *out = (tn__device_code){0};
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

static tn_status *set_arguments(const tn__stream *stream, const tn__device_launch *launch,
                                const tn__source_kernel *kernel, const char *name, cl_kernel function) {
  const tn__device *device = stream->device;
  const tn__opencl *o = device->state;
  const tn__opencl_stream *s = stream->state;
  cl_uint at = 0;
  cl_int error = CL_SUCCESS;
  for (uint32_t i = 0; i < launch->buffer_count && error == CL_SUCCESS; i++) {
    cl_mem memory = NULL;
    size_t offset = 0;
    if (launch->buffers[i] != NULL) {
      tn_status *status = tn__opencl_locate(device, launch->buffers[i], 0, &memory, &offset);
      if (status != NULL) return tn_status_prefix(status, "buffer %u of the kernel \"%s\"", i, name);
    }
    cl_long distance = (cl_long)offset;
    error = o->cl.clSetKernelArg(function, at++, sizeof(cl_mem), &memory);
    if (error == CL_SUCCESS) error = o->cl.clSetKernelArg(function, at++, sizeof distance, &distance);
  }
  for (uint32_t i = 0; i < kernel->text_scalar_count && error == CL_SUCCESS; i++) {
    cl_long scalar = launch->scalars[i];
    error = o->cl.clSetKernelArg(function, at++, sizeof scalar, &scalar);
  }
  if (error == CL_SUCCESS) error = o->cl.clSetKernelArg(function, at, sizeof(cl_mem), &s->status);
  if (error == CL_SUCCESS) return NULL;
  return tn__opencl_failed(device, error, "the kernel \"%s\" does not take its argument %u", name, at);
}

static tn_status *launch_one(tn__stream *stream, const tn__device_launch *launch, const tn__source_kernel *kernel,
                             uint32_t number) {
  const tn__device *device = stream->device;
  const tn__opencl *o = device->state;
  tn__opencl_stream *s = stream->state;
  const tn__opencl_code *code = launch->code->kept;
  const tn__source_launch *l = &tn__source_launches(code->unit)[number];
  const tn__opencl_kernel *k = &code->kernels[number];
  const char *name = tn__source_name(code->unit, l);
  tn__source_limits limits = {.kind = "opencl",
                              .threads = (size_t)o->limits.threads_of_block,
                              .along = {o->most_items[0], o->most_items[1], o->most_items[2]},
                              .blocks = {SIZE_MAX, SIZE_MAX, SIZE_MAX},
                              .shared = k->shared_bytes > l->shared_bytes ? k->shared_bytes : l->shared_bytes,
                              .shared_there = o->limits.shared_bytes};
  if (k->most_threads < limits.threads) limits.threads = k->most_threads;
  size_t items[3], block[3] = {l->block[0], l->block[1], l->block[2]};
  bool any;
  TN_RETURN_IF_ERROR(tn__opencl_placed(device, tn__source_grid(name, l, launch->scalars, &limits, items, &any)));
  if (!any) return NULL;
  for (int a = 0; a < 3; a++) items[a] *= block[a];
  TN_RETURN_IF_ERROR(set_arguments(stream, launch, kernel, name, k->kernel));
  cl_int error = o->cl.clEnqueueNDRangeKernel(s->queue, k->kernel, 3, NULL, items, block, 0, NULL, NULL);
  if (error != CL_SUCCESS)
    return tn__opencl_failed(device, error,
                             "the kernel \"%s\" cannot be launched with %zu x %zu x %zu threads in blocks "
                             "of %zu x %zu x %zu",
                             name, items[0], items[1], items[2], block[0], block[1], block[2]);
  s->unsettled = true;
  return NULL;
}

tn_status *tn__opencl_launch(tn__stream *stream, const tn__device_launch *launch) {
  const tn__device *device = stream->device;
  const tn__opencl *o = device->state;
  tn__opencl_code *code = launch->code->kept;
  const tn__source_kernel *kernel;
  TN_RETURN_IF_ERROR(tn__opencl_placed(device, tn__source_launched(code == NULL ? NULL : code->unit, launch, &kernel)));
  tn_status *status = NULL;
  pthread_mutex_lock(&code->mutex);
  for (uint32_t i = 0; i < kernel->launch_count && status == NULL; i++)
    status = launch_one(stream, launch, kernel, kernel->first_launch + i);
  pthread_mutex_unlock(&code->mutex);
  if (status != NULL) return status;
  /* so that it begins before anybody waits */
  cl_int error = o->cl.clFlush(((const tn__opencl_stream *)stream->state)->queue);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "its queue takes no kernels");
}
