/* The tuner of <tenon/tune.h>: a list of tasks, a tuner over it (tuner.h), the records, and builders and runners on an
 * event loop.
 *
 * Three handles belong to the loop: a signal from anywhere that something is to be looked at (`wake`), a timer that
 * shows how far it is (`tick`), and, without workers, what takes the simulator's steps (`steps`). */
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/filled.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "target/text/text.h"
#include "tune/search/table.h"
#include "tune/tuner/records.h"
#include "tune/tuner/schedules.h"
#include "tune/tuner/simulation.h"

enum { NOT_STOPPED, STOPPED, STOPPED_AT_ONCE, HANDLES = 3 };

struct tn_tuner {
  tn_tuner_options options; /* filled in; its texts are copies */
  tn_log_sink log;
  tn__task_list *tasks;
  tn__tuner *core; /* NULL: it has not begun */
  tn__records records;
  bool keeps;                  /* there is a database */
  double spent_before, spends; /* seconds of the budget, in earlier tunings; when those of this one were written */
  tn_builder *builder;
  tn_runner **runners;
  int runner_count;
  bool own_builder, own_runners; /* they are workers, of which there are statistics */
  tn__simulation *simulated;
  uv_loop_t *loop;
  bool own_loop, open;
  uv_async_t wake;
  uv_timer_t tick;
  uv_idle_t steps;
  int closing; /* handles that are not closed yet */
  atomic_int stop;
  bool begun, ended;
  void (*done)(void *user, tn_tuner *tuner);
  void *done_user;
  tn_status *failure; /* behind the core's */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static tn_status *check(const tn_tuner_options *o) {
  if (!(o->budget_seconds >= 0) || !isfinite(o->budget_seconds) || o->trials < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "a budget is above zero, in seconds or trials");
  if (o->search < TN_SEARCH_EVOLUTION || o->search > TN_SEARCH_EXHAUSTIVE)
    return tn_status_create(TN_INVALID_ARGUMENT, "there is no search %d: evolution, random and exhaustive are 0 to 2",
                            (int)o->search);
  if (o->points < 0 || (o->points > 0 && o->search != TN_SEARCH_EXHAUSTIVE))
    return tn_status_create(TN_INVALID_ARGUMENT, "points are those of an exhaustive search, and at least one");
  if (o->builders < 0 || o->builders > 256)
    return tn_status_create(TN_INVALID_ARGUMENT, "1 to 256 processes build, not %d", o->builders);
  if (!(o->progress_seconds >= 0) || !(o->progress_seconds < 1e6))
    return tn_status_create(TN_INVALID_ARGUMENT, "progress_seconds: a time is 0 to 1e6 s, not %g", o->progress_seconds);
  if (o->deterministic && o->draws_seed)
    return tn_status_create(TN_INVALID_ARGUMENT, "what is deterministic has a seed that is given");
  return NULL;
}

static tn_status *copy_text(const char **text) {
  if (*text == NULL) return NULL;
  *text = strdup(*text);
  return *text != NULL ? NULL : tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the options of a tuner");
}

static tn_status *copy_options(tn_tuner *t, const tn_tuner_options *given) {
  const char **texts[] = {&t->options.database, &t->options.program, &t->options.fingerprint};
  tn_status *status = NULL;
  t->options = *given;
  if (given->log != NULL) t->log = *given->log;
  t->options.log = &t->log;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    if (status != NULL)
      *texts[i] = NULL;
    else
      status = copy_text(texts[i]);
  }
  if (given->draws_seed) t->options.seed = tn__hash_mix(tn__clock(), (uint64_t)getpid());
  if (given->progress_seconds == 0) t->options.progress_seconds = 0.25;
  return status;
}

static void destroy(tn_tuner *t) {
  tn__tasks_release(t->tasks);
  tn_status_free(t->failure);
  free((void *)(uintptr_t)t->options.database);
  free((void *)(uintptr_t)t->options.program);
  free((void *)(uintptr_t)t->options.fingerprint);
  free(t->runners);
  tn__free(NULL, t, sizeof *t, 0);
}

static void on_wake(uv_async_t *handle);
static void on_tick(uv_timer_t *handle);
static void on_step(uv_idle_t *handle);

