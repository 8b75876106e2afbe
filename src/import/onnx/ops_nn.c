/* Products and convolutions. */
#include <string.h>

#include "import/onnx/ops.h"

/* ---- matrix products --------------------------------------------------------------------------------------------- */

void tn__onnx_matmul(tn__onode *n) {
  tn__value *a = n->in[0], *b = n->in[1];
  int64_t k = tn__g_dim_const(a, a->rank - 1), other = tn__g_dim_const(b, b->rank > 1 ? b->rank - 2 : 0);
  if (k >= 0 && other >= 0 && k != other)
    tn__on_fail(n, "the last dimension of input 0 is %lld, and input 1 has %lld rows", (long long)k, (long long)other);
  n->out[0] = tn__g_matmul(n->g, a, b, a->dtype);
}

/* alpha * A' * B' + beta * C; before opset 7 C stretches only with broadcast=1. */
void tn__onnx_gemm(tn__onode *n) {
  tn__value *a = n->in[0], *b = n->in[1], *c = n->in[2];
  int64_t lhs_contract = tn__on_int(n, "transA", 0) != 0 ? 0 : 1,
          rhs_contract = tn__on_int(n, "transB", 0) != 0 ? 1 : 0;
  int64_t k = tn__g_dim_const(a, (int)lhs_contract), other = tn__g_dim_const(b, (int)rhs_contract);
  if (k >= 0 && other >= 0 && k != other)
    tn__on_fail(n, "input 0 \"%s\" has %lld columns, and input 1 \"%s\" has %lld rows", n->proto->input[0],
                (long long)k, n->proto->input[1], (long long)other);
  double alpha = tn__on_float(n, "alpha", 1), beta = tn__on_float(n, "beta", 1);
  tn_dtype dtype = a->dtype, wide = dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
  tn__value *y = tn__g_dot_general(n->g, a, b, NULL, NULL, 0, &lhs_contract, &rhs_contract, 1, wide);
  if (alpha != 1) y = tn__on_mul_s(n, y, alpha);
  if (c != NULL && beta != 0) {
    c = tn__g_convert(n->g, c, wide);
    if (beta != 1) c = tn__on_mul_s(n, c, beta);
    y = tn__on_add(n, y, tn__g_broadcast_to(n->g, c, 2, y->dims));
  }
  n->out[0] = tn__g_convert(n->g, y, dtype);
}

/* A zero point, per tensor or along an axis of a tensor of that rank, so that it broadcasts; NULL stays. */
static tn__value *zero_at(const tn__onode *n, tn__value *zero, int axis, int rank) {
  if (zero == NULL) return NULL;
  if (zero->rank == 1 && tn__g_dim_const(zero, 0) == 1) return tn__on_reshape(n, zero, 0, NULL);
  return zero->rank == 1 ? tn__on_at_axis(n, zero, axis, rank) : zero;
}

/* a - zero as i32, the zero point per tensor, or per row (axis of a). */
static tn__value *without_zero(const tn__onode *n, tn__value *a, tn__value *zero, int axis) {
  a = tn__g_convert(n->g, a, TN_I32);
  if (zero == NULL) return a;
  return tn__on_sub(n, a, tn__g_convert(n->g, zero_at(n, zero, axis, a->rank), TN_I32));
}

/* The sum of (a - a_zero) * (b - b_zero), zero points per tensor, per row of a, per column of b, or of their rank. */
static tn__value *matmul_integer(const tn__onode *n, tn__value *a, tn__value *a_zero, tn__value *b, tn__value *b_zero) {
  int rows = a->rank < 2 ? 0 : a->rank - 2, columns = b->rank - 1;
  if (a->rank >= 2 && b->rank >= 2) {
    b_zero = zero_at(n, b_zero, columns, b->rank);
    return tn__g_quantized_matmul(n->g, a, zero_at(n, a_zero, rows, a->rank), b, b_zero);
  }
  b = without_zero(n, b, b_zero, columns);
  return tn__g_matmul(n->g, without_zero(n, a, a_zero, rows), b, TN_I32);
}

