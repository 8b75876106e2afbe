/* The pipeline from a scheduled function to what code generators take: one readable list of passes in ir/passes.c, each
 * with a name, a printed form (--print-after NAME) and a timing; the verifier runs after each in debug builds. */
#ifndef TENON_IR_PASSES_H
#define TENON_IR_PASSES_H

#include "ir/stmt.h"

/* Called after each pass; for printing and timing. May be NULL. */
typedef struct tn__pass_hooks {
  void (*after)(const char *pass, const tn__func *func, double seconds, void *user);
  void *user;
} tn__pass_hooks;

/* lower_blocks: substitutes bindings, turns predicates into if (likely(...)), drops the blocks. A reduction's init
 * moves before its outermost reduction loop, with the spatial loops that it needs. Where that cannot be proved
 * correct it stays in place under "every reduce axis is at its minimum". serialize_threads: for CPUs; loops over
 * blocks and threads become serial loops, split at barriers; shared buffers go to the workspace and local ones to
 * the stack. roll_epilogues: a tile's epilogue with functions such as erf becomes a loop over the rows.
 * settle_bounds: names the loads in loop bounds, and checks data-dependent bounds once for a row. split_stretched:
 * adds a copy of the body for sizes that broadcast no dimension in a vector (stretch.c). mark_borders: conditions of
 * selects, clamped positions and wrapped positions become likely() conditions of stores. partition_loops: splits
 * serial loops where their likely() conditions become always true (interior without conditions first, then the
 * tail). Parallel loops, and serial ones over a fused index, choose between the two bodies inside, so that tails run
 * in parallel too. Vectorised loops are not split; their remaining conditions become masks in codegen. Loops of one
 * iteration disappear. unmark_borders: removes likely() from conditions that no loop was split at. specialize_tails:
 * copies a tail for each possible number of remaining rows of an open dimension, and selects a copy by a search.
 * unroll_loops: expands TN__LOOP_UNROLLED; additions of the iterations to one element in memory become one sum.
 * hoist_conditions: hoists loop-invariant ifs and merges neighbours under the same condition. remove_dead: drops
 * stores to allocated buffers that are never read, and empty loops. */
const tn__stmt *tn__ir_partition_nest(tn__ir *ir, const tn__stmt *nest); /* partition_loops for a part of a function */
tn__func *tn__ir_lower_blocks(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_serialize_threads(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_roll_epilogues(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_settle_bounds(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_split_stretched(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_mark_borders(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_partition_loops(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_unmark_borders(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_specialize_tails(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_unroll_loops(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_hoist_conditions(tn__ir *ir, const tn__func *func);
tn__func *tn__ir_remove_dead(tn__ir *ir, const tn__func *func);

/* All of them in order. The result has no blocks, no unrolled loops, and is verified in debug builds. */
tn__func *tn__ir_lower_for_codegen(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks);

/* The same for GPUs: loops over blocks and threads stay, and no loop is cut. */
tn__func *tn__ir_lower_for_threads(tn__ir *ir, const tn__func *func, const tn__pass_hooks *hooks);

/* The pipeline's passes by place, from 0; the name is NULL behind the last. */
const char *tn__ir_pass_name(int index);
tn__func *tn__ir_run_pass(tn__ir *ir, int index, const tn__func *func, const tn__pass_hooks *hooks);

#endif
