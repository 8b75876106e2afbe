/* Dead code: nodes from which no output, and no symbol that something reads, can be reached. */
#include "graph/passes/rewrite.h"

static void mark(tn__arena *arena, tn__value *root, bool *live) {
  TN__VEC(tn__value *) stack = {0};
  tn__vec_push(arena, &stack, root);
  while (stack.count > 0) {
    const tn__value *value = stack.data[--stack.count];
    const tn__node *node = value->producer;
    if (live[value->id]) continue;
    live[value->id] = true;
    if (node == NULL) continue;
    for (int i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NULL) tn__vec_push(arena, &stack, node->inputs[i]);
  }
}

static bool any_live(const tn__node *node, const bool *live) {
  for (int i = 0; i < node->output_count; i++)
    if (live[node->outputs[i]->id]) return true;
  return false;
}

/* A symbol may be read by dead nodes only, which is known once these are gone: so until nothing changes. */
void tn__pass_dce(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  tn__arena *arena = tn__graph_arena(graph);
  int before = -1;
  while (before != tn__graph_node_count(graph)) {
    before = tn__graph_node_count(graph);
    int value_count = 0;
    tn__graph_use_counts(graph, &value_count);
    bool *live = TN__NEW_ARRAY(arena, value_count, bool);
    for (int i = 0; i < tn__graph_output_count(graph); i++) mark(arena, tn__graph_output_at(graph, i), live);
    for (int i = 0; i < tn__graph_symbol_count(graph); i++) mark(arena, tn__graph_symbol_at(graph, i)->value, live);
    for (int i = 0; i < tn__graph_node_count(graph); i++) {
      tn__node *node = tn__graph_node_at(graph, i);
      node->dead = !any_live(node, live);
    }
    tn__graph_sweep(graph);
  }
}
