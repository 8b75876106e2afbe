/* Data of ONNX models: every element type in raw and typed fields, sparse tensors, and external files, allowed and
 * refused. */
#include "unit/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "import/onnx/onnx.h"
#include "unit/onnx_build.h"

typedef struct reading {
  const char *path;
  tn__arena arena;
  tn__onnx_tensor tensor;
  tn__digest digest;
  tn__graph *graph;
} reading;

static void read_tensor_body(tn__escape *escape, void *arg) {
  reading *r = arg;
  r->tensor = tn__onnx_read_tensor(&r->arena, r->path);
}

static void open_body(tn__escape *escape, void *arg) {
  reading *r = arg;
  tn__onnx_model *model = tn__onnx_open(&r->arena, r->path, NULL, 0);
  r->digest = tn__onnx_digest(model, 2);
  r->graph = tn__onnx_import(model, tn__ir_create(&r->arena), NULL);
}

static tn_status *run(reading *r, void (*body)(tn__escape *escape, void *arg), const char *path) {
  tn__escape escape;
  *r = (reading){.path = path};
  tn__arena_init(&r->arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, body, r);
  r->arena.escape = NULL;
  return status;
}

static void write_file(const char *path, const void *data, size_t size) {
  const tn__bytes piece = {data, size};
  check_ok(tn__file_write_atomic(path, &piece, 1, 0644));
}

/* A folder of this process's own as the current one. */
static int enter_folder(void **state) {
  static char folder[64];
  snprintf(folder, sizeof(folder), "/tmp/tenon_onnx_data_%ld", (long)getpid());
  *state = folder;
  return mkdir(folder, 0700) != 0 || chdir(folder) != 0 || mkdir("inside", 0700) != 0;
}
static int leave_folder(void **state) {
  static const char *const files[] = {"m.onnx",        "t.pb",           "w.bin",        "inside/w.bin",
                                      "inside/m.onnx", "inside/out.bin", "inside/in.bin"};
  for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) unlink(files[i]);
  return rmdir("inside") != 0 || chdir("/") != 0 || rmdir(*state) != 0;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void expect_tensor(pb *tensor, tn_dtype dtype, double first, double last) {
  reading r;
  write_file("t.pb", tensor->data, tensor->size);
  check_ok(run(&r, read_tensor_body, "t.pb"));
  assert_int_equal(r.tensor.dtype, dtype);
  assert_int_equal(r.tensor.rank, 2);
  assert_int_equal(r.tensor.shape[0] * r.tensor.shape[1], 2);
  assert_true(tn__load_f64(dtype, r.tensor.data, 0) == first);
  assert_true(tn__load_f64(dtype, r.tensor.data, 1) == last);
  tn__arena_release(&r.arena);
  pb_free(tensor);
}

