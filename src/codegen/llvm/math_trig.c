/* sin, cos, tan and their inverses. */
#include <math.h>
#include <stdio.h>

#include "codegen/llvm/math.h"
#include "codegen/math_tables.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Masks leave out what an instruction does; blends of vectors take some cores three. */
static bool has_masks(const tn__cg *cg) { return tn__target_can(cg->target, TN__CAN_MASK); }

/* ---- reduction by multiples of pi/2 ------------------------------------------------------------------------------ */

/* x = count pi/2 + high + low, |high| <= pi/4. */
typedef struct quarter_turns {
  tn__cg_v high, low;
  tn__cg_v count; /* i64; only the low two bits mean anything */
} quarter_turns;

#define REDUCE_LIMIT 1.0e6 /* count stays below 2^20, so that its products with the 33-bit pieces of pi/2 are exact */

/* Cody and Waite's: the pieces of pi/2 are taken away one after another. */
static quarter_turns reduce_near(tn__cg *cg, tn__cg_v x) {
  tn__cg_v magic = real(x, 0x1.8p52);
  tn__cg_v shifted = add(cg, mul(cg, x, real(x, 0x1.45f306dc9c883p-1)), magic), count = sub(cg, shifted, magic);
  if (cg->narrow && cg->has_fma) { /* the first is exact, and each of the others is rounded to what is left */
    tn__cg_v left = x;
    for (int i = 0; i < 3; i++) left = tn__cg_fma(cg, count, real(x, -half_pi[i]), left);
    return (quarter_turns){left, real(x, 0), isub(cg, to_bits(cg, shifted), to_bits(cg, magic))};
  }
  tn__cg_v first = sub(cg, x, mul(cg, count, real(x, half_pi[0]))), piece = mul(cg, count, real(x, half_pi[1]));
  tn__cg_pair rest = tn__cg_two_sum(cg, first, neg(cg, piece));
  tn__cg_v tail = sub(cg, rest.low, mul(cg, count, real(x, half_pi[2])));
  tn__cg_pair r = tn__cg_fast_two_sum(cg, rest.high, tail);
  return (quarter_turns){.high = r.high, .low = r.low, .count = isub(cg, to_bits(cg, shifted), to_bits(cg, magic))};
}

static tn__cg_v table_word(tn__cg *cg, tn__cg_v index) {
  LLVMValueRef table = LLVMGetNamedGlobal(cg->module, "tn.two_over_pi");
  if (table == NULL) {
    LLVMValueRef words[COUNT(two_over_pi)];
    for (int i = 0; i < COUNT(two_over_pi); i++) words[i] = LLVMConstInt(cg->i64, two_over_pi[i], 0);
    LLVMValueRef value = LLVMConstArray2(cg->i64, words, (uint64_t)COUNT(two_over_pi));
    table = LLVMAddGlobal(cg->module, LLVMTypeOf(value), "tn.two_over_pi");
    LLVMSetInitializer(table, value);
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMPrivateLinkage);
  }
  return LLVMBuildLoad2(cg->builder, cg->i64, LLVMBuildGEP2(cg->builder, cg->i64, table, &index, 1, ""), "");
}

static tn__cg_v funnel(tn__cg *cg, tn__cg_v high, tn__cg_v low, tn__cg_v by) {
  LLVMTypeRef type = cg->i64;
  LLVMValueRef args[] = {high, low, by};
  return tn__cg_intrinsic(cg, "llvm.fshl", &type, 1, args, 3);
}

/* Payne and Hanek's: x = m 2^e; of 2/pi only the 192 bits from the one with weight 2^(2-e) on matter. Their product
 * with m, modulo 2^192, is x / (pi/2) modulo 4 with two bits before the point. A function of one scalar, |x| >= 1,
 * finite. */
