/* Elementary functions as LLVM IR over f32 or f64, scalars or vectors alike. Each builder gets arguments of one type
 * and returns the result; math.c wraps it in a function of the module, once per type. Bounds: docs/numerics.md. The
 * short names below keep formulas readable. */
#ifndef TENON_CODEGEN_LLVM_MATH_H
#define TENON_CODEGEN_LLVM_MATH_H

#include "codegen/llvm/emit.h"

typedef LLVMValueRef tn__cg_v;

static inline LLVMTypeRef type_of(tn__cg_v v) { return LLVMTypeOf(v); }
static inline tn__cg_v add(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildFAdd(cg->builder, a, b, ""); }
static inline tn__cg_v sub(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildFSub(cg->builder, a, b, ""); }
static inline tn__cg_v mul(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildFMul(cg->builder, a, b, ""); }
static inline tn__cg_v quot(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildFDiv(cg->builder, a, b, ""); }
static inline tn__cg_v neg(tn__cg *cg, tn__cg_v a) { return LLVMBuildFNeg(cg->builder, a, ""); }
static inline tn__cg_v real(tn__cg_v like, double value) { return tn__cg_float(LLVMTypeOf(like), value); }
static inline tn__cg_v size_of(tn__cg *cg, tn__cg_v a) { return tn__cg_intrinsic1(cg, "llvm.fabs", a); }
static inline tn__cg_v copysign_of(tn__cg *cg, tn__cg_v size, tn__cg_v sign) {
  return tn__cg_intrinsic2(cg, "llvm.copysign", size, sign);
}
static inline tn__cg_v fcmp(tn__cg *cg, LLVMRealPredicate p, tn__cg_v a, tn__cg_v b) {
  return LLVMBuildFCmp(cg->builder, p, a, b, "");
}
static inline tn__cg_v icmp(tn__cg *cg, LLVMIntPredicate p, tn__cg_v a, tn__cg_v b) {
  return LLVMBuildICmp(cg->builder, p, a, b, "");
}
static inline tn__cg_v select_of(tn__cg *cg, tn__cg_v c, tn__cg_v a, tn__cg_v b) {
  return LLVMBuildSelect(cg->builder, c, a, b, "");
}
static inline tn__cg_v iconst(tn__cg_v like, int64_t value) { return tn__cg_int(LLVMTypeOf(like), value); }
static inline tn__cg_v iadd(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildAdd(cg->builder, a, b, ""); }
static inline tn__cg_v isub(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildSub(cg->builder, a, b, ""); }
static inline tn__cg_v iand(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildAnd(cg->builder, a, b, ""); }
static inline tn__cg_v ior(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildOr(cg->builder, a, b, ""); }
static inline tn__cg_v ixor(tn__cg *cg, tn__cg_v a, tn__cg_v b) { return LLVMBuildXor(cg->builder, a, b, ""); }
static inline tn__cg_v shl_by(tn__cg *cg, tn__cg_v a, int by) {
  return LLVMBuildShl(cg->builder, a, iconst(a, by), "");
}
static inline tn__cg_v lshr_by(tn__cg *cg, tn__cg_v a, int by) {
  return LLVMBuildLShr(cg->builder, a, iconst(a, by), "");
}
static inline tn__cg_v ashr_by(tn__cg *cg, tn__cg_v a, int by) {
  return LLVMBuildAShr(cg->builder, a, iconst(a, by), "");
}

static inline bool is_f64(const tn__cg *cg, tn__cg_v v) { return tn__cg_element(LLVMTypeOf(v)) == cg->f64; }
static inline LLVMTypeRef bits_type(tn__cg *cg, tn__cg_v v) {
  return tn__cg_like(LLVMTypeOf(v), is_f64(cg, v) ? cg->i64 : cg->i32);
}
static inline tn__cg_v to_bits(tn__cg *cg, tn__cg_v v) {
  return LLVMBuildBitCast(cg->builder, v, bits_type(cg, v), "");
}
/* The other way: of integers as wide as the float. */
static inline tn__cg_v from_bits(tn__cg *cg, tn__cg_v v) {
  LLVMTypeRef element = tn__cg_element(LLVMTypeOf(v)) == cg->i64 ? cg->f64 : cg->f32;
  return LLVMBuildBitCast(cg->builder, v, tn__cg_like(LLVMTypeOf(v), element), "");
}
static inline tn__cg_v to_f64(tn__cg *cg, tn__cg_v v) {
  return LLVMBuildFPExt(cg->builder, v, tn__cg_like(LLVMTypeOf(v), cg->f64), "");
}
static inline tn__cg_v to_f32(tn__cg *cg, tn__cg_v v) {
  return LLVMBuildFPTrunc(cg->builder, v, tn__cg_like(LLVMTypeOf(v), cg->f32), "");
}

