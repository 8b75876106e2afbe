/* Normalisations and softmax. Statistics of 16-bit floats are computed in f32. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"

static tn__value *square(const tn__onode *n, tn__value *x) { return tn__on_mul(n, x, x); }

static tn__value *inverse_deviation(const tn__onode *n, tn__value *variance, double epsilon) {
  return tn__on_unary(n, "rsqrt", tn__on_add_s(n, variance, epsilon));
}

/* Per-channel operand beside x: [C], or [C, D1, ...] of the old non-spatial form. */
static tn__value *channel(const tn__onode *n, tn__value *v, const tn__value *x) {
  v = tn__on_widen(n, v);
  if (v->rank == 1) return tn__on_at_axis(n, v, x->rank > 1 ? 1 : 0, x->rank);
  return tn__on_unsqueeze(n, v, (const int64_t[]){0}, 1);
}

void tn__onnx_batch_norm(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *x = tn__on_widen(n, n->in[0]);
  tn__value *scale = channel(n, n->in[1], x), *bias = channel(n, n->in[2], x), *mean = channel(n, n->in[3], x),
            *variance = channel(n, n->in[4], x);
  double epsilon = tn__on_float(n, "epsilon", 1e-5f), momentum = tn__on_float(n, "momentum", 0.9f);
  if (n->version >= 14 && tn__on_int(n, "training_mode", 0) != 0) {
    int64_t axes[TN__MAX_RANK];
    int count = 0;
    for (int i = 0; i < x->rank; i++)
      if (i != 1) axes[count++] = i;
    tn__value *batch_mean = tn__g_mean(g, x, axes, count, true);
    tn__value *batch_variance = tn__g_mean(g, square(n, tn__on_sub(n, x, batch_mean)), axes, count, true);
    tn__value *old[2] = {mean, variance}, *fresh[2] = {batch_mean, batch_variance};
    for (int i = 0; i < 2; i++) {
      tn__value *running = tn__on_mul_s(n, fresh[i], 1 - momentum);
      running = tn__on_add(n, tn__on_mul_s(n, old[i], momentum), running);
      n->out[1 + i] = tn__g_convert(g, tn__on_reshape(n, running, 1, n->in[3]->dims), n->in[3 + i]->dtype);
    }
    mean = batch_mean;
    variance = batch_variance;
  }
  if (scale->dtype != x->dtype || mean->dtype != x->dtype) {
    scale = tn__g_convert(g, scale, x->dtype), bias = tn__g_convert(g, bias, x->dtype);
    mean = tn__g_convert(g, mean, x->dtype), variance = tn__g_convert(g, variance, x->dtype);
  }
  /* One multiplication and one addition per element; the factors are constants in a trained network. */
  tn__value *factor = tn__on_mul(n, scale, inverse_deviation(n, variance, epsilon));
  tn__value *offset = tn__on_sub(n, bias, tn__on_mul(n, mean, factor));
  n->out[0] = tn__g_convert(g, tn__on_add(n, tn__on_mul(n, x, factor), offset), n->in[0]->dtype);
}

void tn__onnx_instance_norm(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  int64_t axes[TN__MAX_RANK];
  for (int i = 2; i < x->rank; i++) axes[i - 2] = i;
  tn__value *y = tn__g_layer_norm(n->g, x, axes, x->rank - 2, tn__on_float(n, "epsilon", 1e-5f), TN__NORM_RSQRT);
  tn__value *bias = channel(n, n->in[2], x);
  y = tn__on_add(n, tn__on_mul(n, y, channel(n, n->in[1], x)), bias);
  n->out[0] = tn__g_convert(n->g, y, n->in[0]->dtype);
}

/* The trailing axes from attribute `axis` on. */
TN_MUST_USE static int trailing_axes(const tn__onode *n, int rank, int64_t *axes) {
  int64_t first = tn__on_axis(n, tn__on_int(n, "axis", -1), rank);
  for (int64_t i = first; i < rank; i++) axes[i - first] = i;
  return (int)(rank - first);
}

