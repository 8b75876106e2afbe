/* Axes: their extents, stated or found from use, and the accesses that they make. */
#include "te/declare.h"
#include "te/internal.h"

/* ---- checking accesses ------------------------------------------------------------------------------------------- */

static const char *shown(const tn__declaring *d, const tn__expr *e) {
  tn__strbuf text;
  tn__strbuf_init(&text, d->arena->allocator);
  tn__expr_print_short(e, &text);
  const char *kept = tn__arena_take(d->arena, &text);
  return strlen(kept) > 80 ? "..." : kept;
}

static bool always(tn__ir *ir, const tn__expr *condition) { return tn__ir_prove(ir, condition); }

/* By how much `index` grows from one position of the axis to the next, or 0. */
static int64_t step_of(tn__declaring *d, const tn__expr *index, const tn__var *axis) {
  const tn__expr *next = tn__ir_add_i(d->ir, axis->self, 1);
  int64_t step;
  bool known = tn__ir_as_int(tn__ir_sub(d->ir, tn__ir_substitute(d->ir, index, &axis, &next, 1), index), &step);
  return known && step > 0 ? step : 0;
}

/* `past` elements too far are so many positions of an axis that steps so. NULL: not known. */
static const tn__expr *positions(tn__ir *ir, const tn__expr *past, int64_t step) {
  int64_t n;
  if (tn__ir_as_int(past, &n)) return tn__ir_index(ir, (n + step - 1) / step);
  return step == 1 ? past : NULL;
}

static bool is_worse(tn__ir *ir, const tn__expr *now, const tn__expr *before) {
  return before == NULL || always(ir, tn__ir_lt(ir, before, now));
}

/* Notes an index that is `past` elements outside of its tensor, at the low end or the high one, for all of its
 * statement: what to write depends on the worst one. */
static void note_outside(tn__declaring *d, const tn__token *at, const tn__expr *index, bool low, const tn__expr *past,
                         const char *message) {
  tn__outside o = {.at = *at, .message = message};
  for (int i = 0; i < d->axes.count && o.axis == NULL && d->scan_axis == NULL; i++) {
    const tn__var *axis = d->axes.data[i];
    const tn__te_follow *f = tn__te_follow_var(d, axis);
    if (f != NULL && tn__expr_uses_var(index, axis))
      o.message = tn__arena_printf(d->arena, "%s; %s runs from %s up to %s, as far as %s is read", o.message,
                                   axis->name, shown(d, f->low),
                                   shown(d, tn__ir_add_i(d->ir, tn__ir_add(d->ir, f->low, f->extent), -1)), f->tensor);
    if (f != NULL) continue;
    int64_t step = axis->extent != NULL && tn__expr_uses_var(index, axis) ? step_of(d, index, axis) : 0;
    const tn__expr *by = step > 0 ? positions(d->ir, past, step) : NULL;
    if (by == NULL) continue;
    o.axis = axis;
    if (low)
      o.low = by;
    else
      o.high = by;
  }
  if (d->errors == NULL) tn__te_fail(d, at, "%s", tn__te_outside_text(d, &o));
  for (int i = 0; i < d->outside_count; i++) {
    tn__outside *other = &d->outside[i];
    if (other->axis != o.axis || o.axis == NULL) continue;
    bool both = other->low != NULL && other->high != NULL;
    if (low && is_worse(d->ir, o.low, other->low)) other->low = o.low;
    if (!low && is_worse(d->ir, o.high, other->high)) {
      other->high = o.high;
      if (!both && other->low == NULL) other->at = o.at;
      if (!both && other->low == NULL) other->message = o.message;
    }
    return;
  }
  if (d->outside_count < (int)(sizeof(d->outside) / sizeof(d->outside[0]))) d->outside[d->outside_count++] = o;
}

const char *tn__te_outside_text(const tn__declaring *d, const tn__outside *o) {
  tn__ir *ir = d->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *low = o->low != NULL ? o->low : zero;
  const tn__expr *high = o->high != NULL ? o->high : zero;
  int64_t n;
  const tn__expr *rest = o->axis != NULL ? tn__ir_sub(ir, o->axis->extent, tn__ir_add(ir, low, high)) : zero;
  if (o->axis == NULL || (tn__ir_as_int(rest, &n) && n < 1))
    return tn__arena_printf(d->arena, "%s; pad(...) or select guards it", o->message);
  const char *axis = o->axis->name;
  const char *shift = o->low == NULL ? ""
                                     : tn__arena_printf(d->arena, "write %s + %s for %s on the right and ", axis,
                                                        shown(d, o->low), axis);
  return tn__arena_printf(d->arena, "%s; %slet %s run up to %s instead of %s, or guard it by pad(...) or select",
                          o->message, shift, axis, shown(d, rest), shown(d, o->axis->extent));
}

