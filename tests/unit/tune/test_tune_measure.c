/* The measurer, on simulated builders and runners, whose times are known exactly, and on ones that misbehave. */
#include <math.h>
#include <string.h>

#include "tenon/tune.h"
#include "tune/measure/station.h"
#include "unit/check.h"

/* A search that proposes numbers. */
typedef struct search {
  tn_measurer *measurer;
  tn_simulator *simulator;
  int count, given, told, waits_at; /* `waits_at`: it answers "wait" once before this one; -1: never */
  int seen[4096];                   /* how often each was told */
  int most_ahead;                   /* given and not told */
  tn_measure_result results[4096];
  int idle;
  int stop_at, release_at; /* when so many were told; 0: never */
  bool now;
} search;

static tn_source_answer next(void *user, tn_build_input *input) {
  search *s = user;
  if (s->given == s->count) return TN_SOURCE_END;
  if (s->given == s->waits_at) {
    s->waits_at = -1;
    return TN_SOURCE_WAIT;
  }
  *input = (tn_build_input){.id = (uint64_t)s->given++};
  if (s->given - s->told > s->most_ahead) s->most_ahead = s->given - s->told;
  return TN_SOURCE_CANDIDATE;
}

static void done(void *user, const tn_build_input *input, const tn_measure_result *result) {
  search *s = user;
  s->results[input->id] = *result;
  s->results[input->id].message = NULL; /* lives for the call */
  s->seen[input->id]++;
  s->told++;
  if (s->told == s->stop_at) tn_measurer_stop(s->measurer, s->now);
  if (s->told == s->release_at) {
    tn_measurer_release(s->measurer);
    s->measurer = NULL;
  }
}

static void idle(void *user) { ((search *)user)->idle++; }

typedef struct scene {
  tn_measure_options options;
  tn_time_distribution build, run;
  int builders, devices;
  uint64_t seed;
} scene;

static const scene usual = {.options = {.size = sizeof(tn_measure_options), .window = 16},
                            .build = {.mean = 1.0, .deviation = 0.8},
                            .run = {.mean = 0.5, .deviation = 0.4},
                            .builders = 2,
                            .devices = 1,
                            .seed = 1};

static void all_told_once(const search *s) {
  assert_int_equal(s->told, s->given);
  for (int i = 0; i < s->given; i++) assert_int_equal(s->seen[i], 1);
}

/* Runs all of it, and returns the virtual time that it took. `on_step` may look in between. */
static double play(const scene *c, search *s, void (*on_step)(search *s, tn_runner **runners)) {
  tn_builder *builder;
  tn_runner *runners[8];
  const tn_station_options building = {.size = sizeof building, .slots = c->builders};
  check_ok(tn_simulator_create(c->seed, &s->simulator));
  check_ok(tn_simulator_builder(s->simulator, &c->build, &building, &builder));
  for (int i = 0; i < c->devices; i++) check_ok(tn_simulator_runner(s->simulator, &c->run, NULL, &runners[i]));
  tn_measure_options options = c->options;
  options.clock = tn_simulator_now;
  options.clock_user = s->simulator;
  options.idle = idle;
  options.user = s;
  const tn_measure_source source = {next, done, s};
  check_ok(tn_measurer_create(builder, runners, c->devices, &source, &options, &s->measurer));
  tn_measurer_start(s->measurer);
  double end = 0;
  while (tn_simulator_step(s->simulator)) {
    if (s->measurer == NULL) continue; /* what was cancelled leaves */
    end = tn_simulator_now(s->simulator);
    if (on_step != NULL) on_step(s, runners);
  }
  if (s->measurer != NULL) {
    tn_measure_statistics statistics = {.size = sizeof statistics};
    check_ok(tn_measurer_statistics(s->measurer, &statistics));
    assert_int_equal(statistics.ended, s->told);
    assert_int_equal(s->idle, 1);
    assert_true(tn_measurer_is_idle(s->measurer));
  }
  all_told_once(s);
  tn_measurer_release(s->measurer);
  s->measurer = NULL;
  tn_builder_release(builder);
  for (int i = 0; i < c->devices; i++) tn_runner_release(runners[i]);
  return end;
}

