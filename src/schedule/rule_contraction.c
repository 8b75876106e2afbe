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
  int column, row;              /* axes of the sum; row is -1 when there is none */
  int64_t group;         /* columns of one group when the left operand depends on column / group; 0: it does not */
  int64_t rows, columns; /* extents; -1 when symbolic */
  int64_t lanes, vectors, row_tile, panel; /* panel: width of a packed operand's panels, 0: not packed */
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

typedef struct divisor {
  const tn__var *var;
  int64_t value;
} divisor;

static void find_divisor(const tn__expr *e, void *user) {
  divisor *d = user;
  if (e->kind == TN__EXPR_DIV && e->args[0] == d->var->self) tn__as_int(e->args[1], &d->value);
}

/* Grouped convolutions: the width of the groups when `left` depends on nothing of the axis but axis / width; 0
 * otherwise. */
static int64_t group_width(const contraction *c, const tn__expr *left, const tn__var *axis) {
  divisor d = {.var = axis};
  int64_t extent;
  tn__te_visit(c->ir, left, find_divisor, &d);
  if (d.value < 8 || !tn__as_int(axis->extent, &extent) || extent % d.value != 0) return 0;
  tn__ir *ir = c->ir;
  const tn__expr *zero = tn__index(ir, 0);
  const tn__var *group = tn__var_create(ir, "group", TN_I64, zero, tn__index(ir, extent / d.value));
  const tn__var *within = tn__var_create(ir, "within", TN_I64, zero, tn__index(ir, d.value));
  const tn__expr *split = tn__add(ir, tn__mul_i(ir, group->self, d.value), within->self);
  return tn__expr_uses_var(tn__substitute(ir, left, &axis, &split, 1), within) ? 0 : d.value;
}

/* Finds the operands' roles and the axes; false when no spatial axis can carry vectors. */
static bool find_roles(contraction *c) {
  const tn__expr *operands[2];
  find_operands(c, operands);
  const tn__te_axes *axes = &c->sum->axes;
  c->column = -1;
  for (int a = axes->count - 1; a >= 0 && c->column < 0; a--)
    for (int o = 0; o < 2 && c->column < 0; o++) {
      const tn__expr *right = operands[1 - o], *left = operands[o];
      if (left == NULL || tn__is_int_value(axes->var[a]->extent, 1)) continue;
      c->group = uses(left, axes->var[a]) ? group_width(c, left, axes->var[a]) : 0;
      if (uses(left, axes->var[a]) && c->group == 0) continue;
      if (right != NULL && !is_contiguous(c->ir, right, axes->var[a])) continue;
      c->column = a;
      c->left = left;
      c->right = right;
    }
  if (c->column < 0) return false;
  c->row = -1;
  for (int a = axes->count - 1; a >= 0 && c->row < 0; a--) {
    bool moves_only_left = uses(c->left, axes->var[a]) && !uses(c->right, axes->var[a]);
    if (a != c->column && moves_only_left && !tn__is_int_value(axes->var[a]->extent, 1)) c->row = a;
  }
  c->panel = c->right == NULL ? 0 : packed_width(c->ir, c->right, axes->var[c->column]);
  if (!tn__as_int(axes->var[c->column]->extent, &c->columns)) c->columns = -1;
  if (c->group > 0) c->columns = c->group;
  if (c->group > 0 && c->panel > 0 && c->group % c->panel != 0) return false;
  c->rows = 1;
  if (c->row >= 0 && !tn__as_int(axes->var[c->row]->extent, &c->rows)) c->rows = -1;
  return true;
}

bool tn__rule_contraction_matches(const tn__te *te) {
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
  const tn__buffer *output = tn__te_output_at(c->te, 0);
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage == c->sum || stage->tensors[0] == output) continue;
    if (reads_stage(c->sum, stage) && !(only_renames(stage) && keeps_layout(c, stage)))
      tn__rule_nest(c->s, stage->name, c->options);
    else
      tn__inline(c->s, stage->name);
  }
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

