/* Telling what is there. */
#include "tune/database/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/database/records.h"

tn_status *tn__database_read_filter(const tn_record_filter *given, tn_record_filter *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_record_filter, given, out));
  if (out->task != NULL && !tn__database_is_hash(out->task, false))
    return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" is no task's hash, and no beginning of one", out->task);
  if (out->limit < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "a limit of %lld is less than none", (long long)out->limit);
  if ((int)out->order < 0 || (int)out->order > TN_ORDER_FASTEST)
    return tn_status_create(TN_INVALID_ARGUMENT, "there is no order %d", (int)out->order);
  return NULL;
}

static void finalize(void *statement) { sqlite3_finalize(statement); }

sqlite3_stmt *tn__database_keep(tn__arena *arena, tn_status *status, sqlite3_stmt *statement) {
  tn__check(arena->escape, status);
  tn__arena_defer(arena, finalize, statement);
  return statement;
}

bool tn__database_next(const tn_database *db, tn__arena *arena, sqlite3_stmt *statement) {
  bool row;
  tn__check(arena->escape, tn__database_step(db, statement, &row));
  return row;
}

static const char *copy(tn__arena *arena, sqlite3_stmt *s, int column) {
  return tn__arena_strdup(arena, tn__database_text(s, column));
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void load_dims(const tn_database *db, tn__arena *arena, tn__database_task *task) {
  static const char sql[] = "SELECT name, size FROM dimension WHERE task = ? ORDER BY name";
  typedef TN__VEC(const char *) names;
  typedef TN__VEC(int64_t) sizes;
  names n = {0};
  sizes z = {0};
  sqlite3_stmt *s = NULL;
  tn_status *status = tn__database_prepare(db, &s, sql, "i", task->id);
  s = tn__database_keep(arena, status, s);
  while (tn__database_next(db, arena, s)) {
    const char *name = copy(arena, s, 0);
    tn__vec_push(arena, &n, name);
    tn__vec_push(arena, &z, sqlite3_column_int64(s, 1));
  }
  task->kernel.dims = n.data;
  task->kernel.sizes = z.data;
  task->kernel.dim_count = n.count;
}

/* The file may contain unchecked values. */
static void check_task(const tn_database *db, tn__arena *arena, const tn__database_task *task) {
  char hash[TN_TASK_HASH_BYTES];
  tn_status *status = tn_tune_task_hash(&task->kernel, hash);
  if (status == NULL && strcmp(hash, task->hash) == 0) return;
  if (status == NULL) status = tn_status_create(TN_DATA_LOSS, "its hash is another task's");
  tn__check(arena->escape, tn_status_prefix(status, "%s: cannot read task %lld: the database is damaged", db->path,
                                            (long long)task->id));
}

static bool is_amount(double value) { return value >= 0 && value <= 1e18; }

/* Checks records of known formats for impossible numbers, which would otherwise be used as an index, a time or a
 * count. */
static tn_status *check_told(const tn_database *db, const tn_record *r) {
  if (r->format > TN_RECORD_FORMAT || r->schedule_version > TN_SCHEDULE_VERSION) return NULL;
  const char *field = NULL;
  if ((int)r->error < 0 || (int)r->error >= TN_TRIAL_ERRORS) field = "error";
  if ((int)r->origin < 0 || (int)r->origin >= TN_RECORD_ORIGINS) field = "origin";
  if (!is_amount(r->median) || !is_amount(r->best)) field = "median";
  if (!is_amount(r->spread)) field = "spread";
  if (!is_amount(r->build_seconds) || !is_amount(r->run_seconds) || !is_amount(r->predicted)) field = "seconds";
  if (!is_amount(r->when)) field = "measured";
  if (!is_amount((double)r->calls) || !is_amount((double)r->measurements)) field = "calls";
  if (field == NULL) return NULL;
  return tn_status_create(TN_DATA_LOSS,
                          "%s: cannot read record %lld: its field \"%s\" is out of range, so the database is damaged; "
                          "move it away, and import what was exported before",
                          db->path, (long long)r->id, field);
}

#define TASK_FILTER                                                                                           \
  "(?1 = '' OR (task.hash >= ?1 AND task.hash < ?1 || 'g')) AND (?2 = '' OR task.name = ?2) AND (?3 = '' OR " \
  "task.target = "                                                                                            \
  "?3)"

tn__database_tasks tn__database_load_tasks(const tn_database *db, tn__arena *arena, const tn_record_filter *filter) {
  static const char sql[] =
      "SELECT id, hash, name, declaration, target, threads, results_read FROM task WHERE " TASK_FILTER " ORDER BY id";
  tn__database_tasks tasks = {0};
  sqlite3_stmt *s = NULL;
  tn_status *status = tn__database_prepare(db, &s, sql, "ttt", filter->task, filter->name, filter->target);
  s = tn__database_keep(arena, status, s);
  while (tn__database_next(db, arena, s)) {
    tn__database_task *t = TN__NEW(arena, tn__database_task);
    t->id = sqlite3_column_int64(s, 0);
    t->hash = copy(arena, s, 1);
    t->kernel.size = sizeof(t->kernel);
    t->kernel.name = copy(arena, s, 2);
    t->kernel.declaration = copy(arena, s, 3);
    t->kernel.target = copy(arena, s, 4);
    t->kernel.threads = sqlite3_column_int(s, 5);
    t->kernel.results_read = sqlite3_column_int(s, 6) != 0;
    load_dims(db, arena, t);
    check_task(db, arena, t);
    tn__vec_push(arena, &tasks, t);
  }
  return tasks;
}

static int by_id(const void *a, const void *b) {
  int64_t x = (*(const tn__database_task *const *)a)->id, y = (*(const tn__database_task *const *)b)->id;
  return (x > y) - (x < y);
}

/* NULL: it is not among them. */
static const tn__database_task *find_task(const tn__database_tasks *tasks, int64_t id) {
  const tn__database_task wanted = {.id = id}, *key = &wanted;
  if (tasks->count == 0) return NULL;
  const tn__database_task *const *found =
      bsearch(&key, tasks->data, (size_t)tasks->count, sizeof(tasks->data[0]), by_id);
  return found == NULL ? NULL : *found;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define VERSION_TEXT_(number) #number
#define VERSION_TEXT(number) VERSION_TEXT_(number)
#define KNOWN_VERSIONS                                                                                 \
  "(record.format <= " VERSION_TEXT(TN_RECORD_FORMAT) " AND record.schedule_version <= " VERSION_TEXT( \
      TN_SCHEDULE_VERSION) ")"

#define RECORD_FILTER                                                                                    \
  TASK_FILTER                                                                                            \
  " AND (?4 = '' OR machine.fingerprint = ?4) AND (?5 = 0 OR (?5 >> record.error) & 1) AND (?6 = 0 OR "  \
  "(?6 >> record.origin) & 1) AND (?7 = 0 OR record.verified) AND record.measured >= ?8 AND (?9 = 0 OR " \
  "record.measured < ?9)"

const char tn__database_filter_sql[] = RECORD_FILTER " AND " KNOWN_VERSIONS;

#define RECORD_TABLES " FROM record JOIN task ON task.id = record.task JOIN machine ON machine.id = record.machine "
/* In the order of read_row(). */
#define RECORD_COLUMNS                                                                                          \
  "SELECT record.task, record.id, machine.fingerprint, record.format, record.schedule_version, record.rule,"    \
  " record.decisions, record.trace, record.origin, record.error, m.message, record.median, m.spread, m.calls,"  \
  " record.verified, m.build_seconds, m.run_seconds, m.measured, m.tenon, record.measurements, record.best,"    \
  " coalesce((SELECT predicted FROM measurement WHERE record = record.id AND predicted > 0.0 ORDER BY measured" \
  " LIMIT 1), 0.0), record.proven, record.verdict, record.ratio" RECORD_TABLES                                  \
  "JOIN measurement m ON m.id = record.told "

/* Texts live until the next step. */
static void read_row(sqlite3_stmt *s, const tn__database_task *task, tn_record *out) {
  *out = (tn_record){.size = sizeof(*out),
                     .task = task->hash,
                     .kernel = &task->kernel,
                     .id = sqlite3_column_int64(s, 1),
                     .machine = tn__database_text(s, 2),
                     .format = sqlite3_column_int(s, 3),
                     .schedule_version = sqlite3_column_int(s, 4),
                     .rule = tn__database_text(s, 5),
                     .decisions = tn__database_text(s, 6),
                     .trace = tn__database_text(s, 7),
                     .origin = (tn_record_origin)sqlite3_column_int(s, 8),
                     .error = (tn_trial_error)sqlite3_column_int(s, 9),
                     .message = tn__database_text(s, 10),
                     .median = sqlite3_column_double(s, 11),
                     .spread = sqlite3_column_double(s, 12),
                     .calls = sqlite3_column_int64(s, 13),
                     .verified = sqlite3_column_int(s, 14) != 0,
                     .build_seconds = sqlite3_column_double(s, 15),
                     .run_seconds = sqlite3_column_double(s, 16),
                     .when = sqlite3_column_double(s, 17),
                     .tenon = tn__database_text(s, 18),
                     .measurements = sqlite3_column_int64(s, 19),
                     .best = sqlite3_column_double(s, 20),
                     .predicted = sqlite3_column_double(s, 21),
                     .proven = sqlite3_column_int(s, 22) != 0,
                     .verdict = (tn_verdict)sqlite3_column_int(s, 23),
                     .ratio = sqlite3_column_double(s, 24)};
}

void tn__database_tell(tn_database *db, tn__arena *arena, const tn_record_filter *filter, bool newer,
                       tn_record_callback callback, void *user) {
  static const char *const orders[] = {"record.id", "record.measured DESC, record.id DESC",
                                       "(record.median = 0), record.median, record.id"};
  const tn__database_tasks tasks = tn__database_load_tasks(db, arena, filter);
  const char *sql = tn__arena_printf(arena, RECORD_COLUMNS "WHERE %s ORDER BY %s LIMIT ?10",
                                     newer ? RECORD_FILTER : tn__database_filter_sql, orders[filter->order]);
  sqlite3_stmt *s = NULL;
  tn_status *status =
      tn__database_prepare(db, &s, sql, TN__DATABASE_FILTER_LETTERS "i", TN__DATABASE_FILTER_VALUES(filter),
                           filter->limit > 0 ? filter->limit : (int64_t)-1);
  s = tn__database_keep(arena, status, s);
  while (tn__database_next(db, arena, s)) {
    const tn__database_task *task = find_task(&tasks, sqlite3_column_int64(s, 0));
    tn_record record;
    if (task == NULL) continue;
    read_row(s, task, &record);
    tn__check(arena->escape, check_told(db, &record));
    if (!callback(user, &record)) return;
  }
}

void tn__database_tell_measurements(tn_database *db, tn__arena *arena, const tn_record *record,
                                    tn_record_callback callback, void *user) {
  static const char sql[] =
      "SELECT measured, error, message, median, spread, calls, verified, build_seconds, run_seconds, tenon,"
      " predicted FROM measurement WHERE record = ? ORDER BY measured, error, median";
  sqlite3_stmt *s = NULL;
  tn_record r = *record;
  tn_status *status = tn__database_prepare(db, &s, sql, "i", record->id);
  tn__check(arena->escape, status);
  bool row = true, more = true;
  while (row && more) { /* not with the arena: there may be as many statements as records */
    status = tn__database_step(db, s, &row);
    if (status != NULL || !row) break;
    r.when = sqlite3_column_double(s, 0);
    r.error = (tn_trial_error)sqlite3_column_int(s, 1);
    r.message = tn__database_text(s, 2);
    r.median = sqlite3_column_double(s, 3);
    r.spread = sqlite3_column_double(s, 4);
    r.calls = sqlite3_column_int64(s, 5);
    r.verified = sqlite3_column_int(s, 6) != 0;
    r.build_seconds = sqlite3_column_double(s, 7);
    r.run_seconds = sqlite3_column_double(s, 8);
    r.tenon = tn__database_text(s, 9);
    r.predicted = sqlite3_column_double(s, 10);
    status = check_told(db, &r);
    if (status != NULL) break;
    more = callback(user, &r);
  }
  sqlite3_finalize(s);
  tn__check(arena->escape, status);
}

int64_t tn__database_count_newer(const tn_database *db, tn__arena *arena, const tn_record_filter *filter) {
  static const char sql[] = "SELECT count(*)" RECORD_TABLES "WHERE " TASK_FILTER
                            " AND (?4 = '' OR machine.fingerprint = ?4) AND NOT " KNOWN_VERSIONS;
  int64_t count = 0;
  tn__check(arena->escape,
            tn__database_number(db, &count, sql, "tttt", filter->task, filter->name, filter->target, filter->machine));
  return count;
}

const tn_record *tn__database_find_best(tn_database *db, tn__arena *arena, const char *task, const char *machine,
                                        bool winner) {
#define VERIFIED "WHERE task.hash = ?1 AND record.error = 0 AND record.verified AND " KNOWN_VERSIONS
  static const char fastest[] = RECORD_COLUMNS VERIFIED
      " ORDER BY (machine.fingerprint = ?2) DESC, record.proven DESC, record.median, record.id LIMIT 1";
  static const char better[] = RECORD_COLUMNS VERIFIED
      " AND record.proven AND record.verdict = 1 AND record.trace != ''"
      " ORDER BY (machine.fingerprint = ?2) DESC, record.ratio, record.median, record.id LIMIT 1";
#undef VERIFIED
  sqlite3_stmt *s = NULL;
  tn_status *status = tn__database_prepare(db, &s, winner ? better : fastest, "tt", task, machine);
  s = tn__database_keep(arena, status, s);
  if (!tn__database_next(db, arena, s)) return NULL;
  const tn__database_tasks tasks = tn__database_load_tasks(db, arena, &(tn_record_filter){.task = task});
  if (tasks.count == 0) return NULL; /* a damaged index */
  tn_record *r = TN__NEW(arena, tn_record);
  read_row(s, tasks.data[0], r);
  tn__check(arena->escape, check_told(db, r));
  const char **const texts[] = {&r->machine, &r->rule, &r->decisions, &r->trace, &r->message, &r->tenon};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) *texts[i] = tn__arena_strdup(arena, *texts[i]);
  r->other_machine = machine != NULL && machine[0] != '\0' && strcmp(machine, r->machine) != 0;
  sqlite3_reset(s);
  return r;
}

tn_status *tn__database_reading(tn_database *db, void (*body)(tn__arena *arena, void *user), void *user) {
  TN_RETURN_IF_ERROR(tn__database_begin_reading(db));
  return tn__database_end_reading(db, tn__with_arena(NULL, body, user));
}

/* ---- the public way in ------------------------------------------------------------------------------------------- */

typedef struct query {
  tn_database *db;
  tn_record_filter filter;
  tn_record_callback callback;
  void *user;
  int64_t *newer;
} query;

static void run_query(tn__arena *arena, void *user) {
  const query *q = user;
  if (q->newer != NULL) *q->newer = tn__database_count_newer(q->db, arena, &q->filter);
  tn__database_tell(q->db, arena, &q->filter, false, q->callback, q->user);
}

tn_status *tn_database_query(tn_database *database, const tn_record_filter *filter, tn_record_callback callback,
                             void *user, int64_t *newer) {
  TN__NEED("database", database);
  TN__NEED("callback", callback);
  query q = {.db = database, .callback = callback, .user = user, .newer = newer};
  TN_RETURN_IF_ERROR(tn__database_read_filter(filter, &q.filter));
  return tn__database_reading(database, run_query, &q);
}

typedef struct measurements_query {
  tn_database *db;
  const tn_record *record;
  tn_record_callback callback;
  void *user;
} measurements_query;

static void run_measurements(tn__arena *arena, void *user) {
  const measurements_query *q = user;
  tn__database_tell_measurements(q->db, arena, q->record, q->callback, q->user);
}

tn_status *tn_database_measurements(tn_database *database, const tn_record *record, tn_record_callback callback,
                                    void *user) {
  TN__NEED("database", database);
  TN__NEED("record", record);
  TN__NEED("callback", callback);
  tn_record r;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_record, record, &r));
  measurements_query q = {.db = database, .record = &r, .callback = callback, .user = user};
  return tn__database_reading(database, run_measurements, &q);
}

