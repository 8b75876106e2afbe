/* Attention: a product whose rows go through softmax (or any chain of row reductions and maps) and into another
 * product. A block of rows at a time, so that scores never leave the first caches:
 *
 *   keys, turned so that a column of scores is contiguous: once, before
 *   parallel over batch and heads:
 *     for block of rows:
 *       for column tile:  scores[rows, tile] = epilogue(sum of queries * keys)   in registers, then private memory
 *       for row:          maximum, exponentials, their sum, weights              in private memory
 *       for column tile:  result[rows, tile] = sum of weights * values           in registers
 *
 * The rows of a block are the rows of both register tiles. What Dao et al. ("FlashAttention", 2022) do along the keys
 * as well is not needed where a block's scores fit: all keys of some rows are there at once, and sums have the order
 * that softmax by itself has. */
#include "schedule/rules/contraction.h"

typedef struct attention {
  tn__schedule *s;
  tn__ir *ir;
  const tn__te *te;
  const tn__schedule_options *options;
  const tn__te_stage *scores, *result;
  const tn__te_stage *shaped;  /* the map behind the scores that rows are reduced from first; NULL: the scores are */
  const tn__te_stage *weights; /* the map that the second product reads */
  const tn__te_stage *output;  /* `result`, or the map behind it */
  int row, column;        /* axes of the result: that of the rows, and the one that `values` are contiguous along */
  const tn__expr *values; /* load of the second product's other operand, as declared */
} attention;

/* ---- recognising ------------------------------------------------------------------------------------------------- */

static int axis_of(const tn__te_axes *axes, const tn__expr *index) {
  for (int a = 0; a < axes->count; a++)
    if (axes->var[a]->self == index && !tn__ir_is_int(index)) return a;
  return -1;
}

/* Does `load` read all axes of `shape` in their order, the reduction last? Rows are the last dimension but one. */
static bool reads_rows(attention *a, const tn__expr *load, const tn__te_axes *shape) {
  const tn__te_axes *axes = &a->result->axes;
  int n = shape->count;
  unsigned seen = 0;
  if (load->arg_count != n || load->args[n - 1] != a->result->reduce_axes.var[0]->self) return false;
  for (int d = 0; d < n - 1; d++) {
    int axis = axis_of(axes, load->args[d]);
    if (axis < 0 && d < n - 2 && tn__ir_is_int_value(shape->var[d]->extent, 1)) continue;
    if (axis < 0 || (seen & (1u << axis))) return false;
    seen |= 1u << axis;
    a->row = axis;
  }
  a->column = -1;
  for (int x = 0; x < axes->count; x++) {
    if ((seen & (1u << x)) || tn__ir_is_int_value(axes->var[x]->extent, 1)) continue;
    if (a->column >= 0) return false;
    a->column = x;
  }
  return a->column >= 0;
}

static bool same_extents(const tn__te_axes *a, const tn__te_axes *b) {
  if (a->count != b->count) return false;
  for (int i = 0; i < a->count; i++)
    if (a->var[i]->extent != b->var[i]->extent) return false;
  return true;
}

static bool find_weights(attention *a) {
  const tn__expr *term = a->result->values[0];
  for (int o = 0; term->kind == TN__EXPR_MUL && o < 2; o++) {
    const tn__expr *load = term->args[o], *other = term->args[1 - o];
    if (load->kind != TN__EXPR_LOAD || other->kind != TN__EXPR_LOAD) return false;
    const tn__te_stage *stage = tn__te_stage_of(a->te, load->value.buffer);
    if (stage == NULL || stage->kind != TN__TE_COMPUTE || !same_extents(&stage->axes, &a->scores->axes)) continue;
    if (!reads_rows(a, load, &stage->axes)) continue;
    a->weights = stage;
    a->values = other;
    return true;
  }
  return false;
}

