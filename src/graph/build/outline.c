/* Composites that carry their bodies: nodes of a graph that become one, and the body of one as nodes of a graph. */
#include "graph/build/outline.h"

#include "base/invariant.h"
#include "graph/internal.h"

/* Copies `node` into `graph`, where `map` (by id) has the values that its operands are. */
static void copy_node(tn__graph *graph, const tn__node *node, tn__value **map) {
  tn__value **inputs = TN__NEW_ARRAY(graph->arena, node->input_count, tn__value *);
  for (int i = 0; i < node->input_count; i++) {
    tn__value *own = node->inputs[i];
    int64_t shape[TN__MAX_RANK];
    if (own != NULL && own->data != NULL && map[own->id] == NULL && tn__g_shape_const(own, shape))
      map[own->id] = tn__g_constant_value(graph, own->dtype, own->rank, shape, own->data, own->splat);
    inputs[i] = own == NULL ? NULL : map[own->id];
  }
  tn__graph_set_origin(graph, node->origin);
  const tn__node *copy = tn__node_create(graph, node->op, inputs, node->input_count, node->attrs, node->attr_count,
                                         node->graphs, node->graph_count);
  for (int i = 0; i < node->output_count; i++) map[node->outputs[i]->id] = copy->outputs[i];
}

void tn__g_copy_body(tn__graph *graph, const tn__graph *body, tn__value *const *inputs, tn__value **outputs) {
  const char *origin = graph->origin;
  tn__value **map = TN__NEW_ARRAY(graph->arena, body->values.count, tn__value *);
  for (int i = 0; i < body->inputs.count; i++) map[body->inputs.data[i]->id] = inputs[i];
  for (int i = 0; i < body->nodes.count; i++) copy_node(graph, body->nodes.data[i], map);
  tn__graph_set_origin(graph, origin);
  for (int i = 0; i < body->outputs.count; i++) outputs[i] = map[body->outputs.data[i].value->id];
}

/* One number, which kernels have in their code. */
static bool is_number(const tn__value *v) {
  bool one = v->data != NULL && v->dtype != TN_STRING;
  for (int d = 0; one && !v->splat && d < v->rank; d++) one = tn__ir_is_int_value(v->dims[d], 1);
  return one;
}

tn__node *tn__g_outline(tn__graph *graph, const char *op, tn__node *const *nodes, int count) {
  tn__graph *body = tn__graph_create(graph->ir, op);
  tn__value **map = TN__NEW_ARRAY(graph->arena, graph->values.count, tn__value *);
  TN__VEC(tn__value *) operands = {0};
  for (int i = 0; i < count; i++) {
    for (int j = 0; j < nodes[i]->input_count; j++) {
      tn__value *own = nodes[i]->inputs[j];
      if (own == NULL || map[own->id] != NULL || is_number(own)) continue;
      const char *name = tn__arena_printf(graph->arena, "x%d", operands.count);
      map[own->id] = tn__graph_input(body, name, own->dtype, own->rank, own->dims);
      tn__vec_push(graph->arena, &operands, own);
    }
    copy_node(body, nodes[i], map);
  }
  const tn__value *result = nodes[count - 1]->outputs[0], *own = map[result->id];
  bool same = body->symbols.count == 0 && own->dtype == result->dtype && own->rank == result->rank;
  for (int d = 0; same && d < own->rank; d++) same = own->dims[d] == result->dims[d];
  if (!same) return NULL; /* sizes that only the graph's own symbols can tell */
  tn__graph_output(body, "y", map[result->id]);
  tn__graph_set_origin(graph, nodes[count - 1]->origin);
  return tn__node_create(graph, tn__op_find(op), operands.data, operands.count, NULL, 0, &body, 1);
}

/* The nodes from number `first` on that the value is made by, the last of which makes it. */
TN_MUST_USE static int made_since(tn__graph *graph, int first, const tn__value *value, tn__node **out) {
  int count = graph->nodes.count - first, kept = 0;
  bool *needed = TN__NEW_ARRAY(graph->arena, graph->values.count, bool);
  needed[value->id] = true;
  for (int i = count - 1; i >= 0; i--) {
    tn__node *node = graph->nodes.data[first + i];
    bool wanted = false;
    for (int k = 0; k < node->output_count; k++) wanted = wanted || needed[node->outputs[k]->id];
    if (!wanted || node->dead) continue;
    for (int k = 0; k < node->input_count; k++)
      if (node->inputs[k] != NULL) needed[node->inputs[k]->id] = true;
    out[kept++] = node;
  }
  for (int i = 0; i < kept / 2; i++) {
    tn__node *node = out[i];
    out[i] = out[kept - 1 - i];
    out[kept - 1 - i] = node;
  }
  return kept;
}

tn__value *tn__g_enclose(tn__graph *graph, const char *op, int first, tn__value *result) {
  tn__node **nodes = TN__NEW_ARRAY(graph->arena, graph->nodes.count - first, tn__node *);
  int count = made_since(graph, first, result, nodes);
  const char *origin = graph->origin;
  const tn__node *whole = tn__g_outline(graph, op, nodes, count);
  tn__graph_set_origin(graph, origin);
  if (whole == NULL) return result;
  for (int i = 0; i < count; i++) nodes[i]->dead = true;
  return whole->outputs[0];
}

tn__node *tn__g_take_in(tn__graph *graph, const tn__node *composite, tn__node *producer) {
  int first = graph->nodes.count;
  tn__value *result = NULL;
  const char *origin = graph->origin;
  tn__g_copy_body(graph, composite->graphs[0], composite->inputs, &result);
  TN__INVARIANT(result != NULL); /* a composite's body has a result */
  tn__node **nodes = TN__NEW_ARRAY(graph->arena, graph->nodes.count - first + 1, tn__node *);
  nodes[0] = producer;
  int count = 1 + made_since(graph, first, result, nodes + 1);
  tn__node *whole = tn__g_outline(graph, composite->op->name, nodes, count);
  for (int i = 1; i < count; i++) nodes[i]->dead = true;
  tn__graph_set_origin(graph, origin);
  return whole;
}
