/* The search of automatic.c keeps the fastest partial placements and knows only their memory so far. A kept placement
 * may later exceed a budget where a dropped one would not. This search compares complete placements, with the memory
 * that tn__place_measure() would measure for the resulting plan.
 *
 * A value is live on its device up to its last reader there, or the last copy of it. A copy is live from its first
 * to its last reader, and is made before the first reader or in the branch arm that reads it. The values of a body
 * are live while its operator runs. A copy that planning hoists out of a loop is counted where it is read; the
 * measure of the plan corrects this. */
#include "graph/place/fit.h"

#include <math.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/place/cost.h"

/* Limits visited nodes, which bounds the search to some tenths of a second. */
enum { MOST_VISITS = 4000000, ROUNDS = 8 };

typedef struct state {
  int last;   /* index of the last node that reads or copies it; -1: none; the number of nodes: it is an output */
  int reads;  /* by nodes and outputs of its graph */
  bool begun; /* it is counted as live */
} state;

typedef struct weigher {
  const tn__plan_fit *fit;
  tn__plan *plan;
  const int *choice;
  int devices, host;
  int *away;     /* by value: its domain's device if it is not a variable; -1: the device of its readers */
  state *states; /* by value and device */
  bool *copied;  /* by value: a branch operand from another device, which the arm copies */
  double alive[TN__MOST_TARGETS + 1], most[TN__MOST_TARGETS + 1], constants[TN__MOST_TARGETS + 1];
  int64_t visits;
} weigher;

static int variable_of(const weigher *w, int value) { return w->fit->variable[tn__plan_find(w->plan, value)]; }

static int device_of(const weigher *w, int value) {
  int variable = variable_of(w, value);
  return variable >= 0 ? w->choice[variable] : w->away[value];
}

static state *state_of(const weigher *w, int value, int device) {
  return &w->states[(ptrdiff_t)value * w->devices + device];
}

static const tn__node *stand_in(const tn__value *value) {
  const tn__node *n = value->producer;
  return n != NULL && (tn__op_has(n, TN__FACT_SAYS_PLACE) || tn__op_has(n, TN__FACT_COPIES)) ? n : NULL;
}

static int base_of(const weigher *w, int scope, const tn__value *value) {
  for (const tn__node *n; (n = stand_in(value)) != NULL;) value = n->inputs[0];
  return tn__plan_index(w->plan, scope, value);
}

/* ---- devices of domains that are not variables ------------------------------------------------------------------- */

static bool is_open(const weigher *w, int value) {
  const tn__value *v = w->plan->values.data[value].value;
  return v != NULL && v->data == NULL && variable_of(w, value) < 0 &&
         !tn__plan_is_settled(&w->plan->domains.data[tn__plan_find(w->plan, value)]);
}

/* Tensors of callers are on the device of their readers, or on the host if these differ. Other open values are on
 * the device of their first reader. */
static void follow_readers(const weigher *w) {
  const tn__plan *plan = w->plan;
  for (int i = 0; i < plan->host; i++)
    if (is_open(w, i)) w->away[i] = -1;
  for (int e = plan->edges.count; e-- > 0;) {
    int from = plan->edges.data[e].from, to = device_of(w, plan->edges.data[e].to);
    if (!is_open(w, from) || to < 0) continue;
    bool differs = w->away[from] >= 0 && w->away[from] != to;
    w->away[from] = differs && tn__plan_waits(plan, from) ? w->host : to;
  }
  for (int i = 0; i < plan->host; i++)
    if (w->away[i] < 0) w->away[i] = w->host;
}

/* ---- live ranges ------------------------------------------------------------------------------------------------- */

/* The device on which a node reads an operand. */
static int reads_on(const weigher *w, int scope, const tn__node *n, int operand) {
  const tn__plan *plan = w->plan;
  bool control = n->op->lowering == TN__LOWER_CONTROL, loop = tn__op_has(n, TN__FACT_LOOPS);
  int chooses = control && !loop && n->graph_count == 2;
  if (n->output_count == 0 || (chooses && operand == 0)) return w->host;
  int made = tn__plan_index(plan, scope, n->outputs[0]);
  if (!control) return device_of(w, made);
  int bodies = plan->values.data[made].bodies;
  return device_of(w, tn__plan_index(plan, bodies, tn__graph_input_at(n->graphs[0], operand - chooses)));
}

