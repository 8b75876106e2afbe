/* What a session has of its executable's devices: limits of memory and blocks within them, streams, queues. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/vm/queued.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static size_t room_of(const tn__vm_memory *m) { return m->most == 0 ? SIZE_MAX : m->most - m->used; }

static tn_status *check_room(const tn__vm_device *d, size_t bytes) {
  const tn__device *device = d->stream.device;
  if (bytes <= room_of(d->memory)) return NULL;
  return tn_status_create(TN_OUT_OF_MEMORY,
                          "out of memory: the session may have %zu bytes of %s:%d%s (tn_session_options.memory), has "
                          "%zu and asks for %zu more",
                          d->memory->most, device->driver->name, (int)device->id,
                          tn__memory_scope_behind(device->scope), d->memory->used, bytes);
}

/* Within a limit no byte more than is wanted, so that what fits does not depend on what others left. */
static tn_status *take_memory(const tn__vm *vm, const tn__vm_device *d, size_t *bytes, void **out) {
  size_t most = d->memory->most == 0 ? SIZE_MAX : *bytes;
  TN_RETURN_IF_ERROR(check_room(d, *bytes));
  if (d->shared == NULL)
    TN_RETURN_IF_ERROR(tn__opened_allocate(vm->exe, d->number, d->stream.device, *bytes, out));
  else
    TN_RETURN_IF_ERROR(tn__opened_memory_take(vm->shared, d->shared, bytes, most, out));
  d->memory->used += *bytes;
  return NULL;
}

tn_status *tn__block_reserve_on(const tn__vm *vm, uint32_t device, tn__block *block, int64_t bytes) {
  if (block->data != NULL && (uint64_t)bytes <= block->capacity) return NULL;
  size_t wanted = bytes < TN_KERNEL_ALIGNMENT ? TN_KERNEL_ALIGNMENT : (size_t)bytes;
  tn__block_release_on(vm, device, block);
  TN_RETURN_IF_ERROR(take_memory(vm, &vm->devices[device], &wanted, &block->data));
  block->capacity = wanted;
  return NULL;
}

void tn__block_release_on(const tn__vm *vm, uint32_t device, tn__block *block) {
  const tn__vm_device *d = &vm->devices[device];
  if (block->data == NULL) return;
  if (d->shared == NULL)
    tn__opened_free(vm->exe, d->number, d->stream.device, block->data, block->capacity);
  else
    tn__opened_memory_give_back(vm->shared, d->shared, block->data, block->capacity);
  d->memory->used -= block->capacity;
  *block = (tn__block){0};
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static tn_status *limit_memory(const tn__vm *vm, const tn_memory_setting *setting) {
  const tn_executable *exe = vm->exe;
  const char *name = setting->device == NULL ? "" : setting->device;
  DLDevice device;
  tn__memory_scope scope;
  uint32_t number = exe->device_count;
  if (tn__load_read_memory(name, name + strlen(name), &device, &scope))
    number = tn__load_find_device(exe, device, scope);
  if (number == exe->device_count)
    return tn_status_prefix(tn__load_no_device(exe), "tn_session_options.memory: \"%s\"", name);
  if (setting->bytes == 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "tn_session_options.memory: %s gets no bytes", name);
  vm->memory[number].most = (size_t)setting->bytes;
  return NULL;
}

static tn_status *limit_all(tn__vm *vm, const tn_session_options *options) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->exe->device_count, sizeof(tn__vm_memory), 0, &memory));
  vm->memory = memory;
  for (int i = 0; i < options->memory_count; i++) TN_RETURN_IF_ERROR(limit_memory(vm, &options->memory[i]));
  return NULL;
}

