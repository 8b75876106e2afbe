/* Schedules and code of <tenon/te.h>. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/options.h"
#include "codegen/backend.h"
#include "declarations/handle.h"
#include "declarations/header.h"
#include "declarations/in_place.h"
#include "driver/driver.h"
#include "ir/passes.h"
#include "kernels/machine.h"
#include "kernels/tuned.h"

/* ---- schedules --------------------------------------------------------------------------------------------------- */

typedef struct scheduling {
  const tn_te *te;
  const char *target, *trace, *step;
  tn_schedule_options options;
  tn_schedule *schedule;
} scheduling;

/* The block that the caller gives, or that stands beside the declaration; NULL: none. */
static const tn__written_block *written_block(const tn_te *te, const tn__target *target,
                                              const tn_schedule_options *given, tn__arena *arena) {
  const char *text = given->schedule, *kernel = tn__te_name(te->te);
  const tn__written *written;
  if (given->plain || (text != NULL && tn__written_is_trace(text))) return NULL;
  if (text == NULL)
    return te->written != NULL && !given->no_schedule ? tn__written_find(te->written, kernel, target) : NULL;
  const char *name = given->schedule_name != NULL ? given->schedule_name : "schedule";
  tn__check(arena->escape, tn__written_parse(arena, name, text, strlen(text), 1, &written));
  return tn__written_need(arena->escape, written, kernel, target);
}

/* Is something said about the kernel, but nothing about stages that only the unit's declaration has? Then it is about
 * the declaration as it was written. */
static bool means_declaration(const tn__plan_unit *unit, const tn__te *declared, const tn__written_block *block) {
  for (int s = 0; s < tn__te_stage_count(unit->te); s++) {
    const char *name = tn__te_stage_at(unit->te, s)->name;
    if (!tn__te_has_name(declared, name) && tn__written_speaks_of(block, name)) return false;
  }
  return true;
}

static tn__te *own_copy(const tn_te *te, const tn_schedule_options *given, tn__ir *ir) {
  return given->dense ? tn__te_dense_copy(te->te, ir) : tn__te_copy(te->te, ir);
}

tn__plan_unit tn__decl_plan_unit(const tn_te *te, const tn__target *target, const tn_schedule_options *given,
                                 tn__ir *ir) {
  tn__schedule_options options = {.threads = given->threads,
                                  .vector_bytes = given->vector_bytes,
                                  .cache_bytes = given->cache_bytes,
                                  .registers = given->registers,
                                  .shared_memory = given->shared_memory,
                                  .search_space = given->search_space};
  const tn__written_block *block = written_block(te, target, given, tn__ir_arena(ir));
  options.bytes_apart = given->plain || given->constant_count > 0; /* it is bytes that are packed */
  tn__plan_unit unit = tn__rule_plan_unit_of(own_copy(te, given, ir), target, &options);
  if (block != NULL && !options.bytes_apart && means_declaration(&unit, te->te, block)) {
    options.bytes_apart = true;
    unit = tn__rule_plan_unit_of(own_copy(te, given, ir), target, &options);
  }
  tn__plan_unit_pack(&unit, given->constants, given->constant_count);
  return unit;
}

static tn__chooser written_by(const tn_te *te, const tn__written_block *block, tn__arena *arena) {
  tn__written_use *use = TN__NEW(arena, tn__written_use);
  *use = (tn__written_use){.block = block, .dims = te->dims, .dim_count = te->dim_count};
  return tn__written_chooser(use);
}

tn__chooser tn__decl_chooser(const tn_te *te, const tn__plan_unit *unit, const tn_schedule_options *given) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(unit->te));
  const char *text = given->schedule;
  if (given->plain) return tn__chooser_plain;
  if (text != NULL && tn__written_is_trace(text)) {
    tn__recorded *recorded = TN__NEW(arena, tn__recorded);
    const char **traces = TN__NEW_ARRAY(arena, 1, const char *);
    traces[0] = text;
    *recorded = (tn__recorded){.traces = traces, .count = 1};
    return tn__chooser_recorded(recorded);
  }
  const tn__written_block *block = written_block(te, unit->target, given, arena);
  if (block != NULL) return written_by(te, block, arena);
  if (given->tuned == NULL) return tn__chooser_static;
  return *tn__kernels_tuned(arena, given->tuned, given->tuned_text, unit->target, unit->options.threads,
                            &tn__chooser_static, given->log)
              .chooser;
}