void tn__onnx_matmul_integer(tn__onode *n) { n->out[0] = matmul_integer(n, n->in[0], n->in[2], n->in[1], n->in[3]); }

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* Padding of one window dimension: auto_pad's rules over the input's, window's and stride's sizes. */
void tn__onnx_auto_pad(tn__onode *n, const char *mode, const tn__expr *size, int64_t window, int64_t stride,
                       const tn__expr **low, const tn__expr **high) {
  tn__ir *ir = n->ir;
  const tn__expr *zero = tn__ir_index(ir, 0);
  *low = *high = zero;
  if (strcmp(mode, "VALID") == 0) return;
  const tn__expr *out = tn__ir_ceildiv(ir, size, tn__ir_index(ir, stride));
  const tn__expr *total =
      tn__ir_add_i(ir, tn__ir_sub(ir, tn__ir_mul_i(ir, tn__ir_add_i(ir, out, -1), stride), size), window);
  total = tn__ir_max(ir, total, zero);
  const tn__expr *half = tn__ir_div_i(ir, total, 2), *rest = tn__ir_sub(ir, total, half);
  bool upper = strcmp(mode, "SAME_UPPER") == 0;
  if (!upper && strcmp(mode, "SAME_LOWER") != 0)
    tn__on_fail(n, "auto_pad \"%s\" is none of NOTSET, SAME_UPPER, SAME_LOWER and VALID", mode);
  *low = upper ? half : rest;
  *high = upper ? rest : half;
}

/* How a window moves: attributes with which sizes can be computed. */
static void check_steps(const tn__onode *n, int spatial, const int64_t *strides, const int64_t *dilations,
                        const int64_t *pads) {
  const int64_t most = INT32_MAX;
  for (int i = 0; i < spatial; i++) {
    if (strides[i] < 1 || strides[i] > most)
      tn__on_fail(n, "the stride is %lld in dimension %d", (long long)strides[i], i);
    if (dilations[i] < 1 || dilations[i] > most)
      tn__on_fail(n, "the dilation is %lld in dimension %d", (long long)dilations[i], i);
    for (int side = 0; side < 2; side++)
      if (pads[side * spatial + i] < -most || pads[side * spatial + i] > most)
        tn__on_fail(n, "the padding is %lld in dimension %d", (long long)pads[side * spatial + i], i);
  }
}

void tn__onnx_window_read(tn__onode *n, int spatial, const int64_t *window, tn__onnx_window *out) {
  if (spatial < 1 || spatial > TN__ONNX_MAX_SPATIAL)
    tn__on_unsupported(n, "has %d spatial dimensions; 1 to %d are supported", spatial, TN__ONNX_MAX_SPATIAL);
  const int64_t *strides = tn__on_ints_n(n, "strides", spatial, 1),
                *dilations = tn__on_ints_n(n, "dilations", spatial, 1);
  const int64_t *pads = tn__on_ints_n(n, "pads", 2 * spatial, 0);
  const char *mode = tn__on_string(n, "auto_pad", "NOTSET");
  *out = (tn__onnx_window){.spatial = spatial};
  check_steps(n, spatial, strides, dilations, pads);
  for (int i = 0; i < spatial; i++) {
    if (window[i] < 1 || window[i] > INT32_MAX)
      tn__on_fail(n, "the window has size %lld in dimension %d", (long long)window[i], i);
    out->window[i] = window[i];
    out->strides[i] = strides[i];
    out->dilations[i] = dilations[i];
    out->low[i] = tn__on_index(n, pads[i]);
    out->high[i] = tn__on_index(n, pads[spatial + i]);
    if (strcmp(mode, "NOTSET") != 0 && mode[0] != '\0')
      tn__onnx_auto_pad(n, mode, n->in[0]->dims[i + 2], (window[i] - 1) * dilations[i] + 1, strides[i], &out->low[i],
                        &out->high[i]);
  }
}

static void conv_spec(const tn__onnx_window *w, int64_t groups, tn__conv_spec *spec) {
  *spec = (tn__conv_spec){.spatial = w->spatial, .feature_groups = groups};
  for (int i = 0; i < w->spatial; i++) {
    spec->strides[i] = w->strides[i];
    spec->lhs_dilation[i] = 1;
    spec->rhs_dilation[i] = w->dilations[i];
    spec->low[i] = w->low[i];
    spec->high[i] = w->high[i];
  }
}

