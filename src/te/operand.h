/* Values for the inputs of a declaration whose kernel is run to be timed, or compared with another: nobody's data, but
 * such that the kernel has work to do. */
#ifndef TENON_TE_OPERAND_H
#define TENON_TE_OPERAND_H

#include "te/te.h"

/* What an input of integers is used for. */
typedef struct tn__te_operand_use {
  int64_t among; /* it chooses elements out of so many; INT64_MAX: it chooses none */
  bool bounds;   /* of loops */
  bool divides;
  int64_t only; /* not found, but the caller's: the value of all its elements, unless they choose or bound; 0: any */
} tn__te_operand_use;

tn__te_operand_use tn__te_operand_use_of(const tn__te *te, const tn__buffer *input);
/* Floats are eighths from -1 to 1, so that short sums of their products are exact in any order; integers are small, no
 * zero where one divides, within what they choose from, and as bounds of loops they rise evenly. The same for the same
 * seed. */
void tn__te_operand_fill(const tn__te_operand_use *use, tn_dtype dtype, uint64_t seed, size_t count, void *data);

#endif
