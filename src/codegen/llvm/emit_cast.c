/* Conversions, and the 16-bit floats, which are computed as f32 and rounded after each operation. */
#include <float.h>
#include <math.h>

#include "codegen/llvm/emit.h"

static LLVMTypeRef type_as(LLVMValueRef v, LLVMTypeRef element) { return tn__cg_like(LLVMTypeOf(v), element); }

static LLVMValueRef as(tn__cg *cg, LLVMValueRef v, LLVMTypeRef element) {
  return LLVMBuildBitCast(cg->builder, v, type_as(v, element), "");
}

/* ---- bf16: the upper half of an f32 ------------------------------------------------------------------------------ */

/* Bits of an f32 (i32) rounded to even at bit 16, still as i32 with the lower half zero; a NaN becomes quiet. */
static LLVMValueRef bf16_round_bits(tn__cg *cg, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef bits = as(cg, v, cg->i32);
  LLVMTypeRef type = LLVMTypeOf(bits);
  LLVMValueRef odd = LLVMBuildAnd(at, LLVMBuildLShr(at, bits, tn__cg_int(type, 16), ""), tn__cg_int(type, 1), "");
  LLVMValueRef up = LLVMBuildAdd(at, LLVMBuildAdd(at, bits, tn__cg_int(type, 0x7fff), ""), odd, "");
  LLVMValueRef quiet = LLVMBuildOr(at, bits, tn__cg_int(type, 0x400000), "");
  LLVMValueRef is_nan = LLVMBuildFCmp(at, LLVMRealUNO, v, v, "");
  LLVMValueRef chosen = LLVMBuildSelect(at, is_nan, quiet, up, "");
  return LLVMBuildAnd(at, chosen, tn__cg_int(type, 0xffff0000), "");
}

static LLVMValueRef bf16_load(tn__cg *cg, LLVMValueRef v) {
  LLVMTypeRef type = type_as(v, cg->i32);
  LLVMValueRef wide = LLVMBuildZExt(cg->builder, v, type, "");
  return as(cg, LLVMBuildShl(cg->builder, wide, tn__cg_int(type, 16), ""), cg->f32);
}

static LLVMValueRef bf16_store(tn__cg *cg, LLVMValueRef v) {
  LLVMValueRef bits = as(cg, v, cg->i32);
  LLVMValueRef upper = LLVMBuildLShr(cg->builder, bits, tn__cg_int(LLVMTypeOf(bits), 16), "");
  return LLVMBuildTrunc(cg->builder, upper, type_as(v, cg->i16), "");
}

/* ---- f16 --------------------------------------------------------------------------------------------------------- */

/* f32 rounded to f16 precision and range, by float arithmetic alone: adding and subtracting a power of two rounds at
 * the wanted bit. */
static LLVMValueRef f16_round_portable(tn__cg *cg, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = LLVMTypeOf(v), itype = type_as(v, cg->i32);
  LLVMValueRef bits = as(cg, v, cg->i32);
  LLVMValueRef sign = LLVMBuildAnd(at, bits, tn__cg_int(itype, (int64_t)0x80000000), "");
  LLVMValueRef magnitude_bits = LLVMBuildAnd(at, bits, tn__cg_int(itype, 0x7fffffff), "");
  LLVMValueRef magnitude = as(cg, magnitude_bits, cg->f32);
  /* The spacing of f16 at 2^e is 2^(e-10), of subnormals 2^-24; 1.5 * 2^23 times that is the number to add. */
  LLVMValueRef exponent = LLVMBuildAnd(at, magnitude_bits, tn__cg_int(itype, 0x7f800000), "");
  exponent = tn__cg_intrinsic2(cg, "llvm.umax", exponent, tn__cg_int(itype, (127 - 14) << 23));
  exponent = tn__cg_intrinsic2(cg, "llvm.umin", exponent, tn__cg_int(itype, (127 + 16) << 23));
  LLVMValueRef adder = LLVMBuildAdd(at, exponent, tn__cg_int(itype, (13 << 23) | 0x400000), "");
  adder = as(cg, adder, cg->f32);
  LLVMValueRef rounded = LLVMBuildFSub(at, LLVMBuildFAdd(at, magnitude, adder, ""), adder, "");
  LLVMValueRef too_big = LLVMBuildFCmp(at, LLVMRealOGE, rounded, tn__cg_float(type, 65536.0), "");
  rounded = LLVMBuildSelect(at, too_big, tn__cg_float(type, INFINITY), rounded, "");
  LLVMValueRef is_nan = LLVMBuildFCmp(at, LLVMRealUNO, v, v, "");
  rounded = LLVMBuildSelect(at, is_nan, magnitude, rounded, "");
  return as(cg, LLVMBuildOr(at, as(cg, rounded, cg->i32), sign, ""), cg->f32);
}

