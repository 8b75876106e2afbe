/* Domains: uniting and fixing them, and what contradicts. */
#include <string.h>

#include "base/message.h"
#include "graph/place/plan.h"

/* ---- what contradicts -------------------------------------------------------------------------------------------- */

const char *tn__plan_value_name(const tn__plan *plan, int value) {
  const tn__value *v = plan->values.data[value].value;
  return v != NULL ? tn__shown_text(plan->arena, "\"%s\"", v->name) : "the host";
}

const char *tn__plan_device_text(const tn__plan *plan, const tn__virtual_device *device) {
  const char *text = tn__virtual_device_text(plan->arena, device);
  bool targets = device->target != NULL;
  return targets ? tn__arena_printf(plan->arena, "%s (%s)", text, device->target->name) : text;
}

/* Values from `a` to `b` along what was united, each with its neighbours: "a" - "b" - "c". */
static const char *path_between(tn__plan *plan, int a, int b) {
  enum { SHOWN = 12 };
  int count = plan->values.count, head = 0, tail = 0;
  int *next = TN__NEW_ARRAY(plan->arena, count, int), *queue = TN__NEW_ARRAY(plan->arena, count, int);
  int *first = TN__NEW_ARRAY(plan->arena, count, int);
  int *other = TN__NEW_ARRAY(plan->arena, 2 * plan->link_count + 1, int);
  for (int i = 0; i < plan->link_count; i++)
    for (int end = 0; end < 2; end++) {
      int at = end == 0 ? plan->links[i].a : plan->links[i].b;
      other[2 * i + end] = first[at];
      first[at] = 2 * i + end + 1; /* 0: none */
    }
  queue[tail++] = b, next[b] = b + 1;
  while (head < tail && next[a] == 0) {
    int at = queue[head++];
    for (int e = first[at]; e != 0; e = other[e - 1]) {
      const struct tn__plan_link *link = &plan->links[(e - 1) / 2];
      int to = link->a == at ? link->b : link->a;
      if (next[to] == 0) next[to] = at + 1, queue[tail++] = to;
    }
  }
  const char *text = tn__plan_value_name(plan, a);
  int steps = 0;
  for (int at = a; at != b && next[at] != 0; at = next[at] - 1, steps++) {
    int to = next[at] - 1;
    if (steps < SHOWN || to == b)
      text = tn__arena_printf(plan->arena, "%s%s - %s", text, steps > SHOWN ? " - ..." : "",
                              tn__plan_value_name(plan, to));
  }
  return text;
}

_Noreturn static void contradict(tn__plan *plan, const tn__plan_domain *x, const tn__plan_domain *y) {
  const tn__plan_cause *a = &plan->causes.data[x->cause], *b = &plan->causes.data[y->cause];
  const tn__value *v = plan->values.data[b->value].value;
  const char *origin = v != NULL && v->producer != NULL ? v->producer->origin : NULL;
  const char *path = a->value == b->value ? NULL : path_between(plan, a->value, b->value);
  tn__throwf(plan->arena->escape, TN_INVALID_ARGUMENT,
             "%s%sdevices contradict: %s is on %s (%s), and %s on %s (%s)%s%s%s", origin != NULL ? origin : "",
             origin != NULL ? ": " : "", tn__plan_value_name(plan, a->value), tn__plan_device_text(plan, x->device),
             a->text, tn__plan_value_name(plan, b->value), tn__plan_device_text(plan, y->device), b->text,
             path != NULL ? "; no copy is allowed on the way " : "", path != NULL ? path : "",
             path != NULL ? ": place them alike, or put on_device with only its result said between them"
                          : ": leave one of the two out");
}

/* ---- domains ----------------------------------------------------------------------------------------------------- */

int tn__plan_find(tn__plan *plan, int value) {
  tn__plan_domain *d = plan->domains.data;
  while (d[value].parent != value) {
    plan->result.steps++;
    d[value].parent = d[d[value].parent].parent;
    value = d[value].parent;
  }
  return value;
}

int tn__plan_fix(tn__plan *plan, int value, const tn__virtual_device *device, int of, const char *text, bool weak) {
  const tn__virtual_device *joined;
  tn__plan_domain *d = &plan->domains.data[tn__plan_find(plan, value)];
  int cause = plan->causes.count;
  d->weak = weak && (d->device == NULL || d->weak);
  tn__vec_push(plan->arena, &plan->causes, ((tn__plan_cause){of, text}));
  if (device->memory_scope != NULL) {
    tn__virtual_device anywhere = *device;
    anywhere.memory_scope = NULL;
    device = tn__virtual_device_of(&plan->config->cache, &anywhere);
  }
  tn__plan_domain wanted = {.cause = cause, .device = device};
  if (d->device == NULL) {
    d->device = device;
    d->cause = cause;
  } else if (tn__virtual_device_join(&plan->config->cache, d->device, device, &joined) == TN__DEVICE_AGREES) {
    d->device = joined;
  } else {
    contradict(plan, d, &wanted);
  }
  return cause;
}

