/* Reductions of which several results are the same. Tensors side by side are declared by a choice of position,
 *
 *   Y[n, c] = select(c < 96, sum(t) X[n, t, c], max(t) X[n, t, c - 96])
 *
 * in which each part has all positions, and what is read for those of the other is the nearest element. Results that
 * depend on a clamped position alone are there once for each element that it may be:
 *
 *   S[n, c] = sum(t) X[n, t, min(c, 95)]      becomes      S.within[n, c: 96] = sum(t) X[n, t, c]
 *                                                          S[n, c] = S.within[n, min(c, 95)] */
#include "te/internal.h"

typedef struct search {
  const tn__var *axis;
  const tn__expr *clamped; /* all that depends on the axis; NULL: nothing yet */
  tn__expr_set seen;
} search;

static bool is_clamp(const tn__expr *e) {
  if ((e->kind != TN__EXPR_MIN && e->kind != TN__EXPR_MAX) || e->dtype != TN_I64) return false;
  return tn__ir_is_int(e->args[0]) || tn__ir_is_int(e->args[1]);
}

/* Does everything depend on the axis through one clamped position? */
static bool finds_clamp(search *s, const tn__expr *e) {
  if (!tn__expr_uses_var(e, s->axis) || !tn__expr_set_add(&s->seen, e)) return true;
  if (is_clamp(e) && !tn__expr_has_load(e)) {
    bool same = s->clamped == NULL || s->clamped == e;
    s->clamped = e;
    return same;
  }
  if (e->kind == TN__EXPR_VAR) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!finds_clamp(s, e->args[i])) return false;
  return true;
}

typedef struct clamp {
  int axis;
  const tn__expr *position;
  int64_t least, count; /* of different positions */
} clamp;

/* A reduction with at most three quarters as many different results as it has results. */
TN_MUST_USE static bool find_clamp(const tn__te *te, const tn__te_stage *stage, clamp *out) {
  int64_t extent;
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || stage->hint != TN__TE_ANYWHERE) return false;
  if (stage->tensor_count != 1 || tn__te_is_output(te, stage->tensors[0])) return false;
  for (int a = 0; a < stage->axes.count; a++) {
    search s = {.axis = stage->axes.var[a], .seen = {.ir = te->ir}};
    bool found = finds_clamp(&s, stage->values[0]) && s.clamped != NULL;
    tn__expr_set_clear(&s.seen);
    for (int r = 0; r < stage->reduce_axes.count; r++) found &= !tn__te_is_ragged(stage->reduce_axes.var[r]);
    if (!found || !tn__ir_as_int(s.axis->extent, &extent)) continue;
    for (int other = 0; other < stage->axes.count + stage->reduce_axes.count && found; other++) {
      const tn__var *var =
          other < stage->axes.count ? stage->axes.var[other] : stage->reduce_axes.var[other - stage->axes.count];
      found = var == s.axis || !tn__expr_uses_var(s.clamped, var);
    }
    if (!found) continue;
    tn__interval range = tn__interval_of(te->ir, s.clamped);
    *out = (clamp){a, s.clamped, range.min, range.max - range.min + 1};
    if (range.min > -extent && range.max < 2 * extent && out->count >= 1 && out->count <= extent - extent / 4)
      return true;
  }
  return false;
}

static const tn__expr *replace_position(tn__ir *ir, const tn__expr *e, void *user) {
  const tn__expr *const *pair = user;
  (void)ir;
  return e == pair[0] ? pair[1] : NULL;
}

/* The reduction over different positions takes the stage's place; the map comes behind all stages. */
static void keep_different(tn__te *te, tn__te_stage *stage, const clamp *c) {
  tn__ir *ir = te->ir;
  const tn__te_stage whole = *stage;
  const tn__expr *extents[TN__MAX_RANK], *to[TN__MAX_RANK], *at[TN__MAX_RANK];
  for (int a = 0; a < whole.axes.count; a++)
    extents[a] = a == c->axis ? tn__ir_index(ir, c->count) : whole.axes.var[a]->extent;
  const tn__te_axes axes = tn__te_axes_create(te, "i", whole.axes.count, extents);
  for (int a = 0; a < whole.axes.count; a++) {
    to[a] = axes.index[a];
    at[a] = a == c->axis ? tn__ir_add_i(ir, c->position, -c->least) : whole.axes.index[a];
  }
  const tn__expr *pair[] = {c->position, tn__ir_add_i(ir, to[c->axis], c->least)};
  const tn__expr *term = tn__expr_rewrite(ir, whole.values[0], replace_position, pair);
  term = tn__ir_substitute(ir, term, whole.axes.var, to, whole.axes.count);
  const char *name = tn__arena_printf(te->arena, "%s.within", whole.tensors[0]->name);
  const tn__buffer *made;
  tn__te_reduce_as(te, &name, &axes, &whole.reduce_axes, whole.combiner, &term, &made);
  *stage = *te->stages.data[--te->stages.count];
  tn__te_define(te, &whole.axes, NULL, whole.tensors[0], tn__ir_load(ir, made, at));
}

const tn__te *tn__te_clamped(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  clamp c;
  for (int s = 0; s < now->stages.count; s++) {
    if (!find_clamp(now, now->stages.data[s], &c)) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    if (!find_clamp(copy, copy->stages.data[s], &c)) continue;
    keep_different(copy, copy->stages.data[s], &c);
    tn__te_move_before(copy, s + 1, 1);
    s++;
  }
  return now;
}
