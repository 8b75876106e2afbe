/* Reductions over pairs of points. Points have a few coordinates, pixels a few channels, and what two of them have to
 * do with each other takes all of these: a distance, a weight. Two things become of it:
 *
 *   R[i, j] = sum(d: 3) (P[i, d] - P[j, d])^2         R[i, j] = (P[i, 0] - P[j, 0])^2 + (P[i, 1] - P[j, 1])^2 + ...
 *   F[i, c: 3] = sum(j) f(R[i, j]) * P[j, c]          x[i], y[i], z[i] = each(j) f(R[i, j]) * P[j, 0], ...
 *                                                     F[i, c] = select(c == 0, x[i], select(c == 1, y[i], z[i]))
 *
 * A short sum that a reduction takes is written out, so that it is no tensor over all pairs; and results along a short
 * axis whose terms have work in common are tensors of one reduction. The work is then done once for all of them, and
 * vectors run along the points, of which there are many. */
#include <string.h>

#include "base/dtype.h"
#include "te/internal.h"

/* Results beside each other (a combiner has no more), terms that are written out, and terms of a reduction that is left
 * alone, as all of a group is computed at once. */
enum { MOST_RESULTS = 4, MOST_TERMS = 8, MOST_OF_WINDOW = 49, FEW_TERMS = 8 };
/* Stages of a declaration that is looked at: there may be thousands, and each may read all others. */
enum { MOST_STAGES = 64 };
/* Tensors that stages make which a reduction reads, be it through maps. */
enum { MOST_SOURCES = 16 };
/* Operations of all terms of a window that is written out: its code is bounded, as elementary functions take 1 to 2 KB
 * for each term. What is above stays a loop, a fraction of the code, though slower. */
enum { MOST_OF_WINDOW_WORK = 600 };

/* ---- work -------------------------------------------------------------------------------------------------------- */

static int64_t operations_of(const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT:
    case TN__EXPR_VAR:
    case TN__EXPR_CAST:
    case TN__EXPR_BITCAST:
    case TN__EXPR_LOAD: return 0;
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: return 4;
    case TN__EXPR_CALL:
      return e->arg_count == 1 && e->intrinsic != TN__CALL_ABS && e->intrinsic != TN__CALL_NEG ? 8 : 1;
    default: return 1;
  }
}

typedef struct work {
  const tn__te *te;
  const tn__te_stage *stage;
  tn__expr_set seen, *before;          /* before: what counts only if it is there, too; NULL: everything */
  bool all_axes;                       /* what depends on all axes of the results counts, and nothing else */
  bool staged;                         /* other stages than maps make more of what is read than there are results */
  TN__VEC(const tn__buffer *) sources; /* tensors that were looked at */
  int64_t operations;
} work;

static bool is_long(const tn__var *axis) { return !tn__ir_is_int_value(axis->extent, 1); }

static bool depends_on_terms(const work *w, const tn__expr *e) {
  bool terms = false;
  for (int a = 0; a < w->stage->axes.count && w->all_axes; a++)
    if (is_long(w->stage->axes.var[a]) && !tn__expr_uses_var(e, w->stage->axes.var[a])) return false;
  for (int a = 0; a < w->stage->reduce_axes.count; a++) terms |= tn__expr_uses_var(e, w->stage->reduce_axes.var[a]);
  return terms;
}

/* Addresses are reckoned on the way, and conditions on positions are cut out of loops. */
static bool is_of_positions(const tn__expr *e) {
  return (e->dtype == TN_I64 || e->dtype == TN_BOOL) && !tn__expr_has_load(e);
}

static void see_operation(const tn__expr *e, void *user) {
  int64_t *operations = user;
  if (!is_of_positions(e)) *operations += operations_of(e);
}

static double results_of(const tn__te_stage *stage) {
  double results = 1;
  for (int a = 0; a < stage->axes.count; a++) results *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  return results;
}

static bool is_map(const tn__te_stage *stage) { return stage->kind == TN__TE_COMPUTE && stage->step_of == NULL; }

