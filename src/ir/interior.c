/* What an index is in the interior of a nest, away from the borders where it is clamped, mirrored or wrapped around. */
#include <math.h>

#include "ir/linear.h"

/* Is it the same at all positions? Dimensions have no extent. */
static bool is_fixed(const tn__expr *e) {
  if (e->kind == TN__EXPR_LOAD || (e->kind == TN__EXPR_VAR && e->value.var->extent != NULL)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_fixed(e->args[i])) return false;
  return true;
}

/* Of a clamp, the side that moves; of a mirrored position, where both do, the one that counts halfway. */
static const tn__expr *inner_side(const tn__expr *e) {
  const tn__expr *a = e->args[0], *b = e->args[1];
  bool first = is_fixed(a), second = is_fixed(b);
  if (first != second) return first ? b : a;
  if (first) return NULL;
  double at_a = tn__ir_middle(a), at_b = tn__ir_middle(b);
  if (isnan(at_a) || isnan(at_b) || at_a == at_b) return NULL;
  return (at_a < at_b) == (e->kind == TN__EXPR_MIN) ? a : b;
}

/* Is the remainder the position itself, but for a period before or behind it? */
static bool wraps_once(tn__ir *ir, const tn__expr *position, const tn__expr *divisor) {
  int64_t n;
  if (tn__ir_as_int(divisor, &n)) {
    tn__interval range = tn__interval_of(ir, position);
    return range.min != INT64_MIN && range.max != INT64_MAX && range.max - range.min < 2 * n;
  }
  const tn__expr *before = tn__ir_sub(ir, tn__ir_index(ir, 0), divisor);
  return tn__interval_of(ir, divisor).min >= 1 && tn__ir_proves_le(ir, before, position) &&
         tn__ir_proves_le(ir, position, tn__ir_mul(ir, divisor, tn__ir_index(ir, 2)));
}

static const tn__expr *without_borders(tn__ir *ir, const tn__expr *e, void *user) {
  (void)user;
  if (e->dtype != TN_I64) return NULL;
  if (e->kind == TN__EXPR_MIN || e->kind == TN__EXPR_MAX) return inner_side(e);
  if (e->kind == TN__EXPR_SELECT && e->args[0]->kind == TN__EXPR_LT && !tn__expr_has_load(e->args[0])) {
    double a = tn__ir_middle(e->args[0]->args[0]), b = tn__ir_middle(e->args[0]->args[1]);
    return isnan(a) || isnan(b) ? NULL : e->args[a < b ? 1 : 2];
  }
  if (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_ABS) return e->args[0];
  return e->kind == TN__EXPR_MOD && wraps_once(ir, e->args[0], e->args[1]) ? e->args[0] : NULL;
}

const tn__expr *tn__ir_interior(tn__ir *ir, const tn__expr *index) {
  return tn__expr_rewrite(ir, index, without_borders, NULL);
}
