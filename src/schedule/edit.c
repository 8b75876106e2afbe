/* Changes of the tree: new nodes, nodes elsewhere, blocks with another body. Who uses which tensor is kept up with. */
#include <string.h>

#include "schedule/internal.h"

void tn__sched_name(tn__schedule *s, tn__snode *node, const char *name) {
  tn__sched_named *named = TN__NEW(s->arena, tn__sched_named);
  node->name = name;
  named->node = node;
  named->before = tn__map_set(&s->names, name, named);
}

tn__snode *tn__sched_new_loop(tn__schedule *s, const char *name, const tn__expr *extent, tn__loop_kind kind) {
  tn__snode *loop = TN__NEW(s->arena, tn__snode);
  tn__sched_name(s, loop, tn__sched_fresh_name(s, false, name));
  loop->var = tn__var_create(s->ir, loop->name, TN_I64, tn__ir_index(s->ir, 0), extent);
  loop->kind = kind;
  return loop;
}

tn__snode *tn__sched_new_block(tn__schedule *s, const tn__block *block) {
  tn__snode *node = TN__NEW(s->arena, tn__snode);
  node->is_block = true;
  node->exact = true;
  tn__sched_name(s, node, block->name);
  node->block = *block;
  tn__sched_enter(s, node, NULL);
  return node;
}

void tn__sched_insert(tn__schedule *s, tn__snode *parent, int at, tn__snode *child) {
  tn__vec_push(s->arena, &parent->children, child);
  memmove(&parent->children.data[at + 1], &parent->children.data[at],
          (size_t)(parent->children.count - 1 - at) * sizeof(tn__snode *));
  parent->children.data[at] = child;
  child->parent = parent;
}

void tn__sched_append(tn__schedule *s, tn__snode *parent, tn__snode *child) {
  tn__sched_insert(s, parent, parent->children.count, child);
}

void tn__sched_detach(tn__snode *node) {
  tn__snode *parent = node->parent;
  int at = tn__sched_index(node);
  parent->children.count--;
  memmove(&parent->children.data[at], &parent->children.data[at + 1],
          (size_t)(parent->children.count - at) * sizeof(tn__snode *));
  node->parent = NULL;
}

void tn__sched_remove(tn__snode *leaf) {
  while (true) {
    tn__snode *parent = leaf->parent;
    tn__sched_detach(leaf);
    if (parent->var == NULL || parent->children.count > 0) return;
    leaf = parent;
  }
}

void tn__sched_substitute(tn__schedule *s, tn__snode *node, const tn__var *const *vars, const tn__expr *const *values,
                          int count) {
  if (node->is_block) {
    tn__block_axis *axes = TN__NEW_ARRAY(s->arena, node->block.axis_count, tn__block_axis);
    for (int i = 0; i < node->block.axis_count; i++) {
      axes[i] = node->block.axes[i];
      axes[i].binding = tn__ir_substitute(s->ir, axes[i].binding, vars, values, count);
    }
    node->block.axes = axes;
    node->block.predicate = tn__ir_substitute(s->ir, node->block.predicate, vars, values, count);
  }
  for (int i = 0; i < node->children.count; i++) {
    tn__snode *child = node->children.data[i];
    const tn__expr *extent = child->is_block ? NULL : tn__ir_substitute(s->ir, child->var->extent, vars, values, count);
    tn__sched_substitute(s, child, vars, values, count);
    if (extent != NULL && extent != child->var->extent) tn__sched_set_extent(s, child, extent);
  }
}

void tn__sched_set_extent(tn__schedule *s, tn__snode *loop, const tn__expr *extent) {
  const tn__var *before = loop->var;
  loop->var = tn__var_create(s->ir, before->name, TN_I64, before->min, extent);
  tn__sched_substitute(s, loop, &before, &loop->var->self, 1);
}

