#include "base/map.h"

#include <string.h>

#include "base/hash.h"

enum { FIRST_SLOTS = 16 };

void tn__map_init(tn__map *map, tn__arena *arena) { *map = (tn__map){.arena = arena}; }

/* The slot that holds `key`, or the free one where it belongs. There is always a free slot. */
static uint32_t find_slot(const tn__map *map, const char *key, uint64_t hash) {
  uint32_t mask = map->slot_count - 1;
  uint32_t i = (uint32_t)hash & mask;
  while (map->slots[i] != 0) {
    const tn__map_entry *entry = &map->entries[map->slots[i] - 1];
    if (entry->hash == hash && strcmp(entry->key, key) == 0) break;
    i = (i + 1) & mask;
  }
  return i;
}

static tn__map_entry *find(const tn__map *map, const char *key) {
  if (map->count == 0) return NULL;
  uint32_t slot = map->slots[find_slot(map, key, tn__hash_string(0, key))];
  return slot == 0 ? NULL : &map->entries[slot - 1];
}

void *tn__map_get(const tn__map *map, const char *key) {
  const tn__map_entry *entry = find(map, key);
  return entry == NULL ? NULL : entry->value;
}

bool tn__map_has(const tn__map *map, const char *key) { return find(map, key) != NULL; }

static void grow_slots(tn__map *map) {
  uint32_t slot_count = map->slot_count == 0 ? FIRST_SLOTS : map->slot_count * 2;
  uint32_t *slots = TN__NEW_ARRAY(map->arena, slot_count, uint32_t);
  map->slots = slots; /* both or neither: the allocation above may have thrown */
  map->slot_count = slot_count;
  for (int i = 0; i < map->count; i++)
    map->slots[find_slot(map, map->entries[i].key, map->entries[i].hash)] = (uint32_t)i + 1;
}

void *tn__map_set(tn__map *map, const char *key, void *value) {
  /* At most three quarters full, so that probes stay short. */
  if ((uint64_t)map->count * 4 >= (uint64_t)map->slot_count * 3) grow_slots(map);
  uint64_t hash = tn__hash_string(0, key);
  uint32_t slot = find_slot(map, key, hash);
  if (map->slots[slot] != 0) {
    tn__map_entry *entry = &map->entries[map->slots[slot] - 1];
    void *old = entry->value;
    entry->value = value;
    return old;
  }
  if (map->count == map->capacity)
    map->entries = tn__vec_grow(map->arena, map->entries, map->count, &map->capacity, sizeof(*map->entries));
  map->entries[map->count++] = (tn__map_entry){key, value, hash};
  map->slots[slot] = (uint32_t)map->count;
  return NULL;
}
