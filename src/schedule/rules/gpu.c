/* GPUs: every nest's independent loops go to blocks and threads, and reductions stay inside of a thread. Products come
 * in tiles, of which a block keeps what it reads in the memory that its threads share, and each thread its results in
 * registers. */
#include <math.h>
#include <string.h>

#include "schedule/rules/gpu.h"

/* Fresh names of the arena. */
static const char *named(tn__schedule *s, const char *name, const char *more) {
  return tn__arena_printf(s->arena, "%s%s", name, more);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* Is the extent of one size, whatever other loops do and tensors hold? */
static bool is_even(const tn__schedule *s, const tn__snode *loop) {
  int count;
  const tn__expr *extent = loop->var->extent;
  const uint32_t *ids = tn__expr_vars(extent, &count);
  for (int i = 0; i < count; i++) {
    bool scalar = false;
    for (int d = 0; d < tn__te_dim_count(s->te); d++) scalar |= tn__te_dim_at(s->te, d)->id == ids[i];
    if (!scalar) return false;
  }
  return !tn__expr_has_load(extent);
}

static bool is_free(tn__schedule *s, const char *block, const char *loop) {
  const tn__snode *l = tn__sched_loop(s, "gpu", loop), *b = tn__sched_block(s, "gpu", block);
  return tn__sched_drives(l, b, TN__AXIS_SPATIAL) && !tn__sched_drives(l, b, TN__AXIS_REDUCE) &&
         !tn__sched_drives(l, b, TN__AXIS_SCAN) && is_even(s, l);
}

int tn__rule_gpu_free_loops(tn__schedule *s, const char *block, const char **names) {
  const char *all[TN__MAX_LOOPS], *rest[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, all, TN__MAX_LOOPS), found = 0, others = 0;
  bool in_order = true;
  for (int i = 0; i < count; i++) {
    if (is_free(s, block, all[i])) {
      in_order = in_order && others == 0;
      names[found++] = all[i];
    } else {
      rest[others++] = all[i];
    }
  }
  for (int i = 0; i < others; i++) all[found + i] = rest[i];
  for (int i = 0; i < found; i++) all[i] = names[i];
  if (!in_order && found > 0) tn__sched_reorder(s, all, count);
  return found;
}

const char *tn__rule_gpu_fuse(tn__schedule *s, const char *block, int count) {
  const char *names[TN__MAX_LOOPS];
  tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  for (int i = 1; i < count; i++) {
    tn__sched_fuse(s, names[0], names[1]);
    tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  }
  return names[0];
}

/* The loop in blocks of so many threads. */
static const char *spread(tn__schedule *s, const char *loop, int64_t threads) {
  int64_t extent = tn__rule_loop_extent(s, loop);
  while (extent > 0 && threads / 2 >= extent && threads > 32) threads /= 2;
  tn__sched_split(s, loop, (int64_t[]){0, threads}, 2);
  const char *inner = named(s, loop, ".1");
  tn__sched_bind(s, named(s, loop, ".0"), "block.x");
  tn__sched_bind(s, inner, "thread.x");
  return inner;
}

/* ---- nests in general -------------------------------------------------------------------------------------------- */

/* A reduction's results are kept by the thread, where they have their first values there, too. */
static bool keeps_results(const tn__snode *block) {
  return block->combiner != NULL && block->block.init != NULL && block->block.write_count == 1;
}

static void spread_block(tn__schedule *s, const char *block, int64_t threads) {
  const char *names[TN__MAX_LOOPS];
  int all = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  for (int i = 0; i < all; i++)
    if (tn__sched_loop(s, "gpu", names[i])->kind != TN__LOOP_SERIAL) return; /* it has its place already */
  int count = tn__rule_gpu_free_loops(s, block, names);
  if (count == 0) return;
  bool keeps = keeps_results(tn__sched_block(s, "gpu", block));
  if (keeps) tn__sched_cache_write(s, block, 0, TN__SCOPE_STACK);
  const char *thread = spread(s, tn__rule_gpu_fuse(s, block, count), threads);
  if (keeps) tn__sched_reverse_compute_at(s, named(s, block, ".write"), thread);
}

void tn__rule_gpu_spread(tn__schedule *s, int64_t threads) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  const char **names = TN__NEW_ARRAY(s->arena, blocks.count + 1, const char *);
  for (int i = 0; i < blocks.count; i++) names[i] = blocks.data[i]->name;
  for (int i = 0; i < blocks.count; i++) spread_block(s, names[i], threads);
}