static void build_reduce_far(tn__cg *cg, LLVMValueRef function, LLVMTypeRef result_type) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef i128 = LLVMIntTypeInContext(cg->context, 128);
  tn__cg_v x = LLVMGetParam(function, 0), bits = to_bits(cg, size_of(cg, x));
  tn__cg_v m = ior(cg, iand(cg, bits, iconst(bits, (INT64_C(1) << 52) - 1)), iconst(bits, INT64_C(1) << 52));
  /* e = field - 1075; the table starts with 64 zero bits */
  tn__cg_v offset = isub(cg, lshr_by(cg, bits, 52), iconst(bits, 1075 + 2 - 64));
  tn__cg_v word = lshr_by(cg, offset, 6), by = iand(cg, offset, iconst(offset, 63)), w[4];
  for (int i = 0; i < 4; i++) w[i] = table_word(cg, iadd(cg, word, iconst(word, i)));
  for (int i = 0; i < 3; i++) w[i] = funnel(cg, w[i], w[i + 1], by);
  tn__cg_v m128 = LLVMBuildZExt(at, m, i128, ""), carry = NULL, product[3];
  for (int i = 2; i >= 0; i--) {
    tn__cg_v p = LLVMBuildMul(at, m128, LLVMBuildZExt(at, w[i], i128, ""), "");
    if (carry != NULL) p = iadd(cg, p, LLVMBuildZExt(at, carry, i128, ""));
    product[i] = LLVMBuildTrunc(at, p, cg->i64, "");
    carry = LLVMBuildTrunc(at, lshr_by(cg, p, 64), cg->i64, "");
  }
  tn__cg_v two = iconst(bits, 2), quarters = lshr_by(cg, product[0], 62);
  tn__cg_v f0 = funnel(cg, product[0], product[1], two), f1 = funnel(cg, product[1], product[2], two);
  tn__cg_v f2 = shl_by(cg, product[2], 2);
  tn__cg_v is_upper = icmp(cg, LLVMIntSLT, f0, iconst(f0, 0)), ones = LLVMBuildSExt(at, is_upper, cg->i64, "");
  quarters = isub(cg, quarters, ones); /* a fraction above one half belongs to the next quarter, from below */
  f0 = ixor(cg, f0, ones);
  f1 = ixor(cg, f1, ones);
  f2 = ixor(cg, f2, ones); /* the missing +1 of the negation is 2^-190 */
  LLVMTypeRef type = cg->i64;
  LLVMValueRef args[] = {f0, LLVMConstInt(cg->i1, 0, 0)};
  tn__cg_v zeros =
      tn__cg_intrinsic(cg, "llvm.ctlz", &type, 1, args, 2); /* at most 62: no f64 is nearer to a multiple */
  tn__cg_v top = funnel(cg, f0, f1, zeros), next = funnel(cg, f1, f2, zeros);
  tn__cg_v high = LLVMBuildUIToFP(at, lshr_by(cg, top, 11), cg->f64, "");
  tn__cg_v low_bits = ior(cg, shl_by(cg, iand(cg, top, iconst(top, 0x7ff)), 42), lshr_by(cg, next, 22));
  tn__cg_v low = mul(cg, LLVMBuildSIToFP(at, low_bits, cg->f64, ""), tn__cg_float(cg->f64, 0x1p-53));
  tn__cg_v scale = from_bits(cg, shl_by(cg, isub(cg, iconst(zeros, 1023 - 53), zeros), 52));
  high = mul(cg, high, scale);
  low = mul(cg, low, scale);
  tn__cg_pair turns = {high, low}, unit = {tn__cg_float(cg->f64, half_pi_dd[0]), tn__cg_float(cg->f64, half_pi_dd[1])};
  tn__cg_pair r = tn__cg_pair_product(cg, turns, unit);
  tn__cg_v flip = ixor(cg, to_bits(cg, x), ones), sign = iand(cg, flip, iconst(flip, INT64_MIN));
  tn__cg_v is_negative = icmp(cg, LLVMIntSLT, to_bits(cg, x), iconst(bits, 0));
  quarters = select_of(cg, is_negative, LLVMBuildNeg(at, quarters, ""), quarters);
  tn__cg_v parts[3] = {from_bits(cg, ixor(cg, to_bits(cg, r.high), sign)),
                       from_bits(cg, ixor(cg, to_bits(cg, r.low), sign)), quarters};
  LLVMValueRef result = LLVMGetPoison(result_type);
  for (unsigned i = 0; i < 3; i++) result = LLVMBuildInsertValue(at, result, parts[i], i, "");
  LLVMBuildRet(at, result);
}

