#include "tune/tuner/sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/shown.h"
#include "tune/search/space.h"
#include "tune/tuner/compare.h"

typedef struct site {
  tn__site words;
  char digest[TN__SITE_DIGEST];
  int chosen, next; /* the choice so far; which of the choices is looked at next */
} site;

struct tn__sites {
  tn__sites_words words;
  tn__arena arena; /* of the sites' texts, and of what is compared */
  TN__VEC(site) sites;
  int at;                      /* the site that is looked at */
  tn__task_list *base, *other; /* kernels as it is decided; with the alternative */
  int base_left_out, other_left_out;
  TN__VEC(tn__rival_kernel) kernels;
  tn__comparison *comparison;
  double started;
  TN__VEC(tn__variant) variants;
  bool done, moving, again;
  tn_status *failure;
};

/* ---- sites ------------------------------------------------------------------------------------------------------- */

static void see(void *user, const tn__site *seen) {
  tn__sites *s = user;
  site fresh = {.words = *seen, .chosen = seen->usual};
  tn__site_digest(seen, fresh.digest);
  for (int i = 0; i < s->sites.count; i++)
    if (strcmp(s->sites.data[i].digest, fresh.digest) == 0) return;
  fresh.words.kind = tn__arena_strdup(&s->arena, seen->kind);
  fresh.words.text = tn__arena_strdup(&s->arena, seen->text);
  tn__vec_push(&s->arena, &s->sites, fresh);
}

/* What is decided, with `choice` for the site that is looked at. */
static void set_variants(tn__sites *s, const site *changed, int choice) {
  s->variants.count = 0;
  for (int i = 0; i < s->sites.count; i++) {
    const site *a = &s->sites.data[i];
    const tn__variant v = {a->words.kind, a->digest, a == changed ? choice : a->chosen};
    if (v.choice != a->words.usual) tn__vec_push(&s->arena, &s->variants, v);
  }
}

static tn_status *compile(tn__sites *s, tn__task_list **out, int *left_out) {
  const tn__tasks_variants variants = {s->variants.data, s->variants.count, see, s};
  TN_RETURN_IF_ERROR(tn__tasks_create(out));
  return tn__tasks_add_model(*out, s->words.path, NULL, 0, NULL, s->words.options, &variants, left_out);
}

/* ---- kernels that differ ----------------------------------------------------------------------------------------- */

static double calls_of(const tn__task_list *list, const char *declaration) {
  for (int i = 0; i < tn__tasks_count(list); i++)
    if (strcmp(tn__tasks_at(list, i)->task.declaration, declaration) == 0) return tn__tasks_at(list, i)->weight;
  return 0;
}

/* The trace of the best schedule that is known, or of the static choice; adds its predicted seconds. */
static const char *trace_for(tn__sites *s, const tn_tune_task *task, double *predicted) {
  tn__target *target = TN__NEW(&s->arena, tn__target);
  tn__plan_unit unit;
  char hash[TN_TASK_HASH_BYTES];
  tn__check(s->arena.escape, tn__space_target(task, target));
  tn__space_declare(&s->arena, task, target, &unit);
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  *predicted = plan->cost.seconds;
  if (s->words.database != NULL) {
    tn_record *best;
    const char *trace = NULL;
    tn__check(s->arena.escape, tn_tune_task_hash(task, hash));
    tn__check(s->arena.escape, tn_database_winner(s->words.database, hash, s->words.machine, &best));
    if (best != NULL && !best->other_machine && best->trace != NULL && best->trace[0] != 0)
      trace = tn__arena_strdup(&s->arena, best->trace);
    tn_record_release(best);
    if (trace != NULL) return trace;
  }
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(plan->schedule, &text);
  return tn__arena_take(&s->arena, &text);
}

/* The kernels that `list` calls more often than the other list does; gives their predicted seconds. */
static double add_difference(tn__sites *s, int rival, const tn__task_list *list, const tn__task_list *other) {
  double seconds = 0;
  for (int i = 0; i < tn__tasks_count(list); i++) {
    const tn__task_item *item = tn__tasks_at(list, i);
    double calls = item->weight - calls_of(other, item->task.declaration), predicted;
    if (calls <= 0) continue;
    const tn__rival_kernel k = {rival, &item->task, trace_for(s, &item->task, &predicted), calls};
    tn__vec_push(&s->arena, &s->kernels, k);
    seconds += calls * predicted;
  }
  return seconds;
}

/* Is it worth measuring? Where nothing differs, or a kernel of open sizes does, there is nothing to compare; and
 * estimates are not wrong by a factor of four. */
