/* Loops are split where their likely() conditions become always true.
 *
 * For a loop over v every condition a < b in its body is bounded over the loops inside: it holds for all of their
 * iterations when the smallest b - a, an expression of v and what is outside, is positive. Where that is c * v + r with
 * a constant c < 0, a serial loop is split at the first v that fails: an interior that has lost the condition, then the
 * tail. With c > 0 it is a head that may fail, then the interior. A parallel loop stays whole, so that its tail is
 * worked on in parallel too, and chooses between the two bodies.
 * In the tail a quotient or variable that can only have one value left is replaced by that value: with constant shapes
 * the tail's conditions then fold when its loops are unrolled. */
#include <math.h>

#include "ir/linear.h"
#include "ir/passes.h"

/* Of one nest, and of all together. */
enum { MAX_STATEMENTS = 6000, MAX_OF_ALL = 4 * MAX_STATEMENTS };

/* A border of at most one of so many iterations is rare, in a nest that calls functions: in it only lanes are told
 * apart, and from the second number on nothing. */
enum { RARE = 16, RAREST = 256 };

typedef struct partitioning {
  tn__ir *ir;
  int64_t statements; /* of the nest as it grows, unrolled loops counted as often as they will be expanded */
  int64_t all;        /* of the function */
  bool in_nest;
  bool is_dear; /* the nest calls functions: each copy is much code */
  double share; /* of a nest's iterations, at the least, what is inside of the borders that are being cut */
  TN__VEC(const tn__var *) names; /* of lets around */
} partitioning;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

typedef struct census {
  tn__ir *ir;
  TN__VEC(const tn__var *) loops;
  TN__VEC(const tn__stmt *) statements; /* the same loops */
  TN__VEC(const tn__var *) lets;
} census;