/* No order of builds and runs takes less: each slot's work, behind what must come before it or in front of what must
 * follow. */
static double lower_bound(const scene *c, const search *s) {
  double builds = 0, runs = 0, least_build = INFINITY, least_run = INFINITY;
  for (int i = 0; i < s->count; i++) {
    double b = tn_simulator_duration(s->simulator, &c->build, (uint64_t)i, false);
    double r = tn_simulator_duration(s->simulator, &c->run, (uint64_t)i, true);
    builds += b;
    runs += r;
    least_build = fmin(least_build, b);
    least_run = fmin(least_run, r);
  }
  return fmax(builds / c->builders + least_run, runs / c->devices + least_build);
}

static search new_search(int count) { return (search){.count = count, .waits_at = -1}; }

/* The mean over 100 seeds of the time over the lower bound. */
static double mean_ratio(scene c, int count) {
  double sum = 0;
  for (int seed = 1; seed <= 100; seed++) {
    search *s = malloc(sizeof *s);
    *s = new_search(count);
    c.seed = (uint64_t)seed;
    double time = play(&c, s, NULL);
    sum += time / lower_bound(&c, s);
    tn_simulator_release(s->simulator);
    free(s);
  }
  return sum / 100;
}

static void test_asynchronous_measuring_is_near_the_bound(void **state) {
  scene c = usual;
  double async = mean_ratio(c, 500);
  c.options.mode = TN_MEASURE_BATCHED;
  double batched = mean_ratio(c, 500);
  c.options.mode = TN_MEASURE_BLOCKING;
  double blocking = mean_ratio(c, 500);
  print_message("makespan over its lower bound: async %.3f, batched %.3f, blocking %.3f\n", async, batched, blocking);
  assert_true(async <= 1.05);
  assert_true(async < batched);
  assert_true(batched < blocking);
}

/* No device stands still while something that was built waits: then more than so many would have been built. */
static void devices_are_busy(search *s, tn_runner **runners) {
  tn_measure_statistics statistics = {.size = sizeof statistics};
  check_ok(tn_measurer_statistics(s->measurer, &statistics));
  int busy = 0;
  for (int i = 0; i < 4; i++) busy += tn_runner_busy(runners[i]);
  int64_t waiting = statistics.built - statistics.errors[TN_TRIAL_HOST_COMPILE] - busy -
                    (statistics.ended - statistics.errors[TN_TRIAL_HOST_COMPILE]);
  assert_true(waiting >= 0);
  if (busy < 4) assert_int_equal(waiting, 0);
}

static void test_no_device_is_idle_while_a_build_is_ready(void **state) {
  scene c = usual;
  c.devices = 4;
  c.builders = 3;
  c.run = (tn_time_distribution){.mean = 1, .ratio = 50};
  c.build = (tn_time_distribution){.mean = 0.7, .deviation = 0.8, .failures = 0.1};
  search s = new_search(500);
  play(&c, &s, devices_are_busy);
  tn_simulator_release(s.simulator);
}

static void test_the_window_bounds_what_is_built_ahead(void **state) {
  scene c = usual;
  c.builders = 4;
  c.run.mean = 10; /* builds are far ahead */
  c.run.deviation = 1;
  c.options.window = 6;
  search s = new_search(60);
  play(&c, &s, NULL);
  assert_int_equal(s.most_ahead, 7); /* with the one that runs */
  tn_simulator_release(s.simulator);
  c.options.window = 1; /* at least as many as there are slots */
  s = new_search(60);
  play(&c, &s, NULL);
  assert_int_equal(s.most_ahead, 5);
  tn_simulator_release(s.simulator);
}

