#include <math.h>

#include "base/invariant.h"
#include "ir/linear.h"

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* Of two bounds on the same side: unbounded when either is. A finite sum that overflows is unbounded in its own
 * direction. */
int64_t tn__ir_bound_add(int64_t a, int64_t b) {
  if (a == INT64_MIN || a == INT64_MAX) return a;
  if (b == INT64_MIN || b == INT64_MAX) return b;
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a > 0 ? INT64_MAX : INT64_MIN;
  return r;
}

int64_t tn__ir_bound_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  bool negative = (a < 0) != (b < 0);
  bool unbounded = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
  int64_t r;
  if (unbounded || __builtin_mul_overflow(a, b, &r)) return negative ? INT64_MIN : INT64_MAX;
  return r;
}

static int64_t bound_div(int64_t a, int64_t b) {
  if (b == INT64_MAX || b == INT64_MIN) return (a < 0) != (b < 0) && a != 0 ? -1 : 0;
  if (a == INT64_MAX || a == INT64_MIN) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return tn__ir_floordiv_i64(a, b);
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static const tn__interval unbounded = {INT64_MIN, INT64_MAX};

static tn__interval add(tn__interval a, tn__interval b) {
  tn__interval r = {tn__ir_bound_add(a.min, b.min), tn__ir_bound_add(a.max, b.max)};
  /* An overflow in the other direction says nothing: exact arithmetic may not have it. */
  if (r.min == INT64_MAX) r.min = INT64_MAX - 1;
  if (r.max == INT64_MIN) r.max = INT64_MIN + 1;
  return r;
}

static tn__interval negate(tn__interval a) {
  return (tn__interval){tn__ir_bound_mul(a.max, -1), tn__ir_bound_mul(a.min, -1)};
}

static tn__interval hull(tn__interval a, tn__interval b) {
  return (tn__interval){lesser(a.min, b.min), greater(a.max, b.max)};
}

static tn__interval corners(tn__interval a, tn__interval b, int64_t (*op)(int64_t, int64_t)) {
  int64_t p = op(a.min, b.min), q = op(a.min, b.max), r = op(a.max, b.min), s = op(a.max, b.max);
  return (tn__interval){lesser(lesser(p, q), lesser(r, s)), greater(greater(p, q), greater(r, s))};
}

static tn__interval divide(tn__interval a, tn__interval b) {
  if (b.min > 0 || b.max < 0) return corners(a, b, bound_div);
  /* The divisor is not zero when the result exists: its magnitude is at least one. */
  if (b.min == 0 && b.max > 0) return corners(a, (tn__interval){1, b.max}, bound_div);
  int64_t size = greater(tn__ir_bound_mul(a.min, -1), a.max);
  size = greater(size, tn__ir_bound_mul(a.max, -1));
  size = greater(size, a.min);
  return size == INT64_MAX ? unbounded : (tn__interval){-size, size};
}

static tn__interval modulo(tn__interval a, tn__interval b) {
  if (b.min == 0 && b.max > 0) b.min = 1;
  if (b.min > 0) {
    if (a.min >= 0 && a.max < b.min) return a;
    int64_t top = b.max == INT64_MAX ? INT64_MAX : b.max - 1;
    return (tn__interval){0, a.min >= 0 ? lesser(top, a.max) : top};
  }
  return (tn__interval){b.min == INT64_MIN ? INT64_MIN : lesser(b.min + 1, 0),
                        b.max == INT64_MAX ? INT64_MAX : greater(b.max - 1, 0)};
}

tn__interval tn__ir_dtype_interval(tn_dtype dtype) {
  int bits = tn__dtype_bits(dtype);
  if (dtype == TN_BOOL) return (tn__interval){0, 1};
  if (dtype == TN_U64) return (tn__interval){0, INT64_MAX};
  if (dtype == TN_I64 || !tn__dtype_is_int(dtype)) return unbounded;
  if (tn__dtype_is_unsigned(dtype)) return (tn__interval){0, (INT64_C(1) << bits) - 1};
  return (tn__interval){-(INT64_C(1) << (bits - 1)), (INT64_C(1) << (bits - 1)) - 1};
}

/* ---- intervals of expressions ------------------------------------------------------------------------------------ */

typedef struct ranging {
  tn__ir *ir;
  int depth; /* of bounds of variables in bounds of variables */
} ranging;

enum { MAX_RANGE_DEPTH = 64 };

static tn__interval interval(ranging *r, const tn__expr *e);

static tn__interval interval_of_var(ranging *r, const tn__var *var) {
  tn__interval range = tn__ir_dtype_interval(var->dtype);
  if (var->min == NULL || r->depth >= MAX_RANGE_DEPTH) return range;
  r->depth++;
  tn__interval min = interval(r, var->min);
  range.min = greater(range.min, min.min);
  if (var->extent != NULL) {
    bool constant = var->min->kind == TN__EXPR_INT;
    tn__interval end =
        constant ? add(min, interval(r, var->extent)) : interval(r, tn__ir_add(r->ir, var->min, var->extent));
    range.max = lesser(range.max, end.max == INT64_MAX ? INT64_MAX : end.max - 1);
    range.max = greater(range.max, range.min); /* an empty range: nothing is evaluated, anything is true */
  }
  r->depth--;
  return range;
}

static tn__interval interval_of_binary(ranging *r, const tn__expr *e) {
  tn__interval a = interval(r, e->args[0]), b = interval(r, e->args[1]);
  switch (e->kind) {
    case TN__EXPR_ADD: return add(a, b);
    case TN__EXPR_SUB: return add(a, negate(b));
    case TN__EXPR_MUL: return corners(a, b, tn__ir_bound_mul);
    case TN__EXPR_DIV: return divide(a, b);
    case TN__EXPR_MOD: return modulo(a, b);
    case TN__EXPR_MIN: return (tn__interval){lesser(a.min, b.min), lesser(a.max, b.max)};
    case TN__EXPR_MAX: return (tn__interval){greater(a.min, b.min), greater(a.max, b.max)};
    case TN__EXPR_AND:
      if (a.min >= 0 && b.min >= 0) return (tn__interval){0, lesser(a.max, b.max)};
      return unbounded;
    case TN__EXPR_SHR:
      if (a.min >= 0 && b.min >= 0) return (tn__interval){0, b.min < 63 ? a.max >> b.min : 0};
      if (b.min != b.max || b.min < 0 || b.min > 62 || a.min == INT64_MIN || a.max == INT64_MAX) return unbounded;
      return (tn__interval){a.min >> b.min, a.max >> b.min};
    default: return unbounded;
  }
}

static tn__interval interval_of_call(ranging *r, const tn__expr *e) {
  switch (e->intrinsic) {
    case TN__CALL_LIKELY: return interval(r, e->args[0]);
    case TN__CALL_POPCOUNT:
    case TN__CALL_CLZ: return (tn__interval){0, tn__dtype_bits(e->dtype)};
    case TN__CALL_NEG: return negate(interval(r, e->args[0]));
    case TN__CALL_SUM8: return (tn__interval){0, 8 * 255};
    case TN__CALL_DOT4: return (tn__interval){4 * 255 * -128, 4 * 255 * 127};
    case TN__CALL_ABS: {
      tn__interval a = interval(r, e->args[0]);
      if (a.min >= 0) return a;
      return a.min == INT64_MIN ? unbounded : (tn__interval){0, greater(-a.min, a.max)};
    }
    default: return unbounded;
  }
}

static tn__interval compute(ranging *r, const tn__expr *e) {
  tn__interval whole = tn__ir_dtype_interval(e->dtype), range;
  if (tn__dtype_is_float(e->dtype)) return whole;
  switch (e->kind) {
    case TN__EXPR_INT: return e->dtype == TN_U64 && e->value.i < 0 ? whole : (tn__interval){e->value.i, e->value.i};
    case TN__EXPR_VAR: range = interval_of_var(r, e->value.var); break;
    case TN__EXPR_SELECT: range = hull(interval(r, e->args[1]), interval(r, e->args[2])); break;
    case TN__EXPR_CAST:
      range = tn__dtype_is_float(e->args[0]->dtype) || e->dtype == TN_BOOL ? whole : interval(r, e->args[0]);
      if (e->args[0]->dtype == TN_U64 && range.max == INT64_MAX) range = whole;
      break;
    case TN__EXPR_CALL: range = interval_of_call(r, e); break;
    case TN__EXPR_NOT:
    case TN__EXPR_BITCAST:
    case TN__EXPR_LOAD: return whole;
    case TN__EXPR_EQ:
    case TN__EXPR_NE:
    case TN__EXPR_LT:
    case TN__EXPR_LE: return whole;
    default:
      if (e->dtype == TN_BOOL) return whole;
      range = interval_of_binary(r, e);
      break;
  }
  /* What does not fit into the type wraps around: it may be anything. */
  return range.min < whole.min || range.max > whole.max ? whole : range;
}

static tn__interval interval(ranging *r, const tn__expr *e) {
  tn__node *node = tn__node_of(e);
  if (!node->has_interval) {
    tn__interval range = compute(r, e);
    if (r->depth >= MAX_RANGE_DEPTH) return range;
    node->interval = range;
    node->has_interval = true;
  }
  return node->interval;
}

tn__interval tn__interval_of(tn__ir *ir, const tn__expr *e) {
  if (tn__node_of(e)->has_interval) return tn__node_of(e)->interval;
  ranging r = {.ir = ir};
  return interval(&r, e);
}

double tn__ir_extent_estimate(const tn__expr *extent) {
  int64_t n;
  return tn__ir_as_int(extent, &n) ? (double)n : TN__OPEN_EXTENT;
}

double tn__ir_elements_estimate(const tn__buffer *buffer) {
  double count = 1;
  for (int d = 0; d < buffer->rank; d++) count *= tn__ir_extent_estimate(buffer->shape[d]);
  return count;
}

double tn__ir_middle(const tn__expr *e) {
  if (e->kind == TN__EXPR_INT) return (double)e->value.i;
  if (e->kind == TN__EXPR_VAR) {
    const tn__var *var = e->value.var;
    double min = var->min != NULL ? tn__ir_middle(var->min) : NAN;
    if (var->extent == NULL) return min > TN__OPEN_EXTENT ? min : TN__OPEN_EXTENT;
    return min + (tn__ir_middle(var->extent) - 1) / 2;
  }
  if (e->arg_count != 2 || e->dtype != TN_I64) return NAN;
  double a = tn__ir_middle(e->args[0]), b = tn__ir_middle(e->args[1]);
  switch (e->kind) {
    case TN__EXPR_ADD: return a + b;
    case TN__EXPR_SUB: return a - b;
    case TN__EXPR_MUL: return a * b;
    case TN__EXPR_DIV: return floor(a / b);
    case TN__EXPR_MIN: return a < b ? a : b;
    case TN__EXPR_MAX: return a > b ? a : b;
    default: return NAN;
  }
}

/* ---- symbolic bounds --------------------------------------------------------------------------------------------- */

/* How e moves with var: 1 never down, -1 never up, 0 not at all, 2 unknown. */
static int direction(tn__ir *ir, const tn__expr *e, const tn__var *var);

static int join(int a, int b) { return a == 0 ? b : b == 0 || a == b ? a : 2; }

static int scaled(int d, tn__interval factor) {
  if (d == 0 || d == 2) return d;
  return factor.min >= 0 ? d : factor.max <= 0 ? -d : 2;
}

static int direction(tn__ir *ir, const tn__expr *e, const tn__var *var) {
  if ((tn__node_of(e)->var_mask & tn__var_bit(var)) == 0 || !tn__expr_uses_var(e, var)) return 0;
  switch (e->kind) {
    case TN__EXPR_VAR: return 1;
    case TN__EXPR_ADD:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return join(direction(ir, e->args[0], var), direction(ir, e->args[1], var));
    case TN__EXPR_MUL: {
      int a = direction(ir, e->args[0], var), b = direction(ir, e->args[1], var);
      return join(scaled(a, tn__interval_of(ir, e->args[1])), scaled(b, tn__interval_of(ir, e->args[0])));
    }
    case TN__EXPR_DIV: {
      tn__interval divisor = tn__interval_of(ir, e->args[1]);
      if (tn__expr_uses_var(e->args[1], var) || (divisor.min < 0 && divisor.max > 0)) return 2;
      return scaled(direction(ir, e->args[0], var), divisor);
    }
    default: return 2;
  }
}

static const tn__expr *extreme_over(tn__ir *ir, const tn__expr *e, const tn__var *const *vars, int count, int sign) {
  const tn__var *previous = NULL;
  for (int round = 0; round < count; round++) {
    /* Youngest first: its bounds may speak of the older ones. */
    const tn__var *var = NULL;
    for (int i = 0; i < count; i++) {
      TN__INVARIANT(vars[i] != NULL); /* they are dimensions and loops that exist */
      if ((previous == NULL || vars[i]->id < previous->id) && (var == NULL || vars[i]->id > var->id)) var = vars[i];
    }
    if (var == NULL) break;
    previous = var;
    int d = direction(ir, e, var);
    if (d == 0) continue;
    if (d == 2 || var->min == NULL) return NULL;
    if (d * sign > 0 && var->extent == NULL) return NULL;
    const tn__expr *end = d * sign > 0 ? tn__ir_add_i(ir, tn__ir_add(ir, var->min, var->extent), -1) : var->min;
    e = tn__ir_substitute(ir, e, &var, &end, 1);
  }
  return e;
}

bool tn__ir_bounds_over(tn__ir *ir, const tn__expr *e, const tn__var *const *vars, int count, const tn__expr **min_out,
                        const tn__expr **max_out) {
  if (e->dtype != TN_I64) return false;
  *min_out = extreme_over(ir, e, vars, count, -1);
  *max_out = extreme_over(ir, e, vars, count, 1);
  return *min_out != NULL && *max_out != NULL;
}

bool tn__ir_prove(tn__ir *ir, const tn__expr *condition) {
  switch (condition->kind) {
    case TN__EXPR_INT: return condition->value.i != 0;
    case TN__EXPR_AND: return tn__ir_prove(ir, condition->args[0]) && tn__ir_prove(ir, condition->args[1]);
    case TN__EXPR_OR: return tn__ir_prove(ir, condition->args[0]) || tn__ir_prove(ir, condition->args[1]);
    case TN__EXPR_CALL: return condition->intrinsic == TN__CALL_LIKELY && tn__ir_prove(ir, condition->args[0]);
    default: return false; /* the constructors of comparisons have tried */
  }
}

/* ---- affine form ------------------------------------------------------------------------------------------------- */

static int index_of(const tn__expr *e, const tn__var *const *vars, int count) {
  for (int i = 0; i < count && e->kind == TN__EXPR_VAR; i++)
    if (vars[i] == e->value.var) return i;
  return -1;
}

static bool uses_any(const tn__expr *e, const tn__var *const *vars, int count) {
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(e, vars[i])) return true;
  return false;
}

