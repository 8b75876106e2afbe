/* What any schedule costs, as far as the cost function can tell from its loops: every block is a nest of its own, whose
 * innermost unrolled and vectorised loops are the code of a turn. By it the sizes are chosen that a written schedule
 * leaves open ("split C.i by ?"). It compares schedules of one kernel that differ in sizes, and predicts nothing. */
#include <math.h>

#include "schedule/sketch/cost.h"
#include "schedule/written/syntax.h"

typedef struct weighing {
  const tn__plan_unit *unit;
  tn__schedule *s;
  const tn__var **dims; /* that are open */
  const tn__expr **extents;
  int dim_count;
  double cycles;
} weighing;

/* One block among its loops. */
typedef struct turn {
  const weighing *w;
  const tn__snode *block;
  tn__snode *path[TN__MAX_LOOPS];
  int count, serial; /* the first `serial` loops count turns; those behind are the turn */
  tn__nest nest;
  int64_t lanes;
  int lane_axis;     /* or -1 */
  double operations; /* of one element */
  double vectors;    /* that `lanes` elements are */
} turn;

/* With every open dimension taken for TN__OPEN_EXTENT, as axes are. */
static int64_t trips_of(const weighing *w, const tn__snode *loop) {
  int64_t n;
  const tn__expr *extent = tn__ir_substitute(w->s->ir, loop->var->extent, w->dims, w->extents, w->dim_count);
  return tn__ir_as_int(extent, &n) ? (n > 1 ? n : 1) : TN__OPEN_EXTENT;
}

static bool is_written_out(const tn__snode *loop) {
  return loop->kind == TN__LOOP_UNROLLED || loop->kind == TN__LOOP_VECTORIZED;
}

