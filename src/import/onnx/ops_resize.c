/* Resampling: Resize, Upsample, GridSample, RoiAlign, MaxRoiPool. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"
#include "import/onnx/ops_more.h"

/* Sizes and scales of the axes that an operator names, in its order. */
typedef struct target {
  int count;
  int axes[TN__MAX_RANK];
  const tn__expr *sizes[TN__MAX_RANK];
  tn__value *scales[TN__MAX_RANK];   /* f64 scalars; NULL if sizes were given */
  tn__value *ratio[TN__MAX_RANK][2]; /* if sizes were given, the scale's numerator and denominator, i64 scalars */
  bool unchanged[TN__MAX_RANK];      /* statically known to keep their sizes */
} target;

static tn__value *element_at(tn__onode *n, tn__value *x, int64_t i) {
  return tn__on_reshape(n, tn__on_slice_axis(n, x, 0, tn__on_index(n, i), tn__on_index(n, i + 1)), 0, NULL);
}

static tn__value *as_i64(tn__onode *n, const tn__expr *e) { return tn__g_from_elements(n->g, TN_I64, &e, 1, 0); }

/* Rounds the product of a size and a scale to f32, as long as f32 can represent all integers of that magnitude: 10 *
 * 1.3 is 13, although the nearest f32 to 1.3 is below it. */
static const double exact_in_f32 = 1 << 24;

static double scaled_size(int64_t size, double scale) {
  double product = (double)size * scale;
  return floor(product < exact_in_f32 ? (double)(float)product : product);
}

/* The same at run time; returns an f64 scalar. */
static tn__value *scaled_size_at_run(tn__onode *n, const tn__expr *size, tn__value *scale) {
  tn__value *product = tn__on_mul(n, tn__g_convert(n->g, as_i64(n, size), TN_F64), scale);
  tn__value *rounded = tn__g_convert(n->g, tn__g_convert(n->g, product, TN_F32), TN_F64);
  tn__value *small = tn__g_compare(n->g, TN__CMP_LT, product, tn__on_scalar(n, exact_in_f32, product));
  return tn__on_unary(n, "floor", tn__g_select(n->g, small, rounded, product));
}

/* size = floor(dimension * scale) */
static void scales_known(tn__onode *n, target *t, const double *scales) {
  for (int i = 0; i < t->count; i++) {
    const tn__expr *dim = n->in[0]->dims[t->axes[i]];
    if (!(scales[i] > 0) || scales[i] > 1e9)
      tn__on_fail(n, "scale %g of dimension %d is not a positive number", scales[i], t->axes[i]);
    t->scales[i] = tn__g_scalar(n->g, TN_F64, scales[i]);
    t->unchanged[i] = scales[i] == 1;
    if (t->unchanged[i]) {
      t->sizes[i] = dim;
    } else if (tn__ir_is_int(dim)) {
      double size = scaled_size(dim->value.i, scales[i]);
      if (size > 1e15) tn__on_fail(n, "scale %g makes dimension %d too large", scales[i], t->axes[i]);
      t->sizes[i] = tn__on_index(n, (int64_t)size);
    } else if (scales[i] == floor(scales[i])) {
      t->sizes[i] = tn__ir_mul_i(n->ir, dim, (int64_t)scales[i]);
    } else {
      tn__value *size = scaled_size_at_run(n, dim, t->scales[i]);
      t->sizes[i] = tn__graph_count_symbol(n->g, tn__g_convert(n->g, size, TN_I64), NULL);
    }
  }
}

static void scales_at_run(tn__onode *n, target *t, tn__value *scales) {
  if (tn__g_dim_const(scales, 0) != t->count)
    tn__on_fail(n, "has %lld scales for %d dimensions", (long long)tn__g_dim_const(scales, 0), t->count);
  for (int i = 0; i < t->count; i++) {
    t->scales[i] = element_at(n, tn__g_convert(n->g, scales, TN_F64), i);
    tn__value *size = scaled_size_at_run(n, n->in[0]->dims[t->axes[i]], t->scales[i]);
    tn__value *right = tn__g_compare(n->g, TN__CMP_GT, t->scales[i], tn__on_scalar(n, 0, size));
    size = tn__g_select(n->g, right, size, tn__on_scalar(n, -1, size)); /* else a size that is refused */
    const char *text = tn__arena_printf(n->arena, "the scale of dimension %d is not a positive number", t->axes[i]);
    t->sizes[i] = tn__on_size_at_run(n, tn__g_convert(n->g, size, TN_I64), text);
  }
}

