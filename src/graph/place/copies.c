/* A plan becomes part of the graph: annotations go, copies come, and every value says where it lives. */
#include <string.h>

#include "base/invariant.h"
#include "base/map.h"
#include "graph/internal.h"
#include "graph/place/plan.h"

/* What a value is in another place, made once: a copy, or a constant of its own. */
typedef struct twin {
  const tn__virtual_device *device;
  tn__value *value;
  int next; /* one more than its number; 0: none */
} twin;

/* A use of a value that has to be on a device; in lists by scope. */
typedef struct wanted {
  tn__plan_edge edge;
  const tn__virtual_device *device;
  int next; /* one more than its number; 0: none */
} wanted;

typedef struct rewriter {
  tn__plan *plan;
  int *first; /* by value: of its twins */
  TN__VEC(twin) twins;
  int *of_scope; /* by scope: of its uses */
  TN__VEC(wanted) uses;
} rewriter;

static twin *find_twin(rewriter *r, int from, const tn__virtual_device *device) {
  for (int t = r->first[from]; t != 0; t = r->twins.data[t - 1].next) {
    TN__INVARIANT(r->twins.data != NULL);
    if (r->twins.data[t - 1].device == device) return &r->twins.data[t - 1];
  }
  return NULL;
}

static tn__value *twin_of(rewriter *r, int from, const tn__virtual_device *device) {
  const twin *found = find_twin(r, from, device);
  return found != NULL ? found->value : NULL;
}

/* The value is not there yet. */
static void expect_twin(rewriter *r, int from, const tn__virtual_device *device) {
  twin t = {device, NULL, r->first[from]};
  tn__vec_push(r->plan->arena, &r->twins, t);
  r->first[from] = r->twins.count;
}

static bool is_global(const tn__virtual_device *device) {
  return device->memory_scope == NULL || strcmp(device->memory_scope, TN__SCOPE_NAME_GLOBAL) == 0;
}

/* Of its memory nothing is said but by those that it is handed on to. */
static void put_on(tn__value *value, const tn__virtual_device *device) {
  value->device = device;
  value->in_any_memory = is_global(device);
}

static void add_twin(rewriter *r, int from, const tn__virtual_device *device, tn__value *value) {
  tn__place_result *result = &r->plan->result;
  if (value->device != device) put_on(value, device);
  if (device != r->plan->config->primitive && result->elsewhere == NULL) result->elsewhere = value;
  if (find_twin(r, from, device) == NULL) expect_twin(r, from, device);
  find_twin(r, from, device)->value = value;
}

static tn__value *make_copy(rewriter *r, tn__graph *graph, tn__value *value, const tn__virtual_device *device) {
  const char *to = tn__virtual_device_text(r->plan->arena, device), *origin = tn__graph_origin(graph);
  tn__attr attr = tn__attr_string(graph, "to", to);
  tn__graph_set_origin(graph, value->producer != NULL ? value->producer->origin : NULL);
  tn__node *node = tn__node_create(graph, tn__op_find("device_copy"), &value, 1, &attr, 1, NULL, 0);
  tn__graph_set_origin(graph, origin);
  r->plan->result.copies++;
  return node->outputs[0];
}

