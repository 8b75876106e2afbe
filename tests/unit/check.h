/* What every unit test includes: cmocka with its four headers, and assertions on statuses. */
#ifndef TENON_TESTS_UNIT_CHECK_H
#define TENON_TESTS_UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The status, which it frees, tells of one error of a text, `expected` being "FILE:LINE:COLUMN: " and the words, and
 * marks its place. */
static inline void check_placed_error(tn_status *status, const char *expected) {
  char line[2048];
  const char *message = tn_status_message(status), *words = strchr(expected, ' ');
  size_t length = strcspn(message, "\n");
  snprintf(line, sizeof(line), "%.*s error:%s", (int)(words - expected), expected, words);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  char *first = strndup(message, length);
  assert_string_equal(first, line);
  free(first);
  assert_null(strstr(message + length, ": error: "));
  assert_int_equal(message[strlen(message) - 1], '^');
  tn_status_free(status);
}

#endif