typedef struct best_record { /* what tn_database_best() gives: the record is its beginning */
  tn_record record;
  tn_tune_task kernel;
  tn__arena arena;
} best_record;

typedef struct best_query {
  tn_database *db;
  const char *task, *machine;
  bool winner;
  best_record *out;
  bool found;
} best_query;

/* To memory that outlives the query and the database. */
static void keep_record(tn__arena *arena, const tn_record *from, best_record *out) {
  out->record = *from;
  out->kernel = *from->kernel;
  out->record.kernel = &out->kernel;
  tn_record *r = &out->record;
  tn_tune_task *k = &out->kernel;
  const char **const texts[] = {&r->task,    &r->machine, &r->rule, &r->decisions,   &r->trace,
                                &r->message, &r->tenon,   &k->name, &k->declaration, &k->target};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) *texts[i] = tn__arena_strdup(arena, *texts[i]);
  const char **dims = TN__NEW_ARRAY(arena, k->dim_count, const char *);
  for (int i = 0; i < k->dim_count; i++) dims[i] = tn__arena_strdup(arena, k->dims[i]);
  k->dims = dims;
  k->sizes = tn__arena_copy(arena, k->sizes, sizeof(int64_t) * (size_t)k->dim_count);
}

static void run_best(tn__arena *arena, void *user) {
  best_query *q = user;
  const tn_record *r = tn__database_find_best(q->db, arena, q->task, q->machine, q->winner);
  q->found = r != NULL;
  if (r == NULL) return;
  tn__arena_init(&q->out->arena, NULL, arena->escape);
  keep_record(&q->out->arena, r, q->out);
}

