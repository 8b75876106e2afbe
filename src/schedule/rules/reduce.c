/* Reductions and what stands around them. Two shapes of one reduction:
 *  - along: the reduction runs over what is contiguous (softmax, layer normalisation, means). Vectors of partial
 * results run along it (rfactor), and are combined at the end of the row, always in the same order.
 *  - across: neighbouring results are contiguous (pooling over channels-last images, sums over outer axes, depthwise
 * convolution). Vectors run across the results, with accumulators in registers. */
#include "schedule/rules/reduce.h"
#include "ir/linear.h"

#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "base/numbers.h"

void tn__reduce_open(tn__sketch *k, tn__schedule *scratch) {
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

double tn__reduce_volume(const tn__te_axes *a, const tn__te_axes *b) {
  double points = 1;
  int64_t extent;
  for (int i = 0; i < a->count; i++) points *= tn__ir_as_int(a->var[i]->extent, &extent) ? (double)extent : 1000;
  for (int i = 0; b != NULL && i < b->count; i++)
    points *= tn__ir_as_int(b->var[i]->extent, &extent) ? (double)extent : 1000;
  return points;
}

/* Elements of all that a stage reads, be it through maps. */
typedef struct elements_read {
  const tn__te *te;
  TN__VEC(const tn__buffer *) seen;
  double elements;
} elements_read;

static void see_source(const tn__buffer *tensor, void *user) {
  elements_read *from = user;
  for (int i = 0; i < from->seen.count; i++)
    if (from->seen.data[i] == tensor) return;
  tn__vec_push(tn__ir_arena(tn__te_ir(from->te)), &from->seen, tensor);
  const tn__te_stage *stage = tn__te_stage_of(from->te, tensor);
  if (stage != NULL && stage->kind == TN__TE_COMPUTE)
    tn__te_reads(from->te, stage, see_source, from);
  else
    from->elements += tn__ir_elements_estimate(tensor);
}

bool tn__reduce_meets_pairs(const tn__te *te, const tn__te_stage *stage) {
  enum { OFTEN = 8 };
  elements_read from = {.te = te};
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count < 2 || stage->step_of != NULL) return false;
  if (!stage->combiner->reorderable || stage->axes.count == 0) return false;
  tn__te_reads(te, stage, see_source, &from);
  double pairs = 1;
  for (int a = 0; a < stage->axes.count; a++) pairs *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  for (int r = 0; r < stage->reduce_axes.count; r++) pairs *= tn__ir_extent_estimate(stage->reduce_axes.var[r]->extent);
  return pairs >= OFTEN * from.elements;
}

bool tn__reduce_scatters(const tn__te_stage *stage) { return tn__te_row_of_place(stage) <= TN__TE_SHORT_ROW; }

/* Costs grow as maps are inlined into each other, so they are taken from the blocks. */
void tn__reduce_dissolve_maps(tn__schedule *s) {
  const tn__te *te = s->te;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE || stage->step_of != NULL || is_output(s, stage->name)) continue;
    if (tn__sched_is_bounding(s, stage->tensors[0])) continue;
    const tn__snode *block = tn__sched_find(s, stage->name, true);
    double cost = (double)tn__rule_cost(s->ir, block->block.body->as.store.value),
           own = tn__reduce_volume(&stage->axes, NULL), reads = 0;
    tn__snodes readers = {0};
    bool imperative = false, scalar = false;
    tn__sched_readers(s, stage->tensors[0], &readers);
    for (int r = 0; r < readers.count; r++) {
      const tn__te_stage *reader = stage_named(te, readers.data[r]->name);
      imperative |= reader == NULL || reader->kind == TN__TE_EXTERN;
      if (reader != NULL) reads += tn__reduce_volume(&reader->axes, &reader->reduce_axes);
      scalar |= reader != NULL && tn__reduce_scatters(reader);
    }
    /* Each read would cost `cost`; a tensor of its own costs about two for each element and one for each read. */
    if (imperative || (scalar && cost >= TN__RULE_SCATTERED_COST)) continue;
    if (reads * cost <= own * (cost + 2) + reads) tn__sched_inline_if_small(s, stage->name);
  }
}

/* A row needs nothing but the same row of what other stages make: anything else would be computed again for each row,
 * as all of a vector for each row of a matrix that it is multiplied with. */
void tn__reduce_refuse_repeated(tn__schedule *s, int rows, const char *rule) {
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
          same = tn__ir_is_int_value(buffer->shape[d], 1) || (block->reads[k].min[d] == block->axes[d].var->self &&
                                                              tn__ir_is_int_value(block->reads[k].extent[d], 1));
      if (!same) tn__sched_refuse(s, "%s: \"%s\" reads other rows of %s than its own", rule, block->name, buffer->name);
    }
  }
}

