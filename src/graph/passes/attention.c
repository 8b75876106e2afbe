/* attention: what came as the composite of that name is finished, and what fusion would make one kernel of, from the
 * product of queries and keys to that of weights and values, becomes one composite, whose body is these nodes; fusion
 * then takes it as it is. In the body, weights that are numbers times one number of their row, as those of a softmax
 * are, are multiplied as they are, and the rows of the result by that number: (e * r) V = (e V) * r. A row of the
 * result has as many elements as a head has columns, a row of weights as many as there are keys; and a pass over the
 * weights is saved (Dao et al., "FlashAttention", 2022). Only the body does so: outside of it softmax is one node,
 * which would need a second result for the numbers of rows. */
#include "graph/build/outline.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

/* The number of each row, spread like the weights, that makes them of the other operand. */
static const tn__node *find_scale(tn__rewriter *rewriter, const tn__value *weights, int *scaled) {
  const tn__node *node = weights->producer;
  if (node == NULL || !tn__op_has(node, TN__FACT_LINEAR) || tn__pass_uses_of(rewriter, weights) != 1) return NULL;
  for (int i = tn__op_has(node, TN__FACT_COMMUTES) ? 0 : 1; i < 2; i++) {
    const tn__node *spread = tn__pass_producer_of(node->inputs[i], "broadcast_in_dim");
    if (spread == NULL || !tn__pass_same_shape(node->inputs[1 - i], weights)) continue;
    const tn__value *rows = spread->inputs[0];
    const int64_t *axes = tn__node_attr(spread, "axes")->ints;
    bool varies = false;
    for (int d = 0; d < rows->rank; d++) varies |= axes[d] == weights->rank - 1 && !tn__pass_is_unit(rows->dims[d]);
    if (varies) continue;
    *scaled = 1 - i;
    return node;
  }
  return NULL;
}

static const tn__node *softmax_behind(const tn__node *product) {
  const tn__node *node = product->inputs[0]->producer;
  return node != NULL && tn__op_has(node, TN__FACT_WEIGHTS) ? node : NULL;
}

/* A softmax in parts, so that its scale can be found. */
static void take_apart(tn__rewriter *rewriter, const tn__node *product) {
  const tn__node *softmax = softmax_behind(product);
  if (softmax == NULL || tn__pass_uses_of(rewriter, product->inputs[0]) != 1) return;
  tn__graph_set_origin(rewriter->graph, softmax->origin);
  int first = tn__graph_node_count(rewriter->graph);
  tn__value *weights;
  softmax->op->expand(rewriter->graph, softmax, softmax->inputs, &weights);
  tn__pass_put_in_place(rewriter, softmax->outputs[0], weights);
  tn__graph_move_behind(rewriter->graph, first, softmax);
}

/* In the body of an attention: moves the number of each row of the weights behind the product that makes the result. */
static void scale_rows(tn__graph *body, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  int scaled = 0;
  tn__rewriter_init(&rewriter, body, options);
  tn__value *result = tn__graph_output_at(body, 0);
  const tn__node *product = result->producer;
  take_apart(&rewriter, product);
  const tn__node *scale = find_scale(&rewriter, product->inputs[0], &scaled);
  if (scale != NULL) {
    const tn__node *spread = tn__pass_producer_of(scale->inputs[1 - scaled], "broadcast_in_dim");
    tn__graph_set_origin(body, product->origin);
    tn__value *inputs[2] = {scale->inputs[scaled], product->inputs[1]};
    tn__value *unscaled = tn__pass_node_again(body, product, inputs, NULL, 0);
    tn__value *rows = tn__g_broadcast_in_dim(body, spread->inputs[0], result->rank, result->dims,
                                             tn__node_attr(spread, "axes")->ints);
    tn__pass_put_in_place(&rewriter, result, tn__g_binary(body, scale->op->name, unscaled, rows));
  }
  tn__graph_sweep(body);
}

/* Those that came as composites: their bodies are finished, or inlined after all when sizes have become known since. */
static void finish_composites(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    if (node->dead || tn__composite_body(node) == NULL) continue;
    if (tn__pass_stays_whole(node))
      scale_rows(node->graphs[0], options);
    else
      tn__pass_put_body(&rewriter, node);
  }
  tn__graph_sweep(graph);
}

void tn__pass_attention(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  const char *origin = tn__graph_origin(graph);
  bool any = false;
  finish_composites(graph, options);
  for (int i = 0; i < tn__graph_node_count(graph); i++)
    any |= tn__op_has(tn__graph_node_at(graph, i), TN__FACT_WEIGHTS);
  if (!any) return;
  tn__attentions found = tn__pass_fuse_attentions(graph);
  tn__rewriter_init(&rewriter, graph, options);
  for (int i = 0; i < found.count; i++) {
    const tn__group *g = &found.items[i];
    tn__node *product = g->nodes[g->node_count - 1];
    int first = tn__graph_node_count(graph);
    tn__node *whole = tn__g_outline(graph, "attention", g->nodes, g->node_count);
    if (whole == NULL) continue;
    scale_rows(whole->graphs[0], options);
    tn__pass_put_in_place(&rewriter, product->outputs[0], whole->outputs[0]);
    tn__graph_move_behind(graph, first, product);
  }
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
