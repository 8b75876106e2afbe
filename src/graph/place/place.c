/* Devices for all domains: completing, following, and what is left. */
#include "graph/place/place.h"

#include "graph/place/automatic.h"

/* Domains of which a part is said are completed by what there is. */
static void complete_all(tn__plan *plan) {
  for (int i = 0; i < plan->domains.count; i++) {
    tn__plan_domain *d = &plan->domains.data[i];
    if (d->parent != i || d->device == NULL || !tn__plan_says_where(d->device)) continue;
    const tn__virtual_device *full =
        tn__plan_is_settled(d) ? d->device : tn__compile_config_complete(plan->config, d->device);
    if (full == NULL)
      tn__throwf(plan->arena->escape, TN_NOT_FOUND, "%s is to be on %s, and there is no such device: there are %s",
                 tn__plan_value_name(plan, plan->causes.data[d->cause].value), tn__plan_device_text(plan, d->device),
                 tn__compile_config_list(plan->config));
    const tn__virtual_device *fits = tn__plan_can_run(plan, d, full) ? full
                                     : tn__plan_is_settled(d)        ? NULL
                                                              : tn__place_first(plan->config, d->devices, d->device);
    if (fits == NULL) tn__plan_refuse(plan, d, full, plan->causes.data[d->cause].text);
    d->device = fits;
  }
  tn__plan_check_refused(plan);
}

/* Edges by the domain that reads: `first` by root, `next` by edge, both one more than the index, 0: none. */
typedef struct followers {
  int *first, *next;
  const tn__virtual_device **offer; /* to a domain, of this level: the one of the least rank */
} followers;

/* The host's first, which waits for what it reads; then as targets were given. */
static bool goes_before(const tn__plan *plan, const tn__virtual_device *a, const tn__virtual_device *b) {
  if (a == plan->config->host || b == plan->config->host) return a == plan->config->host;
  return tn__compile_config_rank(plan->config, a) < tn__compile_config_rank(plan->config, b);
}

/* From the domains that are settled towards those that make what they read, a level at a time, so that neither the
 * order of nodes nor that of domains decides. */
static void follow(tn__plan *plan) {
  int count = plan->domains.count, frontier = 0;
  followers f = {.first = TN__NEW_ARRAY(plan->arena, count, int),
                 .next = TN__NEW_ARRAY(plan->arena, plan->edges.count, int),
                 .offer = TN__NEW_ARRAY(plan->arena, count, const tn__virtual_device *)};
  int *level = TN__NEW_ARRAY(plan->arena, count, int), *offered = TN__NEW_ARRAY(plan->arena, count, int);
  for (int i = 0; i < plan->edges.count; i++) {
    int root = tn__plan_find(plan, plan->edges.data[i].to);
    f.next[i] = f.first[root];
    f.first[root] = i + 1;
  }
  for (int i = 0; i < count; i++)
    if (plan->domains.data[i].parent == i && tn__plan_is_settled(&plan->domains.data[i])) level[frontier++] = i;
  while (frontier > 0) {
    int found = 0;
    for (int i = 0; i < frontier; i++)
      for (int e = f.first[level[i]]; e != 0; e = f.next[e - 1]) {
        int from = tn__plan_find(plan, plan->edges.data[e - 1].from);
        const tn__virtual_device *device = plan->domains.data[level[i]].device;
        plan->result.steps++;
        bool small = plan->values.data[plan->edges.data[e - 1].from].shape;
        if (tn__plan_is_settled(&plan->domains.data[from]) || tn__plan_waits(plan, plan->edges.data[e - 1].from))
          continue;
        if (plan->domains.data[level[i]].weak && !small) continue;
        if (f.offer[from] == NULL) offered[found++] = from;
        if (f.offer[from] == NULL || goes_before(plan, device, f.offer[from])) f.offer[from] = device;
      }
    frontier = found;
    for (int i = 0; i < found; i++) {
      tn__virtual_device anywhere = *f.offer[offered[i]];
      anywhere.memory_scope = NULL; /* of a reader's memory its maker knows nothing */
      tn__plan_settle(plan, &plan->domains.data[offered[i]], tn__virtual_device_of(&plan->config->cache, &anywhere),
                      "follows what reads it");
      level[i] = offered[i];
    }
  }
}

