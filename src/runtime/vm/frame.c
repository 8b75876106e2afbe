/* Frames: their memory, the values of symbols, and the layout of the arena for one set of shapes. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/vm/queued.h"
#include "runtime/vm/values.h"

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

tn_status *tn__block_reserve(const tn_allocator *allocator, tn__block *block, int64_t bytes) {
  if (block->data != NULL && (uint64_t)bytes <= block->capacity) return NULL;
  if (bytes < TN_KERNEL_ALIGNMENT) bytes = TN_KERNEL_ALIGNMENT;
  /* The old contents are not wanted: free first, so that growing does not need both. */
  tn__block_release(allocator, block);
  void *fresh = tn__realloc(allocator, NULL, 0, (size_t)bytes, TN_KERNEL_ALIGNMENT);
  if (fresh == NULL)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a session asked for %lld bytes", (long long)bytes);
  block->data = fresh, block->capacity = (size_t)bytes;
  return NULL;
}

void tn__block_release(const tn_allocator *allocator, tn__block *block) {
  tn__free(allocator, block->data, block->capacity, TN_KERNEL_ALIGNMENT);
  *block = (tn__block){0};
}

static tn_status *take_memory(tn__device *device, size_t bytes, void **out) {
  tn__device_memory *m = device->memory;
  if (m->most > 0 && (m->used > m->most || bytes > m->most - m->used))
    return tn_status_create(TN_OUT_OF_MEMORY,
                            "out of memory: the session may have %zu bytes of %s:%d (tn_session_options.memory), has "
                            "%zu and asks for %zu more",
                            m->most, device->driver->name, (int)device->id, m->used, bytes);
  TN_RETURN_IF_ERROR(device->driver->allocate(device, bytes, out));
  m->used += bytes;
  return NULL;
}

static void give_memory(tn__device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  device->driver->free(device, memory, bytes);
  device->memory->used -= bytes;
}

tn_status *tn__block_reserve_on(tn__device *device, tn__block *block, int64_t bytes) {
  if (block->data != NULL && (uint64_t)bytes <= block->capacity) return NULL;
  if (bytes < TN_KERNEL_ALIGNMENT) bytes = TN_KERNEL_ALIGNMENT;
  tn__block_release_on(device, block);
  TN_RETURN_IF_ERROR(take_memory(device, (size_t)bytes, &block->data));
  block->capacity = (size_t)bytes;
  return NULL;
}

void tn__block_release_on(tn__device *device, tn__block *block) {
  give_memory(device, block->data, block->capacity);
  *block = (tn__block){0};
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static size_t list_size(const tn__vm *vm) { return vm->exe->values == NULL ? 0 : vm->exe->values->vm->list_size; }

/* A frame and its arrays are one allocation. */
static size_t frame_size(const tn__vm *vm, const tn__function *f) {
  return sizeof(tn__frame) + 2 * f->scalar_count * sizeof(int64_t) + f->dim_count * sizeof(int64_t) +
         f->register_count * (sizeof(void *) + sizeof(tn__block) + sizeof(uint32_t)) +
         (f->output_count * 2 + f->input_count) * sizeof(void *) + 2 * f->output_count * sizeof(int64_t) +
         f->growing_inputs * TN_MAX_RANK * sizeof(int64_t) + f->list_count * list_size(vm) +
         vm->exe->device_count * sizeof(tn__block);
}

static void *carve(char **at, size_t count, size_t size) {
  void *piece = *at;
  *at += count * size;
  return piece;
}

static void set_constants(tn__vm *vm, tn__frame *frame) {
  const tn__function *f = frame->f;
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register *r = &f->registers[i];
    for (int d = 0; d < r->rank; d++)
      if (!r->dims[d].symbolic) frame->dims[r->first_dim + (uint32_t)d] = r->dims[d].value;
    /* Never written: the verifier saw to that. */
    if (r->container != TN__CONTAINER_TENSOR && r->storage != TN__STORAGE_INPUT)
      frame->data[i] = tn__frame_list(vm, frame, r);
    if (r->storage != TN__STORAGE_CONSTANT) continue;
    bool on_host = vm->constants == NULL || vm->constants[r->index] == NULL;
    frame->data[i] = on_host ? (void *)(uintptr_t)vm->exe->constants[r->index].data : vm->constants[r->index];
  }
}

