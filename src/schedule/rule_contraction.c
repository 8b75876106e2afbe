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
 * multiplication", 2008) without its blocking of k, as a panel of K x W is small in networks. */
#include <string.h>

#include "schedule/rules.h"

typedef struct contraction {
  tn__schedule *s;
  tn__ir *ir;
  const tn__te *te;
  const tn__te_stage *sum;
  const tn__schedule_options *options;
  const tn__expr *left, *right; /* loads; right is contiguous along the columns */
  bool depthwise;               /* the column moves both operands, and both are contiguous along it */
  int column, row;              /* axes of the sum; row is -1 when there is none */
  int more_rows;                /* an axis outside of a short row axis whose rows join a tile; -1: none */
  int64_t group;         /* columns of one group when the left operand depends on column / group; 0: it does not */
  int64_t rows, columns; /* extents; -1 when symbolic */
  int known_column, known_left; /* what a declaration of the same structure had; -1: nothing is known */
  bool known_depthwise, streams;
  int64_t panel; /* width of a packed operand's panels, 0: not packed */
} contraction;

/* ---- recognising --------------------------------------------------------------------------------------------------
 */

static const tn__expr *without_casts(const tn__expr *e) {
  while (e->kind == TN__EXPR_CAST) e = e->args[0];
  return e;
}

static bool is_sum(const tn__te_stage *stage) {
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->reduce_axes.count == 0) return false;
  const tn__expr *result = stage->combiner->result[0];
  const tn__expr *l = stage->combiner->lhs[0]->self, *r = stage->combiner->rhs[0]->self;
  return result->kind == TN__EXPR_ADD && result->arg_count == 2 &&
         ((result->args[0] == l && result->args[1] == r) || (result->args[0] == r && result->args[1] == l));
}

static bool is_product(const tn__expr *term) {
  term = without_casts(term);
  return term->kind == TN__EXPR_MUL && term->arg_count == 2 && without_casts(term->args[0])->kind == TN__EXPR_LOAD &&
         without_casts(term->args[1])->kind == TN__EXPR_LOAD;
}

/* The only reduction, which is a sum of products; everything else are maps. NULL otherwise. */
static const tn__te_stage *find_sum(const tn__te *te) {
  const tn__te_stage *sum = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_COMPUTE) continue;
    if (sum != NULL || !is_sum(stage) || !is_product(stage->values[0])) return NULL;
    sum = stage;
  }
  return sum;
}

static const tn__expr *flat_index(tn__ir *ir, const tn__expr *load) {
  const tn__expr *flat = tn__index(ir, 0);
  for (int i = 0; i < load->arg_count; i++)
    flat = tn__add(ir, tn__mul(ir, flat, load->value.buffer->shape[i]), load->args[i]);
  return flat;
}

/* The width W when the load is packed along the axis: [..., axis / W, ..., axis % W]; 0 when it is not. */
static int64_t packed_width(tn__ir *ir, const tn__expr *load, const tn__var *axis) {
  int64_t width;
  const tn__expr *last = load->args[load->arg_count - 1];
  if (load->arg_count < 2 || last->kind != TN__EXPR_MOD || last->args[0] != axis->self ||
      !tn__as_int(last->args[1], &width))
    return 0;
  for (int d = 0; d < load->arg_count - 1; d++)
    if (load->args[d] == tn__div_i(ir, axis->self, width)) return width;
  return 0;
}

static bool is_contiguous(tn__ir *ir, const tn__expr *load, const tn__var *axis) {
  int64_t stride;
  return packed_width(ir, load, axis) > 0 || (tn__stride_in(ir, flat_index(ir, load), axis, &stride) && stride == 1);
}

static bool uses(const tn__expr *operand, const tn__var *var) {
  return operand != NULL && tn__expr_uses_var(operand, var);
}

/* The operands of the product: loads, or NULL for a number (which may have been multiplied away). */
static void find_operands(const contraction *c, const tn__expr *operands[2]) {
  const tn__expr *term = without_casts(c->sum->values[0]);
  operands[0] = operands[1] = NULL;
  if (term->kind == TN__EXPR_LOAD) operands[0] = term;
  for (int o = 0; term->kind == TN__EXPR_MUL && o < 2; o++) {
    const tn__expr *operand = without_casts(term->args[o]);
    if (operand->kind == TN__EXPR_LOAD)
      operands[o] = operand;
    else if (tn__expr_has_load(operand))
      tn__sched_refuse(c->s, "contraction: an operand is computed in place");
  }
}

/* Grouped convolutions: the width of the groups when `left` depends on nothing of the axis but axis / width; 0
 * otherwise. */
static int64_t group_width(const contraction *c, const tn__expr *left, const tn__var *axis) {
  int64_t extent, width = tn__divisor_of(c->ir, left, axis);
  if (width < 8 || !tn__as_int(axis->extent, &extent) || extent % width != 0) return 0;
  tn__ir *ir = c->ir;
  const tn__expr *zero = tn__index(ir, 0);
  const tn__var *group = tn__var_create(ir, "group", TN_I64, zero, tn__index(ir, extent / width));
  const tn__var *within = tn__var_create(ir, "within", TN_I64, zero, tn__index(ir, width));
  const tn__expr *split = tn__add(ir, tn__mul_i(ir, group->self, width), within->self);
  return tn__expr_uses_var(tn__substitute(ir, left, &axis, &split, 1), within) ? 0 : width;
}

