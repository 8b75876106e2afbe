#include "runtime/vm/queued.h"

#include "base/alloc.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool is_inline(const tn__vm *vm, uint32_t device) { return vm->devices[device].shared == NULL; }

tn_status *tn__vm_reserve(tn__vm *vm, tn__frame *frame, uint32_t device, tn__block *block, int64_t bytes) {
  if (block->data != NULL && (uint64_t)bytes <= block->capacity) return NULL;
  tn__vm_drain(vm);
  tn_status *status = tn__block_reserve_on(vm, device, block, bytes);
  if (tn_status_code_of(status) != TN_OUT_OF_MEMORY || !tn__vm_release_unused(vm, frame, device, block)) return status;
  tn_status_free(status);
  return tn__block_reserve_on(vm, device, block, bytes);
}

/* ---- where an instruction is ------------------------------------------------------------------------------------- */

/* Of a launch or copy: the calls around it, and its place in the innermost function. */
static uint64_t label_of(const tn__vm *vm, const tn__instruction *in) {
  return (uint64_t)vm->path << 32 | (uint64_t)(in - vm->paths[vm->path].f->instructions);
}

/* What is carried has no instruction: it is around all of the code. */
enum { CARRIED = 1u << 31, CARRIED_OUT = 1u << 30 };

static bool is_carried(uint64_t label) { return ((uint32_t)label & CARRIED) != 0; }

static tn_status *carry_failed(const tn__function *f, uint64_t label, tn_status *status) {
  bool output = ((uint32_t)label & CARRIED_OUT) != 0;
  uint32_t index = (uint32_t)label & (CARRIED_OUT - 1);
  const tn__function_value *value = output ? &f->outputs[index] : &f->inputs[index];
  return tn_status_prefix(status, "%s \"%s\"", output ? "output" : "input", value->info.name);
}

static const tn__instruction *instruction_at(const tn__vm *vm, uint64_t label, uint32_t *path) {
  *path = (uint32_t)(label >> 32);
  return &vm->paths[*path].f->instructions[(uint32_t)label];
}

tn_status *tn__vm_kernel_failed(const tn__vm *vm, const tn__instruction *in, int32_t result) {
  const char *name = vm->exe->kernels[in->callee].about.name;
  switch (result) {
    case TN_KERNEL_INDEX_OUT_OF_RANGE:
      return tn_status_create(
          TN_OUT_OF_RANGE,
          "kernel \"%s\": index out of range: its indices must be in [-n, n) where they pick from n elements", name);
    case TN_KERNEL_DIVISION_BY_ZERO:
      return tn_status_create(TN_OUT_OF_RANGE, "kernel \"%s\": integer division by zero", name);
    case TN_KERNEL_BAD_VALUE:
      return tn_status_create(TN_OUT_OF_RANGE, "kernel \"%s\": a value that the operator does not allow", name);
    case TN_KERNEL_CANCELLED: return tn_status_create(TN_CANCELLED, "the invoke was cancelled in kernel \"%s\"", name);
    default: return tn_status_create(TN_INTERNAL, "kernel \"%s\": returned the unknown result %d", name, result);
  }
}

/* What a driver says is passed on, and the executable hears of it. */
static tn_status *told(const tn__vm *vm, tn_status *status) {
  if (status != NULL && vm->shared != NULL) tn__opened_failed(vm->shared, status);
  return status;
}

/* As it would have come back through the calls. */
static tn_status *failed_status(const tn__vm *vm, const tn__queue_failure *failure) {
  uint32_t path;
  if (is_carried(failure->label)) return carry_failed(vm->paths[0].f, failure->label, failure->status);
  const tn__instruction *first = instruction_at(vm, failure->since, &path);
  const tn__instruction *in = instruction_at(vm, failure->label, &path);
  tn_status *status = failure->kernel == TN_KERNEL_OK ? failure->status : tn__vm_kernel_failed(vm, in, failure->kernel);
  if (failure->since != failure->label)
    status = tn_status_prefix(status, "one of the kernels from \"%s\" on, of which this is the last",
                              vm->exe->kernels[first->callee].about.name);
  for (;;) {
    const tn__call_path *at = &vm->paths[path];
    status = tn__exe_at_origin(vm->exe, at->f, in, status);
    if (path == 0) return status;
    in = &vm->paths[at->parent].f->instructions[at->call];
    path = at->parent;
  }
}

