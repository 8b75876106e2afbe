#include "runtime/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/strbuf.h"

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

/* Room for `bytes` more. `times` what is needed is asked for: 2 when tensors are added one by one, so that each is
 * copied but a few times, however many there will be. */
static tn_status *reserve_elements(const tn_allocator *allocator, tn__list *list, size_t element, int64_t bytes,
                                   int times) {
  int64_t want, room;
  if (list->count == 0) list->used = 0;
  if (list->elements.data != NULL && bytes <= (int64_t)list->elements.capacity - list->used) return NULL;
  if (tn__add_overflow_i64(tn__list_alive(list, (int64_t)element), bytes, &want) ||
      tn__mul_overflow_i64(want, times, &room))
    room = INT64_MAX / 2;
  tn__block old = list->elements, fresh = {0};
  bool own = !is_lent(list);
  if (!own) fresh = list->spare, list->spare = (tn__block){0};
  tn_status *status = tn__block_reserve(allocator, &fresh, room);
  if (status != NULL) {
    if (!own) list->spare = fresh;
    return status;
  }
  tn__list_gather(list, (int64_t)element, fresh.data);
  list->elements = fresh;
  if (own) tn__block_release(allocator, &old);
  return NULL;
}

tn_status *tn__list_add(const tn_allocator *allocator, tn__list *list, size_t element, int64_t at, int rank,
                        const int64_t *dims, void **data) {
  int64_t bytes = tn__list_tensor_bytes(dims, rank, (int64_t)element);
  if (bytes > INT64_MAX / 4)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a sequence asked for %lld bytes", (long long)bytes);
  TN_RETURN_IF_ERROR(grow_items(allocator, list, rank, list->count + 1));
  TN_RETURN_IF_ERROR(reserve_elements(allocator, list, element, tn__list_padded(bytes), 2));
  *data = tn__list_put(list, at, rank, dims, (int64_t)element);
  return NULL;
}

tn_status *tn__list_copy(const tn_allocator *allocator, tn__list *to, const tn__list *from, size_t element) {
  if (to == from) return NULL;
  tn__list_clear(to, from->absent);
  if (from->count == 0) return NULL;
  TN_RETURN_IF_ERROR(grow_items(allocator, to, (int)from->stride - TN__LIST_DIMS, from->count));
  TN_RETURN_IF_ERROR(reserve_elements(allocator, to, element, tn__list_alive(from, (int64_t)element), 1));
  tn__list_put_all(to, from, (int64_t)element);
  return NULL;
}

tn_status *tn__list_require_rank(const tn__list *list, int64_t at, int rank) {
  int own = tn__list_rank(list, at);
  if (own == rank) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "tensor %lld of a sequence has %d dimension%s where %d %s wanted",
                          (long long)at, own, tn__plural(own), rank, rank == 1 ? "is" : "are");
}

/* ---- builtins: operands ----------------------------------------------------------------------------------------- */

static const tn__register *register_at(const tn__frame *frame, uint32_t number) { return &frame->f->registers[number]; }
static tn__list *list_in(const tn__frame *frame, uint32_t number) { return frame->data[number]; }

static tn_status *absent(void) {
  return tn_status_create(TN_INVALID_ARGUMENT, "an optional value is needed, and it is absent");
}

static tn_status *find_position(const tn__list *list, int64_t position, bool behind, int64_t *out) {
  int problem = tn__list_find(list, position, behind, out);
  if (problem == 0) return NULL;
  if (problem == TN__LIST_ABSENT) return absent();
  if (position == INT64_MAX) return tn_status_create(TN_OUT_OF_RANGE, "nothing can be taken from an empty sequence");
  return tn_status_create(TN_OUT_OF_RANGE, "position %lld is outside of a sequence of %lld tensors",
                          (long long)position, (long long)list->count);
}

static tn_status *add_tensor(tn__vm *vm, tn__frame *frame, tn__list *list, uint32_t tensor, int64_t at) {
  const int64_t *dims;
  void *data;
  TN_RETURN_IF_ERROR(tn__current_dims(frame, tensor, &dims));
  const tn__register *r = register_at(frame, tensor);
  size_t element = tn__dtype_stored(r->dtype);
  TN_RETURN_IF_ERROR(tn__list_add(vm->allocator, list, element, at, r->rank, dims, &data));
  int64_t bytes = tn__list_tensor_bytes(dims, r->rank, (int64_t)element);
  if (bytes > 0) memcpy(data, frame->data[r->root], (size_t)bytes);
  return NULL;
}

static tn_status *copy_list(tn__vm *vm, tn__frame *frame, uint32_t to, uint32_t from) {
  size_t element = tn__dtype_stored(register_at(frame, to)->dtype);
  return tn__list_copy(vm->allocator, list_in(frame, to), list_in(frame, from), element);
}

/* ---- builtins: joining and splitting ---------------------------------------------------------------------------- */

static tn_status *bad_axis(int64_t axis, int rank) {
  return tn_status_create(TN_OUT_OF_RANGE, "axis %lld of a tensor of rank %d", (long long)axis, rank);
}

