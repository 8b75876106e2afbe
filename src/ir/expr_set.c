#include <string.h>

#include "ir/context.h"

enum { FIRST_CAPACITY = 64 };

static size_t slot_of(const tn__expr_set *set, const tn__expr *e) {
  size_t at = e->hash & (set->capacity - 1);
  while (set->slots[at] != NULL && set->slots[at] != e) at = (at + 1) & (set->capacity - 1);
  return at;
}

static int size_class(size_t capacity) {
  int size = 0;
  while (((size_t)FIRST_CAPACITY << size) < capacity) size++;
  return size;
}

static const tn__expr **take_slots(tn__ir *ir, size_t capacity) {
  const int size = size_class(capacity);
  tn__spare_set *found = size < TN__SET_SIZES ? ir->spare_sets[size] : NULL;
  if (found == NULL) return TN__NEW_ARRAY(ir->arena, capacity, const tn__expr *);
  ir->spare_sets[size] = found->next;
  const tn__expr **slots = (void *)found;
  memset(slots, 0, capacity * sizeof *slots);
  return slots;
}

void tn__expr_set_clear(tn__expr_set *set) {
  const int size = size_class(set->capacity);
  if (set->capacity > 0 && size < TN__SET_SIZES) {
    tn__spare_set *spare = (void *)set->slots;
    spare->next = set->ir->spare_sets[size];
    set->ir->spare_sets[size] = spare;
  }
  *set = (tn__expr_set){.ir = set->ir};
}

static void grow(tn__expr_set *set) {
  tn__expr_set larger = {.ir = set->ir, .capacity = set->capacity == 0 ? FIRST_CAPACITY : set->capacity * 2};
  larger.slots = take_slots(set->ir, larger.capacity);
  for (size_t i = 0; i < set->capacity; i++)
    if (set->slots[i] != NULL) larger.slots[slot_of(&larger, set->slots[i])] = set->slots[i];
  larger.count = set->count;
  tn__expr_set_clear(set);
  *set = larger;
}

bool tn__expr_set_add(tn__expr_set *set, const tn__expr *e) {
  tn__work_step(set->ir->arena, 1);
  if (set->count * 2 >= set->capacity) grow(set);
  size_t at = slot_of(set, e);
  if (set->slots[at] != NULL) return false;
  set->slots[at] = e;
  set->count++;
  return true;
}

bool tn__expr_set_has(const tn__expr_set *set, const tn__expr *e) {
  return set->capacity > 0 && set->slots[slot_of(set, e)] != NULL;
}