static bool find_difference(tn__sites *s) {
  enum { HOPELESS = 4 };
  s->kernels.count = 0;
  if (s->base_left_out != s->other_left_out) return false;
  double before = add_difference(s, 0, s->base, s->other);
  int count = s->kernels.count;
  double after = add_difference(s, 1, s->other, s->base);
  return count > 0 && s->kernels.count > count && after < HOPELESS * before;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* As a task of the database, and the candidate that a choice is. */
typedef struct written {
  tn_tune_task task;
  char hash[TN_TASK_HASH_BYTES], decisions[64];
  tn_record record;
} written;

static void write_choice(const tn__sites *s, const site *a, int choice, written *out) {
  const tn_tune_task *like = &tn__tasks_at(s->base, 0)->task;
  char *text = tn__arena_printf((tn__arena *)(uintptr_t)&s->arena, "site %s %s", a->words.kind, a->words.text);
  out->task = (tn_tune_task){.size = sizeof out->task,
                             .name = a->words.kind,
                             .declaration = text,
                             .target = like->target,
                             .threads = like->threads};
  snprintf(out->decisions, sizeof out->decisions, "%s %d", a->words.kind, choice);
  out->record = (tn_record){.size = sizeof out->record,
                            .task = out->hash,
                            .machine = s->words.machine,
                            .rule = "variant",
                            .decisions = out->decisions,
                            .message = ""};
}

/* Was the choice compared with the others on this machine? Then the best one of them is taken. */
static bool is_known(tn__sites *s, site *a, int choice) {
  written w;
  tn_record *best;
  bool known;
  if (s->words.database == NULL) return false;
  write_choice(s, a, choice, &w);
  tn__check(s->arena.escape, tn_tune_task_hash(&w.task, w.hash));
  tn__check(s->arena.escape, tn_database_has(s->words.database, &w.record, &known, NULL));
  if (!known) return false;
  tn__check(s->arena.escape, tn_database_best(s->words.database, w.hash, s->words.machine, &best));
  size_t length = strlen(a->words.kind);
  int better = a->chosen;
  if (best != NULL && best->proven && !best->other_machine && strncmp(best->decisions, a->words.kind, length) == 0)
    better = (int)strtol(best->decisions + length, NULL, 10);
  tn_record_release(best);
  if (better != choice) return true;
  const tn__site_result result = {
      .site = &a->words, .before = a->chosen, .choice = choice, .known = true, .better = true};
  a->chosen = choice;
  if (s->words.told != NULL) s->words.told(s->words.user, &result);
  return true;
}

/* Nobody waits for a database that is held: it will be measured again. */
static tn_status *keep(tn__sites *s, const site *a, int choice, double seconds, bool better) {
  written w;
  if (s->words.database == NULL) return NULL;
  write_choice(s, a, choice, &w);
  w.record.median = seconds;
  w.record.verified = better;
  tn_status *status = tn_database_add_task(s->words.database, &w.task, w.hash);
  if (status == NULL) status = tn_database_add(s->words.database, &w.record, true, NULL);
  if (tn_status_code_of(status) != TN_FAILED_PRECONDITION) return status;
  tn_status_free(status);
  return NULL;
}

/* ---- one after the other ----------------------------------------------------------------------------------------- */

static void advance(tn__sites *s);

static void fail(tn__sites *s, tn_status *status) {
  if (status == NULL) return;
  if (s->failure != NULL) tn_status_free(s->failure);
  s->failure = status;
  s->done = true;
}

/* What was compared becomes what is decided. */
static void adopt(tn__sites *s) {
  tn__tasks_release(s->base);
  s->base = s->other;
  s->base_left_out = s->other_left_out;
  s->other = NULL;
}

static void compared(void *user, const tn__comparison_result *result) {
  tn__sites *s = user;
  site *a = &s->sites.data[s->at];
  int choice = a->words.choices[a->next++];
  if (result->turns > 0) {
    const tn__site_result told = {.site = &a->words,
                                  .before = a->chosen,
                                  .choice = choice,
                                  .better = result->better,
                                  .ratio = result->ratio,
                                  .seconds = result->medians[result->better ? 1 : 0]};
    fail(s, keep(s, a, a->chosen, result->medians[0], !result->better));
    fail(s, keep(s, a, choice, result->medians[1], result->better));
    if (result->better) {
      a->chosen = choice;
      adopt(s);
    }
    if (s->words.told != NULL) s->words.told(s->words.user, &told);
  }
  advance(s);
}

/* The next alternative: true when it is being compared. */
static bool try_next(tn__sites *s, site *a) {
  int choice = a->words.choices[a->next]; /* `a` is not looked at when more sites may have been seen */
  if (choice == a->chosen) return false;
  int before = a->chosen;
  bool known = is_known(s, a, choice);
  if (known && a->chosen == before) return false;
  set_variants(s, a, choice);
  tn__tasks_release(s->other);
  s->other = NULL;
  tn__check(s->arena.escape, compile(s, &s->other, &s->other_left_out));
  if (known) {
    adopt(s);
    return false;
  }
  if (!find_difference(s)) return false;
  const tn__comparison_words words = {.builder = s->words.builder,
                                      .runner = s->words.runner,
                                      .kernels = s->kernels.data,
                                      .kernel_count = s->kernels.count,
                                      .count = 2,
                                      .done = compared,
                                      .user = s};
  tn__comparison_release(s->comparison);
  s->comparison = NULL;
  tn__check(s->arena.escape, tn__comparison_start(&words, &s->comparison));
  return true;
}

static void advance_body(tn__escape *escape, void *user) {
  tn__sites *s = user;
  s->arena.escape = escape;
  for (; !s->done && s->at < s->sites.count; s->at++)
    for (site *a = &s->sites.data[s->at]; a->next < a->words.choice_count; a->next++) {
      bool over = s->words.most_seconds > 0 && tn__now() - s->started >= s->words.most_seconds;
      if (over) {
        s->done = true;
        return;
      }
      if (try_next(s, a)) return;
      a = &s->sites.data[s->at]; /* more may have been seen, and the list moved */
    }
  s->done = true;
}

/* Comparisons that end at once call back from within. */
static void advance(tn__sites *s) {
  s->again = true;
  if (s->moving) return;
  s->moving = true;
  while (s->again && !s->done) {
    tn__escape escape;
    s->again = false;
    fail(s, tn__protect(&escape, advance_body, s));
  }
  s->moving = false;
  if (s->done) set_variants(s, NULL, 0);
}

static void first_body(tn__escape *escape, void *user) {
  tn__sites *s = user;
  s->arena.escape = escape;
  tn__check(escape, compile(s, &s->base, &s->base_left_out));
  s->done = tn__tasks_count(s->base) == 0;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

tn_status *tn__sites_start(const tn__sites_words *words, tn__sites **out) {
  *out = NULL;
  void *memory;
  tn__escape escape;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__sites), 0, &memory));
  tn__sites *s = memory;
  s->words = *words;
  s->started = tn__now();
  tn__arena_init(&s->arena, NULL, NULL);
  tn_status *status = tn__protect(&escape, first_body, s);
  if (status != NULL) {
    tn__sites_release(s);
    return status;
  }
  *out = s;
  advance(s);
  return NULL;
}

