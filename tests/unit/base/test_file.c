#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/check.h"

/* Every test starts in its own empty folder. */
static int enter_folder(void **state) {
  char name[] = "/tmp/tenon-test-file-XXXXXX";
  if (mkdtemp(name) == NULL || chdir(name) != 0) return -1;
  *state = strdup(name);
  return *state == NULL;
}

static int leave_folder(void **state) {
  char command[64];
  snprintf(command, sizeof(command), "rm -rf %s", (char *)*state);
  free(*state);
  return chdir("/") != 0 || system(command) != 0;
}

static int files_here(void) {
  int count = 0;
  DIR *dir = opendir(".");
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir)) != NULL;) count += e->d_name[0] != '.';
  closedir(dir);
  return count;
}

static void expect_contents(const char *path, const char *text) {
  tn__file_map map;
  check_ok(tn__file_map_open(path, &map));
  assert_int_equal(map.size, strlen(text));
  assert_non_null(map.data);
  assert_memory_equal(map.data, text, map.size);
  tn__file_map_close(&map);
  tn__file_map_close(&map);
}

static const tn__bytes hello[] = {{"hel", 3}, {NULL, 0}, {"lo", 2}};

static void writes_pieces_and_reads_them_back(void **state) {
  check_ok(tn__file_write_atomic("a", hello, 3, 0644));
  expect_contents("a", "hello");
  check_ok(tn__file_write_atomic("a", NULL, 0, 0644));
  expect_contents("a", "");
  assert_int_equal(files_here(), 1);
}

static void mode_is_kept(void **state) {
  mode_t old = umask(022);
  check_ok(tn__file_write_atomic("script", hello, 3, 0755));
  struct stat info;
  assert_int_equal(stat("script", &info), 0);
  assert_int_equal(info.st_mode & 0777, 0755);
  /* What is replaced keeps its own, whatever is asked for. */
  assert_int_equal(chmod("script", 0600), 0);
  check_ok(tn__file_write_atomic("script", hello, 3, 0644));
  assert_int_equal(stat("script", &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  assert_int_equal(chmod("script", 0666), 0);
  tn__file_contents script = {"script", hello, 3}, other = {"other", hello, 3};
  check_ok(tn__file_write_pair(&script, &other, 0644));
  assert_int_equal(stat("script", &info), 0);
  assert_int_equal(info.st_mode & 0777, 0666);
  assert_int_equal(stat("other", &info), 0);
  assert_int_equal(info.st_mode & 0777, 0644);
  umask(old);
}

/* A file size limit of 50,000 bytes stands in for the full disk. */
static tn_status *write_on_full_disk(const tn__file_contents *first, const tn__file_contents *second) {
  struct rlimit old, low;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  low = old;
  low.rlim_cur = 50000;
  void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
  tn_status *status = second == NULL ? tn__file_write_atomic(first->path, first->pieces, first->count, 0644)
                                     : tn__file_write_pair(first, second, 0644);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, old_handler);
  return status;
}

static void a_full_disk_leaves_the_old_file(void **state) {
  check_ok(tn__file_write_atomic("a", hello, 3, 0644));
  char *large = calloc(1, 100000);
  assert_non_null(large);
  tn__bytes piece = {large, 100000};
  tn_status *status = write_on_full_disk(&(tn__file_contents){"a", &piece, 1}, NULL);
  free(large);
  check_fails(status, TN_IO, "a: cannot write: File too large");
  expect_contents("a", "hello");
  assert_int_equal(files_here(), 1);
}

static void a_pair_is_written_or_neither(void **state) {
  char *large = calloc(1, 100000);
  assert_non_null(large);
  tn__bytes piece = {large, 100000};
  tn__file_contents small = {"a", hello, 3}, too_large = {"b", &piece, 1}, other = {"b", hello, 1};
  check_fails(write_on_full_disk(&small, &too_large), TN_IO, "b: cannot write: File too large");
  assert_int_equal(files_here(), 0);
  check_ok(tn__file_write_pair(&other, &small, 0644));
  expect_contents("a", "hello");
  expect_contents("b", "hel");
  small.count = 1;
  check_fails(write_on_full_disk(&small, &too_large), TN_IO, "b: cannot write: File too large");
  check_fails(write_on_full_disk(&too_large, &small), TN_IO, "b: cannot write: File too large");
  expect_contents("a", "hello");
  expect_contents("b", "hel");
  assert_int_equal(mkdir("dir", 0777), 0);
  tn__file_contents folder = {"dir", hello, 3}, nowhere = {"no/file", hello, 3};
  check_fails(tn__file_write_pair(&small, &folder, 0644), TN_IO, "dir: cannot write: Is a directory");
  check_fails(tn__file_write_pair(&small, &nowhere, 0644), TN_NOT_FOUND,
              "no/file: cannot write: there is no folder no");
  expect_contents("a", "hello");
  assert_int_equal(files_here(), 3);
  free(large);
}

/* The signal for files that are too large ends the child in the middle of its writing, as SIGINT would. */
static void a_signal_leaves_nothing_behind(void **state) {
  check_ok(tn__file_write_atomic("a", hello, 3, 0644));
  char *large = calloc(1, 100000);
  assert_non_null(large);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct rlimit low = {50000, 50000}, none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &low) != 0) _exit(1);
    signal(SIGXFSZ, SIG_DFL);
    tn_status_free(tn__file_write_atomic("a", &(tn__bytes){large, 100000}, 1, 0644));
    _exit(2);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  free(large);
  expect_contents("a", "hello");
  assert_int_equal(files_here(), 1);
}

