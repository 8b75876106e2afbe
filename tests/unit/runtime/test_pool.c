/* The thread pool through a kernel's environment. */
#include "runtime/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "unit/check.h"
#include "unit/failing_allocator.h"

static tn_thread_pool *pool_of(int threads, int spin) {
  tn_thread_pool *pool;
  tn_thread_pool_options options = {.size = sizeof(options), .threads = threads, .spin_microseconds = spin};
  check_ok(tn_thread_pool_create(&options, &pool));
  assert_int_equal(tn_thread_pool_size(pool), threads);
  return pool;
}

/* Each element counts how often it was reached. */
static int32_t mark(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  unsigned char *marks = closure;
  for (int64_t i = begin; i < end; i++) marks[i]++;
  return TN_KERNEL_OK;
}

static void every_iteration_runs_once(void **state) {
  static unsigned char marks[4096];
  for (int threads = 1; threads <= 5; threads++) {
    tn_thread_pool *pool = pool_of(threads, threads % 2 == 0 ? -1 : 0);
    tn_kernel_env env = tn__pool_env(pool);
    assert_int_equal(env.version, TN_KERNEL_ABI_VERSION);
    assert_int_equal(env.size, sizeof(env));
    assert_int_equal(env.thread_count, threads);
    for (int round = 0; round < 300; round++) {
      int64_t count = round % 7 == 0 ? round % 3 : (round * 37) % 4096;
      memset(marks, 0, sizeof(marks));
      if (round % 10 == 0) tn__pool_begin(pool);
      assert_int_equal(env.parallel_for(&env, mark, marks, count), TN_KERNEL_OK);
      if (round % 10 == 9) tn__pool_end(pool);
      for (int i = 0; i < 4096; i++) assert_int_equal(marks[i], i < count);
    }
    tn_thread_pool_release(pool);
  }
}

/* The pieces of a loop, at where each begins. */
static int32_t note_piece(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  int64_t *pieces = closure;
  pieces[begin] = end - begin;
  return TN_KERNEL_OK;
}

/* So that no thread is left with more than one iteration when the others are done. */
static void pieces_shrink_to_single_iterations(void **state) {
  for (int threads = 2; threads <= 4; threads++) {
    tn_thread_pool *pool = pool_of(threads, 0);
    tn_kernel_env env = tn__pool_env(pool);
    for (int64_t count = 2; count <= 300; count++) {
      int64_t pieces[300] = {0}, before = count, at = 0;
      int number = 0;
      assert_int_equal(env.parallel_for(&env, note_piece, pieces, count), TN_KERNEL_OK);
      for (; at < count; at += pieces[at], number++) {
        assert_in_range(pieces[at], 1, before);
        assert_true(pieces[at] == 1 || pieces[at] * 2 * threads <= count - at);
        before = pieces[at];
      }
      assert_int_equal(at, count);
      assert_int_equal(before, 1);
      assert_true(number <= 14 * threads); /* few for all that: each costs */
    }
    tn_thread_pool_release(pool);
  }
}

typedef struct failing {
  atomic_int ran;
  int64_t bad;
} failing;

static int32_t fail_at(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  failing *f = closure;
  atomic_fetch_add(&f->ran, 1);
  return begin <= f->bad && f->bad < end ? TN_KERNEL_INDEX_OUT_OF_RANGE : TN_KERNEL_OK;
}

static void a_failure_stops_the_rest(void **state) {
  tn_thread_pool *pool = pool_of(2, 0);
  tn_kernel_env env = tn__pool_env(pool);
  for (int64_t bad = 0; bad < 1000; bad += 111) {
    failing f = {.bad = bad};
    assert_int_equal(env.parallel_for(&env, fail_at, &f, 1000), TN_KERNEL_INDEX_OUT_OF_RANGE);
    assert_true(atomic_load(&f.ran) >= 1);
  }
  failing f = {.bad = -1};
  assert_int_equal(env.parallel_for(&env, fail_at, &f, 1000), TN_KERNEL_OK); /* nothing is left over */
  tn_thread_pool_release(pool);
}

static int32_t nested(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  if (env->thread_count != 1) return TN_KERNEL_BAD_VALUE;
  unsigned char *marks = closure;
  for (int64_t i = begin; i < end; i++) {
    int32_t result = env->parallel_for(env, mark, marks + 64 * i, 64);
    if (result != TN_KERNEL_OK) return result;
  }
  return TN_KERNEL_OK;
}

static void nested_loops_run_inline(void **state) {
  static unsigned char marks[64 * 64];
  tn_thread_pool *pool = pool_of(3, 0);
  tn_kernel_env env = tn__pool_env(pool);
  memset(marks, 0, sizeof(marks));
  assert_int_equal(env.parallel_for(&env, nested, marks, 64), TN_KERNEL_OK);
  for (int i = 0; i < 64 * 64; i++) assert_int_equal(marks[i], 1);
  tn_thread_pool_release(pool);
}

static void *share(void *argument) {
  tn_thread_pool *pool = argument;
  tn_kernel_env env = tn__pool_env(pool);
  unsigned char marks[512];
  for (int round = 0; round < 300; round++) {
    memset(marks, 0, sizeof(marks));
    tn__pool_begin(pool);
    env.parallel_for(&env, mark, marks, 512);
    tn__pool_end(pool);
    for (int i = 0; i < 512; i++)
      if (marks[i] != 1) return argument;
  }
  return NULL;
}

static void callers_take_turns(void **state) {
  tn_thread_pool *pool = pool_of(3, 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, share, pool), 0);
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  tn_thread_pool_release(pool);
}

