/* What the families stand on: fused multiply-add, polynomials, rounding to integers, fmod. Each without an instruction
 * for it, too. */
#include <math.h>

#include "codegen/llvm/math.h"

/* ---- fused multiply-add ------------------------------------------------------------------------------------------ */

tn__cg_pair tn__cg_two_sum(tn__cg *cg, tn__cg_v a, tn__cg_v b) { /* Knuth's */
  tn__cg_v s = add(cg, a, b), t = sub(cg, s, a);
  return (tn__cg_pair){s, add(cg, sub(cg, a, sub(cg, s, t)), sub(cg, b, t))};
}

/* Rounds a sum to odd, given its rounding error: a nonzero error makes an even last bit odd, towards the error. */
static tn__cg_v odd_sum(tn__cg *cg, tn__cg_pair s) {
  tn__cg_v bits = to_bits(cg, s.high), one = iconst(bits, 1);
  tn__cg_v inexact = fcmp(cg, LLVMRealONE, s.low, real(s.low, 0));
  tn__cg_v even = icmp(cg, LLVMIntEQ, iand(cg, bits, one), iconst(bits, 0));
  tn__cg_v opposite = icmp(cg, LLVMIntSLT, ixor(cg, bits, to_bits(cg, s.low)), iconst(bits, 0));
  tn__cg_v step = select_of(cg, opposite, iconst(bits, -1), one);
  tn__cg_v moved = select_of(cg, LLVMBuildAnd(cg->builder, inexact, even, ""), iadd(cg, bits, step), bits);
  return from_bits(cg, moved);
}

/* Veltkamp's split and Dekker's product: exact while nothing over- or underflows on the way. */
static tn__cg_pair dekker_product(tn__cg *cg, tn__cg_v a, tn__cg_v b) {
  tn__cg_v x[2] = {a, b}, high[2], low[2], factor = real(a, 0x1p27 + 1);
  for (int i = 0; i < 2; i++) {
    tn__cg_v t = mul(cg, x[i], factor);
    high[i] = sub(cg, t, sub(cg, t, x[i]));
    low[i] = sub(cg, x[i], high[i]);
  }
  tn__cg_v p = mul(cg, a, b);
  tn__cg_v e = sub(cg, mul(cg, high[0], high[1]), p);
  e = add(cg, e, mul(cg, high[0], low[1]));
  e = add(cg, e, mul(cg, low[0], high[1]));
  return (tn__cg_pair){p, add(cg, e, mul(cg, low[0], low[1]))};
}

tn__cg_pair tn__cg_exact_product(tn__cg *cg, tn__cg_v a, tn__cg_v b) {
  if (!cg->has_fma) return dekker_product(cg, a, b);
  tn__cg_v p = mul(cg, a, b);
  return (tn__cg_pair){p, tn__cg_fma(cg, a, b, neg(cg, p))};
}

tn__cg_pair tn__cg_fast_two_sum(tn__cg *cg, tn__cg_v a, tn__cg_v b) {
  tn__cg_v s = add(cg, a, b);
  return (tn__cg_pair){s, sub(cg, b, sub(cg, s, a))};
}

tn__cg_pair tn__cg_pair_product(tn__cg *cg, tn__cg_pair a, tn__cg_pair b) {
  tn__cg_pair p = tn__cg_exact_product(cg, a.high, b.high);
  tn__cg_v cross = tn__cg_muladd(cg, a.high, b.low, mul(cg, a.low, b.high));
  return tn__cg_fast_two_sum(cg, p.high, add(cg, p.low, cross));
}

/* Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
 * Products outside of [2^-900, 2^900] are rounded twice instead: their error terms would leave the range of f64. */
