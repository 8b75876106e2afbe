/* Sums most of whose terms a condition on a remainder leaves out. A transposed convolution as it is defined,
 *
 *   Y[y] = sum(k) select((y + 1 - k) % 2 == 0, X[(y + 1 - k) / 2], 0) * W[k]
 *
 * looks at all k for each y, of which every second is there: those with the remainder of y + 1. Positions of y with
 * one remainder, a phase, have the same ones. With y = 2 * t + p - 1 and k = p + 2 * j, for each phase p,
 *
 *   P[p, t] = sum(j) X[t - j] * W[p + 2 * j]       Y[y] = P[(y + 1) % 2, (y + 1) / 2]
 *
 * is a convolution like others, and its results are dealt out. Phases that have fewer k than others are sums of their
 * own. The conditions stay in the terms: they are true there as far as the simplifier sees it. */
#include <string.h>

#include "ir/linear.h"
#include "te/internal.h"

enum { MOST_CUTS = 3, MOST_CONDITIONS = 32, LARGEST_STEP = 1 << 16, DEEPEST = 16 };

/* One axis of the elements and one of the reduction whose remainders go together: terms are there where
 * k = residue (mod step), and with position y = step * t + p - offset the residue is p, or step - 1 - p. */
typedef struct cut {
  int axis, reduce;
  int64_t step, offset, length; /* of the reduction */
  bool turned;                  /* the residue is step - 1 - p */
} cut;

typedef struct conditions {
  const tn__expr *list[MOST_CONDITIONS]; /* all hold where a term is not the identity */
  int count;
} conditions;

/* ---- which terms are there --------------------------------------------------------------------------------------- */

static bool is_zero(const tn__expr *e) {
  return (e->kind == TN__EXPR_INT && e->value.i == 0) || (e->kind == TN__EXPR_FLOAT && e->value.f == 0);
}

static void demand(tn__ir *ir, conditions *c, const tn__expr *condition) {
  if (condition->kind == TN__EXPR_AND && condition->dtype == TN_BOOL) {
    demand(ir, c, condition->args[0]);
    demand(ir, c, condition->args[1]);
  } else if (c->count < MOST_CONDITIONS) {
    c->list[c->count++] = condition;
  }
}

/* What holds where a term is not the combiner's identity; in a sum, zero times anything is a term that is not there. */
static void see_term(tn__ir *ir, conditions *c, const tn__expr *e, const tn__expr *identity, int depth) {
  bool zero = identity == NULL || is_zero(identity);
  if (depth > DEEPEST) return;
  for (int side = 1; side <= 2 && e->kind == TN__EXPR_SELECT; side++) {
    if (e->args[side] != identity && !(zero && is_zero(e->args[side]))) continue;
    demand(ir, c, side == 2 ? e->args[0] : tn__ir_not(ir, e->args[0]));
    see_term(ir, c, e->args[3 - side], identity, depth + 1);
    return;
  }
  if (!zero) return;
  if (e->dtype == TN_BOOL && e->kind >= TN__EXPR_EQ && e->kind <= TN__EXPR_AND) demand(ir, c, e);
  if (e->kind != TN__EXPR_MUL && e->kind != TN__EXPR_CAST) return;
  for (int i = 0; i < e->arg_count; i++) see_term(ir, c, e->args[i], NULL, depth + 1);
}

/* ---- remainders -------------------------------------------------------------------------------------------------- */

/* Adds scale * e to the sum, modulo `step`. */
static void add_modulo(tn__ir *ir, tn__linear *sum, const tn__expr *e, int64_t scale, int64_t step, int depth) {
  int64_t divisor;
  tn__linear parts;
  tn__linear_init(&parts);
  tn__linear_add(ir, &parts, e, scale);
  sum->constant = tn__ir_floormod_i64(sum->constant + tn__ir_floormod_i64(parts.constant, step), step);
  for (int i = 0; i < parts.count; i++) {
    const tn__expr *atom = parts.terms[i].atom;
    int64_t factor = tn__ir_floormod_i64(parts.terms[i].coefficient, step);
    if (factor == 0) continue;
    if (atom->kind == TN__EXPR_MOD && depth < DEEPEST && tn__ir_as_int(atom->args[1], &divisor) && divisor > 0 &&
        divisor % step == 0)
      add_modulo(ir, sum, atom->args[0], factor, step, depth + 1);
    else
      tn__linear_add_term(ir, sum, atom, factor);
  }
}

