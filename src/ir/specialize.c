/* What is left of an open dimension behind its last whole tile gets code of its own for the sizes that it may have.
 *
 * The unrolled loop over a tile's rows keeps the condition likely(row < rest) in the tail, where `rest` is known at run
 * time only. Around a loop over the terms of a sum that is a branch at every row and every turn, and accumulators leave
 * their registers. So the accumulation is copied for values of `rest`, in which the conditions fold when the rows are
 * unrolled, behind a binary search: one micro-kernel for each size, as libraries written by hand have them.
 *
 * Every copy is code to generate, so there are as few, and as little in each, as speed allows:
 * - What follows the sum is a loop over the rows that are there, and stands once behind all copies.
 * - One copy serves two numbers of rows. For the smaller it computes a row twice, from operands that are there.
 * - Reductions that were unrolled to hide the latency of few rows' sums are loops again. */
#include "ir/linear.h"
#include "ir/passes.h"
#include "ir/roll.h"

/* Rows beyond this have no copies, nor has a function that would become longer than this in all. */
enum { MAX_ROWS = 32, MAX_STATEMENTS = 12000 };

typedef struct specializing {
  tn__ir *ir;
  int64_t statements;      /* of the function as it grows, unrolled loops counted as often as they will be expanded */
  const tn__buffer *fresh; /* just allocated: the statement at hand is the first to write to it */
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
  if (s->as.loop.kind == TN__LOOP_UNROLLED && tn__ir_as_int(var->extent, &extent) && extent > 1 && extent <= MAX_ROWS &&
      tn__ir_is_int_value(var->min, 0))
    tn__vec_push(f->ir->arena, &f->rows, var);
  return true;
}

static bool see_repetition(const tn__stmt *s, void *user) {
  search *f = user;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_SERIAL) return true;
  tn__expr_vec likely = tn__ir_likely_in(f->ir, s->as.loop.body);
  for (int i = 0; i < likely.count; i++) tn__vec_push(f->ir->arena, &f->repeated, likely.data[i]);
  return false;
}

/* Reads a condition as row < rest; false when it is not that, or `rest` changes inside of the statement. */
TN_MUST_USE static bool read_guard(search *f, const tn__expr *likely, guard *out) {
  const tn__expr *less = likely->args[0];
  if (less->kind != TN__EXPR_LT || less->args[0]->dtype != TN_I64 || tn__expr_has_load(less)) return false;
  for (int r = 0; r < f->rows.count; r++) {
    const tn__var *row = f->rows.data[r];
    if (!tn__expr_uses_var(less, row)) continue;
    const tn__expr *rest = tn__ir_add(f->ir, tn__ir_sub(f->ir, less->args[1], less->args[0]), row->self);
    for (int i = 0; i < f->inside.count; i++)
      if (tn__expr_uses_var(rest, f->inside.data[i])) return false;
    *out = (guard){likely, rest, row};
    return true;
  }
  return false;
}

typedef struct choice {
  const tn__expr *likely;
  bool found;
} choice;

static const tn__expr *see_choice(tn__ir *ir, const tn__expr *e, void *user) {
  choice *c = user;
  (void)ir;
  c->found |= e->kind == TN__EXPR_SELECT && e->dtype == TN_I64 && e->args[0] == c->likely;
  return NULL;
}

static const tn__expr *see_choices(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, see_choice, user);
}

/* Does the condition choose between positions, as where they start again from the other end? There are rows on both
 * sides of it then. */
