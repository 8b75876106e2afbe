/* memcpy, memmove and qsort take no NULL, even where there is nothing to copy or sort. What is empty often has no
 * memory: a vector, a file, a tensor. tools/check_copies.py holds the data of such to these, or to a condition. */
#ifndef TENON_BASE_COPY_H
#define TENON_BASE_COPY_H

#include <stdlib.h>
#include <string.h>

static inline void tn__copy(void *to, const void *from, size_t bytes) {
  if (bytes > 0) memcpy(to, from, bytes);
}

/* Of memory that may overlap. */
static inline void tn__copy_within(void *to, const void *from, size_t bytes) {
  if (bytes > 0) memmove(to, from, bytes);
}

static inline void tn__sort(void *list, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
  if (count > 1) qsort(list, count, bytes, compare);
}

#endif