static tn_status *find_one(tn_database *database, const char *task, const char *machine, bool winner, tn_record **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("database", database);
  TN__NEED("task", task);
  void *memory;
  if (task == NULL || !tn__database_is_hash(task, true))
    return tn_status_create(TN_INVALID_ARGUMENT, "\"%s\" is no task's hash", task == NULL ? "" : task);
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(best_record), 0, &memory));
  best_query q = {.db = database, .task = task, .machine = machine, .winner = winner, .out = memory};
  tn_status *status = tn__database_reading(database, run_best, &q);
  if (status == NULL && q.found)
    *out = &q.out->record;
  else
    tn_record_release(&q.out->record);
  return status;
}

tn_status *tn_database_best(tn_database *database, const char *task, const char *machine, tn_record **out) {
  return find_one(database, task, machine, false, out);
}

tn_status *tn_database_winner(tn_database *database, const char *task, const char *machine, tn_record **out) {
  return find_one(database, task, machine, true, out);
}

void tn_record_release(tn_record *record) {
  if (record == NULL) return;
  best_record *b = (best_record *)record;
  tn__arena_release(&b->arena);
  tn__free(NULL, b, sizeof(*b), 0);
}

typedef struct task_query {
  tn_database *db;
  tn_record_filter filter;
  tn_task_callback callback;
  void *user;
} task_query;

