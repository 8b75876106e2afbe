/* Scopes of memory end to end: a scope that is said of a function's parameter, or chosen inside of one kernel, decides
 * in which memory of the island the buffer of another function is allocated. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/executable/executable.h"
#include "tenon/compile.h"
#include "tenon/te.h"
#include "unit/check.h"
#include "unit/null_device.h"

enum { N = 8 };

/* The product reads each element of its operand eight times, what is around it once. */
#define FUNCTIONS(said)                                                                                  \
  "graph \"main\" {\n"                                                                                   \
  "  input x: f32[8, 8]\n"                                                                               \
  "  a: f32[8, 8] = tanh(x)\n"                                                                           \
  "  r: f32[8, 8] = call(a)\n"                                                                           \
  "    graph \"inner\" {\n"                                                                              \
  "      input b: f32[8, 8]" said                                                                        \
  "\n"                                                                                                   \
  "      p: f32[8, 8] = dot_general(b, b) {lhs_batch=[], rhs_batch=[], lhs_contract=1, rhs_contract=0, " \
  "dtype=\"f32\"}\n"                                                                                     \
  "      output \"r\" = p\n"                                                                             \
  "    }\n"                                                                                              \
  "  y: f32[8, 8] = negate(r)\n"                                                                         \
  "  output \"y\" = y\n"                                                                                 \
  "}\n"

static const char plain[] = "native; island", choosing[] = "native; island -texture_bytes=4096";

static tn_module *compile(const char *text, const char *targets) {
  static const char *const place[] = {"*=island:0"};
  tn_compile_options options = {.size = sizeof options,
                                .target = targets,
                                .place = place,
                                .place_count = 1,
                                .run_threads = 1,
                                .no_measure = true};
  tn_module *module;
  check_ok(tn_compile("scopes.tng", text, strlen(text), &options, &module));
  return module;
}

/* How many registers of a function are in texture. */
static int in_texture(const tn_executable *exe, const char *function) {
  char *text, start[64];
  int count = 0;
  check_ok(tn_executable_disassemble(exe, &text));
  snprintf(start, sizeof start, "function \"%s\"", function);
  const char *from = strstr(text, start);
  assert_non_null(from);
  const char *end = strstr(from + 1, "\nfunction \"");
  for (const char *at = from; (at = strstr(at, "] ")) != NULL && (end == NULL || at < end); at++) {
    const char *scope = strstr(at, " (texture)"), *line = strchr(at, '\n');
    count += scope != NULL && scope < line;
  }
  free(text);
  return count;
}

static tn_status *run(const tn_executable *exe, const tn_session_options *options, float *y) {
  static _Alignas(64) float x[N * N];
  tn_session *session;
  int64_t shape[2] = {N, N};
  for (int i = 0; i < N * N; i++) x[i] = (float)(i * 7 % 11) / 8 - 0.6f;
  tn_status *status = tn_session_create(exe, options, &session);
  if (status != NULL) return status;
  DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape}, out = in;
  out.data = y;
  for (int i = 0; i < 2 && status == NULL; i++) status = tn_session_invoke_with_outputs(session, NULL, &in, 1, &out, 1);
  tn_session_release(session);
  return status;
}

static void test_a_kernels_choice_is_another_functions_buffer(void **state) {
  static _Alignas(64) float without[N * N], with[N * N], together[N * N];
  static const char *const map[] = {"island:0=cpu:0"};
  const tn_load_options mapped = {.size = sizeof mapped, .device_map = map, .device_map_count = 1};
  tn_executable *exe;
  tn_module *module = compile(FUNCTIONS(""), plain);
  check_ok(tn_module_load(module, NULL, &exe));
  assert_int_equal(in_texture(exe, "main"), 0);
  check_ok(run(exe, NULL, without));
  tn_executable_release(exe);
  tn_module_release(module);

  module = compile(FUNCTIONS(""), choosing);
  check_ok(tn_module_load(module, NULL, &exe));
  assert_int_equal(in_texture(exe, "main"), 1); /* `a`, which `main` makes, as the product in `inner` wants it */
  check_ok(run(exe, NULL, with));
  assert_memory_equal(with, without, sizeof with);
  /* The device allocates there: a session that may have a byte of that memory has not enough. */
  const tn_memory_setting setting = {"island:0/texture", 1};
  const tn_session_options limited = {.size = sizeof limited, .memory = &setting, .memory_count = 1};
  check_fails(run(exe, &limited, with), TN_OUT_OF_MEMORY,
              "out of memory: the session may have 1 bytes of island:0/texture (tn_session_options.memory), has 0 and "
              "asks for 256 more");
  tn_executable_release(exe);
  check_ok(tn_module_load(module, &mapped, &exe));
  check_ok(run(exe, NULL, together));
  assert_memory_equal(together, without, sizeof without);
  tn_executable_release(exe);
  tn_module_release(module);
}

