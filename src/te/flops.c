#include <string.h>

#include "te/internal.h"

typedef struct visit {
  void (*fn)(const tn__expr *e, void *user);
  void *user;
  tn__expr_set seen;
} visit;

static void visit_expr(visit *v, const tn__expr *e) {
  if (!tn__expr_set_add(&v->seen, e)) return;
  for (int i = 0; i < e->arg_count; i++) visit_expr(v, e->args[i]);
  v->fn(e, v->user);
}

void tn__te_visit(tn__ir *ir, const tn__expr *e, void (*fn)(const tn__expr *e, void *user), void *user) {
  visit v = {.fn = fn, .user = user, .seen = {.ir = ir}};
  visit_expr(&v, e);
  tn__expr_set_clear(&v.seen);
}

static int64_t own_flops(const tn__expr *e) {
  if (!tn__dtype_is_float(e->dtype)) return 0;
  switch (e->kind) {
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
    case TN__EXPR_DIV:
    case TN__EXPR_MOD:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return 1;
    case TN__EXPR_CALL: return e->intrinsic == TN__CALL_FMA ? 2 : 1;
    default: return 0;
  }
}

/* By a position: schedules that unroll it compute one side only. */
static bool is_choice(const tn__expr *e) {
  if (e->kind != TN__EXPR_SELECT || !tn__dtype_is_float(e->dtype)) return false;
  const tn__expr *by = e->args[0];
  return (by->kind == TN__EXPR_EQ || by->kind == TN__EXPR_LT || by->kind == TN__EXPR_LE) &&
         by->args[0]->dtype == TN_I64 && !tn__expr_has_load(by);
}

/* What `e` adds to what was seen before. Of a choice the greater side counts. */
TN_MUST_USE static int64_t count_flops(tn__expr_set *seen, const tn__expr *e) {
  if (!tn__expr_set_add(seen, e)) return 0;
  int64_t flops = own_flops(e);
  if (!is_choice(e)) {
    for (int i = 0; i < e->arg_count; i++) flops += count_flops(seen, e->args[i]);
    return flops;
  }
  flops += count_flops(seen, e->args[0]);
  tn__expr_set other = *seen;
  other.slots = tn__arena_copy(tn__ir_arena(seen->ir), seen->slots, seen->capacity * sizeof(*seen->slots));
  int64_t left = count_flops(seen, e->args[1]), right = count_flops(&other, e->args[2]);
  tn__expr_set_clear(right > left ? seen : &other);
  if (right > left) *seen = other;
  return flops + (left > right ? left : right);
}

/* How many elements, or terms, there are to compute, as far as dimensions tell: of as many terms as data say, one. */
static const tn__expr *volume(tn__ir *ir, const tn__te_stage *stage) {
  const tn__expr *size = tn__ir_index(ir, 1);
  for (int i = 0; i < stage->axes.count; i++)
    if (tn__te_keeps_axis(stage, i)) size = tn__ir_mul(ir, size, stage->axes.var[i]->extent);
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    const tn__var *axis = stage->reduce_axes.var[i];
    int64_t most = tn__interval_of(ir, axis->extent).max;
    if (!tn__te_is_ragged(axis))
      size = tn__ir_mul(ir, size, axis->extent);
    else if (most < INT32_MAX && most > 1)
      size = tn__ir_mul_i(ir, size, most / 2); /* a triangle */
  }
  return size;
}

const tn__expr *tn__te_flops(const tn__te *te) {
  tn__ir *ir = te->ir;
  const tn__expr *total = tn__ir_index(ir, 0);
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    if (stage->kind == TN__TE_EXTERN) continue;
    int64_t flops = 0;
    for (int t = 0; t < stage->tensor_count; t++) {
      tn__expr_set value = {.ir = ir}, result = {.ir = ir};
      flops += count_flops(&value, stage->values[t]);
      if (stage->combiner != NULL) flops += count_flops(&result, stage->combiner->result[t]);
      tn__expr_set_clear(&value);
      tn__expr_set_clear(&result);
    }
    total = tn__ir_add(ir, total, tn__ir_mul_i(ir, volume(ir, stage), flops));
  }
  return total;
}

/* ---- what no schedule saves -------------------------------------------------------------------------------------- */

/* Does it differ along each of these axes? */
static bool uses_all(const tn__expr *e, const tn__te_axes *axes) {
  for (int i = 0; i < axes->count; i++)
    if (!tn__expr_uses_var(e, axes->var[i])) return false;
  return true;
}

/* Operations that depend on every axis: others are the same for several elements, and code computes them once. What
 * stands in a choice may not be computed at all. */
static int64_t count_needed(tn__expr_set *seen, const tn__expr *e, const tn__te_stage *stage) {
  if (!tn__expr_set_add(seen, e)) return 0;
  if (e->kind == TN__EXPR_SELECT || !uses_all(e, &stage->axes) || !uses_all(e, &stage->reduce_axes)) return 0;
  int64_t flops = own_flops(e);
  for (int i = 0; i < e->arg_count; i++) flops += count_needed(seen, e->args[i], stage);
  return flops;
}

static bool is_ragged(const tn__te_stage *stage) {
  for (int i = 0; i < stage->reduce_axes.count; i++)
    if (tn__te_is_ragged(stage->reduce_axes.var[i])) return true;
  return false;
}

static double needed_flops(const tn__te *te) {
  double total = 0;
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    int64_t size;
    if (stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) continue;
    if (is_ragged(stage) || !tn__ir_as_int(volume(te->ir, stage), &size)) continue;
    for (int t = 0; t < stage->tensor_count; t++) {
      tn__expr_set seen = {.ir = te->ir};
      int64_t flops = count_needed(&seen, stage->values[t], stage);
      tn__expr_set_clear(&seen);
      if (flops > 0 && tn__te_is_output(te, stage->tensors[t])) total += (double)size * (double)flops;
    }
  }
  return total;
}

void tn__te_least_work(const tn__te *te, double *flops, double *written) {
  *flops = needed_flops(te);
  *written = 0;
  for (int i = 0; i < tn__te_output_count(te); i++) {
    const tn__buffer *b = tn__te_output_at(te, i);
    double size = (double)tn_dtype_size(b->dtype);
    for (int d = 0; d < b->rank; d++) size *= (double)tn__ir_int_or(b->shape[d], 0);
    *written += size;
  }
}
