/* Reductions and what stands around them. Two shapes of one reduction:
 *  - along: the reduction runs over what is contiguous (softmax, layer normalisation, means). Vectors of partial
 * results run along it (rfactor), and are combined at the end of the row, always in the same order.
 *  - across: neighbouring results are contiguous (pooling over channels-last images, sums over outer axes, depthwise
 * convolution). Vectors run across the results, with accumulators in registers. The rule "rows" computes a chain of
 * stages over the same rows one row at a time; the rule "stages" takes each stage for itself. */
#include <string.h>

#include "base/invariant.h"
#include "schedule/rules/rules.h"

/* Places in a sketch's values: how many vectors of results, or of partial results, at a time; of the rule "rows",
 * whether the output is stored non-temporally, how many rows are computed together, and whether the next row is fetched
 * while this one is computed; of the rule "stages", whether rows are fetched ahead, how many whole rows are added up at
 * a time (0: columns are), and into how many parts the longest reduction is cut, each with results of its own. */
enum { VECTORS, STREAM, TOGETHER, PREFETCH = STREAM, WHOLE = TOGETHER, PARTS, AHEAD = PARTS };

static void open_reduction(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t vectors[] = {1, 2, 4, 8, 16};
  tn__plain_open(k, scratch);
  k->decisions[tn__sketch_open(k, "vectors", vectors, 5)].orders = true;
}

static bool is_output(const tn__schedule *s, const char *stage) {
  return tn__sched_is_output(s, tn__sched_find(s, stage, true)->block.writes[0].buffer);
}

static const tn__te_stage *stage_named(const tn__te *te, const char *name) {
  for (int i = 0; i < tn__te_stage_count(te); i++)
    if (strcmp(tn__te_stage_at(te, i)->name, name) == 0) return tn__te_stage_at(te, i);
  return NULL;
}

/* ---- which maps to dissolve -------------------------------------------------------------------------------------- */

static double volume(const tn__te_axes *a, const tn__te_axes *b) {
  double points = 1;
  int64_t extent;
  for (int i = 0; i < a->count; i++) points *= tn__as_int(a->var[i]->extent, &extent) ? (double)extent : 1000;
  for (int i = 0; b != NULL && i < b->count; i++)
    points *= tn__as_int(b->var[i]->extent, &extent) ? (double)extent : 1000;
  return points;
}

/* Inlines maps that cost little more when their readers compute them. Costs grow as maps are inlined into each other,
 * so they are taken from the blocks. */
static void dissolve_maps(tn__schedule *s) {
  const tn__te *te = s->te;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE || is_output(s, stage->name)) continue;
    const tn__snode *block = tn__sched_find(s, stage->name, true);
    double cost = (double)tn__rule_cost(s->ir, block->block.body->as.store.value), own = volume(&stage->axes, NULL),
           reads = 0;
    tn__snodes readers = {0};
    bool imperative = false;
    tn__sched_readers(s, stage->tensors[0], &readers);
    for (int r = 0; r < readers.count; r++) {
      const tn__te_stage *reader = stage_named(te, readers.data[r]->name);
      imperative |= reader == NULL || reader->kind == TN__TE_EXTERN;
      if (reader != NULL) reads += volume(&reader->axes, &reader->reduce_axes);
    }
    /* Each read would cost `cost`; a tensor of its own costs about two for each element and one for each read. */
    if (!imperative && reads * cost <= own * (cost + 2) + reads) tn__inline_if_small(s, stage->name);
  }
}

/* ---- across ------------------------------------------------------------------------------------------------------ */

typedef struct strides {
  const tn__schedule *s;
  const tn__block *block;
  const tn__var *across, *along; /* last spatial axis and last reduce axis */
  int across_hits, along_only;
  bool strided; /* neighbouring results are a few elements apart, in windows shorter than a vector */
} strides;

/* Loads of up to so many elements apart are whole vectors and shuffles. */
#define MOST_APART 4
/* Vectors of results that are pairs, as of argreduce: their values and indices are kept in registers. */
#define MOST_OF_TUPLES 4
/* Tensors that a combiner makes at once. */
#define MOST_RESULTS 4
/* Terms of a window that are written out. */
#define MOST_TERMS 32
/* Terms in a row that are not worth a vector. */
#define SHORT_ROW 8

static void count_strides(const tn__expr *e, void *user) {
  strides *c = user;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int w = 0; w < c->block->write_count; w++)
    if (c->block->writes[w].buffer == e->value.buffer) return;
  const tn__expr *flat = tn__index(c->s->ir, 0);
  for (int d = 0; d < e->arg_count; d++)
    flat = tn__add(c->s->ir, tn__mul(c->s->ir, flat, e->value.buffer->shape[d]), e->args[d]);
  int64_t across = 0, along = 0, terms;
  if (c->across != NULL && tn__expr_uses_var(flat, c->across) && !tn__stride_in(c->s->ir, flat, c->across, &across))
    across = INT64_MAX;
  if (c->along != NULL && tn__expr_uses_var(flat, c->along) && !tn__stride_in(c->s->ir, flat, c->along, &along))
    along = INT64_MAX;
  bool strided = across > 1 && across <= MOST_APART && c->along != NULL && tn__as_int(c->along->extent, &terms) &&
                 terms < SHORT_ROW;
  c->strided = c->strided || strided;
  c->across_hits += across == 1 || strided;
  c->along_only += along == 1 && across != 0 && across != 1 && !strided; /* vectors across it would gather */
}

