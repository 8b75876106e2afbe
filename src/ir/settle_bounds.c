/* Loops that are as long as data say: sum(k: start[i] .. start[i + 1]) V[k] * x[C[k]].
 *
 * What bounds load is loaded once, in front of the loop, and has a name: partition_loops cuts the loop
 * at it then. Positions in it that are clamped, since data may lead anywhere, are asked about once for all iterations:
 * where the first and the last one are inside of their tensor the loop runs without clamps, over what is contiguous,
 * and else a copy of it with them. Both take their terms in the same order. */
#include "ir/context.h"
#include "ir/linear.h"
#include "ir/passes.h"

/* A loop is copied up to so many statements, and asks about so many positions. */
enum { MOST_COPIED = 400, MOST_POSITIONS = 8 };
/* Positions move on by so much at the most with each iteration, of which there are at most so many: what they differ
 * by does not wrap around then. */
#define MOST_STEP ((int64_t)1 << 16)
#define MOST_TURNS ((int64_t)1 << 40)

/* ---- names ------------------------------------------------------------------------------------------------------- */

typedef struct naming {
  TN__VEC(const tn__var *) inside; /* bound where the names are to be known */
  tn__expr_vec values;             /* later ones in terms of earlier ones */
  TN__VEC(const tn__var *) vars;
  bool loops; /* is there a loop that is as long as data say? */
} naming;

static bool is_named(const naming *n, const tn__expr *e) {
  for (int i = 0; i < n->values.count; i++)
    if (n->values.data[i] == e) return true;
  return false;
}

static bool reads_any(const tn__expr *e, const naming *n) {
  for (int i = 0; i < n->inside.count; i++)
    if (tn__expr_uses_var(e, n->inside.data[i])) return true;
  return false;
}

static const tn__expr *give_names(tn__ir *ir, const tn__expr *e, void *user);

static void name_value(tn__ir *ir, naming *n, const tn__expr *e) {
  e = give_names(ir, e, n);
  if (e->kind == TN__EXPR_VAR || is_named(n, e) || reads_any(e, n)) return;
  int64_t least = tn__interval_of(ir, e).min;
  const tn__expr *min = e->dtype == TN_I64 && least != INT64_MIN ? tn__ir_index(ir, least) : NULL;
  tn__vec_push(ir->arena, &n->values, e);
  tn__vec_push(ir->arena, &n->vars, tn__var_create(ir, "bound", e->dtype, min, NULL));
}

/* The parts of a bound that load: what stands under a condition there stays under it. The length of a row has a name
 * of its own. */
static void name_values(tn__ir *ir, naming *n, const tn__expr *e) {
  if (!tn__expr_has_load(e)) return;
  switch (e->kind) {
    case TN__EXPR_DIV:
    case TN__EXPR_MOD:
      if (!tn__ir_is_int(e->args[1])) break;
      name_values(ir, n, e->args[0]);
      return;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
    case TN__EXPR_LT:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX:
      name_values(ir, n, e->args[0]);
      name_values(ir, n, e->args[1]);
      if (e->kind != TN__EXPR_MIN && e->kind != TN__EXPR_MAX) return;
      break;
    default: break;
  }
  name_value(ir, n, e);
}

static bool see_loop(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR) *(bool *)user |= tn__expr_has_load(s->as.loop.var->extent);
  return true;
}

static bool holds_loop(const tn__stmt *s) {
  bool found = false;
  tn__stmt_walk(s, see_loop, &found);
  return found;
}

static const tn__expr *taken_likely(const tn__expr *condition) {
  return condition->kind == TN__EXPR_CALL && condition->intrinsic == TN__CALL_LIKELY ? condition->args[0] : condition;
}

/* Names what the loops in the statement run to, and what says whether they run: all that is read in any case. */
static void name_bounds(tn__ir *ir, naming *n, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR:
      n->loops |= tn__expr_has_load(s->as.loop.var->extent);
      name_values(ir, n, s->as.loop.var->min);
      name_values(ir, n, s->as.loop.var->extent);
      break;
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) name_bounds(ir, n, s->as.seq.items[i]);
      break;
    case TN__STMT_IF:
      if (taken_likely(s->as.branch.condition) != s->as.branch.condition)
        name_values(ir, n, taken_likely(s->as.branch.condition));
      n->loops |= holds_loop(s->as.branch.then_body);
      break;
    case TN__STMT_ALLOC: name_bounds(ir, n, s->as.alloc.body); break;
    default: break;
  }
}

