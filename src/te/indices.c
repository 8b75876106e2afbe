/* Accesses that nothing shows to be inside of their tensor: those whose index depends on data, and those under a
 * condition that says too little. They are moved to the nearest element, as the language says, so that no declaration
 * reads outside of its tensors whatever the data are. Indices that are shown to be inside stay as they are; so do those
 * that stand under no condition and depend on dimensions alone, which conditions.c checks for each call. */
#include "base/hash.h"
#include "te/internal.h"

enum { MOST_CONTEXTS = 1 << 12, MOST_STEPS = 1 << 16, LARGEST_BITS = 48, DEEPEST = 20 };

/* ---- what was rewritten, by address (looked up, never listed) ---------------------------------------------------- */

typedef struct table {
  const tn__expr **keys, **values;
  uint32_t size, used;
} table;

static uint32_t slot_of(const table *t, const tn__expr *key) {
  uint32_t slot = (uint32_t)tn__hash_mix(0, (uint64_t)(uintptr_t)key) & (t->size - 1);
  while (t->keys[slot] != NULL && t->keys[slot] != key) slot = (slot + 1) & (t->size - 1);
  return slot;
}

static const tn__expr *table_get(const table *t, const tn__expr *key) {
  return t->size == 0 ? NULL : t->values[slot_of(t, key)];
}

static void table_put(table *t, tn__arena *arena, const tn__expr *key, const tn__expr *value) {
  if (2 * (t->used + 1) > t->size) {
    table old = *t;
    t->size = old.size == 0 ? 16 : 2 * old.size;
    t->keys = TN__NEW_ARRAY(arena, t->size, const tn__expr *);
    t->values = TN__NEW_ARRAY(arena, t->size, const tn__expr *);
    for (uint32_t i = 0; i < old.size; i++) {
      if (old.keys[i] == NULL) continue;
      uint32_t slot = slot_of(t, old.keys[i]);
      t->keys[slot] = old.keys[i];
      t->values[slot] = old.values[i];
    }
  }
  uint32_t slot = slot_of(t, key);
  t->used += t->keys[slot] == NULL;
  t->keys[slot] = key;
  t->values[slot] = value;
}

/* ---- what holds where -------------------------------------------------------------------------------------------- */

/* What is known to be true where an expression is evaluated: comparisons around it. */
typedef struct fact {
  const struct fact *outer;
  const tn__expr *condition;
} fact;

typedef struct context {
  const fact *facts;
  bool guarded; /* stands under a condition, whatever it says */
  table done;
} context;

typedef struct securing {
  const tn__te *te;
  tn__ir *ir;
  tn__te_refuse *refuse; /* or NULL */
  void *user;
  int index; /* of the stage */
  const tn__te_stage *stage;
  TN__VEC(const tn__var *) axes;
  const tn__te_stage *scan;
  tn__te_positions positions; /* within a scan */
  context *root, *doubt;      /* under no condition; under too many of them */
  bool moved;                 /* an index was */
  bool strict;                /* what dimensions decide is not shown: nobody will check it */
  table inside;               /* expressions all of whose accesses are shown to be inside, without any condition */
  int contexts, steps;
} securing;

static context *new_context(securing *c, const fact *facts, bool guarded) {
  context *k = TN__NEW(c->te->arena, context);
  k->facts = facts;
  k->guarded = guarded;
  c->contexts++;
  return k;
}

static const tn__expr *at_position(const securing *c, const tn__expr *e) { return tn__te_at(c->ir, e, &c->positions); }

/* The facts with those comparisons of 64-bit numbers that `condition`, or its opposite, is made of. */
static const fact *with(securing *c, const fact *outer, const tn__expr *condition, bool opposite) {
  bool both = condition->kind == (opposite ? TN__EXPR_OR : TN__EXPR_AND) && condition->dtype == TN_BOOL;
  if (++c->steps > MOST_STEPS) return outer; /* knowing less is right, too */
  if (condition->kind == TN__EXPR_NOT) return with(c, outer, condition->args[0], !opposite);
  if (both) return with(c, with(c, outer, condition->args[0], opposite), condition->args[1], opposite);
  if ((condition->kind != TN__EXPR_LT && condition->kind != TN__EXPR_LE) || condition->args[0]->dtype != TN_I64)
    return outer;
  fact *more = TN__NEW(c->te->arena, fact);
  *more = (fact){.outer = outer, .condition = at_position(c, opposite ? tn__ir_not(c->ir, condition) : condition)};
  return more;
}

