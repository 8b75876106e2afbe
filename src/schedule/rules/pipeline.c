/* The rule "pipeline": several stages, of which some are computed where they are needed, a tile of the last one at a
 * time, and the others as wholes. Groups start as single stages and grow as long as the cost function finds that it is
 * cheaper to compute a group's tensor a part at a time for the group that reads it (pipeline.h). */
#include "schedule/rules/pipeline.h"

#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "schedule/rules/contraction.h"
#include "schedule/rules/reduce.h"

/* Groups whose tiles are decisions; stages of which it is tried whether they are better computed by each reader, those
 * with the same readers among them, and what a vector of them may take. */
enum { MOST_OPEN = 5, MOST_TRIES = 8, MOST_ALIKE = 4, CHEAP_CYCLES = 40 };

/* The rule's data. */
typedef struct pipeline {
  tn__pipe *pipe;
  double cycles;                 /* of all groups, each with its best tile */
  int *of;                       /* by stage: the last stage of its group */
  TN__VEC(const char *) inlined; /* steps of the scratch schedule */
  tn__pipe_group *groups;        /* in order */
  int count;
  int opened[MOST_OPEN];  /* groups with decisions */
  int axes[MOST_OPEN][2]; /* rows and columns of the tile; -1: none */
  bool sweeps[MOST_OPEN]; /* is it a decision whether the tile is computed row by row? */
  int open_count;
  double closed_cycles; /* of the groups without decisions */
  int64_t chunks;       /* that threads share */
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
  const tn__pipe_stage *stage = &b->pipe->stages[last];
  if (!stage->movable || stage->is_output) return -1;
  for (int i = 0; i < stage->readers.count; i++) {
    const int group = b->of[stage->readers.data[i]];
    if (group == b->of[last]) continue;
    if (reader >= 0 && reader != group) return -1;
    reader = group;
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
    if (reader < 0 || b->group[i]->count + b->group[reader]->count > TN__PIPE_STAGES) continue;
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
  q->of = b.of;
  q->groups = TN__NEW_ARRAY(arena, p->count, tn__pipe_group);
  for (int i = 0; i < p->count; i++) {
    if (b.group[i] == NULL) continue;
    q->groups[q->count++] = *b.group[i];
    q->cycles += b.group[i]->cycles;
  }
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Which of the stage's loops runs along the axis: those over a scan's steps stand around all others. */
static int place_of_axis(const tn__pipe_stage *stage, int axis) {
  if (axis == stage->scan_axis) return 0;
  return axis < stage->scan_axis ? axis + 1 : axis;
}

/* How many of `count` tiles in a row one iteration of the parallel loop takes, where each iteration has room of its own
 * in the workspace: fewer rooms are touched and fall out of caches. Some for each thread, so that the last are not
 * waited for; a divisor, if there is one, as a rest would be code of its own. */
static int64_t tiles_in_turn(int64_t count, int64_t threads) {
  int64_t most = count / (2 * threads), least = count / (6 * threads);
  for (int64_t n = most; n > 1 && n >= least; n--)
    if (count % n == 0) return n;
  return count / (4 * threads) > 1 ? count / (4 * threads) : 1;
}

/* Splits the last stage's loops into tiles and what is inside of one, the axis of the rows first if there are any.
 * Returns the loop in which the others are computed, and how many loops stand from the root to it. `rooms`: it has
 * parts of tensors in the workspace, for each iteration of a parallel loop. */
static const char *tile_loops(tn__schedule *s, const pipeline *q, const tn__pipe_group *g, const char *name,
                              const int64_t *tile, const tn__pipe_sweep *sweep, const tn__schedule_options *options,
                              bool rooms, int *depth) {
  const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
  bool shares = tn__rule_shares(s, options);
  const char *loops[TN__MAX_LOOPS], *outer[TN__PIPE_AXES] = {NULL}, *inner[TN__PIPE_AXES], *order[2 * TN__PIPE_AXES],
                                    *rows = NULL;
  int count = tn__sched_loops_of(s, name, loops, TN__MAX_LOOPS), outside = 0, inside = 0, n = 0;
  for (int a = 0; a < count; a++) {
    const char *loop = loops[place_of_axis(last, a)], *in = loop;
    bool is_split = a < last->spatial && tile[a] < last->extent[a];
    if (is_split && tile[a] > 1) {
      tn__sched_split(s, loop, (const int64_t[]){0, tile[a]}, 2);
      in = tn__arena_printf(s->arena, "%s.1", loop);
    }
    if (is_split) outer[outside++] = tile[a] == 1 ? loop : tn__arena_printf(s->arena, "%s.0", loop);
    if (is_split && tile[a] == 1) continue;
    if (sweep != NULL && a == sweep->axis)
      rows = in;
    else
      inner[inside++] = in;
  }
  if (rows == NULL && (outside == 0 || sweep != NULL))
    tn__sched_refuse(s, "pipeline: one tile is all of \"%s\", or a row of it", last->name);
  for (int i = 0; i < outside; i++) order[n++] = outer[i];
  if (rows != NULL) order[n++] = rows;
  for (int i = 0; i < inside; i++) order[n++] = inner[i];
  if (n > 1) tn__sched_reorder(s, order, n);
  int fused = 1;
  for (; fused < outside && shares && tn__rule_loop_extent(s, outer[0]) < 4 * options->threads; fused++) {
    tn__sched_fuse(s, outer[0], outer[fused]);
    outer[0] = tn__arena_printf(s->arena, "%s+%s", outer[0], outer[fused]);
  }
  const int64_t in_turn =
      shares && rooms && outside > 0 ? tiles_in_turn(tn__rule_loop_extent(s, outer[0]), options->threads) : 1;
  const char *parallel = outer[0];
  if (in_turn > 1) {
    tn__sched_split(s, outer[0], (const int64_t[]){0, in_turn}, 2);
    parallel = tn__arena_printf(s->arena, "%s.0", outer[0]);
    outer[0] = tn__arena_printf(s->arena, "%s.1", outer[0]);
  }
  if (shares && outside > 0) tn__sched_parallel(s, parallel);
  *depth = (outside > 0 ? outside - fused + 1 : 0) + (in_turn > 1) + (rows != NULL);
  if (rows != NULL) return rows;
  return fused == outside ? outer[0] : outer[outside - 1];
}

static int64_t box_bytes(const tn__buffer *buffer, const int64_t *size) {
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype);
  for (int d = 0; d < buffer->rank; d++) bytes = tn__ir_bound_mul(bytes, size[d]);
  return bytes;
}

/* The loops over what a tile needs, `spatial` of them, are as long as was thought: a hull that is not known would be
 * the whole tensor. */
static void check_box(tn__schedule *s, const char *block, const tn__pipe_stage *stage, int depth, const int64_t *size) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS);
  double points = 1, wanted = 1;
  for (int d = 0; d < stage->buffer->rank; d++) wanted *= (double)size[d];
  for (int i = depth; i < count && i < depth + stage->spatial; i++) points *= (double)tn__rule_loop_extent(s, loops[i]);
  if (points > 2 * wanted || points < 0)
    tn__sched_refuse(s, "pipeline: a tile needs more of \"%s\" than was estimated", stage->name);
}