static void see_source(const tn__buffer *tensor, void *user) {
  work *w = user;
  if (w->staged) return;
  for (int i = 0; i < w->sources.count; i++)
    if (w->sources.data[i] == tensor) return;
  const tn__te_stage *stage = tn__te_stage_of(w->te, tensor);
  if (stage == NULL) return;
  tn__vec_push(w->te->arena, &w->sources, tensor);
  if (w->sources.count > MOST_SOURCES || (!is_map(stage) && results_of(stage) > results_of(w->stage)))
    w->staged = true;
  else if (is_map(stage))
    tn__te_reads(w->te, stage, see_source, w);
}

/* What a map computes for an element that is read; it may be computed where it is read. */
static int64_t operations_of_map(const tn__te *te, const tn__te_stage *stage, const tn__buffer *tensor) {
  int64_t operations = 0;
  for (int t = 0; t < stage->tensor_count; t++)
    if (stage->tensors[t] == tensor) tn__te_visit(te->ir, stage->values[t], see_operation, &operations);
  return operations;
}

static void see_work(const tn__expr *e, void *user) {
  work *w = user;
  if (is_of_positions(e) || !depends_on_terms(w, e)) return;
  if (!tn__expr_set_add(&w->seen, e) || (w->before != NULL && !tn__expr_set_has(w->before, e))) return;
  w->operations += operations_of(e);
  if (e->kind != TN__EXPR_LOAD) return;
  const tn__te_stage *stage = tn__te_stage_of(w->te, e->value.buffer);
  see_source(e->value.buffer, w);
  if (stage != NULL && is_map(stage)) w->operations += operations_of_map(w->te, stage, e->value.buffer);
}

int64_t tn__te_shared_work(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *a, int a_count,
                           const tn__expr *const *b, int b_count) {
  work first = {.te = te, .stage = stage, .seen = {.ir = te->ir}, .all_axes = true}, second = first;
  if (te->stages.count > MOST_STAGES) return 0;
  for (int i = 0; i < a_count; i++) tn__te_visit(te->ir, a[i], see_work, &first);
  second.before = &first.seen;
  for (int i = 0; i < b_count; i++) tn__te_visit(te->ir, b[i], see_work, &second);
  tn__expr_set_clear(&first.seen);
  tn__expr_set_clear(&second.seen);
  return first.staged || second.staged ? 0 : second.operations;
}

/* ---- results along a short axis ---------------------------------------------------------------------------------- */

static bool is_plain_reduction(const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || stage->hint != TN__TE_ANYWHERE) return false;
  for (int r = 0; r < stage->reduce_axes.count; r++)
    if (tn__te_is_ragged(stage->reduce_axes.var[r])) return false;
  return stage->tensor_count == 1 && stage->combiner->reorderable && stage->reduce_axes.count > 0;
}

/* The number of terms where it is known and at most `most`; 0 otherwise. */
static int64_t known_terms(const tn__te_stage *stage, int64_t most) {
  int64_t terms = 1, extent;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    if (!tn__ir_as_int(stage->reduce_axes.var[r]->extent, &extent) || extent < 1 || extent > most) return 0;
    terms *= extent;
    if (terms > most) return 0;
  }
  return terms;
}

/* The terms at each position of the axis. Returns how many; 0: too many. */
TN_MUST_USE static int terms_along(const tn__te *te, const tn__te_stage *stage, int axis, const tn__expr **out) {
  int64_t extent;
  if (!tn__ir_as_int(stage->axes.var[axis]->extent, &extent) || extent < 2 || extent > MOST_RESULTS) return 0;
  for (int64_t i = 0; i < extent; i++) {
    const tn__expr *at = tn__ir_int(te->ir, TN_I64, i);
    out[i] = tn__ir_substitute(te->ir, stage->values[0], &stage->axes.var[axis], &at, 1);
  }
  return (int)extent;
}

/* Do the terms have so much in common that they should be computed together? */
static bool share_work(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *terms, int count) {
  int64_t apart = 0;
  work together = {.te = te, .stage = stage, .seen = {.ir = te->ir}};
  for (int i = 0; i < count; i++) {
    work own = {.te = te, .stage = stage, .seen = {.ir = te->ir}};
    tn__te_visit(te->ir, terms[i], see_work, &own);
    tn__te_visit(te->ir, terms[i], see_work, &together);
    apart += own.operations;
    tn__expr_set_clear(&own.seen);
  }
  tn__expr_set_clear(&together.seen);
  return !together.staged && apart - together.operations >= (count - 1) * TN__TE_WORTH_SHARING;
}