static void count_strides_in(const tn__expr *e, void *user) {
  strides *c = user;
  tn__te_visit(c->s->ir, e, count_strides, c);
}

/* Are neighbouring results contiguous in what is read, or nearly so, rather than successive terms? */
static strides strides_of(const tn__schedule *s, const tn__snode *block) {
  strides c = {.s = s, .block = &block->block};
  for (int i = 0; i < block->block.axis_count; i++) {
    const tn__block_axis *axis = &block->block.axes[i];
    if (tn__is_int_value(axis->var->extent, 1)) continue;
    if (axis->kind == TN__AXIS_SPATIAL) c.across = axis->var;
    if (axis->kind == TN__AXIS_REDUCE) c.along = axis->var;
  }
  tn__stmt_walk_exprs(block->block.body, count_strides_in, &c);
  return c;
}

static bool runs_across(const tn__schedule *s, const tn__snode *block) {
  strides c = strides_of(s, block);
  return c.across_hits > 0 && c.along_only == 0;
}

/* Does something besides the block read the tensor? */
static bool has_readers(const tn__schedule *s, const tn__snode *block, const tn__buffer *buffer) {
  tn__snodes readers = {0};
  tn__sched_readers(tn__sched_mutable(s), buffer, &readers);
  return readers.count > 1 || (readers.count == 1 && readers.data[0] != block);
}

/* The one map that reads the results, each element of one tensor where it is made; NULL when there is none. */
static const char *epilogue_of(const tn__schedule *s, const tn__snode *block) {
  tn__snodes readers = {0};
  const tn__snode *reader = NULL;
  const tn__buffer *buffer = NULL;
  for (int w = 0; w < block->block.write_count; w++) {
    tn__sched_readers(tn__sched_mutable(s), block->block.writes[w].buffer, &readers);
    for (int i = 0; i < readers.count; i++) {
      if (readers.data[i] == block) continue;
      if (reader != NULL || tn__sched_is_output(s, block->block.writes[w].buffer)) return NULL;
      reader = readers.data[i];
      buffer = block->block.writes[w].buffer;
    }
    readers.count = 0;
  }
  if (reader == NULL || reader->combiner != NULL) return NULL;
  int sources = 0;
  for (int r = 0; r < reader->block.read_count; r++) {
    const tn__region *region = &reader->block.reads[r];
    sources += !tn__sched_is_param(s, region->buffer);
    if (region->buffer != buffer) continue;
    if (reader->block.axis_count != buffer->rank) return NULL;
    for (int d = 0; d < buffer->rank; d++) {
      const tn__var *axis = reader->block.axes[d].var;
      if (axis->extent != buffer->shape[d]) return NULL; /* it repeats the sums along an axis of its own */
      if (region->min[d] != axis->self && !tn__is_int_value(buffer->shape[d], 1)) return NULL;
    }
  }
  return sources == 1 ? reader->name : NULL;
}

/* Each turn of `loop` reads another page: a few rows further down, while there is something else to do. */
static void prefetch_rows(tn__schedule *s, const char *name, const char *loop) {
  enum { ROWS_AHEAD = 4 };
  tn__snode *block = tn__sched_find(s, name, true), *at = tn__sched_find(s, loop, false);
  for (int r = 0; r < block->block.read_count; r++) {
    tn__sched_prefetch p = {.block = block, .buffer = block->block.reads[r].buffer, .distance = ROWS_AHEAD};
    if (tn__sched_is_param(s, p.buffer) && !tn__sched_writes(block, p.buffer) &&
        tn__sched_prefetch_start(s, at, &p, NULL, NULL))
      tn__prefetch(s, name, r, loop, ROWS_AHEAD);
  }
}

/* Bytes that a map takes in L2, and how often it may compute an element anew there instead of leaving all
 * of them to memory. */
#define MOST_NEAR (56 << 10)
#define MOST_ANEW 3

/* The outermost of `count` loops around the block whose iterations read little of what a map makes; -1: none does, or
 * most of it more often than memory costs. */
static int loop_for_map(tn__schedule *s, const tn__snode *block, const tn__region *region, tn__snode *const *path,
                        int depth, int count) {
  const tn__expr *min[TN__MAX_RANK], *size[TN__MAX_RANK];
  double turns = 1, all = (double)tn_dtype_size(region->buffer->dtype);
  int64_t extent;
  for (int d = 0; d < region->buffer->rank; d++) {
    if (!tn__as_int(region->buffer->shape[d], &extent)) return -1;
    all *= (double)extent;
  }
  for (int at = 0; at < count && tn__as_int(path[at]->var->extent, &extent); at++) {
    double bytes = (double)tn_dtype_size(region->buffer->dtype);
    turns *= (double)extent;
    tn__sched_hull(s, block, region, path + at + 1, depth - at - 1, min, size);
    for (int d = 0; d < region->buffer->rank; d++) {
      if (size[d] == NULL || !tn__as_int(size[d], &extent)) return -1;
      bytes *= (double)extent;
    }
    if (bytes > MOST_NEAR) continue;
    return bytes * turns <= MOST_ANEW * all ? at : -1;
  }
  return -1;
}

