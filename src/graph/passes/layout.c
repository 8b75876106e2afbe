/* Channels-last layout. Models come with channels in dimension 1 of images ([N, C, H, W]); kernels want them last,
 * where vectors of channels lie side by side.
 *
 * In topological order, every channels-first convolution is made channels-last. What reads its result follows, as far
 * as its operator does not care which dimension comes last (`moves` in its row): element-wise operators, pooling,
 * concatenation ... A value that has followed exists in the new order only; whoever needs the old one reads a
 * transpose, made once. Transposes remain where a network's images come in and where they leave the ones that
 * follow. */
#include <string.h>

#include "base/invariant.h"
#include "graph/passes/rewrite.h"

typedef struct versions {
  tn__value *last;     /* channels-last; NULL: not made */
  tn__value *restored; /* of a value that moved: its old order again; NULL: not made */
  bool moved;          /* exists in the new order only */
} versions;

typedef struct layout {
  tn__graph *graph;
  tn__arena *arena;
  TN__VEC(versions) versions; /* by value id */
} layout;

static versions *versions_of(layout *l, const tn__value *value) {
  while (l->versions.count <= (int)value->id) tn__vec_push(l->arena, &l->versions, (versions){0});
  return &l->versions.data[value->id];
}

static bool has_moved(layout *l, const tn__value *value) { return versions_of(l, value)->moved; }

/* ---- the two orders ----------------------------------------------------------------------------- */

/* [N, C, spatial...] to [N, spatial..., C]. */
static void channels_to_last(int rank, int64_t *out) {
  out[0] = 0;
  for (int i = 1; i < rank - 1; i++) out[i] = i + 1;
  out[rank - 1] = 1;
}

/* Where dimension `axis` stands in the new order. */
static int64_t moved_axis(int rank, int64_t axis) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

static tn__value *last_of(layout *l, tn__value *value) {
  tn__value *last = versions_of(l, value)->last;
  if (last != NULL) return last;
  int64_t permutation[TN__MAX_RANK];
  TN__INVARIANT(value != NULL); /* operands that a node must have: checked when it is made */
  channels_to_last(value->rank, permutation);
  tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  if (broadcast != NULL && !has_moved(l, broadcast->inputs[0]))
    last = tn__pass_permuted_broadcast(l->graph, broadcast, permutation);
  else
    last = tn__pass_permuted(l->graph, value, permutation);
  versions_of(l, value)->last = last;
  return last;
}

static tn__value *restored(layout *l, tn__value *value) {
  versions *v = versions_of(l, value);
  if (!v->moved) return value;
  if (v->restored != NULL) return v->restored;
  int64_t permutation[TN__MAX_RANK], inverse[TN__MAX_RANK];
  TN__INVARIANT(value != NULL && v->last != NULL); /* what moved has a version in the new order */
  channels_to_last(value->rank, permutation);
  tn__pass_inverse(permutation, value->rank, inverse);
  tn__value *first = tn__pass_permuted(l->graph, v->last, inverse);
  versions_of(l, value)->restored = first;
  return first;
}

/* ---- attributes in the new order ---------------------------------------------------------------- */

/* One entry a dimension. */
static tn__attr permuted_attr(layout *l, const tn__node *node, const char *name, int rank) {
  const tn__attr *attr = tn__node_attr(node, name);
  int64_t permutation[TN__MAX_RANK], ints[TN__MAX_RANK];
  const tn__expr *exprs[TN__MAX_RANK];
  channels_to_last(rank, permutation);
  for (int i = 0; i < rank; i++) {
    if (attr->kind == TN__ATTR_INTS) ints[i] = attr->ints[permutation[i]];
    if (attr->kind == TN__ATTR_EXPRS) exprs[i] = attr->exprs[permutation[i]];
  }
  return attr->kind == TN__ATTR_INTS ? tn__attr_ints(l->graph, name, ints, rank)
                                     : tn__attr_exprs(l->graph, name, exprs, rank);
}

