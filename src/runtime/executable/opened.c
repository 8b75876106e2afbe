#include "runtime/executable/opened.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/tensor.h"

/* `mutex` guards the rest, and all devices' memory. */
struct tn__opened_shared {
  pthread_mutex_t mutex;
  tn__opened *current; /* for sessions to come; NULL: none are open */
  size_t keepers;      /* the owner, and tensors */
};

enum { MOST_SPARE = 256 << 20 /* where a device does not tell how much memory it has, or it is the host's */ };

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Whether the limit allows it; *before: what there was. What is refused never counts: others may ask meanwhile. */
TN_MUST_USE static bool count(tn__opened_limit *limit, size_t bytes, uint64_t *before) {
  *before = atomic_load(&limit->used);
  do {
    if (*before > limit->most || bytes > limit->most - *before) return false;
  } while (!atomic_compare_exchange_weak(&limit->used, before, *before + bytes));
  return true;
}

tn_status *tn__opened_allocate(const tn_executable *exe, uint32_t number, tn__device *device, size_t bytes,
                               void **out) {
  tn__opened_limit *limit = exe->limits == NULL || exe->limits[number].most == 0 ? NULL : &exe->limits[number];
  uint64_t before;
  if (limit != NULL && !count(limit, bytes, &before))
    return tn_status_create(TN_OUT_OF_MEMORY,
                            "out of memory: the program may have %llu bytes of %s:%d%s (tn_load_options.memory), has "
                            "%llu and asks for %zu more",
                            (unsigned long long)limit->most, device->driver->name, (int)device->id,
                            tn__memory_scope_behind(device->scope), (unsigned long long)before, bytes);
  tn_status *status = device->driver->allocate(device, bytes, out);
  if (status != NULL && limit != NULL) atomic_fetch_sub(&limit->used, bytes);
  return status;
}

void tn__opened_free(const tn_executable *exe, uint32_t number, tn__device *device, void *memory, size_t bytes) {
  device->driver->free(device, memory, bytes);
  if (exe->limits != NULL && exe->limits[number].most > 0) atomic_fetch_sub(&exe->limits[number].used, bytes);
}

static tn_status *allocate(const tn__opened *devices, tn__opened_device *d, size_t bytes, void **out) {
  return tn__opened_allocate(devices->exe, d->number, &d->device, bytes, out);
}

static void give_to_device(const tn__opened *devices, tn__opened_device *d, void *memory, size_t bytes) {
  tn__opened_free(devices->exe, d->number, &d->device, memory, bytes);
}

static void release_spares(const tn__opened *devices, tn__opened_device *d) {
  tn__opened_memory *m = &d->memory;
  while (m->spare_count > 0) {
    const tn__opened_spare *s = &m->spares[--m->spare_count];
    give_to_device(devices, d, s->memory, s->bytes);
    m->spare -= s->bytes;
  }
}

/* The smallest that is large enough, when less than half of it would be for nothing. */
TN_MUST_USE static bool take_spare(tn__opened_memory *m, size_t *bytes, size_t most, void **out) {
  uint32_t best = m->spare_count;
  for (uint32_t i = 0; i < m->spare_count; i++) {
    size_t has = m->spares[i].bytes;
    if (has < *bytes || has > most || has / 2 > *bytes) continue;
    if (best == m->spare_count || has < m->spares[best].bytes) best = i;
  }
  if (best == m->spare_count) return false;
  *out = m->spares[best].memory;
  *bytes = m->spares[best].bytes;
  m->spare -= *bytes;
  m->spares[best] = m->spares[--m->spare_count];
  return true;
}

/* The lock is held. */
static tn_status *take_memory(const tn__opened *devices, tn__opened_device *d, size_t *bytes, size_t most, void **out) {
  const tn_executable *exe = devices->exe;
  if (exe->limits != NULL && exe->limits[d->number].most > 0) most = *bytes;
  if (take_spare(&d->memory, bytes, most, out)) return NULL;
  tn_status *status = allocate(devices, d, *bytes, out);
  if (tn_status_code_of(status) != TN_OUT_OF_MEMORY || d->memory.spare_count == 0) return status;
  tn_status_free(status);
  release_spares(devices, d);
  return allocate(devices, d, *bytes, out);
}

