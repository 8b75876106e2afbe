#include "base/below.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn__below tn__path_below(const char *folder, const char *name, char real[PATH_MAX]) {
  char top[PATH_MAX], joined[PATH_MAX];
  if (folder[0] == '\0') folder = ".";
  if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", folder, name) >= sizeof(joined)) {
    errno = ENAMETOOLONG;
    return TN__BELOW_FAILED;
  }
  if (realpath(folder, top) == NULL || realpath(joined, real) == NULL) return TN__BELOW_FAILED;
  size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
  return strncmp(real, top, length) == 0 && real[length] == '/' ? TN__BELOW_THERE : TN__BELOW_OUTSIDE;
}
