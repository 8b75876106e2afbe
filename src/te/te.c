#include "te/te.h"

#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "ir/text.h"
#include "te/internal.h"

static _Noreturn void fail(const tn__te *te, const char *stage, const char *what) {
  tn__throwf(te->arena->escape, TN_INVALID_ARGUMENT, "te %s: stage %s: %s", te->name, stage, what);
}

tn__te *tn__te_create(tn__ir *ir, const char *name) {
  tn__arena *arena = tn__ir_arena(ir);
  tn__te *te = TN__NEW(arena, tn__te);
  te->ir = ir;
  te->arena = arena;
  te->name = tn__arena_strdup(arena, name);
  tn__map_init(&te->names, arena);
  return te;
}

tn__ir *tn__te_ir(const tn__te *te) { return te->ir; }
const char *tn__te_name(const tn__te *te) { return te->name; }

/* Text forms and schedules speak of tensors by name, so a name that is taken gets a number, and a word of the language
 * what the text gives it. */
static const char *unique_name(tn__te *te, const char *name) {
  if (tn__ir_text_is_reserved(name, strlen(name))) name = tn__arena_printf(te->arena, "%s_", name);
  const char *result = tn__arena_strdup(te->arena, name);
  int *next = tn__map_get(&te->names, result); /* the least number that may be free */
  while (tn__map_has(&te->names, result)) result = tn__arena_printf(te->arena, "%s_%d", name, (*next)++);
  next = TN__NEW(te->arena, int);
  *next = 1;
  tn__map_set(&te->names, result, next);
  return result;
}

bool tn__te_has_name(const tn__te *te, const char *name) { return tn__map_has(&te->names, name); }

const tn__var *tn__te_dim(tn__te *te, const char *name, int64_t min) {
  const tn__var *var = tn__var_create(te->ir, unique_name(te, name), TN_I64, tn__ir_index(te->ir, min), NULL);
  tn__vec_push(te->arena, &te->dims, var);
  return var;
}

const tn__buffer *tn__te_strided_input(tn__te *te, const char *name, tn_dtype dtype, int rank,
                                       const tn__expr *const *shape, const tn__expr *const *strides) {
  tn__buffer *buffer = tn__buffer_create(te->ir, unique_name(te, name), dtype, TN__SCOPE_PARAM, rank, shape);
  tn__buffer_set_strides(te->ir, buffer, strides);
  tn__vec_push(te->arena, &te->inputs, buffer);
  return buffer;
}

const tn__buffer *tn__te_input(tn__te *te, const char *name, tn_dtype dtype, int rank, const tn__expr *const *shape) {
  return tn__te_strided_input(te, name, dtype, rank, shape, NULL);
}

tn__te_axes tn__te_axes_create(tn__te *te, const char *prefix, int rank, const tn__expr *const *extents) {
  tn__te_axes axes = {0};
  if (rank > TN__MAX_RANK) fail(te, prefix, "more axes than a declaration may have");
  axes.count = rank;
  for (int i = 0; i < rank; i++) {
    char name[64];
    snprintf(name, sizeof(name), "%.40s%d", prefix, i);
    axes.var[i] = tn__var_create(te->ir, name, TN_I64, tn__ir_index(te->ir, 0), extents[i]);
    axes.index[i] = axes.var[i]->self;
  }
  return axes;
}

static tn__te_stage *add_stage(tn__te *te, tn__te_stage_kind kind, const char *name, const tn__te_axes *axes) {
  tn__te_stage *stage = TN__NEW(te->arena, tn__te_stage);
  stage->kind = kind;
  stage->name = name;
  if (axes != NULL) stage->axes = *axes;
  tn__vec_push(te->arena, &te->stages, stage);
  return stage;
}

static const tn__buffer *register_tensor(tn__te *te, tn__buffer *buffer) {
  tn__vec_push(te->arena, &te->tensors, buffer);
  return buffer;
}

static const tn__buffer *new_tensor(tn__te *te, const char *name, tn_dtype dtype, const tn__te_axes *axes) {
  const tn__expr *shape[TN__MAX_RANK];
  for (int i = 0; i < axes->count; i++) shape[i] = axes->var[i]->extent;
  return register_tensor(te, tn__buffer_create(te->ir, name, dtype, TN__SCOPE_WORKSPACE, axes->count, shape));
}