/* The axis that an atom is; -1: none of them. */
static int axis_of(const tn__te_axes *axes, const tn__expr *atom) {
  for (int i = 0; i < axes->count; i++)
    if (axes->index[i] == atom) return i;
  return -1;
}

static bool starts_at_zero(const tn__var *axis) { return axis->min == NULL || tn__ir_is_int_value(axis->min, 0); }

static bool is_cut(const cut *cuts, int count, int axis, int reduce) {
  for (int i = 0; i < count; i++)
    if (cuts[i].axis == axis || cuts[i].reduce == reduce) return true;
  return false;
}

/* An axis of the elements and one of the reduction, in which the condition is linear modulo `step`, with factors of 1
 * or -1; anything else that does not drop out is too much. */
TN_MUST_USE static bool find_axes(tn__ir *ir, const tn__te_stage *stage, const tn__linear *sum, cut *c,
                                  bool *negative) {
  for (int i = 0; i < sum->count; i++) {
    int64_t factor = tn__ir_floormod_i64(sum->terms[i].coefficient, c->step);
    int axis = axis_of(&stage->axes, sum->terms[i].atom), reduce = axis_of(&stage->reduce_axes, sum->terms[i].atom);
    if (factor == 0) continue;
    if (factor != 1 && factor != c->step - 1) return false;
    if ((axis < 0 || c->axis >= 0) && (reduce < 0 || c->reduce >= 0)) return false;
    if (axis >= 0) c->axis = axis;
    if (reduce >= 0) c->reduce = reduce;
    negative[axis < 0] = factor != 1;
  }
  return c->axis >= 0 && c->reduce >= 0;
}

/* Does it say, modulo `step`, which steps of one axis of the reduction meet a position of one axis? */
TN_MUST_USE static bool find_cut(tn__ir *ir, const tn__te_stage *stage, const tn__expr *condition, int64_t step,
                                 cut *out) {
  bool negative[2] = {false}; /* the axis, the reduction's */
  int64_t extent;
  tn__linear sum;
  tn__linear_init(&sum);
  add_modulo(ir, &sum, condition->args[0], 1, step, 0);
  add_modulo(ir, &sum, condition->args[1], -1, step, 0);
  *out = (cut){.axis = -1, .reduce = -1, .step = step};
  if (!find_axes(ir, stage, &sum, out, negative)) return false;
  const tn__var *y = stage->axes.var[out->axis], *k = stage->reduce_axes.var[out->reduce];
  if (!starts_at_zero(y) || !starts_at_zero(k) || !tn__ir_as_int(k->extent, &out->length) || out->length < 2)
    return false;
  if (tn__ir_as_int(y->extent, &extent) && extent < 2 * step) return false;
  int64_t constant = sum.constant + (condition->kind == TN__EXPR_NE); /* not equal modulo 2: one more is equal */
  if (negative[1]) constant = -constant;
  out->turned = step > 2 && negative[0] == negative[1]; /* k = -y - constant; modulo 2 there are no signs */
  out->offset = tn__ir_floormod_i64(out->turned ? constant - 1 : -constant, step);
  return true;
}

typedef struct steps {
  int64_t list[MOST_CONDITIONS];
  int count;
} steps;

static void add_step(steps *s, int64_t step) {
  for (int i = 0; i < s->count; i++)
    if (s->list[i] == step) return;
  if (step >= 2 && step <= LARGEST_STEP && s->count < MOST_CONDITIONS) s->list[s->count++] = step;
}

