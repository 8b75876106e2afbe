/* inline: composites that carry their bodies, as importers make them, stay whole when one kernel will compute them. Of
 * others the body takes the place, before any pass has looked at the graph, so that it is optimised as if the model
 * spelt it out. */
#include "graph/build/outline.h"
#include "graph/passes/rewrite.h"

/* The two products of a body, in order; false when it has not just two. */
TN_MUST_USE static bool find_products(const tn__graph *body, const tn__node *products[2]) {
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(body); i++) {
    const tn__node *node = tn__graph_node_at(body, i);
    if (node->dead || node->op->op_class != TN__CLASS_CONTRACTION) continue;
    if (count < 2) products[count] = node;
    count++;
  }
  return count == 2;
}

bool tn__pass_stays_whole(const tn__node *composite) {
  const tn__node *products[2];
  return find_products(tn__composite_body(composite), products) && tn__pass_suits_attention(products[0], products[1]);
}

void tn__pass_put_body(tn__rewriter *rewriter, const tn__node *composite) {
  tn__graph *graph = rewriter->graph;
  int first = tn__graph_node_count(graph);
  tn__value *result;
  tn__g_copy_body(graph, tn__composite_body(composite), composite->inputs, &result);
  tn__pass_put_in_place(rewriter, composite->outputs[0], result);
  tn__graph_move_behind(graph, first, composite);
}

void tn__pass_inline(tn__graph *graph, const tn__optimize_options *options) {
  tn__rewriter rewriter;
  tn__rewriter_init(&rewriter, graph, options);
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *node = tn__graph_node_at(graph, i);
    if (!node->dead && tn__composite_body(node) != NULL && !tn__pass_stays_whole(node))
      tn__pass_put_body(&rewriter, node);
  }
  tn__graph_sweep(graph);
}
