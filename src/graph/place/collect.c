/* What there is to plan: which values must live together, where they may be copied, and what is said of them. */
#include <string.h>

#include "graph/internal.h"
#include "graph/place/cost.h"
#include "graph/place/plan.h"

/* ---- scopes and values ------------------------------------------------------------------------------------------- */

static bool is_control(const tn__node *node) { return node->op->lowering == TN__LOWER_CONTROL; }
static bool is_copy(const tn__node *node) { return tn__op_has(node, TN__FACT_COPIES); }
static bool is_annotation(const tn__node *node) { return tn__op_has(node, TN__FACT_SAYS_PLACE); }

static bool is_tensor_of_numbers(const tn__value *value) {
  return value->holds == TN__HOLDS_TENSOR && value->dtype != TN_STRING;
}

static bool is_few_integers(const tn__value *value) {
  return is_tensor_of_numbers(value) && !tn__dtype_is_float(value->dtype) &&
         tn__g_element_count(value->rank, value->dims) >= 0;
}

/* Arithmetic of sizes: small for any device, and slow on all but the host, which reads it. */
static bool is_of_shapes(const tn__node *node) {
  bool few = !is_copy(node) && !is_annotation(node);
  for (int i = 0; i < node->input_count && few && !is_control(node); i++)
    few = node->inputs[i] == NULL || is_few_integers(node->inputs[i]);
  for (int i = 0; i < node->output_count && few && !is_control(node); i++) few = is_few_integers(node->outputs[i]);
  return few;
}

static tn__plan_value *add_value(tn__plan *plan, int scope, tn__value *value, bool loose) {
  tn__plan_value *v = &plan->values.data[tn__plan_index(plan, scope, value)];
  v->value = value;
  v->shape = is_few_integers(value) && (value->producer == NULL || is_of_shapes(value->producer));
  v->loose = loose && (value->place == NULL || value->data != NULL);
  return v;
}

/* What is said of an operator and which devices can run it decide whether copies may stand around it. */
static void add_node(tn__plan *plan, int scope, tn__node *node) {
  bool stands_in = is_copy(node) || is_annotation(node), runs = !is_control(node) && !stands_in;
  bool host = runs && tn__place_is_of_host(node);
  bool known = runs && tn__plan_is_of_constants(plan, scope, node);
  tn__place_rule *rule = runs ? tn__plan_rule_of(plan, scope, node, known) : NULL;
  uint64_t devices = runs && !host ? tn__place_devices_of(plan->config, node) : TN__EVERY_DEVICE;
  bool apart =
      host || rule != NULL || devices != TN__EVERY_DEVICE || (runs && plan->options->automatic && !is_of_shapes(node));
  plan->result.steps += 1 + (uint64_t)node->input_count;
  for (int k = 0; k < node->input_count; k++)
    if (node->inputs[k] != NULL && node->inputs[k]->data != NULL) add_value(plan, scope, node->inputs[k], true);
  for (int k = 0; k < node->output_count; k++) {
    tn__plan_value *v = add_value(plan, scope, node->outputs[k], apart || (runs && tn__place_is_known(node)));
    v->apart = apart, v->host = host, v->rule = rule, v->stand_in = stands_in, v->known = known;
  }
  plan->scopes.data[scope].controls |= is_control(node);
  plan->scopes.data[scope].stand_ins |= stands_in;
  if (devices != TN__EVERY_DEVICE) tn__plan_restrict(plan, tn__plan_index(plan, scope, node->outputs[0]), devices);
}

static void add_scope(tn__plan *plan, tn__graph *graph, int outer, tn__node *node, int body) {
  int count = graph->values.count, scope = plan->scopes.count;
  tn__plan_scope s = {.graph = graph,
                      .base = plan->values.count,
                      .limit = count,
                      .outer = outer,
                      .node = node,
                      .body = body,
                      .first = scope - body};
  tn__vec_push(plan->arena, &plan->scopes, s);
  for (int i = 0; i < count; i++) {
    int index = plan->values.count;
    tn__vec_push(plan->arena, &plan->values, ((tn__plan_value){.formal = -1}));
    tn__vec_push(plan->arena, &plan->domains, TN__PLAN_ALONE(index));
  }
  /* The callers' tensors may be copied to whoever reads them; a body's are what is handed to it. */
  for (int i = 0; i < tn__graph_input_count(graph); i++)
    add_value(plan, scope, tn__graph_input_at(graph, i), outer < 0)->formal = outer < 0 ? -1 : i;
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    if (is_control(n) && n->origin != NULL) tn__map_set(&plan->controls, n->origin, plan);
  }
  tn__plan_find_parted(plan, graph);
  for (int i = 0; i < tn__graph_node_count(graph); i++) add_node(plan, scope, tn__graph_node_at(graph, i));
  for (int i = 0; i < tn__graph_output_count(graph); i++)
    if (tn__graph_output_at(graph, i)->data != NULL) add_value(plan, scope, tn__graph_output_at(graph, i), true);
}

