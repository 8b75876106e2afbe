/* Scans. What a step reads of the steps before it stays in registers where it reads its own place of the other axes,
 * at most a few steps back:
 *  - along the last axis, rows of another axis side by side in vectors: a tile of rows and steps is turned on its way
 *    in and out of registers;
 *  - along the last axis of few or long rows, in vectors of steps where their operation is exactly associative, else
 *    one element after the other;
 *  - along another axis, in strips of vectors along the last one, all steps of a strip after each other;
 *  - along another axis of what is far or needs its neighbours, the last one in vectors, and memory between the steps,
 *    for no more of them than are read. */
#include "base/invariant.h"
#include "ir/running.h"
#include "schedule/rules/reduce.h"

/* Operations of a step that are written out for every step of a tile. */
#define MOST_OPERATIONS 48
/* Steps that registers hold without tiles. */
#define MOST_STEPS 8
/* Lanes of a vector of steps: more take a step in more, and shuffles of what is no whole register. */
#define MOST_PREFIX 32
/* Vectors of a strip, as far as registers go, and the operations that are written out for all of them. */
#define MOST_STRIP 8
#define MOST_OF_A_STRIP 320

typedef struct scan {
  tn__schedule *s;
  const tn__te_stage *stage;
  const tn__schedule_options *options;
  tn__snode *block, *along;        /* the loop over steps */
  tn__snode *others[TN__MAX_RANK]; /* those over the other axes, outermost first */
  int other_count;
  int64_t rows; /* that stay in registers */
  const char *writers[4];
} scan;

static int64_t extent_of(const tn__snode *loop) {
  int64_t extent;
  return tn__ir_as_int(loop->var->extent, &extent) ? extent : INT64_MAX;
}

static int64_t power_below(int64_t most, int64_t n) {
  int64_t power = 1;
  while (2 * power <= most && power < n) power *= 2;
  return power;
}

/* Do steps read their own places of the other axes, a few steps back? */
static bool keeps_to_itself(scan *c) {
  c->rows = 1;
  for (int t = 0; t < c->block->block.write_count; t++) {
    int64_t rows = tn__sched_scan_rows(c->s, c->block, c->block->block.writes[t].buffer);
    if (rows < 0 || rows > MOST_STEPS) return false;
    while (c->rows < rows) c->rows *= 2;
  }
  for (int i = 0; i < c->other_count; i++)
    if (!tn__sched_scan_keeps_to(c->s, c->block, c->others[i])) return false;
  return true;
}

/* Of a step behind the first ones. */
static int64_t later_operations(const scan *c) {
  int64_t cost = 0;
  for (int t = 0; t < c->stage->tensor_count; t++) cost += tn__rule_cost(c->s->ir, c->stage->values[t]);
  return cost;
}

static int64_t operations(const scan *c) {
  int64_t cost = later_operations(c);
  for (int t = 0; t < c->stage->tensor_count; t++)
    if (c->stage->first[t] != NULL) cost += tn__rule_cost(c->s->ir, c->stage->first[t]);
  return cost;
}

/* The other axes outside, the steps inside of them. */
static void put_steps_inside(scan *c) {
  const char *order[TN__MAX_RANK + 1];
  for (int i = 0; i < c->other_count; i++) order[i] = c->others[i]->name;
  order[c->other_count] = c->along->name;
  if (c->other_count > 0) tn__sched_reorder(c->s, order, c->other_count + 1);
}

/* Keeps `rows` steps in registers; blocks that write them out come under `loop`. With `turned`, dimension number
 * `turned` is the one that lies contiguous there. */