static bool count_bindings(const tn__stmt *s, void *user) {
  census *c = user;
  if (s->kind == TN__STMT_FOR) {
    tn__vec_push(c->ir->arena, &c->loops, s->as.loop.var);
    tn__vec_push(c->ir->arena, &c->statements, s);
  }
  if (s->kind == TN__STMT_LET) tn__vec_push(c->ir->arena, &c->lets, s->as.let.var);
  return true;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

/* A likely() condition seen from a loop: for all iterations of the loops inside it holds exactly when atom < limit, or,
 * `from_below`, when limit <= atom. */
typedef struct condition {
  const tn__expr *likely;
  const tn__expr *atom, *limit; /* only `atom` depends on the loop's variable */
  const tn__expr *gone;         /* from here on, or below here, it fails in all iterations; NULL: unknown */
  bool from_below;
  bool exact;    /* no loop inside matters: where the comparison fails, the condition fails */
  bool single;   /* the same, but for loops of one iteration */
  bool of_rows;  /* a loop over rows inside can be split by it, and nothing in that loop matters */
  bool of_lanes; /* lanes of a vector inside differ in it */
} condition;

typedef TN__VEC(condition) condition_vec;

/* The smallest b - a of the condition a < b over the loops inside; NULL when it is not known. `*most` is the largest,
 * or NULL. */
static const tn__expr *slack_of(partitioning *p, const census *c, const tn__expr *likely, bool *exact, bool *single,
                                const tn__expr **most) {
  const tn__expr *less = likely->args[0];
  if (less->kind != TN__EXPR_LT || less->args[0]->dtype != TN_I64 || tn__expr_has_load(less)) return NULL;
  for (int i = 0; i < c->lets.count; i++)
    if (tn__expr_uses_var(less, c->lets.data[i])) return NULL;
  const tn__var **inside = TN__NEW_ARRAY(p->ir->arena, c->loops.count, const tn__var *);
  const tn__expr *slack = tn__ir_sub(p->ir, less->args[1], less->args[0]), *low, *high;
  int count = 0;
  *single = true;
  for (int i = 0; i < c->loops.count; i++) {
    if (!tn__expr_uses_var(slack, c->loops.data[i])) continue;
    *single = *single && tn__ir_is_int_value(c->loops.data[i]->extent, 1);
    inside[count++] = c->loops.data[i];
  }
  *exact = count == 0;
  if (!tn__ir_bounds_over(p->ir, slack, inside, count, &low, &high)) return NULL;
  *most = high;
  for (int i = 0; i < c->loops.count; i++) {
    if (tn__expr_uses_var(low, c->loops.data[i])) return NULL;
    if (tn__expr_uses_var(high, c->loops.data[i])) *most = NULL;
  }
  for (int i = 0; i < c->lets.count; i++) { /* in bounds of these loops */
    if (tn__expr_uses_var(low, c->lets.data[i])) return NULL;
    if (tn__expr_uses_var(high, c->lets.data[i])) *most = NULL;
  }
  return low;
}

/* slack > 0 as a comparison of atom, when slack == step * atom + rest and `atom` alone depends on var. */
TN_MUST_USE static bool solve(tn__ir *ir, const tn__expr *slack, const tn__var *var, condition *out) {
  tn__linear l, rest;
  tn__linear_init(&l);
  tn__linear_init(&rest);
  tn__linear_add(ir, &l, slack, 1);
  rest.constant = l.constant;
  tn__term moving = {0};
  for (int i = 0; i < l.count; i++) {
    if (!tn__expr_uses_var(l.terms[i].atom, var)) {
      tn__linear_add_term(ir, &rest, l.terms[i].atom, l.terms[i].coefficient);
    } else if (moving.atom != NULL) {
      return false;
    } else {
      moving = l.terms[i];
    }
  }
  if (moving.atom == NULL || moving.coefficient == INT64_MIN) return false;
  const tn__expr *constant = tn__linear_build(ir, &rest);
  out->atom = moving.atom;
  out->from_below = moving.coefficient > 0;
  if (out->from_below)
    out->limit =
        tn__ir_ceildiv(ir, tn__ir_sub(ir, tn__ir_index(ir, 1), constant), tn__ir_index(ir, moving.coefficient));
  else
    out->limit = tn__ir_ceildiv(ir, constant, tn__ir_index(ir, -moving.coefficient));
  return true;
}

typedef struct stores {
  const tn__var *var;
  bool all; /* are what is looked for */
} stores;

/* Has it the variable in an index? Others take results out of registers. */
static bool see_store(const tn__stmt *s, void *user) {
  stores *seen = user;
  bool found = false;
  if (s->kind != TN__STMT_STORE || s->as.store.buffer->scope == TN__SCOPE_REGISTER) return true;
  for (int d = 0; d < s->as.store.buffer->rank; d++) found |= tn__expr_uses_var(s->as.store.indices[d], seen->var);
  seen->all &= found;
  return true;
}

/* Is the innermost of the loops that matter to the condition a serial one over what its statements store? */
static bool is_of_rows(partitioning *p, const census *c, const tn__expr *likely) {
  const tn__stmt *inner = NULL;
  tn__linear slack;
  for (int i = 0; i < c->statements.count; i++)
    if (tn__expr_uses_var(likely, c->statements.data[i]->as.loop.var)) inner = c->statements.data[i];
  if (inner == NULL || inner->as.loop.kind != TN__LOOP_SERIAL || inner->as.loop.pragmas.value[TN__PRAGMA_WHOLE] != 0)
    return false;
  tn__linear_init(&slack);
  tn__linear_add(p->ir, &slack, likely->args[0]->args[0], 1);
  tn__linear_add(p->ir, &slack, likely->args[0]->args[1], -1);
  stores seen = {.var = inner->as.loop.var, .all = true};
  tn__stmt_walk(inner->as.loop.body, see_store, &seen);
  return seen.all && tn__linear_coefficient(&slack, seen.var->self) != 0;
}

static bool is_of_lanes(const census *c, const tn__expr *likely) {
  for (int i = 0; i < c->statements.count; i++) {
    const tn__stmt *loop = c->statements.data[i];
    if (loop->as.loop.kind == TN__LOOP_VECTORIZED && tn__expr_uses_var(likely, loop->as.loop.var)) return true;
  }
  return false;
}

static condition_vec conditions_in(partitioning *p, const tn__stmt *body, const tn__var *var) {
  census c = {.ir = p->ir};
  condition_vec found = {0};
  tn__expr_vec likely = tn__ir_likely_in(p->ir, body);
  if (likely.count == 0) return found;
  tn__stmt_walk(body, count_bindings, &c);
  for (int i = 0; i < likely.count; i++) {
    condition k = {.likely = likely.data[i]};
    if (!tn__expr_uses_var(k.likely, var)) continue;
    const tn__expr *most = NULL, *slack = slack_of(p, &c, k.likely, &k.exact, &k.single, &most);
    if (slack == NULL || !solve(p->ir, slack, var, &k)) continue;
    condition last = {0};
    if (most != NULL && solve(p->ir, most, var, &last) && last.atom == k.atom && last.from_below == k.from_below)
      k.gone = last.limit;
    k.of_rows = !k.exact && is_of_rows(p, &c, k.likely);
    k.of_lanes = is_of_lanes(&c, k.likely);
    tn__vec_push(p->ir->arena, &found, k);
  }
  return found;
}

/* ---- rebuilding -------------------------------------------------------------------------------------------------- */

typedef struct decision {
  const condition_vec *conditions;
  const condition *chosen; /* decided by its comparison */
  bool holds;
} decision;

/* Is `a` wherever it holds at least as narrow as `b`? Both compare the same atom. */
static bool implies(tn__ir *ir, const condition *a, const condition *b) {
  if (a->from_below != b->from_below) return false;
  return a->from_below ? tn__ir_proves_le(ir, b->limit, a->limit) : tn__ir_proves_le(ir, a->limit, b->limit);
}

/* The value of a likely() node where the chosen condition holds, or fails for its part. */
static const tn__expr *decide(tn__ir *ir, const tn__expr *e, void *user) {
  const decision *d = user;
  if (e->kind != TN__EXPR_CALL || e->intrinsic != TN__CALL_LIKELY) return NULL;
  for (int i = 0; i < d->conditions->count; i++) {
    const condition *k = &d->conditions->data[i];
    if (k->likely != e || k->atom != d->chosen->atom) continue;
    if (d->holds && implies(ir, d->chosen, k)) return tn__ir_bool(ir, true);
    if (!d->holds && k->single && implies(ir, k, d->chosen)) return tn__ir_bool(ir, false);
  }
  return NULL;
}

static const tn__expr *decide_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, decide, user);
}