/* A map that stands by itself, and not behind what it reads, as a copy out of registers does. */
static bool is_lone_map(tn__schedule *s, tn__snode *block) {
  tn__snodes nest = {0};
  tn__sched_blocks(s, tn__sched_root_nest(s, block), &nest);
  return nest.count == 1 && block->combiner == NULL && block->block.body->kind == TN__STMT_STORE;
}

/* Computes maps that only this block reads, the padding of its windows say, a part at a time: in a loop around it, of
 * the `count` outermost ones. */
static void compute_maps_near(tn__schedule *s, const char *name, int count, const tn__schedule_options *options) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  int depth = tn__sched_path(s, s->root, block, path);
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    tn__snodes writers = {0}, readers = {0};
    tn__sched_writers(s, region->buffer, &writers);
    tn__sched_readers(s, region->buffer, &readers);
    if (writers.count != 1 || readers.count != 1 || !is_lone_map(s, writers.data[0]) ||
        tn__sched_is_output(s, region->buffer))
      continue;
    int at = loop_for_map(s, block, region, path, depth, count);
    if (at < 0) continue;
    const char *map = writers.data[0]->name;
    tn__compute_at(s, map, path[at]->name);
    tn__set_scope(s, map, 0, TN__SCOPE_STACK);
    tn__rule_vectorize_map(s, map, at + 1, options);
  }
}

/* Keeps results in registers until they are complete. Returns how many blocks write them where they go, by name. */
static int keep_results(tn__schedule *s, const char *name, const char *epilogue, const char **writers) {
  const tn__snode *block = tn__sched_find(s, name, true);
  int count = 0;
  if (epilogue != NULL) writers[count++] = epilogue;
  for (int w = 0; w < block->block.write_count; w++) {
    const tn__buffer *buffer = block->block.writes[w].buffer;
    if (!tn__sched_is_output(s, buffer) && (epilogue != NULL || !has_readers(s, block, buffer))) {
      tn__set_scope(s, name, w, TN__SCOPE_REGISTER);
      continue;
    }
    writers[count++] = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", name));
    tn__cache_write(s, name, w, TN__SCOPE_REGISTER);
  }
  return count;
}

