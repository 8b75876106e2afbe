/* A session that is used by two threads at once, or from a callback of its own, says so. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "unit/session_models.h"

static const char in_use[] =
    "the session is in use: another thread, or the invoke that this is called back from, has not returned from it; use "
    "one session per thread, or take turns (tn_session_cancel() may be called at any time)";

static const char in_flight[] =
    "the session is in flight: tn_session_start() gave it an invoke, and tn_session_wait() comes before anything else "
    "(tn_session_cancel() may be called at any time)";

static _Atomic int gate; /* 0: open; 1: the next kernel stops there; 2: one stands there */

/* b = 2 * a, when the gate is open */
static int32_t gated_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  int closed = 1;
  atomic_compare_exchange_strong(&gate, &closed, 2);
  while (atomic_load(&gate) != 0) sched_yield();
  return double_kernel(env, buffers, scalars);
}

/* The same when another of these runs. */
static _Atomic int met;
static int32_t meeting_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < 2) usleep(100);
  return double_kernel(env, buffers, scalars);
}

static int32_t endless_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  atomic_store(&gate, 2);
  while (__atomic_load_n(&env->cancel, __ATOMIC_RELAXED) == 0) sched_yield();
  return TN_KERNEL_CANCELLED;
}

/* twice(x: f32[n]) -> (y: f32[n]) */
static tn_executable *executable_of(tn_kernel function) {
  test_exe t;
  test_exe_init(&t, NULL);
  int kernel = test_exe_kernel(&t, "gated", function, 2, 1);
  tn__exe_func *f = tn__exe_function(t.exe, "twice");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)};
  tn__exe_input(f, "x", TN_F32, 1, dims);
  tn__exe_output(f, "y", TN_F32, 1, dims);
  int x = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  tn__exe_emit_kernel(f, kernel, &x, 1, &y, 1, &n, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe = loaded(test_exe_finish(&t));
  test_exe_release(&t);
  return exe;
}

static tn_executable *gated_executable(void) { return executable_of(gated_kernel); }

static int64_t three = 3;

static DLTensor x_tensor(void) { return test_tensor(TN_F32, 1, &three, xs); }

/* ---- every function ---------------------------------------------------------------------------------------------- */

static tn_profile *kept_profile; /* of write_trace */

static tn_status *call(tn_session *s, const char *name) {
  const char *const names[] = {"x"}, *const outputs[] = {"y"};
  DLTensor x = x_tensor(), y = test_tensor(TN_F32, 1, &three, ys), out;
  tn_profile *profile;
  int count;
  if (strcmp(name, "set_input") == 0) return tn_session_set_input(s, NULL, "x", &x, TN_BIND_NEXT);
  if (strcmp(name, "set_input_at") == 0) return tn_session_set_input_at(s, NULL, 0, &x, TN_BIND_NEXT);
  if (strcmp(name, "set_inputs") == 0) return tn_session_set_inputs(s, NULL, names, &x, 1, TN_BIND_NEXT);
  if (strcmp(name, "set_output") == 0) return tn_session_set_output(s, NULL, "y", &y, TN_BIND_NEXT);
  if (strcmp(name, "set_output_at") == 0) return tn_session_set_output_at(s, NULL, 0, &y, TN_BIND_NEXT);
  if (strcmp(name, "set_outputs") == 0) return tn_session_set_outputs(s, NULL, outputs, &y, 1, TN_BIND_NEXT);
  if (strcmp(name, "set_output_bytes") == 0) return tn_session_set_output_bytes(s, NULL, 0, ys, sizeof(ys));
  if (strcmp(name, "start") == 0) return tn_session_start(s, NULL);
  if (strcmp(name, "wait") == 0) return tn_session_wait(s);
  if (strcmp(name, "invoke") == 0) return tn_session_invoke(s, NULL);
  if (strcmp(name, "invoke_with_outputs") == 0) return tn_session_invoke_with_outputs(s, NULL, &x, 1, NULL, 0);
  if (strcmp(name, "invoke_stateful") == 0) return tn_session_invoke_stateful(s, NULL, &x, 1);
  if (strcmp(name, "get_output") == 0) return tn_session_get_output(s, NULL, 0, &out);
  if (strcmp(name, "set_input_list") == 0) return tn_session_set_input_list(s, NULL, 0, &x, 1);
  if (strcmp(name, "set_output_list") == 0) return tn_session_set_output_list(s, NULL, 0, NULL, 0);
  if (strcmp(name, "get_output_count") == 0) return tn_session_get_output_count(s, NULL, 0, &count);
  if (strcmp(name, "get_output_item") == 0) return tn_session_get_output_item(s, NULL, 0, 0, &out);
  if (strcmp(name, "set_profile") == 0) return tn_session_set_profile(s, NULL, NULL);
  if (strcmp(name, "start_profile") == 0) return tn_session_start_profile(s, &profile);
  fail_msg("this test does not know tn_session_%s", name);
  return NULL;
}