static tn__cg_v fma_f64(tn__cg *cg, tn__cg_v a, tn__cg_v b, tn__cg_v c) {
  tn__cg_pair p = tn__cg_exact_product(cg, a, b);
  tn__cg_pair u = tn__cg_two_sum(cg, c, p.low), t = tn__cg_two_sum(cg, p.high, u.high);
  tn__cg_v fused = add(cg, t.high, odd_sum(cg, tn__cg_two_sum(cg, t.low, u.low)));
  tn__cg_v simple = add(cg, p.high, c), inside = NULL;
  tn__cg_v sizes[4] = {size_of(cg, p.high), size_of(cg, a), size_of(cg, b), size_of(cg, c)};
  for (int i = 0; i < 4; i++) {
    tn__cg_v fits = fcmp(cg, LLVMRealOLT, sizes[i], real(a, 0x1p900));
    inside = inside == NULL ? fits : LLVMBuildAnd(cg->builder, inside, fits, "");
  }
  inside = LLVMBuildAnd(cg->builder, inside, fcmp(cg, LLVMRealOGT, sizes[0], real(a, 0x1p-900)), "");
  return select_of(cg, inside, fused, simple);
}

tn__cg_v tn__cg_fma(tn__cg *cg, tn__cg_v a, tn__cg_v b, tn__cg_v c) {
  LLVMTypeRef type = type_of(a);
  LLVMValueRef args[] = {a, b, c};
  if (cg->has_fma) return tn__cg_intrinsic(cg, "llvm.fma", &type, 1, args, 3);
  if (is_f64(cg, a)) return fma_f64(cg, a, b, c);
  tn__cg_v product = mul(cg, to_f64(cg, a), to_f64(cg, b)); /* exact */
  return to_f32(cg, odd_sum(cg, tn__cg_two_sum(cg, product, to_f64(cg, c))));
}

tn__cg_v tn__cg_muladd(tn__cg *cg, tn__cg_v a, tn__cg_v b, tn__cg_v c) {
  return cg->has_fma ? tn__cg_fma(cg, a, b, c) : add(cg, mul(cg, a, b), c);
}

tn__cg_v tn__cg_polynomial(tn__cg *cg, tn__cg_v x, const double *c, int count) {
  tn__cg_v sum = real(x, c[count - 1]);
  for (int i = count - 2; i >= 0; i--) sum = tn__cg_muladd(cg, sum, x, real(x, c[i]));
  return sum;
}

/* ---- lanes that are rarely there --------------------------------------------------------------------------------- */

/* Zeros, numbers below the normal range, infinities, negative numbers and NaN are all beyond the normal ones. */
tn__cg_v tn__cg_is_unusual(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  tn__cg_v bits = to_bits(cg, x);
  int64_t least = wide ? INT64_C(1) << 52 : INT64_C(1) << 23, count = wide ? INT64_C(2046) << 52 : INT64_C(254) << 23;
  return icmp(cg, LLVMIntUGE, isub(cg, bits, iconst(bits, least)), iconst(bits, count));
}

tn__cg_v tn__cg_seldom(tn__cg *cg, const tn__cg_special *s, tn__cg_v usual,
                       tn__cg_v (*make)(tn__cg *cg, const tn__cg_special *s)) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(cg->builder);
  LLVMValueRef function = LLVMGetBasicBlockParent(from);
  LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(cg->context, function, "special");
  LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(cg->context, function, "join");
  tn__cg_branch_seldom(cg, tn__cg_any(cg, s->is_special), slow, join);
  tn__cg_at(cg, slow);
  tn__cg_v made = make(cg, s), other = select_of(cg, s->is_special, made, usual);
  slow = LLVMGetInsertBlock(cg->builder);
  LLVMBuildBr(cg->builder, join);
  tn__cg_at(cg, join);
  tn__cg_v out = LLVMBuildPhi(cg->builder, type_of(usual), "");
  LLVMAddIncoming(out, &usual, &from, 1);
  LLVMAddIncoming(out, &other, &slow, 1);
  return out;
}

/* ---- reciprocal roots -------------------------------------------------------------------------------------------- */

tn__cg_v tn__cg_divided_rsqrt(tn__cg *cg, const tn__cg_special *s) {
  return quot(cg, real(s->x, 1), tn__cg_intrinsic1(cg, "llvm.sqrt", s->x));
}

/* How far x y^2 is from 1. */
static tn__cg_v rsqrt_error(tn__cg *cg, tn__cg_v x, tn__cg_v y) {
  return tn__cg_fma(cg, neg(cg, mul(cg, x, y)), y, real(x, 1));
}

