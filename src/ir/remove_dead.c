#include "ir/context.h"
#include "ir/passes.h"

typedef struct liveness {
  bool *is_loaded; /* by buffer id */
  bool *is_read;   /* by variable id */
} liveness;

static void mark_expr(const tn__expr *e, void *user) {
  const liveness *l = user;
  const tn__id_set *vars = tn__node_of(e)->vars, *buffers = tn__node_of(e)->buffers;
  for (int i = 0; vars != NULL && i < vars->count; i++) l->is_read[vars->ids[i]] = true;
  for (int i = 0; buffers != NULL && i < buffers->count; i++) l->is_loaded[buffers->ids[i]] = true;
}

static bool is_empty(const tn__stmt *s) { return s->kind == TN__STMT_SEQ && s->as.seq.count == 0; }

static const tn__stmt *remove(tn__ir *ir, const tn__stmt *s, void *user) {
  const liveness *l = user;
  const tn__stmt *nothing = tn__ir_seq(ir, NULL, 0);
  switch (s->kind) {
    case TN__STMT_FOR:
      return is_empty(s->as.loop.body) || tn__interval_of(ir, s->as.loop.var->extent).max <= 0 ? nothing : NULL;
    case TN__STMT_STORE: {
      const tn__buffer *buffer = s->as.store.buffer;
      return buffer->scope != TN__SCOPE_PARAM && !l->is_loaded[buffer->id] ? nothing : NULL;
    }
    case TN__STMT_IF: {
      const tn__stmt *then_body = s->as.branch.then_body, *else_body = s->as.branch.else_body;
      if (else_body != NULL && is_empty(else_body)) else_body = NULL;
      if (!is_empty(then_body)) {
        return else_body == s->as.branch.else_body ? NULL : tn__ir_if(ir, s->as.branch.condition, then_body, else_body);
      }
      return else_body == NULL ? nothing : tn__ir_if(ir, tn__ir_not(ir, s->as.branch.condition), else_body, NULL);
    }
    case TN__STMT_LET:
      if (is_empty(s->as.let.body)) return nothing;
      return l->is_read[s->as.let.var->id] ? NULL : s->as.let.body;
    case TN__STMT_ALLOC:
      if (is_empty(s->as.alloc.body)) return nothing;
      return l->is_loaded[s->as.alloc.buffer->id] ? NULL : s->as.alloc.body;
    case TN__STMT_PREFETCH: {
      const tn__buffer *buffer = s->as.prefetch.buffer;
      return buffer->scope != TN__SCOPE_PARAM && !l->is_loaded[buffer->id] ? nothing : NULL;
    }
    case TN__STMT_TENSOR: return is_empty(s->as.tensor.body) ? nothing : NULL;
    default: return NULL; /* a while without a body may still not end: it stays */
  }
}

tn__func *tn__ir_remove_dead(tn__ir *ir, const tn__func *func) {
  const tn__stmt *body = func->body, *before;
  do { /* what a dead store read may be dead then */
    before = body;
    liveness l = {.is_loaded = TN__NEW_ARRAY(ir->arena, ir->next_buffer, bool),
                  .is_read = TN__NEW_ARRAY(ir->arena, ir->next_var, bool)};
    tn__stmt_walk_exprs(body, mark_expr, &l);
    body = tn__stmt_rewrite(ir, body, remove, NULL, &l);
  } while (body != before);
  return tn__func_with_body(ir, func, body);
}
