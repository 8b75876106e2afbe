/* Placement by predicted time: random graphs against all placements there are, one after the other; budgets of memory;
 * what is said is kept. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"
#include "graph/place/cost.h"
#include "graph/place/place.h"
#include "graph/text.h"
#include "unit/check.h"

enum { NODES = 10, INPUTS = 2, DEVICES = 3, GRAPHS = 300, MOST_RULES = 4 };

/* ---- random graphs ----------------------------------------------------------------------------------------------- */

static uint64_t state;
static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static tn__value *input_of(tn__graph *g, const char *name, int64_t rows) {
  const tn__expr *dims[2] = {tn__ir_index(tn__graph_ir(g), rows), tn__ir_index(tn__graph_ir(g), 64)};
  return tn__graph_input(g, name, TN_F32, 2, dims);
}

static tn__value *product(tn__graph *g, tn__value *x, int columns) {
  tn__arena *arena = tn__graph_arena(g);
  float *data = TN__NEW_ARRAY(arena, 64 * columns, float);
  int64_t shape[2] = {64, columns};
  tn__value *w = tn__g_constant_value(g, TN_F32, 2, shape, data, false), *operands[2] = {x, w};
  int64_t one = 1, zero = 0;
  tn__attr attrs[5] = {tn__attr_ints(g, "lhs_batch", NULL, 0)};
  attrs[1] = tn__attr_ints(g, "rhs_batch", NULL, 0);
  attrs[2] = tn__attr_ints(g, "lhs_contract", &one, 1);
  attrs[3] = tn__attr_ints(g, "rhs_contract", &zero, 1);
  attrs[4] = tn__attr_string(g, "dtype", "f32");
  return tn__node_create(g, tn__op_find("dot_general"), operands, 2, attrs, 5, NULL, 0)->outputs[0];
}

/* `near`: how far back operands may be: chains, and anything. */
static tn__graph *random_graph(tn__arena *arena, int nodes, int near) {
  tn__graph *g = tn__graph_create(tn__ir_create(arena), "random");
  int64_t rows = 1 << below(16);
  tn__value **values = TN__NEW_ARRAY(arena, INPUTS + nodes, tn__value *);
  for (int i = 0; i < INPUTS; i++) values[i] = input_of(g, i ? "b" : "a", rows);
  for (int i = INPUTS; i < INPUTS + nodes; i++) {
    int back = i < near ? i : near;
    tn__value *a = values[i - 1 - below(back)], *b = values[i - 1 - below(back)];
    int what = below(4);
    values[i] = what == 0 ? product(g, a, 64) : what == 1 ? tn__g_unary(g, "tanh", a) : tn__g_binary(g, "add", a, b);
    values[i]->producer->origin = tn__arena_printf(arena, "node \"n%d\" (Op, opset 1)", i - INPUTS);
  }
  for (int i = 0; i < INPUTS + nodes; i++)
    if (i == INPUTS + nodes - 1 || (i >= INPUTS && below(6) == 0))
      tn__graph_output(g, tn__arena_printf(arena, "y%d", i), values[i]);
  return g;
}

/* A host, and two islands that are faster in some way and slow to reach in another. */
static tn__compile_config *random_devices(tn__arena *arena) {
  const char *text = "x86-64-v3 -gflops=20 -memory_rate=8000 -launch=100";
  for (int i = 1; i < DEVICES; i++)
    text =
        tn__arena_printf(arena,
                         "%s; island -mcpu=x86-64-v3 -device=%d -gflops=%d -memory_rate=%d -link_rate=%d "
                         "-link_wait=%d -launch=%d",
                         text, i, 10 << below(10), 4000 << below(8), 1000 << below(6), 100 << below(8), 50 << below(8));
  return tn__compile_config_create(arena, text, NULL);
}

/* ---- all placements ---------------------------------------------------------------------------------------------- */

/* The same model, written down once more: operators one after the other, a copy for each value and device that reads
 * it and does not have it, callers on the host. */