/* The lanes beyond the limit one by one. */
static quarter_turns reduce_far(tn__cg *cg, tn__cg_v x, tn__cg_v is_far, quarter_turns near) {
  LLVMTypeRef fields[] = {cg->f64, cg->f64, cg->i64}, params[] = {cg->f64};
  LLVMTypeRef result_type = LLVMStructTypeInContext(cg->context, fields, 3, 0);
  LLVMTypeRef function_type = LLVMFunctionType(result_type, params, 1, 0);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  if (tn__cg_helper_begin(cg, "tn.reduce_far", function_type, false, &function, &saved)) {
    build_reduce_far(cg, function, result_type);
    tn__cg_helper_end(cg, saved);
  }
  tn__cg_v finite = fcmp(cg, LLVMRealOLT, size_of(cg, x), real(x, INFINITY));
  tn__cg_v asked = select_of(cg, iand(cg, is_far, finite), x, real(x, REDUCE_LIMIT));
  int lanes = tn__cg_lanes(type_of(x));
  tn__cg_v out[3] = {near.high, near.low, near.count};
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef argument = tn__cg_slice(cg, asked, i, 1);
    LLVMValueRef r = LLVMBuildCall2(cg->builder, function_type, function, &argument, 1, "");
    for (unsigned k = 0; k < 3; k++)
      out[k] = tn__cg_splice(cg, out[k], LLVMBuildExtractValue(cg->builder, r, k, ""), i);
  }
  tn__cg_v high = select_of(cg, finite, out[0], real(x, NAN));
  return (quarter_turns){select_of(cg, is_far, high, near.high), select_of(cg, is_far, out[1], near.low),
                         select_of(cg, is_far, out[2], near.count)};
}

static quarter_turns reduce(tn__cg *cg, tn__cg_v x) {
  quarter_turns near = reduce_near(cg, x);
  tn__cg_v is_far = LLVMBuildNot(cg->builder, fcmp(cg, LLVMRealOLE, size_of(cg, x), real(x, REDUCE_LIMIT)), "");
  LLVMBasicBlockRef from = LLVMGetInsertBlock(cg->builder);
  LLVMValueRef function = LLVMGetBasicBlockParent(from);
  LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(cg->context, function, "far");
  LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(cg->context, function, "join");
  LLVMBuildCondBr(cg->builder, tn__cg_any(cg, is_far), slow, join);
  tn__cg_at(cg, slow);
  quarter_turns far = reduce_far(cg, x, is_far, near);
  LLVMBuildBr(cg->builder, join);
  tn__cg_at(cg, join);
  tn__cg_v a[3] = {near.high, near.low, near.count}, b[3] = {far.high, far.low, far.count}, out[3];
  for (int i = 0; i < 3; i++) {
    out[i] = LLVMBuildPhi(cg->builder, type_of(a[i]), "");
    LLVMValueRef incoming[] = {a[i], b[i]};
    LLVMBasicBlockRef blocks[] = {from, slow};
    LLVMAddIncoming(out[i], incoming, blocks, 2);
  }
  return (quarter_turns){out[0], out[1], out[2]};
}

/* ---- sin, cos, tan ----------------------------------------------------------------------------------------------- */

typedef struct sin_cos {
  tn__cg_v sin, cos, count;
} sin_cos;

static sin_cos kernels_f64(tn__cg *cg, quarter_turns q) {
  tn__cg_v r = q.high, z = mul(cg, r, r), one = real(r, 1);
  tn__cg_v s = tn__cg_polynomial(cg, z, sin_f64, COUNT(sin_f64)), c = tn__cg_polynomial(cg, z, cos_f64, COUNT(cos_f64));
  tn__cg_v half_square = mul(cg, z, real(r, 0.5)), main_cos = sub(cg, one, half_square);
  tn__cg_v lost = sub(cg, sub(cg, one, main_cos), half_square);
  sin_cos out = {.count = q.count};
  tn__cg_v cubic = tn__cg_muladd(cg, mul(cg, z, r), s, mul(cg, q.low, main_cos));
  out.sin = add(cg, r, cubic);
  tn__cg_v rest = tn__cg_muladd(cg, mul(cg, z, z), c, sub(cg, lost, mul(cg, r, q.low)));
  out.cos = add(cg, main_cos, rest);
  return out;
}

