/* Scans whose steps evaluate other stages: recurrent networks, hidden Markov models, dynamic programming. The loop over
 * the steps stays outermost, and each stage has a nest of its own in it. Reductions run in tiles of registers: vectors
 * of neighbouring results, of several rows (those of a batch) where these read the same operand, each term in its
 * order. What lies contiguous along the reduction is turned once before the scan. */
#include <math.h>

#include "base/invariant.h"
#include "schedule/rules/reduce.h"

/* Steps of a scan whose number is open. */
#define USUAL_STEPS 64
/* Passes over an operand that its turned copy takes, at the least: of each element one is loaded, and two are
 * stored and loaded in tiles. */
#define PASSES_OF_A_COPY 4
/* Operations of one term in all lanes and rows of a tile: code beyond that only takes time in the compiler. */
#define MOST_OF_A_TURN 160
typedef struct recurrence {
  tn__schedule *s;
  const tn__te_stage *scan;
  const tn__schedule_options *options;
  double steps;
} recurrence;

static bool is_step_of(const recurrence *c, const tn__te_stage *stage) {
  for (int t = 0; t < c->scan->tensor_count; t++)
    if (stage->step_of == c->scan->tensors[t]) return true;
  return false;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

static double points_of(const tn__snode *block) {
  double points = 1;
  for (int a = 0; a < block->block.axis_count; a++) points *= tn__ir_extent_estimate(block->block.axes[a].var->extent);
  return points;
}

/* Inlines maps of the step that cost little more where they are read: an element is computed once for each time that it
 * is read, and does not go through memory. */
static void dissolve_maps(recurrence *c) {
  tn__schedule *s = c->s;
  for (int i = tn__te_stage_count(s->te) - 1; i >= 0; i--) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (!is_step_of(c, stage) || stage->kind != TN__TE_COMPUTE) continue;
    if (tn__sched_is_output(s, stage->tensors[0]) || tn__sched_is_bounding(s, stage->tensors[0])) continue;
    const tn__snode *block = tn__sched_find(s, stage->name, true);
    double cost = (double)tn__rule_cost(s->ir, block->block.body->as.store.value), own = points_of(block), reads = 0;
    tn__snodes readers = {0};
    tn__sched_readers(s, stage->tensors[0], &readers);
    for (int r = 0; r < readers.count; r++) reads += points_of(readers.data[r]);
    if (reads * cost <= own * (cost + 2) + reads) tn__sched_inline_if_small(s, stage->name);
  }
}

static int64_t lanes_of(const recurrence *c, const tn__snode *block) {
  int64_t widest = 1;
  for (int w = 0; w < block->block.write_count; w++) {
    int64_t bytes = (int64_t)tn_dtype_size(block->block.writes[w].buffer->dtype);
    if (bytes > widest) widest = bytes;
  }
  return c->options->vector_bytes / widest;
}

/* Vectors along the last loop, if it is none over steps. */
static void vectorize_last(recurrence *c, const char *name) {
  tn__schedule *s = c->s;
  const tn__snode *block = tn__sched_find(s, name, true);
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, name, loops, TN__MAX_LOOPS);
  if (count < 2 || tn__sched_drives(tn__sched_find(s, loops[count - 1], false), block, TN__AXIS_SCAN)) return;
  int64_t extent = tn__rule_loop_extent(s, loops[count - 1]), lanes = lanes_of(c, block);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  tn__sched_split(s, loops[count - 1], (const int64_t[]){0, lanes}, 2);
  tn__sched_vectorize(s, tn__reduce_last_loop(s, name));
}

/* ---- what reductions read ---------------------------------------------------------------------------------------- */

typedef struct operands {
  tn__schedule *s;
  tn__snode *block;
  const tn__var *axis, *steps; /* of the results, and of the scan */
  const tn__expr *turned[4];   /* what is contiguous along `axis` once it is turned, before the scan */
  int turned_count, moving;
  bool possible;
} operands;

/* The only dimension that the axis is an index of, by itself; -1: there is none. */
static int dimension_of(const tn__expr *load, const tn__var *axis) {
  int found = -1;
  for (int d = 0; d < load->arg_count; d++) {
    if (!tn__expr_uses_var(load->args[d], axis)) continue;
    if (found >= 0 || load->args[d] != axis->self) return -1;
    found = d;
  }
  return found;
}

