/* What depends on constants only is computed once, when the model is compiled: small nodes by the interpreter while the
 * graph is simplified, whole groups (weights being packed, mostly) natively at the end: by code of their own, or as
 * moves (moves.h). */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/invariant.h"
#include "base/sanitize.h"
#include "driver/driver.h"
#include "runtime/executable/apart.h"
#include "runtime/tensor.h"
#include "target/text/text.h"
#include "tenon/kernel_abi.h"

/* ---- small nodes ------------------------------------------------------------------------------------------------- */

typedef struct fold_task {
  tn__graph *graph;
  const tn__node *node;
  void *const *out;
  const tn_allocator *allocator;
} fold_task;

static int64_t count_of(const tn__value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= tn__g_dim_const(v, i);
  return n;
}

/* A constant's elements in full. */
static void *dense_data(tn__arena *arena, const tn__value *v) {
  size_t element = tn__dtype_stored(v->dtype);
  int64_t count = count_of(v);
  if (!v->splat) return tn__arena_copy(arena, v->data, (size_t)count * element);
  char *all = tn__arena_alloc_array(arena, (size_t)count, element);
  for (int64_t i = 0; i < count; i++) tn__copy(all + (size_t)i * element, v->data, element);
  return all;
}

static void fold_node(tn__arena *arena, void *user) {
  fold_task *task = user;
  tn__ir *ir = tn__ir_create(arena);
  tn__te *te = tn__te_create(ir, "fold");
  tn__lower_context *lower = tn__lower_create(task->graph, te);
  tn__lower_node(lower, task->node);
  for (int i = 0; i < task->node->output_count; i++) tn__te_output(te, tn__lower_value(lower, task->node->outputs[i]));
  tn__check(arena->escape, tn__te_verify(te));
  int inputs = tn__lower_input_count(lower);
  void **buffers = TN__NEW_ARRAY(arena, inputs + task->node->output_count, void *);
  for (int i = 0; i < inputs; i++) buffers[i] = dense_data(arena, tn__lower_input_at(lower, i));
  for (int i = 0; i < task->node->output_count; i++) buffers[inputs + i] = task->out[i];
  tn__interpret_options options = {.max_operations = 1 << 24};
  tn__check(arena->escape, tn__ir_interpret(ir, tn__te_lower(te), buffers, NULL, &options));
}

static bool evaluate(void *user, tn__graph *graph, const tn__node *node, void *const *out) {
  if (node->op->lowering != TN__LOWER_DECLARE) return false;
  const tn__driver *driver = user;
  fold_task task = {graph, node, out, driver->arena->allocator};
  tn_status *status = tn__with_arena(driver->arena->allocator, fold_node, &task);
  bool ok = status == NULL;
  bool fatal = tn_status_code_of(status) == TN_OUT_OF_MEMORY;
  if (fatal) tn__throw(driver->arena->escape, status);
  tn_status_free(status); /* an index out of range, say: the node stays and fails when the model runs */
  return ok;
}

tn__evaluator tn__driver_fold_evaluator(tn__driver *driver) { return (tn__evaluator){evaluate, driver}; }

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct runner {
  tn_executable *executable;
  tn_session *session;
} runner;

static void release_runner(void *user) {
  runner *r = user;
  tn_session_release(r->session);
  tn_executable_release(r->executable);
}

static size_t bytes_of(const tn__value *v) { return (size_t)count_of(v) * tn__dtype_stored(v->dtype); }

/* Results of constant groups that the rest of the model reads; `*given`: the bytes of constants that it reads as they
 * are, with what aligning them may take. */
TN_MUST_USE static int wanted_values(tn__driver *driver, tn__graph *graph, const tn__groups *groups, tn__value **out,
                                     size_t *given) {
  int value_count = 0, count = 0;
  tn__graph_use_counts(graph, &value_count);
  bool *read = TN__NEW_ARRAY(driver->arena, value_count, bool);
  for (int i = 0; i < groups->count; i++) {
    const tn__group *g = &groups->groups[i];
    if (g->constant) continue;
    for (int j = 0; j < g->node_count; j++)
      for (int k = 0; k < g->nodes[j]->input_count; k++) {
        const tn__value *v = g->nodes[j]->inputs[k];
        if (v && v->data && !read[v->id]) *given += bytes_of(v) + TN_KERNEL_ALIGNMENT;
        if (v) read[v->id] = true;
      }
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++) read[tn__graph_output_at(graph, i)->id] = true;
  for (int i = 0; i < groups->count; i++)
    for (int j = 0; groups->groups[i].constant && j < groups->groups[i].output_count; j++)
      if (read[groups->groups[i].outputs[j]->id]) out[count++] = groups->groups[i].outputs[j];
  return count;
}

