/* What is left of an open dimension behind its last whole tile gets code of its own for each size that it may have.
 *
 * The unrolled loop over a tile's rows keeps the condition likely(row < rest) in the tail, where `rest` is known at run
 * time only. Inside of a loop, over the terms of a sum above all, that is a branch at every row and every turn, and
 * accumulators leave their registers. So the body of the outermost loop that does not change `rest` is copied for each
 * value between the least and the most, in which the conditions fold when the rows are unrolled, behind a binary
 * search: one micro-kernel for each row tail, as libraries written by hand have them. */
#include "ir/linear.h"
#include "ir/passes.h"

/* Rows beyond this have no copies, nor has a function that would become longer than this in all. */
enum { MAX_ROWS = 32, MAX_STATEMENTS = 12000 };

typedef struct specializing {
  tn__ir *ir;
  int64_t statements; /* of the function as it grows, unrolled loops counted as often as they will be expanded */
} specializing;

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* likely(row < rest), with the row of an unrolled loop from 0. */
typedef struct guard {
  const tn__expr *likely, *rest;
  const tn__var *row;
} guard;

typedef TN__VEC(guard) guard_vec;

typedef struct search {
  tn__ir *ir;
  TN__VEC(const tn__var *) inside;    /* bound by loops and lets */
  TN__VEC(const tn__var *) rows;      /* of unrolled loops; also in `inside` */
  TN__VEC(const tn__expr *) repeated; /* likely conditions inside of a loop that is not unrolled */
} search;

static bool see_binding(const tn__stmt *s, void *user) {
  search *f = user;
  int64_t extent;
  if (s->kind == TN__STMT_LET) tn__vec_push(f->ir->arena, &f->inside, s->as.let.var);
  if (s->kind != TN__STMT_FOR) return true;
  const tn__var *var = s->as.loop.var;
  tn__vec_push(f->ir->arena, &f->inside, var);
  if (s->as.loop.kind == TN__LOOP_UNROLLED && tn__as_int(var->extent, &extent) && extent > 1 && extent <= MAX_ROWS &&
      tn__is_int_value(var->min, 0))
    tn__vec_push(f->ir->arena, &f->rows, var);
  return true;
}

static bool see_repetition(const tn__stmt *s, void *user) {
  search *f = user;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_SERIAL) return true;
  tn__expr_vec likely = tn__likely_in(f->ir, s->as.loop.body);
  for (int i = 0; i < likely.count; i++) tn__vec_push(f->ir->arena, &f->repeated, likely.data[i]);
  return false;
}

/* Reads a condition as row < rest; false when it is not that, or `rest` changes inside of the statement. */
static bool read_guard(search *f, const tn__expr *likely, guard *out) {
  const tn__expr *less = likely->args[0];
  if (less->kind != TN__EXPR_LT || less->args[0]->dtype != TN_I64 || tn__expr_has_load(less)) return false;
  for (int r = 0; r < f->rows.count; r++) {
    const tn__var *row = f->rows.data[r];
    if (!tn__expr_uses_var(less, row)) continue;
    const tn__expr *rest = tn__add(f->ir, tn__sub(f->ir, less->args[1], less->args[0]), row->self);
    for (int i = 0; i < f->inside.count; i++)
      if (tn__expr_uses_var(rest, f->inside.data[i])) return false;
    *out = (guard){likely, rest, row};
    return true;
  }
  return false;
}

