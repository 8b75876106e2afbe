/* Checked allocation through a tn_allocator, for code that returns statuses (the runtime and the public API
 * objects). */
#ifndef TENON_BASE_ALLOC_H
#define TENON_BASE_ALLOC_H

#include "tenon/base.h"

/* Zeroed; count * size is checked for overflow. `*out` is NULL on failure. `align` 0 means 16. A zero size is fine. */
TN_MUST_USE tn_status *tn__alloc(const tn_allocator *allocator, size_t count, size_t size, size_t align, void **out);
/* The same without a status: NULL on failure. `bytes` must not be 0. */
void *tn__alloc_zeroed(const tn_allocator *allocator, size_t bytes, size_t align);
/* `size` and `align` are those given to tn__alloc (count * size). NULL is fine. */
void tn__free(const tn_allocator *allocator, void *pointer, size_t size, size_t align);
void *tn__realloc(const tn_allocator *allocator, void *pointer, size_t old_size, size_t new_size, size_t align);

TN_MUST_USE bool tn__mul_overflow_i64(int64_t a, int64_t b, int64_t *out); /* true on overflow */
TN_MUST_USE bool tn__add_overflow_i64(int64_t a, int64_t b, int64_t *out);

#define TN_RETURN_IF_ERROR(expression)           \
  do {                                           \
    tn_status *tn__status_ = (expression);       \
    if (tn__status_ != NULL) return tn__status_; \
  } while (0)

#endif
