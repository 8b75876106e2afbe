/* CUDA C: the row, and what its texts begin with. */
#include "codegen/c/emit.h"
#include "runtime/format/source_unit.h"

static const char head[] =
    "/* For NVRTC or nvcc with --fmad=false. */\n"
    "#if (defined(__USE_FAST_MATH__) && __USE_FAST_MATH__) || (defined(__CUDA_FTZ) && __CUDA_FTZ) || \\\n"
    "    (defined(__CUDA_PREC_DIV) && !__CUDA_PREC_DIV) || (defined(__CUDA_PREC_SQRT) && !__CUDA_PREC_SQRT)\n"
    "#error \"cannot keep results right: --use_fast_math or a part of it changes arithmetic\"\n"
    "#endif\n"
    "typedef signed char tn_i8;\n"
    "typedef short tn_i16;\n"
    "typedef int tn_i32;\n"
    "typedef long long tn_i64;\n"
    "typedef unsigned char tn_u8;\n"
    "typedef unsigned short tn_u16;\n"
    "typedef unsigned int tn_u32;\n"
    "typedef unsigned long long tn_u64;\n"
    "typedef float tn_f32;\n"
    "typedef double tn_f64;\n"
    "\n"
    "#define TN_FN static __device__ __forceinline__\n"
    "#define TN_TABLE static __device__ const\n"
    "#define TN_FAST_FMA 1\n"
    "#define TN_APART\n"
    "#define TN_GLOBAL\n"
    "#define TN_RESTRICT __restrict__\n"
    "#define TN_SHARED __shared__ __align__(16)\n"
    "#define TN_KERNEL(x, y, z) extern \"C\" __global__ void __launch_bounds__((x) * (y) * (z))\n"
    "#define TN_WAIT __syncthreads\n"
    "#define TN_THREAD_X ((tn_i32)threadIdx.x)\n"
    "#define TN_THREAD_Y ((tn_i32)threadIdx.y)\n"
    "#define TN_THREAD_Z ((tn_i32)threadIdx.z)\n"
    "#define TN_BLOCK_X ((tn_i32)blockIdx.x)\n"
    "#define TN_BLOCK_Y ((tn_i32)blockIdx.y)\n"
    "#define TN_BLOCK_Z ((tn_i32)blockIdx.z)\n"
    "#define TN_FAIL(code)    \\\n"
    "  do {                   \\\n"
    "    *tn_status = (code); \\\n"
    "    return;              \\\n"
    "  } while (0)\n";

const tn__cc_dialect tn__cc_cuda = {.name = "cuda", .launches = true, .matrices = true, .head = head};

tn__code tn__codegen_cuda(tn__arena *arena, const tn__codegen_module *module, tn__launches *launches) {
  return tn__cc_launched(arena, &tn__cc_cuda, module, launches);
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static tn__code compile(tn__arena *arena, const tn__codegen_module *module, tn__emit emit) {
  (void)emit;
  return tn__codegen_cuda(arena, module, NULL);
}

static tn__source make_unit(tn__arena *arena, const tn__codegen_module *module) {
  return tn__cc_unit(arena, &tn__cc_cuda, TN__SOURCE_CUDA, module);
}

const tn__backend tn__backend_cuda = {
    .kinds = 1u << TN__TARGET_CUDA,
    .emits = 1u << TN__EMIT_CUDA,
    .takes = tn__cc_takes,
    .lower = tn__ir_lower_for_threads,
    .measure = tn__cc_measure,
    .compile = compile,
    .unit = make_unit,
};
