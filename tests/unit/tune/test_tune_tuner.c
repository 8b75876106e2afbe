/* Tuning on a clock that jumps: builders and runners that take time, and a device whose kernels take what a made-up
 * function says of their schedules. */
#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "tune/tuner/tuner.h"
#include "unit/check.h"

/* ---- a device ---------------------------------------------------------------------------------------------------- */

/* A runner on the simulator's clock, whose results are not the simulator's: a kernel takes what its schedule's text
 * says, so that the same candidate takes the same whenever it comes. */
typedef struct device {
  tn_runner *inner;
  tn_runner *outer;
  int failing; /* one in so many schedules fails; 0: none */
  int first;   /* so many runs fail, whatever they are of */
  int runs;
  int losing; /* lost workers of each candidate before a result */
  struct {
    uint64_t hash;
    int lost;
  } lost[1000]; /* by candidate */
} device;

typedef struct device_run {
  device *device;
  tn_trial_handle handle;
  double median;
  bool fails;
} device_run;

static uint64_t hash_of(const char *schedule) { return tn__hash_string(5, schedule) >> 11; }

static double time_of(const char *schedule) { return 1e-4 * (1 + (double)(hash_of(schedule) % 1000) / 1000); }

static bool is_lost(device *d, const char *schedule) {
  int at = 0;
  if (d->losing == 0) return false;
  while (d->lost[at].hash != 0 && d->lost[at].hash != hash_of(schedule)) at++;
  assert_true(at < 999);
  d->lost[at].hash = hash_of(schedule);
  return d->lost[at].lost++ < d->losing;
}

static void ran(void *user, const tn_build_input *input, const tn_run_result *result) {
  device_run *run = user;
  tn_run_result own = *result;
  if (is_lost(run->device, input->schedule)) {
    own = (tn_run_result){.error = TN_TRIAL_WORKER_LOST, .message = "somebody has killed it"};
    tn_runner_finish(run->device->outer, run->handle, &own);
    free(run);
    return;
  }
  own.median = run->median;
  own.error = run->fails ? TN_TRIAL_WRONG_ANSWER : result->error;
  own.message = run->fails ? "it is not what it should be" : result->message;
  tn_runner_finish(run->device->outer, run->handle, &own);
  free(run);
}

static void device_start(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                         const tn_build_result *build) {
  device *d = self;
  device_run *run = malloc(sizeof *run);
  bool fails = (d->failing > 0 && hash_of(input->schedule) % (uint64_t)d->failing == 0) || d->runs < d->first;
  *run = (device_run){d, handle, time_of(input->schedule), fails};
  d->runs++;
  check_ok(tn_runner_submit(d->inner, input, build, ran, run, NULL));
}

/* ---- a scene ----------------------------------------------------------------------------------------------------- */

static const char declarations[] =
    "kernel product(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n"
    "kernel tiny(A: f32[100]) -> B: f32[100] { B[i] = A[i] + 1 }\n"
    "kernel rows(X: f32[300, 500]) -> S: f32[300] { S[i] = sum(k: 500) X[i, k] }\n"
    "kernel again(A: f32[100]) -> B: f32[100] { B[i] = A[i] + 1 }\n";

/* The result of a comparison. */
typedef struct verdict {
  const tn_tune_task *task;
  const tn__proposal *p;
  bool better;
  double ratio;
  int kept;         /* trials before it */
  char trace[8192]; /* of the candidate */
} verdict;

/* State shared by two tuners: candidates that one of them is measuring or has measured. */
typedef struct shared {
  struct {
    char key[17];
    const void *owner;
    double seconds; /* NAN: being measured */
  } items[1000];
  int count;
} shared;

typedef struct scene {
  tn_simulator *simulator;
  tn_builder *builder;
  device device;
  tn__task_list *list;
  tn__tuner *tuner;
  char traces[600][17]; /* of what was kept, with the task in front */
  double medians[600];
  const char *rules[600], *decisions[600], *texts[600];
  int kept, statics, compared, better;
  int compared_before; /* at the time of stopping */
  int failures;
  verdict verdicts[64];
  shared *shared;             /* shared with another scene; NULL: none */
  double run_seconds;         /* of a candidate; 0: 0.05 */
  const struct scene *before; /* whose records are known */
  int stop_at;                /* when so many are kept; 0: never */
  bool ticks;                 /* the tuner looks at its clock after each step */
  double asked_at[3],
      said[3]; /* when a quarter, a half and three quarters of the trials were kept, and what was left */
  int trials;  /* of which these are */
  bool at_once;
} scene;

