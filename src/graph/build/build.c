#include "graph/build/build.h"

#include <math.h>
#include <string.h>

#include "graph/internal.h"

static const tn__op *op_of(tn__graph *g, const char *name) {
  const tn__op *op = tn__op_find(name);
  if (op == NULL) tn__graph_fail(g, TN_INTERNAL, "there is no operator \"%s\"", name);
  return op;
}

tn__node *tn__g_node(tn__graph *g, const char *name, tn__value *const *inputs, int input_count, const tn__attr *attrs,
                     int attr_count) {
  return tn__node_create(g, op_of(g, name), inputs, input_count, attrs, attr_count, NULL, 0);
}

static tn__value *build(tn__graph *g, const char *name, tn__value *const *inputs, int input_count,
                        const tn__attr *attrs, int attr_count) {
  return tn__g_node(g, name, inputs, input_count, attrs, attr_count)->outputs[0];
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

tn__value *tn__g_scalar(tn__graph *g, tn_dtype dtype, double value) {
  void *data = tn__arena_alloc(g->arena, 8);
  tn__store_f64(dtype, data, 0, value);
  return tn__g_constant_value(g, dtype, 0, NULL, data, true);
}

tn__value *tn__g_scalar_i64(tn__graph *g, tn_dtype dtype, int64_t value) {
  void *data = tn__arena_alloc(g->arena, 8);
  tn__store_i64(dtype, data, 0, value);
  return tn__g_constant_value(g, dtype, 0, NULL, data, true);
}

tn__value *tn__g_i64s(tn__graph *g, const int64_t *values, int count) {
  int64_t shape = count;
  return tn__g_constant_value(g, TN_I64, 1, &shape, tn__arena_copy(g->arena, values, (size_t)count * sizeof(*values)),
                              false);
}

tn__value *tn__g_full(tn__graph *g, tn_dtype dtype, double value, int rank, const tn__expr *const *dims) {
  return tn__g_broadcast_to(g, tn__g_scalar(g, dtype, value), rank, dims);
}

tn__value *tn__g_from_elements(tn__graph *g, tn_dtype dtype, const tn__expr *const *elements, int count, int rank) {
  bool constant = true;
  for (int i = 0; i < count; i++) constant = constant && tn__ir_is_int(elements[i]);
  if (constant && (rank == 0 || rank == 1)) {
    void *data = tn__arena_alloc_array(g->arena, (size_t)count, tn__dtype_stored(dtype));
    for (int i = 0; i < count; i++) tn__store_i64(dtype, data, i, elements[i]->value.i);
    int64_t shape = count;
    return tn__g_constant_value(g, dtype, rank, &shape, data, rank == 0);
  }
  const tn__attr attrs[] = {tn__attr_string(g, "dtype", tn_dtype_name(dtype)), tn__attr_int(g, "rank", rank),
                            tn__attr_exprs(g, "elements", elements, count)};
  return build(g, "from_elements", NULL, 0, attrs, 3);
}

/* ---- element-wise ------------------------------------------------------------------------------------------------ */

tn__value *tn__g_unary(tn__graph *g, const char *op, tn__value *a) { return build(g, op, &a, 1, NULL, 0); }

/* Returns whether the two sizes are equal, statically or by a run-time check. */
static bool same_size(const tn__graph *g, const tn__expr *a, const tn__expr *b) {
  if (a == b) return true;
  const tn__expr *equal = tn__ir_eq(g->ir, a, b);
  if (tn__ir_is_true(equal) || tn__ir_prove(g->ir, equal)) return true;
  for (int i = 0; i < g->checks.count; i++)
    if (g->checks.data[i].condition == equal) return true;
  return false;
}

tn__value *tn__g_stretch(tn__graph *g, tn__value *value, int rank, const tn__expr *const *dims) {
  bool same = value->rank == rank;
  for (int i = 0; same && i < rank; i++) same = same_size(g, value->dims[i], dims[i]);
  return same ? value : tn__g_broadcast_to(g, value, rank, dims);
}

/* Broadcasts the values in place. */
static void broadcast_all(tn__graph *g, tn__value **values, int count) {
  int rank;
  const tn__expr *dims[TN__MAX_RANK];
  tn__g_broadcast_shape(g, values, count, &rank, dims);
  for (int k = 0; k < count; k++) values[k] = tn__g_stretch(g, values[k], rank, dims);
}

tn__value *tn__g_binary(tn__graph *g, const char *op, tn__value *a, tn__value *b) {
  tn__value *values[2] = {a, b};
  broadcast_all(g, values, 2);
  return build(g, op, values, 2, NULL, 0);
}

tn__value *tn__g_binary_s(tn__graph *g, const char *op, tn__value *a, double scalar) {
  return tn__g_binary(g, op, a, tn__g_scalar(g, a->dtype, scalar));
}

tn__value *tn__g_compare(tn__graph *g, tn__compare direction, tn__value *a, tn__value *b) {
  static const char *const names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  tn__value *values[2] = {a, b};
  broadcast_all(g, values, 2);
  if (a->dtype == TN_STRING && b->dtype == TN_STRING && (direction == TN__CMP_EQ || direction == TN__CMP_NE)) {
    tn__value *equal = build(g, "string_equal", values, 2, NULL, 0);
    return direction == TN__CMP_EQ ? equal : tn__g_unary(g, "not", equal);
  }
  const tn__attr attr = tn__attr_string(g, "direction", names[direction]);
  return build(g, "compare", values, 2, &attr, 1);
}

tn__value *tn__g_select(tn__graph *g, tn__value *condition, tn__value *a, tn__value *b) {
  tn__value *values[3] = {condition, a, b};
  broadcast_all(g, values, 3);
  return build(g, "select", values, 3, NULL, 0);
}

tn__value *tn__g_dequantize(tn__graph *g, tn__value *x, tn__value *scale, tn__value *zero) {
  tn__value *values[3] = {x, scale, zero};
  int count = zero == NULL ? 2 : 3;
  broadcast_all(g, values, count);
  return build(g, "dequantize", values, count, NULL, 0);
}

tn__value *tn__g_quantize(tn__graph *g, tn__value *x, tn__value *scale, tn__value *zero, tn_dtype dtype, int bits,
                          bool multiplies) {
  tn__value *values[3] = {x, scale, zero};
  tn__attr attrs[3];
  int inputs = zero == NULL ? 2 : 3, count = 0;
  attrs[count++] = tn__attr_string(g, "dtype", tn_dtype_name(dtype));
  if (bits != tn__dtype_bits(dtype)) attrs[count++] = tn__attr_int(g, "bits", bits);
  if (multiplies) attrs[count++] = tn__attr_string(g, "scale", "multiply");
  broadcast_all(g, values, inputs);
  return build(g, "quantize", values, inputs, attrs, count);
}

tn__value *tn__g_convert(tn__graph *g, tn__value *a, tn_dtype dtype) {
  if (a->dtype == dtype) return a;
  const tn__attr attr = tn__attr_string(g, "dtype", tn_dtype_name(dtype));
  if (dtype == TN_STRING) return build(g, "string_from", &a, 1, NULL, 0);
  return build(g, a->dtype == TN_STRING ? "string_to" : "convert", &a, 1, &attr, 1);
}

tn__value *tn__g_bitcast_convert(tn__graph *g, tn__value *a, tn_dtype dtype) {
  const tn__attr attr = tn__attr_string(g, "dtype", tn_dtype_name(dtype));
  return build(g, "bitcast_convert", &a, 1, &attr, 1);
}

/* ---- shape ------------------------------------------------------------------------------------------------------- */

/* A constant of one repeated element has it in any shape. */
static tn__value *reshaped_splat(tn__graph *g, const tn__value *a, int rank, const tn__expr *const *dims) {
  if (a->data == NULL || !a->splat || rank > TN__MAX_RANK) return NULL;
  int64_t shape[TN__MAX_RANK];
  for (int i = 0; i < rank; i++)
    if (!tn__ir_as_int(dims[i], &shape[i])) return NULL;
  return tn__g_constant_value(g, a->dtype, rank, shape, a->data, true);
}

tn__value *tn__g_broadcast_in_dim(tn__graph *g, tn__value *a, int rank, const tn__expr *const *dims,
                                  const int64_t *axes) {
  tn__value *splat = reshaped_splat(g, a, rank, dims);
  const tn__attr attrs[] = {tn__attr_exprs(g, "shape", dims, rank), tn__attr_ints(g, "axes", axes, a->rank)};
  if (splat == NULL) return build(g, "broadcast_in_dim", &a, 1, attrs, 2);
  for (int i = 0; i < a->rank; i++)
    if (!tn__ir_is_int_value(a->dims[i], 1) && a->dims[i] != dims[axes[i]])
      return build(g, "broadcast_in_dim", &a, 1, attrs, 2);
  return splat;
}

tn__value *tn__g_broadcast_to(tn__graph *g, tn__value *a, int rank, const tn__expr *const *dims) {
  if (a->rank > rank)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "%s can't be broadcast to %d dimensions", tn__value_type_text(g, a), rank);
  bool same = a->rank == rank;
  int64_t axes[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++) {
    axes[i] = rank - a->rank + i;
    same = same && a->dims[i] == dims[axes[i]];
  }
  return same ? a : tn__g_broadcast_in_dim(g, a, rank, dims, axes);
}

