/* tn_check: compares the outputs with those of the imported graph (whole.c), then each kernel's results with the
 * loop interpreter's, on the kernel's actual operands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/copy.h"
#include "base/filled.h"
#include "base/options.h"
#include "inspect/whole.h"

typedef struct check_call {
  tn__whole model;
  tn_compile_options options;
  tn_check_result *result;
} check_call;

typedef struct checker {
  tn__arena *arena;
  tn__compilation *c;
  check_call *call;
  tn_executable *exe;
  tn_session *session;
  const void **data; /* value id -> elements, NULL: not known */
  int64_t **shapes;  /* value id -> dimensions of results */
  int *view_of;      /* value id -> id of the value whose memory it shares, or -1 */
  int64_t *symbols;  /* by symbol index */
} checker;

static tn__program_function *main_function(const checker *k) { return &k->c->functions.data[0]; }

static bool has_kernel(const tn__program_function *f, int group) { return f->runs[group] && f->unit_of[group] >= 0; }

/* A program whose outputs are the results of all kernels and control operators of the graph itself. Those of the bodies
 * run any number of times and are not seen. */
static void expose_everything(checker *k) {
  tn__program_function *f = main_function(k);
  int count = 0;
  for (int i = 0; i < f->groups->count; i++) count += f->groups->groups[i].output_count;
  tn__value **values = TN__NEW_ARRAY(k->arena, count, tn__value *);
  const char **names = TN__NEW_ARRAY(k->arena, count, const char *);
  count = 0;
  for (int i = 0; i < f->groups->count; i++) {
    const tn__group *g = &f->groups->groups[i];
    for (int o = 0; f->runs[i] && !g->view && o < g->output_count; o++) {
      if (g->outputs[o]->holds != TN__HOLDS_TENSOR) continue;
      values[count] = g->outputs[o];
      names[count] = values[count]->name;
      count++;
    }
    for (int n = 0; f->runs[i] && !has_kernel(f, i) && n < g->node_count; n++)
      for (int body = 0; body < g->nodes[n]->graph_count; body++) k->call->result->bodies_skipped++;
  }
  f->outputs = values;
  f->output_names = names;
  f->output_count = count;
  f->aliases = NULL; /* of the outputs that there were */
  f->extents = NULL;
  k->c->program = (tn__program){.functions = k->c->functions.data,
                                .function_count = k->c->functions.count,
                                .units = k->c->units,
                                .unit_count = k->c->unit_count};
}

static void release_session(void *user) {
  checker *k = user;
  tn_session_release(k->session);
  tn_executable_release(k->exe);
}

static const DLTensor *given(const checker *k, int input) {
  const DLTensor *tensor = &k->call->model.inputs[input];
  const DLTensor *fallback = tn_executable_input(k->exe, NULL, input)->fallback;
  return fallback != NULL && tn__whole_leaves_out(tensor) ? fallback : tensor;
}

/* Kernels read tensors alone: what nodes take out of sequences and optional values are results that can be seen. */
static void bind_inputs(checker *k) {
  tn__value *const *values = main_function(k)->inputs;
  tn__whole_bind(k->arena->escape, k->session, &k->call->model, values);
  for (int i = 0; i < k->call->model.input_count; i++) {
    const DLTensor *tensor = given(k, i);
    if (values[i]->holds == TN__HOLDS_TENSOR) k->data[values[i]->id] = (const char *)tensor->data + tensor->byte_offset;
  }
}

static void run_everything(checker *k) {
  tn__compilation *c = k->c;
  tn__escape *escape = k->arena->escape;
  expose_everything(k);
  tn__pieces pieces = tn__program_build(&c->driver, &c->program, NULL, NULL, 0, NULL);
  tn__bytes bytes = tn__exe_join(k->arena, &pieces);
  tn__arena_defer(k->arena, release_session, k);
  tn_load_options load = {.size = sizeof load, .allocator = k->arena->allocator, .borrow_data = true};
  tn__check(escape, tn_executable_load_memory(bytes.data, bytes.size, &load, &k->exe));
  tn_session_options session = {
      .size = sizeof session, .allocator = load.allocator, .threads = k->call->options.run_threads};
  tn__check(escape, tn_session_create(k->exe, &session, &k->session));
  if (k->call->model.input_count != main_function(k)->input_count)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%d inputs given, the model has %d", k->call->model.input_count,
               main_function(k)->input_count);
  bind_inputs(k);
  tn__check(escape, tn_session_invoke(k->session, NULL));
  for (int i = 0; i < main_function(k)->output_count; i++) {
    DLTensor out;
    tn__check(escape, tn_session_get_output(k->session, NULL, i, &out));
    const tn__value *v = main_function(k)->outputs[i];
    k->data[v->id] = (const char *)out.data + out.byte_offset;
    k->shapes[v->id] = tn__arena_copy(k->arena, out.shape, (size_t)v->rank * sizeof(int64_t));
  }
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static int64_t symbol_value(checker *k, const tn__var *var);