/* Memory for a constant, aligned as sessions want outputs: in the executable to be, or in the graph's arena. */
static void *constant_memory(tn__driver *driver, const tn__value *v, tn__slab *slab) {
  void *place = slab ? tn__slab_take(slab, bytes_of(v)) : NULL;
  if (place) return place;
  char *memory = tn__arena_alloc(driver->arena, bytes_of(v) + TN_KERNEL_ALIGNMENT);
  return memory + (TN_KERNEL_ALIGNMENT - (uintptr_t)memory % TN_KERNEL_ALIGNMENT) % TN_KERNEL_ALIGNMENT;
}

static void run_constants(tn__driver *driver, tn__arena *scratch, const tn__pieces *pieces, const tn__apart *apart,
                          tn__value *const *values, int count, tn__slab *slab) {
  tn__escape *escape = driver->arena->escape;
  tn__bytes executable = tn__exe_join(scratch, pieces);
  runner *r = TN__NEW(scratch, runner);
  tn__arena_defer(scratch, release_runner, r);
  tn__check(escape,
            tn__executable_load_apart(executable.data, executable.size, apart, scratch->allocator, &r->executable));
  tn_session_options session = {.size = sizeof session, .allocator = scratch->allocator, .threads = driver->threads};
  tn__check(escape, tn_session_create(r->executable, &session, &r->session));
  for (int i = 0; i < count; i++) {
    int64_t shape[TN_MAX_RANK];
    bool known = tn__g_shape_const(values[i], shape);
    TN__INVARIANT(known); /* fusion does not classify a value of unknown size as constant */
    void *data = constant_memory(driver, values[i], slab);
    DLTensor out = {.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = values[i]->rank,
                    .dtype = tn_dtype_to_dl(values[i]->dtype),
                    .shape = shape};
    tn__check(escape, tn_session_set_output_at(r->session, NULL, i, &out, TN_BIND_PERSISTENT));
    TN__INITIALIZED(data, bytes_of(values[i])); /* a kernel writes it */
    values[i]->data = data;
    values[i]->splat = false;
  }
  tn__check(escape, tn_session_invoke(r->session, NULL));
  if (driver->model) tn__model_forget_pages(driver->model); /* most of them are not read again */
}

/* The first function's constants, which are most, are computed in place; NULL for the others. */
static tn__slab *make_slab(tn__driver *driver, tn__value *const *values, int count, size_t given, int groups) {
  if (driver->slab) return NULL;
  size_t bytes = 0;
  for (int i = 0; i < count; i++)
    bytes += (bytes_of(values[i]) + TN_KERNEL_ALIGNMENT - 1) & -(size_t)TN_KERNEL_ALIGNMENT;
  driver->slab = tn__slab_create(driver->arena, bytes, given, groups);
  return driver->slab;
}

static void release_scratch(void *arena) { tn__arena_release(arena); }

typedef struct ordered_group {
  const tn__group *group;
  int needed, index; /* the first group that is wanted and needs it; its own place */
} ordered_group;

static int compare_order(const void *a, const void *b) {
  const ordered_group *x = a, *y = b;
  return x->needed != y->needed ? x->needed - y->needed : x->index - y->index;
}

/* The constant groups, each right before the first that needs it: what one result takes on the way is then small and
 * still in the cache, where all first steps of all results together take as much as the weights. */