/* The most rows that `vectors` columns of accumulators leave registers for: besides them a row of B and one value of A
 * are live. */
static int64_t most_rows(const contraction *c, int64_t vectors) {
  return (c->s->target->vector_registers - vectors - 1) / vectors;
}

/* A number of rows up to `most` that divides them, or that leaves little over. */
static int64_t choose_rows(int64_t rows, int64_t most) {
  if (rows >= 0 && rows <= most) return rows < 1 ? 1 : rows;
  if (rows < 0) return most >= 8 ? 8 : most; /* open dimensions are mostly multiples of small powers of two */
  for (int64_t r = most; 2 * r >= most; r--)
    if (rows % r == 0) return r;
  int64_t tiles = (rows + most - 1) / most;
  return (rows + tiles - 1) / tiles;
}

static void choose_tile(contraction *c) {
  int64_t bytes = (int64_t)tn_dtype_size(c->sum->tensors[0]->dtype);
  c->lanes = c->options->vector_bytes / bytes;
  while (c->columns > 0 && c->lanes > 1 && c->lanes > c->columns) c->lanes /= 2;
  while (c->panel > 0 && c->panel % c->lanes != 0) c->lanes /= 2;
  /* In a partial vector column / group is not seen to be one value, so that the left operand would be gathered. */
  while (c->group > 0 && c->lanes > 4 && c->group % c->lanes != 0) c->lanes /= 2;
  c->vectors = 1;
  while (c->vectors < 8) {
    int64_t next = c->vectors * 2, width = next * c->lanes;
    if (c->columns >= 0 && c->columns % width != 0) break;
    /* Two vectors a row are enough to hide latencies when there are rows; few rows want more. */
    if (next > 2 && (c->rows < 0 || choose_rows(c->rows, most_rows(c, next)) < c->rows || c->rows * c->vectors >= 12))
      break;
    c->vectors = next;
  }
  c->row_tile = c->row < 0 ? 1 : choose_rows(c->rows, most_rows(c, c->vectors));
}

static double bytes_of(const tn__buffer *buffer) {
  double bytes = (double)tn_dtype_size(buffer->dtype);
  int64_t size;
  for (int d = 0; d < buffer->rank; d++) bytes *= tn__as_int(buffer->shape[d], &size) ? (double)size : 256;
  return bytes;
}

static const char *part(contraction *c, const char *loop, int index) {
  return tn__arena_printf(c->s->arena, "%s.%d", loop, index);
}

