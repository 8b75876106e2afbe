/* Sums over all positions of terms that are only there at one of them. A histogram that is declared as it is defined,
 *
 *   H[b] = sum(i) select(X[i] == b, 1, 0)      becomes      H[b] = sum(i) 1 into [X[i]]
 *   Y[i] = sum(k) select(k == I[i], V[k], 0)   becomes      Y[i] = select(0 <= I[i] < K, V[I[i]], 0)
 *
 * so that a term is looked at once, not once for each position that it could belong to. The same holds for every
 * combiner, whose identity changes nothing: a product of polynomials over all pairs whose exponents add up to the
 * result's is a convolution. */
#include "te/internal.h"

/* A term: `value` where all of `conditions` hold, and the identity elsewhere. */
typedef struct guarded {
  tn__ir *ir;
  const tn__expr *identity;
  const tn__expr *condition; /* NULL: none so far */
  const tn__expr *value;
} guarded;

static void demand(guarded *g, const tn__expr *condition) {
  g->condition = g->condition == NULL ? condition : tn__ir_and(g->ir, g->condition, condition);
}

static bool is_zero(const tn__expr *e) {
  return (e->kind == TN__EXPR_INT && e->value.i == 0) || (e->kind == TN__EXPR_FLOAT && e->value.f == 0);
}

static const tn__expr *one_of(tn__ir *ir, tn_dtype dtype) {
  return tn__dtype_is_float(dtype) ? tn__ir_float(ir, dtype, 1) : tn__ir_int(ir, dtype, 1);
}

/* Takes conditions off the value as long as there are some. */
static void find_conditions(guarded *g) {
  for (;;) {
    const tn__expr *e = g->value;
    bool zero = is_zero(g->identity), whole = !tn__dtype_is_float(e->dtype);
    if (e->kind == TN__EXPR_SELECT && e->args[2] == g->identity) {
      demand(g, e->args[0]);
      g->value = e->args[1];
    } else if (e->kind == TN__EXPR_SELECT && e->args[1] == g->identity) {
      demand(g, tn__ir_not(g->ir, e->args[0]));
      g->value = e->args[2];
    } else if (e->kind == TN__EXPR_CAST && e->args[0]->dtype == TN_BOOL && zero) {
      demand(g, e->args[0]);
      g->value = one_of(g->ir, e->dtype);
    } else if (e->dtype == TN_BOOL && zero && e->kind >= TN__EXPR_EQ && e->kind <= TN__EXPR_AND) {
      demand(g, e);
      g->value = tn__ir_bool(g->ir, true);
    } else if (e->kind == TN__EXPR_MUL && whole && zero) { /* 0 times anything is 0 in integers alone */
      guarded left = {.ir = g->ir, .identity = g->identity, .value = e->args[0]}, right = left;
      right.value = e->args[1];
      if (left.value->kind != TN__EXPR_MUL) find_conditions(&left);
      if (right.value->kind != TN__EXPR_MUL) find_conditions(&right);
      if (left.condition == NULL && right.condition == NULL) return;
      if (left.condition != NULL) demand(g, left.condition);
      if (right.condition != NULL) demand(g, right.condition);
      g->value = tn__ir_mul(g->ir, left.value, right.value);
    } else {
      return;
    }
  }
}

/* The axis, or the axis in a smaller type that holds all of its positions. */
static bool is_axis(const tn__expr *e, const tn__var *axis) {
  int64_t extent, most = INT64_MAX;
  if (e == axis->self) return true;
  if (e->kind != TN__EXPR_CAST || e->args[0] != axis->self || tn__dtype_is_float(e->dtype) || e->dtype == TN_BOOL)
    return false;
  int bits = tn__dtype_bits(e->dtype) - tn__dtype_is_signed(e->dtype);
  if (bits < 63) most = INT64_C(1) << bits;
  return tn__ir_as_int(axis->extent, &extent) && extent <= most;
}

/* What the axis must be equal to for a == b; NULL when that says nothing about it. */
static const tn__expr *axis_where(tn__ir *ir, const tn__expr *a, const tn__expr *b, const tn__var *axis) {
  int64_t stride;
  for (int side = 0; side < 2; side++) {
    const tn__expr *one = side == 0 ? a : b, *other = side == 0 ? b : a;
    if (is_axis(one, axis) && !tn__expr_uses_var(other, axis) && !tn__dtype_is_float(other->dtype))
      return tn__ir_cast(ir, TN_I64, other);
  }
  if (a->dtype != TN_I64) return NULL;
  const tn__expr *difference = tn__ir_sub(ir, a, b);
  if (!tn__ir_stride_in(ir, difference, axis, &stride) || (stride != 1 && stride != -1)) return NULL;
  const tn__expr *zero = tn__ir_index(ir, 0), *rest = tn__ir_substitute(ir, difference, &axis, &zero, 1);
  return stride == 1 ? tn__ir_sub(ir, zero, rest) : rest;
}

