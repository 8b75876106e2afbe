/* The tuner of <tenon/tune.h>: what it does with builders and runners of the caller's, how it is stopped, what it
 * tells, and that a deterministic one does the same twice. No process is started and nothing is compiled. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include <uv.h>

#include "base/hash.h"
#include "tenon/database.h"
#include "unit/check.h"

static const char declarations[] =
    "kernel product(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n"
    "kernel rows(X: f32[300, 500]) -> S: f32[300] { S[i] = sum(k: 500) X[i, k] }\n";

static const tn_compile_options compile = {.size = sizeof compile, .target = "x86-64-v3", .run_threads = 1};

static void add_kernels(tn_tuner *tuner) {
  check_ok(tn_tuner_add_declarations(tuner, "kernels.te", declarations, strlen(declarations), NULL, &compile));
}

static tn_tuner_view look(const tn_tuner *tuner) {
  tn_tuner_view v = {.size = sizeof v};
  check_ok(tn_tuner_look(tuner, &v));
  return v;
}

static tn_task_view look_at(const tn_tuner *tuner, int task) {
  tn_task_view v = {.size = sizeof v};
  check_ok(tn_tuner_look_at(tuner, task, &v));
  return v;
}

/* ---- builders and runners with a state of their own, whose functions block --------------------------------------- */

typedef struct own {
  atomic_int made, disposed, inside, most, released;
  int microseconds; /* that a call takes */
  int failing;      /* one in so many schedules fails; 0: none */
} own;

static void enter(own *o) {
  int inside = atomic_fetch_add(&o->inside, 1) + 1;
  if (inside > atomic_load(&o->most)) atomic_store(&o->most, inside);
  if (o->microseconds > 0) usleep((useconds_t)o->microseconds);
  atomic_fetch_add(&o->made, 1);
  atomic_fetch_sub(&o->inside, 1);
}

static void build(void *self, const tn_build_input *input, tn_build_result *result) {
  own *o = self;
  enter(o);
  char *code = strdup(input->schedule);
  result->code = code;
  result->code_size = strlen(code) + 1;
  result->seconds = 1e-3;
}

static void dispose_build(void *self, tn_build_result *result) {
  free((void *)(uintptr_t)result->code);
  atomic_fetch_add(&((own *)self)->disposed, 1);
}

static void run(void *self, const tn_build_input *input, const tn_build_result *built, tn_run_result *result) {
  own *o = self;
  enter(o);
  assert_string_equal(built->code, input->schedule);
  uint64_t hash = tn__hash_string(5, built->code) >> 11;
  if (o->failing > 0 && hash % (uint64_t)o->failing == 0) {
    result->error = TN_TRIAL_RUN_TIME;
    result->message = "it does not like this one";
    return;
  }
  result->median = 1e-4 * (1 + (double)(hash % 1000) / 1000);
  result->calls = 1;
  result->verified = true;
}

static void release_own(void *self) { atomic_fetch_add(&((own *)self)->released, 1); }

static void supply(tn_tuner *tuner, own *builder, own *runner, int threads) {
  const tn_thread_options options = {.size = sizeof options, .loop = tn_tuner_loop(tuner), .threads = threads};
  const tn_thread_builder_functions builds = {
      .size = sizeof builds, .build = build, .dispose = dispose_build, .release = release_own};
  const tn_thread_runner_functions runs = {.size = sizeof runs, .run = run, .release = release_own};
  tn_builder *b;
  tn_runner *r;
  check_ok(tn_thread_builder_create(&builds, builder, &options, &b));
  check_ok(tn_tuner_use_builder(tuner, b));
  check_ok(tn_thread_runner_create(&runs, runner, &options, &r));
  check_ok(tn_tuner_use_runner(tuner, r));
}

/* Threads end when their last call has returned. */
static void wait_for_release(const own *o) {
  while (atomic_load(&o->released) == 0) usleep(1000);
  assert_int_equal(atomic_load(&o->released), 1);
}

