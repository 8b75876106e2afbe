/* What passes do to a graph: replacing values, counting uses, sweeping, checking. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/copy.h"
#include "graph/internal.h"

void tn__node_set_input(tn__graph *graph, tn__node *node, int index, tn__value *value) {
  if (node->inputs[index] == value) return;
  node->inputs[index] = value;
  if (value == NULL) return;
  tn__operand_place place = {node, index};
  tn__vec_push(graph->arena, &value->readers, place);
}

void tn__graph_move_symbols(tn__graph *graph, tn__value *from, tn__value *to) {
  if (from == to) return;
  tn__work_step(graph->arena, (uint64_t)from->symbols.count);
  for (int i = 0; i < from->symbols.count; i++)
    if (from->symbols.data[i]->value == from) tn__symbol_set_value(graph, from->symbols.data[i], to);
  from->symbols.count = 0;
}

void tn__graph_keep_place(const tn__value *from, tn__value *to) {
  if (to->device != NULL || to->place != NULL || to->data != NULL) return;
  to->device = from->device;
  to->place = from->place;
  to->in_any_memory = from->in_any_memory;
}

void tn__graph_replace_uses(tn__graph *graph, tn__value *from, tn__value *to) {
  if (from == to) return;
  tn__graph_keep_place(from, to);
  tn__work_step(graph->arena, (uint64_t)from->readers.count + (uint64_t)from->results.count);
  for (int i = 0; i < from->readers.count; i++) {
    const tn__operand_place place = from->readers.data[i];
    if (place.node->inputs[place.input] == from) tn__node_set_input(graph, place.node, place.input, to);
  }
  from->readers.count = 0;
  for (int i = 0; i < from->results.count; i++)
    if (graph->outputs.data[from->results.data[i]].value == from)
      tn__graph_set_output(graph, from->results.data[i], to);
  from->results.count = 0;
  tn__graph_move_symbols(graph, from, to);
  if (to->elements == NULL && to->rank == from->rank) to->elements = from->elements;
}

void tn__graph_move_behind(tn__graph *graph, int first, const tn__node *node) {
  int at = 0, count = graph->nodes.count - first;
  while (at < first && graph->nodes.data[at] != node) at++;
  if (at >= first || count <= 0) return;
  tn__node **moved = tn__arena_copy(graph->arena, graph->nodes.data + first, (size_t)count * sizeof(*moved));
  tn__copy_within(graph->nodes.data + at + 1 + count, graph->nodes.data + at + 1,
                  (size_t)(first - at - 1) * sizeof(*moved));
  tn__copy(graph->nodes.data + at + 1, moved, (size_t)count * sizeof(*moved));
}

int *tn__graph_use_counts(tn__graph *graph, int *value_count) {
  int *counts = TN__NEW_ARRAY(graph->arena, graph->values.count, int);
  for (int i = 0; i < graph->nodes.count; i++) {
    const tn__node *node = graph->nodes.data[i];
    if (node->dead) continue;
    for (int j = 0; j < node->input_count; j++)
      if (node->inputs[j] != NULL) counts[node->inputs[j]->id]++;
  }
  for (int i = 0; i < graph->outputs.count; i++) counts[graph->outputs.data[i].value->id]++;
  for (int i = 0; i < graph->symbols.count; i++) counts[graph->symbols.data[i]->value->id]++;
  if (value_count != NULL) *value_count = graph->values.count;
  return counts;
}

/* ---- symbols whose value became known ---------------------------------------------------------------------------- */

typedef struct substitution {
  const tn__var **vars;
  const tn__expr **values;
  int count;
} substitution;

static const tn__expr *known_value(const tn__symbol *symbol) {
  const tn__value *value = symbol->value;
  if (symbol->source == TN__SYMBOL_INPUT_DIM && value->extent.valid != NULL && value->extent.axis == symbol->index)
    return value->extent.valid;
  if (symbol->source == TN__SYMBOL_INPUT_DIM)
    return value->rank > symbol->index ? value->dims[symbol->index] : symbol->var->self;
  return value->elements != NULL ? value->elements[symbol->index] : symbol->var->self;
}