tn_status *tn__opened_memory_take(tn__opened *devices, tn__opened_device *device, size_t *bytes, size_t most,
                                  void **out) {
  pthread_mutex_lock(&devices->exe->shared->mutex);
  tn_status *status = take_memory(devices, device, bytes, most, out);
  pthread_mutex_unlock(&devices->exe->shared->mutex);
  if (status != NULL) tn__opened_failed(devices, status);
  return status;
}

void tn__opened_memory_give_back(tn__opened *devices, tn__opened_device *device, void *memory, size_t bytes) {
  tn__opened_memory *m = &device->memory;
  if (memory == NULL) return;
  pthread_mutex_lock(&devices->exe->shared->mutex);
  bool keeps = m->spare_count < sizeof m->spares / sizeof m->spares[0] && bytes <= m->most_spare - m->spare;
  if (keeps) {
    m->spares[m->spare_count++] = (tn__opened_spare){memory, bytes};
    m->spare += bytes;
  } else {
    give_to_device(devices, device, memory, bytes);
  }
  pthread_mutex_unlock(&devices->exe->shared->mutex);
}

/* ---- callers' memory --------------------------------------------------------------------------------------------- */

tn_status *tn__opened_tensor_take(tn__opened *devices, tn__opened_device *device, size_t bytes,
                                  tn__opened_tensor *tensor) {
  tensor->bytes = bytes;
  TN_RETURN_IF_ERROR(tn__opened_memory_take(devices, device, &tensor->bytes, SIZE_MAX, &tensor->memory));
  pthread_mutex_lock(&devices->exe->shared->mutex);
  tensor->next = device->tensors;
  device->tensors = tensor;
  pthread_mutex_unlock(&devices->exe->shared->mutex);
  return NULL;
}

void tn__opened_tensor_give_back(tn__opened *devices, tn__opened_device *device, tn__opened_tensor *tensor) {
  tn__opened_tensor **at = &device->tensors;
  pthread_mutex_lock(&devices->exe->shared->mutex);
  while (*at != tensor) at = &(*at)->next;
  *at = tensor->next;
  pthread_mutex_unlock(&devices->exe->shared->mutex);
  tn__opened_memory_give_back(devices, device, tensor->memory, tensor->bytes);
}

/* How much of a range of bytes lies in the device's memory. */
typedef enum presence { PRESENCE_NONE, PRESENCE_PART, PRESENCE_WHOLE, PRESENCE_UNKNOWN } presence;

/* Searches the tensors of callers, which is the only known memory for drivers that do not track allocations. */
static presence in_tensors(const tn__opened *devices, const tn__opened_device *device, const void *address,
                           size_t bytes) {
  presence found = PRESENCE_NONE;
  pthread_mutex_lock(&devices->exe->shared->mutex);
  for (const tn__opened_tensor *t = device->tensors; t != NULL && found == PRESENCE_NONE; t = t->next) {
    uintptr_t at = (uintptr_t)address - (uintptr_t)t->memory;
    if (at < t->bytes) found = bytes <= t->bytes - at ? PRESENCE_WHOLE : PRESENCE_PART;
  }
  pthread_mutex_unlock(&devices->exe->shared->mutex);
  return found;
}

static presence find_there(const tn__opened *devices, const tn__opened_device *device, const void *address,
                           size_t bytes) {
  const tn__device *d = &device->device;
  presence found = in_tensors(devices, device, address, bytes);
  if (found != PRESENCE_NONE) return found;
  if (d->driver->holds == NULL) return PRESENCE_UNKNOWN;
  if (d->driver->holds(d, address, bytes)) return PRESENCE_WHOLE;
  return d->driver->holds(d, address, 1) ? PRESENCE_PART : PRESENCE_NONE;
}

