/* Closed expressions for what a choice of tiles of a contraction executes and touches. */
#include <string.h>

#include "base/numbers.h"
#include "schedule/rules/contraction.h"

static int64_t tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

bool tn__contraction_shares_blocks(const tn__outer_loops *outer, const int64_t *v) {
  return outer->depth >= 0 && v[TN__TILE_SHARED] > outer->depth;
}

int64_t tn__contraction_steps(const tn__contraction_space *p, const int64_t *v, int axis) {
  return axis == p->deep && v[TN__TILE_DEPTH] > 0 ? v[TN__TILE_DEPTH] : p->nest.extent[axis];
}

/* The loop over blocks of the reduction takes its place among the others. */
TN_MUST_USE static bool add_depth(const tn__contraction_space *p, const int64_t *v, tn__outer_loops *out) {
  int at = (int)v[TN__TILE_DEPTH_AT];
  if (v[TN__TILE_DEPTH] == 0) return at == 0;
  if (at > out->count || p->deep < 0) return false;
  int64_t extent = p->nest.extent[p->deep], steps = v[TN__TILE_DEPTH];
  for (int i = out->count++; i > at; i--) out->loop[i] = out->loop[i - 1];
  out->loop[at] = (tn__outer_loop){p->deep, tiles(extent, steps), steps, p->nest.open[p->deep] || extent % steps != 0};
  out->column_tiles += out->column_tiles >= at;
  out->block += out->block >= at;
  out->depth = at;
  return true;
}

bool tn__contraction_loops(const tn__contraction_space *p, const int64_t *v, tn__outer_loops *out) {
  *out = (tn__outer_loops){.block = -1, .depth = -1};
  int64_t width = v[TN__TILE_LANES] * v[TN__TILE_VECTORS];
  const int64_t *extent = p->nest.extent;
  if (p->group > 0)
    out->loop[out->count++] = (tn__outer_loop){p->column, extent[p->column] / p->group, p->group, false};
  for (int a = 0; a < p->spatial; a++) /* axes that choose another right operand */
    if (a != p->column && a != p->row && a != p->more_rows && p->moves_right[a])
      out->loop[out->count++] = (tn__outer_loop){a, extent[a], 1, false};
  tn__outer_loop columns = {p->column, tiles(p->columns, width), width,
                            p->nest.open[p->column] || p->columns % width != 0};
  tn__outer_loop rows[TN__NEST_AXES];
  int count = 0;
  for (int a = 0; a < p->spatial; a++)
    if (a != p->column && a != p->row && a != p->more_rows && !p->moves_right[a])
      rows[count++] = (tn__outer_loop){a, extent[a], 1, false};
  if (p->more_rows >= 0)
    rows[count++] = (tn__outer_loop){p->more_rows, tiles(p->more, v[TN__TILE_MORE_ROWS]), v[TN__TILE_MORE_ROWS],
                                     p->more % v[TN__TILE_MORE_ROWS] != 0};
  if (p->row >= 0)
    rows[count++] = (tn__outer_loop){p->row, tiles(p->rows, v[TN__TILE_ROWS]), v[TN__TILE_ROWS],
                                     p->nest.open[p->row] || p->rows % v[TN__TILE_ROWS] != 0};
  if (v[TN__TILE_COLUMNS_AT] > count || (v[TN__TILE_BLOCK] > 1 && v[TN__TILE_COLUMNS_AT] == count)) return false;
  for (int i = 0; i <= count; i++) {
    bool here = i == v[TN__TILE_COLUMNS_AT];
    if (here && v[TN__TILE_BLOCK] > 1) { /* the next loop goes by in blocks, and the columns inside of a block */
      const tn__outer_loop *next = &rows[i];
      if (next->tail || next->trips % v[TN__TILE_BLOCK] != 0 || next->trips == v[TN__TILE_BLOCK]) return false;
      out->loop[out->count++] =
          (tn__outer_loop){next->axis, next->trips / v[TN__TILE_BLOCK], next->step * v[TN__TILE_BLOCK], false};
    }
    if (here) out->column_tiles = out->count, out->loop[out->count++] = columns;
    if (i == count) break;
    out->loop[out->count] = rows[i];
    if (here && v[TN__TILE_BLOCK] > 1) out->loop[out->count].trips = v[TN__TILE_BLOCK], out->block = out->count;
    out->count++;
  }
  if (!add_depth(p, v, out) || v[TN__TILE_SHARED] > out->count) return false;
  /* Loops whose tiles may be partial are not fused with others, so that their tails can be cut off. */
  for (int i = 0; i < v[TN__TILE_SHARED]; i++)
    if (out->loop[i].tail && v[TN__TILE_SHARED] > 1) return false;
  return true;
}

bool tn__contraction_is_tap(const tn__contraction_space *p, const int64_t *v, int axis) {
  return p->taps[0][axis] || (v[TN__TILE_MORE_ROWS] > 1 && p->taps[1][axis]);
}

int tn__contraction_taps_from(const tn__contraction_space *p, const int64_t *v) {
  int from = p->nest.axis_count, first = from;
  if (!p->depthwise) return from;
  for (int a = from - 1; a >= p->spatial; a--) {
    if (tn__contraction_is_tap(p, v, a))
      first = a;
    else if (p->nest.extent[a] > 1)
      break;
  }
  return first;
}

