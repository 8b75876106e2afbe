/* Transposed convolutions: convolutions over an image with L - 1 zeros between its elements, which are most of what is
 * multiplied. Elements of the result whose distance is a multiple of L meet the same elements of the window, of which
 * there are 1 in L: so the result has L phases in each dimension, all of them convolutions of the image as it is.
 *
 * An element o of the result is the sum over k of padded[o + k] * window[k], and padded[low + L * q] is element q of
 * the image. With o = low + L * t - r, 0 <= r < L, only k = r + L * j count, and they meet q = t + j: every phase r
 * reads ceil(window / L) elements from t on. So all of them are one convolution with L times the columns, where a phase
 * whose window is shorter has zeros; its columns are dealt out to the elements of the result afterwards, last phase
 * first. */
#include "graph/passes/rewrite.h"

typedef struct dimension {
  int64_t step, window, low, high; /* L, and the convolution's own window and padding */
  int64_t taps;                    /* of a phase */
  int64_t before, after;           /* padding of the image as it is */
  int64_t first;                   /* where the result begins among the dealt-out columns */
} dimension;

typedef struct phases {
  tn__graph *graph;
  tn__ir *ir;
  const tn__node *node;
  int spatial;
  dimension dims[TN__MAX_RANK];
  bool apart; /* phases with shorter windows are convolutions of their own */
} phases;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---- which convolutions ------------------------------------------------------------------------------------------ */

static bool see_dimension(phases *p, int i) {
  const tn__node *node = p->node;
  dimension *d = &p->dims[i];
  d->step = tn__node_attr(node, "lhs_dilation")->ints[i];
  d->window = tn__g_dim_const(node->inputs[1], i);
  if (tn__node_attr(node, "strides")->ints[i] != 1) return false;
  /* A single element has any distance to the others. */
  const tn__value *image = node->inputs[0], *result = node->outputs[0];
  if (tn__g_dim_const(image, 1 + i) == 1 && tn__g_dim_const(result, 1 + i) == d->window) d->step = d->window;
  if (d->step > 1 && tn__node_attr(node, "rhs_dilation")->ints[i] != 1) return false;
  if (d->window < 1 || !tn__ir_as_int(tn__node_attr(node, "low")->exprs[i], &d->low) ||
      !tn__ir_as_int(tn__node_attr(node, "high")->exprs[i], &d->high))
    return false;
  d->taps = (d->window + d->step - 1) / d->step;
  d->before = d->low;
  d->after = d->high;
  if (d->step == 1) return true;
  d->before = floor_div(d->low, d->step);
  d->after = -floor_div(d->window - 1 - d->high, d->step) + d->taps - 1;
  d->first = d->step - 1 - (d->low - d->step * d->before);
  return true;
}