/* True when the only map that reads the results has become part of the nest. */
static bool reduce_across(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t vectors,
                          bool prefetches) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS], *spatial[TN__MAX_LOOPS], *reduce[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), n = 0, spatial_count = 0, reduce_count = 0, at = 0;
  for (int i = 0; i < count; i++) {
    if (tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) {
      reduce[reduce_count++] = path[i]->name;
    } else {
      spatial[spatial_count++] = path[i]->name;
      at = i;
    }
  }
  if (spatial_count == 0) return false;
  const char *vector = spatial[spatial_count - 1], *epilogue = epilogue_of(s, block), *writers[MOST_RESULTS + 1];
  int64_t extent = tn__loop_extent(s, vector);
  int64_t lanes = options->vector_bytes / (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  /* A vector of elements that are apart is gathered where it has a mask. */
  while (lanes > 4 && extent % lanes != 0 && strides_of(s, block).strided) lanes /= 2;
  while (vectors > 1 && (extent < 0 || extent % (vectors * lanes) != 0)) vectors /= 2;
  if (block->block.write_count > 1 && vectors > MOST_OF_TUPLES) vectors = MOST_OF_TUPLES;
  if (lanes < 2) return false;
  int writer_count = keep_results(s, name, epilogue, writers);
  tn__split(s, vector, (const int64_t[]){0, vectors, lanes}, 3);
  tn__sched_path(s, s->root, block, path); /* other nests may have taken the names that the parts would have */
  for (int i = 0; i < spatial_count - 1; i++) order[n++] = spatial[i];
  const char *tile = order[n++] = path[at]->name;
  for (int i = 0; i < reduce_count; i++) order[n++] = reduce[i];
  order[n++] = path[at + 1]->name;
  order[n++] = path[at + 2]->name;
  tn__reorder(s, order, n);
  int64_t terms = 1;
  for (int i = reduce_count - 1; i >= 0; i--) {
    int64_t own = tn__loop_extent(s, reduce[i]);
    if (own < 0 || terms * own * vectors > MOST_TERMS) break;
    terms *= own;
    tn__unroll(s, reduce[i]);
  }
  tn__unroll(s, order[n - 2]);
  tn__vectorize(s, order[n - 1]);
  for (int i = 0; i < writer_count; i++) tn__reverse_compute_at(s, writers[i], tile);
  TN__INVARIANT(reduce_count > 0); /* the rule is for reductions over rows */
  tn__decompose_reduction(s, name, reduce[0]);
  if (prefetches) prefetch_rows(s, name, reduce[reduce_count - 1]);
  const char *outermost = order[0];
  int64_t tasks = tn__loop_extent(s, outermost);
  int fused = 0;
  for (int i = 1; i < spatial_count - 1 && tasks >= 0 && tasks < 4 * options->threads; i++) {
    tn__fuse(s, outermost, order[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, order[i]);
    tasks = tn__loop_extent(s, outermost);
    fused++;
  }
  compute_maps_near(s, name, spatial_count - 1 - fused, options);
  if (tn__rule_shares(s, options)) tn__parallel(s, outermost);
  return epilogue != NULL;
}

bool tn__rule_reduce_across(tn__schedule *s, const char *block, const tn__schedule_options *options, int64_t vectors) {
  return reduce_across(s, block, options, vectors, false);
}

/* Whole rows are added to a row of sums, which stays in L1, `rows` at a time: each row is read from its
 * start to its end. Returns false where that cannot be, with nothing done. */
static bool reduce_whole_rows(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t rows) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS], *vector = NULL, *reduce = NULL, *loops[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), n = 0, reductions = 0;
  for (int i = 0; i < count; i++) {
    bool reduces = tn__sched_drives(path[i], block, TN__AXIS_REDUCE);
    reductions += reduces;
    *(reduces ? &reduce : &vector) = path[i]->name;
  }
  if (reductions != 1 || vector == NULL || block->block.write_count != 1) return false;
  int64_t lanes = options->vector_bytes / (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype);
  int64_t extent = tn__loop_extent(s, vector), pieces = 1;
  bool parallel = tn__rule_shares(s, options);
  if (lanes < 2 || extent < 0 || extent % lanes != 0) return false;
  if (parallel && extent % (options->threads * lanes) == 0) pieces = options->threads;
  for (int i = 0; i < count; i++)
    if (path[i]->name != vector && path[i]->name != reduce) order[n++] = path[i]->name;
  tn__split(s, vector, (const int64_t[]){pieces, 0, lanes}, 3);
  tn__split(s, reduce, (const int64_t[]){0, rows}, 2);
  order[n++] = tn__arena_printf(s->arena, "%s.0", vector);
  const char *turns = order[n++] = tn__arena_printf(s->arena, "%s.0", reduce);
  order[n++] = tn__arena_printf(s->arena, "%s.1", vector);
  const char *together = order[n++] = tn__arena_printf(s->arena, "%s.1", reduce);
  const char *last = order[n++] = tn__arena_printf(s->arena, "%s.2", vector);
  tn__reorder(s, order, n);
  tn__decompose_reduction(s, name, turns);
  const char *init = tn__arena_printf(s->arena, "%s.init", name);
  int inits = tn__loops_of(s, init, loops, TN__MAX_LOOPS);
  tn__vectorize(s, loops[inits - 1]);
  tn__unroll(s, together);
  tn__vectorize(s, last);
  if (parallel) tn__parallel(s, order[0]);
  return true;
}

/* ---- along ------------------------------------------------------------------------------------------------------- */

/* The innermost loop of a block, or the one `out` around it. */
static const char *loop_from_last(const tn__schedule *s, const char *block, int out) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__loops_of(s, block, loops, TN__MAX_LOOPS);
  return count <= out ? NULL : loops[count - 1 - out];
}

static const char *last_loop(const tn__schedule *s, const char *block) { return loop_from_last(s, block, 0); }

/* Unrolls and vectorises the last loop of a block, whose extent is vectors * lanes. */
static void vectorize_lanes(tn__schedule *s, const char *block, int64_t vectors, int64_t lanes) {
  const char *loop = last_loop(s, block);
  if (vectors == 1) {
    tn__vectorize(s, loop);
    return;
  }
  tn__split(s, loop, (const int64_t[]){vectors, lanes}, 2);
  tn__unroll(s, tn__arena_printf(s->arena, "%s.0", loop));
  tn__vectorize(s, tn__arena_printf(s->arena, "%s.1", loop));
}

static void keep_on_stack(tn__schedule *s, const char *block) {
  int count = tn__sched_find(s, block, true)->block.write_count;
  for (int w = 0; w < count; w++) tn__set_scope(s, block, w, TN__SCOPE_STACK);
}

/* Turns lanes of `name` into vectors of partial results, a factor at a time. Returns the loop around a factor. */
static const char *factor(tn__schedule *s, const char *name, int64_t vectors, int64_t lanes) {
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__split(s, last_loop(s, name), (const int64_t[]){0, vectors * lanes}, 2);
  const char *around = loop_from_last(s, name, 1);
  tn__rfactor(s, last_loop(s, name));
  vectorize_lanes(s, partial, vectors, lanes);
  vectorize_lanes(s, tn__arena_printf(s->arena, "%s.init", partial), vectors, lanes);
  keep_on_stack(s, partial);
  return around;
}

