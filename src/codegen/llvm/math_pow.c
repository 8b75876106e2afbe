/* pow. */
#include <math.h>
#include <stdio.h>

#include "codegen/llvm/arch.h"
#include "codegen/llvm/math.h"
#include "codegen/math_tables.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- any numbers ------------------------------------------------------------------------------------------------- */

/* log of a positive f64 to about 2^-68, as high + low. With s = f / (2 + f) in two pieces: log(1 + f) = 2 s + s^3 (2/3
 * + s^2 T(s^2)). */
static tn__cg_pair log_pair(tn__cg *cg, tn__cg_v x) {
  tn__cg_log_parts p = tn__cg_split_any(cg, x);
  tn__cg_v f = p.f, two = real(x, 2);
  tn__cg_pair bottom = tn__cg_fast_two_sum(cg, two, f);
  tn__cg_pair s = {.high = quot(cg, f, bottom.high)};
  tn__cg_pair back = tn__cg_exact_product(cg, s.high, bottom.high);
  tn__cg_v remainder = sub(cg, sub(cg, f, back.high), back.low);
  remainder = sub(cg, remainder, mul(cg, s.high, bottom.low));
  s.low = quot(cg, remainder, bottom.high);
  tn__cg_pair z = tn__cg_pair_product(cg, s, s);
  tn__cg_v tail = mul(cg, z.high, tn__cg_polynomial(cg, z.high, log_tail_f64, COUNT(log_tail_f64)));
  tn__cg_pair series = tn__cg_fast_two_sum(cg, real(x, two_thirds_dd[0]), tail);
  series.low = add(cg, series.low, real(x, two_thirds_dd[1]));
  tn__cg_pair cubic = tn__cg_pair_product(cg, tn__cg_pair_product(cg, s, z), series);
  tn__cg_pair e_high = {.high = mul(cg, p.exponent, real(x, ln2_f64[0]))}; /* exact */
  tn__cg_v e_low = mul(cg, p.exponent, real(x, ln2_f64[1]));
  tn__cg_pair sum = tn__cg_two_sum(cg, e_high.high, mul(cg, s.high, two));
  tn__cg_pair sum2 = tn__cg_two_sum(cg, sum.high, cubic.high);
  tn__cg_v low = add(cg, mul(cg, s.low, two), cubic.low);
  low = add(cg, low, add(cg, sum.low, sum2.low));
  tn__cg_pair sum3 = tn__cg_two_sum(cg, sum2.high, e_low);
  return tn__cg_fast_two_sum(cg, sum3.high, add(cg, low, sum3.low));
}

/* The same of a positive f32 to about 2^-30, by fused steps. What is left out of the series is 2^-27 of its first term,
 * which is at most a hundredth of 2 s. */
static tn__cg_pair log_pair_f32(tn__cg *cg, tn__cg_v x, tn__cg_log_parts p) {
  static const double series[] = {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11};
  tn__cg_v two = real(x, 2);
  tn__cg_pair bottom = tn__cg_fast_two_sum(cg, two, p.f);
  tn__cg_v inverse = quot(cg, real(x, 1), bottom.high), s = mul(cg, p.f, inverse);
  tn__cg_v remainder = tn__cg_fma(cg, neg(cg, s), bottom.high, p.f);
  remainder = tn__cg_fma(cg, neg(cg, s), bottom.low, remainder);
  tn__cg_pair z = tn__cg_exact_product(cg, s, s), cube = tn__cg_exact_product(cg, z.high, s);
  tn__cg_v lost = tn__cg_fma(cg, z.low, s, cube.low); /* of the third power, and of 2/3 */
  lost = tn__cg_fma(cg, cube.high, real(x, 2.0 / 3 - (double)(float)(2.0 / 3)), mul(cg, lost, real(x, series[0])));
  tn__cg_pair sum = tn__cg_two_sum(cg, mul(cg, p.exponent, real(x, ln2_f32[0])), mul(cg, s, two)); /* exact, both */
  /* Least first, so that few steps round what is not small. */
  tn__cg_v rest = add(cg, tn__cg_fma(cg, p.exponent, real(x, ln2_f32[1]), sum.low), lost);
  rest = tn__cg_fma(cg, mul(cg, remainder, inverse), two, rest);
  rest = tn__cg_fma(cg, cube.high, tn__cg_polynomial(cg, z.high, series, COUNT(series)), rest);
  return tn__cg_fast_two_sum(cg, sum.high, rest);
}