/* What an equation may be looked at modulo of: divisors of remainders and factors. */
static void see_step(const tn__expr *e, void *user) {
  int64_t step;
  if (e->kind != TN__EXPR_MOD && e->kind != TN__EXPR_MUL) return;
  for (int i = 0; i < 2; i++)
    if (tn__ir_as_int(e->args[i], &step)) add_step(user, step < 0 ? -step : step);
}

/* Can both sides only be equal or one apart? Then they are equal, or not, as their remainders by 2 are. */
static bool is_parity(tn__ir *ir, const tn__expr *condition) {
  tn__interval a = tn__interval_of(ir, condition->args[0]), b = tn__interval_of(ir, condition->args[1]);
  return a.min >= 0 && a.max <= 1 && b.min >= 0 && b.max <= 1;
}

static int find_cuts(tn__ir *ir, const tn__te_stage *stage, cut *cuts) {
  conditions c = {.count = 0};
  int count = 0;
  see_term(ir, &c, stage->values[0], stage->combiner->identity[0], 0);
  for (int i = 0; i < c.count && count < MOST_CUTS; i++) {
    const tn__expr *e = c.list[i];
    if ((e->kind != TN__EXPR_EQ && e->kind != TN__EXPR_NE) || e->args[0]->dtype != TN_I64) continue;
    if (tn__te_is_too_large(ir, e)) continue;
    steps s = {.count = 0};
    tn__te_visit(ir, e, see_step, &s);
    for (int n = 0; n < s.count; n++) {
      cut *found = &cuts[count];
      if (e->kind == TN__EXPR_NE && (s.list[n] != 2 || !is_parity(ir, e))) continue;
      if (!find_cut(ir, stage, e, s.list[n], found) || is_cut(cuts, count, found->axis, found->reduce)) continue;
      count++;
      break;
    }
  }
  return count;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* Phases of one cut with the same number of terms. */
typedef struct range {
  int64_t from, count, terms;
} range;

/* Which phases have a term more than others follows from the reduction's length. */
static range range_of(const cut *c, bool more) {
  int64_t rest = c->length % c->step;
  range r = {.from = 0, .count = rest, .terms = c->length / c->step + 1};
  if (!more) r = (range){.from = rest, .count = c->step - rest, .terms = c->length / c->step};
  if (c->turned) r.from = c->step - r.from - r.count;
  return r;
}

typedef struct phases {
  tn__te *te; /* written to */
  tn__ir *ir;
  const tn__te_stage *stage; /* as it was */
  const cut *cuts;
  int count;
} phases;

/* Which of the cuts is of this axis; -1: none. */
static int cut_of(const phases *p, int axis, bool reduce) {
  for (int i = 0; i < p->count; i++)
    if ((reduce ? p->cuts[i].reduce : p->cuts[i].axis) == axis) return i;
  return -1;
}

static const char *phase_name(const phases *p, int axis) {
  const tn__te_axes *axes = &p->stage->axes;
  const char *name = tn__arena_printf(p->te->arena, "%s.phase", axes->var[axis]->name);
  for (int i = 0; i < axes->count; i++) {
    if (strcmp(axes->var[i]->name, name) != 0) continue;
    name = tn__arena_printf(p->te->arena, "%s_", name);
    i = -1;
  }
  return name;
}

/* Adds an axis; returns its position. */
static const tn__expr *add_axis(const phases *p, tn__te_axes *axes, const char *name, const tn__expr *min,
                                const tn__expr *extent) {
  const tn__var *var = tn__var_create(p->ir, name, TN_I64, min, extent);
  axes->var[axes->count] = var;
  axes->index[axes->count] = var->self;
  return axes->index[axes->count++];
}

/* Axes of the elements become those of the phases, in front of the first that is cut, and of the positions in each;
 * `to` gets what the former ones are in terms of these. */
static tn__te_axes axes_of_phases(const phases *p, const range *ranges, const tn__expr **to) {
  tn__ir *ir = p->ir;
  tn__te_axes axes = {0};
  const tn__expr *phase[MOST_CUTS] = {NULL}, *zero = tn__ir_index(ir, 0);
  for (int a = 0; a < p->stage->axes.count; a++) {
    const tn__var *var = p->stage->axes.var[a];
    int at = cut_of(p, a, false);
    for (int i = 0; i < p->count && at >= 0 && phase[i] == NULL; i++) {
      phase[i] = tn__ir_index(ir, ranges[i].from);
      if (ranges[i].count == 1) continue;
      const tn__expr *count = tn__ir_index(ir, ranges[i].count);
      const tn__expr *index = add_axis(p, &axes, phase_name(p, p->cuts[i].axis), zero, count);
      phase[i] = tn__ir_add(ir, phase[i], index);
    }
    if (at < 0) {
      to[a] = add_axis(p, &axes, var->name, var->min, var->extent);
      continue;
    }
    const cut *c = &p->cuts[at];
    const tn__expr *last = tn__ir_add_i(ir, var->extent, c->offset - 1);
    const tn__expr *turn = add_axis(p, &axes, var->name, zero, tn__ir_add_i(ir, tn__ir_div_i(ir, last, c->step), 1));
    to[a] = tn__ir_add_i(ir, tn__ir_add(ir, tn__ir_mul_i(ir, turn, c->step), phase[at]), -c->offset);
  }
  return axes;
}

static tn__te_axes reduce_axes_of_phases(const phases *p, const range *ranges, const tn__expr *const *positions,
                                         const tn__expr **to) {
  tn__te_axes axes = {0};
  for (int r = 0; r < p->stage->reduce_axes.count; r++) {
    const tn__var *var = p->stage->reduce_axes.var[r];
    int at = cut_of(p, r, true);
    const tn__expr *extent = at < 0 ? var->extent : tn__ir_index(p->ir, ranges[at].terms);
    to[r] = add_axis(p, &axes, var->name, var->min, extent);
    if (at < 0) continue;
    const cut *c = &p->cuts[at];
    const tn__expr *phase = tn__ir_mod_i(p->ir, tn__ir_add_i(p->ir, positions[c->axis], c->offset), c->step);
    if (c->turned) phase = tn__ir_sub(p->ir, tn__ir_index(p->ir, c->step - 1), phase);
    to[r] = tn__ir_add(p->ir, tn__ir_mul_i(p->ir, to[r], c->step), phase);
  }
  return axes;
}

/* Phases may begin before the first position of an axis and end behind its last one. */
static const tn__expr *inside_of_axes(const phases *p, const tn__expr *const *positions) {
  const tn__expr *condition = tn__ir_bool(p->ir, true);
  for (int i = 0; i < p->count; i++) {
    const tn__expr *y = positions[p->cuts[i].axis], *extent = p->stage->axes.var[p->cuts[i].axis]->extent;
    condition = tn__ir_and(p->ir, condition, tn__ir_le(p->ir, tn__ir_index(p->ir, 0), y));
    condition = tn__ir_and(p->ir, condition, tn__ir_lt(p->ir, y, extent));
  }
  return condition;
}

/* Where the sum of a position is. */
static const tn__expr *read_phases(const phases *p, const range *ranges, const tn__buffer *tensor) {
  const tn__expr *indices[TN__MAX_RANK], *moved[MOST_CUTS];
  bool begun = false;
  int count = 0;
  for (int i = 0; i < p->count; i++)
    moved[i] = tn__ir_add_i(p->ir, p->stage->axes.index[p->cuts[i].axis], p->cuts[i].offset);
  for (int a = 0; a < p->stage->axes.count; a++) {
    int at = cut_of(p, a, false);
    for (int i = 0; i < p->count && at >= 0 && !begun; i++)
      if (ranges[i].count > 1)
        indices[count++] = tn__ir_add_i(p->ir, tn__ir_mod_i(p->ir, moved[i], p->cuts[i].step), -ranges[i].from);
    begun |= at >= 0;
    indices[count++] = at < 0 ? p->stage->axes.index[a] : tn__ir_div_i(p->ir, moved[at], p->cuts[at].step);
  }
  return tn__ir_load(p->ir, tensor, indices);
}

/* The sums of some phases, as a stage of their own behind all others; returns the element of a position. */
static const tn__expr *add_phases(const phases *p, const range *ranges) {
  const tn__te_stage *stage = p->stage;
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *to[2 * TN__MAX_RANK];
  const tn__buffer *tensor;
  int count = stage->axes.count;
  for (int a = 0; a < count; a++) from[a] = stage->axes.var[a];
  for (int r = 0; r < stage->reduce_axes.count; r++) from[count + r] = stage->reduce_axes.var[r];
  tn__te_axes axes = axes_of_phases(p, ranges, to);
  tn__te_axes reduce = reduce_axes_of_phases(p, ranges, to, to + count);
  const tn__expr *term = tn__ir_substitute(p->ir, stage->values[0], from, to, count + reduce.count);
  const char *name = tn__arena_printf(p->te->arena, "%s.phases", stage->name);
  tn__te_reduce_as(p->te, &name, &axes, &reduce, stage->combiner, &term, &tensor);
  tn__te_stage *added = p->te->stages.data[p->te->stages.count - 1];
  const tn__expr *inside = inside_of_axes(p, to);
  if (!tn__ir_is_true(inside) && !tn__te_shows_inside(p->te, p->te->stages.count - 1))
    added->values[0] = tn__ir_select(p->ir, inside, added->values[0], stage->combiner->identity[0]);
  return read_phases(p, ranges, tensor);
}

/* The element of a position: a choice by its phases along the cuts from number `i` on. */
static const tn__expr *element(const phases *p, range *ranges, int i) {
  if (i == p->count) return add_phases(p, ranges);
  const cut *c = &p->cuts[i];
  const tn__expr *values[2];
  for (int more = 0; more < 2; more++) {
    ranges[i] = range_of(c, more);
    values[more] = NULL;
    if (ranges[i].count > 0 && ranges[i].terms == 0) values[more] = p->stage->combiner->identity[0];
    if (ranges[i].count > 0 && ranges[i].terms > 0) values[more] = element(p, ranges, i + 1);
  }
  if (values[0] == NULL || values[1] == NULL) return values[values[0] == NULL];
  const tn__expr *moved = tn__ir_add_i(p->ir, p->stage->axes.index[c->axis], c->offset);
  const tn__expr *first = tn__ir_index(p->ir, range_of(c, !c->turned).count); /* phases before the others */
  const tn__expr *before = tn__ir_lt(p->ir, tn__ir_mod_i(p->ir, moved, c->step), first);
  return tn__ir_select(p->ir, before, values[!c->turned], values[c->turned]);
}

const tn__te *tn__te_phases(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  cut cuts[MOST_CUTS + 1];
  range ranges[MOST_CUTS];
  for (int s = 0; s < now->stages.count; s++) {
    const tn__te_stage *stage = now->stages.data[s];
    if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->step_of != NULL) continue;
    int count = find_cuts(te->ir, stage, cuts);
    if (count == 0 || stage->axes.count + count > TN__MAX_RANK) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    tn__te_stage *dealt = copy->stages.data[s];
    const tn__te_stage whole = *dealt;
    const phases p = {.te = copy, .ir = te->ir, .stage = &whole, .cuts = cuts, .count = count};
    int before = copy->stages.count;
    const tn__expr *value = element(&p, ranges, 0);
    int added = copy->stages.count - before;
    dealt->kind = TN__TE_COMPUTE;
    dealt->values[0] = value;
    dealt->reduce_axes.count = 0;
    dealt->combiner = NULL;
    tn__te_move_before(copy, s, added);
    s += added;
  }
  return now;
}
