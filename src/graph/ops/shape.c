/* Operators that move elements and compute nothing. */
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"

/* Reads one element of operand 0 for each of the result. */
static void declare_move(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                         const tn__te_axes *axes, const tn__expr *const *index, const tn__buffer **outputs) {
  const tn__expr *value = tn__ir_load(tn__lower_ir(lower), inputs[0], index);
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, node->op->name), axes, value);
}

/* ---- broadcast_in_dim -------------------------------------------------------------------------------------------- */

static void infer_broadcast(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const tn__attr *shape = tn__node_attr(node, "shape");
  const int64_t *axes = tn__g_require_ints(graph, node, "axes", a->rank);
  for (int i = 0; i < a->rank; i++) {
    if (axes[i] < 0 || axes[i] >= shape->count || (i > 0 && axes[i] <= axes[i - 1]))
      tn__node_fail(graph, node, "axes must increase and stay below %d", shape->count);
    const tn__expr *from = a->dims[i], *to = shape->exprs[axes[i]];
    if (from == to || tn__ir_is_int_value(from, 1)) continue;
    const tn__expr *fits = tn__ir_eq(graph->ir, from, to);
    if (!tn__ir_is_int(from)) fits = tn__ir_or(graph->ir, fits, tn__ir_eq(graph->ir, from, tn__ir_index(graph->ir, 1)));
    if (tn__ir_is_false(fits))
      tn__node_fail(graph, node, "dimension %d of %s can't stretch to %s", i, tn__value_type_text(graph, a),
                    tn__g_expr_text(graph, to));
    tn__graph_assume(graph, fits, "%s: dimension %d of the operand is %s, which must be 1 or equal to %s",
                     node->op->name, i, tn__g_size_text(graph, from), tn__g_size_text(graph, to));
  }
  int64_t own[TN__MAX_RANK], strides[TN__MAX_RANK] = {0};
  bool known = tn__g_element_strides(a, own);
  for (int i = 0; known && i < a->rank; i++) strides[axes[i]] = tn__ir_is_int_value(a->dims[i], 1) ? 0 : own[i];
  tn__g_set_output(graph, node, 0, a->dtype, shape->count, shape->exprs,
                   known ? tn__g_moved_elements(graph, a, shape->count, shape->exprs, 0, strides) : NULL);
}

static void declare_broadcast(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const int64_t *to = tn__node_attr(node, "axes")->ints;
  const tn__expr *index[TN__MAX_RANK], *zero = tn__ir_index(ir, 0);
  for (int i = 0; i < inputs[0]->rank; i++) {
    const tn__value *a = node->inputs[0], *result = node->outputs[0];
    const tn__expr *own = axes.index[to[i]];
    if (tn__ir_is_int_value(a->dims[i], 1))
      index[i] = zero;
    else if (tn__ir_is_int(a->dims[i]) || a->dims[i] == result->dims[to[i]])
      index[i] = own;
    else /* the broadcast is decided at run time (ir/stretch.c) */
      index[i] = tn__ir_select(ir, tn__ir_eq(ir, inputs[0]->shape[i], tn__ir_index(ir, 1)), zero, own);
  }
  declare_move(lower, node, inputs, &axes, index, outputs);
}

/* ---- reshape ----------------------------------------------------------------------------------------------------- */