/* size^y of a size that is not negative, by exp(y log(size)) with the logarithm in two pieces. */
static tn__cg_v pow_magnitude(tn__cg *cg, tn__cg_v size, tn__cg_v y) {
  bool wide = is_f64(cg, size);
  tn__cg_pair l = wide ? log_pair(cg, size) : log_pair_f32(cg, size, tn__cg_split_any(cg, size));
  /* Beyond this the result is 0 or infinite for every size that is not 1; the limit keeps the exact product in
   * range. */
  tn__cg_v limited = tn__cg_clamped(cg, y, wide ? -0x1p64 : -0x1p32, wide ? 0x1p64 : 0x1p32);
  tn__cg_pair p = tn__cg_exact_product(cg, l.high, limited);
  tn__cg_v tail = tn__cg_muladd(cg, l.low, limited, p.low);
  tn__cg_v value = tn__cg_exp_scaled(cg, p.high, tail, 0);
  /* Zero and infinity have no logarithm to speak of. */
  tn__cg_v grows = fcmp(cg, LLVMRealOGT, y, real(y, 0)), zero = real(y, 0), infinite = real(y, INFINITY);
  value = select_of(cg, fcmp(cg, LLVMRealOEQ, size, zero), select_of(cg, grows, zero, infinite), value);
  value = select_of(cg, fcmp(cg, LLVMRealOEQ, size, infinite), select_of(cg, grows, infinite, zero), value);
  tn__cg_v huge = fcmp(cg, LLVMRealOGT, size_of(cg, p.high), real(y, wide ? 800 : 110));
  tn__cg_v extreme = select_of(cg, fcmp(cg, LLVMRealOGT, p.high, zero), infinite, zero);
  value = select_of(cg, huge, extreme, value);
  tn__cg_v is_nan = ior(cg, fcmp(cg, LLVMRealUNO, size, size), fcmp(cg, LLVMRealUNO, y, y));
  return select_of(cg, is_nan, real(y, NAN), value);
}

/* `narrow`: f64 numbers that were f32, for which a plain logarithm is exact enough. */
static tn__cg_v pow_of(tn__cg *cg, tn__cg_v x, tn__cg_v y, bool narrow) {
  tn__cg_v size = size_of(cg, x), zero = real(x, 0), one = real(x, 1);
  tn__cg_v value = narrow ? tn__cg_exp(cg, mul(cg, y, tn__cg_log(cg, size))) : pow_magnitude(cg, size, y);
  tn__cg_v half = mul(cg, y, real(y, 0.5));
  tn__cg_v is_int = fcmp(cg, LLVMRealOEQ, tn__cg_trunc(cg, y), y);
  tn__cg_v is_odd = iand(cg, is_int, fcmp(cg, LLVMRealONE, tn__cg_trunc(cg, half), half));
  tn__cg_v is_negative = icmp(cg, LLVMIntSLT, to_bits(cg, x), iconst(to_bits(cg, x), 0));
  value = select_of(cg, iand(cg, is_odd, is_negative), neg(cg, value), value);
  tn__cg_v is_finite_negative = iand(cg, fcmp(cg, LLVMRealOLT, x, zero), fcmp(cg, LLVMRealOGT, x, real(x, -INFINITY)));
  value = select_of(cg, iand(cg, is_finite_negative, LLVMBuildNot(cg->builder, is_int, "")), real(x, NAN), value);
  tn__cg_v unit_base =
      iand(cg, fcmp(cg, LLVMRealOEQ, size, one), fcmp(cg, LLVMRealOEQ, size_of(cg, y), real(y, INFINITY)));
  tn__cg_v gives_one = ior(cg, fcmp(cg, LLVMRealOEQ, y, zero), fcmp(cg, LLVMRealOEQ, x, one));
  return select_of(cg, ior(cg, gives_one, unit_base), one, value);
}