/* Of r and a count whose low two bits mean something, in f32 or for it. */
static sin_cos kernels_f32(tn__cg *cg, tn__cg_v r, tn__cg_v count) {
  tn__cg_v z = mul(cg, r, r);
  bool wide = is_f64(cg, r);
  tn__cg_v s = wide ? tn__cg_polynomial(cg, z, sin_narrow, COUNT(sin_narrow))
                    : tn__cg_polynomial(cg, z, sin_f32, COUNT(sin_f32));
  tn__cg_v c = wide ? tn__cg_polynomial(cg, z, cos_narrow, COUNT(cos_narrow))
                    : tn__cg_polynomial(cg, z, cos_f32, COUNT(cos_f32));
  sin_cos out = {.count = count};
  out.sin = tn__cg_muladd(cg, mul(cg, z, r), s, r);
  out.cos = tn__cg_muladd(cg, z, tn__cg_muladd(cg, z, c, real(r, -0.5)), real(r, 1));
  return out;
}

static sin_cos both(tn__cg *cg, tn__cg_v x) {
  quarter_turns q = reduce(cg, is_f64(cg, x) ? x : to_f64(cg, x));
  if (is_narrow(cg, x)) return kernels_f32(cg, q.high, q.count);
  if (is_f64(cg, x)) return kernels_f64(cg, q);
  tn__cg_v count = LLVMBuildTrunc(cg->builder, q.count, tn__cg_like(type_of(x), cg->i32), "");
  return kernels_f32(cg, to_f32(cg, q.high), count);
}

static tn__cg_v is_odd(tn__cg *cg, tn__cg_v count) {
  return icmp(cg, LLVMIntNE, iand(cg, count, iconst(count, 1)), iconst(count, 0));
}

/* sin of the angle `ahead` quarter turns further on; of one below zero, if the angle is that of its size and `signs` is
 * it. Blends without masks go by the sign. */
static tn__cg_v turned(tn__cg *cg, sin_cos k, int ahead, tn__cg_v signs) {
  tn__cg_v count = iadd(cg, k.count, iconst(k.count, ahead));
  int top = (int)LLVMGetIntTypeWidth(tn__cg_element(type_of(count))) - 1;
  tn__cg_v odd = has_masks(cg) ? is_odd(cg, count) : icmp(cg, LLVMIntSLT, shl_by(cg, count, top), iconst(count, 0));
  tn__cg_v size = select_of(cg, odd, k.cos, k.sin), sign = shl_by(cg, count, top - 1);
  if (signs != NULL) sign = ixor(cg, sign, to_bits(cg, signs));
  sign = iand(cg, sign, iconst(count, (int64_t)(UINT64_C(1) << top)));
  return from_bits(cg, ixor(cg, to_bits(cg, size), sign));
}

/* Counted in f32: the product with 2/pi is off by a two hundredth of a quarter turn there, which polynomials bear. */
#define COUNT_LIMIT 0x1p15

/* Arguments that are not large. Fused steps take pieces of pi/2 away in f32: the first is exact, the second as good as
 * one rounding of what is left, and the third shows only where that is small and the polynomials add nothing. Without
 * them, f64 keeps more than f32 shows. */
static sin_cos both_near(tn__cg *cg, tn__cg_v x) {
  tn__cg_v magic = real(x, 0x1.8p23), r = cg->has_fma ? x : to_f64(cg, x);
  tn__cg_v shifted = tn__cg_muladd(cg, x, real(x, 0x1.45f306dc9c883p-1), magic);
  tn__cg_v count = sub(cg, shifted, magic);
  if (!cg->has_fma) count = to_f64(cg, count);
  for (int i = 0; i < 3; i++) r = tn__cg_muladd(cg, count, real(r, cg->has_fma ? -half_pi_f32[i] : -half_pi[i]), r);
  return kernels_f32(cg, cg->has_fma ? r : to_f32(cg, r), to_bits(cg, shifted));
}