/* A list of dimensions. */
static tn__attr moved_axes(layout *l, const tn__node *node, const char *name, int rank) {
  const tn__attr *attr = tn__node_attr(node, name);
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < attr->count; i++) axes[i] = moved_axis(rank, attr->ints[i]);
  return tn__attr_ints(l->graph, name, axes, attr->count);
}

/* ---- who follows -------------------------------------------------------------------------------- */

/* What stands beside an operand that has moved, and costs nothing to read in another order. */
static bool is_free_to_move(const tn__value *value) {
  return tn__pass_is_constant(value) || (value->producer != NULL && tn__op_has(value->producer, TN__FACT_REPEATS));
}

/* More would have to be transposed than is saved? */
static bool costs_more(layout *l, const tn__node *node) {
  int moved = 0, others = 0;
  for (int i = 0; i < node->input_count; i++) {
    const versions *v = versions_of(l, node->inputs[i]);
    moved += v->moved;
    others += !is_free_to_move(node->inputs[i]) && v->last == NULL;
  }
  return moved < others;
}

static tn__value *follow_elementwise(layout *l, const tn__node *node) {
  tn__value *inputs[4];
  if (node->input_count > 4 || node->output_count != 1 || costs_more(l, node)) return NULL;
  for (int i = 0; i < node->input_count; i++) inputs[i] = last_of(l, node->inputs[i]);
  return tn__pass_node_again(l->graph, node, inputs, NULL, 0);
}

/* A reduction that drops dimensions gives what it gave before, if those that are left keep their order. */
static bool keeps_order(const tn__node *node, const tn__attr *axes) {
  int64_t permutation[TN__MAX_RANK], last = -1;
  int rank = node->inputs[0]->rank;
  channels_to_last(rank, permutation);
  for (int i = 0; i < rank; i++) {
    bool reduced = false;
    for (int j = 0; j < axes->count; j++) reduced = reduced || axes->ints[j] == permutation[i];
    if (reduced) continue;
    if (permutation[i] < last) return false;
    last = permutation[i];
  }
  return true;
}

static bool moves_along(const tn__node *node, int input) { return (node->op->moves.operands >> input & 1) != 0; }

/* Can all operands that must be in the new order be, and is one of them already? */
static bool operands_fit(layout *l, const tn__node *node, int rank) {
  bool any = false;
  for (int i = 0; i < node->input_count; i++) {
    if (!moves_along(node, i)) continue;
    if (node->inputs[i] == NULL || node->inputs[i]->rank != rank) return false;
    any = any || has_moved(l, node->inputs[i]);
  }
  return any;
}

/* By the row of its operator. The result in the new order or, with *direct set, in the order it always had. */
static tn__value *follow_by_row(layout *l, const tn__node *node, bool *direct) {
  const tn__op_moves *moves = &node->op->moves;
  const tn__attr *listed = moves->axes == NULL ? NULL : tn__node_attr(node, moves->axes);
  bool drops = tn__op_has(node, TN__FACT_REDUCES) && tn__node_int(node, "keep_dims", 0) == 0;
  int rank = drops ? node->inputs[0]->rank : node->outputs[0]->rank, count = 0;
  tn__attr changed[sizeof moves->per_dim / sizeof *moves->per_dim + 1];
  if ((moves->axes != NULL && listed == NULL) || !operands_fit(l, node, rank)) return NULL;
  if (drops && !keeps_order(node, listed)) return NULL;
  *direct = drops;
  for (size_t i = 0; i < sizeof moves->per_dim / sizeof *moves->per_dim && moves->per_dim[i] != NULL; i++)
    changed[count++] = permuted_attr(l, node, moves->per_dim[i], rank);
  if (listed != NULL) changed[count++] = moved_axes(l, node, moves->axes, rank);
  tn__value **inputs = TN__NEW_ARRAY(l->arena, node->input_count, tn__value *);
  for (int i = 0; i < node->input_count; i++)
    inputs[i] = moves_along(node, i) ? last_of(l, node->inputs[i]) : restored(l, node->inputs[i]);
  return tn__pass_node_again(l->graph, node, inputs, changed, count);
}

