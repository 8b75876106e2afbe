/* Epilogues as loops: what a tile's accumulators become is computed row after row from a copy of them in memory. */
#ifndef TENON_IR_ROLL_H
#define TENON_IR_ROLL_H

#include "ir/stmt.h"

/* The parts of `alloc accumulators: register { ...; for each row: out = f(accumulators) }`. */
typedef struct tn__rolled {
  const tn__buffer *tile; /* on the stack, as large as the accumulators */
  const tn__stmt *core;   /* the allocation, which ends in a copy of its buffer to `tile` */
  const tn__stmt *rows;   /* the unrolled loop at its end, reading `tile`, wherever `core` has run before */
} tn__rolled;

/* False where the statement has no such form, or is rolled already. */
TN_MUST_USE bool tn__ir_roll(tn__ir *ir, const tn__stmt *alloc, tn__rolled *out);

#endif