static double largest_of(const tn__expr *const *args, int count, bool sum) {
  double all = 0;
  for (int i = 0; i < count; i++) {
    double one = tn__te_largest(args[i]);
    all = sum ? all + one : one > all ? one : all;
  }
  return all;
}

double tn__te_largest(const tn__expr *e) {
  if (tn__expr_depth(e) > DEEPEST) return 1e30; /* parts that are shared are looked at each time */
  switch (e->kind) {
    case TN__EXPR_INT: return e->value.i < 0 ? -(double)e->value.i : (double)e->value.i;
    case TN__EXPR_VAR: return (double)(INT64_C(1) << LARGEST_BITS); /* dimensions, and axes over such extents */
    case TN__EXPR_ADD:
    case TN__EXPR_SUB: return largest_of(e->args, e->arg_count, true);
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return largest_of(e->args, e->arg_count, false);
    case TN__EXPR_SELECT: return largest_of(e->args + 1, 2, false);
    case TN__EXPR_DIV: return tn__te_largest(e->args[0]);
    case TN__EXPR_MOD: return tn__te_largest(e->args[1]);
    case TN__EXPR_MUL: return tn__te_largest(e->args[0]) * tn__te_largest(e->args[1]);
    case TN__EXPR_CAST:
      if (!tn__dtype_is_float(e->args[0]->dtype) && tn_dtype_size(e->args[0]->dtype) <= 4) return 4294967296.0;
      return 1e30;
    default: return 1e30;
  }
}

static bool wraps(const tn__expr *e) { return tn__te_largest(e) > (double)TN__TE_MOST; }

/* Is `e` at least 0 because of a condition around it, a <= b or a < b? Then b - a, or b - a - 1, is at least 0. */
static bool follows(const securing *c, const fact *facts, const tn__expr *e, const tn__expr *comparison) {
  tn__ir *ir = c->ir;
  for (const fact *f = facts; f != NULL; f = f->outer) {
    const tn__expr *condition = f->condition;
    if (condition == comparison || tn__ir_is_false(condition)) return true;
    if (condition->kind != TN__EXPR_LT && condition->kind != TN__EXPR_LE) continue; /* the position decided it */
    const tn__expr *a = condition->args[0], *b = condition->args[1];
    if (wraps(a) || wraps(b) || wraps(e)) continue;
    const tn__expr *known = tn__ir_add_i(ir, tn__ir_sub(ir, b, a), condition->kind == TN__EXPR_LT ? -1 : 0);
    if (tn__ir_prove(ir, tn__ir_le(ir, known, e))) return true;
  }
  return false;
}

bool tn__te_is_empty(tn__ir *ir, const tn__te_stage *stage) {
  for (int i = 0; i < stage->axes.count + stage->reduce_axes.count; i++) {
    const tn__var *var = i < stage->axes.count ? stage->axes.var[i] : stage->reduce_axes.var[i - stage->axes.count];
    if (tn__interval_of(ir, var->extent).max <= 0) return true;
  }
  return false;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static _Noreturn void refuse_index(const securing *c, const tn__buffer *buffer, int dim, const char *why) {
  tn__arena *arena = c->te->arena;
  const char *what = tn__arena_printf(arena, "index %d of %s %s", dim, buffer->name, why);
  if (c->refuse != NULL) c->refuse(c->user, c->index, what);
  tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "te %s: stage %s: %s", c->te->name, c->stage->name, what);
}

/* Of the scan that the stage is, or is in the steps of. */
static bool is_own(const securing *c, const tn__buffer *buffer) {
  for (int t = 0; t < c->scan->tensor_count; t++)
    if (c->scan->tensors[t] == buffer) return true;
  return false;
}