/* Finds, among the conditions that all hold, one that says which position of the axis it is, and leaves the others in
 * `*others`, NULL when there are none. */
static const tn__expr *take_position(tn__ir *ir, const tn__expr *condition, const tn__var *axis,
                                     const tn__expr **others) {
  *others = condition;
  if (condition->kind == TN__EXPR_AND && condition->dtype == TN_BOOL) {
    for (int side = 0; side < 2; side++) {
      const tn__expr *rest, *found = take_position(ir, condition->args[side], axis, &rest);
      if (found == NULL) continue;
      const tn__expr *other = condition->args[1 - side];
      if (rest == NULL)
        *others = other;
      else
        *others = side == 0 ? tn__ir_and(ir, rest, other) : tn__ir_and(ir, other, rest);
      return found;
    }
    return NULL;
  }
  const tn__expr *found = NULL;
  if (condition->kind == TN__EXPR_EQ && condition->args[0]->dtype != TN_BOOL)
    found = axis_where(ir, condition->args[0], condition->args[1], axis);
  if (found != NULL) *others = NULL;
  return found;
}

static const tn__expr *inside(tn__ir *ir, const tn__expr *position, const tn__var *axis) {
  const tn__expr *min = axis->min != NULL ? axis->min : tn__ir_index(ir, 0);
  const tn__expr *low = tn__ir_le(ir, min, position);
  return tn__ir_and(ir, low, tn__ir_lt(ir, position, tn__ir_add(ir, min, axis->extent)));
}

/* Does an extent of another axis of the reduction depend on this one? */
static bool bounds_others(const tn__te_stage *stage, const tn__var *axis) {
  for (int i = 0; i < stage->reduce_axes.count; i++)
    if (tn__expr_uses_var(stage->reduce_axes.var[i]->extent, axis)) return true;
  return false;
}

/* A reduction without the axis whose only position the terms name. */
static bool drop_axis(tn__ir *ir, tn__te_stage *stage, int r, const guarded *g) {
  const tn__var *axis = stage->reduce_axes.var[r];
  const tn__expr *others;
  if (tn__ir_is_int(axis->extent) && axis->extent->value.i <= 1) return false;
  if (tn__te_is_ragged(axis) || bounds_others(stage, axis)) return false;
  const tn__expr *position = take_position(ir, g->condition, axis, &others);
  if (position == NULL || tn__te_is_too_large(ir, position)) return false;
  const tn__expr *condition = inside(ir, position, axis);
  const tn__expr *value = tn__ir_substitute(ir, g->value, &axis, &position, 1);
  /* The others first: they may be what makes the position one that can be computed. */
  if (others != NULL && tn__expr_uses_var(others, axis))
    condition = tn__ir_and(ir, condition, tn__ir_substitute(ir, others, &axis, &position, 1));
  else if (others != NULL)
    condition = tn__ir_and(ir, others, condition);
  stage->values[0] = tn__ir_select(ir, condition, value, g->identity);
  stage->reduce_axes.count--;
  for (int i = r; i < stage->reduce_axes.count; i++) {
    stage->reduce_axes.var[i] = stage->reduce_axes.var[i + 1];
    stage->reduce_axes.index[i] = stage->reduce_axes.index[i + 1];
  }
  if (stage->reduce_axes.count > 0) return true;
  stage->kind = TN__TE_COMPUTE;
  stage->combiner = NULL;
  return true;
}

/* An accumulation whose terms name the element that they go into. */
static bool place_terms(tn__ir *ir, tn__te_stage *stage, int a, const guarded *g) {
  const tn__var *axis = stage->axes.var[a];
  const tn__expr *others, *position = take_position(ir, g->condition, axis, &others);
  if (position == NULL || tn__expr_uses_var(g->value, axis) || tn__te_is_too_large(ir, position)) return false;
  if (others != NULL && tn__expr_uses_var(others, axis)) return false;
  for (int i = 0; i < stage->reduce_axes.count; i++)
    if (tn__te_is_ragged(stage->reduce_axes.var[i])) return false;
  stage->kind = TN__TE_ACCUMULATE;
  stage->first[0] = g->identity;
  stage->values[0] = others == NULL ? g->value : tn__ir_select(ir, others, g->value, g->identity);
  for (int d = 0; d < stage->axes.count; d++) stage->into[d] = stage->axes.index[d];
  stage->into[a] = others == NULL ? position : tn__ir_select(ir, others, position, tn__ir_index(ir, -1));
  return true;
}