/* Of any size, out of line. */
static tn__cg_v far_f32(tn__cg *cg, tn__cg_v x, int ahead) {
  LLVMTypeRef type = type_of(x), function_type = LLVMFunctionType(type, &type, 1, 0);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  char name[64];
  snprintf(name, sizeof(name), "tn.%s.far.f32.%d", ahead ? "cos" : "sin", tn__cg_lanes(type));
  if (tn__cg_helper_begin(cg, name, function_type, false, &function, &saved)) {
    LLVMBuildRet(cg->builder, turned(cg, both(cg, LLVMGetParam(function, 0)), ahead, NULL));
    tn__cg_helper_end(cg, saved);
  }
  return LLVMBuildCall2(cg->builder, function_type, function, &x, 1, "");
}

static tn__cg_v far_sin(tn__cg *cg, const tn__cg_special *s) { return far_f32(cg, s->x, 0); }
static tn__cg_v far_cos(tn__cg *cg, const tn__cg_special *s) { return far_f32(cg, s->x, 1); }

static tn__cg_v sin_f32_of(tn__cg *cg, tn__cg_v x, int ahead, tn__cg_v signs) {
  tn__cg_v size = size_of(cg, x);
  tn__cg_v is_far = LLVMBuildNot(cg->builder, fcmp(cg, LLVMRealOLE, size, real(x, COUNT_LIMIT)), "");
  tn__cg_special s = {.is_special = is_far, .x = x};
  return tn__cg_seldom(cg, &s, turned(cg, both_near(cg, size), ahead, signs), ahead ? far_cos : far_sin);
}

/* Of the size, with the sign put in behind: the polynomial would lose that of zero. */
tn__cg_v tn__cg_sin(tn__cg *cg, tn__cg_v x) {
  return is_f64(cg, x) ? turned(cg, both(cg, size_of(cg, x)), 0, x) : sin_f32_of(cg, x, 0, x);
}

tn__cg_v tn__cg_cos(tn__cg *cg, tn__cg_v x) {
  return is_f64(cg, x) ? turned(cg, both(cg, x), 1, NULL) : sin_f32_of(cg, x, 1, NULL);
}

tn__cg_v tn__cg_tan(tn__cg *cg, tn__cg_v x) {
  sin_cos k = both(cg, x);
  tn__cg_v odd = is_odd(cg, k.count);
  tn__cg_v value = quot(cg, select_of(cg, odd, neg(cg, k.cos), k.sin), select_of(cg, odd, k.sin, k.cos));
  tn__cg_v tiny = fcmp(cg, LLVMRealOLT, size_of(cg, x), real(x, is_f64(cg, x) ? 0x1p-28 : 0x1p-13));
  return select_of(cg, tiny, x, value);
}

/* ---- inverses, in f64 -------------------------------------------------------------------------------------------- */

/* base + atan(u) with base = high + low, |u| <= tan(pi/8). */
static tn__cg_v atan_from(tn__cg *cg, tn__cg_v u, tn__cg_v high, tn__cg_v low) {
  if (cg->narrow) {
    tn__cg_v z = mul(cg, u, u), p = tn__cg_polynomial(cg, z, atan_narrow, COUNT(atan_narrow));
    return add(cg, high, tn__cg_muladd(cg, mul(cg, z, u), p, u));
  }
  tn__cg_v z = mul(cg, u, u), p = tn__cg_polynomial(cg, z, atan_f64, COUNT(atan_f64));
  tn__cg_v rest = tn__cg_muladd(cg, mul(cg, z, u), p, low);
  return add(cg, high, add(cg, u, rest));
}

/* -v where `turns`. */
static tn__cg_v turned_if(tn__cg *cg, tn__cg_v turns, tn__cg_v v) {
  if (has_masks(cg)) return select_of(cg, turns, neg(cg, v), v);
  tn__cg_v bits = to_bits(cg, v), sign = iconst(bits, INT64_MIN);
  return from_bits(cg, ixor(cg, bits, select_of(cg, turns, sign, iconst(bits, 0))));
}

