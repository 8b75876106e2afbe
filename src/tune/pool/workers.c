#include "tune/pool/workers.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/shown.h"
#include "tune/pool/process.h"

enum { MOST_WORKERS = 256, MOST_STARTS = 3 }; /* of one place, in a row, that come to nothing */
static const double start_seconds = 60;
/* Delay before a slot's next process, after one was killed from outside or could not be started. Doubles each time. */
static const double first_pause = 0.05, longest_pause = 2;
/* How often a candidate whose worker got little CPU time has its time limit extended. */
enum { MOST_EXTENSIONS = 4 };

typedef enum reason { BY_ITSELF, NOT_READY, PREPARED_TOO_LONG, WALL_PASSED, STARVED, NOT_UNDERSTOOD } reason;

/* One of the pool's workers, whichever process it is at the moment. */
typedef struct place {
  tn__workers *workers;
  tn__workers_process *process;  /* NULL: the pool has ended */
  bool ready;                    /* the process has reported readiness */
  reason reason;                 /* the reason for ending the process */
  int failures;                  /* consecutive processes that failed by themselves */
  int lost;                      /* consecutive processes that were killed from outside or could not be started */
  double due;                    /* the start time of the next process; 0: one is running, or none is planned */
  int extensions;                /* of the trial's time limit */
  int threads;                   /* that the trial may keep busy */
  double had;                    /* CPU seconds of the process when the trial's time began */
  bool known[TN__MESSAGE_SLOTS]; /* tasks that the process has received */
  tn__digest digests[TN__MESSAGE_SLOTS];
  uint64_t used[TN__MESSAGE_SLOTS], uses;
  bool busy, prepared;
  tn_trial_handle trial;
  tn__message task, message; /* of the trial */
  tn__digest digest;         /* of the task */
  double started;
  const char *refused; /* why the trial never began; NULL: it did */
} place;

struct tn__workers {
  uv_loop_t *loop;
  tn__workers_owner owner;
  void *user;
  char program[PATH_MAX];
  tn_worker_options options; /* filled in; its pointers are gone */
  tn__message setup;
  uv_async_t later; /* defers deliveries to the event loop */
  uv_timer_t again; /* for slots that wait for a process */
  int closing;      /* handles that are still open */
  tn_worker_statistics statistics;
  bool runs; /* runs candidates, rather than building them */
  bool paused, released;
  char *broken; /* why no more are started; NULL: they are */
  place places[];
};

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tn_status *check_numbers(const tn_worker_options *o) {
  if (o->loop == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "worker processes need a libuv loop (loop)");
  if (o->workers < 0 || o->workers > MOST_WORKERS)
    return tn_status_create(TN_INVALID_ARGUMENT, "1 to %d workers, not %d", MOST_WORKERS, o->workers);
  const struct {
    const char *name;
    double seconds;
  } times[] = {
      {"wall_seconds", o->wall_seconds}, {"cpu_seconds", o->cpu_seconds}, {"prepare_seconds", o->prepare_seconds}};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
    if (!(times[i].seconds >= 0 && times[i].seconds < 1e9))
      return tn_status_create(TN_INVALID_ARGUMENT, "%s: a time is 0 to 1e9 s, not %g", times[i].name, times[i].seconds);
  if (o->nice < 0 || o->nice > 19)
    return tn_status_create(TN_INVALID_ARGUMENT, "a worker's nice value is raised by 0 to 19, not %d", o->nice);
  TN_RETURN_IF_ERROR(
      tn__options_check_list("tn_worker_options", "cores", o->cores, "core_count", (int64_t)o->core_count));
  if (o->core_count > TN__MESSAGE_MOST_CORES)
    return tn_status_create(TN_INVALID_ARGUMENT, "at most %d cores, not %d", TN__MESSAGE_MOST_CORES, o->core_count);
  for (int i = 0; i < o->core_count; i++)
    if (o->cores[i] < 0 || o->cores[i] >= TN__MESSAGE_MOST_CORES)
      return tn_status_create(TN_INVALID_ARGUMENT, "there is no core %d", o->cores[i]);
  return NULL;
}

static uint64_t half_of_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : 0;
}

