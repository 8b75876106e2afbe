/* Reductions over windows. Neighbouring results share all terms but two, and what is made of two neighbouring terms, of
 * four, of eight serves many of them, in any associative combiner:
 *
 *   Y[y] = max(r: 11) X[y + r]      becomes      Y.runs2[y] = max(X[y], X[y + 1])
 *                                                Y.runs4[y] = max(Y.runs2[y], Y.runs2[y + 2])
 *                                                Y.runs8[y] = max(Y.runs4[y], Y.runs4[y + 4])
 *                                                Y[y] = max(Y.runs8[y], Y.runs8[y + 3])
 *
 * In a sum, where no term may count twice, a window is put together from runs of several lengths. Results are all made
 * in the same way, a tree of terms. Axes of a window go one after the other: what is reduced along the others is done
 * once for each place along one. A short window is a reduction over these places then, and one of terms that take work
 * reads them from a map. So does one whose row ends are clamped, which the map has beyond them. */
#include "ir/linear.h"
#include "te/internal.h"

/* The longest window has fewer runs than there is room for. A term that takes work is worth a map where five results
 * share it, and one whose row ends would be gathered where three do. */
enum { MOST_RUNS = 32, LONGEST = 1 << 16, SHORTEST = 2, WORTH_A_MAP = 5, WORTH_EDGES = 3 };
/* A run takes two loads and a store, each of the window's terms a load in registers; how much less is worth it. */
#define WORTH_RUNS 0.75

/* The axis of the elements along which one of the reduction is a window: terms depend on their sum, or difference. */
typedef struct window {
  int axis, reduce;
  int64_t length;
  bool runs;            /* it is made from runs */
  bool turned;          /* terms are at y - r */
  const tn__var *place; /* y + r, or y - r + length - 1 */
  const tn__expr *term; /* in terms of it */
} window;

static bool starts_at_zero(const tn__var *axis) { return axis->min == NULL || tn__ir_is_int_value(axis->min, 0); }

static bool find_window_along(tn__ir *ir, const tn__te_stage *stage, window *w) {
  const tn__var *y = stage->axes.var[w->axis], *r = stage->reduce_axes.var[w->reduce];
  w->place = tn__var_create(ir, y->name, TN_I64, tn__ir_index(ir, 0), tn__ir_add_i(ir, y->extent, w->length - 1));
  for (int turned = 0; turned < 2; turned++) {
    const tn__expr *at = tn__ir_sub(ir, w->place->self, r->self);
    if (turned) at = tn__ir_add_i(ir, tn__ir_add(ir, w->place->self, r->self), 1 - w->length);
    w->turned = turned;
    w->term = tn__ir_substitute(ir, stage->values[0], &y, &at, 1);
    if (!tn__expr_uses_var(w->term, r)) return true;
  }
  return false;
}

/* Loads and stores of all runs for each of the window's own loads. */
static double share_of_work(const tn__te_stage *stage, const window *w, bool counts_once) {
  double results = tn__ir_extent_estimate(stage->axes.var[w->axis]->extent), work = 0;
  int64_t longest = 1;
  for (; 2 * longest < w->length; longest *= 2) work += 3 * (results + (double)(w->length - 2 * longest));
  work += 3 * results;
  int64_t rest = w->length - longest; /* what the second of the last two runs leaves out takes shorter ones */
  for (rest &= rest - 1; rest > 0 && counts_once; rest &= rest - 1) work += results;
  return work / (results * (double)w->length);
}

/* May a term be taken twice? */
static bool is_idempotent(const tn__te_combiner *c) {
  const tn__expr *e = c->result[0];
  if (e->kind != TN__EXPR_MAX && e->kind != TN__EXPR_MIN && e->kind != TN__EXPR_AND && e->kind != TN__EXPR_OR)
    return false;
  return (e->args[0] == c->lhs[0]->self && e->args[1] == c->rhs[0]->self) ||
         (e->args[0] == c->rhs[0]->self && e->args[1] == c->lhs[0]->self);
}

/* The same where what is left of the reduction is done once for each place, and nothing is a run. */
static double share_apart(const tn__te_stage *stage, const window *w) {
  double results = tn__ir_extent_estimate(stage->axes.var[w->axis]->extent), rest = 1;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (r != w->reduce) rest *= tn__ir_extent_estimate(stage->reduce_axes.var[r]->extent);
  const double places = results + (double)(w->length - 1), each = (double)w->length;
  return (places * (rest + 1) + results * (each + 1)) / (results * each * rest);
}