/* The innermost loop of a block, or the one `out` around it. */
static const char *loop_from_last(const tn__schedule *s, const char *block, int out) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS);
  return count <= out ? NULL : loops[count - 1 - out];
}

const char *tn__reduce_last_loop(const tn__schedule *s, const char *block) { return loop_from_last(s, block, 0); }

/* ---- across ------------------------------------------------------------------------------------------------------ */

typedef struct strides {
  const tn__schedule *s;
  const tn__block *block;
  const tn__var *across, *along; /* last spatial axis and last reduce axis */
  int across_hits, along_only;
  bool strided; /* neighbouring results are a few elements apart, in windows shorter than a vector or far ones */
} strides;

/* Loads of up to so many elements apart are whole vectors and shuffles. */
#define MOST_APART 4
/* Vectors of results that are pairs, as of argreduce: their values and indices are kept in registers. */
#define MOST_OF_TUPLES 4
/* Tensors that a combiner makes at once. */
#define MOST_RESULTS 4
/* Terms that data choose, from which on a vector of positions is worth its while. */
#define FEWEST_CHOSEN 4
/* Bytes of all such terms of one result, up to which they are written out as a few vectors and single terms. More of
 * them are a loop. */
#define MOST_CHOSEN_BYTES 128

/* Elements between neighbours along the variable, away from where clamps hold an index; INT64_MAX: no number. */
static int64_t stride_along(const strides *c, const tn__expr *e, const tn__var *var) {
  const tn__expr *indices[TN__MAX_RANK];
  for (int d = 0; d < e->arg_count; d++) indices[d] = tn__ir_interior(c->s->ir, e->args[d]);
  const tn__expr *flat = tn__buffer_flatten(c->s->ir, e->value.buffer, indices);
  int64_t stride, size, row = 1;
  double all = 0;
  if (var == NULL || !tn__expr_uses_var(flat, var)) return 0;
  if (tn__ir_stride_in(c->s->ir, flat, var, &stride)) return stride;
  for (int d = e->arg_count - 1; d >= 0; d--) {
    all += (double)row * tn__rule_slope(indices[d], var);
    if (!tn__ir_as_int(e->value.buffer->shape[d], &size)) size = TN__OPEN_EXTENT;
    row = tn__ir_bound_mul(row, size);
  }
  return isnan(all) || all != floor(all) ? INT64_MAX : (int64_t)all;
}

static void count_strides(const tn__expr *e, void *user) {
  strides *c = user;
  /* A term made of its result's position is another one for each of the neighbours, whatever it reads. */
  bool of_position = e->kind == TN__EXPR_CAST && e->dtype != TN_I64 && e->args[0]->dtype == TN_I64;
  if (of_position && c->across != NULL && tn__expr_uses_var(e->args[0], c->across)) c->across_hits++;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int w = 0; w < c->block->write_count; w++)
    if (c->block->writes[w].buffer == e->value.buffer) return;
  int64_t across = stride_along(c, e, c->across), along = stride_along(c, e, c->along), terms;
  bool is_short = c->along != NULL && tn__ir_as_int(c->along->extent, &terms) && terms < TN__RULE_SHORT_ROW;
  bool far_along = along > MOST_APART || along < 0; /* vectors of terms would gather */
  bool strided = across > 1 && across <= MOST_APART && (is_short || far_along);
  bool scattered = across == INT64_MAX && is_short; /* gathers, where a row of terms would not fill a vector */
  c->strided = c->strided || strided;
  c->across_hits += across == 1 || strided;
  c->along_only +=
      along == 1 && across != 0 && across != 1 && !strided && !scattered; /* vectors across it would gather */
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
    if (tn__ir_is_int_value(axis->var->extent, 1)) continue;
    if (axis->kind == TN__AXIS_SPATIAL) c.across = axis->var;
    if (axis->kind == TN__AXIS_REDUCE) c.along = axis->var;
  }
  tn__stmt_walk_exprs(block->block.body, count_strides_in, &c);
  return c;
}

bool tn__reduce_runs_across(const tn__schedule *s, const tn__snode *block) {
  const tn__te_stage *stage = stage_named(s->te, block->name);
  strides c = strides_of(s, block);
  if (stage != NULL && c.across != NULL && tn__reduce_meets_pairs(s->te, stage)) return true;
  return c.across_hits > 0 && c.along_only == 0;
}

/* Does something besides the block read the tensor? */
static bool has_readers(const tn__schedule *s, const tn__snode *block, const tn__buffer *buffer) {
  tn__snodes readers = {0};
  tn__sched_readers(tn__sched_mutable(s), buffer, &readers);
  return readers.count > 1 || (readers.count == 1 && readers.data[0] != block);
}