static double process_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void workers_sleep_between_invokes(void **state) {
  static unsigned char marks[512];
  tn_thread_pool_options options = {.size = sizeof(options), .threads = 2, .spin_microseconds = 1000000};
  tn_thread_pool *pool;
  check_ok(tn_thread_pool_create(&options, &pool));
  tn_kernel_env env = tn__pool_env(pool);
  tn__pool_begin(pool);
  env.parallel_for(&env, mark, marks, 512);
  tn__pool_end(pool);
  double before = process_seconds();
  nanosleep(&(struct timespec){0, 200000000}, NULL);
  assert_true(process_seconds() - before < 0.1); /* though they would spin for a second inside of an invoke */
  tn_thread_pool_release(pool);
}

static void workers_sleep_after_invokes_in_a_row(void **state) {
  static unsigned char marks[512];
  tn_thread_pool_options options = {.size = sizeof(options), .threads = 2, .spin_microseconds = 1000000};
  tn_thread_pool *pool;
  check_ok(tn_thread_pool_create(&options, &pool));
  tn_kernel_env env = tn__pool_env(pool);
  for (int i = 0; i < 50; i++) { /* a worker that still spins takes part in the next one */
    tn__pool_begin(pool);
    memset(marks, 0, sizeof(marks));
    assert_int_equal(env.parallel_for(&env, mark, marks, 512), TN_KERNEL_OK);
    for (int m = 0; m < 512; m++) assert_int_equal(marks[m], 1);
    tn__pool_end(pool);
  }
  double before = process_seconds();
  nanosleep(&(struct timespec){0, 200000000}, NULL);
  assert_true(process_seconds() - before < 0.1);
  tn_thread_pool_release(pool);
}

typedef struct meeting { /* two threads in one parallel loop, each on its processor */
  pthread_t caller;
  _Atomic int arrived, worker_processor;
} meeting;

static int32_t meet(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  meeting *m = closure;
  if (!pthread_equal(pthread_self(), m->caller)) atomic_store(&m->worker_processor, sched_getcpu());
  atomic_fetch_add(&m->arrived, 1);
  while (atomic_load(&m->worker_processor) < 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
  return TN_KERNEL_OK;
}

static int meet_worker(tn_thread_pool *pool) {
  tn_kernel_env env = tn__pool_env(pool);
  meeting m = {.caller = pthread_self()};
  atomic_init(&m.worker_processor, -1);
  tn__pool_begin(pool);
  assert_int_equal(env.parallel_for(&env, meet, &m, 2), TN_KERNEL_OK);
  tn__pool_end(pool);
  nanosleep(&(struct timespec){0, 50000000}, NULL); /* it goes to sleep */
  return atomic_load(&m.worker_processor);
}

static void workers_leave_the_processor_of_their_caller(void **state) {
  cpu_set_t all;
  assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) skip_because("one processor only: nothing to choose between");
  tn_thread_pool *pool = pool_of(2, 0);
  for (int round = 0; round < 3; round++) {
    int at = meet_worker(pool);
    assert_true(at >= 0);
    cpu_set_t there;
    CPU_ZERO(&there);
    CPU_SET(at, &there);
    assert_int_equal(sched_setaffinity(0, sizeof(there), &there), 0); /* the caller moves to where the worker sleeps */
    assert_int_not_equal(meet_worker(pool), at);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
  }
  tn_thread_pool_release(pool);
}

static void workers_stay_on_their_processors(void **state) {
  cpu_set_t all;
  assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
  for (int number = 0; number < CPU_SETSIZE; number++) {
    if (!CPU_ISSET(number, &all)) continue;
    tn_thread_pool_options options = {
        .size = sizeof(options), .threads = 2, .processors = &number, .processor_count = 1};
    tn_thread_pool *pool;
    check_ok(tn_thread_pool_create(&options, &pool));
    assert_int_equal(meet_worker(pool), number);
    tn_thread_pool_release(pool);
    options.threads = 0;
    check_ok(tn_thread_pool_create(&options, &pool));
    assert_int_equal(tn_thread_pool_size(pool), 1);
    tn_thread_pool_release(pool);
  }
  int none = -1;
  tn_thread_pool_options options = {.size = sizeof(options), .threads = 2, .processors = &none, .processor_count = 1};
  tn_thread_pool *pool;
  check_fails(tn_thread_pool_create(&options, &pool), TN_INVALID_ARGUMENT,
              "processor -1: the numbers go from 0 to 1023");
}

static void options_are_checked(void **state) {
  tn_thread_pool *pool;
  tn_thread_pool_options options = {.size = sizeof(options), .threads = -1};
  check_fails(tn_thread_pool_create(&options, &pool), TN_INVALID_ARGUMENT,
              "a thread pool of -1 threads: it should have 1 to 1024, or 0 for the default");
  check_ok(tn_thread_pool_create(NULL, &pool));
  assert_true(tn_thread_pool_size(pool) >= 1);
  tn_thread_pool_release(pool);
  tn_thread_pool_release(NULL);
  for (int refused = 0; refused < 2; refused++) {
    failing_allocator memory;
    failing_allocator_init(&memory, refused);
    options = (tn_thread_pool_options){.size = sizeof(options), .threads = 2, .allocator = &memory.allocator};
    tn_status *status = tn_thread_pool_create(&options, &pool);
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
    assert_int_equal(memory.live_count, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_shrink_to_single_iterations),
      cmocka_unit_test(every_iteration_runs_once),
      cmocka_unit_test(a_failure_stops_the_rest),
      cmocka_unit_test(nested_loops_run_inline),
      cmocka_unit_test(callers_take_turns),
      cmocka_unit_test(workers_sleep_between_invokes),
      cmocka_unit_test(workers_sleep_after_invokes_in_a_row),
      cmocka_unit_test(workers_leave_the_processor_of_their_caller),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(workers_stay_on_their_processors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
