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

/* ---- decisions --------------------------------------------------------------------------------------------------- */

enum { ROWS, COLUMNS, STEP, WARPS };

static void open_matrix(tn__sketch *k, tn__schedule *scratch) {
  enum { LARGEST = 256, MOST_WARPS = 16, MOST = 16 };
  tn__rule_tiles m;
  int64_t sizes[MOST], warps[MOST];
  int count = 0;
  if (!tn__rule_gpu_find_tiles(k->te, k->target, &m) || m.row == NULL)
    tn__sched_refuse(scratch, "gpu: no product of matrices");
  for (int i = 0; i < 2; i++) {
    int64_t least = i == 0 ? m.row->rows : m.row->columns;
    int sizes_count = tn__rule_gpu_choices(scratch->ir, m.tiles->axes.var[m.batch + i]->extent, least, LARGEST, sizes);
    if (sizes_count == 0) tn__sched_refuse(scratch, "gpu: the product has no whole tiles");
    tn__sketch_open(k, i == 0 ? "rows" : "columns", sizes, sizes_count);
  }
  const tn__expr *terms = m.tiles->reduce_axes.var[0]->extent;
  int steps = tn__rule_gpu_choices(scratch->ir, terms, m.row->depth, 4 * m.row->depth, sizes);
  if (steps == 0) tn__sched_refuse(scratch, "gpu: the product has no whole steps");
  tn__sketch_open(k, "step", sizes, steps);
  for (int64_t w = 1; w <= MOST_WARPS && w * WARP <= k->target->gpu.threads; w *= 2) warps[count++] = w;
  tn__sketch_open(k, "warps", warps, count);
}

/* Of warps beside each other: rows of them, and columns. Their tiles are as square as can be. */
static void share_warps(const tn__rule_tiles *m, const int64_t *v, int64_t *down, int64_t *across) {
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

static const char *part(tn__schedule *s, const char *loop, int index) { return tn__rule_gpu_part(s, loop, index); }

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

/* Loops over rows and columns that stand in a tile: warps outside, then instructions, then what is in these. The names
 * of the last two. */
static void share_loops(tn__schedule *s, const tn__rule_tiles *m, const char *row, const char *column,
                        const int64_t *warps) {
  tn__sched_split(s, row, (int64_t[]){warps[0], 0, m->row->rows}, 3);
  tn__sched_split(s, column, (int64_t[]){warps[1], 0, m->row->columns}, 3);
  const char *order[] = {part(s, row, 0),    part(s, column, 0), part(s, row, 1),
                         part(s, column, 1), part(s, row, 2),    part(s, column, 2)};
  tn__sched_reorder(s, order, 6);
  bind_threads(s, order[4], order[5], m->row->rows);
  tn__sched_bind(s, order[0], "thread.y");
  tn__sched_bind(s, order[1], "thread.z");
}

/* What the sums begin with, whose loops are those of the sums that step through tiles. */
static void place_init(tn__schedule *s, const tn__rule_tiles *m, const char *tile) {
  enum { LOOPS = 6 }; /* of warps, of their instructions and in these, of rows and columns each */
  const char *names[TN__MAX_LOOPS], *init = tn__arena_printf(s->arena, "%s.init", m->tiles->name);
  int count = tn__rule_gpu_loops_under(s, init, tile, names);
  if (count < LOOPS) tn__sched_refuse(s, "gpu: \"%s\" is no matrix", init);
  bind_threads(s, names[count - 2], names[count - 1], m->row->rows);
  tn__sched_bind(s, names[count - 6], "thread.y");
  tn__sched_bind(s, names[count - 5], "thread.z");
}

static void apply_matrix(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  tn__rule_tiles m;
  tn__rule_placed p;
  if (!tn__rule_gpu_find_tiles(s->te, k->target, &m) || m.row == NULL)
    tn__sched_refuse(s, "gpu: no product of matrices");
  int64_t warps[2];
  share_warps(&m, v, &warps[0], &warps[1]);
  if (warps[0] * warps[1] != v[WARPS]) tn__sched_refuse(s, "gpu: a tile is too small for as many warps");
  const char *block = m.tiles->name;
  tn__rule_gpu_place_tiles(s, &m, v[ROWS], v[COLUMNS], &p);
  share_loops(s, &m, p.row, p.column, warps);
  const char *row = p.own_row, *column = p.own_column, *terms = p.own_terms, *step = part(s, terms, 0);
  tn__sched_split(s, row, (int64_t[]){warps[0], 0, m.row->rows}, 3);
  tn__sched_split(s, column, (int64_t[]){warps[1], 0, m.row->columns}, 3);
  tn__sched_split(s, terms, (int64_t[]){0, v[STEP] / m.row->depth, m.row->depth}, 3);
  const char *order[] = {step,
                         part(s, row, 0),
                         part(s, column, 0),
                         part(s, terms, 1),
                         part(s, row, 1),
                         part(s, column, 1),
                         part(s, row, 2),
                         part(s, column, 2),
                         part(s, terms, 2)};
  tn__sched_reorder(s, order, 9);
  const int64_t threads[] = {warps[1], warps[0], WARP};
  tn__rule_gpu_share(s, &m, 0, step, threads);
  tn__rule_gpu_share(s, &m, 1, step, threads);
  tn__sched_decompose_reduction(s, block, step);
  place_init(s, &m, p.tile);
  tn__sched_bind(s, order[1], "thread.y");
  tn__sched_bind(s, order[2], "thread.z");
  tn__sched_tensorize(s, order[6], tn__ir_tensor_name(m.row->op));
  tn__rule_gpu_spread(s, k->target->gpu.threads < 256 ? k->target->gpu.threads : 256);
}

/* ---- which tiles ------------------------------------------------------------------------------------------------- */

/* Of what instructions take: what operands take on their way from shared memory into a warp's registers, and into
 * shared memory. Where accumulators have no room in registers, it cannot be. */
static double estimate_matrix(const tn__sketch *k, const int64_t *v) {
  enum { MOST_SUMS = 128, LEAST_WARPS = 4, MOST_BYTES = 64 << 10 };
  const double near = 16, far = 32; /* columns and rows that take as long to be read as to be multiplied */
  tn__rule_tiles m;
  int64_t warps[2];
  double results = 1;
  if (!tn__rule_gpu_find_tiles(k->te, k->target, &m) || m.row == NULL) return (double)INFINITY;
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
                                      .matches = tn__rule_gpu_has_tiles,
                                      .open = open_matrix,
                                      .apply = apply_matrix,
                                      .estimate = estimate_matrix};