static const tn__expr *known_symbol(tn__ir *ir, const tn__expr *e, void *user) {
  return e->kind == TN__EXPR_VAR ? tn__ir_index(ir, symbol_value(user, e->value.var)) : NULL;
}

static int64_t dim_value(checker *k, const tn__expr *e) {
  int64_t v;
  if (tn__ir_as_int(e, &v)) return v;
  if (!tn__ir_as_int(tn__expr_rewrite(tn__graph_ir(k->c->graph), e, known_symbol, k), &v))
    tn__throwf(k->arena->escape, TN_INTERNAL, "a dimension could not be computed");
  return v;
}

static int64_t count_of(checker *k, const tn__value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= dim_value(k, v->dims[i]);
  return n;
}

static const void *data_of(checker *k, const tn__value *v) {
  int id = (int)v->id;
  while (!k->data[id] && k->view_of[id] >= 0) id = k->view_of[id];
  if (k->data[id]) return k->data[id];
  if (!v->data) tn__throwf(k->arena->escape, TN_INTERNAL, "value \"%s\" was not computed", v->name);
  size_t element = tn__dtype_stored(v->dtype);
  int64_t count = count_of(k, v);
  if (!v->splat) {
    bool aligned = (uintptr_t)v->data % element == 0; /* weights in a mapped file lie anywhere */
    return k->data[id] = aligned ? v->data : tn__arena_copy(k->arena, v->data, (size_t)count * element);
  }
  char *all = tn__arena_alloc_array(k->arena, (size_t)count, element);
  for (int64_t i = 0; i < count; i++) tn__copy(all + (size_t)i * element, v->data, element);
  return k->data[id] = all;
}

static int64_t symbol_value(checker *k, const tn__var *var) {
  const tn__graph *g = k->c->graph;
  for (int i = 0; i < tn__graph_symbol_count(g); i++) {
    const tn__symbol *s = tn__graph_symbol_at(g, i);
    if (s->var != var) continue;
    if (s->source == TN__SYMBOL_ELEMENT) return tn__load_i64(s->value->dtype, data_of(k, s->value), s->index);
    if (k->shapes[s->value->id]) return k->shapes[s->value->id][s->index];
    for (int j = 0; j < k->call->model.input_count; j++)
      if (main_function(k)->inputs[j] == s->value) return given(k, j)->shape[s->index];
  }
  tn__throwf(k->arena->escape, TN_INTERNAL, "symbol \"%s\" has no source", var->name);
}

