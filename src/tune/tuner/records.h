/* The records of a tuner: trials on their way into the database, and what it knows already.
 *
 * A database that another process holds does not stop the tuning: trials wait in memory, in their order, and are
 * written as soon as it is free. Of several tuners of one database each claims a candidate before it measures it. */
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
  tn__record_waiting *first, *last;
  bool told;                          /* that the database is held */
  double blocked_until;               /* it was held: nobody waits for it again before this time */
  char owner[64];                     /* of leases; no other tuner has it */
  double renewed;                     /* when the leases were */
  bool alone;                         /* searches get no seeds of similar kernels; set before */
  tn__similar *similar;               /* opened at the first search that wants seeds */
  char (*hashes)[TN_TASK_HASH_BYTES]; /* of the tasks */
  const char **tasks;                 /* the same */
  int task_count;
  double written; /* of the seconds that were spent in this tuning */
} tn__records;

/* Log, clock and `alone` are set, all else is zero. `path` NULL: the usual place; `machine` NULL: this one. Waits so
 * long for other processes at the most. */
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
/* So many seconds were spent on them by now, in this tuning. */
TN_MUST_USE tn_status *tn__records_spend(tn__records *records, double seconds);
/* What candidates of other tasks of this target and machine taught goes into the model: from the file of samples beside
 * the database, or, where that is missing, damaged or of something else, from the records. */
TN_MUST_USE tn_status *tn__records_learn(const tn__records *records, const tn_tune_task *like, tn__cost_model *model);
/* Writes that file. That it cannot be written is a warning. */
void tn__records_learned(const tn__records *records, const tn_tune_task *like, const tn__cost_model *model);
/* Writes what waits, when it can be. */
TN_MUST_USE tn_status *tn__records_flush(tn__records *records);
/* To be called now and then: what was claimed stays so. */
TN_MUST_USE tn_status *tn__records_renew(tn__records *records);
/* Writes what waits in the end, waiting for other processes so long at the most, and ends the leases. What could not be
 * written is an error. */
TN_MUST_USE tn_status *tn__records_finish(tn__records *records, double seconds);

#endif