static bool find(attention *a) {
  int rows = 0;
  if (tn__te_output_count(a->te) != 1) return false;
  for (int i = 0; i < tn__te_stage_count(a->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(a->te, i);
    if (stage->tensor_count != 1) return false;
    if (stage->kind == TN__TE_COMPUTE) continue;
    if (stage->kind != TN__TE_REDUCE || stage->reduce_axes.count != 1 || stage->tensors[0]->dtype != TN_F32)
      return false;
    if (tn__contraction_sums_products(stage)) {
      if (a->result != NULL) return false;
      *(a->scores == NULL ? &a->scores : &a->result) = stage;
      continue;
    }
    const tn__expr *term = stage->values[0];
    if (a->scores == NULL || a->result != NULL || term->kind != TN__EXPR_LOAD) return false;
    const tn__te_stage *operand = tn__te_stage_of(a->te, term->value.buffer);
    if (operand == NULL || !same_extents(&operand->axes, &a->scores->axes)) return false;
    if (rows++ == 0 && operand != a->scores) a->shaped = operand;
    if (operand != a->scores && operand->kind != TN__TE_COMPUTE) return false;
  }
  if (a->result == NULL || rows == 0 || a->scores->axes.count < 2) return false;
  a->output = tn__te_stage_of(a->te, tn__te_output_at(a->te, 0));
  return find_weights(a);
}

static bool matches(const tn__te *te) {
  attention a = {.ir = tn__te_ir(te), .te = te};
  return find(&a);
}

/* ---- producers --------------------------------------------------------------------------------------------------- */

/* Maps that become tensors of their own: what rows are reduced from, the weights, and numbers of a row that take
 * work. */
static bool is_kept(const attention *a, const tn__te_stage *stage) {
  if (stage == a->weights || stage == a->output || stage == a->shaped) return true;
  for (int i = 0; i < tn__te_stage_count(a->te); i++) {
    const tn__te_stage *reader = tn__te_stage_at(a->te, i);
    if (reader->kind == TN__TE_REDUCE && !tn__contraction_sums_products(reader) &&
        reader->values[0]->value.buffer == stage->tensors[0])
      return true;
  }
  int n = stage->axes.count;
  return n == a->scores->axes.count && tn__ir_is_int_value(stage->axes.var[n - 1]->extent, 1) &&
         tn__rule_cost(a->ir, stage->values[0]) >= 4;
}

static int64_t stride_along(tn__ir *ir, const tn__expr *load, const tn__var *axis) {
  const tn__expr *flat = tn__buffer_flatten(ir, load->value.buffer, load->args);
  int64_t stride;
  return tn__ir_stride_in(ir, flat, axis, &stride) ? stride : -1;
}

/* The operand of the scores that moves with their columns, as the block reads it now. */
static const tn__expr *find_keys(attention *a, const tn__snode *block) {
  const tn__te_axes *axes = &a->scores->axes;
  const tn__expr *value = block->block.body->as.store.value,
                 *own = tn__ir_load(a->ir, a->scores->tensors[0], axes->index);
  const tn__expr *term = value->args[0] == own ? value->args[1] : value->args[0];
  const tn__var *row = axes->var[axes->count - 2], *column = axes->var[axes->count - 1];
  for (int o = 0; term->kind == TN__EXPR_MUL && o < 2; o++) {
    const tn__expr *keys = term->args[o], *queries = term->args[1 - o];
    if (keys->kind != TN__EXPR_LOAD || queries->kind != TN__EXPR_LOAD) break;
    if (tn__expr_uses_var(keys, column) && !tn__expr_uses_var(keys, row) && !tn__expr_uses_var(queries, column))
      return keys;
  }
  tn__sched_refuse(a->s, "attention: the scores are no product of rows and columns");
}

/* Copies the keys with the scores' columns innermost, once, unless they are contiguous there. */
static void turn_keys(attention *a) {
  const tn__snode *block = tn__sched_find(a->s, a->scores->name, true);
  const tn__expr *keys = find_keys(a, block);
  const tn__var *column = a->scores->axes.var[a->scores->axes.count - 1], *along = a->scores->reduce_axes.var[0];
  int order[TN__MAX_RANK], n = 0, last = -1;
  if (stride_along(a->ir, keys, column) == 1) return;
  for (int d = 0; d < keys->arg_count; d++)
    if (keys->args[d] == column->self) last = d;
  if (last < 0) tn__sched_refuse(a->s, "attention: the scores' columns are no dimension of the keys");
  for (int reduces = 0; reduces < 2; reduces++)
    for (int d = 0; d < keys->arg_count; d++)
      if (d != last && tn__expr_uses_var(keys->args[d], along) == (reduces == 1)) order[n++] = d;
  order[n++] = last;
  for (int r = 0; r < block->block.read_count; r++) {
    if (block->block.reads[r].buffer != keys->value.buffer) continue;
    const char *copy = tn__sched_cache_read_in_order(a->s, a->scores->name, r, TN__SCOPE_WORKSPACE, order, n);
    int contiguous = 0;
    while (order[contiguous] != n - 1) contiguous++;
    tn__rule_turn(a->s, copy, contiguous, a->options);
    return;
  }
}

/* Everything that comes before the blocks of rows. */
static void prepare(attention *a) {
  tn__schedule *s = a->s;
  if (!find(a)) tn__sched_refuse(s, "attention: it is none");
  for (int i = 0; i < tn__te_stage_count(a->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(a->te, i);
    if (stage->kind == TN__TE_COMPUTE && !is_kept(a, stage)) tn__sched_inline(s, stage->name);
  }
  if (stride_along(a->ir, a->values, a->result->axes.var[a->column]) != 1)
    tn__sched_refuse(s, "attention: the values are not contiguous along the result's columns");
  tn__snodes readers = {0};
  tn__sched_readers(s, a->scores->tensors[0], &readers);
  for (int i = 0; i < readers.count; i++) {
    const char *name = readers.data[i]->name;
    if (a->shaped != NULL && name != a->scores->name && name != a->shaped->name)
      tn__sched_refuse(s, "attention: \"%s\" reads the scores as well", name);
  }
  if (a->shaped != NULL &&
      !tn__contraction_is_epilogue(tn__sched_find(s, a->shaped->name, true), a->scores->tensors[0]))
    tn__sched_refuse(s, "attention: \"%s\" is no epilogue of the scores", a->shaped->name);
  if (a->output != a->result &&
      !tn__contraction_is_epilogue(tn__sched_find(s, a->output->name, true), a->result->tensors[0]))
    tn__sched_refuse(s, "attention: \"%s\" is no epilogue of the result", a->output->name);
  turn_keys(a);
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

/* Their places in a sketch's values: rows of a block, vectors of the result's columns and of the scores'. */
enum { ROWS, VECTORS, SCORE_VECTORS, SHARED };

typedef struct space {
  tn__nest nest; /* of the result */
  int row, column, spatial;
  int64_t rows, columns, keys, depth, others; /* others: batches times heads */
  bool open_rows, open_keys;
  double epilogue, softmax; /* operations for a score */
  bool large;
} space;

/* A block's scores are on the stack of a thread, where they fit. Longer rows, and those whose length only the run
 * tells, are in the workspace, once for each thread. */
static bool is_private(const space *p, int64_t rows) {
  return !p->open_keys && 4 * rows * p->keys <= TN__RULE_PRIVATE_BYTES;
}

static int64_t lanes_for(const tn__schedule_options *options, int64_t extent) {
  int64_t lanes = options->vector_bytes / 4;
  while (lanes > 4 && lanes >= 2 * extent) lanes /= 2;
  return lanes;
}

/* A product of `rows` x `columns` by `steps`, in tiles of `vectors`. */
static void product_phase(const tn__sketch *k, tn__sketch_features *f, int64_t rows, int64_t columns, int64_t steps,
                          int64_t vectors, double epilogue, double times) {
  int64_t lanes = lanes_for(&k->options, columns), whole = (columns + lanes - 1) / lanes;
  for (int tail = 0; tail < 2; tail++) {
    int64_t wide = tail ? whole % vectors : vectors, count = tail ? wide > 0 : whole / vectors;
    double tiles = times * (double)count, accumulators = (double)(rows * wide);
    tn__operations step = {.vector_bytes = (int)(4 * lanes), .fma = accumulators, .other = TN__RULE_TURN};
    step.loads = (double)wide + tn__cost_broadcast(k->target, step.vector_bytes) * (double)rows;
    step.chain = k->target->cpu.machine.core.fma_latency;
    tn__operations end = {
        .vector_bytes = (int)(4 * lanes), .fma = accumulators * (1 + epilogue), .other = TN__RULE_TILE_END};
    end.stores = accumulators;
    end.chain = 2.0 * k->target->cpu.machine.core.fma_latency;
    if (count == 0) continue;
    tn__cost_phase(f, k->target, &step, tiles * (double)steps);
    tn__cost_loop(f, k->target, tiles, (double)steps);
    tn__cost_phase(f, k->target, &end, tiles);
  }
}

static const tn__nest *features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const space *p = k->data;
  int64_t lanes = lanes_for(&k->options, p->columns), score_lanes = lanes_for(&k->options, p->keys);
  int64_t wider = v[VECTORS] > v[SCORE_VECTORS] ? v[VECTORS] : v[SCORE_VECTORS];
  if (v[ROWS] > p->rows || lanes * (v[VECTORS] - 1) >= p->columns || score_lanes * (v[SCORE_VECTORS] - 1) >= p->keys)
    return NULL;
  f->registers = (int)(v[ROWS] * wider + wider + (wider > 1));
  if (f->registers > k->options.registers) return NULL;
  int64_t blocks = (p->rows + v[ROWS] - 1) / v[ROWS];
  f->chunks = v[SHARED] == 0 ? 1 : v[SHARED] == 1 ? p->others : p->others * blocks;
  if (v[SHARED] > 0 && f->chunks < 2) return NULL;
  if (v[SHARED] == 2 && (p->rows % v[ROWS] != 0 || p->open_rows || !is_private(p, v[ROWS]))) return NULL;
  for (int a = 0; a < p->spatial; a++)
    if (a != p->row && a != p->column) f->loops[f->loop_count++] = (tn__nest_loop){a, p->nest.extent[a], 1};
  f->loops[f->loop_count++] = (tn__nest_loop){p->row, blocks, v[ROWS]};
  f->loops[f->loop_count++] =
      (tn__nest_loop){p->column, (p->columns + lanes * v[VECTORS] - 1) / (lanes * v[VECTORS]), lanes * v[VECTORS]};
  f->loops[f->loop_count++] = (tn__nest_loop){p->spatial, p->keys, 1};
  f->loops[f->loop_count++] = (tn__nest_loop){p->row, v[ROWS], 1};
  f->loops[f->loop_count++] = (tn__nest_loop){p->column, lanes * v[VECTORS], 1};
  for (int tail = 0; tail < 2; tail++) {
    int64_t rows = tail ? p->rows % v[ROWS] : v[ROWS];
    int64_t full = p->rows / v[ROWS];
    double count = tail ? 1 : p->open_rows ? (double)p->rows / (double)v[ROWS] : (double)full;
    double times = (double)p->others * count, bytes = 4.0 * (double)(rows * p->keys);
    if (rows == 0 || (tail && p->open_rows)) continue; /* any number of rows may be left over */
    product_phase(k, f, rows, p->keys, p->depth, v[SCORE_VECTORS], p->epilogue, times);
    product_phase(k, f, rows, p->columns, p->keys, v[VECTORS], 0, times);
    tn__operations step = {
        .vector_bytes = (int)(4 * score_lanes), .fma = p->softmax, .loads = 3, .stores = 2, .other = 6};
    tn__cost_phase(f, k->target, &step, times * bytes / (double)step.vector_bytes);
    /* Scores and exponentials in one place, written and read, from L2 where the first is too small. */
    if (bytes > (double)k->target->cpu.machine.l1_bytes)
      f->extra_cycles += times * TN__RULE_SCORE_PASSES * bytes / k->target->cpu.machine.core.l2_bytes;
  }
  f->useful = f->spent = (double)(p->others * p->rows * p->columns);
  return &p->nest;
}

static void open_sketch(tn__sketch *k, tn__schedule *scratch) {
  attention a = {.s = scratch, .ir = scratch->ir, .te = k->te, .options = &k->options};
  prepare(&a);
  space *p = TN__NEW(scratch->arena, space);
  k->data = p;
  *p = (space){.row = a.row, .column = a.column, .spatial = a.result->axes.count, .large = tn__rule_is_large(k->te)};
  tn__nest_of_block(scratch, a.result->name, &p->nest);
  if (p->nest.axis_count != p->spatial + 1 || p->nest.axis_count + 4 > TN__NEST_LOOPS)
    tn__sched_refuse(scratch, "attention: too many axes");
  p->open_rows = p->nest.open[p->row];
  p->open_keys = p->nest.open[p->spatial];
  if (p->nest.open[p->column]) tn__sched_refuse(scratch, "attention: the number of columns is open");
  p->rows = p->nest.extent[p->row];
  p->columns = p->nest.extent[p->column];
  p->keys = p->nest.extent[p->spatial];
  p->others = 1;
  for (int x = 0; x < p->spatial; x++)
    if (x != p->row && x != p->column) p->others *= p->nest.extent[x];
  if (!tn__ir_as_int(a.scores->reduce_axes.var[0]->extent, &p->depth))
    tn__sched_refuse(scratch, "attention: the size of keys is open");
  for (int i = 0; i < tn__te_stage_count(k->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(k->te, i);
    const tn__snode *block = tn__sched_find(scratch, stage->name, true);
    if (block == NULL || stage->kind != TN__TE_COMPUTE || stage == a.output) continue;
    double cost = (double)tn__rule_cost(scratch->ir, block->block.body->as.store.value);
    *(stage == a.shaped ? &p->epilogue : &p->softmax) += cost;
  }
  static const int64_t vectors[] = {1, 2, 3, 4, 6}, shared[] = {0, 1, 2};
  int64_t rows[TN__MAX_CHOICES];
  int n = 0;
  for (int64_t r = 1; r <= 28 && r < k->options.registers; r++) rows[n++] = r;
  tn__sketch_open(k, "rows", rows, n);
  tn__sketch_open(k, "vectors", vectors, 5);
  tn__sketch_open(k, "score vectors", vectors, 5);
  tn__sketch_open(k, "shared", shared, k->options.threads > 1 && p->large ? 3 : 1);
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static const char *part(const tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

/* Rows unrolled around vectors, as in any product; the loop over column tiles and the reduction stay loops. `order` has
 * the loops outside of the tile, in which `row` is whole already. Returns the loop over column tiles. */
static const char *tile(tn__schedule *s, const char *const *outside, int count, const char *row, const char *column,
                        const char *reduction, int64_t vectors, int64_t lanes) {
  const char *order[TN__MAX_LOOPS];
  for (int i = 0; i < count; i++) order[i] = outside[i];
  tn__sched_split(s, column, (const int64_t[]){0, vectors, lanes}, 3);
  order[count] = part(s, column, 0);
  order[count + 1] = reduction;
  order[count + 2] = row;
  order[count + 3] = part(s, column, 1);
  order[count + 4] = part(s, column, 2);
  tn__sched_reorder(s, order, count + 5);
  tn__sched_unroll(s, row);
  tn__sched_unroll(s, order[count + 3]);
  tn__sched_vectorize(s, order[count + 4]);
  return order[count];
}

/* The scores under a block of rows; `consumer` copies or shapes what is in the registers. */
static void tile_scores(const attention *a, int depth, const char *consumer, int64_t vectors, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(a->s, a->scores->name, loops, TN__MAX_LOOPS), n = a->scores->axes.count;
  if (count != depth + n + 1) tn__sched_refuse(a->s, "attention: the scores have other loops than axes");
  const char *const *own = loops + depth, *reduction = own[n];
  tn__sched_set_scope(a->s, a->scores->name, 0, TN__SCOPE_REGISTER);
  const char *tiles = tile(a->s, own, n - 2, own[n - 2], own[n - 1], reduction, vectors, lanes);
  tn__sched_reverse_compute_at(a->s, consumer, tiles);
  tn__sched_decompose_reduction(a->s, a->scores->name, reduction);
}

/* Under a block of rows, where the stage's rows are as long as there are keys. */
static void place_rows(const attention *a, const space *p, int64_t rows, const char *name, bool long_rows,
                       const char *blocks) {
  tn__sched_compute_at(a->s, name, blocks);
  if (long_rows && !is_private(p, rows))
    tn__sched_fold_storage(a->s, name, 0, blocks);
  else
    tn__sched_set_scope(a->s, name, 0, TN__SCOPE_STACK);
}

static bool has_short_rows(const tn__te_stage *stage) {
  return tn__ir_is_int_value(stage->axes.var[stage->axes.count - 1]->extent, 1);
}

/* Rows that are mapped element by element, and not read any more, make room for what comes of them. */
static void store_over_rows(tn__schedule *s, const char *name) {
  const tn__block *block = &tn__sched_find(s, name, true)->block;
  for (int r = 0; r < block->read_count; r++) {
    if (tn__sched_cannot_store_over(s, block->writes[0].buffer, block->reads[r].buffer) != NULL) continue;
    tn__sched_store_over(s, name, r);
    return;
  }
}

static void apply(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  const space *p = k->data;
  attention a = {.s = s, .ir = s->ir, .te = k->te, .options = &k->options};
  prepare(&a);
  const char *loops[TN__MAX_LOOPS], *outside[TN__MAX_LOOPS], *shaped, *result = a.result->name;
  int count = tn__sched_loops_of(s, result, loops, TN__MAX_LOOPS), n = 0;
  if (count != p->spatial + 1) tn__sched_refuse(s, "attention: the result has other loops than axes");
  if (a.shaped == NULL) tn__sched_cache_write(s, a.scores->name, 0, TN__SCOPE_REGISTER);
  shaped = a.shaped != NULL ? a.shaped->name : tn__arena_printf(s->arena, "%s.write", a.scores->name);
  for (int x = 0; x < p->spatial; x++)
    if (x != p->row && x != p->column) outside[n++] = loops[x];
  tn__sched_split(s, loops[p->row], (const int64_t[]){0, v[ROWS]}, 2);
  const char *blocks = outside[n++] = part(s, loops[p->row], 0), *row = part(s, loops[p->row], 1);
  const char *tiles =
      tile(s, outside, n, row, loops[p->column], loops[p->spatial], v[VECTORS], lanes_for(&k->options, p->columns));
  /* The result first: what is computed from it may read numbers of its rows. */
  const char *consumer = a.output->name;
  if (a.output == a.result) {
    tn__sched_cache_write(s, result, 0, TN__SCOPE_REGISTER);
    consumer = tn__arena_printf(s->arena, "%s.write", result);
  } else {
    tn__sched_set_scope(s, result, 0, TN__SCOPE_REGISTER);
  }
  tn__sched_reverse_compute_at(s, consumer, tiles);
  tn__sched_decompose_reduction(s, result, loops[p->spatial]);
  /* Under a block of rows, the last reader first. */
  for (int i = tn__te_stage_count(a.te) - 1; i >= 0; i--) {
    const tn__te_stage *stage = tn__te_stage_at(a.te, i);
    if (stage == a.result || stage == a.output || tn__sched_find(s, stage->name, true) == NULL) continue;
    if (stage == a.scores && a.shaped == NULL) place_rows(&a, p, v[ROWS], shaped, true, blocks);
    if (stage == a.scores)
      tn__sched_compute_at(s, stage->name, blocks);
    else
      place_rows(&a, p, v[ROWS], stage->name, !has_short_rows(stage), blocks);
  }
  tile_scores(&a, n, shaped, v[SCORE_VECTORS], lanes_for(&k->options, p->keys));
  for (int i = 0; i < tn__te_stage_count(a.te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(a.te, i);
    if (stage == a.result || stage == a.output || stage == a.scores || stage == a.shaped) continue;
    if (tn__sched_find(s, stage->name, true) == NULL) continue;
    if (stage->kind == TN__TE_REDUCE) {
      tn__rule_reduce_along(s, stage->name, &k->options, 2);
    } else if (!has_short_rows(stage)) {
      store_over_rows(s, stage->name);
      tn__rule_vectorize_map(s, stage->name, n, &k->options);
    }
  }
  if (v[SHARED] == 0) return;
  const char *outermost = outside[0];
  for (int i = 1; i < n - 1 + (v[SHARED] == 2); i++) {
    tn__sched_fuse(s, outermost, outside[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, outside[i]);
  }
  tn__sched_parallel(s, outermost);
}

const tn__rule tn__rule_attention = {"attention", matches, open_sketch, features, apply};
