/* What stands behind the handles of <tenon/te.h>. */
#ifndef TENON_COMPILE_TE_HANDLE_H
#define TENON_COMPILE_TE_HANDLE_H

#include "schedule/schedule.h"
#include "te/text.h"
#include "tenon/te.h"

struct tn_te {
  tn_allocator allocator_copy;
  const tn_allocator *allocator;
  tn__arena arena;
  tn__ir *ir;
  tn__te *te;
  bool finished;
  tn_status *refusal; /* the first, while it is being built */
};

struct tn_schedule {
  tn_allocator allocator_copy;
  const tn_allocator *allocator;
  tn__arena arena;
  tn__target target;
  tn__ir *ir;
  tn__te *te; /* its own */
  tn__schedule *schedule;
};

/* Runs `body` with the arena's escape set; what it throws is the result. */
TN_MUST_USE tn_status *tn__in_arena(tn__arena *arena, void (*body)(void *user), void *user);
/* Text that the caller frees with free(); takes what the buffer holds. */
TN_MUST_USE tn_status *tn__text_out(tn__strbuf *text, char **out, size_t *size);

#endif
