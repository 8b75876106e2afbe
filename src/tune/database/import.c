/* Records from JSON lines (docs/tuning-records.md). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/filled.h"
#include "json/json.h"
#include "tune/database/records.h"

typedef struct importing {
  tn_database *db;
  const char *line; /* not terminated */
  size_t length;
  tn_database_change change;
} importing;

_Noreturn static void wrong(tn__arena *arena, const char *field, const char *what) {
  tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "field \"%s\": %s", field, what);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static const tn__json *take(tn__arena *arena, const tn__json *object, const char *field, tn__json_kind kind) {
  const tn__json *value = tn__json_member(object, field);
  if (value == NULL) wrong(arena, field, "it is missing");
  if (value->kind != kind)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "field \"%s\": it is %s, and not %s", field,
               tn__json_kind_name(value->kind), tn__json_kind_name(kind));
  return value;
}

static const char *take_text(tn__arena *arena, const tn__json *object, const char *field) {
  return take(arena, object, field, TN__JSON_TEXT)->text;
}

static bool take_bool(tn__arena *arena, const tn__json *object, const char *field) {
  return take(arena, object, field, TN__JSON_BOOL)->truth;
}

static double take_number(tn__arena *arena, const tn__json *object, const char *field) {
  return take(arena, object, field, TN__JSON_NUMBER)->number;
}

/* Of a field that was not there in the beginning of the format. */
static double take_number_or_0(tn__arena *arena, const tn__json *object, const char *field) {
  return tn__json_member(object, field) != NULL ? take_number(arena, object, field) : 0;
}

static int64_t whole_number(tn__arena *arena, const tn__json *value, const char *field, int64_t most) {
  if (!(value->number >= 0 && value->number <= (double)most && value->number == floor(value->number)))
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "field \"%s\": %s is no whole number from 0 to %lld", field,
               value->text, (long long)most);
  return (int64_t)value->number;
}

enum { MOST_SMALL = 1 << 30 };
static const int64_t most_whole = INT64_C(1) << 53; /* that a number of JSON holds everywhere */

static int64_t take_whole(tn__arena *arena, const tn__json *object, const char *field, int64_t most) {
  return whole_number(arena, take(arena, object, field, TN__JSON_NUMBER), field, most);
}

static int64_t count_unknown(const tn__json *object) {
  int64_t count = 0;
  for (const tn__json *m = object->first; m != NULL; m = m->next) count += !m->used;
  return count;
}

/* The number of a name among those that `name_of` gives. */
static int take_name(tn__arena *arena, const tn__json *object, const char *field, int count,
                     const char *(*name_of)(int number)) {
  const char *text = take_text(arena, object, field);
  for (int i = 0; i < count; i++)
    if (strcmp(name_of(i), text) == 0) return i;
  tn__strbuf all;
  tn__strbuf_init(&all, NULL);
  for (int i = 0; i < count; i++) tn__strbuf_printf(&all, "%s\"%s\"", i == 0 ? "" : ", ", name_of(i));
  const char *names = tn__arena_take(arena, &all);
  tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "field \"%s\": \"%s\" is none of %s", field, text, names);
}

static const char *error_name(int number) { return tn_trial_error_name((tn_trial_error)number); }
static const char *origin_name(int number) { return tn_record_origin_name((tn_record_origin)number); }

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void read_task(importing *im, tn__arena *arena, const tn__json *line) {
  const char *hash = take_text(arena, line, "task");
  tn_tune_task k = {.size = sizeof(k),
                    .name = take_text(arena, line, "name"),
                    .declaration = take_text(arena, line, "declaration"),
                    .target = take_text(arena, line, "target"),
                    .threads = (int)take_whole(arena, line, "threads", MOST_SMALL),
                    .results_read = take_bool(arena, line, "results_read")};
  const tn__json *dims = take(arena, line, "dims", TN__JSON_OBJECT);
  for (const tn__json *m = dims->first; m != NULL; m = m->next) k.dim_count++;
  const char **names = TN__NEW_ARRAY(arena, k.dim_count, const char *);
  int64_t *sizes = TN__NEW_ARRAY(arena, k.dim_count, int64_t);
  int i = 0;
  for (const tn__json *m = dims->first; m != NULL; m = m->next, i++) {
    if (m->kind != TN__JSON_NUMBER) wrong(arena, "dims", "a dimension's size is a number");
    names[i] = m->key;
    sizes[i] = whole_number(arena, m, "dims", most_whole);
  }
  k.dims = names;
  k.sizes = sizes;
  char own[TN_TASK_HASH_BYTES];
  bool added;
  tn__check(arena->escape, tn_tune_task_hash(&k, own));
  if (strcmp(own, hash) != 0) wrong(arena, "task", "it is not the hash of what the line says of the task");
  tn__check(arena->escape, tn__database_put_task(im->db, &k, own, &added));
  im->change.tasks += added;
  im->change.unknown_fields += count_unknown(line);
}

