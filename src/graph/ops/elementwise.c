/* Element-wise operators: one element of the result from the elements of the operands at the same place. Each is a
 * scalar function; inference, declaration and the propagation of known elements are written once. */
#include <string.h>

#include "base/invariant.h"
#include "graph/internal.h"

/* ---- scalar functions -------------------------------------------------------------------------------------------- */

typedef const tn__expr *const *args_t;

#define TN__SCALAR1(name, intrinsic) \
  static const tn__expr *name(tn__ir *ir, const tn__node *node, args_t x) { return tn__ir_call1(ir, intrinsic, x[0]); }
#define TN__SCALAR2(name, function) \
  static const tn__expr *name(tn__ir *ir, const tn__node *node, args_t x) { return function(ir, x[0], x[1]); }

TN__SCALAR1(scalar_negate, TN__CALL_NEG);
TN__SCALAR1(scalar_sqrt, TN__CALL_SQRT);
TN__SCALAR1(scalar_rsqrt, TN__CALL_RSQRT);
TN__SCALAR1(scalar_exp, TN__CALL_EXP);
TN__SCALAR1(scalar_expm1, TN__CALL_EXPM1);
TN__SCALAR1(scalar_log, TN__CALL_LOG);
TN__SCALAR1(scalar_log1p, TN__CALL_LOG1P);
TN__SCALAR1(scalar_sin, TN__CALL_SIN);
TN__SCALAR1(scalar_cos, TN__CALL_COS);
TN__SCALAR1(scalar_tan, TN__CALL_TAN);
TN__SCALAR1(scalar_asin, TN__CALL_ASIN);
TN__SCALAR1(scalar_acos, TN__CALL_ACOS);
TN__SCALAR1(scalar_atan, TN__CALL_ATAN);
TN__SCALAR1(scalar_sinh, TN__CALL_SINH);
TN__SCALAR1(scalar_cosh, TN__CALL_COSH);
TN__SCALAR1(scalar_tanh, TN__CALL_TANH);
TN__SCALAR1(scalar_asinh, TN__CALL_ASINH);
TN__SCALAR1(scalar_acosh, TN__CALL_ACOSH);
TN__SCALAR1(scalar_atanh, TN__CALL_ATANH);
TN__SCALAR1(scalar_erf, TN__CALL_ERF);
TN__SCALAR1(scalar_floor, TN__CALL_FLOOR);
TN__SCALAR1(scalar_ceil, TN__CALL_CEIL);
TN__SCALAR1(scalar_trunc, TN__CALL_TRUNC);
TN__SCALAR1(scalar_round_even, TN__CALL_ROUND_EVEN);
TN__SCALAR1(scalar_popcnt, TN__CALL_POPCOUNT);
TN__SCALAR1(scalar_clz, TN__CALL_CLZ);
TN__SCALAR1(scalar_is_nan, TN__CALL_IS_NAN);
TN__SCALAR1(scalar_is_inf, TN__CALL_IS_INF);
TN__SCALAR2(scalar_add, tn__ir_add);
TN__SCALAR2(scalar_subtract, tn__ir_sub);
TN__SCALAR2(scalar_multiply, tn__ir_mul);
TN__SCALAR2(scalar_maximum, tn__ir_max);
TN__SCALAR2(scalar_minimum, tn__ir_min);
TN__SCALAR2(scalar_and, tn__ir_and);
TN__SCALAR2(scalar_or, tn__ir_or);

static const tn__expr *scalar_abs(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__dtype_is_unsigned(x[0]->dtype) ? x[0] : tn__ir_call1(ir, TN__CALL_ABS, x[0]);
}

static const tn__expr *scalar_atan2(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_call2(ir, TN__CALL_ATAN2, x[0], x[1]);
}

static const tn__expr *scalar_shift_left(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_binary(ir, TN__EXPR_SHL, x[0], x[1]);
}

static const tn__expr *scalar_shift_right(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_binary(ir, TN__EXPR_SHR, x[0], x[1]);
}

