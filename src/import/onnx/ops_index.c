/* Gathering, scattering, sorting and what finds positions. */
#include <string.h>

#include "import/onnx/ops.h"

static tn__value *index_operand(const tn__onode *n, int input) {
  tn__value *v = n->in[input];
  return v->dtype == TN_I32 ? v : tn__g_convert(n->g, v, TN_I64);
}

void tn__onnx_gather(tn__onode *n) {
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 0), n->in[0]->rank);
  n->out[0] = tn__g_take(n->g, n->in[0], index_operand(n, 1), axis);
}

void tn__onnx_gather_elements(tn__onode *n) {
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 0), n->in[0]->rank);
  n->out[0] = tn__g_take_along_axis(n->g, n->in[0], index_operand(n, 1), axis);
}

void tn__onnx_gather_nd(tn__onode *n) {
  n->out[0] = tn__g_gather_nd(n->g, n->in[0], index_operand(n, 1), (int)tn__on_int(n, "batch_dims", 0));
}

static const char *reduction_of(const tn__onode *n) {
  const char *reduction = tn__on_string(n, "reduction", "none");
  static const char *const known[] = {"none", "add", "mul", "max", "min"};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
    if (strcmp(known[i], reduction) == 0) return known[i];
  tn__on_fail(n, "reduction \"%s\" is none of none, add, mul, max and min", reduction);
}

/* Scatter is ScatterElements' old name. */
void tn__onnx_scatter_elements(tn__onode *n) {
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 0), n->in[0]->rank);
  n->out[0] = tn__g_scatter_elements(n->g, n->in[0], index_operand(n, 1), n->in[2], axis, reduction_of(n));
}

void tn__onnx_scatter_nd(tn__onode *n) {
  n->out[0] = tn__g_scatter_nd(n->g, n->in[0], index_operand(n, 1), n->in[2], reduction_of(n));
}

/* Writes a stretch of the sequence axis per batch: linear (out of range fails), or circular. */
void tn__onnx_tensor_scatter(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *past = n->in[0], *update = n->in[1];
  int rank = past->rank, axis = (int)tn__on_axis(n, tn__on_int(n, "axis", -2), rank);
  if (axis == 0) tn__on_fail(n, "axis 0 is the batch");
  for (int i = 0; i < rank; i++)
    if (i != axis) tn__on_require_same(n, 1, i, 0, i);
  tn__relate_sizes(g, tn__arena_printf(n->arena, "dimension %d of the update", axis), update->dims[axis],
                   "<=", "as of the cache", past->dims[axis]);
  const char *mode = tn__on_string(n, "mode", "linear");
  bool circular = strcmp(mode, "circular") == 0;
  if (!circular && strcmp(mode, "linear") != 0) tn__on_fail(n, "mode \"%s\" is neither linear nor circular", mode);
  tn__value *at = tn__g_iota(g, TN_I64, rank, update->dims, axis);
  if (n->in[2] != NULL) at = tn__on_add(n, at, tn__on_at_axis(n, tn__g_convert(g, n->in[2], TN_I64), 0, rank));
  if (circular)
    at = tn__g_binary(g, "floor_mod", at,
                      tn__on_reshape(n, tn__g_from_elements(g, TN_I64, &past->dims[axis], 1, 0), 0, NULL));
  n->out[0] = tn__g_scatter_elements(g, past, tn__g_broadcast_to(g, at, rank, update->dims), update, axis, "none");
}

void tn__onnx_one_hot(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *indices = tn__g_convert(g, n->in[0], TN_I64), *values = n->in[2];
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", -1), indices->rank + 1), count;
  const tn__expr *depth;
  const double *known;
  if (tn__on_is_float(n->in[1])) {
    if (tn__on_known_floats(n, 1, &known, &count) && count == 1) {
      if (!(known[0] >= 0 && known[0] < 1e15)) tn__on_fail(n, "input 1 (depth) is %g", known[0]);
      depth = tn__on_index(n, (int64_t)known[0]);
    } else {
      tn__value *number = tn__on_reshape(n, tn__g_convert(g, n->in[1], TN_I64), 0, NULL);
      depth = tn__graph_elements(g, number, &count)[0];
    }
  } else {
    const tn__expr *const *elements = tn__on_elements(n, 1, &count);
    if (count != 1) tn__on_fail(n, "input 1 (depth) has %d elements, expected 1", count);
    depth = elements[0];
  }
  tn__on_require_count(n, depth, "input 1 (depth)");
  depth = tn__ir_max(n->ir, depth, tn__on_index(n, 0));
  tn__value *off = tn__on_reshape(n, tn__on_slice_axis(n, values, 0, tn__on_index(n, 0), tn__on_index(n, 1)), 0, NULL);
  tn__value *on = tn__on_reshape(n, tn__on_slice_axis(n, values, 0, tn__on_index(n, 1), tn__on_index(n, 2)), 0, NULL);
  n->out[0] = tn__g_one_hot(g, indices, depth, off, on, axis);
}

