/* The work on lists that is the same in the machine and in C that is emitted: positions, shapes, and moving elements in
 * memory that is there. It fails with a number; words and memory are those of whoever includes it, who has declared
 * tn__list before, with the members that list.h tells.
 *
 * src/emit_c/work_text.cmake puts what follows the include into each header that needs it, with names of its own, so
 * it is C99 and C++ at once. */
#ifndef TENON_RUNTIME_VALUES_LIST_WORK_H
#define TENON_RUNTIME_VALUES_LIST_WORK_H

#include <stdint.h>
#include <string.h>

#include "tenon/base.h"

/* The record of a tensor in a list: where its elements are, its rank, its dimensions. */
enum { TN__LIST_OFFSET, TN__LIST_RANK, TN__LIST_DIMS };

enum {
  TN__LIST_ABSENT = 1,  /* an optional value is needed, and it is absent */
  TN__LIST_NO_POSITION, /* a position is outside of the list */
  TN__LIST_EMPTY,       /* nothing can be joined */
  TN__LIST_DIFFERS,     /* the shapes of tensors that are joined */
  TN__LIST_TOO_LONG,    /* tensors joined overflow */
  TN__LIST_BAD_AXIS,
  TN__LIST_BAD_PIECE,  /* the length of a piece of a split */
  TN__LIST_BAD_TOTAL,  /* the pieces are not all of the axis */
  TN__LIST_OTHER_RANK, /* a tensor has another rank than is wanted */
  TN__LIST_NO_MEMORY
};

static inline int64_t *tn__list_record(const tn__list *list, int64_t at) { return list->items + at * list->stride; }

/* A tensor's rank, dimensions and elements; valid until the list changes. */
static inline int tn__list_rank(const tn__list *list, int64_t at) {
  return (int)tn__list_record(list, at)[TN__LIST_RANK];
}

static inline const int64_t *tn__list_dims(const tn__list *list, int64_t at) {
  return tn__list_record(list, at) + TN__LIST_DIMS;
}

static inline void *tn__list_data(const tn__list *list, int64_t at) {
  return (char *)list->elements.data + tn__list_record(list, at)[TN__LIST_OFFSET];
}

static inline void tn__list_clear(tn__list *list, int absent) {
  list->absent = absent != 0;
  list->count = list->used = 0;
}

/* Bytes of a tensor that is there: no overflow. */
static inline int64_t tn__list_tensor_bytes(const int64_t *dims, int rank, int64_t element) {
  int64_t bytes = element;
  int i;
  for (i = 0; i < rank; i++)
    if (dims[i] == 0) return 0; /* whatever the others are */
  for (i = 0; i < rank; i++) bytes *= dims[i];
  return bytes;
}

static inline int64_t tn__list_bytes_at(const tn__list *list, int64_t at, int64_t element) {
  return tn__list_tensor_bytes(tn__list_dims(list, at), tn__list_rank(list, at), element);
}

/* Bytes to the next tensor: each is aligned for kernels. */
static inline int64_t tn__list_padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* The bytes of all tensors, without those that were taken out. */
static inline int64_t tn__list_alive(const tn__list *list, int64_t element) {
  int64_t alive = 0, i;
  for (i = 0; i < list->count; i++) alive += tn__list_padded(tn__list_bytes_at(list, i, element));
  return alive;
}

/* Into other memory, which is large enough, in order of position and without gaps. */
static inline void tn__list_gather(tn__list *list, int64_t element, void *to) {
  int64_t used = 0, i;
  for (i = 0; i < list->count; i++) {
    const int64_t bytes = tn__list_bytes_at(list, i, element);
    if (bytes > 0) memcpy((char *)to + used, tn__list_data(list, i), (size_t)bytes);
    tn__list_record(list, i)[TN__LIST_OFFSET] = used;
    used += tn__list_padded(bytes);
  }
  list->elements.data = to, list->used = used;
}

