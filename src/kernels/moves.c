/* From a declaration to the scalars of a move. */
#include "kernels/moves.h"

#include <stddef.h>
#include <string.h>

#include "base/dtype.h"

typedef struct operand {
  const tn__buffer *buffer; /* NULL: none */
  const tn__expr *const *indices;
} operand;

typedef struct reading {
  const tn__te *te;
  tn__ir *ir;
  const tn__te_axes *axes; /* of the result */
  int64_t extents[TN__MAX_RANK];
  operand operands[2];
  int operand_count;
  tn__move *move;
} reading;

/* ---- the element as an expression of inputs ---------------------------------------------------------------------- */

/* A load of another stage is what that computes. Only as far as a move goes: expressions of stages that each read one
 * before it twice double with every stage when they are written out. */
static const tn__expr *resolved(reading *r, const tn__expr *e) {
  while (e->kind == TN__EXPR_LOAD) {
    const tn__te_stage *stage = tn__te_stage_of(r->te, e->value.buffer);
    if (stage == NULL || stage->kind != TN__TE_COMPUTE || stage->tensor_count != 1) break;
    e = tn__ir_substitute(r->ir, stage->values[0], stage->axes.var, e->args, stage->axes.count);
  }
  return e;
}

static int axis_of(const reading *r, const tn__expr *e) {
  for (int i = 0; i < r->axes->count; i++)
    if (e == r->axes->index[i]) return i;
  return -1;
}

/* i < n, and several of them: the axis is moved so far only. */
static bool read_limit(reading *r, const tn__expr *condition) {
  if (condition->kind == TN__EXPR_AND) return read_limit(r, condition->args[0]) && read_limit(r, condition->args[1]);
  int64_t limit;
  int axis = condition->kind == TN__EXPR_LT ? axis_of(r, condition->args[0]) : -1;
  if (axis < 0 || !tn__ir_as_int(condition->args[1], &limit) || limit < 1) return false;
  if (limit < r->extents[axis]) r->extents[axis] = limit;
  return true;
}

static bool read_fill(reading *r, const tn__expr *e) {
  if (e->kind == TN__EXPR_INT) {
    r->move->fill = e->value.i;
    return true;
  }
  if (e->kind != TN__EXPR_FLOAT || (e->dtype != TN_F32 && e->dtype != TN_F64)) return false;
  float single = (float)e->value.f;
  if (e->dtype == TN_F32)
    memcpy(&r->move->fill, &single, sizeof(single)); /* the hosts are little-endian */
  else
    memcpy(&r->move->fill, &e->value.f, sizeof(e->value.f));
  return true;
}

static bool read_factor(reading *r, const tn__expr *e) {
  e = resolved(r, e);
  if (e->kind != TN__EXPR_LOAD || tn__te_stage_of(r->te, e->value.buffer) != NULL || r->operand_count == 2)
    return false;
  r->operands[r->operand_count++] = (operand){e->value.buffer, e->args};
  return true;
}

static bool read_value(reading *r, const tn__expr *e) {
  bool padded = false;
  while (e->kind == TN__EXPR_SELECT) {
    int64_t fill = r->move->fill;
    if (!read_limit(r, e->args[0]) || !read_fill(r, e->args[2]) || (padded && fill != r->move->fill)) return false;
    padded = true;
    e = resolved(r, e->args[1]);
  }
  r->move->padded = padded;
  if (e->kind != TN__EXPR_MUL || e->dtype != TN_F32) return read_factor(r, e);
  return read_factor(r, e->args[0]) && read_factor(r, e->args[1]);
}

/* ---- strides ----------------------------------------------------------------------------------------------------- */

TN_MUST_USE static bool row_major(const tn__buffer *buffer, int64_t *strides, int64_t *elements) {
  *elements = 1;
  for (int i = buffer->rank - 1; i >= 0; i--) {
    int64_t extent;
    strides[i] = *elements;
    if (!tn__ir_as_int(buffer->shape[i], &extent) || extent < 1) return false;
    *elements *= extent;
  }
  return true;
}

