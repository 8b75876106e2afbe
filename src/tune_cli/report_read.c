/* What a report tells of, from the database. An error that is thrown out of the database's callbacks ends the command,
 * and with it whatever the database was about. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "tune/tuner/records.h"
#include "tune_cli/report.h"

enum { MOST_NAME = 200, MOST_MESSAGE = 4000, MOST_TEXT = 20000, MOST_CAUSES = 100 }; /* bytes that are kept; causes */

typedef struct reading {
  report *r;
  tn_database *database;
  const report_words *words;
  const char **inputs; /* the hash of each of the inputs' tasks */
  int input_count;
  bool *asked;      /* of the words' tasks: there is one */
  int64_t in_all;   /* tasks in the database */
  int64_t own;      /* trials on the report's machine */
  report_trial now; /* of the record whose measurements are being told */
} reading;

const char *tune_report_clip(tn__arena *arena, const char *text, size_t most) {
  size_t length = strlen(text), kept = length;
  if (length > most) {
    kept = most;
    while (kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80) kept--; /* not within a character */
  }
  char *start = tn__arena_strndup(arena, text, kept);
  return kept == length ? start : tn__arena_printf(arena, "%s... (%zu bytes more)", start, length - kept);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void hash_inputs(reading *rd) {
  tn__arena *arena = rd->r->arena;
  if (rd->words->inputs == NULL) return;
  rd->input_count = tn__tasks_count(rd->words->inputs);
  rd->inputs = TN__NEW_ARRAY(arena, rd->input_count, const char *);
  for (int i = 0; i < rd->input_count; i++) {
    char *hash = TN__NEW_ARRAY(arena, TN_TASK_HASH_BYTES, char);
    tn__check(arena->escape, tn_tune_task_hash(&tn__tasks_at(rd->words->inputs, i)->task, hash));
    rd->inputs[i] = hash;
  }
}

/* Is the task one of those that are named? All are, where none is. */
static bool is_named(const reading *rd, const tn_task_records *task) {
  bool is = rd->words->task_count == 0;
  for (int i = 0; i < rd->words->task_count; i++) {
    const char *named = rd->words->tasks[i];
    bool this_one =
        strcmp(named, task->kernel->name) == 0 || (named[0] != '\0' && strncmp(named, task->hash, strlen(named)) == 0);
    rd->asked[i] |= this_one;
    is |= this_one;
  }
  return is;
}

static const char *print_dims(tn__arena *arena, const tn_tune_task *kernel) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  for (int i = 0; i < kernel->dim_count; i++)
    tn__strbuf_printf(&text, "%s%s = %lld", i > 0 ? ", " : "", kernel->dims[i], (long long)kernel->sizes[i]);
  return tune_report_clip(arena, tn__arena_take(arena, &text), MOST_NAME);
}

static bool see_task(void *user, const tn_task_records *task) {
  reading *rd = user;
  tn__arena *arena = rd->r->arena;
  const tn_tune_task *k = task->kernel;
  double weight = 1;
  rd->in_all++;
  if (!is_named(rd, task)) return true;
  if (rd->words->inputs != NULL) {
    int at = 0;
    while (at < rd->input_count && strcmp(rd->inputs[at], task->hash) != 0) at++;
    if (at == rd->input_count) return true;
    weight = tn__tasks_at(rd->words->inputs, at)->weight;
  }
  rd->r->newer += task->newer;
  report_task told = {.hash = tn__arena_strdup(arena, task->hash),
                      .name = tune_report_clip(arena, k->name, MOST_NAME),
                      .declaration = tune_report_clip(arena, k->declaration, MOST_TEXT),
                      .target = tune_report_clip(arena, k->target, MOST_NAME),
                      .threads = k->threads,
                      .weight = weight};
  told.dims = print_dims(arena, k);
  tn__vec_push(arena, &rd->r->tasks, told);
  return true;
}

static int by_hash(const void *a, const void *b) {
  return strcmp(((const report_task *)a)->hash, ((const report_task *)b)->hash);
}