static void see_factor(const tn__expr *e, void *user) {
  int64_t limit = INT64_C(1) << LARGEST_BITS;
  if (e->kind == TN__EXPR_INT && e->dtype == TN_I64 && (e->value.i > limit || e->value.i < -limit))
    *(bool *)user = true;
}

bool tn__te_is_too_large(tn__ir *ir, const tn__expr *e) {
  bool found = false;
  tn__te_visit(ir, e, see_factor, &found);
  return found;
}

/* Of a smallest or greatest value, the side that is another such value of the other kind, over which it distributes:
 * max(min(a, b), c) is min(max(a, c), max(b, c)). -1: neither, or it is too large to look at. */
static int distributed_side(const tn__expr *e, tn__expr_kind other) {
  enum { MOST = 64 };
  if (tn__expr_size(e) > MOST) return -1;
  return e->args[0]->kind == other ? 0 : e->args[1]->kind == other ? 1 : -1;
}

/* Shown by the ranges of variables alone. A smallest or greatest value needs one side of it, or both; and what is
 * mirrored, as min(i, 2*n - 1 - i) and max(i, -1 - i) are, what both sides sum up to: the greater is at least half of
 * it. */
static bool is_above(tn__ir *ir, const tn__expr *index) {
  if (index->kind == TN__EXPR_MIN) return is_above(ir, index->args[0]) && is_above(ir, index->args[1]);
  if (index->kind != TN__EXPR_MAX) return tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, 0), index));
  const tn__expr *a = index->args[0], *b = index->args[1];
  if (is_above(ir, a) || is_above(ir, b)) return true;
  if (tn__ir_prove(ir, tn__ir_le(ir, tn__ir_index(ir, -1), tn__ir_add(ir, a, b)))) return true;
  int side = distributed_side(index, TN__EXPR_MIN);
  if (side < 0) return false;
  const tn__expr *parts = index->args[side], *rest = index->args[1 - side];
  return is_above(ir, tn__ir_max(ir, parts->args[0], rest)) && is_above(ir, tn__ir_max(ir, parts->args[1], rest));
}

static bool is_below(tn__ir *ir, const tn__expr *index, const tn__expr *size) {
  if (index->kind == TN__EXPR_MAX) return is_below(ir, index->args[0], size) && is_below(ir, index->args[1], size);
  if (index->kind != TN__EXPR_MIN) return tn__ir_prove(ir, tn__ir_lt(ir, index, size));
  const tn__expr *a = index->args[0], *b = index->args[1], *twice = tn__ir_mul(ir, size, tn__ir_index(ir, 2));
  if (is_below(ir, a, size) || is_below(ir, b, size)) return true;
  if (tn__ir_prove(ir, tn__ir_lt(ir, tn__ir_add(ir, a, b), twice))) return true;
  int side = distributed_side(index, TN__EXPR_MAX);
  if (side < 0) return false;
  const tn__expr *parts = index->args[side], *rest = index->args[1 - side];
  return is_below(ir, tn__ir_min(ir, parts->args[0], rest), size) &&
         is_below(ir, tn__ir_min(ir, parts->args[1], rest), size);
}

/* Does the index depend on an axis whose bounds are not those of dimensions alone? */
static bool uses_ragged(const securing *c, const tn__expr *index) {
  for (int i = 0; i < c->stage->reduce_axes.count; i++) {
    const tn__var *axis = c->stage->reduce_axes.var[i];
    if (tn__te_is_ragged(axis) && tn__expr_uses_var(index, axis)) return true;
  }
  return false;
}