/* `dim`: the dimension that it is of, which the text has as number `number`. */
static void check_index(tn__declaring *d, const tn__token *at, const tn__buffer *buffer, int dim, int number,
                        const tn__expr *index, const tn__var *const *axes) {
  tn__ir *ir = d->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *size = buffer->shape[dim], *low, *high;
  if (tn__expr_has_load(index)) return;
  if (always(ir, tn__ir_le(ir, zero, index)) && always(ir, tn__ir_lt(ir, index, size))) return;
  /* What a scan never evaluates at its first positions, or only there, may stand under a condition nevertheless. */
  bool may_be_dead = d->guards > 0 && d->scan_axis != NULL;
  if (!may_be_dead && (always(ir, tn__ir_lt(ir, index, zero)) || always(ir, tn__ir_le(ir, size, index))))
    tn__te_fail(d, at, "index %d of %s is %s, which is outside of the tensor everywhere: it has %s elements there",
                number, buffer->name, shown(d, index), shown(d, size));
  if (d->guards > 0 || !tn__ir_bounds_over(ir, index, axes, d->axes.count, &low, &high)) return;
  if (always(ir, tn__ir_lt(ir, low, zero)))
    note_outside(d, at, index, true, tn__ir_sub(ir, zero, low),
                 tn__arena_printf(d->arena, "index %d of %s goes down to %s, which is outside of the tensor", number,
                                  buffer->name, shown(d, low)));
  if (always(ir, tn__ir_le(ir, size, high)))
    note_outside(d, at, index, false, tn__ir_add_i(ir, tn__ir_sub(ir, high, size), 1),
                 tn__arena_printf(d->arena, "index %d of %s goes up to %s, and the tensor has %s elements there",
                                  number, buffer->name, shown(d, high), shown(d, size)));
}

/* The expression at the position of the scan, and the axes over which it is taken there. */
static const tn__expr *at_position(const tn__declaring *d, const tn__expr *e, const tn__var **axes) {
  tn__te_positions positions = {.count = 1};
  for (int i = 0; i < d->axes.count; i++) axes[i] = d->axes.data[i];
  if (d->scan_axis == NULL) return e;
  positions.from[0] = d->scan_axis;
  positions.to[0] = d->scan_position;
  for (int i = 0; i < d->axes.count && positions.count <= TN__MAX_RANK; i++) {
    const tn__var *there = tn__te_positions_add(d->ir, d->axes.data[i], &positions);
    if (there != NULL) axes[i] = there;
  }
  return tn__te_at(d->ir, e, &positions);
}

const tn__expr *tn__te_at_position(const tn__declaring *d, const tn__expr *e) {
  return at_position(d, e, TN__NEW_ARRAY(d->arena, d->axes.count, const tn__var *));
}

/* An axis of max(0, n) steps, as from a start that may be beyond the end, has n of them where anything is read. */
static const tn__expr *where_steps_are(tn__declaring *d, const tn__expr *e) {
  for (int i = 0; i < d->axes.count; i++) {
    const tn__var *axis = d->axes.data[i];
    const tn__expr *extent = axis->extent;
    if (extent == NULL || extent->kind != TN__EXPR_MAX || !tn__expr_uses_var(e, axis)) continue;
    int side = tn__ir_is_int_value(extent->args[0], 0) ? 1 : tn__ir_is_int_value(extent->args[1], 0) ? 0 : -1;
    if (side < 0) continue;
    const tn__var *like = tn__var_create(d->ir, axis->name, TN_I64, axis->min, extent->args[side]);
    e = tn__ir_substitute(d->ir, e, &axis, &like->self, 1);
  }
  return e;
}

