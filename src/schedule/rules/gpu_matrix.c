/* GPUs whose warps multiply matrices: products of whole tiles, as te/tiles.c makes them. A block of threads has a tile
 * of the results, of which each warp keeps a part in registers, and fetches what a step of the terms needs into shared
 * memory:
 *
 *   blocks over batches and rows, over columns:
 *     for step:
 *       threads: left and right in shared memory
 *       warps:  for terms:  for rows:  for columns:  an instruction on matrices
 *     warps:  for rows and columns of an instruction:  threads: what it left in them goes to memory, and the epilogue
 */
#include <math.h>
#include <string.h>

#include "schedule/rules/gpu.h"

enum { WARP = 32 };

/* ---- recognising ------------------------------------------------------------------------------------------------- */

typedef struct matrix {
  const tn__te_stage *tiles;       /* the sum of products */
  const tn__te_stage *sides[2];    /* the maps that make its operands */
  const tn__tensor_intrinsic *row; /* NULL: not asked for yet */
  int batch;                       /* axes in front of rows and columns */
} matrix;

static const tn__te_stage *operand_of(const tn__te *te, const tn__expr *factor) {
  if (factor->kind == TN__EXPR_CAST) factor = factor->args[0];
  if (factor->kind != TN__EXPR_LOAD) return NULL;
  const tn__te_stage *stage = tn__te_stage_of(te, factor->value.buffer);
  bool own = stage != NULL && stage->kind == TN__TE_COMPUTE && stage->tensor_count == 1;
  return own && !tn__te_is_output(te, stage->tensors[0]) ? stage : NULL;
}

static bool find_matrix(const tn__te *te, const tn__target *target, matrix *out) {
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    *out = (matrix){.tiles = stage, .batch = stage->axes.count - 2};
    if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->values[0]->kind != TN__EXPR_MUL) continue;
    if (out->batch < 0 || stage->reduce_axes.count != 1 || tn__te_is_output(te, stage->tensors[0])) continue;
    for (int k = 0; k < 2; k++) {
      out->sides[k] = operand_of(te, stage->values[0]->args[k]);
      const tn__var *own = stage->axes.var[out->batch + k];
      if (out->sides[k] != NULL && !tn__expr_uses_var(stage->values[0]->args[k], own)) out->sides[k] = NULL;
    }
    if (out->sides[0] == NULL || out->sides[1] == NULL) continue;
    out->row = tn__tensor_intrinsic_product(target, stage->tensors[0]->dtype, out->sides[0]->tensors[0]->dtype,
                                            out->sides[1]->tensors[0]->dtype);
    return true;
  }
  return false;
}

