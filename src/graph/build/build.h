/* Builders: one short function per core operator, with the broadcasting and constant helpers that importers want. Each
 * returns the (first) result. Names are StableHLO's. `g` is the graph; operands must agree as StableHLO asks unless the
 * comment says more. */
#ifndef TENON_GRAPH_BUILD_BUILD_H
#define TENON_GRAPH_BUILD_BUILD_H

#include "graph/graph.h"

typedef enum tn__compare { TN__CMP_EQ, TN__CMP_NE, TN__CMP_LT, TN__CMP_LE, TN__CMP_GT, TN__CMP_GE } tn__compare;
typedef enum tn__reduce_kind {
  TN__REDUCE_SUM,
  TN__REDUCE_PROD,
  TN__REDUCE_MAX,
  TN__REDUCE_MIN,
  TN__REDUCE_AND,
  TN__REDUCE_OR
} tn__reduce_kind;

/* A node of any operator by its name, which must exist. */
tn__node *tn__g_node(tn__graph *g, const char *op, tn__value *const *inputs, int input_count, const tn__attr *attrs,
                     int attr_count);

/* ---- constants --------------------------------------------------------------------------------------------------- */
tn__value *tn__g_scalar(tn__graph *g, tn_dtype dtype, double value);
tn__value *tn__g_scalar_i64(tn__graph *g, tn_dtype dtype, int64_t value); /* exact for 64-bit integers */
tn__value *tn__g_i64s(tn__graph *g, const int64_t *values, int count);    /* rank 1 */
tn__value *tn__g_full(tn__graph *g, tn_dtype dtype, double value, int rank, const tn__expr *const *dims);
/* The i64 tensor of expressions (rank 1, or 0 when rank is 0 and count 1): dimensions made data ("from_elements"). */
tn__value *tn__g_from_elements(tn__graph *g, tn_dtype dtype, const tn__expr *const *elements, int count, int rank);

/* ---- element-wise: any table row of class ELEMENTWISE by name; binary ones broadcast their operands NumPy's way -- */
tn__value *tn__g_unary(tn__graph *g, const char *op, tn__value *a);
tn__value *tn__g_binary(tn__graph *g, const char *op, tn__value *a, tn__value *b);
tn__value *tn__g_binary_s(tn__graph *g, const char *op, tn__value *a, double scalar); /* with a scalar of a's dtype */
tn__value *tn__g_compare(tn__graph *g, tn__compare direction, tn__value *a, tn__value *b);
tn__value *tn__g_select(tn__graph *g, tn__value *condition, tn__value *a, tn__value *b); /* broadcasts all three */
tn__value *tn__g_convert(tn__graph *g, tn__value *a, tn_dtype dtype); /* a itself when it has the type */
tn__value *tn__g_bitcast_convert(tn__graph *g, tn__value *a, tn_dtype dtype);

/* ---- shape ------------------------------------------------------------------------------------------------------- */
/* Dimension i of a becomes dimension axes[i] of the result; size-1 dimensions stretch. */
tn__value *tn__g_broadcast_in_dim(tn__graph *g, tn__value *a, int rank, const tn__expr *const *dims,
                                  const int64_t *axes);
tn__value *tn__g_broadcast_to(tn__graph *g, tn__value *a, int rank,
                              const tn__expr *const *dims); /* NumPy's rule, one way */
/* Computes the common shape under NumPy's rule. If two symbolic dimensions differ, the result is the one that is not
 * 1 at run time. A run-time check then requires that they are equal or one is 1. */
void tn__g_broadcast_shape(tn__graph *g, tn__value *const *values, int count, int *rank, const tn__expr **dims);
/* The same for two sizes, named `left` and `right` in messages. */
const tn__expr *tn__g_broadcast_size(tn__graph *g, const char *left, const tn__expr *a, const char *right,
                                     const tn__expr *b);
