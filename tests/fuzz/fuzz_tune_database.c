/* Databases of tuning records. Input that begins as an SQLite file is one. Other input modifies a valid database,
 * whose columns get unchecked values: three bytes choose table, column and type, then the value follows. Opening
 * fails, or every reader of databases ends with records or an error. */
#include <sqlite3.h>
#include <string.h>

#include "fuzz/files.h"
#include "tenon/database.h"

static const char *const columns[][2] = {{"task", "hash"},
                                         {"task", "name"},
                                         {"task", "declaration"},
                                         {"task", "target"},
                                         {"task", "threads"},
                                         {"task", "results_read"},
                                         {"dimension", "name"},
                                         {"dimension", "size"},
                                         {"machine", "fingerprint"},
                                         {"record", "task"},
                                         {"record", "machine"},
                                         {"record", "format"},
                                         {"record", "schedule_version"},
                                         {"record", "candidate"},
                                         {"record", "rule"},
                                         {"record", "decisions"},
                                         {"record", "trace"},
                                         {"record", "origin"},
                                         {"record", "error"},
                                         {"record", "verified"},
                                         {"record", "median"},
                                         {"record", "best"},
                                         {"record", "measured"},
                                         {"record", "measurements"},
                                         {"record", "told"},
                                         {"measurement", "record"},
                                         {"measurement", "measured"},
                                         {"measurement", "error"},
                                         {"measurement", "message"},
                                         {"measurement", "median"},
                                         {"measurement", "spread"},
                                         {"measurement", "calls"},
                                         {"measurement", "verified"},
                                         {"measurement", "tenon"},
                                         {"measurement", "predicted"},
                                         {"spent", "tasks"},
                                         {"spent", "machine"},
                                         {"spent", "seconds"}};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void remove_all(void) {
  static const char *const names[] = {"fuzz.db",  "fuzz.db-wal",  "fuzz.db-shm", "fuzz.db-journal",
                                      "other.db", "other.db-wal", "other.db-shm"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) unlink(fuzz_path(names[i]));
}

/* A database with one task and two records. */
static void make_good(const char *path) {
  static const char *const dims[] = {"N"};
  static const int64_t sizes[] = {64};
  const tn_tune_task task = {.size = sizeof(task),
                             .name = "gemm",
                             .declaration = "kernel gemm(...)",
                             .target = "x86-64-v3",
                             .threads = 1,
                             .dims = dims,
                             .sizes = sizes,
                             .dim_count = 1};
  char hash[TN_TASK_HASH_BYTES];
  tn_database *db;
  must(tn_database_open(path, NULL, &db));
  must(tn_database_add_task(db, &task, hash));
  tn_record record = {.size = sizeof(record),
                      .task = hash,
                      .machine = "zen",
                      .rule = "contraction",
                      .decisions = "rows 14",
                      .trace = "trace 1 9221c2e344f99d29\nend\n",
                      .median = 1e-5,
                      .spread = 0.01,
                      .calls = 10,
                      .verified = true,
                      .when = 1000};
  must(tn_database_add(db, &record, false, NULL));
  record.decisions = "rows 6";
  record.error = TN_TRIAL_HOST_COMPILE;
  record.median = 0;
  record.verified = false;
  record.calls = 0;
  record.message = "no";
  must(tn_database_add(db, &record, false, NULL));
  must(tn_database_spend(db, &(const char *){hash}, 1, "zen", 1.5, NULL));
  tn_database_release(db);
}

static size_t bind(sqlite3_stmt *s, unsigned type, const uint8_t *data, size_t size) {
  int64_t number = 0;
  double real = 0;
  size_t length = size > 0 && data[0] < size ? data[0] : 0;
  switch (type % 4) {
    case 0:
      if (size >= 8) memcpy(&number, data, 8);
      sqlite3_bind_int64(s, 1, number);
      return size >= 8 ? 8 : size;
    case 1:
      if (size >= 8) memcpy(&real, data, 8);
      sqlite3_bind_double(s, 1, real);
      return size >= 8 ? 8 : size;
    case 2: sqlite3_bind_text(s, 1, (const char *)data + (size > 0), (int)length, SQLITE_TRANSIENT); break;
    default: sqlite3_bind_blob(s, 1, data + (size > 0), (int)length, SQLITE_TRANSIENT);
  }
  return length + (size > 0);
}