/* Vectors of results along the last loop, as many as hide the latency of combining terms. */
static void vectorize_results(tn__schedule *s, const char *write, int depth, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, write, loops, TN__MAX_LOOPS);
  int64_t vectors = 4, extent = count > depth ? tn__rule_loop_extent(s, loops[count - 1]) : -1;
  while (vectors > 1 && !tn__rule_fills(extent, vectors * lanes)) vectors /= 2;
  if (vectors == 1) {
    tn__reduce_vectorize_last(s, write, depth, lanes);
    return;
  }
  tn__sched_split(s, loops[count - 1], (const int64_t[]){0, vectors * lanes}, 2);
  tn__reduce_vectorize_lanes(s, write, vectors, lanes);
}

/* A reduction in a tile: its results are complete in registers before a block of its own writes them where the other
 * stages read them, a vector or two at a time. Returns that block. */
static const char *move_reduction(tn__schedule *s, const tn__pipe_stage *stage, const char *place, int depth,
                                  const int64_t *size, bool walks_columns) {
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  const char *write = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", stage->name));
  int n = 0, reduces = stage->axis_count - stage->spatial;
  tn__sched_cache_write(s, stage->name, 0, TN__SCOPE_REGISTER);
  tn__sched_compute_at(s, write, place);
  check_box(s, write, stage, depth, size);
  vectorize_results(s, write, depth, stage->lanes);
  int count = tn__sched_loops_of(s, write, loops, TN__MAX_LOOPS);
  /* The rows' loop stands where the tensor has its last dimension but one, in front of that over strips of columns. */
  const int rows = depth + stage->buffer->rank - 2;
  if (walks_columns && rows + 1 < count && tn__sched_find(s, loops[rows + 1], false)->kind == TN__LOOP_SERIAL) {
    tn__sched_reorder(s, (const char *[]){loops[rows + 1], loops[rows]}, 2);
    count = tn__sched_loops_of(s, write, loops, TN__MAX_LOOPS);
  }
  const char *around = loops[depth];
  for (int i = depth; i < count && tn__sched_find(s, loops[i], false)->kind == TN__LOOP_SERIAL; i++) around = loops[i];
  tn__sched_compute_at(s, stage->name, around);
  count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS);
  for (int i = count - reduces; i < count; i++) order[n++] = loops[i];
  order[n++] = loops[count - reduces - 1];
  tn__sched_reorder(s, order, n);
  int64_t lanes = tn__rule_loop_extent(s, order[n - 1]), terms = 1;
  int64_t most = tn__reduce_most_written(s, stage->name, (lanes + stage->lanes - 1) / stage->lanes);
  for (int i = reduces - 1; i >= 0; i--) {
    terms *= tn__rule_loop_extent(s, order[i]);
    if (terms > most) break;
    tn__sched_unroll(s, order[i]);
  }
  if (lanes % stage->lanes == 0)
    tn__reduce_vectorize_lanes(s, stage->name, lanes / stage->lanes, stage->lanes);
  else if (lanes > 1 && (lanes & (lanes - 1)) == 0)
    tn__sched_vectorize(s, order[n - 1]);
  tn__sched_decompose_reduction(s, stage->name, order[0]);
  return write;
}

