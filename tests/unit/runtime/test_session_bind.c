/* Bindings: several at once, kept ones, capacity for sizes that depend on values, strides, cancelling; and what stays
 * when one of them is refused. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "unit/failing_allocator.h"
#include "unit/session_models.h"

static void several_are_bound_or_none(void **state) {
  fixture m;
  open_main(&m);
  tn_session *s = m.session;
  DLTensor both[2] = {m.x, m.y}, swapped[2] = {m.y, m.x};
  static const char *const names[2] = {"x", "y"}, *const backwards[2] = {"y", "x"}, *const twice[2] = {"x", "x"};
  static const char *const unknown[2] = {"x", "w"};
  check_ok(tn_session_set_inputs(s, NULL, NULL, both, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(s, NULL, NULL, &m.z, 1, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(s, NULL));
  check_z(zs, 12);
  check_ok(tn_session_set_inputs(s, NULL, names, both, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_inputs(s, NULL, backwards, swapped, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(s, NULL));
  check_z(zs, 12);
  check_fails(tn_session_set_inputs(s, NULL, NULL, both, 1, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "function \"main\" takes 2 inputs; the call gives 1");
  check_fails(tn_session_set_outputs(s, NULL, NULL, both, 2, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "function \"main\" takes 1 outputs; the call gives 2");
  check_fails(tn_session_set_inputs(s, NULL, twice, both, 2, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\" is given twice in one call, as number 0 and 1");
  /* The first would be fine; still it is not bound when the second is refused. */
  DLTensor wrong[2] = {test_tensor(TN_F32, 2, m.shape, ys), m.y};
  wrong[1].dtype = tn_dtype_to_dl(TN_I32);
  check_fails(tn_session_set_inputs(s, NULL, NULL, wrong, 2, TN_BIND_PERSISTENT), TN_INVALID_ARGUMENT,
              "input \"y\": the tensor is i32 and the executable wants f32");
  check_fails(tn_session_set_inputs(s, NULL, unknown, both, 2, TN_BIND_PERSISTENT), TN_NOT_FOUND,
              "function \"main\" has no input \"w\"; it has \"x\", \"y\"");
  memset(zs, 0, sizeof(zs));
  check_ok(tn_session_invoke(s, NULL));
  check_z(zs, 12);
  DLTensor none = m.z, result;
  none.data = NULL;
  check_ok(tn_session_set_outputs(s, NULL, NULL, &none, 1, TN_BIND_NEXT)); /* unbinds */
  check_ok(tn_session_invoke(s, NULL));
  check_ok(tn_session_get_output(s, NULL, 0, &result));
  assert_ptr_not_equal(result.data, zs);
  close_main(&m);
}

