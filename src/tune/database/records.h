/* Tasks and records as they are written, within a transaction of the caller's. */
#ifndef TENON_TUNE_DATABASE_RECORDS_H
#define TENON_TUNE_DATABASE_RECORDS_H

#include "base/hash.h"
#include "tune/database/database.h"

/* Refuses what is no task, or no record: TN_INVALID_ARGUMENT, with the field. A record's numbers of versions must not
 * be newer than those known, unless `newer`. */
TN_MUST_USE tn_status *tn__database_check_task(const tn_tune_task *task);
TN_MUST_USE tn_status *tn__database_check_record(const tn_record *record, bool newer);
/* Is it a task's hash, or how one begins? */
bool tn__database_is_hash(const char *text, bool whole);

/* Puts the task, of that hash, where it is not there; `*added` tells. */
TN_MUST_USE tn_status *tn__database_put_task(tn_database *db, const tn_tune_task *task, const char *hash, bool *added);
/* As tn_database_add(), of a record that was checked and has no versions of 0. */
TN_MUST_USE tn_status *tn__database_put(tn_database *db, const tn_record *record, bool again, tn_added *added);
/* As tn_database_change counts it, of a put `again` from another file. */
void tn__database_count(tn_database_change *change, tn_added added);

/* What stands for a candidate in the database. */
tn__digest tn__database_candidate(const tn_record *record);

#endif