/* Constants are there once, and count for each session. */
static tn_status *count_constants(const tn__vm *vm) {
  const tn_executable *exe = vm->exe;
  for (uint32_t i = 0; vm->shared != NULL && i < exe->constant_count; i++) {
    const tn__vm_device *d = &vm->devices[exe->constants[i].device];
    size_t bytes = vm->shared->constants[i].bytes;
    TN_RETURN_IF_ERROR(check_room(d, bytes));
    d->memory->used += bytes;
  }
  return NULL;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static tn_status *open_device(const tn__vm *vm, uint32_t number) {
  const tn_executable *exe = vm->exe;
  tn__vm_device *d = &vm->devices[number];
  d->number = number == 0 ? 0 : tn__load_find_device(exe, exe->devices[number], exe->scopes[number]);
  d->memory = &vm->memory[d->number];
  d->shared = vm->shared == NULL ? NULL : tn__opened_at(vm->shared, number);
  d->code = d->shared == NULL ? &exe->code : &vm->shared->list[number].code;
  d->stream = (tn__stream){.device = &d->host, .allocator = vm->allocator};
  if (d->shared == NULL) {
    d->host = (tn__device){.driver = exe->drivers[number], .allocator = vm->allocator};
    d->host.id = number == 0 ? exe->host_id : exe->devices[number].device_id;
    return d->host.driver->open(&d->host); /* which does not fail: it is here */
  }
  d->stream.device = &d->shared->device;
  if (exe->homes[number] != number) return NULL; /* whose stream works on this memory, too */
  tn_status *status = d->stream.device->driver->open_stream(&d->stream);
  if (status == NULL) return NULL;
  tn__opened_failed(vm->shared, status);
  d->stream.device = NULL; /* nothing to close */
  return status;
}

static void close_streams(tn__vm *vm) {
  for (uint32_t i = 0; i < vm->exe->device_count; i++) {
    tn__vm_device *d = &vm->devices[i];
    if (d->stream.device == NULL) continue;
    if (d->shared == NULL)
      d->host.driver->close(&d->host);
    else if (vm->exe->homes[i] == i)
      d->stream.device->driver->close_stream(&d->stream);
    *d = (tn__vm_device){0};
  }
  if (vm->shared != NULL) tn__opened_give_back(vm->shared);
  vm->shared = NULL;
}

static tn_status *open_streams(tn__vm *vm) {
  if (vm->exe->shared != NULL) TN_RETURN_IF_ERROR(tn__opened_take(vm->exe, &vm->shared));
  for (uint32_t i = 0; i < vm->exe->device_count; i++) TN_RETURN_IF_ERROR(open_device(vm, i));
  return NULL;
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static tn_status *open_queues(tn__vm *vm, int most_arguments) {
  const tn_executable *exe = vm->exe;
  if (!exe->has_events) return NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__vm_make_paths(vm, 16));
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, exe->device_count, sizeof(tn__stream *), 0, &memory));
  tn__stream **streams = memory;
  /* What a device does that is the host itself, the host does where it meets it. Memories have no queue. */
  for (uint32_t i = 0; i < exe->device_count; i++)
    streams[i] = vm->devices[i].shared == NULL || exe->homes[i] != i ? NULL : &vm->devices[i].stream;
  const tn__queues_options options = {.allocator = vm->allocator,
                                      .streams = streams,
                                      .device_count = (int)exe->device_count,
                                      .slot_count = (int)exe->event_count,
                                      .most_arguments = most_arguments};
  tn_status *status = tn__queues_create(&options, &vm->queues);
  tn__free(vm->allocator, memory, exe->device_count * sizeof(tn__stream *), 0);
  return status;
}

void tn__vm_close_queues(tn__vm *vm) {
  tn__queues_release(vm->queues);
  tn__vm_release_paths(vm);
  vm->queues = NULL;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

tn_status *tn__vm_open_devices(tn__vm *vm, const tn_session_options *options, int most_arguments) {
  void *memory;
  TN_RETURN_IF_ERROR(limit_all(vm, options));
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->exe->device_count, sizeof(tn__vm_device), 0, &memory));
  vm->devices = memory;
  tn_status *status = open_streams(vm);
  if (status != NULL && vm->shared != NULL && atomic_load(&vm->shared->failed)) {
    /* The devices were gone since another session opened them, and may be back. */
    tn_status_free(status);
    close_streams(vm);
    status = open_streams(vm);
  }
  TN_RETURN_IF_ERROR(status);
  TN_RETURN_IF_ERROR(count_constants(vm));
  return open_queues(vm, most_arguments);
}

void tn__vm_close_devices(tn__vm *vm) {
  if (vm->devices != NULL) close_streams(vm);
  tn__free(vm->allocator, vm->devices, vm->exe->device_count * sizeof(tn__vm_device), 0);
  tn__free(vm->allocator, vm->memory, vm->exe->device_count * sizeof(tn__vm_memory), 0);
  vm->devices = NULL;
  vm->memory = NULL;
}
