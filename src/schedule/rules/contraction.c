/* Products and convolutions: one sum of products, computed in register tiles.
 *
 * The column axis is contiguous in one operand (the weights, packed into panels of W columns when they are constant)
 * and does not move the other; the row axis moves only the other. One iteration of the tile loops owns MR rows x NV
 * vectors of accumulators, runs the whole reduction over them and writes them out through the epilogue:
 *
 *   parallel over batch, column tiles, other axes:
 *     for row tile:
 *       acc[...] = 0
 *       for k...:  for row (unrolled): for vector (unrolled): acc[row, vector] += A[row, k] * B[k, vector]
 *       for row, vector: out[...] = epilogue(acc)
 *
 * Column tiles stand outside of row tiles, so that a panel of B stays in a near cache while rows stream by; when the
 * left operand is what does not fit there, it is the other way round. Reduction loops stay loops: unrolled windows
 * share their broadcasts and spill. The scheme is that of Goto and van de Geijn ("Anatomy of high-performance matrix
 * multiplication", 2008). Its blocking of k is a decision: a panel of K x W is small in networks, but where it falls
 * out of the near caches, or operands are to be copied a part at a time, a loop over blocks of the reduction stands
 * around the tiles, which add their sums to those of the blocks before. Threads may share the blocks, where there are
 * few tiles: then each block has partial sums of its own, and these are added up in the end, in the same order. */
#include <string.h>

#include "schedule/rules/contraction.h"
#include "schedule/rules/reduce.h"

static bool matches(const tn__te *te) {
  tn__contraction c = {.te = te, .ir = tn__te_ir(te), .sum = tn__contraction_find(te)};
  return c.sum != NULL && tn__te_output_count(te) == 1;
}

/* ---- the tile ---------------------------------------------------------------------------------------------------- */

/* How far what is contiguous along columns, or along rows, lies apart along the sum's last axis that moves it. */
static void see_steps(const tn__contraction_space *p, const tn__nest_access *access, int64_t *stride, int64_t *steps) {
  *steps = 1;
  for (int a = p->spatial; a < p->nest.axis_count; a++) {
    if (access->along[a].stride == 0) continue;
    *stride = access->along[a].stride;
    *steps *= p->nest.extent[a];
  }
}

static void see_operand_rows(tn__contraction_space *p) {
  p->right_steps = 1;
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *access = &p->nest.access[i];
    if (access->store) continue;
    if (access->along[p->column].stride == access->element)
      see_steps(p, access, &p->right_stride, &p->right_steps);
    else if (p->row >= 0 && !p->general && access->along[p->row].stride == access->element &&
             access->along[p->column].stride == 0)
      see_steps(p, access, &p->left_stride, &p->left_steps);
  }
}

/* Bytes from one step to the next of what the block writes, along its axis that is number `axis` of the sum. */
static int64_t stride_written(const tn__block *block, const tn__nest *nest, const tn__buffer *sum, int axis) {
  int at = block->writes[0].buffer == sum ? axis : -1;
  for (int r = 0; r < block->read_count && at < 0; r++)
    for (int a = 0; a < block->axis_count && block->reads[r].buffer == sum; a++)
      if (block->reads[r].min[axis] == block->axes[a].var->self) at = a;
  for (int i = 0; i < nest->access_count && at >= 0; i++)
    if (nest->access[i].store) return nest->access[i].along[at].stride;
  return 0;
}

/* In which order tiles are kept, and written by the block that does so. */
static void see_output(tn__contraction *c, tn__contraction_space *p, const char *writer, const tn__nest *nest) {
  const tn__block *block = &tn__sched_find(c->s, writer, true)->block;
  const tn__buffer *sum = c->sum->tensors[0];
  int64_t element = (int64_t)tn_dtype_size(block->writes[0].buffer->dtype);
  for (int d = p->column + 1; d < sum->rank; d++) p->apart_in_sum |= !tn__ir_is_int_value(sum->shape[d], 1);
  p->turned = p->row >= 0 && stride_written(block, nest, sum, p->column) > element &&
              stride_written(block, nest, sum, p->row) == element;
}

static void scan_maps(tn__contraction *c, tn__contraction_space *p) {
  const tn__buffer *output = tn__te_output_at(c->te, 0);
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage->kind != TN__TE_COMPUTE || stage->tensors[0] != output) continue;
    tn__nest nest;
    tn__nest_of_block(c->s, stage->name, &nest);
    p->epilogue = (double)tn__rule_cost(c->ir, stage->values[0]);
    for (int a = 0; a < nest.access_count; a++) p->epilogue_loads += !nest.access[a].store && nest.access[a].moving > 1;
    if (p->epilogue_loads > 0) p->epilogue_loads--; /* the sum itself */
    const tn__snode *block = tn__sched_find(c->s, stage->name, true);
    p->has_epilogue = tn__contraction_is_epilogue(block, c->sum->tensors[0]);
    if (p->has_epilogue) see_output(c, p, stage->name, &nest);
  }
  if (c->sum->tensors[0] == output) see_output(c, p, c->sum->name, &p->nest);
}

