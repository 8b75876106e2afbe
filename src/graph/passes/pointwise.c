/* 1x1 convolutions that stay channels-first. Where the image comes that way and whoever reads the result, maybe behind
 * element-wise nodes, wants it that way, turning both would take as long as the convolution (layout.c): it is the
 * product of the weights and of the channels' rows of pixels, which are read and written where they are. The pixels are
 * counted through, [N, C, H, W] is [N, C, HW], and element-wise readers follow, so that they are the product's
 * epilogue. */
#include "base/invariant.h"
#include "graph/passes/mover.h"

/* ---- who wants what ----------------------------------------------------------------------------- */

typedef struct orders {
  bool *wanted; /* by value id: somebody would rather have it channels-last */
  bool *given;  /* it will be channels-last */
} orders;

/* The mover, and what it asks. */
typedef struct pointwise {
  tn__mover mover;
  orders orders;
} pointwise;

static bool is_channels_first(const tn__node *node) {
  return tn__g_is_op(node, "convolution") && tn__node_int(node, "channels_last", 0) == 0 && node->outputs[0]->rank >= 3;
}

/* Is each pixel of the result made of one of the image, of several channels, and is the image what would take long to
 * turn, with more pixels than there are filters? Otherwise the weights are what matters, and they are packed as the
 * right operand. In f32 and f64; narrower elements are widened as vectors of weights, once. */
static bool pays_as_product(const tn__node *node) {
  enum { LEAST_PIXELS = 32 }; /* for vectors of them */
  if (!is_channels_first(node) || tn__node_reads_layout(node)) return false;
  const tn__conv_spec spec = tn__g_conv_spec_of(node);
  const tn__value *image = node->inputs[0], *weights = node->inputs[1];
  if (image == NULL || weights == NULL) return false;
  tn_dtype dtype = image->dtype;
  int64_t pixels = 1;
  if (tn__pass_is_unit(weights->dims[1])) return false;
  int64_t filters = tn__g_dim_const(weights, 0);
  if ((dtype != TN_F32 && dtype != TN_F64) || filters < 1) return false;
  for (int i = 0; i < spec.spatial; i++) {
    int64_t extent = tn__g_dim_const(image, i + 2);
    if (!tn__pass_is_unit(weights->dims[i + 2]) || spec.strides[i] != 1 || spec.lhs_dilation[i] != 1) return false;
    if (!tn__ir_is_int_value(spec.low[i], 0) || !tn__ir_is_int_value(spec.high[i], 0)) return false;
    if (extent < 0) return false;
    pixels = tn__ir_bound_mul(pixels, extent);
  }
  return pixels >= LEAST_PIXELS && pixels >= filters / spec.feature_groups;
}

static bool is_elementwise(const tn__node *node) { return node->op->op_class == TN__CLASS_ELEMENTWISE; }

/* What an operator that follows makes is channels-last when what it reads is. */
static bool follows(const tn__node *node) {
  return is_elementwise(node) || pays_as_product(node) || node->op->moves.operands != 0;
}

static bool stays_first(const orders *o, const tn__node *node) {
  return pays_as_product(node) && !o->wanted[node->outputs[0]->id] && !o->given[node->inputs[0]->id];
}

static orders find_orders(tn__graph *graph) {
  int values;
  tn__graph_use_counts(graph, &values);
  orders o = {.wanted = TN__NEW_ARRAY(tn__graph_arena(graph), values, bool),
              .given = TN__NEW_ARRAY(tn__graph_arena(graph), values, bool)};
  for (int i = tn__graph_node_count(graph) - 1; i >= 0; i--) {
    const tn__node *node = tn__graph_node_at(graph, i);
    bool passes_on = is_elementwise(node) || pays_as_product(node), wants = false;
    if (!passes_on) wants = is_channels_first(node) || node->op->moves.operands != 0 || tn__g_is_op(node, "transpose");
    for (int j = 0; passes_on && j < node->output_count; j++)
      wants |= node->outputs[j] != NULL && o.wanted[node->outputs[j]->id];
    for (int j = 0; wants && j < node->input_count; j++)
      if (node->inputs[j] != NULL) o.wanted[node->inputs[j]->id] = true;
  }
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    bool given = tn__g_is_op(node, "transpose") || (is_channels_first(node) && !stays_first(&o, node));
    for (int j = 0; follows(node) && j < node->input_count; j++)
      given |= node->inputs[j] != NULL && o.given[node->inputs[j]->id];
    for (int j = 0; j < node->output_count; j++)
      if (node->outputs[j] != NULL) o.given[node->outputs[j]->id] = given;
  }
  return o;
}

