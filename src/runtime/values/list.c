#include "runtime/values/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/invariant.h"
#include "base/strbuf.h"

/* Why there is no room is left in `status`. */
typedef struct tn__list_memory {
  const tn_allocator *allocator;
  tn_status *status;
} tn__list_memory;
static inline int tn__list_room(tn__list_memory *memory, tn__list *list, int64_t element, int rank, int64_t count,
                                int64_t bytes, int times);
#include "runtime/values/list_steps.h"

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static size_t item_bytes(const tn__list *list) { return (size_t)list->stride * sizeof(int64_t); }

void tn__list_release(const tn_allocator *allocator, tn__list *list) {
  tn__free(allocator, list->items, (size_t)list->capacity * item_bytes(list), 0);
  tn__list_lend(allocator, list, NULL, 0);
  tn__block_release(allocator, &list->elements);
  tn__block_release(allocator, &list->spare);
  *list = (tn__list){0};
}

static bool is_lent(const tn__list *list) { return list->lent.data != NULL && list->elements.data == list->lent.data; }

void tn__list_lend(const tn_allocator *allocator, tn__list *list, void *memory, size_t size) {
  tn__list_clear(list, false);
  if (!is_lent(list) && list->elements.data != NULL) {
    tn__block_release(allocator, &list->spare);
    list->spare = list->elements;
  }
  list->lent = (tn__block){memory, size};
  list->elements = memory != NULL ? list->lent : (tn__block){0};
}

/* Room for `count` tensors, and for records of `rank` dimensions. */
static tn_status *grow_items(const tn_allocator *allocator, tn__list *list, int rank, int64_t count) {
  int64_t stride = TN__LIST_DIMS + rank > list->stride ? TN__LIST_DIMS + rank : list->stride, capacity = list->capacity;
  if (count <= capacity && stride == list->stride) return NULL;
  if (count > capacity) capacity = capacity * 2 > count ? capacity * 2 : count < 4 ? 4 : count;
  void *memory, *old = list->items;
  size_t size = (size_t)list->capacity * item_bytes(list);
  TN_RETURN_IF_ERROR(tn__alloc(allocator, (size_t)capacity, (size_t)stride * sizeof(int64_t), 0, &memory));
  tn__list_gather_records(list, memory, stride);
  list->capacity = capacity;
  tn__free(allocator, old, size, 0);
  return NULL;
}

bool tn__list_settle(tn__list *list, size_t element, int64_t *needed) {
  *needed = tn__list_alive(list, (int64_t)element);
  if (is_lent(list)) return true;
  if (*needed > (int64_t)list->lent.capacity) return false;
  tn__block old = list->elements;
  tn__list_gather(list, (int64_t)element, list->lent.data);
  list->elements = list->lent;
  list->spare = old; /* which had none: it was what the elements moved to */
  return true;
}

/* Room for `bytes` more. */
static tn_status *reserve_elements(const tn_allocator *allocator, tn__list *list, int64_t element, int64_t bytes,
                                   int times) {
  int64_t want, room;
  if (list->count == 0) list->used = 0;
  if (list->elements.data != NULL && bytes <= (int64_t)list->elements.capacity - list->used) return NULL;
  if (tn__add_overflow_i64(tn__list_alive(list, element), bytes, &want) || tn__mul_overflow_i64(want, times, &room))
    room = INT64_MAX / 2;
  tn__block old = list->elements, fresh = {0};
  bool own = !is_lent(list);
  if (!own) fresh = list->spare, list->spare = (tn__block){0};
  tn_status *status = tn__block_reserve(allocator, &fresh, room);
  if (status != NULL) {
    if (!own) list->spare = fresh;
    return status;
  }
  tn__list_gather(list, element, fresh.data);
  list->elements = fresh;
  if (own) tn__block_release(allocator, &old);
  return NULL;
}

static inline int tn__list_room(tn__list_memory *memory, tn__list *list, int64_t element, int rank, int64_t count,
                                int64_t bytes, int times) {
  if (bytes > INT64_MAX / 4)
    memory->status =
        tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a sequence asked for %lld bytes", (long long)bytes);
  if (memory->status == NULL) memory->status = grow_items(memory->allocator, list, rank, count);
  if (memory->status == NULL) memory->status = reserve_elements(memory->allocator, list, element, bytes, times);
  return memory->status == NULL ? 0 : TN__LIST_NO_MEMORY;
}

tn_status *tn__list_add(const tn_allocator *allocator, tn__list *list, size_t element, int64_t at, int rank,
                        const int64_t *dims, void **data) {
  tn__list_memory memory = {allocator, NULL};
  int problem = tn__list_make_item(&memory, list, (int64_t)element, at, rank, dims, data);
  TN__INVARIANT((problem == 0) == (memory.status == NULL)); /* the only possible failure is a lack of memory */
  return memory.status;
}

tn_status *tn__list_copy(const tn_allocator *allocator, tn__list *to, const tn__list *from, size_t element) {
  tn__list_memory memory = {allocator, NULL};
  tn__list_assign(&memory, to, from, (int64_t)element);
  return memory.status;
}

