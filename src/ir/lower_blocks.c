/* Blocks become plain statements: bindings replace axes, predicates become `if (likely(...))`, and the initialisation
 * of a reduction moves in front of its outermost reduction loop (as TensorIR's decompose_reduction does), so that
 * accumulators live in registers across it. Where that cannot be shown to be right, it stays in place under a
 * condition. */
#include "ir/context.h"
#include "ir/passes.h"

typedef TN__VEC(const tn__stmt *) stmt_vec;
typedef TN__VEC(const tn__var *) var_vec;

/* An initialisation on its way out of the loops. */
typedef struct pending {
  const tn__stmt *target;    /* the loop in front of which it goes */
  const tn__stmt *statement; /* what was wrapped around it so far */
  const var_vec *reduce_vars;
} pending;

typedef struct lowering {
  tn__ir *ir;
  stmt_vec path; /* from the function's body down to here */
  TN__VEC(pending) pending;
} lowering;

static bool contains_var(const var_vec *vars, const tn__var *var) {
  for (int i = 0; i < vars->count; i++)
    if (vars->data[i] == var) return true;
  return false;
}

static bool uses_any(const tn__expr *e, const var_vec *vars) {
  for (int i = 0; i < vars->count; i++)
    if (tn__expr_uses_var(e, vars->data[i])) return true;
  return false;
}

/* ---- what a statement touches ------------------------------------------------------------------------------------ */

typedef struct touch {
  const tn__buffer *buffer;
  bool found;
} touch;

static void touch_expr(const tn__expr *e, void *user) {
  touch *t = user;
  t->found = t->found || tn__expr_uses_buffer(e, t->buffer);
}

static bool touch_stmt(const tn__stmt *s, void *user) {
  touch *t = user;
  if (s->kind == TN__STMT_STORE && s->as.store.buffer == t->buffer) t->found = true;
  return !t->found;
}

static bool touches(const tn__stmt *s, const tn__buffer *buffer) {
  touch t = {.buffer = buffer};
  tn__stmt_walk(s, touch_stmt, &t);
  if (!t.found) tn__stmt_walk_exprs(s, touch_expr, &t);
  return t.found;
}

static bool touches_written(const tn__stmt *s, const tn__block *block) {
  for (int i = 0; i < block->write_count; i++)
    if (touches(s, block->writes[i].buffer)) return true;
  return false;
}

/* ---- hoisting the initialisation --------------------------------------------------------------------------------- */

/* The loops around the block that move its reduce axes; `*outermost` is the place of the first in the path, -1 when
 * there is none. */
static var_vec *reduction_vars(lowering *l, const tn__block *block, int *outermost) {
  var_vec *vars = TN__NEW(l->ir->arena, var_vec);
  *outermost = -1;
  for (int i = 0; i < l->path.count; i++) {
    const tn__stmt *s = l->path.data[i];
    if (s->kind != TN__STMT_FOR) continue;
    for (int a = 0; a < block->axis_count; a++) {
      if (block->axes[a].kind != TN__AXIS_REDUCE || !tn__expr_uses_var(block->axes[a].binding, s->as.loop.var))
        continue;
      if (*outermost < 0) *outermost = i;
      tn__vec_push(l->ir->arena, vars, s->as.loop.var);
      break;
    }
  }
  return vars;
}

static const tn__expr *at_minimum(lowering *l, const tn__expr *e, const var_vec *vars) {
  const tn__expr **mins = TN__NEW_ARRAY(l->ir->arena, vars->count, const tn__expr *);
  for (int i = 0; i < vars->count; i++) mins[i] = vars->data[i]->min;
  return tn__ir_substitute(l->ir, e, vars->data, mins, vars->count);
}

/* May the initialisation cross this part of the path? */
static bool crosses(const tn__stmt *s, const tn__stmt *next, const tn__block *block, const var_vec *vars) {
  switch (s->kind) {
    case TN__STMT_FOR: return !uses_any(s->as.loop.var->min, vars) && !uses_any(s->as.loop.var->extent, vars);
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++)
        if (s->as.seq.items[i] != next && touches_written(s->as.seq.items[i], block)) return false;
      return true;
    case TN__STMT_ALLOC:
      for (int i = 0; i < block->write_count; i++)
        if (block->writes[i].buffer == s->as.alloc.buffer) return false;
      return block->init == NULL || !touches(block->init, s->as.alloc.buffer);
    default: return false;
  }
}

