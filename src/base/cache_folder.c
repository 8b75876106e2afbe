#include "base/cache_folder.h"

#include <stdio.h>
#include <stdlib.h>

bool tn__cache_folder_name(const char *directory, char *out, size_t size) {
  const char *own = secure_getenv("TENON_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME"),
             *home = secure_getenv("HOME");
  int length = -1;
  if (directory || (own && own[0]))
    length = snprintf(out, size, "%s", directory ? directory : own);
  else if (xdg && xdg[0] == '/')
    length = snprintf(out, size, "%s/tenon", xdg);
  else if (home && home[0])
    length = snprintf(out, size, "%s/.cache/tenon", home);
  return length >= 0 && (size_t)length < size;
}
