/* OpenCL C: the row, and what its texts begin with. */
#include "codegen/c/emit.h"
#include "runtime/format/source_unit.h"

static const char head[] = "/* For compilers of OpenCL C 1.2, with " TN__SOURCE_OPENCL_OPTIONS
                           ". */\n"
                           "#pragma OPENCL FP_CONTRACT OFF\n"
                           "#ifdef cl_khr_fp64\n"
                           "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                           "#endif\n"
                           "typedef char tn_i8;\n"
                           "typedef short tn_i16;\n"
                           "typedef int tn_i32;\n"
                           "typedef long tn_i64;\n"
                           "typedef uchar tn_u8;\n"
                           "typedef ushort tn_u16;\n"
                           "typedef uint tn_u32;\n"
                           "typedef ulong tn_u64;\n"
                           "typedef float tn_f32;\n"
                           "typedef double tn_f64;\n"
                           "\n"
                           "#define TN_FN static inline\n"
                           "#define TN_TABLE __constant\n"
                           "#define TN_FAST_FMA 1\n"
                           "#define TN_APART\n"
                           "#define TN_GLOBAL __global\n"
                           "#define TN_RESTRICT restrict\n"
                           "#define TN_SHARED __local\n"
                           "#define TN_ALIGNED\n"
                           "#define TN_KERNEL(x, y, z) __kernel __attribute__((reqd_work_group_size(x, y, z))) void\n"
                           "#define TN_WAIT() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
                           "#define TN_THREAD_X ((tn_i32)get_local_id(0))\n"
                           "#define TN_THREAD_Y ((tn_i32)get_local_id(1))\n"
                           "#define TN_THREAD_Z ((tn_i32)get_local_id(2))\n"
                           "#define TN_BLOCK_X ((tn_i32)get_group_id(0))\n"
                           "#define TN_BLOCK_Y ((tn_i32)get_group_id(1))\n"
                           "#define TN_BLOCK_Z ((tn_i32)get_group_id(2))\n"
                           "#define TN_FAIL(code)    \\\n"
                           "  do {                   \\\n"
                           "    *tn_status = (code); \\\n"
                           "    return;              \\\n"
                           "  } while (0)\n";

const tn__cc_dialect tn__cc_opencl = {
    .name = "opencl", .launches = true, .offsets = true, .plain_long = true, .head = head};

tn__code tn__codegen_opencl(tn__arena *arena, const tn__codegen_module *module, tn__launches *launches) {
  return tn__cc_launched(arena, &tn__cc_opencl, module, launches);
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static tn__code compile(tn__arena *arena, const tn__codegen_module *module, tn__emit emit) {
  (void)emit;
  return tn__codegen_opencl(arena, module, NULL);
}

static tn__source make_unit(tn__arena *arena, const tn__codegen_module *module) {
  return tn__cc_unit(arena, &tn__cc_opencl, TN__SOURCE_OPENCL, module);
}

const tn__backend tn__backend_opencl = {
    .kinds = 1u << TN__TARGET_OPENCL,
    .emits = 1u << TN__EMIT_OPENCL,
    .takes = tn__cc_takes,
    .lower = tn__ir_lower_for_threads,
    .measure = tn__cc_measure,
    .compile = compile,
    .unit = make_unit,
};
