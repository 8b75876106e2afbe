/* Powers whose exponent is a number that products and roots have an answer to. */
#include <math.h>

#include "ir/context.h"

/* Neither below zero nor -0, as far as `depth` levels of the expression show. */
static bool is_never_negative(const tn__expr *e, int depth) {
  if (e->kind == TN__EXPR_CALL) return e->intrinsic == TN__CALL_ABS || e->intrinsic == TN__CALL_EXP;
  if (e->kind == TN__EXPR_MUL && e->args[0] == e->args[1]) return true;
  if (depth > 0 && (e->kind == TN__EXPR_MUL || e->kind == TN__EXPR_ADD))
    return is_never_negative(e->args[0], depth - 1) && is_never_negative(e->args[1], depth - 1);
  return e->kind == TN__EXPR_FLOAT && e->value.f > 0;
}

/* A root, times x if so. It gives -0 for -0 and NaN for -inf, where a power gives 0 and `infinite`: pow(-inf, 1.5) is
 * +inf. */
static const tn__expr *root(tn__ir *ir, tn__intrinsic intrinsic, const tn__expr *x, bool times_x, double infinite) {
  bool never = is_never_negative(x, 3);
  const tn__expr *from = never ? x : tn__ir_add(ir, x, tn__ir_float(ir, x->dtype, 0));
  const tn__expr *value = tn__ir_call1(ir, intrinsic, from);
  if (times_x) value = tn__ir_mul(ir, from, value);
  if (never) return value;
  const tn__expr *is_least = tn__ir_eq(ir, x, tn__ir_float(ir, x->dtype, -INFINITY));
  return tn__ir_select(ir, is_least, tn__ir_float(ir, x->dtype, infinite), value);
}

/* By repeated squaring, modulo two to the number of bits. */
static const tn__expr *whole_power(tn__ir *ir, const tn__expr *x, const tn__expr *y) {
  enum { MOST = 64 };
  if (y->kind != TN__EXPR_INT || y->value.i < 0 || y->value.i > MOST) return NULL;
  const tn__expr *result = tn__ir_int(ir, x->dtype, 1), *base = x;
  for (int64_t rest = y->value.i; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0) result = tn__ir_mul(ir, result, base);
    if (rest > 1) base = tn__ir_mul(ir, base, base);
  }
  return result;
}

const tn__expr *tn__ir_small_power(tn__ir *ir, const tn__expr *x, const tn__expr *y) {
  if (!tn__dtype_is_float(x->dtype)) return whole_power(ir, x, y);
  if (y->kind != TN__EXPR_FLOAT || (x->dtype != TN_F32 && x->dtype != TN_F64)) return NULL;
  double power = y->value.f;
  if (power == 1) return x;
  if (power == -1) return tn__ir_div(ir, tn__ir_float(ir, x->dtype, 1), x);
  if (power == 2) return tn__ir_mul(ir, x, x);
  if (power == 3) return tn__ir_mul(ir, tn__ir_mul(ir, x, x), x);
  if (power == 1.5) return root(ir, TN__CALL_SQRT, x, true, INFINITY);
  if (power == 0.5) return root(ir, TN__CALL_SQRT, x, false, INFINITY);
  if (power == 0.25) return tn__ir_call1(ir, TN__CALL_SQRT, root(ir, TN__CALL_SQRT, x, false, INFINITY));
  if (power == -0.5) return root(ir, TN__CALL_RSQRT, x, false, 0);
  return NULL;
}
