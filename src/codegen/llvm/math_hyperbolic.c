/* sinh, cosh, tanh and their inverses, from expm1, exp, log and log1p. */
#include <math.h>

#include "codegen/llvm/math.h"
#include "codegen/math_tables.h"

/* Beyond this the results of numbers that were f32 are no f32 any more, and roots of what is beyond that are none of
 * f64. */
#define MOST_NARROW 100
#define MOST_ROOT 0x1p300

static tn__cg_v at_most(tn__cg *cg, tn__cg_v x, double high) { /* NaN passes */
  tn__cg_v h = real(x, high);
  return select_of(cg, fcmp(cg, LLVMRealOLT, h, x), h, x);
}

static tn__cg_v or_infinite(tn__cg *cg, tn__cg_v x, tn__cg_v value) {
  return select_of(cg, fcmp(cg, LLVMRealOEQ, x, real(x, INFINITY)), x, value);
}

/* (E + E / (E + 1)) / 2 with E = expm1(|x|); far out, where E would overflow first, exp(|x|) / 2. */
tn__cg_v tn__cg_sinh(tn__cg *cg, tn__cg_v x) {
  const bool narrow = is_narrow(cg, x);
  tn__cg_v size = size_of(cg, x), e = tn__cg_expm1(cg, at_most(cg, size, narrow ? MOST_NARROW : 40));
  tn__cg_v near = mul(cg, real(x, 0.5), add(cg, e, quot(cg, e, add(cg, e, real(x, 1)))));
  if (narrow) return copysign_of(cg, near, x);
  tn__cg_v far = tn__cg_half_exp(cg, size);
  return copysign_of(cg, select_of(cg, fcmp(cg, LLVMRealOGT, size, real(x, 30)), far, near), x);
}

tn__cg_v tn__cg_cosh(tn__cg *cg, tn__cg_v x) {
  if (is_narrow(cg, x)) {
    tn__cg_v e = tn__cg_exp_usual(cg, at_most(cg, size_of(cg, x), MOST_NARROW), NULL);
    return mul(cg, add(cg, e, quot(cg, real(x, 1), e)), real(x, 0.5));
  }
  tn__cg_v half = tn__cg_half_exp(cg, size_of(cg, x));
  return add(cg, half, quot(cg, real(x, 0.25), half));
}

/* An odd polynomial near zero and 1 - 2 / (exp(2 |x|) + 1) elsewhere: in f32 cheaper and closer than by expm1. */
static tn__cg_v tanh_size_f32(tn__cg *cg, tn__cg_v size) {
  tn__cg_v one = real(size, 1), two = real(size, 2), z = mul(cg, size, size);
  tn__cg_v odd = tn__cg_polynomial(cg, z, tanh_f32, (int)(sizeof(tanh_f32) / sizeof(tanh_f32[0])));
  tn__cg_v near = tn__cg_muladd(cg, mul(cg, z, size), odd, size);
  tn__cg_v e = tn__cg_exp(cg, add(cg, size, size));
  tn__cg_v far = sub(cg, one, quot(cg, two, add(cg, e, one)));
  return select_of(cg, fcmp(cg, LLVMRealOLT, size, real(size, 0.55)), near, far);
}

/* In f64 E / (E + 2) with E = expm1(2 |x|). Beyond the limit the result is 1 in either precision. */
tn__cg_v tn__cg_tanh(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  tn__cg_v size = at_most(cg, size_of(cg, x), wide ? 20 : 10);
  if (!wide) return copysign_of(cg, tanh_size_f32(cg, size), x);
  tn__cg_v e = tn__cg_expm1(cg, add(cg, size, size));
  return copysign_of(cg, quot(cg, e, add(cg, e, real(x, 2))), x);
}

/* log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))), log(2 |x|) where the square would overflow. */
tn__cg_v tn__cg_asinh(tn__cg *cg, tn__cg_v x) {
  const bool narrow = is_narrow(cg, x);
  tn__cg_v size = size_of(cg, x), one = real(x, 1), limited = at_most(cg, size, narrow ? MOST_ROOT : 0x1p30);
  tn__cg_v square = mul(cg, limited, limited);
  tn__cg_v root = tn__cg_intrinsic1(cg, "llvm.sqrt", add(cg, square, one));
  tn__cg_v near = tn__cg_log1p(cg, add(cg, limited, quot(cg, square, add(cg, root, one))));
  if (narrow) return copysign_of(cg, or_infinite(cg, size, near), x);
  tn__cg_v far = add(cg, tn__cg_log(cg, size), real(x, ln2_f64[0] + ln2_f64[1]));
  return copysign_of(cg, select_of(cg, fcmp(cg, LLVMRealOGT, size, real(x, 0x1p29)), far, near), x);
}

tn__cg_v tn__cg_acosh(tn__cg *cg, tn__cg_v x) {
  const bool narrow = is_narrow(cg, x);
  tn__cg_v t = at_most(cg, sub(cg, x, real(x, 1)), narrow ? MOST_ROOT : 0x1p30);
  tn__cg_v root = tn__cg_intrinsic1(cg, "llvm.sqrt", mul(cg, t, add(cg, t, real(x, 2))));
  tn__cg_v near = tn__cg_log1p(cg, add(cg, t, root));
  near = select_of(cg, fcmp(cg, LLVMRealOLT, x, real(x, 1)), real(x, NAN), near);
  if (narrow) return or_infinite(cg, x, near);
  tn__cg_v far = add(cg, tn__cg_log(cg, x), real(x, ln2_f64[0] + ln2_f64[1]));
  return select_of(cg, fcmp(cg, LLVMRealOGT, x, real(x, 0x1p29)), far, near);
}

tn__cg_v tn__cg_atanh(tn__cg *cg, tn__cg_v x) {
  tn__cg_v size = size_of(cg, x);
  tn__cg_v ratio = quot(cg, add(cg, size, size), sub(cg, real(x, 1), size));
  return copysign_of(cg, mul(cg, tn__cg_log1p(cg, ratio), real(x, 0.5)), x);
}