/* Puts the loops in order and returns the innermost loop around a tile. */
static const char *tile_loops(contraction *c, const char **first_reduction) {
  tn__schedule *s = c->s;
  const char *loops[TN__MAX_LOOPS], *order[TN__MAX_LOOPS];
  int spatial = c->sum->axes.count, count = tn__loops_of(s, c->sum->name, loops, TN__MAX_LOOPS), n = 0;
  int64_t width = c->lanes * c->vectors;
  const char *column = loops[c->column], *row = c->row < 0 ? NULL : loops[c->row];
  if (c->group > 0) {
    tn__split(s, column, (const int64_t[]){0, c->group}, 2);
    order[n++] = part(c, column, 0);
    column = part(c, column, 1);
  }
  tn__split(s, column, (const int64_t[]){0, c->vectors, c->lanes}, 3);
  if (row != NULL) tn__split(s, row, (const int64_t[]){0, c->row_tile}, 2);
  const char *column_tiles = part(c, column, 0), *row_tiles = row == NULL ? NULL : part(c, row, 0);
  /* Loops whose tiles may be partial are not fused, so that their tails can be cut off. */
  bool column_tail = c->columns < 0 || c->columns % width != 0;
  bool row_tail = row != NULL && (c->rows < 0 || c->rows % c->row_tile != 0);
  bool rows_outside = bytes_of(c->left->value.buffer) > (double)s->target->l2_bytes &&
                      (c->right == NULL ? 0 : bytes_of(c->right->value.buffer)) * 2 < (double)s->target->l2_bytes;
  double tasks = 1;
  int fused = 0;
  for (int a = 0; a < spatial; a++) /* axes that choose another right operand */
    if (a != c->column && a != c->row && uses(c->right, c->sum->axes.var[a])) order[n++] = loops[a];
  if (!rows_outside && !column_tail) order[n++] = column_tiles;
  for (int a = 0; a < spatial; a++)
    if (a != c->column && a != c->row && !uses(c->right, c->sum->axes.var[a])) order[n++] = loops[a];
  fused = n;
  for (int i = 0; i < fused; i++) tasks *= tn__loop_extent(s, order[i]) < 0 ? 1 : (double)tn__loop_extent(s, order[i]);
  if (rows_outside && row_tiles != NULL) order[n++] = row_tiles;
  if (rows_outside || column_tail) order[n++] = column_tiles;
  if (!rows_outside && row_tiles != NULL) order[n++] = row_tiles;
  while (fused < n && tasks < 4 * c->options->threads) { /* not enough for everybody: tiles are shared out too */
    bool tail = order[fused] == column_tiles ? column_tail : order[fused] == row_tiles && row_tail;
    if (tail && fused > 0 && tasks >= 2 * c->options->threads) break;
    int64_t extent = tn__loop_extent(s, order[fused]);
    if (tail && fused > 0) break;
    tasks *= extent < 0 ? 1000 : (double)extent;
    fused++;
    if (tail) break;
  }
  int tiles = n;
  for (int i = spatial; i < count; i++) order[n++] = loops[i];
  /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): a block has loops and writes one tensor at least */
  *first_reduction = order[tiles];
  if (row != NULL) order[n++] = part(c, row, 1);
  order[n++] = part(c, column, 1);
  order[n++] = part(c, column, 2);
  tn__reorder(s, order, n);
  const char *outermost = order[0];
  for (int i = 1; i < fused; i++) {
    tn__fuse(s, outermost, order[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, order[i]);
  }
  if (row != NULL) tn__unroll(s, part(c, row, 1));
  tn__unroll(s, part(c, column, 1));
  if (c->lanes > 1) tn__vectorize(s, part(c, column, 2));
  if (tn__rule_is_large(c->te) && c->options->threads != 1 && fused > 0) tn__parallel(s, outermost);
  return tiles == fused ? outermost : order[tiles - 1];
}

void tn__rule_contraction_apply(tn__schedule *s, const tn__schedule_options *options) {
  contraction c = {.s = s, .te = s->te, .ir = s->ir, .options = options};
  c.sum = find_sum(c.te);
  place_maps(&c);
  /* Through renaming stages the operands may be others than declared. */
  tn__te_stage seen = *c.sum;
  const tn__block *block = &tn__sched_find(s, c.sum->name, true)->block;
  const tn__expr *value = block->body->as.store.value;
  const tn__expr *own = tn__load(c.ir, c.sum->tensors[0], c.sum->axes.index);
  seen.values[0] = value->args[0] == own ? value->args[1] : value->args[0];
  c.sum = &seen;
  if (!find_roles(&c)) {
    transpose_operand(&c);
    block = &tn__sched_find(s, c.sum->name, true)->block;
    value = block->body->as.store.value;
    seen.values[0] = value->args[0] == own ? value->args[1] : value->args[0];
    if (!find_roles(&c)) tn__sched_refuse(s, "contraction: no axis carries vectors");
  }
  choose_tile(&c);
  const tn__buffer *output = tn__te_output_at(c.te, 0), *tensor = c.sum->tensors[0];
  const char *consumer = NULL, *first_reduction, *separate = NULL;
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
  const char *tile = tile_loops(&c, &first_reduction);
  tn__reverse_compute_at(s, consumer, tile);
  tn__decompose_reduction(s, c.sum->name, first_reduction);
  if (separate != NULL) tn__rule_nest(s, separate, options);
}
