/* A compiled model: the bytes of its executable, and where the time went. */
#ifndef TENON_DRIVER_MODULE_H
#define TENON_DRIVER_MODULE_H

#include "base/file.h"
#include "driver/driver.h"

struct tn_module {
  const tn_allocator *allocator;
  tn_allocator allocator_copy;
  const void *data; /* in `memory` or `map` */
  size_t size;
  char *memory;
  size_t memory_size;
  tn__file_map map; /* of the cache's entry */
  tn_phase_time *times;
  const tn_phase_time **time_list; /* a pointer to each */
  char *names;                     /* of the phases, one after another */
  size_t names_size;
  int time_count;
  bool from_cache;
  uint64_t steps, most_steps;
};

/* Of the pieces, or of the cache's entry, which it takes over; with the driver's times. */
TN_MUST_USE tn_status *tn__driver_module_create(const tn__driver *driver, const tn__pieces *executable,
                                                tn__file_map *map, tn__bytes entry, tn_module **out);

#endif
