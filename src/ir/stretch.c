/* Splits bodies by run-time broadcasting. The index into a dimension that may be broadcast is select(size == 1, 0,
 * i). In a scalar loop this is a loop-invariant choice. In a vector it would turn every access into a gather, even
 * for the usual equal sizes. So the function gets two bodies: one with the index i, for sizes that broadcast nothing
 * in a vector, and the original one. */
#include "ir/linear.h"
#include "ir/passes.h"

typedef struct stretching {
  tn__ir *ir;
  TN__VEC(const tn__var *) bound; /* variables bound by loops and lets */
  TN__VEC(const tn__var *) lanes; /* variables of vectorised loops */
  TN__VEC(const tn__expr *) conditions;
} stretching;

static bool see_variables(const tn__stmt *s, void *user) {
  stretching *f = user;
  if (s->kind == TN__STMT_LET) tn__vec_push(f->ir->arena, &f->bound, s->as.let.var);
  if (s->kind != TN__STMT_FOR) return true;
  tn__vec_push(f->ir->arena, &f->bound, s->as.loop.var);
  if (s->as.loop.kind == TN__LOOP_VECTORIZED) tn__vec_push(f->ir->arena, &f->lanes, s->as.loop.var);
  return true;
}

/* Matches select(size == 1, 0, i) for a size parameter of the function. */
static bool stretches(const stretching *f, const tn__expr *e) {
  if (e->kind != TN__EXPR_SELECT || e->dtype != TN_I64 || !tn__ir_is_int_value(e->args[1], 0)) return false;
  const tn__expr *c = e->args[0];
  if (c->kind != TN__EXPR_EQ || c->args[0]->dtype != TN_I64 || tn__expr_has_load(c)) return false;
  if (!tn__ir_is_int_value(c->args[0], 1) && !tn__ir_is_int_value(c->args[1], 1)) return false;
  for (int i = 0; i < f->bound.count; i++)
    if (tn__expr_uses_var(c, f->bound.data[i])) return false;
  return true;
}

static const tn__expr *see_select(tn__ir *ir, const tn__expr *e, void *user) {
  stretching *f = user;
  if (!stretches(f, e)) return NULL;
  bool in_vector = false;
  for (int i = 0; i < f->lanes.count; i++) in_vector = in_vector || tn__expr_uses_var(e->args[2], f->lanes.data[i]);
  for (int i = 0; i < f->conditions.count && in_vector; i++) in_vector = f->conditions.data[i] != e->args[0];
  if (in_vector) tn__vec_push(ir->arena, &f->conditions, e->args[0]);
  return NULL;
}

static const tn__expr *unstretched(tn__ir *ir, const tn__expr *e, void *user) {
  const stretching *f = user;
  (void)ir;
  for (int i = 0; i < f->conditions.count && e->kind == TN__EXPR_SELECT; i++)
    if (f->conditions.data[i] == e->args[0]) return e->args[2];
  return NULL;
}

static const tn__expr *see_selects(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, see_select, user);
}

static const tn__expr *unstretched_in(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, unstretched, user);
}

tn__func *tn__ir_split_stretched(tn__ir *ir, const tn__func *func) {
  stretching f = {.ir = ir};
  tn__stmt_walk(func->body, see_variables, &f);
  if (f.lanes.count == 0) return tn__func_with_body(ir, func, func->body);
  (void)tn__stmt_rewrite(ir, func->body, NULL, see_selects, &f);
  if (f.conditions.count == 0) return tn__func_with_body(ir, func, func->body);
  const tn__expr *any = tn__ir_bool(ir, false);
  for (int i = 0; i < f.conditions.count; i++) any = tn__ir_or(ir, any, f.conditions.data[i]);
  const tn__stmt *equal = tn__stmt_rewrite(ir, func->body, NULL, unstretched_in, &f);
  return tn__func_with_body(ir, func, tn__ir_if(ir, any, func->body, equal));
}
