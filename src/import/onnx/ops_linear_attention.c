/* Attention with a recurrent state, and the causal convolution that goes before it. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"

void tn__onnx_causal_conv(tn__onode *n) {
  tn__ir *ir = n->ir;
  tn__graph *g = n->g;
  tn__value *x = tn__on_widen(n, n->in[0]), *w = tn__g_convert(g, n->in[1], x->dtype);
  int64_t taps = tn__on_dim_known(n, 1, 2, "the size of the window"),
          channels = tn__on_dim_known(n, 1, 0, "the number of channels");
  const tn__expr *state_dims[3] = {x->dims[0], x->dims[1], tn__ir_index(ir, taps - 1)};
  tn__value *past = n->in[3] != NULL ? tn__g_convert(g, n->in[3], x->dtype) : tn__g_full(g, x->dtype, 0, 3, state_dims);
  tn__value *both[2] = {past, x};
  tn__value *padded = taps == 1 ? x : tn__g_concatenate(g, both, 2, 2);
  tn__conv_spec spec = {
      .spatial = 1, .strides = {1}, .lhs_dilation = {1}, .rhs_dilation = {1}, .feature_groups = channels};
  spec.low[0] = spec.high[0] = tn__ir_index(ir, 0);
  tn__value *y = tn__g_convolution(g, padded, w, &spec, x->dtype);
  if (n->in[2] != NULL) y = tn__on_add(n, y, tn__on_at_axis(n, tn__g_convert(g, n->in[2], x->dtype), 1, 3));
  const char *activation = tn__on_string(n, "activation", "none");
  if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0)
    y = tn__on_mul(n, y, tn__on_unary(n, "logistic", y));
  else if (strcmp(activation, "none") != 0)
    tn__on_fail(n, "activation \"%s\" is none of silu, swish and none", activation);
  n->out[0] = tn__g_convert(g, y, n->in[0]->dtype);
  const tn__expr *end = padded->dims[2];
  n->out[1] = tn__g_convert(g, taps == 1 ? past : tn__on_slice_axis(n, padded, 2, tn__ir_add_i(ir, end, 1 - taps), end),
                            n->in[0]->dtype);
}

/* ---- linear attention -------------------------------------------------------------------------------------------- */

typedef struct linear_attention {
  int64_t query_heads, heads, steps; /* of the input; of keys and values; positions */
  bool gated, delta;
  double scale;
  tn__value *query, *key, *value, *decay, *beta; /* [B, T, heads, d]; decay and beta may have d 1, beta heads 1 */
} linear_attention;

/* [B, T, heads * d] to [B, T, heads, d], widened; `head_input` names the operand. */
static tn__value *split_heads(tn__onode *n, int input, int64_t heads) {
  tn__value *x = tn__on_widen(n, n->in[input]);
  int64_t size = tn__on_dim_known(n, input, 2, "the packed dimension");
  if (heads < 1 || size % heads != 0)
    tn__on_fail(n, "%lld elements of input %d do not divide into %lld heads", (long long)size, input, (long long)heads);
  const tn__expr *dims[4] = {x->dims[0], x->dims[1], tn__on_index(n, heads), tn__on_index(n, size / heads)};
  return tn__on_reshape(n, x, 4, dims);
}

static void read_linear_attention(tn__onode *n, linear_attention *a) {
  const char *rule = tn__on_string(n, "update_rule", "gated_delta");
  a->gated = strcmp(rule, "gated") == 0 || strcmp(rule, "gated_delta") == 0;
  a->delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
  if (!a->gated && !a->delta && strcmp(rule, "linear") != 0)
    tn__on_fail(n, "update_rule \"%s\" is none of linear, gated, delta and gated_delta", rule);
  a->query_heads = tn__on_int(n, "q_num_heads", 0);
  a->heads = tn__on_int(n, "kv_num_heads", 0);
  if (a->heads < 1 || a->query_heads < 1 || a->query_heads % a->heads != 0)
    tn__on_fail(n, "%lld query heads are not a multiple of %lld key heads", (long long)a->query_heads,
                (long long)a->heads);
  if ((a->gated && n->in[4] == NULL) || (a->delta && n->in[5] == NULL))
    tn__on_fail(n, "update_rule \"%s\" needs input %d", rule, a->gated && n->in[4] == NULL ? 4 : 5);
  a->query = split_heads(n, 0, a->query_heads);
  a->key = split_heads(n, 1, a->heads);
  a->value = split_heads(n, 2, a->heads);
  if (a->gated) a->decay = split_heads(n, 4, a->heads);
  if (a->delta) a->beta = split_heads(n, 5, tn__on_dim_known(n, 5, 2, "the number of update rates"));
  a->steps = tn__on_dim_known(n, 0, 1, "the number of positions");
  enum { MOST_STEPS = 1024 };
  if (a->steps < 1 || a->steps > MOST_STEPS)
    tn__on_unsupported(n, "has %lld positions; 1 to %d are supported", (long long)a->steps, MOST_STEPS);
  a->scale = tn__on_float(n, "scale", 0);
  if (a->scale == 0) a->scale = 1 / sqrt((double)tn__g_dim_const(a->query, 3));
}

