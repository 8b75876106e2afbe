/* Outputs in the memory of inputs. */
#ifndef TENON_DECLARATIONS_IN_PLACE_H
#define TENON_DECLARATIONS_IN_PLACE_H

#include "ir/stmt.h"

/* Is each element of the input read for the last time before, or as, the output's element in its place is written? The
 * function is a scheduled one, with blocks; both tensors are parameters of one shape. False also where that is not
 * seen. */
bool tn__decl_may_overwrite(tn__ir *ir, const tn__func *func, const tn__buffer *input, const tn__buffer *output);

#endif
