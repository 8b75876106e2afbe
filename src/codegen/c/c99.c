/* C99 for machines without LLVM: the row, and what its texts begin with. */
#include <string.h>

#include "codegen/c/emit.h"
#include "runtime/format/source_unit.h"

/* Compile-time checks of the arithmetic that the emitted text relies on: if a compiler reports an option that breaks
 * it, the text does not compile. clang defines macros for few of these options, so the pragmas below override the
 * others. The expression before them makes clang reject options that leave infinities or NaNs undefined. */
static const char assumptions[] =
    "#include <float.h>\n"
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "\n"
    "#if defined(__FAST_MATH__) || defined(_M_FP_FAST)\n"
    "#error \"cannot keep results right: -ffast-math or -Ofast changes arithmetic; add -fno-fast-math (MSVC: "
    "/fp:precise)\"\n"
    "#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0\n"
    "#error \"cannot keep results right: -ffinite-math-only excludes infinities and NaNs; add -fno-finite-math-only\"\n"
    "#elif defined(__ASSOCIATIVE_MATH__)\n"
    "#error \"cannot keep results right: sums may be reordered; add -fno-unsafe-math-optimizations "
    "-fno-associative-math\"\n"
    "#elif defined(__RECIPROCAL_MATH__)\n"
    "#error \"cannot keep results right: quotients may become products; add -fno-reciprocal-math\"\n"
    "#elif defined(__NO_SIGNED_ZEROS__)\n"
    "#error \"cannot keep results right: signs of zeros may be ignored; add -fsigned-zeros\"\n"
    "#endif\n"
    /* 16: only _Float16 has its own format. clang reports 0 on x86 with SSE but without SSE2. */
    "#if (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16) || \\\n"
    "    (defined(__clang__) && (defined(__i386__) || defined(__x86_64__)) && !defined(__SSE2_MATH__)) || \\\n"
    "    (defined(_M_IX86_FP) && _M_IX86_FP < 2)\n"
    "#error \"cannot keep results right: float or double is computed with more precision; on x86 add -msse2 "
    "-mfpmath=sse\"\n"
    "#endif\n"
    "#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 || DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024\n"
    "#error \"cannot keep results right: float and double are not the 32 and 64 bits of IEEE 754\"\n"
    "#endif\n"
    "typedef char tn_needs_int_of_32_bits[sizeof(int) == 4 ? 1 : -1];\n"
    "typedef char tn_needs_double_constants_without_fsingle_precision_constant[sizeof(1.0) == 8 ? 1 : -1];\n"
    "typedef char tn_needs_shifts_that_keep_signs[-3 >> 1 == -2 ? 1 : -1];\n"
    "typedef char tn_needs_conversions_that_wrap_around[(int32_t)0xfffffffeu == -2 ? 1 : -1];\n"
    "#if defined(__clang__)\n"
    "#pragma clang diagnostic ignored \"-Wunknown-warning-option\"\n"
    "#pragma clang diagnostic push\n"
    "#pragma clang diagnostic error \"-Wnan-infinity-disabled\"\n"
    "static inline __attribute__((unused)) int tn_needs_infinities_and_nans(double x) {\n"
    "  return __builtin_isnan(x) | __builtin_isinf(x); /* add -fhonor-nans -fhonor-infinities */\n"
    "}\n"
    "#pragma clang diagnostic pop\n"
    "#pragma clang diagnostic ignored \"-Wignored-pragmas\"\n"
    "#pragma clang diagnostic ignored \"-Wunknown-pragmas\"\n"
    "#pragma float_control(precise, on)\n"
    /* For compilers without float_control. */
    "#if __clang_major__ >= 19\n"
    "#pragma clang fp reassociate(off) reciprocal(off)\n"
    "#endif\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#pragma clang diagnostic ignored \"-Wbitwise-instead-of-logical\"\n"
    "#endif\n"
    "\n";

