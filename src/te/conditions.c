/* What the dimensions of a call must satisfy, for those who call a kernel with dimensions of their own. */
#include "te/internal.h"

typedef struct collector {
  const tn__te *te;
  tn__ir *ir;
  TN__VEC(const tn__expr *) list;
  TN__VEC(tn__te_about) about; /* parallel to the conditions */
  const tn__te_stage *stage;
  TN__VEC(const tn__var *) axes;
  const tn__te_stage *scan;
  tn__te_positions positions; /* within a scan */
  TN__VEC(const tn__expr *) visited;
} collector;

static bool over_dims_only(const collector *c, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR) {
    for (int i = 0; i < c->te->dims.count; i++)
      if (c->te->dims.data[i] == e->value.var) return true;
    return false;
  }
  if (e->kind == TN__EXPR_LOAD) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!over_dims_only(c, e->args[i])) return false;
  return true;
}

static void add_about(collector *c, const tn__expr *condition, tn__te_about about) {
  if (tn__ir_prove(c->ir, condition) || !over_dims_only(c, condition)) return;
  for (int i = 0; i < c->list.count; i++)
    if (c->list.data[i] == condition) return;
  tn__vec_push(c->te->arena, &c->list, condition);
  tn__vec_push(c->te->arena, &c->about, about);
}

static void add(collector *c, const tn__expr *condition) { add_about(c, condition, (tn__te_about){0}); }

/* ---- what may wrap around ---------------------------------------------------------------------------------------- */

/* An upper bound of |e|, none of whose parts wraps around when the conditions that are added hold. Dimensions are at
 * least 0. */
static const tn__expr *bulk(collector *c, const tn__expr *e) {
  tn__ir *ir = c->ir;
  const tn__expr *limit = tn__ir_index(ir, TN__TE_MOST);
  if (e->kind == TN__EXPR_INT) return tn__ir_index(ir, e->value.i < 0 ? -e->value.i : e->value.i);
  if (e->arg_count != 2) return e;
  const tn__expr *a = bulk(c, e->args[0]), *b = bulk(c, e->args[1]), *result;
  switch (e->kind) {
    case TN__EXPR_ADD:
    case TN__EXPR_SUB: result = tn__ir_add(ir, a, b); break;
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return tn__ir_max(ir, a, b);
    case TN__EXPR_DIV: return a;
    case TN__EXPR_MOD: return b;
    case TN__EXPR_MUL:
      add(c, tn__ir_le(ir, a, tn__ir_div(ir, limit, tn__ir_max(ir, b, tn__ir_index(ir, 1)))));
      result = tn__ir_mul(ir, a, b);
      break;
    default: return e;
  }
  add(c, tn__ir_le(ir, result, limit));
  return result;
}

/* Whether an index is inside says nothing when it has wrapped around. */
static void add_range(collector *c, const tn__expr *e) {
  if (over_dims_only(c, e) && tn__te_largest(e) > (double)TN__TE_MOST) (void)bulk(c, e);
}

/* A dimension that is allowed to be 0 may be; what is computed from dimensions is at least 1. */
static void add_extent(collector *c, const tn__expr *e, tn__te_about about) {
  if (e->kind == TN__EXPR_VAR || tn__ir_is_int(e)) return;
  add_range(c, e);
  add_about(c, tn__ir_le(c->ir, tn__ir_index(c->ir, 1), e), about);
}

/* The size in floats, where nothing wraps around: an i64 might look small when it is not. */
static const tn__expr *size_of(tn__ir *ir, const tn__expr *e) {
  if (e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB && e->kind != TN__EXPR_MUL && e->kind != TN__EXPR_DIV)
    return tn__ir_cast(ir, TN_F64, e);
  const tn__expr *a = size_of(ir, e->args[0]), *b = size_of(ir, e->args[1]);
  if (e->kind == TN__EXPR_ADD) return tn__ir_add(ir, a, b);
  if (e->kind == TN__EXPR_SUB) return tn__ir_sub(ir, a, b);
  return e->kind == TN__EXPR_MUL ? tn__ir_mul(ir, a, b) : tn__ir_div(ir, a, b);
}

static void add_buffer(collector *c, const tn__buffer *buffer) {
  tn__ir *ir = c->ir;
  const tn__expr *bytes = tn__ir_constant(ir, TN_F64, (double)tn_dtype_size(buffer->dtype));
  bool open = false;
  for (int d = 0; d < buffer->rank; d++) {
    open |= !tn__ir_is_int(buffer->shape[d]);
    add_extent(c, buffer->shape[d], (tn__te_about){buffer, d, NULL});
    bytes = tn__ir_mul(ir, bytes, size_of(ir, buffer->shape[d]));
  }
  if (open) add(c, tn__ir_le(ir, bytes, tn__ir_float(ir, TN_F64, TN__TE_MOST_BYTES)));
}

