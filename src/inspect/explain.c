/* tn_explain: what each kernel's schedule is, what the cost function expects of it, and what the machine could do. */
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "declarations/handle.h"
#include "driver/driver.h"
#include "target/limits.h"

struct tn_explanation {
  const tn_allocator *allocator;
  tn__arena arena;
  tn_kernel_plan **kernels;
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

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static const char *kept_text(tn_explanation *e, const char *text) { return tn__arena_strdup(&e->arena, text); }

static void explain_rivals(tn_explanation *e, const tn__plan *plan, tn_kernel_plan *k) {
  tn__plan_rival rivals[TN__PLAN_RIVALS];
  k->rival_count = tn__plan_rivals(plan, rivals);
  tn_plan_rival *out = TN__NEW_ARRAY(&e->arena, k->rival_count, tn_plan_rival);
  for (int i = 0; i < k->rival_count; i++) {
    tn__strbuf text;
    tn__strbuf_init(&text, e->allocator);
    tn__plan_print_rival(plan, &rivals[i], &text);
    out[i].decisions = tn__arena_take(&e->arena, &text);
    tn__strbuf_init(&text, e->allocator);
    tn__plan_print_why_not(plan, &rivals[i], &text);
    out[i].why = tn__arena_take(&e->arena, &text);
    out[i].rule = tn__sketch_name(rivals[i].sketch);
    out[i].cycles = rivals[i].cost.cycles;
  }
  k->rivals = out;
}

static void explain_kernel(tn_explanation *e, const tn__plan_unit *unit, const tn__chooser *chooser,
                           const tn_kernel_plan *known) {
  const tn__plan *plan = tn__plan_kernel(unit, chooser);
  tn_kernel_plan *k = e->kernels[e->count++] = TN__NEW(&e->arena, tn_kernel_plan);
  tn__strbuf decisions;
  tn__strbuf_init(&decisions, e->allocator);
  tn__plan_print_decisions(plan, &decisions);
  *k = *known;
  k->kernel = kept_text(e, known->kernel);
  k->weighed = plan->weighed;
  k->rule = plan->rule;
  k->decisions = tn__arena_take(&e->arena, &decisions);
  k->bound = tn__bound_name(plan->cost.bound);
  k->cycles = plan->cost.cycles;
  k->seconds = plan->cost.cycles / e->limits.clock_hz;
  k->work_cycles = plan->cost.work;
  k->l2_cycles = plan->cost.level[0];
  k->l3_cycles = plan->cost.level[1];
  k->memory_cycles = plan->cost.level[2];
  k->overhead_cycles = plan->cost.overhead;
  k->tail = plan->cost.tail;
  k->registers = plan->cost.registers;
  explain_rivals(e, plan, k);
}

static void explain_body(tn__arena *arena, void *user) {
  explain_call *call = user;
  tn_explanation *e = call->result;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &call->options);
  e->arena.escape = arena->escape;
  tn__check(arena->escape, tn__target_limits(&c->driver.target, c->driver.schedule.threads, &e->limits));
  tn__compilation_front(c, call->path, call->data, call->size);
  e->kernels = TN__NEW_ARRAY(&e->arena, c->unit_count, tn_kernel_plan *);
  for (int i = 0; i < c->unit_count; i++) {
    const tn__unit *u = &c->units[i];
    tn_kernel_plan known = {.kernel = u->name, .flops = u->flops, .bytes = u->bytes};
    if (u->same_as == i) explain_kernel(e, &u->choice, c->driver.chooser, &known);
  }
  e->arena.escape = NULL;
}

static tn_status *explain(const tn_allocator *allocator, void (*body)(tn__arena *arena, void *user), void *user,
                          tn_explanation **result, tn_explanation **out) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, 1, sizeof(tn_explanation), 0, &memory));
  tn_explanation *e = *result = memory;
  *e = (tn_explanation){.allocator = allocator};
  tn__arena_init(&e->arena, allocator, NULL);
  tn_status *status = tn__with_arena(allocator, body, user);
  if (status) {
    tn_explanation_release(e);
    return status;
  }
  *out = e;
  return NULL;
}

tn_status *tn_explain(const char *path, const void *data, size_t size, const tn_compile_options *options,
                      tn_explanation **out) {
  TN__NEED("out", out);
  *out = NULL;
  if (!path) return tn_status_create(TN_INVALID_ARGUMENT, "the model needs a path, if only for messages");
  explain_call call = {.path = path, .data = data, .size = size};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  return explain(call.options.allocator, explain_body, &call, &call.result, out);
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */

typedef struct te_call {
  tn_te *const *tes;
  int count;
  const char *target;
  tn_schedule_options options;
  tn_explanation *result;
  tn__work work;
} te_call;

static void te_body(tn__arena *arena, void *user) {
  te_call *call = user;
  tn_explanation *e = call->result;
  tn__target *target = TN__NEW(arena, tn__target);
  tn__check(arena->escape, tn__decl_target(call->target, &call->options, target));
  uint64_t declared = 0;
  for (int i = 0; i < call->count; i++) declared += call->tes[i]->arena.steps;
  tn__decl_limit_work(
      &call->work, arena,
      call->count == 1 ? tn__arena_printf(arena, "kernel %s", tn_te_name(call->tes[0])) : "these kernels", declared);
  int threads = call->options.threads > 0 ? call->options.threads : target->cpu.cores;
  e->arena.escape = arena->escape;
  tn__check(arena->escape, tn__target_limits(target, threads, &e->limits));
  e->kernels = TN__NEW_ARRAY(&e->arena, call->count, tn_kernel_plan *);
  for (int i = 0; i < call->count; i++) {
    tn__plan_unit unit = tn__decl_plan_unit(call->tes[i], target, &call->options, tn__ir_create(arena));
    tn_kernel_plan known = {.kernel = tn__te_name(unit.te)};
    tn__decl_work(unit.te, &known.flops, &known.bytes);
    tn__chooser chooser = tn__decl_chooser(call->tes[i], &unit, &call->options);
    explain_kernel(e, &unit, &chooser, &known);
  }
  e->arena.escape = NULL;
}

tn_status *tn_te_explain(tn_te *const *tes, int count, const char *target, const tn_schedule_options *options,
                         tn_explanation **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_EACH("tes", tes, "count", count);
  te_call call = {.tes = tes, .count = count, .target = target};
  TN_RETURN_IF_ERROR(tn__decl_schedule_options_read(options, &call.options));
  call.options.dense = true; /* as what is run to measure it */
  for (int i = 0; i < count; i++)
    if (!tes[i]->finished)
      return tn_status_create(TN_FAILED_PRECONDITION, "te %s: tn_te_finish() has not accepted the declaration",
                              tn_te_name(tes[i]));
  return explain(call.options.allocator, te_body, &call, &call.result, out);
}

void tn_explanation_release(tn_explanation *e) {
  if (!e) return;
  tn__arena_release(&e->arena);
  tn__free(e->allocator, e, sizeof *e, 0);
}

int tn_explanation_kernels(const tn_explanation *e, const tn_kernel_plan *const **out) {
  if (e == NULL || out == NULL) return 0;
  *out = (const tn_kernel_plan *const *)e->kernels;
  return e->count;
}

const tn_machine_limits *tn_explanation_limits(const tn_explanation *e) {
  if (e == NULL) return NULL;
  return &e->limits;
}
