#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGN = 16 };

/* malloc, realloc and free behind the interface of tn_allocator. */
static void *system_reallocate(void *pointer, size_t old_size, size_t new_size, size_t align) {
  if (new_size == 0) {
    free(pointer);
    return NULL;
  }
  if (align <= DEFAULT_ALIGN) return realloc(pointer, new_size);
  void *fresh = NULL;
  if (posix_memalign(&fresh, align, new_size) != 0) return NULL;
  if (pointer != NULL) {
    memcpy(fresh, pointer, old_size < new_size ? old_size : new_size);
    free(pointer);
  }
  return fresh;
}

void *tn__realloc(const tn_allocator *allocator, void *pointer, size_t old_size, size_t new_size, size_t align) {
  if (align == 0) align = DEFAULT_ALIGN;
  /* An allocation of nothing holds one byte, so that its pointer is unique and can be freed like any other. */
  if (pointer != NULL && old_size == 0) old_size = 1;
  if (allocator == NULL) return system_reallocate(pointer, old_size, new_size, align);
  return allocator->reallocate(allocator->user, pointer, old_size, new_size, align);
}

void *tn__alloc_zeroed(const tn_allocator *allocator, size_t bytes, size_t align) {
  /* calloc knows which memory the system has zeroed just now: writing to it once more would make its pages. */
  if (allocator == NULL && align <= DEFAULT_ALIGN) return calloc(bytes, 1);
  void *pointer = tn__realloc(allocator, NULL, 0, bytes, align);
  return pointer == NULL ? NULL : memset(pointer, 0, bytes);
}

tn_status *tn__alloc(const tn_allocator *allocator, size_t count, size_t size, size_t align, void **out) {
  *out = NULL;
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    return tn_status_create(TN_OUT_OF_MEMORY,
                            "out of memory: %zu elements of %zu bytes do not fit into the address space", count, size);
  if (bytes == 0) bytes = 1;
  void *pointer = tn__alloc_zeroed(allocator, bytes, align);
  if (pointer == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: %zu bytes were asked for", bytes);
  *out = pointer;
  return NULL;
}

void tn__free(const tn_allocator *allocator, void *pointer, size_t size, size_t align) {
  if (pointer != NULL) tn__realloc(allocator, pointer, size, 0, align);
}

bool tn__mul_overflow_i64(int64_t a, int64_t b, int64_t *out) { return __builtin_mul_overflow(a, b, out); }

bool tn__add_overflow_i64(int64_t a, int64_t b, int64_t *out) { return __builtin_add_overflow(a, b, out); }
