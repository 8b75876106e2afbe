/* exp, expm1, log, log1p. */
#include <math.h>

#include "codegen/llvm/arch.h"
#include "codegen/llvm/math.h"
#include "codegen/math_tables.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- exp --------------------------------------------------------------------------------------------------------- */

/* x limited to [low, high]; NaN passes (the comparisons put it second, where x86's min and max return it). */
tn__cg_v tn__cg_clamped(tn__cg *cg, tn__cg_v x, double low, double high) {
  tn__cg_v h = real(x, high), l = real(x, low);
  x = select_of(cg, fcmp(cg, LLVMRealOLT, h, x), h, x);
  return select_of(cg, fcmp(cg, LLVMRealOGT, l, x), l, x);
}

typedef struct exp_parts {
  tn__cg_v count;     /* n as a float */
  tn__cg_v n;         /* n as an integer of the float's width */
  tn__cg_v exponent;  /* the same where a float has its exponent */
  tn__cg_v r, second; /* exp(x) = 2^n (1 + r + r^2 second) */
} exp_parts;

/* x + tail = n ln2 + r, |r| <= ln2 / 2. Adding 1.5 * 2^(precision-1) leaves n in the low bits, whatever the rounding of
 * x / ln2. */
static exp_parts reduce_exp(tn__cg *cg, tn__cg_v x, tn__cg_v tail) {
  bool wide = is_f64(cg, x);
  tn__cg_v magic = real(x, wide ? 0x1.8p52 : 0x1.8p23);
  tn__cg_v shifted = tn__cg_muladd(cg, x, real(x, 0x1.71547652b82fep+0), magic);
  tn__cg_v count = sub(cg, shifted, magic);
  const double *ln2 = wide ? ln2_f64 : ln2_f32;
  const bool narrow = is_narrow(cg, x);
  tn__cg_v r = tn__cg_muladd(cg, count, real(x, narrow ? -(ln2[0] + ln2[1]) : -ln2[0]), x);
  if (!narrow) r = tn__cg_muladd(cg, count, real(x, -ln2[1]), r);
  if (tail != NULL) r = add(cg, r, tail);
  tn__cg_v q = narrow ? tn__cg_polynomial(cg, r, exp_narrow, COUNT(exp_narrow))
               : wide ? tn__cg_polynomial(cg, r, exp_f64, COUNT(exp_f64))
                      : tn__cg_polynomial(cg, r, exp_f32, COUNT(exp_f32));
  exp_parts parts = {.count = count, .r = r, .second = q};
  parts.n = isub(cg, to_bits(cg, shifted), to_bits(cg, magic));
  parts.exponent = shl_by(cg, to_bits(cg, shifted), wide ? 52 : 23);
  return parts;
}

static tn__cg_v expm1_of(tn__cg *cg, const exp_parts *parts) {
  return tn__cg_muladd(cg, mul(cg, parts->r, parts->r), parts->second, parts->r);
}

/* 1 + r + r^2 second. With fused steps 1 + r (1 + r second) is one operation less, for a sixth of a unit in the last
 * place. */
static tn__cg_v exp_of(tn__cg *cg, const exp_parts *parts) {
  tn__cg_v r = parts->r, one = real(r, 1);
  if (is_f64(cg, r) || !cg->has_fma) return add(cg, expm1_of(cg, parts), one);
  return tn__cg_muladd(cg, tn__cg_muladd(cg, parts->second, r, one), r, one);
}

/* 2^n for n in the range of normal exponents. */
static tn__cg_v power_of_two(tn__cg *cg, tn__cg_v n) {
  bool wide = tn__cg_element(type_of(n)) == cg->i64;
  return from_bits(cg, shl_by(cg, iadd(cg, n, iconst(n, wide ? 1023 : 127)), wide ? 52 : 23));
}

/* The bits of a result below the normal range, which is a number of the smallest steps: that number, rounded once. */
static tn__cg_v bits_of_steps(tn__cg *cg, tn__cg_v steps) {
  tn__cg_v magic = real(steps, is_f64(cg, steps) ? 0x1p52 : 0x1p23); /* leaves whole numbers in the low bits */
  return isub(cg, to_bits(cg, add(cg, steps, magic)), to_bits(cg, magic));
}

