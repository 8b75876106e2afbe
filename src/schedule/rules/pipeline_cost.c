/* What it costs to compute a group of stages a tile at a time: from the boxes that a tile of the last stage needs of
 * each of the others, by arithmetic on intervals. No loop is built. */
#include <math.h>
#include <string.h>

#include "schedule/rules/pipeline.h"

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* Where the axes of a stage are while one tile is computed. */
typedef struct ranges {
  const tn__pipe_stage *stage;
  tn__interval of[TN__PIPE_AXES];
} ranges;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static tn__interval hull(tn__interval a, tn__interval b) {
  return (tn__interval){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

static tn__interval times(tn__interval a, int64_t factor) {
  int64_t x = tn__ir_bound_mul(a.min, factor), y = tn__ir_bound_mul(a.max, factor);
  return x < y ? (tn__interval){x, y} : (tn__interval){y, x};
}

/* The values of an index; false when it depends on something else than axes and numbers. */
TN_MUST_USE static bool range_of(const ranges *r, const tn__expr *e, tn__interval *out) {
  tn__interval a = {0, 0}, b = {0, 0};
  if (tn__ir_is_int(e)) {
    *out = (tn__interval){e->value.i, e->value.i};
    return true;
  }
  if (e->kind == TN__EXPR_VAR) {
    for (int i = 0; i < r->stage->axis_count; i++)
      if (r->stage->axis[i]->self == e) {
        *out = r->of[i];
        return true;
      }
    return false;
  }
  if (e->arg_count != 2 || !range_of(r, e->args[0], &a) || !range_of(r, e->args[1], &b)) return false;
  switch (e->kind) {
    case TN__EXPR_ADD:
      *out = (tn__interval){tn__ir_bound_add(a.min, b.min), tn__ir_bound_add(a.max, b.max)};
      return true;
    case TN__EXPR_SUB:
      *out = (tn__interval){tn__ir_bound_add(a.min, -b.max), tn__ir_bound_add(a.max, -b.min)};
      return true;
    case TN__EXPR_MUL:
      if (b.min == b.max) *out = times(a, b.min);
      if (b.min != b.max && a.min == a.max) *out = times(b, a.min);
      return b.min == b.max || a.min == a.max;
    case TN__EXPR_DIV:
      if (b.min != b.max || b.min <= 0) return false;
      *out = (tn__interval){floor_div(a.min, b.min), floor_div(a.max, b.min)};
      return true;
    case TN__EXPR_MOD:
      if (b.min != b.max || b.min <= 0) return false;
      *out = a.max - a.min + 1 >= b.min || floor_div(a.min, b.min) != floor_div(a.max, b.min)
                 ? (tn__interval){0, b.min - 1}
                 : (tn__interval){a.min - floor_div(a.min, b.min) * b.min, a.max - floor_div(a.min, b.min) * b.min};
      return true;
    case TN__EXPR_MIN: *out = (tn__interval){a.min < b.min ? a.min : b.min, a.max < b.max ? a.max : b.max}; return true;
    case TN__EXPR_MAX: *out = (tn__interval){a.min > b.min ? a.min : b.min, a.max > b.max ? a.max : b.max}; return true;
    default: return false;
  }
}

TN_MUST_USE static bool range_of_index(const ranges *r, const tn__pipe_index *index, const tn__expr *e,
                                       tn__interval *out) {
  if (!index->is_simple) return range_of(r, e, out);
  tn__interval moved = index->axis < 0 ? (tn__interval){0, 0} : times(r->of[index->axis], index->scale);
  *out = (tn__interval){tn__ir_bound_add(moved.min, index->offset), tn__ir_bound_add(moved.max, index->offset)};
  return true;
}

/* The part of a tensor's dimension that the stage reads. */
static tn__interval read_range(const ranges *r, const tn__pipe_read *read, int dim) {
  tn__interval first = {0, 0}, last = {0, 0};
  if (!range_of_index(r, &read->first_index[dim], read->min[dim], &first) ||
      !range_of_index(r, &read->last_index[dim], read->last[dim], &last))
    return (tn__interval){0, read->shape[dim] - 1};
  return (tn__interval){first.min, last.max};
}

/* What tile number `place` (along every axis) of the last stage needs of each member, by the tensors' dimensions. */
typedef struct boxes {
  tn__interval of[TN__PIPE_STAGES][TN__MAX_RANK]; /* by member */
  bool needed[TN__PIPE_STAGES];
} boxes;

static void ranges_of(const tn__pipe_stage *stage, const tn__interval *box, ranges *r) {
  r->stage = stage;
  for (int a = 0; a < stage->axis_count; a++) r->of[a] = (tn__interval){0, stage->extent[a] - 1};
  for (int d = 0; d < stage->buffer->rank; d++)
    if (stage->axis_of_dim[d] >= 0) r->of[stage->axis_of_dim[d]] = box[d];
}

/* The place of a stage among the first `count` members, which stand in rising order; `count`: it is none of them. */
static int place_of_member(const tn__pipe_group *g, int count, int stage) {
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (g->member[middle] < stage)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && g->member[low] == stage ? low : count;
}

/* `terms`: for one term of its reduction, not for all (NULL: for all). */
static void find_boxes(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, int64_t place,
                       const tn__pipe_terms *terms, boxes *b) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  memset(b->of, 0, (size_t)g->count * sizeof *b->of);
  for (int i = 0; i < g->count; i++) b->needed[i] = i == g->count - 1;
  for (int d = 0; d < last->buffer->rank; d++) {
    int axis = last->axis_of_dim[d];
    int64_t start = axis < 0 || tile[axis] >= last->extent[axis] ? 0 : place * tile[axis];
    b->of[g->count - 1][d] = (tn__interval){start, start + (axis < 0 ? 1 : tile[axis]) - 1};
  }
  for (int i = g->count - 1; i >= 0; i--) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    ranges r = {0};
    if (!b->needed[i]) continue;
    if (stage->scan_dim >= 0) b->of[i][stage->scan_dim] = (tn__interval){0, stage->shape[stage->scan_dim] - 1};
    ranges_of(stage, b->of[i], &r);
    for (int a = stage->spatial; a < stage->axis_count && terms != NULL && terms->sum == i; a++)
      r.of[a] = (tn__interval){stage->extent[a] / 2, stage->extent[a] / 2};
    for (int k = 0; k < stage->read_count; k++) {
      const int from = place_of_member(g, i, stage->reads[k].from);
      if (from == i) continue;
      for (int d = 0; d < stage->reads[k].buffer->rank; d++) {
        tn__interval own = read_range(&r, &stage->reads[k], d);
        b->of[from][d] = b->needed[from] ? hull(b->of[from][d], own) : own;
      }
      b->needed[from] = true;
    }
  }
}

