/* Memory of inputs and outputs at every address: used where it lies on a multiple of its element's size, copied once
 * where it does not. */
#include <string.h>

#include "runtime/format/format.h"
#include "unit/compile_onnx.h"
#include "unit/failing_allocator.h"
#include "unit/rehash.h"

enum { ROWS = 37, COLUMNS = 53, COUNT = ROWS * COLUMNS, MOST_OUTPUTS = 4, OFFSETS = 64, BYTES = COUNT * 8 };
enum { ONNX_INT8 = 3, ONNX_UINT16 = 4, ONNX_INT16 = 5 };

typedef struct element {
  tn_dtype dtype;
  int onnx;
  const char *map; /* an operator that keeps the type: of one operand, or two */
  int operands;
  const char *reduction; /* NULL: none for the type */
} element;

static const element elements[] = {
    {TN_F32, ONNX_FLOAT, "Add", 2, "ReduceSum"},   {TN_F64, ONNX_DOUBLE, "Exp", 1, "ReduceMax"},
    {TN_F16, ONNX_FLOAT16, "Add", 2, "ReduceMax"}, {TN_BOOL, ONNX_BOOL, "Not", 1, NULL},
    {TN_U8, ONNX_UINT8, "Max", 2, "ReduceMax"},    {TN_I8, ONNX_INT8, "Max", 2, "ReduceMax"},
    {TN_I16, ONNX_INT16, "Max", 2, NULL},          {TN_U16, ONNX_UINT16, "Max", 2, NULL},
    {TN_I32, ONNX_INT32, "Add", 2, "ReduceSum"},   {TN_I64, ONNX_INT64, "Add", 2, "ReduceSum"},
};

/* x -> what is moved, mapped, passed on and, for most types, reduced. */
static pb every_kind(const element *e) {
  pb graph = {0};
  onnx_input(&graph, "x", e->onnx, "37,53");
  pb turn = onnx_node_begin("Transpose", "turn", "x", "turned");
  onnx_attr_ints(&turn, "perm", (int64_t[]){1, 0}, 2);
  pb_message(&graph, 1, &turn);
  onnx_output(&graph, "turned", e->onnx, "53,37");
  onnx_node(&graph, e->map, "map", e->operands == 1 ? "x" : "x,x", "mapped");
  onnx_output(&graph, "mapped", e->onnx, "37,53");
  onnx_node(&graph, "Identity", "pass", "x", "same");
  onnx_output(&graph, "same", e->onnx, "37,53");
  if (e->reduction != NULL) {
    onnx_raw(&graph, "axes", ONNX_INT64, (int64_t[]){1}, 1, &(int64_t){1}, sizeof(int64_t));
    pb reduce = onnx_node_begin(e->reduction, "reduce", "x,axes", "reduced");
    onnx_attr_int(&reduce, "keepdims", 1);
    pb_message(&graph, 1, &reduce);
    onnx_output(&graph, "reduced", e->onnx, "37,1");
  }
  return onnx_model(18, &graph);
}

static void make_values(const element *e, char *data) {
  for (int i = 0; i < COUNT; i++) {
    int small = i * 31 % 101 - 50;
    float f = (float)small / 16;
    uint16_t half = (uint16_t)(0x3c00 + i % 1024); /* from 1 to below 2 */
    switch (e->dtype) {
      case TN_F32: memcpy(data + 4 * i, &f, 4); break;
      case TN_F64: memcpy(data + 8 * i, &(double){f}, 8); break;
      case TN_F16: memcpy(data + 2 * i, &half, 2); break;
      case TN_BOOL: data[i] = (char)(small % 3 == 0); break;
      case TN_I32: memcpy(data + 4 * i, &(int32_t){small}, 4); break;
      case TN_I64: memcpy(data + 8 * i, &(int64_t){small}, 8); break;
      default: memcpy(data + tn_dtype_size(e->dtype) * (size_t)i, &(int16_t){(int16_t)small}, tn_dtype_size(e->dtype));
    }
  }
}

typedef struct place { /* of one output, with room around it */
  _Alignas(64) char memory[64 + BYTES + 64];
  DLTensor tensor;
  size_t bytes;
} place;

static place wanted[MOST_OUTPUTS], got[MOST_OUTPUTS];
static _Alignas(64) char input[BYTES + 64];
static int64_t shapes[MOST_OUTPUTS][2] = {{COLUMNS, ROWS}, {ROWS, COLUMNS}, {ROWS, COLUMNS}, {ROWS, 1}};

static void put_outputs(place *places, const element *e, int offset, DLTensor *tensors) {
  for (int i = 0; i < MOST_OUTPUTS; i++) {
    memset(places[i].memory, 0x5a, sizeof places[i].memory);
    places[i].tensor = tensor_of(e->dtype, 2, shapes[i], places[i].memory + 64 - offset);
    places[i].bytes = (size_t)(shapes[i][0] * shapes[i][1]) * tn_dtype_size(e->dtype);
    tensors[i] = places[i].tensor;
  }
}

