/* The space of a task: the points of the sketches of all rules that fit its declaration, what the static cost function
 * says of each, and the static choice. A point becomes a schedule's trace in a context of its own, so that what is
 * refused, or goes wrong, costs one candidate and nothing of the space.
 *
 * One thread at a time uses a space. Functions that can fail return statuses; nothing is thrown. */
#ifndef TENON_TUNE_SEARCH_SPACE_H
#define TENON_TUNE_SEARCH_SPACE_H

#include "schedule/rules/choose.h"
#include "tenon/tune.h"

enum { TN__SPACE_RULES = 24 };

typedef struct tn__space_point {
  int rule; /* of the space */
  int64_t values[TN__MAX_DECISIONS];
} tn__space_point;

typedef struct tn__space_rule {
  const char *name;
  const tn__sketch *sketch; /* maybe with fewer choices than the rule's own */
  int64_t points;
} tn__space_rule;

typedef struct tn__space {
  const tn_tune_task *task;
  tn__arena arena;
  tn__target target;
  tn__plan_unit unit;
  int rule_count;
  tn__space_rule rules[TN__SPACE_RULES];
  const tn__sketch *judge; /* of a rule that weighs other rules' points; NULL: none fits */
  const char *static_rule, *static_decisions, *static_trace;
  tn__space_point static_point; /* rule -1: it is a point of no sketch with decisions */
} tn__space;

/* What there is to know of a point without applying it. */
typedef struct tn__space_cost {
  double cycles;  /* predicted by its own rule; INFINITY: it cannot be */
  double weighed; /* by the rule that weighs others; NAN: by none */
  tn__cost parts;
} tn__space_cost;

/* The task's texts live as long as the space. */
TN_MUST_USE tn_status *tn__space_open(const tn_tune_task *task, tn__space **out);
void tn__space_close(tn__space *space); /* NULL is fine */
/* INFINITY also for what the cost function throws at. */
tn__space_cost tn__space_weigh(tn__space *space, const tn__space_point *point);
/* The trace of the point's schedule, freed with free(). TN_INVALID_ARGUMENT when a primitive refuses a step. */
TN_MUST_USE tn_status *tn__space_trace(const tn__space *space, const tn__space_point *point, char **out);
/* Leaves of each rule's decisions the choices around what is liked best, the static choice where the rule made that, so
 * that about `most` points that can be are left of all rules together: a space that can be measured as a whole. */
TN_MUST_USE tn_status *tn__space_restrict(tn__space *space, int64_t most);
/* "rows 14, vectors 2", freed with free(); NULL when there is no memory. */
char *tn__space_decisions(const tn__space *space, const tn__space_point *point);

/* The declaration of a task in an arena, its target and what its schedules depend on. Throws. */
const tn__te *tn__space_declare(tn__arena *arena, const tn_tune_task *task, const tn__target *target,
                                tn__plan_unit *unit);
TN_MUST_USE tn_status *tn__space_target(const tn_tune_task *task, tn__target *out);

#endif
