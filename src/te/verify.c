#include <stdio.h>
#include <string.h>

#include "te/internal.h"

typedef struct checker {
  const tn__te *te;
  const tn__te_stage *stage;
  int stage_index;
  bool first_values; /* of a scan are being checked */
  const char *error; /* the first one */
} checker;

static void report(checker *c, const char *text) {
  if (c->error == NULL) c->error = text;
}

static bool is_defined(const checker *c, const tn__buffer *buffer) {
  for (int i = 0; i < c->te->inputs.count; i++)
    if (c->te->inputs.data[i] == buffer) return true;
  const tn__te_stage *scan = tn__te_scan_of(c->te, c->stage);
  for (int s = 0; s < c->te->stages.count; s++)
    for (int t = 0; t < c->te->stages.data[s]->tensor_count; t++)
      if (c->te->stages.data[s]->tensors[t] == buffer) return s < c->stage_index || c->te->stages.data[s] == scan;
  return false;
}

static bool among(const tn__var *var, const tn__var *const *list, int count) {
  for (int i = 0; i < count; i++)
    if (list[i] == var) return true;
  return false;
}

/* A stage without elements reads nothing, so no index of it can be wrong. The values of a scan, and of what is in its
 * steps, are only for positions behind the first ones. */
static bool is_empty(const checker *c) {
  if (tn__te_is_empty(c->te->ir, c->stage)) return true;
  const tn__te_stage *scan = c->first_values ? NULL : tn__te_scan_of(c->te, c->stage);
  return scan != NULL && tn__interval_of(c->te->ir, tn__te_scan_axis(c->stage)->extent).max <= scan->scan_depth;
}

static void check_node(const tn__expr *e, void *user) {
  checker *c = user;
  tn__arena *arena = c->te->arena;
  if (e->kind == TN__EXPR_VAR) {
    const tn__var *var = e->value.var;
    if (among(var, c->stage->axes.var, c->stage->axes.count) || among(var, c->te->dims.data, c->te->dims.count) ||
        among(var, c->stage->reduce_axes.var, c->stage->reduce_axes.count))
      return;
    report(c, tn__arena_printf(arena, "reads %s, which is neither an axis of the stage nor a dimension", var->name));
  }
  if (e->kind != TN__EXPR_LOAD) return;
  const tn__buffer *buffer = e->value.buffer;
  if (!is_defined(c, buffer)) report(c, tn__arena_printf(arena, "reads %s before any stage defines it", buffer->name));
  for (int d = 0; d < e->arg_count && !is_empty(c); d++) {
    if (tn__expr_has_load(e->args[d])) continue;
    tn__interval index = tn__interval_of(c->te->ir, e->args[d]);
    tn__interval size = tn__interval_of(c->te->ir, buffer->shape[d]);
    /* Only what can never be inside is certainly wrong: a select may guard the rest. */
    if (index.max < 0 || (size.max != INT64_MAX && index.min != INT64_MIN && index.min >= size.max && size.max > 0))
      report(c, tn__arena_printf(arena, "index %d of %s lies outside of the tensor everywhere", d, buffer->name));
  }
}

static void check_value(checker *c, const tn__expr *value, tn_dtype dtype, const char *what) {
  if (value == NULL) {
    report(c, tn__arena_printf(c->te->arena, "has no %s", what));
    return;
  }
  if (value->dtype != dtype)
    report(c, tn__arena_printf(c->te->arena, "its %s is of type %s, the tensor of %s", what,
                               tn_dtype_name(value->dtype), tn_dtype_name(dtype)));
  tn__te_visit(c->te->ir, value, check_node, c);
}

typedef struct written {
  const tn__te_stage *stage;
  bool found[4];
} written;

static bool note_written(const tn__stmt *s, void *user) {
  written *w = user;
  const tn__buffer *buffer = s->kind == TN__STMT_STORE    ? s->as.store.buffer
                             : s->kind == TN__STMT_TENSOR ? s->as.tensor.operands[0].buffer
                                                          : NULL;
  for (int t = 0; t < w->stage->tensor_count; t++) w->found[t] |= w->stage->tensors[t] == buffer;
  return true;
}

