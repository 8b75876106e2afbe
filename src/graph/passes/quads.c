/* Sums of products of bytes, four at a time: operands u8 and i8 of a product or convolution that gives i32 are stored
 * in words of four neighbours along the reduction, which its declaration multiplies together (docs/passes.md). On the
 * left four channels lie side by side already, so that this is another view of the same memory; on the right they are
 * brought together, which is done once where weights are constants. */
#include "base/invariant.h"
#include "graph/passes/rewrite.h"

enum { QUAD = 4 };

/* `value` with zeros behind the end of dimension `axis`, up to a multiple of four. */
static tn__value *with_whole_words(tn__graph *graph, tn__value *value, int axis) {
  tn__ir *ir = tn__graph_ir(graph);
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  int64_t rest = tn__g_dim_const(value, axis) % QUAD;
  if (rest == 0) return value;
  for (int i = 0; i < value->rank; i++) low[i] = high[i] = tn__ir_index(ir, 0);
  high[axis] = tn__ir_index(ir, QUAD - rest);
  return tn__g_pad(graph, value, tn__g_scalar(graph, value->dtype, 0), low, high, NULL);
}

/* Stored in words along dimension `axis`. */
static tn__value *in_words(tn__graph *graph, tn__value *value, int axis) {
  tn__layout layout = {.rank = value->rank, .word = {axis, QUAD}};
  for (int i = 0; i < value->rank; i++) layout.parts[i] = (tn__layout_part){i, i == axis ? QUAD : 1, 0};
  return tn__pass_relayout(graph, with_whole_words(graph, value, axis), &layout);
}

/* A right operand that only the run knows is brought in order each time: that takes longer than a row or two. */
static bool has_few_rows(const tn__node *node, const tn__contraction *c) {
  const tn__value *lhs = node->inputs[0], *rhs = node->inputs[1];
  int64_t rows = 1;
  TN__INVARIANT(lhs != NULL && rhs != NULL); /* checked when nodes are made */
  if (tn__pass_is_precomputable(rhs) || c->sum[1] == rhs->rank - 1) return false;
  for (int i = 0; i < lhs->rank; i++) {
    bool taken = c->sum[0] == i;
    for (int j = 0; j < c->batch_count; j++) taken = taken || c->batch[0][j] == i;
    if (!taken && tn__g_dim_const(lhs, i) < 0) return false;
    if (!taken) rows *= tn__g_dim_const(lhs, i);
  }
  return rows <= 2;
}

static bool sums_bytes(const tn__node *node) {
  return node->outputs[0]->dtype == TN_I32 && node->inputs[0]->dtype == TN_U8 && node->inputs[1]->dtype == TN_I8 &&
         !tn__node_reads_layout(node);
}

static tn__value *with_words(tn__rewriter *rewriter, tn__node *node) {
  tn__contraction c;
  tn__value *inputs[2];
  if (node->op->contraction == NULL || !sums_bytes(node)) return NULL;
  node->op->contraction(node, &c);
  if (c.sum[0] < 0) return NULL;
  int64_t left = tn__g_dim_const(node->inputs[0], c.sum[0]), right = tn__g_dim_const(node->inputs[1], c.sum[1]);
  /* The share that a group has of the left one is not filled up: the next group's begins there. */
  if (left < 1 || right < 1 || (right % QUAD != 0 && left != right) || has_few_rows(node, &c)) return NULL;
  for (int side = 0; side < 2; side++) inputs[side] = in_words(rewriter->graph, node->inputs[side], c.sum[side]);
  return tn__pass_node_again(rewriter->graph, node, inputs, NULL, 0);
}

void tn__pass_quads(tn__graph *graph, const tn__optimize_options *options) {
  tn__pass_replace(graph, options, with_words);
}