/* Into other memory, as records of `stride` numbers. */
static inline void tn__list_gather_records(tn__list *list, int64_t *to, int64_t stride) {
  int64_t i;
  for (i = 0; i < list->count; i++)
    memcpy(to + i * stride, tn__list_record(list, i), (size_t)list->stride * sizeof *to);
  list->items = to, list->stride = stride;
}

/* A tensor at position `at` (0 to count), in room that is there; where its elements go. */
static inline void *tn__list_put(tn__list *list, int64_t at, int rank, const int64_t *dims, int64_t element) {
  int64_t *record = tn__list_record(list, at);
  int i;
  memmove(record + list->stride, record, (size_t)((list->count - at) * list->stride) * sizeof *record);
  record[TN__LIST_OFFSET] = list->used, record[TN__LIST_RANK] = rank;
  for (i = 0; i < rank; i++) record[TN__LIST_DIMS + i] = dims[i];
  list->used += tn__list_padded(tn__list_tensor_bytes(dims, rank, element));
  list->count++;
  list->absent = 0;
  return tn__list_data(list, at);
}

/* All tensors of another list, to an empty one with room for them. */
static inline void tn__list_put_all(tn__list *to, const tn__list *from, int64_t element) {
  int64_t i;
  for (i = 0; i < from->count; i++) {
    const int64_t bytes = tn__list_bytes_at(from, i, element);
    void *data = tn__list_put(to, i, tn__list_rank(from, i), tn__list_dims(from, i), element);
    if (bytes > 0) memcpy(data, tn__list_data(from, i), (size_t)bytes);
  }
}

static inline void tn__list_take_out(tn__list *list, int64_t at) {
  int64_t *record = tn__list_record(list, at);
  memmove(record, record + list->stride, (size_t)((list->count - at - 1) * list->stride) * sizeof *record);
  list->count--;
}

/* A position from the start, in [0, count), or with count when `behind`; from the end when it is negative. The largest
 * number is the end itself: behind the last, or the last one where there must be one. */
TN_MUST_USE static inline int tn__list_find(const tn__list *list, int64_t position, int behind, int64_t *out) {
  const int64_t limit = list->count + (behind ? 1 : 0);
  const int64_t at = position == INT64_MAX ? limit - 1 : position < 0 ? position + list->count : position;
  if (list->absent) return TN__LIST_ABSENT;
  if (at < 0 || at >= limit) return TN__LIST_NO_POSITION;
  *out = at;
  return 0;
}

/* A tensor that has elements, as `outer` pieces of `inner` bytes along one axis. */
static inline void tn__list_split_shape(const int64_t *dims, int rank, int axis, int64_t element, int64_t *outer,
                                        int64_t *inner) {
  int i;
  *outer = 1, *inner = element;
  for (i = 0; i < axis; i++) *outer *= dims[i];
  for (i = axis; i < rank; i++) *inner *= dims[i];
}

/* The shape of all tensors, of the rank, joined along `axis`, or along a new axis there when the result's rank is not
 * theirs. `dims` comes with that of no tensors along a new axis. `at` tells which tensor differs from the first. */
TN_MUST_USE static inline int tn__list_joined_shape(const tn__list *list, int rank, int64_t axis, int result_rank,
                                                    int64_t *dims, int64_t *at) {
  const int stack = result_rank != rank;
  const int64_t *first;
  int64_t along = 0, i;
  int d, to;
  if (list->absent) return TN__LIST_ABSENT;
  if (axis < 0 || axis >= result_rank) return TN__LIST_BAD_AXIS;
  if (list->count == 0) {
    dims[axis] = 0;
    return stack ? 0 : TN__LIST_EMPTY;
  }
  first = tn__list_dims(list, 0);
  for (i = 0; i < list->count; i++) {
    const int64_t *own = tn__list_dims(list, i);
    const int64_t more = stack ? 1 : own[axis];
    *at = i;
    for (d = 0; d < rank; d++)
      if (own[d] != first[d] && (stack || d != axis)) return TN__LIST_DIFFERS;
    if (along > INT64_MAX - more) return TN__LIST_TOO_LONG;
    along += more;
  }
  for (d = 0, to = 0; to < result_rank; to++) {
    if (to != axis)
      dims[to] = first[d++];
    else
      dims[to] = along, d += !stack;
  }
  return 0;
}

