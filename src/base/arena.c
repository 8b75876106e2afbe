#include "base/arena.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ARENA_ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20, BYTES_PER_STEP = 256 };

struct tn__arena_block {
  tn__arena_block *next;
  size_t size;   /* of the whole allocation */
  size_t used;   /* header included */
  size_t unused; /* keeps the header a multiple of the alignment */
};

struct tn__arena_deferred {
  tn__arena_deferred *next;
  void (*fn)(void *object);
  void *object;
};

_Static_assert(sizeof(tn__arena_block) % ARENA_ALIGN == 0, "the first allocation of a block must be aligned");

void tn__arena_init(tn__arena *arena, const tn_allocator *allocator, tn__escape *escape) {
  *arena = (tn__arena){.allocator = allocator, .escape = escape};
}

static uint64_t add_steps(tn__arena *arena) {
  uint64_t fresh = arena->steps - arena->reported;
  arena->reported = arena->steps;
  return arena->work == NULL ? 0 : atomic_fetch_add_explicit(&arena->work->steps, fresh, memory_order_relaxed) + fresh;
}

void tn__arena_allow(tn__arena *arena, uint64_t steps) {
  if (arena->work != NULL && atomic_load(&arena->work->most) != 0) atomic_fetch_add(&arena->work->most, steps);
}

void tn__arena_report(tn__arena *arena) {
  uint64_t all = add_steps(arena), most = arena->work == NULL ? 0 : atomic_load(&arena->work->most);
  if (arena->work != NULL && arena->work->cancelled != NULL && arena->work->cancelled(arena->work->user))
    tn__throwf(arena->escape, TN_CANCELLED, "the compilation was cancelled");
  if (most == 0 || all <= most) return;
  tn__throwf(arena->escape, TN_UNSUPPORTED,
             "compiling %s would take more than %llu steps of work, the most for that size: its sizes or values "
             "depend on each other in too many ways",
             arena->work->of == NULL ? "this" : arena->work->of, (unsigned long long)most);
}

void tn__arena_release(tn__arena *arena) {
  add_steps(arena);
  /* The records live in the blocks, so every call comes before the first block goes. */
  for (tn__arena_deferred *d = arena->deferred; d != NULL; d = d->next) d->fn(d->object);
  arena->deferred = NULL;
  while (arena->blocks != NULL) {
    tn__arena_block *block = arena->blocks;
    arena->blocks = block->next;
    tn__free(arena->allocator, block, block->size, ARENA_ALIGN);
  }
  arena->bytes = 0;
}

void tn__arena_defer(tn__arena *arena, void (*fn)(void *object), void *object) {
  tn__arena_deferred *d = TN__NEW(arena, tn__arena_deferred);
  d->fn = fn;
  d->object = object;
  d->next = arena->deferred;
  arena->deferred = d;
}

static _Noreturn void throw_no_memory(tn__arena *arena, size_t size) {
  tn__throwf(arena->escape, TN_OUT_OF_MEMORY, "out of memory: the compiler asked for %zu bytes after %zu", size,
             arena->bytes);
}

/* A block with room for `size` bytes in front of the list, or behind its head when the head has more room left. */
static tn__arena_block *add_block(tn__arena *arena, size_t size) {
  tn__arena_block *head = arena->blocks;
  size_t block_size = head == NULL ? FIRST_BLOCK : head->size * 2;
  if (block_size > LARGEST_BLOCK) block_size = LARGEST_BLOCK;
  bool own_block = size > block_size / 4;
  if (own_block) block_size = size + sizeof(tn__arena_block);
  tn__arena_block *block = tn__alloc_zeroed(arena->allocator, block_size, ARENA_ALIGN);
  if (block == NULL) throw_no_memory(arena, block_size);
  *block = (tn__arena_block){.size = block_size, .used = sizeof(tn__arena_block)};
  if (own_block && head != NULL) {
    block->next = head->next;
    head->next = block;
  } else {
    block->next = head;
    arena->blocks = block;
  }
  return block;
}

void *tn__arena_alloc(tn__arena *arena, size_t size) {
  if (size > SIZE_MAX / 2) throw_no_memory(arena, size);
  if (size == 0) size = 1;
  size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
  /* Large pieces are numbers of tensors, which have budgets of their own. */
  tn__work_step(arena, 1 + (rounded < LARGEST_BLOCK ? rounded : LARGEST_BLOCK) / BYTES_PER_STEP);
  tn__arena_block *block = arena->blocks;
  if (block == NULL || block->size - block->used < rounded) block = add_block(arena, rounded);
  void *pointer = (char *)block + block->used;
  block->used += rounded;
  arena->bytes += rounded;
  return pointer; /* zeroed with its block */
}

void *tn__arena_alloc_array(tn__arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) throw_no_memory(arena, SIZE_MAX);
  return tn__arena_alloc(arena, bytes);
}

void *tn__arena_copy(tn__arena *arena, const void *data, size_t size) {
  void *copy = tn__arena_alloc(arena, size);
  if (size != 0) memcpy(copy, data, size);
  return copy;
}

char *tn__arena_strndup(tn__arena *arena, const char *text, size_t length) {
  length = strnlen(text, length);
  char *copy = tn__arena_alloc_array(arena, length + 1, 1);
  memcpy(copy, text, length);
  return copy;
}

char *tn__arena_strdup(tn__arena *arena, const char *text) { return tn__arena_copy(arena, text, strlen(text) + 1); }

typedef struct taking {
  tn__arena *arena;
  const tn__strbuf *text;
  const char *copy;
} taking;

static void take(tn__escape *escape, void *arg) {
  taking *t = arg;
  t->arena->escape = escape;
  tn__check(escape, tn__strbuf_status(t->text));
  t->copy = tn__arena_strdup(t->arena, tn__strbuf_text(t->text));
}

const char *tn__arena_take(tn__arena *arena, tn__strbuf *text) {
  tn__escape *outer = arena->escape, inner; /* the buffer is not the arena's: what is thrown must pass by here */
  taking t = {arena, text, NULL};
  tn_status *status = tn__protect(&inner, take, &t);
  arena->escape = outer;
  tn__strbuf_release(text);
  tn__check(outer, status);
  return t.copy;
}

char *tn__arena_printf(tn__arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) tn__throwf(arena->escape, TN_INTERNAL, "the text \"%s\" cannot be formatted", format);
  char *text = tn__arena_alloc(arena, (size_t)length + 1);
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

void *tn__vec_grow(tn__arena *arena, void *data, int count, int *capacity, size_t element_size) {
  enum { FIRST_CAPACITY = 8, LARGEST_CAPACITY = 1 << 30 };
  if (*capacity >= LARGEST_CAPACITY) throw_no_memory(arena, SIZE_MAX);
  int grown = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
  void *fresh = tn__arena_alloc_array(arena, (size_t)grown, element_size);
  if (count > 0) memcpy(fresh, data, (size_t)count * element_size);
  *capacity = grown;
  return fresh;
}

typedef struct arena_call {
  tn__arena *arena;
  void (*body)(tn__arena *arena, void *user);
  void *user;
} arena_call;

static void call_with_arena(tn__escape *escape, void *arg) {
  arena_call *call = arg;
  call->arena->escape = escape;
  call->body(call->arena, call->user);
}

tn_status *tn__with_arena(const tn_allocator *allocator, void (*body)(tn__arena *arena, void *user), void *user) {
  tn__arena arena;
  tn__arena_init(&arena, allocator, NULL);
  arena_call call = {&arena, body, user};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, call_with_arena, &call);
  tn__arena_release(&arena);
  return status;
}