/* Half the exponent, turned, is the logarithm of a start within 3.5 %, so that x y^2 lies between 0.932 and 1.070. For
 * normal numbers above zero, and NaN. */
static tn__cg_v rsqrt_start(tn__cg *cg, tn__cg_v x) {
  tn__cg_v bits = to_bits(cg, x);
  tn__cg_v guess = iconst(bits, is_f64(cg, x) ? INT64_C(0x5fe6eb50c7b537a9) : INT64_C(0x5f37642f));
  return from_bits(cg, isub(cg, guess, lshr_by(cg, bits, 1)));
}

/* With t = x y^2, y times the polynomial that is nearest to 1/sqrt(t) is within 2.6e-5. A step of Newton's with
 * e = 1 - x y^2, y + y/2 e, leaves 3/8 of the square of e: 1e-9, and 1e-18 after another. */
tn__cg_v tn__cg_rough_rsqrt(tn__cg *cg, tn__cg_v x, int steps) {
  static const double nearest[] = {1.8762356212679177, -1.2513721616247426, 0.37513718286739534};
  tn__cg_v y = rsqrt_start(cg, x);
  y = mul(cg, y, tn__cg_polynomial(cg, mul(cg, mul(cg, x, y), y), nearest, 3));
  for (int step = 0; step < steps; step++) {
    tn__cg_v e = rsqrt_error(cg, x, y);
    y = tn__cg_fma(cg, mul(cg, y, real(y, 0.5)), e, y);
  }
  return y;
}

/* Instructions for roots and quotients are busy for as long as some thirty products. In f32 one series reaches from the
 * start to 2.4e-8: y (1 - e)^(-1/2) = y + y e (1/2 + 3/8 e + ...), nearest where e may lie. */
static tn__cg_v near_rsqrt(tn__cg *cg, tn__cg_v x) {
  static const double series[] = {0.4999983464902556, 0.37500169103992953, 0.3139330650566486, 0.27364175329612783};
  if (is_f64(cg, x)) return tn__cg_rough_rsqrt(cg, x, 2);
  tn__cg_v y = rsqrt_start(cg, x), e = rsqrt_error(cg, x, y);
  return tn__cg_fma(cg, mul(cg, y, e), tn__cg_polynomial(cg, e, series, 4), y);
}

tn__cg_v tn__cg_rsqrt(tn__cg *cg, tn__cg_v x) {
  tn__cg_special s = {.x = x};
  if (!cg->has_fma) return tn__cg_divided_rsqrt(cg, &s);
  tn__cg_v y = near_rsqrt(cg, x);
  s.is_special = tn__cg_is_unusual(cg, x);
  return tn__cg_seldom(cg, &s, y, tn__cg_divided_rsqrt);
}

tn__cg_v tn__cg_rsqrt_above_zero(tn__cg *cg, tn__cg_v x) {
  tn__cg_special s = {.x = x};
  if (!cg->has_fma) return tn__cg_divided_rsqrt(cg, &s);
  return select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, INFINITY)), real(x, 0), near_rsqrt(cg, x));
}

/* ---- rounding to integers ---------------------------------------------------------------------------------------- */

/* Without SSE4.1: adding 2^(precision-1) rounds to even at the units, and larger numbers are integers already. */
static tn__cg_v round_by_adding(tn__cg *cg, tn__cg_v x) {
  tn__cg_v big = real(x, is_f64(cg, x) ? 0x1p52 : 0x1p23), size = size_of(cg, x);
  tn__cg_v rounded = copysign_of(cg, sub(cg, add(cg, size, big), big), x);
  return select_of(cg, fcmp(cg, LLVMRealOLT, size, big), rounded, x);
}

tn__cg_v tn__cg_round_even(tn__cg *cg, tn__cg_v x) {
  return cg->has_rounding ? tn__cg_intrinsic1(cg, "llvm.roundeven", x) : round_by_adding(cg, x);
}