/* With the optional results, where they are asked for. */
static tn__value *layer_norm_with_statistics(tn__onode *n, tn__value *x, const int64_t *axes, int count,
                                             double epsilon) {
  tn_dtype stash = tn__onnx_dtype((int32_t)tn__on_int(n, "stash_type", 1));
  if (stash == TN_DTYPE_INVALID)
    tn__on_unsupported(n, "stash_type %lld is not supported", (long long)tn__on_int(n, "stash_type", 1));
  if (n->output_count < 2) return tn__g_layer_norm(n->g, x, axes, count, epsilon, TN__NORM_RSQRT);
  tn__value *mean, *inverse;
  tn__value *y = tn__g_layer_norm_with_statistics(n->g, x, axes, count, epsilon, &mean, &inverse);
  n->out[1] = tn__g_convert(n->g, mean, stash);
  n->out[2] = tn__g_convert(n->g, inverse, stash);
  return y;
}

void tn__onnx_layer_norm(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  int64_t axes[TN__MAX_RANK];
  int count = trailing_axes(n, x->rank, axes);
  tn__value *y = layer_norm_with_statistics(n, x, axes, count, tn__on_float(n, "epsilon", 1e-5f));
  y = tn__on_mul(n, y, tn__g_broadcast_to(n->g, tn__g_convert(n->g, n->in[1], x->dtype), x->rank, x->dims));
  if (n->in[2] != NULL)
    y = tn__on_add(n, y, tn__g_broadcast_to(n->g, tn__g_convert(n->g, n->in[2], x->dtype), x->rank, x->dims));
  n->out[0] = tn__g_convert(n->g, y, n->in[0]->dtype);
}

void tn__onnx_rms_norm(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  int64_t axes[TN__MAX_RANK];
  int count = trailing_axes(n, x->rank, axes);
  tn__value *y = tn__g_rms_norm(n->g, x, axes, count, tn__on_float(n, "epsilon", 1e-5f), TN__NORM_RSQRT);
  tn__value *scale = tn__g_broadcast_to(n->g, tn__g_convert(n->g, n->in[1], x->dtype), x->rank, x->dims);
  n->out[0] = tn__g_convert(n->g, tn__on_mul(n, y, scale), n->in[1]->dtype);
}

/* Per group of channels; scale and bias per group in opset 18, per channel since 21. */
void tn__onnx_group_norm(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__value *x = tn__on_widen(n, n->in[0]);
  int64_t groups = tn__on_int(n, "num_groups", 0), channels = tn__on_dim_known(n, 0, 1, "the number of channels");
  if (groups < 1 || channels % groups != 0)
    tn__on_fail(n, "%lld channels do not divide into %lld groups", (long long)channels, (long long)groups);
  const tn__expr *rest = tn__on_product(n, x->dims + 2, x->rank - 2);
  const tn__expr *dims[4] = {x->dims[0], tn__ir_index(ir, groups), tn__ir_index(ir, channels / groups), rest};
  static const int64_t axes[2] = {2, 3};
  tn__value *y =
      tn__g_layer_norm(n->g, tn__on_reshape(n, x, 4, dims), axes, 2, tn__on_float(n, "epsilon", 1e-5f), TN__NORM_RSQRT);
  bool per_group = n->version < 21;
  for (int i = 0; i < 2; i++) {
    tn__value *v = tn__g_convert(n->g, n->in[1 + i], x->dtype);
    tn__on_require_size(n, 1 + i, 0, tn__ir_index(ir, per_group ? groups : channels), "");
    const tn__expr *split[4] = {tn__ir_index(ir, 1), dims[1], per_group ? tn__ir_index(ir, 1) : dims[2],
                                tn__ir_index(ir, 1)};
    v = tn__on_reshape(n, v, 4, split);
    y = i == 0 ? tn__on_mul(n, y, v) : tn__on_add(n, y, v);
  }
  n->out[0] = tn__g_convert(n->g, tn__on_reshape(n, y, x->rank, x->dims), n->in[0]->dtype);
}

/* Where the norm is zero, so is the result. */
void tn__onnx_lp_norm(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]), *norm;
  int64_t axis = tn__on_axis(n, tn__on_int(n, "axis", -1), x->rank), p = tn__on_int(n, "p", 2);
  if (p != 1 && p != 2) tn__on_fail(n, "p is %lld, expected 1 or 2", (long long)p);
  norm = tn__g_reduce(n->g, TN__REDUCE_SUM, p == 1 ? tn__on_unary(n, "abs", x) : square(n, x), &axis, 1, true);
  if (p == 2) norm = tn__on_unary(n, "sqrt", norm);
  tn__value *zero = tn__on_scalar(n, 0, x);
  tn__value *y = tn__on_div(n, x, norm);
  y = tn__g_select(n->g, tn__g_compare(n->g, TN__CMP_EQ, norm, zero), zero, y);
  n->out[0] = tn__g_convert(n->g, y, n->in[0]->dtype);
}

