#include "schedule/rules.h"

#include <math.h>

static const tn__rule *const rules[] = {&tn__rule_contraction, &tn__rule_map, &tn__rule_rows, &tn__rule_stages};

int tn__rule_count(void) { return sizeof(rules) / sizeof(rules[0]); }
const tn__rule *tn__rule_at(int index) { return rules[index]; }

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

int tn__divisors(int64_t n, int64_t most, int64_t *out, int capacity) {
  int count = 0;
  for (int64_t d = 1; d <= n && d <= most && count < capacity; d++)
    if (n % d == 0) out[count++] = d;
  return count;
}

/* ---- features of a plain nest ---------------------------------------------------------------------------------------
 */

typedef struct plain {
  tn__nest nest;
  double cost;
  int element, vector; /* bytes of an element; the axis that vectors run along */
  bool large;
} plain;

static double points_of(const tn__te_stage *stage) {
  double points = 1;
  int64_t extent;
  for (int a = 0; a < stage->axes.count; a++)
    points *= tn__as_int(stage->axes.var[a]->extent, &extent) ? (double)extent : TN__OPEN_EXTENT;
  for (int a = 0; a < stage->reduce_axes.count; a++)
    points *= tn__as_int(stage->reduce_axes.var[a]->extent, &extent) ? (double)extent : TN__OPEN_EXTENT;
  return points;
}

void tn__plain_open(tn__sketch *k, tn__schedule *scratch) {
  const tn__te_stage *heaviest = NULL;
  plain *p = TN__NEW(scratch->arena, plain);
  k->data = p;
  p->large = tn__rule_is_large(k->te);
  for (int i = 0; i < tn__te_stage_count(k->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(k->te, i);
    if (stage->kind == TN__TE_EXTERN) continue;
    for (int t = 0; t < stage->tensor_count; t++)
      p->cost += points_of(stage) * (double)tn__rule_cost(scratch->ir, stage->values[t]);
    if (heaviest == NULL || points_of(stage) >= points_of(heaviest)) heaviest = stage;
  }
  if (heaviest == NULL) return;
  tn__nest_of_block(scratch, heaviest->name, &p->nest);
  p->cost /= points_of(heaviest);
  p->element = (int)tn_dtype_size(heaviest->tensors[0]->dtype);
  int most = 0;
  for (int x = 0; x < p->nest.axis_count; x++) { /* what is contiguous in most accesses */
    int contiguous = 0;
    for (int i = 0; i < p->nest.access_count; i++)
      contiguous += p->nest.access[i].along[x].stride == p->nest.access[i].element;
    if (contiguous < most || p->nest.extent[x] == 1) continue;
    most = contiguous;
    p->vector = x;
  }
}

const tn__nest *tn__plain_features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  const plain *p = k->data;
  f->chunks = p->large ? 4 * k->options.threads : 1;
  double points = 1;
  for (int a = 0; a < p->nest.axis_count; a++) {
    f->loops[f->loop_count++] = (tn__nest_loop){a, p->nest.extent[a], 1};
    points *= (double)p->nest.extent[a];
  }
  if (p->nest.axis_count == 0) return &p->nest;
  int last = p->vector;
  double lanes = p->element > 0 ? (double)k->options.vector_bytes / p->element : 1;
  double vectors = ceil((double)p->nest.extent[last] / lanes);
  tn__operations ops = {.vector_bytes = k->options.vector_bytes, .fma = p->cost, .other = 1};
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *a = &p->nest.access[i];
    int64_t stride = a->along[last].stride;
    if (a->store)
      ops.stores += 1;
    else if (stride == a->element)
      ops.loads += 1;
    else if (stride != 0 || a->scattered)
      ops.gathers += lanes;
  }
  double rows = points / (double)p->nest.extent[last];
  tn__cost_phase(f, k->target, &ops, rows * vectors);
  tn__cost_loop(f, rows, vectors);
  f->useful = points;
  f->spent = rows * vectors * lanes;
  return &p->nest;
}