static int row_axis(const contraction *c, int before) {
  const tn__te_axes *axes = &c->sum->axes;
  for (int a = before - 1; a >= 0; a--) {
    bool moves_only_left = uses(c->left, axes->var[a]) && !uses(c->right, axes->var[a]);
    if (a != c->column && moves_only_left && !tn__is_int_value(axes->var[a]->extent, 1)) return a;
  }
  return -1;
}

/* Takes `right` as the operand that is read in vectors along axis `a`; false when it is not contiguous there, or when
 * the other operand moves too and `depthwise` does not allow that. */
static bool try_column(contraction *c, const tn__expr *left, const tn__expr *right, int a, bool depthwise) {
  const tn__var *axis = c->sum->axes.var[a];
  c->group = uses(left, axis) ? group_width(c, left, axis) : 0;
  c->depthwise = depthwise;
  if (depthwise && (left == NULL || right == NULL || c->group > 0 || !is_contiguous(c->ir, left, axis))) return false;
  if (!depthwise && uses(left, axis) && c->group == 0) return false;
  if (right != NULL && !is_contiguous(c->ir, right, axis)) return false;
  c->column = a;
  c->left = left;
  c->right = right;
  /* Of two operands that are both contiguous the one that stands still while rows go by is to be the right one. */
  return !depthwise || row_axis(c, c->sum->axes.count) >= 0;
}

static bool find_column(contraction *c) {
  const tn__expr *operands[2];
  find_operands(c, operands);
  const tn__te_axes *axes = &c->sum->axes;
  if (c->known_column >= 0 && c->known_column < axes->count && operands[c->known_left] != NULL &&
      !tn__is_int_value(axes->var[c->known_column]->extent, 1) &&
      try_column(c, operands[c->known_left], operands[1 - c->known_left], c->known_column, c->known_depthwise))
    return true;
  for (int depthwise = 0; depthwise < 2; depthwise++)
    for (int a = axes->count - 1; a >= 0; a--)
      for (int o = 0; o < 2; o++) {
        if (operands[o] == NULL || tn__is_int_value(axes->var[a]->extent, 1)) continue;
        if (!try_column(c, operands[o], operands[1 - o], a, depthwise)) continue;
        c->known_left = o;
        return true;
      }
  return false;
}

/* Finds the operands' roles and the axes; false when no spatial axis can carry vectors. */
static bool find_roles(contraction *c) {
  const tn__te_axes *axes = &c->sum->axes;
  c->column = -1;
  if (!find_column(c)) return false;
  c->row = row_axis(c, axes->count);
  c->panel = c->right == NULL ? 0 : packed_width(c->ir, c->right, axes->var[c->column]);
  if (!tn__as_int(axes->var[c->column]->extent, &c->columns)) c->columns = -1;
  if (c->group > 0) c->columns = c->group;
  if (c->group > 0 && c->panel > 0 && c->group % c->panel != 0) return false;
  c->rows = 1;
  if (c->row >= 0 && !tn__as_int(axes->var[c->row]->extent, &c->rows)) c->rows = -1;
  int64_t extent;
  c->more_rows = c->rows >= 2 && c->rows <= 14 ? row_axis(c, c->row) : -1;
  if (c->more_rows >= 0 && !tn__as_int(axes->var[c->more_rows]->extent, &extent)) c->more_rows = -1;
  return true;
}
static bool matches(const tn__te *te) {
  contraction c = {.te = te, .ir = tn__te_ir(te), .sum = find_sum(te)};
  return c.sum != NULL && tn__te_output_count(te) == 1;
}

/* ---- operands that have no contiguous axis -------------------------------------------------------------------------
 */

/* Copying an operand only pays when many rows of the other one meet it. */
static bool has_rows(const contraction *c, const tn__expr *left, const tn__expr *right) {
  for (int a = 0; a < c->sum->axes.count; a++) {
    const tn__var *axis = c->sum->axes.var[a];
    int64_t extent;
    if (!tn__expr_uses_var(left, axis) || tn__expr_uses_var(right, axis)) continue;
    if (!tn__as_int(axis->extent, &extent) || extent >= 8) return true;
  }
  return false;
}

/* A product such as Q * K^T reads both operands along the reduction. The one whose column axis is last in the result is
 * copied with that axis innermost, once, before the product. */
static void transpose_operand(contraction *c) {
  const tn__te_axes *axes = &c->sum->axes;
  const tn__expr *operands[2];
  find_operands(c, operands);
  for (int a = axes->count - 1; a >= 0; a--)
    for (int o = 0; o < 2; o++) {
      const tn__expr *right = operands[1 - o], *left = operands[o];
      if (left == NULL || right == NULL) continue;
      int order[TN__MAX_RANK], n = 0, last = -1;
      if (tn__expr_uses_var(left, axes->var[a]) || tn__is_int_value(axes->var[a]->extent, 1)) continue;
      if (!has_rows(c, left, right)) continue;
      for (int d = 0; d < right->arg_count; d++)
        if (right->args[d] == axes->var[a]->self) last = d;
      if (last < 0) continue;
      for (int d = 0; d < right->arg_count; d++) /* what moves with other spatial axes first, then the reduction */
        if (d != last && !tn__expr_uses_var(right->args[d], c->sum->reduce_axes.var[0])) order[n++] = d;
      for (int d = 0; d < right->arg_count; d++)
        if (d != last && tn__expr_uses_var(right->args[d], c->sum->reduce_axes.var[0])) order[n++] = d;
      order[n++] = last;
      const tn__snode *block = tn__sched_find(c->s, c->sum->name, true);
      for (int r = 0; r < block->block.read_count; r++) {
        if (block->block.reads[r].buffer != right->value.buffer) continue;
        const char *copy = tn__cache_read_in_order(c->s, c->sum->name, r, TN__SCOPE_WORKSPACE, order, n);
        tn__rule_nest(c->s, copy, c->options);
        /* The roles, in terms of the copy. */
        const tn__expr *indices[TN__MAX_RANK];
        for (int d = 0; d < n; d++) indices[d] = right->args[order[d]];
        const tn__buffer *copied = tn__sched_find(c->s, copy, true)->block.writes[0].buffer;
        c->right = tn__load(c->ir, copied, indices);
        c->left = left;
        c->column = a;
        return;
      }
    }
}