static const tn__expr *scalar_xor(tn__ir *ir, const tn__node *node, args_t x) {
  return x[0]->dtype == TN_BOOL ? tn__ir_ne(ir, x[0], x[1]) : tn__ir_binary(ir, TN__EXPR_XOR, x[0], x[1]);
}

static const tn__expr *scalar_not(tn__ir *ir, const tn__node *node, args_t x) { return tn__ir_not(ir, x[0]); }

static const tn__expr *scalar_sign(tn__ir *ir, const tn__node *node, args_t x) {
  tn_dtype dtype = x[0]->dtype;
  const tn__expr *zero = tn__ir_constant(ir, dtype, 0), *one = tn__ir_constant(ir, dtype, 1);
  const tn__expr *rest = x[0]; /* zero and NaN are their own signs */
  if (!tn__dtype_is_unsigned(dtype))
    rest = tn__ir_select(ir, tn__ir_lt(ir, x[0], zero), tn__ir_constant(ir, dtype, -1), x[0]);
  return tn__ir_select(ir, tn__ir_lt(ir, zero, x[0]), one, rest);
}

static const tn__expr *scalar_logistic(tn__ir *ir, const tn__node *node, args_t x) {
  tn_dtype wide = tn__g_accumulator_of(x[0]->dtype);
  const tn__expr *one = tn__ir_float(ir, wide, 1);
  const tn__expr *e = tn__ir_call1(ir, TN__CALL_EXP, tn__ir_call1(ir, TN__CALL_NEG, tn__ir_cast(ir, wide, x[0])));
  return tn__ir_cast(ir, x[0]->dtype, tn__ir_div(ir, one, tn__ir_add(ir, one, e)));
}

static const tn__expr *scalar_is_finite(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_not(ir,
                    tn__ir_or(ir, tn__ir_call1(ir, TN__CALL_IS_NAN, x[0]), tn__ir_call1(ir, TN__CALL_IS_INF, x[0])));
}

/* Do two signed integers have different signs and is the floor remainder not zero? Then floor and truncation differ. */
static const tn__expr *rounds_apart(tn__ir *ir, const tn__expr *a, const tn__expr *b, const tn__expr *remainder) {
  const tn__expr *zero = tn__ir_constant(ir, a->dtype, 0);
  const tn__expr *a_negative = tn__ir_lt(ir, a, zero), *b_negative = tn__ir_lt(ir, b, zero);
  /* Spelled with and/or, not with !=, so that a decided sign folds. */
  const tn__expr *differ = tn__ir_or(ir, tn__ir_and(ir, a_negative, tn__ir_not(ir, b_negative)),
                                     tn__ir_and(ir, b_negative, tn__ir_not(ir, a_negative)));
  return tn__ir_and(ir, differ, tn__ir_ne(ir, remainder, zero));
}

/* Integers truncate toward zero, as C and StableHLO do; the IR's division is floor. */
static const tn__expr *scalar_divide(tn__ir *ir, const tn__node *node, args_t x) {
  const tn__expr *quotient = tn__ir_div(ir, x[0], x[1]);
  if (!tn__dtype_is_signed(x[0]->dtype)) return quotient;
  const tn__expr *apart = rounds_apart(ir, x[0], x[1], tn__ir_mod(ir, x[0], x[1]));
  return tn__ir_select(ir, apart, tn__ir_add(ir, quotient, tn__ir_constant(ir, x[0]->dtype, 1)), quotient);
}

/* The remainder with the dividend's sign. */
static const tn__expr *scalar_remainder(tn__ir *ir, const tn__node *node, args_t x) {
  const tn__expr *remainder = tn__ir_mod(ir, x[0], x[1]);
  if (!tn__dtype_is_signed(x[0]->dtype)) return remainder;
  return tn__ir_select(ir, rounds_apart(ir, x[0], x[1], remainder), tn__ir_sub(ir, remainder, x[1]), remainder);
}