/* Broadcasts the value to such a shape. Returns the value itself if it already has that shape. */
tn__value *tn__g_stretch(tn__graph *g, tn__value *value, int rank, const tn__expr *const *dims);
tn__value *tn__g_reshape(tn__graph *g, tn__value *a, int rank, const tn__expr *const *dims);
/* New dimensions of 1; `axes`, in any order, are of the result. */
tn__value *tn__g_unsqueeze(tn__graph *g, tn__value *a, const int64_t *axes, int count);
int64_t tn__g_axis(tn__graph *g, int64_t axis, int rank); /* one that may count from the end, into [0, rank) */
tn__value *tn__g_transpose(tn__graph *g, tn__value *a, const int64_t *permutation);
/* The tensor that lies in a memory of one dimension, with strides in elements and its first one at `origin`. */
tn__value *tn__g_strided(tn__graph *g, tn__value *memory, int rank, const tn__expr *const *dims,
                         const tn__expr *const *strides, const tn__expr *origin);
/* [start, limit) with step; starts in [0, dim], step > 0 (reverse first for negative steps). Expressions. */
/* A buffer like `a` with its first `start` elements along `axis`, then those of `fresh`; the rest may be anything. */
tn__value *tn__g_append(tn__graph *g, tn__value *a, tn__value *fresh, int axis, const tn__expr *start);
/* `a` with its element `at` along `axis` replaced by that of `fresh`, where there is such an element. Both have the
 * rank of `a`, size 1 along the axis, and elsewhere 1 or its sizes. */
tn__value *tn__g_write_at(tn__graph *g, tn__value *a, tn__value *fresh, tn__value *at, int axis);
tn__value *tn__g_slice(tn__graph *g, tn__value *a, const tn__expr *const *starts, const tn__expr *const *limits,
                       const int64_t *strides);
tn__value *tn__g_pad(tn__graph *g, tn__value *a, tn__value *scalar, const tn__expr *const *low,
                     const tn__expr *const *high,
                     const int64_t *interior); /* interior may be NULL; negative low/high crop */
/* One kernel puts so many together at the most; more are put together in parts, since what code generators do with a
 * kernel takes longer than in proportion to its size. */
enum { TN__MOST_CONCATENATED = 128 };
tn__value *tn__g_concatenate(tn__graph *g, tn__value *const *values, int count, int axis);
tn__value *tn__g_reverse(tn__graph *g, tn__value *a, const int64_t *axes, int count);
tn__value *tn__g_iota(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, int axis);
/* take: result[..., i..., ...] = a[..., indices[i...], ...] along axis; negative indices count from the end; out of
 * range fails. */
tn__value *tn__g_take(tn__graph *g, tn__value *a, tn__value *indices, int axis);
tn__value *tn__g_take_along_axis(tn__graph *g, tn__value *a, tn__value *indices, int axis); /* ONNX GatherElements */
tn__value *tn__g_gather_nd(tn__graph *g, tn__value *a, tn__value *indices, int batch_dims); /* ONNX GatherND */
/* The same for indices that are inside by construction and not negative, or at least not below -dim: no check. */
tn__value *tn__g_take_trusted(tn__graph *g, tn__value *a, tn__value *indices, int axis);
/* ONNX ScatterElements / ScatterND: reduction "none", "add", "mul", "max", "min". */
tn__value *tn__g_scatter_elements(tn__graph *g, tn__value *a, tn__value *indices, tn__value *updates, int axis,
                                  const char *reduction);
tn__value *tn__g_scatter_nd(tn__graph *g, tn__value *a, tn__value *indices, tn__value *updates, const char *reduction);

/* ---- reductions and contractions --------------------------------------------------------------------------------- */
/* Over `axes`; the reduced dimensions go, or stay as 1 with keep_dims. f16 and bf16 accumulate in f32. */
tn__value *tn__g_reduce(tn__graph *g, tn__reduce_kind kind, tn__value *a, const int64_t *axes, int count,
                        bool keep_dims);
/* Index (dtype) of the greatest or smallest along axis; keeps the first, or the last of equal ones. */
tn__value *tn__g_argreduce(tn__graph *g, tn__value *a, int axis, bool greatest, bool last, bool keep_dims,
                           tn_dtype dtype);
/* Windows over all dimensions of a (size 1 where nothing slides); padding holds the reduction's identity. */
tn__value *tn__g_reduce_window(tn__graph *g, tn__reduce_kind kind, tn__value *a, const int64_t *window,
                               const int64_t *strides, const int64_t *dilations, const tn__expr *const *low,
                               const tn__expr *const *high);
/* Position (flat in the last `spatial` dimensions, row- or column-major as MaxPool's Indices) of the greatest in each
 * window. */