static void note_read(weigher *w, int value, int device, int at) {
  int home = w->plan->values.data[value].value->data != NULL ? device : device_of(w, value);
  state_of(w, value, device)->last = at;
  state_of(w, value, device)->reads++;
  if (state_of(w, value, home)->last < at) state_of(w, value, home)->last = at;
}

static void begin(weigher *w, int value, int device, bool outermost) {
  const tn__value *v = w->plan->values.data[value].value;
  state *s = state_of(w, value, device);
  /* Tensors of callers on the host are not counted; inputs of a body are counted as operands of its operator. */
  bool input = v->producer == NULL && v->data == NULL && device == device_of(w, value);
  if (s->begun || (input && (outermost ? device == w->host : !w->copied[value]))) return;
  s->begun = true;
  *(v->data != NULL ? &w->constants[device] : &w->alive[device]) += tn__place_bytes(v);
}

static void end(weigher *w, int value, int device, int at) {
  const tn__value *v = w->plan->values.data[value].value;
  state *s = state_of(w, value, device);
  if (v->data != NULL || !s->begun || s->last > at) return;
  s->begun = false;
  w->alive[device] -= tn__place_bytes(v);
}

static void note_most(weigher *w) {
  for (int d = 0; d < w->devices; d++)
    if (w->alive[d] > w->most[d]) w->most[d] = w->alive[d];
}

/* Counts a copy made before the node. If the node does not read the original, the original ends with the copy. */
static void copy_before(weigher *w, int value, int device, int at, bool outermost, bool ends) {
  int home = device_of(w, value);
  if (w->plan->values.data[value].value->data != NULL || home == device || state_of(w, value, device)->begun) return;
  begin(w, value, home, outermost);
  begin(w, value, device, outermost);
  note_most(w);
  if (ends) end(w, value, home, at);
}

static bool is_read(const tn__graph *graph, const tn__value *value) {
  bool read = false;
  for (int i = 0; i < value->readers.count && !read; i++)
    read = value->readers.data[i].node->inputs[value->readers.data[i].input] == value;
  for (int i = 0; i < value->results.count && !read; i++)
    read = tn__graph_output_at(graph, value->results.data[i]) == value;
  return read;
}

static bool chooses(const tn__node *n) {
  return n->op->lowering == TN__LOWER_CONTROL && !tn__op_has(n, TN__FACT_LOOPS) && n->graph_count == 2;
}

/* Returns whether a branch operand without other readers is copied in the only arm that reads it. */
static bool moves_into_arm(const weigher *w, int scope, const tn__node *n, int operand) {
  int arms = 0;
  if (!chooses(n) || operand == 0) return false;
  int value = base_of(w, scope, n->inputs[operand]), device = reads_on(w, scope, n, operand);
  bool constant = w->plan->values.data[value].value->data != NULL;
  if (constant || device_of(w, value) == device || state_of(w, value, device)->reads > 1) return false;
  for (int b = 0; b < 2; b++) arms += is_read(n->graphs[b], tn__graph_input_at(n->graphs[b], operand - 1));
  return arms == 1;
}

/* Marks the inputs of bodies that are copied in an arm, rather than passed in place. */
static void mark_copied(const weigher *w, int scope, const tn__node *n, int bodies) {
  for (int k = chooses(n); k < n->input_count; k++)
    for (int b = 0; b < n->graph_count; b++) {
      const tn__value *formal = tn__graph_input_at(n->graphs[b], k - chooses(n));
      w->copied[tn__plan_index(w->plan, bodies + b, formal)] = moves_into_arm(w, scope, n, k);
    }
}

static bool is_read_at_home(const weigher *w, int scope, const tn__node *n, int value, int from) {
  for (int k = 0; k < n->input_count; k++) {
    if (n->inputs[k] == NULL || base_of(w, scope, n->inputs[k]) != value) continue;
    int device = reads_on(w, scope, n, k);
    bool later = k > from && !state_of(w, value, device)->begun;
    if (device == device_of(w, value) || later || moves_into_arm(w, scope, n, k)) return true;
  }
  return false;
}

static void weigh_scope(weigher *w, int scope);

