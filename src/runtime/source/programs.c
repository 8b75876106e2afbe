/* Programs on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_folder.h"
#include "cache/cache.h"
#include "runtime/source/source.h"

#define MOST_BYTES ((uint64_t)256 << 20)

typedef struct entry {
  const tn__digest *key;
  const void *written; /* NULL: it is to be read */
  void *read;
  size_t size;
  const tn_log_sink *log;
} entry;

static void visit(tn__escape *escape, void *arg) {
  entry *e = arg;
  char folder[4096], below[4096 + 16];
  if (!tn__cache_folder_name(NULL, folder, sizeof folder)) return;
  snprintf(below, sizeof below, "%s/devices", folder);
  tn__arena arena;
  tn__arena_init(&arena, NULL, escape);
  tn__cache *cache = tn__cache_open(&arena, below, MOST_BYTES, e->log);
  tn__bytes bytes;
  if (cache != NULL && e->written != NULL) {
    bytes = (tn__bytes){e->written, e->size};
    tn__cache_put(cache, &arena, "dev", e->key, &(tn__pieces){&bytes, 1, e->size});
  } else if (cache != NULL && tn__cache_get(cache, &arena, "dev", e->key, &bytes) && bytes.size > 0) {
    e->read = malloc(bytes.size);
    if (e->read != NULL) memcpy(e->read, bytes.data, bytes.size);
    e->size = bytes.size;
  }
  tn__arena_release(&arena);
}

static void protected_visit(entry *e) {
  tn__escape escape;
  tn_status *status = tn__protect(&escape, visit, e);
  tn_status_free(status);
}

bool tn__source_kept(const tn__digest *key, void **out, size_t *size) {
  entry e = {.key = key};
  protected_visit(&e);
  *out = e.read;
  *size = e.size;
  return e.read != NULL;
}

void tn__source_keep(const tn__device *device, const tn__digest *key, const void *data, size_t size) {
  entry e = {.key = key, .written = data, .size = size, .log = device->log};
  protected_visit(&e);
}
