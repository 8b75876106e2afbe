/* The fields of each kind of message, in the order in which they are written and read. */
#include <math.h>
#include <string.h>

#include "tune/message/message.h"

void tn__message_put_setup(tn__message *m, const tn__message_setup *s) {
  const tn_timing_options *t = &s->timing;
  tn__message_u64(m, TN__MESSAGE_PROTOCOL);
  tn__message_u64(m, s->runs);
  tn__message_f64(m, s->cpu_seconds);
  tn__message_u64(m, s->memory_bytes);
  tn__message_u64(m, (uint64_t)(int64_t)s->nice);
  tn__message_u64(m, (uint64_t)s->core_count);
  for (int i = 0; i < s->core_count; i++) tn__message_u64(m, (uint64_t)s->cores[i]);
  tn__message_f64(m, t->warm_seconds);
  tn__message_f64(m, t->least_seconds);
  tn__message_u64(m, (uint64_t)t->least_repeats);
  tn__message_u64(m, (uint64_t)t->most_repeats);
  tn__message_f64(m, t->most_seconds);
  tn__message_f64(m, t->noise);
  tn__message_u64(m, (uint64_t)(int64_t)t->again);
  tn__message_f64(m, t->rest_seconds);
  tn__message_u64(m, (uint64_t)t->cache);
  tn__message_u64(m, (uint64_t)t->verify);
  tn__message_u64(m, t->seed);
}

bool tn__message_get_setup(tn__message_reader *r, tn__message_setup *out) {
  *out = (tn__message_setup){.timing.size = sizeof(tn_timing_options)};
  tn_timing_options *t = &out->timing;
  (void)tn__message_get_int(r, TN__MESSAGE_PROTOCOL, TN__MESSAGE_PROTOCOL);
  out->runs = tn__message_get_int(r, 0, 1) != 0;
  out->cpu_seconds = tn__message_get_f64(r);
  out->memory_bytes = tn__message_get_u64(r);
  out->nice = (int)tn__message_get_int(r, -64, 64);
  out->core_count = (int)tn__message_get_int(r, 0, TN__MESSAGE_MOST_CORES);
  for (int i = 0; i < out->core_count; i++) out->cores[i] = (int)tn__message_get_int(r, 0, TN__MESSAGE_MOST_CORES - 1);
  t->warm_seconds = tn__message_get_f64(r);
  t->least_seconds = tn__message_get_f64(r);
  t->least_repeats = (int)tn__message_get_int(r, 1, INT32_MAX);
  t->most_repeats = (int)tn__message_get_int(r, 1, INT32_MAX);
  t->most_seconds = tn__message_get_f64(r);
  t->noise = tn__message_get_f64(r);
  t->again = (int)tn__message_get_int(r, -1, INT32_MAX);
  t->rest_seconds = tn__message_get_f64(r);
  t->cache = (tn_cache_state)tn__message_get_int(r, TN_CACHE_WARM, TN_CACHE_FLUSHED);
  t->verify = (tn_verify_mode)tn__message_get_int(r, TN_VERIFY_ALWAYS, TN_VERIFY_NEVER);
  t->seed = tn__message_get_u64(r);
  return tn__message_got_all(r);
}

void tn__message_put_task(tn__message *m, const tn_tune_task *t) {
  tn__message_text(m, t->name != NULL ? t->name : "");
  tn__message_text(m, t->declaration != NULL ? t->declaration : "");
  tn__message_text(m, t->target);
  tn__message_text(m, t->machine);
  tn__message_u64(m, (uint64_t)t->threads);
  tn__message_u64(m, t->results_read);
  tn__message_u64(m, (uint64_t)t->dim_count);
  for (int i = 0; i < t->dim_count; i++) {
    tn__message_text(m, t->dims[i]);
    tn__message_u64(m, (uint64_t)t->sizes[i]);
  }
}

bool tn__message_get_task(tn__message_reader *r, tn__message_task *out) {
  tn_tune_task *t = &out->task;
  *t = (tn_tune_task){.size = sizeof *t, .dims = out->dims, .sizes = out->sizes};
  t->name = tn__message_get_text(r);
  t->declaration = tn__message_get_text(r);
  t->target = tn__message_get_text(r);
  t->machine = tn__message_get_text(r);
  t->threads = (int)tn__message_get_int(r, 0, 1024);
  t->results_read = tn__message_get_int(r, 0, 1) != 0;
  t->dim_count = (int)tn__message_get_int(r, 0, TN__MESSAGE_MOST_DIMS);
  for (int i = 0; i < t->dim_count; i++) {
    out->dims[i] = tn__message_get_text(r);
    out->sizes[i] = (int64_t)tn__message_get_u64(r);
    if (out->dims[i] == NULL) r->bad = true;
  }
  return tn__message_got_all(r) && t->name != NULL && t->declaration != NULL;
}

/* What has been measured: numbers that are not make nothing of what comes of them. */
static double measured(tn__message_reader *r) {
  double value = tn__message_get_f64(r);
  if (!(value >= 0 && value < (double)INFINITY)) r->bad = true;
  return r->bad ? 0 : value;
}

static const char *text_of(tn__message_reader *r) {
  const char *text = tn__message_get_text(r);
  return text != NULL ? text : "";
}

void tn__message_put_built(tn__message *m, const tn_build_result *b) {
  tn__message_u64(m, (uint64_t)b->error);
  tn__message_text(m, b->message);
  tn__message_f64(m, b->seconds);
  tn__message_u64(m, (uint64_t)b->workspace_bytes);
  tn__message_u64(m, (uint64_t)b->buffer_count);
  tn__message_text(m, b->trace);
  tn__message_bytes(m, b->code, b->code_size);
}

bool tn__message_get_built(tn__message_reader *r, tn_build_result *out) {
  *out = (tn_build_result){.error = (tn_trial_error)tn__message_get_int(r, 0, TN_TRIAL_ERRORS - 1)};
  out->message = text_of(r);
  out->seconds = measured(r);
  out->workspace_bytes = tn__message_get_int(r, 0, INT64_MAX);
  out->buffer_count = (int)tn__message_get_int(r, 0, INT32_MAX);
  out->trace = text_of(r);
  out->code = tn__message_get_bytes(r, &out->code_size);
  return tn__message_got_all(r);
}

void tn__message_put_ran(tn__message *m, const tn_run_result *run) {
  tn__message_u64(m, (uint64_t)run->error);
  tn__message_text(m, run->message);
  tn__message_f64(m, run->seconds);
  tn__message_f64(m, run->median);
  tn__message_f64(m, run->spread);
  tn__message_u64(m, (uint64_t)run->calls);
  tn__message_u64(m, run->verified);
}

bool tn__message_get_ran(tn__message_reader *r, tn_run_result *out) {
  *out = (tn_run_result){.error = (tn_trial_error)tn__message_get_int(r, 0, TN_TRIAL_ERRORS - 1)};
  out->message = text_of(r);
  out->seconds = measured(r);
  out->median = measured(r);
  out->spread = measured(r);
  out->calls = tn__message_get_int(r, 0, INT64_MAX);
  out->verified = tn__message_get_int(r, 0, 1) != 0;
  return tn__message_got_all(r);
}