/* Is there a loop along which vectors of the reduction's results can run? */
static bool has_lanes(const tn__pipe_stage *stage, const int64_t *size) {
  return stage->buffer->rank > 0 && size[stage->buffer->rank - 1] >= stage->lanes && stage->has_lanes;
}

/* The reduction's loops over terms, around those over the results that a tile needs. Returns the innermost one, in
 * which a term's part of other members is made, and how many loops stand from the root to it. */
static const char *loop_over_terms(tn__schedule *s, const tn__pipe_stage *stage, int *depth) {
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS), reduces = stage->axis_count - stage->spatial;
  int n = 0;
  for (int i = count - reduces; i < count; i++) order[n++] = loops[i];
  for (int i = *depth; i < count - reduces; i++) order[n++] = loops[i];
  tn__sched_reorder(s, order, n);
  tn__sched_decompose_reduction(s, stage->name, order[0]);
  *depth += reduces;
  return order[reduces - 1];
}

/* Is there a member whose part does not go onto the stack? */
static bool needs_rooms(const tn__pipe *p, const tn__pipe_group *g, int64_t (*sizes)[TN__MAX_RANK]) {
  bool needs = false;
  for (int i = 0; i < g->count - 1; i++)
    needs |= box_bytes(p->stages[g->member[i]].buffer, sizes[i]) > TN__RULE_PRIVATE_BYTES;
  return needs;
}

/* How a group is applied. */
typedef struct applied {
  tn__schedule *s;
  const tn__pipe *p;
  const tn__pipe_group *g;
  const tn__pipe_sweep *sweep;
  const tn__pipe_terms *terms;
  int64_t (*sizes)[TN__MAX_RANK]; /* by member: what is computed of it at once */
  const char **writer;            /* by member: the block that writes its tensor */
  tn__pipe_place kept;            /* where the members are */
  const char *last;               /* the block whose tiles are computed */
  const char *place, *term;       /* the loops in which the others are computed, and those inside of a reduction */
  int depth, term_depth;          /* how many loops stand from the root to them */
} applied;

static bool is_inside(const applied *x, int i) { return x->terms != NULL && x->terms->inside[i]; }

/* Of a scan, in registers: its last steps where the others need no more, in a loop over as many as there is room for.
 * Steps in front of which that is not so are all written out. */
static void fold_steps(applied *x, const tn__pipe_stage *stage) {
  tn__schedule *s = x->s;
  const char *loops[TN__MAX_LOOPS];
  if (stage->scan_axis < 0 || x->kept != TN__PIPE_IN_TURNS) return;
  const tn__snode *block = tn__sched_find(s, stage->name, true);
  int64_t rows = 1;
  for (int w = 0; w < block->block.write_count; w++)
    while (rows <= 8 && !tn__sched_can_fold_scan(s, block->block.writes[w].buffer, rows)) rows *= 2;
  if (rows > 8) tn__sched_refuse(s, "pipeline: a tile needs more of \"%s\" than its end", stage->name);
  for (int w = 0; w < block->block.write_count; w++) tn__sched_fold_scan(s, stage->name, w, rows);
  if (rows == 1) return;
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS);
  for (int i = x->depth; i < count; i++)
    if (tn__sched_drives(tn__sched_find(s, loops[i], false), block, TN__AXIS_SCAN)) {
      tn__sched_split(s, loops[i], (const int64_t[]){0, rows}, 2);
      tn__sched_unroll(s, tn__arena_printf(s->arena, "%s.1", loops[i]));
      return;
    }
}

