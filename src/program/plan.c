#include <stdlib.h>

#include "program/program.h"

static int by_size(const void *a, const void *b) {
  const tn__plan_item *x = *(tn__plan_item *const *)a, *y = *(tn__plan_item *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y; /* their order in the one array: still the caller's order, not an address of chance */
}

int64_t tn__prog_plan_memory(tn__arena *arena, tn__plan_item *items, int item_count, int device) {
  tn__plan_item **order = TN__NEW_ARRAY(arena, item_count, tn__plan_item *);
  tn__plan_item **placed = TN__NEW_ARRAY(arena, item_count, tn__plan_item *); /* by offset */
  int count = 0;
  for (int i = 0; i < item_count; i++) {
    if (items[i].device != device) continue;
    items[i].bytes = (items[i].bytes + 63) / 64 * 64;
    order[count++] = &items[i];
  }
  qsort(order, (size_t)count, sizeof *order, by_size);
  int64_t total = 0;
  for (int i = 0; i < count; i++) {
    tn__plan_item *item = order[i];
    int64_t offset = 0;
    for (int j = 0; j < i; j++) {
      const tn__plan_item *other = placed[j];
      if (other->last < item->first || item->last < other->first) continue;
      if (other->offset >= offset + item->bytes) break;
      if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    item->offset = offset;
    int at = i;
    while (at > 0 && placed[at - 1]->offset > offset) {
      placed[at] = placed[at - 1];
      at--;
    }
    placed[at] = item;
    if (offset + item->bytes > total) total = offset + item->bytes;
  }
  return total;
}