/* A scan reads its own tensors at positions that were computed before. */
static void check_earlier(tn__declaring *d, const tn__syn *s, const tn__expr *index) {
  tn__ir *ir = d->ir;
  const tn__expr *read = where_steps_are(d, index);
  const tn__expr *now = d->scan_axis->self, *end = d->scan_axis->extent;
  const char *axis = d->scan_axis->name, *name = tn__te_text_of(d, &s->at);
  bool back = d->scan_backwards;
  if (tn__expr_has_load(index) || !always(ir, back ? tn__ir_lt(ir, now, read) : tn__ir_lt(ir, read, now)))
    tn__te_fail(d, &s->at, "a scan %salong %s reads %s at %s, which is not shown to be %s: write %s %s",
                back ? "backwards " : "", axis, name, shown(d, index), back ? "later" : "earlier", axis,
                back ? "+ 1 or more" : "- 1 or less");
  const tn__var **axes = TN__NEW_ARRAY(d->arena, d->axes.count, const tn__var *);
  const tn__expr *there = at_position(d, index, axes), *low, *high;
  if (d->guards > 0 || !tn__ir_bounds_over(ir, there, axes, d->axes.count, &low, &high)) return;
  if (always(ir, back ? tn__ir_le(ir, end, high) : tn__ir_lt(ir, low, tn__ir_index(ir, 0))))
    tn__te_fail(d, &s->at,
                "the scan reads %s at position %s; start it with more positions: scan(%s%s, DEPTH) first then ...",
                name, shown(d, back ? high : low), back ? "-" : "", axis);
}

/* Has an axis no steps, as the sum over what comes before the only position? */
static bool reads_nothing(const tn__declaring *d) {
  for (int i = 0; i < d->axes.count; i++)
    if (d->axes.data[i]->extent != NULL && tn__interval_of(d->ir, d->axes.data[i]->extent).max <= 0) return true;
  return false;
}

void tn__te_check_access(tn__declaring *d, const tn__syn *s, const tn__buffer *buffer, const tn__expr *const *indices) {
  bool own = false;
  if (reads_nothing(d)) return;
  for (int t = 0; t < d->scan_count; t++) own |= d->scan_tensors[t] == buffer;
  if (own) check_earlier(d, s, indices[d->scan_dim]);
  int first = buffer->rank - s->arg_count; /* the position of a step is not written */
  for (int i = first; i < buffer->rank; i++) {
    if (own && i == d->scan_dim) continue;
    const tn__var **axes = TN__NEW_ARRAY(d->arena, d->axes.count, const tn__var *);
    const tn__expr *there = at_position(d, indices[i], axes);
    check_index(d, s->kind == TN__SYN_ACCESS ? &s->args[i - first]->at : &s->at, buffer, i, i - first, there, axes);
  }
}

/* ---- finding extents --------------------------------------------------------------------------------------------- */

typedef struct search {
  tn__declaring *d;
  const tn__token *axis;
  const tn__var *var; /* stands for the axis while its extent is not known */
  bool affine;        /* the second round: uses such as X[2*i + k] */
  const tn__expr *found;
  const char *tensor; /* that `found` comes from */
} search;

/* What the name of a let stands for, or NULL. */
static const tn__syn *let_of(const tn__declaring *d, const tn__syn *s) {
  const tn__meaning *n = s->kind == TN__SYN_NAME ? tn__te_lookup(d, &s->at) : NULL;
  return n != NULL ? n->syn : NULL;
}

static bool mentions(tn__declaring *d, const tn__syn *s, const tn__token *name) {
  const tn__syn *named = let_of(d, s);
  if (s->kind == TN__SYN_NAME && tn__te_token_same(&s->at, name)) return true;
  if (named != NULL) tn__te_step(d, &s->at);
  if (named != NULL) return mentions(d, named, name);
  for (int i = 0; i < s->arg_count; i++)
    if (mentions(d, s->args[i], name)) return true;
  return false;
}

/* Arithmetic on what is known by now: other axes may still be without an extent. */
static bool is_arithmetic(tn__declaring *d, const tn__syn *s) {
  if (s->kind == TN__SYN_ACCESS || s->kind == TN__SYN_REDUCE || s->kind == TN__SYN_CALL || s->kind == TN__SYN_TUPLE ||
      s->kind == TN__SYN_LET || s->kind == TN__SYN_STEP)
    return false;
  const tn__syn *named = let_of(d, s);
  if (named != NULL) tn__te_step(d, &s->at);
  if (named != NULL) return is_arithmetic(d, named);
  if (s->kind == TN__SYN_NAME && !tn__te_knows(d, &s->at)) return false;
  for (int i = 0; i < s->arg_count; i++)
    if (!is_arithmetic(d, s->args[i])) return false;
  return true;
}