const char *tn__reduce_epilogue_of(const tn__schedule *s, const tn__snode *block) {
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
      if (region->min[d] != axis->self && !tn__ir_is_int_value(buffer->shape[d], 1)) return NULL;
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
      tn__sched_prefetch_block(s, name, r, loop, ROWS_AHEAD);
  }
}

/* How often a map in L2 may compute an element anew instead of leaving all of them to memory. */
#define MOST_ANEW 3

/* The outermost of `count` loops around the block whose iterations read little of what a map makes; -1: none does, or
 * most of it more often than memory costs. */
static int loop_for_map(tn__schedule *s, const tn__snode *block, const tn__region *region, tn__snode *const *path,
                        int depth, int count) {
  const tn__expr *min[TN__MAX_RANK], *size[TN__MAX_RANK];
  double turns = 1, all = (double)tn_dtype_size(region->buffer->dtype);
  int64_t extent;
  for (int d = 0; d < region->buffer->rank; d++) {
    if (!tn__ir_as_int(region->buffer->shape[d], &extent)) return -1;
    all *= (double)extent;
  }
  for (int at = 0; at < count && tn__ir_as_int(path[at]->var->extent, &extent); at++) {
    double bytes = (double)tn_dtype_size(region->buffer->dtype);
    turns *= (double)extent;
    tn__sched_hull(s, block, region, path + at + 1, depth - at - 1, min, size);
    for (int d = 0; d < region->buffer->rank; d++) {
      if (size[d] == NULL || !tn__ir_as_int(size[d], &extent)) return -1;
      bytes *= (double)extent;
    }
    if (bytes > TN__RULE_NEAR_BYTES) continue;
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

int tn__reduce_own_maps(tn__schedule *s, const tn__snode *block, const char **names, int capacity) {
  int count = 0;
  for (int r = 0; r < block->block.read_count && count < capacity; r++) {
    const tn__region *region = &block->block.reads[r];
    tn__snodes writers = {0}, readers = {0};
    tn__sched_writers(s, region->buffer, &writers);
    tn__sched_readers(s, region->buffer, &readers);
    bool own = writers.count == 1 && readers.count == 1 && is_lone_map(s, writers.data[0]) &&
               !tn__sched_is_output(s, region->buffer);
    for (int d = 0; d < region->buffer->rank && own; d++)
      own = region->min[d]->kind == TN__EXPR_VAR && tn__ir_is_int_value(region->extent[d], 1);
    if (own) names[count++] = writers.data[0]->name;
  }
  return count;
}

void tn__rule_vectorize_map(tn__schedule *s, const char *name, int rows, const tn__schedule_options *options) {
  int64_t bytes = (int64_t)tn_dtype_size(tn__sched_find(s, name, true)->block.writes[0].buffer->dtype);
  tn__reduce_vectorize_last(s, name, rows, options->vector_bytes / (bytes < 4 ? 4 : bytes));
}

void tn__reduce_vectorize_last(tn__schedule *s, const char *name, int rows, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, name, loops, TN__MAX_LOOPS);
  if (count <= rows || tn__rule_vectorize_phases(s, name, lanes)) return;
  if (count > rows + 1 && tn__rule_vectorize_groups(s, name, lanes)) return;
  const char *loop = loops[count - 1];
  int64_t extent = tn__rule_loop_extent(s, loop);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  /* Short work is done for two vectors in one turn of the loop. */
  const tn__stmt *body = tn__sched_find(s, name, true)->block.body;
  bool is_short = body->kind == TN__STMT_STORE && tn__rule_cost(s->ir, body->as.store.value) <= TN__RULE_UNROLL_TWO;
  int64_t vectors = is_short ? 2 : 1;
  if (extent < 0 || extent % (vectors * lanes) != 0) vectors = 1;
  tn__sched_split(s, loop, (const int64_t[]){0, vectors * lanes}, 2);
  tn__reduce_vectorize_lanes(s, name, vectors, lanes);
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
    tn__sched_compute_at(s, map, path[at]->name);
    tn__sched_set_scope(s, map, 0, TN__SCOPE_STACK);
    tn__rule_vectorize_map(s, map, at + 1, options);
  }
}

/* Keeps results in registers until they are complete. Returns how many blocks write them where they go, by name. */
TN_MUST_USE static int keep_results(tn__schedule *s, const char *name, const char *epilogue, const char **writers) {
  const tn__snode *block = tn__sched_find(s, name, true);
  int count = 0;
  if (epilogue != NULL) writers[count++] = epilogue;
  for (int w = 0; w < block->block.write_count; w++) {
    const tn__buffer *buffer = block->block.writes[w].buffer;
    if (!tn__sched_is_output(s, buffer) && (epilogue != NULL || !has_readers(s, block, buffer))) {
      tn__sched_set_scope(s, name, w, TN__SCOPE_REGISTER);
      continue;
    }
    writers[count++] = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", name));
    tn__sched_cache_write(s, name, w, TN__SCOPE_REGISTER);
  }
  return count;
}

