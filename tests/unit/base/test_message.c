/* Formatting of statuses and logs: printf's conversions, and untrusted names. */
#include "base/message.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "unit/check.h"

#define CONTROL "a\x1b[31m\r\n\t\a\x7f\xc2\x85\xe2\x80\xae\xf3\xa0\x81\x81\xffz\\"
#define SHOWN "a\\u001b[31m\\u000d\\n\\t\\u0007\\u007f\\u0085\\u202e\\U000e0041\\xffz\\"
#define SHOWN_LINES "a\\u001b[31m\\u000d\n\t\\u0007\\u007f\\u0085\\u202e\\U000e0041\\xffz\\"

/* Compares with printf. A leading special character selects the slow path. */
static void TN_PRINTF(1, 2) expect_as_printf(const char *format, ...) {
  char expected[512];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  vsnprintf(expected, sizeof(expected), format, args);
  char *text = tn__shown_format(format, again, 8);
  va_end(again);
  va_end(args);
  assert_non_null(text);
  assert_string_equal(text, expected);
  memset(text + strlen(text) + 1, 'x', 8); /* fill the spare bytes */
  free(text);
}

static void conversions_are_those_of_printf(void **state) {
#define BEHIND "\xc3\xa9 "
  expect_as_printf("nothing else");
  expect_as_printf(BEHIND "100 %% %d %5d %-5d| %05d %+d", 1, 2, 3, 4, 5);
  expect_as_printf(BEHIND "%u %x %X %#o %c", 1u, 255u, 255u, 8u, 'c');
  expect_as_printf(BEHIND "%ld %lu %lld %llu %llx", -1L, 1UL, INT64_C(-5000000000) + 0LL, 1ULL << 63, 0xabcdefULL);
  expect_as_printf(BEHIND "%zu %zd %td %jd", (size_t)7, (size_t)8, (ptrdiff_t)-9, (intmax_t)10);
  expect_as_printf(BEHIND "%hd %hhu", (short)-3, (unsigned char)200);
  expect_as_printf(BEHIND "%g %.3f %e %8.2f %a %Lg", 0.5, 1.0 / 3, 1e100, 2.5, 1.0, 1.5L);
  expect_as_printf(BEHIND "%s %.2s %.*s \"%s\" \"%.*s\"", "text", "text", 3, "text", "name", 2, "name");
  expect_as_printf(BEHIND "%*d %-*d| %*.*f", 6, 1, 6, 2, 9, 3, 1.25);
  expect_as_printf(BEHIND "%s %d %s %lld %s", "a", 1, "b", 2LL, "c");
  expect_as_printf(BEHIND "%p", (void *)state);
#undef BEHIND
}

static void names_are_shown(void **state) {
  tn_status *status = tn_status_create(TN_IO, "\"%s\" and \"%.*s\": %s", CONTROL, 5, CONTROL, CONTROL);
  check_fails(tn_status_prefix(status, "file %s of \"%s\"", "a\x1b", "b\n"), TN_IO,
              "file a\\u001b of \"b\\n\": \"" SHOWN "\" and \"a\\u001b[31\": " SHOWN_LINES);
  check_fails(tn_status_create(TN_IO, "two\nlines\tof its own, %d", 2), TN_IO, "two\nlines\tof its own, 2");
  check_fails(tn_status_create(TN_IO, "%c", '\x1b'), TN_IO, "\\u001b");
  (void)state;
}

static void keep_line(void *user, tn_log_level level, const char *line) {
  snprintf(user, 256, "%d %s", (int)level, line);
}

static void logs_show_them_too(void **state) {
  char line[256];
  const tn_log_sink sink = {keep_line, line};
  tn__log(&sink, TN_LOG_WARNING, "\"%s\" is odd", CONTROL);
  assert_string_equal(line, "2 \"" SHOWN "\" is odd");
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conversions_are_those_of_printf),
                                     cmocka_unit_test(names_are_shown), cmocka_unit_test(logs_show_them_too)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
