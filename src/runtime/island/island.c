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
} block;

typedef struct island {
  char *memory;  /* TN__ISLAND_BYTES of address space */
  block *blocks; /* in order of `at` */
  size_t count, capacity;
  size_t used;            /* the end of the last block */
  tn__island_guard guard; /* of islands that are checked */
  pthread_mutex_t own;    /* where the device has no turn with others */
} island;

/* Guards an island's memory and its list of blocks. */
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
  if (!is_checked(device)) return NULL;
  pthread_mutex_lock(turn_of(device));
  if (tn__island_guard_open(&i->guard, i->used, alone)) return NULL;
  pthread_mutex_unlock(turn_of(device));
  return refused(device, "its memory");
}

static void end_turn(const tn__device *device, bool alone) {
  const island *i = device->state;
  if (!is_checked(device)) return;
  tn__island_guard_close(&i->guard, i->used, alone);
  pthread_mutex_unlock(turn_of(device));
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static tn_status *island_open(tn__device *device) {
  device->state = NULL;
  if (device->id < 0 || device->id >= TN__ISLAND_MOST)
    return tn_status_create(TN_NOT_FOUND, "there is no island with number %d: the numbers go from 0 to %d",
                            (int)device->id, TN__ISLAND_MOST - 1);
  void *state, *memory;
  TN_RETURN_IF_ERROR(tn__alloc(device->allocator, 1, sizeof(island), 0, &state));
  int access = is_checked(device) ? PROT_NONE : PROT_READ | PROT_WRITE;
  memory = mmap(NULL, TN__ISLAND_BYTES, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    tn__free(device->allocator, state, sizeof(island), 0);
    return tn_status_create(TN_OUT_OF_MEMORY, "out of address space for island %d: it takes %zu bytes", (int)device->id,
                            TN__ISLAND_BYTES);
  }
  *(island *)state = (island){.memory = memory};
  if (is_checked(device)) ((island *)state)->guard = tn__island_guard_begin(memory, TN__ISLAND_BYTES);
  pthread_mutex_init(&((island *)state)->own, NULL);
  device->state = state;
  return NULL;
}

static void island_close(tn__device *device) {
  island *i = device->state;
  munmap(i->memory, TN__ISLAND_BYTES);
  tn__island_guard_end(&i->guard);
  pthread_mutex_destroy(&i->own);
  tn__free(device->allocator, i->blocks, i->capacity * sizeof(block), 0);
  tn__free(device->allocator, i, sizeof(*i), 0);
  device->state = NULL;
}

static size_t page_bytes(void) {
  long page = sysconf(_SC_PAGESIZE);
  return page > 0 ? (size_t)page : 4096;
}

static void island_limits(const tn__device *device, tn__device_limits *out) {
  *out = (tn__device_limits){.alignment = TN_KERNEL_ALIGNMENT,
                             .most_bytes = TN__ISLAND_BYTES,
                             .memory_bytes = TN__ISLAND_BYTES,
                             .threads_of_block = 1,
                             .nature = {.is_cpu = true}};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void update_used(island *i) {
  i->used = i->count == 0 ? 0 : i->blocks[i->count - 1].at + i->blocks[i->count - 1].bytes;
}

static tn_status *make_room(const tn__device *device, island *i) {
  if (i->count < i->capacity) return NULL;
  size_t capacity = i->capacity > 0 ? 2 * i->capacity : 16;
  void *grown = tn__realloc(device->allocator, i->blocks, i->capacity * sizeof(block), capacity * sizeof(block), 0);
  if (grown == NULL)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu allocations of an island", capacity);
  i->blocks = grown;
  i->capacity = capacity;
  return NULL;
}

/* The first gap that is large enough. Pages that are freed are given back to the system, so that what was there is
 * never read by accident. */
static tn_status *find_block(const tn__device *device, size_t bytes, void **out) {
  island *i = device->state;
  size_t page = page_bytes(), at = 0, place = 0;
  if (bytes > TN__ISLAND_BYTES - page)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: island %d has %zu bytes, and %zu are asked for",
                            (int)device->id, TN__ISLAND_BYTES, bytes);
  size_t whole = (bytes + page - 1) / page * page;
  TN_RETURN_IF_ERROR(make_room(device, i));
  while (place < i->count && i->blocks[place].at - at < whole)
    at = i->blocks[place].at + i->blocks[place].bytes, place++;
  if (TN__ISLAND_BYTES - at < whole)
    return tn_status_create(TN_OUT_OF_MEMORY,
                            "out of memory: island %d has %zu bytes, %zu of them in use, and %zu more are asked for",
                            (int)device->id, TN__ISLAND_BYTES, i->used, bytes);
  memmove(i->blocks + place + 1, i->blocks + place, (i->count - place) * sizeof(block));
  i->blocks[place] = (block){at, whole};
  i->count++;
  update_used(i);
  *out = i->memory + at;
  return NULL;
}

static tn_status *island_allocate(tn__device *device, size_t bytes, void **out) {
  pthread_mutex_lock(turn_of(device));
  tn_status *status = find_block(device, bytes, out);
  pthread_mutex_unlock(turn_of(device));
  return status;
}

static void island_free(tn__device *device, void *memory, size_t bytes) {
  island *i = device->state;
  size_t n = 0;
  if (memory == NULL) return;
  pthread_mutex_lock(turn_of(device));
  while (n < i->count && i->memory + i->blocks[n].at != (char *)memory) n++;
  TN__INVARIANT(n < i->count);
  (void)madvise(memory, i->blocks[n].bytes, MADV_DONTNEED);
  memmove(i->blocks + n, i->blocks + n + 1, (i->count - n - 1) * sizeof(block));
  i->count--;
  update_used(i);
  pthread_mutex_unlock(turn_of(device));
}

static void *island_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

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

#define FUNCTIONS                                                                                       \
  .name = "island", .type = kDLExtDev, .synchronous = true, .open = island_open, .close = island_close, \
  .limits = island_limits, .allocate = island_allocate, .free = island_free, .view = island_view,       \
  .load_code = island_load_code, .unload_code = island_unload_code, .open_stream = island_open_stream,  \
  .close_stream = island_close_stream, .copy = island_copy, .launch = island_launch, .wait = island_wait

const tn__device_driver tn__device_island = {FUNCTIONS, .takes_turns = true};
const tn__device_driver tn__device_island_concurrent = {FUNCTIONS};