/* Bits of an f16 from an f32 that is exactly one. */
static LLVMValueRef f16_store_portable(tn__cg *cg, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef itype = type_as(v, cg->i32);
  LLVMValueRef bits = as(cg, v, cg->i32);
  LLVMValueRef sign =
      LLVMBuildAnd(at, LLVMBuildLShr(at, bits, tn__cg_int(itype, 16), ""), tn__cg_int(itype, 0x8000), "");
  LLVMValueRef magnitude = LLVMBuildAnd(at, bits, tn__cg_int(itype, 0x7fffffff), "");
  LLVMValueRef normal =
      LLVMBuildSub(at, LLVMBuildLShr(at, magnitude, tn__cg_int(itype, 13), ""), tn__cg_int(itype, 112 << 10), "");
  /* Subnormal: value * 2^24 as an integer, read off the sum with 2^23. */
  LLVMValueRef value = as(cg, magnitude, cg->f32);
  LLVMTypeRef type = LLVMTypeOf(v);
  LLVMValueRef sum = LLVMBuildFAdd(at, value, tn__cg_float(type, 0.5), ""); /* ulp(0.5) is 2^-24 */
  LLVMValueRef subnormal = LLVMBuildSub(at, as(cg, sum, cg->i32), tn__cg_int(itype, 126 << 23), "");
  LLVMValueRef is_small = LLVMBuildICmp(at, LLVMIntULT, magnitude, tn__cg_int(itype, 113 << 23), "");
  LLVMValueRef is_big = LLVMBuildICmp(at, LLVMIntUGE, magnitude, tn__cg_int(itype, 255 << 23), "");
  LLVMValueRef payload =
      LLVMBuildAnd(at, LLVMBuildLShr(at, magnitude, tn__cg_int(itype, 13), ""), tn__cg_int(itype, 0x3ff), "");
  LLVMValueRef is_nan = LLVMBuildFCmp(at, LLVMRealUNO, v, v, "");
  LLVMValueRef quiet = LLVMBuildSelect(at, is_nan, tn__cg_int(itype, 0x200), tn__cg_int(itype, 0), "");
  LLVMValueRef special = LLVMBuildOr(at, LLVMBuildOr(at, payload, quiet, ""), tn__cg_int(itype, 0x7c00), "");
  LLVMValueRef result = LLVMBuildSelect(at, is_small, subnormal, LLVMBuildSelect(at, is_big, special, normal, ""), "");
  return LLVMBuildTrunc(at, LLVMBuildOr(at, result, sign, ""), type_as(v, cg->i16), "");
}

static LLVMValueRef f16_load_portable(tn__cg *cg, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef itype = type_as(v, cg->i32), type = type_as(v, cg->f32);
  LLVMValueRef bits = LLVMBuildZExt(at, v, itype, "");
  LLVMValueRef sign =
      LLVMBuildShl(at, LLVMBuildAnd(at, bits, tn__cg_int(itype, 0x8000), ""), tn__cg_int(itype, 16), "");
  LLVMValueRef magnitude =
      LLVMBuildShl(at, LLVMBuildAnd(at, bits, tn__cg_int(itype, 0x7fff), ""), tn__cg_int(itype, 13), "");
  LLVMValueRef normal = LLVMBuildAdd(at, magnitude, tn__cg_int(itype, 112 << 23), "");
  LLVMValueRef special = LLVMBuildAdd(at, magnitude, tn__cg_int(itype, 224 << 23), "");
  /* Subnormal: put it behind the bits of 2^-14 and take that away again. */
  LLVMValueRef with_one = LLVMBuildOr(at, magnitude, tn__cg_int(itype, 113 << 23), "");
  LLVMValueRef subnormal = LLVMBuildFSub(at, as(cg, with_one, cg->f32), tn__cg_float(type, 0x1p-14), "");
  LLVMValueRef is_small = LLVMBuildICmp(at, LLVMIntULT, magnitude, tn__cg_int(itype, 1 << 23), "");
  LLVMValueRef is_big = LLVMBuildICmp(at, LLVMIntUGE, magnitude, tn__cg_int(itype, 31 << 23), "");
  LLVMValueRef result = LLVMBuildSelect(at, is_big, special, normal, "");
  result = LLVMBuildSelect(at, is_small, as(cg, subnormal, cg->i32), result, "");
  return as(cg, LLVMBuildOr(at, result, sign, ""), cg->f32);
}

static LLVMValueRef f16_narrow(tn__cg *cg, LLVMValueRef v) {
  return as(cg, LLVMBuildFPTrunc(cg->builder, v, type_as(v, cg->f16), ""), cg->i16);
}

static LLVMValueRef f16_widen(tn__cg *cg, LLVMValueRef v) {
  return LLVMBuildFPExt(cg->builder, as(cg, v, cg->f16), type_as(v, cg->f32), "");
}