typedef struct step_cost {
  tn__ir *ir;
  int64_t cost;
} step_cost;

static void add_term(const tn__expr *value, void *user) {
  step_cost *step = user;
  step->cost += tn__rule_cost(step->ir, value);
}

/* Operations of all that a step of the block computes. */
static int64_t cost_of_step(const tn__schedule *s, const tn__snode *block) {
  step_cost step = {.ir = s->ir};
  tn__stmt_walk_exprs(block->block.body, add_term, &step);
  return step.cost;
}

int64_t tn__reduce_most_written(const tn__schedule *s, const char *name, int64_t vectors) {
  int64_t turn = vectors * (cost_of_step(s, tn__sched_find(s, name, true)) + 1), most = TN__RULE_WINDOW_WORK / turn;
  if (turn >= TN__RULE_WINDOW_TURN) return 1;
  return most < TN__RULE_WINDOW_TERMS ? most : TN__RULE_WINDOW_TERMS;
}

/* In how many vectors a row of results is one tile, the last vector being partial: rows are read from their start to
 * their end then. 0 where these are too many, or too few rows for that to matter. */
static int64_t whole_row(tn__schedule *s, const tn__snode *block, int64_t extent, int64_t lanes,
                         const tn__schedule_options *options) {
  int64_t vectors = (extent + lanes - 1) / lanes, rows = 1, terms;
  if (extent < 0 || block->block.write_count > 1 || vectors > options->registers / 2 || tn__rule_shares(s, options))
    return 0;
  for (int i = 0; i < block->block.axis_count; i++) {
    const tn__block_axis *axis = &block->block.axes[i];
    if (axis->kind == TN__AXIS_REDUCE)
      rows = tn__ir_as_int(axis->var->extent, &terms) ? tn__ir_bound_mul(rows, terms) : 2 * TN__RULE_WINDOW_TERMS;
  }
  return rows > TN__RULE_WINDOW_TERMS ? vectors : 0;
}

