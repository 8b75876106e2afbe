/* Profiles: rows, sums, and the trace. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/failing_allocator.h"
#include "unit/session_models.h"

static void run_power(tn_session *session, int64_t k) {
  int64_t n = 3;
  DLTensor inputs[2] = {test_tensor(TN_F32, 1, &n, xs), test_tensor(TN_I64, 0, NULL, &k)};
  check_ok(tn_session_invoke_stateful(session, "power", inputs, 2));
}

static tn_executable *loop_executable(void) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_loop(&t));
  test_exe_release(&t);
  return exe;
}

static const tn_profile_kernel *find(const tn_profile *p, const char *name) {
  const tn_profile_kernel *const *rows;
  int count = tn_profile_kernels(p, &rows);
  for (int i = 0; i < count; i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  fail_msg("no row \"%s\"", name);
  return NULL;
}

static void rows_add_up(void **state) {
  tn_executable *exe = loop_executable();
  tn_session *session = session_of(exe);
  run_power(session, 2); /* before it: not recorded */
  tn_profile *profile, *second;
  check_ok(tn_session_start_profile(session, &profile));
  check_fails(tn_session_start_profile(session, &second), TN_FAILED_PRECONDITION,
              "the session has a profile already: release that one first");
  run_power(session, 2);
  run_power(session, 3);
  const tn_profile_kernel *const *rows;
  assert_int_equal(tn_profile_kernels(profile, &rows), 3);
  const tn_profile_kernel *twice = find(profile, "double");
  assert_int_equal(twice->calls, 5);
  assert_true(twice->flops == 1 && twice->bytes == 2);
  assert_true(twice->least_ns <= twice->total_ns / 5);
  assert_int_equal(find(profile, "copy")->calls, 4);
  assert_true(find(profile, "alloc")->flops < 0);
  const tn_profile_totals *sum = tn_profile_sum(profile);
  assert_int_equal(sum->invokes, 2);
  uint64_t all = 0;
  for (int i = 0; i < 3; i++) all += rows[i]->total_ns;
  assert_true(all == sum->attributed_ns && sum->attributed_ns <= sum->total_ns);
  tn_profile_release(profile);
  run_power(session, 1);
  check_ok(tn_session_start_profile(session, &profile)); /* the session releases it */
  tn_session_release(session);
  tn_executable_release(exe);
}

static int count_of(const char *text, const char *part) {
  int count = 0;
  for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
  return count;
}

static void traces_show_every_call(void **state) {
  tn_executable *exe = loop_executable();
  tn_session *session = session_of(exe);
  tn_profile *profile;
  check_ok(tn_session_start_profile(session, &profile));
  run_power(session, 4);
  char path[64];
  snprintf(path, sizeof(path), "/tmp/tenon-trace-%ld.json", (long)getpid());
  check_ok(tn_profile_write_trace(profile, path));
  static char text[8192];
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fail_msg("no trace");
  else {
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
  }
  unlink(path);
  assert_int_equal(count_of(text, "\"name\": \"double\", \"cat\": \"kernel\", \"ph\": \"X\""), 4);
  assert_int_equal(count_of(text, "\"name\": \"invoke\""), 1);
  assert_int_equal(count_of(text, "\"args\": {\"flops\": 1, \"bytes\": 2}"), 4);
  assert_non_null(strstr(text, "\"dropped_events\": 0"));
  tn_status *status = tn_profile_write_trace(profile, "/nonexistent/trace.json");
  assert_non_null(status);
  tn_status_free(status);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* Without memory the profile is less than complete; the invoke is not harmed. */
static void refused_memory_is_survived(void **state) {
  tn_executable *exe = loop_executable();
  for (int fail = 0; fail < 4; fail++) {
    failing_allocator memory;
    failing_allocator_init(&memory, -1);
    tn_session *session;
    tn_session_options options = {.size = sizeof(options), .allocator = &memory.allocator, .threads = 1};
    check_ok(tn_session_create(exe, &options, &session));
    run_power(session, 4);
    memory.fail_at = memory.calls + fail;
    tn_profile *profile;
    tn_status *status = tn_session_start_profile(session, &profile);
    assert_int_equal(status != NULL, fail == 0);
    tn_status_free(status);
    run_power(session, 4);
    tn_session_release(session);
    assert_int_equal(memory.live_count, 0);
  }
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_add_up), cmocka_unit_test(traces_show_every_call),
                                     cmocka_unit_test(refused_memory_is_survived)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
