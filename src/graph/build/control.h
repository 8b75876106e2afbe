/* Branches, forks and loops: bodies that a run chooses or repeats, or, where that is known or costs less, what they
 * make in the graph itself. Whoever imports a model says what a body makes; what becomes of it is decided here. */
#ifndef TENON_GRAPH_BUILD_CONTROL_H
#define TENON_GRAPH_BUILD_CONTROL_H

#include "graph/build/body.h"

/* ---- branches (branch.c) ----------------------------------------------------------------------------------------- */

typedef struct tn__branch {
  tn__body *body;
  tn__value **results;
} tn__branch;
/* The `if` over both, after each captures what the other does, with results that are brought to one type. Results that
 * are NULL are left out, also of the node's, which come in their order. */
tn__node *tn__branch_choose(tn__graph *g, tn__value *condition, tn__branch *a, tn__branch *b, int count);

typedef struct tn__branches {
  tn__graph *g;
  tn__body *around;     /* whose graph that is; NULL: the main one */
  tn__value *condition; /* one bool without dimensions, which only a run tells */
  int count;            /* of results */
  /* What a branch makes, into the graph of the body or, when that is NULL, into `g`. */
  void (*make)(tn__body *body, bool yes, tn__value **results, void *user);
  void *user;
  tn__branch sides[2]; /* set: else, then */
} tn__branches;
/* An `if`, or a choice between the results of both branches where these are cheap and of the same sizes. -1; else the
 * first result that is a tensor of one rank in one branch and of another in the other: then there is no result. */
TN_MUST_USE int tn__branches_make(tn__branches *branches, tn__value **results);

/* ---- forks (fork.c) ---------------------------------------------------------------------------------------------- */

/* Those that are being followed, of all that is built: zeros at first. */
typedef struct tn__forks {
  int depth;
  bool looks, stopped; /* it is only tried whether what comes next suits; and that came to an end */
  bool too_many;
} tn__forks;

/* What follows in one case, into the graph of the branch's body. */
typedef struct tn__fork_case {
  bool yes;
  int most, levels; /* read so many nodes at the most, and so many scopes out */
  tn__branch branch;
  /* to be set: */
  int reached; /* the results, in the branch, are those of the scope so many levels out; NULL: there is more to read */
} tn__fork_case;

/* An operator whose results' number of dimensions depends on data. What follows is read for either case. When it suits
 * one only, the other is a failed check at run time. When it suits both, they become the two branches of an `if`. */
typedef struct tn__fork {
  tn__graph *g;
  tn__body *around; /* whose graph that is; NULL: the main one */
  tn__forks *forks;
  tn__value *condition; /* one bool */
  const char *cases[2]; /* for messages: what is the case when it is false, and true: "dimension 2 is 1" */
  int most_levels;      /* scopes around that go on with the results of those inside */
  tn_status *(*follow)(tn__fork_case *c, void *user); /* returns what it throws */
  int (*result_count)(int levels, void *user);        /* of the scope so many levels out */
  const char *(*result_name)(int levels, int result, void *user);
  void *user;
} tn__fork;
typedef struct tn__forked {
  tn__value **results; /* of the scope, NULL for those that were there before; NULL: only `yes` is the case, and the */
  int levels;          /* operator and what follows go on in the graph with that */
  bool yes;
} tn__forked;
tn__forked tn__fork_make(const tn__fork *fork);

/* ---- loops (loop.c) ---------------------------------------------------------------------------------------------- */

/* A round, seen from inside. */
typedef struct tn__round {
  tn__body *body;        /* that it is built into; NULL: the graph around it, where one round follows the other */
  int64_t number, count; /* without a body: which round this is, and of how many */
  tn__value *index;      /* i64, from 0 */
  tn__value *trips;      /* NULL when the number of rounds is not given, and without a body */
  tn__value *condition;  /* bool */
  tn__value **states;
  /* to be set: */
  tn__value *goes_on; /* NULL: as the condition says */
  tn__value **next;   /* of the states */
  tn__value **pieces;
} tn__round;

typedef struct tn__loop {
  tn__graph *g;
  tn__body *around;     /* whose graph that is; NULL: the main one */
  tn__value *trips;     /* one integer, or NULL */
  tn__value *condition; /* one bool, or NULL: true */
  tn__value **states;   /* tensors or sequences */
  int state_count, piece_count;
  const int64_t *axes;   /* by piece: the new axis of what all rounds make, along which they lie; NULL: it is a list */
  const bool *backwards; /* by piece: in front of the earlier ones; NULL: none */
  bool ends_by_count;    /* no round ends the loop */
  int64_t cost;          /* of a round, in nodes of the model */
  void (*round)(tn__round *round, void *user);
  /* The size that the model declares for a dimension of a piece of that rank, -1 when it does not; may be NULL. */
  int64_t (*declared)(int piece, int rank, int dim, void *user);
  void *user;
  const tn__body *body; /* set when the loop runs: the graph of a round */
} tn__loop;
/* Will its rounds be written out, being known and few? */
TN_MUST_USE bool tn__loop_unrolls(const tn__loop *loop, int64_t *rounds);
/* Replaces the states by what they are at the end, and gives what all rounds make of each piece. */
void tn__loop_make(tn__loop *loop, tn__value **pieces);

#endif
