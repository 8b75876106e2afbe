/* Scaled dot-product attention with its masks and caches, and rotary position embeddings. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops_more.h"

typedef struct attention {
  tn__onode *n;
  tn__value *q, *k, *v;           /* as tn__attention_spec wants them */
  int64_t heads, groups;          /* -1: only a run tells */
  const tn__expr *queries, *keys; /* lengths; keys include the past */
  const tn__expr *past;           /* length of the past, 0 without */
  tn_dtype dtype;                 /* that scores are computed in */
} attention;

static int64_t heads_of(const attention *a, int input, const char *attribute) {
  const tn__onode *n = a->n;
  if (n->in[input]->rank != 3) return tn__g_dim_const(n->in[input], 1);
  int64_t heads = tn__on_int(n, attribute, 0);
  if (heads < 1) tn__on_fail(n, "attribute \"%s\" must say the number of heads of 3-D operands", attribute);
  return heads;
}

/* [B, S, H * D] to [B, H, S, D]; others as they are. */
static tn__value *split_heads(const attention *a, tn__value *x, int64_t heads) {
  tn__onode *n = a->n;
  if (x->rank != 3) return x;
  const tn__expr *dims[] = {x->dims[0], x->dims[1], tn__on_index(n, heads), tn__ir_div_i(n->ir, x->dims[2], heads)};
  return tn__on_transpose(n, tn__on_reshape(n, x, 4, dims), (const int64_t[]){0, 2, 1, 3});
}

/* Keys and values with the past in front of them, which others may read: they have a dimension for their heads. */
static void add_past(attention *a) {
  tn__onode *n = a->n;
  if ((n->in[4] == NULL) != (n->in[5] == NULL))
    tn__on_fail(n, "input %d (%s) is missing; past keys and past values come together", n->in[4] == NULL ? 4 : 5,
                n->in[4] == NULL ? "past_key" : "past_value");
  if (n->in[4] == NULL && n->output_count < 2) return;
  a->k = split_heads(a, a->k, a->groups);
  a->v = split_heads(a, a->v, a->groups);
  if (n->in[4] != NULL) {
    a->past = n->in[4]->dims[2];
    a->k = tn__g_concatenate(n->g, (tn__value *[]){n->in[4], a->k}, 2, 2);
    a->v = tn__g_concatenate(n->g, (tn__value *[]){n->in[5], a->v}, 2, 2);
  }
  if (n->output_count > 1) n->out[1] = a->k;
  if (n->output_count > 2) n->out[2] = a->v;
}

static void read_operands(attention *a) {
  tn__onode *n = a->n;
  a->q = n->in[0], a->k = n->in[1], a->v = n->in[2];
  a->heads = heads_of(a, 0, "q_num_heads");
  a->groups = heads_of(a, 1, "kv_num_heads");
  a->past = tn__on_index(n, 0);
  add_past(a);
  a->queries = a->q->dims[a->q->rank - 2];
  a->keys = a->k->dims[a->k->rank - 2];
  a->dtype = a->q->dtype == TN_F64 ? TN_F64 : TN_F32;
}

/* Positions along one axis of a [1 or batch, 1, queries, keys] grid, i64. */
static tn__value *positions(const attention *a, int axis) {
  const tn__expr *one = tn__on_index(a->n, 1);
  const tn__expr *dims[] = {one, one, axis == 2 ? a->queries : one, axis == 3 ? a->keys : one};
  return tn__g_iota(a->n->g, TN_I64, 4, dims, axis);
}

static tn__value *both(const attention *a, tn__value *x, tn__value *y) {
  return x == NULL ? y : tn__g_binary(a->n->g, "and", x, y);
}

/* Absolute position of each query: offset + its place in the block. */
static tn__value *query_positions(const attention *a) {
  tn__onode *n = a->n;
  tn__value *place = positions(a, 2);
  if (n->in[6] != NULL && n->in[4] == NULL) {
    const tn__expr *one = tn__on_index(n, 1);
    const tn__expr *dims[] = {n->in[6]->dims[0], one, one, one};
    tn__value *filled = tn__on_reshape(n, tn__g_convert(n->g, n->in[6], TN_I64), 4, dims);
    tn__value *block = tn__g_from_elements(n->g, TN_I64, &a->queries, 1, 0);
    return tn__on_add(n, place, tn__on_sub(n, filled, block));
  }
  return tn__on_add(n, place, tn__g_from_elements(n->g, TN_I64, &a->past, 1, 0));
}