static void test_rounds_are_told_as_wholes_and_in_order(void **state) {
  for (int mode = TN_MEASURE_BATCHED; mode <= TN_MEASURE_BLOCKING; mode++) {
    scene c = usual;
    c.options.mode = (tn_measure_mode)mode;
    c.options.round = 16;
    c.build.failures = 0.2;
    search s = new_search(40);
    play(&c, &s, NULL);
    for (int round = 0; round < 40; round += 16) {
      double last_built = 0, first_run = INFINITY, asked = s.results[round].asked;
      for (int i = round; i < 40 && i < round + 16; i++) {
        assert_true(s.results[i].asked == asked);
        last_built = fmax(last_built, s.results[i].built);
        if (s.results[i].runner >= 0) first_run = fmin(first_run, s.results[i].run_start);
      }
      if (mode == TN_MEASURE_BLOCKING) assert_true(first_run >= last_built);
      if (mode == TN_MEASURE_BATCHED) assert_true(first_run < last_built);
    }
    tn_simulator_release(s.simulator);
  }
}

static void test_builds_stand_still_while_something_runs(void **state) {
  scene c = usual;
  c.options.exclusive = true;
  c.builders = 1;
  search s = new_search(50);
  double time = play(&c, &s, NULL), all = 0;
  for (int i = 0; i < 50; i++)
    all += tn_simulator_duration(s.simulator, &c.build, (uint64_t)i, false) +
           tn_simulator_duration(s.simulator, &c.run, (uint64_t)i, true);
  assert_true(fabs(time - all) < 1e-6 * all); /* one after the other */
  tn_simulator_release(s.simulator);
}

static void test_failures_end_as_what_they_are(void **state) {
  scene c = usual;
  c.build.failures = 0.3;
  c.run.failures = 0.3;
  c.run.error = TN_TRIAL_WRONG_ANSWER;
  search s = new_search(400);
  play(&c, &s, NULL);
  int kinds[TN_TRIAL_ERRORS] = {0};
  for (int i = 0; i < 400; i++) {
    kinds[s.results[i].error]++;
    assert_int_equal(s.results[i].runner >= 0, s.results[i].build.error == TN_TRIAL_OK);
  }
  assert_in_range(kinds[TN_TRIAL_HOST_COMPILE], 80, 160);
  assert_in_range(kinds[TN_TRIAL_WRONG_ANSWER], 50, 120);
  assert_int_equal(kinds[TN_TRIAL_OK] + kinds[TN_TRIAL_HOST_COMPILE] + kinds[TN_TRIAL_WRONG_ANSWER], 400);
  tn_simulator_release(s.simulator);
}

static void test_the_same_seed_gives_the_same_order(void **state) {
  double times[2];
  for (int i = 0; i < 2; i++) {
    search s = new_search(100);
    times[i] = play(&usual, &s, NULL);
    tn_simulator_release(s.simulator);
  }
  assert_true(times[0] == times[1]);
}

static void test_a_source_that_waits_is_asked_again(void **state) {
  search s = new_search(30);
  s.waits_at = 10; /* while others are in flight: their results ask again */
  play(&usual, &s, NULL);
  assert_int_equal(s.told, 30);
  tn_simulator_release(s.simulator);
}

static void test_stopping(void **state) {
  for (int mode = TN_MEASURE_ASYNC; mode <= TN_MEASURE_BLOCKING; mode++)
    for (int at_once = 0; at_once < 2; at_once++) {
      scene c = usual;
      c.options.mode = (tn_measure_mode)mode;
      c.options.round = 16;
      search s = new_search(100);
      s.stop_at = 20;
      s.now = at_once != 0;
      play(&c, &s, NULL);
      int cancelled = 0;
      for (int i = 0; i < s.given; i++) cancelled += s.results[i].error == TN_TRIAL_CANCELLED;
      assert_true(s.given < 100);
      assert_int_equal(cancelled > 0, at_once && mode == TN_MEASURE_ASYNC);
      tn_simulator_release(s.simulator);
    }
}