void tn__rule_reduce_along(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t vectors) {
  tn__snode *block = tn__sched_find(s, name, true);
  const char *loop = last_loop(s, name);
  if (block->combiner == NULL || !block->combiner->reorderable || loop == NULL) return;
  if (!tn__sched_drives(tn__sched_find(s, loop, false), block, TN__AXIS_REDUCE)) return;
  int64_t widest = 1, extent = tn__loop_extent(s, loop);
  for (int w = 0; w < block->block.write_count; w++) {
    int64_t bytes = (int64_t)tn_dtype_size(block->block.writes[w].buffer->dtype);
    if (bytes > widest) widest = bytes;
  }
  int64_t lanes = options->vector_bytes / widest;
  while (extent >= 0 && lanes > 4 && lanes > extent) lanes /= 2;
  if (lanes < 4 || (extent >= 0 && extent < lanes)) return;
  while (vectors > 1 && (block->block.write_count != 1 || (extent >= 0 && extent < vectors * lanes))) vectors /= 2;
  factor(s, name, vectors, lanes);
  /* The vectors are added to one, its upper half to its lower one, and so on: all in registers. */
  if (vectors > 1) tn__unroll(s, factor(s, name, 1, lanes));
  for (int64_t half = lanes / 2; half > 1; half /= 2) tn__unroll(s, factor(s, name, 1, half));
  tn__unroll(s, last_loop(s, name));
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void schedule_scan(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  const char *loop = last_loop(s, stage->name);
  if (stage->scan_axis == stage->axes.count - 1 || loop == NULL || stage->axes.count < 2) return;
  int64_t extent = tn__loop_extent(s, loop);
  int64_t lanes = options->vector_bytes / (int64_t)tn_dtype_size(stage->tensors[0]->dtype);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  tn__split(s, loop, (const int64_t[]){0, lanes}, 2);
  tn__vectorize(s, tn__arena_printf(s->arena, "%s.1", loop));
}

static void parallel_outermost(tn__schedule *s, const char *name, const tn__schedule_options *options) {
  tn__snode *path[TN__MAX_LOOPS], *block = tn__sched_find(s, name, true);
  int count = tn__sched_path(s, s->root, block, path);
  if (count == 0 || !tn__rule_shares(s, options)) return;
  if (path[0]->kind != TN__LOOP_SERIAL || tn__is_int_value(path[0]->var->extent, 1)) return;
  if (tn__sched_drives(path[0], block, TN__AXIS_REDUCE) || tn__sched_drives(path[0], block, TN__AXIS_SCAN)) return;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, path[0], &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (tn__sched_drives(path[0], blocks.data[i], TN__AXIS_REDUCE)) return;
  tn__parallel(s, path[0]->name);
}

/* ---- parts of a reduction ---------------------------------------------------------------------------------------- */

/* Terms of a part at the least: some 10 microseconds. */
#define SHORTEST_PART 65536
#define FEW_ROWS 8

/* The axis of the reduction that is cut: the outermost long one. */
static int axis_to_cut(const tn__te_stage *stage) {
  int longest = 0;
  int64_t extent, most = 0;
  for (int a = 0; a < stage->reduce_axes.count; a++) {
    if (!tn__as_int(stage->reduce_axes.var[a]->extent, &extent)) return -1;
    if (extent >= 256) return a;
    if (extent > most) longest = a, most = extent;
  }
  return longest;
}

/* The longest reduction, when it is long enough to be cut; NULL otherwise. */
static const tn__te_stage *stage_to_cut(const tn__te *te) {
  const tn__te_stage *longest = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_REDUCE && stage->combiner->reorderable &&
        (longest == NULL || volume(&stage->axes, &stage->reduce_axes) > volume(&longest->axes, &longest->reduce_axes)))
      longest = stage;
  }
  if (longest == NULL || longest->reduce_axes.count == 0 || axis_to_cut(longest) < 0) return NULL;
  return volume(&longest->axes, &longest->reduce_axes) >= 2 * SHORTEST_PART ? longest : NULL;
}

/* Cuts the reduction of `name` into parts with results of their own, which `name` adds up in a nest behind. Returns the
 * block that makes them. */
static const char *cut(tn__schedule *s, const char *name, int axis, int64_t parts) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS];
  int spatial = 0, count = tn__sched_path(s, s->root, block, path);
  while (spatial < count && !tn__sched_drives(path[spatial], block, TN__AXIS_REDUCE)) spatial++;
  const char *loop = path[spatial + axis]->name;
  int64_t extent = tn__loop_extent(s, loop);
  tn__split(s, loop, (const int64_t[]){0, (extent + parts - 1) / parts}, 2);
  const char *outer = order[0] = tn__arena_printf(s->arena, "%s.0", loop);
  for (int i = 0; i < spatial + axis; i++) order[i + 1] = path[i]->name;
  if (spatial + axis > 0) tn__reorder(s, order, spatial + axis + 1);
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__rfactor_at(s, outer, spatial > 0 ? path[spatial - 1]->name : outer);
  tn__compute_root(s, name);
  return partial;
}

/* Partial results of one part side by side. */
static void move_parts_outside(tn__schedule *s, const char *partial) {
  const tn__buffer *buffer = tn__sched_find(s, partial, true)->block.writes[0].buffer;
  tn__layout layout = {.rank = buffer->rank, .parts = {{buffer->rank - 1, 1, 0}}};
  for (int d = 1; d < buffer->rank; d++) layout.parts[d] = (tn__layout_part){d - 1, 1, 0};
  if (buffer->rank > 1) tn__transform_layout(s, buffer->name, &layout);
}

