/* OpenCL C: the row, and what its texts begin with. */
#include "codegen/c/emit.h"
#include "runtime/format/source_unit.h"

static const char head[] =
    "/* For compilers of OpenCL C 1.2, with " TN__SOURCE_OPENCL_OPTIONS
    ". */\n"
    "#if defined(__FAST_RELAXED_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)\n"
    "#error \"cannot keep results right: -cl-fast-relaxed-math or a part of it changes arithmetic\"\n"
    "#endif\n"
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

static const char vector_head[] =
    "#ifdef __clang__\n"
    "#define TN_LOAD(type, lanes, space, p) (*(space const type##_any *)(p))\n"
    "#define TN_STORE(type, lanes, space, p, v) (*(space type##_any *)(p) = (v))\n"
    "#define TN_CONVERT(v, type) __builtin_convertvector(v, type)\n"
    "#else\n"
    "#define TN_LOAD(type, lanes, space, p) vload##lanes(0, p)\n"
    "#define TN_STORE(type, lanes, space, p, v) vstore##lanes(v, 0, p)\n"
    "#define TN_CONVERT(v, type) tn_to_##type(v)\n"
    "#endif\n"
    "#if defined(__clang__) && defined(__F16C__)\n"
    "#define TN_HALVES 1\n"
    "typedef _Float16 tn_halfx2 __attribute__((ext_vector_type(2)));\n"
    "typedef _Float16 tn_halfx4 __attribute__((ext_vector_type(4)));\n"
    "typedef _Float16 tn_halfx8 __attribute__((ext_vector_type(8)));\n"
    "typedef _Float16 tn_halfx16 __attribute__((ext_vector_type(16)));\n"
    "#endif\n"
    "#define TN_LANES_2 ((long2)(0, 1))\n"
    "#define TN_LANES_4 ((long4)(0, 1, 2, 3))\n"
    "#define TN_LANES_8 ((long8)(0, 1, 2, 3, 4, 5, 6, 7))\n"
    "#define TN_LANES_16 ((long16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))\n";

/* Vectors of all types, also of those whose elements alone are aligned. */
static void append_vectors(tn__strbuf *out) {
  static const struct {
    const char *name, *type;
    int bytes;
  } types[] = {{"i8", "char", 1},   {"i16", "short", 2},  {"i32", "int", 4},  {"i64", "long", 8},
               {"u8", "uchar", 1},  {"u16", "ushort", 2}, {"u32", "uint", 4}, {"u64", "ulong", 8},
               {"f32", "float", 4}, {"f64", "double", 8}};
  tn__strbuf_append(out, vector_head);
  for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
    for (int lanes = 2; lanes <= 16; lanes *= 2) {
      const char *name = types[t].name, *type = types[t].type;
      tn__strbuf_printf(out,
                        "typedef %s%d tn_%sx%d;\ntypedef %s%d tn_%sx%d_any __attribute__((aligned(%d)));\n"
                        "#define tn_as_%sx%d as_%s%d\n#define tn_to_tn_%sx%d convert_%s%d\n",
                        type, lanes, name, lanes, type, lanes, name, lanes, types[t].bytes, name, lanes, type, lanes,
                        name, lanes, type, lanes);
    }
}

const tn__cc_dialect tn__cc_opencl = {.name = "opencl",
                                      .launches = true,
                                      .offsets = true,
                                      .plain_long = true,
                                      .head = head,
                                      .append_vectors = append_vectors};

tn__code tn__codegen_opencl(tn__arena *arena, const tn__codegen_module *module, tn__launches *launches) {
  return tn__cc_launched(arena, &tn__cc_opencl, module, launches);
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static tn__code compile(tn__arena *arena, const tn__codegen_module *module, tn__emit emit) {
  (void)emit;
  return tn__codegen_opencl(arena, module, NULL);
}

static bool see_bound(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR && tn__ir_loop_is_bound(s->as.loop.kind)) *(bool *)user = true;
  return !*(bool *)user;
}

/* Of a CPU there are no threads in a block, and loops are what they are for this compiler's own code. */
static tn__func *lower(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks) {
  bool bound = false;
  tn__stmt_walk(func->body, see_bound, &bound);
  if (bound) return tn__ir_lower_for_threads(ir, func, hooks);
  return tn__cc_settle_nests(ir, tn__ir_lower_for_codegen(ir, func, hooks));
}

static tn__source make_unit(tn__arena *arena, const tn__codegen_module *module) {
  return tn__cc_unit(arena, &tn__cc_opencl, TN__SOURCE_OPENCL, module);
}

const tn__backend tn__backend_opencl = {
    .kinds = 1u << TN__TARGET_OPENCL,
    .emits = 1u << TN__EMIT_OPENCL,
    .takes = tn__cc_takes,
    .lower = lower,
    .measure = tn__cc_measure,
    .compile = compile,
    .unit = make_unit,
};
