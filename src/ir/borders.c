/* Where a nest has borders: mark_borders says of conditions on positions that they are likely, partition_loops cuts the
 * loops there, and unmark_borders takes back what it left.
 *
 * A border is where a condition of a select changes (padding, concatenation, a mask's edge), where a position is
 * clamped or mirrored, and where one starts again from the other end of an axis. In the interior that is left between
 * borders there is no condition, and what was a gather or a masked load is a vector. */
#include "ir/context.h"
#include "ir/linear.h"
#include "ir/passes.h"

/* Cutting at a condition may triple a nest. It is for nests in which the condition is a good part of the work, and that
 * stay small: of so many statements, and conditions in one store. */
enum { MOST_STATEMENTS = 192, MOST_CONDITIONS = 8 };

/* Sums in registers are the inner part of a tile: all borders of padding are cut there, which the rules count on, and
 * no others. */
static bool is_sum_in_registers(const tn__stmt *store) {
  return store->as.store.buffer->scope == TN__SCOPE_REGISTER &&
         tn__expr_uses_buffer(store->as.store.value, store->as.store.buffer);
}

/* What a rewrite of a store needs to know. */
typedef struct marking {
  tn__arena *arena;
  bool is_small;
  bool has_sums; /* those in registers are marked like others */
  bool is_dear;  /* the store takes so much that a position which all lanes share is nothing beside it */
  TN__VEC(const tn__var *) lanes; /* the variables of vectors in the nest */
  const tn__expr_set *kept;       /* quotients and remainders that stay what they are */
} marking;

static bool see_lanes(const tn__stmt *s, void *user) {
  marking *m = user;
  if (s->kind == TN__STMT_FOR && s->as.loop.kind == TN__LOOP_VECTORIZED)
    tn__vec_push(m->arena, &m->lanes, s->as.loop.var);
  return true;
}

static marking marking_of(tn__ir *ir, const tn__stmt *nest, bool is_small) {
  marking m = {.arena = ir->arena, .is_small = is_small};
  tn__stmt_walk(nest, see_lanes, &m);
  return m;
}

/* Is the position the same in all lanes, of a store that is dear? Copies of the nest would save it nothing. */
static bool is_cheap_beside(const marking *m, const tn__expr *position) {
  if (!m->is_dear || m->lanes.count == 0) return false;
  for (int i = 0; i < m->lanes.count; i++)
    if (tn__expr_uses_var(position, m->lanes.data[i])) return false;
  return true;
}

static const tn__expr *likely_parts(tn__ir *ir, const tn__expr *condition) {
  if (condition->kind == TN__EXPR_AND)
    return tn__ir_and(ir, likely_parts(ir, condition->args[0]), likely_parts(ir, condition->args[1]));
  return condition->kind == TN__EXPR_LT && !tn__expr_has_load(condition) ? tn__ir_call1(ir, TN__CALL_LIKELY, condition)
                                                                         : condition;
}

static const tn__expr *mark_padding(tn__ir *ir, const tn__expr *e, void *user) {
  (void)user;
  bool pads = e->kind == TN__EXPR_SELECT && tn__expr_has_load(e->args[1]) && !tn__expr_has_load(e->args[2]);
  return pads ? tn__ir_select(ir, likely_parts(ir, e->args[0]), e->args[1], e->args[2]) : NULL;
}

static const tn__expr *choose(tn__ir *ir, const tn__expr *condition, const tn__expr *then, const tn__expr *otherwise) {
  if (condition->kind == TN__EXPR_LT) condition = tn__ir_call1(ir, TN__CALL_LIKELY, condition);
  return tn__ir_select(ir, condition, then, otherwise);
}

/* a <= b, of positions, in the form that loops are cut at. */
static const tn__expr *at_most(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  return tn__ir_lt(ir, a, tn__ir_add_i(ir, b, 1));
}

/* select(a < b, then, otherwise), of positions: the condition is the one that holds halfway along the loops, which cuts
 * tiles, too, at whose borders it fails. */