static bool chooses_position(tn__ir *ir, const tn__stmt *s, const tn__expr *likely) {
  choice c = {.likely = likely};
  (void)tn__stmt_rewrite(ir, s, NULL, see_choices, &c);
  return c.found;
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
    if (read_guard(&f, f.repeated.data[i], &g) && !tn__ir_is_int(g.rest) &&
        !chooses_position(ir, s, f.repeated.data[i]))
      rest = g.rest;
  if (rest == NULL) return found;
  tn__expr_vec likely = tn__ir_likely_in(ir, s);
  for (int i = 0; i < likely.count; i++)
    if (read_guard(&f, likely.data[i], &g) && g.rest == rest && !chooses_position(ir, s, likely.data[i]))
      tn__vec_push(ir->arena, &found, g);
  return found;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

typedef struct copying {
  tn__ir *ir;
  const guard_vec *guards;
  TN__VEC(const tn__buffer *) own; /* allocated inside of what is copied, and the tile that it fills */
  bool exact;                      /* a row too many would show */
  int64_t least, most;             /* the values of `rest` that the copy serves */
} copying;

static bool is_own(const copying *c, const tn__buffer *buffer) {
  for (int i = 0; i < c->own.count; i++)
    if (c->own.data[i] == buffer) return true;
  return false;
}

static bool uses_row(const copying *c, const tn__expr *e) {
  for (int i = 0; i < c->guards->count; i++)
    if (tn__expr_uses_var(e, c->guards->data[i].row)) return true;
  return false;
}

static bool see_allocation(const tn__stmt *s, void *user) {
  copying *c = user;
  if (s->kind == TN__STMT_ALLOC) tn__vec_push(c->ir->arena, &c->own, s->as.alloc.buffer);
  return true;
}

/* Rows that are not there may be computed only where nobody sees them, and read only through stores' values. */
static bool see_exactness(const tn__stmt *s, void *user) {
  copying *c = user;
  switch (s->kind) {
    case TN__STMT_STORE: c->exact |= !is_own(c, s->as.store.buffer); break;
    case TN__STMT_IF: {
      const tn__expr *condition = s->as.branch.condition;
      for (int i = 0; i < c->guards->count; i++)
        if (condition == c->guards->data[i].likely) return true;
      c->exact |= uses_row(c, condition);
      break;
    }
    case TN__STMT_LET: c->exact |= uses_row(c, s->as.let.value); break;
    case TN__STMT_WHILE:
    case TN__STMT_TENSOR:
    case TN__STMT_BARRIER:
    case TN__STMT_FAIL: c->exact = true; break;
    default: break;
  }
  return true;
}

static const tn__expr *decide(tn__ir *ir, const tn__expr *e, void *user) {
  const copying *c = user;
  for (int i = 0; i < c->guards->count; i++)
    if (c->guards->data[i].likely == e) return tn__ir_lt(ir, c->guards->data[i].row->self, tn__ir_index(ir, c->most));
  return NULL;
}

static const tn__expr *decide_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, decide, user);
}

/* Elements of the copy's own buffers, which have room for all rows, while the rows of others are exchanged. */
typedef struct hiding {
  const copying *copying;
  TN__VEC(const tn__expr *) loads;
  TN__VEC(const tn__var *) stand_ins;
} hiding;

static const tn__expr *hide_own(tn__ir *ir, const tn__expr *e, void *user) {
  hiding *h = user;
  if (e->kind != TN__EXPR_LOAD || !is_own(h->copying, e->value.buffer)) return NULL;
  const tn__var *stand_in = tn__var_create(ir, "own", e->dtype, NULL, NULL);
  tn__vec_push(ir->arena, &h->loads, e);
  tn__vec_push(ir->arena, &h->stand_ins, stand_in);
  return stand_in->self;
}

/* In what is stored, a row that may not be there becomes the last one that is. Rows are constants once unrolled, so
 * that this costs the few rows in question an index. */
static const tn__stmt *exchange_rows(tn__ir *ir, const tn__stmt *s, void *user) {
  const copying *c = user;
  if (s->kind != TN__STMT_STORE || c->least == c->most) return NULL;
  hiding h = {.copying = c};
  const tn__expr *value = tn__expr_rewrite(ir, s->as.store.value, hide_own, &h);
  for (int i = 0; i < c->guards->count; i++) {
    const guard *g = &c->guards->data[i];
    if (!tn__expr_uses_var(value, g->row)) continue;
    const tn__expr *sure = tn__ir_lt(ir, g->row->self, tn__ir_index(ir, c->least));
    const tn__expr *there =
        tn__ir_select(ir, sure, g->row->self, tn__ir_min(ir, g->row->self, tn__ir_add_i(ir, g->rest, -1)));
    value = tn__ir_substitute(ir, value, &g->row, &there, 1);
  }
  value = tn__ir_substitute(ir, value, h.stand_ins.data, h.loads.data, h.loads.count);
  return tn__ir_store_like(ir, s, s->as.store.buffer, s->as.store.indices, value);
}

