/* Fork and join in well under a microsecond while the workers spin, and no processor time at all while they sleep.
 *
 * One parallel loop at a time is open. A worker that sees an open loop enters it (`inside` + 1), looks again whether it
 * is still open, takes pieces from a shared counter until there are none, and leaves. The caller takes pieces too,
 * closes the loop, and waits only for the workers that are inside: one that is still waking up is not waited for, it
 * finds the loop closed. `inside` and `open` are sequentially consistent, so either the caller sees the worker inside,
 * or the worker sees the loop closed (Dekker's argument).
 *
 * Workers stay off the caller's processor: Linux likes to wake a thread where it ran last or where its waker runs (in
 * virtual machines above all, where it takes halted processors for busy ones), and a worker that waits there behind a
 * caller that never sleeps is only moved at some later tick, when a short invoke is over. */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/relax.h"
#include "runtime/pool.h"
#include "target/target.h"

enum { DEFAULT_SPIN_MICROSECONDS = 50, MOST_THREADS = 1024, SHARES = 2 };

typedef struct worker {
  tn_thread_pool *pool;
  pthread_t thread;
  _Atomic int processor; /* where it went to sleep, or is to wake up; -1: not known */
} worker;

typedef struct job {
  const tn_kernel_env *env, *inside; /* the caller's, and what pieces get */
  tn_kernel_task task;
  void *closure;
  int64_t count;
  _Atomic int64_t next;
  _Atomic int32_t result;
} job;

