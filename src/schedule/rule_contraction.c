/* Products and convolutions: sums of products, computed in register tiles.
 *
 * The last axis of the sum is the column axis: one operand (weights, packed into panels of W columns when they are
 * constant) is contiguous along it, the other does not move. The axis before it gives the rows of the tile. One
 * iteration of the tile loop owns MR x (NP * W) accumulators in registers, runs the whole reduction over them, and
 * writes the tile through the epilogue:
 *
 *   parallel tile in batch x column tiles x other axes x row tiles:
 *     acc[...] = 0
 *     for k...:  for row (unrolled): for vector (unrolled): acc[row, vector] += A[row, k] * B[k, vector]
 *     for row, vector: C[...] = epilogue(acc)
 *
 * Column tiles stand outside of row tiles, so that a panel stays in the second-level cache while the rows stream by.
 * Reduction loops stay loops: unrolled windows share their broadcasts and spill. The scheme is that of Goto and van de
 * Geijn (2008) without its k blocking: a panel of K x W is small. */
#include <stdio.h>
#include <string.h>

#include "schedule/rules.h"

typedef struct contraction {
  tn__schedule *s;
  const tn__te *te;
  const tn__te_stage *sum;
  const char *block;    /* the sum's */
  const char *consumer; /* the block that writes the tile out */
  int rank;
  int64_t rows, columns;           /* extents of the two tile axes of the sum; -1 when symbolic */
  int64_t lanes;                   /* elements of one vector */
  int64_t row_tile, panel, panels; /* MR, W, NP */
  int depth;                       /* loops over tiles */
} contraction;

/* ---- recognising
 * -------------------------------------------------------------------------------------------------------- */

static const tn__expr *without_casts(const tn__expr *e) {
  while (e->kind == TN__EXPR_CAST) e = e->args[0];
  return e;
}

static bool is_sum(const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->axes.count < 1) return false;
  const tn__te_combiner *c = stage->combiner;
  const tn__expr *r = c->result[0];
  bool adds = c->count == 1 && r->kind == TN__EXPR_ADD && r->arg_count == 2;
  if (!adds) return false;
  const tn__expr *l = c->lhs[0]->self, *n = c->rhs[0]->self;
  return (r->args[0] == l && r->args[1] == n) || (r->args[0] == n && r->args[1] == l);
}

static bool is_product(const tn__expr *term) {
  term = without_casts(term);
  if (term->kind != TN__EXPR_MUL || term->arg_count != 2) return false;
  const tn__expr *a = without_casts(term->args[0]), *b = without_casts(term->args[1]);
  return a->kind == TN__EXPR_LOAD || b->kind == TN__EXPR_LOAD;
}

/* The only reduction, which is a sum of products; everything else are maps. NULL otherwise. */
static const tn__te_stage *find_sum(const tn__te *te) {
  const tn__te_stage *sum = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_COMPUTE) continue;
    if (sum || !is_sum(stage) || !is_product(stage->values[0])) return NULL;
    sum = stage;
  }
  return sum;
}

bool tn__rule_contraction_matches(const tn__te *te) { return tn__te_output_count(te) == 1 && find_sum(te) != NULL; }

/* ---- producers: what the sum reads
 * ----------------------------------------------------------------------------------------- */

static bool reads_stage(const tn__te_stage *reader, const tn__te_stage *producer) {
  for (int i = 0; i < reader->tensor_count; i++)
    for (int j = 0; j < producer->tensor_count; j++)
      if (tn__expr_uses_buffer(reader->values[i], producer->tensors[j])) return true;
  return false;
}

/* Flat position of an access, as an expression. */
static const tn__expr *flat_index(tn__ir *ir, const tn__expr *load) {
  const tn__expr *flat = tn__index(ir, 0);
  for (int i = 0; i < load->arg_count; i++)
    flat = tn__add(ir, tn__mul(ir, flat, load->value.buffer->shape[i]), load->args[i]);
  return flat;
}

/* Would reading through this stage, which only renames elements, keep the sum's accesses contiguous (or still) along
 * the columns? */
static bool reads_through_well(const tn__te *te, const tn__te_stage *sum, const tn__te_stage *stage) {
  const tn__expr *value = without_casts(stage->values[0]);
  if (!tn__expr_has_load(value)) return true;
  if (value->kind != TN__EXPR_LOAD) return false;
  tn__ir *ir = tn__te_ir(te);
  const tn__expr *term = without_casts(sum->values[0]);
  for (int i = 0; i < 2; i++) {
    const tn__expr *load = without_casts(term->args[i]);
    if (load->kind != TN__EXPR_LOAD || load->value.buffer != stage->tensors[0]) continue;
    const tn__expr *through = tn__substitute(ir, flat_index(ir, value), stage->axes.var, load->args, stage->axes.count);
    int64_t stride;
    const tn__var *column = sum->axes.var[sum->axes.count - 1];
    if (!tn__stride_in(ir, through, column, &stride) || (stride != 0 && stride != 1)) return false;
  }
  return true;
}

