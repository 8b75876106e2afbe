/* What the passes share: facts about nodes, and an engine that applies rules until none fits. */
#ifndef TENON_GRAPH_PASSES_REWRITE_H
#define TENON_GRAPH_PASSES_REWRITE_H

#include "graph/passes/passes.h"

/* ---- facts -------------------------------------------------------------------------------------- */
static inline bool tn__pass_is_constant(const tn__value *value) { return value->data != NULL; }
/* The producer of a value when it is an operator of that name, else NULL. */
tn__node *tn__pass_producer_of(const tn__value *value, const char *name);
bool tn__pass_same_shape(const tn__value *a, const tn__value *b); /* the same dimensions, as expressions */
bool tn__pass_same_type(const tn__value *a, const tn__value *b);  /* and the same element type and layout */
bool tn__pass_is_unit(const tn__expr *dim);                       /* the constant 1 */
/* Number of elements, -1 when symbolic or beyond 2^62. */
int64_t tn__pass_element_total(const tn__value *value);
/* The element of a splat; of a broadcast or reshape of one too. False when all elements are not known to be one
 * constant. */
TN_MUST_USE bool tn__pass_splat_element(const tn__value *value, const void **element);
TN_MUST_USE bool tn__pass_splat_number(const tn__value *value, double *number);
/* Does the value depend on constants only? Looks back over at most a few dozen nodes. */
bool tn__pass_is_precomputable(const tn__value *value);
/* A value that varies along dimension `axis` only, or not at all when that is -1: the vector, or the scalar. NULL: it
 * is none. */
tn__value *tn__pass_along(tn__graph *graph, tn__value *value, int axis);

/* ---- permutations ------------------------------------------------------------------------------- */
bool tn__pass_is_identity(const int64_t *permutation, int rank);
void tn__pass_inverse(const int64_t *permutation, int rank, int64_t *out);
/* transpose(transpose(x, first), second) = transpose(x, out). */
void tn__pass_compose(const int64_t *first, const int64_t *second, int rank, int64_t *out);
/* transpose(value, permutation); the value itself when that changes nothing, and a reshape when only dimensions of 1
 * move. */
tn__value *tn__pass_permuted(tn__graph *graph, tn__value *value, const int64_t *permutation);
/* transpose(result of `broadcast`, permutation) as a broadcast of its operand, whose dimensions change places when they
 * must. */
tn__value *tn__pass_permuted_broadcast(tn__graph *graph, const tn__node *broadcast, const int64_t *permutation);
/* The value in the layout. Equal elements are in every layout: a splat stays one, and what fills up blocks is no zero
 * then, so the layout must be one whose filling nobody reads. */
tn__value *tn__pass_relayout(tn__graph *graph, tn__value *value, const tn__layout *layout);
/* `node` again over other operands, with `changed` attributes in place of its own of the same names; the first
 * result. */
tn__value *tn__pass_node_again(tn__graph *graph, const tn__node *node, tn__value *const *inputs,
                               const tn__attr *changed, int count);

/* ---- the engine --------------------------------------------------------------------------------- */
typedef struct tn__rewriter {
  tn__graph *graph;
  const tn__optimize_options *options;
  TN__VEC(int) uses;   /* by value id: readers among live nodes, outputs and symbols */
  int counted;         /* nodes whose operands are in `uses` ... */
  int counted_symbols; /* ... and symbols whose sources are */
} tn__rewriter;

/* Returns the value that takes the place of the node's only result, or NULL. It must have the result's type and
 * shape. */
typedef tn__value *tn__rule_fn(tn__rewriter *rewriter, tn__node *node);
typedef struct tn__rewrite_rule {
  const char *name; /* for people who read the table */
  const char *op;   /* operator that the rule looks at; NULL: any element-wise one */
  tn__rule_fn *apply;
} tn__rewrite_rule;
typedef struct tn__rule_set {
  const tn__rewrite_rule *rules;
  int count;
} tn__rule_set;

/* Calls `visit` for each node that is there and lives, in order, and none that is made meanwhile; what it makes has the
 * node's origin. */
void tn__pass_visit(tn__graph *graph, void (*visit)(void *user, tn__node *node), void *user);
/* Puts what `make` gives in the place of each node, once; sweeps. */
void tn__pass_replace(tn__graph *graph, const tn__optimize_options *options, tn__rule_fn *make);

void tn__rewriter_init(tn__rewriter *rewriter, tn__graph *graph, const tn__optimize_options *options);
/* Applies rules, in the order of the table, to every node until none fits; sweeps. */
void tn__pass_rewrite(tn__rewriter *rewriter, const tn__rule_set *sets, int count);
int tn__pass_uses_of(tn__rewriter *rewriter, const tn__value *value);
/* Puts `to` in the place of `from` everywhere; what nobody reads any more is dead. */
void tn__pass_put_in_place(tn__rewriter *rewriter, tn__value *from, tn__value *to);

/* ---- composites that carry their bodies (inline.c) ---------------------------------------------- */
/* Will one kernel compute it? */
bool tn__pass_stays_whole(const tn__node *composite);
/* Puts its body in its place. */
void tn__pass_put_body(tn__rewriter *rewriter, const tn__node *composite);

/* The rules of the passes simplify and raise, by file. */
extern const tn__rule_set tn__rules_shape, tn__rules_arithmetic, tn__rules_product, tn__rules_raise;

#endif
