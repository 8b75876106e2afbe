/* Writing tasks and records. */
#include "tune/database/records.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/database/facts.h"

static tn_status *has_task(const tn_database *db, const char *hash, bool *there) {
  int64_t count = 0;
  tn_status *status = tn__database_number(db, &count, "SELECT count(*) FROM task WHERE hash = ?", "t", hash);
  *there = count > 0;
  return status;
}

tn_status *tn__database_put_task(tn_database *db, const tn_tune_task *task, const char *hash, bool *added) {
  static const char insert[] =
      "INSERT INTO task (hash, name, declaration, target, threads, results_read) VALUES (?, ?, ?, ?, ?, ?)";
  bool there;
  TN_RETURN_IF_ERROR(has_task(db, hash, &there));
  *added = !there;
  if (there) return NULL;
  TN_RETURN_IF_ERROR(tn__database_run(db, insert, "ttttii", hash, task->name, task->declaration, task->target,
                                      (int64_t)task->threads, (int64_t)task->results_read));
  int64_t id = sqlite3_last_insert_rowid(db->handle);
  for (int i = 0; i < task->dim_count; i++)
    TN_RETURN_IF_ERROR(tn__database_run(db, "INSERT INTO dimension (task, name, size) VALUES (?, ?, ?)", "iti", id,
                                        task->dims[i], task->sizes[i]));
  return NULL;
}

/* Derives a record from its measurements, independent of their order (database.h has the rule). If some were made
 * here, those of others do not count. ?1 is the record, ?2 the time of the newest error of the candidate itself, ?3
 * whether some were made here. */
#define OWN_ERROR "error BETWEEN 1 AND 5" /* TN_TRIAL_INSTANTIATION to TN_TRIAL_WRONG_ANSWER */
#define COUNTS "record = ?1 AND proven = ?3 AND error = 0 AND measured > ?2"
static tn_status *sum_up(const tn_database *db, int64_t record) {
  static const char newest[] =
      "SELECT coalesce(max(measured) FILTER (WHERE proven = here AND " OWN_ERROR
      "), -1.0), coalesce(max(here), 0) FROM measurement, (SELECT max(proven) AS here FROM measurement WHERE record ="
      " ?1) WHERE record = ?1";
  static const char update[] =
      "UPDATE record SET proven = ?3, measurements = (SELECT count(*) FROM measurement WHERE record = ?1),"
      " measured = (SELECT max(measured) FROM measurement WHERE record = ?1),"
      " verified = (SELECT coalesce(max(verified), 0) FROM measurement WHERE " COUNTS
      "),"
      " best = (SELECT coalesce(min(median), 0.0) FROM measurement WHERE " COUNTS
      "),"
      " median = (SELECT coalesce(avg(median), 0.0) FROM (SELECT median FROM measurement WHERE " COUNTS
      " ORDER BY median LIMIT 2 - (SELECT count(*) FROM measurement WHERE " COUNTS
      ") % 2"
      " OFFSET max(0, (SELECT count(*) - 1 FROM measurement WHERE " COUNTS
      ") / 2))),"
      " told = (SELECT id FROM measurement WHERE record = ?1 ORDER BY proven DESC, (error = 0 AND measured > ?2) DESC,"
      " (" OWN_ERROR ") DESC, measured DESC, error DESC, median LIMIT 1) WHERE id = ?1";
  sqlite3_stmt *s;
  bool row;
  TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, newest, "i", record));
  tn_status *status = tn__database_step(db, s, &row);
  double own = row ? sqlite3_column_double(s, 0) : 0;
  int64_t proven = row ? sqlite3_column_int64(s, 1) : 0;
  sqlite3_finalize(s);
  if (status == NULL) status = tn__database_run(db, update, "idi", record, own, proven);
  if (status != NULL) return status;
  return tn__database_run(db, "UPDATE record SET error = (SELECT error FROM measurement WHERE id = told) WHERE id = ?",
                          "i", record);
}
#undef COUNTS
#undef OWN_ERROR

