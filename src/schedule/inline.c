/* Primitives that dissolve element-wise blocks into others: inline and reverse_inline. */
#include "schedule/internal.h"

#include <string.h>

/* `in_steps`: a map may be part of a scan's steps; the scan itself is none, as it reads what it wrote. */
static void check_map(const tn__schedule *s, const char *step, const tn__snode *block, bool in_steps,
                      int *axis_of_dim) {
  bool plain = block->block.body->kind == TN__STMT_STORE && block->block.init == NULL && block->combiner == NULL;
  for (int i = 0; i < block->block.axis_count; i++)
    plain &= block->block.axes[i].kind == TN__AXIS_SPATIAL || (in_steps && block->block.axes[i].kind == TN__AXIS_SCAN);
  plain = plain && !tn__sched_reads(block, block->block.body->as.store.buffer);
  if (!plain || !tn__sched_identity_write(block, axis_of_dim))
    tn__sched_refuse(s, "%s of \"%s\": it is not element-wise", step, block->name);
  tn__sched_check_not_frozen(s, step, block);
}

typedef struct inlining {
  const tn__buffer *buffer;
  const tn__expr *value;
  const tn__var *vars[TN__MAX_RANK];
  int dims[TN__MAX_RANK], count;
} inlining;

static const tn__expr *replace_load(tn__ir *ir, const tn__expr *e, void *user) {
  const inlining *in = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != in->buffer) return NULL;
  const tn__expr *values[TN__MAX_RANK];
  bool same = true;
  for (int i = 0; i < in->count; i++) {
    values[i] = e->args[in->dims[i]];
    same &= values[i] == in->vars[i]->self;
  }
  return same ? in->value : tn__ir_substitute(ir, in->value, in->vars, values, in->count);
}

static const tn__expr *replace_loads(tn__ir *ir, const tn__expr *e, void *user) {
  const inlining *in = user;
  return tn__expr_uses_buffer(e, in->buffer) ? tn__expr_rewrite(ir, e, replace_load, user) : NULL;
}

/* ---- inline ------------------------------------------------------------------------------------------------------ */

static void add_size(const tn__expr *e, void *user) {
  uint64_t *size = user;
  *size += tn__expr_size(e);
}

/* The reader's axis that an index is, when it could as well be `var`: of its name and domain. */
static int axis_like(const tn__snode *reader, const tn__expr *index, const tn__var *var) {
  for (int i = 0; i < reader->block.axis_count; i++) {
    const tn__var *axis = reader->block.axes[i].var;
    if (axis->self == index && axis->min == var->min && axis->extent == var->extent &&
        strcmp(axis->name, var->name) == 0)
      return i;
  }
  return -1;
}

/* The reader of a larger value in that value's axes, where it reads element by element: the value then goes into it as
 * it is. Else each step along a chain of maps would make a copy of all before it. */
static tn__block with_axes_of(tn__schedule *s, const tn__snode *reader, const inlining *in) {
  tn__block block = reader->block;
  const tn__region *region = NULL;
  for (int r = 0; r < block.read_count; r++) {
    if (block.reads[r].buffer != in->buffer) continue;
    if (region != NULL) return block;
    region = &block.reads[r];
  }
  if (region == NULL || block.body->kind != TN__STMT_STORE || block.init != NULL ||
      tn__expr_size(block.body->as.store.value) >= tn__expr_size(in->value))
    return block;
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *to[TN__MAX_RANK];
  int which[TN__MAX_RANK];
  for (int i = 0; i < in->count; i++) {
    const int d = in->dims[i];
    which[i] = axis_like(reader, region->min[d], in->vars[i]);
    if (which[i] < 0 || !tn__ir_is_int_value(region->extent[d], 1)) return block;
    from[i] = block.axes[which[i]].var;
    to[i] = in->vars[i]->self;
  }
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block.axis_count, tn__block_axis);
  memcpy(axes, block.axes, (size_t)block.axis_count * sizeof *axes);
  for (int i = 0; i < in->count; i++) axes[which[i]].var = in->vars[i];
  block.axes = axes;
  block.body = tn__stmt_substitute(s->ir, block.body, from, to, in->count);
  return block;
}

/* A consumer with the producer's value in it. */
typedef struct inlined {
  const tn__block_axis *axes;
  const tn__stmt *init, *body;
} inlined;

/* `only`: nobody else reads the value. False when the reader gets too large by that: one that was so large before is
 * none of ours. */