static void add_tensor(tn__te_stage *stage, const tn__buffer *buffer) {
  stage->tensors[stage->tensor_count++] = buffer;
}

const tn__buffer *tn__te_compute(tn__te *te, const char *name, const tn__te_axes *axes, const tn__expr *value) {
  tn__te_stage *stage = add_stage(te, TN__TE_COMPUTE, unique_name(te, name), axes);
  add_tensor(stage, new_tensor(te, stage->name, value->dtype, axes));
  stage->values[0] = value;
  return stage->tensors[0];
}

static const tn__expr *identity_of(tn__ir *ir, tn__te_reducer reducer, tn_dtype dtype) {
  switch (reducer) {
    case TN__TE_SUM: return tn__ir_constant(ir, dtype, 0);
    case TN__TE_PROD: return tn__ir_constant(ir, dtype, 1);
    case TN__TE_MAX: return tn__ir_lowest(ir, dtype);
    case TN__TE_MIN: return tn__ir_highest(ir, dtype);
    case TN__TE_ANY: return tn__ir_constant(ir, dtype, 0);
    case TN__TE_ALL: break;
  }
  return dtype == TN_BOOL ? tn__ir_bool(ir, true) : tn__ir_int(ir, dtype, -1);
}

const tn__te_combiner *tn__te_combiner_of(tn__te *te, tn__te_reducer reducer, tn_dtype dtype) {
  static const tn__expr_kind kinds[] = {
      [TN__TE_SUM] = TN__EXPR_ADD, [TN__TE_PROD] = TN__EXPR_MUL, [TN__TE_MAX] = TN__EXPR_MAX,
      [TN__TE_MIN] = TN__EXPR_MIN, [TN__TE_ANY] = TN__EXPR_OR,   [TN__TE_ALL] = TN__EXPR_AND};
  tn__te_combiner *combiner = TN__NEW(te->arena, tn__te_combiner);
  combiner->count = 1;
  combiner->lhs[0] = tn__var_create(te->ir, "lhs", dtype, NULL, NULL);
  combiner->rhs[0] = tn__var_create(te->ir, "rhs", dtype, NULL, NULL);
  combiner->result[0] = tn__ir_binary(te->ir, kinds[reducer], combiner->lhs[0]->self, combiner->rhs[0]->self);
  combiner->identity[0] = identity_of(te->ir, reducer, dtype);
  combiner->reorderable = true;
  return combiner;
}

void tn__te_add_combiner(tn__ir *ir, tn__te_combiner *out, const tn__te_combiner *c) {
  const tn__var *from[8];
  const tn__expr *to[8];
  for (int i = 0; i < c->count; i++) {
    int at = out->count + i;
    out->lhs[at] = tn__var_create(ir, tn__arena_printf(tn__ir_arena(ir), "lhs%d", at), c->lhs[i]->dtype, NULL, NULL);
    out->rhs[at] = tn__var_create(ir, tn__arena_printf(tn__ir_arena(ir), "rhs%d", at), c->rhs[i]->dtype, NULL, NULL);
    from[2 * i] = c->lhs[i];
    to[2 * i] = out->lhs[at]->self;
    from[2 * i + 1] = c->rhs[i];
    to[2 * i + 1] = out->rhs[at]->self;
    out->identity[at] = c->identity[i];
  }
  for (int i = 0; i < c->count; i++)
    out->result[out->count + i] = tn__ir_substitute(ir, c->result[i], from, to, 2 * c->count);
  out->count += c->count;
}

/* A reduce axis that shares its name with another axis of the stage could not be told apart in text. */
static void distinguish_axes(tn__te *te, tn__te_stage *stage) {
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *to[TN__MAX_RANK];
  int count = 0;
  for (int r = 0; r < stage->reduce_axes.count; r++) {
    const tn__var *var = stage->reduce_axes.var[r];
    const tn__expr *extent = tn__ir_substitute(te->ir, var->extent, from, to, count);
    bool taken = false;
    for (int i = 0; i < stage->axes.count; i++) taken |= strcmp(stage->axes.var[i]->name, var->name) == 0;
    if (!taken && extent == var->extent) continue;
    from[count] = var;
    const char *name = taken ? tn__arena_printf(te->arena, "r_%s", var->name) : var->name;
    var = tn__var_create(te->ir, name, TN_I64, var->min, extent);
    to[count++] = var->self;
    stage->reduce_axes.var[r] = var;
    stage->reduce_axes.index[r] = var->self;
  }
  if (count == 0) return;
  for (int t = 0; t < stage->tensor_count; t++)
    stage->values[t] = tn__ir_substitute(te->ir, stage->values[t], from, to, count);
  for (int d = 0; stage->kind == TN__TE_ACCUMULATE && d < stage->axes.count; d++)
    stage->into[d] = tn__ir_substitute(te->ir, stage->into[d], from, to, count);
}