/* The remainder with the divisor's sign, as Python's. */
static const tn__expr *scalar_floor_mod(tn__ir *ir, const tn__node *node, args_t x) {
  const tn__expr *remainder = tn__ir_mod(ir, x[0], x[1]);
  if (!tn__dtype_is_float(x[0]->dtype)) return remainder;
  const tn__expr *zero = tn__ir_float(ir, x[0]->dtype, 0);
  const tn__expr *differ = tn__ir_ne(ir, tn__ir_lt(ir, remainder, zero), tn__ir_lt(ir, x[1], zero));
  const tn__expr *apart = tn__ir_and(ir, tn__ir_ne(ir, remainder, zero), differ);
  return tn__ir_select(ir, apart, tn__ir_add(ir, remainder, x[1]), remainder);
}

static const tn__expr *scalar_power(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_call2(ir, TN__CALL_POW, x[0], x[1]);
}

static const tn__expr *scalar_compare(tn__ir *ir, const tn__node *node, args_t x) {
  const char *direction = tn__node_string(node, "direction", "");
  if (strcmp(direction, "EQ") == 0) return tn__ir_eq(ir, x[0], x[1]);
  if (strcmp(direction, "NE") == 0) return tn__ir_ne(ir, x[0], x[1]);
  if (strcmp(direction, "LT") == 0) return tn__ir_lt(ir, x[0], x[1]);
  if (strcmp(direction, "LE") == 0) return tn__ir_le(ir, x[0], x[1]);
  if (strcmp(direction, "GT") == 0) return tn__ir_lt(ir, x[1], x[0]);
  return tn__ir_le(ir, x[1], x[0]);
}

static const tn__expr *scalar_select(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_select(ir, x[0], x[1], x[2]);
}

static const tn__expr *scalar_clamp(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_min(ir, tn__ir_max(ir, x[1], x[0]), x[2]);
}

static const tn__expr *scalar_convert(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_cast(ir, node->outputs[0]->dtype, x[0]);
}

static const tn__expr *scalar_bitcast(tn__ir *ir, const tn__node *node, args_t x) {
  return tn__ir_bitcast(ir, node->outputs[0]->dtype, x[0]);
}

/* ---- inference --------------------------------------------------------------------------------------------------- */

/* The shape that all operands have: a dimension's number where one of them tells it. */
static void common_shape(const tn__node *node, const tn__expr **dims) {
  for (int i = 0; i < node->inputs[0]->rank; i++) {
    dims[i] = node->inputs[0]->dims[i];
    for (int k = 1; k < node->input_count; k++)
      if (tn__ir_is_int(node->inputs[k]->dims[i])) dims[i] = node->inputs[k]->dims[i];
  }
}

/* Integer division by a constant zero has no elements: the kernel reports it. */
static bool divides_by_zero(const tn__node *node, const tn__expr *const *x) {
  const char *name = node->op->name;
  bool divides = strcmp(name, "divide") == 0 || strcmp(name, "remainder") == 0 || strcmp(name, "floor_mod") == 0;
  TN__INVARIANT(!divides || node->input_count == 2); /* checked when nodes are made */
  return divides && tn__ir_is_int_value(x[1], 0);
}

/* A known element as a constant of its tensor's type, NULL when it is a symbol's; and a constant as an element. */
static const tn__expr *typed_constant(tn__ir *ir, tn_dtype dtype, const tn__expr *element) {
  int64_t value;
  if (tn__dtype_is_float(dtype)) return element;
  if (!tn__ir_as_int(element, &value)) return NULL;
  return dtype == TN_BOOL ? tn__ir_bool(ir, value != 0) : tn__ir_int(ir, dtype, value);
}