/* Borders that are cut off make copies of a tile: how many statements there will be. */
static int64_t statements(const tn__contraction_space *p, const int64_t *v) {
  int64_t taps = 1;
  for (int a = p->spatial; a < p->nest.axis_count; a++)
    if (tn__contraction_is_tap(p, v, a)) taps *= p->nest.extent[a];
  int64_t tile = v[TN__TILE_ROWS] * v[TN__TILE_MORE_ROWS] * v[TN__TILE_VECTORS];
  int64_t pieces = p->rows % v[TN__TILE_ROWS] != 0 ? p->pieces + p->pieces / 3 : p->pieces;
  if (v[TN__TILE_BLOCK] > 1) pieces *= 2; /* both halves of a loop are cut */
  return pieces * tile * (taps * v[TN__TILE_UNROLL] + 2);
}

/* Sums of a tile that is small and wastes nothing: twice as many as there are multiply-adds under way, in half of the
 * registers at the most. Depthwise ones wait for loads. */
static int64_t small_tile(const tn__contraction_space *p, const tn__sketch *k) {
  const tn__core *core = &k->target->cpu.machine.core;
  int64_t busy = p->depthwise ? 4 : (int64_t)core->fma_latency * core->fma_bytes / k->options.vector_bytes;
  int64_t most = (k->options.registers + 1) / 2, small = TN__RULE_SMALL_TILE * (busy > 4 ? busy : 4);
  return small < most ? small : most < 8 ? 8 : most;
}

/* Iterations of the reduction in one straight piece of code, and of the innermost loop around it. */
static void straight_piece(const tn__contraction_space *p, const int64_t *v, double *straight, double *trips) {
  *straight = (double)v[TN__TILE_UNROLL];
  *trips = 1;
  for (int a = p->nest.axis_count - 1; a >= p->spatial; a--) {
    double extent = (double)tn__contraction_steps(p, v, a);
    if (tn__contraction_is_tap(p, v, a)) {
      *straight *= extent;
    } else if (a == p->nest.axis_count - 1 || extent > 1) {
      *trips = a == p->nest.axis_count - 1 ? extent / *straight : extent;
      if (extent > 1) return;
    }
  }
}

/* Place of the loop whose iterations each compute their part of an operand: threads have private memory of their
 * own. */
static int place_of(const int64_t *v, int64_t loop) {
  return loop < v[TN__TILE_SHARED] ? (int)v[TN__TILE_SHARED] - 1 : (int)loop;
}

/* The part of the left operand's loads that miss L1 because rows that lie a round number of bytes apart
 * share its sets, when each of `rows` x `more` rows is read for `span` bytes: of the lines in a set those beyond its
 * ways, squared, since the cache's choice keeps some. */
static double conflicts(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v, int64_t rows,
                        int64_t more, int64_t span) {
  uint16_t lines[TN__MOST_L1_SETS];
  const tn__machine *machine = &k->target->cpu.machine;
  const int sets = machine->costs.l1_sets, line_bytes = machine->costs.line_bytes;
  double ways = (double)machine->l1_bytes / (sets * line_bytes), missed = 0, all = 0;
  int64_t row_stride = v[TN__TILE_LEFT] == TN__PLACE_APART ? p->row_stride + line_bytes : p->row_stride;
  memset(lines, 0, (size_t)sets * sizeof(lines[0]));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t m = 0; m < more; m++) {
      int64_t start = r * row_stride + m * p->more_stride;
      for (int64_t line = start / line_bytes; line * line_bytes < start + span; line++) lines[line % sets]++;
    }
  for (int i = 0; i < sets; i++) {
    double beyond = ((double)lines[i] - ways) / ways;
    all += lines[i];
    if (beyond > 0) missed += (double)lines[i] * (beyond < 1 ? beyond * beyond : 1);
  }
  return missed / all;
}

/* Vectors of the left operand that a depthwise tile loads for all of its taps. */
static double taps_loads(const tn__contraction_space *p, const int64_t *v, const int64_t tile[2]) {
  double loads = (double)(tile[0] * tile[1]);
  const tn__nest_access *left = NULL;
  for (int i = 0; i < p->nest.access_count && left == NULL; i++)
    if (!p->nest.access[i].store && p->nest.access[i].along[p->row].stride != 0) left = &p->nest.access[i];
  for (int a = tn__contraction_taps_from(p, v); a < p->nest.axis_count && left != NULL; a++) {
    int64_t taps = p->nest.extent[a], rows = p->taps[0][a] ? tile[0] : tile[1];
    int64_t stride =
        left->along[a].stride > 0 ? (p->taps[0][a] ? p->row_stride : p->more_stride) / left->along[a].stride : taps;
    int64_t distinct = (rows - 1) * stride + taps;
    loads *= (double)(distinct < rows * taps ? distinct : rows * taps) / (double)rows;
  }
  return loads;
}

/* Cycles of one step of the sum that an operand takes beside those of its loads, when what the steps read of it, `span`
 * bytes each, lies so far apart that all steps use few of L1's sets, or more pages than are remembered. Elements of the
 * left one that go into all lanes wait for the line that they share; the right one's vectors come while others are
 * multiplied. */
