#include "runtime/region.h"

#include "base/alloc.h"

struct tn__region_block {
  tn__region_block *next;
  size_t size; /* with this header */
};

void tn__region_init(tn__region *region, const tn_allocator *allocator) {
  *region = (tn__region){0};
  if (allocator == NULL) return;
  region->copy = *allocator;
  region->allocator = &region->copy;
}

void tn__region_release(tn__region *region) {
  while (region->blocks != NULL) {
    tn__region_block *block = region->blocks;
    region->blocks = block->next;
    tn__free(region->allocator, block, block->size, 0);
  }
}

tn_status *tn__region_alloc(tn__region *region, size_t count, size_t size, void *out) {
  void **result = out;
  *result = NULL;
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: %zu elements of %zu bytes", count, size);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(region->allocator, 1, sizeof(tn__region_block) + bytes, 0, &memory));
  tn__region_block *block = memory;
  block->next = region->blocks;
  block->size = sizeof(tn__region_block) + bytes;
  region->blocks = block;
  *result = block + 1;
  return NULL;
}
