/* What statements touch, for threads of GPUs: who must wait for whom, and what can stay in a register. */
#include "codegen/c/emit.h"

typedef struct touching {
  const tn__cc *cc;
  bool *read, *written; /* by a buffer's id */
} touching;

static void see_read(const tn__expr *e, void *user) {
  touching *t = user;
  int count;
  const uint32_t *ids = tn__expr_buffers(e, &count);
  for (int i = 0; i < count; i++)
    if (ids[i] < (uint32_t)t->cc->buffer_names.count) t->read[ids[i]] = true;
}

static bool see_write(const tn__stmt *s, void *user) {
  touching *t = user;
  if (s->kind == TN__STMT_STORE && s->as.store.buffer->id < (uint32_t)t->cc->buffer_names.count)
    t->written[s->as.store.buffer->id] = true;
  return true;
}

static touching touched_by(const tn__cc *cc, const tn__stmt *s) {
  touching t = {.cc = cc};
  t.read = TN__NEW_ARRAY(cc->arena, cc->buffer_names.count + 1, bool);
  t.written = TN__NEW_ARRAY(cc->arena, cc->buffer_names.count + 1, bool);
  tn__stmt_walk(s, see_write, &t);
  tn__stmt_walk_exprs(s, see_read, &t);
  return t;
}

/* Buffers without a name yet are the statement's own. Parameters may be the same memory. */
bool tn__cc_are_apart(const tn__cc *cc, const tn__stmt *a, const tn__stmt *b) {
  if (cc->launch == NULL || cc->thread_axes != 0) return false;
  touching x = touched_by(cc, a), y = touched_by(cc, b);
  for (int i = 0; i < cc->func->input_count + cc->func->output_count; i++) {
    uint32_t id = cc->func->params[i]->id;
    if (x.written[id] || y.written[id]) return false;
  }
  for (int i = 0; i < cc->buffer_names.count; i++)
    if ((x.written[i] && (y.read[i] || y.written[i])) || (x.read[i] && y.written[i])) return false;
  return true;
}

/* ---- what a loop adds up in -------------------------------------------------------------------------------------- */

enum { MOST_LOOPS = 16 };

typedef struct keeping {
  const tn__cc *cc;
  tn__cc_kept *out;
  const tn__var *loops[MOST_LOOPS];
  int loop_count, stores;
  bool fits, guarded, inside; /* the store: by a condition; certainly inside of the tensor */
} keeping;

static bool is_inside(const tn__cc *cc, const tn__stmt *store) {
  const tn__buffer *buffer = store->as.store.buffer;
  for (int d = 0; d < buffer->rank; d++) {
    const tn__expr *index = store->as.store.indices[d];
    if (!tn__ir_prove(cc->ir, tn__ir_le(cc->ir, tn__ir_index(cc->ir, 0), index)) ||
        !tn__ir_prove(cc->ir, tn__ir_lt(cc->ir, index, buffer->shape[d])))
      return false;
  }
  return true;
}

static bool see_stmt(const tn__stmt *s, void *user) {
  keeping *k = user;
  switch (s->kind) {
    case TN__STMT_FOR:
      if (s->as.loop.kind != TN__LOOP_SERIAL || k->loop_count == MOST_LOOPS) k->fits = false;
      if (k->fits) k->loops[k->loop_count++] = s->as.loop.var;
      break;
    case TN__STMT_STORE:
      k->fits = k->fits && ++k->stores == 1;
      k->out->buffer = s->as.store.buffer;
      k->out->place = tn__cc_place(k->cc, s->as.store.buffer, s->as.store.indices);
      k->inside = is_inside(k->cc, s);
      break;
    case TN__STMT_SEQ: break;
    case TN__STMT_IF: k->guarded = true; break;
    default: k->fits = false; break;
  }
  return k->fits;
}

static void see_expr(const tn__expr *e, void *user) {
  keeping *k = user;
  if (!k->fits || !tn__expr_uses_buffer(e, k->out->buffer)) return;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == k->out->buffer &&
      tn__cc_place(k->cc, e->value.buffer, e->args) != k->out->place)
    k->fits = false;
  for (int i = 0; i < e->arg_count; i++) see_expr(e->args[i], user);
}

/* Of the workspace, under which no parameter lies. A loop that may have no turn would touch the element in vain. */
bool tn__cc_keeps(const tn__cc *cc, const tn__stmt *loop, tn__cc_kept *out) {
  keeping k = {.cc = cc, .out = out, .fits = true};
  if (cc->launch == NULL || (cc->thread_axes == 0 && tn__cc_one_thread(cc) != NULL)) return false;
  if (tn__interval_of(cc->ir, loop->as.loop.var->extent).min < 1) return false;
  tn__stmt_walk(loop, see_stmt, &k);
  if (!k.fits || k.stores != 1 || (k.guarded && !k.inside) || out->buffer->scope != TN__SCOPE_WORKSPACE ||
      tn__expr_has_load(out->place))
    return false;
  for (int i = 0; i < k.loop_count; i++)
    if (tn__expr_uses_var(out->place, k.loops[i])) return false;
  tn__stmt_walk_exprs(loop, see_expr, &k);
  return k.fits;
}