static const tn__expr *const *substitute_all(tn__graph *graph, const substitution *s, const tn__expr *const *exprs,
                                             int count) {
  const tn__expr **fresh = NULL;
  for (int i = 0; i < count; i++) {
    const tn__expr *e = tn__ir_substitute(graph->ir, exprs[i], s->vars, s->values, s->count);
    if (e == exprs[i]) continue;
    if (fresh == NULL) fresh = tn__arena_copy(graph->arena, exprs, (size_t)count * sizeof(*exprs));
    fresh[i] = e;
  }
  return fresh != NULL ? fresh : exprs;
}

static void substitute_attrs(tn__graph *graph, const substitution *s, tn__node *node) {
  tn__attr *fresh = NULL;
  for (int i = 0; i < node->attr_count; i++) {
    if (node->attrs[i].kind != TN__ATTR_EXPRS) continue;
    const tn__expr *const *exprs = substitute_all(graph, s, node->attrs[i].exprs, node->attrs[i].count);
    if (exprs == node->attrs[i].exprs) continue;
    if (fresh == NULL) {
      fresh = tn__arena_copy(graph->arena, node->attrs, (size_t)node->attr_count * sizeof(*fresh));
      node->attrs = fresh;
    }
    fresh[i].exprs = exprs;
  }
}

