#include "runtime/island/island.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/invariant.h"
#include "runtime/island/guard.h"

/* An allocation, in whole pages of the island. */
typedef struct block {
  size_t at, bytes;
  size_t asked; /* of them, the bytes that may be accessed */
} block;

typedef struct memory {
  char *pages; /* address space; NULL: nobody has wanted any of it so far */
  size_t bytes;
  block *blocks; /* in order of `at` */
  size_t count, capacity;
  size_t used;            /* the end of the last block */
  tn__island_guard guard; /* of islands that are checked */
} memory;

enum { MEMORIES = 2 };

typedef struct island {
  memory memories[MEMORIES]; /* global, texture */
  pthread_mutex_t own;       /* used if no turn is shared with other devices */
  pthread_mutex_t lists;     /* guards the lists of blocks, which are read while others have the turn */
} island;

static memory *memory_of(const tn__device *device) {
  island *i = device->state;
  return &i->memories[device->scope == TN__MEMORY_TEXTURE];
}

/* Guards an island's memories. */
static pthread_mutex_t *turn_of(const tn__device *device) {
  island *i = device->state;
  return device->turn != NULL ? device->turn : &i->own;
}

static bool is_checked(const tn__device *device) { return device->driver->takes_turns; }

static tn_status *refused(const tn__device *device, const char *what) {
  return tn_status_create(TN_INTERNAL, "island %d: the operating system refuses access to %s", (int)device->id, what);
}

/* `alone`: nothing but this thread works on the island. */
static tn_status *begin_turn(const tn__device *device, bool alone) {
  const island *i = device->state;
  int open = 0;
  if (!is_checked(device)) return NULL;
  pthread_mutex_lock(turn_of(device));
  while (open < MEMORIES && tn__island_guard_open(&i->memories[open].guard, i->memories[open].used, alone)) open++;
  if (open == MEMORIES) return NULL;
  while (open-- > 0) tn__island_guard_close(&i->memories[open].guard, i->memories[open].used, alone);
  pthread_mutex_unlock(turn_of(device));
  return refused(device, "its memory");
}

static void end_turn(const tn__device *device, bool alone) {
  const island *i = device->state;
  if (!is_checked(device)) return;
  for (int m = 0; m < MEMORIES; m++) tn__island_guard_close(&i->memories[m].guard, i->memories[m].used, alone);
  pthread_mutex_unlock(turn_of(device));
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static tn_status *map_memory(const tn__device *device, memory *m, size_t bytes) {
  int access = is_checked(device) ? PROT_NONE : PROT_READ | PROT_WRITE;
  void *pages = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of address space for island %d: it takes %zu bytes", (int)device->id,
                            bytes);
  *m = (memory){.pages = pages, .bytes = bytes};
  if (is_checked(device)) m->guard = tn__island_guard_begin(pages, bytes);
  return NULL;
}

static void unmap_memory(const tn__device *device, memory *m) {
  if (m->pages == NULL) return;
  munmap(m->pages, m->bytes);
  tn__island_guard_end(&m->guard);
  tn__free(device->allocator, m->blocks, m->capacity * sizeof(block), 0);
}

static tn_status *island_open(tn__device *device) {
  device->state = NULL;
  if (device->id < 0 || device->id >= TN__ISLAND_MOST)
    return tn_status_create(TN_NOT_FOUND, "there is no island with number %d: the numbers go from 0 to %d",
                            (int)device->id, TN__ISLAND_MOST - 1);
  void *state;
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, sizeof(island), 0, &state));
  tn_status *status = map_memory(device, &((island *)state)->memories[0], TN__ISLAND_BYTES);
  if (status != NULL) {
    tn__free(device->allocator, state, sizeof(island), 0);
    return status;
  }
  pthread_mutex_init(&((island *)state)->own, NULL);
  pthread_mutex_init(&((island *)state)->lists, NULL);
  device->state = state;
  return NULL;
}