static void read_tasks(reading *rd) {
  report *r = rd->r;
  const tn_record_filter all = {.size = sizeof all};
  const char *path = tn_database_path(rd->database);
  hash_inputs(rd);
  rd->asked = TN__NEW_ARRAY(r->arena, rd->words->task_count, bool);
  tn__check(r->arena->escape, tn_database_tasks(rd->database, &all, see_task, rd));
  if (rd->in_all == 0)
    tn__throwf(r->arena->escape, TN_NOT_FOUND,
               "%s: there are no tuning records in it yet; `tenon tune FILE --database %s` makes some", path, path);
  for (int i = 0; i < rd->words->task_count; i++)
    if (!rd->asked[i])
      tn__throwf(r->arena->escape, TN_NOT_FOUND, "%s: there is no task \"%s\"; `tenon db list` lists them", path,
                 rd->words->tasks[i]);
  if (r->tasks.count == 0)
    tn__throwf(r->arena->escape, TN_NOT_FOUND,
               "%s: no kernel of these files was tuned for this target, these sizes and so many threads; `tenon db "
               "list` lists what was",
               path);
  tn__sort(r->tasks.data, (size_t)r->tasks.count, sizeof r->tasks.data[0], by_hash);
}

static report_task *find_task(const report *r, const char *hash) {
  const report_task key = {.hash = hash};
  if (r->tasks.count == 0) return NULL;
  return bsearch(&key, r->tasks.data, (size_t)r->tasks.count, sizeof key, by_hash);
}

/* ---- causes of errors -------------------------------------------------------------------------------------------- */

/* The beginning of a text with # for each number, so that texts that only tell of other elements, addresses or
 * processes are one. */
static const char *without_numbers(tn__arena *arena, const char *text) {
  enum { MOST_KEY = 240 };
  char key[MOST_KEY + 1];
  size_t length = 0;
  for (const char *at = text; *at != '\0' && length < MOST_KEY;) {
    size_t digits = strspn(at, "0123456789");
    if (digits == 1 && *at == '0' && at[1] == 'x') digits = 2 + strspn(at + 2, "0123456789abcdefABCDEF");
    key[length++] = *at;
    if (digits > 0) key[length - 1] = '#';
    at += digits > 0 ? digits : 1;
  }
  return tn__arena_strndup(arena, key, length);
}