static void test_releasing_within_a_callback_tells_the_rest(void **state) {
  for (int at = 1; at < 40; at += 3) {
    search s = new_search(100);
    s.release_at = at;
    play(&usual, &s, NULL);
    assert_true(s.told > at); /* those in flight were cancelled, and told */
    tn_simulator_release(s.simulator);
  }
}

/* ---- stations ---------------------------------------------------------------------------------------------------- */

/* A builder that does what a test wants. */
typedef struct own {
  tn_trial_handle started[16], cancelled[16];
  int start_count, cancel_count, told, last_error, drained, released;
  bool at_once;
  uint64_t visits; /* of jobs, at the release */
  tn_builder *builder;
  tn_builder *release_in_callback;
} own;

static void own_start(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  own *o = self;
  o->started[o->start_count++] = handle;
  const tn_build_result result = {.message = ""};
  if (o->at_once) tn_builder_finish(builder, handle, &result);
}

static void own_cancel(void *self, tn_trial_handle handle) {
  own *o = self;
  o->cancelled[o->cancel_count++] = handle;
}

static void own_release(void *self) {
  own *o = self;
  o->released++;
  if (o->builder != NULL) o->visits = ((const tn__station *)o->builder)->visits;
}

static void own_drained(void *user) { ((own *)user)->drained++; }

static void on_build(void *user, const tn_build_input *input, const tn_build_result *result) {
  own *o = user;
  o->told++;
  o->last_error = (int)result->error;
  if (o->release_in_callback != NULL) {
    tn_builder *b = o->release_in_callback;
    o->release_in_callback = NULL;
    tn_builder_release(b);
  }
}

static tn_builder *own_builder(own *o, int slots, int waiting) {
  const tn_builder_functions functions = {
      .size = sizeof functions, .start = own_start, .cancel = own_cancel, .release = own_release};
  const tn_station_options options = {
      .size = sizeof options, .slots = slots, .waiting = waiting, .drained = own_drained, .user = o};
  check_ok(tn_builder_create(&functions, o, &options, &o->builder));
  return o->builder;
}

static tn_trial_handle submit(own *o) {
  static const tn_build_input input = {.id = 7};
  tn_trial_handle handle;
  check_ok(tn_builder_submit(o->builder, &input, on_build, o, &handle));
  return handle;
}

static const tn_build_result good = {.message = ""};

static void test_submissions_are_bounded(void **state) {
  own o = {0};
  tn_builder *b = own_builder(&o, 2, 1);
  tn_trial_handle first = submit(&o);
  submit(&o);
  submit(&o);
  assert_int_equal(o.start_count, 2);
  const tn_build_input input = {0};
  check_fails(tn_builder_submit(b, &input, on_build, &o, NULL), TN_OUT_OF_RANGE,
              "the builder has 3 submissions, and takes no more until one has ended");
  tn_builder_finish(b, first, &good);
  assert_int_equal(o.drained, 1);
  assert_int_equal(o.start_count, 3);
  tn_builder_finish(b, first, &good); /* told twice */
  assert_int_equal(o.told, 1);
  tn_builder_release(b);
  assert_int_equal(o.told, 3);
  assert_int_equal(o.released, 1);
  assert_int_equal(o.drained, 1);
}

