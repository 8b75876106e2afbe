#include "tune/search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/machine_file.h"
#include "target/text/text.h"
#include "te/text.h"

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

static void open_body(tn__escape *escape, void *user) {
  tn__space *space = user;
  space->arena.escape = escape;
  tn__space_declare(&space->arena, space->task, &space->target, &space->unit);
  const tn__plan *plan = tn__plan_kernel(&space->unit, &tn__chooser_static);
  const tn__rules *rules = space->unit.rules;
  if (plan->sketch != NULL) add_rule(space, plan->sketch);
  for (int i = 0; i < rules->count; i++) {
    const tn__sketch *k =
        tn__sketch_named(rules, space->unit.te, &space->target, &space->unit.options, rules->rule[i]->name);
    if (k == NULL) continue;
    add_rule(space, k);
    if (space->judge == NULL && rules->rule[i]->weigh != NULL) space->judge = k;
  }
  tn__strbuf decisions;
  tn__strbuf_init(&decisions, NULL);
  tn__plan_print_decisions(plan, &decisions);
  space->static_decisions = tn__arena_take(&space->arena, &decisions);
  space->static_rule = plan->rule;
  space->static_trace = print_trace(&space->arena, plan->schedule);
  space->static_point.rule = rule_of(space, plan->sketch);
  memcpy(space->static_point.values, plan->values, sizeof plan->values);
}

tn_status *tn__space_open(const tn_tune_task *task, tn__space **out) {
  *out = NULL;
  void *memory;
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__space), 0, &memory));
  tn__space *space = memory;
  space->task = task;
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

static void weigh_body(tn__escape *escape, void *user) {
  weighing *w = user;
  tn__space *space = w->space;
  const tn__sketch *k = space->rules[w->point->rule].sketch;
  space->arena.escape = escape;
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

typedef struct tracing {
  const tn__space *space;
  const tn__space_point *point;
  tn__strbuf *text;
} tracing;

static void trace_body(tn__arena *arena, void *user) {
  const tracing *t = user;
  tn__plan_unit unit;
  tn__space_declare(arena, t->space->task, &t->space->target, &unit);
  const char *rule = t->space->rules[t->point->rule].name;
  const tn__sketch *k = tn__sketch_named(unit.rules, unit.te, unit.target, &unit.options, rule);
  if (k == NULL) tn__throwf(arena->escape, TN_INTERNAL, "the rule \"%s\" fits no more", rule);
  tn__sched_trace_print(tn__sketch_apply(k, t->point->values), t->text);
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

char *tn__space_decisions(const tn__space *space, const tn__space_point *point) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sketch_print(space->rules[point->rule].sketch, point->values, &text);
  char *copy = strdup(tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
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
