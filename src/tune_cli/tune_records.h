/* The records of `tenon tune`: trials on their way into the database, and what it knows already.
 *
 * A database that another process holds does not stop the tuning: trials wait in memory, in their order, and are
 * written as soon as it is free. */
#ifndef TENON_TUNE_CLI_TUNE_RECORDS_H
#define TENON_TUNE_CLI_TUNE_RECORDS_H

#include "tenon/database.h"
#include "tune/tuner/tuner.h"

typedef struct tune_waiting tune_waiting; /* a trial that is not written yet */

typedef struct tune_records {
  tn_database *database;
  char machine[128]; /* the fingerprint of this machine */
  tune_waiting *first, *last;
  bool told; /* that the database is held */
} tune_records;

/* `path` NULL: the usual place. */
TN_MUST_USE tn_status *tune_records_open(tune_records *records, const char *path);
void tune_records_close(tune_records *records); /* what waits is gone */
/* For a tuner's sink. */
TN_MUST_USE tn_status *tune_records_add(tune_records *records, const tn__tuner_record *record);
TN_MUST_USE tn_status *tune_records_known(tune_records *records, const tn_tune_task *task, tn__search *search);
TN_MUST_USE tn_status *tune_records_compared(tune_records *records, const tn_tune_task *task, const tn__compared *c);
/* Writes what waits, when it can be. */
TN_MUST_USE tn_status *tune_records_flush(tune_records *records);
/* The same in the end, waiting for up to a minute. What could not be written is an error. */
TN_MUST_USE tn_status *tune_records_finish(tune_records *records);

#endif
