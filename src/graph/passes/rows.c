/* Products of two matrices. A product whose left operand has several free dimensions ([batch, sequence, features] times
 * a matrix), and a channels-last convolution with a window of one element, are products of two matrices when their rows
 * are counted through. They become that, and what reads them follows as long as it goes row by row: element-wise
 * operators with a bias, reductions and broadcasts along a row. Elsewhere a reshape, which costs nothing, gives the
 * dimensions back. */
#include "base/invariant.h"
#include "graph/passes/mover.h"

static void flat_dims(tn__graph *graph, const tn__value *value, const tn__expr **out) {
  tn__ir *ir = tn__graph_ir(graph);
  out[0] = tn__ir_index(ir, 1);
  for (int i = 0; i < value->rank - 1; i++) out[0] = tn__ir_mul(ir, out[0], value->dims[i]);
  out[1] = value->dims[value->rank - 1];
}

/* Does a broadcast repeat the same row, or one element along each row? */
typedef enum repeat { REPEAT_OTHER, REPEAT_ROW, REPEAT_ALONG_ROW } repeat;

static repeat repeat_of(const tn__node *broadcast) {
  const tn__value *source = broadcast->inputs[0], *result = broadcast->outputs[0];
  const int64_t *axes = tn__node_attr(broadcast, "axes")->ints;
  bool row = true;
  TN__INVARIANT(source != NULL); /* operands that an operator must have are checked when nodes are made */
  for (int i = 0; i < source->rank; i++)
    row = row && (tn__pass_is_unit(source->dims[i]) || axes[i] == result->rank - 1);
  if (row) return REPEAT_ROW;
  if (source->rank != result->rank || !tn__pass_is_unit(source->dims[source->rank - 1])) return REPEAT_OTHER;
  for (int i = 0; i < source->rank - 1; i++)
    if (source->dims[i] != result->dims[i]) return REPEAT_OTHER;
  return REPEAT_ALONG_ROW;
}

static bool can_flatten(tn__mover *m, const tn__value *value) {
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  return broadcast == NULL || tn__mover_has_followed(m, value) || repeat_of(broadcast) != REPEAT_OTHER;
}

static tn__value *flat_broadcast(tn__mover *m, const tn__node *broadcast, const tn__expr *const *dims) {
  static const int64_t both[2] = {0, 1};
  tn__value *source = broadcast->inputs[0];
  TN__INVARIANT(source != NULL); /* as in repeat_of */
  if (repeat_of(broadcast) == REPEAT_ALONG_ROW)
    return tn__g_broadcast_in_dim(m->graph, tn__mover_moved(m, source), 2, dims, both);
  const tn__expr *size = source->rank > 0 ? source->dims[source->rank - 1] : NULL;
  bool whole = source->rank > 0 && !tn__pass_is_unit(size);
  tn__value *row = tn__g_reshape(m->graph, source, whole ? 1 : 0, &size);
  return tn__g_broadcast_in_dim(m->graph, row, 2, dims, both + 1);
}

static tn__value *flatten(tn__mover *m, tn__value *value) {
  const tn__expr *dims[2];
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  flat_dims(m->graph, value, dims);
  if (broadcast != NULL && repeat_of(broadcast) != REPEAT_OTHER) return flat_broadcast(m, broadcast, dims);
  return tn__g_reshape(m->graph, value, 2, dims);
}

static tn__value *with_dims(tn__mover *m, tn__value *flat, const tn__value *like) {
  return tn__g_reshape(m->graph, flat, like->rank, like->dims);
}

/* ---- products ----------------------------------------------------------------------------------- */

static tn__value *flat_product(tn__mover *m, const tn__node *node) {
  tn__contraction c;
  node->op->contraction(node, &c);
  const tn__value *lhs = node->inputs[0];
  TN__INVARIANT(lhs != NULL && node->inputs[1] != NULL); /* operands of a product: checked when nodes are made */
  if (!c.by_rows || lhs->rank < 3 || tn__node_reads_layout(node)) return NULL;
  tn__value *rhs = tn__mover_restored(m, node->inputs[1]);
  int units = rhs->rank - 2;
  if (units > 0) rhs = tn__g_reshape(m->graph, rhs, 2, rhs->dims + units);
  const int64_t lhs_contract = 1, rhs_contract = c.sum[1] - units;
  tn__value *rows = tn__mover_moved(m, node->inputs[0]);
  return tn__g_dot_general(m->graph, rows, rhs, NULL, NULL, 0, &lhs_contract, &rhs_contract, 1,
                           node->outputs[0]->dtype);
}

/* ---- who follows -------------------------------------------------------------------------------- */

static tn__value *follow_elementwise(tn__mover *m, const tn__node *node) {
  tn__value *inputs[4];
  if (node->input_count > 4 || node->output_count != 1) return NULL;
  for (int i = 0; i < node->input_count; i++)
    if (!can_flatten(m, node->inputs[i])) return NULL;
  for (int i = 0; i < node->input_count; i++) inputs[i] = tn__mover_moved(m, node->inputs[i]);
  return tn__pass_node_again(m->graph, node, inputs, NULL, 0);
}

static tn__value *follow_reduce(tn__mover *m, const tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  TN__INVARIANT(node->inputs[0] != NULL); /* checked when nodes are made */
  bool along_row = axes != NULL && axes->count == 1 && axes->ints[0] == node->inputs[0]->rank - 1;
  if (!along_row || tn__node_int(node, "keep_dims", 0) == 0) return NULL;
  tn__value *input = tn__mover_moved(m, node->inputs[0]);
  const tn__attr row = tn__attr_int(m->graph, "axes", 1);
  return tn__pass_node_again(m->graph, node, &input, &row, 1);
}

static tn__value *follow_rows(tn__mover *m, const tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  TN__INVARIANT(node->inputs[0] != NULL); /* checked when nodes are made */
  if (node->input_count != 1 || axes->count != 1 || axes->ints[0] != node->inputs[0]->rank - 1) return NULL;
  tn__value *input = tn__mover_moved(m, node->inputs[0]);
  const tn__attr row = tn__attr_int(m->graph, "axes", 1);
  return tn__pass_node_again(m->graph, node, &input, &row, 1);
}

static tn__value *follow_broadcast(tn__mover *m, const tn__node *node) {
  const tn__expr *dims[2];
  flat_dims(m->graph, node->outputs[0], dims);
  return repeat_of(node) == REPEAT_ALONG_ROW ? flat_broadcast(m, node, dims) : NULL;
}

/* What becomes a product of two matrices does so whether or not it reads one. */
static tn__value *follow(tn__mover *m, const tn__node *node, bool reads_moved, bool *direct) {
  (void)direct;
  if (node->op->contraction != NULL) return flat_product(m, node);
  if (!reads_moved) return NULL;
  if (node->op->op_class == TN__CLASS_ELEMENTWISE) return follow_elementwise(m, node);
  if (node->op->op_class == TN__CLASS_ROWS) return follow_rows(m, node);
  if (tn__op_has(node, TN__FACT_REDUCES)) return follow_reduce(m, node);
  if (tn__op_has(node, TN__FACT_REPEATS)) return follow_broadcast(m, node);
  return NULL;
}

void tn__pass_rows(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  tn__mover mover = {.move = flatten, .restore = with_dims, .follow = follow};
  tn__mover_run(&mover, graph);
}
