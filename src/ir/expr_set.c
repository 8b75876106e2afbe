#include "ir/expr.h"

static size_t slot_of(const tn__expr_set *set, const tn__expr *e) {
  size_t at = e->hash & (set->capacity - 1);
  while (set->slots[at] != NULL && set->slots[at] != e) at = (at + 1) & (set->capacity - 1);
  return at;
}

static void grow(tn__expr_set *set) {
  tn__expr_set larger = {.arena = set->arena, .capacity = set->capacity == 0 ? 64 : set->capacity * 2};
  larger.slots = TN__NEW_ARRAY(set->arena, larger.capacity, const tn__expr *);
  for (size_t i = 0; i < set->capacity; i++)
    if (set->slots[i] != NULL) larger.slots[slot_of(&larger, set->slots[i])] = set->slots[i];
  larger.count = set->count;
  *set = larger;
}

bool tn__expr_set_add(tn__expr_set *set, const tn__expr *e) {
  tn__work_step(set->arena, 1);
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
