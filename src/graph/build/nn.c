/* Builders of the operators of image, sequence and signal models, and of random values. */
#include <math.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Channels from the second dimension to the last, or back. */
static tn__value *move_channels(tn__graph *g, tn__value *a, bool to_last) {
  int64_t permutation[TN__MAX_RANK] = {0};
  for (int d = 1; d < a->rank; d++)
    permutation[d] = to_last ? d + 1 < a->rank ? d + 1 : 1 : d == 1 ? a->rank - 1 : d - 1;
  return tn__g_transpose(g, a, permutation);
}

/* Places that are computed are computed once for all channels of an image, in vectors where there are some. */
static bool samples_channels_last(const tn__value *a) {
  enum { FEW = 8 };
  return a->rank > 2 && tn__g_dim_const(a, 1) >= FEW;
}

tn__value *tn__g_grid_sample(tn__graph *g, tn__value *a, tn__value *grid, const char *mode, const char *padding,
                             bool align_corners) {
  bool last = samples_channels_last(a);
  tn__value *inputs[2] = {last ? move_channels(g, a, true) : a, grid};
  const tn__attr attrs[] = {tn__attr_string(g, "mode", mode), tn__attr_string(g, "padding", padding),
                            tn__attr_int(g, "align_corners", align_corners), tn__attr_int(g, "channels_last", last)};
  tn__value *y = tn__g_node(g, "grid_sample", inputs, 2, attrs, 4)->outputs[0];
  return last ? move_channels(g, y, false) : y;
}

tn__value *tn__g_col2im(tn__graph *g, tn__value *a, int spatial, const tn__expr *const *image,
                        const tn__expr *const *block, const int64_t *strides, const int64_t *dilations,
                        const int64_t *low, const int64_t *high) {
  const tn__attr attrs[] = {
      tn__attr_exprs(g, "image", image, spatial),    tn__attr_exprs(g, "block", block, spatial),
      tn__attr_ints(g, "strides", strides, spatial), tn__attr_ints(g, "dilations", dilations, spatial),
      tn__attr_ints(g, "low", low, spatial),         tn__attr_ints(g, "high", high, spatial)};
  return tn__g_node(g, "col2im", &a, 1, attrs, 6)->outputs[0];
}

tn__value *tn__g_roi_align(tn__graph *g, tn__value *a, tn__value *rois, tn__value *batches, const tn__roi_spec *spec) {
  bool last = samples_channels_last(a);
  tn__value *inputs[3] = {last ? move_channels(g, a, true) : a, rois, batches};
  const tn__attr attrs[] = {
      tn__attr_string(g, "mode", spec->max ? "max" : "avg"),   tn__attr_ints(g, "size", spec->size, 2),
      tn__attr_int(g, "sampling_ratio", spec->sampling_ratio), tn__attr_int(g, "half_pixel", spec->half_pixel),
      tn__attr_float(g, "spatial_scale", spec->spatial_scale), tn__attr_int(g, "channels_last", last)};
  tn__value *y = tn__g_node(g, "roi_align", inputs, 3, attrs, 6)->outputs[0];
  return last ? move_channels(g, y, false) : y;
}

/* A scalar of any one-element tensor. */
static tn__value *scalar(tn__graph *g, tn__value *a) { return a == NULL ? NULL : tn__g_reshape(g, a, 0, NULL); }

tn__value *tn__g_non_max_suppression(tn__graph *g, tn__value *boxes, tn__value *scores, tn__value *max_per_class,
                                     tn__value *overlap, tn__value *score, bool center_point_box) {
  tn__value *sorted, *order;
  tn__g_sort(g, scores, 2, true, &sorted, &order);
  tn__value *most = scalar(g, tn__g_convert(g, max_per_class, TN_I64));
  overlap = scalar(g, overlap);
  score = scalar(g, score);
  tn__value *inputs[6] = {boxes, scores, order, most, overlap, score};
  const tn__attr attr = tn__attr_int(g, "center_point_box", center_point_box);
  tn__node *node = tn__g_node(g, "non_max_suppression", inputs, 6, &attr, 1);
  const tn__expr *zero = tn__ir_index(g->ir, 0), *starts[2] = {zero, zero};
  const tn__expr *limits[2] = {tn__graph_count_symbol(g, node->outputs[1], node->outputs[0]->dims[0]),
                               tn__ir_index(g->ir, 3)};
  return tn__g_slice(g, node->outputs[0], starts, limits, (const int64_t[]){1, 1});
}

