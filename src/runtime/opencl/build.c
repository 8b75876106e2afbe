/* From OpenCL C to a program: by the device's compiler, or from what that made of the same text before. */
#include <stdlib.h>

#include "runtime/opencl/opencl.h"
#include "runtime/source/source.h"

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static tn_status *failed_build(const tn__device *device, const char *text, cl_program program, cl_int error) {
  const tn__opencl *o = device->state;
  size_t size = 0;
  char *log = NULL;
  if (error != CL_BUILD_PROGRAM_FAILURE) return tn__opencl_failed(device, error, "its kernels cannot be built");
  if (o->cl.clGetProgramBuildInfo(program, o->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS && size > 0)
    log = calloc(1, size + 1);
  if (log != NULL) (void)o->cl.clGetProgramBuildInfo(program, o->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  tn_status *status = tn__opencl_placed(device, tn__source_refused(text, log == NULL ? "nothing" : log));
  free(log);
  return status;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* A device that cannot round divisions correctly refuses to be told to, and does what it does. */
static const char *options_of(const tn__opencl *o) {
  return o->correctly_rounded ? TN__SOURCE_OPENCL_OPTIONS " -w" : "-cl-std=CL1.2 -w";
}

/* All that the device's compiler makes of a text depends on. */
static tn__digest key_of(const tn__opencl *o, const char *text, size_t size) {
  static const cl_device_info device_facts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
  static const cl_platform_info platform_facts[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
  char fact[1024];
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, "a program of OpenCL, 1");
  for (size_t i = 0; i < sizeof device_facts / sizeof device_facts[0]; i++) {
    if (o->cl.clGetDeviceInfo(o->device, device_facts[i], sizeof fact, fact, NULL) != CL_SUCCESS) fact[0] = '\0';
    tn__sha256_update_string(&h, fact);
  }
  for (size_t i = 0; i < sizeof platform_facts / sizeof platform_facts[0]; i++) {
    if (o->cl.clGetPlatformInfo(o->platform, platform_facts[i], sizeof fact, fact, NULL) != CL_SUCCESS) fact[0] = '\0';
    tn__sha256_update_string(&h, fact);
  }
  tn__sha256_update_string(&h, options_of(o));
  tn__sha256_update_u64(&h, size);
  tn__sha256_update(&h, text, size);
  return tn__sha256_final(&h);
}

/* From what was kept; NULL: there is nothing, or the driver does not take it back. */
static cl_program program_kept(const tn__opencl *o, const tn__digest *key) {
  void *binary;
  size_t size;
  if (!tn__source_kept(key, &binary, &size)) return NULL;
  const unsigned char *bytes = binary;
  cl_int taken = CL_SUCCESS, error;
  cl_program program = o->cl.clCreateProgramWithBinary(o->context, 1, &o->device, &size, &bytes, &taken, &error);
  free(binary);
  if (error != CL_SUCCESS) return NULL;
  if (taken == CL_SUCCESS && o->cl.clBuildProgram(program, 1, &o->device, options_of(o), NULL, NULL) == CL_SUCCESS)
    return program;
  o->cl.clReleaseProgram(program);
  return NULL;
}

static void keep_program(const tn__device *device, const tn__digest *key, cl_program program) {
  const tn__opencl *o = device->state;
  size_t size = 0;
  if (o->cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS || size == 0)
    return;
  unsigned char *binary = malloc(size);
  if (binary == NULL) return;
  if (o->cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
    tn__source_keep(device, key, binary, size);
  free(binary);
}

tn_status *tn__opencl_build(const tn__device *device, const char *text, size_t size, cl_program *out) {
  const tn__opencl *o = device->state;
  tn__digest key = key_of(o, text, size);
  cl_int error;
  *out = program_kept(o, &key);
  if (*out != NULL) return NULL;
  cl_program program = o->cl.clCreateProgramWithSource(o->context, 1, &text, &size, &error);
  if (error != CL_SUCCESS) return tn__opencl_failed(device, error, "its kernels cannot be built");
  error = o->cl.clBuildProgram(program, 1, &o->device, options_of(o), NULL, NULL);
  if (error != CL_SUCCESS) {
    tn_status *status = failed_build(device, text, program, error);
    o->cl.clReleaseProgram(program);
    return status;
  }
  keep_program(device, &key, program);
  *out = program;
  return NULL;
}