/* Under `outer` loops that stay as they are: no other thread, and no other map, has a part in it then. */
static bool reduce_across(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t vectors,
                          bool prefetches, int outer) {
  tn__snode *block = tn__sched_find(s, name, true), *all[TN__MAX_LOOPS], **path = all + outer;
  const char *order[TN__MAX_LOOPS], *spatial[TN__MAX_LOOPS], *reduce[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, all) - outer, n = 0, spatial_count = 0, reduce_count = 0, at = 0;
  for (int i = 0; i < count; i++) {
    if (tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) {
      reduce[reduce_count++] = path[i]->name;
    } else {
      spatial[spatial_count++] = path[i]->name;
      at = i;
    }
  }
  if (spatial_count == 0) return false;
  const char *vector = spatial[spatial_count - 1], *epilogue = outer > 0 ? NULL : tn__reduce_epilogue_of(s, block);
  const char *writers[MOST_RESULTS + 1];
  int64_t extent = tn__rule_loop_extent(s, vector);
  int64_t lanes = options->vector_bytes / (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return false; /* one row of results, or none */
  /* A vector of elements that are apart is gathered where it has a mask. */
  while (lanes > 4 && extent % lanes != 0 && strides_of(s, block).strided) lanes /= 2;
  const int64_t whole = whole_row(s, block, extent, lanes, options);
  while (vectors > 1 && whole == 0 && !tn__rule_fills(extent, vectors * lanes)) vectors /= 2;
  if (whole > 0) vectors = whole;
  if (block->block.write_count > 1 && vectors > MOST_OF_TUPLES) vectors = MOST_OF_TUPLES;
  int writer_count = keep_results(s, name, epilogue, writers);
  tn__sched_split(s, vector, (const int64_t[]){0, vectors, lanes}, 3);
  int loops = tn__sched_path(s, s->root, block, all); /* by position: names can repeat in other nests */
  TN__INVARIANT(loops > outer + at + 2);              /* one of them was split into three */
  for (int i = 0; i < spatial_count - 1; i++) order[n++] = spatial[i];
  const char *tile = order[n++] = path[at]->name;
  for (int i = 0; i < reduce_count; i++) order[n++] = reduce[i];
  order[n++] = path[at + 1]->name;
  order[n++] = path[at + 2]->name;
  tn__sched_reorder(s, order, n);
  int64_t terms = 1;
  for (int i = reduce_count - 1; i >= 0; i--) {
    int64_t own = tn__rule_loop_extent(s, reduce[i]);
    if (own < 0 || terms * own * vectors > TN__RULE_WINDOW_TERMS) break;
    terms *= own;
    tn__sched_unroll(s, reduce[i]);
  }
  tn__sched_unroll(s, order[n - 2]);
  tn__sched_vectorize(s, order[n - 1]);
  for (int i = 0; i < writer_count; i++) tn__sched_reverse_compute_at(s, writers[i], tile);
  TN__INVARIANT(reduce_count > 0); /* the rule is for reductions over rows */
  tn__sched_decompose_reduction(s, name, reduce[0]);
  if (outer > 0) return false;
  if (prefetches) prefetch_rows(s, name, reduce[reduce_count - 1]);
  const char *outermost = order[0];
  int64_t tasks = tn__rule_loop_extent(s, outermost);
  int fused = 0;
  for (int i = 1; i < spatial_count - 1 && tasks >= 0 && tasks < 4 * options->threads; i++) {
    tn__sched_fuse(s, outermost, order[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, order[i]);
    tasks = tn__rule_loop_extent(s, outermost);
    fused++;
  }
  compute_maps_near(s, name, spatial_count - 1 - fused, options);
  if (tn__rule_shares(s, options)) tn__sched_parallel(s, outermost);
  return epilogue != NULL;
}

bool tn__reduce_across(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t vectors,
                       bool prefetches) {
  return reduce_across(s, name, options, vectors, prefetches, 0);
}

bool tn__rule_reduce_across(tn__schedule *s, const char *block, const tn__schedule_options *options, int64_t vectors) {
  return tn__reduce_across(s, block, options, vectors, false);
}

bool tn__reduce_whole_rows(tn__schedule *s, const char *name, const tn__schedule_options *options, int64_t rows) {
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
  int64_t extent = tn__rule_loop_extent(s, vector), pieces = 1;
  bool parallel = tn__rule_shares(s, options);
  if (lanes < 2 || extent < 0 || extent % lanes != 0) return false;
  if (parallel && extent % (options->threads * lanes) == 0) pieces = options->threads;
  for (int i = 0; i < count; i++)
    if (path[i]->name != vector && path[i]->name != reduce) order[n++] = path[i]->name;
  tn__sched_split(s, vector, (const int64_t[]){pieces, 0, lanes}, 3);
  tn__sched_split(s, reduce, (const int64_t[]){0, rows}, 2);
  order[n++] = tn__arena_printf(s->arena, "%s.0", vector);
  const char *turns = order[n++] = tn__arena_printf(s->arena, "%s.0", reduce);
  order[n++] = tn__arena_printf(s->arena, "%s.1", vector);
  const char *together = order[n++] = tn__arena_printf(s->arena, "%s.1", reduce);
  const char *last = order[n++] = tn__arena_printf(s->arena, "%s.2", vector);
  tn__sched_reorder(s, order, n);
  tn__sched_decompose_reduction(s, name, turns);
  const char *init = tn__arena_printf(s->arena, "%s.init", name);
  int inits = tn__sched_loops_of(s, init, loops, TN__MAX_LOOPS);
  tn__sched_vectorize(s, loops[inits - 1]);
  tn__sched_unroll(s, together);
  tn__sched_vectorize(s, last);
  if (parallel) tn__sched_parallel(s, order[0]);
  return true;
}

/* ---- few columns ------------------------------------------------------------------------------------------------- */

/* Vectors of partial results that a few columns are added up in. */
enum { LEAST_FLAT = 4, MOST_FLAT = 16 };

typedef struct flat_walk {
  const tn__schedule *s;
  const tn__snode *block;
  const tn__var *row, *column;
  int64_t columns;
  bool walks, refused;
} flat_walk;

/* Is what the block reads a row after the other, without gaps? What belongs to a column or to a row stays close. */
static void see_walk(const tn__expr *e, void *user) {
  flat_walk *w = user;
  if (e->kind != TN__EXPR_LOAD || tn__sched_writes(w->block, e->value.buffer)) return;
  int64_t along_row, along_column;
  const tn__expr *flat = tn__buffer_flatten(w->s->ir, e->value.buffer, e->args);
  flat = tn__sched_substitute_axes(w->s->ir, &w->block->block, flat);
  if (!tn__ir_stride_in(w->s->ir, flat, w->row, &along_row) ||
      !tn__ir_stride_in(w->s->ir, flat, w->column, &along_column)) {
    w->refused = true;
    return;
  }
  bool walks = along_row == w->columns && along_column == 1;
  w->walks |= walks;
  w->refused |= !walks && (along_row < 0 || along_column < 0 || along_row + along_column > 1);
}

static void see_walks(const tn__expr *e, void *user) {
  flat_walk *w = user;
  tn__te_visit(w->s->ir, e, see_walk, w);
}

/* Bytes of an element of each result; 0 when they differ. */
static int64_t element_bytes(const tn__block *block) {
  size_t bytes = tn_dtype_size(block->writes[0].buffer->dtype);
  for (int w = 1; w < block->write_count; w++)
    if (tn_dtype_size(block->writes[w].buffer->dtype) != bytes) return 0;
  return (int64_t)bytes;
}

/* Keeps partial results in registers, those of all columns of a row beside each other. */
static void keep_walks(tn__schedule *s, const tn__block *partial, const char *name) {
  for (int w = 0; w < partial->write_count; w++) {
    const tn__buffer *buffer = partial->writes[w].buffer;
    tn__layout layout = {.rank = buffer->rank};
    for (int d = 0; d < buffer->rank; d++) layout.parts[d] = (tn__layout_part){d, 1, 0};
    layout.parts[buffer->rank - 2].dim = buffer->rank - 1;
    layout.parts[buffer->rank - 1].dim = buffer->rank - 2;
    tn__sched_transform_layout(s, buffer->name, &layout);
    tn__sched_set_scope(s, name, w, TN__SCOPE_REGISTER);
  }
}

/* The two loops as one, in vectors of which `vectors` are written out. */
static void flatten(tn__schedule *s, const char *row, const char *column, int64_t vectors, int64_t lanes) {
  const char *both = tn__arena_printf(s->arena, "%s+%s", row, column);
  tn__sched_fuse(s, row, column);
  tn__sched_split(s, both, (const int64_t[]){vectors, lanes}, 2);
  tn__sched_unroll(s, tn__arena_printf(s->arena, "%s.0", both));
  tn__sched_vectorize(s, tn__arena_printf(s->arena, "%s.1", both));
}

bool tn__reduce_few_columns(tn__schedule *s, const char *name, const tn__schedule_options *options) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), n = 0, column = -1;
  int64_t element = element_bytes(&block->block), results = block->block.write_count;
  if (!block->combiner->reorderable || element == 0) return false;
  while (column + 1 < count && !tn__sched_drives(path[column + 1], block, TN__AXIS_REDUCE)) column++;
  if (column < 0 || column + 1 == count) return false;
  const char *row = path[count - 1]->name, *last = path[column]->name;
  int64_t columns = tn__rule_loop_extent(s, last), rows = tn__rule_loop_extent(s, row);
  int64_t lanes = options->vector_bytes / element;
  if (columns < 2 || columns > MOST_FLAT || lanes < 4) return false;
  int64_t least = lanes / tn__common_divisor(columns, lanes), together = least;
  while (together * columns < LEAST_FLAT * lanes) together += least;
  int64_t vectors = together * columns / lanes;
  flat_walk w = {.s = s, .block = block, .row = path[count - 1]->var, .column = path[column]->var, .columns = columns};
  tn__stmt_walk_exprs(block->block.body, see_walks, &w);
  if (!w.walks || w.refused || vectors * results > MOST_FLAT || rows < 2 * together) return false;
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__sched_split(s, row, (const int64_t[]){0, together}, 2);
  for (int i = 0; i < count - 1; i++)
    if (i != column) order[n++] = path[i]->name;
  order[n++] = loop_from_last(s, name, 1);
  const char *lane = order[n++] = tn__reduce_last_loop(s, name);
  order[n++] = last;
  tn__sched_reorder(s, order, n);
  tn__sched_rfactor(s, lane);
  keep_walks(s, &tn__sched_find(s, partial, true)->block, partial);
  flatten(s, loop_from_last(s, partial, 1), tn__reduce_last_loop(s, partial), vectors, lanes);
  const char *init = tn__arena_printf(s->arena, "%s.init", partial);
  flatten(s, loop_from_last(s, init, 1), tn__reduce_last_loop(s, init), vectors, lanes);
  tn__sched_unroll(s, loop_from_last(s, name, 1));
  tn__sched_unroll(s, tn__reduce_last_loop(s, name));
  return true;
}

