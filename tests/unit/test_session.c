/* Executables from the writer, run through sessions: every storage, binding and mismatch. */
#include <pthread.h>
#include <stdlib.h>

#include "unit/check.h"
#include "unit/failing_allocator.h"
#include "unit/trampoline.h"

/* ---- kernels
 * --------------------------------------------------------------------------------------------------------- */

typedef struct add_job {
  const float *a, *b;
  float *c;
} add_job;

static int32_t add_piece(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  add_job *job = closure;
  for (int64_t i = begin; i < end; i++) job->c[i] = job->a[i] + job->b[i];
  return TN_KERNEL_OK;
}

/* c = a + b over scalars[0] elements, in parallel */
static int32_t add_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  add_job job = {buffers[0], buffers[1], buffers[2]};
  return env->parallel_for(env, add_piece, &job, scalars[0]);
}

/* b = 2 * a over scalars[0] elements */
static int32_t double_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  float *b = buffers[1];
  for (int64_t i = 0; i < scalars[0]; i++) b[i] = 2 * a[i];
  return TN_KERNEL_OK;
}

/* the i64 count of elements that are not zero */
static int32_t count_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  int64_t *count = buffers[1];
  *count = 0;
  for (int64_t i = 0; i < scalars[0]; i++) *count += a[i] != 0;
  return TN_KERNEL_OK;
}

/* the indices of elements that are not zero */
static int32_t find_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  int64_t *found = buffers[1];
  for (int64_t i = 0; i < scalars[0]; i++)
    if (a[i] != 0) *found++ = i;
  return TN_KERNEL_OK;
}

static int32_t failing_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return (int32_t)scalars[0];
}

/* ---- executables
 * ------------------------------------------------------------------------------------------------------- */

#define DIM(v) tn__operand_const(v)
#define SYM(s) tn__operand_scalar(s)
static const tn__operand nowhere = {0, 0, 0};

