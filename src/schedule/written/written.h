/* Schedules that people write (docs/schedules.md): blocks of statements, in a .te file or in a file of their own,
 *
 *   schedule for gemm on x86-64-v4 {
 *     split C.i by 14 as io, ii
 *     reorder io, C.k, ii
 *     choose the rest
 *   }
 *
 * that are translated to the primitives of schedule.h and to nothing else. tn__written_chooser() makes a chooser of a
 * block, so that tn__plan_kernel() stays the one way to a kernel's schedule; tn__written_print() writes any schedule as
 * such a block, which reads back to the same steps.
 *
 * The text is untrusted: depth, sizes and work are bounded. An error names its place and shows the line (ir/errors.h);
 * what a primitive refuses is told with the loops that there are. */
#ifndef TENON_SCHEDULE_WRITTEN_WRITTEN_H
#define TENON_SCHEDULE_WRITTEN_WRITTEN_H

#include "schedule/sketch/plan.h"
#include "te/text.h"

/* All blocks of a text. */
typedef struct tn__written tn__written;
typedef struct tn__written_block tn__written_block;

/* Reads blocks. `line` is the number of the text's first line: a block may be cut out of a file. What is made lives in
 * `arena` and keeps nothing of the text. */
TN_MUST_USE tn_status *tn__written_parse(tn__arena *arena, const char *name, const char *text, size_t length, int line,
                                         const tn__written **out);
/* The first block for the kernel and the target; NULL when there is none. */
const tn__written_block *tn__written_find(const tn__written *written, const char *kernel, const tn__target *target);
/* The same, where there must be one: throws what blocks there are. */
const tn__written_block *tn__written_need(tn__escape *escape, const tn__written *written, const char *kernel,
                                          const tn__target *target);
/* Is the text a trace (schedule.h), and no schedule that people write? */
bool tn__written_is_trace(const char *text);

/* A block for one kernel: its statements may name dimensions that were fixed. */
typedef struct tn__written_use {
  const tn__written_block *block;
  const tn__te_dim_value *dims;
  int dim_count;
} tn__written_use;
/* Proposes what the block says, which is required: a statement that is refused is an error with its place. */
tn__chooser tn__written_chooser(const tn__written_use *use);

/* Does a statement of the block name the stage, a tensor of its name, or a loop of it? */
bool tn__written_speaks_of(const tn__written_block *block, const char *stage);

/* The schedule as a block "schedule for KERNEL { ... }"; `on` names the target there, unless it is NULL. Takes the
 * steps once more in the arena of the declaration. */
void tn__written_print(const tn__schedule *s, const char *on, tn__strbuf *out);

#endif
