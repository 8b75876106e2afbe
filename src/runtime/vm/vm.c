/* The interpreter proper. Everything that could be checked beforehand was checked at load; what is left are values:
 * sizes, indices, divisors, and what kernels report. */
#include "runtime/vm/vm.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "runtime/vm/queued.h"
#include "runtime/vm/values.h"
#include "runtime/vm/work.h"

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* The size in bytes of register `number`, whose dimensions are set. */
static tn_status *measure(const tn__frame *frame, uint32_t number, int64_t *bytes) {
  const tn__register *r = &frame->f->registers[number];
  const int64_t *dims = frame->dims + r->first_dim;
  *bytes = tn__work_bytes(dims, r->rank, (int64_t)tn__dtype_stored(r->dtype));
  if (*bytes >= 0) return NULL;
  for (int i = 0; i < r->rank; i++)
    if (dims[i] < 0)
      return tn_status_create(TN_OUT_OF_RANGE, "a value of this model gets the negative dimension %lld",
                              (long long)dims[i]);
  char shape[256];
  tn__rt_format_shape(dims, r->rank, shape, sizeof(shape));
  return tn_status_create(TN_OUT_OF_RANGE, "a value of this model gets the shape %s, which does not fit into memory",
                          shape);
}

/* Dimensions of register `number` from the scalars as they are now, and its size in bytes. */
static tn_status *evaluate_dims(tn__frame *frame, uint32_t number, int64_t *bytes) {
  const tn__register *r = &frame->f->registers[number];
  for (int i = 0; i < r->rank; i++)
    frame->dims[r->first_dim + (uint32_t)i] = tn__operand_value(&r->dims[i], frame->scalars);
  return measure(frame, number, bytes);
}

static int64_t element_count(const tn__frame *frame, const tn__register *r) {
  int64_t count = 1; /* of a shape that was checked: no overflow, and zeros are found */
  for (int i = 0; i < r->rank; i++) count *= frame->dims[r->first_dim + (uint32_t)i];
  return count;
}

/* The dimensions of a register about to be looked at. Those of a late view are only worked out now. */
tn_status *tn__frame_current_dims(tn__frame *frame, uint32_t number, const int64_t **out) {
  const tn__register *r = &frame->f->registers[number];
  *out = frame->dims + r->first_dim;
  const tn__register *root = &frame->f->registers[r->root];
  if (r->storage != TN__STORAGE_VIEW || (r->static_bytes >= 0 && root->static_bytes >= 0)) return NULL;
  int64_t bytes;
  TN_RETURN_IF_ERROR(evaluate_dims(frame, number, &bytes));
  int64_t root_bytes = element_count(frame, root) * (int64_t)tn__dtype_stored(root->dtype);
  if (bytes == root_bytes) return NULL;
  char mine[256], theirs[256];
  tn__rt_format_shape(*out, r->rank, mine, sizeof(mine));
  tn__rt_format_shape(frame->dims + root->first_dim, root->rank, theirs, sizeof(theirs));
  return tn_status_create(TN_INVALID_ARGUMENT, "a value of shape %s cannot be seen with the shape %s", theirs, mine);
}

static const tn__device *device_of(const tn__vm *vm, const tn__register *r) {
  return vm->devices[r->device].stream.device;
}

/* ---- layout of one call ----------------------------------------------------------------------------------------- */

static tn_status *place_output(tn__vm *vm, tn__frame *frame, uint32_t number, int64_t bytes) {
  const tn__register *r = &frame->f->registers[number];
  const int64_t *dims = frame->dims + r->first_dim, *theirs = frame->output_shapes[r->index];
  int64_t capacity = frame->output_capacity[r->index];
  bool too_small = capacity != TN__EXACT_SHAPE && bytes > capacity; /* the session keeps the value, and says so */
  if (frame->output_data[r->index] == NULL || too_small) {
    TN_RETURN_IF_ERROR(tn__vm_reserve(vm, frame, r->device, &frame->blocks[number], bytes));
    frame->data[number] = frame->blocks[number].data;
    return NULL;
  }
  for (int i = 0; i < r->rank && capacity == TN__EXACT_SHAPE; i++) {
    if (theirs[i] == dims[i]) continue;
    char want[256], have[256];
    tn__rt_format_shape(dims, r->rank, want, sizeof(want));
    tn__rt_format_shape(theirs, r->rank, have, sizeof(have));
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "output \"%s\": the bound tensor has shape %s and these inputs make %s",
                            frame->f->outputs[r->index].info.name, have, want);
  }
  frame->data[number] = frame->output_data[r->index];
  return NULL;
}