/* Are the numbers of f64 only because f32 has too few digits on the way? They were f32, and the result becomes f32:
 * there 2^-35 of it is a two thousandth of the last place, and nothing overflows on the way. */
static inline bool is_narrow(const tn__cg *cg, tn__cg_v v) { return cg->narrow && is_f64(cg, v); }

/* ---- math_basic.c ------------------------------------------------------------------------------------------------ */
tn__cg_v tn__cg_fma(tn__cg *cg, tn__cg_v a, tn__cg_v b, tn__cg_v c);    /* one rounding, always */
tn__cg_v tn__cg_muladd(tn__cg *cg, tn__cg_v a, tn__cg_v b, tn__cg_v c); /* one rounding where that is an instruction */
tn__cg_v tn__cg_polynomial(tn__cg *cg, tn__cg_v x, const double *c,
                           int count); /* c[0] + c[1] x + ... by Horner's rule */
tn__cg_v tn__cg_round_even(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_floor(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_ceil(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_trunc(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_rsqrt(tn__cg *cg, tn__cg_v x);
/* The same number, of what is a normal number above zero, an infinity or NaN, with no branch for others. */
tn__cg_v tn__cg_rsqrt_above_zero(tn__cg *cg, tn__cg_v x);
/* Neither zero, below the normal range, infinite, negative nor NaN is usual. */
tn__cg_v tn__cg_is_unusual(tn__cg *cg, tn__cg_v x);
typedef struct tn__cg_special {
  tn__cg_v is_special; /* in which lanes */
  tn__cg_v x, y;       /* y: NULL for functions of one number */
} tn__cg_special;
/* `usual`, but what `make` makes of x and y in lanes that are special. A lane gets the same whatever others are. */
tn__cg_v tn__cg_seldom(tn__cg *cg, const tn__cg_special *s, tn__cg_v usual,
                       tn__cg_v (*make)(tn__cg *cg, const tn__cg_special *s));

/* Of a usual number, by so many steps: within 2.6e-5, 1e-9, 1e-18. And by instructions, of any number. */
tn__cg_v tn__cg_rough_rsqrt(tn__cg *cg, tn__cg_v x, int steps);
tn__cg_v tn__cg_divided_rsqrt(tn__cg *cg, const tn__cg_special *s);

/* An f64 value held as a sum of two, low being less than the last place of high. */
typedef struct tn__cg_pair {
  tn__cg_v high, low;
} tn__cg_pair;
tn__cg_pair tn__cg_two_sum(tn__cg *cg, tn__cg_v a, tn__cg_v b);
tn__cg_pair tn__cg_fast_two_sum(tn__cg *cg, tn__cg_v a, tn__cg_v b); /* |a| >= |b|, or a is 0 */
tn__cg_pair tn__cg_exact_product(tn__cg *cg, tn__cg_v a, tn__cg_v b);
tn__cg_pair tn__cg_pair_product(tn__cg *cg, tn__cg_pair a, tn__cg_pair b); /* to about 2^-100 */

/* ---- families: f32 or f64 ---------------------------------------------------------------------------------------- */
tn__cg_v tn__cg_exp(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_clamped(tn__cg *cg, tn__cg_v x, double low, double high); /* NaN passes */
/* exp(x + tail) 2^extra, extra being 0 or -1; tail may be NULL. */
tn__cg_v tn__cg_exp_scaled(tn__cg *cg, tn__cg_v x, tn__cg_v tail, int extra);
tn__cg_v tn__cg_exp_usual(tn__cg *cg, tn__cg_v x, tn__cg_v tail); /* of a result well within the normal range */
tn__cg_v tn__cg_half_exp(tn__cg *cg, tn__cg_v x);                 /* exp(x) / 2, finite where exp(x) is not yet */
tn__cg_v tn__cg_expm1(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_one_minus_exp(tn__cg *cg, tn__cg_v x); /* -80 <= x <= 0, or NaN */
typedef struct tn__cg_log_parts {
  tn__cg_v f; /* x = 2^exponent (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), exactly */
  tn__cg_v exponent;
} tn__cg_log_parts;
tn__cg_log_parts tn__cg_split_usual(tn__cg *cg, tn__cg_v x); /* of what tn__cg_is_unusual() denies */
tn__cg_log_parts tn__cg_split_any(tn__cg *cg, tn__cg_v x);   /* of whatever is above zero and finite */
tn__cg_v tn__cg_log(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_log1p(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_pow(tn__cg *cg, tn__cg_v x, tn__cg_v y);
tn__cg_v tn__cg_sin(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_cos(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_tan(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_asin(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_acos(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_atan(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_atan2(tn__cg *cg, tn__cg_v y, tn__cg_v x);
tn__cg_v tn__cg_sinh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_cosh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_tanh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_asinh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_acosh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_atanh(tn__cg *cg, tn__cg_v x);
tn__cg_v tn__cg_erf(tn__cg *cg, tn__cg_v x);

#endif