static void check_outputs(int count) {
  for (int i = 0; i < count; i++) {
    const char *data = got[i].tensor.data;
    assert_memory_equal(data, wanted[i].tensor.data, wanted[i].bytes);
    for (const char *c = got[i].memory; c < data; c++) assert_int_equal(*c, 0x5a);
    for (const char *c = data + got[i].bytes; c < got[i].memory + sizeof got[i].memory; c++) assert_int_equal(*c, 0x5a);
  }
}

/* `sparing` can allocate no more: it invokes with memory that is used where it is, and fails with any other. */
static void invoke_at(const element *e, tn_session *sparing, tn_session *copying, int outputs, int offset) {
  size_t size = tn_dtype_size(e->dtype);
  bool in_place = (size_t)offset % size == 0;
  int64_t shape[2] = {ROWS, COLUMNS};
  DLTensor x = tensor_of(e->dtype, 2, shape, input), results[MOST_OUTPUTS], result;
  x.byte_offset = (uint64_t)offset;
  memmove(input + offset, input, (size_t)COUNT * size);
  put_outputs(got, e, offset, results);
  tn_status *status = tn_session_invoke_with_outputs(sparing, NULL, &x, 1, results, outputs);
  assert_int_equal(tn_status_code_of(status), in_place ? TN_OK : TN_OUT_OF_MEMORY);
  tn_status_free(status);
  status = tn_session_set_inputs(copying, NULL, NULL, &x, 1, TN_BIND_NEXT_IN_PLACE);
  if (status == NULL) status = tn_session_set_outputs(copying, NULL, NULL, results, outputs, TN_BIND_NEXT_IN_PLACE);
  if (!in_place) {
    char words[160];
    snprintf(words, sizeof words,
             "input \"x\": the tensor's data is aligned to %d bytes; to be used in place it must be to %zu",
             offset & -offset, size);
    check_fails(status, TN_INVALID_ARGUMENT, words);
    check_ok(tn_session_set_inputs(copying, NULL, NULL, &x, 1, TN_BIND_NEXT));
    check_ok(tn_session_set_outputs(copying, NULL, NULL, results, outputs, TN_BIND_NEXT));
  } else {
    check_ok(status);
    check_outputs(outputs);
    put_outputs(got, e, offset, results);
  }
  check_ok(tn_session_invoke(copying, NULL));
  check_outputs(outputs);
  for (int i = 0; i < outputs; i++) {
    check_ok(tn_session_get_output(copying, NULL, i, &result));
    assert_true((result.data == got[i].tensor.data) == in_place);
  }
  memmove(input, input + offset, (size_t)COUNT * size);
}

static void memory_lies_anywhere(void **state) {
  tn_compile_options options = plain();
  for (size_t k = 0; k < sizeof elements / sizeof elements[0]; k++) {
    const element *e = &elements[k];
    tn_executable *exe = compile_one(every_kind(e), &options);
    int outputs = tn_executable_output_count(exe, NULL);
    assert_int_equal(tn_executable_input(exe, NULL, 0)->alignment, tn_dtype_size(e->dtype));
    assert_int_equal(tn_executable_output(exe, NULL, 0)->alignment, tn_dtype_size(e->dtype));
    failing_allocator memory;
    failing_allocator_init(&memory, -1);
    tn_session *sparing = open_session(exe, &memory.allocator), *copying = open_session(exe, NULL);
    int64_t shape[2] = {ROWS, COLUMNS};
    DLTensor x = tensor_of(e->dtype, 2, shape, input), results[MOST_OUTPUTS];
    make_values(e, input);
    put_outputs(wanted, e, 0, results);
    check_ok(tn_session_invoke_with_outputs(sparing, NULL, &x, 1, results, outputs));
    memory.fail_at = memory.calls;
    for (int offset = 0; offset < OFFSETS; offset++) {
      invoke_at(e, sparing, copying, outputs, offset);
      memory.fail_at = memory.calls;
    }
    tn_session_release(sparing);
    tn_session_release(copying);
    tn_executable_release(exe);
  }
}

