/* A simulator: builders and runners that take time from a distribution, on a clock that jumps from event to event. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tenon/tune.h"

/* Something is done in a slot. While its builder stands still, `left` is what it has to go. */
typedef struct activity {
  tn_trial_handle handle;
  bool used;
  double end, left;
  uint64_t order; /* in which it began: of two that end together the earlier ends first */
  tn_trial_error error;
} activity;

typedef struct place place; /* a builder or runner */
struct place {
  place *next;
  tn_simulator *simulator;
  tn_time_distribution times;
  tn_builder *builder;
  tn_runner *runner;
  activity *slots;
  int slot_count;
  bool paused;
};

struct tn_simulator {
  uint64_t seed, order;
  double now;
  place *places;
};

tn_status *tn_simulator_create(uint64_t seed, tn_simulator **out) {
  TN__NEED("out", out);
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn_simulator), 0, &memory));
  *out = memory;
  (*out)->seed = seed;
  return NULL;
}

void tn_simulator_release(tn_simulator *simulator) {
  if (simulator != NULL) tn__free(NULL, simulator, sizeof *simulator, 0);
}

double tn_simulator_now(void *simulator) {
  if (simulator == NULL) return 0;
  return ((const tn_simulator *)simulator)->now;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t z) { /* SplitMix64's finaliser (Steele, Lea and Flood, 2014) */
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* In (0, 1); the same for the same words. */
static double uniform(uint64_t seed, uint64_t id, bool run, unsigned number) {
  uint64_t z = mixed(seed + 0x9e3779b97f4a7c15u * (id + 1));
  z = mixed(z + 0x9e3779b97f4a7c15u * (2 * number + run + 1));
  return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

double tn_simulator_duration(const tn_simulator *simulator, const tn_time_distribution *times, uint64_t id, bool run) {
  if (simulator == NULL || times == NULL) return 0;
  double u = uniform(simulator->seed, id, run, 0);
  if (times->ratio > 1) return times->mean * pow(times->ratio, u - 0.5);
  if (times->deviation <= 0) return times->mean;
  /* A normal variable by Box and Muller; the logarithm's moments follow from mean and deviation. */
  double v = uniform(simulator->seed, id, run, 1), turn = 6.283185307179586 * v;
  double variance = log1p(times->deviation * times->deviation / (times->mean * times->mean));
  return exp(log(times->mean) - 0.5 * variance + sqrt(variance) * sqrt(-2 * log(u)) * cos(turn));
}

/* ---- builders and runners ---------------------------------------------------------------------------------------- */

static void begin(place *p, tn_trial_handle handle, uint64_t id) {
  bool run = p->runner != NULL;
  tn_simulator *s = p->simulator;
  activity *a = p->slots;
  while (a->used) a++;
  double seconds = tn_simulator_duration(s, &p->times, id, run);
  tn_trial_error usual = run ? TN_TRIAL_RUN_TIME : TN_TRIAL_HOST_COMPILE;
  bool fails = uniform(s->seed, id, run, 2) < p->times.failures;
  *a = (activity){.handle = handle, .used = true, .end = s->now + seconds, .left = seconds, .order = s->order++};
  if (fails) a->error = p->times.error != TN_TRIAL_OK ? p->times.error : usual;
}

static void start_build(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  place *p = self;
  p->builder = builder;
  begin(p, handle, input->id);
}

static void start_run(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                      const tn_build_result *build) {
  place *p = self;
  p->runner = runner;
  begin(p, handle, input->id);
}

static void finish(place *p, activity *a) {
  static const char text[] = "the simulator makes it fail";
  const activity ended = *a;
  a->used = false;
  const char *message = ended.error != TN_TRIAL_OK ? text : "";
  if (p->runner != NULL) {
    const tn_run_result result = {
        .error = ended.error, .message = message, .seconds = ended.left, .median = ended.left, .calls = 1};
    tn_runner_finish(p->runner, ended.handle, &result);
  } else {
    const tn_build_result result = {.error = ended.error, .message = message, .seconds = ended.left};
    tn_builder_finish(p->builder, ended.handle, &result);
  }
}

static void cancel(void *self, tn_trial_handle handle) {
  place *p = self;
  for (int i = 0; i < p->slot_count; i++)
    if (p->slots[i].used && p->slots[i].handle == handle) {
      finish(p, &p->slots[i]);
      return;
    }
}

static void pause_builds(void *self, bool pause) {
  place *p = self;
  double now = p->simulator->now;
  for (int i = 0; i < p->slot_count; i++) {
    activity *a = &p->slots[i];
    if (pause)
      a->left = a->end - now;
    else
      a->end = now + a->left;
  }
  p->paused = pause;
}

static void release(void *self) {
  place *p = self, **at = &p->simulator->places;
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  tn__free(NULL, p->slots, (size_t)p->slot_count * sizeof(activity), 0);
  tn__free(NULL, p, sizeof *p, 0);
}

static tn_status *make_place(tn_simulator *simulator, const tn_time_distribution *times, int slots, place **out) {
  if (!(times->mean > 0) || !isfinite(times->mean) || !(times->deviation >= 0) || !(times->failures >= 0) ||
      times->failures > 1)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "a distribution of times has a mean above 0, a deviation of at least "
                            "0, and a share of failures from 0 to 1");
  void *memory, *list;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(place), 0, &memory));
  tn_status *status = tn__alloc(NULL, (size_t)slots, sizeof(activity), 0, &list);
  if (status != NULL) {
    tn__free(NULL, memory, sizeof(place), 0);
    return status;
  }
  place *p = memory;
  *p = (place){.next = simulator->places, .simulator = simulator, .times = *times, .slots = list, .slot_count = slots};
  simulator->places = p;
  *out = p;
  return NULL;
}

static int slots_of(const tn_station_options *options) {
  enum { MOST = 1024 }; /* what is beyond is refused by the builder or runner itself */
  int slots = options != NULL && options->size >= sizeof *options ? options->slots : 0;
  return slots < 1 ? 1 : slots > MOST ? MOST : slots;
}

tn_status *tn_simulator_builder(tn_simulator *simulator, const tn_time_distribution *times,
                                const tn_station_options *options, tn_builder **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("simulator", simulator);
  TN__NEED("times", times);
  place *p;
  TN_RETURN_IF_ERROR(make_place(simulator, times, slots_of(options), &p));
  const tn_builder_functions functions = {
      .size = sizeof functions, .start = start_build, .cancel = cancel, .pause = pause_builds, .release = release};
  return tn_builder_create(&functions, p, options, out);
}

tn_status *tn_simulator_runner(tn_simulator *simulator, const tn_time_distribution *times,
                               const tn_station_options *options, tn_runner **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("simulator", simulator);
  TN__NEED("times", times);
  place *p;
  TN_RETURN_IF_ERROR(make_place(simulator, times, slots_of(options), &p));
  const tn_runner_functions functions = {
      .size = sizeof functions, .start = start_run, .cancel = cancel, .release = release};
  return tn_runner_create(&functions, p, options, out);
}

bool tn_simulator_step(tn_simulator *simulator) {
  if (simulator == NULL) return false;
  place *where = NULL;
  activity *first = NULL;
  for (place *p = simulator->places; p != NULL; p = p->next)
    for (int i = 0; i < p->slot_count && !p->paused; i++) {
      activity *a = &p->slots[i];
      if (!a->used) continue;
      if (first != NULL && (a->end > first->end || (a->end == first->end && a->order > first->order))) continue;
      first = a;
      where = p;
    }
  if (first == NULL) return false;
  simulator->now = first->end;
  finish(where, first);
  return true;
}
