#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/text.h"
#include "schedule/internal.h"

void tn__sched_refuse(const tn__schedule *s, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  tn__throwf(s->arena->escape, TN_INVALID_ARGUMENT, "schedule of %s: %s", tn__te_name(s->te), text);
}

tn__schedule *tn__sched_mutable(const tn__schedule *s) {
  union {
    const tn__schedule *in;
    tn__schedule *out;
  } cast = {.in = s};
  return cast.out;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Nodes that left the tree, or are in a part that did, have no way up to the root. */
static bool is_in_tree(tn__schedule *s, const tn__snode *node) {
  for (; node->parent != NULL; node = node->parent) s->visited++;
  return node == s->root;
}

tn__snode *tn__sched_find(const tn__schedule *s, const char *name, bool is_block) {
  tn__schedule *counting = tn__sched_mutable(s);
  for (const tn__sched_named *n = tn__map_get(&s->names, name); n != NULL; n = n->before) {
    counting->visited++;
    if (n->node->is_block == is_block && strcmp(n->node->name, name) == 0 && is_in_tree(counting, n->node))
      return n->node;
  }
  return NULL;
}

tn__snode *tn__sched_loop(const tn__schedule *s, const char *step, const char *name) {
  tn__snode *node = tn__sched_find(s, name, false);
  if (node == NULL) tn__sched_refuse(s, "%s: there is no loop \"%s\"", step, name);
  return node;
}

tn__snode *tn__sched_block(const tn__schedule *s, const char *step, const char *name) {
  tn__snode *node = tn__sched_find(s, name, true);
  if (node == NULL) tn__sched_refuse(s, "%s: there is no block \"%s\"", step, name);
  return node;
}

void tn__sched_check_not_frozen(const tn__schedule *s, const char *step, const tn__snode *node) {
  for (const tn__snode *n = node; n != NULL && n != s->root; n = n->parent)
    if (n->tensor != NULL)
      tn__sched_refuse(s, "%s of \"%s\": it is part of \"%s\", which became the instruction %s", step, node->name,
                       n->name, tn__ir_tensor_name(n->tensor->op));
    else if (n->transposes)
      tn__sched_refuse(s, "%s of \"%s\": it is part of \"%s\", which was transposed", step, node->name, n->name);
}

void tn__sched_check_free(const tn__schedule *s, const char *step, const tn__snode *loop, bool whole) {
  if (tn__ir_loop_is_bound(loop->kind))
    tn__sched_refuse(s, "%s of \"%s\": the loop is bound to %s", step, loop->name, tn__loop_kind_name(loop->kind));
  if (loop->kind != TN__LOOP_SERIAL)
    tn__sched_refuse(s, "%s of \"%s\": the loop is not serial any more", step, loop->name);
  tn__sched_check_not_frozen(s, step, loop);
  for (int i = 0; i < TN__PRAGMA_COUNT && whole; i++)
    if (loop->pragmas.value[i] != 0)
      tn__sched_refuse(s, "%s of \"%s\": the loop has a pragma; give it to the new loops instead", step, loop->name);
  if (whole && loop->prefetches.count > 0)
    tn__sched_refuse(s, "%s of \"%s\": the loop prefetches; do that in the new loops instead", step, loop->name);
  for (int i = 0; whole && i < s->folds.count; i++)
    if (s->folds.data[i].loop == loop)
      tn__sched_refuse(s, "%s of \"%s\": %s is folded in the loop; do that before", step, loop->name,
                       s->folds.data[i].buffer->name);
  for (int i = 0; whole && i < s->slides.count; i++)
    if (s->slides.data[i].loop == loop)
      tn__sched_refuse(s, "%s of \"%s\": %s slides in the loop; do that before", step, loop->name,
                       s->slides.data[i].buffer->name);
}

tn__snode *tn__sched_root_nest(const tn__schedule *s, tn__snode *node) {
  while (node->parent != s->root) node = node->parent;
  return node;
}

bool tn__sched_is_bounding(const tn__schedule *s, const tn__buffer *buffer) {
  for (int i = 0; i < s->bounding.count; i++)
    if (s->bounding.data[i] == buffer) return true;
  return false;
}

void tn__sched_check_not_bounding(const tn__schedule *s, const char *step, const tn__buffer *buffer) {
  if (tn__sched_is_bounding(s, buffer))
    tn__sched_refuse(s, "%s: loops run as far as %s says, which stays where it is", step, buffer->name);
}

const tn__buffer *tn__sched_tensor(const tn__schedule *s, const char *step, const char *name) {
  for (int i = 0; i < s->buffers.count; i++)
    if (strcmp(s->buffers.data[i]->name, name) == 0) return s->buffers.data[i];
  for (int i = 0; i < s->constants.count; i++)
    if (s->constants.data[i].packed != NULL && strcmp(s->constants.data[i].packed->name, name) == 0)
      return s->constants.data[i].packed;
  for (int i = 0; i < tn__te_input_count(s->te); i++)
    if (strcmp(tn__te_input_at(s->te, i)->name, name) == 0) return tn__te_input_at(s->te, i);
  for (int i = 0; i < tn__te_output_count(s->te); i++)
    if (strcmp(tn__te_output_at(s->te, i)->name, name) == 0) return tn__te_output_at(s->te, i);
  tn__sched_refuse(s, "%s: there is no tensor \"%s\"", step, name);
}

const char *tn__sched_fresh_name(const tn__schedule *s, bool is_block, const char *name) {
  const char *result = name;
  for (int i = 2; tn__sched_find(s, result, is_block) != NULL; i++)
    result = tn__arena_printf(s->arena, "%s%d", name, i);
  return result;
}

bool tn__sched_is_under(const tn__snode *node, const tn__snode *ancestor) {
  for (; node != NULL; node = node->parent)
    if (node == ancestor) return true;
  return false;
}

tn__snode *tn__sched_child_around(const tn__snode *top, tn__snode *node) {
  while (node->parent != top) node = node->parent;
  return node;
}

int tn__sched_path(const tn__schedule *s, const tn__snode *top, const tn__snode *node, tn__snode **out) {
  int count = 0;
  for (tn__snode *n = node->parent; n != NULL && n != top && n->var != NULL; n = n->parent) {
    if (count == TN__MAX_LOOPS)
      tn__sched_refuse(s, "more than %d loops around block \"%s\"", TN__MAX_LOOPS, node->name);
    out[count++] = n;
  }
  for (int i = 0; i < count / 2; i++) {
    tn__snode *n = out[i];
    out[i] = out[count - 1 - i];
    out[count - 1 - i] = n;
  }
  return count;
}

int tn__sched_index(const tn__snode *child) {
  int at = 0;
  while (child->parent->children.data[at] != child) at++;
  return at;
}

void tn__sched_each_block(tn__snode *node, void (*fn)(tn__snode *block, void *user), void *user) {
  if (node->is_block) fn(node, user);
  for (int i = 0; i < node->children.count; i++) tn__sched_each_block(node->children.data[i], fn, user);
}

void tn__sched_blocks(tn__schedule *s, tn__snode *node, tn__snodes *out) {
  if (node->is_block) tn__vec_push(s->arena, out, node);
  for (int i = 0; i < node->children.count; i++) tn__sched_blocks(s, node->children.data[i], out);
}

bool tn__sched_writes(const tn__snode *block, const tn__buffer *buffer) {
  for (int i = 0; i < block->block.write_count; i++)
    if (block->block.writes[i].buffer == buffer) return true;
  return false;
}

bool tn__sched_reads(const tn__snode *block, const tn__buffer *buffer) {
  for (int i = 0; i < block->block.read_count; i++)
    if (block->block.reads[i].buffer == buffer) return true;
  return false;
}

bool tn__sched_is_output(const tn__schedule *s, const tn__buffer *buffer) { return tn__te_is_output(s->te, buffer); }

bool tn__sched_is_param(const tn__schedule *s, const tn__buffer *buffer) {
  for (int i = 0; i < s->constants.count; i++)
    if (s->constants.data[i].packed == buffer) return true;
  for (int i = 0; i < tn__te_input_count(s->te); i++)
    if (tn__te_input_at(s->te, i) == buffer) return true;
  return tn__sched_is_output(s, buffer);
}

/* ---- asking about blocks ----------------------------------------------------------------------------------------- */

bool tn__sched_drives(const tn__snode *loop, const tn__snode *block, tn__axis_kind kind) {
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind == kind && tn__expr_uses_var(block->block.axes[i].binding, loop->var)) return true;
  return false;
}