/* Broadcasting two run-time sizes yields select(a == 1, b, a), the one that is not 1. A third size is broadcast by
 * nesting. */
static bool is_common(const tn__expr *e) {
  return e->kind == TN__EXPR_SELECT && e->args[0]->kind == TN__EXPR_EQ &&
         ((e->args[0]->args[0] == e->args[2] && tn__ir_is_int_value(e->args[0]->args[1], 1)) ||
          (e->args[0]->args[1] == e->args[2] && tn__ir_is_int_value(e->args[0]->args[0], 1)));
}

static bool has_part(const tn__expr *e, const tn__expr *part) {
  return e == part || (is_common(e) && (has_part(e->args[1], part) || has_part(e->args[2], part)));
}

/* Orders symbols by creation, so that a + b and b + a have the same shape. */
static const tn__expr *common_size(tn__graph *g, const tn__expr *a, const tn__expr *b) {
  if (has_part(a, b)) return a;
  if (has_part(b, a)) return b;
  if (is_common(b)) return common_size(g, common_size(g, a, b->args[2]), b->args[1]);
  if (a->kind == TN__EXPR_VAR && b->kind == TN__EXPR_VAR && b->value.var->id < a->value.var->id) {
    const tn__expr *first = b;
    b = a, a = first;
  }
  return tn__ir_select(g->ir, tn__ir_eq(g->ir, a, tn__ir_index(g->ir, 1)), b, a);
}