/* Bodies behind the graph that they are in, those of one node side by side. */
static void add_scopes(tn__plan *plan, tn__graph *graph) {
  add_scope(plan, graph, -1, NULL, 0);
  for (int s = 0; s < plan->scopes.count; s++) {
    tn__graph *g = plan->scopes.data[s].graph;
    for (int i = 0; i < tn__graph_node_count(g) && plan->scopes.data[s].controls; i++) {
      tn__node *n = tn__graph_node_at(g, i);
      if (!is_control(n)) continue;
      if (n->output_count > 0) plan->values.data[tn__plan_index(plan, s, n->outputs[0])].bodies = plan->scopes.count;
      for (int b = 0; b < n->graph_count; b++) add_scope(plan, n->graphs[b], s, n, b);
    }
  }
}

/* ---- uses -------------------------------------------------------------------------------------------------------- */

typedef struct use {
  int scope;
  tn__plan_place place;
  tn__node *node;
  int index, bodies;
  tn__symbol *symbol;
} use;

/* `value` is read in the domain of `to`. */
static void read_value(tn__plan *plan, const use *u, const tn__value *value, int to, bool may_copy) {
  int from = tn__plan_index(plan, u->scope, value);
  may_copy |= plan->values.data[from].shape != plan->values.data[to].shape;
  plan->result.steps++;
  if (!may_copy && !plan->values.data[from].loose) {
    tn__plan_edge handed = {.place = u->place, .node = u->node, .bodies = u->bodies};
    tn__plan_unite(plan, from, to);
    if (tn__plan_hands_on(&handed)) tn__plan_share(plan, from, to, true);
    return;
  }
  tn__plan_edge edge = {u->scope, from, to, u->place, u->node, u->index, u->bodies, u->symbol};
  tn__vec_push(plan->arena, &plan->edges, edge);
}

static const tn__virtual_device *device_said(tn__plan *plan, const tn__node *node, const char *text) {
  const tn__virtual_device *device = NULL;
  tn_status *status = tn__compile_config_find(plan->config, text, &device);
  if (status != NULL && node != NULL && node->origin != NULL) status = tn_status_prefix(status, "%s", node->origin);
  tn__check(plan->arena->escape, status);
  return device;
}

static void fix_text(tn__plan *plan, int value, const tn__node *node, const char *text, const char *by) {
  const tn__virtual_device *device = device_said(plan, node, text);
  tn__plan_say(plan, value, device, value, by, false);
}

static void collect_annotation(tn__plan *plan, int scope, tn__node *node) {
  const char *text = tn__node_string(node, "device", "");
  bool body = tn__node_int(node, "body", 0) != 0, result = tn__node_int(node, "result", 0) != 0;
  int x = tn__plan_index(plan, scope, node->inputs[0]), y = tn__plan_index(plan, scope, node->outputs[0]);
  use u = {scope, TN__PLAN_OPERAND, node, 0, 0, NULL};
  read_value(plan, &u, node->inputs[0], y, body != result);
  if (body) fix_text(plan, x, node, text, tn__node_string(node, "by", "the operand of on_device"));
  if (result) fix_text(plan, y, node, text, tn__node_string(node, "by", "the result of on_device"));
}

static void collect_copy(tn__plan *plan, int scope, tn__node *node) {
  int y = tn__plan_index(plan, scope, node->outputs[0]);
  use u = {scope, TN__PLAN_OPERAND, node, 0, 0, NULL};
  read_value(plan, &u, node->inputs[0], y, true);
  fix_text(plan, y, node, tn__node_string(node, "to", ""), "a copy");
}

static bool is_host(const tn__plan *plan, const tn__virtual_device *device) {
  return tn__compile_config_rank(plan->config, device) == tn__compile_config_rank(plan->config, plan->config->host);
}

