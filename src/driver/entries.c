/* The functions that the caller of an executable sees: one for each model, and for a model with special sizes of its
 * dimensions, one that chooses among those compiled for them. */
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "driver/driver.h"
#include "graph/grow/grow.h"
#include "graph/passes/passes.h"

enum { MOST_COMBINATIONS = 64 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Does `name` match the pattern, and what does its '*' stand for? */
TN_MUST_USE static bool matches(const char *pattern, const char *name, const char **star, size_t *length) {
  const char *at = strchr(pattern, '*');
  *star = "", *length = 0;
  if (!at) return strcmp(pattern, name) == 0;
  size_t before = (size_t)(at - pattern), after = strlen(at + 1), all = strlen(name);
  if (all < before + after || strncmp(pattern, name, before) != 0 || strcmp(name + all - after, at + 1) != 0)
    return false;
  *star = name + before, *length = all - before - after;
  return true;
}

static int find_input(const tn__graph *graph, const char *pattern, const char *star, size_t length) {
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const char *mine;
    size_t mine_length;
    if (matches(pattern, tn__graph_input_at(graph, i)->name, &mine, &mine_length) && mine_length == length &&
        strncmp(mine, star, length) == 0)
      return i;
  }
  return -1;
}

/* The input that the output aliases by the options, or -1; the alias's number goes to `alias`. */
TN_MUST_USE static int aliased_input(const tn_compile_options *o, const tn__graph *graph, int output, int *alias) {
  int input = -1;
  for (int a = 0; a < o->alias_count && input < 0; a++) {
    const char *star;
    size_t length;
    if (!matches(o->aliases[a].output, tn__graph_output_name(graph, output), &star, &length)) continue;
    input = find_input(graph, o->aliases[a].input, star, length);
    *alias = a;
  }
  return input;
}

/* ---- special sizes ---------------------------------------------------------------------------------------------- */

static void add_entry(tn__compilation *c, const char *name, tn__graph *graph, const tn__dispatch *dispatch) {
  tn__entry e = {.name = name, .graph = graph, .dispatch = dispatch, .strided = -1};
  tn__vec_push(c->driver.arena, &c->entries, e);
  if (!c->graph) c->graph = graph;
}

static bool has_symbol(const tn__graph *graph, const char *name) {
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *v = tn__graph_input_at(graph, i);
    for (int d = 0; d < v->rank; d++)
      if (v->dims[d]->kind == TN__EXPR_VAR && strcmp(v->dims[d]->value.var->name, name) == 0) return true;
  }
  return false;
}

/* Distinct names of the special dimensions that the model has, in the order given. */
TN_MUST_USE static int special_names(tn__compilation *c, const tn__graph *graph, const char **names, bool *used) {
  const tn_compile_options *o = c->driver.options;
  int count = 0;
  for (int i = 0; i < o->special_dim_count; i++) {
    const char *name = o->special_dims[i].name;
    if (!has_symbol(graph, name)) continue;
    used[o->dim_count + i] = true;
    bool known = false;
    for (int j = 0; j < count; j++) known = known || strcmp(names[j], name) == 0;
    if (!known) names[count++] = name;
  }
  return count;
}

/* The sizes of the `number`-th combination: the last name's change fastest. False when there is no such. */
TN_MUST_USE static bool combination(const tn_compile_options *o, const char *const *names, int count, int number,
                                    tn__dim_binding *out) {
  for (int n = count - 1; n >= 0; n--) {
    int sizes = 0;
    for (int i = 0; i < o->special_dim_count; i++) sizes += strcmp(o->special_dims[i].name, names[n]) == 0;
    if (sizes == 0) return false; /* the names come from there */
    int wanted = number % sizes;
    number /= sizes;
    for (int i = 0; i < o->special_dim_count; i++) {
      if (strcmp(o->special_dims[i].name, names[n]) != 0 || wanted-- != 0) continue;
      out[n] = (tn__dim_binding){names[n], o->special_dims[i].size};
    }
  }
  return number == 0;
}

/* "main@batch=1,seq=128" */
static const char *special_name(tn__arena *arena, const char *name, const tn__dim_binding *dims, int count) {
  for (int i = 0; i < count; i++)
    name = tn__arena_printf(arena, "%s%c%s=%lld", name, i ? ',' : '@', dims[i].name, (long long)dims[i].size);
  return name;
}

