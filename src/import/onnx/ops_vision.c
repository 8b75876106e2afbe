/* Detection and deformation; determinants. */
#include <string.h>

#include "import/onnx/ops.h"

void tn__onnx_det(tn__onode *n) { n->out[0] = tn__g_determinant(n->g, n->in[0]); }

void tn__onnx_non_max_suppression(tn__onode *n) {
  tn__value *limit = n->in[2] != NULL ? n->in[2] : tn__g_scalar_i64(n->g, TN_I64, 0);
  n->out[0] = tn__g_non_max_suppression(n->g, n->in[0], n->in[1], limit, n->in[3], n->in[4],
                                        tn__on_int(n, "center_point_box", 0) != 0);
}

/* Coordinates of a row of pixels in [-1, 1]: of their centres, or from edge to edge. */
static tn__value *pixel_coordinates(tn__onode *n, tn_dtype dtype, const tn__expr *size, bool align_corners) {
  tn__ir *ir = n->ir;
  const tn__expr *steps = align_corners ? tn__ir_max(ir, tn__ir_add_i(ir, size, -1), tn__ir_index(ir, 1)) : size;
  tn__value *number = tn__g_convert(n->g, tn__g_from_elements(n->g, TN_I64, &steps, 1, 0), dtype);
  tn__value *i = tn__on_mul_s(n, tn__g_iota(n->g, dtype, 1, &size, 0), 2);
  if (!align_corners) i = tn__on_add_s(n, i, 1);
  return tn__on_add_s(n, tn__on_div(n, i, number), -1);
}

/* theta [N, d, d + 1] times the coordinates of each pixel, x first, and 1. */
void tn__onnx_affine_grid(tn__onode *n) {
  tn__graph *g = n->g;
  int count;
  tn__value *theta = tn__on_widen(n, n->in[0]);
  const tn__expr *const *size = tn__on_elements(n, 1, &count);
  int spatial = count - 2;
  if (spatial != 2 && spatial != 3) tn__on_fail(n, "input 1 (size) has %d elements, expected 4 or 5", count);
  bool align_corners = tn__on_int(n, "align_corners", 0) != 0;
  tn__on_require_size(n, 0, 0, size[0], "element 0 of input 1 (size)");
  const tn__expr *dims[5];
  for (int i = 0; i < spatial; i++) dims[i] = size[2 + i];
  tn__value *columns[4];
  for (int i = 0; i < spatial; i++) {
    int axis = spatial - 1 - i;
    tn__value *line = tn__on_at_axis(n, pixel_coordinates(n, theta->dtype, dims[axis], align_corners), axis, spatial);
    const int64_t last = spatial;
    columns[i] = tn__on_unsqueeze(n, tn__g_broadcast_to(g, line, spatial, dims), &last, 1);
  }
  dims[spatial] = tn__on_index(n, 1);
  columns[spatial] = tn__g_full(g, theta->dtype, 1, spatial + 1, dims);
  tn__value *points = tn__g_concatenate(g, columns, spatial + 1, spatial);
  const int64_t contract_points = spatial, contract_theta = 2;
  tn__value *y = tn__g_dot_general(g, points, theta, NULL, NULL, 0, &contract_points, &contract_theta, 1, theta->dtype);
  /* [d, h, w, N, coordinates] to [N, d, h, w, coordinates] */
  int64_t order[5] = {spatial};
  for (int i = 0; i < spatial; i++) order[i + 1] = i;
  order[spatial + 1] = spatial + 1;
  n->out[0] = tn__g_convert(g, tn__g_transpose(g, y, order), n->in[0]->dtype);
}

/* ---- deformable convolution -------------------------------------------------------------------------------------- */

typedef struct deform {
  int64_t kernel[2], groups, offset_groups;
  tn__onnx_window window;
  const tn__expr *out[2]; /* height and width of the result */
} deform;

/* Where the taps of an offset group read, in grid_sample's coordinates with centres at half pixels: [N, taps * h, w,
 * 2]. */
static tn__value *sampling_grid(tn__onode *n, const deform *d, tn__value *offset, const tn__value *x) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  int64_t taps = d->kernel[0] * d->kernel[1];
  const tn__expr *dims[5] = {x->dims[0], tn__ir_index(ir, taps), d->out[0], d->out[1], tn__ir_index(ir, 1)};
  const tn__expr *split[5] = {x->dims[0], dims[1], tn__ir_index(ir, 2), d->out[0], d->out[1]},
                 *tap_dims[2] = {tn__ir_index(ir, d->kernel[0]), tn__ir_index(ir, d->kernel[1])};
  offset = tn__on_reshape(n, offset, 5, split);
  tn__value *coordinates[2];
  for (int axis = 0; axis < 2; axis++) {
    const int64_t component = 2;
    tn__value *own = tn__on_squeeze(
        n, tn__on_slice_axis(n, offset, 2, tn__ir_index(ir, axis), tn__ir_index(ir, axis + 1)), &component, 1);
    tn__value *tap = tn__on_mul_s(n, tn__g_iota(g, x->dtype, 2, tap_dims, axis), (double)d->window.dilations[axis]);
    tap = tn__on_at_axis(n, tn__on_reshape(n, tap, 1, &dims[1]), 1, 4);
    tn__value *base = tn__on_mul_s(n, tn__g_iota(g, x->dtype, 4, dims, 2 + axis), (double)d->window.strides[axis]);
    tn__value *pad = tn__g_convert(g, tn__g_from_elements(g, TN_I64, &d->window.low[axis], 1, 0), x->dtype);
    tn__value *at = tn__on_add(n, tn__on_add(n, own, tn__on_sub(n, base, pad)), tap);
    tn__value *size = tn__g_convert(g, tn__g_from_elements(g, TN_I64, &x->dims[2 + axis], 1, 0), x->dtype);
    at = tn__on_add_s(n, tn__on_div(n, tn__on_add_s(n, tn__on_mul_s(n, at, 2), 1), size), -1);
    coordinates[1 - axis] = tn__on_reshape(n, at, 5, dims);
  }
  const tn__expr *merged[4] = {x->dims[0], tn__ir_mul_i(ir, d->out[0], taps), d->out[1], tn__ir_index(ir, 2)};
  return tn__on_reshape(n, tn__g_concatenate(g, coordinates, 2, 4), 4, merged);
}