tn_status *tn__decl_target(const char *target, const tn_schedule_options *given, tn__target *out) {
  const tn_compile_options options = {
      .size = sizeof options, .target = target, .machine = given->machine, .no_measure = given->no_measure};
  return tn__kernels_machine_target(&options, out, NULL);
}

/* Would the output be written over an input which is still needed? */
static bool is_early(const tn_schedule *s, const tn__func *func, int output) {
  int input = tn__te_over(s->unit.te, output);
  if (input < 0) return false;
  const tn__buffer *from = func->params[input], *to = func->params[func->input_count + output];
  if (from->rank != to->rank) return false; /* it is packed, which is refused elsewhere */
  return !tn__decl_may_overwrite(s->ir, func, from, to);
}

/* Inputs of which a kernel reads copies, one by one; where there are more, of all or none. */
enum { MOST_PRIVATE = 6 };

/* The declaration that reads copies of the inputs that outputs `copied` are written over. */
static const tn__te *with_copies(const tn__te *te, const bool *copied) {
  for (int i = 0; i < tn__te_output_count(te); i++)
    if (copied[i]) te = tn__te_with_private(te, tn__te_over(te, i));
  return te;
}

/* Adds what the schedule needs copies of; false: nothing. */
TN_MUST_USE static bool add_copies(const tn_schedule *s, bool *copied) {
  const tn__te *te = s->unit.te;
  const tn__func *func = NULL;
  int count = tn__te_output_count(te), over = 0;
  bool any = false;
  for (int i = 0; i < count; i++) {
    if (tn__te_over(te, i) < 0) continue;
    over++;
    if (copied[i] || (any && over > MOST_PRIVATE)) continue;
    if (func == NULL) func = tn__schedule_func(s->schedule);
    copied[i] = is_early(s, func, i);
    any |= copied[i];
  }
  for (int i = 0; any && over > MOST_PRIVATE && i < count; i++) copied[i] = tn__te_over(te, i) >= 0;
  return any;
}

/* A trace knows by its digest which inputs it finds copied. */
static void make_private_for(tn_schedule *s, const char *trace) {
  const tn__te *te = s->unit.te;
  int count = tn__te_output_count(te), over = 0;
  bool *copied = TN__NEW_ARRAY(&s->arena, count, bool);
  for (int i = 0; i < count; i++) over += tn__te_over(te, i) >= 0;
  int sets = over > MOST_PRIVATE ? 2 : 1 << over;
  for (int set = 0; set < sets; set++) {
    for (int i = 0, bit = 0; i < count; i++)
      if (tn__te_over(te, i) >= 0) copied[i] = over > MOST_PRIVATE ? set > 0 : ((set >> bit++) & 1) != 0;
    const tn__te *as = with_copies(te, copied);
    if (!tn__plan_is_trace_of(trace, as)) continue;
    s->unit.te = as;
    return;
  }
}

/* A schedule that a person wrote says by the names of its blocks which copies there are. */
static void make_private_named(tn_schedule *s, const tn__written_block *block, bool *copied) {
  const tn__te *te = s->unit.te;
  for (int i = 0; i < tn__te_output_count(te); i++) {
    int input = tn__te_over(te, i);
    if (input < 0) continue;
    copied[i] = tn__written_speaks_of(block, tn__te_private_name(te, input));
  }
  s->unit.te = with_copies(te, copied);
}