static const tn__stmt *decided(partitioning *p, const tn__stmt *body, const condition_vec *conditions,
                               const condition *chosen, bool holds) {
  decision d = {.conditions = conditions, .chosen = chosen, .holds = holds};
  return tn__stmt_rewrite(p->ir, body, NULL, decide_in_expr, &d);
}

typedef struct replacement {
  const tn__expr *from, *to;
} replacement;

static const tn__expr *replace_node(tn__ir *ir, const tn__expr *e, void *user) {
  const replacement *r = user;
  return e == r->from ? r->to : NULL;
}

static const tn__expr *replace_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, replace_node, user);
}

static const tn__stmt *replace(partitioning *p, const tn__stmt *s, const tn__expr *from, const tn__expr *to) {
  if (from->kind == TN__EXPR_VAR) return tn__stmt_substitute(p->ir, s, &from->value.var, &to, 1);
  replacement r = {.from = from, .to = to};
  return tn__stmt_rewrite(p->ir, s, NULL, replace_in_expr, &r);
}

static bool may_copy(partitioning *p, const tn__stmt *body) {
  int64_t more = tn__stmt_weight(body), grown = tn__ir_bound_add(p->statements, more),
          all = tn__ir_bound_add(p->all, more);
  if (grown > MAX_STATEMENTS || all > MAX_OF_ALL) return false;
  p->statements = grown;
  p->all = all;
  return true;
}

typedef struct places {
  const tn__var *var;
  bool found; /* of registers, that the variable tells */
} places;

static void see_place(const tn__buffer *buffer, const tn__expr *const *indices, places *seen) {
  for (int d = 0; buffer->scope == TN__SCOPE_REGISTER && d < buffer->rank; d++)
    seen->found |= tn__expr_uses_var(indices[d], seen->var);
}