/* What is in the queues was enqueued before the host failed, and comes first. */
tn_status *tn__vm_end_queues(tn__vm *vm, tn_status *status) {
  tn__queue_failure failure;
  if (tn__queues_finish(vm->queues, &failure)) return status;
  tn_status_free(status);
  (void)told(vm, failure.status);
  return failed_status(vm, &failure);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* One of the host takes turns with devices that do: a device's memory is open while that works alone. */
static int32_t run_on_host(tn__vm *vm, const tn__kernel_entry *kernel) {
  pthread_mutex_t *turn = vm->shared != NULL && vm->shared->takes_turns ? &vm->shared->turn : NULL;
  if (turn != NULL) pthread_mutex_lock(turn);
  int32_t result = kernel->call(&vm->caller.env, vm->buffers, vm->scalars);
  if (turn != NULL) pthread_mutex_unlock(turn);
  return result;
}

static tn_status *launch_now(tn__stream *stream, const tn__device_launch *launch, int32_t *result) {
  TN_RETURN_IF_ERROR(stream->device->driver->launch(stream, launch));
  return stream->device->driver->wait(stream, result);
}

tn_status *tn__vm_launch(tn__vm *vm, const tn__instruction *in, int32_t *result) {
  const tn__kernel_entry *kernel = &vm->exe->kernels[in->callee];
  if (is_inline(vm, kernel->device)) {
    *result = run_on_host(vm, kernel);
    return NULL;
  }
  tn__device_launch launch = {.code = vm->devices[kernel->device].code,
                              .offset = kernel->offset,
                              .env = &vm->caller.env,
                              .buffers = vm->buffers,
                              .scalars = vm->scalars,
                              .buffer_count = in->read_count + in->write_count,
                              .scalar_count = in->scalar_count};
  if (vm->queues != NULL) {
    tn__queue_launch(vm->queues, (int)kernel->device, &launch, label_of(vm, in));
    return NULL;
  }
  /* cppcheck-suppress returnDanglingLifetime ; a status keeps no pointer into the launch */
  return told(vm, launch_now(&vm->devices[kernel->device].stream, &launch, result));
}

/* Between two devices that are not the host it goes through the host, in pieces. */
static tn_status *copy_now(tn__vm *vm, tn__stream *to, void *destination, tn__stream *from, const void *source,
                           size_t bytes) {
  const tn__device_driver *in = to->device->driver, *out = from->device->driver;
  if (to->device == from->device) return in->copy(to, TN__COPY_WITHIN, destination, source, bytes);
  if (out->inline_host) return in->copy(to, TN__COPY_IN, destination, source, bytes);
  if (in->inline_host) return out->copy(from, TN__COPY_OUT, destination, source, bytes);
  TN_RETURN_IF_ERROR(
      tn__block_reserve(vm->allocator, &vm->scratch, bytes < TN__COPY_PIECE ? (int64_t)bytes : TN__COPY_PIECE));
  return tn__device_copy_between(to, destination, from, source, bytes, vm->scratch.data);
}

/* It is for the device that gets it, and for another one when that is the first. A device that the host takes the place
 * of makes it at once: what it reads was awaited. */
tn_status *tn__vm_copy(tn__vm *vm, const tn__instruction *in, const tn__register *to, void *destination,
                       const tn__register *from, const void *source, size_t bytes) {
  if (to->device == from->device && destination == source) return NULL; /* an output in the memory of its input */
  uint32_t there = vm->exe->homes[to->device], here = vm->exe->homes[from->device];
  if (vm->queues == NULL || is_inline(vm, there != 0 ? there : here))
    return told(vm, copy_now(vm, &vm->devices[there].stream, destination, &vm->devices[here].stream, source, bytes));
  tn__queue_copy(vm->queues, there == 0 ? TN__QUEUE_HOST : (int)there, destination,
                 is_inline(vm, here) ? TN__QUEUE_HOST : (int)here, source, bytes, label_of(vm, in));
  return NULL;
}

tn_status *tn__vm_carry(tn__vm *vm, const tn__function *f, bool output, uint32_t index, void *there, void *host,
                        size_t bytes) {
  uint32_t device = vm->exe->homes[f->registers[output ? f->outputs[index].reg : f->inputs[index].reg].device];
  uint64_t label = CARRIED | (output ? CARRIED_OUT : 0) | index;
  if (vm->queues == NULL) {
    tn__stream *own = &vm->devices[device].stream, *first = &vm->devices[0].stream;
    tn_status *status =
        output ? copy_now(vm, first, host, own, there, bytes) : copy_now(vm, own, there, first, host, bytes);
    return status == NULL ? NULL : carry_failed(f, label, told(vm, status));
  }
  if (output)
    tn__queue_copy(vm->queues, TN__QUEUE_HOST, host, (int)device, there, bytes, label);
  else
    tn__queue_copy(vm->queues, (int)device, there, TN__QUEUE_HOST, host, bytes, label);
  return NULL;
}

/* A device that the host takes the place of has done everything when the host comes here, and waits as the host
 * does. */
tn_status *tn__vm_event(tn__vm *vm, const tn__function *f, const tn__instruction *in) {
  if (vm->queues == NULL) return NULL;
  bool by_host = in->op == TN__OP_HOST_AWAIT || is_inline(vm, in->a);
  int event = (int)(f->first_event + (in->op == TN__OP_HOST_AWAIT ? in->a : in->b));
  if (in->op == TN__OP_RECORD) {
    if (!by_host) tn__queue_record(vm->queues, (int)in->a, event);
  } else if (!by_host) {
    tn__queue_await(vm->queues, (int)in->a, event);
  } else if (!tn__queues_await(vm->queues, event)) {
    return tn_status_create(TN_INTERNAL, "a device failed"); /* tn__vm_end_queues() tells which */
  }
  return NULL;
}