static double far_apart(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v, int side, int64_t span) {
  const tn__machine *machine = &k->target->cpu.machine;
  const tn__costs *costs = &machine->costs;
  const int64_t line_bytes = costs->line_bytes, page_bytes = costs->page_bytes;
  int64_t lines = tiles(span, line_bytes), sets = costs->l1_sets;
  int64_t stride = side == 0 ? p->left_stride : p->right_stride, steps = side == 0 ? p->left_steps : p->right_steps;
  if (v[TN__TILE_DEPTH] > 0) steps = tiles(steps * v[TN__TILE_DEPTH], p->nest.extent[p->deep]);
  if (stride < 2 * span) return 0;
  for (int64_t at = stride / line_bytes; stride % line_bytes == 0 && sets > 1 && at % 2 == 0; at /= 2) sets /= 2;
  sets = sets * lines < costs->l1_sets ? sets * lines : costs->l1_sets;
  double cycles = 0, ways = (double)machine->l1_bytes / (double)(costs->l1_sets * line_bytes);
  if ((double)(steps * lines) > ways * (double)sets)
    cycles += side == 0 ? (double)lines * costs->l2_wait
                        : TN__RULE_UNHIDDEN_SETS * (double)(lines * line_bytes) / machine->core.l2_bytes;
  int64_t pages = stride < page_bytes ? tiles(stride * steps, page_bytes) : steps; /* those between do not count */
  double crossed = stride < page_bytes ? (double)stride / (double)page_bytes : 1;  /* steps that find another page */
  if (pages > costs->l1_pages) cycles += costs->page_miss * crossed;
  if ((double)pages >= TN__RULE_ONE_SIDE * costs->pages) cycles += costs->page_walk * crossed;
  return cycles;
}

bool tn__contraction_has_panels(const tn__contraction_space *p, int side) {
  const tn__contraction_operand *o = &p->operand[side];
  int last = o->rank - 1, axis = side == 0 ? p->row : p->column;
  if (!o->exists || !o->bounded || o->is_map || p->depthwise || last < 1 || axis < 0) return false;
  if (side == 0 ? p->left_stride == 0 || p->in_place || p->streams : p->panel > 0 || p->group > 0) return false;
  for (int a = 0; a < p->nest.axis_count; a++)
    if (o->step[last][a] != (a == axis) || (a == axis && o->shape[last] != p->nest.extent[a])) return false;
  return o->rank < TN__MAX_RANK;
}

bool tn__contraction_in_panels(const int64_t *v, int side) {
  return (v[TN__TILE_PANELS] & (side == 0 ? TN__PANELS_LEFT : TN__PANELS_RIGHT)) != 0;
}

bool tn__contraction_left_waits(const tn__contraction_space *p, const tn__sketch *k) {
  enum { LEAST_ROWS = 8 };
  const int64_t v[TN__TILE_PANELS + 1] = {0};
  double part = (double)p->left_steps * LEAST_ROWS * p->left_element;
  return p->left_stride >= k->target->cpu.machine.costs.line_bytes && p->operand[0].bounded &&
         part <= TN__RULE_PRIVATE_BYTES && far_apart(p, k, v, 0, LEAST_ROWS * p->left_element) > 0;
}

/* A core that takes vectors in halves multiplies whole ones at its full rate, whatever is loaded beside. Of vectors
 * half as wide it does one less for every five multiplications or loads into all lanes, or so (half_broadcast). */
static bool takes_halves(const tn__target *target, int vector_bytes) {
  return vector_bytes < target->cpu.vector_bytes && tn__schedule_halves_are_as_fast(target);
}

/* What it takes that rows lie side by side in the output: a transposition of each vector's columns, stores of their
 * rows in pieces of powers of two. */
static void turned_stores(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v, int64_t rows,
                          tn__operations *end) {
  int64_t lanes = v[TN__TILE_LANES], high = 1, pieces = 0;
  double columns = (double)(v[TN__TILE_VECTORS] * lanes), stages = 0;
  if (v[TN__TILE_ROWS] == 1) {
    end->stores = columns * (double)rows;
    return;
  }
  for (int64_t rest = v[TN__TILE_ROWS]; rest > 0; rest /= 2) pieces += rest % 2;
  for (; high < v[TN__TILE_ROWS]; high *= 2) stages++;
  int64_t piece = high * p->element < k->options.vector_bytes ? high * p->element : k->options.vector_bytes;
  end->shuffles += columns * (double)high * p->element / (double)piece * stages;
  /* The epilogue is computed behind that, in vectors along the rows, each as long as these reach. */
  double vectors = columns * (double)(v[TN__TILE_MORE_ROWS] * tiles(v[TN__TILE_ROWS] * p->element, piece));
  end->fma += (vectors - (double)(rows * v[TN__TILE_VECTORS])) * p->epilogue;
  end->stores = columns * (double)(pieces * v[TN__TILE_MORE_ROWS]);
}

/* What a step of a general term takes: operations and loads for each sum, for each row, for each column's vector. */
static void general_step(const tn__contraction_space *p, const tn__sketch *k, double rows, double vectors,
                         double crossing, double misses, tn__operations *step) {
  const tn__contraction_term *t = &p->term;
  double broadcast = tn__cost_broadcast(k->target, step->vector_bytes);
  step->fma = rows * vectors * t->work[1][1] + rows * t->work[1][0] + vectors * t->work[0][1] + t->work[0][0];
  step->loads = rows * vectors * t->loads[1][1] + (1 + crossing) * vectors * t->loads[0][1];
  step->loads += (broadcast + misses) * (rows * t->loads[1][0] + t->loads[0][0]);
  if (t->work[1][0] > 0) step->shuffles += rows; /* what is computed for a row goes into all lanes */
}

/* Is the operand widened in the tile, each time that it is read? */
static bool casts_in_tile(const tn__contraction_space *p, const int64_t *v, int side) {
  int64_t place = v[side == 0 ? TN__TILE_LEFT : TN__TILE_RIGHT];
  bool copied = place != TN__PLACE_BEFORE && place != TN__PLACE_INLINE;
  return p->casts[side] && !copied && !tn__contraction_in_panels(v, side);
}

