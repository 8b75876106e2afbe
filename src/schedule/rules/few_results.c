/* A long reduction to a few results: the moments of points, the products of a few columns with each other, a few rows
 * times a vector. All results have vectors of partial results in registers, along an axis of the reduction, so that
 * each element is loaded once and meets all that it meets:
 *
 *   S[i, j] = sum(n) X[n, i] * X[n, j]     S.rf[i, j, lane] += X[16*n + lane, i] * X[16*n + lane, j]
 *
 * with shuffles where elements that follow each other along that axis are up to four apart. */
#include "schedule/rules/contraction.h"
#include "schedule/rules/reduce.h"

/* Vectors along the axis, at the least, and passes over all terms. */
enum { LEAST_TURNS = 8, MOST_PASSES = 4 };

typedef struct choosing {
  const tn__var *results;
  bool moves, chooses; /* a load moves with the axis; a condition looks at it */
} choosing;

static void see_choice(const tn__expr *e, void *user) {
  choosing *c = user;
  if (e->kind == TN__EXPR_LOAD) c->moves |= tn__expr_uses_var(e, c->results);
  if (e->kind == TN__EXPR_SELECT) c->chooses |= tn__expr_uses_var(e->args[0], c->results);
}

/* Are terms chosen by the position along the last axis, among some that all positions have? Axes before it are those of
 * a batch (tn__te_together). */
static bool chooses_terms(tn__ir *ir, const tn__te_stage *stage) {
  if (stage->axes.count == 0) return false;
  choosing c = {.results = stage->axes.var[stage->axes.count - 1]};
  for (int t = 0; t < stage->tensor_count; t++) tn__te_visit(ir, stage->values[t], see_choice, &c);
  return !c.moves && c.chooses;
}

static int64_t lanes_of(const tn__te_stage *stage, const tn__schedule_options *options) {
  int64_t widest = 1;
  for (int t = 0; t < stage->tensor_count; t++) {
    int64_t bytes = (int64_t)tn_dtype_size(stage->tensors[t]->dtype);
    if (bytes > widest) widest = bytes;
  }
  return options->vector_bytes / widest;
}

/* The axis of the reduction that vectors run along: the longest one where what lies on it is near. -1: there is none.
 * What moves in whole vectors is no reason where each result has elements of its own. */
static int axis_along(tn__ir *ir, const tn__te_stage *stage, int64_t lanes) {
  const bool reuses = tn__contraction_reuses(ir, stage) || chooses_terms(ir, stage);
  int best = -1;
  int64_t extent, longest = LEAST_TURNS * lanes - 1;
  for (int a = 0; a < stage->reduce_axes.count; a++) {
    const tn__var *along = stage->reduce_axes.var[a];
    bool apart;
    if (!tn__ir_as_int(along->extent, &extent) || extent <= longest) continue;
    if (!tn__te_reads_near(ir, stage, along, TN__RULE_SHUFFLED_STRIDE, &apart) || (!apart && !reuses)) continue;
    best = a;
    longest = extent;
  }
  return best;
}

/* How many of the outer axes of the results are loops around a pass over all terms, for as many results at once as
 * registers hold beside what is loaded, and what shuffles need; where terms are chosen by position a few results in
 * memory are less than another pass. -1: that would be too many passes. `*height`: so many
 * steps of the last of these axes are part of each pass. */
TN_MUST_USE static int axes_of_passes(tn__ir *ir, const tn__te_stage *stage, const tn__schedule_options *options,
                                      int64_t *height) {
  const bool chooses = chooses_terms(ir, stage);
  const int64_t most = chooses ? options->registers : options->registers * 5 / 8;
  int64_t extent, results = stage->tensor_count, passes = 1;
  int outer = 0;
  *height = 1;
  for (int a = stage->axes.count - 1; a >= 0; a--) {
    if (chooses && a < stage->axes.count - 1) return outer == 0 && results > stage->tensor_count ? a + 1 : -1;
    if (!tn__ir_as_int(stage->axes.var[a]->extent, &extent) || extent > options->registers) return -1;
    if (outer == 0 && results * extent > most) {
      outer = a + 1;
      for (int64_t h = 2; h < extent && results * h <= most; h++)
        if (extent % h == 0) *height = h;
      results *= *height;
      extent /= *height;
    }
    *(outer == 0 ? &results : &passes) *= extent;
  }
  return results > stage->tensor_count && passes <= MOST_PASSES ? outer : -1;
}

bool tn__reduce_has_few_results(tn__ir *ir, const tn__te_stage *stage, const tn__schedule_options *options) {
  int64_t height, lanes = lanes_of(stage, options);
  if (stage->kind != TN__TE_REDUCE || stage->step_of != NULL || !stage->combiner->reorderable || lanes < 4)
    return false;
  for (int a = 0; a < stage->reduce_axes.count; a++)
    if (tn__te_is_ragged(stage->reduce_axes.var[a]) || !tn__ir_is_int(stage->reduce_axes.var[a]->extent)) return false;
  return axes_of_passes(ir, stage, options, &height) >= 0 && axis_along(ir, stage, lanes) >= 0;
}

