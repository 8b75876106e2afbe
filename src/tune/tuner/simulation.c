#include "tune/tuner/simulation.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"

struct tn__simulation {
  tn_simulator *simulator;
  tn_builder *builder;
  tn_runner *runner;
  tn_runner *timer; /* that takes the simulator's time for a run */
  const tn__tuner *tuner;
  uint64_t seed;
};

typedef struct run {
  tn_runner *runner;
  tn_trial_handle handle;
  double median;
} run;

tn_simulator *tn__simulation_clock(const tn__simulation *s) { return s->simulator; }
void tn__simulation_of(tn__simulation *s, const tn__tuner *tuner) { s->tuner = tuner; }

/* From 2/3 to 3/2, evenly in the logarithm. */
static double factor_of(const tn__simulation *s, const char *schedule) {
  double u = (double)(tn__hash_mix(tn__hash_string(s->seed, schedule), 1) >> 11) * 0x1p-53;
  return exp((2 * u - 1) * log(1.5));
}

static void ran(void *user, const tn_build_input *input, const tn_run_result *result) {
  run *r = user;
  tn_run_result told = *result;
  told.median = r->median;
  tn_runner_finish(r->runner, r->handle, &told);
  free(r);
}

static void start(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                  const tn_build_result *build) {
  static const tn_run_result no_memory = {.error = TN_TRIAL_WORKER_LOST, .message = "out of memory"};
  const double unknown = 1e-3; /* of what no rule knows the cost */
  tn__simulation *s = self;
  run *r = malloc(sizeof *r);
  if (r == NULL) {
    tn_runner_finish(runner, handle, &no_memory);
    return;
  }
  double cost = tn__tuner_cost(s->tuner, input);
  *r = (run){runner, handle, (isfinite(cost) && cost > 0 ? cost : unknown) * factor_of(s, input->schedule)};
  tn_status *status = tn_runner_submit(s->timer, input, build, ran, r, NULL);
  if (status == NULL) return;
  const tn_run_result refused = {.error = TN_TRIAL_WORKER_LOST, .message = tn_status_message(status)};
  tn_runner_finish(runner, handle, &refused);
  tn_status_free(status);
  free(r);
}

tn_builder *tn__simulation_builder(const tn__simulation *s) { return s->builder; }
tn_runner *tn__simulation_runner(const tn__simulation *s) { return s->runner; }

tn_status *tn__simulation_create(uint64_t seed, tn__simulation **out) {
  const tn_time_distribution build = {.mean = 0.02, .deviation = 0.01}, timed = {.mean = 0.05, .deviation = 0.01};
  const tn_station_options two = {.size = sizeof two, .slots = 2};
  const tn_runner_functions functions = {.size = sizeof functions, .start = start};
  void *memory;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__simulation), 0, &memory));
  tn__simulation *s = memory;
  *s = (tn__simulation){.seed = seed};
  tn_status *status = tn_simulator_create(seed, &s->simulator);
  if (status == NULL) status = tn_simulator_runner(s->simulator, &timed, NULL, &s->timer);
  if (status == NULL) status = tn_simulator_builder(s->simulator, &build, &two, &s->builder);
  if (status == NULL) status = tn_runner_create(&functions, s, NULL, &s->runner);
  if (status == NULL)
    *out = s;
  else
    tn__simulation_release(s);
  return status;
}

/* The timer first: its runs that go on answer the runner. */
void tn__simulation_release(tn__simulation *s) {
  if (s == NULL) return;
  tn_builder_release(s->builder);
  tn_runner_release(s->timer);
  tn_runner_release(s->runner);
  tn_simulator_release(s->simulator);
  tn__free(NULL, s, sizeof *s, 0);
}