static void keep_steps(scan *c, int64_t rows, const char *loop, int turned) {
  tn__schedule *s = c->s;
  for (int t = 0; t < c->stage->tensor_count; t++) {
    c->writers[t] = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", c->stage->name));
    tn__sched_cache_write(s, c->stage->name, t, TN__SCOPE_REGISTER);
    const tn__buffer *local = c->block->block.writes[t].buffer;
    tn__layout layout = {.rank = local->rank};
    int at = 0;
    for (int d = 0; d < local->rank; d++)
      if (d != turned) layout.parts[at++] = (tn__layout_part){d, 1, 0};
    if (turned >= 0) layout.parts[at] = (tn__layout_part){turned, 1, 0};
    if (turned >= 0) tn__sched_transform_layout(s, local->name, &layout);
    tn__sched_reverse_compute_at(s, c->writers[t], loop);
    tn__sched_fold_scan(s, c->stage->name, t, rows);
  }
}

static void share_outermost(scan *c) {
  tn__snode *path[TN__MAX_LOOPS];
  if (!tn__rule_shares(c->s, c->options) || tn__sched_path(c->s, c->s->root, c->block, path) == 0) return;
  if (!tn__sched_drives(path[0], c->block, TN__AXIS_SCAN) && !tn__ir_is_int_value(path[0]->var->extent, 1))
    tn__sched_parallel(c->s, path[0]->name);
}

/* Does a step of the operation take one element a cycle, which few lanes don't beat? */
static bool is_quick(const tn__expr *combine) { return tn__dtype_is_int(combine->dtype) || combine->dtype == TN_BOOL; }

/* Vectors of steps, each of which needs the logarithm of its lanes in operations. False, with nothing done but the
 * loops' order, where the steps' order matters. */
static bool run_prefixes(scan *c) {
  tn__schedule *s = c->s;
  tn__ir_running running;
  int64_t lanes = c->options->vector_bytes / (int64_t)tn_dtype_size(c->stage->tensors[0]->dtype);
  if (lanes > MOST_PREFIX) lanes = MOST_PREFIX;
  if (c->stage->tensor_count != 1 || c->rows != 1 || c->stage->backwards || c->stage->scan_depth != 1 ||
      extent_of(c->along) < 2 * lanes || lanes < 4 || c->block->block.body->kind != TN__STMT_STORE ||
      !tn__ir_running_of(s->ir, c->block->block.body->as.store.value, c->stage->tensors[0], &running) ||
      (lanes < 8 && is_quick(running.combine)))
    return false;
  tn__sched_split(s, c->along->name, (const int64_t[]){0, lanes}, 2);
  const char *lane = tn__reduce_last_loop(s, c->stage->name);
  keep_steps(c, 1, lane, -1);
  tn__sched_vectorize(s, lane);
  share_outermost(c);
  return true;
}

/* One element after the other. */
static void run_steps(scan *c) {
  tn__schedule *s = c->s;
  put_steps_inside(c);
  if (run_prefixes(c)) return;
  int64_t steps = operations(c) > MOST_OPERATIONS ? c->rows : MOST_STEPS;
  const char *loop = c->along->name;
  if (steps > 1) {
    tn__sched_split(s, loop, (const int64_t[]){0, steps}, 2);
    loop = tn__reduce_last_loop(s, c->stage->name);
  }
  keep_steps(c, c->rows, loop, -1);
  if (steps > 1) tn__sched_unroll(s, loop);
  share_outermost(c);
}

