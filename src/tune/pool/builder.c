/* Builders of worker processes. */
#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/pool/workers.h"

static void start(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {
  tn__workers_self *b = self;
  tn__message m = {0};
  b->builder = builder;
  tn__message_begin(&m, TN__MESSAGE_BUILD);
  tn__message_u64(&m, 0); /* the task's slot */
  tn__message_u64(&m, handle);
  tn__message_text(&m, input->rule);
  tn__message_text(&m, input->schedule);
  tn__workers_start(b->workers, handle, input->task, &m);
  tn__message_release(&m);
}

static bool done(void *user, tn_trial_handle trial, tn__message_reader *answer) {
  tn__workers_self *b = user;
  tn_build_result result;
  if (!tn__message_get_built(answer, &result)) return false;
  tn_builder_finish(b->builder, trial, &result);
  return true;
}

static void lost(void *user, tn_trial_handle trial, tn_trial_error error, const char *message, double seconds) {
  tn__workers_self *b = user;
  const tn_build_result result = {.error = error, .message = message, .seconds = seconds, .trace = ""};
  tn_builder_finish(b->builder, trial, &result);
}

static void pause_all(void *self, bool pause) {
  tn__workers_self *b = self;
  tn__workers_pause(b->workers, pause);
}

static const tn_builder_functions functions = {
    .size = sizeof(tn_builder_functions), .start = start, .pause = pause_all, .release = tn__workers_self_release};

tn_status *tn_worker_builder_create(const tn_worker_options *options, tn_builder **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("options", options);
  static const tn__workers_owner owner = {.does = "building",
                                          .fault = TN_TRIAL_HOST_COMPILE,
                                          .limit = TN_TRIAL_BUILD_TIMEOUT,
                                          .answer = TN__MESSAGE_BUILT,
                                          .done = done,
                                          .lost = lost};
  static const tn_timing_options no_timing = {.size = sizeof no_timing, .least_repeats = 1, .most_repeats = 1};
  tn_station_options station;
  tn__workers_self *self;
  *out = NULL;
  TN_RETURN_IF_ERROR(tn__workers_self_create(options, &no_timing, false, &owner, &self, &station));
  return tn_builder_create(&functions, self, &station, out);
}

tn_status *tn_worker_builder_statistics(const tn_builder *builder, tn_worker_statistics *out) {
  TN__NEED("builder", builder);
  TN__NEED("out", out);
  return tn__workers_self_statistics((const tn__station *)builder, out);
}