tn_status *tn__vm_beyond_capacity(const tn__function_value *output, int64_t valid) {
  return tn_status_create(
      TN_OUT_OF_RANGE, "output \"%s\" gets %lld elements along dimension %d, which has room for %lld",
      output->info.name, (long long)valid, output->grows, (long long)output->info.dims[output->grows]->capacity);
}

/* What counts of an output that grows. */
static tn_status *check_valid(const tn__frame *frame, uint32_t index) {
  const tn__function_value *output = &frame->f->outputs[index];
  int64_t valid = tn__operand_value(&output->valid, frame->scalars), theirs = frame->output_valid[index];
  if (valid < 0 || valid > output->info.dims[output->grows]->capacity) return tn__vm_beyond_capacity(output, valid);
  if (frame->output_data[index] == NULL || theirs < 0 || theirs == valid) return NULL;
  return tn_status_create(
      TN_INVALID_ARGUMENT,
      "output \"%s\": the bound tensor has %lld elements along dimension %d and these inputs make %lld",
      output->info.name, (long long)theirs, output->grows, (long long)valid);
}

static tn_status *place_in_arena(const tn__vm *vm, tn__frame *frame, uint32_t number, int64_t bytes) {
  const tn__register *r = &frame->f->registers[number];
  const tn__operand size = tn__function_arena(frame->f, r->device);
  int64_t arena = tn__operand_value(&size, frame->scalars);
  int64_t offset = tn__operand_value(&r->offset, frame->scalars);
  if (offset < 0 || offset % TN_KERNEL_ALIGNMENT != 0 || bytes > arena || offset > arena - bytes)
    return tn_status_create(TN_OUT_OF_RANGE,
                            "the executable's memory plan is wrong: %lld bytes at %lld of an arena of %lld",
                            (long long)bytes, (long long)offset, (long long)arena);
  const tn__device *device = device_of(vm, r);
  void *memory = frame->arenas[r->device].data; /* NULL: of no bytes so far */
  frame->data[number] = memory == NULL ? NULL : device->driver->view(device, memory, (size_t)offset);
  return NULL;
}

/* The arena and every register whose shape is known by now. */
static tn_status *lay_out(tn__vm *vm, tn__frame *frame) {
  const tn__function *f = frame->f;
  frame->laid_out = false;
  tn__vm_drain(vm);
  for (uint32_t i = 0; i < vm->exe->device_count; i++) {
    const tn__operand size = tn__function_arena(f, i);
    int64_t arena = tn__operand_value(&size, frame->scalars);
    if (arena < 0)
      return tn_status_create(TN_OUT_OF_RANGE, "the executable's memory plan is wrong: an arena of %lld bytes",
                              (long long)arena);
    if (arena > 0 || i == 0) TN_RETURN_IF_ERROR(tn__vm_reserve(vm, frame, i, &frame->arenas[i], arena));
  }
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register *r = &f->registers[i];
    if (!r->early || r->storage == TN__STORAGE_CONSTANT || r->storage == TN__STORAGE_INPUT) continue;
    int64_t bytes;
    TN_RETURN_IF_ERROR(evaluate_dims(frame, i, &bytes));
    if (r->storage == TN__STORAGE_ARENA) TN_RETURN_IF_ERROR(place_in_arena(vm, frame, i, bytes));
    const int64_t *ignored;
    const tn__register *root = &f->registers[r->root];
    if (r->storage == TN__STORAGE_VIEW && root->early && root->storage != TN__STORAGE_DYNAMIC)
      TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, i, &ignored));
  }
  if (f->scalar_count > 0) memcpy(frame->laid_out_scalars, frame->scalars, f->scalar_count * sizeof(int64_t));
  frame->laid_out = true;
  return NULL;
}

/* What follows on the prologue, before anything is written: the layout unless it is the last call's, and the
 * outputs. */
