/* Constant right operands in the order that the kernels read: panels of W columns, [columns / W, rows, W]
 * (docs/passes.md). The packing is ordinary operators over constants; the driver computes them once, when it
 * compiles. */
#include "base/invariant.h"
#include "graph/passes/rewrite.h"

static int width_for(const tn__optimize_options *options, const tn__value *rhs, int64_t columns) {
  return options->pack_width == NULL || columns <= 0 ? 0 : options->pack_width(options->pack_user, rhs->dtype, columns);
}

/* A splat is its own packing: what stands in the columns that pad the last panel is never written to a result. */
static tn__value *packed_splat(tn__graph *graph, const tn__value *rhs, int lead, int64_t width) {
  int64_t shape[TN__MAX_RANK], packed[TN__MAX_RANK];
  if (!tn__is_constant(rhs) || !rhs->splat || !tn__shape_const(rhs, shape)) return NULL;
  int next = 0;
  for (int i = 0; i < lead; i++) packed[next++] = shape[i];
  packed[next++] = (shape[rhs->rank - 1] + width - 1) / width;
  for (int i = lead; i < rhs->rank - 1; i++) packed[next++] = shape[i];
  packed[next++] = width;
  return tn__constant_value(graph, rhs->dtype, next, packed, rhs->data, true);
}

/* ---- products ----------------------------------------------------------------------------------- */

typedef struct operand {
  const int64_t *batch, *contract;
  int batch_count, contract_count, free_count;
  int64_t free[TN__MAX_RANK];
} operand;

static operand operand_of(const tn__node *node, int side) {
  static const char *const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
  const tn__attr *batch = tn__node_attr(node, names[side][0]), *contract = tn__node_attr(node, names[side][1]);
  operand o = {.batch_count = batch == NULL ? 0 : batch->count,
               .contract_count = contract == NULL ? 0 : contract->count};
  unsigned seen = 0;
  if (o.batch_count > 0) o.batch = batch->ints;
  if (o.contract_count > 0) o.contract = contract->ints;
  for (int i = 0; i < o.batch_count; i++) seen |= 1u << o.batch[i];
  for (int i = 0; i < o.contract_count; i++) seen |= 1u << o.contract[i];
  for (int i = 0; i < node->inputs[side]->rank; i++)
    if ((seen >> i & 1) == 0) o.free[o.free_count++] = i;
  return o;
}

/* The right operand as [batch..., K, N]. */
static tn__value *rhs_as_matrices(tn__graph *graph, tn__value *rhs, const operand *o, int64_t rows, int64_t columns) {
  tn__ir *ir = tn__graph_ir(graph);
  int64_t permutation[TN__MAX_RANK];
  const tn__expr *dims[TN__MAX_RANK];
  int next = 0;
  for (int i = 0; i < o->batch_count; i++) {
    dims[i] = rhs->dims[o->batch[i]];
    permutation[next++] = o->batch[i];
  }
  for (int i = 0; i < o->contract_count; i++) permutation[next++] = o->contract[i];
  for (int i = 0; i < o->free_count; i++) permutation[next++] = o->free[i];
  dims[o->batch_count] = tn__index(ir, rows);
  dims[o->batch_count + 1] = tn__index(ir, columns);
  return tn__g_reshape(graph, tn__permuted(graph, rhs, permutation), o->batch_count + 2, dims);
}

/* The left operand with its contracting dimensions, which must be neighbours in this order, as one; adjusts the
 * dimension numbers. */
static tn__value *lhs_with_one_contraction(tn__graph *graph, tn__value *lhs, const operand *o, int64_t rows,
                                           int64_t *batch, int64_t *contract) {
  const tn__expr *dims[TN__MAX_RANK];
  TN__INVARIANT(o->contract_count > 0); /* the caller has products with something to contract */
  int64_t first = o->contract[0], last = o->contract[o->contract_count - 1];
  for (int i = 1; i < o->contract_count; i++)
    if (o->contract[i] != o->contract[i - 1] + 1) return NULL;
  int rank = 0;
  for (int i = 0; i < lhs->rank; i++)
    if (i <= first || i > last) dims[rank++] = i == first ? tn__index(tn__graph_ir(graph), rows) : lhs->dims[i];
  for (int i = 0; i < o->batch_count; i++) batch[i] = o->batch[i] > last ? o->batch[i] - (last - first) : o->batch[i];
  *contract = first;
  return o->contract_count == 1 ? lhs : tn__g_reshape(graph, lhs, rank, dims);
}