static const tn__expr *see_load(tn__ir *ir, const tn__expr *e, void *user) {
  (void)ir;
  if (e->kind == TN__EXPR_LOAD) see_place(e->value.buffer, e->args, user);
  return NULL;
}

typedef struct place_search {
  tn__ir *ir;
  places seen;
} place_search;

static void see_loads(const tn__expr *e, void *user) {
  place_search *search = user;
  (void)tn__expr_rewrite(search->ir, e, see_load, &search->seen);
}

static bool see_stored(const tn__stmt *s, void *user) {
  place_search *search = user;
  if (s->kind == TN__STMT_STORE) see_place(s->as.store.buffer, s->as.store.indices, &search->seen);
  return true;
}

/* Terms that are written out are loops again; places in registers must stay numbers. */
static const tn__stmt *roll_up(tn__ir *ir, const tn__stmt *s, void *user) {
  (void)user;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_UNROLLED) return NULL;
  place_search search = {.ir = ir, .seen.var = s->as.loop.var};
  tn__stmt_walk(s->as.loop.body, see_stored, &search);
  tn__stmt_walk_exprs(s->as.loop.body, see_loads, &search);
  const tn__loop_pragmas whole = {.value[TN__PRAGMA_WHOLE] = 1};
  return search.seen.found ? NULL : tn__ir_for_with(ir, s->as.loop.var, TN__LOOP_SERIAL, &whole, s->as.loop.body);
}

static const tn__stmt *rolled_up(partitioning *p, const tn__stmt *body) {
  return tn__stmt_rewrite(p->ir, body, roll_up, NULL, NULL);
}

/* What a border's copy of the body is: the body; where there is no room for it, the body with its terms as loops again,
 * if that is short beside it, which is less than a condition for each term in all of the body; else NULL. */
static const tn__stmt *copy_for_border(partitioning *p, const tn__stmt *body) {
  enum { SHORT = 4 };
  if (may_copy(p, body)) return body;
  const tn__stmt *brief = rolled_up(p, body);
  const int64_t more = tn__stmt_weight(brief);
  if (tn__ir_bound_mul(more, SHORT) > tn__stmt_weight(body)) return NULL;
  p->statements += more;
  p->all += more;
  return brief;
}

static bool is_rare(const partitioning *p) { return p->is_dear && p->share * RARE <= 1; }

static const tn__stmt *partition(partitioning *p, const tn__stmt *s);
static const tn__stmt *partition_loop(partitioning *p, const tn__stmt *s, bool may_split);

/* A loop over [min, min + extent) with the body of `loop`, whose variable `body` still reads. */
static const tn__stmt *piece(partitioning *p, const tn__stmt *loop, const tn__stmt *body, const tn__expr *min,
                             const tn__expr *extent, bool may_split) {
  const tn__var *var = loop->as.loop.var;
  const tn__var *fresh = tn__var_create(p->ir, var->name, TN_I64, min, extent);
  body = tn__stmt_substitute(p->ir, body, &var, &fresh->self, 1);
  return partition_loop(p, tn__ir_for_like(p->ir, loop, fresh, body), may_split);
}

/* What is left of a loop, where a condition fails in some of the loops inside: a few iterations become one piece each,
 * so that the condition can be known there. */
static const tn__stmt *border(partitioning *p, const tn__stmt *loop, const tn__stmt *body, const tn__expr *min,
                              const tn__expr *extent, bool exact) {
  enum { MOST = 4 };
  const tn__stmt *pieces[MOST];
  int64_t count;
  if (exact || is_rare(p) || !tn__ir_as_int(extent, &count) || count < 2 || count > MOST)
    return piece(p, loop, body, min, extent, false);
  for (int64_t i = 1; i < count; i++)
    if (!may_copy(p, body)) return piece(p, loop, body, min, extent, false);
  for (int64_t i = 0; i < count; i++)
    pieces[i] = piece(p, loop, body, tn__ir_add_i(p->ir, min, i), tn__ir_index(p->ir, 1), false);
  return tn__ir_seq(p->ir, pieces, (int)count);
}

/* ---- what is left where a condition fails ------------------------------------------------------------------------ */

