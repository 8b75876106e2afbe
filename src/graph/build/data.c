/* Builders of operators that read, write or order by data. */
#include "graph/build/build.h"
#include "graph/internal.h"
#include "graph/relations.h"

tn__value *tn__g_take(tn__graph *g, tn__value *a, tn__value *indices, int axis) {
  tn__value *inputs[2] = {a, indices};
  const tn__attr attr = tn__attr_int(g, "axis", axis);
  return tn__g_node(g, "take", inputs, 2, &attr, 1)->outputs[0];
}

tn__value *tn__g_take_trusted(tn__graph *g, tn__value *a, tn__value *indices, int axis) {
  tn__value *inputs[2] = {a, indices};
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_int(g, "trusted", 1)};
  return tn__g_node(g, "take", inputs, 2, attrs, 2)->outputs[0];
}

tn__value *tn__g_take_along_axis(tn__graph *g, tn__value *a, tn__value *indices, int axis) {
  tn__value *inputs[2] = {a, indices};
  const tn__attr attr = tn__attr_int(g, "axis", axis);
  return tn__g_node(g, "take_along_axis", inputs, 2, &attr, 1)->outputs[0];
}

tn__value *tn__g_gather_nd(tn__graph *g, tn__value *a, tn__value *indices, int batch_dims) {
  tn__value *inputs[2] = {a, indices};
  const tn__attr attr = tn__attr_int(g, "batch_dims", batch_dims);
  return tn__g_node(g, "gather_nd", inputs, 2, &attr, 1)->outputs[0];
}

tn__value *tn__g_scatter_elements(tn__graph *g, tn__value *a, tn__value *indices, tn__value *updates, int axis,
                                  const char *reduction) {
  tn__value *inputs[3] = {a, indices, updates};
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_string(g, "reduction", reduction)};
  return tn__g_node(g, "scatter_elements", inputs, 3, attrs, 2)->outputs[0];
}

tn__value *tn__g_scatter_nd(tn__graph *g, tn__value *a, tn__value *indices, tn__value *updates, const char *reduction) {
  tn__value *inputs[3] = {a, indices, updates};
  const tn__attr attr = tn__attr_string(g, "reduction", reduction);
  return tn__g_node(g, "scatter_nd", inputs, 3, &attr, 1)->outputs[0];
}

void tn__g_sort(tn__graph *g, tn__value *a, int axis, bool descending, tn__value **values, tn__value **indices) {
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_int(g, "descending", descending)};
  tn__node *node = tn__g_node(g, "sort", &a, 1, attrs, 2);
  *values = node->outputs[0];
  *indices = node->outputs[1];
}

/* The first `count` along axis. */
static tn__value *head(tn__graph *g, tn__value *a, int axis, const tn__expr *count) {
  const tn__expr *starts[TN__MAX_RANK], *limits[TN__MAX_RANK];
  int64_t strides[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    starts[i] = tn__ir_index(g->ir, 0);
    limits[i] = i == axis ? count : a->dims[i];
    strides[i] = 1;
  }
  return tn__g_slice(g, a, starts, limits, strides);
}

void tn__g_top_k(tn__graph *g, tn__value *a, int axis, const tn__expr *k, bool greatest, tn__value **values,
                 tn__value **indices) {
  /* A heap of most of the elements costs more than merging all. */
  if (tn__ir_is_int(k) && tn__ir_is_int(a->dims[axis]) && k->value.i > a->dims[axis]->value.i / 2) {
    tn__g_sort(g, a, axis, greatest, values, indices);
    *values = head(g, *values, axis, k);
    *indices = head(g, *indices, axis, k);
    return;
  }
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_int(g, "descending", greatest),
                            tn__attr_exprs(g, "count", &k, 1)};
  tn__node *node = tn__g_node(g, "top_k", &a, 1, attrs, 3);
  *values = node->outputs[0];
  *indices = node->outputs[1];
}

