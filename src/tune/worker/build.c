/* Candidates become code. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schedule/sketch/decided.h"
#include "tune/worker/internal.h"

typedef struct building {
  tn__worker *worker;
  const tn__worker_task *task;
  uint64_t trial;
  const char *rule, *schedule;
  tn__arena arena;
  tn_build_result result; /* its error is that of a status thrown now */
} building;

/* ---- the candidate ----------------------------------------------------------------------------------------------- */

static const tn__plan *plan_candidate(const building *b, const tn__plan_unit *unit) {
  const tn__recorded recorded = {.traces = &b->schedule, .count = 1};
  const tn__decided decided = {b->rule, b->schedule};
  const tn__chooser sketch = tn__chooser_decided(&decided);
  const tn__chooser trace = tn__chooser_recorded(&recorded);
  const tn__plan *plan = tn__plan_kernel(unit, b->rule != NULL ? &sketch : &trace);
  for (int i = 0; i < tn__te_input_count(unit->te); i++)
    if (tn__schedule_packing(plan->schedule, i) != NULL)
      tn__throwf(b->arena.escape, TN_UNSUPPORTED,
                 "the schedule packs input %s: declare the kernel with the packed input, and tune that",
                 tn__te_input_at(unit->te, i)->name);
  return plan;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static void build_body(tn__escape *escape, void *arg) {
  building *b = arg;
  const tn__worker_task *task = b->task;
  const tn__worker_hooks *hooks = b->worker->hooks;
  b->arena.escape = escape;
  if (task->refused != NULL) tn__throwf(escape, TN_INVALID_ARGUMENT, "%s", task->refused);
  const tn__schedule_options options = tn__worker_task_options(task);
  const tn__te *te = tn__worker_task_declare(task, false, tn__ir_create(&b->arena));
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, &task->target, &options);
  tn__worker_prepared(b->worker, b->trial);
  if (hooks->building != NULL) hooks->building(&task->given);
  const tn__plan *plan = plan_candidate(b, &unit);
  tn__strbuf trace;
  tn__strbuf_init(&trace, NULL);
  tn__sched_trace_print(plan->schedule, &trace);
  b->result.trace = tn__arena_take(&b->arena, &trace);
  b->result.error = TN_TRIAL_HOST_COMPILE;
  const tn__worker_compiled compiled = tn__worker_compile(task, plan, &b->arena);
  const tn__worker_code *head = compiled.code;
  b->result.code = compiled.code;
  b->result.code_size = compiled.size;
  b->result.workspace_bytes = head->workspace_bytes;
  b->result.buffer_count = head->buffers;
}

void tn__worker_build(tn__worker *w, tn__worker_task *task, uint64_t trial, const char *rule, const char *schedule) {
  building b = {.worker = w, .task = task, .trial = trial, .rule = rule, .schedule = schedule != NULL ? schedule : ""};
  tn__escape escape;
  double start = tn__now();
  b.result = (tn_build_result){.error = TN_TRIAL_INSTANTIATION, .trace = ""};
  tn__arena_init(&b.arena, NULL, NULL);
  if (task->machine != NULL) task->arena.escape = &escape;
  tn_status *status = tn__protect(&escape, build_body, &b);
  tn__worker_candidate_done();
  b.result.seconds = tn__now() - start;
  b.result.message = status != NULL ? tn_status_message(status) : "";
  if (status == NULL) b.result.error = TN_TRIAL_OK;
  if (status != NULL) b.result.code_size = 0;
  if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) b.result.error = TN_TRIAL_BUILD_TIMEOUT;
  tn__message_begin(&w->out, TN__MESSAGE_BUILT);
  tn__message_u64(&w->out, trial);
  tn__message_put_built(&w->out, &b.result);
  tn_status_free(status);
  tn__arena_release(&b.arena);
}
