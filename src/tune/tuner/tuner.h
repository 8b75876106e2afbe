/* Tuning a list of tasks: which of them gets the next trial, what its search proposes, when there is nothing more to be
 * gained, and whether what was found is really faster.
 *
 * A tuner is the source of a measurer. Its caller runs the event loop:
 *
 *   tn__tuner_create(list, sink, &options, &tuner);
 *   tn__tuner_start(tuner, builder, runners, count);  // trials; then comparisons with static choices
 *   while (!tn__tuner_is_done(tuner)) uv_run(loop, UV_RUN_ONCE);
 *
 * Trials go to where they promise most for all tasks together: each task's part of a run of the models, times what
 * its last trials gained and what is promised of the next (the gradient of Ansor's task scheduler: Zheng et al., OSDI
 * 2020).
 *
 * Threads: all functions are called in one, that of the builder's loop. With `ready` the searches have another of their
 * own, so that nobody waits while a model learns. */
#ifndef TENON_TUNE_TUNER_TUNER_H
#define TENON_TUNE_TUNER_TUNER_H

#include "tune/search/accuracy.h"
#include "tune/search/search.h"
#include "tune/tuner/tasks.h"

/* A trial that has ended, as it is kept. Texts live for the call. */
typedef struct tn__tuner_record {
  const tn_tune_task *task;
  int trial;          /* of the task; 0: the static choice */
  const char *origin; /* "static", "search" */
  const char *rule, *decisions, *trace;
  double predicted; /* seconds; NAN: unknown */
  const tn_measure_result *result;
} tn__tuner_record;

/* The result of a comparison of a candidate with the task's static choice, timed in turns. */
typedef struct tn__compared {
  const tn__proposal *first, *best;
  double medians[2]; /* of both, in seconds */
  double ratio;      /* second / first, the median over all pairs */
  int turns;         /* number of pairs */
  bool better;       /* the sign test shows that the second is faster */
} tn__compared;

/* The verdict of an earlier comparison. The text is valid during the call. */
typedef struct tn__known_verdict {
  const char *trace;
  bool better;
  double ratio;
} tn__known_verdict;

/* The answer to a claim: free for this tuner, taken by another one, or already measured. */
typedef struct tn__tuner_claim {
  enum { TN__TUNER_FREE, TN__TUNER_TAKEN, TN__TUNER_MEASURED } state;
  double seconds; /* of a measured candidate; INFINITY: it failed */
} tn__tuner_claim;

/* Where records go and come from; a database, say. */
typedef struct tn__tuner_sink {
  tn_status *(*add)(void *user, const tn__tuner_record *record);
  /* Tells the search what is known of the task already, by tn__search_know(); may be NULL. */
  tn_status *(*known)(void *user, const tn_tune_task *task, tn__search *search);
  /* Calls `take` with each known verdict on the task's candidates; may be NULL. */
  tn_status *(*verdicts)(void *user, const tn_tune_task *task, void (*take)(void *to, const tn__known_verdict *verdict),
                         void *to);
  /* Called before each candidate is measured, if several tuners share results; may be NULL. */
  tn_status *(*claim)(void *user, const tn_tune_task *task, const tn__proposal *p, tn__tuner_claim *out);
  /* Called after a candidate was compared with its task's static choice; may be NULL. */
  tn_status *(*compared)(void *user, const tn_tune_task *task, const tn__compared *compared);
  /* What other tasks taught goes into the model, before there are trials; and what it knows when they have ended is
   * kept. May be NULL. */
  tn_status *(*learn)(void *user, const tn_tune_task *like, tn__cost_model *model);
  tn_status *(*learned)(void *user, const tn_tune_task *like, const tn__cost_model *model);
  void *user;
} tn__tuner_sink;

typedef struct tn__tuner_options {
  double budget_seconds; /* of trials and comparisons; 0: no limit */
  double spent_before;   /* of it, by others */
  int64_t trials;        /* of all tasks, those that are known counted; 0: no limit */
  double target_speedup; /* of all tasks together; 0: none */
  int patience;          /* trials of a task without a gain of a hundredth, after which it gets no more; 0: 128 */
  uint64_t seed;
  tn__search_kind kind;
  int64_t space; /* about so many points of each task's space, around its static choice; 0: all of it */
  tn_measure_mode mode;
  int window, round; /* as in tn_measure_options */
  bool exclusive;
  bool no_comparison; /* of the best with the static choice in the end */
  /* Called in a thread that the tuner has for its searches when a proposal is there that was missing: whoever runs the
   * loop calls tn__tuner_wake() in it then. NULL: there is no such thread, and the same seed gives the same. */
  void (*ready)(void *user);
  const int *cores; /* for that thread, while it starts; none: any */
  int core_count;
  double (*clock)(void *user); /* NULL: this machine's */
  void *clock_user;
  /* Asked before each candidate: is there to be none any more, as tn__tuner_stop() will say soon? May be NULL. */
  bool (*stopping)(void *user);
  void (*done)(void *user); /* all is done; it may not release the tuner. May be NULL */
  void *user;               /* for all three */
} tn__tuner_options;