static int64_t size_of(tn__interval i) { return i.max - i.min + 1; }

/* A tile away from the borders. */
static int64_t middle_of(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int64_t fewest = INT64_MAX;
  for (int a = 0; a < last->spatial; a++)
    if (tile[a] > 0 && tile[a] < last->extent[a] && last->extent[a] / tile[a] < fewest)
      fewest = last->extent[a] / tile[a];
  return fewest < INT64_MAX && fewest / 2 > 3 ? fewest / 2 : 3;
}

/* Boxes have one size, wherever the tile is: where they differ, the schedule takes the whole dimension, as here. */
static void boxes_of(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, const tn__pipe_terms *terms,
                     int64_t (*sizes)[TN__MAX_RANK]) {
  boxes here, there; /* of as many members as there are: clearing all would take longer than finding them */
  int64_t place = middle_of(p, g, tile);
  find_boxes(p, g, tile, place, terms, &here);
  find_boxes(p, g, tile, place + 1, terms, &there);
  for (int i = 0; i < g->count; i++) {
    if (terms != NULL && !terms->inside[i]) continue;
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    for (int d = 0; d < stage->buffer->rank; d++) {
      int64_t whole = stage->shape[d], size = here.needed[i] ? size_of(here.of[i][d]) : whole;
      sizes[i][d] = size > whole || size < 1 || (here.needed[i] && size != size_of(there.of[i][d])) ? whole : size;
    }
  }
}

void tn__pipe_boxes(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, const tn__pipe_terms *terms,
                    int64_t (*sizes)[TN__MAX_RANK]) {
  memset(sizes, 0, (size_t)g->count * sizeof *sizes);
  boxes_of(p, g, tile, NULL, sizes);
  if (terms != NULL) boxes_of(p, g, tile, terms, sizes);
}

bool tn__pipe_is_tiled(const tn__pipe *p, const tn__pipe_group *g, int axis) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  if (last->extent[axis] == 1 || axis == last->scan_axis) return false;
  if (last->fuses && axis == last->spatial - 1) return false; /* tiles have whole pixels */
  for (int k = 0; k < last->read_count; k++) {
    const bool inside = place_of_member(g, g->count - 1, last->reads[k].from) < g->count - 1;
    for (int d = 0; d < last->reads[k].buffer->rank && inside; d++)
      if (d == p->stages[last->reads[k].from].scan_dim)
        continue; /* all steps, whatever is read */
      else if (tn__expr_uses_var(last->reads[k].min[d], last->axis[axis]) ||
               tn__expr_uses_var(last->reads[k].last[d], last->axis[axis]))
        return true;
  }
  return false;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The axes along which tiles have rows and columns; -1: none. */