/* Which keys each query may see by position alone; NULL: all. */
static tn__value *visible_keys(const attention *a) {
  tn__onode *n = a->n;
  tn__value *allowed = NULL, *key = positions(a, 3);
  int64_t left = tn__on_int(n, "left_window_size", -1), right = tn__on_int(n, "right_window_size", -1);
  bool causal = tn__on_int(n, "is_causal", 0) != 0;
  if (causal || left >= 0 || right >= 0) {
    tn__value *query = query_positions(a);
    if (causal) allowed = both(a, allowed, tn__g_compare(n->g, TN__CMP_LE, key, query));
    if (left >= 0)
      allowed = both(a, allowed, tn__g_compare(n->g, TN__CMP_GE, key, tn__on_add_s(n, query, (double)-left)));
    if (right >= 0)
      allowed = both(a, allowed, tn__g_compare(n->g, TN__CMP_LE, key, tn__on_add_s(n, query, (double)right)));
  }
  if (n->in[6] != NULL) {
    const tn__expr *one = tn__on_index(n, 1);
    const tn__expr *dims[] = {n->in[6]->dims[0], one, one, one};
    tn__value *filled = tn__on_reshape(n, tn__g_convert(n->g, n->in[6], TN_I64), 4, dims);
    allowed = both(a, allowed, tn__g_compare(n->g, TN__CMP_LT, key, filled));
  }
  return allowed;
}

/* The mask operand, padded to all keys; NULL without. */
static tn__value *mask_bias(const attention *a) {
  tn__onode *n = a->n;
  tn__value *mask = n->in[3];
  if (mask == NULL) return NULL;
  int last = mask->rank - 1;
  bool all_keys = mask->dims[last] == a->keys || tn__ir_is_int_value(mask->dims[last], 1);
  if (mask->dtype != TN_BOOL) mask = tn__g_convert(n->g, mask, a->dtype);
  if (all_keys) return mask;
  const tn__expr *low[4], *high[4];
  for (int i = 0; i < mask->rank; i++) low[i] = high[i] = tn__on_index(n, 0);
  high[last] = tn__ir_sub(n->ir, a->keys, mask->dims[last]);
  tn__value *hidden =
      mask->dtype == TN_BOOL ? tn__g_scalar_i64(n->g, TN_BOOL, 0) : tn__g_scalar(n->g, a->dtype, -INFINITY);
  return tn__g_pad(n->g, mask, hidden, low, high, NULL);
}

static double scale_of(const attention *a) {
  tn__onode *n = a->n;
  double scale = tn__on_float(n, "scale", 0);
  if (scale != 0) return scale;
  return 1 / sqrt((double)tn__on_dim_known(n, 0, n->in[0]->rank - 1, "the head size") /
                  (n->in[0]->rank == 3 ? (double)a->heads : 1));
}

void tn__onnx_attention(tn__onode *n) {
  attention a = {.n = n};
  read_operands(&a);
  int64_t mode = tn__on_int(n, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) tn__on_fail(n, "qk_matmul_output_mode %lld is not between 0 and 3", (long long)mode);
  tn__attention_spec spec = {.heads = a.heads, .groups = a.groups, .cap = tn__on_float(n, "softcap", 0)};
  spec.q = tn__on_mul_s(n, tn__g_convert(n->g, a.q, a.dtype), scale_of(&a));
  spec.k = tn__g_convert(n->g, a.k, a.dtype);
  spec.v = tn__g_convert(n->g, a.v, a.dtype);
  spec.bias = mask_bias(&a);
  spec.visible = visible_keys(&a);
  tn__value *stages[4];
  bool shows = n->output_count > 3;
  n->out[0] = tn__g_convert(n->g, tn__g_attention(n->g, &spec, shows ? stages : NULL), n->in[0]->dtype);
  if (shows) n->out[3] = tn__g_convert(n->g, stages[mode], n->in[0]->dtype);
}

/* ---- rotary embeddings ------------------------------------------------------------------------------------------- */