tn__value *tn__g_argreduce_window(tn__graph *g, tn__value *a, const int64_t *window, const int64_t *strides,
                                  const int64_t *dilations, const tn__expr *const *low, const tn__expr *const *high,
                                  bool column_major, tn_dtype dtype);
/* StableHLO dot_general: result dims are batch, lhs free, rhs free. The result has `dtype` (accumulation is at least
 * f32). */
tn__value *tn__g_dot_general(tn__graph *g, tn__value *lhs, tn__value *rhs, const int64_t *lhs_batch,
                             const int64_t *rhs_batch, int batch, const int64_t *lhs_contract,
                             const int64_t *rhs_contract, int contract, tn_dtype dtype);
tn__value *tn__g_matmul(tn__graph *g, tn__value *a, tn__value *b,
                        tn_dtype dtype); /* NumPy's matmul with broadcasting */
typedef struct tn__conv_spec {
  int spatial; /* 1, 2, 3 ... */
  int64_t strides[6], lhs_dilation[6], rhs_dilation[6];
  const tn__expr *low[6], *high[6]; /* padding; negative crops */
  int64_t feature_groups;
  int64_t pad_value;  /* what padding consists of, in integers */
  bool flip;          /* window reversal: for transposed convolution */
  bool channels_last; /* lhs [N, spatial..., C], rhs [spatial..., I, O], result [N, spatial..., O]; otherwise
                         lhs [N, C, spatial...], rhs [O, I, spatial...], result [N, O, spatial...] */
} tn__conv_spec;
tn__value *tn__g_convolution(tn__graph *g, tn__value *lhs, tn__value *rhs, const tn__conv_spec *spec, tn_dtype dtype);
/* What a convolution's attributes say. */
tn__conv_spec tn__g_conv_spec_of(const tn__node *node);
/* Sums of (a - a_zero) * (b - b_zero), as NumPy's matmul and as a channels-first convolution, of u8 or i8 into i32
 * modulo 2^32 (bytes.c). Zero points are integers, or NULL for 0: a_zero broadcasts to a and b_zero to b, both
 * with 1 along the reduction; x_zero has one element, w_zero and `bias` (i32, or NULL) broadcast to the result. The
 * padding is x_zero. A convolution must be one that takes bytes: no groups but of four channels or a multiple, which
 * then have w_zero 0. a and b have two dimensions or more. */
tn__value *tn__g_matmul_bytes(tn__graph *g, tn__value *a, tn__value *a_zero, tn__value *b, tn__value *b_zero);
tn__value *tn__g_convolution_bytes(tn__graph *g, tn__value *x, tn__value *x_zero, tn__value *w, tn__value *w_zero,
                                   tn__value *bias, const tn__conv_spec *spec);
bool tn__g_convolution_takes_bytes(const tn__value *x, const tn__value *w, const tn__value *w_zero,
                                   const tn__conv_spec *spec);
bool tn__g_is_byte(tn_dtype dtype); /* u8 or i8? */
/* The same tensor in a layout: an operand of a product or convolution. */
tn__value *tn__g_relayout(tn__graph *g, tn__value *a, const tn__layout *layout);
/* Winograd's algorithm for 3x3 convolutions of stride 1 over channels-last images, tile 2 or 4 (ops/winograd.c): the
 * tiles of the image [N, H, W, C] with low[i] zeros in front, as [tile + 2, tile + 2, N, tiles[0], tiles[1], C]; and
 * the image [N, size[0], size[1], O] from products of such tiles. */
tn__value *tn__g_winograd_input(tn__graph *g, tn__value *image, int64_t tile, const int64_t *low, const int64_t *tiles);
tn__value *tn__g_winograd_output(tn__graph *g, tn__value *products, const int64_t *size);
/* Inclusive or exclusive running sum/product/max along axis, forwards or backwards. */
tn__value *tn__g_cumulative(tn__graph *g, tn__reduce_kind kind, tn__value *a, int axis, bool exclusive, bool reverse);
/* Stable sort along axis; outputs values and i64 indices. */
void tn__g_sort(tn__graph *g, tn__value *a, int axis, bool descending, tn__value **values, tn__value **indices);

/* The greatest (or smallest) k along axis, in order; k may be symbolic and must not exceed the dimension. */
void tn__g_top_k(tn__graph *g, tn__value *a, int axis, const tn__expr *k, bool greatest, tn__value **values,
                 tn__value **indices);