static void infer_reshape(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const tn__attr *shape = tn__node_attr(node, "shape");
  const tn__expr *have = tn__g_dim_product(graph->ir, a->dims, a->rank);
  const tn__expr *want = tn__g_dim_product(graph->ir, shape->exprs, shape->count);
  const tn__expr *equal = tn__ir_eq(graph->ir, have, want);
  if (tn__ir_is_false(equal))
    tn__node_fail(graph, node, "%s has %s elements, the new shape %s", tn__value_type_text(graph, a),
                  tn__g_expr_text(graph, have), tn__g_expr_text(graph, want));
  /* The shape and not its number of elements, which may be more than can be counted. */
  const char *text = "";
  for (int i = 0; i < shape->count && !tn__ir_is_int(equal); i++)
    text = tn__arena_printf(graph->arena, "%s%s%s", text, i > 0 ? ", " : "", tn__g_size_text(graph, shape->exprs[i]));
  tn__graph_assume(graph, equal, "%s: a tensor of %s elements can't take the shape [%s]", node->op->name,
                   tn__g_size_text(graph, have), text);
  bool known =
      a->elements != NULL && tn__g_element_count(shape->count, shape->exprs) == tn__g_element_count(a->rank, a->dims);
  tn__g_set_output(graph, node, 0, a->dtype, shape->count, shape->exprs, known ? a->elements : NULL);
}

/* Positions of the dimensions that are not the constant 1. */
TN_MUST_USE static int real_dims(const tn__value *value, int *out) {
  int count = 0;
  for (int i = 0; i < value->rank; i++)
    if (!tn__ir_is_int_value(value->dims[i], 1)) out[count++] = i;
  return count;
}

/* Indices of the operand's dimensions from[0..m) from those of the result's dimensions to[0..n), which hold equally
 * many elements. */
static void regroup(tn__lower_context *lower, const tn__value *a, const int *from, int m, const tn__te_axes *axes,
                    const tn__value *result, const int *to, int n, const tn__expr **index) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__expr *sizes[TN__MAX_RANK], *own[TN__MAX_RANK];
  for (int j = 0; j < n; j++) sizes[j] = tn__lower_expr(lower, result->dims[to[j]]), own[j] = axes->index[to[j]];
  const tn__expr *flat = tn__ir_flatten(ir, sizes, own, n);
  for (int i = m - 1; i >= 0; i--) {
    if (i == 0) {
      index[from[i]] = flat;
    } else {
      const tn__expr *dim = tn__lower_expr(lower, a->dims[from[i]]);
      index[from[i]] = tn__ir_mod(ir, flat, dim);
      flat = tn__ir_div(ir, flat, dim);
    }
  }
}

/* Splits both shapes where their leading products agree, so that dimensions which did not change keep plain indices,
 * symbolic ones too. */
static void declare_reshape(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                            const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__value *a = node->inputs[0], *result = node->outputs[0];
  tn__te_axes axes = tn__lower_axes(lower, result);
  const tn__expr *index[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) index[i] = tn__ir_index(ir, 0);
  int from[TN__MAX_RANK], to[TN__MAX_RANK];
  int m = real_dims(a, from), n = real_dims(result, to);
  const tn__expr *a_products[TN__MAX_RANK + 1], *r_products[TN__MAX_RANK + 1];
  a_products[0] = r_products[0] = tn__ir_index(ir, 1);
  for (int i = 0; i < m; i++)
    a_products[i + 1] = tn__ir_mul(ir, a_products[i], tn__lower_expr(lower, a->dims[from[i]]));
  for (int j = 0; j < n; j++)
    r_products[j + 1] = tn__ir_mul(ir, r_products[j], tn__lower_expr(lower, result->dims[to[j]]));
  int i0 = 0, j0 = 0;
  for (int i = 1; i < m; i++) {
    int j = j0 + 1;
    while (j < n && r_products[j] != a_products[i]) j++;
    if (j >= n || tn__ir_is_int_value(a_products[i], 0)) continue;
    regroup(lower, a, from + i0, i - i0, &axes, result, to + j0, j - j0, index);
    i0 = i;
    j0 = j;
  }
  regroup(lower, a, from + i0, m - i0, &axes, result, to + j0, n - j0, index);
  declare_move(lower, node, inputs, &axes, index, outputs);
}

/* ---- transpose --------------------------------------------------------------------------------------------------- */

