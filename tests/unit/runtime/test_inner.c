/* Inner functions: bodies of loops, functions specialised for a size, and those that read strided inputs. They rely
 * on checks of their callers, so callers of an executable can neither list nor call them, in any file version. Files
 * that contradict this are rejected. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rehash.h"
#include "unit/session_models.h"

/* Calls every public function that has a parameter for a function's name. */
static void check_unreachable(const tn_executable *exe, const char *name, const char *outer, const char *known) {
  char words[256];
  int64_t shapes[8][TN_MAX_RANK] = {0};
  const int64_t *inputs[8] = {0};
  for (int i = 0; i < 8; i++) inputs[i] = shapes[i];
  for (int i = 0; i < tn_executable_function_count(exe); i++)
    assert_string_not_equal(tn_executable_function_name(exe, i), name);
  assert_null(tn_executable_function_name(exe, tn_executable_function_count(exe)));
  assert_int_equal(tn_executable_input_count(exe, name), -1);
  assert_int_equal(tn_executable_output_count(exe, name), -1);
  assert_null(tn_executable_input(exe, name, 0));
  assert_null(tn_executable_output(exe, name, 0));
  assert_int_equal(tn_executable_input_index(exe, name, "x"), -1);
  assert_int_equal(tn_executable_output_index(exe, name, "y"), -1);
  assert_int_equal(tn_executable_output_alias(exe, name, 0), -1);
  snprintf(words, sizeof words,
           "function \"%s\" cannot be called: it is an inner function, which \"%s\" uses; call one of %s", name, outer,
           known);
  check_fails(tn_function_infer_shapes(exe, name, inputs, shapes), TN_NOT_FOUND, words);
}

static void check_uncallable(tn_session *session, const char *name) {
  float x[4] = {0};
  int64_t shape[1] = {4};
  int count;
  DLTensor t = test_tensor(TN_F32, 1, shape, x), out;
  tn_status *all[] = {tn_session_set_input(session, name, "x", &t, TN_BIND_NEXT),
                      tn_session_set_input_at(session, name, 0, &t, TN_BIND_NEXT),
                      tn_session_set_inputs(session, name, NULL, &t, 1, TN_BIND_NEXT),
                      tn_session_set_output(session, name, "y", &t, TN_BIND_NEXT),
                      tn_session_set_output_at(session, name, 0, &t, TN_BIND_NEXT),
                      tn_session_set_outputs(session, name, NULL, &t, 1, TN_BIND_NEXT),
                      tn_session_set_input_list(session, name, 0, &t, 1),
                      tn_session_set_output_list(session, name, 0, NULL, 0),
                      tn_session_set_output_bytes(session, name, 0, x, 4),
                      tn_session_invoke(session, name),
                      tn_session_start(session, name),
                      tn_session_invoke_with_outputs(session, name, &t, 1, NULL, 0),
                      tn_session_invoke_stateful(session, name, &t, 1),
                      tn_session_get_output(session, name, 0, &out),
                      tn_session_get_output_count(session, name, 0, &count),
                      tn_session_get_output_item(session, name, 0, 0, &out)};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    assert_non_null(all[i]);
    assert_int_equal(tn_status_code_of(all[i]), TN_NOT_FOUND);
    assert_non_null(strstr(tn_status_message(all[i]), "it is an inner function"));
    tn_status_free(all[i]);
  }
}

static void marked_functions_are_inner(void **state) {
  test_exe t;
  tn_executable *exe;
  test_exe_init(&t, NULL);
  tn__bytes bytes = build_loop_with(&t, true);
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  tn_session *session = session_of(exe);
  assert_int_equal(tn_executable_function_count(exe), 1);
  assert_string_equal(tn_executable_function_name(exe, 0), "apply");
  check_unreachable(exe, "power", "apply", "\"apply\"");
  check_uncallable(session, "power");
  char *text;
  check_ok(tn_executable_disassemble(exe, &text));
  assert_non_null(strstr(text, "\nfunction \"power\"(x: f32[n], k: i64[]) -> (y: f32[n]), inner\n"));
  free(text);
  test_exe_close(&t, exe, session);
}

