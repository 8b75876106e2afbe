/* Blocks and threads of a launch, as loops.
 *
 * A loop over threads (thread.x, .y, .z) forks: its iterations run side by side, and what comes behind the loop waits
 * for all of them. Inside, a barrier makes the threads of all loops over threads around it wait for each other; between
 * two barriers nothing is ordered between threads. Loops over blocks (block.x, .y, .z) fork as well, and have no
 * barrier. What stands in a block outside of its threads happens once in the block.
 *
 * A barrier can therefore be written without one: the loops over threads are split there into two, one behind the other
 * (the work-item loops of PoCL: Jaaskelainen et al., 2015). The interpreter and CPUs run that form. */
#ifndef TENON_IR_THREADS_H
#define TENON_IR_THREADS_H

#include "ir/stmt.h"

/* The same function without barriers: loops over threads end where one stood, and others begin. Loops and conditions
 * around a barrier go outside of them, values that threads keep over it into arrays. The function itself when it has no
 * barrier. Throws TN_INVALID_ARGUMENT for a barrier that the verifier refuses. */
const tn__func *tn__ir_split_at_barriers(tn__ir *ir, const tn__func *func);

#endif
