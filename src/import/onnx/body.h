/* Bodies of If, Loop, Scan and SequenceMap that become graphs of their own. */
#ifndef TENON_IMPORT_ONNX_BODY_H
#define TENON_IMPORT_ONNX_BODY_H

#include "graph/build/body.h"
#include "import/onnx/ops.h"
#include "import/onnx/sequence.h"

/* importer.c: what is imported between these two goes into the body's graph. */
tn__body *tn__onnx_body_begin(tn__onode *n, const char *name);
void tn__onnx_body_end(tn__onode *n, tn__body *body);
/* The node as an operator inside of the body sees it: the same attributes and messages, and the body's graph. */
tn__onode *tn__onnx_inside(const tn__onode *n, const tn__body *body);

/* fork.c: an operator whose results' number of dimensions depends on data. What follows on it is imported for either
 * case. When that goes for one case only, the other is a failed check at run time. When it goes for both, the rest of
 * the scope becomes the two branches of an `if`. */
typedef struct tn__ofork {
  tn__value *condition; /* one bool, of the graph of the node */
  /* Sets the outputs of `n`, the node or what bodies see of it, for the case; or gives what the fork in it gave. */
  tn__orest (*make)(tn__onode *n, bool yes, void *user);
  void *user;
  const char *cases[2]; /* for messages: what is the case when it is false, and true: "dimension 2 is 1" */
} tn__ofork;
/* Without results: the outputs are set. Otherwise they are for tn__onnx_end_scope, or the caller's own caller. */
tn__orest tn__onnx_fork(tn__onode *n, const tn__ofork *fork);

/* branch.c: a branch of an `if`, whose results are brought to one type with those of another. */
typedef struct tn__obranch {
  tn__body *body;
  tn__onode *inside;
  tn__value **results;
} tn__obranch;
/* The `if` over both, after each captures what the other does. Results that are NULL are left out, also of the node's,
 * which come in their order. */
tn__node *tn__onnx_choose(tn__onode *n, tn__value *condition, tn__obranch *a, tn__obranch *b, int count);

/* ---- ops_loop.c -------------------------------------------------------------------------------------------------- */
/* A round, seen from inside. */
typedef struct tn__oround {
  tn__onode *inside; /* builds into the body */
  tn__body *body;
  tn__value *index;     /* i64, from 0 */
  tn__value *trips;     /* NULL when the number of rounds is not given */
  tn__value *condition; /* bool */
  tn__value **states;
  /* to be set: */
  tn__value *goes_on; /* NULL: as the condition says */
  tn__value **next;   /* of the states */
  tn__value **pieces;
} tn__oround;

typedef struct tn__oloop {
  tn__value *trips;     /* one i64, or NULL */
  tn__value *condition; /* one bool, or NULL: true */
  tn__value **states;   /* tensors or sequences */
  int state_count, piece_count;
  const bool *backwards; /* by piece: in front of the earlier ones; NULL: none */
  void (*round)(tn__oround *round, void *user);
  void *user;
  const tn__body *body; /* to be set: the graph of a round */
} tn__oloop;
/* Replaces the states by what they are at the end, and gives each piece's list of all rounds, with the piece of a round
 * (of the body's graph) for its type. */
void tn__onnx_run_loop(tn__onode *n, tn__oloop *loop, tn__value **lists, const tn__value **types);
/* The pieces of all rounds along a new axis. Of no rounds, too, the result has the sizes that are known outside, and of
 * the others those that `declared`, what the body says of a piece, has numbers for. */
tn__value *tn__onnx_stack_list(tn__onode *n, const tn__oloop *loop, tn__value *list, const tn__value *type,
                               const Onnx__ValueInfoProto *declared, int axis);

#endif