/* Calls each function of sessions that the header declares and that returns a status, but `but`: all are refused.
 * Returns how many there are. NULL words: those of either kind. */
static int call_all(tn_session *session, const char *words, const char *but) {
  tn__file_map map;
  check_ok(tn__file_map_open(TN_TEST_ROOT "/include/tenon/runtime.h", &map));
  char *text = calloc(1, map.size + 1);
  assert_non_null(text);
  memcpy(text, map.data, map.size);
  tn__file_map_close(&map);
  static const char start[] = "TN_API TN_MUST_USE tn_status *tn_session_";
  int count = 0;
  for (char *at = text; (at = strstr(at, start)) != NULL;) {
    at += sizeof(start) - 1;
    char *end = strchr(at, '(');
    assert_non_null(end);
    if (end == NULL) break;
    *end = '\0';
    if (strcmp(at, "create") != 0 && strcmp(at, but) != 0) {
      tn_status *status = call(session, at);
      assert_non_null(status);
      bool flies = strcmp(tn_status_message(status), in_flight) == 0;
      check_fails(status, TN_FAILED_PRECONDITION, words != NULL ? words : flies ? in_flight : in_use);
      count++;
    }
    at = end + 1;
  }
  free(text);
  return count;
}

/* ---- two threads ------------------------------------------------------------------------------------------------- */

static void *invoke_in_thread(void *session) {
  DLTensor x = x_tensor();
  return tn_session_invoke_stateful(session, NULL, &x, 1);
}

static void one_thread_at_a_time(void **state) {
  fill();
  tn_executable *exe = gated_executable();
  tn_session *session = session_of(exe);
  check_ok(tn_session_start_profile(session, &kept_profile));
  atomic_store(&gate, 1);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, invoke_in_thread, session), 0);
  while (atomic_load(&gate) != 2) sched_yield();
  assert_int_equal(call_all(session, in_use, ""), 19);
  check_fails(tn_profile_write_trace(kept_profile, "/no/such.json"), TN_FAILED_PRECONDITION, in_use);
  atomic_store(&gate, 0);
  void *status;
  assert_int_equal(pthread_join(thread, &status), 0);
  check_ok(status);
  DLTensor y;
  check_ok(tn_session_get_output(session, NULL, 0, &y));
  assert_memory_equal(y.data, ((float[]){0, 2, 4}), 12);
  tn_session_release(session);
  tn_executable_release(exe);
}

typedef struct crowd {
  tn_session *session;
  _Atomic int done, refused, wrong;
} crowd;