bool tn__te_is_of_all_axes(const tn__te_stage *stage, int except, const tn__expr *load) {
  uint32_t seen = 0;
  int count = stage->axes.count + stage->reduce_axes.count;
  for (int d = 0; d < load->arg_count; d++) {
    int here = 0;
    for (int a = 0; a < count; a++) {
      const tn__var *var = a < stage->axes.count ? stage->axes.var[a] : stage->reduce_axes.var[a - stage->axes.count];
      if (!tn__expr_uses_var(load->args[d], var)) continue;
      seen |= UINT32_C(1) << a;
      here++;
    }
    if (here > 1 || tn__expr_has_load(load->args[d])) return false;
  }
  for (int a = 0; a < count; a++) {
    const tn__var *var = a < stage->axes.count ? stage->axes.var[a] : stage->reduce_axes.var[a - stage->axes.count];
    if (a != except && (seen >> a & 1) == 0 && !tn__ir_is_int_value(var->extent, 1)) return false;
  }
  return true;
}

typedef struct elements {
  const tn__te_stage *stage;
  int axis;
  tn__expr_set seen, *before;
  int count;
  bool same, of_all_axes;
} elements;

static void see_element(const tn__expr *e, void *user) {
  elements *all = user;
  if (e->kind != TN__EXPR_LOAD || !tn__expr_set_add(&all->seen, e)) return;
  all->count++;
  all->same &= all->before == NULL || tn__expr_set_has(all->before, e);
  all->of_all_axes |= tn__te_is_of_all_axes(all->stage, all->axis, e);
}

/* Do all terms read the very same elements, some of which are there for this term alone, as those of complex products
 * are? Each is then loaded once, and taken out of its pair once. */
static bool read_the_same(const tn__te *te, const tn__te_stage *stage, int axis, const tn__expr *const *terms,
                          int count) {
  elements first = {.stage = stage, .axis = axis, .seen = {.ir = te->ir}, .same = true};
  tn__te_visit(te->ir, terms[0], see_element, &first);
  bool same = first.count > 1 && first.of_all_axes;
  for (int i = 1; i < count && same; i++) {
    elements own = {.stage = stage, .axis = axis, .seen = {.ir = te->ir}, .before = &first.seen, .same = true};
    tn__te_visit(te->ir, terms[i], see_element, &own);
    same = own.same && own.count == first.count;
    tn__expr_set_clear(&own.seen);
  }
  tn__expr_set_clear(&first.seen);
  return same;
}

/* The axis of the results that becomes tensors, and the terms of these; -1: none. */
TN_MUST_USE static int axis_to_spread(const tn__te *te, const tn__te_stage *stage, const tn__expr **terms, int *count) {
  if (!is_plain_reduction(stage) || known_terms(stage, FEW_TERMS) > 0) return -1;
  for (int a = stage->axes.count - 1; a >= 0; a--) {
    *count = terms_along(te, stage, a, terms);
    if (*count > 0 && (share_work(te, stage, terms, *count) || read_the_same(te, stage, a, terms, *count))) return a;
  }
  return -1;
}

/* One combiner beside itself, with variables of its own for each. */
static const tn__te_combiner *repeated(tn__te *te, const tn__te_combiner *c, int count) {
  tn__te_combiner *all = TN__NEW(te->arena, tn__te_combiner);
  *all = (tn__te_combiner){.reorderable = true};
  for (int i = 0; i < count; i++) tn__te_add_combiner(te->ir, all, c);
  return all;
}

/* The stage in which all results along the axis are tensors of their own. It reads and writes what is there; the map
 * that puts them where they belong comes behind all stages. */
