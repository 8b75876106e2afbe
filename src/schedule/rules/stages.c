/* The rule "stages" takes each stage for itself: reductions along or across what is contiguous, the longest cut into
 * parts. */
#include "base/invariant.h"
#include "schedule/rules/reduce.h"

/* How many rows are fetched ahead or added whole at a time (0: columns are), and into how many parts the longest
 * reduction is cut, each with results of its own. */
enum { VECTORS, PREFETCH, WHOLE, PARTS };

static void parallel_outermost(tn__schedule *s, const char *name, const tn__schedule_options *options) {
  tn__snode *path[TN__MAX_LOOPS], *block = tn__sched_find(s, name, true);
  int count = tn__sched_path(s, s->root, block, path);
  if (count == 0 || !tn__rule_shares(s, options)) return;
  if (path[0]->kind != TN__LOOP_SERIAL || tn__ir_is_int_value(path[0]->var->extent, 1)) return;
  if (tn__sched_drives(path[0], block, TN__AXIS_REDUCE) || tn__sched_drives(path[0], block, TN__AXIS_SCAN)) return;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, path[0], &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (tn__sched_drives(path[0], blocks.data[i], TN__AXIS_REDUCE)) return;
  tn__sched_parallel(s, path[0]->name);
}

/* ---- parts of a reduction ---------------------------------------------------------------------------------------- */

/* The axis of the reduction that is cut: the outermost long one. */
static int axis_to_cut(const tn__te_stage *stage) {
  int longest = 0;
  int64_t extent, most = 0;
  for (int a = 0; a < stage->reduce_axes.count; a++) {
    if (!tn__ir_as_int(stage->reduce_axes.var[a]->extent, &extent)) return -1;
    if (extent >= TN__RULE_LONG_AXIS) return a;
    if (extent > most) longest = a, most = extent;
  }
  return longest;
}

const tn__te_stage *tn__reduce_stage_to_cut(const tn__te *te) {
  const tn__te_stage *longest = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_REDUCE && stage->step_of == NULL && stage->combiner->reorderable &&
        (longest == NULL || tn__reduce_volume(&stage->axes, &stage->reduce_axes) >
                                tn__reduce_volume(&longest->axes, &longest->reduce_axes)))
      longest = stage;
  }
  if (longest == NULL || longest->reduce_axes.count == 0 || axis_to_cut(longest) < 0) return NULL;
  return tn__reduce_volume(&longest->axes, &longest->reduce_axes) >= 2 * TN__RULE_SHORTEST_PART ? longest : NULL;
}

/* Cuts the reduction of `name` into parts with results of their own, which `name` adds up in a nest behind. Returns the
 * block that makes them. */
static const char *cut(tn__schedule *s, const char *name, int axis, int64_t parts) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS];
  int spatial = 0, count = tn__sched_path(s, s->root, block, path);
  while (spatial < count && !tn__sched_drives(path[spatial], block, TN__AXIS_REDUCE)) spatial++;
  const char *loop = path[spatial + axis]->name;
  int64_t extent = tn__rule_loop_extent(s, loop);
  tn__sched_split(s, loop, (const int64_t[]){0, (extent + parts - 1) / parts}, 2);
  const char *outer = order[0] = tn__arena_printf(s->arena, "%s.0", loop);
  for (int i = 0; i < spatial + axis; i++) order[i + 1] = path[i]->name;
  if (spatial + axis > 0) tn__sched_reorder(s, order, spatial + axis + 1);
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__sched_rfactor_at(s, outer, spatial > 0 ? path[spatial - 1]->name : outer);
  tn__sched_compute_root(s, name);
  return partial;
}

/* Partial results of one part side by side. */
static void move_parts_outside(tn__schedule *s, const char *partial) {
  const tn__buffer *buffer = tn__sched_find(s, partial, true)->block.writes[0].buffer;
  tn__layout layout = {.rank = buffer->rank, .parts = {{buffer->rank - 1, 1, 0}}};
  for (int d = 1; d < buffer->rank; d++) layout.parts[d] = (tn__layout_part){d - 1, 1, 0};
  if (buffer->rank > 1) tn__sched_transform_layout(s, buffer->name, &layout);
}

