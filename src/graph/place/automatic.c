/* Placement by predicted time: chooses devices for domains that the user has not placed.
 *
 * The search minimises the total time of all operators, run one after the other, and of all copies between devices
 * (cost.h). A value is copied once to each device that reads it. Domains are visited in program order, and a beam
 * search keeps the best partial placements. Later costs depend only on the devices of values that are still to be read,
 * so of two placements that agree in these the slower is dropped. In a network with few live values at a time this is
 * exhaustive and the result is optimal. Otherwise the beam width, which is set by the number of domains to keep the
 * time linear, can lose the optimum. Single domains are then moved while that gains something, also starting with
 * everything on one device.
 *
 * Memory: each partial placement records its peak of live bytes per device. Placements above a budget rank after all
 * others. If the search ends above a budget, complete placements are compared (fit.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/place/automatic.h"
#include "graph/place/fit.h"

enum { HOST_MADE = -1, CONSTANT = -2, UNKNOWN = -3 };

/* A value that goes from domain to domain. */
typedef struct net {
  int home;            /* variable that makes it; HOST_MADE: callers, or the host; CONSTANT */
  bool host_reads;     /* it is read by what only the host does, too */
  bool stays;          /* to the end: callers get it */
  double bytes, times; /* of its copies in a run */
  int first, count;    /* variables that read it, in `readers` */
  int opens, closes;   /* the first and the last variable that it is about */
  int slot;
} net;

/* Of a variable: a net, and what the variable is to it. */
typedef struct incidence {
  int net;
  bool makes, reads;
} incidence;

typedef struct problem {
  tn__plan *plan;
  tn__arena *arena;
  int devices, host; /* by rank */
  int count, slots;
  int *variable; /* by domain; -1: it is none */
  TN__VEC(int) domains;
  double *alone;       /* by variable and device: its operators, and what callers want of it */
  double *wait, *byte; /* seconds, by device and device */
  TN__VEC(net) nets;
  int *readers, *first; /* first: by variable, into incidences */
  incidence *incidences;
  double *times; /* by scope */
} problem;

