/* An OpenCL device for tests, by the loader alone: programs of source units, and their launches. */
#ifndef TENON_TESTS_OPENCL_DEVICE_H
#define TENON_TESTS_OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/format/source_unit.h"

#define CL_FUNCTIONS(f)                                                                                           \
  f(clGetPlatformIDs) f(clGetDeviceIDs) f(clGetDeviceInfo) f(clCreateContext) f(clCreateCommandQueue)             \
      f(clCreateProgramWithSource) f(clBuildProgram) f(clGetProgramBuildInfo) f(clCreateKernel) f(clSetKernelArg) \
          f(clEnqueueNDRangeKernel) f(clCreateBuffer) f(clEnqueueReadBuffer) f(clEnqueueWriteBuffer) f(clFinish)  \
              f(clReleaseKernel) f(clReleaseProgram) f(clReleaseMemObject) f(clReleaseCommandQueue)               \
                  f(clReleaseContext)

static struct {
#define MEMBER(name) __typeof__(&(name)) name;
  CL_FUNCTIONS(MEMBER)
#undef MEMBER
} cl;

typedef struct cl_test {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  char name[256];
} cl_test;

static inline void cl_check(cl_int result, const char *what) {
  if (result == CL_SUCCESS) return;
  printf("%s: OpenCL's error %d\n", what, (int)result);
  exit(1);
}

static inline void cl_find(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    printf("the loader has no %s\n", name);
    exit(1);
  }
  memcpy(place, &found, sizeof found);
}

/* NULL, or why there is none. */
static inline const char *cl_test_open(cl_test *t) {
  cl_platform_id platform;
  cl_int result;
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return "no OpenCL loader here (libOpenCL.so.1)";
#define FIND(name) cl_find(library, #name, (void *)&cl.name);
  CL_FUNCTIONS(FIND)
#undef FIND
  if (cl.clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS) return "no OpenCL platform here";
  if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &t->device, NULL) != CL_SUCCESS)
    return "no OpenCL device here";
  cl_check(cl.clGetDeviceInfo(t->device, CL_DEVICE_NAME, sizeof t->name, t->name, NULL), "device");
  t->context = cl.clCreateContext(NULL, 1, &t->device, NULL, NULL, &result);
  cl_check(result, "context");
  t->queue = cl.clCreateCommandQueue(t->context, t->device, 0, &result);
  cl_check(result, "queue");
  return NULL;
}

static inline void cl_test_close(cl_test *t) {
  cl_check(cl.clReleaseCommandQueue(t->queue), "queue");
  cl_check(cl.clReleaseContext(t->context), "context");
}

/* The unit's text, built; NULL: what the compiler says was printed. */
static inline cl_program cl_test_build(cl_test *t, const tn__source_unit *unit) {
  const char *text = (const char *)unit + unit->text;
  size_t size = unit->text_size, log_size = 0;
  cl_int result;
  cl_program program = cl.clCreateProgramWithSource(t->context, 1, &text, &size, &result);
  cl_check(result, "program");
  if (cl.clBuildProgram(program, 1, &t->device, TN__SOURCE_OPENCL_OPTIONS, NULL, NULL) == CL_SUCCESS) return program;
  cl_check(cl.clGetProgramBuildInfo(program, t->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &log_size), "log");
  char *log = calloc(1, log_size + 1);
  cl_check(cl.clGetProgramBuildInfo(program, t->device, CL_PROGRAM_BUILD_LOG, log_size, log, NULL), "log");
  printf("%s\n", log);
  free(log);
  cl.clReleaseProgram(program);
  return NULL;
}

static inline cl_mem cl_test_memory(cl_test *t, size_t size) {
  cl_int result;
  cl_mem memory = cl.clCreateBuffer(t->context, CL_MEM_READ_WRITE, size > 0 ? size : 1, NULL, &result);
  cl_check(result, "memory");
  return memory;
}

/* What a kernel is called with: buffers, and behind them the workspace, lie in one allocation. */
typedef struct cl_call {
  cl_mem memory, status;
  const int64_t *offsets, *scalars;
} cl_call;

static inline void cl_set_args(cl_kernel kernel, const tn__source_kernel *k, const cl_call *call) {
  cl_uint at = 0;
  for (uint32_t i = 0; i < k->buffer_count + k->has_workspace; i++) {
    cl_check(cl.clSetKernelArg(kernel, at++, sizeof(cl_mem), &call->memory), "a buffer");
    cl_check(cl.clSetKernelArg(kernel, at++, sizeof(int64_t), &call->offsets[i]), "an offset");
  }
  for (uint32_t i = 0; i < k->text_scalar_count; i++)
    cl_check(cl.clSetKernelArg(kernel, at++, sizeof(int64_t), &call->scalars[i]), "a scalar");
  cl_check(cl.clSetKernelArg(kernel, at, sizeof(cl_mem), &call->status), "the status");
}

enum { CL_MOST_LAUNCHES = 64 };

typedef struct cl_launches {
  cl_kernel kernels[CL_MOST_LAUNCHES];
  size_t global[CL_MOST_LAUNCHES][3], local[CL_MOST_LAUNCHES][3];
  int count;
} cl_launches;

/* The launches of a kernel for one call; those without blocks are left out. */
static inline void cl_prepare(const tn__source_unit *unit, const tn__source_kernel *k, cl_program program,
                              const cl_call *call, cl_launches *out) {
  const tn__source_launch *launches = (const void *)((const char *)unit + unit->launches);
  out->count = 0;
  for (uint32_t i = 0; i < k->launch_count; i++) {
    const tn__source_launch *l = &launches[k->first_launch + i];
    cl_int result;
    bool any = true;
    int at = out->count;
    for (int a = 0; a < 3; a++) {
      int64_t blocks = l->grid[a].symbolic ? call->scalars[l->grid[a].value] : l->grid[a].value;
      any = any && blocks > 0;
      out->local[at][a] = l->block[a];
      out->global[at][a] = (size_t)blocks * l->block[a];
    }
    if (!any) continue;
    if (at == CL_MOST_LAUNCHES) exit(2);
    out->kernels[at] = cl.clCreateKernel(program, (const char *)unit + l->name, &result);
    cl_check(result, (const char *)unit + l->name);
    cl_set_args(out->kernels[at], k, call);
    out->count++;
  }
}

static inline void cl_launch(cl_test *t, const cl_launches *l) {
  for (int i = 0; i < l->count; i++)
    cl_check(cl.clEnqueueNDRangeKernel(t->queue, l->kernels[i], 3, NULL, l->global[i], l->local[i], 0, NULL, NULL),
             "a launch");
}

static inline void cl_done(cl_launches *l) {
  for (int i = 0; i < l->count; i++) cl_check(cl.clReleaseKernel(l->kernels[i]), "kernel");
}

#endif