static void older_files_are_protected(void **state) {
  static const struct {
    const char *file, *inner, *outer;
  } files[] = {{"strided-1.9", "main@strided", "main"},
               {"flow-1.9", "main.while", "main"},
               {"flow-1.4", "main.while", "main"},
               {"islands-1.8", "main.while", "main"}};
  const tn_load_options options = {.size = sizeof options, .inspect_only = true}; /* it may be for another CPU */
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[512], *text, name[64];
    tn_executable *exe;
    snprintf(path, sizeof path, TN_TEST_ROOT "/tests/fixtures/%s.tnx", files[i].file);
    check_ok(tn_executable_load(path, &options, &exe));
    assert_int_equal(tn_executable_function_count(exe), 1);
    check_ok(tn_executable_disassemble(exe, &text));
    const char *at = strstr(text, ", inner\n");
    assert_non_null(at);
    while (at > text && at[-1] != '\n') at--;
    at += strlen("function \"");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\""), at);
    assert_int_equal(strncmp(name, files[i].inner, strlen(files[i].inner)), 0);
    check_unreachable(exe, name, files[i].outer, "\"main\"");
    free(text);
    tn_executable_release(exe);
  }
}

/* ---- files that are rejected ------------------------------------------------------------------------------------- */

static void check_marks(const tn__bytes *bytes, int function, uint32_t inner, const char *words) {
  uint8_t *copy = malloc(bytes->size);
  memcpy(copy, bytes->data, bytes->size);
  const tn__file_header *header = (const void *)copy;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *s = (const void *)(copy + header->header_size + (size_t)i * header->section_record_size);
    if (s->kind != TN__SECTION_FUNCTIONS) continue;
    tn__function_record *records = (void *)(copy + s->offset + sizeof(tn__functions_header));
    records[function].inner = inner;
  }
  rehash(copy, bytes->size);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(copy, bytes->size, NULL, &exe), TN_DATA_LOSS, words);
  free(copy);
}

/* f(x) with x of any strides; by_strides(x, memory, strides); and h, which passes its caller's strides to
 * by_strides, or does nothing (`calls` false). */
static tn__bytes build_strided(test_exe *made, bool calls) {
  test_exe_init(made, NULL);
  int twice = test_exe_kernel(made, "double", double_kernel, 2, 1);
  static const char *const names[] = {"f", "by_strides", "h"};
  tn__exe_func *functions[3];
  int x[3], memory[3], strides[3], y[3], n[3];
  for (int i = 0; i < 3; i++) {
    tn__exe_func *f = functions[i] = tn__exe_function(made->exe, names[i]);
    n[i] = tn__exe_symbol(f, "n");
    tn__operand dims[1] = {SYM(n[i])}, two[1] = {DIM(2)};
    tn__exe_input(f, "x", TN_F32, 1, dims);
    x[i] = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
    if (i > 0) {
      tn__operand span[1] = {SYM(tn__exe_symbol(f, "span"))};
      tn__exe_input(f, "x@memory", TN_F32, 1, span);
      memory[i] = tn__exe_register(f, TN_F32, 1, span, TN__STORAGE_INPUT, 1, nowhere);
      tn__exe_input(f, "x@strides", TN_I64, 1, two);
      strides[i] = tn__exe_register(f, TN_I64, 1, two, TN__STORAGE_INPUT, 2, nowhere);
    }
    tn__exe_output(f, "y", TN_F32, 1, dims);
    y[i] = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  }
  tn__exe_strided(functions[0], functions[1], 0);
  tn__exe_emit_kernel(functions[0], twice, &x[0], 1, &y[0], 1, &n[0], 1);
  tn__exe_emit_kernel(functions[1], twice, &memory[1], 1, &y[1], 1, &n[1], 1);
  if (calls)
    tn__exe_emit_call(functions[2], 1, (int[]){x[2], memory[2], strides[2]}, 3, &y[2], 1);
  else
    tn__exe_emit_builtin(functions[2], TN__BUILTIN_FILL_ZERO, NULL, 0, &y[2], 1, NULL, 0);
  for (int i = 0; i < 3; i++) tn__exe_emit(functions[i], TN__OP_RETURN, NULL, 0);
  return test_exe_finish(made);
}

static void only_sessions_call_for_strides(void **state) {
  test_exe t;
  tn_executable *exe;
  tn__bytes bytes = build_strided(&t, true);
  check_fails(
      tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
      "the executable is damaged: function \"h\", code word 0, CALL: function \"by_strides\" is for inputs of any "
      "strides, and only a session calls it");
  test_exe_release(&t);
}

static void marks_are_verified(void **state) {
  test_exe t;
  tn__bytes bytes = build_strided(&t, false);
  tn_executable_release(loaded(bytes));
  check_marks(&bytes, 1, 0,
              "the executable is damaged: function \"by_strides\" is for inputs of any strides and not marked as "
              "inner");
  check_marks(&bytes, 0, 1, "the executable is damaged: its first function, \"f\", is an inner one");
  test_exe_release(&t);
}