typedef struct edges {
  tn__ir *ir;
  const tn__var *axis;
  bool found;
} edges;

static void see_edge(const tn__expr *e, void *user) {
  edges *s = user;
  for (int d = 0; d < e->arg_count && e->kind == TN__EXPR_LOAD; d++)
    s->found |= tn__expr_uses_var(e->args[d], s->axis) && tn__ir_interior(s->ir, e->args[d]) != e->args[d];
}

/* Are positions along the last axis clamped, mirrored or the like? At the ends of each row, vectors of neighbouring
 * results would be gathered for every term. */
static bool has_edges(tn__ir *ir, const tn__te_stage *stage) {
  edges s = {.ir = ir, .axis = stage->axes.var[stage->axes.count - 1]};
  tn__te_visit(ir, stage->values[0], see_edge, &s);
  return s.found;
}

/* Is it worth it? Says whether from runs (`w->runs`), or from places alone. */
static bool choose(tn__ir *ir, const tn__te_stage *stage, window *w) {
  const tn__expr *value = stage->values[0];
  w->runs = share_of_work(stage, w, !is_idempotent(stage->combiner)) <= WORTH_RUNS;
  if (w->runs) return true;
  if (w->length >= WORTH_EDGES && has_edges(ir, stage)) return true;
  if (stage->reduce_axes.count > 1) return share_apart(stage, w) <= WORTH_RUNS;
  return w->length >= WORTH_A_MAP && value->kind != TN__EXPR_LOAD && tn__expr_has_load(value);
}

/* The outermost axis that is worth it. */
TN_MUST_USE static bool find_window(tn__ir *ir, const tn__te_stage *stage, window *w) {
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->step_of != NULL) return false;
  if (!stage->combiner->reorderable) return false;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (tn__te_is_ragged(stage->reduce_axes.var[r])) return false;
  for (int a = 0; a < stage->axes.count; a++)
    for (int r = 0; r < stage->reduce_axes.count; r++) {
      const tn__var *y = stage->axes.var[a], *k = stage->reduce_axes.var[r];
      *w = (window){.axis = a, .reduce = r};
      if (!starts_at_zero(y) || !starts_at_zero(k) || !tn__ir_as_int(k->extent, &w->length)) continue;
      if (w->length < SHORTEST || w->length > LONGEST || !tn__expr_uses_var(stage->values[0], k)) continue;
      if (choose(ir, stage, w) && find_window_along(ir, stage, w)) return true;
    }
  return false;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct runs {
  tn__te *te;
  tn__ir *ir;
  const tn__te_stage *stage; /* as it was */
  const window *w;
  const tn__buffer *tensor[MOST_RUNS]; /* of 1, 2, 4... terms; the first is NULL where a term is a load */
  int count;
} runs;

static const char *name_of(const runs *b, int64_t length) {
  const char *what = tn__arena_printf(b->te->arena, length == 1 ? "places" : "runs%lld", (long long)length);
  const char *name = tn__arena_printf(b->te->arena, "%s.%s", b->stage->name, what);
  for (int i = 2; tn__te_has_name(b->te, name); i++)
    name = tn__arena_printf(b->te->arena, "%s.%s_%d", b->stage->name, what, i);
  return name;
}

/* Axes as those of the stage, with all places along the window's at which a run of that length begins. */
static tn__te_axes axes_of(const runs *b, int64_t length) {
  tn__te_axes axes = b->stage->axes;
  for (int a = 0; a < axes.count; a++) {
    const tn__var *var = b->stage->axes.var[a];
    const tn__expr *extent = var->extent;
    if (a == b->w->axis) extent = tn__ir_add_i(b->ir, extent, b->w->length - length);
    axes.var[a] = tn__var_create(b->ir, var->name, TN_I64, var->min, extent);
    axes.index[a] = axes.var[a]->self;
  }
  return axes;
}

/* The term at a place of these axes. */
static const tn__expr *term_at(const runs *b, const tn__expr *const *index) {
  const tn__var *from[TN__MAX_RANK];
  for (int a = 0; a < b->stage->axes.count; a++) from[a] = b->stage->axes.var[a];
  from[b->w->axis] = b->w->place;
  return tn__ir_substitute(b->ir, b->w->term, from, index, b->stage->axes.count);
}

/* Run number `n` that begins `shift` places further. */
static const tn__expr *run_at(const runs *b, int n, const tn__te_axes *axes, const tn__expr *shift) {
  const tn__expr *index[TN__MAX_RANK];
  for (int a = 0; a < axes->count; a++) index[a] = axes->index[a];
  index[b->w->axis] = tn__ir_add(b->ir, index[b->w->axis], shift);
  return b->tensor[n] == NULL ? term_at(b, index) : tn__ir_load(b->ir, b->tensor[n], index);
}

