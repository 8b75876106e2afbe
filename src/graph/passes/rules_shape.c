/* Rules about operators that move elements: reshapes, transposes and broadcasts meet and cancel. */
#include "graph/passes/rewrite.h"

static const int64_t *ints_of(const tn__node *node, const char *name) { return tn__node_attr(node, name)->ints; }

/* ---- reshape ------------------------------------------------------------------------------------ */

/* A dense constant in another shape is the same memory. */
static tn__value *reshaped_constant(tn__graph *graph, const tn__value *constant, const tn__value *like) {
  int64_t shape[TN__MAX_RANK];
  if (!tn__pass_is_constant(constant) || !tn__g_shape_const(like, shape)) return NULL;
  return tn__g_constant_value(graph, constant->dtype, like->rank, shape, constant->data, constant->splat);
}

static tn__value *reshape_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  return tn__pass_same_shape(node->inputs[0], node->outputs[0]) ? node->inputs[0] : NULL;
}

static tn__value *reshape_constant(tn__rewriter *rewriter, tn__node *node) {
  return reshaped_constant(rewriter->graph, node->inputs[0], node->outputs[0]);
}

static tn__value *reshape_reshape(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "reshape");
  const tn__value *result = node->outputs[0];
  return inner == NULL ? NULL : tn__g_reshape(rewriter->graph, inner->inputs[0], result->rank, result->dims);
}

/* ---- transposes through reshapes ---------------------------------------------------------------- */

/* The dimensions of a shape that are not 1, as the dimensions of a smaller one. */
typedef struct real_shape {
  int rank;
  const tn__expr *dims[TN__MAX_RANK];
  int of[TN__MAX_RANK];      /* the place of dimension i in the whole shape */
  int rank_of[TN__MAX_RANK]; /* and back */
} real_shape;

static real_shape real_shape_of(const tn__value *value) {
  real_shape s = {0};
  for (int i = 0; i < value->rank; i++) {
    s.rank_of[i] = s.rank;
    if (tn__pass_is_unit(value->dims[i])) continue;
    s.of[s.rank] = i;
    s.dims[s.rank++] = value->dims[i];
  }
  return s;
}

/* A permutation of the whole shape as one of its real dimensions. */
static void real_permutation(const int64_t *permutation, int rank, const real_shape *before,
                             const tn__value *whole_before, int64_t *out) {
  int next = 0;
  for (int i = 0; i < rank; i++)
    if (!tn__pass_is_unit(whole_before->dims[permutation[i]])) out[next++] = before->rank_of[permutation[i]];
}

/* Where leading products agree, two shapes of one tensor fall into segments: dimensions [a[s], a[s+1]) of the one hold
 * the same elements as [b[s], b[s+1]) of the other. Returns their number, 0 when there are none. */
TN_MUST_USE static int segments_of(tn__ir *ir, const tn__expr *const *x, int m, const tn__expr *const *y, int n, int *a,
                                   int *b) {
  const tn__expr *left[TN__MAX_RANK + 1], *right[TN__MAX_RANK + 1];
  left[0] = right[0] = tn__ir_index(ir, 1);
  for (int i = 0; i < m; i++) left[i + 1] = tn__ir_mul(ir, left[i], x[i]);
  for (int j = 0; j < n; j++) right[j + 1] = tn__ir_mul(ir, right[j], y[j]);
  if (m == 0 || n == 0 || left[m] != right[n] || tn__ir_is_int_value(left[m], 0)) return 0;
  int count = 0;
  a[0] = b[0] = 0;
  for (int i = 1; i <= m; i++) {
    int j = b[count] + 1;
    while (j <= n && right[j] != left[i]) j++;
    if (j > n) continue;
    count++;
    a[count] = i;
    b[count] = j;
  }
  return count;
}

/* permutation[from..to) counts up by one: these dimensions move together. */
static bool is_run(const int64_t *permutation, int from, int to) {
  for (int i = from + 1; i < to; i++)
    if (permutation[i] != permutation[i - 1] + 1) return false;
  return true;
}

/* out[k] is the position of the k-th smallest of numbers[0..count). */
static void sort_positions(const int64_t *numbers, int count, int *out) {
  for (int i = 0; i < count; i++) {
    int k = i;
    for (; k > 0 && numbers[out[k - 1]] > numbers[i]; k--) out[k] = out[k - 1];
    out[k] = i;
  }
}

/* reshape(transpose(x, p)) as transpose(reshape(x), out): possible when the reshape takes apart and joins only what p
 * moves together. `middle` is the transpose's result, `reshaped` the reshape's. */
