/* Builders and runners whose function blocks: each call is made in a thread of the pool's own.
 *
 * A call goes round: the loop's thread fills in a slot and wakes a thread; that one calls the function and puts the
 * slot into the list of those that are done; the loop tells the result, whose texts are the function's still; then the
 * thread disposes of it. The slot is free for the loop as soon as the result was told. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tenon/tune.h"

enum { MOST_THREADS = 256 };

/* The functions of either kind. */
typedef struct functions {
  void (*build)(void *self, const tn_build_input *input, tn_build_result *result);
  void (*run)(void *self, const tn_build_input *input, const tn_build_result *build, tn_run_result *result);
  void (*dispose_build)(void *self, tn_build_result *result);
  void (*dispose_run)(void *self, tn_run_result *result);
  void (*release)(void *self);
} functions;

typedef enum call_state {
  WAITS,
  TELLING, /* the loop tells the result */
  TOLD     /* it needs it no more */
} call_state;

/* One submission, whose texts are copies: the caller's may be gone when it was cancelled. */
typedef struct call call;
struct call {
  call *next;
  tn_trial_handle handle;
  tn_tune_task task;
  tn_build_input input;
  tn_build_result build; /* that is run; or that was made */
  tn_run_result run;
  call_state state;
  char *texts; /* what all of these point to */
};

typedef struct pool {
  functions functions;
  void *self;
  uv_async_t done;     /* something is in `ended` */
  tn_builder *builder; /* one of the two, once something was started */
  tn_runner *runner;
  pthread_mutex_t lock;
  pthread_cond_t work, told;
  call *first, *last;       /* to be made */
  call *ended, *last_ended; /* to be told */
  int threads;              /* that have not ended */
  bool releasing, closed, self_released;
} pool;

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Where copies go; without a place their size is counted alone. */
typedef struct copier {
  char *place;
  size_t size;
} copier;