/* ---- producers and epilogue -----------------------------------------------------------------------------------------
 */

static bool reads_stage(const tn__te_stage *reader, const tn__te_stage *producer) {
  for (int i = 0; i < reader->tensor_count; i++)
    for (int j = 0; j < producer->tensor_count; j++)
      if (tn__expr_uses_buffer(reader->values[i], producer->tensors[j])) return true;
  return false;
}

/* Does the stage only rename elements (a transposition, a slice, a cast), so that the sum may as well read through it?
 */
static bool only_renames(const tn__te_stage *stage) {
  const tn__expr *value = without_casts(stage->values[0]);
  if (!tn__expr_has_load(value)) return true;
  if (value->kind != TN__EXPR_LOAD || value->dtype != stage->values[0]->dtype) return false;
  for (int d = 0; d < value->arg_count; d++)
    if (tn__expr_has_load(value->args[d])) return false;
  return true;
}

/* Would reading through this stage leave a packed or contiguous operand as it is? */
static bool keeps_layout(contraction *c, const tn__te_stage *stage) {
  const tn__expr *value = without_casts(stage->values[0]), *term = without_casts(c->sum->values[0]);
  const tn__te_axes *axes = &c->sum->axes;
  if (value->kind != TN__EXPR_LOAD) return true;
  for (int o = 0; o < 2; o++) {
    const tn__expr *load = without_casts(term->args[o]);
    if (load->value.buffer != stage->tensors[0]) continue;
    const tn__expr *through = tn__substitute(c->ir, value, stage->axes.var, load->args, stage->axes.count);
    for (int a = 0; a < axes->count; a++)
      if (is_contiguous(c->ir, load, axes->var[a]) &&
          !tn__expr_uses_var(without_casts(term->args[1 - o]), axes->var[a]) &&
          !is_contiguous(c->ir, through, axes->var[a]))
        return false;
    const tn__expr *flat = flat_index(c->ir, through), *coefficients[TN__MAX_RANK], *rest;
    if (!tn__affine_in(c->ir, flat, c->sum->reduce_axes.var, c->sum->reduce_axes.count, coefficients, &rest))
      return false;
  }
  return true;
}

/* Maps before the sum are computed into memory when they do more than rename; those after it become one epilogue. */
static void place_maps(contraction *c) {
  const tn__buffer *output = tn__te_output_at(c->te, 0), *later = NULL;
  if (c->streams) later = without_casts(without_casts(c->sum->values[0])->args[c->known_left])->value.buffer;
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage == c->sum || stage->tensors[0] == output) continue;
    if (stage->tensors[0] == later && stage->kind == TN__TE_COMPUTE && !only_renames(stage)) continue;
    if (reads_stage(c->sum, stage) && !(only_renames(stage) && keeps_layout(c, stage)))
      tn__rule_nest(c->s, stage->name, c->options);
    else
      tn__inline(c->s, stage->name);
  }
}

/* The map that makes the left operand of a depthwise sum, its padding above all. Each element is only used in the
 * window's sums of one channel, so it is computed a channel vector and some rows at a time, where the first cache keeps
 * it, rather than all of it through memory before. NULL: there is none. */
static const tn__te_stage *streamed_map(const contraction *c) {
  if (!c->depthwise) return NULL;
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage->kind == TN__TE_COMPUTE && stage->tensor_count == 1 && stage->tensors[0] == c->left->value.buffer &&
        tn__sched_find(c->s, stage->name, true) != NULL)
      return stage;
  }
  return NULL;
}

/* Does the block read the sum element by element, each axis in a dimension of its own? */
static bool is_epilogue(const tn__snode *block, const tn__buffer *sum) {
  unsigned used = 0;
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    if (region->buffer != sum) continue;
    for (int d = 0; d < sum->rank; d++) {
      int axis = -1;
      for (int a = 0; a < block->block.axis_count; a++)
        if (region->min[d] == block->block.axes[a].var->self && !tn__is_int(region->min[d])) axis = a;
      if (axis < 0 && tn__is_int_value(sum->shape[d], 1)) continue;
      if (axis < 0 || (used & (1u << axis)) || !tn__is_int_value(region->extent[d], 1)) return false;
      used |= 1u << axis;
    }
  }
  for (int a = 0; a < block->block.axis_count; a++)
    if (!(used & (1u << a)) && !tn__is_int_value(block->block.axes[a].var->extent, 1)) return false;
  return true;
}

/* ---- the tile -----------------------------------------------------------------------------------------------------
 */

