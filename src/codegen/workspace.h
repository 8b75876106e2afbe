/* Where the intermediate tensors of a function lie in its workspace. Those of a fixed size that are not in use at the
 * same time share memory: one is done with before the first statement of the function's sequence that uses the other.
 * Sizes that are open have places of their own, behind the fixed ones. */
#ifndef TENON_CODEGEN_WORKSPACE_H
#define TENON_CODEGEN_WORKSPACE_H

#include "ir/stmt.h"

typedef struct tn__cg_place {
  const tn__buffer *buffer;
  const tn__expr *offset; /* in bytes, a multiple of TN_KERNEL_ALIGNMENT */
  int64_t start, bytes;   /* of a fixed size; bytes 0: open, or without elements */
  int first, last;        /* statements that use it */
} tn__cg_place;

typedef struct tn__cg_layout {
  TN__VEC(tn__cg_place) places; /* in the order in which they are allocated */
  int *of_buffer;               /* by a buffer's id: its number among the places, -1: none */
  uint32_t ids;                 /* how many of these there are */
  const tn__expr *total;        /* bytes of all of them */
} tn__cg_layout;

/* Both live in the arena of `ir`. */
const tn__cg_layout *tn__cg_layout_of(tn__ir *ir, const tn__func *func);
/* NULL: the buffer is not in the workspace. */
const tn__cg_place *tn__cg_place_of(const tn__cg_layout *layout, const tn__buffer *buffer);
/* May both be in use during the same statement? */
bool tn__cg_places_meet(const tn__cg_place *a, const tn__cg_place *b);
bool tn__cg_places_share(const tn__cg_place *a, const tn__cg_place *b);
const tn__expr *tn__cg_bytes_of(tn__ir *ir, const tn__buffer *buffer);

#endif
