/* Choosing a schedule with the rules that Tenon has, in the order of their table (choose.c). */
#ifndef TENON_SCHEDULE_RULES_CHOOSE_H
#define TENON_SCHEDULE_RULES_CHOOSE_H

#include "base/linked.h"
#include "schedule/sketch/plan.h"

extern const tn__rules tn__all_rules; /* for CPUs */
extern const tn__rules tn__gpu_rules;

/* What tn__plan_kernel() needs to know, with all rules (tn__plan_unit_with). */
TN__LINKED tn__plan_unit tn__rule_plan_unit_of(const tn__te *te, const tn__target *target,
                                               const tn__schedule_options *options);
/* tn__sketch_first() of all rules. */
tn__sketch *tn__rule_create_sketch(const tn__te *te, const tn__target *target, const tn__schedule_options *options);

#endif
