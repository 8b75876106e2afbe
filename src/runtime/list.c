#include "runtime/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"

/* ---- lists ------------------------------------------------------------------------------------------------------ */

/* The record of a tensor: where its elements are, its rank, its dimensions. */
enum { OFFSET, RANK, DIMS };

static size_t item_bytes(const tn__list *list) { return (size_t)list->stride * sizeof(int64_t); }
static int64_t *item(const tn__list *list, int64_t at) { return list->items + at * list->stride; }

/* Bytes of a tensor that is there: no overflow. */
static int64_t tensor_bytes(const int64_t *dims, int rank, size_t element) {
  int64_t bytes = (int64_t)element;
  for (int i = 0; i < rank; i++)
    if (dims[i] == 0) return 0; /* whatever the others are */
  for (int i = 0; i < rank; i++) bytes *= dims[i];
  return bytes;
}

static int64_t padded(int64_t bytes) { return (bytes + TN_KERNEL_ALIGNMENT - 1) & -(int64_t)TN_KERNEL_ALIGNMENT; }

int tn__list_rank(const tn__list *list, int64_t at) { return (int)item(list, at)[RANK]; }
const int64_t *tn__list_dims(const tn__list *list, int64_t at) { return item(list, at) + DIMS; }
void *tn__list_data(const tn__list *list, int64_t at) { return (char *)list->elements.data + item(list, at)[OFFSET]; }

static int64_t bytes_at(const tn__list *list, int64_t at, size_t element) {
  return tensor_bytes(tn__list_dims(list, at), tn__list_rank(list, at), element);
}

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

void tn__list_clear(tn__list *list, bool absent) {
  list->absent = absent;
  list->count = list->used = 0;
}

/* Room for `count` tensors, and for records of `rank` dimensions. */
static tn_status *grow_items(const tn_allocator *allocator, tn__list *list, int rank, int64_t count) {
  int64_t stride = DIMS + rank > list->stride ? DIMS + rank : list->stride, capacity = list->capacity;
  if (count <= capacity && stride == list->stride) return NULL;
  if (count > capacity) capacity = capacity * 2 > count ? capacity * 2 : count < 4 ? 4 : count;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, (size_t)capacity, (size_t)stride * sizeof(int64_t), 0, &memory));
  int64_t *fresh = memory;
  for (int64_t i = 0; i < list->count; i++) memcpy(fresh + i * stride, item(list, i), item_bytes(list));
  tn__free(allocator, list->items, (size_t)list->capacity * item_bytes(list), 0);
  list->items = fresh, list->capacity = capacity, list->stride = stride;
  return NULL;
}

/* Into another block, which is large enough, in order of position and without gaps. */
static void gather_elements(tn__list *list, size_t element, const tn__block *fresh) {
  int64_t used = 0;
  for (int64_t i = 0; i < list->count; i++) {
    int64_t bytes = bytes_at(list, i, element);
    if (bytes > 0) memcpy((char *)fresh->data + used, tn__list_data(list, i), (size_t)bytes);
    item(list, i)[OFFSET] = used;
    used += padded(bytes);
  }
  list->elements = *fresh, list->used = used;
}

static int64_t alive_bytes(const tn__list *list, size_t element) {
  int64_t alive = 0;
  for (int64_t i = 0; i < list->count; i++) alive += padded(bytes_at(list, i, element));
  return alive;
}

bool tn__list_settle(tn__list *list, size_t element, int64_t *needed) {
  *needed = alive_bytes(list, element);
  if (is_lent(list)) return true;
  if (*needed > (int64_t)list->lent.capacity) return false;
  tn__block old = list->elements;
  gather_elements(list, element, &list->lent);
  list->spare = old; /* which had none: it was what the elements moved to */
  return true;
}

/* Room for `bytes` more. Twice what is alive is asked for, so that adding tensors one by one copies each but a few
 * times, however many there will be. */