int tn__schedule_pack_width(const tn__target *target, tn_dtype dtype, int64_t columns) {
  tn_dtype wide = dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
  int lanes = target->vector_bytes / (int)tn_dtype_size(wide);
  return columns > lanes ? 2 * lanes : lanes;
}

/* ---- decisions ------------------------------------------------------------------------------------------------------
 */

/* Their places in a sketch's values. */
enum { LANES, VECTORS, ROWS, MORE_ROWS, UNROLL, COLUMNS_AT, BLOCK, SHARED, DECISIONS };

/* What the rule found: a plan that is applied to a fresh schedule each time. */
typedef struct space {
  tn__nest nest;
  int column, row, more_rows, spatial, reduce;
  int64_t columns, rows, more, group, panel; /* extents; open ones as the nest takes them */
  bool depthwise, has_right, large;
  bool moves_right[TN__NEST_AXES];
  int left_element, right_element, element;
  int64_t row_stride, more_stride; /* bytes of the left operand */
  double epilogue, epilogue_loads; /* operations and loads of one element besides those of the sum */
  bool streams;                    /* the left operand is computed within the loop over column tiles, ... */
  double streamed;                 /* ... with so many operations for an element */
  int left_rank;
  int64_t left_shape[TN__MAX_RANK], left_step[TN__MAX_RANK][TN__NEST_AXES]; /* of the streamed operand, in elements */
} space;

/* The loops around the tiles, from the outside; `tail`: the last iteration's tile is smaller. */
typedef struct outer_loop {
  int axis;
  int64_t trips, step;
  bool tail;
} outer_loop;

typedef struct outer_loops {
  outer_loop loop[TN__NEST_LOOPS];
  int count;
  int column_tiles, block; /* places of the loop over column tiles, and of the inner part of a split loop (-1: none) */
} outer_loops;

static int64_t tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

/* False when the values don't go together. */
static bool outer_of(const space *p, const int64_t *v, outer_loops *out) {
  *out = (outer_loops){.block = -1};
  int64_t width = v[LANES] * v[VECTORS];
  const int64_t *extent = p->nest.extent;
  if (p->group > 0) out->loop[out->count++] = (outer_loop){p->column, extent[p->column] / p->group, p->group, false};
  for (int a = 0; a < p->spatial; a++) /* axes that choose another right operand */
    if (a != p->column && a != p->row && a != p->more_rows && p->moves_right[a])
      out->loop[out->count++] = (outer_loop){a, extent[a], 1, false};
  outer_loop columns = {p->column, tiles(p->columns, width), width, p->nest.open[p->column] || p->columns % width != 0};
  outer_loop rows[TN__NEST_AXES];
  int count = 0;
  for (int a = 0; a < p->spatial; a++)
    if (a != p->column && a != p->row && a != p->more_rows && !p->moves_right[a])
      rows[count++] = (outer_loop){a, extent[a], 1, false};
  if (p->more_rows >= 0)
    rows[count++] = (outer_loop){p->more_rows, tiles(p->more, v[MORE_ROWS]), v[MORE_ROWS], p->more % v[MORE_ROWS] != 0};
  if (p->row >= 0)
    rows[count++] =
        (outer_loop){p->row, tiles(p->rows, v[ROWS]), v[ROWS], p->nest.open[p->row] || p->rows % v[ROWS] != 0};
  if (v[COLUMNS_AT] > count || (v[BLOCK] > 1 && v[COLUMNS_AT] == count)) return false;
  for (int i = 0; i <= count; i++) {
    bool here = i == v[COLUMNS_AT];
    if (here && v[BLOCK] > 1) { /* the next loop goes by in blocks, and the columns inside of a block */
      const outer_loop *next = &rows[i];
      if (next->tail || next->trips % v[BLOCK] != 0 || next->trips == v[BLOCK]) return false;
      out->loop[out->count++] = (outer_loop){next->axis, next->trips / v[BLOCK], next->step * v[BLOCK], false};
    }
    if (here) out->column_tiles = out->count, out->loop[out->count++] = columns;
    if (i == count) break;
    out->loop[out->count] = rows[i];
    if (here && v[BLOCK] > 1) out->loop[out->count].trips = v[BLOCK], out->block = out->count;
    out->count++;
  }
  if (v[SHARED] > out->count) return false;
  /* Loops whose tiles may be partial are not fused with others, so that their tails can be cut off. */
  for (int i = 0; i < v[SHARED]; i++)
    if (out->loop[i].tail && v[SHARED] > 1) return false;
  return true;
}

/* Place of the loop whose iterations each compute their part of a streamed left operand. */
static int streams_at(const outer_loops *outer, const int64_t *v) {
  return outer->column_tiles < v[SHARED] ? (int)v[SHARED] - 1 : outer->column_tiles;
}

/* The most of a streamed operand that is kept at a time: private memory has at most 64 KiB. */
#define STREAMED_BYTES 49152

/* The part of the left operand's loads that miss the first cache because rows that lie a round number of bytes apart
 * share its sets, when each of `rows` x `more` rows is read for `span` bytes: of the lines in a set those beyond its
 * ways, squared, since the cache's choice keeps some. */
