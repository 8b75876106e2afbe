/* Memory that is bound twice, and a session's results as its next inputs: nothing is written where something else is
 * still read, whatever is copied on the way. */
#include <stdlib.h>

#include "unit/failing_allocator.h"
#include "unit/session_models.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* twins(x: f32[n, 4]) -> (a: f32[n, 4], b: f32[n, 4]): a = 2 x; b = x + x */
static tn__bytes build_twins(test_exe *t) {
  int twice = test_exe_kernel(t, "double", double_kernel, 2, 1), add = test_exe_kernel(t, "add", add_kernel, 3, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "twins");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[2] = {SYM(n), DIM(4)};
  tn__exe_input(f, "x", TN_F32, 2, dims);
  tn__exe_output(f, "a", TN_F32, 2, dims);
  tn__exe_output(f, "b", TN_F32, 2, dims);
  int x = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
  int a = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  int b = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_OUTPUT, 1, nowhere);
  int four = tn__exe_emit_const(f, 4), count = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, four);
  tn__exe_emit_kernel(f, twice, &x, 1, &a, 1, &count, 1);
  tn__exe_emit_kernel(f, add, (int[]){x, x}, 2, &b, 1, &count, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

/* c = a b of scalars[0] rows; rows of c are written while later ones, and all columns, of a are still to be read */
static int32_t product_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0], *b = buffers[1];
  float *c = buffers[2];
  for (int64_t i = scalars[0] - 1; i >= 0; i--)
    for (int j = 0; j < 4; j++) {
      c[4 * i + j] = 0;
      for (int k = 0; k < 4; k++) c[4 * i + j] += a[4 * i + k] * b[4 * k + j];
    }
  return TN_KERNEL_OK;
}

/* both halves of b are a, of scalars[0] elements; the second half first */
static int32_t stack_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  size_t bytes = (size_t)scalars[0] * sizeof(float);
  memcpy((char *)buffers[1] + bytes, buffers[0], bytes);
  memcpy(buffers[1], buffers[0], bytes);
  return TN_KERNEL_OK;
}

/* product(x: f32[n, 4], w: f32[4, 4]) -> y = x w; again: the same, by a call; stack(x: f32[n, 4]) -> y: f32[2n, 4] */
static tn__bytes build_product(test_exe *t) {
  int multiply = test_exe_kernel(t, "product", product_kernel, 3, 1);
  int pile = test_exe_kernel(t, "stack", stack_kernel, 2, 1);
  static const char *const names[2] = {"product", "again"};
  for (int i = 0; i < 2; i++) {
    tn__exe_func *f = tn__exe_function(t->exe, names[i]);
    int n = tn__exe_symbol(f, "n");
    tn__operand dims[2] = {SYM(n), DIM(4)}, square[2] = {DIM(4), DIM(4)};
    tn__exe_input(f, "x", TN_F32, 2, dims);
    tn__exe_input(f, "w", TN_F32, 2, square);
    tn__exe_output(f, "y", TN_F32, 2, dims);
    int x = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
    int w = tn__exe_register(f, TN_F32, 2, square, TN__STORAGE_INPUT, 1, nowhere);
    int y = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
    if (i == 0) tn__exe_emit_kernel(f, multiply, (int[]){x, w}, 2, &y, 1, &n, 1);
    if (i == 1) tn__exe_emit_call(f, 0, (int[]){x, w}, 2, &y, 1);
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  }
  tn__exe_func *f = tn__exe_function(t->exe, "stack");
  int n = tn__exe_symbol(f, "n"), two = tn__exe_emit_const(f, 2), four = tn__exe_emit_const(f, 4);
  int m = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, two), count = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, four);
  tn__operand in[2] = {SYM(n), DIM(4)}, out[2] = {SYM(m), DIM(4)};
  tn__exe_input(f, "x", TN_F32, 2, in);
  tn__exe_output(f, "y", TN_F32, 2, out);
  int x = tn__exe_register(f, TN_F32, 2, in, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 2, out, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_emit_kernel(f, pile, &x, 1, &y, 1, &count, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

/* b: the elements of a that are not zero, the last one first */
static int32_t pick_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  float *b = buffers[1];
  int64_t at = scalars[1];
  for (int64_t i = 0; i < scalars[0]; i++)
    if (a[i] != 0) b[--at] = a[i];
  return TN_KERNEL_OK;
}

/* outer(x: f32[n]) -> y: f32[m], by a call of inner, which makes a result of a size that depends on values. */
static tn__bytes build_picked(test_exe *t) {
  int count = test_exe_kernel(t, "count", count_kernel, 2, 1), pick = test_exe_kernel(t, "pick", pick_kernel, 2, 2);
  static const char *const names[2] = {"outer", "inner"};
  for (int i = 0; i < 2; i++) {
    tn__exe_func *f = tn__exe_function(t->exe, names[i]);
    int n = tn__exe_symbol(f, "n"), m = tn__exe_scalar(f);
    tn__exe_input(f, "x", TN_F32, 1, (tn__operand[]){SYM(n)});
    tn__exe_output(f, "y", TN_F32, 1, (tn__operand[]){SYM(m)});
    int x = tn__exe_register(f, TN_F32, 1, (tn__operand[]){SYM(n)}, TN__STORAGE_INPUT, 0, nowhere);
    int y = tn__exe_register(f, TN_F32, 1, (tn__operand[]){SYM(m)}, TN__STORAGE_OUTPUT, 0, nowhere);
    if (i == 0) {
      tn__exe_emit_call(f, 1, &x, 1, &y, 1);
      tn__exe_emit(f, TN__OP_SCALAR_SHAPE, W((uint32_t)m, (uint32_t)y, 0), 3);
    } else {
      int counted = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_ARENA, 0, nowhere);
      tn__exe_arena(f, DIM(64));
      tn__exe_emit_kernel(f, count, &x, 1, &counted, 1, &n, 1);
      tn__exe_emit(f, TN__OP_SCALAR_LOAD, W((uint32_t)m, (uint32_t)counted, 0), 3);
      tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)y), 1);
      tn__exe_emit_kernel(f, pick, &x, 1, &y, 1, (int[]){n, m}, 2);
    }
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  }
  return test_exe_finish(t);
}

