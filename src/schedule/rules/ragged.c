/* Reductions whose bounds the element or data say: rows of a sparse matrix, segments, bands. How long a row is only the
 * run tells, and mostly each has another length. So a row is taken in vectors of partial results with a mask for its
 * end: the same steps for whatever is left, where a loop over single terms would be left at another place in each
 * row. */
#include "ir/linear.h"
#include "schedule/rules/reduce.h"

/* From so many terms on rows are taken in vectors as wide as there are; below, the end of each weighs more. So it does
 * where data choose elements, since each lane is a load of its own then. */
enum { WHOLE_VECTORS = 96, HALF_BYTES = 32 };
/* From so many on, in several vectors at a time. */
enum { LONG_ROWS = 512, TOGETHER = 4 };
/* Vectors of neighbouring results that are at hand. */
enum { MOST_ACROSS = 8 };
/* Terms of several steps go into results of their own, so that so many sums don't wait for each other, unless rows have
 * few terms. */
enum { CHAINS = 4, FEW_TERMS = 16 };

typedef struct loads_of {
  const tn__buffer *buffer;
  bool twice;
} loads_of;

/* ---- how long rows are ------------------------------------------------------------------------------------------- */

typedef struct walk {
  const tn__schedule *s;
  const tn__te_stage *stage;
  const tn__var *along;
  double terms; /* of a row, if all that it walks over belongs to one */
  bool shares;  /* rows share what they walk over: each begins where data say */
  bool gathers; /* data choose elements by term */
} walk;

static void see_walk(const tn__expr *e, void *user) {
  walk *w = user;
  int64_t size;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int d = 0; d < e->arg_count; d++) {
    const tn__expr *index = tn__ir_interior(w->s->ir, e->args[d]);
    int64_t stride;
    if (!tn__expr_uses_var(index, w->along)) continue;
    if (!tn__ir_stride_in(w->s->ir, index, w->along, &stride)) {
      w->gathers |= tn__expr_has_load(index);
      continue;
    }
    if (!tn__ir_as_int(e->value.buffer->shape[d], &size)) size = TN__OPEN_EXTENT;
    if ((double)size > w->terms) w->terms = (double)size;
    w->shares |= tn__expr_has_load(index);
  }
}

static void see_bound(const tn__expr *e, void *user) {
  loads_of *seen = user;
  if (e->kind != TN__EXPR_LOAD) return;
  if (seen->buffer != NULL && seen->buffer == e->value.buffer) seen->twice = true;
  seen->buffer = e->value.buffer;
}

/* Do rows end where the next ones begin, start[i + 1] - start[i]? */
static bool is_partition(tn__ir *ir, const tn__expr *extent) {
  loads_of seen = {NULL};
  tn__te_visit(ir, extent, see_bound, &seen);
  return seen.twice;
}

/* What a row has on average, as far as sizes tell: where rows share a tensor, their part of it. */
static double usual_terms(const walk *w) {
  double rows = 1, most = (double)tn__interval_of(w->s->ir, w->along->extent).max;
  int64_t extent;
  for (int a = 0; a < w->stage->axes.count; a++) {
    const tn__var *axis = w->stage->axes.var[a];
    if (!tn__expr_uses_var(w->along->extent, axis)) continue;
    rows *= tn__ir_as_int(axis->extent, &extent) ? (double)extent : TN__OPEN_EXTENT;
  }
  if (w->terms > 0 && w->shares && is_partition(w->s->ir, w->along->extent)) return w->terms / rows;
  return (w->terms > 0 && w->terms < most ? w->terms : most) / 2;
}

static walk walk_of(const tn__schedule *s, const tn__te_stage *stage) {
  walk w = {.s = s, .stage = stage, .along = stage->reduce_axes.var[stage->reduce_axes.count - 1]};
  for (int t = 0; t < stage->tensor_count; t++) tn__te_visit(s->ir, stage->values[t], see_walk, &w);
  return w;
}

/* ---- along a row ------------------------------------------------------------------------------------------------- */

static int64_t lanes_of(const tn__te_stage *stage, int64_t bytes) {
  int64_t widest = 1;
  for (int t = 0; t < stage->tensor_count; t++) {
    int64_t own = (int64_t)tn_dtype_size(stage->tensors[t]->dtype);
    if (own > widest) widest = own;
  }
  return bytes / widest < 4 ? 4 : bytes / widest;
}

static bool reduce_along(tn__schedule *s, const tn__te_stage *stage, const char *loop,
                         const tn__schedule_options *options) {
  const char *name = stage->name;
  const walk w = walk_of(s, stage);
  double terms = usual_terms(&w);
  bool half = options->vector_bytes > HALF_BYTES && (w.gathers || terms < WHOLE_VECTORS);
  int64_t lanes = lanes_of(stage, half ? HALF_BYTES : options->vector_bytes);
  if (terms >= LONG_ROWS) {
    const char *rest = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rest", name));
    const char *behind = tn__sched_fresh_name(s, false, tn__arena_printf(s->arena, "%s.rest", loop));
    const char *turn = tn__sched_fresh_name(s, false, tn__arena_printf(s->arena, "%s.1", loop));
    tn__sched_peel(s, loop, TOGETHER * lanes);
    tn__reduce_lanes(s, name, turn, TOGETHER, lanes);
    name = rest;
    loop = behind;
  }
  tn__sched_split(s, loop, (const int64_t[]){0, lanes}, 2);
  tn__reduce_lanes(s, name, tn__reduce_last_loop(s, name), 1, lanes);
  return true;
}