/* The same out of line: with numbers that are seldom there. */
static tn__cg_v any_pow(tn__cg *cg, const tn__cg_special *s) {
  LLVMTypeRef type = type_of(s->x), params[] = {type, type}, function_type = LLVMFunctionType(type, params, 2, 0);
  LLVMValueRef function, args[] = {s->x, s->y};
  LLVMBasicBlockRef saved;
  char name[64];
  snprintf(name, sizeof(name), "tn.pow.any.%s.%d", is_f64(cg, s->x) ? "f64" : "f32", tn__cg_lanes(type));
  if (tn__cg_helper_begin(cg, name, function_type, false, &function, &saved)) {
    tn__cg_helper_is_pure(cg, function);
    LLVMBuildRet(cg->builder, pow_of(cg, LLVMGetParam(function, 0), LLVMGetParam(function, 1), false));
    tn__cg_helper_end(cg, saved);
  }
  return LLVMBuildCall2(cg->builder, function_type, function, args, 2, "");
}

/* The number that all lanes are, if there is one. */
TN_MUST_USE static bool is_number(tn__cg_v v, double *number) {
  LLVMBool inexact;
  if (!LLVMIsConstant(v)) return false;
  if (LLVMGetTypeKind(type_of(v)) == LLVMVectorTypeKind) {
    LLVMValueRef first = LLVMGetAggregateElement(v, 0);
    for (unsigned i = 1; i < LLVMGetVectorSize(type_of(v)); i++)
      if (LLVMGetAggregateElement(v, i) != first) return false;
    v = first;
  }
  if (v == NULL || LLVMIsAConstantFP(v) == NULL) return false;
  *number = LLVMConstRealGetDouble(v, &inexact);
  return true;
}

/* Zeros, as black pixels are, and numbers below it, which a condition leaves out, with an exponent that is known and no
 * whole number. */
static tn__cg_v zero_or_any_pow(tn__cg *cg, const tn__cg_special *s) {
  double y = 0;
  tn__cg_v zero = real(s->x, 0);
  if (!is_number(s->y, &y) || !isfinite(y) || y == trunc(y)) return any_pow(cg, s);
  tn__cg_v value = select_of(cg, fcmp(cg, LLVMRealOEQ, s->x, zero), real(zero, y > 0 ? 0 : INFINITY), real(zero, NAN));
  tn__cg_v is_simple = fcmp(cg, LLVMRealOLE, s->x, zero);
  is_simple = iand(cg, is_simple, fcmp(cg, LLVMRealOGT, s->x, real(zero, -INFINITY)));
  tn__cg_special any = *s;
  any.is_special = iand(cg, s->is_special, LLVMBuildNot(cg->builder, is_simple, ""));
  return tn__cg_seldom(cg, &any, value, any_pow);
}

/* ---- usual numbers ----------------------------------------------------------------------------------------------- */

/* The f32 x^y, log(x) being `l`, where y log(x) is of a size that leaves the result in the normal range. `is_special`
 * may be NULL. */
static tn__cg_v usual_pow(tn__cg *cg, tn__cg_v x, tn__cg_v y, tn__cg_pair l, tn__cg_v is_special) {
  tn__cg_pair p = tn__cg_exact_product(cg, l.high, y);
  tn__cg_v usual = tn__cg_exp_usual(cg, p.high, tn__cg_muladd(cg, l.low, y, p.low));
  tn__cg_special s = {.x = x, .y = y};
  s.is_special = fcmp(cg, LLVMRealUGE, size_of(cg, p.high), real(y, 86.5)); /* or NaN */
  if (is_special != NULL) s.is_special = ior(cg, is_special, s.is_special);
  return tn__cg_seldom(cg, &s, usual, zero_or_any_pow);
}