/* Is the tensor complete before the scan begins, and read at the same places in all steps? */
static bool can_be_turned(const operands *o, const tn__expr *load) {
  tn__schedule *s = o->s;
  tn__snodes writers = {0};
  if (dimension_of(load, o->axis) < 0 || tn__expr_uses_var(load, o->steps)) return false;
  tn__sched_writers(s, load->value.buffer, &writers);
  for (int i = 0; i < writers.count; i++)
    if (tn__sched_root_nest(s, writers.data[i]) == tn__sched_root_nest(s, o->block)) return false;
  return !tn__sched_is_bounding(s, load->value.buffer);
}

static void see_operand(const tn__expr *e, void *user) {
  operands *o = user;
  int64_t stride;
  if (e->kind != TN__EXPR_LOAD || !tn__expr_uses_var(e, o->axis)) return;
  for (int w = 0; w < o->block->block.write_count; w++)
    if (o->block->block.writes[w].buffer == e->value.buffer) return;
  const tn__expr *flat = tn__buffer_flatten(o->s->ir, e->value.buffer, e->args);
  o->moving++;
  if (tn__ir_stride_in(o->s->ir, flat, o->axis, &stride) && stride == 1) return;
  bool known = false;
  for (int i = 0; i < o->turned_count; i++) known |= o->turned[i]->value.buffer == e->value.buffer;
  if (known || o->turned_count == 4 || !can_be_turned(o, e))
    o->possible = false;
  else
    o->turned[o->turned_count++] = e;
}

static void see_operands(const tn__expr *e, void *user) {
  operands *o = user;
  tn__te_visit(o->s->ir, e, see_operand, o);
}

/* A copy with the dimension that `axis` is the index of innermost, made before the scan. */
static void turn_operand(recurrence *c, const char *name, const tn__expr *load, const tn__var *axis) {
  const tn__snode *block = tn__sched_find(c->s, name, true);
  int order[TN__MAX_RANK], n = 0, last = dimension_of(load, axis);
  for (int d = 0; d < load->arg_count; d++)
    if (d != last) order[n++] = d;
  order[n++] = last;
  for (int r = 0; r < block->block.read_count; r++) {
    if (block->block.reads[r].buffer != load->value.buffer) continue;
    const char *copy = tn__sched_cache_read_in_order(c->s, name, r, TN__SCOPE_WORKSPACE, order, n);
    int contiguous = 0;
    for (int d = 0; d < n; d++)
      if (order[d] == n - 1) contiguous = d;
    tn__rule_turn(c->s, copy, contiguous, c->options);
    return;
  }
}

/* ---- tiles of reductions ----------------------------------------------------------------------------------------- */

typedef struct tile {
  recurrence *c;
  const char *name;
  tn__nest nest;
  int across, down; /* axes of the block that lanes and rows run along; -1: none */
  int64_t lanes, vectors, rows;
  double operations, terms; /* of a term; of a result */
  int tensors;
} tile;

static bool is_results(const tn__snode *block, int axis) {
  const tn__block_axis *a = &block->block.axes[axis];
  return a->kind == TN__AXIS_SPATIAL && !tn__ir_is_int_value(a->var->extent, 1);
}

/* The last axis of the results along which all that moves is contiguous, or becomes so by copies that the steps pay
 * for. */
TN_MUST_USE static int axis_across(recurrence *c, tn__snode *block, operands *found) {
  for (int a = block->block.axis_count - 1; a >= 0; a--) {
    operands o = {.s = c->s, .block = block, .axis = block->block.axes[a].var, .possible = true};
    int64_t extent;
    if (!is_results(block, a)) continue;
    if (tn__ir_as_int(o.axis->extent, &extent) && 4 * extent < lanes_of(c, block)) continue;
    for (int x = 0; x < block->block.axis_count; x++)
      if (block->block.axes[x].kind == TN__AXIS_SCAN) o.steps = block->block.axes[x].var;
    tn__stmt_walk_exprs(block->block.body, see_operands, &o);
    double passes = c->steps;
    for (int x = 0; x < block->block.axis_count && o.turned_count > 0; x++)
      if (is_results(block, x) && !tn__expr_uses_var(o.turned[0], block->block.axes[x].var) &&
          tn__ir_as_int(block->block.axes[x].var->extent, &extent))
        passes *= (double)extent;
    if (!o.possible || o.moving == 0 || (o.turned_count > 0 && passes < PASSES_OF_A_COPY)) continue;
    *found = o;
    return a;
  }
  return -1;
}

