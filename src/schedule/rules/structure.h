/* The rule "structure" for tests: outlines of its points, and the facts that they are made of. */
#ifndef TENON_SCHEDULE_RULES_STRUCTURE_H
#define TENON_SCHEDULE_RULES_STRUCTURE_H

#include "schedule/outline/outline.h"
#include "schedule/rules/rules.h"

/* The outline of a point of the rule's sketch; false when its decisions don't go together. */
bool tn__rule_outline_of(const tn__sketch *k, const int64_t *values, tn__outline *out);
/* What there is to know of the reduction of an unscheduled declaration, whose cheap maps are dissolved; NULL when more
 * is left than a reduction and a map of its results. */
const tn__outline_facts *tn__rule_outline_facts(tn__schedule *s);

#endif
