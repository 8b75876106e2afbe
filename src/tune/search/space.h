/* The space of a task: the points of the sketches of all rules that fit its declaration, what the static cost function
 * says of each, and the static choice. A point becomes a schedule's trace in a context of its own, so that what is
 * refused, or goes wrong, costs one candidate and nothing of the space.
 *
 * One thread at a time uses a space. Functions that can fail return statuses; nothing is thrown. */
#ifndef TENON_TUNE_SEARCH_SPACE_H
#define TENON_TUNE_SEARCH_SPACE_H

#include "schedule/rules/choose.h"
#include "schedule/sketch/features.h"
#include "tenon/tune.h"

enum { TN__SPACE_RULES = 24, TN__SPACE_PARTS = 16 };

/* Of one part of a kernel: a rule of the part, and for each decision which of its choices. */
typedef struct tn__space_setting {
  uint8_t rule, places[TN__MAX_DECISIONS];
} tn__space_setting;

typedef struct tn__space_point {
  int rule; /* of the space */
  int64_t values[TN__MAX_DECISIONS];
  tn__space_setting parts[TN__SPACE_PARTS]; /* where the rule has parts */
} tn__space_point;

typedef struct tn__space_rule {
  const char *name;
  const tn__sketch *sketch; /* maybe with fewer choices than the rule's own */
  int64_t points;
} tn__space_rule;

/* A part that is scheduled as a declaration of its own (schedule/rules/sequence.c). */
typedef struct tn__space_part {
  const char *name; /* of its first stage */
  int rule_count;
  tn__space_rule rules[TN__SPACE_RULES];
  tn__space_setting chosen; /* statically */
  double cycles;            /* of that */
} tn__space_part;

typedef struct tn__space {
  const tn_tune_task *task;
  tn__arena arena;
  tn__target target;
  tn__plan_unit unit;
  int rule_count;
  tn__space_rule rules[TN__SPACE_RULES];
  int parts_of; /* the rule whose points have parts; -1: none. Its sketch has nothing to decide */
  int part_count;
  tn__space_part *parts;   /* those that take most, in their order; others have their static choice */
  double rest_cycles;      /* of those others */
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
/* What the loops of the point's schedule do. TN_INVALID_ARGUMENT when a primitive refuses a step. */
TN_MUST_USE tn_status *tn__space_features(const tn__space *space, const tn__space_point *point,
                                          float out[TN__FEATURES]);
/* Leaves of each rule's decisions the choices around what is liked best, the static choice where the rule made that, so
 * that about `most` points that can be are left of all rules together: a space that can be measured as a whole. Parts
 * have their static choices there. */
TN_MUST_USE tn_status *tn__space_restrict(tn__space *space, int64_t most);
/* The values of a part's decisions. */
void tn__space_part_values(const tn__space_part *part, const tn__space_setting *setting, int64_t *values);

/* The declaration of a task in an arena, its target and what its schedules depend on. Throws. */
const tn__te *tn__space_declare(tn__arena *arena, const tn_tune_task *task, const tn__target *target,
                                tn__plan_unit *unit);
/* The point's schedule of that declaration, in its arena. Throws. */
tn__schedule *tn__space_apply(tn__arena *arena, const tn__space *space, const tn__space_point *point,
                              const tn__plan_unit *unit);
TN_MUST_USE tn_status *tn__space_target(const tn_tune_task *task, tn__target *out);

#endif