/* Members in registers: all loops inside of a tile are written out, but those over a scan's steps that keep the last
 * ones. */
static void write_out(applied *x) {
  tn__schedule *s = x->s;
  tn__snodes blocks = {0};
  const char *loops[TN__MAX_LOOPS];
  tn__sched_blocks(s, tn__sched_find(s, x->place, false), &blocks);
  for (int b = 0; b < blocks.count; b++) {
    const int count = tn__sched_loops_of(s, blocks.data[b]->name, loops, TN__MAX_LOOPS);
    for (int i = x->depth; i < count; i++) {
      const tn__snode *loop = tn__sched_find(s, loops[i], false);
      bool steps = x->kept == TN__PIPE_IN_TURNS && tn__sched_drives(loop, blocks.data[b], TN__AXIS_SCAN);
      if (loop->kind == TN__LOOP_SERIAL && !steps) tn__sched_unroll(s, loops[i]);
    }
  }
}

/* Room for what the members make: a window of rows that slides, or what a tile needs. */
static void keep_members(applied *x) {
  tn__schedule *s = x->s;
  for (int i = x->g->count - 1; i >= 0 && x->kept != TN__PIPE_IN_CACHE; i--) {
    const tn__pipe_stage *stage = &x->p->stages[x->g->member[i]];
    if (x->writer[i] == NULL) continue;
    fold_steps(x, stage);
    for (int w = 0; w < stage->block->block.write_count; w++)
      tn__sched_set_scope(s, x->writer[i], w, TN__SCOPE_REGISTER);
  }
  if (x->kept != TN__PIPE_IN_CACHE) return;
  for (int i = x->g->count - 1; i >= 0; i--) {
    const tn__buffer *buffer = x->p->stages[x->g->member[i]].buffer;
    int64_t *size = x->sizes[i];
    bool slides = x->sweep != NULL && i < x->g->count - 1 && x->sweep->step[i] < x->sweep->rows[i];
    if (x->writer[i] == NULL) continue; /* the group's own tensor */
    if (slides) {
      tn__sched_slide(s, x->writer[i], x->place);
      while (size[x->sweep->dim[i]] & (size[x->sweep->dim[i]] - 1)) size[x->sweep->dim[i]]++; /* a power of two */
    }
    const int tensors = x->p->stages[x->g->member[i]].block->block.write_count;
    for (int w = 0; w < tensors; w++)
      if (tensors * box_bytes(buffer, size) <= TN__RULE_PRIVATE_BYTES)
        tn__sched_set_scope(s, x->writer[i], w, TN__SCOPE_STACK);
      else if (!slides)
        tn__sched_fold_storage(s, x->writer[i], w, is_inside(x, i) ? x->term : x->place);
  }
}

/* Moves a member to where it is computed. */
static void place_member(applied *x, int i) {
  const tn__pipe_stage *stage = &x->p->stages[x->g->member[i]];
  const char *place = is_inside(x, i) ? x->term : x->place;
  int depth = is_inside(x, i) ? x->term_depth : x->depth;
  bool adds_terms = x->terms != NULL && x->terms->sum == i;
  x->writer[i] = stage->name;
  if (!adds_terms && stage->block->combiner != NULL && has_lanes(stage, x->sizes[i])) {
    const bool walks = tn__pipe_walks_columns(x->p, stage, x->sizes[i]);
    x->writer[i] = move_reduction(x->s, stage, place, depth, x->sizes[i], walks);
    return;
  }
  tn__sched_compute_at(x->s, stage->name, place);
  check_box(x->s, stage->name, stage, depth, x->sizes[i]);
  if (!adds_terms) return;
  x->term_depth = depth;
  x->term = loop_over_terms(x->s, stage, &x->term_depth);
}

