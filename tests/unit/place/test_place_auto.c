/* Placement by predicted time: random graphs against all placements there are, one after the other; budgets of memory;
 * what is said is kept. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/internal.h"
#include "graph/place/cost.h"
#include "graph/place/place.h"
#include "tenon/dlpack.h"
#include "unit/place_check.h"

enum { NODES = 10, INPUTS = 2, DEVICES = 3, GRAPHS = 300 };

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

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint64_t need_of(tn__compile_config *config, const tn__graph *graph, int device) {
  tn__place_memory need;
  tn__place_measure(config, graph, &need);
  return (uint64_t)(need.constants[device] + need.values[device]);
}

/* Half of what the islands would take of it; what the host has is enough. */
static void limit_one(tn__arena *arena, void *user) {
  totals *t = user;
  tn__compile_config *config = random_devices(arena);
  uint64_t seed = state;
  tn__graph *graph = random_graph(arena, NODES, NODES);
  tn__place_options options = {.config = config, .automatic = true};
  tn__graph_place(graph, &options);
  tn__place_budgets budgets = {.any = true};
  tn__place_sums free_sums = tn__place_predict(config, graph);
  for (int d = 1; d < DEVICES; d++) {
    budgets.bytes[d] = need_of(config, graph, d) / 2 + 1;
    budgets.text[d] = "island";
  }
  state = seed;
  tn__graph *again = random_graph(arena, NODES, NODES);
  options.budgets = &budgets;
  tn__graph_place(again, &options);
  tn__place_sums sums = tn__place_predict(config, again);
  for (int d = 1; d < DEVICES; d++) assert_true(need_of(config, again, d) <= budgets.bytes[d]);
  assert_true(sums.operators + sums.copies >= (free_sums.operators + free_sums.copies) * (1 - 1e-9));
  t->several += sums.operators + sums.copies > (free_sums.operators + free_sums.copies) * (1 + 1e-9);
}

static void what_does_not_fit_goes_elsewhere(void **unused) {
  totals t = {0};
  for (int i = 0; i < GRAPHS; i++) {
    state = (uint64_t)i * 104729 + 3;
    check_ok(tn__with_arena(NULL, limit_one, &t));
  }
  assert_true(t.several > GRAPHS / 5);
}

/* ---- completeness of the search within budgets ------------------------------------------------------------------- */

enum { FEW = 5, FIT_GRAPHS = 60, MOST_TEXT = 4096 };

/* Each arm returns one of the two. */
static void put_branch(char *text, size_t *at, int a, int b, int size) {
  *at += (size_t)snprintf(text + *at, MOST_TEXT - *at, "if(c, v%d, v%d)\n", a, b);
  for (int arm = 0; arm < 2; arm++)
    *at +=
        (size_t)snprintf(text + *at, MOST_TEXT - *at,
                         "    graph \"%s\" {\n      input p: f32[%d]\n      input q: f32[%d]\n      output \"r\" = %s\n"
                         "    }\n",
                         arm ? "else" : "then", size, size, below(2) ? "p" : "q");
}

/* Draws values of two sizes, some of them unread, from two inputs and a constant; some graphs have a branch. */
static void draw_text(char *text, uint64_t seed) {
  static const char *const two[] = {"add", "multiply", "maximum"};
  size_t at = 0;
  int large[FEW + 3] = {0, 1, 0};
  state = seed;
#define PUT(...) at += (size_t)snprintf(text + at, MOST_TEXT - at, __VA_ARGS__)
  PUT("graph \"main\" {\n  input c: bool[]\n  input v0: f32[16]\n  input v1: f32[32]\n  const v2: f32[16] = [");
  for (int i = 0; i < 16; i++) PUT("%s%d.5", i > 0 ? ", " : "", i);
  PUT("]\n");
  for (int v = 3; v < FEW + 3; v++) {
    int a = below(3) ? v - 1 : below(v), b = below(v), what = below(6);
    if (what < 3 && large[b] != large[a]) b = a;
    large[v] = what == 4 ? 0 : what == 5 && !large[a] ? 1 : large[a];
    PUT("  v%d: f32[%d] = ", v, large[v] ? 32 : 16);
    if (what < 2)
      PUT("%s(v%d, v%d)\n", two[below(3)], a, b);
    else if (what == 2)
      put_branch(text, &at, a, b, large[v] ? 32 : 16);
    else if (what == 4 && large[a])
      PUT("slice(v%d) {starts=(0), limits=(16), strides=[1]}\n", a);
    else if (what == 5 && !large[a])
      PUT("concatenate(v%d, v%d) {axis=0}\n", a, large[b] ? a : b);
    else
      PUT("abs(v%d)\n", a);
  }
  PUT("  output \"y\" = v%d\n  output \"z\" = v%d\n}\n", FEW + 2, 3 + below(FEW));
#undef PUT
}