static void island_close(tn__device *device) {
  island *i = device->state;
  for (int m = 0; m < MEMORIES; m++) unmap_memory(device, &i->memories[m]);
  pthread_mutex_destroy(&i->own);
  pthread_mutex_destroy(&i->lists);
  tn__free(device->allocator, i, sizeof(*i), 0);
  device->state = NULL;
}

static size_t page_bytes(void) {
  long page = sysconf(_SC_PAGESIZE);
  return page > 0 ? (size_t)page : 4096;
}

static void island_limits(const tn__device *device, tn__device_limits *out) {
  size_t bytes = device->scope == TN__MEMORY_TEXTURE ? TN__ISLAND_TEXTURE_BYTES : TN__ISLAND_BYTES;
  *out = (tn__device_limits){.alignment = TN_KERNEL_ALIGNMENT,
                             .most_bytes = bytes,
                             .memory_bytes = bytes,
                             .threads_of_block = 1,
                             .nature = {.is_cpu = true}};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void update_used(memory *m) {
  m->used = m->count == 0 ? 0 : m->blocks[m->count - 1].at + m->blocks[m->count - 1].bytes;
}

static tn_status *make_room(const tn__device *device, memory *m) {
  if (m->count < m->capacity) return NULL;
  size_t capacity = m->capacity > 0 ? 2 * m->capacity : 16;
  void *grown = tn__realloc(device->allocator, m->blocks, m->capacity * sizeof(block), capacity * sizeof(block), 0);
  if (grown == NULL)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu allocations of an island", capacity);
  m->blocks = grown;
  m->capacity = capacity;
  return NULL;
}

/* " of texture": which memory, where it is not the one that is meant anyway. */
static const char *of_scope(const tn__device *device) {
  return device->scope == TN__MEMORY_TEXTURE ? " of texture" : "";
}

/* The first gap that is large enough. Pages that are freed are given back to the system, so that what was there is
 * never read by accident. */
static tn_status *find_block(const tn__device *device, size_t bytes, void **out) {
  memory *m = memory_of(device);
  size_t page = page_bytes(), at = 0, place = 0;
  if (m->pages == NULL) TN_RETURN_IF_ERROR(map_memory(device, m, TN__ISLAND_TEXTURE_BYTES));
  if (bytes > m->bytes - page)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: island %d has %zu bytes%s, and %zu are asked for",
                            (int)device->id, m->bytes, of_scope(device), bytes);
  size_t whole = (bytes + page - 1) / page * page;
  TN_RETURN_IF_ERROR(make_room(device, m));
  while (place < m->count && m->blocks[place].at - at < whole)
    at = m->blocks[place].at + m->blocks[place].bytes, place++;
  if (m->bytes - at < whole)
    return tn_status_create(TN_OUT_OF_MEMORY,
                            "out of memory: island %d has %zu bytes%s, %zu of them in use, and %zu more are asked for",
                            (int)device->id, m->bytes, of_scope(device), m->used, bytes);
  memmove(m->blocks + place + 1, m->blocks + place, (m->count - place) * sizeof(block));
  m->blocks[place] = (block){at, whole, bytes};
  m->count++;
  update_used(m);
  *out = m->pages + at;
  return NULL;
}

static tn_status *island_allocate(tn__device *device, size_t bytes, void **out) {
  island *i = device->state;
  pthread_mutex_lock(turn_of(device));
  pthread_mutex_lock(&i->lists);
  tn_status *status = find_block(device, bytes, out);
  pthread_mutex_unlock(&i->lists);
  pthread_mutex_unlock(turn_of(device));
  return status;
}

static void island_free(tn__device *device, void *address, size_t bytes) {
  island *i = device->state;
  memory *m = memory_of(device);
  size_t n = 0;
  if (address == NULL) return;
  pthread_mutex_lock(turn_of(device));
  pthread_mutex_lock(&i->lists);
  while (n < m->count && m->pages + m->blocks[n].at != (char *)address) n++;
  TN__INVARIANT(n < m->count);
  (void)madvise(address, m->blocks[n].bytes, MADV_DONTNEED);
  memmove(m->blocks + n, m->blocks + n + 1, (m->count - n - 1) * sizeof(block));
  m->count--;
  update_used(m);
  pthread_mutex_unlock(&i->lists);
  pthread_mutex_unlock(turn_of(device));
}