void tn__onnx_non_zero(tn__onode *n) { n->out[0] = tn__g_nonzero(n->g, n->in[0]); }

void tn__onnx_compress(tn__onode *n) {
  int axis = tn__on_attr(n, "axis") == NULL ? -1 : (int)tn__on_axis(n, tn__on_int(n, "axis", 0), n->in[0]->rank);
  n->out[0] = tn__g_compress(n->g, n->in[0], n->in[1], axis);
}

void tn__onnx_unique(tn__onode *n) {
  int axis = tn__on_attr(n, "axis") == NULL ? -1 : (int)tn__on_axis(n, tn__on_int(n, "axis", 0), n->in[0]->rank);
  tn__unique u = tn__g_unique(n->g, n->in[0], axis, tn__on_int(n, "sorted", 1) != 0);
  n->out[0] = u.values;
  n->out[1] = u.indices;
  n->out[2] = u.inverse;
  n->out[3] = u.counts;
}

void tn__onnx_top_k(tn__onode *n) {
  tn__value *x = n->in[0];
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", -1), x->rank), count;
  bool largest = tn__on_int(n, "largest", 1) != 0;
  const tn__expr *k;
  if (n->version < 10) {
    k = tn__on_index(n, tn__on_int(n, "k", -1));
  } else {
    const tn__expr *const *elements = tn__on_elements(n, 1, &count);
    if (count != 1) tn__on_fail(n, "input 1 (k) has %d elements, expected 1", count);
    k = elements[0];
  }
  if (tn__ir_is_int(k) && (k->value.i < 0 || (tn__ir_is_int(x->dims[axis]) && k->value.i > x->dims[axis]->value.i)))
    tn__on_fail(n, "k is %lld, and dimension %d has %lld elements", (long long)k->value.i, axis,
                (long long)tn__g_dim_const(x, axis));
  tn__g_top_k(n->g, x, axis, k, largest, &n->out[0], &n->out[1]);
}

/* The first lengths[b] steps of each batch backwards, the rest as they are. */
void tn__onnx_reverse_sequence(tn__onode *n) {
  tn__graph *g = n->g;
  tn__value *x = n->in[0];
  int rank = x->rank;
  int time = (int)tn__on_axis(n, tn__on_int(n, "time_axis", 0), rank),
      batch = (int)tn__on_axis(n, tn__on_int(n, "batch_axis", 1), rank);
  if (time == batch) tn__on_fail(n, "time_axis and batch_axis are both %d", time);
  tn__on_require_same(n, 1, 0, 0, batch);
  tn__on_require_counts(n, 1, x->dims[time], "the number of steps");
  n->out[0] = tn__onnx_reverse_steps(n, x, tn__g_convert(g, n->in[1], TN_I64), time, batch);
}

tn__value *tn__onnx_reverse_steps(tn__onode *n, tn__value *x, tn__value *lengths, int time, int batch) {
  tn__graph *g = n->g;
  int rank = x->rank;
  tn__value *step = tn__g_iota(g, TN_I64, rank, x->dims, time), *length = tn__on_at_axis(n, lengths, batch, rank);
  tn__value *mirrored = tn__on_add_s(n, tn__on_sub(n, length, step), -1);
  tn__value *from = tn__g_select(g, tn__g_compare(g, TN__CMP_LT, step, length), mirrored, step);
  return tn__g_take_along_axis(g, x, tn__g_broadcast_to(g, from, rank, x->dims), time);
}

/* ai.onnx.ml: columns of the last dimension. */
void tn__onnx_array_feature_extractor(tn__onode *n) {
  tn__value *x = n->in[0], *at = tn__on_reshape(
                               n, n->in[1], 1, (const tn__expr *[]){tn__on_product(n, n->in[1]->dims, n->in[1]->rank)});
  tn__value *y = tn__g_take(n->g, x, at, x->rank - 1);
  n->out[0] = x->rank == 1 ? tn__on_unsqueeze(n, y, (const int64_t[]){0}, 1) : y;
}

void tn__onnx_binarizer(tn__onode *n) {
  tn__value *x = n->in[0];
  tn__value *above = tn__g_compare(n->g, TN__CMP_GT, x, tn__on_scalar(n, tn__on_float(n, "threshold", 0), x));
  n->out[0] = tn__g_convert(n->g, above, x->dtype);
}
