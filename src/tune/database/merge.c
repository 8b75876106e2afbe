/* Taking over another database. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/filled.h"
#include "tune/database/query.h"
#include "tune/database/records.h"

typedef struct merging {
  tn_database *to, *from;
  tn__arena *arena;
  tn_database_change change;
  tn_added first; /* of the record's measurements that changed something; else TN_ADDED_NOTHING */
  tn_status *status;
} merging;

static bool put_measurement(void *user, const tn_record *record) {
  merging *m = user;
  tn_added added;
  m->status = tn__database_put(m->to, record, true, false, &added);
  if (m->first == TN_ADDED_NOTHING) m->first = added;
  return m->status == NULL;
}

static bool put_record(void *user, const tn_record *record) {
  merging *m = user;
  bool newer = record->format > TN_RECORD_FORMAT || record->schedule_version > TN_SCHEDULE_VERSION;
  m->first = TN_ADDED_NOTHING;
  if (!newer) m->status = tn__database_check_record(record, true); /* what others are like is not known */
  if (m->status == NULL) tn__database_tell_measurements(m->from, m->arena, record, put_measurement, m);
  if (m->status != NULL)
    m->status = tn_status_prefix(m->status, "%s: record %lld", m->from->path, (long long)record->id);
  m->change.newer += newer;
  tn__database_count(&m->change, m->first);
  return m->status == NULL;
}

static void put_all(tn__arena *arena, void *user) {
  merging *m = user;
  const tn_record_filter all = {0};
  const tn__database_tasks tasks = tn__database_load_tasks(m->from, arena, &all);
  m->arena = arena;
  for (int i = 0; i < tasks.count; i++) {
    bool added;
    tn__check(arena->escape, tn__database_put_task(m->to, &tasks.data[i]->kernel, tasks.data[i]->hash, &added));
    m->change.tasks += added;
  }
  tn__database_tell(m->from, arena, &all, true, put_record, m);
  tn__check(arena->escape, m->status);
}

static tn_status *merge(tn_database *to, tn_database *from, tn_database_change *out) {
  merging m = {.to = to, .from = from};
  TN_RETURN_IF_ERROR(tn__database_begin(to));
  TN_RETURN_IF_ERROR(tn__database_end(to, tn__database_reading(from, put_all, &m)));
  if (out != NULL) tn__filled_write(out, &m.change, sizeof(m.change));
  return NULL;
}

tn_status *tn_database_merge(tn_database *database, const char *path, tn_database_change *out) {
  TN__NEED("database", database);
  TN__NEED("path", path);
  const tn_database_options options = {.size = sizeof(options),
                                       .read_only = true,
                                       .wait_seconds = database->wait_seconds > 0 ? database->wait_seconds : -1};
  tn_database *from;
  if (out != NULL) TN_RETURN_IF_ERROR(tn__filled_check("tn_database_change", out, sizeof(*out)));
  if (tn__same_file(database->path, path))
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: the database cannot be merged into itself", path);
  TN_RETURN_IF_ERROR(tn_database_open(path, &options, &from));
  tn_status *status = merge(database, from, out);
  tn_database_release(from);
  return status;
}