static tn_status *after_prologue(tn__vm *vm, tn__frame *frame) {
  const tn__function *f = frame->f;
  bool same = frame->laid_out && (!f->symbolic_layout || memcmp(frame->laid_out_scalars, frame->scalars,
                                                                f->scalar_count * sizeof(int64_t)) == 0);
  if (!same) TN_RETURN_IF_ERROR(lay_out(vm, frame));
  for (uint32_t i = 0; i < f->output_count; i++) {
    uint32_t number = f->outputs[i].reg;
    const tn__register *r = &f->registers[number];
    if (r->container != TN__CONTAINER_TENSOR)
      frame->data[number] = frame->output_data[i] != NULL ? frame->output_data[i] : tn__frame_list(vm, frame, r);
    if (r->container != TN__CONTAINER_TENSOR || !r->early) continue;
    int64_t bytes;
    TN_RETURN_IF_ERROR(evaluate_dims(frame, number, &bytes));
    if (f->outputs[i].grows >= 0) TN_RETURN_IF_ERROR(check_valid(frame, i));
    TN_RETURN_IF_ERROR(place_output(vm, frame, number, bytes));
  }
  return NULL;
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

static tn_status *scalar_op(uint32_t op, int64_t a, int64_t b, int64_t *out) {
  switch ((tn__scalar_op)op) {
#define X(name, text, function, divides) \
  case TN__SCALAR_##name:                \
    if ((divides) && b == 0) break;      \
    *out = tn__work_##function(a, b);    \
    return NULL;
    TN__SCALAR_OPS(X)
#undef X
    case TN__SCALAR_OP_COUNT: return tn_status_create(TN_INTERNAL, "scalar operator %u", op);
  }
  return tn_status_create(TN_OUT_OF_RANGE, "the shape arithmetic of this model divides %lld by zero", (long long)a);
}

tn_status *tn__vm_run_scalar(const tn__instruction *in, int64_t *s) {
  switch (in->op) {
    case TN__OP_SCALAR_CONST: s[in->a] = in->immediate; return NULL;
    case TN__OP_SCALAR_SELECT: s[in->a] = tn__work_select(s[in->b], s[in->c], s[in->d]); return NULL;
    default: return scalar_op(in->d, s[in->b], s[in->c], &s[in->a]);
  }
}

static tn_status *scalar_load(tn__frame *frame, const tn__instruction *in) {
  const tn__register *r = &frame->f->registers[in->b];
  const int64_t *dims;
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->b, &dims));
  int64_t count = element_count(frame, r);
  if (in->c >= (uint64_t)count)
    return tn_status_create(TN_OUT_OF_RANGE, "element %u of a tensor of %lld elements is needed", in->c,
                            (long long)count);
  frame->scalars[in->a] = tn__load_i64(r->dtype, frame->data[r->root], in->c);
  return NULL;
}

static void swap_blocks(tn__block *a, tn__block *b) {
  tn__block kept = *a;
  *a = *b, *b = kept;
}

/* MOVE carries blocks from register to register, so one without a block looks for one that a register of an earlier run
 * left: the second run of a function finds all that the first one made. */
static void find_block(const tn__vm *vm, tn__frame *frame, uint32_t number, int64_t bytes) {
  if (frame->blocks[number].data != NULL) return;
  for (uint32_t i = 0; i < frame->f->register_count; i++) {
    const tn__block *block = &frame->blocks[i];
    const tn__register *r = &frame->f->registers[i];
    bool free = r->storage == TN__STORAGE_DYNAMIC && frame->used[i] != frame->run &&
                r->device == frame->f->registers[number].device;
    if (!free || block->data == NULL || block->capacity < (uint64_t)bytes) continue;
    tn__vm_drain(vm);
    swap_blocks(&frame->blocks[number], &frame->blocks[i]);
    return;
  }
}

static tn_status *alloc_register(tn__vm *vm, tn__frame *frame, uint32_t number) {
  const tn__register *r = &frame->f->registers[number];
  if (r->storage == TN__STORAGE_OUTPUT && r->early) return NULL; /* has its place since the prologue */
  int64_t bytes;
  TN_RETURN_IF_ERROR(evaluate_dims(frame, number, &bytes));
  if (r->storage == TN__STORAGE_OUTPUT) return place_output(vm, frame, number, bytes);
  find_block(vm, frame, number, bytes);
  TN_RETURN_IF_ERROR(tn__vm_reserve(vm, frame, r->device, &frame->blocks[number], bytes));
  frame->data[number] = frame->blocks[number].data;
  frame->used[number] = frame->run;
  return NULL;
}