const tn__expr *tn__g_broadcast_size(tn__graph *g, const char *left, const tn__expr *a, const char *right,
                                     const tn__expr *b) {
  const tn__expr *one = tn__ir_index(g->ir, 1);
  if (a == one || (!tn__ir_is_int(a) && has_part(b, a))) return b;
  if (b == one || has_part(a, b)) return a;
  const tn__expr *equal = tn__ir_eq(g->ir, a, b);
  const tn__expr *fits = tn__ir_or(g->ir, equal, tn__ir_or(g->ir, tn__ir_eq(g->ir, a, one), tn__ir_eq(g->ir, b, one)));
  bool same = same_size(g, a, b);
  if (!same)
    tn__graph_assume(g, fits, "%s is %s, and %s is %s: they must be equal, or one of them 1", left,
                     tn__g_size_text(g, a), right, tn__g_size_text(g, b));
  if (tn__ir_is_int(b)) return b;
  return same || tn__ir_is_int(a) ? a : common_size(g, a, b);
}

void tn__g_broadcast_shape(tn__graph *g, tn__value *const *values, int count, int *rank, const tn__expr **dims) {
  *rank = 0;
  for (int k = 0; k < count; k++)
    if (values[k]->rank > *rank) *rank = values[k]->rank;
  for (int i = 0; i < *rank; i++) {
    const tn__expr *common = NULL;
    int from = 0;
    for (int k = 0; k < count; k++) {
      int axis = i - (*rank - values[k]->rank);
      if (axis < 0) continue;
      const tn__expr *dim = values[k]->dims[axis];
      if (common == NULL || common == dim || tn__ir_is_int_value(common, 1)) {
        if (common != dim) from = k;
        common = dim;
        continue;
      }
      if (tn__ir_is_int(dim) && tn__ir_is_int(common) && !tn__ir_is_int_value(dim, 1))
        tn__graph_fail(g, TN_INVALID_ARGUMENT, "the shapes %s and %s can't be broadcast together",
                       tn__value_type_text(g, values[0]), tn__value_type_text(g, values[k]));
      int first = i - (*rank - values[from]->rank);
      common = tn__g_broadcast_size(g, tn__arena_printf(g->arena, "dimension %d of operand %d", first, from), common,
                                    tn__arena_printf(g->arena, "dimension %d of operand %d", axis, k), dim);
    }
    dims[i] = common;
  }
}