static void test_own_builders_and_runners(void **state) {
  own b = {.microseconds = 500}, r = {.failing = 4};
  tn_tuner *tuner;
  const tn_tuner_options options = {.size = sizeof options, .trials = 60, .no_database = true, .no_comparison = true};
  check_ok(tn_tuner_create(&options, &tuner));
  add_kernels(tuner);
  supply(tuner, &b, &r, 3);
  assert_int_equal(look(tuner).phase, TN_TUNER_NOT_BEGUN);
  check_ok(tn_tuner_run(tuner));
  const tn_tuner_view v = look(tuner);
  assert_int_equal(v.phase, TN_TUNER_DONE);
  assert_int_equal(v.end, TN_TUNER_TRIALS);
  assert_int_equal(v.tasks, 2);
  assert_int_equal(v.trials, 60);
  assert_true(v.best_seconds <= v.static_seconds && v.left == 0 && v.known == 0);
  int64_t failed = 0;
  for (int i = 0; i < 2; i++) {
    const tn_task_view t = look_at(tuner, i);
    assert_string_equal(t.task->name, i == 0 ? "product" : "rows");
    assert_true(t.trials > 0 && t.weight == 1 && t.best >= 0 && strncmp(t.trace, "trace ", 6) == 0);
    failed += t.errors[TN_TRIAL_RUN_TIME];
    if (t.errors[TN_TRIAL_RUN_TIME] > 0) assert_string_equal(t.first_error, "it does not like this one");
  }
  assert_in_range(failed, 3, 40);
  char *text;
  int count = -1;
  check_ok(tn_tuner_schedules(tuner, &text, &count));
  assert_true(strncmp(text, "tenon schedules 1\n", 18) == 0 && strstr(text, "simulated") == NULL && count >= 1);
  free(text);
  tn_tuner_release(tuner);
  wait_for_release(&b);
  wait_for_release(&r);
  assert_int_equal(atomic_load(&b.made), 60);
  assert_int_equal(atomic_load(&b.disposed), 60);
  assert_in_range(atomic_load(&b.most), 2, 3);
}

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

static tn_tuner *handled;
static void on_signal(int number) { tn_tuner_stop(handled, number == SIGUSR2); }

/* Once some trials have ended. */
typedef struct sending {
  own *runner;
  int number;
} sending;

static void *send_signal(void *user) {
  const sending *s = user;
  while (atomic_load(&s->runner->made) < 10) usleep(1000);
  kill(getpid(), s->number);
  return NULL;
}

static void *stop_soon(void *tuner) {
  usleep(60000);
  tn_tuner_stop(tuner, false);
  return NULL;
}

static void test_a_handler_of_signals_stops_it(void **state) {
  for (int at_once = 0; at_once < 2; at_once++) {
    own b = {0}, r = {.microseconds = 2000};
    pthread_t thread;
    int number = at_once ? SIGUSR2 : SIGUSR1;
    sending s = {&r, number};
    const tn_tuner_options options = {
        .size = sizeof options, .no_database = true, .patience = 1000000, .no_comparison = true}; /* 1 run a trial */
    check_ok(tn_tuner_create(&options, &handled));
    add_kernels(handled);
    supply(handled, &b, &r, 1);
    signal(number, on_signal);
    assert_int_equal(pthread_create(&thread, NULL, send_signal, &s), 0);
    check_ok(tn_tuner_run(handled));
    pthread_join(thread, NULL);
    signal(number, SIG_DFL);
    assert_int_equal(look(handled).end, at_once ? TN_TUNER_STOPPED_AT_ONCE : TN_TUNER_STOPPED);
    assert_true(look(handled).trials > 5);
    tn_tuner_release(handled);
    wait_for_release(&b);
    wait_for_release(&r);
  }
}

static void test_another_thread_stops_it(void **state) {
  own b = {0}, r = {.microseconds = 2000};
  pthread_t thread;
  tn_tuner *tuner;
  const tn_tuner_options options = {.size = sizeof options, .no_database = true, .patience = 1000000};
  check_ok(tn_tuner_create(&options, &tuner));
  add_kernels(tuner);
  supply(tuner, &b, &r, 1);
  assert_int_equal(pthread_create(&thread, NULL, stop_soon, tuner), 0);
  check_ok(tn_tuner_run(tuner));
  pthread_join(thread, NULL);
  assert_int_equal(look(tuner).end, TN_TUNER_STOPPED);
  tn_tuner_release(tuner);
  wait_for_release(&b);
  wait_for_release(&r);
}

