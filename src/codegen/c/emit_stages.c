/* Loops that fetch into shared memory what they then compute with: the copies of later iterations are on their way
 * while one is computed, into as many copies of the memory as there is room for.
 *
 *   for k:  fetch(k) into s        becomes     fetch(0) into s[0], ...
 *           use s                              for k:  wait for fetch(k)
 *                                                      fetch(k + 1) into s[(k + 1) % 2]
 *                                                      use s[k % 2]
 */
#include "codegen/c/emit.h"

enum { MOST_BUFFERS = 4, MOST_STAGES = 4, MOST_DIMS = 12 };

typedef struct stages {
  tn__cc *cc;
  const tn__stmt *loop;
  const tn__buffer *buffers[MOST_BUFFERS], *staged[MOST_BUFFERS];
  int count, stages;
  const tn__stmt *const *items; /* of the loop's body: those that fetch, then those that use it */
  int item_count, fetch_count;
  const tn__expr *stage; /* which of the copies is meant */
} stages;

static bool is_global(const tn__buffer *buffer) {
  return buffer->scope == TN__SCOPE_PARAM || buffer->scope == TN__SCOPE_WORKSPACE;
}

static bool is_staged(const stages *p, const tn__buffer *buffer) {
  for (int i = 0; i < p->count; i++)
    if (p->buffers[i] == buffer) return true;
  return false;
}

typedef struct fetching {
  const stages *p;
  bool writes_global, writes_others, writes_staged, reads_near, copies;
} fetching;

static bool see_stmt(const tn__stmt *s, void *user) {
  fetching *f = user;
  if (s->kind == TN__STMT_STORE) {
    bool staged = is_staged(f->p, s->as.store.buffer);
    f->writes_staged |= staged;
    f->writes_others |= !staged;
    f->writes_global |= is_global(s->as.store.buffer);
  } else if (s->kind == TN__STMT_FOR) {
    f->copies |= s->as.loop.kind == TN__LOOP_VECTORIZED && tn__cc_is_copy(f->p->cc, s);
  } else if (s->kind != TN__STMT_SEQ && s->kind != TN__STMT_IF) {
    f->writes_others = true;
  }
  return true;
}

static const tn__buffer *bound_buffer(const tn__cc *cc, uint32_t id) {
  for (int i = 0; i < cc->bound.count; i++)
    if (cc->bound.data[i].buffer != NULL && cc->bound.data[i].buffer->id == id) return cc->bound.data[i].buffer;
  return NULL;
}

static void see_expr(const tn__expr *e, void *user) {
  fetching *f = user;
  int count;
  const uint32_t *ids = tn__expr_buffers(e, &count);
  for (int i = 0; i < count; i++) {
    const tn__buffer *buffer = bound_buffer(f->p->cc, ids[i]);
    f->reads_near |= buffer == NULL || !is_global(buffer);
  }
}

/* Copies from global memory into the staged one, and nothing else. */
static bool is_fetch(const stages *p, const tn__stmt *s) {
  fetching f = {.p = p};
  if (s->kind != TN__STMT_FOR) return false;
  tn__stmt_walk(s, see_stmt, &f);
  if (!f.copies || f.writes_others) return false;
  tn__stmt_walk_exprs(s, see_expr, &f);
  return !f.reads_near;
}

TN_MUST_USE static bool find_stages(tn__cc *cc, const tn__stmt *s, stages *p) {
  *p = (stages){.cc = cc, .loop = s};
  int64_t bytes = 0, size;
  if (cc->thread_axes != 0 || tn__cc_threads(cc->launch) == 1 || !tn__ir_is_int_value(s->as.loop.var->min, 0))
    return false;
  const tn__stmt *body = s->as.loop.body;
  for (; body->kind == TN__STMT_ALLOC; body = body->as.alloc.body) {
    const tn__buffer *buffer = body->as.alloc.buffer;
    if (buffer->scope != TN__SCOPE_SHARED || buffer->strides != NULL || p->count == MOST_BUFFERS) return false;
    if (buffer->rank >= MOST_DIMS || !tn__ir_as_int(tn__cg_bytes_of(cc->ir, buffer), &size)) return false;
    bytes += (size + TN__CC_SHARED_STEP - 1) / TN__CC_SHARED_STEP * TN__CC_SHARED_STEP;
    p->buffers[p->count++] = buffer;
  }
  if (p->count == 0 || body->kind != TN__STMT_SEQ) return false;
  p->items = body->as.seq.items;
  p->item_count = body->as.seq.count;
  while (p->fetch_count < p->item_count && is_fetch(p, p->items[p->fetch_count])) p->fetch_count++;
  if (p->fetch_count == 0 || p->fetch_count == p->item_count) return false;
  for (int i = p->fetch_count; i < p->item_count; i++) {
    fetching f = {.p = p};
    tn__stmt_walk(p->items[i], see_stmt, &f);
    if (f.writes_staged || f.writes_global) return false; /* what is fetched is as it is now */
  }
  p->stages = MOST_STAGES;
  if (tn__ir_as_int(s->as.loop.var->extent, &size) && size < p->stages) p->stages = (int)size;
  while (p->stages > 1 && cc->launch->shared_bytes + p->stages * bytes > cc->most_shared) p->stages--;
  return p->stages > 1;
}