/* A size with the sign of another number. */
static tn__cg_v with_sign(tn__cg *cg, tn__cg_v size, tn__cg_v signs) {
  tn__cg_v bits = to_bits(cg, signs);
  return from_bits(cg, ior(cg, to_bits(cg, size), iand(cg, bits, iconst(bits, INT64_MIN))));
}

/* high + low +- atan(numerator / denominator) for 0 <= numerator <= denominator: from pi/4 when that is nearer. One
 * division. */
static tn__cg_v atan_ratio(tn__cg *cg, tn__cg_v numerator, tn__cg_v denominator, tn__cg_v high, tn__cg_v low,
                           tn__cg_v turns) {
  tn__cg_v near_one = fcmp(cg, LLVMRealOGT, numerator, mul(cg, denominator, real(numerator, 0.41421356237309503)));
  tn__cg_v zero = real(numerator, 0);
  tn__cg_v top = has_masks(cg) ? select_of(cg, near_one, sub(cg, numerator, denominator), numerator)
                               : sub(cg, numerator, select_of(cg, near_one, denominator, zero));
  tn__cg_v bottom = has_masks(cg) ? select_of(cg, near_one, add(cg, numerator, denominator), denominator)
                                  : add(cg, denominator, select_of(cg, near_one, numerator, zero));
  tn__cg_v base_high = select_of(cg, near_one, real(zero, quarter_pi_dd[0]), zero);
  tn__cg_v base_low = select_of(cg, near_one, real(zero, quarter_pi_dd[1]), zero);
  /* base +- what the caller adds, exactly: multiples of pi/4 whose high parts are short sums */
  tn__cg_v u = turned_if(cg, turns, quot(cg, top, bottom));
  base_high = turned_if(cg, turns, base_high);
  if (cg->narrow) return atan_from(cg, u, add(cg, high, base_high), NULL);
  tn__cg_pair base = tn__cg_fast_two_sum(cg, high, base_high);
  tn__cg_v tail = add(cg, base.low, add(cg, low, turned_if(cg, turns, base_low)));
  return atan_from(cg, u, base.high, tail);
}

tn__cg_v tn__cg_atan(tn__cg *cg, tn__cg_v x) {
  tn__cg_v size = size_of(cg, x), one = real(x, 1), zero = real(x, 0);
  tn__cg_v steep = fcmp(cg, LLVMRealOGT, size, one);
  tn__cg_v high = select_of(cg, steep, real(x, half_pi_dd[0]), zero),
           low = select_of(cg, steep, real(x, half_pi_dd[1]), zero);
  tn__cg_v numerator = select_of(cg, steep, one, size), denominator = select_of(cg, steep, size, one);
  return with_sign(cg, atan_ratio(cg, numerator, denominator, high, low, steep), x);
}

/* Like atan(|y| / |x|), from pi when x is negative. */
tn__cg_v tn__cg_atan2(tn__cg *cg, tn__cg_v y, tn__cg_v x) {
  tn__cg_v ax = size_of(cg, x), ay = size_of(cg, y), zero = real(x, 0), one = real(x, 1), infinite = real(x, INFINITY);
  tn__cg_v is_nan = fcmp(cg, LLVMRealUNO, x, y);
  tn__cg_v both_infinite = iand(cg, fcmp(cg, LLVMRealOEQ, ax, infinite), fcmp(cg, LLVMRealOEQ, ay, infinite));
  tn__cg_v both_zero = iand(cg, fcmp(cg, LLVMRealOEQ, ax, zero), fcmp(cg, LLVMRealOEQ, ay, zero));
  ax = select_of(cg, ior(cg, both_infinite, both_zero), one, ax);
  ay = select_of(cg, both_infinite, one, ay);
  tn__cg_v steep = fcmp(cg, LLVMRealOGT, ay, ax);
  tn__cg_v numerator = select_of(cg, steep, ax, ay), denominator = select_of(cg, steep, ay, ax);
  /* Sums of the two must not overflow, nor quotients of two below the normal range lose bits. */
  if (!cg->narrow) {
    tn__cg_v big = fcmp(cg, LLVMRealOGT, denominator, real(x, 0x1p1000)),
             small = fcmp(cg, LLVMRealOLT, denominator, real(x, 0x1p-900));
    tn__cg_v scale = select_of(cg, big, real(x, 0x1p-60), select_of(cg, small, real(x, 0x1p100), one));
    numerator = mul(cg, numerator, scale);
    denominator = mul(cg, denominator, scale);
  }
  tn__cg_v left = icmp(cg, LLVMIntSLT, to_bits(cg, x), iconst(to_bits(cg, x), 0));
  /* right: t, steep: pi/2 - t; left: pi - t, steep: pi/2 + t */
  tn__cg_v base_high = select_of(cg, steep, real(x, half_pi_dd[0]), select_of(cg, left, real(x, pi_dd[0]), zero));
  tn__cg_v base_low = select_of(cg, steep, real(x, half_pi_dd[1]), select_of(cg, left, real(x, pi_dd[1]), zero));
  tn__cg_v value = atan_ratio(cg, numerator, denominator, base_high, base_low, ixor(cg, steep, left));
  value = with_sign(cg, value, y);
  if (has_masks(cg)) return select_of(cg, is_nan, real(x, NAN), value);
  tn__cg_v bits = to_bits(cg, value); /* all ones are a NaN, which no blend is needed for */
  return from_bits(cg, ior(cg, bits, LLVMBuildSExt(cg->builder, is_nan, type_of(bits), "")));
}