static tn__value *reshape_first(tn__graph *graph, tn__value *x, const int64_t *p, const tn__value *middle,
                                const tn__value *reshaped, int64_t *out) {
  int a[TN__MAX_RANK + 1], b[TN__MAX_RANK + 1], order[TN__MAX_RANK];
  int64_t moves[TN__MAX_RANK], first[TN__MAX_RANK];
  real_shape from = real_shape_of(x), to = real_shape_of(middle), real = real_shape_of(reshaped);
  real_permutation(p, x->rank, &from, x, moves);
  int count = segments_of(tn__graph_ir(graph), to.dims, to.rank, real.dims, real.rank, a, b);
  if (count == 0) return NULL;
  for (int s = 0; s < count; s++) {
    if (!is_run(moves, a[s], a[s + 1])) return NULL;
    first[s] = moves[a[s]];
  }
  sort_positions(first, count, order);
  const tn__expr *dims[TN__MAX_RANK];
  int rank = 0;
  for (int k = 0; k < count; k++)
    for (int j = b[order[k]]; j < b[order[k] + 1]; j++) {
      out[real.of[j]] = rank;
      dims[rank++] = real.dims[j];
    }
  for (int j = 0; j < reshaped->rank; j++) {
    if (!tn__pass_is_unit(reshaped->dims[j])) continue;
    out[j] = rank;
    dims[rank++] = reshaped->dims[j];
  }
  return tn__g_reshape(graph, x, rank, dims);
}

/* transpose(reshape(y), q) as reshape(transpose(y, out)): possible when q moves together what the reshape has taken
 * apart. */
TN_MUST_USE static bool reshape_last(tn__graph *graph, const tn__value *y, const tn__value *reshaped,
                                     const tn__value *result, const int64_t *q, int64_t *out) {
  int a[TN__MAX_RANK + 1], b[TN__MAX_RANK + 1], order[TN__MAX_RANK], next = 0;
  int64_t moves[TN__MAX_RANK], at[TN__MAX_RANK], first[TN__MAX_RANK];
  real_shape from = real_shape_of(y), middle = real_shape_of(reshaped);
  real_permutation(q, result->rank, &middle, reshaped, moves);
  tn__pass_inverse(moves, middle.rank, at);
  int count = segments_of(tn__graph_ir(graph), from.dims, from.rank, middle.dims, middle.rank, a, b);
  if (count == 0) return false;
  for (int s = 0; s < count; s++) {
    if (!is_run(at, b[s], b[s + 1])) return false;
    first[s] = at[b[s]];
  }
  sort_positions(first, count, order);
  for (int k = 0; k < count; k++)
    for (int i = a[order[k]]; i < a[order[k] + 1]; i++) out[next++] = from.of[i];
  for (int i = 0; i < y->rank; i++)
    if (tn__pass_is_unit(y->dims[i])) out[next++] = i;
  return true;
}

/* Two transposes with a reshape between them become one, before or after it. */
static tn__value *transpose_reshape_transpose(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  const tn__node *reshape = tn__pass_producer_of(node->inputs[0], "reshape");
  const tn__node *inner = reshape == NULL ? NULL : tn__pass_producer_of(reshape->inputs[0], "transpose");
  if (inner == NULL) return NULL;
  const int64_t *p = ints_of(inner, "permutation"), *q = ints_of(node, "permutation");
  int64_t moved[TN__MAX_RANK], both[TN__MAX_RANK];
  tn__value *x = inner->inputs[0], *result = node->outputs[0];
  tn__value *early = reshape_first(graph, x, p, inner->outputs[0], reshape->outputs[0], moved);
  if (early != NULL) {
    tn__pass_compose(moved, q, early->rank, both);
    return tn__pass_permuted(graph, early, both);
  }
  if (!reshape_last(graph, inner->outputs[0], reshape->outputs[0], result, q, moved)) return NULL;
  tn__pass_compose(p, moved, x->rank, both);
  return tn__g_reshape(graph, tn__pass_permuted(graph, x, both), result->rank, result->dims);
}

/* ---- reshapes of broadcasts ----------------------------------------------------------------------- */

/* reshape(broadcast(x)) is a broadcast of reshape(x) when no dimension of the result joins what x has and what was
 * repeated. */