void tn__sched_set_body(tn__schedule *s, tn__snode *block, const tn__stmt *init, const tn__stmt *body) {
  const tn__block before = block->block;
  block->block.init = init;
  block->block.body = body;
  tn__te_block_regions(s->ir, &block->block);
  tn__sched_enter(s, block, &before);
}

const tn__buffer *tn__sched_add_buffer(tn__schedule *s, const char *name, tn_dtype dtype, tn__scope scope, int rank,
                                       const tn__expr *const *shape) {
  const tn__buffer *buffer = tn__buffer_create(s->ir, name, dtype, scope, rank, shape);
  tn__vec_push(s->arena, &s->buffers, buffer);
  return buffer;
}

void tn__sched_redirect(tn__schedule *s, tn__snode *block, const tn__buffer *from, const tn__buffer *to) {
  const tn__stmt *init = block->block.init;
  if (init != NULL) init = tn__stmt_replace_buffer(s->ir, init, from, to, NULL, NULL);
  tn__sched_set_body(s, block, init, tn__stmt_replace_buffer(s->ir, block->block.body, from, to, NULL, NULL));
}

void tn__sched_replace_buffer(tn__schedule *s, const tn__buffer *from, const tn__buffer *to, tn__index_map map,
                              void *user) {
  tn__snodes users = {0};
  for (int i = 0; i < s->buffers.count; i++)
    if (s->buffers.data[i] == from) s->buffers.data[i] = to;
  for (int i = 0; i < s->aligns.count; i++)
    if (s->aligns.data[i].buffer == from) s->aligns.data[i].buffer = to;
  for (int i = 0; i < s->ragged.count; i++)
    if (s->ragged.data[i] == from) s->ragged.data[i] = to;
  for (int i = 0; i < s->folds.count; i++)
    if (s->folds.data[i].buffer == from) s->folds.data[i].buffer = to;
  for (int i = 0; i < s->slides.count; i++)
    if (s->slides.data[i].buffer == from) s->slides.data[i].buffer = to;
  for (int i = 0; i < s->rings.count; i++)
    if (s->rings.data[i].buffer == from) s->rings.data[i].buffer = to;
  for (int i = 0; i < s->overs.count; i++) {
    if (s->overs.data[i].buffer == from) s->overs.data[i].buffer = to;
    if (s->overs.data[i].over == from) s->overs.data[i].over = to;
  }
  tn__sched_users(s, from, &users);
  for (int i = 0; i < users.count; i++) {
    tn__snode *block = users.data[i];
    for (tn__snode *n = block->parent; n->var != NULL; n = n->parent)
      for (int p = 0; p < n->prefetches.count; p++)
        if (n->prefetches.data[p].buffer == from) n->prefetches.data[p].buffer = to;
    const tn__stmt *init = block->block.init;
    if (init != NULL) init = tn__stmt_replace_buffer(s->ir, init, from, to, map, user);
    tn__sched_set_body(s, block, init, tn__stmt_replace_buffer(s->ir, block->block.body, from, to, map, user));
  }
}

int tn__sched_clone_spatial(tn__schedule *s, const tn__snode *block, const char *new_block, tn__snode *const *path,
                            int count, const tn__var **vars, const tn__expr **values, tn__snode **outermost,
                            tn__snode **innermost) {
  int cloned = 0;
  size_t prefix = strlen(block->name);
  *outermost = *innermost = NULL;
  for (int i = 0; i < count; i++) {
    if (!tn__sched_drives_elements(path[i], block)) continue;
    const char *old = path[i]->name;
    bool own = strncmp(old, block->name, prefix) == 0 && old[prefix] == '.';
    const char *name = tn__arena_printf(s->arena, "%s.%s", new_block, own ? old + prefix + 1 : old);
    tn__snode *loop = tn__sched_new_loop(s, name, path[i]->var->extent, path[i]->kind);
    vars[cloned] = path[i]->var;
    values[cloned++] = loop->var->self;
    if (*innermost == NULL)
      *outermost = loop;
    else
      tn__sched_append(s, *innermost, loop);
    *innermost = loop;
  }
  return cloned;
}