static void test_cancelling(void **state) {
  own o = {0};
  tn_builder *b = own_builder(&o, 1, 2);
  tn_trial_handle running = submit(&o), waiting = submit(&o), last = submit(&o);
  assert_true(tn_builder_cancel(b, waiting));
  assert_int_equal(o.told, 1);
  assert_int_equal(o.last_error, TN_TRIAL_CANCELLED);
  assert_false(tn_builder_cancel(b, waiting));
  assert_true(tn_builder_cancel(b, running));
  assert_int_equal(o.told, 2);
  assert_int_equal(o.cancel_count, 1);
  assert_int_equal(o.start_count, 1); /* its slot is free when it has left */
  tn_builder_finish(b, running, &good);
  assert_int_equal(o.told, 2);
  assert_int_equal(o.start_count, 2);
  tn_builder_finish(b, last, &good);
  assert_int_equal(o.told, 3);
  assert_int_equal(o.last_error, TN_TRIAL_OK);
  tn_builder_release(b);
}

static void test_pausing(void **state) {
  own o = {0};
  tn_builder *b = own_builder(&o, 1, 2);
  tn_builder_pause(b, true);
  tn_builder_pause(b, true);
  submit(&o);
  tn_builder_pause(b, false);
  assert_int_equal(o.start_count, 0);
  tn_builder_pause(b, false);
  assert_int_equal(o.start_count, 1);
  tn_builder_pause(b, false); /* once too often */
  tn_builder_release(b);
}

static void test_a_builder_that_is_done_at_once(void **state) {
  own o = {.at_once = true};
  tn_builder *b = own_builder(&o, 1, -1);
  for (int i = 0; i < 10; i++) {
    submit(&o);
    assert_int_equal(o.told, i); /* no delivery before the submission has returned */
    assert_int_equal(tn_builder_busy(b), 1);
    assert_int_equal(tn_builder_poll(b), 1);
    assert_int_equal(o.told, i + 1);
  }
  assert_int_equal(tn_builder_poll(b), 0);
  o.release_in_callback = b;
  submit(&o);
  assert_int_equal(o.released, 0);
  assert_int_equal(tn_builder_poll(b), 1);
  assert_int_equal(o.released, 1);
}

/* Results finished within a submission but not delivered are cancelled like others. */
static void test_kept_answers_are_cancelled(void **state) {
  own o = {.at_once = true};
  tn_builder *b = own_builder(&o, 3, -1);
  tn_trial_handle first = submit(&o);
  submit(&o);
  assert_true(tn_builder_cancel(b, first));
  assert_int_equal(o.told, 1);
  assert_int_equal(o.last_error, TN_TRIAL_CANCELLED);
  assert_false(tn_builder_cancel(b, first));
  tn_builder_release(b);
  assert_int_equal(o.told, 2);
  assert_int_equal(o.released, 1);
}

/* A builder whose results live only during the call, and that submits again from each callback. */
typedef struct chained {
  tn_builder *builder;
  int left, told, depth, deepest;
} chained;

static void chained_start(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  char code[] = "code", message[] = "words", trace[] = "trace";
  tn_build_result result = {.message = message, .trace = trace, .code = code, .code_size = sizeof code};
  tn_builder_finish(builder, handle, &result);
  memset(code, 'x', sizeof code);
  memset(message, 'x', sizeof message);
  memset(trace, 'x', sizeof trace);
}

static void chained_done(void *user, const tn_build_input *input, const tn_build_result *result) {
  chained *c = user;
  c->told++;
  if (++c->depth > c->deepest) c->deepest = c->depth;
  assert_int_equal(result->error, TN_TRIAL_OK);
  assert_int_equal(result->code_size, 5);
  assert_string_equal(result->code, "code");
  assert_string_equal(result->message, "words");
  assert_string_equal(result->trace, "trace");
  if (c->left-- > 0) check_ok(tn_builder_submit(c->builder, input, chained_done, c, NULL));
  c->depth--;
}

static void test_chains_of_answers_at_once_do_not_nest(void **state) {
  chained c = {.left = 1000};
  const tn_builder_functions functions = {.size = sizeof functions, .start = chained_start};
  const tn_build_input input = {0};
  check_ok(tn_builder_create(&functions, &c, NULL, &c.builder));
  check_ok(tn_builder_submit(c.builder, &input, chained_done, &c, NULL));
  assert_int_equal(c.told, 0);
  assert_int_equal(tn_builder_poll(c.builder), 1001);
  assert_int_equal(c.told, 1001);
  assert_int_equal(c.deepest, 1);
  tn_builder_release(c.builder);
}

