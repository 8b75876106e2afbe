#include <string.h>

#include "te/internal.h"

typedef struct visit {
  void (*fn)(const tn__expr *e, void *user);
  void *user;
  const tn__expr **seen; /* open addressing by the structural hash */
  size_t capacity, count;
  tn__arena *arena;
} visit;

static bool seen_before(visit *v, const tn__expr *e) {
  if (v->count * 2 >= v->capacity) {
    size_t capacity = v->capacity == 0 ? 64 : v->capacity * 2;
    const tn__expr **seen = TN__NEW_ARRAY(v->arena, capacity, const tn__expr *);
    for (size_t i = 0; i < v->capacity; i++) {
      if (v->seen[i] == NULL) continue;
      size_t at = v->seen[i]->hash & (capacity - 1);
      while (seen[at] != NULL) at = (at + 1) & (capacity - 1);
      seen[at] = v->seen[i];
    }
    v->seen = seen;
    v->capacity = capacity;
  }
  size_t at = e->hash & (v->capacity - 1);
  while (v->seen[at] != NULL) {
    if (v->seen[at] == e) return true;
    at = (at + 1) & (v->capacity - 1);
  }
  v->seen[at] = e;
  v->count++;
  return false;
}

static void visit_expr(visit *v, const tn__expr *e) {
  if (seen_before(v, e)) return;
  for (int i = 0; i < e->arg_count; i++) visit_expr(v, e->args[i]);
  v->fn(e, v->user);
}

void tn__te_visit(tn__ir *ir, const tn__expr *e, void (*fn)(const tn__expr *e, void *user), void *user) {
  visit v = {.fn = fn, .user = user, .arena = tn__ir_arena(ir)};
  visit_expr(&v, e);
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
  return e->kind == TN__EXPR_SELECT && tn__dtype_is_float(e->dtype) && e->args[0]->kind == TN__EXPR_EQ &&
         e->args[0]->args[0]->dtype == TN_I64;
}

/* What `e` adds to what was seen before. Of a choice the greater side counts. */
static int64_t count_flops(visit *v, const tn__expr *e) {
  if (seen_before(v, e)) return 0;
  int64_t flops = own_flops(e);
  if (!is_choice(e)) {
    for (int i = 0; i < e->arg_count; i++) flops += count_flops(v, e->args[i]);
    return flops;
  }
  flops += count_flops(v, e->args[0]);
  visit other = *v;
  if (v->capacity > 0) other.seen = tn__arena_copy(v->arena, v->seen, v->capacity * sizeof(*v->seen));
  int64_t left = count_flops(v, e->args[1]), right = count_flops(&other, e->args[2]);
  if (right > left) *v = other;
  return flops + (left > right ? left : right);
}

static const tn__expr *volume(tn__ir *ir, const tn__te_axes *axes) {
  const tn__expr *size = tn__index(ir, 1);
  for (int i = 0; i < axes->count; i++) size = tn__mul(ir, size, axes->var[i]->extent);
  return size;
}

const tn__expr *tn__te_flops(const tn__te *te) {
  tn__ir *ir = te->ir;
  const tn__expr *total = tn__index(ir, 0);
  for (int s = 0; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    if (stage->kind == TN__TE_EXTERN) continue;
    int64_t flops = 0;
    for (int t = 0; t < stage->tensor_count; t++) {
      visit value = {.arena = tn__ir_arena(ir)}, result = {.arena = tn__ir_arena(ir)};
      flops += count_flops(&value, stage->values[t]);
      if (stage->kind == TN__TE_REDUCE) flops += count_flops(&result, stage->combiner->result[t]);
    }
    const tn__expr *size = tn__mul(ir, volume(ir, &stage->axes), volume(ir, &stage->reduce_axes));
    total = tn__add(ir, total, tn__mul_i(ir, size, flops));
  }
  return total;
}
