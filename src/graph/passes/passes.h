/* Passes over the graph, in the order in which tn__graph_optimize runs them. Each leaves a verified graph in
 * topological order. */
#ifndef TENON_GRAPH_PASSES_PASSES_H
#define TENON_GRAPH_PASSES_PASSES_H

#include "base/linked.h"
#include "graph/build/build.h"
#include "graph/graph.h"

/* Computes the outputs of a node whose operands are all constants (dense or splat): fills `out[i]` (room for the
 * output's bytes, in its type) and returns true, or returns false to leave the node. Comes from the driver; passes
 * don't know how kernels run. */
typedef struct tn__evaluator {
  bool (*evaluate)(void *user, tn__graph *graph, const tn__node *node, void *const *out);
  void *user;
} tn__evaluator;

typedef struct tn__winograd_sizes {
  int64_t batch, height, width; /* of the result */
  int64_t in, out;              /* channels */
} tn__winograd_sizes;

/* A decision about a few nodes that a pass makes by an estimate, and that somebody may know better who has measured. */
enum { TN__SITE_CHOICES = 3, TN__SITE_DIGEST = 17 };
typedef struct tn__site {
  const char *kind; /* "winograd": the side of the tiles, 0 without; "fusion": 1 in one kernel, 0 in a kernel each */
  const char *text; /* all that the decision depends on, in a line */
  int usual;        /* what the estimate says */
  int choices[TN__SITE_CHOICES], choice_count;
} tn__site;
/* 16 hexadecimal digits of kind and text: equal nodes of any model have the same. */
TN__LINKED void tn__site_digest(const tn__site *site, char out[TN__SITE_DIGEST]);

typedef struct tn__optimize_options {
  tn__evaluator evaluator;
  /* Are kernels of the device where the node is like a CPU's? Others are left as they are by the two hooks that follow.
   * NULL: all are. */
  bool (*is_for_cpu)(void *user, const tn__node *node);
  void *device_user;
  /* The layout in which kernels want a constant right operand of a product or convolution; false: as it is. */
  bool (*operand_layout)(void *user, const tn__operand_use *operand, tn__layout *out);
  void *layout_user;
  /* The side of the tiles (2 or 4) in which Winograd's algorithm is to compute a 3x3 convolution of stride 1 with so
   * many pixels in its result; 0: as the sums of products that it is. NULL: always 0. */
  int (*winograd_tile)(void *user, const tn__winograd_sizes *sizes);
  void *winograd_user;
  int (*decide)(void *user, const tn__site *site); /* one of its choices; NULL: always the usual one */
  void *decide_user;
  void (*after)(void *user, const char *pass, const tn__graph *graph, double seconds); /* may be NULL */
  void *after_user;
  bool limited; /* run only the first `most` passes of the pipeline, then dce, so that dead values get no kernels */
  int most;
  void (*fired)(void *user, const char *rule); /* called for each applied rule of a rule table; may be NULL */
  void *fired_user;
} tn__optimize_options;

void tn__graph_optimize(tn__graph *graph, const tn__optimize_options *options);
/* One pass alone, with the verifier behind it; false when there is none of that name. */
bool tn__graph_run_pass(tn__graph *graph, const char *name, const tn__optimize_options *options);
static inline bool tn__pass_is_for_cpu(const tn__optimize_options *options, const tn__node *node) {
  return options->is_for_cpu == NULL || options->is_for_cpu(options->device_user, node);
}
/* What `options` decide for a site. */
int tn__pass_decide(const tn__optimize_options *options, const tn__site *site);
/* The pipeline's passes by place, from 0, some of them more than once; NULL behind the last. */
const char *tn__graph_pass_name(int index);

/* inline: composites that carry their bodies and that no kernel would be made of become these. fold: nodes over
 * constants become constants: at most 2^16 output elements and 2^22 scalar operations each, decided by counts alone;
 * splats stay splats through element-wise and shape operators; values with constant elements become constants.
 * simplify: algebraic rules (reshape of reshape, transpose of transpose and into dot_general, identity
 * broadcast/convert/slice/pad, x*1, x+0 for integers, batch-norm-like multiply/add of constants into a preceding
 * convolution's or product's weights, 1x1 convolutions as products ...). cse: equal nodes become one. dce: nodes that
 * nobody reads go. raise: softmax, GELU and normalisations that are spelt out become composites. pointwise: 1x1
 * convolutions that stay channels-first become products. layout: convolutions, pooling and what lies between become
 * channels-last; transposes are pushed out and cancelled. phases: transposed convolutions become ones over the image as
 * it is, with the columns of all phases of the result. rows: products with several row dimensions and 1x1 convolutions
 * become products of two matrices; readers that go row by row follow. winograd: 3x3 convolutions of stride 1 by minimal
 * filtering, where the driver says so. quads: operands of products and convolutions of bytes are stored in words, of
 * which four bytes are summed at a time. pack: constant right operands of products and convolutions get the layout that
 * the driver wants. attention: the sums of a softmax divide rows of results instead of rows of weights. */
void tn__pass_inline(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_fold(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_simplify(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_cse(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_dce(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_raise(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_quantized(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_pointwise(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_layout(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_phases(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_rows(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_winograd(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_quads(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_pack(tn__graph *graph, const tn__optimize_options *options);
void tn__pass_attention(tn__graph *graph, const tn__optimize_options *options);

/* ---- fusion: which nodes share a kernel --------------------------------------------------------- */
typedef struct tn__group {
  tn__graph *graph;
  tn__node **nodes; /* in topological order; cheap producers may stand in several groups */
  int node_count;
  tn__value **outputs; /* values that others read, in order */
  int output_count;
  bool view;     /* a lone reshape, bitcast or relayout in the same order: no kernel, another view of its operand */
  bool constant; /* depends on constants only: computed once by the driver when it compiles */
} tn__group;
typedef struct tn__groups {
  tn__group *groups; /* in an order in which they can run */
  int count;
} tn__groups;
tn__groups tn__pass_fuse(tn__graph *graph, const tn__optimize_options *options);
/* Attention: what would be worth one kernel, from the product of queries and keys to that of weights and values, which
 * is the last of `nodes`. Only the pass of that name asks; fusion itself takes the composite that it makes. */
typedef struct tn__attentions {
  tn__group *items; /* without outputs */
  int count;
} tn__attentions;
tn__attentions tn__pass_fuse_attentions(tn__graph *graph);
/* Do the sizes of these products, of queries and keys and of weights and values, suit one kernel? */
bool tn__pass_suits_attention(const tn__node *scores, const tn__node *product);

#endif