/* What asin and acos share: s with |s| <= 1/2 and p = s^3 A(s^2), of |x| itself or of sqrt((1 - |x|) / 2). */
typedef struct arc {
  tn__cg_v outside, s, rest;
} arc;

static arc arc_of(tn__cg *cg, tn__cg_v x) {
  tn__cg_v size = size_of(cg, x), half = real(x, 0.5);
  arc a = {.outside = fcmp(cg, LLVMRealOGT, size, half)};
  tn__cg_v z = select_of(cg, a.outside, mul(cg, sub(cg, real(x, 1), size), half), mul(cg, x, x));
  a.s = select_of(cg, a.outside, tn__cg_intrinsic1(cg, "llvm.sqrt", z), size);
  tn__cg_v p = cg->narrow ? tn__cg_polynomial(cg, z, asin_narrow, COUNT(asin_narrow))
                          : tn__cg_polynomial(cg, z, asin_f64, COUNT(asin_f64));
  a.rest = mul(cg, mul(cg, a.s, z), p);
  return a;
}

tn__cg_v tn__cg_asin(tn__cg *cg, tn__cg_v x) {
  arc a = arc_of(cg, x);
  tn__cg_v near = add(cg, a.s, a.rest);
  if (cg->narrow) {
    tn__cg_v left = sub(cg, real(x, half_pi_dd[0]), add(cg, near, near));
    return copysign_of(cg, select_of(cg, a.outside, left, near), x);
  }
  /* pi/2 - 2 (s + rest), from pi/4 + (pi/4 - 2 s) */
  tn__cg_v quarter = real(x, quarter_pi_dd[0]), two_s = add(cg, a.s, a.s);
  tn__cg_v low = sub(cg, real(x, half_pi_dd[1]), add(cg, a.rest, a.rest));
  tn__cg_v far = add(cg, quarter, add(cg, sub(cg, quarter, two_s), low));
  return copysign_of(cg, select_of(cg, a.outside, far, near), x);
}

tn__cg_v tn__cg_acos(tn__cg *cg, tn__cg_v x) {
  arc a = arc_of(cg, x);
  tn__cg_v half_pi_high = real(x, half_pi_dd[0]), half_pi_low = real(x, half_pi_dd[1]);
  tn__cg_v near = sub(cg, half_pi_high, sub(cg, x, sub(cg, half_pi_low, copysign_of(cg, a.rest, x))));
  tn__cg_v sum = add(cg, a.s, a.rest), right = add(cg, sum, sum);
  tn__cg_v left = sub(cg, real(x, pi_dd[0]), sub(cg, right, real(x, pi_dd[1])));
  tn__cg_v far = select_of(cg, fcmp(cg, LLVMRealOLT, x, real(x, 0)), left, right);
  return select_of(cg, a.outside, far, near);
}
