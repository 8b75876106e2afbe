#include "kernels/slab.h"

#include <string.h>

#include "base/alloc.h"

/* Code, tables and texts come before the constants in the file: so much of them, and more for each kernel. What is not
 * used of it is never touched; a file that needs more is put together elsewhere. */
enum { ALIGN = 64, LEAST_HEAD = 256 << 10, HEAD_OF_KERNEL = 48 << 10 };

static size_t align_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static void release(void *slab) {
  tn__slab *s = slab;
  tn__free(s->allocator, s->memory, s->size, ALIGN);
}

tn__slab *tn__slab_create(tn__arena *arena, size_t constants, size_t others, int kernels) {
  tn__slab *slab = TN__NEW(arena, tn__slab);
  slab->allocator = arena->allocator;
  slab->head = LEAST_HEAD + (size_t)kernels * HEAD_OF_KERNEL;
  slab->size = slab->head + align_up(constants) + align_up(others);
  tn__arena_defer(arena, release, slab);
  slab->memory = tn__realloc(slab->allocator, NULL, 0, slab->size, ALIGN);
  if (slab->memory == NULL)
    tn__throwf(arena->escape, TN_OUT_OF_MEMORY, "out of memory: %zu bytes for constants", slab->size);
  slab->constants = slab->memory + slab->head;
  return slab;
}

void *tn__slab_take(tn__slab *slab, size_t bytes) {
  size_t from = align_up(slab->used), capacity = slab->size - slab->head;
  if (from > capacity || bytes > capacity - from) return NULL;
  memset(slab->constants + slab->used, 0, from - slab->used);
  slab->used = from + bytes;
  return slab->constants + from;
}

void tn__slab_hash(tn__slab *slab) {
  tn__sha256_init(&slab->hash);
  tn__sha256_update(&slab->hash, slab->constants, slab->used);
  slab->hashed = true;
}

bool tn__slab_holds(const tn__slab *slab, const void *data) {
  return slab != NULL && (uintptr_t)data >= (uintptr_t)slab->constants &&
         (uintptr_t)data < (uintptr_t)slab->constants + slab->used;
}

/* Offset of the file's first byte in the slab's memory; negative when there is none that suits all pieces. */
static int64_t find_start(const tn__slab *slab, const tn__pieces *pieces) {
  int64_t start = -1, at = 0;
  for (int i = 0; i < pieces->count; i++) {
    const tn__bytes *piece = &pieces->list[i];
    if (tn__slab_holds(slab, piece->data)) {
      int64_t here = (const char *)piece->data - slab->memory - at;
      if (here < 0 || (start >= 0 && start != here)) return -1;
      start = here;
    }
    at += (int64_t)piece->size;
  }
  return start % ALIGN != 0 || start + at > (int64_t)slab->size ? -1 : start;
}

char *tn__slab_join(const tn__slab *slab, const tn__pieces *pieces) {
  int64_t start = find_start(slab, pieces);
  if (start < 0) return NULL;
  char *at = slab->memory + start;
  for (int i = 0; i < pieces->count; i++) {
    const tn__bytes *piece = &pieces->list[i];
    if (piece->size > 0 && piece->data != at) memcpy(at, piece->data, piece->size);
    at += piece->size;
  }
  return slab->memory + start;
}