static void candidate(search *q, const tn__expr *extent, const tn__buffer *buffer) {
  tn__ir *ir = q->d->ir;
  if (q->found == NULL || q->found == extent) {
    q->found = extent;
    q->tensor = buffer->name;
    return;
  }
  if (tn__ir_prove(ir, tn__ir_le(ir, q->found, extent)) && q->affine) return;
  if (tn__ir_prove(ir, tn__ir_le(ir, extent, q->found)) && q->affine) {
    q->found = extent;
    q->tensor = buffer->name;
    return;
  }
  tn__te_fail(q->d, q->axis, "the extent of %s is %s by %s and %s by %s; state it: %s: EXTENT",
              tn__te_text_of(q->d, q->axis), shown(q->d, q->found), q->tensor, shown(q->d, extent), buffer->name,
              tn__te_text_of(q->d, q->axis));
}

/* X[c*i + rest] stays inside for i up to (size - 1 - max(rest)) / c. */
static void affine_use(search *q, const tn__buffer *buffer, int dim, const tn__syn *index) {
  tn__declaring *d = q->d;
  tn__ir *ir = d->ir;
  if (!is_arithmetic(d, index)) return;
  const tn__expr *e = tn__te_index(d, index, "an index"), *coefficient, *rest, *low, *high;
  int64_t c;
  if (!tn__ir_affine_in(ir, e, &q->var, 1, &coefficient, &rest) || !tn__ir_as_int(coefficient, &c) || c < 1) return;
  if (!tn__ir_bounds_over(ir, rest, d->axes.data, d->axes.count, &low, &high)) return;
  const tn__expr *last = tn__ir_sub(ir, tn__ir_add_i(ir, buffer->shape[dim], -1), high);
  candidate(q, tn__ir_add_i(ir, tn__ir_div_i(ir, last, c), 1), buffer);
}

static void see_access(search *q, const tn__syn *s) {
  const tn__meaning *n = tn__te_lookup(q->d, &s->at);
  if (n == NULL || n->buffer == NULL || n->buffer->rank != s->arg_count) return; /* refused later, with words */
  for (int i = 0; i < s->arg_count; i++) {
    const tn__syn *index = s->args[i], *named;
    if (!mentions(q->d, index, q->axis) || (n->follows != NULL && n->follows[i] != NULL)) continue;
    while ((named = let_of(q->d, index)) != NULL) index = named;
    if (index->kind == TN__SYN_NAME)
      candidate(q, n->buffer->shape[i], n->buffer);
    else if (q->affine)
      affine_use(q, n->buffer, i, index);
  }
}

/* Uses that a condition guards say nothing about the extent, unless they are plain. */
static void see(search *q, const tn__syn *s) {
  tn__declaring *d = q->d;
  int names = d->names.count, axes = d->axes.count;
  tn__te_step(d, &s->at);
  if (s->kind == TN__SYN_ACCESS) see_access(q, s);
  if (s->kind == TN__SYN_CALL && tn__te_edge_find(d, &s->at) != NULL) return;
  if (q->affine && s->kind == TN__SYN_CALL && tn__te_token_is(&s->at, "select")) {
    if (s->arg_count > 0) see(q, s->args[0]);
    return;
  }
  if (q->affine && s->kind == TN__SYN_REDUCE && mentions(d, s->args[0], q->axis)) {
    tn__te_axes inner;
    tn__te_make_axes(d, s->axes, s->axis_count, NULL, s->args, s->arg_count, true, "a reduction", &inner);
    tn__te_bind_axes(d, s->axes, &inner);
  }
  for (int i = 0; i < s->arg_count; i++) {
    if (s->kind == TN__SYN_LET && i == 1) { /* stands for its value, whose axes have no extents yet */
      tn__meaning n = {.token = s->axes[0].name, .syn = s->args[0], .named = true};
      tn__vec_push(d->arena, &d->names, n);
    }
    for (int t = 0; s->kind == TN__SYN_STEP && i == 1 && t < s->target_count; t++)
      tn__vec_push(d->arena, &d->names, ((tn__meaning){.token = s->targets[t].name})); /* their shapes come later */
    see(q, s->args[i]);
  }
  d->names.count = names;
  d->axes.count = axes;
}

static const tn__expr *search_extent(tn__declaring *d, const tn__token *axis, const tn__syn *const *values, int count) {
  search q = {.d = d, .axis = axis};
  for (int i = 0; i < count; i++) see(&q, values[i]);
  if (q.found != NULL) return q.found;
  q.affine = true;
  int names = d->names.count;
  if (tn__te_lookup(d, axis) != NULL) tn__te_bind(d, axis, tn__ir_index(d->ir, 0), NULL); /* refused: taken */
  q.var = tn__var_create(d->ir, tn__te_text_of(d, axis), TN_I64, tn__ir_index(d->ir, 0), NULL);
  tn__te_bind(d, axis, q.var->self, NULL);
  for (int i = 0; i < count; i++) see(&q, values[i]);
  d->names.count = names;
  return q.found;
}

