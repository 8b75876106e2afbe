/* Maps that read a tensor whose contiguous axis is not the output's: transpositions, changes between channels first and
 * last, packing, alone or with element-wise work. Both sides are walked in whole vectors and the tile between them is
 * transposed in registers:
 *
 *   parallel over the other axes and blocks:
 *     for column tiles:  for row tiles of the block:
 *       rows of the input, vectors along what is contiguous there -> registers
 *       rows of the output, vectors along what is contiguous here
 *
 * A block is as many row tiles as pass by while the columns stand still: with many the input is read along its rows and
 * the output is written in pieces of a vector, one below the other; with few it is the other way round.
 *
 * From memory the input goes in strips instead, so many column tiles below each other while the rows' tile stands
 * still. Each tile fetches the lines of the tile that stands two row tiles further, so that neither the lengths of runs
 * nor pages keep anybody waiting, and the output is written in runs of a whole strip. */
#include <math.h>

#include "schedule/rules/rules.h"

/* ---- recognising ------------------------------------------------------------------------------------------------- */

/* The one block and its loops, fused where that changes nothing for any access. */
typedef struct turned {
  const tn__snode *block;
  tn__snode *path[TN__MAX_LOOPS];
  int count, rows, lanes; /* the loops along what the input, and what the output has contiguous */
} turned;

typedef struct finding {
  tn__schedule *s;
  const turned *t;
  int votes[TN__MAX_LOOPS];
} finding;

static const tn__expr *flat_of(const tn__schedule *s, const tn__snode *block, const tn__buffer *buffer,
                               const tn__expr *const *indices) {
  return tn__sched_substitute_axes(s->ir, &block->block, tn__buffer_flatten(s->ir, buffer, indices));
}

/* Which loop would this load be read along? Strides of a few elements are dealt with by shuffles anyway. */
static void vote(const tn__expr *e, void *user) {
  enum { NEAR = 4 };
  finding *f = user;
  const turned *t = f->t;
  tn__ir *ir = f->s->ir;
  int64_t stride, extent;
  if (e->kind != TN__EXPR_LOAD) return;
  const tn__expr *flat = flat_of(f->s, t->block, e->value.buffer, e->args);
  bool affine = tn__ir_stride_in(ir, flat, t->path[t->lanes]->var, &stride);
  if (affine && (stride == 0 || stride == 1)) return;
  for (int i = 0; i < t->count; i++) {
    int64_t along;
    if (i == t->lanes || tn__ir_is_int_value(t->path[i]->var->extent, 1)) continue;
    if (!tn__ir_stride_in(ir, flat, t->path[i]->var, &along) || along != 1) continue;
    bool few = tn__ir_as_int(t->path[i]->var->extent, &extent) && extent <= NEAR;
    if (!few || !affine || stride > NEAR) f->votes[i]++;
  }
}

/* Finds the loops of the block; what is wrong with them, or NULL. */
static const char *find_sides(tn__schedule *s, turned *t) {
  t->count = tn__rule_fuse(s, t->block, t->path);
  for (int i = 0; i < t->count; i++)
    if (tn__ir_is_int_value(t->path[i]->var->extent, 0)) return "there is nothing to move";
  const tn__stmt *body = t->block->block.body;
  const tn__expr *flat = flat_of(s, t->block, body->as.store.buffer, body->as.store.indices);
  int64_t stride;
  t->lanes = t->rows = -1;
  for (int i = 0; i < t->count; i++)
    if (!tn__ir_is_int_value(t->path[i]->var->extent, 1) && tn__ir_stride_in(s->ir, flat, t->path[i]->var, &stride) &&
        stride == 1)
      t->lanes = i;
  if (t->lanes < 0) return "the output is not contiguous along any axis";
  finding f = {.s = s, .t = t};
  tn__te_visit(s->ir, body->as.store.value, vote, &f);
  for (int i = 0; i < t->count; i++)
    if (f.votes[i] > 0 && (t->rows < 0 || f.votes[i] >= f.votes[t->rows])) t->rows = i;
  return t->rows < 0 ? "nothing is contiguous along another axis than the output" : NULL;
}

/* Inlines everything into the output's block and finds its loops; throws when nothing is turned there. */
static void find_turned(tn__schedule *s, turned *t) {
  const tn__te *te = s->te;
  for (int i = 0; i < tn__te_stage_count(te); i++)
    if (!tn__te_is_output(te, tn__te_stage_at(te, i)->tensors[0])) tn__sched_inline(s, tn__te_stage_at(te, i)->name);
  t->block = tn__sched_block(s, "transpose", tn__te_stage_of(te, tn__te_output_at(te, 0))->name);
  const char *why = find_sides(s, t);
  if (why != NULL) tn__sched_refuse(s, "transpose: %s", why);
}