static bool matches_matrix(const tn__te *te) {
  static const tn__target none = {.kind = TN__TARGET_GPU};
  matrix m;
  return find_matrix(te, &none, &m);
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

enum { ROWS, COLUMNS, STEP, WARPS };

static int choices_of(tn__ir *ir, const tn__expr *extent, int64_t least, int64_t most, int64_t *out) {
  int count = 0;
  for (int64_t size = least; size <= most; size *= 2)
    if (tn__ir_is_int_value(tn__ir_mod_i(ir, extent, size), 0)) out[count++] = size;
  return count;
}

static void open_matrix(tn__sketch *k, tn__schedule *scratch) {
  enum { LARGEST = 256, MOST_WARPS = 16, MOST = 16 };
  matrix m;
  int64_t sizes[MOST], warps[MOST];
  int count = 0;
  if (!find_matrix(k->te, k->target, &m) || m.row == NULL) tn__sched_refuse(scratch, "gpu: no product of matrices");
  for (int i = 0; i < 2; i++) {
    int64_t least = i == 0 ? m.row->rows : m.row->columns;
    int sizes_count = choices_of(scratch->ir, m.tiles->axes.var[m.batch + i]->extent, least, LARGEST, sizes);
    if (sizes_count == 0) tn__sched_refuse(scratch, "gpu: the product has no whole tiles");
    tn__sketch_open(k, i == 0 ? "rows" : "columns", sizes, sizes_count);
  }
  const tn__expr *terms = m.tiles->reduce_axes.var[0]->extent;
  int steps = choices_of(scratch->ir, terms, m.row->depth, 4 * m.row->depth, sizes);
  if (steps == 0) tn__sched_refuse(scratch, "gpu: the product has no whole steps");
  tn__sketch_open(k, "step", sizes, steps);
  for (int64_t w = 1; w <= MOST_WARPS && w * WARP <= k->target->gpu.threads; w *= 2) warps[count++] = w;
  tn__sketch_open(k, "warps", warps, count);
}

/* Of warps beside each other: rows of them, and columns. Their tiles are as square as can be. */
static void share_warps(const matrix *m, const int64_t *v, int64_t *down, int64_t *across) {
  *down = *across = 1;
  while (*down * *across < v[WARPS]) {
    int64_t rows = v[ROWS] / *down, columns = v[COLUMNS] / *across;
    bool can_rows = rows % (2 * m->row->rows) == 0, can_columns = columns % (2 * m->row->columns) == 0;
    if (can_rows && (rows >= columns || !can_columns))
      *down *= 2;
    else if (can_columns)
      *across *= 2;
    else
      break;
  }
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static const char *part(tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

/* The one block beside its own that reads the stage's tensor; NULL: there are others. */
static const tn__snode *only_reader(tn__schedule *s, const tn__te_stage *stage) {
  tn__snodes readers = {0};
  const tn__snode *found = NULL;
  tn__sched_readers(s, stage->tensors[0], &readers);
  for (int i = 0; i < readers.count; i++) {
    if (strcmp(readers.data[i]->name, stage->name) == 0) continue;
    if (found != NULL) return NULL;
    found = readers.data[i];
  }
  return found;
}

/* Maps go into what reads them: into the operands, and the results' copy into an epilogue that has just its axes. */
static void inline_maps(tn__schedule *s, const matrix *m) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (stage->kind != TN__TE_COMPUTE || stage->step_of != NULL || stage->tensor_count != 1) continue;
    if (stage == m->sides[0] || stage == m->sides[1] || tn__te_is_output(s->te, stage->tensors[0])) continue;
    if (tn__expr_uses_buffer(stage->values[0], m->tiles->tensors[0])) {
      const tn__snode *reader = only_reader(s, stage);
      if (reader == NULL || reader->combiner != NULL || reader->block.axis_count != stage->axes.count) continue;
    }
    tn__sched_inline_if_small(s, stage->name);
  }
}

/* The loops of the block that stand under `outer`. */
static int loops_under(tn__schedule *s, const char *block, const char *outer, const char **names) {
  int all = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS), at = 0;
  while (at < all && strcmp(names[at], outer) != 0) at++;
  if (at == all) tn__sched_refuse(s, "gpu: \"%s\" stands elsewhere", block);
  at++;
  for (int i = at; i < all; i++) names[i - at] = names[i];
  return all - at;
}