static tn_status *reserve_elements(const tn_allocator *allocator, tn__list *list, size_t element, int64_t bytes) {
  int64_t want, room;
  if (list->count == 0) list->used = 0;
  if (list->elements.data != NULL && bytes <= (int64_t)list->elements.capacity - list->used) return NULL;
  if (tn__add_overflow_i64(alive_bytes(list, element), bytes, &want) || tn__mul_overflow_i64(want, 2, &room))
    room = INT64_MAX / 2;
  tn__block old = list->elements, fresh = {0};
  bool own = !is_lent(list);
  if (!own) fresh = list->spare, list->spare = (tn__block){0};
  tn_status *status = tn__block_reserve(allocator, &fresh, room);
  if (status != NULL) {
    if (!own) list->spare = fresh;
    return status;
  }
  gather_elements(list, element, &fresh);
  if (own) tn__block_release(allocator, &old);
  return NULL;
}

tn_status *tn__list_add(const tn_allocator *allocator, tn__list *list, size_t element, int64_t at, int rank,
                        const int64_t *dims, void **data) {
  int64_t bytes = tensor_bytes(dims, rank, element);
  if (bytes > INT64_MAX / 4)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a sequence asked for %lld bytes", (long long)bytes);
  TN_RETURN_IF_ERROR(grow_items(allocator, list, rank, list->count + 1));
  TN_RETURN_IF_ERROR(reserve_elements(allocator, list, element, padded(bytes)));
  int64_t *record = item(list, at);
  memmove(record + list->stride, record, (size_t)(list->count - at) * item_bytes(list));
  record[OFFSET] = list->used, record[RANK] = rank;
  for (int i = 0; i < rank; i++) record[DIMS + i] = dims[i];
  list->used += padded(bytes);
  list->count++;
  list->absent = false;
  *data = tn__list_data(list, at);
  return NULL;
}

tn_status *tn__list_copy(const tn_allocator *allocator, tn__list *to, const tn__list *from, size_t element) {
  if (to == from) return NULL;
  tn__list_clear(to, from->absent);
  for (int64_t i = 0; i < from->count; i++) {
    void *data;
    int64_t bytes = bytes_at(from, i, element);
    TN_RETURN_IF_ERROR(tn__list_add(allocator, to, element, i, tn__list_rank(from, i), tn__list_dims(from, i), &data));
    if (bytes > 0) memcpy(data, tn__list_data(from, i), (size_t)bytes);
  }
  return NULL;
}

tn_status *tn__list_require_rank(const tn__list *list, int64_t at, int rank) {
  int own = tn__list_rank(list, at);
  if (own == rank) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "tensor %lld of a sequence has %d dimensions where %d are wanted",
                          (long long)at, own, rank);
}

static void erase(tn__list *list, int64_t at) {
  int64_t *record = item(list, at);
  memmove(record, record + list->stride, (size_t)(list->count - at - 1) * item_bytes(list));
  list->count--;
}

/* ---- builtins: operands ----------------------------------------------------------------------------------------- */

static const tn__register *register_at(const tn__frame *frame, uint32_t number) { return &frame->f->registers[number]; }
static tn__list *list_in(const tn__frame *frame, uint32_t number) { return frame->data[number]; }

static tn_status *require_present(const tn__list *list) {
  if (!list->absent) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "an optional value is needed, and it is absent");
}

/* A position from the start, in [0, limit); from the end when it is negative. `at_end` is what TN__LIST_END means. */
static tn_status *find_position(const tn__list *list, int64_t position, int64_t limit, int64_t at_end, int64_t *out) {
  TN_RETURN_IF_ERROR(require_present(list));
  int64_t at = position == TN__LIST_END ? at_end : position < 0 ? position + list->count : position;
  if (at < 0 || at >= limit) {
    if (position == TN__LIST_END)
      return tn_status_create(TN_OUT_OF_RANGE, "nothing can be taken from an empty sequence");
    return tn_status_create(TN_OUT_OF_RANGE, "position %lld is outside of a sequence of %lld tensors",
                            (long long)position, (long long)list->count);
  }
  *out = at;
  return NULL;
}

static tn_status *add_tensor(tn__vm *vm, tn__frame *frame, tn__list *list, uint32_t tensor, int64_t at) {
  const int64_t *dims;
  void *data;
  TN_RETURN_IF_ERROR(tn__current_dims(frame, tensor, &dims));
  const tn__register *r = register_at(frame, tensor);
  size_t element = tn__dtype_stored(r->dtype);
  TN_RETURN_IF_ERROR(tn__list_add(vm->allocator, list, element, at, r->rank, dims, &data));
  int64_t bytes = tensor_bytes(dims, r->rank, element);
  if (bytes > 0) memcpy(data, frame->data[r->root], (size_t)bytes);
  return NULL;
}

