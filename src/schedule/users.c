/* Which blocks use a tensor. Schedules of thousands of stages ask that at every step, so blocks are entered under the
 * names of their tensors when they get a body, and are never taken out: whoever asks looks whether an entry is still in
 * the tree and still uses the tensor. */
#include "base/invariant.h"
#include "schedule/internal.h"

/* Longer lists are of tensors that a good part of the blocks use: the tree is walked then. */
enum { MOST_SORTED = 32 };

typedef bool (*user_test)(const tn__snode *block, const tn__buffer *buffer);

static bool uses(const tn__snode *block, const tn__buffer *buffer) {
  return tn__sched_reads(block, buffer) || tn__sched_writes(block, buffer);
}

static bool has(const tn__region *regions, int count, const tn__buffer *buffer) {
  for (int i = 0; i < count; i++)
    if (regions[i].buffer == buffer) return true;
  return false;
}

static void enter(tn__schedule *s, tn__map *map, tn__snode *block, const tn__buffer *buffer) {
  tn__snodes *list = tn__map_get(map, buffer->name);
  if (list == NULL) {
    list = TN__NEW(s->arena, tn__snodes);
    tn__map_set(map, buffer->name, list);
  }
  /* A tensor that is replaced by another of its name has the same blocks. */
  for (int i = 0; i < list->count && list->count <= MOST_SORTED; i++)
    if (list->data[i] == block) return;
  tn__vec_push(s->arena, list, block);
}

void tn__sched_enter(tn__schedule *s, tn__snode *block, const tn__block *before) {
  const tn__block *now = &block->block;
  for (int i = 0; i < now->read_count; i++)
    if (before == NULL || !has(before->reads, before->read_count, now->reads[i].buffer))
      enter(s, &s->readers, block, now->reads[i].buffer);
  for (int i = 0; i < now->write_count; i++)
    if (before == NULL || !has(before->writes, before->write_count, now->writes[i].buffer))
      enter(s, &s->writers, block, now->writes[i].buffer);
}

/* Does `a` stand before `b` in the tree? */
static bool stands_before(tn__schedule *s, const tn__snode *a, const tn__snode *b) {
  int a_depth = 0, b_depth = 0;
  for (const tn__snode *n = a; n->parent != NULL; n = n->parent) a_depth++;
  for (const tn__snode *n = b; n->parent != NULL; n = n->parent) b_depth++;
  for (; a_depth > b_depth; a_depth--) a = a->parent;
  for (; b_depth > a_depth; b_depth--) b = b->parent;
  for (; a->parent != b->parent; b = b->parent) a = a->parent;
  TN__INVARIANT(a->parent != NULL); /* the root is no block, and stands beside none */
  for (int i = 0;; i++) {
    s->visited++;
    if (a->parent->children.data[i] == a) return true;
    if (a->parent->children.data[i] == b) return false;
  }
}

/* Puts a block that is not there yet in its place. */
static void insert(tn__schedule *s, tn__snode *block, tn__snodes *out, int first) {
  int at = out->count;
  for (int i = first; i < out->count; i++)
    if (out->data[i] == block) return;
  tn__vec_push(s->arena, out, block);
  for (; at > first && stands_before(s, block, out->data[at - 1]); at--) out->data[at] = out->data[at - 1];
  out->data[at] = block;
}

static void find(tn__schedule *s, const tn__buffer *buffer, user_test accept, tn__snodes *out) {
  const tn__snodes *lists[2] = {NULL};
  int total = 0, first = out->count;
  if (accept != tn__sched_writes) lists[0] = tn__map_get(&s->readers, buffer->name);
  if (accept != tn__sched_reads) lists[1] = tn__map_get(&s->writers, buffer->name);
  for (int l = 0; l < 2; l++) total += lists[l] == NULL ? 0 : lists[l]->count;
  if (total > MOST_SORTED) {
    tn__snodes all = {0};
    tn__sched_blocks(s, s->root, &all);
    s->visited += all.count;
    for (int i = 0; i < all.count; i++)
      if (accept(all.data[i], buffer)) tn__vec_push(s->arena, out, all.data[i]);
    return;
  }
  for (int l = 0; l < 2; l++)
    for (int i = 0; lists[l] != NULL && i < lists[l]->count; i++) {
      tn__snode *block = lists[l]->data[i];
      s->visited++;
      if (accept(block, buffer) && tn__sched_is_under(block, s->root)) insert(s, block, out, first);
    }
}

void tn__sched_writers(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out) {
  find(s, buffer, tn__sched_writes, out);
}

void tn__sched_readers(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out) {
  find(s, buffer, tn__sched_reads, out);
}

void tn__sched_users(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out) { find(s, buffer, uses, out); }

/* Does anything read the buffer at another position of dimension `dim` than the block writes? */
static bool read_elsewhere(tn__schedule *s, const tn__snode *block, const tn__region *write, int dim) {
  tn__snodes readers = {0};
  const tn__expr *position = tn__sched_substitute_axes(s->ir, &block->block, write->min[dim]);
  tn__sched_readers(s, write->buffer, &readers);
  for (int i = 0; i < readers.count; i++)
    for (int r = 0; r < readers.data[i]->block.read_count; r++) {
      const tn__region *read = &readers.data[i]->block.reads[r];
      if (read->buffer != write->buffer) continue;
      if (tn__sched_substitute_axes(s->ir, &readers.data[i]->block, read->min[dim]) != position ||
          !tn__ir_is_int_value(read->extent[dim], 1))
        return true;
    }
  return false;
}

bool tn__sched_carries(tn__schedule *s, const tn__snode *loop, const tn__snode *block, const tn__buffer *buffer) {
  if (tn__sched_drives(loop, block, TN__AXIS_REDUCE)) return true;
  if (!tn__sched_drives(loop, block, TN__AXIS_SCAN)) return false;
  bool along = false;
  for (int w = 0; w < block->block.write_count; w++) {
    const tn__region *write = &block->block.writes[w];
    for (int d = 0; write->buffer == buffer && d < buffer->rank; d++) {
      if (!tn__expr_uses_var(tn__sched_substitute_axes(s->ir, &block->block, write->min[d]), loop->var)) continue;
      along = true;
      if (read_elsewhere(s, block, write, d)) return true;
    }
  }
  return !along;
}