static void count_errors(const task_query *q, tn__arena *arena, tn_task_records *out) {
  static const char sql[] =
      "SELECT record.error, count(*), total(record.measurements), min(iif(record.verified AND record.proven AND "
      "record.error = 0,"
      " record.median, NULL)), min(record.measured), max(record.measured)" RECORD_TABLES "WHERE " RECORD_FILTER
      " AND " KNOWN_VERSIONS " GROUP BY record.error";
  tn_record_filter f = q->filter;
  f.task = out->hash;
  sqlite3_stmt *s = NULL;
  tn_status *status = tn__database_prepare(q->db, &s, sql, TN__DATABASE_FILTER_LETTERS, TN__DATABASE_FILTER_VALUES(&f));
  s = tn__database_keep(arena, status, s);
  while (tn__database_next(q->db, arena, s)) {
    int64_t error = sqlite3_column_int64(s, 0), count = sqlite3_column_int64(s, 1);
    double first = sqlite3_column_double(s, 4), last = sqlite3_column_double(s, 5);
    if (error >= 0 && error < TN_TRIAL_ERRORS) out->errors[error] = count;
    out->records += count;
    double measurements = sqlite3_column_double(s, 2);
    if (is_amount(measurements)) out->measurements += (int64_t)measurements;
    if (error == TN_TRIAL_OK) out->best = sqlite3_column_double(s, 3);
    if (out->first == 0 || first < out->first) out->first = first;
    if (last > out->last) out->last = last;
  }
  out->newer = tn__database_count_newer(q->db, arena, &f);
}

static void run_tasks(tn__arena *arena, void *user) {
  const task_query *q = user;
  const tn__database_tasks tasks = tn__database_load_tasks(q->db, arena, &q->filter);
  for (int i = 0; i < tasks.count && (q->filter.limit == 0 || i < q->filter.limit); i++) {
    tn_task_records t = {.hash = tasks.data[i]->hash, .kernel = &tasks.data[i]->kernel};
    count_errors(q, arena, &t);
    if (!q->callback(q->user, &t)) return;
  }
}

tn_status *tn_database_tasks(tn_database *database, const tn_record_filter *filter, tn_task_callback callback,
                             void *user) {
  TN__NEED("database", database);
  TN__NEED("callback", callback);
  task_query q = {.db = database, .callback = callback, .user = user};
  TN_RETURN_IF_ERROR(tn__database_read_filter(filter, &q.filter));
  return tn__database_reading(database, run_tasks, &q);
}