static double conflicts(const space *p, const tn__sketch *k, int64_t rows, int64_t more, int64_t span) {
  enum { SETS = 64, LINE = 64 };
  uint16_t lines[SETS] = {0};
  double ways = (double)k->target->l1_bytes / (SETS * LINE), missed = 0, all = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t m = 0; m < more; m++) {
      int64_t start = r * p->row_stride + m * p->more_stride;
      for (int64_t line = start / LINE; line * LINE < start + span; line++) lines[line % SETS]++;
    }
  for (int i = 0; i < SETS; i++) {
    double beyond = ((double)lines[i] - ways) / ways;
    all += lines[i];
    if (beyond > 0) missed += (double)lines[i] * (beyond < 1 ? beyond * beyond : 1);
  }
  return missed / all;
}

/* A load of one element into all lanes, beside a load of a vector. */
#define BROADCAST 0.6

/* One tile size: `rows` accumulators high, `vectors` wide, `times` of them. */
static void tile_phase(const space *p, const tn__sketch *k, const int64_t *v, tn__sketch_features *f,
                       const int64_t tile[2], int64_t vectors, bool masked, double times) {
  const tn__nest *nest = &p->nest;
  int64_t rows = tile[0] * tile[1];
  int vector_bytes = (int)(v[LANES] * p->element), unroll = (int)v[UNROLL];
  double accumulators = (double)(rows * vectors), steps = 1;
  for (int a = p->spatial; a < nest->axis_count; a++) steps *= (double)nest->extent[a];
  double inner = (double)nest->extent[nest->axis_count - 1];
  tn__operations step = {.vector_bytes = vector_bytes, .fma = unroll * accumulators, .other = 3};
  step.chain = (double)unroll * k->target->core.fma_latency;
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
  if (p->has_right) step.loads = (1 + right) * (double)(unroll * vectors);
  /* What a missing line costs beside a load that finds it. */
  double misses = 0;
  if (!p->streams)
    misses = conflicts(p, k, tile[0], tile[1], p->depthwise ? vectors * vector_bytes : 1) * 64 *
             k->target->core.load_ports / k->target->core.l2_bytes;
  if (p->depthwise) {
    step.loads += (1 + left + misses * vector_bytes / 64) * unroll * accumulators;
  } else {
    step.loads += (BROADCAST + misses) * (double)(unroll * rows);
    if (p->left_element != p->element) step.other += (double)(2 * unroll * rows);
  }
  if (p->right_element != p->element) step.fma += (double)(unroll * vectors);
  if (masked) step.other += (double)(unroll * vectors);
  /* Long straight pieces give the compiler's scheduler room to take registers for loads that are not needed yet. */
  if (unroll * accumulators > 64) step.fma *= 1.05;
  if (unroll > 1 && masked) step.fma *= 1.25;
  tn__cost_phase(f, k->target, &step, times * steps / unroll);
  tn__cost_loop(f, times * steps / inner, inner / unroll);
  tn__operations end = {.vector_bytes = vector_bytes, .other = 12};
  end.fma = accumulators * (1 + p->epilogue);
  end.loads = (1 + out) * accumulators * p->epilogue_loads;
  end.stores = (1 + out) * accumulators;
  if (masked) end.other += 2 * accumulators;
  end.chain = 2.0 * k->target->core.fma_latency;
  tn__cost_phase(f, k->target, &end, times);
  f->useful += 0;
  f->spent += times * accumulators * (double)v[LANES];
}

/* What computing the left operand part by part takes: where windows overlap, parts are computed again. False when a
 * part is too much to be kept near. */
static bool stream_phase(const space *p, const tn__sketch *k, const int64_t *v, const outer_loops *outer,
                         tn__sketch_features *f) {
  const tn__nest *nest = &p->nest;
  int64_t ranges[TN__NEST_AXES];
  double times = 1, bytes = p->left_element;
  for (int a = 0; a < nest->axis_count; a++) ranges[a] = a < p->spatial ? 1 : nest->extent[a];
  ranges[p->column] = v[LANES] * v[VECTORS];
  if (p->row >= 0) ranges[p->row] = v[ROWS];
  if (p->more_rows >= 0) ranges[p->more_rows] = v[MORE_ROWS];
  for (int i = 0; i < outer->count; i++) {
    const outer_loop *loop = &outer->loop[i];
    if (i <= streams_at(outer, v))
      times *= (double)loop->trips;
    else
      ranges[loop->axis] *= loop->trips;
  }
  for (int d = 0; d < p->left_rank; d++) {
    int64_t extent = 1;
    for (int a = 0; a < nest->axis_count; a++) extent += p->left_step[d][a] * (ranges[a] - 1);
    bytes *= (double)(extent < p->left_shape[d] ? extent : p->left_shape[d]);
  }
  if (bytes > STREAMED_BYTES) return false;
  int vector_bytes = (int)v[LANES] * p->left_element;
  tn__operations ops = {.vector_bytes = vector_bytes, .fma = p->streamed, .loads = 1, .stores = 1, .other = 6};
  tn__cost_phase(f, k->target, &ops, times * bytes / vector_bytes);
  /* What does not fit the first cache goes to the second and comes back. */
  if (bytes > (double)k->target->l1_bytes) f->extra_cycles += 2 * times * bytes / k->target->core.l2_bytes;
  return true;
}