static void what_is_null_is_refused(void **state) {
  fixture m;
  open_main(&m);
  DLTensor shapeless = m.x;
  shapeless.shape = NULL;
  check_fails(tn_session_set_input(m.session, NULL, "x", &shapeless, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor has 2 dimensions and no shape: it is NULL");
  shapeless.ndim = 3;
  check_fails(tn_session_set_output_at(m.session, NULL, 0, &shapeless, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"z\": the tensor has 3 dimensions and no shape: it is NULL");
  check_fails(tn_session_set_input(m.session, NULL, NULL, &m.x, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "function \"main\": the input has no name: it is NULL");
  tn_tensor *tensor;
  check_fails(tn_tensor_create(TN_F32, 2, NULL, NULL, &tensor), TN_INVALID_ARGUMENT,
              "a tensor of rank 2 without a shape: it is NULL");
  check_ok(tn_tensor_create(TN_F32, 0, NULL, NULL, &tensor));
  tn_tensor_release(tensor);
  tn_executable *exe;
  check_fails(tn_executable_load(NULL, NULL, &exe), TN_INVALID_ARGUMENT,
              "an executable is loaded from a path, which is NULL");
  check_fails(tn_executable_verify(NULL, NULL), TN_INVALID_ARGUMENT,
              "an executable is loaded from a path, which is NULL");
  close_main(&m);
}

static void results_stay_in_the_session(void **state) {
  fixture m;
  open_main(&m);
  DLTensor inputs[2] = {m.x, m.y}, result;
  check_ok(tn_session_invoke_stateful(m.session, "main", inputs, 2));
  check_ok(tn_session_get_output(m.session, "main", 0, &result));
  check_z(result.data, 12);
  check_fails(tn_session_invoke_stateful(m.session, "main", inputs, 3), TN_INVALID_ARGUMENT,
              "function \"main\" takes 2 inputs; the call gives 3");
  close_main(&m);
}

static void in_place_means_no_copy(void **state) {
  fixture m;
  open_main(&m);
  tn_session *s = m.session;
  DLTensor off = m.x, strided = m.x;
  off.byte_offset = 2;
  int64_t strides[2] = {8, 1};
  strided.strides = strides;
  check_ok(tn_session_set_input(s, NULL, "x", &off, TN_BIND_NEXT));
  check_fails(tn_session_set_input(s, NULL, "x", &off, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's data is aligned to 2 bytes; to be used in place it must be to 4");
  check_fails(tn_session_set_output(s, NULL, "z", &strided, TN_BIND_PERSISTENT_IN_PLACE), TN_INVALID_ARGUMENT,
              "output \"z\": the tensor of shape [3, 4] has strides [8, 1]: to be used in place it must be dense and "
              "row-major");
  check_ok(tn_session_set_input(s, NULL, "x", &m.x, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_input(s, NULL, "y", &m.y, TN_BIND_NEXT_IN_PLACE));
  check_ok(tn_session_invoke(s, NULL));
  check_fails(tn_session_invoke(s, NULL), TN_FAILED_PRECONDITION, "input \"y\" of function \"main\" is not bound");
  close_main(&m);
}

static void outputs_may_be_strided(void **state) {
  fixture m;
  open_main(&m);
  static _Alignas(64) float store[64];
  memset(store, 0, sizeof(store));
  int64_t strides[2] = {1, 3};
  DLTensor inputs[2] = {m.x, m.y}, out = m.z;
  out.data = store, out.strides = strides;
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, inputs, 2, &out, 1));
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) assert_true(store[i + 3 * j] == 202.0f * (float)(4 * i + j));
  for (int i = 12; i < 64; i++) assert_true(store[i] == 0);
  close_main(&m);
}

/* Kept bindings see inputs that were changed in place, through copies too, and every new binding is noticed. */
static void kept_bindings_follow_their_data(void **state) {
  fixture m;
  open_main(&m);
  static _Alignas(64) float y[64], out[64], other[64];
  static _Alignas(64) char shifted[64], results[128];
  memcpy(y, ys, 12 * sizeof(float));
  m.y.data = shifted + 2, m.z.data = results + 1;
  check_ok(tn_session_set_input(m.session, NULL, "x", &m.x, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(m.session, NULL, "y", &m.y, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(m.session, NULL, "z", &m.z, TN_BIND_PERSISTENT));
  for (int round = 0; round < 4; round++) {
    xs[0] = (float)round, y[0] = 10.0f * (float)round;
    memcpy(shifted + 2, y, 12 * sizeof(float));
    check_ok(tn_session_invoke(m.session, NULL));
    memcpy(out, results + 1, 12 * sizeof(float));
    assert_true(out[0] == 22.0f * (float)round);
    assert_true(out[1] == 202.0f);
  }
  /* Other shapes and other memory between invokes on the kept ones. */
  m.shape[0] = 5;
  m.z.data = other;
  DLTensor wide[2] = {test_tensor(TN_F32, 2, m.shape, xs), test_tensor(TN_F32, 2, m.shape, ys)};
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, wide, 2, &m.z, 1));
  assert_true(other[19] == 202.0f * 19);
  memset(results, 0, sizeof(results));
  check_ok(tn_session_invoke(m.session, NULL));
  memcpy(out, results + 1, 12 * sizeof(float));
  assert_true(out[1] == 202.0f);
  check_ok(tn_session_invoke(m.session, NULL));
  m.shape[0] = 3;
  check_ok(tn_session_set_output(m.session, NULL, "z", &m.z, TN_BIND_PERSISTENT));
  other[1] = 0;
  check_ok(tn_session_invoke(m.session, NULL));
  check_ok(tn_session_invoke(m.session, NULL));
  assert_true(other[1] == 202.0f);
  close_main(&m);
}

static void kept_bindings_allocate_nothing(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_main(&t));
  test_exe_release(&t);
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session *session;
  tn_session_options options = {.size = sizeof(options), .allocator = &memory.allocator, .threads = 2};
  check_ok(tn_session_create(exe, &options, &session));
  fill();
  int64_t shape[2] = {3, 4};
  DLTensor inputs[2] = {test_tensor(TN_F32, 2, shape, xs), test_tensor(TN_F32, 2, shape, ys)};
  DLTensor z = test_tensor(TN_F32, 2, shape, zs);
  check_ok(tn_session_set_inputs(session, NULL, NULL, inputs, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(session, NULL, NULL, &z, 1, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(session, NULL));
  memory.fail_at = memory.calls; /* any further one fails */
  for (int round = 0; round < 100; round++) {
    xs[11] = (float)round;
    check_ok(tn_session_invoke(session, NULL));
    assert_true(zs[11] == 2 * ((float)round + ys[11]));
  }
  assert_int_equal(memory.calls, memory.fail_at);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- capacity --------------------------------------------------------------------------------------------------- */

static void late_outputs_take_what_they_need(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_nonzero(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  static _Alignas(64) float values[6];
  static _Alignas(64) int64_t found[8];
  static _Alignas(64) float doubled[8];
  int64_t shape[1] = {6}, room[1] = {8}, pairs[2] = {1, 2};
  DLTensor x = test_tensor(TN_F32, 1, shape, values), result;
  DLTensor outputs[2] = {test_tensor(TN_I64, 1, room, found), test_tensor(TN_F32, 2, pairs, doubled)};
  memcpy(values, ((float[]){1, 0, 0, 0, 0, 6}), sizeof(values));
  for (int round = 0; round < 8; round++) found[round] = -1;
  check_ok(tn_session_set_inputs(session, NULL, NULL, &x, 1, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_PERSISTENT));
  for (int round = 0; round < 2; round++) check_ok(tn_session_invoke(session, NULL));
  assert_true(found[0] == 0 && found[1] == 5 && found[2] == -1);
  assert_true(doubled[0] == 2 && doubled[1] == 0);
  check_ok(tn_session_get_output(session, NULL, 0, &result));
  assert_ptr_equal(result.data, found);
  assert_int_equal(result.shape[0], 2);
  /* Too small: the status tells, that buffer is untouched, everything else is done, and nothing is lost. */
  memcpy(values, ((float[]){1, 0, 3, 4, 0, 6}), sizeof(values));
  for (int round = 0; round < 2; round++) {
    check_fails(
        tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
        "output \"doubled\": the value has shape [2, 2] and needs 16 bytes, and the bound tensor of shape [1, 2] "
        "has 8; tn_session_get_output() has the value");
    assert_true(doubled[0] == 2 && doubled[1] == 0);
    assert_memory_equal(found, ((int64_t[]){0, 2, 3, 5, -1}), 40);
    check_ok(tn_session_get_output(session, NULL, 1, &result));
    assert_ptr_not_equal(result.data, doubled);
    assert_true(result.shape[0] == 2 && result.shape[1] == 2);
    assert_memory_equal(result.data, ((float[]){2, 0, 6, 8}), 16);
  }
  /* The same through a copy, because the buffer is not aligned. */
  outputs[1].byte_offset = 2, pairs[0] = 3;
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_PERSISTENT));
  memcpy((char *)doubled + 18, &(float){-1}, 4);
  for (int round = 0; round < 2; round++) check_ok(tn_session_invoke(session, NULL));
  assert_memory_equal((char *)doubled + 2, ((float[]){2, 0, 6, 8, -1}), 20);
  int64_t strides[2] = {4, 1};
  outputs[1].strides = strides;
  check_fails(
      tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
      "output \"doubled\": the tensor of shape [3, 2] has strides [4, 1]: an output whose size depends on values "
      "must be dense and row-major");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* range(x: f32[n], count: i64[]) -> (found: i64[count + n], twice: f32[n], pairs: f32[count, 2]): indices from 0 on;
 * 2 x; pairs of a constant. The prologue reads `count`. */
static int32_t range_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int64_t *found = buffers[0];
  for (int64_t i = 0; i < scalars[0]; i++) found[i] = i;
  return TN_KERNEL_OK;
}

static int32_t pairs_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  float *pairs = buffers[0];
  for (int64_t i = 0; i < 2 * scalars[0]; i++) pairs[i] = (float)i;
  return TN_KERNEL_OK;
}

static tn__bytes build_range(test_exe *t) {
  int range = test_exe_kernel(t, "range", range_kernel, 1, 1),
      twice = test_exe_kernel(t, "double", double_kernel, 2, 1);
  int pair = test_exe_kernel(t, "pairs", pairs_kernel, 1, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "range");
  int n = tn__exe_symbol(f, "n"), count = tn__exe_scalar(f), total = tn__exe_scalar(f), one = tn__exe_scalar(f);
  tn__operand in[1] = {SYM(n)}, out[1] = {SYM(total)}, pairs[2] = {SYM(count), DIM(2)};
  tn__exe_input(f, "x", TN_F32, 1, in);
  tn__exe_input(f, "count", TN_I64, 0, NULL);
  tn__exe_output(f, "found", TN_I64, 1, out);
  tn__exe_output(f, "twice", TN_F32, 1, in);
  tn__exe_output(f, "pairs", TN_F32, 2, pairs);
  int x = tn__exe_register(f, TN_F32, 1, in, TN__STORAGE_INPUT, 0, nowhere);
  int given = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_INPUT, 1, nowhere);
  int found = tn__exe_register(f, TN_I64, 1, out, TN__STORAGE_OUTPUT, 0, nowhere);
  int doubled = tn__exe_register(f, TN_F32, 1, in, TN__STORAGE_OUTPUT, 1, nowhere);
  int made = tn__exe_register(f, TN_F32, 2, pairs, TN__STORAGE_OUTPUT, 2, nowhere);
  tn__exe_emit(f, TN__OP_SCALAR_LOAD, W((uint32_t)count, (uint32_t)given, 0), 3);
  tn__exe_emit(f, TN__OP_SCALAR_CONST, W((uint32_t)one, 1, 0), 3);
  tn__exe_emit(f, TN__OP_SCALAR_SELECT, W((uint32_t)total, (uint32_t)one, (uint32_t)count, (uint32_t)n), 4);
  tn__exe_emit(f, TN__OP_SCALAR_OP, W((uint32_t)total, (uint32_t)total, (uint32_t)n, TN__SCALAR_ADD), 4);
  tn__exe_emit_kernel(f, range, NULL, 0, &found, 1, &total, 1);
  tn__exe_emit_kernel(f, twice, &x, 1, &doubled, 1, &n, 1);
  tn__exe_emit_kernel(f, pair, NULL, 0, &made, 1, &count, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

/* So do outputs whose size the prologue knows from values, before anything has run. */
static void known_sizes_of_values_take_what_they_need(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_range(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  fill();
  static const tn_size_rule rules[3] = {TN_SIZE_CAPACITY, TN_SIZE_EXACT, TN_SIZE_CAPACITY};
  for (int i = 0; i < 3; i++) assert_int_equal(tn_executable_output(exe, NULL, i)->size_rule, rules[i]);
  for (int i = 0; i < 2; i++) assert_int_equal(tn_executable_input(exe, NULL, i)->size_rule, TN_SIZE_EXACT);
  int64_t n[1] = {3}, shapes[3][TN_MAX_RANK], room[1] = {16}, rows[2] = {4, 2}, count = 2;
  check_ok(tn_function_infer_shapes(exe, NULL, (const int64_t *const[]){n, NULL}, shapes));
  assert_true(shapes[0][0] == -1 && shapes[1][0] == 3 && shapes[2][0] == -1 && shapes[2][1] == 2);
  _Alignas(64) int64_t found[16];
  _Alignas(64) float pairs[24];
  DLTensor in[2] = {test_tensor(TN_F32, 1, n, xs), test_tensor(TN_I64, 0, NULL, &count)}, result;
  DLTensor out[3] = {test_tensor(TN_I64, 1, room, found), test_tensor(TN_F32, 1, n, zs),
                     test_tensor(TN_F32, 2, rows, pairs)};
  check_ok(tn_session_set_inputs(session, NULL, NULL, in, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(session, NULL, NULL, out, 3, TN_BIND_PERSISTENT));
  for (int round = 0; round < 6; round++) {
    count = 4 - round % 3;
    memset(found, 0xff, sizeof(found)), memset(pairs, 0xff, sizeof(pairs));
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output(session, NULL, 0, &result));
    assert_true(result.data == found && result.shape[0] == count + 3);
    for (int i = 0; i < 16; i++) assert_int_equal(found[i], i < count + 3 ? i : -1);
    check_ok(tn_session_get_output(session, NULL, 2, &result));
    assert_true(result.data == pairs && result.shape[0] == count && result.shape[1] == 2);
    for (int i = 0; i < 2 * count; i++) assert_true(pairs[i] == (float)i);
    assert_memory_equal(pairs + 2 * count, (uint64_t[]){UINT64_MAX}, 8);
  }
  /* Too small, before anything has run: the others are there, and nothing is lost. Then it fits again. */
  count = 5, found[0] = 7;
  memset(pairs, 0, sizeof(pairs));
  for (int round = 0; round < 2; round++) {
    check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
                "output \"pairs\": the value has shape [5, 2] and needs 40 bytes, and the bound tensor of shape [4, 2] "
                "has 32; tn_session_get_output() has the value");
    assert_true(found[0] == 0 && found[7] == 7 && pairs[1] == 0);
    check_ok(tn_session_get_output(session, NULL, 2, &result));
    assert_true(result.data != pairs && result.shape[0] == 5 && ((float *)result.data)[9] == 9);
  }
  count = 1;
  check_ok(tn_session_invoke(session, NULL));
  assert_true(pairs[1] == 1);
  /* Through a copy; of other strides with just the value's shape. */
  int64_t strides[2] = {1, 6};
  out[0].byte_offset = 1, room[0] = 12;
  out[2].strides = strides;
  check_ok(tn_session_set_outputs(session, NULL, NULL, out, 3, TN_BIND_PERSISTENT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"pairs\": the bound tensor has shape [4, 2] and these inputs make [1, 2]");
  count = 4;
  memset(found, 0xff, sizeof(found));
  check_ok(tn_session_invoke(session, NULL));
  for (int i = 0; i < 8; i++) {
    int64_t index;
    memcpy(&index, (char *)found + 1 + 8 * i, 8);
    assert_int_equal(index, i < 7 ? i : -1);
    assert_true(pairs[i / 2 + i % 2 * 6] == (float)i);
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- cancelling ------------------------------------------------------------------------------------------------- */

static void a_cancelled_invoke_ends(void **state) {
  fixture m;
  open_main(&m);
  DLTensor inputs[2] = {m.x, m.y}, result;
  check_ok(tn_session_invoke_stateful(m.session, NULL, inputs, 2));
  tn_session_cancel(m.session);
  check_fails(tn_session_invoke_stateful(m.session, NULL, inputs, 2), TN_CANCELLED,
              "the invoke was cancelled before it began");
  check_fails(tn_session_get_output(m.session, NULL, 0, &result), TN_FAILED_PRECONDITION,
              "function \"main\" has no results: no invoke of it succeeded yet, or the last one failed");
  check_ok(tn_session_invoke_stateful(m.session, NULL, inputs, 2)); /* only that one */
  close_main(&m);
}

static _Atomic int rounds;

static int32_t counting_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  atomic_fetch_add(&rounds, 1);
  *(int64_t *)buffers[0] = 1;
  return TN_KERNEL_OK;
}

static void *cancel_later(void *session) {
  while (atomic_load(&rounds) < 1000) {
  }
  tn_session_cancel(session);
  return NULL;
}

/* A loop that never ends by itself. */
static void another_thread_ends_a_loop(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  int kernel = test_exe_kernel(&t, "count", counting_kernel, 1, 0);
  tn__exe_func *f = tn__exe_function(t.exe, "forever");
  tn__exe_output(f, "y", TN_I64, 0, NULL);
  int y = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_OUTPUT, 0, nowhere);
  uint32_t head = tn__exe_here(f);
  tn__exe_emit_kernel(f, kernel, NULL, 0, &y, 1, NULL, 0);
  tn__exe_emit(f, TN__OP_JUMP, &head, 1);
  tn_executable *exe = loaded(test_exe_finish(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, cancel_later, session), 0);
  tn_status *status = tn_session_invoke(session, NULL);
  assert_int_equal(tn_status_code_of(status), TN_CANCELLED);
  tn_status_free(status);
  pthread_join(thread, NULL);
  assert_true(atomic_load(&rounds) >= 1000);
  tn_session_release(session);
  tn_executable_release(exe);
}

static int calls;

static void cancel_at_once(void *session, const char *kernel, uint64_t start, uint64_t end) {
  if (calls++ == 0) tn_session_cancel(session);
}

/* copies(x: f32[4]) -> x, once or for ever: no kernel looks whether the invoke was cancelled. */
static tn_executable *build_copies(bool for_ever) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "copies");
  tn__operand dims[1] = {DIM(4)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_output(f, "y", TN_F32, 1, dims);
  int x = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  uint32_t head = tn__exe_here(f);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)y, (uint32_t)x), 2);
  if (for_ever)
    tn__exe_emit(f, TN__OP_JUMP, &head, 1);
  else
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe = loaded(test_exe_finish(&t));
  test_exe_release(&t);
  return exe;
}

static void what_has_no_kernels_ends(void **state) {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  DLTensor input = {.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = tn_dtype_to_dl(TN_F32), .shape = shape};
  tn_executable *exe = build_copies(true);
  tn_session *session = session_of(exe);
  calls = 0;
  check_ok(tn_session_set_profile(session, cancel_at_once, session));
  check_fails(tn_session_invoke_stateful(session, NULL, &input, 1), TN_CANCELLED, "the invoke was cancelled");
  assert_int_equal(calls, 1);
  tn_session_release(session);
  tn_executable_release(exe);

  exe = build_copies(false);
  session = session_of(exe);
  tn_session_cancel(session);
  check_fails(tn_session_invoke_stateful(session, NULL, &input, 1), TN_CANCELLED,
              "the invoke was cancelled before it began");
  check_ok(tn_session_invoke_stateful(session, NULL, &input, 1)); /* only that one */
  tn_session_release(session);
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_are_bound_or_none),        cmocka_unit_test(results_stay_in_the_session),
      cmocka_unit_test(in_place_means_no_copy),           cmocka_unit_test(outputs_may_be_strided),
      cmocka_unit_test(kept_bindings_follow_their_data),  cmocka_unit_test(kept_bindings_allocate_nothing),
      cmocka_unit_test(late_outputs_take_what_they_need), cmocka_unit_test(known_sizes_of_values_take_what_they_need),
      cmocka_unit_test(a_cancelled_invoke_ends),          cmocka_unit_test(another_thread_ends_a_loop),
      cmocka_unit_test(what_has_no_kernels_ends),         cmocka_unit_test(what_is_null_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