static tn_added read_measurement(importing *im, tn__arena *arena, const tn_record *candidate, const tn__json *object) {
  tn_record r = *candidate;
  tn_added added;
  if (object->kind != TN__JSON_OBJECT) wrong(arena, "measurements", "each of them is an object");
  r.when = take_number(arena, object, "when");
  r.error = (tn_trial_error)take_name(arena, object, "error", TN_TRIAL_ERRORS, error_name);
  r.message = take_text(arena, object, "message");
  r.median = take_number(arena, object, "median");
  r.spread = take_number(arena, object, "spread");
  r.calls = take_whole(arena, object, "calls", most_whole);
  r.verified = take_bool(arena, object, "verified");
  r.build_seconds = take_number(arena, object, "build_seconds");
  r.run_seconds = take_number(arena, object, "run_seconds");
  r.predicted = take_number_or_0(arena, object, "predicted");
  r.tenon = take_text(arena, object, "tenon");
  if (r.when == 0) wrong(arena, "when", "it is 0, where a time since 1970 is wanted");
  tn__check(arena->escape, tn__database_check_record(&r, true));
  tn__check(arena->escape, tn__database_put(im->db, &r, true, false, &added));
  im->change.unknown_fields += count_unknown(object);
  return added;
}

static void read_record(importing *im, tn__arena *arena, const tn__json *line) {
  tn_record r = {.size = sizeof(r),
                 .format = TN_RECORD_FORMAT,
                 .task = take_text(arena, line, "task"),
                 .machine = take_text(arena, line, "machine"),
                 .schedule_version = (int)take_whole(arena, line, "schedule_version", MOST_SMALL),
                 .rule = take_text(arena, line, "rule"),
                 .decisions = take_text(arena, line, "decisions"),
                 .trace = take_text(arena, line, "trace"),
                 .origin = TN_ORIGIN_IMPORT};
  (void)take_name(arena, line, "origin", TN_RECORD_ORIGINS, origin_name);
  const tn__json *measurements = take(arena, line, "measurements", TN__JSON_LIST);
  if (measurements->first == NULL) wrong(arena, "measurements", "there is none");
  tn_added first = TN_ADDED_NOTHING;
  for (const tn__json *m = measurements->first; m != NULL; m = m->next) {
    tn_added added = read_measurement(im, arena, &r, m);
    if (first == TN_ADDED_NOTHING) first = added;
  }
  tn__database_count(&im->change, first);
  im->change.unknown_fields += count_unknown(line);
}

static void read_line(tn__arena *arena, void *user) {
  importing *im = user;
  const tn__json *line = tn__json_read(arena, im->line, im->length);
  if (line->kind != TN__JSON_OBJECT)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "it is %s, and not an object", tn__json_kind_name(line->kind));
  int64_t format = take_whole(arena, line, "format", MOST_SMALL);
  if (format > TN_RECORD_FORMAT) {
    im->change.newer++;
    return;
  }
  if (format < 1) wrong(arena, "format", "there is no format 0");
  const char *kind = take_text(arena, line, "kind");
  if (strcmp(kind, "task") == 0)
    read_task(im, arena, line);
  else if (strcmp(kind, "record") == 0)
    read_record(im, arena, line);
  else
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "field \"kind\": \"%s\" is neither \"task\" nor \"record\"", kind);
}

static bool is_blank(const char *line, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0') return false;
  return true;
}

static tn_status *read_lines(importing *im, const char *path, const tn__file_map *map) {
  const char *at = (const char *)map->data, *end = at + map->size;
  long long number = 0;
  while (at < end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    im->line = at;
    im->length = (size_t)((newline != NULL ? newline : end) - at);
    number++;
    if (!is_blank(im->line, im->length)) {
      tn_status *status = tn__with_arena(NULL, read_line, im);
      if (status != NULL) return tn_status_prefix(status, "%s:%lld", path, number);
    }
    at = newline != NULL ? newline + 1 : end;
  }
  return NULL;
}

tn_status *tn_database_import(tn_database *database, const char *path, tn_database_change *out) {
  TN__NEED("database", database);
  TN__NEED("path", path);
  importing im = {.db = database};
  tn__file_map map;
  if (out != NULL) TN_RETURN_IF_ERROR(tn__filled_check("tn_database_change", out, sizeof(*out)));
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  tn_status *status = tn__database_begin(database);
  if (status == NULL) status = tn__database_end(database, read_lines(&im, path, &map));
  tn__file_map_close(&map);
  if (status == NULL && out != NULL) tn__filled_write(out, &im.change, sizeof(im.change));
  return status;
}