void tn__te_reduce_with(tn__te *te, const char *name, const tn__te_axes *axes, const tn__te_axes *reduce,
                        const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__buffer **out) {
  const char *names[4] = {name};
  for (int i = 1; i < combiner->count; i++) names[i] = tn__arena_printf(te->arena, "%s_v%d", name, i);
  tn__te_reduce_as(te, names, axes, reduce, combiner, terms, out);
}

void tn__te_define(tn__te *te, const tn__te_axes *axes, const tn__buffer *step_of, const tn__buffer *tensor,
                   const tn__expr *value) {
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *extents[TN__MAX_RANK], *to[TN__MAX_RANK];
  for (int i = 0; i < axes->count; i++) extents[i] = axes->var[i]->extent;
  tn__te_axes own = tn__te_axes_create(te, "i", axes->count, extents);
  if (step_of != NULL) own.var[0] = axes->var[0], own.index[0] = axes->index[0];
  for (int i = 0; i < axes->count; i++) from[i] = axes->var[i], to[i] = own.index[i];
  tn__te_compute(te, tensor->name, &own, tn__ir_substitute(te->ir, value, from, to, axes->count));
  tn__te_stage *stage = te->stages.data[te->stages.count - 1];
  te->tensors.count--; /* the one that it made */
  stage->tensors[0] = tensor;
  stage->name = tensor->name;
  stage->step_of = step_of;
}

static tn__te_stage *add_combining(tn__te *te, tn__te_stage_kind kind, const char *const *names,
                                   const tn__te_axes *axes, const tn__te_axes *reduce, const tn__te_combiner *combiner,
                                   const tn__expr *const *terms, const tn__buffer **out) {
  tn__te_stage *stage = add_stage(te, kind, unique_name(te, names[0]), axes);
  stage->reduce_axes.count = reduce->count;
  for (int i = 0; i < reduce->count; i++) {
    stage->reduce_axes.var[i] = reduce->var[i];
    stage->reduce_axes.index[i] = reduce->var[i]->self;
  }
  stage->combiner = combiner;
  for (int i = 0; i < combiner->count; i++) {
    const char *tensor = i == 0 ? stage->name : unique_name(te, names[i]);
    add_tensor(stage, new_tensor(te, tensor, combiner->result[i]->dtype, axes));
    stage->values[i] = terms[i];
    out[i] = stage->tensors[i];
  }
  return stage;
}

void tn__te_reduce_as(tn__te *te, const char *const *names, const tn__te_axes *axes, const tn__te_axes *reduce,
                      const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__buffer **out) {
  for (int i = 0; i < reduce->count; i++) {
    if (!tn__te_is_ragged(reduce->var[i])) continue;
    tn__te_accumulate_as(te, names, axes, reduce, combiner, terms, axes->index, NULL, out);
    return;
  }
  distinguish_axes(te, add_combining(te, TN__TE_REDUCE, names, axes, reduce, combiner, terms, out));
}

void tn__te_accumulate_as(tn__te *te, const char *const *names, const tn__te_axes *axes, const tn__te_axes *reduce,
                          const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__expr *const *into,
                          const tn__expr *const *first, const tn__buffer **out) {
  tn__te_stage *stage = add_combining(te, TN__TE_ACCUMULATE, names, axes, reduce, combiner, terms, out);
  for (int i = 0; i < combiner->count; i++) stage->first[i] = first == NULL ? combiner->identity[i] : first[i];
  for (int d = 0; d < axes->count; d++) stage->into[d] = into[d];
  distinguish_axes(te, stage);
}