static const void *copy(copier *c, const void *data, size_t size) {
  if (data == NULL) return NULL;
  void *at = c->place != NULL ? c->place + c->size : NULL;
  if (at != NULL) memcpy(at, data, size);
  c->size += (size + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
  return c->place != NULL ? at : data;
}

static void copy_text(copier *c, const char **text) {
  if (*text != NULL) *text = copy(c, *text, strlen(*text) + 1);
}

static void copy_task(copier *c, tn_tune_task *task) {
  copy_text(c, &task->name);
  copy_text(c, &task->declaration);
  copy_text(c, &task->target);
  copy_text(c, &task->machine);
  if (task->dim_count <= 0) return;
  const char *const *names = task->dims;
  task->sizes = copy(c, task->sizes, (size_t)task->dim_count * sizeof task->sizes[0]);
  task->dims = copy(c, names, (size_t)task->dim_count * sizeof names[0]);
  for (int i = 0; i < task->dim_count; i++) {
    const char *name = names[i];
    copy_text(c, &name);
    if (c->place != NULL) ((const char **)(uintptr_t)task->dims)[i] = name;
  }
}

static void copy_all(copier *c, call *to, const tn_build_input *input, const tn_build_result *build) {
  to->input = *input;
  if (input->task != NULL) {
    to->task = *input->task;
    copy_task(c, &to->task);
    to->input.task = &to->task;
  }
  copy_text(c, &to->input.rule);
  copy_text(c, &to->input.schedule);
  if (build == NULL) return;
  to->build = *build;
  to->build.code = copy(c, build->code, build->code_size);
  copy_text(c, &to->build.message);
  copy_text(c, &to->build.trace);
}

static call *new_call(tn_trial_handle handle, const tn_build_input *input, const tn_build_result *build) {
  copier c = {0};
  call *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  copy_all(&c, made, input, build);
  c.place = made->texts = malloc(c.size > 0 ? c.size : 1);
  if (made->texts == NULL) {
    free(made);
    return NULL;
  }
  c.size = 0;
  copy_all(&c, made, input, build);
  made->handle = handle;
  return made;
}

static void free_call(call *c) {
  free(c->texts);
  free(c);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void append(call **first, call **last, call *c) {
  c->next = NULL;
  if (*first != NULL)
    (*last)->next = c;
  else
    *first = c;
  *last = c;
}

static call *take(call **first) {
  call *c = *first;
  if (c != NULL) *first = c->next;
  return c;
}

static void make(const pool *p, call *c) {
  if (p->functions.build != NULL)
    p->functions.build(p->self, &c->input, &c->build);
  else
    p->functions.run(p->self, &c->input, &c->build, &c->run);
}

static void dispose(const pool *p, call *c) {
  if (p->functions.dispose_build != NULL) p->functions.dispose_build(p->self, &c->build);
  if (p->functions.dispose_run != NULL) p->functions.dispose_run(p->self, &c->run);
  free_call(c);
}

static void destroy(pool *p) {
  pthread_cond_destroy(&p->told);
  pthread_cond_destroy(&p->work);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static void *work(void *user) {
  pool *p = user;
  pthread_mutex_lock(&p->lock);
  while (!p->releasing) {
    call *c = take(&p->first);
    if (c == NULL) {
      pthread_cond_wait(&p->work, &p->lock);
      continue;
    }
    pthread_mutex_unlock(&p->lock);
    make(p, c);
    pthread_mutex_lock(&p->lock);
    if (!p->releasing) {
      append(&p->ended, &p->last_ended, c);
      uv_async_send(&p->done);
    }
    while (c->state != TOLD && !(p->releasing && c->state != TELLING)) pthread_cond_wait(&p->told, &p->lock);
    pthread_mutex_unlock(&p->lock);
    dispose(p, c);
    pthread_mutex_lock(&p->lock);
  }
  bool last = --p->threads == 0;
  pthread_mutex_unlock(&p->lock);
  if (!last) return NULL;
  if (p->functions.release != NULL) p->functions.release(p->self);
  pthread_mutex_lock(&p->lock);
  p->self_released = true;
  bool all = p->closed;
  pthread_mutex_unlock(&p->lock);
  if (all) destroy(p);
  return NULL;
}

/* False when there can be none. Signals are for the threads of the program; those of a thread's own errors cannot wait.
 */
static bool start_thread(pool *p) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, NULL, work, p) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_detach(thread);
  return started;
}

/* ---- the loop's side --------------------------------------------------------------------------------------------- */

static void set_state(pool *p, call *c, call_state state) {
  pthread_mutex_lock(&p->lock);
  c->state = state;
  pthread_cond_broadcast(&p->told);
  pthread_mutex_unlock(&p->lock);
}

static call *take_ended(pool *p) {
  pthread_mutex_lock(&p->lock);
  call *c = p->releasing ? NULL : take(&p->ended);
  if (c != NULL) c->state = TELLING;
  pthread_mutex_unlock(&p->lock);
  return c;
}

static void on_done(uv_async_t *async) {
  pool *p = async->data;
  for (call *c; (c = take_ended(p)) != NULL;) { /* whoever is told may release the pool */
    if (p->builder != NULL)
      tn_builder_finish(p->builder, c->handle, &c->build);
    else
      tn_runner_finish(p->runner, c->handle, &c->run);
    set_state(p, c, TOLD);
  }
}

static void give(pool *p, call *c) {
  pthread_mutex_lock(&p->lock);
  append(&p->first, &p->last, c);
  pthread_cond_signal(&p->work);
  pthread_mutex_unlock(&p->lock);
}

static void start_build(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  static const tn_build_result no_memory = {.error = TN_TRIAL_WORKER_LOST, .message = "out of memory for a build"};
  pool *p = self;
  call *c = new_call(handle, input, NULL);
  p->builder = builder;
  if (c != NULL)
    give(p, c);
  else
    tn_builder_finish(builder, handle, &no_memory);
}

static void start_run(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                      const tn_build_result *build) {
  static const tn_run_result no_memory = {.error = TN_TRIAL_WORKER_LOST, .message = "out of memory for a run"};
  pool *p = self;
  call *c = new_call(handle, input, build);
  p->runner = runner;
  if (c != NULL)
    give(p, c);
  else
    tn_runner_finish(runner, handle, &no_memory);
}

static void on_close(uv_handle_t *handle) {
  pool *p = handle->data;
  pthread_mutex_lock(&p->lock);
  p->closed = true;
  bool all = p->self_released;
  pthread_mutex_unlock(&p->lock);
  if (all) destroy(p);
}

static void release(void *self) {
  pool *p = self;
  pthread_mutex_lock(&p->lock);
  p->releasing = true;
  p->ended = NULL; /* their threads have them */
  call *waiting = p->first;
  p->first = NULL;
  p->self_released = p->threads == 0; /* none could be started: by nobody */
  bool alone = p->threads == 0;
  pthread_cond_broadcast(&p->work);
  pthread_cond_broadcast(&p->told);
  pthread_mutex_unlock(&p->lock);
  for (call *c; (c = take(&waiting)) != NULL;) free_call(c);
  if (alone && p->functions.release != NULL) p->functions.release(p->self);
  uv_close((uv_handle_t *)&p->done, on_close);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static tn_status *read_options(const tn_thread_options *given, tn_thread_options *o) {
  if (given == NULL) return tn__argument_missing("tn_thread_options", "options");
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_thread_options, given, o));
  if (o->loop == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "threads that answer need a libuv loop (loop)");
  if (o->threads < 0 || o->threads > MOST_THREADS)
    return tn_status_create(TN_INVALID_ARGUMENT, "1 to %d threads, not %d", MOST_THREADS, o->threads);
  if (o->threads == 0) o->threads = 1;
  return NULL;
}

