/* Opening: what kind of file it is, and its schema. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "base/trusted.h"
#include "tune/database/database.h"

enum {
  APPLICATION = 0x544e4442,        /* "TNDB", in the file's header */
  MOST_CHECKED = 256 * 1024 * 1024 /* bytes of a file whose every page is looked at when it is opened: some 0.1 s */
};

/* docs/tuning-records.md explains it. */
static const char *const steps[] = {
    "CREATE TABLE task (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
    " declaration TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL, results_read INTEGER NOT NULL) STRICT;"
    "CREATE TABLE dimension (task INTEGER NOT NULL REFERENCES task (id) ON DELETE CASCADE, name TEXT NOT NULL,"
    " size INTEGER NOT NULL, PRIMARY KEY (task, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE machine (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE record (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES task (id),"
    " machine INTEGER NOT NULL REFERENCES machine (id), format INTEGER NOT NULL, schedule_version INTEGER NOT NULL,"
    " candidate BLOB NOT NULL, rule TEXT NOT NULL, decisions TEXT NOT NULL, trace TEXT NOT NULL,"
    " origin INTEGER NOT NULL, error INTEGER NOT NULL, verified INTEGER NOT NULL, median REAL NOT NULL,"
    " best REAL NOT NULL, measured REAL NOT NULL, measurements INTEGER NOT NULL, told INTEGER NOT NULL,"
    " UNIQUE (task, candidate, machine, format, schedule_version)) STRICT;"
    "CREATE TABLE measurement (id INTEGER PRIMARY KEY, record INTEGER NOT NULL REFERENCES record (id) ON DELETE "
    "CASCADE,"
    " measured REAL NOT NULL, error INTEGER NOT NULL, message TEXT NOT NULL, median REAL NOT NULL, spread REAL NOT "
    "NULL,"
    " calls INTEGER NOT NULL, verified INTEGER NOT NULL, build_seconds REAL NOT NULL, run_seconds REAL NOT NULL,"
    " tenon TEXT NOT NULL, UNIQUE (record, measured, error, median)) STRICT;"
    "CREATE INDEX record_by_time ON record (measured);"
    "CREATE INDEX record_by_median ON record (task, error, verified, median);",
    "ALTER TABLE measurement ADD COLUMN predicted REAL NOT NULL DEFAULT 0.0;",
    ("CREATE TABLE spent (tasks TEXT NOT NULL, machine TEXT NOT NULL, seconds REAL NOT NULL,"
     " PRIMARY KEY (tasks, machine)) STRICT, WITHOUT ROWID;"),
    /* Records imported earlier count as unproven; 3 is TN_ORIGIN_IMPORT. */
    "ALTER TABLE measurement ADD COLUMN proven INTEGER NOT NULL DEFAULT 1;"
    "ALTER TABLE record ADD COLUMN proven INTEGER NOT NULL DEFAULT 1;"
    "ALTER TABLE record ADD COLUMN verdict INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE record ADD COLUMN ratio REAL NOT NULL DEFAULT 0.0;"
    "UPDATE measurement SET proven = 0 WHERE record IN (SELECT id FROM record WHERE origin = 3);"
    "UPDATE record SET proven = 0 WHERE origin = 3;"
    "CREATE TABLE verdict (record INTEGER NOT NULL REFERENCES record (id) ON DELETE CASCADE, judged REAL NOT NULL,"
    " better INTEGER NOT NULL, ratio REAL NOT NULL, turns INTEGER NOT NULL, tenon TEXT NOT NULL,"
    " PRIMARY KEY (record, judged)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE lease (task TEXT NOT NULL, machine TEXT NOT NULL, candidate BLOB NOT NULL, owner TEXT NOT NULL,"
    " expires REAL NOT NULL, PRIMARY KEY (task, machine, candidate)) STRICT, WITHOUT ROWID;",
    ("CREATE TABLE facts (task INTEGER NOT NULL REFERENCES task (id) ON DELETE CASCADE,"
     " machine INTEGER NOT NULL REFERENCES machine (id) ON DELETE CASCADE, flops REAL NOT NULL, bytes REAL NOT NULL,"
     " least REAL NOT NULL, floor REAL NOT NULL, candidates INTEGER NOT NULL, PRIMARY KEY (task, machine)) STRICT, "
     "WITHOUT ROWID;")};

