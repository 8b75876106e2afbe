/* The operators' functions, and what their families share. */
#ifndef TENON_IMPORT_ONNX_OPS_H
#define TENON_IMPORT_ONNX_OPS_H

#include "import/onnx/internal.h"

enum { TN__ONNX_MAX_SPATIAL = 6 };

/* Window attributes of convolutions and pooling over input 0, [N, C, spatial...]. */
typedef struct tn__onnx_window {
  int spatial;
  int64_t window[TN__ONNX_MAX_SPATIAL], strides[TN__ONNX_MAX_SPATIAL], dilations[TN__ONNX_MAX_SPATIAL];
  const tn__expr *low[TN__ONNX_MAX_SPATIAL], *high[TN__ONNX_MAX_SPATIAL];
} tn__onnx_window;
void tn__onnx_window_read(tn__onode *n, int spatial, const int64_t *window, tn__onnx_window *out);
/* `window` counts its dilation. */
void tn__onnx_auto_pad(tn__onode *n, const char *mode, const tn__expr *size, int64_t window, int64_t stride,
                       const tn__expr **low, const tn__expr **high);

/* ONNX's rules of Reshape for `shape`. */
tn__value *tn__onnx_reshape_to(tn__onode *n, tn__value *x, const tn__expr *const *shape, int rank, bool zero_copies);
/* x * scale + zero, rounded to integers of that type; operands broadcast. */
tn__value *tn__onnx_requantize(tn__onode *n, tn__value *x, tn__value *scale, tn__value *zero, tn_dtype dtype);
/* The first lengths[b] (i64) steps of each batch backwards, the rest as they are. */
tn__value *tn__onnx_reverse_steps(tn__onode *n, tn__value *x, tn__value *lengths, int time, int batch);

/* axes.c: axes of operand `input` that only a run shows, and that it checks. */
/* The one axis of `rank` dimensions, from 0; only the first `allowed` may be meant. */
const tn__expr *tn__onnx_axis_at_run(tn__onode *n, int input, int rank, int allowed);
/* x as [elements before the axis, along it, behind it], so that what goes along an axis goes along dimension 1; and
 * back into the shape of x, but for the axis, which has the length of dimension 1 of y. */
tn__value *tn__onnx_along(tn__onode *n, tn__value *x, const tn__expr *axis);
tn__value *tn__onnx_from_along(tn__onode *n, tn__value *y, const tn__value *x, const tn__expr *axis);
/* Several: flags[i] (bool): is dimension i among them? */
void tn__onnx_axis_flags(tn__onode *n, int input, int rank, const tn__expr **flags, int *count);
void tn__onnx_kept_dims(tn__onode *n, const tn__expr *const *dims, const tn__expr *const *flags, int rank, int kept,
                        const tn__expr **out);
void tn__onnx_inserted_dims(tn__onode *n, const tn__expr *const *dims, const tn__expr *const *flags, int rank,
                            int given, const tn__expr **out);
/* The elements of x in groups: those that differ only in flagged dimensions. */
typedef struct tn__onnx_groups {
  int rank;
  const tn__expr *dims[TN__MAX_RANK]; /* 1 for the flagged */
  const tn__expr *size, *members;     /* number of groups, and of elements in each */
  tn__value *index;                   /* i64, of each element of the flat x: its group */
} tn__onnx_groups;
tn__onnx_groups tn__onnx_groups_create(tn__onode *n, const tn__value *x, const tn__expr *const *flags);
tn__value *tn__onnx_groups_reduce(tn__onode *n, const tn__onnx_groups *groups, tn__value *x, tn__value *identity,
                                  const char *reduction);
tn__value *tn__onnx_groups_spread(tn__onode *n, const tn__onnx_groups *groups, tn__value *combined, const tn__value *x);

/* ops_sequence.c: the rank of a tensor that is taken from a list and becomes output `output` of the node, -1 when
 * nothing tells. */
int tn__onnx_rank_of_item(const tn__onode *n, const tn__value *list, int output);

tn__onnx_fn tn__onnx_unary, tn__onnx_unary_wide, tn__onnx_binary, tn__onnx_compare, tn__onnx_variadic,
    tn__onnx_reciprocal, tn__onnx_pow, tn__onnx_mod, tn__onnx_bit_shift, tn__onnx_where, tn__onnx_identity,
    tn__onnx_clip, tn__onnx_cast, tn__onnx_cast_like, tn__onnx_bit_cast, tn__onnx_is_inf, tn__onnx_activation,
    tn__onnx_prelu, tn__onnx_dropout, tn__onnx_cumulative;
tn__onnx_fn tn__onnx_reduce, tn__onnx_arg_extreme;
tn__onnx_fn tn__onnx_constant_op, tn__onnx_constant_of_shape, tn__onnx_shape, tn__onnx_size, tn__onnx_reshape,
    tn__onnx_flatten, tn__onnx_squeeze, tn__onnx_unsqueeze, tn__onnx_transpose, tn__onnx_expand, tn__onnx_tile,
    tn__onnx_concat, tn__onnx_split, tn__onnx_slice, tn__onnx_pad, tn__onnx_center_crop_pad, tn__onnx_depth_to_space,
    tn__onnx_space_to_depth, tn__onnx_range, tn__onnx_trilu, tn__onnx_eye_like;
tn__onnx_fn tn__onnx_gather, tn__onnx_gather_elements, tn__onnx_gather_nd, tn__onnx_scatter_elements,
    tn__onnx_scatter_nd, tn__onnx_tensor_scatter, tn__onnx_one_hot, tn__onnx_non_zero, tn__onnx_compress,
    tn__onnx_unique, tn__onnx_top_k, tn__onnx_reverse_sequence, tn__onnx_array_feature_extractor, tn__onnx_binarizer;
tn__onnx_fn tn__onnx_matmul, tn__onnx_gemm, tn__onnx_matmul_integer, tn__onnx_conv, tn__onnx_conv_integer,
    tn__onnx_conv_transpose, tn__onnx_qlinear_matmul, tn__onnx_qlinear_conv, tn__onnx_col2im;
tn__onnx_fn tn__onnx_batch_norm, tn__onnx_instance_norm, tn__onnx_layer_norm, tn__onnx_rms_norm, tn__onnx_group_norm,
    tn__onnx_lp_norm, tn__onnx_mean_variance, tn__onnx_lrn, tn__onnx_softmax, tn__onnx_hardmax;
tn__onnx_fn tn__onnx_max_pool, tn__onnx_average_pool, tn__onnx_lp_pool, tn__onnx_global_pool, tn__onnx_max_unpool;
tn__onnx_fn tn__onnx_quantize_linear, tn__onnx_dequantize_linear, tn__onnx_dynamic_quantize;
tn__onnx_fn tn__onnx_if, tn__onnx_loop, tn__onnx_scan;

tn__onnx_fn tn__onnx_einsum, tn__onnx_dft, tn__onnx_stft, tn__onnx_mel_weights, tn__onnx_det, tn__onnx_deform_conv,
    tn__onnx_linear_attention, tn__onnx_causal_conv, tn__onnx_non_max_suppression, tn__onnx_affine_grid,
    tn__onnx_random, tn__onnx_bernoulli, tn__onnx_multinomial;

tn__onnx_fn tn__onnx_sequence_construct, tn__onnx_sequence_at, tn__onnx_sequence_length, tn__onnx_sequence_insert,
    tn__onnx_sequence_erase, tn__onnx_concat_from_sequence, tn__onnx_split_to_sequence, tn__onnx_sequence_map,
    tn__onnx_optional, tn__onnx_optional_get, tn__onnx_optional_has;

#endif