/* One scale for all dimensions: the least or greatest ratio of requested size to dimension. Each size becomes the
 * dimension times the scale, with halves rounded up. */
static void keep_aspect(tn__onode *n, target *t, bool not_larger) {
  tn__graph *g = n->g;
  const char *sign = not_larger ? "at most" : "at least";
  tn__value *above = NULL, *below = NULL;
  for (int i = 0; i < t->count; i++) {
    const tn__expr *dim = n->in[0]->dims[t->axes[i]];
    tn__graph_assume(g, tn__ir_lt(n->ir, tn__on_index(n, 0), dim),
                     "dimension %d has no elements, and no ratio to a size that it is to be %s", t->axes[i], sign);
    tn__value *const *own = t->ratio[i];
    if (above == NULL) {
      above = own[0], below = own[1];
      continue;
    }
    tn__value *left = tn__on_mul(n, own[0], below), *right = tn__on_mul(n, above, own[1]);
    tn__value *takes = tn__g_compare(g, not_larger ? TN__CMP_LT : TN__CMP_GT, left, right);
    above = tn__g_select(g, takes, own[0], above);
    below = tn__g_select(g, takes, own[1], below);
  }
  for (int i = 0; i < t->count; i++) {
    const tn__expr *dim = n->in[0]->dims[t->axes[i]];
    t->ratio[i][0] = above, t->ratio[i][1] = below;
    t->unchanged[i] = above->elements != NULL && below->elements != NULL && above->elements[0] == below->elements[0];
    tn__value *halves = tn__on_mul_s(n, tn__on_mul(n, above, as_i64(n, dim)), 2);
    halves = tn__on_add(n, halves, below);
    tn__value *size = tn__on_div(n, halves, tn__on_mul_s(n, below, 2));
    t->sizes[i] = t->unchanged[i] ? dim : tn__graph_count_symbol(g, size, NULL);
  }
}

/* Limits sizes so that products in coordinates cannot overflow: 2^30 for products of two sizes, 2^20 for products of
 * three. */
static void require_small(tn__onode *n, const tn__expr *size, int axis, int bits) {
  tn__graph_assume(n->g, tn__ir_lt(n->ir, size, tn__on_index(n, INT64_C(1) << bits)),
                   "dimension %d is resized between sizes below 2^%d only, and one is %s", axis, bits,
                   tn__g_size_text(n->g, size));
}

static void sizes_given(tn__onode *n, target *t, const tn__expr *const *sizes, int count) {
  if (count != t->count) tn__on_fail(n, "has %d sizes for %d dimensions", count, t->count);
  const char *policy = tn__on_string(n, "keep_aspect_ratio_policy", "stretch");
  bool not_larger = strcmp(policy, "not_larger") == 0, stretches = strcmp(policy, "stretch") == 0;
  if (!not_larger && !stretches && strcmp(policy, "not_smaller") != 0)
    tn__on_fail(n, "keep_aspect_ratio_policy \"%s\" is none of stretch, not_larger and not_smaller", policy);
  for (int i = 0; i < t->count; i++) {
    const tn__expr *dim = n->in[0]->dims[t->axes[i]];
    tn__on_require_count(n, sizes[i], tn__arena_printf(n->arena, "the size of dimension %d", t->axes[i]));
    t->sizes[i] = sizes[i];
    t->unchanged[i] = sizes[i] == dim;
    if (!t->unchanged[i] || !stretches) {
      require_small(n, sizes[i], t->axes[i], stretches ? 30 : 20);
      require_small(n, dim, t->axes[i], stretches ? 30 : 20);
    }
    t->ratio[i][0] = as_i64(n, sizes[i]);
    t->ratio[i][1] = as_i64(n, dim);
  }
  if (!stretches) keep_aspect(n, t, not_larger);
}

