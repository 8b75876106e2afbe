#include "base/log.h"

#include <string.h>

#include "unit/check.h"

typedef struct heard {
  char line[4096];
  tn_log_level level;
  int count;
} heard;

static void hear(void *user, tn_log_level level, const char *line) {
  heard *h = user;
  snprintf(h->line, sizeof(h->line), "%s", line);
  h->level = level;
  h->count++;
}

static void formats_one_line(void **state) {
  heard h = {0};
  tn_log_sink sink = {hear, &h};
  tn__log(&sink, TN_LOG_WARNING, "%s took %d ms", "fuse", 12);
  assert_string_equal(h.line, "fuse took 12 ms");
  assert_int_equal(h.level, TN_LOG_WARNING);
  assert_int_equal(h.count, 1);
}

static void long_lines_arrive_whole(void **state) {
  heard h = {0};
  tn_log_sink sink = {hear, &h};
  tn__log(&sink, TN_LOG_INFO, "%01000d", 7);
  assert_int_equal(strlen(h.line), 1000);
}

static void without_a_sink_nothing_happens(void **state) {
  tn_log_sink sink = {NULL, NULL};
  tn__log(NULL, TN_LOG_ERROR, "%d", 1);
  tn__log(&sink, TN_LOG_ERROR, "%d", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formats_one_line),
      cmocka_unit_test(long_lines_arrive_whole),
      cmocka_unit_test(without_a_sink_nothing_happens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
