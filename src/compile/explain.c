/* tn_explain: what each kernel's schedule is, what the cost function expects of it, and what the machine could do. */
#include <string.h>

#include "base/alloc.h"
#include "compile/driver.h"
#include "target/probe.h"

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

/* ---- limits -------------------------------------------------------------------------------------------------------
 */

static void usual_limits(tn_machine_limits *limits, const tn__target *target) {
  const tn__core *core = &target->core;
  limits->clock_hz = 1e6 * core->megahertz;
  limits->flops_per_second = limits->clock_hz * 2 * core->fma_bytes / 4;
  limits->l2_bytes_per_second = limits->clock_hz * core->l2_bytes;
  limits->l3_bytes_per_second = limits->clock_hz * core->l3_bytes;
  limits->memory_bytes_per_second = limits->clock_hz * core->memory_bytes;
}

/* Half of a cache is surely in it; four times the last one is not, up to 256 MiB. */
static tn_status *measure_limits(tn_machine_limits *limits, const tn__target *target) {
  limits->clock_hz = tn__probe_clock();
  limits->flops_per_second = tn__probe_flops(target);
  int64_t outside = 4 * target->l3_bytes < ((int64_t)256 << 20) ? 4 * target->l3_bytes : (int64_t)256 << 20;
  int64_t in_l3 = target->l2_bytes + (target->l3_bytes / 2 - target->l2_bytes) / 2;
  TN_RETURN_IF_ERROR(tn__probe_read(target->l2_bytes / 2, &limits->l2_bytes_per_second));
  TN_RETURN_IF_ERROR(tn__probe_read(in_l3 > target->l2_bytes ? in_l3 : target->l2_bytes, &limits->l3_bytes_per_second));
  TN_RETURN_IF_ERROR(tn__probe_read(outside, &limits->memory_bytes_per_second));
  limits->measured = limits->flops_per_second > 0;
  return NULL;
}

static void find_limits(tn_explanation *e, const tn__driver *driver) {
  const tn__target *target = &driver->target;
  tn_machine_limits *limits = &e->limits;
  char missing[64];
  *limits = (tn_machine_limits){.threads = driver->schedule.threads,
                                .l1_bytes = target->l1_bytes,
                                .l2_bytes = target->l2_bytes,
                                .l3_bytes = target->l3_bytes};
  memcpy(limits->target, target->name, sizeof limits->target);
  usual_limits(limits, target);
  if (target->arch == tn__host_arch() &&
      !tn__target_missing(target->arch, target->features, tn__host_features(), missing, sizeof missing))
    tn__check(driver->arena->escape, measure_limits(limits, target));
}

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
  find_limits(e, &c->driver);
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
