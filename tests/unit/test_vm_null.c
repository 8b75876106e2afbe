/* What the VM asks of devices for a small program on the host and two others: pinned call by call, with the null device
 * in their place; and what becomes of a session whose device is gone in the middle. */
#include "unit/failing_allocator.h"
#include "unit/null_device.h"
#include "unit/trampoline.h"

#include "runtime/executable/executable.h"
#include "runtime/format/format.h"

#define DIM(n) ((tn__operand){0, 0, n})
#define SYM(s) ((tn__operand){1, 0, s})
enum { FIRST = 2, SECOND = 5, N = 3 };
static const tn__operand nowhere = {0, 0, 0};

static int32_t never(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  fail_msg("the null device runs no kernels");
  return TN_KERNEL_OK;
}

typedef struct program {
  test_exe t;
  tn_executable *exe;
  tn__device_driver driver;
} program;

static int place(tn__exe_func *f, test_exe *t, int device, int symbol, tn__storage storage, int64_t offset) {
  tn__operand dims[1] = {SYM(symbol)};
  int reg = tn__exe_register(f, TN_I64, 1, dims, storage, 0, storage == TN__STORAGE_ARENA ? DIM(offset) : nowhere);
  tn__exe_register_on(f, device, reg);
  return reg;
}

static void copy(tn__exe_func *f, int to, int from) {
  tn__exe_emit(f, TN__OP_COPY, (const uint32_t[]){(uint32_t)to, (uint32_t)from}, 2);
}

/* y = second(first(x, x), constant), with x and y on the host. */
static void make(program *p, const tn_allocator *allocator) {
  tn__target target;
  test_exe *t = &p->t;
  check_ok(tn__target_parse("native", &target));
  test_exe_init(t, "native");
  int device[2], kernel[2];
  for (int i = 0; i < 2; i++) {
    device[i] = tn__exe_device(t->exe, kDLExtDev, i == 0 ? FIRST : SECOND, &target);
    kernel[i] = test_exe_kernel(t, i == 0 ? "first" : "second", never, 3, 1);
    tn__exe_kernel_on(t->exe, device[i], kernel[i]);
  }
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)}, whole[1] = {DIM(N)};
  tn__exe_input(f, "x", TN_I64, 1, dims);
  tn__exe_output(f, "y", TN_I64, 1, dims);
  for (int i = 0; i < 2; i++) tn__exe_arena_on(f, device[i], DIM(256));
  int constant = tn__exe_constant_on(t->exe, device[1], "c", TN_I64, 1, (int64_t[]){N}, (int64_t[]){1, 2, 3}, 24);
  int c = tn__exe_register(f, TN_I64, 1, whole, TN__STORAGE_CONSTANT, constant, nowhere);
  tn__exe_register_on(f, device[1], c);
  int x = place(f, t, 0, n, TN__STORAGE_INPUT, 0), y = place(f, t, 0, n, TN__STORAGE_OUTPUT, 0);
  int a = place(f, t, device[0], n, TN__STORAGE_ARENA, 0), b = place(f, t, device[0], n, TN__STORAGE_ARENA, 64);
  int d = place(f, t, device[1], n, TN__STORAGE_ARENA, 64), e = place(f, t, device[1], n, TN__STORAGE_ARENA, 128);
  copy(f, a, x);
  tn__exe_emit_kernel(f, kernel[0], (const int[]){a, a}, 2, &b, 1, &n, 1);
  copy(f, d, b);
  tn__exe_emit_kernel(f, kernel[1], (const int[]){d, c}, 2, &e, 1, &n, 1);
  copy(f, y, e);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(t);
  tn_load_options options = {.size = sizeof options, .allocator = allocator};
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, &options, &p->exe));
  p->driver = null_driver(kDLExtDev);
  for (uint32_t i = 1; i < p->exe->device_count; i++) p->exe->drivers[i] = &p->driver;
}

static void release(program *p) {
  tn_executable_release(p->exe);
  test_exe_release(&p->t);
}

static tn_status *open_session(const program *p, const tn_allocator *allocator, tn_session **out) {
  tn_session_options options = {.size = sizeof options, .allocator = allocator, .threads = 1};
  return tn_session_create(p->exe, &options, out);
}

static tn_status *invoke(tn_session *session, int64_t *x, int64_t *y) {
  int64_t shape[1] = {N};
  DLTensor in = test_tensor(TN_I64, 1, shape, x), out = test_tensor(TN_I64, 1, shape, y);
  check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_output(session, NULL, "y", &out, TN_BIND_PERSISTENT_IN_PLACE));
  return tn_session_invoke(session, NULL);
}

