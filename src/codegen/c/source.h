/* Loop IR to source text of C's family, for compilers that are not here: one emitter, and a dialect for each language.
 *
 * Input is what tn__ir_lower_for_codegen() returns: no blocks, no unrolled loops. The rows that the driver sees are
 * tn__backend_c99 and its like (codegen/backend.h). */
#ifndef TENON_CODEGEN_C_SOURCE_H
#define TENON_CODEGEN_C_SOURCE_H

#include "codegen/backend.h"

/* C99 that needs nothing but <stdint.h>: kernels, or functions around them where the module has entries. */
tn__code tn__codegen_c99(tn__arena *arena, const tn__codegen_module *module);

/* One kernel of a text for GPUs: a nest of the function, or what stands between two. */
typedef struct tn__launch {
  const char *name;
  const tn__expr *grid[3]; /* blocks in x, y and z, over the function's scalars */
  int block[3];            /* threads of a block */
  int64_t shared_bytes;    /* that they share */
} tn__launch;

/* What a function became. Its kernels run one behind the other, and all take the same: the buffers (inputs, then
 * outputs), the workspace if there is one, the scalars as 64-bit integers, and a pointer to an i32, 0 before the first,
 * that is what kernels return (kernel_abi.h). */
typedef struct tn__launches {
  TN__VEC(tn__launch) items;
} tn__launches;

/* CUDA C for NVRTC or nvcc, which must not fuse products and sums (--fmad=false): the text does that where it is meant.
 * `launches`, one for each function, may be NULL: comments in the text say the same. */
tn__code tn__codegen_cuda(tn__arena *arena, const tn__codegen_module *module, tn__launches *launches);

/* OpenCL C 1.2, for compilers with TN__SOURCE_OPENCL_OPTIONS (runtime/format/source_unit.h). */
tn__code tn__codegen_opencl(tn__arena *arena, const tn__codegen_module *module, tn__launches *launches);

#endif