static void staged_indices(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const stages *p = user;
  out[0] = p->stage;
  for (int d = 0; d < p->buffers[0]->rank; d++) out[d + 1] = indices[d];
}

/* The statement in iteration `at`, with the memory of that iteration. */
static const tn__stmt *at_stage(stages *p, const tn__stmt *s, const tn__expr *at) {
  tn__ir *ir = p->cc->ir;
  const tn__var *var = p->loop->as.loop.var;
  p->stage = tn__ir_mod_i(ir, at, p->stages);
  if (at != var->self) s = tn__stmt_substitute(ir, s, &var, &at, 1);
  for (int i = 0; i < p->count; i++) {
    stages one = {.buffers = {p->buffers[i]}, .stage = p->stage};
    s = tn__stmt_replace_buffer(ir, s, p->buffers[i], p->staged[i], staged_indices, &one);
  }
  return s;
}

static void emit_fetches(stages *p, const tn__expr *at) {
  tn__cc *cc = p->cc;
  const tn__expr *more = tn__ir_lt(cc->ir, at, p->loop->as.loop.var->extent);
  bool guarded = !tn__ir_prove(cc->ir, more);
  if (guarded) tn__cc_open_if(cc, tn__cc_whole(cc, more));
  cc->asynchronous = true;
  for (int i = 0; i < p->fetch_count; i++) {
    cc->apart = true;
    tn__cc_stmt(cc, at_stage(p, p->items[i], at));
  }
  cc->apart = cc->asynchronous = false;
  if (guarded) tn__cc_close(cc);
  tn__cc_line(cc, "tn_end_copies();");
}

bool tn__cc_stages(tn__cc *cc, const tn__stmt *s) {
  stages p;
  if (cc->launch == NULL || !cc->dialect->matrices || !find_stages(cc, s, &p)) return false;
  tn__ir *ir = cc->ir;
  const tn__var *var = s->as.loop.var;
  const int bound = cc->bound.count;
  for (int i = 0; i < p.count; i++) {
    const tn__expr *shape[MOST_DIMS];
    shape[0] = tn__ir_index(ir, p.stages);
    for (int d = 0; d < p.buffers[i]->rank; d++) shape[d + 1] = p.buffers[i]->shape[d];
    p.staged[i] =
        tn__buffer_create(ir, p.buffers[i]->name, p.buffers[i]->dtype, TN__SCOPE_SHARED, p.buffers[i]->rank + 1, shape);
    tn__cc_share(cc, p.staged[i]);
  }
  for (int k = 0; k + 1 < p.stages; k++) emit_fetches(&p, tn__ir_index(ir, k));
  const char *extent = tn__cc_named(cc, tn__cc_type_of(cc, var->extent), tn__cc_whole(cc, var->extent));
  const char *type = tn__cc_type_of(cc, var->self), *name = tn__cc_bind_var(cc, var);
  tn__cc_open(cc, "for (%s %s = 0; %s < %s; %s++)", type, name, name, extent, name);
  tn__cc_line(cc, "tn_await_copies_%d();", p.stages - 2);
  tn__cc_line(cc, "TN_WAIT();");
  emit_fetches(&p, tn__ir_add_i(ir, var->self, p.stages - 1));
  for (int i = p.fetch_count; i < p.item_count; i++) {
    cc->apart = p.item_count == p.fetch_count + 1; /* threads wait before anything is overwritten */
    tn__cc_stmt(cc, at_stage(&p, p.items[i], var->self));
    cc->apart = false;
  }
  tn__cc_close(cc);
  tn__cc_line(cc, "TN_WAIT();");
  cc->bound.count = bound;
  return true;
}