static void find_axes(const tn__pipe *p, const tn__pipe_group *g, int *rows, int *columns) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  for (*columns = last->spatial - 1; *columns > 0 && !tn__pipe_is_tiled(p, g, *columns);) --*columns;
  for (*rows = *columns - 1; *rows > 0 && !tn__pipe_is_tiled(p, g, *rows);) --*rows;
}

/* How one member moves from a row to the next; false when it is not by the same everywhere, along one dimension. */
TN_MUST_USE static bool find_moves(const tn__pipe_stage *stage, const tn__interval (*at)[TN__MAX_RANK], int places,
                                   int *dim, int64_t *step, int64_t *rows) {
  *dim = -1;
  for (int d = 0; d < stage->buffer->rank; d++) {
    int64_t own = at[1][d].min - at[0][d].min;
    for (int n = 1; n < places; n++)
      if (at[n][d].min - at[n - 1][d].min != own || at[n][d].max - at[n - 1][d].max != own) return false;
    if (own == 0) continue;
    if (*dim >= 0 || own < 0) return false;
    *dim = d;
    *step = own;
    *rows = size_of(at[0][d]);
  }
  return *dim >= 0;
}

/* False where no rows share anything, or not all members move with them by a constant. */
TN_MUST_USE static bool find_sweep(const tn__pipe *p, const tn__pipe_group *g, tn__pipe_sweep *out) {
  enum { PLACES = 4 };
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  boxes at[PLACES];
  tn__interval places[PLACES][TN__MAX_RANK];
  int64_t tile[TN__PIPE_AXES];
  bool shares = false;
  find_axes(p, g, &out->axis, &out->columns);
  if (g->refused || g->count == 1 || out->axis < 0 || !tn__pipe_is_tiled(p, g, out->axis)) return false;
  for (int a = 0; a < last->axis_count; a++) tile[a] = a == out->axis ? 1 : last->extent[a];
  for (int n = 0; n < PLACES; n++) find_boxes(p, g, tile, n + last->extent[out->axis] / 2 - PLACES / 2, NULL, &at[n]);
  for (int i = 0; i < g->count - 1; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    if (!at[0].needed[i]) return false;
    for (int n = 0; n < PLACES; n++) memcpy(places[n], at[n].of[i], sizeof places[n]);
    if (!find_moves(stage, places, PLACES, &out->dim[i], &out->step[i], &out->rows[i])) return false;
    shares |= out->step[i] < out->rows[i];
  }
  return shares;
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */

static double points_of(const tn__pipe_stage *stage, const int64_t *size) {
  double points = 1;
  for (int d = 0; d < stage->buffer->rank; d++) points *= (double)size[d];
  return points;
}

/* Does nothing read member `i` but the reduction and what is in its loops already? */
static bool is_for_terms(const tn__pipe *p, const tn__pipe_group *g, const tn__pipe_terms *terms, int i) {
  const tn__pipe_stage *stage = &p->stages[g->member[i]];
  for (int r = 0; r < stage->readers.count; r++) {
    bool known = false;
    for (int m = i + 1; m < g->count; m++)
      known |= g->member[m] == stage->readers.data[r] && (m == terms->sum || terms->inside[m]);
    if (!known) return false;
  }
  return stage->readers.count > 0;
}

/* May the sums of member `i` be in memory, a tile of them, while terms are added? */
static bool may_add_terms(const tn__pipe *p, const tn__pipe_group *g, int i) {
  const tn__pipe_stage *stage = &p->stages[g->member[i]];
  bool is_last = i == g->count - 1;
  if (stage->terms <= 1 || !stage->has_lanes || stage->buffer->rank == 0) return false;
  for (int d = 0; d < stage->buffer->rank && is_last; d++)
    if (stage->axis_of_dim[d] != d) return false; /* a copy of the tile has the axes of the tensor */
  return !is_last || stage->spatial == stage->buffer->rank;
}

/* Members that a term needs a part of its own of, which no other term needs, or little of it: where a tile of some
 * rows needs of all terms together as much as of each. False where there are none. */
TN_MUST_USE static bool find_terms_of(const tn__pipe *p, const tn__pipe_group *g, int sum, tn__pipe_terms *out) {
  enum { ROWS = 16, COLUMNS = 128 };
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int64_t all[TN__PIPE_STAGES][TN__MAX_RANK], one[TN__PIPE_STAGES][TN__MAX_RANK], tile[TN__PIPE_AXES] = {0};
  bool any = false;
  int rows, columns;
  *out = (tn__pipe_terms){.sum = sum};
  find_axes(p, g, &rows, &columns);
  for (int a = 0; a < last->axis_count; a++) {
    int64_t most = a == columns ? COLUMNS : a == rows ? ROWS : last->extent[a];
    tile[a] = most < last->extent[a] ? most : last->extent[a];
  }
  for (int i = 0; i < sum; i++) out->inside[i] = true; /* what would be needed of them for one term */
  tn__pipe_boxes(p, g, tile, NULL, all);
  tn__pipe_boxes(p, g, tile, out, one);
  for (int i = 0; i < sum; i++) out->inside[i] = false;
  for (int i = sum - 1; i >= 0; i--) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    double again = p->stages[g->member[sum]].terms * points_of(stage, one[i]);
    out->inside[i] = is_for_terms(p, g, out, i) && again <= TN__RULE_TERM_AGAIN * points_of(stage, all[i]);
    any |= out->inside[i];
  }
  return any;
}