static tn_status *other_rank(const tn__list *list, int64_t at, int rank) {
  int own = tn__list_rank(list, at);
  return tn_status_create(TN_INVALID_ARGUMENT, "tensor %lld of a sequence has %d dimension%s where %d %s wanted",
                          (long long)at, own, tn__plural(own), rank, rank == 1 ? "is" : "are");
}

tn_status *tn__list_require_rank(const tn__list *list, int rank) {
  int64_t at;
  return tn__list_require(list, rank, &at) == 0 ? NULL : other_rank(list, at, rank);
}

/* ---- builtins: operands ----------------------------------------------------------------------------------------- */

static const tn__register *register_at(const tn__frame *frame, uint32_t number) { return &frame->f->registers[number]; }
static tn__list *list_in(const tn__frame *frame, uint32_t number) { return frame->data[number]; }

static tn_status *absent(void) {
  return tn_status_create(TN_INVALID_ARGUMENT, "an optional value is needed, and it is absent");
}

/* A problem of finding a position, or of memory. */
static tn_status *position_status(const tn__list_memory *memory, const tn__list *list, int64_t position, int problem) {
  if (problem == 0 || problem == TN__LIST_NO_MEMORY) return memory->status;
  if (problem == TN__LIST_ABSENT) return absent();
  if (position == INT64_MAX) return tn_status_create(TN_OUT_OF_RANGE, "nothing can be taken from an empty sequence");
  return tn_status_create(TN_OUT_OF_RANGE, "position %lld is outside of a sequence of %lld tensors",
                          (long long)position, (long long)list->count);
}

static int64_t element_of(const tn__frame *frame, uint32_t number) {
  return (int64_t)tn__dtype_stored(register_at(frame, number)->dtype);
}

/* ---- lists of frames, COPY and MOVE ------------------------------------------------------------------------------ */

void tn__list_release_all(tn__vm *vm, tn__frame *frame) {
  for (uint32_t i = 0; i < frame->f->list_count; i++) tn__list_release(vm->allocator, (tn__list *)frame->lists + i);
}

tn_status *tn__list_copy_instruction(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__register *to = &frame->f->registers[in->a], *from = &frame->f->registers[in->b];
  const tn__list *source = frame->data[in->b];
  if (from->any_rank && !to->any_rank) TN_RETURN_IF_ERROR(tn__list_require_rank(source, to->rank));
  return tn__list_copy(vm->allocator, frame->data[in->a], source, tn__dtype_stored(to->dtype));
}

tn_status *tn__list_move_instruction(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__list *to = frame->data[in->a], *from = frame->data[in->b], kept = *to;
  if (to->lent.data != NULL || from->lent.data != NULL) { /* the caller's memory stays where it was lent */
    size_t element = tn__dtype_stored(frame->f->registers[in->a].dtype);
    TN_RETURN_IF_ERROR(tn__list_copy(vm->allocator, to, from, element));
    tn__list_clear(from, false);
    return NULL;
  }
  *to = *from;
  *from = kept;
  return NULL;
}

/* ---- builtins: joining and splitting ---------------------------------------------------------------------------- */

static tn_status *bad_axis(int64_t axis, int rank) {
  return tn_status_create(TN_OUT_OF_RANGE, "axis %lld of a tensor of rank %d", (long long)axis, rank);
}

static tn_status *shapes_differ(const int64_t *a, const int64_t *b, int rank, int64_t at) {
  char first[256], other[256];
  tn__rt_format_shape(a, rank, first, sizeof(first));
  tn__rt_format_shape(b, rank, other, sizeof(other));
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "a sequence cannot be concatenated: tensor 0 has shape %s, and tensor %lld has %s", first,
                          (long long)at, other);
}

/* Of the result of no tensors: as its register has it, where a size that nobody knows is 0. */
static int64_t empty_dim(const tn__frame *frame, const tn__operand *dim) {
  int64_t size = tn__operand_value(dim, frame->scalars);
  return size < 0 ? 0 : size;
}

static tn_status *join(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[1];
  const tn__list *list = list_in(frame, in->operands[0]);
  const tn__register *result = register_at(frame, number);
  int rank = register_at(frame, in->operands[0])->rank;
  int64_t axis = frame->scalars[in->operands[2]], dims[TN_MAX_RANK] = {0}, at = 0;
  for (int i = 0; i < result->rank; i++) dims[i] = empty_dim(frame, &result->dims[i]);
  switch (tn__list_joined_shape(list, rank, axis, result->rank, dims, &at)) {
    case 0: break;
    case TN__LIST_ABSENT: return absent();
    case TN__LIST_BAD_AXIS: return bad_axis(axis, result->rank);
    case TN__LIST_EMPTY: return tn_status_create(TN_INVALID_ARGUMENT, "an empty sequence cannot be concatenated");
    case TN__LIST_DIFFERS: return shapes_differ(tn__list_dims(list, 0), tn__list_dims(list, at), rank, at);
    default: return tn_status_create(TN_OUT_OF_RANGE, "a sequence is too long to be concatenated");
  }
  TN_RETURN_IF_ERROR(tn__vm_make_result(vm, frame, number, dims));
  tn__list_join(list, rank, (int)axis, result->rank, dims, (int64_t)tn__dtype_stored(result->dtype),
                frame->data[result->root]);
  return NULL;
}

