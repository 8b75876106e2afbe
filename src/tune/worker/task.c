/* Tasks, and code of their candidates. */
#include <string.h>

#include "base/alloc.h"
#include "base/copy.h"
#include "machine/machine_file.h"
#include "target/text/text.h"
#include "tune/worker/internal.h"

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static const char *copy_text(tn__arena *arena, const char *text) {
  return text != NULL ? tn__arena_strdup(arena, text) : NULL;
}

static void copy_given(tn__worker_task *task, const tn_tune_task *given) {
  tn__arena *arena = &task->arena;
  const char **dims = TN__NEW_ARRAY(arena, given->dim_count, const char *);
  for (int i = 0; i < given->dim_count; i++) dims[i] = tn__arena_strdup(arena, given->dims[i]);
  task->given = *given;
  task->given.name = tn__arena_strdup(arena, given->name);
  task->given.declaration = tn__arena_strdup(arena, given->declaration);
  task->given.target = copy_text(arena, given->target);
  task->given.machine = copy_text(arena, given->machine);
  task->given.dims = dims;
  task->given.sizes = tn__arena_copy(arena, given->sizes, sizeof(int64_t) * (size_t)given->dim_count);
}

static void open_target(tn__worker_task *task) {
  tn__escape *escape = task->arena.escape;
  const char *machine = task->given.machine;
  tn__check(escape, tn__target_parse(task->given.target, &task->target));
  task->backend = tn__backend_of(escape, &task->target);
  if (machine == NULL || tn__target_is_gpu(&task->target)) return;
  tn__machine numbers = task->target.cpu.row;
  tn__check(escape, tn__machine_read("machine", machine, strlen(machine), task->target.cpu.arch, &numbers));
  tn__target_use(&task->target, &numbers);
}

static void open_body(tn__escape *escape, void *arg) {
  tn__worker_task *task = arg;
  tn__te_source *source;
  task->arena.escape = escape;
  open_target(task);
  const char *text = task->given.declaration;
  tn__check(escape, tn__te_parse(&task->arena, task->given.name, text, strlen(text), &source));
  if (tn__te_kernel_count(source) != 1)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "the text has %d kernels, and a task has one", tn__te_kernel_count(source));
  task->source = source;
  task->machine = task->backend->prepare(&task->arena, &task->target);
}

typedef struct copying {
  tn__worker_task *task;
  const tn_tune_task *given;
} copying;

static void copy_body(tn__escape *escape, void *arg) {
  const copying *c = arg;
  c->task->arena.escape = escape;
  copy_given(c->task, c->given);
}

typedef struct refusing {
  tn__worker_task *task;
  tn_status *status;
} refusing;

static void refuse_body(tn__escape *escape, void *arg) {
  const refusing *r = arg;
  r->task->arena.escape = escape;
  r->task->refused =
      tn__arena_printf(&r->task->arena, "task %s: %s", r->task->given.name, tn_status_message(r->status));
}

tn__worker_task *tn__worker_task_open(const tn_tune_task *given) {
  void *memory;
  tn__escape escape;
  tn_status *status = tn__alloc(NULL, 1, sizeof(tn__worker_task), 0, &memory);
  tn_status_free(status);
  if (status != NULL) return NULL;
  tn__worker_task *task = memory;
  tn__arena_init(&task->arena, NULL, NULL);
  status = tn__protect(&escape, copy_body, &(copying){task, given});
  if (status == NULL) {
    status = tn__protect(&escape, open_body, task);
    if (status != NULL) {
      tn_status *failed = tn__protect(&escape, refuse_body, &(refusing){task, status});
      tn_status_free(status);
      status = failed;
    }
  }
  task->arena.escape = NULL;
  if (status == NULL) return task;
  tn_status_free(status);
  tn__worker_task_close(task);
  return NULL;
}

void tn__worker_task_close(tn__worker_task *task) {
  if (task == NULL) return;
  tn__arena_release(&task->arena);
  tn__free(NULL, task, sizeof *task, 0);
}