/* A block for each result, around what its partial results begin with and the lanes that they are added up in. */
static void bind_lanes(tn__schedule *s, const char *block, const char *init, const char *lane) {
  const char *own[TN__MAX_LOOPS], *other[TN__MAX_LOOPS];
  int own_count = tn__sched_loops_of(s, block, own, TN__MAX_LOOPS), shared = 0;
  int other_count = tn__sched_loops_of(s, init, other, TN__MAX_LOOPS);
  while (shared < own_count && shared < other_count && strcmp(own[shared], other[shared]) == 0) shared++;
  if (shared == 0 || other_count != shared + 1) tn__sched_refuse(s, "gpu: \"%s\" begins elsewhere", block);
  tn__sched_bind(s, tn__rule_gpu_fuse(s, block, shared), "block.x");
  tn__sched_loops_of(s, init, other, TN__MAX_LOOPS);
  tn__sched_bind(s, other[1], "thread.x");
  tn__sched_bind(s, lane, "thread.x");
}

/* Few results of many terms: threads have some terms of each, side by side. */
static void share_terms(tn__schedule *s, const tn__te_stage *stage) {
  enum { WANTED = 1 << 20, MOST_LANES = 8192, LEAST_TERMS = 8, MOST_IN_BLOCK = 64 };
  const char *names[TN__MAX_LOOPS];
  double results = 1;
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->step_of != NULL) return;
  int count = tn__sched_loops_of(s, stage->name, names, TN__MAX_LOOPS);
  for (int a = 0; a < stage->axes.count; a++) results *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  if (count == 0) return;
  const char *terms = names[count - 1];
  const tn__snode *loop = tn__sched_loop(s, "gpu", terms);
  int64_t extent = tn__rule_loop_extent(s, terms), lanes = 1;
  if (!tn__sched_drives(loop, tn__sched_block(s, "gpu", stage->name), TN__AXIS_REDUCE) || !is_even(s, loop)) return;
  while (lanes < MOST_LANES && 2 * (double)lanes * results <= WANTED && 2 * lanes * LEAST_TERMS <= extent) lanes *= 2;
  if (lanes < 32) return;
  const int most = s->target->gpu.threads < MOST_IN_BLOCK ? s->target->gpu.threads : MOST_IN_BLOCK;
  while (count > 1 && lanes > most) lanes /= 2;
  tn__sched_split(s, terms, (int64_t[]){0, lanes}, 2);
  tn__sched_reorder(s, (const char *[]){named(s, terms, ".1"), named(s, terms, ".0")}, 2);
  tn__sched_rfactor(s, named(s, terms, ".1"));
  if (count > 1) bind_lanes(s, named(s, stage->name, ".rf"), named(s, stage->name, ".rf.init"), named(s, terms, ".1"));
}

/* Maps go into their readers; what is left is computed stage by stage. */
static void inline_maps(tn__schedule *s, bool *kept) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    bool small = stage->kind == TN__TE_COMPUTE && stage->step_of == NULL &&
                 !tn__te_is_output(s->te, stage->tensors[0]) && stage->tensor_count == 1;
    kept[i] = !small || !tn__sched_inline_if_small(s, stage->name);
  }
}

/* Their places in a sketch's values. */
enum { THREADS, SHARED_TERMS };

static void apply_gpu(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  bool *kept = TN__NEW_ARRAY(s->arena, tn__te_stage_count(s->te) + 1, bool);
  inline_maps(s, kept);
  for (int i = 0; i < tn__te_stage_count(s->te) && v[SHARED_TERMS] != 0; i++) share_terms(s, tn__te_stage_at(s->te, i));
  tn__rule_gpu_spread(s, v[THREADS]);
}

static void open_gpu(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t threads[] = {64, 128, 256, 512, 1024}, shared[] = {0, 1};
  int64_t few = 1;
  int count = 0;
  while (count < 5 && threads[count] <= k->target->gpu.threads) count++;
  while (2 * few <= k->target->gpu.threads) few *= 2; /* of devices that have less than usual */
  tn__sketch_open(k, "threads", count > 0 ? threads : &few, count > 0 ? count : 1);
  k->decisions[tn__sketch_open(k, "shared terms", shared, 2)].late = true; /* what primitives refuse is tried without */
  k->decisions[SHARED_TERMS].orders = true;
}

static double estimate_gpu(const tn__sketch *k, const int64_t *v) {
  return (v[THREADS] > 256 ? (double)v[THREADS] : 512 - (double)v[THREADS]) + (v[SHARED_TERMS] != 0 ? 0 : 1e4);
}

static bool matches_all(const tn__te *te) { return tn__te_stage_count(te) > 0; }

const tn__rule tn__rule_gpu = {.name = "gpu nests",
                               .matches = matches_all,
                               .open = open_gpu,
                               .apply = apply_gpu,
                               .estimate = estimate_gpu,
                               .takes_steps = true,
                               .takes_stored = true};

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A sum of products of elements of two tensors, each of which moves with one of the last two axes only. */
static const tn__te_stage *product_of(const tn__te *te) {
  const tn__te_stage *found = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_REDUCE) continue;
    if (found != NULL || stage->tensor_count != 1 || stage->step_of != NULL) return NULL;
    found = stage;
  }
  return found;
}