typedef struct opened {
  tn_executable *exe;
  tn_session *session;
  failing_allocator memory; /* counts the session's allocations */
} opened;

static void open_model(opened *o, tn__bytes (*build)(test_exe *t)) {
  test_exe t;
  test_exe_init(&t, NULL);
  o->exe = loaded(build(&t));
  test_exe_release(&t);
  failing_allocator_init(&o->memory, -1);
  tn_session_options options = {.size = sizeof(options), .threads = 1, .allocator = &o->memory.allocator};
  check_ok(tn_session_create(o->exe, &options, &o->session));
  fill();
}

static void close_model(opened *o) {
  tn_session_release(o->session);
  assert_int_equal(o->memory.live_count, 0);
  tn_executable_release(o->exe);
}

/* ---- bound outputs ---------------------------------------------------------------------------------------------- */

static DLTensor strided(float *data, int64_t *shape, int64_t *strides) {
  DLTensor tensor = test_tensor(TN_F32, 2, shape, data);
  tensor.strides = strides;
  return tensor;
}

static void outputs_share_nothing(void **state) {
  opened o;
  open_model(&o, build_twins);
  static _Alignas(64) float store[64];
  int64_t shape[2] = {3, 4}, turned[2] = {1, 3}, apart[2] = {8, 2}, back[2] = {-8, -2}, empty[2] = {0, 4};
  DLTensor x = test_tensor(TN_F32, 2, shape, xs), out[2];
  const char *words = "output \"b\" shares memory with output \"a\"";
  /* One tensor twice: strided, so that both are written through copies; unaligned; kept or for one call. */
  out[0] = out[1] = strided(store, shape, turned);
  check_fails(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2), TN_INVALID_ARGUMENT, words);
  out[0] = out[1] = strided(store, shape, NULL);
  out[0].byte_offset = out[1].byte_offset = 2;
  check_ok(tn_session_set_inputs(o.session, NULL, NULL, &x, 1, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(o.session, NULL, NULL, out, 2, TN_BIND_PERSISTENT));
  check_fails(tn_session_invoke(o.session, NULL), TN_INVALID_ARGUMENT, words);
  /* The even and the odd columns of one array, also from the other end. */
  out[0] = strided(store, shape, apart), out[1] = strided(store + 1, shape, apart);
  for (int round = 0; round < 2; round++) {
    memset(store, 0, sizeof(store));
    check_ok(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2));
    for (int i = 0; i < 24; i++) assert_true(store[i] == 2 * (float)(round == 1 && i % 2 == 1 ? 11 - i / 2 : i / 2));
    out[1] = strided(store + 23, shape, back);
  }
  out[1].byte_offset = 1; /* a byte of an element is enough */
  check_fails(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2), TN_INVALID_ARGUMENT, words);
  /* Nothing is shared where nothing is. */
  out[0] = out[1] = strided(store, empty, turned), x.shape = empty;
  check_ok(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2));
  close_model(&o);
}