/* Is an operand that is widened where it is read always better widened once, before? On the left each element goes into
 * all lanes alone, with instructions of its own. On the right vectors are widened, once for each tile of rows. */
static bool widens_before(const tn__sketch *k, const tn__contraction_space *p, int side) {
  const tn__contraction_operand *o = &p->operand[side];
  double bytes = o->element, rows = 1;
  if (!p->casts[side] || !(side == 0 ? o->bounded : o->sized)) return false;
  for (int d = 0; d < o->rank; d++) bytes *= (double)o->shape[d];
  for (int a = 0; a < p->spatial; a++) rows *= a == p->column || p->moves_right[a] ? 1 : (double)p->nest.extent[a];
  bool few = bytes <= TN__RULE_WIDENED * (double)k->options.cache_bytes;
  return side == 0 || (rows >= TN__RULE_ROWS_TO_WIDEN && few);
}

/* Where operands and the epilogue are computed; there are at most `depths` loops around the tiles. */
static void open_places(tn__sketch *k, const tn__contraction_space *p, int depths) {
  int64_t choices[TN__MAX_CHOICES];
  const tn__contraction_operand *left = &p->operand[0], *right = &p->operand[1];
  for (int a = 0; a < p->spatial; a++) depths += a != p->column && p->moves_right[a];
  for (int side = 0; side < 2; side++) {
    int n = 0;
    bool fixed = side == 0 && p->in_place;
    const tn__contraction_operand *o = side == 0 ? left : right;
    bool casts = p->casts[side] && (side == 0 ? o->bounded : o->sized) && !fixed,
         before = !fixed && widens_before(k, p, side);
    bool waits = side == 0 && !fixed && !p->depthwise && p->group == 0 && tn__contraction_left_waits(p, k);
    /* A copy for each tile of rows, whose loop is the outermost then; the first choice unless all may be copied. */
    bool first = waits && !tn__contraction_has_panels(p, 0);
    if (first) choices[n++] = TN__PLACE_AT;
    if (!before) choices[n++] = fixed ? TN__PLACE_INLINE : TN__PLACE_BEFORE;
    if (side == 1 && casts) choices[n++] = TN__PLACE_APART;
    /* An even number of lines from row to row leaves sets of L1 unused. */
    bool even = p->rows > 1 && p->row_stride > 0 && p->row_stride % (2 * k->target->cpu.machine.costs.line_bytes) == 0;
    if (side == 0 && left->exists && !p->depthwise && !fixed) {
      if (left->bounded && ((left->dim >= 0 && even) || casts)) choices[n++] = TN__PLACE_APART;
      /* Borders are worth their copies of the code only where the rule above found so. */
      if (left->is_map && !left->pads && !casts) choices[n++] = TN__PLACE_INLINE;
    }
    bool useful = casts || (side == 0 ? left->is_map || even || waits : p->panel == 0);
    for (int d = first; d < depths && useful && o->exists && o->bounded && !p->depthwise && !fixed; d++)
      choices[n++] = TN__PLACE_AT + d;
    k->decisions[tn__sketch_open(k, side == 0 ? "left" : "right", choices, n)].late = true;
  }
  static const int64_t ahead[] = {TN__AHEAD_SPREAD, TN__AHEAD_STEPS};
  bool streams_by = right->exists && right->bounded && !right->is_map && !p->depthwise && p->group == 0;
  for (int d = 0; d < right->rank; d++) streams_by &= right->order[d] == d; /* lines are along the last dimension */
  k->decisions[tn__sketch_open(k, "ahead", ahead, streams_by ? 2 : 1)].late = true;
  int n = 0;
  choices[n++] = TN__EPILOGUE_TILE;
  depths -= p->deep >= 0; /* never behind a part of the sums */
  bool elsewhere = p->has_epilogue && !p->turned;
  if (elsewhere) choices[n++] = TN__EPILOGUE_AFTER;
  for (int d = 0; d < depths && elsewhere && !p->any_open; d++) choices[n++] = TN__EPILOGUE_AT + d;
  k->decisions[tn__sketch_open(k, "epilogue", choices, n)].late = true;
}

/* The divisor of `extent` nearest to `wanted`, a multiple of four where there is one; `wanted` when none is near. An
 * extent costs its model a few bytes however long it is, so the search has an end that does not grow with it. */
