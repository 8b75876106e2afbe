/* Where the running program is, for those who start another one that was installed with it. */
#ifndef TENON_BASE_PROGRAM_H
#define TENON_BASE_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tenon/base.h"

/* The path of a file called `name` in the folder of the running program; false when that is not known, or too long. */
TN_MUST_USE static inline bool tn__program_beside(const char *name, char *path, size_t size) {
  ssize_t length = readlink("/proc/self/exe", path, size);
  if (length <= 0 || (size_t)length >= size) return false;
  path[length] = 0;
  char *last = strrchr(path, '/');
  if (last == NULL || (size_t)(last + 1 - path) + strlen(name) >= size) return false;
  snprintf(last + 1, size - (size_t)(last + 1 - path), "%s", name);
  return true;
}

#endif
