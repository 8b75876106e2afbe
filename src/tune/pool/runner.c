/* Runners of worker processes. */
#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/pool/workers.h"

static void start(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                  const tn_build_result *build) {
  tn__workers_self *r = self;
  tn__message m = {0};
  r->runner = runner;
  tn__message_begin(&m, TN__MESSAGE_RUN);
  tn__message_u64(&m, 0); /* the task's slot */
  tn__message_u64(&m, handle);
  tn__message_f64(&m, input->slow_seconds);
  tn__message_bytes(&m, build->code, build->code_size);
  tn__workers_start(r->workers, handle, input->task, &m);
  tn__message_release(&m);
}

static bool done(void *user, tn_trial_handle trial, tn__message_reader *answer) {
  tn__workers_self *r = user;
  tn_run_result result;
  if (!tn__message_get_ran(answer, &result)) return false;
  tn_runner_finish(r->runner, trial, &result);
  return true;
}

static void lost(void *user, tn_trial_handle trial, tn_trial_error error, const char *message, double seconds) {
  tn__workers_self *r = user;
  const tn_run_result result = {.error = error, .message = message, .seconds = seconds};
  tn_runner_finish(r->runner, trial, &result);
}

static const tn_runner_functions functions = {
    .size = sizeof(tn_runner_functions), .start = start, .release = tn__workers_self_release};

static tn_status *read_timing(const tn_timing_options *given, tn_timing_options *t) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_timing_options, given, t));
  if (t->warm_seconds == 0) t->warm_seconds = 0.003;
  if (t->least_seconds == 0) t->least_seconds = 0.03;
  if (t->least_repeats == 0) t->least_repeats = 7;
  if (t->most_repeats == 0) t->most_repeats = t->least_repeats > 50 ? t->least_repeats : 50;
  if (t->most_seconds == 0) t->most_seconds = 0.5;
  if (t->noise == 0) t->noise = 0.08;
  if (t->again == 0) t->again = 3;
  const double times[] = {t->warm_seconds, t->least_seconds, t->most_seconds, t->noise, t->rest_seconds};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
    if (!(times[i] >= 0 && times[i] < 1e6))
      return tn_status_create(TN_INVALID_ARGUMENT, "timing options are 0 to 1e6, not %g", times[i]);
  if (t->least_repeats < 1 || t->most_repeats < t->least_repeats || t->most_repeats > 1 << 20)
    return tn_status_create(TN_INVALID_ARGUMENT, "a kernel is timed 1 to %d times, and no %d to %d", 1 << 20,
                            t->least_repeats, t->most_repeats);
  if (t->again < -1 || (unsigned)t->cache > TN_CACHE_FLUSHED || (unsigned)t->verify > TN_VERIFY_NEVER)
    return tn_status_create(TN_INVALID_ARGUMENT, "again, cache or verify of tn_timing_options is none that there is");
  return NULL;
}

tn_status *tn_worker_runner_create(const tn_worker_options *options, const tn_timing_options *timing, tn_runner **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("options", options);
  static const tn__workers_owner owner = {.does = "running",
                                          .fault = TN_TRIAL_RUN_TIME,
                                          .limit = TN_TRIAL_RUN_TIMEOUT,
                                          .answer = TN__MESSAGE_RAN,
                                          .done = done,
                                          .lost = lost};
  tn_station_options station;
  tn_timing_options t;
  tn__workers_self *self;
  TN_RETURN_IF_ERROR(read_timing(timing, &t));
  TN_RETURN_IF_ERROR(tn__workers_self_create(options, &t, true, &owner, &self, &station));
  return tn_runner_create(&functions, self, &station, out);
}

tn_status *tn_worker_runner_statistics(const tn_runner *runner, tn_worker_statistics *out) {
  TN__NEED("runner", runner);
  TN__NEED("out", out);
  return tn__workers_self_statistics((const tn__station *)runner, out);
}
