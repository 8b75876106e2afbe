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

static tn__value *with_words(tn__graph *graph, const tn__node *node, const int axes[2]) {
  tn__value *inputs[2];
  for (int side = 0; side < 2; side++) inputs[side] = in_words(graph, node->inputs[side], axes[side]);
  return tn__pass_node_again(graph, node, inputs, NULL, 0);
}

static tn__value *product_of_words(tn__graph *graph, const tn__node *node) {
  int axes[2];
  for (int side = 0; side < 2; side++) {
    const tn__attr *contract = tn__node_attr(node, side == 0 ? "lhs_contract" : "rhs_contract");
    if (contract == NULL || contract->count != 1) return NULL;
    axes[side] = (int)contract->ints[0];
    if (tn__g_dim_const(node->inputs[side], axes[side]) < 1) return NULL;
  }
  return has_few_rows(node) ? NULL : with_words(graph, node, axes);
}

static tn__value *convolution_of_words(tn__graph *graph, const tn__node *node) {
  TN__INVARIANT(node->inputs[0] != NULL && node->inputs[1] != NULL); /* checked when nodes are made */
  const tn__value *image = node->inputs[0], *weights = node->inputs[1];
  const int axes[2] = {image->rank - 1, weights->rank - 2};
  int64_t channels = tn__g_dim_const(weights, axes[1]);
  bool whole = channels % QUAD == 0 || tn__node_int(node, "feature_groups", 1) == 1;
  if (tn__node_int(node, "channels_last", 0) == 0 || channels < 1 || !whole) return NULL;
  return tn__g_dim_const(image, axes[0]) < 1 ? NULL : with_words(graph, node, axes);
}

static bool sums_bytes(const tn__node *node) {
  return node->outputs[0]->dtype == TN_I32 && node->inputs[0]->dtype == TN_U8 && node->inputs[1]->dtype == TN_I8 &&
         !tn__node_reads_layout(node);
}

typedef struct summing {
  const char *op;
  tn__value *(*of_words)(tn__graph *graph, const tn__node *node);
} summing;

static const summing *summing_of(const tn__node *node) {
  static const summing rows[] = {{"dot_general", product_of_words}, {"convolution", convolution_of_words}};
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
    tn__value *sum = s->of_words(graph, node);
    if (sum != NULL) tn__pass_put_in_place(&rewriter, node->outputs[0], sum);
  }
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