static bool can_hoist(lowering *l, const tn__stmt *s, const var_vec *vars, int outermost) {
  const tn__block *block = s->as.block;
  for (int i = 0; i < block->axis_count; i++) {
    const tn__block_axis *axis = &block->axes[i];
    if (axis->kind != TN__AXIS_REDUCE) {
      if (uses_any(axis->binding, vars)) return false;
    } else if (at_minimum(l, axis->binding, vars) != axis->var->min) {
      return false;
    }
  }
  for (int i = outermost; i < l->path.count; i++)
    if (!crosses(l->path.data[i], i + 1 < l->path.count ? l->path.data[i + 1] : s, block, vars)) return false;
  return true;
}

typedef struct var_search {
  const tn__var *var;
  bool found;
} var_search;

static void search_var(const tn__expr *e, void *user) {
  var_search *v = user;
  v->found = v->found || tn__expr_uses_var(e, v->var);
}

/* Carries what is pending out of the loop `s`: reduction variables are at their minimum, other loops go along. */
static const tn__stmt *leave_loop(lowering *l, const tn__stmt *s, const tn__stmt *lowered) {
  const tn__var *var = s->as.loop.var;
  int kept = 0;
  for (int i = 0; i < l->pending.count; i++) {
    pending p = l->pending.data[i];
    var_search search = {.var = var};
    tn__stmt_walk_exprs(p.statement, search_var, &search);
    if (contains_var(p.reduce_vars, var))
      p.statement = tn__stmt_substitute(l->ir, p.statement, &var, &var->min, 1);
    else if (search.found)
      p.statement = tn__ir_for_like(l->ir, s, var, p.statement);
    if (p.target == s)
      lowered = tn__ir_seq2(l->ir, p.statement, lowered);
    else
      l->pending.data[kept++] = p;
  }
  l->pending.count = kept;
  return lowered;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static const tn__stmt *guarded(lowering *l, const tn__expr *predicate, const tn__stmt *body) {
  if (predicate->kind == TN__EXPR_AND) return guarded(l, predicate->args[0], guarded(l, predicate->args[1], body));
  return tn__ir_if(l->ir, tn__ir_call1(l->ir, TN__CALL_LIKELY, predicate), body, NULL);
}

/* ---- partial vectors of products --------------------------------------------------------------------------------- */

typedef struct tail {
  tn__ir *ir;
  const var_vec *reduce_vars, *lanes; /* variables of reduction loops and of vectorised ones around the block */
  const tn__expr *moves, *stays;      /* the operands of the product, and the conditions that moved into the first */
  const tn__expr *condition;
} tail;

static const tn__expr *without_casts(const tn__expr *e) {
  while (e->kind == TN__EXPR_CAST) e = e->args[0];
  return e;
}

static bool shares_variable(const tn__expr *e, const tn__expr *other) {
  if (e->kind == TN__EXPR_VAR) return tn__expr_uses_var(other, e->value.var);
  for (int i = 0; i < e->arg_count; i++)
    if (shares_variable(e->args[i], other)) return true;
  return false;
}

/* lane + rest < number holds for no lane when it does not for the first: vectors that lie wholly beyond the end, as
 * behind 48 columns in tiles of 32, are not computed at all. Numbers only, so that it is known where the loop's
 * tail is cut off and costs no branch. */
static const tn__expr *first_lane(const tail *t, const tn__expr *predicate) {
  const tn__expr *zero = tn__ir_index(t->ir, 0), *anything = tn__ir_bool(t->ir, true);
  if (predicate->kind != TN__EXPR_LT || !tn__ir_is_int(predicate->args[1])) return anything;
  for (int i = 0; i < t->lanes->count; i++) {
    int64_t stride;
    const tn__var *lane = t->lanes->data[i];
    if (!tn__expr_uses_var(predicate->args[0], lane)) continue;
    if (!tn__ir_stride_in(t->ir, predicate->args[0], lane, &stride) || stride < 0) return anything;
    predicate = tn__ir_substitute(t->ir, predicate, &lane, &zero, 1);
  }
  return predicate;
}

/* Takes the conditions on lanes, which one operand does not depend on, out of the predicate. */
static const tn__expr *without_lanes(tail *t, const tn__expr *predicate) {
  if (predicate->kind == TN__EXPR_AND)
    return tn__ir_and(t->ir, without_lanes(t, predicate->args[0]), without_lanes(t, predicate->args[1]));
  if (!uses_any(predicate, t->lanes) || uses_any(predicate, t->reduce_vars) || shares_variable(predicate, t->stays))
    return predicate;
  const tn__expr *likely = tn__ir_call1(t->ir, TN__CALL_LIKELY, predicate);
  t->condition = t->condition == NULL ? likely : tn__ir_and(t->ir, t->condition, likely);
  return first_lane(t, predicate);
}

static bool stays_inside(tn__ir *ir, const tn__buffer *buffer, const tn__expr *const *indices) {
  for (int d = 0; d < buffer->rank; d++)
    if (!tn__ir_prove(ir, tn__ir_binary(ir, TN__EXPR_LE, tn__ir_index(ir, 0), indices[d])) ||
        !tn__ir_prove(ir, tn__ir_binary(ir, TN__EXPR_LT, indices[d], buffer->shape[d])))
      return false;
  return true;
}

/* acc = acc + a * b with acc in registers: in a partial vector, lanes beyond the end may add up anything, as nobody
 * reads them. So a condition on lanes becomes one on the load of `b`, which is not there then, and the multiply-adds
 * have none: otherwise each of them would need a select and twice the registers. Returns what is left of the
 * predicate. */
static const tn__expr *free_lanes(lowering *l, const tn__expr *predicate, const var_vec *reduce_vars,
                                  const tn__stmt **body) {
  const tn__stmt *s = *body;
  tn__ir *ir = l->ir;
  if (s->kind != TN__STMT_STORE || s->as.store.buffer->scope != TN__SCOPE_REGISTER || tn__ir_is_true(predicate))
    return predicate;
  const tn__expr *sum = s->as.store.value, *own = tn__ir_load(ir, s->as.store.buffer, s->as.store.indices);
  if (sum->kind != TN__EXPR_ADD || (sum->args[0] != own && sum->args[1] != own)) return predicate;
  const tn__expr *term = sum->args[0] == own ? sum->args[1] : sum->args[0];
  bool words = term->intrinsic == TN__CALL_DOT4 || term->intrinsic == TN__CALL_DOT2;
  words = words && term->kind == TN__EXPR_CALL;
  if ((!words && (term->kind != TN__EXPR_MUL || !tn__dtype_is_float(term->dtype))) ||
      tn__expr_uses_buffer(term, s->as.store.buffer) || !stays_inside(ir, s->as.store.buffer, s->as.store.indices))
    return predicate;
  var_vec lanes = {0};
  for (int i = 0; i < l->path.count; i++)
    if (l->path.data[i]->kind == TN__STMT_FOR && l->path.data[i]->as.loop.kind == TN__LOOP_VECTORIZED)
      tn__vec_push(ir->arena, &lanes, l->path.data[i]->as.loop.var);
  for (int o = 0; o < 2; o++) {
    tail t = {
        .ir = ir, .reduce_vars = reduce_vars, .lanes = &lanes, .moves = term->args[o], .stays = term->args[1 - o]};
    if (without_casts(t.moves)->kind != TN__EXPR_LOAD) continue;
    const tn__expr *rest = without_lanes(&t, predicate);
    if (t.condition == NULL) continue;
    const tn__expr *guarded_load = tn__ir_select(ir, t.condition, t.moves, tn__ir_constant(ir, t.moves->dtype, 0));
    const tn__expr *operands[2] = {o == 0 ? guarded_load : t.stays, o == 0 ? t.stays : guarded_load};
    const tn__expr *product =
        words ? tn__ir_call(ir, term->intrinsic, term->dtype, operands, 2) : tn__ir_mul(ir, operands[0], operands[1]);
    *body = tn__ir_store(ir, s->as.store.buffer, s->as.store.indices, tn__ir_add(ir, own, product));
    return rest;
  }
  return predicate;
}

/* Does the part of a predicate say that an axis of the results stays inside of its extent, and nothing else? Elements
 * beyond are none of the tensor's. */
static bool bounds_results(tn__ir *ir, const tn__block *block, const tn__expr *part) {
  for (int i = 0; i < block->axis_count; i++)
    if (block->axes[i].kind == TN__AXIS_SPATIAL &&
        tn__ir_lt(ir, block->axes[i].binding, block->axes[i].var->extent) == part)
      return true;
  return false;
}

/* What a value reads under a condition on lanes. */
typedef struct guarding {
  const tn__buffer *own;
  const tn__expr *condition;
  int count;
  bool refused;
} guarding;

enum { MOST_GUARDED = 8 };

static const tn__expr *guard_load(tn__ir *ir, const tn__expr *e, void *user) {
  guarding *g = user;
  g->refused |= (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype);
  if (e->kind != TN__EXPR_LOAD || e->value.buffer == g->own || !shares_variable(g->condition, e)) return e;
  g->refused |= ++g->count > MOST_GUARDED;
  return tn__ir_select(ir, g->condition, e, tn__ir_constant(ir, e->dtype, 0));
}

/* The same for any other value that goes into registers: what it reads is not there beyond the end of the results. So
 * what stands in the lanes beyond is always defined, too: whatever lay there might be numbers that take long. */
static const tn__expr *free_results(lowering *l, const tn__block *block, const tn__expr *predicate,
                                    const var_vec *reduce_vars, const tn__stmt **body) {
  const tn__stmt *s = *body;
  tn__ir *ir = l->ir;
  if (s->kind != TN__STMT_STORE || s->as.store.buffer->scope != TN__SCOPE_REGISTER || tn__ir_is_true(predicate))
    return predicate;
  if (predicate->kind == TN__EXPR_AND) {
    const tn__expr *first = free_results(l, block, predicate->args[0], reduce_vars, body);
    return tn__ir_and(ir, first, free_results(l, block, predicate->args[1], reduce_vars, body));
  }
  var_vec lanes = {0};
  for (int i = 0; i < l->path.count; i++)
    if (l->path.data[i]->kind == TN__STMT_FOR && l->path.data[i]->as.loop.kind == TN__LOOP_VECTORIZED)
      tn__vec_push(ir->arena, &lanes, l->path.data[i]->as.loop.var);
  tail t = {.ir = ir, .reduce_vars = reduce_vars, .lanes = &lanes, .stays = tn__ir_index(ir, 0)};
  if (!bounds_results(ir, block, predicate) || !stays_inside(ir, s->as.store.buffer, s->as.store.indices))
    return predicate;
  const tn__expr *rest = without_lanes(&t, predicate);
  if (t.condition == NULL) return predicate;
  guarding g = {.own = s->as.store.buffer, .condition = t.condition};
  const tn__expr *value = tn__expr_rewrite(ir, s->as.store.value, guard_load, &g);
  if (g.refused) return predicate;
  *body = tn__ir_store(ir, s->as.store.buffer, s->as.store.indices, value);
  return rest;
}

/* ---- quotients --------------------------------------------------------------------------------------------------- */

/* What e / divisor is where the condition says x < n, with n <= divisor, 0 <= x and e == x + q * divisor; `*rest`: x.
 * NULL when it says nothing of that kind. */
static const tn__expr *known_quotient(tn__ir *ir, const tn__expr *condition, const tn__expr *e, int64_t divisor,
                                      const tn__expr **rest) {
  if (condition->kind == TN__EXPR_AND) {
    const tn__expr *known = known_quotient(ir, condition->args[0], e, divisor, rest);
    return known != NULL ? known : known_quotient(ir, condition->args[1], e, divisor, rest);
  }
  int64_t limit;
  if (condition->kind != TN__EXPR_LT || condition->args[0]->dtype != TN_I64 ||
      !tn__ir_as_int(condition->args[1], &limit) || limit > divisor || tn__interval_of(ir, condition->args[0]).min < 0)
    return NULL;
  *rest = condition->args[0];
  const tn__expr *difference = tn__ir_sub(ir, e, *rest), *quotient = tn__ir_div_i(ir, difference, divisor);
  return tn__ir_mul_i(ir, quotient, divisor) == difference ? quotient : NULL;
}

static const tn__expr *fold_quotient(tn__ir *ir, const tn__expr *e, void *user) {
  int64_t divisor;
  if ((e->kind != TN__EXPR_DIV && e->kind != TN__EXPR_MOD) || e->dtype != TN_I64 ||
      !tn__ir_as_int(e->args[1], &divisor))
    return NULL;
  const tn__expr *const *predicate = user;
  const tn__expr *rest, *quotient = divisor > 0 ? known_quotient(ir, *predicate, e->args[0], divisor, &rest) : NULL;
  if (quotient == NULL) return NULL;
  return e->kind == TN__EXPR_DIV ? quotient : rest;
}

static const tn__expr *fold_quotients(tn__ir *ir, const tn__expr *e, void *user) {
  return tn__expr_rewrite(ir, e, fold_quotient, user);
}

static const tn__stmt *lower(lowering *l, const tn__stmt *s);

static const tn__stmt *lower_block(lowering *l, const tn__stmt *s) {
  const tn__block *block = s->as.block;
  const tn__var **axes = TN__NEW_ARRAY(l->ir->arena, block->axis_count, const tn__var *);
  const tn__expr **bindings = TN__NEW_ARRAY(l->ir->arena, block->axis_count, const tn__expr *);
  const tn__expr *first = tn__ir_bool(l->ir, true);
  for (int i = 0; i < block->axis_count; i++) {
    axes[i] = block->axes[i].var;
    bindings[i] = block->axes[i].binding;
    if (block->axes[i].kind == TN__AXIS_REDUCE)
      first = tn__ir_and(l->ir, first, tn__ir_eq(l->ir, bindings[i], axes[i]->min));
  }
  const tn__stmt *body = lower(l, tn__stmt_substitute(l->ir, block->body, axes, bindings, block->axis_count));
  /* Where a split guards the columns of a group, column / group is known to be the group. */
  const tn__expr *predicate = block->predicate;
  if (!tn__ir_is_true(predicate)) body = tn__stmt_rewrite(l->ir, body, NULL, fold_quotients, &predicate);
  const tn__stmt *init = NULL;
  if (block->init != NULL) init = lower(l, tn__stmt_substitute(l->ir, block->init, axes, bindings, block->axis_count));
  int outermost;
  const var_vec *vars = reduction_vars(l, block, &outermost);
  if (init != NULL && outermost >= 0 && can_hoist(l, s, vars, outermost)) {
    pending p = {
        .target = l->path.data[outermost], .statement = guarded(l, block->predicate, init), .reduce_vars = vars};
    tn__vec_push(l->ir->arena, &l->pending, p);
  } else if (init != NULL) {
    body = tn__ir_seq2(l->ir, tn__ir_if(l->ir, first, init, NULL), body);
  }
  if (init == NULL) predicate = free_lanes(l, predicate, vars, &body);
  if (init == NULL) predicate = free_results(l, block, predicate, vars, &body);
  return guarded(l, predicate, body);
}

static const tn__stmt *lower_children(lowering *l, const tn__stmt *s) {
  tn__ir *ir = l->ir;
  switch (s->kind) {
    case TN__STMT_FOR: return leave_loop(l, s, tn__ir_for_like(ir, s, s->as.loop.var, lower(l, s->as.loop.body)));
    case TN__STMT_SEQ: {
      const tn__stmt **items = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = lower(l, s->as.seq.items[i]);
      return tn__ir_seq(ir, items, s->as.seq.count);
    }
    case TN__STMT_IF: {
      const tn__stmt *then_body = lower(l, s->as.branch.then_body);
      return tn__ir_if(ir, s->as.branch.condition, then_body,
                       s->as.branch.else_body == NULL ? NULL : lower(l, s->as.branch.else_body));
    }
    case TN__STMT_LET: return tn__ir_let(ir, s->as.let.var, s->as.let.value, lower(l, s->as.let.body));
    case TN__STMT_ALLOC: return tn__ir_alloc_stmt(ir, s->as.alloc.buffer, lower(l, s->as.alloc.body));
    case TN__STMT_WHILE: return tn__ir_while(ir, s->as.repeat.condition, lower(l, s->as.repeat.body));
    case TN__STMT_TENSOR:
      return tn__ir_tensor_stmt(ir, s->as.tensor.op, s->as.tensor.operands, lower(l, s->as.tensor.body));
    case TN__STMT_STORE:
    case TN__STMT_PREFETCH:
    case TN__STMT_BARRIER:
    case TN__STMT_FAIL: return s;
    case TN__STMT_BLOCK: break;
  }
  return s;
}

static const tn__stmt *lower(lowering *l, const tn__stmt *s) {
  if (s->kind == TN__STMT_BLOCK) return lower_block(l, s);
  tn__vec_push(l->ir->arena, &l->path, s);
  const tn__stmt *result = lower_children(l, s);
  l->path.count--;
  return result;
}

tn__func *tn__ir_lower_blocks(tn__ir *ir, const tn__func *func) {
  lowering l = {.ir = ir};
  return tn__func_with_body(ir, func, lower(&l, func->body));
}