static const tn__nest *features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  const space *p = k->data;
  outer_loops outer;
  int64_t width = v[LANES] * v[VECTORS], rows = v[ROWS] * v[MORE_ROWS];
  if (v[LANES] < 1 || v[VECTORS] < 1 || v[ROWS] < 1 || v[MORE_ROWS] < 1) return NULL;
  if (p->panel > 0 && (p->panel % v[LANES] != 0 || (width % p->panel != 0 && p->panel % width != 0))) return NULL;
  if (v[ROWS] > p->rows || v[MORE_ROWS] > p->more || (v[MORE_ROWS] > 1 && v[ROWS] != p->rows)) return NULL;
  if (v[LANES] * (v[VECTORS] - 1) >= p->columns) return NULL;
  f->registers = (int)(rows * v[VECTORS] + v[VECTORS] + (v[VECTORS] > 1));
  if (f->registers > k->options.registers || !outer_of(p, v, &outer)) return NULL;
  double times = 1;
  f->chunks = 1;
  for (int i = 0; i < outer.count; i++) {
    const outer_loop *loop = &outer.loop[i];
    f->loops[f->loop_count++] = (tn__nest_loop){loop->axis, loop->trips, loop->step};
    if (i < v[SHARED]) f->chunks *= loop->trips;
    if (loop->axis == p->row || loop->axis == p->more_rows || i == outer.column_tiles) continue;
    times *= (double)loop->trips;
  }
  if (v[SHARED] > 0 && f->chunks < 2) return NULL;
  for (int a = p->spatial; a < p->nest.axis_count; a++)
    f->loops[f->loop_count++] = (tn__nest_loop){a, p->nest.extent[a], 1};
  if (p->more_rows >= 0) f->loops[f->loop_count++] = (tn__nest_loop){p->more_rows, v[MORE_ROWS], 1};
  if (p->row >= 0) f->loops[f->loop_count++] = (tn__nest_loop){p->row, v[ROWS], 1};
  f->loops[f->loop_count++] = (tn__nest_loop){p->column, width, 1};
  /* Full tiles and the tails of each of the three tiled axes. */
  for (int t = 0; t < 8; t++) {
    bool row_tail = t & 1, more_tail = t & 2, column_tail = t & 4;
    int64_t r = row_tail ? p->rows % v[ROWS] : v[ROWS], m = more_tail ? p->more % v[MORE_ROWS] : v[MORE_ROWS];
    int64_t lanes = column_tail ? p->columns % width : width;
    if (r == 0 || m == 0 || lanes == 0) continue;
    int64_t row_tiles = row_tail ? 1 : p->rows / v[ROWS], more_tiles = more_tail ? 1 : p->more / v[MORE_ROWS];
    int64_t column_tiles = column_tail ? 1 : p->columns / width;
    double count = (double)row_tiles * (double)more_tiles * (double)column_tiles;
    if (count > 0)
      tile_phase(p, k, v, f, (const int64_t[]){r, m}, tiles(lanes, v[LANES]), lanes % v[LANES] != 0, times * count);
  }
  if (p->streams && !stream_phase(p, k, v, &outer, f)) return NULL;
  f->useful = times * (double)(p->rows * p->more * p->columns);
  return &p->nest;
}

static void scan_maps(contraction *c, space *p) {
  const tn__buffer *output = tn__te_output_at(c->te, 0);
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage->kind != TN__TE_COMPUTE || stage->tensors[0] != output) continue;
    tn__nest nest;
    tn__nest_of_block(c->s, stage->name, &nest);
    p->epilogue = (double)tn__rule_cost(c->ir, stage->values[0]);
    for (int a = 0; a < nest.access_count; a++) p->epilogue_loads += !nest.access[a].store && nest.access[a].moving > 1;
    if (p->epilogue_loads > 0) p->epilogue_loads--; /* the sum itself */
  }
}

static void open_decisions(tn__sketch *k, const space *p) {
  int64_t lanes[3], choices[TN__MAX_CHOICES], full = k->options.vector_bytes / p->element, inner;
  int n = 0;
  for (int64_t l = full / 4 > 0 ? full / 4 : 1; l <= full; l *= 2) {
    /* In a partial vector column / group is not seen to be one value, so that the left operand would be gathered. */
    bool keeps_group = p->group == 0 || p->group % l == 0 || l <= 4;
    bool in_panel = p->panel == 0 || p->panel % l == 0;
    if ((l < 2 * p->columns || l <= 4) && keeps_group && in_panel) lanes[n++] = l;
  }
  if (n == 0) lanes[n++] = 1;
  tn__sketch_open(k, "lanes", lanes, n);
  static const int64_t vectors[] = {1, 2, 3, 4, 6, 8};
  tn__sketch_open(k, "vectors", vectors, 6);
  n = 0;
  for (int64_t r = 1; r <= 30 && r < k->options.registers; r++) choices[n++] = r;
  tn__sketch_open(k, "rows", choices, p->row >= 0 ? n : 1);
  tn__sketch_open(k, "more rows", choices, p->more_rows >= 0 ? 8 : 1);
  inner = p->nest.extent[p->nest.axis_count - 1];
  n = 0;
  for (int64_t u = 1; u <= 4; u *= 2)
    if (inner % u == 0 && !p->nest.open[p->nest.axis_count - 1] && (u == 1 || inner > u)) choices[n++] = u;
  tn__sketch_open(k, "unroll", choices, n);
  int others = 0;
  for (int a = 0; a < p->spatial; a++) others += a != p->column && !p->moves_right[a];
  for (n = 0; n <= others; n++) choices[n] = n;
  tn__sketch_open(k, "columns at", choices, n);
  static const int64_t blocks[] = {1, 2, 4, 8, 16};
  tn__sketch_open(k, "block", blocks, others > 0 ? 5 : 1);
  static const int64_t shared[] = {0, 1, 2, 3, 4};
  tn__sketch_open(k, "shared", shared, k->options.threads > 1 && p->large ? 5 : 1);
}

