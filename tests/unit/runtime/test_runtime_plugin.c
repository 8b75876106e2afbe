/* Plug-ins: where they are looked for, what is said of those that are missing or of no use, that nobody gets another's
 * names, and that threads may open them at once. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/plugin/plugin.h"
#include "unit/check.h"

enum { THREADS = 8, ROUNDS = 50, MOST_PATH = 4096 };

/* The folder of this program. */
static const char *own_folder(void) {
  static char folder[MOST_PATH];
  ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
  assert_true(length > 0);
  folder[length] = '\0';
  *strrchr(folder, '/') = '\0';
  return folder;
}

static void search_in(const char *path) {
  if (path == NULL)
    unsetenv("TENON_PLUGIN_PATH");
  else
    setenv("TENON_PLUGIN_PATH", path, 1);
}

static void test_a_plug_in_is_found_beside_the_program(void **state) {
  const tn__device_driver *driver, *again;
  search_in(NULL);
  check_ok(tn__plugin_driver(kDLCUDA, "trial", &driver)); /* in tenon/ */
  assert_string_equal(driver->name, "trial");
  check_ok(tn__plugin_driver(kDLCUDA, "trial", &again));
  assert_ptr_equal(driver, again);
  /* What a plug-in makes can be read and freed here. */
  tn__device device = {.driver = driver, .id = 4};
  check_fails(tn_status_prefix(driver->open(&device), "loading"), TN_NOT_FOUND, "loading: there is no trial:4");
}

static void test_the_path_comes_first(void **state) {
  const tn__device_driver *driver;
  char text[3 * MOST_PATH];
  search_in(":/nowhere:" TN_TEST_PLUGINS "/old");
  snprintf(text, sizeof text,
           "the plug-in \"" TN_TEST_PLUGINS
           "/old/tenon-trial.so\" is of Tenon %s, layout %d, not of %s, layout %d: install the "
           "plug-ins that came with this Tenon (%s)",
           tn_version(), TN__PLUGIN_LAYOUT + 1, tn_version(), TN__PLUGIN_LAYOUT, tn_version());
  check_fails(tn__plugin_driver(kDLCUDA, "trial", &driver), TN_FAILED_PRECONDITION, text);
  assert_null(driver);
}

static void test_missing_plug_ins(void **state) {
  const tn__device_driver *driver;
  char text[8 * MOST_PATH];
  const char *own = own_folder();
  search_in("/nowhere:/neither");
  snprintf(text, sizeof text,
           "there is no plug-in for absent devices: no file tenon-absent.so in /nowhere, /neither, %s, %s/tenon, "
           "%s/../lib/tenon" TN_TEST_LIBRARY_FOLDER "; install it there, or name its folder in TENON_PLUGIN_PATH",
           own, own, own);
  check_fails(tn__plugin_driver(kDLCUDA, "absent", &driver), TN_NOT_FOUND, text);
  search_in(NULL);
  snprintf(text, sizeof text,
           "there is no plug-in for absent devices: no file tenon-absent.so in %s, %s/tenon, "
           "%s/../lib/tenon" TN_TEST_LIBRARY_FOLDER "; install it there, or name its folder in TENON_PLUGIN_PATH",
           own, own, own);
  check_fails(tn__plugin_driver(kDLCUDA, "absent", &driver), TN_NOT_FOUND, text);
}

static void test_plug_ins_of_no_use(void **state) {
  const tn__device_driver *driver;
  char folder[] = "/tmp/tenon-plugins-XXXXXX", file[64], text[2 * MOST_PATH];
  search_in(TN_TEST_PLUGINS "/no_entry");
  snprintf(text, sizeof text,
           "the plug-in \"" TN_TEST_PLUGINS
           "/no_entry/tenon-trial.so\" is none: it has no function tn_plugin_driver: "
           "install the plug-ins that came with this Tenon (%s)",
           tn_version());
  check_fails(tn__plugin_driver(kDLCUDA, "trial", &driver), TN_FAILED_PRECONDITION, text);
  search_in(NULL);
  snprintf(text, sizeof text,
           "the plug-in \"%s/tenon/tenon-trial.so\" is for other devices than its name says: install the plug-ins that "
           "came with this Tenon (%s)",
           own_folder(), tn_version());
  check_fails(tn__plugin_driver(kDLOpenCL, "trial", &driver), TN_FAILED_PRECONDITION, text);
  /* A file that is no library. */
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/tenon-trial.so", folder);
  static const char words[] = "no library at all, but some bytes that are more than a header of one has, which are 64";
  check_ok(tn__file_write_atomic(file, &(tn__bytes){words, sizeof words}, 1, 0644));
  search_in(folder);
  snprintf(text, sizeof text,
           "the plug-in \"%s\" cannot be opened (%s: invalid ELF header): install the plug-ins that came with this "
           "Tenon (%s)",
           file, file, tn_version());
  check_fails(tn__plugin_driver(kDLCUDA, "trial", &driver), TN_FAILED_PRECONDITION, text);
  /* In a folder where other users could replace it. */
  assert_int_equal(chmod(folder, 0777), 0);
  snprintf(text, sizeof text,
           "the plug-in \"%s\" is not opened: %s: cannot use the folder: others may write to it (mode 777); make it "
           "yours alone (chown, chmod go-w), or name another one in TENON_PLUGIN_PATH",
           file, folder);
  check_fails(tn__plugin_driver(kDLCUDA, "trial", &driver), TN_FAILED_PRECONDITION, text);
  unlink(file);
  rmdir(folder);
}

/* Two plug-ins and this program have a name each for something of their own, and each sees its own; nobody who asks the
 * process for it finds a plug-in's. */
extern const char *tn_trial_whose;
const char *tn_trial_whose = "the program's";

static void test_names_of_their_own(void **state) {
  const tn__device_driver *driver, *other;
  tn__device_limits limits;
  search_in(NULL);
  check_ok(tn__plugin_driver(kDLCUDA, "trial", &driver));
  check_ok(tn__plugin_driver(kDLOpenCL, "other", &other));
  driver->limits(NULL, &limits);
  assert_string_equal(limits.about, "the plug-in's");
  other->limits(NULL, &limits);
  assert_string_equal(limits.about, "the other plug-in's");
  assert_string_equal(tn_trial_whose, "the program's");
  assert_null(dlsym(RTLD_DEFAULT, "tn_trial_whose"));
  assert_null(dlsym(RTLD_DEFAULT, "tn_plugin_driver"));
}

static void *open_often(void *arg) {
  const tn__device_driver **out = arg;
  for (int i = 0; i < ROUNDS; i++) {
    tn_status *status = tn__plugin_driver(kDLCUDA, "trial", out);
    if (status != NULL) {
      tn_status_free(status);
      *out = NULL;
      break;
    }
  }
  return NULL;
}

static void test_threads(void **state) {
  pthread_t threads[THREADS];
  const tn__device_driver *drivers[THREADS];
  search_in(NULL);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_often, &drivers[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_non_null(drivers[i]);
    assert_ptr_equal(drivers[i], drivers[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_plug_in_is_found_beside_the_program),
      cmocka_unit_test(test_the_path_comes_first),
      cmocka_unit_test(test_missing_plug_ins),
      cmocka_unit_test(test_plug_ins_of_no_use),
      cmocka_unit_test(test_names_of_their_own),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests_name("plug-ins", tests, NULL, NULL);
}
