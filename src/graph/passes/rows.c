/* Products of two matrices. A product whose left operand has several free dimensions ([batch, sequence, features] times
 * a matrix), and a channels-last convolution with a window of one element, are products of two matrices when their rows
 * are counted through. They become that, and what reads them follows as long as it goes row by row: element-wise
 * operators with a bias, reductions and broadcasts along a row. Elsewhere a reshape, which costs nothing, gives the
 * dimensions back. */
#include "base/invariant.h"
#include "graph/passes/rewrite.h"

typedef struct versions {
  tn__value *flat;     /* [rows, columns]; NULL: not made */
  tn__value *restored; /* of a value that exists flat only: with its dimensions again; NULL: not made */
  bool moved;          /* exists flat only */
} versions;

typedef struct flattener {
  tn__graph *graph;
  tn__arena *arena;
  TN__VEC(versions) versions; /* by value id */
} flattener;

static versions *versions_of(flattener *f, const tn__value *value) {
  while (f->versions.count <= (int)value->id) tn__vec_push(f->arena, &f->versions, (versions){0});
  return &f->versions.data[value->id];
}

static bool has_moved(flattener *f, const tn__value *value) { return versions_of(f, value)->moved; }

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

static bool can_flatten(flattener *f, const tn__value *value) {
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  return broadcast == NULL || has_moved(f, value) || repeat_of(broadcast) != REPEAT_OTHER;
}

static tn__value *flat_of(flattener *f, tn__value *value);

static tn__value *flat_broadcast(flattener *f, const tn__node *broadcast, const tn__expr *const *dims) {
  static const int64_t both[2] = {0, 1};
  tn__value *source = broadcast->inputs[0];
  TN__INVARIANT(source != NULL); /* as in repeat_of */
  if (repeat_of(broadcast) == REPEAT_ALONG_ROW)
    return tn__g_broadcast_in_dim(f->graph, flat_of(f, source), 2, dims, both);
  const tn__expr *size = source->rank > 0 ? source->dims[source->rank - 1] : NULL;
  bool whole = source->rank > 0 && !tn__pass_is_unit(size);
  tn__value *row = tn__g_reshape(f->graph, source, whole ? 1 : 0, &size);
  return tn__g_broadcast_in_dim(f->graph, row, 2, dims, both + 1);
}

static tn__value *flat_of(flattener *f, tn__value *value) {
  tn__value *flat = versions_of(f, value)->flat;
  if (flat != NULL) return flat;
  const tn__expr *dims[2];
  const tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  flat_dims(f->graph, value, dims);
  if (broadcast != NULL && repeat_of(broadcast) != REPEAT_OTHER)
    flat = flat_broadcast(f, broadcast, dims);
  else
    flat = tn__g_reshape(f->graph, value, 2, dims);
  versions_of(f, value)->flat = flat;
  return flat;
}

static tn__value *restored(flattener *f, tn__value *value) {
  if (!has_moved(f, value)) return value;
  if (versions_of(f, value)->restored != NULL) return versions_of(f, value)->restored;
  TN__INVARIANT(value != NULL && versions_of(f, value)->flat != NULL); /* what moved has a flat version */
  tn__value *whole = tn__g_reshape(f->graph, versions_of(f, value)->flat, value->rank, value->dims);
  versions_of(f, value)->restored = whole;
  return whole;
}

/* ---- products ----------------------------------------------------------------------------------- */

static tn__value *product(flattener *f, const tn__node *node, tn__value *rhs, int64_t rhs_contract) {
  const int64_t lhs_contract = 1;
  tn__value *lhs = flat_of(f, node->inputs[0]);
  return tn__g_dot_general(f->graph, lhs, rhs, NULL, NULL, 0, &lhs_contract, &rhs_contract, 1, node->outputs[0]->dtype);
}

static tn__value *flat_product(flattener *f, const tn__node *node) {
  const tn__value *lhs = node->inputs[0], *rhs = node->inputs[1];
  const tn__attr *batch = tn__node_attr(node, "lhs_batch"), *contract = tn__node_attr(node, "lhs_contract");
  TN__INVARIANT(lhs != NULL && rhs != NULL); /* operands of a product: checked when nodes are made */
  if (lhs->rank < 3 || rhs->rank != 2 || tn__node_reads_layout(node)) return NULL;
  if ((batch != NULL && batch->count > 0) || contract == NULL || contract->count != 1 ||
      contract->ints[0] != lhs->rank - 1)
    return NULL;
  return product(f, node, restored(f, node->inputs[1]), tn__node_attr(node, "rhs_contract")->ints[0]);
}