static int64_t near_divisor(tn__arena *arena, int64_t extent, int64_t wanted) {
  int64_t most = wanted / 4 < TN__RULE_FARTHEST_DIVISOR ? wanted / 4 : TN__RULE_FARTHEST_DIVISOR;
  for (int64_t by = 4; by >= 1; by /= 4)
    for (int64_t away = 0; away <= most; away++) {
      tn__work_step(arena, 1);
      for (int64_t size = wanted - away; size <= wanted + away; size += away > 0 ? 2 * away : 1)
        if (extent % size == 0 && size % by == 0) return size;
    }
  return wanted;
}

/* Blocks of the reduction: their size, and where the loop over them stands among `depths` others. */
static void open_blocks(tn__sketch *k, const tn__contraction_space *p, int depths, tn__arena *arena) {
  int64_t choices[TN__MAX_CHOICES] = {0};
  int n = 1;
  if (p->deep >= 0 && p->nest.open[p->deep]) {
    choices[n++] = TN__RULE_SHORTEST_BLOCK;
  } else if (p->deep >= 0) {
    int64_t extent = p->nest.extent[p->deep],
            longest = extent / 2 < TN__RULE_LONGEST_BLOCK ? extent / 2 : TN__RULE_LONGEST_BLOCK;
    for (int64_t size = TN__RULE_SHORTEST_BLOCK; size <= longest; size *= size < 4096 ? 2 : 4)
      choices[n++] = near_divisor(arena, extent, size);
  }
  tn__decision *depth = &k->decisions[tn__sketch_open(k, "depth", choices, n)];
  depth->late = depth->orders = depth->shares = true;
  for (int d = 0; d <= depths; d++) choices[d] = d;
  k->decisions[tn__sketch_open(k, "depth at", choices, p->deep >= 0 ? depths + 1 : 1)].late = true;
}

static void open_decisions(tn__sketch *k, const tn__contraction_space *p, tn__arena *arena) {
  int64_t lanes[3], choices[TN__MAX_CHOICES], full = k->options.vector_bytes / p->element, inner;
  int n = 0;
  for (int64_t l = full / 4 > 0 ? full / 4 : 1; l <= full; l *= 2) {
    bool in_panel = p->panel == 0 || p->panel % l == 0;
    if ((l < 2 * p->columns || l <= 4) && in_panel) lanes[n++] = l;
  }
  if (n == 0) lanes[n++] = 1;
  tn__sketch_open(k, "lanes", lanes, n);
  static const int64_t vectors[] = {1, 2, 3, 4, 6, 8};
  tn__sketch_open(k, "vectors", vectors, 6);
  n = 0;
  for (int64_t r = 1; r <= 30 && r < k->options.registers; r++) choices[n++] = r;
  tn__sketch_open(k, "rows", choices, p->row >= 0 ? n : 1);
  tn__sketch_open(k, "more rows", choices, p->more_rows >= 0 ? 8 : 1);
  inner = p->nest.open[p->nest.axis_count - 1] ? 1 : p->nest.extent[p->nest.axis_count - 1];
  choices[0] = 1, n = 1;
  for (int64_t u = 2; u <= 4; u *= 2)
    if (inner % u == 0 && inner > u) choices[n++] = u;
  tn__sketch_open(k, "unroll", choices, n);
  int others = 0;
  for (int a = 0; a < p->spatial; a++) others += a != p->column && !p->moves_right[a];
  for (n = 0; n <= others; n++) choices[n] = n;
  tn__sketch_open(k, "columns at", choices, n);
  static const int64_t blocks[] = {1, 2, 4, 8, 16};
  tn__sketch_open(k, "block", blocks, others > 0 ? 5 : 1);
  static const int64_t shared[] = {0, 1, 2, 3, 4};
  tn__sketch_open(k, "shared", shared, (k->options.threads > 1 || p->deep >= 0) && p->large ? 5 : 1);
  open_places(k, p, others + 2 + (p->group > 0) + (p->deep >= 0));
  int depths = others + 2;
  for (int a = 0; a < p->spatial; a++) depths += a != p->column && p->moves_right[a];
  open_blocks(k, p, depths, arena);
  bool right = tn__contraction_has_panels(p, 1), left = tn__contraction_has_panels(p, 0);
  n = 0;
  choices[n++] = 0;
  if (right) choices[n++] = TN__PANELS_RIGHT;
  if (left) choices[n++] = TN__PANELS_LEFT;
  if (left && right) choices[n++] = TN__PANELS_LEFT | TN__PANELS_RIGHT;
  k->decisions[tn__sketch_open(k, "panels", choices, n)].copies = true;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static const char *part(tn__contraction *c, const char *loop, int index) {
  return tn__arena_printf(c->s->arena, "%s.%d", loop, index);
}

/* Loops that others are put into. */
typedef struct nest_loops {
  const char *places[TN__NEST_LOOPS]; /* by depth, around the tiles */
  const char *tile;                   /* the innermost of them */
  const char *first_reduction, *last_reduction;
  const char *blocks; /* of the reduction; NULL: there are none */
} nest_loops;

/* A block of the reduction at a time: its sums are partial ones, which the sum takes up behind each tile; or in a nest
 * of its own behind all blocks, which threads then share. */
static void reduce_blocks(tn__contraction *c, const char *blocks, const char *tile, bool shared) {
  c->block = tn__sched_fresh_name(c->s, true, tn__arena_printf(c->s->arena, "%s.rf", c->sum->name));
  tn__sched_rfactor_at(c->s, blocks, tile);
  if (shared) tn__sched_compute_root(c->s, c->sum->name);
}

/* The block `writer` goes behind the sums of a tile and takes vectors of its rows: columns of what is in registers. */
static void turn_tile(tn__contraction *c, const char *writer, const char *tile) {
  tn__schedule *s = c->s;
  tn__sched_reverse_compute_at(s, writer, tile);
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, writer, loops, TN__MAX_LOOPS);
  const char *order[] = {loops[count - 2], loops[count - 1], loops[count - 3]}; /* rows, vectors, lanes before */
  tn__sched_reorder(s, order, 3);
  tn__sched_unroll(s, order[0]);
  tn__sched_transpose(s, writer, order[1], order[2]);
}