/* INT64_MIN: there is none. */
static tn_status *find_record(const tn_database *db, int64_t task, int64_t machine, const tn_record *r,
                              const tn__digest *candidate, int64_t *id, int64_t *error, bool *proven) {
  static const char find[] =
      "SELECT id, error, proven FROM record WHERE task = ? AND candidate = ? AND machine = ? AND format = ? AND"
      " schedule_version = ?";
  sqlite3_stmt *s;
  bool row;
  *id = INT64_MIN;
  TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, find, "ibiii", task, candidate, machine, (int64_t)r->format,
                                          (int64_t)r->schedule_version));
  tn_status *status = tn__database_step(db, s, &row);
  if (row) {
    *id = sqlite3_column_int64(s, 0);
    *error = sqlite3_column_int64(s, 1);
    *proven = sqlite3_column_int64(s, 2) != 0;
  }
  sqlite3_finalize(s);
  return status;
}

/* Numbers of the record's task and machine in this file. */
static tn_status *find_places(const tn_database *db, const tn_record *r, int64_t *task, int64_t *machine) {
  *task = *machine = INT64_MIN;
  TN_RETURN_IF_ERROR(tn__database_number(db, task, "SELECT id FROM task WHERE hash = ?", "t", r->task));
  if (*task == INT64_MIN)
    return tn_status_create(TN_NOT_FOUND, "field \"task\": there is no task %s in %s: add the task before its records",
                            r->task, db->path);
  TN_RETURN_IF_ERROR(tn__database_run(db, "INSERT OR IGNORE INTO machine (fingerprint) VALUES (?)", "t", r->machine));
  return tn__database_number(db, machine, "SELECT id FROM machine WHERE fingerprint = ?", "t", r->machine);
}

static tn_status *insert_record(const tn_database *db, int64_t task, int64_t machine, const tn_record *r,
                                const tn__digest *candidate) {
  static const char insert[] =
      "INSERT INTO record (task, machine, format, schedule_version, candidate, rule, decisions, trace, origin, error,"
      " verified, median, best, measured, measurements, told)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0.0, 0.0, 0.0, 0, 0)";
  return tn__database_run(db, insert, "iiiibttti", task, machine, (int64_t)r->format, (int64_t)r->schedule_version,
                          candidate, r->rule, r->decisions, r->trace, (int64_t)r->origin);
}

static tn_status *insert_measurement(const tn_database *db, int64_t record, const tn_record *r, bool proven) {
  static const char insert[] =
      "INSERT OR IGNORE INTO measurement (record, measured, error, message, median, spread, calls, verified,"
      " build_seconds, run_seconds, tenon, predicted, proven) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double when = r->when > 0 ? r->when : (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  bool timed = r->error == TN_TRIAL_OK;
  return tn__database_run(db, insert,
                          "idi"
                          "tddii"
                          "ddtdi",
                          record, when, (int64_t)r->error, r->message, timed ? r->median : 0, timed ? r->spread : 0,
                          timed ? r->calls : 0, (int64_t)(timed && r->verified), r->build_seconds, r->run_seconds,
                          r->tenon != NULL && r->tenon[0] != '\0' ? r->tenon : tn_version(), r->predicted,
                          (int64_t)proven);
}

tn_status *tn__database_find(const tn_database *db, const tn_record *r, int64_t *id, bool *proven) {
  int64_t task, machine, error;
  const tn__digest candidate = tn__database_candidate(r);
  *proven = false;
  TN_RETURN_IF_ERROR(find_places(db, r, &task, &machine));
  return find_record(db, task, machine, r, &candidate, id, &error, proven);
}

tn_status *tn__database_put(tn_database *db, const tn_record *r, bool again, bool proven, tn_added *added) {
  int64_t task, machine, id, error = 0;
  bool was_proven = false;
  const tn__digest candidate = tn__database_candidate(r);
  *added = TN_ADDED_NOTHING;
  TN_RETURN_IF_ERROR(find_places(db, r, &task, &machine));
  if (!proven) TN_RETURN_IF_ERROR(tn__database_check_floor(db, r));
  TN_RETURN_IF_ERROR(find_record(db, task, machine, r, &candidate, &id, &error, &was_proven));
  bool known = id != INT64_MIN;
  if (known && !again && error != TN_TRIAL_CANCELLED && was_proven) return NULL;
  if (!known) {
    TN_RETURN_IF_ERROR(insert_record(db, task, machine, r, &candidate));
    id = sqlite3_last_insert_rowid(db->handle);
  } else if (r->trace != NULL && r->trace[0] != '\0') {
    TN_RETURN_IF_ERROR(
        tn__database_run(db, "UPDATE record SET trace = ? WHERE id = ? AND trace = ''", "ti", r->trace, id));
  }
  TN_RETURN_IF_ERROR(insert_measurement(db, id, r, proven));
  if (sqlite3_changes(db->handle) == 0) return NULL;
  *added = known ? TN_ADDED_MEASUREMENT : TN_ADDED_RECORD;
  return sum_up(db, id);
}

