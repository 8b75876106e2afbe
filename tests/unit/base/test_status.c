#include "unit/check.h"

/* The linker sends every malloc of this program here: the one that `refused` counts down to fails. */
void *__real_malloc(size_t size); /* NOLINT(bugprone-reserved-identifier): the linker's name */
void *__wrap_malloc(size_t size); /* NOLINT(bugprone-reserved-identifier) */
static int refused = -1;
void *__wrap_malloc(size_t size) { return refused >= 0 && refused-- == 0 ? NULL : __real_malloc(size); }

static void carries_code_and_text(void **state) {
  tn_status *status = tn_status_create(TN_NOT_FOUND, "no input \"%s\" among %d", "x", 3);
  assert_int_equal(tn_status_code_of(status), TN_NOT_FOUND);
  assert_string_equal(tn_status_message(status), "no input \"x\" among 3");
  tn_status_free(status);
}

static void prefix_goes_in_front(void **state) {
  tn_status *status = tn_status_create(TN_UNSUPPORTED, "strings");
  status = tn_status_prefix(status, "node \"%s\"", "conv1");
  status = tn_status_prefix(status, "model.onnx");
  check_fails(status, TN_UNSUPPORTED, "model.onnx: node \"conv1\": strings");
}

static void null_is_ok(void **state) {
  assert_null(tn_status_prefix(NULL, "place"));
  assert_int_equal(tn_status_code_of(NULL), TN_OK);
  assert_string_equal(tn_status_message(NULL), "ok");
  tn_status_free(NULL);
}

static void every_code_has_its_own_name(void **state) {
  for (int a = TN_OK; a <= TN_INTERNAL; a++) {
    assert_string_not_equal(tn_status_code_name((tn_status_code)a), "unknown status");
    for (int b = TN_OK; b < a; b++)
      assert_string_not_equal(tn_status_code_name((tn_status_code)a), tn_status_code_name((tn_status_code)b));
  }
  assert_string_equal(tn_status_code_name((tn_status_code)99), "unknown status");
}

/* A status without memory for itself is still a status, and nothing is lost (the sanitizers' build would say so). */
static void survives_every_failed_allocation(void **state) {
  for (int i = 0; i < 2; i++) {
    refused = i;
    tn_status *status = tn_status_create(TN_IO, "disk %d", 7);
    refused = -1;
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    assert_string_equal(tn_status_message(status), "out of memory");
    status = tn_status_prefix(status, "place");
    assert_string_equal(tn_status_message(status), "out of memory");
    tn_status_free(status);
    tn_status_free(status); /* it is nobody's */
  }
  tn_status *status = tn_status_create(TN_IO, "disk");
  refused = 0;
  status = tn_status_prefix(status, "place");
  refused = -1;
  check_fails(status, TN_IO, "disk");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(carries_code_and_text),
      cmocka_unit_test(prefix_goes_in_front),
      cmocka_unit_test(null_is_ok),
      cmocka_unit_test(every_code_has_its_own_name),
      cmocka_unit_test(survives_every_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
