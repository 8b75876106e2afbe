/* What the tests of the graph share: a graph for each test, and a small executor that declares one node at a time, runs
 * it with the loop IR's interpreter, and reads the symbols from what was computed, as the VM does. */
#ifndef TENON_TESTS_UNIT_GRAPH_CHECK_H
#define TENON_TESTS_UNIT_GRAPH_CHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "graph/build/build.h"
#include "unit/check.h"

typedef struct graph_fixture {
  tn__arena arena;
  tn__escape escape;
  tn__ir *ir;
  tn__graph *graph;
} graph_fixture;

typedef struct tensor {
  const void *data;
  int64_t shape[TN__MAX_RANK];
} tensor;

static inline int graph_set_up(void **state) {
  graph_fixture *f = calloc(1, sizeof(*f));
  tn__arena_init(&f->arena, NULL, &f->escape);
  f->ir = tn__ir_create(&f->arena);
  f->graph = tn__graph_create(f->ir, "test");
  *state = f;
  return 0;
}

static inline int graph_tear_down(void **state) {
  graph_fixture *f = *state;
  tn__arena_release(&f->arena);
  free(f);
  return 0;
}

static inline tn__graph *graph_of(void **state) { return ((graph_fixture *)*state)->graph; }

/* Dimensions below 0 are symbols: -1 is "n1", -2 "n2" ... */
static inline tn__value *input_of(tn__graph *g, const char *name, tn_dtype dtype, int rank, const int64_t *shape) {
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = shape[i] < 0 ? NULL : tn__ir_index(tn__graph_ir(g), shape[i]);
  tn__value *value = tn__graph_input(g, name, dtype, rank, dims);
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0) tn__graph_input_symbol(g, tn__arena_printf(tn__graph_arena(g), "n%d", (int)-shape[i]), value, i);
  return value;
}

/* Runs `body` and expects it to throw exactly this. */
typedef struct throwing {
  tn__graph *graph;
  void (*body)(tn__graph *g);
} throwing;

static inline void run_throwing(tn__escape *escape, void *arg) {
  throwing *t = arg;
  tn__graph_arena(t->graph)->escape = escape;
  t->body(t->graph);
}

static inline void check_throws(void **state, void (*body)(tn__graph *g), tn_status_code code, const char *text) {
  throwing t = {graph_of(state), body};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, run_throwing, &t);
  check_fails(status, code, text);
}

static inline void append_dims(tn__strbuf *buf, int rank, const tn__expr *const *dims) {
  for (int i = 0; i < rank; i++) {
    tn__strbuf_append(buf, i == 0 ? "[" : ", ");
    tn__expr_print(dims[i], buf);
  }
  tn__strbuf_append(buf, rank == 0 ? "[]" : "]");
}

