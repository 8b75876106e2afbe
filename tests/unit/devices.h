/* Devices of plug-ins, for tests: those that this machine has. */
#ifndef TENON_TESTS_UNIT_DEVICES_H
#define TENON_TESTS_UNIT_DEVICES_H

#include <dirent.h>
#include <unistd.h>

#include "runtime/plugin/plugin.h"
#include "unit/check.h"

/* Caches of the drivers' and of devices' compilers are folders that the test removes. */
static inline char *test_cache_folder(void) {
  static char folder[32];
  strcpy(folder, "/tmp/tenon-devices-XXXXXX");
  assert_non_null(mkdtemp(folder));
  setenv("TENON_CACHE_DIR", folder, 1);
  char compiler[64];
  snprintf(compiler, sizeof compiler, "%s/pocl", folder);
  setenv("POCL_CACHE_DIR", compiler, 1);
  return folder;
}

static inline void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  for (const struct dirent *e = folder == NULL ? NULL : readdir(folder); e != NULL; e = readdir(folder)) {
    char below[4096];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= (int)sizeof below) continue;
    if (unlink(below) != 0) remove_folder(below);
  }
  if (folder != NULL) closedir(folder);
  rmdir(path);
}

/* The driver NAME and how many devices it has here. Without any the words that say why are printed; where the
 * environment says that there must be one (TENON_TEST_DEVICES), that is a failure. */
static inline int plugin_devices(DLDeviceType type, const char *name, const tn__device_driver **driver) {
  int count = 0;
  tn_status *status = tn__plugin_driver(type, name, driver);
  for (; status == NULL; count++) {
    tn__device device = {.driver = *driver, .id = count};
    status = (*driver)->open(&device);
    if (status != NULL) break;
    (*driver)->close(&device);
  }
  if (count == 0) {
    const char *wanted = getenv("TENON_TEST_DEVICES");
    print_message("SKIPPED: devices of %s: %s\n", name, tn_status_message(status));
    if (wanted != NULL && strstr(wanted, name) != NULL) fail_msg("a device of %s is wanted here", name);
  }
  tn_status_free(status);
  return count;
}

#endif