/* Along the longest axis that terms name a position of, if that is at least so long. */
static bool place_longest(tn__ir *ir, tn__te_stage *stage, int64_t least, const guarded *g) {
  bool tried[TN__MAX_RANK] = {false};
  for (int n = 0; n < stage->axes.count; n++) {
    int longest = -1;
    int64_t most = -1;
    for (int a = 0; a < stage->axes.count; a++) {
      int64_t extent = tn__ir_int_or(stage->axes.var[a]->extent, INT64_MAX); /* treat open extents as long */
      if (!tried[a] && extent > most) longest = a, most = extent;
    }
    if (most < least) return false;
    tried[longest] = true;
    if (place_terms(ir, stage, longest, g)) return true;
  }
  return false;
}

/* ---- bounds that follow from positions --------------------------------------------------------------------------- */

/* A constant that the extent never exceeds where it is half of that or more on average; -1: none. */
static int64_t filled_extent(tn__ir *ir, const tn__te_stage *stage, const tn__expr *extent) {
  const tn__var *vars[2 * TN__MAX_RANK];
  const tn__expr *low, *high;
  int64_t least, most;
  int count = 0;
  if (tn__expr_has_load(extent)) return -1;
  for (int a = 0; a < stage->axes.count; a++) vars[count++] = stage->axes.var[a];
  for (int r = 0; r < stage->reduce_axes.count; r++) vars[count++] = stage->reduce_axes.var[r];
  for (int i = 0; i < count; i++)
    if (tn__te_is_ragged(vars[i])) return -1; /* one at a time, from the outside in */
  if (!tn__ir_bounds_over(ir, extent, vars, count, &low, &high)) return -1;
  if (!tn__ir_as_int(low, &least) || !tn__ir_as_int(high, &most) || most < 1) return -1;
  return least + most >= most / 2 ? most : -1;
}

/* A reduction whose bounds positions tell, sum(j: i + 1), over all steps that there may be: under a condition, which
 * vectors and tiles know how to cut off. Loops of lengths of their own don't share their vectors. */
static bool fill_bounds(tn__ir *ir, tn__te_stage *stage) {
  int ragged = -1;
  if (stage->kind != TN__TE_ACCUMULATE) return false;
  for (int d = 0; d < stage->axes.count; d++)
    if (!tn__te_keeps_axis(stage, d)) return false;
  for (int t = 0; t < stage->tensor_count; t++)
    if (stage->first[t] != stage->combiner->identity[t]) return false;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    if (!tn__te_is_ragged(stage->reduce_axes.var[r])) continue;
    if (ragged >= 0) return false;
    ragged = r;
  }
  if (ragged < 0) return false;
  tn__te_stage others = *stage;
  const tn__var *axis = stage->reduce_axes.var[ragged];
  others.reduce_axes.count--;
  for (int r = ragged; r < others.reduce_axes.count; r++) others.reduce_axes.var[r] = stage->reduce_axes.var[r + 1];
  int64_t most = filled_extent(ir, &others, axis->extent);
  if (most < 0 || (axis->min != NULL && !tn__ir_is_int_value(axis->min, 0))) return false;
  const tn__var *whole = tn__var_create(ir, axis->name, TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, most));
  const tn__expr *there = tn__ir_lt(ir, whole->self, axis->extent);
  for (int t = 0; t < stage->tensor_count; t++) {
    const tn__expr *term = tn__ir_substitute(ir, stage->values[t], &axis, &whole->self, 1);
    stage->values[t] = tn__ir_select(ir, there, term, stage->combiner->identity[t]);
    stage->first[t] = NULL;
  }
  stage->reduce_axes.var[ragged] = whole;
  stage->reduce_axes.index[ragged] = whole->self;
  stage->kind = TN__TE_REDUCE;
  for (int d = 0; d < stage->axes.count; d++) stage->into[d] = NULL;
  return true;
}

static bool improve(tn__ir *ir, tn__te_stage *stage, int64_t vector_bytes) {
  if (fill_bounds(ir, stage)) return true;
  if (stage->step_of != NULL) return false; /* its places are those of the step */
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1) return false;
  guarded g = {.ir = ir, .identity = stage->combiner->identity[0], .value = stage->values[0]};
  find_conditions(&g);
  if (g.condition == NULL) return false;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (drop_axis(ir, stage, r, &g)) return true;
  /* All positions of a few vectors are looked at in as much time as one is found. */
  return place_longest(ir, stage, 2 * vector_bytes / (int64_t)tn_dtype_size(stage->tensors[0]->dtype), &g);
}

const tn__te *tn__te_place(const tn__te *te, int64_t vector_bytes) {
  tn__te *copy = NULL;
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    if (stage->kind != TN__TE_REDUCE && stage->kind != TN__TE_ACCUMULATE) continue;
    tn__te_stage trial = *stage;
    if (copy == NULL && !improve(te->ir, &trial, vector_bytes)) continue;
    if (copy == NULL) copy = tn__te_copy(te, te->ir);
    while (improve(te->ir, copy->stages.data[s], vector_bytes)) continue;
  }
  return copy != NULL ? copy : te;
}