tn_status *tn__opened_check_held(const tn__opened *devices, const tn__opened_device *device, const char *what,
                                 const void *address, size_t bytes) {
  const tn__device *d = &device->device;
  const DLDevice there = {d->driver->type, d->id};
  char text[48];
  const presence found = bytes == 0 ? PRESENCE_WHOLE : find_there(devices, device, address, bytes);
  if (found == PRESENCE_PART)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "%s: the tensor has %zu bytes on %s, and the memory that it begins in ends before: make it "
                            "as large as its shape says",
                            what, bytes, tn__rt_device_text(there, text));
  if (found != PRESENCE_NONE) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "%s: the tensor says that it is on %s, but its memory is not that of this executable there: "
                          "make it with tn_device_tensor_create(), in Python Model.device_array(), of the executable "
                          "that it is for",
                          what, tn__rt_device_text(there, text));
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* How much of the memory is kept for later. */
static void set_most_spare(tn__opened_device *d) {
  tn__device_limits limits;
  d->device.driver->limits(&d->device, &limits);
  const size_t quarter = limits.memory_bytes / 4;
  const bool few = limits.memory_bytes == 0 || (limits.nature.shares_memory && quarter > MOST_SPARE);
  d->memory.most_spare = few ? MOST_SPARE : quarter;
  if (d->device.driver->takes_turns) d->memory.most_spare = 0;
}

/* Where it is another library that is missing, drivers do not say for which device: the program does. */
static tn_status *tell_device(tn_status *status, DLDevice device) {
  char name[48];
  snprintf(name, sizeof name, "%s:%d", tn__rt_device_name(device.device_type), (int)device.device_id);
  return strstr(tn_status_message(status), name) != NULL ? status
                                                         : tn_status_prefix(status, "the executable is for %s", name);
}

static tn_status *open_device(tn__opened *devices, uint32_t number) {
  const tn_executable *exe = devices->exe;
  tn__opened_device *d = &devices->list[number];
  const tn__device_driver *driver = exe->drivers[number];
  while (d->number < number && (exe->drivers[d->number] != driver || exe->scopes[d->number] != exe->scopes[number] ||
                                !tn__load_same_device(exe->devices[d->number], exe->devices[number])))
    d->number++;
  if (driver->inline_host || d->number < number) return NULL;
  if (exe->scopes[number] != TN__MEMORY_GLOBAL) {
    d->device = tn__opened_at(devices, exe->homes[number])->device;
    d->device.scope = exe->scopes[number];
    d->is_memory = true;
    set_most_spare(d);
    return NULL;
  }
  d->device = (tn__device){.driver = driver, .allocator = exe->region.allocator, .id = exe->devices[number].device_id};
  d->device.turn = &devices->turn;
  d->device.log = &exe->log;
  tn_status *status = driver->open(&d->device);
  if (status != NULL) {
    d->device.driver = NULL; /* nothing to close */
    return tell_device(status, exe->devices[number]);
  }
  devices->takes_turns = devices->takes_turns || driver->takes_turns;
  set_most_spare(d);
  return NULL;
}

static tn_status *load_code(tn__opened *devices, uint32_t number) {
  const tn_executable *exe = devices->exe;
  tn__opened_device *d = tn__opened_at(devices, number);
  const tn__bytes *source = &exe->sources[number];
  if (d == NULL) return NULL;
  devices->list[number].code = exe->code; /* native, and the executable's */
  if (source->size == 0) return NULL;
  devices->list[number].code = (tn__device_code){0};
  return d->device.driver->load_code(&d->device, source->data, source->size, false, &devices->list[number].code);
}

/* Of no bytes, and such that are no multiple, are copied. */
static tn_status *lend(tn__opened_device *d, const tn__constant_entry *c, void **out) {
  *out = NULL;
  if (d->device.driver->borrow == NULL || c->size == 0 || (uintptr_t)c->data % TN_KERNEL_ALIGNMENT != 0) return NULL;
  return d->device.driver->borrow(&d->device, c->data, c->size, out);
}