static tn_status *open_handles(tn_tuner *t) {
  if (t->loop == NULL) {
    t->loop = malloc(sizeof *t->loop);
    if (t->loop == NULL || uv_loop_init(t->loop) != 0) {
      free(t->loop);
      t->loop = NULL;
      return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the loop of a tuner");
    }
    t->own_loop = true;
  }
  if (uv_async_init(t->loop, &t->wake, on_wake) != 0) return tn_status_create(TN_IO, "the loop takes no more handles");
  uv_timer_init(t->loop, &t->tick);
  uv_idle_init(t->loop, &t->steps);
  t->wake.data = t->tick.data = t->steps.data = t;
  uv_unref((uv_handle_t *)&t->wake); /* only a tuner that works keeps a loop alive */
  t->open = true;
  return NULL;
}

tn_status *tn_tuner_create(const tn_tuner_options *options, tn_tuner **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn_tuner_options filled;
  void *memory;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_tuner_options, options, &filled));
  TN_RETURN_IF_ERROR(check(&filled));
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn_tuner), 0, &memory));
  tn_tuner *t = memory;
  *t = (tn_tuner){.loop = filled.loop};
  tn_status *status = copy_options(t, &filled);
  if (status == NULL) status = tn__tasks_create(&t->tasks);
  if (status == NULL) status = open_handles(t);
  if (status == NULL)
    *out = t;
  else
    tn_tuner_release(t);
  return status;
}

static void on_close(uv_handle_t *handle) {
  tn_tuner *t = handle->data;
  if (--t->closing == 0) destroy(t);
}

void tn_tuner_release(tn_tuner *t) {
  if (t == NULL) return;
  uv_loop_t *own = t->own_loop ? t->loop : NULL;
  tn__tuner_release(t->core);
  if (t->simulated == NULL) tn_builder_release(t->builder);
  for (int i = 0; t->simulated == NULL && i < t->runner_count; i++) tn_runner_release(t->runners[i]);
  tn__simulation_release(t->simulated);
  tn__records_close(&t->records);
  if (t->open) {
    t->closing = HANDLES;
    uv_close((uv_handle_t *)&t->wake, on_close);
    uv_close((uv_handle_t *)&t->tick, on_close);
    uv_close((uv_handle_t *)&t->steps, on_close);
  } else {
    destroy(t);
  }
  if (own == NULL) return;
  uv_run(own, UV_RUN_DEFAULT);
  uv_loop_close(own);
  free(own);
}

/* ---- what there is to tune, and with what ------------------------------------------------------------------------ */

static tn_status *check_not_begun(const tn_tuner *t, const char *what) {
  if (!t->begun) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION, "%s when the tuner has begun already", what);
}

tn_status *tn_tuner_add_model(tn_tuner *t, const char *path, const void *data, size_t size, const char *kernel,
                              const tn_compile_options *options, int *left_out) {
  TN__NEED("tuner", t);
  TN__NEED("path", path);
  int left = 0;
  if (left_out != NULL) *left_out = 0;
  TN_RETURN_IF_ERROR(check_not_begun(t, "a model is added"));
  TN_RETURN_IF_ERROR(tn__tasks_add_model(t->tasks, path, data, size, kernel, options, NULL, &left));
  if (left_out != NULL) *left_out = left;
  return NULL;
}

tn_status *tn_tuner_add_declarations(tn_tuner *t, const char *path, const char *text, size_t size, const char *kernel,
                                     const tn_compile_options *options) {
  TN__NEED("tuner", t);
  TN__NEED("path", path);
  TN__NEED_LIST("text", text, "size", size);
  TN_RETURN_IF_ERROR(check_not_begun(t, "declarations are added"));
  return tn__tasks_add_declarations(t->tasks, path, text, size, kernel, options);
}

uv_loop_t *tn_tuner_loop(tn_tuner *t) {
  if (t == NULL) return NULL;
  return t->loop;
}

static tn_status *check_supplied(const tn_tuner *t, const char *what) {
  TN_RETURN_IF_ERROR(check_not_begun(t, what));
  if (!t->options.deterministic) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "%s, and a deterministic tuner builds and runs nothing", what);
}

tn_status *tn_tuner_use_builder(tn_tuner *t, tn_builder *builder) {
  TN__NEED("tuner", t);
  TN__NEED("builder", builder);
  tn_status *status = check_supplied(t, "a builder is supplied");
  if (status == NULL && t->builder != NULL)
    status = tn_status_create(TN_FAILED_PRECONDITION, "a tuner has one builder, and this would be a second one");
  if (status == NULL)
    t->builder = builder;
  else
    tn_builder_release(builder);
  return status;
}

