/* Programs of devices on disk, the same for all drivers whose devices compile source. */
#ifndef TENON_TESTS_UNIT_KEPT_PROGRAMS_H
#define TENON_TESTS_UNIT_KEPT_PROGRAMS_H

#include <fcntl.h>
#include <sys/stat.h>

#include "unit/devices.h"

/* The one entry of the cache; false: there is none. */
static inline bool find_kept_program(const char *cache, char *path, size_t size) {
  char folder[256];
  int count = 0;
  snprintf(folder, sizeof folder, "%s/devices", cache);
  DIR *directory = opendir(folder);
  for (const struct dirent *e = directory == NULL ? NULL : readdir(directory); e != NULL; e = readdir(directory)) {
    if (strncmp(e->d_name, "dev-", 4) != 0) continue;
    snprintf(path, size, "%s/%s", folder, e->d_name);
    count++;
  }
  if (directory != NULL) closedir(directory);
  assert_true(count <= 1);
  return count == 1;
}

static int kept_lines;
static void count_kept_lines(void *user, tn_log_level level, const char *line) {
  assert_int_equal(level, TN_LOG_WARNING);
  assert_non_null(strstr(line, "/proc/no/such/place"));
  kept_lines++;
}

/* `run` loads a program, another one for each number, runs it and checks what it computes. `cache` is where programs
 * are kept behind that. */
static inline void check_programs_are_kept(tn__device *device, void (*run)(tn__device *device, int64_t number),
                                           const char *cache) {
  char own[] = "/tmp/tenon-programs-XXXXXX", path[512], again[512];
  struct stat first, second;
  assert_non_null(mkdtemp(own));
  setenv("TENON_CACHE_DIR", own, 1);
  run(device, 1234);
  assert_true(find_kept_program(own, path, sizeof path));
  assert_int_equal(stat(path, &first), 0);
  run(device, 1234); /* from there */
  assert_true(find_kept_program(own, again, sizeof again));
  assert_string_equal(path, again);
  assert_int_equal(stat(path, &second), 0);
  assert_int_equal(first.st_ino, second.st_ino); /* it was not written again */
  /* One that is damaged is made again. */
  int file = open(path, O_WRONLY);
  assert_int_equal(pwrite(file, "damage", 6, first.st_size / 2), 6);
  close(file);
  run(device, 1234);
  char now[6];
  file = open(path, O_RDONLY);
  assert_int_equal(pread(file, now, sizeof now, first.st_size / 2), sizeof now);
  close(file);
  assert_memory_not_equal(now, "damage", sizeof now);
  /* Without a place for it all goes well, too, but for a line to whoever listens. */
  const tn_log_sink sink = {.write = count_kept_lines};
  setenv("TENON_CACHE_DIR", "/proc/no/such/place", 1);
  run(device, 4321);
  device->log = &sink;
  run(device, 4322);
  assert_int_equal(kept_lines, 1);
  device->log = NULL;
  setenv("TENON_CACHE_DIR", cache, 1);
  remove_folder(own);
}

#endif