/* ---- applying -------------------------------------------------------------------------------------------------------
 */

static const char *part(contraction *c, const char *loop, int index) {
  return tn__arena_printf(c->s->arena, "%s.%d", loop, index);
}

/* Puts the loops in order and returns the innermost loop around a tile. */
static const char *tile_loops(contraction *c, const space *p, const int64_t *v, const char **first_reduction,
                              const char **stream_loop) {
  tn__schedule *s = c->s;
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS], *outside[TN__NEST_AXES], *inside[TN__NEST_AXES] = {NULL};
  int count = tn__loops_of(s, c->sum->name, loops, TN__MAX_LOOPS), n = 0;
  outer_loops outer;
  if (!outer_of(p, v, &outer) || count != p->nest.axis_count || p->spatial >= count)
    tn__sched_refuse(s, "contraction: the decisions don't go together");
  for (int a = 0; a < p->spatial; a++) outside[a] = loops[a];
  const char *column = loops[c->column];
  if (c->group > 0) {
    tn__split(s, column, (const int64_t[]){0, c->group}, 2);
    order[n++] = part(c, column, 0);
    column = part(c, column, 1);
  }
  tn__split(s, column, (const int64_t[]){0, v[VECTORS], v[LANES]}, 3);
  outside[c->column] = part(c, column, 0);
  for (int i = 0; i < 2; i++) {
    int axis = i == 0 ? c->more_rows : c->row;
    int64_t tile = i == 0 ? v[MORE_ROWS] : v[ROWS];
    if (axis < 0 || (i == 0 && tile == 1)) continue;
    tn__split(s, loops[axis], (const int64_t[]){0, tile}, 2);
    outside[axis] = part(c, loops[axis], 0);
    inside[axis] = part(c, loops[axis], 1);
  }
  if (outer.block >= 0) {
    const char *loop = outside[outer.loop[outer.block].axis];
    tn__split(s, loop, (const int64_t[]){0, v[BLOCK]}, 2);
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
  if (v[UNROLL] > 1) {
    tn__split(s, last, (const int64_t[]){0, v[UNROLL]}, 2);
    unrolled = part(c, last, 1);
    last = part(c, last, 0);
  }
  for (int i = p->spatial; i < count; i++) order[n++] = i == count - 1 ? last : loops[i];
  *first_reduction = order[tiles_end];
  if (unrolled != NULL) order[n++] = unrolled;
  int unroll_from = tiles_end + (count - p->spatial);
  for (int a = 0; a < p->spatial; a++)
    if (inside[a] != NULL) order[n++] = inside[a];
  order[n++] = part(c, column, 1);
  order[n++] = part(c, column, 2);
  tn__reorder(s, order, n);
  const char *outermost = order[0];
  int fused = v[SHARED] > 1 ? (int)v[SHARED] : 1;
  for (int i = 1; i < fused; i++) {
    tn__fuse(s, outermost, order[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, order[i]);
  }
  *stream_loop = outer.column_tiles < fused ? outermost : order[outer.column_tiles];
  for (int i = unroll_from; i < n - 1; i++) tn__unroll(s, order[i]);
  if (v[LANES] > 1) tn__vectorize(s, order[n - 1]);
  if (v[SHARED] > 0) tn__parallel(s, outermost);
  return tiles_end == fused ? outermost : order[tiles_end - 1];
}

static void stream(tn__schedule *s, const char *block, const char *loop, int64_t lanes) {
  const char *loops[TN__MAX_LOOPS];
  tn__compute_at(s, block, loop);
  tn__set_scope(s, block, 0, TN__SCOPE_STACK);
  int count = tn__loops_of(s, block, loops, TN__MAX_LOOPS);
  const char *last = loops[count - 1];
  if (lanes <= 1) return;
  tn__split(s, last, (const int64_t[]){0, lanes}, 2);
  tn__vectorize(s, tn__arena_printf(s->arena, "%s.1", last));
}

/* Everything that comes before the tiles: producers, a transposed operand, the roles. `seen` is the sum as it reads
 * now. */
static void prepare(contraction *c, tn__te_stage *seen) {
  tn__schedule *s = c->s;
  c->sum = find_sum(c->te);
  place_maps(c);
  /* Through renaming stages the operands may be others than declared. */
  *seen = *c->sum;
  const tn__block *block = &tn__sched_find(s, c->sum->name, true)->block;
  const tn__expr *value = block->body->as.store.value;
  const tn__expr *own = tn__load(c->ir, c->sum->tensors[0], c->sum->axes.index);
  seen->values[0] = value->args[0] == own ? value->args[1] : value->args[0];
  c->sum = seen;
  if (find_roles(c)) return;
  transpose_operand(c);
  block = &tn__sched_find(s, c->sum->name, true)->block;
  value = block->body->as.store.value;
  seen->values[0] = value->args[0] == own ? value->args[1] : value->args[0];
  if (!find_roles(c)) tn__sched_refuse(s, "contraction: no axis carries vectors");
}

/* Fills in what is known of a left operand that is computed part by part; false when there is none, or its parts have
 * no bound. */
static bool may_stream(const contraction *c, const tn__te_stage *sum, space *p) {
  const tn__te_stage *map = streamed_map(c);
  double least = p->left_element;
  if (map == NULL) return false;
  const tn__expr *value = map->values[0];
  /* Padding's conditions hold for whole vectors. */
  p->streamed = (double)(value->kind == TN__EXPR_SELECT
                             ? tn__rule_cost(c->ir, value->args[1]) + tn__rule_cost(c->ir, value->args[2])
                             : tn__rule_cost(c->ir, value));
  p->left_rank = c->left->arg_count;
  for (int d = 0; d < p->left_rank; d++) {
    int64_t extent = 1;
    if (!tn__as_int(c->left->value.buffer->shape[d], &p->left_shape[d])) return false;
    for (int a = 0; a < p->nest.axis_count; a++) {
      const tn__var *axis = a < p->spatial ? sum->axes.var[a] : sum->reduce_axes.var[a - p->spatial];
      int64_t *step = &p->left_step[d][a];
      if (p->nest.open[a] || (tn__expr_uses_var(c->left->args[d], axis) &&
                              (!tn__stride_in(c->ir, c->left->args[d], axis, step) || *step < 0)))
        return false;
      if (a >= p->spatial) extent += *step * (p->nest.extent[a] - 1);
    }
    least *= (double)extent;
  }
  return least * (double)(p->columns < 64 ? p->columns : 64) <= STREAMED_BYTES;
}

static void open_sketch(tn__sketch *k, tn__schedule *scratch) {
  contraction c = {.s = scratch, .te = k->te, .ir = scratch->ir, .options = &k->options, .known_column = -1};
  if (k->has_facts) c.known_column = k->facts[0], c.known_left = k->facts[1] & 1, c.known_depthwise = k->facts[2] != 0;
  tn__te_stage seen;
  prepare(&c, &seen);
  k->facts[0] = c.column, k->facts[1] = c.known_left, k->facts[2] = c.depthwise;
  space *p = TN__NEW(scratch->arena, space);
  *p = (space){.column = c.column,
               .row = c.row,
               .more_rows = c.more_rows,
               .spatial = seen.axes.count,
               .reduce = seen.reduce_axes.count,
               .group = c.group,
               .panel = c.panel,
               .depthwise = c.depthwise,
               .has_right = c.right != NULL,
               .large = tn__rule_is_large(k->te)};
  tn__nest_of_block(scratch, c.sum->name, &p->nest);
  if (p->nest.axis_count + 6 > TN__NEST_LOOPS || p->nest.axis_count != p->spatial + p->reduce)
    tn__sched_refuse(scratch, "contraction: too many axes");
  p->columns = c.group > 0 ? c.group : p->nest.extent[c.column];
  p->rows = c.row >= 0 ? p->nest.extent[c.row] : 1;
  p->more = c.more_rows >= 0 ? p->nest.extent[c.more_rows] : 1;
  p->element = (int)tn_dtype_size(seen.tensors[0]->dtype);
  p->left_element = (int)tn_dtype_size(c.left->value.buffer->dtype);
  p->right_element = c.right == NULL ? p->element : (int)tn_dtype_size(c.right->value.buffer->dtype);
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *access = &p->nest.access[i];
    if (access->store || p->row_stride != 0) continue;
    if (p->row >= 0) p->row_stride = access->along[p->row].stride;
    if (p->more_rows >= 0) p->more_stride = access->along[p->more_rows].stride;
  }
  for (int a = 0; a < p->spatial; a++) p->moves_right[a] = uses(c.right, seen.axes.var[a]);
  p->streams = may_stream(&c, &seen, p);
  scan_maps(&c, p);
  k->data = p;
  open_decisions(k, p);
}

