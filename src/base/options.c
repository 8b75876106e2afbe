#include "base/options.h"

#include <string.h>

#include "base/filled.h"

static tn_status *check_tail(const char *type, const uint8_t *given, size_t size, size_t known) {
  for (size_t i = known; i < size; i++)
    if (given[i] != 0)
      return tn_status_create(TN_INVALID_ARGUMENT,
                              "%s: byte %zu of %zu is set, and this Tenon (%s) knows %zu: leave the fields zero that "
                              "are newer than it, or use the library that goes with the header",
                              type, i, size, tn_version(), known);
  return NULL;
}

tn_status *tn__options_read(const char *type, const void *given, size_t known, void *out) {
  size_t size = known;
  memset(out, 0, known);
  if (given != NULL) {
    tn_status *status = tn__sized_check(type, given, known, "counts");
    memcpy(&size, given, sizeof(size));
    if (status == NULL) status = check_tail(type, given, size, known);
    if (status != NULL) return status;
    memcpy(out, given, size < known ? size : known);
  }
  memcpy(out, &known, sizeof(known));
  return NULL;
}

tn_status *tn__options_check_list(const char *type, const char *list_name, const void *list, const char *count_name,
                                  int64_t count) {
  if (count < 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: %s is %lld, which is less than none", type, count_name,
                            (long long)count);
  if (list != NULL || count == 0) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "%s: %s is NULL and %s is %lld: give the elements, or no number of them",
                          type, list_name, count_name, (long long)count);
}
