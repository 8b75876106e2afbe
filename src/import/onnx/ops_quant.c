/* Quantisation to integers of up to 16 bits. */
#include <string.h>

#include "import/onnx/ops.h"

/* One value per tensor, per element of an axis, or per block of an axis, beside x, which is input 0. */
static tn__value *spread(tn__onode *n, int input, tn_dtype dtype) {
  tn__value *v = tn__g_convert(n->g, n->in[input], dtype), *x = n->in[0];
  if (v->rank == 0 || (v->rank == 1 && tn__g_dim_const(v, 0) == 1)) return tn__on_reshape(n, v, 0, NULL);
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 1), x->rank);
  int64_t block = tn__on_int(n, "block_size", 0);
  if (v->rank == 1 && block == 0) {
    tn__on_require_same(n, input, 0, 0, axis);
    return tn__on_at_axis(n, v, axis, x->rank);
  }
  if (v->rank != x->rank || block < 1)
    tn__on_fail(n, "the scale has %d dimensions, and the input %d", v->rank, x->rank);
  /* Every element `block` times, then as many as x has. */
  const tn__expr *wide[TN__MAX_RANK + 1];
  int64_t axes[TN__MAX_RANK];
  if (x->rank + 1 > TN__MAX_RANK) tn__on_unsupported(n, "has too many dimensions for blocks");
  for (int i = 0, to = 0; i < v->rank; i++) {
    if (i != axis) tn__on_require_same(n, input, i, 0, i);
    axes[i] = to;
    wide[to++] = v->dims[i];
    if (i == axis) wide[to++] = tn__on_index(n, block);
  }
  const tn__expr **dims = tn__on_dims(n, v);
  dims[axis] = tn__ir_mul_i(n->ir, v->dims[axis], block);
  tn__value *repeated = tn__on_reshape(n, tn__g_broadcast_in_dim(n->g, v, v->rank + 1, wide, axes), v->rank, dims);
  return tn__on_slice_axis(n, repeated, axis, tn__on_index(n, 0), x->dims[axis]);
}

static void require_quantizes_to(const tn__onode *n, tn_dtype dtype) {
  if (!tn__dtype_is_int(dtype) || tn__dtype_bits(dtype) > 16)
    tn__on_unsupported(n, "quantises to %s, which is not supported", tn_dtype_name(dtype));
}

tn__value *tn__onnx_requantize(tn__onode *n, tn__value *x, tn__value *scale, tn__value *zero, tn_dtype dtype) {
  require_quantizes_to(n, dtype);
  return tn__g_quantize(n->g, x, scale, tn__g_convert(n->g, zero, TN_F32), dtype, tn__dtype_bits(dtype), true);
}

static tn_dtype output_dtype(const tn__onode *n, tn_dtype otherwise, int *narrow) {
  int64_t type = tn__on_int(n, "output_dtype", 0);
  if (type == 0) return otherwise;
  tn_dtype dtype = tn__onnx_dtype((int32_t)type);
  *narrow = tn__onnx_narrow((int32_t)type, &dtype);
  if (dtype == TN_DTYPE_INVALID)
    tn__on_unsupported(n, "attribute \"output_dtype\" is %s, which is not supported",
                       tn__onnx_dtype_name((int32_t)type));
  return dtype;
}

void tn__onnx_quantize_linear(tn__onode *n) {
  tn__value *x = tn__g_convert(n->g, n->in[0], TN_F32), *zero = n->in[2];
  int narrow = 0;
  tn_dtype dtype = zero != NULL ? zero->dtype : output_dtype(n, TN_U8, &narrow);
  if (zero != NULL) narrow = zero->narrow;
  tn__value *scale = spread(n, 1, TN_F32);
  if (zero != NULL) zero = spread(n, 2, TN_F32);
  require_quantizes_to(n, dtype);
  n->out[0] = tn__g_quantize(n->g, x, scale, zero, dtype, narrow > 0 ? narrow : tn__dtype_bits(dtype), false);
  n->out[0]->narrow = narrow;
}

void tn__onnx_dequantize_linear(tn__onode *n) {
  int narrow = 0;
  tn_dtype dtype = output_dtype(n, n->in[1]->dtype, &narrow);
  if (narrow > 0) tn__on_fail(n, "attribute \"output_dtype\" is no type of floats");
  tn__value *zero = n->in[2] == NULL ? NULL : spread(n, 2, TN_I32);
  tn__value *scale = spread(n, 1, tn__on_widen(n, n->in[1])->dtype);
  n->out[0] = tn__g_convert(n->g, tn__g_dequantize(n->g, n->in[0], scale, zero), dtype);
}

/* To u8 over the range of x, which is widened to hold zero. */
void tn__onnx_dynamic_quantize(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *x = n->in[0], *zero = tn__on_scalar(n, 0, x);
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) axes[i] = i;
  tn__value *most = tn__on_max(n, tn__g_reduce(g, TN__REDUCE_MAX, x, axes, x->rank, false), zero);
  tn__value *least = tn__on_min(n, tn__g_reduce(g, TN__REDUCE_MIN, x, axes, x->rank, false), zero);
  tn__value *scale = tn__g_binary_s(g, "divide", tn__on_sub(n, most, least), 255);
  tn__value *point =
      tn__on_unary(n, "round_nearest_even", tn__g_clamp(g, tn__on_div(n, tn__on_sub(n, zero, least), scale), 0, 255));
  n->out[2] = tn__g_convert(g, point, TN_U8);
  n->out[1] = scale;
  n->out[0] = tn__g_quantize(g, x, scale, tn__g_convert(g, n->out[2], TN_F32), TN_U8, 8, false);
}