typedef struct brute {
  tn__compile_config *config;
  const tn__graph *graph;
  double alone[NODES][DEVICES], best;
  int maker[INPUTS + NODES][2];
  int choice[NODES], rank_of_host;
  bool ends[NODES];
} brute;

static double way(const brute *b, int from, int to, const tn__value *value) {
  return tn__device_copy_seconds(b->config, b->config->devices.data[from], b->config->devices.data[to],
                                 tn__place_bytes(value));
}

/* Node `n` reads value `v` (a node's number; -1 - i: input i) on its device: is it the first that does there? */
static double reading(const brute *b, int n, int operand) {
  const tn__node *node = tn__graph_node_at(b->graph, n);
  const tn__value *value = node->inputs[operand];
  int home = b->rank_of_host, device = b->choice[n];
  if (value->data != NULL) return 0;
  for (int i = 0; i < n; i++)
    if (tn__graph_node_at(b->graph, i)->outputs[0] == value) home = b->choice[i];
  if (home == device) return 0;
  for (int i = 0; i <= n; i++)
    for (int k = 0; k < tn__graph_node_at(b->graph, i)->input_count; k++) {
      if (i == n && k == operand) return way(b, home, device, value);
      if (tn__graph_node_at(b->graph, i)->inputs[k] == value && b->choice[i] == device) return 0;
    }
  return 0;
}

static void try_all(brute *b, int n, double cost) {
  if (cost >= b->best) return;
  if (n == NODES) {
    b->best = cost;
    return;
  }
  const tn__node *node = tn__graph_node_at(b->graph, n);
  for (int d = 0; d < DEVICES; d++) {
    double here = cost + b->alone[n][d];
    b->choice[n] = d;
    for (int k = 0; k < node->input_count; k++) here += reading(b, n, k);
    if (b->ends[n]) here += way(b, d, b->rank_of_host, node->outputs[0]);
    try_all(b, n + 1, here);
  }
}

static double best_of_all(tn__compile_config *config, const tn__graph *graph) {
  brute b = {.config = config, .graph = graph, .best = INFINITY};
  b.rank_of_host = tn__compile_config_rank(config, config->host);
  assert_int_equal(tn__graph_node_count(graph), NODES);
  for (int n = 0; n < NODES; n++) {
    const tn__node *node = tn__graph_node_at(graph, n);
    tn__place_work work = tn__place_work_of(node);
    b.ends[n] = node->outputs[0]->results.count > 0;
    for (int d = 0; d < DEVICES; d++) {
      tn__device_rates rates = tn__device_rates_of(config->devices.data[d]->target);
      b.alone[n][d] = tn__place_seconds(&rates, &work);
    }
  }
  try_all(&b, 0, 0);
  return b.best;
}

typedef struct totals {
  int several, same;
  double worst;
} totals;

static void compare_one(tn__arena *arena, void *user) {
  totals *t = user;
  tn__compile_config *config = random_devices(arena);
  tn__graph *graph = random_graph(arena, NODES, below(2) ? 2 : NODES);
  double best = best_of_all(config, graph);
  tn__place_options options = {.config = config, .automatic = true};
  tn__place_result result = tn__graph_place(graph, &options);
  tn__place_sums sums = tn__place_predict(config, graph);
  double ratio = (sums.operators + sums.copies) / best;
  check_ok(tn__graph_verify(graph));
  t->several += result.copies > 0;
  t->same += ratio < 1 + 1e-9;
  if (ratio > t->worst) t->worst = ratio;
  assert_true(ratio > 1 - 1e-9);
}

static void as_good_as_trying_all(void **unused) {
  totals t = {0};
  for (int i = 0; i < GRAPHS; i++) {
    state = (uint64_t)i * 7919 + 1;
    check_ok(tn__with_arena(NULL, compare_one, &t));
  }
  print_message("%d graphs: %d in several places, %d as the best there is, the worst at %.4f of it\n", GRAPHS,
                t.several, t.same, t.worst);
  assert_true(t.worst < 1.1);
  assert_true(t.several > GRAPHS / 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_good_as_trying_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
