/* Random values. The same model gives the same values in every run: without a seed attribute a node's place decides. */
#include <string.h>

#include "import/onnx/ops.h"

static int64_t seed_of(const tn__onode *n) {
  const Onnx__AttributeProto *a = tn__on_attr(n, "seed");
  if (a == NULL || (n->op != NULL && strcmp(n->name, "Dropout") == 0))
    return tn__on_int(n, "seed", tn__graph_node_count(n->g) + 1);
  float seed = (float)tn__on_float(n, "seed", 0);
  int32_t bits;
  memcpy(&bits, &seed, sizeof(bits));
  return bits;
}

static tn_dtype dtype_of(const tn__onode *n, tn_dtype otherwise) {
  if (tn__on_attr(n, "dtype") == NULL) return otherwise;
  int64_t type = tn__on_int(n, "dtype", 1);
  tn_dtype dtype = type < 0 || type > INT32_MAX ? TN_DTYPE_INVALID : tn__onnx_dtype((int32_t)type);
  if (dtype == TN_DTYPE_INVALID) tn__on_unsupported(n, "element type %lld is not supported", (long long)type);
  return dtype;
}

/* RandomUniform, RandomNormal and their Like forms. */
void tn__onnx_random(tn__onode *n) {
  const tn__expr *dims[TN__MAX_RANK];
  const tn__expr *const *shape = dims;
  tn_dtype dtype;
  int rank;
  if (n->in[0] != NULL) {
    shape = n->in[0]->dims;
    rank = n->in[0]->rank;
    dtype = dtype_of(n, n->in[0]->dtype);
  } else {
    const int64_t *sizes = tn__on_ints(n, "shape", &rank);
    if (rank > TN__MAX_RANK)
      tn__on_unsupported(n, "makes a tensor with %d dimensions; at most %d are supported", rank, TN__MAX_RANK);
    for (int i = 0; i < rank; i++) dims[i] = tn__on_index(n, sizes[i]);
    dtype = dtype_of(n, TN_F32);
  }
  if (!tn__dtype_is_float(dtype)) tn__on_fail(n, "random %s are not defined", tn_dtype_name(dtype));
  if (strncmp(n->name, "RandomUniform", 13) == 0)
    n->out[0] = tn__g_random_uniform(n->g, dtype, rank, shape, tn__on_float(n, "low", 0), tn__on_float(n, "high", 1),
                                     seed_of(n));
  else
    n->out[0] = tn__g_random_normal(n->g, dtype, rank, shape, tn__on_float(n, "mean", 0), tn__on_float(n, "scale", 1),
                                    seed_of(n));
}

void tn__onnx_bernoulli(tn__onode *n) {
  n->out[0] = tn__g_bernoulli(n->g, n->in[0], dtype_of(n, n->in[0]->dtype), seed_of(n));
}

void tn__onnx_multinomial(tn__onode *n) {
  int64_t samples = tn__on_int(n, "sample_size", 1);
  if (samples < 1) tn__on_fail(n, "sample_size is %lld", (long long)samples);
  n->out[0] = tn__g_multinomial(n->g, n->in[0], tn__on_index(n, samples), dtype_of(n, TN_I32), seed_of(n));
}

/* Before opset 12, and without training_mode, the data passes through and the mask is all true. */
void tn__onnx_dropout(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *x = n->in[0];
  const int64_t *known;
  const double *known_ratio;
  int count;
  bool inference = n->version < 12 || n->in[2] == NULL;
  if (!inference && tn__on_known_ints(n, 2, &known, &count)) inference = count == 1 && known[0] == 0;
  if (!inference && n->in[1] != NULL && tn__on_known_floats(n, 1, &known_ratio, &count))
    inference = count == 1 && known_ratio[0] == 0;
  if (inference) {
    n->out[0] = x;
    if (n->output_count > 1) n->out[1] = tn__g_full(g, n->version >= 10 ? TN_BOOL : x->dtype, 1, x->rank, x->dims);
    return;
  }
  tn__value *training = tn__on_reshape(n, n->in[2], 0, NULL), *one = tn__g_scalar(g, TN_F32, 1);
  tn__value *ratio =
      n->in[1] == NULL ? tn__g_scalar(g, TN_F32, 0.5) : tn__g_convert(g, tn__on_reshape(n, n->in[1], 0, NULL), TN_F32);
  tn__value *kept = tn__g_select(g, training, tn__on_sub(n, one, ratio), one);
  n->out[1] = tn__g_bernoulli(g, tn__g_broadcast_to(g, kept, x->rank, x->dims), TN_BOOL, seed_of(n));
  tn__value *wide = tn__on_widen(n, x), *scaled = tn__on_div(n, wide, tn__g_convert(g, kept, wide->dtype));
  n->out[0] = tn__g_convert(g, tn__g_select(g, n->out[1], scaled, tn__on_scalar(n, 0, wide)), x->dtype);
}
