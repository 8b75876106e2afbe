/* Inputs and outputs that share memory: outputs that grow where an input lies or change it in place, and inputs whose
 * memory lies with any strides. */
#ifndef TENON_GRAPH_GROW_GROW_H
#define TENON_GRAPH_GROW_GROW_H

#include "graph/graph.h"

/* Output `output` is to grow in the memory of input `input`: the former must be the latter with other tensors behind it
 * along one dimension, which is symbolic in the input. Both become buffers of `capacity` there: new elements are
 * written behind the valid ones, and readers take the valid ones where they lie (grow.c). A run checks that they fit.
 * False when the output is nothing of the kind. */
bool tn__graph_grow(tn__graph *graph, int output, tn__value *input, int64_t capacity);
/* Output `output` is select(mask, new, input), the mask true where the index along a dimension is a position that does
 * not depend on it: makes it a write of that position (mask.c). False when it is nothing of the kind, or not provably.
 * Nodes that nobody reads any more are left. */
bool tn__graph_write_by_mask(tn__graph *graph, int output, tn__value *input);
/* Output `output` is a stack of tensors, each of which is the one of input `input`, such a stack as well, with others
 * behind it: makes it one concatenation of the input and the stack of the others (stack.c). False when it is
 * nothing of the kind. */
bool tn__graph_join_stack(tn__graph *graph, int output, tn__value *input);
/* Readers of the input find it in memory of any strides: two inputs more, a memory of one dimension and an i64 tensor
 * of the strides and of where in the memory the first element is. The input itself is left for its dimensions alone
 * (strided.c). False, and nothing done, when its elements are sizes, which must be known before kernels run. */
bool tn__graph_read_strided(tn__graph *graph, tn__value *input);
/* The dimension along which it could grow; -1: none. */
int tn__graph_growing_axis(const tn__graph *graph, int output, const tn__value *input);
/* Is the node nothing but valid elements of a buffer that grows: all of them, or those at some places of other
 * dimensions? */
bool tn__graph_is_valid_part(const tn__node *node);

#endif
