/* The search of automatic.c keeps the fastest ways to place the program so far, and knows of memory what is alive then.
 * Such a way may end above a budget where another, which was dropped, does not. Here whole choices are weighed, as
 * tn__place_measure() measures the plan that comes of them. A value is alive on its device up to its last reader there,
 * or the last copy of it. A copy is alive from its first to its last reader, and stands before the first or in the arm
 * that reads it. Bodies take what their values take while their operator runs. Copies that planning moves out of
 * loops are counted where they are read: there the measure of the plan decides. */
#include "graph/place/fit.h"

#include <math.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/place/cost.h"

/* Nodes that are visited at the most, some tenths of a second. */
enum { MOST_VISITS = 4000000, ROUNDS = 8 };

typedef struct state {
  int last;   /* of the node that reads it last, or copies it; -1: none; the number of nodes: it goes out */
  int reads;  /* by nodes and outputs of its graph */
  bool begun; /* its bytes are counted */
} state;

typedef struct weigher {
  const tn__plan_fit *fit;
  tn__plan *plan;
  const int *choice;
  int devices, host;
  int *away;     /* by value: the rank where its domain is, when that is no variable; -1: follows from its readers */
  state *states; /* by value and device */
  bool *copied;  /* by value: a branch hands it from another device, and the arm copies it */
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

/* ---- where domains are that are no variables --------------------------------------------------------------------- */

static bool is_open(const weigher *w, int value) {
  const tn__value *v = w->plan->values.data[value].value;
  return v != NULL && v->data == NULL && variable_of(w, value) < 0 &&
         !tn__plan_is_settled(&w->plan->domains.data[tn__plan_find(w->plan, value)]);
}

/* Callers' tensors are where they are read, or with the host; what else is open is where it is read first. */
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

/* ---- lives ------------------------------------------------------------------------------------------------------- */

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
  /* Callers' tensors on the host are theirs, and what a body takes is what its operator reads. */
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

/* The copy stands before the node, which its value need not outlive when nothing there reads that itself. */
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

/* Is the copy of a branch's operand, which nobody else reads, made in the one arm that does? */
static bool moves_into_arm(const weigher *w, int scope, const tn__node *n, int operand) {
  int arms = 0;
  if (!chooses(n) || operand == 0) return false;
  int value = base_of(w, scope, n->inputs[operand]), device = reads_on(w, scope, n, operand);
  bool constant = w->plan->values.data[value].value->data != NULL;
  if (constant || device_of(w, value) == device || state_of(w, value, device)->reads > 1) return false;
  for (int b = 0; b < 2; b++) arms += is_read(n->graphs[b], tn__graph_input_at(n->graphs[b], operand - 1));
  return arms == 1;
}

/* What the bodies take is a copy in an arm, or what they are handed. */
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

/* Of a body: where what it gives is wanted. */
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

/* Bytes above the budgets. */
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

/* ---- searching --------------------------------------------------------------------------------------------------- */

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

/* How many choices there are; above MOST_VISITS it does not matter. */
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

/* Moves single variables as long as that leads towards the budgets. */
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

/* From what the search has found, and from having all on one device: first as they are, then with moves. */
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
