/* Resampling along dimensions with the semantics of ONNX's Resize, composed of takes and weighted sums.
 *
 * Interpolation is separable, so each dimension is processed on its own. The source coordinate of each output position,
 * its taps and their weights are small vectors. They fold to constants if the scale is constant.
 *
 * A coordinate selects elements, so a rounding error would select the wrong one. If sizes are given, scales and
 * coordinates are ratios of integers (`ratio`), and only weights are floating. If a scale is given, coordinates are
 * f64. In nearest mode quotients are rounded to f32, like the scale itself: 3 / 0.6 is 5 and not 4.9999998. */
#include <math.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"

typedef struct resampling {
  tn__graph *g;
  const tn__resize_spec *spec;
  const tn__resize_axis *axis;
  const tn__expr *in; /* the dimension */
  tn__value *in_i64;  /* the dimension as a scalar */
  tn__value *in_f64;
  tn__value *scale;   /* f64 scalar */
  tn__value *outside; /* bool [size]: positions with the extrapolation value; may be NULL */
} resampling;

/* Integer coordinates above / below: an i64 [size] and an i64 scalar of at least 1. */
typedef struct ratio {
  tn__value *above, *below;
} ratio;

/* Integer and fractional parts of coordinates, the latter in [0, 1). Both are f64 [size]. */
typedef struct parts {
  tn__value *whole, *rest;
} parts;

static tn__value *f64(tn__graph *g, double value) { return tn__g_scalar(g, TN_F64, value); }
static tn__value *i64(tn__graph *g, int64_t value) { return tn__g_scalar_i64(g, TN_I64, value); }
static tn__value *add(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "add", a, b); }
static tn__value *sub(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "subtract", a, b); }
static tn__value *mul(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "multiply", a, b); }
static tn__value *quotient(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "divide", a, b); }
static tn__value *least(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "minimum", a, b); }
static tn__value *greatest(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "maximum", a, b); }
static tn__value *plus(tn__graph *g, tn__value *a, double b) { return tn__g_binary_s(g, "add", a, b); }
static tn__value *times(tn__graph *g, tn__value *a, double b) { return tn__g_binary_s(g, "multiply", a, b); }
static tn__value *to_f64(tn__graph *g, tn__value *a) { return tn__g_convert(g, a, TN_F64); }
static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ---- coordinates ------------------------------------------------------------------------------------------------- */

static bool by_ratio(const resampling *r) {
  return r->axis->ratio[0] != NULL && !is(r->spec->coordinates, "tf_crop_and_resize");
}

/* Returns whether the ratio is output size / input size of this dimension, and not one for all dimensions. */
static bool stretches(const resampling *r) {
  const tn__value *below = r->axis->ratio[1];
  return below->elements != NULL && below->elements[0] == r->in;
}

static void check_mode(const resampling *r) {
  static const char *const modes[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                      "align_corners", "asymmetric",           "tf_crop_and_resize"};
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
    if (is(r->spec->coordinates, modes[i])) return;
  tn__graph_fail(r->g, TN_UNSUPPORTED, "resize: the coordinate mode \"%s\" is unknown", r->spec->coordinates);
}

/* The scale is above / below. The unrounded length of the result is in / below * above. */
static ratio exact_coordinates(const resampling *r) {
  tn__graph *g = r->g;
  const char *mode = r->spec->coordinates;
  tn__value *above = r->axis->ratio[0], *below = r->axis->ratio[1], *y = tn__g_iota(g, TN_I64, 1, &r->axis->size, 0);
  tn__value *length = mul(g, above, r->in_i64), *one = i64(g, 1);
  ratio c;
  if (is(mode, "asymmetric")) {
    c = (ratio){mul(g, y, below), above};
  } else if (is(mode, "align_corners")) {
    /* y (in - 1) / (length - 1), with y = 0 where the length is 1. If the ratio is that of the sizes, both sides are
     * divided by the dimension. */
    tn__value *last = plus(g, r->in_i64, -1);
    tn__value *steps = stretches(r) ? plus(g, above, -1) : sub(g, length, below);
    tn__value *x = mul(g, y, stretches(r) ? last : mul(g, last, below));
    tn__value *backwards = tn__g_compare(g, TN__CMP_LT, steps, i64(g, 0));
    x = tn__g_select(g, backwards, tn__g_unary(g, "negate", x), x);
    x = tn__g_select(g, tn__g_compare(g, TN__CMP_EQ, steps, i64(g, 0)), i64(g, 0), x);
    c = (ratio){x, tn__g_unary(g, "abs", steps)};
  } else { /* (y + 1/2) / scale - 1/2 */
    tn__value *x = sub(g, mul(g, plus(g, times(g, y, 2), 1), below), above);
    if (is(mode, "half_pixel_symmetric")) {
      tn__value *size = tn__g_from_elements(g, TN_I64, &r->axis->size, 1, 0);
      x = add(g, x, sub(g, length, mul(g, size, below)));
    } else if (is(mode, "pytorch_half_pixel")) {
      x = tn__g_select(g, tn__g_compare(g, TN__CMP_EQ, length, below), i64(g, 0), x);
    }
    c = (ratio){x, times(g, above, 2)};
  }
  c.below = greatest(g, c.below, one); /* at least 1, even if there is nothing to divide */
  return c;
}