static void infer_transpose(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const int64_t *permutation = tn__g_require_ints(graph, node, "permutation", a->rank);
  const tn__expr *dims[TN__MAX_RANK];
  unsigned seen = 0;
  for (int i = 0; i < a->rank; i++) {
    if (permutation[i] < 0 || permutation[i] >= a->rank || (seen >> permutation[i] & 1) != 0)
      tn__node_fail(graph, node, "the attribute permutation is not one of %d dimensions", a->rank);
    seen |= 1u << permutation[i];
    dims[i] = a->dims[permutation[i]];
  }
  int64_t own[TN__MAX_RANK], strides[TN__MAX_RANK] = {0};
  bool known = tn__g_element_strides(a, own);
  for (int i = 0; known && i < a->rank; i++) strides[i] = own[permutation[i]];
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, dims,
                   known ? tn__g_moved_elements(graph, a, a->rank, dims, 0, strides) : NULL);
}

static void declare_transpose(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const int64_t *permutation = tn__node_attr(node, "permutation")->ints;
  const tn__expr *index[TN__MAX_RANK];
  for (int i = 0; i < axes.count; i++) index[permutation[i]] = axes.index[i];
  declare_move(lower, node, inputs, &axes, index, outputs);
}

/* ---- slice ------------------------------------------------------------------------------------------------------- */

static void infer_slice(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__ir *ir = graph->ir;
  const tn__expr *const *starts = tn__g_require_exprs(graph, node, "starts", a->rank);
  const tn__expr *const *limits = tn__g_require_exprs(graph, node, "limits", a->rank);
  const int64_t *strides = tn__g_require_ints(graph, node, "strides", a->rank);
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    if (strides[i] < 1)
      tn__node_fail(graph, node, "stride %lld of dimension %d is not positive", (long long)strides[i], i);
    const tn__expr *inside =
        tn__ir_and(ir, tn__ir_le(ir, tn__ir_index(ir, 0), starts[i]),
                   tn__ir_and(ir, tn__ir_le(ir, starts[i], limits[i]), tn__ir_le(ir, limits[i], a->dims[i])));
    if (tn__ir_is_false(inside))
      tn__node_fail(graph, node, "[%s, %s) is not within dimension %d of %s", tn__g_expr_text(graph, starts[i]),
                    tn__g_expr_text(graph, limits[i]), i, tn__value_type_text(graph, a));
    tn__graph_assume(graph, inside, "%s: from %s to %s must be within dimension %d, which has %s", node->op->name,
                     tn__g_size_text(graph, starts[i]), tn__g_size_text(graph, limits[i]), i,
                     tn__g_size_text(graph, a->dims[i]));
    dims[i] = tn__ir_ceildiv(ir, tn__ir_sub(ir, limits[i], starts[i]), tn__ir_index(ir, strides[i]));
  }
  int64_t own[TN__MAX_RANK], steps[TN__MAX_RANK] = {0}, offset = 0, start;
  bool known = a->elements != NULL && tn__g_element_strides(a, own);
  for (int i = 0; known && i < a->rank; i++) {
    known = tn__ir_as_int(starts[i], &start);
    if (!known) break;
    offset += start * own[i];
    steps[i] = strides[i] * own[i];
  }
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, dims,
                   known ? tn__g_moved_elements(graph, a, a->rank, dims, offset, steps) : NULL);
}

static void declare_slice(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                          const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *const *starts = tn__node_attr(node, "starts")->exprs;
  const int64_t *strides = tn__node_attr(node, "strides")->ints;
  const tn__expr *index[TN__MAX_RANK];
  for (int i = 0; i < axes.count; i++)
    index[i] = tn__ir_add(ir, tn__ir_mul_i(ir, axes.index[i], strides[i]), tn__lower_expr(lower, starts[i]));
  declare_move(lower, node, inputs, &axes, index, outputs);
}

/* ---- strided ----------------------------------------------------------------------------------------------------- */