static bool moves(const tn__nest_access *a, int axis) { return a->scattered || a->along[axis].stride != 0; }

/* The last other axis of the results along which something stands still that moves with the lanes: rows of a tile share
 * it. */
static int axis_down(const tile *t, const tn__snode *block) {
  for (int x = block->block.axis_count - 1; x >= 0; x--) {
    if (x == t->across || !is_results(block, x)) continue;
    for (int i = 0; i < t->nest.access_count; i++)
      if (!t->nest.access[i].store && moves(&t->nest.access[i], t->across) && !moves(&t->nest.access[i], x)) return x;
  }
  return -1;
}

/* Cycles of a tile of so many rows and vectors, of all of its terms. */
static double tile_cycles(const tile *t, int64_t rows, int64_t vectors) {
  const tn__target *target = t->c->s->target;
  const tn__core *core = &target->cpu.machine.core;
  tn__operations ops = {.vector_bytes = t->c->options->vector_bytes, .other = TN__RULE_TURN};
  double far = 0, bytes = 0;
  ops.fma = t->operations * (double)(rows * vectors);
  for (int i = 0; i < t->nest.access_count; i++) {
    const tn__nest_access *a = &t->nest.access[i];
    bool with_lanes = moves(a, t->across), with_rows = t->down >= 0 && moves(a, t->down);
    if (a->store) continue;
    double times = (double)(with_lanes ? vectors : 1) * (double)(with_rows ? rows : 1);
    if (with_lanes && (a->scattered || a->along[t->across].stride != a->element))
      ops.gathers += times * (double)t->lanes;
    else
      ops.loads += times;
    if (!with_lanes || with_rows) continue;
    far += (double)(vectors * t->c->options->vector_bytes);
    bytes += (double)a->element * t->terms * (double)t->nest.extent[t->across];
  }
  ops.chain = core->fma_latency;
  double cycles = tn__sketch_operation_cycles(target, &ops);
  double near = bytes > (double)target->cpu.machine.l2_bytes * TN__RULE_NEAR ? core->l3_bytes : core->l2_bytes;
  if (bytes > (double)target->cpu.machine.l1_bytes * TN__RULE_NEAR && far / near > cycles) cycles = far / near;
  return t->terms * cycles + TN__RULE_TILE_END + (double)(rows * vectors * t->tensors);
}

/* How many rows and vectors make a tile: what takes least for all of them, with registers for the sums, and for the
 * vectors that rows share. */
static void choose_tile(tile *t) {
  int64_t across = t->nest.extent[t->across], down = t->down < 0 ? 1 : t->nest.extent[t->down];
  bool open = t->nest.open[t->across] || (t->down >= 0 && t->nest.open[t->down]);
  int64_t all = (across + t->lanes - 1) / t->lanes;
  double best = INFINITY;
  for (int64_t rows = 1; rows <= down && rows <= t->c->options->registers; rows++)
    for (int64_t vectors = all < t->c->options->registers ? all : t->c->options->registers; vectors >= 1; vectors--) {
      int64_t pieces = (all + vectors - 1) / vectors;
      if ((all + pieces - 1) / pieces != vectors) continue; /* fewer do as well */
      int64_t registers = t->tensors * rows * vectors + (rows > 1 ? vectors : 1) + 2;
      if (rows * vectors > 1 && (registers > t->c->options->registers ||
                                 t->operations * (double)(rows * vectors) > MOST_OF_A_TURN || (open && vectors > 4)))
        continue;
      int64_t whole = down / rows;
      double cycles = (double)whole * tile_cycles(t, rows, vectors);
      if (down % rows > 0) cycles += tile_cycles(t, down % rows, vectors);
      cycles *= (double)pieces;
      if (cycles >= best) continue;
      best = cycles;
      t->rows = rows;
      t->vectors = vectors;
    }
}

/* What the block's own tensors are, where the results go that others read. */
TN_MUST_USE static int keep_in_registers(recurrence *c, const char *name, const char **writers) {
  tn__schedule *s = c->s;
  const tn__snode *block = tn__sched_find(s, name, true);
  int count = 0;
  for (int w = 0; w < block->block.write_count; w++) {
    tn__snodes readers = {0};
    tn__sched_readers(s, block->block.writes[w].buffer, &readers);
    if (readers.count < 2 && !tn__sched_is_output(s, block->block.writes[w].buffer)) {
      tn__sched_set_scope(s, name, w, TN__SCOPE_REGISTER);
      continue;
    }
    writers[count++] = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", name));
    tn__sched_cache_write(s, name, w, TN__SCOPE_REGISTER);
  }
  return count;
}