/* f(x: f32[4], k: i64[]) -> y: f32[k]: a kernel reads a view of run-time size [k] of a value of [4]. */
static void late_views_are_as_large_as_their_memory(void **state) {
  test_exe t;
  tn_executable *exe;
  test_exe_init(&t, NULL);
  int twice = test_exe_kernel(&t, "double", double_kernel, 2, 1);
  tn__exe_func *f = tn__exe_function(t.exe, "f");
  tn__operand four[1] = {DIM(4)};
  tn__exe_input(f, "x", TN_F32, 1, four);
  tn__exe_input(f, "k", TN_I64, 0, NULL);
  int x = tn__exe_register(f, TN_F32, 1, four, TN__STORAGE_INPUT, 0, nowhere);
  int k = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_INPUT, 1, nowhere);
  int size = tn__exe_scalar(f);
  tn__operand late[1] = {SYM(size)};
  tn__exe_output(f, "y", TN_F32, 1, late);
  int y = tn__exe_register(f, TN_F32, 1, late, TN__STORAGE_OUTPUT, 0, nowhere);
  int made = tn__exe_register(f, TN_F32, 1, four, TN__STORAGE_DYNAMIC, 0, nowhere);
  int view = tn__exe_register(f, TN_F32, 1, late, TN__STORAGE_VIEW, made, nowhere);
  tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)made), 1);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)made, (uint32_t)x), 2);
  tn__exe_emit(f, TN__OP_SCALAR_LOAD, W((uint32_t)size, (uint32_t)k, 0), 3);
  tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)y), 1);
  tn__exe_emit_kernel(f, twice, &view, 1, &y, 1, &size, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_session *session = test_exe_open(&t, &exe);
  int64_t shape[1] = {4}, sizes[] = {4, 5, 1000000};
  fill();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    DLTensor inputs[2] = {test_tensor(TN_F32, 1, shape, xs), test_tensor(TN_I64, 0, NULL, &sizes[i])}, out;
    tn_status *status = tn_session_invoke_stateful(session, NULL, inputs, 2);
    if (i > 0) {
      char words[128];
      snprintf(words, sizeof words, "a value of shape [4] cannot be seen with the shape [%lld]", (long long)sizes[i]);
      check_fails(status, TN_INVALID_ARGUMENT, words);
      continue;
    }
    check_ok(status);
    check_ok(tn_session_get_output(session, NULL, 0, &out));
    for (int e = 0; e < 4; e++) assert_true(((float *)out.data)[e] == 2 * xs[e]);
  }
  test_exe_close(&t, exe, session);
}

/* main(x) -> (y, z): x and y grow in buffers of 4. No input's shape has the valid length of y, so y cannot be a
 * growing argument. */
static void outputs_that_grow_are_no_arguments(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main"), *g = tn__exe_function(t.exe, "g");
  tn__exe_func *functions[2] = {f, g};
  tn__operand four[1] = {DIM(4)}, two[1] = {DIM(2)};
  int x[2], z[2];
  for (int i = 0; i < 2; i++) {
    tn__exe_input(functions[i], "x", TN_F32, 1, four);
    tn__exe_extent(functions[i], false, 0, 0, SYM(tn__exe_symbol(functions[i], "n")));
    x[i] = tn__exe_register(functions[i], TN_F32, 1, four, TN__STORAGE_INPUT, 0, nowhere);
    tn__exe_output(functions[i], "z", TN_F32, 1, two);
    z[i] = tn__exe_register(functions[i], TN_F32, 1, two, TN__STORAGE_OUTPUT, 0, nowhere);
    tn__exe_emit_builtin(functions[i], TN__BUILTIN_FILL_ZERO, NULL, 0, &z[i], 1, NULL, 0);
  }
  tn__exe_output(f, "y", TN_F32, 1, four);
  tn__exe_extent(f, true, 1, 0, SYM(tn__exe_symbol(f, "n")));
  int y = tn__exe_register(f, TN_F32, 1, four, TN__STORAGE_OUTPUT, 1, nowhere);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)y, (uint32_t)x[0]), 2);
  tn__exe_emit_call(f, 1, &y, 1, &z[0], 1);
  for (int i = 0; i < 2; i++) tn__exe_emit(functions[i], TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
              "the executable is damaged: function \"main\", code word 11, CALL: a buffer of which only some "
              "elements count is used as a whole");
  test_exe_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(marked_functions_are_inner),
      cmocka_unit_test(older_files_are_protected),
      cmocka_unit_test(marks_are_verified),
      cmocka_unit_test(only_sessions_call_for_strides),
      cmocka_unit_test(outputs_that_grow_are_no_arguments),
      cmocka_unit_test(late_views_are_as_large_as_their_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