/* Checks what Conv's operands say about each other; fills the window's sizes. */
static void conv_operands(tn__onode *n, const tn__value *x, int weight_input, int64_t *window, int64_t *groups) {
  const tn__value *w = n->in[weight_input];
  const char *name = weight_input < (int)n->proto->n_input ? n->proto->input[weight_input] : "";
  int spatial = x->rank - 2, given;
  *groups = tn__on_int(n, "group", 1);
  if (*groups < 1) tn__on_fail(n, "group is %lld", (long long)*groups);
  int64_t channels = tn__g_dim_const(x, 1), expected = channels / *groups, filters = tn__g_dim_const(w, 0),
          depth = tn__g_dim_const(w, 1);
  if (channels >= 0 && channels % *groups != 0)
    tn__on_fail(n, "%lld channels do not divide into %lld groups", (long long)channels, (long long)*groups);
  if (channels >= 0 && depth >= 0 && depth != expected)
    tn__on_fail(n, "input %d \"%s\" has %lld channels, expected %lld", weight_input, name, (long long)depth,
                (long long)expected);
  if (filters >= 0 && filters % *groups != 0)
    tn__on_fail(n, "%lld filters do not divide into %lld groups", (long long)filters, (long long)*groups);
  const int64_t *shape = tn__on_ints(n, "kernel_shape", &given);
  if (shape != NULL && given != 0 && given != spatial)
    tn__on_fail(n, "kernel_shape has %d entries, expected %d", given, spatial);
  if (spatial > TN__ONNX_MAX_SPATIAL)
    tn__on_unsupported(n, "has %d spatial dimensions; 1 to %d are supported", spatial, TN__ONNX_MAX_SPATIAL);
  for (int i = 0; i < spatial; i++) {
    window[i] = tn__g_dim_const(w, i + 2);
    if (window[i] < 0 && shape != NULL && given > 0) window[i] = shape[i];
    if (window[i] < 0)
      tn__on_unsupported(n, "the size of the window (dimension %d of input %d \"%s\") must be a constant", i + 2,
                         weight_input, name);
    if (shape != NULL && given > 0)
      tn__on_require_size(n, weight_input, i + 2, tn__on_index(n, shape[i]), "as kernel_shape says");
    if (shape != NULL && given > 0 && shape[i] != window[i])
      tn__on_fail(n, "kernel_shape says %lld, and input %d \"%s\" has %lld in dimension %d", (long long)shape[i],
                  weight_input, name, (long long)window[i], i + 2);
  }
}

static tn__value *add_bias(const tn__onode *n, tn__value *y, tn__value *bias) {
  if (bias == NULL) return y;
  return tn__on_add(n, y, tn__on_at_axis(n, tn__g_convert(n->g, bias, y->dtype), 1, y->rank));
}

static tn_dtype accumulator(tn_dtype dtype) { return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype; }

/* The convolution of x - x_zero with w - w_zero, which has one zero point or one for each filter, and a bias or
 * NULL. */
static tn__value *convolution_integer(const tn__onode *n, tn__value *x, tn__value *x_zero, tn__value *w,
                                      tn__value *w_zero, tn__value *bias, const tn__conv_spec *spec) {
  x_zero = zero_at(n, x_zero, 0, x->rank), w_zero = zero_at(n, w_zero, 0, w->rank);
  return tn__g_quantized_convolution(n->g, x, x_zero, w, w_zero, bias, spec);
}

void tn__onnx_conv(tn__onode *n) {
  tn__value *x = n->in[0], *w = n->in[1];
  int64_t window[TN__ONNX_MAX_SPATIAL], groups;
  tn__onnx_window win;
  tn__conv_spec spec;
  conv_operands(n, x, 1, window, &groups);
  tn__onnx_window_read(n, x->rank - 2, window, &win);
  conv_spec(&win, groups, &spec);
  tn__value *y = tn__g_convolution(n->g, x, w, &spec, accumulator(x->dtype));
  n->out[0] = tn__g_convert(n->g, add_bias(n, y, n->in[2]), x->dtype);
}

void tn__onnx_conv_integer(tn__onode *n) {
  int64_t window[TN__ONNX_MAX_SPATIAL], groups;
  tn__onnx_window win;
  tn__conv_spec spec;
  conv_operands(n, n->in[0], 1, window, &groups);
  tn__onnx_window_read(n, n->in[0]->rank - 2, window, &win);
  conv_spec(&win, groups, &spec);
  n->out[0] = convolution_integer(n, n->in[0], n->in[2], n->in[1], n->in[3], NULL, &spec);
}