/* One tile size: `rows` accumulators high, `vectors` wide, `times` of them. */
static void tile_phase(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v, tn__sketch_features *f,
                       const int64_t tile[2], int64_t vectors, bool masked, double times) {
  const tn__nest *nest = &p->nest;
  const tn__core *core = &k->target->cpu.machine.core;
  const tn__costs *costs = &k->target->cpu.machine.costs;
  int64_t rows = tile[0] * tile[1];
  int vector_bytes = (int)(v[TN__TILE_LANES] * p->element);
  double accumulators = (double)(rows * vectors), steps = 1, unroll, trips;
  bool taps = tn__contraction_taps_from(p, v) < nest->axis_count;
  for (int a = p->spatial; a < nest->axis_count; a++) steps *= (double)tn__contraction_steps(p, v, a);
  straight_piece(p, v, &unroll, &trips);
  tn__operations step = {.vector_bytes = vector_bytes, .fma = unroll * accumulators, .other = TN__RULE_TURN};
  step.chain = unroll * core->fma_latency;
  double left = 0, right = 0, out = 0;
  for (int i = 0; i < nest->access_count; i++) {
    double crossing = tn__nest_crossing(k->target, &nest->access[i], nest->axis_count, p->column, vector_bytes);
    if (nest->access[i].store)
      out = crossing;
    else if (p->row >= 0 && nest->access[i].along[p->row].stride != 0)
      left = crossing;
    else
      right = crossing;
  }
  if (v[TN__TILE_LEFT] == TN__PLACE_INLINE && !p->in_place) step.fma += unroll * (double)rows * p->operand[0].work;
  if (p->has_right) step.loads = (1 + right) * unroll * (double)vectors;
  /* What a missing line costs beside a load that finds it. */
  double misses = 0;
  if (!p->streams && v[TN__TILE_LEFT] < TN__PLACE_AT)
    misses = conflicts(p, k, v, tile[0], tile[1], p->depthwise ? vectors * vector_bytes : 1) * costs->line_bytes *
             core->load_ports / core->l2_bytes;
  if (v[TN__TILE_AHEAD] == TN__AHEAD_STEPS)
    step.loads += TN__RULE_PREFETCH * (double)(unroll * tiles(vectors * vector_bytes, costs->line_bytes));
  if (p->general) {
    tn__operations term = {.vector_bytes = vector_bytes};
    general_step(p, k, (double)rows, (double)vectors, right, misses, &term);
    step.fma = unroll * term.fma;
    if (p->term.keeps_nan) step.fma += unroll * accumulators * tn__cost_keeping_nan(k->target, accumulators, unroll);
    step.loads += unroll * (term.loads - (1 + right) * (double)vectors);
    step.shuffles = unroll * term.shuffles;
  } else if (p->depthwise) {
    double loads = taps ? taps_loads(p, v, tile) * (double)vectors : unroll * accumulators;
    step.loads += (1 + left + misses * vector_bytes / costs->line_bytes) * loads;
  } else {
    step.loads += (tn__cost_broadcast(k->target, vector_bytes) + misses) * unroll * (double)rows;
    if (takes_halves(k->target, vector_bytes)) step.fma += costs->half_broadcast * unroll * (double)rows;
    if (casts_in_tile(p, v, 0)) /* into all lanes first: both are done by what shuffles */
      step.shuffles += 2 * unroll * (double)rows;
    else if (p->left_element != p->element && !p->casts[0])
      step.other += 2 * unroll * (double)rows;
  }
  if (casts_in_tile(p, v, 1)) step.shuffles += unroll * (double)vectors;
  if (p->right_element != p->element && !p->general && (!p->casts[1] || casts_in_tile(p, v, 1)))
    step.fma += unroll * (double)vectors;
  if (masked) step.other += unroll * (double)vectors;
  if (unroll > 1 && unroll * accumulators > TN__RULE_LONG_PIECE && !taps) step.fma *= TN__RULE_LONG_PIECE_LOSS;
  if (unroll > 1 && masked) step.fma *= TN__RULE_MASKED_PIECE_LOSS;
  tn__cost_phase(f, k->target, &step, times * steps / unroll);
  if (p->has_right && v[TN__TILE_RIGHT] < TN__PLACE_AT && !tn__contraction_in_panels(v, 1))
    f->work_cycles += times * steps * far_apart(p, k, v, 1, vectors * vector_bytes);
  if (p->left_stride > 0 && !p->depthwise && v[TN__TILE_LEFT] == TN__PLACE_BEFORE && !tn__contraction_in_panels(v, 0))
    f->work_cycles += times * steps * far_apart(p, k, v, 0, tile[0] * p->left_element);
  tn__cost_loop(f, k->target, times * steps / (unroll * trips), trips);
  tn__operations end = {.vector_bytes = vector_bytes, .other = TN__RULE_TILE_END};
  bool blocked = v[TN__TILE_DEPTH] > 0, finishes = v[TN__TILE_EPILOGUE] == TN__EPILOGUE_TILE && !blocked;
  end.fma = accumulators * (1 + (finishes ? p->epilogue : 0));
  end.loads = finishes ? (1 + out) * accumulators * p->epilogue_loads : 0;
  if (blocked) end.loads = (1 + out) * accumulators;
  end.stores = (1 + out) * accumulators;
  if (p->turned) turned_stores(p, k, v, rows, &end);
  if (masked) end.other += 2 * accumulators;
  end.chain = 2.0 * core->fma_latency;
  tn__cost_phase(f, k->target, &end, times);
  f->useful += 0;
  f->spent += times * accumulators * (double)v[TN__TILE_LANES];
}

