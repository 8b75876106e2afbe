/* The constructors of operations: types are checked, constants folded, and i64 handed to the canonical forms. */
#include <math.h>

#include "ir/linear.h"
#include "ir/scalar.h"

static bool is_constant(const tn__expr *e) { return e->kind == TN__EXPR_INT || e->kind == TN__EXPR_FLOAT; }

static tn__scalar scalar_of(const tn__expr *e) {
  if (e->kind == TN__EXPR_FLOAT) return (tn__scalar){.f = e->value.f};
  return (tn__scalar){.i = e->value.i};
}

static const tn__expr *constant_of(tn__ir *ir, tn_dtype dtype, tn__scalar value) {
  return tn__dtype_is_float(dtype) ? tn__ir_float(ir, dtype, value.f) : tn__ir_int(ir, dtype, value.i);
}

static bool is_comparison(tn__expr_kind kind) { return kind >= TN__EXPR_EQ && kind <= TN__EXPR_LE; }

static bool is_float_value(const tn__expr *e, double value) {
  return e->kind == TN__EXPR_FLOAT && e->value.f == value && signbit(e->value.f) == signbit(value);
}

/* Rules that hold for every float, NaN, infinities and signed zeros included. */
static const tn__expr *simplify_float(tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  switch (kind) {
    case TN__EXPR_ADD:
      if (is_float_value(b, -0.0)) return a;
      return is_float_value(a, -0.0) ? b : NULL;
    case TN__EXPR_SUB: return is_float_value(b, 0.0) ? a : NULL;
    case TN__EXPR_MUL:
      if (is_float_value(b, 1.0)) return a;
      return is_float_value(a, 1.0) ? b : NULL;
    case TN__EXPR_DIV: return is_float_value(b, 1.0) ? a : NULL;
    default: return NULL;
  }
}

static const tn__expr *simplify_logic(tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  if (a->dtype != TN_BOOL) return a == b ? a : NULL;
  bool dominant = kind == TN__EXPR_OR; /* the value that decides */
  if (a == b) return a;
  for (int side = 0; side < 2; side++) {
    const tn__expr *c = side == 0 ? a : b, *other = side == 0 ? b : a;
    if (is_constant(c)) return (c->value.i != 0) == dominant ? c : other;
  }
  return NULL;
}

/* Integers other than i64 wrap around: only rules of modular arithmetic. */
static const tn__expr *simplify_int(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  switch (kind) {
    case TN__EXPR_ADD:
      if (tn__ir_is_int_value(b, 0)) return a;
      return tn__ir_is_int_value(a, 0) ? b : NULL;
    case TN__EXPR_SUB: return tn__ir_is_int_value(b, 0) ? a : a == b ? tn__ir_int(ir, a->dtype, 0) : NULL;
    case TN__EXPR_MUL:
      if (tn__ir_is_int_value(b, 1) || tn__ir_is_int_value(a, 0)) return a;
      return tn__ir_is_int_value(a, 1) || tn__ir_is_int_value(b, 0) ? b : NULL;
    case TN__EXPR_DIV: return tn__ir_is_int_value(b, 1) ? a : NULL;
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return tn__ir_is_int_value(b, 0) ? a : NULL;
    default: return NULL;
  }
}

static const tn__expr *decide_int(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  tn__interval x = tn__interval_of(ir, a), y = tn__interval_of(ir, b);
  bool below = x.max != INT64_MAX && x.max < y.min, above = y.max != INT64_MAX && y.max < x.min;
  bool at_most = x.max != INT64_MAX && x.max <= y.min, at_least = y.max != INT64_MAX && y.max <= x.min;
  switch (kind) {
    case TN__EXPR_EQ:
    case TN__EXPR_NE:
      if (a == b || below || above) return tn__ir_bool(ir, (a == b) == (kind == TN__EXPR_EQ));
      return NULL;
    case TN__EXPR_LT:
      if (below) return tn__ir_bool(ir, true);
      return a == b || at_least ? tn__ir_bool(ir, false) : NULL;
    case TN__EXPR_LE:
      if (a == b || at_most) return tn__ir_bool(ir, true);
      return above ? tn__ir_bool(ir, false) : NULL;
    case TN__EXPR_MIN: return a == b || at_most ? a : at_least ? b : NULL;
    case TN__EXPR_MAX: return a == b || at_least ? a : at_most ? b : NULL;
    default: return NULL;
  }
}