static const tn__expr *element_of_constant(tn__ir *ir, const tn__expr *e) {
  int64_t value;
  if (e->kind == TN__EXPR_FLOAT) return e;
  if (e->dtype == TN_BOOL) return tn__ir_is_true(e) || tn__ir_is_false(e) ? tn__ir_index(ir, tn__ir_is_true(e)) : NULL;
  return tn__ir_as_int(e, &value) ? tn__ir_index(ir, value) : NULL;
}

/* Numbers are known through every function and type: exporters write sizes as Cast(Ceil(13.0 / 2.0)). */
static const tn__expr *const *constant_elements(tn__graph *graph, const tn__node *node, int count) {
  tn__ir *ir = graph->ir;
  for (int k = 0; k < node->input_count; k++)
    if (node->inputs[k]->elements == NULL || tn__g_element_count(node->inputs[k]->rank, node->inputs[k]->dims) != count)
      return NULL;
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
  for (int i = 0; i < count; i++) {
    const tn__expr *x[3];
    for (int k = 0; k < node->input_count; k++) {
      x[k] = typed_constant(ir, node->inputs[k]->dtype, node->inputs[k]->elements[i]);
      if (x[k] == NULL) return NULL;
    }
    if (divides_by_zero(node, x)) return NULL;
    elements[i] = element_of_constant(ir, node->op->scalar(ir, node, x));
    if (elements[i] == NULL) return NULL;
  }
  return elements;
}

static bool carries(const tn__node *node, tn_dtype dtype) {
  bool all = tn__g_carries_elements(dtype);
  for (int k = 0; k < node->input_count; k++) all = all && tn__g_carries_elements(node->inputs[k]->dtype);
  return all;
}

static const tn__expr *const *elements_of(tn__graph *graph, const tn__node *node, tn_dtype dtype, int rank,
                                          const tn__expr *const *dims, bool propagate) {
  int count = tn__g_element_count(rank, dims);
  if (count < 0) return NULL;
  if (!propagate || !carries(node, dtype)) return constant_elements(graph, node, count);
  for (int k = 0; k < node->input_count; k++)
    if (node->inputs[k]->elements == NULL || tn__g_element_count(node->inputs[k]->rank, node->inputs[k]->dims) != count)
      return NULL;
  tn__ir *ir = graph->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
  for (int i = 0; i < count; i++) {
    const tn__expr *x[3];
    for (int k = 0; k < node->input_count; k++) {
      x[k] = node->inputs[k]->elements[i];
      if (node->inputs[k]->dtype == TN_BOOL) x[k] = tn__ir_ne(ir, x[k], zero);
    }
    if (divides_by_zero(node, x)) return NULL;
    elements[i] = node->op->scalar(ir, node, x);
    if (dtype == TN_BOOL) elements[i] = tn__ir_select(ir, elements[i], one, zero);
  }
  return elements;
}

enum {
  CLASS_FLOAT = 1,
  CLASS_INT = 2,
  CLASS_BOOL = 4,
  CLASS_NUMBER = CLASS_FLOAT | CLASS_INT,
  CLASS_ANY = 7,
  CLASS_BITS = 6
};

static void require_class(const tn__graph *graph, const tn__node *node, int input, int classes) {
  tn_dtype dtype = node->inputs[input]->dtype;
  int class = dtype == TN_BOOL ? CLASS_BOOL : tn__dtype_is_float(dtype) ? CLASS_FLOAT : CLASS_INT;
  if ((class & classes) == 0) tn__node_fail(graph, node, "is not defined for type %s", tn_dtype_name(dtype));
}

/* All operands of one type; the result has it too, or `result` when given. */
static void infer_classes(tn__graph *graph, tn__node *node, int classes, tn_dtype result, bool propagate) {
  require_class(graph, node, 0, classes);
  for (int k = 1; k < node->input_count; k++) tn__g_require_same_dtype(graph, node, 0, k);
  const tn__expr *dims[TN__MAX_RANK];
  common_shape(node, dims);
  int rank = node->inputs[0]->rank;
  tn_dtype dtype = result != TN_DTYPE_INVALID ? result : node->inputs[0]->dtype;
  tn__g_set_output(graph, node, 0, dtype, rank, dims, elements_of(graph, node, dtype, rank, dims, propagate));
}

