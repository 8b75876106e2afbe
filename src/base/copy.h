/* NULL-safe memcpy, memmove and qsort. The C functions reject NULL even for a size of 0, but an empty vector, file
 * or tensor often has no memory. tools/check_copies.py requires these wrappers, or a check, for such data. */
#ifndef TENON_BASE_COPY_H
#define TENON_BASE_COPY_H

#include <stdlib.h>
#include <string.h>

static inline void tn__copy(void *to, const void *from, size_t bytes) {
  if (bytes > 0) memcpy(to, from, bytes);
}

/* The ranges may overlap. */
static inline void tn__copy_within(void *to, const void *from, size_t bytes) {
  if (bytes > 0) memmove(to, from, bytes);
}

static inline void tn__sort(void *list, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
  if (count > 1) qsort(list, count, bytes, compare);
}

#endif