/* Divides by the scale. In nearest mode rounds the quotient to f32 if it is small enough for f32 to keep a fraction. */
static tn__value *over_scale(const resampling *r, tn__value *a) {
  tn__graph *g = r->g;
  tn__value *x = quotient(g, a, r->scale);
  if (!is(r->spec->mode, "nearest")) return x;
  tn__value *small = tn__g_compare(g, TN__CMP_LT, x, f64(g, 1 << 22)), *rounded = tn__g_convert(g, x, TN_F32);
  return tn__g_select(g, small, to_f64(g, rounded), x);
}

/* `one` where the (unrounded) output has one element, else `many`. */
static tn__value *unless_single(tn__graph *g, tn__value *width, tn__value *one, tn__value *many) {
  return tn__g_select(g, tn__g_compare(g, TN__CMP_EQ, width, f64(g, 1)), one, many);
}

/* The distance between the first and last elements of the unrounded result, in units of `one`: f64 scalars, which
 * are whole numbers if the scale is a ratio. */
static tn__value *steps_of(const resampling *r, tn__value **one) {
  tn__graph *g = r->g;
  tn__value *const *scale = r->axis->ratio;
  *one = scale[0] != NULL && !stretches(r) ? to_f64(g, scale[1]) : f64(g, 1);
  if (scale[0] == NULL) return sub(g, mul(g, r->scale, r->in_f64), *one);
  tn__value *length = to_f64(g, scale[0]);
  return sub(g, stretches(r) ? length : mul(g, length, r->in_f64), *one);
}

/* Coordinates from start to end of a region, both relative to the image. The quotient's sums are exact as long as
 * the region's numbers and the sizes have at most 53 bits together. Marks the coordinates outside. */
static tn__value *crop_coordinates(resampling *r, tn__value *y) {
  tn__graph *g = r->g;
  tn__value *start = r->axis->roi_start, *end = r->axis->roi_end, *last = plus(g, r->in_f64, -1), *zero = f64(g, 0);
  tn__value *one, *steps = steps_of(r, &one);
  y = mul(g, y, one);
  tn__value *many = mul(g, start, sub(g, steps, y));
  many = add(g, many, mul(g, end, y));
  tn__value *single = tn__g_compare(g, TN__CMP_EQ, steps, zero), *backwards = tn__g_compare(g, TN__CMP_LT, steps, zero);
  many = tn__g_select(g, backwards, tn__g_unary(g, "negate", many), many);
  tn__value *above = mul(g, tn__g_select(g, single, add(g, start, end), many), last);
  tn__value *below = tn__g_select(g, single, f64(g, 2), tn__g_unary(g, "abs", steps));
  tn__value *behind = tn__g_compare(g, TN__CMP_GT, above, mul(g, last, below));
  r->outside = tn__g_binary(g, "or", tn__g_compare(g, TN__CMP_LT, above, zero), behind);
  return quotient(g, above, below);
}

/* Source coordinates [size], f64. */
static tn__value *coordinates(resampling *r) {
  tn__graph *g = r->g;
  const char *mode = r->spec->coordinates;
  tn__value *y = tn__g_iota(g, TN_F64, 1, &r->axis->size, 0), *scale = r->scale;
  tn__value *width = mul(g, scale, r->in_f64), *last = plus(g, r->in_f64, -1);
  if (is(mode, "tf_crop_and_resize")) return crop_coordinates(r, y);
  if (is(mode, "asymmetric")) return over_scale(r, y);
  if (is(mode, "align_corners")) {
    tn__value *steps = plus(g, width, -1), *many = quotient(g, mul(g, y, last), steps);
    return unless_single(g, width, f64(g, 0), many);
  }
  tn__value *half = plus(g, over_scale(r, plus(g, y, 0.5)), -0.5);
  if (is(mode, "pytorch_half_pixel")) return unless_single(g, width, f64(g, 0), half);
  if (is(mode, "half_pixel_symmetric")) {
    tn__value *adjustment = quotient(g, tn__g_from_elements(g, TN_F64, &r->axis->size, 1, 0), width);
    tn__value *rest = sub(g, f64(g, 1), adjustment), *offset = mul(g, times(g, r->in_f64, 0.5), rest);
    return add(g, offset, half);
  }
  return half;
}