static void infer_strided(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const tn__attr *shape = tn__node_attr(node, "shape");
  tn__g_require_exprs(graph, node, "strides", shape->count);
  tn__g_require_exprs(graph, node, "origin", 1);
  tn__g_set_output(graph, node, 0, a->dtype, shape->count, shape->exprs, NULL);
}

static void declare_strided(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                            const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *const *strides = tn__node_attr(node, "strides")->exprs;
  const tn__expr *index = tn__lower_expr(lower, tn__node_attr(node, "origin")->exprs[0]);
  for (int i = 0; i < axes.count; i++)
    index = tn__ir_add(ir, index, tn__ir_mul(ir, axes.index[i], tn__lower_expr(lower, strides[i])));
  declare_move(lower, node, inputs, &axes, &index, outputs);
}

/* ---- pad --------------------------------------------------------------------------------------------------------- */

static void infer_pad(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__g_require_same_dtype(graph, node, 0, 1);
  const tn__expr *const *low = tn__g_require_exprs(graph, node, "low", a->rank);
  const tn__expr *const *high = tn__g_require_exprs(graph, node, "high", a->rank);
  const int64_t *interior = tn__g_require_ints(graph, node, "interior", a->rank);
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    if (interior[i] < 0) tn__node_fail(graph, node, "interior padding %lld is negative", (long long)interior[i]);
    dims[i] = tn__g_padded_dim(graph->ir, a->dims[i], low[i], high[i], interior[i]);
    const tn__expr *valid = tn__ir_le(graph->ir, tn__ir_index(graph->ir, 0), dims[i]);
    if (tn__ir_is_false(valid))
      tn__node_fail(graph, node, "dimension %d would have %s elements", i, tn__g_expr_text(graph, dims[i]));
    tn__graph_assume(graph, valid, "%s: dimension %d would have %s elements", node->op->name, i,
                     tn__g_size_text(graph, dims[i]));
  }
  const tn__expr *elements[TN__MAX_ELEMENTS];
  int64_t before, size;
  int count = tn__g_element_count(a->rank, dims);
  bool known = a->rank == 1 && count >= 0 && a->elements != NULL && node->inputs[1]->elements != NULL &&
               interior[0] == 0 && tn__ir_as_int(low[0], &before) && tn__ir_as_int(a->dims[0], &size);
  for (int i = 0; known && i < count; i++)
    elements[i] = i >= before && i < before + size ? a->elements[i - before] : node->inputs[1]->elements[0];
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, dims, known ? elements : NULL);
}

static void declare_pad(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                        const tn__buffer **outputs) {
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
  int rank = node->inputs[0]->rank;
  tn__lower_exprs(lower, tn__node_attr(node, "low")->exprs, rank, low);
  tn__lower_exprs(lower, tn__node_attr(node, "high")->exprs, rank, high);
  const tn__expr *fill = tn__ir_load(tn__lower_ir(lower), inputs[1], NULL);
  outputs[0] = tn__lower_pad(lower, inputs[0], fill, low, high, tn__node_attr(node, "interior")->ints);
  if (outputs[0] == inputs[0]) outputs[0] = tn__lower_copy(lower, inputs[0], "pad");
}

/* ---- concatenate ------------------------------------------------------------------------------------------------- */

/* Row after row of what stands before the axis, each part's piece of it. */
static const tn__expr *const *concatenated_elements(tn__graph *graph, const tn__node *node, int axis, int rank,
                                                    const tn__expr *const *dims) {
  int count = tn__g_element_count(rank, dims), filled = 0, rows = axis == 0 ? 1 : tn__g_element_count(axis, dims);
  if (count < 0) return NULL;
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
  for (int row = 0; row < rows; row++)
    for (int k = 0; k < node->input_count; k++) {
      const tn__value *part = node->inputs[k];
      int own = tn__g_element_count(part->rank, part->dims);
      if (part->elements == NULL || own < 0) return NULL;
      int piece = own / rows;
      if (filled + piece > count) return NULL;
      for (int i = 0; i < piece; i++) elements[filled++] = part->elements[row * piece + i];
    }
  return filled == count ? elements : NULL;
}