/* Does the loop choose among the map's elements that the block reads? */
static bool chooses(const tn__schedule *s, const tn__snode *block, const tn__buffer *made, const tn__snode *loop) {
  for (int r = 0; r < block->block.read_count; r++)
    for (int d = 0; block->block.reads[r].buffer == made && d < made->rank; d++)
      if (tn__expr_uses_var(tn__sched_substitute_axes(s->ir, &block->block, block->block.reads[r].min[d]), loop->var))
        return true;
  return false;
}

/* A map that only this reduction reads, once for each of several results, as the distances of a body are for each
 * coordinate of its force: a row of it at a time, in front of these results, instead of all of it in memory. */
static void compute_rows_near(tn__schedule *s, const char *name, const tn__schedule_options *options) {
  const char *maps[1], *order[TN__MAX_LOOPS];
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), n = 0, rows = 0, spatial = 0;
  if (tn__reduce_own_maps(s, block, maps, 1) == 0) return;
  const tn__buffer *made = tn__sched_find(s, maps[0], true)->block.writes[0].buffer;
  for (int d = 0; d < made->rank; d++)
    if (!tn__ir_is_int(made->shape[d])) return; /* a row of it may be as long as it likes */
  double bytes = tn__rule_bytes(made);
  for (int i = 0; i < count; i++) {
    if (path[i]->kind != TN__LOOP_SERIAL) return;
    if (tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) break;
    spatial++;
    if (!chooses(s, block, made, path[i])) continue;
    int64_t extent = tn__rule_loop_extent(s, path[i]->name);
    if (extent < 1) return;
    bytes /= (double)extent;
    order[n++] = path[i]->name;
  }
  rows = n;
  if (rows < 1 || rows == spatial || bytes > TN__RULE_PRIVATE_ROW_BYTES) return;
  for (int i = 0; i < spatial; i++)
    if (!chooses(s, block, made, path[i])) order[n++] = path[i]->name;
  tn__sched_reorder(s, order, n);
  tn__sched_compute_at(s, maps[0], order[rows - 1]);
  tn__sched_set_scope(s, maps[0], 0, TN__SCOPE_STACK);
  tn__rule_vectorize_map(s, maps[0], rows, options);
}

static void reduce_stage(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options,
                         const int64_t *values) {
  const char *name = stage->name;
  if (tn__reduce_runs_across(s, tn__sched_find(s, name, true)) && tn__reduce_few_columns(s, name, options)) {
    parallel_outermost(s, name, options);
    return;
  }
  if (tn__reduce_few_results(s, stage, name, 0, options)) {
    parallel_outermost(s, name, options);
    return;
  }
  if (tn__reduce_runs_across(s, tn__sched_find(s, name, true))) {
    if (values[WHOLE] == 0 || !tn__reduce_whole_rows(s, name, options, values[WHOLE]))
      tn__reduce_across(s, name, options, values[VECTORS], values[PREFETCH] != 0);
  } else {
    compute_rows_near(s, name, options);
    const char *turns = tn__rule_reduce_along(s, name, options, values[VECTORS]);
    if (turns != NULL) tn__sched_unroll(s, turns);
    parallel_outermost(s, name, options);
  }
}

/* Parts of a reduction, which threads share, and what adds them up. */
static void reduce_parts(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options,
                         const int64_t *values) {
  bool across = tn__reduce_runs_across(s, tn__sched_find(s, stage->name, true));
  const char *partial = cut(s, stage->name, axis_to_cut(stage), values[PARTS]);
  if (stage->tensor_count == 1) move_parts_outside(s, partial);
  bool few =
      (across && tn__reduce_few_columns(s, partial, options)) || tn__reduce_few_results(s, stage, partial, 1, options);
  if (!few && across)
    tn__reduce_across(s, partial, options, values[VECTORS], values[PREFETCH] != 0);
  else if (!few)
    tn__rule_reduce_along(s, partial, options, values[VECTORS]);
  tn__snode *block = tn__sched_find(s, partial, true);
  if (!across || tn__sched_root_nest(s, block)->kind == TN__LOOP_SERIAL) parallel_outermost(s, partial, options);
  tn__schedule_options alone = *options;
  alone.threads = 1;
  if (across) tn__reduce_across(s, stage->name, &alone, 1, false);
}

