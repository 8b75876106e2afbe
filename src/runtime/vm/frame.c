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

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static size_t list_size(const tn__vm *vm) { return vm->exe->values == NULL ? 0 : vm->exe->values->vm->list_size; }

static size_t carried_count(const tn__function *f) {
  return f->has_away ? (size_t)f->input_count + f->output_count : 0;
}

/* A frame and its arrays are one allocation. */
static size_t frame_size(const tn__vm *vm, const tn__function *f) {
  return sizeof(tn__frame) + 2 * f->scalar_count * sizeof(int64_t) + f->dim_count * sizeof(int64_t) +
         f->register_count * (sizeof(void *) + sizeof(tn__block) + sizeof(uint32_t)) +
         (f->output_count * 2 + f->input_count) * sizeof(void *) + 2 * f->output_count * sizeof(int64_t) +
         f->growing_inputs * TN_MAX_RANK * sizeof(int64_t) + f->list_count * list_size(vm) +
         vm->exe->device_count * sizeof(tn__block) + carried_count(f) * sizeof(tn__carried);
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
    void *there = vm->shared == NULL ? NULL : vm->shared->constants[r->index].memory;
    frame->data[i] = there == NULL ? (void *)(uintptr_t)vm->exe->constants[r->index].data : there;
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
  if (f->has_away) frame->carried = carve(&at, carried_count(f), sizeof(tn__carried));
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
    tn__block_release_on(vm, frame->f->registers[i].device, &frame->blocks[i]);
  if (vm->exe->values != NULL) vm->exe->values->vm->release_lists(vm, frame);
  for (uint32_t i = 0; i < vm->exe->device_count; i++) tn__block_release_on(vm, i, &frame->arenas[i]);
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

tn_status *tn__vm_init(tn__vm *vm, const tn_executable *exe, const tn_allocator *allocator, tn_thread_pool *pool,
                       const tn_session_options *options) {
  vm->exe = exe, vm->allocator = allocator, vm->pool = pool;
  uint32_t buffers, scalars;
  widest(exe, &buffers, &scalars);
  TN_RETURN_IF_ERROR(tn__vm_open_devices(vm, options, (int)(buffers + scalars)));
  tn__pool_caller_init(&vm->caller, pool);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, exe->function_count, sizeof(tn__frame *), 0, &memory));
  vm->idle = memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, buffers, sizeof(void *), 0, &memory));
  vm->buffers = memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, scalars, sizeof(int64_t), 0, &memory));
  vm->scalars = memory;
  return NULL;
}

void tn__vm_release(tn__vm *vm) {
  if (vm->exe == NULL) return;
  tn__vm_close_queues(vm);
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
  tn__vm_close_devices(vm);
  vm->idle = NULL;
}

/* ---- memory that is kept for later ------------------------------------------------------------------------------- */

static void release_block(const tn__vm *vm, uint32_t device, tn__block *block, bool *any) {
  if (block->data == NULL) return;
  tn__block_release_on(vm, device, block);
  *any = true;
}

/* Blocks of the frame on devices that share `memory`: all, or those that no register of this run has. */
static void release_blocks(const tn__vm *vm, tn__frame *frame, const tn__vm_memory *memory, const tn__block *but,
                           bool idle, bool *any) {
  for (uint32_t i = 0; i < frame->f->register_count; i++) {
    const tn__register *r = &frame->f->registers[i];
    bool unused = idle || (r->storage == TN__STORAGE_DYNAMIC && frame->used[i] != frame->run);
    if (unused && vm->devices[r->device].memory == memory && &frame->blocks[i] != but)
      release_block(vm, r->device, &frame->blocks[i], any);
  }
}

bool tn__vm_release_unused(tn__vm *vm, tn__frame *frame, uint32_t device, const tn__block *but) {
  const tn__vm_memory *memory = vm->devices[device].memory;
  bool any = false;
  for (uint32_t f = 0; f < vm->exe->function_count; f++)
    for (tn__frame *idle = vm->idle[f]; idle != NULL; idle = idle->next) {
      release_blocks(vm, idle, memory, but, true, &any);
      for (uint32_t i = 0; i < vm->exe->device_count; i++)
        if (vm->devices[i].memory == memory) release_block(vm, i, &idle->arenas[i], &any);
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
