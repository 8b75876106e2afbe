#include "tune/tuner/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "declarations/handle.h"
#include "driver/driver.h"
#include "kernels/machine.h"
#include "machine/machine_file.h"

struct tn__task_list {
  tn__arena arena; /* of all texts */
  tn__task_item **items;
  int count, capacity;
};

tn_status *tn__tasks_create(tn__task_list **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__task_list), 0, &memory));
  *out = memory;
  tn__arena_init(&(*out)->arena, NULL, NULL);
  return NULL;
}

void tn__tasks_release(tn__task_list *list) {
  if (list == NULL) return;
  tn__arena_release(&list->arena);
  free(list->items);
  tn__free(NULL, list, sizeof *list, 0);
}

int tn__tasks_count(const tn__task_list *list) { return list->count; }

const tn__task_item *tn__tasks_at(const tn__task_list *list, int index) { return list->items[index]; }

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* What all kernels of one call have in common. */
typedef struct adding {
  tn__task_list *list;
  tn__escape *escape;
  const char *target, *machine; /* the list's */
  int threads;
  tn_machine_limits limits;
  double cache_rate; /* bytes a second that all cores load from the nearest cache; 0: nothing is measured */
} adding;

static void begin(adding *a, tn__task_list *list, tn__escape *escape, const tn__target *target, int threads,
                  const tn_compile_options *options) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  list->arena.escape = escape;
  tn__machine_print(&target->cpu.machine, target->cpu.arch, &text);
  *a = (adding){.list = list, .escape = escape, .threads = threads};
  a->machine = tn__arena_take(&list->arena, &text);
  a->target = tn__arena_strdup(&list->arena, target->name);
  a->limits = tn__kernels_machine_limits(target, threads);
  if (tn__kernels_machine_is_measured(options))
    a->cache_rate =
        a->limits.clock_hz * threads * fmax(target->cpu.machine.core.load_bytes, target->cpu.machine.core.l2_bytes);
}

/* The floor counts what every schedule does: the needed operations at the peak, and writing the outputs at the rate of
 * the nearest cache. The margin covers rounded numbers and a clock that is faster for a while. */
static tn__task_work work_of(const adding *a, const tn__te *te) {
  enum { MARGIN = 2 };
  tn__task_work w = {.least = -1};
  const char *bound;
  tn__decl_work(te, &w.flops, &w.bytes);
  w.least = tn_machine_roofline(&a->limits, w.flops, w.bytes, &bound);
  if (!(a->cache_rate > 0) || !(w.bytes >= 0)) return w;
  double flops, written, peak = a->limits.flops_per_second * a->limits.threads;
  tn__te_least_work(te, &flops, &written);
  w.floor = fmax(flops / peak, written / a->cache_rate) / MARGIN;
  return w;
}

/* Kernels that compute the same are one task. */
static tn__task_item *find(const adding *a, const char *declaration) {
  for (int i = 0; i < a->list->count; i++) {
    const tn_tune_task *t = &a->list->items[i]->task;
    if (strcmp(t->declaration, declaration) == 0 && strcmp(t->target, a->target) == 0 && t->threads == a->threads &&
        strcmp(t->machine, a->machine) == 0)
      return a->list->items[i];
  }
  return NULL;
}