tn_status *tn__frame_take(tn__vm *vm, const tn__function *f, tn__frame **out) {
  *out = vm->idle[f->index];
  if (*out != NULL) {
    vm->idle[f->index] = (*out)->next;
    (*out)->next = NULL;
    return NULL;
  }
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, 1, frame_size(vm, f), 0, &memory));
  tn__frame *frame = memory;
  char *at = (char *)(frame + 1);
  frame->f = f;
  frame->scalars = carve(&at, f->scalar_count, sizeof(int64_t));
  frame->laid_out_scalars = carve(&at, f->scalar_count, sizeof(int64_t));
  frame->dims = carve(&at, f->dim_count, sizeof(int64_t));
  frame->data = carve(&at, f->register_count, sizeof(void *));
  frame->lists = carve(&at, f->list_count, list_size(vm));
  frame->blocks = carve(&at, f->register_count, sizeof(tn__block));
  frame->arenas = carve(&at, vm->exe->device_count, sizeof(tn__block));
  frame->output_data = carve(&at, f->output_count, sizeof(void *));
  frame->output_shapes = carve(&at, f->output_count, sizeof(void *));
  frame->output_capacity = carve(&at, f->output_count, sizeof(int64_t));
  frame->output_valid = carve(&at, f->output_count, sizeof(int64_t));
  frame->grown = carve(&at, f->growing_inputs, TN_MAX_RANK * sizeof(int64_t));
  frame->input_shapes = carve(&at, f->input_count, sizeof(void *));
  frame->used = carve(&at, f->register_count, sizeof(uint32_t));
  const int64_t *grown = frame->grown;
  for (uint32_t i = 0; i < f->input_count; i++) {
    bool grows = f->inputs[i].grows >= 0;
    frame->input_shapes[i] = grows ? grown : frame->dims + f->registers[f->inputs[i].reg].first_dim;
    if (grows) grown += TN_MAX_RANK;
  }
  set_constants(vm, frame);
  *out = frame;
  return NULL;
}

void tn__frame_give_back(tn__vm *vm, tn__frame *frame) {
  if (frame == NULL) return;
  frame->next = vm->idle[frame->f->index];
  vm->idle[frame->f->index] = frame;
}

static void free_frame(tn__vm *vm, tn__frame *frame) {
  for (uint32_t i = 0; i < frame->f->register_count; i++)
    tn__block_release_on(&vm->devices[frame->f->registers[i].device], &frame->blocks[i]);
  if (vm->exe->values != NULL) vm->exe->values->vm->release_lists(vm, frame);
  for (uint32_t i = 0; i < vm->exe->device_count; i++) tn__block_release_on(&vm->devices[i], &frame->arenas[i]);
  tn__free(vm->allocator, frame, frame_size(vm, frame->f), 0);
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static void widest(const tn_executable *exe, uint32_t *buffers, uint32_t *scalars) {
  *buffers = 1, *scalars = 1;
  for (uint32_t i = 0; i < exe->function_count; i++) {
    if (exe->functions[i].widest_call > *buffers) *buffers = exe->functions[i].widest_call;
    if (exe->functions[i].most_scalars > *scalars) *scalars = exe->functions[i].most_scalars;
  }
}

/* The first of the executable's devices that are this one. */
static uint32_t first_of(const tn_executable *exe, DLDevice device) {
  uint32_t i = 0;
  while (i < exe->device_count && !tn__load_same_device(exe->devices[i], device)) i++;
  return i;
}

static tn_status *limit_memory(const tn__vm *vm, const tn_memory_setting *setting) {
  const tn_executable *exe = vm->exe;
  const char *name = setting->device == NULL ? "" : setting->device;
  DLDevice device;
  uint32_t number = exe->device_count;
  if (tn__load_read_device(name, name + strlen(name), &device)) number = first_of(exe, device);
  if (number == exe->device_count)
    return tn_status_create(TN_NOT_FOUND,
                            "tn_session_options.memory: the program does not run on a device \"%s\"; devices are "
                            "written like \"island:0\", and the host is \"cpu:0\"",
                            name);
  if (setting->bytes == 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "tn_session_options.memory: %s gets no bytes", name);
  vm->memory[number].most = (size_t)setting->bytes;
  return NULL;
}

static tn_status *limit_all(tn__vm *vm, const tn_session_options *options) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->exe->device_count, sizeof(tn__device_memory), 0, &memory));
  vm->memory = memory;
  for (int i = 0; i < options->memory_count; i++) TN_RETURN_IF_ERROR(limit_memory(vm, &options->memory[i]));
  return NULL;
}