static tn__value *reshape_broadcast(tn__rewriter *rewriter, tn__node *node) {
  tn__graph *graph = rewriter->graph;
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "broadcast_in_dim");
  if (inner == NULL) return NULL;
  const tn__value *wide = node->inputs[0], *result = node->outputs[0], *source = inner->inputs[0];
  const int64_t *axes = ints_of(inner, "axes");
  bool kept[TN__MAX_RANK] = {false}; /* dimensions of `wide` that are the source's */
  for (int i = 0; i < source->rank; i++) {
    if (tn__pass_is_unit(source->dims[i])) continue;
    if (source->dims[i] != wide->dims[axes[i]]) return NULL; /* only running it tells whether it stretches */
    kept[axes[i]] = true;
  }
  int a[TN__MAX_RANK + 1], b[TN__MAX_RANK + 1], rank = 0;
  int64_t new_axes[TN__MAX_RANK];
  const tn__expr *dims[TN__MAX_RANK];
  real_shape from = real_shape_of(wide), to = real_shape_of(result);
  int count = segments_of(tn__graph_ir(graph), from.dims, from.rank, to.dims, to.rank, a, b);
  if (count == 0) return NULL;
  for (int s = 0; s < count; s++) {
    for (int i = a[s] + 1; i < a[s + 1]; i++)
      if (kept[from.of[i]] != kept[from.of[a[s]]]) return NULL;
    for (int j = b[s]; kept[from.of[a[s]]] && j < b[s + 1]; j++) {
      new_axes[rank] = to.of[j];
      dims[rank++] = to.dims[j];
    }
  }
  tn__value *narrow = tn__g_reshape(graph, inner->inputs[0], rank, dims);
  return tn__g_broadcast_in_dim(graph, narrow, result->rank, result->dims, new_axes);
}

/* ---- transpose ---------------------------------------------------------------------------------- */

static tn__value *transpose_transpose(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "transpose");
  if (inner == NULL) return NULL;
  int64_t both[TN__MAX_RANK];
  tn__pass_compose(ints_of(inner, "permutation"), ints_of(node, "permutation"), node->outputs[0]->rank, both);
  return tn__pass_permuted(rewriter->graph, inner->inputs[0], both);
}

/* Of nothing, or of dimensions of 1 only. */
static tn__value *transpose_units(tn__rewriter *rewriter, tn__node *node) {
  const int64_t *permutation = ints_of(node, "permutation");
  const tn__value *x = node->inputs[0];
  int64_t last = -1;
  for (int i = 0; i < x->rank; i++) {
    if (tn__pass_is_unit(x->dims[permutation[i]])) continue;
    if (permutation[i] < last) return NULL;
    last = permutation[i];
  }
  return tn__pass_permuted(rewriter->graph, node->inputs[0], permutation);
}

/* Another dimension counts. */
static tn__value *transpose_iota(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "iota");
  const tn__value *result = node->outputs[0];
  int64_t place[TN__MAX_RANK];
  if (inner == NULL) return NULL;
  tn__pass_inverse(ints_of(node, "permutation"), result->rank, place);
  int axis = (int)place[tn__node_int(inner, "axis", 0)];
  return tn__g_iota(rewriter->graph, result->dtype, result->rank, result->dims, axis);
}

/* transpose(broadcast(x)) is a broadcast of the smaller transpose(x). */
static tn__value *transpose_broadcast(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "broadcast_in_dim");
  return inner == NULL ? NULL : tn__pass_permuted_broadcast(rewriter->graph, inner, ints_of(node, "permutation"));
}

/* ---- broadcast ---------------------------------------------------------------------------------- */

static tn__value *broadcast_nothing(tn__rewriter *rewriter, tn__node *node) {
  tn__value *x = node->inputs[0];
  const tn__value *result = node->outputs[0];
  const int64_t *axes = ints_of(node, "axes");
  int next = 0;
  for (int i = 0; i < result->rank; i++) {
    bool mapped = next < x->rank && axes[next] == i;
    if (result->dims[i] != (mapped ? x->dims[next] : tn__ir_index(tn__graph_ir(rewriter->graph), 1))) return NULL;
    next += mapped;
  }
  return tn__g_reshape(rewriter->graph, x, result->rank, result->dims);
}

static tn__value *broadcast_broadcast(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "broadcast_in_dim");
  if (inner == NULL) return NULL;
  const int64_t *first = ints_of(inner, "axes"), *second = ints_of(node, "axes");
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < inner->inputs[0]->rank; i++) axes[i] = second[first[i]];
  const tn__value *result = node->outputs[0];
  return tn__g_broadcast_in_dim(rewriter->graph, inner->inputs[0], result->rank, result->dims, axes);
}