tn__value *tn__g_reshape(tn__graph *g, tn__value *a, int rank, const tn__expr *const *dims) {
  bool same = a->rank == rank;
  for (int i = 0; same && i < rank; i++) same = a->dims[i] == dims[i];
  if (same) return a;
  const tn__expr *have = tn__g_dim_product(g->ir, a->dims, a->rank), *want = tn__g_dim_product(g->ir, dims, rank);
  tn__value *splat = have == want ? reshaped_splat(g, a, rank, dims) : NULL;
  if (splat != NULL) return splat;
  const tn__attr attr = tn__attr_exprs(g, "shape", dims, rank);
  return build(g, "reshape", &a, 1, &attr, 1);
}

int64_t tn__g_axis(tn__graph *g, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "axis %lld is outside of a tensor with %d dimension%s", (long long)axis,
                   rank, tn__plural(rank));
  return axis < 0 ? axis + rank : axis;
}

tn__value *tn__g_unsqueeze(tn__graph *g, tn__value *a, const int64_t *axes, int count) {
  const tn__expr *dims[TN__MAX_RANK];
  int rank = a->rank + count;
  bool fresh[TN__MAX_RANK] = {false};
  if (rank > TN__MAX_RANK)
    tn__graph_fail(g, TN_UNSUPPORTED, "makes a tensor with %d dimensions; at most %d are supported", rank,
                   TN__MAX_RANK);
  for (int i = 0; i < count; i++) fresh[axes[i]] = true;
  for (int i = 0, from = 0; i < rank; i++) dims[i] = fresh[i] ? tn__ir_index(tn__graph_ir(g), 1) : a->dims[from++];
  return count == 0 ? a : tn__g_reshape(g, a, rank, dims);
}

tn__value *tn__g_transpose(tn__graph *g, tn__value *a, const int64_t *permutation) {
  bool same = true;
  for (int i = 0; i < a->rank; i++) same = same && permutation[i] == i;
  if (same) return a;
  const tn__attr attr = tn__attr_ints(g, "permutation", permutation, a->rank);
  return build(g, "transpose", &a, 1, &attr, 1);
}

tn__value *tn__g_strided(tn__graph *g, tn__value *memory, int rank, const tn__expr *const *dims,
                         const tn__expr *const *strides, const tn__expr *origin) {
  const tn__attr attrs[] = {tn__attr_exprs(g, "shape", dims, rank), tn__attr_exprs(g, "strides", strides, rank),
                            tn__attr_exprs(g, "origin", &origin, 1)};
  return build(g, "strided", &memory, 1, attrs, 3);
}

tn__value *tn__g_slice(tn__graph *g, tn__value *a, const tn__expr *const *starts, const tn__expr *const *limits,
                       const int64_t *strides) {
  bool same = true;
  for (int i = 0; i < a->rank; i++)
    same = same && tn__ir_is_int_value(starts[i], 0) && limits[i] == a->dims[i] && strides[i] == 1;
  if (same) return a;
  const tn__attr attrs[] = {tn__attr_exprs(g, "starts", starts, a->rank), tn__attr_exprs(g, "limits", limits, a->rank),
                            tn__attr_ints(g, "strides", strides, a->rank)};
  return build(g, "slice", &a, 1, attrs, 3);
}

