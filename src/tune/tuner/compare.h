/* Is one of a task's schedules, or of several ways to compute something by several kernels, really faster than the
 * first? All are built once and timed in turns on one runner, so that what else the machine does meets all alike,
 * and so that the luck that made one the best of many measurements does not count. One is better when the median of its
 * ratios to the first is below 1, and it was faster in so many turns as chance gives in 2 cases of a hundred (a sign
 * test). Of those that are better the one with the least median is taken. A rival leaves as soon as it cannot be shown
 * to be better any more, and the comparison ends when all that are left are. */
#ifndef TENON_TUNE_TUNER_COMPARE_H
#define TENON_TUNE_TUNER_COMPARE_H

#include "tenon/tune.h"

enum {
  TN__COMPARISON_MOST = 4, /* schedules */
  TN__COMPARISON_TURNS = 9,
  TN__COMPARISON_NEEDED = 8 /* of the turns, in which the better one is faster */
};

/* Of one schedule behind the first. */
typedef struct tn__rival_result {
  int turns;         /* that it was timed in; 0: it failed */
  bool better;       /* it is shown to be faster than the first */
  double ratio;      /* the median over its turns of its time over the first's */
  double medians[2]; /* of the first and of it, over its turns; seconds */
} tn__rival_result;

typedef struct tn__comparison_result {
  int turns;         /* of the best; 0: something failed, of which `message` tells */
  int best;          /* of the schedules behind the first: of those that are better, or else of all */
  double ratio;      /* its, as are the next two */
  bool better;       /* it is */
  double medians[2]; /* of the first and of it; seconds */
  tn__rival_result rivals[TN__COMPARISON_MOST];
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