static tn__groups order_groups(tn__driver *driver, tn__graph *graph, const tn__groups *groups) {
  tn__arena *arena = driver->arena;
  int value_count = 0, count = 0;
  tn__graph_use_counts(graph, &value_count);
  int *needed = TN__NEW_ARRAY(arena, value_count, int); /* by value: the first consumer's `needed`, 1 added; 0: none */
  ordered_group *order = TN__NEW_ARRAY(arena, groups->count, ordered_group);
  for (int i = groups->count - 1; i >= 0; i--) {
    const tn__group *g = &groups->groups[i];
    if (!g->constant) continue;
    ordered_group *o = &order[count++];
    *o = (ordered_group){g, i, i};
    int first = 0; /* of its consumers, 1 added */
    for (int j = 0; j < g->output_count; j++) {
      int by = needed[g->outputs[j]->id];
      if (by > 0 && (first == 0 || by < first)) first = by;
    }
    if (first > 0) o->needed = first - 1;
    for (int j = 0; j < g->node_count; j++)
      for (int k = 0; k < g->nodes[j]->input_count; k++) {
        const tn__value *v = g->nodes[j]->inputs[k];
        if (v && (needed[v->id] == 0 || needed[v->id] > o->needed + 1)) needed[v->id] = o->needed + 1;
      }
  }
  if (count > 0) qsort(order, (size_t)count, sizeof *order, compare_order);
  tn__groups ordered = {TN__NEW_ARRAY(arena, count, tn__group), count};
  for (int i = 0; i < count; i++) ordered.groups[i] = *order[i].group;
  return ordered;
}

tn__target tn__driver_constants_target(const tn__driver *driver) {
  tn__target target = driver->target;
  if (!tn__target_runs_here(&target))
    tn__check(driver->arena->escape, tn__target_parse(tn__arch_name(tn__host_arch()), &target));
  return target;
}

void tn__driver_precompute_constants(tn__driver *driver, tn__graph *graph, const tn__groups *groups) {
  tn__arena *arena = driver->arena;
  int outputs = 0, kernels = 0;
  for (int i = 0; i < groups->count; i++) outputs += groups->groups[i].output_count;
  tn__value **values = TN__NEW_ARRAY(arena, outputs, tn__value *);
  size_t given = 0;
  int count = wanted_values(driver, graph, groups, values, &given);
  if (count == 0) return;
  /* What the computation itself needs, copies of weights above all, goes when it is done. */
  tn__arena *scratch = TN__NEW(arena, tn__arena);
  tn__arena_init(scratch, arena->allocator, arena->escape);
  scratch->work = driver->work;
  tn__arena_defer(arena, release_scratch, scratch);
  tn__driver host = *driver;
  host.arena = scratch;
  host.runs_once = true;
  host.texts = 0;
  host.target = tn__driver_constants_target(driver);
  host.backend = tn__backend_of(arena->escape, &host.target);
  tn__groups ordered = order_groups(driver, graph, groups);
  const tn__group **groups_to_run = TN__NEW_ARRAY(arena, ordered.count, const tn__group *);
  bool *runs = TN__NEW_ARRAY(arena, ordered.count, bool);
  int *unit_of = TN__NEW_ARRAY(arena, ordered.count, int);
  for (int i = 0; i < ordered.count; i++) {
    runs[i] = true;
    unit_of[i] = -1;
    if (ordered.groups[i].view) continue;
    unit_of[i] = kernels;
    groups_to_run[kernels++] = &ordered.groups[i];
  }
  tn__unit *units = tn__units_declare(&host, groups_to_run, kernels);
  tn__units_build(&host, units, kernels);
  const char **names = TN__NEW_ARRAY(arena, count, const char *);
  for (int i = 0; i < count; i++) names[i] = values[i]->name;
  tn__program_function function = {.name = "constants",
                                   .graph = graph,
                                   .outputs = values,
                                   .output_names = names,
                                   .output_count = count,
                                   .groups = &ordered,
                                   .runs = runs,
                                   .unit_of = unit_of};
  tn__program program = {
      .functions = &function, .function_count = 1, .units = units, .unit_count = kernels, .constants_apart = true};
  tn__program_stats stats;
  tn__pieces executable = tn__program_build(&host, &program, NULL, NULL, 0, &stats);
  run_constants(driver, scratch, &executable, &stats.apart, values, count,
                make_slab(driver, values, count, given, groups->count));
  for (int i = 0; i < host.times.count; i++)
    tn__driver_time(driver, host.times.data[i]->name, host.times.data[i]->seconds);
  tn__arena_release(scratch);
}