/* Counts visited jobs as the cost of submitting and releasing, because a count does not depend on the machine. */
static void test_a_long_queue_costs_the_same_for_each(void **state) {
  enum { FEW = 1000, MANY = 40000, EACH = 16 };
  static const int counts[] = {FEW, MANY};
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
    own o = {0};
    tn_builder *b = own_builder(&o, 1, 65536);
    const tn__station *s = (const tn__station *)b;
    tn_trial_handle last = 0;
    for (int i = 0; i < counts[k]; i++) last = submit(&o);
    assert_true(s->visits <= (uint64_t)EACH * (uint64_t)counts[k] + 8 * 65536);
    uint64_t before = s->visits;
    assert_true(tn_builder_cancel(b, last)); /* from the end of the queue */
    assert_true(s->visits - before <= EACH);
    before = s->visits;
    tn_builder_release(b);
    assert_int_equal(o.told, counts[k]);
    assert_int_equal(o.released, 1);
    assert_true(o.visits - before <= (uint64_t)EACH * (uint64_t)counts[k]);
  }
}

static void test_release_within_a_callback(void **state) {
  own o = {0};
  tn_builder *b = own_builder(&o, 2, 2);
  tn_trial_handle first = submit(&o);
  submit(&o);
  submit(&o);
  o.release_in_callback = b;
  tn_builder_finish(b, first, &good);
  assert_int_equal(o.told, 3);
  assert_int_equal(o.released, 1);
}

/* Answers each candidate at once, with what its own number chooses. */
static void answer_nonsense(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  const tn_build_result answers[] = {{.error = (tn_trial_error)77},
                                     {.error = (tn_trial_error)-1},
                                     {.seconds = NAN},
                                     {.seconds = -1},
                                     {.code_size = 100},
                                     {.code = "x", .code_size = 1}};
  tn_builder_finish(builder, handle, &answers[input->id % 6]);
}

static void answer_no_time(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                           const tn_build_result *build) {
  tn_runner_finish(runner, handle, &(tn_run_result){.median = (double)INFINITY});
}

typedef struct nonsense {
  int given, told, errors[TN_TRIAL_ERRORS];
} nonsense;

static tn_source_answer next_nonsense(void *user, tn_build_input *input) {
  nonsense *n = user;
  if (n->given == 12) return TN_SOURCE_END;
  *input = (tn_build_input){.id = (uint64_t)n->given++};
  return TN_SOURCE_CANDIDATE;
}

static void done_nonsense(void *user, const tn_build_input *input, const tn_measure_result *result) {
  static const char *const messages[] = {
      "the trial was answered with an error that is none", "the trial was answered with an error that is none",
      "the trial was answered with a time that is none",   "the trial was answered with a time that is none",
      "the builder told a size of code, and no code",      "the trial was answered with a time that is none"};
  nonsense *n = user;
  assert_string_equal(result->message, messages[input->id % 6]);
  n->told++;
  n->errors[result->error]++;
}

static void test_answers_without_sense(void **state) {
  const tn_builder_functions building = {.size = sizeof building, .start = answer_nonsense};
  const tn_runner_functions running = {.size = sizeof running, .start = answer_no_time};
  tn_builder *builder;
  tn_runner *runner;
  tn_measurer *measurer;
  nonsense n = {0};
  const tn_measure_source source = {next_nonsense, done_nonsense, &n};
  check_ok(tn_builder_create(&building, NULL, NULL, &builder));
  check_ok(tn_runner_create(&running, NULL, NULL, &runner));
  check_ok(tn_measurer_create(builder, &runner, 1, &source, NULL, &measurer));
  tn_measurer_start(measurer);
  assert_int_equal(n.told, 12);
  assert_int_equal(n.errors[TN_TRIAL_WORKER_LOST], 10);
  assert_int_equal(n.errors[TN_TRIAL_HOST_COMPILE], 2);
  tn_measurer_release(measurer);
  tn_runner_release(runner);
  tn_builder_release(builder);
}