bool tn__sched_drives_elements(const tn__snode *loop, const tn__snode *block) {
  return tn__sched_drives(loop, block, TN__AXIS_SPATIAL) || tn__sched_drives(loop, block, TN__AXIS_SCAN);
}

/* The expression without those of the loops over `inner` that move it by multiples of more than `most`; `*period`: what
 * all of these are multiples of, 0: there are none. */
static const tn__expr *without_far_steps(tn__ir *ir, const tn__expr *e, const tn__var *const *inner, int count,
                                         int64_t most, int64_t *period) {
  const tn__expr *zero = tn__ir_index(ir, 0);
  *period = 0;
  for (int i = 0; i < count; i++) {
    int64_t step;
    if (!tn__expr_uses_var(e, inner[i]) || !tn__ir_stride_in(ir, e, inner[i], &step)) continue;
    if (step < 0) step = -step;
    if (step <= most || !tn__ir_is_int(inner[i]->min)) continue;
    for (int64_t rest = *period; rest != 0;) { /* the greatest common divisor */
      int64_t next = step % rest;
      step = rest;
      rest = next;
    }
    *period = step;
    e = tn__ir_substitute(ir, e, &inner[i], &zero, 1);
  }
  return e;
}

/* Do iterations of a loop over `var` reach different positions of one of the block's axes, whatever the loops over
 * `inner` do? What these add is less than a step of the loop, or moves on by more than all of it. Bindings are written
 * over `from` first. */
