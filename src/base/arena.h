/* Region allocation for the compiler side: everything of one compilation, kernel or candidate is freed at once. */
#ifndef TENON_BASE_ARENA_H
#define TENON_BASE_ARENA_H

#include <stdint.h>

#include "base/escape.h"
#include "base/strbuf.h"

typedef struct tn__arena_block tn__arena_block;
typedef struct tn__arena_deferred tn__arena_deferred;

/* How much work a compilation has been, and how much it may be. Work is counted in steps: an expression that is made or
 * looked at, a node that a pass visits, an instruction for LLVM, some bytes of memory. The number depends on the input
 * and the options alone, so tests hold it against the input's size, where seconds would tell nothing. Several arenas,
 * of several threads, may report to one. */
typedef struct tn__work {
  _Atomic uint64_t steps, most;  /* most 0: any number */
  const char *of;                /* what is worked on, for the message: "a model of 120 bytes" */
  bool (*cancelled)(void *user); /* asked when steps are reported, by any thread: true ends the work; may be NULL */
  void *user;
} tn__work;

typedef struct tn__arena {
  const tn_allocator *allocator; /* NULL: malloc */
  tn__escape *escape;            /* where out-of-memory is thrown to; must be set while the arena is allocated from */
  tn__arena_block *blocks;
  tn__arena_deferred *deferred;
  size_t bytes; /* handed out so far, for statistics */
  uint64_t steps, reported;
  tn__work *work; /* what steps are reported to; NULL: they are only counted */
} tn__arena;

void tn__arena_init(tn__arena *arena, const tn_allocator *allocator, tn__escape *escape);
/* Runs the deferred calls, last first, and frees every block. The arena may be used again afterwards. */
void tn__arena_release(tn__arena *arena);
/* Calls `fn(object)` when the arena is released. */
void tn__arena_defer(tn__arena *arena, void (*fn)(void *object), void *object);

/* Memory of `size` bytes aligned to 16, zeroed. Never NULL: throws TN_OUT_OF_MEMORY. `size` 0 gives a unique
 * pointer. */
TN_NEVER_NULL void *tn__arena_alloc(tn__arena *arena, size_t size);
/* The same for `count` elements, checked for overflow. */
TN_NEVER_NULL void *tn__arena_alloc_array(tn__arena *arena, size_t count, size_t size);
TN_NEVER_NULL void *tn__arena_copy(tn__arena *arena, const void *data, size_t size);
TN_NEVER_NULL char *tn__arena_strdup(tn__arena *arena, const char *text);
TN_NEVER_NULL char *tn__arena_strndup(tn__arena *arena, const char *text, size_t length);
/* The text that a buffer holds. The buffer is released, also when it failed or memory runs out, which is thrown. */
TN_NEVER_NULL const char *tn__arena_take(tn__arena *arena, tn__strbuf *text);
TN_NEVER_NULL char *tn__arena_printf(tn__arena *arena, const char *format, ...) TN_PRINTF(2, 3);

/* Allows so many steps more, for something that the input asks for without having the bytes for it. */
void tn__arena_allow(tn__arena *arena, uint64_t steps);
/* Reports the steps: TN_UNSUPPORTED is thrown when they are too many, TN_CANCELLED when nobody wants the work. */
void tn__arena_report(tn__arena *arena);
/* Adds to the steps, and reports them now and then. */
static inline void tn__work_step(tn__arena *arena, uint64_t count) {
  enum { STEPS_APART = 1 << 14 };
  arena->steps += count;
  if (arena->steps - arena->reported >= STEPS_APART) tn__arena_report(arena);
}

#define TN__NEW(arena, type) ((type *)tn__arena_alloc((arena), sizeof(type)))
#define TN__NEW_ARRAY(arena, count, type) ((type *)tn__arena_alloc_array((arena), (size_t)(count), sizeof(type)))

/* Runs `body` with an arena of its own, released afterwards whatever happens; what it throws is the result. */
TN_MUST_USE tn_status *tn__with_arena(const tn_allocator *allocator, void (*body)(tn__arena *arena, void *user),
                                      void *user);

/* A growing array in an arena. TN__VEC(T) declares the type; push copies the old elements when it grows (doubling), so
 * pointers into `data` do not survive a push. Zero-initialise. */
#define TN__VEC(type) \
  struct {            \
    type *data;       \
    int count;        \
    int capacity;     \
  }
#define tn__vec_push(arena, vec, value)                                                                       \
  do {                                                                                                        \
    if ((vec)->count == (vec)->capacity)                                                                      \
      (vec)->data = tn__vec_grow((arena), (vec)->data, (vec)->count, &(vec)->capacity, sizeof(*(vec)->data)); \
    (vec)->data[(vec)->count++] = (value);                                                                    \
  } while (0)
TN_NEVER_NULL void *tn__vec_grow(tn__arena *arena, void *data, int count, int *capacity, size_t element_size);

#endif
