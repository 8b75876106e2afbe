/* What a block of threads keeps between its loops over threads, of which each thread touches a part of its own: every
 * thread has that part for itself, in registers, where the whole would be shared memory. */
#include "codegen/c/emit.h"

enum { MOST_VARS = 64, MOST_DIMS = 8 };

/* Along a dimension: element `round * again + step * thread + rest` with 0 <= rest < step and round = step * threads is
 * of that thread. */
typedef struct part {
  int axis;            /* of threads; -1: none, all of the dimension is of each thread */
  int64_t step, round; /* round 0: there is one only, however many threads there are */
} part;

typedef struct parting {
  tn__cc *cc;
  const tn__buffer *buffer;
  const tn__var *vars[MOST_VARS]; /* of loops over threads, and their axes */
  int64_t threads[MOST_VARS];     /* how many each of them runs over */
  int axis[MOST_VARS], count;
  part parts[MOST_DIMS];
  bool known, fits;
} parting;

static bool see_threads(const tn__stmt *s, void *user) {
  parting *p = user;
  if (s->kind != TN__STMT_FOR || !tn__ir_loop_is_thread(s->as.loop.kind)) return true;
  if (p->count == MOST_VARS || !tn__ir_is_int_value(s->as.loop.var->min, 0) ||
      !tn__ir_as_int(s->as.loop.var->extent, &p->threads[p->count])) {
    p->fits = false;
    return false;
  }
  for (int i = 0; i < p->count; i++)
    if (p->vars[i] == s->as.loop.var) return true; /* of a nest before */
  p->axis[p->count] = (int)s->as.loop.kind - (int)TN__LOOP_THREAD_X;
  p->vars[p->count++] = s->as.loop.var;
  return true;
}

TN_MUST_USE static bool find_part(const parting *p, const tn__expr *index, part *out) {
  tn__ir *ir = p->cc->ir;
  *out = (part){.axis = -1};
  const tn__expr *rest = index, *zero = tn__ir_index(ir, 0);
  for (int i = 0; i < p->count; i++) {
    if (!tn__expr_uses_var(index, p->vars[i])) continue;
    if (out->axis >= 0 || !tn__ir_stride_in(ir, index, p->vars[i], &out->step) || out->step <= 0) return false;
    out->axis = p->axis[i];
    out->round = out->step * p->threads[i];
    rest = tn__ir_substitute(ir, rest, &p->vars[i], &zero, 1);
  }
  if (out->axis < 0) return true;
  tn__interval range = tn__interval_of(ir, rest), within = tn__interval_of(ir, tn__ir_mod_i(ir, rest, out->round));
  if (range.max < out->step) out->round = 0;
  return range.min >= 0 && (out->round == 0 || within.max < out->step);
}

static void see_access(parting *p, const tn__expr *const *indices) {
  for (int d = 0; d < p->buffer->rank && p->fits; d++) {
    part found;
    p->fits = find_part(p, indices[d], &found);
    const part known = p->parts[d];
    if (p->known && (found.axis != known.axis || (found.axis >= 0 && found.step != known.step))) p->fits = false;
    if (p->known && found.round != known.round && found.round != 0 && known.round != 0) p->fits = false;
    if (p->known && found.round == 0) found.round = known.round;
    p->parts[d] = found;
  }
  p->known = true;
}

static void see_expr(parting *p, const tn__expr *e) {
  if (!p->fits || !tn__expr_uses_buffer(e, p->buffer)) return;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == p->buffer) see_access(p, e->args);
  for (int i = 0; i < e->arg_count; i++) see_expr(p, e->args[i]);
}

static void see_whole_expr(const tn__expr *e, void *user) { see_expr(user, e); }

static bool see_stmt(const tn__stmt *s, void *user) {
  parting *p = user;
  if (s->kind == TN__STMT_STORE && s->as.store.buffer == p->buffer) see_access(p, s->as.store.indices);
  return p->fits;
}

static void own_indices(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const parting *p = user;
  const tn__expr *zeros[MOST_VARS];
  for (int i = 0; i < p->count; i++) zeros[i] = tn__ir_index(ir, 0);
  for (int d = 0; d < p->buffer->rank; d++) {
    const part *own = &p->parts[d];
    out[d] = tn__ir_substitute(ir, indices[d], p->vars, zeros, p->count);
    if (own->axis < 0 || own->round == 0) continue;
    const tn__expr *again = tn__ir_mul_i(ir, tn__ir_div_i(ir, out[d], own->round), own->step);
    out[d] = tn__ir_add(ir, again, tn__ir_mod_i(ir, out[d], own->step));
  }
}

const tn__stmt *tn__cc_private(tn__cc *cc, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.alloc.buffer;
  parting p = {.cc = cc, .buffer = buffer, .fits = buffer->rank <= MOST_DIMS};
  const tn__expr *shape[MOST_DIMS];
  unsigned axes = 0;
  tn__stmt_walk(s->as.alloc.body, see_threads, &p);
  if (p.fits) tn__stmt_walk(s->as.alloc.body, see_stmt, &p);
  if (p.fits) tn__stmt_walk_exprs(s->as.alloc.body, see_whole_expr, &p);
  for (int d = 0; d < buffer->rank && p.fits; d++) {
    if (p.parts[d].axis >= 0) axes |= 1u << p.parts[d].axis;
    shape[d] = buffer->shape[d];
    if (p.parts[d].axis >= 0 && p.parts[d].round == 0) shape[d] = tn__ir_index(cc->ir, p.parts[d].step);
    if (p.parts[d].axis < 0 || p.parts[d].round == 0) continue;
    const tn__expr *rounds = tn__ir_ceildiv(cc->ir, shape[d], tn__ir_index(cc->ir, p.parts[d].round));
    shape[d] = tn__ir_mul_i(cc->ir, rounds, p.parts[d].step);
  }
  for (int a = 0; a < 3; a++) /* threads that differ in another axis would have it together */
    if (cc->launch->block[a] > 1 && (axes >> a & 1) == 0) p.fits = false;
  if (!p.fits || !p.known) return NULL;
  const tn__buffer *own = tn__buffer_create(cc->ir, buffer->name, buffer->dtype, TN__SCOPE_LOCAL, buffer->rank, shape);
  return tn__ir_alloc_stmt(cc->ir, own,
                           tn__stmt_replace_buffer(cc->ir, s->as.alloc.body, buffer, own, own_indices, &p));
}
