/* Rules about products and convolutions: what stands before and after them moves into them.
 *
 * Scaling the columns of a product by constants is scaling its right operand, which is done once, when the model is
 * compiled. This reassociates floating-point arithmetic (docs/numerics.md allows it), so only f32 and f64 are
 * rewritten. Each column is treated alike: columns with equal weights keep equal sums. */
#include <float.h>
#include <math.h>

#include "graph/build/outline.h"
#include "graph/passes/rewrite.h"

/* Weights that are dequantised stay as they are until the pass `raise` has seen them: then what would have gone into
 * them goes into their scale. */
static bool is_whole(const tn__value *value) {
  return value->producer != NULL && tn__op_has(value->producer, TN__FACT_WHOLE);
}

/* ---- transposes in front of a product ----------------------------------------------------------- */

static bool holds(const tn__attr *attr, int64_t axis) {
  for (int i = 0; attr != NULL && i < attr->count; i++)
    if (attr->ints[i] == axis) return true;
  return false;
}

static tn__attr permuted_attr(tn__graph *graph, const tn__attr *attr, const char *name, const int64_t *permutation) {
  int64_t axes[TN__MAX_RANK];
  int count = attr == NULL ? 0 : attr->count;
  for (int i = 0; i < count; i++) axes[i] = permutation[attr->ints[i]];
  return tn__attr_ints(graph, name, axes, count);
}

/* What a product's operand is made of by a transpose, maybe repeated along new dimensions behind it: `places` gets
 * where each dimension of the operand is in the value that is given, which has no transpose. NULL: there is none. */
static tn__value *without_transpose(tn__graph *graph, tn__value *operand, int64_t *places) {
  const tn__node *spread = tn__pass_producer_of(operand, "broadcast_in_dim");
  const tn__node *transpose = tn__pass_producer_of(spread == NULL ? operand : spread->inputs[0], "transpose");
  if (transpose == NULL) return NULL;
  tn__value *source = transpose->inputs[0];
  const int64_t *permutation = tn__node_attr(transpose, "permutation")->ints;
  if (spread == NULL) {
    for (int i = 0; i < source->rank; i++) places[i] = permutation[i];
    return source;
  }
  const int64_t *axes = tn__node_attr(spread, "axes")->ints;
  const tn__expr *dims[TN__MAX_RANK];
  int64_t moved[TN__MAX_RANK];
  int rank = 0;
  for (int i = 0; i < axes[0]; i++, rank++) dims[rank] = operand->dims[i], places[i] = rank;
  for (int d = 0; d < source->rank; d++) { /* each with the new dimensions that stand behind it */
    int i = 0;
    while (permutation[i] != d) i++;
    int64_t next = i + 1 < source->rank ? axes[i + 1] : operand->rank;
    moved[d] = rank;
    for (int64_t at = axes[i]; at < next; at++, rank++) dims[rank] = operand->dims[at], places[at] = rank;
  }
  return tn__g_broadcast_in_dim(graph, source, rank, dims, moved);
}

/* A product names its dimensions, so it can read an operand as it was before a transpose, as long as the free
 * dimensions keep their order. */
static tn__value *product_of_transpose(tn__rewriter *rewriter, tn__node *node) {
  static const char *const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
  if (tn__node_reads_layout(node)) return NULL;
  for (int side = 0; side < 2; side++) {
    int64_t places[TN__MAX_RANK] = {0};
    tn__value *operand = without_transpose(rewriter->graph, node->inputs[side], places);
    if (operand == NULL) continue;
    const tn__attr *batch = tn__node_attr(node, names[side][0]), *contract = tn__node_attr(node, names[side][1]);
    int64_t last = -1;
    bool ordered = true;
    for (int i = 0; i < operand->rank; i++) {
      if (holds(batch, i) || holds(contract, i)) continue;
      ordered = ordered && places[i] > last;
      last = places[i];
    }
    if (!ordered) continue;
    tn__value *inputs[2] = {node->inputs[0], node->inputs[1]};
    inputs[side] = operand;
    const tn__attr changed[2] = {permuted_attr(rewriter->graph, batch, names[side][0], places),
                                 permuted_attr(rewriter->graph, contract, names[side][1], places)};
    return tn__pass_node_again(rewriter->graph, node, inputs, changed, 2);
  }
  return NULL;
}