static const tn__pipe_terms *find_terms(const tn__pipe *p, const tn__pipe_group *g) {
  tn__pipe_terms terms;
  for (int i = g->count - 1; i > 0 && !g->terms_refused; i--) {
    if (!may_add_terms(p, g, i) || !find_terms_of(p, g, i, &terms)) continue;
    tn__pipe_terms *found = TN__NEW(p->s->arena, tn__pipe_terms);
    *found = terms;
    return found;
  }
  return NULL;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

/* Do the group's other members read nothing of the scan but its end, which a few steps are? */
static bool is_read_at_end(const tn__pipe *p, const tn__pipe_group *g, int scan) {
  enum { MOST_STEPS = 4 };
  const tn__pipe_stage *stage = &p->stages[g->member[scan]];
  int64_t at;
  if (stage->open[stage->scan_axis]) return false;
  for (int w = 0; w < stage->block->block.write_count; w++)
    if (tn__sched_scan_rows(p->s, stage->block, stage->block->block.writes[w].buffer) > MOST_STEPS) return false;
  for (int i = scan + 1; i < g->count; i++) {
    const tn__pipe_stage *reader = &p->stages[g->member[i]];
    for (int k = 0; k < reader->read_count; k++) {
      if (reader->reads[k].from != g->member[scan]) continue;
      const tn__expr *min = reader->reads[k].min[stage->scan_dim], *last = reader->reads[k].last[stage->scan_dim];
      int64_t end = stage->shape[stage->scan_dim] - 1;
      if (!tn__ir_is_int_value(last, end) || !tn__ir_as_int(min, &at) || at + MOST_STEPS <= end) return false;
    }
  }
  return true;
}

/* What is written out for the tile, in cycles; `turns`: of scans only one step. */
static double written_out(const tn__pipe *p, const tn__pipe_group *g, int64_t (*sizes)[TN__MAX_RANK], bool turns) {
  double cycles = 0;
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    double points = points_of(stage, sizes[i]) * stage->terms;
    if (turns && stage->scan_axis >= 0) points /= (double)sizes[i][stage->scan_dim];
    cycles += points / (double)stage->lanes * (stage->register_cycles > 1 ? stage->register_cycles : 1);
  }
  return cycles;
}

/* Are the group's members maps whose parts of a tile are no more vectors than there are registers? */
static bool are_few_vectors(const tn__pipe *p, const tn__pipe_group *g, int64_t (*sizes)[TN__MAX_RANK]) {
  double vectors = 0;
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    if (stage->block->combiner != NULL || stage->fuses || stage->turned_axis >= 0) return false;
    if (i < g->count - 1) vectors += points_of(stage, sizes[i]) / (double)stage->lanes;
  }
  return vectors <= (double)p->target->cpu.vector_registers;
}

