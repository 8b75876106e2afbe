/* Inside of the database of tuning records: statements with errors in words, transactions, schemas and filters. */
#ifndef TENON_TUNE_DATABASE_DATABASE_H
#define TENON_TUNE_DATABASE_DATABASE_H

#include <sqlite3.h>

#include "base/strbuf.h"
#include "tenon/database.h"

struct tn_database {
  sqlite3 *handle;
  char *path;
  double wait_seconds;
  bool read_only;
  int telling; /* callbacks that are being called: nothing is changed meanwhile */
};

/* ---- schemas (schema.c) ------------------------------------------------------------------------------------------ */

/* The schema of version i + 1 is made from that of version i by step i, some statements; 0 is an empty file. */
typedef struct tn__database_schema {
  const char *const *steps;
  int count;
} tn__database_schema;

extern const tn__database_schema tn__database_schema_known;

/* As tn_database_open() does, for any schema: tests have others. */
TN_MUST_USE tn_status *tn__database_open_schema(const char *path, const tn_database_options *options,
                                                const tn__database_schema *schema, tn_database **out);

/* ---- protection against the file (guard.c) ----------------------------------------------------------------------- */

enum { TN__DATABASE_LONGEST_TEXT = 64 * 1024 * 1024 }; /* total bytes of a row's texts */

/* Sets SQLite's switches and limits. Call before reading from the file. */
TN_MUST_USE tn_status *tn__database_guard(const tn_database *db);
/* Rejects a file whose tables, indexes, views and triggers differ from those that the first `version` steps create
 * (foreign.c). */
TN_MUST_USE tn_status *tn__database_check_schema(const tn_database *db, const tn__database_schema *schema,
                                                 int64_t version);
/* Like SQLite's functions, but return SQLITE_INTERRUPT when a statement exceeds the step budget for the file's size. */
TN_MUST_USE int tn__database_prepare_guarded(const tn_database *db, const char *sql, sqlite3_stmt **out);
int tn__database_step_guarded(const tn_database *db, sqlite3_stmt *statement);

/* ---- statements (statement.c) ------------------------------------------------------------------------------------ */

/* What SQLite's result means, in words. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__database_failed(const tn_database *db, int result);

/* A statement with its values, by a letter each: t a text (NULL is ""), i an int64_t, d a double, b a tn__digest. */
TN_MUST_USE tn_status *tn__database_prepare(const tn_database *db, sqlite3_stmt **out, const char *sql,
                                            const char *values, ...);
/* The next row; false behind the last. */
TN_MUST_USE tn_status *tn__database_step(const tn_database *db, sqlite3_stmt *statement, bool *row);
/* One that has no rows of interest. */
TN_MUST_USE tn_status *tn__database_run(const tn_database *db, const char *sql, const char *values, ...);
/* The first column of the first row as a number; untouched without a row. */
TN_MUST_USE tn_status *tn__database_number(const tn_database *db, int64_t *out, const char *sql, const char *values,
                                           ...);
/* A column's text: never NULL, until the next step. */
const char *tn__database_text(sqlite3_stmt *statement, int column);

/* Begins to write, behind other processes; refused when the database is only read, or telling. */
TN_MUST_USE tn_status *tn__database_begin(tn_database *db);
/* Ends that: all of it, or, when the status is not NULL, nothing. Returns the status. */
TN_MUST_USE tn_status *tn__database_end(tn_database *db, tn_status *status);
/* Sees one state of the database until the end, whatever others write. Nests in neither. */
TN_MUST_USE tn_status *tn__database_begin_reading(tn_database *db);
TN_MUST_USE tn_status *tn__database_end_reading(tn_database *db, tn_status *status);

#endif
