/* Reading tasks and records, in an arena; errors are thrown. */
#ifndef TENON_TUNE_DATABASE_QUERY_H
#define TENON_TUNE_DATABASE_QUERY_H

#include "base/arena.h"
#include "tune/database/database.h"

/* Filled in from what a caller gave, and checked. */
TN_MUST_USE tn_status *tn__database_read_filter(const tn_record_filter *given, tn_record_filter *out);

/* A statement that ends with the arena; values as of tn__database_prepare(), without its checks. */
sqlite3_stmt *tn__database_keep(tn__arena *arena, tn_status *status, sqlite3_stmt *statement);
bool tn__database_next(const tn_database *db, tn__arena *arena, sqlite3_stmt *statement);

typedef struct tn__database_task {
  int64_t id;
  const char *hash;
  tn_tune_task kernel;
} tn__database_task;

/* All tasks that the filter means, in the order in which they were added. */
typedef TN__VEC(const tn__database_task *) tn__database_tasks;
tn__database_tasks tn__database_load_tasks(const tn_database *db, tn__arena *arena, const tn_record_filter *filter);

/* The conditions of a filter on a record, its task and machine, in SQL, whose first nine parameters are
 * tn__database_filter_values of it; records of newer formats are not among them. */
extern const char tn__database_filter_sql[];
#define TN__DATABASE_FILTER_LETTERS "ttttiiidd"
#define TN__DATABASE_FILTER_VALUES(f)                                                           \
  (f)->task, (f)->name, (f)->target, (f)->machine, (int64_t)(f)->errors, (int64_t)(f)->origins, \
      (int64_t)(f)->verified, (f)->since, (f)->until

/* Calls back with each record, of whatever format when `newer`; false from the callback ends it. */
void tn__database_tell(tn_database *db, tn__arena *arena, const tn_record_filter *filter, bool newer,
                       tn_record_callback callback, void *user);
/* All measurements of a record that was told, from the oldest on: the candidate's fields are that record's. */
void tn__database_tell_measurements(tn_database *db, tn__arena *arena, const tn_record *record,
                                    tn_record_callback callback, void *user);
/* Returns the fastest verified record of the task on `machine`, which may be NULL. With `winner`, returns the record
 * with the largest speedup over the static choice in comparisons. Returns NULL if there is none. */
const tn_record *tn__database_find_best(tn_database *db, tn__arena *arena, const char *task, const char *machine,
                                        bool winner);
/* How many records of newer formats the filter's task, name, target and machine mean. */
int64_t tn__database_count_newer(const tn_database *db, tn__arena *arena, const tn_record_filter *filter);

/* Runs `body` in an arena while the database tells one state of itself. */
TN_MUST_USE tn_status *tn__database_reading(tn_database *db, void (*body)(tn__arena *arena, void *user), void *user);

#endif