static void infer_concatenate(tn__graph *graph, tn__node *node) {
  const tn__value *first = node->inputs[0];
  int axis = tn__g_require_axis(graph, node, "axis", first->rank);
  const tn__expr *dims[TN__MAX_RANK];
  for (int i = 0; i < first->rank; i++) dims[i] = first->dims[i];
  for (int k = 1; k < node->input_count; k++) {
    const tn__value *part = node->inputs[k];
    tn__g_require_same_dtype(graph, node, 0, k);
    tn__g_require_rank(graph, node, k, first->rank);
    char what[32];
    snprintf(what, sizeof(what), "operand %d", k);
    for (int i = 0; i < first->rank; i++)
      dims[i] = i == axis ? tn__ir_add(graph->ir, dims[i], part->dims[i])
                          : tn__g_same_dim(graph, node, dims[i], part->dims[i], what, i);
  }
  tn__g_set_output(graph, node, 0, first->dtype, first->rank, dims,
                   concatenated_elements(graph, node, axis, first->rank, dims));
}

/* Operand after operand, each to where the last one ended. */
static const tn__buffer *concatenate_in_turn(tn__lower_context *lower, const tn__node *node,
                                             const tn__buffer *const *inputs) {
  tn__ir *ir = tn__lower_ir(lower);
  const tn__value *result = node->outputs[0];
  int axis = (int)tn__node_int(node, "axis", 0), count = node->input_count;
  const tn__expr *shape[TN__MAX_RANK];
  tn__lower_exprs(lower, result->dims, result->rank, shape);
  const char *name = tn__lower_name(lower, "concatenate");
  const tn__buffer *out = tn__te_extern_tensor(tn__lower_te(lower), name, inputs[0]->dtype, result->rank, shape);
  const tn__var **begins = TN__NEW_ARRAY(tn__ir_arena(ir), count, const tn__var *);
  for (int k = 0; k < count; k++) begins[k] = tn__g_let_var(ir, "begin");
  const tn__stmt *body = NULL;
  for (int k = count - 1; k >= 0; k--) {
    tn__nest nest = tn__nest_create(ir, "p", result->rank, inputs[k]->shape);
    const tn__expr *to[TN__MAX_RANK];
    for (int i = 0; i < result->rank; i++) to[i] = nest.index[i];
    to[axis] = tn__ir_add(ir, begins[k]->self, nest.index[axis]);
    const tn__stmt *copy = tn__nest_loops(ir, &nest, tn__ir_store(ir, out, to, tn__ir_load(ir, inputs[k], nest.index)));
    const tn__expr *begin = tn__ir_index(ir, 0);
    if (k > 0) begin = tn__ir_add(ir, begins[k - 1]->self, inputs[k - 1]->shape[axis]);
    body = tn__ir_let(ir, begins[k], begin, body == NULL ? copy : tn__ir_seq2(ir, copy, body));
  }
  tn__te_extern(tn__lower_te(lower), name, inputs, count, &out, 1, body);
  return out;
}

/* Do many operands have sizes that only the run tells? Asking for each element in which one it is would take as many
 * comparisons with sums of as many sizes; detection models have a concatenation of 90. */
static bool is_of_many(const tn__buffer *const *inputs, int count, int axis) {
  int symbolic = 0;
  for (int k = 0; k < count; k++) symbolic += !tn__ir_is_int(inputs[k]->shape[axis]);
  return symbolic > 4;
}

