/* Kernels that move constants. Packing weights is permutations for the most part, some of them of a product with a
 * scale, and padding. LLVM takes milliseconds for each, longer than the moving takes, so one function of this library
 * does them all: what to move is in its scalars. */
#ifndef TENON_KERNELS_MOVES_H
#define TENON_KERNELS_MOVES_H

#include "te/te.h"
#include "tenon/kernel_abi.h"

/* The scalars of tn__move_run for a declaration that is nothing but a move, in the arena of its context; NULL for any
 * other. */
const int64_t *tn__move_scalars(const tn__te *te, int *count);
/* A kernel for exactly these buffers; inputs may lie at any address. */
int32_t tn__move_run(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars);

/* ---- what the scalars are --------------------------------------------------------------------------------------- */

/* One loop: elements from one iteration to the next, in the result and in the operands. */
typedef struct tn__move_axis {
  int64_t extent, to, from, scale;
} tn__move_axis;

/* result[to] = from[...] or from[...] * scale[...] over all axes, and `fill` wherever no axis comes by. */
typedef struct tn__move {
  int64_t element;             /* bytes */
  int64_t inputs;              /* of the kernel: the result is the buffer behind them */
  int64_t from, from_offset;   /* which input, and its first element */
  int64_t scale, scale_offset; /* -1: none; else elements are f32 */
  int64_t padded;              /* elements of the result that are filled first; 0: all are moved to */
  int64_t fill;                /* bits of the element */
  int64_t rank;
  tn__move_axis axes[TN__MAX_RANK]; /* those of one iteration left out, neighbours joined where they can be */
} tn__move;

#endif