TN_MUST_USE static bool inline_into(tn__schedule *s, const tn__snode *reader, inlining *in, bool only, inlined *out) {
  const tn__block block = only ? with_axes_of(s, reader, in) : reader->block;
  const tn__stmt *const before[2] = {block.init, block.body}, *after[2] = {NULL};
  uint64_t size = 0, old = 0;
  for (int i = 0; i < 2; i++) {
    if (before[i] == NULL) continue;
    after[i] = tn__stmt_rewrite(s->ir, before[i], NULL, replace_loads, in);
    tn__stmt_walk_exprs(before[i], add_size, &old);
    tn__stmt_walk_exprs(after[i], add_size, &size);
  }
  *out = (inlined){block.axes, after[0], after[1]};
  return size <= TN__MOST_INLINED || size <= old;
}

/* What stands in the place of a load of the block's tensor. */
static inlining inlining_of(const tn__snode *block, const int *axis_of_dim) {
  inlining in = {.buffer = block->block.writes[0].buffer, .value = block->block.body->as.store.value};
  for (int d = 0; d < in.buffer->rank; d++) {
    if (axis_of_dim[d] < 0) continue;
    in.dims[in.count] = d;
    in.vars[in.count++] = block->block.axes[axis_of_dim[d]].var;
  }
  return in;
}

const tn__stmt *tn__sched_body_with(tn__schedule *s, const tn__snode *block, const tn__snode *reader) {
  int axis_of_dim[TN__MAX_RANK];
  inlined after;
  check_map(s, "inline", block, true, axis_of_dim);
  inlining in = inlining_of(block, axis_of_dim);
  return inline_into(s, reader, &in, false, &after) ? after.body : NULL;
}

/* Is the map a part of a scan's steps, as what it reads of `source` is and all that reads the map? They come in this
 * order in each iteration of the loop over the steps, so the readers find in `source` what the map did. */
static bool is_step_between(tn__schedule *s, tn__snode *source, tn__snode *block, const tn__snodes *readers) {
  tn__snode *step = tn__sched_common_ancestor(block->parent, source);
  if (step->var == NULL || !tn__sched_drives(step, block, TN__AXIS_SCAN) ||
      !tn__sched_drives(step, source, TN__AXIS_SCAN))
    return false;
  for (int i = 0; i < readers->count; i++)
    if (!tn__sched_is_under(readers->data[i], step) || !tn__sched_drives(step, readers->data[i], TN__AXIS_SCAN))
      return false;
  return true;
}

bool tn__sched_inline_if_small(tn__schedule *s, const char *name) {
  tn__snode *block = tn__sched_block(s, "inline", name);
  int axis_of_dim[TN__MAX_RANK];
  check_map(s, "inline", block, true, axis_of_dim);
  const tn__buffer *buffer = block->block.writes[0].buffer;
  tn__sched_check_not_bounding(s, "inline", buffer);
  if (tn__sched_is_output(s, buffer))
    tn__sched_refuse(s, "inline of \"%s\": it writes the output %s", name, buffer->name);
  tn__snodes writers = {0}, readers = {0};
  tn__sched_writers(s, buffer, &writers);
  tn__sched_readers(s, buffer, &readers);
  if (writers.count != 1)
    tn__sched_refuse(s, "inline of \"%s\": %s is written by other blocks too", name, buffer->name);
  for (int r = 0; r < block->block.read_count; r++) {
    tn__snodes sources = {0};
    tn__sched_writers(s, block->block.reads[r].buffer, &sources);
    for (int i = 0; i < sources.count; i++)
      if (tn__sched_root_nest(s, sources.data[i]) == tn__sched_root_nest(s, block) &&
          !is_step_between(s, sources.data[i], block, &readers))
        tn__sched_refuse(s, "inline of \"%s\": it reads what \"%s\" writes in the same nest", name,
                         sources.data[i]->name);
  }
  for (int i = 0; i < readers.count; i++)
    if (readers.data[i]->block.axis_count == 0 &&
        tn__te_stage_of(s->te, readers.data[i]->block.writes[0].buffer) != NULL &&
        tn__te_stage_of(s->te, readers.data[i]->block.writes[0].buffer)->kind == TN__TE_EXTERN)
      tn__sched_refuse(s, "inline of \"%s\": its reader \"%s\" is imperative", name, readers.data[i]->name);
  for (int i = 0; i < readers.count; i++) tn__sched_check_not_frozen(s, "inline", readers.data[i]);
  inlining in = inlining_of(block, axis_of_dim);
  inlined *after = TN__NEW_ARRAY(s->arena, readers.count, inlined);
  for (int i = 0; i < readers.count; i++)
    if (!inline_into(s, readers.data[i], &in, readers.count == 1, &after[i])) return false;
  for (int i = 0; i < readers.count; i++) {
    readers.data[i]->block.axes = after[i].axes;
    tn__sched_set_body(s, readers.data[i], after[i].init, after[i].body);
  }
  tn__sched_remove(block);
  tn__sched_record(s, "inline", &name, 1, NULL, 0);
  return true;
}