/* Whether the index is inside as it is, at its low and its high end. */
static void judge_simple(const securing *c, const context *k, const tn__buffer *buffer, int dim, const tn__expr *index,
                         bool *low, bool *high) {
  tn__ir *ir = c->ir;
  const tn__expr *size = buffer->shape[dim], *here = at_position(c, index), *min, *max;
  *low = is_above(ir, here);
  *high = is_below(ir, here, size);
  if (*low && *high) return;
  if (!k->guarded && !c->strict && !tn__expr_has_load(index) && !uses_ragged(c, index) &&
      tn__ir_bounds_over(ir, here, c->axes.data, c->axes.count, &min, &max)) {
    *low = *high = true; /* dimensions decide, and are checked for each call */
    return;
  }
  if (!*low) *low = follows(c, k->facts, here, tn__ir_le(ir, tn__ir_index(ir, 0), here));
  if (!*high) *high = follows(c, k->facts, tn__ir_add_i(ir, tn__ir_sub(ir, size, here), -1), tn__ir_lt(ir, here, size));
}

/* The same, of each side of a choice between positions under what is known there. */
static void judge(securing *c, const context *k, const tn__buffer *buffer, int dim, const tn__expr *index, bool *low,
                  bool *high) {
  judge_simple(c, k, buffer, dim, index, low, high);
  if ((*low && *high) || index->kind != TN__EXPR_SELECT) return;
  bool all_low = true, all_high = true;
  for (int side = 1; side <= 2 && (all_low || all_high); side++) {
    bool side_low, side_high;
    context under = {.facts = with(c, k->facts, index->args[0], side == 2), .guarded = true};
    judge(c, &under, buffer, dim, index->args[side], &side_low, &side_high);
    all_low &= side_low;
    all_high &= side_high;
  }
  *low |= all_low;
  *high |= all_high;
}

static const tn__expr *secured_index(securing *c, const context *k, const tn__buffer *buffer, int dim,
                                     const tn__expr *index) {
  tn__ir *ir = c->ir;
  bool low, high;
  if (tn__te_is_too_large(ir, index)) refuse_index(c, buffer, dim, "has a number in it that is larger than any tensor");
  if (tn__te_is_empty(ir, c->stage)) return index;
  judge(c, k, buffer, dim, index, &low, &high);
  if (c->scan != NULL && is_own(c, buffer) && dim == c->scan->scan_axis) {
    if (!(c->scan->backwards ? high : low))
      refuse_index(
          c, buffer, dim,
          "is not shown to be inside of the tensor under the condition around it; let the scan start with more "
          "positions, as in scan(AXIS, 2)");
    return index; /* what is earlier is not above; what is later, not below */
  }
  if (low && high) return index;
  if (tn__interval_of(ir, buffer->shape[dim]).min < 1)
    refuse_index(c, buffer, dim,
                 "is not shown to be inside of the tensor, which may have no elements there to take instead");
  c->moved = true;
  if (!low) index = tn__ir_max(ir, index, tn__ir_index(ir, 0));
  return high ? index : tn__ir_min(ir, index, tn__ir_add_i(ir, buffer->shape[dim], -1));
}

static bool is_proven(const securing *c, const tn__buffer *buffer, int dim, const tn__expr *index) {
  const tn__expr *here = at_position(c, index);
  return !tn__te_is_too_large(c->ir, index) && is_above(c->ir, here) && is_below(c->ir, here, buffer->shape[dim]);
}

/* Are all accesses below `e` inside without any condition? */
static bool is_inside(securing *c, const tn__expr *e) {
  if (!tn__expr_has_load(e)) return true;
  const tn__expr *known = table_get(&c->inside, e);
  if (known != NULL) return known == e;
  bool inside = true;
  for (int i = 0; i < e->arg_count && inside; i++) inside = is_inside(c, e->args[i]);
  for (int d = 0; e->kind == TN__EXPR_LOAD && d < e->arg_count && inside; d++)
    inside = is_proven(c, e->value.buffer, d, e->args[d]);
  table_put(&c->inside, c->te->arena, e, inside ? e : tn__ir_index(c->ir, 0));
  return inside;
}

static const tn__expr *secured(securing *c, context *k, const tn__expr *e);