/* Puts the loops in order. `writer`, if not NULL, is what takes the sums out of registers, transposed. */
static void tile_loops(tn__contraction *c, const tn__contraction_space *p, const int64_t *v, const char *writer,
                       nest_loops *out) {
  tn__schedule *s = c->s;
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS], *outside[TN__NEST_AXES], *inside[TN__NEST_AXES] = {NULL};
  int count = tn__sched_loops_of(s, c->sum->name, loops, TN__MAX_LOOPS), n = 0;
  tn__outer_loops outer;
  if (!tn__contraction_loops(p, v, &outer) || count != p->nest.axis_count || p->spatial >= count)
    tn__sched_refuse(s, "contraction: the decisions don't go together");
  for (int a = 0; a < p->spatial; a++) outside[a] = loops[a];
  out->blocks = NULL;
  if (outer.depth >= 0) {
    tn__sched_split(s, loops[p->deep], (const int64_t[]){0, v[TN__TILE_DEPTH]}, 2);
    out->blocks = outside[p->deep] = part(c, loops[p->deep], 0);
    loops[p->deep] = part(c, loops[p->deep], 1);
  }
  const char *column = loops[c->column];
  if (c->group > 0) {
    tn__sched_split(s, column, (const int64_t[]){0, c->group}, 2);
    order[n++] = part(c, column, 0);
    column = part(c, column, 1);
  }
  tn__sched_split(s, column, (const int64_t[]){0, v[TN__TILE_VECTORS], v[TN__TILE_LANES]}, 3);
  outside[c->column] = part(c, column, 0);
  for (int i = 0; i < 2; i++) {
    int axis = i == 0 ? c->more_rows : c->row;
    int64_t tile = i == 0 ? v[TN__TILE_MORE_ROWS] : v[TN__TILE_ROWS];
    if (axis < 0 || (i == 0 && tile == 1)) continue;
    tn__sched_split(s, loops[axis], (const int64_t[]){0, tile}, 2);
    outside[axis] = part(c, loops[axis], 0);
    inside[axis] = part(c, loops[axis], 1);
  }
  if (outer.block >= 0) {
    const char *loop = outside[outer.loop[outer.block].axis];
    tn__sched_split(s, loop, (const int64_t[]){0, v[TN__TILE_BLOCK]}, 2);
    outside[outer.loop[outer.block].axis] = part(c, loop, 1);
  }
  for (int i = n; i < outer.count; i++) {
    int axis = outer.loop[i].axis;
    bool split = outer.block >= 0 && axis == outer.loop[outer.block].axis && i != outer.block;
    order[n++] =
        split ? tn__arena_printf(s->arena, "%.*s0", (int)strlen(outside[axis]) - 1, outside[axis]) : outside[axis];
  }
  int tiles_end = n;
  const char *last = loops[count - 1], *unrolled = NULL;
  if (v[TN__TILE_UNROLL] > 1) {
    tn__sched_split(s, last, (const int64_t[]){0, v[TN__TILE_UNROLL]}, 2);
    unrolled = part(c, last, 1);
    last = part(c, last, 0);
  }
  int taps_from = tn__contraction_taps_from(p, v);
  out->first_reduction = out->last_reduction = p->spatial == count - 1 ? last : loops[p->spatial];
  for (int i = p->spatial; i < taps_from; i++) order[n++] = i == count - 1 ? last : loops[i];
  if (taps_from > p->spatial) out->last_reduction = order[n - 1];
  int unroll_from = n;
  if (unrolled != NULL) order[n++] = unrolled;
  for (int a = 0; a < p->spatial; a++)
    if (inside[a] != NULL) order[n++] = inside[a];
  order[n++] = part(c, column, 1);
  for (int i = taps_from; i < count; i++) order[n++] = loops[i];
  order[n++] = part(c, column, 2);
  tn__sched_reorder(s, order, n);
  if (writer != NULL) turn_tile(c, writer, order[tiles_end - 1]);
  for (int i = unroll_from; i < n - 1; i++) tn__sched_unroll(s, order[i]);
  for (int a = p->spatial; a < taps_from; a++)
    if (p->in_place && tn__contraction_is_tap(p, v, a)) tn__sched_unroll(s, loops[a]);
  if (v[TN__TILE_LANES] > 1) tn__sched_vectorize(s, order[n - 1]);
  if (outer.depth >= 0) reduce_blocks(c, out->blocks, order[tiles_end - 1], tn__contraction_shares_blocks(&outer, v));
  const char *outermost = order[0];
  int fused = v[TN__TILE_SHARED] > 1 ? (int)v[TN__TILE_SHARED] : 1;
  for (int i = 1; i < fused; i++) {
    tn__sched_fuse(s, outermost, order[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, order[i]);
  }
  for (int i = 0; i < tiles_end; i++) out->places[i] = i < fused ? outermost : order[i];
  if (v[TN__TILE_SHARED] > 0) tn__sched_parallel(s, outermost);
  out->tile = tiles_end == fused ? outermost : order[tiles_end - 1];
}