/* Dimensions of 1 that a reshape or a constant's shape brings along say nothing to a broadcast. */
static tn__value *broadcast_units(tn__rewriter *rewriter, tn__node *node) {
  tn__value *x = node->inputs[0];
  if (!tn__pass_is_constant(x) && tn__pass_producer_of(x, "reshape") == NULL) return NULL;
  const int64_t *axes = ints_of(node, "axes");
  const tn__expr *dims[TN__MAX_RANK];
  int64_t kept[TN__MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++) {
    if (tn__pass_is_unit(x->dims[i])) continue;
    dims[rank] = x->dims[i];
    kept[rank++] = axes[i];
  }
  if (rank == x->rank) return NULL;
  const tn__value *result = node->outputs[0];
  tn__value *narrow = tn__g_reshape(rewriter->graph, x, rank, dims);
  return tn__g_broadcast_in_dim(rewriter->graph, narrow, result->rank, result->dims, kept);
}

/* ---- the rest ----------------------------------------------------------------------------------- */

static tn__value *slice_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  tn__value *x = node->inputs[0];
  for (int i = 0; i < x->rank; i++) {
    bool all = tn__ir_is_int_value(tn__node_attr(node, "starts")->exprs[i], 0) &&
               tn__node_attr(node, "limits")->exprs[i] == x->dims[i] && ints_of(node, "strides")[i] == 1;
    if (!all) return NULL;
  }
  return x;
}

static tn__value *pad_nothing(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  const tn__value *x = node->inputs[0];
  for (int i = 0; i < x->rank; i++) {
    bool none = tn__ir_is_int_value(tn__node_attr(node, "low")->exprs[i], 0) &&
                tn__ir_is_int_value(tn__node_attr(node, "high")->exprs[i], 0);
    if (!none || ints_of(node, "interior")[i] != 0) return NULL;
  }
  return node->inputs[0];
}

static tn__value *reverse_units(tn__rewriter *rewriter, tn__node *node) {
  (void)rewriter;
  const tn__attr *axes = tn__node_attr(node, "axes");
  for (int i = 0; i < axes->count; i++)
    if (!tn__pass_is_unit(node->inputs[0]->dims[axes->ints[i]])) return NULL;
  return node->inputs[0];
}

/* One operand, or one with all the elements. */
static tn__value *concatenate_one(tn__rewriter *rewriter, tn__node *node) {
  tn__value *only = NULL;
  int64_t axis = tn__node_int(node, "axis", 0);
  (void)rewriter;
  for (int i = 0; i < node->input_count; i++) {
    if (tn__ir_is_int_value(node->inputs[i]->dims[axis], 0)) continue;
    if (only != NULL) return NULL;
    only = node->inputs[i];
  }
  return only != NULL && tn__pass_same_type(only, node->outputs[0]) ? only : NULL;
}

static tn__value *concatenate_concatenate(tn__rewriter *rewriter, tn__node *node) {
  int64_t axis = tn__node_int(node, "axis", 0);
  tn__arena *arena = tn__graph_arena(rewriter->graph);
  TN__VEC(tn__value *) parts = {0};
  int room = TN__MOST_CONCATENATED - node->input_count;
  for (int i = 0; i < node->input_count; i++) {
    const tn__node *inner = tn__pass_producer_of(node->inputs[i], "concatenate");
    bool take_apart = inner != NULL && tn__node_int(inner, "axis", 0) == axis &&
                      tn__pass_uses_of(rewriter, node->inputs[i]) == 1 && inner->input_count - 1 <= room;
    if (take_apart) room -= inner->input_count - 1;
    for (int j = 0; take_apart && j < inner->input_count; j++) tn__vec_push(arena, &parts, inner->inputs[j]);
    if (!take_apart) tn__vec_push(arena, &parts, node->inputs[i]);
  }
  if (parts.count == node->input_count) return NULL;
  return tn__g_concatenate(rewriter->graph, parts.data, parts.count, (int)axis);
}

/* A reduction over dimensions of 1 is its operand in another shape, whatever it computes. */
static tn__value *reduce_units(tn__rewriter *rewriter, tn__node *node) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  for (int i = 0; axes != NULL && i < axes->count; i++)
    if (!tn__pass_is_unit(node->inputs[0]->dims[axes->ints[i]])) return NULL;
  const tn__value *result = node->outputs[0];
  return tn__g_reshape(rewriter->graph, node->inputs[0], result->rank, result->dims);
}

/* A window over one element at a time. */
static tn__value *window_of_one(tn__rewriter *rewriter, tn__node *node) {
  const tn__value *x = node->inputs[0];
  (void)rewriter;
  for (int i = 0; i < x->rank; i++)
    if (ints_of(node, "window")[i] != 1) return NULL;
  for (int i = 0; i < x->rank; i++) {
    bool padded = !tn__ir_is_int_value(tn__node_attr(node, "low")->exprs[i], 0) ||
                  !tn__ir_is_int_value(tn__node_attr(node, "high")->exprs[i], 0);
    if (padded || ints_of(node, "strides")[i] != 1) return NULL;
  }
  return node->inputs[0];
}

