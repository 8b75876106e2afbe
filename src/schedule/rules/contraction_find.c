/* What a product or convolution is made of: operands, their roles and axes, the maps around the sum. */
#include "schedule/rules/contraction.h"

#include <string.h>

#include "base/invariant.h"

/* ---- recognising ------------------------------------------------------------------------------------------------- */

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

/* a * b, or products of the numbers in both, added up. */
static bool multiplies(const tn__expr *term) {
  bool words = term->intrinsic == TN__CALL_DOT4 || term->intrinsic == TN__CALL_DOT2;
  return term->kind == TN__EXPR_MUL || (term->kind == TN__EXPR_CALL && words);
}

static bool is_product(const tn__expr *term) {
  term = without_casts(term);
  return multiplies(term) && term->arg_count == 2 && without_casts(term->args[0])->kind == TN__EXPR_LOAD &&
         without_casts(term->args[1])->kind == TN__EXPR_LOAD;
}

bool tn__contraction_sums_products(const tn__te_stage *stage) { return is_sum(stage) && is_product(stage->values[0]); }

const tn__te_stage *tn__contraction_find(const tn__te *te) {
  const tn__te_stage *sum = NULL;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_COMPUTE) continue;
    if (sum != NULL || !(tn__contraction_sums_products(stage) || tn__contraction_reuses(tn__te_ir(te), stage)))
      return NULL;
    sum = stage;
  }
  return sum;
}

static const tn__expr *flat_index(tn__ir *ir, const tn__expr *load) {
  TN__INVARIANT(load->kind == TN__EXPR_LOAD && load->value.buffer != NULL); /* operands are loads */
  return tn__buffer_flatten(ir, load->value.buffer, load->args);
}

/* The width W when the load is packed along the axis: [..., axis / W, ..., axis % W]; 0 when it is not. */
static int64_t packed_width(tn__ir *ir, const tn__expr *load, const tn__var *axis) {
  int64_t width;
  const tn__expr *last = load->args[load->arg_count - 1];
  if (load->arg_count < 2 || last->kind != TN__EXPR_MOD || last->args[0] != axis->self ||
      !tn__ir_as_int(last->args[1], &width))
    return 0;
  for (int d = 0; d < load->arg_count - 1; d++)
    if (load->args[d] == tn__ir_div_i(ir, axis->self, width)) return width;
  return 0;
}

static bool is_contiguous(tn__ir *ir, const tn__expr *load, const tn__var *axis) {
  int64_t stride;
  return packed_width(ir, load, axis) > 0 || (tn__ir_stride_in(ir, flat_index(ir, load), axis, &stride) && stride == 1);
}

static bool uses(const tn__expr *operand, const tn__var *var) {
  return operand != NULL && tn__expr_uses_var(operand, var);
}

/* The operands of the product: loads, or NULL for a number (which may have been multiplied away). */
static void find_operands(const tn__contraction *c, const tn__expr *operands[2]) {
  const tn__expr *term = without_casts(c->sum->values[0]);
  operands[0] = operands[1] = NULL;
  if (term->kind == TN__EXPR_LOAD) operands[0] = term;
  for (int o = 0; multiplies(term) && o < 2; o++) {
    const tn__expr *operand = without_casts(term->args[o]);
    if (operand->kind == TN__EXPR_LOAD)
      operands[o] = operand;
    else if (tn__expr_has_load(operand))
      tn__sched_refuse(c->s, "contraction: an operand is computed in place");
  }
}

/* Grouped convolutions: the width of the groups when `left` depends on nothing of the axis but axis / width; 0
 * otherwise. */
static int64_t group_width(const tn__contraction *c, const tn__expr *left, const tn__var *axis) {
  int64_t extent, width = tn__sched_divisor_of(c->ir, left, axis);
  if (width < 4 || !tn__ir_as_int(axis->extent, &extent) || extent % width != 0) return 0;
  tn__ir *ir = c->ir;
  const tn__expr *zero = tn__ir_index(ir, 0);
  const tn__var *group = tn__var_create(ir, "group", TN_I64, zero, tn__ir_index(ir, extent / width));
  const tn__var *within = tn__var_create(ir, "within", TN_I64, zero, tn__ir_index(ir, width));
  const tn__expr *split = tn__ir_add(ir, tn__ir_mul_i(ir, group->self, width), within->self);
  return tn__expr_uses_var(tn__ir_substitute(ir, left, &axis, &split, 1), within) ? 0 : width;
}