/* Tiles of `lanes` rows along the loop `row` and as many steps. */
static void run_tiles(scan *c, int row, int64_t lanes, int64_t steps) {
  tn__schedule *s = c->s;
  const char *order[TN__MAX_RANK + 3], *name = c->stage->name, *loops[TN__MAX_LOOPS];
  int n = 0, dim = 0;
  while (c->block->block.axes[dim].binding != c->others[row]->var->self) dim++;
  const char *across = c->others[row]->name, *along = c->along->name;
  for (int i = 0; i < c->other_count; i++)
    if (i != row) order[n++] = c->others[i]->name;
  tn__sched_split(s, across, (const int64_t[]){0, lanes}, 2);
  tn__sched_split(s, along, (const int64_t[]){0, steps}, 2);
  order[n++] = tn__arena_printf(s->arena, "%s.0", across);
  const char *turns = order[n++] = tn__arena_printf(s->arena, "%s.0", along);
  const char *step = order[n++] = tn__arena_printf(s->arena, "%s.1", along);
  const char *lane = order[n++] = tn__arena_printf(s->arena, "%s.1", across);
  tn__sched_reorder(s, order, n);
  keep_steps(c, steps, turns, dim);
  for (int t = 0; t < c->stage->tensor_count; t++) {
    int count = tn__sched_loops_of(s, c->writers[t], loops, TN__MAX_LOOPS);
    tn__sched_reorder(s, (const char *[]){loops[count - 1], loops[count - 2]}, 2);
    tn__sched_unroll(s, loops[count - 1]);
    tn__sched_vectorize(s, loops[count - 2]);
  }
  if (tn__sched_scan_tiles(s, c->block, tn__sched_find(s, step, false), tn__sched_find(s, lane, false)) > 0) {
    tn__sched_transpose(s, name, step, lane);
  } else {
    tn__sched_unroll(s, step);
    tn__sched_vectorize(s, lane);
  }
  share_outermost(c);
}

/* The last of the other axes that fills a vector, or the longest; -1: all are too short, or tiles would not fit. */
TN_MUST_USE static int axis_for_vectors(scan *c, int64_t *lanes) {
  int best = -1;
  int64_t widest = 4;
  for (int t = 0; t < c->stage->tensor_count; t++) {
    int64_t bytes = (int64_t)tn_dtype_size(c->stage->tensors[t]->dtype);
    if (bytes > widest) widest = bytes;
  }
  *lanes = c->options->vector_bytes / widest;
  for (int i = c->other_count - 1; i >= 0; i--)
    if (best < 0 || (extent_of(c->others[best]) < *lanes && extent_of(c->others[i]) > extent_of(c->others[best])))
      best = i;
  if (best < 0 || extent_of(c->others[best]) < 2 || *lanes < 2) return -1;
  int64_t rows = power_below(*lanes, extent_of(c->others[best]));
  int tiles = tn__sched_scan_tiles(c->s, c->block, c->along, c->others[best]);
  /* Half of the registers for what comes in, half for what goes out, and one tile in more is worth that they don't
   * fit. */
  if (tiles < 0 || c->stage->tensor_count + tiles > 3) return -1;
  *lanes = rows;
  return best;
}

/* Do vectors as wide as a line lie across two of them all along the rows of `extent` elements? Halves of them, of which
 * every other one does, take a tenth less then where little is computed. */
static bool crosses_lines(const scan *c, int64_t extent) {
  return c->options->vector_bytes == TN__LINE_BYTES && extent >= 0 &&
         extent * (int64_t)tn_dtype_size(c->stage->tensors[0]->dtype) % TN__LINE_BYTES != 0 &&
         operations(c) <= TN__RULE_UNROLL_FOUR;
}

static bool is_far(const scan *c) {
  return tn__rule_bytes(c->stage->tensors[0]) > TN__RULE_NEAR * (double)c->s->target->cpu.machine.l2_bytes;
}

/* Axes in front of the scan's lie in one piece with all of its steps: they stand outside where they can. */
static void put_blocks_outside(scan *c) {
  const char *order[TN__MAX_RANK + 1];
  int n = 0;
  for (int i = 0; i < c->stage->scan_axis; i++) {
    TN__INVARIANT(c->others[i] != NULL);
    if (!tn__sched_scan_keeps_to(c->s, c->block, c->others[i])) return;
    order[n++] = c->others[i]->name;
  }
  if (n == 0) return;
  order[n++] = c->along->name;
  tn__sched_reorder(c->s, order, n);
}