typedef struct operands {
  int rank, depth; /* axes of results and of terms */
  const tn__buffer *left, *right;
  /* Does its last dimension move with the terms, and the one before with rows or columns? */
  bool left_turned, right_turned;
} operands;

/* The product's factors; false where it is another. */
static bool find_operands(const tn__te *te, const tn__te_stage *stage, operands *out) {
  const tn__expr *value = stage->values[0];
  out->rank = stage->axes.count;
  out->depth = stage->reduce_axes.count;
  if (out->rank < 2 || out->depth != 1 || value->kind != TN__EXPR_MUL) return false;
  const tn__var *row = stage->axes.var[out->rank - 2], *column = stage->axes.var[out->rank - 1];
  for (int i = 0; i < 2; i++) {
    const tn__expr *a = value->args[i], *b = value->args[1 - i];
    if (a->kind != TN__EXPR_LOAD || b->kind != TN__EXPR_LOAD || a->value.buffer == b->value.buffer) return false;
    if (tn__expr_uses_var(a, column) || tn__expr_uses_var(b, row)) continue;
    if (!tn__expr_uses_var(a, row) || !tn__expr_uses_var(b, column)) continue;
    out->left = a->value.buffer;
    out->right = b->value.buffer;
    const tn__expr *term = stage->reduce_axes.var[0]->self;
    out->left_turned = a->arg_count >= 2 && a->args[a->arg_count - 1] == term;
    out->right_turned = b->arg_count >= 2 && b->args[b->arg_count - 1] == term;
    return true;
  }
  return false;
}

static bool is_product(const tn__te *te) {
  operands o;
  const tn__te_stage *stage = product_of(te);
  if (stage == NULL || !find_operands(te, stage, &o)) return false;
  for (int i = 0; i < 2; i++)
    if (tn__ir_extent_estimate(stage->axes.var[o.rank - 1 - i]->extent) < 32) return false;
  return tn__ir_extent_estimate(stage->reduce_axes.var[0]->extent) >= 16;
}

/* Their places in a sketch's values: results of a thread, and terms of a step. */
enum { ROWS, COLUMNS, STEP };

/* What a step of a tile shares; turned operands have rows that end in another bank. */
static int64_t shared_of(const operands *o, int64_t rows, int64_t columns, int64_t step, tn_dtype dtype) {
  enum { BANKS = 32, APART = 4 };
  if (o->left_turned) rows = (rows + BANKS - 1) / BANKS * BANKS + APART;
  if (o->right_turned) columns = (columns + BANKS - 1) / BANKS * BANKS + APART;
  return (rows + columns) * step * (int64_t)tn_dtype_size(dtype);
}

/* Threads of a block are a square: the largest for which there are threads enough, and room for the smallest tiles; 0:
 * none. */
static int side_of(const tn__target *target, const operands *o, tn_dtype dtype) {
  enum { LARGEST = 16, LEAST = 4, ROWS_EACH = 4, LEAST_STEP = 16 };
  for (int side = LARGEST; side >= LEAST; side /= 2) {
    int64_t tile = (int64_t)side * ROWS_EACH;
    if (side * side <= target->gpu.threads && shared_of(o, tile, tile, LEAST_STEP, dtype) <= target->gpu.shared_bytes)
      return side;
  }
  return 0;
}

static void open_product(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t rows[] = {4, 8}, columns[] = {4, 8}, steps[] = {16, 32};
  tn__sketch_open(k, "rows", rows, 2);
  tn__sketch_open(k, "columns", columns, 2);
  tn__sketch_open(k, "step", steps, 2);
}

static int read_index_of(const tn__schedule *s, const char *block, const tn__buffer *buffer) {
  const tn__snode *b = tn__sched_block(s, "gpu", block);
  for (int i = 0; i < b->block.read_count; i++)
    if (b->block.reads[i].buffer == buffer) return i;
  tn__sched_refuse(s, "gpu: \"%s\" does not read %s", block, buffer->name);
}