/* The rounded value corrected by one where it went past x, with x's sign for zeros. */
static tn__cg_v corrected(tn__cg *cg, tn__cg_v x, tn__cg_v limit, LLVMRealPredicate past, double step) {
  tn__cg_v rounded = round_by_adding(cg, x);
  tn__cg_v fixed = add(cg, rounded, real(x, step));
  return copysign_of(cg, select_of(cg, fcmp(cg, past, rounded, limit), fixed, rounded), x);
}

tn__cg_v tn__cg_floor(tn__cg *cg, tn__cg_v x) {
  return cg->has_rounding ? tn__cg_intrinsic1(cg, "llvm.floor", x) : corrected(cg, x, x, LLVMRealOGT, -1);
}

tn__cg_v tn__cg_ceil(tn__cg *cg, tn__cg_v x) {
  return cg->has_rounding ? tn__cg_intrinsic1(cg, "llvm.ceil", x) : corrected(cg, x, x, LLVMRealOLT, 1);
}

tn__cg_v tn__cg_trunc(tn__cg *cg, tn__cg_v x) {
  if (cg->has_rounding) return tn__cg_intrinsic1(cg, "llvm.trunc", x);
  tn__cg_v size = size_of(cg, x);
  return copysign_of(cg, corrected(cg, size, size, LLVMRealOGT, -1), x);
}

/* ---- fmod -------------------------------------------------------------------------------------------------------- */

/* One number taken apart: mantissa with its leading bit in place, exponent as if numbers below the normal ones had one,
 * too. */
static void take_apart(tn__cg *cg, tn__cg_v bits, int fraction, tn__cg_v *mantissa, tn__cg_v *exponent) {
  int width = (int)LLVMGetIntTypeWidth(type_of(bits));
  tn__cg_v leading = iconst(bits, INT64_C(1) << fraction);
  tn__cg_v field = lshr_by(cg, bits, fraction), rest = iand(cg, bits, iconst(bits, (INT64_C(1) << fraction) - 1));
  LLVMTypeRef type = type_of(bits);
  LLVMValueRef args[] = {rest, LLVMConstInt(cg->i1, 0, 0)};
  tn__cg_v zeros = tn__cg_intrinsic(cg, "llvm.ctlz", &type, 1, args, 2);
  tn__cg_v by = isub(cg, zeros, iconst(bits, width - 1 - fraction));
  by = iand(cg, by, iconst(bits, width - 1)); /* a zero never gets here with its shift used */
  tn__cg_v is_small = icmp(cg, LLVMIntEQ, field, iconst(bits, 0));
  *mantissa = select_of(cg, is_small, LLVMBuildShl(cg->builder, rest, by, ""), ior(cg, rest, leading));
  *exponent = select_of(cg, is_small, isub(cg, iconst(bits, 1), by), field);
}

static tn__cg_v put_together(tn__cg *cg, tn__cg_v mantissa, tn__cg_v exponent, int fraction) {
  int width = (int)LLVMGetIntTypeWidth(type_of(mantissa));
  LLVMTypeRef type = type_of(mantissa);
  LLVMValueRef args[] = {mantissa, LLVMConstInt(cg->i1, 0, 0)};
  tn__cg_v by = isub(cg, tn__cg_intrinsic(cg, "llvm.ctlz", &type, 1, args, 2), iconst(mantissa, width - 1 - fraction));
  by = iand(cg, by, iconst(by, width - 1));
  mantissa = LLVMBuildShl(cg->builder, mantissa, by, "");
  exponent = isub(cg, exponent, by);
  tn__cg_v normal = isub(cg, mantissa, iconst(mantissa, INT64_C(1) << fraction));
  normal = ior(cg, normal, shl_by(cg, exponent, fraction));
  tn__cg_v down = iand(cg, isub(cg, iconst(exponent, 1), exponent), iconst(exponent, width - 1));
  tn__cg_v small = LLVMBuildLShr(cg->builder, mantissa, down, "");
  return select_of(cg, icmp(cg, LLVMIntSGT, exponent, iconst(exponent, 0)), normal, small);
}

