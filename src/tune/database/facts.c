/* Operations, bytes and bounds of tasks. */
#include "tune/database/facts.h"

#include <math.h>

#include "base/alloc.h"
#include "tune/database/database.h"

tn_status *tn__database_put_facts(tn_database *db, const char *task, const char *machine, const tn__database_facts *f) {
  static const char put[] =
      "INSERT OR REPLACE INTO facts (task, machine, flops, bytes, least, floor, candidates)"
      " SELECT task.id, machine.id, ?, ?, ?, ?, ? FROM task, machine WHERE hash = ? AND fingerprint = ?";
  TN_RETURN_IF_ERROR(tn__database_begin(db));
  tn_status *status = tn__database_run(db, "INSERT OR IGNORE INTO machine (fingerprint) VALUES (?)", "t", machine);
  if (status == NULL)
    status = tn__database_run(db, put,
                              "ddddi"
                              "tt",
                              f->flops, f->bytes, f->least, f->floor, f->candidates, task, machine);
  if (status == NULL && sqlite3_changes(db->handle) == 0)
    status = tn_status_create(TN_NOT_FOUND, "%s: cannot keep facts: there is no task %s; add the task first", db->path,
                              task);
  return tn__database_end(db, status);
}

/* A file of others may hold any number. */
static double sane(double number, double otherwise) { return isfinite(number) && number >= 0 ? number : otherwise; }

tn_status *tn__database_facts_of(const tn_database *db, const char *task, const char *machine, tn__database_facts *out,
                                 bool *known) {
  static const char get[] =
      "SELECT flops, bytes, least, floor, candidates FROM facts JOIN task ON task.id = facts.task"
      " JOIN machine ON machine.id = facts.machine WHERE hash = ? AND fingerprint = ?";
  sqlite3_stmt *s;
  *out = (tn__database_facts){.flops = -1, .bytes = -1, .least = -1};
  *known = false;
  TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, get, "tt", task, machine));
  tn_status *status = tn__database_step(db, s, known);
  if (status == NULL && *known)
    *out = (tn__database_facts){.flops = sane(sqlite3_column_double(s, 0), -1),
                                .bytes = sane(sqlite3_column_double(s, 1), -1),
                                .least = sane(sqlite3_column_double(s, 2), -1),
                                .floor = sane(sqlite3_column_double(s, 3), 0),
                                .candidates = sqlite3_column_int64(s, 4)};
  sqlite3_finalize(s);
  return status;
}

tn_status *tn__database_check_floor(const tn_database *db, const tn_record *record) {
  tn__database_facts facts;
  bool known;
  if (record->error != TN_TRIAL_OK) return NULL;
  TN_RETURN_IF_ERROR(tn__database_facts_of(db, record->task, record->machine, &facts, &known));
  if (!known || record->median >= facts.floor) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "field \"median\": %g s is less than the %g s that this machine needs at the least for the "
                          "kernel's operations and outputs; leave the record out",
                          record->median, facts.floor);
}