/* Is it `value` combined with an identity, by the way it is written? The sign of a zero is not looked at. */
static bool adds_nothing(const tn__expr *value, const tn__expr *was) {
  if (value == was) return true;
  if (value->arg_count != 2 || (value->args[0] != was && value->args[1] != was)) return false;
  const tn__expr *other = value->args[value->args[0] == was];
  if (other->kind != TN__EXPR_FLOAT) return false; /* of integers, the constructors have seen to it */
  switch (value->kind) {
    case TN__EXPR_ADD: return other->value.f == 0;
    case TN__EXPR_MUL: return other->value.f == 1;
    case TN__EXPR_MAX: return other->value.f == -INFINITY;
    case TN__EXPR_MIN: return other->value.f == INFINITY;
    default: return false;
  }
}

/* Does the statement change nothing? */
static bool does_nothing(tn__ir *ir, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_FOR: return does_nothing(ir, s->as.loop.body);
    case TN__STMT_IF:
      return does_nothing(ir, s->as.branch.then_body) &&
             (s->as.branch.else_body == NULL || does_nothing(ir, s->as.branch.else_body));
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++)
        if (!does_nothing(ir, s->as.seq.items[i])) return false;
      return true;
    case TN__STMT_STORE:
      return adds_nothing(s->as.store.value, tn__ir_load(ir, s->as.store.buffer, s->as.store.indices));
    default: return false;
  }
}

static const tn__expr *fail(tn__ir *ir, const tn__expr *e, void *user) {
  const condition *k = *(const condition *const *)user;
  return e == k->likely ? tn__ir_bool(ir, false) : NULL;
}

static const tn__expr *fail_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, fail, user);
}

/* Is there nothing to do where the condition fails in all iterations of the loops inside? A sum under a mask that has
 * an end is over there. */
static bool is_over(partitioning *p, const tn__stmt *body, const condition *k) {
  if (k->gone == NULL || k->exact) return false;
  return does_nothing(p->ir, tn__stmt_rewrite(p->ir, body, NULL, fail_in_expr, &k));
}

/* Are many iterations between `from` and `to`, where a condition fails in all loops inside? */
static bool fails_long(partitioning *p, const condition *k, const tn__expr *from, const tn__expr *to) {
  enum { LEAST = 2 };
  return k->gone != NULL && !k->exact && tn__interval_of(p->ir, tn__ir_sub(p->ir, to, from)).max >= LEAST;
}

/* Which share of the loop's iterations lies between `from` and `to`; 1: it is open. */
static double share_of(partitioning *p, const tn__stmt *loop, const tn__expr *from, const tn__expr *to) {
  int64_t all, few;
  bool known = tn__ir_as_int(loop->as.loop.var->extent, &all) && tn__ir_as_int(tn__ir_sub(p->ir, to, from), &few);
  return known && few < all ? (double)few / (double)all : 1;
}

/* Where the condition no longer holds everywhere: the iterations in which it holds for some of the loops inside, and
 * those in which it holds for none. The part of a row that starts again from its other end is as long as the first. */
static const tn__stmt *cut_outside(partitioning *p, const tn__stmt *loop, const tn__stmt *other, const condition *k,
                                   const tn__expr *from, const tn__expr *to) {
  const tn__expr *gone = k->gone == NULL ? NULL : tn__ir_max(p->ir, tn__ir_min(p->ir, k->gone, to), from);
  bool cuts = gone != NULL && fails_long(p, k, k->from_below ? from : gone, k->from_below ? gone : to);
  if (!cuts || !may_copy(p, other)) return border(p, loop, other, from, tn__ir_sub(p->ir, to, from), k->exact);
  const tn__stmt *failed = tn__stmt_rewrite(p->ir, other, NULL, fail_in_expr, &k);
  if (k->from_below) {
    failed = piece(p, loop, failed, from, tn__ir_sub(p->ir, gone, from), true);
    return tn__ir_seq2(p->ir, failed, border(p, loop, other, gone, tn__ir_sub(p->ir, to, gone), false));
  }
  const tn__stmt *some = border(p, loop, other, from, tn__ir_sub(p->ir, gone, from), false);
  return tn__ir_seq2(p->ir, some, piece(p, loop, failed, gone, tn__ir_sub(p->ir, to, gone), true));
}

