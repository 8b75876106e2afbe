/* Memory that lives as long as its owner. */
#ifndef TENON_RUNTIME_REGION_H
#define TENON_RUNTIME_REGION_H

#include "base/linked.h"
#include "tenon/runtime.h"

/* Checked allocations that are all freed together. */
typedef struct tn__region_block tn__region_block;
typedef struct tn__region {
  const tn_allocator *allocator; /* NULL, or &copy */
  tn_allocator copy;             /* so that the caller's struct may go */
  tn__region_block *blocks;
} tn__region;
TN__LINKED void tn__region_init(tn__region *region, const tn_allocator *allocator); /* `region` must stay where it is */
TN__LINKED void tn__region_release(tn__region *region);
/* Zeroed memory, aligned to 16, for `count` elements of `size` bytes; never NULL on success. */
TN__LINKED TN_MUST_USE tn_status *tn__region_alloc(tn__region *region, size_t count, size_t size, void *out);

#endif