static tn__value *flat_convolution(flattener *f, const tn__node *node) {
  tn__value *weights = node->inputs[1];
  TN__INVARIANT(node->inputs[0] != NULL && weights != NULL); /* checked when nodes are made */
  int spatial = node->inputs[0]->rank - 2;
  bool plain = tn__node_int(node, "channels_last", 0) != 0 && tn__node_int(node, "feature_groups", 1) == 1 &&
               !tn__node_reads_layout(node);
  for (int i = 0; plain && i < spatial; i++)
    plain = tn__pass_is_unit(weights->dims[i]) && tn__node_attr(node, "strides")->ints[i] == 1 &&
            tn__node_attr(node, "lhs_dilation")->ints[i] == 1 &&
            tn__ir_is_int_value(tn__node_attr(node, "low")->exprs[i], 0) &&
            tn__ir_is_int_value(tn__node_attr(node, "high")->exprs[i], 0);
  if (!plain) return NULL;
  return product(f, node, tn__g_reshape(f->graph, restored(f, weights), 2, weights->dims + spatial), 0);
}

/* ---- who follows -------------------------------------------------------------------------------- */

static tn__value *follow_elementwise(flattener *f, const tn__node *node) {
  tn__value *inputs[4];
  if (node->input_count > 4 || node->output_count != 1) return NULL;
  for (int i = 0; i < node->input_count; i++)
    if (!can_flatten(f, node->inputs[i])) return NULL;
  for (int i = 0; i < node->input_count; i++) inputs[i] = flat_of(f, node->inputs[i]);
  return tn__pass_node_again(f->graph, node, inputs, NULL, 0);
}

static tn__value *follow_reduce(flattener *f, const tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  TN__INVARIANT(node->inputs[0] != NULL); /* checked when nodes are made */
  bool along_row = axes != NULL && axes->count == 1 && axes->ints[0] == node->inputs[0]->rank - 1;
  if (!along_row || tn__node_int(node, "keep_dims", 0) == 0) return NULL;
  tn__value *input = flat_of(f, node->inputs[0]);
  const tn__attr row = tn__attr_int(f->graph, "axes", 1);
  return tn__pass_node_again(f->graph, node, &input, &row, 1);
}

static tn__value *follow_rows(flattener *f, const tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  TN__INVARIANT(node->inputs[0] != NULL); /* checked when nodes are made */
  if (node->input_count != 1 || axes->count != 1 || axes->ints[0] != node->inputs[0]->rank - 1) return NULL;
  tn__value *input = flat_of(f, node->inputs[0]);
  const tn__attr row = tn__attr_int(f->graph, "axes", 1);
  return tn__pass_node_again(f->graph, node, &input, &row, 1);
}

static tn__value *follow_broadcast(flattener *f, const tn__node *node) {
  const tn__expr *dims[2];
  flat_dims(f->graph, node->outputs[0], dims);
  return repeat_of(node) == REPEAT_ALONG_ROW ? flat_broadcast(f, node, dims) : NULL;
}

/* What becomes a product of two matrices, whether or not it reads one. */
static const struct {
  const char *op;
  tn__value *(*flat)(flattener *f, const tn__node *node);
} beginnings[] = {{"dot_general", flat_product}, {"convolution", flat_convolution}};

static tn__value *flat_result(flattener *f, const tn__node *node, bool reads_moved) {
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
    if (tn__g_is_op(node, beginnings[i].op)) return beginnings[i].flat(f, node);
  if (!reads_moved) return NULL;
  if (node->op->op_class == TN__CLASS_ELEMENTWISE) return follow_elementwise(f, node);
  if (node->op->op_class == TN__CLASS_ROWS) return follow_rows(f, node);
  if (tn__op_has(node, TN__FACT_REDUCES)) return follow_reduce(f, node);
  if (tn__op_has(node, TN__FACT_REPEATS)) return follow_broadcast(f, node);
  return NULL;
}

static void visit(flattener *f, tn__node *node) {
  bool reads_moved = false;
  for (int i = 0; i < node->input_count; i++)
    reads_moved = reads_moved || (node->inputs[i] != NULL && has_moved(f, node->inputs[i]));
  tn__value *result = flat_result(f, node, reads_moved);
  if (result != NULL) {
    node->dead = true;
    *versions_of(f, node->outputs[0]) = (versions){.flat = result, .moved = true};
    for (int i = 1; i < node->output_count; i++) /* numbers of a row, of the same node made anew */
      *versions_of(f, node->outputs[i]) = (versions){.flat = result->producer->outputs[i], .moved = true};
    return;
  }
  for (int i = 0; reads_moved && i < node->input_count; i++)
    if (node->inputs[i] != NULL) tn__node_set_input(f->graph, node, i, restored(f, node->inputs[i]));
}

void tn__pass_rows(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  flattener f = {.graph = graph, .arena = tn__graph_arena(graph)};
  const char *origin = tn__graph_origin(graph);
  int count = tn__graph_node_count(graph);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    tn__graph_set_origin(graph, node->origin);
    if (!node->dead) visit(&f, node);
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++)
    tn__graph_set_output(graph, i, restored(&f, tn__graph_output_at(graph, i)));
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
