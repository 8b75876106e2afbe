/* Decisions as text, and the chooser that takes them: what a tuner keeps of a candidate, and what a worker gets.
 *
 * Of most rules they are "rows 14, vectors 2", as tn__sketch_print writes them. Of a rule that schedules its parts as
 * declarations of their own (sequence) they are those of the parts, each under the name of its first stage and with
 * the rule that it has: `"C" contraction: rows 14, vectors 2; "D" map: unroll 2`. Parts that are not named have their
 * static choices. */
#ifndef TENON_SCHEDULE_SKETCH_DECIDED_H
#define TENON_SCHEDULE_SKETCH_DECIDED_H

#include "schedule/sketch/plan.h"

typedef struct tn__decided {
  const char *rule, *decisions;
} tn__decided;

/* Proposes that point of that rule's sketch and nothing else: what does not fit is an error. `decided` outlives it. */
TN__LINKED tn__chooser tn__chooser_decided(const tn__decided *decided);

enum { TN__DECIDED_WHY = 200 }; /* bytes of a message */

/* The values that a text of `length` bytes gives to the sketch's decisions. False with the reason in `why` where it
 * lacks one, names another, or gives a number that cannot be read. Whether numbers are choices is not looked at. */
TN__LINKED TN_MUST_USE bool tn__decided_read(const tn__sketch *k, const char *text, size_t length, int64_t *values,
                                             char why[TN__DECIDED_WHY]);
/* What a text of another sketch says of this one: the choices nearest to its numbers, by their ratios; decisions that
 * it lacks, and those of one choice, keep what `values` has. Returns how many it says something of. */
TN__LINKED TN_MUST_USE int tn__decided_nearest(const tn__sketch *k, const char *text, size_t length, int64_t *values);

typedef struct tn__decided_part {
  const char *name, *rule, *decisions;
  size_t name_length, rule_length, decisions_length;
} tn__decided_part;

/* The next part that a text speaks of, and moves `*at` behind it. False at the end, and where no part is. */
TN__LINKED TN_MUST_USE bool tn__decided_next(const char **at, tn__decided_part *out);
/* One part of such a text, behind others. */
TN__LINKED void tn__decided_print(const char *name, const tn__sketch *k, const int64_t *values, tn__strbuf *out);

#endif