tn_status *tn__workers_options(const tn_worker_options *given, tn_worker_options *o) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_worker_options, given, o));
  TN_RETURN_IF_ERROR(check_numbers(o));
  if (o->workers == 0) o->workers = 1;
  if (o->wall_seconds == 0) o->wall_seconds = 10;
  if (o->prepare_seconds == 0) o->prepare_seconds = 120;
  if (o->memory_bytes == 0) o->memory_bytes = half_of_memory();
  return NULL;
}

static tn_status *write_setup(tn__message *m, const tn_worker_options *o, const tn_timing_options *timing, bool runs) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__message_setup), 0, &memory));
  tn__message_setup *setup = memory;
  *setup = (tn__message_setup){.runs = runs,
                               .cpu_seconds = o->cpu_seconds,
                               .memory_bytes = o->memory_bytes,
                               .nice = o->nice,
                               .core_count = o->core_count,
                               .timing = *timing};
  for (int i = 0; i < o->core_count; i++) setup->cores[i] = o->cores[i];
  tn__message_begin(m, TN__MESSAGE_SETUP);
  tn__message_put_setup(m, setup);
  tn__free(NULL, memory, sizeof(tn__message_setup), 0);
  return tn__message_end(m);
}

/* ---- processes and their trials ---------------------------------------------------------------------------------- */

static const tn__workers_events events;

static tn_status *start_process(place *p) {
  tn__workers *w = p->workers;
  p->ready = p->prepared = false;
  p->reason = BY_ITSELF;
  memset(p->known, 0, sizeof p->known);
  TN_RETURN_IF_ERROR(tn__workers_process_start(w->loop, w->program, &events, p, &p->process));
  w->statistics.started++;
  tn__workers_process_stop(p->process, w->paused);
  tn__workers_process_send(p->process, &w->setup);
  tn__workers_process_limit(p->process, start_seconds);
  return NULL;
}

/* The slot in which the process has the task, or gets it. */
static int slot_of(place *p) {
  int slot = 0;
  for (int i = 0; i < TN__MESSAGE_SLOTS; i++) {
    if (p->known[i] && tn__digest_equal(&p->digests[i], &p->digest)) {
      p->used[i] = ++p->uses;
      return i;
    }
    if (!p->known[i] ? p->known[slot] : p->known[slot] && p->used[i] < p->used[slot]) slot = i;
  }
  p->known[slot] = true;
  p->digests[slot] = p->digest;
  p->used[slot] = ++p->uses;
  tn__message_set_first(&p->task, (uint64_t)slot);
  tn__workers_process_send(p->process, &p->task);
  return slot;
}

static void dispatch(place *p) {
  p->prepared = false;
  p->extensions = 0;
  if (p->process == NULL) return; /* a later process gets it */
  int slot = slot_of(p);
  tn__message_set_first(&p->message, (uint64_t)slot);
  tn__workers_process_send(p->process, &p->message);
  if (p->ready) tn__workers_process_limit(p->process, p->workers->options.prepare_seconds);
}

/* False: the workers were released within. */
static bool lose(place *p, tn_trial_error error, const char *message) {
  tn__workers *w = p->workers;
  p->busy = false;
  w->owner.lost(w->user, p->trial, error, message, tn__now() - p->started);
  return !w->released;
}

static void on_later(uv_async_t *async) {
  tn__workers *w = async->data;
  for (int i = 0; i < w->statistics.workers; i++)
    if (w->places[i].busy && w->broken != NULL && !lose(&w->places[i], TN_TRIAL_WORKER_LOST, w->broken)) return;
  for (int i = 0; i < w->statistics.workers; i++) {
    const char *refused = w->places[i].refused;
    w->places[i].refused = NULL;
    if (refused != NULL && w->places[i].busy && !lose(&w->places[i], TN_TRIAL_INSTANTIATION, refused)) return;
  }
}

/* No more processes: every trial ends with the message, soon. */
static void break_all(tn__workers *w, const char *message) {
  if (w->broken != NULL || w->released) return;
  w->broken = strdup(message);
  if (w->broken == NULL) w->broken = strdup("out of memory");
  w->statistics.ended = true;
  for (int i = 0; i < w->statistics.workers; i++) {
    if (w->places[i].process != NULL) tn__workers_process_drop(w->places[i].process);
    w->places[i].process = NULL;
    w->places[i].due = 0;
  }
  (void)uv_async_send(&w->later);
}