static void reduce_stage(tn__schedule *s, const char *name, const tn__schedule_options *options,
                         const int64_t *values) {
  if (runs_across(s, tn__sched_find(s, name, true))) {
    if (values[WHOLE] == 0 || !reduce_whole_rows(s, name, options, values[WHOLE]))
      reduce_across(s, name, options, values[VECTORS], values[PREFETCH] != 0);
  } else {
    tn__rule_reduce_along(s, name, options, values[VECTORS]);
    parallel_outermost(s, name, options);
  }
}

/* Parts of a reduction, which threads share, and what adds them up. */
static void reduce_parts(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options,
                         const int64_t *values) {
  bool across = runs_across(s, tn__sched_find(s, stage->name, true));
  const char *partial = cut(s, stage->name, axis_to_cut(stage), values[PARTS]);
  if (stage->tensor_count == 1) move_parts_outside(s, partial);
  if (across)
    reduce_across(s, partial, options, values[VECTORS], values[PREFETCH] != 0);
  else
    tn__rule_reduce_along(s, partial, options, values[VECTORS]);
  tn__snode *block = tn__sched_find(s, partial, true);
  if (!across || tn__sched_root_nest(s, block)->kind == TN__LOOP_SERIAL) parallel_outermost(s, partial, options);
  tn__schedule_options alone = *options;
  alone.threads = 1;
  if (across) reduce_across(s, stage->name, &alone, 1, false);
}

static bool matches_anything(const tn__te *te) { return true; }

static void apply_stages(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const tn__schedule_options *options = &k->options;
  const tn__te_stage *cut_stage = stage_to_cut(s->te);
  dissolve_maps(s);
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    tn__snode *block = tn__sched_find(s, stage->name, true);
    if (block == NULL || stage->kind == TN__TE_EXTERN) continue; /* dissolved, or not ours */
    if (stage->kind == TN__TE_SCAN) {
      schedule_scan(s, stage, options);
    } else if (stage->kind == TN__TE_COMPUTE) {
      if (block->parent == s->root || block->exact) {
        tn__snode *path[TN__MAX_LOOPS];
        tn__snodes inside = {0};
        if (tn__sched_path(s, s->root, block, path) == 0) continue;
        tn__sched_blocks(s, path[0], &inside);
        if (inside.count == 1) tn__rule_nest(s, stage->name, options);
      }
    } else if (values[PARTS] > 1 && stage == cut_stage) {
      reduce_parts(s, stage, options, values);
    } else {
      reduce_stage(s, stage->name, options, values);
    }
  }
}

static void open_stages(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t prefetch[] = {0, 1}, whole[] = {0, 8};
  open_reduction(k, scratch);
  tn__sketch_open(k, "prefetch", prefetch, 2);
  tn__sketch_open(k, "whole rows", whole, 2);
  static const int64_t parts[] = {1, 4, 16, 64};
  int choices = stage_to_cut(k->te) != NULL ? 4 : 1;
  tn__decision *d = &k->decisions[tn__sketch_open(k, "parts", parts, choices)];
  d->orders = d->shares = true;
}

/* What parts cost, and what they bring: each has as many pieces for threads as there were before. */
static bool parts_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const tn__te_stage *stage = stage_to_cut(k->te);
  int64_t parts = v[PARTS], extent;
  if (stage == NULL) return true;
  double results = volume(&stage->axes, NULL), terms = volume(&stage->reduce_axes, NULL);
  int64_t pieces = tn__plain_pieces(k, v[VECTORS]);
  if (parts > 1 && (results * terms < (double)(parts * SHORTEST_PART) ||
                    !tn__as_int(stage->reduce_axes.var[axis_to_cut(stage)]->extent, &extent) || extent < 2 * parts))
    return false;
  if (parts > 1) f->extra_cycles += (double)parts * results * 4 + 200;
  if (f->chunks > 1 && pieces * parts < f->chunks) f->chunks = pieces * parts;
  return true;
}

static const tn__nest *stage_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const tn__nest *nest = tn__plain_features(k, k->options.vector_bytes, v[VECTORS], 1, f);
  if (nest == NULL || !parts_features(k, v, f) || (v[PARTS] > 1 && v[WHOLE] > 0)) return NULL;
  return tn__plain_pages(k, v[VECTORS], v[PREFETCH] != 0, v[WHOLE], f) ? nest : NULL;
}

const tn__rule tn__rule_stages = {"stages", matches_anything, open_stages, stage_features, apply_stages};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The number of leading axes that all reductions keep: the axes of the rows. */
static int row_axes(const tn__te *te) {
  int rows = -1;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_REDUCE) continue;
    int own = stage->axes.count;
    while (own > 0 && tn__is_int_value(stage->axes.var[own - 1]->extent, 1)) own--;
    if (rows < 0 || own < rows) rows = own;
  }
  return rows;
}

