/* Reductions, and the positions of extremes. */
#include <math.h>
#include <string.h>

#include "import/onnx/ops.h"

static int64_t axes_operand_since(const tn__onode *n) { return strcmp(n->name, "ReduceSum") == 0 ? 13 : 18; }

/* The axes to reduce. False: nothing is reduced (no axes, with noop_with_empty_axes). */
TN_MUST_USE static bool reduce_axes(tn__onode *n, const int64_t **axes, int *count) {
  int rank = n->in[0]->rank;
  int given;
  const int64_t *values =
      tn__on_ints_either(n, "axes", axes_operand_since(n), 1, &given, "the shape of the result depends on it");
  if (values != NULL && given > 0) {
    *axes = tn__on_axes(n, values, given, rank);
    *count = given;
    return true;
  }
  if (tn__on_int(n, "noop_with_empty_axes", 0) != 0) return false;
  int64_t *all = TN__NEW_ARRAY(n->arena, rank, int64_t);
  for (int i = 0; i < rank; i++) all[i] = i;
  *axes = all;
  *count = rank;
  return true;
}

typedef enum reduction { SUM, MEAN, PROD, MAX, MIN, L1, L2, SUM_SQUARE, LOG_SUM, LOG_SUM_EXP } reduction;

static reduction reduction_of(const tn__onode *n) {
  static const char *const names[] = {"ReduceSum", "ReduceMean", "ReduceProd",      "ReduceMax",    "ReduceMin",
                                      "ReduceL1",  "ReduceL2",   "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};
  for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
    if (strcmp(names[i], n->name) == 0) return (reduction)i;
  tn__on_fail(n, "is not a reduction");
}

/* log(sum(exp(x))) with the greatest subtracted first; where that is infinite, without. */
static tn__value *log_sum_exp(tn__onode *n, tn__value *x, const int64_t *axes, int count, bool keep) {
  tn__value *most = tn__g_reduce(n->g, TN__REDUCE_MAX, x, axes, count, true);
  tn__value *zero = tn__on_scalar(n, 0, most);
  most = tn__g_select(n->g, tn__on_unary(n, "is_finite", most), most, zero);
  tn__value *sum =
      tn__g_reduce(n->g, TN__REDUCE_SUM, tn__on_unary(n, "exponential", tn__on_sub(n, x, most)), axes, count, true);
  tn__value *result = tn__on_add(n, tn__on_unary(n, "log", sum), most);
  return keep ? result : tn__on_squeeze(n, result, axes, count);
}

static tn__value *reduce(tn__onode *n, reduction kind, tn__value *x, const int64_t *axes, int count, bool keep) {
  tn__graph *g = n->g;
  switch (kind) {
    case SUM: return tn__g_reduce(g, TN__REDUCE_SUM, x, axes, count, keep);
    case MEAN: return tn__g_mean(g, x, axes, count, keep);
    case PROD: return tn__g_reduce(g, TN__REDUCE_PROD, x, axes, count, keep);
    case MAX: return tn__g_reduce(g, x->dtype == TN_BOOL ? TN__REDUCE_OR : TN__REDUCE_MAX, x, axes, count, keep);
    case MIN: return tn__g_reduce(g, x->dtype == TN_BOOL ? TN__REDUCE_AND : TN__REDUCE_MIN, x, axes, count, keep);
    case L1: return tn__g_reduce(g, TN__REDUCE_SUM, tn__on_unary(n, "abs", x), axes, count, keep);
    case SUM_SQUARE: return tn__g_reduce(g, TN__REDUCE_SUM, tn__on_mul(n, x, x), axes, count, keep);
    case L2: {
      tn__value *sum = tn__g_reduce(g, TN__REDUCE_SUM, tn__on_mul(n, x, x), axes, count, keep);
      if (tn__on_is_float(sum)) return tn__on_unary(n, "sqrt", sum);
      return tn__g_convert(g, tn__on_unary(n, "sqrt", tn__g_convert(g, sum, TN_F64)), x->dtype);
    }
    case LOG_SUM:
    case LOG_SUM_EXP: {
      tn__value *wide = tn__on_is_float(x) ? x : tn__g_convert(g, x, TN_F64);
      tn__value *y = kind == LOG_SUM_EXP
                         ? log_sum_exp(n, wide, axes, count, keep)
                         : tn__on_unary(n, "log", tn__g_reduce(g, TN__REDUCE_SUM, wide, axes, count, keep));
      return tn__g_convert(g, y, x->dtype);
    }
  }
  return x;
}

/* ---- axes that only a run shows ---------------------------------------------------------------------------------- */

static tn__value *extreme(tn__onode *n, tn_dtype dtype, bool greatest) {
  if (tn__dtype_is_float(dtype)) return tn__g_scalar(n->g, dtype, greatest ? INFINITY : -INFINITY);
  const tn__expr *e = greatest ? tn__ir_highest(n->ir, dtype) : tn__ir_lowest(n->ir, dtype);
  return tn__g_scalar_i64(n->g, dtype, e->value.i);
}

static tn__value *group_sum(tn__onode *n, const tn__onnx_groups *groups, tn__value *x) {
  return tn__onnx_groups_reduce(n, groups, x, tn__on_scalar(n, 0, x), "add");
}

static tn__value *reduce_groups(tn__onode *n, reduction kind, const tn__onnx_groups *groups, tn__value *x) {
  tn_dtype dtype = x->dtype;
  switch (kind) {
    case SUM: return group_sum(n, groups, x);
    case MEAN: {
      tn__value *members = tn__g_convert(n->g, tn__g_from_elements(n->g, TN_I64, &groups->members, 1, 0), dtype);
      return tn__on_div(n, group_sum(n, groups, x), members);
    }
    case PROD: return tn__onnx_groups_reduce(n, groups, x, tn__on_scalar(n, 1, x), "mul");
    case MAX: return tn__onnx_groups_reduce(n, groups, x, extreme(n, dtype, false), "max");
    case MIN: return tn__onnx_groups_reduce(n, groups, x, extreme(n, dtype, true), "min");
    case L1: return group_sum(n, groups, tn__on_unary(n, "abs", x));
    case SUM_SQUARE: return group_sum(n, groups, tn__on_mul(n, x, x));
    default: break;
  }
  tn__value *wide = tn__on_is_float(x) ? x : tn__g_convert(n->g, x, TN_F64), *y;
  if (kind == L2) {
    y = tn__on_unary(n, "sqrt", group_sum(n, groups, tn__on_mul(n, wide, wide)));
  } else if (kind == LOG_SUM) {
    y = tn__on_unary(n, "log", group_sum(n, groups, wide));
  } else {
    tn__value *most = tn__onnx_groups_reduce(n, groups, wide, extreme(n, wide->dtype, false), "max");
    tn__value *zero = tn__on_scalar(n, 0, most);
    most = tn__g_select(n->g, tn__on_unary(n, "is_finite", most), most, zero);
    tn__value *centered = tn__on_sub(n, wide, tn__onnx_groups_spread(n, groups, most, wide));
    y = tn__on_add(n, tn__on_unary(n, "log", group_sum(n, groups, tn__on_unary(n, "exponential", centered))), most);
  }
  return tn__g_convert(n->g, y, dtype);
}

static void reduce_at_run(tn__onode *n, bool keep) {
  tn__value *x = tn__on_widen(n, n->in[0]);
  bool logical = x->dtype == TN_BOOL;
  if (logical) x = tn__g_convert(n->g, x, TN_U8);
  const tn__expr *flags[TN__MAX_RANK], *dims[TN__MAX_RANK];
  int count;
  tn__onnx_axis_flags(n, 1, x->rank, flags, &count);
  if (count > x->rank) tn__on_fail(n, "reduces %d dimensions of a tensor with %d", count, x->rank);
  tn__onnx_groups groups = tn__onnx_groups_create(n, x, flags);
  tn__value *y = reduce_groups(n, reduction_of(n), &groups, x);
  int rank = keep ? x->rank : x->rank - count;
  if (!keep) tn__onnx_kept_dims(n, x->dims, flags, x->rank, rank, dims);
  n->out[0] = tn__g_convert(n->g, tn__on_reshape(n, y, rank, keep ? groups.dims : dims), n->in[0]->dtype);
}

/* Reduces over the axes of attribute or operand, whichever the version has. */
void tn__onnx_reduce(tn__onode *n) {
  tn__value *x = n->in[0];
  const int64_t *axes = NULL;
  int count = 0;
  bool keep = tn__on_int(n, "keepdims", 1) != 0;
  const int64_t *known;
  if (n->version >= axes_operand_since(n) && n->in[1] != NULL && !tn__on_known_ints(n, 1, &known, &count)) {
    reduce_at_run(n, keep);
    return;
  }
  if (!reduce_axes(n, &axes, &count)) {
    /* Opset 18's text leaves the tensor as it is; only what happens per element remains of the others. */
    static const int64_t none[1] = {0};
    reduction kind = reduction_of(n);
    bool elementwise = kind == L1 || kind == L2 || kind == SUM_SQUARE || kind == LOG_SUM || kind == LOG_SUM_EXP;
    n->out[0] = elementwise ? tn__g_convert(n->g, reduce(n, kind, tn__on_widen(n, x), none, 0, true), x->dtype) : x;
    return;
  }
  n->out[0] = tn__g_convert(n->g, reduce(n, reduction_of(n), tn__on_widen(n, x), axes, count, keep), x->dtype);
}

void tn__onnx_arg_extreme(tn__onode *n) {
  tn__value *x = n->in[0];
  int axis = (int)tn__on_axis(n, tn__on_int(n, "axis", 0), x->rank);
  bool keep = tn__on_int(n, "keepdims", 1) != 0, last = tn__on_int(n, "select_last_index", 0) != 0;
  n->out[0] = tn__g_argreduce(n->g, x, axis, strcmp(n->name, "ArgMax") == 0, last, keep, TN_I64);
}