struct tn_thread_pool {
  tn_allocator copy;
  const tn_allocator *allocator;
  int threads;      /* with the caller's */
  int worker_count; /* that were started */
  int64_t spin_nanoseconds;
  worker *workers;
  cpu_set_t processors;   /* that the pool's maker might use; empty when there are more than a cpu_set_t holds */
  pthread_mutex_t turn;   /* held for the length of one parallel loop */
  tn__pool_caller anyone; /* for environments that are no caller's of their own */
  tn_kernel_env env;      /* for callers of tn_thread_pool_env() */
  job job;
  _Alignas(
      TN__LINE_BYTES) _Atomic uint32_t open; /* the ticket of the open loop, odd; even: none. What sleepers wait on */
  _Atomic uint32_t sleepers;
  _Atomic uint32_t invokes; /* that run now */
  _Atomic int64_t ended;    /* when there was none any more, in nanoseconds */
  _Atomic bool hurried;     /* the last invoke came soon after the one before: so may the next */
  _Atomic bool stop;
  _Alignas(TN__LINE_BYTES) _Atomic uint32_t inside;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
  syscall(SYS_futex, (void *)(uintptr_t)word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word) {
  syscall(SYS_futex, (void *)(uintptr_t)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* What a kernel calls inside of a parallel loop, or when there is one thread: everything here and now. */
static int32_t run_inline(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return count <= 0 ? TN_KERNEL_OK : task(env, closure, 0, count);
}

/* The next piece of the open loop: of what is left, a share of 1 / (threads * SHARES). Large pieces come first, as each
 * has its price, and single iterations last, so that the threads finish together: 14 tiles in pieces of two would leave
 * 8 for one thread and 6 for the other. A thread that comes late or runs slowly takes fewer of them. */
TN_MUST_USE static bool take_piece(tn_thread_pool *pool, int64_t *begin, int64_t *end) {
  job *j = &pool->job;
  *begin = atomic_load_explicit(&j->next, memory_order_relaxed);
  do {
    int64_t left = j->count - *begin, piece = left / ((int64_t)pool->threads * SHARES);
    if (left <= 0) return false;
    *end = *begin + (piece > 0 ? piece : 1);
  } while (!atomic_compare_exchange_weak_explicit(&j->next, begin, *end, memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void take_pieces(tn_thread_pool *pool) {
  job *j = &pool->job;
  int64_t begin, end;
  while (atomic_load_explicit(&j->result, memory_order_relaxed) == TN_KERNEL_OK && take_piece(pool, &begin, &end)) {
    int32_t result = tn__rt_is_cancelled(j->env) ? TN_KERNEL_CANCELLED : j->task(j->inside, j->closure, begin, end);
    int32_t none = TN_KERNEL_OK;
    if (result != TN_KERNEL_OK) atomic_compare_exchange_strong(&j->result, &none, result);
  }
}

/* ---- workers ---------------------------------------------------------------------------------------------------- */

static void work(tn_thread_pool *pool, uint32_t ticket) {
  atomic_fetch_add(&pool->inside, 1);
  if (atomic_load(&pool->open) == ticket) take_pieces(pool);
  atomic_fetch_sub(&pool->inside, 1);
}

/* The longest pause between two invokes that counts as none. */
static int64_t hurry(const tn_thread_pool *pool) {
  const int64_t usual = DEFAULT_SPIN_MICROSECONDS * 1000;
  return pool->spin_nanoseconds < usual ? pool->spin_nanoseconds : usual;
}

/* Is it worth while to spin? During an invoke, and for a moment after one of several in a row: waking a worker takes
 * as long as a small model runs. `*idle_since`: when the last invoke was seen to have ended, 0: it has not. */
TN_MUST_USE static bool may_spin(const tn_thread_pool *pool, int64_t time, int64_t *idle_since) {
  if (atomic_load_explicit(&pool->invokes, memory_order_relaxed) != 0) {
    *idle_since = 0;
    return true;
  }
  if (!atomic_load_explicit(&pool->hurried, memory_order_relaxed)) return false;
  if (*idle_since == 0) *idle_since = time;
  return time - *idle_since < hurry(pool);
}

/* Spins for a while, then sleeps, until `open` is not `seen`. Returns its value. */
static uint32_t await_change(worker *self, uint32_t seen) {
  tn_thread_pool *pool = self->pool;
  int64_t start = (int64_t)tn__clock(), idle_since = 0;
  for (uint32_t turn = 1;; turn++) {
    uint32_t now = atomic_load_explicit(&pool->open, memory_order_acquire);
    if (now != seen) return now;
    tn__relax();
    if (turn % 32 != 0) continue;
    int64_t time = (int64_t)tn__clock();
    if (time - start >= pool->spin_nanoseconds || !may_spin(pool, time, &idle_since)) break;
  }
  atomic_store(&self->processor, sched_getcpu());
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->open) == seen && !atomic_load(&pool->stop)) futex_wait(&pool->open, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
  return atomic_load(&pool->open);
}

static void *worker_main(void *argument) {
  worker *self = argument;
  tn_thread_pool *pool = self->pool;
  uint32_t seen = 0;
  while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
    uint32_t ticket = await_change(self, seen);
    if (ticket & 1) work(pool, ticket);
    seen = ticket;
  }
  return NULL;
}

/* Moves sleeping workers off the caller's processor and off each other's where others are left. */
static void spread_workers(tn_thread_pool *pool) {
  int own = sched_getcpu();
  if (own < 0 || own >= CPU_SETSIZE || CPU_COUNT(&pool->processors) <= 1) return;
  cpu_set_t left = pool->processors;
  CPU_CLR(own, &left);
  for (int i = 0; i < pool->worker_count; i++) {
    worker *w = &pool->workers[i];
    int at = atomic_load(&w->processor);
    if (CPU_COUNT(&left) == 0) return;
    if (at >= 0 && at < CPU_SETSIZE && !CPU_ISSET(at, &left)) {
      if (pthread_setaffinity_np(w->thread, sizeof(left), &left) != 0) return;
      for (at = 0; !CPU_ISSET(at, &left);) at++;
      atomic_store(&w->processor, at);
    }
    if (at >= 0 && at < CPU_SETSIZE) CPU_CLR(at, &left);
  }
}

static void close_loop(tn_thread_pool *pool) {
  atomic_fetch_add(&pool->open, 1);
  /* A worker may be in its last piece, or may have lost its processor there. */
  for (uint32_t turn = 1; atomic_load(&pool->inside) != 0; turn++) {
    tn__relax();
    if (turn % 4096 == 0) sched_yield();
  }
}

static int32_t run_parallel(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  const tn__pool_caller *caller = env->user;
  tn_thread_pool *pool = caller->pool;
  if (count <= 1) return run_inline(&caller->inside, task, closure, count);
  pthread_mutex_lock(&pool->turn);
  job *j = &pool->job;
  j->env = env, j->inside = &caller->inside;
  j->task = task, j->closure = closure, j->count = count;
  atomic_store_explicit(&j->next, 0, memory_order_relaxed);
  atomic_store_explicit(&j->result, TN_KERNEL_OK, memory_order_relaxed);
  atomic_fetch_add(&pool->open, 1);
  if (atomic_load(&pool->sleepers) > 0) {
    spread_workers(pool);
    futex_wake_all(&pool->open);
  }
  take_pieces(pool);
  close_loop(pool);
  int32_t result = atomic_load_explicit(&j->result, memory_order_relaxed);
  pthread_mutex_unlock(&pool->turn);
  return result;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static tn_status *start_workers(tn_thread_pool *pool, bool pinned) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(pool->allocator, (size_t)pool->threads, sizeof(worker), 0, &memory));
  pool->workers = memory;
  if (!pinned && sched_getaffinity(0, sizeof(pool->processors), &pool->processors) != 0) CPU_ZERO(&pool->processors);
  /* Signals are for the program's own threads. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  while (error == 0 && pool->worker_count < pool->threads - 1) {
    worker *w = &pool->workers[pool->worker_count];
    w->pool = pool;
    atomic_init(&w->processor, -1);
    error = pthread_create(&w->thread, NULL, worker_main, w);
    if (error != 0) break;
    char name[16]; /* what the kernel keeps of it */
    snprintf(name, sizeof(name), "tenon-%u", (unsigned)pool->worker_count % 10000 + 1);
    pthread_setname_np(w->thread, name);
    pool->worker_count++;
    if (pinned) error = pthread_setaffinity_np(w->thread, sizeof(pool->processors), &pool->processors);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) return NULL;
  return tn_status_create(TN_FAILED_PRECONDITION, "the operating system refused thread %d of %d: %s",
                          pool->worker_count + 1, pool->threads - 1, strerror(error));
}

static tn_status *choose_processors(tn_thread_pool *pool, const tn_thread_pool_options *options) {
  CPU_ZERO(&pool->processors);
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_thread_pool_options", "processors", options->processors,
                                            "processor_count", options->processor_count));
  for (int i = 0; i < options->processor_count; i++) {
    int number = options->processors[i];
    if (number < 0 || number >= CPU_SETSIZE)
      return tn_status_create(TN_INVALID_ARGUMENT, "processor %d: the numbers go from 0 to %d", number,
                              CPU_SETSIZE - 1);
    CPU_SET(number, &pool->processors);
  }
  return NULL;
}

