#include "runtime/tensor.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "unit/check.h"
#include "unit/failing_allocator.h"

static void tensors_are_zeroed_and_aligned(void **state) {
  static const tn_dtype types[] = {TN_I8,  TN_I16, TN_I32, TN_I64, TN_U8,   TN_U16, TN_U32,
                                   TN_U64, TN_F16, TN_F32, TN_F64, TN_BF16, TN_BOOL};
  int64_t shape[3] = {3, 5, 7};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    tn_tensor *tensor;
    check_ok(tn_tensor_create(types[i], 3, shape, NULL, &tensor));
    DLTensor *dl = tn_tensor_dl(tensor);
    assert_int_equal(tn_dtype_of_dl(dl->dtype), types[i]);
    assert_int_equal((uintptr_t)dl->data % 64, 0);
    for (size_t b = 0; b < 105 * tn_dtype_size(types[i]); b++) assert_int_equal(((char *)dl->data)[b], 0);
    dl->data = NULL; /* the caller's to change */
    tn_tensor_release(tensor);
  }
}

static void bad_tensors_are_refused(void **state) {
  tn_tensor *tensor;
  int64_t negative[2] = {2, -1}, huge[2] = {INT64_MAX, 2}, empty[3] = {INT64_MAX, INT64_MAX, 0};
  check_fails(tn_tensor_create(TN_F32, 2, negative, NULL, &tensor), TN_INVALID_ARGUMENT,
              "a tensor of shape [2, -1]: a dimension is negative or the size overflows");
  check_fails(tn_tensor_create(TN_F32, 2, huge, NULL, &tensor), TN_INVALID_ARGUMENT,
              "a tensor of shape [9223372036854775807, 2]: a dimension is negative or the size overflows");
  check_fails(tn_tensor_create(TN_F32, 17, huge, NULL, &tensor), TN_INVALID_ARGUMENT,
              "a tensor of rank 17: it can be 0 to 16");
  check_fails(tn_tensor_create((tn_dtype)3, 0, NULL, NULL, &tensor), TN_INVALID_ARGUMENT,
              "a tensor of the unknown type 3");
  check_ok(tn_tensor_create(TN_F32, 3, empty, NULL, &tensor)); /* no elements, whatever the other dimensions */
  tn_tensor_release(tensor);
  assert_int_equal(tn_element_count(3, empty), 0);
  assert_int_equal(tn_dtype_of_dl((DLDataType){kDLFloat, 32, 4}), TN_DTYPE_INVALID);
  for (int refused = 0; refused < 2; refused++) {
    failing_allocator memory;
    failing_allocator_init(&memory, refused);
    tn_status *status = tn_tensor_create(TN_F32, 2, (int64_t[]){2, 2}, &memory.allocator, &tensor);
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
    assert_int_equal(memory.live_count, 0);
  }
}

static void strided_copies_follow_strides(void **state) {
  int64_t source[24], out[24], shape[3] = {2, 3, 4}, transposed[3] = {4, 3, 2}, strides[3] = {1, 4, 12};
  for (int i = 0; i < 24; i++) source[i] = i;
  for (int size = 1; size <= 8; size *= 2) {
    unsigned char narrow[24 * 8], copied[24 * 8];
    tn_dtype dtype = size == 1 ? TN_U8 : size == 2 ? TN_U16 : size == 4 ? TN_U32 : TN_U64;
    for (int i = 0; i < 24; i++) tn__store_i64(dtype, narrow, i, source[i]);
    DLTensor view = {narrow, {kDLCPU, 0}, 3, tn_dtype_to_dl(dtype), transposed, strides, 0};
    assert_false(tn__tensor_is_dense(&view));
    tn__tensor_copy_dense(&view, copied);
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 3; b++)
        for (int c = 0; c < 2; c++)
          assert_int_equal(tn__load_i64(dtype, copied, (a * 3 + b) * 2 + c), c * 12 + b * 4 + a);
  }
  int64_t broadcast[3] = {0, 4, 1}, ones[3] = {1, 3, 4}, odd[3] = {77, 4, 1};
  DLTensor repeated = {source, {kDLCPU, 0}, 3, tn_dtype_to_dl(TN_I64), shape, broadcast, 0};
  tn__tensor_copy_dense(&repeated, out);
  for (int i = 0; i < 24; i++) assert_int_equal(out[i], i % 12);
  DLTensor dense = {source, {kDLCPU, 0}, 3, tn_dtype_to_dl(TN_I64), ones, odd, 0};
  assert_true(tn__tensor_is_dense(&dense)); /* the stride of one row does not matter */
}

/* ---- .npy ------------------------------------------------------------------------------------------------------- */