static const tn__expr *combined(const runs *b, const tn__expr *x, const tn__expr *y) {
  const tn__te_combiner *c = b->stage->combiner;
  const tn__var *from[2] = {c->lhs[0], c->rhs[0]};
  const tn__expr *to[2] = {x, y};
  return tn__ir_substitute(b->ir, c->result[0], from, to, 2);
}

/* One term, or what is left of the reduction, at each place. */
static void add_terms(runs *b) {
  const tn__te_axes axes = axes_of(b, 1);
  const tn__expr *term = term_at(b, axes.index);
  const char *name = name_of(b, 1);
  tn__te_axes rest = {0};
  const tn__var *from[TN__MAX_RANK];
  for (int r = 0; r < b->stage->reduce_axes.count; r++) {
    const tn__var *var = b->stage->reduce_axes.var[r];
    if (r == b->w->reduce) continue;
    from[rest.count] = var;
    rest.var[rest.count] = tn__var_create(b->ir, var->name, TN_I64, var->min, var->extent);
    rest.index[rest.count] = rest.var[rest.count]->self;
    rest.count++;
  }
  term = tn__ir_substitute(b->ir, term, from, rest.index, rest.count);
  if (rest.count > 0)
    tn__te_reduce_as(b->te, &name, &axes, &rest, b->stage->combiner, &term, &b->tensor[0]);
  else if (term->kind != TN__EXPR_LOAD || !b->w->runs)
    b->tensor[0] = tn__te_compute(b->te, name, &axes, term);
  b->count = 1;
}

static const tn__expr *further(const runs *b, int n, const tn__te_axes *axes, int64_t shift) {
  return run_at(b, n, axes, tn__ir_index(b->ir, shift));
}

/* The stage's elements, from runs that are made behind all other stages. */
static const tn__expr *add_runs(runs *b) {
  int64_t length = 1, done = 0;
  for (; 2 * length < b->w->length; length *= 2) {
    const tn__te_axes axes = axes_of(b, 2 * length);
    const tn__expr *first = further(b, b->count - 1, &axes, 0), *second = further(b, b->count - 1, &axes, length);
    b->tensor[b->count] = tn__te_compute(b->te, name_of(b, 2 * length), &axes, combined(b, first, second));
    b->count++;
  }
  const tn__te_axes *axes = &b->stage->axes;
  const tn__expr *value = further(b, b->count - 1, axes, 0);
  if (is_idempotent(b->stage->combiner))
    return combined(b, value, further(b, b->count - 1, axes, b->w->length - length));
  for (int n = b->count - 1; (done += length) < b->w->length;) {
    for (; length > b->w->length - done; length /= 2) n--;
    value = combined(b, value, further(b, n, axes, done));
  }
  return value;
}

/* The stage becomes a map of runs, or a reduction over places. */
static void rewrite(runs *b, tn__te_stage *made) {
  const tn__var *along = b->stage->reduce_axes.var[b->w->reduce];
  add_terms(b);
  if (b->w->runs) {
    made->values[0] = add_runs(b);
    made->kind = TN__TE_COMPUTE;
    made->reduce_axes.count = 0;
    made->combiner = NULL;
    return;
  }
  const tn__expr *shift = along->self;
  if (b->w->turned) shift = tn__ir_sub(b->ir, tn__ir_index(b->ir, b->w->length - 1), shift);
  made->values[0] = run_at(b, 0, &b->stage->axes, shift);
  made->reduce_axes = (tn__te_axes){.count = 1, .var = {along}, .index = {along->self}};
}

const tn__te *tn__te_windows(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  window w;
  for (int s = 0; s < now->stages.count; s++) {
    bool found = find_window(te->ir, now->stages.data[s], &w);
    if (found && copy == NULL) {
      now = copy = tn__te_copy(te, te->ir);
      found = find_window(te->ir, now->stages.data[s], &w);
    }
    if (!found) continue;
    tn__te_stage *made = copy->stages.data[s];
    const tn__te_stage whole = *made;
    runs b = {.te = copy, .ir = te->ir, .stage = &whole, .w = &w};
    const int before = copy->stages.count;
    rewrite(&b, made);
    tn__te_move_before(copy, s, copy->stages.count - before);
    s--; /* what is left of the reduction may be over a window, too */
  }
  return now;
}
