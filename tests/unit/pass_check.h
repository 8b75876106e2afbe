/* What the tests of graph passes share: a graph is evaluated by the interpreter before and after passes on the same
 * random inputs, and its text is looked at. */
#ifndef TENON_TESTS_UNIT_PASS_CHECK_H
#define TENON_TESTS_UNIT_PASS_CHECK_H

#include "graph/passes/passes.h"
#include "unit/graph_check.h"

typedef void pass_fn(tn__graph *graph, const tn__optimize_options *options);

static inline bool evaluate_by_interpreter(void *user, tn__graph *graph, const tn__node *node, void *const *out) {
  (void)user;
  run_state r = {.graph = graph};
  int values;
  tn__graph_use_counts(graph, &values);
  r.values = tn__arena_alloc_array(tn__graph_arena(graph), (size_t)values, sizeof *r.values);
  tn_status *status = run_node(&r, node);
  if (status != NULL) {
    tn_status_free(status);
    return false;
  }
  for (int i = 0; i < node->output_count; i++) {
    const tensor *t = &r.values[node->outputs[i]->id];
    memcpy(out[i], t->data, (size_t)count_of(node->outputs[i], t) * tn_dtype_size(node->outputs[i]->dtype));
  }
  return true;
}

static inline bool panels_of_eight(void *user, const tn__operand_use *operand, tn__layout *out) {
  (void)user;
  if (operand->dtype != TN_F32 || operand->columns < 3 || operand->rank >= TN__MAX_RANK) return false;
  *out = tn__layout_panels(operand, 8);
  return true;
}

static inline tn__optimize_options pass_options(void) {
  return (tn__optimize_options){.evaluator = {evaluate_by_interpreter, NULL}, .operand_layout = panels_of_eight};
}

/* A constant of small numbers, different ones. */
static inline tn__value *constant_of(tn__graph *g, tn_dtype dtype, int rank, const int64_t *shape) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  void *data = tn__arena_alloc_array(tn__graph_arena(g), (size_t)count + 1, tn_dtype_size(dtype));
  for (int64_t i = 0; i < count; i++)
    tn__store_f64(dtype, data, i, tn__dtype_is_float(dtype) ? 0.25 * (double)(i * 7 % 13) - 1.5 : (double)(i % 5));
  return tn__g_constant_value(g, dtype, rank, shape, data, false);
}

static inline tn__value *splat_of(tn__graph *g, double number, int rank, const int64_t *shape) {
  float *data = tn__arena_alloc(tn__graph_arena(g), sizeof *data);
  *data = (float)number;
  return tn__g_constant_value(g, TN_F32, rank, shape, data, true);
}

static inline const char *text_of(tn__graph *g) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__graph_print(g, &buf);
  const char *text = tn__arena_strdup(tn__graph_arena(g), tn__strbuf_text(&buf));
  tn__strbuf_release(&buf);
  return text;
}

/* Number of nodes of an operator. */
static inline int count_ops(tn__graph *g, const char *op) {
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++) count += strcmp(tn__graph_node_at(g, i)->op->name, op) == 0;
  return count;
}

static inline void check_ops(tn__graph *g, const char *op, int want) {
  int count = count_ops(g, op);
  if (count != want) fail_msg("%d nodes of %s, not %d, in\n%s", count, op, want, text_of(g));
}

static inline bool evaluate_outputs(void **state, const tensor *inputs, double **out, int64_t *counts) {
  tn__graph *g = graph_of(state);
  run_state r = {.graph = g, .inputs = inputs};
  tn__escape escape;
  check_ok(tn__protect(&escape, run_body, &r));
  for (int i = 0; i < tn__graph_output_count(g); i++) {
    const tn__value *value = tn__graph_output_at(g, i);
    tensor t = r.values[value->id];
    if (value->data != NULL) {
      assert_true(tn__g_shape_const(value, t.shape));
      t.data = value->data;
    }
    counts[i] = count_of(value, &t);
    out[i] = tn__arena_alloc_array(tn__graph_arena(g), (size_t)counts[i] + 1, sizeof(double));
    for (int64_t j = 0; j < counts[i]; j++)
      out[i][j] = tn__load_f64(value->dtype, t.data, value->splat && value->data != NULL ? 0 : j);
  }
  return true;
}

/* Runs passes and checks that every output keeps its name, type and contents; `sizes` gives the values of the symbols
 * n1, n2 ... */
static inline void check_passes_sized(void **state, pass_fn *const *passes, int count, const int64_t *sizes,
                                      double tolerance) {
  tn__graph *g = graph_of(state);
  tn__optimize_options options = pass_options();
  tensor inputs[16] = {0};
  uint32_t random = 1;
  for (int i = 0; i < tn__graph_input_count(g); i++) {
    const tn__value *value = tn__graph_input_at(g, i);
    int64_t total = 1;
    for (int j = 0; j < value->rank; j++) {
      int64_t size = tn__g_dim_const(value, j);
      total *= inputs[i].shape[j] = size >= 0 ? size : sizes[value->dims[j]->value.var->name[1] - '1'];
    }
    void *data = tn__arena_alloc_array(tn__graph_arena(g), (size_t)total + 1, tn_dtype_size(value->dtype));
    for (int64_t j = 0; j < total; j++) {
      random = random * 1664525u + 1013904223u;
      tn__store_f64(value->dtype, data, j,
                    tn__dtype_is_float(value->dtype) ? (double)(random >> 8) / (1 << 23) - 1 : (double)(random >> 30));
    }
    inputs[i].data = data;
  }
  double *before[16] = {NULL}, *after[16] = {NULL};
  int64_t counts_before[16] = {0}, counts_after[16] = {0};
  const char *text = text_of(g);
  evaluate_outputs(state, inputs, before, counts_before);
  for (int i = 0; i < count; i++) {
    passes[i](g, &options);
    check_ok(tn__graph_verify(g));
  }
  evaluate_outputs(state, inputs, after, counts_after);
  for (int i = 0; i < tn__graph_output_count(g); i++) {
    if (before[i] == NULL || after[i] == NULL || counts_before[i] != counts_after[i]) {
      fail_msg("output %d has %d elements, not %d", i, (int)counts_after[i], (int)counts_before[i]);
      return;
    }
    for (int64_t j = 0; j < counts_before[i]; j++) {
      double want = before[i][j], got = after[i][j];
      bool same = got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= tolerance * (1 + fabs(want));
      if (!same)
        fail_msg("output %d element %d is %.9g, not %.9g: before\n%safter\n%s", i, (int)j, got, want, text, text_of(g));
    }
  }
}

#define CHECK_PASSES(state, tolerance, ...)                                                             \
  do {                                                                                                  \
    pass_fn *const passes_[] = {__VA_ARGS__};                                                           \
    check_passes_sized(state, passes_, sizeof passes_ / sizeof *passes_, (int64_t[]){2, 3}, tolerance); \
  } while (0)

#endif