static double copy_seconds(const problem *p, const net *n, int from, int to) {
  return from == to ? 0 : n->times * (p->wait[from * p->devices + to] + n->bytes * p->byte[from * p->devices + to]);
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static const tn__virtual_device *device_at(const tn__compile_config *config, int rank) {
  return rank < config->devices.count ? config->devices.data[rank] : config->host;
}

/* Returns whether the search chooses the device of the value. Tensors of callers follow their readers, and sizes
 * have a fixed device. Known results cost nothing anywhere, so they count only if there are budgets. */
static bool decides(const tn__plan *plan, int value) {
  const tn__plan_value *v = &plan->values.data[value];
  if (v->value == NULL || v->value->data != NULL || v->shape || tn__plan_waits(plan, value)) return false;
  return v->value->producer == NULL || plan->options->budgets != NULL || !tn__place_is_known(v->value->producer);
}

static void add_variable(problem *p, int value) {
  int root = tn__plan_find(p->plan, value);
  if (p->variable[root] >= 0 || root == tn__plan_find(p->plan, p->plan->host) || !decides(p->plan, value)) return;
  p->variable[root] = p->domains.count;
  tn__vec_push(p->arena, &p->domains, root);
}

/* In the order of the program, bodies where their operators stand. */
static void add_variables(problem *p, int scope) {
  const tn__plan_scope *s = &p->plan->scopes.data[scope];
  tn__graph *graph = s->graph;
  for (int i = 0; i < tn__graph_input_count(graph); i++)
    add_variable(p, tn__plan_index(p->plan, scope, tn__graph_input_at(graph, i)));
  for (int i = 0; i < tn__graph_node_count(graph); i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    int bodies = n->output_count > 0 ? p->plan->values.data[tn__plan_index(p->plan, scope, n->outputs[0])].bodies : 0;
    for (int b = 0; bodies > 0 && b < n->graph_count; b++) {
      p->times[bodies + b] = p->times[scope] * tn__place_rounds(n, b);
      add_variables(p, bodies + b);
    }
    for (int k = 0; k < n->output_count; k++) add_variable(p, tn__plan_index(p->plan, scope, n->outputs[k]));
  }
}

static void weigh_devices(problem *p) {
  tn__compile_config *config = p->plan->config;
  int d = p->devices;
  enum { BYTES = 1 << 20 };
  p->wait = TN__NEW_ARRAY(p->arena, d * d, double);
  p->byte = TN__NEW_ARRAY(p->arena, d * d, double);
  for (int a = 0; a < d; a++)
    for (int b = 0; b < d; b++) {
      const tn__virtual_device *from = device_at(config, a), *to = device_at(config, b);
      p->wait[a * d + b] = tn__device_copy_seconds(config, from, to, 0);
      p->byte[a * d + b] = (tn__device_copy_seconds(config, from, to, BYTES) - p->wait[a * d + b]) / BYTES;
    }
}

/* What a variable takes on each device by itself; INFINITY where it may not be. */
static void weigh_variables(problem *p) {
  tn__plan *plan = p->plan;
  tn__device_rates rates[TN__MOST_TARGETS + 1];
  for (int d = 0; d < p->devices; d++) rates[d] = tn__device_rates_of(device_at(plan->config, d)->target);
  p->alone = TN__NEW_ARRAY(p->arena, p->count * p->devices, double);
  for (int v = 0; v < p->count; v++) {
    const tn__plan_domain *domain = &plan->domains.data[p->domains.data[v]];
    bool settled = domain->device != NULL && tn__virtual_device_is_full(domain->device);
    uint64_t may = settled ? tn__place_bit(plan->config, domain->device) : domain->devices;
    if (may == 0) may = TN__EVERY_DEVICE; /* which is refused when it is settled */
    for (int d = 0; d < p->devices; d++) p->alone[v * p->devices + d] = may >> d & 1 ? 0 : INFINITY;
  }
  for (int s = 0; s < plan->scopes.count; s++) {
    const tn__graph *graph = plan->scopes.data[s].graph;
    for (int i = 0; i < tn__graph_node_count(graph); i++) {
      const tn__node *n = tn__graph_node_at(graph, i);
      tn__place_work work = tn__place_work_of(n);
      int v = work.kernel ? p->variable[tn__plan_find(plan, tn__plan_index(plan, s, n->outputs[0]))] : -1;
      for (int d = 0; v >= 0 && d < p->devices; d++)
        p->alone[v * p->devices + d] += p->times[s] * tn__place_seconds(&rates[d], &work);
    }
  }
  const tn__graph *graph = plan->scopes.data[0].graph;
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    const tn__value *output = tn__graph_output_at(graph, i);
    int v = p->variable[tn__plan_find(plan, tn__plan_index(plan, 0, output))];
    net callers = {.bytes = tn__place_bytes(output), .times = 1};
    if (v < 0 || tn__place_is_output_before(graph, i)) continue;
    for (int d = 0; d < p->devices; d++) p->alone[v * p->devices + d] += copy_seconds(p, &callers, d, p->host);
  }
}

static int home_of(const problem *p, int value) {
  const tn__plan_value *v = &p->plan->values.data[value];
  int root = tn__plan_find(p->plan, value);
  if (v->value->data != NULL) return CONSTANT;
  if (p->variable[root] >= 0) return p->variable[root];
  bool of_host = root == tn__plan_find(p->plan, p->plan->host) || tn__plan_waits(p->plan, value);
  return of_host && !v->shape ? HOST_MADE : UNKNOWN; /* which nobody weighs */
}

/* The net of a value; `of`: by value, one more than its number. */
static net *net_of(problem *p, int *of, int value, int home, int scope) {
  if (of[value] == 0) {
    net n = {.home = home,
             .bytes = tn__place_bytes(p->plan->values.data[value].value),
             .times = home == CONSTANT ? 0 : p->times[scope],
             .first = -1};
    tn__vec_push(p->arena, &p->nets, n);
    of[value] = p->nets.count;
  }
  return &p->nets.data[of[value] - 1];
}