/* ---- how processes end ------------------------------------------------------------------------------------------- */

static void append_tail(tn__strbuf *text, const tn__workers_process *p) {
  size_t size = p->tail_size;
  const char *tail = p->tail;
  while (size > 0 && (tail[size - 1] == '\n' || tail[size - 1] == ' ')) size--;
  if (size == 0) return;
  tn__strbuf tidy;
  tn__strbuf_init(&tidy, NULL);
  tn__strbuf_append_n(&tidy, tail, size);
  tn__strbuf_append(text, "; its last words: ");
  tn__strbuf_shown(text, tn__strbuf_text(&tidy));
  tn__strbuf_release(&tidy);
}

static void append_end(tn__strbuf *text, const tn__workers_process *p) {
  if (p->exit_signal != 0)
    tn__strbuf_printf(text, "signal %d (%s)", p->exit_signal, strsignal(p->exit_signal));
  else
    tn__strbuf_printf(text, "exit status %lld", (long long)p->exit_status);
}

static bool is_fault(int signal) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
    if (faults[i] == signal) return true;
  return false;
}

/* LLVM and the C++ library tell so, and abort then. */
static bool is_out_of_memory(const tn__workers_process *p) {
  return strstr(p->tail, "out of memory") != NULL || strstr(p->tail, "bad_alloc") != NULL ||
         strstr(p->tail, "annot allocate memory") != NULL;
}

static tn_trial_error classify_end(const place *p, tn__strbuf *text) {
  const tn__workers *w = p->workers;
  const tn__workers_process *process = p->process;
  const char *does = w->owner.does;
  if (process->exit_signal == SIGPROF) {
    tn__strbuf_printf(text, "%s took more than %g s of CPU time", does, w->options.cpu_seconds);
    return w->owner.limit;
  }
  if (is_out_of_memory(process)) {
    tn__strbuf_printf(text, "%s needed more memory than %llu MiB: the worker ended by ", does,
                      (unsigned long long)(w->options.memory_bytes >> 20));
    append_end(text, process);
    append_tail(text, process);
    return w->owner.limit;
  }
  tn__strbuf_printf(text, "%s ended the worker by ", does);
  append_end(text, process);
  append_tail(text, process);
  bool fault = process->exit_signal != 0 ? is_fault(process->exit_signal) : process->exit_status != 0;
  return fault ? w->owner.fault : TN_TRIAL_WORKER_LOST;
}

static tn_trial_error classify(const place *p, tn__strbuf *text) {
  const tn_worker_options *o = &p->workers->options;
  const char *does = p->workers->owner.does;
  switch (p->reason) {
    case WALL_PASSED:
      tn__strbuf_printf(text, "%s took more than %g s", does, o->wall_seconds);
      return p->workers->owner.limit;
    case PREPARED_TOO_LONG:
      tn__strbuf_printf(text, "before %s, opening the task took more than %g s (prepare_seconds)", does,
                        o->prepare_seconds);
      return TN_TRIAL_WORKER_LOST;
    case STARVED:
      tn__strbuf_printf(text, "%s was not done in %g s, in which its worker got hardly any time of a processor", does,
                        (1 + MOST_EXTENSIONS) * o->wall_seconds);
      return TN_TRIAL_WORKER_LOST;
    case NOT_UNDERSTOOD:
      tn__strbuf_printf(text, "%s left the worker with answers that cannot be understood, and it was ended", does);
      append_tail(text, p->process);
      return TN_TRIAL_WORKER_LOST;
    default: break;
  }
  if (p->prepared) return classify_end(p, text);
  tn__strbuf_printf(text, "before %s, the worker ended by ", does);
  append_end(text, p->process);
  append_tail(text, p->process);
  return TN_TRIAL_WORKER_LOST;
}

static void start_again(place *p);

