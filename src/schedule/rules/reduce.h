/* What the rules "stages" and "rows" share of reductions (reduce.c, stages.c); rules.h has what others use, too. */
#ifndef TENON_SCHEDULE_RULES_REDUCE_H
#define TENON_SCHEDULE_RULES_REDUCE_H

#include "schedule/rules/rules.h"

#define TN__FEW_ROWS 8 /* leave threads without work */

/* The nest of the declaration, and the decision of how many vectors are at hand: number 0. */
void tn__reduce_open(tn__sketch *k, tn__schedule *scratch);
/* Points of these axes, where open dimensions count as 1,000; `b` may be NULL. */
double tn__reduce_volume(const tn__te_axes *a, const tn__te_axes *b);
/* Are these results of several tensors, of few elements that meet each other: of points and pairs of them? Vectors of
 * results need no shuffles then, and no lanes are added up. */
bool tn__reduce_meets_pairs(const tn__te *te, const tn__te_stage *stage);
/* Inlines maps that cost little more when their readers compute them. */
void tn__reduce_dissolve_maps(tn__schedule *s);
/* Is it an accumulation whose terms go one after the other, with nothing of it side by side? */
bool tn__reduce_scatters(const tn__te_stage *stage);
/* The maps that only this block reads, each element where it needs it; returns how many names there are. */
TN_MUST_USE int tn__reduce_own_maps(tn__schedule *s, const tn__snode *block, const char **names, int capacity);
/* Throws, in the rule's name, where a block reads other rows of an intermediate tensor than its own. Rows are what the
 * first `rows` axes say. */
void tn__reduce_refuse_repeated(tn__schedule *s, int rows, const char *rule);
/* The one map that reads the results, each element of one tensor where it is made; NULL when there is none. */
const char *tn__reduce_epilogue_of(const tn__schedule *s, const tn__snode *block);
/* Has each result a few terms that data choose, beside others that lie along the reduction? Rows of them are taken in
 * short vectors of positions; across the results all that is read would be chosen. */
bool tn__reduce_chooses_few(const tn__schedule *s, const tn__snode *block);
bool tn__reduce_runs_across(const tn__schedule *s, const tn__snode *block);
/* tn__rule_reduce_across(), fetching rows ahead if wanted. True when the only map that reads the results has become
 * part of the nest. */
bool tn__reduce_across(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t vectors,
                       bool prefetches);
/* Reduces over the rows of a matrix of a few columns, which don't fill vectors: as one long walk, in vectors of partial
 * results that belong to several rows, combined at the end. False where that is not so, with nothing done. */
bool tn__reduce_few_columns(tn__schedule *s, const char *name, const tn__schedule_options *options);
/* Reduces to a few results, each a vector of partial results along an axis of the reduction, in a nest under `outer`
 * other loops. False where they are too many, or nothing is near along such an axis, with nothing done
 * (few_results.c). */
bool tn__reduce_few_results(tn__schedule *s, const tn__te_stage *stage, const char *name, int outer,
                            const tn__schedule_options *options);
/* Would it? */
bool tn__reduce_has_few_results(tn__ir *ir, const tn__te_stage *stage, const tn__schedule_options *options);
/* Combines the `lanes` partial results of each element: the upper half with the lower one, and so on, in registers. */
void tn__reduce_by_halves(tn__schedule *s, const char *name, int64_t lanes);
/* The block reduces over `loop`, its innermost one of vectors * lanes iterations, in as many vectors of partial
 * results, which are combined behind all. */
void tn__reduce_lanes(tn__schedule *s, const char *block, const char *loop, int64_t vectors, int64_t lanes);
/* tn__reduce_across(), or along the row, for a reduction under `outer` loops that stay as they are: those of a tile. */
void tn__reduce_inside(tn__schedule *s, const char *name, const tn__schedule_options *options, int outer);
/* Whole rows are added to a row of sums, which stays in L1, `rows` at a time: each row is read from its start to its
 * end. Returns false where that cannot be, with nothing done. */
bool tn__reduce_whole_rows(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t rows);
/* Unrolls and vectorises the last loop of a block, whose extent is vectors * lanes. */
void tn__reduce_vectorize_lanes(tn__schedule *s, const char *block, int64_t vectors, int64_t lanes);
/* How many terms of a reduction are written out at most, for so many vectors of results at a time. */
int64_t tn__reduce_most_written(const tn__schedule *s, const char *block, int64_t vectors);
/* Vectors of at most so many elements along the last loop of a map that has more than `rows` loops. */
void tn__reduce_vectorize_last(tn__schedule *s, const char *block, int rows, int64_t lanes);
/* Schedules the nest of a scan, which is as it was lowered (scan.c). */
void tn__rule_scan(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options);
/* The same of a scan and the stages that its steps evaluate (recurrence.c). */
void tn__rule_recurrence(tn__schedule *s, const tn__te_stage *scan, const tn__schedule_options *options);
/* The innermost loop around a block. */
const char *tn__reduce_last_loop(const tn__schedule *s, const char *block);
/* Schedules the terms of a stage whose elements keep theirs, and whose number the element or data say (ragged.c). False
 * where it is no such stage, or must be taken in order, with nothing done. */
bool tn__rule_ragged(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options);
/* Schedules one stage for itself, with the usual values of the rule's decisions (stages.c). */
void tn__reduce_schedule_stage(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options);
/* The longest reduction, when it is long enough to be cut; NULL otherwise (stages.c). */
const tn__te_stage *tn__reduce_stage_to_cut(const tn__te *te);

#endif