int tn__te_unwritten(const tn__te_stage *stage) {
  written w = {.stage = stage};
  tn__stmt_walk(stage->body, note_written, &w);
  for (int t = 0; t < stage->tensor_count; t++) {
    bool empty = false;
    for (int i = 0; i < stage->tensors[t]->rank; i++) empty |= tn__ir_is_int_value(stage->tensors[t]->shape[i], 0);
    if (!w.found[t] && !empty) return t;
  }
  return -1;
}

/* Terms are there once, however many elements an axis has whose positions are computed. */
static void check_accumulation(checker *c) {
  const tn__te_stage *stage = c->stage;
  for (int t = 0; t < stage->tensor_count; t++)
    for (int i = 0; i < stage->reduce_axes.count && stage->first[t] != NULL; i++)
      if (tn__expr_uses_var(stage->first[t], stage->reduce_axes.var[i]))
        report(c, "what its elements start from depends on an axis of the reduction");
  for (int d = 0; d < stage->axes.count; d++) {
    const tn__var *axis = stage->axes.var[d];
    check_value(c, stage->into[d], TN_I64, "index");
    if (tn__te_keeps_axis(stage, d)) continue;
    bool used = false;
    for (int t = 0; t < stage->tensor_count; t++) used |= tn__expr_uses_var(stage->values[t], axis);
    for (int i = 0; i < stage->axes.count; i++) used |= tn__expr_uses_var(stage->into[i], axis);
    for (int i = 0; i < stage->reduce_axes.count; i++)
      used |= tn__expr_uses_var(stage->reduce_axes.var[i]->extent, axis);
    if (used)
      report(c, tn__arena_printf(c->te->arena, "its terms depend on %s, whose positions they compute", axis->name));
  }
}

static void check_stage(checker *c) {
  const tn__te_stage *stage = c->stage;
  if (stage->kind == TN__TE_EXTERN) {
    int unwritten = stage->body != NULL ? tn__te_unwritten(stage) : -1;
    if (stage->body == NULL) report(c, "has no body");
    if (unwritten >= 0)
      report(c, tn__arena_printf(c->te->arena, "no statement writes %s", stage->tensors[unwritten]->name));
    return;
  }
  for (int t = 0; t < stage->tensor_count; t++) {
    check_value(c, stage->values[t], stage->tensors[t]->dtype, "value");
    c->first_values = stage->kind == TN__TE_SCAN;
    if (stage->kind == TN__TE_ACCUMULATE || (stage->kind == TN__TE_SCAN && stage->scan_depth > 0))
      check_value(c, stage->first[t], stage->tensors[t]->dtype, "first value");
    c->first_values = false;
    if (stage->combiner != NULL && stage->combiner->identity[t]->dtype != stage->tensors[t]->dtype)
      report(c, "the combiner's identity is not of the tensor's type");
  }
  if (stage->kind == TN__TE_ACCUMULATE) check_accumulation(c);
  for (int i = 0; i < stage->reduce_axes.count; i++)
    tn__te_visit(c->te->ir, stage->reduce_axes.var[i]->extent, check_node, c);
  if (stage->kind == TN__TE_SCAN && (stage->scan_axis < 0 || stage->scan_axis >= stage->axes.count))
    report(c, "scans along an axis that it does not have");
}

tn_status *tn__te_verify(const tn__te *te) {
  int stage;
  return tn__te_verify_stages(te, &stage);
}

tn_status *tn__te_verify_stages(const tn__te *te, int *stage) {
  checker c = {.te = te};
  *stage = -1;
  for (int s = 0; s < te->stages.count; s++) {
    c.stage = te->stages.data[s];
    c.stage_index = s;
    check_stage(&c);
    if (c.error == NULL) continue;
    *stage = s;
    return tn_status_create(TN_INVALID_ARGUMENT, "te %s: stage %s: %s", te->name, c.stage->name, c.error);
  }
  for (int i = 0; i < te->scan_tensors.count; i++)
    if (tn__te_stage_of(te, te->scan_tensors.data[i]) == NULL)
      return tn_status_create(TN_INVALID_ARGUMENT, "te %s: the scan tensor %s is declared but never defined", te->name,
                              te->scan_tensors.data[i]->name);
  if (te->outputs.count == 0) return tn_status_create(TN_INVALID_ARGUMENT, "te %s: has no output", te->name);
  return NULL;
}
