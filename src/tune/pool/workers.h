/* A fixed number of worker processes, each with one trial at a time: what builders and runners of worker processes have
 * in common. All is of one libuv loop's thread. */
#ifndef TENON_TUNE_POOL_WORKERS_H
#define TENON_TUNE_POOL_WORKERS_H

#include "tune/measure/station.h"
#include "tune/message/message.h"

typedef struct tn__workers tn__workers;

/* How trials end; `user` is the owner's. The owner may release the workers within. */
typedef struct tn__workers_owner {
  const char *does;        /* "building", for messages */
  tn_trial_error fault;    /* of a candidate that ends its worker */
  tn_trial_error limit;    /* of one that passes a limit */
  tn__message_kind answer; /* to a trial */
  /* False, having told nothing: the worker's answer cannot be read. */
  bool (*done)(void *user, tn_trial_handle trial, tn__message_reader *answer);
  void (*lost)(void *user, tn_trial_handle trial, tn_trial_error error, const char *message, double seconds);
} tn__workers_owner;

/* `options` are filled in. Starts the processes. */
TN_MUST_USE tn_status *tn__workers_create(const tn_worker_options *options, const tn_timing_options *timing, bool runs,
                                          const tn__workers_owner *owner, void *user, tn__workers **out);
/* Fills `filled` with what the options say, or the defaults. */
TN_MUST_USE tn_status *tn__workers_options(const tn_worker_options *given, tn_worker_options *filled);
/* The message that begins the trial, whose first field is to be the task's slot. There is a worker that has none: there
 * are never more trials than workers. */
void tn__workers_start(tn__workers *workers, tn_trial_handle trial, const tn_tune_task *task, tn__message *message);
void tn__workers_pause(tn__workers *workers, bool pause);
/* Ends the processes. Memory is given back when the loop has closed what it knows of them. NULL is fine. */
void tn__workers_release(tn__workers *workers);
tn_worker_statistics tn__workers_statistics(const tn__workers *workers);

/* ---- what a builder and a runner are, both ----------------------------------------------------------------------- */

typedef struct tn__workers_self {
  tn__workers *workers;
  tn_builder *builder; /* once something was submitted to it */
  tn_runner *runner;   /* the same */
} tn__workers_self;

/* With processes as the options say, and the options of its station. */
TN_MUST_USE tn_status *tn__workers_self_create(const tn_worker_options *options, const tn_timing_options *timing,
                                               bool runs, const tn__workers_owner *owner, tn__workers_self **out,
                                               tn_station_options *station);
void tn__workers_self_release(void *self);
TN_MUST_USE tn_status *tn__workers_self_statistics(const tn__station *station, tn_worker_statistics *out);

#endif