static void weigh_node(weigher *w, int scope, const tn__node *n, int at) {
  bool outermost = scope == 0;
  int bodies = n->output_count > 0 ? w->plan->values.data[tn__plan_index(w->plan, scope, n->outputs[0])].bodies : 0;
  for (int k = 0; k < n->input_count; k++) {
    if (n->inputs[k] == NULL || moves_into_arm(w, scope, n, k)) continue;
    int value = base_of(w, scope, n->inputs[k]);
    copy_before(w, value, reads_on(w, scope, n, k), at, outermost, !is_read_at_home(w, scope, n, value, k));
  }
  for (int k = 0; k < n->input_count; k++) {
    if (n->inputs[k] == NULL) continue;
    int value = base_of(w, scope, n->inputs[k]);
    begin(w, value, moves_into_arm(w, scope, n, k) ? device_of(w, value) : reads_on(w, scope, n, k), outermost);
  }
  for (int k = 0; k < n->output_count; k++) {
    int made = tn__plan_index(w->plan, scope, n->outputs[k]);
    begin(w, made, device_of(w, made), outermost);
  }
  if (bodies > 0) mark_copied(w, scope, n, bodies);
  for (int b = 0; bodies > 0 && b < n->graph_count; b++) weigh_scope(w, bodies + b);
  note_most(w);
  for (int k = 0; k < n->input_count; k++)
    for (int d = 0; n->inputs[k] != NULL && d < w->devices; d++) end(w, base_of(w, scope, n->inputs[k]), d, at);
  for (int k = 0; k < n->output_count; k++) {
    int made = tn__plan_index(w->plan, scope, n->outputs[k]);
    end(w, made, device_of(w, made), at);
  }
}

/* The device on which the result of a body is wanted. */
static int gives_on(const weigher *w, int scope, int output) {
  const tn__plan_scope *s = &w->plan->scopes.data[scope];
  const tn__value *value = tn__graph_output_at(s->graph, output);
  if (s->node == NULL) return device_of(w, tn__plan_index(w->plan, scope, value));
  if (tn__op_has(s->node, TN__FACT_LOOPS) && s->body == 0) return w->host;
  return device_of(w, tn__plan_index(w->plan, s->outer, s->node->outputs[output]));
}

static void weigh_scope(weigher *w, int scope) {
  const tn__graph *graph = w->plan->scopes.data[scope].graph;
  int count = tn__graph_node_count(graph);
  double around[TN__MOST_TARGETS + 1];
  memcpy(around, w->alive, sizeof around);
  for (int i = 0; i < graph->values.count; i++)
    for (int d = 0; d < w->devices; d++)
      if (w->plan->values.data[w->plan->scopes.data[scope].base + i].value != NULL)
        *state_of(w, w->plan->scopes.data[scope].base + i, d) = (state){.last = -1};
  for (int i = 0; i < count; i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    bool known = n->output_count > 0 && stand_in(n->outputs[0]) != NULL;
    for (int k = 0; !known && k < n->input_count; k++)
      if (n->inputs[k] != NULL) note_read(w, base_of(w, scope, n->inputs[k]), reads_on(w, scope, n, k), i);
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    int value = base_of(w, scope, tn__graph_output_at(graph, i));
    int device = scope == 0 ? device_of(w, tn__plan_index(w->plan, scope, tn__graph_output_at(graph, i)))
                            : gives_on(w, scope, i);
    note_read(w, value, device, count);
  }
  for (int i = 0; i < count; i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    if (n->output_count == 0 || stand_in(n->outputs[0]) == NULL) weigh_node(w, scope, n, i);
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    int device = scope == 0 ? device_of(w, tn__plan_index(w->plan, scope, tn__graph_output_at(graph, i)))
                            : gives_on(w, scope, i);
    int value = base_of(w, scope, tn__graph_output_at(graph, i));
    if (w->copied[value]) begin(w, value, device_of(w, value), false);
    copy_before(w, value, device, count, scope == 0, false);
    note_most(w);
  }
  w->visits += count + 1;
  memcpy(w->alive, around, sizeof around);
}