static void test_bad_options(void **state) {
  own o = {0};
  tn_builder *b;
  const tn_builder_functions empty = {.size = sizeof empty, .release = own_release};
  check_fails(tn_builder_create(&empty, &o, NULL, &b), TN_INVALID_ARGUMENT, "a builder needs a function `start`");
  const tn_builder_functions functions = {.size = sizeof functions, .start = own_start, .release = own_release};
  tn_station_options options = {.size = sizeof options, .slots = 2000};
  check_fails(tn_builder_create(&functions, &o, &options, &b), TN_INVALID_ARGUMENT,
              "a builder has 1 to 1024 slots, not 2000");
  assert_int_equal(o.released, 1);
  tn_measurer *m;
  tn_measure_source source = {next, done, NULL};
  tn_measure_options measure = {.size = sizeof measure, .window = -1};
  b = own_builder(&o, 1, 0);
  check_fails(tn_measurer_create(b, NULL, 0, &source, NULL, &m), TN_INVALID_ARGUMENT,
              "a measurer has 1 to 1024 runners, not 0");
  check_fails(tn_measurer_create(b, NULL, 0, &source, &measure, &m), TN_INVALID_ARGUMENT,
              "the window is of 1 to 65536 candidates, not -1");
  source.done = NULL;
  check_fails(tn_measurer_create(b, NULL, 0, &source, NULL, &m), TN_INVALID_ARGUMENT,
              "a measurer needs a builder, and a source that has both functions");
  tn_builder_release(b);
  tn_simulator *simulator;
  check_ok(tn_simulator_create(1, &simulator));
  const tn_time_distribution never = {.mean = 0};
  check_fails(tn_simulator_builder(simulator, &never, NULL, &b), TN_INVALID_ARGUMENT,
              "a distribution of times has a mean above 0, a deviation of at least 0, and a share of failures from 0 "
              "to 1");
  tn_simulator_release(simulator);
}

static void test_names_of_errors(void **state) {
  assert_string_equal(tn_trial_error_name(TN_TRIAL_OK), "ok");
  assert_string_equal(tn_trial_error_name(TN_TRIAL_CANCELLED), "cancelled");
  assert_string_equal(tn_trial_error_name((tn_trial_error)99), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_asynchronous_measuring_is_near_the_bound),
      cmocka_unit_test(test_no_device_is_idle_while_a_build_is_ready),
      cmocka_unit_test(test_the_window_bounds_what_is_built_ahead),
      cmocka_unit_test(test_rounds_are_told_as_wholes_and_in_order),
      cmocka_unit_test(test_builds_stand_still_while_something_runs),
      cmocka_unit_test(test_failures_end_as_what_they_are),
      cmocka_unit_test(test_the_same_seed_gives_the_same_order),
      cmocka_unit_test(test_a_source_that_waits_is_asked_again),
      cmocka_unit_test(test_stopping),
      cmocka_unit_test(test_releasing_within_a_callback_tells_the_rest),
      cmocka_unit_test(test_submissions_are_bounded),
      cmocka_unit_test(test_cancelling),
      cmocka_unit_test(test_pausing),
      cmocka_unit_test(test_a_builder_that_is_done_at_once),
      cmocka_unit_test(test_kept_answers_are_cancelled),
      cmocka_unit_test(test_chains_of_answers_at_once_do_not_nest),
      cmocka_unit_test(test_a_long_queue_costs_the_same_for_each),
      cmocka_unit_test(test_release_within_a_callback),
      cmocka_unit_test(test_answers_without_sense),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_names_of_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
