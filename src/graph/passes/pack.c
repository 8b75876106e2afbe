/* Constant right operands in the layout in which kernels want them, which the driver tells (docs/passes.md). It
 * computes them once, when it compiles. */
#include "base/invariant.h"
#include "graph/passes/rewrite.h"

TN_MUST_USE static bool layout_for(const tn__optimize_options *options, const tn__operand_use *operand,
                                   tn__layout *out) {
  return options->operand_layout != NULL && operand->columns > 0 &&
         options->operand_layout(options->layout_user, operand, out);
}

/* `node` with its right operand in the layout. */
static tn__value *with_right_in(tn__graph *graph, const tn__node *node, tn__value *rhs, const tn__layout *layout) {
  tn__value *const inputs[2] = {node->inputs[0], tn__pass_relayout(graph, rhs, layout)};
  return tn__pass_node_again(graph, node, inputs, NULL, 0);
}

/* An operand that is stored in words of a few elements along the reduction stays so, with panels of words. */
static tn__layout_word word_of(const tn__value *rhs) {
  return rhs->held != NULL ? rhs->held->layout.word : (tn__layout_word){0};
}

static bool is_in_blocks(const tn__value *rhs) { return rhs->held != NULL && rhs->held->layout.rank > rhs->held->rank; }

static int64_t size_of(const tn__value *rhs, int64_t dim) {
  int64_t size;
  return tn__ir_as_int(tn__g_tensor_dims(rhs)[dim], &size) ? size : -1;
}

/* ---- several dimensions ----------------------------------------------------------------------------------- */

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
  for (int i = 0; i < tn__g_tensor_rank(node->inputs[side]); i++)
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
  dims[o->batch_count] = tn__ir_index(ir, rows);
  dims[o->batch_count + 1] = tn__ir_index(ir, columns);
  return tn__g_reshape(graph, tn__pass_permuted(graph, rhs, permutation), o->batch_count + 2, dims);
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
    if (i <= first || i > last) dims[rank++] = i == first ? tn__ir_index(tn__graph_ir(graph), rows) : lhs->dims[i];
  for (int i = 0; i < o->batch_count; i++) batch[i] = o->batch[i] > last ? o->batch[i] - (last - first) : o->batch[i];
  *contract = first;
  return o->contract_count == 1 ? lhs : tn__g_reshape(graph, lhs, rank, dims);
}

/* Several contracting or free dimensions of the right operand become one of each; NULL when that takes more than
 * reshaping the left one. */
static tn__node *as_matrices(tn__graph *graph, const tn__node *node, const operand *left, const operand *right,
                             int64_t rows, int64_t columns) {
  int64_t lhs_batch[TN__MAX_RANK], rhs_batch[TN__MAX_RANK], lhs_contract, rhs_contract = right->batch_count;
  tn__value *lhs = lhs_with_one_contraction(graph, node->inputs[0], left, rows, lhs_batch, &lhs_contract);
  if (lhs == NULL) return NULL;
  for (int i = 0; i < right->batch_count; i++) rhs_batch[i] = i;
  tn__value *const inputs[2] = {lhs, rhs_as_matrices(graph, node->inputs[1], right, rows, columns)};
  const tn__attr changed[] = {tn__attr_ints(graph, "lhs_batch", lhs_batch, right->batch_count),
                              tn__attr_ints(graph, "rhs_batch", rhs_batch, right->batch_count),
                              tn__attr_ints(graph, "lhs_contract", &lhs_contract, 1),
                              tn__attr_ints(graph, "rhs_contract", &rhs_contract, 1)};
  return tn__pass_node_again(graph, node, inputs, changed, 4)->producer;
}

/* A right operand with several contracting or free dimensions, behind reshapes. */
static tn__value *pack_as_matrices(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  tn__value *rhs = node->inputs[1], *result = node->outputs[0];
  operand left = operand_of(node, 0), right = operand_of(node, 1);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < right.contract_count; i++) rows *= size_of(rhs, right.contract[i]);
  for (int i = 0; i < right.free_count; i++) columns *= size_of(rhs, right.free[i]);
  if (right.contract_count == 0 || right.free_count == 0 || rows <= 0) return NULL;
  tn__operand_use use = {.dtype = rhs->dtype,
                         .word = word_of(rhs),
                         .rank = right.batch_count + 2,
                         .lead = right.batch_count,
                         .columns = columns};
  for (int i = 0; i < use.rank; i++) use.order[i] = i;
  tn__layout layout;
  if (!layout_for(rewriter->options, &use, &layout) || tn__node_reads_layout(node)) return NULL;
  tn__node *plain = as_matrices(graph, node, &left, &right, rows, columns);
  if (plain == NULL) return NULL;
  tn__value *product = with_right_in(graph, plain, plain->inputs[1], &layout);
  plain->dead = true;
  return tn__g_reshape(graph, product, result->rank, result->dims);
}

/* ---- one dimension of each ---------------------------------------------------------------------- */

/* With groups, a panel must not hold columns of two of them; with one input channel a group (depthwise) there is
 * nothing to gain, nor with one word of them. */
static bool groups_allow(const tn__node *node, const tn__contraction *c, int64_t columns, const tn__layout *layout) {
  int64_t groups = tn__node_int(node, "feature_groups", 1), word = layout->word.count != 0 ? layout->word.count : 1;
  return groups == 1 || (columns / groups % layout->parts[layout->rank - 1].modulus == 0 &&
                         size_of(node->inputs[1], c->sum[1]) != word);
}

/* The dimensions of the right operand in the order in which kernels run over them. */
static tn__operand_use use_of(const tn__value *rhs, const tn__contraction *c) {
  tn__operand_use use = {.dtype = rhs->dtype, .word = word_of(rhs), .lead = c->batch_count};
  unsigned placed = 1u << c->sum[1] | 1u << c->rhs_column;
  for (int i = 0; i < c->batch_count; i++) placed |= 1u << c->batch[1][i];
  for (int i = 0; i < c->batch_count; i++) use.order[use.rank++] = (int)c->batch[1][i];
  for (int i = 0; i < tn__g_tensor_rank(rhs); i++)
    if ((placed >> i & 1) == 0) use.order[use.rank++] = i;
  use.order[use.rank++] = c->sum[1];
  use.order[use.rank++] = c->rhs_column;
  use.columns = size_of(rhs, c->rhs_column);
  return use;
}

static tn__value *packed(tn__rewriter *rewriter, tn__node *node) {
  tn__contraction c;
  tn__layout layout;
  if (node->op->contraction == NULL || !tn__pass_is_for_cpu(rewriter->options, node)) return NULL;
  tn__value *rhs = node->inputs[1];
  if (is_in_blocks(rhs) || !tn__pass_is_precomputable(rhs) || tn__pass_element_total(rhs) <= 0) return NULL;
  /* A product that is constant itself is computed once: packing would cost more. */
  if (tn__pass_is_precomputable(node->inputs[0])) return NULL;
  node->op->contraction(node, &c);
  if (c.sum[1] < 0 || c.rhs_column < 0)
    return tn__g_is_op(node, "dot_general") ? pack_as_matrices(rewriter, node) : NULL;
  const tn__operand_use use = use_of(rhs, &c);
  bool packs = layout_for(rewriter->options, &use, &layout) && groups_allow(node, &c, use.columns, &layout);
  return packs ? with_right_in(rewriter->graph, node, rhs, &layout) : NULL;
}

void tn__pass_pack(tn__graph *graph, const tn__optimize_options *options) { tn__pass_replace(graph, options, packed); }
