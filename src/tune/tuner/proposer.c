#include "tune/tuner/proposer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum { READY = 4 /* proposals of a task that wait to be asked for */ };

typedef struct task {
  tn__search *search;
  const tn__proposal *ready[READY]; /* the oldest first */
  int ready_count;
  bool exhausted, wanted; /* wanted: it was asked for and nothing was ready */
  double promise;
} task;

typedef struct told {
  int task, index;
  double median;
} told;

struct tn__proposer {
  tn__proposer_words words;
  task *tasks;
  told *told; /* that the thread has not taken up */
  int told_count, told_capacity;
  bool threaded, ending;
  tn_status *failure;
  double seconds;
  cpu_set_t cores;
  pthread_t thread;
  pthread_mutex_t mutex; /* for all of the above while there is a thread, but for what only it touches: searches */
  pthread_cond_t work;
};

static void lock(const tn__proposer *p) {
  if (p->threaded) pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&p->mutex);
}

static void unlock(const tn__proposer *p) {
  if (p->threaded) pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&p->mutex);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void fail(tn__proposer *p, tn_status *status) {
  if (p->failure == NULL)
    p->failure = status;
  else
    tn_status_free(status);
}

/* Takes up all that was told; true when there was something. Called, and left, with the lock. */
static bool take_up(tn__proposer *p) {
  told *list = p->told;
  int count = p->told_count;
  if (count == 0) return false;
  p->told = NULL;
  p->told_count = p->told_capacity = 0;
  unlock(p);
  tn_status *status = NULL;
  for (int i = 0; i < count && status == NULL; i++)
    status = tn__search_tell(p->tasks[list[i].task].search, list[i].index, list[i].median);
  free(list);
  lock(p);
  fail(p, status);
  if (status != NULL) p->words.ready(p->words.user); /* who waits is told */
  return true;
}

/* The task that lacks proposals most: one that was asked for, else that with the fewest ready. */
static task *choose(const tn__proposer *p) {
  task *best = NULL;
  for (int i = 0; i < p->words.count; i++) {
    task *a = &p->tasks[i];
    if (a->exhausted || a->ready_count == READY) continue;
    bool sooner = best == NULL || (a->wanted && !best->wanted) ||
                  (a->wanted == best->wanted && a->ready_count < best->ready_count);
    if (sooner) best = a;
  }
  return best;
}

/* Makes a proposal; true when there was one to make. Called, and left, with the lock. */
static bool propose(tn__proposer *p) {
  task *a = choose(p);
  const tn__proposal *found;
  if (a == NULL) return false;
  unlock(p);
  tn_status *status = tn__search_next(a->search, &found);
  double promise = tn__search_promise(a->search);
  lock(p);
  fail(p, status);
  bool missed = a->ready_count == 0;
  a->promise = promise;
  a->wanted = false;
  a->exhausted = found == NULL || status != NULL;
  if (!a->exhausted) a->ready[a->ready_count++] = found;
  if (missed) p->words.ready(p->words.user);
  return true;
}

static void keep_apart(const tn__proposer *p) {
  enum { NICE = 5 };
  if (p->words.core_count > 0) pthread_setaffinity_np(pthread_self(), sizeof p->cores, &p->cores);
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}

static void *run(void *user) {
  tn__proposer *p = user;
  keep_apart(p);
  lock(p);
  while (!p->ending) {
    struct timespec used;
    bool worked = p->failure == NULL && (take_up(p) || propose(p));
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0)
      p->seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    if (!worked && !p->ending) pthread_cond_wait(&p->work, &p->mutex);
  }
  unlock(p);
  return NULL;
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */

/* Signals are the other threads'. */
static tn_status *start_thread(tn__proposer *p) {
  sigset_t all, before;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->work, NULL);
  p->threaded = true;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&p->thread, NULL, run, p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) return NULL;
  p->threaded = false;
  return tn_status_create(TN_IO, "cannot start a thread for the search: %s", strerror(error));
}

