/* Axes whose extents follow from what is read of their tensor: "P[y: ?] = ...". The statements of the kernel are
 * declared twice. The first time, into a declaration that is thrown away, variables stand for where such an axis begins
 * and how far it runs, and every read notes the positions that it needs, whatever the condition that it stands under.
 * From the last statement to the first these become numbers and expressions over the dimensions, for a tensor is read
 * only by what stands behind it. The second time they are known. Positions count from 0 in the declaration: the name of
 * the axis means its variable plus where it begins. */
#include "base/invariant.h"
#include "te/declare.h"
#include "te/internal.h"

enum { MOST_OPERATIONS = 256, FURTHEST_BITS = 47, MOST_BY_TYPE = 1 << 24 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool tn__te_has_open(const tn__syn_kernel *kernel) {
  for (int i = 0; i < kernel->stmts.count; i++)
    for (int a = 0; a < kernel->stmts.data[i].axis_count; a++)
      if (kernel->stmts.data[i].axes[a].open) return true;
  return false;
}

tn__te_follow *tn__te_follow_axis(tn__declaring *d, const tn__syn_axis *axis, const char *tensor) {
  const char *name = tn__te_text_of(d, &axis->name);
  for (int i = d->follows.count - 1; i >= 0; i--)
    if (d->follows.data[i]->axis == axis) return d->follows.data[i];
  TN__INVARIANT(d->inferring); /* all are found before they are asked for */
  tn__te_follow *f = TN__NEW(d->arena, tn__te_follow);
  const tn__expr *furthest = tn__ir_index(d->ir, -(INT64_C(1) << FURTHEST_BITS));
  f->axis = axis;
  f->tensor = tensor;
  f->start = tn__var_create(d->ir, tn__arena_printf(d->arena, "%s.start", name), TN_I64, furthest, NULL);
  f->count = tn__var_create(d->ir, tn__arena_printf(d->arena, "%s.count", name), TN_I64, tn__ir_index(d->ir, 0), NULL);
  f->low = f->start->self;
  f->extent = f->count->self;
  tn__vec_push(d->arena, &d->follows, f);
  return f;
}

tn__te_follow *const *tn__te_follows_of(tn__declaring *d, const tn__syn_axis *list, int count) {
  tn__te_follow **follows = NULL;
  for (int i = 0; i < count; i++) {
    if (!list[i].open) continue;
    if (follows == NULL) follows = TN__NEW_ARRAY(d->arena, count, tn__te_follow *);
    follows[i] = tn__te_follow_axis(d, &list[i], NULL);
  }
  return follows;
}

void tn__te_refuse_open(const tn__declaring *d, const tn__token *at, const tn__meaning *n, const char *why) {
  for (int i = 0; n->follows != NULL && i < n->buffer->rank; i++) {
    if (n->follows[i] == NULL) continue;
    const char *axis = tn__te_text_of(d, &n->follows[i]->axis->name);
    tn__te_fail(d, at, "%s, and the extent of %s follows from what is read of %s; state it: %s: EXTENT", why, axis,
                tn__te_text_of(d, &n->token), axis);
  }
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

static bool varies(const tn__declaring *d, const tn__expr *e) {
  bool found = tn__expr_has_load(e);
  for (int i = 0; i < d->axes.count; i++) found |= tn__expr_uses_var(e, d->axes.data[i]);
  return found;
}

/* The lowest and the greatest position: over the axes in scope, or, of data, what its type and the operations on it let
 * through, as long as that is no tensor that nobody would write. */
TN_MUST_USE static bool positions_of(tn__declaring *d, const tn__expr *index, tn__te_span_of *out) {
  tn__ir *ir = d->ir;
  if (d->scan_axis != NULL) index = tn__ir_substitute(ir, index, &d->scan_axis, &d->scan_position, 1);
  if (!tn__expr_has_load(index) && tn__ir_bounds_over(ir, index, d->axes.data, d->axes.count, &out->low, &out->high) &&
      !varies(d, out->low) && !varies(d, out->high))
    return true;
  tn__interval range = tn__interval_of(ir, index);
  if (range.min < -MOST_BY_TYPE || range.max > MOST_BY_TYPE) return false;
  *out = (tn__te_span_of){tn__ir_index(ir, range.min), tn__ir_index(ir, range.max)};
  return true;
}

void tn__te_follow_read(tn__declaring *d, const tn__syn *s, const tn__expr **indices) {
  const tn__meaning *n = tn__te_lookup(d, &s->at);
  if (n == NULL || n->follows == NULL) return;
  bool own = false;
  for (int t = 0; t < d->scan_count; t++) own |= d->scan_tensors[t] == n->buffer;
  for (int i = 0; i < s->arg_count; i++) {
    tn__te_follow *f = n->follows[i];
    tn__te_span_of span;
    if (f == NULL) continue;
    const char *axis = tn__te_text_of(d, &f->axis->name), *name = tn__te_text_of(d, &s->at);
    const tn__token *at = &s->args[i]->at;
    if (own && indices[i] != tn__ir_add(d->ir, f->var->self, f->low))
      tn__te_fail(d, at,
                  "%s reads itself at another position along %s, whose extent follows from what is read of it; "
                  "state it: %s: EXTENT",
                  name, axis, axis);
    if (!own && d->inferring) {
      if (!positions_of(d, indices[i], &span))
        tn__te_fail(d, at,
                    "it cannot be told which positions along %s of %s are read here, so its extent does not "
                    "follow; state it: %s: EXTENT",
                    axis, name, axis);
      tn__vec_push(d->arena, &f->reads, span);
    }
    indices[i] = tn__ir_sub(d->ir, indices[i], f->low);
  }
}

const tn__te_follow *tn__te_follow_var(const tn__declaring *d, const tn__var *var) {
  for (int i = d->follows.count - 1; i >= 0; i--)
    if (d->follows.data[i]->var == var) return d->follows.data[i];
  return NULL;
}

/* ---- extents ----------------------------------------------------------------------------------------------------- */

static const tn__expr *lesser(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (tn__ir_prove(ir, tn__ir_le(ir, a, b))) return a;
  return tn__ir_prove(ir, tn__ir_le(ir, b, a)) ? b : tn__ir_min(ir, a, b);
}

static const tn__expr *greater(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (tn__ir_prove(ir, tn__ir_le(ir, a, b))) return b;
  return tn__ir_prove(ir, tn__ir_le(ir, b, a)) ? a : tn__ir_max(ir, a, b);
}

/* What is found goes into what stands before it, and must not grow without end. */
static const tn__expr *bounded(const tn__declaring *d, const tn__te_follow *f, const tn__expr *e) {
  const char *axis = tn__te_text_of(d, &f->axis->name);
  if (tn__expr_size(e) > MOST_OPERATIONS)
    tn__te_fail(d, &f->axis->name,
                "what is read of %s along %s takes more than %d operations to say; state it: "
                "%s: EXTENT",
                f->tensor, axis, MOST_OPERATIONS, axis);
  if (tn__te_is_too_large(d->ir, e) || tn__te_largest(e) > (double)TN__TE_MOST)
    tn__te_fail(d, &f->axis->name, "%s is read along %s at a position beyond that of any tensor: 2^48 at most",
                f->tensor, axis);
  return e;
}

void tn__te_follow_solve(tn__declaring *d, int first) {
  tn__ir *ir = d->ir;
  int count = 2 * (d->follows.count - first), known = 0;
  const tn__var **from = TN__NEW_ARRAY(d->arena, count, const tn__var *);
  const tn__expr **to = TN__NEW_ARRAY(d->arena, count, const tn__expr *);
  for (int i = d->follows.count - 1; i >= first; i--) {
    tn__te_follow *f = d->follows.data[i];
    const tn__expr *low = NULL, *high = NULL;
    const char *axis = tn__te_text_of(d, &f->axis->name);
    if (f->reads.count == 0)
      tn__te_fail(d, &f->axis->name, "nothing reads %s, so the extent of %s does not follow; state it: %s: EXTENT",
                  f->tensor, axis, axis);
    for (int r = 0; r < f->reads.count; r++) {
      tn__te_step(d, &f->axis->name);
      const tn__expr *least = tn__ir_substitute(ir, f->reads.data[r].low, from, to, known);
      const tn__expr *most = tn__ir_substitute(ir, f->reads.data[r].high, from, to, known);
      low = bounded(d, f, low == NULL ? least : lesser(ir, low, least));
      high = bounded(d, f, high == NULL ? most : greater(ir, high, most));
    }
    f->low = low;
    f->extent = bounded(d, f, tn__ir_add_i(ir, tn__ir_sub(ir, high, low), 1));
    if (d->kernel->allows_empty && tn__interval_of(ir, f->extent).min < 0)
      f->extent = tn__ir_max(ir, f->extent, tn__ir_index(ir, 0));
    from[known] = f->start;
    to[known++] = f->low;
    from[known] = f->count;
    to[known++] = f->extent;
  }
}