static void npy_round_trips(void **state) {
  char path[64];
  snprintf(path, sizeof(path), "/tmp/tenon-test-%ld.npy", (long)getpid());
  static const tn_dtype types[] = {TN_I8, TN_U64, TN_F16, TN_F32, TN_F64, TN_BF16, TN_BOOL};
  int64_t shapes[3] = {2, 3, 4};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    for (int rank = 0; rank <= 3; rank++) {
      tn_tensor *tensor, *back;
      check_ok(tn_tensor_create(types[i], rank, shapes, NULL, &tensor));
      int64_t count = tn_element_count(rank, shapes);
      for (int64_t e = 0; e < count; e++) tn__store_f64(types[i], tn_tensor_dl(tensor)->data, e, (double)(e % 2));
      check_ok(tn_tensor_write_npy(tn_tensor_dl(tensor), path));
      check_ok(tn_tensor_read_npy(path, NULL, &back));
      DLTensor *dl = tn_tensor_dl(back);
      assert_int_equal(tn_dtype_of_dl(dl->dtype), types[i]);
      assert_int_equal(dl->ndim, rank);
      for (int d = 0; d < rank; d++) assert_int_equal(dl->shape[d], shapes[d]);
      assert_memory_equal(dl->data, tn_tensor_dl(tensor)->data, (size_t)count * tn_dtype_size(types[i]));
      tn_tensor_release(tensor);
      tn_tensor_release(back);
    }
  }
  unlink(path);
}

static tn_status *read_text(const char *header, size_t body, tn_tensor **out) {
  uint8_t file[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)strlen(header), 0};
  memcpy(file + 10, header, strlen(header));
  for (size_t i = 0; i < body; i++) file[10 + strlen(header) + i] = (uint8_t)i;
  return tn_tensor_read_npy_memory("x.npy", file, 10 + strlen(header) + body, NULL, out);
}

static void npy_headers_are_read_as_numpy_does(void **state) {
  tn_tensor *t;
  check_ok(read_text("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", 6, &t));
  assert_memory_equal(tn_tensor_dl(t)->data, ((uint8_t[]){0, 2, 4, 1, 3, 5}), 6);
  tn_tensor_release(t);
  check_ok(read_text("{\"shape\":(4,),\"descr\":\"<i2\",\"fortran_order\":False}", 8, &t));
  assert_int_equal(tn_tensor_dl(t)->shape[0], 4);
  tn_tensor_release(t);
  static const struct {
    const char *header;
    size_t body;
    tn_status_code code;
    const char *words;
  } bad[] = {
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, TN_UNSUPPORTED,
       "x.npy: elements of NumPy's type \">f4\" are not supported"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, TN_UNSUPPORTED,
       "x.npy: elements of NumPy's type \"<c8\" are not supported"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, TN_UNSUPPORTED,
       "x.npy: structured elements are not supported"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 23, TN_DATA_LOSS,
       "x.npy: f32[3, 2] needs more than the 23 bytes that follow its header"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 16, TN_DATA_LOSS,
       "x.npy: f32[4611686018427387904, 4] needs more than the 16 bytes that follow its header"},
      {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 4, TN_DATA_LOSS,
       "x.npy: the header of this .npy file makes no sense"},
      {"{'descr': '<f4', 'shape': (1,), }", 4, TN_DATA_LOSS, "x.npy: the header of this .npy file makes no sense"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, TN_DATA_LOSS,
       "x.npy: the header of this .npy file makes no sense"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4, TN_DATA_LOSS,
       "x.npy: the header of this .npy file makes no sense"},
      {"{", 0, TN_DATA_LOSS, "x.npy: the header of this .npy file makes no sense"},
      {"", 0, TN_DATA_LOSS, "x.npy: the header of this .npy file makes no sense"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    check_fails(read_text(bad[i].header, bad[i].body, &t), bad[i].code, bad[i].words);
  check_fails(tn_tensor_read_npy_memory("x.npy", "PK\3\4", 4, NULL, &t), TN_DATA_LOSS, "x.npy: not a .npy file");
  check_fails(tn_tensor_read_npy_memory("x.npy", "\x93NUMPY\4\0\0\0", 10, NULL, &t), TN_UNSUPPORTED,
              "x.npy: .npy version 4.0 is not supported");
}

static void npy_truncation_is_refused(void **state) {
  char path[64];
  snprintf(path, sizeof(path), "/tmp/tenon-test-%ld.npy", (long)getpid());
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  float values[6] = {0, 1, 2, 3, 4, 5};
  DLTensor tensor = {values, {kDLCPU, 0}, 2, tn_dtype_to_dl(TN_F32), shape, strides, 0};
  check_ok(tn_tensor_write_npy(&tensor, path));
  tn__file_map map;
  check_ok(tn__file_map_open(path, &map));
  tn_tensor *t;
  check_ok(tn_tensor_read_npy_memory(path, map.data, map.size, NULL, &t));
  assert_memory_equal(tn_tensor_dl(t)->data, ((float[]){0, 3, 1, 4, 2, 5}), sizeof(values));
  tn_tensor_release(t);
  for (size_t size = 0; size < map.size; size++) {
    char *exact = malloc(size == 0 ? 1 : size); /* so that a sanitizer sees a read behind it */
    memcpy(exact, map.data, size);
    tn_status *status = tn_tensor_read_npy_memory("x.npy", exact, size, NULL, &t);
    assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
    tn_status_free(status);
    free(exact);
  }
  tn__file_map_close(&map);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_are_zeroed_and_aligned),     cmocka_unit_test(bad_tensors_are_refused),
      cmocka_unit_test(strided_copies_follow_strides),      cmocka_unit_test(npy_round_trips),
      cmocka_unit_test(npy_headers_are_read_as_numpy_does), cmocka_unit_test(npy_truncation_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
