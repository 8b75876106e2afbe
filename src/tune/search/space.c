#include "tune/search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/machine_file.h"
#include "schedule/sketch/decided.h"
#include "target/text/text.h"
#include "te/text.h"
#include "tune/search/points.h"

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

tn_status *tn__space_target(const tn_tune_task *task, tn__target *out) {
  TN_RETURN_IF_ERROR(tn__target_parse(task->target, out));
  if (task->machine == NULL) return NULL;
  tn__machine machine = out->cpu.row; /* what the text leaves out */
  TN_RETURN_IF_ERROR(
      tn__machine_read("the task's machine", task->machine, strlen(task->machine), out->cpu.arch, &machine));
  tn__target_use(out, &machine);
  return NULL;
}

const tn__te *tn__space_declare(tn__arena *arena, const tn_tune_task *task, const tn__target *target,
                                tn__plan_unit *unit) {
  tn__te_source *source;
  tn__te *te;
  tn__check(arena->escape, tn__te_parse(arena, task->name, task->declaration, strlen(task->declaration), &source));
  if (tn__te_kernel_count(source) != 1)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s: a task has one kernel, and this text has %d", task->name,
               tn__te_kernel_count(source));
  tn__check(arena->escape, tn__te_declare(source, 0, NULL, 0, tn__ir_create(arena), &te));
  const tn__schedule_options options = {.threads = task->threads, .results_read = task->results_read};
  *unit = tn__rule_plan_unit_of(te, target, &options);
  return te;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void add_rule(tn__space *space, const tn__sketch *k) {
  for (int i = 0; i < space->rule_count; i++)
    if (strcmp(space->rules[i].name, tn__sketch_name(k)) == 0) return;
  if (space->rule_count == TN__SPACE_RULES || k->decision_count == 0) return;
  space->rules[space->rule_count++] = (tn__space_rule){tn__sketch_name(k), k, tn__sketch_points(k)};
}

static int rule_of(const tn__space *space, const tn__sketch *k) {
  for (int i = 0; k != NULL && i < space->rule_count; i++)
    if (strcmp(space->rules[i].name, tn__sketch_name(k)) == 0) return i;
  return -1;
}

static const char *print_trace(tn__arena *arena, const tn__schedule *schedule) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(schedule, &text);
  return tn__arena_take(arena, &text);
}

/* The parts of a rule that asked the chooser for them. */
typedef struct noticed {
  tn__arena *arena;
  TN__VEC(tn__plan_unit) units;
} noticed;

TN_MUST_USE static bool propose_noticing(const tn__chooser *chooser, const tn__plan_unit *unit,
                                         const tn__candidate *refused, tn__candidate *out) {
  noticed *n = *(noticed *const *)chooser->data;
  if (refused == NULL && unit->part != NULL) tn__vec_push(n->arena, &n->units, *unit);
  return tn__chooser_static.propose(chooser, unit, refused, out);
}

/* False where it has nothing to decide. */
TN_MUST_USE static bool open_part(tn__space *space, const tn__plan_unit *unit, tn__space_part *out) {
  const tn__plan *plan = tn__plan_kernel(unit, &tn__chooser_static);
  *out = (tn__space_part){.name = tn__arena_strdup(&space->arena, unit->part), .cycles = plan->cost.cycles};
  if (plan->sketch == NULL || plan->sketch->decision_count == 0) return false;
  out->rules[out->rule_count++] = (tn__space_rule){plan->rule, plan->sketch, tn__sketch_points(plan->sketch)};
  for (int d = 0; d < plan->sketch->decision_count; d++)
    for (int v = 0; v < plan->sketch->decisions[d].count; v++)
      if (plan->sketch->decisions[d].choices[v] == plan->values[d]) out->chosen.places[d] = (uint8_t)v;
  for (int i = 0; i < unit->rules->count && out->rule_count < TN__SPACE_RULES; i++) {
    const char *name = unit->rules->rule[i]->name;
    bool known = false;
    for (int r = 0; r < out->rule_count; r++) known |= strcmp(out->rules[r].name, name) == 0;
    const tn__sketch *k =
        known ? NULL : tn__sketch_named(unit->rules, unit->te, unit->target, &unit->options, name, NULL);
    if (k != NULL && k->decision_count > 0)
      out->rules[out->rule_count++] = (tn__space_rule){tn__sketch_name(k), k, tn__sketch_points(k)};
  }
  return out->rule_count > 1 || out->rules[0].points > 1;
}