/* [B, T, heads, d] at one position: [B, heads, d, 1] as a column, or [B, heads, 1, d] as a row. */
static tn__value *vector_at(tn__onode *n, tn__value *x, int64_t step, bool column) {
  tn__value *v = tn__on_slice_axis(n, x, 1, tn__on_index(n, step), tn__on_index(n, step + 1));
  const tn__expr *dims[4] = {x->dims[0], x->dims[2], column ? x->dims[3] : tn__on_index(n, 1),
                             column ? tn__on_index(n, 1) : x->dims[3]};
  return tn__on_reshape(n, v, 4, dims);
}

/* k' S: [B, heads, 1, dv] */
static tn__value *read_state(tn__onode *n, tn__value *key, tn__value *state) {
  const int64_t rows = 2;
  return tn__g_reduce(n->g, TN__REDUCE_SUM, tn__on_mul(n, state, key), &rows, 1, true);
}

void tn__onnx_linear_attention(tn__onode *n) {
  tn__graph *g = n->g;
  linear_attention a = {.steps = 0};
  read_linear_attention(n, &a);
  int64_t shared = a.query_heads / a.heads;
  const tn__expr *state_dims[4] = {a.key->dims[0], a.key->dims[2], a.key->dims[3], a.value->dims[3]};
  tn__value *state = n->in[3] != NULL ? tn__on_widen(n, n->in[3]) : tn__g_full(g, a.key->dtype, 0, 4, state_dims);
  const tn__value *first = state;
  tn__value **rows = TN__NEW_ARRAY(n->arena, a.steps, tn__value *);
  for (int64_t t = 0; t < a.steps; t++) {
    tn__value *key = vector_at(n, a.key, t, true), *value = vector_at(n, a.value, t, false);
    if (a.gated) state = tn__on_mul(n, state, tn__on_unary(n, "exponential", vector_at(n, a.decay, t, true)));
    if (a.delta) {
      tn__value *beta = vector_at(n, a.beta, t, true);
      value = tn__on_mul(n, tn__on_sub(n, value, read_state(n, key, state)), beta);
    }
    state = tn__on_add(n, state, tn__on_mul(n, key, value));
    /* Every query head reads the state of its key head. */
    const tn__expr *query_dims[5] = {a.query->dims[0], tn__on_index(n, a.heads), tn__on_index(n, shared),
                                     a.query->dims[3], tn__on_index(n, 1)};
    tn__value *query = tn__on_reshape(n, vector_at(n, a.query, t, true), 5, query_dims);
    tn__value *product = tn__on_mul(n, tn__on_unsqueeze(n, state, (const int64_t[]){2}, 1), query);
    const int64_t reduced = 3;
    const tn__expr *packed[3] = {a.query->dims[0], tn__on_index(n, 1),
                                 tn__ir_mul_i(n->ir, a.value->dims[3], a.query_heads)};
    rows[t] = tn__on_reshape(n, tn__on_mul_s(n, tn__g_reduce(g, TN__REDUCE_SUM, product, &reduced, 1, false), a.scale),
                             3, packed);
  }
  tn__on_require_shape(n, state, first, "the state");
  tn__value *y = a.steps == 1 ? rows[0] : tn__g_concatenate(g, rows, (int)a.steps, 1);
  n->out[0] = tn__g_convert(g, y, n->in[0]->dtype);
  n->out[1] = tn__g_convert(g, state, n->in[3] != NULL ? n->in[3]->dtype : n->in[0]->dtype);
}
