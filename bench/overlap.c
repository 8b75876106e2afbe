/* usage: bench_overlap [TARGETS DEVICE DEVICE]
 *
 * Do two devices work at the same time? A model of two stages, one on each device (two islands, which work at the same
 * time), takes 50 inputs: with two sessions in flight, which take turns with the inputs; with one session, input by
 * input; and each stage alone. Each device has one thread. Printed are milliseconds of all inputs, the least of several
 * rounds, and what the pipeline takes of the slower stage alone.
 *
 *   bench_overlap
 *   POCL_DEVICES=basic bench_overlap 'native;pocl' cpu:0 opencl:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tenon/compile.h"

enum { INPUTS = 50, ROUNDS = 30, ROWS = 256, COLUMNS = 256, PRODUCTS = 6, IN_FLIGHT = 2, FIRST = 1, SECOND = 2 };

static void check(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "bench_overlap: %s\n", tn_status_message(status));
  exit(1);
}

/* The stages that are asked for, one behind the other: products with a matrix, and their hyperbolic tangent. */
static tn_executable *compiled(const char *targets, const char *const *devices, int stages) {
  char text[8192], rules[2][64];
  const char *place[2];
  int at = 0, rule_count = 0, before = -1, number = 0;
  at += snprintf(text + at, sizeof text - (size_t)at, "graph \"stages\" {\n  input x: f32[%d, %d]\n", ROWS, COLUMNS);
  for (int stage = 0; stage < 2; stage++) {
    if ((stages & (stage == 0 ? FIRST : SECOND)) == 0) continue;
    for (int i = 0; i < PRODUCTS; i++, before = number++) {
      char from[16] = "x";
      if (before >= 0) snprintf(from, sizeof from, "t%d", before);
      at += snprintf(
          text + at, sizeof text - (size_t)at,
          "  const w%d: f32[%d, %d] = 0.0%d\n  s%d_%d: f32[%d, %d] = dot_general(%s, w%d) {lhs_batch=[], "
          "rhs_batch=[], lhs_contract=1, rhs_contract=0, dtype=\"f32\"}\n  t%d: f32[%d, %d] = tanh(s%d_%d)\n",
          number, COLUMNS, COLUMNS, 1 + i, stage, i, ROWS, COLUMNS, from, number, number, ROWS, COLUMNS, stage, i);
    }
    snprintf(rules[rule_count], sizeof rules[0], "s%d_*=%s", stage, devices[stage]);
    place[rule_count] = rules[rule_count], rule_count++;
  }
  at += snprintf(text + at, sizeof text - (size_t)at, "  output \"y\" = t%d\n}\n", before);
  tn_compile_options options = {.size = sizeof options,
                                .target = targets,
                                .place = place,
                                .place_count = rule_count,
                                .run_threads = 1,
                                .no_measure = true};
  tn_load_options load = {.size = sizeof load, .concurrent_islands = true};
  tn_module *module;
  tn_executable *exe;
  check(tn_compile("stages.tng", text, (size_t)at, &options, &module));
  check(tn_module_load(module, &load, &exe));
  tn_module_release(module);
  return exe;
}

typedef struct lane { /* a session with the memory of its input and output */
  tn_session *session;
  float *x, *y;
} lane;

static lane open_lane(const tn_executable *exe) {
  const size_t bytes = (size_t)ROWS * COLUMNS * sizeof(float);
  int64_t shape[2] = {ROWS, COLUMNS};
  lane l = {.x = aligned_alloc(64, bytes), .y = aligned_alloc(64, bytes)};
  if (l.x == NULL || l.y == NULL) exit(1);
  memset(l.x, 0, bytes);
  tn_session_options options = {.size = sizeof options, .threads = 1};
  check(tn_session_create(exe, &options, &l.session));
  DLTensor x = {.data = l.x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape}, y = x;
  y.data = l.y;
  check(tn_session_set_input_at(l.session, NULL, 0, &x, TN_BIND_PERSISTENT));
  check(tn_session_set_output_at(l.session, NULL, 0, &y, TN_BIND_PERSISTENT));
  return l;
}

/* What the caller does itself is little: a row changes, and is looked at. */
static void put_input(const lane *l, int number) {
  for (int i = 0; i < COLUMNS; i++) l->x[i] = (float)((i * 7 + number) % 13) / 13 - 0.5f;
}

static double sum_of(const lane *l) {
  double sum = 0;
  for (int i = 0; i < COLUMNS; i++) sum += (double)l->y[i];
  return sum;
}

/* Seconds for all inputs; `*sum` of all results. */
static double run_in_flight(const lane *lanes, int lane_count, double *sum) {
  double start = tn__now();
  *sum = 0;
  for (int i = 0; i < INPUTS + lane_count; i++) {
    const lane *l = &lanes[i % lane_count];
    if (i >= lane_count) {
      check(tn_session_wait(l->session));
      *sum += sum_of(l);
    }
    if (i >= INPUTS) continue;
    put_input(l, i);
    check(tn_session_start(l->session, NULL));
  }
  return tn__now() - start;
}

static double run_alone(const lane *l, double *sum) {
  double start = tn__now();
  *sum = 0;
  for (int i = 0; i < INPUTS; i++) {
    put_input(l, i);
    check(tn_session_invoke(l->session, NULL));
    *sum += sum_of(l);
  }
  return tn__now() - start;
}

static void keep_least(double *least, double seconds) {
  if (*least == 0 || seconds < *least) *least = seconds;
}

int main(int argc, char **argv) {
  const char *targets = "native;island;island -device=1", *devices[2] = {"island:0", "island:1"};
  if (argc == 4) targets = argv[1], devices[0] = argv[2], devices[1] = argv[3];
  tn_executable *both = compiled(targets, devices, FIRST | SECOND), *alone[2];
  lane lanes[IN_FLIGHT], stage[2];
  double seconds[4] = {0}, sums[4];
  for (int i = 0; i < IN_FLIGHT; i++) lanes[i] = open_lane(both);
  for (int i = 0; i < 2; i++)
    alone[i] = compiled(targets, devices, i == 0 ? FIRST : SECOND), stage[i] = open_lane(alone[i]);
  for (int round = 0; round < ROUNDS; round++) {
    keep_least(&seconds[0], run_in_flight(lanes, IN_FLIGHT, &sums[0]));
    keep_least(&seconds[1], run_alone(&lanes[0], &sums[1]));
    for (int i = 0; i < 2; i++) keep_least(&seconds[2 + i], run_alone(&stage[i], &sums[2 + i]));
    if (sums[0] != sums[1]) {
      fprintf(stderr, "bench_overlap: the results in flight differ\n");
      return 1;
    }
  }
  double slower = seconds[2] > seconds[3] ? seconds[2] : seconds[3];
  printf("two sessions in flight   %8.2f ms\n", seconds[0] * 1e3);
  printf("one after the other      %8.2f ms\n", seconds[1] * 1e3);
  for (int i = 0; i < 2; i++) printf("%-10s alone         %8.2f ms\n", devices[i], seconds[2 + i] * 1e3);
  printf("in flight, of the slower stage alone %.2f\n", seconds[0] / slower);
  for (int i = 0; i < IN_FLIGHT; i++) tn_session_release(lanes[i].session), free(lanes[i].x), free(lanes[i].y);
  for (int i = 0; i < 2; i++) tn_session_release(stage[i].session), free(stage[i].x), free(stage[i].y);
  for (int i = 0; i < 2; i++) tn_executable_release(alone[i]);
  tn_executable_release(both);
  return 0;
}