/* How many steps of each axis the tiles of one iteration of outer loop `at` cover; returns how often it is entered. */
static double ranges_within(const tn__contraction_space *p, const int64_t *v, const tn__outer_loops *outer, int at,
                            int64_t ranges[TN__NEST_AXES]) {
  double times = 1;
  for (int a = 0; a < p->nest.axis_count; a++) ranges[a] = a < p->spatial ? 1 : tn__contraction_steps(p, v, a);
  ranges[p->column] = v[TN__TILE_LANES] * v[TN__TILE_VECTORS];
  if (p->row >= 0) ranges[p->row] = v[TN__TILE_ROWS];
  if (p->more_rows >= 0) ranges[p->more_rows] = v[TN__TILE_MORE_ROWS];
  for (int i = 0; i < outer->count; i++) {
    const tn__outer_loop *loop = &outer->loop[i];
    if (i <= at)
      times *= (double)loop->trips;
    else
      ranges[loop->axis] *= loop->trips;
  }
  return times;
}

/* Cycles for bytes that go out and come back. New memory is fetched before it is written, and what is half of the
 * L2 does not stay there beside what it was made of. */
static double there_and_back(const tn__sketch *k, double bytes) {
  const tn__target *t = k->target;
  if (bytes <= (double)t->cpu.machine.l1_bytes) return 0;
  if (2 * bytes <= (double)k->options.cache_bytes) return 2 * bytes / t->cpu.machine.core.l2_bytes;
  return 3 * bytes / t->cpu.machine.core.memory_bytes;
}

/* How much more room an operand of this shape takes when its rows lie an odd number of lines apart: much, where what is
 * widened for that are the three channels of a picture. */
static double apart(const tn__sketch *k, const tn__contraction_operand *o, const int64_t *shape) {
  int64_t line = k->target->cpu.machine.costs.line_bytes / o->element, inner = 1;
  if (o->dim < 0 || line < 1) return 1;
  for (int d = o->dim + 2; d < o->rank; d++) inner *= shape[d];
  for (int64_t wide = shape[o->dim + 1]; wide < shape[o->dim + 1] + 2 * line; wide++)
    if (wide * inner % (2 * line) == line) return (double)wide / (double)shape[o->dim + 1];
  return 1;
}

/* What computing or copying an operand takes where `place` says. False when a part is too much to be kept near. */
static bool operand_phase(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v,
                          const tn__outer_loops *outer, int side, int64_t place, tn__sketch_features *f) {
  const tn__contraction_operand *o = &p->operand[side];
  int64_t ranges[TN__NEST_AXES];
  double times = 1, bytes = o->element;
  bool panels = tn__contraction_in_panels(v, side);
  if (place == TN__PLACE_INLINE || (place == TN__PLACE_BEFORE && !o->is_map && !panels)) return true;
  if (place >= TN__PLACE_AT + outer->count) return false;
  bool whole = place < TN__PLACE_AT;
  if (!whole) times = ranges_within(p, v, outer, place_of(v, place - TN__PLACE_AT), ranges);
  int64_t shape[TN__MAX_RANK];
  for (int d = 0; d < o->rank; d++) {
    int64_t extent = 1;
    for (int a = 0; !whole && a < p->nest.axis_count; a++) extent += o->step[d][a] * (ranges[a] - 1);
    shape[d] = !whole && extent < o->shape[d] ? extent : o->shape[d];
    bytes *= (double)shape[d];
  }
  if (!p->depthwise && place != TN__PLACE_BEFORE && !panels) bytes *= apart(k, o, shape);
  if (!whole && bytes > TN__RULE_PRIVATE_BYTES) return false;
  int vector_bytes = (int)v[TN__TILE_LANES] * o->element;
  /* A copy has loads that wait for another cache, as strided rows don't come by themselves. */
  tn__operations ops = {.vector_bytes = vector_bytes, .fma = o->work, .loads = 1, .stores = 1, .other = 6};
  if (p->casts[side]) ops.fma++, ops.shuffles++;
  tn__cost_phase(f, k->target, &ops, times * bytes / vector_bytes);
  f->extra_cycles += times * there_and_back(k, bytes);
  if (side == 0 && !whole && p->left_stride > 0) { /* reading the part is as it was in the tile */
    double steps = 1;
    for (int a = p->spatial; a < p->nest.axis_count; a++) steps *= (double)tn__contraction_steps(p, v, a);
    f->extra_cycles += times * steps * far_apart(p, k, v, 0, ranges[p->row] * p->left_element);
  }
  return true;
}

/* Sums that are complete only behind the last block of the reduction: they start in memory, are read there by the
 * epilogue, and where threads share the blocks each of these has its own, which are added up in the end. */