static void schedule_body(void *user) {
  scheduling *c = user;
  tn_schedule *s = c->schedule;
  tn__check(s->arena.escape, tn__decl_target(c->target, &c->options, &s->target));
  s->ir = tn__ir_create(&s->arena);
  s->unit = tn__decl_plan_unit(c->te, &s->target, &c->options, s->ir);
  const char *given = c->options.schedule;
  const char *trace = c->trace == NULL && given != NULL && tn__written_is_trace(given) ? given : c->trace;
  if (trace != NULL) make_private_for(s, trace);
  const tn__te *declared = s->unit.te;
  bool *copied = TN__NEW_ARRAY(&s->arena, tn__te_output_count(declared), bool);
  const tn__written_block *block = written_block(c->te, &s->target, &c->options, &s->arena);
  if (block != NULL && trace == NULL) make_private_named(s, block, copied);
  for (bool again = true; again;) { /* where an input is needed for longer, it is copied */
    tn__chooser replayed = tn__chooser_recorded(&(tn__recorded){.traces = &c->trace, .count = 1});
    tn__chooser chooser = c->trace != NULL ? replayed : tn__decl_chooser(c->te, &s->unit, &c->options);
    s->schedule = tn__plan_kernel(&s->unit, &chooser)->schedule;
    again = trace == NULL && add_copies(s, copied);
    if (again) s->unit.te = with_copies(declared, copied);
  }
}

tn_status *tn__decl_schedule_options_read(const tn_schedule_options *options, tn_schedule_options *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_schedule_options, options, out));
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_schedule_options", "constants", out->constants, "constant_count",
                                            out->constant_count));
  for (int i = 0; i < out->constant_count; i++)
    if (out->constants[i] == NULL)
      return tn_status_create(TN_INVALID_ARGUMENT, "tn_schedule_options: constants[%d] has no name", i);
  if (out->plain && out->schedule != NULL)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "tn_schedule_options: plain leaves the declaration's own loops, and a "
                            "schedule is given beside it");
  return NULL;
}

static tn_status *make_schedule(scheduling *c, const tn_schedule_options *options, tn_schedule **out) {
  *out = NULL;
  if (!c->te->finished)
    return tn_status_create(TN_FAILED_PRECONDITION, "te %s: tn_te_finish() has not accepted the declaration",
                            tn_te_name(c->te));
  TN_RETURN_IF_ERROR(tn__decl_schedule_options_read(options, &c->options));
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(c->options.allocator, 1, sizeof(tn_schedule), 0, &memory));
  tn_schedule *s = c->schedule = memory;
  if (c->options.allocator != NULL) {
    s->allocator_copy = *c->options.allocator;
    s->allocator = &s->allocator_copy;
  }
  tn__arena_init(&s->arena, s->allocator, NULL);
  s->declared = c->te->arena.steps;
  snprintf(s->name, sizeof s->name, "kernel %s", tn_te_name(c->te));
  tn__decl_limit_work(&s->work, &s->arena, s->name, s->declared);
  tn_status *status = tn__decl_in_arena(&s->arena, schedule_body, c);
  const char *given = c->options.schedule, *name = c->options.schedule_name;
  if (status != NULL && name != NULL && given != NULL && tn__written_is_trace(given)) /* which knows no file */
    status = tn_status_prefix(status, "%s", name);
  if (status != NULL)
    tn_schedule_release(s);
  else
    *out = s;
  return status;
}

tn_status *tn_schedule_create(const tn_te *te, const char *target, const tn_schedule_options *options,
                              tn_schedule **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("te", te);
  scheduling c = {.te = te, .target = target};
  return make_schedule(&c, options, out);
}

tn_status *tn_schedule_replay(const tn_te *te, const char *target, const char *trace,
                              const tn_schedule_options *options, tn_schedule **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("te", te);
  TN__NEED("trace", trace);
  scheduling c = {.te = te, .target = target, .trace = trace};
  return make_schedule(&c, options, out);
}

void tn_schedule_release(tn_schedule *schedule) {
  if (schedule == NULL) return;
  tn__arena_release(&schedule->arena);
  tn_allocator copy = schedule->allocator_copy;
  tn__free(schedule->allocator != NULL ? &copy : NULL, schedule, sizeof *schedule, 0);
}

typedef struct printing {
  const tn_schedule *schedule;
  tn__strbuf *text;
} printing;

static void print_body(void *user) {
  const printing *p = user;
  tn__written_print(p->schedule->schedule, p->schedule->target.name, p->text);
}