/* a as one dimension. */
static tn__value *flat(tn__graph *g, tn__value *a) {
  const tn__expr *size = tn__g_dim_product(g->ir, a->dims, a->rank);
  return tn__g_reshape(g, a, 1, &size);
}

tn__value *tn__g_find_true(tn__graph *g, tn__value *mask) {
  tn__value *all = flat(g, mask);
  tn__node *node = tn__g_node(g, "find_true", &all, 1, NULL, 0);
  return head(g, node->outputs[0], 0, tn__graph_count_symbol(g, node->outputs[1], all->dims[0]));
}

/* The scalar i64 of an expression. */
static tn__value *scalar_of(tn__graph *g, const tn__expr *e) { return tn__g_from_elements(g, TN_I64, &e, 1, 0); }

tn__value *tn__g_nonzero(tn__graph *g, tn__value *a) {
  tn__value *mask = a->dtype == TN_BOOL ? a : tn__g_compare(g, TN__CMP_NE, a, tn__g_scalar(g, a->dtype, 0));
  tn__value *rest = tn__g_find_true(g, mask);
  if (a->rank == 0) { /* NumPy counts a scalar as one dimension */
    const tn__expr *none[2] = {tn__ir_index(g->ir, 0), rest->dims[0]};
    return tn__g_full(g, TN_I64, 0, 2, none);
  }
  tn__value *parts[TN__MAX_RANK];
  const tn__expr *row[2] = {tn__ir_index(g->ir, 1), rest->dims[0]};
  for (int i = a->rank - 1; i >= 0; i--) {
    tn__value *size = scalar_of(g, a->dims[i]);
    tn__value *own = i == 0 ? rest : tn__g_binary(g, "floor_mod", rest, size);
    parts[i] = tn__g_reshape(g, own, 2, row);
    if (i > 0) rest = tn__g_binary(g, "divide", rest, size);
  }
  return tn__g_concatenate(g, parts, a->rank, 0);
}

tn__value *tn__g_compress(tn__graph *g, tn__value *a, tn__value *condition, int axis) {
  if (axis < 0) {
    a = flat(g, a);
    axis = 0;
  }
  const tn__expr *size = tn__g_dim_product(g->ir, condition->dims, condition->rank); /* no position is outside then */
  tn__relate_sizes(g, "the length of the condition", size,
                   "<=", tn__arena_printf(g->arena, "dimension %d of what is chosen from", axis), a->dims[axis]);
  return tn__g_take_trusted(g, a, tn__g_find_true(g, condition), axis);
}

/* Do the rows differ from those before them (the first one does)? `rows` is [n, m]. */
static tn__value *differs_from_previous(tn__graph *g, tn__value *rows) {
  tn__ir *ir = g->ir;
  const tn__expr *n = rows->dims[0];
  tn__value *position = tn__g_iota(g, TN_I64, 1, &n, 0);
  tn__value *first = tn__g_scalar(g, TN_I64, 0);
  tn__value *before = tn__g_binary(g, "maximum", tn__g_binary_s(g, "subtract", position, 1), first);
  tn__value *changed = tn__g_compare(g, TN__CMP_NE, rows, tn__g_take_trusted(g, rows, before, 0));
  const int64_t axis = 1;
  changed = tn__g_reduce(g, TN__REDUCE_OR, changed, &axis, 1, false);
  return tn__g_binary(g, "or", changed, tn__g_compare(g, TN__CMP_EQ, position, scalar_of(g, tn__ir_index(ir, 0))));
}

/* The position of each of 0 .. n-1 in a permutation. */
static tn__value *inverse_permutation(tn__graph *g, tn__value *order) {
  tn__value *position = tn__g_iota(g, TN_I64, 1, order->dims, 0);
  return tn__g_scatter_elements(g, position, order, position, 0, "none");
}

