/* Sums of products of bytes, four at a time: operands u8 and i8 of a product or convolution that gives i32 become
 * tensors of i32 whose elements hold four neighbours along the reduction each ("quads"), and the node sums `dot4` of
 * them (docs/passes.md). On the left four channels lie side by side already, so that this is another view of the same
 * memory; on the right they are brought together, which is done once where weights are constants. */
#include "base/invariant.h"
#include "graph/passes/rewrite.h"

enum { QUAD = 4 };

/* `value` with zeros behind the end of dimension `axis`, up to a multiple of four. */
static tn__value *with_whole_quads(tn__graph *graph, tn__value *value, int axis) {
  tn__ir *ir = tn__graph_ir(graph);
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  int64_t rest = tn__g_dim_const(value, axis) % QUAD;
  if (rest == 0) return value;
  for (int i = 0; i < value->rank; i++) low[i] = high[i] = tn__ir_index(ir, 0);
  high[axis] = tn__ir_index(ir, QUAD - rest);
  return tn__g_pad(graph, value, tn__g_scalar(graph, value->dtype, 0), low, high, NULL);
}

/* Dimension `axis` in quads. */
static tn__value *in_quads(tn__graph *graph, tn__value *value, int axis) {
  tn__ir *ir = tn__graph_ir(graph);
  const tn__expr *dims[TN__MAX_RANK + 1];
  int64_t order[TN__MAX_RANK + 1];
  value = with_whole_quads(graph, value, axis);
  int rank = value->rank;
  for (int i = 0; i <= rank; i++) {
    dims[i] = i == axis       ? tn__ir_index(ir, tn__g_dim_const(value, axis) / QUAD)
              : i == axis + 1 ? tn__ir_index(ir, QUAD)
                              : value->dims[i > axis ? i - 1 : i];
    order[i] = i == rank ? axis + 1 : i > axis ? i + 1 : i;
  }
  return tn__g_quads(graph, tn__pass_permuted(graph, tn__g_reshape(graph, value, rank + 1, dims), order));
}

/* A right operand that only the run knows is brought in order each time: that takes longer than a row or two. */
static bool has_few_rows(const tn__node *node) {
  const tn__value *lhs = node->inputs[0], *rhs = node->inputs[1];
  const tn__attr *batch = tn__node_attr(node, "lhs_batch"), *contract = tn__node_attr(node, "rhs_contract");
  int64_t rows = 1;
  if (tn__pass_is_precomputable(rhs) || contract->ints[0] == rhs->rank - 1) return false;
  for (int i = 0; i < lhs->rank; i++) {
    bool taken = tn__node_attr(node, "lhs_contract")->ints[0] == i;
    for (int j = 0; batch != NULL && j < batch->count; j++) taken = taken || batch->ints[j] == i;
    if (!taken && tn__g_dim_const(lhs, i) < 0) return false;
    if (!taken) rows *= tn__g_dim_const(lhs, i);
  }
  return rows <= 2;
}

static tn__value *product_of_quads(tn__graph *graph, const tn__node *node) {
  tn__value *inputs[2];
  for (int side = 0; side < 2; side++) {
    const tn__attr *contract = tn__node_attr(node, side == 0 ? "lhs_contract" : "rhs_contract");
    tn__value *value = node->inputs[side];
    if (contract == NULL || contract->count != 1 || value->rank >= TN__MAX_RANK) return NULL;
    if (tn__g_dim_const(value, (int)contract->ints[0]) < 1) return NULL;
    inputs[side] = value;
  }
  if (has_few_rows(node)) return NULL;
  for (int side = 0; side < 2; side++)
    inputs[side] =
        in_quads(graph, inputs[side], (int)tn__node_attr(node, side == 0 ? "lhs_contract" : "rhs_contract")->ints[0]);
  return tn__g_with_quads(graph, node, inputs);
}

static tn__value *convolution_of_quads(tn__graph *graph, const tn__node *node) {
  tn__value *image = node->inputs[0], *weights = node->inputs[1];
  TN__INVARIANT(image != NULL && weights != NULL); /* checked when nodes are made */
  int channel = weights->rank - 2;
  int64_t channels = tn__g_dim_const(weights, channel);
  bool whole = channels % QUAD == 0 || tn__node_int(node, "feature_groups", 1) == 1;
  if (tn__node_int(node, "channels_last", 0) == 0 || channels < 1 || !whole || image->rank >= TN__MAX_RANK) return NULL;
  if (tn__g_dim_const(image, image->rank - 1) < 1) return NULL;
  tn__value *inputs[2] = {in_quads(graph, image, image->rank - 1), in_quads(graph, weights, channel)};
  return tn__g_with_quads(graph, node, inputs);
}

static bool sums_bytes(const tn__node *node) {
  return node->outputs[0]->dtype == TN_I32 && node->inputs[0]->dtype == TN_U8 && node->inputs[1]->dtype == TN_I8 &&
         node->inputs[1]->held == NULL;
}

typedef struct summing {
  const char *op;
  tn__value *(*of_quads)(tn__graph *graph, const tn__node *node);
} summing;

static const summing *summing_of(const tn__node *node) {
  static const summing rows[] = {{"dot_general", product_of_quads}, {"convolution", convolution_of_quads}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (tn__g_is_op(node, rows[i].op)) return &rows[i];
  return NULL;
}

void tn__pass_quads(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  const char *origin = tn__graph_origin(graph);
  int count = tn__graph_node_count(graph);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    const summing *s = summing_of(node);
    if (node->dead || s == NULL || !sums_bytes(node)) continue;
    tn__graph_set_origin(graph, node->origin);
    tn__value *quads = s->of_quads(graph, node);
    if (quads != NULL) tn__pass_put_in_place(&rewriter, node->outputs[0], quads);
  }
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