tn__value *tn__g_append(tn__graph *g, tn__value *a, tn__value *fresh, int axis, const tn__expr *start) {
  const tn__attr attrs[] = {tn__attr_int(g, "axis", axis), tn__attr_exprs(g, "start", &start, 1)};
  return build(g, "append", (tn__value *[]){a, fresh}, 2, attrs, 2);
}

tn__value *tn__g_write_at(tn__graph *g, tn__value *a, tn__value *fresh, tn__value *at, int axis) {
  const tn__attr attr = tn__attr_int(g, "axis", axis);
  return build(g, "write_at", (tn__value *[]){a, fresh, at}, 3, &attr, 1);
}

tn__value *tn__g_pad(tn__graph *g, tn__value *a, tn__value *scalar, const tn__expr *const *low,
                     const tn__expr *const *high, const int64_t *interior) {
  static const int64_t none[TN__MAX_RANK] = {0};
  if (interior == NULL) interior = none;
  bool same = true;
  for (int i = 0; i < a->rank; i++)
    same = same && tn__ir_is_int_value(low[i], 0) && tn__ir_is_int_value(high[i], 0) && interior[i] == 0;
  if (same) return a;
  tn__value *inputs[2] = {a, tn__g_reshape(g, scalar, 0, NULL)};
  const tn__attr attrs[] = {tn__attr_exprs(g, "low", low, a->rank), tn__attr_exprs(g, "high", high, a->rank),
                            tn__attr_ints(g, "interior", interior, a->rank)};
  return build(g, "pad", inputs, 2, attrs, 3);
}

tn__value *tn__g_concatenate(tn__graph *g, tn__value *const *values, int count, int axis) {
  if (count == 1) return values[0];
  if (count > TN__MOST_CONCATENATED) { /* of parts, so that no kernel is larger than that */
    int parts = (count + TN__MOST_CONCATENATED - 1) / TN__MOST_CONCATENATED;
    tn__value **part = TN__NEW_ARRAY(g->arena, parts, tn__value *);
    for (int i = 0; i < parts; i++) {
      int begin = i * TN__MOST_CONCATENATED, left = count - begin;
      part[i] = tn__g_concatenate(g, values + begin, left < TN__MOST_CONCATENATED ? left : TN__MOST_CONCATENATED, axis);
    }
    return tn__g_concatenate(g, part, parts, axis);
  }
  const tn__attr attr = tn__attr_int(g, "axis", axis);
  return build(g, "concatenate", values, count, &attr, 1);
}

tn__value *tn__g_reverse(tn__graph *g, tn__value *a, const int64_t *axes, int count) {
  if (count == 0) return a;
  const tn__attr attr = tn__attr_ints(g, "axes", axes, count);
  return build(g, "reverse", &a, 1, &attr, 1);
}

tn__value *tn__g_iota(tn__graph *g, tn_dtype dtype, int rank, const tn__expr *const *dims, int axis) {
  const tn__attr attrs[] = {tn__attr_string(g, "dtype", tn_dtype_name(dtype)), tn__attr_exprs(g, "shape", dims, rank),
                            tn__attr_int(g, "axis", axis)};
  return build(g, "iota", NULL, 0, attrs, 3);
}

/* ---- reductions and contractions --------------------------------------------------------------------------------- */

static const char *kind_name(tn__reduce_kind kind) {
  static const char *const names[] = {"sum", "prod", "max", "min", "and", "or"};
  return names[kind];
}

tn__value *tn__g_reduce(tn__graph *g, tn__reduce_kind kind, tn__value *a, const int64_t *axes, int count,
                        bool keep_dims) {
  if (count == 0) return a;
  const tn__attr attrs[] = {tn__attr_string(g, "kind", kind_name(kind)), tn__attr_ints(g, "axes", axes, count),
                            tn__attr_int(g, "keep_dims", keep_dims)};
  return build(g, "reduce", &a, 1, attrs, 3);
}

