#include "base/arguments.h"

tn_status *tn__argument_missing(const char *function, const char *name) {
  return tn_status_create(TN_INVALID_ARGUMENT, "%s: cannot run: \"%s\" is NULL; pass a pointer to it", function, name);
}