static const tn__expr *choose_below(tn__ir *ir, const tn__expr *a, const tn__expr *b, const tn__expr *then,
                                    const tn__expr *otherwise) {
  if (tn__ir_middle(a) >= tn__ir_middle(b)) return choose(ir, at_most(ir, b, a), otherwise, then);
  return choose(ir, tn__ir_lt(ir, a, b), then, otherwise);
}

/* The same where both are right at a == b, which belongs to the interior then. */
static const tn__expr *choose_at_most(tn__ir *ir, const tn__expr *a, const tn__expr *b, const tn__expr *then,
                                      const tn__expr *otherwise) {
  if (tn__ir_middle(a) > tn__ir_middle(b)) return choose(ir, at_most(ir, b, a), otherwise, then);
  return choose(ir, at_most(ir, a, b), then, otherwise);
}

/* max(p, min(q, r)), where p <= r: q alone decides. So it is of min(p, max(q, r)), where r <= p: a position that is
 * clamped, or mirrored at both ends, has conditions of its own then, none within another. */
static const tn__expr *mark_both_ends(tn__ir *ir, const tn__expr *e, void *user) {
  bool greatest = e->kind == TN__EXPR_MAX;
  if ((!greatest && e->kind != TN__EXPR_MIN) || e->dtype != TN_I64 || tn__expr_has_load(e)) return NULL;
  if (is_cheap_beside(user, e)) return NULL;
  for (int side = 0; side < 2; side++) {
    const tn__expr *inner = e->args[side], *p = e->args[1 - side];
    if (inner->kind != (greatest ? TN__EXPR_MIN : TN__EXPR_MAX)) continue;
    for (int i = 0; i < 2; i++) {
      const tn__expr *q = inner->args[i], *r = inner->args[1 - i];
      if (!(greatest ? tn__ir_proves_le(ir, p, r) : tn__ir_proves_le(ir, r, p))) continue;
      return greatest ? choose_below(ir, p, q, inner, p) : choose_at_most(ir, q, p, inner, p);
    }
  }
  return NULL;
}

/* e % divisor or e / divisor, where the divisor is open and e is shown to be at most one period outside of the
 * first. */
static const tn__expr *mark_open_period(tn__ir *ir, const tn__expr *e) {
  const tn__expr *position = e->args[0], *divisor = e->args[1], *zero = tn__ir_index(ir, 0);
  if (tn__interval_of(ir, divisor).min < 1) return NULL;
  if (!tn__ir_proves_le(ir, tn__ir_sub(ir, zero, divisor), position)) return NULL;
  if (!tn__ir_proves_le(ir, tn__ir_add_i(ir, position, 1), tn__ir_mul(ir, divisor, tn__ir_index(ir, 2)))) return NULL;
  bool is_rest = e->kind == TN__EXPR_MOD;
  const tn__expr *before = is_rest ? tn__ir_add(ir, position, divisor) : tn__ir_index(ir, -1);
  const tn__expr *behind = is_rest ? tn__ir_sub(ir, position, divisor) : tn__ir_index(ir, 1);
  const tn__expr *result = choose_below(ir, position, divisor, is_rest ? position : zero, behind);
  return choose_below(ir, tn__ir_index(ir, -1), position, result, before);
}

/* e % divisor or e / divisor, where e crosses one or two multiples of the divisor at most: which of them it has passed.
 * The side with more values is the one that the condition tells. A short loop by itself is left alone: where it is a
 * vector of groups, its lanes lie side by side as they are. */
