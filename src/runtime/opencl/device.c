/* Opening and closing, limits, the table, and the plug-in's one function. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/opencl/opencl.h"
#include "runtime/plugin/plugin.h"

/* ---- what a device is like --------------------------------------------------------------------------------------- */

static tn_status *get(const tn__device *device, cl_device_info info, size_t size, void *out) {
  const tn__opencl *o = device->state;
  cl_int error = o->cl.clGetDeviceInfo(o->device, info, size, out, NULL);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "it does not tell its attribute 0x%x", info);
}

static tn_status *get_text(const tn__device *device, cl_device_info info, char *out, size_t size) {
  const tn__opencl *o = device->state;
  cl_int error = tn__opencl_text(&o->cl, o->device, info, out, size);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "it does not tell its attribute 0x%x", info);
}

/* Are there what this driver takes for granted? */
static tn_status *check_device(const tn__device *device) {
  cl_bool available, compiler, little;
  cl_uint bits;
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_AVAILABLE, sizeof available, &available));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_ENDIAN_LITTLE, sizeof little, &little));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_ADDRESS_BITS, sizeof bits, &bits));
  if (!available)
    return tn__opencl_refuse(device, TN_FAILED_PRECONDITION, "its driver says that it cannot be used now");
  if (!compiler)
    return tn__opencl_refuse(device, TN_UNSUPPORTED, "its driver has no compiler, and kernels come as OpenCL C");
  if (!little || bits != 64)
    return tn__opencl_refuse(device, TN_UNSUPPORTED, "it is no little-endian device of 64 bits, but of %u", bits);
  return NULL;
}

/* What is left out stays unknown. Lanes are what most makers' compute units have. */
static tn__device_nature nature_of(const tn__device *device) {
  enum { GPU_LANES = 64 };
  const tn__opencl *o = device->state;
  cl_device_type type = 0;
  cl_uint units = 0, megahertz = 0;
  cl_bool unified = CL_FALSE;
  o->cl.clGetDeviceInfo(o->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  o->cl.clGetDeviceInfo(o->device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  o->cl.clGetDeviceInfo(o->device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof megahertz, &megahertz, NULL);
  o->cl.clGetDeviceInfo(o->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
  return (tn__device_nature){.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0,
                             .shares_memory = unified != CL_FALSE,
                             .units = units < INT32_MAX ? (int)units : 0,
                             .lanes = (type & CL_DEVICE_TYPE_GPU) != 0 ? GPU_LANES : 0,
                             .megahertz = megahertz < INT32_MAX ? (int)megahertz : 0};
}

static tn_status *read_limits(const tn__device *device) {
  tn__opencl *o = device->state;
  cl_uint alignment;
  cl_ulong most, memory, shared;
  size_t threads, items[3];
  cl_device_fp_config single;
  cl_device_type type;
  cl_bool unified;
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof alignment, &alignment)); /* in bits */
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof shared, &shared));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_TYPE, sizeof type, &type));
  TN_RETURN_IF_ERROR(get(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified));
  cl_int error = o->cl.clGetDeviceInfo(o->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, NULL);
  if (error != CL_SUCCESS) return tn__opencl_failed(device, error, "its work-items have not three dimensions");
  memcpy(o->most_items, items, sizeof items);
  o->in_our_memory = (type & CL_DEVICE_TYPE_CPU) != 0 && unified;
  o->correctly_rounded = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  o->limits = (tn__device_limits){
      .alignment = alignment / 8 > TN_KERNEL_ALIGNMENT ? alignment / 8 : TN_KERNEL_ALIGNMENT,
      .most_bytes = most,
      .memory_bytes = memory,
      .threads_of_block = threads > INT32_MAX ? INT32_MAX : (int)threads,
      .shared_bytes = shared,
      .nature = nature_of(device),
  };
  char platform[TN__OPENCL_NAME] = "", version[TN__OPENCL_NAME] = "";
  o->cl.clGetPlatformInfo(o->platform, CL_PLATFORM_NAME, sizeof platform, platform, NULL);
  TN_RETURN_IF_ERROR(get_text(device, CL_DEVICE_VERSION, version, sizeof version));
  snprintf(o->limits.about, sizeof o->limits.about, "%.100s; %.60s, %.88s", o->name, platform, version);
  return NULL;
}

static tn_status *make_context(const tn__device *device) {
  tn__opencl *o = device->state;
  cl_int error;
  o->context = o->cl.clCreateContext(NULL, 1, &o->device, NULL, NULL, &error);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "there is no context for it");
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void opencl_close(tn__device *device) {
  tn__opencl *o = device->state;
  tn__opencl_release_blocks(device);
  if (o->context != NULL) o->cl.clReleaseContext(o->context);
  pthread_mutex_destroy(&o->mutex);
  tn__free(device->allocator, o, sizeof *o, 0);
  device->state = NULL;
}

static tn_status *begin(const tn__device *device) {
  tn__opencl *o = device->state;
  TN_RETURN_IF_ERROR(get_text(device, CL_DEVICE_NAME, o->name, sizeof o->name));
  TN_RETURN_IF_ERROR(check_device(device));
  TN_RETURN_IF_ERROR(read_limits(device));
  return make_context(device);
}