/* The borders of one axis are cut at those of another, into corners. Where they are rare, only lanes are told apart,
 * and code is short. */
static const tn__stmt *outside(partitioning *p, const tn__stmt *loop, const tn__stmt *other, const condition *k,
                               const tn__expr *from, const tn__expr *to) {
  const double around = p->share;
  bool was_rare = is_rare(p);
  p->share *= share_of(p, loop, from, to);
  if (is_rare(p) && !was_rare) other = rolled_up(p, other);
  const tn__stmt *cut = cut_outside(p, loop, other, k, from, to);
  p->share = around;
  return cut;
}

/* Is it a tile of several stages, nests that follow each other? Each of them is cut in its own loop over rows, which is
 * as cheap, and a copy of one statement where one of the tile is one of all of them. */
static bool holds_stages(const tn__stmt *body) {
  int nests = 0;
  while (body->kind == TN__STMT_ALLOC) body = body->as.alloc.body;
  for (int i = 0; body->kind == TN__STMT_SEQ && i < body->as.seq.count; i++) {
    const tn__stmt *s = body->as.seq.items[i];
    while (s->kind == TN__STMT_ALLOC) s = s->as.alloc.body;
    nests += s->kind == TN__STMT_FOR || s->kind == TN__STMT_SEQ;
  }
  return nests > 1;
}

static bool see_no_store(const tn__stmt *s, void *user) {
  stores *seen = user;
  if (s->kind != TN__STMT_STORE) return true;
  for (int d = 0; d < s->as.store.buffer->rank; d++)
    seen->all = seen->all && !tn__expr_uses_var(s->as.store.indices[d], seen->var);
  return true;
}

static bool is_over_terms(const tn__stmt *loop) {
  stores seen = {.var = loop->as.loop.var, .all = true};
  tn__stmt_walk(loop->as.loop.body, see_no_store, &seen);
  return seen.all;
}

/* Is the condition as good where it stands? */
static bool stays_inside(const partitioning *p, const tn__stmt *loop, const condition *k) {
  return is_rare(p) && (!k->of_lanes || p->share * RAREST <= 1 || is_over_terms(loop));
}

/* `last`, the one iteration of a loop that is left at its end. Where another condition leaves it nothing to do, as of
 * the last block of a row under a mask that ends before, it is not gone through. */
static const tn__stmt *unless_over(partitioning *p, const tn__stmt *loop, const condition_vec *conditions,
                                   const tn__expr *at, const tn__stmt *last) {
  const tn__expr *runs = tn__ir_bool(p->ir, true);
  for (int i = 0; i < conditions->count; i++) {
    const condition *k = &conditions->data[i];
    if (k->atom != loop->as.loop.var->self || k->from_below || !is_over(p, loop->as.loop.body, k)) continue;
    const tn__expr *some = tn__ir_lt(p->ir, at, k->gone);
    if (!tn__ir_prove(p->ir, some)) runs = tn__ir_and(p->ir, runs, some);
  }
  return tn__ir_is_true(runs) ? last : tn__ir_if(p->ir, runs, last, NULL);
}

/* Splits a serial loop where the first of its conditions may begin, or cease, to fail; NULL when there is no such
 * place.
 */