typedef struct storing {
  const tn__var *var;
  bool moves; /* an element that is stored to */
} storing;

static bool see_store(const tn__stmt *s, void *user) {
  storing *f = user;
  for (int i = 0; s->kind == TN__STMT_STORE && i < s->as.store.buffer->rank; i++)
    f->moves |= tn__expr_uses_var(s->as.store.indices[i], f->var);
  return true;
}

/* for o { unrolled i in [0, n) {...} } over a sum's terms becomes for k {...} again. */
static const tn__stmt *reroll(tn__ir *ir, const tn__stmt *s, void *user) {
  int64_t outer, inner;
  if (s->kind != TN__STMT_FOR || s->as.loop.kind != TN__LOOP_SERIAL) return NULL;
  const tn__stmt *body = s->as.loop.body;
  if (body->kind != TN__STMT_FOR || body->as.loop.kind != TN__LOOP_UNROLLED) return NULL;
  const tn__var *vars[] = {s->as.loop.var, body->as.loop.var};
  storing f = {.var = vars[1]};
  tn__stmt_walk(body->as.loop.body, see_store, &f);
  if (f.moves || !tn__ir_as_int(vars[0]->extent, &outer) || !tn__ir_as_int(vars[1]->extent, &inner) ||
      !tn__ir_is_int_value(vars[0]->min, 0) || !tn__ir_is_int_value(vars[1]->min, 0))
    return NULL;
  const tn__var *all = tn__var_create(ir, vars[0]->name, TN_I64, vars[0]->min, tn__ir_index(ir, outer * inner));
  const tn__expr *parts[] = {tn__ir_div_i(ir, all->self, inner), tn__ir_mod_i(ir, all->self, inner)};
  return tn__ir_for_like(ir, s, all, tn__stmt_substitute(ir, body->as.loop.body, vars, parts, 2));
}

static const tn__stmt *copy_for(copying *c, const tn__stmt *s, int64_t least, int64_t most) {
  c->least = least, c->most = most;
  return tn__stmt_rewrite(c->ir, s, exchange_rows, decide_in_expr, c);
}

/* A search for `rest` in [low, high], which it is known to lie in; each copy serves `step` values, the first perhaps
 * fewer, and 0 has one to itself. */
static const tn__stmt *search_for(copying *c, const tn__stmt *s, int64_t low, int64_t high, int64_t step) {
  if (low > 0 && high - low < step) return copy_for(c, s, low, high);
  if (low == high) return copy_for(c, s, low, high);
  int64_t copies = (high - low + step) / step, above = high - (copies / 2) * step;
  if (low == 0) above = 0;
  const tn__stmt *upper = search_for(c, s, above + 1, high, step);
  return tn__ir_if(c->ir, tn__ir_lt(c->ir, c->guards->data[0].rest, tn__ir_index(c->ir, above + 1)),
                   search_for(c, s, low, above, step), upper);
}

/* ---- what follows the sum ---------------------------------------------------------------------------------------- */

typedef struct holding {
  const guard_vec *guards;
  const tn__var *row; /* another loop's condition may have the same `rest` */
} holding;

static const tn__expr *hold(tn__ir *ir, const tn__expr *e, void *user) {
  const holding *h = user;
  for (int i = 0; i < h->guards->count; i++)
    if (h->guards->data[i].likely == e && h->guards->data[i].row == h->row) return tn__ir_bool(ir, true);
  return NULL;
}

static const tn__expr *hold_in_expr(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, hold, user);
}