/* Guards with one `rest` in the statement, all that have it, if one of them is passed again and again. */
static guard_vec guards_in(tn__ir *ir, const tn__stmt *s) {
  search f = {.ir = ir};
  guard_vec found = {0};
  guard g;
  tn__stmt_walk(s, see_repetition, &f);
  if (f.repeated.count == 0) return found;
  tn__stmt_walk(s, see_binding, &f);
  const tn__expr *rest = NULL;
  for (int i = 0; i < f.repeated.count && rest == NULL; i++)
    if (read_guard(&f, f.repeated.data[i], &g)) rest = g.rest;
  if (rest == NULL) return found;
  tn__expr_vec likely = tn__likely_in(ir, s);
  for (int i = 0; i < likely.count; i++)
    if (read_guard(&f, likely.data[i], &g) && g.rest == rest) tn__vec_push(ir->arena, &found, g);
  return found;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

typedef struct known {
  const guard_vec *guards;
  int64_t rest;
} known;

static const tn__expr *decide(tn__ir *ir, const tn__expr *e, void *user) {
  const known *k = user;
  for (int i = 0; i < k->guards->count; i++)
    if (k->guards->data[i].likely == e) return tn__lt(ir, k->guards->data[i].row->self, tn__index(ir, k->rest));
  return NULL;
}

static const tn__expr *decide_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, decide, user);
}

/* A search for `rest` in [low, high], which it is known to lie in. */
static const tn__stmt *search_for(tn__ir *ir, const tn__stmt *s, const guard_vec *guards, int64_t low, int64_t high) {
  if (low == high) {
    known k = {guards, low};
    return tn__stmt_rewrite(ir, s, NULL, decide_in_expr, &k);
  }
  int64_t middle = low + (high - low) / 2;
  return tn__if(ir, tn__lt(ir, guards->data[0].rest, tn__index(ir, middle + 1)), search_for(ir, s, guards, low, middle),
                search_for(ir, s, guards, middle + 1, high));
}

/* The copies; NULL when there is nothing to copy for, or there would be too many. */
static const tn__stmt *copies_of(specializing *p, const tn__stmt *s) {
  guard_vec guards = guards_in(p->ir, s);
  if (guards.count == 0) return NULL;
  const tn__expr *rest = guards.data[0].rest;
  int64_t high = 1, extent = 0;
  for (int i = 0; i < guards.count; i++)
    if (tn__as_int(guards.data[i].row->extent, &extent) && extent > high) high = extent;
  /* From 0, no row, to `high`, all of them, for whatever lies beyond; mostly fewer are known to be possible. */
  int64_t low = tn__proves_le(p->ir, tn__index(p->ir, 1), rest) ? 1 : 0;
  if (tn__proves_le(p->ir, rest, tn__index(p->ir, high - 1))) high--;
  int64_t grown = tn__bound_add(p->statements, tn__bound_mul(high - low, tn__stmt_weight(s)));
  if (grown > MAX_STATEMENTS) return NULL;
  p->statements = grown;
  return search_for(p->ir, s, &guards, low, high);
}

static const tn__stmt *specialize(specializing *p, const tn__stmt *s);

static const tn__stmt *specialize_body(specializing *p, const tn__stmt *body) {
  const tn__stmt *copies = copies_of(p, body);
  return copies != NULL ? copies : specialize(p, body);
}

static const tn__stmt *specialize(specializing *p, const tn__stmt *s) {
  tn__ir *ir = p->ir;
  switch (s->kind) {
    case TN__STMT_FOR: {
      if (s->as.loop.kind != TN__LOOP_SERIAL && s->as.loop.kind != TN__LOOP_PARALLEL) return s;
      const tn__stmt *body = specialize_body(p, s->as.loop.body);
      return body == s->as.loop.body ? s : tn__for_like(ir, s, s->as.loop.var, body);
    }
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = specialize(p, s->as.seq.items[i]);
      return tn__seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *otherwise = s->as.branch.else_body;
      return tn__if(ir, s->as.branch.condition, specialize_body(p, s->as.branch.then_body),
                    otherwise == NULL ? NULL : specialize_body(p, otherwise));
    }
    case TN__STMT_LET: return tn__let(ir, s->as.let.var, s->as.let.value, specialize_body(p, s->as.let.body));
    case TN__STMT_ALLOC: return tn__alloc_stmt(ir, s->as.alloc.buffer, specialize(p, s->as.alloc.body));
    default: return s;
  }
}

tn__func *tn__specialize_tails(tn__ir *ir, const tn__func *func) {
  specializing p = {.ir = ir, .statements = tn__stmt_weight(func->body)};
  return tn__func_with_body(ir, func, specialize(&p, func->body));
}