/* ---- results whose size is data: the size is a symbol read from a count ------------------------------------------ */
tn__value *tn__g_find_true(tn__graph *g,
                           tn__value *mask);          /* i64 [count]: flat positions of the true elements, in order */
tn__value *tn__g_nonzero(tn__graph *g, tn__value *a); /* i64 [rank, count]: ONNX NonZero */
tn__value *tn__g_compress(tn__graph *g, tn__value *a, tn__value *condition, int axis); /* axis -1: of the flat tensor */
typedef struct tn__unique {
  tn__value *values, *indices, *inverse, *counts; /* ONNX Unique: the last three are i64 and of one dimension */
} tn__unique;
tn__unique tn__g_unique(tn__graph *g, tn__value *a, int axis, bool sorted); /* axis -1: of the flat tensor */

/* ---- control: bodies are graphs of the same ir context; their inputs are the arguments --------------------------- */
tn__node *tn__g_if(tn__graph *g, tn__value *condition, tn__graph *then_body, tn__graph *else_body,
                   tn__value *const *args, int count);
/* `condition` gives one bool from the state, `body` the next state; the results are the last state. */
tn__node *tn__g_while(tn__graph *g, tn__graph *condition, tn__graph *body, tn__value *const *state, int count);

/* ---- sequences and optional values (ops/sequence.c); a position NULL is the end ---------------------------------- */
tn__value *tn__g_sequence_empty(tn__graph *g, tn_dtype dtype, int rank, tn__value_holds holds); /* optional: no value */
tn__value *tn__g_sequence_insert(tn__graph *g, tn__value *list, tn__value *item, tn__value *position);
tn__value *tn__g_sequence_erase(tn__graph *g, tn__value *list, tn__value *position);
/* `rank` is that of the tensor: the list's, or what a run then checks when that is TN__ANY_RANK. */
tn__value *tn__g_sequence_at(tn__graph *g, tn__value *list, tn__value *position, int rank);
tn__value *tn__g_sequence_length(tn__graph *g, tn__value *list); /* i64 */
tn__value *tn__g_optional_has(tn__graph *g, tn__value *list);    /* bool */
/* `shape`: dimensions of the result that are known, -1 for the others; NULL: none is. The tensors must have them.
 * `empty`: what the others are when the list is empty; NULL: 0. */
tn__value *tn__g_sequence_join(tn__graph *g, tn__value *list, int axis, bool stack, const tn__expr *const *shape,
                               const int64_t *empty);
tn__value *tn__g_sequence_split(tn__graph *g, tn__value *a, tn__value *lengths, int axis, bool keep);
tn__value *tn__g_sequence_as(tn__graph *g, tn__value *list, tn__value_holds holds, int rank); /* or TN__ANY_RANK */

/* ---- composites (ops/composite.c), computed in f32 for 16-bit types ---------------------------------------------- */
typedef enum tn__softmax_flags {
  TN__SOFTMAX_PLAIN = 0,
  TN__SOFTMAX_DIVIDE = 1, /* by the sum of the row; else times its reciprocal */
  TN__SOFTMAX_EMPTY = 2   /* a row of negative infinities gives zeros; else NaN */
} tn__softmax_flags;
tn__value *tn__g_softmax(tn__graph *g, tn__value *a, int axis, int flags); /* several tn__softmax_flags */
tn__value *tn__g_log_softmax(tn__graph *g, tn__value *a, int axis);
#define TN__GELU_CUBE 0.044715
tn__value *tn__g_gelu(tn__graph *g, tn__value *a, bool by_tanh);
/* How elements are divided by the root of what stands for the variance, v: they differ in what is rounded. */
typedef enum tn__norm_scale {
  TN__NORM_RSQRT,      /* times rsqrt(v) */
  TN__NORM_RECIPROCAL, /* times 1 / sqrt(v) */
  TN__NORM_DIVIDE      /* by sqrt(v) */
} tn__norm_scale;
TN_MUST_USE bool tn__norm_scale_parse(const char *text, tn__norm_scale *out); /* false: unknown scale */
/* Normalises rows along `axes`: (a - mean) / sqrt(variance + epsilon), and a / sqrt(mean of squares + epsilon).
 * Callers add scales and biases as separate multiplications and additions. */