static bool is_same(const tn__constant_entry *a, const tn__constant_entry *b) {
  return a->size == b->size && (a->data == b->data || memcmp(a->data, b->data, a->size) == 0);
}

/* A program has a constant once for each of its devices: those that are one by a map have it once. NULL: it is not
 * there. */
static const tn__opened_constant *find_constant(const tn__opened *devices, uint32_t number) {
  const tn__constant_entry *c = devices->exe->constants;
  for (uint32_t i = 0; i < number; i++) {
    const tn__opened_constant *there = &devices->constants[i];
    if (c[i].device != c[number].device && !there->is_anothers &&
        devices->list[c[i].device].number == devices->list[c[number].device].number && is_same(&c[i], &c[number]))
      return there;
  }
  return NULL;
}

static tn_status *upload(tn__opened *devices, uint32_t number, tn__stream *stream) {
  const tn__constant_entry *c = &devices->exe->constants[number];
  tn__opened_device *d = tn__opened_at(devices, c->device);
  tn__opened_constant *there = &devices->constants[number];
  const tn__opened_constant *same = find_constant(devices, number);
  size_t bytes = c->size > 0 ? c->size : 1;
  if (same != NULL) {
    *there = (tn__opened_constant){.memory = same->memory, .is_anothers = true};
    return NULL;
  }
  TN_RETURN_IF_ERROR(lend(d, c, &there->memory));
  if (there->memory != NULL) return NULL;
  TN_RETURN_IF_ERROR(take_memory(devices, d, &bytes, bytes, &there->memory));
  there->bytes = bytes;
  return d->device.driver->copy(stream, TN__COPY_IN, there->memory, c->data, c->size);
}

static tn_status *upload_all(tn__opened *devices, uint32_t number) {
  const tn_executable *exe = devices->exe;
  tn__opened_device *d = &devices->list[number];
  tn__stream stream = {.device = &d->device, .allocator = exe->region.allocator};
  uint32_t first = 0;
  if (d->device.driver == NULL) return NULL;
  while (first < exe->constant_count && devices->list[exe->constants[first].device].number != number) first++;
  if (first == exe->constant_count) return NULL;
  /* cppcheck-suppress returnDanglingLifetime ; a status keeps no pointer into the stream */
  TN_RETURN_IF_ERROR(d->device.driver->open_stream(&stream));
  tn_status *status = NULL;
  for (uint32_t i = first; i < exe->constant_count && status == NULL; i++)
    if (devices->list[exe->constants[i].device].number == number) status = upload(devices, i, &stream);
  d->device.driver->close_stream(&stream);
  return status;
}

static tn_status *open_all(tn__opened *devices) {
  const tn_executable *exe = devices->exe;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(exe->region.allocator, exe->device_count, sizeof(tn__opened_device), 0, &memory));
  devices->list = memory;
  TN_RETURN_IF_ERROR(tn__alloc(exe->region.allocator, exe->constant_count, sizeof(tn__opened_constant), 0, &memory));
  devices->constants = memory;
  for (uint32_t i = 0; i < exe->device_count; i++) {
    TN_RETURN_IF_ERROR(open_device(devices, i));
    TN_RETURN_IF_ERROR(load_code(devices, i));
  }
  for (uint32_t i = 0; i < exe->device_count; i++) TN_RETURN_IF_ERROR(upload_all(devices, i));
  return NULL;
}