static void spread(tn__te *te, tn__te_stage *stage, int axis, const tn__expr **terms, int count) {
  tn__ir *ir = te->ir;
  const tn__te_stage whole = *stage;
  const tn__buffer *made[MOST_RESULTS];
  const char *names[MOST_RESULTS];
  const tn__expr *at[TN__MAX_RANK];
  tn__te_axes others = {0};
  for (int a = 0; a < whole.axes.count; a++) {
    if (a == axis) continue;
    others.var[others.count] = whole.axes.var[a];
    at[others.count] = whole.axes.index[a];
    others.index[others.count++] = whole.axes.index[a];
  }
  for (int i = 0; i < count; i++) names[i] = tn__arena_printf(te->arena, "%s.at%d", whole.tensors[0]->name, i);
  tn__te_share_factors(ir, terms, count);
  tn__te_reduce_as(te, names, &others, &whole.reduce_axes, repeated(te, whole.combiner, count), terms, made);
  *stage = *te->stages.data[--te->stages.count];
  const tn__expr *value = tn__ir_load(ir, made[count - 1], at);
  for (int i = count - 2; i >= 0; i--) {
    const tn__expr *is_here = tn__ir_eq(ir, whole.axes.index[axis], tn__ir_int(ir, TN_I64, i));
    const tn__expr *element = tn__ir_load(ir, made[i], at);
    value = tn__ir_select(ir, is_here, element, value);
  }
  tn__te_define(te, &whole.axes, NULL, whole.tensors[0], value);
}

/* ---- short sums -------------------------------------------------------------------------------------------------- */

typedef struct loads {
  const tn__te_stage *stage;
  bool of_pairs; /* nothing that is read is there for each result alone */
} loads;

static void see_load(const tn__expr *e, void *user) {
  loads *l = user;
  if (e->kind != TN__EXPR_LOAD) return;
  bool stands_still = false;
  for (int a = 0; a < l->stage->axes.count; a++)
    stands_still |= is_long(l->stage->axes.var[a]) && !tn__expr_uses_var(e, l->stage->axes.var[a]);
  l->of_pairs &= stands_still;
}

typedef struct readers {
  const tn__buffer *tensor;
  bool found;
} readers;

static void see_tensor(const tn__buffer *tensor, void *user) {
  readers *r = user;
  r->found |= tensor == r->tensor;
}

enum { UNKNOWN, FEEDS, FEEDS_NOT };

/* Is all that reads the stage, be it through maps, a reduction? `known` has the answers so far, by stage. */
TN_MUST_USE static bool feeds_through(const tn__te *te, int number, uint8_t *known) {
  const tn__te_stage *stage = te->stages.data[number];
  readers r = {.tensor = stage->tensors[0]};
  bool any = false, all = !tn__te_is_output(te, r.tensor);
  if (known[number] != UNKNOWN) return known[number] == FEEDS;
  for (int s = number + 1; s < te->stages.count && all; s++) {
    const tn__te_stage *reader = te->stages.data[s];
    r.found = false;
    tn__te_reads(te, reader, see_tensor, &r);
    if (!r.found) continue;
    any = true;
    /* Reductions of two tensors look for places, and the places of the nearest go by columns. */
    all = reader->step_of == NULL && reader->hint == TN__TE_ANYWHERE && reader->tensor_count == 1;
    if (all && reader->kind != TN__TE_REDUCE) all = reader->kind == TN__TE_COMPUTE && feeds_through(te, s, known);
  }
  known[number] = any && all ? FEEDS : FEEDS_NOT;
  return any && all;
}

static bool feeds_reductions(const tn__te *te, int number) {
  uint8_t *known = TN__NEW_ARRAY(tn__ir_arena(tn__te_ir(te)), te->stages.count, uint8_t);
  memset(known, UNKNOWN, (size_t)te->stages.count);
  return feeds_through(te, number, known);
}

/* What a stage takes of a short sum, be it through maps. */
enum { OF_SUM = 1, OF_ITS_ROWS = 2 };

typedef struct marks {
  const tn__te *te;
  unsigned char of[MOST_STAGES]; /* by the number of the stage */
  unsigned seen;
} marks;

static void see_marks(const tn__buffer *tensor, void *user) {
  marks *m = user;
  const tn__te_stage *stage = tn__te_stage_of(m->te, tensor);
  for (int s = 0; s < m->te->stages.count && stage != NULL; s++)
    if (m->te->stages.data[s] == stage) m->seen |= m->of[s];
}

static const tn__expr *without_casts(const tn__expr *e) {
  while (e->kind == TN__EXPR_CAST) e = e->args[0];
  return e;
}

