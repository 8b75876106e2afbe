/* Inputs that have defaults: what the loader refuses of them, and what sessions have where nothing is bound. */
#include <stdlib.h>

#include "program/exe_writer.h"
#include "runtime/executable/executable.h"
#include "unit/check.h"
#include "unit/rehash.h"
#include "unit/trampoline.h"

#define DIM(v) tn__prog_operand_const(v)
#define SYM(s) tn__prog_operand_scalar(s)
static const tn__operand nowhere = {0, 0, 0};
static const float three[3] = {1, 2, 3};
static int64_t sizes[2] = {3, 2};

/* main(x: f32[n] = default) -> (y: f32[n]), which copies; a second constant of two elements. */
typedef struct sample {
  test_exe t;
  tn__exe_func *f;
} sample;

static void begin(sample *s) {
  test_exe_init(&s->t, NULL);
  int constant = tn__exe_constant(s->t.exe, "three", TN_F32, 1, &sizes[0], three, sizeof three);
  tn__exe_constant(s->t.exe, "two", TN_F32, 1, &sizes[1], three, 2 * sizeof *three);
  tn__exe_constant(s->t.exe, "whole", TN_I32, 1, &sizes[0], three, sizeof three);
  s->f = tn__exe_function(s->t.exe, "main");
  const tn__operand dims[1] = {SYM(tn__exe_symbol(s->f, "n"))};
  tn__exe_input(s->f, "x", TN_F32, 1, dims);
  tn__exe_output(s->f, "y", TN_F32, 1, dims);
  tn__exe_default(s->f, 0, constant);
  uint32_t x = (uint32_t)tn__exe_register(s->f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  uint32_t y = (uint32_t)tn__exe_register(s->f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_emit(s->f, TN__OP_COPY, (uint32_t[]){y, x}, 2);
  tn__exe_emit(s->f, TN__OP_RETURN, NULL, 0);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void expect(tn_session *session, int count, const float *want) {
  DLTensor y;
  check_ok(tn_session_get_output(session, NULL, 0, &y));
  assert_int_equal(y.shape[0], count);
  assert_memory_equal(y.data, want, (size_t)count * sizeof *want);
}

static void what_is_not_bound_is_the_default(void **state) {
  sample s;
  tn_executable *exe;
  begin(&s);
  tn_session *session = test_exe_open(&s.t, &exe);
  const DLTensor *fallback = tn_executable_input(exe, NULL, 0)->fallback;
  assert_non_null(fallback);
  assert_true(fallback->ndim == 1 && fallback->shape[0] == 3 && memcmp(fallback->data, three, sizeof three) == 0);
  assert_null(tn_executable_output(exe, NULL, 0)->fallback);
  float other[2] = {8, 9}, out[3] = {0};
  const DLTensor given = test_tensor(TN_F32, 1, &sizes[1], other), none = {0};
  const char *name = "x";
  for (int round = 0; round < 2; round++) {
    for (int again = 0; again < 3; again++) { /* from the second on nothing is bound anew */
      check_ok(tn_session_invoke(session, NULL));
      expect(session, 3, three);
    }
    check_ok(tn_session_set_input_at(session, NULL, 0, &given, TN_BIND_NEXT));
    check_ok(tn_session_invoke(session, NULL));
    expect(session, 2, other);
    check_ok(tn_session_invoke(session, NULL));
    expect(session, 3, three);
    check_ok(tn_session_set_inputs(session, NULL, &name, &given, 1, TN_BIND_PERSISTENT));
    for (int again = 0; again < 2; again++) {
      check_ok(tn_session_invoke(session, NULL));
      expect(session, 2, other);
    }
    check_ok(tn_session_invoke_stateful(session, NULL, &none, 1));
    expect(session, 3, three);
    check_ok(tn_session_invoke_stateful(session, NULL, &given, 1));
    expect(session, 2, other);
    check_ok(tn_session_set_inputs(session, NULL, &name, &none, 1, TN_BIND_PERSISTENT));
  }
  const DLTensor room = test_tensor(TN_F32, 1, &sizes[0], out);
  check_ok(tn_session_invoke_with_outputs(session, NULL, &none, 1, &room, 1));
  assert_memory_equal(out, three, sizeof three);
  int64_t shape[1][TN_MAX_RANK];
  check_ok(tn_function_infer_shapes(exe, NULL, NULL, shape));
  assert_int_equal(shape[0][0], 3);
  check_ok(tn_function_infer_shapes(exe, NULL, (const int64_t *[]){&sizes[1]}, shape));
  assert_int_equal(shape[0][0], 2);
  test_exe_close(&s.t, exe, session);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Loads a copy of the file whose input or output has another default. */
static tn_status *load_with(const tn__bytes *bytes, bool output, uint32_t fallback, bool older, tn_executable **exe) {
  uint8_t *copy = aligned_alloc(64, (bytes->size + 63) / 64 * 64), *functions = NULL;
  if (copy == NULL) abort();
  memcpy(copy, bytes->data, bytes->size);
  const tn__file_header *header = (const void *)copy;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *section = (const void *)(copy + header->header_size + i * sizeof *section);
    if (section->kind == TN__SECTION_FUNCTIONS) functions = copy + section->offset;
  }
  assert_non_null(functions);
  tn__function_record record;
  memcpy(&record, functions + sizeof(tn__functions_header), sizeof record);
  tn__value_record *value = (void *)(functions + (output ? record.outputs : record.inputs));
  value->fallback = fallback;
  if (older) ((tn__functions_header *)(void *)functions)->value_record_size = TN__VALUE_RECORD_1_5;
  rehash(copy, bytes->size);
  tn_status *status = tn_executable_load_memory(copy, bytes->size, NULL, exe);
  free(copy);
  return status;
}

static void wrong_defaults_are_refused(void **state) {
  static const struct {
    bool output;
    uint32_t fallback;
    const char *words;
  } cases[] = {
      {false, 4, "the default of input \"x\" is constant 3 of 3"},
      {false, UINT32_MAX, "the default of input \"x\" is constant 2147483647 of 3"},
      {false, 3, "input \"x\" and its default \"whole\" differ in type or shape"},
      {true, 1, "\"y\" is no input of a tensor, and has a default"},
  };
  sample s;
  begin(&s);
  tn__bytes bytes = test_exe_finish(&s.t);
  tn_executable *exe;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char words[256];
    snprintf(words, sizeof words, "the executable is damaged: function \"main\": %s", cases[i].words);
    check_fails(load_with(&bytes, cases[i].output, cases[i].fallback, false, &exe), TN_DATA_LOSS, words);
  }
  test_exe_release(&s.t);
}

static void sizes_of_inputs_are_those_of_defaults(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  int constant = tn__exe_constant(t.exe, "two", TN_F32, 1, &sizes[1], three, 2 * sizeof *three);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  const tn__operand dims[1] = {DIM(3)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_default(f, 0, constant);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
              "the executable is damaged: function \"main\": input \"x\" and its default \"two\" differ in type or "
              "shape");
  test_exe_release(&t);
}

/* Files of before 1.11 have no defaults. */
static void older_files_have_none(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = test_exe_finish(&s.t);
  tn_executable *exe = NULL;
  tn_status *status = load_with(&bytes, false, 1, true, &exe);
  check_ok(status);
  assert_null(tn_executable_input(exe, NULL, 0)->fallback);
  tn_session *session;
  check_ok(tn_session_create(exe, NULL, &session));
  check_fails(tn_session_invoke(session, NULL), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"main\" is not bound");
  tn_session_release(session);
  tn_executable_release(exe);
  test_exe_release(&s.t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_not_bound_is_the_default),
      cmocka_unit_test(wrong_defaults_are_refused),
      cmocka_unit_test(sizes_of_inputs_are_those_of_defaults),
      cmocka_unit_test(older_files_have_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
