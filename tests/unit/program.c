/* The program unit_FOLDER: contains all tests of a folder of tests/unit, and runs the one named by its first argument.
 *
 * usage: unit_FOLDER NAME [ARGUMENTS OF THE TEST] */
#include "unit/program.h"

#include <stdio.h>
#include <string.h>

#define TN_TEST(name) int TN_TEST_NAME_OF(name)(int argc, char **argv);
#include TN_TEST_LIST
#undef TN_TEST

typedef struct test {
  const char *name;
  int (*run)(int argc, char **argv);
} test;

static const test tests[] = {
#define TN_TEST(name) {#name, TN_TEST_NAME_OF(name)},
#include TN_TEST_LIST
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < sizeof tests / sizeof *tests; i++)
    if (strcmp(tests[i].name, argv[1]) == 0) return tests[i].run(argc - 1, argv + 1);
  fprintf(stderr, "usage: %s NAME [ARGUMENTS OF THE TEST]; NAME is one of:\n", argv[0]);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) fprintf(stderr, "  %s\n", tests[i].name);
  return 2;
}