static void test_stopped_before_it_has_begun(void **state) {
  own b = {0}, r = {0};
  tn_tuner *tuner;
  const tn_tuner_options options = {.size = sizeof options, .no_database = true};
  check_ok(tn_tuner_create(&options, &tuner));
  add_kernels(tuner);
  supply(tuner, &b, &r, 1);
  tn_tuner_stop(tuner, false);
  check_ok(tn_tuner_run(tuner));
  assert_int_equal(look(tuner).end, TN_TUNER_STOPPED);
  assert_int_equal(look(tuner).trials, 0);
  tn_tuner_release(tuner);
  wait_for_release(&b);
  wait_for_release(&r);
}

/* Released while a call is in a thread: nobody waits for it, and it ends later. */
static void test_released_while_it_works(void **state) {
  own b = {.microseconds = 100000}, r = {0};
  tn_tuner *tuner;
  const tn_tuner_options options = {.size = sizeof options, .no_database = true};
  check_ok(tn_tuner_create(&options, &tuner));
  add_kernels(tuner);
  supply(tuner, &b, &r, 2);
  check_ok(tn_tuner_start(tuner, NULL, NULL));
  uv_run(tn_tuner_loop(tuner), UV_RUN_NOWAIT);
  usleep(10000);
  tn_tuner_release(tuner);
  wait_for_release(&b);
  wait_for_release(&r);
  assert_int_equal(atomic_load(&b.made), atomic_load(&b.disposed));
}

/* ---- on a loop of the caller's ----------------------------------------------------------------------------------- */

typedef struct told {
  int done, shown;
  tn_tuner_phase last;
} told;

static void on_done(void *user, tn_tuner *tuner) { ((told *)user)->done++; }

static void on_progress(void *user, const tn_tuner *tuner) {
  told *t = user;
  tn_tuner_phase phase = look(tuner).phase;
  assert_true(phase >= t->last);
  t->last = phase;
  t->shown++;
}

static void test_a_loop_of_the_callers(void **state) {
  own b = {0}, r = {.microseconds = 500};
  uv_loop_t loop;
  tn_tuner *tuner;
  told t = {0};
  uv_loop_init(&loop);
  const tn_tuner_options options = {.size = sizeof options,
                                    .trials = 100,
                                    .no_database = true,
                                    .loop = &loop,
                                    .progress = on_progress,
                                    .progress_seconds = 0.005,
                                    .user = &t};
  check_ok(tn_tuner_create(&options, &tuner));
  assert_ptr_equal(tn_tuner_loop(tuner), &loop);
  add_kernels(tuner);
  supply(tuner, &b, &r, 1);
  check_ok(tn_tuner_start(tuner, on_done, &t));
  while (t.done == 0) uv_run(&loop, UV_RUN_ONCE);
  check_ok(tn_tuner_result(tuner));
  assert_int_equal(t.done, 1);
  assert_int_equal(t.last, TN_TUNER_DONE);
  assert_true(t.shown >= 3);
  assert_true(look_at(tuner, 0).compared || look_at(tuner, 1).compared);
  tn_tuner_release(tuner);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
  wait_for_release(&b);
  wait_for_release(&r);
}

/* ---- deterministic ----------------------------------------------------------------------------------------------- */

typedef struct trail {
  char path[64];
  char *text, *lines;
  tn_tuner_view view;
} trail;

static trail tune_deterministic(uint64_t seed, const tn_tuner_options *more) {
  trail t = {.path = "/tmp/tenon-tune-XXXXXX"};
  tn_tuner *tuner;
  tn_database *database;
  int file = mkstemp(t.path);
  assert_true(file >= 0);
  close(file);
  tn_tuner_options options = *more;
  options.size = sizeof options;
  options.deterministic = true;
  options.seed = seed;
  options.database = t.path;
  check_ok(tn_tuner_create(&options, &tuner));
  add_kernels(tuner);
  check_ok(tn_tuner_run(tuner));
  check_ok(tn_tuner_schedules(tuner, &t.text, NULL));
  t.view = look(tuner);
  tn_tuner_release(tuner);
  check_ok(tn_database_open(t.path, NULL, &database));
  check_ok(tn_database_export_text(database, NULL, &t.lines, NULL));
  const tn_record_filter all = {.size = sizeof all, .verified = true};
  char *none;
  check_ok(tn_database_export_text(database, &all, &none, NULL));
  assert_string_equal(none, ""); /* no real tuning takes them for measured */
  free(none);
  tn_database_release(database);
  unlink(t.path);
  return t;
}