static const tn__expr *mark_period(tn__ir *ir, const tn__expr *e) {
  enum { MOST_PERIODS = 3, MOST_LANES = 64 };
  int64_t divisor;
  if (!tn__ir_as_int(e->args[1], &divisor)) return mark_open_period(ir, e);
  if (divisor <= 1) return NULL;
  const tn__expr *position = e->args[0];
  tn__interval range = tn__interval_of(ir, position);
  if (range.min == INT64_MIN || range.max == INT64_MAX) return NULL;
  if (position->kind == TN__EXPR_VAR && range.min == 0 && range.max < MOST_LANES) return NULL;
  int64_t first = tn__ir_floordiv_i64(range.min, divisor), last = tn__ir_floordiv_i64(range.max, divisor);
  if (last == first || last - first >= MOST_PERIODS) return NULL;
  bool is_rest = e->kind == TN__EXPR_MOD;
  const tn__expr *result = is_rest ? tn__ir_add_i(ir, position, -last * divisor) : tn__ir_index(ir, last);
  for (int64_t period = last - 1; period >= first; period--) {
    int64_t end = (period + 1) * divisor;
    const tn__expr *below = is_rest ? tn__ir_add_i(ir, position, -period * divisor) : tn__ir_index(ir, period);
    const tn__expr *limit = tn__ir_index(ir, end);
    result = end - range.min > range.max - end ? choose_below(ir, position, limit, below, result)
                                               : choose_below(ir, tn__ir_index(ir, end - 1), position, result, below);
  }
  return result;
}

/* select(a < b, c, d), all of positions. */
static bool is_position_choice(const tn__expr *e) {
  const tn__expr *condition = e->args[0];
  return e->dtype == TN_I64 && condition->kind == TN__EXPR_LT && condition->args[0]->dtype == TN_I64 &&
         !tn__expr_has_load(e);
}

/* ---- walks that go on -------------------------------------------------------------------------------------------- */