tn__value *tn__g_layer_norm(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                            tn__norm_scale scale);
/* And the mean and 1 / sqrt(variance + epsilon) of each row, in the type that is computed in. */
tn__value *tn__g_layer_norm_with_statistics(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                                            tn__value **mean, tn__value **inverse);
tn__value *tn__g_rms_norm(tn__graph *g, tn__value *a, const int64_t *axes, int count, double epsilon,
                          tn__norm_scale scale);

/* softmax(q k + bias) v, in f32 or f64 (build/attention.c). */
typedef struct tn__attention_spec {
  /* q [batch, heads, rows, size], k and v [batch, groups, keys, size]: each group of heads, neighbours of each other,
   * shares keys and values. Or with heads in the last dimension: [batch, rows, heads * size]. The scale of the scores
   * has gone into q. */
  tn__value *q, *k, *v;
  int64_t heads, groups; /* -1: only a run tells, and no operand has them in its last dimension */
  tn__value *bias;       /* what is added to the scores, or bools: negative infinity where false; broadcast; or NULL */
  tn__value *visible;    /* bools, broadcast: other keys have no weight, and a row without keys gives zeros; or NULL */
  double cap;            /* scores become cap * tanh(scores / cap) before the bias; 0: they do not */
} tn__attention_spec;
/* One composite, with heads where q has them. `stages`: NULL, or gets the scores as they are, with the cap, with the bias,
 * and the weights, all [batch, heads, rows, keys]: others then read them, and no composite is made. */
tn__value *tn__g_attention(tn__graph *g, const tn__attention_spec *spec, tn__value **stages);

/* ---- composites of quantised numbers (ops/quantized.c) ----------------------------------------------------------- */
/* (x - zero) * scale, in the type of the scale; and x / scale (or x * scale when it `multiplies`) to the nearest
 * integer, plus zero, within the range of so many bits of a type of integers. Operands broadcast NumPy's way; zeros,
 * of i32 and of x's type, may be NULL. */
tn__value *tn__g_dequantize(tn__graph *g, tn__value *x, tn__value *scale, tn__value *zero);
tn__value *tn__g_quantize(tn__graph *g, tn__value *x, tn__value *scale, tn__value *zero, tn_dtype dtype, int bits,
                          bool multiplies);
/* Sums of (a - a_zero) * (b - b_zero) of any integers, as NumPy's matmul of operands with two dimensions or more and as
 * a channels-first convolution, into i32 modulo 2^32. Zero points broadcast to what they belong to, or are NULL for 0;
 * padding gives nothing to a sum. `bias` is NULL, or i32 [O]. */
tn__value *tn__g_quantized_matmul(tn__graph *g, tn__value *a, tn__value *a_zero, tn__value *b, tn__value *b_zero);
tn__value *tn__g_quantized_convolution(tn__graph *g, tn__value *x, tn__value *x_zero, tn__value *w, tn__value *w_zero,
                                       tn__value *bias, const tn__conv_spec *spec);

/* ---- common compositions ----------------------------------------------------------------------------------------- */
tn__value *tn__g_clamp(tn__graph *g, tn__value *a, double low, double high);
tn__value *tn__g_mean(tn__graph *g, tn__value *a, const int64_t *axes, int count, bool keep_dims);

/* on where the index (negative: from the end; outside: nowhere) is, else off, along the new dimension `axis`. */
tn__value *tn__g_one_hot(tn__graph *g, tn__value *indices, const tn__expr *depth, tn__value *off, tn__value *on,
                         int axis);
/* Zeros of shape dims with the elements of a at flat positions. */
tn__value *tn__g_max_unpool(tn__graph *g, tn__value *a, tn__value *positions, int rank, const tn__expr *const *dims);