static bool blocks_phase(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v,
                         const tn__outer_loops *outer, tn__sketch_features *f) {
  int64_t ranges[TN__NEST_AXES];
  double times = 1, elements = 1, all = 1;
  const tn__costs *costs = &k->target->cpu.machine.costs;
  bool shared = tn__contraction_shares_blocks(outer, v);
  if (outer->depth < 0) return true;
  if (v[TN__TILE_EPILOGUE] != TN__EPILOGUE_TILE || (shared && p->any_open)) return false;
  if (v[TN__TILE_DEPTH] % v[TN__TILE_UNROLL] != 0 && p->deep == p->nest.axis_count - 1) return false;
  if (outer->depth > 0 && !shared) times = ranges_within(p, v, outer, place_of(v, outer->depth - 1), ranges);
  for (int a = 0; a < p->spatial; a++) {
    bool whole = outer->depth == 0 || shared || ranges[a] > p->nest.extent[a];
    elements *= (double)(whole ? p->nest.extent[a] : ranges[a]);
    all *= (double)p->nest.extent[a];
  }
  int vector_bytes = (int)v[TN__TILE_LANES] * p->element;
  double vectors = times * elements / (double)v[TN__TILE_LANES], parts = (double)outer->loop[outer->depth].trips;
  tn__operations ops = {.vector_bytes = vector_bytes, .stores = 1, .other = 2};
  if (shared) {
    if (all * parts * p->element > (double)k->target->cpu.machine.l3_bytes / 4)
      return false; /* there are tiles enough to share */
    ops = (tn__operations){.vector_bytes = vector_bytes, .fma = parts, .loads = parts, .stores = 1, .other = 4};
    /* On one thread, behind a parallel loop that every block of the reduction is a piece of. */
    f->extra_cycles +=
        vectors * tn__sketch_operation_cycles(k->target, &ops) + there_and_back(k, all * parts * p->element);
    return true;
  }
  tn__cost_phase(f, k->target, &ops, vectors);
  /* The sums so far are waited for, behind each block. */
  double bytes = elements * p->element;
  double wait = 4 * bytes > (double)k->options.cache_bytes            ? costs->l3_wait
                : 2 * bytes > (double)k->target->cpu.machine.l1_bytes ? costs->l2_wait
                                                                      : 0;
  f->work_cycles += wait * all * parts * p->element / costs->line_bytes;
  if (!p->has_epilogue && p->epilogue == 0) return true;
  ops = (tn__operations){.vector_bytes = vector_bytes, .fma = p->epilogue, .stores = 1, .other = 4};
  ops.loads = 1 + p->epilogue_loads;
  tn__cost_phase(f, k->target, &ops, vectors);
  f->extra_cycles += times * there_and_back(k, elements * p->element);
  return true;
}

/* Epilogues that don't take the sums from registers: they go through memory. */
static bool epilogue_phase(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v,
                           const tn__outer_loops *outer, tn__sketch_features *f) {
  int64_t ranges[TN__NEST_AXES];
  double times = 1, elements = 1;
  if (v[TN__TILE_EPILOGUE] == TN__EPILOGUE_TILE) return true;
  if (v[TN__TILE_EPILOGUE] >= TN__EPILOGUE_AT + outer->count) return false;
  bool whole = v[TN__TILE_EPILOGUE] == TN__EPILOGUE_AFTER;
  if (!whole) times = ranges_within(p, v, outer, place_of(v, v[TN__TILE_EPILOGUE] - TN__EPILOGUE_AT), ranges);
  for (int a = 0; a < p->spatial; a++)
    elements *= (double)(whole || ranges[a] > p->nest.extent[a] ? p->nest.extent[a] : ranges[a]);
  if (!whole && elements * p->element > TN__RULE_PRIVATE_BYTES) return false;
  int vector_bytes = (int)v[TN__TILE_LANES] * p->element;
  tn__operations ops = {.vector_bytes = vector_bytes, .fma = p->epilogue, .stores = 1, .other = 4};
  ops.loads = 1 + p->epilogue_loads;
  tn__cost_phase(f, k->target, &ops, times * elements / (double)v[TN__TILE_LANES]);
  f->extra_cycles += times * there_and_back(k, elements * p->element);
  return true;
}

/* What is packed is constant. A model has more constants than the near caches hold, so each comes from farther away, at
 * the rate of L3, whatever else the nest touches. A panel of it arrives while its first tile is computed; what takes
 * longer than that is waited for, unless it was fetched while the panel before was in use, spread over all of its
 * tiles: true where that pays. Where all tiles of a panel together take less than fetching it does, memory is what
 * matters, and is counted as that. */
static bool first_touch(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v,
                        const tn__outer_loops *outer, bool fits, tn__sketch_features *f) {
  if (p->panel == 0 || p->depthwise || v[TN__TILE_RIGHT] != TN__PLACE_BEFORE) return false;
  const tn__core *core = &k->target->cpu.machine.core;
  int64_t width = v[TN__TILE_LANES] * v[TN__TILE_VECTORS];
  double panels = 1, visits = 1, tiles = 1, steps = 1;
  for (int i = 0; i < outer->count; i++) {
    const tn__outer_loop *loop = &outer->loop[i];
    bool moves = loop->axis == p->column || loop->axis >= p->spatial || p->moves_right[loop->axis];
    if (moves) panels *= (double)loop->trips;
    if (i <= outer->column_tiles) visits *= (double)loop->trips;
    tiles *= (double)loop->trips;
  }
  for (int a = p->spatial; a < p->nest.axis_count; a++) steps *= (double)tn__contraction_steps(p, v, a);
  double fetching = steps * (double)(width * p->right_element) / core->l3_bytes, all = f->work_cycles / panels;
  if (fetching > all) fetching = all;
  double waits = fetching - f->work_cycles / tiles, still = fetching - f->work_cycles / visits;
  if (waits <= 0) return false;
  double price = tiles * steps / (double)v[TN__TILE_UNROLL] * TN__RULE_PREFETCH / core->load_ports;
  price += waits + (still > 0 ? still * (panels - 1) : 0); /* the first panel has none before it */
  bool spread = fits && tiles > visits && !p->any_open && v[TN__TILE_AHEAD] == TN__AHEAD_SPREAD &&
                width % p->panel == 0 && price < waits * panels;
  f->work_cycles += spread ? price : waits * panels;
  return spread;
}

