/* What the sizes of an operator's operands must be to each other, stated once in its row of a table: in the row of a
 * core operator (tn__op, checked whenever a node is made) and in that of an ONNX operator whose relations are lost in
 * what it becomes. What is known wrong is refused at once; what only a run can tell becomes a check of the executable,
 * before the first kernel that relies on it.
 *
 *   x[t,b,4*h] r[h,4*h] bias[4*h]? h0[b,h]? lengths[b]? : h >= 1
 *
 * names the operands in their order, each with its shape, and after a colon what else must hold:
 *
 *   relations = operand {" " operand} [" : " condition {", " condition}]
 *   operand   = name [shape {"|" shape}] ["?" | "..."]     ? may be absent; ... any number more like it
 *   shape     = "[" [dimension {"," dimension}] "]"         none: the operator's own function looks at it
 *   dimension = "_" | "*" name | sum                        any size; any number of dimensions; a size
 *   condition = sum ("==" | "<=" | "<" | ">=" | ">") sum
 *   sum       = term {("+" | "-") term}
 *   term      = factor {("*" | "/" | "%") factor}           divisors are numbers or attributes
 *   factor    = number | name | "$" attribute ["=" number] | "#" operand | "(" sum ")"
 *
 * A name that stands alone as a dimension is that dimension's size; where it stands again the size must be the same,
 * and so with groups of dimensions (*s), whose numbers of dimensions must agree, too. $a is an integer attribute, or
 * the number behind it when the node has none; #k is the element of an integer operand that has just one. What speaks
 * of an absent operand, attribute or element is not checked. Of several shapes the first counts that has as many
 * dimensions as the operand and whose numbers are its sizes, else the last that has as many.
 *
 * Errors name the operand, its dimension, and both sizes: "dimension 1 of operand 3 (h0) is 5, but must be equal to 4,
 * dimension 2 of operand 0 (x)". */
#ifndef TENON_GRAPH_RELATIONS_H
#define TENON_GRAPH_RELATIONS_H

#include "graph/graph.h"

typedef struct tn__relating {
  tn__graph *graph;
  const char *name;           /* what messages begin with; "": the graph's origin says it */
  const char *word;           /* "operand", "input": what messages call them */
  tn__value *const *operands; /* NULL where absent */
  int count;
  /* Sets *value to that of an integer attribute; false when there is none. */
  bool (*attribute)(const void *user, const char *name, int64_t *value);
  const void *user;
} tn__relating;

/* Throws what is known to be wrong, and keeps the rest as checks of the run. */
void tn__relate(const tn__relating *r, const char *relations);

/* The same for two sizes: a, which messages call `left`, and b, which is `right` ("": a number), as `sign` says. */
void tn__relate_sizes(tn__graph *graph, const char *left, const tn__expr *a, const char *sign, const char *right,
                      const tn__expr *b);

/* How many operands the text names, at least and at most (-1: any number); false when it is not written as above. */
TN_MUST_USE bool tn__relations_parse(const char *relations, int *least, int *most);

#endif
