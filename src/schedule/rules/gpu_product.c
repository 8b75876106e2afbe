/* GPUs: products of whole tiles, as te/tiles.c makes them, by plain multiplications and additions. A block of side x
 * side threads has a tile of the results, each thread some of its rows and columns in registers, and fetches what a
 * step of the terms needs into shared memory. */
#include <math.h>

#include "schedule/rules/gpu.h"

/* Their places in a sketch's values: results of a thread, and terms of a step. */
enum { ROWS, COLUMNS, STEP };

/* Threads of a block are a square, the largest that there are threads for. */
static int side_of(const tn__target *target) {
  enum { LARGEST = 16 };
  int side = LARGEST;
  while (side > 1 && side * side > target->gpu.threads) side /= 2;
  return side;
}

static void open_product(tn__sketch *k, tn__schedule *scratch) {
  enum { MOST_EACH = 8, LEAST_STEP = 16, MOST_STEP = 32, MOST = 8 };
  tn__rule_tiles m;
  int64_t sizes[MOST];
  const int side = side_of(k->target);
  if (!tn__rule_gpu_find_tiles(k->te, k->target, &m)) tn__sched_refuse(scratch, "gpu: no product");
  for (int i = 0; i < 2; i++) {
    const tn__expr *extent = m.tiles->axes.var[m.batch + i]->extent;
    int count = tn__rule_gpu_choices(scratch->ir, extent, side, (int64_t)MOST_EACH * side, sizes);
    if (count == 0) tn__sched_refuse(scratch, "gpu: the product has no whole tiles");
    for (int c = 0; c < count; c++) sizes[c] /= side;
    tn__sketch_open(k, i == 0 ? "rows" : "columns", sizes, count);
  }
  int steps = tn__rule_gpu_choices(scratch->ir, m.tiles->reduce_axes.var[0]->extent, LEAST_STEP, MOST_STEP, sizes);
  if (steps == 0) tn__sched_refuse(scratch, "gpu: the product has no whole steps");
  tn__sketch_open(k, "step", sizes, steps);
}

/* Do elements of the operand lie side by side along its rows, or columns, rather than its terms? */
static bool lies_along(const tn__rule_tiles *m, int which) {
  const tn__expr *load = m->tiles->values[0]->args[which];
  if (load->kind == TN__EXPR_CAST) load = load->args[0];
  return tn__expr_uses_var(load->args[load->arg_count - 1], m->tiles->axes.var[m->batch + which]);
}

/* What a thread has of a loop over rows or columns of a tile: neighbours where they are read side by side. Names of the
 * loops over threads, and of both inside. */
static void share_loop(tn__schedule *s, const char *loop, int64_t each, int side, bool along, const char **names) {
  enum { VECTOR = 4 };
  const int64_t near = along && each % VECTOR == 0 ? VECTOR : 1;
  tn__sched_split(s, loop, (int64_t[]){each / near, side, near}, 3);
  names[0] = tn__rule_gpu_part(s, loop, 1);
  names[1] = tn__rule_gpu_part(s, loop, 0);
  names[2] = tn__rule_gpu_part(s, loop, 2);
}

static void apply_product(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  tn__rule_tiles m;
  tn__rule_placed p;
  const char *rows[3], *columns[3], *names[TN__MAX_LOOPS];
  const int side = side_of(k->target);
  if (!tn__rule_gpu_find_tiles(s->te, k->target, &m)) tn__sched_refuse(s, "gpu: no product");
  const char *block = m.tiles->name;
  tn__rule_gpu_place_tiles(s, &m, side * v[ROWS], side * v[COLUMNS], &p);
  const bool along[] = {lies_along(&m, 0), lies_along(&m, 1)};
  share_loop(s, p.row, v[ROWS], side, along[0], rows);
  share_loop(s, p.column, v[COLUMNS], side, along[1], columns);
  tn__sched_reorder(s, (const char *[]){rows[0], columns[0], rows[1], rows[2], columns[1], columns[2]}, 6);
  tn__sched_bind(s, rows[0], "thread.y");
  tn__sched_bind(s, columns[0], "thread.x");
  share_loop(s, p.own_row, v[ROWS], side, along[0], rows);
  share_loop(s, p.own_column, v[COLUMNS], side, along[1], columns);
  tn__sched_split(s, p.own_terms, (int64_t[]){0, v[STEP]}, 2);
  const char *step = tn__rule_gpu_part(s, p.own_terms, 0), *term = tn__rule_gpu_part(s, p.own_terms, 1);
  tn__sched_reorder(s, (const char *[]){step, rows[0], columns[0], term, rows[1], rows[2], columns[1], columns[2]}, 8);
  const int64_t threads[] = {1, side, side};
  tn__rule_gpu_share(s, &m, 0, step, threads);
  tn__rule_gpu_share(s, &m, 1, step, threads);
  tn__sched_decompose_reduction(s, block, step);
  int count = tn__rule_gpu_loops_under(s, tn__arena_printf(s->arena, "%s.init", block), p.tile, names);
  tn__sched_bind(s, names[count - 6], "thread.y");
  tn__sched_bind(s, names[count - 5], "thread.x");
  tn__sched_bind(s, rows[0], "thread.y");
  tn__sched_bind(s, columns[0], "thread.x");
  for (int i = 1; i < 3; i++) {
    tn__sched_unroll(s, rows[i]);
    tn__sched_unroll(s, columns[i]);
  }
  tn__rule_gpu_spread(s, k->target->gpu.threads < 256 ? side * side : 256);
}

/* Of what multiplications take: what operands take on their way from shared memory into registers, and into shared
 * memory. */
static double estimate_product(const tn__sketch *k, const int64_t *v) {
  enum { MOST_BYTES = 64 << 10, PADDING = 16 };
  const double near = 2, far = 8; /* columns and rows that take as long to be read as to be multiplied */
  tn__rule_tiles m;
  double results = 1;
  if (!tn__rule_gpu_find_tiles(k->te, k->target, &m)) return (double)INFINITY;
  const int side = side_of(k->target);
  const int64_t rows = side * v[ROWS], columns = side * v[COLUMNS];
  int64_t shared = 0;
  for (int i = 0; i < 2; i++) {
    const int64_t size = (int64_t)tn_dtype_size(m.sides[i]->tensors[0]->dtype), own = i == 0 ? rows : columns;
    shared += lies_along(&m, i) ? v[STEP] * (own * size + PADDING) : own * (v[STEP] * size + PADDING);
  }
  if (shared > k->target->gpu.shared_bytes) return (double)INFINITY;
  if (rows * columns * (int64_t)tn_dtype_size(m.tiles->tensors[0]->dtype) > MOST_BYTES) return (double)INFINITY;
  for (int a = 0; a < m.tiles->axes.count; a++) results *= tn__ir_extent_estimate(m.tiles->axes.var[a]->extent);
  const double each =
      1 + near * (1 / (double)v[ROWS] + 1 / (double)v[COLUMNS]) + far * (1 / (double)rows + 1 / (double)columns);
  return tn__rule_gpu_waves(results / (double)(rows * columns)) * each + (v[STEP] == 16 ? 0 : 1e-3);
}

const tn__rule tn__rule_gpu_product = {.name = "gpu product",
                                       .matches = tn__rule_gpu_has_tiles,
                                       .open = open_product,
                                       .apply = apply_product,
                                       .estimate = estimate_product};