/* The same for an exponent of at most 4, which is known: 2^(y (e + log2(1 + f))). What y multiplies by does not
 * make much of an error, so the logarithm need not be exact beside itself, but beside 1: log(1 + f) = f - f^2 / 2 + f^3
 * Q(f), of which the first two terms are a pair, and no quotient. */
static tn__cg_v known_pow(tn__cg *cg, tn__cg_v x, double number) {
  double scale = number * 1.4426950408889634, few_bits = (double)(float)number;
  tn__cg_log_parts p = tn__cg_split_usual(cg, x);
  tn__cg_v f = p.f, square = mul(cg, f, f), half = real(x, -0.5), scale_high = real(x, scale);
  tn__cg_v high = tn__cg_fma(cg, square, half, f), low = tn__cg_fma(cg, square, half, sub(cg, f, high));
  low = tn__cg_fma(cg, mul(cg, square, f), tn__cg_polynomial(cg, f, log_f32, COUNT(log_f32)), low);
  tn__cg_pair a = tn__cg_exact_product(cg, high, scale_high);
  low = tn__cg_fma(cg, low, scale_high, a.low);
  low = tn__cg_fma(cg, high, real(x, scale - (double)(float)scale), low);
  /* 16 bits of y times the 8 of e are exact, and so is the difference to the whole number next to the sum. */
  few_bits -= fmod(few_bits, ldexp(1, ilogb(few_bits) - 15));
  low = tn__cg_fma(cg, p.exponent, real(x, number - few_bits), low);
  tn__cg_v whole = mul(cg, p.exponent, real(x, few_bits)), magic = real(x, 0x1.8p23);
  tn__cg_v sum = add(cg, whole, add(cg, a.high, low));
  tn__cg_v shifted = add(cg, sum, magic), n = sub(cg, shifted, magic);
  tn__cg_v r = add(cg, add(cg, sub(cg, whole, n), a.high), low);
  tn__cg_v power = tn__cg_fma(cg, tn__cg_polynomial(cg, r, exp2_f32, COUNT(exp2_f32)), r, real(x, 1));
  tn__cg_v usual = from_bits(cg, iadd(cg, to_bits(cg, power), shl_by(cg, to_bits(cg, shifted), 23)));
  tn__cg_special s = {.x = x, .y = real(x, number)};
  s.is_special = tn__cg_is_unusual(cg, x);
  s.is_special = ior(cg, s.is_special, fcmp(cg, LLVMRealUGE, size_of(cg, sum), real(x, 125)));
  return tn__cg_seldom(cg, &s, usual, zero_or_any_pow);
}

/* ---- exponents and bases that are known -------------------------------------------------------------------------- */

/* A product of a number that is no pair, or is the same pair, and of one; sums are not carried over. */
static tn__cg_pair times(tn__cg *cg, tn__cg_pair a, tn__cg_pair b) {
  tn__cg_pair p = tn__cg_exact_product(cg, a.high, b.high);
  bool square = a.high == b.high && a.low != NULL; /* one rounding less, which counts below the normal range */
  if (a.low != NULL) p.low = tn__cg_fma(cg, square ? add(cg, a.low, a.low) : a.low, b.high, p.low);
  if (b.low != NULL && !square) p.low = tn__cg_fma(cg, b.low, a.high, p.low);
  return p;
}

/* x^n by products, with what rounding takes from them. */
static tn__cg_pair pair_power(tn__cg *cg, tn__cg_pair x, int n) {
  tn__cg_pair factor = x, all = {NULL};
  for (int left = n; left > 0; left /= 2) {
    if (left % 2 == 1) all = all.high == NULL ? factor : times(cg, all, factor);
    if (left > 1) factor = times(cg, factor, factor);
  }
  return all;
}

/* p, of that size, times `factor`, rounded once, p being `share` of the result's exponent. Where that is beyond
 * the range of the type, what rounding took is no number, and nothing that counts. */
