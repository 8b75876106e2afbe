/* Seconds that were spent on tuning. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/hash.h"
#include "tune/database/database.h"

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The set of tasks as a text of 64 digits. */
static tn_status *name_set(const char *const *tasks, int count, char out[TN_TASK_HASH_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  const char **sorted = malloc(((size_t)count + 1) * sizeof *sorted);
  if (sorted == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the hashes of %d tasks", count);
  memcpy(sorted, tasks, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, by_text);
  tn__sha256 hash;
  tn__sha256_init(&hash);
  for (int i = 0; i < count; i++) tn__sha256_update_string(&hash, sorted[i]);
  free(sorted);
  const tn__digest digest = tn__sha256_final(&hash);
  for (size_t i = 0; i < sizeof digest.bytes; i++) {
    out[2 * i] = digits[digest.bytes[i] >> 4];
    out[2 * i + 1] = digits[digest.bytes[i] & 15];
  }
  out[2 * sizeof digest.bytes] = 0;
  return NULL;
}

static tn_status *read_seconds(const tn_database *db, const char *set, const char *machine, double *out) {
  sqlite3_stmt *s;
  bool row;
  *out = 0;
  TN_RETURN_IF_ERROR(
      tn__database_prepare(db, &s, "SELECT seconds FROM spent WHERE tasks = ? AND machine = ?", "tt", set, machine));
  tn_status *status = tn__database_step(db, s, &row);
  if (row) *out = sqlite3_column_double(s, 0);
  sqlite3_finalize(s);
  return status;
}

tn_status *tn_database_spend(tn_database *db, const char *const *tasks, int count, const char *machine, double seconds,
                             double *total) {
  TN__NEED("database", db);
  TN__NEED_EACH("tasks", tasks, "count", count);
  static const char add[] =
      "INSERT INTO spent (tasks, machine, seconds) VALUES (?, ?, ?) ON CONFLICT (tasks, machine) DO UPDATE SET"
      " seconds = seconds + excluded.seconds";
  char set[TN_TASK_HASH_BYTES];
  if (!(seconds >= 0) || !isfinite(seconds))
    return tn_status_create(TN_INVALID_ARGUMENT, "seconds that were spent are 0 or more, not %g", seconds);
  if (count <= 0 || tasks == NULL || machine == NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "seconds are spent on tasks, on a machine");
  TN_RETURN_IF_ERROR(name_set(tasks, count, set));
  if (seconds > 0) TN_RETURN_IF_ERROR(tn__database_run(db, add, "ttd", set, machine, seconds));
  return total != NULL ? read_seconds(db, set, machine, total) : NULL;
}