/* To an output that grows: what counts of the source, an input that grows as well or a value of the same shape. */
static void copy_valid(const tn__frame *frame, const tn__register *r, const tn__register *source, char *to,
                       const char *from) {
  const int64_t *dims = frame->dims + r->first_dim;
  const tn__function_value *output = &frame->f->outputs[r->index];
  int axis = output->grows;
  int64_t valid = tn__operand_value(&output->valid, frame->scalars);
  if (source->storage == TN__STORAGE_INPUT && frame->input_shapes[source->index][axis] < valid)
    valid = frame->input_shapes[source->index][axis];
  int64_t row = (int64_t)tn__dtype_stored(r->dtype), bytes = element_count(frame, r) * row;
  for (int i = axis + 1; i < r->rank; i++) row *= dims[i];
  tn__work_copy_rows(to, from, bytes, dims[axis] * row, valid * row);
}

static tn_status *copy(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__register *to = &frame->f->registers[in->a], *from = &frame->f->registers[in->b];
  const int64_t *to_dims, *from_dims;
  if (to->container != TN__CONTAINER_TENSOR) return vm->exe->values->vm->copy(vm, frame, in);
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->a, &to_dims));
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->b, &from_dims));
  int64_t count = element_count(frame, from);
  if (count != element_count(frame, to)) {
    char a[256], b[256];
    tn__rt_format_shape(from_dims, from->rank, a, sizeof(a));
    tn__rt_format_shape(to_dims, to->rank, b, sizeof(b));
    return tn_status_create(TN_INVALID_ARGUMENT, "a value of shape %s does not fit where %s is wanted", a, b);
  }
  const void *source = frame->data[from->root];
  void *destination = frame->data[to->root];
  if (to->device != 0 || from->device != 0)
    return tn__vm_copy(vm, in, to, destination, from, source, (size_t)count * tn__dtype_stored(to->dtype));
  if (to->storage == TN__STORAGE_OUTPUT && frame->f->outputs[to->index].grows >= 0)
    copy_valid(frame, to, from, destination, source);
  else
    tn__work_copy(destination, source, count * (int64_t)tn__dtype_stored(to->dtype));
  return NULL;
}

/* The destination's constant dimensions are a promise to the kernels that read it. */
static tn_status *check_moved(const tn__register *to, const int64_t *dims) {
  for (int i = 0; i < to->rank; i++) {
    if (to->dims[i].symbolic || to->dims[i].value == dims[i]) continue;
    char shape[256];
    tn__rt_format_shape(dims, to->rank, shape, sizeof(shape));
    return tn_status_create(TN_INVALID_ARGUMENT, "a value of shape %s has %lld where dimension %d is %lld", shape,
                            (long long)dims[i], i, (long long)to->dims[i].value);
  }
  return NULL;
}

tn_status *tn__vm_make_result(tn__vm *vm, tn__frame *frame, uint32_t number, const int64_t *dims) {
  const tn__register *r = &frame->f->registers[number];
  bool late_output = r->storage == TN__STORAGE_OUTPUT && !r->early;
  if (r->storage != TN__STORAGE_DYNAMIC && !late_output) {
    const int64_t *own;
    TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, number, &own));
    if (r->rank == 0 || memcmp(own, dims, (size_t)r->rank * sizeof(int64_t)) == 0) return NULL;
    char a[256], b[256];
    tn__rt_format_shape(dims, r->rank, a, sizeof(a));
    tn__rt_format_shape(own, r->rank, b, sizeof(b));
    return tn_status_create(TN_INVALID_ARGUMENT, "a value of shape %s does not fit where %s is wanted", a, b);
  }
  int64_t bytes;
  TN_RETURN_IF_ERROR(check_moved(r, dims));
  for (int i = 0; i < r->rank; i++) frame->dims[r->first_dim + (uint32_t)i] = dims[i];
  TN_RETURN_IF_ERROR(measure(frame, number, &bytes));
  if (late_output) return place_output(vm, frame, number, bytes);
  find_block(vm, frame, number, bytes);
  TN_RETURN_IF_ERROR(tn__vm_reserve(vm, frame, r->device, &frame->blocks[number], bytes));
  frame->data[number] = frame->blocks[number].data;
  frame->used[number] = frame->run;
  return NULL;
}