/* Their elements, when the shape has been found. */
static inline void tn__list_join(const tn__list *list, int rank, int axis, int result_rank, const int64_t *dims,
                                 int64_t element, void *to) {
  int64_t outer, row, at = 0, i, o;
  if (tn__list_tensor_bytes(dims, result_rank, element) == 0) return;
  tn__list_split_shape(dims, result_rank, axis, element, &outer, &row);
  for (i = 0; i < list->count; i++) {
    const char *from = (const char *)tn__list_data(list, i);
    int64_t unused, own;
    if (tn__list_bytes_at(list, i, element) == 0) continue;
    tn__list_split_shape(tn__list_dims(list, i), rank, axis, element, &unused, &own);
    for (o = 0; o < outer; o++) memcpy((char *)to + at + o * row, from + o * own, (size_t)own);
    at += own;
  }
}

/* Are the lengths those of pieces of a tensor along an axis, which goes when the pieces' rank is less? `at` tells which
 * is not, `start` where it begins. */
TN_MUST_USE static inline int tn__list_check_pieces(const int64_t *dims, int rank, int64_t axis, int piece_rank,
                                                    const int64_t *lengths, int64_t count, int64_t *at,
                                                    int64_t *start) {
  *start = 0;
  if (axis < 0 || axis >= rank) return TN__LIST_BAD_AXIS;
  for (*at = 0; *at < count; ++*at) {
    const int64_t length = lengths[*at];
    if (length < 0 || length > dims[axis] - *start || (piece_rank != rank && length != 1)) return TN__LIST_BAD_PIECE;
    *start += length;
  }
  return *start == dims[axis] ? 0 : TN__LIST_BAD_TOTAL;
}

/* The dimensions of a piece. */
static inline void tn__list_piece_shape(const int64_t *dims, int rank, int axis, int piece_rank, int64_t length,
                                        int64_t *own) {
  int d, to = 0;
  for (d = 0; d < rank; d++)
    if (d != axis || piece_rank == rank) own[to++] = d == axis ? length : dims[d];
}

/* The pieces, which were checked, to an empty list with room for them. `own` has room for a shape. */
static inline void tn__list_put_pieces(tn__list *list, const int64_t *dims, int rank, int axis, int piece_rank,
                                       const int64_t *lengths, int64_t count, int64_t element, const void *tensor,
                                       int64_t *own) {
  int64_t outer = 0, row = 0, unit = 0, unused, start = 0, i, o;
  if (tn__list_tensor_bytes(dims, rank, element) > 0) {
    tn__list_split_shape(dims, rank, axis, element, &outer, &row);
    tn__list_split_shape(dims, rank, axis + 1, element, &unused, &unit);
  }
  for (i = 0; i < count; i++) {
    const char *from = (const char *)tensor + start * unit;
    const size_t bytes = (size_t)(lengths[i] * unit);
    char *to;
    tn__list_piece_shape(dims, rank, axis, piece_rank, lengths[i], own);
    to = (char *)tn__list_put(list, i, piece_rank, own, element);
    for (o = 0; o < outer && bytes > 0; o++) memcpy(to + (size_t)o * bytes, from + o * row, bytes);
    start += lengths[i];
  }
}

/* The bytes of the pieces in a list. */
static inline int64_t tn__list_piece_bytes(const int64_t *dims, int rank, int axis, const int64_t *lengths,
                                           int64_t count, int64_t element) {
  int64_t outer, unit, total = 0, i;
  if (tn__list_tensor_bytes(dims, rank, element) == 0) return 0;
  tn__list_split_shape(dims, rank, axis + 1, element, &outer, &unit);
  for (i = 0; i < count; i++) total += tn__list_padded(outer / dims[axis] * lengths[i] * unit);
  return total;
}

#endif