static tn__graph *import_model(tn__compilation *c, tn__model *model, const tn__dim_binding *special, int special_count,
                               bool *used) {
  tn__driver *driver = &c->driver;
  const tn_compile_options *o = driver->options;
  tn__driver_progress(driver, "import", 0, 1);
  driver->model = model;
  double start = tn__now();
  tn__dim_binding *dims = TN__NEW_ARRAY(driver->arena, o->dim_count + special_count, tn__dim_binding);
  for (int i = 0; i < o->dim_count; i++) dims[i] = (tn__dim_binding){o->dims[i].name, o->dims[i].size};
  for (int i = 0; i < special_count; i++) dims[o->dim_count + i] = special[i];
  tn__onnx_options import = {.dims = dims, .dim_count = o->dim_count + special_count, .dims_used = used};
  import.fold_defaults = o->fold_defaults;
  if (o->log) import.log = *o->log;
  if (o->annotation_count > 0 || o->place_count > 0) import.named = &c->named;
  tn__graph *graph = tn__model_import(model, tn__ir_create(driver->arena), &import);
  tn__driver_time(driver, "import", tn__now() - start);
  tn__compilation_grow(c, graph);
  return graph;
}

static void add_function(tn__compilation *c, const char *name, tn__graph *graph, tn__model *model, bool *used) {
  tn__arena *arena = c->driver.arena;
  const tn_compile_options *o = c->driver.options;
  const char **names = TN__NEW_ARRAY(arena, o->special_dim_count, const char *);
  int count = special_names(c, graph, names, used);
  if (count == 0) {
    add_entry(c, name, graph, NULL);
    return;
  }
  tn__dispatch *dispatch = TN__NEW(arena, tn__dispatch);
  tn__dispatch_case *cases = TN__NEW_ARRAY(arena, MOST_COMBINATIONS, tn__dispatch_case);
  *dispatch = (tn__dispatch){.cases = cases, .otherwise = tn__arena_printf(arena, "%s@any", name)};
  add_entry(c, name, graph, dispatch);
  add_entry(c, dispatch->otherwise, graph, NULL);
  tn__dim_binding *dims = TN__NEW_ARRAY(arena, count, tn__dim_binding);
  bool *ignored = TN__NEW_ARRAY(arena, o->dim_count + count, bool);
  for (int number = 0; combination(o, names, count, number, dims); number++) {
    if (number == MOST_COMBINATIONS)
      tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "more than %d combinations of sizes to compile for",
                 MOST_COMBINATIONS);
    const char *special = special_name(arena, name, dims, count);
    add_entry(c, special, import_model(c, model, dims, count, ignored), NULL);
    cases[dispatch->case_count++] =
        (tn__dispatch_case){special, tn__arena_copy(arena, dims, sizeof *dims * (size_t)count), count};
  }
}

/* ---- inputs of any strides -------------------------------------------------------------------------------------- */

static bool wants_strided(tn__compilation *c, const char *name) {
  const tn_compile_options *o = c->driver.options;
  bool wants = false;
  for (int i = 0; i < o->strided_count; i++) {
    const char *star;
    size_t length;
    if (!matches(o->strided[i], name, &star, &length)) continue;
    wants = c->strided_used[i] = true;
  }
  return wants;
}

static void check_strided(tn__compilation *c, const tn__graph *graph, int input) {
  const tn__value *v = tn__graph_input_at(graph, input);
  tn__escape *escape = c->driver.arena->escape;
  if (v->holds != TN__HOLDS_TENSOR)
    tn__throwf(escape, TN_INVALID_ARGUMENT,
               "input \"%s\" cannot have any strides: it is a sequence or optional, whose tensors are copied", v->name);
  if (v->dtype == TN_STRING)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "input \"%s\" cannot have any strides: strings are copied", v->name);
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    int alias;
    if (aliased_input(c->driver.options, graph, i, &alias) == input)
      tn__throwf(escape, TN_INVALID_ARGUMENT,
                 "input \"%s\" cannot have any strides: output \"%s\" is written in its memory, which must be dense",
                 v->name, tn__graph_output_name(graph, i));
  }
}

