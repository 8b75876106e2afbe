#include "schedule/rules.h"

typedef struct rule {
  const char *name;
  bool (*matches)(const tn__te *te);
  void (*apply)(tn__schedule *s, const tn__schedule_options *options);
} rule;

static const rule rules[] = {
    {"contraction", tn__rule_contraction_matches, tn__rule_contraction_apply},
    {"map", tn__rule_map_matches, tn__rule_map_apply},
    {"rows", tn__rule_rows_matches, tn__rule_rows_apply},
    {"stages", tn__rule_stages_matches, tn__rule_stages_apply},
};

/* ---- what rules share ---------------------------------------------------------------------------------------------
 */

int64_t tn__loop_extent(const tn__schedule *s, const char *loop) {
  int64_t extent;
  return tn__as_int(tn__sched_loop(s, "loop_extent", loop)->var->extent, &extent) ? extent : -1;
}

static void add_cost(const tn__expr *e, void *user) {
  int64_t *cost = user;
  switch (e->kind) {
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT:
    case TN__EXPR_VAR:
    case TN__EXPR_CAST:
    case TN__EXPR_BITCAST: return;
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: *cost += 4; return;
    case TN__EXPR_CALL:
      switch (e->intrinsic) {
        case TN__CALL_ABS:
        case TN__CALL_NEG:
        case TN__CALL_FLOOR:
        case TN__CALL_CEIL:
        case TN__CALL_TRUNC:
        case TN__CALL_ROUND_EVEN:
        case TN__CALL_FMA:
        case TN__CALL_IS_NAN:
        case TN__CALL_IS_INF:
        case TN__CALL_POPCOUNT:
        case TN__CALL_CLZ:
        case TN__CALL_LIKELY: *cost += 1; return;
        case TN__CALL_SQRT:
        case TN__CALL_RSQRT: *cost += 8; return;
        default: *cost += 20; return;
      }
    default: *cost += 1; return;
  }
}

int64_t tn__rule_cost(tn__ir *ir, const tn__expr *value) {
  int64_t cost = 0;
  tn__te_visit(ir, value, add_cost, &cost);
  return cost;
}

bool tn__rule_is_large(const tn__te *te) {
  tn__ir *ir = tn__te_ir(te);
  double work = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_EXTERN) continue;
    double points = 1;
    for (int a = 0; a < stage->axes.count + stage->reduce_axes.count; a++) {
      const tn__var *var = a < stage->axes.count ? stage->axes.var[a] : stage->reduce_axes.var[a - stage->axes.count];
      int64_t extent;
      if (!tn__as_int(var->extent, &extent)) return true;
      points *= (double)extent;
    }
    int64_t cost = 1;
    for (int t = 0; t < stage->tensor_count; t++) cost += tn__rule_cost(ir, stage->values[t]);
    work += points * (double)cost;
  }
  return work > 400e3; /* at some 20 operations a nanosecond */
}

/* ---- choosing -----------------------------------------------------------------------------------------------------
 */

typedef struct attempt {
  const tn__te *te;
  const tn__target *target;
  const tn__schedule_options *options;
  const rule *rule;
  tn__schedule *result;
} attempt;

static void try_rule(tn__escape *escape, void *arg) {
  attempt *a = arg;
  tn__ir_arena(tn__te_ir(a->te))->escape = escape;
  tn__schedule *s = tn__schedule_of(a->te, a->target);
  a->rule->apply(s, a->options);
  tn__schedule_func(s);
  a->result = s;
}

tn__schedule *tn__schedule_default(const tn__te *te, const tn__target *target, const tn__schedule_options *options) {
  tn__schedule_options filled = {.threads = target->cores, .vector_bytes = target->vector_bytes};
  if (options != NULL && options->threads > 0) filled.threads = options->threads;
  if (options != NULL && options->vector_bytes > 0) filled.vector_bytes = options->vector_bytes;
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  tn__escape *outer = arena->escape;
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    if (!rules[i].matches(te)) continue;
    attempt a = {.te = te, .target = target, .options = &filled, .rule = &rules[i]};
    tn__escape escape;
    tn_status *status = tn__protect(&escape, try_rule, &a);
    arena->escape = outer;
    if (status == NULL) return a.result;
    /* A primitive refused what the rule wanted, which is no error of the declaration: the next rule may do. Anything
     * else is. */
    if (tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
    tn_status_free(status);
  }
  return tn__schedule_of(te, target);
}
