#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/options.h"
#include "driver/devices.h"
#include "ir/passes.h"
#include "kernels/machine.h"
#include "kernels/texts.h"
#include "kernels/tuned.h"
#include "options/options.h"
#include "target/text/text.h"

tn_status *tn__driver_read_options(const tn_compile_options *options, tn_compile_options *out) {
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_compile_options, options, out));
  return tn__options_check(out);
}

/* A pass that does not exist prints nothing, which looks like a pass that changes nothing. */
static void check_pass(tn__arena *arena, const char *name) {
  const char *known = "", *pass;
  if (name == NULL || strcmp(name, "all") == 0) return;
  tn__nearest n = {.name = name, .length = strlen(name)};
  char advice[TN__ADVICE];
  for (int i = 0; (pass = tn__graph_pass_name(i)) != NULL; i++) {
    if (strcmp(pass, name) == 0) return;
    tn__nearest_consider(&n, pass, strlen(pass));
    bool again = false;
    for (int k = 0; k < i; k++) again |= strcmp(pass, tn__graph_pass_name(k)) == 0;
    if (!again) known = tn__arena_printf(arena, "%s%s, ", known, pass);
  }
  for (int i = 0; (pass = tn__ir_pass_name(i)) != NULL; i++) {
    if (strcmp(pass, name) == 0) return;
    tn__nearest_consider(&n, pass, strlen(pass));
    known = tn__arena_printf(arena, "%s%s, ", known, pass);
  }
  tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "there is no pass \"%s\" to print after; there are %sand all%s", name,
             known, tn__nearest_advice(&n, advice));
}

static unsigned read_words(tn__arena *arena, const tn_compile_options *options) {
  unsigned texts;
  tn__check(arena->escape, tn__kernels_texts_parse(options->texts, &texts));
  check_pass(arena, options->print_after);
  return texts;
}

void tn__driver_check_options(tn__arena *arena, void *options) {
  const tn_compile_options *o = options;
  const tn__backend *backend;
  tn__check(arena->escape, tn__backend_find_any(tn__driver_check_devices(arena, o), &backend));
  read_words(arena, o);
}

/* The networks of the tests take up to some twenty thousand steps for each of their nodes, and a hundred for each byte
 * of their structure; no operator takes more than a few hundred thousand. What compiles at all stays far below what is
 * allowed (the importer adds a million for each node): the limit is there so that what nobody thought of ends with
 * words instead of not ending. */
#define STEPS_AT_LEAST UINT64_C(20000000)
#define STEPS_PER_BYTE UINT64_C(2000)

void tn__driver_limit_work(tn__driver *driver, uint64_t structure) {
  tn__arena *arena = driver->arena;
  tn__work *work = driver->work = TN__NEW(arena, tn__work);
  work->of = tn__arena_printf(arena, "a model of %llu bytes, of which the numbers in tensors count little,",
                              (unsigned long long)structure);
  work->most =
      structure > UINT64_MAX / 4 / STEPS_PER_BYTE ? UINT64_MAX / 2 : STEPS_AT_LEAST + STEPS_PER_BYTE * structure;
  work->cancelled = driver->options->cancelled;
  work->user = driver->options->user;
  arena->work = work;
}

void tn__driver_choose_by(tn__driver *driver, const tn__chooser *otherwise) {
  const tn_compile_options *o = driver->options;
  driver->chooser = otherwise;
  if (o->tuned == NULL) return;
  const tn__tuned tuned =
      tn__kernels_tuned(driver->arena, o->tuned, NULL, &driver->target, driver->schedule.threads, otherwise, o->log);
  driver->chooser = tuned.chooser;
  driver->variants = tuned.variants;
  driver->variant_count = tuned.variant_count;
}

void tn__driver_init(tn__driver *driver, tn__arena *arena, const tn_compile_options *options) {
  *driver = (tn__driver){.arena = arena, .options = options};
  tn__driver_devices_init(driver);
  tn_compile_options first = *options;
  first.target = tn__driver_host_text(driver);
  tn__check(arena->escape, tn__kernels_machine_target(&first, &driver->target, NULL));
  if (tn__target_may_host(&driver->target))
    tn__check(arena->escape, tn__backend_find_code(&driver->target, &driver->backend));
  else
    driver->backend = tn__backend_of(arena->escape, &driver->target);
  driver->schedule.threads = options->run_threads > 0 ? options->run_threads : tn__target_threads(&driver->target);
  tn__driver_devices_makers(driver);
  tn__driver_choose_by(driver, &tn__chooser_static);
  driver->threads = options->compile_threads > 0 ? options->compile_threads : tn__target_default_thread_count();
  driver->texts = read_words(arena, options);
  if (options->print_after) driver->threads = 1; /* texts of one kernel stay together, in the order of the model */
  if (!options->no_cache && !options->print_after && !options->devices) {
    uint64_t limit = options->cache_limit_bytes ? options->cache_limit_bytes : UINT64_C(2) << 30;
    driver->cache = tn__cache_open(arena, options->cache_directory, limit, options->log);
  }
}