/* ---- along ------------------------------------------------------------------------------------------------------- */

void tn__reduce_vectorize_lanes(tn__schedule *s, const char *block, int64_t vectors, int64_t lanes) {
  const char *loop = tn__reduce_last_loop(s, block);
  if (vectors == 1) {
    tn__sched_vectorize(s, loop);
    return;
  }
  tn__sched_split(s, loop, (const int64_t[]){vectors, lanes}, 2);
  tn__sched_unroll(s, tn__arena_printf(s->arena, "%s.0", loop));
  tn__sched_vectorize(s, tn__arena_printf(s->arena, "%s.1", loop));
}

static void keep_on_stack(tn__schedule *s, const char *block) {
  int count = tn__sched_find(s, block, true)->block.write_count;
  for (int w = 0; w < count; w++) tn__sched_set_scope(s, block, w, TN__SCOPE_STACK);
}

/* Turns lanes of `name` into vectors of partial results, a factor at a time. Returns the loop around a factor. */
static const char *factor(tn__schedule *s, const char *name, int64_t vectors, int64_t lanes) {
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__sched_split(s, tn__reduce_last_loop(s, name), (const int64_t[]){0, vectors * lanes}, 2);
  const char *around = loop_from_last(s, name, 1);
  tn__sched_rfactor(s, tn__reduce_last_loop(s, name));
  tn__reduce_vectorize_lanes(s, partial, vectors, lanes);
  tn__reduce_vectorize_lanes(s, tn__arena_printf(s->arena, "%s.init", partial), vectors, lanes);
  keep_on_stack(s, partial);
  return around;
}