static const tn__stmt *split(partitioning *p, const tn__stmt *loop) {
  const tn__var *var = loop->as.loop.var;
  const tn__stmt *body = loop->as.loop.body;
  condition_vec conditions = conditions_in(p, body, var);
  for (int i = 0; i < conditions.count; i++) {
    const condition *k = &conditions.data[i];
    const tn__expr *end = tn__ir_add(p->ir, var->min, var->extent);
    bool never_holds =
        k->from_below ? tn__ir_proves_le(p->ir, end, k->limit) : tn__ir_proves_le(p->ir, k->limit, var->min);
    if (k->atom != var->self || never_holds || (k->of_rows && holds_stages(body))) continue;
    if (stays_inside(p, loop, k)) continue;
    const tn__stmt *copy = k->exact ? body : copy_for_border(p, body);
    if (copy == NULL) continue;
    const tn__expr *limit = tn__ir_max(p->ir, tn__ir_min(p->ir, k->limit, end), var->min);
    const tn__expr *below = tn__ir_sub(p->ir, limit, var->min), *rest = tn__ir_sub(p->ir, end, limit);
    const tn__stmt *interior = decided(p, body, &conditions, k, true), *other = decided(p, copy, &conditions, k, false);
    bool over = is_over(p, body, k);
    const tn__expr *gone = over ? tn__ir_max(p->ir, tn__ir_min(p->ir, k->gone, end), var->min) : NULL;
    if (over && k->from_below) below = tn__ir_sub(p->ir, limit, gone);
    if (over && !k->from_below) rest = tn__ir_sub(p->ir, gone, limit);
    /* The condition is still in the head or tail, where it must not be found again. */
    if (k->from_below) {
      other = over ? border(p, loop, other, gone, below, k->exact) : outside(p, loop, other, k, var->min, limit);
      return tn__ir_seq2(p->ir, other, piece(p, loop, interior, limit, rest, true));
    }
    interior = piece(p, loop, interior, var->min, below, true);
    other = over ? border(p, loop, other, limit, rest, k->exact) : outside(p, loop, other, k, limit, end);
    if (tn__ir_is_int_value(rest, 1)) other = unless_over(p, loop, &conditions, limit, other);
    return tn__ir_seq2(p->ir, interior, other);
  }
  return NULL;
}

/* What was found not to hold on the way to a body. */
typedef struct refuted {
  const tn__expr *holds;
  const struct refuted *before;
} refuted;

static bool is_refuted(const refuted *r, const tn__expr *holds) {
  while (r != NULL && r->holds != holds) r = r->before;
  return r != NULL;
}

/* Inside of a loop that stays whole: one body for when a condition always holds and one for the rest. */
static const tn__stmt *choose(partitioning *p, const tn__stmt *loop, const tn__stmt *body, int depth,
                              const refuted *gone) {
  condition_vec conditions = conditions_in(p, body, loop->as.loop.var);
  for (int i = 0; i < conditions.count && depth < 3; i++) {
    const condition *k = &conditions.data[i];
    if (k->exact || (k->of_rows && holds_stages(body))) continue; /* as cheap where it stands */
    const tn__expr *holds = k->from_below ? tn__ir_le(p->ir, k->limit, k->atom) : tn__ir_lt(p->ir, k->atom, k->limit);
    if (tn__ir_is_false(holds) || is_refuted(gone, holds) || (stays_inside(p, loop, k) && !tn__ir_is_true(holds)))
      continue;
    if (!tn__ir_is_true(holds) && !may_copy(p, body)) continue;
    const tn__stmt *interior = choose(p, loop, decided(p, body, &conditions, k, true), depth + 1, gone);
    if (tn__ir_is_true(holds)) return interior;
    const tn__stmt *tail = decided(p, body, &conditions, k, false);
    tn__interval range = tn__interval_of(p->ir, k->atom);
    int64_t limit;
    if (tn__ir_as_int(k->limit, &limit) && (k->from_below ? range.min == limit - 1 : range.max == limit))
      tail = replace(p, tail, k->atom, tn__ir_index(p->ir, k->from_below ? limit - 1 : limit));
    refuted with = {.holds = holds, .before = gone};
    return tn__ir_if(p->ir, holds, interior, choose(p, loop, tail, depth + 1, &with));
  }
  return body;
}

static bool notice_loop(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR) *(bool *)user = true;
  return true;
}

static bool has_loop(const tn__stmt *s) {
  bool found = false;
  tn__stmt_walk(s, notice_loop, &found);
  return found;
}

/* What is left behind the last whole vector of a row is a condition and no loop, where data say how long the row is:
 * the other parts of it stand beside it then, in registers. */
static bool is_one_at_most(partitioning *p, const tn__var *var) {
  bool named = false;
  for (int i = 0; i < p->names.count; i++) named |= tn__expr_uses_var(var->extent, p->names.data[i]);
  return named && tn__interval_of(p->ir, var->min).max != INT64_MAX &&
         tn__ir_proves_le(p->ir, var->extent, tn__ir_index(p->ir, 1));
}