static void infer_float(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_FLOAT, TN_DTYPE_INVALID, false);
}
static void infer_number(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_NUMBER, TN_DTYPE_INVALID, true);
}
static void infer_power(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_NUMBER, TN_DTYPE_INVALID, false);
}
static void infer_int(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_INT, TN_DTYPE_INVALID, false);
}
/* Logical on bool, where elements are known too; bitwise on integers. */
static void infer_bits(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_BITS, TN_DTYPE_INVALID, node->inputs[0]->dtype == TN_BOOL);
}
static void infer_float_to_bool(tn__graph *graph, tn__node *node) {
  infer_classes(graph, node, CLASS_FLOAT, TN_BOOL, false);
}

static void infer_compare(tn__graph *graph, tn__node *node) {
  static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const char *direction = tn__node_string(node, "direction", "");
  bool known = false;
  for (int i = 0; i < 6; i++) known = known || strcmp(direction, directions[i]) == 0;
  if (!known) tn__node_fail(graph, node, "direction \"%s\" is not one of EQ, NE, LT, LE, GT, GE", direction);
  bool ordered = strcmp(direction, "EQ") != 0 && strcmp(direction, "NE") != 0;
  infer_classes(graph, node, ordered ? CLASS_NUMBER : CLASS_ANY, TN_BOOL, true);
}

static void infer_select(tn__graph *graph, tn__node *node) {
  tn__g_require_dtype(graph, node, 0, TN_BOOL);
  tn__g_require_same_dtype(graph, node, 1, 2);
  const tn__expr *dims[TN__MAX_RANK];
  common_shape(node, dims);
  tn_dtype dtype = node->inputs[1]->dtype;
  int rank = node->inputs[0]->rank;
  tn__g_set_output(graph, node, 0, dtype, rank, dims, elements_of(graph, node, dtype, rank, dims, true));
}

static const tn__expr *const *converted_elements(tn__graph *graph, const tn__value *from, tn_dtype dtype) {
  int count = tn__g_element_count(from->rank, from->dims);
  if (from->elements == NULL || count < 0) return NULL;
  tn__ir *ir = graph->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
  for (int i = 0; i < count; i++) {
    const tn__expr *e = from->elements[i], *constant = typed_constant(ir, from->dtype, e);
    if (constant != NULL)
      elements[i] = element_of_constant(ir, tn__ir_cast(ir, dtype, constant));
    else if (dtype == TN_BOOL)
      elements[i] = tn__ir_select(ir, tn__ir_ne(ir, e, zero), one, zero);
    else if (tn__g_carries_elements(dtype) && tn__g_carries_elements(from->dtype))
      elements[i] = e;
    else
      return NULL;
    if (elements[i] == NULL) return NULL;
  }
  return elements;
}

static void infer_convert(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  tn__g_set_output(graph, node, 0, dtype, a->rank, a->dims, converted_elements(graph, a, dtype));
}

static void infer_bitcast(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  if (tn_dtype_size(dtype) != tn_dtype_size(a->dtype))
    tn__node_fail(graph, node, "%s and %s have different sizes", tn_dtype_name(a->dtype), tn_dtype_name(dtype));
  tn__g_set_output(graph, node, 0, dtype, a->rank, a->dims, NULL);
}

/* ---- declaration ------------------------------------------------------------------------------------------------- */

static void declare(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                    const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *x[3];
  for (int k = 0; k < node->input_count; k++) x[k] = tn__ir_load(ir, inputs[k], axes.index);
  outputs[0] =
      tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, node->op->name), &axes, node->op->scalar(ir, node, x));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__OPERANDS_1 "x[*s]"
#define TN__OPERANDS_2 "a[*s] b[*s]"
#define TN__ROW(count, op_name, infer_fn, scalar_fn, ...) \
  TN__ROW_IS(count, op_name, 0, infer_fn, scalar_fn, __VA_ARGS__)
