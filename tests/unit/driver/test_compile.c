/* The whole path without an importer: graphs built by hand, compiled, loaded and run, against plain C. */
#include <math.h>
#include <string.h>

#include "unit/compile_check.h"

static void fill(float *data, int count, unsigned seed) {
  for (int i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

enum { ROWS = 13, INNER = 20, COLUMNS = 37 };
static float weights[INNER * COLUMNS], bias[COLUMNS];

static tn__value *layer(tn__graph *g, tn__value *x) {
  tn__value *w = tn__g_constant_value(g, TN_F32, 2, (const int64_t[]){INNER, COLUMNS}, weights, false);
  tn__value *b = tn__g_constant_value(g, TN_F32, 1, (const int64_t[]){COLUMNS}, bias, false);
  tn__value *y = tn__g_binary(g, "add", tn__g_matmul(g, x, w, TN_F32), b);
  return tn__g_binary_s(g, "maximum", y, 0);
}

static void build_fixed(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  tn__value *x =
      tn__graph_input(g, "x", TN_F32, 2, (const tn__expr *const[]){tn__ir_index(ir, ROWS), tn__ir_index(ir, INNER)});
  tn__graph_output(g, "y", layer(g, x));
}

static void build_symbolic(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  tn__value *x = tn__graph_input(g, "x", TN_F32, 2, (const tn__expr *const[]){NULL, tn__ir_index(ir, INNER)});
  tn__graph_input_symbol(g, "rows", x, 0);
  tn__graph_output(g, "y", layer(g, x));
}

static void expect_layer(tn_session *session, int rows) {
  float x[64 * INNER], y[64 * COLUMNS];
  fill(x, rows * INNER, 3);
  memset(y, 0, sizeof y);
  int64_t in_shape[] = {rows, INNER}, out_shape[] = {rows, COLUMNS};
  DLTensor in = f32(x, 2, in_shape), out = f32(y, 2, out_shape);
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, &out, 1));
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < COLUMNS; j++) {
      double sum = bias[j];
      for (int k = 0; k < INNER; k++) sum += (double)x[i * INNER + k] * weights[k * COLUMNS + j];
      if (fabs(y[i * COLUMNS + j] - fmax(sum, 0)) > 1e-5)
        fail_msg("rows %d: y[%d, %d] is %g, expected %g", rows, i, j, (double)y[i * COLUMNS + j], fmax(sum, 0));
    }
}

static void a_layer_is_right(void **state) {
  fill(weights, INNER * COLUMNS, 1);
  fill(bias, COLUMNS, 2);
  compile_case k = {.build = build_fixed, .threads = 2};
  tn_session *session = compile(&k);
  expect_layer(session, ROWS);
  finish(&k, session);
}

static void a_symbolic_number_of_rows_needs_no_compiling(void **state) {
  fill(weights, INNER * COLUMNS, 1);
  fill(bias, COLUMNS, 2);
  compile_case k = {.build = build_symbolic, .threads = 2};
  tn_session *session = compile(&k);
  for (int rows = 1; rows <= 64; rows += 7) expect_layer(session, rows);
  expect_layer(session, 14);
  finish(&k, session);
}

static void build_softmax(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  tn__value *x =
      tn__graph_input(g, "x", TN_F32, 2, (const tn__expr *const[]){tn__ir_index(ir, 5), tn__ir_index(ir, 33)});
  tn__graph_output(g, "y", tn__g_softmax(g, tn__g_binary(g, "add", x, x), 1, TN__SOFTMAX_PLAIN));
  tn__graph_output(g, "x again", x);
}

static void a_row_of_softmax_and_a_passed_input_are_right(void **state) {
  compile_case k = {.build = build_softmax, .threads = 1};
  tn_session *session = compile(&k);
  float x[5 * 33], y[5 * 33], again[5 * 33];
  fill(x, 5 * 33, 9);
  int64_t shape[] = {5, 33};
  DLTensor in = f32(x, 2, shape), out[2] = {f32(y, 2, shape), f32(again, 2, shape)};
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, out, 2));
  assert_memory_equal(x, again, sizeof x);
  for (int i = 0; i < 5; i++) {
    double sum = 0;
    for (int j = 0; j < 33; j++) sum += exp(2.0 * x[i * 33 + j]);
    for (int j = 0; j < 33; j++) assert_true(fabs(y[i * 33 + j] - exp(2.0 * x[i * 33 + j]) / sum) < 1e-6);
  }
  finish(&k, session);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_is_right),
                                     cmocka_unit_test(a_symbolic_number_of_rows_needs_no_compiling),
                                     cmocka_unit_test(a_row_of_softmax_and_a_passed_input_are_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
