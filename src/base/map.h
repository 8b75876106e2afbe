/* Hash map with string keys in an arena: open addressing, insertion order kept for deterministic iteration. */
#ifndef TENON_BASE_MAP_H
#define TENON_BASE_MAP_H

#include "base/arena.h"

typedef struct tn__map_entry {
  const char *key;
  void *value;
  uint64_t hash;
} tn__map_entry;

typedef struct tn__map {
  tn__arena *arena;
  tn__map_entry *entries; /* in order of first insertion */
  int count, capacity;
  uint32_t *slots; /* index + 1 into entries; power-of-two size */
  uint32_t slot_count;
} tn__map;

void tn__map_init(tn__map *map, tn__arena *arena);
void *tn__map_get(const tn__map *map, const char *key); /* NULL when absent */
bool tn__map_has(const tn__map *map, const char *key);
/* Inserts or replaces; the key is not copied and must live as long as the map. Returns the value that was there, or
 * NULL. */
void *tn__map_set(tn__map *map, const char *key, void *value);

#endif