typedef enum tn__tuner_phase { TN__TUNER_TRIALS, TN__TUNER_COMPARING, TN__TUNER_DONE } tn__tuner_phase;

/* Seconds that the tuner itself took while there were trials. */
typedef struct tn__tuner_overhead {
  double wall;             /* of all */
  double search, database; /* in the loop's thread, in which no candidate is handed out and no result taken */
  double beside;           /* of a core, in the searches' thread */
} tn__tuner_overhead;

/* What there is to see of a task. */
typedef struct tn__tuner_view {
  const tn__task_item *item;
  int64_t trials;                      /* finished trials, including results that were known before */
  int64_t errors[TN_TRIAL_ERRORS];     /* of this run */
  double static_seconds, best_seconds; /* INFINITY: unknown; after a comparison, its times */
  bool stopped;                        /* gets no more trials */
  bool exhausted;                      /* because all of its candidates are measured */
  bool compared;                       /* the best was compared with the static choice */
  bool better;                         /* the best is faster than the static choice */
  double ratio;                        /* of the best to the static choice in the comparison */
  const tn__proposal *best;            /* the comparison's winner, or else the fastest measured; NULL: none */
  const int64_t *error_counts;         /* the same, as long as the tuner lives */
  const char *first_error;             /* text of this run's first failure; NULL: none */
  const tn__search *search;
  tn__space *space;
} tn__tuner_view;

typedef struct tn__tuner tn__tuner;

/* Opens the spaces of all tasks. The list, the sink's user and the clock's outlive the tuner. */
TN_MUST_USE tn_status *tn__tuner_create(const tn__task_list *list, const tn__tuner_sink *sink,
                                        const tn__tuner_options *options, tn__tuner **out);
void tn__tuner_release(tn__tuner *tuner); /* NULL is fine */
TN_MUST_USE tn_status *tn__tuner_start(tn__tuner *tuner, tn_builder *builder, tn_runner *const *runners, int count);
/* The trials end: what is in flight is finished, or cancelled; the comparison is made, or not. */
void tn__tuner_stop(tn__tuner *tuner, bool at_once);
/* To be called now and then: what is in flight two seconds behind the budget's end is cancelled, and what was not
 * compared by then keeps its static choice. */
void tn__tuner_tick(tn__tuner *tuner);
void tn__tuner_wake(tn__tuner *tuner);                    /* `ready` was called */
void tn__tuner_fail(tn__tuner *tuner, tn_status *status); /* stops at once, for this reason, which it owns */
tn__tuner_phase tn__tuner_phase_of(const tn__tuner *tuner);
bool tn__tuner_is_done(const tn__tuner *tuner);
tn_tuner_end tn__tuner_end_of(const tn__tuner *tuner); /* why the trials ended */
/* What ended it, other than its budget; NULL: nothing. Owned by the tuner. */
const tn_status *tn__tuner_failure(const tn__tuner *tuner);
int tn__tuner_task_count(const tn__tuner *tuner);
tn__tuner_view tn__tuner_view_of(const tn__tuner *tuner, int task);
/* Seconds of one run of all tasks: with the static choices, and with the best; when it is done, with those that are
 * shown to be better. Tasks whose static choice failed are left out; INFINITY: not all others are measured, or there
 * are none. */
void tn__tuner_totals(const tn__tuner *tuner, double *before, double *now);
/* Seconds of the budget that are left, or that the trials that are left and the comparisons will take, at the pace of
 * the last ones; INFINITY: nobody knows. */
double tn__tuner_time_left(const tn__tuner *tuner);
/* Seconds of this tuning that count against the budget: of trials and comparisons. */
double tn__tuner_spent(const tn__tuner *tuner);
int64_t tn__tuner_known(const tn__tuner *tuner); /* trials that were known before */
/* Seconds that the static cost function says of a candidate of this tuner's; NAN: it knows none. */
double tn__tuner_cost(const tn__tuner *tuner, const tn_build_input *candidate);
tn__tuner_overhead tn__tuner_overhead_of(const tn__tuner *tuner);
/* How well a task's times were predicted; of nothing while there are trials. */
TN_MUST_USE tn_status *tn__tuner_accuracy(const tn__tuner *tuner, int task, tn__accuracy *out);
TN_MUST_USE tn_status *tn__tuner_statistics(const tn__tuner *tuner, tn_measure_statistics *out);

#endif