/* exp(x + tail) 2^extra, extra being 0 or -1. Results below the normal range are counted in steps, as numbers of usual
 * size: many cores take a hundred times as long for an operation that ends there, or in zero because of it. The others
 * are scaled in two steps, the first exact; an instruction for it does the same to the last bit. */
tn__cg_v tn__cg_exp_scaled(tn__cg *cg, tn__cg_v x, tn__cg_v tail, int extra) {
  bool wide = is_f64(cg, x);
  int fraction = wide ? 52 : 23, bias = wide ? 1023 : 127, steps = bias - 1 + fraction;
  exp_parts parts = reduce_exp(cg, tn__cg_clamped(cg, x, wide ? -746 : -104.5, wide ? 711 : 90), tail);
  tn__cg_v value = exp_of(cg, &parts), bits = to_bits(cg, value), count = parts.count, scaled = NULL;
  tn__cg_v n = extra == 0 ? parts.n : iadd(cg, parts.n, iconst(parts.n, extra));
  tn__cg_v is_small = icmp(cg, LLVMIntSLT, n, iconst(n, 1 - bias));
  if (extra != 0) count = add(cg, count, real(x, extra));
  if (cg->arch->scale != NULL) scaled = cg->arch->scale(cg, value, select_of(cg, is_small, real(x, 0), count));
  if (scaled == NULL) {
    tn__cg_v usual = select_of(cg, is_small, iconst(n, 0), n), first = ashr_by(cg, usual, 1);
    scaled = mul(cg, value, power_of_two(cg, first));
    scaled = mul(cg, scaled, power_of_two(cg, isub(cg, usual, first)));
  }
  tn__cg_v number = iadd(cg, bits, shl_by(cg, iadd(cg, n, iconst(n, steps)), fraction));
  return from_bits(cg, select_of(cg, is_small, bits_of_steps(cg, from_bits(cg, number)), to_bits(cg, scaled)));
}

tn__cg_v tn__cg_exp_usual(tn__cg *cg, tn__cg_v x, tn__cg_v tail) {
  exp_parts parts = reduce_exp(cg, x, tail);
  return from_bits(cg, iadd(cg, to_bits(cg, exp_of(cg, &parts)), parts.exponent));
}

static tn__cg_v small_exp(tn__cg *cg, const tn__cg_special *s) { return tn__cg_exp_scaled(cg, s->x, NULL, 0); }

/* Masks give arguments whose result is zero, and to whole vectors: nothing is to be computed for them. */
static tn__cg_v small_or_zero_exp(tn__cg *cg, const tn__cg_special *s) {
  double least = is_f64(cg, s->x) ? -746 : -104.5;
  tn__cg_v is_some = fcmp(cg, LLVMRealOGE, s->x, real(s->x, least));
  tn__cg_special small = {.is_special = iand(cg, s->is_special, is_some), .x = s->x};
  return tn__cg_seldom(cg, &small, real(s->x, 0), small_exp);
}

/* Where all lanes have results of the normal range, 2^n may still be beyond it: half of it and twice the rest. */
tn__cg_v tn__cg_exp(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  double least = wide ? -708 : -86.9; /* n is that of the least normal number, and one */
  double most = wide ? 710 : 88.8;    /* infinite, and n is not yet one more */
  int64_t half = (int64_t)(wide ? 1022 : 126) << (wide ? 52 : 23);
  tn__cg_v is_small = fcmp(cg, LLVMRealOLT, x, real(x, least));
  exp_parts parts = reduce_exp(cg, tn__cg_clamped(cg, x, least, most), NULL);
  tn__cg_v value = exp_of(cg, &parts), usual = NULL;
  if (cg->arch->scale != NULL) usual = cg->arch->scale(cg, value, parts.count);
  if (usual == NULL) {
    tn__cg_v power = from_bits(cg, iadd(cg, parts.exponent, iconst(parts.exponent, half)));
    usual = mul(cg, add(cg, value, value), power);
  }
  tn__cg_special s = {.is_special = is_small, .x = x};
  return tn__cg_seldom(cg, &s, usual, small_or_zero_exp);
}

tn__cg_v tn__cg_half_exp(tn__cg *cg, tn__cg_v x) { return tn__cg_exp_scaled(cg, x, NULL, -1); }

