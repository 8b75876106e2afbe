/* Structs of the caller's that the library fills: no more than the caller's header knows. */
#include "base/filled.h"
#include "tenon/compile.h"
#include "unit/check.h"

typedef struct report { /* as this library knows it */
  size_t size;
  int64_t first, second;
} report;

static const report known = {.size = sizeof(report), .first = 1, .second = 2};

static void older_callers_get_what_they_know(void **state) {
  struct {
    size_t size;
    int64_t first, behind;
  } old = {.size = 2 * sizeof(size_t), .behind = 7};
  check_ok(tn__filled_check("report", &old, sizeof known));
  tn__filled_write(&old, &known, sizeof known);
  assert_true(old.size == 16 && old.first == 1 && old.behind == 7);
}

static void newer_callers_get_zeros_behind(void **state) {
  struct {
    size_t size;
    int64_t first, second, third;
  } new = {.size = sizeof new, .third = 7};
  check_ok(tn__filled_check("report", &new, sizeof known));
  tn__filled_write(&new, &known, sizeof known);
  assert_true(new.size == sizeof new && new.first == 1 && new.second == 2 && new.third == 0);
}

static void sizes_of_no_version_are_refused(void **state) {
  report none = {0}, odd = {.size = 17}, huge = {.size = SIZE_MAX - 7};
  check_fails(tn__filled_check("report", &none, sizeof known), TN_INVALID_ARGUMENT,
              "report: its size is 0, so no field of it would be filled: set .size = sizeof(report)");
  check_fails(tn__filled_check("report", &odd, sizeof known), TN_INVALID_ARGUMENT,
              "report: its size is 17, which is that of no version of it (24 here): set .size = sizeof(report)");
  check_fails(tn__filled_check("report", &huge, sizeof known), TN_INVALID_ARGUMENT,
              "report: its size is 18446744073709551608, which is that of no version of it (24 here): set .size = "
              "sizeof(report)");
}

static void the_api_asks(void **state) {
  tn_machine_limits limits = {0};
  check_fails(tn_machine_measure(1, &limits), TN_INVALID_ARGUMENT,
              "tn_machine_limits: its size is 0, so no field of it would be filled: set .size = "
              "sizeof(tn_machine_limits)");
  const char *bound;
  assert_true(tn_machine_roofline(&limits, 1, 1, &bound) == -1);
  tn_check_result result = {0};
  check_fails(tn_check("none.onnx", NULL, 0, NULL, NULL, 0, NULL, &result), TN_INVALID_ARGUMENT,
              "tn_check_result: its size is 0, so no field of it would be filled: set .size = "
              "sizeof(tn_check_result)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(older_callers_get_what_they_know),
      cmocka_unit_test(newer_callers_get_zeros_behind),
      cmocka_unit_test(sizes_of_no_version_are_refused),
      cmocka_unit_test(the_api_asks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