/* Those with a name of their own, which is how they are told apart: the ones that take most. */
static void open_parts(tn__space *space, int rule, const noticed *n) {
  tn__space_part *parts = TN__NEW_ARRAY(&space->arena, n->units.count, tn__space_part);
  int count = 0;
  for (int i = 0; i < n->units.count; i++) {
    bool alone = true;
    for (int j = 0; j < n->units.count; j++)
      alone &= i == j || strcmp(n->units.data[i].part, n->units.data[j].part) != 0;
    if (alone && open_part(space, &n->units.data[i], &parts[count])) count++;
  }
  for (; count > TN__SPACE_PARTS; count--) {
    int least = 0;
    for (int i = 1; i < count; i++)
      if (parts[i].cycles < parts[least].cycles) least = i;
    memmove(&parts[least], &parts[least + 1], (size_t)(count - least - 1) * sizeof *parts);
  }
  if (count == 0) return;
  int64_t values[TN__MAX_DECISIONS];
  space->parts_of = rule;
  space->parts = parts;
  space->part_count = count;
  tn__sketch_at(space->rules[rule].sketch, 0, values);
  space->rest_cycles = tn__sketch_cost(space->rules[rule].sketch, values, NULL);
  for (int i = 0; i < count; i++) space->rest_cycles -= parts[i].cycles;
}

static void open_rules(tn__space *space) {
  const tn__rules *rules = space->unit.rules;
  for (int i = 0; i < rules->count; i++) {
    noticed n = {.arena = &space->arena}, *const to = &n;
    const tn__chooser noticing = {.name = "noticing", .propose = propose_noticing, .data = &to};
    const tn__sketch *k =
        tn__sketch_named(rules, space->unit.te, &space->target, &space->unit.options, rules->rule[i]->name, &noticing);
    if (k == NULL) continue;
    add_rule(space, k);
    if (space->judge == NULL && rules->rule[i]->weigh != NULL) space->judge = k;
    if (n.units.count > 0 && space->parts_of < 0 && rule_of(space, k) >= 0) open_parts(space, rule_of(space, k), &n);
  }
}

static void open_body(tn__escape *escape, void *user) {
  tn__space *space = user;
  space->arena.escape = escape;
  tn__space_declare(&space->arena, space->task, &space->target, &space->unit);
  const tn__plan *plan = tn__plan_kernel(&space->unit, &tn__chooser_static);
  if (plan->sketch != NULL) add_rule(space, plan->sketch);
  open_rules(space);
  tn__strbuf decisions;
  tn__strbuf_init(&decisions, NULL);
  tn__plan_print_decisions(plan, &decisions);
  space->static_decisions = tn__arena_take(&space->arena, &decisions);
  space->static_rule = plan->rule;
  space->static_trace = print_trace(&space->arena, plan->schedule);
  space->static_point.rule = rule_of(space, plan->sketch);
  memcpy(space->static_point.values, plan->values, sizeof plan->values);
  for (int i = 0; space->static_point.rule == space->parts_of && i < space->part_count; i++)
    space->static_point.parts[i] = space->parts[i].chosen;
}

tn_status *tn__space_open(const tn_tune_task *task, tn__space **out) {
  *out = NULL;
  void *memory;
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__space), 0, &memory));
  tn__space *space = memory;
  space->task = task;
  space->parts_of = -1;
  tn__arena_init(&space->arena, NULL, NULL);
  tn_status *status = tn__space_target(task, &space->target);
  if (status == NULL) status = tn__protect(&escape, open_body, space);
  if (status != NULL) {
    tn__space_close(space);
    return status;
  }
  *out = space;
  return NULL;
}

