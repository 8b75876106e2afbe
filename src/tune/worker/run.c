/* Candidates are run: their results are compared, and they are timed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tune/worker/internal.h"

/* ---- one candidate ----------------------------------------------------------------------------------------------- */

typedef struct running {
  tn__worker *worker;
  tn__worker_task *task;
  tn__worker_kernel kernel;
  void **buffers;
  tn_run_result result;
  char words[512]; /* of the error */
} running;

static bool fail(running *r, tn_trial_error error, const char *format, ...) TN_PRINTF(3, 4);
static bool fail(running *r, tn_trial_error error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->words, sizeof r->words, format, args);
  va_end(args);
  r->result.error = error;
  return false;
}

static bool fail_with(running *r, tn_trial_error error, tn_status *status) {
  if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) error = TN_TRIAL_RUN_TIMEOUT;
  (void)fail(r, error, "%s", tn_status_message(status));
  tn_status_free(status);
  return false;
}

static bool fail_by(running *r, int result) {
  return fail(r, TN_TRIAL_RUN_TIME, "the kernel returned %d (docs/architecture.md, tn_kernel_result)", result);
}

/* All that is not the candidate's. */
static bool prepare(running *r) {
  tn__worker_task *task = r->task;
  if (task->refused != NULL) return fail(r, TN_TRIAL_RUN_TIME, "%s", task->refused);
  if (!tn__target_runs_here(&task->target))
    return fail(r, TN_TRIAL_RUN_TIME, "this machine does not run code for %s", task->target.name);
  (void)tn__host_granted(task->target.cpu.features);
  tn_status *status = tn__worker_operands_open(r->worker, task, r->worker->setup.timing.verify != TN_VERIFY_NEVER);
  if (status == NULL) status = tn__worker_pool_for(r->worker, task->given.threads);
  return status == NULL || fail_with(r, TN_TRIAL_RUN_TIME, status);
}

static bool open_kernel(running *r, const void *code, size_t size) {
  tn__worker_operands *o = &r->task->operands;
  const tn__worker_hooks *hooks = r->worker->hooks;
  tn_status *status = tn__worker_kernel_map(code, size, &r->kernel);
  if (status != NULL) return fail_with(r, TN_TRIAL_RUN_TIME, status);
  if (r->kernel.head.buffers != o->count)
    return fail(r, TN_TRIAL_RUN_TIME, "the kernel takes %d buffers, and the task has %d", r->kernel.head.buffers,
                o->count);
  if (hooks->running != NULL) hooks->running(&r->task->given, &r->kernel.code);
  r->buffers = calloc((size_t)o->count + 1, sizeof(void *));
  if (r->buffers == NULL) abort();
  tn__worker_arguments(o, &r->kernel, r->buffers);
  return true;
}

static bool check_bounds(running *r) {
  const tn__worker_operands *o = &r->task->operands;
  for (int i = 0; i < o->count; i++)
    if (tn__worker_memory_overrun(&o->buffers[i]))
      return fail(r, TN_TRIAL_RUN_TIME, "the kernel wrote beside the elements of %s", o->buffers[i].name);
  if (tn__worker_memory_overrun(&r->kernel.workspace))
    return fail(r, TN_TRIAL_RUN_TIME, "the kernel wrote beside its workspace");
  return true;
}

/* ---- right or wrong ---------------------------------------------------------------------------------------------- */

static bool was_verified(tn__worker *w, const tn__digest *digest) {
  uint64_t kept = w->verified_count < TN__WORKER_VERIFIED ? w->verified_count : TN__WORKER_VERIFIED;
  for (uint64_t i = 0; i < kept; i++)
    if (tn__digest_equal(&w->verified[i], digest)) return true;
  return false;
}

/* Of the code and what it is run on. */
static tn__digest digest_of(const running *r, const void *code, size_t size) {
  tn__sha256 hash;
  tn__sha256_init(&hash);
  tn__sha256_update_string(&hash, r->task->given.declaration);
  tn__sha256_update_u64(&hash, (uint64_t)r->task->given.threads);
  tn__sha256_update(&hash, code, size);
  return tn__sha256_final(&hash);
}

static bool verify(running *r, const void *code, size_t size) {
  tn__worker *w = r->worker;
  tn__worker_operands *o = &r->task->operands;
  tn_verify_mode mode = w->setup.timing.verify;
  const tn_kernel_env *env = tn_thread_pool_env(w->pool);
  if (mode == TN_VERIFY_NEVER) return true;
  tn__digest digest = digest_of(r, code, size);
  r->result.verified = mode == TN_VERIFY_FIRST && was_verified(w, &digest);
  if (r->result.verified) return true;
  tn__worker_operands_reset(o);
  int result = r->kernel.code(env, r->buffers, r->kernel.head.scalars);
  if (result != TN_KERNEL_OK) return fail_by(r, result);
  if (!check_bounds(r)) return false;
  r->result.verified = true;
  char words[sizeof r->words];
  if (!tn__worker_operands_compare(o, words, sizeof words)) return fail(r, TN_TRIAL_WRONG_ANSWER, "%s", words);
  w->verified[w->verified_count++ % TN__WORKER_VERIFIED] = digest;
  return true;
}

static bool run(running *r, double slow_seconds, const void *code, size_t size) {
  const tn__worker_call call = {&r->kernel, tn_thread_pool_env(r->worker->pool), r->buffers, &r->task->operands};
  if (!verify(r, code, size)) return false;
  tn__worker_operands_reset(&r->task->operands);
  int result = tn__worker_time(&call, &r->worker->setup.timing, slow_seconds, &r->result);
  return result == TN_KERNEL_OK ? check_bounds(r) : fail_by(r, result);
}

void tn__worker_run(tn__worker *w, tn__worker_task *task, uint64_t trial, double slow_seconds, const void *code,
                    size_t size) {
  running *r = calloc(1, sizeof *r);
  if (r == NULL) abort();
  double start = tn__now();
  r->worker = w;
  r->task = task;
  if (prepare(r)) {
    tn__worker_prepared(w, trial);
    if (open_kernel(r, code, size)) (void)run(r, slow_seconds, code, size);
    tn__worker_candidate_done();
  }
  r->result.seconds = tn__now() - start;
  r->result.message = r->words;
  tn__message_begin(&w->out, TN__MESSAGE_RAN);
  tn__message_u64(&w->out, trial);
  tn__message_put_ran(&w->out, &r->result);
  tn__worker_kernel_release(&r->kernel);
  free(r->buffers);
  free(r);
}
