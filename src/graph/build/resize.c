/* Resampling along dimensions, as ONNX's Resize means it, composed of takes and weighted sums.
 *
 * Interpolation is separable, so each dimension is done on its own: the source coordinate of every output position, the
 * positions of the taps around it and their weights are small f64 vectors (constants, when the scale is one, that fold
 * away). */
#include <math.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"

typedef struct resampling {
  tn__graph *g;
  const tn__resize_spec *spec;
  const tn__resize_axis *axis;
  const tn__expr *in; /* the dimension */
  tn__value *in_f64;  /* the same as a scalar */
  tn__value *outside; /* bool [size]: takes the extrapolation value; NULL */
} resampling;

static tn__value *f64(tn__graph *g, double value) { return tn__g_scalar(g, TN_F64, value); }
static tn__value *add(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "add", a, b); }
static tn__value *sub(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "subtract", a, b); }
static tn__value *mul(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "multiply", a, b); }
static tn__value *quotient(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "divide", a, b); }
static tn__value *plus(tn__graph *g, tn__value *a, double b) { return tn__g_binary_s(g, "add", a, b); }
static tn__value *times(tn__graph *g, tn__value *a, double b) { return tn__g_binary_s(g, "multiply", a, b); }
static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* `one` where the (unrounded) output has one element, else `many`. */
static tn__value *unless_single(tn__graph *g, tn__value *width, tn__value *one, tn__value *many) {
  return tn__g_select(g, tn__g_compare(g, TN__CMP_EQ, width, f64(g, 1)), one, many);
}

/* Source coordinates [size], f64. */
static tn__value *coordinates(resampling *r) {
  tn__graph *g = r->g;
  const char *mode = r->spec->coordinates;
  tn__value *y = tn__g_iota(g, TN_F64, 1, &r->axis->size, 0), *scale = r->axis->scale;
  tn__value *width = mul(g, scale, r->in_f64), *last = plus(g, r->in_f64, -1);
  if (is(mode, "asymmetric")) return quotient(g, y, scale);
  if (is(mode, "align_corners")) {
    tn__value *steps = plus(g, width, -1), *many = quotient(g, mul(g, y, last), steps);
    return unless_single(g, width, f64(g, 0), many);
  }
  if (is(mode, "tf_crop_and_resize")) {
    tn__value *extent = mul(g, sub(g, r->axis->roi_end, r->axis->roi_start), last);
    tn__value *steps = plus(g, width, -1), *many = quotient(g, mul(g, y, extent), steps);
    tn__value *start = mul(g, r->axis->roi_start, last);
    tn__value *x = add(g, unless_single(g, width, times(g, extent, 0.5), many), start);
    tn__value *behind = tn__g_compare(g, TN__CMP_GT, x, last);
    r->outside = tn__g_binary(g, "or", tn__g_compare(g, TN__CMP_LT, x, f64(g, 0)), behind);
    return x;
  }
  tn__value *half = plus(g, quotient(g, plus(g, y, 0.5), scale), -0.5);
  if (is(mode, "pytorch_half_pixel")) return unless_single(g, width, f64(g, -0.5), half);
  if (is(mode, "half_pixel_symmetric")) {
    tn__value *adjustment = quotient(g, tn__g_from_elements(g, TN_F64, &r->axis->size, 1, 0), width);
    tn__value *rest = sub(g, f64(g, 1), adjustment), *offset = mul(g, times(g, r->in_f64, 0.5), rest);
    return add(g, offset, half);
  }
  if (!is(mode, "half_pixel")) tn__graph_fail(g, TN_UNSUPPORTED, "resize: the coordinate mode \"%s\" is unknown", mode);
  return half;
}

/* Positions as i64 within the dimension, which has elements when there are positions (resize_axis), also of NaN. */
static tn__value *clamped(const resampling *r, tn__value *position) {
  tn__graph *g = r->g;
  tn__value *first = f64(g, 0);
  position = tn__g_binary(g, "maximum", tn__g_binary(g, "minimum", position, plus(g, r->in_f64, -1)), first);
  return tn__g_convert(g, position, TN_I64);
}