/* Under one more condition; when there are too many of them, without what they say. */
static const tn__expr *secured_under(securing *c, const context *k, const tn__expr *condition, bool opposite,
                                     const tn__expr *e) {
  if (is_inside(c, e)) return e;
  if (c->contexts > MOST_CONTEXTS) return secured(c, c->doubt, e);
  return secured(c, new_context(c, with(c, k->facts, condition, opposite), true), e);
}

static const tn__expr *secured(securing *c, context *k, const tn__expr *e) {
  tn__ir *ir = c->ir;
  if (is_inside(c, e)) return e;
  const tn__expr *known = table_get(&k->done, e), *args[TN__MAX_RANK + 4];
  if (known != NULL) return known;
  bool logic = e->dtype == TN_BOOL && (e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR);
  bool changed = false;
  for (int i = 0; i < e->arg_count; i++) {
    const tn__expr *arg = e->args[i];
    if (i > 0 && (e->kind == TN__EXPR_SELECT || logic)) {
      bool opposite = e->kind == TN__EXPR_OR || (e->kind == TN__EXPR_SELECT && i == 2);
      args[i] = secured_under(c, k, args[0], opposite, arg);
    } else {
      args[i] = secured(c, k, arg);
    }
    if (e->kind == TN__EXPR_LOAD) args[i] = secured_index(c, k, e->value.buffer, i, args[i]);
    changed |= args[i] != arg;
  }
  const tn__expr *result = changed ? tn__expr_with_args(ir, e, args) : e;
  table_put(&k->done, c->te->arena, e, result);
  return result;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void begin(securing *c, const fact *facts) {
  c->inside = (table){0};
  c->contexts = c->steps = 0;
  c->root = new_context(c, facts, false);
  c->doubt = new_context(c, facts, true);
}

static void secure_values(securing *c, const tn__expr **values) {
  begin(c, NULL);
  for (int t = 0; t < c->stage->tensor_count; t++)
    if (values[t] != NULL) values[t] = secured(c, c->root, values[t]);
}

/* From here on positions of the scan's axis are those that have first values, or the others. */
static void enter_positions(securing *c, bool first) {
  const tn__var *axis = tn__te_scan_axis(c->stage);
  tn__vec_push(c->te->arena, &c->axes, tn__te_positions_enter(c->ir, axis, c->scan, first, &c->positions));
}

/* Bounds of reductions that depend on it follow. */
static void enter_bounds(securing *c) {
  const tn__te_axes *axes = &c->stage->reduce_axes;
  for (int i = 0; i < axes->count && c->positions.count > 0; i++) {
    const tn__var *var = tn__te_positions_add(c->ir, axes->var[i], &c->positions);
    if (var != NULL) tn__vec_push(c->te->arena, &c->axes, var);
  }
}

/* Bounds are evaluated before the axis, and those behind it, have a position. */
static void secure_bounds(securing *c, tn__te_stage *stage) {
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *to[TN__MAX_RANK];
  int count = 0;
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    const tn__var *axis = stage->reduce_axes.var[i];
    begin(c, NULL);
    const tn__expr *extent = secured(c, c->root, tn__ir_substitute(c->ir, axis->extent, from, to, count));
    if (extent == axis->extent) continue;
    from[count] = axis;
    axis = tn__var_create(c->ir, axis->name, TN_I64, axis->min, extent);
    stage->reduce_axes.var[i] = axis;
    to[count++] = stage->reduce_axes.index[i] = axis->self;
    c->axes.data[stage->axes.count + i] = axis;
  }
  for (int t = 0; t < stage->tensor_count && count > 0; t++)
    stage->values[t] = tn__ir_substitute(c->ir, stage->values[t], from, to, count);
  for (int d = 0; d < stage->axes.count && count > 0; d++)
    stage->into[d] = tn__ir_substitute(c->ir, stage->into[d], from, to, count);
}