/* Loaders and drivers set themselves up with the first call of any thread, and not all of them guard that. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static tn_status *open_found(tn__device *device) {
  tn__opencl_api cl;
  cl_platform_id platform;
  cl_device_id found;
  void *memory = NULL;
  TN_RETURN_IF_ERROR(tn__opencl_load(&cl));
  TN_RETURN_IF_ERROR(tn__opencl_find(&cl, device->id, &platform, &found));
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, sizeof(tn__opencl), 0, &memory));
  tn__opencl *o = device->state = memory;
  o->cl = cl, o->platform = platform, o->device = found;
  pthread_mutex_init(&o->mutex, NULL);
  tn_status *status = begin(device);
  if (status != NULL) opencl_close(device);
  return status;
}

/* Drivers start threads, which are not to get the program's signals. */
static sigset_t begin_opening(void) {
  sigset_t signals, before;
  sigfillset(&signals);
  pthread_sigmask(SIG_SETMASK, &signals, &before);
  pthread_mutex_lock(&opening);
  return before;
}

static void end_opening(const sigset_t *signals) {
  pthread_mutex_unlock(&opening);
  pthread_sigmask(SIG_SETMASK, signals, NULL);
}

static tn_status *opencl_open(tn__device *device) {
  device->state = NULL;
  sigset_t signals = begin_opening();
  tn_status *status = open_found(device);
  end_opening(&signals);
  return status;
}

static void opencl_limits(const tn__device *device, tn__device_limits *out) {
  const tn__opencl *o = device->state;
  *out = o->limits;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void opencl_close_stream(tn__stream *stream) {
  const tn__opencl *o = stream->device->state;
  tn__opencl_stream *s = stream->state;
  if (s->queue != NULL) o->cl.clFinish(s->queue);
  if (s->status != NULL) o->cl.clReleaseMemObject(s->status);
  if (s->queue != NULL) o->cl.clReleaseCommandQueue(s->queue);
  tn__free(stream->allocator, s, sizeof *s, 0);
  stream->state = NULL;
}

static tn_status *make_queue(const tn__device *device, tn__opencl_stream *s) {
  const tn__opencl *o = device->state;
  cl_int error, ok = TN_KERNEL_OK;
  s->queue = o->cl.clCreateCommandQueue(o->context, o->device, 0, &error);
  if (error != CL_SUCCESS) return tn__opencl_failed(device, error, "there is no queue for it");
  s->status = o->cl.clCreateBuffer(o->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof ok, &ok, &error);
  return error == CL_SUCCESS ? NULL : tn__opencl_failed(device, error, "there is no memory for its result");
}

static tn_status *opencl_open_stream(tn__stream *stream) {
  void *memory;
  stream->state = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(stream->allocator, 1, sizeof(tn__opencl_stream), 0, &memory));
  stream->state = memory;
  sigset_t signals = begin_opening();
  tn_status *status = make_queue(stream->device, memory);
  end_opening(&signals);
  if (status != NULL) opencl_close_stream(stream);
  return status;
}

/* In order, and reads are waited for: what was read is behind all that was launched. */
static tn_status *opencl_wait(tn__stream *stream, int32_t *result) {
  const tn__opencl *o = stream->device->state;
  tn__opencl_stream *s = stream->state;
  cl_int ok = TN_KERNEL_OK, value = TN_KERNEL_OK;
  *result = TN_KERNEL_OK;
  if (!s->unsettled) return NULL;
  s->unsettled = false;
  cl_int error = o->cl.clEnqueueReadBuffer(s->queue, s->status, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL);
  if (error != CL_SUCCESS) return tn__opencl_failed(stream->device, error, "its kernels cannot be waited for");
  if (value == TN_KERNEL_OK) return NULL;
  error = o->cl.clEnqueueWriteBuffer(s->queue, s->status, CL_TRUE, 0, sizeof ok, &ok, 0, NULL, NULL);
  if (error != CL_SUCCESS) return tn__opencl_failed(stream->device, error, "the result of its kernels cannot be reset");
  *result = value; /* or a status, never both */
  return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tn__device_driver opencl_driver = {
    .name = "opencl",
    .type = kDLOpenCL,
    .scopes = 1u << TN__MEMORY_HOST_PINNED,
    .open = opencl_open,
    .close = opencl_close,
    .limits = opencl_limits,
    .allocate = tn__opencl_allocate,
    .free = tn__opencl_free,
    .borrow = tn__opencl_borrow,
    .view = tn__opencl_view,
    .holds = tn__opencl_holds,
    .load_code = tn__opencl_load_code,
    .unload_code = tn__opencl_unload_code,
    .open_stream = opencl_open_stream,
    .close_stream = opencl_close_stream,
    .copy = tn__opencl_copy,
    .launch = tn__opencl_launch,
    .wait = opencl_wait,
};

const tn__device_driver *tn_plugin_driver(uint32_t runtime, uint32_t *own) {
  *own = TN__PLUGIN_VERSION;
  return runtime == TN__PLUGIN_VERSION ? &opencl_driver : NULL;
}