/* Tells which accesses find an operand's copy, and inside of which loops. */
static void see_copies(const tn__contraction_space *p, const int64_t *v, tn__sketch_features *f) {
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *access = &p->nest.access[i];
    bool right = access->along[p->column].stride == access->element;
    bool left = !right && p->row >= 0 && access->along[p->row].stride != 0;
    int64_t place = right ? v[TN__TILE_RIGHT] : left ? v[TN__TILE_LEFT] : TN__PLACE_BEFORE;
    if (access->store) continue;
    if (place >= TN__PLACE_AT) f->copied[i] = (int8_t)(place_of(v, place - TN__PLACE_AT) + 2);
    if ((right && tn__contraction_in_panels(v, 1)) || (left && tn__contraction_in_panels(v, 0))) f->copied[i] = 1;
  }
}

/* Does an operand of which each step of the sum takes little lie so far apart that no step comes by itself? Prefetchers
 * stay within pages, and want to see some steps in each. */
static bool is_scattered(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v, int side) {
  int64_t stride = side == 0 ? p->left_stride : p->right_stride, steps = side == 0 ? p->left_steps : p->right_steps;
  bool packed = tn__contraction_in_panels(v, side) || (side == 1 && p->panel > 0);
  return !packed && steps > TN__RULE_HIDDEN_ROWS && 2 * stride >= k->target->cpu.machine.costs.page_bytes;
}

/* Does a panel that is fetched ahead stay in L2 beside the one in use until its turn comes? Rows a round number of
 * bytes apart meet in few places of their pages, and so in few sets. */
static bool stays_ahead(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v) {
  const tn__costs *costs = &k->target->cpu.machine.costs;
  int64_t lines = tiles(v[TN__TILE_LANES] * v[TN__TILE_VECTORS] * p->right_element, costs->line_bytes);
  int64_t places = costs->page_bytes / costs->line_bytes, used = lines;
  if (p->right_stride > 0) used *= costs->page_bytes / tn__common_divisor(costs->page_bytes, p->right_stride);
  double steps = (double)p->right_steps, crowded = used < places ? (double)places / (double)used : 1;
  if (v[TN__TILE_DEPTH] > 0) steps *= (double)v[TN__TILE_DEPTH] / (double)p->nest.extent[p->deep];
  return 2 * steps * crowded * (double)(lines * costs->line_bytes) <= costs->fill * (double)k->options.cache_bytes;
}

/* The share of what comes from beyond L2 that is not hidden. */
static double exposed(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v) {
  double left = is_scattered(p, k, v, 0) ? v[TN__TILE_LEFT] > 0 ? TN__RULE_EXPOSED_COPY : TN__RULE_EXPOSED_PAGES : 0;
  bool ahead = v[TN__TILE_AHEAD] == TN__AHEAD_STEPS && stays_ahead(p, k, v);
  double right = ahead                       ? TN__RULE_EXPOSED_AHEAD
                 : !is_scattered(p, k, v, 1) ? 0
                 : v[TN__TILE_RIGHT] > 0     ? TN__RULE_EXPOSED_COPY
                                             : TN__RULE_EXPOSED_PAGES;
  return left > right ? left : right;
}

/* The share of all bytes that comes in pieces of few lines: the left operand of a depthwise sum whose column tiles each
 * walk over many pixels and take a few channels of each. */
static double short_pieces(const tn__contraction_space *p, const tn__sketch *k, const int64_t *v,
                           const tn__outer_loops *outer) {
  const tn__costs *costs = &k->target->cpu.machine.costs;
  int64_t piece = v[TN__TILE_LANES] * v[TN__TILE_VECTORS] * p->left_element;
  double all = 0, left = 0;
  bool walks = false;
  if (!p->depthwise || piece > TN__RULE_PIECE_LINES * costs->line_bytes || p->row_stride <= piece) return 0;
  for (int i = outer->column_tiles + 1; i < outer->count; i++) walks |= outer->loop[i].trips > 1;
  for (int i = 0; i < p->nest.access_count && walks; i++) {
    const tn__nest_access *a = &p->nest.access[i];
    double bytes = a->again ? 0 : tn__nest_footprint(k->target, a, p->nest.extent);
    all += bytes;
    if (!a->store && p->row >= 0 && a->along[p->row].stride != 0) left += bytes;
  }
  return all > 0 ? left / all : 0;
}

