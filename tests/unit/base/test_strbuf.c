#include "base/strbuf.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/check.h"
#include "unit/failing_allocator.h"

static void expect_text(tn__strbuf *buf, const char *text) {
  check_ok(tn__strbuf_status(buf));
  assert_string_equal(tn__strbuf_text(buf), text);
  assert_int_equal(buf->length, strlen(text));
  tn__strbuf_release(buf);
}

static void appends(void **state) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  expect_text(&buf, "");
  tn__strbuf_append(&buf, "for ");
  tn__strbuf_append_n(&buf, "ijk", 1);
  tn__strbuf_char(&buf, ' ');
  tn__strbuf_printf(&buf, "in %d..%d", 0, 16);
  expect_text(&buf, "for i in 0..16");
}

static void expect_json(const char *text, const char *json) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__strbuf_json_string(&buf, text);
  expect_text(&buf, json);
}

static void json_strings(void **state) {
  expect_json("", "\"\"");
  expect_json("a\"b\\c\n\t\r\1\x7f", "\"a\\\"b\\\\c\\n\\t\\u000d\\u0001\\u007f\"");
  expect_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
#define BAD "\xef\xbf\xbd"
  expect_json("a\xff", "\"a" BAD "\"");
  expect_json("\xc3", "\"" BAD "\"");                         /* cut short */
  expect_json("\xc0\x80", "\"" BAD BAD "\"");                 /* overlong NUL */
  expect_json("\xe0\x80\x80", "\"" BAD BAD BAD "\"");         /* overlong */
  expect_json("\xed\xa0\x80", "\"" BAD BAD BAD "\"");         /* a surrogate */
  expect_json("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""); /* beyond U+10FFFF */
#undef BAD
}

static void expect_f64(double value, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__strbuf_f64(&buf, value);
  expect_text(&buf, text);
}

static void shortest_numbers(void **state) {
  expect_f64(0.0, "0.0");
  expect_f64(-0.0, "-0.0");
  expect_f64(1, "1.0");
  expect_f64(100000, "100000.0");
  expect_f64(0.1, "0.1");
  expect_f64(1e-5, "1e-05");
  expect_f64(0.1 + 0.2, "0.30000000000000004");
  expect_f64(1.0 / 3, "0.3333333333333333");
  expect_f64(DBL_MAX, "1.7976931348623157e+308");
  expect_f64(DBL_MIN, "2.2250738585072014e-308");
  expect_f64(5e-324, "5e-324");
  expect_f64(1e22, "1e+22");
  expect_f64(INFINITY, "inf");
  expect_f64(-INFINITY, "-inf");
  expect_f64(NAN, "nan");
  expect_f64(-NAN, "nan");
}

static void numbers_read_back(void **state) {
  uint64_t x = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* Marsaglia's xorshift64 */
    double value;
    memcpy(&value, &x, sizeof(value));
    if (isnan(value)) continue;
    tn__strbuf buf;
    tn__strbuf_init(&buf, NULL);
    tn__strbuf_f64(&buf, value);
    double back = strtod(tn__strbuf_text(&buf), NULL);
    assert_memory_equal(&back, &value, sizeof(value));
    tn__strbuf_release(&buf);
  }
}

static void failure_sticks(void **state) {
  int fail_at = 0;
  for (;; fail_at++) {
    failing_allocator memory;
    failing_allocator_init(&memory, fail_at);
    tn__strbuf buf;
    tn__strbuf_init(&buf, &memory.allocator);
    for (int i = 0; i < 1000; i++) tn__strbuf_printf(&buf, "%d,", i);
    tn_status *status = tn__strbuf_status(&buf);
    size_t length = buf.length;
    tn__strbuf_append(&buf, "more");
    assert_int_equal(buf.length, status == NULL ? length + 4 : length);
    assert_int_equal(strlen(tn__strbuf_text(&buf)), buf.length);
    tn__strbuf_release(&buf);
    assert_int_equal(memory.live_bytes, 0);
    if (status == NULL) break;
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
  }
  assert_true(fail_at > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends),           cmocka_unit_test(json_strings),   cmocka_unit_test(shortest_numbers),
      cmocka_unit_test(numbers_read_back), cmocka_unit_test(failure_sticks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
