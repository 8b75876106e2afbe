/* The build includes this file in every tests/unit/FOLDER/test_NAME.c (programs.cmake): main() becomes a static
 * function called by tn_test_NAME(), so that all files of a folder link into one program. */
#ifndef TENON_TESTS_UNIT_PROGRAM_H
#define TENON_TESTS_UNIT_PROGRAM_H

#define TN_TEST_JOINED(a, b) a##b
#define TN_TEST_NAME_OF(name) TN_TEST_JOINED(tn_test_, name)

#ifdef TN_TEST_NAME
static inline int tn_test_call_plain(int (*test)(void), int argc, char **argv) { return test(); }
static inline int tn_test_call(int (*test)(int, char **), int argc, char **argv) { return test(argc, argv); }

#define main(...)                                                                                                   \
  TN_TEST_NAME_OF(TN_TEST_NAME)(int argc, char **argv);                                                             \
  static int test_main(__VA_ARGS__);                                                                                \
  int TN_TEST_NAME_OF(TN_TEST_NAME)(int argc, char **argv) {                                                        \
    return _Generic(test_main, int (*)(void): tn_test_call_plain, int (*)(int, char **): tn_test_call)(test_main,   \
                                                                                                       argc, argv); \
  }                                                                                                                 \
  static int test_main(__VA_ARGS__)
#endif

#endif