tn__value *tn__g_argreduce(tn__graph *g, tn__value *a, int axis, bool greatest, bool last, bool keep_dims,
                           tn_dtype dtype) {
  const tn__attr attrs[] = {tn__attr_int(g, "axes", axis), tn__attr_int(g, "greatest", greatest),
                            tn__attr_int(g, "last", last), tn__attr_int(g, "keep_dims", keep_dims),
                            tn__attr_string(g, "dtype", tn_dtype_name(dtype))};
  return build(g, "argreduce", &a, 1, attrs, 5);
}

tn__value *tn__g_reduce_window(tn__graph *g, tn__reduce_kind kind, tn__value *a, const int64_t *window,
                               const int64_t *strides, const int64_t *dilations, const tn__expr *const *low,
                               const tn__expr *const *high) {
  const tn__attr attrs[] = {
      tn__attr_string(g, "kind", kind_name(kind)),   tn__attr_ints(g, "window", window, a->rank),
      tn__attr_ints(g, "strides", strides, a->rank), tn__attr_ints(g, "dilations", dilations, a->rank),
      tn__attr_exprs(g, "low", low, a->rank),        tn__attr_exprs(g, "high", high, a->rank)};
  return build(g, "reduce_window", &a, 1, attrs, 6);
}

tn__value *tn__g_argreduce_window(tn__graph *g, tn__value *a, const int64_t *window, const int64_t *strides,
                                  const int64_t *dilations, const tn__expr *const *low, const tn__expr *const *high,
                                  bool column_major, tn_dtype dtype) {
  const tn__attr attrs[] = {
      tn__attr_ints(g, "window", window, a->rank),       tn__attr_ints(g, "strides", strides, a->rank),
      tn__attr_ints(g, "dilations", dilations, a->rank), tn__attr_exprs(g, "low", low, a->rank),
      tn__attr_exprs(g, "high", high, a->rank),          tn__attr_int(g, "column_major", column_major),
      tn__attr_string(g, "dtype", tn_dtype_name(dtype))};
  return build(g, "argreduce_window", &a, 1, attrs, 7);
}

tn__value *tn__g_dot_general(tn__graph *g, tn__value *lhs, tn__value *rhs, const int64_t *lhs_batch,
                             const int64_t *rhs_batch, int batch, const int64_t *lhs_contract,
                             const int64_t *rhs_contract, int contract, tn_dtype dtype) {
  tn__value *inputs[2] = {lhs, rhs};
  const tn__attr attrs[] = {
      tn__attr_ints(g, "lhs_batch", lhs_batch, batch), tn__attr_ints(g, "rhs_batch", rhs_batch, batch),
      tn__attr_ints(g, "lhs_contract", lhs_contract, contract),
      tn__attr_ints(g, "rhs_contract", rhs_contract, contract), tn__attr_string(g, "dtype", tn_dtype_name(dtype))};
  return build(g, "dot_general", inputs, 2, attrs, 5);
}

/* Drops or keeps dimensions of a matmul operand: 1-D ones get a row or column. */
static tn__value *with_dim(tn__graph *g, tn__value *a, int axis) {
  const tn__expr *dims[TN__MAX_RANK];
  int rank = 0;
  for (int i = 0; i <= a->rank; i++) {
    if (i == axis) dims[rank++] = tn__ir_index(g->ir, 1);
    if (i < a->rank) dims[rank++] = a->dims[i];
  }
  return tn__g_reshape(g, a, rank, dims);
}

static tn__value *without_dim(tn__graph *g, tn__value *a, int axis) {
  const tn__expr *dims[TN__MAX_RANK];
  int rank = 0;
  for (int i = 0; i < a->rank; i++)
    if (i != axis) dims[rank++] = a->dims[i];
  return tn__g_reshape(g, a, rank, dims);
}

/* The batch dimensions of a matmul operand broadcast to `dims`. */
static tn__value *broadcast_batch(tn__graph *g, tn__value *a, int batch, const tn__expr *const *dims) {
  const tn__expr *all[TN__MAX_RANK];
  for (int i = 0; i < batch; i++) all[i] = dims[i];
  all[batch] = a->dims[a->rank - 2];
  all[batch + 1] = a->dims[a->rank - 1];
  return tn__g_stretch(g, a, batch + 2, all);
}