/* Its rows as a loop over those that are there; NULL when they are not what is open. */
static const tn__stmt *rows_there(tn__ir *ir, const tn__rolled *parts, const guard_vec *guards) {
  const tn__var *row = parts->rows->as.loop.var;
  bool open = false;
  for (int i = 0; i < guards->count; i++) open |= guards->data[i].row == row;
  if (!open) return NULL;
  const tn__expr *count = tn__ir_min(ir, guards->data[0].rest, row->extent);
  const tn__var *there = tn__var_create(ir, row->name, TN_I64, row->min, count);
  holding h = {guards, row};
  const tn__stmt *body = tn__stmt_rewrite(ir, parts->rows->as.loop.body, NULL, hold_in_expr, &h);
  return tn__ir_for(ir, there, TN__LOOP_SERIAL, tn__stmt_substitute(ir, body, &row, &there->self, 1));
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* The copies for an allocation of accumulators; NULL when there is nothing to copy for, or there would be too many. */
static const tn__stmt *copies_of(specializing *p, const tn__stmt *alloc) {
  tn__ir *ir = p->ir;
  guard_vec guards = guards_in(ir, alloc);
  if (guards.count == 0) return NULL;
  const tn__expr *rest = guards.data[0].rest;
  int64_t high = 1, extent = 0;
  for (int i = 0; i < guards.count; i++)
    if (tn__ir_as_int(guards.data[i].row->extent, &extent) && extent > high) high = extent;
  /* From 0, no row, to `high`, all of them, for whatever lies beyond; mostly fewer are known to be possible. */
  int64_t low = tn__ir_proves_le(ir, tn__ir_index(ir, 1), rest) ? 1 : 0;
  if (tn__ir_proves_le(ir, rest, tn__ir_index(ir, high - 1))) high--;
  int64_t grown = tn__ir_bound_add(p->statements, tn__ir_bound_mul(high - low, tn__stmt_weight(alloc)));
  if (grown > MAX_STATEMENTS) return NULL;
  p->statements = grown;
  tn__rolled parts;
  const tn__stmt *rows = tn__ir_roll(ir, alloc, &parts) ? rows_there(ir, &parts, &guards) : NULL;
  if (rows != NULL) {
    alloc = parts.core;
    guards = guards_in(ir, alloc);
  }
  copying c = {.ir = ir, .guards = &guards};
  tn__stmt_walk(alloc, see_allocation, &c);
  const tn__buffer *tile = rows != NULL ? parts.tile : p->fresh;
  if (tile != NULL) tn__vec_push(ir->arena, &c.own, tile);
  tn__stmt_walk(alloc, see_exactness, &c);
  alloc = tn__stmt_rewrite(ir, alloc, reroll, NULL, NULL);
  const tn__stmt *copies = search_for(&c, alloc, low, high, c.exact ? 1 : 2);
  return rows == NULL ? copies : tn__ir_alloc_stmt(ir, parts.tile, tn__ir_seq2(ir, copies, rows));
}

static const tn__stmt *specialize(specializing *p, const tn__stmt *s) {
  tn__ir *ir = p->ir;
  if (s->kind != TN__STMT_SEQ && s->kind != TN__STMT_ALLOC) p->fresh = NULL;
  switch (s->kind) {
    case TN__STMT_FOR: {
      if (s->as.loop.kind != TN__LOOP_SERIAL && s->as.loop.kind != TN__LOOP_PARALLEL) return s;
      const tn__stmt *body = specialize(p, s->as.loop.body);
      return body == s->as.loop.body ? s : tn__ir_for_like(ir, s, s->as.loop.var, body);
    }
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) {
        items[i] = specialize(p, s->as.seq.items[i]);
        p->fresh = NULL;
      }
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *otherwise = s->as.branch.else_body;
      if (otherwise != NULL) otherwise = specialize(p, otherwise);
      return tn__ir_if(ir, s->as.branch.condition, specialize(p, s->as.branch.then_body), otherwise);
    }
    case TN__STMT_LET: return tn__ir_let(ir, s->as.let.var, s->as.let.value, specialize(p, s->as.let.body));
    case TN__STMT_ALLOC: {
      const tn__stmt *copies = s->as.alloc.buffer->scope == TN__SCOPE_REGISTER ? copies_of(p, s) : NULL;
      if (s->as.alloc.buffer->scope == TN__SCOPE_STACK) p->fresh = s->as.alloc.buffer;
      return copies != NULL ? copies : tn__ir_alloc_stmt(ir, s->as.alloc.buffer, specialize(p, s->as.alloc.body));
    }
    default: return s;
  }
}

tn__func *tn__ir_specialize_tails(tn__ir *ir, const tn__func *func) {
  specializing p = {.ir = ir, .statements = tn__stmt_weight(func->body)};
  return tn__func_with_body(ir, func, specialize(&p, func->body));
}