static bool fits(phases *p) {
  const tn__node *node = p->node;
  if (!tn__g_is_op(node, "convolution") || tn__node_int(node, "channels_last", 0) == 0 || tn__node_reads_layout(node) ||
      tn__node_int(node, "feature_groups", 1) != 1 || tn__node_int(node, "pad_value", 0) != 0)
    return false;
  p->spatial = node->inputs[0]->rank - 2;
  if (2 * p->spatial + 2 > TN__MAX_RANK || tn__pass_element_total(node->inputs[1]) <= 0) return false;
  int64_t count = 1;
  double zeros = 1;
  for (int i = 0; i < p->spatial; i++) {
    if (!see_dimension(p, i)) return false;
    count *= p->dims[i].step;
    if (p->dims[i].taps > 1) zeros *= (double)(p->dims[i].taps * p->dims[i].step) / (double)p->dims[i].window;
  }
  p->apart = zeros > 1.25;
  return count > 1;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* Phases of one dimension that have windows of one length: [from, from + count). */
typedef struct range {
  int64_t from, count, taps;
} range;

/* The two ranges of a dimension, the phases with shorter windows, which are the later ones, first; or one, when all
 * are to be as long. */
TN_MUST_USE static int ranges_of(const phases *p, int i, range out[2]) {
  const dimension *d = &p->dims[i];
  int64_t longer = d->window % d->step;
  if (!p->apart || longer == 0 || d->taps == 1) {
    out[0] = (range){0, d->step, d->taps};
    return 1;
  }
  out[0] = (range){longer, d->step - longer, d->taps - 1};
  out[1] = (range){0, longer, d->taps};
  return 2;
}

/* [window..., in, out] to [taps..., in, phases..., out]. */
static tn__value *phase_weights(const phases *p, const range *ranges) {
  tn__graph *graph = p->graph;
  tn__value *weights = p->node->inputs[1];
  int rank = weights->rank, split = 0, next = 0;
  const tn__expr *zeros[TN__MAX_RANK], *high[TN__MAX_RANK], *dims[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t axes[TN__MAX_RANK], order[TN__MAX_RANK], strides[TN__MAX_RANK];
  for (int i = 0; i < p->spatial; i++) axes[i] = i;
  if (tn__node_int(p->node, "flip", 0) != 0) weights = tn__g_reverse(graph, weights, axes, p->spatial);
  for (int i = 0; i < rank + p->spatial; i++) { /* as many as there are when each window is taps and phases */
    zeros[i] = tn__ir_index(p->ir, 0);
    strides[i] = 1;
  }
  for (int i = 0; i < rank; i++) {
    const dimension *d = &p->dims[i];
    high[i] = tn__ir_index(p->ir, i < p->spatial ? d->taps * d->step - d->window : 0);
    if (i < p->spatial) {
      limits[split] = tn__ir_index(p->ir, ranges[i].taps);
      dims[split++] = tn__ir_index(p->ir, d->taps);
      axes[i] = split; /* phases go backwards */
    }
    limits[split] = dims[split] = i < p->spatial ? tn__ir_index(p->ir, d->step) : weights->dims[i];
    split++;
  }
  weights = tn__g_pad(graph, weights, tn__g_scalar(graph, weights->dtype, 0), zeros, high, NULL);
  weights = tn__g_reshape(graph, weights, split, dims);
  for (int i = 0; i < p->spatial; i++) {
    zeros[axes[i]] = tn__ir_index(p->ir, ranges[i].from);
    limits[axes[i]] = tn__ir_index(p->ir, ranges[i].from + ranges[i].count);
  }
  weights = tn__g_reverse(graph, tn__g_slice(graph, weights, zeros, limits, strides), axes, p->spatial);
  for (int i = 0; i < p->spatial; i++) order[next++] = 2 * i;
  order[next++] = 2 * p->spatial;
  for (int i = 0; i < p->spatial; i++) order[next++] = 2 * i + 1;
  order[next] = 2 * p->spatial + 1;
  weights = tn__pass_permuted(graph, weights, order);
  for (int i = 0; i <= p->spatial; i++) dims[i] = weights->dims[i];
  dims[p->spatial + 1] = weights->dims[split - 1];
  for (int i = 0; i < p->spatial; i++)
    dims[p->spatial + 1] = tn__ir_mul_i(p->ir, dims[p->spatial + 1], ranges[i].count);
  return tn__g_reshape(graph, weights, p->spatial + 2, dims);
}

/* The phases of these ranges, [batch, t..., phases..., out]. */
static tn__value *phases_of(const phases *p, const range *ranges) {
  const tn__node *node = p->node;
  tn__conv_spec spec = {.spatial = p->spatial, .feature_groups = 1, .channels_last = true};
  const tn__expr *dims[TN__MAX_RANK];
  int split = 0;
  for (int i = 0; i < p->spatial; i++) {
    const dimension *d = &p->dims[i];
    spec.strides[i] = spec.lhs_dilation[i] = 1;
    spec.rhs_dilation[i] = tn__node_attr(node, "rhs_dilation")->ints[i];
    spec.low[i] = tn__ir_index(p->ir, d->before);
    spec.high[i] = tn__ir_index(p->ir, d->after - (d->taps - ranges[i].taps));
  }
  tn__value *y = tn__g_convolution(p->graph, node->inputs[0], phase_weights(p, ranges), &spec, node->outputs[0]->dtype);
  for (int i = 0; i <= p->spatial; i++) dims[split++] = y->dims[i];
  for (int i = 0; i < p->spatial; i++) dims[split++] = tn__ir_index(p->ir, ranges[i].count);
  dims[split++] = node->outputs[0]->dims[p->spatial + 1];
  return tn__g_reshape(p->graph, y, split, dims);
}

/* All phases, those of dimension `i` and the later ones in all of their ranges and the others in the given ones. */
static tn__value *all_phases(const phases *p, range *ranges, int i) {
  range own[2];
  tn__value *parts[2];
  if (i == p->spatial) return phases_of(p, ranges);
  int count = ranges_of(p, i, own);
  for (int r = 0; r < count; r++) {
    ranges[i] = own[r];
    parts[r] = all_phases(p, ranges, i + 1);
  }
  return tn__g_concatenate(p->graph, parts, count, 1 + p->spatial + i);
}

/* [batch, t..., phases..., out] to the result. */
static tn__value *dealt_out(const phases *p, tn__value *y) {
  const tn__value *result = p->node->outputs[0];
  tn__graph *graph = p->graph;
  const tn__expr *dims[TN__MAX_RANK], *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t order[TN__MAX_RANK], strides[TN__MAX_RANK];
  int rank = result->rank, next = 0;
  order[next++] = 0;
  for (int i = 1; i <= p->spatial; i++) {
    order[next++] = i;
    order[next++] = p->spatial + i;
  }
  order[next] = next;
  for (int i = 0; i < rank; i++) {
    bool spatial = i >= 1 && i <= p->spatial;
    dims[i] = spatial ? tn__ir_mul_i(p->ir, y->dims[i], p->dims[i - 1].step) : result->dims[i];
    starts[i] = tn__ir_index(p->ir, spatial ? p->dims[i - 1].first : 0);
    limits[i] = tn__ir_add(p->ir, starts[i], result->dims[i]);
    strides[i] = 1;
  }
  y = tn__g_reshape(graph, tn__pass_permuted(graph, y, order), rank, dims);
  return tn__g_slice(graph, y, starts, limits, strides);
}

static tn__value *in_phases(tn__rewriter *rewriter, tn__node *node) {
  phases p = {.graph = rewriter->graph, .ir = tn__graph_ir(rewriter->graph), .node = node};
  range ranges[TN__MAX_RANK];
  return fits(&p) ? dealt_out(&p, all_phases(&p, ranges, 0)) : NULL;
}

void tn__pass_phases(tn__graph *graph, const tn__optimize_options *options) {
  tn__pass_replace(graph, options, in_phases);
}