static void change(const char *path, const uint8_t *data, size_t size) {
  sqlite3 *handle;
  if (sqlite3_open(path, &handle) != SQLITE_OK) abort();
  sqlite3_exec(handle, "PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
  for (size_t at = 0; at + 3 <= size;) {
    char sql[128];
    sqlite3_stmt *s;
    const char *const *column = columns[data[at] % COLUMNS];
    unsigned row = data[at + 1], type = data[at + 2];
    snprintf(sql, sizeof(sql), "UPDATE OR IGNORE %s SET %s = ? WHERE %s", column[0], column[1],
             row % 3 == 0 ? "true" : "rowid = 1");
    if (strcmp(column[0], "dimension") == 0 || strcmp(column[0], "spent") == 0) *strstr(sql, " WHERE") = '\0';
    if (sqlite3_prepare_v2(handle, sql, -1, &s, NULL) != SQLITE_OK) abort();
    at += 3 + bind(s, type, data + at + 3, size - at - 3);
    (void)sqlite3_step(s); /* STRICT tables reject values of other types */
    sqlite3_finalize(s);
  }
  sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
  sqlite3_close(handle);
}

static bool see_measurement(void *user, const tn_record *record) {
  (void)user;
  return record->tenon != NULL;
}

typedef struct seen {
  tn_database *db;
  size_t bytes;
} seen;

static bool see_record(void *user, const tn_record *record) {
  seen *s = user;
  s->bytes += strlen(record->task) + strlen(record->machine) + strlen(record->rule) + strlen(record->decisions) +
              strlen(record->trace) + strlen(record->message) + strlen(tn_record_origin_name(record->origin)) +
              strlen(tn_trial_error_name(record->error)) + strlen(record->kernel->name);
  tn_status_free(tn_database_measurements(s->db, record, see_measurement, s));
  return true;
}

static bool see_task(void *user, const tn_task_records *task) {
  seen *s = user;
  tn_record *best;
  for (int i = 0; i < task->kernel->dim_count; i++) s->bytes += strlen(task->kernel->dims[i]);
  tn_status *status = tn_database_best(s->db, task->hash, "zen", &best);
  if (status == NULL) tn_record_release(best);
  tn_status_free(status);
  return true;
}

static void read_all(tn_database *db) {
  seen s = {.db = db};
  char *text = NULL;
  tn_database *other;
  for (tn_record_order order = TN_ORDER_ADDED; order <= TN_ORDER_FASTEST; order++)
    tn_status_free(tn_database_query(db, &(tn_record_filter){.size = sizeof(tn_record_filter), .order = order},
                                     see_record, &s, NULL));
  tn_status_free(tn_database_tasks(db, NULL, see_task, &s));
  tn_status_free(tn_database_export_text(db, NULL, &text, NULL));
  free(text);
  tn_status_free(tn_database_save_best(db, NULL, NULL, fuzz_path("best.schedules"), NULL));
  tn_database_change taken = {.size = sizeof(taken)};
  must(tn_database_open(fuzz_path("other.db"), NULL, &other));
  char path[192];
  snprintf(path, sizeof(path), "%s", fuzz_path("fuzz.db"));
  tn_status_free(tn_database_merge(other, path, &taken));
  tn_database_release(other);
  tn_status_free(
      tn_database_prune(db, &(tn_prune_options){.size = sizeof(tn_prune_options), .keep = 1, .failed = true}, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char magic[] = "SQLite format 3";
  static tn__file_map good;
  char path[192];
  tn_database *db;
  snprintf(path, sizeof(path), "%s", fuzz_path("fuzz.db"));
  if (good.data == NULL) {
    make_good(fuzz_path("good.db"));
    must(tn__file_map_open(fuzz_path("good.db"), &good));
  }
  remove_all();
  if (size >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0) {
    (void)fuzz_write("fuzz.db", data, size);
  } else {
    (void)fuzz_write("fuzz.db", good.data, good.size);
    change(path, data, size);
  }
  tn_status *status = tn_database_open(path, NULL, &db);
  if (status == NULL) read_all(db);
  tn_status_free(status);
  tn_database_release(db);
  return 0;
}