typedef struct fitting {
  char text[MOST_TEXT];
  int choice[FEW];
  bool automatic;
  tn__place_budgets budgets;
  tn__place_memory need;
} fitting;

static const char three_devices[] = "x86-64-v3; island -mcpu=x86-64-v3 -gflops=1000; island -mcpu=x86-64-v3 -device=1";

static void place_drawn(tn__arena *arena, void *user) {
  fitting *f = user;
  tn__compile_config *config = tn__compile_config_create(arena, three_devices, NULL);
  tn__graph *graph = read_placed_graph(arena, f->text);
  tn__place_rules rules = {0};
  for (int i = 0; i < FEW && !f->automatic; i++)
    tn__place_rules_read(
        config,
        tn__arena_printf(arena, "v%d=%s", i + 3, tn__virtual_device_text(arena, config->devices.data[f->choice[i]])),
        false, &rules);
  tn__place_options options = {.config = config,
                               .rules = rules.list.data,
                               .rule_count = rules.list.count,
                               .automatic = f->automatic,
                               .budgets = &f->budgets};
  tn__graph_place(graph, &options);
  tn__place_measure(config, graph, &f->need);
}

/* Returns whether any placement by names fits, by trying all. */
static bool some_fits(fitting *f, int node) {
  f->automatic = false;
  if (node == FEW) {
    tn_status *status = tn__with_arena(NULL, place_drawn, f);
    bool fits = status == NULL;
    if (!fits) assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
    tn_status_free(status);
    return fits;
  }
  for (f->choice[node] = 0; f->choice[node] < DEVICES; f->choice[node]++)
    if (some_fits(f, node + 1)) return true;
  return false;
}

static bool auto_fits(fitting *f) {
  f->automatic = true;
  tn_status *status = tn__with_arena(NULL, place_drawn, f);
  bool fits = status == NULL;
  if (!fits) assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
  tn_status_free(status);
  return fits;
}

/* Budgets equal the memory of some placement, or slightly less. Whenever a placement by names fits, "auto" finds
 * one. */
static void what_fits_is_found(void **unused) {
  int fitted = 0, refused = 0;
  for (uint64_t seed = 1; seed <= FIT_GRAPHS; seed++) {
    fitting f = {.automatic = false};
    draw_text(f.text, seed * 7919);
    for (int round = 0; round < 3; round++) {
      memset(&f.budgets, 0, sizeof f.budgets);
      f.automatic = false;
      for (int i = 0; i < FEW; i++) f.choice[i] = below(DEVICES);
      check_ok(tn__with_arena(NULL, place_drawn, &f));
      f.budgets.any = true;
      for (int d = 0; d < DEVICES; d++) {
        double bytes = f.need.constants[d] + f.need.values[d] - (round == 2 && below(2) ? 64 : 0);
        f.budgets.bytes[d] = bytes < 1 ? 1 : (uint64_t)bytes;
        f.budgets.text[d] = "budget";
      }
      bool found = auto_fits(&f), there = some_fits(&f, 0);
      if (there && !found)
        print_message("%snot found: %d %d %d %d %d\n", f.text, f.choice[0], f.choice[1], f.choice[2], f.choice[3],
                      f.choice[4]);
      assert_true(found || !there);
      fitted += found, refused += !found;
    }
  }
  print_message("%d fitted, %d did not\n", fitted, refused);
  assert_true(fitted > 2 * FIT_GRAPHS && refused > 0);
}