static const tn__expr *binary_index(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  switch (kind) {
    case TN__EXPR_ADD: return tn__ir_canonical_add(ir, a, b, 1);
    case TN__EXPR_SUB: return tn__ir_canonical_add(ir, a, b, -1);
    case TN__EXPR_MUL: return tn__ir_canonical_mul(ir, a, b);
    case TN__EXPR_DIV: return tn__ir_canonical_div(ir, a, b);
    case TN__EXPR_MOD: return tn__ir_canonical_mod(ir, a, b);
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return tn__ir_canonical_extreme(ir, kind, a, b);
    default: return tn__ir_canonical_compare(ir, kind, a, b);
  }
}

const tn__expr *tn__ir_binary(tn__ir *ir, tn__expr_kind kind, const tn__expr *a, const tn__expr *b) {
  tn_dtype dtype = a->dtype;
  if (dtype != b->dtype || !tn__ir_binary_takes(kind, dtype))
    tn__ir_defect(ir, "operation %d on operands of type %s and %s", (int)kind, tn_dtype_name(dtype),
                  tn_dtype_name(b->dtype));
  tn_dtype result = is_comparison(kind) ? TN_BOOL : dtype;
  tn__scalar folded;
  if (is_constant(a) && is_constant(b) && tn__scalar_binary(kind, dtype, scalar_of(a), scalar_of(b), &folded))
    return constant_of(ir, result, folded);
  const tn__expr *simple = NULL;
  if (kind == TN__EXPR_AND || kind == TN__EXPR_OR) {
    simple = simplify_logic(kind, a, b);
  } else if (tn__dtype_is_float(dtype)) {
    simple = simplify_float(kind, a, b);
  } else if (dtype == TN_I64 && kind <= TN__EXPR_LE) {
    return binary_index(ir, kind, a, b);
  } else {
    simple = simplify_int(ir, kind, a, b);
    if (simple == NULL) simple = decide_int(ir, kind, a, b);
  }
  return simple != NULL ? simple : tn__ir_intern2(ir, kind, result, a, b);
}

const tn__expr *tn__ir_add(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_ADD, a, b);
}
const tn__expr *tn__ir_sub(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_SUB, a, b);
}
const tn__expr *tn__ir_mul(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_MUL, a, b);
}
const tn__expr *tn__ir_div(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_DIV, a, b);
}
const tn__expr *tn__ir_mod(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_MOD, a, b);
}
const tn__expr *tn__ir_min(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_MIN, a, b);
}
const tn__expr *tn__ir_max(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_MAX, a, b);
}
const tn__expr *tn__ir_eq(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_EQ, a, b);
}
const tn__expr *tn__ir_ne(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_NE, a, b);
}
const tn__expr *tn__ir_lt(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_LT, a, b);
}
const tn__expr *tn__ir_le(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_LE, a, b);
}
const tn__expr *tn__ir_and(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_AND, a, b);
}
const tn__expr *tn__ir_or(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_binary(ir, TN__EXPR_OR, a, b);
}

const tn__expr *tn__ir_add_i(tn__ir *ir, const tn__expr *a, int64_t c) {
  return tn__ir_add(ir, a, tn__ir_index(ir, c));
}
const tn__expr *tn__ir_mul_i(tn__ir *ir, const tn__expr *a, int64_t c) {
  return tn__ir_mul(ir, a, tn__ir_index(ir, c));
}
const tn__expr *tn__ir_div_i(tn__ir *ir, const tn__expr *a, int64_t c) {
  return tn__ir_div(ir, a, tn__ir_index(ir, c));
}
const tn__expr *tn__ir_mod_i(tn__ir *ir, const tn__expr *a, int64_t c) {
  return tn__ir_mod(ir, a, tn__ir_index(ir, c));
}