/* The contents of a domain that has no placement and no placed reader. */
typedef enum content {
  CONTENT_HANDED = 0,    /* results of annotations, branches, loops and calls: no operator computes them */
  CONTENT_COMPUTED = 1,  /* an operator's results, or a constant */
  CONTENT_OF_CALLERS = 2 /* a caller's tensor, which follows its readers */
} content;

static unsigned content_of(const tn__plan *plan, int value) {
  const tn__plan_value *v = &plan->values.data[value];
  if (v->value == NULL) return CONTENT_HANDED;
  if (tn__plan_waits(plan, value)) return CONTENT_OF_CALLERS;
  const tn__node *node = v->value->producer;
  bool computes = node != NULL && !v->stand_in && node->op->lowering != TN__LOWER_CONTROL;
  return computes || v->value->data != NULL ? CONTENT_COMPUTED : CONTENT_HANDED;
}

/* Lists edges by their source domain, for targets in a domain of `handed`. */
static void index_makers(tn__plan *plan, const unsigned *contents, followers *f) {
  for (int i = 0; i < plan->edges.count; i++) {
    const tn__plan_edge *edge = &plan->edges.data[i];
    int root = tn__plan_find(plan, edge->from), to = tn__plan_find(plan, edge->to);
    if (contents[to] != CONTENT_HANDED || plan->values.data[edge->from].value->data != NULL) continue;
    f->next[i] = f->first[root];
    f->first[root] = i + 1;
  }
}

/* A value that no operator computes and no placed operator reads stays on the device of its producer: an annotated
 * output, or a value that a branch passes through. Among several devices the first wins, as in follow(); a caller's
 * tensor is on the host. Proceeds by levels, so that the order of nodes and domains does not matter. */
static void stay_with_makers(tn__plan *plan, const unsigned *contents) {
  int count = plan->domains.count, frontier = 0;
  followers f = {.first = TN__NEW_ARRAY(plan->arena, count, int),
                 .next = TN__NEW_ARRAY(plan->arena, plan->edges.count, int),
                 .offer = TN__NEW_ARRAY(plan->arena, count, const tn__virtual_device *)};
  int *level = TN__NEW_ARRAY(plan->arena, count, int), *offered = TN__NEW_ARRAY(plan->arena, count, int);
  index_makers(plan, contents, &f);
  for (int i = 0; i < count; i++) {
    const tn__plan_domain *d = &plan->domains.data[i];
    bool has_place = tn__plan_is_settled(d) || contents[i] == CONTENT_OF_CALLERS;
    if (d->parent == i && has_place && f.first[i] != 0) level[frontier++] = i;
  }
  for (int found; frontier > 0; frontier = found) {
    found = 0;
    for (int i = 0; i < frontier; i++)
      for (int e = f.first[level[i]]; e != 0; e = f.next[e - 1]) {
        int to = tn__plan_find(plan, plan->edges.data[e - 1].to);
        const tn__plan_domain *made = &plan->domains.data[level[i]];
        const tn__virtual_device *device = tn__plan_is_settled(made) ? made->device : plan->config->host;
        plan->result.steps++;
        if (tn__plan_is_settled(&plan->domains.data[to])) continue;
        if (f.offer[to] == NULL) offered[found++] = to;
        if (f.offer[to] == NULL || goes_before(plan, device, f.offer[to])) f.offer[to] = device;
      }
    for (int i = 0; i < found; i++) {
      tn__virtual_device anywhere = *f.offer[offered[i]];
      anywhere.memory_scope = NULL;
      tn__plan_settle(plan, &plan->domains.data[offered[i]], tn__virtual_device_of(&plan->config->cache, &anywhere),
                      "follows what makes it");
      level[i] = offered[i];
    }
  }
}

/* Places the rest: operators on the default device; passed-through values with their producer; callers' tensors with
 * their readers, or on the host if these differ or are absent. */