static bool upsample(const tn__onode *n) { return strcmp(n->name, "Upsample") == 0; }

static void read_target(tn__onode *n, target *t) {
  int rank = n->in[0]->rank, given;
  *t = (target){.count = rank};
  for (int i = 0; i < rank; i++) t->axes[i] = i;
  const int64_t *axes = n->version >= 18 ? tn__on_ints(n, "axes", &given) : NULL;
  if (axes != NULL) {
    axes = tn__on_axes(n, axes, given, rank);
    t->count = given;
    for (int i = 0; i < given; i++) t->axes[i] = (int)axes[i];
  }
  const double *known;
  double attribute[TN__MAX_RANK];
  if (upsample(n) && n->version < 9) {
    const float *scales = n->version < 7 ? NULL : tn__on_floats(n, "scales", &given);
    if (scales == NULL) tn__on_fail(n, "attribute \"scales\" is missing");
    if (given != rank) tn__on_fail(n, "has %d scales for %d dimensions", given, rank);
    for (int i = 0; i < rank; i++) attribute[i] = scales[i];
    scales_known(n, t, attribute);
    return;
  }
  int scales = upsample(n) || n->version < 11 ? 1 : 2;
  bool has_sizes = scales == 2 && n->in[3] != NULL;
  if (has_sizes) {
    const tn__expr *const *sizes = tn__on_elements(n, 3, &given);
    sizes_given(n, t, sizes, given);
  } else if (n->in[scales] == NULL) {
    tn__on_fail(n, "has neither scales nor sizes");
  } else if (tn__on_known_floats(n, scales, &known, &given)) {
    if (given != t->count) tn__on_fail(n, "has %d scales for %d dimensions", given, t->count);
    scales_known(n, t, known);
  } else {
    scales_at_run(n, t, n->in[scales]);
  }
}

static const char *checked(const tn__onode *n, const char *attribute, const char *otherwise,
                           const char *const *allowed) {
  const char *value = tn__on_string(n, attribute, otherwise);
  for (; *allowed != NULL; allowed++)
    if (strcmp(*allowed, value) == 0) return *allowed;
  tn__on_fail(n, "%s \"%s\" is unknown", attribute, value);
}