/* What the statement binds, and whether it writes what is named. */
typedef struct contents {
  tn__ir *ir;
  naming *names;
  bool written;
} contents;

static bool see_binding(const tn__stmt *s, void *user) {
  contents *c = user;
  if (s->kind == TN__STMT_FOR) tn__vec_push(c->ir->arena, &c->names->inside, s->as.loop.var);
  if (s->kind == TN__STMT_LET) tn__vec_push(c->ir->arena, &c->names->inside, s->as.let.var);
  return true;
}

static bool see_write(const tn__stmt *s, void *user) {
  contents *c = user;
  const tn__buffer *written = s->kind == TN__STMT_STORE    ? s->as.store.buffer
                              : s->kind == TN__STMT_TENSOR ? s->as.tensor.operands[0].buffer
                                                           : NULL;
  for (int i = 0; i < c->names->values.count && written != NULL; i++)
    c->written |= tn__expr_uses_buffer(c->names->values.data[i], written);
  return !c->written;
}

static const tn__expr *give_name(tn__ir *ir, const tn__expr *e, void *user) {
  const naming *n = user;
  (void)ir;
  for (int i = 0; i < n->values.count; i++)
    if (n->values.data[i] == e) return n->vars.data[i]->self;
  return NULL;
}

static const tn__expr *give_names(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_has_load(e) ? tn__expr_rewrite(ir, e, give_name, user) : e;
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* Are positions from `first` on, `length` of them, inside of [0, end)? NULL: is `first` at least 0? */
typedef struct asked {
  const tn__expr *first, *length, *end;
} asked;

typedef struct settling {
  tn__ir *ir;
  TN__VEC(const tn__var *) inside; /* bound in the loop */
  tn__expr_vec turns;              /* of the loop and those in it, where they may be many */
  tn__expr_vec facts;              /* positive where the statement at hand runs */
  asked asked[MOST_POSITIONS];
  int count;
} settling;

static bool is_outside(const settling *p, const tn__expr *e) {
  if (tn__expr_has_load(e)) return false;
  for (int i = 0; i < p->inside.count; i++)
    if (tn__expr_uses_var(e, p->inside.data[i])) return false;
  return true;
}

static bool add_position(settling *p, asked a) {
  for (int i = 0; i < p->count; i++)
    if (p->asked[i].first == a.first && p->asked[i].length == a.length && p->asked[i].end == a.end) return true;
  if (p->count == MOST_POSITIONS) return false;
  p->asked[p->count++] = a;
  return true;
}

/* A lower, or upper, bound of a sum in which quotients of what is not negative count as nothing, and c * (x / c) as x:
 * what is left of a row behind its vectors begins no earlier than the row and ends where it does. */
static const tn__expr *relax(tn__ir *ir, const tn__expr *e, bool upwards) {
  tn__linear all, kept;
  int64_t divisor;
  tn__linear_init(&all);
  tn__linear_init(&kept);
  tn__linear_add(ir, &all, e, 1);
  kept.constant = all.constant;
  for (int i = 0; i < all.count; i++) {
    const tn__expr *atom = all.terms[i].atom;
    int64_t factor = all.terms[i].coefficient;
    bool is_quotient = atom->kind == TN__EXPR_DIV && tn__ir_as_int(atom->args[1], &divisor) && divisor > 0 &&
                       factor == divisor && tn__interval_of(ir, atom->args[0]).min >= 0;
    if (!is_quotient)
      tn__linear_add_term(ir, &kept, atom, factor);
    else if (upwards)
      tn__linear_add(ir, &kept, atom->args[0], 1);
  }
  return tn__linear_build(ir, &kept);
}

/* Does the position move on by little with each iteration, `step` times as much as `e` does? */
static bool moves_little(const settling *p, const tn__expr *e, int64_t step) {
  int64_t factor;
  if (is_outside(p, e)) return true;
  switch (e->kind) {
    case TN__EXPR_VAR: return true;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return moves_little(p, e->args[0], step) && moves_little(p, e->args[1], step);
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: return tn__ir_is_int(e->args[1]) && moves_little(p, e->args[0], step);
    case TN__EXPR_MUL:
      if (!tn__ir_as_int(e->args[1], &factor) || factor < -MOST_STEP / step || factor > MOST_STEP / step) return false;
      return factor == 0 || moves_little(p, e->args[0], step * (factor < 0 ? -factor : factor));
    default: return false;
  }
}

/* Can `position` be asked about for all iterations: that it is at least 0 and, unless NULL, at most `last`? */
static bool ask(settling *p, const tn__expr *position, const tn__expr *last) {
  tn__ir *ir = p->ir;
  const tn__expr *first, *most;
  if (!moves_little(p, position, 1)) return false;
  if (tn__expr_has_load(position) || is_outside(p, position) || (last != NULL && !is_outside(p, last))) return false;
  if (!tn__ir_bounds_over(ir, position, p->inside.data, p->inside.count, &first, &most)) return false;
  for (int i = 0; i < p->facts.count; i++) {
    const tn__expr *end = tn__ir_add(ir, position, p->facts.data[i]);
    if (is_outside(p, end)) most = tn__ir_add_i(ir, end, -1);
  }
  if (!is_outside(p, first) || !is_outside(p, most)) return false;
  first = relax(ir, first, false);
  if (last == NULL) return add_position(p, (asked){.first = first});
  most = relax(ir, most, true);
  const tn__expr *length = tn__ir_add_i(ir, tn__ir_sub(ir, most, first), 1);
  return add_position(p, (asked){first, length, tn__ir_add_i(ir, last, 1)});
}

/* min(last, position) or max(0, position). */
static const tn__expr *unclamp(tn__ir *ir, const tn__expr *e, void *user) {
  settling *p = user;
  (void)ir;
  bool least = e->kind == TN__EXPR_MIN;
  if ((!least && e->kind != TN__EXPR_MAX) || e->dtype != TN_I64) return NULL;
  for (int side = 0; side < 2; side++) {
    const tn__expr *position = e->args[side], *bound = e->args[1 - side];
    if ((least || tn__ir_is_int_value(bound, 0)) && ask(p, position, least ? bound : NULL)) return position;
  }
  return NULL;
}

static const tn__expr *unclamp_all(settling *p, const tn__expr *e) {
  return tn__expr_has_load(e) ? tn__expr_rewrite(p->ir, e, unclamp, p) : e;
}

static void add_facts(settling *p, const tn__expr *condition) {
  condition = taken_likely(condition);
  if (condition->kind == TN__EXPR_AND) {
    add_facts(p, condition->args[0]);
    add_facts(p, condition->args[1]);
  } else if (condition->kind == TN__EXPR_LT && condition->args[0]->dtype == TN_I64) {
    tn__vec_push(p->ir->arena, &p->facts, tn__ir_sub(p->ir, condition->args[1], condition->args[0]));
  }
}

/* The statement without the clamps that are asked about. */
static const tn__stmt *settle_inside(settling *p, const tn__stmt *s) {
  tn__ir *ir = p->ir;
  switch (s->kind) {
    case TN__STMT_FOR: {
      tn__vec_push(ir->arena, &p->inside, s->as.loop.var);
      if (tn__interval_of(ir, s->as.loop.var->extent).max > MOST_TURNS)
        tn__vec_push(ir->arena, &p->turns, s->as.loop.var->extent);
      const tn__stmt *body = settle_inside(p, s->as.loop.body);
      return body == s->as.loop.body ? s : tn__ir_for_like(ir, s, s->as.loop.var, body);
    }
    case TN__STMT_STORE: {
      const tn__expr *value = unclamp_all(p, s->as.store.value);
      if (value == s->as.store.value) return s;
      return tn__ir_store_like(ir, s, s->as.store.buffer, s->as.store.indices, value);
    }
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = settle_inside(p, s->as.seq.items[i]);
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *otherwise = s->as.branch.else_body;
      int facts = p->facts.count;
      add_facts(p, s->as.branch.condition);
      const tn__stmt *then_body = settle_inside(p, s->as.branch.then_body);
      p->facts.count = facts;
      if (otherwise != NULL) otherwise = settle_inside(p, otherwise);
      return tn__ir_if(ir, s->as.branch.condition, then_body, otherwise);
    }
    case TN__STMT_LET: {
      const tn__expr *value = unclamp_all(p, s->as.let.value);
      tn__vec_push(ir->arena, &p->inside, s->as.let.var);
      return tn__ir_let(ir, s->as.let.var, value, settle_inside(p, s->as.let.body));
    }
    case TN__STMT_ALLOC: return tn__ir_alloc_stmt(ir, s->as.alloc.buffer, settle_inside(p, s->as.alloc.body));
    default: return s;
  }
}

