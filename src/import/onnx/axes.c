/* Axes that are data: which dimension an operator means is known only when it runs, but how many it means is. */
#include "import/onnx/ops.h"

void tn__onnx_axis_flags(tn__onode *n, int input, int rank, const tn__expr **flags, int *count) {
  tn__ir *ir = n->ir;
  const tn__expr *const *axes = tn__on_elements(n, input, count);
  const tn__expr *meant = tn__ir_index(ir, 0);
  for (int i = 0; i < rank; i++) {
    flags[i] = tn__ir_bool(ir, false);
    for (int k = 0; k < *count; k++)
      flags[i] = tn__ir_or(ir, flags[i],
                           tn__ir_or(ir, tn__ir_eq(ir, axes[k], tn__ir_index(ir, i)),
                                     tn__ir_eq(ir, axes[k], tn__ir_index(ir, i - rank))));
    meant = tn__ir_add(ir, meant, tn__ir_select(ir, flags[i], tn__ir_index(ir, 1), tn__ir_index(ir, 0)));
  }
  tn__graph_assume(n->g, tn__ir_eq(ir, meant, tn__ir_index(ir, *count)),
                   "input %d must name %d different dimension%s of a tensor with %d, and names %s", input, *count,
                   tn__plural(*count), rank, tn__g_size_text(n->g, meant));
}

/* ---- one axis ---------------------------------------------------------------------------------------------------- */

const tn__expr *tn__onnx_axis_at_run(tn__onode *n, int input, int rank, int allowed) {
  tn__ir *ir = n->ir;
  int count;
  const tn__expr *const *given = tn__on_elements(n, input, &count), *zero = tn__ir_index(ir, 0);
  if (count != 1) tn__on_fail(n, "input %d (axis) has %d elements, expected 1", input, count);
  const tn__expr *axis = tn__ir_select(ir, tn__ir_lt(ir, given[0], zero), tn__ir_add_i(ir, given[0], rank), given[0]);
  tn__graph_assume(n->g, tn__ir_and(ir, tn__ir_le(ir, zero, axis), tn__ir_lt(ir, axis, tn__ir_index(ir, allowed))),
                   "input %d (axis) is %s, and must be in [%d, %d) or [0, %d)", input, tn__g_size_text(n->g, given[0]),
                   -rank, allowed - rank, allowed);
  return axis;
}

tn__value *tn__onnx_along(tn__onode *n, tn__value *x, const tn__expr *axis) {
  tn__ir *ir = n->ir;
  const tn__expr *one = tn__ir_index(ir, 1), *dims[3] = {one, one, one};
  for (int i = 0; i < x->rank; i++) {
    const tn__expr *here = tn__ir_index(ir, i);
    dims[0] = tn__ir_mul(ir, dims[0], tn__ir_select(ir, tn__ir_lt(ir, here, axis), x->dims[i], one));
    dims[1] = tn__ir_select(ir, tn__ir_eq(ir, here, axis), x->dims[i], dims[1]);
    dims[2] = tn__ir_mul(ir, dims[2], tn__ir_select(ir, tn__ir_lt(ir, axis, here), x->dims[i], one));
  }
  return tn__on_reshape(n, x, 3, dims);
}

tn__value *tn__onnx_from_along(tn__onode *n, tn__value *y, const tn__value *x, const tn__expr *axis) {
  const tn__expr **dims = tn__on_dims(n, x);
  for (int i = 0; i < x->rank; i++)
    dims[i] = tn__ir_select(n->ir, tn__ir_eq(n->ir, tn__ir_index(n->ir, i), axis), y->dims[1], dims[i]);
  return tn__on_reshape(n, y, x->rank, dims);
}

/* ---- several ----------------------------------------------------------------------------------------------------- */

/* Dimension j of the result is the one that has j unflagged dimensions before it. */
void tn__onnx_kept_dims(tn__onode *n, const tn__expr *const *dims, const tn__expr *const *flags, int rank, int kept,
                        const tn__expr **out) {
  tn__ir *ir = n->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  for (int j = 0; j < kept; j++) {
    const tn__expr *before = zero;
    out[j] = one;
    for (int i = 0; i < rank; i++) {
      const tn__expr *here = tn__ir_and(ir, tn__ir_not(ir, flags[i]), tn__ir_eq(ir, before, tn__ir_index(ir, j)));
      out[j] = tn__ir_select(ir, here, dims[i], out[j]);
      before = tn__ir_add(ir, before, tn__ir_select(ir, flags[i], zero, one));
    }
  }
}

/* Dimension i of the result is 1 when flagged, else the next of `dims`. */
void tn__onnx_inserted_dims(tn__onode *n, const tn__expr *const *dims, const tn__expr *const *flags, int rank,
                            int given, const tn__expr **out) {
  tn__ir *ir = n->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1), *before = zero;
  for (int i = 0; i < rank; i++) {
    out[i] = one;
    for (int k = 0; k < given; k++)
      out[i] = tn__ir_select(ir, tn__ir_and(ir, tn__ir_not(ir, flags[i]), tn__ir_eq(ir, before, tn__ir_index(ir, k))),
                             dims[k], out[i]);
    before = tn__ir_add(ir, before, tn__ir_select(ir, flags[i], zero, one));
  }
}

tn__onnx_groups tn__onnx_groups_create(tn__onode *n, const tn__value *x, const tn__expr *const *flags) {
  tn__ir *ir = n->ir;
  tn__onnx_groups groups = {.rank = x->rank, .size = tn__ir_index(ir, 1), .members = tn__ir_index(ir, 1)};
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1), *total = tn__on_product(n, x->dims, x->rank);
  for (int i = x->rank - 1; i >= 0; i--) {
    const tn__expr *stride = tn__ir_select(ir, flags[i], zero, groups.size);
    tn__value *factor = tn__g_from_elements(n->g, TN_I64, &stride, 1, 0);
    tn__value *part = tn__on_mul(n, tn__g_iota(n->g, TN_I64, x->rank, x->dims, i), factor);
    groups.index = groups.index == NULL ? part : tn__on_add(n, groups.index, part);
    groups.dims[i] = tn__ir_select(ir, flags[i], one, x->dims[i]);
    groups.size = tn__ir_mul(ir, groups.size, groups.dims[i]);
    groups.members = tn__ir_mul(ir, groups.members, tn__ir_select(ir, flags[i], x->dims[i], one));
  }
  if (groups.index == NULL) groups.index = tn__g_scalar_i64(n->g, TN_I64, 0);
  groups.index = tn__on_reshape(n, groups.index, 1, &total);
  return groups;
}

/* Combines the elements of each group: [groups.size]. */
tn__value *tn__onnx_groups_reduce(tn__onode *n, const tn__onnx_groups *groups, tn__value *x, tn__value *identity,
                                  const char *reduction) {
  const tn__expr *total = tn__on_product(n, x->dims, x->rank);
  tn__value *start = tn__g_broadcast_to(n->g, identity, 1, &groups->size);
  return tn__g_scatter_elements(n->g, start, groups->index, tn__on_reshape(n, x, 1, &total), 0, reduction);
}

/* Each element's group's value, in the shape of x. Numbers of groups are counted, so no check of them is needed. */
tn__value *tn__onnx_groups_spread(tn__onode *n, const tn__onnx_groups *groups, tn__value *combined,
                                  const tn__value *x) {
  return tn__on_reshape(n, tn__g_take_trusted(n->g, combined, groups->index, 0), x->rank, x->dims);
}