#define TN__ROW_IS(count, op_name, what, infer_fn, scalar_fn, ...) \
  TN__ROW_OF(count, TN__OPERANDS_##count, op_name, what, infer_fn, scalar_fn, __VA_ARGS__)
#define TN__ROW_OF(count, names, op_name, what, infer_fn, scalar_fn, ...) \
  {.name = op_name,                                                       \
   .min_inputs = count,                                                   \
   .max_inputs = count,                                                   \
   .operands = names,                                                     \
   .op_class = TN__CLASS_ELEMENTWISE,                                     \
   .lowering = TN__LOWER_DECLARE,                                         \
   .facts = what,                                                         \
   .infer = infer_fn,                                                     \
   .declare = declare,                                                    \
   .scalar = scalar_fn,                                                   \
   .doc = __VA_ARGS__}

static const tn__op rows[] = {
    TN__ROW(1, "abs", infer_number, scalar_abs, "Magnitude; of the smallest integer itself."),
    TN__ROW(1, "negate", infer_number, scalar_negate, "-x, wrapping for integers."),
    TN__ROW(1, "sign", infer_number, scalar_sign, "-1, 0 or 1; zero and NaN stay what they are."),
    TN__ROW(1, "ceil", infer_float, scalar_ceil, "The next integer above."),
    TN__ROW(1, "floor", infer_float, scalar_floor, "The next integer below."),
    TN__ROW(1, "truncate", infer_float, scalar_trunc, "The next integer towards zero."),
    TN__ROW(1, "round_nearest_even", infer_float, scalar_round_even, "The nearest integer, the even one of two."),
    TN__ROW(1, "sqrt", infer_float, scalar_sqrt, "Square root."),
    TN__ROW(1, "rsqrt", infer_float, scalar_rsqrt, "1 / sqrt(x)."),
    TN__ROW(1, "exponential", infer_float, scalar_exp, "e to the power of x."),
    TN__ROW(1, "exponential_minus_one", infer_float, scalar_expm1, "exp(x) - 1 without cancellation."),
    TN__ROW(1, "log", infer_float, scalar_log, "Natural logarithm."),
    TN__ROW(1, "log_plus_one", infer_float, scalar_log1p, "log(1 + x) without cancellation."),
    TN__ROW(1, "sine", infer_float, scalar_sin, "Sine of radians."),
    TN__ROW(1, "cosine", infer_float, scalar_cos, "Cosine of radians."),
    TN__ROW(1, "tan", infer_float, scalar_tan, "Tangent of radians."),
    TN__ROW(1, "asin", infer_float, scalar_asin, "Inverse sine."),
    TN__ROW(1, "acos", infer_float, scalar_acos, "Inverse cosine."),
    TN__ROW(1, "atan", infer_float, scalar_atan, "Inverse tangent."),
    TN__ROW(1, "sinh", infer_float, scalar_sinh, "Hyperbolic sine."),
    TN__ROW(1, "cosh", infer_float, scalar_cosh, "Hyperbolic cosine."),
    TN__ROW(1, "tanh", infer_float, scalar_tanh, "Hyperbolic tangent."),
    TN__ROW(1, "asinh", infer_float, scalar_asinh, "Inverse hyperbolic sine."),
    TN__ROW(1, "acosh", infer_float, scalar_acosh, "Inverse hyperbolic cosine."),
    TN__ROW(1, "atanh", infer_float, scalar_atanh, "Inverse hyperbolic tangent."),
    TN__ROW(1, "erf", infer_float, scalar_erf, "Error function."),
    TN__ROW(1, "logistic", infer_float, scalar_logistic, "1 / (1 + exp(-x))."),
    TN__ROW(1, "is_nan", infer_float_to_bool, scalar_is_nan, "Is x NaN?"),
    TN__ROW(1, "is_inf", infer_float_to_bool, scalar_is_inf, "Is x an infinity?"),
    TN__ROW(1, "is_finite", infer_float_to_bool, scalar_is_finite, "Is x neither NaN nor an infinity?"),
    TN__ROW(1, "not", infer_bits, scalar_not, "Logical of bool, bitwise of integers."),
    TN__ROW(1, "popcnt", infer_int, scalar_popcnt, "Number of bits that are set."),
    TN__ROW(1, "count_leading_zeros", infer_int, scalar_clz, "Number of zero bits before the first set one."),
    TN__ROW(1, "convert", infer_convert, scalar_convert,
            "The value in another type: to integers it truncates and saturates, between integers it wraps, to bool it "
            "is x != 0. `whole`: it is a number that both types have.",
            .attributes = "dtype:string whole:int[0..1]"),
    TN__ROW_IS(1, "bitcast_convert", TN__FACT_VIEW, infer_bitcast, scalar_bitcast,
               "The same bits as another type of the same size.", .attributes = "dtype:string"),
    TN__ROW_IS(2, "add", TN__FACT_COMMUTES, infer_number, scalar_add, "a + b."),
    TN__ROW(2, "subtract", infer_number, scalar_subtract, "a - b."),
    TN__ROW_IS(2, "multiply", TN__FACT_COMMUTES | TN__FACT_LINEAR, infer_number, scalar_multiply, "a * b."),
    TN__ROW_IS(2, "divide", TN__FACT_PARTIAL | TN__FACT_LINEAR, infer_number, scalar_divide,
               "a / b; integers truncate towards zero and fail on a zero divisor."),
    TN__ROW_IS(2, "remainder", TN__FACT_PARTIAL, infer_number, scalar_remainder,
               "The remainder with the dividend's sign."),
    TN__ROW_IS(2, "floor_mod", TN__FACT_PARTIAL, infer_number, scalar_floor_mod,
               "The remainder with the divisor's sign."),
    TN__ROW_IS(2, "maximum", TN__FACT_COMMUTES, infer_number, scalar_maximum, "The greater one; NaN when either is."),
    TN__ROW_IS(2, "minimum", TN__FACT_COMMUTES, infer_number, scalar_minimum, "The smaller one; NaN when either is."),
    TN__ROW(2, "power", infer_power, scalar_power,
            "a to the power of b; of integers it wraps, and is truncated towards zero for negative b."),
    TN__ROW(2, "atan2", infer_float, scalar_atan2, "The angle of the point (b, a)."),
    TN__ROW_IS(2, "and", TN__FACT_COMMUTES, infer_bits, scalar_and, "Logical of bool, bitwise of integers."),
    TN__ROW_IS(2, "or", TN__FACT_COMMUTES, infer_bits, scalar_or, "Logical of bool, bitwise of integers."),
    TN__ROW_IS(2, "xor", TN__FACT_COMMUTES, infer_bits, scalar_xor, "Logical of bool, bitwise of integers."),
    TN__ROW(2, "shift_left", infer_int, scalar_shift_left,
            "a times two to the power of b; 0 from the type's width on."),
    TN__ROW(2, "shift_right", infer_int, scalar_shift_right, "Arithmetic for signed types, logical for unsigned ones."),
    TN__ROW(2, "compare", infer_compare, scalar_compare,
            "a `direction` b: EQ, NE, LT, LE, GT or GE; false with NaN except NE.", .attributes = "direction:string"),
    TN__ROW_OF(3, "condition[*s] a[*s] b[*s]", "select", TN__FACT_STRINGS, infer_select, scalar_select,
               "The second operand where the first is true, else the third."),
    TN__ROW_OF(3, "low[*s] x[*s] high[*s]", "clamp", 0, infer_number, scalar_clamp,
               "min(max(x, low), high) of (low, x, high)."),
};

const tn__op_family tn__ops_elementwise = {rows, sizeof(rows) / sizeof(rows[0])};