/* Where the members are, of which the tile needs `sizes`; the tile's columns are few enough. */
static tn__pipe_place place_of_sizes(const tn__pipe *p, const tn__pipe_group *g, int64_t columns,
                                     int64_t (*sizes)[TN__MAX_RANK]) {
  const int64_t lanes = p->stages[g->member[g->count - 1]].lanes;
  bool scans = false, at_end = true;
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    if (stage->buffer->rank == 0 || sizes[i][stage->buffer->rank - 1] != columns || stage->lanes != lanes)
      return TN__PIPE_IN_CACHE; /* columns of a tile need nothing of each other */
    scans |= stage->scan_axis >= 0;
    if (stage->scan_axis >= 0) at_end &= is_read_at_end(p, g, i);
  }
  if (!scans && !are_few_vectors(p, g, sizes)) return TN__PIPE_IN_CACHE;
  if (written_out(p, g, sizes, false) <= TN__RULE_WRITTEN_STEPS) return TN__PIPE_WRITTEN_OUT;
  return at_end && written_out(p, g, sizes, true) <= TN__RULE_WRITTEN_STEPS ? TN__PIPE_IN_TURNS : TN__PIPE_IN_CACHE;
}

/* The columns of a tile that registers may hold; 0: they may not. */
static int64_t near_columns(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int columns = last->spatial - 1;
  if (g->count == 1 || g->registers_refused || columns < 0 || last->scan_axis >= 0) return 0;
  while (columns > 0 && last->extent[columns] == 1) columns--;
  return tile[columns] > TN__PIPE_COLUMNS * last->lanes ? 0 : tile[columns];
}

tn__pipe_place tn__pipe_place_of(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile) {
  int64_t sizes[TN__PIPE_STAGES][TN__MAX_RANK];
  const int64_t columns = near_columns(p, g, tile);
  if (columns == 0) return TN__PIPE_IN_CACHE;
  tn__pipe_boxes(p, g, tile, NULL, sizes);
  return place_of_sizes(p, g, columns, sizes);
}

/* ---- cycles ------------------------------------------------------------------------------------------------------ */

/* Bytes a cycle of a tensor that is read or written as a whole, from where it has room. */
static double rate_of(const tn__pipe *p, double bytes) {
  const tn__machine *m = &p->target->cpu.machine;
  if (bytes <= m->costs.fill * (double)p->cache_bytes) return m->core.l2_bytes;
  if (bytes <= m->costs.shared_fill * (double)m->l3_bytes) return m->core.l3_bytes;
  return m->core.memory_bytes;
}

/* What a tile of member `i` takes, without what comes from beyond L1. */
static double tile_work(const tn__pipe *p, const tn__pipe_group *g, int i, const tn__pipe_terms *terms,
                        tn__pipe_place place, const int64_t *size) {
  const tn__pipe_stage *stage = &p->stages[g->member[i]];
  if (place != TN__PIPE_IN_CACHE) {
    double turns = place == TN__PIPE_IN_TURNS && stage->scan_axis >= 0 ? (double)size[stage->scan_dim] : 0;
    double vectors = points_of(stage, size) * stage->terms / (double)stage->lanes;
    return vectors * stage->register_cycles + turns * TN__RULE_REGISTER_TURN;
  }
  const tn__costs *costs = &p->target->cpu.machine.costs;
  double row = 1, turns = 1, each = stage->terms * stage->cycles;
  for (int d = 0; d < stage->buffer->rank; d++)
    if (size[d] > 1) row = (double)size[d];
  if (stage->fuses) row = (double)size[stage->buffer->rank - 2] * (double)size[stage->buffer->rank - 1];
  if (terms != NULL && terms->inside[i]) turns = p->stages[g->member[terms->sum]].terms;
  if (terms != NULL && terms->sum == i) {
    turns = stage->terms;
    each = stage->added_cycles;
  }
  double rows = points_of(stage, size) / row, vectors = ceil(row / (double)stage->lanes);
  double ends = costs->loop_entry + (vectors > costs->counted_trips ? costs->mispredicted : 0);
  return turns * rows * (vectors * each + ends);
}

static double bytes_of(const tn__buffer *buffer, const int64_t *shape) {
  double bytes = (double)tn_dtype_size(buffer->dtype);
  for (int d = 0; d < buffer->rank; d++) bytes *= (double)shape[d];
  return bytes;
}