static void reads_typed_fields(void **state) {
  static const int64_t dims[] = {1, 2};
  static const struct {
    int type, field;
    tn_dtype dtype;
    int64_t first, last; /* as stored */
    double first_value, last_value;
  } rows[] = {
      {2, 5, TN_U8, 3, 255, 3, 255},
      {3, 5, TN_I8, 3, -128, 3, -128},
      {4, 5, TN_U16, 3, 65535, 3, 65535},
      {5, 5, TN_I16, 3, -32768, 3, -32768},
      {6, 5, TN_I32, 3, -7, 3, -7},
      {7, 7, TN_I64, 3, -7, 3, -7},
      {9, 5, TN_BOOL, 0, 1, 0, 1},
      {10, 5, TN_F16, 0x3c00, 0xc000, 1, -2},
      {12, 11, TN_U32, 3, 4294967295, 3, 4294967295},
      {13, 11, TN_U64, 3, 4294967296, 3, 4294967296.0},
      {16, 5, TN_BF16, 0x3f80, 0xc000, 1, -2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
    pb tensor = onnx_tensor_begin("t", rows[i].type, dims, 2);
    pb_int(&tensor, rows[i].field, rows[i].first);
    pb_int(&tensor, rows[i].field, rows[i].last);
    expect_tensor(&tensor, rows[i].dtype, rows[i].first_value, rows[i].last_value);
  }
  pb floats = onnx_tensor_begin("t", ONNX_FLOAT, dims, 2);
  pb_float(&floats, 4, 1.5f);
  pb_float(&floats, 4, -2);
  expect_tensor(&floats, TN_F32, 1.5, -2);
}

static void reads_raw_fields(void **state) {
  static const int64_t dims[] = {2, 1};
  static const double doubles[] = {0.1, -3};
  static const uint8_t bools[] = {0, 7};
  pb tensor = onnx_tensor_begin("t", ONNX_DOUBLE, dims, 2);
  pb_bytes(&tensor, 9, doubles, sizeof(doubles));
  expect_tensor(&tensor, TN_F64, 0.1, -3);
  tensor = onnx_tensor_begin("t", ONNX_BOOL, dims, 2);
  pb_bytes(&tensor, 9, bools, sizeof(bools));
  expect_tensor(&tensor, TN_BOOL, 0, 1);
}

static void names_the_file_of_a_wrong_tensor(void **state) {
  static const int64_t dims[] = {3};
  reading r;
  pb tensor = onnx_tensor_begin("t", ONNX_FLOAT, dims, 1);
  pb_bytes(&tensor, 9, "abcd", 4);
  write_file("t.pb", tensor.data, tensor.size);
  check_fails(run(&r, read_tensor_body, "t.pb"), TN_DATA_LOSS,
              "t.pb: tensor \"t\": has 4 bytes of data, its type f32[3] needs 12");
  tn__arena_release(&r.arena);
  check_fails(run(&r, read_tensor_body, "none.pb"), TN_NOT_FOUND, "none.pb: cannot open: No such file or directory");
  tn__arena_release(&r.arena);
  pb_free(&tensor);
}

/* ---- external data ----------------------------------------------------------------------------------------------- */

/* x + w with w of two floats in `location`. */
static void write_model(const char *path, const char *location, const char *offset, const char *length) {
  static const int64_t two[] = {2};
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "2");
  onnx_external(&graph, "w", ONNX_FLOAT, two, 1, location, offset, length);
  onnx_node(&graph, "Add", "", "x,w", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "2");
  pb model = onnx_model(17, &graph);
  write_file(path, model.data, model.size);
  pb_free(&model);
}

static void expect_refused(const char *location, const char *offset, const char *length, tn_status_code code,
                           const char *text) {
  reading r;
  write_model("inside/m.onnx", location, offset, length);
  check_fails(run(&r, open_body, "inside/m.onnx"), code, text);
  tn__arena_release(&r.arena);
}

static tn__digest expect_read(const char *path, double first) {
  reading r;
  check_ok(run(&r, open_body, path));
  bool found = false;
  for (int i = 0; i < tn__graph_node_count(r.graph); i++) {
    const tn__node *node = tn__graph_node_at(r.graph, i);
    for (int k = 0; k < node->input_count; k++)
      found = found || (node->inputs[k]->data != NULL && tn__load_f64(TN_F32, node->inputs[k]->data, 0) == first);
  }
  assert_true(found);
  tn__arena_release(&r.arena);
  return r.digest;
}

static void reads_external_data(void **state) {
  static const float data[] = {1, 2, 3};
  write_file("inside/w.bin", data, sizeof(data));
  write_model("inside/m.onnx", "w.bin", NULL, NULL);
  tn__digest before = expect_read("inside/m.onnx", 1);
  write_model("inside/m.onnx", "./w.bin", "4", "8");
  expect_read("inside/m.onnx", 2);
  write_model("m.onnx", "inside/w.bin", "4", NULL);
  expect_read("m.onnx", 2);
  /* Not aligned: copied. */
  char shifted[13] = {0};
  memcpy(shifted + 1, data, sizeof(data));
  write_file("inside/w.bin", shifted, sizeof(shifted));
  write_model("inside/m.onnx", "w.bin", "5", "8");
  expect_read("inside/m.onnx", 2);
  /* The digest covers the external bytes. */
  static const float other[] = {1, 5, 3};
  write_file("inside/w.bin", other, sizeof(other));
  write_model("inside/m.onnx", "w.bin", NULL, NULL);
  tn__digest after = expect_read("inside/m.onnx", 1);
  assert_memory_not_equal(&before, &after, sizeof(before));
}

