/* Fits the numbers of a machine that nobody can measure one by one, and the rates of its caches, to what candidates
 * took on it: those of tn__machine_rows that weigh costs in the static cost function. Sizes of caches, lines and pages,
 * ports and widths stay: they are facts, and a fit would bend them to make up for something else.
 *
 * What is made small is the mean, over tasks, of how far logarithms of predicted times are off, as much of that as is
 * common to a task counted a quarter, for the order within a task is what a choice goes by. Large errors count by their
 * size and not by its square (Huber, 1964), so that a few candidates which the cost function does not understand bend
 * nothing; and each number is drawn towards what it was. One number after the other is tried at other values until
 * none helps. One record in four is kept apart: what these say is how good the fit is, and without a gain on them
 * nothing changes.
 *
 * The same records in the same order give the same machine. One thread at a time uses a fit. */
#ifndef TENON_TUNE_SEARCH_FIT_H
#define TENON_TUNE_SEARCH_FIT_H

#include "tune/search/accuracy.h"
#include "tune/search/space.h"

enum { TN__FIT_LEAST = 40 /* records */ };

typedef struct tn__fit tn__fit;

typedef struct tn__fit_result {
  int tasks, records, kept_apart;
  /* Of those that are kept apart. The correlation is the mean of the tasks'; NAN: none has enough of them. */
  double correlation[2], error[2]; /* before and after */
  bool better;
  tn__machine machine; /* the one to begin with where it is not better */
} tn__fit_result;

TN_MUST_USE tn_status *tn__fit_create(const tn__target *target, tn__fit **out); /* begins with the target's machine */
void tn__fit_release(tn__fit *fit);                                             /* NULL is fine */
/* Records that are added from here on are of this task, of which copies are made. A task that cannot be opened any more
 * is passed over with its records. */
TN_MUST_USE tn_status *tn__fit_task(tn__fit *fit, const tn_tune_task *task);
/* What a candidate took. It is passed over when it is no point of the task's space. */
TN_MUST_USE tn_status *tn__fit_record(tn__fit *fit, const char *rule, const char *decisions, double seconds);
int tn__fit_records(const tn__fit *fit); /* that are not passed over */
/* TN_FAILED_PRECONDITION when there are fewer than TN__FIT_LEAST records. */
TN_MUST_USE tn_status *tn__fit_run(tn__fit *fit, tn__fit_result *out);

#endif
