/* The error function. */
#include <math.h>

#include "codegen/llvm/math.h"
#include "codegen/math_tables.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Inside of [-1, 1] an odd polynomial. Outside 1 - erfc, which is exp(-x^2) times a polynomial in a variable that maps
 * the half line to an interval. Beyond the limit erfc is less than half a unit of 1's last place. */
static tn__cg_v erf_f64(tn__cg *cg, tn__cg_v x) {
  tn__cg_v size = size_of(cg, x), limit = real(x, 6.25), two = real(x, 2);
  tn__cg_v even = tn__cg_polynomial(cg, mul(cg, x, x), erf_small_f64, COUNT(erf_small_f64));
  tn__cg_v near = tn__cg_muladd(cg, x, even, x);
  tn__cg_v far = select_of(cg, fcmp(cg, LLVMRealOLT, limit, size), limit, size);
  tn__cg_v t = quot(cg, sub(cg, far, two), add(cg, far, two));
  tn__cg_v scale = tn__cg_exp(cg, neg(cg, mul(cg, far, far)));
  tn__cg_v erfc_far = mul(cg, scale, tn__cg_polynomial(cg, t, erf_large_f64, COUNT(erf_large_f64)));
  tn__cg_v outer = copysign_of(cg, sub(cg, real(x, 1), erfc_far), x);
  return select_of(cg, fcmp(cg, LLVMRealOLT, size, real(x, 1)), near, outer);
}

/* 1 - exp(-P), P = -log(erfc(|x|)) = 9/8 |x| + |x| E(|x|), everywhere: no second branch for small x, since 1 - exp
 * keeps the relative accuracy of P. */
static tn__cg_v erf_f32(tn__cg *cg, tn__cg_v x) {
  tn__cg_v size = size_of(cg, x), limit = real(x, 4);
  size = select_of(cg, fcmp(cg, LLVMRealOLT, limit, size), limit, size);
  tn__cg_v rest = mul(cg, size, tn__cg_polynomial(cg, size, erf_all_f32, COUNT(erf_all_f32)));
  tn__cg_v power = neg(cg, tn__cg_muladd(cg, size, real(x, 1.125), rest));
  return copysign_of(cg, tn__cg_one_minus_exp(cg, power), x);
}

tn__cg_v tn__cg_erf(tn__cg *cg, tn__cg_v x) { return is_f64(cg, x) ? erf_f64(cg, x) : erf_f32(cg, x); }