static bool matches(const tn__te *te) {
  for (int i = 0; i < tn__te_stage_count(te); i++)
    if (tn__te_stage_at(te, i)->kind != TN__TE_COMPUTE) return false;
  return tn__te_output_count(te) == 1;
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

/* Their places in a sketch's values. */
enum { ROWS, LANES, BLOCK, STREAM, STRIP };

/* Column tiles that pass by between fetching lines and using them. */
#define TILES_AHEAD 2

typedef struct transposition {
  tn__nest nest; /* over the loops, not the block's axes */
  int rows, lanes, element;
  double cost;          /* operations of one element */
  double bytes, stored; /* of all tensors; of the output */
  bool large;
} transposition;

static void add_access(const tn__schedule *s, const turned *t, tn__nest *nest, const tn__buffer *buffer,
                       const tn__expr *const *indices, bool store) {
  if (nest->access_count == TN__NEST_ACCESSES) return;
  const tn__expr *flat = flat_of(s, t->block, buffer, indices);
  tn__nest_access *a = &nest->access[nest->access_count++];
  *a = (tn__nest_access){.element = (int64_t)tn_dtype_size(buffer->dtype), .store = store};
  for (int i = 0; i < t->count; i++) {
    int64_t stride = 1;
    a->scattered |= !tn__ir_stride_in(s->ir, flat, t->path[i]->var, &stride);
    a->along[i].stride = (stride < 0 ? -stride : stride) * a->element;
  }
}

typedef struct loads {
  const tn__schedule *s;
  const turned *t;
  transposition *out;
} loads;

static void see_value(const tn__expr *e, void *user) {
  loads *l = user;
  if (e->kind == TN__EXPR_LOAD) add_access(l->s, l->t, &l->out->nest, e->value.buffer, e->args, false);
  int bytes = (int)tn_dtype_size(e->dtype);
  if (e->dtype != TN_I64 && bytes > l->out->element) l->out->element = bytes; /* indices are no values */
}

/* Powers of two from `least` on that `extent` holds and of which `most` bytes hold as many; a short extent as it is. */
TN_MUST_USE static int sides(int64_t extent, int64_t element, int64_t most, int64_t *out) {
  int n = 0;
  for (int64_t side = 4; side <= extent && side <= TN__MOST_TILE_SIDE && side * element <= most; side *= 2)
    out[n++] = side;
  if (n == 0) out[n++] = extent < 4 ? extent : 4;
  return n;
}

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The row tiles of a block: as many as wanted, or the next smaller number that divides them all. */
static int64_t block_of(int64_t wanted, int64_t row_tiles) {
  if (wanted == 0 || wanted >= row_tiles) return row_tiles;
  while (row_tiles % wanted != 0) wanted--;
  return wanted;
}

static bool is_far(const tn__sketch *k, const transposition *d) {
  return d->bytes > TN__RULE_FAR_FILLED * (double)k->target->cpu.machine.l3_bytes;
}

static void open_transpose(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t blocks[] = {0, 1, 2, 4, 8, 16, 32, 64}, strips[] = {0, 32};
  turned t;
  transposition *d = TN__NEW(scratch->arena, transposition);
  find_turned(scratch, &t);
  if (t.count > TN__NEST_AXES) tn__sched_refuse(scratch, "transpose: more than %d loops", TN__NEST_AXES);
  d->rows = t.rows;
  d->lanes = t.lanes;
  d->nest.axis_count = t.count;
  for (int i = 0; i < t.count; i++) {
    d->nest.open[i] = !tn__ir_as_int(t.path[i]->var->extent, &d->nest.extent[i]);
    if (d->nest.open[i]) d->nest.extent[i] = TN__OPEN_EXTENT;
  }
  const tn__stmt *body = t.block->block.body;
  loads l = {scratch, &t, d};
  d->element = (int)tn_dtype_size(body->as.store.buffer->dtype);
  add_access(scratch, &t, &d->nest, body->as.store.buffer, body->as.store.indices, true);
  tn__te_visit(scratch->ir, body->as.store.value, see_value, &l);
  tn__nest_finish(&d->nest);
  for (int i = 0; i < d->nest.access_count; i++) {
    double bytes = tn__nest_footprint(k->target, &d->nest.access[i], d->nest.extent);
    d->bytes += bytes;
    if (d->nest.access[i].store) d->stored += bytes;
  }
  d->cost = (double)tn__rule_cost(scratch->ir, body->as.store.value);
  d->large = tn__rule_is_large(k->te);
  k->data = d;
  /* A line, or a vector where that is longer. */
  const int line_bytes = k->target->cpu.machine.costs.line_bytes, vector_bytes = k->options.vector_bytes;
  const int longest = line_bytes > vector_bytes ? line_bytes : vector_bytes;
  int64_t choices[TN__MAX_CHOICES];
  int n = sides(d->nest.extent[t.rows], d->element, longest, choices);
  tn__sketch_open(k, "rows", choices, n);
  n = sides(d->nest.extent[t.lanes], d->element, longest, choices);
  tn__sketch_open(k, "lanes", choices, n);
  tn__sketch_open(k, "block", blocks, sizeof(blocks) / sizeof(blocks[0]));
  tn__rule_open_stream(k);
  tn__sketch_open(k, "strip", strips, is_far(k, d) ? sizeof(strips) / sizeof(strips[0]) : 1);
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

/* The shuffles of vectors of `lanes` that turn rows x lanes elements around: the stages, and joining short rows, which
 * loads do half of. Long rows are loaded in pieces. */
static double shuffles_of(int64_t rows, int64_t lanes) {
  double side = (double)(rows < lanes ? rows : lanes), joined = rows < lanes ? (double)(lanes - rows) : 0;
  return (double)rows * ceil(log2(side)) + joined / 2;
}

/* How many lines (or pages) `stride` bytes apart are found again: those of each set that they meet in. Where they meet
 * in all sets the other side of the tile does, too. */
static double held(int64_t count, int64_t bytes_each, int64_t stride) {
  int64_t step = bytes_each, kept = count;
  while (step < stride && kept > 1 && stride % (2 * step) == 0) {
    step *= 2;
    kept /= 2;
  }
  return kept == count ? TN__RULE_ONE_SIDE * (double)kept : (double)kept;
}

/* Cycles for a line of which a piece is used: when `whole` it is not used again; otherwise it may be gone by then, as
 * `live` lines, `stride` bytes apart, are used in between. Where these lie on more pages than the TLBs
 * hold, each costs something in any case, stores more than loads, which overlap. */
static double late_cycles(const tn__sketch *k, int64_t stride, double live, bool whole, bool store, bool fetched) {
  const tn__machine *machine = &k->target->cpu.machine;
  const tn__core *core = &machine->core;
  const int64_t line_bytes = machine->costs.line_bytes, page_bytes = machine->costs.page_bytes;
  int64_t lines = machine->l1_bytes / line_bytes, far_lines = k->options.cache_bytes / line_bytes;
  double pages = live * (double)(stride < page_bytes ? stride : page_bytes) / (double)page_bytes;
  double cycles = whole ? 0 : TN__RULE_PIECE;
  if (store && pages > machine->costs.streams) cycles += TN__RULE_MANY_STREAMS;
  if (pages > held(machine->costs.pages, page_bytes, stride))
    cycles += store ? TN__RULE_STORE_PAGE : TN__RULE_LOAD_PAGE;
  if (live <= held(lines, line_bytes, stride)) return cycles;
  if (whole) return store || fetched ? cycles : cycles + TN__RULE_FETCHED_IN_VAIN;
  int bytes = live <= held(far_lines, line_bytes, stride) ? core->l2_bytes : core->l3_bytes;
  return cycles + (double)line_bytes / bytes;
}

/* One access of a tile. */
static void add_operations(const tn__sketch *k, const tn__nest_access *a, const int64_t *v, int64_t block,
                           tn__operations *ops, tn__sketch_features *f, double *late) {
  const transposition *d = k->data;
  const int line_bytes = k->target->cpu.machine.costs.line_bytes;
  const tn__nest *nest = &d->nest;
  int64_t rows = v[ROWS], lanes = v[LANES], along_rows = a->along[d->rows].stride,
          along_lanes = a->along[d->lanes].stride, length = rows * a->element, width = lanes * a->element;
  if (along_lanes == 0) return;
  if (along_lanes == a->element) { /* a vector for each row of the output */
    double crossing = tn__nest_crossing(k->target, a, nest->axis_count, d->lanes, width);
    bool whole = width >= line_bytes && crossing == 0;
    *(a->store ? &ops->stores : &ops->loads) += (double)rows * (1 + crossing);
    if (along_rows != 0)
      *late +=
          (double)rows * late_cycles(k, along_rows, (double)(block * rows) * (1 + crossing), whole, a->store, false);
    return;
  }
  if (along_rows != a->element) {
    ops->gathers += (double)(rows * lanes);
    return;
  }
  double pieces = rows > lanes ? (double)rows / (double)lanes : 1;
  double crossing = tn__nest_crossing(k->target, a, nest->axis_count, d->rows, length);
  ops->loads += (double)lanes * (pieces + crossing);
  ops->shuffles += shuffles_of(rows, lanes);
  f->registers += (int)(rows < lanes ? rows + 2 : lanes + 2);
  /* The rest of a line is read by the next tiles of the block, or after the lanes have moved on to their end. */
  bool whole = length >= line_bytes && crossing == 0, soon = length * block > line_bytes;
  bool strip = v[STRIP] > 0;
  double live = (double)(soon ? lanes : strip ? v[STRIP] * lanes : nest->extent[d->lanes]) * (1 + crossing);
  *late += (double)lanes * late_cycles(k, along_lanes, live, whole || length * block == line_bytes, false, strip);
  /* Prefetchers don't see a short run before its end. */
  bool far = is_far(k, d), near = d->bytes < (double)k->options.cache_bytes;
  if (strip)
    ops->loads += (double)lanes; /* fetches */
  else if (far || (!near && length * block < TN__RULE_RUN_BYTES))
    *late += (double)lanes / (double)block * (far ? TN__RULE_LATE_FROM_MEMORY : TN__RULE_LATE_FROM_L3);
}

/* Are the rows of the output whole lines, one vector or several each? Others would be written non-temporally in pieces
 * of a line with other lines in between, which takes longer than to fetch them. */
static bool writes_lines(const transposition *d, int64_t width, int64_t line_bytes) {
  bool whole = width % line_bytes == 0;
  for (int i = 0; i < d->nest.access_count; i++)
    for (int x = 0; x < d->nest.axis_count && d->nest.access[i].store; x++)
      whole &= x == d->lanes || d->nest.access[i].along[x].stride % line_bytes == 0;
  return whole && d->nest.extent[d->lanes] * d->element % width == 0;
}

static const tn__nest *features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const transposition *d = k->data;
  const tn__nest *nest = &d->nest;
  const int64_t rows = v[ROWS], lanes = v[LANES], line_bytes = k->target->cpu.machine.costs.line_bytes;
  int64_t row_tiles = ceiling(nest->extent[d->rows], rows), lane_tiles = ceiling(nest->extent[d->lanes], lanes);
  int64_t block = nest->open[d->rows] && v[BLOCK] > 0 ? v[BLOCK] : block_of(v[BLOCK], row_tiles), others = 1;
  if (rows * lanes * d->element > TN__MOST_TILE_BYTES) return NULL;
  if (v[BLOCK] > 1 && (nest->open[d->rows] || block == row_tiles)) return NULL; /* the same as 0, or never whole */
  int width = (int)(lanes * d->element), parts = (int)ceiling(width, k->options.vector_bytes);
  f->streams = v[STREAM] != 0;
  f->stored_bytes = d->stored;
  if (f->streams && !writes_lines(d, width, line_bytes)) return NULL;
  int64_t strip = v[STRIP];
  if (strip > 0 && (block != 1 || nest->open[d->lanes] || strip >= lane_tiles)) return NULL;
  if (strip > 0 && rows * d->element < line_bytes) return NULL; /* pieces of a line would be fetched twice */
  for (int i = 0; i < nest->axis_count; i++) {
    if (i == d->rows || i == d->lanes) continue;
    f->loops[f->loop_count++] = (tn__nest_loop){i, nest->extent[i], 1};
    others *= nest->extent[i];
  }
  int64_t outer = ceiling(row_tiles, block), strips = strip > 0 ? ceiling(lane_tiles, strip) : 1;
  if (strip > 0) f->loops[f->loop_count++] = (tn__nest_loop){d->lanes, strips, strip * lanes};
  f->loops[f->loop_count++] = (tn__nest_loop){d->rows, outer, block * rows};
  f->loops[f->loop_count++] = (tn__nest_loop){d->lanes, strip > 0 ? strip : lane_tiles, lanes};
  f->loops[f->loop_count++] = (tn__nest_loop){d->rows, block, rows};
  f->loops[f->loop_count++] = (tn__nest_loop){d->lanes, lanes, 1};
  f->loops[f->loop_count++] = (tn__nest_loop){d->rows, rows, 1};
  int64_t pieces = others >= 4 * k->options.threads ? others
                                                    : others * (strip > 0   ? strips
                                                                : outer > 1 ? outer
                                                                            : lane_tiles);
  f->chunks = d->large ? pieces : 1;
  tn__operations ops = {.vector_bytes = width / parts, .fma = (double)rows * d->cost};
  double late = 0;
  for (int i = 0; i < nest->access_count; i++) add_operations(k, &nest->access[i], v, block, &ops, f, &late);
  ops = (tn__operations){.vector_bytes = ops.vector_bytes,
                         .fma = parts * ops.fma,
                         .loads = parts * ops.loads,
                         .stores = parts * ops.stores,
                         .shuffles = parts * ops.shuffles,
                         .gathers = ops.gathers,
                         .other = 4};
  f->registers *= parts;
  double tiles = (double)(others * row_tiles) * (double)lane_tiles;
  tn__cost_phase(f, k->target, &ops, tiles);
  tn__cost_loop(f, k->target, (double)(others * outer * lane_tiles), (double)block);
  f->extra_cycles += tiles * late;
  f->useful = (double)(others * nest->extent[d->rows]) * (double)nest->extent[d->lanes];
  f->spent = tiles * (double)(rows * lanes);
  return nest;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static const char *part(const tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

/* Around the tiles: enough of the outermost loops for the threads. */
static void share_out(tn__schedule *s, const char *const *loops, int count, int threads) {
  const char *outermost = loops[0];
  int next = 1;
  for (; next < count; next++) {
    int64_t extent = tn__rule_loop_extent(s, outermost);
    if (extent < 0 || extent >= 4 * threads) break;
    tn__sched_fuse(s, outermost, loops[next]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, loops[next]);
  }
  tn__sched_parallel(s, outermost);
}

/* Whatever is read along the rows in an iteration of the loop, ahead of its use. */
static void fetch_ahead(tn__schedule *s, const char *loop, const char *ahead) {
  tn__snodes tiles = {0};
  tn__snode *at = tn__sched_find(s, loop, false), *outer = tn__sched_find(s, ahead, false);
  tn__sched_blocks(s, at, &tiles);
  for (int i = 0; i < tiles.count; i++) {
    const tn__snode *tile = tiles.data[i];
    for (int r = 0; r < tile->block.read_count && tile->parent->transposes; r++) {
      tn__sched_prefetch p = {
          .block = tile, .buffer = tile->block.reads[r].buffer, .ahead = outer, .distance = TILES_AHEAD};
      if (tn__sched_is_param(s, p.buffer) && tn__sched_prefetch_start(s, at, &p, NULL, NULL))
        tn__sched_prefetch_ahead(s, tile->name, r, loop, ahead, TILES_AHEAD);
    }
  }
}

static void apply(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  turned t;
  const char *order[TN__MAX_LOOPS];
  int n = 0;
  find_turned(s, &t);
  const char *rows = t.path[t.rows]->name, *lanes = t.path[t.lanes]->name, *block = t.block->name;
  int64_t row_extent = tn__rule_loop_extent(s, rows), lane_extent = tn__rule_loop_extent(s, lanes);
  int64_t row_tiles = row_extent < 0 ? -1 : ceiling(row_extent, v[ROWS]);
  int64_t block_tiles = row_extent < 0 ? v[BLOCK] : block_of(v[BLOCK], row_tiles);
  bool blocks = row_tiles != 1 && block_tiles != 0 && block_tiles != row_tiles;
  bool inner = row_tiles != 1 && block_tiles != 1;
  for (int i = 0; i < t.count; i++)
    if (i != t.rows && i != t.lanes) order[n++] = t.path[i]->name;
  const char *row_tile = rows, *lane_tile = lanes;
  if (row_tiles != 1) {
    const int64_t three[] = {0, block_tiles, v[ROWS]}, two[] = {0, v[ROWS]};
    tn__sched_split(s, rows, blocks && inner ? three : two, blocks && inner ? 3 : 2);
    row_tile = part(s, rows, blocks && inner ? 2 : 1);
  }
  if (v[STRIP] > 0) {
    tn__sched_split(s, lanes, (const int64_t[]){0, v[STRIP], v[LANES]}, 3);
    lane_tile = part(s, lanes, 2);
    order[n++] = part(s, lanes, 0);
  } else if (lane_extent != v[LANES]) {
    tn__sched_split(s, lanes, (const int64_t[]){0, v[LANES]}, 2);
    lane_tile = part(s, lanes, 1);
  }
  if (blocks) order[n++] = part(s, rows, 0);
  if (lane_tile != lanes) order[n++] = part(s, lanes, v[STRIP] > 0 ? 1 : 0);
  int shared = v[STRIP] > 0 ? n - 2 : n;
  if (inner) order[n++] = part(s, rows, blocks ? 1 : 0);
  if (shared == 0) shared = n;
  order[n] = row_tile;
  order[n + 1] = lane_tile;
  tn__sched_reorder(s, order, n + 2);
  tn__sched_transpose(s, block, row_tile, lane_tile);
  if (v[STRIP] > 0) fetch_ahead(s, order[n - 1], order[n - 2]);
  if (v[STREAM]) tn__rule_stream(s, block);
  if (tn__rule_shares(s, &k->options) && shared > 0) share_out(s, order, shared, k->options.threads);
}

/* Turns tiles of loop number `contiguous` and the last one; gives the loops around a tile and how many there are under
 * `outer` others; -1 where there is nothing to turn. */
TN_MUST_USE static int turn(tn__schedule *s, const char *block, int outer, int contiguous,
                            const tn__schedule_options *options, const char **order) {
  enum { LEAST_SIDE = 4 };
  const char *loops[TN__MAX_LOOPS], *sides[2];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS), n = 0;
  int64_t bytes = (int64_t)tn_dtype_size(tn__sched_find(s, block, true)->block.writes[0].buffer->dtype);
  const int at[2] = {contiguous, count - 1};
  int64_t side = options->vector_bytes / (bytes < 4 ? 4 : bytes), extent[2];
  while (side > TN__MOST_TILE_SIDE || side * side * bytes > TN__MOST_TILE_BYTES) side /= 2;
  for (int i = 0; i < 2; i++) extent[i] = tn__rule_loop_extent(s, loops[at[i]]);
  if (contiguous == count - 1 || side < LEAST_SIDE || (extent[0] >= 0 && extent[0] < LEAST_SIDE) ||
      (extent[1] >= 0 && extent[1] < LEAST_SIDE))
    return -1;
  for (int i = outer; i < count - 1; i++)
    if (i != contiguous) order[n++] = loops[i];
  for (int i = 0; i < 2; i++) {
    sides[i] = loops[at[i]];
    if (extent[i] >= 0 && extent[i] <= side) continue;
    tn__sched_split(s, loops[at[i]], (const int64_t[]){0, side}, 2);
    order[n++] = part(s, loops[at[i]], 0);
    sides[i] = part(s, loops[at[i]], 1);
  }
  order[n] = sides[0];
  order[n + 1] = sides[1];
  tn__sched_reorder(s, order, n + 2);
  tn__sched_transpose(s, block, sides[0], sides[1]);
  return n;
}

void tn__rule_turn(tn__schedule *s, const char *block, int contiguous, const tn__schedule_options *options) {
  const char *order[TN__MAX_LOOPS];
  int count = turn(s, block, 0, contiguous, options, order);
  if (count < 0)
    tn__rule_nest(s, block, options);
  else if (tn__rule_shares(s, options) && count > 0)
    share_out(s, order, count, options->threads);
}

bool tn__rule_turn_map(tn__schedule *s, const char *block, const tn__schedule_options *options) {
  turned t = {.block = tn__sched_find(s, block, true)};
  if (t.block->block.body->kind != TN__STMT_STORE || t.block->parent == s->root) return false;
  if (find_sides(s, &t) != NULL || t.lanes != t.count - 1) return false;
  int64_t rows, lanes;
  for (int i = 0; i < t.count; i++)
    if (t.path[i]->kind != TN__LOOP_SERIAL || t.path[i]->children.count != 1) return false;
  if (!tn__ir_as_int(t.path[t.rows]->var->extent, &rows) || !tn__ir_as_int(t.path[t.lanes]->var->extent, &lanes) ||
      rows < TN__RULE_LEAST_TURNED || lanes < TN__RULE_LEAST_TURNED)
    return false;
  tn__rule_turn(s, block, t.rows, options);
  return true;
}

bool tn__rule_turn_inside(tn__schedule *s, const char *block, int outer, int contiguous,
                          const tn__schedule_options *options) {
  const char *order[TN__MAX_LOOPS];
  return turn(s, block, outer, contiguous, options, order) >= 0;
}

const tn__rule tn__rule_transpose = {"transposition", matches, open_transpose, features, apply};
