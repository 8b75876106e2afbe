/* A temporary folder in memory, for targets whose readers open files. It is removed when the process ends. */
#ifndef TENON_FUZZ_FILES_H
#define TENON_FUZZ_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz/fuzz.h"

static char fuzz_folder[64];

static inline void fuzz_leave(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", fuzz_folder);
  if (system(command) != 0) abort();
}

/* Returns the path of a file in the folder, valid until the next call. Creates the folder on first use. */
static inline const char *fuzz_path(const char *name) {
  static char path[192];
  if (fuzz_folder[0] == '\0') {
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz_folder, sizeof(fuzz_folder), "%s/tenon-fuzz-XXXXXX", memory);
    if (mkdtemp(fuzz_folder) == NULL) abort();
    atexit(fuzz_leave);
  }
  snprintf(path, sizeof(path), "%s/%s", fuzz_folder, name);
  return path;
}

/* Aborts if an operation that must succeed for every input has failed. */
static inline void must(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", tn_status_message(status));
  abort();
}

static inline const char *fuzz_write(const char *name, const void *data, size_t size) {
  const char *path = fuzz_path(name);
  must(tn__file_write_atomic(path, &(tn__bytes){data, size}, 1, 0600));
  return path;
}

#endif
