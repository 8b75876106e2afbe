/* What accumulations compute of their terms. Where each term goes is data, so the terms are taken one after the other;
 * what is computed of them, the places and the values, can come in vectors:
 *
 *   H[b] = sum(i) 1 into [i64(X[i] * 256)]      becomes      P[i] = i32(X[i] * 256)
 *                                                            H[b] = sum(i) 1 into [i64(P[i])] */
#include "base/dtype.h"
#include "te/internal.h"

/* Operations on data from which on a store and a load of the result are the lesser work. */
enum { WORTH_A_MAP = 4, OF_FUNCTIONS = 16, OF_CLAMPS = 3 };
/* Of a map of places or values, if it were stored whole: 2^32. */
#define MOST_ELEMENTS 4294967296.0

typedef struct work {
  tn__ir *ir;
  int operations;
  bool may_fail; /* a division whose divisor may be zero, or a tensor that may be empty: what falls away is computed */
} work;

static void see_work(const tn__expr *e, void *user) {
  work *w = user;
  bool reads = tn__expr_has_load(e);
  for (int d = 0; e->kind == TN__EXPR_LOAD && d < e->arg_count; d++)
    w->may_fail |= tn__interval_of(w->ir, e->value.buffer->shape[d]).min < 1;
  if (!reads || e->kind == TN__EXPR_LOAD || e->kind == TN__EXPR_BITCAST) return;
  if ((e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype)) {
    w->may_fail |= !tn__ir_is_int(e->args[1]) || e->args[1]->value.i == 0;
    w->operations += WORTH_A_MAP;
  }
  bool rounds = e->kind == TN__EXPR_CAST && tn__dtype_is_float(e->args[0]->dtype) && !tn__dtype_is_float(e->dtype);
  w->operations += e->kind == TN__EXPR_CALL ? OF_FUNCTIONS : rounds ? OF_CLAMPS : 1;
}

/* What does not depend on an axis of the reduction is computed again along it. */
static bool is_worth_it(tn__ir *ir, const tn__te_stage *stage, const tn__expr *e) {
  work w = {.ir = ir};
  int64_t extent, times = 1;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (!tn__expr_uses_var(e, stage->reduce_axes.var[r]) && tn__ir_as_int(stage->reduce_axes.var[r]->extent, &extent) &&
        extent > times)
      times = extent < WORTH_A_MAP ? extent : WORTH_A_MAP;
  tn__te_visit(ir, e, see_work, &w);
  return w.operations * times >= WORTH_A_MAP && w.operations > 1 && !w.may_fail;
}

/* Terms that follow each other, none beside another in memory but for the few coordinates of a point. */
static bool is_scattered(const tn__te_stage *stage) {
  enum { MOST_COORDINATES = 4 };
  if (stage->kind != TN__TE_ACCUMULATE || stage->step_of != NULL) return false;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (tn__te_is_ragged(stage->reduce_axes.var[r])) return false;
  return tn__te_row_of_place(stage) <= MOST_COORDINATES;
}

/* A map of its own that makes the expression; returns what reads it there. */
static const tn__expr *outline(tn__te *te, const tn__te_stage *stage, const char *what, const tn__expr *e) {
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *extents[2 * TN__MAX_RANK], *at[2 * TN__MAX_RANK];
  int rank = 0, terms = stage->reduce_axes.count;
  for (int a = 0; a < stage->axes.count + terms; a++) { /* coordinates of a point lie side by side */
    const tn__var *var = a < terms ? stage->reduce_axes.var[a] : stage->axes.var[a - terms];
    if (!tn__expr_uses_var(e, var) || (var->min != NULL && !tn__ir_is_int_value(var->min, 0))) continue;
    from[rank] = var;
    at[rank] = var->self;
    extents[rank++] = var->extent;
  }
  const char *name = tn__arena_printf(te->arena, "%s.%s", stage->name, what);
  for (int i = 2; tn__te_has_name(te, name); i++) name = tn__arena_printf(te->arena, "%s.%s%d", stage->name, what, i);
  const tn__te_axes axes = tn__te_axes_create(te, "i", rank, extents);
  const tn__expr *value = tn__ir_substitute(te->ir, e, from, axes.index, rank);
  const tn__buffer *tensor = tn__te_compute(te, name, &axes, value);
  tn__te_move_inside(te, te->stages.count - 1); /* what falls away is computed, too, wherever it reads */
  return tn__ir_load(te->ir, tensor, at);
}