static tn__value *group_of(tn__onode *n, tn__value *x, int64_t group, int64_t groups) {
  const tn__expr *size = tn__ir_div_i(n->ir, x->dims[1], groups);
  return groups == 1
             ? x
             : tn__on_slice_axis(n, x, 1, tn__ir_mul_i(n->ir, size, group), tn__ir_mul_i(n->ir, size, group + 1));
}

static void read_deform(tn__onode *n, deform *d) {
  if (n->in[0]->rank != 4)
    tn__on_unsupported(n, "input 0 has %d dimensions; only images (4) are supported", n->in[0]->rank);
  d->groups = tn__on_int(n, "group", 1);
  d->offset_groups = tn__on_int(n, "offset_group", 1);
  int64_t channels = tn__on_dim_known(n, 0, 1, "the number of channels");
  if (d->groups < 1 || d->offset_groups < 1 || channels % d->groups != 0 || channels % d->offset_groups != 0)
    tn__on_fail(n, "%lld channels do not divide into %lld groups and %lld offset groups", (long long)channels,
                (long long)d->groups, (long long)d->offset_groups);
  for (int i = 0; i < 2; i++) d->kernel[i] = tn__on_dim_known(n, 1, i + 2, "the size of the window");
  tn__onnx_window_read(n, 2, d->kernel, &d->window);
  for (int i = 0; i < 2; i++) {
    const tn__expr *padded =
        tn__ir_add(n->ir, n->in[0]->dims[2 + i], tn__ir_add(n->ir, d->window.low[i], d->window.high[i]));
    const tn__expr *rest = tn__ir_add_i(n->ir, padded, -(d->window.window[i] - 1) * d->window.dilations[i] - 1);
    d->out[i] = n->in[2]->dims[2 + i];
    tn__on_require_size(n, 2, 2 + i, tn__ir_add_i(n->ir, tn__ir_div_i(n->ir, rest, d->window.strides[i]), 1),
                        "how many windows there are");
  }
}

/* Samples every tap's shifted position; the rest is a convolution whose window is the taps. */
void tn__onnx_deform_conv(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  deform d = {.groups = 1};
  read_deform(n, &d);
  tn_dtype dtype = n->in[0]->dtype;
  /* Samples are taken in f64, because positions go through [-1, 1] and back. */
  tn__value *x = tn__g_convert(g, n->in[0], TN_F64), *offset = tn__g_convert(g, n->in[2], TN_F64);
  int64_t taps = d.kernel[0] * d.kernel[1];
  tn__value **samples = TN__NEW_ARRAY(n->arena, d.offset_groups, tn__value *);
  for (int64_t i = 0; i < d.offset_groups; i++) {
    tn__value *part = group_of(n, x, i, d.offset_groups);
    tn__value *grid = sampling_grid(n, &d, group_of(n, offset, i, d.offset_groups), x);
    const tn__expr *split[5] = {x->dims[0], part->dims[1], tn__ir_index(ir, taps), d.out[0], d.out[1]}, *mask_dims[5];
    memcpy(mask_dims, split, sizeof(split));
    mask_dims[1] = tn__ir_index(ir, 1);
    tn__value *taken = tn__g_convert(g, tn__g_grid_sample(g, part, grid, "linear", "zeros", false), dtype);
    samples[i] = tn__on_reshape(n, taken, 5, split);
    if (n->in[4] != NULL) {
      tn__value *mask = group_of(n, n->in[4], i, d.offset_groups);
      samples[i] = tn__on_mul(n, samples[i], tn__on_reshape(n, mask, 5, mask_dims));
    }
  }
  tn__value *columns = d.offset_groups == 1 ? samples[0] : tn__g_concatenate(g, samples, (int)d.offset_groups, 1);
  tn__conv_spec spec = {.spatial = 3, .feature_groups = d.groups};
  for (int i = 0; i < 3; i++) {
    spec.strides[i] = spec.lhs_dilation[i] = spec.rhs_dilation[i] = 1;
    spec.low[i] = spec.high[i] = tn__ir_index(ir, 0);
  }
  const tn__value *w = n->in[1];
  const tn__expr *weights[5] = {w->dims[0], w->dims[1], tn__ir_index(ir, taps), tn__ir_index(ir, 1),
                                tn__ir_index(ir, 1)};
  tn__value *y = tn__g_convolution(g, columns, tn__on_reshape(n, n->in[1], 5, weights), &spec, dtype);
  y = tn__on_squeeze(n, y, (const int64_t[]){2}, 1);
  n->out[0] = n->in[3] == NULL ? y : tn__on_add(n, y, tn__on_at_axis(n, n->in[3], 1, 4));
}