static const tn__stmt *partition_loop(partitioning *p, const tn__stmt *s, bool may_split) {
  const tn__var *var = s->as.loop.var;
  const tn__stmt *body = s->as.loop.body;
  if (tn__interval_of(p->ir, var->extent).max <= 0) return tn__ir_seq(p->ir, NULL, 0);
  if (tn__ir_is_int_value(var->extent, 1)) return partition(p, tn__stmt_substitute(p->ir, body, &var, &var->min, 1));
  if (s->as.loop.kind == TN__LOOP_VECTORIZED) return s;
  if (s->as.loop.kind == TN__LOOP_SERIAL && is_one_at_most(p, var)) {
    const tn__expr *runs = tn__ir_lt(p->ir, tn__ir_index(p->ir, 0), var->extent);
    return tn__ir_if(p->ir, runs, partition(p, tn__stmt_substitute(p->ir, body, &var, &var->min, 1)), NULL);
  }
  may_split = may_split && s->as.loop.pragmas.value[TN__PRAGMA_WHOLE] == 0;
  if (s->as.loop.kind == TN__LOOP_SERIAL && may_split) {
    const tn__stmt *pieces = split(p, s);
    if (pieces != NULL) return pieces;
  }
  if (may_split && s->as.loop.kind != TN__LOOP_UNROLLED && has_loop(body)) body = choose(p, s, body, 0, NULL);
  body = partition(p, body);
  return body == s->as.loop.body ? s : tn__ir_for_like(p->ir, s, var, body);
}

static void see_functions(const tn__expr *e, void *user) {
  partitioning *p = user;
  tn__expr_set seen = {.ir = p->ir};
  p->is_dear = p->is_dear || tn__ir_has_function(&seen, e);
}

/* Nests that stand one behind the other don't take each other's room. */
static const tn__stmt *partition_nest(partitioning *p, const tn__stmt *s) {
  p->is_dear = false;
  tn__stmt_walk_exprs(s, see_functions, p);
  p->statements = tn__stmt_weight(s);
  p->in_nest = true;
  s = partition_loop(p, s, true);
  p->in_nest = false;
  return s;
}

static const tn__stmt *partition(partitioning *p, const tn__stmt *s) {
  tn__ir *ir = p->ir;
  switch (s->kind) {
    case TN__STMT_FOR: return p->in_nest ? partition_loop(p, s, true) : partition_nest(p, s);
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = partition(p, s->as.seq.items[i]);
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *then_body = partition(p, s->as.branch.then_body);
      return tn__ir_if(ir, s->as.branch.condition, then_body,
                       s->as.branch.else_body == NULL ? NULL : partition(p, s->as.branch.else_body));
    }
    case TN__STMT_LET: {
      tn__vec_push(ir->arena, &p->names, s->as.let.var);
      const tn__stmt *body = partition(p, s->as.let.body);
      p->names.count--;
      return tn__ir_let(ir, s->as.let.var, s->as.let.value, body);
    }
    case TN__STMT_ALLOC: return tn__ir_alloc_stmt(ir, s->as.alloc.buffer, partition(p, s->as.alloc.body));
    case TN__STMT_WHILE: return tn__ir_while(ir, s->as.repeat.condition, partition(p, s->as.repeat.body));
    case TN__STMT_STORE:
    case TN__STMT_FAIL:
    case TN__STMT_BARRIER:
    case TN__STMT_PREFETCH:
    case TN__STMT_TENSOR: /* whole, or it is not that instruction */
    case TN__STMT_BLOCK: break;
  }
  return s;
}

const tn__stmt *tn__ir_partition_nest(tn__ir *ir, const tn__stmt *nest) {
  partitioning p = {.ir = ir, .share = 1, .all = tn__stmt_weight(nest)};
  return partition(&p, nest);
}

tn__func *tn__ir_partition_loops(tn__ir *ir, const tn__func *func) {
  partitioning p = {.ir = ir, .share = 1, .all = tn__stmt_weight(func->body)};
  return tn__func_with_body(ir, func, partition(&p, func->body));
}
