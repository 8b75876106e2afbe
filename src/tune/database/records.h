/* Tasks and records as they are written, within a transaction of the caller's. */
#ifndef TENON_TUNE_DATABASE_RECORDS_H
#define TENON_TUNE_DATABASE_RECORDS_H

#include "base/hash.h"
#include "tune/database/database.h"

/* Refuses what is no task, or no record: TN_INVALID_ARGUMENT, with the field. A record's numbers of versions must not
 * be newer than those known, unless `newer`. */
TN_MUST_USE tn_status *tn__database_check_task(const tn_tune_task *task);
/* Checks only the fields of a record that identify a candidate. */
TN_MUST_USE tn_status *tn__database_check_candidate(const tn_record *record);
#define TN__DATABASE_LEAST_SECONDS 1e-10 /* of a call; shorter than a cycle of a processor's clock */
TN_MUST_USE tn_status *tn__database_check_record(const tn_record *record, bool newer);
/* Is it a task's hash, or how one begins? */
bool tn__database_is_hash(const char *text, bool whole);

/* Puts the task, of that hash, where it is not there; `*added` tells. */
TN_MUST_USE tn_status *tn__database_put_task(tn_database *db, const tn_tune_task *task, const char *hash, bool *added);
/* Like tn_database_add(), for a checked record without versions of 0. `proven`: the caller measured it, and it does
 * not come from another file. */
TN_MUST_USE tn_status *tn__database_put(tn_database *db, const tn_record *record, bool again, bool proven,
                                        tn_added *added);
/* As tn_database_change counts it, of a put `again` from another file. */
void tn__database_count(tn_database_change *change, tn_added added);

/* Finds the ids of a record's task and machine in this file; INT64_MIN: no such record. Returns TN_NOT_FOUND for an
 * unknown task. */
TN_MUST_USE tn_status *tn__database_find(const tn_database *db, const tn_record *record, int64_t *id, bool *proven);

/* What stands for a candidate in the database. */
tn__digest tn__database_candidate(const tn_record *record);

#endif
