/* What the verifier and the machine hold executables to whose inputs and outputs grow in buffers. */
#include "unit/session_models.h"

typedef enum growing_case {
  GOOD,
  BAD_AXIS,
  OPEN_CAPACITY,
  TOO_MUCH,
  LATE,
  OTHER_ALIAS,
  COPIED_WHOLE,
  COPIED_FROM_VIEW,
  LOADED_FROM,
  FILLED,
  PASSED_ON_WHOLE,
  OVERFLOWING,
  SHRINKING
} growing_case;

/* Writes 7 behind the elements that count. */
static int32_t append_seven(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int64_t *out = buffers[1];
  for (int64_t row = 0; row < 2; row++) out[row * 4 + scalars[0]] = 7;
  return TN_KERNEL_OK;
}

static void use_as_a_whole(tn__exe_func *f, growing_case which, int in, int out) {
  const tn__operand dims[2] = {DIM(2), DIM(4)}, flat[1] = {DIM(8)};
  int dynamic = tn__exe_register(f, TN_I64, 2, dims, TN__STORAGE_DYNAMIC, 0, nowhere);
  int view = tn__exe_register(f, TN_I64, 1, flat, TN__STORAGE_VIEW, in, nowhere);
  if (which == COPIED_WHOLE || which == COPIED_FROM_VIEW) {
    tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)dynamic), 1);
    tn__exe_emit(f, TN__OP_COPY, W((uint32_t)dynamic, (uint32_t)(which == COPIED_WHOLE ? in : view)), 2);
  }
  if (which == LOADED_FROM) tn__exe_emit(f, TN__OP_SCALAR_LOAD, W((uint32_t)tn__exe_scalar(f), (uint32_t)in, 7), 3);
  if (which == FILLED) tn__exe_emit_builtin(f, TN__BUILTIN_FILL_ZERO, NULL, 0, &out, 1, NULL, 0);
  if (which == PASSED_ON_WHOLE) tn__exe_emit_call(f, 1, &in, 1, &dynamic, 1);
}

/* whole(a: i64[2, 4]) -> a */
static void add_whole(test_exe *t) {
  tn__exe_func *f = tn__exe_function(t->exe, "whole");
  const tn__operand dims[2] = {DIM(2), DIM(4)};
  tn__exe_input(f, "a", TN_I64, 2, dims);
  tn__exe_output(f, "b", TN_I64, 2, dims);
  int in = tn__exe_register(f, TN_I64, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
  int out = tn__exe_register(f, TN_I64, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)out, (uint32_t)in), 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
}