static void collect_primitive(tn__plan *plan, int scope, tn__node *node) {
  if (node->output_count == 0) return;
  int at = tn__plan_index(plan, scope, node->outputs[0]);
  const tn__plan_value *v = &plan->values.data[at];
  tn__place_rule *rule = v->rule;
  bool apart = v->apart, elsewhere = v->host && rule != NULL && rule->exact && !is_host(plan, rule->device);
  for (int k = 1; k < node->output_count; k++) tn__plan_unite(plan, at, tn__plan_index(plan, scope, node->outputs[k]));
  if (rule != NULL) rule->matched++, rule->placing++;
  if (v->host && rule != NULL && !rule->exact && !is_host(plan, rule->device)) tn__plan_yield_node(plan, rule, node);
  if (tn__node_is_view(node) && !v->host) {
    tn__plan_view view = {tn__plan_index(plan, scope, node->inputs[0]), at};
    tn__vec_push(plan->arena, &plan->views, view);
  }
  if (elsewhere) {
    tn__plan_restrict(plan, at, tn__place_bit(plan->config, plan->config->host));
    tn__plan_refuse(plan, &plan->domains.data[tn__plan_find(plan, at)], rule->device, rule->placed);
  }
  if (v->host)
    tn__plan_say(plan, at, plan->config->host, at, "lists and strings are on the host", true);
  else if (rule != NULL && rule->exact)
    tn__plan_say(plan, at, rule->device, at, rule->placed, false);
  for (int k = 0; k < node->input_count; k++) {
    use u = {scope, TN__PLAN_OPERAND, node, k, 0, NULL};
    if (node->inputs[k] != NULL) read_value(plan, &u, node->inputs[k], at, apart);
  }
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static int body_scope(const tn__plan *plan, const tn__node *node, int from) {
  int s = from;
  while (plan->scopes.data[s].node != node) s++;
  return s;
}

static void hand_on(tn__plan *plan, int a, int b) {
  tn__plan_unite(plan, a, b);
  tn__plan_share(plan, a, b, true);
}

/* Operands are what bodies take, and their results what the node gives: both arms agree with each other, as both agree
 * with that. A loop's variables agree with the start, with the next round's and with the result. */
static void collect_control(tn__plan *plan, int scope, tn__node *node, int bodies) {
  bool loop = tn__op_has(node, TN__FACT_LOOPS), chooses = !loop && node->graph_count == 2;
  use condition = {scope, TN__PLAN_OPERAND, node, 0, bodies, NULL};
  if (chooses) read_value(plan, &condition, node->inputs[0], plan->host, true);
  for (int k = chooses; k < node->input_count; k++) {
    use u = {scope, TN__PLAN_OPERAND, node, k, bodies, NULL};
    int formal = tn__plan_index(plan, bodies, tn__graph_input_at(node->graphs[0], k - chooses));
    for (int b = 1; b < node->graph_count; b++)
      hand_on(plan, formal, tn__plan_index(plan, bodies + b, tn__graph_input_at(node->graphs[b], k - chooses)));
    read_value(plan, &u, node->inputs[k], formal, false);
    if (loop) hand_on(plan, formal, tn__plan_index(plan, scope, node->outputs[k]));
  }
  for (int b = 0; b < node->graph_count; b++)
    for (int k = 0; k < tn__graph_output_count(node->graphs[b]); k++) {
      bool test = loop && b == 0;
      use u = {bodies + b, TN__PLAN_OUTPUT, NULL, k, 0, NULL};
      int to = test ? plan->host : tn__plan_index(plan, scope, node->outputs[k]);
      read_value(plan, &u, tn__graph_output_at(node->graphs[b], k), to, test);
    }
}

static void collect_scope(tn__plan *plan, int scope, int *bodies) {
  tn__graph *graph = plan->scopes.data[scope].graph;
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    if (is_control(node))
      collect_control(plan, scope, node, *bodies = body_scope(plan, node, *bodies));
    else if (is_annotation(node))
      collect_annotation(plan, scope, node);
    else if (is_copy(node))
      collect_copy(plan, scope, node);
    else
      collect_primitive(plan, scope, node);
  }
  for (int i = 0; i < tn__graph_symbol_count(graph); i++) {
    tn__symbol *symbol = graph->symbols.data[i];
    use u = {scope, TN__PLAN_SYMBOL, NULL, i, 0, symbol};
    if (symbol->source == TN__SYMBOL_ELEMENT) read_value(plan, &u, symbol->value, plan->host, true);
  }
}

/* ---- what is said of values -------------------------------------------------------------------------------------- */

static void fix_values(tn__plan *plan) {
  for (int i = 0; i < plan->host; i++) {
    const tn__value *value = plan->values.data[i].value;
    if (value == NULL) continue;
    if (value->place != NULL) fix_text(plan, i, value->producer, value->place, "said where it is made");
    if (value->device != NULL && value->in_any_memory)
      tn__plan_fix(plan, i, value->device, i, "planned before", false);
    else if (value->device != NULL)
      tn__plan_say(plan, i, value->device, i, "planned before", false);
    if (!is_tensor_of_numbers(value))
      tn__plan_say(plan, i, plan->config->host, i, "lists and strings are on the host", true);
  }
}

void tn__plan_collect(tn__plan *plan, tn__graph *graph) {
  tn__map_init(&plan->parted, plan->arena);
  tn__map_init(&plan->controls, plan->arena);
  tn__map_init(&plan->partly, plan->arena);
  tn__map_init(&plan->yields, plan->arena);
  add_scopes(plan, graph);
  plan->host = plan->values.count;
  tn__vec_push(plan->arena, &plan->values, ((tn__plan_value){.formal = -1}));
  tn__vec_push(plan->arena, &plan->domains, TN__PLAN_ALONE(plan->host));
  tn__plan_say(plan, plan->host, plan->config->host, plan->host, "shapes and conditions are read by the host", true);
  plan->values.data[plan->host].shape = true;
  fix_values(plan);
  int bodies = 0;
  for (int s = 0; s < plan->scopes.count; s++) collect_scope(plan, s, &bodies);
  tn__plan_check_parted(plan);
  tn__plan_say_patterns(plan);
}