/* Also of what is open in part; nobody has a stream or memory of it. */
static void close_all(tn__opened *devices) {
  const tn_executable *exe = devices->exe;
  const tn_allocator *allocator = exe->region.allocator;
  for (uint32_t i = 0; devices->constants != NULL && i < exe->constant_count; i++) {
    const tn__opened_constant *c = &devices->constants[i];
    if (c->memory == NULL || c->is_anothers) continue;
    tn__opened_device *d = tn__opened_at(devices, exe->constants[i].device);
    if (c->bytes > 0)
      give_to_device(devices, d, c->memory, c->bytes);
    else
      d->device.driver->free(&d->device, c->memory, exe->constants[i].size);
  }
  for (uint32_t i = 0; devices->list != NULL && i < exe->device_count; i++) {
    tn__opened_device *d = tn__opened_at(devices, i);
    if (d != NULL && exe->sources[i].size > 0) d->device.driver->unload_code(&d->device, &devices->list[i].code);
  }
  for (int closes = 0; closes < 2; closes++) /* when nothing of any memory is left */
    for (uint32_t i = 0; devices->list != NULL && i < exe->device_count; i++) {
      tn__opened_device *d = &devices->list[i];
      if (d->device.driver == NULL) continue;
      if (!closes) release_spares(devices, d);
      if (closes && !d->is_memory) d->device.driver->close(&d->device);
    }
  tn__free(allocator, devices->constants, exe->constant_count * sizeof(tn__opened_constant), 0);
  tn__free(allocator, devices->list, exe->device_count * sizeof(tn__opened_device), 0);
  pthread_mutex_destroy(&devices->turn);
  tn__free(allocator, devices, sizeof *devices, 0);
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */

/* The lock is held. */
static tn_status *take(const tn_executable *exe, tn__opened **out) {
  tn__opened **current = &exe->shared->current;
  /* Whoever is the last to use what failed closes it. */
  if (*current != NULL && (*current)->users > 0 && atomic_load(&(*current)->failed)) *current = NULL;
  if (*current == NULL) {
    void *memory;
    TN_RETURN_IF_ERROR(tn__alloc(exe->region.allocator, 1, sizeof(tn__opened), 0, &memory));
    tn__opened *fresh = memory;
    fresh->exe = exe;
    pthread_mutex_init(&fresh->turn, NULL);
    tn_status *status = open_all(fresh);
    if (status != NULL) {
      close_all(fresh);
      return status;
    }
    *current = fresh;
  }
  (*current)->users++;
  *out = *current;
  return NULL;
}

tn_status *tn__opened_take(const tn_executable *exe, tn__opened **out) {
  *out = NULL;
  pthread_mutex_lock(&exe->shared->mutex);
  tn_status *status = take(exe, out);
  pthread_mutex_unlock(&exe->shared->mutex);
  return status;
}

void tn__opened_give_back(tn__opened *devices) {
  tn__opened_shared *shared = devices->exe->shared;
  pthread_mutex_lock(&shared->mutex);
  devices->users--;
  bool over = devices->users == 0 && (devices != shared->current || atomic_load(&devices->failed));
  if (over && devices == shared->current) shared->current = NULL;
  if (over) close_all(devices);
  pthread_mutex_unlock(&shared->mutex);
}

/* What was asked for too much of, or was wrong, says nothing about the device. */
void tn__opened_failed(tn__opened *devices, const tn_status *status) {
  tn_status_code code = tn_status_code_of(status);
  if (code != TN_OUT_OF_MEMORY && code != TN_UNSUPPORTED && code != TN_INVALID_ARGUMENT)
    atomic_store(&devices->failed, true);
}

tn_status *tn__opened_shared_create(tn_executable *exe) {
  TN_RETURN_IF_ERROR(tn__region_alloc(&exe->region, 1, sizeof(tn__opened_shared), &exe->shared));
  pthread_mutex_init(&exe->shared->mutex, NULL);
  exe->shared->keepers = 1;
  return NULL;
}

void tn__opened_keep(const tn_executable *exe) {
  pthread_mutex_lock(&exe->shared->mutex);
  exe->shared->keepers++;
  pthread_mutex_unlock(&exe->shared->mutex);
}

bool tn__opened_leave(const tn_executable *exe) {
  pthread_mutex_lock(&exe->shared->mutex);
  bool last = --exe->shared->keepers == 0;
  pthread_mutex_unlock(&exe->shared->mutex);
  return last;
}

void tn__opened_shared_release(const tn_executable *exe) {
  if (exe->shared == NULL) return;
  if (exe->shared->current != NULL) close_all(exe->shared->current);
  pthread_mutex_destroy(&exe->shared->mutex);
}