/* The same function once more, whose graph reads some of its inputs by strides. */
static void add_strided(tn__compilation *c, int entry, tn__model *model) {
  const tn_compile_options *o = c->driver.options;
  tn__arena *arena = c->driver.arena;
  tn__graph *graph = c->entries.data[entry].graph;
  int count = tn__graph_input_count(graph), strided = 0;
  bool *may = TN__NEW_ARRAY(arena, count, bool);
  if (!c->strided_used) c->strided_used = TN__NEW_ARRAY(arena, o->strided_count, bool);
  for (int i = 0; i < count; i++) {
    may[i] = wants_strided(c, tn__graph_input_at(graph, i)->name);
    if (may[i]) check_strided(c, graph, i);
    strided += may[i];
  }
  if (strided == 0) return;
  bool *ignored = TN__NEW_ARRAY(arena, o->dim_count, bool);
  graph = import_model(c, model, NULL, 0, ignored);
  for (int i = 0; i < count; i++)
    if (may[i] && !tn__graph_read_strided(graph, tn__graph_input_at(graph, i)))
      tn__throwf(arena->escape, TN_INVALID_ARGUMENT,
                 "input \"%s\" cannot have any strides: its elements are sizes, which are read before kernels run",
                 tn__graph_input_at(graph, i)->name);
  c->entries.data[entry].strided = c->entries.count;
  c->entries.data[entry].may_be_strided = may;
  add_entry(c, tn__arena_printf(arena, "%s@strided", c->entries.data[entry].name), graph, NULL);
}

/* Warns about weights with defaults: they are neither folded nor packed, which is rarely intended. */
static void tell_defaults(const tn__compilation *c, const tn__graph *graph) {
  enum { MOST_UNTOLD = 1024 };
  int64_t elements = 0;
  int count = 0;
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *fallback = tn__graph_input_at(graph, i)->fallback;
    if (fallback == NULL) continue;
    int64_t product = 1, size;
    for (int d = 0; d < fallback->rank; d++) product *= tn__ir_as_int(fallback->dims[d], &size) ? size : 0;
    elements += product;
    count++;
  }
  if (elements <= MOST_UNTOLD) return;
  tn__log(c->driver.options->log, TN_LOG_WARNING,
          "%d input%s with %lld elements in %s: callers may replace them, so they are not optimized as constants; "
          "--fold-defaults (tn_compile_options.fold_defaults) makes them constants",
          count, count == 1 ? " has a default" : "s have defaults", (long long)elements, count == 1 ? "it" : "them");
}

void tn__compilation_add(tn__compilation *c, const char *name, tn__model *model, bool *used) {
  tn__graph *graph = import_model(c, model, NULL, 0, used);
  tell_defaults(c, graph);
  int entry = c->entries.count;
  add_function(c, name, graph, model, used);
  add_strided(c, entry, model);
}

static void consider_dims(const tn__graph *graph, tn__nearest *n) {
  for (int i = 0; i < tn__graph_input_count(graph); i++) {
    const tn__value *v = tn__graph_input_at(graph, i);
    for (int d = 0; d < v->rank; d++) {
      if (v->dims[d]->kind != TN__EXPR_VAR) continue;
      const char *name = v->dims[d]->value.var->name;
      tn__nearest_consider(n, name, strlen(name));
    }
  }
}

static _Noreturn void no_dim(tn__compilation *c, const char *name) {
  tn__nearest n = {.name = name, .length = strlen(name)};
  char advice[TN__ADVICE];
  for (int i = 0; i < c->entries.count; i++) consider_dims(c->entries.data[i].graph, &n);
  tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT, "no dimension of an input is named \"%s\"%s", name,
             tn__nearest_advice(&n, advice));
}

void tn__compilation_check_dims(tn__compilation *c, const bool *used) {
  const tn_compile_options *o = c->driver.options;
  for (int i = 0; i < o->dim_count + o->special_dim_count; i++)
    if (!used[i]) no_dim(c, i < o->dim_count ? o->dims[i].name : o->special_dims[i - o->dim_count].name);
  for (int i = 0; i < o->capacity_count; i++)
    if (!c->capacities_used[i])
      tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT,
                 "no output aliases an input and grows along its dimension \"%s\": a capacity is for results that are "
                 "an input with new elements behind it (Concat)",
                 o->capacities[i].name);
  for (int i = 0; i < o->strided_count; i++)
    if (!c->strided_used[i])
      tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT, "no input \"%s\" that could have any strides",
                 o->strided[i]);
}

/* ---- aliases ---------------------------------------------------------------------------------------------------- */

void tn__compilation_grow(tn__compilation *c, tn__graph *graph) {
  const tn_compile_options *o = c->driver.options;
  if (!c->capacities_used) c->capacities_used = TN__NEW_ARRAY(c->driver.arena, o->capacity_count, bool);
  for (int i = 0; o->capacity_count > 0 && i < tn__graph_output_count(graph); i++) {
    int alias, number = aliased_input(o, graph, i, &alias);
    tn__value *input = number < 0 ? NULL : tn__graph_input_at(graph, number);
    if (number >= 0 && tn__graph_growing_axis(graph, i, input) < 0) tn__graph_join_stack(graph, i, input);
    int axis = number < 0 ? -1 : tn__graph_growing_axis(graph, i, input);
    if (axis < 0) continue;
    const char *name = input->dims[axis]->value.var->name;
    for (int k = 0; k < o->capacity_count; k++) {
      if (strcmp(o->capacities[k].name, name) != 0) continue;
      if (o->capacities[k].size < 1)
        tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT, "the capacity of dimension \"%s\" is %lld", name,
                   (long long)o->capacities[k].size);
      c->capacities_used[k] = tn__graph_grow(graph, i, input, o->capacities[k].size);
      break;
    }
  }
}