bool tn__sites_are_done(const tn__sites *s) { return s->done; }

const tn_status *tn__sites_failure(const tn__sites *s) { return s->failure; }

void tn__sites_stop(tn__sites *s) {
  s->done = true;
  tn__comparison_release(s->comparison);
  s->comparison = NULL;
  tn__escape escape; /* memory for the list alone */
  s->arena.escape = &escape;
  set_variants(s, NULL, 0);
}

int tn__sites_variants(const tn__sites *s, const tn__variant **out) {
  *out = s->variants.data;
  return s->variants.count;
}

int tn__sites_count(const tn__sites *s) { return s->sites.count; }

const tn__task_list *tn__sites_tasks(const tn__sites *s) { return s->base; }

void tn__sites_print(const tn__sites *s, tn__strbuf *out) {
  for (int i = 0; i < s->sites.count; i++) {
    const site *a = &s->sites.data[i];
    if (a->chosen == a->words.usual) continue;
    const tn_tune_task *like = &tn__tasks_at(s->base, 0)->task;
    tn__strbuf_append(out, "\n# ");
    tn__strbuf_shown(out, a->words.text);
    tn__strbuf_printf(out, "\ntarget %s threads %d tenon %s machine ", like->target, like->threads, tn_version());
    tn__strbuf_shown(out, s->words.machine);
    tn__strbuf_printf(out, "\nvariant %s %s %d\n", a->words.kind, a->digest, a->chosen);
  }
}

void tn__sites_release(tn__sites *s) {
  if (s == NULL) return;
  tn__comparison_release(s->comparison);
  tn__tasks_release(s->base);
  tn__tasks_release(s->other);
  tn_status_free(s->failure);
  tn__arena_release(&s->arena);
  tn__free(NULL, s, sizeof *s, 0);
}
