/* Fourier transforms and mel filters. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"

/* [..., 1] or [..., 2] to its parts without the last dimension. */
static tn__complex split_complex(tn__onode *n, tn__value *x) {
  int last = x->rank - 1;
  const int64_t axis = last;
  int64_t parts = tn__g_dim_const(x, last);
  if (parts != 1 && parts != 2) tn__on_fail(n, "the last dimension of input 0 must be 1 (real) or 2 (complex)");
  tn__complex c = {
      .re = tn__on_squeeze(n, tn__on_slice_axis(n, x, last, tn__on_index(n, 0), tn__on_index(n, 1)), &axis, 1)};
  if (parts == 2)
    c.im = tn__on_squeeze(n, tn__on_slice_axis(n, x, last, tn__on_index(n, 1), tn__on_index(n, 2)), &axis, 1);
  return c;
}

static tn__value *join_complex(const tn__onode *n, tn__complex c) {
  const int64_t axis = c.re->rank;
  tn__value *parts[2] = {tn__on_unsqueeze(n, c.re, &axis, 1)};
  if (c.im == NULL) return parts[0];
  parts[1] = tn__on_unsqueeze(n, c.im, &axis, 1);
  return tn__g_concatenate(n->g, parts, 2, c.re->rank);
}

static tn__complex transform(tn__onode *n, tn__complex x, int axis, const tn__expr *size, bool inverse, bool onesided) {
  tn_dtype dtype = x.re->dtype;
  tn__complex y = tn__g_dft(n->g, x, axis, size, inverse, onesided);
  y.re = tn__g_convert(n->g, y.re, dtype);
  if (y.im != NULL) y.im = tn__g_convert(n->g, y.im, dtype);
  return y;
}

static tn__value *part_along(tn__onode *n, tn__value *part, const tn__expr *axis) {
  return part == NULL ? NULL : tn__onnx_along(n, part, axis);
}

void tn__onnx_dft(tn__onode *n) {
  const tn__complex x = split_complex(n, n->in[0]);
  tn__complex y = x;
  int rank = n->in[0]->rank, count = 1;
  bool inverse = tn__on_int(n, "inverse", 0) != 0, onesided = tn__on_int(n, "onesided", 0) != 0;
  const int64_t given = n->version < 20 ? tn__on_int(n, "axis", 1) : -2, *known = &given;
  const tn__expr *at_run = NULL;
  if (onesided && inverse != (x.im != NULL))
    tn__on_fail(n, "%s with onesided takes %s input", inverse ? "the inverse transform" : "the transform",
                inverse ? "complex" : "real");
  int64_t axis = 1;
  if (n->version >= 20 && n->in[2] != NULL && !tn__on_known_ints(n, 2, &known, &count)) {
    at_run = tn__onnx_axis_at_run(n, 2, rank, rank - 1);
    y.re = tn__onnx_along(n, x.re, at_run);
    y.im = part_along(n, x.im, at_run);
  } else {
    if (count != 1) tn__on_fail(n, "input 2 (axis) has %d elements, expected 1", count);
    axis = tn__on_axis(n, known[0], rank);
    if (axis == rank - 1) tn__on_fail(n, "axis %lld is the dimension of the complex parts", (long long)axis);
  }
  const tn__expr *size = y.re->dims[axis];
  if (inverse && onesided) size = tn__ir_mul_i(n->ir, tn__ir_add_i(n->ir, size, -1), 2);
  if (n->in[1] != NULL) size = tn__on_element(n, 1);
  y = transform(n, y, (int)axis, size, inverse, onesided);
  if (at_run != NULL) {
    y.re = tn__onnx_from_along(n, y.re, x.re, at_run);
    if (y.im != NULL) y.im = tn__onnx_from_along(n, y.im, x.re, at_run);
  }
  n->out[0] = join_complex(n, y);
}

/* Frames of the signal, times the window, transformed: [batch, frames, bins, 2]. */
void tn__onnx_stft(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  tn__value *signal = n->in[0];
  if (signal->rank == 2) signal = tn__on_unsqueeze(n, signal, (const int64_t[]){2}, 1);
  tn__complex x = split_complex(n, signal);
  const tn__expr *step = tn__on_element(n, 1), *one = tn__ir_index(ir, 1);
  const tn__expr *length = n->in[3] != NULL ? tn__on_element(n, 3) : n->in[2] != NULL ? n->in[2]->dims[0] : NULL;
  if (length == NULL) tn__on_fail(n, "has neither a window nor a frame length");
  tn__graph_assume(g, tn__ir_le(ir, one, step), "the frame step is %s, and must be at least 1",
                   tn__g_size_text(g, step));
  tn__graph_assume(g, tn__ir_le(ir, one, length), "the frame length is %s, and must be at least 1",
                   tn__g_size_text(g, length));
  /* The positions below are not checked: they are in the signal because a shorter one has no frames. */
  const tn__expr *span = tn__ir_sub(ir, x.re->dims[1], length);
  const tn__expr *frames = tn__ir_add_i(ir, tn__ir_div(ir, span, tn__ir_max(ir, step, one)), 1);
  frames = tn__ir_max(ir, frames, tn__ir_index(ir, 0));
  const tn__expr *dims[2] = {frames, length};
  tn__value *at = tn__g_from_elements(g, TN_I64, &step, 1, 0);
  at = tn__on_mul(n, tn__g_iota(g, TN_I64, 2, dims, 0), at);
  at = tn__on_add(n, at, tn__g_iota(g, TN_I64, 2, dims, 1));
  tn__value **parts[2] = {&x.re, &x.im};
  for (int i = 0; i < 2; i++) {
    if (*parts[i] == NULL) continue;
    *parts[i] = tn__g_take_trusted(g, *parts[i], at, 1);
    if (n->in[2] != NULL) *parts[i] = tn__on_mul(n, *parts[i], tn__g_convert(g, n->in[2], (*parts[i])->dtype));
  }
  bool onesided = tn__on_int(n, "onesided", 1) != 0;
  n->out[0] = join_complex(n, transform(n, x, 2, length, false, onesided && x.im == NULL));
}