/* 2 (s p + (s - 1/2)) with s = 2^(n-1): no overflow before the last step, and no rounding of p when n is 0. */
tn__cg_v tn__cg_expm1(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  exp_parts parts = reduce_exp(cg, tn__cg_clamped(cg, x, wide ? -40 : -19, wide ? 710 : 89), NULL);
  tn__cg_v s = power_of_two(cg, isub(cg, parts.n, iconst(parts.n, 1)));
  tn__cg_v half = tn__cg_muladd(cg, s, expm1_of(cg, &parts), sub(cg, s, real(x, 0.5)));
  if (is_narrow(cg, x)) return add(cg, half, half); /* what is tiny for f64 is no f32 but zero */
  tn__cg_v tiny = fcmp(cg, LLVMRealOLT, size_of(cg, x), real(x, wide ? 0x1p-54 : 0x1p-25));
  return select_of(cg, tiny, x, add(cg, half, half));
}

/* (1 - s) - s expm1_r with s = 2^n: the first is exact, and 0 for the small x whose result is only as good as
 * expm1_r. */
tn__cg_v tn__cg_one_minus_exp(tn__cg *cg, tn__cg_v x) {
  exp_parts parts = reduce_exp(cg, x, NULL);
  tn__cg_v s = power_of_two(cg, parts.n);
  return tn__cg_muladd(cg, neg(cg, s), expm1_of(cg, &parts), sub(cg, real(x, 1), s));
}

/* ---- log --------------------------------------------------------------------------------------------------------- */

/* Of positive normal x. Counted from 2^-bias sqrt(1/2) the exponent has no sign: AVX2 shifts none along with 64
 * bits. */
tn__cg_log_parts tn__cg_split_usual(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  int fraction = wide ? 52 : 23, bias = wide ? 1023 : 127;
  const int64_t one = INT64_C(1) << fraction;
  tn__cg_v root = to_bits(cg, real(x, wide ? 0x1.6a09e667f3bcdp-1 : (double)0x1.6a09e6p-1f));
  tn__cg_v least = isub(cg, root, iconst(root, bias * one)), above = isub(cg, to_bits(cg, x), least);
  tn__cg_v m = from_bits(cg, iadd(cg, iand(cg, above, iconst(above, one - 1)), root));
  tn__cg_v magic = real(x, wide ? 0x1p52 : 0x1p23), biased = lshr_by(cg, above, fraction);
  tn__cg_v exponent = sub(cg, from_bits(cg, ior(cg, biased, to_bits(cg, magic))), add(cg, magic, real(x, bias)));
  return (tn__cg_log_parts){.f = sub(cg, m, real(x, 1)), .exponent = exponent};
}

/* Of positive finite x; other x give something that special_log replaces. */
tn__cg_log_parts tn__cg_split_any(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  tn__cg_v is_small = fcmp(cg, LLVMRealOLT, x, real(x, wide ? 0x1p-1022 : 0x1p-126));
  tn__cg_v scaled = select_of(cg, is_small, mul(cg, x, real(x, wide ? 0x1p54 : 0x1p25)), x);
  tn__cg_log_parts p = tn__cg_split_usual(cg, scaled);
  p.exponent = select_of(cg, is_small, sub(cg, p.exponent, real(x, wide ? 54 : 25)), p.exponent);
  return p;
}

static tn__cg_v special_log(tn__cg *cg, tn__cg_v x, tn__cg_v value) {
  value = select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, INFINITY)), x, value);
  value = select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, 0)), real(x, -INFINITY), value);
  return select_of(cg, fcmp(cg, LLVMRealOGE, x, real(x, 0)), value, real(x, NAN));
}

static tn__cg_v log_f32_of(tn__cg *cg, tn__cg_v x, tn__cg_log_parts p) {
  tn__cg_v square = mul(cg, p.f, p.f), e = p.exponent;
  tn__cg_v rest = mul(cg, mul(cg, square, p.f), tn__cg_polynomial(cg, p.f, log_f32, COUNT(log_f32)));
  rest = tn__cg_muladd(cg, e, real(x, ln2_f32[1]), rest);
  rest = tn__cg_muladd(cg, square, real(x, -0.5), rest);
  return tn__cg_muladd(cg, e, real(x, ln2_f32[0]), add(cg, p.f, rest));
}