static tn_status *open_devices(tn__vm *vm) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->exe->device_count, sizeof(tn__device), 0, &memory));
  vm->devices = memory; /* without drivers: not open */
  pthread_mutex_init(&vm->turn, NULL);
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->exe->device_count, sizeof(tn__device_code), 0, &memory));
  vm->codes = memory;
  for (uint32_t i = 0; i < vm->exe->device_count; i++) {
    tn__device *device = &vm->devices[i];
    *device = (tn__device){.allocator = vm->allocator, .id = vm->exe->devices[i].device_id, .turn = &vm->turn};
    device->memory = &vm->memory[first_of(vm->exe, vm->exe->devices[i])];
    device->driver = vm->exe->drivers[i];
    tn_status *status = device->driver->open(device);
    if (status != NULL) {
      device->driver = NULL; /* nothing to close */
      return status;
    }
    const tn__bytes *source = &vm->exe->sources[i];
    if (source->size == 0) {
      vm->codes[i] = vm->exe->code; /* native, and the executable's */
      continue;
    }
    TN_RETURN_IF_ERROR(device->driver->load_code(device, source->data, source->size, false, &vm->codes[i]));
  }
  return NULL;
}

/* Constants that other devices than the host read are copied there once. */
static tn_status *place_constants(tn__vm *vm) {
  const tn_executable *exe = vm->exe;
  void *memory;
  if (exe->device_count == 1) return NULL;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, exe->constant_count, sizeof(void *), 0, &memory));
  vm->constants = memory;
  for (uint32_t i = 0; i < exe->constant_count; i++) {
    const tn__constant_entry *c = &exe->constants[i];
    tn__device *device = &vm->devices[c->device];
    if (c->device == 0) continue;
    TN_RETURN_IF_ERROR(take_memory(device, c->size > 0 ? c->size : 1, &vm->constants[i]));
    TN_RETURN_IF_ERROR(device->driver->copy(device, TN__COPY_IN, vm->constants[i], c->data, c->size));
  }
  return NULL;
}

static void close_devices(tn__vm *vm) {
  const tn_executable *exe = vm->exe;
  for (uint32_t i = 0; vm->constants != NULL && i < exe->constant_count; i++) {
    tn__device *device = &vm->devices[exe->constants[i].device];
    give_memory(device, vm->constants[i], exe->constants[i].size > 0 ? exe->constants[i].size : 1);
  }
  tn__free(vm->allocator, vm->constants, exe->constant_count * sizeof(void *), 0);
  for (uint32_t i = 0; i < exe->device_count; i++) {
    tn__device *device = &vm->devices[i];
    if (device->driver == NULL) continue;
    if (exe->sources[i].size > 0) device->driver->unload_code(device, &vm->codes[i]);
    device->driver->close(device);
  }
  tn__free(vm->allocator, vm->codes, exe->device_count * sizeof(tn__device_code), 0);
  tn__free(vm->allocator, vm->devices, exe->device_count * sizeof(tn__device), 0);
  pthread_mutex_destroy(&vm->turn);
  vm->devices = NULL;
  vm->constants = NULL;
}