/* Vectors along the last of the loops under `depth` others, or tiles that are turned. */
static void vectorize_map(tn__schedule *s, const tn__pipe_stage *stage, int depth,
                          const tn__schedule_options *options) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, stage->name, loops, TN__MAX_LOOPS);
  const tn__snode *block = tn__sched_find(s, stage->name, true);
  if (stage->fuses && count >= depth + 2) tn__sched_fuse(s, loops[count - 2], loops[count - 1]);
  for (int i = depth; i < count && stage->turned_axis >= 0; i++) {
    const tn__var *var = tn__sched_find(s, loops[i], false)->var;
    if (tn__expr_uses_var(block->block.axes[stage->turned_axis].binding, var) &&
        tn__rule_turn_inside(s, stage->name, depth, i, options))
      return;
  }
  tn__reduce_vectorize_last(s, stage->name, depth, stage->lanes);
}

static void apply_group(tn__schedule *s, const pipeline *q, const tn__pipe_group *g, const int64_t *tile, bool slides,
                        const tn__schedule_options *options) {
  const tn__pipe *p = q->pipe;
  applied x = {.s = s, .p = p, .g = g, .sweep = slides ? g->sweep : NULL, .terms = slides ? NULL : g->terms};
  x.sizes = (void *)TN__NEW_ARRAY(s->arena, TN__PIPE_STAGES * TN__MAX_RANK, int64_t);
  x.writer = TN__NEW_ARRAY(s->arena, g->count, const char *);
  x.last = p->stages[last_of(g)].name;
  x.kept = x.sweep == NULL && x.terms == NULL ? tn__pipe_place_of(p, g, tile) : TN__PIPE_IN_CACHE;
  /* Terms that are added to a tile of the last stage: a copy writes the tensor, and the sums are another member. */
  bool copies = x.terms != NULL && x.terms->sum == g->count - 1;
  if (copies) {
    x.last = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", x.last));
    tn__sched_cache_write(s, p->stages[last_of(g)].name, 0, TN__SCOPE_WORKSPACE);
  }
  int64_t part[TN__PIPE_AXES]; /* what is computed at once */
  for (int a = 0; a < TN__PIPE_AXES; a++) part[a] = x.sweep != NULL && a == x.sweep->axis ? 1 : tile[a];
  tn__pipe_boxes(p, g, part, x.terms, x.sizes);
  const bool rooms = copies || needs_rooms(p, g, x.sizes);
  x.place = tile_loops(s, q, g, x.last, tile, x.sweep, options, rooms, &x.depth);
  for (int i = g->count - (copies ? 1 : 2); i >= 0; i--) place_member(&x, i);
  keep_members(&x);
  if (copies) tn__reduce_vectorize_last(s, x.last, x.depth, p->stages[last_of(g)].lanes);
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    if (x.terms != NULL && x.terms->sum == i)
      tn__reduce_vectorize_last(s, stage->name, x.term_depth, stage->lanes);
    else if (stage->block->combiner == NULL)
      vectorize_map(s, stage, is_inside(&x, i) ? x.term_depth : x.depth, options);
    else if (i == g->count - 1)
      tn__reduce_inside(s, stage->name, options, x.depth);
    else if (x.writer[i] == stage->name && !tn__reduce_runs_across(s, tn__sched_find(s, stage->name, true)))
      tn__rule_reduce_along(s, stage->name, options, 1);
  }
  if (x.kept != TN__PIPE_IN_CACHE) write_out(&x);
}

/* ---- the sketch -------------------------------------------------------------------------------------------------- */

static void open_group(tn__sketch *k, pipeline *q, int index, tn__arena *arena) {
  const tn__pipe_group *g = &q->groups[index];
  const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
  int64_t sizes[16];
  const int most = g->columns_refused ? 1 : 2;
  int n = 0;
  for (int a = last->spatial - 1; a >= 0 && n < most; a--) {
    int count = tn__pipe_is_tiled(q->pipe, g, a) ? tn__pipe_sizes(q->pipe, g, a, sizes) : 0;
    if (count < 2) continue;
    q->axes[q->open_count][n] = a;
    tn__sketch_open(k, tn__arena_printf(arena, "%s %s", last->name, n + most == 2 ? "columns" : "rows"), sizes, count);
    n++;
  }
  while (n < 2) q->axes[q->open_count][n++] = -1;
  q->sweeps[q->open_count] = g->sweep != NULL;
  if (g->sweep != NULL)
    tn__sketch_open(k, tn__arena_printf(arena, "%s slides", last->name), (const int64_t[]){0, 1}, 2);
  q->opened[q->open_count++] = index;
}

