/* Searches in a thread of their own: nothing is proposed twice, all that is told arrives, and nobody waits. */
#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "base/hash.h"
#include "tune/tuner/proposer.h"
#include "unit/check.h"

enum { TASKS = 2, TRIALS = 120 };

static const char *const declarations[TASKS] = {
    "kernel k(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n",
    "kernel k(A: f32[64]) -> B: f32[64] { B[i] = A[i] + 1 }\n" /* of a small space */
};

typedef struct scene {
  tn_tune_task tasks[TASKS];
  tn__space *spaces[TASKS];
  tn__search *searches[TASKS];
  tn__cost_model *model;
  tn__proposer *proposer;
  _Atomic int called;
  int counts[TASKS];
  const char *traces[TASKS][TRIALS];
} scene;

static void ready(void *user) { atomic_fetch_add(&((scene *)user)->called, 1); }

static void begin(scene *s, bool threaded) {
  *s = (scene){.model = NULL};
  check_ok(tn__model_create(&s->model));
  for (int i = 0; i < TASKS; i++) {
    s->tasks[i] = (tn_tune_task){
        .size = sizeof s->tasks[i], .name = "k", .declaration = declarations[i], .target = "haswell", .threads = 1};
    check_ok(tn__space_open(&s->tasks[i], &s->spaces[i]));
    check_ok(tn__search_create(s->spaces[i], s->model, TN__SEARCH_EVOLUTION, 7, &s->searches[i]));
  }
  const tn__proposer_words words = {
      .searches = s->searches, .count = TASKS, .ready = threaded ? ready : NULL, .user = s};
  check_ok(tn__proposer_start(&words, &s->proposer));
}

static void end(scene *s) {
  tn__proposer_release(s->proposer);
  for (int i = 0; i < TASKS; i++) {
    tn__search_release(s->searches[i]);
    tn__space_close(s->spaces[i]);
  }
  tn__model_release(s->model);
}

/* Waits for a proposal. Returns NULL if none is left. */
static const tn__proposal *take(scene *s, int task) {
  const tn__proposal *p;
  for (;;) {
    check_ok(tn__proposer_next(s->proposer, task, &p));
    if (p != NULL || tn__proposer_state_of(s->proposer, task) == TN__PROPOSER_EXHAUSTED) return p;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

static double time_of(const char *trace) { return 1e-4 * (1 + (double)(tn__hash_string(5, trace) % 1000) / 1000); }

/* Up to so many trials of both tasks in turn. */
static void tune(scene *s) {
  for (int i = 0; i < TRIALS; i++)
    for (int t = 0; t < TASKS; t++) {
      const tn__proposal *p = take(s, t);
      if (p == NULL) continue;
      for (int k = 0; k < s->counts[t]; k++) assert_string_not_equal(s->traces[t][k], p->trace);
      s->traces[t][s->counts[t]++] = p->trace;
      check_ok(tn__proposer_tell(s->proposer, t, p->index, time_of(p->trace)));
    }
  check_ok(tn__proposer_finish(s->proposer));
}

static void check_told(const scene *s) {
  for (int t = 0; t < TASKS; t++) {
    int told = 0;
    double least = INFINITY;
    for (int i = 0; i < tn__search_count(s->searches[t]); i++) {
      const tn__proposal *p = tn__search_at(s->searches[t], i);
      if (isnan(p->median)) continue; /* it was ready, and nobody asked for it */
      assert_float_equal(p->median, time_of(p->trace), 0);
      least = fmin(least, p->median);
      told++;
    }
    assert_int_equal(told, s->counts[t]);
    assert_float_equal(tn__search_best(s->searches[t])->median, least, 0);
    assert_in_range((uintmax_t)(1e6 * tn__proposer_promise(s->proposer, t)), 1, 1000000);
  }
  assert_int_equal(tn__model_samples(s->model), s->counts[0] + s->counts[1]);
}

static void test_in_a_thread(void **state) {
  scene s;
  begin(&s, true);
  tune(&s);
  assert_int_equal(s.counts[0], TRIALS);
  assert_true(atomic_load(&s.called) >= TASKS); /* at first nothing was ready */
  assert_true(tn__proposer_seconds(s.proposer) > 0);
  check_told(&s);
  assert_true(tn__model_knows(s.model));
  end(&s);
}

static void test_without_a_thread(void **state) {
  scene s, again;
  begin(&s, false);
  tune(&s);
  check_told(&s);
  begin(&again, false);
  tune(&again);
  for (int t = 0; t < TASKS; t++) {
    assert_int_equal(s.counts[t], again.counts[t]);
    for (int i = 0; i < s.counts[t]; i++) assert_string_equal(s.traces[t][i], again.traces[t][i]);
  }
  end(&s);
  end(&again);
}

static void test_ends_at_any_time(void **state) {
  for (int i = 0; i < 20; i++) {
    scene s;
    const tn__proposal *p;
    begin(&s, true);
    nanosleep(&(struct timespec){.tv_nsec = 300000 * i}, NULL);
    check_ok(tn__proposer_next(s.proposer, 0, &p));
    if (p != NULL) check_ok(tn__proposer_tell(s.proposer, 0, p->index, 1e-4));
    if (i % 2 == 0) check_ok(tn__proposer_finish(s.proposer));
    end(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_a_thread),
      cmocka_unit_test(test_without_a_thread),
      cmocka_unit_test(test_ends_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
