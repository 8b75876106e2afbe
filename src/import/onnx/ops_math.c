/* Element-wise arithmetic: ONNX's unary and binary operators, comparisons and conversions. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"

/* ---- broadcasting before opset 7 --------------------------------------------------------------------------------- */

/* Up to opset 6 the second operand stretches only with broadcast=1, and lies at dimension `axis` of the first. */
static tn__value *old_broadcast(tn__onode *n, tn__value *a, tn__value *b) {
  if (n->version >= 7 || tn__on_int(n, "broadcast", 0) == 0 || b->rank == 0) return b;
  int64_t axis = tn__on_int(n, "axis", a->rank - b->rank);
  if (axis < 0) axis += a->rank;
  if (axis < 0 || axis + b->rank > a->rank)
    tn__on_fail(n, "axis %lld does not place %d dimensions in %d", (long long)axis, b->rank, a->rank);
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) dims[i] = i >= axis && i < axis + b->rank ? b->dims[i - axis] : tn__on_index(n, 1);
  return tn__on_reshape(n, b, a->rank, dims);
}

void tn__onnx_unary(tn__onode *n) { n->out[0] = tn__on_unary(n, n->op->core, n->in[0]); }

/* 16-bit floats through f32. */
void tn__onnx_unary_wide(tn__onode *n) {
  n->out[0] = tn__g_convert(n->g, tn__on_unary(n, n->op->core, tn__on_widen(n, n->in[0])), n->in[0]->dtype);
}

void tn__onnx_binary(tn__onode *n) {
  n->out[0] = tn__g_binary(n->g, n->op->core, n->in[0], old_broadcast(n, n->in[0], n->in[1]));
}

void tn__onnx_compare(tn__onode *n) {
  static const struct {
    const char *name;
    tn__compare direction;
  } directions[] = {{"EQ", TN__CMP_EQ}, {"LT", TN__CMP_LT}, {"LE", TN__CMP_LE}, {"GT", TN__CMP_GT}, {"GE", TN__CMP_GE}};
  for (size_t i = 0; i < sizeof(directions) / sizeof(*directions); i++)
    if (strcmp(directions[i].name, n->op->core) == 0)
      n->out[0] = tn__g_compare(n->g, directions[i].direction, n->in[0], old_broadcast(n, n->in[0], n->in[1]));
}

/* Sum, Max, Min, Mean: any number of operands. */
void tn__onnx_variadic(tn__onode *n) {
  bool mean = strcmp(n->name, "Mean") == 0;
  tn__value *result = mean ? tn__on_widen(n, n->in[0]) : n->in[0];
  for (int i = 1; i < n->input_count; i++)
    result = tn__g_binary(n->g, n->op->core, result, mean ? tn__on_widen(n, n->in[i]) : n->in[i]);
  if (mean) result = tn__g_binary_s(n->g, "divide", result, n->input_count);
  n->out[0] = tn__g_convert(n->g, result, n->in[0]->dtype);
}

void tn__onnx_reciprocal(tn__onode *n) { n->out[0] = tn__on_div(n, tn__on_scalar(n, 1, n->in[0]), n->in[0]); }

/* Reduces exponents to the type of the base, preserving powers modulo 2^B of the type's B bits. Powers of odd
 * numbers repeat with the period 2^(B - 2), and those of even numbers are 0 for larger exponents. For a negative
 * exponent only its parity matters. */
static tn__value *exponents_in(tn__onode *n, tn__value *exponent, tn_dtype dtype) {
  int bits = tn__dtype_bits(exponent->dtype) + (tn__dtype_is_unsigned(exponent->dtype) ? 1 : 0);
  if (bits > tn__dtype_bits(dtype)) {
    const int64_t period = INT64_C(1) << (dtype == TN_I32 ? 30 : 62); /* Pow supports no other integer types */
    tn_dtype own = exponent->dtype;
    tn__value *one = tn__g_scalar_i64(n->g, own, 1), *end = tn__g_scalar_i64(n->g, own, period);
    tn__value *odd = tn__g_binary(n->g, "and", exponent, one);
    tn__value *rest = tn__g_binary(n->g, "and", exponent, tn__g_scalar_i64(n->g, own, period - 1));
    tn__value *small = tn__g_compare(n->g, TN__CMP_LT, exponent, end);
    tn__value *same = tn__g_select(n->g, small, exponent, tn__on_add(n, rest, end));
    if (tn__dtype_is_signed(own)) {
      tn__value *negative = tn__g_compare(n->g, TN__CMP_LT, exponent, tn__g_scalar_i64(n->g, own, 0));
      same = tn__g_select(n->g, negative, tn__on_sub(n, odd, tn__g_scalar_i64(n->g, own, 2)), same);
    }
    exponent = same;
  }
  return tn__g_convert(n->g, exponent, dtype);
}

