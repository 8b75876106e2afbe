/* Executables from the writer, run through sessions: every storage, binding and mismatch. */
#include <pthread.h>
#include <stdlib.h>

#include "unit/check.h"
#include "unit/failing_allocator.h"
#include "unit/rehash.h"
#include "unit/session_models.h"

static int32_t failing_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return (int32_t)scalars[0];
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

/* ---- values of data-dependent size ------------------------------------------------------------------------------ */

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
  _Alignas(64) int64_t indices[8];
  int64_t four[1] = {4};
  DLTensor bound = test_tensor(TN_I64, 1, four, indices);
  check_ok(tn_session_set_output(session, NULL, "found", &bound, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  assert_memory_equal(indices, ((int64_t[]){0, 2, 3, 5}), 32);
  const int64_t *shapes[1] = {shape};
  int64_t inferred[2][TN_MAX_RANK];
  check_ok(tn_function_infer_shapes(exe, NULL, shapes, inferred));
  assert_true(inferred[0][0] == -1 && inferred[1][0] == -1 && inferred[1][1] == 2);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- what kernels report ---------------------------------------------------------------------------------------- */

/* With `origin`, the kernel is said to be made of that node. */
static tn__bytes build_failing(test_exe *t, const char *origin) {
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
  tn__exe_origin(f, origin);
  tn__exe_emit_kernel(f, kernel, &x, 1, &y, 1, &n, 1);
  tn__exe_origin(f, NULL);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static void failures_name_the_kernel(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_failing(&t, NULL));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  static const struct {
    tn_status_code code;
    const char *text;
  } expected[8] = {
      {TN_OK, NULL},
      {TN_OUT_OF_RANGE,
       "kernel \"gather_3\": index out of range: its indices must be in [-n, n) where they pick from n elements"},
      {TN_OUT_OF_RANGE, "kernel \"gather_3\": integer division by zero"},
      {TN_OUT_OF_RANGE, "kernel \"gather_3\": a value that the operator does not allow"},
      {TN_CANCELLED, "the invoke was cancelled in kernel \"gather_3\""},
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

static tn_session *failing_session(const char *origin, bool as_1_0, tn_executable **exe) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__bytes bytes = build_failing(&t, origin);
  if (as_1_0) {
    /* One function: the shorter records of 1.0 differ in their size alone. */
    uint8_t *file = (uint8_t *)(uintptr_t)bytes.data;
    tn__file_header *header = (void *)file;
    header->minor = 0;
    const tn__file_section *section = (void *)(file + header->header_size);
    while (section->kind != TN__SECTION_FUNCTIONS) section++;
    ((tn__functions_header *)(void *)(file + section->offset))->record_size = TN__FUNCTION_RECORD_1_0;
    rehash(file, bytes.size);
  }
  *exe = loaded(bytes);
  test_exe_release(&t);
  return session_of(*exe);
}

static void check_failure(tn_session *session, const char *text) {
  int64_t n = 1;
  DLTensor x = test_tensor(TN_F32, 1, &n, xs);
  check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE, text);
}

static void failures_name_the_node(void **state) {
  const char *origin = "node \"pick\" (Gather, opset 13)";
  tn_executable *exe;
  tn_session *session = failing_session(origin, false, &exe);
  check_failure(session,
                "node \"pick\" (Gather, opset 13): kernel \"gather_3\": index out of range: its indices must be in "
                "[-n, n) where they pick from n elements");
  tn_session_release(session);
  tn_executable_release(exe);
  session = failing_session(origin, true, &exe); /* which did not know of origins */
  check_failure(
      session,
      "kernel \"gather_3\": index out of range: its indices must be in [-n, n) where they pick from n elements");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* f(x: f32[n]) fails unless n == 3; its message shows n, a number that is no scalar's, and what looks like a mark. */
static void assertions_show_sizes(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  int three = tn__exe_emit_const(f, 3);
  tn__exe_emit_assert(f, tn__exe_emit_scalar_op(f, TN__SCALAR_EQ, n, three),
                      "\1"
                      "0\1 elements, not \1"
                      "1\1; \1"
                      "99\1 \1"
                      "1 \1-1\1");
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe = loaded(test_exe_finish(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  int64_t five = 5;
  DLTensor x = test_tensor(TN_F32, 1, &five, xs);
  check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, "5 elements, not 3; ? \\u00011 \\u0001-1\\u0001");
  const int64_t *shapes[1] = {&five};
  check_fails(tn_function_infer_shapes(exe, NULL, shapes, NULL), TN_INVALID_ARGUMENT,
              "5 elements, not 3; ? \\u00011 \\u0001-1\\u0001");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- bindings and mismatches ------------------------------------------------------------------------------------ */

static void persistent_bindings_stay(void **state) {
  fixture m;
  open_main(&m);
  check_ok(tn_session_set_input(m.session, "main", "x", &m.x, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(m.session, "main", "y", &m.y, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(m.session, "main", "z", &m.z, TN_BIND_PERSISTENT));
  for (int round = 0; round < 3; round++) {
    memset(zs, 0, sizeof(zs));
    check_ok(tn_session_invoke(m.session, "main"));
    check_z(zs, 12);
  }
  xs[0] = 1; /* inputs may change in place */
  check_ok(tn_session_invoke(m.session, "main"));
  assert_true(zs[0] == 2);
  DLTensor result;
  check_ok(tn_session_get_output(m.session, "main", 0, &result));
  assert_ptr_equal(result.data, zs); /* no copy anywhere */
  check_ok(tn_session_set_output(m.session, "main", "z", NULL, TN_BIND_NEXT));
  check_ok(tn_session_invoke(m.session, "main"));
  check_ok(tn_session_get_output(m.session, "main", 0, &result));
  assert_ptr_not_equal(result.data, zs);
  check_ok(tn_session_set_input_at(m.session, "main", 0, NULL, TN_BIND_NEXT));
  check_fails(tn_session_invoke(m.session, "main"), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"main\" is not bound");
  close_main(&m);
}

static void next_bindings_are_dropped(void **state) {
  fixture m;
  open_main(&m);
  check_ok(tn_session_set_input(m.session, "main", "x", &m.x, TN_BIND_NEXT));
  check_ok(tn_session_set_input(m.session, "main", "y", &m.y, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(m.session, "main"));
  check_fails(tn_session_invoke(m.session, "main"), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"main\" is not bound");
  close_main(&m);
}

static void calls_with_outputs_leave_bindings(void **state) {
  fixture m;
  open_main(&m);
  DLTensor inputs[2] = {m.x, m.y};
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, inputs, 2, &m.z, 1));
  check_z(zs, 12);
  DLTensor none = m.z, result;
  none.data = NULL;
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, inputs, 2, &none, 1));
  check_ok(tn_session_get_output(m.session, NULL, 0, &result));
  check_z(result.data, 12);
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, inputs, 2, NULL, 0));
  check_fails(tn_session_invoke_with_outputs(m.session, NULL, inputs, 1, NULL, 0), TN_INVALID_ARGUMENT,
              "function \"main\" takes 2 inputs and 1 outputs; the call gives 1 and 0");
  check_fails(tn_session_invoke(m.session, "main"), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"main\" is not bound");
  close_main(&m);
}

static void strided_and_unaligned_tensors_work(void **state) {
  fixture m;
  open_main(&m);
  /* x as a transposed view, reversed in its rows; y and z where no float may lie */
  static _Alignas(64) float store[64], z[14];
  static _Alignas(64) char shifted[64], out[64];
  int64_t strides[2] = {-1, 3};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) store[j * 3 + (2 - i)] = (float)(i * 4 + j);
  memcpy(shifted + 1, ys, 12 * sizeof(float));
  memset(out, 0, sizeof(out));
  m.x.data = store, m.x.byte_offset = 2 * sizeof(float), m.x.strides = strides;
  m.y.data = shifted + 1;
  m.z.data = out, m.z.byte_offset = 2;
  DLTensor inputs[2] = {m.x, m.y};
  check_ok(tn_session_invoke_with_outputs(m.session, NULL, inputs, 2, &m.z, 1));
  memcpy(z, out + 2, sizeof(z) - 8);
  check_z(z, 12);
  assert_true(out[0] == 0 && out[1] == 0 && out[50] == 0);
  close_main(&m);
}

/* A pointer of another device means something else, whatever number the CPU's type comes with. */
static void other_devices_are_refused(void **state) {
  fixture m;
  open_main(&m);
  tn_session *s = m.session;
  const char *const names[] = {"x", "y"}, *z = "z";
  DLTensor x = m.x, z_there = m.z, inputs[2] = {m.x, m.y};
  x.device.device_id = 3, z_there.device.device_id = -1, inputs[1].device.device_id = 3;
#define ON_3 "the tensor is on the CPU with device_id 3; there is one CPU, number 0: set device_id to 0"
#define ON_NONE "the tensor is on the CPU with device_id -1; there is one CPU, number 0: set device_id to 0"
  check_fails(tn_session_set_input(s, NULL, "x", &x, TN_BIND_NEXT), TN_INVALID_ARGUMENT, "input \"x\": " ON_3);
  check_fails(tn_session_set_input_at(s, NULL, 0, &x, TN_BIND_PERSISTENT), TN_INVALID_ARGUMENT, "input \"x\": " ON_3);
  check_fails(tn_session_set_inputs(s, NULL, names, inputs, 2, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"y\": " ON_3);
  check_fails(tn_session_set_output(s, NULL, "z", &z_there, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"z\": " ON_NONE);
  check_fails(tn_session_set_outputs(s, NULL, &z, &z_there, 1, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"z\": " ON_NONE);
  check_fails(tn_session_invoke_with_outputs(s, NULL, inputs, 2, NULL, 0), TN_INVALID_ARGUMENT, "input \"y\": " ON_3);
  check_fails(tn_session_invoke_stateful(s, NULL, inputs, 2), TN_INVALID_ARGUMENT, "input \"y\": " ON_3);
  inputs[1] = m.y;
  check_fails(tn_session_invoke_with_outputs(s, NULL, inputs, 2, &z_there, 1), TN_INVALID_ARGUMENT,
              "output \"z\": " ON_NONE);
  check_fails(tn_tensor_write_npy(&x, "/no/such.npy"), TN_INVALID_ARGUMENT, "/no/such.npy: " ON_3);
  close_main(&m);
}

static void mismatches_name_both_sides(void **state) {
  fixture m;
  open_main(&m);
  tn_session *s = m.session;
  check_fails(tn_session_set_input(s, "mainly", "x", &m.x, TN_BIND_NEXT), TN_NOT_FOUND,
              "the executable has no function \"mainly\"; it has \"main\"");
  check_fails(tn_session_set_input(s, NULL, "w", &m.x, TN_BIND_NEXT), TN_NOT_FOUND,
              "function \"main\" has no input \"w\"; it has \"x\", \"y\"");
  check_fails(tn_session_set_output(s, NULL, "w", &m.x, TN_BIND_NEXT), TN_NOT_FOUND,
              "function \"main\" has no output \"w\"; it has \"z\"");
  check_fails(tn_session_set_input_at(s, NULL, 2, &m.x, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "function \"main\" has 2 inputs; there is no number 2");
  check_fails(tn_session_set_output_at(s, NULL, -1, &m.x, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "function \"main\" has 1 outputs; there is no number -1");
  DLTensor bad = m.x;
  bad.dtype = tn_dtype_to_dl(TN_F64);
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor is f64 and the executable wants f32");
  bad.dtype = (DLDataType){kDLComplex, 64, 1};
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor is of DLPack type 5 with 64 bits and 1 lanes and the executable wants f32");
  bad = m.x, bad.device = (DLDevice){(DLDeviceType)9, 1};
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor is on device 1 of type 9 and must be on cpu:0: copy it there first");
  bad = m.x, bad.device.device_type = kDLCUDA;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor is on cuda:0 and must be on cpu:0: copy it there first");
  DLTensor unsaid = m.x; /* of a struct that names no device */
  unsaid.device = (DLDevice){0};
  check_ok(tn_session_set_input(s, NULL, "x", &unsaid, TN_BIND_NEXT));
  assert_int_equal(tn_executable_input(m.exe, NULL, 0)->device.device_type, kDLCPU);
  assert_int_equal(tn_executable_output(m.exe, NULL, 0)->device.device_type, kDLCPU);
  bad = m.x, bad.ndim = 1;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor has shape [3] and the executable wants [n, 4]");
  int64_t wide[2] = {3, 5}, negative[2] = {-3, 4}, huge[2] = {INT64_MAX / 4, 4};
  bad = m.x, bad.shape = wide;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor has shape [3, 5] and the executable wants [n, 4]");
  bad.shape = negative;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's shape [-3, 4] has a negative dimension or overflows");
  bad.shape = huge;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's shape [2305843009213693951, 4] has a negative dimension or overflows");
  bad = m.x, bad.data = NULL;
  check_fails(tn_session_set_input(s, NULL, "x", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor has no data");
  check_fails(tn_session_set_output(s, NULL, "z", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"z\": the tensor has no data");
  int64_t shared[2] = {0, 1};
  bad = m.z, bad.strides = shared;
  check_fails(tn_session_set_output(s, NULL, "z", &bad, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"z\": the tensor of shape [3, 4] has strides [0, 1]: its elements share memory, so it cannot be "
              "written");
  close_main(&m);
}

static void mismatches_between_tensors_are_found(void **state) {
  fixture m;
  open_main(&m);
  tn_session *s = m.session;
  int64_t two[2] = {2, 4};
  check_ok(tn_session_set_input(s, NULL, "x", &m.x, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(s, NULL, "y", &m.y, TN_BIND_PERSISTENT));
  DLTensor bad = m.y;
  bad.shape = two;
  check_ok(tn_session_set_input(s, NULL, "y", &bad, TN_BIND_NEXT));
  check_fails(tn_session_invoke(s, NULL), TN_INVALID_ARGUMENT,
              "input \"y\": dimension 0 (\"n\") is 2, but input \"x\" has 3 for it");
  check_ok(tn_session_set_input(s, NULL, "y", &m.y, TN_BIND_PERSISTENT));
  bad = m.z, bad.shape = two;
  zs[0] = -7;
  check_ok(tn_session_set_output(s, NULL, "z", &bad, TN_BIND_NEXT));
  check_fails(tn_session_invoke(s, NULL), TN_INVALID_ARGUMENT,
              "output \"z\": the bound tensor has shape [2, 4] and these inputs make [3, 4]");
  assert_true(zs[0] == -7); /* nothing was written */
  bad = m.z, bad.data = ys + 16;
  m.y.shape = (int64_t[2]){5, 4}, m.x.shape = m.y.shape, bad.shape = m.y.shape;
  check_ok(tn_session_set_input(s, NULL, "x", &m.x, TN_BIND_NEXT));
  check_ok(tn_session_set_input(s, NULL, "y", &m.y, TN_BIND_NEXT));
  check_ok(tn_session_set_output(s, NULL, "z", &bad, TN_BIND_NEXT));
  check_fails(tn_session_invoke(s, NULL), TN_INVALID_ARGUMENT, "output \"z\" shares memory with input \"y\"");
  close_main(&m);
}

static void shapes_are_inferred(void **state) {
  fixture m;
  open_main(&m);
  int64_t a[2] = {7, 4}, b[2] = {7, 4}, out[1][TN_MAX_RANK];
  const int64_t *shapes[2] = {a, b};
  check_ok(tn_function_infer_shapes(m.exe, "main", shapes, out));
  assert_true(out[0][0] == 7 && out[0][1] == 4);
  b[1] = 3;
  check_fails(tn_function_infer_shapes(m.exe, "main", shapes, out), TN_INVALID_ARGUMENT,
              "input \"y\": the tensor has shape [7, 3] and the executable wants [n, 4]");
  a[0] = -1;
  check_fails(tn_function_infer_shapes(m.exe, "main", shapes, out), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor has shape [-1, 4] and the executable wants [n, 4]");
  close_main(&m);
}

/* ---- control flow and calls ------------------------------------------------------------------------------------- */

static void loops_and_calls_run(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_loop(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  fill();
  for (int64_t k = 0; k < 6; k++) {
    int64_t n = 5 + k;
    DLTensor inputs[2] = {test_tensor(TN_F32, 1, &n, xs), test_tensor(TN_I64, 0, NULL, &k)}, y;
    for (int f = 0; f < 2; f++) {
      const char *name = f == 0 ? "apply" : "power";
      check_ok(tn_session_invoke_with_outputs(session, name, inputs, 2, NULL, 0));
      check_ok(tn_session_get_output(session, name, 0, &y));
      assert_int_equal(y.shape[0], n);
      for (int i = 0; i < n; i++) assert_true(((float *)y.data)[i] == (float)(1 << k) * xs[i]);
    }
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

static void recursion_is_bounded(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "again");
  tn__operand dims[1] = {DIM(2)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_output(f, "y", TN_F32, 1, dims);
  int x = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_emit_call(f, 0, &x, 1, &y, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe = loaded(test_exe_finish(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  int64_t two = 2;
  DLTensor input = test_tensor(TN_F32, 1, &two, xs);
  check_fails(tn_session_invoke_with_outputs(session, NULL, &input, 1, NULL, 0), TN_OUT_OF_RANGE,
              "calls are nested more than 64 deep at function \"again\"");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* y[i] = op i of a and b, by scalar instructions behind loads */
static void scalar_operators_compute(void **state) {
  static const int64_t pairs[][2] = {{7, 3}, {-7, 3}, {7, -3}, {-7, -3}, {INT64_MIN, -1}, {6, 3}, {0, 5}};
  static const int64_t expected[][2] = {{2, 1}, {-3, 2}, {-3, -2}, {2, -1}, {INT64_MIN, 0}, {2, 0}, {0, 0}};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn__exe_func *f = tn__exe_function(t.exe, "main");
    int a = tn__exe_emit_const(f, pairs[i][0]), b = tn__exe_emit_const(f, pairs[i][1]);
    int q = tn__exe_emit_scalar_op(f, TN__SCALAR_FLOORDIV, a, b),
        r = tn__exe_emit_scalar_op(f, TN__SCALAR_FLOORMOD, a, b);
    int good_q = tn__exe_emit_scalar_op(f, TN__SCALAR_EQ, q, tn__exe_emit_const(f, expected[i][0]));
    int good_r = tn__exe_emit_scalar_op(f, TN__SCALAR_EQ, r, tn__exe_emit_const(f, expected[i][1]));
    tn__exe_emit_assert(f, tn__exe_emit_scalar_op(f, TN__SCALAR_AND, good_q, good_r), "wrong");
    int zero = tn__exe_emit_const(f, 0);
    tn__exe_emit_scalar_op(f, TN__SCALAR_FLOORMOD, a, zero);
    tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
    tn_executable *exe = loaded(test_exe_finish(&t));
    test_exe_release(&t);
    tn_session *session = session_of(exe);
    char text[128];
    snprintf(text, sizeof(text), "the shape arithmetic of this model divides %lld by zero", (long long)pairs[i][0]);
    check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE, text);
    tn_session_release(session);
    tn_executable_release(exe);
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tn_status *whole_life(const tn__bytes *bytes, const tn_allocator *allocator, int64_t k) {
  tn_executable *exe = NULL;
  tn_session *session = NULL;
  tn_load_options load = {.size = sizeof(load), .allocator = allocator};
  tn_session_options options = {.size = sizeof(options), .allocator = allocator, .threads = 2};
  tn_status *status = tn_executable_load_memory(bytes->data, bytes->size, &load, &exe);
  if (status == NULL) status = tn_session_create(exe, &options, &session);
  int64_t n = 9;
  DLTensor inputs[2] = {test_tensor(TN_F32, 1, &n, xs + 1), test_tensor(TN_I64, 0, NULL, &k)}, y;
  if (status == NULL) {
    status = tn_session_invoke_with_outputs(session, NULL, inputs, 2, NULL, 0);
    if (status != NULL) { /* the session is as good as before */
      tn_status *again = tn_session_invoke_with_outputs(session, NULL, inputs, 2, NULL, 0);
      if (again == NULL) {
        check_ok(tn_session_get_output(session, NULL, 0, &y));
        assert_true(((float *)y.data)[8] == 4 * xs[9]);
      }
      tn_status_free(again);
    }
  }
  tn_session_release(session);
  tn_executable_release(exe);
  return status;
}

static void every_allocation_may_fail(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__bytes bytes = build_loop(&t);
  fill();
  for (int fail_at = 0;; fail_at++) {
    failing_allocator memory;
    failing_allocator_init(&memory, fail_at);
    tn_status *status = whole_life(&bytes, &memory.allocator, 2);
    assert_int_equal(memory.live_count, 0);
    assert_int_equal(memory.live_bytes, 0);
    if (status == NULL && memory.calls <= fail_at) break;
    /* Only the names for GDB are done without. */
    if (status != NULL) assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
    assert_true(fail_at < 500);
  }
  test_exe_release(&t);
}

static void later_invokes_allocate_nothing(void **state) {
  tn__bytes (*const builds[3])(test_exe *) = {build_main, build_nonzero, build_loop};
  for (int which = 0; which < 3; which++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn_executable *exe = loaded(builds[which](&t));
    test_exe_release(&t);
    failing_allocator memory;
    failing_allocator_init(&memory, -1);
    tn_session *session;
    tn_session_options options = {.size = sizeof(options), .allocator = &memory.allocator, .threads = 2};
    check_ok(tn_session_create(exe, &options, &session));
    fill();
    int calls = 0;
    for (int round = 0; round < 6; round++) {
      int64_t n = round % 2 == 0 ? 8 : 4, k = 4, rows[2] = {n, 4};
      DLTensor vector = test_tensor(TN_F32, 1, &n, xs), matrix = test_tensor(TN_F32, 2, rows, xs);
      DLTensor inputs[3][2] = {{matrix, matrix}, {vector, vector}, {vector, test_tensor(TN_I64, 0, NULL, &k)}};
      xs[0] = 1; /* an even count of values for nonzero */
      check_ok(tn_session_invoke_with_outputs(session, NULL, inputs[which], which == 1 ? 1 : 2, NULL, 0));
      if (round == 0) calls = memory.calls;
    }
    assert_int_equal(memory.calls, calls);
    tn_session_release(session);
    assert_int_equal(memory.live_count, 0);
    tn_executable_release(exe);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct runner {
  const tn_executable *exe;
  tn_thread_pool *pool;
  int wrong;
} runner;

static void *run_many(void *argument) {
  runner *r = argument;
  tn_session *session;
  tn_session_options options = {.size = sizeof(options), .pool = r->pool};
  check_ok(tn_session_create(r->exe, &options, &session));
  for (int round = 0; round < 1000; round++) {
    int64_t shape[2] = {1 + round % 16, 4};
    DLTensor inputs[2] = {test_tensor(TN_F32, 2, shape, xs), test_tensor(TN_F32, 2, shape, ys)}, z;
    check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, 2, NULL, 0));
    check_ok(tn_session_get_output(session, NULL, 0, &z));
    for (int i = 0; i < 4 * shape[0]; i++) r->wrong += ((float *)z.data)[i] != 202.0f * (float)i;
  }
  tn_session_release(session);
  return NULL;
}

static void sessions_share_executable_and_pool(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_main(&t));
  test_exe_release(&t);
  fill();
  tn_thread_pool *pool;
  tn_thread_pool_options options = {.size = sizeof(options), .threads = 3};
  check_ok(tn_thread_pool_create(&options, &pool));
  pthread_t threads[8];
  runner runners[8];
  for (int i = 0; i < 8; i++) {
    runners[i] = (runner){exe, i % 2 == 0 ? pool : NULL, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_many, &runners[i]), 0);
  }
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 8; i++) assert_int_equal(runners[i].wrong, 0);
  tn_thread_pool_release(pool);
  tn_executable_release(exe);
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

typedef struct profile {
  char names[256];
  uint64_t last;
} profile;

static void note(void *user, const char *kernel, uint64_t start, uint64_t end) {
  profile *p = user;
  assert_true(start <= end && start >= p->last);
  p->last = end;
  strcat(strcat(p->names, kernel), " ");
}

static void profiles_name_what_ran(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_loop(&t));
  test_exe_release(&t);
  tn_session *session = session_of(exe);
  profile p = {0};
  check_ok(tn_session_set_profile(session, note, &p));
  int64_t n = 3, k = 1;
  DLTensor inputs[2] = {test_tensor(TN_F32, 1, &n, xs), test_tensor(TN_I64, 0, NULL, &k)};
  check_ok(tn_session_invoke_with_outputs(session, "power", inputs, 2, NULL, 0));
  assert_string_equal(p.names, "alloc copy alloc double copy ");
  p = (profile){0};
  check_ok(tn_session_invoke_with_outputs(session, "apply", inputs, 2, NULL, 0));
  assert_string_equal(p.names, "alloc copy alloc double copy alloc copy alloc double copy copy ");
  check_ok(tn_session_set_profile(session, NULL, NULL));
  check_ok(tn_session_invoke_with_outputs(session, "power", inputs, 2, NULL, 0));
  tn_session_release(session);
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_with_session_owned_outputs),
      cmocka_unit_test(sizes_may_depend_on_values),
      cmocka_unit_test(failures_name_the_kernel),
      cmocka_unit_test(failures_name_the_node),
      cmocka_unit_test(assertions_show_sizes),
      cmocka_unit_test(persistent_bindings_stay),
      cmocka_unit_test(next_bindings_are_dropped),
      cmocka_unit_test(calls_with_outputs_leave_bindings),
      cmocka_unit_test(strided_and_unaligned_tensors_work),
      cmocka_unit_test(other_devices_are_refused),
      cmocka_unit_test(mismatches_name_both_sides),
      cmocka_unit_test(mismatches_between_tensors_are_found),
      cmocka_unit_test(shapes_are_inferred),
      cmocka_unit_test(loops_and_calls_run),
      cmocka_unit_test(recursion_is_bounded),
      cmocka_unit_test(scalar_operators_compute),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(later_invokes_allocate_nothing),
      cmocka_unit_test(sessions_share_executable_and_pool),
      cmocka_unit_test(profiles_name_what_ran),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
