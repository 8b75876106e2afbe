/* The nest of one element-wise block: what is contiguous for all of its accesses becomes one loop, the innermost one
 * runs in vectors. */
#include "base/numbers.h"
#include "schedule/rules/rules.h"

typedef struct accesses {
  tn__ir *ir;
  tn__arena *arena;
  TN__VEC(const tn__expr *) flat; /* position of each access in memory; what conditions and casts make of axes */
  int64_t widest;                 /* bytes of the widest element computed with or moved */
  int64_t cost;
  TN__VEC(const tn__expr *)
  looked_up; /* data that say where elements of 1 or 2 bytes are: no instruction gathers them */
} accesses;

static void add_access(accesses *a, const tn__buffer *buffer, const tn__expr *const *indices) {
  tn__vec_push(a->arena, &a->flat, tn__buffer_flatten(a->ir, buffer, indices));
}

/* Does it make something else of a position: a condition, a number? One loop over what were two axes would have to take
 * the position apart again, in each lane. */
static bool reads_position(const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_EQ:
    case TN__EXPR_NE:
    case TN__EXPR_LT:
    case TN__EXPR_LE:
    case TN__EXPR_CAST: return e->args[0]->dtype == TN_I64;
    default: return false;
  }
}

static void see_node(const tn__expr *e, void *user) {
  accesses *a = user;
  if (e->kind == TN__EXPR_LOAD) {
    for (int d = 0; d < e->arg_count; d++)
      if (tn__expr_has_load(e->args[d]) && tn_dtype_size(e->dtype) < 4)
        tn__vec_push(a->arena, &a->looked_up, e->args[d]);
    add_access(a, e->value.buffer, e->args);
  }
  if (reads_position(e)) {
    for (int i = 0; i < e->arg_count; i++) tn__vec_push(a->arena, &a->flat, e->args[i]);
  }
  /* Index arithmetic is i64 whatever is computed: only values count. */
  int64_t bytes = (int64_t)tn_dtype_size(e->dtype);
  if (e->dtype != TN_I64 && bytes > a->widest) a->widest = bytes;
}

static void see_value(accesses *a, const tn__expr *value) {
  tn__te_visit(a->ir, value, see_node, a);
  a->cost += tn__rule_cost(a->ir, value);
}

static bool see_statement(const tn__stmt *body, void *user) {
  accesses *a = user;
  if (body->kind == TN__STMT_LET) see_value(a, body->as.let.value);
  if (body->kind != TN__STMT_STORE) return true;
  add_access(a, body->as.store.buffer, body->as.store.indices);
  int64_t bytes = (int64_t)tn_dtype_size(body->as.store.buffer->dtype);
  if (bytes > a->widest) a->widest = bytes;
  see_value(a, body->as.store.value);
  return true;
}

static void collect(accesses *a, const tn__block *block) { tn__stmt_walk(block->body, see_statement, a); }

/* Is walking the inner loop to its end and then one step of the outer the same as one long walk, for every access? */
static bool is_contiguous(const tn__schedule *s, const accesses *a, const tn__snode *block, const tn__snode *outer,
                          const tn__snode *inner) {
  int64_t extent, outer_stride, inner_stride;
  if (!tn__ir_as_int(inner->var->extent, &extent)) return false;
  for (int i = 0; i < a->flat.count; i++) {
    const tn__expr *flat = tn__sched_substitute_axes(s->ir, &block->block, a->flat.data[i]);
    bool moves = tn__expr_uses_var(flat, outer->var) || tn__expr_uses_var(flat, inner->var);
    if (!moves) continue;
    if (!tn__ir_stride_in(s->ir, flat, outer->var, &outer_stride) ||
        !tn__ir_stride_in(s->ir, flat, inner->var, &inner_stride) || outer_stride != inner_stride * extent)
      return false;
  }
  return true;
}

bool tn__rule_is_one_walk(const tn__schedule *s, const tn__snode *block, const tn__snode *outer,
                          const tn__snode *inner) {
  accesses a = {.ir = s->ir, .arena = s->arena, .widest = 1};
  if (block->block.body->kind != TN__STMT_STORE) return false;
  collect(&a, &block->block);
  return is_contiguous(s, &a, block, outer, inner);
}