static bool is_period(const tn__expr *e) {
  return (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && e->dtype == TN_I64;
}

/* Adds the quotients and remainders of positions in the expression to the set; says whether there are any. */
static bool add_periods(tn__expr_set *seen, tn__expr_set *periods, const tn__expr *e) {
  if (!tn__expr_set_add(seen, e)) return false;
  bool any = is_period(e);
  if (any) tn__expr_set_add(periods, e);
  for (int i = 0; i < e->arg_count; i++) any |= add_periods(seen, periods, e->args[i]);
  return any;
}

/* Rows that follow each other are one long walk, X[k / 31, k % 31] from one element to the next: as an address there is
 * no quotient and no remainder, which should stay what they are. */
static const tn__expr *find_walk(tn__ir *ir, const tn__expr *e, void *user) {
  tn__expr_set *kept = user;
  tn__expr_set seen = {.ir = ir}, periods = {.ir = ir}, left = {.ir = ir};
  bool any = false;
  if (e->kind != TN__EXPR_LOAD || e->arg_count < 2) return NULL;
  for (int d = 0; d < e->arg_count; d++) any |= add_periods(&seen, &periods, e->args[d]);
  if (!any) return NULL;
  tn__expr_set_clear(&seen);
  if (add_periods(&seen, &left, tn__buffer_flatten(ir, e->value.buffer, e->args))) return NULL;
  for (size_t i = 0; i < periods.capacity; i++)
    if (periods.slots[i] != NULL) tn__expr_set_add(kept, periods.slots[i]);
  return NULL;
}

static const tn__expr *mark(tn__ir *ir, const tn__expr *e, void *user) {
  const marking *m = user;
  if (e->dtype == TN_I64 && is_cheap_beside(m, e)) return NULL;
  switch (e->kind) {
    case TN__EXPR_SELECT:
      if (is_position_choice(e))
        return choose_below(ir, e->args[0]->args[0], e->args[0]->args[1], e->args[1], e->args[2]);
      if (!tn__expr_has_load(e->args[1]) && !tn__expr_has_load(e->args[2])) return NULL;
      return tn__ir_select(ir, likely_parts(ir, e->args[0]), e->args[1], e->args[2]);
    case TN__EXPR_MIN: { /* constants come first; that the other one is less is what holds between borders */
      if (e->dtype != TN_I64 || tn__expr_has_load(e)) return NULL;
      const tn__expr *limit = e->args[0], *position = e->args[1];
      return choose_below(ir, position, tn__ir_add_i(ir, limit, 1), position, limit);
    }
    case TN__EXPR_MAX:
      if (e->dtype != TN_I64 || tn__expr_has_load(e)) return NULL;
      return choose_below(ir, e->args[0], e->args[1], e->args[1], e->args[0]);
    case TN__EXPR_MOD:
    case TN__EXPR_DIV:
      return is_period(e) && !tn__expr_has_load(e) && !tn__expr_set_has(m->kept, e) ? mark_period(ir, e) : NULL;
    case TN__EXPR_CALL:
      if (e->intrinsic != TN__CALL_ABS || e->dtype != TN_I64 || tn__expr_has_load(e)) return NULL;
      return choose_below(ir, tn__ir_index(ir, -1), e->args[0], e->args[0],
                          tn__ir_sub(ir, tn__ir_index(ir, 0), e->args[0]));
    default: return NULL;
  }
}

static const tn__expr *unmark(tn__ir *ir, const tn__expr *e, void *user) {
  (void)user;
  if (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY) return e->args[0];
  if (e->kind != TN__EXPR_SELECT || e->dtype != TN_I64 || e->args[0]->kind != TN__EXPR_LT) return NULL;
  const tn__expr *a = e->args[0]->args[0], *b = e->args[0]->args[1];
  if (e->args[1] == a && (e->args[2] == b || e->args[2] == tn__ir_add_i(ir, b, -1)))
    return tn__ir_binary(ir, TN__EXPR_MIN, a, e->args[2]);
  return e->args[1] == b && e->args[2] == a ? tn__ir_binary(ir, TN__EXPR_MAX, a, b) : NULL;
}

static const tn__stmt *mark_value(tn__ir *ir, const tn__stmt *s, const marking *m) {
  const tn__expr *value = s->as.store.value;
  tn__expr_set kept = {.ir = ir};
  marking own = *m;
  own.kept = &kept;
  if (m->is_small) value = tn__expr_rewrite(ir, value, mark_both_ends, &own);
  if (m->is_small) (void)tn__expr_rewrite(ir, value, find_walk, &kept);
  value = tn__expr_rewrite(ir, value, m->is_small ? mark : mark_padding, &own);
  return value == s->as.store.value ? NULL : tn__ir_store_like(ir, s, s->as.store.buffer, s->as.store.indices, value);
}

static const tn__stmt *mark_store(tn__ir *ir, const tn__stmt *s, void *user) {
  if (s->kind != TN__STMT_STORE) return NULL;
  bool in_registers = is_sum_in_registers(s);
  marking m = *(const marking *)user;
  if (!in_registers && !m.is_small) return NULL;
  tn__expr_set seen = {.ir = ir};
  m.is_dear = tn__ir_has_function(&seen, s->as.store.value);
  const tn__stmt *marked = mark_value(ir, s, &m);
  bool too_many = marked != NULL && tn__ir_likely_in(ir, marked).count > MOST_CONDITIONS;
  if (!too_many) return marked;
  if (!in_registers) return NULL;
  if (m.is_dear) return marked;
  /* Each axis with borders multiplies the pieces by three: what the budget for all of them leaves is corners without
   * end, so that only the axis of the vectors is cut. */
  m.is_dear = true;
  return mark_value(ir, s, &m);
}

/* Of stores to memory, and of sums in registers where the loop around has all of them. */
static const tn__stmt *mark_inside(tn__ir *ir, const tn__stmt *s, void *user) {
  const marking *m = user;
  if (s->kind != TN__STMT_STORE || (s->as.store.buffer->scope == TN__SCOPE_REGISTER && !m->has_sums)) return NULL;
  return mark_store(ir, s, user);
}

typedef struct sums {
  bool held;      /* are registers allocated inside? */
  bool is_marked; /* is there a sum in registers with borders that the whole nest is cut at? */
} sums;

static bool see_sum(const tn__stmt *s, void *user) {
  sums *found = user;
  found->held |= s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope == TN__SCOPE_REGISTER;
  found->is_marked |= s->kind == TN__STMT_STORE && is_sum_in_registers(s) && tn__node_of(s->as.store.value)->has_likely;
  return true;
}

static const tn__stmt *unmark_store(tn__ir *ir, const tn__stmt *s, void *user);
static const tn__stmt *unmark_sums(tn__ir *ir, const tn__stmt *s, void *user);

/* Loops inside of a large nest that are small themselves and fill memory, the parts of a tile that one stage computes
 * say, are cut for themselves: at places that the loops around them tell. */
static const tn__stmt *cut_inside(tn__ir *ir, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: {
      bool is_small = tn__stmt_weight(s) <= MOST_STATEMENTS;
      if (s->as.loop.kind != TN__LOOP_SERIAL || !is_small) {
        const tn__stmt *body = cut_inside(ir, s->as.loop.body);
        return body == s->as.loop.body ? s : tn__ir_for_like(ir, s, s->as.loop.var, body);
      }
      marking m = marking_of(ir, s, is_small);
      sums found = {0};
      tn__stmt_walk(s, see_sum, &found);
      m.has_sums = found.held && !found.is_marked;
      const tn__stmt *marked = tn__stmt_rewrite(ir, s, mark_inside, NULL, &m);
      if (marked == s) return s;
      return tn__stmt_rewrite(ir, tn__ir_partition_nest(ir, marked), m.has_sums ? unmark_sums : unmark_store, NULL,
                              NULL);
    }
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = cut_inside(ir, s->as.seq.items[i]);
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_LET: return tn__ir_let(ir, s->as.let.var, s->as.let.value, cut_inside(ir, s->as.let.body));
    case TN__STMT_ALLOC: return tn__ir_alloc_stmt(ir, s->as.alloc.buffer, cut_inside(ir, s->as.alloc.body));
    default: return s;
  }
}

