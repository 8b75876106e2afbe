/* Memory in which constants are computed where the executable will have them, so that megabytes are not copied. */
#ifndef TENON_KERNELS_SLAB_H
#define TENON_KERNELS_SLAB_H

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"

typedef struct tn__slab {
  const tn_allocator *allocator;
  char *memory; /* with room for the rest of the file before and behind the constants; NULL: taken over */
  size_t size, head;
  char *constants; /* aligned to 64 */
  size_t used;     /* of them, in bytes */
  bool hashed;
  tn__sha256 hash; /* of the bytes used so far */
} tn__slab;

/* For `constants` bytes of them, at most `others` bytes of other constants, and what `kernels` kernels usually put
 * before them in the file. Freed with the arena, unless somebody takes the memory over (and sets `memory` to
 * NULL). */
tn__slab *tn__slab_create(tn__arena *arena, size_t constants, size_t others, int kernels);
/* The next `bytes` bytes, aligned to 64, with zeros in between, not zeroed; NULL when they were not reserved. */
void *tn__slab_take(tn__slab *slab, size_t bytes);
bool tn__slab_holds(const tn__slab *slab, const void *data); /* NULL: none does */
/* Hashes what was taken, once everything is in it. */
void tn__slab_hash(tn__slab *slab);
/* Puts the file's pieces around the slab's constants and returns where it begins, aligned to 64; NULL when the pieces
 * do not have them one after another as the slab does, or need more room: then nothing was changed. */
char *tn__slab_join(const tn__slab *slab, const tn__pieces *pieces);

#endif
