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
#include "graph/passes/mover.h"

/* ---- the two orders ----------------------------------------------------------------------------- */

/* [N, C, spatial...] to [N, spatial..., C]. */
static void channels_to_last(int rank, int64_t *out) {
  out[0] = 0;
  for (int i = 1; i < rank - 1; i++) out[i] = i + 1;
  out[rank - 1] = 1;
}

/* Where dimension `axis` stands in the new order. */
static int64_t moved_axis(int rank, int64_t axis) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

static tn__value *to_last(tn__mover *m, tn__value *value) {
  int64_t permutation[TN__MAX_RANK];
  channels_to_last(value->rank, permutation);
  tn__node *broadcast = tn__pass_producer_of(value, "broadcast_in_dim");
  if (broadcast != NULL && !tn__mover_has_followed(m, broadcast->inputs[0]))
    return tn__pass_permuted_broadcast(m->graph, broadcast, permutation);
  return tn__pass_permuted(m->graph, value, permutation);
}

static tn__value *to_first(tn__mover *m, tn__value *moved, const tn__value *like) {
  int64_t permutation[TN__MAX_RANK], inverse[TN__MAX_RANK];
  channels_to_last(like->rank, permutation);
  tn__pass_inverse(permutation, like->rank, inverse);
  return tn__pass_permuted(m->graph, moved, inverse);
}

/* ---- attributes in the new order ---------------------------------------------------------------- */

/* One entry a dimension. */
static tn__attr permuted_attr(tn__mover *m, const tn__node *node, const char *name, int rank) {
  const tn__attr *attr = tn__node_attr(node, name);
  int64_t permutation[TN__MAX_RANK], ints[TN__MAX_RANK];
  const tn__expr *exprs[TN__MAX_RANK];
  channels_to_last(rank, permutation);
  for (int i = 0; i < rank; i++) {
    if (attr->kind == TN__ATTR_INTS) ints[i] = attr->ints[permutation[i]];
    if (attr->kind == TN__ATTR_EXPRS) exprs[i] = attr->exprs[permutation[i]];
  }
  return attr->kind == TN__ATTR_INTS ? tn__attr_ints(m->graph, name, ints, rank)
                                     : tn__attr_exprs(m->graph, name, exprs, rank);
}

/* A list of dimensions. */
static tn__attr moved_axes(tn__mover *m, const tn__node *node, const char *name, int rank) {
  const tn__attr *attr = tn__node_attr(node, name);
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < attr->count; i++) axes[i] = moved_axis(rank, attr->ints[i]);
  return tn__attr_ints(m->graph, name, axes, attr->count);
}

/* ---- who follows -------------------------------------------------------------------------------- */

/* What stands beside an operand that has moved, and costs nothing to read in another order. */
static bool is_free_to_move(const tn__value *value) {
  return tn__pass_is_constant(value) || (value->producer != NULL && tn__op_has(value->producer, TN__FACT_REPEATS));
}

/* More would have to be transposed than is saved? */
static bool costs_more(tn__mover *m, const tn__node *node) {
  int moved = 0, others = 0;
  for (int i = 0; i < node->input_count; i++) {
    moved += tn__mover_has_followed(m, node->inputs[i]);
    others += !is_free_to_move(node->inputs[i]) && !tn__mover_is_made(m, node->inputs[i]);
  }
  return moved < others;
}