typedef struct gather_search {
  tn__ir *ir;
  const tn__block *block;
  bool found;
} gather_search;

static void see_gather(const tn__expr *e, void *user) {
  gather_search *search = user;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int a = 0; a < search->block->axis_count; a++) {
    const tn__block_axis *axis = &search->block->axes[a];
    for (int d = 0; d < e->arg_count && axis->kind == TN__AXIS_REDUCE; d++)
      search->found |= tn__expr_has_load(e->args[d]) && tn__expr_uses_var(e->args[d], axis->var);
  }
}

static void see_gathers(const tn__expr *e, void *user) {
  gather_search *search = user;
  tn__te_visit(search->ir, e, see_gather, search);
}

/* Do data say, term by term, where it is read? */
static bool gathers(const tn__schedule *s, const tn__snode *block) {
  gather_search search = {.ir = s->ir, .block = &block->block};
  tn__stmt_walk_exprs(block->block.body, see_gathers, &search);
  return search.found;
}

/* The rows of an image that is reduced as a whole are one long row. */
static void fuse_terms(tn__schedule *s, const tn__snode *block) {
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path);
  for (int i = count - 2; i >= 0 && tn__sched_drives(path[i], block, TN__AXIS_REDUCE); i--) {
    if (!tn__sched_drives(path[i + 1], block, TN__AXIS_REDUCE) || path[i]->children.count != 1) return;
    if (tn__rule_loop_extent(s, path[i]->name) == 0 || tn__rule_loop_extent(s, path[i + 1]->name) == 0) return;
    if (!tn__rule_is_one_walk(s, block, path[i], path[i + 1])) return;
    const char *fused = tn__arena_printf(s->arena, "%s+%s", path[i]->name, path[i + 1]->name);
    tn__sched_fuse(s, path[i]->name, path[i + 1]->name);
    path[i] = tn__sched_find(s, fused, false);
  }
}

void tn__reduce_by_halves(tn__schedule *s, const char *name, int64_t lanes) {
  for (int64_t half = lanes / 2; half > 1; half /= 2) tn__sched_unroll(s, factor(s, name, 1, half));
  tn__sched_unroll(s, tn__reduce_last_loop(s, name));
}

/* Does a row have an end of its own, as below a diagonal? A loop stops there; what is written out goes on. */
typedef struct end_search {
  const tn__block *block;
  bool found;
} end_search;

static void see_end(const tn__expr *e, void *user) {
  end_search *search = user;
  bool by_term = false, by_result = false;
  if (e->kind != TN__EXPR_SELECT || tn__expr_has_load(e->args[0])) return;
  for (int a = 0; a < search->block->axis_count; a++) {
    const tn__block_axis *axis = &search->block->axes[a];
    if (tn__expr_uses_var(e->args[0], axis->var)) *(axis->kind == TN__AXIS_REDUCE ? &by_term : &by_result) = true;
  }
  search->found |= by_term && by_result;
}

static bool has_ends(const tn__schedule *s, const tn__snode *block) {
  end_search search = {&block->block, false};
  if (block->block.body->kind == TN__STMT_STORE)
    tn__te_visit(s->ir, block->block.body->as.store.value, see_end, &search);
  return search.found;
}

void tn__reduce_lanes(tn__schedule *s, const char *name, const char *loop, int64_t vectors, int64_t lanes) {
  const char *partial = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", name));
  tn__sched_rfactor(s, loop);
  tn__reduce_vectorize_lanes(s, partial, vectors, lanes);
  tn__reduce_vectorize_lanes(s, tn__arena_printf(s->arena, "%s.init", partial), vectors, lanes);
  keep_on_stack(s, partial);
  if (vectors > 1) tn__sched_unroll(s, factor(s, name, 1, lanes));
  tn__reduce_by_halves(s, name, lanes);
}

