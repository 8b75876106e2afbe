/* Loops over threads without barriers, and on CPUs without threads. */
#include "ir/threads.h"

#include "ir/context.h"
#include "ir/passes.h"

/* ---- splitting --------------------------------------------------------------------------------------------------- */

typedef struct splitting {
  tn__ir *ir;
  const tn__func *func;
  /* What a piece between two barriers must have around it, outermost first: loops over threads, and lets whose values
   * depend on the thread. */
  TN__VEC(const tn__stmt *) around;
} splitting;

static bool see_barrier(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_BARRIER) *(bool *)user = true;
  return !*(bool *)user;
}

static bool has_barrier(const tn__stmt *s) {
  bool found = false;
  tn__stmt_walk(s, see_barrier, &found);
  return found;
}

_Noreturn static void refuse(const splitting *p, const char *why) {
  tn__throwf(p->ir->arena->escape, TN_INVALID_ARGUMENT, "%s: a barrier %s", p->func->name, why);
}

static const tn__var *var_of(const tn__stmt *loop_or_let) {
  return loop_or_let->kind == TN__STMT_FOR ? loop_or_let->as.loop.var : loop_or_let->as.let.var;
}

/* Has the expression one value for all threads, whenever they ask? */
static bool is_uniform(const splitting *p, const tn__expr *e) {
  const tn__id_set *buffers = tn__node_of(e)->buffers;
  for (int i = 0; i < p->around.count; i++)
    if (tn__expr_uses_var(e, var_of(p->around.data[i]))) return false;
  for (int i = 0; buffers != NULL && i < buffers->count; i++) {
    bool is_input = false;
    for (int k = 0; k < p->func->input_count; k++) is_input |= p->func->params[k]->id == buffers->ids[i];
    if (!is_input) return false;
  }
  return true;
}

/* The piece inside of all that must stand around it. */
static const tn__stmt *wrap(const splitting *p, const tn__stmt *s) {
  if (s->kind == TN__STMT_SEQ && s->as.seq.count == 0) return s;
  for (int i = p->around.count - 1; i >= 0; i--) {
    const tn__stmt *outer = p->around.data[i];
    s = outer->kind == TN__STMT_FOR ? tn__ir_for_like(p->ir, outer, outer->as.loop.var, s)
                                    : tn__ir_let(p->ir, outer->as.let.var, outer->as.let.value, s);
  }
  return s;
}

/* A buffer of `inner` in the workspace with an element, a row, ... for each thread, and the threads' places in it. */
typedef struct spread {
  const tn__buffer *buffer;
  const tn__expr **place;
  int depth;
} spread;

static spread spread_over_threads(const splitting *p, const tn__buffer *inner) {
  tn__arena *arena = p->ir->arena;
  spread out = {.place = TN__NEW_ARRAY(arena, p->around.count, const tn__expr *)};
  const tn__expr **shape = TN__NEW_ARRAY(arena, p->around.count + inner->rank, const tn__expr *);
  for (int i = 0; i < p->around.count; i++) {
    const tn__stmt *s = p->around.data[i];
    if (s->kind != TN__STMT_FOR) continue;
    shape[out.depth] = s->as.loop.var->extent;
    out.place[out.depth++] = tn__ir_sub(p->ir, s->as.loop.var->self, s->as.loop.var->min);
  }
  for (int d = 0; d < inner->rank; d++) {
    if (!is_uniform(p, inner->shape[d])) refuse(p, "stands in an allocation whose shape depends on the thread");
    shape[out.depth + d] = inner->shape[d];
  }
  out.buffer = tn__buffer_create(p->ir, inner->name, inner->dtype, TN__SCOPE_WORKSPACE, out.depth + inner->rank, shape);
  return out;
}

static void own_part(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const spread *own = user;
  for (int i = 0; i < own->depth; i++) out[i] = own->place[i];
  for (int d = own->depth; d < own->buffer->rank; d++) out[d] = indices[d - own->depth];
}

static const tn__stmt *split(splitting *p, const tn__stmt *s);

static const tn__stmt *split_inside(splitting *p, const tn__stmt *outer, const tn__stmt *body) {
  tn__vec_push(p->ir->arena, &p->around, outer);
  const tn__stmt *result = split(p, body);
  p->around.count--;
  return result;
}

static const tn__stmt *split_alloc(splitting *p, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  if (p->around.count == 0) return tn__ir_alloc_stmt(p->ir, buffer, split(p, s->as.alloc.body));
  spread own = spread_over_threads(p, buffer);
  const tn__stmt *body = tn__stmt_replace_buffer(p->ir, s->as.alloc.body, buffer, own.buffer, own_part, &own);
  return tn__ir_alloc_stmt(p->ir, own.buffer, split(p, body));
}

static bool reads_what_changes(const splitting *p, const tn__expr *e) {
  splitting nothing_around = {.ir = p->ir, .func = p->func};
  return !is_uniform(&nothing_around, e);
}