static tn__value *pack_product(tn__graph *graph, tn__node *node, const tn__optimize_options *options) {
  tn__value *rhs = node->inputs[1], *result = node->outputs[0];
  operand left = operand_of(node, 0), right = operand_of(node, 1);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < right.contract_count; i++) rows *= tn__dim_const(rhs, (int)right.contract[i]);
  for (int i = 0; i < right.free_count; i++) columns *= tn__dim_const(rhs, (int)right.free[i]);
  if (right.contract_count == 0 || right.free_count == 0 || rows <= 0) return NULL;
  if (right.batch_count + 3 > TN__MAX_RANK) return NULL; /* panels have a dimension more than matrices */
  int width = width_for(options, rhs, columns);
  if (width <= 0) return NULL;
  int64_t lhs_batch[TN__MAX_RANK], rhs_batch[TN__MAX_RANK], lhs_contract, rhs_contract = right.batch_count;
  tn__value *lhs = lhs_with_one_contraction(graph, node->inputs[0], &left, rows, lhs_batch, &lhs_contract);
  if (lhs == NULL) return NULL;
  for (int i = 0; i < right.batch_count; i++) rhs_batch[i] = i;
  tn__value *matrices = rhs_as_matrices(graph, rhs, &right, rows, columns);
  tn__value *const inputs[2] = {lhs, matrices};
  const tn__attr changed[] = {tn__attr_ints(graph, "lhs_batch", lhs_batch, right.batch_count),
                              tn__attr_ints(graph, "rhs_batch", rhs_batch, right.batch_count),
                              tn__attr_ints(graph, "lhs_contract", &lhs_contract, 1),
                              tn__attr_ints(graph, "rhs_contract", &rhs_contract, 1)};
  tn__value *plain = tn__node_again(graph, node, inputs, changed, 4);
  tn__value *packed = packed_splat(graph, matrices, right.batch_count, width);
  if (packed == NULL) packed = tn__g_pack_dot(graph, matrices, rhs_batch, right.batch_count, rhs_contract, width);
  tn__value *product = tn__g_with_packed_rhs(graph, plain->producer, packed, width);
  plain->producer->dead = true;
  return tn__g_reshape(graph, product, result->rank, result->dims);
}

/* ---- convolutions ------------------------------------------------------------------------------- */

/* With groups, a panel must not hold columns of two of them; with one input channel a group (depthwise) there is
 * nothing to gain. */
static bool groups_allow(const tn__node *node, int64_t columns, int width) {
  const tn__value *weights = node->inputs[1];
  int64_t groups = tn__node_int(node, "feature_groups", 1);
  return groups == 1 || (columns / groups % width == 0 && !tn__is_unit(weights->dims[weights->rank - 2]));
}

static tn__value *pack_convolution(tn__graph *graph, tn__node *node, const tn__optimize_options *options) {
  tn__value *weights = node->inputs[1];
  int64_t columns = tn__dim_const(weights, weights->rank - 1);
  if (tn__node_int(node, "channels_last", 0) == 0 || tn__element_total(weights) <= 0) return NULL;
  int width = width_for(options, weights, columns);
  if (width <= 0 || !groups_allow(node, columns, width)) return NULL;
  tn__value *packed = packed_splat(graph, weights, 0, width);
  if (packed == NULL) packed = tn__g_pack_convolution(graph, weights, width);
  return tn__g_with_packed_rhs(graph, node, packed, width);
}

typedef struct packing {
  const char *op;
  tn__value *(*pack)(tn__graph *graph, tn__node *node, const tn__optimize_options *options);
} packing;

static const packing *packing_of(const tn__node *node) {
  static const packing rows[] = {{"dot_general", pack_product}, {"convolution", pack_convolution}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (tn__is_op(node, rows[i].op)) return &rows[i];
  return NULL;
}

void tn__pass_pack(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  const char *origin = tn__graph_origin(graph);
  int count = tn__graph_node_count(graph);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    const packing *p = packing_of(node);
    if (node->dead || p == NULL || tn__node_int(node, "packed", 0) > 0) continue;
    if (!tn__is_precomputable(node->inputs[1]) || tn__element_total(node->inputs[1]) <= 0) continue;
    /* A product that is constant itself is computed once: packing would cost more. */
    if (tn__is_precomputable(node->inputs[0])) continue;
    tn__graph_set_origin(graph, node->origin);
    tn__value *packed = p->pack(graph, node, options);
    if (packed != NULL) tn__put_in_place(&rewriter, node->outputs[0], packed);
  }
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