void tn__sched_inline(tn__schedule *s, const char *name) {
  if (!tn__sched_inline_if_small(s, name))
    tn__sched_refuse(s, "inline of \"%s\": what reads it would have more than %d operations", name, TN__MOST_INLINED);
}

/* ---- reverse_inline ---------------------------------------------------------------------------------------------- */

void tn__sched_reverse_inline(tn__schedule *s, const char *name) {
  tn__snode *block = tn__sched_block(s, "reverse_inline", name), *producer = NULL;
  tn__ir *ir = s->ir;
  int own_axes[TN__MAX_RANK], axis_of_dim[TN__MAX_RANK];
  const tn__region *source = NULL;
  check_map(s, "reverse_inline", block, false, own_axes);
  for (int r = 0; r < block->block.read_count; r++) {
    tn__snodes writers = {0};
    tn__sched_writers(s, block->block.reads[r].buffer, &writers);
    if (writers.count == 0) continue;
    if (writers.count > 1 || producer != NULL)
      tn__sched_refuse(s, "reverse_inline of \"%s\": it reads what several blocks write", name);
    producer = writers.data[0];
    source = &block->block.reads[r];
  }
  if (producer == NULL) tn__sched_refuse(s, "reverse_inline of \"%s\": it reads no intermediate tensor", name);
  check_map(s, "reverse_inline", producer, false, axis_of_dim);
  tn__sched_check_not_bounding(s, "reverse_inline", source->buffer);
  tn__snodes readers = {0};
  tn__sched_readers(s, source->buffer, &readers);
  if (readers.count != 1 || tn__sched_is_output(s, source->buffer))
    tn__sched_refuse(s, "reverse_inline of \"%s\": %s is needed elsewhere too", name, source->buffer->name);
  const tn__var *vars[3 * TN__MAX_RANK];
  const tn__expr *values[3 * TN__MAX_RANK];
  int matched = 0;
  for (int d = 0; d < source->buffer->rank; d++) {
    bool found = axis_of_dim[d] < 0;
    for (int i = 0; i < block->block.axis_count && !found; i++) {
      const tn__var *axis = block->block.axes[i].var;
      if (axis->self != source->min[d] || axis->extent != source->buffer->shape[d]) continue;
      vars[matched] = axis;
      values[matched++] = producer->block.axes[axis_of_dim[d]].var->self;
      found = true;
    }
    if (!found || !tn__ir_is_int_value(source->extent[d], 1))
      tn__sched_refuse(s, "reverse_inline of \"%s\": it does not read all of %s element by element", name,
                       source->buffer->name);
  }
  for (int i = 0; i < block->block.axis_count; i++) {
    bool found = tn__ir_is_int_value(block->block.axes[i].var->extent, 1);
    for (int k = 0; k < matched; k++) found |= vars[k] == block->block.axes[i].var;
    if (!found) tn__sched_refuse(s, "reverse_inline of \"%s\": it has an axis that \"%s\" lacks", name, producer->name);
    if (tn__ir_is_int_value(block->block.axes[i].var->extent, 1)) {
      vars[matched] = block->block.axes[i].var;
      values[matched++] = tn__ir_index(ir, 0);
    }
  }
  /* The consumer's expressions in the producer's axes, then the producer's value for the load. */
  const tn__stmt *body = tn__stmt_substitute(ir, block->block.body, vars, values, matched);
  inlining in = {.buffer = source->buffer, .value = producer->block.body->as.store.value};
  body = tn__stmt_rewrite(ir, body, NULL, replace_loads, &in);
  tn__sched_set_body(s, producer, NULL, body);
  tn__sched_remove(block);
  tn__sched_record(s, "reverse_inline", &name, 1, NULL, 0);
}