static void vectorize_last(tn__schedule *s, const char *block, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS);
  const char *last = loops[count - 1];
  int64_t extent = tn__rule_loop_extent(s, last);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes <= 1) return;
  tn__sched_split(s, last, (const int64_t[]){0, lanes}, 2);
  tn__sched_vectorize(s, tn__arena_printf(s->arena, "%s.1", last));
}

/* Rows an odd number of cache lines apart, so that all sets have their turn. */
static void move_rows_apart(tn__schedule *s, const char *block, const tn__contraction_operand *o) {
  int64_t line = s->target->cpu.machine.costs.line_bytes / o->element;
  if (o->dim >= 0 && line > 0) tn__sched_storage_align(s, block, 0, o->dim, 2 * line, line);
}

/* The copy of an operand that `block` makes, in panels of `width` columns or rows, each step of the sum behind the
 * other. */
static void put_in_panels(tn__contraction *c, const tn__contraction_space *p, int side, const char *block,
                          int64_t width) {
  const tn__contraction_operand *o = &p->operand[side];
  tn__layout layout = {.rank = 0};
  int lead = 0, last = o->rank - 1;
  for (bool stands = true; stands && lead < last; lead += stands) /* dimensions that the sum does not run over */
    for (int a = p->spatial; a < p->nest.axis_count; a++) stands &= o->step[lead][a] == 0;
  for (int d = 0; d < last; d++) {
    if (d == lead) layout.parts[layout.rank++] = (tn__layout_part){last, width, 0};
    layout.parts[layout.rank++] = (tn__layout_part){d, 1, 0};
  }
  layout.parts[layout.rank++] = (tn__layout_part){last, 1, width};
  tn__sched_transform_layout(c->s, tn__sched_find(c->s, block, true)->block.writes[0].buffer->name, &layout);
  const char *loops[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(c->s, block, loops, TN__MAX_LOOPS);
  tn__sched_split(c->s, loops[count - 1], (const int64_t[]){0, width}, 2);
}

/* An operand to where `place` says; `loop` is the loop that belongs to it. `width`: of panels, 0: none. */
static void place_operand(tn__contraction *c, const tn__contraction_space *p, int side, int64_t place, const char *loop,
                          int64_t lanes, int64_t width) {
  tn__schedule *s = c->s;
  const tn__contraction_operand *o = &p->operand[side];
  if (place == TN__PLACE_BEFORE && width == 0) return;
  const tn__te_stage *map = o->is_map ? tn__contraction_map(c, side) : NULL;
  const char *block = map != NULL ? map->name : NULL;
  if (place == TN__PLACE_INLINE) {
    tn__sched_inline(s, block);
    return;
  }
  const tn__snode *sum = tn__sched_find(s, c->block, true);
  const tn__buffer *buffer = side == 0 ? c->left->value.buffer : c->right->value.buffer;
  bool casts = p->casts[side];
  for (int r = 0; (block == NULL || casts) && r < sum->block.read_count; r++)
    if (sum->block.reads[r].buffer == buffer) {
      const char *copy = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.read%d", c->block, r));
      bool moves = false;
      for (int d = 0; d < o->rank; d++) moves |= o->order[d] != d;
      if (moves)
        tn__sched_cache_read_in_order(s, c->block, r, TN__SCOPE_WORKSPACE, o->order, o->rank);
      else
        (casts ? tn__sched_cache_read_cast : tn__sched_cache_read)(s, c->block, r, TN__SCOPE_WORKSPACE);
      if (block != NULL) tn__sched_inline(s, block); /* the map, into the copy */
      block = copy;
      break;
    }
  if (block == NULL) tn__sched_refuse(s, "contraction: the sum does not read its operand");
  if (place >= TN__PLACE_AT) {
    tn__sched_compute_at(s, block, loop);
    tn__sched_set_scope(s, block, 0, TN__SCOPE_STACK);
  }
  if (width > 0)
    put_in_panels(c, p, side, block, width);
  else if (!p->depthwise)
    move_rows_apart(s, block, o);
  vectorize_last(s, block, lanes);
  const char *loops[TN__MAX_LOOPS];
  if (place < TN__PLACE_AT && tn__sched_loops_of(s, block, loops, TN__MAX_LOOPS) > 1 && p->large &&
      c->options->threads > 1)
    tn__sched_parallel(s, loops[0]);
}

/* The panel of the right operand that the next column tile takes, while the present one is in use: step by step in each
 * row tile, or once, spread over all of them. */
static void fetch_ahead(tn__contraction *c, const nest_loops *nest, const char *columns, bool spread) {
  const tn__snode *sum = tn__sched_find(c->s, c->block, true);
  for (int r = 0; r < sum->block.read_count; r++) {
    if (sum->block.reads[r].buffer != c->right->value.buffer) continue;
    if (spread)
      tn__sched_prefetch_spread(c->s, c->block, r, nest->last_reduction, columns, 1);
    else
      tn__sched_prefetch_ahead(c->s, c->block, r, nest->last_reduction, columns, 1);
  }
}

/* The longest axis of the reduction, where it is worth blocking: shorter ones have panels that stay in the second
 * cache.
 */
static void find_deep(tn__contraction_space *p) {
  p->deep = -1;
  if (p->general || p->depthwise || p->group > 0 || p->in_place || !p->has_right || p->apart_in_sum || p->turned)
    return;
  for (int a = p->spatial; a < p->nest.axis_count; a++)
    if (p->deep < 0 || p->nest.open[a] || p->nest.extent[a] > p->nest.extent[p->deep]) p->deep = a;
  if (p->deep >= 0 && !p->nest.open[p->deep] && p->nest.extent[p->deep] < 4 * TN__RULE_SHORTEST_BLOCK) p->deep = -1;
}

/* Do windows of one operand move over the results, which nothing else tells apart? No tile has rows then that share a
 * right operand, and what neighbouring windows have in common is all there is to win. */
static bool only_slides(const tn__contraction_space *p) {
  for (int i = 0; i < p->nest.access_count && p->row < 0 && !p->depthwise; i++)
    for (int a = 0; a < p->spatial && !p->nest.access[i].store; a++)
      for (int r = p->spatial; r < p->nest.axis_count; r++)
        if (p->nest.access[i].along[a].stride != 0 &&
            p->nest.access[i].along[a].stride == p->nest.access[i].along[r].stride)
          return true;
  return false;
}

static void open_sketch(tn__sketch *k, tn__schedule *scratch) {
  if (tn__reduce_has_few_results(tn__te_ir(k->te), tn__contraction_find(k->te), &k->options))
    tn__sched_refuse(scratch, "contraction: a few results fill no tile");
  tn__contraction c = {.s = scratch, .te = k->te, .ir = scratch->ir, .options = &k->options, .known_column = -1};
  tn__te_stage seen;
  tn__contraction_prepare(&c, &seen);
  tn__contraction_space *p = TN__NEW(scratch->arena, tn__contraction_space);
  *p = (tn__contraction_space){.column = c.column,
                               .left = c.known_left,
                               .row = c.row,
                               .more_rows = c.more_rows,
                               .spatial = seen.axes.count,
                               .reduce = seen.reduce_axes.count,
                               .group = c.group,
                               .panel = c.panel,
                               .depthwise = c.depthwise,
                               .general = c.general,
                               .has_right = c.general || c.right != NULL,
                               .large = tn__rule_is_large(k->te)};
  tn__nest_of_block(scratch, c.sum->name, &p->nest);
  if (p->nest.axis_count + 6 > TN__NEST_LOOPS || p->nest.axis_count != p->spatial + p->reduce)
    tn__sched_refuse(scratch, "contraction: too many axes");
  p->columns = c.group > 0 ? c.group : p->nest.extent[c.column];
  p->rows = c.row >= 0 ? p->nest.extent[c.row] : 1;
  p->more = c.more_rows >= 0 ? p->nest.extent[c.more_rows] : 1;
  p->element = (int)tn_dtype_size(seen.tensors[0]->dtype);
  p->left_element = c.left == NULL ? p->element : (int)tn_dtype_size(c.left->value.buffer->dtype);
  for (int a = 0; a < p->nest.axis_count; a++) p->any_open |= p->nest.open[a];
  p->right_element = c.right == NULL ? p->element : (int)tn_dtype_size(c.right->value.buffer->dtype);
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *access = &p->nest.access[i];
    if (access->store || p->row_stride != 0) continue;
    if (p->row >= 0) p->row_stride = access->along[p->row].stride;
    if (p->more_rows >= 0) p->more_stride = access->along[p->more_rows].stride;
  }
  see_operand_rows(p);
  for (int a = 0; a < p->spatial; a++) p->moves_right[a] = tn__contraction_moves(&c, 1, a);
  if (p->general) tn__contraction_count(&c, &p->term);
  p->in_place = tn__contraction_pads_in_place(&c, &seen, p);
  tn__contraction_see_operands(&c, &seen, p);
  scan_maps(&c, p);
  find_deep(p);
  k->data = p;
  k->firm = !p->general && !only_slides(p); /* what a product takes is told more closely here than by outlines */
  open_decisions(k, p, scratch->arena);
}

