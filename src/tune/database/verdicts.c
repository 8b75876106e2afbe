/* Verdicts of comparisons with the static choice, and leases, which record the tuner that is measuring a candidate. */
#include <math.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/database/leases.h"
#include "tune/database/records.h"

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static tn_status *read_candidate(const tn_record *given, tn_record *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_record, given, out));
  if (out->format == 0) out->format = TN_RECORD_FORMAT;
  if (out->schedule_version == 0) out->schedule_version = TN_SCHEDULE_VERSION;
  return NULL;
}

static double calendar(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static tn_status *judge(const tn_database *db, const tn_record *r, bool better, double ratio, int turns) {
  static const char insert[] =
      "INSERT INTO verdict (record, judged, better, ratio, turns, tenon) VALUES (?, ?, ?, ?, ?, ?)"
      " ON CONFLICT (record, judged) DO UPDATE SET better = excluded.better, ratio = excluded.ratio,"
      " turns = excluded.turns, tenon = excluded.tenon";
  static const char newest[] =
      "UPDATE record SET (verdict, ratio) = (SELECT iif(better, 1, 2), ratio FROM verdict WHERE record = ?1"
      " ORDER BY judged DESC LIMIT 1) WHERE id = ?1";
  int64_t id;
  bool proven;
  TN_RETURN_IF_ERROR(tn__database_find(db, r, &id, &proven));
  if (id == INT64_MIN || !proven)
    return tn_status_create(TN_NOT_FOUND, "cannot judge a candidate that was not measured here: add its record first");
  TN_RETURN_IF_ERROR(tn__database_run(db, insert, "ididit", id, r->when > 0 ? r->when : calendar(), (int64_t)better,
                                      ratio, (int64_t)turns, tn_version()));
  return tn__database_run(db, newest, "i", id);
}

tn_status *tn_database_judge(tn_database *database, const tn_record *candidate, bool better, double ratio, int turns) {
  TN__NEED("database", database);
  TN__NEED("candidate", candidate);
  tn_record r;
  TN_RETURN_IF_ERROR(read_candidate(candidate, &r));
  TN_RETURN_IF_ERROR(tn__database_check_candidate(&r));
  if (!(ratio > 0) || !isfinite(ratio) || turns < 1)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "cannot judge a candidate by a ratio of %g in %d turns: both are above 0", ratio, turns);
  TN_RETURN_IF_ERROR(tn__database_begin(database));
  return tn__database_end(database, judge(database, &r, better, ratio, turns));
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

/* Selects candidates measured on this machine by a process that wrote the result itself. */
static tn_status *find_known(const tn_database *db, const tn_record *r, const tn__digest *candidate,
                             tn__database_claimed *out) {
  static const char find[] =
      "SELECT record.error, record.median FROM record JOIN task ON task.id = record.task JOIN machine ON machine.id ="
      " record.machine WHERE task.hash = ? AND candidate = ? AND format = ? AND schedule_version = ? AND fingerprint ="
      " ? AND proven AND error NOT IN (8, 9)"; /* TN_TRIAL_WORKER_LOST, TN_TRIAL_CANCELLED */
  sqlite3_stmt *s;
  bool row;
  TN_RETURN_IF_ERROR(tn__database_prepare(db, &s, find, "tbiit", r->task, candidate, (int64_t)r->format,
                                          (int64_t)r->schedule_version, r->machine));
  tn_status *status = tn__database_step(db, s, &row);
  if (row) {
    out->state = TN__CLAIM_KNOWN;
    out->seconds = sqlite3_column_int(s, 0) == TN_TRIAL_OK ? sqlite3_column_double(s, 1) : (double)INFINITY;
  }
  sqlite3_finalize(s);
  return status;
}

static tn_status *claim(const tn_database *db, const tn_record *r, const tn__lease *lease, tn__database_claimed *out) {
  static const char insert[] =
      "INSERT INTO lease (task, machine, candidate, owner, expires) VALUES (?, ?, ?, ?, ?)"
      " ON CONFLICT (task, machine, candidate) DO UPDATE SET owner = excluded.owner, expires = excluded.expires"
      " WHERE expires <= ? OR owner = excluded.owner";
  const tn__digest candidate = tn__database_candidate(r);
  *out = (tn__database_claimed){.state = TN__CLAIM_TAKEN};
  TN_RETURN_IF_ERROR(find_known(db, r, &candidate, out));
  if (out->state == TN__CLAIM_KNOWN) return NULL;
  TN_RETURN_IF_ERROR(tn__database_run(db, insert, "ttbtdd", r->task, r->machine, &candidate, lease->owner,
                                      lease->now + lease->seconds, lease->now));
  if (sqlite3_changes(db->handle) > 0) out->state = TN__CLAIM_GRANTED;
  return NULL;
}

tn_status *tn__database_claim(tn_database *db, const tn_record *candidate, const tn__lease *lease,
                              tn__database_claimed *out) {
  tn_record r;
  TN_RETURN_IF_ERROR(read_candidate(candidate, &r));
  TN_RETURN_IF_ERROR(tn__database_begin(db));
  return tn__database_end(db, claim(db, &r, lease, out));
}

tn_status *tn__database_renew(tn_database *db, const tn__lease *lease) {
  TN_RETURN_IF_ERROR(tn__database_begin(db));
  tn_status *status = tn__database_run(db, "UPDATE lease SET expires = ? WHERE owner = ?", "dt",
                                       lease->now + lease->seconds, lease->owner);
  if (status == NULL) status = tn__database_run(db, "DELETE FROM lease WHERE expires <= ?", "d", lease->now);
  return tn__database_end(db, status);
}

tn_status *tn__database_yield(tn_database *db, const char *owner, const tn_record *candidate) {
  if (candidate == NULL) return tn__database_run(db, "DELETE FROM lease WHERE owner = ?", "t", owner);
  const tn__digest digest = tn__database_candidate(candidate);
  return tn__database_run(db, "DELETE FROM lease WHERE owner = ? AND task = ? AND machine = ? AND candidate = ?",
                          "tttb", owner, candidate->task, candidate->machine, &digest);
}