static tn__value *nearest_position(const resampling *r, tn__value *x) {
  tn__graph *g = r->g;
  const char *mode = r->spec->nearest;
  if (is(mode, "floor")) return tn__g_unary(g, "floor", x);
  if (is(mode, "ceil")) return tn__g_unary(g, "ceil", x);
  if (is(mode, "round_prefer_ceil")) return tn__g_unary(g, "floor", plus(g, x, 0.5));
  if (!is(mode, "round_prefer_floor"))
    tn__graph_fail(g, TN_UNSUPPORTED, "resize: the nearest mode \"%s\" is unknown", mode);
  return tn__g_unary(g, "ceil", plus(g, x, -0.5));
}

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
static tn__value *few_taps(const resampling *r, tn__value *a, tn__value *x) {
  enum { MOST = 4 };
  tn__graph *g = r->g;
  int count = is(r->spec->mode, "linear") ? 2 : MOST, axis = r->axis->axis, before = count / 2 - 1;
  tn__value *base = tn__g_unary(g, "floor", x), *weights[MOST], *positions[MOST], *total = NULL;
  for (int t = 0; t < count; t++) {
    positions[t] = plus(g, base, t - before);
    weights[t] = excluded(r, kernel(r, sub(g, x, positions[t])), positions[t]);
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

/* Antialiasing widens the kernel by 1 / scale when it shrinks, so the number of taps is data: a gather with one more
 * dimension, reduced. */
static tn__value *many_taps(const resampling *r, tn__value *a, tn__value *x) {
  tn__graph *g = r->g;
  tn__ir *ir = g->ir;
  int axis = r->axis->axis, count;
  double half = is(r->spec->mode, "linear") ? 1 : 2;
  tn__value *scale = tn__g_binary_s(g, "minimum", r->axis->scale, 1);
  tn__value *start = plus(g, tn__g_unary(g, "floor", quotient(g, f64(g, -half), scale)), 1);
  tn__value *taps = tn__g_convert(g, plus(g, times(g, start, -2), 2), TN_I64);
  if (r->axis->scale->data != NULL) {
    double s = fmin(tn__load_f64(TN_F64, r->axis->scale->data, 0), 1);
    if (!(half / s < INT32_MAX)) tn__graph_fail(g, TN_UNSUPPORTED, "resize: the scale %g takes too many elements", s);
    taps = tn__g_scalar_i64(g, TN_I64, (int64_t)(2 - 2 * (floor(-half / s) + 1)));
  }
  const tn__expr *dims[TN__MAX_RANK] = {r->axis->size, tn__graph_elements(g, taps, &count)[0]},
                 *one = tn__ir_index(ir, 1);
  tn__value *column = tn__g_reshape(g, x, 2, (const tn__expr *[]){r->axis->size, one});
  tn__value *offset = add(g, tn__g_iota(g, TN_F64, 2, dims, 1), start);
  tn__value *position = add(g, tn__g_unary(g, "floor", column), offset);
  tn__value *weight = kernel(r, mul(g, sub(g, position, column), scale));
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
  return axis->size == a->dims[axis->axis] && axis->scale->data != NULL &&
         tn__load_f64(TN_F64, axis->scale->data, 0) == 1 && !is(spec->coordinates, "tf_crop_and_resize");
}

static tn__value *resize_axis(tn__graph *g, tn__value *a, const tn__resize_spec *spec, const tn__resize_axis *axis) {
  if (changes_nothing(a, spec, axis)) return a;
  const tn__expr *zero = tn__ir_index(g->ir, 0), *in = a->dims[axis->axis];
  tn__graph_assume(g, tn__ir_or(g->ir, tn__ir_lt(g->ir, zero, in), tn__ir_eq(g->ir, axis->size, zero)),
                   "resize: dimension %d has no elements to make %s of", axis->axis, tn__g_size_text(g, axis->size));
  resampling r = {.g = g, .spec = spec, .axis = axis, .in = a->dims[axis->axis]};
  r.in_f64 = tn__g_from_elements(g, TN_F64, &r.in, 1, 0);
  const tn__expr *size = axis->size;
  tn__value *x = tn__g_broadcast_to(g, coordinates(&r), 1, &size);
  tn__value *result;
  if (is(spec->mode, "nearest"))
    result = tn__g_take_trusted(g, a, clamped(&r, nearest_position(&r, x)), axis->axis);
  else if (is(spec->mode, "linear") || is(spec->mode, "cubic"))
    result = spec->antialias ? many_taps(&r, a, x) : few_taps(&r, a, x);
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