/* f(past: i64[2, n <= 4]) -> present: i64[2, n + 1 <= 4], which aliases it */
static tn__bytes build_growing(test_exe *t, growing_case which) {
  int kernel = test_exe_kernel(t, "append_seven", append_seven, 2, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "f");
  int n = tn__exe_symbol(f, "n"), m = which == OPEN_CAPACITY ? tn__exe_symbol(f, "m") : -1;
  tn__operand dims[2] = {DIM(2), which == OPEN_CAPACITY ? SYM(m) : DIM(4)};
  tn__exe_input(f, "past", TN_I64, 2, dims);
  tn__exe_output(f, "present", TN_I64, 2, dims);
  int in = tn__exe_register(f, TN_I64, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
  int out = tn__exe_register(f, TN_I64, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_alias(f, 0, 0);
  int one = tn__exe_emit_const(f, which == OVERFLOWING ? 2 : which == SHRINKING ? -3 : 1);
  if (which == LATE) tn__exe_emit(f, TN__OP_COPY, W((uint32_t)out, (uint32_t)in), 2);
  int total = tn__exe_emit_scalar_op(f, TN__SCALAR_ADD, n, one);
  tn__exe_extent(f, false, 0,
                 which == BAD_AXIS      ? 2
                 : which == OTHER_ALIAS ? 0
                                        : 1,
                 which == TOO_MUCH ? DIM(5) : SYM(n));
  tn__exe_extent(f, true, 0, 1, SYM(total));
  use_as_a_whole(f, which, in, out);
  if (which != OTHER_ALIAS) tn__exe_emit(f, TN__OP_COPY, W((uint32_t)out, (uint32_t)in), 2);
  tn__exe_emit_kernel(f, kernel, &in, 1, &out, 1, &n, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  if (which == PASSED_ON_WHOLE) add_whole(t);
  return test_exe_finish(t);
}

static void wrong_buffers_are_refused(void **state) {
  static const struct {
    growing_case which;
    const char *text;
  } cases[] = {
      {BAD_AXIS,
       "the executable is damaged: function \"f\": \"past\" grows along dimension 2, which is not a constant of it"},
      {OPEN_CAPACITY,
       "the executable is damaged: function \"f\": \"past\" grows along dimension 1, which is not a constant of it"},
      {TOO_MUCH, "the executable is damaged: function \"f\": 5 elements of \"past\" count, and it has 4"},
      {LATE, "the executable is damaged: function \"f\": the shape of output \"present\" is not found by its prologue"},
      {OTHER_ALIAS,
       "the executable is damaged: function \"f\": output \"present\" aliases input \"past\", which grows along "
       "another dimension, or not at all"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn__bytes bytes = build_growing(&t, cases[i].which);
    tn_executable *exe;
    check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS, cases[i].text);
    test_exe_release(&t);
  }
}

/* What does not count need not be memory: no instruction touches it. */
static void what_does_not_count_is_not_touched(void **state) {
  for (growing_case which = COPIED_WHOLE; which <= PASSED_ON_WHOLE; which++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn__bytes bytes = build_growing(&t, which);
    tn_executable *exe;
    tn_status *status = tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe);
    assert_non_null(status);
    assert_non_null(strstr(tn_status_message(status), "a buffer of which only some elements count is used as a whole"));
    tn_status_free(status);
    test_exe_release(&t);
  }
}

static tn_status *run(tn_session *session, int64_t *data, int64_t n, int64_t after) {
  int64_t strides[2] = {4, 1}, before[2] = {2, n}, then[2] = {2, after};
  DLTensor past = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_I64)}, present;
  past.shape = before, past.strides = strides;
  present = past;
  present.shape = then;
  return tn_session_invoke_with_outputs(session, NULL, &past, 1, &present, 1);
}

static void sizes_are_checked_before_anything_runs(void **state) {
  static _Alignas(64) int64_t data[8];
  static const struct {
    growing_case which;
    int64_t n, after;
    const char *text;
  } cases[] = {
      {GOOD, 2, 3, NULL},
      {GOOD, 3, 4, NULL},
      {GOOD, 4, 4, "output \"present\" gets 5 elements along dimension 1, which has room for 4"},
      {GOOD, 1, 3, "output \"present\": the bound tensor has 3 elements along dimension 1 and these inputs make 2"},
      {OVERFLOWING, 3, 4, "output \"present\" gets 5 elements along dimension 1, which has room for 4"},
      {SHRINKING, 2, 1, "output \"present\" gets -1 elements along dimension 1, which has room for 4"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn_executable *exe = loaded(build_growing(&t, cases[i].which));
    tn_session *session;
    check_ok(tn_session_create(exe, NULL, &session));
    memset(data, 0, sizeof data);
    tn_status *status = run(session, data, cases[i].n, cases[i].after);
    if (cases[i].text == NULL) {
      check_ok(status);
    } else {
      tn_status_code code = cases[i].which == GOOD && cases[i].n == 1 ? TN_INVALID_ARGUMENT : TN_OUT_OF_RANGE;
      check_fails(status, code, cases[i].text);
    }
    for (int64_t k = 0; k < 8; k++) assert_int_equal(data[k], cases[i].text == NULL && k % 4 == cases[i].n ? 7 : 0);
    tn_session_release(session);
    tn_executable_release(exe);
    test_exe_release(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_buffers_are_refused),
      cmocka_unit_test(what_does_not_count_is_not_touched),
      cmocka_unit_test(sizes_are_checked_before_anything_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