static void print_key(const tn_tune_task *task, const char *trace, char key[17]) {
  snprintf(key, 17, "%016llx", (unsigned long long)tn__hash_string(tn__hash_string(1, task->declaration), trace));
}

/* Like a database shared by tuners. */
static tn_status *claim(void *user, const tn_tune_task *task, const tn__proposal *p, tn__tuner_claim *out) {
  const scene *s = user;
  shared *all = s->shared;
  char key[17];
  int at = 0;
  *out = (tn__tuner_claim){.state = TN__TUNER_FREE};
  if (all == NULL) return NULL;
  print_key(task, p->trace, key);
  while (at < all->count && strcmp(all->items[at].key, key) != 0) at++;
  if (at == all->count) {
    assert_true(all->count < 1000);
    memcpy(all->items[all->count].key, key, sizeof key);
    all->items[all->count].seconds = NAN;
    all->items[all->count++].owner = s;
  } else if (!isnan(all->items[at].seconds)) {
    *out = (tn__tuner_claim){.state = TN__TUNER_MEASURED, .seconds = all->items[at].seconds};
  } else if (all->items[at].owner != s) {
    out->state = TN__TUNER_TAKEN;
  }
  return NULL;
}

static void share(shared *all, const char *key, double seconds) {
  for (int i = 0; i < all->count; i++)
    if (strcmp(all->items[i].key, key) == 0) {
      assert_true(isnan(all->items[i].seconds)); /* measured once only */
      all->items[i].seconds = seconds;
      return;
    }
  fail_msg("a candidate was measured that nobody has claimed");
}

static tn_status *add(void *user, const tn__tuner_record *record) {
  scene *s = user;
  char key[17];
  print_key(record->task, record->trace, key);
  if (s->shared != NULL) share(s->shared, key, record->result->run.median);
  for (int i = 0; i < s->kept; i++) assert_string_not_equal(s->traces[i], key); /* nothing is measured twice */
  for (int i = 0; s->before != NULL && i < s->before->kept; i++) assert_string_not_equal(s->before->traces[i], key);
  s->statics += record->trial == 0;
  s->failures += record->result->error != TN_TRIAL_OK;
  assert_string_equal(record->origin, record->trial == 0 ? "static" : "search");
  s->rules[s->kept] = record->rule;
  s->decisions[s->kept] = strdup(record->decisions);
  s->texts[s->kept] = strdup(record->trace);
  s->medians[s->kept] = record->result->error == TN_TRIAL_OK ? record->result->run.median : (double)INFINITY;
  memcpy(s->traces[s->kept++], key, sizeof key);
  if (s->kept == s->stop_at) s->compared_before = s->compared;
  if (s->kept == s->stop_at) tn__tuner_stop(s->tuner, s->at_once);
  for (int i = 0; i < 3 && s->trials > 0; i++)
    if (4 * s->kept == (i + 1) * s->trials) {
      s->asked_at[i] = tn_simulator_now(s->simulator);
      s->said[i] = tn__tuner_time_left(s->tuner);
    }
  return NULL;
}

static tn_status *known(void *user, const tn_tune_task *task, tn__search *search) {
  const scene *s = user, *b = s->before;
  for (int i = 0; b != NULL && i < b->kept; i++) {
    char key[17];
    print_key(task, b->texts[i], key);
    if (strcmp(key, b->traces[i]) == 0)
      TN_RETURN_IF_ERROR(tn__search_know(search, b->rules[i], b->decisions[i], b->texts[i], b->medians[i]));
  }
  return NULL;
}