static tn_status *append_runner(tn_tuner *t, tn_runner *runner) {
  tn_runner **grown = realloc(t->runners, (size_t)(t->runner_count + 1) * sizeof *grown);
  if (grown == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a runner");
  t->runners = grown;
  t->runners[t->runner_count++] = runner;
  return NULL;
}

tn_status *tn_tuner_use_runner(tn_tuner *t, tn_runner *runner) {
  TN__NEED("tuner", t);
  TN__NEED("runner", runner);
  tn_status *status = check_supplied(t, "a runner is supplied");
  if (status == NULL) status = append_runner(t, runner);
  if (status != NULL) tn_runner_release(runner);
  return status;
}

/* ---- worker processes -------------------------------------------------------------------------------------------- */

/* Candidates are timed here, unless a runner of the caller's times them elsewhere. */
static tn_status *check_machine(const tn_tuner *t) {
  for (int i = 0; i < tn__tasks_count(t->tasks); i++) {
    tn__target target;
    TN_RETURN_IF_ERROR(tn__target_parse(tn__tasks_at(t->tasks, i)->task.target, &target));
    if (tn__target_runs_here(&target)) continue;
    return tn_status_create(TN_UNSUPPORTED,
                            "this machine does not run code for %s, and candidates are timed on the machine that "
                            "tunes: tune on one that does, or write a runner for such a device (<tenon/tune.h>, "
                            "docs/howto-runner.md)",
                            target.name);
  }
  return NULL;
}

typedef struct cores {
  int all[CPU_SETSIZE], count, threads;
  bool exclusive; /* kernels take all of them */
} cores;

/* Kernels are timed on the last cores, and candidates built on the others; where kernels want them all, builds stand
 * still meanwhile. */
static void divide_cores(const tn_tuner *t, cores *out) {
  cpu_set_t set;
  *out = (cores){.threads = 1};
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &set)) out->all[out->count++] = i;
  for (int i = 0; i < tn__tasks_count(t->tasks); i++)
    if (tn__tasks_at(t->tasks, i)->task.threads > out->threads) out->threads = tn__tasks_at(t->tasks, i)->task.threads;
  out->exclusive = out->threads >= out->count;
}

static tn_status *start_builder(tn_tuner *t, const cores *c) {
  int building = c->exclusive ? c->count : c->count - c->threads;
  const tn_worker_options options = {.size = sizeof options,
                                     .loop = t->loop,
                                     .program = t->options.program,
                                     .workers = t->options.builders > 0 ? t->options.builders
                                                : building < 1          ? 1
                                                                        : building,
                                     .cores = c->all,
                                     .core_count = building,
                                     .nice = c->exclusive ? 0 : 5};
  t->own_builder = true;
  return tn_worker_builder_create(&options, &t->builder);
}

static tn_status *start_runner(tn_tuner *t, const cores *c) {
  const tn_worker_options options = {.size = sizeof options,
                                     .loop = t->loop,
                                     .program = t->options.program,
                                     .workers = 1,
                                     .cores = &c->all[c->exclusive ? 0 : c->count - c->threads],
                                     .core_count = c->exclusive ? c->count : c->threads};
  const tn_timing_options timing = {.size = sizeof timing, .cache = t->options.cache, .verify = TN_VERIFY_FIRST};
  tn_runner *runner;
  TN_RETURN_IF_ERROR(tn_worker_runner_create(&options, &timing, &runner));
  t->own_runners = true;
  tn_status *status = append_runner(t, runner);
  if (status != NULL) tn_runner_release(runner);
  return status;
}

/* In the searches' thread. */
static void core_ready(void *user) { uv_async_send(&((tn_tuner *)user)->wake); }