static tn_status *shapes_differ(const int64_t *a, const int64_t *b, int rank, int64_t at) {
  char first[256], other[256];
  tn__format_shape(a, rank, first, sizeof(first));
  tn__format_shape(b, rank, other, sizeof(other));
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
  TN_RETURN_IF_ERROR(tn__make_result(vm, frame, number, dims));
  tn__list_join(list, rank, (int)axis, result->rank, dims, (int64_t)tn__dtype_stored(result->dtype),
                frame->data[result->root]);
  return NULL;
}

static tn_status *split(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__register *tensor = register_at(frame, in->operands[0]), *sizes = register_at(frame, in->operands[1]);
  const tn__register *of = register_at(frame, in->operands[2]);
  tn__list *list = list_in(frame, in->operands[2]);
  int64_t axis = frame->scalars[in->operands[3]], own[TN_MAX_RANK] = {0}, start = 0, count = 1, at = 0;
  int64_t element = (int64_t)tn__dtype_stored(tensor->dtype);
  const int64_t *dims, *size_dims, *lengths = frame->data[sizes->root];
  TN_RETURN_IF_ERROR(tn__current_dims(frame, in->operands[0], &dims));
  TN_RETURN_IF_ERROR(tn__current_dims(frame, in->operands[1], &size_dims));
  for (int i = 0; i < sizes->rank; i++) count *= size_dims[i];
  switch (tn__list_check_pieces(dims, tensor->rank, axis, of->rank, lengths, count, &at, &start)) {
    case 0: break;
    case TN__LIST_BAD_AXIS: return bad_axis(axis, tensor->rank);
    case TN__LIST_BAD_PIECE:
      return tn_status_create(TN_INVALID_ARGUMENT, "piece %lld of a split has length %lld, and %lld of %lld are left",
                              (long long)at, (long long)lengths[at], (long long)(dims[axis] - start),
                              (long long)dims[axis]);
    default:
      return tn_status_create(TN_INVALID_ARGUMENT, "the pieces of a split have %lld elements together, not %lld",
                              (long long)start, (long long)dims[axis]);
  }
  int64_t bytes = tn__list_piece_bytes(dims, tensor->rank, (int)axis, lengths, count, element);
  tn__list_clear(list, false);
  TN_RETURN_IF_ERROR(grow_items(vm->allocator, list, of->rank, count));
  TN_RETURN_IF_ERROR(reserve_elements(vm->allocator, list, (size_t)element, bytes, 1));
  tn__list_put_pieces(list, dims, tensor->rank, (int)axis, of->rank, lengths, count, element, frame->data[tensor->root],
                      own);
  return NULL;
}

/* ---- builtins: the others --------------------------------------------------------------------------------------- */

static tn_status *insert(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[2];
  tn__list *list = list_in(frame, number);
  int64_t at;
  TN_RETURN_IF_ERROR(copy_list(vm, frame, number, in->operands[0]));
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[3]], true, &at));
  return add_tensor(vm, frame, list, in->operands[1], at);
}

static tn_status *take_out(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[1];
  tn__list *list = list_in(frame, number);
  int64_t at;
  TN_RETURN_IF_ERROR(copy_list(vm, frame, number, in->operands[0]));
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[2]], false, &at));
  tn__list_take_out(list, at);
  return NULL;
}

static tn_status *read_one(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__list *list = list_in(frame, in->operands[0]);
  const tn__register *result = register_at(frame, in->operands[1]);
  int64_t at;
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[2]], false, &at));
  const int64_t *dims = tn__list_dims(list, at);
  TN_RETURN_IF_ERROR(tn__list_require_rank(list, at, result->rank));
  TN_RETURN_IF_ERROR(tn__make_result(vm, frame, in->operands[1], dims));
  int64_t bytes = tn__list_bytes_at(list, at, (int64_t)tn__dtype_stored(result->dtype));
  if (bytes > 0) memcpy(frame->data[result->root], tn__list_data(list, at), (size_t)bytes);
  return NULL;
}

tn_status *tn__list_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  switch ((tn__builtin)in->callee) {
    case TN__BUILTIN_LIST_CLEAR:
      tn__list_clear(list_in(frame, in->operands[0]), frame->scalars[in->operands[1]] == 0);
      return NULL;
    case TN__BUILTIN_LIST_INSERT: return insert(vm, frame, in);
    case TN__BUILTIN_LIST_ERASE: return take_out(vm, frame, in);
    case TN__BUILTIN_LIST_AT: return read_one(vm, frame, in);
    case TN__BUILTIN_LIST_LENGTH: {
      const tn__list *list = list_in(frame, in->operands[0]);
      if (list->absent) return absent();
      *(int64_t *)frame->data[register_at(frame, in->operands[1])->root] = list->count;
      return NULL;
    }
    case TN__BUILTIN_LIST_PRESENT:
      *(uint8_t *)frame->data[register_at(frame, in->operands[1])->root] = !list_in(frame, in->operands[0])->absent;
      return NULL;
    case TN__BUILTIN_LIST_JOIN: return join(vm, frame, in);
    case TN__BUILTIN_LIST_SPLIT: return split(vm, frame, in);
    default: return tn_status_create(TN_INTERNAL, "builtin %u", in->callee);
  }
}