void tn__onnx_mean_variance(tn__onode *n) {
  static const int64_t usual[] = {0, 2, 3};
  int count;
  const int64_t *given = tn__on_ints(n, "axes", &count);
  tn__value *x = tn__on_widen(n, n->in[0]);
  if (given == NULL) count = 3;
  const int64_t *axes = tn__on_axes(n, given == NULL ? usual : given, count, x->rank);
  tn__value *centered = tn__on_sub(n, x, tn__g_mean(n->g, x, axes, count, true));
  tn__value *deviation = tn__on_unary(n, "sqrt", tn__g_mean(n->g, square(n, centered), axes, count, true));
  n->out[0] = tn__g_convert(n->g, tn__on_div(n, centered, tn__on_add_s(n, deviation, 1e-9)), n->in[0]->dtype);
}

/* x / (bias + alpha / size * sum of squares over `size` channels around)^beta */
void tn__onnx_lrn(tn__onode *n) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  int64_t size = tn__on_int(n, "size", 0), window[TN__MAX_RANK], ones[TN__MAX_RANK];
  if (size < 1 || size > INT32_MAX) tn__on_fail(n, "size is %lld", (long long)size);
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    window[i] = i == 1 ? size : 1;
    ones[i] = 1;
    low[i] = tn__on_index(n, i == 1 ? (size - 1) / 2 : 0);
    high[i] = tn__on_index(n, i == 1 ? size - 1 - (size - 1) / 2 : 0);
  }
  double alpha = tn__on_float(n, "alpha", 1e-4f), beta = tn__on_float(n, "beta", 0.75),
         bias = tn__on_float(n, "bias", 1);
  tn__value *sum = tn__g_reduce_window(n->g, TN__REDUCE_SUM, square(n, x), window, ones, ones, low, high);
  tn__value *base = tn__on_add_s(n, tn__on_mul_s(n, sum, alpha / (double)size), bias);
  n->out[0] = tn__g_convert(n->g, tn__on_div(n, x, tn__g_binary_s(n->g, "power", base, beta)), n->in[0]->dtype);
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* Before opset 13 the tensor is taken as a matrix whose rows are dimensions `axis` and after. */
static tn__value *softmax_rows(tn__onode *n, tn__value *x, int *axis) {
  bool old = n->version < 13;
  *axis = (int)tn__on_axis(n, tn__on_int(n, "axis", old ? 1 : -1), x->rank);
  if (!old || *axis == x->rank - 1) return x;
  const tn__expr *dims[2] = {tn__on_product(n, x->dims, *axis), tn__on_product(n, x->dims + *axis, x->rank - *axis)};
  *axis = 1;
  return tn__on_reshape(n, x, 2, dims);
}

void tn__onnx_softmax(tn__onode *n) {
  int axis;
  tn__value *x = softmax_rows(n, n->in[0], &axis);
  tn__value *y = strcmp(n->name, "LogSoftmax") == 0 ? tn__g_log_softmax(n->g, x, axis)
                                                    : tn__g_softmax(n->g, x, axis, TN__SOFTMAX_PLAIN);
  n->out[0] = tn__on_reshape(n, y, n->in[0]->rank, n->in[0]->dims);
}

/* One at the first greatest element, zero elsewhere. */
void tn__onnx_hardmax(tn__onode *n) {
  int axis;
  tn__value *x = softmax_rows(n, n->in[0], &axis);
  tn__value *at = tn__g_argreduce(n->g, x, axis, true, false, true, TN_I64);
  tn__value *here = tn__g_compare(n->g, TN__CMP_EQ, tn__g_iota(n->g, TN_I64, x->rank, x->dims, axis), at);
  n->out[0] = tn__on_reshape(n, tn__g_convert(n->g, here, x->dtype), n->in[0]->rank, n->in[0]->dims);
}