static inline void check_type(const tn__value *value, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__strbuf_append(&buf, tn_dtype_name(value->dtype));
  append_dims(&buf, value->rank, value->dims);
  if (value->held != NULL) {
    tn__strbuf_append(&buf, " of ");
    append_dims(&buf, value->held->rank, value->held->dims);
    tn__strbuf_append(&buf, " in {");
    tn__layout_print(&value->held->layout, &buf);
    tn__strbuf_append(&buf, "}");
  }
  assert_string_equal(tn__strbuf_text(&buf), text);
  tn__strbuf_release(&buf);
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

typedef struct run_state {
  tn__graph *graph;
  const tensor *inputs;
  tensor *values; /* by value id */
  tn_status *status;
} run_state;

static inline int64_t value_of(run_state *r, const tn__expr *e) {
  int64_t result;
  tn__graph *g = r->graph;
  for (int i = 0; i < tn__graph_symbol_count(g); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(g, i);
    if (!tn__expr_uses_var(e, symbol->var)) continue;
    const tensor *source = &r->values[symbol->value->id];
    if (source->data == NULL) fail_msg("symbol %s is read before its tensor is computed", symbol->var->name);
    int64_t value = symbol->source == TN__SYMBOL_INPUT_DIM
                        ? source->shape[symbol->index]
                        : tn__load_i64(symbol->value->dtype, source->data, symbol->index);
    const tn__expr *constant = tn__ir_index(tn__graph_ir(g), value);
    e = tn__ir_substitute(tn__graph_ir(g), e, &symbol->var, &constant, 1);
  }
  if (!tn__ir_as_int(e, &result)) fail_msg("a dimension does not become a number");
  return result;
}

static inline void make_room(run_state *r, const tn__value *value) {
  tensor *t = &r->values[value->id];
  int64_t count = 1;
  for (int i = 0; i < value->rank; i++) count *= t->shape[i] = value_of(r, value->dims[i]);
  t->data = tn__arena_alloc_array(tn__graph_arena(r->graph), (size_t)count + 1, tn_dtype_size(value->dtype));
}

static inline void *writable(const void *data) {
  void *pointer;
  memcpy(&pointer, &data, sizeof(pointer));
  return pointer;
}

static inline tn_status *run_node(run_state *r, const tn__node *node) {
  tn__arena *arena = tn__graph_arena(r->graph);
  tn__te *te = tn__te_create(tn__ir_create(arena), node->op->name);
  tn__lower_context *lower = tn__lower_create(r->graph, te);
  tn__lower_node(lower, node);
  void *buffers[64];
  int count = 0;
  for (int i = 0; i < node->output_count; i++) {
    make_room(r, node->outputs[i]);
    tn__te_output(te, tn__lower_value(lower, node->outputs[i]));
  }
  for (int i = 0; i < tn__lower_input_count(lower); i++) {
    const tn__value *value = tn__lower_input_at(lower, i);
    const void *data = value->data != NULL ? value->data : r->values[value->id].data;
    if (data == NULL) fail_msg("%s reads %s before it is computed", node->op->name, value->name);
    buffers[count++] = writable(data);
  }
  for (int i = 0; i < node->output_count; i++) buffers[count++] = writable(r->values[node->outputs[i]->id].data);
  check_ok(tn__te_verify(te));
  tn__func *func = tn__te_lower(te);
  check_ok(tn__func_verify(tn__te_ir(te), func));
  int64_t scalars[64];
  for (int i = 0; i < tn__te_dim_count(te); i++) scalars[i] = value_of(r, tn__lower_symbol_at(lower, i)->self);
  return tn__ir_interpret(tn__te_ir(te), func, buffers, scalars, &(tn__interpret_options){0});
}

static inline void run_body(tn__escape *escape, void *arg) {
  run_state *r = arg;
  tn__graph *g = r->graph;
  tn__graph_arena(g)->escape = escape;
  int values;
  tn__graph_use_counts(g, &values);
  r->values = tn__arena_alloc_array(tn__graph_arena(g), (size_t)values, sizeof(*r->values));
  for (int i = 0; i < tn__graph_input_count(g); i++) r->values[tn__graph_input_at(g, i)->id] = r->inputs[i];
  tn_status *status = tn__graph_verify(g);
  for (int i = 0; i < tn__graph_node_count(g) && status == NULL; i++) status = run_node(r, tn__graph_node_at(g, i));
  if (status != NULL) tn__throw(escape, status);
}

/* The value of `result` when the graph's inputs are these. */
static inline tn_status *run_graph(void **state, const tensor *inputs, const tn__value *result, tensor *out) {
  run_state r = {.graph = graph_of(state), .inputs = inputs};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, run_body, &r);
  if (status == NULL) *out = r.values[result->id];
  if (status == NULL && result->data != NULL) out->data = result->data;
  return status;
}

static inline int64_t count_of(const tn__value *value, const tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < value->rank; i++) count *= t->shape[i];
  return count;
}

/* Runs and compares with `want`, given as doubles. */
static inline void check_result(void **state, const tensor *inputs, const tn__value *result, const double *want,
                                int64_t count, double tolerance) {
  tensor got;
  check_ok(run_graph(state, inputs, result, &got));
  assert_int_equal(count_of(result, &got), count);
  for (int64_t i = 0; i < count; i++) {
    double value = tn__load_f64(result->dtype, got.data, i);
    bool same = value == want[i] || (isnan(value) && isnan(want[i])) ||
                fabs(value - want[i]) <= tolerance * (1 + fabs(want[i]));
    if (!same) fail_msg("element %lld is %.9g, not %.9g", (long long)i, value, want[i]);
  }
}

#define CHECK_RESULT(state, inputs, result, ...)                                        \
  do {                                                                                  \
    const double want_[] = {__VA_ARGS__};                                               \
    check_result(state, inputs, result, want_, sizeof(want_) / sizeof(want_[0]), 1e-6); \
  } while (0)

#endif
