/* Running values: what each position of a row combines with the one before, `S = max(S, X[i])`. Where it makes no
 * difference in which order terms are combined, but for the sign of a zero, vectors of positions take the logarithm of
 * their lanes in steps. */
#ifndef TENON_IR_RUNNING_H
#define TENON_IR_RUNNING_H

#include "ir/expr.h"

typedef struct tn__ir_running {
  const tn__expr *combine; /* a node with the operation */
  const tn__expr *before;  /* the only load of the buffer: the value so far */
  const tn__expr *term;
  const tn__expr *follows; /* false at the first position, whose value is `first`; NULL: there is one before it */
  const tn__expr *first;
} tn__ir_running;

/* Is the value that a statement stores to the buffer a running one, by an operation that is exactly associative?
 * `follows` is 0 < i then, for a position i that is not below 0. */
TN_MUST_USE bool tn__ir_running_of(tn__ir *ir, const tn__expr *value, const tn__buffer *buffer, tn__ir_running *out);

#endif