static const char *loop_named(const tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

int tn__rule_fuse(tn__schedule *s, const tn__snode *block, tn__snode **path) {
  int count = tn__sched_path(s, s->root, block, path);
  accesses a = {.ir = s->ir, .arena = s->arena, .widest = 1};
  collect(&a, &block->block);
  for (int i = count - 2; i >= 0; i--) {
    if (!is_contiguous(s, &a, block, path[i], path[i + 1])) continue;
    tn__sched_fuse(s, path[i]->name, path[i + 1]->name);
    count = tn__sched_path(s, s->root, block, path);
  }
  return count;
}

/* What is looked up one by one had better be stored one by one, too, when there is little else to do. */
static bool is_lookup(const tn__schedule *s, const accesses *a, const tn__snode *block, const tn__snode *loop) {
  int64_t count = 0;
  for (int i = 0; i < a->looked_up.count; i++)
    count += tn__expr_uses_var(tn__sched_substitute_axes(s->ir, &block->block, a->looked_up.data[i]), loop->var);
  return a->cost <= TN__RULE_LOOKED_UP * count;
}

static void unroll_lookups(tn__schedule *s, const char *loop) {
  enum { IN_A_TURN = 8 };
  int64_t extent = tn__rule_loop_extent(s, loop);
  if (extent >= 0 && extent < IN_A_TURN) return;
  tn__sched_split(s, loop, (const int64_t[]){0, IN_A_TURN}, 2);
  tn__sched_unroll(s, loop_named(s, loop, 1));
}

/* Splits off a vector, and several of them when the work on one is small (unroll 0), or `unroll` of them. */
static void vectorize_innermost(tn__schedule *s, const char *loop, int64_t lanes, int64_t cost, int64_t unroll) {
  int64_t extent = tn__rule_loop_extent(s, loop);
  if (unroll == 0) unroll = cost <= TN__RULE_UNROLL_FOUR ? 4 : cost <= TN__RULE_UNROLL_TWO ? 2 : 1;
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  while (unroll > 1 && (extent < 0 || extent % (unroll * lanes) != 0)) unroll /= 2;
  const int64_t vectors = (extent + lanes - 1) / lanes;
  if (extent > 0 && vectors <= TN__RULE_SHORT_WALK && (double)(vectors * (cost + 1)) <= TN__RULE_LOOK_AHEAD)
    unroll = vectors;
  if (extent == lanes) {
    tn__sched_vectorize(s, loop);
  } else if (unroll > 1) {
    tn__sched_split(s, loop, (const int64_t[]){0, unroll, lanes}, 3);
    tn__sched_unroll(s, loop_named(s, loop, 1));
    tn__sched_vectorize(s, loop_named(s, loop, 2));
  } else {
    tn__sched_split(s, loop, (const int64_t[]){0, lanes}, 2);
    tn__sched_vectorize(s, loop_named(s, loop, 1));
  }
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* After how many steps of a loop the remainders of all quotients start again. */
typedef struct periods {
  const tn__schedule *s;
  const tn__block *block;
  const tn__var *loop;
  int64_t common; /* a multiple of all; 0: too many steps */
  int64_t few;    /* a multiple of those of a few steps */
  int64_t cost;   /* of one position */
  bool aligned;   /* they start again at multiples of it */
} periods;

enum { MOST_PHASES = 8, LONGEST_PERIOD = 1 << 16 };

static void see_period(const tn__expr *e, void *user) {
  periods *p = user;
  tn__ir *ir = p->s->ir;
  int64_t divisor, stride, start;
  if ((e->kind != TN__EXPR_DIV && e->kind != TN__EXPR_MOD) || e->dtype != TN_I64) return;
  if (!tn__ir_as_int(e->args[1], &divisor) || divisor < 2) return;
  const tn__expr *dividend = tn__sched_substitute_axes(ir, p->block, e->args[0]);
  if (!tn__expr_uses_var(dividend, p->loop)) return;
  if (!tn__ir_stride_in(ir, dividend, p->loop, &stride)) {
    p->common = 0;
    return;
  }
  int64_t period = divisor / tn__common_divisor(divisor, stride);
  if (period <= MOST_PHASES) p->few = p->few / tn__common_divisor(p->few, period) * period;
  if (p->common == 0 || period > LONGEST_PERIOD) {
    p->common = 0;
    return;
  }
  if (p->common > 1 && p->common != period) p->aligned = false;
  p->common = p->common / tn__common_divisor(p->common, period) * period;
  if (p->common > LONGEST_PERIOD) p->common = 0;
  const tn__expr *zero = tn__ir_index(ir, 0);
  const tn__expr *rest = tn__ir_substitute(ir, dividend, &p->loop, &zero, 1);
  p->aligned &= stride == 1 && tn__ir_as_int(rest, &start) && start % divisor == 0;
}

/* Of the loop, in all that the block reads. */
static periods periods_of(const tn__schedule *s, const tn__snode *block, const tn__snode *loop) {
  periods p = {.s = s, .block = &block->block, .loop = loop->var, .common = 1, .few = 1, .aligned = true};
  if (block->block.body->kind != TN__STMT_STORE) return p;
  const tn__expr *value = block->block.body->as.store.value;
  tn__te_visit(s->ir, value, see_period, &p);
  /* The quotient of a longer period, as the scale of a block of weights has, is one load more. */
  if (p.common > MOST_PHASES && p.few > 1 && !p.aligned) p.common = p.few;
  p.cost = tn__rule_cost(s->ir, value);
  return p;
}

static bool has_phases(const periods *p) {
  return p->common >= 2 && p->common <= MOST_PHASES && p->cost * p->common <= TN__RULE_MOST_IN_PHASES;
}

/* Vectors of positions that lie a period apart: what depends on the remainder is the same for all lanes, so conditions
 * fold and neighbours stay neighbours, and what the phases make is woven on its way to memory. */
static bool split_phases(tn__schedule *s, const char *loop, int64_t lanes, const periods *p) {
  int64_t extent = tn__rule_loop_extent(s, loop);
  if (!has_phases(p)) return false;
  while (extent >= 0 && lanes * p->common > extent) lanes /= 2;
  if (lanes < 2) return false;
  tn__sched_split(s, loop, (const int64_t[]){0, lanes, p->common}, 3);
  const char *vector = loop_named(s, loop, 1), *phase = loop_named(s, loop, 2);
  tn__sched_reorder(s, (const char *const[]){phase, vector}, 2);
  tn__sched_unroll(s, phase);
  tn__sched_vectorize(s, vector);
  return true;
}

bool tn__rule_vectorize_phases(tn__schedule *s, const char *block_name, int64_t lanes) {
  tn__snode *block = tn__sched_find(s, block_name, true), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path);
  if (count == 0) return false;
  const periods p = periods_of(s, block, path[count - 1]);
  return split_phases(s, path[count - 1]->name, lanes, &p);
}

/* Where quotients stay the same for a vector and more, a loop of its own for each of these stretches. */
static const char *split_stretches(tn__schedule *s, const char *loop, int64_t lanes, const periods *p) {
  int64_t extent = tn__rule_loop_extent(s, loop);
  if (p->common <= MOST_PHASES || !p->aligned || 2 * p->common < lanes || 2 * p->common > extent) return loop;
  tn__sched_split(s, loop, (const int64_t[]){0, p->common}, 2);
  return loop_named(s, loop, 1);
}

/* A divisor of `extent` near `wanted` pieces; 0 when there is none worth having. */
static int64_t pieces_of(int64_t extent, int64_t wanted) {
  for (int64_t p = wanted; p <= 8 * wanted && p < extent; p++)
    if (extent % p == 0) return p;
  return 0;
}

/* Are threads worth waking, also for this nest? Not for the few elements of a small map, whatever else there is to do.
 */
static bool shares(tn__schedule *s, tn__snode *const *path, int count, const tn__schedule_options *options) {
  double points = 1;
  for (int i = 0; i < count; i++) {
    int64_t extent = tn__rule_loop_extent(s, path[i]->name);
    points *= extent < 0 ? TN__RULE_FEW_POINTS : (double)extent;
  }
  return points >= TN__RULE_FEW_POINTS && tn__rule_shares(s, options);
}

/* The outermost loop is for threads. */
static void share_outermost(tn__schedule *s, const tn__snode *block) {
  tn__snode *path[TN__MAX_LOOPS];
  if (tn__sched_path(s, s->root, block, path) == 0) return;
  if (path[0]->kind == TN__LOOP_SERIAL && !tn__ir_is_int_value(path[0]->var->extent, 1))
    tn__sched_parallel(s, path[0]->name);
}

/* `vector_bytes`: of vectors along what is contiguous, where that is not in groups. */
void tn__rule_nest_in(tn__schedule *s, const char *block_name, const tn__schedule_options *options,
                      int64_t vector_bytes, int64_t unroll) {
  tn__snode *block = tn__sched_block(s, "nest", block_name), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path);
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_SPATIAL) return;
  if (count == 0) return;
  accesses a = {.ir = s->ir, .arena = s->arena, .widest = 1};
  collect(&a, &block->block);
  count = tn__rule_fuse(s, block, path);
  bool parallel = shares(s, path, count, options);
  int64_t lanes = vector_bytes / a.widest, extent = tn__rule_loop_extent(s, path[count - 1]->name);
  const char *inner = path[count - 1]->name;
  if (tn__rule_vectorize_groups(s, block_name, options->vector_bytes / a.widest)) {
    if (parallel) share_outermost(s, block);
    return;
  }
  const periods p = periods_of(s, block, path[count - 1]);
  if (parallel && count == 1 && extent > 0) { /* one long loop: pieces for the threads, vectors inside */
    int64_t pieces = extent % lanes == 0 ? pieces_of(extent / lanes, 4 * options->threads) : 0;
    if (pieces > 0 && !has_phases(&p)) {
      tn__sched_split(s, inner, (const int64_t[]){pieces, 0}, 2);
      tn__sched_parallel(s, loop_named(s, inner, 0));
      vectorize_innermost(s, loop_named(s, inner, 1), lanes, a.cost, unroll);
      return;
    }
    if (!split_phases(s, inner, lanes, &p)) vectorize_innermost(s, inner, lanes, a.cost, unroll);
    share_outermost(s, block);
    return;
  }
  /* Few iterations outside: share out two levels. */
  while (parallel && count > 2 && tn__rule_loop_extent(s, path[0]->name) >= 0 &&
         tn__rule_loop_extent(s, path[0]->name) < 4 * options->threads) {
    tn__sched_fuse(s, path[0]->name, path[1]->name);
    count = tn__sched_path(s, s->root, block, path);
  }
  inner = path[count - 1]->name;
  if (!split_phases(s, inner, lanes, &p)) {
    bool lookup = a.looked_up.count > 0 && is_lookup(s, &a, block, path[count - 1]);
    inner = split_stretches(s, inner, lanes, &p);
    if (lookup)
      unroll_lookups(s, inner);
    else
      vectorize_innermost(s, inner, lanes, a.cost, unroll);
  }
  if (parallel) share_outermost(s, block);
}

