/* Passes over a graph in text form, for tenon-opt: reads it, runs passes, writes what comes of it. The passes fold with
 * the loop IR's interpreter and pack products into panels of 8, whatever the machine is.
 *
 * With `check` the graph is run by the interpreter before and after the passes, node by node, on inputs of a fixed
 * pattern; dimensions are those of `dims`, "n=4", else 3. Outputs that differ by more than rounding are an error, and
 * so are operators that have no declaration. */
#ifndef TENON_TESTS_TOOLS_GRAPH_OPT_H
#define TENON_TESTS_TOOLS_GRAPH_OPT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/passes/passes.h"
#include "graph/text.h"

enum { GRAPH_OPT_PASSES = 32, GRAPH_OPT_DIMS = 16 };

typedef struct graph_opt {
  const char *passes[GRAPH_OPT_PASSES], *dims[GRAPH_OPT_DIMS];
  int pass_count, dim_count, winograd;
  bool check;
} graph_opt;

typedef struct graph_tensor {
  const void *data;
  int64_t shape[TN__MAX_RANK];
} graph_tensor;

typedef struct graph_run {
  tn__graph *graph;
  const graph_opt *options;
  graph_tensor *values; /* by value id */
} graph_run;

static inline int64_t graph_run_size(const graph_run *r, const tn__expr *e) {
  tn__ir *ir = tn__graph_ir(r->graph);
  tn__escape *escape = tn__graph_arena(r->graph)->escape;
  int64_t result;
  for (int i = 0; i < tn__graph_symbol_count(r->graph); i++) {
    const tn__symbol *symbol = tn__graph_symbol_at(r->graph, i);
    if (!tn__expr_uses_var(e, symbol->var)) continue;
    const graph_tensor *source = &r->values[symbol->value->id];
    if (source->data == NULL)
      tn__throwf(escape, TN_INVALID_ARGUMENT, "symbol %s is read before its tensor is computed", symbol->var->name);
    const tn__expr *value = tn__ir_index(ir, symbol->source == TN__SYMBOL_INPUT_DIM
                                                 ? source->shape[symbol->index]
                                                 : tn__load_i64(symbol->value->dtype, source->data, symbol->index));
    e = tn__ir_substitute(ir, e, &symbol->var, &value, 1);
  }
  if (!tn__ir_as_int(e, &result)) tn__throwf(escape, TN_INVALID_ARGUMENT, "a dimension does not become a number");
  return result;
}

static inline int64_t graph_run_count(const tn__value *value, const graph_tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < value->rank; i++) count *= t->shape[i];
  return count;
}

/* The interpreter writes outputs and reads the rest, through one list of pointers. */
static inline void *graph_run_pointer(const void *data) {
  void *pointer;
  memcpy(&pointer, &data, sizeof pointer);
  return pointer;
}

static inline void *graph_run_room(const graph_run *r, const tn__value *value, graph_tensor *t) {
  for (int i = 0; i < value->rank; i++) t->shape[i] = graph_run_size(r, value->dims[i]);
  void *data = tn__arena_alloc_array(tn__graph_arena(r->graph), (size_t)graph_run_count(value, t) + 1,
                                     tn__dtype_stored(value->dtype));
  t->data = data;
  return data;
}

static inline void graph_run_node(graph_run *r, const tn__node *node) {
  tn__arena *arena = tn__graph_arena(r->graph);
  if (node->op->lowering != TN__LOWER_DECLARE)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s cannot be run here", node->op->name);
  tn__te *te = tn__te_create(tn__ir_create(arena), node->op->name);
  tn__lower_context *lower = tn__lower_create(r->graph, te);
  tn__lower_node(lower, node);
  for (int i = 0; i < node->output_count; i++) tn__te_output(te, tn__lower_value(lower, node->outputs[i]));
  int inputs = tn__lower_input_count(lower), count = 0;
  void **buffers = TN__NEW_ARRAY(arena, inputs + node->output_count, void *);
  for (int i = 0; i < inputs; i++) {
    const tn__value *value = tn__lower_input_at(lower, i);
    buffers[count++] = graph_run_pointer(value->data != NULL ? value->data : r->values[value->id].data);
  }
  for (int i = 0; i < node->output_count; i++)
    buffers[count++] = graph_run_room(r, node->outputs[i], &r->values[node->outputs[i]->id]);
  int64_t *scalars = TN__NEW_ARRAY(arena, tn__te_dim_count(te), int64_t);
  for (int i = 0; i < tn__te_dim_count(te); i++) scalars[i] = graph_run_size(r, tn__lower_symbol_at(lower, i)->self);
  tn__check(arena->escape,
            tn__ir_interpret(tn__te_ir(te), tn__te_lower(te), buffers, scalars, &(tn__interpret_options){0}));
}

static inline int64_t graph_run_dim(const graph_run *r, const tn__expr *dim) {
  int64_t size;
  if (tn__ir_as_int(dim, &size)) return size;
  const char *name = dim->kind == TN__EXPR_VAR ? dim->value.var->name : "";
  size_t length = strlen(name);
  for (int i = 0; i < r->options->dim_count; i++)
    if (strncmp(r->options->dims[i], name, length) == 0 && r->options->dims[i][length] == '=')
      return strtoll(r->options->dims[i] + length + 1, NULL, 10);
  return 3;
}

