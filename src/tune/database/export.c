/* Records as JSON lines (docs/tuning-records.md), and the best traces for the compiler. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/filled.h"
#include "base/shown.h"
#include "tune/database/query.h"

typedef struct exporting {
  tn_database *db;
  tn__arena *arena;
  tn_record_filter filter;
  const char *machine;
  tn__strbuf text;
  tn_database_change change;
  TN__VEC(const tn_tune_task *) written; /* tasks: those of one query, so their places tell them apart */
  bool first;
} exporting;

static void put_task(exporting *e, const tn_record *record) {
  const tn_tune_task *k = record->kernel;
  tn__strbuf *out = &e->text;
  tn__strbuf_printf(out, "{\"format\": %d, \"kind\": \"task\", \"task\": \"%s\"", TN_RECORD_FORMAT, record->task);
  tn__strbuf_json_text(out, "name", k->name);
  tn__strbuf_json_text(out, "declaration", k->declaration);
  tn__strbuf_json_text(out, "target", k->target);
  tn__strbuf_printf(out, ", \"threads\": %d, \"results_read\": %s, \"dims\": {", k->threads,
                    k->results_read ? "true" : "false");
  for (int i = 0; i < k->dim_count; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    tn__strbuf_json_string(out, k->dims[i]);
    tn__strbuf_printf(out, ": %lld", (long long)k->sizes[i]);
  }
  tn__strbuf_append(out, "}}\n");
  e->change.tasks++;
}

static bool put_measurement(void *user, const tn_record *record) {
  exporting *e = user;
  tn__strbuf *out = &e->text;
  tn__strbuf_append(out, e->first ? "{\"when\": " : ", {\"when\": ");
  e->first = false;
  tn__strbuf_f64(out, record->when);
  tn__strbuf_json_text(out, "error", tn_trial_error_name(record->error));
  tn__strbuf_json_text(out, "message", record->message);
  tn__strbuf_json_f64(out, "median", record->median);
  tn__strbuf_json_f64(out, "spread", record->spread);
  tn__strbuf_printf(out, ", \"calls\": %lld, \"verified\": %s", (long long)record->calls,
                    record->verified ? "true" : "false");
  tn__strbuf_json_f64(out, "build_seconds", record->build_seconds);
  tn__strbuf_json_f64(out, "run_seconds", record->run_seconds);
  tn__strbuf_json_f64(out, "predicted", record->predicted);
  tn__strbuf_json_text(out, "tenon", record->tenon);
  tn__strbuf_char(out, '}');
  return true;
}

static bool put_record(void *user, const tn_record *record) {
  exporting *e = user;
  tn__strbuf *out = &e->text;
  bool known = false;
  for (int i = e->written.count - 1; i >= 0 && !known; i--) known = e->written.data[i] == record->kernel;
  if (!known) {
    put_task(e, record);
    tn__vec_push(e->arena, &e->written, record->kernel);
  }
  tn__strbuf_printf(out, "{\"format\": %d, \"kind\": \"record\", \"task\": \"%s\"", record->format, record->task);
  tn__strbuf_json_text(out, "machine", record->machine);
  tn__strbuf_printf(out, ", \"schedule_version\": %d", record->schedule_version);
  tn__strbuf_json_text(out, "rule", record->rule);
  tn__strbuf_json_text(out, "decisions", record->decisions);
  tn__strbuf_json_text(out, "trace", record->trace);
  tn__strbuf_json_text(out, "origin", tn_record_origin_name(record->origin));
  tn__strbuf_append(out, ", \"measurements\": [");
  e->first = true;
  tn__database_tell_measurements(e->db, e->arena, record, put_measurement, e);
  tn__strbuf_append(out, "]}\n");
  e->change.records++;
  return true;
}

static void export_all(tn__arena *arena, void *user) {
  exporting *e = user;
  e->arena = arena;
  e->change.newer = tn__database_count_newer(e->db, arena, &e->filter);
  tn__database_tell(e->db, arena, &e->filter, false, put_record, e);
  tn__check(arena->escape, tn__strbuf_status(&e->text));
}

static tn_status *run(tn_database *db, const tn_record_filter *filter, void (*body)(tn__arena *arena, void *user),
                      exporting *e, const tn_database_change *out) {
  e->db = db;
  tn__strbuf_init(&e->text, NULL);
  if (out != NULL) TN_RETURN_IF_ERROR(tn__filled_check("tn_database_change", out, sizeof(*out)));
  TN_RETURN_IF_ERROR(tn__database_read_filter(filter, &e->filter));
  return tn__database_reading(db, body, e);
}