/* ---- resampling: ONNX Resize and Upsample ------------------------------------------------------------------------ */
typedef struct tn__resize_axis {
  int axis;
  const tn__expr *size; /* of the result */
  /* result / operand, before the size is rounded. Either an f64 scalar, possibly computed at run time; or, if
   * derived from sizes, NULL and the i64 scalars `numerator` and `denominator`, which make coordinates exact. */
  tn__value *scale;
  tn__value *ratio[2];
  tn__value *roi_start, *roi_end; /* f64 scalars; tf_crop_and_resize only */
} tn__resize_axis;
typedef struct tn__resize_spec {
  int count;
  tn__resize_axis axes[TN__MAX_RANK]; /* those that change */
  const char *mode;                   /* nearest, linear, cubic */
  const char *coordinates; /* half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric,
                              tf_crop_and_resize */
  const char *nearest;     /* round_prefer_floor, round_prefer_ceil, floor, ceil */
  bool antialias, exclude_outside;
  double cubic_a, extrapolation;
} tn__resize_spec;
tn__value *tn__g_resize(tn__graph *g, tn__value *a, const tn__resize_spec *spec);

/* ---- images ------------------------------------------------------------------------------------------------------ */
/* a [N, C, spatial...], grid [N, out..., spatial rank] with x first; mode nearest, linear, cubic; padding zeros,
 * border, reflection. */
tn__value *tn__g_grid_sample(tn__graph *g, tn__value *a, tn__value *grid, const char *mode, const char *padding,
                             bool align_corners);
/* a [N, C * product of block, columns] -> [N, C, image...]: ONNX Col2Im. */
tn__value *tn__g_col2im(tn__graph *g, tn__value *a, int spatial, const tn__expr *const *image,
                        const tn__expr *const *block, const int64_t *strides, const int64_t *dilations,
                        const int64_t *low, const int64_t *high);
typedef struct tn__roi_spec {
  int64_t size[2];        /* of the result: height, width */
  int64_t sampling_ratio; /* 0: by the size of the region */
  double spatial_scale;
  bool half_pixel, max;
} tn__roi_spec;
tn__value *tn__g_roi_align(tn__graph *g, tn__value *a, tn__value *rois, tn__value *batches, const tn__roi_spec *spec);
/* ONNX NonMaxSuppression: i64 [count, 3]. The scalars are tensors of one element; overlap and score may be NULL. */
tn__value *tn__g_non_max_suppression(tn__graph *g, tn__value *boxes, tn__value *scores, tn__value *max_per_class,
                                     tn__value *overlap, tn__value *score, bool center_point_box);

/* ---- sequences: one direction of ONNX RNN, GRU, LSTM ------------------------------------------------------------- */
typedef struct tn__recurrent_spec {
  const char *kind;                       /* rnn, gru, lstm */
  tn__value *x, *w, *r;                   /* [time, batch, input], [gates * hidden, input], [gates * hidden, hidden] */
  tn__value *bias;                        /* [2 * gates * hidden] or NULL */
  tn__value *lengths, *h, *c, *peepholes; /* [batch], [batch, hidden] twice, [3 * hidden]; each may be NULL */
  const char *activations;                /* ONNX's names with commas: "Sigmoid,Tanh,Tanh" */
  double alphas[3], betas[3];             /* their parameters; NaN: the default */
  double clip;                            /* 0: none */
  bool reverse, input_forget, linear_before_reset;
} tn__recurrent_spec;
typedef struct tn__recurrent {
  tn__value *y, *h, *c; /* [time, batch, hidden], the last states [batch, hidden]; c NULL unless lstm */
} tn__recurrent;
tn__recurrent tn__g_recurrent(tn__graph *g, const tn__recurrent_spec *spec);

/* ---- signals and matrices ---------------------------------------------------------------------------------------- */
typedef struct tn__complex {
  tn__value *re, *im; /* im NULL: real */
} tn__complex;
/* Along `axis`, cut or filled up with zeros to n elements (n / 2 + 1 for a one-sided inverse, whose result is real). In
 * f64 inside. */
tn__complex tn__g_dft(tn__graph *g, tn__complex a, int axis, const tn__expr *n, bool inverse, bool onesided);
tn__value *tn__g_determinant(tn__graph *g, tn__value *a);

/* ---- random values: decided by the seed, the same in every run --------------------------------------------------- */
tn__value *tn__g_random_uniform(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, double low,
                                double high, int64_t seed);
tn__value *tn__g_random_normal(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, double mean,
                               double deviation, int64_t seed);
tn__value *tn__g_bernoulli(tn__graph *g, tn__value *probabilities, tn_dtype dtype, int64_t seed);
tn__value *tn__g_multinomial(tn__graph *g, tn__value *logits, const tn__expr *samples, tn_dtype dtype, int64_t seed);

#endif