const tn__database_schema tn__database_schema_known = {steps, sizeof(steps) / sizeof(steps[0])};

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

typedef struct file_kind {
  int64_t application, version, objects; /* objects: 0 or 1 */
} file_kind;

static tn_status *look_at(const tn_database *db, file_kind *out) {
  TN_RETURN_IF_ERROR(tn__database_number(db, &out->application, "PRAGMA application_id", ""));
  TN_RETURN_IF_ERROR(tn__database_number(db, &out->version, "PRAGMA user_version", ""));
  /* Not count(*), which is one SQLite step for a tree of any size and so escapes the budget. */
  return tn__database_number(db, &out->objects, "SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)", "");
}

/* Nothing in it yet: new, or its maker was stopped before the first table. */
static bool is_empty(const file_kind *kind) {
  return kind->application == 0 && kind->version == 0 && kind->objects == 0;
}

static tn_status *check_kind(const tn_database *db, const file_kind *kind, int known) {
  if (is_empty(kind)) return NULL;
  if (kind->application != APPLICATION)
    return tn_status_create(
        TN_INVALID_ARGUMENT,
        "%s: this is an SQLite database of another program, not one of tuning records: name another "
        "file; this one was left as it is",
        db->path);
  if (kind->version < 1)
    return tn_status_create(TN_DATA_LOSS,
                            "%s: cannot open the database: its schema has number %lld, and the first one has 1; name "
                            "another file, or move this one away and import what was exported before; it was left as "
                            "it is",
                            db->path, (long long)kind->version);
  if (kind->version > known)
    return tn_status_create(TN_UNSUPPORTED,
                            "%s: the database has schema %lld, and this Tenon (%s) knows those up to %d: use the Tenon "
                            "that wrote it, or export the records with that one and import them into another file",
                            db->path, (long long)kind->version, tn_version(), known);
  if (kind->version < known && db->read_only)
    return tn_status_create(
        TN_FAILED_PRECONDITION,
        "%s: the database has schema %lld of an older Tenon, and is to be read only: open it once to "
        "be written to, which brings it to schema %d",
        db->path, (long long)kind->version, known);
  return NULL;
}

/* Damage is found before anything is written, not in the middle of a tuning. */
static tn_status *check_pages(const tn_database *db) {
  int64_t pages = 0, bytes = 0;
  sqlite3_stmt *s;
  bool row;
  TN_RETURN_IF_ERROR(tn__database_number(db, &pages, "PRAGMA page_count", ""));
  TN_RETURN_IF_ERROR(tn__database_number(db, &bytes, "PRAGMA page_size", ""));
  if (pages * bytes > MOST_CHECKED) return NULL;
  TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, "PRAGMA quick_check(1)", ""));
  tn_status *status = tn__database_step(db, s, &row);
  if (status == NULL && row && strcmp(tn__database_text(s, 0), "ok") != 0)
    status = tn_status_create(TN_DATA_LOSS,
                              "%s: the database is damaged (%s): move it away, and import what was exported before; it "
                              "was left as it is",
                              db->path, tn__database_text(s, 0));
  sqlite3_finalize(s);
  return status;
}

static tn_status *take_steps(const tn_database *db, const tn__database_schema *schema, int64_t from) {
  char pragma[64];
  for (int64_t i = from; i < schema->count; i++) {
    int result = sqlite3_exec(db->handle, schema->steps[i], NULL, NULL, NULL);
    if (result != SQLITE_OK) return tn__database_failed(db, result);
  }
  snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", (int)APPLICATION);
  TN_RETURN_IF_ERROR(tn__database_run(db, pragma, ""));
  snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", schema->count);
  return tn__database_run(db, pragma, "");
}

