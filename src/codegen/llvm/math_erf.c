/* The error function. */
#include <math.h>

#include "codegen/llvm/math.h"
#include "codegen/llvm/math_tables.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Inside of [-1, 1] an odd polynomial. Outside 1 - erfc: in f32 erfc is exp of a polynomial, in f64 exp(-x^2) times one
 * in a variable that maps the half line to an interval. Beyond the limit erfc is less than half a unit of 1's last
 * place. */
tn__cg_v tn__cg_erf(tn__cg *cg, tn__cg_v x) {
  bool wide = is_f64(cg, x);
  tn__cg_v size = size_of(cg, x), limit = real(x, wide ? 6.25 : 4);
  tn__cg_v square = mul(cg, x, x);
  tn__cg_v even = wide ? tn__cg_polynomial(cg, square, erf_small_f64, COUNT(erf_small_f64))
                       : tn__cg_polynomial(cg, square, erf_small_f32, COUNT(erf_small_f32));
  tn__cg_v near = tn__cg_muladd(cg, x, even, x);
  tn__cg_v far = select_of(cg, fcmp(cg, LLVMRealOLT, limit, size), limit, size), erfc_far;
  if (wide) {
    tn__cg_v two = real(x, 2), t = quot(cg, sub(cg, far, two), add(cg, far, two));
    tn__cg_v scale = tn__cg_exp(cg, neg(cg, mul(cg, far, far)));
    erfc_far = mul(cg, scale, tn__cg_polynomial(cg, t, erf_large_f64, COUNT(erf_large_f64)));
  } else {
    erfc_far = tn__cg_exp(cg, neg(cg, tn__cg_polynomial(cg, far, erf_large_f32, COUNT(erf_large_f32))));
  }
  tn__cg_v outer = copysign_of(cg, sub(cg, real(x, 1), erfc_far), x);
  return select_of(cg, fcmp(cg, LLVMRealOLT, size, real(x, 1)), near, outer);
}
