/* What a rule places, which is a node of the model, against the operators that the importer made of it.
 *
 * A device may lack numbers in which only these compute: the positions of an f32 Resize are f64. Such an operator falls
 * to another device, and what of the node reads and makes nothing but parts of it goes where it is wanted. A node whose
 * own operands or results are of that type is refused. */
#include <string.h>

#include "graph/internal.h"
#include "graph/place/plan.h"
#include "target/devices/rates.h"

/* Were both made of one node of the model? */
static bool is_of_same(const tn__node *a, const tn__node *b) {
  return a == b || (a->origin != NULL && b->origin != NULL && strcmp(a->origin, b->origin) == 0);
}

/* Does the value stay inside of what was made of one node? Its constants do, whosever they are: the numbers that an
 * operator makes of them tell. */
static bool stays_inside(const tn__graph *graph, const tn__node *node, const tn__value *value) {
  if (value->data != NULL) return true;
  if (value->producer == NULL || !is_of_same(value->producer, node)) return false;
  for (int i = 0; i < value->readers.count; i++) {
    const tn__node *reader = value->readers.data[i].node;
    bool reads = !reader->dead && reader->inputs[value->readers.data[i].input] == value;
    if (reads && !is_of_same(reader, node)) return false;
  }
  for (int i = 0; i < value->results.count; i++)
    if (tn__graph_output_at(graph, value->results.data[i]) == value) return false;
  return true;
}

/* With a device: of the operands and results that it lacks the type of; else of all. */
static bool all_stay_inside(const tn__graph *graph, const tn__node *node, const tn__virtual_device *device) {
  for (int i = 0; i < node->input_count + node->output_count; i++) {
    const tn__value *value = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
    bool counts = value != NULL && (device == NULL || tn__device_lacks_type(device->target, value->dtype) != NULL);
    if (counts && !stays_inside(graph, node, value)) return false;
  }
  return true;
}

static bool are_known(const tn__expr *const *exprs, int count) {
  for (int i = 0; i < count; i++)
    if (!tn__ir_is_int(exprs[i])) return false;
  return true;
}

bool tn__plan_is_of_constants(const tn__plan *plan, int scope, const tn__node *node) {
  if (node->op->lowering != TN__LOWER_DECLARE) return false;
  for (int i = 0; i < node->input_count; i++) {
    const tn__value *value = node->inputs[i];
    if (value != NULL && value->data == NULL && !plan->values.data[tn__plan_index(plan, scope, value)].known)
      return false;
  }
  for (int i = 0; i < node->attr_count; i++)
    if (node->attrs[i].kind == TN__ATTR_EXPRS && !are_known(node->attrs[i].exprs, node->attrs[i].count)) return false;
  return true;
}

static bool lacks(const tn__plan *plan, const tn__node *node, const tn__place_rule *rule) {
  return !tn__place_is_of_host(node) && tn__place_lacks(plan->config, node, rule->device) != NULL;
}

void tn__plan_find_parted(tn__plan *plan, const tn__graph *graph) {
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    bool picky = node->origin != NULL && plan->options->rule_count > 0 &&
                 tn__place_devices_of(plan->config, node) != TN__EVERY_DEVICE;
    const tn__place_rule *rule = picky ? tn__place_rule_of(plan->options, node, NULL) : NULL;
    if (rule != NULL && lacks(plan, node, rule) && all_stay_inside(graph, node, rule->device))
      tn__map_set(&plan->parted, node->origin, node);
  }
}

void tn__plan_yield_node(tn__plan *plan, const tn__place_rule *rule, const tn__node *node) {
  size_t length;
  const char *name = tn__place_name_of(node, &length);
  name = tn__arena_strndup(plan->arena, name, length);
  const char *key = tn__arena_printf(plan->arena, "%d %s", (int)(rule - plan->options->rules), name);
  tn__place_yield yield = {rule, name, tn__place_lacks(plan->config, node, rule->device)};
  if (tn__map_has(&plan->yields, key)) return;
  tn__map_set(&plan->yields, key, plan);
  tn__vec_push(plan->arena, &plan->result.yields, yield);
}

/* If the device of a pattern with a '*' cannot run the node, an earlier rule whose device can applies. */
static tn__place_rule *earlier_rule(tn__plan *plan, const tn__node *node, const tn__place_rule *rule) {
  tn__plan_yield_node(plan, rule, node);
  tn__place_rule *earlier = tn__place_rule_of(plan->options, node, rule);
  while (earlier != NULL && lacks(plan, node, earlier)) earlier = tn__place_rule_of(plan->options, node, earlier);
  return earlier;
}

/* Returns whether the node was created for a branch or loop, to count its iterations or collect their results. No
 * name in a rule refers to such a node. */
static bool serves_control(const tn__plan *plan, const tn__node *node) {
  bool small = true;
  if (node->origin == NULL || !tn__map_has(&plan->controls, node->origin)) return false;
  for (int i = 0; i < node->output_count && small; i++)
    small = !tn__dtype_is_float(node->outputs[i]->dtype) &&
            tn__g_element_count(node->outputs[i]->rank, node->outputs[i]->dims) >= 0;
  return small || tn__place_is_of_host(node);
}

tn__place_rule *tn__plan_rule_of(tn__plan *plan, int scope, const tn__node *node, bool known) {
  const tn__graph *graph = plan->scopes.data[scope].graph;
  tn__place_rule *rule = tn__place_rule_of(plan->options, node, NULL);
  if (rule == NULL || (rule->exact && serves_control(plan, node))) return NULL;
  bool lacking = lacks(plan, node, rule), parted = node->origin != NULL && tn__map_has(&plan->parted, node->origin);
  bool free = lacking ? known || (parted && all_stay_inside(graph, node, rule->device))
                      : parted && all_stay_inside(graph, node, NULL);
  if (!free) {
    if (parted && !lacking) tn__map_set(&plan->partly, node->origin, plan);
    if (!lacking || rule->exact) return rule;
    rule->matched++;
    return earlier_rule(plan, node, rule);
  }
  rule->matched++;
  if (lacking && !known && rule->refused == 0) rule->refused = tn__plan_index(plan, scope, node->outputs[0]) + 1;
  if (lacking && !known) tn__vec_push(plan->arena, &plan->inside, ((tn__plan_yield){rule, node}));
  return NULL;
}

void tn__plan_check_parted(tn__plan *plan) {
  for (int i = 0; i < plan->options->rule_count; i++) {
    const tn__place_rule *rule = &plan->options->rules[i];
    if (!rule->exact || rule->placing > 0 || rule->refused == 0) continue;
    tn__plan_refuse(plan, &plan->domains.data[tn__plan_find(plan, rule->refused - 1)], rule->device, rule->placed);
  }
  for (int i = 0; i < plan->inside.count; i++) {
    const tn__plan_yield *yield = &plan->inside.data[i];
    if (!yield->rule->exact && !tn__map_has(&plan->partly, yield->node->origin))
      tn__plan_yield_node(plan, yield->rule, yield->node);
  }
}