LLVMValueRef tn__cg_round_to(tn__cg *cg, tn_dtype dtype, LLVMValueRef v) {
  if (dtype == TN_BF16) return as(cg, bf16_round_bits(cg, v), cg->f32);
  if (dtype != TN_F16) return v;
  return cg->has_f16c ? f16_widen(cg, f16_narrow(cg, v)) : f16_round_portable(cg, v);
}

LLVMValueRef tn__cg_from_memory(tn__cg *cg, tn_dtype dtype, LLVMValueRef v) {
  switch (dtype) {
    case TN_BOOL: return LLVMBuildICmp(cg->builder, LLVMIntNE, v, tn__cg_int(LLVMTypeOf(v), 0), "");
    case TN_BF16: return bf16_load(cg, v);
    case TN_F16: return cg->has_f16c ? f16_widen(cg, v) : f16_load_portable(cg, v);
    default: return v;
  }
}

LLVMValueRef tn__cg_to_memory(tn__cg *cg, tn_dtype dtype, LLVMValueRef v) {
  switch (dtype) {
    case TN_BOOL: return LLVMBuildZExt(cg->builder, v, type_as(v, cg->i8), "");
    case TN_BF16: return bf16_store(cg, v);
    case TN_F16: return cg->has_f16c ? f16_narrow(cg, v) : f16_store_portable(cg, v);
    default: return v;
  }
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

/* f64 to f32 by rounding to odd: a second rounding to 11 or fewer bits then gives what one rounding would have given
 * (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). */
static LLVMValueRef f64_to_f32_odd(tn__cg *cg, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef narrow = LLVMBuildFPTrunc(at, v, type_as(v, cg->f32), "");
  LLVMValueRef back = LLVMBuildFPExt(at, narrow, LLVMTypeOf(v), "");
  LLVMValueRef bits = as(cg, narrow, cg->i32);
  LLVMTypeRef itype = LLVMTypeOf(bits);
  LLVMValueRef size = tn__cg_intrinsic1(cg, "llvm.fabs", v), back_size = tn__cg_intrinsic1(cg, "llvm.fabs", back);
  LLVMValueRef over = LLVMBuildFCmp(at, LLVMRealOGT, back_size, size, "");
  LLVMValueRef inexact = LLVMBuildFCmp(at, LLVMRealONE, back, v, "");
  bits = LLVMBuildAdd(at, bits, LLVMBuildSExt(at, over, itype, ""), "");
  bits = LLVMBuildOr(at, bits, LLVMBuildZExt(at, inexact, itype, ""), "");
  return as(cg, bits, cg->f32);
}

static LLVMValueRef float_to_float(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v) {
  if (to == TN_F64) return LLVMBuildFPExt(cg->builder, v, type_as(v, cg->f64), "");
  if (from == TN_F64)
    v = to == TN_F32 ? LLVMBuildFPTrunc(cg->builder, v, type_as(v, cg->f32), "") : f64_to_f32_odd(cg, v);
  return tn__cg_round_to(cg, to, v);
}

static LLVMValueRef clamp(tn__cg *cg, LLVMValueRef v, LLVMRealPredicate inside, double limit) {
  LLVMValueRef bound = tn__cg_float(LLVMTypeOf(v), limit);
  return LLVMBuildSelect(cg->builder, LLVMBuildFCmp(cg->builder, inside, v, bound, ""), v, bound, "");
}

/* LLVM's saturating conversions take vectors apart. Here the value is brought into the range first: to the greatest
 * float below the limit where the greatest integer is none, and what lay beyond is told by a comparison. */
static LLVMValueRef float_vector_to_int(tn__cg *cg, tn_dtype to, LLVMValueRef v, bool in_range) {
  LLVMBuilderRef at = cg->builder;
  int bits = tn__dtype_bits(to), precision = tn__cg_element(LLVMTypeOf(v)) == cg->f64 ? DBL_MANT_DIG : FLT_MANT_DIG;
  bool is_signed = tn__dtype_is_signed(to);
  int magnitude = is_signed ? bits - 1 : bits, spare = magnitude > precision ? magnitude - precision : 0;
  double beyond = ldexp(1, magnitude), greatest = beyond - ldexp(1, spare);
  LLVMTypeRef type = type_as(v, tn__cg_value_type(cg, to)), wide = bits < 32 ? type_as(v, cg->i32) : type;
  LLVMValueRef inside = v;
  if (!in_range) {
    inside = clamp(cg, v, LLVMRealOGT, is_signed ? -beyond : 0); /* NaN is not greater either */
    inside = clamp(cg, inside, LLVMRealOLT, greatest);
  }
  bool plain = is_signed || bits < 32;
  LLVMValueRef i = plain ? LLVMBuildFPToSI(at, inside, wide, "") : LLVMBuildFPToUI(at, inside, wide, "");
  if (spare > 0) {
    int64_t most = is_signed ? (int64_t)(UINT64_MAX >> (64 - magnitude)) : -1;
    LLVMValueRef above = LLVMBuildFCmp(at, LLVMRealOGE, v, tn__cg_float(LLVMTypeOf(v), beyond), "");
    i = LLVMBuildSelect(at, above, tn__cg_int(wide, most), i, "");
  }
  i = LLVMBuildSelect(at, LLVMBuildFCmp(at, LLVMRealUNO, v, v, ""), tn__cg_int(wide, 0), i, "");
  return wide == type ? i : LLVMBuildTrunc(at, i, type, "");
}

static LLVMValueRef float_to_int(tn__cg *cg, tn_dtype to, LLVMValueRef v, bool in_range) {
  if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind) return float_vector_to_int(cg, to, v, in_range);
  LLVMTypeRef types[] = {type_as(v, tn__cg_value_type(cg, to)), LLVMTypeOf(v)};
  return tn__cg_intrinsic(cg, tn__dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &v, 1);
}