/* Every second element of the last axis, from `first` on. */
static tn__value *every_second(tn__onode *n, tn__value *x, int first) {
  const tn__expr *starts[TN__MAX_RANK];
  int64_t strides[TN__MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    starts[i] = tn__on_index(n, i == x->rank - 1 ? first : 0);
    strides[i] = i == x->rank - 1 ? 2 : 1;
  }
  return tn__g_slice(n->g, x, starts, x->dims, strides);
}

/* The cache at the tokens' positions as [batch, sequence, 1, half]. */
static tn__value *angles(tn__onode *n, int input, int64_t half) {
  tn__value *cache = n->in[input];
  if (n->in[3] != NULL) cache = tn__g_take(n->g, cache, n->in[3], 0);
  if (cache->rank != 3) tn__on_fail(n, "the caches have %d dimensions at the positions, expected 3", cache->rank);
  if (tn__g_dim_const(cache, 2) >= 0 && tn__g_dim_const(cache, 2) != half)
    tn__on_fail(n, "the last dimension of input %d is %lld, expected half of the rotated size, %lld", input,
                (long long)tn__g_dim_const(cache, 2), (long long)half);
  static const int64_t axis = 2;
  return tn__on_unsqueeze(n, cache, &axis, 1);
}

void tn__onnx_rotary_embedding(tn__onode *n) {
  tn__value *x = n->in[0];
  bool flat = x->rank == 3, interleaved = tn__on_int(n, "interleaved", 0) != 0;
  if (flat) {
    int64_t heads = tn__on_int(n, "num_heads", 0);
    if (heads < 1) tn__on_fail(n, "attribute \"num_heads\" must say the number of heads of a 3-D operand");
    const tn__expr *dims[] = {x->dims[0], x->dims[1], tn__on_index(n, heads), tn__ir_div_i(n->ir, x->dims[2], heads)};
    x = tn__on_reshape(n, x, 4, dims);
  } else {
    x = tn__on_transpose(n, x, (const int64_t[]){0, 2, 1, 3});
  }
  int64_t size = tn__g_dim_const(x, 3), rotated = tn__on_int(n, "rotary_embedding_dim", 0);
  if (size < 0) tn__on_unsupported(n, "the head size must be a constant");
  if (rotated == 0) rotated = size;
  if (rotated % 2 != 0 || rotated > size)
    tn__on_fail(n, "rotary_embedding_dim %lld is odd or above the head size %lld", (long long)rotated, (long long)size);
  const tn__expr *zero = tn__on_index(n, 0), *half = tn__on_index(n, rotated / 2), *end = tn__on_index(n, rotated);
  tn__value *turn = tn__on_slice_axis(n, x, 3, zero, end), *rest = tn__on_slice_axis(n, x, 3, end, x->dims[3]);
  tn__value *a = interleaved ? every_second(n, turn, 0) : tn__on_slice_axis(n, turn, 3, zero, half);
  tn__value *b = interleaved ? every_second(n, turn, 1) : tn__on_slice_axis(n, turn, 3, half, end);
  tn__value *cosine = angles(n, 1, rotated / 2), *sine = angles(n, 2, rotated / 2);
  tn__value *turned = tn__on_mul(n, sine, b), *real = tn__on_sub(n, tn__on_mul(n, cosine, a), turned);
  turned = tn__on_mul(n, cosine, b);
  tn__value *imaginary = tn__on_add(n, tn__on_mul(n, sine, a), turned);
  tn__value *y;
  if (interleaved) {
    static const int64_t axis = 4;
    real = tn__on_unsqueeze(n, real, &axis, 1);
    imaginary = tn__on_unsqueeze(n, imaginary, &axis, 1);
    y = tn__g_concatenate(n->g, (tn__value *[]){real, imaginary}, 2, 4);
    y = tn__on_reshape(n, y, 4, turn->dims);
  } else {
    y = tn__g_concatenate(n->g, (tn__value *[]){real, imaginary}, 2, 3);
  }
  if (rotated != size) y = tn__g_concatenate(n->g, (tn__value *[]){y, rest}, 2, 3);
  tn__on_require_shape(n, y, x, "input 0 (X)");
  n->out[0] = flat ? tn__on_reshape(n, y, 3, n->in[0]->dims) : tn__on_transpose(n, y, (const int64_t[]){0, 2, 1, 3});
}