/* tn__contraction_features, which also tells whether fetching ahead is spread over tiles. */
static const tn__nest *features_of(const tn__sketch *k, const int64_t *v, tn__sketch_features *f, bool *spread) {
  const tn__contraction_space *p = k->data;
  tn__outer_loops outer;
  int64_t width = v[TN__TILE_LANES] * v[TN__TILE_VECTORS], rows = v[TN__TILE_ROWS] * v[TN__TILE_MORE_ROWS];
  if (v[TN__TILE_LANES] < 1 || v[TN__TILE_VECTORS] < 1 || v[TN__TILE_ROWS] < 1 || v[TN__TILE_MORE_ROWS] < 1)
    return NULL;
  if (p->panel > 0 && (p->panel % v[TN__TILE_LANES] != 0 || (width % p->panel != 0 && p->panel % width != 0)))
    return NULL;
  if (v[TN__TILE_ROWS] > p->rows || v[TN__TILE_MORE_ROWS] > p->more ||
      (v[TN__TILE_MORE_ROWS] > 1 && v[TN__TILE_ROWS] != p->rows))
    return NULL;
  if (v[TN__TILE_LANES] * (v[TN__TILE_VECTORS] - 1) >= p->columns) return NULL;
  for (int side = 0; side < 2; side++) { /* a copy of the whole, and none of parts */
    int64_t place = v[side == 0 ? TN__TILE_LEFT : TN__TILE_RIGHT];
    bool whole = place == TN__PLACE_BEFORE || (place == TN__PLACE_APART && p->casts[side]);
    bool panels = tn__contraction_in_panels(v, side);
    if (panels && (!whole || (side == 0 ? v[TN__TILE_ROWS] : width) < 2)) return NULL; /* wide enough to be some */
  }
  f->registers = (int)(rows * v[TN__TILE_VECTORS] + v[TN__TILE_VECTORS] + (v[TN__TILE_VECTORS] > 1));
  if (tn__contraction_taps_from(p, v) < p->nest.axis_count) { /* weights of all taps, and what they read */
    double taps, trips;
    straight_piece(p, v, &taps, &trips);
    f->registers = (int)(v[TN__TILE_VECTORS] * (rows + 2 * (int64_t)taps));
  }
  if (p->general) { /* all that moves with columns, what one sum is made of, and what stands still */
    double each = p->term.work[1][1] > 1 ? 1 : 0, still = p->term.loads[0][0] > 0 ? 1 : 0;
    f->registers =
        (int)((double)rows * (double)v[TN__TILE_VECTORS] + (double)v[TN__TILE_VECTORS] * p->term.loads[0][1] +
              (v[TN__TILE_VECTORS] > 1 ? p->term.loads[1][0] : 0) + each + still);
  }
  if (f->registers > k->options.registers || !tn__contraction_loops(p, v, &outer)) return NULL;
  if (p->in_place) {
    int64_t code = statements(p, v);
    if (code > TN__RULE_MOST_CODE) return NULL;
    if (code > TN__RULE_LITTLE_CODE && rows * v[TN__TILE_VECTORS] > small_tile(p, k)) return NULL;
    if (v[TN__TILE_UNROLL] > 1 && tn__contraction_is_tap(p, v, p->nest.axis_count - 1)) return NULL;
    f->extra_cycles += TN__RULE_COLD_STATEMENT * (double)code;
  }
  double times = 1;
  f->chunks = 1;
  for (int i = 0; i < outer.count; i++) {
    const tn__outer_loop *loop = &outer.loop[i];
    f->loops[f->loop_count++] = (tn__nest_loop){loop->axis, loop->trips, loop->step};
    if (i < v[TN__TILE_SHARED]) f->chunks *= loop->trips;
    if (loop->axis == p->row || loop->axis == p->more_rows || i == outer.column_tiles) continue;
    times *= (double)loop->trips;
  }
  if (v[TN__TILE_SHARED] > 0 && (f->chunks < 2 || k->options.threads == 1)) return NULL;
  for (int a = p->spatial; a < p->nest.axis_count; a++)
    f->loops[f->loop_count++] = (tn__nest_loop){a, tn__contraction_steps(p, v, a), 1};
  if (p->more_rows >= 0) f->loops[f->loop_count++] = (tn__nest_loop){p->more_rows, v[TN__TILE_MORE_ROWS], 1};
  if (p->row >= 0) f->loops[f->loop_count++] = (tn__nest_loop){p->row, v[TN__TILE_ROWS], 1};
  f->loops[f->loop_count++] = (tn__nest_loop){p->column, width, 1};
  /* Full tiles and the tails of each of the three tiled axes. */
  for (int t = 0; t < 8; t++) {
    bool row_tail = t & 1, more_tail = t & 2, column_tail = t & 4;
    int64_t r = row_tail ? p->rows % v[TN__TILE_ROWS] : v[TN__TILE_ROWS],
            m = more_tail ? p->more % v[TN__TILE_MORE_ROWS] : v[TN__TILE_MORE_ROWS];
    int64_t lanes = column_tail ? p->columns % width : width;
    if (r == 0 || m == 0 || lanes == 0) continue;
    int64_t row_tiles = row_tail ? 1 : p->rows / v[TN__TILE_ROWS],
            more_tiles = more_tail ? 1 : p->more / v[TN__TILE_MORE_ROWS];
    int64_t column_tiles = column_tail ? 1 : p->columns / width;
    double count = (double)row_tiles * (double)more_tiles * (double)column_tiles;
    if (count > 0)
      tile_phase(p, k, v, f, (const int64_t[]){r, m}, tiles(lanes, v[TN__TILE_LANES]), lanes % v[TN__TILE_LANES] != 0,
                 times * count);
  }
  f->exposed = exposed(p, k, v);
  f->pieces = short_pieces(p, k, v, &outer);
  /* What comes next is the panel of the next columns unless blocks of the reduction go by inside of these. */
  bool ahead_fits = v[TN__TILE_RIGHT] == TN__PLACE_BEFORE && !tn__contraction_in_panels(v, 1) &&
                    outer.loop[outer.column_tiles].trips > 1 && outer.depth < outer.column_tiles;
  if (v[TN__TILE_AHEAD] == TN__AHEAD_STEPS && !(ahead_fits && (p->panel == 0 || width <= p->panel))) return NULL;
  *spread = first_touch(p, k, v, &outer, ahead_fits, f);
  int64_t left = p->streams ? TN__PLACE_AT + outer.column_tiles : v[TN__TILE_LEFT];
  if (!operand_phase(p, k, v, &outer, 0, left, f) || !operand_phase(p, k, v, &outer, 1, v[TN__TILE_RIGHT], f) ||
      !epilogue_phase(p, k, v, &outer, f) || !blocks_phase(p, k, v, &outer, f))
    return NULL;
  see_copies(p, v, f);
  f->useful = times * (double)(p->rows * p->more * p->columns);
  return &p->nest;
}

const tn__nest *tn__contraction_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  bool spread;
  return features_of(k, v, f, &spread);
}

bool tn__contraction_spreads(const tn__sketch *k, const int64_t *v) {
  tn__sketch_features f = {.loop_count = 0};
  bool spread;
  return features_of(k, v, &f, &spread) != NULL && spread;
}