/* What was made is released by release(), also when this fails behind its first lines. */
static tn_status *create(const functions *f, void *self, const tn_thread_options *options, pool **out) {
  pool *p = calloc(1, sizeof *p);
  *out = NULL;
  if (p == NULL || uv_async_init(options->loop, &p->done, on_done) != 0) {
    free(p);
    if (f->release != NULL) f->release(self);
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for threads that build or run");
  }
  p->functions = *f;
  p->self = self;
  p->done.data = p;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->told, NULL);
  pthread_mutex_lock(&p->lock);
  while (p->threads < options->threads && start_thread(p)) p->threads++;
  int started = p->threads;
  pthread_mutex_unlock(&p->lock);
  if (started == options->threads) {
    *out = p;
    return NULL;
  }
  release(p);
  return tn_status_create(TN_OUT_OF_MEMORY, "of %d threads that build or run the system starts only %d",
                          options->threads, started);
}

static tn_station_options station_of(const tn_thread_options *o) {
  return (tn_station_options){.size = sizeof(tn_station_options),
                              .slots = o->threads,
                              .waiting = o->waiting,
                              .drained = o->drained,
                              .user = o->user};
}

tn_status *tn_thread_builder_create(const tn_thread_builder_functions *given, void *self,
                                    const tn_thread_options *options, tn_builder **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("functions", given);
  tn_thread_builder_functions f;
  tn_thread_options o;
  pool *p;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_thread_builder_functions, given, &f));
  if (f.build == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "a builder needs a function `build`");
  tn_status *status = read_options(options, &o);
  if (status != NULL) {
    if (f.release != NULL) f.release(self);
    return status;
  }
  const functions all = {.build = f.build, .dispose_build = f.dispose, .release = f.release};
  TN_RETURN_IF_ERROR(create(&all, self, &o, &p));
  const tn_builder_functions station = {.size = sizeof station, .start = start_build, .release = release};
  const tn_station_options slots = station_of(&o);
  return tn_builder_create(&station, p, &slots, out);
}

tn_status *tn_thread_runner_create(const tn_thread_runner_functions *given, void *self,
                                   const tn_thread_options *options, tn_runner **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("functions", given);
  tn_thread_runner_functions f;
  tn_thread_options o;
  pool *p;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_thread_runner_functions, given, &f));
  if (f.run == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "a runner needs a function `run`");
  tn_status *status = read_options(options, &o);
  if (status != NULL) {
    if (f.release != NULL) f.release(self);
    return status;
  }
  const functions all = {.run = f.run, .dispose_run = f.dispose, .release = f.release};
  TN_RETURN_IF_ERROR(create(&all, self, &o, &p));
  const tn_runner_functions station = {.size = sizeof station, .start = start_run, .release = release};
  const tn_station_options slots = station_of(&o);
  return tn_runner_create(&station, p, &slots, out);
}