/* Output padding and total padding of ConvTranspose: explicit, or from output_shape and auto_pad. */
static void transposed_pads(tn__onode *n, const tn__value *x, tn__onnx_window *w, int64_t *extra) {
  tn__ir *ir = n->ir;
  int given;
  const int64_t *output_shape = tn__on_ints(n, "output_shape", &given);
  const int64_t *output_padding = tn__on_ints_n(n, "output_padding", w->spatial, 0);
  const char *mode = tn__on_string(n, "auto_pad", "NOTSET");
  bool same = strncmp(mode, "SAME", 4) == 0, upper = strcmp(mode, "SAME_UPPER") == 0;
  if (output_shape != NULL && given != 0 && given != w->spatial && given != w->spatial + 2)
    tn__on_fail(n, "output_shape has %d entries, expected %d", given, w->spatial);
  for (int i = 0; i < w->spatial; i++) {
    extra[i] = output_padding[i];
    const tn__expr *size = x->dims[i + 2], *wanted = NULL;
    if (output_shape != NULL && given > 0)
      wanted = tn__ir_index(ir, output_shape[given - w->spatial + i]);
    else if (same)
      wanted = tn__ir_mul_i(ir, size, w->strides[i]);
    if (wanted == NULL) {
      if (strcmp(mode, "VALID") == 0) w->low[i] = w->high[i] = tn__ir_index(ir, 0);
      continue;
    }
    int64_t reach = (w->window[i] - 1) * w->dilations[i] + 1;
    const tn__expr *full =
        tn__ir_add_i(ir, tn__ir_mul_i(ir, tn__ir_add_i(ir, size, -1), w->strides[i]), reach + extra[i]);
    const tn__expr *total = tn__ir_sub(ir, full, wanted), *half = tn__ir_div_i(ir, total, 2),
                   *rest = tn__ir_sub(ir, total, half);
    w->low[i] = upper ? half : rest;
    w->high[i] = upper ? rest : half;
  }
}

/* Weights [C, M / groups, k...] to convolution's [M, C / groups, k...]. */
static tn__value *transposed_weights(tn__onode *n, tn__value *w, int64_t groups) {
  tn__ir *ir = n->ir;
  int rank = w->rank;
  const tn__expr *split[TN__MAX_RANK], *dims[TN__MAX_RANK];
  int64_t order[TN__MAX_RANK];
  if (groups == 1) {
    for (int i = 0; i < rank; i++) order[i] = i;
    order[0] = 1, order[1] = 0;
    return tn__g_transpose(n->g, w, order);
  }
  split[0] = tn__ir_index(ir, groups);
  split[1] = dims[1] = tn__ir_div_i(ir, w->dims[0], groups);
  split[2] = w->dims[1];
  dims[0] = tn__ir_mul_i(ir, w->dims[1], groups);
  for (int i = 0; i <= rank; i++) order[i] = i;
  order[1] = 2, order[2] = 1;
  for (int i = 2; i < rank; i++) split[i + 1] = dims[i] = w->dims[i];
  return tn__g_reshape(n->g, tn__g_transpose(n->g, tn__g_reshape(n->g, w, rank + 1, split), order), rank, dims);
}