/* Indices of places come first; terms are evaluated where these are inside. */
static void secure_accumulation(securing *c, tn__te_stage *stage) {
  tn__ir *ir = c->ir;
  const fact *facts = NULL;
  secure_values(c, stage->first);
  secure_bounds(c, stage);
  enter_bounds(c);
  begin(c, NULL);
  for (int d = 0; d < stage->axes.count; d++) stage->into[d] = secured(c, c->root, stage->into[d]);
  begin(c, NULL);
  for (int d = 0; d < stage->axes.count; d++) {
    if (tn__te_keeps_axis(stage, d)) continue;
    facts = with(c, facts, tn__ir_le(ir, tn__ir_index(ir, 0), stage->into[d]), false);
    facts = with(c, facts, tn__ir_lt(ir, stage->into[d], stage->axes.var[d]->extent), false);
  }
  begin(c, facts);
  for (int t = 0; t < stage->tensor_count; t++) stage->values[t] = secured(c, c->root, stage->values[t]);
}

int tn__te_into_inside(const tn__te *te, const tn__te_stage *stage, int dim) {
  if (te->unchecked || tn__te_keeps_axis(stage, dim)) return 3;
  return (is_above(te->ir, stage->into[dim]) ? 1 : 0) |
         (is_below(te->ir, stage->into[dim], stage->axes.var[dim]->extent) ? 2 : 0);
}

static void secure_stage(securing *c, int index) {
  tn__te_stage *stage = c->te->stages.data[index];
  c->index = index;
  if (stage->kind == TN__TE_EXTERN) return;
  c->stage = stage;
  c->axes.count = 0;
  for (int i = 0; i < stage->axes.count; i++) tn__vec_push(c->te->arena, &c->axes, stage->axes.var[i]);
  for (int i = 0; i < stage->reduce_axes.count; i++) tn__vec_push(c->te->arena, &c->axes, stage->reduce_axes.var[i]);
  c->scan = tn__te_scan_of(c->te, stage);
  c->positions.count = 0;
  if (stage->kind == TN__TE_SCAN) {
    int axes = c->axes.count;
    enter_positions(c, true);
    secure_values(c, stage->first);
    c->axes.count = axes;
  }
  if (c->scan != NULL) enter_positions(c, false);
  if (stage->kind == TN__TE_ACCUMULATE)
    secure_accumulation(c, stage);
  else
    secure_values(c, stage->values);
}

/* True when an index was moved. */
static bool secure(tn__te *te, bool strict, tn__te_refuse *refuse, void *user) {
  securing c = {.te = te, .ir = te->ir, .refuse = refuse, .user = user, .strict = strict};
  for (int s = 0; s < te->stages.count; s++) secure_stage(&c, s);
  return c.moved;
}

void tn__te_move_inside(tn__te *te, int stage) {
  securing c = {.te = te, .ir = te->ir, .strict = true};
  secure_stage(&c, stage);
}

void tn__te_secure(tn__te *te, tn__te_refuse *refuse, void *user) { secure(te, false, refuse, user); }

typedef struct trial {
  const tn__te *te;
  int stage;       /* of which; -1: of all */
  tn__arena arena; /* of the copy */
  bool moved;
} trial;

static void try_securing(tn__escape *escape, void *user) {
  trial *t = user;
  t->arena.escape = escape;
  tn__ir *ir = tn__ir_create(&t->arena);
  tn__te *copy = t->stage < 0 ? tn__te_copy(t->te, ir) : tn__te_part(tn__te_uses_of(t->te, &t->arena), t->stage, 1, ir);
  t->moved = secure(copy, t->stage >= 0, NULL, NULL);
}

/* Would an index be moved, or refused? */
static bool would_move(const tn__te *te, int stage) {
  trial t = {.te = te, .stage = stage};
  tn__escape escape;
  tn__arena_init(&t.arena, te->arena->allocator, &escape);
  tn_status *refused = tn__protect(&escape, try_securing, &t);
  tn__arena_release(&t.arena);
  if (tn_status_code_of(refused) == TN_OUT_OF_MEMORY) tn__throw(te->arena->escape, refused);
  t.moved |= refused != NULL;
  tn_status_free(refused);
  return t.moved;
}

void tn__te_trust(tn__te *te) { te->unchecked = would_move(te, -1); }

bool tn__te_shows_inside(const tn__te *te, int stage) { return !would_move(te, stage); }
