/* Bodies of If, Loop, Scan and SequenceMap that become graphs of their own. */
#ifndef TENON_IMPORT_ONNX_BODY_H
#define TENON_IMPORT_ONNX_BODY_H

#include "graph/build/control.h"
#include "import/onnx/ops.h"

/* importer.c: the body that nodes are being imported into; NULL: the main graph. */
tn__body *tn__onnx_body(const tn__onode *n);
/* What is imported between these two goes into the body's graph. The node as an operator inside of it sees it: the same
 * attributes and messages, and the body's graph. */
tn__onode *tn__onnx_enter(tn__onode *n, tn__body *body);
void tn__onnx_leave(tn__onode *n, tn__body *body);

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

#endif