void tn__onnx_conv_transpose(tn__onode *n) {
  tn__value *x = n->in[0], *w = n->in[1];
  tn__ir *ir = n->ir;
  int64_t window[TN__ONNX_MAX_SPATIAL], extra[TN__ONNX_MAX_SPATIAL] = {0}, groups = tn__on_int(n, "group", 1);
  int spatial = x->rank - 2;
  if (spatial > TN__ONNX_MAX_SPATIAL)
    tn__on_unsupported(n, "has %d spatial dimensions; 1 to %d are supported", spatial, TN__ONNX_MAX_SPATIAL);
  int64_t channels = tn__g_dim_const(x, 1);
  if (groups < 1 || (channels >= 0 && channels % groups != 0))
    tn__on_fail(n, "%lld channels do not divide into %lld groups", (long long)channels, (long long)groups);
  for (int i = 0; i < spatial; i++) window[i] = tn__on_dim_known(n, 1, i + 2, "the size of the window");
  tn__onnx_window win;
  tn__onnx_window_read(n, spatial, window, &win);
  transposed_pads(n, x, &win, extra);
  tn__conv_spec spec = {.spatial = spatial, .feature_groups = groups, .flip = true};
  for (int i = 0; i < spatial; i++) {
    int64_t reach = (window[i] - 1) * win.dilations[i];
    spec.strides[i] = 1;
    spec.lhs_dilation[i] = win.strides[i];
    spec.rhs_dilation[i] = win.dilations[i];
    spec.low[i] = tn__ir_sub(ir, tn__ir_index(ir, reach), win.low[i]);
    spec.high[i] = tn__ir_sub(ir, tn__ir_index(ir, reach + extra[i]), win.high[i]);
  }
  tn__value *y = tn__g_convolution(n->g, x, transposed_weights(n, w, groups), &spec, accumulator(x->dtype));
  n->out[0] = tn__g_convert(n->g, add_bias(n, y, n->in[2]), x->dtype);
}

/* ---- quantised forms --------------------------------------------------------------------------------------------- */

/* y = saturate(round(sum * (a_scale * b_scale / y_scale)) + y_zero) */
static tn__value *requantize(tn__onode *n, tn__value *sum, tn__value *a_scale, tn__value *b_scale, tn__value *y_scale,
                             tn__value *y_zero, int axis) {
  tn__graph *g = n->g;
  tn__value *scales[3] = {a_scale, b_scale, y_scale};
  for (int i = 0; i < 3; i++) {
    scales[i] = tn__g_convert(g, scales[i], TN_F32);
    if (scales[i]->rank == 1 && tn__g_dim_const(scales[i], 0) == 1) scales[i] = tn__on_reshape(n, scales[i], 0, NULL);
    if (scales[i]->rank == 1) scales[i] = tn__on_at_axis(n, scales[i], i == 0 && axis > 1 ? axis - 1 : axis, sum->rank);
  }
  tn__value *factor = tn__on_div(n, tn__on_mul(n, scales[0], scales[1]), scales[2]);
  y_zero = zero_at(n, y_zero, axis, sum->rank);
  tn__value *y = tn__onnx_requantize(n, tn__g_convert(g, sum, TN_F32), factor, y_zero, y_zero->dtype);
  tn__on_require_shape(n, y, sum, "the product");
  return y;
}

void tn__onnx_qlinear_matmul(tn__onode *n) {
  tn__value *sum = matmul_integer(n, n->in[0], n->in[2], n->in[3], n->in[5]);
  n->out[0] = requantize(n, sum, n->in[1], n->in[4], n->in[6], n->in[7], sum->rank - 1);
}

void tn__onnx_qlinear_conv(tn__onode *n) {
  int64_t window[TN__ONNX_MAX_SPATIAL], groups;
  tn__onnx_window win;
  tn__conv_spec spec;
  conv_operands(n, n->in[0], 3, window, &groups);
  tn__onnx_window_read(n, n->in[0]->rank - 2, window, &win);
  conv_spec(&win, groups, &spec);
  tn__value *sum = convolution_integer(n, n->in[0], n->in[2], n->in[3], n->in[5], n->in[8], &spec);
  n->out[0] = requantize(n, sum, n->in[1], n->in[4], n->in[6], n->in[7], 1);
}

/* ---- columns to image -------------------------------------------------------------------------------------------- */

void tn__onnx_col2im(tn__onode *n) {
  int spatial, blocks;
  const tn__expr *const *image = tn__on_elements(n, 1, &spatial);
  const tn__expr *const *block = tn__on_elements(n, 2, &blocks);
  if (spatial != blocks || spatial < 1 || spatial > TN__ONNX_MAX_SPATIAL)
    tn__on_fail(n, "image_shape has %d entries and block_shape %d", spatial, blocks);
  const int64_t *strides = tn__on_ints_n(n, "strides", spatial, 1),
                *dilations = tn__on_ints_n(n, "dilations", spatial, 1);
  const int64_t *pads = tn__on_ints_n(n, "pads", 2 * spatial, 0);
  check_steps(n, spatial, strides, dilations, pads);
  n->out[0] = tn__g_col2im(n->g, n->in[0], spatial, image, block, strides, dilations, pads, pads + spatial);
}
