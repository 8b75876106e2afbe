/* usage: bench_place [NODES...]
 *
 * How long planning takes on which device each value lives: graphs of so many nodes (1,000, 10,000 and 100,000), of
 * which a third are placed on one of three devices. Printed are milliseconds, the least of five, steps and copies. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "graph/build/build.h"
#include "graph/place/place.h"

typedef struct measured {
  int nodes;
  double seconds;
  tn__place_result result;
} measured;

static tn__graph *make(tn__arena *arena, int nodes) {
  tn__ir *ir = tn__ir_create(arena);
  tn__graph *g = tn__graph_create(ir, "bench");
  const tn__expr *dims[1] = {tn__ir_index(ir, 128)};
  tn__value *a = tn__graph_input(g, "x", TN_F32, 1, dims), *b = a;
  for (int i = 0; i < nodes; i++) {
    tn__value *next = i % 3 == 0 ? tn__g_binary(g, "add", a, b) : tn__g_unary(g, "negate", a);
    next->producer->origin = tn__arena_printf(arena, "node \"layer%d/n%d\" (Op, opset 1)", i % 97, i);
    if (i % 7 == 0) b = a;
    a = next;
  }
  tn__graph_output(g, "y", a);
  return g;
}

static void run(tn__arena *arena, void *user) {
  static const char *const texts[] = {"*7=cpu:1", "layer3*=cpu:2", "*11=cpu:0"};
  measured *m = user;
  tn__compile_config *config =
      tn__compile_config_create(arena, "x86-64-v3; x86-64-v3 -device=1; x86-64-v3 -device=2", NULL);
  tn__place_rule rules[3];
  for (int i = 0; i < 3; i++) rules[i] = tn__place_rule_read(config, texts[i]);
  tn__place_options options = {config, rules, 3};
  tn__graph *graph = make(arena, m->nodes);
  double start = tn__now();
  m->result = tn__graph_place(graph, &options);
  m->seconds = tn__now() - start;
}

static bool measure(int nodes) {
  enum { RUNS = 5 };
  measured best = {.seconds = 1e9};
  for (int i = 0; i < RUNS; i++) {
    measured m = {.nodes = nodes};
    tn_status *status = tn__with_arena(NULL, run, &m);
    if (status != NULL) {
      fprintf(stderr, "bench_place: %s\n", tn_status_message(status));
      tn_status_free(status);
      return false;
    }
    if (m.seconds < best.seconds) best = m;
  }
  printf("%8d nodes %10.2f ms %12llu steps %8d copies\n", nodes, best.seconds * 1e3,
         (unsigned long long)best.result.steps, best.result.copies);
  return true;
}

int main(int argc, char **argv) {
  static const int usual[] = {1000, 10000, 100000};
  enum { USUAL = sizeof usual / sizeof usual[0], DECIMAL = 10 };
  bool good = true;
  for (int i = 1; i < argc; i++) good &= measure((int)strtol(argv[i], NULL, DECIMAL));
  for (int i = 0; argc < 2 && i < USUAL; i++) good &= measure(usual[i]);
  return good ? 0 : 1;
}