/* How far one step of each axis moves the operand; false when an index is more than a sum of axes. */
TN_MUST_USE static bool strides_of(reading *r, const operand *o, int64_t *out, int64_t *offset) {
  int64_t strides[TN__MAX_RANK] = {0}, elements;
  const tn__expr *coefficients[TN__MAX_RANK], *rest;
  if (!row_major(o->buffer, strides, &elements)) return false;
  *offset = 0;
  for (int d = 0; d < o->buffer->rank; d++) {
    int64_t value;
    if (!tn__ir_affine_in(r->ir, o->indices[d], r->axes->var, r->axes->count, coefficients, &rest)) return false;
    if (!tn__ir_as_int(rest, &value)) return false;
    *offset += value * strides[d];
    for (int i = 0; i < r->axes->count; i++) {
      if (!tn__ir_as_int(coefficients[i], &value) || value < 0) return false;
      out[i] += value * strides[d];
    }
  }
  return true;
}

static bool joins(const tn__move_axis *outer, const tn__move_axis *inner) {
  return outer->to == inner->to * inner->extent && outer->from == inner->from * inner->extent &&
         outer->scale == inner->scale * inner->extent;
}

static void add_axis(tn__move *m, tn__move_axis axis) {
  if (axis.extent == 1) return;
  tn__move_axis *last = m->rank == 0 ? NULL : &m->axes[m->rank - 1];
  if (last == NULL || !joins(last, &axis)) {
    m->axes[m->rank++] = axis;
    return;
  }
  axis.extent *= last->extent;
  *last = axis;
}

static int64_t input_number(const tn__te *te, const tn__buffer *buffer) {
  for (int i = 0; i < tn__te_input_count(te); i++)
    if (tn__te_input_at(te, i) == buffer) return i;
  return -1;
}

/* The operand that has fewer elements is the scale. */
static bool read_operands(reading *r) {
  int64_t strides[2][TN__MAX_RANK] = {0}, offsets[2] = {0}, sizes[2] = {0}, to[TN__MAX_RANK] = {0},
          ignored[TN__MAX_RANK];
  tn__move *m = r->move;
  for (int i = 0; i < r->operand_count; i++)
    if (!strides_of(r, &r->operands[i], strides[i], &offsets[i]) ||
        !row_major(r->operands[i].buffer, ignored, &sizes[i]))
      return false;
  int from = sizes[1] > sizes[0], scale = 1 - from;
  int64_t elements;
  if (!row_major(tn__te_output_at(r->te, 0), to, &elements)) return false;
  if (m->padded) m->padded = elements;
  m->from = input_number(r->te, r->operands[from].buffer), m->from_offset = offsets[from];
  m->scale = -1;
  if (r->operand_count == 2)
    m->scale = input_number(r->te, r->operands[scale].buffer), m->scale_offset = offsets[scale];
  for (int i = 0; i < r->axes->count; i++)
    add_axis(m, (tn__move_axis){r->extents[i], to[i], strides[from][i], strides[scale][i]});
  return true;
}

const int64_t *tn__move_scalars(const tn__te *te, int *count) {
  tn__ir *ir = tn__te_ir(te);
  if (tn__te_output_count(te) != 1 || tn__te_dim_count(te) != 0) return NULL;
  const tn__buffer *output = tn__te_output_at(te, 0);
  const tn__te_stage *stage = tn__te_stage_of(te, output);
  if (stage->kind != TN__TE_COMPUTE || stage->tensor_count != 1) return NULL;
  tn__move *m = TN__NEW(tn__ir_arena(ir), tn__move);
  reading r = {.te = te, .ir = ir, .axes = &stage->axes, .move = m};
  m->element = (int64_t)tn__dtype_stored(output->dtype);
  m->inputs = tn__te_input_count(te);
  if (m->element != 1 && m->element != 2 && m->element != 4 && m->element != 8) return NULL;
  for (int i = 0; i < stage->axes.count; i++)
    if (!tn__ir_as_int(output->shape[i], &r.extents[i])) return NULL;
  if (!read_value(&r, resolved(&r, stage->values[0])) || !read_operands(&r)) return NULL;
  *count = (int)((offsetof(tn__move, axes) + sizeof(m->axes[0]) * (size_t)m->rank) / sizeof(int64_t));
  return (const int64_t *)m;
}