static tn_status *open_queues(tn__vm *vm) {
  const tn_executable *exe = vm->exe;
  if (!exe->has_events) return NULL;
  uint32_t buffers, scalars;
  widest(exe, &buffers, &scalars);
  void *memory;
  vm->path_capacity = 16;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, vm->path_capacity, sizeof(tn__call_path), 0, &memory));
  vm->paths = memory;
  TN_RETURN_IF_ERROR(tn__alloc(vm->allocator, exe->device_count, sizeof(tn__device *), 0, &memory));
  tn__device **devices = memory;
  /* What a device does that is the host itself, the host does where it meets it. */
  for (uint32_t i = 0; i < exe->device_count; i++)
    devices[i] = vm->devices[i].driver->inline_host ? NULL : &vm->devices[i];
  const tn__queues_options options = {.allocator = vm->allocator,
                                      .devices = devices,
                                      .device_count = (int)exe->device_count,
                                      .slot_count = (int)exe->event_count,
                                      .most_arguments = (int)(buffers + scalars)};
  tn_status *status = tn__queues_create(&options, &vm->queues);
  tn__free(vm->allocator, memory, exe->device_count * sizeof(tn__device *), 0);
  return status;
}

static void close_queues(tn__vm *vm) {
  tn__queues_release(vm->queues);
  tn__free(vm->allocator, vm->paths, vm->path_capacity * sizeof(tn__call_path), 0);
  vm->queues = NULL;
  vm->paths = NULL;
}

tn_status *tn__vm_init(tn__vm *vm, const tn_executable *exe, const tn_allocator *allocator, tn_thread_pool *pool,
                       const tn_session_options *options) {
  vm->exe = exe, vm->allocator = allocator, vm->pool = pool;
  TN_RETURN_IF_ERROR(limit_all(vm, options));
  TN_RETURN_IF_ERROR(open_devices(vm));
  tn__pool_caller_init(&vm->caller, pool);
  uint32_t buffers, scalars;
  widest(exe, &buffers, &scalars);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, exe->function_count, sizeof(tn__frame *), 0, &memory));
  vm->idle = memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, buffers, sizeof(void *), 0, &memory));
  vm->buffers = memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, scalars, sizeof(int64_t), 0, &memory));
  vm->scalars = memory;
  TN_RETURN_IF_ERROR(place_constants(vm));
  return open_queues(vm);
}

static void release_all(tn__vm *vm) {
  close_queues(vm);
  for (uint32_t i = 0; vm->idle != NULL && i < vm->exe->function_count; i++) {
    while (vm->idle[i] != NULL) {
      tn__frame *frame = vm->idle[i];
      vm->idle[i] = frame->next;
      free_frame(vm, frame);
    }
  }
  uint32_t buffers, scalars;
  widest(vm->exe, &buffers, &scalars);
  tn__free(vm->allocator, vm->idle, vm->exe->function_count * sizeof(tn__frame *), 0);
  tn__free(vm->allocator, vm->buffers, buffers * sizeof(void *), 0);
  tn__free(vm->allocator, vm->scalars, scalars * sizeof(int64_t), 0);
  tn__block_release(vm->allocator, &vm->scratch);
  close_devices(vm);
  vm->idle = NULL;
}

void tn__vm_release(tn__vm *vm) {
  if (vm->devices != NULL) release_all(vm);
  if (vm->memory != NULL) tn__free(vm->allocator, vm->memory, vm->exe->device_count * sizeof(tn__device_memory), 0);
  vm->memory = NULL;
}

/* ---- memory that is kept for later ------------------------------------------------------------------------------- */

static void release_block(tn__device *device, tn__block *block, bool *any) {
  if (block->data == NULL) return;
  tn__block_release_on(device, block);
  *any = true;
}

/* Blocks of the frame on devices that share `memory`: all, or those that no register of this run has. */
static void release_blocks(tn__vm *vm, tn__frame *frame, const tn__device_memory *memory, const tn__block *but,
                           bool idle, bool *any) {
  for (uint32_t i = 0; i < frame->f->register_count; i++) {
    const tn__register *r = &frame->f->registers[i];
    tn__device *device = &vm->devices[r->device];
    bool unused = idle || (r->storage == TN__STORAGE_DYNAMIC && frame->used[i] != frame->run);
    if (unused && device->memory == memory && &frame->blocks[i] != but) release_block(device, &frame->blocks[i], any);
  }
}