static parts split_coordinates(resampling *r) {
  tn__graph *g = r->g;
  if (!by_ratio(r)) {
    const tn__expr *size = r->axis->size;
    tn__value *x = tn__g_broadcast_to(g, coordinates(r), 1, &size), *whole = tn__g_unary(g, "floor", x);
    return (parts){whole, sub(g, x, whole)};
  }
  ratio c = exact_coordinates(r);
  tn__value *whole = quotient(g, c.above, c.below), *rest = sub(g, c.above, mul(g, whole, c.below)); /* truncated */
  tn__value *negative = tn__g_compare(g, TN__CMP_LT, rest, i64(g, 0));
  whole = tn__g_select(g, negative, plus(g, whole, -1), whole);
  rest = tn__g_select(g, negative, add(g, rest, c.below), rest);
  rest = to_f64(g, rest);
  rest = quotient(g, rest, to_f64(g, c.below));
  return (parts){to_f64(g, whole), rest};
}

/* Positions as i64 within the dimension, which has elements when there are positions (resize_axis), also of NaN. */
static tn__value *clamped(const resampling *r, tn__value *position) {
  tn__graph *g = r->g;
  tn__value *first = f64(g, 0);
  return tn__g_convert(g, greatest(g, least(g, position, plus(g, r->in_f64, -1)), first), TN_I64);
}

typedef enum rounding { ROUND_FLOOR, ROUND_CEIL, ROUND_HALF_UP, ROUND_HALF_DOWN } rounding;

static rounding rounding_of(const resampling *r) {
  static const char *const names[] = {"floor", "ceil", "round_prefer_ceil", "round_prefer_floor"};
  for (int i = 0; i < 4; i++)
    if (is(r->spec->nearest, names[i])) return (rounding)i;
  tn__graph_fail(r->g, TN_UNSUPPORTED, "resize: the nearest mode \"%s\" is unknown", r->spec->nearest);
}

/* The nearest element of each coordinate, i64 [size]. Negative coordinates clamp to the first element in any
 * rounding mode, so divisions of non-negative numbers suffice. */
static tn__value *nearest_positions(resampling *r) {
  tn__graph *g = r->g;
  rounding way = rounding_of(r);
  if (!by_ratio(r)) {
    parts p = split_coordinates(r);
    if (way == ROUND_FLOOR) return clamped(r, p.whole);
    double limit = way == ROUND_CEIL ? 0 : 0.5;
    tn__value *up = tn__g_compare(g, way == ROUND_HALF_UP ? TN__CMP_GE : TN__CMP_GT, p.rest, f64(g, limit));
    return clamped(r, tn__g_select(g, up, plus(g, p.whole, 1), p.whole));
  }
  ratio c = exact_coordinates(r);
  if (way == ROUND_CEIL) c.above = add(g, c.above, plus(g, c.below, -1));
  if (way == ROUND_HALF_UP || way == ROUND_HALF_DOWN) { /* (2 above + below) / (2 below), or just before */
    c.above = times(g, c.above, 2);
    c.above = add(g, c.above, way == ROUND_HALF_UP ? c.below : plus(g, c.below, -1));
    c.below = times(g, c.below, 2);
  }
  tn__value *position = quotient(g, greatest(g, c.above, i64(g, 0)), c.below);
  const tn__expr *size = r->axis->size;
  return tn__g_broadcast_to(g, least(g, position, plus(g, r->in_i64, -1)), 1, &size);
}

/* ---- taps -------------------------------------------------------------------------------------------------------- */