static void apply(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  const space *known = k->data;
  contraction c = {.s = s, .te = k->te, .ir = s->ir, .options = &k->options, .known_column = k->facts[0]};
  c.known_left = k->facts[1] & 1;
  c.known_depthwise = k->facts[2] != 0;
  c.streams = known->streams;
  tn__te_stage seen;
  prepare(&c, &seen);
  const tn__buffer *output = tn__te_output_at(c.te, 0), *tensor = c.sum->tensors[0];
  const char *consumer = NULL, *first_reduction, *stream_loop, *separate = NULL;
  if (output != tensor) {
    consumer = tn__te_stage_of(c.te, output)->name;
    if (!is_epilogue(tn__sched_find(s, consumer, true), tensor)) {
      separate = consumer;
      consumer = NULL;
    }
  }
  if (consumer == NULL) {
    tn__cache_write(s, c.sum->name, 0, TN__SCOPE_REGISTER);
    consumer = tn__arena_printf(s->arena, "%s.write", c.sum->name);
  } else {
    tn__set_scope(s, c.sum->name, 0, TN__SCOPE_REGISTER);
  }
  const tn__te_stage *streamed = known->streams ? streamed_map(&c) : NULL;
  const char *tile = tile_loops(&c, known, v, &first_reduction, &stream_loop);
  if (streamed != NULL) stream(s, streamed->name, stream_loop, v[LANES]);
  tn__reverse_compute_at(s, consumer, tile);
  tn__decompose_reduction(s, c.sum->name, first_reduction);
  if (separate != NULL) tn__rule_nest(s, separate, &k->options);
}

const tn__rule tn__rule_contraction = {"complex reduction", matches, open_sketch, features, apply};