static void check_types(tn__compilation *c, tn__graph *graph, int output, int input) {
  tn__value *o = tn__graph_output_at(graph, output), *i = tn__graph_input_at(graph, input);
  bool tensors = o->holds == TN__HOLDS_TENSOR && i->holds == TN__HOLDS_TENSOR;
  bool same = tensors && o->dtype == i->dtype && o->rank == i->rank;
  for (int d = 0; same && d < o->rank; d++) same = o->dims[d] == i->dims[d];
  if (same) return;
  if (tensors) tn__graph_join_stack(graph, output, i); /* for the message */
  int axis = tensors ? tn__graph_growing_axis(graph, output, i) : -1;
  if (axis >= 0)
    tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT,
               "output \"%s\" cannot alias input \"%s\": it is longer along dimension \"%s\", which needs a capacity "
               "(--capacity %s=N)",
               tn__graph_output_name(graph, output), i->name, i->dims[axis]->value.var->name,
               i->dims[axis]->value.var->name);
  tn__throwf(c->driver.arena->escape, TN_INVALID_ARGUMENT,
             "output \"%s\" cannot alias input \"%s\": their types or shapes differ",
             tn__graph_output_name(graph, output), i->name);
}

static tn__node *view_of(const tn__value *value) {
  return value->producer && tn__node_is_view(value->producer) ? value->producer : NULL;
}

/* How many read the contents of a value: a symbol for one of its dimensions does not. */
static int reads_of(const tn__graph *graph, const int *uses, const tn__value *value) {
  int count = uses[value->id];
  for (int i = 0; i < tn__graph_symbol_count(graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(graph, i);
    count -= symbol->value == value && symbol->source == TN__SYMBOL_INPUT_DIM;
  }
  return count;
}

/* A scatter whose operand nobody else reads may find it in its result's memory, put there before. Both may be seen
 * through views, which change no memory. */
static void scatter_in_place(tn__compilation *c, tn__graph *graph, const tn__value *output, const tn__value *input) {
  while (view_of(output)) output = view_of(output)->inputs[0];
  tn__node *node = output->producer;
  if (!node || !tn__op_has(node, TN__FACT_UPDATES)) return;
  int value_count;
  const int *uses = tn__graph_use_counts(graph, &value_count);
  const tn__value *operand = node->inputs[0];
  while (uses[operand->id] == 1 && view_of(operand)) operand = view_of(operand)->inputs[0];
  if (operand != input || reads_of(graph, uses, operand) != 1 || tn__node_attr(node, "in_place")) return;
  tn__attr *attrs = TN__NEW_ARRAY(c->driver.arena, node->attr_count + 1, tn__attr);
  for (int i = 0; i < node->attr_count; i++) attrs[i] = node->attrs[i];
  attrs[node->attr_count++] = tn__attr_int(graph, "in_place", 1);
  node->attrs = attrs;
}

/* A selection by a mask of positions becomes a write of those, and what made the mask goes. */
static void write_by_mask(tn__graph *graph, int output, tn__value *input) {
  if (!tn__graph_write_by_mask(graph, output, input)) return;
  tn__pass_dce(graph, NULL);
}

const int *tn__compilation_aliases(tn__compilation *c, tn__graph *graph, bool *used) {
  const tn_compile_options *o = c->driver.options;
  if (o->alias_count == 0) return NULL;
  int count = tn__graph_output_count(graph);
  int *aliases = TN__NEW_ARRAY(c->driver.arena, count, int);
  for (int i = 0; i < count; i++) {
    int alias;
    aliases[i] = aliased_input(o, graph, i, &alias);
    if (aliases[i] < 0) continue;
    used[alias] = true;
    check_types(c, graph, i, aliases[i]);
    write_by_mask(graph, i, tn__graph_input_at(graph, aliases[i]));
    scatter_in_place(c, graph, tn__graph_output_at(graph, i), tn__graph_input_at(graph, aliases[i]));
  }
  return aliases;
}
