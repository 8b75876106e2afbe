/* tn_explain: what each kernel's schedule is, what the cost function expects of it, and what the machine could do. */
#include <string.h>

#include "base/alloc.h"
#include "compile/driver.h"
#include "target/limits.h"

struct tn_explanation {
  const tn_allocator *allocator;
  tn__arena arena;
  tn_kernel_plan *kernels;
  int count;
  tn_machine_limits limits;
};

typedef struct explain_call {
  const char *path;
  const void *data;
  size_t size;
  tn_compile_options options;
  tn_explanation *result;
} explain_call;

/* ---- kernels ------------------------------------------------------------------------------------------------------
 */

static const char *kept_text(tn_explanation *e, const char *text) { return tn__arena_strdup(&e->arena, text); }

static void explain_unit(tn_explanation *e, tn__driver *driver, tn__unit *u) {
  tn__schedule_plan plan;
  tn__schedule_choose(u->te, &driver->target, &driver->schedule, &plan);
  tn_kernel_plan *k = &e->kernels[e->count++];
  *k = (tn_kernel_plan){.kernel = kept_text(e, u->name), .flops = u->flops, .bytes = u->bytes, .weighed = plan.weighed};
  k->rule = plan.sketch == NULL ? "plain nest" : tn__sketch_name(plan.sketch);
  k->bound = tn__bound_name(plan.cost.bound);
  k->decisions = "";
  k->cycles = plan.cost.cycles;
  k->seconds = plan.cost.cycles / e->limits.clock_hz;
  k->work_cycles = plan.cost.work;
  k->l2_cycles = plan.cost.level[0];
  k->l3_cycles = plan.cost.level[1];
  k->memory_cycles = plan.cost.level[2];
  k->overhead_cycles = plan.cost.overhead;
  k->tail = plan.cost.tail;
  k->registers = plan.cost.registers;
  if (plan.sketch == NULL) return;
  tn__strbuf text;
  tn__strbuf_init(&text, driver->arena->allocator);
  tn__sketch_print(plan.sketch, plan.values, &text);
  k->decisions = kept_text(e, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

static void explain_body(tn__arena *arena, void *user) {
  explain_call *call = user;
  tn_explanation *e = call->result;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &call->options);
  e->arena.escape = arena->escape;
  tn__check(arena->escape, tn__target_limits(&c->driver.target, c->driver.schedule.threads, &e->limits));
  tn__compilation_front(c, call->path, call->data, call->size);
  e->kernels = TN__NEW_ARRAY(&e->arena, c->unit_count, tn_kernel_plan);
  for (int i = 0; i < c->unit_count; i++)
    if (c->units[i].same_as == i) explain_unit(e, &c->driver, &c->units[i]);
  e->arena.escape = NULL;
}

tn_status *tn_explain(const char *path, const void *data, size_t size, const tn_compile_options *options,
                      tn_explanation **out) {
  *out = NULL;
  if (!path) return tn_status_create(TN_INVALID_ARGUMENT, "the model needs a path, if only for messages");
  explain_call call = {.path = path, .data = data, .size = size, .options = tn__options_of(options)};
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(call.options.allocator, 1, sizeof(tn_explanation), 0, &memory));
  tn_explanation *e = memory;
  *e = (tn_explanation){.allocator = call.options.allocator};
  tn__arena_init(&e->arena, call.options.allocator, NULL);
  call.result = e;
  tn_status *status = tn__with_arena(call.options.allocator, explain_body, &call);
  if (status) {
    tn_explanation_release(e);
    return status;
  }
  *out = e;
  return NULL;
}

void tn_explanation_release(tn_explanation *e) {
  if (!e) return;
  tn__arena_release(&e->arena);
  tn__free(e->allocator, e, sizeof *e, 0);
}

int tn_explanation_kernels(const tn_explanation *e, const tn_kernel_plan **out) {
  *out = e->kernels;
  return e->count;
}

const tn_machine_limits *tn_explanation_limits(const tn_explanation *e) { return &e->limits; }