void tn__onnx_resize(tn__onode *n) {
  static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear", NULL};
  static const char *const transforms[] = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
      "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
  tn__value *x = n->in[0];
  bool simple = upsample(n) || n->version < 11, crop;
  target t;
  read_target(n, &t);
  tn__resize_spec spec = {.antialias = tn__on_int(n, "antialias", 0) != 0,
                          .exclude_outside = tn__on_int(n, "exclude_outside", 0) != 0,
                          .cubic_a = tn__on_float(n, "cubic_coeff_a", -0.75),
                          .extrapolation = tn__on_float(n, "extrapolation_value", 0)};
  spec.mode = checked(n, "mode", "nearest", modes);
  if (strcmp(spec.mode, "bilinear") == 0) spec.mode = "linear";
  spec.coordinates = simple ? "asymmetric" : checked(n, "coordinate_transformation_mode", "half_pixel", transforms);
  spec.nearest = simple ? "floor" : checked(n, "nearest_mode", "round_prefer_floor", roundings);
  if (strcmp(spec.coordinates, "tf_half_pixel_for_nn") == 0)
    tn__on_unsupported(
        n, "coordinate_transformation_mode \"tf_half_pixel_for_nn\", which operator set 13 dropped, is not supported");
  crop = strcmp(spec.coordinates, "tf_crop_and_resize") == 0;
  if (crop && n->in[1] == NULL) tn__on_fail(n, "input 1 (roi) is missing");
  if (crop && (n->in[1]->rank != 1 || tn__g_dim_const(n->in[1], 0) != 2 * t.count))
    tn__on_fail(n, "input 1 (roi) must have %d elements", 2 * t.count);
  for (int i = 0; i < t.count; i++) {
    if (t.unchanged[i] && !crop) continue;
    tn__resize_axis *axis = &spec.axes[spec.count++];
    *axis = (tn__resize_axis){
        .axis = t.axes[i], .size = t.sizes[i], .scale = t.scales[i], .ratio = {t.ratio[i][0], t.ratio[i][1]}};
    if (!crop) continue;
    axis->roi_start = element_at(n, tn__g_convert(n->g, n->in[1], TN_F64), i);
    axis->roi_end = element_at(n, tn__g_convert(n->g, n->in[1], TN_F64), t.count + i);
  }
  n->out[0] = spec.count == 0 ? x : tn__g_resize(n->g, x, &spec);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

void tn__onnx_grid_sample(tn__onode *n) {
  static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic", NULL};
  static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
  const char *mode = checked(n, "mode", n->version < 20 ? "bilinear" : "linear", modes);
  if (strncmp(mode, "bi", 2) == 0) mode += 2;
  const char *padding = checked(n, "padding_mode", "zeros", paddings);
  tn__value *grid = tn__g_convert(n->g, n->in[1], n->in[0]->dtype);
  n->out[0] = tn__g_grid_sample(n->g, n->in[0], grid, mode, padding, tn__on_int(n, "align_corners", 0) != 0);
}

void tn__onnx_roi_align(tn__onode *n) {
  static const char *const modes[] = {"avg", "max", NULL};
  static const char *const transforms[] = {"half_pixel", "output_half_pixel", NULL};
  tn__roi_spec spec = {.size = {tn__on_int(n, "output_height", 1), tn__on_int(n, "output_width", 1)},
                       .sampling_ratio = tn__on_int(n, "sampling_ratio", 0),
                       .spatial_scale = tn__on_float(n, "spatial_scale", 1)};
  for (int i = 0; i < 2; i++)
    if (spec.size[i] < 1 || spec.size[i] > 1 << 20)
      tn__on_fail(n, "the size of its result is %lld", (long long)spec.size[i]);
  if (spec.sampling_ratio < 0 || spec.sampling_ratio > 1 << 10)
    tn__on_fail(n, "sampling_ratio is %lld", (long long)spec.sampling_ratio);
  const char *transform =
      n->version < 16 ? "output_half_pixel" : checked(n, "coordinate_transformation_mode", "half_pixel", transforms);
  spec.half_pixel = strcmp(transform, "half_pixel") == 0;
  spec.max = strcmp(checked(n, "mode", "avg", modes), "max") == 0;
  n->out[0] = tn__g_roi_align(n->g, n->in[0], n->in[1], tn__g_convert(n->g, n->in[2], TN_I64), &spec);
}

/* ---- MaxRoiPool ---------------------------------------------------------------------------------------------------
 * Each region is cut into cells whose bounds are rounded outwards; a cell's result is its greatest element, and zero
 * when nothing of it lies in the image (Girshick, "Fast R-CNN", 2015, and Caffe). First along y, then along x. */

typedef struct roi_cells { /* along one dimension */
  tn__value *inside;       /* bool [regions, cells, size] */
  tn__value *some;         /* bool [regions, cells, 1]: is the cell not empty? */
} roi_cells;

/* Coordinate `column` of the regions, in the image: f32 [regions, 1], rounded half away from zero. */
static tn__value *roi_coordinate(tn__onode *n, tn__value *rois, int column, double scale) {
  tn__value *c = tn__on_slice_axis(n, rois, 1, tn__on_index(n, column), tn__on_index(n, column + 1));
  c = tn__on_mul_s(n, c, scale);
  tn__value *size = tn__on_unary(n, "floor", tn__on_add_s(n, tn__on_unary(n, "abs", c), 0.5));
  return tn__on_mul(n, tn__on_unary(n, "sign", c), size);
}

static roi_cells cut_regions(tn__onode *n, tn__value *first, tn__value *last, int64_t cells, const tn__expr *size) {
  const int64_t behind[] = {2};
  const tn__expr *one = tn__on_index(n, 1);
  tn__value *length = tn__on_add_s(n, tn__on_sub(n, last, first), 1);
  length = tn__on_max(n, length, tn__on_scalar(n, 1, length));
  tn__value *step = tn__on_div(n, length, tn__on_scalar(n, (double)cells, length));
  tn__value *cell = tn__g_iota(n->g, TN_F32, 2, (const tn__expr *[]){one, tn__on_index(n, cells)}, 1);
  tn__value *low = tn__on_add(n, tn__on_unary(n, "floor", tn__on_mul(n, step, cell)), first);
  tn__value *high = tn__on_add(n, tn__on_unary(n, "ceil", tn__on_mul(n, step, tn__on_add_s(n, cell, 1))), first);
  low = tn__on_unsqueeze(n, low, behind, 1);
  high = tn__on_unsqueeze(n, high, behind, 1);
  tn__value *at = tn__g_iota(n->g, TN_F32, 3, (const tn__expr *[]){one, one, size}, 2);
  tn__value *count = tn__g_convert(n->g, tn__g_from_elements(n->g, TN_I64, &size, 1, 0), TN_F32);
  tn__value *from = tn__on_max(n, low, tn__on_scalar(n, 0, low)), *to = tn__on_min(n, high, count);
  tn__value *inside = tn__g_compare(n->g, TN__CMP_LT, at, high);
  inside = tn__g_binary(n->g, "and", tn__g_compare(n->g, TN__CMP_GE, at, low), inside);
  return (roi_cells){inside, tn__g_compare(n->g, TN__CMP_LT, from, to)};
}

/* The greatest along `axis` of the elements of x that are inside. */
static tn__value *greatest_inside(tn__onode *n, tn__value *x, tn__value *inside, int64_t axis) {
  tn__value *kept = tn__g_select(n->g, inside, x, tn__on_scalar(n, -INFINITY, x));
  return tn__g_reduce(n->g, TN__REDUCE_MAX, kept, &axis, 1, false);
}

void tn__onnx_max_roi_pool(tn__onode *n) {
  int count;
  const int64_t *pooled = tn__on_ints(n, "pooled_shape", &count);
  double scale = tn__on_float(n, "spatial_scale", 1);
  if (pooled == NULL || count != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > 1 << 20 || pooled[1] > 1 << 20)
    tn__on_fail(n, "pooled_shape is not two sizes");
  tn__value *x = n->in[0], *rois = tn__g_convert(n->g, n->in[1], TN_F32);
  tn__value *batch = tn__on_slice_axis(n, rois, 1, tn__on_index(n, 0), tn__on_index(n, 1));
  batch = tn__g_convert(n->g, tn__on_squeeze(n, batch, (const int64_t[]){1}, 1), TN_I64);
  tn__value *end = roi_coordinate(n, rois, 4, scale);
  roi_cells y = cut_regions(n, roi_coordinate(n, rois, 2, scale), end, pooled[0], x->dims[2]);
  end = roi_coordinate(n, rois, 3, scale);
  roi_cells z = cut_regions(n, roi_coordinate(n, rois, 1, scale), end, pooled[1], x->dims[3]);
  tn__value *own = tn__on_unsqueeze(n, tn__g_take(n->g, x, batch, 0), (const int64_t[]){2}, 1);
  tn__value *rows = greatest_inside(n, own, tn__on_unsqueeze(n, y.inside, (const int64_t[]){1, 4}, 2), 3);
  rows = tn__on_unsqueeze(n, rows, (const int64_t[]){3}, 1);
  tn__value *cells = greatest_inside(n, rows, tn__on_unsqueeze(n, z.inside, (const int64_t[]){1, 2}, 2), 4);
  tn__value *some = tn__g_binary(n->g, "and", y.some, tn__on_transpose(n, z.some, (const int64_t[]){0, 2, 1}));
  some = tn__on_unsqueeze(n, some, (const int64_t[]){1}, 1);
  n->out[0] = tn__g_select(n->g, some, cells, tn__on_scalar(n, 0, cells));
}