/* The outermost loop that drives the axis. */
static const tn__snode *loop_of_axis(const tn__schedule *s, const tn__snode *block, int axis) {
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path);
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(block->block.axes[axis].binding, path[i]->var)) return path[i];
  return NULL;
}

/* Tiles of vectors across the results, columns of tiles outside of rows: what the rows share stays near. */
static void run_tiles(tile *t) {
  tn__schedule *s = t->c->s;
  tn__snode *block = tn__sched_find(s, t->name, true), *path[TN__MAX_LOOPS];
  const char *order[TN__MAX_LOOPS], *writers[4], *inner[3], *reduction = NULL;
  int n = 0, count, writer_count = keep_in_registers(t->c, t->name, writers);
  const char *across = loop_of_axis(s, block, t->across)->name;
  const char *down = t->down >= 0 && t->rows > 1 ? loop_of_axis(s, block, t->down)->name : NULL;
  tn__sched_split(s, across, (const int64_t[]){0, t->vectors, t->lanes}, 3);
  if (down != NULL) tn__sched_split(s, down, (const int64_t[]){0, t->rows}, 2);
  count = tn__sched_path(s, s->root, block, path);
  const tn__var *lanes[3] = {NULL}, *rows[2] = {NULL};
  for (int i = 0, l = 0, r = 0; i < count; i++) {
    if (tn__expr_uses_var(block->block.axes[t->across].binding, path[i]->var)) lanes[l++] = path[i]->var;
    if (down != NULL && tn__expr_uses_var(block->block.axes[t->down].binding, path[i]->var)) rows[r++] = path[i]->var;
  }
  for (int i = 1; i < count; i++) {
    bool in_tile = path[i]->var == lanes[0] || path[i]->var == lanes[1] || path[i]->var == lanes[2] ||
                   path[i]->var == rows[0] || path[i]->var == rows[1];
    if (!in_tile && !tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) order[n++] = path[i]->name;
  }
  TN__INVARIANT(lanes[0] != NULL && lanes[1] != NULL && lanes[2] != NULL);
  TN__INVARIANT(down == NULL || (rows[0] != NULL && rows[1] != NULL));
  order[n++] = lanes[0]->name;
  if (down != NULL) order[n++] = rows[0]->name;
  const char *place = order[n - 1];
  for (int i = 1; i < count; i++)
    if (tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) {
      if (reduction == NULL) reduction = path[i]->name;
      order[n++] = path[i]->name;
    }
  int inner_count = 0;
  if (down != NULL) inner[inner_count++] = order[n++] = rows[1]->name;
  inner[inner_count++] = order[n++] = lanes[1]->name;
  inner[inner_count++] = order[n++] = lanes[2]->name;
  tn__sched_reorder(s, order, n);
  for (int i = 0; i < inner_count - 1; i++) tn__sched_unroll(s, inner[i]);
  tn__sched_vectorize(s, inner[inner_count - 1]);
  for (int i = 0; i < writer_count; i++) tn__sched_reverse_compute_at(s, writers[i], place);
  if (reduction != NULL) tn__sched_decompose_reduction(s, t->name, reduction);
}