/* Columns last, so that they lie side by side in a tile. */
static void put_columns_last(tn__schedule *s, const tn__buffer *tile, int column) {
  tn__layout layout = {.rank = tile->rank};
  for (int d = 0; d < tile->rank; d++) {
    int from = d + 1 == tile->rank ? column : d + (d >= column);
    layout.parts[d] = (tn__layout_part){from, 1, 0};
  }
  tn__sched_transform_layout(s, tile->name, &layout);
}

/* The sums of a tile in registers. Returns the block that takes them from there; *separate is one that reads them all
 * later (NULL: none). */
static const char *sums_in_registers(tn__contraction *c, const int64_t *v, const char **separate) {
  tn__schedule *s = c->s;
  const tn__buffer *output = tn__te_output_at(c->te, 0), *tensor = c->sum->tensors[0];
  const char *consumer = NULL;
  if (output != tensor) {
    consumer = tn__te_stage_of(c->te, output)->name;
    if (v[TN__TILE_EPILOGUE] != TN__EPILOGUE_TILE ||
        !tn__contraction_is_epilogue(tn__sched_find(s, consumer, true), tensor)) {
      *separate = consumer;
      consumer = NULL;
    }
  }
  if (consumer == NULL) {
    tn__sched_cache_write(s, c->sum->name, 0, TN__SCOPE_REGISTER);
    return tn__arena_printf(s->arena, "%s.write", c->sum->name);
  }
  tn__sched_set_scope(s, c->sum->name, 0, TN__SCOPE_REGISTER);
  return consumer;
}

