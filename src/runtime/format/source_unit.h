/* Source units: the code of devices whose drivers compile it, as text with a table of what is in it. A code generator
 * writes one for each device of an executable, the device's driver reads it in `load_code`, and kernels are known by
 * the offset of their record, as those of native code are by the offset of their first instruction.
 *
 * All integers little-endian, all offsets from the start of the unit, records at multiples of 8. Whether a unit that
 * comes from a file can be read without looking again says `tn__source_unit_check`, which drivers call first.
 *
 * A kernel is one or several launches, one behind the other. Each is a function of the text with the same parameters:
 * the buffers, the workspace where there is one, the text's scalars as 64-bit integers, and a pointer to an i32 of the
 * device, which is what kernels return (kernel_abi.h) and TN_KERNEL_OK before the first. Launches behind one that ended
 * with another result do nothing. How a buffer or the workspace is handed over is the language's: OpenCL C has a
 * __global pointer to an allocation and a 64-bit offset in bytes for each, CUDA C a pointer. The status is one pointer
 * in both.
 *
 * Compilers must neither fuse products and sums nor divide f32 other than IEEE 754 says: for OpenCL C that is
 * TN__SOURCE_OPENCL_OPTIONS, of NVRTC TN__SOURCE_CUDA_OPTIONS. */
#ifndef TENON_RUNTIME_FORMAT_SOURCE_UNIT_H
#define TENON_RUNTIME_FORMAT_SOURCE_UNIT_H

#include <stddef.h>
#include <stdint.h>

#include "tenon/base.h"

#define TN__SOURCE_MAGIC "TNSRC1\r\n"

#define TN__SOURCE_OPENCL_OPTIONS "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
#define TN__SOURCE_CUDA_OPTIONS "--fmad=false"

typedef enum tn__source_language {
  TN__SOURCE_OPENCL = 1,
  TN__SOURCE_CUDA = 2,
  TN__SOURCE_C99 = 3 /* of the CPU: kernels are functions (kernel_abi.h) of their names, and there is no launch */
} tn__source_language;

typedef struct tn__source_unit {
  char magic[8];
  uint32_t language; /* tn__source_language */
  uint32_t kernel_count;
  uint32_t launch_count; /* of all kernels: each has its own */
  uint32_t reserved;
  uint64_t kernels;         /* tn__source_kernel */
  uint64_t launches;        /* tn__source_launch */
  uint64_t names;           /* NUL-terminated, one behind the other, up to the text */
  uint64_t text, text_size; /* without the NUL behind it */
} tn__source_unit;

typedef struct tn__source_kernel {
  uint32_t first_launch, launch_count;
  uint32_t buffer_count;      /* without the workspace */
  uint32_t has_workspace;     /* 1: whoever launches gives one buffer more */
  uint32_t text_scalar_count; /* that the text's functions take */
  uint32_t scalar_count;      /* that whoever launches gives: those, and behind them extents of grids */
} tn__source_kernel;

/* Blocks of a grid along one axis. */
typedef struct tn__source_extent {
  uint32_t symbolic; /* 1: `value` is the number of a scalar, of scalar_count */
  uint32_t reserved;
  int64_t value;
} tn__source_extent;

typedef struct tn__source_launch {
  uint64_t name;             /* offset */
  uint32_t block[3];         /* threads, or work-items, of a block in x, y and z; 1 at least */
  uint32_t shared_bytes;     /* that a block's threads share; what the text declares */
  tn__source_extent grid[3]; /* an extent of 0: nothing is launched */
} tn__source_launch;

/* INVALID_ARGUMENT says what is wrong; `size` is all that may be read. */
TN_MUST_USE tn_status *tn__source_unit_check(const void *unit, size_t size);

/* The record at the offset of a kernel; NULL: there is none. The unit was checked. */
const tn__source_kernel *tn__source_unit_kernel(const tn__source_unit *unit, uint64_t offset);

#endif