/* The same that is said of the parameter. */
static void test_what_is_said_of_a_parameter(void **state) {
  static _Alignas(64) float without[N * N], with[N * N];
  tn_executable *exe;
  tn_module *module = compile(FUNCTIONS(""), plain);
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(run(exe, NULL, without));
  tn_executable_release(exe);
  tn_module_release(module);
  module = compile(FUNCTIONS(" on \"island/texture\""), plain);
  check_ok(tn_module_load(module, NULL, &exe));
  assert_int_equal(in_texture(exe, "main"), 1);
  check_ok(run(exe, NULL, with));
  assert_memory_equal(with, without, sizeof with);
  tn_executable_release(exe);
  tn_module_release(module);
}

/* What the driver is asked: the buffer of `main` that the product reads is allocated in texture, all else is not. */
static void test_what_the_device_is_asked(void **state) {
  static _Alignas(64) float y[N * N];
  for (int chooses = 0; chooses < 2; chooses++) {
    tn_executable *exe;
    tn_module *module = compile(FUNCTIONS(""), chooses ? choosing : plain);
    check_ok(tn_module_load(module, NULL, &exe));
    tn__device_driver driver = null_driver(kDLExtDev);
    null_forget();
    for (uint32_t i = 1; i < exe->device_count; i++) exe->drivers[i] = &driver;
    check_ok(run(exe, NULL, y));
    const char *asked = null_records[0].text;
    assert_true((strstr(asked, " in texture\n") != NULL) == (chooses == 1));
    tn_executable_release(exe);
    tn_module_release(module);
    null_check_closed();
  }
}

static void test_scopes_that_a_device_has_not(void **state) {
  static const struct {
    const char *said, *words;
  } cases[] = {
      {"island:0/tile",
       "\"a\" is placed on island:0/tile, and island:0 has no memory \"tile\": it has global and texture"},
      {"cpu:0/host-pinned",
       "\"a\" is placed on cpu:0/host-pinned, and cpu:0 has no memory \"host-pinned\": it has global"},
      {"island:0/testure", "there is no scope of memory \"testure\"; did you mean \"texture\"?"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    static const char text[] = "graph \"g\" {\n  input x: f32[4]\n  a: f32[4] = tanh(x)\n  output \"a\" = a\n}\n";
    char rule[64];
    const char *place = rule;
    snprintf(rule, sizeof rule, "a=%s", cases[i].said);
    tn_compile_options options = {.size = sizeof options, .target = plain, .place = &place, .place_count = 1};
    tn_module *module;
    tn_status *status = tn_compile("g.tng", text, sizeof text - 1, &options, &module);
    assert_non_null(status);
    if (strstr(tn_status_message(status), cases[i].words) == NULL)
      fail_msg("\"%s\" instead of \"%s\"", tn_status_message(status), cases[i].words);
    tn_status_free(status);
  }
}

/* The choice is a step of the kernel's schedule, which may be said as any other. */
static void test_the_step_of_a_schedule(void **state) {
  static const char text[] =
      "kernel product(a: f32[8, 8], b: f32[8, 8]) -> c: f32[8, 8] {\n  c[i, j] = sum(k: 8) a[i, k] * b[k, j]\n}\n";
  static const struct {
    const char *target, *step, *words;
  } cases[] = {
      {"island", "set_memory \"a\" 2", NULL},
      {"island", "set_memory \"c\" 2", NULL},
      {"island", "set_memory \"d\" 2", "set_memory: there is no input or output \"d\""},
      {"island", "set_memory \"a\" 9", "set_memory of \"a\": there is no scope 9"},
      {"island", "set_memory \"a\" 4",
       "set_memory of \"a\": the target has no memory \"tile\": it has global and texture"},
      {"x86-64", "set_memory \"a\" 2", "set_memory of \"a\": the target has no memory \"texture\": it has global"},
      {"island -texture_bytes=256", "set_memory \"a\" 2", "set_memory of \"a\": it is set already"},
  };
  tn_te *te;
  check_ok(tn_te_parse("t.te", text, sizeof text - 1, NULL, NULL, 0, NULL, &te));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn_schedule *schedule, *again;
    char *trace, *second;
    check_ok(tn_schedule_create(te, cases[i].target, NULL, &schedule));
    tn_status *status = tn_schedule_apply(schedule, cases[i].step);
    if (cases[i].words == NULL) {
      check_ok(status);
      check_ok(tn_schedule_trace(schedule, &trace));
      assert_non_null(strstr(trace, cases[i].step));
      check_ok(tn_schedule_replay(te, cases[i].target, trace, NULL, &again));
      check_ok(tn_schedule_trace(again, &second));
      assert_string_equal(trace, second);
      tn_schedule_release(again);
      free(trace);
      free(second);
    } else {
      assert_non_null(status);
      if (strstr(tn_status_message(status), cases[i].words) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", tn_status_message(status), cases[i].words);
      tn_status_free(status);
    }
    tn_schedule_release(schedule);
  }
  tn_te_release(te);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_kernels_choice_is_another_functions_buffer),
      cmocka_unit_test(test_what_is_said_of_a_parameter),
      cmocka_unit_test(test_what_the_device_is_asked),
      cmocka_unit_test(test_scopes_that_a_device_has_not),
      cmocka_unit_test(test_the_step_of_a_schedule),
  };
  return cmocka_run_group_tests_name("scopes", tests, NULL, NULL);
}