/* The block's axis that the loop moves most of all, by `step`; -1: none. */
TN_MUST_USE static int axis_of(const turn *t, const tn__snode *loop, int64_t *step) {
  int found = -1;
  *step = 1;
  for (int a = 0; a < t->block->block.axis_count; a++) {
    int64_t own;
    const tn__expr *binding = t->block->block.axes[a].binding;
    if (!tn__expr_uses_var(binding, loop->var)) continue;
    if (tn__ir_stride_in(t->w->s->ir, binding, loop->var, &own) && own > 0) {
      *step = own;
      return a;
    }
    if (found < 0 || t->nest.extent[a] > t->nest.extent[found]) found = a; /* a fused one */
  }
  return found;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void count_operation(const tn__expr *e, void *user) {
  double *sum = user;
  switch (e->kind) {
    case TN__EXPR_ADD:
    case TN__EXPR_SUB: /* with a product it is one instruction */
      *sum += e->args[0]->kind == TN__EXPR_MUL || e->args[1]->kind == TN__EXPR_MUL ? 0 : 1;
      break;
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: *sum += TN__RULE_DIVISION_COST; break;
    case TN__EXPR_CALL: *sum += TN__RULE_FUNCTION_COST; break;
    default: *sum += e->arg_count > 0 && e->kind != TN__EXPR_LOAD; break;
  }
}

static void count_value(const tn__expr *e, void *user) {
  turn *t = user;
  if (e->dtype != TN_I64 || t->block->block.writes[0].buffer->dtype == TN_I64)
    tn__te_visit(t->w->s->ir, e, count_operation, &t->operations);
}

/* How many elements of the access a turn has, leaving lanes aside. */
static double elements_of(const turn *t, const tn__nest_access *a, bool all) {
  double n = 1;
  for (int i = t->serial; i < t->count; i++) {
    int64_t step;
    int axis = axis_of(t, t->path[i], &step);
    bool moves = axis >= 0 && (all || a->scattered || a->along[axis].stride != 0);
    if (moves && t->path[i]->kind != TN__LOOP_VECTORIZED) n *= (double)trips_of(t->w, t->path[i]);
  }
  return n;
}

static bool is_reduce_loop(const turn *t, const tn__snode *loop) {
  return tn__sched_drives(loop, t->block, TN__AXIS_REDUCE);
}

/* Results that a turn adds to, in vectors. */
static double results_of(const turn *t) {
  double n = t->vectors;
  for (int i = t->serial; i < t->count; i++)
    if (t->path[i]->kind != TN__LOOP_VECTORIZED && !is_reduce_loop(t, t->path[i]))
      n *= (double)trips_of(t->w, t->path[i]);
  return n;
}

static tn__operations operations_of(turn *t, bool reduces) {
  const tn__schedule_options *o = &t->w->unit->options;
  const tn__buffer *result = t->block->block.writes[0].buffer;
  int64_t size = (int64_t)tn_dtype_size(result->dtype), bytes = t->lanes * size;
  t->vectors = bytes > o->vector_bytes ? ceil((double)bytes / o->vector_bytes) : 1;
  tn__operations ops = {.vector_bytes = (int)(bytes > o->vector_bytes ? o->vector_bytes : bytes),
                        .other = TN__RULE_TURN};
  tn__stmt_walk_exprs(t->block->block.body, count_value, t);
  ops.fma = (t->operations > 0 ? t->operations : 0.1) * t->vectors *
            elements_of(t, &(tn__nest_access){.scattered = true}, true);
  for (int i = 0; i < t->nest.access_count; i++) {
    const tn__nest_access *a = &t->nest.access[i];
    int64_t stride = t->lane_axis < 0 ? 0 : a->along[t->lane_axis].stride;
    double n = elements_of(t, a, false);
    if (reduces && a->store) continue;
    if (t->lanes > 1 && (a->scattered || (stride != 0 && stride != a->element)))
      ops.gathers += n * (double)t->lanes;
    else if (a->store)
      ops.stores += n * (stride != 0 ? t->vectors : 1);
    else
      ops.loads += n * (stride != 0 ? t->vectors : 1);
  }
  bool kept = !reduces || result->scope == TN__SCOPE_REGISTER || result->scope == TN__SCOPE_STACK;
  /* Where a sum goes on, its results stay; else what a turn has read is at hand beside what it makes. */
  double results = results_of(t), spilled = (reduces ? results + 3 : 2 * results) - o->registers;
  double moved = !kept ? results : spilled > 0 ? 2 * spilled : 0;
  ops.loads += moved;
  ops.stores += moved;
  if (!reduces) return ops;
  ops.chain = t->w->unit->target->cpu.machine.core.fma_latency;
  for (int i = t->serial; i < t->count; i++)
    if (is_reduce_loop(t, t->path[i])) ops.chain *= (double)trips_of(t->w, t->path[i]);
  return ops;
}

/* ---- the nest ---------------------------------------------------------------------------------------------------- */

static void weigh_block(tn__snode *block, void *user) {
  weighing *w = user;
  turn t = {.w = w, .block = block, .lanes = 1, .lane_axis = -1};
  tn__sketch_features f = {.chunks = 1};
  int64_t step;
  if (block->block.write_count == 0 || block->block.axis_count > TN__NEST_AXES) return;
  tn__nest_of_block(w->s, block->name, &t.nest);
  t.count = t.serial = tn__sched_path(w->s, w->s->root, block, t.path);
  while (t.serial > 0 && is_written_out(t.path[t.serial - 1])) t.serial--;
  for (int i = 0; i < t.count; i++) {
    int axis = axis_of(&t, t.path[i], &step);
    if (t.path[i]->kind == TN__LOOP_VECTORIZED) {
      t.lanes = trips_of(w, t.path[i]);
      t.lane_axis = axis;
    }
    if (axis >= 0 && f.loop_count < TN__NEST_LOOPS)
      f.loops[f.loop_count++] = (tn__nest_loop){axis, trips_of(w, t.path[i]), step};
  }
  bool reduces = block->combiner != NULL, last = t.serial > 0 && is_reduce_loop(&t, t.path[t.serial - 1]);
  tn__operations ops = operations_of(&t, reduces);
  if (!last && t.serial == t.count) ops.chain = 0;
  double turns = 1;
  for (int i = 0; i < t.serial; i++) {
    double trips = (double)trips_of(w, t.path[i]);
    tn__cost_loop(&f, w->unit->target, turns, trips);
    if (t.path[i]->kind == TN__LOOP_PARALLEL && f.chunks == 1) f.chunks = (int64_t)fmin(turns * trips, INT32_MAX);
    turns *= trips;
  }
  tn__cost_phase(&f, w->unit->target, &ops, turns);
  w->cycles += tn__cost_of(w->unit->target, &w->unit->options, &t.nest, &f, NULL);
}

double tn__written_weigh(const tn__plan_unit *unit, tn__schedule *s) {
  weighing w = {.unit = unit, .s = s};
  if (tn__target_is_gpu(unit->target)) return 0;
  w.dim_count = tn__te_dim_count(unit->te);
  w.dims = TN__NEW_ARRAY(s->arena, w.dim_count, const tn__var *);
  w.extents = TN__NEW_ARRAY(s->arena, w.dim_count, const tn__expr *);
  for (int i = 0; i < w.dim_count; i++) {
    w.dims[i] = tn__te_dim_at(unit->te, i);
    w.extents[i] = tn__ir_index(s->ir, TN__OPEN_EXTENT);
  }
  tn__sched_each_block(s->root, weigh_block, &w);
  return w.cycles;
}