tn__value *tn__g_winograd_input(tn__graph *g, tn__value *image, int64_t tile, const int64_t *low,
                                const int64_t *tiles) {
  const tn__attr attrs[] = {tn__attr_int(g, "tile", tile), tn__attr_ints(g, "low", low, 2),
                            tn__attr_ints(g, "tiles", tiles, 2)};
  return tn__g_node(g, "winograd_input", &image, 1, attrs, 3)->outputs[0];
}

tn__value *tn__g_winograd_output(tn__graph *g, tn__value *products, const int64_t *size) {
  const tn__attr attr = tn__attr_ints(g, "size", size, 2);
  return tn__g_node(g, "winograd_output", &products, 1, &attr, 1)->outputs[0];
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Elements [first, first + count) of a vector. */
static tn__value *part(tn__graph *g, tn__value *vector, const tn__expr *first, const tn__expr *count) {
  const tn__expr *limit = tn__ir_add(g->ir, first, count);
  const int64_t stride = 1;
  return tn__g_slice(g, vector, &first, &limit, &stride);
}

tn__recurrent tn__g_recurrent(tn__graph *g, const tn__recurrent_spec *spec) {
  const tn__expr *width = spec->w->dims[0], *zero = tn__ir_index(g->ir, 0);
  const int64_t x_contract = 2, w_contract = 1, swap[2] = {1, 0};
  tn__value *x = tn__g_dot_general(g, spec->x, spec->w, NULL, NULL, 0, &x_contract, &w_contract, 1, spec->x->dtype);
  tn__value *own_bias = NULL;
  if (spec->bias != NULL) {
    tn__value *bias = part(g, spec->bias, zero, width), *state_bias = part(g, spec->bias, width, width);
    /* Only a GRU that multiplies by the reset gate after its product needs the state's bias by itself. */
    if (strcmp(spec->kind, "gru") == 0 && spec->linear_before_reset)
      own_bias = state_bias;
    else
      bias = tn__g_binary(g, "add", bias, state_bias);
    x = tn__g_binary(g, "add", x, bias);
  }
  tn__value *inputs[7] = {
      x, tn__g_transpose(g, spec->r, swap), own_bias, spec->h, spec->c, spec->peepholes, spec->lengths};
  const tn__attr attrs[] = {tn__attr_string(g, "kind", spec->kind),
                            tn__attr_string(g, "activations", spec->activations),
                            {.name = "alphas",
                             .kind = TN__ATTR_FLOATS,
                             .count = 3,
                             .floats = tn__arena_copy(g->arena, spec->alphas, sizeof(spec->alphas))},
                            {.name = "betas",
                             .kind = TN__ATTR_FLOATS,
                             .count = 3,
                             .floats = tn__arena_copy(g->arena, spec->betas, sizeof(spec->betas))},
                            tn__attr_float(g, "clip", spec->clip),
                            tn__attr_int(g, "reverse", spec->reverse),
                            tn__attr_int(g, "input_forget", spec->input_forget),
                            tn__attr_int(g, "linear_before_reset", spec->linear_before_reset)};
  tn__node *node = tn__g_node(g, "recurrence", inputs, 7, attrs, 8);
  return (tn__recurrent){node->outputs[0], node->outputs[1], node->output_count > 2 ? node->outputs[2] : NULL};
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static tn__value *f64(tn__graph *g, double value) { return tn__g_scalar(g, TN_F64, value); }
static tn__value *mul(tn__graph *g, tn__value *a, tn__value *b) { return tn__g_binary(g, "multiply", a, b); }

/* Zeros behind, or cut off, so that the dimension has n elements. */
static tn__value *with_length(tn__graph *g, tn__value *a, int axis, const tn__expr *n) {
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    low[i] = tn__ir_index(g->ir, 0);
    high[i] = i == axis ? tn__ir_sub(g->ir, n, a->dims[i]) : low[i];
  }
  return tn__g_pad(g, a, tn__g_scalar(g, a->dtype, 0), low, high, NULL);
}

/* a times a matrix along `axis`, which stays where it is. */
static tn__value *transform(tn__graph *g, tn__value *a, tn__value *matrix, int axis) {
  const int64_t from = axis, to = 0;
  tn__value *result = tn__g_dot_general(g, a, matrix, NULL, NULL, 0, &from, &to, 1, TN_F64);
  int64_t permutation[TN__MAX_RANK];
  for (int i = 0, next = 0; i < a->rank; i++) permutation[i] = i == axis ? a->rank - 1 : next++;
  return tn__g_transpose(g, result, permutation);
}

tn__complex tn__g_dft(tn__graph *g, tn__complex a, int axis, const tn__expr *n, bool inverse, bool onesided) {
  tn__ir *ir = g->ir;
  tn_dtype dtype = a.re->dtype;
  const tn__expr *half = tn__ir_add_i(ir, tn__ir_div_i(ir, n, 2), 1);
  const tn__expr *in = onesided && inverse ? half : n, *out = onesided && !inverse ? half : n;
  tn__value *re = with_length(g, tn__g_convert(g, a.re, TN_F64), axis, in);
  tn__value *im = a.im == NULL ? NULL : with_length(g, tn__g_convert(g, a.im, TN_F64), axis, in);
  /* Angles are reduced in integers, where that is exact, and everything is f64: what should be zero is zero to 1e-15 or
   * so. */
  const tn__expr *dims[2] = {in, out};
  tn__value *column = tn__g_iota(g, TN_I64, 2, dims, 1), *turns = mul(g, tn__g_iota(g, TN_I64, 2, dims, 0), column);
  turns = tn__g_binary(g, "remainder", turns, tn__g_from_elements(g, TN_I64, &n, 1, 0));
  tn__value *length = tn__g_from_elements(g, TN_F64, &n, 1, 0);
  tn__value *turn = tn__g_binary(g, "divide", f64(g, inverse ? 2 * M_PI : -2 * M_PI), length);
  tn__value *angle = mul(g, tn__g_convert(g, turns, TN_F64), turn);
  tn__value *c = tn__g_unary(g, "cosine", angle), *s = tn__g_unary(g, "sine", angle);
  if (inverse) {
    tn__value *scale = tn__g_binary(g, "divide", f64(g, 1), length);
    if (onesided) { /* each frequency stands for its mirror image too, but for the first and, when n is even, the
                     * last */
      const tn__expr *frequencies[2] = {in, tn__ir_index(ir, 1)};
      tn__value *k = tn__g_iota(g, TN_I64, 2, frequencies, 0), *twice = tn__g_binary_s(g, "multiply", k, 2);
      tn__value *last = tn__g_compare(g, TN__CMP_EQ, twice, tn__g_from_elements(g, TN_I64, &n, 1, 0));
      tn__value *first = tn__g_compare(g, TN__CMP_EQ, k, tn__g_scalar(g, TN_I64, 0));
      tn__value *single = tn__g_binary(g, "or", first, last), *two = f64(g, 2);
      scale = mul(g, scale, tn__g_select(g, single, f64(g, 1), two));
    }
    c = mul(g, c, scale);
    s = mul(g, s, scale);
  }
  tn__complex result = {transform(g, re, c, axis), NULL};
  if (im != NULL) result.re = tn__g_binary(g, "subtract", result.re, transform(g, im, s, axis));
  if (!(onesided && inverse)) {
    result.im = transform(g, re, s, axis);
    if (im != NULL) result.im = tn__g_binary(g, "add", result.im, transform(g, im, c, axis));
    result.im = tn__g_convert(g, result.im, dtype);
  }
  result.re = tn__g_convert(g, result.re, dtype);
  return result;
}

tn__value *tn__g_determinant(tn__graph *g, tn__value *a) {
  return tn__g_node(g, "determinant", &a, 1, NULL, 0)->outputs[0];
}

/* ---- random values ----------------------------------------------------------------------------------------------- */

/* [0, 1) with 53 (f64) or 24 bits. */
static tn__value *unit(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, int64_t seed,
                       int64_t stream) {
  const tn__attr attrs[] = {tn__attr_exprs(g, "shape", dims, rank), tn__attr_int(g, "seed", seed),
                            tn__attr_int(g, "stream", stream)};
  tn__value *bits = tn__g_node(g, "random_bits", NULL, 0, attrs, 3)->outputs[0];
  int kept = dtype == TN_F64 ? 53 : 24;
  bits = tn__g_binary(g, "shift_right", bits, tn__g_scalar_i64(g, TN_U64, 64 - kept));
  return tn__g_binary_s(g, "multiply", tn__g_convert(g, tn__g_convert(g, bits, TN_I64), dtype), ldexp(1, -kept));
}

tn__value *tn__g_random_uniform(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, double low,
                                double high, int64_t seed) {
  tn__value *u = unit(g, tn__g_accumulator_of(dtype), rank, dims, seed, 0);
  return tn__g_convert(g, tn__g_binary_s(g, "add", tn__g_binary_s(g, "multiply", u, high - low), low), dtype);
}

tn__value *tn__g_random_normal(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, double mean,
                               double deviation, int64_t seed) {
  tn_dtype wide = tn__g_accumulator_of(dtype); /* Box and Muller */
  tn__value *u = unit(g, wide, rank, dims, seed, 0), *v = unit(g, wide, rank, dims, seed, 1);
  tn__value *log = tn__g_unary(g, "log_plus_one", tn__g_unary(g, "negate", u));
  tn__value *radius = tn__g_unary(g, "sqrt", tn__g_binary_s(g, "multiply", log, -2));
  tn__value *normal = mul(g, radius, tn__g_unary(g, "cosine", tn__g_binary_s(g, "multiply", v, 2 * M_PI)));
  return tn__g_convert(g, tn__g_binary_s(g, "add", tn__g_binary_s(g, "multiply", normal, deviation), mean), dtype);
}

tn__value *tn__g_bernoulli(tn__graph *g, tn__value *probabilities, tn_dtype dtype, int64_t seed) {
  tn__value *p = tn__g_convert(g, probabilities, tn__g_accumulator_of(probabilities->dtype));
  tn__value *hit = tn__g_compare(g, TN__CMP_LT, unit(g, p->dtype, p->rank, p->dims, seed, 0), p);
  return tn__g_convert(g, hit, dtype);
}

tn__value *tn__g_multinomial(tn__graph *g, tn__value *logits, const tn__expr *samples, tn_dtype dtype, int64_t seed) {
  tn__ir *ir = g->ir;
  tn__value *p = tn__g_softmax(g, tn__g_convert(g, logits, tn__g_accumulator_of(logits->dtype)), 1, TN__SOFTMAX_PLAIN);
  tn__value *below = tn__g_cumulative(g, TN__REDUCE_SUM, p, 1, false, false);
  const tn__expr *dims[3] = {p->dims[0], samples, p->dims[1]}, *row[3] = {p->dims[0], tn__ir_index(ir, 1), p->dims[1]};
  const tn__expr *column[3] = {p->dims[0], samples, tn__ir_index(ir, 1)};
  tn__value *u = tn__g_reshape(g, unit(g, p->dtype, 2, dims, seed, 0), 3, column);
  tn__value *passed = tn__g_compare(g, TN__CMP_LE, tn__g_reshape(g, below, 3, row), u);
  const int64_t last = 2;
  tn__value *index = tn__g_reduce(g, TN__REDUCE_SUM, tn__g_convert(g, passed, TN_I64), &last, 1, false);
  const tn__expr *greatest = tn__ir_add_i(ir, p->dims[1], -1); /* rounding may leave the last sum below 1 */
  return tn__g_convert(g, tn__g_binary(g, "minimum", index, tn__g_from_elements(g, TN_I64, &greatest, 1, 0)), dtype);
}
