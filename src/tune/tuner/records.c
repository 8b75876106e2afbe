#include "tune/tuner/records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "machine/identity.h"
#include "tune/database/facts.h"
#include "tune/database/leases.h"
#include "tune/search/points.h"
#include "tune/search/samples.h"

struct tn__record_waiting {
  tn__record_waiting *next;
  const tn_tune_task *task; /* owned by the tuner */
  tn_record record;         /* with copied texts; for a verdict, only the candidate's identity */
  bool again;
  int turns; /* of a verdict; 0: it is a trial */
  bool better;
  double ratio;
};

/* Seconds after which a lease expires, and after which it is renewed. The claims of a dead tuner become free when
 * they expire. */
static const double lease_seconds = 60, renew_seconds = 15;

/* Seconds on the clock that limits waits for other processes. */
static double waits_now(const tn__records *records) {
  return records->waits != NULL ? records->waits(records->waits_user) : tn__now();
}

static double clock_of(const tn__records *records) {
  return records->clock != NULL ? 1 + records->clock(records->clock_user) : (double)time(NULL);
}

static tn__lease lease_of(const tn__records *records) {
  return (tn__lease){records->owner, clock_of(records), lease_seconds};
}

/* Returns whether another process locked the database. If so, frees the status and skips the database for a while. */
TN_MUST_USE static bool is_held(tn__records *records, tn_status **status) {
  const double pause = 1;
  if (tn_status_code_of(*status) != TN_FAILED_PRECONDITION) return false;
  if (!records->told)
    tn__log(records->log, TN_LOG_WARNING, "%s; trials wait until it is free", tn_status_message(*status));
  records->told = true;
  records->blocked_until = waits_now(records) + pause;
  tn_status_free(*status);
  *status = NULL;
  return true;
}

tn_status *tn__records_open(tn__records *records, const char *path, const char *machine, double seconds) {
  /* Nobody waits long in the event loop. */
  const tn_database_options options = {.size = sizeof options, .wait_seconds = TN__RECORDS_WAIT};
  if (machine == NULL)
    tn__machine_identity("", records->machine);
  else
    snprintf(records->machine, sizeof records->machine, "%s", machine);
  snprintf(records->owner, sizeof records->owner, "%lld-%016llx", (long long)getpid(),
           (unsigned long long)tn__hash_mix(tn__clock(), (uint64_t)(uintptr_t)records));
  const double until = waits_now(records) + seconds;
  for (;;) {
    tn_status *status = tn_database_open(path, &options, &records->database);
    if (status == NULL || tn_status_code_of(status) != TN_FAILED_PRECONDITION || waits_now(records) > until)
      return status;
    tn_status_free(status);
  }
}

static void free_waiting(tn__record_waiting *w) {
  free((void *)(uintptr_t)w->record.rule);
  free((void *)(uintptr_t)w->record.decisions);
  free((void *)(uintptr_t)w->record.trace);
  free((void *)(uintptr_t)w->record.message);
  free(w);
}

static void drop_first(tn__records *records) {
  tn__record_waiting *w = records->first;
  records->first = w->next;
  if (records->first == NULL) records->last = NULL;
  free_waiting(w);
}