static void vectorize_copy(tn__schedule *s, const char *block, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__loops_of(s, block, loops, TN__MAX_LOOPS);
  if (count == 0) return;
  if (count > 1) tn__parallel(s, loops[0]);
  int64_t extent = tn__loop_extent(s, loops[count - 1]);
  if (extent < lanes) return;
  tn__split(s, loops[count - 1], (const int64_t[]){0, lanes}, 2);
  count = tn__loops_of(s, block, loops, TN__MAX_LOOPS);
  tn__vectorize(s, loops[count - 1]);
}

/* Maps go into their readers, but for the output and for what the sum should find in memory (padding, transposed
 * operands). */
static void place_maps(contraction *c) {
  const tn__buffer *output = tn__te_output_at(c->te, 0);
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage == c->sum || stage->tensors[0] == output) continue;
    if (reads_stage(c->sum, stage) && !reads_through_well(c->te, c->sum, stage)) {
      vectorize_copy(c->s, stage->name, c->lanes);
    } else {
      tn__inline(c->s, stage->name);
    }
  }
}

/* ---- the tile
 * ------------------------------------------------------------------------------------------------------------------ */

static int vector_registers(const tn__schedule *s) { return s->target->vector_registers; }

int tn__schedule_pack_width(const tn__target *target, tn_dtype dtype, int64_t columns) {
  tn_dtype wide = dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
  int lanes = target->vector_bytes / (int)tn_dtype_size(wide);
  return columns > lanes ? 2 * lanes : lanes;
}

/* The greatest number of rows up to `most` that divides `rows` if one above half of `most` does; else what wastes
 * least. */
static int64_t choose_rows(int64_t rows, int64_t most) {
  if (rows < 0) return most;
  if (rows <= most) return rows < 1 ? 1 : rows;
  for (int64_t r = most; 2 * r > most; r--)
    if (rows % r == 0) return r;
  int64_t tiles = (rows + most - 1) / most;
  return rows % most * 2 > most ? (rows + tiles - 1) / tiles : most;
}

/* Width of the packed panels of the right operand, or what suits an operand that is not packed. */
static int64_t choose_panel(const contraction *c) {
  int64_t width = 2 * c->lanes;
  if (c->columns < 0) return c->lanes;
  if (c->columns % width == 0) return width;
  if (c->columns % c->lanes == 0 || c->columns < width) return c->lanes;
  return width;
}

static void choose_tile(contraction *c) {
  c->panel = choose_panel(c);
  int64_t vectors = c->panel / c->lanes;
  int64_t most_rows = (vector_registers(c->s) - vectors - 1) / vectors;
  c->row_tile = c->rank < 2 ? 1 : choose_rows(c->rows, most_rows);
  c->panels = 1;
  /* Few rows leave the multipliers waiting for each other: take several panels at once. */
  if (c->columns > 0 && c->columns % c->panel == 0) {
    int64_t count = c->columns / c->panel;
    while (c->panels < 8 && count % (c->panels * 2) == 0 && c->row_tile * c->panels * vectors * 2 <= 12) c->panels *= 2;
  }
}

/* Inner loops of a block over one tile, from loop number `first` on: everything is unrolled but the lanes of a vector.
 */
static void vectorize_tile(contraction *c, const char *block, int first) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__loops_of(c->s, block, loops, TN__MAX_LOOPS);
  const char *columns = loops[count - 1];
  if (tn__loop_extent(c->s, columns) > c->lanes) {
    tn__split(c->s, columns, (const int64_t[]){0, c->lanes}, 2);
    count = tn__loops_of(c->s, block, loops, TN__MAX_LOOPS);
  }
  for (int i = first; i < count - 1; i++) tn__unroll(c->s, loops[i]);
  if (tn__loop_extent(c->s, loops[count - 1]) > 1) tn__vectorize(c->s, loops[count - 1]);
}

/* The loops over tiles, from number `first` to the one before `end`, become one; returns its name. */
static const char *fuse_tiles(contraction *c, const char *const *order, int first, int end) {
  const char *loops[TN__MAX_LOOPS], *fused = order[first];
  for (int i = first + 1; i < end; i++) {
    tn__fuse(c->s, fused, order[i]);
    tn__loops_of(c->s, c->consumer, loops, TN__MAX_LOOPS);
    fused = loops[first];
  }
  return fused;
}

static const char *name_of(contraction *c, const char *loop, const char *suffix) {
  return tn__arena_printf(tn__ir_arena(tn__te_ir(c->te)), "%s%s", loop, suffix);
}