void tn__space_close(tn__space *space) {
  if (space == NULL) return;
  tn__arena_release(&space->arena);
  tn__free(NULL, space, sizeof *space, 0);
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

typedef struct weighing {
  tn__space *space;
  const tn__space_point *point;
  tn__space_cost cost;
} weighing;

/* What all parts cost, one after the other. */
static void weigh_parts(weighing *w) {
  const tn__space *space = w->space;
  double most = 0;
  w->cost.parts = (tn__cost){.work = space->rest_cycles};
  w->cost.cycles = space->rest_cycles;
  for (int i = 0; i < space->part_count; i++) {
    const tn__space_part *part = &space->parts[i];
    int64_t values[TN__MAX_DECISIONS];
    tn__cost c, *all = &w->cost.parts;
    tn__space_part_values(part, &w->point->parts[i], values);
    w->cost.cycles += tn__sketch_cost(part->rules[w->point->parts[i].rule].sketch, values, &c);
    if (!isfinite(w->cost.cycles)) return;
    all->work += c.work;
    all->overhead += c.overhead;
    for (int level = 0; level < 3; level++) {
      all->bytes[level] += c.bytes[level];
      all->level[level] += c.level[level];
      all->footprint[level] = fmax(all->footprint[level], c.footprint[level]);
    }
    if (c.registers > all->registers) all->registers = c.registers;
    if (c.cycles < most) continue;
    most = c.cycles; /* what is of no sum is that of the part that takes most */
    all->balance = c.balance;
    all->tail = c.tail;
    all->bound = c.bound;
  }
  w->cost.parts.cycles = w->cost.cycles;
}

static void weigh_body(tn__escape *escape, void *user) {
  weighing *w = user;
  tn__space *space = w->space;
  const tn__sketch *k = space->rules[w->point->rule].sketch;
  space->arena.escape = escape;
  if (w->point->rule == space->parts_of) {
    weigh_parts(w);
    return;
  }
  w->cost.cycles = tn__sketch_cost(k, w->point->values, &w->cost.parts);
  w->cost.weighed = k->rule->weigh != NULL ? w->cost.cycles : (double)NAN;
}

tn__space_cost tn__space_weigh(tn__space *space, const tn__space_point *point) {
  weighing w = {.space = space, .point = point, .cost = {.cycles = INFINITY, .weighed = NAN}};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, weigh_body, &w);
  if (status == NULL) return w.cost;
  tn_status_free(status);
  return (tn__space_cost){.cycles = INFINITY, .weighed = NAN};
}

tn__schedule *tn__space_apply(tn__arena *arena, const tn__space *space, const tn__space_point *point,
                              const tn__plan_unit *unit) {
  char *decisions = tn__space_decisions(space, point);
  if (decisions == NULL) tn__throwf(arena->escape, TN_OUT_OF_MEMORY, "out of memory for a candidate's decisions");
  const tn__decided decided = {space->rules[point->rule].name, tn__arena_strdup(arena, decisions)};
  const tn__chooser chooser = tn__chooser_decided(&decided);
  free(decisions);
  return tn__plan_kernel(unit, &chooser)->schedule;
}

typedef struct tracing {
  const tn__space *space;
  const tn__space_point *point;
  tn__strbuf *text;
} tracing;

static void trace_body(tn__arena *arena, void *user) {
  const tracing *t = user;
  tn__plan_unit unit;
  tn__space_declare(arena, t->space->task, &t->space->target, &unit);
  tn__sched_trace_print(tn__space_apply(arena, t->space, t->point, &unit), t->text);
}

tn_status *tn__space_trace(const tn__space *space, const tn__space_point *point, char **out) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tracing t = {space, point, &text};
  *out = NULL;
  tn_status *status = tn__with_arena(NULL, trace_body, &t);
  if (status == NULL) status = tn__strbuf_status(&text);
  if (status == NULL && (*out = strdup(tn__strbuf_text(&text))) == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a trace of %zu bytes", text.length);
  tn__strbuf_release(&text);
  return status;
}

typedef struct describing {
  const tn__space *space;
  const tn__space_point *point;
  float *out;
} describing;

static void describe_body(tn__arena *arena, void *user) {
  const describing *d = user;
  tn__plan_unit unit;
  tn__space_declare(arena, d->space->task, &d->space->target, &unit);
  tn__features_of_schedule(tn__space_apply(arena, d->space, d->point, &unit), &d->space->target, d->out);
}

tn_status *tn__space_features(const tn__space *space, const tn__space_point *point, float out[TN__FEATURES]) {
  describing d = {space, point, out};
  return tn__with_arena(NULL, describe_body, &d);
}

