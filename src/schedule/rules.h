/* The rules that choose schedules. A rule is one file and one row of the table in rules.c: does it match the
 * declaration, and how is it applied. The first that matches is used; the last matches everything. */
#ifndef TENON_SCHEDULE_RULES_H
#define TENON_SCHEDULE_RULES_H

#include "schedule/internal.h"

bool tn__rule_contraction_matches(const tn__te *te);
void tn__rule_contraction_apply(tn__schedule *s, const tn__schedule_options *options); /* options filled in */
bool tn__rule_map_matches(const tn__te *te);
void tn__rule_map_apply(tn__schedule *s, const tn__schedule_options *options);
bool tn__rule_rows_matches(const tn__te *te);
void tn__rule_rows_apply(tn__schedule *s, const tn__schedule_options *options);
bool tn__rule_stages_matches(const tn__te *te);
void tn__rule_stages_apply(tn__schedule *s, const tn__schedule_options *options);

/* Schedules the plain nest around one element-wise block: fuses what is contiguous for all of its accesses, vectorises
 * the innermost loop and runs the outermost in parallel when the declaration is large (rule_map.c). */
void tn__rule_nest(tn__schedule *s, const char *block, const tn__schedule_options *options);

/* ---- what rules share (rules.c) -----------------------------------------------------------------------------------
 */
/* Constant extent of a loop; -1 when symbolic. */
int64_t tn__loop_extent(const tn__schedule *s, const char *loop);
/* Is the work of the declaration worth waking other threads (some 20 microseconds)? Open dimensions count as large. */
bool tn__rule_is_large(const tn__te *te);
/* Operations that one element of a value costs, transcendental functions weighted by what they take. */
int64_t tn__rule_cost(tn__ir *ir, const tn__expr *value);

#endif