/* The kernel's value at a distance: a triangle of half-width 1, or Keys' cubic of half-width 2. */
static tn__value *kernel(const resampling *r, tn__value *distance) {
  tn__graph *g = r->g;
  tn__value *d = tn__g_unary(g, "abs", distance);
  if (is(r->spec->mode, "linear")) return tn__g_binary_s(g, "maximum", sub(g, f64(g, 1), d), 0);
  double a = r->spec->cubic_a;
  tn__value *near = plus(g, mul(g, mul(g, plus(g, times(g, d, a + 2), -(a + 3)), d), d), 1);
  tn__value *far = plus(g, mul(g, plus(g, mul(g, plus(g, times(g, d, a), -5 * a), d), 8 * a), d), -4 * a);
  tn__value *zero = f64(g, 0), *tail = tn__g_select(g, tn__g_compare(g, TN__CMP_LT, d, f64(g, 2)), far, zero);
  return tn__g_select(g, tn__g_compare(g, TN__CMP_LE, d, f64(g, 1)), near, tail);
}

/* Zero where the tap lies outside and outside is excluded. */
static tn__value *excluded(const resampling *r, tn__value *weight, tn__value *position) {
  if (!r->spec->exclude_outside) return weight;
  tn__graph *g = r->g;
  tn__value *before_end = tn__g_compare(g, TN__CMP_LT, position, r->in_f64);
  tn__value *inside = tn__g_binary(g, "and", tn__g_compare(g, TN__CMP_GE, position, f64(g, 0)), before_end);
  return tn__g_select(g, inside, weight, f64(g, 0));
}

/* A vector along `axis` of a tensor of a's rank. */
static tn__value *along(tn__graph *g, tn__value *vector, int rank, int axis) {
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? vector->dims[0] : tn__ir_index(g->ir, 1);
  return tn__g_reshape(g, vector, rank, dims);
}

/* A fixed number of taps: one take for each, added up. */
static tn__value *few_taps(const resampling *r, tn__value *a, parts x) {
  enum { MOST = 4 };
  tn__graph *g = r->g;
  int count = is(r->spec->mode, "linear") ? 2 : MOST, axis = r->axis->axis, before = count / 2 - 1;
  tn__value *weights[MOST], *positions[MOST], *total = NULL;
  for (int t = 0; t < count; t++) {
    positions[t] = plus(g, x.whole, t - before);
    weights[t] = excluded(r, kernel(r, plus(g, x.rest, before - t)), positions[t]);
    total = total == NULL ? weights[t] : add(g, total, weights[t]);
  }
  tn__value *sum = NULL;
  for (int t = 0; t < count; t++) {
    tn__value *weight = r->spec->exclude_outside ? quotient(g, weights[t], total) : weights[t];
    weight = along(g, tn__g_convert(g, weight, a->dtype), a->rank, axis);
    tn__value *term = mul(g, tn__g_take_trusted(g, a, clamped(r, positions[t]), axis), weight);
    sum = sum == NULL ? term : add(g, sum, term);
  }
  return sum;
}

/* The first tap relative to the coordinate's integer part, an i64 scalar: 1 - ceil(half / scale), for a scale of at
 * most 1. */
static tn__value *first_tap(const resampling *r, int64_t half, tn__value *scale) {
  tn__graph *g = r->g;
  if (r->axis->ratio[0] == NULL) {
    tn__value *start = tn__g_unary(g, "floor", quotient(g, f64(g, (double)-half), scale));
    return tn__g_convert(g, plus(g, start, 1), TN_I64);
  }
  tn__value *above = greatest(g, r->axis->ratio[0], i64(g, 1)), *below = greatest(g, above, r->axis->ratio[1]);
  tn__value *span = times(g, below, (double)half);
  span = add(g, span, plus(g, above, -1));
  span = quotient(g, span, above);
  return sub(g, i64(g, 1), span);
}

/* Antialiasing widens the kernel by 1 / scale when it shrinks, so the number of taps is data: a gather with one more
 * dimension, reduced. */