static tn__value *follow_elementwise(tn__mover *m, const tn__node *node) {
  tn__value *inputs[4];
  if (node->input_count > 4 || node->output_count != 1 || costs_more(m, node)) return NULL;
  for (int i = 0; i < node->input_count; i++) inputs[i] = tn__mover_moved(m, node->inputs[i]);
  return tn__pass_node_again(m->graph, node, inputs, NULL, 0);
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
static bool operands_fit(tn__mover *m, const tn__node *node, int rank) {
  bool any = false;
  for (int i = 0; i < node->input_count; i++) {
    if (!moves_along(node, i)) continue;
    if (node->inputs[i] == NULL || node->inputs[i]->rank != rank) return false;
    any = any || tn__mover_has_followed(m, node->inputs[i]);
  }
  return any;
}

/* By the row of its operator. The result in the new order or, with *direct set, in the order it always had. */
static tn__value *follow_by_row(tn__mover *m, const tn__node *node, bool *direct) {
  const tn__op_moves *moves = &node->op->moves;
  const tn__attr *listed = moves->axes == NULL ? NULL : tn__node_attr(node, moves->axes);
  bool drops = tn__op_has(node, TN__FACT_REDUCES) && tn__node_int(node, "keep_dims", 0) == 0;
  int rank = drops ? node->inputs[0]->rank : node->outputs[0]->rank, count = 0;
  tn__attr changed[sizeof moves->per_dim / sizeof *moves->per_dim + 1];
  if ((moves->axes != NULL && listed == NULL) || !operands_fit(m, node, rank)) return NULL;
  if (drops && !keeps_order(node, listed)) return NULL;
  *direct = drops;
  for (size_t i = 0; i < sizeof moves->per_dim / sizeof *moves->per_dim && moves->per_dim[i] != NULL; i++)
    changed[count++] = permuted_attr(m, node, moves->per_dim[i], rank);
  if (listed != NULL) changed[count++] = moved_axes(m, node, moves->axes, rank);
  tn__value **inputs = TN__NEW_ARRAY(tn__graph_arena(m->graph), node->input_count, tn__value *);
  for (int i = 0; i < node->input_count; i++)
    inputs[i] = moves_along(node, i) ? tn__mover_moved(m, node->inputs[i]) : tn__mover_restored(m, node->inputs[i]);
  return tn__pass_node_again(m->graph, node, inputs, changed, count);
}

/* A transpose to the new order has nothing left to do. */
static tn__value *drop_transpose(tn__mover *m, const tn__node *node) {
  int64_t permutation[TN__MAX_RANK];
  int rank = node->outputs[0]->rank;
  channels_to_last(rank, permutation);
  bool same = memcmp(permutation, tn__node_attr(node, "permutation")->ints, (size_t)rank * sizeof *permutation) == 0;
  return same ? tn__mover_moved(m, node->inputs[0]) : NULL;
}

static tn__value *follow_moved(tn__mover *m, const tn__node *node, bool *direct) {
  if (node->op->op_class == TN__CLASS_ELEMENTWISE) return follow_elementwise(m, node);
  if (node->op->moves.operands != 0) return follow_by_row(m, node, direct);
  *direct = tn__g_is_op(node, "transpose");
  return *direct ? drop_transpose(m, node) : NULL;
}

/* ---- the pass ----------------------------------------------------------------------------------- */

static bool is_channels_first(const tn__node *node) {
  return tn__g_is_op(node, "convolution") && tn__node_int(node, "channels_last", 0) == 0 && node->outputs[0]->rank >= 3;
}

/* [O, I, spatial...] to [spatial..., I, O]. */
static tn__value *weights_last(tn__mover *m, tn__value *weights) {
  int64_t permutation[TN__MAX_RANK];
  int rank = weights->rank;
  for (int i = 0; i < rank - 2; i++) permutation[i] = i + 2;
  permutation[rank - 2] = 1;
  permutation[rank - 1] = 0;
  return tn__pass_permuted(m->graph, weights, permutation);
}

static tn__value *convolution_last(tn__mover *m, const tn__node *node) {
  tn__value *image = tn__mover_moved(m, node->inputs[0]);
  tn__value *inputs[2] = {image, weights_last(m, tn__mover_restored(m, node->inputs[1]))};
  const tn__attr last = tn__attr_int(m->graph, "channels_last", 1);
  return tn__pass_node_again(m->graph, node, inputs, &last, 1);
}

static tn__value *follow(tn__mover *m, const tn__node *node, bool reads_moved, bool *direct) {
  if (is_channels_first(node)) return convolution_last(m, node);
  return reads_moved ? follow_moved(m, node, direct) : NULL;
}

void tn__pass_layout(tn__graph *graph, const tn__optimize_options *options) {
  (void)options;
  tn__mover mover = {.move = to_last, .restore = to_first, .follow = follow};
  tn__mover_run(&mover, graph);
}