static bool moves_an_axis(tn__schedule *s, const tn__snode *block, const tn__var *from, const tn__expr *to,
                          const tn__var *var, const tn__var *const *inner, int count) {
  for (int i = 0; i < block->block.axis_count; i++) {
    if (block->block.axes[i].kind != TN__AXIS_SPATIAL) continue;
    const tn__expr *coefficient, *rest, *min, *max, *binding = block->block.axes[i].binding;
    int64_t step, width, extent, period = 0;
    if (from != NULL) binding = tn__ir_substitute(s->ir, binding, &from, &to, 1);
    if (!tn__ir_affine_in(s->ir, binding, &var, 1, &coefficient, &rest)) continue;
    if (!tn__ir_as_int(coefficient, &step) || step == 0) continue;
    if (step < 0) step = -step;
    const int64_t all = tn__ir_as_int(var->extent, &extent) ? tn__ir_bound_mul(step, extent - 1) : INT64_MAX;
    rest = without_far_steps(s->ir, rest, inner, count, all, &period);
    if (!tn__ir_bounds_over(s->ir, rest, inner, count, &min, &max)) continue;
    if (!tn__ir_as_int(tn__ir_sub(s->ir, max, min), &width) || width >= step) continue;
    if (period == 0 || width < period - all) return true;
  }
  return false;
}

/* By how many iterations of the loop a quotient or remainder in the expression moves on, or starts again; 0: none
 * does. */