static void map_views(checker *k, int value_count) {
  for (int i = 0; i < value_count; i++) k->view_of[i] = -1;
  const tn__groups *groups = main_function(k)->groups;
  for (int i = 0; i < groups->count; i++) {
    const tn__group *g = &groups->groups[i];
    if (g->view) k->view_of[g->nodes[0]->outputs[0]->id] = (int)g->nodes[0]->inputs[0]->id;
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool compare_value(checker *k, const tn__unit *u, const tn__value *v, const void *want) {
  tn_check_result *r = k->call->result;
  const void *got = data_of(k, v);
  if (tn__whole_compare(&k->call->model, v->dtype, got, want, count_of(k, v), r)) return true;
  const tn__node *node = u->group->nodes[u->group->node_count - 1];
  snprintf(r->node, sizeof r->node, "%s", node->origin ? node->origin : u->name);
  snprintf(r->value, sizeof r->value, "%s", v->name);
  return r->agrees = false;
}

/* Kernels move strings as references, which mean something to the session only. */
static bool moves_strings(const tn__unit *u) {
  for (int i = 0; i < u->input_count; i++)
    if (u->inputs[i]->dtype == TN_STRING) return true;
  return false;
}

static bool check_unit(checker *k, tn__unit *u, const tn__unit *declared) {
  tn__arena *arena = k->arena;
  if (moves_strings(u)) return true;
  void **buffers = TN__NEW_ARRAY(arena, u->input_count + u->output_count, void *);
  for (int i = 0; i < u->input_count; i++)
    buffers[i] = (void *)(uintptr_t)data_of(k, u->inputs[i]); /* the interpreter does not write to inputs */
  for (int i = 0; i < u->output_count; i++)
    buffers[u->input_count + i] =
        tn__arena_alloc_array(arena, (size_t)count_of(k, u->outputs[i]), tn__dtype_stored(u->outputs[i]->dtype));
  int64_t *scalars = TN__NEW_ARRAY(arena, u->scalar_count, int64_t);
  for (int i = 0; i < u->scalar_count; i++) scalars[i] = symbol_value(k, u->scalars[i]);
  tn__interpret_options options = {.wide = true};
  tn__check(arena->escape,
            tn__ir_interpret(tn__te_ir(declared->te), tn__te_lower(declared->te), buffers, scalars, &options));
  for (int i = 0; i < u->output_count; i++)
    if (!compare_value(k, u, u->outputs[i], buffers[u->input_count + i])) return false;
  k->call->result->nodes_checked++;
  return true;
}

static void check_body(tn__arena *arena, void *user) {
  check_call *call = user;
  checker *k = TN__NEW(arena, checker);
  k->arena = arena;
  k->call = call;
  k->c = TN__NEW(arena, tn__compilation);
  call->options.no_cache = true;
  /* No operand may be written over before it is looked at, and all of a value counts. */
  call->options.alias_count = call->options.capacity_count = 0; /* kernels are checked, not who owns what */
  call->options.strided_count = 0;
  if (!tn__whole_check(arena, &call->model, call->result)) return;
  tn__driver_init(&k->c->driver, arena, &call->options);
  tn__compilation_front(k->c, call->model.path, call->model.data, call->model.size);
  tn__compilation_back(k->c);
  int value_count = 0;
  tn__graph_use_counts(k->c->graph, &value_count);
  k->data = TN__NEW_ARRAY(arena, value_count, const void *);
  k->shapes = TN__NEW_ARRAY(arena, value_count, int64_t *);
  k->view_of = TN__NEW_ARRAY(arena, value_count, int);
  map_views(k, value_count);
  run_everything(k);
  /* The units' declarations went when their code had been made: declare again. */
  int count = k->c->main_unit_count;
  const tn__group **groups = TN__NEW_ARRAY(arena, count, const tn__group *);
  for (int i = 0; i < count; i++) groups[i] = k->c->units[i].group;
  tn__unit *declared = tn__units_declare(&k->c->driver, groups, count);
  for (int i = 0; i < count; i++)
    if (!check_unit(k, &k->c->units[i], &declared[declared[i].same_as])) return;
}

tn_status *tn_check(const char *path, const void *data, size_t size, const tn_compile_options *options,
                    const DLTensor *inputs, int input_count, const tn_check_options *check, tn_check_result *out) {
  TN__NEED("path", path);
  TN__NEED("out", out);
  TN__NEED_LIST("inputs", inputs, "input_count", input_count);
  tn_check_result result = {.agrees = true};
  TN_RETURN_IF_ERROR(tn__filled_check("tn_check_result", out, sizeof result));
  tn__filled_write(out, &result, sizeof result);
  tn_check_options how;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_check_options, check, &how));
  if (!(how.rtol >= 0) || !(how.atol >= 0))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "check: cannot compare with rtol %g and atol %g: tolerances are numbers from 0 on",
                            how.rtol, how.atol);
  check_call call = {.result = &result};
  call.model = (tn__whole){.path = path,
                           .data = data,
                           .size = size,
                           .options = &call.options,
                           .inputs = inputs,
                           .input_count = input_count,
                           .lists = how.lists,
                           .rtol = how.rtol > 0 ? how.rtol : -1,
                           .atol = how.atol > 0 ? how.atol : -1};
  TN_RETURN_IF_ERROR(tn__driver_read_options(options, &call.options));
  TN_RETURN_IF_ERROR(tn__with_arena(call.options.allocator, check_body, &call));
  tn__filled_write(out, &result, sizeof result);
  return NULL;
}