/* Partial sums of blocks that threads share: written out by each, and added up behind all, over what lies side by
 * side. */
static bool add_up_blocks(tn__contraction *c, const nest_loops *nest) {
  tn__schedule *s = c->s;
  const tn__buffer *partial = tn__sched_find(s, c->block, true)->block.writes[0].buffer;
  tn__layout layout = {.rank = partial->rank, .parts = {{partial->rank - 1, 1, 0}}};
  for (int d = 1; d < partial->rank; d++) layout.parts[d] = (tn__layout_part){d - 1, 1, 0};
  tn__sched_transform_layout(s, partial->name, &layout);
  tn__sched_cache_write(s, c->block, 0, TN__SCOPE_REGISTER);
  tn__sched_reverse_compute_at(s, tn__arena_printf(s->arena, "%s.write", c->block), nest->tile);
  tn__sched_decompose_reduction(s, c->block, nest->first_reduction);
  tn__schedule_options alone = *c->options;
  alone.threads = 1;
  return tn__rule_reduce_across(s, c->sum->name, &alone, 1);
}

/* What becomes of the sums of blocks of the reduction, and the epilogue behind the last one. */
static void finish_blocks(tn__contraction *c, const tn__contraction_space *p, const int64_t *v, const nest_loops *nest,
                          const tn__outer_loops *outer) {
  tn__schedule *s = c->s;
  const tn__buffer *output = tn__te_output_at(c->te, 0), *tensor = c->sum->tensors[0];
  const char *consumer = output == tensor ? NULL : tn__te_stage_of(c->te, output)->name;
  if (tn__contraction_shares_blocks(outer, v)) {
    if (!add_up_blocks(c, nest) && consumer != NULL) tn__rule_nest(s, consumer, c->options);
    return;
  }
  tn__sched_set_scope(s, c->block, 0, TN__SCOPE_REGISTER);
  if (tn__sched_find(s, c->block, true)->block.init != NULL)
    tn__sched_decompose_reduction(s, c->block, nest->first_reduction);
  tn__sched_decompose_reduction(s, c->sum->name, nest->blocks);
  if (consumer == NULL) return;
  if (outer->depth > 0 && tn__contraction_is_epilogue(tn__sched_find(s, consumer, true), tensor))
    tn__sched_reverse_compute_at(s, consumer, nest->places[outer->depth - 1]);
  else
    tn__rule_nest(s, consumer, c->options);
}

