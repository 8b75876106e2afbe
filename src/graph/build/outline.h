/* Composites that carry their bodies with them. */
#ifndef TENON_GRAPH_BUILD_OUTLINE_H
#define TENON_GRAPH_BUILD_OUTLINE_H

#include "graph/graph.h"

/* The nodes, in an order in which they can run, as the body of a composite `op`, which gives what the last one does:
 * nothing else that they make may be read by others. Takes nothing out of the graph; the caller puts the composite in
 * place. NULL: sizes in the body cannot be told there. */
tn__node *tn__g_outline(tn__graph *graph, const char *op, tn__node *const *nodes, int count);
/* Of the nodes from number `first` on, which nobody else reads yet, those that make `result` become a composite, and
 * are dead: its result. `result` itself, and nothing has changed, when they cannot. */
tn__value *tn__g_enclose(tn__graph *graph, const char *op, int first, tn__value *result);
/* The composite again, with a producer of its operands as the first node of its body; NULL when that cannot be. */
tn__node *tn__g_take_in(tn__graph *graph, const tn__node *composite, tn__node *producer);
/* The nodes of a body, over `inputs`, which are like the body's own. */
void tn__g_copy_body(tn__graph *graph, const tn__graph *body, tn__value *const *inputs, tn__value **outputs);

#endif