tn_status *tn__proposer_start(const tn__proposer_words *words, tn__proposer **out) {
  void *memory, *tasks;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__proposer), 0, &memory));
  tn__proposer *p = memory;
  *p = (tn__proposer){.words = *words};
  tn_status *status = tn__alloc(NULL, (size_t)words->count, sizeof(task), 0, &tasks);
  if (status == NULL) {
    p->tasks = tasks;
    for (int i = 0; i < words->count; i++) p->tasks[i] = (task){.search = words->searches[i], .promise = 1};
    for (int i = 0; i < words->core_count; i++) CPU_SET(words->cores[i], &p->cores);
    if (words->ready != NULL) status = start_thread(p);
  }
  if (status != NULL) {
    tn__proposer_release(p);
    return status;
  }
  *out = p;
  return NULL;
}

static void end_thread(tn__proposer *p) {
  if (!p->threaded) return;
  lock(p);
  p->ending = true;
  pthread_cond_signal(&p->work);
  unlock(p);
  pthread_join(p->thread, NULL);
  pthread_mutex_destroy(&p->mutex);
  pthread_cond_destroy(&p->work);
  p->threaded = false;
}

static tn_status *take_failure(tn__proposer *p) {
  tn_status *failure = p->failure;
  p->failure = NULL;
  return failure;
}

tn_status *tn__proposer_finish(tn__proposer *p) {
  end_thread(p);
  if (p->failure == NULL) take_up(p);
  return take_failure(p);
}

void tn__proposer_release(tn__proposer *p) {
  if (p == NULL) return;
  end_thread(p);
  tn_status_free(p->failure);
  free(p->told);
  tn__free(NULL, p->tasks, (size_t)p->words.count * sizeof(task), 0);
  tn__free(NULL, p, sizeof *p, 0);
}

/* ---- asking and telling ------------------------------------------------------------------------------------------ */

tn__proposer_state tn__proposer_state_of(const tn__proposer *p, int index) {
  const task *a = &p->tasks[index];
  lock(p);
  tn__proposer_state state = a->ready_count > 0 || !p->threaded ? TN__PROPOSER_READY : TN__PROPOSER_WORKING;
  if (a->ready_count == 0 && a->exhausted) state = TN__PROPOSER_EXHAUSTED;
  unlock(p);
  return state;
}

tn_status *tn__proposer_next(tn__proposer *p, int index, const tn__proposal **out) {
  task *a = &p->tasks[index];
  *out = NULL;
  if (!p->threaded) {
    tn_status *status = tn__search_next(a->search, out);
    a->exhausted = *out == NULL;
    return status;
  }
  lock(p);
  tn_status *status = take_failure(p);
  if (a->ready_count > 0) {
    *out = a->ready[0];
    memmove(a->ready, a->ready + 1, (size_t)--a->ready_count * sizeof a->ready[0]);
  }
  a->wanted = *out == NULL;
  pthread_cond_signal(&p->work);
  unlock(p);
  return status;
}

tn_status *tn__proposer_tell(tn__proposer *p, int index, int proposal, double median) {
  if (!p->threaded) return tn__search_tell(p->tasks[index].search, proposal, median);
  lock(p);
  tn_status *status = take_failure(p);
  if (p->told_count == p->told_capacity) {
    int capacity = p->told_capacity > 0 ? 2 * p->told_capacity : 16;
    told *grown = realloc(p->told, (size_t)capacity * sizeof *grown);
    if (grown != NULL) p->told = grown, p->told_capacity = capacity;
  }
  if (p->told_count < p->told_capacity)
    p->told[p->told_count++] = (told){index, proposal, median};
  else if (status == NULL)
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a result");
  pthread_cond_signal(&p->work);
  unlock(p);
  return status;
}

double tn__proposer_promise(const tn__proposer *p, int index) {
  const task *a = &p->tasks[index];
  if (!p->threaded && a->search != NULL) return tn__search_promise(a->search);
  lock(p);
  double promise = a->promise;
  unlock(p);
  return promise;
}

double tn__proposer_seconds(const tn__proposer *p) {
  lock(p);
  double seconds = p->seconds;
  unlock(p);
  return seconds;
}