static tn_status *write_file(exporting *e, tn_status *status, const char *path, tn_database_change *out) {
  if (status == NULL && tn__same_file(path, e->db->path))
    status = tn_status_create(TN_INVALID_ARGUMENT, "%s: what is written would take the place of the database", path);
  if (status == NULL)
    status = tn__file_write_atomic(path, &(tn__bytes){tn__strbuf_text(&e->text), e->text.length}, 1, 0644);
  tn__strbuf_release(&e->text);
  if (status == NULL && out != NULL) tn__filled_write(out, &e->change, sizeof(e->change));
  return status;
}

tn_status *tn_database_export(tn_database *database, const tn_record_filter *filter, const char *path,
                              tn_database_change *out) {
  TN__NEED("database", database);
  TN__NEED("path", path);
  exporting e = {0};
  tn_status *status = run(database, filter, export_all, &e, out);
  return write_file(&e, status, path, out);
}

tn_status *tn_database_export_text(tn_database *database, const tn_record_filter *filter, char **text,
                                   tn_database_change *out) {
  TN__NEED("text", text);
  *text = NULL;
  TN__NEED("database", database);
  exporting e = {0};
  tn_status *status = run(database, filter, export_all, &e, out);
  if (status == NULL && (*text = strdup(tn__strbuf_text(&e.text))) == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory");
  tn__strbuf_release(&e.text);
  if (status == NULL && out != NULL) tn__filled_write(out, &e.change, sizeof(e.change));
  return status;
}

/* ---- the best traces --------------------------------------------------------------------------------------------- */

static int by_name_and_hash(const void *a, const void *b) {
  const tn__database_task *x = *(const tn__database_task *const *)a, *y = *(const tn__database_task *const *)b;
  int names = strcmp(x->kernel.name, y->kernel.name);
  return names != 0 ? names : strcmp(x->hash, y->hash);
}

static void put_best(exporting *e, const tn__database_task *task, const tn_record *best) {
  tn__strbuf *out = &e->text;
  size_t length = strlen(best->trace);
  tn__strbuf_append(out, "\n# ");
  tn__strbuf_shown(out, task->kernel.name);
  tn__strbuf_printf(out, "\ntarget %s threads %d median ", task->kernel.target, task->kernel.threads);
  tn__strbuf_f64(out, best->median);
  tn__strbuf_printf(out, " tenon %s machine ", best->tenon);
  tn__strbuf_shown(out, best->machine);
  tn__strbuf_printf(out, "\ntask %s\n", task->hash);
  if (task->kernel.results_read) tn__strbuf_append(out, "results read\n");
  for (int i = 0; i < task->kernel.dim_count; i++)
    tn__strbuf_printf(out, "size %lld %s\n", (long long)task->kernel.sizes[i], task->kernel.dims[i]);
  tn__strbuf_append(out, best->trace);
  if (best->trace[length - 1] != '\n') tn__strbuf_char(out, '\n');
}

static void save_best(tn__arena *arena, void *user) {
  exporting *e = user;
  const tn__database_tasks tasks = tn__database_load_tasks(e->db, arena, &e->filter);
  if (tasks.count > 0) qsort(tasks.data, (size_t)tasks.count, sizeof(tasks.data[0]), by_name_and_hash);
  tn__strbuf_append(&e->text, "tenon schedules 1\n");
  for (int i = 0; i < tasks.count; i++) {
    const tn_record *best = tn__database_find_best(e->db, arena, tasks.data[i]->hash, e->machine, true);
    e->change.without_trace += best == NULL;
    if (best == NULL) continue;
    put_best(e, tasks.data[i], best);
    e->change.tasks++;
    e->change.records++;
  }
  tn__check(arena->escape, tn__strbuf_status(&e->text));
}

tn_status *tn_database_save_best(tn_database *database, const tn_record_filter *filter, const char *machine,
                                 const char *path, tn_database_change *out) {
  TN__NEED("database", database);
  TN__NEED("path", path);
  exporting e = {.machine = machine};
  tn_status *status = run(database, filter, save_best, &e, out);
  return write_file(&e, status, path, out);
}