/* Returns whether the exponents are integers. Converts constant floats with whole values to i64. */
TN_MUST_USE static bool whole_exponents(tn__onode *n, tn__value **exponent) {
  const double *known;
  int count;
  if (!tn__dtype_is_float((*exponent)->dtype)) return true;
  if (!tn__on_known_floats(n, 1, &known, &count)) return false;
  for (int i = 0; i < count; i++)
    if (known[i] != trunc(known[i]) || !(fabs(known[i]) < 0x1p63)) return false;
  *exponent = tn__g_convert(n->g, *exponent, TN_I64);
  return true;
}

/* The result has the base's type; the power is computed in the wider kind of the two. */
void tn__onnx_pow(tn__onode *n) {
  tn__value *base = n->in[0], *exponent = old_broadcast(n, n->in[0], n->in[1]);
  const double *known;
  int count;
  if (tn__on_known_floats(n, 1, &known, &count) && count == 1 && exponent->rank <= base->rank &&
      (known[0] == 1 || known[0] == 2 || known[0] == 3)) {
    tn__value *x = tn__on_widen(n, base), *y = x;
    for (int i = 1; i < (int)known[0]; i++) y = tn__on_mul(n, y, x);
    n->out[0] = tn__g_convert(n->g, y, base->dtype);
    return;
  }
  tn_dtype dtype = base->dtype;
  bool whole = !tn__dtype_is_float(dtype) && whole_exponents(n, &exponent);
  if (!tn__dtype_is_float(dtype) && !whole) dtype = TN_F64;
  exponent = whole ? exponents_in(n, exponent, dtype) : tn__g_convert(n->g, exponent, dtype);
  tn__value *power = tn__g_binary(n->g, "power", tn__g_convert(n->g, base, dtype), exponent);
  n->out[0] = tn__g_convert(n->g, power, base->dtype);
}

void tn__onnx_mod(tn__onode *n) {
  bool fmod_like = tn__on_int(n, "fmod", 0) != 0;
  n->out[0] = tn__g_binary(n->g, fmod_like ? "remainder" : "floor_mod", n->in[0], n->in[1]);
}

void tn__onnx_bit_shift(tn__onode *n) {
  const char *direction = tn__on_string(n, "direction", "");
  bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0) tn__on_fail(n, "direction \"%s\" is neither LEFT nor RIGHT", direction);
  n->out[0] = tn__g_binary(n->g, left ? "shift_left" : "shift_right", n->in[0], n->in[1]);
}

void tn__onnx_where(tn__onode *n) { n->out[0] = tn__g_select(n->g, n->in[0], n->in[1], n->in[2]); }

void tn__onnx_identity(tn__onode *n) { n->out[0] = n->in[0]; }