static tn_status *take_over(tn__frame *frame, uint32_t to, tn__block *block, const int64_t *dims) {
  const tn__register *r = &frame->f->registers[to];
  TN_RETURN_IF_ERROR(check_moved(r, dims));
  swap_blocks(&frame->blocks[to], block);
  frame->data[to] = frame->blocks[to].data;
  frame->used[to] = frame->run;
  for (int i = 0; i < r->rank; i++) frame->dims[r->first_dim + (uint32_t)i] = dims[i];
  return NULL;
}

static tn_status *move(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  if (frame->f->registers[in->a].container != TN__CONTAINER_TENSOR) return vm->exe->values->vm->move(vm, frame, in);
  frame->used[in->b] = 0;
  return take_over(frame, in->a, &frame->blocks[in->b], frame->dims + frame->f->registers[in->b].first_dim);
}

static bool is_read(const tn__frame *frame, const tn__instruction *in, uint32_t root) {
  for (uint32_t i = 0; i < in->read_count; i++)
    if (frame->f->registers[in->operands[i]].root == root) return true;
  return false;
}

/* Does a call bring the memory and the shape of this result? */
static bool is_made_by_callee(const tn__register *r) {
  if (r->container != TN__CONTAINER_TENSOR) return false;
  return r->storage == TN__STORAGE_DYNAMIC || (r->storage == TN__STORAGE_OUTPUT && !r->early);
}

static bool is_bound_output(const tn__frame *frame, const tn__register *r) {
  return r->storage == TN__STORAGE_OUTPUT && frame->output_data[r->index] != NULL;
}

/* The callee wrote into the caller's buffer itself. */
static tn_status *take_in_place(tn__frame *frame, uint32_t to, const int64_t *dims) {
  const tn__register *r = &frame->f->registers[to];
  TN_RETURN_IF_ERROR(check_moved(r, dims));
  frame->data[to] = frame->output_data[r->index];
  for (int i = 0; i < r->rank; i++) frame->dims[r->first_dim + (uint32_t)i] = dims[i];
  return NULL;
}

static tn_status *pass_arguments(tn__frame *frame, tn__frame *callee, const tn__instruction *in) {
  const int64_t *dims;
  for (uint32_t i = 0; i < in->read_count; i++) {
    uint32_t number = in->operands[i];
    if (frame->f->registers[number].container != TN__CONTAINER_TENSOR) {
      callee->data[callee->f->inputs[i].reg] = frame->data[number];
      continue;
    }
    TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, number, &dims));
    if (callee->f->inputs[i].grows >= 0) dims = frame->input_shapes[frame->f->registers[number].index];
    tn__frame_set_input(callee, i, frame->data[frame->f->registers[number].root], dims);
  }
  for (uint32_t i = 0; i < in->write_count; i++) {
    uint32_t number = in->operands[in->read_count + i];
    const tn__register *r = &frame->f->registers[number];
    callee->output_data[i] = NULL;
    callee->output_capacity[i] = TN__EXACT_SHAPE;
    callee->output_valid[i] = -1;
    if (r->container != TN__CONTAINER_TENSOR) {
      callee->output_data[i] = frame->data[number];
      continue;
    }
    if (is_made_by_callee(r)) {
      if (is_bound_output(frame, r)) {
        callee->output_data[i] = frame->output_data[r->index];
        callee->output_shapes[i] = frame->output_shapes[r->index];
        callee->output_capacity[i] = frame->output_capacity[r->index];
        continue;
      }
      /* The old memory goes to the callee, which gives it back as its result: no call allocates twice. */
      if (!is_read(frame, in, number)) swap_blocks(&frame->blocks[number], &callee->blocks[callee->f->outputs[i].reg]);
      continue;
    }
    TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, number, &callee->output_shapes[i]));
    callee->output_data[i] = frame->data[r->root];
  }
  return NULL;
}