/* Corner frequencies in bins (i64): bins + 2 of them, evenly spaced on the mel scale. */
static tn__value *mel_corners(tn__onode *n, const tn__expr *corners) {
  tn__graph *g = n->g;
  tn__value *v[5], *mel[2], *i = tn__g_iota(g, TN_F64, 1, &corners, 0);
  for (int k = 0; k < 5; k++) v[k] = tn__g_convert(g, tn__on_reshape(n, n->in[k], 0, NULL), TN_F64);
  for (int k = 0; k < 2; k++) {
    tn__value *ratio = tn__on_add_s(n, tn__g_binary_s(g, "divide", v[3 + k], 700), 1);
    mel[k] = tn__on_mul_s(n, tn__on_unary(n, "log", ratio), 2595 / M_LN10);
  }
  tn__value *number = tn__g_convert(g, tn__g_from_elements(g, TN_I64, &corners, 1, 0), TN_F64);
  tn__value *step = tn__on_div(n, tn__on_sub(n, mel[1], mel[0]), number);
  tn__value *at = tn__on_add(n, tn__on_mul(n, i, step), mel[0]);
  tn__value *hertz =
      tn__on_mul_s(n, tn__on_add_s(n, tn__on_unary(n, "exponential", tn__on_mul_s(n, at, M_LN10 / 2595)), -1), 700);
  tn__value *bin = tn__on_div(n, tn__on_mul(n, tn__on_add_s(n, v[1], 1), hertz), v[2]);
  return tn__g_convert(g, tn__on_unary(n, "floor", bin), TN_I64);
}

/* Triangles between neighbouring corners, one a column. */
void tn__onnx_mel_weights(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  const tn__expr *columns = tn__on_element(n, 0), *length = tn__on_element(n, 1);
  const tn__expr *dims[2] = {tn__ir_add_i(ir, tn__ir_div_i(ir, length, 2), 1), columns};
  tn__value *corners = mel_corners(n, tn__ir_add_i(ir, columns, 2)), *corner[3],
            *row = tn__g_iota(g, TN_F64, 2, dims, 0);
  for (int k = 0; k < 3; k++)
    corner[k] =
        tn__g_convert(g, tn__on_slice_axis(n, corners, 0, tn__ir_index(ir, k), tn__ir_add_i(ir, columns, k)), TN_F64);
  tn__value *zero = tn__g_scalar(g, TN_F64, 0), *one = tn__g_scalar(g, TN_F64, 1);
  tn__value *rise = tn__on_sub(n, corner[1], corner[0]), *fall = tn__on_sub(n, corner[2], corner[1]);
  tn__value *flat = tn__g_compare(g, TN__CMP_EQ, rise, zero);
  tn__value *width = tn__g_select(g, flat, one, rise), *up = tn__on_div(n, tn__on_sub(n, row, corner[0]), width);
  width = tn__g_select(g, tn__g_compare(g, TN__CMP_EQ, fall, zero), one, fall);
  tn__value *down = tn__on_div(n, tn__on_sub(n, corner[2], row), width);
  tn__value *in_rise = tn__g_compare(g, TN__CMP_LE, row, corner[1]);
  in_rise = tn__g_binary(g, "and", tn__g_compare(g, TN__CMP_GE, row, corner[0]), in_rise);
  tn__value *in_fall = tn__g_compare(g, TN__CMP_LT, row, corner[2]);
  in_fall = tn__g_binary(g, "and", tn__g_compare(g, TN__CMP_GE, row, corner[1]), in_fall);
  tn__value *at_center = tn__g_compare(g, TN__CMP_EQ, row, corner[1]);
  tn__value *lone = tn__g_binary(g, "and", flat, at_center);
  tn__value *y = tn__g_select(g, lone, one,
                              tn__g_select(g, tn__g_binary(g, "and", in_rise, tn__on_unary(n, "not", flat)), up, zero));
  y = tn__g_select(g, in_fall, down, y);
  int64_t type = tn__on_int(n, "output_datatype", 1);
  tn_dtype dtype = type < 0 || type > INT32_MAX ? TN_DTYPE_INVALID : tn__onnx_dtype((int32_t)type);
  if (dtype == TN_DTYPE_INVALID) tn__on_unsupported(n, "output_datatype %lld is not supported", (long long)type);
  n->out[0] = tn__g_convert(g, y, dtype);
}