static bool matches_rows(const tn__te *te) {
  int reductions = 0, count = tn__te_stage_count(te), rows = row_axes(te);
  if (tn__te_output_count(te) != 1 || rows < 1) return false;
  const tn__te_stage *last = tn__te_stage_of(te, tn__te_output_at(te, 0));
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) return false;
    if (stage->kind != TN__TE_REDUCE) continue;
    reductions++;
    if (stage->axes.count < rows || last->axes.count < rows) return false;
    for (int a = 0; a < rows; a++)
      if (stage->axes.var[a]->extent != last->axes.var[a]->extent) return false;
  }
  return reductions > 0;
}

/* Private to the rows at hand when it is small there. */
#define MOST_PRIVATE 16384

/* Bytes of a tensor of the stage in `count` rows; more than MOST_PRIVATE when that is not known or much more. */
static int64_t row_bytes(const tn__te_stage *stage, int tensor, int rows, int64_t count) {
  int64_t bytes = (int64_t)tn_dtype_size(stage->tensors[tensor]->dtype) * count, extent;
  for (int d = rows; d < stage->axes.count; d++) {
    if (!tn__as_int(stage->axes.var[d]->extent, &extent) || extent > MOST_PRIVATE || bytes > MOST_PRIVATE)
      return MOST_PRIVATE + 1;
    bytes *= extent;
  }
  return bytes;
}

static void place_row_tensor(tn__schedule *s, const tn__te_stage *stage, int rows, int64_t count) {
  for (int t = 0; t < stage->tensor_count; t++)
    if (row_bytes(stage, t, rows, count) <= MOST_PRIVATE) tn__set_scope(s, stage->name, t, TN__SCOPE_STACK);
}

void tn__rule_vectorize_map(tn__schedule *s, const char *name, int rows, const tn__schedule_options *options) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__loops_of(s, name, loops, TN__MAX_LOOPS);
  if (count <= rows) return;
  const char *loop = loops[count - 1];
  int64_t extent = tn__loop_extent(s, loop);
  int64_t bytes = (int64_t)tn_dtype_size(tn__sched_find(s, name, true)->block.writes[0].buffer->dtype);
  int64_t lanes = options->vector_bytes / (bytes < 4 ? 4 : bytes);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  /* Short work is done for two vectors in one turn of the loop. */
  int64_t vectors = tn__rule_cost(s->ir, tn__sched_find(s, name, true)->block.body->as.store.value) <= 16 ? 2 : 1;
  if (extent < 0 || extent % (vectors * lanes) != 0) vectors = 1;
  tn__split(s, loop, (const int64_t[]){0, vectors * lanes}, 2);
  vectorize_lanes(s, name, vectors, lanes);
}

static void refuse_across(const tn__schedule *s) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__snode *block = tn__sched_find(s, tn__te_stage_at(s->te, i)->name, true);
    if (block != NULL && block->combiner != NULL && runs_across(s, block))
      tn__sched_refuse(s, "rows: \"%s\" does not reduce along what is contiguous", block->name);
  }
}

/* A row needs nothing but the same row of what other stages make: anything else would be computed again for each row,
 * as all of a vector for each row of a matrix that it is multiplied with. */
static void refuse_repeated(tn__schedule *s, int rows) {
  for (int i = 0; i < s->buffers.count; i++) {
    const tn__buffer *buffer = s->buffers.data[i];
    tn__snodes readers = {0};
    tn__sched_readers(s, buffer, &readers);
    for (int r = 0; r < readers.count; r++) {
      const tn__block *block = &readers.data[r]->block;
      if (tn__sched_writes(readers.data[r], buffer)) continue; /* its own sums so far */
      bool same = buffer->rank >= rows && block->axis_count >= rows;
      for (int k = 0; k < block->read_count && same; k++)
        for (int d = 0; d < rows && block->reads[k].buffer == buffer && same; d++)
          same = tn__is_int_value(buffer->shape[d], 1) ||
                 (block->reads[k].min[d] == block->axes[d].var->self && tn__is_int_value(block->reads[k].extent[d], 1));
      if (!same) tn__sched_refuse(s, "rows: \"%s\" reads other rows of %s than its own", block->name, buffer->name);
    }
  }
}

/* A handful of rows would leave threads without work, and what reduces them to a number each may be cut into parts. */
static void refuse_few(const tn__schedule *s) {
  const tn__te_stage *stage = stage_to_cut(s->te);
  const tn__te_stage *last = tn__te_stage_of(s->te, tn__te_output_at(s->te, 0));
  if (stage != NULL && volume(&last->axes, NULL) < FEW_ROWS)
    tn__sched_refuse(s, "rows: there are few of \"%s\", and each is long", stage->name);
}

/* Which of the tensors that a block reads under `loop` comes row by row, so that the next iteration of `outer` can be
 * fetched; -1: none. */
static int read_by_rows(tn__schedule *s, const tn__snode *block, const tn__snode *loop, const tn__snode *outer) {
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__expr *first[TN__MAX_RANK], *extent[TN__MAX_RANK];
    tn__sched_prefetch p = {.block = block, .buffer = block->block.reads[r].buffer, .ahead = outer, .distance = 1};
    if (!tn__sched_is_param(s, p.buffer) || !tn__sched_prefetch_start(s, loop, &p, first, extent)) continue;
    for (int d = 0; d < p.buffer->rank; d++)
      if (tn__expr_uses_var(first[d], outer->var)) return r;
  }
  return -1;
}

