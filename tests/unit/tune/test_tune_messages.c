/* Messages between tuners and workers: what is written is read back, and nothing that is garbled does harm. */
#include "tune/message/message.h"

#include <math.h>

#include "unit/check.h"

static tn__message_frame parse(const tn__message *m) {
  tn__message_frame frame;
  assert_int_equal(tn__message_parse(m->data, m->size, &frame), TN__MESSAGE_WHOLE);
  assert_int_equal(frame.size, m->size);
  return frame;
}

static void write_task(tn__message *m) {
  static const char *const dims[] = {"n", "m"};
  static const int64_t sizes[] = {3, 1 << 20};
  const tn_tune_task task = {.size = sizeof task,
                             .name = "gemm",
                             .declaration = "kernel gemm",
                             .target = "x86-64-v3",
                             .threads = 4,
                             .results_read = true,
                             .dims = dims,
                             .sizes = sizes,
                             .dim_count = 2};
  tn__message_begin(m, TN__MESSAGE_TASK);
  tn__message_put_task(m, &task);
  check_ok(tn__message_end(m));
}

static void write_built(tn__message *m) {
  static const char code[100] = "code";
  const tn_build_result built = {.error = TN_TRIAL_HOST_COMPILE,
                                 .message = "no",
                                 .seconds = 0.25,
                                 .code = code,
                                 .code_size = sizeof code,
                                 .workspace_bytes = 64,
                                 .trace = "trace 1",
                                 .buffer_count = 3};
  tn__message_begin(m, TN__MESSAGE_BUILT);
  tn__message_put_built(m, &built);
  check_ok(tn__message_end(m));
}

static void write_ran(tn__message *m) {
  const tn_run_result ran = {
      .message = "", .seconds = 1, .median = 1e-6, .spread = 0.01, .calls = 1000, .verified = true};
  tn__message_begin(m, TN__MESSAGE_RAN);
  tn__message_put_ran(m, &ran);
  check_ok(tn__message_end(m));
}

static void write_setup(tn__message *m) {
  static tn__message_setup setup = {
      .runs = true, .cpu_seconds = 2, .memory_bytes = 1 << 30, .nice = 5, .core_count = 2};
  setup.cores[1] = 7;
  setup.timing = (tn_timing_options){.size = sizeof setup.timing, .least_repeats = 3, .most_repeats = 9, .again = -1};
  tn__message_begin(m, TN__MESSAGE_SETUP);
  tn__message_put_setup(m, &setup);
  check_ok(tn__message_end(m));
}

static void what_is_written_is_read(void **state) {
  tn__message m = {0};
  tn__message_task task;
  tn_build_result built;
  tn_run_result ran;
  static tn__message_setup setup;
  write_task(&m);
  tn__message_frame frame = parse(&m);
  assert_true(tn__message_get_task(&frame.fields, &task));
  assert_string_equal(task.task.name, "gemm");
  assert_string_equal(task.task.declaration, "kernel gemm");
  assert_string_equal(task.task.target, "x86-64-v3");
  assert_null(task.task.machine);
  assert_int_equal(task.task.threads, 4);
  assert_true(task.task.results_read);
  assert_string_equal(task.dims[1], "m");
  assert_int_equal(task.sizes[1], 1 << 20);
  write_built(&m);
  frame = parse(&m);
  assert_true(tn__message_get_built(&frame.fields, &built));
  assert_int_equal(built.error, TN_TRIAL_HOST_COMPILE);
  assert_string_equal(built.trace, "trace 1");
  assert_string_equal(built.code, "code");
  assert_int_equal(built.code_size, 100);
  write_ran(&m);
  frame = parse(&m);
  assert_true(tn__message_get_ran(&frame.fields, &ran));
  assert_true(ran.median == 1e-6 && ran.calls == 1000 && ran.verified);
  write_setup(&m);
  frame = parse(&m);
  assert_true(tn__message_get_setup(&frame.fields, &setup));
  assert_true(setup.runs && setup.cores[1] == 7 && setup.timing.again == -1);
  tn__message_release(&m);
}