static void add_link(tn__plan *plan, int a, int b) {
  if (plan->link_count == plan->link_capacity)
    plan->links = tn__vec_grow(plan->arena, plan->links, plan->link_count, &plan->link_capacity, sizeof *plan->links);
  plan->links[plan->link_count++] = (struct tn__plan_link){a, b};
}

void tn__plan_unite(tn__plan *plan, int a, int b) {
  int x = tn__plan_find(plan, a), y = tn__plan_find(plan, b);
  plan->result.steps++;
  if (a != b) add_link(plan, a, b);
  if (x == y) return;
  tn__plan_domain *d = plan->domains.data;
  const tn__virtual_device *joined = d[x].device != NULL ? d[x].device : d[y].device;
  if (d[x].device != NULL && d[y].device != NULL &&
      tn__virtual_device_join(&plan->config->cache, d[x].device, d[y].device, &joined) != TN__DEVICE_AGREES)
    contradict(plan, &d[x], &d[y]);
  int large = d[x].size >= d[y].size ? x : y, small = large == x ? y : x;
  d[large].weak = (d[x].weak || d[x].device == NULL) && (d[y].weak || d[y].device == NULL) && joined != NULL;
  d[small].parent = large;
  d[large].size += d[small].size;
  d[large].device = joined;
  d[large].devices &= d[small].devices;
  if (d[large].picky < 0) d[large].picky = d[small].picky;
  if (d[large].cause < 0) d[large].cause = d[small].cause;
}

void tn__plan_restrict(tn__plan *plan, int value, uint64_t devices) {
  tn__plan_domain *d = &plan->domains.data[tn__plan_find(plan, value)];
  d->devices &= devices;
  if (d->picky < 0) d->picky = value;
}

static const char *refusal(const tn__plan *plan, const tn__plan_domain *d, const tn__virtual_device *device,
                           const char *by) {
  const tn__value *v = plan->values.data[d->picky].value;
  const tn__node *node = v->producer;
  const char *can = tn__place_list(plan->config, d->devices), *lack = tn__place_lacks(plan->config, node, device);
  return tn__arena_printf(plan->arena, "%s%s%s is on %s (%s), which cannot run %s%s%s; %s can",
                          node->origin != NULL ? node->origin : "", node->origin != NULL ? ": " : "",
                          tn__plan_value_name(plan, d->picky), tn__virtual_device_text(plan->arena, device), by,
                          node->op->name, lack != NULL ? ": it has " : "", lack != NULL ? lack : "",
                          can[0] != '\0' ? can : "no device of these");
}

void tn__plan_refuse(tn__plan *plan, const tn__plan_domain *d, const tn__virtual_device *device, const char *by) {
  const char *text = refusal(plan, d, device, by);
  tn__vec_push(plan->arena, &plan->refusals, text);
}

void tn__plan_check_refused(tn__plan *plan) {
  tn__strbuf all;
  if (plan->refusals.count == 0) return;
  tn__strbuf_init(&all, plan->arena->allocator);
  for (int i = 0; i < plan->refusals.count; i++)
    tn__strbuf_printf(&all, "%s%s", i > 0 ? "; and " : "", plan->refusals.data[i]);
  tn__throwf(plan->arena->escape, TN_UNSUPPORTED, "%s", tn__arena_take(plan->arena, &all));
}

const tn__virtual_device *tn__plan_device(tn__plan *plan, int value) {
  return plan->domains.data[tn__plan_find(plan, value)].device;
}

/* ---- settling ---------------------------------------------------------------------------------------------------- */

/* What the device cannot run falls to the first that can, in the order of targets. */
static void fall(tn__plan *plan, tn__plan_domain *d) {
  const tn__node *node = plan->values.data[d->picky].value->producer;
  const tn__virtual_device *not_there = d->device, *found = tn__place_first(plan->config, d->devices, NULL);
  if (found == NULL) tn__throwf(plan->arena->escape, TN_UNSUPPORTED, "%s", refusal(plan, d, not_there, d->why));
  d->device = tn__virtual_device_default(&plan->config->cache, found, not_there);
  if (plan->options->tells)
    d->why = tn__arena_printf(plan->arena, "not on %s, which has %s", tn__virtual_device_text(plan->arena, not_there),
                              tn__place_lacks(plan->config, node, not_there));
}

void tn__plan_settle(tn__plan *plan, tn__plan_domain *d, const tn__virtual_device *otherwise, const char *why) {
  const tn__virtual_device *device = d->device;
  if (device == NULL || !tn__plan_says_where(device))
    device = device == NULL ? otherwise : tn__virtual_device_default(&plan->config->cache, device, otherwise);
  d->device = tn__compile_config_complete(plan->config, device);
  d->why = why;
  if (!tn__plan_can_run(plan, d, d->device)) fall(plan, d);
}