void tn__records_close(tn__records *records) {
  while (records->first != NULL) drop_first(records);
  free(records->hashes);
  free(records->tasks);
  free(records->noted);
  tn__similar_release(records->similar);
  tn_database_release(records->database);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static tn_status *put_facts(const tn__records *records, int index, int64_t candidates) {
  const tn__task_work *w = &tn__tasks_at(records->list, index)->work;
  const tn__database_facts facts = {w->flops, w->bytes, w->least, w->floor, candidates};
  return tn__database_put_facts(records->database, records->hashes[index], records->machine, &facts);
}

/* Once in each tuning, when the task gets its first record. */
static tn_status *note_facts(const tn__records *records, const tn_tune_task *task) {
  for (int i = 0; i < records->task_count; i++) {
    if (&tn__tasks_at(records->list, i)->task != task || records->noted[i]) continue;
    TN_RETURN_IF_ERROR(put_facts(records, i, 0));
    records->noted[i] = true;
  }
  return NULL;
}

static tn_status *write_one(tn__records *records, const tn__record_waiting *w) {
  char hash[TN_TASK_HASH_BYTES];
  TN_RETURN_IF_ERROR(tn_database_add_task(records->database, w->task, hash));
  TN_RETURN_IF_ERROR(note_facts(records, w->task));
  tn_record record = w->record;
  record.task = hash;
  record.machine = records->machine;
  if (w->turns > 0) return tn_database_judge(records->database, &record, w->better, w->ratio, w->turns);
  TN_RETURN_IF_ERROR(tn_database_add(records->database, &record, w->again, NULL));
  return tn__database_yield(records->database, records->owner, &record);
}

tn_status *tn__records_flush(tn__records *records) {
  if (records->first != NULL && waits_now(records) < records->blocked_until) return NULL;
  while (records->first != NULL) {
    tn_status *status = write_one(records, records->first);
    if (is_held(records, &status)) return NULL;
    if (status != NULL) return status;
    drop_first(records);
  }
  records->told = false;
  return NULL;
}

tn_status *tn__records_renew(tn__records *records) {
  double now = waits_now(records);
  if (now < records->blocked_until || now - records->renewed < renew_seconds) return NULL;
  const tn__lease lease = lease_of(records);
  tn_status *status = tn__database_renew(records->database, &lease);
  if (!is_held(records, &status) && status == NULL) records->renewed = now;
  return status;
}

double tn__records_patience(double budget, double spent) {
  const double longest = 60, grace = 2;
  return budget > 0 ? fmin(longest, fmax(budget - spent, 0) + grace) : longest;
}

tn_status *tn__records_finish(tn__records *records, double seconds) {
  double until = waits_now(records) + seconds;
  int count = 0;
  do {
    records->blocked_until = 0;
    TN_RETURN_IF_ERROR(tn__records_flush(records));
  } while (records->first != NULL && waits_now(records) < until);
  for (const tn__record_waiting *w = records->first; w != NULL; w = w->next) count++;
  if (count > 0)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "%s: cannot write the last %d trial%s: another process holds the database, and the budget "
                            "is over; tune again when it is free",
                            tn_database_path(records->database), count, count == 1 ? "" : "s");
  tn_status *status = tn__database_yield(records->database, records->owner, NULL);
  return is_held(records, &status) ? NULL : status; /* leases expire by themselves */
}

TN_MUST_USE static bool copy(const char **text) {
  if (*text == NULL) return true;
  *text = strdup(*text);
  return *text != NULL;
}