static int64_t period_in(tn__ir *ir, const tn__expr *e, const tn__var *var) {
  int64_t divisor, step, found = 0;
  const tn__expr *coefficient, *rest;
  if (!tn__expr_uses_var(e, var)) return 0;
  if ((e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && tn__ir_as_int(e->args[1], &divisor) &&
      tn__ir_affine_in(ir, e->args[0], &var, 1, &coefficient, &rest) && tn__ir_as_int(coefficient, &step) && step > 0 &&
      divisor % step == 0)
    return divisor / step;
  for (int i = 0; i < e->arg_count && found == 0; i++) found = period_in(ir, e->args[i], var);
  return found;
}

/* Of a loop over two dimensions that were fused: one axis moves with its quotients, another with its remainders. */
TN_MUST_USE static bool moves_two_axes(tn__schedule *s, const tn__snode *loop, const tn__snode *block,
                                       const tn__var **inner, int count) {
  int64_t period = 0, extent;
  for (int i = 0; i < block->block.axis_count && period == 0; i++)
    period = period_in(s->ir, block->block.axes[i].binding, loop->var);
  if (period < 2 || !tn__ir_as_int(loop->var->extent, &extent) || !tn__ir_is_int_value(loop->var->min, 0)) return false;
  const tn__expr *zero = tn__ir_index(s->ir, 0);
  const tn__var *quotient =
      tn__var_create(s->ir, "q", TN_I64, zero, tn__ir_index(s->ir, (extent + period - 1) / period));
  const tn__var *remainder = tn__var_create(s->ir, "r", TN_I64, zero, tn__ir_index(s->ir, period));
  const tn__expr *both = tn__ir_add(s->ir, tn__ir_mul_i(s->ir, quotient->self, period), remainder->self);
  if (!moves_an_axis(s, block, loop->var, both, remainder, inner, count)) return false;
  inner[count] = remainder;
  return moves_an_axis(s, block, loop->var, both, quotient, inner, count + 1);
}

bool tn__sched_disjoint(tn__schedule *s, const tn__snode *loop, const tn__snode *block) {
  if (tn__ir_is_int_value(loop->var->extent, 1)) return true;
  if (block->exact) return tn__sched_drives(loop, block, TN__AXIS_SPATIAL);
  tn__snode *path[TN__MAX_LOOPS];
  const tn__var *inner[TN__MAX_LOOPS + 1];
  int count = tn__sched_path(s, loop, block, path);
  for (int i = 0; i < count; i++) inner[i] = path[i]->var;
  return moves_an_axis(s, block, NULL, NULL, loop->var, inner, count) || moves_two_axes(s, loop, block, inner, count);
}

bool tn__sched_identity_write(const tn__snode *block, int *axis_of_dim) {
  if (block->block.write_count == 0) return false;
  for (int w = 0; w < block->block.write_count; w++) {
    const tn__region *write = &block->block.writes[w];
    if (write->buffer->rank != block->block.writes[0].buffer->rank) return false; /* one has another layout */
    for (int d = 0; d < write->buffer->rank; d++) {
      int axis = -1;
      for (int i = 0; i < block->block.axis_count; i++)
        if (block->block.axes[i].kind != TN__AXIS_REDUCE && block->block.axes[i].var->self == write->min[d]) axis = i;
      if (axis < 0 || !tn__ir_is_int_value(write->extent[d], 1)) {
        /* An axis of one position has become a constant. */
        if (!tn__ir_is_int_value(write->buffer->shape[d], 1)) return false;
        axis = -1;
      }
      if (w == 0) axis_of_dim[d] = axis;
      if (w > 0 && axis_of_dim[d] != axis) return false;
    }
  }
  return true;
}

const tn__expr *tn__sched_conjuncts_without(tn__ir *ir, const tn__expr *predicate, tn__snode *const *loops, int count) {
  if (predicate->kind == TN__EXPR_AND)
    return tn__ir_and(ir, tn__sched_conjuncts_without(ir, predicate->args[0], loops, count),
                      tn__sched_conjuncts_without(ir, predicate->args[1], loops, count));
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(predicate, loops[i]->var)) return tn__ir_bool(ir, true);
  return predicate;
}

const tn__expr *tn__sched_substitute_axes(tn__ir *ir, const tn__block *block, const tn__expr *e) {
  const tn__var *vars[3 * TN__MAX_RANK];
  const tn__expr *values[3 * TN__MAX_RANK];
  for (int i = 0; i < block->axis_count; i++) {
    vars[i] = block->axes[i].var;
    values[i] = block->axes[i].binding;
  }
  return tn__ir_substitute(ir, e, vars, values, block->axis_count);
}