const tn__expr *tn__ir_ceildiv(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_div(ir, tn__ir_add_i(ir, tn__ir_add(ir, a, b), -1), b);
}

const tn__expr *tn__ir_not(tn__ir *ir, const tn__expr *a) {
  if (tn__dtype_is_float(a->dtype)) tn__ir_defect(ir, "! on an operand of type %s", tn_dtype_name(a->dtype));
  if (is_constant(a)) return tn__ir_int(ir, a->dtype, tn__scalar_not(a->dtype, scalar_of(a)).i);
  if (a->kind == TN__EXPR_NOT) return a->args[0];
  if (a->kind == TN__EXPR_EQ) return tn__ir_ne(ir, a->args[0], a->args[1]);
  if (a->kind == TN__EXPR_NE) return tn__ir_eq(ir, a->args[0], a->args[1]);
  bool ordered = (a->kind == TN__EXPR_LT || a->kind == TN__EXPR_LE) && !tn__dtype_is_float(a->args[0]->dtype);
  if (ordered && a->kind == TN__EXPR_LT) return tn__ir_le(ir, a->args[1], a->args[0]);
  if (ordered) return tn__ir_lt(ir, a->args[1], a->args[0]);
  return tn__ir_intern_op(ir, TN__EXPR_NOT, a->dtype, &a, 1);
}

const tn__expr *tn__ir_select(tn__ir *ir, const tn__expr *condition, const tn__expr *a, const tn__expr *b) {
  if (condition->dtype != TN_BOOL || a->dtype != b->dtype)
    tn__ir_defect(ir, "select with operands of type %s, %s and %s", tn_dtype_name(condition->dtype),
                  tn_dtype_name(a->dtype), tn_dtype_name(b->dtype));
  if (is_constant(condition)) return condition->value.i != 0 ? a : b;
  if (a == b) return a;
  if (condition->kind == TN__EXPR_NOT) return tn__ir_select(ir, condition->args[0], b, a);
  const tn__expr *args[3] = {condition, a, b};
  return tn__ir_intern_op(ir, TN__EXPR_SELECT, a->dtype, args, 3);
}

static bool is_integral(tn_dtype dtype) { return tn__dtype_is_int(dtype) || dtype == TN_BOOL; }

const tn__expr *tn__ir_cast(tn__ir *ir, tn_dtype dtype, const tn__expr *a) {
  if (tn_dtype_size(dtype) == 0) tn__ir_defect(ir, "cast to an invalid type");
  if (a->dtype == dtype) return a;
  if (is_constant(a)) return constant_of(ir, dtype, tn__scalar_cast(dtype, a->dtype, scalar_of(a)));
  if (a->kind == TN__EXPR_CAST && a->args[0]->dtype == dtype && is_integral(dtype) && is_integral(a->dtype) &&
      dtype != TN_U64 && a->dtype != TN_BOOL) {
    /* There and back again changes nothing when the type between holds the whole range. */
    tn__interval range = tn__interval_of(ir, a->args[0]), held = tn__ir_dtype_interval(a->dtype);
    if (range.min >= held.min && range.max <= held.max && tn__ir_is_orderly(ir, a->args[0])) return a->args[0];
  }
  return tn__ir_intern_op(ir, TN__EXPR_CAST, dtype, &a, 1);
}

const tn__expr *tn__ir_bitcast(tn__ir *ir, tn_dtype dtype, const tn__expr *a) {
  if (tn_dtype_size(dtype) == 0 || tn_dtype_size(dtype) != tn_dtype_size(a->dtype))
    tn__ir_defect(ir, "bitcast from %s to %s", tn_dtype_name(a->dtype), tn_dtype_name(dtype));
  if (a->dtype == dtype) return a;
  if (is_constant(a)) return constant_of(ir, dtype, tn__scalar_bitcast(dtype, a->dtype, scalar_of(a)));
  return tn__ir_intern_op(ir, TN__EXPR_BITCAST, dtype, &a, 1);
}

