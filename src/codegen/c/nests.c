/* Nests that stand alone: each becomes a launch, and nothing but the workspace goes from one to the next. A tensor that
 * stands around several nests on the stack moves into the only one that uses it, or else into the workspace. */
#include "codegen/c/emit.h"

static bool see_blocks(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR && (tn__ir_loop_is_block(s->as.loop.kind) || s->as.loop.kind == TN__LOOP_PARALLEL))
    *(bool *)user = true;
  return !*(bool *)user;
}

bool tn__cc_has_blocks(const tn__stmt *s) {
  bool found = false;
  tn__stmt_walk(s, see_blocks, &found);
  return found;
}

typedef struct looking {
  const tn__buffer *buffer;
  bool found;
} looking;

static void look_in_expr(const tn__expr *e, void *user) {
  looking *l = user;
  l->found |= tn__expr_uses_buffer(e, l->buffer);
}

static bool look_in_stmt(const tn__stmt *s, void *user) {
  looking *l = user;
  l->found |= s->kind == TN__STMT_STORE && s->as.store.buffer == l->buffer;
  return !l->found;
}

bool tn__cc_uses(const tn__stmt *s, const tn__buffer *buffer) {
  looking l = {.buffer = buffer};
  tn__stmt_walk(s, look_in_stmt, &l);
  if (!l.found) tn__stmt_walk_exprs(s, look_in_expr, &l);
  return l.found;
}

/* ---- tensors around several nests -------------------------------------------------------------------------------- */

/* The allocation around the one statement that uses the buffer; NULL: there are several. Turns of a parallel loop know
 * nothing of each other, so each may have its own. */
static const tn__stmt *sunk(tn__ir *ir, const tn__buffer *buffer, const tn__stmt *s) {
  const tn__stmt *inner;
  int users = 0, last = 0;
  switch (s->kind) {
    case TN__STMT_ALLOC:
      inner = sunk(ir, buffer, s->as.alloc.body);
      return inner != NULL ? tn__ir_alloc_stmt(ir, s->as.alloc.buffer, inner) : NULL;
    case TN__STMT_FOR:
      if (s->as.loop.kind != TN__LOOP_PARALLEL) break;
      return tn__ir_for_like(ir, s, s->as.loop.var, tn__ir_alloc_stmt(ir, buffer, s->as.loop.body));
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++)
        if (tn__cc_uses(s->as.seq.items[i], buffer)) last = i, users++;
      if (users > 1) return NULL;
      if (users == 0) return s;
      inner = sunk(ir, buffer, s->as.seq.items[last]);
      if (inner == NULL) return NULL;
      const tn__stmt **items = TN__NEW_ARRAY(tn__ir_arena(ir), s->as.seq.count, const tn__stmt *);
      for (int i = 0; i < s->as.seq.count; i++) items[i] = i == last ? inner : s->as.seq.items[i];
      return tn__ir_seq(ir, items, s->as.seq.count);
    default: break;
  }
  return tn__cc_has_blocks(s) ? NULL : tn__ir_alloc_stmt(ir, buffer, s);
}

static const tn__stmt *settled(tn__ir *ir, const tn__stmt *s);

static const tn__stmt *settled_alloc(tn__ir *ir, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  const tn__stmt *body = settled(ir, s->as.alloc.body);
  if (buffer->scope != TN__SCOPE_WORKSPACE) {
    const tn__stmt *inside = sunk(ir, buffer, body);
    if (inside != NULL) return inside;
    const tn__buffer *shared =
        tn__buffer_create(ir, buffer->name, buffer->dtype, TN__SCOPE_WORKSPACE, buffer->rank, buffer->shape);
    body = tn__stmt_replace_buffer(ir, body, buffer, shared, NULL, NULL);
    buffer = shared;
  }
  return tn__ir_alloc_stmt(ir, buffer, body);
}

static const tn__stmt *settled_sequence(tn__ir *ir, const tn__stmt *s) {
  const tn__stmt **items = TN__NEW_ARRAY(tn__ir_arena(ir), s->as.seq.count, const tn__stmt *);
  for (int i = 0; i < s->as.seq.count; i++) items[i] = settled(ir, s->as.seq.items[i]);
  return tn__ir_seq(ir, items, s->as.seq.count);
}

/* Of what is around nests. */
static const tn__stmt *settled(tn__ir *ir, const tn__stmt *s) {
  if (!tn__cc_has_blocks(s)) return s;
  switch (s->kind) {
    case TN__STMT_ALLOC: return settled_alloc(ir, s);
    case TN__STMT_SEQ: return settled_sequence(ir, s);
    case TN__STMT_LET: return tn__ir_let(ir, s->as.let.var, s->as.let.value, settled(ir, s->as.let.body));
    case TN__STMT_IF:
      if (s->as.branch.else_body != NULL) return s;
      return tn__ir_if(ir, s->as.branch.condition, settled(ir, s->as.branch.then_body), NULL);
    default: return s;
  }
}

tn__func *tn__cc_settle_nests(tn__ir *ir, const tn__func *func) {
  return tn__func_with_body(ir, func, settled(ir, func->body));
}