/* In one transaction; another process may have been faster. */
static tn_status *migrate(tn_database *db, const tn__database_schema *schema) {
  file_kind kind = {0};
  TN_RETURN_IF_ERROR(tn__database_begin(db));
  tn_status *status = look_at(db, &kind);
  if (status == NULL) status = check_kind(db, &kind, schema->count);
  if (status == NULL && !is_empty(&kind)) status = tn__database_check_schema(db, schema, kind.version);
  if (status == NULL && kind.version < schema->count) status = take_steps(db, schema, kind.version);
  return tn__database_end(db, status);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* SQLite does not wait for a process that is opening the same file, so that is done here. */
static tn_status *use_write_ahead_log(const tn_database *db) {
  double end = tn__now() + db->wait_seconds;
  for (;;) {
    sqlite3_stmt *s;
    bool row = false, log = false;
    TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, "PRAGMA journal_mode = WAL", ""));
    tn_status *status = tn__database_step(db, s, &row);
    if (row) log = strcmp(tn__database_text(s, 0), "wal") == 0;
    sqlite3_finalize(s);
    if (status == NULL && !log)
      return tn_status_create(TN_UNSUPPORTED,
                              "%s: the file system cannot share memory between processes, which the database needs: "
                              "keep it on a disk of this machine",
                              db->path);
    if (status == NULL || tn_status_code_of(status) != TN_FAILED_PRECONDITION || tn__now() >= end) return status;
    tn_status_free(status);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
}

/* Looks at one state of the file, which another process may create or migrate at the same time: in a transaction. */
static tn_status *check_state(const tn_database *db, const tn__database_schema *schema, file_kind *kind) {
  TN_RETURN_IF_ERROR(look_at(db, kind));
  TN_RETURN_IF_ERROR(check_kind(db, kind, schema->count));
  return is_empty(kind) ? NULL : tn__database_check_schema(db, schema, kind->version);
}