/* Long division on the mantissas, one bit a round: exact, and as slow as the exponents are apart. */
static void build_fmod(tn__cg *cg, LLVMValueRef function, int fraction) {
  LLVMValueRef x = LLVMGetParam(function, 0), y = LLVMGetParam(function, 1);
  LLVMBuilderRef at = cg->builder;
  LLVMBasicBlockRef blocks[6];
  static const char *const names[] = {"special", "compare", "small", "start", "loop", "finish"};
  for (int i = 0; i < 6; i++) blocks[i] = LLVMAppendBasicBlockInContext(cg->context, function, names[i]);
  tn__cg_v xbits = to_bits(cg, size_of(cg, x)), ybits = to_bits(cg, size_of(cg, y));
  tn__cg_v infinity = to_bits(cg, real(x, INFINITY));
  tn__cg_v bad = ior(cg, icmp(cg, LLVMIntUGE, xbits, infinity), icmp(cg, LLVMIntUGT, ybits, infinity));
  bad = ior(cg, bad, icmp(cg, LLVMIntEQ, ybits, iconst(ybits, 0)));
  LLVMBuildCondBr(at, bad, blocks[0], blocks[1]);
  tn__cg_at(cg, blocks[0]);
  tn__cg_v product = mul(cg, x, y);
  LLVMBuildRet(at, quot(cg, product, product));
  tn__cg_at(cg, blocks[1]);
  LLVMBuildCondBr(at, icmp(cg, LLVMIntULT, xbits, ybits), blocks[2], blocks[3]);
  tn__cg_at(cg, blocks[2]);
  LLVMBuildRet(at, x);
  tn__cg_at(cg, blocks[3]);
  tn__cg_v mx, my, ex, ey;
  take_apart(cg, xbits, fraction, &mx, &ex);
  take_apart(cg, ybits, fraction, &my, &ey);
  LLVMBuildBr(at, blocks[4]);
  tn__cg_at(cg, blocks[4]);
  tn__cg_v rest = LLVMBuildPhi(at, type_of(mx), ""), exponent = LLVMBuildPhi(at, type_of(ex), "");
  tn__cg_v less = icmp(cg, LLVMIntULT, rest, my);
  tn__cg_v reduced = select_of(cg, less, rest, isub(cg, rest, my));
  tn__cg_v next = shl_by(cg, reduced, 1), next_exponent = isub(cg, exponent, iconst(exponent, 1));
  LLVMBuildCondBr(at, icmp(cg, LLVMIntSGT, exponent, ey), blocks[4], blocks[5]);
  LLVMValueRef rests[] = {mx, next}, exponents[] = {ex, next_exponent};
  LLVMBasicBlockRef from[] = {blocks[3], blocks[4]};
  LLVMAddIncoming(rest, rests, from, 2);
  LLVMAddIncoming(exponent, exponents, from, 2);
  tn__cg_at(cg, blocks[5]);
  tn__cg_v none = icmp(cg, LLVMIntEQ, reduced, iconst(reduced, 0));
  tn__cg_v bits = select_of(cg, none, iconst(reduced, 0), put_together(cg, reduced, exponent, fraction));
  LLVMBuildRet(at, copysign_of(cg, from_bits(cg, bits), x));
}

LLVMValueRef tn__cg_fmod(tn__cg *cg, LLVMValueRef a, LLVMValueRef b) {
  bool wide = is_f64(cg, a);
  LLVMTypeRef type = wide ? cg->f64 : cg->f32, params[] = {type, type};
  LLVMTypeRef function_type = LLVMFunctionType(type, params, 2, 0);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  if (tn__cg_helper_begin(cg, wide ? "tn.fmod.f64" : "tn.fmod.f32", function_type, false, &function, &saved)) {
    build_fmod(cg, function, wide ? 52 : 23);
    tn__cg_helper_end(cg, saved);
  }
  int lanes = tn__cg_lanes(type_of(a));
  LLVMValueRef result = lanes == 1 ? NULL : LLVMGetPoison(type_of(a));
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef args[] = {tn__cg_slice(cg, a, i, 1), tn__cg_slice(cg, b, i, 1)};
    LLVMValueRef r = LLVMBuildCall2(cg->builder, function_type, function, args, 2, "");
    result = lanes == 1 ? r : tn__cg_splice(cg, result, r, i);
  }
  return result;
}
