/* Compares a task's schedules, or several ways to compute something by several kernels, with the first one.
 *
 * All are built once and timed in turns on one runner, so that other work on the machine affects all alike. The
 * comparison does not reuse earlier measurements, because the best of many is biased by luck. A rival is better if
 * the median of its ratios to the first is below 1 and a sign test is significant: chance explains so many won turns
 * in at most 2 of a hundred cases. The better rival with the least median wins. A rival leaves once it can no longer
 * be shown to be better, and the comparison ends once all remaining rivals are. */
#ifndef TENON_TUNE_TUNER_COMPARE_H
#define TENON_TUNE_TUNER_COMPARE_H

#include "tenon/tune.h"

enum {
  TN__COMPARISON_MOST = 4, /* schedules */
  TN__COMPARISON_TURNS = 9,
  TN__COMPARISON_NEEDED = 8 /* of the turns, in which the better one is faster */
};

/* The result of one schedule after the first. */
typedef struct tn__rival_result {
  int turns;         /* turns in which it was timed; 0: it failed */
  bool better;       /* the sign test shows that it is faster than the first */
  double ratio;      /* the median over its turns of its time divided by the first's */
  double medians[2]; /* of the first and of this one, over its turns; seconds */
} tn__rival_result;

typedef struct tn__comparison_result {
  int turns;         /* of the best; 0: a failure, described by `message` */
  int best;          /* index of the best schedule after the first: among the better ones, or else among all */
  double ratio;      /* of the best, like the next two */
  bool better;       /* it is */
  double medians[2]; /* of the first and of the best; seconds */
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