/* Tiles the loops of the block that writes out. *outer is the loop to run in parallel, *inner the one whose iterations
 * own a tile. Row tiles that leave a rest stay a loop of their own, so that loop partition can peel the rest off; they
 * go outside when the other loops have too few iterations to share out. */
static void tile_consumer(contraction *c, const char **outer, const char **inner) {
  tn__schedule *s = c->s;
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS], *row_tiles = NULL, *row_tile = NULL;
  int count = tn__loops_of(s, c->consumer, loops, TN__MAX_LOOPS), n = 0;
  const char *column = loops[count - 1], *row = count > 1 ? loops[count - 2] : NULL;
  const char *column_tiles = name_of(c, column, ".0"), *column_tile = name_of(c, column, ".1");
  tn__split(s, column, (const int64_t[]){0, c->panel * c->panels}, 2);
  bool ragged = false, rows_first = false;
  int64_t others = tn__loop_extent(s, column_tiles);
  for (int i = 0; i < count - 2; i++) others *= tn__loop_extent(s, loops[i]) < 0 ? 64 : tn__loop_extent(s, loops[i]);
  if (row) {
    row_tiles = name_of(c, row, ".0"), row_tile = name_of(c, row, ".1");
    tn__split(s, row, (const int64_t[]){0, c->row_tile}, 2);
    ragged = c->rows < 0 || c->rows % c->row_tile != 0;
    rows_first = ragged && others < 8;
  }
  if (rows_first) order[n++] = row_tiles;
  if (count > 2) order[n++] = loops[0]; /* batch */
  order[n++] = column_tiles;
  for (int i = 1; i < count - 2; i++) order[n++] = loops[i];
  if (row && !rows_first) order[n++] = row_tiles;
  int tiles = n;
  if (row) order[n++] = row_tile;
  order[n++] = column_tile;
  tn__reorder(s, order, n);
  if (rows_first) {
    *outer = order[0];
    *inner = fuse_tiles(c, order, 1, tiles);
  } else {
    *outer = fuse_tiles(c, order, 0, ragged ? tiles - 1 : tiles);
    *inner = ragged ? order[tiles - 1] : *outer;
  }
  c->depth = 1 + (*inner != *outer);
}

/* Reduction outside, then rows, then columns; accumulators start before the reduction. */
static void tile_sum(contraction *c) {
  tn__schedule *s = c->s;
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int count = tn__loops_of(s, c->block, loops, TN__MAX_LOOPS), reduce = c->sum->reduce_axes.count, n = 0;
  int first = c->depth, spatial = count - first - reduce;
  for (int i = 0; i < reduce; i++) order[n++] = loops[first + spatial + i];
  for (int i = 0; i < spatial; i++) order[n++] = loops[first + i];
  tn__reorder(s, order, n);
  vectorize_tile(c, c->block, first + reduce);
  tn__decompose_reduction(s, c->block, order[0]);
}

void tn__rule_contraction_apply(tn__schedule *s, const tn__schedule_options *options) {
  contraction c = {.s = s, .te = tn__schedule_te(s)};
  c.sum = find_sum(c.te);
  c.block = c.sum->name;
  c.rank = c.sum->axes.count;
  c.lanes = options->vector_bytes / (int64_t)tn_dtype_size(c.sum->tensors[0]->dtype);
  const tn__expr *const *shape = c.sum->tensors[0]->shape;
  if (!tn__as_int(shape[c.rank - 1], &c.columns)) c.columns = -1;
  if (c.rank < 2 || !tn__as_int(shape[c.rank - 2], &c.rows)) c.rows = c.rank < 2 ? 1 : -1;
  if (c.columns >= 0 && c.columns < c.lanes)
    while (c.lanes > 1 && c.lanes > c.columns) c.lanes /= 2;
  place_maps(&c);
  choose_tile(&c);
  const tn__buffer *output = tn__te_output_at(c.te, 0);
  if (output == c.sum->tensors[0]) {
    tn__cache_write(s, c.block, 0, TN__SCOPE_REGISTER);
    char name[256];
    snprintf(name, sizeof name, "%s.write", c.block);
    c.consumer = tn__arena_strdup(tn__ir_arena(tn__te_ir(c.te)), name);
  } else {
    c.consumer = tn__te_stage_of(c.te, output)->name;
    tn__set_scope(s, c.block, 0, TN__SCOPE_REGISTER);
  }
  const char *outer, *inner;
  tile_consumer(&c, &outer, &inner);
  tn__compute_at(s, c.block, inner);
  vectorize_tile(&c, c.consumer, c.depth);
  tile_sum(&c);
  if (tn__rule_is_large(c.te) && options->threads != 1) tn__parallel(s, outer);
}