/* Do the bounds of axis `i` need another axis of the list that is not known yet? One before it: loops are nested in the
 * list's order. */
static bool waits_for(tn__declaring *d, const tn__syn_axis *list, int i, const tn__te_axes *axes) {
  bool waits = false;
  for (int j = 0; j < axes->count; j++) {
    bool uses =
        mentions(d, list[i].extent, &list[j].name) || (list[i].end != NULL && mentions(d, list[i].end, &list[j].name));
    if (uses && j > i)
      tn__te_fail(d, &list[i].extent->at, "the bounds of %s depend on %s, which stands behind it: write %s first",
                  tn__te_text_of(d, &list[i].name), tn__te_text_of(d, &list[j].name), tn__te_text_of(d, &list[j].name));
    waits |= uses && j < i && axes->var[j] == NULL;
  }
  return waits;
}

/* The axes that are known are bound while the others are looked for: X[y + r] gives y once r is known. Axes that depend
 * on each other are tried again until nothing more is found. */
void tn__te_make_axes(tn__declaring *d, const tn__syn_axis *list, int count, const tn__expr *const *known,
                      const tn__syn *const *values, int value_count, bool reduces, const char *what,
                      tn__te_axes *axes) {
  *axes = (tn__te_axes){.count = count};
  int found = 0, names = d->names.count, in_scope = d->axes.count;
  for (bool progress = true; found < count && progress;) {
    progress = false;
    for (int i = 0; i < count; i++) {
      if (axes->var[i] != NULL) continue;
      const tn__expr *extent = known != NULL ? known[i] : NULL, *start = tn__ir_index(d->ir, 0);
      if (reduces && list[i].extent != NULL && waits_for(d, list, i, axes)) continue;
      if (reduces && list[i].end != NULL)
        extent = tn__te_span(d, list[i].extent, list[i].end, &start);
      else if (reduces && list[i].extent != NULL)
        extent = tn__te_span(d, NULL, list[i].extent, &start);
      else if (list[i].extent != NULL)
        extent = tn__te_extent(d, list[i].extent, "the extent of an axis");
      if (list[i].open && extent != NULL)
        tn__te_fail(d, &list[i].name, "%s is an output, whose extents are stated there: write %s without : ?", what,
                    tn__te_text_of(d, &list[i].name));
      tn__te_follow *follow = list[i].open ? tn__te_follow_axis(d, &list[i], what) : NULL;
      if (follow != NULL) {
        extent = follow->extent;
        start = follow->low;
      }
      if (extent == NULL) extent = search_extent(d, &list[i].name, values, value_count);
      if (extent == NULL) continue;
      int64_t n;
      int least = d->kernel->allows_empty ? 0 : 1;
      if (tn__ir_as_int(extent, &n) && n < least && list[i].end == NULL)
        tn__te_fail(d, &list[i].name, "the extent of %s is %lld; it must be at least %d",
                    tn__te_text_of(d, &list[i].name), (long long)n, least);
      axes->var[i] = tn__var_create(d->ir, tn__te_text_of(d, &list[i].name), TN_I64, tn__ir_index(d->ir, 0), extent);
      if (follow != NULL) follow->var = axes->var[i];
      axes->index[i] = tn__ir_add(d->ir, axes->var[i]->self, start);
      tn__te_bind(d, &list[i].name, axes->index[i], NULL);
      tn__vec_push(d->arena, &d->axes, axes->var[i]);
      found++;
      progress = true;
    }
  }
  for (int i = 0; i < count; i++)
    if (axes->var[i] == NULL)
      tn__te_fail(d, &list[i].name, "nothing says how far the axis %s of %s runs; state it: %s: EXTENT",
                  tn__te_text_of(d, &list[i].name), what, tn__te_text_of(d, &list[i].name));
  d->names.count = names;
  d->axes.count = in_scope;
}

void tn__te_bind_axes(tn__declaring *d, const tn__syn_axis *list, const tn__te_axes *axes) {
  for (int i = 0; i < axes->count; i++) {
    tn__te_bind(d, &list[i].name, axes->index[i], NULL);
    tn__vec_push(d->arena, &d->axes, axes->var[i]);
  }
}
