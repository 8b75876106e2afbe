/* hoist: a part of what a block computes becomes a tensor that is made once, before the block's nest. */
#include "schedule/internal.h"

/* Expressions that are looked at: those of longer values stay where they are. */
enum { MOST_LOOKED_AT = 4096 };

typedef struct looking {
  const tn__block *block;
  int wanted, left;
  const tn__expr *found;
} looking;

static bool reads_own(const tn__block *block, const tn__expr *e) {
  for (int w = 0; w < block->write_count; w++)
    if (tn__expr_uses_buffer(e, block->writes[w].buffer)) return true;
  return false;
}

/* Does it depend on an axis whose bounds other axes, or data, say? A tensor of its own would not know these. */
static bool has_bound_axis(const tn__block *block, const tn__expr *e) {
  for (int a = 0; a < block->axis_count; a++) {
    const tn__var *var = block->axes[a].var;
    if (!tn__expr_uses_var(e, var)) continue;
    for (int b = 0; b < block->axis_count; b++) {
      const tn__var *other = block->axes[b].var;
      if (tn__expr_uses_var(var->extent, other) || (var->min != NULL && tn__expr_uses_var(var->min, other)))
        return true;
    }
    if (tn__expr_has_load(var->extent) || (var->min != NULL && tn__expr_has_load(var->min))) return true;
  }
  return false;
}

/* From the outside in; what a condition guards is not computed elsewhere, nor are indices tensors. */
static void look(looking *l, const tn__expr *e) {
  if (l->found != NULL || l->left-- <= 0 || e->kind == TN__EXPR_LOAD || !tn__expr_has_load(e)) return;
  if (!reads_own(l->block, e) && !has_bound_axis(l->block, e) && l->wanted-- == 0) {
    l->found = e;
    return;
  }
  bool guards = e->kind == TN__EXPR_SELECT || e->kind == TN__EXPR_AND || e->kind == TN__EXPR_OR;
  for (int i = 0; i < (guards ? 1 : e->arg_count); i++) look(l, e->args[i]);
}

const tn__expr *tn__sched_hoistable(const tn__snode *block, int index) {
  looking l = {.block = &block->block, .wanted = index, .left = MOST_LOOKED_AT};
  if (block->block.body->kind == TN__STMT_STORE) look(&l, block->block.body->as.store.value);
  return l.found;
}

typedef struct hoisting {
  const tn__expr *part, *load;
} hoisting;

static const tn__expr *replace_part(tn__ir *ir, const tn__expr *e, void *user) {
  const hoisting *h = user;
  return e == h->part ? h->load : NULL;
}

/* All that the part reads is complete before the block's nest, and it may be computed at each position of its axes. */
static void check(tn__schedule *s, tn__snode *block, const tn__expr *part) {
  tn__snode *nest = tn__sched_root_nest(s, block);
  if (block->block.predicate != tn__ir_bool(s->ir, true))
    tn__sched_refuse(s, "hoist of \"%s\": it is not executed at all positions of its axes", block->name);
  for (int r = 0; r < block->block.read_count; r++) {
    tn__snodes writers = {0};
    const tn__buffer *buffer = block->block.reads[r].buffer;
    if (!tn__expr_uses_buffer(part, buffer)) continue;
    tn__sched_writers(s, buffer, &writers);
    for (int i = 0; i < writers.count; i++)
      if (tn__sched_index(tn__sched_root_nest(s, writers.data[i])) >= tn__sched_index(nest))
        tn__sched_refuse(s, "hoist of \"%s\": \"%s\" writes %s in the same nest", block->name, writers.data[i]->name,
                         buffer->name);
  }
}

/* The block's axes that the part depends on, in their order but for number `last` of them, which goes last. */
TN_MUST_USE static int axes_of_part(const tn__schedule *s, const tn__snode *block, const tn__expr *part, int last,
                                    const tn__var **out) {
  const tn__var *moved = NULL;
  int rank = 0, seen = 0;
  for (int a = 0; a < block->block.axis_count; a++) {
    const tn__block_axis *axis = &block->block.axes[a];
    if (!tn__expr_uses_var(part, axis->var)) continue;
    if (seen == TN__MAX_RANK || axis->kind == TN__AXIS_SCAN)
      tn__sched_refuse(s, "hoist of \"%s\": the part has %s", block->name,
                       seen == TN__MAX_RANK ? "too many axes" : "an axis of a scan");
    if (seen++ == last)
      moved = axis->var;
    else
      out[rank++] = axis->var;
  }
  if (moved == NULL)
    tn__sched_refuse(s, "hoist of \"%s\": the part has %d axes, and no axis %d", block->name, seen, last);
  out[rank] = moved;
  return seen;
}

const char *tn__sched_hoist(tn__schedule *s, const char *name, int index, int last) {
  tn__snode *block = tn__sched_block(s, "hoist", name), *outermost = NULL, *innermost = NULL;
  tn__ir *ir = s->ir;
  tn__sched_check_not_frozen(s, "hoist", block);
  const tn__expr *part = tn__sched_hoistable(block, index);
  if (part == NULL) tn__sched_refuse(s, "hoist of \"%s\": it has no part %d to compute before", name, index);
  check(s, block, part);
  const char *made = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.part", name));
  const tn__var *vars[TN__MAX_RANK];
  const tn__expr *values[TN__MAX_RANK], *indices[TN__MAX_RANK], *shape[TN__MAX_RANK];
  int rank = axes_of_part(s, block, part, last, vars);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, rank, tn__block_axis);
  for (int d = 0; d < rank; d++) {
    shape[d] = vars[d]->extent;
    tn__snode *loop =
        tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.%s", made, vars[d]->name), shape[d], TN__LOOP_SERIAL);
    const tn__var *var = tn__var_create(ir, vars[d]->name, TN_I64, tn__ir_index(ir, 0), shape[d]);
    axes[d] = (tn__block_axis){.var = var, .kind = TN__AXIS_SPATIAL, .binding = loop->var->self};
    values[d] = var->self;
    indices[d] = vars[d]->self;
    if (innermost == NULL)
      outermost = loop;
    else
      tn__sched_append(s, innermost, loop);
    innermost = loop;
  }
  const tn__buffer *tensor = tn__sched_add_buffer(s, made, part->dtype, TN__SCOPE_WORKSPACE, rank, shape);
  tn__snode *node = tn__sched_new_block(
      s, &(tn__block){.name = made, .axis_count = rank, .axes = axes, .predicate = tn__ir_bool(ir, true)});
  tn__sched_set_body(s, node, NULL, tn__ir_store(ir, tensor, values, tn__ir_substitute(ir, part, vars, values, rank)));
  tn__sched_append(s, innermost, node);
  tn__sched_insert(s, s->root, tn__sched_index(tn__sched_root_nest(s, block)), outermost);
  hoisting h = {part, tn__ir_load(ir, tensor, indices)};
  const tn__stmt *body = block->block.body;
  const tn__expr *value = tn__expr_rewrite(ir, body->as.store.value, replace_part, &h);
  tn__sched_set_body(s, block, block->block.init,
                     tn__ir_store(ir, body->as.store.buffer, body->as.store.indices, value));
  const int64_t numbers[] = {index, last};
  tn__sched_record(s, "hoist", &name, 1, numbers, 2);
  return made;
}