static const char two_steps[] =
    "graph \"main\" {\n"
    "  input x: f32[256]\n"
    "  const k: f32[256] = 2.0\n"
    "  a: f32[256] = add(x, x)\n"
    "  b: f32[256] = negate(a)\n"
    "  output \"y\" = b\n"
    "}\n";

static void what_fits_nowhere_is_told(void **unused) {
  check_placed_case(&(placed_case){
      .graph = two_steps,
      .targets = "x86-64-v3; island -mcpu=x86-64-v3",
      .place = {"*=island:0"},
      .memory = {"island:0=1KiB"},
      .want = "the plan takes 2.0 KiB of a device, 0 bytes of constants and 2.0 KiB of values, 1.0 KiB more than "
              "\"island:0=1KiB\" allows: place less there, or let \"auto\" place the rest",
      .code = TN_FAILED_PRECONDITION});
  check_placed_case(&(placed_case){
      .graph = two_steps,
      .targets = "x86-64-v3; island -mcpu=x86-64-v3",
      .place = {"auto", "*=island:0"},
      .memory = {"island:0=2047"},
      .want = "the plan takes 2.0 KiB of a device, 0 bytes of constants and 2.0 KiB of values, 1 bytes more than "
              "\"island:0=2047\" allows: what is left fits on no other device, or is placed there by name",
      .code = TN_FAILED_PRECONDITION});
  check_placed_case(&(placed_case){.graph = two_steps,
                                   .targets = "x86-64-v3; island -mcpu=x86-64-v3",
                                   .place = {"*=island:0"},
                                   .memory = {"island:0=2KiB", "cpu=1"}});
}

static void sizes_are_checked(void **unused) {
  static const char *const cases[][3] = {
      {"island:0", "the memory \"island:0\"", NULL},
      {"=1", "the memory \"=1\"", NULL},
      {"island:0=0", "the memory \"island:0=0\"", NULL},
      {"island:0=-1", "the memory \"island:0=-1\"", NULL},
      {"island:0=1kB", "the memory \"island:0=1kB\"", NULL},
      {"island:0=99999999999999999999", "the memory \"island:0=99999999999999999999\"", NULL},
      {"island:0=999999999TiB", "the memory \"island:0=999999999TiB\"", NULL},
  };
  char want[256];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(want, sizeof want,
             "%s is not like DEVICE=SIZE, as \"opencl:0=2GiB\" is, with a size above 0 in bytes, KB, MB, GB, TB, KiB, "
             "MiB, GiB or TiB",
             cases[i][1]);
    check_placed_case(&(placed_case){.graph = two_steps,
                                     .targets = "x86-64-v3; island",
                                     .memory = {cases[i][0]},
                                     .want = want,
                                     .code = TN_INVALID_ARGUMENT});
  }
  check_placed_case(
      &(placed_case){.graph = two_steps,
                     .targets = "x86-64-v3; island",
                     .memory = {"island=1MB", "island:0=2MB"},
                     .want = "the memory of one device is given twice: \"island=1MB\" and \"island:0=2MB\"",
                     .code = TN_INVALID_ARGUMENT});
  check_placed_case(&(placed_case){.graph = two_steps,
                                   .targets = "x86-64-v3; island -mcpu=x86-64-v3",
                                   .memory = {"island:1=1MB"},
                                   .want = "the memory \"island:1=1MB\": there is no device \"island:1\" among the "
                                           "targets: there are cpu:0 (x86-64-v3), island:0 (x86-64-v3)",
                                   .code = TN_NOT_FOUND});
}

/* ---- what is said is kept ---------------------------------------------------------------------------------------- */

#define FAST "x86-64-v3 -launch=100000; island -mcpu=x86-64-v3 -launch=50; island -mcpu=x86-64-v3 -device=1 -launch=90"