/* Starts the processes that are due, and sets the timer for the rest. */
static void on_again(uv_timer_t *timer) {
  tn__workers *w = timer->data;
  double soonest = INFINITY;
  for (int i = 0; i < w->statistics.workers && w->broken == NULL; i++) {
    place *p = &w->places[i];
    if (p->due > 0 && p->due <= tn__now()) start_again(p);
    if (p->due > 0) soonest = fmin(soonest, p->due);
  }
  if (w->broken != NULL || isinf(soonest)) return;
  uv_update_time(w->loop);
  uv_timer_start(&w->again, on_again, (uint64_t)(1e3 * fmax(soonest - tn__now(), 0)) + 1, 0);
}

/* Starts a new process for the slot after a delay, which grows with each failure. Kills from outside and lack of
 * memory are not the candidate's fault and may pass. */
static void start_later(place *p) {
  double pause = fmin(first_pause * exp2(p->lost), longest_pause);
  p->lost++;
  p->due = tn__now() + pause;
  on_again(&p->workers->again);
}

static void start_again(place *p) {
  tn__workers *w = p->workers;
  p->due = 0;
  tn_status *status = start_process(p);
  if (status == NULL) {
    w->statistics.replaced++;
    if (p->busy && p->refused == NULL) dispatch(p);
    return;
  }
  p->process = NULL;
  if (tn_status_code_of(status) == TN_OUT_OF_MEMORY)
    start_later(p);
  else
    break_all(w, tn_status_message(status));
  tn_status_free(status);
}

/* Returns whether the process ended for an external reason: neither by itself nor by the tuner's judgement of its
 * candidate. */
static bool ended_from_outside(const place *p, const tn__workers_process *process) {
  if (p->reason == NOT_READY || p->reason == STARVED) return true;
  return p->reason == BY_ITSELF && process->exit_signal != 0 && !is_fault(process->exit_signal) &&
         process->exit_signal != SIGPROF;
}