tn__value *tn__g_matmul(tn__graph *g, tn__value *a, tn__value *b, tn_dtype dtype) {
  if (a->rank == 0 || b->rank == 0)
    tn__graph_fail(g, TN_INVALID_ARGUMENT, "matmul: operands must have at least one dimension");
  if (a->rank == 1 || b->rank == 1) {
    tn__value *wide_a = a->rank == 1 ? with_dim(g, a, 0) : a, *wide_b = b->rank == 1 ? with_dim(g, b, 1) : b;
    tn__value *result = tn__g_matmul(g, wide_a, wide_b, dtype);
    if (b->rank == 1) result = without_dim(g, result, result->rank - 1);
    if (a->rank == 1) result = without_dim(g, result, b->rank == 1 ? result->rank - 1 : result->rank - 2);
    return result;
  }
  int64_t axes[TN__MAX_RANK], a_contract = a->rank - 1, b_contract = b->rank - 2;
  for (int i = 0; i < TN__MAX_RANK; i++) axes[i] = i;
  /* One matrix on the right: the left operand's other dimensions are all rows. */
  if (b->rank == 2) return tn__g_dot_general(g, a, b, NULL, NULL, 0, &a_contract, &b_contract, 1, dtype);
  int rank;
  const tn__expr *dims[TN__MAX_RANK];
  tn__value batch_a = *a, batch_b = *b, *const batches[2] = {&batch_a, &batch_b};
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  tn__g_broadcast_shape(g, batches, 2, &rank, dims);
  a = broadcast_batch(g, a, rank, dims);
  b = broadcast_batch(g, b, rank, dims);
  a_contract = rank + 1;
  b_contract = rank;
  return tn__g_dot_general(g, a, b, axes, axes, rank, &a_contract, &b_contract, 1, dtype);
}

static tn__value *convolution(tn__graph *g, const char *op, tn__value *const *inputs, int count,
                              const tn__conv_spec *spec, tn_dtype dtype) {
  int n = spec->spatial;
  const tn__attr attrs[] = {tn__attr_ints(g, "strides", spec->strides, n),
                            tn__attr_ints(g, "lhs_dilation", spec->lhs_dilation, n),
                            tn__attr_ints(g, "rhs_dilation", spec->rhs_dilation, n),
                            tn__attr_exprs(g, "low", spec->low, n),
                            tn__attr_exprs(g, "high", spec->high, n),
                            tn__attr_int(g, "feature_groups", spec->feature_groups),
                            tn__attr_int(g, "flip", spec->flip),
                            tn__attr_int(g, "channels_last", spec->channels_last),
                            tn__attr_string(g, "dtype", tn_dtype_name(dtype)),
                            tn__attr_int(g, "pad_value", spec->pad_value)};
  return build(g, op, inputs, count, attrs, spec->pad_value != 0 ? 10 : 9);
}

tn__value *tn__g_convolution(tn__graph *g, tn__value *lhs, tn__value *rhs, const tn__conv_spec *spec, tn_dtype dtype) {
  tn__value *const inputs[2] = {lhs, rhs};
  return convolution(g, "convolution", inputs, 2, spec, dtype);
}

tn__conv_spec tn__g_conv_spec_of(const tn__node *node) {
  int spatial = node->inputs[0]->rank - 2;
  tn__conv_spec spec = {.spatial = spatial,
                        .feature_groups = tn__node_int(node, "feature_groups", 1),
                        .pad_value = tn__node_int(node, "pad_value", 0),
                        .flip = tn__node_int(node, "flip", 0) != 0,
                        .channels_last = tn__node_int(node, "channels_last", 0) != 0};
  for (int i = 0; i < spatial; i++) {
    spec.strides[i] = tn__node_attr(node, "strides")->ints[i];
    spec.lhs_dilation[i] = tn__node_attr(node, "lhs_dilation")->ints[i];
    spec.rhs_dilation[i] = tn__node_attr(node, "rhs_dilation")->ints[i];
    spec.low[i] = tn__node_attr(node, "low")->exprs[i];
    spec.high[i] = tn__node_attr(node, "high")->exprs[i];
  }
  return spec;
}

