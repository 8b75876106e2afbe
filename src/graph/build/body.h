/* Bodies that are decided at run time: graphs of their own, made beside the graph around them. What they use of that one
 * is captured. */
#ifndef TENON_GRAPH_BUILD_BODY_H
#define TENON_GRAPH_BUILD_BODY_H

#include "graph/build/build.h"

typedef struct tn__capture {
  tn__value *outer, *inner;
} tn__capture;

typedef struct tn__body_size { /* a size of the outer graph, and the body's symbol for it */
  const tn__expr *outer, *inner;
  const char *name;
} tn__body_size;

typedef struct tn__body {
  tn__arena *arena;
  struct tn__body *parent; /* the body around it; NULL: the main graph */
  tn__graph *g, *outer;
  TN__VEC(tn__capture) captures; /* everything captured */
  TN__VEC(tn__value *) operands; /* the captured values that a run must pass, */
  TN__VEC(tn__value *) inputs;   /* and the graph's inputs for them */
  TN__VEC(tn__body_size) sizes;
} tn__body;

/* In the graph `outer`, whose messages name the same place. */
tn__body *tn__body_create(tn__graph *outer, tn__body *parent, const char *name);
/* A new input of the type of an outer value. `varies` (may be NULL): dimensions that every round has anew. */
tn__value *tn__body_input(tn__body *body, const tn__value *like, const bool *varies);
/* A value of the graph right around the body, seen from inside. */
tn__value *tn__body_capture(tn__body *body, tn__value *value);
/* A size of the body's graph as one of the graph around it; NULL when it is not known there. */
const tn__expr *tn__body_outside(const tn__body *body, const tn__expr *size);

#endif