static void outputs_spare_copied_inputs(void **state) {
  opened o;
  open_model(&o, build_twins);
  static _Alignas(64) float store[64];
  for (int i = 0; i < 64; i++) store[i] = (float)i;
  int64_t shape[2] = {3, 4}, apart[2] = {8, 2}, turned[2] = {1, 3};
  DLTensor x = strided(store, shape, apart), out[2] = {strided(store + 1, shape, apart), {0}};
  check_ok(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2)); /* between its elements is fine */
  for (int i = 0; i < 12; i++) assert_true(store[2 * i] == (float)(2 * i) && store[2 * i + 1] == (float)(4 * i));
  const char *words = "output \"a\" shares memory with input \"x\"";
  out[0] = strided(store + 2, shape, turned);
  check_fails(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2), TN_INVALID_ARGUMENT, words);
  x = strided(store, shape, NULL), x.byte_offset = 1, out[0] = strided(store + 12, shape, NULL);
  check_fails(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, out, 2), TN_INVALID_ARGUMENT, words);
  close_model(&o);
}

static void tensors_lie_where_they_can(void **state) {
  opened o;
  open_model(&o, build_twins);
  tn_session *s = o.session;
  int64_t shape[2] = {3, 4}, strides[2] = {1, 1}, empty[2] = {0, 4};
  DLTensor t = strided(zs, shape, strides);
  check_fails(tn_session_set_output(s, NULL, "a", &t, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"a\": the tensor of shape [3, 4] has strides [1, 1]: its elements share memory, so it cannot be "
              "written");
  check_ok(tn_session_set_input(s, NULL, "x", &t, TN_BIND_NEXT)); /* which is only read */
  strides[0] = 3;
  check_fails(tn_session_invoke_with_outputs(s, NULL, &t, 1, (DLTensor[]){{0}, t}, 2), TN_INVALID_ARGUMENT,
              "output \"b\": the tensor of shape [3, 4] has strides [3, 1]: its elements share memory, so it cannot be "
              "written");
  strides[0] = -4; /* rows backwards */
  t.data = zs + 8;
  check_ok(tn_session_set_output(s, NULL, "a", &t, TN_BIND_NEXT));
  strides[0] = INT64_MAX / 2;
  const char *words =
      "the tensor of shape [3, 4] has strides [4611686018427387903, 1]: with its byte_offset they lead "
      "out of what an address can reach";
  char text[256];
  snprintf(text, sizeof(text), "input \"x\": %s", words);
  check_fails(tn_session_set_input(s, NULL, "x", &t, TN_BIND_NEXT), TN_INVALID_ARGUMENT, text);
  snprintf(text, sizeof(text), "output \"b\": %s", words);
  check_fails(tn_session_set_output(s, NULL, "b", &t, TN_BIND_NEXT), TN_INVALID_ARGUMENT, text);
  t.strides = NULL, t.byte_offset = UINT64_MAX - 64;
  check_fails(tn_session_set_output(s, NULL, "b", &t, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"b\": the tensor's byte_offset 18446744073709551551 leads out of what an address can reach");
  t.byte_offset = 0, t.data = NULL;
  check_fails(tn_session_set_output(s, NULL, "b", &t, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"b\": the tensor has no data");
  check_ok(tn_session_set_output(s, NULL, "a", NULL, TN_BIND_NEXT));
  t.shape = empty, t.strides = strides, t.byte_offset = UINT64_MAX;
  check_ok(tn_session_set_input(s, NULL, "x", &t, TN_BIND_NEXT));
  check_ok(tn_session_set_output(s, NULL, "b", &t, TN_BIND_NEXT));
  check_ok(tn_session_invoke(s, NULL));
  close_model(&o);
}

/* ---- results as inputs ------------------------------------------------------------------------------------------ */

static int64_t rows_of_4[2] = {3, 4}, square[2] = {4, 4};
static float weights[16];

/* x after `times` products */
static void reference(float *x, int times) {
  for (int t = 0; t < times; t++) {
    float y[12];
    product_kernel(NULL, (void *[]){x, weights, y}, (int64_t[]){3});
    memcpy(x, y, sizeof(y));
  }
}

static void check_product(tn_session *s, const char *function, int times, DLTensor *y) {
  float x[12];
  memcpy(x, xs, sizeof(x));
  reference(x, times);
  check_ok(tn_session_get_output(s, function, 0, y));
  assert_memory_equal(y->data, x, sizeof(x));
}

static void set_weights(void) {
  for (int i = 0; i < 16; i++) weights[i] = 0.3f * (float)((i * 7 + 3) % 5) - 0.4f;
}

enum { WAYS = 5 };

/* One invoke on `x`, which is a result but for the first time. */
static void run_product(tn_session *s, const char *function, int way, const DLTensor *x) {
  DLTensor in[2] = {*x, test_tensor(TN_F32, 2, square, weights)}, none = {0};
  tn_binding kept[3] = {TN_BIND_NEXT, TN_BIND_PERSISTENT, TN_BIND_PERSISTENT_IN_PLACE};
  if (way == 3) check_ok(tn_session_invoke_with_outputs(s, function, in, 2, &none, 1));
  if (way == 4) check_ok(tn_session_invoke_stateful(s, function, in, 2));
  if (way > 2) return;
  check_ok(tn_session_set_inputs(s, function, NULL, in, 2, kept[way]));
  check_ok(tn_session_invoke(s, function));
}

static void products_are_fed_back(void **state) {
  set_weights();
  for (int way = 0; way < 2 * WAYS; way++) {
    opened o;
    open_model(&o, build_product);
    const char *function = way < WAYS ? "product" : "again";
    DLTensor y = test_tensor(TN_F32, 2, rows_of_4, xs);
    int calls = 0;
    for (int times = 1; times <= 10; times++) {
      run_product(o.session, function, way % WAYS, &y);
      check_product(o.session, function, times, &y);
      if (times == 2) calls = o.memory.calls;
    }
    assert_int_equal(o.memory.calls, calls); /* the two memories take turns */
    close_model(&o);
  }
}

/* A binding that stays reads what it was made with, while later results come elsewhere. */
static void a_kept_result_stays(void **state) {
  set_weights();
  opened o;
  open_model(&o, build_product);
  DLTensor x = test_tensor(TN_F32, 2, rows_of_4, xs), w = test_tensor(TN_F32, 2, square, weights), y, other;
  run_product(o.session, NULL, 4, &x);
  check_product(o.session, NULL, 1, &y);
  check_ok(tn_session_set_inputs(o.session, NULL, NULL, (DLTensor[]){y, w}, 2, TN_BIND_PERSISTENT));
  for (int round = 0; round < 3; round++) {
    check_ok(tn_session_invoke(o.session, NULL));
    check_product(o.session, NULL, 2, &other);
    assert_ptr_not_equal(other.data, y.data);
  }
  /* Calls on other tensors leave it alone, and so do larger ones, which take more memory. */
  int64_t more[2] = {16, 4};
  DLTensor large = test_tensor(TN_F32, 2, more, ys);
  run_product(o.session, NULL, 4, &large);
  run_product(o.session, NULL, 3, &large);
  check_ok(tn_session_invoke(o.session, NULL));
  check_product(o.session, NULL, 2, &other);
  /* The one before last is in the second memory, the last in the first. */
  check_fails(tn_session_invoke_with_outputs(o.session, NULL, (DLTensor[]){other, w}, 2, NULL, 0), TN_INVALID_ARGUMENT,
              "output \"y\": results of two earlier invokes are bound, which takes both memories that the session has "
              "for it: bind memory of your own for it, or a copy of the older result");
  DLTensor mine = test_tensor(TN_F32, 2, rows_of_4, zs);
  check_ok(tn_session_invoke_with_outputs(o.session, NULL, (DLTensor[]){other, w}, 2, &mine, 1));
  check_product(o.session, NULL, 3, &other);
  assert_ptr_equal(other.data, zs);
  close_model(&o);
}

/* The next result is larger, and its memory new; the old one goes when nothing is bound there. */
static void results_may_grow(void **state) {
  opened o;
  open_model(&o, build_product);
  int64_t shape[2] = {1, 4};
  DLTensor y = test_tensor(TN_F32, 2, shape, xs + 1);
  for (int rows = 2; rows <= 64; rows *= 2) {
    check_ok(tn_session_invoke_stateful(o.session, "stack", &y, 1));
    check_ok(tn_session_get_output(o.session, "stack", 0, &y));
    assert_int_equal(y.shape[0], rows);
    for (int i = 0; i < 4 * rows; i++) assert_true(((float *)y.data)[i] == xs[1 + i % 4]);
  }
  /* A part of it, which the first rows of the next result would lie in. */
  int64_t some[2] = {2, 4};
  for (int i = 0; i < 256; i++) ((float *)y.data)[i] = (float)i;
  y.shape = some, y.byte_offset = 3 * sizeof(float);
  check_ok(tn_session_invoke_stateful(o.session, "stack", &y, 1));
  check_ok(tn_session_get_output(o.session, "stack", 0, &y));
  for (int i = 0; i < 16; i++) assert_true(((float *)y.data)[i] == (float)(3 + i % 8));
  close_model(&o);
}

static void results_go_from_function_to_function(void **state) {
  set_weights();
  opened o;
  open_model(&o, build_product);
  DLTensor y = test_tensor(TN_F32, 2, rows_of_4, xs);
  for (int times = 1; times <= 10; times++) {
    const char *function = times % 3 == 0 ? "again" : "product";
    run_product(o.session, function, times % 2, &y);
    check_product(o.session, function, times, &y);
  }
  close_model(&o);
}

/* Memory goes down to the function that is called, and comes up as its result; and what is bound may be too small. */
static void results_of_calls_are_fed_back(void **state) {
  for (int way = 0; way < 3; way++) {
    opened o;
    open_model(&o, build_picked);
    const char *function = way == 0 ? "inner" : "outer";
    int64_t n[1] = {8}, room[1] = {2};
    float start[8] = {1, 0, 2, 3, 0, 4, 5, 6};
    DLTensor x = test_tensor(TN_F32, 1, n, start), small = test_tensor(TN_F32, 1, room, zs);
    int calls = 0;
    for (int times = 1; times <= 10; times++) {
      tn_status *status = tn_session_invoke_with_outputs(o.session, function, &x, 1, &small, way == 2);
      assert_int_equal(tn_status_code_of(status), way == 2 ? TN_OUT_OF_RANGE : TN_OK);
      tn_status_free(status);
      check_ok(tn_session_get_output(o.session, function, 0, &x));
      assert_int_equal(x.shape[0], 6);
      for (int i = 0; i < 6; i++) assert_true(((float *)x.data)[i] == (float)(times % 2 == 0 ? i + 1 : 6 - i));
      if (times == 4) calls = o.memory.calls;
    }
    assert_int_equal(o.memory.calls, calls);
    close_model(&o);
  }
}

/* Results that are bound as outputs: those made elsewhere do not come there, too. */
static void results_may_be_bound_as_outputs(void **state) {
  opened o;
  open_model(&o, build_twins);
  int64_t shape[2] = {3, 4}, turned[2] = {1, 3};
  DLTensor x = test_tensor(TN_F32, 2, shape, xs), a, b, again;
  check_ok(tn_session_invoke_stateful(o.session, NULL, &x, 1));
  check_ok(tn_session_get_output(o.session, NULL, 0, &a));
  check_ok(tn_session_invoke_with_outputs(o.session, NULL, &x, 1, (DLTensor[]){{0}, a}, 2));
  check_ok(tn_session_get_output(o.session, NULL, 0, &again));
  check_ok(tn_session_get_output(o.session, NULL, 1, &b));
  assert_ptr_equal(b.data, a.data);
  assert_ptr_not_equal(again.data, a.data);
  for (int i = 0; i < 12; i++) assert_true(((float *)again.data)[i] == 2 * xs[i] && ((float *)b.data)[i] == 2 * xs[i]);
  /* What was made for a strided buffer is in the session's memory as well, and may be the next input. */
  DLTensor out[2] = {strided(zs, shape, turned), {0}};
  DLTensor in = test_tensor(TN_F32, 2, shape, xs);
  for (int times = 1; times <= 4; times++) {
    check_ok(tn_session_invoke_with_outputs(o.session, NULL, &in, 1, out, 2));
    check_ok(tn_session_get_output(o.session, NULL, 0, &in));
    check_ok(tn_session_get_output(o.session, NULL, 1, &b));
    for (int i = 0; i < 12; i++) {
      float want = (float)(1 << times) * xs[i];
      assert_true(zs[i / 4 + i % 4 * 3] == want && ((float *)in.data)[i] == want && ((float *)b.data)[i] == want);
    }
  }
  close_model(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_share_nothing),
      cmocka_unit_test(outputs_spare_copied_inputs),
      cmocka_unit_test(tensors_lie_where_they_can),
      cmocka_unit_test(products_are_fed_back),
      cmocka_unit_test(a_kept_result_stays),
      cmocka_unit_test(results_may_grow),
      cmocka_unit_test(results_go_from_function_to_function),
      cmocka_unit_test(results_of_calls_are_fed_back),
      cmocka_unit_test(results_may_be_bound_as_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
