#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "tune/database/database.h"

static bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

/* What the system said last about the database's file, or else its log; 0: nothing is known. */
static int system_error(const tn_database *db) {
  int error = 0;
  sqlite3_file *log = NULL;
  (void)sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != NULL && log->pMethods != NULL) (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  if (error == 0) (void)sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : sqlite3_system_errno(db->handle);
}

static tn_status *io_failed(const tn_database *db, int result) {
  int error = system_error(db);
  char text[128];
  if (result == SQLITE_FULL || is_full(error))
    return tn_status_create(
        TN_IO, "%s: there is no room on the disk: make some and go on; what was recorded before is kept", db->path);
  return tn_status_create(TN_IO, "%s: cannot %s: %s", db->path, result == SQLITE_CANTOPEN ? "open" : "read or write",
                          error != 0 ? strerror_r(error, text, sizeof(text)) : sqlite3_errmsg(db->handle));
}

tn_status *tn__database_failed(const tn_database *db, int result) {
  int kind = sqlite3_extended_errcode(db->handle) == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : result & 0xff;
  switch (kind) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return tn_status_create(TN_FAILED_PRECONDITION,
                              "%s: the database is locked: another process has been writing for more than %g s; try "
                              "again when it is done (nothing was written)",
                              db->path, db->wait_seconds);
    case SQLITE_CORRUPT:
      return tn_status_create(TN_DATA_LOSS,
                              "%s: the database is damaged (%s): move it away, and import what was exported before; it "
                              "was left as it is",
                              db->path, sqlite3_errmsg(db->handle));
    case SQLITE_INTERRUPT:
      return tn_status_create(
          TN_DATA_LOSS,
          "%s: cannot read the database: a statement took more steps than a file of its size needs, "
          "so the file is damaged or was made to mislead; move it away, and import what was "
          "exported before",
          db->path);
    case SQLITE_TOOBIG:
      return tn_status_create(TN_INVALID_ARGUMENT,
                              "%s: cannot read or write a record: its texts have more than %d bytes", db->path,
                              (int)TN__DATABASE_LONGEST_TEXT);
    case SQLITE_NOTADB:
      return tn_status_create(TN_INVALID_ARGUMENT,
                              "%s: this is no database of tuning records: name another file; this one was left as it "
                              "is",
                              db->path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return tn_status_create(TN_IO, "%s: the database, or the folder that it is in, cannot be written to", db->path);
    case SQLITE_NOMEM: return tn_status_create(TN_OUT_OF_MEMORY, "%s: out of memory", db->path);
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: return io_failed(db, kind);
    default: return tn_status_create(TN_INTERNAL, "%s: SQLite: %s", db->path, sqlite3_errmsg(db->handle));
  }
}

static int bind_all(sqlite3_stmt *s, const char *values, va_list list) {
  int result = SQLITE_OK;
  for (int i = 1; values[i - 1] != '\0' && result == SQLITE_OK; i++) switch (values[i - 1]) {
      case 't': {
        const char *text = va_arg(list, const char *);
        result = sqlite3_bind_text(s, i, text == NULL ? "" : text, -1, SQLITE_TRANSIENT);
        break;
      }
      case 'b':
        result = sqlite3_bind_blob(s, i, va_arg(list, const tn__digest *), sizeof(tn__digest), SQLITE_TRANSIENT);
        break;
      case 'd': result = sqlite3_bind_double(s, i, va_arg(list, double)); break;
      default: result = sqlite3_bind_int64(s, i, va_arg(list, int64_t));
    }
  return result;
}

static tn_status *prepare(const tn_database *db, sqlite3_stmt **out, const char *sql, const char *values,
                          va_list list) {
  int result = tn__database_prepare_guarded(db, sql, out);
  if (result == SQLITE_OK) result = bind_all(*out, values, list);
  if (result == SQLITE_OK) return NULL;
  tn_status *status = tn__database_failed(db, result);
  sqlite3_finalize(*out);
  *out = NULL;
  return status;
}

tn_status *tn__database_prepare(const tn_database *db, sqlite3_stmt **out, const char *sql, const char *values, ...) {
  va_list list;
  va_start(list, values);
  tn_status *status = prepare(db, out, sql, values, list);
  va_end(list);
  return status;
}

tn_status *tn__database_step(const tn_database *db, sqlite3_stmt *statement, bool *row) {
  int result = tn__database_step_guarded(db, statement);
  *row = result == SQLITE_ROW;
  return result == SQLITE_ROW || result == SQLITE_DONE ? NULL : tn__database_failed(db, result);
}

/* The first row's number to `out`, if anybody wants it, and the statement to its end. */
static tn_status *run_to_end(const tn_database *db, int64_t *out, const char *sql, const char *values, va_list list) {
  sqlite3_stmt *s;
  bool row = true, first = true;
  TN_RETURN_IF_ERROR(prepare(db, &s, sql, values, list));
  tn_status *status = NULL;
  while (row && status == NULL) {
    status = tn__database_step(db, s, &row);
    if (status == NULL && row && first && out != NULL) *out = sqlite3_column_int64(s, 0);
    first = false;
  }
  sqlite3_finalize(s);
  return status;
}

tn_status *tn__database_run(const tn_database *db, const char *sql, const char *values, ...) {
  va_list list;
  va_start(list, values);
  tn_status *status = run_to_end(db, NULL, sql, values, list);
  va_end(list);
  return status;
}

tn_status *tn__database_number(const tn_database *db, int64_t *out, const char *sql, const char *values, ...) {
  va_list list;
  va_start(list, values);
  tn_status *status = run_to_end(db, out, sql, values, list);
  va_end(list);
  return status;
}

const char *tn__database_text(sqlite3_stmt *statement, int column) {
  const unsigned char *text = sqlite3_column_text(statement, column);
  return text == NULL ? "" : (const char *)text;
}

tn_status *tn__database_begin(tn_database *db) {
  if (db->read_only)
    return tn_status_create(TN_FAILED_PRECONDITION, "%s: the database was opened to be read only", db->path);
  if (db->telling > 0)
    return tn_status_create(
        TN_FAILED_PRECONDITION,
        "%s: the database is telling what it has, and cannot be changed in that callback: keep what "
        "is to be written until it has returned",
        db->path);
  /* At once, not with the first statement that writes: what was read before could be out of date then. */
  return tn__database_run(db, "BEGIN IMMEDIATE", "");
}

tn_status *tn__database_end(tn_database *db, tn_status *status) {
  if (status == NULL) status = tn__database_run(db, "COMMIT", "");
  if (status != NULL && sqlite3_get_autocommit(db->handle) == 0) sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

tn_status *tn__database_begin_reading(tn_database *db) {
  if (db->telling++ > 0) return NULL; /* within what one sees already */
  tn_status *status = tn__database_run(db, "BEGIN", "");
  if (status != NULL) db->telling--;
  return status;
}

tn_status *tn__database_end_reading(tn_database *db, tn_status *status) {
  if (--db->telling > 0 || sqlite3_get_autocommit(db->handle) != 0) return status;
  tn_status *end = tn__database_run(db, "COMMIT", "");
  if (status == NULL) return end;
  tn_status_free(end);
  return status;
}