/* The pipeline of what is left of the declaration in `s`. */
static pipeline *pipeline_of(tn__schedule *s, const tn__target *target) {
  pipeline *q = TN__NEW(s->arena, pipeline);
  q->pipe = tn__pipe_create(s, target);
  for (int i = 0; i < s->steps.count; i++) tn__vec_push(s->arena, &q->inlined, s->steps.data[i]);
  make_groups(q, s->arena);
  return q;
}

/* Do stages of several groups read the tensor? */
static bool is_read_by_groups(const pipeline *q, int stage) {
  const tn__pipe_stage *of = &q->pipe->stages[stage];
  for (int i = 1; i < of->readers.count; i++)
    if (q->of[of->readers.data[i]] != q->of[of->readers.data[0]]) return true;
  return false;
}

/* Is it a cheap map whose readers may compute it? */
static bool may_recompute(const pipeline *q, int stage) {
  const tn__pipe_stage *of = &q->pipe->stages[stage];
  return of->cycles <= CHEAP_CYCLES && is_read_by_groups(q, stage) && tn__pipe_can_inline(q->pipe->s, of->block);
}

static bool has_same_readers(const tn__pipe_stage *a, const tn__pipe_stage *b) {
  if (a->readers.count != b->readers.count) return false;
  for (int i = 0; i < a->readers.count; i++)
    if (a->readers.data[i] != b->readers.data[i]) return false;
  return true;
}

/* The same without the tensors of `count` stages: their readers compute what they need; NULL when they would get too
 * large. */
static pipeline *without(const pipeline *q, const int *stages, int count) {
  const tn__schedule *old = q->pipe->s;
  tn__schedule *s = tn__schedule_of(old->te, old->target);
  for (int i = 0; i < q->inlined.count; i++) tn__sched_trace_step(s, q->inlined.data[i]);
  for (int i = 0; i < count; i++)
    if (!tn__sched_inline_if_small(s, q->pipe->stages[stages[i]].name)) return NULL;
  return pipeline_of(s, q->pipe->target);
}

/* Goes on from pipelines that are as good, up to a factor of `slack`, and returns the best that was seen. Last stages
 * first, a few of them: each alone, and with those that the same stages read, as two parts of a gradient are, where one
 * alone would still leave its readers apart. `*near`: one that was passed over is nearly as good. */
static pipeline *recompute_within(pipeline *q, double slack, bool *near) {
  pipeline *best = q;
  int tries = 0;
  *near = false;
  for (int i = q->pipe->count - 1; i >= 0 && tries < MOST_TRIES; i--) {
    if (!may_recompute(q, i)) continue;
    int alike[MOST_ALIKE] = {i}, count = 1;
    for (int j = i - 1; j >= 0 && count < MOST_ALIKE; j--)
      if (has_same_readers(&q->pipe->stages[i], &q->pipe->stages[j]) && may_recompute(q, j)) alike[count++] = j;
    pipeline *next = without(q, alike, 1), *all = count > 1 ? without(q, alike, count) : NULL;
    tries++;
    if (all != NULL && (next == NULL || all->cycles < slack * next->cycles)) next = all;
    if (next != NULL && next->cycles < slack * q->cycles)
      q = next;
    else
      *near |= next != NULL && next->cycles < TN__RULE_AS_GOOD * q->cycles;
    if (q->cycles < best->cycles) best = q;
    if (i > q->pipe->count) i = q->pipe->count;
  }
  return best;
}

/* A map that stages of several groups read goes to memory as a whole; where it costs little, each of them had better
 * compute it again. Often that pays only when what is in front of it is there again, too: its neighbours are tried from
 * pipelines that are no better. */
static pipeline *recompute_cheap(pipeline *q) {
  bool near, unused;
  pipeline *strict = recompute_within(q, 1, &near);
  pipeline *wide = near ? recompute_within(q, TN__RULE_AS_GOOD, &unused) : strict;
  return wide->cycles * TN__RULE_AS_GOOD < strict->cycles ? wide : strict;
}

typedef struct trial {
  const tn__sketch *k;
  const pipeline *q;
  int at; /* the group that is being applied */
} trial;

static void apply_groups(tn__escape *escape, void *arg) {
  trial *t = arg;
  tn__ir_arena(tn__te_ir(t->k->te))->escape = escape;
  tn__schedule *s = tn__schedule_of(t->k->te, t->k->target);
  for (int i = 0; i < t->q->inlined.count; i++) tn__sched_trace_step(s, t->q->inlined.data[i]);
  for (t->at = 0; t->at < t->q->count; t->at++) {
    const tn__pipe_group *g = &t->q->groups[t->at];
    if (g->count > 1) apply_group(s, t->q, g, g->tile, g->slides, &t->k->options);
  }
}