static tn_status *on_compared(void *user, const tn_tune_task *task, const tn__compared *c) {
  scene *s = user;
  assert_true(s->compared < 64 && strlen(c->best->trace) < sizeof s->verdicts[0].trace);
  verdict *v = &s->verdicts[s->compared++];
  *v = (verdict){.task = task, .p = c->best, .better = c->better, .ratio = c->ratio, .kept = s->kept};
  snprintf(v->trace, sizeof v->trace, "%s", c->best->trace);
  s->better += c->better;
  assert_true(c->better == (c->ratio < 1));
  assert_true(c->medians[0] == c->first->median && c->medians[1] == c->best->median);
  return NULL;
}

static tn_status *known_verdicts(void *user, const tn_tune_task *task,
                                 void (*take)(void *to, const tn__known_verdict *verdict), void *to) {
  const scene *s = user, *b = s->before;
  for (int i = 0; b != NULL && i < b->compared; i++)
    if (strcmp(b->verdicts[i].task->declaration, task->declaration) == 0)
      take(to, &(tn__known_verdict){b->verdicts[i].trace, b->verdicts[i].better, b->verdicts[i].ratio});
  return NULL;
}

static void begin(scene *s) {
  const tn_time_distribution build = {.mean = 0.1, .deviation = 0.05},
                             run = {.mean = s->run_seconds > 0 ? s->run_seconds : 0.05, .deviation = 0.02};
  const tn_station_options two = {.size = sizeof two, .slots = 2};
  check_ok(tn_simulator_create(3, &s->simulator));
  check_ok(tn_simulator_builder(s->simulator, &build, &two, &s->builder));
  check_ok(tn_simulator_runner(s->simulator, &run, NULL, &s->device.inner));
  const tn_runner_functions functions = {.size = sizeof functions, .start = device_start};
  check_ok(tn_runner_create(&functions, &s->device, NULL, &s->device.outer));
  char path[] = "/tmp/tenon-tune-XXXXXX.te";
  int file = mkstemps(path, 3);
  assert_true(file >= 0);
  assert_int_equal(write(file, declarations, strlen(declarations)), strlen(declarations));
  close(file);
  const tn_compile_options options = {.size = sizeof options, .target = "x86-64-v3", .run_threads = 1};
  check_ok(tn__tasks_create(&s->list));
  check_ok(tn__tasks_add_declarations(s->list, path, NULL, 0, NULL, &options));
  unlink(path);
}

static void begin_tuning(scene *s, tn__tuner_options options) {
  options.clock = tn_simulator_now;
  options.clock_user = s->simulator;
  const tn__tuner_sink sink = {
      .add = add, .known = known, .verdicts = known_verdicts, .claim = claim, .compared = on_compared, .user = s};
  check_ok(tn__tuner_create(s->list, &sink, &options, &s->tuner));
  check_ok(tn__tuner_start(s->tuner, s->builder, &s->device.outer, 1));
}

static void tune(scene *s, const tn__tuner_options *options) {
  begin_tuning(s, *options);
  while (!tn__tuner_is_done(s->tuner)) {
    assert_true(tn_simulator_step(s->simulator));
    if (s->ticks) tn__tuner_tick(s->tuner);
  }
  assert_null(tn__tuner_failure(s->tuner));
}