static void declare_concatenate(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  int axis = (int)tn__node_int(node, "axis", 0), count = node->input_count;
  if (is_of_many(inputs, count, axis)) {
    outputs[0] = concatenate_in_turn(lower, node, inputs);
    return;
  }
  const tn__expr **begins = TN__NEW_ARRAY(tn__ir_arena(ir), count, const tn__expr *);
  const tn__expr *index[TN__MAX_RANK], *begin = tn__ir_index(ir, 0);
  for (int k = 0; k < count; k++) {
    begins[k] = begin;
    begin = tn__ir_add(ir, begin, inputs[k]->shape[axis]);
  }
  for (int i = 0; i < axes.count; i++) index[i] = axes.index[i];
  const tn__expr *value = NULL;
  for (int k = count - 1; k >= 0; k--) {
    if (tn__ir_is_int_value(inputs[k]->shape[axis], 0) && (value != NULL || k > 0)) continue;
    index[axis] = tn__ir_sub(ir, axes.index[axis], begins[k]);
    const tn__expr *own = tn__ir_load(ir, inputs[k], index);
    const tn__expr *end = tn__ir_add(ir, begins[k], inputs[k]->shape[axis]);
    value = value == NULL ? own : tn__ir_select(ir, tn__ir_lt(ir, axes.index[axis], end), own, value);
  }
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "concatenate"), &axes, value);
}

/* ---- reverse ----------------------------------------------------------------------------------------------------- */

static void infer_reverse(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const tn__attr *axes = tn__node_attr(node, "axes");
  for (int i = 0; i < axes->count; i++)
    if (axes->ints[i] < 0 || axes->ints[i] >= a->rank)
      tn__node_fail(graph, node, "axis %lld is not a dimension of %s", (long long)axes->ints[i],
                    tn__value_type_text(graph, a));
  int64_t own[TN__MAX_RANK], strides[TN__MAX_RANK] = {0}, offset = 0, size;
  bool known = a->elements != NULL && tn__g_element_strides(a, own);
  for (int i = 0; known && i < a->rank; i++) strides[i] = own[i];
  for (int i = 0; known && i < axes->count; i++) {
    int64_t axis = axes->ints[i];
    if (strides[axis] < 0 || !tn__ir_as_int(a->dims[axis], &size)) continue;
    offset += (size - 1) * own[axis];
    strides[axis] = -own[axis];
  }
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims,
                   known ? tn__g_moved_elements(graph, a, a->rank, a->dims, offset, strides) : NULL);
}

static void declare_reverse(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                            const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__attr *reversed = tn__node_attr(node, "axes");
  const tn__expr *index[TN__MAX_RANK];
  for (int i = 0; i < axes.count; i++) index[i] = axes.index[i];
  for (int i = 0; i < reversed->count; i++) {
    int64_t axis = reversed->ints[i];
    index[axis] = tn__ir_sub(ir, tn__ir_add_i(ir, inputs[0]->shape[axis], -1), axes.index[axis]);
  }
  declare_move(lower, node, inputs, &axes, index, outputs);
}

/* ---- iota, from_elements ----------------------------------------------------------------------------------------- */

static void infer_iota(tn__graph *graph, tn__node *node) {
  const tn__attr *shape = tn__node_attr(node, "shape");
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  tn__g_require_axis(graph, node, "axis", shape->count);
  const tn__expr *elements[TN__MAX_ELEMENTS];
  int count = shape->count == 1 ? tn__g_element_count(1, shape->exprs) : -1;
  for (int i = 0; i < count; i++) elements[i] = tn__ir_index(graph->ir, i);
  bool known = count >= 0 && tn__g_carries_elements(dtype) && dtype != TN_BOOL;
  tn__g_set_output(graph, node, 0, dtype, shape->count, shape->exprs, known ? elements : NULL);
}

static void declare_iota(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                         const tn__buffer **outputs) {
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *value =
      tn__ir_cast(tn__lower_ir(lower), node->outputs[0]->dtype, axes.index[tn__node_int(node, "axis", 0)]);
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "iota"), &axes, value);
}

