/* Composites that carry their bodies with them. */
#ifndef TENON_GRAPH_OPS_COMPOSITE_H
#define TENON_GRAPH_OPS_COMPOSITE_H

#include "graph/graph.h"

/* The nodes, in an order in which they can run, as the body of a composite `op`, which gives what the last one does:
 * nothing else that they make may be read by others. Takes nothing out of the graph; the caller puts the composite in
 * place. NULL: sizes in the body cannot be told there. */
tn__node *tn__graph_outline(tn__graph *graph, const char *op, tn__node *const *nodes, int count);

#endif