static void run_reduction(recurrence *c, const tn__te_stage *stage) {
  tn__schedule *s = c->s;
  tn__snode *block = tn__sched_find(s, stage->name, true);
  operands found;
  tile t = {.c = c, .name = stage->name, .terms = 1, .tensors = block->block.write_count, .lanes = lanes_of(c, block)};
  t.across = axis_across(c, block, &found);
  if (t.across < 0 || block->block.axis_count > TN__NEST_AXES) {
    /* A step waits for all of it: short sums lose more where their vectors are added up than by too few of them. */
    bool is_long = tn__reduce_volume(&stage->reduce_axes, NULL) >= TN__RULE_FILLED * TN__RULE_CHAINS * (double)t.lanes;
    tn__rule_reduce_along(s, stage->name, c->options, is_long ? 4 : 2);
    return;
  }
  for (int i = 0; i < found.turned_count; i++) turn_operand(c, stage->name, found.turned[i], found.axis);
  tn__nest_of_block(s, stage->name, &t.nest);
  while (!t.nest.open[t.across] && t.lanes > t.nest.extent[t.across] && t.lanes > 2) t.lanes /= 2;
  for (int a = 0; a < block->block.axis_count; a++)
    if (block->block.axes[a].kind == TN__AXIS_REDUCE) t.terms *= (double)t.nest.extent[a];
  for (int i = 0; i < stage->tensor_count; i++) {
    t.operations += (double)tn__rule_cost(s->ir, stage->values[i]);
    t.operations += (double)tn__rule_cost(s->ir, stage->combiner->result[i]);
    if (stage->values[i]->kind == TN__EXPR_MUL && stage->combiner->result[i]->kind == TN__EXPR_ADD) t.operations--;
  }
  t.down = axis_down(&t, block);
  choose_tile(&t);
  run_tiles(&t);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Threads share the results of a step where it is worth waking them for each: those of one element depend on no
 * thread. */
static void share_step(recurrence *c, const tn__te_stage *stage) {
  tn__schedule *s = c->s;
  tn__snode *block = tn__sched_find(s, stage->name, true), *path[TN__MAX_LOOPS];
  int64_t extent;
  double work = tn__reduce_volume(&stage->axes, &stage->reduce_axes) / c->steps;
  if (!tn__rule_shares(s, c->options) || tn__sched_path(s, s->root, block, path) < 2) return;
  if (2 * work < TN__RULE_LARGE || !tn__ir_as_int(path[1]->var->extent, &extent) || extent < 2) return;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, path[1], &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (!tn__sched_disjoint(s, path[1], blocks.data[i])) return;
  if (path[1]->kind == TN__LOOP_SERIAL) tn__sched_parallel(s, path[1]->name);
}

/* ---- storage ----------------------------------------------------------------------------------------------------- */

/* A step's tensors are made and used up in it. */
static void keep_for_a_step(recurrence *c, const tn__te_stage *stage, const char *loop) {
  tn__schedule *s = c->s;
  for (int t = 0; t < stage->tensor_count; t++) {
    const tn__buffer *buffer = stage->tensors[t];
    tn__snodes writers = {0}, readers = {0};
    double bytes = (double)tn_dtype_size(buffer->dtype);
    int64_t extent;
    tn__sched_writers(s, buffer, &writers);
    tn__sched_readers(s, buffer, &readers);
    if (writers.count == 0 || readers.count == 0 || tn__sched_is_bounding(s, buffer)) continue;
    const tn__snode *writer = writers.data[0];
    int at = 0;
    while (writer->block.writes[at].buffer != buffer) at++;
    for (int d = 1; d < buffer->rank; d++)
      bytes *= tn__ir_as_int(buffer->shape[d], &extent) ? (double)extent : INFINITY;
    if (bytes <= TN__RULE_PRIVATE_ROW_BYTES)
      tn__sched_set_scope(s, writer->name, at, TN__SCOPE_STACK);
    else
      tn__sched_fold_storage(s, writer->name, at, loop);
  }
}

void tn__rule_recurrence(tn__schedule *s, const tn__te_stage *scan, const tn__schedule_options *options) {
  recurrence c = {.s = s, .scan = scan, .options = options, .steps = USUAL_STEPS};
  tn__snode *path[TN__MAX_LOOPS];
  int64_t extent;
  int loops = tn__sched_path(s, s->root, tn__sched_find(s, scan->name, true), path);
  if (loops > 0 && tn__ir_as_int(path[0]->var->extent, &extent)) c.steps = (double)extent;
  dissolve_maps(&c);
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (!is_step_of(&c, stage) || tn__sched_find(s, stage->name, true) == NULL) continue;
    bool bounds = false;
    for (int t = 0; t < stage->tensor_count; t++) bounds |= tn__sched_is_bounding(s, stage->tensors[t]);
    if (bounds) continue;
    if (stage->kind == TN__TE_REDUCE) run_reduction(&c, stage);
    if (stage->kind == TN__TE_COMPUTE) vectorize_last(&c, stage->name);
    if (stage->kind == TN__TE_REDUCE) share_step(&c, stage);
    keep_for_a_step(&c, stage, path[0]->name);
  }
  vectorize_last(&c, scan->name);
}
