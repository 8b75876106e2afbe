/* Runners: a station whose jobs are run. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/measure/station.h"

struct tn_runner {
  tn__station station; /* first: a station of this kind is a runner */
  tn_runner_functions functions;
};

static void start(tn__station *s, const tn__job *job) {
  tn_runner *r = (tn_runner *)s;
  r->functions.start(s->supplied.self, r, job->handle, &job->input, job->build);
}

/* As a builder's. */
static tn_run_result checked(const tn_run_result *told) {
  tn_run_result r = *told;
  tn__station_check_words(&r.error, &r.message);
  tn__station_check_time(&r.seconds, &r.error, &r.message);
  tn__station_check_time(&r.median, &r.error, &r.message);
  tn__station_check_time(&r.spread, &r.error, &r.message);
  return r;
}

static void tell(const tn__job *job, const void *result) {
  static const tn_run_result cancelled = {.error = TN_TRIAL_CANCELLED, .message = "the run was cancelled"};
  const tn_run_result told = checked(result != NULL ? result : &cancelled);
  job->callback.run(job->user, &job->input, &told);
}

/* Copies the result into one block, like the builder's. */
static void *keep(const void *result) {
  const tn_run_result r = checked(result);
  size_t message = strlen(r.message) + 1;
  tn_run_result *kept = malloc(sizeof *kept + message);
  if (kept == NULL) return NULL;
  *kept = r;
  kept->message = memcpy(kept + 1, r.message, message);
  return kept;
}

static const tn_run_result not_kept = {.error = TN_TRIAL_WORKER_LOST, .message = "out of memory for a run's result"};
static const tn__station_kind runner_kind = {"runner", sizeof(tn_runner), start, NULL, tell, keep, &not_kept};

tn_status *tn_runner_create(const tn_runner_functions *functions, void *self, const tn_station_options *options,
                            tn_runner **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("functions", functions);
  tn_runner_functions f;
  tn__station *station;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_runner_functions, functions, &f));
  if (f.start == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "a runner needs a function `start`");
  const tn__supplied supplied = {self, f.cancel, f.release};
  TN_RETURN_IF_ERROR(tn__station_create(&runner_kind, &supplied, options, &station));
  *out = (tn_runner *)station;
  (*out)->functions = f;
  return NULL;
}

void tn_runner_release(tn_runner *runner) {
  if (runner != NULL) tn__station_release(&runner->station);
}

tn_status *tn_runner_submit(tn_runner *runner, const tn_build_input *input, const tn_build_result *build,
                            tn_run_callback callback, void *user, tn_trial_handle *handle) {
  TN__NEED("runner", runner);
  TN__NEED("input", input);
  TN__NEED("build", build);
  TN__NEED("callback", callback);
  const tn__job job = {.input = *input, .build = build, .callback.run = callback, .user = user};
  return tn__station_submit(&runner->station, &job, handle);
}

bool tn_runner_cancel(tn_runner *runner, tn_trial_handle handle) {
  if (runner == NULL) return false;
  return tn__station_cancel(&runner->station, handle);
}

void tn_runner_finish(tn_runner *runner, tn_trial_handle handle, const tn_run_result *result) {
  if (runner == NULL || result == NULL) return;
  tn__station_finish(&runner->station, handle, result);
}

int tn_runner_poll(tn_runner *runner) { return runner == NULL ? 0 : tn__station_poll(&runner->station); }

int tn_runner_slots(const tn_runner *runner) {
  if (runner == NULL) return 0;
  return runner->station.options.slots;
}

int tn_runner_busy(const tn_runner *runner) {
  if (runner == NULL) return 0;
  return runner->station.busy;
}
