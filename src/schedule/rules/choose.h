/* Choosing a schedule with the rules that Tenon has, in the order of their table (choose.c). */
#ifndef TENON_SCHEDULE_RULES_CHOOSE_H
#define TENON_SCHEDULE_RULES_CHOOSE_H

#include "schedule/sketch/sketch.h"

extern const tn__rules tn__all_rules;

/* tn__sketch_first() and tn__schedule_choose_among() of all rules. */
tn__sketch *tn__sketch_create(const tn__te *te, const tn__target *target, const tn__schedule_options *options);
tn__schedule *tn__schedule_choose(const tn__te *te, const tn__target *target, const tn__schedule_options *options,
                                  tn__schedule_plan *plan);
/* Chooses a rule by the class of the computation, fills in its decisions by the static cost function and applies it
 * (sketch.h has the parts): never fails on a valid declaration (falls back to the plain nest). Throws when an option is
 * out of range. */
tn__schedule *tn__schedule_default(const tn__te *te, const tn__target *target, const tn__schedule_options *options);

#endif