static bool varies(const tn__expr *e) {
  if (e->kind == TN__EXPR_LOAD || (e->kind == TN__EXPR_VAR && e->value.var->extent != NULL)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (varies(e->args[i])) return true;
  return false;
}

/* Dimensions have no extent. */
bool tn__te_is_ragged(const tn__var *axis) { return varies(axis->extent); }

int64_t tn__te_row_of_place(const tn__te_stage *stage) {
  bool placed = false;
  int64_t row = 1, extent;
  if (stage->kind != TN__TE_ACCUMULATE) return INT64_MAX;
  for (int a = 0; a < stage->axes.count; a++) {
    bool kept = tn__te_keeps_axis(stage, a);
    placed |= !kept;
    if (!placed || !kept) continue;
    if (!tn__ir_as_int(stage->axes.var[a]->extent, &extent) || extent > INT32_MAX || row > INT32_MAX) return INT64_MAX;
    row *= extent;
  }
  return placed ? row : INT64_MAX;
}

bool tn__te_keeps_axis(const tn__te_stage *stage, int a) {
  return stage->kind != TN__TE_ACCUMULATE || stage->into[a] == stage->axes.index[a];
}

const tn__buffer *tn__te_reduce(tn__te *te, const char *name, const tn__te_axes *axes, const tn__te_axes *reduce,
                                tn__te_reducer reducer, const tn__expr *term) {
  const tn__buffer *out;
  tn__te_reduce_with(te, name, axes, reduce, tn__te_combiner_of(te, reducer, term->dtype), &term, &out);
  return out;
}

const tn__te_combiner *tn__te_arg_combiner(tn__te *te, tn_dtype value_dtype, tn_dtype index_dtype, bool greatest,
                                           bool last) {
  tn__ir *ir = te->ir;
  tn__te_combiner *c = TN__NEW(te->arena, tn__te_combiner);
  c->count = 2;
  for (int i = 0; i < 2; i++) {
    tn_dtype dtype = i == 0 ? value_dtype : index_dtype;
    c->lhs[i] = tn__var_create(ir, i == 0 ? "lhs" : "lhs_index", dtype, NULL, NULL);
    c->rhs[i] = tn__var_create(ir, i == 0 ? "rhs" : "rhs_index", dtype, NULL, NULL);
  }
  const tn__expr *l = c->lhs[0]->self, *r = c->rhs[0]->self, *li = c->lhs[1]->self, *ri = c->rhs[1]->self;
  /* An index of -1 means "nothing seen yet"; otherwise the better value wins, and among equals the first (or last)
   * index. The choice depends on both indices and not on which side came first, so that the combiner is commutative. */
  const tn__expr *none_l = tn__ir_eq(ir, li, tn__ir_int(ir, index_dtype, -1));
  const tn__expr *none_r = tn__ir_eq(ir, ri, tn__ir_int(ir, index_dtype, -1));
  const tn__expr *better = greatest ? tn__ir_lt(ir, r, l) : tn__ir_lt(ir, l, r);
  const tn__expr *same = tn__ir_eq(ir, l, r);
  if (tn__dtype_is_float(value_dtype)) {
    const tn__expr *nan_l = tn__ir_call1(ir, TN__CALL_IS_NAN, l), *nan_r = tn__ir_call1(ir, TN__CALL_IS_NAN, r);
    better = tn__ir_or(ir, better, tn__ir_and(ir, nan_l, tn__ir_not(ir, nan_r)));
    same = tn__ir_or(ir, same, tn__ir_and(ir, nan_l, nan_r));
  }
  const tn__expr *earlier = last ? tn__ir_lt(ir, ri, li) : tn__ir_lt(ir, li, ri);
  const tn__expr *keep = tn__ir_or(ir, better, tn__ir_and(ir, same, earlier));
  keep = tn__ir_or(ir, none_r, tn__ir_and(ir, tn__ir_not(ir, none_l), keep));
  c->result[0] = tn__ir_select(ir, keep, l, r);
  c->result[1] = tn__ir_select(ir, keep, li, ri);
  c->identity[0] = greatest ? tn__ir_lowest(ir, value_dtype) : tn__ir_highest(ir, value_dtype);
  c->identity[1] = tn__ir_int(ir, index_dtype, -1);
  c->reorderable = true;
  return c;
}

void tn__te_scan_declare(tn__te *te, const char *name, const tn__te_axes *axes, const tn_dtype *dtypes, int count,
                         const tn__buffer **out) {
  for (int i = 0; i < count; i++) {
    const char *tensor = unique_name(te, i == 0 ? name : tn__arena_printf(te->arena, "%s_v%d", name, i));
    out[i] = new_tensor(te, tensor, dtypes[i], axes);
    tn__vec_push(te->arena, &te->scan_tensors, out[i]);
  }
}

/* Stages of the scan's steps come right before it, behind others that its values have needed. */
static void put_steps_last(tn__te *te, tn__te_stage *scan) {
  tn__te_stage **sorted = TN__NEW_ARRAY(te->arena, te->stages.count, tn__te_stage *);
  int count = 0;
  for (int steps = 0; steps <= 1; steps++)
    for (int s = 0; s < te->stages.count; s++) {
      bool in_step = te->stages.data[s] == scan;
      for (int t = 0; t < scan->tensor_count; t++) in_step |= te->stages.data[s]->step_of == scan->tensors[t];
      if (in_step == (steps == 1)) sorted[count++] = te->stages.data[s];
    }
  tn__copy(te->stages.data, sorted, (size_t)count * sizeof(sorted[0]));
}

void tn__te_scan_define(tn__te *te, const tn__te_axes *axes, int scan_axis, int64_t depth, const tn__expr *const *first,
                        const tn__expr *const *update, const tn__buffer *const *tensors, int count) {
  tn__te_stage *stage = add_stage(te, TN__TE_SCAN, tensors[0]->name, axes);
  stage->scan_axis = scan_axis;
  stage->scan_depth = depth;
  for (int i = 0; i < count; i++) {
    bool declared = false;
    for (int j = 0; j < te->scan_tensors.count; j++) declared |= te->scan_tensors.data[j] == tensors[i];
    if (!declared) fail(te, stage->name, "a scan defines a tensor that tn__te_scan_declare did not make");
    add_tensor(stage, tensors[i]);
    stage->values[i] = update[i];
    stage->first[i] = depth > 0 ? first[i] : NULL;
  }
  put_steps_last(te, stage);
}

void tn__te_put_in_step(tn__te *te, const tn__buffer *tensor, const tn__buffer *scan) {
  for (int s = 0; s < te->stages.count; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++)
      if (te->stages.data[s]->tensors[t] == tensor) te->stages.data[s]->step_of = scan;
}

const tn__te_stage *tn__te_scan_of(const tn__te *te, const tn__te_stage *stage) {
  if (stage->kind == TN__TE_SCAN) return stage;
  return stage->step_of != NULL ? tn__te_stage_of(te, stage->step_of) : NULL;
}

const tn__var *tn__te_scan_axis(const tn__te_stage *stage) {
  return stage->axes.var[stage->kind == TN__TE_SCAN ? stage->scan_axis : 0];
}

bool tn__te_has_steps(const tn__te *te) {
  for (int s = 0; s < te->stages.count; s++)
    if (te->stages.data[s]->step_of != NULL) return true;
  return false;
}

void tn__te_scan_turn(tn__te *te, const tn__buffer *tensor) {
  for (int s = 0; s < te->stages.count; s++)
    for (int t = 0; t < te->stages.data[s]->tensor_count; t++)
      if (te->stages.data[s]->tensors[t] == tensor) te->stages.data[s]->backwards = true;
}

void tn__te_scan_positions(tn__ir *ir, const tn__expr *extent, int64_t depth, bool backwards, bool first,
                           const tn__expr **start, const tn__expr **count) {
  const tn__expr *number = tn__ir_index(ir, depth);
  *count = first ? tn__ir_min(ir, number, extent) : tn__ir_sub(ir, extent, number);
  if (backwards)
    *start = first ? tn__ir_sub(ir, extent, *count) : tn__ir_index(ir, 0);
  else
    *start = tn__ir_index(ir, first ? 0 : depth);
}

const tn__var *tn__te_positions_enter(tn__ir *ir, const tn__var *axis, const tn__te_stage *scan, bool first,
                                      tn__te_positions *out) {
  const tn__expr *start, *count;
  tn__te_scan_positions(ir, axis->extent, scan->scan_depth, scan->backwards, first, &start, &count);
  const tn__var *var = tn__var_create(ir, axis->name, TN_I64, tn__ir_index(ir, 0), count);
  out->from[0] = axis;
  out->to[0] = tn__ir_add(ir, var->self, start);
  out->count = 1;
  return var;
}

const tn__var *tn__te_positions_add(tn__ir *ir, const tn__var *axis, tn__te_positions *positions) {
  const tn__expr *extent = tn__te_at(ir, axis->extent, positions);
  if (extent == axis->extent) return NULL;
  const tn__var *var = tn__var_create(ir, axis->name, TN_I64, axis->min, extent);
  positions->from[positions->count] = axis;
  positions->to[positions->count++] = var->self;
  return var;
}

const tn__expr *tn__te_at(tn__ir *ir, const tn__expr *e, const tn__te_positions *positions) {
  return tn__ir_substitute(ir, e, positions->from, positions->to, positions->count);
}

const tn__buffer *tn__te_extern_tensor(tn__te *te, const char *name, tn_dtype dtype, int rank,
                                       const tn__expr *const *shape) {
  return register_tensor(te, tn__buffer_create(te->ir, unique_name(te, name), dtype, TN__SCOPE_WORKSPACE, rank, shape));
}

void tn__te_extern(tn__te *te, const char *name, const tn__buffer *const *reads, int read_count,
                   const tn__buffer *const *writes, int write_count, const tn__stmt *body) {
  if (write_count < 1 || write_count > 4) fail(te, name, "an imperative stage writes 1 to 4 tensors");
  /* The stage may carry the name of one of its tensors. */
  bool own = false;
  for (int i = 0; i < write_count; i++) own |= strcmp(writes[i]->name, name) == 0;
  tn__te_stage *stage =
      add_stage(te, TN__TE_EXTERN, own ? tn__arena_strdup(te->arena, name) : unique_name(te, name), NULL);
  for (int i = 0; i < write_count; i++) add_tensor(stage, writes[i]);
  stage->body = body;
  stage->extern_read_count = read_count;
  stage->extern_reads = tn__arena_copy(te->arena, reads, (size_t)read_count * sizeof(reads[0]));
}

void tn__te_output(tn__te *te, const tn__buffer *tensor) {
  const tn__te_stage *stage = tn__te_stage_of(te, tensor);
  if (stage == NULL) fail(te, tensor->name, "only a tensor that a stage defines can be an output");
  for (int i = 0; i < te->outputs.count; i++)
    if (te->outputs.data[i] == tensor) fail(te, stage->name, "the tensor is an output already");
  tn__vec_push(te->arena, &te->outputs, tensor);
  tn__vec_push(te->arena, &te->over, -1);
  for (int i = 0; i < te->tensors.count; i++)
    if (te->tensors.data[i] == tensor) te->tensors.data[i]->scope = TN__SCOPE_PARAM;
}

int tn__te_input_count(const tn__te *te) { return te->inputs.count; }
const tn__buffer *tn__te_input_at(const tn__te *te, int index) { return te->inputs.data[index]; }
int tn__te_output_count(const tn__te *te) { return te->outputs.count; }
const tn__buffer *tn__te_output_at(const tn__te *te, int index) { return te->outputs.data[index]; }

bool tn__te_is_output(const tn__te *te, const tn__buffer *tensor) {
  for (int i = 0; i < te->outputs.count; i++)
    if (te->outputs.data[i] == tensor) return true;
  return false;
}

int tn__te_stage_count(const tn__te *te) { return te->stages.count; }
const tn__te_stage *tn__te_stage_at(const tn__te *te, int index) { return te->stages.data[index]; }
int tn__te_dim_count(const tn__te *te) { return te->dims.count; }
const tn__var *tn__te_dim_at(const tn__te *te, int index) { return te->dims.data[index]; }

const tn__te_stage *tn__te_stage_of(const tn__te *te, const tn__buffer *tensor) {
  for (int i = 0; i < te->stages.count; i++)
    for (int t = 0; t < te->stages.data[i]->tensor_count; t++)
      if (te->stages.data[i]->tensors[t] == tensor) return te->stages.data[i];
  return NULL;
}

void tn__te_move_before(tn__te *te, int at, int added) {
  for (int n = 0; n < added; n++) {
    tn__te_stage *stage = te->stages.data[te->stages.count - 1];
    for (int s = te->stages.count - 1; s > at; s--) te->stages.data[s] = te->stages.data[s - 1];
    te->stages.data[at] = stage;
  }
}