/* Does the expression vary with axes that can be those of a tensor, and with no others? Schedules keep a part of it at
 * a time, but whoever stores it whole must find that it fits into memory. */
static bool can_be_tensor(const tn__te_stage *stage, const tn__expr *e) {
  int rank = 0;
  int64_t extent;
  double elements = 1;
  for (int a = 0; a < stage->axes.count + stage->reduce_axes.count; a++) {
    const tn__var *var = a < stage->axes.count ? stage->axes.var[a] : stage->reduce_axes.var[a - stage->axes.count];
    if (!tn__expr_uses_var(e, var)) continue;
    if (var->min != NULL && !tn__ir_is_int_value(var->min, 0)) return false;
    if (tn__ir_as_int(var->extent, &extent)) elements *= (double)extent;
    rank++;
  }
  return rank > 0 && rank <= TN__MAX_RANK && elements <= MOST_ELEMENTS;
}

/* What is to be made of a place: what it is converted from, or, of a float, 32 bits of it where they say as much. */
static const tn__expr *narrowest(tn__ir *ir, const tn__expr *place, const tn__expr *extent) {
  int64_t size;
  if (place->kind != TN__EXPR_CAST) return place;
  const tn__expr *from = place->args[0];
  if (!tn__dtype_is_float(from->dtype)) return from;
  return tn__ir_as_int(extent, &size) && size <= INT32_MAX ? tn__ir_cast(ir, TN_I32, from) : place;
}

static int outline_terms(tn__te *te, tn__te_stage *stage) {
  int before = te->stages.count;
  for (int d = 0; d < stage->axes.count; d++) {
    if (tn__te_keeps_axis(stage, d)) continue;
    const tn__expr *place = narrowest(te->ir, stage->into[d], stage->axes.var[d]->extent);
    if (!is_worth_it(te->ir, stage, stage->into[d]) || !can_be_tensor(stage, place)) continue;
    const tn__expr *load = outline(te, stage, "place", place);
    stage->into[d] = tn__ir_cast(te->ir, TN_I64, load);
  }
  for (int t = 0; t < stage->tensor_count; t++)
    if (is_worth_it(te->ir, stage, stage->values[t]) && can_be_tensor(stage, stage->values[t]))
      stage->values[t] = outline(te, stage, "term", stage->values[t]);
  return te->stages.count - before;
}

/* Is there anything for outline_terms()? */
static bool computes_terms(tn__ir *ir, const tn__te_stage *stage) {
  bool any = false;
  if (!is_scattered(stage)) return false;
  for (int d = 0; d < stage->axes.count; d++)
    any |=
        !tn__te_keeps_axis(stage, d) && is_worth_it(ir, stage, stage->into[d]) && can_be_tensor(stage, stage->into[d]);
  for (int t = 0; t < stage->tensor_count; t++)
    any |= is_worth_it(ir, stage, stage->values[t]) && can_be_tensor(stage, stage->values[t]);
  return any;
}

const tn__te *tn__te_terms(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  if (te->unchecked) return te; /* terms that fall away may read outside of their tensors */
  for (int s = 0; s < now->stages.count; s++) {
    if (!computes_terms(te->ir, now->stages.data[s])) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    int added = outline_terms(copy, copy->stages.data[s]);
    tn__te_move_before(copy, s, added);
    s += added;
  }
  return now;
}
