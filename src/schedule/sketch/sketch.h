/* Sketches: schedules with open decisions. A rule (rules.h) that fits a declaration leaves some numbers of its trace
 * open, tile sizes above all, each with the set it ranges over. The static cost function, or a tuner that measures,
 * chooses:
 *
 *   for (tn__sketch *k = tn__sketch_first(rules, te, target, options, NULL); k != NULL; k = tn__sketch_next(k)) {
 *     int64_t values[TN__MAX_DECISIONS];
 *     tn__sketch_at(k, index, values);         // any point of the space, 0 <= index < tn__sketch_points(k)
 *     tn__sketch_cost(k, values, &breakdown);  // predicted, from closed expressions; INFINITY for what cannot work
 *     tn__sketch_apply(k, values);             // the schedule; throws TN_INVALID_ARGUMENT when a primitive refuses
 *   }
 *
 * Everything is in the arena of the declaration's context and follows its rules for threads. */
#ifndef TENON_SCHEDULE_SKETCH_SKETCH_H
#define TENON_SCHEDULE_SKETCH_SKETCH_H

#include "base/linked.h"
#include "schedule/sketch/cost.h"

enum { TN__MAX_DECISIONS = 16, TN__MAX_CHOICES = 32 };

typedef struct tn__decision {
  const char *name; /* "rows", "vectors" */
  int count;
  int64_t choices[TN__MAX_CHOICES]; /* in rising order */
  bool orders; /* it decides in which order terms are added up: chosen as if there were one thread, so that results do
                  not depend on their number */
  bool shares; /* orders, and lets threads share what is reduced: chosen as many of them like it best where that costs
                  one thread next to nothing, whatever their number */
  bool copies; /* whole operands: each choice has a search of its own, of as many candidates */
  bool late;   /* a large space is sampled with its first choice; the others are tried on the way down from the best */
} tn__decision;

typedef struct tn__rule tn__rule;
/* In the order in which they are asked. */
typedef struct tn__rules {
  const tn__rule *const *rule;
  int count;
} tn__rules;

struct tn__chooser;

typedef struct tn__sketch {
  const tn__te *te;
  const tn__target *target;
  tn__schedule_options options;      /* filled in */
  const tn__rules *rules;            /* that it is of */
  const struct tn__chooser *chooser; /* for the parts of a sequence */
  const tn__rule *rule;
  int decision_count;
  tn__decision decisions[TN__MAX_DECISIONS];
  const void *data; /* the rule's own: what it found in the declaration */
  bool firm;        /* it does not yield, though its rule does */
} tn__sketch;

/* How a class of declarations is scheduled. */
struct tn__rule {
  const char *name;
  /* Cheap, by the stages alone. */
  bool (*matches)(const tn__te *te);
  /* Fills in data and decisions (tn__sketch_open). `scratch` is an unscheduled lowering that the rule may transform to
   * see what it will have to do with; it throws TN_INVALID_ARGUMENT when the rule does not fit after all. */
  void (*open)(tn__sketch *k, tn__schedule *scratch);
  /* Closed expressions over the decisions: fills *f and returns the nest that it is about; NULL when these values don't
   * go together. */
  const tn__nest *(*features)(const tn__sketch *k, const int64_t *values, tn__sketch_features *f);
  void (*apply)(const tn__sketch *k, const int64_t *values, tn__schedule *s);
  /* In the place of features, which may be NULL then: what orders points where cycles of a CPU say nothing. */
  double (*estimate)(const tn__sketch *k, const int64_t *values);
  bool takes_steps;  /* declarations with scans that evaluate other stages in their steps, too */
  bool takes_stored; /* declarations that say which tensors are stored: nothing else becomes of these */
  bool beam;         /* its space is searched a decision at a time, with several of the best so far */
  bool yields;       /* to a rule that competes, where that one's function says so */
  bool gives_way;    /* to the next rule that fits, where the estimates of both say so */
  /* A rule that competes is never asked in its turn. It weighs a schedule of the declaration, whoever made it, with the
   * function that its own points are weighed with: cycles, or NAN for what it cannot tell. */
  double (*weigh)(const tn__sketch *k, tn__schedule *other, tn__cost *out);
};

/* The sketch of the first of the rules that fits. NULL when none does, as for more than TN__NEST_AXES axes. A
 * sequence's parts are scheduled as `chooser` wants them (plan.h); NULL: by the cost function. Throws when an option is
 * out of range. */
tn__sketch *tn__sketch_first(const tn__rules *rules, const tn__te *te, const tn__target *target,
                             const tn__schedule_options *options, const struct tn__chooser *chooser);
/* The same for the rules behind that of `k`; NULL when there is none. */
tn__sketch *tn__sketch_next(const tn__sketch *k);
/* A sketch of a rule that competes with that of `k`, and beats it: its best point takes less time than k's, both
 * weighed by one function, for one thread of the target as the table has it: so the number of threads and what was
 * measured have no say in the order of terms. NULL when there is none. */
tn__sketch *tn__sketch_competing(const tn__sketch *k);
/* The sketch of the rule that would be asked next, where that of `k` gives way and the other's estimate, for one thread
 * of the target as the table has it, is far below its own; NULL otherwise. */
tn__sketch *tn__sketch_later(const tn__sketch *k);
/* A point of another sketch as the rule of `k`, which competes, weighs it; NAN for what it cannot tell, INFINITY for
 * what primitives refuse. */
double tn__sketch_weigh(const tn__sketch *k, const tn__sketch *other, const int64_t *values, tn__cost *out);
/* The sketch of the rule of this name, whether it is asked in its turn or competes; `chooser` as for
 * tn__sketch_first(). NULL when it does not fit. */
TN__LINKED tn__sketch *tn__sketch_named(const tn__rules *rules, const tn__te *te, const tn__target *target,
                                        const tn__schedule_options *options, const char *name,
                                        const struct tn__chooser *chooser);
TN__LINKED const char *tn__sketch_name(const tn__sketch *k);
TN__LINKED int64_t tn__sketch_points(const tn__sketch *k); /* the product of the sets' sizes, at most INT64_MAX */
TN__LINKED void tn__sketch_at(const tn__sketch *k, int64_t index, int64_t *values);
/* In cycles; breakdown may be NULL. */
TN__LINKED double tn__sketch_cost(const tn__sketch *k, const int64_t *values, tn__cost *breakdown);
TN__LINKED tn__schedule *tn__sketch_apply(const tn__sketch *k, const int64_t *values);
/* Chooses the cheapest of at most options.search_space candidates, and the first in order among equals. The second
 * function returns the number of candidates it costed. */
TN__LINKED void tn__sketch_choose(const tn__sketch *k, int64_t *values, tn__cost *breakdown);
TN__LINKED TN_MUST_USE int64_t tn__sketch_choose_counting(const tn__sketch *k, int64_t *values, tn__cost *breakdown);
/* The cheapest of such candidates that is another than `values`, and adds up its terms in the same order. False when
 * there is none that works. */
TN_MUST_USE bool tn__sketch_next_best(const tn__sketch *k, const int64_t *values, int64_t *next, tn__cost *breakdown);
/* "rows 14, vectors 2, ..." */
TN__LINKED void tn__sketch_print(const tn__sketch *k, const int64_t *values, tn__strbuf *out);

/* For rules: adds a decision and returns its index; `choices` in rising order. */
int tn__sketch_open(tn__sketch *k, const char *name, const int64_t *choices, int count);

#endif