static _Noreturn void throw_check(const tn__graph *graph, const tn__check_at_run *check) {
  tn__strbuf text;
  tn__strbuf_init(&text, graph->arena->allocator);
  tn__graph_check_text(graph, check, NULL, NULL, &text);
  tn_status *status = tn_status_create(TN_INVALID_ARGUMENT, "%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  if (check->origin != NULL) status = tn_status_prefix(status, "%s", check->origin);
  tn__throw(graph->arena->escape, status);
}

static void substitute_checks(tn__graph *graph, const substitution *s) {
  int kept = 0;
  for (int i = 0; i < graph->sizes.count; i++)
    graph->sizes.data[i] = tn__ir_substitute(graph->ir, graph->sizes.data[i], s->vars, s->values, s->count);
  for (int i = 0; i < graph->checks.count; i++) {
    tn__check_at_run check = graph->checks.data[i];
    check.condition = tn__ir_substitute(graph->ir, check.condition, s->vars, s->values, s->count);
    if (tn__ir_is_false(check.condition)) throw_check(graph, &check);
    if (!tn__ir_is_true(check.condition)) graph->checks.data[kept++] = check;
  }
  graph->checks.count = kept;
}

static void substitute_extent(tn__graph *graph, const substitution *s, tn__extent *extent) {
  if (extent->valid != NULL) extent->valid = tn__ir_substitute(graph->ir, extent->valid, s->vars, s->values, s->count);
}

/* In all of a graph, and in the bodies of its composites, which are over the same symbols. */
static void substitute_graph(tn__graph *graph, const substitution *s) {
  for (int i = 0; i < graph->values.count; i++) {
    tn__value *value = graph->values.data[i];
    value->dims = substitute_all(graph, s, value->dims, value->rank);
    if (value->held != NULL) {
      tn__held held = *value->held;
      held.dims = substitute_all(graph, s, held.dims, held.rank);
      tn__value_hold(graph, value, &held);
    }
    int count = tn__g_element_count(value->rank, value->dims);
    if (value->elements != NULL) value->elements = count < 0 ? NULL : substitute_all(graph, s, value->elements, count);
    substitute_extent(graph, s, &value->extent);
  }
  for (int i = 0; i < graph->outputs.count; i++) substitute_extent(graph, s, &graph->outputs.data[i].extent);
  for (int i = 0; i < graph->nodes.count; i++) {
    tn__node *node = graph->nodes.data[i];
    substitute_attrs(graph, s, node);
    if (tn__composite_body(node) != NULL) substitute_graph(node->graphs[0], s);
  }
  substitute_checks(graph, s);
}

/* One round; values may again read symbols that are known, so the caller repeats. */
static bool resolve_symbols(tn__graph *graph) {
  substitution s = {TN__NEW_ARRAY(graph->arena, graph->symbols.count, const tn__var *),
                    TN__NEW_ARRAY(graph->arena, graph->symbols.count, const tn__expr *), 0};
  int kept = 0;
  for (int i = 0; i < graph->symbols.count; i++) {
    tn__symbol *symbol = graph->symbols.data[i];
    const tn__expr *known = known_value(symbol);
    if (known == symbol->var->self || tn__expr_uses_var(known, symbol->var)) {
      graph->symbols.data[kept++] = symbol;
      continue;
    }
    s.vars[s.count] = symbol->var;
    s.values[s.count++] = known;
  }
  graph->symbols.count = kept;
  if (s.count == 0) return false;
  substitute_graph(graph, &s);
  return true;
}

/* ---- sweeping ---------------------------------------------------------------------------------------------------- */

typedef struct symbol_set {
  bool *has;         /* by symbol */
  TN__VEC(int) list; /* those that it has */
} symbol_set;

static void mark_symbols(const tn__graph *graph, const tn__expr *e, symbol_set *used) {
  int count;
  const uint32_t *vars = tn__expr_vars(e, &count);
  tn__work_step(graph->arena, (uint64_t)count);
  for (int i = 0; i < count; i++) {
    int index = tn__symbol_index(graph, vars[i]);
    if (index < 0 || used->has[index]) continue;
    used->has[index] = true;
    tn__vec_push(graph->arena, &used->list, index);
  }
}

/* The symbols in a node's attributes and results. */
static void mark_node_symbols(const tn__graph *graph, const tn__node *node, symbol_set *used) {
  if (graph->symbols.count == 0) return; /* nodes are far apart in large graphs, and what they hold farther */
  for (int i = 0; i < node->attr_count; i++)
    if (node->attrs[i].kind == TN__ATTR_EXPRS)
      for (int j = 0; j < node->attrs[i].count; j++) mark_symbols(graph, node->attrs[i].exprs[j], used);
  for (int i = 0; i < node->output_count; i++)
    for (int j = 0; j < node->outputs[i]->rank; j++) mark_symbols(graph, node->outputs[i]->dims[j], used);
  const tn__graph *body = tn__composite_body(node);
  for (int i = 0; body != NULL && i < body->nodes.count; i++) mark_node_symbols(graph, body->nodes.data[i], used);
}

typedef struct order {
  tn__graph *graph;
  uint8_t *state;  /* by node id: 0 new, 1 its dependencies are on the stack, 2 placed */
  symbol_set used; /* scratch: by one node, empty in between */
  TN__VEC(tn__node *) stack;
  TN__VEC(tn__node *) placed;
} order;

static void push_dependency(order *o, const tn__node *of, tn__node *node) {
  if (node == NULL || node == of || o->state[node->id] == 2) return;
  if (node->dead)
    tn__graph_fail(o->graph, TN_INTERNAL, "node %s%u reads a dead node (%s%u)", of->op->name, of->id, node->op->name,
                   node->id);
  if (o->state[node->id] == 1)
    tn__graph_fail(o->graph, TN_INTERNAL, "the graph has a cycle through %s%u", of->op->name, of->id);
  tn__vec_push(o->graph->arena, &o->stack, node);
}

static int by_number_down(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x < y) - (x > y);
}

static void push_dependencies(order *o, const tn__node *node) {
  tn__graph *graph = o->graph;
  symbol_set *used = &o->used;
  mark_node_symbols(graph, node, used);
  if (used->list.count > 1) qsort(used->list.data, (size_t)used->list.count, sizeof(int), by_number_down);
  for (int i = 0; i < used->list.count; i++) {
    used->has[used->list.data[i]] = false;
    push_dependency(o, node, graph->symbols.data[used->list.data[i]]->value->producer);
  }
  used->list.count = 0;
  for (int i = node->input_count - 1; i >= 0; i--)
    if (node->inputs[i] != NULL) push_dependency(o, node, node->inputs[i]->producer);
}