static void what_is_said_is_kept(void **unused) {
  static const char text[] =
      "graph \"main\" {\n"
      "  input x: f32[256]\n"
      "  input n: i64[2] on \"cpu\"\n"
      "  a: f32[256] = abs(x)\n"
      "  b: f32[256] = negate(a)\n"
      "  o: f32[256] = on_device(b) {device=\"island:1\", body=0, result=1}\n"
      "  c: f32[256] = abs(o)\n"
      "  d: f32[256] = abs(c)\n"
      "  k: i64[2] = add(n, n)\n"
      "  e: sequence f32[?] = sequence_empty() {dtype=\"f32\", rank=1}\n"
      "  s: sequence f32[?] = sequence_insert(e, d)\n"
      "  output \"s\" = s\n"
      "  output \"k\" = k\n"
      "}\n";
  check_placed_case(&(placed_case){
      .graph = text,
      .targets = FAST,
      .place = {"auto", "a=cpu"},
      .want = "cpu:0        input              x  (where it is read)\n"
              "cpu:0        input              n  (said where it is made)\n"
              "cpu:0        abs                a  (placed by \"a=cpu\"; 100 us)\n"
              "island:1     device_copy        a  (from cpu:0; 1024 bytes, 1.17 us)\n"
              "island:1     negate             b  (by predicted time; 261 ns)\n" /* island:0 is faster, and further */
              "island:1     abs                c  (by predicted time; 261 ns)\n"
              "island:1     abs                d  (by predicted time; 261 ns)\n"
              "cpu:0        add                k  (with \"n\": said where it is made; 100 us)\n"
              "cpu:0        sequence_empty     e  (lists and strings are on the host)\n"
              "cpu:0        device_copy        d  (from island:1; 1024 bytes, 1.17 us)\n"
              "cpu:0        sequence_insert    s  (lists and strings are on the host)\n"});
}

/* What no device but the host can run is not placed elsewhere, however fast that is. */
static void what_a_device_cannot_run_is_not_there(void **unused) {
  check_placed_case(&(placed_case){.graph = "graph \"main\" {\n"
                                            "  input x: f64[256]\n"
                                            "  a: f64[256] = abs(x)\n"
                                            "  output \"y\" = a\n"
                                            "}\n",
                                   .targets = "x86-64-v3 -launch=90000; opencl -link_wait=1",
                                   .place = {"auto"},
                                   .want = "cpu:0        input              x  (where it is read)\n"
                                           "cpu:0        abs                a  (by predicted time; 90.3 us)\n"});
}

/* ---- branches and loops, and many nodes -------------------------------------------------------------------------- */

static const char looping[] =
    "graph \"main\" {\n"
    "  input n: i64[]\n"
    "  input x: f32[4096]\n"
    "  const z: i64[] = 0\n"
    "  i: i64[], m: i64[], s: f32[4096] = while(z, n, x)\n"
    "    graph \"condition\" {\n"
    "      input a: i64[]\n"
    "      input b: i64[]\n"
    "      input c: f32[4096]\n"
    "      more: bool[] = compare(a, b) {direction=\"LT\"}\n"
    "      output \"more\" = more\n"
    "    }\n"
    "    graph \"body\" {\n"
    "      input a: i64[]\n"
    "      input b: i64[]\n"
    "      input c: f32[4096]\n"
    "      const one: i64[] = 1\n"
    "      next: i64[] = add(a, one)\n"
    "      t: f32[4096] = tanh(c)\n"
    "      output \"a\" = next\n"
    "      output \"b\" = b\n"
    "      output \"c\" = t\n"
    "    }\n"
    "  output \"y\" = s\n"
    "}\n";

static tn__place_result place_text(tn__arena *arena, const char *text, const char *targets, tn__graph **graph) {
  tn__place_options options = {.config = tn__compile_config_create(arena, targets, NULL), .automatic = true};
  *graph = read_placed_graph(arena, text);
  return tn__graph_place(*graph, &options);
}