static tn_status *copy_list(tn__vm *vm, tn__frame *frame, uint32_t to, uint32_t from) {
  size_t element = tn__dtype_stored(register_at(frame, to)->dtype);
  return tn__list_copy(vm->allocator, list_in(frame, to), list_in(frame, from), element);
}

/* ---- builtins: joining and splitting ---------------------------------------------------------------------------- */

/* A tensor that has elements, as `outer` pieces of `inner` bytes along one axis. */
static void split_shape(const int64_t *dims, int rank, int axis, size_t element, int64_t *outer, int64_t *inner) {
  *outer = 1, *inner = (int64_t)element;
  for (int i = 0; i < axis; i++) *outer *= dims[i];
  for (int i = axis; i < rank; i++) *inner *= dims[i];
}

static tn_status *shapes_differ(const int64_t *a, const int64_t *b, int rank, int64_t at) {
  char first[256], other[256];
  tn__format_shape(a, rank, first, sizeof(first));
  tn__format_shape(b, rank, other, sizeof(other));
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "a sequence cannot be concatenated: tensor 0 has shape %s, and tensor %lld has %s", first,
                          (long long)at, other);
}

/* The shape of all tensors joined: along `axis`, or along a new axis there. */
static tn_status *joined_shape(const tn__list *list, int rank, int axis, bool stack, const tn__register *result,
                               int64_t *dims) {
  if (list->count == 0) {
    if (!stack) return tn_status_create(TN_INVALID_ARGUMENT, "an empty sequence cannot be concatenated");
    for (int i = 0; i < result->rank; i++) dims[i] = result->dims[i].symbolic ? 0 : result->dims[i].value;
    dims[axis] = 0;
    return NULL;
  }
  const int64_t *first = tn__list_dims(list, 0);
  int64_t along = 0;
  for (int64_t i = 0; i < list->count; i++) {
    const int64_t *own = tn__list_dims(list, i);
    for (int d = 0; d < rank; d++)
      if (own[d] != first[d] && (stack || d != axis)) return shapes_differ(first, own, rank, i);
    if (tn__add_overflow_i64(along, stack ? 1 : own[axis], &along))
      return tn_status_create(TN_OUT_OF_RANGE, "a sequence is too long to be concatenated");
  }
  for (int d = 0, to = 0; to < result->rank; to++) {
    if (to == axis) {
      dims[to] = along;
      if (!stack) d++;
    } else {
      dims[to] = first[d++];
    }
  }
  return NULL;
}

static tn_status *join(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[1];
  const tn__list *list = list_in(frame, in->operands[0]);
  const tn__register *result = register_at(frame, number);
  int rank = register_at(frame, in->operands[0])->rank;
  bool stack = result->rank != rank;
  int64_t axis = frame->scalars[in->operands[2]], dims[TN_MAX_RANK] = {0}, at = 0;
  TN_RETURN_IF_ERROR(require_present(list));
  if (axis < 0 || axis >= result->rank)
    return tn_status_create(TN_OUT_OF_RANGE, "axis %lld of a tensor of rank %d", (long long)axis, result->rank);
  TN_RETURN_IF_ERROR(joined_shape(list, rank, (int)axis, stack, result, dims));
  TN_RETURN_IF_ERROR(tn__make_result(vm, frame, number, dims));
  size_t element = tn__dtype_stored(result->dtype);
  int64_t outer, row;
  if (tensor_bytes(dims, result->rank, element) == 0) return NULL;
  split_shape(dims, result->rank, (int)axis, element, &outer, &row);
  for (int64_t i = 0; i < list->count; i++) {
    int64_t unused, own;
    if (tensor_bytes(tn__list_dims(list, i), rank, element) == 0) continue;
    split_shape(tn__list_dims(list, i), rank, (int)axis, element, &unused, &own);
    const char *from = tn__list_data(list, i);
    char *to = (char *)frame->data[result->root] + at;
    for (int64_t o = 0; o < outer; o++) memcpy(to + o * row, from + o * own, (size_t)own);
    at += own;
  }
  return NULL;
}