/* Of a block's loops under `outer` others the first becomes the innermost, in vectors, and the others are written
 * out. */
static void write_out(tn__schedule *s, const char *block, int outer) {
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS), n = 0;
  for (int i = outer + 1; i < count; i++) order[n++] = loops[i];
  order[n++] = loops[outer];
  if (n > 1) tn__sched_reorder(s, order, n);
  for (int i = 0; i < n - 1; i++) tn__sched_unroll(s, order[i]);
  tn__sched_vectorize(s, order[n - 1]);
}

/* The loops of a block, by what becomes of them. */
typedef struct parts {
  const char *pass[TN__MAX_LOOPS], *result[TN__MAX_LOOPS], *term[TN__MAX_LOOPS], *lane;
  int passes, results, terms;
} parts;

static void append(const char **order, int *n, const char *const *loops, int count) {
  for (int i = 0; i < count; i++) order[(*n)++] = loops[i];
}

static const char *part_of(tn__schedule *s, const char *loop, int part) {
  return tn__arena_printf(s->arena, "%s.%d", loop, part);
}

/* Splits the loops of the stage, which stand in `path` from `outer` on: what is more than a pass holds of the results
 * off, and vectors. */
static void split_parts(tn__schedule *s, const tn__te_stage *stage, tn__snode *const *path, int outer,
                        const tn__schedule_options *options, parts *out) {
  int64_t height, lanes = lanes_of(stage, options);
  const int passes = axes_of_passes(s->ir, stage, options, &height), axes = stage->axes.count;
  const int along = axes + axis_along(s->ir, stage, lanes);
  *out = (parts){.lane = part_of(s, path[outer + along]->name, 1)};
  for (int i = 0; i < axes + stage->reduce_axes.count; i++) {
    const char *own = path[outer + i]->name;
    if (i == passes - 1 && height > 1) {
      tn__sched_split(s, own, (const int64_t[]){0, height}, 2);
      out->result[out->results++] = part_of(s, own, 1);
      own = part_of(s, own, 0);
    }
    if (i == along) {
      tn__sched_split(s, own, (const int64_t[]){0, lanes}, 2);
      own = part_of(s, own, 0);
    }
    if (i < passes)
      out->pass[out->passes++] = own;
    else if (i < axes)
      out->result[out->results++] = own;
    else
      out->term[out->terms++] = own;
  }
}

/* Of partial results: terms outside of results, and lanes inside of them. */
static void keep_in_registers(tn__schedule *s, const tn__te_stage *stage, const char *partial, const parts *p,
                              int outside) {
  const char *order[TN__MAX_LOOPS];
  int n = 0;
  append(order, &n, p->term, p->terms);
  append(order, &n, p->result, p->results);
  order[n++] = p->lane;
  tn__sched_reorder(s, order, n);
  for (int i = 0; i < p->results; i++) tn__sched_unroll(s, p->result[i]);
  tn__sched_vectorize(s, p->lane);
  write_out(s, tn__arena_printf(s->arena, "%s.init", partial), outside);
  for (int t = 0; t < stage->tensor_count; t++) tn__sched_set_scope(s, partial, t, TN__SCOPE_REGISTER);
}

bool tn__reduce_few_results(tn__schedule *s, const tn__te_stage *stage, const char *name, int outer,
                            const tn__schedule_options *options) {
  const char *order[TN__MAX_LOOPS], *loops[TN__MAX_LOOPS];
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), n = 0;
  if (!tn__reduce_has_few_results(s->ir, stage, options)) return false;
  if (count != outer + stage->axes.count + stage->reduce_axes.count) return false;
  for (int i = outer; i < count; i++)
    if (path[i]->children.count != 1 || path[i]->kind != TN__LOOP_SERIAL) return false;
  parts p;
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  split_parts(s, stage, path, outer, options, &p);
  append(order, &n, p.pass, p.passes);
  order[n++] = p.lane;
  append(order, &n, p.result, p.results);
  append(order, &n, p.term, p.terms);
  tn__sched_reorder(s, order, n);
  tn__sched_rfactor(s, p.lane);
  keep_in_registers(s, stage, partial, &p, outer + p.passes);
  int combined = tn__sched_loops_of(s, name, loops, TN__MAX_LOOPS);
  for (int i = outer + p.passes; i < combined - 1; i++) tn__sched_unroll(s, loops[i]);
  tn__reduce_by_halves(s, name, lanes_of(stage, options));
  return true;
}