static void apply(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  const tn__contraction_space *known = k->data;
  tn__contraction c = {.s = s, .te = k->te, .ir = s->ir, .options = &k->options, .known_column = known->column};
  c.known_left = known->left;
  c.known_depthwise = known->depthwise;
  c.later[0] = known->operand[0].is_map && (known->streams || v[TN__TILE_LEFT] != TN__PLACE_BEFORE);
  c.later[1] = known->operand[1].is_map && v[TN__TILE_RIGHT] != TN__PLACE_BEFORE;
  tn__te_stage seen;
  tn__contraction_prepare(&c, &seen);
  c.block = c.sum->name;
  nest_loops nest;
  const char *separate = NULL, *consumer = v[TN__TILE_DEPTH] > 0 ? NULL : sums_in_registers(&c, v, &separate);
  if (known->apart_in_sum && consumer != NULL)
    put_columns_last(s, tn__sched_find(s, c.block, true)->block.writes[0].buffer, known->column);
  bool turned = known->turned && v[TN__TILE_ROWS] > 1 && v[TN__TILE_LANES] > 1;
  tile_loops(&c, known, v, turned ? consumer : NULL, &nest);
  tn__outer_loops outer;
  if (!tn__contraction_loops(known, v, &outer)) tn__sched_refuse(s, "contraction: its loops do not go together");
  for (int side = 0; side < 2; side++) {
    int64_t place = v[side == 0 ? TN__TILE_LEFT : TN__TILE_RIGHT];
    if (side == 0 && known->streams) place = TN__PLACE_AT + outer.column_tiles;
    if (place >= TN__PLACE_AT + outer.count) tn__sched_refuse(s, "contraction: there is no such loop");
    int64_t width = side == 0 ? v[TN__TILE_ROWS] : v[TN__TILE_LANES] * v[TN__TILE_VECTORS];
    place_operand(&c, known, side, place, place >= TN__PLACE_AT ? nest.places[place - TN__PLACE_AT] : NULL,
                  v[TN__TILE_LANES], tn__contraction_in_panels(v, side) ? width : 0);
  }
  bool spread = tn__contraction_spreads(k, v);
  if (spread || v[TN__TILE_AHEAD] == TN__AHEAD_STEPS) fetch_ahead(&c, &nest, nest.places[outer.column_tiles], spread);
  if (outer.depth >= 0) {
    finish_blocks(&c, known, v, &nest, &outer);
    return;
  }
  if (!turned) tn__sched_reverse_compute_at(s, consumer, nest.tile);
  tn__sched_decompose_reduction(s, c.sum->name, nest.first_reduction);
  if (separate == NULL) return;
  if (v[TN__TILE_EPILOGUE] < TN__EPILOGUE_AT) {
    tn__rule_nest(s, separate, &k->options);
    return;
  }
  if (v[TN__TILE_EPILOGUE] >= TN__EPILOGUE_AT + outer.count) tn__sched_refuse(s, "contraction: there is no such loop");
  tn__sched_set_scope(s, consumer, 0, TN__SCOPE_STACK);
  tn__sched_reverse_compute_at(s, separate, nest.places[v[TN__TILE_EPILOGUE] - TN__EPILOGUE_AT]);
}

const tn__rule tn__rule_contraction = {"contraction", matches,       open_sketch, tn__contraction_features,
                                       apply,         .yields = true};