static tn_status *call_in_frame(tn__vm *vm, tn__frame *frame, tn__frame *callee, const tn__instruction *in, int depth) {
  TN_RETURN_IF_ERROR(pass_arguments(frame, callee, in));
  TN_RETURN_IF_ERROR(tn__vm_run(vm, callee, depth + 1));
  for (uint32_t i = 0; i < in->write_count; i++) {
    uint32_t number = in->operands[in->read_count + i], made = callee->f->outputs[i].reg;
    const tn__register *r = &frame->f->registers[number];
    const int64_t *dims = callee->dims + callee->f->registers[made].first_dim;
    if (!is_made_by_callee(r)) continue;
    /* What was too large for the caller's buffer is in the callee's own memory. */
    if (is_bound_output(frame, r) && callee->data[made] == frame->output_data[r->index])
      TN_RETURN_IF_ERROR(take_in_place(frame, number, dims));
    else
      TN_RETURN_IF_ERROR(take_over(frame, number, &callee->blocks[made], dims));
  }
  return NULL;
}

static tn_status *call(tn__vm *vm, tn__frame *frame, const tn__instruction *in, int depth) {
  const tn__function *f = &vm->exe->functions[in->callee];
  if (depth + 1 >= TN__MAX_CALL_DEPTH)
    return tn_status_create(TN_OUT_OF_RANGE, "calls are nested more than %d deep at function \"%s\"",
                            TN__MAX_CALL_DEPTH, f->name);
  tn__frame *callee;
  uint32_t path = vm->path;
  TN_RETURN_IF_ERROR(tn__vm_enter_call(vm, in, f));
  TN_RETURN_IF_ERROR(tn__frame_take(vm, f, &callee));
  callee->next = frame;
  tn_status *status = call_in_frame(vm, frame, callee, in, depth);
  vm->path = path;
  tn__frame_give_back(vm, callee);
  return status;
}

static tn_status *builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  switch ((tn__builtin)in->callee) {
    case TN__BUILTIN_FILL_ZERO: {
      const tn__register *r = &frame->f->registers[in->operands[0]];
      const int64_t *dims;
      TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->operands[0], &dims));
      tn__work_fill_zero(frame->data[r->root], element_count(frame, r) * (int64_t)tn__dtype_stored(r->dtype));
      return NULL;
    }
    default: return vm->exe->values->vm->run(vm, frame, in);
  }
}

static tn_status *cancelled(const tn__vm *vm, const tn__instruction *in) {
  if (in->op != TN__OP_KERNEL) return tn_status_create(TN_CANCELLED, "the invoke was cancelled");
  return tn_status_create(TN_CANCELLED, "the invoke was cancelled before kernel \"%s\"",
                          vm->exe->kernels[in->callee].about.name);
}

static bool makes_nothing(const tn__frame *frame, const tn__instruction *in) {
  int64_t most = 1;
  for (uint32_t i = in->read_count; i < in->read_count + in->write_count; i++) {
    const tn__register *r = &frame->f->registers[in->operands[i]];
    int64_t emptiness = tn__work_emptiness(frame->dims + r->first_dim, r->rank);
    if (emptiness == 0) return false;
    if (emptiness > most) most = emptiness;
  }
  return most == 2;
}

/* A kernel trusts the sizes in scalars, so the size of a view must match the memory behind it. */
static tn_status *check_late_views(tn__frame *frame, const tn__instruction *in) {
  const int64_t *ignored;
  tn__code_uses uses = tn__code_uses_of(frame->f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);)
    if (use.letter == 'r' || use.letter == 'w') TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, use.word, &ignored));
  return NULL;
}