static void *invoke_often(void *user) {
  crowd *c = user;
  float mine[3] = {1, 2, 3}, out[3];
  for (int i = 0; i < 2000; i++) {
    DLTensor x = test_tensor(TN_F32, 1, &three, mine), y = test_tensor(TN_F32, 1, &three, out);
    out[0] = 0;
    tn_status *status = tn_session_invoke_with_outputs(c->session, NULL, &x, 1, &y, 1);
    if (status == NULL) {
      atomic_fetch_add(out[0] == 2 && out[1] == 4 && out[2] == 6 ? &c->done : &c->wrong, 1);
    } else {
      bool words = strcmp(tn_status_message(status), in_use) == 0;
      atomic_fetch_add(words && out[0] == 0 ? &c->refused : &c->wrong, 1);
      sched_yield();
    }
    tn_status_free(status);
  }
  return NULL;
}

/* Whatever happens when, an invoke is done as if it were alone, or refused. */
static void a_crowd_is_sorted_out(void **state) {
  tn_executable *exe = gated_executable();
  tn_session_options options = {.size = sizeof(options), .threads = 1};
  crowd c = {0};
  check_ok(tn_session_create(exe, &options, &c.session));
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, invoke_often, &c), 0);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(c.wrong, 0);
  assert_int_equal(c.done + c.refused, 6000);
  assert_true(c.done > 0);
  tn_session_release(c.session);
  tn_executable_release(exe);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static void call_back(void *user, const char *kernel, uint64_t start_ns, uint64_t end_ns) {
  assert_int_equal(call_all(user, in_use, ""), 19);
}

static void callbacks_leave_it_alone(void **state) {
  tn_executable *exe = gated_executable();
  tn_session *session = session_of(exe);
  check_ok(tn_session_set_profile(session, call_back, session));
  DLTensor x = x_tensor();
  check_ok(tn_session_invoke_stateful(session, NULL, &x, 1));
  check_ok(tn_session_set_profile(session, NULL, NULL));
  check_ok(tn_session_invoke_stateful(session, NULL, &x, 1));
  tn_profile *profile;
  check_ok(tn_session_start_profile(session, &profile));
  check_fails(tn_session_set_profile(session, call_back, session), TN_FAILED_PRECONDITION,
              "a profile records the session: release that one first");
  tn_profile_release(profile);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- in flight --------------------------------------------------------------------------------------------------- */

static void nothing_but_waiting_in_flight(void **state) {
  fill();
  tn_executable *exe = gated_executable();
  tn_session *session = session_of(exe);
  DLTensor x = x_tensor(), y;
  check_ok(tn_session_start_profile(session, &kept_profile));
  for (int i = 0; i < 3; i++) {
    check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_NEXT));
    atomic_store(&gate, 1);
    check_ok(tn_session_start(session, NULL));
    assert_int_equal(call_all(session, in_flight, "wait"), 18);
    while (atomic_load(&gate) != 2) sched_yield();
    assert_int_equal(call_all(session, in_flight, "wait"), 18);
    check_fails(tn_profile_write_trace(kept_profile, "/no/such.json"), TN_FAILED_PRECONDITION, in_flight);
    atomic_store(&gate, 0);
    check_ok(tn_session_wait(session));
    check_ok(tn_session_get_output(session, NULL, 0, &y));
    assert_memory_equal(y.data, ((float[]){0, 2, 4}), 12);
  }
  /* What a start and what a wait says; the session is nobody's afterwards. */
  static const char nothing[] = "there is nothing to wait for: tn_session_start() comes before tn_session_wait()";
  check_fails(tn_session_wait(session), TN_FAILED_PRECONDITION, nothing);
  check_fails(tn_session_start(session, "no"), TN_NOT_FOUND, "the executable has no function \"no\"; it has \"twice\"");
  check_fails(tn_session_wait(session), TN_FAILED_PRECONDITION, nothing);
  check_ok(tn_session_start(session, NULL));
  check_fails(tn_session_wait(session), TN_FAILED_PRECONDITION, "input \"x\" of function \"twice\" is not bound");
  check_ok(tn_session_invoke_stateful(session, NULL, &x, 1));
  tn_session_release(session);
  tn_executable_release(exe);
}

