/* Taking out what is not wanted any more. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/database/query.h"
#include "tune/database/records.h"

typedef struct pruning {
  tn_database *db;
  tn_prune_options options;
  int64_t removed;
} pruning;

/* The tasks that stay, by number, in the table kept_task. */
static void find_kept(pruning *p, tn__arena *arena) {
  const tn_prune_options *o = &p->options;
  tn__check(arena->escape, tn__database_run(p->db, "DELETE FROM temp.kept_task", ""));
  for (int i = 0; i < o->task_count; i++) {
    const tn_record_filter filter = {.task = o->tasks[i]};
    const tn__database_tasks tasks = tn__database_load_tasks(p->db, arena, &filter);
    if (tasks.count == 0)
      tn__throwf(arena->escape, TN_NOT_FOUND, "there is no task %s in %s, so nothing was removed", o->tasks[i],
                 p->db->path);
    for (int k = 0; k < tasks.count; k++)
      tn__check(arena->escape,
                tn__database_run(p->db, "INSERT OR IGNORE INTO temp.kept_task VALUES (?)", "i", tasks.data[k]->id));
  }
}

/* ?1: older than, ?2: most of a task on a machine, ?3: failed ones, ?4: only tasks that are kept. */
static void find_doomed(const pruning *p, tn__arena *arena) {
  static const char sql[] =
      "INSERT INTO temp.doomed SELECT id FROM (SELECT id, task, measured, error, row_number() OVER"
      " (PARTITION BY task, machine ORDER BY error != 0, median, measured DESC, id) AS place,"
      " error = 0 AND verified AND row_number() OVER (PARTITION BY task, machine ORDER BY error != 0, NOT verified,"
      " median, id) = 1 OR (verdict = 1 AND row_number() OVER (PARTITION BY task, machine ORDER BY verdict != 1, ratio,"
      " median, id) = 1) AS is_best FROM record WHERE format <= ?5 AND schedule_version <= ?6)"
      " WHERE (?4 AND task NOT IN temp.kept_task)"
      " OR (NOT is_best AND ((?1 > 0 AND measured < ?1) OR (?2 > 0 AND place > ?2) OR (?3 AND error != 0)))";
  const tn_prune_options *o = &p->options;
  tn__check(arena->escape, tn__database_run(p->db, "DELETE FROM temp.doomed", ""));
  tn__check(arena->escape,
            tn__database_run(p->db, sql, "diiiii", o->older_than, o->keep, (int64_t)o->failed,
                             (int64_t)(o->task_count > 0), (int64_t)TN_RECORD_FORMAT, (int64_t)TN_SCHEDULE_VERSION));
}

static void prune(tn__arena *arena, void *user) {
  pruning *p = user;
  const tn_database *db = p->db;
  find_kept(p, arena);
  find_doomed(p, arena);
  tn__check(arena->escape, tn__database_number(db, &p->removed, "SELECT count(*) FROM temp.doomed", ""));
  if (p->options.only_count) return;
  static const char *const steps[] = {
      "DELETE FROM record WHERE id IN (SELECT id FROM temp.doomed)",
      "DELETE FROM machine WHERE id NOT IN (SELECT machine FROM record)",
  };
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
    tn__check(arena->escape, tn__database_run(db, steps[i], ""));
  if (p->options.task_count > 0) /* records of newer formats keep theirs */
    tn__check(arena->escape, tn__database_run(db,
                                              "DELETE FROM task WHERE id NOT IN temp.kept_task AND id NOT IN (SELECT "
                                              "task FROM record)",
                                              ""));
}

static tn_status *check(const tn_prune_options *o) {
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_prune_options", "tasks", o->tasks, "task_count", o->task_count));
  for (int i = 0; i < o->task_count; i++)
    if (o->tasks[i] == NULL || !tn__database_is_hash(o->tasks[i], false))
      return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" is no task's hash, and no beginning of one",
                              o->tasks[i] == NULL ? "" : o->tasks[i]);
  if (o->keep < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "to keep %lld records is less than none", (long long)o->keep);
  if (!(o->older_than >= 0)) return tn_status_create(TN_INVALID_ARGUMENT, "%g is no time since 1970", o->older_than);
  return NULL;
}

tn_status *tn_database_prune(tn_database *database, const tn_prune_options *options, int64_t *removed) {
  TN__NEED("database", database);
  pruning p = {.db = database};
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_prune_options, options, &p.options));
  TN_RETURN_IF_ERROR(check(&p.options));
  TN_RETURN_IF_ERROR(
      tn__database_run(database, "CREATE TEMP TABLE IF NOT EXISTS kept_task (id INTEGER PRIMARY KEY)", ""));
  TN_RETURN_IF_ERROR(tn__database_run(database, "CREATE TEMP TABLE IF NOT EXISTS doomed (id INTEGER PRIMARY KEY)", ""));
  TN_RETURN_IF_ERROR(tn__database_begin(database));
  TN_RETURN_IF_ERROR(tn__database_end(database, tn__with_arena(NULL, prune, &p)));
  if (removed != NULL) *removed = p.removed;
  if (p.options.only_count || p.removed == 0) return NULL;
  /* Gives its pages back; where another process writes, they are there for what comes. */
  tn_status_free(tn__database_run(database, "PRAGMA incremental_vacuum", ""));
  return NULL;
}