tn_status *tn_schedule_trace(const tn_schedule *schedule, char **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("schedule", schedule);
  tn__strbuf text;
  tn__strbuf_init(&text, schedule->allocator);
  tn__sched_trace_print(schedule->schedule, &text);
  return tn__decl_text_out(&text, out, NULL);
}

tn_status *tn_schedule_text(const tn_schedule *schedule, char **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("schedule", schedule);
  tn__strbuf text;
  tn__strbuf_init(&text, schedule->allocator);
  printing p = {schedule, &text};
  tn__arena *arena = tn__ir_arena(schedule->ir);
  tn_status *status = tn__decl_in_arena(arena, print_body, &p);
  if (status == NULL) return tn__decl_text_out(&text, out, NULL);
  tn__strbuf_release(&text);
  return status;
}

/* A step that is refused half-way must leave no trace, so the whole is done again on fresh loops. */
static void apply_body(void *user) {
  scheduling *c = user;
  tn_schedule *s = c->schedule;
  tn__schedule *changed;
  tn__check(s->arena.escape, tn__sched_trace_replay(s->unit.te, &s->target, c->trace, &changed));
  tn__sched_limit_shared(changed, s->unit.options.shared_memory);
  s->schedule = changed;
}

tn_status *tn_schedule_apply(tn_schedule *schedule, const char *step) {
  TN__NEED("schedule", schedule);
  if (step == NULL || step[0] == 0 || strchr(step, '\n') != NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "a step is one line, such as split \"C.i\" 0 16");
  tn__strbuf text;
  tn__strbuf_init(&text, schedule->allocator);
  tn__sched_trace_print(schedule->schedule, &text);
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL) {
    static const char end[] = "end\n";
    text.length -= sizeof(end) - 1; /* the trace's last line */
    tn__strbuf_printf(&text, "%s\n%s", step, end);
    status = tn__strbuf_status(&text);
  }
  scheduling c = {.schedule = schedule, .trace = tn__strbuf_text(&text)};
  tn__decl_limit_work(&schedule->work, &schedule->arena, schedule->name, schedule->declared);
  if (status == NULL) status = tn__decl_in_arena(&schedule->arena, apply_body, &c);
  tn__strbuf_release(&text);
  return status;
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

struct tn_build {
  tn_allocator allocator_copy;
  const tn_allocator *allocator;
  tn__arena arena; /* holds the results and nothing else */
  tn__code object;
  const char *header;
};

typedef struct building {
  tn_schedule *const *schedules;
  int count;
  tn_build_options options;
  const char *stage;
  tn__strbuf *text; /* of a stage */
  tn__arena *arena;
  tn__work work;
  tn_build *build;
} building;

/* Making code starts anew in the arenas of the schedules. */
static void begin_work(building *b, tn__arena *arena) {
  uint64_t declared = 0;
  b->arena = arena;
  for (int i = 0; i < b->count; i++) {
    tn_schedule *s = b->schedules[i];
    declared += s->declared;
    tn__decl_limit_work(&s->work, &s->arena, s->name, s->declared);
  }
  tn__decl_limit_work(&b->work, arena, b->count == 1 ? b->schedules[0]->name : "these kernels", declared);
}

static void check_schedules(const building *b) {
  tn__escape *escape = b->arena->escape;
  if (b->count < 1) tn__throwf(escape, TN_INVALID_ARGUMENT, "there is nothing to build");
  for (int i = 0; i < b->count; i++) {
    const tn_schedule *s = b->schedules[i];
    if (strcmp(s->target.name, b->schedules[0]->target.name) != 0)
      tn__throwf(escape, TN_INVALID_ARGUMENT, "%s is scheduled for %s and %s for %s: one object has one target",
                 tn__te_name(b->schedules[0]->unit.te), b->schedules[0]->target.name, tn__te_name(s->unit.te),
                 s->target.name);
    for (int k = 0; k < i; k++)
      if (strcmp(tn__te_name(s->unit.te), tn__te_name(b->schedules[k]->unit.te)) == 0)
        tn__throwf(escape, TN_INVALID_ARGUMENT, "two kernels are called %s", tn__te_name(s->unit.te));
  }
}