bool tn__ir_affine_in(tn__ir *ir, const tn__expr *e, const tn__var *const *vars, int count,
                      const tn__expr **coefficients, const tn__expr **rest) {
  if (e->dtype != TN_I64) return false;
  tn__linear l;
  tn__linear_init(&l);
  tn__linear_add(ir, &l, e, 1);
  for (int i = 0; i < count; i++) coefficients[i] = tn__ir_index(ir, 0);
  *rest = tn__ir_index(ir, l.constant);
  for (int i = 0; i < l.count; i++) {
    const tn__expr *factors[8], *cofactor = tn__ir_index(ir, l.terms[i].coefficient);
    int factor_count = tn__ir_factors(l.terms[i].atom, factors, 8), which = -1;
    if (factor_count > 8 && uses_any(l.terms[i].atom, vars, count)) return false;
    if (factor_count > 8) {
      factors[0] = l.terms[i].atom;
      factor_count = 1;
    }
    for (int j = 0; j < factor_count; j++) {
      int at = index_of(factors[j], vars, count);
      if (at >= 0 && which < 0) {
        which = at;
        continue;
      }
      if (uses_any(factors[j], vars, count)) return false;
      cofactor = tn__ir_mul(ir, cofactor, factors[j]);
    }
    if (which < 0)
      *rest = tn__ir_add(ir, *rest, cofactor);
    else
      coefficients[which] = tn__ir_add(ir, coefficients[which], cofactor);
  }
  return true;
}

bool tn__ir_stride_in(tn__ir *ir, const tn__expr *e, const tn__var *var, int64_t *stride) {
  const tn__expr *coefficient, *rest;
  return tn__ir_affine_in(ir, e, &var, 1, &coefficient, &rest) && tn__ir_as_int(coefficient, stride);
}