static const tn__stmt *split_let(splitting *p, const tn__stmt *s) {
  const tn__var *var = s->as.let.var;
  const tn__expr *value = s->as.let.value;
  if (p->around.count == 0 || is_uniform(p, value)) return tn__ir_let(p->ir, var, value, split(p, s->as.let.body));
  if (!reads_what_changes(p, value)) return split_inside(p, s, s->as.let.body);
  /* Memory may change behind the barrier: the value is computed once and kept. */
  const tn__buffer *one = tn__buffer_create(p->ir, var->name, var->dtype, TN__SCOPE_LOCAL, 0, NULL);
  spread own = spread_over_threads(p, one);
  const tn__stmt *keep = wrap(p, tn__ir_store(p->ir, own.buffer, own.place, value));
  const tn__stmt *kept = tn__ir_let(p->ir, var, tn__ir_load(p->ir, own.buffer, own.place), s->as.let.body);
  return tn__ir_alloc_stmt(p->ir, own.buffer, tn__ir_seq2(p->ir, keep, split_inside(p, kept, s->as.let.body)));
}

static const tn__stmt *split_seq(splitting *p, const tn__stmt *s) {
  tn__ir *ir = p->ir;
  const tn__stmt **pieces = TN__NEW_ARRAY(ir->arena, s->as.seq.count, const tn__stmt *);
  int count = 0;
  for (int i = 0; i < s->as.seq.count; i++) {
    int first = i;
    while (i < s->as.seq.count && !has_barrier(s->as.seq.items[i])) i++;
    if (i > first) pieces[count++] = wrap(p, tn__ir_seq(ir, s->as.seq.items + first, i - first));
    if (i < s->as.seq.count) pieces[count++] = split(p, s->as.seq.items[i]);
  }
  return tn__ir_seq(ir, pieces, count);
}

static const tn__stmt *split_for(splitting *p, const tn__stmt *s) {
  const tn__var *var = s->as.loop.var;
  if (tn__ir_loop_is_thread(s->as.loop.kind)) return split_inside(p, s, s->as.loop.body);
  if (p->around.count > 0 && (!is_uniform(p, var->min) || !is_uniform(p, var->extent)))
    refuse(p, "stands in a loop whose bounds depend on the thread");
  return tn__ir_for_like(p->ir, s, var, split(p, s->as.loop.body));
}

static const tn__stmt *split_if(splitting *p, const tn__stmt *s) {
  if (p->around.count > 0 && !is_uniform(p, s->as.branch.condition))
    refuse(p, "stands under a condition that depends on the thread");
  const tn__stmt *else_body = s->as.branch.else_body;
  if (else_body != NULL) else_body = split(p, else_body);
  return tn__ir_if(p->ir, s->as.branch.condition, split(p, s->as.branch.then_body), else_body);
}

static const tn__stmt *split(splitting *p, const tn__stmt *s) {
  if (!has_barrier(s)) return wrap(p, s);
  switch (s->kind) {
    case TN__STMT_BARRIER:
      if (p->around.count == 0) refuse(p, "stands outside of loops over threads");
      return tn__ir_seq(p->ir, NULL, 0);
    case TN__STMT_FOR: return split_for(p, s);
    case TN__STMT_SEQ: return split_seq(p, s);
    case TN__STMT_IF: return split_if(p, s);
    case TN__STMT_LET: return split_let(p, s);
    case TN__STMT_ALLOC: return split_alloc(p, s);
    case TN__STMT_WHILE:
      if (p->around.count > 0 && !is_uniform(p, s->as.repeat.condition))
        refuse(p, "stands under a condition that depends on the thread");
      return tn__ir_while(p->ir, s->as.repeat.condition, split(p, s->as.repeat.body));
    default: refuse(p, "stands inside of a computation block or an instruction");
  }
}

const tn__func *tn__ir_split_at_barriers(tn__ir *ir, const tn__func *func) {
  splitting p = {.ir = ir, .func = func};
  return has_barrier(func->body) ? tn__func_with_body(ir, func, split(&p, func->body)) : func;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static const tn__stmt *serialize(tn__ir *ir, const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR && tn__ir_loop_is_bound(s->as.loop.kind))
    return tn__ir_for_with(ir, s->as.loop.var, TN__LOOP_SERIAL, &s->as.loop.pragmas, s->as.loop.body);
  if (s->kind != TN__STMT_ALLOC) return NULL;
  const tn__buffer *old = s->as.alloc.buffer;
  if (old->scope != TN__SCOPE_SHARED && old->scope != TN__SCOPE_LOCAL) return NULL;
  tn__scope scope = old->scope == TN__SCOPE_SHARED ? TN__SCOPE_WORKSPACE : TN__SCOPE_STACK;
  const tn__buffer *buffer = tn__buffer_create(ir, old->name, old->dtype, scope, old->rank, old->shape);
  return tn__ir_alloc_stmt(ir, buffer, tn__stmt_replace_buffer(ir, s->as.alloc.body, old, buffer, NULL, NULL));
}

tn__func *tn__ir_serialize_threads(tn__ir *ir, const tn__func *func) {
  func = tn__ir_split_at_barriers(ir, func);
  return tn__func_with_body(ir, func, tn__stmt_rewrite(ir, func->body, serialize, NULL, NULL));
}