static bool sums_products(const tn__te_stage *stage) {
  if (!tn__te_is_sum(stage) || stage->reduce_axes.count != 1 || stage->tensors[0]->dtype != TN_F32) return false;
  const tn__expr *term = without_casts(stage->values[0]);
  return term->kind == TN__EXPR_MUL && without_casts(term->args[0])->kind == TN__EXPR_LOAD &&
         without_casts(term->args[1])->kind == TN__EXPR_LOAD;
}

/* Are they the scores of an attention, as the rule for it takes them: sums of products whose rows are reduced, and maps
 * of both weight values? It goes by blocks of rows that lie in the first cache, and written out, the scores would be
 * computed in each of its steps. */
static bool are_scores(const tn__te *te, int number) {
  marks m = {.te = te};
  if (!sums_products(te->stages.data[number])) return false;
  m.of[number] = OF_SUM;
  for (int s = number + 1; s < te->stages.count; s++) {
    const tn__te_stage *stage = te->stages.data[s];
    m.seen = 0;
    if (stage->kind == TN__TE_REDUCE && sums_products(stage)) {
      const tn__expr *term = without_casts(stage->values[0]);
      for (int o = 0; o < 2; o++) {
        m.seen = 0;
        see_marks(without_casts(term->args[o])->value.buffer, &m);
        if (m.seen == (OF_SUM | OF_ITS_ROWS)) return true;
      }
      continue;
    }
    tn__te_reads(te, stage, see_marks, &m);
    if (stage->kind == TN__TE_COMPUTE)
      m.of[s] = (unsigned char)m.seen;
    else if (m.seen != 0 && stage->values[0]->kind == TN__EXPR_LOAD)
      m.of[s] = OF_ITS_ROWS;
  }
  return false;
}

/* A short sum over pairs that nothing but reductions take, whatever maps make of it before. */
static bool is_short_sum(const tn__te *te, int number) {
  const tn__te_stage *stage = te->stages.data[number];
  loads l = {stage, true};
  if (!is_plain_reduction(stage) || known_terms(stage, MOST_TERMS) == 0) return false;
  int axes = 0;
  for (int a = 0; a < stage->axes.count; a++) axes += is_long(stage->axes.var[a]);
  tn__te_visit(te->ir, stage->values[0], see_load, &l);
  return axes >= 2 && l.of_pairs && feeds_reductions(te, number) && !are_scores(te, number);
}

/* ---- windows of pixels ------------------------------------------------------------------------------------------- */

typedef struct walk {
  tn__ir *ir;
  const tn__var *pixel, *channel;
  int64_t channels;
  tn__expr_set seen;
  bool moves; /* something that is read is a walk over all channels of all pixels */
} walk;

/* Is all that the term reads such a walk, or the same for all pixels and channels, with nothing else that depends on
 * them? */
static bool is_walk(walk *w, const tn__expr *e) {
  int64_t pixel, channel;
  if (!tn__expr_set_add(&w->seen, e) || (!tn__expr_uses_var(e, w->pixel) && !tn__expr_uses_var(e, w->channel)))
    return true;
  if (e->kind == TN__EXPR_LOAD) {
    const tn__expr *flat = tn__buffer_flatten(w->ir, e->value.buffer, e->args);
    w->moves = true;
    return !tn__expr_has_load(flat) && tn__ir_stride_in(w->ir, flat, w->pixel, &pixel) &&
           tn__ir_stride_in(w->ir, flat, w->channel, &channel) && channel == 1 && pixel == w->channels;
  }
  if (e->kind == TN__EXPR_VAR) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_walk(w, e->args[i])) return false;
  return true;
}

typedef struct place {
  const tn__te_stage *of;
  const tn__te_axes *axes;
  bool own; /* it is read at the reader's own positions only */
} place;

static void see_place(const tn__expr *e, void *user) {
  place *p = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != p->of->tensors[0]) return;
  for (int d = 0; d < e->arg_count; d++) p->own &= d < p->axes->count && e->args[d] == p->axes->index[d];
}

