/* Reductions over dimensions and windows, and running ones. */
#include <string.h>

#include "graph/internal.h"

static const struct {
  const char *name;
  tn__te_reducer reducer;
} kinds[] = {{"sum", TN__TE_SUM}, {"prod", TN__TE_PROD}, {"max", TN__TE_MAX},
             {"min", TN__TE_MIN}, {"and", TN__TE_ALL},   {"or", TN__TE_ANY}};
enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static tn__te_reducer reducer_of(const tn__node *node) {
  const char *kind = tn__node_string(node, "kind", "");
  for (int i = 0; i < KIND_COUNT; i++)
    if (strcmp(kinds[i].name, kind) == 0) return kinds[i].reducer;
  return TN__TE_SUM;
}

static void require_kind(const tn__graph *graph, const tn__node *node) {
  const char *kind = tn__node_string(node, "kind", "");
  tn_dtype dtype = node->inputs[0]->dtype;
  int i = 0;
  while (i < KIND_COUNT && strcmp(kinds[i].name, kind) != 0) i++;
  if (i == KIND_COUNT) tn__node_fail(graph, node, "kind \"%s\" is not one of sum, prod, max, min, and, or", kind);
  bool logical = kinds[i].reducer == TN__TE_ALL || kinds[i].reducer == TN__TE_ANY;
  if (logical != (dtype == TN_BOOL))
    tn__node_fail(graph, node, "%s is not defined for type %s", kind, tn_dtype_name(dtype));
}

static const tn__expr *identity_of(tn__ir *ir, tn__te_reducer reducer, tn_dtype dtype) {
  switch (reducer) {
    case TN__TE_PROD: return tn__ir_constant(ir, dtype, 1);
    case TN__TE_MAX: return tn__ir_lowest(ir, dtype);
    case TN__TE_MIN: return tn__ir_highest(ir, dtype);
    case TN__TE_ALL: return tn__ir_bool(ir, true);
    default: return tn__ir_constant(ir, dtype, 0);
  }
}

static const tn__expr *combine(tn__ir *ir, tn__te_reducer reducer, const tn__expr *a, const tn__expr *b) {
  switch (reducer) {
    case TN__TE_SUM: return tn__ir_add(ir, a, b);
    case TN__TE_PROD: return tn__ir_mul(ir, a, b);
    case TN__TE_MAX: return tn__ir_max(ir, a, b);
    case TN__TE_MIN: return tn__ir_min(ir, a, b);
    case TN__TE_ALL: return tn__ir_and(ir, a, b);
    default: return tn__ir_or(ir, a, b);
  }
}