const tn__expr *tn__ir_load(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices) {
  for (int i = 0; i < buffer->rank; i++)
    if (indices[i]->dtype != TN_I64)
      tn__ir_defect(ir, "load from %s: index %d has type %s", buffer->name, i, tn_dtype_name(indices[i]->dtype));
  return tn__ir_intern(ir, &(tn__expr){.kind = TN__EXPR_LOAD,
                                       .dtype = buffer->dtype,
                                       .arg_count = buffer->rank,
                                       .value.buffer = buffer,
                                       .args = indices});
}

const tn__expr *tn__ir_flatten(tn__ir *ir, const tn__expr *const *sizes, const tn__expr *const *indices, int count) {
  const tn__expr *flat = tn__ir_index(ir, 0);
  for (int i = 0; i < count; i++) flat = tn__ir_add(ir, tn__ir_mul(ir, flat, sizes[i]), indices[i]);
  return flat;
}

const tn__expr *tn__buffer_flatten(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices) {
  if (buffer->strides == NULL) return tn__ir_flatten(ir, buffer->shape, indices, buffer->rank);
  const tn__expr *flat = tn__ir_index(ir, 0);
  for (int i = 0; i < buffer->rank; i++) flat = tn__ir_add(ir, flat, tn__ir_mul(ir, indices[i], buffer->strides[i]));
  return flat;
}

const tn__expr *tn__ir_call(tn__ir *ir, tn__intrinsic intrinsic, tn_dtype dtype, const tn__expr *const *args,
                            int count) {
  const tn__intrinsic_row *row = tn__intrinsic_of(intrinsic);
  bool fits = count == row->arity;
  bool constant = true;
  for (int i = 0; fits && i < count; i++) {
    fits = tn__intrinsic_takes(row, args[i]->dtype) && args[i]->dtype == args[0]->dtype;
    constant = constant && is_constant(args[i]);
  }
  if (!fits || dtype != (row->to_bool ? TN_BOOL : args[0]->dtype))
    tn__ir_defect(ir, "call of %s with %d arguments, the first of type %s, to %s", row->name, count,
                  count > 0 ? tn_dtype_name(args[0]->dtype) : "none", tn_dtype_name(dtype));
  if (constant) {
    tn__scalar values[3];
    for (int i = 0; i < count; i++) values[i] = scalar_of(args[i]);
    return constant_of(ir, dtype, tn__scalar_call(intrinsic, args[0]->dtype, values));
  }
  if (intrinsic == TN__CALL_POW && count == 2) {
    const tn__expr *power = tn__ir_small_power(ir, args[0], args[1]);
    if (power != NULL) return power;
  }
  if (intrinsic == TN__CALL_NEG && dtype == TN_I64) return tn__ir_mul_i(ir, args[0], -1);
  if (intrinsic == TN__CALL_LIKELY && args[0]->kind == TN__EXPR_CALL && args[0]->intrinsic == TN__CALL_LIKELY)
    return args[0];
  return tn__ir_intern(
      ir, &(tn__expr){.kind = TN__EXPR_CALL, .dtype = dtype, .intrinsic = intrinsic, .arg_count = count, .args = args});
}

const tn__expr *tn__ir_call1(tn__ir *ir, tn__intrinsic intrinsic, const tn__expr *a) {
  return tn__ir_call(ir, intrinsic, tn__intrinsic_of(intrinsic)->to_bool ? TN_BOOL : a->dtype, &a, 1);
}

const tn__expr *tn__ir_call2(tn__ir *ir, tn__intrinsic intrinsic, const tn__expr *a, const tn__expr *b) {
  const tn__expr *args[2] = {a, b};
  return tn__ir_call(ir, intrinsic, a->dtype, args, 2);
}