/* The only node of a body that reads the value, through what repeats it; NULL: there are several, or none. */
static const tn__node *reader_in(const tn__graph *body, const tn__value **value) {
  const tn__node *reader = NULL;
  for (int i = 0; i < tn__graph_node_count(body); i++) {
    const tn__node *node = tn__graph_node_at(body, i);
    for (int j = 0; !node->dead && j < node->input_count; j++) {
      if (node->inputs[j] != *value) continue;
      if (reader != NULL) return NULL;
      reader = node;
    }
  }
  if (reader == NULL || !tn__op_has(reader, TN__FACT_REPEATS)) return reader;
  *value = reader->outputs[0];
  return reader_in(body, value);
}

/* A transpose in front of a composite whose body reads it in a product goes in, where the product then takes it. Values
 * must stay contiguous along the columns of the result, so their last dimension may not change. */
static tn__value *composite_of_transpose(tn__rewriter *rewriter, tn__node *node) {
  const tn__graph *body = tn__composite_body(node);
  for (int i = 0; body != NULL && i < node->input_count; i++) {
    tn__node *transpose = tn__pass_producer_of(node->inputs[i], "transpose");
    const tn__value *read = tn__graph_input_at(body, i);
    const tn__node *product = transpose == NULL ? NULL : reader_in(body, &read);
    if (product == NULL || product->op->op_class != TN__CLASS_CONTRACTION) continue;
    int last = transpose->outputs[0]->rank - 1;
    bool makes_result = product->outputs[0] == tn__graph_output_at(body, 0);
    if (makes_result && tn__node_attr(transpose, "permutation")->ints[last] != last) continue;
    tn__node *whole = tn__g_take_in(rewriter->graph, node, transpose);
    if (whole != NULL) return whole->outputs[0];
  }
  return NULL;
}

/* ---- padding in front of a convolution ---------------------------------------------------------- */

static bool is_padding(tn__ir *ir, const tn__expr *amount, bool spatial) {
  return tn__ir_is_int_value(amount, 0) || (spatial && tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, 0), amount)));
}

/* What a convolution pads with, zeros mostly, around the spatial dimensions is the convolution's own padding. */
static tn__value *convolution_of_pad(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  tn__ir *ir = tn__graph_ir(graph);
  const tn__node *pad = tn__pass_producer_of(node->inputs[0], "pad");
  double fill;
  if (pad == NULL || !tn__pass_splat_number(pad->inputs[1], &fill) ||
      fill != (double)tn__node_int(node, "pad_value", 0))
    return NULL;
  int rank = node->inputs[0]->rank, first = tn__node_int(node, "channels_last", 0) != 0 ? 1 : 2;
  const tn__expr *const *low = tn__node_attr(pad, "low")->exprs, *const *high = tn__node_attr(pad, "high")->exprs;
  for (int i = 0; i < rank; i++) {
    bool spatial = i >= first && i < first + rank - 2;
    if (tn__node_attr(pad, "interior")->ints[i] != 0) return NULL;
    if (!is_padding(ir, low[i], spatial) || !is_padding(ir, high[i], spatial)) return NULL;
  }
  const tn__expr *new_low[TN__MAX_RANK], *new_high[TN__MAX_RANK];
  for (int i = 0; i < rank - 2; i++) {
    const tn__expr *own_low = tn__node_attr(node, "low")->exprs[i], *own_high = tn__node_attr(node, "high")->exprs[i];
    if (tn__node_attr(node, "lhs_dilation")->ints[i] != 1) return NULL;
    new_low[i] = tn__ir_add(ir, own_low, low[first + i]);
    new_high[i] = tn__ir_add(ir, own_high, high[first + i]);
  }
  tn__value *inputs[2] = {pad->inputs[0], node->inputs[1]};
  const tn__attr changed[2] = {tn__attr_exprs(graph, "low", new_low, rank - 2),
                               tn__attr_exprs(graph, "high", new_high, rank - 2)};
  return tn__pass_node_again(graph, node, inputs, changed, 2);
}