static void restore_order(tn__graph *graph) {
  order o = {.graph = graph,
             .state = TN__NEW_ARRAY(graph->arena, graph->next_node_id, uint8_t),
             .used = {.has = TN__NEW_ARRAY(graph->arena, graph->symbols.count, bool)}};
  for (int i = 0; i < graph->nodes.count; i++) {
    if (graph->nodes.data[i]->dead) continue;
    tn__vec_push(graph->arena, &o.stack, graph->nodes.data[i]);
    while (o.stack.count > 0) {
      tn__node *node = o.stack.data[o.stack.count - 1];
      if (o.state[node->id] == 0) {
        o.state[node->id] = 1;
        push_dependencies(&o, node);
        continue;
      }
      o.stack.count--;
      if (o.state[node->id] == 2) continue;
      o.state[node->id] = 2;
      tn__vec_push(graph->arena, &o.placed, node);
    }
  }
  graph->nodes.count = 0;
  for (int i = 0; i < o.placed.count; i++) tn__vec_push(graph->arena, &graph->nodes, o.placed.data[i]);
}

void tn__graph_drop_symbols(tn__graph *graph, int first) {
  symbol_set used = {.has = TN__NEW_ARRAY(graph->arena, graph->symbols.count, bool)};
  for (int i = 0; i < graph->nodes.count; i++) mark_node_symbols(graph, graph->nodes.data[i], &used);
  for (int i = 0; i < graph->inputs.count; i++) {
    const tn__value *input = graph->inputs.data[i];
    for (int j = 0; j < input->rank; j++) mark_symbols(graph, input->dims[j], &used);
    if (input->extent.valid != NULL) mark_symbols(graph, input->extent.valid, &used);
  }
  for (int i = 0; i < graph->outputs.count; i++)
    if (graph->outputs.data[i].extent.valid != NULL) mark_symbols(graph, graph->outputs.data[i].extent.valid, &used);
  for (int i = 0; i < graph->checks.count; i++) mark_symbols(graph, graph->checks.data[i].condition, &used);
  /* What is known of a flag, a loop's condition above all, is wanted as an expression, too. */
  for (int i = 0; i < graph->outputs.count; i++) {
    const tn__value *value = graph->outputs.data[i].value;
    if (value->dtype == TN_BOOL && value->elements != NULL && tn__g_element_count(value->rank, value->dims) == 1)
      mark_symbols(graph, value->elements[0], &used);
  }
  int kept = 0;
  for (int i = 0; i < graph->symbols.count; i++) {
    tn__symbol *symbol = graph->symbols.data[i];
    if (used.has[i] || i < first) {
      graph->symbols.data[kept++] = symbol;
    } else if (symbol->source == TN__SYMBOL_ELEMENT && symbol->value->elements != NULL) {
      symbol->value->elements = NULL; /* so that asking again makes new symbols */
    }
  }
  graph->symbols.count = kept;
}

void tn__graph_sweep(tn__graph *graph) {
  while (resolve_symbols(graph)) continue;
  int live = 0;
  for (int i = 0; i < graph->nodes.count; i++)
    if (!graph->nodes.data[i]->dead) graph->nodes.data[live++] = graph->nodes.data[i];
  graph->nodes.count = live;
  tn__graph_drop_symbols(graph, 0);
  restore_order(graph);
}

/* ---- verifier ---------------------------------------------------------------------------------------------------- */

static bool is_input(const tn__graph *graph, const tn__value *value) {
  for (int i = 0; i < graph->inputs.count; i++)
    if (graph->inputs.data[i] == value) return true;
  return false;
}

static tn_status *verify_value(const tn__graph *graph, const tn__value *value, const bool *placed, const char *reader) {
  if (value->id >= (uint32_t)graph->values.count || graph->values.data[value->id] != value)
    return tn_status_create(TN_INTERNAL, "graph \"%s\": %s reads \"%s\", which belongs to another graph", graph->name,
                            reader, value->name);
  if (value->held != NULL && !tn__value_is_held(graph, value))
    return tn_status_create(TN_INTERNAL, "graph \"%s\": %s reads \"%s\", which is %s: these do not belong together",
                            graph->name, reader, value->name, tn__value_type_text(graph, value));
  if (value->producer == NULL) {
    if (value->data != NULL || is_input(graph, value)) return NULL;
    return tn_status_create(TN_INTERNAL, "graph \"%s\": %s reads \"%s\", which nothing makes", graph->name, reader,
                            value->name);
  }
  if (!placed[value->producer->id] || value->producer->outputs[value->producer_index] != value)
    return tn_status_create(TN_INTERNAL, "graph \"%s\": %s reads \"%s\" before it is made", graph->name, reader,
                            value->name);
  return NULL;
}