/* ---- transposes around a scatter ---------------------------------------------------------------- */

/* The indices of a scatter_nd along its operand's first dimension as those of a scatter_elements into the operand as it
 * was before its transpose `p`, for updates of these dimensions; NULL when they choose more than that dimension. */
static tn__value *indices_before(tn__graph *graph, tn__value *indices, const int64_t *p, const tn__value *updates) {
  if (indices->rank != 2 || !tn__pass_is_unit(indices->dims[1])) return NULL;
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < updates->rank; i++) dims[i] = tn__ir_index(tn__graph_ir(graph), 1);
  dims[p[0]] = indices->dims[0];
  return tn__g_broadcast_to(graph, tn__g_reshape(graph, indices, updates->rank, dims), updates->rank, updates->dims);
}

/* A scatter into a transposed tensor is the transposed scatter into the tensor. So a cache whose rows an exporter
 * writes between two transposes is written where it is. The order of updates to one element stays. */
static tn__value *scatter_before(tn__rewriter *rewriter, tn__node *node, bool tuples) {
  tn__graph *graph = rewriter->graph;
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "transpose");
  if (inner == NULL || tn__pass_uses_of(rewriter, node->inputs[0]) != 1) return NULL;
  const int64_t *p = ints_of(inner, "permutation");
  int64_t back[TN__MAX_RANK], axis = tn__node_int(node, "axis", 0);
  tn__value *indices = node->inputs[1], *updates = node->inputs[2];
  if (updates->rank != inner->outputs[0]->rank) return NULL;
  tn__pass_inverse(p, updates->rank, back);
  updates = tn__pass_permuted(graph, updates, back);
  indices = tuples ? indices_before(graph, indices, p, updates) : tn__pass_permuted(graph, indices, back);
  if (indices == NULL) return NULL;
  tn__value *scattered = tn__g_scatter_elements(graph, inner->inputs[0], indices, updates, (int)p[axis],
                                                tn__node_string(node, "reduction", "none"));
  return tn__pass_permuted(graph, scattered, p);
}

static tn__value *scatter_nd_transpose(tn__rewriter *rewriter, tn__node *node) {
  return scatter_before(rewriter, node, true);
}

static tn__value *scatter_elements_transpose(tn__rewriter *rewriter, tn__node *node) {
  return scatter_before(rewriter, node, false);
}

/* ---- relayout ----------------------------------------------------------------------------------- */

/* It is the same tensor in any layout. */
static tn__value *relayout_relayout(tn__rewriter *rewriter, tn__node *node) {
  const tn__node *inner = tn__pass_producer_of(node->inputs[0], "relayout");
  return inner == NULL ? NULL : tn__g_relayout(rewriter->graph, inner->inputs[0], &node->outputs[0]->held->layout);
}

static const tn__rewrite_rule rules[] = {
    {"reshape to the same shape", "reshape", reshape_nothing},
    {"reshape of a constant", "reshape", reshape_constant},
    {"reshape of reshape", "reshape", reshape_reshape},
    {"reshape of broadcast", "reshape", reshape_broadcast},
    {"transpose of transpose", "transpose", transpose_transpose},
    {"transpose of dimensions of 1", "transpose", transpose_units},
    {"transpose of broadcast", "transpose", transpose_broadcast},
    {"transpose of iota", "transpose", transpose_iota},
    {"transpose of reshape of transpose", "transpose", transpose_reshape_transpose},
    {"scatter_nd into a transpose", "scatter_nd", scatter_nd_transpose},
    {"scatter_elements into a transpose", "scatter_elements", scatter_elements_transpose},
    {"broadcast of everything", "broadcast_in_dim", broadcast_nothing},
    {"broadcast of broadcast", "broadcast_in_dim", broadcast_broadcast},
    {"broadcast of dimensions of 1", "broadcast_in_dim", broadcast_units},
    {"slice of everything", "slice", slice_nothing},
    {"pad by nothing", "pad", pad_nothing},
    {"reverse of dimensions of 1", "reverse", reverse_units},
    {"concatenate of one", "concatenate", concatenate_one},
    {"concatenate of concatenate", "concatenate", concatenate_concatenate},
    {"relayout of relayout", "relayout", relayout_relayout},
    {"reduce over dimensions of 1", "reduce", reduce_units},
    {"window of one element", "reduce_window", window_of_one},
};

const tn__rule_set tn__rules_shape = {rules, sizeof rules / sizeof *rules};