static inline tn_status *run_kernel(tn__vm *vm, const tn__frame *frame, const tn__instruction *in, int32_t *result) {
  const uint32_t *operands = in->operands;
  uint32_t buffers = in->read_count + in->write_count;
  for (uint32_t i = 0; i < buffers; i++) vm->buffers[i] = frame->data[operands[i]];
  for (uint32_t i = 0; i < in->scalar_count; i++) vm->scalars[i] = frame->scalars[operands[buffers + i]];
  if (__builtin_expect(in->kernel == NULL, 0)) return tn__vm_launch(vm, in, result);
  *result = in->kernel(&vm->caller.env, vm->buffers, vm->scalars);
  return NULL;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static tn_status *interpret(tn__vm *vm, tn__frame *frame, uint32_t at, uint32_t stop, int depth);

static const char *profile_name(const tn__vm *vm, const tn__instruction *in) {
  switch (in->op) {
    case TN__OP_KERNEL: return vm->exe->kernels[in->callee].about.name;
    case TN__OP_BUILTIN: return tn__builtin_find(in->callee)->name;
    case TN__OP_COPY: return "copy";
    case TN__OP_ALLOC: return "alloc";
    default: return NULL; /* a call's time is that of what it calls */
  }
}

/* One instruction at a time, with clocks around those that a profile shows. */
static tn_status *interpret_profiled(tn__vm *vm, tn__frame *frame, uint32_t at, int depth) {
  const tn__instruction *code = frame->f->instructions;
  for (;;) {
    const tn__instruction *in = &code[at];
    if (in->op == TN__OP_RETURN) return NULL;
    if (in->op == TN__OP_JUMP && tn__rt_is_cancelled(&vm->caller.env)) return cancelled(vm, in);
    if (in->op == TN__OP_JUMP || (in->op == TN__OP_JUMP_IF_ZERO && frame->scalars[in->a] == 0)) {
      at = in->callee;
      continue;
    }
    at++;
    if (in->op == TN__OP_JUMP_IF_ZERO) continue;
    const char *name = profile_name(vm, in);
    uint64_t start = name == NULL ? 0 : tn__clock();
    TN_RETURN_IF_ERROR(interpret(vm, frame, at - 1, at, depth));
    tn__vm_drain(vm); /* each step takes the time that its device takes */
    if (name != NULL) vm->profile(vm->profile_user, name, start, tn__clock());
  }
}

/* Runs from instruction `at` to RETURN, or to `stop` when that is reached first. */
static tn_status *interpret(tn__vm *vm, tn__frame *frame, uint32_t at, uint32_t stop, int depth) {
  const tn__instruction *code = frame->f->instructions;
  int64_t *scalars = frame->scalars;
  tn_status *status = NULL;
  while (at != stop) {
    const tn__instruction *in = &code[at++];
    switch ((tn__opcode)in->op) {
      case TN__OP_RETURN: return NULL;
      case TN__OP_SCALAR_CONST:
      case TN__OP_SCALAR_OP:
      case TN__OP_SCALAR_SELECT: status = tn__vm_run_scalar(in, scalars); break;
      case TN__OP_SCALAR_SHAPE: {
        const int64_t *dims;
        status = tn__frame_current_dims(frame, in->b, &dims);
        if (status == NULL) scalars[in->a] = dims[in->c];
        break;
      }
      case TN__OP_SCALAR_LOAD: status = scalar_load(frame, in); break;
      case TN__OP_ASSERT:
        if (scalars[in->a] == 0) return tn__exe_assert_failed(vm->exe, frame->f, in, scalars, NULL);
        break;
      case TN__OP_ALLOC: status = alloc_register(vm, frame, in->a); break;
      case TN__OP_KERNEL: {
        if (tn__rt_is_cancelled(&vm->caller.env)) return cancelled(vm, in);
        if (in->may_make_nothing && makes_nothing(frame, in)) break;
        int32_t result = TN_KERNEL_OK;
        if (__builtin_expect(in->has_late_views, 0)) status = check_late_views(frame, in);
        if (status == NULL) status = run_kernel(vm, frame, in, &result);
        if (__builtin_expect(result != TN_KERNEL_OK, 0)) status = tn__vm_kernel_failed(vm, in, result);
        break;
      }
      case TN__OP_COPY: status = copy(vm, frame, in); break;
      case TN__OP_JUMP: /* loops come by here, also those without kernels */
        if (tn__rt_is_cancelled(&vm->caller.env)) return cancelled(vm, in);
        at = in->callee;
        break;
      case TN__OP_JUMP_IF_ZERO:
        if (scalars[in->a] == 0) at = in->callee;
        break;
      case TN__OP_CALL: status = call(vm, frame, in, depth); break;
      case TN__OP_BUILTIN: status = builtin(vm, frame, in); break;
      case TN__OP_MOVE: status = move(vm, frame, in); break;
      case TN__OP_RECORD:
      case TN__OP_AWAIT:
      case TN__OP_HOST_AWAIT: status = tn__vm_event(vm, frame->f, in); break;
      case TN__OP_COUNT: break;
    }
    if (__builtin_expect(status != NULL, 0)) return tn__exe_at_origin(vm->exe, frame->f, in, status);
  }
  return NULL;
}

/* ---- what callers have on the host ------------------------------------------------------------------------------- */

/* Where a result goes on the host: to the caller, unless it did not fit what was bound. NULL: it stays where it is. */
static tn_status *host_of_output(const tn__vm *vm, const tn__frame *frame, uint32_t index, int64_t bytes, void **out) {
  const tn__carried *c = &frame->carried[frame->f->input_count + index];
  bool fits =
      frame->output_data[index] != NULL && frame->data[frame->f->outputs[index].reg] == frame->output_data[index];
  *out = c->host;
  if (fits || c->block == NULL) return NULL;
  TN_RETURN_IF_ERROR(tn__block_reserve(vm->allocator, c->block, bytes));
  *out = c->block->data;
  return NULL;
}

/* Inputs to their devices before the code, or outputs from there behind it. */
static tn_status *carry_all(tn__vm *vm, tn__frame *frame, bool outputs) {
  const tn__function *f = frame->f;
  for (uint32_t i = 0; i < (outputs ? f->output_count : f->input_count); i++) {
    const tn__function_value *value = outputs ? &f->outputs[i] : &f->inputs[i];
    const tn__register *r = &f->registers[value->reg];
    if (!value->away) continue;
    int64_t bytes = element_count(frame, r) * (int64_t)tn__dtype_stored(r->dtype);
    void *host = frame->carried[i].host;
    if (outputs) TN_RETURN_IF_ERROR(host_of_output(vm, frame, i, bytes, &host));
    if (host == NULL || bytes == 0) continue;
    uint64_t start = vm->profile == NULL ? 0 : tn__clock();
    TN_RETURN_IF_ERROR(tn__vm_carry(vm, f, outputs, i, frame->data[value->reg], host, (size_t)bytes));
    if (vm->profile == NULL) continue;
    tn__vm_drain(vm);
    vm->profile(vm->profile_user, "copy", start, tn__clock());
  }
  return NULL;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void count_run(tn__frame *frame) { frame->run = frame->run == UINT32_MAX ? 1 : frame->run + 1; }

static tn_status *run_code(tn__vm *vm, tn__frame *frame, int depth) {
  const tn__function *f = frame->f;
  if (vm->profile != NULL) return interpret_profiled(vm, frame, f->prologue_count, depth);
  return interpret(vm, frame, f->prologue_count, UINT32_MAX, depth);
}

static tn_status *run_rest(tn__vm *vm, tn__frame *frame, int depth) {
  if (depth > 0 || frame->carried == NULL) return run_code(vm, frame, depth);
  TN_RETURN_IF_ERROR(carry_all(vm, frame, false));
  TN_RETURN_IF_ERROR(run_code(vm, frame, depth));
  return carry_all(vm, frame, true);
}

static tn_status *run(tn__vm *vm, tn__frame *frame, int depth) {
  const tn__function *f = frame->f;
  TN_RETURN_IF_ERROR(tn__vm_bind_symbols(f, frame->input_shapes, frame->scalars));
  TN_RETURN_IF_ERROR(interpret(vm, frame, 0, f->prologue_count, depth));
  TN_RETURN_IF_ERROR(after_prologue(vm, frame));
  return run_rest(vm, frame, depth);
}

tn_status *tn__vm_run(tn__vm *vm, tn__frame *frame, int depth) {
  bool queued = depth == 0 && vm->queues != NULL;
  count_run(frame);
  if (queued) tn__vm_begin_queues(vm, frame->f);
  tn_status *status = run(vm, frame, depth);
  return queued ? tn__vm_end_queues(vm, status) : status;
}

static tn_status *run_again(tn__vm *vm, tn__frame *frame) {
  const tn__function *f = frame->f;
  /* As the last prologue left them, the later ones zero. */
  if (f->scalar_count > 0) memcpy(frame->scalars, frame->laid_out_scalars, f->scalar_count * sizeof(int64_t));
  if (f->prologue_loads) {
    TN_RETURN_IF_ERROR(interpret(vm, frame, 0, f->prologue_count, 0));
    TN_RETURN_IF_ERROR(after_prologue(vm, frame));
  }
  return run_rest(vm, frame, 0);
}

tn_status *tn__vm_run_again(tn__vm *vm, tn__frame *frame) {
  count_run(frame);
  if (vm->queues != NULL) tn__vm_begin_queues(vm, frame->f);
  tn_status *status = run_again(vm, frame);
  return vm->queues != NULL ? tn__vm_end_queues(vm, status) : status;
}