/* Every operand, output and symbol's source that its value does not know of is an error. */
static tn_status *verify_uses(const tn__graph *graph) {
  int *first = TN__NEW_ARRAY(graph->arena, graph->next_node_id, int); /* by node: where its operands are in `known` */
  int operands = 0, places = 0, unknown = 0;
  for (int i = 0; i < graph->nodes.count; i++) {
    first[graph->nodes.data[i]->id] = operands;
    operands += graph->nodes.data[i]->input_count;
  }
  bool *known = TN__NEW_ARRAY(graph->arena, operands, bool);
  bool *outputs = TN__NEW_ARRAY(graph->arena, graph->outputs.count, bool);
  for (int i = 0; i < graph->values.count; i++) {
    const tn__value *value = graph->values.data[i];
    for (int r = 0; r < value->readers.count; r++) {
      const tn__operand_place *place = &value->readers.data[r];
      if (!place->node->dead && place->node->inputs[place->input] == value)
        known[first[place->node->id] + place->input] = true;
    }
    for (int r = 0; r < value->results.count; r++)
      outputs[value->results.data[r]] |= graph->outputs.data[value->results.data[r]].value == value;
  }
  for (int i = 0; i < graph->nodes.count; i++)
    for (int j = 0; j < graph->nodes.data[i]->input_count; j++, places++)
      unknown += !known[places] && !graph->nodes.data[i]->dead && graph->nodes.data[i]->inputs[j] != NULL;
  if (unknown > 0)
    return tn_status_create(TN_INTERNAL, "graph \"%s\": an operand was not set by tn__node_set_input", graph->name);
  for (int i = 0; i < graph->outputs.count; i++)
    if (!outputs[i])
      return tn_status_create(TN_INTERNAL, "graph \"%s\": an output was not set by tn__graph_set_output", graph->name);
  for (int i = 0; i < graph->symbols.count; i++) {
    const tn__symbol *symbol = graph->symbols.data[i];
    int at = 0;
    while (at < symbol->value->symbols.count && symbol->value->symbols.data[at] != symbol) at++;
    if (at == symbol->value->symbols.count)
      return tn_status_create(TN_INTERNAL, "graph \"%s\": symbol %s was not set by tn__symbol_set_value", graph->name,
                              symbol->var->name);
  }
  return NULL;
}

tn_status *tn__graph_verify(tn__graph *graph) {
  TN_RETURN_IF_ERROR(verify_uses(graph));
  bool *placed = TN__NEW_ARRAY(graph->arena, graph->next_node_id, bool);
  for (int i = 0; i < graph->nodes.count; i++) {
    const tn__node *node = graph->nodes.data[i];
    if (node->dead) continue;
    for (int j = 0; j < node->input_count; j++)
      if (node->inputs[j] != NULL) TN_RETURN_IF_ERROR(verify_value(graph, node->inputs[j], placed, node->op->name));
    for (int j = 0; j < node->graph_count; j++) TN_RETURN_IF_ERROR(tn__graph_verify(node->graphs[j]));
    if (placed[node->id])
      return tn_status_create(TN_INTERNAL, "graph \"%s\": node %s%u stands there twice", graph->name, node->op->name,
                              node->id);
    placed[node->id] = true;
  }
  for (int i = 0; i < graph->outputs.count; i++) {
    TN_RETURN_IF_ERROR(verify_value(graph, graph->outputs.data[i].value, placed, "the result"));
    if (graph->outputs.data[i].value->held != NULL)
      return tn_status_create(TN_INTERNAL, "graph \"%s\": its result \"%s\" is %s: a result has no layout", graph->name,
                              graph->outputs.data[i].name, tn__value_type_text(graph, graph->outputs.data[i].value));
  }
  return NULL;
}
