/* The rule "structure" for tests and for the rule "chain": outlines of its points, the facts that they are made of. */
#ifndef TENON_SCHEDULE_RULES_STRUCTURE_H
#define TENON_SCHEDULE_RULES_STRUCTURE_H

#include "schedule/outline/outline.h"
#include "schedule/rules/rules.h"

/* The outline of a point of the rule's sketch; false when its decisions don't go together. */
TN_MUST_USE bool tn__rule_outline_of(const tn__sketch *k, const int64_t *values, tn__outline *out);
/* What there is to know of the reduction of an unscheduled declaration, whose cheap maps are dissolved; NULL when more
 * is left than a reduction and a map of its results. */
const tn__outline_facts *tn__rule_outline_facts(tn__schedule *s);

/* Reduces along the block's last loop in `vectors` vectors of partial results, which are added up by halves. Returns
 * the block that completes the results. */
int tn__rule_outline_halves(tn__outline *o, int block, int64_t vectors, int64_t lanes);

/* As tn__rule_outline_of(), of the rule "chain". */
TN_MUST_USE bool tn__rule_chain_outline_of(const tn__sketch *k, const int64_t *values, tn__outline *out);

#endif