static void end(scene *s) {
  tn__tuner_release(s->tuner);
  tn_builder_release(s->builder);
  tn_runner_release(s->device.inner); /* first: its runs that go on answer the outer one */
  tn_runner_release(s->device.outer);
  tn_simulator_release(s->simulator);
  tn__tasks_release(s->list);
  for (int i = 0; i < s->kept; i++) {
    free((void *)(uintptr_t)s->decisions[i]);
    free((void *)(uintptr_t)s->texts[i]);
  }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_equal_kernels_are_one_task(void **state) {
  scene s = {0};
  begin(&s);
  assert_int_equal(tn__tasks_count(s.list), 3);
  assert_string_equal(tn__tasks_at(s.list, 1)->task.name, "tiny");
  assert_true(tn__tasks_at(s.list, 1)->weight == 2);
  assert_true(tn__tasks_at(s.list, 0)->weight == 1);
  end(&s);
}

static void test_a_budget_of_trials(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  tune(s, &(tn__tuner_options){.trials = 150});
  assert_in_range(s->kept, 140, 150); /* `tiny` has hardly any candidates: that is no reason to stop */
  assert_int_equal(s->statics, 3);
  double before, after;
  tn__tuner_totals(s->tuner, &before, &after);
  assert_true(after < before);
  for (int i = 0; i < 3; i++) {
    tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
    assert_true(v.trials >= (i == 1 ? 1 : 3) && v.best_seconds <= v.static_seconds);
    if (v.best_seconds < 0.99 * v.static_seconds) assert_true(v.compared && v.better && v.ratio < 1);
  }
  assert_true(s->compared >= 1 && s->better == s->compared);
  end(s);
  free(s);
}

static void test_a_budget_of_time(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  tune(s, &(tn__tuner_options){.budget_seconds = 4, .no_comparison = true});
  assert_in_range(s->kept, 50, 90); /* the device takes 0.05 s for one */
  assert_int_equal(s->compared, 0);
  assert_true(tn_simulator_now(s->simulator) < 4.6); /* what is in flight is finished */
  end(s);
  free(s);
}

static void test_starting_again_repeats_nothing(void **state) {
  scene *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
  begin(first);
  tune(first, &(tn__tuner_options){.trials = 60});
  second->before = first;
  begin(second);
  tune(second, &(tn__tuner_options){.trials = 100});
  assert_in_range(first->kept + second->kept, 95, 100);
  assert_int_equal(second->statics, 0);
  for (int i = 0; i < 3; i++)
    assert_true(tn__tuner_view_of(second->tuner, i).best_seconds <=
                tn__tuner_view_of(first->tuner, i).best_seconds * (1 + 1e-12));
  end(second);
  end(first);
  free(second);
  free(first);
}

static void test_patience_and_speedup(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  tune(s, &(tn__tuner_options){.patience = 20});
  assert_in_range(s->kept, 40, 400);
  for (int i = 0; i < 3; i++) assert_true(tn__tuner_view_of(s->tuner, i).stopped);
  end(s);
  *s = (scene){0};
  begin(s);
  tune(s, &(tn__tuner_options){.target_speedup = 1.1, .trials = 500});
  double before, after;
  tn__tuner_totals(s->tuner, &before, &after);
  assert_true(before >= 1.1 * after);
  assert_true(s->kept < 500);
  end(s);
  free(s);
}

static void test_failing_candidates_are_counted_and_passed_over(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  s->device.failing = 3;
  tune(s, &(tn__tuner_options){.trials = 120});
  int64_t failed = 0;
  for (int i = 0; i < 3; i++) {
    tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
    failed += v.errors[TN_TRIAL_WRONG_ANSWER];
    if (i != 1) assert_true(isfinite(v.best_seconds)); /* `tiny` has two candidates */
    if (v.errors[TN_TRIAL_WRONG_ANSWER] > 0) assert_string_equal(v.first_error, "it is not what it should be");
  }
  assert_int_equal(failed, s->failures);
  assert_in_range(failed, 15, 70);
  end(s);
  free(s);
}

static void test_what_never_works_gets_few_trials(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  s->device.failing = 1;
  tune(s, &(tn__tuner_options){.budget_seconds = 1000});
  for (int i = 0; i < 3; i++) {
    tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
    assert_true(v.stopped && !v.better);
    assert_in_range(v.trials, 1, 50); /* 24, and what was in flight */
  }
  double before, after;
  tn__tuner_totals(s->tuner, &before, &after);
  assert_true(isinf(before) && isinf(after) && s->compared == 0);
  end(s);
  free(s);
}

/* The first run is that of the first task's static choice: what works is better than what fails, and the totals are
 * those of the other tasks. */
static void test_a_static_choice_that_fails(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  s->device.first = 1;
  tune(s, &(tn__tuner_options){.trials = 100, .target_speedup = 50});
  int failed = 0;
  for (int i = 0; i < 3; i++) {
    tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
    if (isfinite(v.static_seconds)) continue;
    assert_true(v.better && !v.compared && isfinite(v.best_seconds) && v.best->index > 0);
    failed++;
  }
  assert_int_equal(failed, 1);
  double before, after;
  tn__tuner_totals(s->tuner, &before, &after);
  assert_true(isfinite(before) && after <= before);
  end(s);
  free(s);
}

static void test_slow_kernels_hardly_pass_the_budget(void **state) {
  scene *s = calloc(1, sizeof *s);
  s->run_seconds = 8;
  begin(s);
  tune(s, &(tn__tuner_options){.budget_seconds = 100, .no_comparison = true});
  assert_true(tn_simulator_now(s->simulator) < 100 + 6 * 8); /* and not the whole window */
  assert_in_range(s->kept, 11, 18);
  end(s);
  free(s);
}

/* A comparison of slow kernels takes minutes, and a trial may be anywhere when the budget ends. */
static void test_a_budget_is_hardly_passed(void **state) {
  for (int slow = 0; slow < 2; slow++) {
    scene *s = calloc(1, sizeof *s);
    s->run_seconds = slow ? 8 : 0.5;
    s->ticks = true;
    begin(s);
    tune(s, &(tn__tuner_options){.budget_seconds = 60});
    double longest = s->run_seconds + 0.1; /* the clock jumps to the end of a run */
    assert_true(tn_simulator_now(s->simulator) < 60 + 2 + longest);
    assert_int_equal(tn__tuner_end_of(s->tuner), TN_TUNER_BUDGET);
    end(s);
    free(s);
  }
}

/* What earlier tunings took counts; what they found is compared still. */
static void test_a_budget_goes_on(void **state) {
  const double spent[] = {0, 30, 60, 100};
  for (int i = 0; i < 4; i++) {
    scene *s = calloc(1, sizeof *s);
    s->run_seconds = 0.2;
    s->ticks = true;
    begin(s);
    tune(s, &(tn__tuner_options){
                .budget_seconds = 60, .spent_before = spent[i], .patience = 1000000, .no_comparison = true});
    double left = fmax(60 - spent[i], 0);
    assert_true(s->kept == 0 ? left == 0 : fabs(tn_simulator_now(s->simulator) - left) < 3);
    end(s);
    free(s);
  }
}

static void test_the_time_left_holds(void **state) {
  for (int seed = 1; seed <= 3; seed++) {
    scene *s = calloc(1, sizeof *s);
    s->trials = 200;
    s->run_seconds = 0.1 * seed;
    begin(s);
    tune(s, &(tn__tuner_options){.trials = 200, .seed = (uint64_t)seed, .patience = 1000000});
    double end_time = tn_simulator_now(s->simulator);
    assert_int_equal(s->kept, 200);
    for (int i = 0; i < 3; i++) {
      double real = end_time - s->asked_at[i], ratio = s->said[i] / real;
      print_message("after %d trials: %.1f s left, said %.1f s (%.2f)\n", (i + 1) * 50, real, s->said[i], ratio);
      /* The estimate cannot know that a future candidate will lead and be compared beside two others. */
      double unknown = 3 * 9 * s->run_seconds;
      assert_true(ratio < 1.2 && s->said[i] + unknown > 0.8 * real);
    }
    end(s);
    free(s);
  }
}

/* Wherever a budget ends, the tuner uses the best candidate shown to be better by then, and no other. */
static void test_no_winner_is_lost_at_the_end_of_a_budget(void **state) {
  int with_winner = 0;
  for (int tenths = 5; tenths <= 120; tenths += 16) {
    scene *s = calloc(1, sizeof *s);
    s->ticks = true;
    begin(s);
    tune(s, &(tn__tuner_options){.budget_seconds = 0.1 * tenths, .seed = (uint64_t)tenths});
    for (int i = 0; i < 3; i++) {
      tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
      const verdict *best = NULL; /* the device is exact, so later comparisons never contradict earlier ones */
      for (int k = 0; k < s->compared; k++)
        if (s->verdicts[k].task == &v.item->task && s->verdicts[k].better &&
            (best == NULL || s->verdicts[k].ratio < best->ratio))
          best = &s->verdicts[k];
      assert_int_equal(v.better, best != NULL);
      if (best == NULL) continue;
      with_winner++;
      assert_ptr_equal(v.best, best->p);
      assert_true(fabs(v.best_seconds / v.static_seconds - best->ratio) < 1e-12);
    }
    end(s);
    free(s);
  }
  assert_true(with_winner > 6);
}

/* The first comparison takes place after a few trials, not after the last one. */
static void test_what_leads_is_compared_at_once(void **state) {
  scene *s = calloc(1, sizeof *s);
  begin(s);
  tune(s, &(tn__tuner_options){.trials = 200});
  assert_true(s->verdicts[0].kept < 30);
  assert_true(s->compared >= 2);
  end(s);
  free(s);
}

/* A later tuning reuses the verdicts of an earlier one, repeats no comparison, and uses the winner whenever it ends. */
static void test_verdicts_are_known_when_tuning_goes_on(void **state) {
  scene *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
  begin(first);
  tune(first, &(tn__tuner_options){.trials = 60});
  second->before = first;
  begin(second);
  tune(second, &(tn__tuner_options){.trials = 60});
  assert_int_equal(second->kept, 0);
  assert_int_equal(second->compared, 0);
  for (int i = 0; i < 3; i++) {
    tn__tuner_view a = tn__tuner_view_of(first->tuner, i), b = tn__tuner_view_of(second->tuner, i);
    assert_int_equal(a.better, b.better);
    if (!a.better) continue;
    assert_string_equal(a.best->trace, b.best->trace);
    assert_true(fabs(a.ratio - b.ratio) < 1e-12);
  }
  end(second);
  end(first);
  free(second);
  free(first);
}

/* Each candidate's worker is lost once or twice before a result. No candidate is charged with that, in particular
 * not the static choice, and each is measured in the end. */
static void test_lost_workers_charge_nobody(void **state) {
  for (int losing = 1; losing <= 2; losing++) {
    scene *s = calloc(1, sizeof *s);
    begin(s);
    s->device.losing = losing;
    tune(s, &(tn__tuner_options){.trials = 100});
    assert_int_equal(s->failures, 0);
    assert_int_equal(s->statics, 3);
    assert_in_range(s->kept, 95, 100);
    for (int i = 0; i < 3; i++) {
      tn__tuner_view v = tn__tuner_view_of(s->tuner, i);
      assert_true(isfinite(v.static_seconds) && v.first_error == NULL);
    }
    assert_true(s->better >= 1);
    end(s);
    free(s);
  }
}

/* Two tuners that share results, like those of one database: trials of one count for the other. */
static void test_two_tuners_measure_nothing_twice(void **state) {
  scene *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
  shared *s = calloc(1, sizeof *s);
  a->shared = b->shared = s;
  tn__tuner_options options = {.trials = 80, .seed = 9, .no_comparison = true}; /* so both request the same ones */
  begin(a);
  begin(b);
  begin_tuning(a, options);
  begin_tuning(b, options);
  while (!tn__tuner_is_done(a->tuner) || !tn__tuner_is_done(b->tuner)) {
    scene *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
      if (tn__tuner_is_done(both[i]->tuner)) continue;
      (void)tn_simulator_step(both[i]->simulator);
      tn__tuner_tick(both[i]->tuner);
    }
  }
  assert_null(tn__tuner_failure(a->tuner));
  assert_null(tn__tuner_failure(b->tuner));
  assert_true(a->kept > 20 && b->kept > 20); /* add() has checked for duplicates */
  assert_true(tn__tuner_known(a->tuner) + tn__tuner_known(b->tuner) > 10);
  end(a);
  end(b);
  free(a);
  free(b);
  free(s);
}

