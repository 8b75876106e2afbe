#include "schedule/internal.h"

typedef struct divisor {
  const tn__var *var;
  int64_t value;
} divisor;

static void find_divisor(const tn__expr *e, void *user) {
  divisor *d = user;
  if ((e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && e->args[0] == d->var->self)
    d->value = tn__ir_int_or(e->args[1], d->value);
}

int64_t tn__sched_divisor_of(tn__ir *ir, const tn__expr *e, const tn__var *var) {
  divisor d = {.var = var};
  tn__te_visit(ir, e, find_divisor, &d);
  return d.value;
}

/* Variables that indices depend on: those of loops, and one for each remainder that moves with them. */
typedef struct moving {
  const tn__var *var[2 * TN__MAX_LOOPS];
  int count, loops;
} moving;

static const tn__expr *remainder_as_var(tn__ir *ir, const tn__expr *e, void *user) {
  moving *m = user;
  bool moves = false;
  if (e->kind != TN__EXPR_MOD || e->dtype != TN_I64 || !tn__ir_is_int(e->args[1]) || e->args[1]->value.i <= 0 ||
      m->count == 2 * TN__MAX_LOOPS)
    return NULL;
  for (int i = 0; i < m->loops; i++) moves |= tn__expr_uses_var(e->args[0], m->var[i]);
  if (!moves) return NULL;
  m->var[m->count] = tn__var_create(ir, "remainder", TN_I64, tn__ir_index(ir, 0), e->args[1]);
  return m->var[m->count++]->self;
}

/* Bounds of one dimension; *extent is NULL when they are not known. A remainder may be anything, whatever else the
 * index has of the same variables: what is covered may be a little more than what is read. */
static void hull_of(tn__schedule *s, const tn__expr *first, const tn__expr *size, const tn__var *const *vars, int count,
                    const tn__expr **min, const tn__expr **extent) {
  tn__ir *ir = s->ir;
  moving m = {.count = count, .loops = count};
  for (int i = 0; i < count; i++) m.var[i] = vars[i];
  const tn__expr *last = tn__ir_add_i(ir, tn__ir_add(ir, first, size), -1), *low, *unused, *high;
  *min = first;
  *extent = NULL;
  if (count > 0) {
    first = tn__expr_rewrite(ir, first, remainder_as_var, &m);
    last = tn__expr_rewrite(ir, last, remainder_as_var, &m);
  }
  if (!tn__ir_bounds_over(ir, first, m.var, m.count, &low, &unused) ||
      !tn__ir_bounds_over(ir, last, m.var, m.count, &unused, &high))
    return;
  *min = low;
  *extent = tn__ir_add_i(ir, tn__ir_sub(ir, high, low), 1);
}

void tn__sched_hull(tn__schedule *s, const tn__snode *block, const tn__region *region, tn__snode *const *inner,
                    int count, const tn__expr **min, const tn__expr **extent) {
  const tn__var *vars[TN__MAX_LOOPS];
  for (int i = 0; i < count; i++) vars[i] = inner[i]->var;
  for (int d = 0; d < region->buffer->rank; d++) {
    const tn__expr *first = tn__sched_substitute_axes(s->ir, &block->block, region->min[d]);
    const tn__expr *size = tn__sched_substitute_axes(s->ir, &block->block, region->extent[d]);
    hull_of(s, first, size, vars, count, &min[d], &extent[d]);
  }
}

void tn__sched_hull_union(tn__ir *ir, int rank, const tn__expr **min, const tn__expr **extent,
                          const tn__expr *const *other_min, const tn__expr *const *other_extent, bool inside) {
  for (int d = 0; d < rank; d++) {
    if (extent[d] == NULL) continue;
    int64_t offset, a, b;
    if (min[d] == other_min[d] && extent[d] == other_extent[d]) continue;
    if (other_extent[d] == NULL || !tn__ir_as_int(tn__ir_sub(ir, other_min[d], min[d]), &offset) ||
        !tn__ir_as_int(extent[d], &a) || !tn__ir_as_int(other_extent[d], &b)) {
      if (!inside) extent[d] = NULL;
      continue;
    }
    int64_t begin = offset < 0 ? offset : 0, end = offset + b > a ? offset + b : a;
    min[d] = tn__ir_add_i(ir, min[d], begin);
    extent[d] = tn__ir_index(ir, end - begin);
  }
}

bool tn__sched_prefetch_start(tn__schedule *s, const tn__snode *loop, const tn__sched_prefetch *p,
                              const tn__expr **first, const tn__expr **extent) {
  const tn__expr *mins[TN__MAX_RANK] = {NULL}, *extents[TN__MAX_RANK];
  const tn__block *block = &p->block->block;
  tn__snode *inner[TN__MAX_LOOPS];
  if (!tn__sched_is_under(p->block, loop)) return false;
  const tn__region *region = NULL;
  for (int r = 0; r < block->read_count; r++)
    if (block->reads[r].buffer == p->buffer) region = &block->reads[r];
  if (region == NULL) return false;
  int count = tn__sched_path(s, loop, p->block, inner);
  const tn__snode *ahead = p->ahead == NULL ? loop : p->ahead;
  if (!tn__sched_is_under(loop, ahead)) return false;
  const tn__expr *later = tn__ir_add_i(s->ir, ahead->var->self, p->distance);
  tn__sched_hull(s, p->block, region, inner, count, first == NULL ? mins : first, extent == NULL ? extents : extent);
  for (int d = 0; d < p->buffer->rank; d++) {
    const tn__expr **min = first == NULL ? mins : first;
    for (int i = 0; i < count; i++)
      if (tn__expr_uses_var(min[d], inner[i]->var)) return false;
    min[d] = tn__ir_substitute(s->ir, min[d], &ahead->var, &later, 1);
  }
  return true;
}