/* One rounding: 64-bit integers go to the 16-bit floats through an odd-rounded 54-bit prefix, the others are exact in
 * f64. */
static LLVMValueRef int_to_float(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v) {
  LLVMBuilderRef at = cg->builder;
  bool is_signed = tn__dtype_is_signed(from);
  bool direct = to == TN_F32 || to == TN_F64;
  if (!direct && tn__dtype_bits(from) == 64) {
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef low = LLVMBuildAnd(at, v, tn__cg_int(type, 0xfff), "");
    LLVMValueRef sticky = LLVMBuildICmp(at, LLVMIntNE, low, tn__cg_int(type, 0), "");
    LLVMValueRef big = LLVMBuildAnd(at, v, tn__cg_int(type, ~INT64_C(0xfff)), "");
    big = LLVMBuildOr(at, big, LLVMBuildShl(at, LLVMBuildZExt(at, sticky, type, ""), tn__cg_int(type, 11), ""), "");
    LLVMValueRef top = LLVMBuildAShr(at, v, tn__cg_int(type, 52), "");
    LLVMValueRef fits =
        LLVMBuildICmp(at, LLVMIntULE, LLVMBuildAdd(at, top, tn__cg_int(type, 1), ""), tn__cg_int(type, 1), "");
    v = LLVMBuildSelect(at, fits, v, big, "");
  }
  LLVMTypeRef wanted = type_as(v, to == TN_F32 ? cg->f32 : cg->f64);
  if (!direct && tn__dtype_bits(from) <= 16) wanted = type_as(v, cg->f32);
  LLVMValueRef f = is_signed ? LLVMBuildSIToFP(at, v, wanted, "") : LLVMBuildUIToFP(at, v, wanted, "");
  if (direct) return f;
  return tn__cg_round_to(cg, to, tn__cg_element(wanted) == cg->f64 ? f64_to_f32_odd(cg, f) : f);
}

static LLVMValueRef int_to_int(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v) {
  LLVMTypeRef type = type_as(v, tn__cg_value_type(cg, to));
  int have = tn__dtype_bits(from), want = tn__dtype_bits(to);
  if (have == want) return v;
  if (want < have) return LLVMBuildTrunc(cg->builder, v, type, "");
  return tn__dtype_is_signed(from) ? LLVMBuildSExt(cg->builder, v, type, "") : LLVMBuildZExt(cg->builder, v, type, "");
}

LLVMValueRef tn__cg_cast(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v, bool in_range) {
  if (from == to) return v;
  LLVMTypeRef type = LLVMTypeOf(v);
  if (to == TN_BOOL && tn__dtype_is_float(from))
    return LLVMBuildFCmp(cg->builder, LLVMRealUNE, v, tn__cg_float(type, 0), "");
  if (to == TN_BOOL) return LLVMBuildICmp(cg->builder, LLVMIntNE, v, tn__cg_int(type, 0), "");
  if (tn__dtype_is_float(from))
    return tn__dtype_is_float(to) ? float_to_float(cg, from, to, v) : float_to_int(cg, to, v, in_range);
  if (from == TN_BOOL && tn__dtype_is_float(to))
    return LLVMBuildUIToFP(cg->builder, v, type_as(v, to == TN_F64 ? cg->f64 : cg->f32), "");
  return tn__dtype_is_float(to) ? int_to_float(cg, from, to, v) : int_to_int(cg, from, to, v);
}

LLVMValueRef tn__cg_bitcast(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v) {
  v = tn__cg_to_memory(cg, from, v);
  return tn__cg_from_memory(cg, to, LLVMBuildBitCast(cg->builder, v, type_as(v, tn__cg_memory_type(cg, to)), ""));
}
