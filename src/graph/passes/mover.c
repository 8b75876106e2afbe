#include "graph/passes/mover.h"

#include "base/invariant.h"

static tn__mover_form *form_of(tn__mover *m, const tn__value *value) {
  while (m->forms.count <= (int)value->id) tn__vec_push(tn__graph_arena(m->graph), &m->forms, (tn__mover_form){0});
  return &m->forms.data[value->id];
}

bool tn__mover_has_followed(tn__mover *mover, const tn__value *value) { return form_of(mover, value)->followed; }

bool tn__mover_is_made(tn__mover *mover, const tn__value *value) { return form_of(mover, value)->moved != NULL; }

tn__value *tn__mover_moved(tn__mover *mover, tn__value *value) {
  TN__INVARIANT(value != NULL); /* operands that a node must have: checked when it is made */
  tn__value *moved = form_of(mover, value)->moved;
  if (moved == NULL) moved = mover->move(mover, value);
  return form_of(mover, value)->moved = moved;
}

tn__value *tn__mover_restored(tn__mover *mover, tn__value *value) {
  TN__INVARIANT(value != NULL); /* as above */
  const tn__mover_form form = *form_of(mover, value);
  if (!form.followed) return value;
  if (form.restored != NULL) return form.restored;
  TN__INVARIANT(form.moved != NULL); /* what has followed has a new form */
  tn__value *restored = mover->restore(mover, form.moved, value);
  tn__graph_keep_place(value, restored);
  return form_of(mover, value)->restored = restored;
}

static void visit(void *user, tn__node *node) {
  tn__mover *m = user;
  bool reads_moved = false, direct = false;
  for (int i = 0; i < node->input_count; i++)
    reads_moved = reads_moved || (node->inputs[i] != NULL && tn__mover_has_followed(m, node->inputs[i]));
  tn__value *result = m->follow(m, node, reads_moved, &direct);
  for (int i = 0; result == NULL && reads_moved && i < node->input_count; i++)
    if (node->inputs[i] != NULL) tn__node_set_input(m->graph, node, i, tn__mover_restored(m, node->inputs[i]));
  if (result == NULL) return;
  node->dead = true;
  if (direct) {
    tn__graph_replace_uses(m->graph, node->outputs[0], result);
    return;
  }
  tn__graph_keep_place(node->outputs[0], result);
  *form_of(m, node->outputs[0]) = (tn__mover_form){.moved = result, .followed = true};
  for (int i = 1; i < node->output_count; i++) { /* numbers of a row, of the same node made anew */
    tn__graph_keep_place(node->outputs[i], result->producer->outputs[i]);
    *form_of(m, node->outputs[i]) = (tn__mover_form){.moved = result->producer->outputs[i], .followed = true};
  }
}

void tn__mover_run(tn__mover *mover, tn__graph *graph) {
  mover->graph = graph;
  tn__pass_visit(graph, visit, mover);
  for (int i = 0; i < tn__graph_output_count(graph); i++)
    tn__graph_set_output(graph, i, tn__mover_restored(mover, tn__graph_output_at(graph, i)));
  tn__graph_sweep(graph);
}