static void what_no_clock_tells_is_refused(void **state) {
  static const double times[] = {-1, (double)INFINITY, (double)NAN};
  tn__message m = {0};
  for (int i = 0; i < 3; i++) {
    tn_run_result ran = {.message = "", .median = times[i]};
    tn__message_begin(&m, TN__MESSAGE_RAN);
    tn__message_put_ran(&m, &ran);
    check_ok(tn__message_end(&m));
    tn__message_frame frame = parse(&m);
    assert_false(tn__message_get_ran(&frame.fields, &ran));
  }
  tn__message_release(&m);
}

static void the_first_number_can_be_set(void **state) {
  tn__message m = {0};
  tn__message_begin(&m, TN__MESSAGE_BUILD);
  tn__message_u64(&m, 0);
  tn__message_text(&m, "x");
  check_ok(tn__message_end(&m));
  tn__message_set_first(&m, 42);
  tn__message_frame frame = parse(&m);
  assert_int_equal(tn__message_get_u64(&frame.fields), 42);
  assert_string_equal(tn__message_get_text(&frame.fields), "x");
  assert_true(tn__message_got_all(&frame.fields));
  tn__message_release(&m);
}

static void parts_are_waited_for(void **state) {
  tn__message m = {0};
  tn__message_frame frame;
  write_built(&m);
  for (size_t size = 0; size < m.size; size++)
    assert_int_equal(tn__message_parse(m.data, size, &frame), TN__MESSAGE_PART);
  tn__message_release(&m);
}

/* Any byte that is another is seen; so are lengths that no message has. */
static void garbled_frames_are_seen(void **state) {
  tn__message m = {0};
  tn__message_frame frame;
  write_built(&m);
  for (size_t at = 0; at < m.size; at++)
    for (int bit = 0; bit < 8; bit++) {
      m.data[at] ^= (uint8_t)(1 << bit);
      assert_int_not_equal(tn__message_parse(m.data, m.size, &frame), TN__MESSAGE_WHOLE);
      m.data[at] ^= (uint8_t)(1 << bit);
    }
  tn__message_release(&m);
}

/* Reads the fields as each kind of message, in memory that ends where they end. */
static void read_as_all(const uint8_t *fields, size_t size) {
  static tn__message_setup setup;
  tn__message_task task;
  tn_build_result built;
  tn_run_result ran;
  uint8_t *copy = malloc(size > 0 ? size : 1);
  assert_non_null(copy);
  memcpy(copy, fields, size);
  const tn__message_reader all = {copy, copy + size, false};
  tn__message_reader r = all;
  if (tn__message_get_setup(&r, &setup)) assert_true(r.at <= r.end);
  r = all;
  if (tn__message_get_task(&r, &task)) assert_true(strlen(task.task.name) < size);
  r = all;
  if (tn__message_get_built(&r, &built)) assert_true(built.code_size <= size && strlen(built.trace) < size);
  r = all;
  if (tn__message_get_ran(&r, &ran)) assert_true(strlen(ran.message) < size);
  free(copy);
}

/* A worker that has written over its heap may send anything with a checksum that fits. */
static void fields_of_any_bytes_do_no_harm(void **state) {
  static void (*const write[])(tn__message *) = {write_task, write_built, write_ran, write_setup};
  enum { HEAD = 24, TRIES = 20000 };
  tn__message m = {0};
  uint64_t random = 1;
  for (int i = 0; i < TRIES; i++) {
    write[i % 4](&m);
    size_t size = m.size - HEAD;
    for (int change = 0; change <= i % 3; change++) {
      random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      m.data[HEAD + (random >> 33) % size] = (uint8_t)(random >> 20);
    }
    if (i % 5 == 0) size = (size_t)(random >> 40) % (size + 1);
    read_as_all(m.data + HEAD, size);
  }
  tn__message_release(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),     cmocka_unit_test(what_no_clock_tells_is_refused),
      cmocka_unit_test(the_first_number_can_be_set), cmocka_unit_test(parts_are_waited_for),
      cmocka_unit_test(garbled_frames_are_seen),     cmocka_unit_test(fields_of_any_bytes_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