/* The record without its waits: when the VM asks for results is its own affair. */
static void check_record(int device, const char *expected) {
  static char text[NULL_TEXT];
  size_t length = 0;
  for (const char *line = null_records[device].text; *line != '\0';) {
    size_t size = strcspn(line, "\n") + 1;
    if (strncmp(line, "wait\n", 5) != 0) memcpy(text + length, line, size), length += size;
    line += size;
  }
  text[length] = '\0';
  assert_string_equal(text, expected);
}

static void test_what_is_asked(void **state) {
  program p;
  tn_session *session;
  int64_t x[N] = {1, 2, 3}, y[N] = {9, 9, 9};
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &session));
  check_record(FIRST, "open\n");
  check_record(SECOND, "open\nallocate a0 24\ncopy in a0+0 24\n"); /* the constant, once */
  check_ok(invoke(session, x, y));
  for (int i = 0; i < N; i++) assert_int_equal(y[i], 0);
  check_ok(invoke(session, x, y)); /* the memory is there */
  tn_session_release(session);
  check_record(FIRST,
               "open\n"
               "allocate a0 256\n"
               "copy in a0+0 24\nlaunch 0 (a0+0 a0+0 a0+64 | 3)\ncopy out a0+64 24\n"
               "copy in a0+0 24\nlaunch 0 (a0+0 a0+0 a0+64 | 3)\ncopy out a0+64 24\n"
               "free a0\n"
               "close\n");
  check_record(SECOND,
               "open\n"
               "allocate a0 24\ncopy in a0+0 24\n"
               "allocate a1 256\n"
               "copy in a1+64 24\nlaunch 16 (a1+64 a0+0 a1+128 | 3)\ncopy out a1+128 24\n"
               "copy in a1+64 24\nlaunch 16 (a1+64 a0+0 a1+128 | 3)\ncopy out a1+128 24\n"
               "free a1\nfree a0\n"
               "close\n");
  null_check_closed();
  release(&p);
}

/* A device is gone from one call on, and that is each call once: the session tells it, at its creation or at an invoke,
 * does not hang, and loses nothing. */
static void test_a_device_that_disappears(void **state) {
  int at = 0;
  for (bool failed = true; failed; at++) {
    program p;
    failing_allocator allocator;
    tn_session *session = NULL;
    int64_t x[N] = {1, 2, 3}, y[N];
    null_forget();
    failing_allocator_init(&allocator, -1);
    make(&p, &allocator.allocator);
    null_gone_at = at;
    tn_status *status = open_session(&p, &allocator.allocator, &session);
    for (int i = 0; i < 2 && status == NULL; i++) status = invoke(session, x, y);
    failed = status != NULL;
    if (failed) {
      assert_int_equal(tn_status_code_of(status), TN_FAILED_PRECONDITION);
      assert_non_null(strstr(tn_status_message(status), " is gone"));
      tn_status_free(status);
      if (session != NULL) { /* it stays away */
        status = tn_session_invoke(session, NULL);
        assert_non_null(status);
        tn_status_free(status);
        null_gone_at = -1; /* and back again, it serves */
        check_ok(invoke(session, x, y));
      }
    }
    tn_session_release(session);
    release(&p);
    null_check_closed();
    assert_int_equal(allocator.live_count, 0);
  }
  assert_true(at > 15);
}

static void test_a_kernel_that_fails(void **state) {
  program p;
  tn_session *session;
  int64_t x[N] = {1, 2, 3}, y[N];
  null_forget();
  make(&p, NULL);
  check_ok(open_session(&p, NULL, &session));
  null_result = TN_KERNEL_INDEX_OUT_OF_RANGE;
  tn_status *status = invoke(session, x, y);
  assert_int_equal(tn_status_code_of(status), TN_OUT_OF_RANGE);
  assert_non_null(strstr(tn_status_message(status), "first"));
  tn_status_free(status);
  assert_null(strstr(null_records[SECOND].text, "launch")); /* nothing computes on what was never made */
  tn_session_release(session);
  release(&p);
  null_check_closed();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_asked),
      cmocka_unit_test(test_a_device_that_disappears),
      cmocka_unit_test(test_a_kernel_that_fails),
  };
  return cmocka_run_group_tests_name("null device", tests, NULL, NULL);
}