/* From the plan's edges: a net for each value, with those that read it; and for what callers get. */
static void add_nets(problem *p) {
  tn__plan *plan = p->plan;
  const tn__graph *graph = plan->scopes.data[0].graph;
  int host = tn__plan_find(plan, plan->host), *of = TN__NEW_ARRAY(p->arena, plan->values.count, int);
  int *next = TN__NEW_ARRAY(p->arena, plan->edges.count, int), total = 0;
  for (int e = plan->edges.count; e-- > 0;) {
    const tn__plan_edge *edge = &plan->edges.data[e];
    int to = tn__plan_find(plan, edge->to), reader = p->variable[to];
    int home = reader >= 0 || to == host ? home_of(p, edge->from) : UNKNOWN;
    if (home == UNKNOWN || home == reader) continue;
    net *n = net_of(p, of, edge->from, home, edge->scope);
    n->host_reads |= reader < 0;
    if (reader >= 0) next[e] = n->first, n->first = e, n->count++, total++;
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    int value = tn__plan_index(plan, 0, tn__graph_output_at(graph, i)), home = home_of(p, value);
    if (home >= 0) net_of(p, of, value, home, 0)->stays = true;
  }
  /* What nobody else reads takes memory, too. */
  for (int i = 0; plan->options->budgets != NULL && i < plan->host; i++)
    if (of[i] == 0 && decides(plan, i) && home_of(p, i) >= 0) net_of(p, of, i, home_of(p, i), 0);
  p->readers = TN__NEW_ARRAY(p->arena, total, int);
  int *seen = TN__NEW_ARRAY(p->arena, p->count, int);
  total = 0;
  for (int i = 0; i < p->nets.count; i++) {
    net *n = &p->nets.data[i];
    int e = n->first, begin = total;
    for (; e >= 0; e = next[e]) {
      int reader = p->variable[tn__plan_find(plan, plan->edges.data[e].to)];
      if (seen[reader] != i + 1) p->readers[total++] = reader;
      seen[reader] = i + 1;
    }
    n->first = begin, n->count = total - begin;
  }
}

static void span(net *n, int variable) {
  if (variable < n->opens) n->opens = variable;
  if (variable > n->closes) n->closes = variable;
}

/* By variable, the nets that it makes or reads. */
static void add_incidences(problem *p) {
  int total = 0;
  p->first = TN__NEW_ARRAY(p->arena, p->count + 1, int);
  for (int i = 0; i < p->nets.count; i++) {
    net *n = &p->nets.data[i];
    n->opens = p->count, n->closes = -1;
    for (int r = 0; r < n->count; r++) p->first[p->readers[n->first + r]]++, span(n, p->readers[n->first + r]);
    if (n->home >= 0) p->first[n->home]++, span(n, n->home);
  }
  for (int v = 0; v <= p->count; v++) {
    int here = p->first[v];
    p->first[v] = total;
    total += here;
  }
  p->incidences = TN__NEW_ARRAY(p->arena, total, incidence);
  int *at = tn__arena_copy(p->arena, p->first, (size_t)(p->count + 1) * sizeof *at);
  for (int i = 0; i < p->nets.count; i++) {
    const net *n = &p->nets.data[i];
    for (int r = 0; r < n->count; r++) p->incidences[at[p->readers[n->first + r]]++] = (incidence){i, false, true};
    if (n->home >= 0) p->incidences[at[n->home]++] = (incidence){i, true, false};
  }
}