bool tn__reduce_chooses_few(const tn__schedule *s, const tn__snode *block) {
  const char *loop = tn__reduce_last_loop(s, block->name);
  int64_t extent = loop == NULL ? -1 : tn__rule_loop_extent(s, loop);
  if (extent < FEWEST_CHOSEN || !tn__sched_drives(tn__sched_find(s, loop, false), block, TN__AXIS_REDUCE)) return false;
  int64_t bytes = (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype);
  return extent * bytes <= MOST_CHOSEN_BYTES && block->combiner->reorderable && gathers(s, block) &&
         !tn__reduce_runs_across(s, block);
}

/* A few terms that data choose. Positions are computed in vectors; each lane is a load by itself, so that wide vectors
 * bring nothing, and what does not fill one of four is written out term by term. */
static void reduce_chosen(tn__schedule *s, const char *name, const char *loop, int64_t widest) {
  enum { BYTES = 32 };
  int64_t extent = tn__rule_loop_extent(s, loop), lanes = BYTES / widest;
  if (extent >= FEWEST_CHOSEN) tn__sched_decompose_reduction(s, name, loop);
  for (; lanes >= FEWEST_CHOSEN && extent >= FEWEST_CHOSEN; lanes /= 2) {
    if (lanes > extent) continue;
    const char *rest = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rest", name));
    const char *behind = tn__sched_fresh_name(s, false, tn__arena_printf(s->arena, "%s.rest", loop));
    const char *turns = tn__sched_fresh_name(s, false, tn__arena_printf(s->arena, "%s.0", loop));
    const char *turn = tn__sched_fresh_name(s, false, tn__arena_printf(s->arena, "%s.1", loop));
    tn__sched_peel(s, loop, lanes);
    tn__reduce_lanes(s, name, turn, 1, lanes);
    tn__sched_unroll(s, turns);
    name = rest;
    loop = behind;
    extent %= lanes;
  }
  if (extent > 0) tn__sched_unroll(s, loop);
}

const char *tn__rule_reduce_along(tn__schedule *s, const char *name, const tn__schedule_options *options,
                                  int64_t vectors) {
  tn__snode *block = tn__sched_find(s, name, true);
  fuse_terms(s, block);
  const char *loop = tn__reduce_last_loop(s, name);
  if (block->combiner == NULL || !block->combiner->reorderable || loop == NULL) return NULL;
  if (!tn__sched_drives(tn__sched_find(s, loop, false), block, TN__AXIS_REDUCE)) return NULL;
  int64_t widest = 1, extent = tn__rule_loop_extent(s, loop);
  for (int w = 0; w < block->block.write_count; w++) {
    int64_t bytes = (int64_t)tn_dtype_size(block->block.writes[w].buffer->dtype);
    if (bytes > widest) widest = bytes;
  }
  int64_t lanes = options->vector_bytes / widest;
  if (lanes == 2) lanes = 4; /* of two registers */
  if (extent >= 0 && extent * widest <= MOST_CHOSEN_BYTES && gathers(s, block)) {
    reduce_chosen(s, name, loop, widest);
    return NULL;
  }
  while (extent >= 0 && lanes > 4 && lanes > extent) lanes /= 2;
  if (lanes < 4 || (extent >= 0 && extent < lanes)) return NULL;
  if (block->block.write_count > 1 && vectors > MOST_OF_TUPLES) vectors = MOST_OF_TUPLES;
  while (vectors > 1 && extent >= 0 && extent < vectors * lanes) vectors /= 2;
  bool goes_on = !has_ends(s, block);
  const int64_t cost = cost_of_step(s, block);
  const char *turns = factor(s, name, vectors, lanes);
  /* The vectors are added to one, its upper half to its lower one, and so on: all in registers. */
  if (vectors > 1) tn__sched_unroll(s, factor(s, name, 1, lanes));
  tn__reduce_by_halves(s, name, lanes);
  const int64_t steps = (extent + vectors * lanes - 1) / (vectors * lanes);
  bool few = steps > 1 && steps <= TN__RULE_WRITTEN_ROW && (double)(steps * vectors * cost) <= TN__RULE_LOOK_AHEAD;
  return few && goes_on ? turns : NULL;
}

void tn__reduce_inside(tn__schedule *s, const char *name, const tn__schedule_options *options, int outer) {
  const int64_t vectors = 4;
  if (tn__reduce_runs_across(s, tn__sched_find(s, name, true)))
    reduce_across(s, name, options, vectors, false, outer);
  else
    tn__rule_reduce_along(s, name, options, vectors);
}