static const char head[] =
    "typedef int8_t tn_i8;\n"
    "typedef int16_t tn_i16;\n"
    "typedef int32_t tn_i32;\n"
    "typedef int64_t tn_i64;\n"
    "typedef uint8_t tn_u8;\n"
    "typedef uint16_t tn_u16;\n"
    "typedef uint32_t tn_u32;\n"
    "typedef uint64_t tn_u64;\n"
    "typedef float tn_f32;\n"
    "typedef double tn_f64;\n"
    "\n"
    "#if defined(__GNUC__)\n"
    "#define TN_FN static inline __attribute__((unused))\n"
    "#else\n"
    "#define TN_FN static inline\n"
    "#endif\n"
    "#define TN_TABLE static const\n"
    /* What may set errno calls the library for numbers below zero, whatever the pragma below says, which defines this
     * macro. */
    "#if defined(__GNUC__) && defined(__NO_MATH_ERRNO__)\n"
    "#define TN_SQRT(x) __builtin_sqrt(x)\n"
    "#define TN_SQRTF(x) __builtin_sqrtf(x)\n"
    "#elif defined(__GNUC__) && defined(__SSE2__)\n"
    "typedef double tn_sqrt_f64x2 __attribute__((vector_size(16)));\n"
    "typedef float tn_sqrt_f32x4 __attribute__((vector_size(16)));\n"
    "#define TN_SQRT(x) (__builtin_ia32_sqrtsd((tn_sqrt_f64x2){(x), 0})[0])\n"
    "#define TN_SQRTF(x) (__builtin_ia32_sqrtss((tn_sqrt_f32x4){(x), 0, 0, 0})[0])\n"
    "#elif defined(__GNUC__) && defined(__aarch64__)\n"
    "TN_FN double TN_SQRT(double x) {\n"
    "  __asm__(\"fsqrt %d0, %d0\" : \"+w\"(x));\n"
    "  return x;\n"
    "}\n"
    "TN_FN float TN_SQRTF(float x) {\n"
    "  __asm__(\"fsqrt %s0, %s0\" : \"+w\"(x));\n"
    "  return x;\n"
    "}\n"
    "#define TN_SQRT TN_SQRT\n"
    "#define TN_SQRTF TN_SQRTF\n"
    "#endif\n"
    "#if defined(__GNUC__) && !defined(__clang__)\n"
    "#pragma GCC optimize(\"no-math-errno\", \"no-trapping-math\", \"fp-contract=off\")\n"
    "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
    /* Loops that are unrolled before vectors are looked for are not made vectors. */
    "#if __GNUC__ >= 8\n"
    "#define TN_APART _Pragma(\"GCC ivdep\") _Pragma(\"GCC unroll 1\")\n"
    "#else\n"
    "#define TN_APART _Pragma(\"GCC ivdep\")\n"
    "#endif\n"
    "#endif\n"
    "#ifndef TN_APART\n"
    "#define TN_APART\n"
    "#endif\n"
    "#if defined(__GNUC__)\n"
    "#define TN_ALIGNED __attribute__((aligned(64)))\n"
    "#else\n"
    "#define TN_ALIGNED\n"
    "#endif\n"
    "#if defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)\n"
    "#define TN_FAST_FMA 1\n"
    "#endif\n"
    /* There clang calls the library's. */
    "#if defined(__clang__) && !defined(__NO_MATH_ERRNO__) && !defined(__gnu_linux__)\n"
    "#undef TN_FAST_FMA\n"
    "#endif\n"
    "#if defined(__GNUC__) && (defined(__SSE4_1__) || defined(__aarch64__))\n"
    "#define TN_ROUNDING 1\n"
    "#define TN_BUILTIN_f32(name, x) __builtin_##name##f(x)\n"
    "#define TN_BUILTIN_f64(name, x) __builtin_##name(x)\n"
    "#endif\n"
    "\n"
    "#ifndef TENON_KERNEL_ABI_H\n"
    "struct tn_kernel_env {\n"
    "  uint32_t version, size;\n"
    "  int32_t (*parallel_for)(const struct tn_kernel_env *env,\n"
    "                          int32_t (*task)(const struct tn_kernel_env *, void *, int64_t, int64_t), void "
    "*closure,\n"
    "                          int64_t count);\n"
    "  int32_t thread_count, cancel;\n"
    "  void *user;\n"
    "};\n"
    "#endif\n";

const tn__cc_dialect tn__cc_c99 = {.name = "c99"};

static const char memory[] =
    "\n"
    "#ifndef TN_MALLOC\n"
    "#include <stdlib.h>\n"
    "#define TN_MALLOC malloc\n"
    "#define TN_FREE free\n"
    "#endif\n";

static bool uses_memory(const char *text) { return strstr(text, "TN_MALLOC(") != NULL; }

tn__code tn__codegen_c99(tn__arena *arena, const tn__codegen_module *module) {
  tn__strbuf *body = tn__cc_text(arena), *out = tn__cc_text(arena);
  for (int i = 0; i < module->count; i++) {
    tn__cc cc = {.arena = arena, .ir = module->irs[i], .dialect = &tn__cc_c99, .func = module->funcs[i], .out = body};
    const tn__c_entry *entry = module->entries == NULL ? NULL : &module->entries[i];
    tn__cc_func(&cc, entry);
    if (entry != NULL) tn__cc_entry(&cc, entry);
  }
  const char *text = tn__arena_take(arena, body);
  tn__strbuf_printf(out, "/* Made by tenon %s. */\n%s%s", tn_version(), assumptions, head);
  if (uses_memory(text)) tn__strbuf_append(out, memory);
  return tn__cc_finish(arena, &tn__cc_c99, text, out);
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static tn__code compile(tn__arena *arena, const tn__codegen_module *module, tn__emit emit) {
  (void)emit;
  return tn__codegen_c99(arena, module);
}

/* Kernels are functions of the text, which are called: nothing is launched. */
static tn__source unit(tn__arena *arena, const tn__codegen_module *module) {
  const tn__launches *none = TN__NEW_ARRAY(arena, module->count, tn__launches);
  return tn__cc_unit_of(arena, TN__SOURCE_C99, module, tn__codegen_c99(arena, module), none);
}

const tn__backend tn__backend_c99 = {
    .kinds = 1u << TN__TARGET_C99,
    .emits = 1u << TN__EMIT_C99,
    .takes = tn__cc_takes,
    .lower = tn__ir_lower_for_codegen,
    .measure = tn__cc_measure,
    .compile = compile,
    .unit = unit,
};

const tn__backend tn__backend_c99_of_cpu = {
    .kinds = 1u << TN__TARGET_CPU,
    .emits = 1u << TN__EMIT_C99,
    .takes = tn__cc_takes,
    .lower = tn__ir_lower_for_codegen,
    .measure = tn__cc_measure,
    .compile = compile,
};