/* Sums and products of 16-bit types are carried in f32; greatest and smallest need no more than their own type. */
static tn_dtype term_dtype(tn__te_reducer reducer, tn_dtype dtype) {
  return reducer == TN__TE_SUM || reducer == TN__TE_PROD ? tn__g_accumulator_of(dtype) : dtype;
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* The set of reduced dimensions. */
static unsigned reduced_mask(const tn__graph *graph, const tn__node *node, int rank) {
  const tn__attr *axes = tn__node_attr(node, "axes");
  unsigned mask = 0;
  for (int i = 0; axes != NULL && i < axes->count; i++) {
    int64_t axis = axes->ints[i];
    if (graph != NULL && (axis < 0 || axis >= rank || (mask >> axis & 1) != 0))
      tn__node_fail(graph, node, "axis %lld is out of range or stands twice for %d dimensions", (long long)axis, rank);
    mask |= 1u << axis;
  }
  return mask;
}

TN_MUST_USE static int reduced_shape(tn__ir *ir, const tn__value *a, unsigned mask, bool keep, const tn__expr **dims) {
  int rank = 0;
  for (int i = 0; i < a->rank; i++) {
    if ((mask >> i & 1) == 0)
      dims[rank++] = a->dims[i];
    else if (keep)
      dims[rank++] = tn__ir_index(ir, 1);
  }
  return rank;
}

static void infer_reduce(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  require_kind(graph, node);
  unsigned mask = reduced_mask(graph, node, a->rank);
  const tn__expr *dims[TN__MAX_RANK];
  int rank = reduced_shape(graph->ir, a, mask, tn__node_int(node, "keep_dims", 0) != 0, dims);
  const tn__expr *element = NULL;
  int count = tn__g_element_count(a->rank, a->dims);
  if (a->elements != NULL && tn__g_carries_elements(a->dtype) && a->dtype != TN_BOOL && a->rank == 1 && mask == 1 &&
      count > 0) {
    element = a->elements[0];
    for (int i = 1; i < count; i++) element = combine(graph->ir, reducer_of(node), element, a->elements[i]);
  }
  tn__g_set_output(graph, node, 0, a->dtype, rank, dims, element != NULL ? &element : NULL);
}

/* Axes of the result and of the reduction, and the operand's index in them. */
static void reduce_axes(tn__lower_context *lower, const tn__node *node, const tn__buffer *a, tn__te_axes *axes,
                        tn__te_axes *reduce, const tn__expr **index) {
  unsigned mask = reduced_mask(NULL, node, a->rank);
  bool keep = tn__node_int(node, "keep_dims", 0) != 0;
  const tn__expr *extents[TN__MAX_RANK];
  int count = 0;
  for (int i = 0; i < a->rank; i++)
    if ((mask >> i & 1) != 0) extents[count++] = a->shape[i];
  *axes = tn__lower_axes(lower, node->outputs[0]);
  *reduce = tn__te_axes_create(tn__lower_te(lower), "k", count, extents);
  int own = 0, reduced = 0;
  for (int i = 0; i < a->rank; i++) {
    bool is_reduced = (mask >> i & 1) != 0;
    index[i] = is_reduced ? reduce->index[reduced++] : axes->index[own];
    if (!is_reduced || keep) own++;
  }
}

static void declare_reduce(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                           const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  tn__te_axes axes, reduce;
  const tn__expr *index[TN__MAX_RANK];
  reduce_axes(lower, node, inputs[0], &axes, &reduce, index);
  tn__te_reducer reducer = reducer_of(node);
  tn_dtype dtype = node->outputs[0]->dtype;
  const tn__expr *term = tn__ir_cast(ir, term_dtype(reducer, dtype), tn__ir_load(ir, inputs[0], index));
  const char *name = tn__lower_name(lower, tn__node_string(node, "kind", ""));
  /* Nothing to reduce over: the element itself. */
  const tn__buffer *result = reduce.count == 0 ? tn__te_compute(te, name, &axes, term)
                                               : tn__te_reduce(te, name, &axes, &reduce, reducer, term);
  outputs[0] = tn__lower_convert(lower, result, dtype);
}

/* ---- argreduce --------------------------------------------------------------------------------------------------- */

static tn_dtype index_dtype(const tn__graph *graph, const tn__node *node) {
  tn_dtype dtype = tn_dtype_parse(tn__node_string(node, "dtype", "i64"));
  if (dtype != TN_I64 && dtype != TN_I32) tn__node_fail(graph, node, "dtype must be i32 or i64");
  return dtype;
}

static void infer_argreduce(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  if (a->dtype == TN_BOOL) tn__node_fail(graph, node, "is not defined for type bool");
  const tn__attr *axes = tn__node_attr(node, "axes");
  if (axes == NULL || axes->count != 1) tn__node_fail(graph, node, "needs one axis");
  unsigned mask = reduced_mask(graph, node, a->rank);
  tn__graph_assume(graph, tn__ir_lt(graph->ir, tn__ir_index(graph->ir, 0), a->dims[axes->ints[0]]),
                   "%s: dimension %lld must not be empty", node->op->name, (long long)axes->ints[0]);
  const tn__expr *dims[TN__MAX_RANK];
  int rank = reduced_shape(graph->ir, a, mask, tn__node_int(node, "keep_dims", 0) != 0, dims);
  tn__g_set_output(graph, node, 0, index_dtype(graph, node), rank, dims, NULL);
}

static void declare_argreduce(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  tn__te_axes axes, reduce;
  const tn__expr *index[TN__MAX_RANK];
  reduce_axes(lower, node, inputs[0], &axes, &reduce, index);
  /* As many narrow indices go into a vector as values. */
  int64_t extent;
  bool narrow = tn__ir_as_int(reduce.var[0]->extent, &extent) && extent <= INT32_MAX;
  tn_dtype dtype = narrow ? TN_I32 : node->outputs[0]->dtype;
  const tn__te_combiner *combiner = tn__te_arg_combiner(
      te, inputs[0]->dtype, dtype, tn__node_int(node, "greatest", 1) != 0, tn__node_int(node, "last", 0) != 0);
  const tn__expr *terms[2] = {tn__ir_load(ir, inputs[0], index), tn__ir_cast(ir, dtype, reduce.index[0])};
  const tn__buffer *results[2];
  tn__te_reduce_with(te, tn__lower_name(lower, "argreduce"), &axes, &reduce, combiner, terms, results);
  outputs[0] = tn__lower_convert(lower, results[1], node->outputs[0]->dtype);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void window_shape(tn__graph *graph, const tn__node *node, const tn__expr **dims) {
  const tn__value *a = node->inputs[0];
  tn__ir *ir = graph->ir;
  const int64_t *window = tn__g_require_ints(graph, node, "window", a->rank);
  const int64_t *strides = tn__g_require_ints(graph, node, "strides", a->rank);
  const int64_t *dilations = tn__g_require_ints(graph, node, "dilations", a->rank);
  const tn__expr *const *low = tn__g_require_exprs(graph, node, "low", a->rank);
  const tn__expr *const *high = tn__g_require_exprs(graph, node, "high", a->rank);
  for (int i = 0; i < a->rank; i++) {
    if (window[i] < 1 || strides[i] < 1 || dilations[i] < 1)
      tn__node_fail(graph, node, "window, stride and dilation of dimension %d must be positive", i);
    const tn__expr *padded = tn__g_padded_dim(ir, a->dims[i], low[i], high[i], 0);
    int64_t reach = (window[i] - 1) * dilations[i] + 1;
    /* No samples give no results. A window larger than the input by at most a stride also gives none. */
    const tn__expr *fits = tn__ir_le(ir, tn__ir_index(ir, reach > strides[i] ? reach - strides[i] : 0), padded);
    if (tn__ir_is_false(fits))
      tn__node_fail(graph, node,
                    "a window over %lld elements does not fit into dimension %d, which has %s with its padding",
                    (long long)reach, i, tn__g_expr_text(graph, padded));
    tn__graph_assume(graph, fits, "%s: a window over %lld elements must fit into dimension %d, which has %s",
                     node->op->name, (long long)reach, i, tn__g_size_text(graph, padded));
    dims[i] = tn__ir_add_i(ir, tn__ir_div_i(ir, tn__ir_add_i(ir, padded, -reach), strides[i]), 1);
  }
}

static void infer_reduce_window(tn__graph *graph, tn__node *node) {
  require_kind(graph, node);
  const tn__expr *dims[TN__MAX_RANK];
  window_shape(graph, node, dims);
  tn__g_set_output(graph, node, 0, node->inputs[0]->dtype, node->inputs[0]->rank, dims, NULL);
}

/* Pads once, so that the loops over the windows have no conditions. Axes of the windows' real dimensions, and the
 * padded operand's index. */
static const tn__buffer *pad_for_windows(tn__lower_context *lower, const tn__node *node, const tn__buffer *a,
                                         const tn__expr *fill, tn__te_axes *axes, tn__te_axes *reduce,
                                         const tn__expr **index) {
  tn__ir *ir = tn__lower_ir(lower);
  const int64_t *window = tn__node_attr(node, "window")->ints, *strides = tn__node_attr(node, "strides")->ints;
  const int64_t *dilations = tn__node_attr(node, "dilations")->ints;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK], *extents[TN__MAX_RANK];
  tn__lower_exprs(lower, tn__node_attr(node, "low")->exprs, a->rank, low);
  tn__lower_exprs(lower, tn__node_attr(node, "high")->exprs, a->rank, high);
  int count = 0;
  for (int i = 0; i < a->rank; i++)
    if (window[i] > 1) extents[count++] = tn__ir_index(ir, window[i]);
  *axes = tn__lower_axes(lower, node->outputs[0]);
  *reduce = tn__te_axes_create(tn__lower_te(lower), "k", count, extents);
  count = 0;
  for (int i = 0; i < a->rank; i++) {
    index[i] = tn__ir_mul_i(ir, axes->index[i], strides[i]);
    if (window[i] > 1) index[i] = tn__ir_add(ir, index[i], tn__ir_mul_i(ir, reduce->index[count++], dilations[i]));
  }
  return tn__lower_pad(lower, a, fill, low, high, NULL);
}

static void declare_reduce_window(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                  const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  tn__te_reducer reducer = reducer_of(node);
  tn_dtype dtype = node->outputs[0]->dtype;
  tn__te_axes axes, reduce;
  const tn__expr *index[TN__MAX_RANK];
  const tn__buffer *padded =
      pad_for_windows(lower, node, inputs[0], identity_of(ir, reducer, dtype), &axes, &reduce, index);
  const tn__expr *term = tn__ir_cast(ir, term_dtype(reducer, dtype), tn__ir_load(ir, padded, index));
  const char *name = tn__lower_name(lower, "reduce_window");
  const tn__buffer *result = reduce.count == 0 ? tn__te_compute(te, name, &axes, term)
                                               : tn__te_reduce(te, name, &axes, &reduce, reducer, term);
  outputs[0] = tn__lower_convert(lower, result, dtype);
}

static void infer_argreduce_window(tn__graph *graph, tn__node *node) {
  if (node->inputs[0]->dtype == TN_BOOL) tn__node_fail(graph, node, "is not defined for type bool");
  const tn__expr *dims[TN__MAX_RANK];
  window_shape(graph, node, dims);
  tn__g_set_output(graph, node, 0, index_dtype(graph, node), node->inputs[0]->rank, dims, NULL);
}

/* A position that counts the dimensions from `first` on with the last one fastest, counted with the first one fastest.
 */
static const tn__expr *in_column_order(tn__ir *ir, const tn__expr *flat, const tn__buffer *a, int first) {
  const tn__expr *own[TN__MAX_RANK], *size[TN__MAX_RANK];
  for (int i = a->rank - 1; i >= first; i--) {
    size[i] = tn__ir_max(ir, tn__ir_index(ir, 1), a->shape[i]); /* nothing to count where there are no elements */
    own[i] = tn__ir_mod(ir, flat, size[i]);
    flat = tn__ir_div(ir, flat, size[i]);
  }
  for (int i = a->rank - 1; i >= first; i--) flat = tn__ir_add(ir, tn__ir_mul(ir, flat, size[i]), own[i]);
  return flat;
}

/* The position without padding, flat over the last `spatial` dimensions together with those before them: as ONNX counts
 * MaxPool's Indices. Of equals it is the first in the order of rows, however positions are counted. */
static void declare_argreduce_window(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                                     const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0];
  tn_dtype dtype = node->outputs[0]->dtype;
  tn__te_axes axes, reduce;
  const tn__expr *index[TN__MAX_RANK];
  const tn__buffer *padded = pad_for_windows(lower, node, a, tn__ir_lowest(ir, a->dtype), &axes, &reduce, index);
  bool column_major = tn__node_int(node, "column_major", 0) != 0;
  const tn__expr *own[TN__MAX_RANK];
  for (int i = 0; i < a->rank; i++)
    own[i] = tn__ir_sub(ir, index[i], tn__lower_expr(lower, tn__node_attr(node, "low")->exprs[i]));
  const tn__expr *flat = tn__ir_flatten(ir, a->shape, own, a->rank);
  const tn__te_combiner *combiner = tn__te_arg_combiner(te, a->dtype, dtype, true, false);
  const tn__expr *terms[2] = {tn__ir_load(ir, padded, index), tn__ir_cast(ir, dtype, flat)};
  const tn__buffer *results[2];
  const char *name = tn__lower_name(lower, "argreduce_window");
  if (reduce.count == 0) {
    if (column_major) flat = in_column_order(ir, flat, a, a->rank > 2 ? 2 : 0);
    outputs[0] = tn__te_compute(te, name, &axes, tn__ir_cast(ir, dtype, flat));
    return;
  }
  tn__te_reduce_with(te, name, &axes, &reduce, combiner, terms, results);
  outputs[0] = results[1];
  if (!column_major) return;
  axes = tn__lower_axes(lower, node->outputs[0]);
  const tn__expr *place = tn__ir_cast(ir, TN_I64, tn__ir_load(ir, results[1], axes.index));
  place = in_column_order(ir, place, a, a->rank > 2 ? 2 : 0);
  outputs[0] = tn__te_compute(te, tn__lower_name(lower, "place"), &axes, tn__ir_cast(ir, dtype, place));
}