/* Small numbers of all signs; integers are from 0 on, so that they may be indices. */
static inline void graph_run_fill(graph_run *r, const tn__value *input, uint32_t *random) {
  graph_tensor *t = &r->values[input->id];
  for (int i = 0; i < input->rank; i++) t->shape[i] = graph_run_dim(r, input->dims[i]);
  int64_t count = graph_run_count(input, t);
  void *data = tn__arena_alloc_array(tn__graph_arena(r->graph), (size_t)count + 1, tn__dtype_stored(input->dtype));
  for (int64_t i = 0; i < count; i++) {
    *random = *random * 1664525u + 1013904223u;
    tn__store_f64(input->dtype, data, i,
                  tn__dtype_is_float(input->dtype) ? (double)(*random >> 8) / (1 << 23) - 1 : (double)(*random >> 31));
  }
  t->data = data;
}

/* The outputs' elements, one after the other. */
static inline double *graph_run_all(tn__graph *graph, const graph_opt *options, int64_t *count) {
  tn__arena *arena = tn__graph_arena(graph);
  graph_run r = {.graph = graph, .options = options};
  int values;
  tn__graph_use_counts(graph, &values);
  r.values = TN__NEW_ARRAY(arena, values, graph_tensor);
  uint32_t random = 1;
  for (int i = 0; i < tn__graph_input_count(graph); i++) graph_run_fill(&r, tn__graph_input_at(graph, i), &random);
  for (int i = 0; i < tn__graph_node_count(graph); i++) graph_run_node(&r, tn__graph_node_at(graph, i));
  TN__VEC(double) elements = {0};
  for (int i = 0; i < tn__graph_output_count(graph); i++) {
    const tn__value *value = tn__graph_output_at(graph, i);
    graph_tensor t = r.values[value->id];
    for (int d = 0; d < value->rank && value->data != NULL; d++) t.shape[d] = tn__g_dim_const(value, d);
    if (value->data != NULL) t.data = value->data;
    for (int64_t k = 0; k < graph_run_count(value, &t); k++) {
      double element = tn__load_f64(value->dtype, t.data, value->data != NULL && value->splat ? 0 : k);
      tn__vec_push(arena, &elements, element);
    }
  }
  *count = elements.count;
  return elements.data;
}

static inline bool graph_opt_evaluate(void *user, tn__graph *graph, const tn__node *node, void *const *out) {
  static const graph_opt none;
  (void)user;
  if (node->op->lowering != TN__LOWER_DECLARE) return false;
  graph_run r = {.graph = graph, .options = &none};
  int values;
  tn__graph_use_counts(graph, &values);
  r.values = TN__NEW_ARRAY(tn__graph_arena(graph), values, graph_tensor);
  graph_run_node(&r, node);
  for (int i = 0; i < node->output_count; i++) {
    const graph_tensor *t = &r.values[node->outputs[i]->id];
    memcpy(out[i], t->data, (size_t)graph_run_count(node->outputs[i], t) * tn__dtype_stored(node->outputs[i]->dtype));
  }
  return true;
}

static inline bool graph_opt_layout(void *user, const tn__operand_use *operand, tn__layout *out) {
  (void)user;
  if ((operand->dtype != TN_F32 && operand->word.count == 0) || operand->columns < 3 || operand->rank >= TN__MAX_RANK)
    return false;
  *out = tn__layout_panels(operand, 8);
  return true;
}

static inline int graph_opt_tile(void *user, const tn__winograd_sizes *sizes) {
  (void)sizes;
  return ((const graph_opt *)user)->winograd;
}

static inline void graph_opt_compare(tn__escape *escape, const double *before, int64_t count, const double *after,
                                     int64_t count_after) {
  if (count != count_after) tn__throwf(escape, TN_INVALID_ARGUMENT, "the outputs have other sizes after the passes");
  for (int64_t i = 0; i < count; i++) {
    double want = before[i], got = after[i];
    if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-5 * (1 + fabs(want))) continue;
    tn__throwf(escape, TN_INVALID_ARGUMENT, "element %lld of the outputs is %.9g after the passes, and was %.9g",
               (long long)i, got, want);
  }
}

static inline void graph_opt_run(tn__ir *ir, const char *name, const char *text, size_t length,
                                 const graph_opt *options) {
  tn__escape *escape = tn__ir_arena(ir)->escape;
  tn__graph *graph;
  tn__check(escape, tn__graph_read(ir, name, text, length, NULL, &graph));
  int64_t count = 0, count_after;
  const double *before = options->check ? graph_run_all(graph, options, &count) : NULL;
  graph_opt kept = *options;
  tn__optimize_options passes = {.evaluator = {graph_opt_evaluate, NULL},
                                 .operand_layout = graph_opt_layout,
                                 .winograd_tile = graph_opt_tile,
                                 .winograd_user = &kept};
  for (int i = 0; i < options->pass_count; i++)
    if (strcmp(options->passes[i], "all") == 0)
      tn__graph_optimize(graph, &passes);
    else if (!tn__graph_run_pass(graph, options->passes[i], &passes))
      tn__throwf(escape, TN_INVALID_ARGUMENT, "there is no pass %s over graphs", options->passes[i]);
  if (options->check) {
    const double *after = graph_run_all(graph, options, &count_after);
    graph_opt_compare(escape, before, count, after, count_after);
  }
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  tn__graph_write(graph, &out);
  fputs(tn__strbuf_text(&out), stdout);
  tn__strbuf_release(&out);
}

#endif
