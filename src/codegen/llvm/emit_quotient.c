/* Quotients of f32 by a number that is known. A core is busy with a division for as long as with five to thirty
 * products, and the same quotient, to the last bit, is mostly two of them away. */
#include <math.h>

#include "codegen/llvm/math.h"

/* 1 / y as a sum of two, both of its sign, so that zeros keep theirs and infinities don't meet. */
typedef struct reciprocal {
  float high, low;
} reciprocal;

static float quotient_of(float x, reciprocal r) { return fmaf(x, r.high, x * r.low); }

static reciprocal reciprocal_of(float y) {
  double exact = 1.0 / (double)y;
  float high = (float)exact;
  if (fabs((double)high) > fabs(exact)) high = nextafterf(high, 0);
  return (reciprocal){high, (float)(exact - (double)high)};
}

/* Are all quotients right that are well within the range of f32? What is rounded last is off by 2^-46 at the most, so
 * an x whose quotient is rounded wrongly has it that near to the middle of two numbers: with X and Y the integers that
 * x and y have for fractions, X 2^s differs from an odd multiple of Y by 8 at the most, s being 24 or 25. These X are
 * solved for, and tried. (Brisebarre and Muller, "Correctly rounded multiplication by arbitrary precision constants",
 * 2008, has the like.) */
static bool is_right_for_all(float y, reciprocal r) {
  enum { BITS = 24, NEAREST = 8 };
  int exponent;
  int64_t odd = (int64_t)ldexpf(fabsf(frexpf(y, &exponent)), BITS), twos = 1;
  for (; odd % 2 == 0; odd /= 2) twos *= 2;
  for (int s = BITS; s <= BITS + 1; s++) {
    int64_t inverse = 1; /* of 2^s / twos, modulo `odd` */
    for (int64_t power = twos; power < INT64_C(1) << s; power *= 2)
      inverse = (inverse % 2 == 0 ? inverse : inverse + odd) / 2;
    for (int64_t d = -NEAREST; d <= NEAREST; d++) {
      if (d == 0 || d % twos != 0) continue;
      int64_t first = ((d / twos * inverse) % odd + odd) % odd, least = INT64_C(1) << (BITS - 1);
      if (first < least) first += (least - first + odd - 1) / odd * odd;
      for (int64_t x = first; x < 2 * least; x += odd)
        if (quotient_of((float)x, r) != (float)x / y) return false;
    }
  }
  return true;
}

/* What is cast to the float, if that is an integer which it holds exactly; NULL otherwise. */
static const tn__expr *integer_of(tn__cg *cg, const tn__expr *x) {
  if (x->kind != TN__EXPR_CAST || tn__dtype_is_float(x->args[0]->dtype)) return NULL;
  tn__interval range = tn__interval_of(cg->ir, x->args[0]);
  return range.min >= -(1 << 24) && range.max <= 1 << 24 ? x->args[0] : NULL;
}

/* So few values that all can be tried. */
static bool is_right_for_integers(float y, reciprocal r, tn__interval range) {
  enum { MOST_VALUES = 1 << 16 };
  if (range.max - range.min >= MOST_VALUES) return false;
  for (int64_t x = range.min; x <= range.max; x++)
    if (quotient_of((float)x, r) != (float)x / y) return false;
  return true;
}

/* Is the quotient one by a known number that two products give? */
TN_MUST_USE static bool has_reciprocal(tn__cg *cg, const tn__expr *e, float *y, reciprocal *r) {
  int exponent;
  if (e->kind != TN__EXPR_DIV || e->dtype != TN_F32 || e->args[1]->kind != TN__EXPR_FLOAT || !cg->has_fma) return false;
  *y = (float)e->args[1]->value.f;
  if (!(fabsf(*y) >= 0x1p-20F && fabsf(*y) <= 0x1p20F)) return false;
  if (fabsf(frexpf(*y, &exponent)) == 0.5F) return false; /* LLVM knows */
  *r = reciprocal_of(*y);
  const tn__expr *integer = integer_of(cg, e->args[0]);
  return is_right_for_all(*y, *r) ||
         (integer != NULL && is_right_for_integers(*y, *r, tn__interval_of(cg->ir, integer)));
}

static LLVMValueRef divided(tn__cg *cg, const tn__cg_special *s) { return LLVMBuildFDiv(cg->builder, s->x, s->y, ""); }

bool tn__cg_quotient(tn__cg *cg, const tn__expr *e, tn__cg_value *out) {
  float y;
  reciprocal r;
  if (cg->frame->lanes == 1 || !has_reciprocal(cg, e, &y, &r)) return false;
  *out = tn__cg_expr(cg, e->args[0]);
  tn__cg_v x = out->v;
  if (out->lanes == 1) { /* the same for all lanes: once */
    out->v = LLVMBuildFDiv(cg->builder, x, real(x, (double)y), "");
    return true;
  }
  out->v = tn__cg_fma(cg, x, real(x, (double)r.high), mul(cg, x, real(x, (double)r.low)));
  if (integer_of(cg, e->args[0]) != NULL) return true;
  /* Of numbers below 2^-40, 0 apart, the lower product may have left the range. */
  tn__cg_v bits = iand(cg, to_bits(cg, x), iconst(to_bits(cg, x), INT32_MAX)), least = to_bits(cg, real(x, 0x1p-40));
  tn__cg_special s = {.x = x, .y = real(x, (double)y)};
  s.is_special = icmp(cg, LLVMIntULT, isub(cg, bits, iconst(bits, 1)), isub(cg, least, iconst(bits, 1)));
  out->v = tn__cg_seldom(cg, &s, out->v, divided);
  return true;
}