/* By output, the input whose memory it takes; NULL where none does. */
static const int *places_over(const tn_schedule *s, const tn__func *func) {
  const tn__te *te = s->unit.te;
  int *over = TN__NEW_ARRAY(tn__ir_arena(s->ir), tn__te_output_count(te), int);
  bool any = false;
  for (int i = 0; i < tn__te_output_count(te); i++) {
    over[i] = tn__te_over(te, i);
    any |= over[i] >= 0;
    if (over[i] >= 0 && strcmp(func->params[over[i]]->name, tn__te_input_at(te, over[i])->name) != 0)
      tn__throwf(tn__ir_arena(s->ir)->escape, TN_INVALID_ARGUMENT,
                 "kernel %s: %s takes the memory of %s, which is packed beforehand: one of the two", tn__te_name(te),
                 tn__te_output_at(te, i)->name, tn__te_input_at(te, over[i])->name);
  }
  for (int output = 0; output < tn__te_output_count(te); output++)
    if (is_early(s, func, output))
      tn__throwf(tn__ir_arena(s->ir)->escape, TN_INVALID_ARGUMENT,
                 "kernel %s: by this schedule elements of %s are read after %s was written over them; leave out the "
                 "steps that change the order, or say nothing of the memory of %s",
                 tn__te_name(te), tn__te_input_at(te, over[output])->name, tn__te_output_at(te, output)->name,
                 tn__te_output_at(te, output)->name);
  return any ? over : NULL;
}

static void add_item(const tn_schedule *s, tn__te_item *items, int *count, tn__te_item item) {
  const tn__backend *backend;
  tn__check(tn__ir_arena(s->ir)->escape, tn__backend_find_any(&s->target, &backend));
  item.func = backend->lower(item.ir, item.func, NULL);
  items[(*count)++] = item;
}

/* What packs is scheduled like any kernel, for one thread. */
static void add_packing(const tn_schedule *s, tn__te *te, int input, tn__te_item *items, int *count, int kernel) {
  tn__check(tn__ir_arena(s->ir)->escape, tn__te_verify(te));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &s->target, &(tn__schedule_options){.threads = 1});
  const tn__func *func = tn__schedule_func(tn__plan_kernel(&unit, &tn__chooser_static)->schedule);
  add_item(s, items, count, (tn__te_item){.ir = s->ir, .te = te, .func = func, .kernel = kernel, .input = input});
}

/* Everything is made in the schedules' own arenas. */
int tn__decl_items(tn__arena *arena, tn_schedule *const *schedules, int count, tn__te_item **out) {
  int most = count, made = 0;
  for (int i = 0; i < count; i++) most += schedules[i]->unit.packing_count + tn__te_input_count(schedules[i]->unit.te);
  tn__te_item *items = TN__NEW_ARRAY(arena, most, tn__te_item);
  for (int i = 0; i < count; i++) {
    const tn_schedule *s = schedules[i];
    int kernel = made;
    tn__ir_arena(s->ir)->escape = arena->escape;
    const tn__func *func = tn__schedule_func(s->schedule);
    const int *over = places_over(s, func);
    add_item(s, items, &made, (tn__te_item){.ir = s->ir, .te = s->unit.te, .func = func, .schedule = s, .over = over});
    for (int k = 0; k < s->unit.packing_count; k++)
      add_packing(s, s->unit.packings[k], s->unit.packing_inputs[k], items, &made, kernel);
    for (int k = 0; k < tn__te_input_count(s->unit.te); k++) {
      tn__te *te = tn__schedule_packing(s->schedule, k);
      if (te != NULL) add_packing(s, te, k, items, &made, kernel);
    }
  }
  for (int i = 0; i < made; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(tn__te_name(items[i].te), tn__te_name(items[k].te)) == 0)
        tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "two kernels are called %s", tn__te_name(items[i].te));
  *out = items;
  return made;
}

typedef struct modules {
  tn__te_item *items;
  int count;
  tn__ir **irs;
  const tn__func **funcs;
  tn__c_entry *entries;
} modules;