/* Pieces of the given lengths along an axis; the axis goes when the list's tensors have one dimension less. */
static tn_status *split(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__register *tensor = register_at(frame, in->operands[0]), *sizes = register_at(frame, in->operands[1]);
  const tn__register *of = register_at(frame, in->operands[2]);
  tn__list *list = list_in(frame, in->operands[2]);
  int64_t axis = frame->scalars[in->operands[3]], own[TN_MAX_RANK] = {0}, start = 0, count = 1;
  const int64_t *dims, *size_dims, *lengths = frame->data[sizes->root];
  TN_RETURN_IF_ERROR(tn__current_dims(frame, in->operands[0], &dims));
  TN_RETURN_IF_ERROR(tn__current_dims(frame, in->operands[1], &size_dims));
  for (int i = 0; i < sizes->rank; i++) count *= size_dims[i];
  if (axis < 0 || axis >= tensor->rank)
    return tn_status_create(TN_OUT_OF_RANGE, "axis %lld of a tensor of rank %d", (long long)axis, tensor->rank);
  bool keeps = of->rank == tensor->rank;
  size_t element = tn__dtype_stored(tensor->dtype);
  int64_t outer = 0, row = 0, unit = 0, unused;
  if (tensor_bytes(dims, tensor->rank, element) > 0) {
    split_shape(dims, tensor->rank, (int)axis, element, &outer, &row);
    split_shape(dims, tensor->rank, (int)axis + 1, element, &unused, &unit);
  }
  tn__list_clear(list, false);
  for (int64_t i = 0; i < count; i++) {
    int64_t length = lengths[i];
    if (length < 0 || length > dims[axis] - start || (!keeps && length != 1))
      return tn_status_create(TN_INVALID_ARGUMENT, "piece %lld of a split has length %lld, and %lld of %lld are left",
                              (long long)i, (long long)length, (long long)(dims[axis] - start), (long long)dims[axis]);
    for (int d = 0, to = 0; d < tensor->rank; d++) {
      if (d == axis && !keeps) continue;
      own[to++] = d == axis ? length : dims[d];
    }
    void *data;
    TN_RETURN_IF_ERROR(tn__list_add(vm->allocator, list, element, i, of->rank, own, &data));
    const char *from = (const char *)frame->data[tensor->root] + start * unit;
    size_t bytes = (size_t)(length * unit);
    for (int64_t o = 0; o < outer && bytes > 0; o++) memcpy((char *)data + (size_t)o * bytes, from + o * row, bytes);
    start += length;
  }
  if (start == dims[axis]) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "the pieces of a split have %lld elements together, not %lld",
                          (long long)start, (long long)dims[axis]);
}

/* ---- builtins: the others --------------------------------------------------------------------------------------- */

static tn_status *insert(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[2];
  tn__list *list = list_in(frame, number);
  int64_t at;
  TN_RETURN_IF_ERROR(copy_list(vm, frame, number, in->operands[0]));
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[3]], list->count + 1, list->count, &at));
  return add_tensor(vm, frame, list, in->operands[1], at);
}

static tn_status *take_out(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  uint32_t number = in->operands[1];
  tn__list *list = list_in(frame, number);
  int64_t at;
  TN_RETURN_IF_ERROR(copy_list(vm, frame, number, in->operands[0]));
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[2]], list->count, list->count - 1, &at));
  erase(list, at);
  return NULL;
}

static tn_status *read_one(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  const tn__list *list = list_in(frame, in->operands[0]);
  const tn__register *result = register_at(frame, in->operands[1]);
  int64_t at;
  TN_RETURN_IF_ERROR(find_position(list, frame->scalars[in->operands[2]], list->count, list->count - 1, &at));
  const int64_t *dims = tn__list_dims(list, at);
  TN_RETURN_IF_ERROR(tn__list_require_rank(list, at, result->rank));
  TN_RETURN_IF_ERROR(tn__make_result(vm, frame, in->operands[1], dims));
  int64_t bytes = tensor_bytes(dims, result->rank, tn__dtype_stored(result->dtype));
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
      TN_RETURN_IF_ERROR(require_present(list));
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
