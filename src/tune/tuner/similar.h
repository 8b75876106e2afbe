/* What a database knows of kernels like one that is to be tuned: candidates to begin with.
 *
 * Alike are the same declaration on another machine, target or number of threads, and declarations that differ in names
 * and numbers only, as convolutions of one network do. The fastest candidates of those that are nearest become seeds of
 * a search (tn__search_seed), which takes of each decision the nearest choice that there is. They are measured like any
 * other candidate, and nothing of their times is believed.
 *
 * One thread at a time uses it. */
#ifndef TENON_TUNE_TUNER_SIMILAR_H
#define TENON_TUNE_TUNER_SIMILAR_H

#include "tenon/database.h"
#include "tune/search/search.h"

/* A declaration without its names and numbers: equal for those that differ in these only. */
uint64_t tn__similar_structure(const char *declaration);

typedef struct tn__similar tn__similar;

/* Looks at the tasks that there are now; the database outlives it. */
TN_MUST_USE tn_status *tn__similar_open(tn_database *database, tn__similar **out);
void tn__similar_release(tn__similar *similar); /* NULL is fine */
/* Gives the search its seeds; what is known of the task on this machine is told before. */
TN_MUST_USE tn_status *tn__similar_seed(const tn__similar *similar, const tn_tune_task *task, const char *machine,
                                        tn__search *search);

#endif
