#include "ir/context.h"

const tn__expr *tn__expr_with_args(tn__ir *ir, const tn__expr *e, const tn__expr *const *args) {
  switch (e->kind) {
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT:
    case TN__EXPR_VAR: return e;
    case TN__EXPR_NOT: return tn__ir_not(ir, args[0]);
    case TN__EXPR_SELECT: return tn__ir_select(ir, args[0], args[1], args[2]);
    case TN__EXPR_CAST: return tn__ir_cast(ir, e->dtype, args[0]);
    case TN__EXPR_BITCAST: return tn__ir_bitcast(ir, e->dtype, args[0]);
    case TN__EXPR_LOAD: return tn__ir_load(ir, e->value.buffer, args);
    case TN__EXPR_CALL: return tn__ir_call(ir, e->intrinsic, e->dtype, args, e->arg_count);
    default: return tn__ir_binary(ir, e->kind, args[0], args[1]);
  }
}

typedef struct rewriting {
  tn__ir *ir;
  uint64_t epoch;
  uint64_t var_mask; /* of a substitution: what reads none of these stays as it is */
  const tn__expr *(*visit)(struct rewriting *r, const tn__expr *e);
  tn__expr_rewriter fn;
  void *user;
  const tn__var *const *vars;
  const tn__expr *const *values;
  int count;
} rewriting;

static const tn__expr *memoised(rewriting *r, const tn__expr *e) {
  tn__node *node = tn__node_of(e);
  tn__work_step(r->ir->arena, 1);
  if ((node->var_mask & r->var_mask) == 0 && r->fn == NULL) return e;
  if (node->memo_epoch == r->epoch) return node->memo;
  const tn__expr *result = r->visit(r, e);
  node->memo = result; /* a rewrite inside of `fn` may have used the memo: then only the saving is lost */
  node->memo_epoch = r->epoch;
  return result;
}

static const tn__expr *with_visited_args(rewriting *r, const tn__expr *e) {
  const tn__expr *few[4] = {NULL};
  const tn__expr **args = e->arg_count <= 4 ? few : TN__NEW_ARRAY(r->ir->arena, e->arg_count, const tn__expr *);
  bool changed = false;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = memoised(r, e->args[i]);
    changed |= args[i] != e->args[i];
  }
  return changed ? tn__expr_with_args(r->ir, e, args) : e;
}

static const tn__expr *visit_general(rewriting *r, const tn__expr *e) {
  const tn__expr *kept = with_visited_args(r, e);
  const tn__expr *result = r->fn(r->ir, kept, r->user);
  return result == NULL ? kept : result;
}

static const tn__expr *visit_substitution(rewriting *r, const tn__expr *e) {
  if (e->kind != TN__EXPR_VAR) return with_visited_args(r, e);
  for (int i = 0; i < r->count; i++)
    if (r->vars[i] == e->value.var) return r->values[i];
  return e;
}

const tn__expr *tn__expr_rewrite(tn__ir *ir, const tn__expr *e, tn__expr_rewriter fn, void *user) {
  rewriting r = {.ir = ir, .epoch = ir->next_epoch++, .visit = visit_general, .fn = fn, .user = user};
  return memoised(&r, e);
}

const tn__expr *tn__ir_substitute(tn__ir *ir, const tn__expr *e, const tn__var *const *vars,
                                  const tn__expr *const *values, int count) {
  rewriting r = {
      .ir = ir, .epoch = ir->next_epoch++, .visit = visit_substitution, .vars = vars, .values = values, .count = count};
  for (int i = 0; i < count; i++) {
    r.var_mask |= tn__var_bit(vars[i]);
    if (vars[i]->dtype != values[i]->dtype)
      tn__ir_defect(ir, "substitution of %s: a value of type %s for a variable of type %s", vars[i]->name,
                    tn_dtype_name(values[i]->dtype), tn_dtype_name(vars[i]->dtype));
  }
  return memoised(&r, e);
}
