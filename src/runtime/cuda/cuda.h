/* Devices of NVIDIA, the driver in the plug-in tenon-cuda.so, through CUDA's driver, libcuda.so.1, which is opened with
 * the first device, and its run-time compiler, libnvrtc, which is opened with the first program. Building needs nothing
 * of NVIDIA's: what is used of the two interfaces, which are stable, is declared here.
 *
 * Devices have the driver's numbers. An open one has the device's primary context, which all users of it in a process
 * share, and each of its streams one of CUDA's, in order, so launches and copies take place in the order of calls. As
 * contexts belong to threads, each function enters the device's and leaves it.
 *
 * Memory is the device's, at its own addresses, which the host cannot read; or, in the scope host-pinned, the host's,
 * which the driver keeps in its place and kernels read over the link. Under unified addressing, which all 64-bit
 * processes have, one address is that of both, so copies between it and the host are the host's own. Code is a source
 * unit in CUDA C, which is compiled for the device's architecture or, where the compiler is too old for that, for the
 * latest that it knows, as PTX, from which the driver goes on. What was made is kept on disk. */
#ifndef TENON_RUNTIME_CUDA_CUDA_H
#define TENON_RUNTIME_CUDA_CUDA_H

#include <stdatomic.h>

#include "runtime/device.h"
#include "runtime/format/source_unit.h"

typedef int tn__cuda_result; /* CUresult: 0 is success */
typedef int tn__cuda_device; /* CUdevice */
typedef uint64_t tn__cuda_address;
typedef void *tn__cuda_handle; /* CUcontext, CUstream, CUmodule, CUfunction */