static bool matches_anything(const tn__te *te) { return true; }

/* A map with a nest of its own, or one that was moved behind what it reads. */
static void schedule_map(tn__schedule *s, const tn__snode *block, const tn__schedule_options *options) {
  tn__snode *path[TN__MAX_LOOPS];
  tn__snodes inside = {0};
  if ((block->parent != s->root && !block->exact) || tn__sched_path(s, s->root, block, path) == 0) return;
  tn__sched_blocks(s, path[0], &inside);
  if (inside.count != 1) return;
  tn__rule_hoist_parts(s, block->name, options);
  if (!tn__rule_turn_map(s, block->name, options)) tn__rule_nest(s, block->name, options);
}

static void schedule_stage(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options,
                           const int64_t *values) {
  const tn__snode *block = tn__sched_find(s, stage->name, true);
  if (block == NULL || stage->kind == TN__TE_EXTERN) return; /* dissolved, or not ours */
  if (stage->step_of != NULL) return;                        /* its scan's business */
  if (stage->kind == TN__TE_SCAN) {
    tn__rule_scan(s, stage, options);
  } else if (stage->kind == TN__TE_ACCUMULATE) {
    tn__rule_accumulate(s, stage, options);
    parallel_outermost(s, stage->name, options);
  } else if (stage->kind == TN__TE_COMPUTE) {
    schedule_map(s, block, options);
  } else if (values[PARTS] > 1 && stage == tn__reduce_stage_to_cut(s->te)) {
    reduce_parts(s, stage, options, values);
  } else {
    reduce_stage(s, stage, options, values);
  }
}

void tn__reduce_schedule_stage(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  static const int64_t usual[] = {[VECTORS] = 4, [PREFETCH] = 0, [WHOLE] = 0, [PARTS] = 1};
  schedule_stage(s, stage, options, usual);
}

static void apply_stages(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  tn__reduce_dissolve_maps(s);
  for (int i = 0; i < tn__te_stage_count(s->te); i++) schedule_stage(s, tn__te_stage_at(s->te, i), &k->options, values);
}

static void open_stages(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t prefetch[] = {0, 1}, whole[] = {0, 8};
  tn__reduce_open(k, scratch);
  tn__sketch_open(k, "prefetch", prefetch, 2);
  tn__sketch_open(k, "whole rows", whole, 2);
  static const int64_t parts[] = {1, 4, 16, 64};
  int choices = tn__reduce_stage_to_cut(k->te) != NULL ? 4 : 1;
  tn__decision *d = &k->decisions[tn__sketch_open(k, "parts", parts, choices)];
  d->orders = d->shares = true;
}

/* What parts cost, and what they bring: each has as many pieces for threads as there were before. */
static bool parts_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const tn__te_stage *stage = tn__reduce_stage_to_cut(k->te);
  int64_t parts = v[PARTS], extent;
  if (stage == NULL) return true;
  double results = tn__reduce_volume(&stage->axes, NULL), terms = tn__reduce_volume(&stage->reduce_axes, NULL);
  int64_t pieces = tn__plain_pieces(k, v[VECTORS]);
  if (parts > 1 && (results * terms < (double)(parts * TN__RULE_SHORTEST_PART) ||
                    !tn__ir_as_int(stage->reduce_axes.var[axis_to_cut(stage)]->extent, &extent) || extent < 2 * parts))
    return false;
  if (parts > 1) f->extra_cycles += (double)parts * results * TN__RULE_PART_RESULT + TN__RULE_PARTS;
  if (f->chunks > 1 && pieces * parts < f->chunks) f->chunks = pieces * parts;
  return true;
}

static const tn__nest *stage_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const tn__nest *nest = tn__plain_features(k, k->options.vector_bytes, v[VECTORS], 1, f);
  if (nest == NULL || !parts_features(k, v, f) || (v[PARTS] > 1 && v[WHOLE] > 0)) return NULL;
  return tn__plain_pages(k, v[VECTORS], v[PREFETCH] != 0, v[WHOLE], f) ? nest : NULL;
}

const tn__rule tn__rule_stages = {"stages",     matches_anything,    open_stages,    stage_features,
                                  apply_stages, .takes_steps = true, .yields = true, .gives_way = true};