/* A process that has ended at its start, or without a trial. */
static void fail_start(place *p, tn__workers_process *process) {
  tn__workers *w = p->workers;
  if (ended_from_outside(p, process)) {
    tn__workers_process_drop(process);
    start_later(p);
    return;
  }
  if (++p->failures < MOST_STARTS) {
    tn__workers_process_drop(process);
    start_again(p);
    return;
  }
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_printf(&text, "the worker program %s ended %d times in a row before it did anything, at last by ",
                    w->program, MOST_STARTS);
  append_end(&text, process);
  append_tail(&text, process);
  tn__workers_process_drop(process);
  break_all(w, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

static void on_gone(void *user) {
  place *p = user;
  tn__workers_process *process = p->process;
  if (!p->ready || !p->busy) {
    p->process = NULL;
    fail_start(p, process);
    return;
  }
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn_trial_error error = classify(p, &text);
  const tn_trial_handle trial = p->trial;
  const double seconds = tn__now() - p->started;
  tn__workers *w = p->workers;
  bool outside = ended_from_outside(p, process);
  tn__workers_process_drop(process);
  p->process = NULL;
  p->failures = 0;
  p->busy = false; /* the new process gets nothing of it */
  if (outside)
    start_later(p);
  else
    start_again(p);
  if (!w->released) w->owner.lost(w->user, trial, error, tn__strbuf_text(&text), seconds);
  tn__strbuf_release(&text);
}

/* Returns whether the trial got its share of CPU time since it began. If unknown, returns true. */
static bool is_starved(const place *p) {
  const tn_worker_options *o = &p->workers->options;
  double seconds = tn__workers_process_seconds(p->process);
  return seconds >= 0 && seconds - p->had < 0.5 * o->wall_seconds * p->threads;
}

static void on_late(void *user) {
  place *p = user;
  p->reason = !p->ready ? NOT_READY : !p->prepared ? PREPARED_TOO_LONG : WALL_PASSED;
  if (p->reason == WALL_PASSED && is_starved(p)) {
    if (p->extensions++ < MOST_EXTENSIONS) {
      p->reason = BY_ITSELF;
      tn__workers_process_limit(p->process, p->workers->options.wall_seconds);
      return;
    }
    p->reason = STARVED;
  }
  tn__workers_process_kill(p->process);
}

/* ---- what processes say ------------------------------------------------------------------------------------------ */

static bool not_understood(place *p) {
  p->reason = NOT_UNDERSTOOD;
  tn__workers_process_kill(p->process);
  return false;
}

static bool take_ready(place *p, tn__message_reader *r) {
  tn__workers *w = p->workers;
  uint64_t protocol = tn__message_get_u64(r);
  const char *version = tn__message_get_text(r);
  if (p->ready || !tn__message_got_all(r) || version == NULL) return not_understood(p);
  if (protocol != TN__MESSAGE_PROTOCOL || strcmp(version, tn_version()) != 0) {
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__strbuf_printf(&text, "the worker program %s is of version ", w->program);
    tn__strbuf_shown(&text, version);
    tn__strbuf_printf(&text, " (protocol %llu), and this library of %s (%d): install them together",
                      (unsigned long long)protocol, tn_version(), TN__MESSAGE_PROTOCOL);
    break_all(w, tn__strbuf_text(&text));
    tn__strbuf_release(&text);
    return false;
  }
  p->ready = true;
  tn__workers_process_limit(p->process, p->busy ? w->options.prepare_seconds : 0);
  return true;
}

static bool take_prepared(place *p, tn__message_reader *r) {
  uint64_t trial = tn__message_get_u64(r);
  if (!p->busy || p->prepared || trial != p->trial || !tn__message_got_all(r)) return not_understood(p);
  p->prepared = true;
  p->had = fmax(tn__workers_process_seconds(p->process), 0);
  tn__workers_process_limit(p->process, p->workers->options.wall_seconds);
  return true;
}

static bool take_answer(place *p, tn__message_reader *r) {
  tn__workers *w = p->workers;
  uint64_t trial = tn__message_get_u64(r);
  if (!p->busy || trial != p->trial || r->bad) return not_understood(p);
  bool prepared = p->prepared;
  int failures = p->failures, lost = p->lost;
  tn__workers_process_limit(p->process, 0);
  p->busy = p->prepared = false; /* the next may start within */
  p->failures = p->lost = 0;
  if (w->owner.done(w->user, trial, r)) return !w->released && p->process != NULL;
  p->busy = true;
  p->prepared = prepared;
  p->failures = failures;
  p->lost = lost;
  return not_understood(p);
}

static bool on_message(void *user, tn__message_frame *frame) {
  place *p = user;
  if (frame->fields.bad) return not_understood(p);
  if (frame->kind == TN__MESSAGE_READY) return take_ready(p, &frame->fields);
  if (!p->ready) return not_understood(p);
  if (frame->kind == TN__MESSAGE_PREPARED) return take_prepared(p, &frame->fields);
  if (frame->kind == p->workers->owner.answer) return take_answer(p, &frame->fields);
  return not_understood(p);
}

static const tn__workers_events events = {on_message, on_late, on_gone};

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const char *refusal_of(const tn_tune_task *task) {
  if (task == NULL || task->declaration == NULL) return "the candidate has no task that workers know of (declaration)";
  if (task->dim_count < 0 || task->dim_count > TN__MESSAGE_MOST_DIMS)
    return "the task has more than 16 open dimensions";
  if (task->dim_count > 0 && (task->dims == NULL || task->sizes == NULL))
    return "the task's open dimensions have no sizes";
  if (task->threads < 0 || task->threads > 1024) return "a task runs on 1 to 1024 threads";
  return NULL;
}

static void write_task(tn__message *m, const tn_tune_task *task) {
  tn__message_begin(m, TN__MESSAGE_TASK);
  tn__message_u64(m, 0); /* the slot */
  tn__message_put_task(m, task);
}

/* Returns an idle slot, preferably one with a process. */
static place *free_place(tn__workers *w) {
  place *found = NULL;
  for (int i = 0; i < w->statistics.workers; i++) {
    place *p = &w->places[i];
    if (!p->busy && (found == NULL || (found->process == NULL && p->process != NULL))) found = p;
  }
  return found;
}

/* Returns how many processors a trial can keep busy. */
static int busy_threads(const tn__workers *w, const tn_tune_task *task) {
  long processors = w->options.core_count > 0 ? w->options.core_count : sysconf(_SC_NPROCESSORS_ONLN);
  int threads = w->runs && task != NULL && task->threads > 1 ? task->threads : 1;
  return processors > 0 && threads > processors ? (int)processors : threads;
}

void tn__workers_start(tn__workers *w, tn_trial_handle trial, const tn_tune_task *task, tn__message *message) {
  place *p = free_place(w);
  p->busy = true;
  p->threads = busy_threads(w, task);
  p->trial = trial;
  p->started = tn__now();
  tn__message old = p->message;
  p->message = *message;
  *message = old;
  p->refused = refusal_of(task);
  if (p->refused == NULL) write_task(&p->task, task);
  tn_status *status = p->refused == NULL ? tn__message_end(&p->task) : NULL;
  if (status == NULL) status = tn__message_end(&p->message);
  if (status != NULL) break_all(w, tn_status_message(status));
  tn_status_free(status);
  if (w->broken != NULL || p->refused != NULL) {
    (void)uv_async_send(&w->later);
    return;
  }
  tn__sha256 hash;
  tn__sha256_init(&hash);
  tn__sha256_update(&hash, p->task.data, p->task.size);
  p->digest = tn__sha256_final(&hash);
  dispatch(p);
}

void tn__workers_pause(tn__workers *w, bool pause) {
  w->paused = pause;
  for (int i = 0; i < w->statistics.workers; i++)
    if (w->places[i].process != NULL) tn__workers_process_stop(w->places[i].process, pause);
}

static size_t bytes_for(int workers) { return sizeof(tn__workers) + (size_t)workers * sizeof(place); }

static void on_close(uv_handle_t *handle) {
  tn__workers *w = handle->data;
  if (--w->closing > 0) return;
  for (int i = 0; i < w->statistics.workers; i++) {
    tn__message_release(&w->places[i].task);
    tn__message_release(&w->places[i].message);
  }
  tn__message_release(&w->setup);
  free(w->broken);
  tn__free(NULL, w, bytes_for(w->statistics.workers), 0);
}

void tn__workers_release(tn__workers *w) {
  if (w == NULL) return;
  w->released = true;
  for (int i = 0; i < w->statistics.workers; i++) {
    if (w->places[i].process != NULL) tn__workers_process_drop(w->places[i].process);
    w->places[i].process = NULL;
  }
  w->closing = 2;
  uv_close((uv_handle_t *)&w->later, on_close);
  uv_close((uv_handle_t *)&w->again, on_close);
}

static tn_status *start_all(tn__workers *w, const tn_timing_options *timing, bool runs) {
  TN_RETURN_IF_ERROR(tn__workers_program(w->options.program, w->program, sizeof w->program));
  TN_RETURN_IF_ERROR(write_setup(&w->setup, &w->options, timing, runs));
  w->options.program = NULL;
  w->options.cores = NULL;
  for (int i = 0; i < w->statistics.workers; i++) TN_RETURN_IF_ERROR(start_process(&w->places[i]));
  return NULL;
}

/* A worker that has ended reads nothing more, which is no reason for its tuner to end. */
static void block_sigpipe(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

tn_status *tn__workers_create(const tn_worker_options *options, const tn_timing_options *timing, bool runs,
                              const tn__workers_owner *owner, void *user, tn__workers **out) {
  void *memory;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, bytes_for(options->workers), 0, &memory));
  tn__workers *w = memory;
  w->loop = options->loop;
  w->owner = *owner;
  w->user = user;
  w->options = *options;
  w->statistics = (tn_worker_statistics){.size = sizeof w->statistics, .workers = options->workers};
  if (uv_async_init(w->loop, &w->later, on_later) != 0) {
    tn__free(NULL, w, bytes_for(options->workers), 0);
    return tn_status_create(TN_IO, "the loop takes no more handles");
  }
  uv_timer_init(w->loop, &w->again);
  w->later.data = w->again.data = w;
  w->runs = runs;
  for (int i = 0; i < options->workers; i++) w->places[i].workers = w;
  block_sigpipe();
  tn_status *status = start_all(w, timing, runs);
  if (status != NULL)
    tn__workers_release(w);
  else
    *out = w;
  return status;
}

tn_worker_statistics tn__workers_statistics(const tn__workers *w) { return w->statistics; }