tn__te *tn__worker_task_declare(const tn__worker_task *task, bool sized, tn__ir *ir) {
  tn__te *te;
  const tn_tune_task *given = &task->given;
  tn__arena *arena = tn__ir_arena(ir);
  int count = sized ? given->dim_count : 0;
  tn__te_dim_value *dims = TN__NEW_ARRAY(arena, given->dim_count, tn__te_dim_value);
  for (int i = 0; i < count; i++) dims[i] = (tn__te_dim_value){given->dims[i], given->sizes[i]};
  tn__check(arena->escape, tn__te_declare(task->source, 0, dims, count, ir, &te));
  if (sized && tn__te_dim_count(te) > 0)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "task %s: dimension %s has no size (dims, sizes)", given->name,
               tn__te_dim_at(te, 0)->name);
  return te;
}

tn__schedule_options tn__worker_task_options(const tn__worker_task *task) {
  return (tn__schedule_options){.threads = task->given.threads > 0 ? task->given.threads : 1,
                                .results_read = task->given.results_read};
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static int64_t size_of(const tn__worker_task *task, tn__escape *escape, const char *name) {
  for (int i = 0; i < task->given.dim_count; i++)
    if (strcmp(task->given.dims[i], name) == 0) return task->given.sizes[i];
  tn__throwf(escape, TN_INVALID_ARGUMENT, "task %s: dimension %s has no size (dims, sizes)", task->given.name, name);
}

static void fill_scalars(const tn__worker_task *task, const tn__func *func, const tn__kernel_info *info, tn__ir *ir,
                         tn__worker_code *head) {
  tn__escape *escape = tn__ir_arena(ir)->escape;
  const tn__expr *values[TN__WORKER_MOST_SCALARS];
  if (func->scalar_count > TN__WORKER_MOST_SCALARS)
    tn__throwf(escape, TN_UNSUPPORTED, "task %s: %d open dimensions, and workers take %d", task->given.name,
               func->scalar_count, TN__WORKER_MOST_SCALARS);
  head->scalar_count = func->scalar_count;
  for (int i = 0; i < func->scalar_count; i++) {
    head->scalars[i] = size_of(task, escape, func->scalars[i]->name);
    values[i] = tn__ir_index(ir, head->scalars[i]);
  }
  head->workspace_bytes = info->workspace_bytes;
  if (info->workspace_expr == NULL) return;
  const tn__expr *bytes = tn__ir_substitute(ir, info->workspace_expr, func->scalars, values, func->scalar_count);
  if (!tn__ir_as_int(bytes, &head->workspace_bytes))
    tn__throwf(escape, TN_INTERNAL, "task %s: the size of the workspace is not known", task->given.name);
}

tn__worker_compiled tn__worker_compile(const tn__worker_task *task, const tn__plan *plan, tn__arena *arena) {
  const tn__backend *backend = task->backend;
  tn__ir *ir = tn__te_ir(tn__schedule_te(plan->schedule));
  tn__worker_code head = {.mark = "tnxcode", .buffers = 0};
  const tn__func *func = backend->lower(ir, tn__schedule_func(plan->schedule), NULL);
  tn__kernel_info info = backend->measure(ir, func);
  fill_scalars(task, func, &info, ir, &head);
  head.buffers = func->input_count + func->output_count;
  tn__codegen_module module = {
      .irs = &ir, .funcs = &func, .count = 1, .target = &task->target, .machine = task->machine};
  tn__code object = backend->compile(arena, &module, TN__EMIT_OBJECT);
  tn__image image = backend->link(arena, &object, 1);
  head.entry = image.symbols[0].offset;
  head.size = image.size;
  char *code = tn__arena_alloc(arena, TN__WORKER_CODE_ALIGN + image.size);
  memcpy(code, &head, sizeof head);
  tn__copy(code + TN__WORKER_CODE_ALIGN, image.data, image.size);
  return (tn__worker_compiled){code, TN__WORKER_CODE_ALIGN + image.size};
}
