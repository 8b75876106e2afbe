/* Branches, loops and calls as functions of the executable, into memory of the session's and of the caller's. */
#include <stdlib.h>
#include <string.h>

#include "compile_check.h"
#include "tenon/kernel_abi.h"

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static tn__value *vector(tn__graph *g, const char *name, const char *symbol) {
  tn__value *x = tn__graph_input(g, name, TN_F32, 1, (const tn__expr *const[]){NULL});
  tn__graph_input_symbol(g, symbol, x, 0);
  return x;
}

static tn__value *scalar(tn__graph *g, const char *name, tn_dtype dtype) {
  return tn__graph_input(g, name, dtype, 0, NULL);
}

static tn__graph *body_of(tn__graph *g, const char *name) { return tn__graph_create(tn__graph_ir(g), name); }

static tn__value *twice_as_long(tn__graph *g, tn__value *x) {
  return tn__g_concatenate(g, (tn__value *const[]){x, x}, 2, 0);
}

/* ---- running: into the session's memory and into the caller's, twice each, with equal bytes ---------------------- */

typedef struct given {
  const float *x;
  int count;
  int64_t number;
  bool flag;
} given;

static int inputs_of(const given *in, int64_t *shape, DLTensor *out, bool number, bool flag) {
  int count = 0;
  shape[0] = in->count;
  out[count++] = f32((float *)(uintptr_t)in->x, 1, shape);
  if (number)
    out[count++] =
        (DLTensor){.data = (void *)(uintptr_t)&in->number, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLInt, 64, 1}};
  if (flag)
    out[count++] =
        (DLTensor){.data = (void *)(uintptr_t)&in->flag, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLBool, 8, 1}};
  return count;
}

static void expect(tn_session *session, const DLTensor *inputs, int input_count, const float *want, int count) {
  float *memory = aligned_alloc(TN_KERNEL_ALIGNMENT, 4096 * sizeof(float));
  assert_non_null(memory);
  for (int round = 0; round < 2; round++) {
    DLTensor got;
    check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, input_count, NULL, 0));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    assert_int_equal(got.ndim, 1);
    assert_int_equal(got.shape[0], count);
    assert_memory_equal(got.data, want, (size_t)count * sizeof(float));
    memset(memory, 0x55, 4096 * sizeof(float));
    int64_t shape[1] = {count};
    DLTensor bound = f32(memory + round, 1, shape); /* the second time off the machine's alignment */
    check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, input_count, &bound, 1));
    assert_memory_equal(memory + round, want, (size_t)count * sizeof(float));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    if (round == 0) assert_ptr_equal(got.data, memory); /* written in place, whatever made it */
  }
  free(memory);
}