static modules lower_all(const building *b) {
  modules m = {0};
  m.count = tn__decl_items(b->arena, b->schedules, b->count, &m.items);
  m.irs = TN__NEW_ARRAY(b->arena, m.count, tn__ir *);
  m.funcs = TN__NEW_ARRAY(b->arena, m.count, const tn__func *);
  m.entries = TN__NEW_ARRAY(b->arena, m.count, tn__c_entry);
  for (int i = 0; i < m.count; i++) {
    const tn__te_item *item = &m.items[i];
    m.irs[i] = item->ir;
    m.funcs[i] = item->func;
    m.entries[i] = (tn__c_entry){
        .name = tn__te_name(item->te), .takes_env = b->options.parallel, .takes_workspace = b->options.workspace};
    m.entries[i].over = item->over;
    m.entries[i].check_count = tn__te_conditions(item->te, &m.entries[i].checks);
  }
  return m;
}

typedef struct stage_row {
  const char *name;
  bool is_code;
  tn__emit emit;
} stage_row;

static const stage_row *stage_of(const char *name) {
  static const stage_row rows[] = {
      {.name = "te"},
      {.name = "schedule"},
      {.name = "trace"},
      {.name = "tir"},
      {"llvm", true, TN__EMIT_LLVM},
      {"asm", true, TN__EMIT_ASSEMBLY},
      {"obj", true, TN__EMIT_OBJECT},
      {"c99", true, TN__EMIT_C99},
      {"opencl", true, TN__EMIT_OPENCL},
      {"cuda", true, TN__EMIT_CUDA},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

/* Kernels are C functions of their names. */
static void check_c_names(const building *b, const modules *m) {
  for (int i = 0; i < m->count; i++) {
    const char *name = tn__te_name(m->items[i].te);
    if (tn__decl_is_taken_in_c(name))
      tn__throwf(b->arena->escape, TN_INVALID_ARGUMENT, "kernel %s: its C function can't have this name; use another",
                 name);
    const char *size = tn__arena_printf(b->arena, TN__C_ENTRY_SIZE_FORMAT, name);
    for (int k = 0; k < m->count && b->options.workspace; k++)
      if (strcmp(tn__te_name(m->items[k].te), size) == 0)
        tn__throwf(b->arena->escape, TN_INVALID_ARGUMENT,
                   "kernel %s: that is the name of the function that tells the workspace of kernel %s; use another",
                   size, name);
  }
}

static tn__code generate(const building *b, tn__emit kind) {
  modules m = lower_all(b);
  if (kind == TN__EMIT_C99) check_c_names(b, &m);
  const tn__target *target = &b->schedules[0]->target;
  tn__codegen_module module = {
      .irs = m.irs, .funcs = m.funcs, .entries = m.entries, .count = m.count, .target = target};
  return tn__backend_that_emits(b->arena->escape, target, kind, b->stage)->compile(b->arena, &module, kind);
}

/* What packs operands is seen among declarations and loops; it has no choices that a schedule could hold. */
static void emit_texts(const building *b) {
  modules m = lower_all(b);
  bool traces = strcmp(b->stage, "trace") == 0, schedules = strcmp(b->stage, "schedule") == 0, any = false;
  for (int i = 0; i < m.count; i++) {
    const tn__te_item *item = &m.items[i];
    if ((traces || schedules) && item->schedule == NULL) continue;
    if (any) tn__strbuf_char(b->text, '\n');
    any = true;
    if (strcmp(b->stage, "te") == 0) {
      tn__te_print(item->te, b->text);
    } else if (schedules) {
      tn__written_print(item->schedule->schedule, item->schedule->target.name, b->text);
    } else if (traces) {
      if (b->count > 1) tn__strbuf_printf(b->text, "# %s\n", tn__te_name(item->te));
      tn__sched_trace_print(item->schedule->schedule, b->text);
    } else {
      tn__func_print(item->func, b->text);
    }
  }
}

static void emit_body(tn__arena *arena, void *user) {
  building *b = user;
  begin_work(b, arena);
  check_schedules(b);
  const stage_row *row = stage_of(b->stage);
  if (row->is_code) {
    tn__code code = generate(b, row->emit);
    tn__strbuf_append_n(b->text, code.data, code.size);
  } else {
    emit_texts(b);
  }
}

tn_status *tn_te_emit(tn_schedule *const *schedules, int count, const tn_build_options *options, const char *stage,
                      char **out, size_t *out_size) {
  TN__NEED("out", out);
  TN__NEED("out_size", out_size);
  *out = NULL;
  *out_size = 0;
  TN__NEED("stage", stage);
  TN__NEED_EACH("schedules", schedules, "count", count);
  if (stage == NULL || stage_of(stage) == NULL)
    return tn_status_create(
        TN_INVALID_ARGUMENT,
        "there is no stage \"%s\": use te, schedule, trace, tir, llvm, asm, c99, opencl, cuda or obj",
        stage == NULL ? "" : stage);
  tn__strbuf text;
  building b = {.schedules = schedules, .count = count, .stage = stage, .text = &text};
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_build_options, options, &b.options));
  tn__strbuf_init(&text, b.options.allocator);
  tn_status *status = tn__with_arena(b.options.allocator, emit_body, &b);
  if (status == NULL) return tn__decl_text_out(&text, out, out_size);
  tn__strbuf_release(&text);
  return status;
}