bool tn__vm_release_unused(tn__vm *vm, tn__frame *frame, uint32_t device, const tn__block *but) {
  const tn__device_memory *memory = vm->devices[device].memory;
  bool any = false;
  for (uint32_t f = 0; f < vm->exe->function_count; f++)
    for (tn__frame *idle = vm->idle[f]; idle != NULL; idle = idle->next) {
      release_blocks(vm, idle, memory, but, true, &any);
      for (uint32_t i = 0; i < vm->exe->device_count; i++)
        if (vm->devices[i].memory == memory) release_block(&vm->devices[i], &idle->arenas[i], &any);
      idle->laid_out = false;
    }
  for (; frame != NULL; frame = frame->next) release_blocks(vm, frame, memory, but, false, &any);
  return any;
}

/* ---- inputs and symbols ----------------------------------------------------------------------------------------- */

void tn__frame_set_input(tn__frame *frame, uint32_t index, void *data, const int64_t *shape) {
  uint32_t number = frame->f->inputs[index].reg;
  const tn__register *r = &frame->f->registers[number];
  const tn__function_value *input = &frame->f->inputs[index];
  frame->data[number] = data;
  for (int d = 0; d < r->rank; d++)
    if (d != input->grows) frame->dims[r->first_dim + (uint32_t)d] = shape[d];
  if (input->grows < 0) return;
  int64_t *grown = frame->grown + (frame->input_shapes[index] - frame->grown);
  for (int d = 0; d < r->rank; d++) grown[d] = shape[d];
}

static tn_status *wrong_shape(const tn_value_info *info, const int64_t *shape) {
  char mine[256], theirs[256];
  tn__rt_format_shape(shape, info->rank, theirs, sizeof(theirs));
  tn__rt_format_dims(info->dims, info->rank, mine, sizeof(mine));
  return tn_status_create(TN_INVALID_ARGUMENT, "input \"%s\": the tensor has shape %s and the executable wants %s",
                          info->name, theirs, mine);
}

static tn_status *symbols_differ(const tn__function *f, uint32_t input, int dim, int64_t size, int64_t scalar,
                                 int64_t bound) {
  const char *first = "another input";
  for (uint32_t i = 0; i < f->input_count; i++)
    for (int d = 0; d < f->inputs[i].info.rank; d++)
      if (f->inputs[i].binds[d] && f->registers[f->inputs[i].reg].dims[d].value == scalar)
        first = f->inputs[i].info.name;
  const char *name = f->scalar_names[scalar];
  return tn_status_create(
      TN_INVALID_ARGUMENT, "input \"%s\": dimension %d (\"%s\") is %lld, but input \"%s\" has %lld for it",
      f->inputs[input].info.name, dim, name == NULL ? "?" : name, (long long)size, first, (long long)bound);
}

tn_status *tn__vm_bind_symbols(const tn__function *f, const int64_t *const *shapes, int64_t *scalars) {
  memset(scalars, 0, f->scalar_count * sizeof(int64_t));
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn__function_value *input = &f->inputs[i];
    const int64_t *shape = shapes[i];
    for (int d = 0; d < input->info.rank && input->info.kind == TN_VALUE_TENSOR; d++) {
      const tn__operand *dim = tn__function_value_dim(f, input, d);
      int64_t s = dim->value;
      if (d == input->grows && shape[d] > input->info.dims[d]->capacity) return wrong_shape(&input->info, shape);
      if (!dim->symbolic) {
        if (shape[d] != s) return wrong_shape(&input->info, shape);
      } else if (input->binds[d]) {
        if (shape[d] < 0) return wrong_shape(&input->info, shape);
        scalars[s] = shape[d];
      } else if (scalars[s] != shape[d]) {
        return symbols_differ(f, i, d, shape[d], s, scalars[s]);
      }
    }
  }
  return NULL;
}