static void refuses_external_data_elsewhere(void **state) {
  static const float data[] = {1, 2};
  write_file("w.bin", data, sizeof(data));
  expect_refused("/etc/hostname", NULL, NULL, TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": its external data \"/etc/hostname\" is an absolute path; it must "
                 "lie in the model's folder");
  expect_refused("../w.bin", NULL, NULL, TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": its external data \"../w.bin\" leaves the model's folder");
  expect_refused("a/../../w.bin", NULL, NULL, TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": its external data \"a/../../w.bin\" leaves the model's folder");
  assert_int_equal(symlink("../w.bin", "inside/out.bin"), 0);
  expect_refused(
      "out.bin", NULL, NULL, TN_INVALID_ARGUMENT,
      "inside/m.onnx: initializer \"w\": its external data \"out.bin\" is a symbolic link out of the model's folder");
  /* A link that stays inside is fine. */
  write_file("inside/w.bin", data, sizeof(data));
  assert_int_equal(symlink("w.bin", "inside/in.bin"), 0);
  write_model("inside/m.onnx", "in.bin", NULL, NULL);
  expect_read("inside/m.onnx", 1);
}

static void refuses_wrong_external_data(void **state) {
  static const float data[] = {1, 2};
  write_file("inside/w.bin", data, sizeof(data));
  expect_refused(NULL, NULL, NULL, TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": its external data has no location");
  expect_refused("none.bin", NULL, NULL, TN_NOT_FOUND,
                 "inside/m.onnx: initializer \"w\": its external data \"none.bin\" is not in the model's folder");
  expect_refused(
      "w.bin", "4", NULL, TN_DATA_LOSS,
      "inside/m.onnx: initializer \"w\": its external data \"w.bin\" has 8 bytes; 8 at offset 4 are beyond its end");
  expect_refused("w.bin", "18446744073709551615", "8", TN_DATA_LOSS,
                 "inside/m.onnx: initializer \"w\": its external data \"w.bin\" has 8 bytes; 8 at offset "
                 "18446744073709551615 are beyond its end");
  expect_refused("w.bin", "-4", NULL, TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": the offset \"-4\" of its external data is not a number of bytes");
  expect_refused("w.bin", "0", "99999999999999999999", TN_INVALID_ARGUMENT,
                 "inside/m.onnx: initializer \"w\": the length \"99999999999999999999\" of its external data is not a "
                 "number of bytes");
  expect_refused("w.bin", "0", "4", TN_DATA_LOSS,
                 "inside/m.onnx: initializer \"w\": has 4 bytes of data, its type f32[2] needs 8");
}

/* ---- sparse ------------------------------------------------------------------------------------------------------ */

static void write_sparse(int64_t index) {
  static const int64_t two[] = {2};
  pb graph = {0}, sparse = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "2,3");
  pb values = onnx_tensor_begin("w", ONNX_FLOAT, two, 1), indices = onnx_tensor_begin("", ONNX_INT64, two, 1);
  pb_float(&values, 4, 5);
  pb_float(&values, 4, 6);
  pb_int(&indices, 7, 0);
  pb_int(&indices, 7, index);
  pb_message(&sparse, 1, &values);
  pb_message(&sparse, 2, &indices);
  pb_int(&sparse, 3, 2);
  pb_int(&sparse, 3, 3);
  pb_message(&graph, 15, &sparse);
  onnx_node(&graph, "Add", "", "x,w", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "2,3");
  pb model = onnx_model(17, &graph);
  write_file("m.onnx", model.data, model.size);
  pb_free(&model);
}

static void reads_sparse_initializers(void **state) {
  reading r;
  write_sparse(4);
  expect_read("m.onnx", 5);
  write_sparse(6);
  check_fails(run(&r, open_body, "m.onnx"), TN_INVALID_ARGUMENT,
              "m.onnx: sparse initializer \"w\": index 1 lies outside of its shape");
  tn__arena_release(&r.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_typed_fields),
      cmocka_unit_test(reads_raw_fields),
      cmocka_unit_test(names_the_file_of_a_wrong_tensor),
      cmocka_unit_test(reads_external_data),
      cmocka_unit_test(refuses_external_data_elsewhere),
      cmocka_unit_test(refuses_wrong_external_data),
      cmocka_unit_test(reads_sparse_initializers),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