void tn__database_count(tn_database_change *change, tn_added added) {
  change->records += added == TN_ADDED_RECORD;
  change->measurements += added == TN_ADDED_MEASUREMENT;
  change->known += added == TN_ADDED_NOTHING;
}

/* ---- the public way in ------------------------------------------------------------------------------------------- */

tn_status *tn_database_add_task(tn_database *database, const tn_tune_task *task, char hash[TN_TASK_HASH_BYTES]) {
  TN__NEED("database", database);
  TN__NEED("task", task);
  tn_tune_task t;
  char own[TN_TASK_HASH_BYTES];
  bool there, added;
  TN_RETURN_IF_ERROR(tn_tune_task_hash(task, own));
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_tune_task, task, &t));
  TN_RETURN_IF_ERROR(has_task(database, own, &there)); /* mostly it is, and nothing is written nor waited for */
  if (!there) {
    TN_RETURN_IF_ERROR(tn__database_begin(database));
    TN_RETURN_IF_ERROR(tn__database_end(database, tn__database_put_task(database, &t, own, &added)));
  }
  if (hash != NULL) memcpy(hash, own, sizeof(own));
  return NULL;
}

/* Of a caller's record, with versions filled in. */
static tn_status *read_record(const tn_record *given, tn_record *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_record, given, out));
  if (out->format == 0) out->format = TN_RECORD_FORMAT;
  if (out->schedule_version == 0) out->schedule_version = TN_SCHEDULE_VERSION;
  return NULL;
}

static tn_status *add(tn_database *db, const tn_record *given, bool again, tn_added *added) {
  tn_record r;
  TN_RETURN_IF_ERROR(read_record(given, &r));
  TN_RETURN_IF_ERROR(tn__database_check_record(&r, false));
  return tn__database_put(db, &r, again, true, added);
}

tn_status *tn_database_add(tn_database *database, const tn_record *record, bool again, tn_added *added) {
  TN__NEED("database", database);
  TN__NEED("record", record);
  tn_added ignored;
  TN_RETURN_IF_ERROR(tn__database_begin(database));
  return tn__database_end(database, add(database, record, again, added != NULL ? added : &ignored));
}

tn_status *tn_database_add_many(tn_database *database, const tn_record *const *records, int count, bool again,
                                tn_added *added) {
  TN__NEED("database", database);
  TN__NEED_EACH("records", records, "count", count);
  tn_added ignored;
  tn_status *status = NULL;
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_database_add_many", "records", records, "count", count));
  TN_RETURN_IF_ERROR(tn__database_begin(database));
  for (int i = 0; i < count && status == NULL; i++)
    status = tn_status_prefix(add(database, records[i], again, added != NULL ? &added[i] : &ignored), "record %d", i);
  return tn__database_end(database, status);
}

tn_status *tn_database_has(tn_database *database, const tn_record *candidate, bool *known, tn_trial_error *error) {
  TN__NEED("database", database);
  TN__NEED("candidate", candidate);
  TN__NEED("known", known);
  static const char find[] =
      "SELECT record.error FROM record JOIN task ON task.id = record.task JOIN machine ON machine.id = record.machine"
      " WHERE task.hash = ? AND candidate = ? AND format = ? AND schedule_version = ? AND (?5 = '' OR fingerprint = ?5)"
      " AND record.proven AND +record.error != 9 ORDER BY +record.error LIMIT 1";
  tn_record r;
  int64_t found = -1;
  *known = false;
  TN_RETURN_IF_ERROR(read_record(candidate, &r));
  const tn__digest digest = tn__database_candidate(&r);
  TN_RETURN_IF_ERROR(tn__database_number(database, &found, find, "tbiit", r.task, &digest, (int64_t)r.format,
                                         (int64_t)r.schedule_version, r.machine));
  *known = found >= 0 && found < TN_TRIAL_ERRORS;
  if (*known && error != NULL) *error = (tn_trial_error)found;
  return NULL;
}
