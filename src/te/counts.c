/* Sums of 64 bits whose terms are so small that 32 bits hold them all:
 *
 *   n = sum(i: 100000) select(X[i] > 0, 1, 0)     becomes     n' = sum(i: 100000) select(X[i] > 0, i32(1), i32(0))
 *                                                             n = i64(n')
 *
 * A vector has twice as many lanes for these, and what is compared need not be widened. Counts are written like that,
 * as numbers are of 64 bits where nothing says otherwise. */
#include "te/internal.h"

enum { LEAST_TERMS = 16, MOST_NODES = 64 };

static bool fits(tn__interval range) { return range.min >= INT32_MIN && range.max <= INT32_MAX; }

/* The expression in 32 bits, each part of which fits; NULL where something is of 64 bits by itself. */
static const tn__expr *narrower(tn__ir *ir, const tn__expr *e) {
  const tn__expr *a, *b;
  if (e->dtype != TN_I64 || !fits(tn__interval_of(ir, e))) return NULL;
  switch (e->kind) {
    case TN__EXPR_INT: return tn__ir_int(ir, TN_I32, e->value.i);
    case TN__EXPR_CAST: {
      tn_dtype from = e->args[0]->dtype;
      bool narrow = from == TN_BOOL || (tn__dtype_is_int(from) && tn__dtype_bits(from) <= 32);
      return narrow ? tn__ir_cast(ir, TN_I32, e->args[0]) : NULL;
    }
    case TN__EXPR_SELECT:
      a = narrower(ir, e->args[1]);
      b = a == NULL ? NULL : narrower(ir, e->args[2]);
      return b == NULL ? NULL : tn__ir_select(ir, e->args[0], a, b);
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
      a = narrower(ir, e->args[0]);
      b = a == NULL ? NULL : narrower(ir, e->args[1]);
      return b == NULL ? NULL : tn__ir_binary(ir, e->kind, a, b);
    default: return NULL;
  }
}

/* The stage's terms in 32 bits, where these hold all partial sums; NULL otherwise. */
static const tn__expr *terms_of(tn__ir *ir, const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || stage->hint != TN__TE_ANYWHERE) return NULL;
  if (!tn__te_is_sum(stage) || stage->values[0]->dtype != TN_I64) return NULL;
  if (tn__expr_size(stage->values[0]) > MOST_NODES) return NULL;
  tn__interval range = tn__interval_of(ir, stage->values[0]);
  int64_t terms = 1, extent;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    if (!tn__ir_as_int(stage->reduce_axes.var[r]->extent, &extent)) return NULL;
    terms = tn__ir_bound_mul(terms, extent);
  }
  tn__interval all = {tn__ir_bound_mul(range.min, terms), tn__ir_bound_mul(range.max, terms)};
  return terms >= LEAST_TERMS && fits(all) ? narrower(ir, stage->values[0]) : NULL;
}

static void use_count(tn__te *te, tn__te_stage *stage) {
  const tn__te_stage whole = *stage;
  const tn__expr *term = terms_of(te->ir, &whole);
  const tn__te_combiner *combiner = tn__te_combiner_of(te, TN__TE_SUM, TN_I32);
  const tn__expr *sum = tn__te_add_sum(te, &whole, &whole.reduce_axes, "count", combiner, term, NULL);
  stage->kind = TN__TE_COMPUTE;
  stage->values[0] = tn__ir_cast(te->ir, TN_I64, sum);
  stage->reduce_axes.count = 0;
  stage->combiner = NULL;
}

const tn__te *tn__te_counts(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  for (int s = 0; s < now->stages.count; s++) {
    if (terms_of(te->ir, now->stages.data[s]) == NULL) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    int before = copy->stages.count;
    use_count(copy, copy->stages.data[s]);
    int added = copy->stages.count - before;
    tn__te_move_before(copy, s, added);
    s += added;
  }
  return now;
}