/* ---- graph ------------------------------------------------------------------------------------------------------- */

static void after_graph_pass(void *user, const char *pass, const tn__graph *graph, double seconds) {
  tn__driver *driver = user;
  char phase[64];
  snprintf(phase, sizeof phase, "graph.%s", pass);
  tn__driver_time(driver, phase, seconds);
  if (!tn__driver_prints(driver, pass)) return;
  tn__strbuf text;
  tn__strbuf_init(&text, driver->arena->allocator);
  tn__graph_print(graph, &text);
  tn__driver_print(driver, "graph", pass, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

static bool is_for_cpu(void *user, const tn__node *node) {
  const tn__virtual_device *device = node->outputs[0]->device;
  return device == NULL || tn__target_is_cpu(device->target);
}

TN_MUST_USE static bool operand_layout(void *user, const tn__operand_use *operand, tn__layout *out) {
  const tn__driver *driver = user;
  return tn__schedule_operand_layout(&driver->target, operand, out);
}

static int winograd_tile(void *user, const tn__winograd_sizes *s) {
  const tn__driver *driver = user;
  return tn__schedule_winograd_tile(&driver->target, s->batch, s->height, s->width, s->in, s->out);
}

static int decide(void *user, const tn__site *site) {
  const tn__driver *driver = user;
  if (driver->see_site != NULL) driver->see_site(driver->see_user, site);
  return tn__kernels_variant(driver->variants, driver->variant_count, site);
}

static tn__optimize_options optimize_options(tn__driver *driver) {
  bool asks = driver->variant_count > 0 || driver->see_site != NULL;
  return (tn__optimize_options){.evaluator = tn__driver_fold_evaluator(driver),
                                .is_for_cpu = is_for_cpu,
                                .operand_layout = operand_layout,
                                .layout_user = driver,
                                .winograd_tile = driver->options->direct_convolutions ? NULL : winograd_tile,
                                .winograd_user = driver,
                                .decide = asks ? decide : NULL,
                                .decide_user = driver,
                                .limited = driver->limits_passes,
                                .most = driver->most_passes,
                                .after = after_graph_pass,
                                .after_user = driver};
}

static void optimize(tn__compilation *c, tn__graph *graph) {
  const tn__optimize_options options = optimize_options(&c->driver);
  tn__graph_optimize(graph, &options);
}

static tn__model *open_model(tn__compilation *c, const char *path, const void *data, size_t size) {
  double start = tn__now();
  tn__model *model = tn__model_open(c->driver.arena, path, data, size);
  tn__driver_limit_work(&c->driver, tn__model_structure(model));
  tn__driver_time(&c->driver, "open", tn__now() - start);
  return model;
}

/* Inputs and outputs of a function. A while's body leaves out the loop variables that it keeps. */
static void describe_signature(tn__driver *driver, tn__program_function *f, const tn__node *loop) {
  tn__arena *arena = driver->arena;
  tn__graph *g = f->graph;
  f->input_count = tn__graph_input_count(g);
  tn__value **inputs = TN__NEW_ARRAY(arena, f->input_count, tn__value *);
  tn__value **outputs = TN__NEW_ARRAY(arena, tn__graph_output_count(g), tn__value *);
  const char **input_names = TN__NEW_ARRAY(arena, f->input_count, const char *);
  const char **output_names = TN__NEW_ARRAY(arena, tn__graph_output_count(g), const char *);
  tn__extent *extents = TN__NEW_ARRAY(arena, tn__graph_output_count(g), tn__extent);
  tn__value **updates = TN__NEW_ARRAY(arena, f->input_count, tn__value *);
  if (loop) f->updates = updates;
  for (int i = 0; i < f->input_count; i++) {
    inputs[i] = tn__graph_input_at(g, i);
    input_names[i] = inputs[i]->name;
  }
  for (int i = 0; i < tn__graph_output_count(g); i++) {
    bool list = tn__graph_output_at(g, i)->holds != TN__HOLDS_TENSOR;
    if (loop && list) updates[i] = tn__graph_output_at(g, i);
    if (loop && (list || tn__prog_while_keeps(loop, i))) continue;
    outputs[f->output_count] = tn__graph_output_at(g, i);
    extents[f->output_count] = tn__graph_output_extent(g, i);
    output_names[f->output_count++] = tn__graph_output_name(g, i);
  }
  f->inputs = inputs;
  f->input_names = input_names;
  f->outputs = outputs;
  f->output_names = output_names;
  f->extents = extents;
}

static void fuse_function(tn__driver *driver, tn__program_function *f) {
  double start = tn__now();
  tn__groups *groups = TN__NEW(driver->arena, tn__groups);
  const tn__optimize_options options = optimize_options(driver);
  *groups = tn__pass_fuse(f->graph, &options);
  tn__driver_time(driver, "graph.fuse", tn__now() - start);
  start = tn__now();
  tn__driver_precompute_constants(driver, f->graph, groups);
  tn__driver_time(driver, "constants", tn__now() - start);
  f->groups = groups;
}

/* `caller`: the node whose body number `body` it is; NULL: none. */
static void add_function(tn__compilation *c, const char *name, tn__graph *graph, const tn__node *caller, int body) {
  tn__program_function f = {.name = name, .graph = graph, .caller = caller, .body = body};
  bool is_round = caller != NULL && tn__op_has(caller, TN__FACT_LOOPS) && body == 1;
  fuse_function(&c->driver, &f);
  describe_signature(&c->driver, &f, is_round ? caller : NULL);
  tn__vec_push(c->driver.arena, &c->functions, f);
}

/* "main.while7.1": the body number 1 of node 7. */
static void add_bodies(tn__compilation *c, int function) {
  for (int i = 0; i < tn__graph_node_count(c->functions.data[function].graph); i++) {
    const tn__node *n = tn__graph_node_at(c->functions.data[function].graph, i);
    bool is_while = tn__op_has(n, TN__FACT_LOOPS), calls = n->op->lowering == TN__LOWER_CONTROL;
    for (int j = 0; calls && j < n->graph_count; j++) {
      if (is_while && j == 0 && tn__prog_while_tests_scalars(n)) continue;
      const char *name =
          tn__arena_printf(c->driver.arena, "%s.%s%u.%d", c->functions.data[function].name, n->op->name, n->id, j);
      add_function(c, name, n->graphs[j], n, j);
    }
  }
}

/* Which groups of a function have kernels, appended to `with_kernels`; these get the next unit numbers. */
static void number_units(tn__compilation *c, tn__program_function *f, const tn__group **with_kernels) {
  int count = f->groups->count;
  bool *runs = TN__NEW_ARRAY(c->driver.arena, count, bool);
  int *unit_of = TN__NEW_ARRAY(c->driver.arena, count, int);
  for (int i = 0; i < count; i++) {
    const tn__group *g = &f->groups->groups[i];
    runs[i] = !g->constant;
    unit_of[i] = -1;
    if (!runs[i] || g->view || g->nodes[0]->op->lowering != TN__LOWER_DECLARE) continue;
    if (tn__op_has(g->nodes[0], TN__FACT_COPIES)) continue; /* the machine's COPY */
    unit_of[i] = c->unit_count;
    with_kernels[c->unit_count++] = g;
  }
  f->runs = runs;
  f->unit_of = unit_of;
}

static void add_entries(tn__compilation *c) {
  tn__driver *driver = &c->driver;
  static const tn__groups none;
  bool *used = TN__NEW_ARRAY(driver->arena, driver->options->alias_count, bool);
  for (int i = 0; i < c->entries.count; i++) {
    const tn__entry *e = &c->entries.data[i];
    tn__vec_push(driver->arena, &driver->entries, e->graph);
    const int *aliases = tn__compilation_aliases(c, e->graph, used);
    if (e->dispatch) {
      tn__program_function f = {.name = e->name, .graph = e->graph, .groups = &none, .dispatch = e->dispatch};
      describe_signature(driver, &f, NULL);
      tn__vec_push(driver->arena, &c->functions, f);
    } else {
      add_function(c, e->name, e->graph, NULL, 0);
    }
    c->functions.data[i].aliases = aliases;
    c->functions.data[i].strided = e->strided;
    c->functions.data[i].may_be_strided = e->may_be_strided;
  }
  for (int i = 0; i < driver->options->alias_count; i++)
    if (!used[i])
      tn__throwf(driver->arena->escape, TN_INVALID_ARGUMENT, "no output \"%s\" with an input \"%s\" to alias",
                 driver->options->aliases[i].output, driver->options->aliases[i].input);
}

static void choose_groups(tn__compilation *c) {
  tn__driver *driver = &c->driver;
  add_entries(c);
  int groups = 0;
  for (int i = 0; i < c->functions.count; i++) {
    if (!c->functions.data[i].dispatch) add_bodies(c, i);
    groups += c->functions.data[i].groups->count;
  }
  double start = tn__now();
  const tn__group **with_kernels = TN__NEW_ARRAY(driver->arena, groups, const tn__group *);
  for (int i = 0; i < c->functions.count; i++) {
    number_units(c, &c->functions.data[i], with_kernels);
    if (i == 0) c->main_unit_count = c->unit_count;
  }
  c->units = tn__units_declare(driver, with_kernels, c->unit_count);
  tn__driver_time(driver, "kernel.declare", tn__now() - start);
}

void tn__compilation_open(tn__compilation *c, const char *path, const void *data, size_t size) {
  const tn_compile_options *o = c->driver.options;
  if (!c->model) c->model = open_model(c, path, data, size);
  bool *used = TN__NEW_ARRAY(c->driver.arena, o->dim_count + o->special_dim_count, bool);
  tn__compilation_add(c, "main", c->model, used);
  tn__compilation_check_dims(c, used);
}

void tn__compilation_front(tn__compilation *c, const char *path, const void *data, size_t size) {
  tn__compilation_open(c, path, data, size);
  tn__compilation_prepare(c);
}

/* Before any pass, by the names and the shape that the model has; behind them, for what passes have made; and when
 * kernels have chosen memories. */
typedef enum placing { PLACED_FIRST, PLACED_AGAIN, PLACED_CHOSEN } placing;
static void place(tn__compilation *c, placing when) {
  tn__graph **graphs = TN__NEW_ARRAY(c->driver.arena, c->entries.count, tn__graph *);
  const char **names = TN__NEW_ARRAY(c->driver.arena, c->entries.count, const char *);
  int count = 0;
  for (int i = 0; i < c->entries.count; i++) {
    if (c->entries.data[i].dispatch) continue;
    names[count] = c->entries.data[i].name;
    graphs[count++] = c->entries.data[i].graph;
  }
  if (when == PLACED_FIRST) tn__driver_place(&c->driver, &c->named, names, graphs, count);
  if (when == PLACED_AGAIN) tn__driver_place_again(&c->driver, graphs, count);
  if (when == PLACED_CHOSEN) tn__driver_place_chosen(&c->driver, graphs, count);
}

void tn__compilation_optimize(tn__compilation *c) {
  if (c->entries.count == 0) {
    tn__entry only = {.name = "main", .graph = c->graph, .strided = -1};
    tn__vec_push(c->driver.arena, &c->entries, only);
  }
  place(c, PLACED_FIRST);
  tn__driver_progress(&c->driver, "optimize", 0, 1);
  for (int i = 0; i < c->entries.count; i++)
    if (!c->entries.data[i].dispatch) optimize(c, c->entries.data[i].graph);
  place(c, PLACED_AGAIN);
}

void tn__compilation_prepare(tn__compilation *c) {
  tn__compilation_optimize(c);
  tn__driver_progress(&c->driver, "constants", 0, 1);
  choose_groups(c);
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

void tn__compilation_back(tn__compilation *c) {
  tn__driver *driver = &c->driver;
  tn__units_build(driver, c->units, c->unit_count);
  if (tn__driver_take_memories(driver, c->units, c->unit_count)) place(c, PLACED_CHOSEN);
  double start = tn__now();
  c->program = (tn__program){.functions = c->functions.data,
                             .function_count = c->functions.count,
                             .units = c->units,
                             .unit_count = c->unit_count};
  const char *names[TN__TEXT_KINDS], *texts[TN__TEXT_KINDS];
  int text_count = tn__driver_texts_gather(c, names, texts);
  c->executable = tn__program_build(driver, &c->program, names, texts, text_count, &c->stats);
  tn__driver_time(driver, "program", tn__now() - start);
}