/* Bytes of what the tile touches: members' parts, and of other tensors' as much as it reads. */
static double tile_bytes(const tn__pipe *p, const tn__pipe_group *g, int64_t (*sizes)[TN__MAX_RANK], double *outside) {
  double inside = 0;
  *outside = 0;
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    ranges r = {0};
    tn__interval box[TN__MAX_RANK];
    double bytes = 0;
    for (int w = 0; w < stage->block->block.write_count; w++)
      bytes += (double)tn_dtype_size(stage->block->block.writes[w].buffer->dtype);
    for (int d = 0; d < stage->buffer->rank; d++) {
      bytes *= (double)sizes[i][d];
      box[d] = (tn__interval){0, sizes[i][d] - 1};
    }
    if (i < g->count - 1) inside += bytes;
    if (i == g->count - 1) *outside += bytes;
    ranges_of(stage, box, &r);
    for (int k = 0; k < stage->read_count; k++) {
      if (place_of_member(g, i, stage->reads[k].from) < i) continue;
      double part = (double)tn_dtype_size(stage->reads[k].buffer->dtype);
      for (int d = 0; d < stage->reads[k].buffer->rank; d++)
        part *= (double)size_of(read_range(&r, &stage->reads[k], d));
      double whole = bytes_of(stage->reads[k].buffer, stage->reads[k].shape);
      *outside += part < whole ? part : whole;
    }
  }
  return inside + *outside;
}

bool tn__pipe_walks_columns(const tn__pipe *p, const tn__pipe_stage *stage, const int64_t *size) {
  const tn__machine *machine = &p->target->cpu.machine;
  const int rank = stage->buffer->rank;
  tn__interval one[TN__MAX_RANK], two[TN__MAX_RANK];
  ranges row = {0}, rows = {0};
  double of_row = 0, of_rows = 0;
  if (rank < 2 || size[rank - 2] < 2 || stage->axis_of_dim[rank - 2] < 0) return false;
  for (int d = 0; d < rank; d++) {
    one[d] = two[d] = (tn__interval){0, d == rank - 1 ? size[d] - 1 : 0};
    if (d == rank - 2) two[d].max = 1;
  }
  ranges_of(stage, one, &row);
  ranges_of(stage, two, &rows);
  for (int k = 0; k < stage->read_count; k++) {
    const tn__pipe_read *read = &stage->reads[k];
    double bytes = (double)tn_dtype_size(read->buffer->dtype), both = bytes;
    for (int d = 0; d < read->buffer->rank; d++) {
      bytes *= (double)size_of(read_range(&row, read, d));
      both *= (double)size_of(read_range(&rows, read, d));
    }
    of_row += bytes;
    of_rows += both;
  }
  return of_row > machine->costs.fill * (double)machine->l1_bytes && of_rows < 1.5 * of_row;
}

/* Cycles for what comes from outside once, whatever the tiles are, and for what goes there. */
static double traffic(const tn__pipe *p, const tn__pipe_group *g) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  double written = bytes_of(last->buffer, last->shape), bytes = 2 * written;
  const tn__buffer *seen[TN__PIPE_STAGES];
  int count = 0;
  for (int i = 0; i < g->count; i++) {
    const tn__pipe_stage *stage = &p->stages[g->member[i]];
    for (int k = 0; k < stage->read_count; k++) {
      bool known = place_of_member(g, g->count, stage->reads[k].from) < g->count;
      for (int n = 0; n < count; n++) known |= seen[n] == stage->reads[k].buffer;
      if (known) continue;
      if (count < TN__PIPE_STAGES) seen[count++] = stage->reads[k].buffer;
      bytes += bytes_of(stage->reads[k].buffer, stage->reads[k].shape);
    }
  }
  return bytes / rate_of(p, bytes - written);
}

/* Bytes of the sums and of what is made for one term, each of which is gone through for each term. */
static double bytes_of_term(const tn__pipe *p, const tn__pipe_group *g, const tn__pipe_terms *terms,
                            int64_t (*sizes)[TN__MAX_RANK]) {
  double bytes = 0;
  for (int i = 0; i < g->count; i++)
    if (i == terms->sum || terms->inside[i]) bytes += bytes_of(p->stages[g->member[i]].buffer, sizes[i]);
  return bytes;
}

static bool has_scan(const tn__pipe *p, const tn__pipe_group *g) {
  bool scans = false;
  for (int i = 0; i < g->count; i++) scans |= p->stages[g->member[i]].scan_axis >= 0;
  return scans;
}

/* Has the tile of maps so few columns that its rows are worth their loops in registers only? */
static bool is_narrow(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int rows, columns;
  if (g->count == 1 || has_scan(p, g)) return false;
  find_axes(p, g, &rows, &columns);
  return columns >= 0 && 3 * tile[columns] < 2 * TN__PIPE_LEAST_COLUMNS && tile[columns] < last->extent[columns];
}