/* ---- taps that meet nothing but padding --------------------------------------------------------- */

typedef struct window_axis {
  int64_t image, taps, result, stride, dilation, low, high;
  int64_t first, limit; /* those before and behind meet nothing but padding */
} window_axis;

/* a / b rounded up, not below 0; b is above 0. */
static int64_t steps_to(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

/* Tap t is multiplied with the places t * dilation - low + [0, 1 ... result - 1] * stride of the image. Padding may be
 * as long as numbers go, so that nobody counts it. */
static void find_taps(window_axis *axis) {
  int64_t last = tn__ir_bound_add(tn__ir_bound_mul(axis->result - 1, axis->stride), -axis->low);
  int64_t behind = steps_to(tn__ir_bound_add(axis->image, axis->low), axis->dilation);
  axis->first = steps_to(tn__ir_bound_mul(last, -1), axis->dilation);
  axis->limit = behind < axis->taps ? behind : axis->taps;
}

/* Spatial dimension `i` of a convolution with plain windows; false when a size is not known, or no tap meets the
 * image. */
TN_MUST_USE static bool find_window(const tn__node *node, int i, window_axis *out) {
  bool last = tn__node_int(node, "channels_last", 0) != 0;
  const tn__expr *low = tn__node_attr(node, "low")->exprs[i], *high = tn__node_attr(node, "high")->exprs[i];
  int image = i + (last ? 1 : 2);
  *out = (window_axis){.image = tn__g_dim_const(node->inputs[0], image),
                       .taps = tn__g_dim_const(node->inputs[1], last ? i : i + 2),
                       .result = tn__g_dim_const(node->outputs[0], image),
                       .stride = tn__node_attr(node, "strides")->ints[i],
                       .dilation = tn__node_attr(node, "rhs_dilation")->ints[i]};
  if (out->image < 1 || out->taps < 1 || out->result < 1 || !tn__ir_is_int(low) || !tn__ir_is_int(high)) return false;
  if (tn__node_attr(node, "lhs_dilation")->ints[i] != 1 || low->value.i == INT64_MIN) return false;
  out->low = low->value.i, out->high = high->value.i;
  find_taps(out);
  return out->first < out->limit;
}

/* Of a window that is dilated beyond the image's edge on both sides only the middle is left: DeepLab's 3x3 windows are
 * 1x1 ones where features are small (Chen et al., "Rethinking Atrous Convolution", 2017). The taps left out are
 * multiplied with zeros alone. */
static tn__value *convolution_of_fewer_taps(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  tn__ir *ir = tn__graph_ir(graph);
  tn__value *weights = node->inputs[1];
  int spatial = weights->rank - 2, position = tn__node_int(node, "channels_last", 0) != 0 ? 0 : 2;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t steps[TN__MAX_RANK];
  bool fewer = false;
  if (tn__node_int(node, "pad_value", 0) != 0) return NULL; /* then padding meets no weight for nothing */
  if (tn__node_reads_layout(node) || is_whole(weights) || tn__node_int(node, "flip", 0) != 0) return NULL;
  if (!tn__pass_is_precomputable(weights)) return NULL;
  for (int i = 0; i < weights->rank; i++) starts[i] = tn__ir_index(ir, 0), limits[i] = weights->dims[i], steps[i] = 1;
  for (int i = 0; i < spatial; i++) {
    window_axis axis;
    low[i] = tn__node_attr(node, "low")->exprs[i], high[i] = tn__node_attr(node, "high")->exprs[i];
    if (!find_window(node, i, &axis) || axis.limit - axis.first == axis.taps) continue;
    low[i] = tn__ir_index(ir, axis.low - axis.first * axis.dilation);
    high[i] = tn__ir_index(ir, axis.high - (axis.taps - axis.limit) * axis.dilation);
    starts[position + i] = tn__ir_index(ir, axis.first);
    limits[position + i] = tn__ir_index(ir, axis.limit);
    fewer = true;
  }
  if (!fewer) return NULL;
  tn__value *inputs[2] = {node->inputs[0], tn__g_slice(graph, weights, starts, limits, steps)};
  const tn__attr changed[2] = {tn__attr_exprs(graph, "low", low, spatial),
                               tn__attr_exprs(graph, "high", high, spatial)};
  return tn__pass_node_again(graph, node, inputs, changed, 2);
}

/* ---- rows that meet only some of the taps ------------------------------------------------------- */

/* Results at places [from, to) of an axis meet taps [first, limit) and no padding, or next to none. */
typedef struct strip {
  int64_t from, to, first, limit;
} strip;

enum { MOST_STRIPS = 5 };

/* Cuts the axis where the taps change that results meet; returns how many strips there are, 0 when there are more than
 * MOST_STRIPS, or single rows of less than `least` each. */
TN_MUST_USE static int find_strips(const window_axis *axis, int64_t least, strip *out) {
  int count = 0;
  for (int64_t at = 0; at < axis->result;) {
    int64_t place = at * axis->stride - axis->low, next = axis->result;
    strip s = {.from = at, .first = steps_to(-place, axis->dilation)};
    s.limit = steps_to(axis->image - place, axis->dilation);
    if (s.limit > axis->taps) s.limit = axis->taps;
    for (int64_t tap = s.first - 1; tap <= s.limit; tap++) { /* where would a tap come in, or one go? */
      if (tap < 0 || tap >= axis->taps) continue;
      int64_t before = -(place + tap * axis->dilation), behind = axis->image + before;
      int64_t change = steps_to(before > 0 ? before : behind, axis->stride);
      if (change > 0 && at + change < next) next = at + change;
    }
    s.to = next;
    if (count == MOST_STRIPS || s.first >= s.limit || s.to - s.from < least) return 0;
    out[count++] = s;
    at = next;
  }
  return count;
}

/* The convolution of one strip. What it does not read of the image is negative padding. */
static tn__value *strip_of(tn__graph *graph, const tn__node *node, const window_axis *axis, const strip *s) {
  tn__ir *ir = tn__graph_ir(graph);
  const tn__value *weights = node->inputs[1];
  int spatial = weights->rank - 2, position = tn__node_int(node, "channels_last", 0) != 0 ? 0 : 2;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t steps[TN__MAX_RANK];
  for (int i = 0; i < weights->rank; i++) starts[i] = tn__ir_index(ir, 0), limits[i] = weights->dims[i], steps[i] = 1;
  for (int i = 0; i < spatial; i++) {
    low[i] = tn__node_attr(node, "low")->exprs[i];
    high[i] = tn__node_attr(node, "high")->exprs[i];
  }
  int64_t before = axis->low - s->first * axis->dilation - s->from * axis->stride;
  int64_t read = (s->to - s->from - 1) * axis->stride + (s->limit - s->first - 1) * axis->dilation + 1;
  low[0] = tn__ir_index(ir, before);
  high[0] = tn__ir_index(ir, read - axis->image - before);
  starts[position] = tn__ir_index(ir, s->first);
  limits[position] = tn__ir_index(ir, s->limit);
  tn__value *inputs[2] = {node->inputs[0], tn__g_slice(graph, node->inputs[1], starts, limits, steps)};
  const tn__attr changed[2] = {tn__attr_exprs(graph, "low", low, spatial),
                               tn__attr_exprs(graph, "high", high, spatial)};
  return tn__pass_node_again(graph, node, inputs, changed, 2);
}

/* Rows near the edges of an image meet only some of the rows of a dilated window; the others meet padding alone. Where
 * many products are with that, the rows that meet the same taps are a convolution of their own. */
static tn__value *convolution_by_strips(tn__rewriter *rewriter, tn__node *node) {
  enum { LEAST_PIXELS = 64, LEAST_LEFT_OUT = 128 }; /* of a strip, so that weights are used again; terms of a sum */
  const tn__value *weights = node->inputs[1], *result = node->outputs[0];
  bool last = tn__node_int(node, "channels_last", 0) != 0;
  window_axis axis;
  strip strips[MOST_STRIPS];
  if (tn__node_int(node, "pad_value", 0) != 0 || tn__node_reads_layout(node) || is_whole(weights)) return NULL;
  if (tn__node_int(node, "flip", 0) != 0 || weights->rank < 3 || !tn__pass_is_precomputable(weights)) return NULL;
  if (!find_window(node, 0, &axis) || axis.dilation == 1 || axis.taps == 1) return NULL;
  int64_t pixels = 1, terms = tn__g_dim_const(weights, last ? weights->rank - 2 : 1), left_out = 0;
  for (int i = 1; i < weights->rank - 2; i++) {
    pixels = tn__ir_bound_mul(pixels, tn__g_dim_const(result, i + (last ? 1 : 2)));
    terms = tn__ir_bound_mul(terms, tn__g_dim_const(weights, i + (last ? 0 : 2)));
  }
  if (pixels < 1 || terms < 1) return NULL;
  int count = find_strips(&axis, (LEAST_PIXELS + pixels - 1) / pixels, strips);
  for (int i = 0; i < count; i++)
    left_out += (strips[i].to - strips[i].from) * (axis.taps - (strips[i].limit - strips[i].first));
  if (count < 2 || tn__ir_bound_mul(left_out, terms) < LEAST_LEFT_OUT * axis.result) return NULL;
  tn__value *parts[MOST_STRIPS];
  for (int i = 0; i < count; i++) parts[i] = strip_of(rewriter->graph, node, &axis, &strips[i]);
  return tn__g_concatenate(rewriter->graph, parts, count, last ? 1 : 2);
}

/* ---- constants behind a product ----------------------------------------------------------------- */

/* A product or convolution, and where its columns are: dimension `channel` of the result, `column` of the right
 * operand. Or one of integers, turned into floats and multiplied by constants: then these are what further constants
 * go into. */
typedef struct contraction {
  const tn__node *node;
  int channel, column;
  const tn__node *scale; /* the multiplication, NULL: there is none, */
  tn__value *sum, *own;  /* of the sums, in floats, with its constants */
} contraction;

TN_MUST_USE static bool find_product(const tn__value *value, contraction *out) {
  const tn__node *node = value->producer;
  tn__contraction c;
  *out = (contraction){.node = node};
  if (node == NULL || node->op->contraction == NULL || is_whole(node->inputs[1]) || node->inputs[1]->held != NULL)
    return false;
  if (tn__node_int(node, "whole", 0) != 0) return false; /* what goes into its operands makes fractions of them */
  node->op->contraction(node, &c);
  out->channel = c.column;
  out->column = c.rhs_column;
  return c.column >= 0;
}

static tn__value *channel_vector(tn__graph *graph, tn__value *value, int axis);

/* convert(product of integers, and zero points' terms) * constants. */
TN_MUST_USE static bool find_scaled(tn__graph *graph, const tn__value *value, contraction *out) {
  const tn__node *scale = tn__pass_producer_of(value, "multiply");
  for (int i = 0; scale != NULL && i < 2; i++) {
    const tn__node *convert = tn__pass_producer_of(scale->inputs[i], "convert");
    if (convert == NULL || !tn__pass_same_type(scale->inputs[i], value)) continue;
    const tn__value *sum = convert->inputs[0];
    while (sum->dtype == TN_I32 &&
           (tn__pass_producer_of(sum, "add") != NULL || tn__pass_producer_of(sum, "subtract") != NULL))
      sum = sum->producer->inputs[0];
    if (sum->dtype != TN_I32 || !tn__pass_same_shape(sum, value) || !find_product(sum, out)) continue;
    if (channel_vector(graph, scale->inputs[1 - i], out->channel) == NULL) continue;
    out->scale = scale;
    out->sum = scale->inputs[i];
    out->own = scale->inputs[1 - i];
    return true;
  }
  return false;
}

TN_MUST_USE static bool find_contraction(tn__graph *graph, const tn__value *value, contraction *out) {
  return find_product(value, out) || find_scaled(graph, value, out);
}

static bool is_wide(const tn__value *value) { return value->dtype == TN_F32 || value->dtype == TN_F64; }

/* May the right operand, or what multiplies the sums, be computed anew with other columns? */
static bool can_scale(tn__rewriter *rewriter, const contraction *c) {
  const tn__value *result = c->scale != NULL ? c->scale->outputs[0] : c->node->outputs[0];
  if (!is_wide(result) || tn__pass_uses_of(rewriter, result) != 1) return false;
  const tn__value *rhs = c->node->inputs[1];
  return c->scale != NULL || (rhs->dtype == result->dtype && tn__pass_is_precomputable(rhs));
}

/* The sizes of numbers other than 0; least > most: there are none. */
typedef struct magnitudes {
  double least, most;
  bool zero; /* there are zeros, too */
} magnitudes;

enum { MOST_FACTORS = 8, MOST_COLUMNS = 1 << 16 };

TN_MUST_USE static bool find_magnitudes(const tn__value *value, int depth, magnitudes *out);

static bool find_both(const tn__node *node, int depth, magnitudes *a, magnitudes *b) {
  return find_magnitudes(node->inputs[0], depth + 1, a) && find_magnitudes(node->inputs[1], depth + 1, b);
}

TN_MUST_USE static bool find_of_product(const tn__node *node, int depth, magnitudes *out) {
  magnitudes a, b;
  if (!tn__g_is_op(node, "multiply") || !find_both(node, depth, &a, &b)) return false;
  *out = (magnitudes){a.least * b.least, a.most * b.most, a.zero || b.zero};
  return true;
}

TN_MUST_USE static bool find_of_quotient(const tn__node *node, int depth, magnitudes *out) {
  magnitudes a, b;
  if (!tn__g_is_op(node, "divide") || !find_both(node, depth, &a, &b) || b.zero) return false;
  *out = (magnitudes){a.least / b.most, a.most / b.least, a.zero};
  return true;
}

/* Those of a constant's elements, or of what products and quotients of constants are at the least and at the most.
 * False when that is not known, or not every number is finite. */
static bool find_magnitudes(const tn__value *value, int depth, magnitudes *out) {
  *out = (magnitudes){.least = INFINITY};
  int64_t count = value->splat ? 1 : tn__pass_element_total(value);
  if (!is_wide(value) || depth > MOST_FACTORS || count < 0 || count > MOST_COLUMNS) return false;
  for (int64_t i = 0; value->data != NULL && i < count; i++) {
    double size = fabs(tn__load_f64(value->dtype, value->data, i));
    if (!isfinite(size)) return false;
    out->zero = out->zero || size == 0;
    out->least = size != 0 ? fmin(out->least, size) : out->least;
    out->most = fmax(out->most, size);
  }
  if (value->data != NULL) return true;
  const tn__node *node = value->producer;
  if (node == NULL) return false;
  if (tn__op_has(node, TN__FACT_REPEATS) || tn__node_is_view(node))
    return find_magnitudes(node->inputs[0], depth + 1, out);
  return find_of_product(node, depth, out) || find_of_quotient(node, depth, out);
}

/* Constants that have become one keep what each of them would have left of a sum, unless together they are more than
 * the type holds, or so little that it holds them with fewer digits. */
static bool is_usable_scale(const tn__value *scale) {
  magnitudes m;
  if (!find_magnitudes(scale, 0, &m)) return false;
  double least = scale->dtype == TN_F32 ? (double)FLT_MIN : DBL_MIN;
  double most = scale->dtype == TN_F32 ? (double)FLT_MAX : DBL_MAX;
  return m.least > m.most || (m.least >= least && m.most <= most);
}

/* A value that depends on constants and on dimension `axis` only, as a vector (or as a scalar); NULL when it is
 * none. */
static tn__value *channel_vector(tn__graph *graph, tn__value *value, int axis) {
  tn__value *vector = tn__pass_along(graph, value, axis);
  return vector != NULL && tn__pass_is_precomputable(vector) ? vector : NULL;
}

static tn__value *spread(tn__graph *graph, tn__value *vector, const tn__value *like, int axis) {
  const int64_t axes[1] = {axis};
  return tn__g_broadcast_in_dim(graph, vector, like->rank, like->dims, axes);
}

/* The contraction with its columns multiplied or divided; NULL: its constants do not take more. */
static tn__value *scaled(tn__graph *graph, const contraction *c, const char *op, tn__value *vector) {
  if (c->scale != NULL) {
    tn__value *scale = tn__g_binary(graph, op, channel_vector(graph, c->own, c->channel), vector);
    if (!is_usable_scale(scale)) return NULL;
    return tn__g_binary(graph, "multiply", c->sum, spread(graph, scale, c->sum, c->channel));
  }
  tn__value *rhs = c->node->inputs[1];
  tn__value *inputs[2] = {c->node->inputs[0], tn__g_binary(graph, op, rhs, spread(graph, vector, rhs, c->column))};
  return tn__pass_node_again(graph, c->node, inputs, NULL, 0);
}

/* Is `value` contraction + bias, with nobody else who reads it? */
static tn__value *find_bias(tn__rewriter *rewriter, const tn__value *value, contraction *c) {
  const tn__node *add = tn__pass_producer_of(value, "add");
  if (add == NULL || tn__pass_uses_of(rewriter, value) != 1) return NULL;
  for (int i = 0; i < 2; i++) {
    if (!find_contraction(rewriter->graph, add->inputs[i], c) || !tn__pass_same_shape(value, add->inputs[i])) continue;
    tn__value *bias = channel_vector(rewriter->graph, add->inputs[1 - i], c->channel);
    if (bias != NULL) return bias;
  }
  return NULL;
}

/* contraction * v, (contraction + b) * v and the same with / v. */
static tn__value *scale_behind(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  const char *op = node->op->name;
  bool commutes = tn__op_has(node, TN__FACT_COMMUTES);
  for (int i = 0; i < (commutes ? 2 : 1); i++) {
    tn__value *y = node->inputs[i], *factor = node->inputs[1 - i], *result = node->outputs[0];
    contraction c;
    if (!tn__pass_same_type(y, result)) continue;
    if (find_contraction(graph, y, &c)) {
      tn__value *vector = can_scale(rewriter, &c) ? channel_vector(graph, factor, c.channel) : NULL;
      tn__value *product = vector == NULL ? NULL : scaled(graph, &c, op, vector);
      if (product != NULL) return product;
      continue;
    }
    tn__value *bias = find_bias(rewriter, y, &c);
    if (bias == NULL || !can_scale(rewriter, &c)) continue;
    tn__value *vector = channel_vector(graph, factor, c.channel);
    if (vector == NULL) continue;
    tn__value *offset = spread(graph, tn__g_binary(graph, op, bias, vector), result, c.channel);
    tn__value *product = scaled(graph, &c, op, vector);
    if (product != NULL) return tn__g_binary(graph, "add", product, offset);
  }
  return NULL;
}

/* The contraction itself, or one with a bias, whoever else reads them. */
static bool is_behind_contraction(tn__graph *graph, const tn__value *value) {
  contraction c;
  if (find_contraction(graph, value, &c)) return true;
  const tn__node *add = tn__pass_producer_of(value, "add");
  for (int i = 0; add != NULL && i < 2; i++)
    if (find_contraction(graph, add->inputs[i], &c) && tn__pass_same_shape(value, add->inputs[i]) &&
        channel_vector(graph, add->inputs[1 - i], c.channel) != NULL)
      return true;
  return false;
}

/* contraction / c and (contraction + b) / c with one number c that cannot go into the weights, because there are none
 * (attention's scores) or because others read the undivided value (GELU): times 1 / c. A vector's division takes as
 * long as ten multiplications. */
static tn__value *divide_behind(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  tn__value *y = node->inputs[0], *result = node->outputs[0];
  double number;
  if (!is_wide(y) || !tn__pass_same_type(y, result)) return NULL;
  if (!tn__pass_splat_number(node->inputs[1], &number) || !is_behind_contraction(graph, y)) return NULL;
  double inverse = 1 / number, least = y->dtype == TN_F32 ? (double)FLT_MIN : DBL_MIN;
  double most = y->dtype == TN_F32 ? (double)FLT_MAX : DBL_MAX;
  if (!(fabs(inverse) >= least && fabs(inverse) <= most)) return NULL; /* zeros, infinities, NaN and their neighbours */
  return tn__g_binary_s(graph, "multiply", y, inverse);
}

/* max(x, 0) / c is max(x / c, 0), to the last bit, for a number c above zero: then c goes into the product. */
static tn__value *divide_positive_part(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  const tn__node *part = tn__pass_producer_of(node->inputs[0], "maximum");
  double number, zero;
  if (part == NULL || tn__pass_uses_of(rewriter, node->inputs[0]) != 1) return NULL;
  if (!tn__pass_splat_number(node->inputs[1], &number) || !(number > 0 && isfinite(number))) return NULL;
  for (int i = 0; i < 2; i++) {
    tn__value *x = part->inputs[i];
    contraction c;
    if (!tn__pass_splat_number(part->inputs[1 - i], &zero) || zero != 0 || !tn__pass_same_type(x, node->outputs[0]))
      continue;
    if (tn__pass_uses_of(rewriter, x) != 1) continue;
    if ((!find_contraction(graph, x, &c) && find_bias(rewriter, x, &c) == NULL) || !can_scale(rewriter, &c)) continue;
    return tn__g_binary(graph, "maximum", tn__g_binary(graph, "divide", x, node->inputs[1]), part->inputs[1 - i]);
  }
  return NULL;
}

/* (contraction + b) + v is contraction + (b + v). */
static tn__value *bias_behind(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  for (int i = 0; i < 2; i++) {
    tn__value *y = node->inputs[i], *result = node->outputs[0];
    contraction c;
    if (tn__pass_producer_of(y, "add") == NULL || !tn__pass_same_type(y, result)) continue;
    if (!is_wide(y)) continue;
    tn__value *bias = find_bias(rewriter, y, &c);
    tn__value *vector = bias == NULL ? NULL : channel_vector(graph, node->inputs[1 - i], c.channel);
    if (vector == NULL) continue;
    tn__value *both = spread(graph, tn__g_binary(graph, "add", bias, vector), result, c.channel);
    return tn__g_binary(graph, "add", (c.scale != NULL ? c.scale : c.node)->outputs[0], both);
  }
  return NULL;
}

/* contraction - v is contraction + -v, exactly. */
static tn__value *subtract_behind(tn__rewriter *rewriter, tn__node *node) {
  tn__value *y = node->inputs[0], *result = node->outputs[0];
  contraction c;
  if (!tn__pass_same_type(y, result)) return NULL;
  if (!find_contraction(rewriter->graph, y, &c) && find_bias(rewriter, y, &c) == NULL) return NULL;
  tn__value *vector = channel_vector(rewriter->graph, node->inputs[1], c.channel);
  if (vector == NULL) return NULL;
  tn__value *negative = tn__g_unary(rewriter->graph, "negate", vector);
  return tn__g_binary(rewriter->graph, "add", y, spread(rewriter->graph, negative, result, c.channel));
}

static const tn__rewrite_rule rules[] = {
    {"product of transpose", "dot_general", product_of_transpose},
    {"composite of transpose", "attention", composite_of_transpose},
    {"convolution of pad", "convolution", convolution_of_pad},
    {"convolution of fewer taps", "convolution", convolution_of_fewer_taps},
    {"convolution by strips", "convolution", convolution_by_strips},
    {"product times constant columns", "multiply", scale_behind},
    {"product divided by constant columns", "divide", scale_behind},
    {"product divided by a number", "divide", divide_behind},
    {"positive part of a product divided by a number", "divide", divide_positive_part},
    {"product plus two biases", "add", bias_behind},
    {"product minus constant columns", "subtract", subtract_behind},
};

const tn__rule_set tn__rules_product = {rules, sizeof rules / sizeof *rules};
