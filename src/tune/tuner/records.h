/* The records of a tuner: trials waiting to be stored in the database, and earlier results.
 *
 * If another process locks the database, tuning continues: trials queue in memory in order, and are stored once the
 * database is free. Tuners that share a database claim each candidate before they measure it. */
#ifndef TENON_TUNE_TUNER_RECORDS_H
#define TENON_TUNE_TUNER_RECORDS_H

#include "machine/identity.h"
#include "tenon/database.h"
#include "tune/tuner/similar.h"
#include "tune/tuner/tuner.h"

typedef struct tn__record_waiting tn__record_waiting; /* a trial that is not written yet */

typedef struct tn__records {
  tn_database *database;
  char machine[TN__MACHINE_IDENTITY_BYTES]; /* the fingerprint of the machine that runs candidates */
  const tn_log_sink *log;
  double (*clock)(void *user); /* of a simulation, whose times are nobody's; NULL: the calendar's */
  void *clock_user;
  double (*waits)(void *user); /* the clock that limits waits for other processes, in seconds; NULL: this machine's */
  void *waits_user;
  tn__record_waiting *first, *last;
  bool told;                          /* the lock was reported */
  double blocked_until;               /* the database was locked: do not wait for it again before this time */
  char owner[64];                     /* of leases; unique to the tuner */
  double renewed;                     /* when the leases were last renewed */
  bool alone;                         /* searches get no seeds of similar kernels; set before */
  tn__similar *similar;               /* opened at the first search that wants seeds */
  char (*hashes)[TN_TASK_HASH_BYTES]; /* of the tasks */
  const char **tasks;                 /* the same */
  const tn__task_list *list;          /* the tasks */
  bool *noted;                        /* by task: its facts are stored */
  int task_count;
  double written; /* of the seconds that were spent in this tuning */
} tn__records;

/* Opens the records. The caller sets log, clock and `alone`, and zeroes all else. `path` NULL: the default path;
 * `machine` NULL: this one. Waits at most `seconds` for other processes. */
TN_MUST_USE tn_status *tn__records_open(tn__records *records, const char *path, const char *machine, double seconds);
void tn__records_close(tn__records *records); /* what waits is gone */
/* For a tuner's sink. */
TN_MUST_USE tn_status *tn__records_add(tn__records *records, const tn__tuner_record *record);
TN_MUST_USE tn_status *tn__records_known(tn__records *records, const tn_tune_task *task, tn__search *search);
TN_MUST_USE tn_status *tn__records_verdicts(const tn__records *records, const tn_tune_task *task,
                                            void (*take)(void *to, const tn__known_verdict *verdict), void *to);
TN_MUST_USE tn_status *tn__records_claim(tn__records *records, const tn_tune_task *task, const tn__proposal *p,
                                         tn__tuner_claim *out);
TN_MUST_USE tn_status *tn__records_compared(tn__records *records, const tn_tune_task *task, const tn__compared *c);
/* The tasks whose records these are; tells the seconds that were spent on them before. */
TN_MUST_USE tn_status *tn__records_of(tn__records *records, const tn__task_list *tasks, double *spent);
/* Stores that all `candidates` of task `index` are measured. Call after the trials. */
TN_MUST_USE tn_status *tn__records_exhausted(tn__records *records, int index, int64_t candidates);
/* Reads the facts of a task, by hash, on a machine; `candidates` is 0 unless all are measured. `*known` is false if
 * there are none. */
TN_MUST_USE tn_status *tn__records_facts(const tn_database *database, const char *task, const char *machine,
                                         tn__task_work *work, int64_t *candidates, bool *known);
/* So many seconds were spent on them by now, in this tuning. */
TN_MUST_USE tn_status *tn__records_spend(tn__records *records, double seconds);
/* What candidates of other tasks of this target and machine taught goes into the model: from the file of samples beside
 * the database, or, where that is missing, damaged or of something else, from the records. */
TN_MUST_USE tn_status *tn__records_learn(const tn__records *records, const tn_tune_task *like, tn__cost_model *model);
/* Writes that file. That it cannot be written is a warning. */
void tn__records_learned(const tn__records *records, const tn_tune_task *like, const tn__cost_model *model);
/* Writes what waits, when it can be. */
TN_MUST_USE tn_status *tn__records_flush(tn__records *records);
/* Renews the tuner's leases. Call periodically. */
TN_MUST_USE tn_status *tn__records_renew(tn__records *records);
/* The longest wait for a locked database at the end of a tuning, in seconds: a minute, and at most two seconds past the
 * end of the budget (0: no budget). */
double tn__records_patience(double budget, double spent);
#define TN__RECORDS_WAIT 0.2 /* seconds that one statement waits for a locked database */
/* Stores the waiting trials and ends the leases. Waits at most `seconds` for other processes; the last statement may
 * end TN__RECORDS_WAIT later. Returns an error if a trial could not be stored. */
TN_MUST_USE tn_status *tn__records_finish(tn__records *records, double seconds);

#endif