/* How often a part is computed: once for each position of the axes that it does not depend on. */
static double times_computed(const tn__snode *block, const tn__expr *part, int *axes) {
  double times = 1;
  *axes = 0;
  for (int a = 0; a < block->block.axis_count; a++) {
    const tn__var *axis = block->block.axes[a].var;
    if (tn__expr_uses_var(part, axis))
      ++*axes;
    else
      times *= tn__ir_extent_estimate(axis->extent);
  }
  return times;
}

void tn__rule_hoist_parts(tn__schedule *s, const char *name, const tn__schedule_options *options) {
  const tn__snode *block = tn__sched_find(s, name, true);
  if (block->block.predicate != tn__ir_bool(s->ir, true)) return;
  for (int index = 0;;) {
    const tn__expr *part = tn__sched_hoistable(block, index);
    int axes = 0;
    if (part == NULL) return;
    bool costs = tn__dtype_is_float(part->dtype) && tn__rule_cost(s->ir, part) >= TN__RULE_ROOT_COST;
    if (costs && times_computed(block, part, &axes) >= TN__RULE_HOISTED_FROM && axes > 0)
      tn__rule_nest(s, tn__sched_hoist(s, name, index, axes - 1), options);
    else
      index++;
  }
}

void tn__rule_nest(tn__schedule *s, const char *block_name, const tn__schedule_options *options) {
  tn__rule_nest_in(s, block_name, options, options->vector_bytes, 0);
}
