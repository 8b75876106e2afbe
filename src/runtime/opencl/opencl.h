/* Devices of OpenCL, the driver in the plug-in tenon-opencl.so. OpenCL itself, the loader libOpenCL.so.1 and the
 * platforms that it knows, is opened with the first device.
 *
 * Devices are numbered over all platforms, in the loader's order. A device that is open has a context of its own, and
 * each stream a queue in it, in order, so launches and copies take place in the order of calls.
 *
 * Memory. An allocation is a buffer object. Its address is a range of this process's address space, as long as the
 * allocation, that is reserved and has no access: addresses are unlike each other, parts of an allocation are at
 * offsets, and who reads or writes there without the driver gets a fault. Where kernels and copies take addresses, the
 * buffer object is found again, by bisection. Shared virtual memory is not needed. A device that is the CPU reads
 * constants where the host has them: such a block is a buffer object over the host's own pages, at their address.
 *
 * Code is a source unit in OpenCL C (runtime/format/source_unit.h), which the device's own compiler translates when it
 * is loaded. What that made is kept on disk, beside the compile cache: the key has the text, the device and versions.
 * As arguments are set in the kernels, streams launch one after the other.
 *
 * What is written against: version 1.2, which drivers offer that are much newer or older than others. */
#ifndef TENON_RUNTIME_OPENCL_OPENCL_H
#define TENON_RUNTIME_OPENCL_OPENCL_H

#include <CL/cl.h>

#include "base/hash.h"
#include "runtime/device.h"
#include "runtime/format/source_unit.h"

/* The functions of OpenCL that are used, found by name. */
#define TN__OPENCL_FUNCTIONS(F) \
  F(clGetPlatformIDs)           \
  F(clGetPlatformInfo)          \
  F(clGetDeviceIDs)             \
  F(clGetDeviceInfo)            \
  F(clCreateContext)            \
  F(clReleaseContext)           \
  F(clCreateCommandQueue)       \
  F(clReleaseCommandQueue)      \
  F(clFlush)                    \
  F(clFinish)                   \
  F(clCreateBuffer)             \
  F(clReleaseMemObject)         \
  F(clEnqueueReadBuffer)        \
  F(clEnqueueWriteBuffer)       \
  F(clEnqueueCopyBuffer)        \
  F(clCreateProgramWithSource)  \
  F(clCreateProgramWithBinary)  \
  F(clBuildProgram)             \
  F(clGetProgramInfo)           \
  F(clGetProgramBuildInfo)      \
  F(clReleaseProgram)           \
  F(clCreateKernel)             \
  F(clGetKernelInfo)            \
  F(clGetKernelWorkGroupInfo)   \
  F(clSetKernelArg)             \
  F(clEnqueueNDRangeKernel)     \
  F(clReleaseKernel)

typedef struct tn__opencl_api {
#define TN__OPENCL_MEMBER(name) __typeof__(name) *name;
  TN__OPENCL_FUNCTIONS(TN__OPENCL_MEMBER)
#undef TN__OPENCL_MEMBER
} tn__opencl_api;

typedef struct tn__opencl_block {
  char *address; /* with one page behind it, so that no two blocks touch */
  size_t bytes;
  cl_mem memory;
  bool borrowed; /* the address is the host's */
} tn__opencl_block;

enum { TN__OPENCL_NAME = 128 }; /* of names that are told; the rest of longer ones is left out */

/* An open device's `state`. */
typedef struct tn__opencl {
  tn__opencl_api cl;
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  char name[TN__OPENCL_NAME]; /* of the device, for messages */
  bool correctly_rounded;     /* it can divide f32 so */
  bool in_our_memory;         /* it is a CPU, and its memory the host's */
  tn__device_limits limits;
  size_t most_items[3];     /* of a work-group, along each axis */
  pthread_mutex_t mutex;    /* of what follows, which streams read while memory is allocated and freed */
  tn__opencl_block *blocks; /* in order of addresses */
  size_t count, capacity;
  size_t used; /* bytes of all */
} tn__opencl;

/* A stream's. */
typedef struct tn__opencl_stream {
  cl_command_queue queue;
  cl_mem status;  /* an i32: the first kernel's result that was none of TN_KERNEL_OK */
  bool unsettled; /* launched since the status was read */
} tn__opencl_stream;

/* What a device calls a failure: "opencl:0 (NAME): WHAT: CL_OUT_OF_RESOURCES (-5)". */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__opencl_failed(const tn__device *device, cl_int error, const char *what, ...)
    TN_PRINTF(3, 4);
/* An error of Tenon's or the program's own, with the device in front. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__opencl_refuse(const tn__device *device, tn_status_code code,
                                                       const char *format, ...) TN_PRINTF(3, 4);

/* The status with the device in front; NULL stays NULL. */
TN_MUST_USE tn_status *tn__opencl_placed(const tn__device *device, tn_status *status);

/* The functions of the loader. */
TN_MUST_USE tn_status *tn__opencl_load(tn__opencl_api *out);
/* A text about the device, of which what does not fit is left out; "?" where the device does not tell it. */
cl_int tn__opencl_text(const tn__opencl_api *cl, cl_device_id device, cl_device_info info, char *out, size_t size);
/* The platform and device with the number. NOT_FOUND lists those there are. */
TN_MUST_USE tn_status *tn__opencl_find(const tn__opencl_api *cl, int number, cl_platform_id *platform,
                                       cl_device_id *device);

/* ---- memory: what the table's functions do ----------------------------------------------------------------------- */

bool tn__opencl_holds(const tn__device *device, const void *address, size_t bytes);
tn_status *tn__opencl_allocate(tn__device *device, size_t bytes, void **out);
tn_status *tn__opencl_borrow(tn__device *device, const void *host, size_t bytes, void **out);
void tn__opencl_free(tn__device *device, void *memory, size_t bytes);
void *tn__opencl_view(const tn__device *device, void *memory, size_t offset);
tn_status *tn__opencl_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes);
/* The buffer object in which `bytes` bytes are at the address, and their offset there. */
TN_MUST_USE tn_status *tn__opencl_locate(const tn__device *device, const void *address, size_t bytes, cl_mem *memory,
                                         size_t *offset);
/* Releases what was not freed. */
void tn__opencl_release_blocks(tn__device *device);

/* ---- code -------------------------------------------------------------------------------------------------------- */

/* What is known of a launch's function. */
typedef struct tn__opencl_kernel {
  cl_kernel kernel;
  cl_uint arguments;
  size_t most_threads, shared_bytes;
} tn__opencl_kernel;

typedef struct tn__opencl_code {
  tn__source_unit *unit; /* a copy */
  cl_program program;
  tn__opencl_kernel *kernels; /* of each launch of the unit */
  pthread_mutex_t mutex;      /* from a kernel's first argument to its launch */
} tn__opencl_code;

tn_status *tn__opencl_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                tn__device_code *out);
void tn__opencl_unload_code(tn__device *device, tn__device_code *code);
tn_status *tn__opencl_launch(tn__stream *stream, const tn__device_launch *launch);

/* Translates the text, or takes what was made of it before. */
TN_MUST_USE tn_status *tn__opencl_build(const tn__device *device, const char *text, size_t size, cl_program *out);

#endif
