/* What builders and runners share: a few slots in which something is done, a bounded queue before them, exactly one
 * callback for each submission whatever becomes of it, and an end that may come within a callback.
 *
 * A station knows nothing of what is done. Its *kind* starts a job, which somebody answers with tn__station_finish(),
 * and looks at the result before it tells it. */
#ifndef TENON_TUNE_MEASURE_STATION_H
#define TENON_TUNE_MEASURE_STATION_H

#include "tenon/tune.h"

typedef enum tn__job_state {
  TN__JOB_FREE,
  TN__JOB_WAITS,    /* in the queue */
  TN__JOB_RUNS,     /* in a slot */
  TN__JOB_ANSWERED, /* in a slot; its result is kept until it can be delivered */
  TN__JOB_LEAVES    /* in a slot, cancelled; its callback was called */
} tn__job_state;

/* A doubly linked list of jobs by index. Appending and removing take constant time. */
typedef struct tn__job_list {
  int first, last; /* -1: empty */
} tn__job_list;

typedef struct tn__job_link {
  int before, next; /* -1: none */
} tn__job_link;

typedef struct tn__job {
  tn__job_state state;
  tn_trial_handle handle;
  tn_build_input input;
  const tn_build_result *build; /* of a run */
  union {
    tn_build_callback build;
    tn_run_callback run;
  } callback;
  void *user;
  void *kept;          /* of an answered job: a copy of its result; NULL: out of memory */
  tn__job_link in_age; /* in the list of all jobs with a pending callback */
  tn__job_link in_row; /* in the queue, the list of answered jobs, or the free list */
} tn__job;

typedef struct tn__station tn__station;

typedef struct tn__station_kind {
  const char *name; /* "builder" */
  size_t bytes;     /* of the object, which begins with the station */
  void (*start)(tn__station *s, const tn__job *job);
  void (*pause)(tn__station *s, bool pause); /* NULL: only nothing starts */
  /* Calls the job's callback; `result` NULL: it was cancelled. */
  void (*tell)(const tn__job *job, const void *result);
  /* Returns a copy of a result, which the caller frees with free(), or NULL when out of memory. */
  void *(*keep)(const void *result);
  const void *not_kept; /* delivered in place of a result that could not be copied */
} tn__station_kind;

/* What somebody supplied. */
typedef struct tn__supplied {
  void *self;
  void (*cancel)(void *self, tn_trial_handle handle); /* may be NULL, and so may */
  void (*release)(void *self);
} tn__supplied;

struct tn__station {
  const tn__station_kind *kind;
  tn__supplied supplied;
  tn_station_options options;           /* defaults are filled in */
  tn__job *jobs;                        /* options.slots + options.waiting of them */
  int capacity, used, busy;             /* the limit of jobs, the current number, and those in slots */
  tn__job_list age;                     /* all jobs with a pending callback, oldest first */
  tn__job_list queue, answered, places; /* waiting jobs, jobs with a kept result, and the free list */
  uint64_t submitted;                   /* number of submissions; part of each handle */
  uint64_t visits; /* visited jobs; tests check that the cost of a submission is independent of the number of jobs */
  int submitting;  /* active calls of tn__station_submit(), during which no result is delivered */
  int paused;      /* nesting depth */
  int inside;      /* active calls of supplied functions */
  bool starting;   /* a loop that starts jobs is active; it also starts jobs that arrive meanwhile */
  bool polling;    /* kept results are being delivered */
  bool refused;    /* a submission was rejected since the last call of `drained` */
  bool releasing, dead;
};

/* What was supplied belongs to the station from now on, also when there is none in the end. */
TN_MUST_USE tn_status *tn__station_create(const tn__station_kind *kind, const tn__supplied *supplied,
                                          const tn_station_options *options, tn__station **out);
void tn__station_release(tn__station *s);
/* The job's callback, input, build and user are the caller's words. */
TN_MUST_USE tn_status *tn__station_submit(tn__station *s, const tn__job *job, tn_trial_handle *handle);
bool tn__station_cancel(tn__station *s, tn_trial_handle handle);
void tn__station_finish(tn__station *s, tn_trial_handle handle, const void *result);
void tn__station_pause(tn__station *s, bool pause);
/* Delivers the results that arrived during a submission. Returns how many. */
int tn__station_poll(tn__station *s);

/* Of results that were supplied: no text is "", and an error or a time that is none makes the trial one that says
 * nothing of its candidate (TN_TRIAL_WORKER_LOST). */
void tn__station_check_words(tn_trial_error *error, const char **message);
void tn__station_check_time(double *seconds, tn_trial_error *error, const char **message);

#endif