static tn_status *split(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__register *tensor = register_at(frame, in->operands[0]), *sizes = register_at(frame, in->operands[1]);
  const tn__register *of = register_at(frame, in->operands[2]);
  tn__list *list = list_in(frame, in->operands[2]);
  int64_t axis = frame->scalars[in->operands[3]], own[TN_MAX_RANK] = {0}, start = 0, count = 1, at = 0;
  tn__list_memory memory = {vm->allocator, NULL};
  const int64_t *dims, *size_dims, *lengths = frame->data[sizes->root];
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->operands[0], &dims));
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, in->operands[1], &size_dims));
  for (int i = 0; i < sizes->rank; i++) count *= size_dims[i];
  switch (tn__list_split(&memory, list, element_of(frame, in->operands[0]), of->rank, dims, tensor->rank, axis, lengths,
                         count, frame->data[tensor->root], own, &at, &start)) {
    case 0:
    case TN__LIST_NO_MEMORY: return memory.status;
    case TN__LIST_BAD_AXIS: return bad_axis(axis, tensor->rank);
    case TN__LIST_BAD_PIECE:
      return tn_status_create(TN_INVALID_ARGUMENT, "piece %lld of a split has length %lld, and %lld of %lld are left",
                              (long long)at, (long long)lengths[at], (long long)(dims[axis] - start),
                              (long long)dims[axis]);
    default:
      return tn_status_create(TN_INVALID_ARGUMENT, "the pieces of a split have %lld elements together, not %lld",
                              (long long)start, (long long)dims[axis]);
  }
}

/* ---- builtins: the others --------------------------------------------------------------------------------------- */

static tn_status *insert(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[2], tensor = in->operands[1];
  tn__list_memory memory = {vm->allocator, NULL};
  int64_t position = frame->scalars[in->operands[3]];
  const tn__register *r = register_at(frame, tensor);
  const int64_t *dims;
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, tensor, &dims));
  int problem = tn__list_insert(&memory, list_in(frame, number), list_in(frame, in->operands[0]),
                                element_of(frame, number), position, dims, r->rank, frame->data[r->root]);
  return position_status(&memory, list_in(frame, number), position, problem);
}

static tn_status *take_out(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[1];
  tn__list_memory memory = {vm->allocator, NULL};
  int64_t position = frame->scalars[in->operands[2]];
  int problem = tn__list_erase(&memory, list_in(frame, number), list_in(frame, in->operands[0]),
                               element_of(frame, number), position);
  return position_status(&memory, list_in(frame, number), position, problem);
}

static tn_status *read_one(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__list *list = list_in(frame, in->operands[0]);
  const tn__register *result = register_at(frame, in->operands[1]);
  const tn__list_memory none = {NULL, NULL};
  int64_t position = frame->scalars[in->operands[2]], at;
  int problem = tn__list_look(list, position, result->rank, &at);
  if (problem == TN__LIST_OTHER_RANK) return other_rank(list, at, result->rank);
  if (problem != 0) return position_status(&none, list, position, problem);
  TN_RETURN_IF_ERROR(tn__vm_make_result(vm, frame, in->operands[1], tn__list_dims(list, at)));
  tn__list_read(list, at, element_of(frame, in->operands[1]), frame->data[result->root]);
  return NULL;
}

/* The one element of the result of list_length and list_present. */
static void *answer_in(const tn__frame *frame, const tn__instruction *in) {
  return frame->data[register_at(frame, in->operands[1])->root];
}

tn_status *tn__list_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  switch ((tn__builtin)in->callee) {
    case TN__BUILTIN_LIST_CLEAR:
      tn__list_clear(list_in(frame, in->operands[0]), frame->scalars[in->operands[1]] == 0);
      return NULL;
    case TN__BUILTIN_LIST_INSERT: return insert(vm, frame, in);
    case TN__BUILTIN_LIST_ERASE: return take_out(vm, frame, in);
    case TN__BUILTIN_LIST_AT: return read_one(vm, frame, in);
    case TN__BUILTIN_LIST_LENGTH:
      return tn__list_length(list_in(frame, in->operands[0]), answer_in(frame, in)) == 0 ? NULL : absent();
    case TN__BUILTIN_LIST_PRESENT: tn__list_present(list_in(frame, in->operands[0]), answer_in(frame, in)); return NULL;
    case TN__BUILTIN_LIST_JOIN: return join(vm, frame, in);
    case TN__BUILTIN_LIST_SPLIT: return split(vm, frame, in);
    default: return tn_status_create(TN_INTERNAL, "builtin %u", in->callee);
  }
}