/* Copies the texts of the record. */
static tn_status *append(tn__records *records, const tn__record_waiting *words) {
  tn__record_waiting *w = calloc(1, sizeof *w);
  if (w == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a record");
  *w = *words;
  tn_record *r = &w->record;
  r->size = sizeof *r;
  r->when = clock_of(records);
  bool copied = copy(&r->rule);
  copied &= copy(&r->decisions);
  copied &= copy(&r->trace);
  copied &= copy(&r->message);
  if (!copied) {
    free_waiting(w);
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a record");
  }
  if (records->last != NULL)
    records->last->next = w;
  else
    records->first = w;
  records->last = w;
  return tn__records_flush(records);
}

static double known_or_0(double seconds) { return isfinite(seconds) && seconds > 0 ? seconds : 0; }

tn_status *tn__records_add(tn__records *records, const tn__tuner_record *r) {
  const tn_measure_result *result = r->result;
  const tn_record words = {.rule = r->rule,
                           .decisions = r->decisions,
                           .trace = r->trace,
                           .origin = r->trial == 0 ? TN_ORIGIN_STATIC : TN_ORIGIN_SEARCH,
                           .error = result->error,
                           .message = result->message,
                           .median = result->run.median,
                           .spread = result->run.spread,
                           .calls = result->run.calls,
                           .verified = result->run.verified && records->clock == NULL,
                           .build_seconds = result->build.seconds,
                           .run_seconds = result->run.seconds,
                           .predicted = known_or_0(r->predicted)};
  /* A worker that was lost says nothing of the candidate, which is measured again when tuning goes on. */
  return append(
      records, &(tn__record_waiting){.task = r->task, .record = words, .again = result->error != TN_TRIAL_WORKER_LOST});
}

static tn_record candidate_of(const tn__proposal *p) {
  return (tn_record){.size = sizeof(tn_record),
                     .rule = p->rule,
                     .decisions = p->decisions,
                     .trace = p->trace,
                     .origin = p->index == 0 ? TN_ORIGIN_STATIC : TN_ORIGIN_SEARCH};
}

/* The times of both candidates in turns are added to their earlier times. The verdict belongs to the second. */
tn_status *tn__records_compared(tn__records *records, const tn_tune_task *task, const tn__compared *c) {
  for (int i = 0; i < 2; i++) {
    tn_record words = candidate_of(i == 0 ? c->first : c->best);
    words.median = c->medians[i];
    words.calls = c->turns;
    TN_RETURN_IF_ERROR(append(records, &(tn__record_waiting){.task = task, .record = words, .again = true}));
  }
  return append(
      records,
      &(tn__record_waiting){
          .task = task, .record = candidate_of(c->best), .turns = c->turns, .better = c->better, .ratio = c->ratio});
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

tn_status *tn__records_claim(tn__records *records, const tn_tune_task *task, const tn__proposal *p,
                             tn__tuner_claim *out) {
  static const int states[] = {[TN__CLAIM_GRANTED] = TN__TUNER_FREE,
                               [TN__CLAIM_TAKEN] = TN__TUNER_TAKEN,
                               [TN__CLAIM_KNOWN] = TN__TUNER_MEASURED};
  char hash[TN_TASK_HASH_BYTES];
  tn__database_claimed claimed;
  *out = (tn__tuner_claim){.state = TN__TUNER_FREE};
  if (waits_now(records) < records->blocked_until) return NULL; /* a lock held this long is no tuner's */
  TN_RETURN_IF_ERROR(tn_tune_task_hash(task, hash));
  tn_record candidate = candidate_of(p);
  candidate.task = hash;
  candidate.machine = records->machine;
  const tn__lease lease = lease_of(records);
  tn_status *status = tn__database_claim(records->database, &candidate, &lease, &claimed);
  if (is_held(records, &status) || status != NULL) return status;
  out->state = states[claimed.state];
  out->seconds = claimed.seconds;
  return NULL;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

tn_status *tn__records_exhausted(tn__records *records, int index, int64_t candidates) {
  if (waits_now(records) < records->blocked_until) return NULL;
  tn_status *status = tn_database_add_task(records->database, &tn__tasks_at(records->list, index)->task, NULL);
  if (status == NULL) status = put_facts(records, index, candidates);
  return is_held(records, &status) ? NULL : status;
}

tn_status *tn__records_facts(const tn_database *database, const char *task, const char *machine, tn__task_work *work,
                             int64_t *candidates, bool *known) {
  tn__database_facts facts;
  TN_RETURN_IF_ERROR(tn__database_facts_of(database, task, machine, &facts, known));
  *work = (tn__task_work){facts.flops, facts.bytes, facts.least, facts.floor};
  *candidates = facts.candidates;
  return NULL;
}

/* ---- what was spent ---------------------------------------------------------------------------------------------- */

tn_status *tn__records_of(tn__records *records, const tn__task_list *tasks, double *spent) {
  int count = tn__tasks_count(tasks);
  *spent = 0;
  if (count == 0) return NULL;
  records->hashes = calloc((size_t)count, sizeof *records->hashes);
  records->tasks = calloc((size_t)count, sizeof *records->tasks);
  records->noted = calloc((size_t)count, sizeof *records->noted);
  records->list = tasks;
  if (records->hashes == NULL || records->tasks == NULL || records->noted == NULL)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the hashes of %d tasks", count);
  for (int i = 0; i < count; i++) {
    TN_RETURN_IF_ERROR(tn_tune_task_hash(&tn__tasks_at(tasks, i)->task, records->hashes[i]));
    records->tasks[i] = records->hashes[i];
  }
  records->task_count = count;
  return tn_database_spend(records->database, records->tasks, count, records->machine, 0, spent);
}

/* Each second, so that a tuner that is killed loses no more; and later where another process holds the database. */
tn_status *tn__records_spend(tn__records *records, double seconds) {
  double more = seconds - records->written;
  if (more <= 0 || records->task_count == 0) return NULL;
  if (waits_now(records) < records->blocked_until) return NULL;
  tn_status *status =
      tn_database_spend(records->database, records->tasks, records->task_count, records->machine, more, NULL);
  if (status == NULL) records->written = seconds;
  return is_held(records, &status) ? NULL : status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct knowing {
  tn__search *search;
  tn_status *status;
} knowing;

static bool know(void *user, const tn_record *record) {
  knowing *k = user;
  if (!record->proven) return true; /* measure others' results here first */
  if (record->trace == NULL || record->error == TN_TRIAL_CANCELLED || record->error == TN_TRIAL_WORKER_LOST)
    return true;
  double median = record->error == TN_TRIAL_OK ? record->median : (double)INFINITY;
  k->status = tn__search_know(k->search, record->rule, record->decisions, record->trace, median);
  return k->status == NULL;
}

tn_status *tn__records_known(tn__records *records, const tn_tune_task *task, tn__search *search) {
  char hash[TN_TASK_HASH_BYTES];
  knowing k = {.search = search};
  TN_RETURN_IF_ERROR(tn_tune_task_hash(task, hash));
  const tn_record_filter filter = {.size = sizeof filter, .task = hash, .machine = records->machine};
  int64_t newer = 0;
  TN_RETURN_IF_ERROR(tn_database_query(records->database, &filter, know, &k, &newer));
  if (newer > 0)
    tn__log(records->log, TN_LOG_WARNING, "%s: %lld record%s of a newer Tenon stay%s as %s and mean nothing here",
            task->name, (long long)newer, newer == 1 ? "" : "s", newer == 1 ? "s" : "",
            newer == 1 ? "it is" : "they are");
  if (k.status != NULL || records->alone) return k.status;
  if (records->similar == NULL) TN_RETURN_IF_ERROR(tn__similar_open(records->database, &records->similar));
  return tn__similar_seed(records->similar, task, records->machine, search);
}

typedef struct taking {
  void (*take)(void *to, const tn__known_verdict *verdict);
  void *to;
} taking;

static bool take_verdict(void *user, const tn_record *record) {
  const taking *t = user;
  if (!record->proven || record->verdict == TN_VERDICT_NONE || record->error != TN_TRIAL_OK) return true;
  const tn__known_verdict v = {record->trace, record->verdict == TN_VERDICT_BETTER, record->ratio};
  t->take(t->to, &v);
  return true;
}

tn_status *tn__records_verdicts(const tn__records *records, const tn_tune_task *task,
                                void (*take)(void *to, const tn__known_verdict *verdict), void *to) {
  char hash[TN_TASK_HASH_BYTES];
  taking t = {take, to};
  TN_RETURN_IF_ERROR(tn_tune_task_hash(task, hash));
  const tn_record_filter filter = {
      .size = sizeof filter, .task = hash, .machine = records->machine, .errors = 1u << TN_TRIAL_OK};
  return tn_database_query(records->database, &filter, take_verdict, &t, NULL);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

enum { FEATURES_VERSION = 1 /* raised when rows mean something else */, LONGEST_OF = 1024 };

/* What samples depend on, in a line. */
static void print_of(const tn__records *records, const tn_tune_task *like, char of[LONGEST_OF]) {
  uint64_t machine = like->machine != NULL ? tn__hash_string(1, like->machine) : 0;
  snprintf(of, LONGEST_OF, "%s, features %d of %d and %d, schedules %d, %s, machine %016llx, %s", tn_version(),
           FEATURES_VERSION, TN__MODEL_FEATURES, TN__FEATURES, TN_SCHEDULE_VERSION, records->machine,
           (unsigned long long)machine, like->target);
}

/* "tuning.db.model-HASH": of each target and machine its own. */
static void print_path(const tn__records *records, const char *of, char *path, size_t size) {
  snprintf(path, size, "%s.model-%08x", tn_database_path(records->database), (unsigned)tn__hash_string(1, of));
}

typedef struct teaching {
  const tn__records *records;
  const tn_tune_task *like;
  tn__cost_model *model;
  tn__space *space;
  int task, known; /* the model's number of it; tasks that had numbers before */
  tn_status *status;
} teaching;

static bool teach_record(void *user, const tn_record *record) {
  teaching *t = user;
  tn__space_point point;
  tn__model_sample sample = {.task = t->task};
  double seconds = record->error == TN_TRIAL_OK ? record->median : (double)INFINITY;
  if (record->error == TN_TRIAL_CANCELLED || record->error == TN_TRIAL_WORKER_LOST || !record->proven) return true;
  if (!tn__space_read(t->space, record->rule, record->decisions, &point)) return true;
  if (!tn__model_sample_of(t->space, &point, seconds, t->task, &sample)) return true;
  tn_status *status = tn__space_features(t->space, &point, sample.row.loops);
  if (status != NULL && tn_status_code_of(status) != TN_OUT_OF_MEMORY) { /* a primitive refuses a step */
    tn_status_free(status);
    return true;
  }
  t->status = status != NULL ? status : tn__model_add(t->model, &sample);
  return t->status == NULL;
}

/* A task whose declaration or rules are of another version teaches nothing. */
static bool teach_task(void *user, const tn_task_records *found) {
  enum { MOST_OF_EACH = 64, MOST = TN__MODEL_MOST_SAMPLES };
  teaching *t = user;
  if (found->records == 0 || strcmp(found->kernel->target, t->like->target) != 0) return true;
  tn_tune_task task = *found->kernel;
  task.machine = t->like->machine;
  t->task = tn__model_task(t->model, tn__model_key_of(&task));
  if (t->task < 0) t->status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a task");
  if (t->task < t->known) return t->status == NULL;
  tn_status *status = tn__space_open(&task, &t->space);
  if (status == NULL) {
    const tn_record_filter filter = {.size = sizeof filter,
                                     .task = found->hash,
                                     .machine = t->records->machine,
                                     .limit = MOST_OF_EACH,
                                     .order = TN_ORDER_NEWEST};
    status = tn_database_query(t->records->database, &filter, teach_record, t, NULL);
    tn__space_close(t->space);
    if (t->status == NULL)
      t->status = status;
    else
      tn_status_free(status);
  } else if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) {
    t->status = status;
  } else {
    tn_status_free(status);
  }
  return t->status == NULL && tn__model_samples(t->model) < MOST;
}

tn_status *tn__records_learn(const tn__records *records, const tn_tune_task *like, tn__cost_model *model) {
  char of[LONGEST_OF], path[4096 + 32];
  if (records->alone || records->clock != NULL) return NULL;
  print_of(records, like, of);
  print_path(records, of, path, sizeof path);
  tn_status *status = tn__model_read(model, of, path);
  if (status == NULL || tn_status_code_of(status) == TN_OUT_OF_MEMORY) return status;
  if (tn_status_code_of(status) != TN_NOT_FOUND)
    tn__log(records->log, TN_LOG_WARNING, "%s, and is made anew from the records", tn_status_message(status));
  tn_status_free(status);
  teaching t = {.records = records, .like = like, .model = model, .known = tn__model_tasks(model)};
  const tn_record_filter filter = {.size = sizeof filter, .target = like->target, .machine = records->machine};
  TN_RETURN_IF_ERROR(tn_database_tasks(records->database, &filter, teach_task, &t));
  return t.status;
}

void tn__records_learned(const tn__records *records, const tn_tune_task *like, const tn__cost_model *model) {
  char of[LONGEST_OF], path[4096 + 32];
  if (records->alone || records->clock != NULL) return;
  print_of(records, like, of);
  print_path(records, of, path, sizeof path);
  tn_status *status = tn__model_write(model, of, path);
  if (status != NULL)
    tn__log(records->log, TN_LOG_WARNING, "what was learned is not kept: %s", tn_status_message(status));
  tn_status_free(status);
}