/* Results too large for the caches are written past them, in instructions that want aligned memory. */
static void streams_lie_anywhere(void **state) {
  enum { SIDE = 1536, ALL = SIDE * SIDE };
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "1536,1536");
  pb turn = onnx_node_begin("Transpose", "turn", "x", "y");
  onnx_attr_ints(&turn, "perm", (int64_t[]){1, 0}, 2);
  pb_message(&graph, 1, &turn);
  onnx_output(&graph, "y", ONNX_FLOAT, "1536,1536");
  onnx_node(&graph, "Neg", "negate", "x", "z");
  onnx_output(&graph, "z", ONNX_FLOAT, "1536,1536");
  tn_compile_options options = plain();
  tn_executable *exe = compile_one(onnx_model(18, &graph), &options);
  tn_session *session = open_session(exe, NULL);
  float *x = aligned_alloc(64, (ALL + 16) * sizeof(float)), *y = aligned_alloc(64, (ALL + 16) * sizeof(float)),
        *z = aligned_alloc(64, (ALL + 16) * sizeof(float));
  assert_true(x != NULL && y != NULL && z != NULL);
  for (int i = 0; i < ALL; i++) x[i] = (float)i;
  int64_t shape[2] = {SIDE, SIDE};
  for (int offset = 0; offset < 16; offset += offset < 4 ? 1 : 4) {
    DLTensor in = tensor_of(TN_F32, 2, shape, x);
    DLTensor outs[2] = {tensor_of(TN_F32, 2, shape, y + offset), tensor_of(TN_F32, 2, shape, z + offset)};
    memset(y, 0, (ALL + 16) * sizeof(float)), memset(z, 0, (ALL + 16) * sizeof(float));
    check_ok(tn_session_set_inputs(session, NULL, NULL, &in, 1, TN_BIND_NEXT_IN_PLACE));
    check_ok(tn_session_set_outputs(session, NULL, NULL, outs, 2, TN_BIND_NEXT_IN_PLACE));
    check_ok(tn_session_invoke(session, NULL));
    for (int i = 0; i < ALL; i++) {
      if (y[offset + i] != x[i % SIDE * SIDE + i / SIDE]) fail_msg("y %d at %d", i, offset);
      if (z[offset + i] != -x[i]) fail_msg("z %d at %d", i, offset);
    }
  }
  free(x), free(y), free(z);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static pb negation(void) {
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "4");
  onnx_node(&graph, "Neg", "negate", "x", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "4");
  return onnx_model(18, &graph);
}

/* A copy of the executable whose functions' section may be changed. */
static uint8_t *copy_of(const tn_module *module, size_t *size, uint8_t **functions) {
  const void *data = tn_module_data(module, size);
  uint8_t *bytes = aligned_alloc(64, (*size + 63) / 64 * 64);
  if (bytes == NULL || data == NULL) abort();
  memcpy(bytes, data, *size);
  const tn__file_header *header = (const void *)bytes;
  *functions = NULL;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *s = (const void *)(bytes + header->header_size + (size_t)i * header->section_record_size);
    if (s->kind == TN__SECTION_FUNCTIONS) *functions = bytes + s->offset;
  }
  if (*functions == NULL) abort();
  return bytes;
}

static tn__value_record *input_record(uint8_t *functions) {
  tn__function_record record;
  memcpy(&record, functions + sizeof(tn__functions_header), sizeof record);
  return (void *)(functions + record.inputs);
}

/* Files of before 1.5 do not say what their kernels want, which is 64 bytes. */
static void older_files_want_more(void **state) {
  tn_compile_options options = plain();
  tn_module *module;
  pb model = negation();
  check_ok(tn_compile("model.onnx", model.data, model.size, &options, &module));
  pb_free(&model);
  size_t size;
  uint8_t *functions, *bytes = copy_of(module, &size, &functions);
  ((tn__functions_header *)(void *)functions)->value_record_size = TN__VALUE_RECORD_1_3;
  rehash(bytes, size);
  tn_executable *exe;
  check_ok(tn_executable_load_memory(bytes, size, NULL, &exe));
  assert_int_equal(tn_executable_input(exe, NULL, 0)->alignment, 64);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float x[8] = {0, 1, 2, 3, 4}, y[8];
  int64_t four = 4;
  DLTensor in = tensor_of(TN_F32, 1, &four, x + 1), out = tensor_of(TN_F32, 1, &four, y + 2);
  check_fails(tn_session_set_input(session, NULL, "x", &in, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's data is aligned to 4 bytes; to be used in place it must be to 64");
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, &out, 1));
  assert_memory_equal(y, ((float[]){0, 0, -1, -2, -3, -4, 0, 0}), sizeof y);
  tn_session_release(session);
  tn_executable_release(exe);
  free(bytes);
  tn_module_release(module);
}

static void wrong_alignments_are_refused(void **state) {
  static const struct {
    uint32_t alignment;
    const char *words;
  } cases[] = {
      {0, "function \"main\": input \"x\" is aligned to 0 bytes"},
      {24, "function \"main\": input \"x\" is aligned to 24 bytes"},
      {128, "function \"main\": input \"x\" is aligned to 128 bytes"},
      {2, "function \"main\": register 0 has elements of 4 bytes in \"x\", which is aligned to 2"},
  };
  tn_compile_options options = plain();
  tn_module *module;
  pb model = negation();
  check_ok(tn_compile("model.onnx", model.data, model.size, &options, &module));
  pb_free(&model);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t size;
    uint8_t *functions, *bytes = copy_of(module, &size, &functions);
    input_record(functions)->alignment = cases[i].alignment;
    rehash(bytes, size);
    tn_executable *exe;
    char words[200];
    snprintf(words, sizeof words, "the executable is damaged: %s", cases[i].words);
    check_fails(tn_executable_load_memory(bytes, size, NULL, &exe), TN_DATA_LOSS, words);
    free(bytes);
  }
  tn_module_release(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_lies_anywhere),
      cmocka_unit_test(streams_lie_anywhere),
      cmocka_unit_test(older_files_want_more),
      cmocka_unit_test(wrong_alignments_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