/* Nets that are alive at different times share a slot. */
static void give_slots(problem *p) {
  TN__VEC(int) empty = {0};
  for (int v = 0; v < p->count; v++) {
    for (int k = p->first[v]; k < p->first[v + 1]; k++) {
      net *n = &p->nets.data[p->incidences[k].net];
      if (n->opens != v) continue;
      n->slot = empty.count > 0 ? empty.data[--empty.count] : p->slots++;
    }
    for (int k = p->first[v]; k < p->first[v + 1]; k++) {
      const net *n = &p->nets.data[p->incidences[k].net];
      if (n->closes == v) tn__vec_push(p->arena, &empty, n->slot);
    }
  }
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

typedef struct slot {
  uint64_t read; /* devices that read the value */
  int home;      /* where it is made; UNKNOWN: not decided yet */
} slot;

typedef struct way {   /* to place the variables so far */
  double excess, cost; /* bytes above budgets; seconds */
  uint64_t key;        /* of the slots */
  uint64_t state;      /* with memory: those with equal ones go on alike */
  int from, device;    /* the way that it continues, and where the last variable is */
} way;

typedef struct beam {
  const problem *p;
  int width, count;
  way *ways, *found;
  slot *slots, *next_slots; /* by way */
  /* Bytes, by way and device; NULL: there are no budgets. */
  double *alive, *most, *next_alive, *next_most;
} beam;

static uint64_t key_of(int at, const slot *s) {
  uint64_t x = s->read * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(s->home + 8) * UINT64_C(0xc2b2ae3d27d4eb4f) +
               (uint64_t)at * UINT64_C(0x165667b19e3779f9);
  x ^= x >> 29;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 32;
}

/* The variable, which makes or reads the net, is on the device: seconds of copies, and bytes. */
static double put(const problem *p, const net *n, const incidence *in, int device, slot *s, double *alive) {
  uint64_t bit = UINT64_C(1) << device;
  double cost = 0;
  if (in->makes) {
    s->home = device;
    for (int d = 0; d < p->devices; d++)
      if (s->read >> d & 1) cost += copy_seconds(p, n, device, d);
    if (alive != NULL && !(s->read & bit)) alive[device] += n->bytes;
  } else if (!(s->read & bit)) {
    s->read |= bit;
    if (s->home >= 0) cost += copy_seconds(p, n, s->home, device);
    if (alive != NULL && s->home != device) alive[device] += n->bytes;
  }
  return cost;
}

static slot before(const problem *p, const net *n, int variable, const slot *slots) {
  if (n->opens != variable) return slots[n->slot];
  slot s = {.home = n->home >= 0 ? UNKNOWN : n->home == HOST_MADE ? p->host : CONSTANT};
  if (n->host_reads) s.read = UINT64_C(1) << p->host;
  return s;
}

/* What callers hold on the host is theirs, and constants stay, as does what callers get. */
static void end(const problem *p, const net *n, const slot *s, double *alive) {
  if (n->home == CONSTANT) return;
  for (int d = 0; d < p->devices; d++) {
    bool copied = (s->read >> d & 1) && d != s->home && !(n->host_reads && d == p->host);
    if (copied || (d == s->home && n->home >= 0 && !n->stays)) alive[d] -= n->bytes;
  }
}

/* Continues a way; `alive` and `most` get what comes of it, or are NULL. */
static way weigh(const problem *p, const way *from, int variable, int device, const slot *slots, double *alive,
                 double *most) {
  way to = *from;
  to.cost += p->alone[variable * p->devices + device];
  to.device = device;
  for (int k = p->first[variable]; k < p->first[variable + 1]; k++) {
    const net *n = &p->nets.data[p->incidences[k].net];
    slot s = before(p, n, variable, slots), old = s;
    double alive_before = alive != NULL ? alive[device] : 0;
    to.cost += put(p, n, &p->incidences[k], device, &s, alive);
    if (alive != NULL && n->home == CONSTANT) most[device] += alive[device] - alive_before; /* from the start on */
    if (n->opens != variable) to.key ^= key_of(n->slot, &old);
    if (n->closes != variable) to.key ^= key_of(n->slot, &s);
  }
  to.state = to.key;
  if (alive == NULL) return to;
  to.excess = 0;
  for (int d = 0; d < p->devices; d++) {
    double budget = (double)p->plan->options->budgets->bytes[d];
    if (alive[d] > most[d]) most[d] = alive[d];
    if (budget > 0 && most[d] > budget) to.excess += most[d] - budget;
  }
  for (int k = p->first[variable]; k < p->first[variable + 1]; k++) {
    const net *n = &p->nets.data[p->incidences[k].net];
    slot s = before(p, n, variable, slots);
    put(p, n, &p->incidences[k], device, &s, NULL);
    if (n->closes == variable) end(p, n, &s, alive);
  }
  for (int d = 0; d < p->devices; d++)
    if (p->plan->options->budgets->bytes[d] > 0)
      to.state = tn__hash_mix(tn__hash_mix(to.state, (uint64_t)alive[d]), (uint64_t)most[d]);
  return to;
}

static int compare_numbers(double a, double b) { return (a > b) - (a < b); }

/* Ways in all: there is one order, whatever sorts. */
static int compare_ways(const void *a, const void *b) {
  const way *x = a, *y = b;
  int order = compare_numbers(x->excess, y->excess);
  if (order == 0) order = compare_numbers(x->cost, y->cost);
  if (order == 0) order = (x->from > y->from) - (x->from < y->from);
  return order != 0 ? order : (x->device > y->device) - (x->device < y->device);
}

static int compare_states(const void *a, const void *b) {
  const way *x = a, *y = b;
  return x->state != y->state ? (x->state > y->state) - (x->state < y->state) : compare_ways(a, b);
}

/* The best of those that were found, of those that go on alike one. */
static void select_ways(beam *b, int found) {
  int kept = 0;
  uint64_t state = 0;
  qsort(b->found, (size_t)found, sizeof *b->found, compare_states);
  for (int i = 0; i < found; i++)
    if (i == 0 || b->found[i].state != state) state = b->found[i].state, b->found[kept++] = b->found[i];
  qsort(b->found, (size_t)kept, sizeof *b->found, compare_ways);
  b->count = kept < b->width ? kept : b->width;
}

static void take_step(beam *b, int variable) {
  const problem *p = b->p;
  int found = 0, d = p->devices;
  size_t bytes = (size_t)p->slots * sizeof *b->slots, numbers = (size_t)d * sizeof(double);
  double alive[TN__MOST_TARGETS + 1], most[TN__MOST_TARGETS + 1];
  for (int w = 0; w < b->count; w++)
    for (int device = 0; device < d; device++) {
      if (isinf(p->alone[variable * d + device])) continue;
      if (b->alive != NULL) {
        memcpy(alive, b->alive + (ptrdiff_t)w * d, numbers);
        memcpy(most, b->most + (ptrdiff_t)w * d, numbers);
      }
      b->found[found] = weigh(p, &b->ways[w], variable, device, b->slots + (ptrdiff_t)w * p->slots,
                              b->alive != NULL ? alive : NULL, most);
      b->found[found++].from = w;
    }
  select_ways(b, found);
  for (int w = 0; w < b->count; w++) {
    const way *to = &b->found[w];
    const slot *from = b->slots + (ptrdiff_t)to->from * p->slots;
    slot *out = b->width == 1 ? b->slots : b->next_slots + (ptrdiff_t)w * p->slots;
    if (b->alive != NULL) {
      memcpy(b->next_alive + (ptrdiff_t)w * d, b->alive + (ptrdiff_t)to->from * d, numbers);
      memcpy(b->next_most + (ptrdiff_t)w * d, b->most + (ptrdiff_t)to->from * d, numbers);
      weigh(p, &b->ways[to->from], variable, to->device, from, b->next_alive + (ptrdiff_t)w * d,
            b->next_most + (ptrdiff_t)w * d);
    }
    if (out != from && bytes > 0) memcpy(out, from, bytes);
    for (int k = p->first[variable]; k < p->first[variable + 1]; k++) {
      const net *n = &p->nets.data[p->incidences[k].net];
      slot s = before(p, n, variable, out);
      put(p, n, &p->incidences[k], to->device, &s, NULL);
      out[n->slot] = s;
    }
  }
  memcpy(b->ways, b->found, (size_t)b->count * sizeof *b->ways);
  if (b->width > 1) {
    slot *other = b->slots;
    b->slots = b->next_slots, b->next_slots = other;
  }
  double *other_alive = b->alive, *other_most = b->most;
  b->alive = b->next_alive, b->next_alive = other_alive;
  b->most = b->next_most, b->next_most = other_most;
}

/* How many ways are kept: as many as make the work for all variables, and the memory, a fixed amount. */
static int width_of(const problem *p) {
  enum { WEIGHED = 1000000, COPIED = 100000000, KEPT = 1000000, MOST = 2048 };
  int64_t width = WEIGHED / ((int64_t)p->count * p->devices), slots = p->slots + 1;
  if (width > COPIED / (p->count * slots)) width = COPIED / (p->count * slots);
  if (width > KEPT / slots) width = KEPT / slots;
  return width > MOST ? MOST : width < 1 ? 1 : (int)width;
}

static void search(const problem *p, int *choice) {
  beam b = {.p = p, .width = width_of(p), .count = 1};
  size_t slots = (size_t)b.width * (size_t)p->slots, numbers = (size_t)b.width * (size_t)p->devices;
  b.ways = TN__NEW_ARRAY(p->arena, b.width, way);
  b.found = TN__NEW_ARRAY(p->arena, b.width * p->devices, way);
  b.slots = tn__arena_alloc(p->arena, (slots + 1) * sizeof *b.slots);
  b.next_slots = b.width > 1 ? tn__arena_alloc(p->arena, (slots + 1) * sizeof *b.slots) : NULL;
  if (p->plan->options->budgets != NULL) {
    b.alive = TN__NEW_ARRAY(p->arena, (int)numbers, double), b.most = TN__NEW_ARRAY(p->arena, (int)numbers, double);
    b.next_alive = TN__NEW_ARRAY(p->arena, (int)numbers, double);
    b.next_most = TN__NEW_ARRAY(p->arena, (int)numbers, double);
  }
  struct step {
    int from;
    uint8_t device;
  } **history = TN__NEW_ARRAY(p->arena, p->count, struct step *);
  for (int v = 0; v < p->count; v++) {
    take_step(&b, v);
    history[v] = TN__NEW_ARRAY(p->arena, b.count, struct step);
    for (int w = 0; w < b.count; w++) history[v][w] = (struct step){b.ways[w].from, (uint8_t)b.ways[w].device};
    p->plan->result.steps += (uint64_t)b.count;
  }
  for (int v = p->count, w = 0; v-- > 0; w = history[v][w].from) choice[v] = history[v][w].device;
}

/* ---- moving single domains --------------------------------------------------------------------------------------- */

typedef struct mover {
  const problem *p;
  int *choice;
  int *readers; /* by net and device: variables there that read it */
} mover;

static int home_now(const mover *m, const net *n) { return n->home >= 0 ? m->choice[n->home] : m->p->host; }

static void count_readers(mover *m) {
  const problem *p = m->p;
  memset(m->readers, 0, (size_t)p->nets.count * (size_t)p->devices * sizeof *m->readers);
  for (int i = 0; i < p->nets.count; i++) {
    const net *n = &p->nets.data[i];
    for (int r = 0; r < n->count; r++) m->readers[i * p->devices + m->choice[p->readers[n->first + r]]]++;
    if (n->host_reads) m->readers[i * p->devices + p->host]++;
  }
}

static double cost_of_net(const mover *m, int i, int home) {
  const net *n = &m->p->nets.data[i];
  double cost = 0;
  for (int d = 0; n->home != CONSTANT && d < m->p->devices; d++)
    if (m->readers[i * m->p->devices + d] > 0) cost += copy_seconds(m->p, n, home, d);
  return cost;
}

/* Moves the variable, and tells what that saves. */
static double move(mover *m, int variable, int device) {
  const problem *p = m->p;
  int old = m->choice[variable];
  double saved = p->alone[variable * p->devices + old] - p->alone[variable * p->devices + device];
  for (int k = p->first[variable]; k < p->first[variable + 1]; k++) {
    int i = p->incidences[k].net;
    saved += cost_of_net(m, i, home_now(m, &p->nets.data[i]));
    if (p->incidences[k].reads) m->readers[i * p->devices + old]--, m->readers[i * p->devices + device]++;
  }
  m->choice[variable] = device;
  for (int k = p->first[variable]; k < p->first[variable + 1]; k++)
    saved -= cost_of_net(m, p->incidences[k].net, home_now(m, &p->nets.data[p->incidences[k].net]));
  return saved;
}

static double cost_of(mover *m) {
  const problem *p = m->p;
  double cost = 0;
  count_readers(m);
  for (int v = 0; v < p->count; v++) cost += p->alone[v * p->devices + m->choice[v]];
  for (int i = 0; i < p->nets.count; i++) cost += cost_of_net(m, i, home_now(m, &p->nets.data[i]));
  return cost;
}

static void improve(mover *m) {
  enum { ROUNDS = 6 };
  const problem *p = m->p;
  bool moved = true;
  count_readers(m);
  for (int round = 0; round < ROUNDS && moved; round++) {
    moved = false;
    for (int v = 0; v < p->count; v++)
      for (int d = 0; d < p->devices; d++) {
        int old = m->choice[v];
        if (d == old || isinf(p->alone[v * p->devices + d])) continue;
        double least = 1e-9 * p->alone[v * p->devices + old]; /* not for what rounding makes of it */
        if (move(m, v, d) > least)
          moved = true;
        else
          move(m, v, old);
      }
    p->plan->result.steps += (uint64_t)p->count;
  }
}

/* From what the search has found, and from having all on one device that may be there. */
static void improve_all(const problem *p, int *choice) {
  enum { MOST_STARTS = 8 };
  mover m = {p, choice, TN__NEW_ARRAY(p->arena, p->nets.count * p->devices, int)};
  mover other = {p, TN__NEW_ARRAY(p->arena, p->count, int), m.readers};
  improve(&m);
  double best = cost_of(&m);
  for (int d = 0; d < p->devices && d < MOST_STARTS; d++) {
    for (int v = 0; v < p->count; v++) other.choice[v] = isinf(p->alone[v * p->devices + d]) ? choice[v] : d;
    improve(&other);
    double cost = cost_of(&other);
    if (cost >= best) continue;
    best = cost;
    memcpy(choice, other.choice, (size_t)p->count * sizeof *choice);
  }
}

static double cost_of_choice(void *user, const int *choice) {
  const mover *m = user;
  memcpy(m->choice, choice, (size_t)m->p->count * sizeof *choice);
  return cost_of(user);
}

/* Searches within the budgets after the search by time has found nothing that fits. */
static void fit_all(const problem *p, int *choice) {
  mover m = {p, TN__NEW_ARRAY(p->arena, p->count, int), TN__NEW_ARRAY(p->arena, p->nets.count * p->devices, int)};
  tn__plan_fit fit = {p->plan, p->devices, p->count, p->variable, p->alone, cost_of_choice, &m};
  tn__plan_fit_choice(&fit, choice);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

void tn__plan_choose(tn__plan *plan) {
  tn__compile_config *config = plan->config;
  problem p = {.plan = plan, .arena = plan->arena, .host = tn__compile_config_rank(config, config->host)};
  p.devices = config->devices.count + (p.host == config->devices.count);
  p.variable = TN__NEW_ARRAY(p.arena, plan->domains.count, int);
  p.times = TN__NEW_ARRAY(p.arena, plan->scopes.count, double);
  for (int i = 0; i < plan->domains.count; i++) p.variable[i] = -1;
  p.times[0] = 1;
  add_variables(&p, 0);
  p.count = p.domains.count;
  if (p.count == 0 || p.devices == 1) return;
  weigh_devices(&p);
  weigh_variables(&p);
  add_nets(&p);
  add_incidences(&p);
  give_slots(&p);
  int *choice = TN__NEW_ARRAY(p.arena, p.count, int);
  search(&p, choice);
  if (plan->options->budgets == NULL)
    improve_all(&p, choice);
  else
    fit_all(&p, choice);
  for (int v = 0; v < p.count; v++) {
    tn__plan_domain *d = &plan->domains.data[p.domains.data[v]];
    if (d->device == NULL || !tn__virtual_device_is_full(d->device))
      tn__plan_settle(plan, d, device_at(config, choice[v]), "by predicted time");
  }
}
