/* Executables written by earlier versions, tests/fixtures/NAME-MAJOR.MINOR.tnx, still load and run. They were
 * compiled for x86-64-v2: "embed" from examples/embed/model.onnx; "flow" from the output of
 * tests/fixtures/make_flow.py, since 1.6 with the sums of its loop on an island; "islands" from
 * tests/fixtures/islands.tng, with a, c and u on one island and b and t on another, since 1.8 in the second memory
 * of that one; "strided" from two sums and products with strided operands; "opencl" from that, with a, c and u on an
 * OpenCL device, which it requires. On other CPUs the error must name both. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/devices.h"
#include "unit/trampoline.h"

/* y = relu(x * [[1, -1], [2, -2], [3, -3]]) */
static void run_embed(const tn_executable *exe) {
  static _Alignas(64) float x[] = {1, 1, 1, 1, 0, -1, 0, 0, 0}, y[6];
  int64_t x_shape[2] = {3, 3}, y_shape[2] = {3, 2};
  DLTensor input = test_tensor(TN_F32, 2, x_shape, x), output = test_tensor(TN_F32, 2, y_shape, y);
  tn_session *session;
  check_ok(tn_session_create(exe, NULL, &session));
  for (int i = 0; i < 6; i++) y[i] = -1;
  check_ok(tn_session_invoke_with_outputs(session, NULL, &input, 1, &output, 1));
  assert_memory_equal(y, ((float[]){6, 0, 0, 2, 0, 0}), sizeof(y));
  tn_session_release(session);
}

/* rows: x, 2 x, 3 x; last: the last of them, twice */
static void run_flow(const tn_executable *exe) {
  static _Alignas(64) float x[] = {1, -2};
  static _Alignas(64) int64_t rounds = 3;
  static _Alignas(64) uint8_t flag = 1;
  int64_t shape[1] = {2};
  DLTensor inputs[] = {test_tensor(TN_F32, 1, shape, x), test_tensor(TN_I64, 0, NULL, &rounds),
                       test_tensor(TN_BOOL, 0, NULL, &flag)};
  tn_session *session;
  int count;
  DLTensor row, last;
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_invoke_stateful(session, NULL, inputs, 3));
  check_ok(tn_session_get_output_count(session, NULL, 0, &count));
  assert_int_equal(count, 3);
  for (int i = 0; i < count; i++) {
    check_ok(tn_session_get_output_item(session, NULL, 0, i, &row));
    assert_int_equal(row.shape[0], 2);
    assert_memory_equal(row.data, ((float[]){(float)(i + 1), (float)(-2 * (i + 1))}), 2 * sizeof(float));
  }
  check_ok(tn_session_get_output(session, NULL, 1, &last));
  assert_int_equal(last.shape[0], 4);
  assert_memory_equal(last.data, ((float[]){3, -6, 3, -6}), 4 * sizeof(float));
  tn_session_release(session);
}

/* c: tanh(x) + |tanh(x)|; y: rounds times y * |tanh(x)| - y, from c on. Of before events the devices take turns. */
static void run_islands(const tn_executable *exe) {
  static _Alignas(64) float x[8] = {0, 1, -1, 2, -2, 3, -3, 0.5f};
  static _Alignas(64) int64_t rounds = 3;
  static _Alignas(64) uint8_t flag = 1;
  int64_t shape[2] = {1, 8};
  DLTensor inputs[] = {test_tensor(TN_F32, 2, shape, x), test_tensor(TN_BOOL, 0, NULL, &flag),
                       test_tensor(TN_I64, 0, NULL, &rounds)};
  tn_session *session;
  DLTensor y, c;
  check_ok(tn_session_create(exe, NULL, &session));
  for (int i = 0; i < 2; i++) check_ok(tn_session_invoke_stateful(session, NULL, inputs, 3));
  check_ok(tn_session_get_output(session, NULL, 0, &y));
  check_ok(tn_session_get_output(session, NULL, 1, &c));
  for (int i = 0; i < 8; i++) {
    float b = fabsf(tanhf(x[i])), sum = tanhf(x[i]) + b, want = sum;
    for (int round = 0; round < 3; round++) want = want * b - want;
    assert_float_equal(((const float *)c.data)[i], sum, 1e-6);
    assert_float_equal(((const float *)y.data)[i], want, 1e-5);
  }
  tn_session_release(session);
}

/* r: p + q, s: p * q; p is transposed by strides */
static void run_strided(const tn_executable *exe) {
  static _Alignas(64) float p[6] = {1, 2, 3, 4, 5, 6}, q[6] = {1, 0, -1, 2, 3, 4};
  int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
  DLTensor inputs[] = {test_tensor(TN_F32, 2, shape, p), test_tensor(TN_F32, 2, shape, q)}, sum, product;
  tn_session *session;
  inputs[0].strides = strides;
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_invoke_stateful(session, NULL, inputs, 2));
  check_ok(tn_session_get_output(session, NULL, 0, &sum));
  check_ok(tn_session_get_output(session, NULL, 1, &product));
  assert_memory_equal(sum.data, ((float[]){2, 3, 4, 4, 7, 10}), sizeof p);
  assert_memory_equal(product.data, ((float[]){1, 0, -5, 4, 12, 24}), sizeof p);
  tn_session_release(session);
}

static void run_fixture(const char *name, const tn_executable *exe) {
  if (strncmp(name, "flow", 4) == 0)
    run_flow(exe);
  else if (strncmp(name, "islands", 7) == 0 || strncmp(name, "opencl", 6) == 0)
    run_islands(exe);
  else if (strncmp(name, "strided", 7) == 0)
    run_strided(exe);
  else
    run_embed(exe);
}

static bool has_opencl;
static int find_device(void **state) {
  const tn__device_driver *driver;
  *state = test_cache_folder();
  has_opencl = plugin_devices(kDLOpenCL, "opencl", &driver) > 0;
  return 0;
}

static int remove_caches(void **state) {
  remove_folder(*state);
  return 0;
}

static void fixtures_open_and_run(void **state) {
  struct dirent **entries;
  int count = scandir(TN_TEST_ROOT "/tests/fixtures", &entries, NULL, alphasort), opened = 0;
  for (int i = 0; i < count; i++) {
    size_t length = strlen(entries[i]->d_name);
    bool runs = strncmp(entries[i]->d_name, "opencl", 6) != 0 || has_opencl;
    if (length > 4 && strcmp(entries[i]->d_name + length - 4, ".tnx") == 0 && runs) {
      char path[512];
      snprintf(path, sizeof(path), TN_TEST_ROOT "/tests/fixtures/%s", entries[i]->d_name);
      tn_load_options options = {.size = sizeof(options), .verify_constants = true};
      tn_executable *exe;
      tn_status *status = tn_executable_load(path, &options, &exe);
      if (tn__host_arch() == TN__ARCH_X86_64) {
        check_ok(status);
        run_fixture(entries[i]->d_name, exe);
      } else {
        assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
        assert_non_null(strstr(tn_status_message(status), "was compiled for x86-64-v2"));
        tn_status_free(status);
      }
      tn_executable_release(exe);
      opened++;
    }
    free(entries[i]);
  }
  free(entries);
  assert_true(opened >= 18 + has_opencl);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fixtures_open_and_run)};
  return cmocka_run_group_tests(tests, find_device, remove_caches);
}
