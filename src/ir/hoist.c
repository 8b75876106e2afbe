/* Conditions that a loop does not change move out of it, innermost first, so that they climb as far as they can. */
#include "ir/context.h"
#include "ir/passes.h"

typedef struct changes {
  const tn__expr *condition;
  bool found;
} changes;

static bool see_write(const tn__stmt *s, void *user) {
  changes *c = user;
  const tn__buffer *written = s->kind == TN__STMT_STORE    ? s->as.store.buffer
                              : s->kind == TN__STMT_TENSOR ? s->as.tensor.operands[0].buffer
                                                           : NULL;
  c->found = c->found || (written != NULL && tn__expr_uses_buffer(c->condition, written));
  return !c->found;
}

/* A condition that loads leaves a loop that certainly evaluates it and writes nothing that it loads. */
static bool is_invariant(tn__ir *ir, const tn__expr *condition, const tn__stmt *loop) {
  const tn__var *var = loop->as.loop.var;
  if (tn__expr_uses_var(condition, var)) return false;
  if (!tn__expr_has_load(condition)) return true;
  changes c = {.condition = condition};
  if (tn__interval_of(ir, var->extent).min < 1) return false;
  tn__stmt_walk(loop->as.loop.body, see_write, &c);
  return !c.found;
}

/* The condition of a statement that others under the same may join; NULL: none. */
static const tn__expr *condition_of(const tn__stmt *s) {
  bool joins = s->kind == TN__STMT_IF && s->as.branch.else_body == NULL && !tn__expr_has_load(s->as.branch.condition);
  return joins ? s->as.branch.condition : NULL;
}

/* Neighbours under the same condition become one, and what they hold is joined in turn. NULL where there are none. */
static const tn__stmt *merge(tn__ir *ir, const tn__stmt *s) {
  const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
  const tn__stmt **parts = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
  int count = 0;
  for (int i = 0, n; i < s->as.seq.count; i += n) {
    const tn__expr *condition = condition_of(s->as.seq.items[i]);
    items[count] = s->as.seq.items[i];
    for (n = 1; condition != NULL && i + n < s->as.seq.count; n++)
      if (condition_of(s->as.seq.items[i + n]) != condition) break;
    if (n > 1) {
      for (int k = 0; k < n; k++) parts[k] = s->as.seq.items[i + k]->as.branch.then_body;
      const tn__stmt *all = tn__ir_seq(ir, parts, n), *joined = all->kind == TN__STMT_SEQ ? merge(ir, all) : NULL;
      items[count] = tn__ir_if(ir, condition, joined == NULL ? all : joined, NULL);
    }
    count++;
  }
  return count == s->as.seq.count ? NULL : tn__ir_seq(ir, items, count);
}

/* Of conditions in a row in the loop, those that it does not change first: a row of which no element is computed may
 * end in the middle of a vector, too. */
static const tn__stmt *invariant_first(tn__ir *ir, const tn__stmt *loop, const tn__stmt *branch) {
  const tn__stmt *inner = branch->as.branch.then_body;
  if (condition_of(branch) == NULL || inner->kind != TN__STMT_IF) return branch;
  inner = invariant_first(ir, loop, inner);
  const tn__expr *first = branch->as.branch.condition, *second = condition_of(inner);
  if (second == NULL || is_invariant(ir, first, loop) || !is_invariant(ir, second, loop)) return branch;
  return tn__ir_if(ir, second, tn__ir_if(ir, first, inner->as.branch.then_body, NULL), NULL);
}

static bool is_nothing(const tn__stmt *s) { return s->kind == TN__STMT_SEQ && s->as.seq.count == 0; }

static const tn__stmt *hoist(tn__ir *ir, const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_SEQ) return merge(ir, s);
  if (s->kind == TN__STMT_FOR && is_nothing(s->as.loop.body)) return s->as.loop.body; /* would part neighbours */
  if (s->kind != TN__STMT_FOR || s->as.loop.body->kind != TN__STMT_IF) return NULL;
  const tn__var *var = s->as.loop.var;
  const tn__stmt *branch = invariant_first(ir, s, s->as.loop.body);
  const tn__expr *condition = branch->as.branch.condition;
  if (!is_invariant(ir, condition, s)) return NULL;
  /* Both copies keep the variable: they are never inside of one another. */
  const tn__stmt *then_loop = hoist(ir, tn__ir_for_like(ir, s, var, branch->as.branch.then_body), user);
  if (then_loop == NULL) then_loop = tn__ir_for_like(ir, s, var, branch->as.branch.then_body);
  const tn__stmt *else_loop = NULL;
  if (branch->as.branch.else_body != NULL) else_loop = tn__ir_for_like(ir, s, var, branch->as.branch.else_body);
  return tn__ir_if(ir, condition, then_loop, else_loop);
}

tn__func *tn__ir_hoist_conditions(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, hoist, NULL, NULL));
}