/* With s = f / (2 + f): log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 L(s^2)), as fdlibm arranges it, because f is exact. */
static tn__cg_v log_f64_of(tn__cg *cg, tn__cg_v x, tn__cg_log_parts p) {
  tn__cg_v f = p.f, e = p.exponent;
  tn__cg_v s = quot(cg, f, add(cg, f, real(x, 2))), z = mul(cg, s, s);
  tn__cg_v half_square = mul(cg, mul(cg, f, f), real(x, 0.5));
  tn__cg_v series = mul(cg, z, tn__cg_polynomial(cg, z, log_f64, COUNT(log_f64)));
  tn__cg_v rest = mul(cg, s, add(cg, half_square, series));
  rest = tn__cg_muladd(cg, e, real(x, ln2_f64[1]), rest);
  return tn__cg_muladd(cg, e, real(x, ln2_f64[0]), sub(cg, f, sub(cg, half_square, rest)));
}

/* The same without what f64 alone shows: 2 s + s^3 L(s^2). */
static tn__cg_v log_narrow_of(tn__cg *cg, tn__cg_v x, tn__cg_log_parts p) {
  tn__cg_v s = quot(cg, p.f, add(cg, p.f, real(x, 2))), z = mul(cg, s, s);
  tn__cg_v series = tn__cg_muladd(cg, z, tn__cg_polynomial(cg, z, log_narrow, COUNT(log_narrow)), real(x, 2));
  return tn__cg_muladd(cg, p.exponent, real(x, ln2_f64[0] + ln2_f64[1]), mul(cg, s, series));
}

static tn__cg_v log_of(tn__cg *cg, tn__cg_v x, tn__cg_log_parts p) {
  if (is_narrow(cg, x)) return log_narrow_of(cg, x, p);
  return is_f64(cg, x) ? log_f64_of(cg, x, p) : log_f32_of(cg, x, p);
}

static tn__cg_v any_log(tn__cg *cg, const tn__cg_special *s) {
  return special_log(cg, s->x, log_of(cg, s->x, tn__cg_split_any(cg, s->x)));
}

tn__cg_v tn__cg_log(tn__cg *cg, tn__cg_v x) {
  tn__cg_special s = {.x = x};
  tn__cg_v usual = log_of(cg, x, tn__cg_split_usual(cg, x));
  s.is_special = tn__cg_is_unusual(cg, x);
  return tn__cg_seldom(cg, &s, usual, any_log);
}

/* 1 + x has all of x but where that is small, and the start of the series will do. */
static tn__cg_v log1p_narrow(tn__cg *cg, tn__cg_v x) {
  tn__cg_v second = tn__cg_muladd(cg, x, real(x, 1 / 3.0), real(x, -0.5));
  tn__cg_v small = tn__cg_muladd(cg, mul(cg, x, x), second, x);
  tn__cg_v is_small = fcmp(cg, LLVMRealOLT, size_of(cg, x), real(x, 0x1p-12));
  return select_of(cg, is_small, small, tn__cg_log(cg, add(cg, x, real(x, 1))));
}

/* log(u) + (x - (u - 1)) / u with u = 1 + x rounded: the second term puts back what the rounding took (Kahan). */
tn__cg_v tn__cg_log1p(tn__cg *cg, tn__cg_v x) {
  if (is_narrow(cg, x)) return log1p_narrow(cg, x);
  tn__cg_v u = add(cg, x, real(x, 1));
  tn__cg_v lost = sub(cg, x, sub(cg, u, real(x, 1)));
  tn__cg_v value = add(cg, tn__cg_log(cg, u), quot(cg, lost, u));
  tn__cg_v plain = fcmp(cg, LLVMRealOGT, u, real(x, 0));
  plain = iand(cg, plain, fcmp(cg, LLVMRealOLT, u, real(x, INFINITY)));
  value = select_of(cg, plain, value, special_log(cg, u, u));
  tn__cg_v tiny = fcmp(cg, LLVMRealOLT, size_of(cg, x), real(x, is_f64(cg, x) ? 0x1p-54 : 0x1p-25));
  return select_of(cg, tiny, x, value);
}