/* Nest by nest: a loop with what stands in it, outside of all others. */
static const tn__stmt *mark_nests(tn__ir *ir, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: {
      bool is_small = tn__stmt_weight(s) <= MOST_STATEMENTS;
      marking m = marking_of(ir, s, is_small);
      const tn__stmt *marked = tn__stmt_rewrite(ir, s, mark_store, NULL, &m);
      return is_small ? marked : cut_inside(ir, marked);
    }
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = mark_nests(ir, s->as.seq.items[i]);
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *otherwise = s->as.branch.else_body;
      if (otherwise != NULL) otherwise = mark_nests(ir, otherwise);
      return tn__ir_if(ir, s->as.branch.condition, mark_nests(ir, s->as.branch.then_body), otherwise);
    }
    case TN__STMT_LET: return tn__ir_let(ir, s->as.let.var, s->as.let.value, mark_nests(ir, s->as.let.body));
    case TN__STMT_ALLOC: return tn__ir_alloc_stmt(ir, s->as.alloc.buffer, mark_nests(ir, s->as.alloc.body));
    case TN__STMT_WHILE: return tn__ir_while(ir, s->as.repeat.condition, mark_nests(ir, s->as.repeat.body));
    default: return s;
  }
}

static const tn__stmt *unmark_sums(tn__ir *ir, const tn__stmt *s, void *user) {
  (void)user;
  if (s->kind != TN__STMT_STORE) return NULL;
  const tn__expr *value = tn__expr_rewrite(ir, s->as.store.value, unmark, NULL);
  return value == s->as.store.value ? NULL : tn__ir_store_like(ir, s, s->as.store.buffer, s->as.store.indices, value);
}

static const tn__stmt *unmark_store(tn__ir *ir, const tn__stmt *s, void *user) {
  return s->kind != TN__STMT_STORE || is_sum_in_registers(s) ? NULL : unmark_sums(ir, s, user);
}

tn__func *tn__ir_mark_borders(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, mark_nests(ir, func->body));
}

tn__func *tn__ir_unmark_borders(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, unmark_store, NULL, NULL));
}