/* ---- parts of spaces --------------------------------------------------------------------------------------------- */

/* How many choices of each decision are left, around a point. */
typedef struct part {
  tn__space *space;
  int rule;
  const tn__sketch *whole;
  tn__sketch *left;
  int64_t center[TN__MAX_DECISIONS];
  int width[TN__MAX_DECISIONS];
} part;

/* The `width` choices of each decision that are nearest to the centre, by their places. */
static void set_choices(part *p) {
  for (int d = 0; d < p->whole->decision_count; d++) {
    const tn__decision *from = &p->whole->decisions[d];
    tn__decision *to = &p->left->decisions[d];
    int at = 0, first, last;
    while (at + 1 < from->count && from->choices[at] != p->center[d]) at++;
    for (first = last = at; last - first + 1 < p->width[d];) {
      bool up = first == 0 || (last + 1 < from->count && last - at <= at - first);
      if (up)
        last++;
      else
        first--;
    }
    to->count = p->width[d];
    for (int v = 0; v < to->count; v++) to->choices[v] = from->choices[first + v];
  }
  p->space->rules[p->rule].sketch = p->left;
  p->space->rules[p->rule].points = tn__sketch_points(p->left);
}

/* Points that can be, at most `most` + 1. */
static int64_t count_possible(const part *p, int64_t most) {
  enum { LOOKED_AT = 1 << 21 };
  tn__space_point point = {.rule = p->rule};
  int64_t points = p->space->rules[p->rule].points, count = 0;
  if (points > LOOKED_AT) return most + 1;
  for (int64_t i = 0; i < points && count <= most; i++) {
    tn__sketch_at(p->left, i, point.values);
    count += isfinite(tn__space_weigh(p->space, &point).cycles);
  }
  return count;
}

/* One choice more for one decision after the other, as long as there are not too many points. */
static void widen(part *p, int64_t most) {
  for (bool wider = true; wider;) {
    wider = false;
    for (int d = 0; d < p->whole->decision_count; d++) {
      if (p->width[d] == p->whole->decisions[d].count) continue;
      p->width[d]++;
      set_choices(p);
      if (count_possible(p, most) <= most) {
        wider = true;
        continue;
      }
      p->width[d]--;
      set_choices(p);
    }
  }
}

typedef struct restricting {
  tn__space *space;
  int64_t most;
} restricting;

/* A rule's points around the static choice, or around the rule's own; returns how many of them can be. */
static int64_t restrict_rule(tn__space *space, part *p, int64_t most) {
  tn__escape *escape = space->arena.escape;
  for (int d = 0; d < p->whole->decision_count; d++) p->width[d] = 1;
  set_choices(p);
  widen(p, most);
  int64_t points = count_possible(p, most);
  space->arena.escape = escape; /* weighing has its own */
  return points;
}

/* The rule of the static choice has half of the points, the others share the rest, and what a small one leaves is for
 * those behind it: the rule of the static choice comes last. */
static void restrict_body(tn__escape *escape, void *user) {
  const restricting *r = user;
  tn__space *space = r->space;
  space->arena.escape = escape;
  space->parts_of = -1;
  int64_t left = r->most;
  for (int turn = 0; turn < space->rule_count; turn++) {
    int last = space->static_point.rule >= 0 ? space->static_point.rule : space->rule_count - 1;
    int i = turn == space->rule_count - 1 ? last : turn + (turn >= last);
    int others = space->rule_count - 1 - turn;
    part *p = TN__NEW(&space->arena, part);
    p->space = space;
    p->rule = i;
    p->whole = space->rules[i].sketch;
    p->left = TN__NEW(&space->arena, tn__sketch);
    *p->left = *p->whole;
    if (space->static_point.rule == i)
      memcpy(p->center, space->static_point.values, sizeof p->center);
    else
      tn__sketch_choose(p->whole, p->center, NULL);
    space->arena.escape = escape;
    left -= restrict_rule(space, p, others == 0 ? left : (left - r->most / 2) / others);
  }
}

tn_status *tn__space_restrict(tn__space *space, int64_t most) {
  restricting r = {space, most};
  tn__escape escape;
  return tn__protect(&escape, restrict_body, &r);
}