static tn_status *set_up(tn_database *db, const tn_database_options *options, const tn__database_schema *schema) {
  file_kind kind = {0};
  TN_RETURN_IF_ERROR(tn__database_run(db, "PRAGMA cell_size_check = ON", ""));
  TN_RETURN_IF_ERROR(tn__database_run(db, "PRAGMA mmap_size = 0", ""));
  TN_RETURN_IF_ERROR(tn__database_run(db, "BEGIN", ""));
  TN_RETURN_IF_ERROR(tn__database_end(db, check_state(db, schema, &kind)));
  if (!is_empty(&kind)) {
    TN_RETURN_IF_ERROR(check_pages(db));
  } else if (db->read_only) {
    return tn_status_create(TN_NOT_FOUND, "%s: the file is empty: there are no tuning records in it yet", db->path);
  }
  TN_RETURN_IF_ERROR(tn__database_run(db, "PRAGMA foreign_keys = ON", ""));
  TN_RETURN_IF_ERROR(tn__database_run(db, "PRAGMA temp_store = MEMORY", ""));
  if (db->read_only) return NULL;
  if (is_empty(&kind)) TN_RETURN_IF_ERROR(tn__database_run(db, "PRAGMA auto_vacuum = INCREMENTAL", ""));
  TN_RETURN_IF_ERROR(use_write_ahead_log(db));
  /* NORMAL: a transaction is in the system's hands when it has ended; FULL: it is on the disk. */
  TN_RETURN_IF_ERROR(
      tn__database_run(db, options->synced ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", ""));
  return kind.version == schema->count ? NULL : migrate(db, schema);
}

/* The file was not named by the user, so its contents are ignored if others wrote it. */
static tn_status *check_default_folder(const char *folder) {
  tn_status *status = tn__folder_check_trusted(folder, "TENON_TUNE_DB or TENON_CACHE_DIR");
  if (tn_status_code_of(status) != TN_NOT_FOUND) return status;
  tn_status_free(status); /* it will be created */
  return NULL;
}

static tn_status *default_path(tn__strbuf *out) {
  char folder[4096];
  const char *own = secure_getenv("TENON_TUNE_DB");
  if (own != NULL && own[0] != '\0') {
    tn__strbuf_append(out, own);
  } else if (tn__cache_folder_name(NULL, folder, sizeof(folder))) {
    TN_RETURN_IF_ERROR(check_default_folder(folder));
    tn__strbuf_printf(out, "%s/tuning.db", folder);
  } else {
    return tn_status_create(TN_NOT_FOUND,
                            "there is no folder to keep tuning records in: name a file, or set TENON_TUNE_DB to one");
  }
  return tn__strbuf_status(out);
}

static tn_status *check_file(const char *path, bool read_only) {
  struct stat info;
  if (path[0] == '\0') return tn_status_create(TN_INVALID_ARGUMENT, "the name of the database's file is empty");
  if (stat(path, &info) == 0)
    return S_ISREG(info.st_mode)
               ? NULL
               : tn_status_create(TN_INVALID_ARGUMENT, "%s: this is no regular file, and a database is one", path);
  if (read_only && errno == ENOENT)
    return tn_status_create(TN_NOT_FOUND, "%s: there is no such database of tuning records", path);
  const char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path) return NULL;
  char *folder = strndup(path, (size_t)(slash - path));
  if (folder == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "%s: out of memory", path);
  tn_status *status = read_only ? NULL : tn__make_directories(folder);
  free(folder);
  return status;
}

static tn_status *open_handle(tn_database *db, const tn_database_options *options, const tn__database_schema *schema) {
  tn__strbuf name;
  TN_RETURN_IF_ERROR(check_file(db->path, db->read_only));
  tn__strbuf_init(&name, NULL); /* not :memory:, which SQLite would take for no file at all */
  tn__strbuf_printf(&name, "%s%s", db->path[0] == '/' ? "" : "./", db->path);
  tn_status *status = tn__strbuf_status(&name);
  int flags = db->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  int result = SQLITE_OK;
  if (status == NULL)
    result = sqlite3_open_v2(tn__strbuf_text(&name), &db->handle, flags | SQLITE_OPEN_FULLMUTEX, NULL);
  tn__strbuf_release(&name);
  if (status == NULL && db->handle == NULL) status = tn_status_create(TN_OUT_OF_MEMORY, "%s: out of memory", db->path);
  if (status == NULL && result != SQLITE_OK) status = tn__database_failed(db, result);
  if (status != NULL) return status;
  TN_RETURN_IF_ERROR(tn__database_guard(db));
  /* Until it is known to be ours, nothing is moved from its log to the file. */
  sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_busy_timeout(db->handle, (int)(1000 * db->wait_seconds));
  TN_RETURN_IF_ERROR(set_up(db, options, schema));
  sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
  return NULL;
}

tn_status *tn__database_open_schema(const char *path, const tn_database_options *options,
                                    const tn__database_schema *schema, tn_database **out) {
  enum { LONGEST_WAIT = 1000000, USUAL_WAIT = 10 };
  tn_database_options o;
  void *memory;
  *out = NULL;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_database_options, options, &o));
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn_database), 0, &memory));
  tn_database *db = memory;
  db->read_only = o.read_only;
  db->wait_seconds = o.wait_seconds < 0 ? 0 : o.wait_seconds > 0 ? o.wait_seconds : USUAL_WAIT;
  if (!(db->wait_seconds <= LONGEST_WAIT)) db->wait_seconds = LONGEST_WAIT;
  tn__strbuf name;
  tn__strbuf_init(&name, NULL);
  if (path != NULL) tn__strbuf_append(&name, path);
  tn_status *status = path != NULL ? tn__strbuf_status(&name) : default_path(&name);
  if (status == NULL && (db->path = strdup(tn__strbuf_text(&name))) == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory");
  tn__strbuf_release(&name);
  if (status == NULL) status = open_handle(db, &o, schema);
  if (status == NULL)
    *out = db;
  else
    tn_database_release(db);
  return status;
}

tn_status *tn_database_open(const char *path, const tn_database_options *options, tn_database **out) {
  TN__NEED("out", out);
  *out = NULL;
  return tn__database_open_schema(path, options, &tn__database_schema_known, out);
}

void tn_database_release(tn_database *database) {
  if (database == NULL) return;
  sqlite3_close_v2(database->handle);
  free(database->path);
  tn__free(NULL, database, sizeof(*database), 0);
}

const char *tn_database_path(const tn_database *database) {
  if (database == NULL) return NULL;
  return database->path;
}