static void settle_rest(tn__plan *plan) {
  int count = plan->domains.count;
  unsigned *contents = TN__NEW_ARRAY(plan->arena, count, unsigned);
  bool *differs = TN__NEW_ARRAY(plan->arena, count, bool);
  const tn__virtual_device **wanted = TN__NEW_ARRAY(plan->arena, count, const tn__virtual_device *);
  for (int i = 0; i < plan->host; i++) contents[tn__plan_find(plan, i)] |= content_of(plan, i);
  for (int handed = 0; handed < 2; handed++) {
    for (int i = 0; i < count; i++) {
      tn__plan_domain *d = &plan->domains.data[i];
      bool now = handed == 0 ? contents[i] == CONTENT_COMPUTED : (contents[i] & CONTENT_OF_CALLERS) == 0;
      if (d->parent == i && now && !tn__plan_is_settled(d))
        tn__plan_settle(plan, d, plan->config->primitive, "the default");
    }
    if (handed == 0) stay_with_makers(plan, contents);
  }
  for (int i = 0; i < plan->edges.count; i++) {
    int from = tn__plan_find(plan, plan->edges.data[i].from);
    const tn__virtual_device *device = tn__plan_device(plan, plan->edges.data[i].to);
    plan->result.steps++;
    if (device == NULL) continue;
    differs[from] |= wanted[from] != NULL && wanted[from] != device;
    wanted[from] = device;
  }
  for (int i = 0; i < count; i++) {
    tn__plan_domain *d = &plan->domains.data[i];
    if (d->parent != i || tn__plan_is_settled(d)) continue;
    bool here = !differs[i] && wanted[i] != NULL;
    tn__plan_settle(plan, d, here ? wanted[i] : plan->config->host,
                    here         ? "where it is read"
                    : differs[i] ? "read in several places"
                                 : "no operator reads it");
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const char *bytes_text(tn__plan *plan, double bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 4 && bytes >= 1024) bytes /= 1024, unit++;
  return tn__arena_printf(plan->arena, "%.*f %s", unit > 0, bytes, units[unit]);
}

static void check_budgets(tn__plan *plan, const tn__graph *graph) {
  const tn__place_budgets *budgets = plan->options->budgets;
  tn__place_memory need = {0};
  tn__place_measure(plan->config, graph, &need);
  for (int d = 0; d <= plan->config->devices.count; d++) {
    double all = need.constants[d] + need.values[d], budget = (double)budgets->bytes[d];
    if (budget == 0 || all <= budget) continue;
    tn__throwf(plan->arena->escape, TN_FAILED_PRECONDITION,
               "the plan takes %s of a device, %s of constants and %s of values, %s more than \"%s\" allows: %s",
               bytes_text(plan, all), bytes_text(plan, need.constants[d]), bytes_text(plan, need.values[d]),
               bytes_text(plan, all - budget), budgets->text[d],
               plan->options->automatic ? "what is left fits on no other device, or is placed there by name"
                                        : "place less there, or let \"auto\" place the rest");
  }
}

/* Nodes that were given up while the graph was built go before the plan, which is of all nodes that there are. */
static void sweep_dead(tn__graph *graph) {
  bool any = false;
  for (int i = 0; i < tn__graph_node_count(graph) && !any; i++) any = tn__graph_node_at(graph, i)->dead;
  if (any) tn__graph_sweep(graph);
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int b = 0; n->op->lowering == TN__LOWER_CONTROL && b < n->graph_count; b++) sweep_dead(n->graphs[b]);
  }
}

tn__place_result tn__graph_place(tn__graph *graph, const tn__place_options *options) {
  sweep_dead(graph);
  tn__plan plan = {.arena = tn__graph_arena(graph), .options = options, .config = options->config};
  for (int i = 0; i < options->rule_count; i++) {
    tn__place_rule *rule = &options->rules[i];
    rule->matched = rule->placing = rule->refused = 0;
  }
  tn__plan_collect(&plan, graph);
  complete_all(&plan);
  if (options->automatic) tn__plan_choose(&plan);
  follow(&plan);
  settle_rest(&plan);
  tn__plan_share_edges(&plan);
  tn__plan_rewrite(&plan);
  if (options->budgets != NULL) check_budgets(&plan, graph);
  tn__work_step(plan.arena, plan.result.steps);
  return plan.result;
}
