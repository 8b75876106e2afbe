/* Passes that bring values into another form, channels last or rows of a matrix, and let what reads them follow: in
 * topological order, each node is made anew on moved operands or stays as it is. A value that has followed exists in
 * the new form only; whoever needs the old one reads it restored, which is made once. */
#ifndef TENON_GRAPH_PASSES_MOVER_H
#define TENON_GRAPH_PASSES_MOVER_H

#include "graph/passes/rewrite.h"

typedef struct tn__mover tn__mover;

typedef struct tn__mover_form {
  tn__value *moved;    /* NULL: not made */
  tn__value *restored; /* of a value that has followed; NULL: not made */
  bool followed;
} tn__mover_form;

struct tn__mover {
  tn__graph *graph;
  /* A value that has not followed in the new form, and the old form of one that has. */
  tn__value *(*move)(tn__mover *mover, tn__value *value);
  tn__value *(*restore)(tn__mover *mover, tn__value *moved, const tn__value *like);
  /* The result of `node` in the new form or, with *direct set, in the form it always had; NULL: the node stays. */
  tn__value *(*follow)(tn__mover *mover, const tn__node *node, bool reads_moved, bool *direct);
  TN__VEC(tn__mover_form) forms; /* by value id */
};

/* Moves what follows, and sweeps. Of `mover` the three functions are set. */
void tn__mover_run(tn__mover *mover, tn__graph *graph);
/* Does the value exist in the new form only? */
bool tn__mover_has_followed(tn__mover *mover, const tn__value *value);
/* Would tn__mover_moved make nothing? */
bool tn__mover_is_made(tn__mover *mover, const tn__value *value);
/* The value in the new form, and in the old one; made once each. */
tn__value *tn__mover_moved(tn__mover *mover, tn__value *value);
tn__value *tn__mover_restored(tn__mover *mover, tn__value *value);

#endif