static void add_load(collector *c, const tn__expr *load) {
  const tn__buffer *buffer = load->value.buffer;
  bool own = false;
  for (int t = 0; c->scan != NULL && t < c->scan->tensor_count; t++) own |= c->scan->tensors[t] == buffer;
  for (int d = 0; d < buffer->rank; d++) {
    const tn__expr *index = load->args[d], *low, *high;
    if (tn__expr_has_load(index)) continue;
    index = tn__te_at(c->ir, index, &c->positions);
    if (!tn__ir_bounds_over(c->ir, index, c->axes.data, c->axes.count, &low, &high)) continue;
    add_range(c, low);
    add_range(c, high);
    bool before = own && d == c->scan->scan_axis; /* what is earlier is not above; what is later, not below */
    const tn__te_about first = {buffer, d, low}, last = {buffer, d, high};
    if (!before || !c->scan->backwards) add_about(c, tn__ir_le(c->ir, tn__ir_index(c->ir, 0), low), first);
    if (!before || c->scan->backwards) add_about(c, tn__ir_lt(c->ir, high, buffer->shape[d]), last);
  }
}

/* What is evaluated under a condition is that condition's business. */
static void add_loads(collector *c, const tn__expr *e) {
  if (!tn__expr_has_load(e)) return;
  for (int i = 0; i < c->visited.count; i++)
    if (c->visited.data[i] == e) return;
  tn__vec_push(c->te->arena, &c->visited, e);
  if (e->kind == TN__EXPR_LOAD) add_load(c, e);
  bool lazy =
      e->kind == TN__EXPR_SELECT || (e->dtype == TN_BOOL && (e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR));
  for (int i = 0; i < (lazy ? 1 : e->arg_count); i++) add_loads(c, e->args[i]);
}

static void add_axes(collector *c, const tn__te_axes *axes) {
  for (int i = 0; i < axes->count; i++) {
    add_extent(c, axes->var[i]->extent, (tn__te_about){0});
    tn__vec_push(c->te->arena, &c->axes, axes->var[i]);
  }
}

static void add_values(collector *c, const tn__expr *const *values) {
  c->visited.count = 0;
  for (int t = 0; t < c->stage->tensor_count; t++)
    if (values[t] != NULL) add_loads(c, values[t]);
}

/* From here on positions of the scan's axis are those that have first values, or the others. */
static void enter_positions(collector *c, bool first) {
  const tn__te_axes *axes = &c->stage->reduce_axes;
  const tn__var *var = tn__te_positions_enter(c->ir, tn__te_scan_axis(c->stage), c->scan, first, &c->positions);
  tn__vec_push(c->te->arena, &c->axes, var);
  for (int i = 0; i < axes->count; i++) {
    var = tn__te_positions_add(c->ir, axes->var[i], &c->positions);
    if (var != NULL) tn__vec_push(c->te->arena, &c->axes, var);
  }
}

static void add_stage(collector *c, const tn__te_stage *stage) {
  c->stage = stage;
  c->axes.count = 0;
  c->positions.count = 0;
  c->scan = tn__te_scan_of(c->te, stage);
  for (int t = 0; t < stage->tensor_count; t++) add_buffer(c, stage->tensors[t]);
  if (stage->kind == TN__TE_EXTERN) return;
  add_axes(c, &stage->axes);
  add_axes(c, &stage->reduce_axes);
  if (stage->kind == TN__TE_SCAN) {
    int axes = c->axes.count;
    enter_positions(c, true);
    add_values(c, stage->first);
    c->axes.count = axes;
  }
  if (c->scan != NULL) {
    /* Later positions exist only where the axis is longer than the first ones. */
    if (tn__interval_of(c->ir, tn__te_scan_axis(stage)->extent).max <= c->scan->scan_depth) return;
    enter_positions(c, false);
  }
  add_values(c, stage->values);
  if (stage->kind == TN__TE_ACCUMULATE) add_values(c, stage->first);
  for (int d = 0; stage->kind == TN__TE_ACCUMULATE && d < stage->axes.count; d++) add_loads(c, stage->into[d]);
  for (int i = 0; i < stage->reduce_axes.count; i++) add_loads(c, stage->reduce_axes.var[i]->extent);
}

bool tn__te_is_size_condition(const tn__expr *condition) {
  return condition->arg_count > 0 && condition->args[0]->dtype == TN_F64;
}

static void add_strides(collector *c, const tn__buffer *buffer, bool written) {
  const tn__expr *conditions[3 * TN__MAX_RANK];
  int count = tn__te_stride_conditions(c->ir, buffer, written, conditions);
  for (int d = 0; count > 0 && d < buffer->rank; d++) add_range(c, buffer->strides[d]);
  for (int i = 0; i < count; i++) add(c, conditions[i]);
}

int tn__te_conditions_about(const tn__te *te, const tn__expr *const **out, const tn__te_about **about) {
  collector c = {.te = te, .ir = te->ir};
  for (int i = 0; i < te->inputs.count; i++) add_strides(&c, te->inputs.data[i], false);
  for (int i = 0; i < te->outputs.count; i++) add_strides(&c, te->outputs.data[i], true);
  for (int i = 0; i < te->inputs.count; i++) add_buffer(&c, te->inputs.data[i]);
  for (int i = 0; i < te->stages.count; i++) add_stage(&c, te->stages.data[i]);
  *out = c.list.data;
  *about = c.about.data;
  return c.list.count;
}

int tn__te_conditions(const tn__te *te, const tn__expr *const **out) {
  const tn__te_about *ignored;
  return tn__te_conditions_about(te, out, &ignored);
}