static void a_symbolic_link_stays_one(void **state) {
  check_ok(tn__file_write_atomic("target", hello, 1, 0644));
  assert_int_equal(symlink("target", "link"), 0);
  check_ok(tn__file_write_atomic("link", hello, 3, 0644));
  struct stat info;
  assert_int_equal(lstat("link", &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  expect_contents("target", "hello");
}

static void a_device_is_written_not_replaced(void **state) {
  check_ok(tn__file_write_atomic("/dev/null", hello, 3, 0644));
  struct stat info;
  assert_int_equal(stat("/dev/null", &info), 0);
  assert_true(S_ISCHR(info.st_mode));
}

static void errors_name_path_and_reason(void **state) {
  tn__file_map map;
  check_fails(tn__file_map_open("absent", &map), TN_NOT_FOUND, "absent: cannot open: No such file or directory");
  assert_null(map.data);
  assert_int_equal(mkdir("dir", 0777), 0);
  check_fails(tn__file_map_open("dir", &map), TN_IO, "dir: cannot read: Is a directory");
  check_fails(tn__file_write_atomic("dir", hello, 3, 0644), TN_IO, "dir: cannot write: Is a directory");
  check_fails(tn__file_write_atomic("no/such/file", hello, 3, 0644), TN_NOT_FOUND,
              "no/such/file: cannot write: there is no folder no/such");
  check_ok(tn__file_check_place("file"));
  check_ok(tn__file_check_place("/file"));
  check_ok(tn__file_check_place("dir/file"));
  check_fails(tn__file_check_place("dir"), TN_IO, "dir: cannot write: Is a directory");
  check_fails(tn__file_check_place("no/file"), TN_NOT_FOUND, "no/file: cannot write: there is no folder no");
  assert_int_equal(mkfifo("pipe", 0600), 0);
  check_fails(tn__file_map_open("pipe", &map), TN_IO, "pipe: cannot read: it is not a regular file");
}

static void makes_folders(void **state) {
  check_ok(tn__make_directories("x/y//z/"));
  check_ok(tn__make_directories("x/y/z"));
  check_ok(tn__make_directories("."));
  check_ok(tn__make_directories("/"));
  struct stat info;
  assert_int_equal(stat("x/y/z", &info), 0);
  assert_true(S_ISDIR(info.st_mode));
  check_ok(tn__file_write_atomic("file", hello, 3, 0644));
  check_fails(tn__make_directories("file/below"), TN_IO, "file/below: cannot make the folder: Not a directory");
  check_fails(tn__make_directories("file"), TN_IO, "file: cannot make the folder: Not a directory");
  check_fails(tn__make_directories(""), TN_INVALID_ARGUMENT, "a folder's name is empty");
}

int main(void) {
#define in_folder(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
  const struct CMUnitTest tests[] = {
      in_folder(writes_pieces_and_reads_them_back),
      in_folder(mode_is_kept),
      in_folder(a_full_disk_leaves_the_old_file),
      in_folder(a_pair_is_written_or_neither),
      in_folder(a_signal_leaves_nothing_behind),
      in_folder(a_symbolic_link_stays_one),
      in_folder(a_device_is_written_not_replaced),
      in_folder(errors_name_path_and_reason),
      in_folder(makes_folders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
