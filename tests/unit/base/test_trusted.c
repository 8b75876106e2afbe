/* Trust in folders and files that the user did not name. */
#include "base/trusted.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/check.h"

static void others_are_told(void **state) {
  const uid_t own = geteuid(), other = own + 1;
  const gid_t group = own + 2;
  char text[64];
  const struct {
    uid_t user;
    gid_t group;
    mode_t mode;
    const char *why;
  } cases[] = {{own, own, 0700, NULL},
               {own, group, 0755, NULL},
               {0, 0, 0755, NULL},
               {own, own, 0775, NULL}, /* the user's own group */
               {own, group, 0775, "others may write to it (mode 775)"},
               {own, own, 0777, "others may write to it (mode 777)"},
               {0, group, 01777, "others may write to it (mode 777)"},
               {own, own, 0702, "others may write to it (mode 702)"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const struct stat info = {.st_uid = cases[i].user, .st_gid = cases[i].group, .st_mode = S_IFDIR | cases[i].mode};
    const char *why = tn__distrust(&info, text);
    if (cases[i].why == NULL)
      assert_null(why);
    else
      assert_string_equal(why, cases[i].why);
  }
  char expected[64];
  const struct stat info = {.st_uid = other, .st_gid = other, .st_mode = S_IFDIR | 0755};
  snprintf(expected, sizeof(expected), "user %lld owns it", (long long)other);
  assert_string_equal(tn__distrust(&info, text), expected);
  (void)state;
}

static void folders_and_files_are_checked(void **state) {
  char folder[] = "/tmp/tenon-trusted-XXXXXX", path[64], words[256];
  tn__file_map map;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/file", folder);
  check_ok(tn__folder_check_trusted(folder, "THERE"));
  check_ok(tn__file_write_atomic(path, &(tn__bytes){"text", 4}, 1, 0600));
  check_ok(tn__file_map_trusted(path, &map));
  assert_int_equal(map.size, 4);
  tn__file_map_close(&map);
  assert_int_equal(chmod(path, 0666), 0);
  snprintf(words, sizeof(words), "%s: cannot trust the file: others may write to it (mode 666); it counts for nothing",
           path);
  check_fails(tn__file_map_trusted(path, &map), TN_FAILED_PRECONDITION, words);
  check_ok(tn__file_map_open(path, &map)); /* a file named by the caller is trusted */
  tn__file_map_close(&map);
  assert_int_equal(chmod(folder, 01777), 0);
  snprintf(words, sizeof(words),
           "%s: cannot use the folder: others may write to it (mode 777); make it yours alone (chown, chmod go-w), or "
           "name another one in THERE",
           folder);
  check_fails(tn__folder_check_trusted(folder, "THERE"), TN_FAILED_PRECONDITION, words);
  assert_int_equal(unlink(path) + rmdir(folder), 0);
  snprintf(words, sizeof(words), "%s: cannot use the folder: No such file or directory", folder);
  check_fails(tn__folder_check_trusted(folder, "THERE"), TN_NOT_FOUND, words);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(others_are_told),
                                     cmocka_unit_test(folders_and_files_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