/* One round would not be worth the copies, and ten are: the state of the loop goes along, and counting stays. */
static void place_loops(tn__arena *arena, void *user) {
  tn__graph *graph;
  static const char slow_way[] =
      "x86-64-v3 -launch=3000; island -mcpu=x86-64-v3 -launch=1 -link_wait=8000 -link_rate=1000000";
  tn__place_result result = place_text(arena, looping, slow_way, &graph);
  const tn__node *loop = tn__graph_node_at(graph, 0);
  assert_int_equal(result.copies, 0); /* callers' tensors come and go by themselves */
  assert_int_equal(loop->outputs[2]->device->device_type, TN__DEVICE_ISLAND);
  assert_int_equal(loop->outputs[0]->device->device_type, kDLCPU);
  assert_int_equal(tn__graph_output_at(loop->graphs[1], 2)->device->device_type, TN__DEVICE_ISLAND);
  const char *once = "graph \"main\" {\n  input x: f32[4096]\n  t: f32[4096] = tanh(x)\n  output \"y\" = t\n}\n";
  place_text(arena, once, slow_way, &graph);
  assert_int_equal(tn__graph_node_at(graph, 0)->outputs[0]->device->device_type, kDLCPU);
}

static void loops_count_their_rounds(void **unused) { check_ok(tn__with_arena(NULL, place_loops, NULL)); }

typedef struct growth {
  int nodes, near;
  uint64_t steps, seed;
} growth;

/* Never worse than everything in one place, the same each time, and of a second planning the same text. */
static void place_many(tn__arena *arena, void *user) {
  growth *g = user;
  double best = INFINITY, chosen = 0;
  const char *texts[2];
  for (int d = -2; d < DEVICES; d++) {
    state = g->seed;
    tn__compile_config *config = random_devices(arena);
    tn__graph *graph = random_graph(arena, g->nodes, g->near);
    const char *all = d < 0 ? NULL : tn__virtual_device_text(arena, config->devices.data[d]);
    tn__place_rules rules = {.automatic = d < 0};
    if (d >= 0) tn__place_rules_read(config, tn__arena_printf(arena, "*=%s", all), false, &rules);
    tn__place_options options = {
        .config = config, .automatic = d < 0, .rules = rules.list.data, .rule_count = rules.list.count};
    tn__place_result result = tn__graph_place(graph, &options);
    tn__place_sums sums = tn__place_predict(config, graph);
    if (d >= 0 && sums.operators + sums.copies < best) best = sums.operators + sums.copies;
    if (d >= 0) continue;
    chosen = sums.operators + sums.copies;
    g->steps = result.steps;
    tn__strbuf text;
    tn__strbuf_init(&text, arena->allocator);
    tn__graph_print(graph, &text);
    texts[d + 2] = tn__arena_take(arena, &text);
  }
  assert_true(chosen <= best * (1 + 1e-9));
  assert_string_equal(texts[0], texts[1]);
}

/* Also where more is open than the search keeps. */
static void never_worse_than_one_place(void **unused) {
  for (uint64_t i = 0; i < 30; i++) {
    state = i * 6007 + 3;
    int nodes = 20 + below(400);
    growth g = {nodes, i % 3 == 0 ? 2 : i % 3 == 1 ? 8 : nodes, 0, i * 104729 + 11};
    check_ok(tn__with_arena(NULL, place_many, &g));
  }
}

static void work_grows_with_the_graph(void **unused) {
  growth few = {5000, 3, 0, 77}, many = {20000, 3, 0, 77}, wide = {3000, 3000, 0, 77};
  check_ok(tn__with_arena(NULL, place_many, &few));
  check_ok(tn__with_arena(NULL, place_many, &many));
  check_ok(tn__with_arena(NULL, place_many, &wide));
  assert_true(many.steps < 4 * few.steps);
  assert_true(wide.steps < UINT64_C(3000) * 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_good_as_trying_all),
      cmocka_unit_test(what_does_not_fit_goes_elsewhere),
      cmocka_unit_test(what_fits_is_found),
      cmocka_unit_test(what_fits_nowhere_is_told),
      cmocka_unit_test(sizes_are_checked),
      cmocka_unit_test(what_is_said_is_kept),
      cmocka_unit_test(what_a_device_cannot_run_is_not_there),
      cmocka_unit_test(loops_count_their_rounds),
      cmocka_unit_test(never_worse_than_one_place),
      cmocka_unit_test(work_grows_with_the_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