static void infer_from_elements(tn__graph *graph, tn__node *node) {
  const tn__attr *attr = tn__node_attr(node, "elements");
  int64_t rank = tn__node_int(node, "rank", 1);
  if (attr == NULL || attr->kind != TN__ATTR_EXPRS || attr->count > TN__MAX_ELEMENTS || rank < 0 || rank > 1 ||
      (rank == 0 && attr->count != 1))
    tn__node_fail(graph, node, "needs the attribute elements, at most %d of them", TN__MAX_ELEMENTS);
  const tn__expr *dim = tn__ir_index(graph->ir, attr->count);
  tn_dtype dtype = tn__g_require_dtype_attr(graph, node);
  tn__g_set_output(graph, node, 0, dtype, (int)rank, &dim, tn__dtype_is_float(dtype) ? NULL : attr->exprs);
}

static void declare_from_elements(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                  const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__attr *attr = tn__node_attr(node, "elements");
  const tn__expr *value = tn__ir_index(ir, 0);
  for (int i = attr->count - 1; i >= 0; i--) {
    const tn__expr *element = tn__lower_expr(lower, attr->exprs[i]);
    value = i == attr->count - 1 ? element
                                 : tn__ir_select(ir, tn__ir_eq(ir, axes.index[0], tn__ir_index(ir, i)), element, value);
  }
  value = tn__ir_cast(ir, node->outputs[0]->dtype, value);
  outputs[0] = tn__te_compute(tn__lower_te(lower), tn__lower_name(lower, "from_elements"), &axes, value);
}

/* ---- relayout ---------------------------------------------------------------------------------------------------- */

static tn__layout layout_of(const tn__node *node) {
  const tn__attr *parts = tn__node_attr(node, "parts"), *word = tn__node_attr(node, "word");
  tn__layout layout = {.rank = parts->count / 3};
  for (int i = 0; i < layout.rank; i++)
    layout.parts[i] = (tn__layout_part){(int)parts->ints[3 * i], parts->ints[3 * i + 1], parts->ints[3 * i + 2]};
  if (word != NULL) layout.word = (tn__layout_word){(int)word->ints[0], word->ints[1]};
  return layout;
}

static void infer_relayout(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  const tn__attr *parts = tn__node_attr(node, "parts");
  if (parts == NULL || parts->kind != TN__ATTR_INTS || parts->count % 3 != 0 || parts->count > 3 * TN__MAX_RANK)
    tn__node_fail(graph, node, "needs the attribute parts: a dimension, a divisor and a modulus for each of at most %d",
                  TN__MAX_RANK);
  if (tn__node_attr(node, "word") != NULL) tn__g_require_ints(graph, node, "word", 2);
  tn__held held = {tn__g_tensor_dtype(a), tn__g_tensor_rank(a), tn__g_tensor_dims(a), layout_of(node)};
  const char *fault = tn__layout_fault(graph->arena, &held.layout, held.rank);
  tn_dtype dtype = tn__layout_stored(&held.layout, held.dtype);
  const tn__layout_word *own = a->held == NULL ? NULL : &a->held->layout.word, *word = &held.layout.word;
  const tn__expr *dims[TN__MAX_RANK];
  if (fault == NULL && dtype == TN_DTYPE_INVALID) fault = "words are of four bytes";
  if (fault == NULL && own != NULL && own->count != 0 && (own->count != word->count || own->dim != word->dim))
    fault = "words are not taken apart";
  if (fault != NULL) tn__node_fail(graph, node, "%s cannot have the layout: %s", tn__value_type_text(graph, a), fault);
  tn__layout_shape(graph->ir, &held.layout, held.dims, dims);
  tn__value_hold(graph, tn__g_set_output(graph, node, 0, dtype, held.layout.rank, dims, NULL), &held);
}

