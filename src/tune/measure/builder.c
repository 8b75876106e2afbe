/* Builders: a station whose jobs are built. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "tune/measure/station.h"

struct tn_builder {
  tn__station station; /* first: a station of this kind is a builder */
  tn_builder_functions functions;
};

static void start(tn__station *s, const tn__job *job) {
  tn_builder *b = (tn_builder *)s;
  b->functions.start(s->supplied.self, b, job->handle, &job->input);
}

static void pause_all(tn__station *s, bool pause) {
  tn_builder *b = (tn_builder *)s;
  if (b->functions.pause != NULL) b->functions.pause(s->supplied.self, pause);
}

/* What was supplied may tell anything: the callback gets a result that makes sense. */
static tn_build_result checked(const tn_build_result *told) {
  tn_build_result r = *told;
  tn__station_check_words(&r.error, &r.message);
  tn__station_check_time(&r.seconds, &r.error, &r.message);
  if (r.error == TN_TRIAL_OK && r.code == NULL && r.code_size > 0) {
    r.error = TN_TRIAL_HOST_COMPILE;
    r.message = "the builder told a size of code, and no code";
  }
  return r;
}

static void tell(const tn__job *job, const void *result) {
  static const tn_build_result cancelled = {.error = TN_TRIAL_CANCELLED, .message = "the build was cancelled"};
  const tn_build_result told = checked(result != NULL ? result : &cancelled);
  job->callback.build(job->user, &job->input, &told);
}

/* Copies the result with its texts and code into one block. */
static void *keep(const void *result) {
  const tn_build_result r = checked(result);
  const char *trace = r.trace != NULL ? r.trace : "";
  size_t message = strlen(r.message) + 1, steps = strlen(trace) + 1, size = r.code != NULL ? r.code_size : 0;
  tn_build_result *kept = malloc(sizeof *kept + size + message + steps);
  if (kept == NULL) return NULL;
  char *code = (char *)(kept + 1);
  *kept = r;
  kept->code = code;
  kept->code_size = size;
  if (size > 0) memcpy(code, r.code, size);
  kept->message = memcpy(code + size, r.message, message);
  kept->trace = memcpy(code + size + message, trace, steps);
  return kept;
}

static const tn_build_result not_kept = {.error = TN_TRIAL_WORKER_LOST, .message = "out of memory for a build result"};
static const tn__station_kind builder_kind = {"builder", sizeof(tn_builder), start, pause_all, tell, keep, &not_kept};

tn_status *tn_builder_create(const tn_builder_functions *functions, void *self, const tn_station_options *options,
                             tn_builder **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("functions", functions);
  tn_builder_functions f;
  tn__station *station;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_builder_functions, functions, &f));
  if (f.start == NULL) return tn_status_create(TN_INVALID_ARGUMENT, "a builder needs a function `start`");
  const tn__supplied supplied = {self, f.cancel, f.release};
  TN_RETURN_IF_ERROR(tn__station_create(&builder_kind, &supplied, options, &station));
  *out = (tn_builder *)station;
  (*out)->functions = f;
  return NULL;
}

void tn_builder_release(tn_builder *builder) {
  if (builder != NULL) tn__station_release(&builder->station);
}

tn_status *tn_builder_submit(tn_builder *builder, const tn_build_input *input, tn_build_callback callback, void *user,
                             tn_trial_handle *handle) {
  TN__NEED("builder", builder);
  TN__NEED("input", input);
  TN__NEED("callback", callback);
  const tn__job job = {.input = *input, .callback.build = callback, .user = user};
  return tn__station_submit(&builder->station, &job, handle);
}

bool tn_builder_cancel(tn_builder *builder, tn_trial_handle handle) {
  if (builder == NULL) return false;
  return tn__station_cancel(&builder->station, handle);
}

void tn_builder_finish(tn_builder *builder, tn_trial_handle handle, const tn_build_result *result) {
  if (builder == NULL || result == NULL) return;
  tn__station_finish(&builder->station, handle, result);
}

int tn_builder_poll(tn_builder *builder) { return builder == NULL ? 0 : tn__station_poll(&builder->station); }

void tn_builder_pause(tn_builder *builder, bool pause) {
  if (builder == NULL) return;
  tn__station_pause(&builder->station, pause);
}

int tn_builder_slots(const tn_builder *builder) {
  if (builder == NULL) return 0;
  return builder->station.options.slots;
}

int tn_builder_busy(const tn_builder *builder) {
  if (builder == NULL) return 0;
  return builder->station.busy;
}