/* An output, or what maps that make outputs read at their own positions. */
static bool is_computed_once(const tn__te *te, int number) {
  const tn__te_stage *stage = te->stages.data[number];
  readers r = {.tensor = stage->tensors[0]};
  for (int s = number + 1; s < te->stages.count; s++) {
    const tn__te_stage *reader = te->stages.data[s];
    r.found = false;
    tn__te_reads(te, reader, see_tensor, &r);
    if (!r.found) continue;
    place p = {stage, &reader->axes, true};
    if (!is_map(reader) || reader->tensor_count != 1 || !tn__te_is_output(te, reader->tensors[0])) return false;
    tn__te_visit(te->ir, reader->values[0], see_place, &p);
    if (!p.own || reader->axes.count != stage->axes.count) return false;
  }
  return true;
}

/* Of the terms that are written out, with what puts them together. */
static int64_t operations_of_terms(const tn__te *te, const tn__te_stage *stage, int64_t terms) {
  int64_t operations = 0;
  tn__te_visit(te->ir, stage->values[0], see_operation, &operations);
  tn__te_visit(te->ir, stage->combiner->result[0], see_operation, &operations);
  return terms * operations;
}

/* A window over pixels whose channels lie side by side: neighbouring results are one long walk, in which vectors of
 * maps run, and channels are too few for vectors of their own. */
static bool is_window_of_pixels(const tn__te *te, int number) {
  const tn__te_stage *stage = te->stages.data[number];
  int channel = stage->axes.count - 1;
  walk w = {.ir = te->ir, .seen = {.ir = te->ir}};
  if (channel < 1 || !is_plain_reduction(stage)) return false;
  const int64_t terms = known_terms(stage, MOST_OF_WINDOW);
  if (terms == 0 || operations_of_terms(te, stage, terms) > MOST_OF_WINDOW_WORK) return false;
  w.channel = stage->axes.var[channel];
  w.pixel = stage->axes.var[channel - 1];
  if (!tn__ir_as_int(w.channel->extent, &w.channels) || w.channels < 2 || w.channels > MOST_RESULTS) return false;
  bool walks = is_walk(&w, stage->values[0]) && w.moves && is_computed_once(te, number);
  tn__expr_set_clear(&w.seen);
  return walks;
}

/* The terms one after the other. */
static void write_out(tn__te *te, tn__te_stage *stage) {
  const tn__te_axes *reduce = &stage->reduce_axes;
  const tn__expr *sum = NULL, *at[TN__MAX_RANK];
  int64_t terms = known_terms(stage, MOST_OF_WINDOW), extent;
  for (int64_t i = 0; i < terms; i++) {
    int64_t rest = i;
    for (int r = reduce->count - 1; r >= 0; r--) {
      if (!tn__ir_as_int(reduce->var[r]->extent, &extent)) return;
      const tn__expr *first = reduce->var[r]->min != NULL ? reduce->var[r]->min : tn__ir_int(te->ir, TN_I64, 0);
      at[r] = tn__ir_add(te->ir, first, tn__ir_int(te->ir, TN_I64, rest % extent));
      rest /= extent;
    }
    const tn__expr *term = tn__ir_substitute(te->ir, stage->values[0], reduce->var, at, reduce->count);
    const tn__var *from[] = {stage->combiner->lhs[0], stage->combiner->rhs[0]};
    const tn__expr *to[] = {sum, term};
    sum = sum == NULL ? term : tn__ir_substitute(te->ir, stage->combiner->result[0], from, to, 2);
  }
  stage->kind = TN__TE_COMPUTE;
  stage->values[0] = sum;
  stage->combiner = NULL;
  stage->reduce_axes.count = 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

const tn__te *tn__te_coordinates(const tn__te *te) {
  const tn__te *now = te;
  tn__te *copy = NULL;
  const tn__expr *terms[MOST_RESULTS];
  int count = 0;
  if (te->stages.count > MOST_STAGES) return te;
  for (int s = 0; s < now->stages.count; s++) {
    if (!is_short_sum(now, s) && !is_window_of_pixels(now, s)) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    write_out(copy, copy->stages.data[s]);
  }
  for (int s = 0; s < now->stages.count; s++) {
    if (axis_to_spread(now, now->stages.data[s], terms, &count) < 0) continue;
    if (copy == NULL) now = copy = tn__te_copy(te, te->ir);
    int axis = axis_to_spread(copy, copy->stages.data[s], terms, &count);
    spread(copy, copy->stages.data[s], axis, terms, count);
    tn__te_move_before(copy, s + 1, 1);
    s++;
  }
  return now;
}