void tn__onnx_clip(tn__onode *n) {
  tn__value *x = n->in[0];
  if (n->version < 11) {
    if (tn__on_attr(n, "min") != NULL) x = tn__on_max(n, x, tn__on_scalar(n, tn__on_float(n, "min", 0), x));
    if (tn__on_attr(n, "max") != NULL) x = tn__on_min(n, x, tn__on_scalar(n, tn__on_float(n, "max", 0), x));
  } else {
    if (n->in[1] != NULL) x = tn__on_max(n, x, n->in[1]);
    if (n->in[2] != NULL) x = tn__on_min(n, x, n->in[2]);
  }
  n->out[0] = x;
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

static tn_dtype to_attribute(const tn__onode *n) {
  int64_t to = tn__on_int(n, "to", 0);
  tn_dtype dtype = to < 0 || to > INT32_MAX ? TN_DTYPE_INVALID : tn__onnx_dtype((int32_t)to);
  if (dtype == TN_DTYPE_INVALID)
    tn__on_unsupported(n, "attribute \"to\" is element type %s (%lld), which is not supported",
                       tn__onnx_dtype_name((int32_t)to), (long long)to);
  return dtype;
}

/* A byte that is known to be narrower becomes another value, of which nothing is known. */
static tn__value *cast(const tn__onode *n, tn__value *x, tn_dtype dtype) {
  if (x->narrow > 0 && x->dtype == dtype) x = tn__g_convert(n->g, x, TN_I32);
  return tn__g_convert(n->g, x, dtype);
}

void tn__onnx_cast(tn__onode *n) { n->out[0] = cast(n, n->in[0], to_attribute(n)); }
void tn__onnx_cast_like(tn__onode *n) { n->out[0] = cast(n, n->in[0], n->in[1]->dtype); }

void tn__onnx_bit_cast(tn__onode *n) {
  tn_dtype dtype = to_attribute(n);
  if (tn_dtype_size(dtype) != tn_dtype_size(n->in[0]->dtype))
    tn__on_fail(n, "%s and %s have different sizes", tn_dtype_name(n->in[0]->dtype), tn_dtype_name(dtype));
  tn__value *x = n->in[0];
  if (dtype == TN_BOOL && x->dtype != TN_BOOL)
    tn__on_unsupported(n, "bits of %s may be those of no bool", tn_dtype_name(x->dtype));
  if (x->dtype == TN_BOOL && dtype != TN_BOOL) x = tn__g_convert(n->g, x, TN_U8); /* the same bits: 0 or 1 */
  n->out[0] = x->dtype == dtype ? x : tn__g_bitcast_convert(n->g, x, dtype);
}

void tn__onnx_is_inf(tn__onode *n) {
  bool negative = tn__on_int(n, "detect_negative", 1) != 0, positive = tn__on_int(n, "detect_positive", 1) != 0;
  tn__value *x = n->in[0];
  if (negative && positive)
    n->out[0] = tn__on_unary(n, "is_inf", x);
  else if (negative || positive)
    n->out[0] = tn__g_compare(n->g, TN__CMP_EQ, x, tn__on_scalar(n, negative ? -INFINITY : INFINITY, x));
  else
    n->out[0] = tn__g_full(n->g, TN_BOOL, 0, x->rank, x->dims);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static tn__value *positive(const tn__onode *n, tn__value *x) {
  return tn__g_compare(n->g, TN__CMP_GT, x, tn__on_scalar(n, 0, x));
}
static tn__value *negative(const tn__onode *n, tn__value *x) {
  return tn__g_compare(n->g, TN__CMP_LT, x, tn__on_scalar(n, 0, x));
}

/* log(1 + exp(x)) without overflow. */
static tn__value *softplus(const tn__onode *n, tn__value *x) {
  tn__value *small = tn__on_unary(n, "exponential", tn__on_unary(n, "negate", tn__on_unary(n, "abs", x)));
  tn__value *rest = tn__on_unary(n, "log_plus_one", small);
  return tn__on_add(n, tn__on_max(n, x, tn__on_scalar(n, 0, x)), rest);
}

static tn__value *hard_sigmoid(const tn__onode *n, tn__value *x, double alpha, double beta) {
  return tn__g_clamp(n->g, tn__on_add_s(n, tn__on_mul_s(n, x, alpha), beta), 0, 1);
}

static tn__value *elu(const tn__onode *n, tn__value *x, double alpha, double gamma) {
  tn__value *low = tn__on_mul_s(n, tn__on_unary(n, "exponential_minus_one", x), alpha * gamma);
  tn__value *high = gamma == 1 ? x : tn__on_mul_s(n, x, gamma);
  return tn__g_select(n->g, positive(n, x), high, low);
}

static tn__value *activation_relu(tn__onode *n, tn__value *x) { return tn__on_max(n, x, tn__on_scalar(n, 0, x)); }
static tn__value *activation_leaky_relu(tn__onode *n, tn__value *x) {
  tn__value *low = tn__on_mul_s(n, x, tn__on_float(n, "alpha", 0.01f));
  return tn__g_select(n->g, negative(n, x), low, x);
}
static tn__value *activation_elu(tn__onode *n, tn__value *x) { return elu(n, x, tn__on_float(n, "alpha", 1), 1); }
static tn__value *activation_selu(tn__onode *n, tn__value *x) {
  return elu(n, x, tn__on_float(n, "alpha", 1.67326319217681884765625),
             tn__on_float(n, "gamma", 1.05070102214813232421875));
}
static tn__value *activation_celu(tn__onode *n, tn__value *x) {
  double alpha = tn__on_float(n, "alpha", 1);
  tn__value *low =
      tn__on_mul_s(n, tn__on_unary(n, "exponential_minus_one", tn__g_binary_s(n->g, "divide", x, alpha)), alpha);
  return tn__g_select(n->g, positive(n, x), x, low);
}
static tn__value *activation_thresholded_relu(tn__onode *n, tn__value *x) {
  tn__value *alpha = tn__on_scalar(n, tn__on_float(n, "alpha", 1), x), *zero = tn__on_scalar(n, 0, x);
  return tn__g_select(n->g, tn__g_compare(n->g, TN__CMP_GT, x, alpha), x, zero);
}
static tn__value *activation_hard_sigmoid(tn__onode *n, tn__value *x) {
  return hard_sigmoid(n, x, tn__on_float(n, "alpha", 0.2f), tn__on_float(n, "beta", 0.5));
}
static tn__value *activation_hard_swish(tn__onode *n, tn__value *x) {
  return tn__on_mul(n, x, hard_sigmoid(n, x, 1.0 / 6, 0.5));
}
static tn__value *activation_softplus(tn__onode *n, tn__value *x) { return softplus(n, x); }
static tn__value *activation_softsign(tn__onode *n, tn__value *x) {
  return tn__on_div(n, x, tn__on_add_s(n, tn__on_unary(n, "abs", x), 1));
}
static tn__value *activation_mish(tn__onode *n, tn__value *x) {
  return tn__on_mul(n, x, tn__on_unary(n, "tanh", softplus(n, x)));
}
static tn__value *activation_swish(tn__onode *n, tn__value *x) {
  double alpha = tn__on_float(n, "alpha", 1);
  return tn__on_mul(n, x, tn__on_unary(n, "logistic", alpha == 1 ? x : tn__on_mul_s(n, x, alpha)));
}
static tn__value *activation_gelu(tn__onode *n, tn__value *x) {
  const char *approximate = tn__on_string(n, "approximate", "none");
  bool by_tanh = strcmp(approximate, "tanh") == 0;
  if (!by_tanh && strcmp(approximate, "none") != 0)
    tn__on_fail(n, "approximate \"%s\" is neither none nor tanh", approximate);
  return tn__g_gelu(n->g, x, by_tanh);
}
static tn__value *activation_shrink(tn__onode *n, tn__value *x) {
  double bias = tn__on_float(n, "bias", 0), lambd = tn__on_float(n, "lambd", 0.5);
  tn__value *zero = tn__on_scalar(n, 0, x);
  tn__value *lowered = tn__on_add_s(n, x, -bias);
  tn__value *above = tn__g_select(n->g, tn__g_compare(n->g, TN__CMP_GT, x, tn__on_scalar(n, lambd, x)), lowered, zero);
  tn__value *raised = tn__on_add_s(n, x, bias);
  return tn__g_select(n->g, tn__g_compare(n->g, TN__CMP_LT, x, tn__on_scalar(n, -lambd, x)), raised, above);
}

/* One operand, computed in at least f32, and for integers (Relu, Shrink) in their own type. */
void tn__onnx_activation(tn__onode *n) {
  static const struct {
    const char *name;
    tn__value *(*build)(tn__onode *n, tn__value *x);
  } table[] = {
      {"Celu", activation_celu},
      {"Elu", activation_elu},
      {"Gelu", activation_gelu},
      {"HardSigmoid", activation_hard_sigmoid},
      {"HardSwish", activation_hard_swish},
      {"LeakyRelu", activation_leaky_relu},
      {"Mish", activation_mish},
      {"Relu", activation_relu},
      {"Selu", activation_selu},
      {"Shrink", activation_shrink},
      {"Softplus", activation_softplus},
      {"Softsign", activation_softsign},
      {"Swish", activation_swish},
      {"ThresholdedRelu", activation_thresholded_relu},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
    if (strcmp(table[i].name, n->name) == 0)
      n->out[0] = tn__g_convert(n->g, table[i].build(n, tn__on_widen(n, n->in[0])), n->in[0]->dtype);
}

/* The slope stretches to x; up to opset 6 a slope of one dimension is per channel. */
void tn__onnx_prelu(tn__onode *n) {
  tn__value *x = n->in[0], *slope = n->in[1];
  if (n->version < 7 && slope->rank == 1 && x->rank > 1 && tn__g_dim_const(slope, 0) != 1)
    slope = tn__on_at_axis(n, slope, 1, x->rank);
  slope = tn__g_broadcast_to(n->g, slope, x->rank, x->dims);
  tn__value *low = tn__on_mul(n, x, slope);
  n->out[0] = tn__g_select(n->g, negative(n, x), low, x);
}

/* ---- running sums and products ----------------------------------------------------------------------------------- */

void tn__onnx_cumulative(tn__onode *n) {
  tn__reduce_kind kind = strcmp(n->name, "CumProd") == 0 ? TN__REDUCE_PROD : TN__REDUCE_SUM;
  bool exclusive = tn__on_int(n, "exclusive", 0) != 0, reverse = tn__on_int(n, "reverse", 0) != 0;
  const int64_t *axis;
  int count;
  tn__value *x = n->in[0];
  if (tn__on_known_ints(n, 1, &axis, &count)) {
    if (count != 1) tn__on_fail(n, "input 1 (axis) has %d elements, expected 1", count);
    n->out[0] = tn__g_cumulative(n->g, kind, x, (int)tn__on_axis(n, axis[0], x->rank), exclusive, reverse);
    return;
  }
  const tn__expr *at_run = tn__onnx_axis_at_run(n, 1, x->rank, x->rank);
  tn__value *y = tn__g_cumulative(n->g, kind, tn__onnx_along(n, x, at_run), 1, exclusive, reverse);
  n->out[0] = tn__onnx_from_along(n, y, x, at_run);
}
