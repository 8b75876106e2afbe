/* The rule "pipeline": several stages, of which some are computed where they are needed, a tile of the last one at a
 * time, and the others as wholes. Groups start as single stages and grow as long as the cost function finds that it is
 * cheaper to compute a group's tensor a part at a time for the group that reads it (pipeline.h). */
#include "schedule/rules/pipeline.h"

#include <math.h>

#include "base/invariant.h"
#include "schedule/rules/reduce.h"

enum { MOST_OPEN = 5 }; /* groups whose tiles are decisions */

/* The rule's data. */
typedef struct pipeline {
  tn__pipe *pipe;
  TN__VEC(const char *) inlined; /* steps of the scratch schedule */
  tn__pipe_group *groups;        /* in order */
  int count;
  int opened[MOST_OPEN];  /* groups with decisions */
  int axes[MOST_OPEN][2]; /* rows and columns of the tile; -1: none */
  int open_count;
} pipeline;

/* ---- groups ------------------------------------------------------------------------------------------------------ */

typedef struct grouping {
  const tn__pipe *pipe;
  tn__arena *arena;
  tn__pipe_group **group;  /* by its last stage; NULL: it is part of another */
  int *of;                 /* by stage: the last stage of its group */
  tn__pipe_group **merged; /* by the last stage of what would join its reader: the two together */
} grouping;

static int last_of(const tn__pipe_group *g) { return g->member[g->count - 1]; }

/* The group that alone reads the tensor of stage `last`; -1: there is none, or it must be there as a whole. */
static int only_reader(const grouping *b, int last) {
  int reader = -1;
  if (!b->pipe->stages[last].movable || b->pipe->stages[last].is_output) return -1;
  for (int i = 0; i < b->pipe->count; i++)
    for (int k = 0; k < b->pipe->stages[i].read_count; k++) {
      if (b->pipe->stages[i].reads[k].from != last || b->of[i] == b->of[last]) continue;
      if (reader >= 0 && reader != b->of[i]) return -1;
      reader = b->of[i];
    }
  return reader >= 0 && b->pipe->stages[reader].movable ? reader : -1;
}

/* The members of both, in order. */
static tn__pipe_group *join(const grouping *b, const tn__pipe_group *from, const tn__pipe_group *to) {
  tn__pipe_group *g = TN__NEW(b->arena, tn__pipe_group);
  int x = 0, y = 0;
  while (x < from->count || y < to->count) {
    bool first = y == to->count || (x < from->count && from->member[x] < to->member[y]);
    g->member[g->count++] = first ? from->member[x++] : to->member[y++];
  }
  tn__pipe_tile(b->pipe, g);
  return g;
}

/* Merges the two groups that gain most by it; false when none do. */
static bool merge_best(grouping *b) {
  double most = 0;
  int best = -1;
  for (int i = 0; i < b->pipe->count; i++) {
    int reader = b->group[i] == NULL ? -1 : only_reader(b, i);
    if (reader < 0) continue;
    if (b->merged[i] == NULL) b->merged[i] = join(b, b->group[i], b->group[reader]);
    double gain = b->group[i]->cycles + b->group[reader]->cycles - b->merged[i]->cycles;
    if (gain > most) most = gain, best = i;
  }
  if (best < 0) return false;
  int reader = only_reader(b, best);
  b->group[reader] = b->merged[best];
  b->group[best] = NULL;
  for (int i = 0; i < b->pipe->count; i++)
    if (b->of[i] == best) b->of[i] = reader;
  for (int i = 0; i < b->pipe->count; i++) {
    int next = b->group[i] == NULL ? -1 : only_reader(b, i);
    if (next == reader || i == reader || i == best) b->merged[i] = NULL; /* one of the two is another group now */
  }
  return true;
}

static void make_groups(pipeline *q, tn__arena *arena) {
  const tn__pipe *p = q->pipe;
  grouping b = {.pipe = p, .arena = arena};
  b.group = TN__NEW_ARRAY(arena, p->count, tn__pipe_group *);
  b.merged = TN__NEW_ARRAY(arena, p->count, tn__pipe_group *);
  b.of = TN__NEW_ARRAY(arena, p->count, int);
  for (int i = 0; i < p->count; i++) {
    b.of[i] = i;
    b.group[i] = TN__NEW(arena, tn__pipe_group);
    b.group[i]->member[b.group[i]->count++] = i;
    if (p->stages[i].movable) tn__pipe_tile(p, b.group[i]);
  }
  while (merge_best(&b)) continue;
  q->groups = TN__NEW_ARRAY(arena, p->count, tn__pipe_group);
  for (int i = 0; i < p->count; i++)
    if (b.group[i] != NULL) q->groups[q->count++] = *b.group[i];
}