/* Cycles of one tile; INFINITY: it makes no sense. `outside`: bytes that it reads of what others made, and writes. */
static double tile_cycles(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, const tn__pipe_sweep *sweep,
                          const tn__pipe_terms *terms, double *outside) {
  const tn__machine *machine = &p->target->cpu.machine;
  int64_t sizes[TN__PIPE_STAGES][TN__MAX_RANK], row[TN__PIPE_STAGES][TN__MAX_RANK], one[TN__PIPE_AXES] = {0};
  double work = 0, unhidden = machine->costs.unhidden, near = 0, unused;
  tn__pipe_place place = TN__PIPE_IN_CACHE;
  const int64_t columns = sweep == NULL && terms == NULL ? near_columns(p, g, tile) : 0;
  const bool narrow = is_narrow(p, g, tile);
  if (narrow && columns == 0) return INFINITY;
  tn__pipe_boxes(p, g, tile, NULL, sizes);
  if (columns > 0) place = place_of_sizes(p, g, columns, sizes);
  if (narrow && place == TN__PIPE_IN_CACHE) return INFINITY;
  /* Each stage of a group is done for all of a tile before the next one begins, or for all of a row, or of a term. */
  double touched = tile_bytes(p, g, sizes, outside), passes = 2 * touched;
  if (terms != NULL) {
    tn__pipe_boxes(p, g, tile, terms, sizes);
    touched = bytes_of_term(p, g, terms, sizes);
    passes = 2 * touched * p->stages[g->member[terms->sum]].terms;
    touched += *outside;
  }
  for (int i = 0; i < g->count; i++) work += tile_work(p, g, i, terms, place, sizes[i]);
  if (place != TN__PIPE_IN_CACHE) return work + machine->costs.loop_entry;
  if (sweep != NULL) {
    for (int a = 0; a < p->stages[g->member[g->count - 1]].axis_count; a++) one[a] = a == sweep->axis ? 1 : tile[a];
    tn__pipe_boxes(p, g, one, NULL, row);
    touched = tile_bytes(p, g, row, &unused);
    work += (double)tile[sweep->axis] * (double)(g->count - 1) * TN__RULE_SWEEP_ROW;
  }
  if (g->count > 1 && touched > machine->costs.fill * (double)machine->l1_bytes) near = passes / rate_of(p, touched);
  if (touched > machine->costs.fill * (double)p->cache_bytes) unhidden = TN__RULE_PIPE_UNHIDDEN;
  return work > near ? work + unhidden * near : near + unhidden * work;
}

static double group_cycles(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, bool slides,
                           const tn__pipe_terms *terms) {
  const tn__pipe_sweep *sweep = slides ? g->sweep : NULL;
  const tn__machine *machine = &p->target->cpu.machine;
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  double tiles = 1, outside;
  for (int a = 0; a < last->spatial; a++) tiles *= ceil((double)last->extent[a] / (double)tile[a]);
  if (g->count > 1 && tiles == 1 && sweep == NULL) return INFINITY; /* there is no loop to compute the others in */
  /* Parts of rows that follow each other are parts of pages, for which nothing fetches ahead. */
  if (sweep != NULL &&
      (tile[sweep->axis] == 1 || tiles < p->parts || tile[sweep->columns] < last->extent[sweep->columns]))
    return INFINITY;
  const double cycles = tile_cycles(p, g, tile, sweep, terms, &outside);
  if (isinf(cycles)) return INFINITY;
  double inner = tiles * cycles;
  /* What tiles share with their neighbours comes again, from the next cache. */
  double far = traffic(p, g), again = g->count > 1 ? tiles * outside / machine->core.l3_bytes : 0;
  double outer = far > again ? far : again;
  return inner > outer ? inner + TN__RULE_PIPE_UNHIDDEN * outer : outer + TN__RULE_PIPE_UNHIDDEN * inner;
}

double tn__pipe_cycles(const tn__pipe *p, const tn__pipe_group *g, const int64_t *tile, bool slides) {
  return group_cycles(p, g, tile, slides, slides ? NULL : g->terms);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* The divisor of `extent` that is nearest to `wanted`, and a multiple of `step`; `wanted` where none is near. Tiles
 * that divide have no rests, whose borders would be cut out of all stages' loops. */
static int64_t near_divisor(int64_t extent, int64_t wanted, int64_t step) {
  for (int64_t off = 0; off <= wanted / 3; off++)
    for (int sign = -1; sign <= 1; sign += 2) {
      int64_t d = wanted + sign * off;
      if (d > 0 && extent % d == 0 && d % step == 0) return d;
    }
  return wanted;
}

/* Appends those of the sizes that are smaller than the axis is long, or divisors near them, each once. */
TN_MUST_USE static int add_sizes(const int64_t *sizes, int size_count, int64_t extent, int64_t step, int64_t *out) {
  int count = 0;
  for (int i = 0; i < size_count && sizes[i] < extent; i++) {
    int64_t size = near_divisor(extent, sizes[i], step);
    if (size < extent && (count == 0 || size > out[count - 1])) out[count++] = size;
  }
  return count;
}

/* May a few vectors of columns at a time be in registers? Columns of a scan are long, those of maps may be where none
 * of them needs another. */
static bool may_be_near(const tn__pipe *p, const tn__pipe_group *g, int columns) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int64_t tile[TN__PIPE_AXES];
  for (int a = 0; a < last->axis_count; a++) tile[a] = a == columns ? 2 * last->lanes : 1;
  return has_scan(p, g) || tn__pipe_place_of(p, g, tile) != TN__PIPE_IN_CACHE;
}

