/* What the builtins of lists do, and copies of lists: once, for the machine and for emitted C, which has this text as
 * it has list_work.h's. Each gives 0 or a problem of list_work.h's enum, whose words are those of whoever includes it.
 *
 * Memory is theirs as well. They have declared tn__list_memory, and
 *
 *   static inline int tn__list_room(tn__list_memory *memory, tn__list *list, int64_t element, int rank, int64_t count,
 *                                   int64_t bytes, int times);
 *
 * which makes room in the list for `count` tensors together, with records of `rank` dimensions, and for `bytes` more of
 * elements; `times` of what is needed is asked for: 2 where tensors are added one by one, so that each is copied but a
 * few times, however many there will be. It gives 0 or TN__LIST_NO_MEMORY. */
#ifndef TENON_RUNTIME_VALUES_LIST_STEPS_H
#define TENON_RUNTIME_VALUES_LIST_STEPS_H

#include "runtime/values/list_work.h"

/* Makes `to` equal to `from`, which may be `to` itself. */
static inline int tn__list_assign(tn__list_memory *memory, tn__list *to, const tn__list *from, int64_t element) {
  int problem;
  if (to == from) return 0;
  tn__list_clear(to, from->absent);
  if (from->count == 0) return 0;
  problem = tn__list_room(memory, to, element, (int)from->stride - TN__LIST_DIMS, from->count,
                          tn__list_alive(from, element), 1);
  if (problem == 0) tn__list_put_all(to, from, element);
  return problem;
}

/* Room for a tensor at position `at` (0 to count), and where its elements go. */
TN_MUST_USE static inline int tn__list_make_item(tn__list_memory *memory, tn__list *list, int64_t element, int64_t at,
                                                 int rank, const int64_t *dims, void **data) {
  const int64_t bytes = tn__list_tensor_bytes(dims, rank, element);
  const int64_t room = bytes > INT64_MAX / 4 ? bytes : tn__list_padded(bytes); /* what nobody has stays as it is */
  const int problem = tn__list_room(memory, list, element, rank, list->count + 1, room, 2);
  if (problem == 0) *data = tn__list_put(list, at, rank, dims, element);
  return problem;
}

/* list_insert */
static inline int tn__list_insert(tn__list_memory *memory, tn__list *to, const tn__list *from, int64_t element,
                                  int64_t position, const int64_t *dims, int rank, const void *tensor) {
  const int64_t bytes = tn__list_tensor_bytes(dims, rank, element);
  void *data;
  int64_t at = 0;
  int problem = tn__list_assign(memory, to, from, element);
  if (problem == 0) problem = tn__list_find(to, position, 1, &at);
  if (problem == 0) problem = tn__list_make_item(memory, to, element, at, rank, dims, &data);
  if (problem == 0 && bytes > 0) memcpy(data, tensor, (size_t)bytes);
  return problem;
}

/* list_erase */
static inline int tn__list_erase(tn__list_memory *memory, tn__list *to, const tn__list *from, int64_t element,
                                 int64_t position) {
  int64_t at = 0;
  int problem = tn__list_assign(memory, to, from, element);
  if (problem == 0) problem = tn__list_find(to, position, 0, &at);
  if (problem == 0) tn__list_take_out(to, at);
  return problem;
}

/* list_at, its first half: where the tensor is, which must have the rank. */
TN_MUST_USE static inline int tn__list_look(const tn__list *list, int64_t position, int rank, int64_t *at) {
  const int problem = tn__list_find(list, position, 0, at);
  return problem == 0 && tn__list_rank(list, *at) != rank ? TN__LIST_OTHER_RANK : problem;
}

/* The second half, when the result has memory. */
static inline void tn__list_read(const tn__list *list, int64_t at, int64_t element, void *to) {
  const int64_t bytes = tn__list_bytes_at(list, at, element);
  if (bytes > 0) memcpy(to, tn__list_data(list, at), (size_t)bytes);
}

/* Has every tensor the rank? `at` tells which has not. */
TN_MUST_USE static inline int tn__list_require(const tn__list *list, int rank, int64_t *at) {
  for (*at = 0; *at < list->count; ++*at)
    if (tn__list_rank(list, *at) != rank) return TN__LIST_OTHER_RANK;
  return 0;
}

/* list_length */
static inline int tn__list_length(const tn__list *list, void *to) {
  if (list->absent) return TN__LIST_ABSENT;
  memcpy(to, &list->count, sizeof list->count);
  return 0;
}

/* list_present */
static inline int tn__list_present(const tn__list *list, void *to) {
  *(uint8_t *)to = !list->absent;
  return 0;
}

/* list_split; `own` has room for a shape, `at` and `start` are tn__list_check_pieces'. */
TN_MUST_USE static inline int tn__list_split(tn__list_memory *memory, tn__list *list, int64_t element, int piece_rank,
                                             const int64_t *dims, int rank, int64_t axis, const int64_t *lengths,
                                             int64_t count, const void *tensor, int64_t *own, int64_t *at,
                                             int64_t *start) {
  int problem = tn__list_check_pieces(dims, rank, axis, piece_rank, lengths, count, at, start);
  if (problem != 0) return problem;
  tn__list_clear(list, 0);
  problem = tn__list_room(memory, list, element, piece_rank, count,
                          tn__list_piece_bytes(dims, rank, (int)axis, lengths, count, element), 1);
  if (problem == 0) tn__list_put_pieces(list, dims, rank, (int)axis, piece_rank, lengths, count, element, tensor, own);
  return problem;
}

#endif