/* ---- the sketch -------------------------------------------------------------------------------------------------- */

static void open_group(tn__sketch *k, pipeline *q, int index, tn__arena *arena) {
  const tn__pipe_group *g = &q->groups[index];
  const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
  int64_t sizes[16];
  int n = 0;
  for (int a = last->spatial - 1; a >= 0 && n < 2; a--) {
    int count = tn__pipe_is_tiled(q->pipe, g, a) ? tn__pipe_sizes(q->pipe, g, a, sizes) : 0;
    if (count < 2) continue;
    q->axes[q->open_count][n] = a;
    tn__sketch_open(k, tn__arena_printf(arena, "%s %s", last->name, n == 0 ? "columns" : "rows"), sizes, count);
    n++;
  }
  while (n < 2) q->axes[q->open_count][n++] = -1;
  q->opened[q->open_count++] = index;
}

static void open_pipeline(tn__sketch *k, tn__schedule *scratch) {
  pipeline *q = TN__NEW(scratch->arena, pipeline);
  int together = 0;
  k->data = q;
  q->pipe = tn__pipe_create(scratch, k->target, &k->options);
  for (int i = 0; i < scratch->steps.count; i++) tn__vec_push(scratch->arena, &q->inlined, scratch->steps.data[i]);
  make_groups(q, scratch->arena);
  for (int i = 0; i < q->count; i++) together += q->groups[i].count > 1;
  if (together == 0) tn__sched_refuse(scratch, "pipeline: no stage is better computed where it is read");
  for (int i = q->count - 1; i >= 0 && q->open_count < MOST_OPEN; i--)
    if (q->groups[i].count > 1) open_group(k, q, i, scratch->arena);
}

/* The tile of a group under these values. */
static void tile_at(const pipeline *q, int index, const int64_t *values, int64_t *tile) {
  const tn__pipe_group *g = &q->groups[index];
  int at = 0;
  for (int a = 0; a < TN__PIPE_AXES; a++) tile[a] = g->tile[a];
  for (int o = 0; o < q->open_count; o++)
    for (int n = 0; n < 2; n++) {
      if (q->axes[o][n] < 0) continue;
      if (q->opened[o] == index) tile[q->axes[o][n]] = values[at];
      at++;
    }
}

static const tn__nest *pipeline_features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  static const tn__nest nothing = {.axis_count = 0};
  const pipeline *q = k->data;
  int64_t tile[TN__PIPE_AXES];
  for (int i = 0; i < q->count; i++) {
    if (!q->pipe->stages[last_of(&q->groups[i])].movable) continue;
    tile_at(q, i, values, tile);
    f->work_cycles += tn__pipe_cycles(q->pipe, &q->groups[i], tile);
  }
  if (isinf(f->work_cycles)) return NULL;
  f->chunks = tn__rule_is_large(k->te) ? 4 * k->options.threads : 1;
  return &nothing;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Splits the last stage's loops into tiles and what is inside of one. Returns the loop in which the others are
 * computed, and how many loops stand from the root to it. */