static void sessions_in_flight_overlap(void **state) {
  fill();
  tn_executable *exe = executable_of(meeting_kernel);
  tn_session_options options = {.size = sizeof(options), .threads = 1};
  tn_thread_pool_options of_pool = {.size = sizeof(of_pool), .threads = 1};
  DLTensor x = x_tensor(), y;
  for (int shared = 0; shared < 2; shared++) {
    tn_session *sessions[2];
    options.pool = NULL;
    if (shared) check_ok(tn_thread_pool_create(&of_pool, &options.pool));
    atomic_store(&met, 0);
    for (int i = 0; i < 2; i++) {
      check_ok(tn_session_create(exe, &options, &sessions[i]));
      check_ok(tn_session_set_input(sessions[i], NULL, "x", &x, TN_BIND_PERSISTENT));
      check_ok(tn_session_start(sessions[i], NULL));
    }
    for (int i = 0; i < 2; i++) {
      check_ok(tn_session_wait(sessions[i]));
      check_ok(tn_session_get_output(sessions[i], NULL, 0, &y));
      assert_memory_equal(y.data, ((float[]){0, 2, 4}), 12);
    }
    for (int i = 0; i < 2; i++) tn_session_release(sessions[i]);
    tn_thread_pool_release(options.pool);
  }
  tn_executable_release(exe);
}

/* In use, once somebody waits. */
static void call_back_in_flight(void *user, const char *kernel, uint64_t start_ns, uint64_t end_ns) {
  assert_int_equal(call_all(user, NULL, ""), 19);
}

/* Waiting for oneself is refused, what is cancelled ends, and so does what nobody waits for. */
static void flights_end(void **state) {
  fill();
  DLTensor x = x_tensor();
  tn_executable *exe = gated_executable();
  tn_session *session = session_of(exe);
  check_ok(tn_session_set_profile(session, call_back_in_flight, session));
  check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_PERSISTENT));
  check_ok(tn_session_start(session, NULL));
  check_ok(tn_session_wait(session));
  check_ok(tn_session_start(session, NULL));
  tn_session_release(session);
  tn_executable_release(exe);

  exe = executable_of(endless_kernel);
  session = session_of(exe);
  check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_PERSISTENT));
  for (int i = 0; i < 2; i++) {
    atomic_store(&gate, 0);
    check_ok(tn_session_start(session, NULL));
    while (atomic_load(&gate) != 2) sched_yield();
    if (i == 1) break; /* released in flight */
    tn_session_cancel(session);
    check_fails(tn_session_wait(session), TN_CANCELLED, "the invoke was cancelled in kernel \"gated\"");
  }
  tn_session_release(session);
  tn_executable_release(exe);
  atomic_store(&gate, 0);
}

/* A failure leaves the session as well as a success does. */
static void failures_end_the_use(void **state) {
  tn_executable *exe = gated_executable();
  tn_session *session = session_of(exe);
  DLTensor out, x = x_tensor();
  check_fails(tn_session_invoke(session, NULL), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"twice\" is not bound");
  check_fails(tn_session_invoke(session, "no"), TN_NOT_FOUND,
              "the executable has no function \"no\"; it has \"twice\"");
  tn_status *status = tn_session_get_output(session, NULL, 0, &out);
  assert_non_null(strstr(tn_status_message(status), "has no results"));
  tn_status_free(status);
  check_ok(tn_session_invoke_stateful(session, NULL, &x, 1));
  tn_session_release(session);
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_at_a_time),
      cmocka_unit_test(a_crowd_is_sorted_out),
      cmocka_unit_test(callbacks_leave_it_alone),
      cmocka_unit_test(failures_end_the_use),
      cmocka_unit_test(nothing_but_waiting_in_flight),
      cmocka_unit_test(sessions_in_flight_overlap),
      cmocka_unit_test(flights_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