static tn__value *many_taps(const resampling *r, tn__value *a, parts x) {
  tn__graph *g = r->g;
  int axis = r->axis->axis, count;
  int64_t known;
  tn__value *scale = tn__g_binary_s(g, "minimum", r->scale, 1);
  tn__value *start = first_tap(r, is(r->spec->mode, "linear") ? 1 : 2, scale);
  tn__value *taps = plus(g, times(g, start, -2), 2);
  const tn__expr *one = tn__ir_index(g->ir, 1);
  const tn__expr *dims[TN__MAX_RANK] = {r->axis->size, tn__graph_elements(g, taps, &count)[0]};
  if (tn__ir_as_int(dims[1], &known) && (known < 0 || known > INT32_MAX))
    tn__graph_fail(g, TN_UNSUPPORTED, "resize: cannot scale dimension %d: the scale needs too many elements", axis);
  const tn__expr *shape[] = {r->axis->size, one};
  tn__value *offset = tn__g_iota(g, TN_F64, 2, dims, 1);
  offset = add(g, offset, to_f64(g, start));
  tn__value *position = add(g, tn__g_reshape(g, x.whole, 2, shape), offset);
  tn__value *weight = kernel(r, mul(g, sub(g, offset, tn__g_reshape(g, x.rest, 2, shape)), scale));
  const int64_t last = 1;
  weight = quotient(g, weight, tn__g_reduce(g, TN__REDUCE_SUM, weight, &last, 1, true));
  if (r->spec->exclude_outside) {
    weight = excluded(r, weight, position);
    weight = quotient(g, weight, tn__g_reduce(g, TN__REDUCE_SUM, weight, &last, 1, true));
  }
  tn__value *taken = tn__g_take_trusted(g, a, clamped(r, position), axis);
  for (int i = 0; i < taken->rank; i++) dims[i] = i == axis || i == axis + 1 ? weight->dims[i - axis] : one;
  weight = tn__g_reshape(g, tn__g_convert(g, weight, a->dtype), taken->rank, dims);
  const int64_t reduced = axis + 1;
  return tn__g_reduce(g, TN__REDUCE_SUM, mul(g, taken, weight), &reduced, 1, false);
}

static bool changes_nothing(const tn__value *a, const tn__resize_spec *spec, const tn__resize_axis *axis) {
  if (axis->size != a->dims[axis->axis] || is(spec->coordinates, "tf_crop_and_resize")) return false;
  if (axis->ratio[0] != NULL)
    return axis->ratio[0]->elements != NULL && axis->ratio[1]->elements != NULL &&
           axis->ratio[0]->elements[0] == axis->ratio[1]->elements[0];
  return axis->scale->data != NULL && tn__load_f64(TN_F64, axis->scale->data, 0) == 1;
}

static tn__value *resize_axis(tn__graph *g, tn__value *a, const tn__resize_spec *spec, const tn__resize_axis *axis) {
  if (changes_nothing(a, spec, axis)) return a;
  const tn__expr *zero = tn__ir_index(g->ir, 0), *in = a->dims[axis->axis];
  tn__graph_assume(g, tn__ir_or(g->ir, tn__ir_lt(g->ir, zero, in), tn__ir_eq(g->ir, axis->size, zero)),
                   "resize: dimension %d has no elements to make %s of", axis->axis, tn__g_size_text(g, axis->size));
  resampling r = {.g = g, .spec = spec, .axis = axis, .in = in, .scale = axis->scale};
  check_mode(&r);
  r.in_i64 = tn__g_from_elements(g, TN_I64, &in, 1, 0);
  r.in_f64 = tn__g_from_elements(g, TN_F64, &in, 1, 0);
  if (axis->ratio[0] != NULL) {
    tn__value *above = to_f64(g, axis->ratio[0]);
    r.scale = quotient(g, above, to_f64(g, axis->ratio[1]));
  }
  const tn__expr *size = axis->size;
  tn__value *result;
  if (is(spec->mode, "nearest"))
    result = tn__g_take_trusted(g, a, nearest_positions(&r), axis->axis);
  else if (is(spec->mode, "linear") || is(spec->mode, "cubic"))
    result = spec->antialias ? many_taps(&r, a, split_coordinates(&r)) : few_taps(&r, a, split_coordinates(&r));
  else
    tn__graph_fail(g, TN_UNSUPPORTED, "resize: the mode \"%s\" is unknown", spec->mode);
  if (r.outside == NULL) return result;
  tn__value *outside = along(g, tn__g_broadcast_to(g, r.outside, 1, &size), a->rank, axis->axis);
  return tn__g_select(g, outside, tn__g_scalar(g, a->dtype, spec->extrapolation), result);
}

tn__value *tn__g_resize(tn__graph *g, tn__value *a, const tn__resize_spec *spec) {
  /* Nearest moves elements of any type; the others compute, integers in f64 so that whole results stay whole. */
  tn_dtype dtype = a->dtype;
  if (!is(spec->mode, "nearest"))
    a = tn__g_convert(g, a, tn__dtype_is_float(dtype) ? tn__g_accumulator_of(dtype) : TN_F64);
  for (int i = 0; i < spec->count; i++) a = resize_axis(g, a, spec, &spec->axes[i]);
  return tn__g_convert(g, a, dtype);
}