static int row_axis(const tn__contraction *c, int before) {
  const tn__te_axes *axes = &c->sum->axes;
  for (int a = before - 1; a >= 0; a--) {
    bool moves_only_left = tn__contraction_moves(c, 0, a) && !tn__contraction_moves(c, 1, a);
    if (a != c->column && moves_only_left && !tn__ir_is_int_value(axes->var[a]->extent, 1)) return a;
  }
  return -1;
}

/* Takes `right` as the operand that is read in vectors along axis `a`; false when it is not contiguous there, or when
 * the other operand moves too and `depthwise` does not allow that. */
static bool try_column(tn__contraction *c, const tn__expr *left, const tn__expr *right, int a, bool depthwise) {
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

/* Has the axis less than half a vector's steps? */
static bool is_narrow(const tn__contraction *c, int axis) {
  int64_t extent, lanes = c->options->vector_bytes / (int64_t)tn_dtype_size(c->sum->tensors[0]->dtype);
  return tn__ir_as_int(c->sum->axes.var[axis]->extent, &extent) && 2 * extent < lanes;
}

/* The load that alone is on this side of a general term; NULL when there are more, or the tensor is on both. */
static const tn__expr *only_load(const tn__contraction *c, bool right) {
  const tn__var *column = c->sum->axes.var[c->column];
  const tn__expr *only = NULL;
  for (int i = 0; i < c->load_count; i++) {
    if (uses(c->loads[i], column) != right) continue;
    if (only != NULL) return NULL;
    only = c->loads[i];
  }
  for (int i = 0; i < c->load_count && only != NULL; i++)
    if (c->loads[i] != only && tn__expr_uses_buffer(c->loads[i], only->value.buffer)) return NULL;
  return only;
}

/* An axis along which all that moves with it is contiguous, and another that it stands still along. */
static bool find_column_of_term(tn__contraction *c) {
  const tn__te_axes *axes = &c->sum->axes;
  for (c->column = axes->count - 1; c->column >= 0; c->column--) {
    bool moves = false, contiguous = true;
    if (tn__ir_is_int_value(axes->var[c->column]->extent, 1)) continue;
    for (int i = 0; i < c->load_count; i++) {
      if (!uses(c->loads[i], axes->var[c->column])) continue;
      moves = true;
      contiguous &= is_contiguous(c->ir, c->loads[i], axes->var[c->column]);
    }
    if (!moves || !contiguous || row_axis(c, axes->count) < 0) continue;
    c->left = only_load(c, false);
    c->right = only_load(c, true);
    return true;
  }
  return false;
}

/* Do neighbours along the axis lie side by side in the sum? */
static bool is_last(const tn__te_axes *axes, int axis) {
  for (int a = axis + 1; a < axes->count; a++)
    if (!tn__ir_is_int_value(axes->var[a]->extent, 1)) return false;
  return true;
}

/* `scatters`: both operands may be read in vectors along an axis that the sum is scattered along. */
static bool find_column(tn__contraction *c, bool scatters) {
  const tn__expr *operands[2];
  if (c->general) return find_column_of_term(c);
  find_operands(c, operands);
  const tn__te_axes *axes = &c->sum->axes;
  if (c->known_column >= 0 && c->known_column < axes->count && operands[c->known_left] != NULL &&
      !tn__ir_is_int_value(axes->var[c->known_column]->extent, 1) &&
      try_column(c, operands[c->known_left], operands[1 - c->known_left], c->known_column, c->known_depthwise))
    return true;
  for (int pass = 0; pass < 4; pass++) { /* narrow axes last; depthwise behind others */
    bool narrow = pass / 2 != 0, depthwise = pass % 2 != 0;
    for (int a = axes->count - 1; a >= 0; a--)
      for (int o = 0; o < 2; o++) {
        if (operands[o] == NULL || tn__ir_is_int_value(axes->var[a]->extent, 1)) continue;
        if (is_narrow(c, a) != narrow || (depthwise && !scatters && !is_last(axes, a))) continue;
        if (!try_column(c, operands[o], operands[1 - o], a, depthwise)) continue;
        c->known_left = o;
        return true;
      }
  }
  return false;
}

/* Finds the operands' roles and the axes; false when no spatial axis can carry vectors. */
static bool find_roles(tn__contraction *c, bool scatters) {
  const tn__te_axes *axes = &c->sum->axes;
  c->column = -1;
  if (!find_column(c, scatters)) return false;
  c->row = row_axis(c, axes->count);
  c->panel = c->right == NULL ? 0 : packed_width(c->ir, c->right, axes->var[c->column]);
  if (!tn__ir_as_int(axes->var[c->column]->extent, &c->columns)) c->columns = -1;
  if (c->group > 0) c->columns = c->group;
  if (c->group > 0 && c->panel > 0 && c->group % c->panel != 0) return false;
  c->rows = 1;
  if (c->row >= 0 && !tn__ir_as_int(axes->var[c->row]->extent, &c->rows)) c->rows = -1;
  int64_t extent;
  c->more_rows = c->rows >= 2 && c->rows <= 14 ? row_axis(c, c->row) : -1;
  if (c->more_rows >= 0 && !tn__ir_as_int(axes->var[c->more_rows]->extent, &extent)) c->more_rows = -1;
  return true;
}

/* ---- operands that have no contiguous axis ----------------------------------------------------------------------- */

/* Copying an operand only pays when many rows of the other one meet it. */
static bool has_rows(const tn__contraction *c, const tn__expr *left, const tn__expr *right) {
  for (int a = 0; a < c->sum->axes.count; a++) {
    const tn__var *axis = c->sum->axes.var[a];
    int64_t extent;
    if (!tn__expr_uses_var(left, axis) || tn__expr_uses_var(right, axis)) continue;
    if (!tn__ir_as_int(axis->extent, &extent) || extent >= 8) return true;
  }
  return false;
}

/* The dimension along which neighbours lie side by side. */
static int dimension_side_by_side(const tn__buffer *buffer) {
  for (int d = buffer->rank - 1; buffer->strides != NULL && d >= 0; d--)
    if (tn__ir_is_int_value(buffer->strides[d], 1)) return d;
  return buffer->rank - 1;
}

/* Copies what the load reads with dimension `last` innermost, in front of it the reduction, once before the sum.
 * Returns the load in terms of the copy; NULL when the sum does not read it as a tensor. */
static const tn__expr *turn_operand(tn__contraction *c, const tn__expr *load, int last) {
  int order[TN__MAX_RANK], n = 0;
  for (int d = 0; d < load->arg_count; d++) /* what moves with other spatial axes first, then the reduction */
    if (d != last && !tn__expr_uses_var(load->args[d], c->sum->reduce_axes.var[0])) order[n++] = d;
  for (int d = 0; d < load->arg_count; d++)
    if (d != last && tn__expr_uses_var(load->args[d], c->sum->reduce_axes.var[0])) order[n++] = d;
  order[n++] = last;
  const tn__snode *block = tn__sched_find(c->s, c->sum->name, true);
  for (int r = 0; r < block->block.read_count; r++) {
    if (block->block.reads[r].buffer != load->value.buffer) continue;
    const char *copy = tn__sched_cache_read_in_order(c->s, c->sum->name, r, TN__SCOPE_WORKSPACE, order, n);
    int contiguous = 0, beside = dimension_side_by_side(load->value.buffer);
    for (int d = 0; d < n; d++)
      if (order[d] == beside) contiguous = d;
    /* Rows begin at a line of their own, an odd number of lines apart, so that no vector lies across two and all sets
     * have their turn. */
    int64_t line = c->s->target->cpu.machine.costs.line_bytes / (int64_t)tn_dtype_size(load->value.buffer->dtype);
    if (n > 1 && line > 0) tn__sched_storage_align(c->s, copy, 0, n - 2, 2 * line, line);
    tn__rule_turn(c->s, copy, contiguous, c->options);
    const tn__expr *indices[TN__MAX_RANK];
    for (int d = 0; d < n; d++) indices[d] = load->args[order[d]];
    return tn__ir_load(c->ir, tn__sched_find(c->s, copy, true)->block.writes[0].buffer, indices);
  }
  return NULL;
}

/* The dimension that the axis alone is the index of; -1: none. */
static int dimension_of(const tn__expr *load, const tn__var *axis) {
  int last = -1;
  for (int d = 0; d < load->arg_count; d++)
    if (load->args[d] == axis->self) last = d;
  return last;
}

/* The same for all that a general term reads along one axis: the last one where that can be done. */
static void turn_term(tn__contraction *c) {
  const tn__te_axes *axes = &c->sum->axes;
  for (c->column = axes->count - 1; c->column >= 0; c->column--) {
    const tn__var *axis = axes->var[c->column];
    int64_t rows;
    int moving = 0, row = row_axis(c, axes->count);
    bool turns = row >= 0 && (!tn__ir_as_int(axes->var[row]->extent, &rows) || rows >= 8);
    for (int i = 0; i < c->load_count; i++) {
      if (!uses(c->loads[i], axis)) continue;
      moving++;
      turns &= dimension_of(c->loads[i], axis) >= 0 || is_contiguous(c->ir, c->loads[i], axis);
    }
    if (!turns || moving == 0) continue;
    for (int i = 0; i < c->load_count; i++)
      if (uses(c->loads[i], axis) && !is_contiguous(c->ir, c->loads[i], axis))
        turn_operand(c, c->loads[i], dimension_of(c->loads[i], axis));
    return;
  }
}

/* A product such as Q * K^T reads both operands along the reduction. The one whose column axis is last in the result is
 * copied with that axis innermost, once, before the product: along a `wide` axis only, if so. Was there one? */
static bool transpose_operand(tn__contraction *c, bool wide) {
  const tn__te_axes *axes = &c->sum->axes;
  const tn__expr *operands[2];
  find_operands(c, operands);
  for (int a = axes->count - 1; a >= 0; a--)
    for (int o = 0; o < 2; o++) {
      const tn__expr *right = operands[1 - o], *left = operands[o];
      if (left == NULL || right == NULL) continue;
      if (tn__expr_uses_var(left, axes->var[a]) || tn__ir_is_int_value(axes->var[a]->extent, 1)) continue;
      if (!has_rows(c, left, right) || (wide && is_narrow(c, a))) continue;
      int last = dimension_of(right, axes->var[a]);
      const tn__expr *turned = last < 0 ? NULL : turn_operand(c, right, last);
      if (turned == NULL) continue;
      c->right = turned; /* the roles, in terms of the copy */
      c->left = left;
      c->column = a;
      return true;
    }
  return false;
}

/* A left operand that lies along neither its rows nor the reduction, but along an axis outside of the tiles, brings a
 * cache line for each of its elements: it is copied once with its rows innermost. Was it? */
static bool turn_left(tn__contraction *c) {
  if (c->general || c->depthwise || c->group > 0 || c->row < 0 || c->left == NULL || c->right == NULL) return false;
  const tn__expr *flat = flat_index(c->ir, c->left);
  int64_t stride;
  bool outside = false;
  for (int a = 0; a < c->sum->axes.count; a++)
    outside |= a != c->row && !tn__ir_is_int_value(c->sum->axes.var[a]->extent, 1) &&
               uses(c->left, c->sum->axes.var[a]) && is_contiguous(c->ir, c->left, c->sum->axes.var[a]);
  for (int a = 0; a < c->sum->reduce_axes.count; a++)
    if (tn__ir_stride_in(c->ir, flat, c->sum->reduce_axes.var[a], &stride) && stride == 1) return false;
  int last = dimension_of(c->left, c->sum->axes.var[c->row]);
  if (!outside || last < 0 || is_contiguous(c->ir, c->left, c->sum->axes.var[c->row])) return false;
  if (c->left->value.buffer == c->right->value.buffer || !has_rows(c, c->right, c->left)) return false;
  return turn_operand(c, c->left, last) != NULL;
}

/* ---- producers and epilogue -------------------------------------------------------------------------------------- */

static bool reads_stage(const tn__te_stage *reader, const tn__te_stage *producer) {
  for (int i = 0; i < reader->tensor_count; i++)
    for (int j = 0; j < producer->tensor_count; j++)
      if (tn__expr_uses_buffer(reader->values[i], producer->tensors[j])) return true;
  return false;
}

/* Does the stage only rename elements (a transposition, a slice, a cast), so that the sum may as well read through
 * it? */
static bool only_renames(const tn__te_stage *stage) {
  const tn__expr *value = without_casts(stage->values[0]);
  if (!tn__expr_has_load(value)) return true;
  if (value->kind != TN__EXPR_LOAD || value->dtype != stage->values[0]->dtype) return false;
  for (int d = 0; d < value->arg_count; d++)
    if (tn__expr_has_load(value->args[d])) return false;
  return true;
}

/* The load that stands for `load`, of what the stage renames. False when that is less contiguous along an axis than
 * the load was, or indices are no plain steps along the reduction any more. */
static bool stays_contiguous(const tn__contraction *c, const tn__te_stage *stage, const tn__expr *load,
                             const tn__expr *other) {
  const tn__expr *value = without_casts(stage->values[0]), *coefficients[TN__MAX_RANK], *rest;
  const tn__te_axes *axes = &c->sum->axes, *reduce = &c->sum->reduce_axes;
  const tn__expr *through = tn__ir_substitute(c->ir, value, stage->axes.var, load->args, stage->axes.count);
  for (int a = 0; a < axes->count; a++)
    if (is_contiguous(c->ir, load, axes->var[a]) && !uses(other, axes->var[a]) &&
        !is_contiguous(c->ir, through, axes->var[a]))
      return false;
  return tn__ir_affine_in(c->ir, flat_index(c->ir, through), reduce->var, reduce->count, coefficients, &rest);
}

/* Would reading through this stage leave a packed or contiguous operand as it is? */
static bool keeps_layout(tn__contraction *c, const tn__te_stage *stage) {
  const tn__expr *value = without_casts(stage->values[0]), *term = without_casts(c->sum->values[0]);
  if (value->kind != TN__EXPR_LOAD) return true;
  for (int i = 0; i < c->load_count; i++)
    if (c->loads[i]->value.buffer == stage->tensors[0] && !stays_contiguous(c, stage, c->loads[i], NULL)) return false;
  if (c->general) return true;
  for (int o = 0; o < 2; o++) {
    const tn__expr *load = without_casts(term->args[o]);
    if (load->value.buffer != stage->tensors[0]) continue;
    if (!stays_contiguous(c, stage, load, without_casts(term->args[1 - o]))) return false;
  }
  return true;
}

/* Maps before the sum are computed into memory when they do more than rename, unless that is left for later; those
 * after it become one epilogue. */
static void place_maps(tn__contraction *c) {
  const tn__buffer *output = tn__te_output_at(c->te, 0), *later[2] = {NULL, NULL};
  for (int side = 0; side < 2; side++)
    if (c->later[side])
      later[side] = without_casts(without_casts(c->sum->values[0])->args[side == 0 ? c->known_left : 1 - c->known_left])
                        ->value.buffer;
  for (int i = 0; i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    const tn__buffer *made = stage->tensors[0];
    if (stage == c->sum || made == output) continue;
    bool waits = made == later[0] || made == later[1];
    if (waits && stage->kind == TN__TE_COMPUTE && !only_renames(stage)) continue;
    if (reads_stage(c->sum, stage) && !(only_renames(stage) && keeps_layout(c, stage)))
      tn__rule_nest(c->s, stage->name, c->options);
    else
      tn__sched_inline(c->s, stage->name);
  }
}

const tn__te_stage *tn__contraction_map(const tn__contraction *c, int side) {
  const tn__expr *operand = side == 0 ? c->left : c->right;
  for (int i = 0; operand != NULL && i < tn__te_stage_count(c->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(c->te, i);
    if (stage->kind == TN__TE_COMPUTE && stage->tensor_count == 1 && stage->tensors[0] == operand->value.buffer &&
        tn__sched_find(c->s, stage->name, true) != NULL)
      return stage;
  }
  return NULL;
}

bool tn__contraction_is_epilogue(const tn__snode *block, const tn__buffer *sum) {
  unsigned used = 0;
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    if (region->buffer != sum) continue;
    for (int d = 0; d < sum->rank; d++) {
      int axis = -1;
      for (int a = 0; a < block->block.axis_count; a++)
        if (region->min[d] == block->block.axes[a].var->self && !tn__ir_is_int(region->min[d])) axis = a;
      if (axis < 0 && tn__ir_is_int_value(sum->shape[d], 1)) continue;
      if (axis < 0 || (used & (1u << axis)) || !tn__ir_is_int_value(region->extent[d], 1)) return false;
      used |= 1u << axis;
    }
  }
  for (int a = 0; a < block->block.axis_count; a++)
    if (!(used & (1u << a)) && !tn__ir_is_int_value(block->block.axes[a].var->extent, 1)) return false;
  return true;
}

/* The sum as its block reads now: through renaming stages operands may be others than declared, and parts of a term may
 * have become operands of a product. */
static void see_sum(tn__contraction *c, tn__te_stage *seen) {
  const tn__block *block = &tn__sched_find(c->s, c->sum->name, true)->block;
  const tn__expr *value = block->body->as.store.value;
  const tn__expr *own = tn__ir_load(c->ir, c->sum->tensors[0], c->sum->axes.index);
  if (c->general) {
    tn__contraction_read_term(c, value);
    bool adds = is_sum(c->sum) && value->kind == TN__EXPR_ADD && (value->args[0] == own || value->args[1] == own);
    c->general = !adds || !is_product(value->args[0] == own ? value->args[1] : value->args[0]);
    if (c->general) return;
  }
  seen->values[0] = value->args[0] == own ? value->args[1] : value->args[0];
}

void tn__contraction_prepare(tn__contraction *c, tn__te_stage *seen) {
  c->sum = tn__contraction_find(c->te);
  c->general = c->was_general = !tn__contraction_sums_products(c->sum);
  if (c->general) tn__contraction_read_term(c, c->sum->values[0]);
  place_maps(c);
  *seen = *c->sum;
  c->sum = seen;
  see_sum(c, seen);
  bool found = find_roles(c, false);
  if (!found || (!c->general && is_narrow(c, c->column))) {
    if (c->general)
      turn_term(c);
    else
      transpose_operand(c, found);
    see_sum(c, seen);
    if (!find_roles(c, false) && !find_roles(c, true)) tn__sched_refuse(c->s, "contraction: no axis carries vectors");
  }
  if (c->general && tn__contraction_hoist(c)) {
    see_sum(c, seen);
    if (!find_roles(c, false)) tn__sched_refuse(c->s, "contraction: parts of the term were computed for nothing");
  }
  if (!turn_left(c)) return;
  see_sum(c, seen);
  if (!find_roles(c, false)) tn__sched_refuse(c->s, "contraction: the left operand was turned for nothing");
}

/* A tensor, or a constant where the stage's position is outside of it. */
static bool is_padding(const tn__expr *value) {
  return value->kind == TN__EXPR_SELECT && !tn__expr_has_load(value->args[0]) &&
         without_casts(value->args[1])->kind == TN__EXPR_LOAD && !tn__expr_has_load(value->args[2]);
}

/* Is a pass of the operand through memory much beside its sums? Some 0.6 cycles for an element. */
static bool is_short(const tn__contraction *c, const tn__contraction_space *p) {
  double sums = 1;
  int64_t extent;
  for (int a = 0; a < p->nest.axis_count; a++) sums *= (double)p->nest.extent[a];
  for (int d = 0; d < c->left->arg_count; d++)
    sums /= tn__ir_as_int(c->left->value.buffer->shape[d], &extent) ? (double)extent : 1;
  return sums * p->element < TN__RULE_SHORT_SUM * c->s->target->cpu.row.core.fma_bytes;
}

bool tn__contraction_pads_in_place(const tn__contraction *c, const tn__te_stage *sum, tn__contraction_space *p) {
  const tn__te_stage *map = tn__contraction_map(c, 0);
  if (c->was_general || map == NULL || c->row < 0 || !is_padding(map->values[0])) return false;
  /* What it reads may have been inlined into it. */
  const tn__stmt *body = tn__sched_find(c->s, map->name, true)->block.body;
  if (body->kind != TN__STMT_STORE || !is_padding(body->as.store.value)) return false;
  for (int a = 0; a < p->nest.axis_count; a++)
    if (p->nest.open[a]) return false;
  if (!p->depthwise && !is_short(c, p)) return false;
  p->pieces = 1;
  for (int d = 0; d < map->axes.count; d++) {
    if (!tn__expr_uses_var(map->values[0]->args[0], map->axes.var[d])) continue;
    const tn__expr *index = c->left->args[d];
    if (uses(index, sum->axes.var[c->column])) return false; /* its conditions are masks */
    p->pieces *= 3;
    for (int i = 0; i < 2; i++) {
      int rows = i == 0 ? c->row : c->more_rows;
      if (rows < 0 || !uses(index, sum->axes.var[rows])) continue;
      for (int a = p->spatial; a < p->nest.axis_count; a++)
        p->taps[i][a] |= p->nest.extent[a] > 1 && uses(index, sum->reduce_axes.var[a - p->spatial]);
    }
  }
  return true;
}

/* A tensor's dimensions as it lies in memory, the farthest apart first; false when that is not known. */
TN_MUST_USE static bool find_order(const tn__buffer *buffer, int *order) {
  int64_t strides[TN__MAX_RANK];
  for (int d = 0; d < buffer->rank; d++) {
    order[d] = d;
    if (buffer->strides != NULL && !tn__ir_as_int(buffer->strides[d], &strides[d])) return false;
  }
  for (int d = 1; buffer->strides != NULL && d < buffer->rank; d++)
    for (int i = d; i > 0 && strides[order[i - 1]] < strides[order[i]]; i--) {
      int before = order[i - 1];
      order[i - 1] = order[i];
      order[i] = before;
    }
  return true;
}

/* Shape and steps of an operand; false when they are no numbers. */
static bool measure_operand(const tn__contraction *c, const tn__te_stage *sum, const tn__contraction_space *p,
                            const tn__expr *load, tn__contraction_operand *o) {
  if (!find_order(load->value.buffer, o->order)) return false; /* open strides: nobody knows */
  for (int d = 0; d < o->rank; d++)
    if (!tn__ir_as_int(load->value.buffer->shape[o->order[d]], &o->shape[d])) return false;
  o->sized = true;
  for (int d = 0; d < o->rank; d++) {
    for (int a = 0; a < p->nest.axis_count; a++) {
      const tn__var *axis = a < p->spatial ? sum->axes.var[a] : sum->reduce_axes.var[a - p->spatial];
      int64_t *step = &o->step[d][a];
      const tn__expr *index = load->args[o->order[d]];
      if (p->nest.open[a] ||
          (tn__expr_uses_var(index, axis) && (!tn__ir_stride_in(c->ir, index, axis, step) || *step < 0)))
        return false;
    }
  }
  return true;
}

/* Depthwise: is the least part of a left operand that must be made small enough to be kept? */
static bool may_stream(const tn__contraction_space *p) {
  const tn__contraction_operand *o = &p->operand[0];
  double least = o->element;
  if (!p->depthwise || !o->is_map || !o->bounded) return false;
  for (int d = 0; d < o->rank; d++) {
    int64_t extent = 1;
    for (int a = p->spatial; a < p->nest.axis_count; a++) extent += o->step[d][a] * (p->nest.extent[a] - 1);
    least *= (double)extent;
  }
  return least * (double)(p->columns < 64 ? p->columns : 64) <= TN__RULE_PRIVATE_BYTES;
}

void tn__contraction_see_operands(const tn__contraction *c, const tn__te_stage *sum, tn__contraction_space *p) {
  for (int side = 0; side < 2; side++) {
    const tn__expr *load = side == 0 ? c->left : c->right, *other = side == 0 ? c->right : c->left;
    tn__contraction_operand *o = &p->operand[side];
    *o = (tn__contraction_operand){.dim = -1, .element = p->element};
    if (load == NULL || (other != NULL && other->value.buffer == load->value.buffer)) continue;
    const tn__te_stage *map = tn__contraction_map(c, side);
    if (c->was_general && map != NULL) continue;
    o->exists = true;
    o->rank = load->arg_count;
    o->element = (int)tn_dtype_size(load->value.buffer->dtype);
    tn_dtype cast;
    if (!c->general && !c->depthwise && o->element < p->element) {
      p->casts[side] = tn__sched_casts(c->s, tn__sched_find(c->s, c->sum->name, true), load->value.buffer, &cast);
      if (p->casts[side]) o->element = (int)tn_dtype_size(cast);
    }
    o->is_map = map != NULL;
    o->pads = map != NULL && is_padding(map->values[0]);
    if (map != NULL) {
      const tn__expr *value = map->values[0];
      /* Padding's conditions hold for whole vectors. */
      o->work = (double)(value->kind == TN__EXPR_SELECT
                             ? tn__rule_cost(c->ir, value->args[1]) + tn__rule_cost(c->ir, value->args[2])
                             : tn__rule_cost(c->ir, value));
    }
    o->bounded = measure_operand(c, sum, p, load, o);
    for (int d = 0; side == 0 && c->row >= 0 && d + 1 < o->rank; d++)
      if (tn__expr_uses_var(load->args[o->order[d]], sum->axes.var[c->row])) o->dim = d;
  }
  if (!p->operand[0].is_map) { /* a tensor that is both operands stays where it is */
    p->in_place = false;
    memset(p->taps, 0, sizeof(p->taps));
  }
  p->streams = !p->in_place && may_stream(p);
}