/* The value as it is read on a device. */
static tn__value *on_device(rewriter *r, tn__graph *graph, int from, const tn__virtual_device *device) {
  tn__value *value = r->plan->values.data[from].value, *found = twin_of(r, from, device);
  if (found != NULL || value->device == device) return found != NULL ? found : value;
  if (value->data != NULL) {
    found = tn__g_constant_like(graph, value, value->data, value->splat);
    r->plan->result.constants++;
  } else {
    found = make_copy(r, graph, value, device);
  }
  add_twin(r, from, device, found);
  return found;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool is(const tn__node *node, tn__op_fact fact) { return node != NULL && tn__op_has(node, fact); }

/* A constant lives where it is read first, by rank, so that which one is the copy depends on no order. */
static void place_constants(tn__plan *plan) {
  const tn__virtual_device **best = TN__NEW_ARRAY(plan->arena, plan->host, const tn__virtual_device *);
  for (int i = 0; i < plan->edges.count; i++) {
    int from = plan->edges.data[i].from;
    const tn__virtual_device *device = tn__plan_device(plan, plan->edges.data[i].to);
    if (plan->values.data[from].value->data == NULL) continue;
    if (best[from] == NULL ||
        tn__compile_config_rank(plan->config, device) < tn__compile_config_rank(plan->config, best[from]))
      best[from] = device;
  }
  for (int i = 0; i < plan->host; i++) {
    tn__value *value = plan->values.data[i].value;
    if (value != NULL && value->data != NULL && best[i] != NULL && value->device == NULL && value->place == NULL)
      value->device = best[i], value->in_any_memory = true;
  }
}

/* Why a value is where it is: whose choice its memory is, what was said of it, or of another that it is
 * together with, or by which rule. */
static const char *why(tn__plan *plan, int value) {
  const tn__plan_value *v = &plan->values.data[value];
  const tn__plan_domain *d = &plan->domains.data[tn__plan_find(plan, value)];
  const tn__plan_cause *cause = d->cause < 0 ? NULL : &plan->causes.data[d->cause];
  const char *chosen = tn__plan_why_scope(plan, value);
  if (chosen != NULL) return chosen;
  if (v->rule != NULL && !v->host) return v->rule->placed;
  if (cause == NULL || cause->value == value || cause->value == plan->host) return cause == NULL ? d->why : cause->text;
  return tn__arena_printf(plan->arena, "with %s: %s", tn__plan_value_name(plan, cause->value), cause->text);
}

static void set_devices(tn__plan *plan) {
  bool told = false;
  place_constants(plan);
  for (int i = 0; i < plan->host; i++) {
    tn__value *value = plan->values.data[i].value;
    if (value == NULL) continue;
    if (value->device == NULL) {
      value->device = tn__plan_device(plan, i);
      value->in_any_memory = !tn__plan_has_scope(plan, i);
    }
    value->device = tn__plan_with_scope(plan, i, value->device);
    plan->result.values++;
    if (plan->options->tells && (value->data == NULL || value->choice != NULL)) value->placed = why(plan, i);
    bool away = value->device != plan->config->primitive && !is(value->producer, TN__FACT_SAYS_PLACE);
    bool ruled = away && !told && plan->values.data[i].rule != NULL;
    if (ruled || (away && plan->result.elsewhere == NULL)) plan->result.elsewhere = value;
    told |= ruled; /* the first that somebody placed says more than what followed it */
  }
}

static const tn__virtual_device *device_at(const rewriter *r, int value) {
  return r->plan->values.data[value].value->device;
}

/* What annotations and copies are of. */
static int base_of(const tn__plan *plan, int scope, int value) {
  while (true) {
    const tn__node *node = plan->values.data[value].value->producer;
    if (!is(node, TN__FACT_SAYS_PLACE) && !is(node, TN__FACT_COPIES)) return value;
    value = tn__plan_index(plan, scope, node->inputs[0]);
  }
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void want(rewriter *r, const tn__plan_edge *edge, const tn__virtual_device *device) {
  wanted w = {*edge, device, r->of_scope[edge->scope]};
  tn__vec_push(r->plan->arena, &r->uses, w);
  r->of_scope[edge->scope] = r->uses.count;
}

/* Which variable of the loop a body's input is, when no round changes it; -1: none. */
static int constant_of_loop(const tn__plan *plan, int scope, int value) {
  const tn__plan_scope *s = &plan->scopes.data[scope];
  int k = plan->values.data[value].formal;
  if (k < 0 || s->node == NULL || !tn__op_has(s->node, TN__FACT_LOOPS)) return -1;
  const tn__graph *round = s->node->graphs[1];
  return tn__graph_output_at(round, k) == tn__graph_input_at(round, k) ? k : -1;
}

/* In the plan `value` is what `old` was. */
static void take_place(tn__plan *plan, int scope, const tn__value *old, tn__value *value) {
  tn__plan_scope *s = &plan->scopes.data[scope];
  int index = tn__plan_index(plan, scope, old);
  while (s->late.count <= (int)value->id - s->limit) tn__vec_push(plan->arena, &s->late, -1);
  s->late.data[(int)value->id - s->limit] = index;
  plan->values.data[index].value = value;
}

/* A variable that the loop gets: what its variable `k` is on a device. */
typedef struct hoisted {
  int k;
  const tn__virtual_device *device;
} hoisted;

static tn__node *wider_node(rewriter *r, const tn__plan_scope *s, const hoisted *more, int more_count) {
  tn__plan *plan = r->plan;
  tn__graph *outer = plan->scopes.data[s->outer].graph;
  tn__node *old = s->node;
  int count = old->input_count;
  tn__value **inputs = TN__NEW_ARRAY(plan->arena, count + more_count, tn__value *);
  memcpy(inputs, old->inputs, (size_t)count * sizeof *inputs);
  for (int i = 0; i < more_count; i++) inputs[count + i] = old->inputs[more[i].k];
  const char *origin = tn__graph_origin(outer);
  tn__graph_set_origin(outer, old->origin);
  tn__node *wide = tn__node_create(outer, old->op, inputs, count + more_count, old->attrs, old->attr_count, old->graphs,
                                   old->graph_count);
  tn__graph_set_origin(outer, origin);
  for (int i = 0; i < count; i++) {
    wide->outputs[i]->device = old->outputs[i]->device;
    wide->outputs[i]->in_any_memory = old->outputs[i]->in_any_memory;
    wide->outputs[i]->placed = old->outputs[i]->placed;
    take_place(plan, s->outer, old->outputs[i], wide->outputs[i]);
    tn__graph_replace_uses(outer, old->outputs[i], wide->outputs[i]);
  }
  for (int i = 0; i < more_count; i++) put_on(wide->outputs[count + i], more[i].device);
  old->dead = true;
  return wide;
}

/* "x@opencl:0", which no input of the body has. */
static const char *new_name(tn__map *names, const char *name, const char *device) {
  const char *text = tn__arena_printf(names->arena, "%s@%s", name, device);
  while (tn__map_has(names, text)) text = tn__arena_printf(names->arena, "%s'", text);
  tn__map_set(names, text, names);
  return text;
}

/* The bodies of a loop take more variables, which no round changes and which stand for copies there. */
static void widen_bodies(rewriter *r, const tn__plan_scope *s, const hoisted *more, int count) {
  tn__plan *plan = r->plan;
  for (int b = 0; b < 2; b++) {
    tn__graph *body = s->node->graphs[b];
    tn__map names;
    tn__map_init(&names, plan->arena);
    for (int i = 0; i < tn__graph_input_count(body); i++)
      tn__map_set(&names, tn__graph_input_at(body, i)->name, &names);
    for (int i = 0; i < count; i++) {
      tn__value *like = tn__graph_input_at(body, more[i].k);
      const char *name = new_name(&names, like->name, tn__virtual_device_text(plan->arena, more[i].device));
      tn__value *again = tn__graph_input(body, name, like->dtype, like->rank, like->dims);
      if (b == 1) tn__graph_output(body, again->name, again);
      add_twin(r, tn__plan_index(plan, s->first + b, like), more[i].device, again);
    }
  }
}

/* The loop around a body takes operands once more, as they are on other devices, for all uses in the body at once. */
static void widen_loop(rewriter *r, int scope) {
  tn__plan *plan = r->plan;
  tn__plan_scope *s = &plan->scopes.data[scope];
  const tn__node *old = s->node;
  TN__VEC(hoisted) more = {0};
  if (old == NULL || !tn__op_has(old, TN__FACT_LOOPS)) return;
  for (int u = r->of_scope[scope], next; u != 0; u = next) {
    TN__INVARIANT(r->uses.data != NULL);
    const wanted *w = &r->uses.data[u - 1];
    next = w->next;
    int from = base_of(plan, scope, w->edge.from), k = constant_of_loop(plan, scope, from);
    if (k < 0 || plan->values.data[from].value->device == w->device || find_twin(r, from, w->device) != NULL) continue;
    expect_twin(r, from, w->device);
    tn__vec_push(plan->arena, &more, ((hoisted){k, w->device}));
  }
  if (more.count == 0) return;
  widen_bodies(r, s, more.data, more.count);
  tn__node *wide = wider_node(r, s, more.data, more.count);
  for (int b = 0; b < 2; b++) plan->scopes.data[s->first + b].node = wide;
  for (int i = 0; i < more.count; i++) {
    int operand = wide->input_count - more.count + i;
    int start = base_of(plan, s->outer, tn__plan_index(plan, s->outer, old->inputs[more.data[i].k]));
    tn__plan_edge edge = {s->outer, start, start, TN__PLAN_OPERAND, wide, operand, s->first};
    want(r, &edge, more.data[i].device);
    plan->result.hoisted++;
  }
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

static void use_instead(tn__plan *plan, const tn__plan_edge *e, tn__value *value) {
  tn__graph *graph = plan->scopes.data[e->scope].graph;
  tn__node *node = e->bodies > 0 ? plan->scopes.data[e->bodies].node : e->node;
  const tn__value *now = e->place == TN__PLAN_OPERAND  ? node->inputs[e->index]
                         : e->place == TN__PLAN_OUTPUT ? tn__graph_output_at(graph, e->index)
                                                       : e->symbol->value;
  if (now == value) return;
  plan->changed = true;
  if (e->place == TN__PLAN_OPERAND)
    tn__node_set_input(graph, node, e->index, value);
  else if (e->place == TN__PLAN_OUTPUT)
    tn__graph_set_output(graph, e->index, value);
  else
    tn__symbol_set_value(graph, e->symbol, value);
}

static void serve(rewriter *r, const wanted *w) {
  tn__plan *plan = r->plan;
  const tn__plan_edge *e = &w->edge;
  int from = base_of(plan, e->scope, e->from);
  use_instead(plan, e, on_device(r, plan->scopes.data[e->scope].graph, from, w->device));
}

/* Copies that are there already serve whoever needs them, unless they copy to where their operand is. */
static void keep_copies(rewriter *r, int scope) {
  tn__plan *plan = r->plan;
  tn__graph *graph = plan->scopes.data[scope].graph;
  for (int i = 0; i < tn__graph_node_count(graph) && plan->scopes.data[scope].stand_ins; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    if (!is(node, TN__FACT_COPIES)) continue;
    tn__value *copy = node->outputs[0];
    int from = base_of(plan, scope, tn__plan_index(plan, scope, node->inputs[0]));
    if (device_at(r, from) == copy->device || twin_of(r, from, copy->device) != NULL) continue;
    tn__node_set_input(graph, node, 0, plan->values.data[from].value);
    add_twin(r, from, copy->device, copy);
    plan->result.copies++;
  }
}

static bool is_read(const tn__graph *graph, const tn__value *value) {
  for (int i = 0; i < value->readers.count; i++) {
    const tn__node *node = value->readers.data[i].node;
    if (!node->dead && node->inputs[value->readers.data[i].input] == value) return true;
  }
  for (int i = 0; i < value->results.count; i++)
    if (tn__graph_output_at(graph, value->results.data[i]) == value) return true;
  for (int i = 0; i < value->symbols.count; i++)
    if (value->symbols.data[i]->value == value) return true;
  return false;
}

static bool is_made_here(const rewriter *r, int scope, const tn__value *value) {
  return value->id >= (uint32_t)r->plan->scopes.data[scope].limit;
}

/* Replaces annotations and duplicate copies by the remaining value on that device, readers first. */
static void drop_annotations(rewriter *r, int scope) {
  tn__plan *plan = r->plan;
  tn__graph *graph = plan->scopes.data[scope].graph;
  for (int i = tn__graph_node_count(graph); i-- > 0 && plan->scopes.data[scope].stand_ins;) {
    tn__node *node = tn__graph_node_at(graph, i);
    if (node->dead || (!is(node, TN__FACT_SAYS_PLACE) && !is(node, TN__FACT_COPIES))) continue;
    tn__value *own = node->outputs[0];
    if (is_made_here(r, scope, own)) continue;
    int from = base_of(plan, scope, tn__plan_index(plan, scope, own));
    if (twin_of(r, from, own->device) == own) continue; /* other readers may still be redirected to it */
    if (is_read(graph, own)) tn__graph_replace_uses(graph, own, on_device(r, graph, from, own->device));
    node->dead = plan->changed = true;
  }
}

/* Removes copies without readers, once all redirections are done. The operand of a copy is never a copy here, so
 * order does not matter. */
static void drop_unread_copies(rewriter *r, int scope) {
  tn__plan *plan = r->plan;
  tn__graph *graph = plan->scopes.data[scope].graph;
  for (int i = tn__graph_node_count(graph); i-- > 0 && plan->scopes.data[scope].stand_ins;) {
    tn__node *node = tn__graph_node_at(graph, i);
    if (node->dead || !is(node, TN__FACT_COPIES) || is_read(graph, node->outputs[0])) continue;
    plan->result.copies--;
    node->dead = plan->changed = true;
  }
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

typedef struct reads {
  int count;
  bool elements; /* sizes are made of its elements */
} reads;

static reads reads_of(const tn__graph *graph, const tn__value *value) {
  reads r = {0};
  for (int i = 0; i < value->readers.count; i++) {
    const tn__node *node = value->readers.data[i].node;
    r.count += !node->dead && node->inputs[value->readers.data[i].input] == value;
  }
  for (int i = 0; i < value->results.count; i++) r.count += tn__graph_output_at(graph, value->results.data[i]) == value;
  for (int i = 0; i < value->symbols.count; i++) {
    const tn__symbol *symbol = value->symbols.data[i];
    r.elements |= symbol->value == value && symbol->source == TN__SYMBOL_ELEMENT;
  }
  return r;
}

static tn__value *copy_like(rewriter *r, tn__graph *graph, tn__value *value, const tn__value *copied) {
  tn__value *copy = make_copy(r, graph, value, copied->device);
  copy->device = copied->device;
  copy->in_any_memory = copied->in_any_memory;
  return copy;
}

/* The branch hands the arms `from`, and the one that reads it copies it. */
static void copy_in_arm(rewriter *r, tn__node *branch, int k, tn__value *from, int arm) {
  const tn__value *copied = branch->inputs[k];
  for (int b = 0; b < 2; b++) {
    tn__value *taken = tn__graph_input_at(branch->graphs[b], k - 1);
    taken->device = from->device;
    taken->in_any_memory = from->in_any_memory;
    if (r->plan->options->tells) taken->placed = "copied in the arm that reads it";
  }
  tn__graph *graph = branch->graphs[arm];
  tn__value *taken = tn__graph_input_at(graph, k - 1), *copy = NULL;
  r->plan->result.copies--;
  for (int i = 0, readers = taken->readers.count; i < readers; i++) {
    const tn__operand_place at = taken->readers.data[i];
    if (at.node->dead || at.node->inputs[at.input] != taken) continue;
    if (!is(at.node, TN__FACT_COPIES))
      tn__node_set_input(graph, at.node, at.input, copy = copy != NULL ? copy : copy_like(r, graph, taken, copied));
    else if (at.node->outputs[0]->device == from->device) /* back to where it came from */
      tn__graph_replace_uses(graph, at.node->outputs[0], taken), at.node->dead = true, r->plan->result.copies--;
  }
  for (int i = 0, results = taken->results.count; i < results; i++)
    if (tn__graph_output_at(graph, taken->results.data[i]) == taken)
      tn__graph_set_output(graph, taken->results.data[i],
                           copy = copy != NULL ? copy : copy_like(r, graph, taken, copied));
  tn__graph_sweep(graph);
}

/* A copy that nobody reads but one arm of a branch is made there: it is not made for nothing when the other one runs.
 * In a loop that changes it in no round it stands before the loop by now. */
static void move_into_arms(rewriter *r, tn__graph *graph, tn__node *branch) {
  for (int k = 1; k < branch->input_count; k++) {
    tn__node *copy = branch->inputs[k]->producer;
    if (!is(copy, TN__FACT_COPIES) || reads_of(graph, copy->outputs[0]).count > 1) continue;
    if (reads_of(graph, copy->outputs[0]).elements) continue;
    reads arms[2];
    for (int b = 0; b < 2; b++) arms[b] = reads_of(branch->graphs[b], tn__graph_input_at(branch->graphs[b], k - 1));
    if (arms[0].elements || arms[1].elements || (arms[0].count > 0) == (arms[1].count > 0)) continue;
    tn__value *from = copy->inputs[0];
    copy_in_arm(r, branch, k, from, arms[1].count > 0);
    tn__node_set_input(graph, branch, k, from);
    copy->dead = true;
  }
}

/* Outer ones first: what is moved into an arm may go on into one in it. */
static void move_copies_into_arms(rewriter *r) {
  for (int s = 0; s < r->plan->scopes.count; s++) {
    tn__graph *graph = r->plan->scopes.data[s].graph;
    for (int i = 0; i < tn__graph_node_count(graph) && r->plan->scopes.data[s].controls; i++) {
      tn__node *node = tn__graph_node_at(graph, i);
      if (!node->dead && node->graph_count == 2 && node->op->lowering == TN__LOWER_CONTROL && !is(node, TN__FACT_LOOPS))
        move_into_arms(r, graph, node);
    }
    tn__graph_sweep(graph);
  }
}

/* What was said to be in global memory is so for whoever reads the graph's text, too; of a device's text that is no
 * part. */
static void say_place(tn__plan *plan, tn__value *value) {
  if (value == NULL || value->device == NULL) return;
  const char *text = tn__virtual_device_text(plan->arena, value->device);
  bool fixed = !value->in_any_memory && is_global(value->device);
  value->place = fixed ? tn__arena_printf(plan->arena, "%s/%s", text, TN__SCOPE_NAME_GLOBAL) : text;
}

static void say_places(tn__plan *plan, int scope) {
  tn__graph *graph = plan->scopes.data[scope].graph;
  for (int i = 0; i < graph->values.count; i++) say_place(plan, graph->values.data[i]);
}

/* Where the value is to be that an edge reads: operators read buffers of any scope of their device. */
static const tn__virtual_device *device_for(const rewriter *r, const tn__plan_edge *e) {
  tn__plan *plan = r->plan;
  const tn__virtual_device *to = tn__plan_device(plan, e->to), *at = device_at(r, e->from);
  if (e->to == plan->host) return plan->config->host;
  if (tn__plan_hands_on(e)) return device_at(r, e->to);
  bool there = plan->values.data[e->from].value->data == NULL
                   ? tn__plan_device(plan, e->from) == to
                   : at->device_type == to->device_type && at->device_id == to->device_id;
  return there ? at : to;
}

void tn__plan_rewrite(tn__plan *plan) {
  rewriter r = {.plan = plan,
                .first = TN__NEW_ARRAY(plan->arena, plan->values.count, int),
                .of_scope = TN__NEW_ARRAY(plan->arena, plan->scopes.count, int)};
  set_devices(plan);
  for (int s = 0; s < plan->scopes.count; s++) keep_copies(&r, s);
  for (int i = plan->edges.count; i-- > 0;) {
    const tn__plan_edge *e = &plan->edges.data[i];
    const tn__plan_value *from = &plan->values.data[e->from];
    /* What stands in for another reads it itself. */
    if (e->place == TN__PLAN_OPERAND && e->bodies == 0 && plan->values.data[e->to].stand_in) continue;
    const tn__virtual_device *device = device_for(&r, e);
    if (from->value->device != device || from->stand_in) want(&r, e, device);
  }
  /* Inner ones first: what leaves a loop stands in the graph around it. */
  for (int s = plan->scopes.count; s-- > 0;) {
    widen_loop(&r, s);
    for (int u = r.of_scope[s]; u != 0;) {
      TN__INVARIANT(r.uses.data != NULL);
      wanted w = r.uses.data[u - 1];
      u = w.next;
      plan->result.steps++;
      serve(&r, &w);
    }
    drop_annotations(&r, s);
    drop_unread_copies(&r, s);
    if (plan->changed) tn__graph_sweep(plan->scopes.data[s].graph);
  }
  if (plan->result.copies > 0) move_copies_into_arms(&r);
  /* Where all is in one place the text of the graph says nothing of places. */
  for (int s = 0; s < plan->scopes.count && plan->result.elsewhere != NULL; s++) say_places(plan, s);
}