/* The innermost loop around a block, below `outer`, that is no vector and not unrolled. */
static const tn__snode *turns_of(const tn__snode *block, const tn__snode *outer) {
  for (const tn__snode *loop = block->parent; loop != outer; loop = loop->parent)
    if (loop->kind == TN__LOOP_SERIAL) return loop;
  return NULL;
}

/* Fetches the next row while this one is computed: where most is to be done, and not where results are stored. */
static void fetch_next_row(tn__schedule *s, const char *row, const char *anchor) {
  tn__snode *outer = tn__sched_find(s, row, false);
  const tn__snode *heaviest = NULL;
  int64_t most = 0;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, outer, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *block = blocks.data[i], *loop = turns_of(block, outer);
    if (strcmp(block->name, anchor) == 0 || block->block.body->kind != TN__STMT_STORE || loop == NULL) continue;
    int64_t cost = tn__rule_cost(s->ir, block->block.body->as.store.value);
    if (cost > most && read_by_rows(s, block, loop, outer) >= 0) heaviest = block, most = cost;
  }
  if (heaviest == NULL) return;
  const tn__snode *loop = turns_of(heaviest, outer);
  tn__prefetch_ahead(s, heaviest->name, read_by_rows(s, heaviest, loop, outer), loop->name, row, 1);
}

static void apply_rows(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const tn__schedule_options *options = &k->options;
  const tn__te *te = s->te;
  const char *anchor = tn__te_stage_of(te, tn__te_output_at(te, 0))->name, *loops[TN__MAX_LOOPS];
  dissolve_maps(s);
  int rows = row_axes(te), count = tn__te_stage_count(te);
  refuse_across(s);
  tn__loops_of(s, anchor, loops, TN__MAX_LOOPS);
  const char *row = loops[rows - 1];
  if (values[TOGETHER] > 1) {
    tn__split(s, row, (const int64_t[]){0, values[TOGETHER]}, 2);
    loops[rows - 1] = row = tn__arena_printf(s->arena, "%s.0", row);
  }
  const char *outermost = loops[0];
  for (int i = count - 1; i >= 0; i--) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (strcmp(stage->name, anchor) == 0 || tn__sched_find(s, stage->name, true) == NULL) continue;
    tn__compute_at(s, stage->name, row);
    place_row_tensor(s, stage, rows, values[TOGETHER]);
  }
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (tn__sched_find(s, stage->name, true) == NULL) continue;
    if (stage->kind == TN__TE_REDUCE)
      tn__rule_reduce_along(s, stage->name, options, values[VECTORS]);
    else
      tn__rule_vectorize_map(s, stage->name, rows, options);
  }
  if (values[STREAM]) tn__rule_stream(s, anchor);
  for (int i = 1; i < rows; i++) {
    if (tn__sched_find(s, outermost, false)->children.count != 1) break;
    tn__fuse(s, outermost, loops[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, loops[i]);
    if (i == rows - 1) row = outermost;
  }
  if (values[AHEAD]) fetch_next_row(s, row, anchor);
  if (tn__rule_shares(s, options)) tn__parallel(s, outermost);
}

/* Do `count` rows divide all of them, is there anything else to do than one reduction, and does what is private to them
 * fit its place still? */
static bool fits_together(const tn__te *te, int64_t count) {
  int rows = row_axes(te);
  int64_t extent;
  const tn__te_stage *last = tn__te_stage_of(te, tn__te_output_at(te, 0));
  if (count == 1) return true;
  if (last->kind == TN__TE_REDUCE) return false;
  if (!tn__as_int(last->axes.var[rows - 1]->extent, &extent) || extent % count != 0) return false;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    for (int t = 0; t < stage->tensor_count && stage != last; t++)
      if (row_bytes(stage, t, rows, 1) <= MOST_PRIVATE && row_bytes(stage, t, rows, count) > MOST_PRIVATE) return false;
  }
  return true;
}

static const tn__nest *row_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  f->streams = v[STREAM] != 0;
  bool alone = tn__te_stage_of(k->te, tn__te_output_at(k->te, 0))->kind == TN__TE_REDUCE; /* the hardware follows it */
  if (!fits_together(k->te, v[TOGETHER]) || (v[AHEAD] != 0 && (alone || v[TOGETHER] > 1))) return NULL;
  const tn__nest *nest = tn__plain_features(k, k->options.vector_bytes, v[VECTORS], v[TOGETHER], f);
  return nest != NULL && tn__plain_next_row(k, v[AHEAD] != 0, f) ? nest : NULL;
}

static void open_rows(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t rows[] = {1, 2}, ahead[] = {0, 1};
  open_reduction(k, scratch);
  tn__open_stream(k);
  tn__sketch_open(k, "rows", rows, 2);
  tn__sketch_open(k, "ahead", ahead, 2);
  dissolve_maps(scratch);
  refuse_across(scratch);
  refuse_repeated(scratch, row_axes(k->te));
  refuse_few(scratch);
}

const tn__rule tn__rule_rows = {"simple reduction", matches_rows, open_rows, row_features, apply_rows};