static void run_across(scan *c) {
  tn__schedule *s = c->s;
  put_blocks_outside(c);
  const char *loop = tn__reduce_last_loop(s, c->stage->name);
  int64_t extent = tn__rule_loop_extent(s, loop);
  int64_t lanes = c->options->vector_bytes / (int64_t)tn_dtype_size(c->stage->tensors[0]->dtype);
  if (is_far(c) && crosses_lines(c, extent)) lanes /= 2;
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  tn__sched_split(s, loop, (const int64_t[]){0, lanes}, 2);
  tn__sched_vectorize(s, tn__reduce_last_loop(s, c->stage->name));
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* The longest row of neighbours behind the scan's axis that is one long walk for all that a step reads and writes. */
static void fuse_rows(scan *c) {
  for (int i = c->other_count - 2; i >= c->stage->scan_axis; i--) {
    if (!tn__rule_is_one_walk(c->s, c->block, c->others[i], c->others[i + 1])) return;
    tn__sched_fuse(c->s, c->others[i]->name, c->others[i + 1]->name);
    tn__snode *path[TN__MAX_LOOPS];
    int count = tn__sched_path(c->s, c->s->root, c->block, path);
    c->other_count = 0;
    for (int p = 1; p < count; p++) c->others[c->other_count++] = path[p];
  }
}

/* How many vectors side by side have their last steps in half of the registers, for rows of `all`. */
static int64_t vectors_of_strip(const scan *c, int64_t all) {
  int64_t each = c->rows * c->stage->tensor_count, most = c->options->registers / (2 * each);
  if (most > MOST_STRIP) most = MOST_STRIP;
  while (most > 1 && most * c->rows * (later_operations(c) + 1) > MOST_OF_A_STRIP) most--;
  if (most < 1) return 0;
  int64_t strips = (all + most - 1) / most;
  return (all + strips - 1) / strips;
}

/* Do tensors stay near while strip after strip goes through all steps, a piece of each row at a time? Or is a strip a
 * whole row? */
static bool is_near(const scan *c, int64_t strips) {
  double bytes = 0;
  for (int r = 0; r < c->block->block.read_count; r++)
    if (!tn__sched_writes(c->block, c->block->block.reads[r].buffer))
      bytes += tn__rule_bytes(c->block->block.reads[r].buffer);
  for (int w = 0; w < c->block->block.write_count; w++) bytes += tn__rule_bytes(c->block->block.writes[w].buffer);
  return strips == 1 || bytes <= TN__RULE_NEAR * (double)c->s->target->cpu.machine.l2_bytes;
}

/* All steps of some vectors of neighbours, and then those of the next. False, with nothing done, where that is not
 * better than whole rows. */
static bool run_strips(scan *c) {
  tn__schedule *s = c->s;
  const char *order[TN__MAX_RANK + 4], *loops[TN__MAX_LOOPS];
  int64_t widest = 1, extent = extent_of(c->others[c->other_count - 1]);
  for (int t = 0; t < c->stage->tensor_count; t++) {
    if (!tn__sched_is_output(s, c->stage->tensors[t]) && tn__sched_can_fold_scan(s, c->stage->tensors[t], MOST_STEPS))
      return false; /* nobody reads more than its end: a few rows of it in L1 do as well */
    int64_t bytes = (int64_t)tn_dtype_size(c->stage->tensors[t]->dtype);
    if (bytes > widest) widest = bytes;
  }
  int64_t lanes = c->options->vector_bytes / widest;
  if (extent != INT64_MAX && crosses_lines(c, extent)) lanes /= 2;
  while (lanes > extent) lanes /= 2;
  if (lanes < 2 || extent == INT64_MAX || extent_of(c->along) == INT64_MAX) return false;
  int64_t all = (extent + lanes - 1) / lanes, vectors = vectors_of_strip(c, all);
  if (vectors < 1 || !is_near(c, (all + vectors - 1) / vectors)) return false;
  int n = 0;
  const char *last = c->others[c->other_count - 1]->name, *along = c->along->name;
  tn__sched_split(s, last, (const int64_t[]){0, vectors, lanes}, 3);
  for (int i = 0; i < c->other_count - 1; i++) order[n++] = c->others[i]->name;
  order[n++] = tn__arena_printf(s->arena, "%s.0", last);
  if (c->rows > 1) { /* indices of what registers hold are numbers then */
    tn__sched_split(s, along, (const int64_t[]){0, c->rows}, 2);
    order[n++] = tn__arena_printf(s->arena, "%s.0", along);
    along = tn__arena_printf(s->arena, "%s.1", along);
  }
  order[n++] = along;
  const char *vector = order[n++] = tn__arena_printf(s->arena, "%s.1", last);
  const char *lane = order[n++] = tn__arena_printf(s->arena, "%s.2", last);
  tn__sched_reorder(s, order, n);
  keep_steps(c, c->rows, along, -1);
  for (int t = 0; t < c->stage->tensor_count; t++) {
    int count = tn__sched_loops_of(s, c->writers[t], loops, TN__MAX_LOOPS);
    tn__sched_unroll(s, loops[count - 2]);
    tn__sched_vectorize(s, loops[count - 1]);
  }
  if (c->rows > 1) tn__sched_unroll(s, along);
  tn__sched_unroll(s, vector);
  tn__sched_vectorize(s, lane);
  share_outermost(c);
  return true;
}

/* Of what nobody reads but its last steps there is room for as few as possible, a power of two. */
static void fold_steps(scan *c) {
  for (int t = 0; t < c->block->block.write_count; t++)
    for (int64_t rows = 1; rows <= MOST_STEPS; rows *= 2) {
      if (!tn__sched_can_fold_scan(c->s, c->block->block.writes[t].buffer, rows)) continue;
      tn__sched_fold_scan(c->s, c->stage->name, t, rows);
      break;
    }
}

void tn__rule_scan(tn__schedule *s, const tn__te_stage *stage, const tn__schedule_options *options) {
  scan c = {.s = s, .stage = stage, .options = options, .block = tn__sched_find(s, stage->name, true)};
  tn__snode *path[TN__MAX_LOOPS];
  for (int t = 0; t < stage->tensor_count; t++)
    if (tn__sched_is_bounding(s, stage->tensors[t])) return;
  int count = tn__sched_path(s, s->root, c.block, path);
  if (path[0]->children.count > 1) { /* its steps evaluate other stages, too */
    tn__rule_recurrence(s, stage, options);
    fold_steps(&c);
    return;
  }
  c.along = path[0];
  for (int i = 1; i < count; i++) c.others[c.other_count++] = path[i];
  bool last = true;
  for (int a = stage->scan_axis + 1; a < stage->axes.count; a++)
    last &= tn__ir_is_int_value(stage->axes.var[a]->extent, 1);
  bool alone = extent_of(c.along) >= 2 && keeps_to_itself(&c);
  if (!last && alone) {
    fuse_rows(&c);
    if (run_strips(&c)) return;
  }
  if (!last || !alone) {
    if (!last) run_across(&c);
    fold_steps(&c);
    return;
  }
  int64_t lanes;
  int row = operations(&c) > MOST_OPERATIONS || stage->backwards ? -1 : axis_for_vectors(&c, &lanes);
  int64_t steps = row < 0 ? 0 : power_below(options->vector_bytes / 4, extent_of(c.along));
  bool fills = row >= 0 && 2 * lanes > options->vector_bytes / (int64_t)tn_dtype_size(stage->tensors[0]->dtype);
  if (row >= 0 && !fills) { /* few rows leave most of a tile's lanes empty */
    put_steps_inside(&c);
    if (run_prefixes(&c)) return;
  }
  if (row >= 0 && steps >= c.rows && steps > 1)
    run_tiles(&c, row, lanes, steps);
  else
    run_steps(&c);
}