static void test_stopping(void **state) {
  for (int at_once = 0; at_once < 2; at_once++) {
    scene *s = calloc(1, sizeof *s);
    begin(s);
    s->stop_at = 30;
    s->at_once = at_once != 0;
    tune(s, &(tn__tuner_options){.trials = 400});
    if (at_once) assert_int_equal(s->kept, 30);
    assert_in_range(s->kept, 30, 60);
    if (at_once) assert_int_equal(s->compared, s->compared_before);
    if (!at_once) assert_true(s->compared > 0);
    end(s);
    free(s);
  }
}

static void test_the_same_seed_tunes_alike(void **state) {
  scene *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
  begin(a);
  begin(b);
  tune(a, &(tn__tuner_options){.trials = 80, .seed = 9});
  tune(b, &(tn__tuner_options){.trials = 80, .seed = 9});
  assert_int_equal(a->kept, b->kept);
  for (int i = 0; i < a->kept; i++) assert_string_equal(a->traces[i], b->traces[i]);
  end(a);
  end(b);
  free(a);
  free(b);
}

static void test_what_cannot_be(void **state) {
  scene s = {0};
  begin(&s);
  const tn__tuner_sink sink = {.add = add, .user = &s};
  check_fails(tn__tuner_create(s.list, &sink, &(tn__tuner_options){.trials = -1}, &s.tuner), TN_INVALID_ARGUMENT,
              "a budget is above zero, in seconds or trials");
  check_fails(tn__tuner_create(s.list, &sink, &(tn__tuner_options){.target_speedup = 0.5}, &s.tuner),
              TN_INVALID_ARGUMENT, "a speedup to reach is above 1, not 0.5");
  tn__task_list *empty;
  check_ok(tn__tasks_create(&empty));
  check_fails(tn__tuner_create(empty, &sink, &(tn__tuner_options){.trials = 1}, &s.tuner), TN_INVALID_ARGUMENT,
              "there is nothing to tune: no kernel of known sizes");
  tn__tasks_release(empty);
  end(&s);
}

