/* An allocator with a budget: rejects the large allocations that a small file can request. */
#ifndef TENON_FUZZ_MEMORY_H
#define TENON_FUZZ_MEMORY_H

#include <stdlib.h>
#include <string.h>

#include "tenon/base.h"

/* `user` points to the remaining bytes. */
static inline void *fuzz_limited(void *user, void *pointer, size_t old_size, size_t new_size, size_t align) {
  size_t *left = user;
  if (new_size == 0) {
    free(pointer);
    if (pointer != NULL) *left += old_size;
    return NULL;
  }
  if (new_size > *left + old_size) return NULL;
  void *fresh = NULL;
  if (posix_memalign(&fresh, align < sizeof(void *) ? sizeof(void *) : align, new_size) != 0) return NULL;
  if (pointer != NULL) memcpy(fresh, pointer, old_size < new_size ? old_size : new_size);
  free(pointer);
  *left = *left + old_size - new_size;
  return fresh;
}

#endif