/* ---- cumulative -------------------------------------------------------------------------------------------------- */

static void infer_cumulative(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  require_kind(graph, node);
  tn__g_require_axis(graph, node, "axis", a->rank);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
}

/* A scan over positions from the start (or the end), and a copy that turns the direction and leaves out the own
 * element. */
static void declare_cumulative(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                               const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  int axis = (int)tn__node_int(node, "axis", 0);
  bool reverse = tn__node_int(node, "reverse", 0) != 0, exclusive = tn__node_int(node, "exclusive", 0) != 0;
  tn__te_reducer reducer = reducer_of(node);
  tn_dtype dtype = node->outputs[0]->dtype, wide = term_dtype(reducer, dtype);
  const tn__expr *last = tn__ir_add_i(ir, inputs[0]->shape[axis], -1);
  tn__te_axes axes = tn__lower_axes(lower, node->outputs[0]);
  if (tn__ir_is_int_value(inputs[0]->shape[axis],
                          1)) { /* there is no element before the first that a scan could read */
    const tn__expr *only = exclusive ? identity_of(ir, reducer, dtype) : tn__ir_load(ir, inputs[0], axes.index);
    outputs[0] = tn__te_compute(te, tn__lower_name(lower, "cumulative"), &axes, only);
    return;
  }
  const tn__buffer *running;
  tn__te_scan_declare(te, tn__lower_name(lower, "cumulative"), &axes, &wide, 1, &running);
  const tn__expr *index[TN__MAX_RANK];
  memcpy(index, axes.index, sizeof(index));
  if (reverse) index[axis] = tn__ir_sub(ir, last, axes.index[axis]);
  const tn__expr *own = tn__ir_cast(ir, wide, tn__ir_load(ir, inputs[0], index));
  memcpy(index, axes.index, sizeof(index));
  index[axis] = tn__ir_add_i(ir, axes.index[axis], -1);
  const tn__expr *next = combine(ir, reducer, tn__ir_load(ir, running, index), own);
  tn__te_scan_define(te, &axes, axis, 1, &own, &next, &running, 1);
  if (!reverse && !exclusive) {
    outputs[0] = tn__lower_convert(lower, running, dtype);
    return;
  }
  axes = tn__lower_axes(lower, node->outputs[0]);
  memcpy(index, axes.index, sizeof(index));
  const tn__expr *position = reverse ? tn__ir_sub(ir, last, axes.index[axis]) : axes.index[axis];
  index[axis] = exclusive ? tn__ir_add_i(ir, position, -1) : position;
  const tn__expr *value = tn__ir_cast(ir, dtype, tn__ir_load(ir, running, index));
  if (exclusive)
    value = tn__ir_select(ir, tn__ir_lt(ir, tn__ir_index(ir, 0), position), value, identity_of(ir, reducer, dtype));
  outputs[0] = tn__te_compute(te, tn__lower_name(lower, "cumulative_place"), &axes, value);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The sum is rounded once, which no order of adding does better. */
TN_MUST_USE static bool reduce_equal(const tn__node *node, const void *element, void *out) {
  const char *kind = tn__node_string(node, "kind", "");
  tn_dtype dtype = node->outputs[0]->dtype;
  int64_t terms = 1;
  if (strcmp(kind, "prod") == 0) return false;
  if (strcmp(kind, "sum") == 0) {
    const tn__attr *axes = tn__node_attr(node, "axes");
    for (int i = 0; axes != NULL && i < axes->count; i++) terms *= tn__g_dim_const(node->inputs[0], (int)axes->ints[i]);
  }
  if (strcmp(kind, "sum") != 0)
    memcpy(out, element, tn__dtype_stored(dtype));
  else if (tn__dtype_is_float(dtype))
    tn__store_f64(dtype, out, 0, tn__load_f64(dtype, element, 0) * (double)terms);
  else
    tn__store_i64(dtype, out, 0, (int64_t)((uint64_t)tn__load_i64(dtype, element, 0) * (uint64_t)terms));
  return true;
}

#define TN__ROW(op_name, class, suffix, ...) TN__DECLARED_ROW(1, 1, op_name, "x[*s]", class, suffix, __VA_ARGS__)

static const tn__op rows[] = {
    TN__ROW("reduce", TN__CLASS_REDUCTION, reduce,
            "sum, prod, max, min, and, or (`kind`) over `axes`; 16-bit types are summed in f32.",
            .facts = TN__FACT_REDUCES, .moves = {.operands = 1, .axes = "axes"}, .of_equal = reduce_equal,
            .attributes = "kind:string axes!:ints keep_dims:int"),
    TN__ROW("argreduce", TN__CLASS_REDUCTION, argreduce,
            "The index of the `greatest` or smallest element along an axis.", .facts = TN__FACT_REDUCES,
            .moves = {.operands = 1, .axes = "axes"},
            .attributes = "axes!:int greatest:int last:int keep_dims:int dtype:string"),
    TN__ROW("reduce_window", TN__CLASS_REDUCTION, reduce_window,
            "A reduction over every window; padding holds its identity.",
            .moves = {.operands = 1, .per_dim = {"window", "strides", "dilations", "low", "high"}},
            .attributes = "kind:string window:ints strides:ints dilations:ints low:exprs high:exprs"),
    TN__ROW("argreduce_window", TN__CLASS_REDUCTION, argreduce_window,
            "The flat position of the greatest element of every window.", .facts = 0,
            .attributes = "window:ints strides:ints dilations:ints low:exprs high:exprs column_major:int dtype:string"),
    TN__ROW("cumulative", TN__CLASS_OPAQUE, cumulative, "The running reduction along `axis`.",
            .moves = {.operands = 1, .axes = "axis"}, .attributes = "kind:string axis:int exclusive:int reverse:int"),
};

const tn__op_family tn__ops_reduce = {rows, sizeof(rows) / sizeof(rows[0])};