/* ---- across results ---------------------------------------------------------------------------------------------- */

/* The innermost loop around the block in vectors, the two around it written out. */
static void run_in_vectors(tn__schedule *s, const char *block) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS);
  tn__sched_unroll(s, loops[count - 3]);
  tn__sched_unroll(s, loops[count - 2]);
  tn__sched_vectorize(s, loops[count - 1]);
}

/* Partial results, of which there are a few for each element, in registers. */
static void keep_in_registers(tn__schedule *s, const char *partial) {
  const tn__block *block = &tn__sched_find(s, partial, true)->block;
  for (int w = 0; w < block->write_count; w++) {
    const tn__buffer *buffer = block->writes[w].buffer;
    tn__layout layout = {.rank = buffer->rank, .parts = {{buffer->rank - 1, 1, 0}}};
    for (int d = 1; d < buffer->rank; d++) layout.parts[d] = (tn__layout_part){d - 1, 1, 0};
    tn__sched_transform_layout(s, buffer->name, &layout);
    tn__sched_set_scope(s, partial, w, TN__SCOPE_REGISTER);
  }
}

/* Neighbouring results in registers: all terms of a few vectors, then those of the next ones. The elements have their
 * first values in memory, so that what is in registers is a partial result, combined with them behind all terms. */
static bool reduce_across(tn__schedule *s, const tn__te_stage *stage, const char *const *loops, int count, int first,
                          const tn__schedule_options *options) {
  const char *across = loops[count - 1], *terms = loops[count - 2], *order[TN__MAX_LOOPS];
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", stage->name));
  int64_t extent = tn__rule_loop_extent(s, across), lanes = lanes_of(stage, options->vector_bytes);
  int64_t vectors = MOST_ACROSS / stage->tensor_count;
  const walk w = walk_of(s, stage);
  int n = 0;
  if (stage->axes.count == TN__MAX_RANK) return false;
  while (extent >= 0 && lanes / 2 >= extent) lanes /= 2;
  if (lanes < 2) return false;
  while (vectors > 1 && !tn__rule_fills(extent, vectors * lanes)) vectors /= 2;
  tn__sched_split(s, across, (const int64_t[]){0, vectors, lanes}, 3);
  int64_t together = usual_terms(&w) < FEW_TERMS || vectors > CHAINS / stage->tensor_count ? 1 : CHAINS / vectors;
  tn__sched_split(s, terms, (const int64_t[]){0, together}, 2);
  const char *one = tn__arena_printf(s->arena, "%s.1", terms);
  order[n++] = tn__arena_printf(s->arena, "%s.0", across);
  for (int i = first; i < count - 2; i++) order[n++] = loops[i];
  order[n++] = tn__arena_printf(s->arena, "%s.0", terms);
  order[n++] = one;
  order[n++] = tn__arena_printf(s->arena, "%s.1", across);
  order[n++] = tn__arena_printf(s->arena, "%s.2", across);
  tn__sched_reorder(s, order, n);
  tn__sched_rfactor(s, one);
  keep_in_registers(s, partial);
  run_in_vectors(s, partial);
  run_in_vectors(s, tn__arena_printf(s->arena, "%s.init", partial));
  int behind = tn__sched_loops_of(s, stage->name, order, TN__MAX_LOOPS) - 3; /* two of vectors, and one over these */
  tn__sched_reorder(s, (const char *[]){order[behind + 2], order[behind], order[behind + 1]}, 3);
  run_in_vectors(s, stage->name);
  return true;
}

bool tn__rule_ragged(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS), first = 0;
  tn__snode *block = tn__sched_find(s, stage->name, true);
  for (int a = 0; a < stage->axes.count; a++)
    if (!tn__te_keeps_axis(stage, a)) return false;
  if (!stage->combiner->reorderable || stage->reduce_axes.count == 0 || count == 0) return false;
  while (first < count && !tn__sched_drives(tn__sched_find(s, loops[first], false), block, TN__AXIS_REDUCE)) first++;
  const char *last = loops[count - 1];
  bool spatial = tn__sched_drives(tn__sched_find(s, last, false), block, TN__AXIS_SPATIAL);
  if (spatial && tn__reduce_runs_across(s, block)) return reduce_across(s, stage, loops, count, first, options);
  if (spatial) { /* terms lie side by side, and results do not */
    tn__sched_reorder(s, (const char *[]){last, loops[first]}, 2);
    if (count - first > 2) return true;
    last = loops[first];
  }
  if (tn__rule_loop_extent(s, last) >= 0) {
    tn__rule_reduce_along(s, stage->name, options, 1);
    return true;
  }
  return reduce_along(s, stage, last, options);
}
