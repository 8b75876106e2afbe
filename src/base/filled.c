#include "base/filled.h"

#include <string.h>

/* A struct that is longer than the known one by more than this is no newer version's, but one whose size was never
 * set. */
enum { LONGEST_TAIL = 4096 };

static size_t size_of(const void *given) {
  size_t size;
  memcpy(&size, given, sizeof(size));
  return size;
}

tn_status *tn__sized_check(const char *type, const void *given, size_t known, const char *lost) {
  size_t size = size_of(given);
  if (size == 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: its size is 0, so no field of it %s: set .size = sizeof(%s)",
                            type, lost, type);
  if (size % sizeof(size) == 0 && size <= known + LONGEST_TAIL) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "%s: its size is %zu, which is that of no version of it (%zu here): set .size = sizeof(%s)",
                          type, size, known, type);
}

tn_status *tn__filled_check(const char *type, const void *out, size_t known) {
  return tn__sized_check(type, out, known, "would be filled");
}

void tn__filled_write(void *out, const void *from, size_t known) {
  size_t size = size_of(out), both = size < known ? size : known;
  memcpy((char *)out + sizeof(size), (const char *)from + sizeof(size), both - sizeof(size));
  memset((char *)out + both, 0, size - both);
}
