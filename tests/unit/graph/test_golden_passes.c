/* Every rule of simplify and every pass over graphs has a golden test (tests/golden/graph). */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/passes/rewrite.h"
#include "unit/check.h"

/* Is there a test that holds this line, or this beginning of one? */
static bool is_tested(const glob_t *tests, const char *line) {
  bool found = false;
  for (size_t i = 0; i < tests->gl_pathc && !found; i++) {
    tn__file_map map;
    check_ok(tn__file_map_open(tests->gl_pathv[i], &map));
    found = memmem(map.data, map.size, line, strlen(line)) != NULL;
    tn__file_map_close(&map);
  }
  return found;
}

static void rules_and_passes_have_tests(void **state) {
  static const tn__rule_set *const sets[] = {&tn__rules_shape, &tn__rules_arithmetic, &tn__rules_product};
  glob_t tests;
  const char *pass;
  char line[128];
  assert_int_equal(glob(TN_TEST_ROOT "/tests/golden/graph/*/*.test", 0, NULL, &tests), 0);
  for (int s = 0; s < 3; s++) {
    for (int i = 0; i < sets[s]->count; i++) {
      snprintf(line, sizeof line, "// Rule: %s\n", sets[s]->rules[i].name);
      if (!is_tested(&tests, line))
        fail_msg("no test in tests/golden/graph/simplify is of rule %s", sets[s]->rules[i].name);
    }
  }
  for (int i = 0; (pass = tn__graph_pass_name(i)) != NULL; i++) {
    snprintf(line, sizeof line, " --graph-pass %s ", pass);
    if (!is_tested(&tests, line)) fail_msg("no test in tests/golden/graph is of pass %s", pass);
  }
  globfree(&tests);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rules_and_passes_have_tests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
