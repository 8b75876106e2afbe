/* What every unit test includes: cmocka with its four headers, and assertions on statuses. */
#ifndef TENON_TESTS_UNIT_CHECK_H
#define TENON_TESTS_UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* after the four above, as cmocka wants it */
#include <cmocka.h>

#include "tenon/base.h"

/* Fails with the status's own words. */
#define check_ok(expression)                                                                      \
  do {                                                                                            \
    tn_status *check_status_ = (expression);                                                      \
    if (check_status_ != NULL) fail_msg("%s: %s", #expression, tn_status_message(check_status_)); \
  } while (0)

/* Ends a test that this machine cannot run, and says why: nothing is left out in silence. */
#define skip_because(...)                   \
  do {                                      \
    print_message("SKIPPED: " __VA_ARGS__); \
    print_message("\n");                    \
    skip();                                 \
  } while (0)

/* The expression must fail with `code` and exactly `text`. */
#define check_fails(expression, code, text)                      \
  do {                                                           \
    tn_status *check_status_ = (expression);                     \
    assert_non_null(check_status_);                              \
    assert_string_equal(tn_status_message(check_status_), text); \
    assert_int_equal(tn_status_code_of(check_status_), code);    \
    tn_status_free(check_status_);                               \
  } while (0)

#endif