static void keep_results(void *user) {
  building *b = user;
  tn_build *build = b->build;
  tn__strbuf header;
  tn__strbuf_init(&header, build->allocator);
  modules m = lower_all(b);
  const tn__backend *backend = tn__backend_of(b->arena->escape, &b->schedules[0]->target);
  tn__kernel_info *infos = TN__NEW_ARRAY(b->arena, m.count, tn__kernel_info);
  check_c_names(b, &m);
  for (int i = 0; i < m.count; i++) infos[i] = backend->measure(m.irs[i], m.funcs[i]);
  tn__decl_header(m.items, infos, m.count, &b->options, &header);
  build->header = tn__arena_take(&build->arena, &header);
  build->object.data = tn__arena_copy(&build->arena, build->object.data, build->object.size);
}

static void build_body(tn__arena *arena, void *user) {
  building *b = user;
  begin_work(b, arena);
  check_schedules(b);
  b->stage = "objects";
  b->build->object = generate(b, TN__EMIT_OBJECT);
  tn__check(arena->escape, tn__decl_in_arena(&b->build->arena, keep_results, b));
}

tn_status *tn_te_build(tn_schedule *const *schedules, int count, const tn_build_options *options, tn_build **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_EACH("schedules", schedules, "count", count);
  building b = {.schedules = schedules, .count = count};
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_build_options, options, &b.options));
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(b.options.allocator, 1, sizeof(tn_build), 0, &memory));
  b.build = memory;
  if (b.options.allocator != NULL) {
    b.build->allocator_copy = *b.options.allocator;
    b.build->allocator = &b.build->allocator_copy;
  }
  tn__arena_init(&b.build->arena, b.build->allocator, NULL);
  tn_status *status = tn__with_arena(b.options.allocator, build_body, &b);
  if (status != NULL)
    tn_build_release(b.build);
  else
    *out = b.build;
  return status;
}

const void *tn_build_object(const tn_build *build, size_t *size) {
  if (build == NULL || size == NULL) return NULL;
  *size = build->object.size;
  return build->object.data;
}

const char *tn_build_header(const tn_build *build) {
  if (build == NULL) return NULL;
  return build->header;
}

tn_status *tn_build_save(const tn_build *build, const char *base) {
  TN__NEED("build", build);
  TN__NEED("base", base);
  size_t size = strlen(base) + 3;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 2, size, 0, &memory));
  char *object_path = memory, *header_path = object_path + size;
  snprintf(object_path, size, "%s.o", base);
  snprintf(header_path, size, "%s.h", base);
  tn__bytes object = {build->object.data, build->object.size}, header = {build->header, strlen(build->header)};
  tn_status *status = tn__file_write_pair(&(tn__file_contents){object_path, &object, 1},
                                          &(tn__file_contents){header_path, &header, 1}, 0644);
  tn__free(NULL, memory, 2 * size, 0);
  return status;
}

void tn_build_release(tn_build *build) {
  if (build == NULL) return;
  tn__arena_release(&build->arena);
  tn_allocator copy = build->allocator_copy;
  tn__free(build->allocator != NULL ? &copy : NULL, build, sizeof *build, 0);
}