/* Each of its stages becomes a group of its own. */
static void dissolve(pipeline *q, int index) {
  const tn__pipe_group whole = q->groups[index];
  for (int i = 0; i < whole.count; i++) {
    tn__pipe_group *g = &q->groups[i == 0 ? index : q->count++];
    *g = (tn__pipe_group){.count = 1, .member = {whole.member[i]}};
    if (q->pipe->stages[whole.member[i]].movable) tn__pipe_tile(q->pipe, g);
  }
}

/* Does a member reduce? Where its windows are clamped along the rows, vectors of its results are gathered at the ends
 * of each of them, for every term. */
static bool reduces(const pipeline *q, const tn__pipe_group *g) {
  bool any = false;
  for (int i = 0; i < g->count; i++) any |= q->pipe->stages[g->member[i]].block->combiner != NULL;
  return any;
}

/* Groups that a primitive refuses, because a tile's part of a tensor is not known, say, do not slide, or have tiles of
 * whole rows, or are given up, and the others stay. */
static void dissolve_refused(const tn__sketch *k, pipeline *q) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(k->te));
  tn__escape *outer = arena->escape, escape;
  for (bool refused = true; refused;) {
    trial t = {.k = k, .q = q};
    tn_status *status = tn__protect(&escape, apply_groups, &t);
    arena->escape = outer;
    refused = status != NULL;
    if (refused && tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
    tn_status_free(status);
    if (!refused) continue;
    tn__pipe_group *g = &q->groups[t.at];
    if (!g->slides && g->terms == NULL && tn__pipe_place_of(q->pipe, g, g->tile) != TN__PIPE_IN_CACHE) {
      g->registers_refused = true;
      tn__pipe_tile(q->pipe, g);
    } else if (g->slides || g->terms != NULL || (!g->columns_refused && !reduces(q, g))) {
      g->columns_refused |= !g->slides && g->terms == NULL;
      g->refused |= g->slides;
      g->terms_refused |= g->terms != NULL;
      tn__pipe_tile(q->pipe, g);
    } else {
      dissolve(q, t.at);
    }
  }
}

/* Is there a map that the other rules would inline, though its readers compute it again and again? */
static bool keeps_more(const pipeline *q) {
  const tn__schedule *old = q->pipe->s;
  bool only_maps = true;
  int outputs = 0;
  for (int i = 0; i < tn__te_stage_count(old->te); i++)
    only_maps &= tn__te_stage_at(old->te, i)->kind == TN__TE_COMPUTE;
  for (int i = 0; i < q->pipe->count; i++) {
    if (!q->pipe->stages[i].movable) return false; /* open sizes: what it costs is not known */
    outputs += q->pipe->stages[i].is_output;
  }
  if (only_maps) return q->pipe->count > outputs;
  tn__schedule *s = tn__schedule_of(old->te, old->target);
  tn__reduce_dissolve_maps(s);
  for (int i = 0; i < q->pipe->count; i++)
    if (tn__sched_find(s, q->pipe->stages[i].name, true) == NULL) return true;
  return false;
}

/* The tile of a group under these values, and whether it is computed row by row. */
TN_MUST_USE static bool tile_at(const pipeline *q, int index, const int64_t *values, int64_t *tile) {
  const tn__pipe_group *g = &q->groups[index];
  bool slides = g->slides;
  int at = 0;
  for (int a = 0; a < TN__PIPE_AXES; a++) tile[a] = g->tile[a];
  for (int o = 0; o < q->open_count; o++) {
    for (int n = 0; n < 2; n++) {
      if (q->axes[o][n] < 0) continue;
      if (q->opened[o] == index) tile[q->axes[o][n]] = values[at];
      at++;
    }
    if (q->sweeps[o] && q->opened[o] == index) slides = values[at] != 0;
    at += q->sweeps[o];
  }
  return slides;
}

static double group_cycles(const pipeline *q, int index, const int64_t *values) {
  int64_t tile[TN__PIPE_AXES];
  if (!q->pipe->stages[last_of(&q->groups[index])].movable) return 0;
  const bool slides = tile_at(q, index, values, tile);
  return tn__pipe_cycles(q->pipe, &q->groups[index], tile, slides);
}

static bool is_open(const pipeline *q, int index) {
  for (int o = 0; o < q->open_count; o++)
    if (q->opened[o] == index) return true;
  return false;
}