static void declare_relayout(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                             const tn__buffer **outputs) {
  const tn__held *held = node->outputs[0]->held, *own = node->inputs[0]->held;
  const tn__expr *shape[TN__MAX_RANK];
  tn__lower_exprs(lower, held->dims, held->rank, shape);
  outputs[0] = tn__te_in_layout(tn__lower_te(lower), tn__lower_name(lower, "relayout"), inputs[0],
                                own == NULL ? NULL : &own->layout, shape, &held->layout);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(least, most, op_name, names, suffix, ...) \
  TN__DECLARED_ROW(least, most, op_name, names, TN__CLASS_INJECTIVE, suffix, __VA_ARGS__)

static const tn__op rows[] = {
    TN__ROW(1, 1, "broadcast_in_dim", "x[*s]", broadcast,
            "Dimension i becomes dimension axes[i] of `shape`; dimensions of size 1 stretch.",
            .facts = TN__FACT_CHEAP | TN__FACT_REPEATS | TN__FACT_REARRANGES | TN__FACT_STRINGS,
            .moves = {.operands = 1, .per_dim = {"shape"}}, .attributes = "shape!:exprs axes:ints"),
    TN__ROW(1, 1, "reshape", "x[*s]", reshape, "The same elements in row-major order as another `shape`.",
            .facts = TN__FACT_REARRANGES | TN__FACT_STRINGS | TN__FACT_VIEW, .attributes = "shape!:exprs"),
    TN__ROW(1, 1, "transpose", "x[*s]", transpose,
            "Dimension i of the result is dimension permutation[i] of the operand.",
            .facts = TN__FACT_REARRANGES | TN__FACT_STRINGS, .attributes = "permutation:ints"),
    TN__ROW(1, 1, "slice", "x[*s]", slice, "Elements starts, starts + strides ... below limits in each dimension.",
            .facts = TN__FACT_REARRANGES | TN__FACT_STRINGS,
            .moves = {.operands = 1, .per_dim = {"starts", "limits", "strides"}},
            .attributes = "starts:exprs limits:exprs strides:ints"),
    TN__ROW(
        1, 1, "strided", "memory[n]", strided,
        "A tensor of `shape` in memory: element [i, j, ...] is element origin + i * strides[0] + j * strides[1] ... of "
        "the operand.",
        .facts = TN__FACT_CHEAP | TN__FACT_STRIDED, .attributes = "shape!:exprs strides:exprs origin:exprs"),
    TN__ROW(2, 2, "pad", "x[*s] fill[]", pad,
            "`low`, `high` and `interior` elements around and between; negative ones crop.",
            .facts = TN__FACT_REARRANGES, .moves = {.operands = 1, .per_dim = {"low", "high", "interior"}},
            .attributes = "low:exprs high:exprs interior:ints"),
    TN__ROW(1, -1, "concatenate", "first other...", concatenate, "The operands one after another along `axis`.",
            .facts = TN__FACT_REARRANGES | TN__FACT_STRINGS, .moves = {.operands = ~0u, .axes = "axis"},
            .attributes = "axis:int"),
    TN__ROW(1, 1, "reverse", "x[*s]", reverse, "The order of the elements turned round along `axes`.",
            .facts = TN__FACT_REARRANGES | TN__FACT_STRINGS, .moves = {.operands = 1, .axes = "axes"},
            .attributes = "axes!:ints"),
    TN__ROW(1, 1, "relayout", "x[*s]", relayout,
            "The tensor in another layout: `parts` are triples of a dimension, a divisor and a modulus, one for each "
            "dimension that is stored; `word`, a dimension and how many neighbours along it are one stored element.",
            .facts = TN__FACT_LAYOUTS | TN__FACT_VIEW, .attributes = "parts:ints word:ints"),
    TN__ROW(0, 0, "iota", "", iota, "The index along `axis` as an element of `dtype`.", .facts = TN__FACT_CHEAP,
            .attributes = "dtype:string shape!:exprs axis:int"),
    TN__ROW(0, 0, "from_elements", "", from_elements, "A small tensor of dimension expressions: shapes as data.",
            .facts = TN__FACT_CHEAP, .attributes = "dtype:string rank:int[0..12] elements:exprs"),
};

const tn__op_family tn__ops_shape = {rows, sizeof(rows) / sizeof(rows[0])};