/* A space that is to be measured whole has about as many points as were asked for, whichever of its rules has them: as
 * many as boxes of choices allow. */
static void test_spaces_that_are_measured_whole(void **state) {
  static const char texts[][160] = {
      "kernel p(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }",
      "kernel p(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = min(k: 64) A[i, k] + B[k, j] }",
      "kernel p(A: f32[90, 110, 70]) -> M: f32[90, 70] { M[i, j] = sum(k: 110) A[i, k, j] }"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const tn_tune_task task = {
        .size = sizeof task, .name = "p", .declaration = texts[i], .target = "x86-64-v3", .threads = 1};
    enum { MOST = 400 };
    tn__space *space;
    int possible = 0;
    double whole = 0;
    check_ok(tn__space_open(&task, &space));
    for (int r = 0; r < space->rule_count; r++) whole += (double)space->rules[r].points;
    check_ok(tn__space_restrict(space, MOST));
    for (int r = 0; r < space->rule_count; r++)
      for (int64_t at = 0; at < space->rules[r].points; at++) {
        tn__space_point point = {.rule = r};
        tn__sketch_at(space->rules[r].sketch, at, point.values);
        possible += isfinite(tn__space_weigh(space, &point).cycles);
      }
    print_message("%d of %.0f points\n", possible, whole);
    assert_true(possible <= MOST && possible > MOST * 2 / 5);
    tn__space_close(space);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_kernels_are_one_task),
      cmocka_unit_test(test_a_budget_of_trials),
      cmocka_unit_test(test_a_budget_of_time),
      cmocka_unit_test(test_starting_again_repeats_nothing),
      cmocka_unit_test(test_patience_and_speedup),
      cmocka_unit_test(test_failing_candidates_are_counted_and_passed_over),
      cmocka_unit_test(test_what_never_works_gets_few_trials),
      cmocka_unit_test(test_a_static_choice_that_fails),
      cmocka_unit_test(test_slow_kernels_hardly_pass_the_budget),
      cmocka_unit_test(test_a_budget_is_hardly_passed),
      cmocka_unit_test(test_a_budget_goes_on),
      cmocka_unit_test(test_the_time_left_holds),
      cmocka_unit_test(test_no_winner_is_lost_at_the_end_of_a_budget),
      cmocka_unit_test(test_what_leads_is_compared_at_once),
      cmocka_unit_test(test_verdicts_are_known_when_tuning_goes_on),
      cmocka_unit_test(test_lost_workers_charge_nobody),
      cmocka_unit_test(test_two_tuners_measure_nothing_twice),
      cmocka_unit_test(test_stopping),
      cmocka_unit_test(test_spaces_that_are_measured_whole),
      cmocka_unit_test(test_the_same_seed_tunes_alike),
      cmocka_unit_test(test_what_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