/* All positions come from orders and counts of the tensor's own elements, so takes need no checks. */
tn__unique tn__g_unique(tn__graph *g, tn__value *a, int axis, bool sorted) {
  tn__ir *ir = g->ir;
  if (axis < 0) {
    a = flat(g, a);
    axis = 0;
  }
  int64_t permutation[TN__MAX_RANK];
  permutation[0] = axis;
  for (int i = 0, next = 1; i < a->rank; i++)
    if (i != axis) permutation[next++] = i;
  tn__value *front = tn__g_transpose(g, a, permutation);
  const tn__expr *shape[2] = {front->dims[0], tn__g_dim_product(ir, front->dims + 1, front->rank - 1)};
  tn__value *keys = tn__g_reshape(g, front, 2, shape);
  tn__value *order = tn__g_node(g, "sort_rows", &keys, 1, NULL, 0)->outputs[0];
  tn__value *fresh = differs_from_previous(g, tn__g_take_trusted(g, keys, order, 0));
  tn__value *group = tn__g_cumulative(g, TN__REDUCE_SUM, tn__g_convert(g, fresh, TN_I64), 0, false, false);
  group = tn__g_binary_s(g, "subtract", group, 1);
  tn__value *begins = tn__g_find_true(g, fresh); /* where each group begins in the order */
  tn__unique result = {.indices = tn__g_take_trusted(g, order, begins, 0)};
  result.inverse = tn__g_scatter_elements(g, group, order, group, 0, "none");
  tn__value *zeros = tn__g_full(g, TN_I64, 0, 1, begins->dims), *ones = tn__g_full(g, TN_I64, 1, 1, group->dims);
  result.counts = tn__g_scatter_elements(g, zeros, group, ones, 0, "add");
  if (!sorted) { /* in the order in which they first appear */
    tn__value *first, *appearance;
    tn__g_sort(g, result.indices, 0, false, &first, &appearance);
    result.indices = first;
    result.counts = tn__g_take_trusted(g, result.counts, appearance, 0);
    result.inverse = tn__g_take_trusted(g, inverse_permutation(g, appearance), result.inverse, 0);
  }
  result.values = tn__g_take_trusted(g, a, result.indices, axis);
  return result;
}

tn__value *tn__g_one_hot(tn__graph *g, tn__value *indices, const tn__expr *depth, tn__value *off, tn__value *on,
                         int axis) {
  tn__ir *ir = g->ir;
  const tn__expr *dims[TN__MAX_RANK], *wide[TN__MAX_RANK];
  int rank = indices->rank + 1;
  tn__graph_check_rank(g, "one_hot", rank);
  for (int i = 0, next = 0; i < rank; i++) {
    dims[i] = i == axis ? depth : indices->dims[next++];
    wide[i] = i == axis ? tn__ir_index(ir, 1) : dims[i];
  }
  tn__value *index = tn__g_convert(g, indices, TN_I64), *size = scalar_of(g, depth);
  tn__value *negative = tn__g_compare(g, TN__CMP_LT, index, tn__g_scalar(g, TN_I64, 0));
  index = tn__g_select(g, negative, tn__g_binary(g, "add", index, size), index);
  tn__value *place = tn__g_iota(g, TN_I64, rank, dims, axis);
  tn__value *hit = tn__g_compare(g, TN__CMP_EQ, tn__g_reshape(g, index, rank, wide), place);
  return tn__g_select(g, hit, on, off);
}

tn__value *tn__g_max_unpool(tn__graph *g, tn__value *a, tn__value *positions, int rank, const tn__expr *const *dims) {
  const tn__expr *size = tn__g_dim_product(g->ir, dims, rank);
  tn__value *zeros = tn__g_full(g, a->dtype, 0, 1, &size);
  tn__value *elements = flat(g, a);
  return tn__g_reshape(g, tn__g_scatter_elements(g, zeros, flat(g, positions), elements, 0, "none"), rank, dims);
}
