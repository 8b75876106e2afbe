/* Detects foreign schemas: tables, indexes, views and triggers that differ from those that the steps of schema.c
 * create. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/shown.h"
#include "tune/database/database.h"

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Skips insignificant space at `*at`. Significant space counts as one blank. */
static char next_char(const char **at, char before) {
  const char *from = *at;
  while (isspace((unsigned char)**at)) ++*at;
  if (*at > from && is_word(before) && is_word(**at)) return ' ';
  return **at == '\0' ? '\0' : *(*at)++;
}

/* Compares two statements, ignoring space, because the space that ALTER TABLE writes depends on SQLite's version. */
static bool is_same_sql(const char *a, const char *b) {
  char before = '\0', x, y;
  do {
    x = next_char(&a, before);
    y = next_char(&b, before);
    before = x;
  } while (x == y && x != '\0');
  return x == y;
}

#define OBJECTS "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"

static tn_status *refuse(const tn_database *db, sqlite3_stmt *object, const char *before, const char *behind) {
  tn__strbuf kind, name;
  tn__strbuf_init(&kind, NULL);
  tn__strbuf_init(&name, NULL);
  tn__strbuf_shown(&kind, tn__database_text(object, 0));
  tn__strbuf_shown(&name, tn__database_text(object, 1));
  tn_status *status = tn_status_create(
      TN_DATA_LOSS,
      "%s: cannot open the database: %s %.100s \"%.200s\"%s; name another file, or move this one away and import what "
      "was exported before; it was left as it is",
      db->path, before, tn__strbuf_text(&kind), tn__strbuf_text(&name), behind);
  tn__strbuf_release(&kind);
  tn__strbuf_release(&name);
  return status;
}

typedef struct schemas {
  const tn_database *file, *right;
} schemas;

/* Looks up the object in the other schema. `*same`: it exists there with the same definition. */
static tn_status *look_up(const tn_database *in, sqlite3_stmt *object, bool *there, bool *same) {
  sqlite3_stmt *s;
  TN_RETURN_IF_ERROR(tn__database_prepare(in, &s, OBJECTS " WHERE type = ? AND name = ?", "tt",
                                          tn__database_text(object, 0), tn__database_text(object, 1)));
  tn_status *status = tn__database_step(in, s, there);
  *same = *there && strcmp(tn__database_text(s, 2), tn__database_text(object, 2)) == 0 &&
          is_same_sql(tn__database_text(s, 3), tn__database_text(object, 3));
  sqlite3_finalize(s);
  return status;
}

static tn_status *check_found(const schemas *both, sqlite3_stmt *object) {
  bool there, same;
  TN_RETURN_IF_ERROR(look_up(both->right, object, &there, &same));
  if (!there) return refuse(both->file, object, "it has the", ", which Tenon does not create");
  return same ? NULL : refuse(both->file, object, "its", " differs from what Tenon creates");
}

static tn_status *check_expected(const schemas *both, sqlite3_stmt *object) {
  bool there, same;
  TN_RETURN_IF_ERROR(look_up(both->file, object, &there, &same));
  return there ? NULL : refuse(both->file, object, "it lacks the", "");
}

static tn_status *for_each_object(const tn_database *in, const schemas *both,
                                  tn_status *(*check)(const schemas *both, sqlite3_stmt *object)) {
  sqlite3_stmt *s;
  bool row = true;
  TN_RETURN_IF_ERROR(tn__database_prepare(in, &s, OBJECTS, ""));
  tn_status *status = NULL;
  while (status == NULL && row) {
    status = tn__database_step(in, s, &row);
    if (status == NULL && row) status = check(both, s);
  }
  sqlite3_finalize(s);
  return status;
}

static tn_status *make_right(const tn_database *right, const tn__database_schema *schema, int64_t version) {
  for (int64_t i = 0; i < version; i++) {
    int result = sqlite3_exec(right->handle, schema->steps[i], NULL, NULL, NULL);
    if (result != SQLITE_OK) return tn__database_failed(right, result);
  }
  return NULL;
}

tn_status *tn__database_check_schema(const tn_database *db, const tn__database_schema *schema, int64_t version) {
  tn_database right = {.path = db->path};
  int result = sqlite3_open_v2(":memory:", &right.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL);
  tn_status *status = NULL;
  if (right.handle == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "%s: out of memory", db->path);
  else if (result != SQLITE_OK)
    status = tn__database_failed(&right, result);
  const schemas both = {.file = db, .right = &right};
  if (status == NULL) status = make_right(&right, schema, version);
  if (status == NULL) status = for_each_object(db, &both, check_found);
  if (status == NULL) status = for_each_object(&right, &both, check_expected);
  sqlite3_close_v2(right.handle);
  return status;
}