/* Returns the bytes above the budgets. */
static double excess_of(weigher *w, const int *choice) {
  const tn__place_budgets *budgets = w->plan->options->budgets;
  double excess = 0;
  w->choice = choice;
  memset(w->alive, 0, sizeof w->alive);
  memset(w->most, 0, sizeof w->most);
  memset(w->constants, 0, sizeof w->constants);
  follow_readers(w);
  weigh_scope(w, 0);
  for (int d = 0; d < w->devices; d++) {
    double all = w->most[d] + w->constants[d], budget = (double)budgets->bytes[d];
    if (budget > 0 && all > budget) excess += all - budget;
  }
  return excess;
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

static bool may_be(const tn__plan_fit *f, int variable, int device) {
  return !isinf(f->alone[variable * f->devices + device]);
}

typedef struct best {
  double excess, cost;
  int *choice;
} best;

static void take_better(weigher *w, const int *choice, double excess, best *b) {
  double cost = excess > 0 ? INFINITY : w->fit->cost(w->fit->user, choice);
  if (excess > b->excess || (excess == b->excess && cost >= b->cost)) return;
  b->excess = excess, b->cost = cost;
  memcpy(b->choice, choice, (size_t)w->fit->count * sizeof *choice);
}

/* Returns the number of choices, saturating above MOST_VISITS. */
static int64_t count_choices(const tn__plan_fit *f) {
  int64_t count = 1;
  for (int v = 0; v < f->count && count <= MOST_VISITS; v++) {
    int here = 0;
    for (int d = 0; d < f->devices; d++) here += may_be(f, v, d);
    count *= here;
  }
  return count;
}

static void try_all(weigher *w, int variable, int *choice, best *b) {
  const tn__plan_fit *f = w->fit;
  if (variable == f->count) {
    take_better(w, choice, excess_of(w, choice), b);
    return;
  }
  for (int d = 0; d < f->devices; d++) {
    if (!may_be(f, variable, d)) continue;
    choice[variable] = d;
    try_all(w, variable + 1, choice, b);
  }
}

/* Moves single variables while that reduces the excess over the budgets. */
static void descend(weigher *w, int *choice, best *b) {
  const tn__plan_fit *f = w->fit;
  double excess = excess_of(w, choice);
  bool moved = true;
  take_better(w, choice, excess, b);
  for (int round = 0; round < ROUNDS && moved && excess > 0; round++) {
    moved = false;
    for (int v = 0; v < f->count && excess > 0; v++)
      for (int d = 0; d < f->devices && excess > 0 && w->visits < MOST_VISITS; d++) {
        int old = choice[v];
        if (d == old || !may_be(f, v, d)) continue;
        choice[v] = d;
        double now = excess_of(w, choice);
        if (now < excess)
          excess = now, moved = true;
        else
          choice[v] = old;
      }
  }
  take_better(w, choice, excess, b);
}

/* Starts with the result of the search and with all on one device: first unchanged, then with moves. */
static void try_some(weigher *w, const int *found, best *b) {
  const tn__plan_fit *f = w->fit;
  int *choice = TN__NEW_ARRAY(w->plan->arena, f->count, int);
  for (int moves = 0; moves < 2 && (moves == 0 || b->excess > 0); moves++)
    for (int d = -1; d < f->devices && w->visits < MOST_VISITS; d++) {
      for (int v = 0; v < f->count; v++) choice[v] = d >= 0 && may_be(f, v, d) ? d : found[v];
      if (moves)
        descend(w, choice, b);
      else
        take_better(w, choice, excess_of(w, choice), b);
    }
}

void tn__plan_fit_choice(const tn__plan_fit *fit, int *choice) {
  tn__plan *plan = fit->plan;
  weigher w = {.fit = fit, .plan = plan, .devices = fit->devices};
  w.host = tn__compile_config_rank(plan->config, plan->config->host);
  w.away = TN__NEW_ARRAY(plan->arena, plan->values.count, int);
  w.states = TN__NEW_ARRAY(plan->arena, plan->values.count * fit->devices, state);
  w.copied = TN__NEW_ARRAY(plan->arena, plan->values.count, bool);
  w.away[plan->host] = w.host;
  for (int i = 0; i < plan->host; i++) {
    const tn__virtual_device *device = tn__plan_device(plan, i);
    bool settled = tn__plan_is_settled(&plan->domains.data[tn__plan_find(plan, i)]);
    w.away[i] = settled ? tn__compile_config_rank(plan->config, device) : -1;
  }
  if (excess_of(&w, choice) > 0) {
    best b = {INFINITY, INFINITY, TN__NEW_ARRAY(plan->arena, fit->count, int)};
    if (count_choices(fit) * (w.visits + 1) <= MOST_VISITS)
      try_all(&w, 0, TN__NEW_ARRAY(plan->arena, fit->count, int), &b);
    else
      try_some(&w, choice, &b);
    memcpy(choice, b.choice, (size_t)fit->count * sizeof *choice);
  }
  plan->result.steps += (uint64_t)(w.visits / 16);
}