static void free_trail(trail *t) {
  free(t->text);
  free(t->lines);
}

static void test_the_same_twice(void **state) {
  const tn_tuner_options trials = {.trials = 50}, budget = {.budget_seconds = 4, .search = TN_SEARCH_RANDOM};
  const tn_tuner_options *both[] = {&trials, &budget};
  for (int i = 0; i < 2; i++) {
    trail a = tune_deterministic(7, both[i]), b = tune_deterministic(7, both[i]);
    assert_string_equal(a.text, b.text);
    assert_string_equal(a.lines, b.lines); /* times of day included */
    assert_non_null(strstr(a.text, "# simulated: nothing was timed"));
    assert_true(a.view.trials > 20 && a.view.best_seconds < a.view.static_seconds);
    assert_int_equal(a.view.end, i == 0 ? TN_TUNER_TRIALS : TN_TUNER_BUDGET);
    free_trail(&b);
    b = tune_deterministic(8, both[i]);
    assert_string_not_equal(a.lines, b.lines);
    free_trail(&a);
    free_trail(&b);
  }
}

/* ---- what cannot be ---------------------------------------------------------------------------------------------- */

static void test_what_cannot_be(void **state) {
  tn_tuner *tuner;
  const tn_tuner_options below = {.size = sizeof below, .budget_seconds = -1},
                         speed = {.size = sizeof speed, .deterministic = true, .target_speedup = 0.5},
                         drawn = {.size = sizeof drawn, .deterministic = true, .draws_seed = true},
                         points = {.size = sizeof points, .points = 5}, search = {.size = sizeof search, .search = 9},
                         usual = {.size = sizeof usual, .deterministic = true};
  check_fails(tn_tuner_create(&below, &tuner), TN_INVALID_ARGUMENT, "a budget is above zero, in seconds or trials");
  check_fails(tn_tuner_create(&drawn, &tuner), TN_INVALID_ARGUMENT, "what is deterministic has a seed that is given");
  check_fails(tn_tuner_create(&points, &tuner), TN_INVALID_ARGUMENT,
              "points are those of an exhaustive search, and at least one");
  check_fails(tn_tuner_create(&search, &tuner), TN_INVALID_ARGUMENT,
              "there is no search 9: evolution, random and exhaustive are 0 to 2");
  check_ok(tn_tuner_create(&usual, &tuner));
  check_fails(tn_tuner_run(tuner), TN_INVALID_ARGUMENT, "there is nothing to tune: no kernel of known sizes");
  check_fails(tn_tuner_run(tuner), TN_FAILED_PRECONDITION, "it is started when the tuner has begun already");
  check_fails(tn_tuner_add_declarations(tuner, "a.te", declarations, strlen(declarations), NULL, &compile),
              TN_FAILED_PRECONDITION, "declarations are added when the tuner has begun already");
  assert_int_equal(look(tuner).end, TN_TUNER_FAILED);
  tn_tuner_release(tuner);
  check_ok(tn_tuner_create(&speed, &tuner));
  add_kernels(tuner);
  char *text;
  tn_task_view v = {.size = sizeof v};
  check_fails(tn_tuner_schedules(tuner, &text, NULL), TN_FAILED_PRECONDITION,
              "the schedules of a tuner are there when it is done");
  check_fails(tn_tuner_look_at(tuner, 2, &v), TN_OUT_OF_RANGE, "there is no kernel 2: the tuner has 2");
  check_fails(tn_tuner_run(tuner), TN_INVALID_ARGUMENT, "a speedup to reach is above 1, not 0.5");
  tn_tuner_release(tuner);
  check_ok(tn_tuner_create(&usual, &tuner));
  check_fails(tn_tuner_add_declarations(tuner, "a.te", declarations, strlen(declarations), "none", &compile),
              TN_NOT_FOUND, "a.te: there is no kernel called none");
  tn_tuner_release(tuner);
  tn_tuner_release(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own_builders_and_runners), cmocka_unit_test(test_a_handler_of_signals_stops_it),
      cmocka_unit_test(test_another_thread_stops_it),  cmocka_unit_test(test_stopped_before_it_has_begun),
      cmocka_unit_test(test_released_while_it_works),  cmocka_unit_test(test_a_loop_of_the_callers),
      cmocka_unit_test(test_the_same_twice),           cmocka_unit_test(test_what_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