static void add(const adding *a, const char *name, const tn__te *te, bool results_read, double weight) {
  tn__task_list *list = a->list;
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print_as(te, "kernel", &text); /* as a trace names what it is of */
  const char *declaration = tn__arena_take(&list->arena, &text);
  tn__task_item *item = find(a, declaration);
  if (item == NULL) {
    if (list->count == list->capacity) {
      int capacity = list->capacity > 0 ? 2 * list->capacity : 32;
      void *grown = realloc(list->items, (size_t)capacity * sizeof(tn__task_item *));
      if (grown == NULL) tn__throwf(a->escape, TN_OUT_OF_MEMORY, "out of memory for %d tasks", capacity);
      list->items = grown;
      list->capacity = capacity;
    }
    item = TN__NEW(&list->arena, tn__task_item);
    item->task = (tn_tune_task){.size = sizeof item->task,
                                .name = tn__arena_strdup(&list->arena, name),
                                .declaration = declaration,
                                .target = a->target,
                                .machine = a->machine,
                                .threads = a->threads};
    item->work = work_of(a, te);
    list->items[list->count++] = item;
  }
  item->task.results_read |= results_read;
  item->weight += weight;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct model_call {
  tn__task_list *list;
  const char *path, *kernel;
  const void *data; /* NULL: the file's */
  size_t size;
  tn_compile_options options;
  const tn__tasks_variants *variants;
  int left_out;
} model_call;

static void model_body(tn__arena *arena, void *user) {
  model_call *call = user;
  adding a;
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &call->options);
  if (call->variants != NULL) {
    c->driver.variants = call->variants->items;
    c->driver.variant_count = call->variants->count;
    c->driver.see_site = call->variants->see;
    c->driver.see_user = call->variants->user;
  }
  begin(&a, call->list, arena->escape, &c->driver.target, c->driver.schedule.threads, &call->options);
  tn__compilation_front(c, call->path, call->data, call->size);
  int *calls = TN__NEW_ARRAY(arena, c->unit_count, int), elsewhere = 0;
  for (int i = 0; i < c->unit_count; i++) calls[c->units[i].same_as]++;
  for (int i = 0; i < c->unit_count; i++) {
    const tn__unit *u = &c->units[i];
    if (u->same_as != i || strncmp(u->name, call->kernel, strlen(call->kernel)) != 0) continue;
    if (u->maker != NULL) /* whose schedule tuning does not choose (kernels/kernels.c) */
      elsewhere++;
    else if (u->scalar_count > 0)
      call->left_out++;
    else
      add(&a, u->name, u->choice.te, u->choice.options.results_read, calls[i]);
  }
  if (elsewhere > 0 && call->variants == NULL)
    tn__log(call->options.log, TN_LOG_WARNING, "%d kernel%s for other devices than the host %s not tuned", elsewhere,
            tn__plural(elsewhere), elsewhere == 1 ? "is" : "are");
}

tn_status *tn__tasks_add_model(tn__task_list *list, const char *path, const void *data, size_t size, const char *kernel,
                               const tn_compile_options *options, const tn__tasks_variants *variants, int *left_out) {
  model_call call = {.list = list,
                     .path = path,
                     .kernel = kernel != NULL ? kernel : "",
                     .data = data,
                     .size = size,
                     .variants = variants};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  TN_RETURN_IF_ERROR(tn__with_arena(NULL, model_body, &call));
  *left_out = call.left_out;
  return NULL;
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */

typedef struct te_call {
  tn__task_list *list;
  tn_te **tes;
  int count;
  const tn_compile_options *options;
} te_call;

/* Returns an error message, or NULL if all sizes of the kernel are known. */
static const char *open_size(tn__arena *arena, const char *name, const tn__te *te) {
  if (tn__te_dim_count(te) == 0) return NULL;
  const char *dim = tn__te_dim_at(te, 0)->name;
  return tn__arena_printf(arena,
                          "kernel %s: cannot tune it: the dimension %s is open, and only kernels of known sizes are "
                          "timed; fix it with --dim %s=N",
                          name, dim, dim);
}

static void te_body(tn__arena *arena, void *user) {
  te_call *call = user;
  adding a;
  const tn_compile_options *o = call->options;
  const tn_schedule_options options = {.size = sizeof options,
                                       .threads = o->run_threads,
                                       .machine = o->machine,
                                       .no_measure = o->no_measure,
                                       .dense = true}; /* as what is timed */
  tn__target *target = TN__NEW(arena, tn__target);
  tn__check(arena->escape, tn__decl_target(o->target, &options, target));
  begin(&a, call->list, arena->escape, target, o->run_threads > 0 ? o->run_threads : target->cpu.cores, o);
  TN__VEC(const char *) open = {0};
  for (int i = 0; i < call->count; i++) {
    tn__plan_unit unit = tn__decl_plan_unit(call->tes[i], target, &options, tn__ir_create(arena));
    const char *reason = open_size(arena, tn_te_name(call->tes[i]), unit.te);
    if (reason != NULL)
      tn__vec_push(arena, &open, reason);
    else
      add(&a, tn_te_name(call->tes[i]), unit.te, unit.options.results_read, 1);
  }
  if (open.count > 0 && open.count == call->count) tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s", open.data[0]);
  for (int i = 0; i < open.count; i++) tn__log(o->log, TN_LOG_WARNING, "%s; it is left out", open.data[i]);
}

tn_status *tn__tasks_add_declarations(tn__task_list *list, const char *path, const char *text, size_t size,
                                      const char *kernel, const tn_compile_options *options) {
  te_call call = {.list = list};
  tn_compile_options read;
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &read));
  call.options = &read;
  tn_status *status =
      text == NULL ? tn_te_parse_file(path, kernel, read.dims, read.dim_count, &call.tes, &call.count)
                   : tn_te_parse_all(path, text, size, kernel, read.dims, read.dim_count, &call.tes, &call.count);
  if (status != NULL) return status;
  status = tn__with_arena(NULL, te_body, &call);
  tn_te_list_release(call.tes, call.count);
  return status;
}