/* What a step reads is fetched by all threads together. */
static void share_operand(tn__schedule *s, const char *block, const tn__buffer *buffer, const char *step, bool turned,
                          int side) {
  int index = read_index_of(s, block, buffer), order_of_dims[TN__MAX_RANK];
  const char *names[TN__MAX_LOOPS], *copy;
  for (int d = 0; d < buffer->rank; d++) order_of_dims[d] = d;
  if (turned) order_of_dims[buffer->rank - 2] = buffer->rank - 1, order_of_dims[buffer->rank - 1] = buffer->rank - 2;
  copy = tn__sched_cache_read_in_order(s, block, index, TN__SCOPE_SHARED, order_of_dims, buffer->rank);
  tn__sched_compute_at(s, copy, step);
  int around = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS), outer = 0;
  while (outer < around && strcmp(names[outer], step) != 0) outer++;
  outer++;
  int count = tn__sched_loops_of(s, copy, names, TN__MAX_LOOPS);
  if (count < outer + 2) tn__sched_refuse(s, "gpu: %s is no matrix there", buffer->name);
  const char *down = names[count - 2], *along = names[count - 1];
  tn__sched_split(s, down, (int64_t[]){side, 0}, 2);
  tn__sched_split(s, along, (int64_t[]){side, 0}, 2);
  const char *order[] = {named(s, down, ".0"), named(s, along, ".0"), named(s, down, ".1"), named(s, along, ".1")};
  if (turned) { /* neighbours read side by side, and write in different banks */
    const char *first = order[0];
    order[0] = order[1];
    order[1] = first;
    tn__sched_storage_align(s, copy, 0, buffer->rank - 2, 32, 4);
  }
  tn__sched_reorder(s, order, 4);
  tn__sched_bind(s, order[0], "thread.y");
  tn__sched_bind(s, order[1], "thread.x");
}

static void apply_product(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  bool *kept = TN__NEW_ARRAY(s->arena, tn__te_stage_count(s->te) + 1, bool);
  const tn__te_stage *stage = product_of(s->te);
  operands o = {0};
  if (!find_operands(s->te, stage, &o)) tn__sched_refuse(s, "gpu: no product");
  const int side = side_of(k->target, &o, stage->tensors[0]->dtype);
  if (side == 0) tn__sched_refuse(s, "gpu: there is no room for tiles");
  inline_maps(s, kept);
  const char *block = stage->name, *names[TN__MAX_LOOPS];
  int free_count = tn__rule_gpu_free_loops(s, block, names);
  if (free_count != o.rank) tn__sched_refuse(s, "gpu: the product's loops are not free");
  const char *row = names[o.rank - 2], *column = names[o.rank - 1], *terms;
  tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  terms = names[o.rank];
  tn__sched_cache_write(s, block, 0, TN__SCOPE_STACK);
  const char *write = named(s, block, ".write");
  tn__sched_split(s, row, (int64_t[]){0, side, v[ROWS]}, 3);
  tn__sched_split(s, column, (int64_t[]){0, side, v[COLUMNS]}, 3);
  tn__sched_split(s, terms, (int64_t[]){0, v[STEP]}, 2);
  const char *order[] = {named(s, row, ".0"),    named(s, column, ".0"), named(s, terms, ".0"), named(s, row, ".1"),
                         named(s, column, ".1"), named(s, terms, ".1"),  named(s, row, ".2"),   named(s, column, ".2")};
  tn__sched_reorder(s, order, 8);
  if (o.rank > 2) tn__sched_bind(s, tn__rule_gpu_fuse(s, block, o.rank - 2), "block.z");
  tn__sched_bind(s, order[0], "block.y");
  tn__sched_bind(s, order[1], "block.x");
  tn__sched_bind(s, order[3], "thread.y");
  tn__sched_bind(s, order[4], "thread.x");
  tn__sched_unroll(s, order[6]);
  tn__sched_unroll(s, order[7]);
  tn__sched_reverse_compute_at(s, write, order[1]);
  share_operand(s, block, o.left, order[2], o.left_turned, side);
  share_operand(s, block, o.right, order[2], o.right_turned, side);
  tn__rule_gpu_spread(s, k->target->gpu.threads < 256 ? side * side : 256);
}

double tn__rule_gpu_waves(double blocks) {
  const double processors = 132;
  return blocks < processors ? processors / blocks : 1;
}

/* Larger tiles read less; what they need must fit, and the grid fill the machine. */
static double estimate_product(const tn__sketch *k, const int64_t *v) {
  const tn__te_stage *stage = product_of(k->te);
  int rank = stage->axes.count;
  tn_dtype dtype = stage->tensors[0]->dtype;
  operands o = {0};
  const int side = find_operands(k->te, stage, &o) ? side_of(k->target, &o, dtype) : 0;
  double results = 1;
  int64_t rows = side * v[ROWS], columns = side * v[COLUMNS];
  if (side == 0 || shared_of(&o, rows, columns, v[STEP], dtype) > k->target->gpu.shared_bytes) return (double)INFINITY;
  for (int a = 0; a < rank; a++) results *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  double blocks = results / (double)(rows * columns);
  return tn__rule_gpu_waves(blocks) * (1 / (double)rows + 1 / (double)columns) + (v[STEP] == 16 ? 0 : 1e-3);
}

const tn__rule tn__rule_gpu_product = {.name = "gpu product",
                                       .matches = is_product,
                                       .open = open_product,
                                       .apply = apply_product,
                                       .estimate = estimate_product};