/* ---- quantised products ------------------------------------------------------------------------------------------ */

tn__value *tn__g_quantized_matmul(tn__graph *g, tn__value *a, tn__value *a_zero, tn__value *b, tn__value *b_zero) {
  tn__value *const inputs[4] = {a, b, a_zero, b_zero};
  return build(g, "quantized_matmul", inputs, 4, NULL, 0);
}

tn__value *tn__g_quantized_convolution(tn__graph *g, tn__value *x, tn__value *x_zero, tn__value *w, tn__value *w_zero,
                                       tn__value *bias, const tn__conv_spec *spec) {
  tn__value *const inputs[5] = {x, w, x_zero, w_zero, bias};
  return convolution(g, "quantized_convolution", inputs, 5, spec, TN_I32);
}

tn__value *tn__g_relayout(tn__graph *g, tn__value *a, const tn__layout *layout) {
  int64_t parts[3 * TN__MAX_RANK];
  for (int i = 0; i < layout->rank; i++) {
    parts[3 * i] = layout->parts[i].dim;
    parts[3 * i + 1] = layout->parts[i].divisor;
    parts[3 * i + 2] = layout->parts[i].modulus;
  }
  const int64_t word[] = {layout->word.dim, layout->word.count};
  const tn__attr attrs[] = {tn__attr_ints(g, "parts", parts, 3 * layout->rank), tn__attr_ints(g, "word", word, 2)};
  return build(g, "relayout", &a, 1, attrs, layout->word.count != 0 ? 2 : 1);
}

tn__value *tn__g_cumulative(tn__graph *g, tn__reduce_kind kind, tn__value *a, int axis, bool exclusive, bool reverse) {
  const tn__attr attrs[] = {tn__attr_string(g, "kind", kind_name(kind)), tn__attr_int(g, "axis", axis),
                            tn__attr_int(g, "exclusive", exclusive), tn__attr_int(g, "reverse", reverse)};
  return build(g, "cumulative", &a, 1, attrs, 4);
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

tn__node *tn__g_if(tn__graph *g, tn__value *condition, tn__graph *then_body, tn__graph *else_body,
                   tn__value *const *args, int count) {
  tn__value **inputs = TN__NEW_ARRAY(g->arena, count + 1, tn__value *);
  inputs[0] = condition;
  for (int i = 0; i < count; i++) inputs[i + 1] = args[i];
  tn__graph *bodies[2] = {then_body, else_body};
  return tn__node_create(g, op_of(g, "if"), inputs, count + 1, NULL, 0, bodies, 2);
}

tn__node *tn__g_while(tn__graph *g, tn__graph *condition, tn__graph *body, tn__value *const *state, int count) {
  tn__graph *bodies[2] = {condition, body};
  return tn__node_create(g, op_of(g, "while"), state, count, NULL, 0, bodies, 2);
}

/* ---- common compositions ----------------------------------------------------------------------------------------- */

tn__value *tn__g_clamp(tn__graph *g, tn__value *a, double low, double high) {
  if (low > -HUGE_VAL) a = tn__g_binary_s(g, "maximum", a, low);
  if (high < HUGE_VAL) a = tn__g_binary_s(g, "minimum", a, high);
  return a;
}

tn__value *tn__g_mean(tn__graph *g, tn__value *a, const int64_t *axes, int count, bool keep_dims) {
  tn__value *x = tn__g_convert(g, a, tn__g_accumulator_of(a->dtype));
  const tn__expr *size = tn__ir_index(g->ir, 1);
  for (int i = 0; i < count; i++) size = tn__ir_mul(g->ir, size, a->dims[axes[i]]);
  tn__value *sum = tn__g_reduce(g, TN__REDUCE_SUM, x, axes, count, keep_dims);
  int64_t known;
  tn__value *divisor = tn__ir_as_int(size, &known) ? tn__g_scalar(g, x->dtype, (double)known)
                                                   : tn__g_from_elements(g, x->dtype, &size, 1, 0);
  return tn__g_convert(g, tn__g_binary(g, "divide", sum, divisor), a->dtype);
}
