/* What `tenon tune report` tells: read from a database (report_read.c), summed up (report_sums.c), and written as JSON
 * into a page whose script draws it (report_page.c, report_page/). All of it lives in one arena. */
#ifndef TENON_TUNE_CLI_REPORT_H
#define TENON_TUNE_CLI_REPORT_H

#include "base/arena.h"
#include "tenon/database.h"
#include "tune/search/accuracy.h"
#include "tune/tuner/tasks.h"

/* One trial: a record on the machine of the report. */
typedef struct report_trial {
  int64_t id;
  double when;      /* its first measurement ended */
  double elapsed;   /* the same in seconds of tuning: breaks left out */
  double median;    /* seconds, of all of its measurements that count; 0: it has none */
  double predicted; /* seconds; 0: nobody said */
  double best;      /* of the task's verified ones up to here; 0: there is none yet */
  tn_trial_error error;
  tn_record_origin origin;
  int number; /* of the task, from 1 on, in the order in which they ended */
  bool verified, improves;
} report_trial;

typedef TN__VEC(report_trial) report_trials;

/* A schedule that is shown: its texts are clipped. */
typedef struct report_schedule {
  bool there;
  const char *rule, *decisions, *trace;
  double median, spread, predicted, when;
  int64_t measurements;
} report_schedule;

typedef struct report_task {
  const char *hash, *name, *declaration, *target, *dims;
  int threads;
  double weight; /* calls in a run of the inputs; 1 where no inputs were given */
  report_trials trials;
  report_schedule first,
      /* the static choice, and the winner of the comparisons with it. Without a winner `best` is the static choice;
       * without a comparison, the fastest verified record. */
      best;
  bool judged;  /* a candidate was compared with the static choice */
  double ratio; /* of the winner to the static choice */
  int timed;
  tn__task_work work;    /* of a call, as the last tuning on the machine knew it */
  int64_t candidates;    /* that the task's rules have, all of which are measured; 0: there may be more */
  tn__accuracy accuracy; /* of predicted times, beside those that were measured */
  int forecast_trials;   /* of the next minute's */
  double gain;           /* seconds of a run of all that these are expected to take off; NAN: too few trials to say */
} report_task;

/* A measurement: when the machines worked on it. */
typedef struct report_span {
  double end, build, run; /* since 1970; seconds before it */
} report_span;

/* A stretch of time in which the tuner worked. */
typedef struct report_session {
  double begin, end; /* since 1970 */
  double elapsed;    /* seconds of tuning before it */
  int measurements;  /* of whose work the records tell */
} report_session;

enum { REPORT_BINS = 120 };

/* Errors of one cause: the same kind, and the same text but for its numbers. */
typedef struct report_cause {
  tn_trial_error error;
  const char *key, *first; /* the text without its numbers; the first text of all, clipped */
  const char *task;        /* the first one's name */
  double when;
  int64_t count;
  int tasks;     /* that it was in */
  bool *in_task; /* while records are read: was it in that task? */
} report_cause;

typedef struct report {
  tn__arena *arena;
  const char *database; /* its file's name, without the folder */
  const char *machine;
  bool weighted; /* inputs were given */
  TN__VEC(report_task) tasks;
  TN__VEC(const char *) untuned; /* names of the inputs' kernels that have no records */
  TN__VEC(report_span) spans;
  TN__VEC(report_session) sessions;
  TN__VEC(report_cause) causes;
  int64_t more_causes; /* errors of further causes */
  int64_t newer;       /* records of newer formats */
  int64_t elsewhere;   /* records of other machines */
  double elapsed;      /* seconds of tuning in all */
  double build_seconds, run_seconds;
  double runner[REPORT_BINS];     /* share of each part of that time in which a runner was busy */
  double builders[REPORT_BINS];   /* how many builders were, in the mean */
  double per_minute;              /* trials of the last session; 0: too few to say */
  double total_first, total_best; /* seconds of a run of all tasks; 0: not known */
  double gain;                    /* of the next minute */
} report;

/* What is asked for. */
typedef struct report_words {
  const char *database, *machine;     /* NULL: the usual one; that of the newest record */
  const char *const *tasks;           /* hashes, how they begin, or names; all of these */
  int task_count;                     /* 0: every task */
  const struct tn__task_list *inputs; /* whose tasks are told, and how much they weigh; NULL: none */
} report_words;

/* Reads the trials of the tasks that are asked for. Errors are thrown. */
void tune_report_read(report *r, tn_database *database, const report_words *words);
/* Sums them up: the course of each task, sessions, causes, what is expected of the next minute. */
void tune_report_sum_up(report *r);
/* The page. */
void tune_report_print(const report *r, tn__strbuf *out);

/* At most so many bytes of a text, and how many are left out. */
const char *tune_report_clip(tn__arena *arena, const char *text, size_t most);

#endif