/* main(x: f32[n, 4], y: f32[n, 4]) -> (z: f32[n, 4]): t = x + y in the arena; z = 2 t + constant */
static tn__bytes build_main(test_exe *t) {
  static const float ones[4] = {1, 1, 1, 1};
  int add = test_exe_kernel(t, "add_0", add_kernel, 3, 1);
  int twice = test_exe_kernel(t, "double_1", double_kernel, 2, 1);
  int constant = tn__exe_constant(t->exe, "ones", TN_F32, 1, (int64_t[]){4}, ones, sizeof(ones));
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[2] = {SYM(n), DIM(4)}, row[1] = {DIM(4)};
  tn__exe_input(f, "x", TN_F32, 2, dims);
  tn__exe_input(f, "y", TN_F32, 2, dims);
  tn__exe_output(f, "z", TN_F32, 2, dims);
  int x = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 1, nowhere);
  int z = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  int sum = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_ARENA, 0, DIM(0));
  int ones_reg = tn__exe_register(f, TN_F32, 1, row, TN__STORAGE_CONSTANT, constant, nowhere);
  int four = tn__exe_emit_const(f, 4), sixteen = tn__exe_emit_const(f, 16), align = tn__exe_emit_const(f, 63);
  int mask = tn__exe_emit_const(f, -64);
  int count = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, four);
  int bytes = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, sixteen);
  int offset = tn__exe_emit_scalar_op(f, TN__SCALAR_AND, tn__exe_emit_scalar_op(f, TN__SCALAR_ADD, bytes, align), mask);
  int total = tn__exe_emit_scalar_op(f, TN__SCALAR_ADD, offset, sixteen);
  int tail = tn__exe_register(f, TN_F32, 1, row, TN__STORAGE_ARENA, 0, SYM(offset));
  tn__exe_arena(f, SYM(total));
  tn__exe_emit_kernel(f, add, (int[]){x, y}, 2, &sum, 1, &count, 1);
  tn__exe_emit_kernel(f, twice, &ones_reg, 1, &tail, 1, &four, 1); /* at a symbolic offset */
  tn__exe_emit_kernel(f, twice, &sum, 1, &z, 1, &count, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static tn_executable *loaded(tn__bytes bytes) {
  tn_executable *exe;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  return exe;
}

static _Alignas(64) float xs[64], ys[64], zs[64];

static void fill(void) {
  for (int i = 0; i < 64; i++) xs[i] = (float)i, ys[i] = 100.0f * (float)i, zs[i] = -1;
}

static tn_session *session_of(const tn_executable *exe) {
  tn_session *session;
  tn_session_options options = {.size = sizeof(options), .threads = 2};
  check_ok(tn_session_create(exe, &options, &session));
  return session;
}

static void runs_with_session_owned_outputs(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_main(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  fill();
  for (int64_t n = 1; n <= 16; n += 5) {
    int64_t shape[2] = {n, 4};
    DLTensor x = test_tensor(TN_F32, 2, shape, xs), y = test_tensor(TN_F32, 2, shape, ys), z;
    check_ok(tn_session_set_input(session, "main", "x", &x, TN_BIND_NEXT));
    check_ok(tn_session_set_input_at(session, NULL, 1, &y, TN_BIND_NEXT));
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output(session, "main", 0, &z));
    assert_int_equal(z.ndim, 2);
    assert_true(z.shape[0] == n && z.shape[1] == 4);
    for (int i = 0; i < n * 4; i++) assert_true(((float *)z.data)[i] == 202.0f * (float)i);
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- values of data-dependent size
 * --------------------------------------------------------------------------------------- */

/* nonzero(x: f32[n]) -> (found: i64[count], doubled: f32[count / 2, 2]), the second through a DYNAMIC register and a
 * view of it */
static tn__bytes build_nonzero(test_exe *t) {
  int count_k = test_exe_kernel(t, "count", count_kernel, 2, 1), find_k = test_exe_kernel(t, "find", find_kernel, 2, 1);
  int twice = test_exe_kernel(t, "double", double_kernel, 2, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "nonzero");
  int n = tn__exe_symbol(f, "n"), count = tn__exe_symbol(f, "count"), half = tn__exe_scalar(f);
  tn__operand in[1] = {SYM(n)}, out[1] = {SYM(count)}, pairs[2] = {SYM(half), DIM(2)};
  tn__exe_input(f, "x", TN_F32, 1, in);
  tn__exe_output(f, "found", TN_I64, 1, out);
  tn__exe_output(f, "doubled", TN_F32, 2, pairs);
  int x = tn__exe_register(f, TN_F32, 1, in, TN__STORAGE_INPUT, 0, nowhere);
  int found = tn__exe_register(f, TN_I64, 1, out, TN__STORAGE_OUTPUT, 0, nowhere);
  int doubled = tn__exe_register(f, TN_F32, 2, pairs, TN__STORAGE_OUTPUT, 1, nowhere);
  int counted = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_ARENA, 0, nowhere);
  int part = tn__exe_register(f, TN_F32, 1, out, TN__STORAGE_DYNAMIC, 0, nowhere);
  int moved = tn__exe_register(f, TN_F32, 1, out, TN__STORAGE_DYNAMIC, 0, nowhere);
  int view = tn__exe_register(f, TN_F32, 2, pairs, TN__STORAGE_VIEW, moved, nowhere);
  tn__exe_arena(f, DIM(64));
  tn__exe_emit_kernel(f, count_k, &x, 1, &counted, 1, &n, 1);
  tn__exe_emit(f, TN__OP_SCALAR_LOAD, (uint32_t[]){(uint32_t)count, (uint32_t)counted, 0}, 3);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)found}, 1);
  tn__exe_emit_kernel(f, find_k, &x, 1, &found, 1, &n, 1);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)part}, 1);
  tn__exe_emit_kernel(f, twice, &x, 1, &part, 1, &count, 1);
  tn__exe_emit(f, TN__OP_MOVE, (uint32_t[]){(uint32_t)moved, (uint32_t)part}, 2);
  int two = tn__exe_emit_const(f, 2);
  uint32_t divide[4] = {(uint32_t)half, (uint32_t)count, (uint32_t)two, TN__SCALAR_FLOORDIV};
  tn__exe_emit(f, TN__OP_SCALAR_OP, divide, 4);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)doubled}, 1);
  tn__exe_emit(f, TN__OP_COPY, (uint32_t[]){(uint32_t)doubled, (uint32_t)view}, 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static void sizes_may_depend_on_values(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_nonzero(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  _Alignas(64) float values[6] = {1, 0, 3, 4, 0, 6};
  int64_t shape[1] = {6};
  DLTensor x = test_tensor(TN_F32, 1, shape, values), found, doubled;
  check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_PERSISTENT));
  for (int i = 0; i < 3; i++) {
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output(session, NULL, 0, &found));
    check_ok(tn_session_get_output(session, NULL, 1, &doubled));
    assert_int_equal(found.shape[0], 4);
    assert_memory_equal(found.data, ((int64_t[]){0, 2, 3, 5}), 32);
    assert_true(doubled.shape[0] == 2 && doubled.shape[1] == 2);
    assert_memory_equal(doubled.data, ((float[]){2, 0, 6, 8}), 16);
  }
  /* Three values cannot be seen as pairs. */
  values[5] = 0;
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "a value of shape [3] cannot be seen with the shape [1, 2]");
  check_fails(tn_session_get_output(session, NULL, 0, &found), TN_FAILED_PRECONDITION,
              "function \"nonzero\" has no results: no invoke of it succeeded yet, or the last one failed");
  values[5] = 6;
  check_ok(tn_session_invoke(session, NULL));
  /* Bound, the shape must be the one that comes out. */
  _Alignas(64) int64_t indices[8];
  int64_t four[1] = {4}, five[1] = {5};
  DLTensor bound = test_tensor(TN_I64, 1, four, indices);
  check_ok(tn_session_set_output(session, NULL, "found", &bound, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  assert_memory_equal(indices, ((int64_t[]){0, 2, 3, 5}), 32);
  bound.shape = five;
  check_ok(tn_session_set_output(session, NULL, "found", &bound, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"found\": the bound tensor has shape [5] and these inputs make [4]");
  const int64_t *shapes[1] = {shape};
  int64_t inferred[2][TN_MAX_RANK];
  check_fails(tn_function_infer_shapes(exe, NULL, shapes, inferred), TN_FAILED_PRECONDITION,
              "the shape of output \"found\" depends on the values of inputs: it is known after an invoke");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- what kernels report
 * -------------------------------------------------------------------------------------------------- */

static tn__bytes build_failing(test_exe *t) {
  int kernel = test_exe_kernel(t, "gather_3", failing_kernel, 2, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_output(f, "y", TN_F32, 1, dims);
  int x = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  int five = tn__exe_emit_const(f, 6);
  tn__exe_emit_assert(f, tn__exe_emit_scalar_op(f, TN__SCALAR_NE, n, five), "node \"reshape\": six is one too many");
  tn__exe_emit_kernel(f, kernel, &x, 1, &y, 1, &n, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static void failures_name_the_kernel(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_failing(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  static const struct {
    tn_status_code code;
    const char *text;
  } expected[8] = {
      {TN_OK, NULL},
      {TN_OUT_OF_RANGE, "kernel \"gather_3\": index out of range"},
      {TN_OUT_OF_RANGE, "kernel \"gather_3\": integer division by zero"},
      {TN_OUT_OF_RANGE, "kernel \"gather_3\": a value that the operator does not allow"},
      {TN_CANCELLED, "kernel \"gather_3\": cancelled"},
      {TN_INTERNAL, "kernel \"gather_3\": returned the unknown result 5"},
      {TN_INVALID_ARGUMENT, "node \"reshape\": six is one too many"},
      {TN_INTERNAL, "kernel \"gather_3\": returned the unknown result 7"},
  };
  for (int64_t n = 0; n < 8; n++) {
    DLTensor x = test_tensor(TN_F32, 1, &n, xs);
    check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_NEXT));
    if (n == 0)
      check_ok(tn_session_invoke(session, NULL));
    else
      check_fails(tn_session_invoke(session, NULL), expected[n].code, expected[n].text);
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_with_session_owned_outputs),
      cmocka_unit_test(sizes_may_depend_on_values),
      cmocka_unit_test(failures_name_the_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