static void note_error(report *r, const tn_record *record, double when) {
  int task = (int)(find_task(r, record->task) - r->tasks.data), at = 0;
  const char *key = without_numbers(r->arena, record->message);
  while (at < r->causes.count &&
         (r->causes.data[at].error != record->error || strcmp(r->causes.data[at].key, key) != 0))
    at++;
  if (at == MOST_CAUSES) {
    r->more_causes++;
    return;
  }
  if (at == r->causes.count) {
    report_cause fresh = {.error = record->error, .key = key, .when = INFINITY};
    fresh.in_task = TN__NEW_ARRAY(r->arena, r->tasks.count, bool);
    tn__vec_push(r->arena, &r->causes, fresh);
  }
  report_cause *cause = &r->causes.data[at];
  cause->count++;
  cause->tasks += !cause->in_task[task];
  cause->in_task[task] = true;
  if (when >= cause->when) return;
  cause->when = when;
  cause->task = r->tasks.data[task].name;
  cause->first = tune_report_clip(r->arena, record->message, MOST_MESSAGE);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void note_span(report *r, const tn_record *m) {
  enum { LONGEST = 600 }; /* seconds; more is what somebody wrote by hand */
  const report_span span = {m->when, fmin(m->build_seconds, LONGEST), fmin(m->run_seconds, LONGEST)};
  tn__vec_push(r->arena, &r->spans, span);
}

static bool see_measurement(void *user, const tn_record *m) {
  reading *rd = user;
  if (m->when < rd->now.when) rd->now.when = m->when;
  note_span(rd->r, m);
  return true;
}

static report_schedule schedule_of(const report *r, const tn_record *record) {
  return (report_schedule){.there = true,
                           .rule = tune_report_clip(r->arena, record->rule, MOST_NAME),
                           .decisions = tune_report_clip(r->arena, record->decisions, MOST_TEXT),
                           .trace = tune_report_clip(r->arena, record->trace, MOST_TEXT),
                           .median = record->median,
                           .spread = record->spread,
                           .predicted = record->predicted,
                           .when = record->when,
                           .measurements = record->measurements};
}

/* Of several static choices, by versions of the compiler, the newest counts. */
static void note_schedules(const report *r, report_task *task, const tn_record *record) {
  bool ok = record->error == TN_TRIAL_OK;
  if (record->origin == TN_ORIGIN_STATIC && ok && (!task->first.there || record->when >= task->first.when))
    task->first = schedule_of(r, record);
  if (!ok || !record->verified || !record->proven) return;
  bool wins = record->verdict == TN_VERDICT_BETTER && (!(task->ratio > 0) || record->ratio < task->ratio);
  task->judged |= record->verdict != TN_VERDICT_NONE;
  if (wins) task->ratio = record->ratio;
  if (wins || (!(task->ratio > 0) && (!task->best.there || record->median < task->best.median)))
    task->best = schedule_of(r, record);
}

/* A compared candidate that was not shown to be better is not the best. */
static void settle_best(report_task *task) {
  if (task->judged && !(task->ratio > 0) && task->first.there) task->best = task->first;
}

static bool see_record(void *user, const tn_record *record) {
  reading *rd = user;
  report *r = rd->r;
  report_task *task = find_task(r, record->task);
  if (task == NULL || record->error == TN_TRIAL_CANCELLED) return true;
  if (strcmp(record->machine, r->machine) != 0) {
    r->elsewhere++;
    return true;
  }
  bool ok = record->error == TN_TRIAL_OK;
  rd->now = (report_trial){.id = record->id,
                           .when = record->when,
                           .median = ok ? record->median : 0,
                           .predicted = record->predicted,
                           .error = record->error,
                           .origin = record->origin,
                           .verified = ok && record->verified};
  if (record->measurements > 1)
    tn__check(r->arena->escape, tn_database_measurements(rd->database, record, see_measurement, rd));
  else
    note_span(r, record);
  tn__vec_push(r->arena, &task->trials, rd->now);
  task->timed += ok;
  rd->own++;
  note_schedules(r, task, record);
  if (!ok) note_error(r, record, rd->now.when);
  return true;
}

static bool see_newest(void *user, const tn_record *record) {
  reading *rd = user;
  if (find_task(rd->r, record->task) == NULL) return true;
  rd->r->machine = tn__arena_strdup(rd->r->arena, record->machine);
  return false;
}

static void read_records(reading *rd) {
  report *r = rd->r;
  const char *path = tn_database_path(rd->database);
  const tn_record_filter newest = {.size = sizeof newest, .order = TN_ORDER_NEWEST}, all = {.size = sizeof all};
  r->machine = rd->words->machine;
  if (r->machine == NULL) tn__check(r->arena->escape, tn_database_query(rd->database, &newest, see_newest, rd, NULL));
  if (r->machine == NULL && r->newer > 0)
    tn__throwf(r->arena->escape, TN_UNSUPPORTED,
               "%s: all %lld records of these tasks are in formats of a newer Tenon than this one (%s): use that one",
               path, (long long)r->newer, tn_version());
  if (r->machine == NULL)
    tn__throwf(r->arena->escape, TN_NOT_FOUND, "%s: none of these tasks has a record yet; `tenon tune FILE` makes some",
               path);
  tn__check(r->arena->escape, tn_database_query(rd->database, &all, see_record, rd, NULL));
  for (int i = 0; i < r->tasks.count; i++) {
    report_task *task = &r->tasks.data[i];
    bool known;
    settle_best(task);
    tn__check(r->arena->escape,
              tn__records_facts(rd->database, task->hash, r->machine, &task->work, &task->candidates, &known));
  }
  if (rd->own == 0)
    tn__throwf(
        r->arena->escape, TN_NOT_FOUND,
        "%s: there are no records of these tasks from the machine \"%s\"; `tenon db query` tells which there are", path,
        r->machine);
}

/* Tasks without a trial on this machine are told by their names alone. */
static void drop_untuned(const reading *rd) {
  report *r = rd->r;
  int kept = 0;
  for (int i = 0; i < rd->input_count; i++) {
    const report_task *task = find_task(r, rd->inputs[i]);
    bool is_asked = rd->words->task_count == 0; /* the others are left out on purpose */
    if ((task == NULL && is_asked) || (task != NULL && task->trials.count == 0)) {
      const char *name = tn__tasks_at(rd->words->inputs, i)->task.name;
      tn__vec_push(r->arena, &r->untuned, tune_report_clip(r->arena, name, MOST_NAME));
    }
  }
  for (int i = 0; i < r->tasks.count; i++)
    if (r->tasks.data[i].trials.count > 0) r->tasks.data[kept++] = r->tasks.data[i];
  r->tasks.count = kept;
}

void tune_report_read(report *r, tn_database *database, const report_words *words) {
  reading rd = {.r = r, .database = database, .words = words};
  const char *path = tn_database_path(database), *slash = strrchr(path, '/');
  r->database = tune_report_clip(r->arena, slash != NULL ? slash + 1 : path, MOST_NAME);
  r->weighted = words->inputs != NULL;
  read_tasks(&rd);
  read_records(&rd);
  drop_untuned(&rd);
}