/* What a step needs of an operand is made by all threads, each with elements side by side. */
static void share_operand(tn__schedule *s, const matrix *m, int which, const char *step, const int64_t *v,
                          const int64_t *warps) {
  enum { VECTOR = 16, BANK_ROWS = 2 };
  const tn__te_stage *side = m->sides[which];
  const char *names[TN__MAX_LOOPS];
  const int size = (int)tn_dtype_size(side->tensors[0]->dtype);
  tn__sched_compute_at(s, side->name, step);
  tn__sched_set_scope(s, side->name, 0, TN__SCOPE_SHARED);
  int count = loops_under(s, side->name, step, names);
  if (count < 2) tn__sched_refuse(s, "gpu: \"%s\" is no matrix there", side->name);
  int64_t inner = tn__rule_loop_extent(s, names[count - 1]), outer = tn__rule_loop_extent(s, names[count - 2]);
  int64_t lanes = VECTOR / size, threads = warps[0] * warps[1] * WARP;
  if (outer <= 0 || inner <= 0) tn__sched_refuse(s, "gpu: \"%s\" is of no known size there", side->name);
  while (lanes > 1 && (inner % lanes != 0 || inner * outer % (lanes * threads) != 0)) lanes /= 2;
  tn__sched_storage_align(s, side->name, 0, side->axes.count - 2, BANK_ROWS * VECTOR / size, VECTOR / size);
  tn__sched_fuse(s, names[count - 2], names[count - 1]);
  count = loops_under(s, side->name, step, names);
  const char *all = names[count - 1];
  tn__sched_split(s, all, (int64_t[]){0, warps[1], warps[0], WARP, lanes}, 5);
  const char *order[] = {part(s, all, 1), part(s, all, 2), part(s, all, 3), part(s, all, 0)};
  tn__sched_reorder(s, order, 4);
  tn__sched_bind(s, part(s, all, 1), "thread.z");
  tn__sched_bind(s, part(s, all, 2), "thread.y");
  tn__sched_bind(s, part(s, all, 3), "thread.x");
  if (lanes > 1) tn__sched_vectorize(s, part(s, all, 4));
}

/* Loops over rows and columns of a warp's instructions, each split already into what warps and instructions have: the
 * threads of a warp have what an instruction leaves in them, eight rows of four pairs, as often as it has these. */
static void bind_threads(tn__schedule *s, const char *row, const char *column, int64_t rows) {
  enum { GROUP = 8, PAIR = 2 };
  tn__sched_split(s, row, (int64_t[]){rows / GROUP, GROUP}, 2);
  tn__sched_split(s, column, (int64_t[]){GROUP / PAIR, PAIR}, 2);
  const char *order[] = {part(s, row, 0), part(s, row, 1), part(s, column, 0), part(s, column, 1)};
  const char *lanes[] = {order[1], order[2], order[0], order[3]};
  tn__sched_reorder(s, lanes, 4);
  tn__sched_fuse(s, order[1], order[2]);
  tn__sched_bind(s, tn__arena_printf(s->arena, "%s+%s", order[1], order[2]), "thread.x");
}

/* A block that stands in a tile as the product does: what sums begin with, and what becomes of them. */
static void place_in_tile(tn__schedule *s, const matrix *m, const char *block, const char *tile) {
  enum { LOOPS = 6 }; /* of warps, of their instructions and in these, of rows and columns each */
  const char *names[TN__MAX_LOOPS];
  if (loops_under(s, block, tile, names) != LOOPS) tn__sched_refuse(s, "gpu: \"%s\" is no matrix", block);
  tn__sched_bind(s, names[0], "thread.y");
  tn__sched_bind(s, names[1], "thread.z");
  bind_threads(s, names[4], names[5], m->row->rows);
}