static tn__cg_v rounded_product(tn__cg *cg, tn__cg_pair p, tn__cg_v size, tn__cg_v low_factor, tn__cg_v factor,
                                double share) {
  const double beyond = is_f64(cg, p.high) ? 1028 : 132;
  tn__cg_v inside = fcmp(cg, LLVMRealOLT, size, real(p.high, ldexp(1, (int)(beyond * share))));
  tn__cg_v low = select_of(cg, inside, mul(cg, p.low, low_factor), real(p.high, 0));
  return tn__cg_fma(cg, p.high, factor, low);
}

/* x^n of an n above 1, the square of a power that is a pair, rounded once. An odd n rounds twice: x times that, or,
 * where the power itself has no sign that a zero might lose, the power times x times the power, of which one is a third
 * power that others may want. */
static tn__cg_v fused_power(tn__cg *cg, tn__cg_v x, int n) {
  tn__cg_pair root = pair_power(cg, (tn__cg_pair){.high = x}, n / 2);
  const bool odd = n % 2 == 1, has_sign = n / 2 % 2 == 1, inside = odd && !has_sign;
  tn__cg_v other = inside ? mul(cg, root.high, x) : root.high, size = has_sign ? size_of(cg, root.high) : root.high;
  const int half = n / 2;
  const double share = inside ? (double)half / n : 0.5;
  tn__cg_v value = root.low == NULL ? mul(cg, other, root.high)
                                    : rounded_product(cg, root, size, add(cg, other, other), other, share);
  return odd && has_sign ? mul(cg, x, value) : value;
}

/* x^-n, of the reciprocal, so that nothing is beyond the range before the result is. */
static tn__cg_v fused_reciprocal_power(tn__cg *cg, tn__cg_v x, int n) {
  tn__cg_pair factor = {.high = quot(cg, real(x, 1), x)};
  factor.low = mul(cg, tn__cg_fma(cg, neg(cg, x), factor.high, real(x, 1)), factor.high);
  tn__cg_pair all = pair_power(cg, factor, n);
  tn__cg_v sum = add(cg, all.high, all.low);
  return select_of(cg, fcmp(cg, LLVMRealUEQ, sum, real(x, 0)), all.high, sum);
}

/* With y near 1 / sqrt(x) and e = 1 - x y^2, x^(-k/2) = y^k (1 + k/2 e + k (k + 2) / 8 e^2 + ...), with what rounding
 * takes. */
static tn__cg_v corrected_root_power(tn__cg *cg, tn__cg_v x, tn__cg_v root, int k) {
  tn__cg_pair y = {.high = root}, t = times(cg, (tn__cg_pair){.high = x}, y), power = pair_power(cg, y, k);
  tn__cg_v e = tn__cg_fma(cg, neg(cg, t.high), root, real(x, 1));
  e = tn__cg_fma(cg, neg(cg, t.low), root, e);
  tn__cg_v series = tn__cg_fma(cg, e, real(x, k * (k + 2) / 8.0), real(x, k / 2.0));
  tn__cg_v rest = power.low != NULL ? power.low : real(x, 0);
  tn__cg_v low = tn__cg_fma(cg, mul(cg, e, series), power.high, rest);
  tn__cg_v inside = fcmp(cg, LLVMRealOLT, power.high, real(x, INFINITY));
  return add(cg, power.high, select_of(cg, inside, low, real(x, 0)));
}

/* The same of numbers that are seldom there, and of those below zero. */
static tn__cg_v any_root_power(tn__cg *cg, tn__cg_v x, int k) {
  tn__cg_v zero = real(x, 0), from = add(cg, x, zero); /* no -0 */
  tn__cg_special s = {.x = from};
  tn__cg_v root = tn__cg_divided_rsqrt(cg, &s), value = corrected_root_power(cg, from, root, k);
  value =
      select_of(cg, fcmp(cg, LLVMRealUNO, value, value), pair_power(cg, (tn__cg_pair){.high = root}, k).high, value);
  return select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, -INFINITY)), zero, value);
}

