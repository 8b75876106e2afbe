/* The loader of OpenCL, the devices that it knows, and its errors. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "runtime/opencl/opencl.h"

enum { MOST_PLATFORMS = 32, MOST_DEVICES = 64, NO_PLATFORM = -1001 /* the loader's CL_PLATFORM_NOT_FOUND_KHR */ };

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static const char *error_name(cl_int error) {
#define ERROR(name) \
  case name: return #name
  switch (error) {
    ERROR(CL_DEVICE_NOT_FOUND);
    ERROR(CL_DEVICE_NOT_AVAILABLE);
    ERROR(CL_COMPILER_NOT_AVAILABLE);
    ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    ERROR(CL_OUT_OF_RESOURCES);
    ERROR(CL_OUT_OF_HOST_MEMORY);
    ERROR(CL_MEM_COPY_OVERLAP);
    ERROR(CL_BUILD_PROGRAM_FAILURE);
    ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    ERROR(CL_INVALID_VALUE);
    ERROR(CL_INVALID_DEVICE);
    ERROR(CL_INVALID_CONTEXT);
    ERROR(CL_INVALID_COMMAND_QUEUE);
    ERROR(CL_INVALID_MEM_OBJECT);
    ERROR(CL_INVALID_BINARY);
    ERROR(CL_INVALID_BUILD_OPTIONS);
    ERROR(CL_INVALID_PROGRAM);
    ERROR(CL_INVALID_PROGRAM_EXECUTABLE);
    ERROR(CL_INVALID_KERNEL_NAME);
    ERROR(CL_INVALID_KERNEL);
    ERROR(CL_INVALID_ARG_INDEX);
    ERROR(CL_INVALID_ARG_VALUE);
    ERROR(CL_INVALID_ARG_SIZE);
    ERROR(CL_INVALID_KERNEL_ARGS);
    ERROR(CL_INVALID_WORK_DIMENSION);
    ERROR(CL_INVALID_WORK_GROUP_SIZE);
    ERROR(CL_INVALID_WORK_ITEM_SIZE);
    ERROR(CL_INVALID_GLOBAL_WORK_SIZE);
    ERROR(CL_INVALID_BUFFER_SIZE);
    ERROR(CL_INVALID_OPERATION);
    default: return "an error";
  }
#undef ERROR
}

tn_status *tn__opencl_placed(const tn__device *device, tn_status *status) {
  const tn__opencl *o = device->state;
  return o->name[0] == '\0' ? tn_status_prefix(status, "opencl:%d", (int)device->id)
                            : tn_status_prefix(status, "opencl:%d (%s)", (int)device->id, o->name);
}

tn_status *tn__opencl_failed(const tn__device *device, cl_int error, const char *what, ...) {
  char text[256];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
  tn_status_code code = memory ? TN_OUT_OF_MEMORY : TN_FAILED_PRECONDITION;
  return tn__opencl_placed(device,
                           tn_status_create(code, "%s: the driver says %s (%d)", text, error_name(error), (int)error));
}

tn_status *tn__opencl_refuse(const tn__device *device, tn_status_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(code, format, args);
  va_end(args);
  return tn__opencl_placed(device, status);
}

/* ---- the loader -------------------------------------------------------------------------------------------------- */

tn_status *tn__opencl_load(tn__opencl_api *out) {
  static const char *const names[] = {
#define NAME(name) #name,
      TN__OPENCL_FUNCTIONS(NAME)
#undef NAME
  };
  static const char todo[] =
      "install a loader of OpenCL and the driver of a device "
      "(Debian: ocl-icd-libopencl1; pocl-opencl-icd for the CPU)";
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char *why = dlerror();
    return tn_status_create(TN_NOT_FOUND, "there is no OpenCL on this machine (%s): %s",
                            why == NULL ? "libOpenCL.so.1" : why, todo);
  }
  const char *missing = NULL;
  void *functions[sizeof names / sizeof names[0]];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    functions[i] = dlsym(library, names[i]);
    if (functions[i] == NULL) missing = names[i];
  }
  dlclose(library); /* it stays: what drivers start cannot be ended */
  if (missing != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "libOpenCL.so.1 has no %s, so it is older than OpenCL 1.2: %s",
                            missing, todo);
  _Static_assert(sizeof functions == sizeof *out, "an api is a list of functions");
  memcpy(out, functions, sizeof functions); /* ISO C has no conversion from data to function pointers; POSIX has */
  return NULL;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

cl_int tn__opencl_text(const tn__opencl_api *cl, cl_device_id device, cl_device_info info, char *out, size_t size) {
  size_t length = 0;
  snprintf(out, size, "?");
  cl_int error = cl->clGetDeviceInfo(device, info, 0, NULL, &length);
  if (error != CL_SUCCESS) return error;
  char *text = calloc(1, length + 1);
  if (text == NULL) return CL_OUT_OF_HOST_MEMORY;
  error = cl->clGetDeviceInfo(device, info, length, text, NULL);
  if (error == CL_SUCCESS) snprintf(out, size, "%s", text);
  free(text);
  return error;
}

tn_status *tn__opencl_find(const tn__opencl_api *cl, int number, cl_platform_id *platform, cl_device_id *device) {
  cl_platform_id platforms[MOST_PLATFORMS];
  cl_uint platform_count = 0;
  cl_int error = cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &platform_count);
  if (error != CL_SUCCESS && error != NO_PLATFORM)
    return tn_status_create(TN_FAILED_PRECONDITION, "OpenCL tells no platforms: the loader says %s (%d)",
                            error_name(error), (int)error);
  tn__strbuf there;
  tn__strbuf_init(&there, NULL);
  int seen = 0;
  if (platform_count > MOST_PLATFORMS) platform_count = MOST_PLATFORMS;
  for (cl_uint p = 0; error == CL_SUCCESS && p < platform_count; p++) {
    cl_device_id devices[MOST_DEVICES];
    cl_uint count = 0;
    if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &count) != CL_SUCCESS) continue;
    if (count > MOST_DEVICES) count = MOST_DEVICES;
    for (cl_uint i = 0; i < count; i++, seen++) {
      char name[TN__OPENCL_NAME];
      *platform = platforms[p];
      *device = devices[i];
      if (seen == number) {
        tn__strbuf_release(&there);
        return NULL;
      }
      (void)tn__opencl_text(cl, devices[i], CL_DEVICE_NAME, name, sizeof name);
      tn__strbuf_printf(&there, "%sopencl:%d (%s)", seen > 0 ? ", " : "", seen, name);
    }
  }
  tn_status *status =
      seen > 0
          ? tn_status_create(TN_NOT_FOUND,
                             "there is no opencl:%d; there is %s, which may take its place: --map opencl:%d=opencl:%d "
                             "(tn_load_options.device_map)",
                             number, tn__strbuf_text(&there), number, seen - 1)
          : tn_status_create(TN_NOT_FOUND,
                             "there is no opencl:%d: OpenCL knows no device on this machine; install the driver of "
                             "one (Debian: pocl-opencl-icd for the CPU)",
                             number);
  tn__strbuf_release(&there);
  return status;
}