int tn__pipe_sizes(const tn__pipe *p, const tn__pipe_group *g, int axis, int64_t *out) {
  static const int64_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128}, columns[] = {16, 32, 64, 128, 256, 512, 1024};
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int inner, outer, count = 0, places = 0;
  int64_t extent = last->extent[axis];
  find_axes(p, g, &outer, &inner);
  if (axis == last->scan_axis || (axis == inner && g->columns_refused && !last->open[axis])) {
    out[count++] = extent;
    return count;
  }
  if (axis == inner && tn__pipe_is_tiled(p, g, axis)) {
    const int least = may_be_near(p, g, axis) ? 0 : 2;
    const int64_t few[] = {2 * last->lanes, TN__PIPE_COLUMNS * last->lanes}; /* which registers hold */
    if (least == 0) count = add_sizes(few, 2, extent, last->lanes, out);
    int64_t widest = count > 0 ? out[count - 1] : 0, more[16];
    int found = add_sizes(columns + least, (int)(sizeof columns / sizeof *columns) - least, extent, last->lanes, more);
    for (int i = 0; i < found; i++)
      if (more[i] > widest) out[count++] = more[i];
  } else if (axis == outer && tn__pipe_is_tiled(p, g, axis)) {
    count = add_sizes(rows, (int)(sizeof rows / sizeof *rows), extent, 1, out);
  } else if (tn__pipe_is_tiled(p, g, axis)) {
    for (int a = axis + 1; a < last->spatial; a++) places += tn__pipe_is_tiled(p, g, a);
    out[count++] = 1;
    if (places == 2 && extent > 8) out[count++] = near_divisor(extent, 8, 1);
    if (places == 2 && extent <= 8) out[count++] = extent;
    return count;
  }
  if (!last->open[axis]) out[count++] = extent;
  if (count == 0) out[count++] = 1;
  return count;
}

void tn__pipe_tile(const tn__pipe *p, tn__pipe_group *g) {
  const tn__pipe_stage *last = &p->stages[g->member[g->count - 1]];
  int64_t sizes[TN__PIPE_AXES][16] = {{0}}, tile[TN__PIPE_AXES] = {0};
  int counts[TN__PIPE_AXES] = {0}, at[TN__PIPE_AXES] = {0};
  tn__pipe_sweep *sweep = g->count > 1 ? TN__NEW(p->s->arena, tn__pipe_sweep) : NULL;
  const tn__pipe_terms *terms = g->count > 1 ? find_terms(p, g) : NULL;
  g->sweep = sweep != NULL && find_sweep(p, g, sweep) ? sweep : NULL;
  g->terms = NULL;
  g->slides = false;
  g->cycles = INFINITY;
  for (int a = 0; a < last->axis_count; a++) {
    g->tile[a] = tile[a] = sizes[a][0] = last->extent[a];
    counts[a] = g->count > 1 && a < last->spatial ? tn__pipe_sizes(p, g, a, sizes[a]) : 1;
  }
  for (bool more = true; more;) {
    for (int a = 0; a < last->spatial; a++) tile[a] = sizes[a][at[a]];
    for (int way = 0; way < 3; way++) { /* all of a tile, or row by row, or term by term */
      const bool slides = way == 1;
      const tn__pipe_terms *by = way == 2 ? terms : NULL;
      if ((slides && g->sweep == NULL) || (way == 2 && terms == NULL)) continue;
      double cycles = group_cycles(p, g, tile, slides, by);
      if (cycles >= g->cycles) continue;
      g->cycles = cycles;
      g->slides = slides;
      g->terms = by;
      for (int a = 0; a < last->spatial; a++) g->tile[a] = tile[a];
    }
    more = false;
    for (int a = 0; a < last->spatial && !more; a++) {
      more = ++at[a] < counts[a];
      if (!more) at[a] = 0;
    }
  }
}