/* Those that nobody supplied. */
static tn_status *start_stations(tn_tuner *t, cores *c, tn__tuner_options *options) {
  if (t->options.deterministic) {
    TN_RETURN_IF_ERROR(tn__simulation_create(t->options.seed, &t->simulated));
    t->builder = tn__simulation_builder(t->simulated);
    options->clock = tn_simulator_now;
    options->clock_user = tn__simulation_clock(t->simulated);
    return append_runner(t, tn__simulation_runner(t->simulated));
  }
  divide_cores(t, c);
  if (t->builder == NULL) TN_RETURN_IF_ERROR(start_builder(t, c));
  if (t->runner_count == 0) TN_RETURN_IF_ERROR(start_runner(t, c));
  options->exclusive = c->exclusive && t->own_builder && t->own_runners;
  options->ready = t->options.search == TN_SEARCH_EVOLUTION ? core_ready : NULL;
  options->cores = c->all;
  options->core_count = c->exclusive ? 0 : c->count - c->threads;
  return NULL;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Do the trials fail as there are no workers any more? The message says why. */
static bool workers_ended(const tn_tuner *t) {
  tn_worker_statistics build = {.size = sizeof build}, run = {.size = sizeof run};
  if (t->own_builder) tn_status_free(tn_worker_builder_statistics(t->builder, &build));
  if (t->own_runners) tn_status_free(tn_worker_runner_statistics(t->runners[0], &run));
  return build.ended || run.ended;
}

static tn_status *add(void *user, const tn__tuner_record *r) {
  tn_tuner *t = user;
  if (r->result->error == TN_TRIAL_WORKER_LOST && workers_ended(t))
    return tn_status_create(TN_FAILED_PRECONDITION, "%s", r->result->message);
  return t->keeps ? tn__records_add(&t->records, r) : NULL;
}

static tn_status *known(void *user, const tn_tune_task *task, tn__search *search) {
  tn_tuner *t = user;
  return t->keeps ? tn__records_known(&t->records, task, search) : NULL;
}

static tn_status *compared(void *user, const tn_tune_task *task, const tn__compared *c) {
  tn_tuner *t = user;
  return t->keeps ? tn__records_compared(&t->records, task, c) : NULL;
}

static tn_status *verdicts(void *user, const tn_tune_task *task,
                           void (*take)(void *to, const tn__known_verdict *verdict), void *to) {
  const tn_tuner *t = user;
  return t->keeps ? tn__records_verdicts(&t->records, task, take, to) : NULL;
}

static tn_status *claim(void *user, const tn_tune_task *task, const tn__proposal *p, tn__tuner_claim *out) {
  tn_tuner *t = user;
  return t->keeps ? tn__records_claim(&t->records, task, p, out) : NULL;
}

static tn_status *learn(void *user, const tn_tune_task *like, tn__cost_model *model) {
  const tn_tuner *t = user;
  return t->keeps ? tn__records_learn(&t->records, like, model) : NULL;
}

static tn_status *learned(void *user, const tn_tune_task *like, const tn__cost_model *model) {
  const tn_tuner *t = user;
  if (t->keeps) tn__records_learned(&t->records, like, model);
  return NULL;
}

static tn_status *open_records(tn_tuner *t, tn__tuner_options *core) {
  const tn_tuner_options *o = &t->options;
  if (o->no_database || (o->deterministic && o->database == NULL)) return NULL;
  t->keeps = true;
  t->records.alone = o->no_seeds;
  t->records.log = &t->log;
  t->records.clock = o->deterministic ? core->clock : NULL;
  t->records.clock_user = core->clock_user;
  /* Waiting for another process counts against the budget. */
  const double longest = 10;
  double seconds = o->budget_seconds > 0 ? fmin(longest, o->budget_seconds) : longest;
  TN_RETURN_IF_ERROR(
      tn__records_open(&t->records, o->database, o->deterministic ? "simulated" : o->fingerprint, seconds));
  TN_RETURN_IF_ERROR(tn__records_of(&t->records, t->tasks, &t->spent_before));
  core->spent_before = t->spent_before;
  return NULL;
}

/* ---- working ----------------------------------------------------------------------------------------------------- */

static void show(const tn_tuner *t) {
  if (t->options.progress != NULL) t->options.progress(t->options.user, t);
}

static void core_done(void *user) { uv_async_send(&((tn_tuner *)user)->wake); }

static bool is_stopping(void *user) { return atomic_load(&((tn_tuner *)user)->stop) != NOT_STOPPED; }

/* Which tasks have no candidates left, and how many they had. */
static tn_status *note_exhausted(tn_tuner *t) {
  for (int i = 0; i < tn__tuner_task_count(t->core); i++) {
    const tn__tuner_view v = tn__tuner_view_of(t->core, i);
    if (v.exhausted && v.trials > 0) TN_RETURN_IF_ERROR(tn__records_exhausted(&t->records, i, v.trials));
  }
  return NULL;
}

/* Told once, outside of whatever made an end of it. */
static void end(tn_tuner *t) {
  t->ended = true;
  if (t->keeps)
    t->failure = tn__records_finish(
        &t->records, tn__records_patience(t->options.budget_seconds, t->spent_before + tn__tuner_spent(t->core)));
  if (t->keeps && t->failure == NULL) t->failure = note_exhausted(t);
  if (t->keeps && t->failure == NULL) t->failure = tn__records_spend(&t->records, tn__tuner_spent(t->core));
  uv_timer_stop(&t->tick);
  uv_idle_stop(&t->steps);
  uv_unref((uv_handle_t *)&t->wake);
  show(t);
  if (t->done != NULL) t->done(t->done_user, t);
}

static void on_wake(uv_async_t *handle) {
  tn_tuner *t = handle->data;
  if (t->core == NULL || t->ended) return;
  int stop = atomic_load(&t->stop);
  tn__tuner_wake(t->core);
  if (stop != NOT_STOPPED) {
    tn__tuner_stop(t->core, stop == STOPPED_AT_ONCE);
    show(t);
  }
  if (tn__tuner_is_done(t->core)) end(t);
}

/* Each second. What is simulated tells all of it in the end. */
static tn_status *note_spent(tn_tuner *t) {
  double spent = tn__tuner_spent(t->core);
  if (!t->keeps || t->simulated != NULL || spent - t->spends < 1) return NULL;
  t->spends = spent;
  return tn__records_spend(&t->records, spent);
}

static void on_tick(uv_timer_t *handle) {
  tn_tuner *t = handle->data;
  tn_status *status = t->keeps ? tn__records_flush(&t->records) : NULL;
  if (status == NULL && t->keeps && t->simulated == NULL) status = tn__records_renew(&t->records);
  if (status == NULL) status = note_spent(t);
  if (status != NULL) tn__tuner_fail(t->core, status);
  if (t->simulated == NULL) tn__tuner_tick(t->core);
  show(t);
}

static void on_step(uv_idle_t *handle) {
  const tn_tuner *t = handle->data;
  if (tn__tuner_is_done(t->core)) return;
  (void)tn_simulator_step(tn__simulation_clock(t->simulated));
  tn__tuner_tick(t->core);
}

static tn__tuner_options core_options(const tn_tuner *t) {
  static const tn__search_kind kinds[] = {TN__SEARCH_EVOLUTION, TN__SEARCH_RANDOM, TN__SEARCH_ALL};
  const tn_tuner_options *o = &t->options;
  bool all = o->search == TN_SEARCH_EXHAUSTIVE;
  return (tn__tuner_options){.budget_seconds = o->budget_seconds,
                             .trials = o->trials,
                             .target_speedup = o->target_speedup,
                             .patience = all ? INT_MAX : o->patience,
                             .seed = o->seed,
                             .kind = kinds[o->search],
                             .space = o->points,
                             .mode = o->mode,
                             .window = o->window,
                             .round = o->round,
                             .no_comparison = o->no_comparison || all,
                             .stopping = is_stopping,
                             .done = core_done,
                             .user = (void *)(uintptr_t)t};
}

static tn_status *begin(tn_tuner *t) {
  const tn__tuner_sink sink = {add, known, verdicts, claim, compared, learn, learned, t};
  tn__tuner_options options = core_options(t);
  cores c;
  if (tn__tasks_count(t->tasks) > 0 && t->runner_count == 0 && !t->options.deterministic)
    TN_RETURN_IF_ERROR(check_machine(t));
  if (!t->options.deterministic) TN_RETURN_IF_ERROR(open_records(t, &options));
  TN_RETURN_IF_ERROR(start_stations(t, &c, &options));
  if (t->options.deterministic) TN_RETURN_IF_ERROR(open_records(t, &options));
  TN_RETURN_IF_ERROR(tn__tuner_create(t->tasks, &sink, &options, &t->core));
  if (t->simulated != NULL) tn__simulation_of(t->simulated, t->core);
  return tn__tuner_start(t->core, t->builder, t->runners, t->runner_count);
}

tn_status *tn_tuner_start(tn_tuner *t, void (*done)(void *user, tn_tuner *tuner), void *user) {
  TN__NEED("tuner", t);
  TN_RETURN_IF_ERROR(check_not_begun(t, "it is started"));
  t->begun = true;
  tn_status *status = begin(t);
  if (status != NULL) {
    t->ended = true;
    return status;
  }
  t->done = done;
  t->done_user = user;
  uv_ref((uv_handle_t *)&t->wake);
  uv_timer_start(&t->tick, on_tick, 0, (uint64_t)ceil(1000 * t->options.progress_seconds));
  if (t->simulated != NULL) uv_idle_start(&t->steps, on_step);
  uv_async_send(&t->wake); /* it may have been stopped, or be done, already */
  return NULL;
}

tn_status *tn_tuner_run(tn_tuner *t) {
  TN__NEED("tuner", t);
  TN_RETURN_IF_ERROR(tn_tuner_start(t, NULL, NULL));
  while (!t->ended) uv_run(t->loop, UV_RUN_ONCE);
  return tn_tuner_result(t);
}

void tn_tuner_stop(tn_tuner *t, bool at_once) {
  if (t == NULL) return;
  if (at_once)
    atomic_store(&t->stop, STOPPED_AT_ONCE);
  else
    (void)atomic_compare_exchange_strong(&t->stop, &(int){NOT_STOPPED}, STOPPED);
  uv_async_send(&t->wake);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

tn_status *tn_tuner_result(const tn_tuner *t) {
  TN__NEED("tuner", t);
  const tn_status *failure = t->core != NULL ? tn__tuner_failure(t->core) : NULL; /* it came first */
  if (failure == NULL) failure = t->failure;
  return failure != NULL ? tn_status_create(tn_status_code_of(failure), "%s", tn_status_message(failure)) : NULL;
}

static tn_tuner_phase phase_of(const tn_tuner *t) {
  static const tn_tuner_phase phases[] = {[TN__TUNER_TRIALS] = TN_TUNER_MEASURES,
                                          [TN__TUNER_COMPARING] = TN_TUNER_COMPARES,
                                          [TN__TUNER_DONE] = TN_TUNER_DONE};
  if (t->core == NULL) return t->begun ? TN_TUNER_DONE : TN_TUNER_NOT_BEGUN;
  return phases[tn__tuner_phase_of(t->core)];
}

static tn_tuner_end end_of(const tn_tuner *t) {
  if (t->failure != NULL || (t->begun && t->core == NULL)) return TN_TUNER_FAILED;
  return phase_of(t) == TN_TUNER_DONE ? tn__tuner_end_of(t->core) : TN_TUNER_WORKS;
}

tn_status *tn_tuner_look(const tn_tuner *t, tn_tuner_view *out) {
  TN__NEED("tuner", t);
  TN__NEED("out", out);
  TN_RETURN_IF_ERROR(tn__filled_check("tn_tuner_view", out, sizeof *out));
  tn_tuner_view view = {.phase = phase_of(t),
                        .end = end_of(t),
                        .tasks = tn__tasks_count(t->tasks),
                        .left = INFINITY,
                        .static_seconds = INFINITY,
                        .best_seconds = INFINITY};
  if (t->core != NULL) {
    tn_measure_statistics s = {.size = sizeof s};
    TN_RETURN_IF_ERROR(tn__tuner_statistics(t->core, &s));
    view.trials = s.ended - s.errors[TN_TRIAL_CANCELLED];
    view.known = tn__tuner_known(t->core);
    view.seconds = s.seconds;
    view.spent = t->spent_before + tn__tuner_spent(t->core);
    view.left = tn__tuner_time_left(t->core);
    view.builder_share = s.builder_share;
    view.runner_share = s.runner_share;
    tn__tuner_overhead o = tn__tuner_overhead_of(t->core);
    view.overhead = o.wall > 0 ? (o.search + o.database) / o.wall : 0;
    view.beside = o.wall > 0 ? o.beside / o.wall : 0;
    tn__tuner_totals(t->core, &view.static_seconds, &view.best_seconds);
    for (int i = 0; i < view.tasks; i++) {
      int seeds = tn__search_seeds(tn__tuner_view_of(t->core, i).search);
      view.seeds += seeds;
      view.seeded += seeds > 0;
    }
  }
  tn__filled_write(out, &view, sizeof view);
  return NULL;
}

static tn_status *check_task(const tn_tuner *t, int task) {
  int count = tn__tasks_count(t->tasks);
  if (task >= 0 && task < count) return NULL;
  return tn_status_create(TN_OUT_OF_RANGE, "there is no kernel %d: the tuner has %d", task, count);
}

tn_status *tn_tuner_look_at(const tn_tuner *t, int task, tn_task_view *out) {
  TN__NEED("tuner", t);
  TN__NEED("out", out);
  static const int64_t none[TN_TRIAL_ERRORS];
  TN_RETURN_IF_ERROR(tn__filled_check("tn_task_view", out, sizeof *out));
  TN_RETURN_IF_ERROR(check_task(t, task));
  const tn__task_item *item = tn__tasks_at(t->tasks, task);
  tn_task_view view = {.task = &item->task,
                       .weight = item->weight,
                       .static_seconds = INFINITY,
                       .best_seconds = INFINITY,
                       .errors = none,
                       .ratio = 1,
                       .best = -1,
                       .correlation = NAN,
                       .recall = NAN};
  if (t->core != NULL) {
    tn__tuner_view v = tn__tuner_view_of(t->core, task);
    view.static_seconds = v.static_seconds;
    view.best_seconds = v.best_seconds;
    view.trials = v.trials;
    view.errors = v.error_counts;
    view.first_error = v.first_error;
    view.stopped = v.stopped;
    view.exhausted = v.exhausted;
    view.compared = v.compared;
    view.better = v.better;
    view.ratio = v.ratio;
    tn__accuracy accuracy;
    TN_RETURN_IF_ERROR(tn__tuner_accuracy(t->core, task, &accuracy));
    view.correlation = accuracy.correlation;
    view.recall = accuracy.recall;
    if (v.best != NULL) {
      view.best = v.best->index;
      view.rule = v.best->rule;
      view.decisions = v.best->decisions;
      view.trace = v.best->trace;
    }
  }
  tn__filled_write(out, &view, sizeof view);
  return NULL;
}

/* ---- what was found ---------------------------------------------------------------------------------------------- */

tn_status *tn_tuner_schedules(const tn_tuner *t, char **text, int *count) {
  TN__NEED("text", text);
  *text = NULL;
  TN__NEED("tuner", t);
  if (phase_of(t) != TN_TUNER_DONE || t->core == NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "the schedules of a tuner are there when it is done");
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  char machine[TN__MACHINE_IDENTITY_BYTES];
  tn__machine_identity("", machine);
  const char *fingerprint = t->options.fingerprint != NULL ? t->options.fingerprint : machine;
  int found = tn__tuner_print_schedules(t->core, fingerprint, t->options.deterministic, &out);
  tn_status *status = tn__strbuf_status(&out);
  if (status == NULL && (*text = strdup(tn__strbuf_text(&out))) == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the text of the schedules");
  tn__strbuf_release(&out);
  if (status == NULL && count != NULL) *count = found;
  return status;
}

tn_status *tn_tuner_save(const tn_tuner *t, const char *path, int *count) {
  TN__NEED("tuner", t);
  TN__NEED("path", path);
  char *text;
  TN_RETURN_IF_ERROR(tn_tuner_schedules(t, &text, count));
  tn_status *status = tn__file_write_atomic(path, &(tn__bytes){text, strlen(text)}, 1, 0644);
  free(text);
  return status;
}

tn_status *tn_tuner_save_table(const tn_tuner *t, int task, const char *path) {
  TN__NEED("tuner", t);
  TN__NEED("path", path);
  TN_RETURN_IF_ERROR(check_task(t, task));
  const char *name = tn__tasks_at(t->tasks, task)->task.name;
  if (t->core == NULL || !tn__tuner_view_of(t->core, task).stopped)
    return tn_status_create(TN_FAILED_PRECONDITION, "%s: not all of its space was measured; start again to go on",
                            name);
  const tn__tuner_view v = tn__tuner_view_of(t->core, task);
  if (v.best == NULL)
    return tn_status_create(TN_NOT_FOUND, "%s: no candidate of it works, and there is no table", name);
  return tn__table_write(v.space, v.search, path);
}