/* A transpose to the new order has nothing left to do. */
static tn__value *drop_transpose(layout *l, const tn__node *node) {
  int64_t permutation[TN__MAX_RANK];
  int rank = node->outputs[0]->rank;
  channels_to_last(rank, permutation);
  bool same = memcmp(permutation, tn__node_attr(node, "permutation")->ints, (size_t)rank * sizeof *permutation) == 0;
  return same ? last_of(l, node->inputs[0]) : NULL;
}

static tn__value *follow(layout *l, const tn__node *node, bool *direct) {
  if (node->op->op_class == TN__CLASS_ELEMENTWISE) return follow_elementwise(l, node);
  if (node->op->moves.operands != 0) return follow_by_row(l, node, direct);
  *direct = tn__g_is_op(node, "transpose");
  return *direct ? drop_transpose(l, node) : NULL;
}

/* ---- the walk ----------------------------------------------------------------------------------- */

static bool is_channels_first(const tn__node *node) {
  return tn__g_is_op(node, "convolution") && tn__node_int(node, "channels_last", 0) == 0 && node->outputs[0]->rank >= 3;
}

/* [O, I, spatial...] to [spatial..., I, O]. */
static tn__value *weights_last(layout *l, tn__value *weights) {
  int64_t permutation[TN__MAX_RANK];
  int rank = weights->rank;
  for (int i = 0; i < rank - 2; i++) permutation[i] = i + 2;
  permutation[rank - 2] = 1;
  permutation[rank - 1] = 0;
  return tn__pass_permuted(l->graph, weights, permutation);
}

static tn__value *convolution_last(layout *l, const tn__node *node) {
  tn__value *inputs[2] = {last_of(l, node->inputs[0]), weights_last(l, restored(l, node->inputs[1]))};
  const tn__attr last = tn__attr_int(l->graph, "channels_last", 1);
  return tn__pass_node_again(l->graph, node, inputs, &last, 1);
}

static void visit(layout *l, tn__node *node) {
  bool reads_moved = false, direct = false;
  tn__value *result = NULL;
  for (int i = 0; i < node->input_count; i++)
    reads_moved = reads_moved || (node->inputs[i] != NULL && has_moved(l, node->inputs[i]));
  if (is_channels_first(node)) {
    result = convolution_last(l, node);
  } else if (reads_moved) {
    result = follow(l, node, &direct);
  }
  if (result == NULL) {
    for (int i = 0; reads_moved && i < node->input_count; i++)
      if (node->inputs[i] != NULL) tn__node_set_input(l->graph, node, i, restored(l, node->inputs[i]));
    return;
  }
  node->dead = true;
  if (direct) {
    tn__graph_replace_uses(l->graph, node->outputs[0], result);
  } else {
    versions *v = versions_of(l, node->outputs[0]);
    v->last = result;
    v->moved = true;
    for (int i = 1; i < node->output_count; i++) { /* of the same node made anew */
      v = versions_of(l, node->outputs[i]);
      v->last = result->producer->outputs[i];
      v->moved = true;
    }
  }
}

void tn__pass_layout(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  layout l = {.graph = graph, .arena = tn__graph_arena(graph)};
  const char *origin = tn__graph_origin(graph);
  int count = tn__graph_node_count(graph);
  for (int i = 0; i < count; i++) {
    tn__node *node = tn__graph_node_at(graph, i);
    tn__graph_set_origin(graph, node->origin);
    if (!node->dead) visit(&l, node);
  }
  for (int i = 0; i < tn__graph_output_count(graph); i++)
    tn__graph_set_output(graph, i, restored(&l, tn__graph_output_at(graph, i)));
  tn__graph_set_origin(graph, origin);
  tn__graph_sweep(graph);
}