static tn__cg_v any_minus_3_halves(tn__cg *cg, const tn__cg_special *s) { return any_root_power(cg, s->x, 3); }
static tn__cg_v any_minus_5_halves(tn__cg *cg, const tn__cg_special *s) { return any_root_power(cg, s->x, 5); }
static tn__cg_v any_minus_7_halves(tn__cg *cg, const tn__cg_special *s) { return any_root_power(cg, s->x, 7); }

/* x^(-k/2) of an odd k: in f32 a root of half the digits will do. */
static tn__cg_v fused_root_power(tn__cg *cg, tn__cg_v x, int k) {
  tn__cg_special s = {.x = x, .is_special = tn__cg_is_unusual(cg, x)};
  tn__cg_v root = tn__cg_rough_rsqrt(cg, x, is_f64(cg, x) ? 2 : 0);
  return tn__cg_seldom(cg, &s, corrected_root_power(cg, x, root, k),
                       k == 3   ? any_minus_3_halves
                       : k == 5 ? any_minus_5_halves
                                : any_minus_7_halves);
}

/* x^(k/2) of an odd k from 3 on. */
static tn__cg_v fused_half_power(tn__cg *cg, tn__cg_v x, int k) {
  tn__cg_v from = add(cg, x, real(x, 0)), root = tn__cg_intrinsic1(cg, "llvm.sqrt", from); /* no -0 */
  tn__cg_pair whole = pair_power(cg, (tn__cg_pair){.high = from}, k / 2);
  tn__cg_v value =
      k == 3 ? mul(cg, from, root) : rounded_product(cg, whole, whole.high, root, root, (k - 1) / (double)k);
  return select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, -INFINITY)), real(x, INFINITY), value);
}

/* f64 has room for what rounding takes, and for the exponents. */
static tn__cg_v wide_power(tn__cg *cg, tn__cg_v x, int n) {
  tn__cg_v factor = to_f64(cg, x), all = NULL;
  for (unsigned left = (unsigned)(n < 0 ? -n : n); left > 0; left /= 2) {
    if (left % 2 == 1) all = all == NULL ? factor : mul(cg, all, factor);
    if (left > 1) factor = mul(cg, factor, factor);
  }
  return to_f32(cg, n < 0 ? quot(cg, real(all, 1), all) : all);
}

/* In f32 without fused steps, the detour through f64 is shorter than pieces of products. */
tn__cg_v tn__cg_pow(tn__cg *cg, tn__cg_v x, tn__cg_v y) {
  enum { LARGEST_WHOLE = 16, LARGEST_KNOWN = 4 };
  static const double largest_half = 3.5;
  double number;
  bool wide = is_f64(cg, x);
  const bool known = is_number(y, &number) && isfinite(number);
  if (known && number == trunc(number) && fabs(number) > 1 && fabs(number) <= LARGEST_WHOLE) {
    if (cg->has_fma) return number > 0 ? fused_power(cg, x, (int)number) : fused_reciprocal_power(cg, x, -(int)number);
    if (!wide) return wide_power(cg, x, (int)number);
  }
  if (known && cg->has_fma && 2 * number == trunc(2 * number) && fabs(number) > 1 && fabs(number) <= largest_half) {
    const int halves = (int)(2 * fabs(number));
    return number > 0 ? fused_half_power(cg, x, halves) : fused_root_power(cg, x, halves);
  }
  if (wide) return pow_of(cg, x, y, false);
  if (!cg->has_fma) return to_f32(cg, pow_of(cg, to_f64(cg, x), to_f64(cg, y), true));
  if (is_number(x, &number) && number > 0 && isfinite(number)) {
    double log_of_it = log(number), high = (double)(float)log_of_it;
    return usual_pow(cg, x, y, (tn__cg_pair){real(x, high), real(x, log_of_it - high)}, NULL);
  }
  if (is_number(y, &number) && fabs(number) <= LARGEST_KNOWN && fabs(number) >= 0x1p-100)
    return known_pow(cg, x, number);
  tn__cg_pair l = log_pair_f32(cg, x, tn__cg_split_usual(cg, x));
  tn__cg_v is_unusual = tn__cg_is_unusual(cg, x);
  return usual_pow(cg, x, y, l, is_unusual);
}