static const tn__stmt *keep_whole(tn__ir *ir, const tn__stmt *s, void *user) {
  (void)user;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_SERIAL) return NULL;
  tn__loop_pragmas pragmas = s->as.loop.pragmas;
  pragmas.value[TN__PRAGMA_WHOLE] = 1;
  return tn__ir_for_with(ir, s->as.loop.var, s->as.loop.kind, &pragmas, s->as.loop.body);
}

/* What is asked about in [0, end], by a name of that range: loops that are known to be short are not watched. */
static const tn__stmt *with_range(tn__ir *ir, const tn__expr *name, const tn__expr *end, const tn__stmt *s) {
  int64_t most;
  if (name->kind != TN__EXPR_VAR || !tn__ir_as_int(end, &most)) return s;
  const tn__var *var = name->value.var,
                *known = tn__var_create(ir, var->name, TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, most + 1));
  return tn__ir_let(ir, known, name, tn__stmt_substitute(ir, s, &var, &known->self, 1));
}

/* The loop without clamps where they change nothing, and as it is elsewhere. What is compared does not wrap around,
 * wherever data lead: differences of tensors' ends and what is in front of these are named, and turns are few. */
static const tn__stmt *settle_positions(tn__ir *ir, const tn__stmt *loop) {
  settling p = {.ir = ir};
  if (tn__stmt_weight(loop) > MOST_COPIED) return loop;
  const tn__stmt *settled = settle_inside(&p, loop);
  if (p.count == 0) return loop;
  const tn__var *rooms[MOST_POSITIONS] = {NULL};
  const tn__expr *inside = tn__ir_bool(ir, true);
  for (int i = 0; i < p.turns.count; i++)
    if (!is_outside(&p, p.turns.data[i])) return loop;
  for (int i = 0; i < p.count; i++) {
    const asked *a = &p.asked[i];
    inside = tn__ir_and(ir, inside, tn__ir_le(ir, tn__ir_index(ir, 0), a->first));
    if (a->length == NULL) continue;
    rooms[i] = tn__var_create(ir, "room", TN_I64, NULL, NULL);
    inside = tn__ir_and(ir, inside, tn__ir_le(ir, a->length, rooms[i]->self));
    bool again = false;
    for (int j = 0; j < i; j++) again |= p.asked[j].length == a->length;
    if (!again) settled = with_range(ir, a->length, a->end, settled);
    again = tn__interval_of(ir, a->length).min < 0; /* of a row of no terms nothing is known */
    for (int j = 0; j < i; j++) again |= p.asked[j].length != NULL && p.asked[j].first == a->first;
    if (!again) settled = with_range(ir, a->first, a->end, settled);
  }
  for (int i = 0; i < p.turns.count; i++)
    inside = tn__ir_and(ir, inside, tn__ir_le(ir, p.turns.data[i], tn__ir_index(ir, MOST_TURNS)));
  const tn__stmt *both = tn__ir_if(ir, inside, settled, tn__stmt_rewrite(ir, loop, keep_whole, NULL, NULL));
  for (int i = p.count - 1; i >= 0; i--)
    if (p.asked[i].length != NULL)
      both = tn__ir_let(ir, rooms[i], tn__ir_sub(ir, p.asked[i].end, p.asked[i].first), both);
  return both;
}

/* The statement, in which names are given to what its loops run to. */
static const tn__stmt *settle(tn__ir *ir, const tn__stmt *s) {
  naming n = {.values = {0}};
  contents c = {.ir = ir, .names = &n};
  tn__stmt_walk(s, see_binding, &c);
  name_bounds(ir, &n, s);
  if (n.values.count == 0 || !n.loops) return s;
  tn__stmt_walk(s, see_write, &c);
  if (c.written) return s;
  const tn__stmt *named = settle_positions(ir, tn__stmt_rewrite(ir, s, NULL, give_names, &n));
  for (int i = n.values.count - 1; i >= 0; i--) named = tn__ir_let(ir, n.vars.data[i], n.values.data[i], named);
  return named;
}

static const tn__stmt *settle_body(tn__ir *ir, const tn__stmt *s, void *user) {
  (void)user;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind == TN__LOOP_VECTORIZED) return NULL;
  const tn__stmt *body = settle(ir, s->as.loop.body);
  return body == s->as.loop.body ? NULL : tn__ir_for_like(ir, s, s->as.loop.var, body);
}

tn__func *tn__ir_settle_bounds(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, settle(ir, tn__stmt_rewrite(ir, func->body, settle_body, NULL, NULL)));
}