static void apply_matrix(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  matrix m;
  const char *names[TN__MAX_LOOPS];
  if (!find_matrix(s->te, k->target, &m) || m.row == NULL) tn__sched_refuse(s, "gpu: no product of matrices");
  int64_t warps[2];
  share_warps(&m, v, &warps[0], &warps[1]);
  if (warps[0] * warps[1] != v[WARPS]) tn__sched_refuse(s, "gpu: a tile is too small for as many warps");
  inline_maps(s, &m);
  const char *block = m.tiles->name;
  if (tn__rule_gpu_free_loops(s, block, names) != m.batch + 2) tn__sched_refuse(s, "gpu: the product is not free");
  tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  const char *row = names[m.batch], *column = names[m.batch + 1], *terms = names[m.batch + 2];
  tn__sched_split(s, row, (int64_t[]){0, warps[0], v[ROWS] / warps[0] / m.row->rows, m.row->rows}, 4);
  tn__sched_split(s, column, (int64_t[]){0, warps[1], v[COLUMNS] / warps[1] / m.row->columns, m.row->columns}, 4);
  tn__sched_split(s, terms, (int64_t[]){0, v[STEP] / m.row->depth, m.row->depth}, 3);
  const char *order[] = {part(s, row, 0),    part(s, column, 0), part(s, terms, 0), part(s, row, 1),
                         part(s, column, 1), part(s, terms, 1),  part(s, row, 2),   part(s, column, 2),
                         part(s, row, 3),    part(s, column, 3), part(s, terms, 2)};
  tn__sched_reorder(s, order, 11);
  const char *rows = tn__rule_gpu_fuse(s, block, m.batch + 1), *tile = order[1], *step = order[2];
  tn__sched_bind(s, rows, "block.x");
  tn__sched_bind(s, tile, "block.y");
  const tn__snode *reader = only_reader(s, m.tiles);
  if (reader == NULL) tn__sched_refuse(s, "gpu: several blocks read the product");
  tn__sched_reverse_compute_at(s, reader->name, tile);
  place_in_tile(s, &m, reader->name, tile);
  tn__sched_set_scope(s, block, 0, TN__SCOPE_STACK);
  share_operand(s, &m, 0, step, v, warps);
  share_operand(s, &m, 1, step, v, warps);
  tn__sched_decompose_reduction(s, block, step);
  place_in_tile(s, &m, tn__arena_printf(s->arena, "%s.init", block), tile);
  tn__sched_bind(s, order[3], "thread.y");
  tn__sched_bind(s, order[4], "thread.z");
  tn__sched_tensorize(s, order[8], tn__ir_tensor_name(m.row->op));
  tn__rule_gpu_spread(s, k->target->gpu.threads < 256 ? k->target->gpu.threads : 256);
}

/* ---- which tiles ------------------------------------------------------------------------------------------------- */

/* Of what instructions take: what operands take on their way from shared memory into a warp's registers, and into
 * shared memory. Where accumulators have no room in registers, it cannot be. */
static double estimate_matrix(const tn__sketch *k, const int64_t *v) {
  enum { MOST_SUMS = 128, LEAST_WARPS = 4, MOST_BYTES = 64 << 10 };
  const double near = 16, far = 32; /* columns and rows that take as long to be read as to be multiplied */
  matrix m;
  int64_t warps[2];
  double results = 1;
  if (!find_matrix(k->te, k->target, &m) || m.row == NULL) return (double)INFINITY;
  share_warps(&m, v, &warps[0], &warps[1]);
  if (warps[0] * warps[1] != v[WARPS]) return (double)INFINITY;
  const int64_t rows = v[ROWS] / warps[0], columns = v[COLUMNS] / warps[1];
  const int64_t sum_words = (int64_t)tn_dtype_size(m.tiles->tensors[0]->dtype) / 4;
  const int64_t size = (int64_t)tn_dtype_size(m.sides[0]->tensors[0]->dtype);
  const int64_t padding = 16;
  int64_t shared = (v[ROWS] + v[COLUMNS]) * (v[STEP] * size + padding);
  if (v[ROWS] * v[COLUMNS] * sum_words * 4 > MOST_BYTES) return (double)INFINITY;
  if (rows * columns / WARP * sum_words > MOST_SUMS || 2 * shared > k->target->gpu.shared_bytes)
    return (double)INFINITY;
  for (int a = 0; a < m.tiles->axes.count; a++) results *= tn__ir_extent_estimate(m.tiles->axes.var[a]->extent);
  double blocks = results / (double)(v[ROWS] * v[COLUMNS]);
  double each =
      1 + near * (1 / (double)rows + 1 / (double)columns) + far * (1 / (double)v[ROWS] + 1 / (double)v[COLUMNS]);
  if (v[WARPS] < LEAST_WARPS) each *= LEAST_WARPS / (double)v[WARPS];
  const double step_bytes = (double)(v[STEP] * size);
  return tn__rule_gpu_waves(blocks) * each * (1 + 4 / step_bytes);
}

const tn__rule tn__rule_gpu_matrix = {.name = "gpu matrix",
                                      .matches = matches_matrix,
                                      .open = open_matrix,
                                      .apply = apply_matrix,
                                      .estimate = estimate_matrix};