/* F(name, parameters) of libcuda.so.1, with the versions that functions have there. All return a result. */
#define TN__CUDA_FUNCTIONS(F)                                                                                          \
  F(cuInit, (unsigned flags))                                                                                          \
  F(cuDriverGetVersion, (int *version))                                                                                \
  F(cuDeviceGetCount, (int *count))                                                                                    \
  F(cuDeviceGet, (tn__cuda_device * device, int ordinal))                                                              \
  F(cuDeviceGetName, (char *name, int size, tn__cuda_device device))                                                   \
  F(cuDeviceTotalMem_v2, (size_t *bytes, tn__cuda_device device))                                                      \
  F(cuDeviceGetAttribute, (int *value, int attribute, tn__cuda_device device))                                         \
  F(cuDevicePrimaryCtxRetain, (tn__cuda_handle * context, tn__cuda_device device))                                     \
  F(cuDevicePrimaryCtxRelease_v2, (tn__cuda_device device))                                                            \
  F(cuCtxPushCurrent_v2, (tn__cuda_handle context))                                                                    \
  F(cuCtxPopCurrent_v2, (tn__cuda_handle * context))                                                                   \
  F(cuStreamCreate, (tn__cuda_handle * stream, unsigned flags))                                                        \
  F(cuStreamDestroy_v2, (tn__cuda_handle stream))                                                                      \
  F(cuStreamSynchronize, (tn__cuda_handle stream))                                                                     \
  F(cuMemAlloc_v2, (tn__cuda_address * address, size_t bytes))                                                         \
  F(cuMemFree_v2, (tn__cuda_address address))                                                                          \
  F(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                                    \
  F(cuMemFreeHost, (void *address))                                                                                    \
  F(cuPointerGetAttribute, (void *value, int attribute, tn__cuda_address address))                                     \
  F(cuMemcpyAsync, (tn__cuda_address to, tn__cuda_address from, size_t bytes, tn__cuda_handle stream))                 \
  F(cuMemcpyHtoDAsync_v2, (tn__cuda_address to, const void *from, size_t bytes, tn__cuda_handle stream))               \
  F(cuMemcpyDtoHAsync_v2, (void *to, tn__cuda_address from, size_t bytes, tn__cuda_handle stream))                     \
  F(cuMemcpyDtoDAsync_v2, (tn__cuda_address to, tn__cuda_address from, size_t bytes, tn__cuda_handle stream))          \
  F(cuMemsetD32Async, (tn__cuda_address to, unsigned value, size_t count, tn__cuda_handle stream))                     \
  F(cuModuleLoadDataEx, (tn__cuda_handle * module, const void *image, unsigned count, int *options, void **values))    \
  F(cuModuleUnload, (tn__cuda_handle module))                                                                          \
  F(cuModuleGetFunction, (tn__cuda_handle * function, tn__cuda_handle module, const char *name))                       \
  F(cuFuncGetAttribute, (int *value, int attribute, tn__cuda_handle function))                                         \
  F(cuLaunchKernel, (tn__cuda_handle function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, \
                     unsigned block_z, unsigned shared, tn__cuda_handle stream, void **parameters, void **extra))      \
  F(cuGetErrorName, (tn__cuda_result result, const char **name))

typedef struct tn__cuda_api {
#define TN__CUDA_MEMBER(name, parameters) tn__cuda_result(*name) parameters;
  TN__CUDA_FUNCTIONS(TN__CUDA_MEMBER)
#undef TN__CUDA_MEMBER
} tn__cuda_api;

enum { TN__CUDA_NAME = 128 };

/* An open device's `state`. */
typedef struct tn__cuda {
  tn__cuda_api cu;
  tn__cuda_device device;
  tn__cuda_handle context;
  char name[TN__CUDA_NAME]; /* of the device, for messages */
  int architecture;         /* 90 is sm_90 */
  int driver_version;       /* 12040 is CUDA 12.4 */
  tn__device_limits limits;
  size_t along[3], blocks[3]; /* threads of a block and blocks of a grid, along each axis */
  bool unified;               /* the host's memory has one address for both */
  size_t host_bytes;          /* memory of this machine */
  atomic_size_t pinned;       /* allocations of it that there are */
} tn__cuda;

/* A stream's. */
typedef struct tn__cuda_stream {
  tn__cuda_handle stream;
  tn__cuda_address status; /* an i32: the first kernel's result that was none of TN_KERNEL_OK */
  bool unsettled;          /* launched since the status was read */
} tn__cuda_stream;

/* What the driver calls a failure, with the device in front. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__cuda_failed(const tn__device *device, tn__cuda_result result, const char *what,
                                                     ...) TN_PRINTF(3, 4);
/* The status with the device in front; NULL stays NULL. */
TN_MUST_USE tn_status *tn__cuda_placed(const tn__device *device, tn_status *status);

/* The functions of libcuda.so.1. */
TN_MUST_USE tn_status *tn__cuda_load(tn__cuda_api *out);
/* The device with the number. NOT_FOUND lists those there are. */
TN_MUST_USE tn_status *tn__cuda_find(const tn__cuda_api *cu, int number, tn__cuda_device *out);

/* Makes the device's context this thread's, and the one before again. */
TN_MUST_USE tn_status *tn__cuda_enter(const tn__device *device);
void tn__cuda_leave(const tn__device *device);

/* ---- code -------------------------------------------------------------------------------------------------------- */

typedef struct tn__cuda_kernel {
  tn__cuda_handle function;
  int most_threads, shared_bytes;
} tn__cuda_kernel;

typedef struct tn__cuda_code {
  tn__source_unit *unit; /* a copy */
  tn__cuda_handle module;
  tn__cuda_kernel *kernels; /* of each launch of the unit */
  pthread_mutex_t mutex;    /* of what follows: streams launch one after the other */
  int64_t *values;          /* the arguments of a launch: most_values of them */
  void **parameters;        /* where they are */
  size_t most_values;
} tn__cuda_code;

tn_status *tn__cuda_load_code(tn__device *device, const void *bytes, size_t size, bool in_place, tn__device_code *out);
void tn__cuda_unload_code(tn__device *device, tn__device_code *code);
tn_status *tn__cuda_launch(tn__stream *stream, const tn__device_launch *launch);

/* Compiles the text for the device, or takes what was made of it before: an image that the driver loads. `*out` is for
 * free(). */
TN_MUST_USE tn_status *tn__cuda_compile(const tn__device *device, const char *text, void **out);

#endif
