/* Is one of a task's schedules, or of several ways to compute something by several kernels, really faster than the
 * first? All are built once and timed in turns on one runner, so that what else the machine does meets all alike,
 * and so that the luck that made one the best of many measurements does not count. The one with the least median
 * of its ratios to the first is taken; it is better when that is below 1, and it was faster in so many turns as
 * chance gives in 2 cases of a hundred (a sign test). */
#ifndef TENON_TUNE_TUNER_COMPARE_H
#define TENON_TUNE_TUNER_COMPARE_H

#include "tenon/tune.h"

enum {
  TN__COMPARISON_MOST = 4, /* schedules */
  TN__COMPARISON_TURNS = 9,
  TN__COMPARISON_NEEDED = 8 /* of the turns, in which the better one is faster */
};

typedef struct tn__comparison_result {
  int turns;         /* that were timed; 0: something failed, of which `message` tells */
  int best;          /* of the schedules behind the first */
  double ratio;      /* the median over all turns of its time over the first's */
  bool better;       /* it is */
  double medians[2]; /* of the first and of it, over all turns; seconds */
  const char *message;
} tn__comparison_result;

/* One of several kernels that make up a rival. */
typedef struct tn__rival_kernel {
  int rival; /* from 0 */
  const tn_tune_task *task;
  const char *trace;
  double calls; /* that count of it */
} tn__rival_kernel;

typedef struct tn__comparison_words {
  tn_builder *builder;
  tn_runner *runner;
  const tn_tune_task *task;
  const char *traces[TN__COMPARISON_MOST]; /* the first is what others are compared with */
  /* Or several kernels for each, those of the first rival first, whose calls together are compared. */
  const tn__rival_kernel *kernels;
  int kernel_count; /* 0: one trace each */
  int count;        /* 2 at least */
  /* Called once, never before tn__comparison_start() has returned where builder and runner take time. It may start
   * another comparison, and release this one. */
  void (*done)(void *user, const tn__comparison_result *result);
  void *user;
} tn__comparison_words;

typedef struct tn__comparison tn__comparison;

TN_MUST_USE tn_status *tn__comparison_start(const tn__comparison_words *words, tn__comparison **out);
/* Ends it without a result when it is not done. NULL is fine. */
void tn__comparison_release(tn__comparison *comparison);

#endif
