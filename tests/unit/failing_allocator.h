/* An allocator that refuses one chosen allocation and accounts for the rest, so that a test can fail every allocation
 * of a piece of work once and see that nothing is lost. */
#ifndef TENON_TESTS_UNIT_FAILING_ALLOCATOR_H
#define TENON_TESTS_UNIT_FAILING_ALLOCATOR_H

#include <stdlib.h>
#include <string.h>

#include "tenon/base.h"

typedef struct failing_allocator {
  tn_allocator allocator; /* pass &x.allocator */
  int calls;              /* allocations and growths so far */
  int fail_at;            /* the number of the call to refuse, from 0; -1: none */
  size_t live_bytes;      /* by the sizes that the callers state */
  size_t peak_bytes;      /* the most that live_bytes was */
  int live_count;
} failing_allocator;

static inline void *failing_reallocate(void *user, void *pointer, size_t old_size, size_t new_size, size_t align) {
  failing_allocator *self = user;
  if (new_size == 0) {
    if (pointer != NULL) self->live_bytes -= old_size, self->live_count--;
    free(pointer);
    return NULL;
  }
  if (self->calls++ == self->fail_at) return NULL;
  void *fresh = NULL;
  if (posix_memalign(&fresh, align < sizeof(void *) ? sizeof(void *) : align, new_size) != 0) return NULL;
  memset(fresh, 0xa5, new_size); /* nobody may count on zeros that they did not write */
  if (pointer != NULL) {
    memcpy(fresh, pointer, old_size < new_size ? old_size : new_size);
    free(pointer);
    self->live_bytes -= old_size, self->live_count--;
  }
  self->live_bytes += new_size, self->live_count++;
  if (self->live_bytes > self->peak_bytes) self->peak_bytes = self->live_bytes;
  return fresh;
}

/* `self` must stay where it is. */
static inline void failing_allocator_init(failing_allocator *self, int fail_at) {
  *self = (failing_allocator){.allocator = {failing_reallocate, self}, .fail_at = fail_at};
}

#endif