static const float ramp[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* ---- if ---------------------------------------------------------------------------------------------------------- */

/* x + 1, or x twice over: the sizes differ. */
static void build_if(tn__graph *g) {
  tn__value *x = vector(g, "x", "n"), *flag = scalar(g, "flag", TN_BOOL);
  tn__graph *yes = body_of(g, "yes"), *no = body_of(g, "no");
  tn__graph_output(yes, "r", tn__g_binary_s(yes, "add", vector(yes, "a", "n"), 1));
  tn__graph_output(no, "r", twice_as_long(no, vector(no, "a", "n")));
  tn__graph_output(g, "y", tn__g_if(g, flag, yes, no, &x, 1)->outputs[0]);
}

static void branches_of_different_size(void **state) {
  compile_case k = {.build = build_if, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[1];
  DLTensor in[3];
  int count = inputs_of(&(given){.x = ramp, .count = 3, .flag = true}, shape, in, false, true);
  expect(session, in, count, (float[]){2, 3, 4}, 3);
  count = inputs_of(&(given){.x = ramp, .count = 2, .flag = false}, shape, in, false, true);
  expect(session, in, count, (float[]){1, 2, 1, 2}, 4);
  finish(&k, session);
}

/* The operand itself, or a constant; seen through a view of another shape. */
static void build_passed_through(tn__graph *g) {
  static const float fixed[4] = {9, 8, 7, 6};
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *const four[] = {tn__ir_index(ir, 4)}, *const square[] = {tn__ir_index(ir, 2), tn__ir_index(ir, 2)};
  tn__value *x = tn__graph_input(g, "x", TN_F32, 1, four), *flag = scalar(g, "flag", TN_BOOL);
  tn__graph *yes = body_of(g, "yes"), *no = body_of(g, "no");
  tn__graph_output(yes, "r", tn__graph_input(yes, "a", TN_F32, 2, square));
  tn__graph_input(no, "a", TN_F32, 2, square);
  tn__graph_output(no, "r", tn__g_constant_value(no, TN_F32, 2, (const int64_t[]){2, 2}, fixed, false));
  tn__value *wide = tn__g_reshape(g, x, 2, square);
  tn__graph_output(g, "y", tn__g_reshape(g, tn__g_if(g, flag, yes, no, &wide, 1)->outputs[0], 1, four));
}

static void branches_that_make_nothing(void **state) {
  compile_case k = {.build = build_passed_through, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[1];
  DLTensor in[3];
  int count = inputs_of(&(given){.x = ramp, .count = 4, .flag = true}, shape, in, false, true);
  expect(session, in, count, (float[]){1, 2, 3, 4}, 4);
  count = inputs_of(&(given){.x = ramp, .count = 4, .flag = false}, shape, in, false, true);
  expect(session, in, count, (float[]){9, 8, 7, 6}, 4);
  finish(&k, session);
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

/* `number` times: y = y + x, where x is kept and the count goes down. */
static void build_sum(tn__graph *g) {
  tn__value *x = vector(g, "x", "n"), *number = scalar(g, "number", TN_I64);
  tn__graph *condition = body_of(g, "condition"), *body = body_of(g, "body");
  tn__value *left = scalar(condition, "left", TN_I64);
  vector(condition, "kept", "n");
  vector(condition, "sum", "n");
  tn__graph_output(condition, "more",
                   tn__g_compare(condition, TN__CMP_GT, left, tn__g_scalar_i64(condition, TN_I64, 0)));
  tn__value *count = scalar(body, "left", TN_I64), *kept = vector(body, "kept", "n"), *sum = vector(body, "sum", "n");
  tn__graph_output(body, "left_out", tn__g_binary_s(body, "subtract", count, 1));
  tn__graph_output(body, "kept_out", kept);
  tn__graph_output(body, "sum_out", tn__g_binary(body, "add", sum, kept));
  tn__value *start[] = {number, x, x};
  tn__graph_output(g, "y", tn__g_while(g, condition, body, start, 3)->outputs[2]);
}

static void a_loop_of_any_number_of_rounds(void **state) {
  compile_case k = {.build = build_sum, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[1];
  DLTensor in[3];
  for (int rounds = 0; rounds < 5; rounds++) {
    float want[3];
    for (int i = 0; i < 3; i++) want[i] = ramp[i] * (float)(rounds + 1);
    int count = inputs_of(&(given){.x = ramp, .count = 3, .number = rounds}, shape, in, true, false);
    DLTensor got;
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, count, NULL, 0));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    expect(session, in, count, want, 3);
  }
  finish(&k, session);
}

/* Twice as long in each round, until it has `number` elements. */
static void build_growing(tn__graph *g) {
  tn__value *x = vector(g, "x", "n"), *number = scalar(g, "number", TN_I64);
  tn__graph *condition = body_of(g, "condition"), *body = body_of(g, "body");
  tn__value *now = vector(condition, "now", "m"), *limit = scalar(condition, "limit", TN_I64);
  const tn__expr *size[] = {now->dims[0]};
  tn__value *length = tn__g_from_elements(condition, TN_I64, size, 1, 0);
  tn__graph_output(condition, "more", tn__g_compare(condition, TN__CMP_LT, length, limit));
  tn__graph_output(body, "now_out", twice_as_long(body, vector(body, "now", "m")));
  tn__graph_output(body, "limit_out", scalar(body, "limit", TN_I64));
  tn__value *start[] = {x, number};
  tn__value *grown = tn__g_while(g, condition, body, start, 2)->outputs[0];
  tn__graph_output(g, "y", tn__g_binary_s(g, "multiply", grown, 10));
}

static void a_loop_that_grows_its_variable(void **state) {
  compile_case k = {.build = build_growing, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[1];
  DLTensor in[3];
  int count = inputs_of(&(given){.x = ramp, .count = 3, .number = 9}, shape, in, true, false);
  expect(session, in, count, (float[]){10, 20, 30, 10, 20, 30, 10, 20, 30, 10, 20, 30}, 12);
  count = inputs_of(&(given){.x = ramp, .count = 3, .number = 3}, shape, in, true, false);
  expect(session, in, count, (float[]){10, 20, 30}, 3);
  finish(&k, session);
}

/* A condition over floats has no scalar form: its body is called. And a loop inside of a branch inside of a loop. */
static tn__node *doubling(tn__graph *g, tn__value *x, float limit) {
  tn__graph *condition = body_of(g, "condition"), *body = body_of(g, "body");
  tn__value *sum =
      tn__g_reduce(condition, TN__REDUCE_SUM, vector(condition, "now", "m"), (const int64_t[]){0}, 1, false);
  tn__graph_output(condition, "more",
                   tn__g_compare(condition, TN__CMP_LT, sum, tn__g_scalar(condition, TN_F32, (double)limit)));
  tn__graph_output(body, "next", tn__g_binary_s(body, "multiply", vector(body, "now", "m"), 2));
  return tn__g_while(g, condition, body, &x, 1);
}

static void build_nested(tn__graph *g) {
  tn__value *x = vector(g, "x", "n"), *number = scalar(g, "number", TN_I64);
  tn__graph *condition = body_of(g, "rounds"), *body = body_of(g, "round");
  tn__graph *yes = body_of(g, "yes"), *no = body_of(g, "no");
  tn__value *left = scalar(condition, "left", TN_I64);
  vector(condition, "now", "n");
  tn__graph_output(condition, "more",
                   tn__g_compare(condition, TN__CMP_GT, left, tn__g_scalar_i64(condition, TN_I64, 0)));
  tn__graph_output(yes, "r", doubling(yes, vector(yes, "a", "n"), 100)->outputs[0]);
  tn__graph_output(no, "r", tn__g_binary_s(no, "add", vector(no, "a", "n"), 1));
  tn__value *count = scalar(body, "left", TN_I64), *now = vector(body, "now", "n");
  tn__value *last = tn__g_compare(body, TN__CMP_EQ, count, tn__g_scalar_i64(body, TN_I64, 1));
  tn__graph_output(body, "left_out", tn__g_binary_s(body, "subtract", count, 1));
  tn__graph_output(body, "now_out", tn__g_if(body, last, yes, no, &now, 1)->outputs[0]);
  tn__value *start[] = {number, x};
  tn__graph_output(g, "y", tn__g_while(g, condition, body, start, 2)->outputs[1]);
}

static void loops_in_branches_in_loops(void **state) {
  compile_case k = {.build = build_nested, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[1];
  DLTensor in[3];
  int count = inputs_of(&(given){.x = ramp, .count = 2, .number = 3}, shape, in, true, false);
  expect(session, in, count, (float[]){48, 64}, 2); /* (3, 4), then doubled until the sum is at least 100 */
  finish(&k, session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(branches_of_different_size),     cmocka_unit_test(branches_that_make_nothing),
      cmocka_unit_test(a_loop_of_any_number_of_rounds), cmocka_unit_test(a_loop_that_grows_its_variable),
      cmocka_unit_test(loops_in_branches_in_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