/* ---- products ----------------------------------------------------------------------------------- */

/* Of each image and each group of channels the product of the weights and of the channels' rows of pixels. */
static tn__value *product_of(tn__mover *m, const tn__node *node) {
  tn__graph *graph = m->graph;
  tn__ir *ir = tn__graph_ir(graph);
  tn__value *image = tn__mover_restored(m, node->inputs[0]), *weights = tn__mover_restored(m, node->inputs[1]);
  const int64_t groups = tn__node_int(node, "feature_groups", 1), batch[2] = {0, 1};
  const tn__expr *rows[4], *pixels[4], *all = tn__ir_index(ir, 1), *channels = node->outputs[0]->dims[1];
  int n = 0;
  for (int i = 2; i < image->rank; i++) all = tn__ir_mul(ir, all, image->dims[i]);
  if (!tn__pass_is_unit(image->dims[0])) rows[n] = pixels[n] = image->dims[0], n++;
  int own = n; /* the weights are the same for each image */
  if (groups > 1) {
    rows[n] = pixels[n] = tn__ir_index(ir, groups), n++;
    channels = tn__ir_div_i(ir, channels, groups);
  }
  rows[n] = channels;
  rows[n + 1] = pixels[n] = weights->dims[1];
  pixels[n + 1] = all;
  const int64_t rows_contract = n + 1, pixels_contract = n, axes[3] = {1, 2, 3};
  tn__value *left = tn__g_reshape(graph, weights, n + 2 - own, rows + own);
  if (own > 0) left = tn__g_broadcast_in_dim(graph, left, n + 2, rows, axes);
  tn__value *right = tn__g_reshape(graph, image, n + 2, pixels);
  return tn__g_dot_general(graph, left, right, batch, batch, n, &rows_contract, &pixels_contract, 1,
                           node->outputs[0]->dtype);
}

static tn__value *with_dims(tn__mover *m, tn__value *flat, const tn__value *like) {
  return tn__g_reshape(m->graph, flat, like->rank, like->dims);
}

/* Nothing else is brought into that form. */
static tn__value *as_it_is(tn__mover *m, tn__value *value) {
  (void)m;
  return value;
}

/* Is it repeated, if at all, along whole images, so that counting pixels through keeps it a broadcast? */
static bool can_flatten(const tn__value *value) {
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  if (broadcast == NULL) return true;
  const tn__value *source = broadcast->inputs[0];
  const int64_t *axes = tn__node_attr(broadcast, "axes")->ints;
  for (int i = 0; i < source->rank; i++)
    if (axes[i] >= 2 && !tn__pass_is_unit(source->dims[i])) return false;
  return true;
}

static tn__value *follow_elementwise(tn__mover *m, const tn__node *node) {
  tn__value *inputs[4], *form = NULL;
  if (node->input_count > 4 || node->output_count != 1) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    TN__INVARIANT(node->inputs[i] != NULL); /* element-wise operators need all of them */
    if (tn__mover_has_followed(m, node->inputs[i]))
      form = tn__mover_moved(m, node->inputs[i]);
    else if (!tn__pass_same_shape(node->inputs[i], node->outputs[0]) || !can_flatten(node->inputs[i]))
      return NULL;
  }
  TN__INVARIANT(form != NULL); /* it reads what was moved */
  for (int i = 0; i < node->input_count; i++)
    inputs[i] =
        tn__mover_has_followed(m, node->inputs[i]) && tn__pass_same_shape(tn__mover_moved(m, node->inputs[i]), form)
            ? tn__mover_moved(m, node->inputs[i])
            : with_dims(m, tn__mover_restored(m, node->inputs[i]), form);
  return tn__pass_node_again(m->graph, node, inputs, NULL, 0);
}

static tn__value *follow(tn__mover *m, const tn__node *node, bool reads_moved, bool *direct) {
  const pointwise *p = (const pointwise *)m;
  (void)direct;
  if (stays_first(&p->orders, node)) return product_of(m, node);
  return reads_moved && is_elementwise(node) ? follow_elementwise(m, node) : NULL;
}

void tn__pass_pointwise(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  pointwise p = {.mover = {.move = as_it_is, .restore = with_dims, .follow = follow}, .orders = find_orders(graph)};
  tn__mover_run(&p.mover, graph);
}
