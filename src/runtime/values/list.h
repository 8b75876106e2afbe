/* Lists: sequences and optional values of tensors, as registers hold them. A list owns its tensors: their elements lie
 * one after another in one block that grows by doubling, each aligned for kernels. Memory is kept when a list is
 * emptied, so that the next run of the same function allocates nothing.
 *
 * All tensors of a list have its element type; each has a rank and dimensions of its own. Most registers promise one
 * rank for all of them, which whoever fills the list keeps; `any_rank` ones do not. An optional tensor is a list of at
 * most one; an optional sequence is a list that may be absent. */
#ifndef TENON_RUNTIME_VALUES_LIST_H
#define TENON_RUNTIME_VALUES_LIST_H

#include "runtime/vm/vm.h"

typedef struct tn__list {
  bool absent; /* an optional without value; then it is empty, too */
  int64_t count, capacity;
  int64_t *items; /* per tensor, `stride` numbers: its offset in `elements`, its rank, its dimensions */
  int64_t stride; /* enough for the widest tensor that was in it */
  tn__block elements;
  int64_t used;    /* bytes of `elements`, those of tensors that were taken out included */
  tn__block lent;  /* the caller's memory, where elements go while they fit; or no data */
  tn__block spare; /* where elements were that did not fit `lent`, for the next time */
} tn__list;

#include "runtime/values/list_work.h"

void tn__list_release(const tn_allocator *allocator, tn__list *list);
/* Makes `to` equal to `from`, which may be `to` itself. */
TN_MUST_USE tn_status *tn__list_copy(const tn_allocator *allocator, tn__list *to, const tn__list *from, size_t element);
/* Makes room for a dense tensor of the dimensions at position `at` (0 to count) and tells where its elements go. */
TN_MUST_USE tn_status *tn__list_add(const tn_allocator *allocator, tn__list *list, size_t element, int64_t at, int rank,
                                    const int64_t *dims, void **data);
/* Fails unless every tensor has the rank. */
TN_MUST_USE tn_status *tn__list_require_rank(const tn__list *list, int rank);
/* Elements go into the caller's memory from now on, as long as they fit; NULL takes it back. Empties the list. */
void tn__list_lend(const tn_allocator *allocator, tn__list *list, void *memory, size_t size);
/* Brings a list to the memory that was lent to it, if it is not there. False: it is too large, by the bytes it
 * needs. */
TN_MUST_USE bool tn__list_settle(tn__list *list, size_t element, int64_t *needed);
/* Releases the lists of a frame's own. */
void tn__list_release_all(tn__vm *vm, tn__frame *frame);
/* Run COPY and MOVE of lists. */
TN_MUST_USE tn_status *tn__list_copy_instruction(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
TN_MUST_USE tn_status *tn__list_move_instruction(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
/* Runs a builtin whose name starts with "list_". */
TN_MUST_USE tn_status *tn__list_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in);

#endif