tn_status *tn_thread_pool_create(const tn_thread_pool_options *options, tn_thread_pool **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn_thread_pool_options all;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_thread_pool_options, options, &all));
  if (all.threads < 0 || all.threads > MOST_THREADS)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "a thread pool of %d threads: it should have 1 to %d, or 0 for the default", all.threads,
                            MOST_THREADS);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(all.allocator, 1, sizeof(tn_thread_pool), TN__LINE_BYTES, &memory));
  tn_thread_pool *pool = memory;
  if (all.allocator != NULL) {
    pool->copy = *all.allocator;
    pool->allocator = &pool->copy;
  }
  int usual = all.processor_count > 0 ? all.processor_count : tn__target_default_thread_count();
  pool->threads = all.threads == 0 ? usual : all.threads;
  if (pool->threads > MOST_THREADS) pool->threads = MOST_THREADS;
  int spin = all.spin_microseconds == 0 ? DEFAULT_SPIN_MICROSECONDS : all.spin_microseconds;
  pool->spin_nanoseconds = spin < 0 ? 0 : (int64_t)spin * 1000;
  tn__pool_caller_init(&pool->anyone, pool);
  pthread_mutex_init(&pool->turn, NULL);
  tn_status *status = choose_processors(pool, &all);
  if (status == NULL) status = start_workers(pool, all.processor_count > 0);
  if (status != NULL) {
    tn_thread_pool_release(pool);
    return status;
  }
  pool->env = tn__pool_env(pool);
  *out = pool;
  return NULL;
}

void tn_thread_pool_release(tn_thread_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->stop, true);
  atomic_fetch_add(&pool->open, 2); /* wakes them, and stays even */
  futex_wake_all(&pool->open);
  for (int i = 0; i < pool->worker_count; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_mutex_destroy(&pool->turn);
  tn_allocator copy = pool->copy;
  const tn_allocator *allocator = pool->allocator == NULL ? NULL : &copy;
  tn__free(allocator, pool->workers, (size_t)pool->threads * sizeof(worker), 0);
  tn__free(allocator, pool, sizeof(*pool), TN__LINE_BYTES);
}

int tn_thread_pool_size(const tn_thread_pool *pool) {
  if (pool == NULL) return 0;
  return pool->threads;
}

void tn__pool_begin(tn_thread_pool *pool) {
  if (pool->worker_count > 0 && atomic_load_explicit(&pool->invokes, memory_order_relaxed) == 0) {
    int64_t pause = (int64_t)tn__clock() - atomic_load_explicit(&pool->ended, memory_order_relaxed);
    atomic_store_explicit(&pool->hurried, pause < hurry(pool), memory_order_relaxed);
  }
  atomic_fetch_add_explicit(&pool->invokes, 1, memory_order_relaxed);
}

void tn__pool_end(tn_thread_pool *pool) {
  if (pool->worker_count > 0) atomic_store_explicit(&pool->ended, (int64_t)tn__clock(), memory_order_relaxed);
  atomic_fetch_sub_explicit(&pool->invokes, 1, memory_order_relaxed);
}

void tn__pool_caller_init(tn__pool_caller *caller, tn_thread_pool *pool) {
  bool parallel = pool->threads > 1;
  caller->pool = pool;
  caller->inside = (tn_kernel_env){TN_KERNEL_ABI_VERSION, sizeof(tn_kernel_env), run_inline, 1, 0, NULL};
  caller->env = caller->inside;
  caller->env.parallel_for = parallel ? run_parallel : run_inline;
  caller->env.thread_count = pool->threads;
  caller->env.user = caller;
}

tn_kernel_env tn__pool_env(tn_thread_pool *pool) { return pool->anyone.env; }

const tn_kernel_env *tn_thread_pool_env(const tn_thread_pool *pool) {
  if (pool == NULL) return NULL;
  return &pool->env;
}