/* What is inlined decides how products and sums are rounded together, so it follows from the table's target, never from
 * a measurement. */
static void open_pipeline(tn__sketch *k, tn__schedule *scratch) {
  tn__target *table = TN__NEW(scratch->arena, tn__target);
  int together = 0;
  *table = tn__target_of_table(k->target);
  tn__pipe_inline(scratch, table);
  const int hoisted = tn__pipe_hoist(scratch);
  pipeline *q = recompute_cheap(pipeline_of(scratch, table));
  k->data = q;
  /* A reduction and one map are one nest of the rule "stages", with the map behind it or in a loop of it. */
  if (k->rule == &tn__rule_pipeline_refused && q->pipe->count - hoisted <= 2)
    tn__sched_refuse(scratch, "pipeline: %d stages are one nest", q->pipe->count);
  dissolve_refused(k, q);
  for (int i = 0; i < q->count; i++) together += q->groups[i].count > 1;
  if (together == 0 && hoisted == 0 && !keeps_more(q))
    tn__sched_refuse(scratch, "pipeline: no stage is better computed where it is read");
  for (int i = q->count - 1; i >= 0 && q->open_count < MOST_OPEN; i--)
    if (q->groups[i].count > 1) open_group(k, q, i, scratch->arena);
  q->pipe->target = k->target;
  q->pipe->cache_bytes = k->options.cache_bytes;
  q->pipe->parts = tn__rule_shares(scratch, &k->options) ? 2 * k->options.threads : 1;
  for (int i = 0; i < q->count; i++)
    if (!is_open(q, i)) q->closed_cycles += group_cycles(q, i, NULL);
  q->chunks = tn__rule_is_large(k->te) ? 4 * k->options.threads : 1;
}

static const tn__nest *pipeline_features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  static const tn__nest nothing = {.axis_count = 0};
  const pipeline *q = k->data;
  f->work_cycles += q->closed_cycles;
  for (int o = 0; o < q->open_count; o++) f->work_cycles += group_cycles(q, q->opened[o], values);
  if (isinf(f->work_cycles)) return NULL;
  f->chunks = q->chunks;
  return &nothing;
}

static void apply(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const pipeline *q = k->data;
  int64_t tile[TN__PIPE_AXES];
  for (int i = 0; i < q->inlined.count; i++) tn__sched_trace_step(s, q->inlined.data[i]);
  for (int i = 0; i < q->count; i++) {
    const tn__pipe_group *g = &q->groups[i];
    const tn__pipe_stage *last = &q->pipe->stages[last_of(g)];
    bool slides = tile_at(q, i, values, tile);
    const tn__te_stage *stage = tn__te_stage_of(s->te, last->buffer);
    if (g->count > 1)
      apply_group(s, q, g, tile, slides, &k->options);
    else if (stage == NULL) /* a part of another stage */
      tn__rule_nest(s, last->name, &k->options);
    else if (last->turned_axis >= 0)
      tn__rule_turn(s, last->name, last->turned_axis, &k->options);
    else if (strcmp(stage->name, last->name) == 0) /* not what an accumulation starts from: it comes along */
      tn__reduce_schedule_stage(s, stage, &k->options);
  }
}

/* Does a stage reduce what others of its results read, too? */
static bool reuses(const tn__te *te) {
  for (int i = 0; i < tn__te_stage_count(te); i++)
    if (tn__contraction_reuses(tn__te_ir(te), tn__te_stage_at(te, i))) return true;
  return false;
}

/* Other rules are better at reducing whole rows, and at sums of products that tiles in registers are good for, when
 * they can. */
static bool is_theirs(const tn__te *te) {
  return tn__rule_rows.matches(te) || (reuses(te) && tn__rule_sequence.matches(te));
}

static bool matches(const tn__te *te) { return tn__te_stage_count(te) > 1 && !is_theirs(te); }

static bool matches_refused(const tn__te *te) { return tn__te_stage_count(te) > 1 && is_theirs(te); }

const tn__rule tn__rule_pipeline = {.name = "pipeline",
                                    .matches = matches,
                                    .open = open_pipeline,
                                    .features = pipeline_features,
                                    .apply = apply,
                                    .yields = true};
const tn__rule tn__rule_pipeline_refused = {.name = "pipeline",
                                            .matches = matches_refused,
                                            .open = open_pipeline,
                                            .features = pipeline_features,
                                            .apply = apply,
                                            .yields = true};