tn__memory_scope tn__island_scope_of(const tn__device *device, const void *address) {
  static const tn__memory_scope scopes[MEMORIES] = {TN__MEMORY_GLOBAL, TN__MEMORY_TEXTURE};
  const island *i = device->state;
  for (int m = 0; m < MEMORIES; m++)
    if (i->memories[m].pages != NULL && (uintptr_t)address - (uintptr_t)i->memories[m].pages < i->memories[m].bytes)
      return scopes[m];
  return TN__MEMORY_SCOPES;
}

/* Returns whether all of the bytes lie in one allocation. */
static bool is_in_block(const memory *m, const void *address, size_t bytes) {
  size_t low = 0, high = m->count;
  uintptr_t at = (uintptr_t)address - (uintptr_t)m->pages;
  if (m->pages == NULL || at >= m->bytes) return false;
  while (low < high) { /* finds the first block after the address */
    size_t middle = low + (high - low) / 2;
    if (m->blocks[middle].at <= at)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return false;
  const block *b = &m->blocks[low - 1];
  return at - b->at <= b->asked && bytes <= b->asked - (at - b->at);
}

static bool island_holds(const tn__device *device, const void *address, size_t bytes) {
  island *i = device->state;
  bool holds = false;
  pthread_mutex_lock(&i->lists);
  for (int m = 0; m < MEMORIES; m++) holds |= is_in_block(&i->memories[m], address, bytes);
  pthread_mutex_unlock(&i->lists);
  return holds;
}

static void *island_view(const tn__device *device, void *address, size_t offset) { return (char *)address + offset; }

static tn_status *island_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  if (bytes == 0) return NULL;
  TN_RETURN_IF_ERROR(begin_turn(stream->device, true));
  memmove(to, from, bytes);
  end_turn(stream->device, true);
  return NULL;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static tn_status *island_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                   tn__device_code *out) {
  return tn__device_cpu.load_code(device, bytes, size, in_place, out);
}

static void island_unload_code(tn__device *device, tn__device_code *code) { tn__device_cpu.unload_code(device, code); }

/* The result of a kernel that failed is kept in `state`, as the CPU does. */
static tn_status *island_open_stream(tn__stream *stream) {
  stream->state = NULL;
  return NULL;
}

static void island_close_stream(tn__stream *stream) {}

static tn_status *island_launch(tn__stream *stream, const tn__device_launch *launch) {
  if (stream->state != NULL) return NULL;
  const char *entry = (const char *)launch->code->base + launch->offset;
  tn_kernel kernel;
  memcpy(&kernel, &entry, sizeof(kernel)); /* as the CPU does */
  const bool alone = launch->env == NULL || launch->env->thread_count <= 1;
  TN_RETURN_IF_ERROR(begin_turn(stream->device, alone));
  stream->state = (void *)(intptr_t)kernel(launch->env, launch->buffers, launch->scalars);
  end_turn(stream->device, alone);
  return NULL;
}

static tn_status *island_wait(tn__stream *stream, int32_t *result) {
  *result = (int32_t)(intptr_t)stream->state;
  stream->state = NULL;
  return NULL;
}

#define FUNCTIONS                                                                                                    \
  .name = "island", .type = kDLExtDev, .scopes = 1u << TN__MEMORY_TEXTURE, .synchronous = true, .open = island_open, \
  .close = island_close, .limits = island_limits, .allocate = island_allocate, .free = island_free,                  \
  .view = island_view, .holds = island_holds, .load_code = island_load_code, .unload_code = island_unload_code,      \
  .open_stream = island_open_stream, .close_stream = island_close_stream, .copy = island_copy,                       \
  .launch = island_launch, .wait = island_wait

const tn__device_driver tn__device_island = {FUNCTIONS, .takes_turns = true};
const tn__device_driver tn__device_island_concurrent = {FUNCTIONS};
