/* What patterns with a '*' place: what nothing more exact is said of.
 *
 * Such a pattern means nodes by the dozen, and not each of them. So it leaves a node where an annotation, or what was
 * planned before, has it; and it leaves to the host what the host reads as sizes, counts and conditions, with the
 * arithmetic that they come from: a few integers that are made of such (is_of_shapes in collect.c). On a device each of
 * these would be a kernel, a copy and a wait, in a loop in each of its rounds. A pattern without a '*' names one node,
 * and places that whatever it is. */
#include "graph/place/plan.h"

/* From what the host reads back to what that is made of: free domains are settled there. Whatever else they read does
 * not follow them. */
static void leave_to_host(tn__plan *plan) {
  int count = plan->domains.count, size = 0;
  int *first = TN__NEW_ARRAY(plan->arena, count, int); /* edges from few integers, one more than the number */
  int *next = TN__NEW_ARRAY(plan->arena, plan->edges.count, int), *queue = TN__NEW_ARRAY(plan->arena, count, int);
  for (int i = 0; i < plan->edges.count; i++) {
    if (!plan->values.data[plan->edges.data[i].from].shape) continue;
    int root = tn__plan_find(plan, plan->edges.data[i].to);
    next[i] = first[root];
    first[root] = i + 1;
  }
  for (int i = 0; i < count; i++) {
    const tn__plan_domain *d = &plan->domains.data[i];
    if (d->parent == i && d->weak && d->device != NULL) queue[size++] = i;
  }
  for (int at = 0; at < size; at++)
    for (int e = first[queue[at]]; e != 0; e = next[e - 1]) {
      int from = plan->edges.data[e - 1].from, root = tn__plan_find(plan, from);
      const tn__plan_value *v = &plan->values.data[from];
      tn__plan_domain *d = &plan->domains.data[root];
      plan->result.steps++;
      if (v->value->data != NULL || tn__plan_waits(plan, from) || d->device != NULL) continue;
      tn__plan_settle(plan, d, plan->config->host, "for sizes and conditions");
      d->weak = true;
      queue[size++] = root;
    }
}

typedef struct pattern_use {
  int value;      /* the first result of a node that a pattern places */
  bool in_memory; /* some memory is said of its buffer */
} pattern_use;

void tn__plan_say_patterns(tn__plan *plan) {
  TN__VEC(pattern_use) uses = {0};
  leave_to_host(plan);
  /* All are looked at before any of them says something, so that their order decides nothing. */
  for (int i = 0; i < plan->host; i++) {
    tn__plan_value *v = &plan->values.data[i];
    const tn__virtual_device *said, *joined;
    if (v->rule == NULL || v->rule->exact || v->host) continue;
    tn__virtual_device wanted = *v->rule->device;
    wanted.memory_scope = NULL;
    said = tn__plan_device(plan, i);
    if (said != NULL &&
        tn__virtual_device_join(&plan->config->cache, said, tn__virtual_device_of(&plan->config->cache, &wanted),
                                &joined) != TN__DEVICE_AGREES)
      v->rule = NULL;
    else if (v->value->producer->outputs[0] == v->value)
      tn__vec_push(plan->arena, &uses, ((pattern_use){i, tn__plan_has_scope(plan, i)}));
  }
  for (int u = 0; u < uses.count; u++) {
    int value = uses.data[u].value;
    const tn__place_rule *rule = plan->values.data[value].rule;
    if (uses.data[u].in_memory)
      tn__plan_fix(plan, value, rule->device, value, rule->placed, false);
    else
      tn__plan_say(plan, value, rule->device, value, rule->placed, false);
  }
}