static const char *tile_loops(tn__schedule *s, const pipeline *q, const tn__pipe_group *g, const int64_t *tile,
                              const tn__schedule_options *options, int *depth) {
  const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
  bool shares = tn__rule_shares(s, options);
  const char *loops[TN__MAX_LOOPS], *outer[TN__PIPE_AXES], *inner[TN__PIPE_AXES], *order[2 * TN__PIPE_AXES];
  int count = tn__sched_loops_of(s, last->name, loops, TN__MAX_LOOPS), outside = 0, inside = 0, n = 0;
  for (int a = 0; a < count; a++) {
    if (a >= last->spatial || tile[a] >= last->extent[a]) {
      inner[inside++] = loops[a];
    } else if (tile[a] == 1) {
      outer[outside++] = loops[a];
    } else {
      tn__sched_split(s, loops[a], (const int64_t[]){0, tile[a]}, 2);
      outer[outside++] = tn__arena_printf(s->arena, "%s.0", loops[a]);
      inner[inside++] = tn__arena_printf(s->arena, "%s.1", loops[a]);
    }
  }
  for (int i = 0; i < outside; i++) order[n++] = outer[i];
  for (int i = 0; i < inside; i++) order[n++] = inner[i];
  if (n > 1) tn__sched_reorder(s, order, n);
  int fused = 1;
  for (; fused < outside && shares && tn__rule_loop_extent(s, outer[0]) < 4 * options->threads; fused++) {
    tn__sched_fuse(s, outer[0], outer[fused]);
    outer[0] = tn__arena_printf(s->arena, "%s+%s", outer[0], outer[fused]);
  }
  if (shares) tn__sched_parallel(s, outer[0]);
  *depth = outside - fused + 1;
  return fused == outside ? outer[0] : outer[outside - 1];
}

static int64_t box_bytes(const tn__buffer *buffer, const int64_t *size) {
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype);
  for (int d = 0; d < buffer->rank; d++) bytes = tn__ir_bound_mul(bytes, size[d]);
  return bytes;
}

/* The loops over what a tile needs are as long as was thought: a hull that is not known would be the whole tensor. */
static void check_box(tn__schedule *s, const tn__pipe_stage *stage, int depth, const int64_t *size) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS);
  double points = 1, wanted = stage->terms;
  for (int d = 0; d < stage->buffer->rank; d++) wanted *= (double)size[d];
  for (int i = depth; i < count; i++) points *= (double)tn__rule_loop_extent(s, loops[i]);
  if (points > 2 * wanted || points < 0)
    tn__sched_refuse(s, "pipeline: a tile needs more of \"%s\" than was estimated", stage->name);
}

static void vectorize_stage(tn__schedule *s, const tn__pipe_stage *stage, int depth,
                            const tn__schedule_options *options) {
  if (stage->block->combiner == NULL)
    tn__reduce_vectorize_last(s, stage->name, depth, stage->lanes);
  else
    tn__reduce_inside(s, stage->name, options, depth);
}

static void apply_group(tn__schedule *s, const pipeline *q, const tn__pipe_group *g, const int64_t *tile,
                        const tn__schedule_options *options) {
  const tn__pipe *p = q->pipe;
  int64_t(*sizes)[TN__MAX_RANK] = (void *)TN__NEW_ARRAY(s->arena, TN__PIPE_STAGES * TN__MAX_RANK, int64_t);
  int depth;
  const char *place = tile_loops(s, q, g, tile, options, &depth);
  tn__pipe_boxes(p, g, tile, sizes);
  for (int i = g->count - 2; i >= 0; i--) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    tn__sched_compute_at(s, stage->name, place);
    check_box(s, stage, depth, sizes[i]);
  }
  for (int i = g->count - 2; i >= 0; i--) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    if (box_bytes(stage->buffer, sizes[i]) <= TN__RULE_PRIVATE_BYTES)
      tn__sched_set_scope(s, stage->name, 0, TN__SCOPE_STACK);
    else
      tn__sched_fold_storage(s, stage->name, 0, place);
  }
  for (int i = 0; i < g->count; i++) vectorize_stage(s, &p->stages[g->member[i]], depth, options);
}

static void apply(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const pipeline *q = k->data;
  int64_t tile[TN__PIPE_AXES];
  for (int i = 0; i < q->inlined.count; i++) tn__sched_trace_step(s, q->inlined.data[i]);
  for (int i = 0; i < q->count; i++) {
    const tn__pipe_group *g = &q->groups[i];
    const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
    tile_at(q, i, values, tile);
    if (g->count > 1)
      apply_group(s, q, g, tile, &k->options);
    else
      tn__reduce_schedule_stage(s, tn__te_stage_of(s->te, last->buffer), &k->options);
  }
}

/* Anything of several stages, but what reduces whole rows, or sums products, is other rules'. */
static bool matches(const tn__te *te) {
  return tn__te_stage_count(te) > 1 && !tn__rule_rows.matches(te) && !tn__rule_sequence.matches(te);
}

const tn__rule tn__rule_pipeline = {"pipeline", matches, open_pipeline, pipeline_features, apply};
