/* Proposals of schedule steps: for each primitive, something to apply it to that has a chance to be legal. The
 * proposals look at the tree of loops but leave the decision to the primitive. */
#ifndef TENON_TESTS_UNIT_SCHEDULE_STEPS_H
#define TENON_TESTS_UNIT_SCHEDULE_STEPS_H

#include <inttypes.h>
#include <stdio.h>

#include "ir/context.h"
#include "schedule/internal.h"
#include "unit/schedule_recipes.h"

enum { STEP_TEXT = 512, MOST_NODES = 128, MOST_STATEMENTS = 2000 };

typedef struct proposal {
  tn__schedule *s;
  dice *d;
  char text[STEP_TEXT];
  tn__snode *loops[MOST_NODES], *blocks[MOST_NODES];
  int loop_count, block_count;
} proposal;

static inline void collect_nodes(proposal *p, tn__snode *node) {
  for (int i = 0; i < node->children.count; i++) {
    tn__snode *child = node->children.data[i];
    if (child->is_block && p->block_count < MOST_NODES) p->blocks[p->block_count++] = child;
    if (!child->is_block && p->loop_count < MOST_NODES) p->loops[p->loop_count++] = child;
    collect_nodes(p, child);
  }
}

/* A node that the test accepts (or any, now and then), from a random place on; NULL when there is none. */
static inline tn__snode *choose(proposal *p, bool block, bool (*accept)(proposal *p, tn__snode *node)) {
  tn__snode **nodes = block ? p->blocks : p->loops;
  int count = block ? p->block_count : p->loop_count;
  if (count == 0) return NULL;
  int first = roll(p->d, count);
  if (accept == NULL || roll(p->d, 12) == 0) return nodes[first];
  for (int i = 0; i < count; i++)
    if (accept(p, nodes[(first + i) % count])) return nodes[(first + i) % count];
  return NULL;
}

/* ---- what is likely to be accepted ------------------------------------------------------------------------------- */

static inline bool is_frozen(const tn__snode *node) {
  for (; node != NULL; node = node->parent)
    if (node->tensor != NULL || node->transposes) return true;
  return false;
}

static inline bool is_free(proposal *p, tn__snode *loop) { return loop->kind == TN__LOOP_SERIAL && !is_frozen(loop); }

static inline bool is_whole(proposal *p, tn__snode *loop) {
  bool asked = false;
  int depth = 0;
  for (const tn__snode *n = loop; n != NULL; n = n->parent) depth++;
  for (int i = 0; i < TN__PRAGMA_COUNT; i++) asked |= loop->pragmas.value[i] != 0;
  return is_free(p, loop) && !asked && loop->prefetches.count == 0 && depth < 10 &&
         !tn__ir_is_int_value(loop->var->extent, 1);
}

static inline bool is_independent(proposal *p, tn__snode *loop) {
  tn__snodes blocks = {0};
  tn__sched_blocks(p->s, loop, &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (tn__sched_drives(loop, blocks.data[i], TN__AXIS_REDUCE) ||
        tn__sched_drives(loop, blocks.data[i], TN__AXIS_SCAN) || !tn__sched_disjoint(p->s, loop, blocks.data[i]))
      return false;
  return is_free(p, loop);
}

static inline bool has_kind_near(const tn__snode *loop, tn__loop_kind kind, bool or_bound) {
  for (const tn__snode *n = loop->parent; n->var != NULL; n = n->parent)
    if (n->kind == kind || (or_bound && tn__ir_loop_is_bound(n->kind))) return true;
  for (int i = 0; i < loop->children.count; i++) {
    const tn__snode *child = loop->children.data[i];
    if (!child->is_block && (child->kind == kind || (or_bound && tn__ir_loop_is_bound(child->kind)))) return true;
  }
  return false;
}

static inline bool can_parallel(proposal *p, tn__snode *loop) {
  return is_independent(p, loop) && !has_kind_near(loop, TN__LOOP_PARALLEL, true);
}

static inline bool can_bind(proposal *p, tn__snode *loop) {
  int64_t extent;
  return is_independent(p, loop) && !has_kind_near(loop, TN__LOOP_PARALLEL, true) &&
         tn__ir_as_int(loop->var->extent, &extent);
}

static inline bool can_vectorize(proposal *p, tn__snode *loop) {
  int64_t extent;
  for (int i = 0; i < loop->children.count; i++)
    if (!loop->children.data[i]->is_block) return false;
  return is_independent(p, loop) && loop->prefetches.count == 0 && tn__ir_as_int(loop->var->extent, &extent);
}

static inline bool can_unroll(proposal *p, tn__snode *loop) {
  int64_t extent;
  return is_free(p, loop) && tn__ir_as_int(loop->var->extent, &extent) && extent <= 16;
}

static inline bool drives_one_kind(tn__snode *a, tn__snode *b, const tn__snode *block) {
  for (int kind = TN__AXIS_SPATIAL; kind <= TN__AXIS_SCAN; kind++)
    if (tn__sched_drives(a, block, (tn__axis_kind)kind) != tn__sched_drives(b, block, (tn__axis_kind)kind))
      return false;
  return true;
}

static inline tn__snode *only_loop_in(const tn__snode *loop) {
  return loop->children.count == 1 && !loop->children.data[0]->is_block ? loop->children.data[0] : NULL;
}

static inline bool can_fuse_next(proposal *p, tn__snode *loop) {
  tn__snode *inner = only_loop_in(loop);
  tn__snodes blocks = {0};
  if (inner == NULL || !is_whole(p, loop) || !is_whole(p, inner)) return false;
  tn__sched_blocks(p->s, inner, &blocks);
  for (int i = 0; i < blocks.count; i++)
    if (!drives_one_kind(loop, inner, blocks.data[i])) return false;
  return true;
}

static inline bool has_next(proposal *p, tn__snode *loop) {
  return only_loop_in(loop) != NULL && !is_frozen(only_loop_in(loop)) &&
         only_loop_in(loop)->kind != TN__LOOP_VECTORIZED;
}

static inline bool can_tile(proposal *p, tn__snode *loop) {
  return only_loop_in(loop) != NULL && is_whole(p, loop) && is_whole(p, only_loop_in(loop));
}

static inline bool scans(const tn__snode *block) {
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind == TN__AXIS_SCAN) return true;
  return false;
}

static inline int writer_count(proposal *p, const tn__buffer *buffer) {
  tn__snodes writers = {0};
  tn__sched_writers(p->s, buffer, &writers);
  return writers.count;
}

static inline bool is_intermediate(proposal *p, const tn__buffer *buffer) { return !tn__sched_is_param(p->s, buffer); }

static inline bool is_producer(proposal *p, tn__snode *block) {
  int dims[TN__MAX_RANK];
  for (int i = 0; i < block->block.write_count; i++)
    if (!is_intermediate(p, block->block.writes[i].buffer) || writer_count(p, block->block.writes[i].buffer) != 1)
      return false;
  return !scans(block) && !is_frozen(block) && tn__sched_identity_write(block, dims);
}

static inline bool is_map(const tn__snode *block) {
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_SPATIAL) return false;
  return block->block.body->kind == TN__STMT_STORE && block->block.init == NULL && block->combiner == NULL;
}

static inline bool can_inline(proposal *p, tn__snode *block) { return is_producer(p, block) && is_map(block); }

static inline bool reads_intermediate(proposal *p, tn__snode *block) {
  for (int i = 0; i < block->block.read_count; i++)
    if (is_intermediate(p, block->block.reads[i].buffer)) return is_map(block);
  return false;
}

/* The only reader of the only map that it reads. */
static inline bool can_reverse_inline(proposal *p, tn__snode *block) {
  const tn__buffer *source = NULL;
  int dims[TN__MAX_RANK];
  for (int i = 0; i < block->block.read_count; i++) {
    if (writer_count(p, block->block.reads[i].buffer) == 0) continue;
    if (source != NULL) return false;
    source = block->block.reads[i].buffer;
  }
  if (source == NULL || !is_map(block) || !is_intermediate(p, source) || !tn__sched_identity_write(block, dims))
    return false;
  tn__snodes readers = {0}, writers = {0};
  tn__sched_readers(p->s, source, &readers);
  tn__sched_writers(p->s, source, &writers);
  return readers.count == 1 && writers.count == 1 && is_map(writers.data[0]);
}

static inline bool is_moved(proposal *p, tn__snode *block) {
  const tn__snode *nest = tn__sched_root_nest(p->s, block);
  for (; nest != block; nest = nest->children.data[0])
    if (nest->children.count != 1) return is_producer(p, block) || is_map(block);
  return false;
}

static inline bool is_thawed(proposal *p, tn__snode *block) { return !is_frozen(block); }
static inline bool writes_intermediate(proposal *p, tn__snode *block) {
  return is_intermediate(p, block->block.writes[0].buffer);
}
static inline bool can_align(proposal *p, tn__snode *block) {
  const tn__buffer *buffer = block->block.writes[0].buffer;
  for (int i = 0; i < p->s->aligns.count; i++)
    if (p->s->aligns.data[i].buffer == buffer) return false;
  return is_intermediate(p, buffer) && buffer->rank >= 2 && !is_frozen(block);
}
static inline bool has_init(proposal *p, tn__snode *block) { return block->block.init != NULL; }

static inline bool can_factor(proposal *p, tn__snode *loop) {
  tn__snodes blocks = {0};
  tn__sched_blocks(p->s, loop, &blocks);
  return is_free(p, loop) && blocks.count == 1 && has_init(p, blocks.data[0]) && blocks.data[0]->combiner != NULL &&
         blocks.data[0]->combiner->reorderable && tn__sched_drives(loop, blocks.data[0], TN__AXIS_REDUCE);
}

/* rfactor alone takes a reduction whose initialisation stands in front already. */
static inline bool can_rfactor(proposal *p, tn__snode *loop) {
  tn__snodes blocks = {0};
  tn__sched_blocks(p->s, loop, &blocks);
  return is_free(p, loop) && blocks.count == 1 && blocks.data[0]->combiner != NULL &&
         blocks.data[0]->combiner->reorderable && tn__sched_drives(loop, blocks.data[0], TN__AXIS_REDUCE);
}

static inline bool can_peel(proposal *p, tn__snode *loop) {
  if (!is_whole(p, loop) || loop->children.count != 1 || !loop->children.data[0]->is_block) return false;
  const tn__snode *block = loop->children.data[0];
  bool whole = false;
  for (int i = 0; i < block->block.axis_count; i++) whole |= block->block.axes[i].binding == loop->var->self;
  return whole && block->block.init == NULL && block->combiner != NULL &&
         tn__sched_drives(loop, block, TN__AXIS_REDUCE);
}

static inline bool can_privatize(proposal *p, tn__snode *loop) {
  tn__snodes blocks = {0};
  tn__sched_blocks(p->s, tn__sched_root_nest(p->s, loop), &blocks);
  return is_free(p, loop) && blocks.count == 1 && !has_init(p, blocks.data[0]) && blocks.data[0]->exact &&
         blocks.data[0]->combiner != NULL && blocks.data[0]->combiner->reorderable &&
         tn__sched_drives(loop, blocks.data[0], TN__AXIS_REDUCE);
}

static inline bool can_prefetch(proposal *p, tn__snode *block) {
  return block->parent->var != NULL && block->block.read_count > 0 && !is_frozen(block);
}

static inline bool can_stream(proposal *p, tn__snode *block) {
  return !is_frozen(block) && tn__sched_cannot_stream(p->s, block, block->block.writes[0].buffer) == NULL;
}

/* ---- one proposal for each primitive: false when there is nothing to propose ------------------------------------- */

static inline bool say(proposal *p, const char *format, ...) TN_PRINTF(2, 3);
static inline bool say(proposal *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(p->text, STEP_TEXT, format, args);
  va_end(args);
  return length < STEP_TEXT;
}

static inline int factor(proposal *p) { return (int[]){2, 3, 4, 5, 8, 1, 16}[roll(p->d, 7)]; }

static inline bool propose_split(proposal *p) {
  const tn__snode *loop = choose(p, false, is_whole);
  if (loop == NULL) return false;
  int a = factor(p), b = factor(p);
  switch (roll(p->d, 4)) {
    case 0: return say(p, "split \"%s\" %d 0", loop->name, a);
    case 1: return say(p, "split \"%s\" %d 0 %d", loop->name, a, b);
    default: return say(p, "split \"%s\" 0 %d", loop->name, a);
  }
}

static inline bool propose_fuse(proposal *p) {
  const tn__snode *loop = choose(p, false, can_fuse_next);
  if (loop == NULL || only_loop_in(loop) == NULL) return false;
  return say(p, "fuse \"%s\" \"%s\"", loop->name, only_loop_in(loop)->name);
}

static inline bool propose_reorder(proposal *p) {
  const tn__snode *loop = choose(p, false, has_next);
  if (loop == NULL || only_loop_in(loop) == NULL) return false;
  const tn__snode *inner = only_loop_in(loop), *third = only_loop_in(inner);
  if (third != NULL && roll(p->d, 3) == 0)
    return say(p, "reorder \"%s\" \"%s\" \"%s\"", third->name, loop->name, inner->name);
  return say(p, "reorder \"%s\" \"%s\"", inner->name, loop->name);
}

static inline bool propose_tile(proposal *p) {
  const tn__snode *loop = choose(p, false, can_tile);
  if (loop == NULL || only_loop_in(loop) == NULL) return false;
  const tn__snode *inner = only_loop_in(loop), *third = only_loop_in(inner);
  int a = factor(p), b = factor(p), c = factor(p);
  if (third != NULL && roll(p->d, 3) == 0)
    return say(p, "tile \"%s\" \"%s\" \"%s\" %d %d %d", loop->name, inner->name, third->name, a, b, c);
  return say(p, "tile \"%s\" \"%s\" %d %d", loop->name, inner->name, a, b);
}

static inline bool propose_on_loop(proposal *p, const char *step, bool (*accept)(proposal *p, tn__snode *node)) {
  const tn__snode *loop = choose(p, false, accept);
  return loop != NULL && say(p, "%s \"%s\"", step, loop->name);
}
static inline bool propose_parallel(proposal *p) { return propose_on_loop(p, "parallel", can_parallel); }
static inline bool propose_vectorize(proposal *p) { return propose_on_loop(p, "vectorize", can_vectorize); }

/* Unrolled loops in unrolled loops take long to expand. */
static inline bool propose_unroll(proposal *p) {
  const tn__snode *loop = choose(p, false, can_unroll);
  int64_t extent;
  if (loop == NULL || !tn__ir_as_int(loop->var->extent, &extent)) return false;
  if (tn__ir_bound_mul(tn__stmt_weight(tn__schedule_func(p->s)->body), extent) > MOST_STATEMENTS) return false;
  return say(p, "unroll \"%s\"", loop->name);
}

static inline bool propose_rfactor(proposal *p) { return propose_on_loop(p, "rfactor", can_rfactor); }

/* A reduction becomes an accumulation when its initialisation leaves its nest. */
static inline bool propose_accumulation(proposal *p) {
  tn__snode *loop = choose(p, false, can_factor);
  if (loop == NULL) return false;
  tn__snodes blocks = {0};
  tn__snode *nest = tn__sched_root_nest(p->s, loop);
  tn__sched_blocks(p->s, nest, &blocks);
  return blocks.count == 1 && say(p, "decompose_reduction \"%s\" \"%s\"", blocks.data[0]->name, nest->name);
}

static inline bool propose_privatize(proposal *p) {
  const tn__snode *loop = choose(p, false, can_privatize);
  return loop != NULL ? say(p, "privatize \"%s\"", loop->name) : propose_accumulation(p);
}

static inline bool propose_peel(proposal *p) {
  const tn__snode *loop = choose(p, false, can_peel);
  return loop != NULL ? say(p, "peel \"%s\" %d", loop->name, roll(p->d, 3) + 2) : propose_accumulation(p);
}

/* The loop itself or one inside of it, around what else is reduced; or a split that leaves something there. */
static inline bool propose_rfactor_at(proposal *p) {
  tn__snode *loop = choose(p, false, can_factor);
  tn__snodes blocks = {0};
  tn__snode *path[TN__MAX_LOOPS];
  if (loop == NULL) return false;
  tn__sched_blocks(p->s, loop, &blocks);
  if (blocks.count != 1) return false;
  int count = tn__sched_path(p->s, loop->parent, blocks.data[0], path), last = 0;
  for (int i = 1; i < count; i++)
    if (tn__sched_drives(path[i], blocks.data[0], TN__AXIS_REDUCE)) last = i;
  if (last == 0 && is_whole(p, loop)) return say(p, "split \"%s\" 0 %d", loop->name, factor(p));
  return say(p, "rfactor_at \"%s\" \"%s\"", loop->name, path[roll(p->d, last > 0 ? last : 1)]->name);
}

static inline bool propose_bind(proposal *p) {
  static const char *const axes[] = {"block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z"};
  const tn__snode *loop = choose(p, false, can_bind);
  return loop != NULL && say(p, "bind \"%s\" \"%s\"", loop->name, axes[roll(p->d, 6)]);
}

static inline bool propose_pragma(proposal *p) {
  const tn__snode *loop = choose(p, false, is_free);
  if (loop == NULL) return false;
  if (roll(p->d, 2) == 0) return say(p, "pragma \"%s\" \"whole\" 1", loop->name);
  return say(p, "pragma \"%s\" \"unroll_limit\" %d", loop->name, roll(p->d, 20));
}

/* A loop around the block. */
static inline const tn__snode *loop_around(proposal *p, const tn__snode *block) {
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(p->s, p->s->root, block, path);
  return count == 0 ? NULL : path[roll(p->d, count)];
}

static inline bool propose_prefetch(proposal *p) {
  const tn__snode *block = choose(p, true, can_prefetch);
  const tn__snode *loop = block == NULL ? NULL : loop_around(p, block);
  if (loop == NULL || block->block.read_count == 0) return false;
  int at = roll(p->d, block->block.read_count);
  for (int i = 0; i < block->block.read_count && tn__sched_writes(block, block->block.reads[at].buffer); i++)
    at = (at + 1) % block->block.read_count;
  return say(p, "prefetch \"%s\" \"%s\" %d %d", block->name, loop->name, at, 1 + roll(p->d, 4));
}

/* Where no output is written in vectors yet, a step towards it. */
static inline bool propose_stream(proposal *p) {
  const tn__snode *able = choose(p, true, can_stream);
  if (able != NULL) return say(p, "stream \"%s\" 0", able->name);
  for (int i = 0; i < p->block_count; i++) {
    const tn__snode *block = p->blocks[i], *loop = block->parent;
    int64_t extent;
    if (is_intermediate(p, block->block.writes[0].buffer) || !is_map(block) || loop->var == NULL) continue;
    if (!tn__ir_as_int(loop->var->extent, &extent) || !is_whole(p, p->loops[0])) continue;
    if (extent > 16) return say(p, "split \"%s\" 0 %d", loop->name, roll(p->d, 2) == 0 ? 8 : 16);
    return say(p, "vectorize \"%s\"", loop->name);
  }
  return false;
}

static inline bool propose_fetch_of_outer(proposal *p, const char *primitive) {
  const tn__snode *block = choose(p, true, can_prefetch);
  const tn__snode *loop = block == NULL ? NULL : loop_around(p, block);
  if (loop == NULL || block->block.read_count == 0 || loop->parent->var == NULL) return false;
  const tn__snode *ahead = loop->parent;
  while (ahead->parent->var != NULL && roll(p->d, 2) == 0) ahead = ahead->parent;
  int at = roll(p->d, block->block.read_count);
  for (int i = 0; i < block->block.read_count && tn__sched_writes(block, block->block.reads[at].buffer); i++)
    at = (at + 1) % block->block.read_count;
  return say(p, "%s \"%s\" \"%s\" \"%s\" %d %d", primitive, block->name, loop->name, ahead->name, at,
             1 + roll(p->d, 4));
}

static inline bool propose_prefetch_ahead(proposal *p) { return propose_fetch_of_outer(p, "prefetch_ahead"); }
static inline bool propose_prefetch_spread(proposal *p) { return propose_fetch_of_outer(p, "prefetch_spread"); }

static inline bool propose_compute_at(proposal *p) {
  const tn__snode *block = choose(p, true, is_producer);
  tn__snodes readers = {0};
  if (block == NULL) return false;
  tn__sched_readers(p->s, block->block.writes[0].buffer, &readers);
  const tn__snode *reader = readers.count == 0 ? NULL : readers.data[roll(p->d, readers.count)];
  if (reader == block && readers.count > 1) reader = readers.data[readers.data[0] == block ? 1 : 0];
  const tn__snode *loop = reader == NULL ? NULL : loop_around(p, reader);
  return loop != NULL && say(p, "compute_at \"%s\" \"%s\"", block->name, loop->name);
}

static inline bool propose_reverse_compute_at(proposal *p) {
  const tn__snode *block = choose(p, true, reads_intermediate);
  tn__snodes writers = {0};
  if (block == NULL) return false;
  for (int i = 0; i < block->block.read_count && writers.count == 0; i++)
    if (is_intermediate(p, block->block.reads[i].buffer))
      tn__sched_writers(p->s, block->block.reads[i].buffer, &writers);
  if (writers.count == 0) return false;
  /* The loops of a reduction are inside as a rule, and its consumer belongs outside of them. */
  const tn__snode *writer = writers.data[writers.count - 1], *loop = loop_around(p, writer);
  for (const tn__snode *n = loop; n != NULL && n->var != NULL; n = n->parent)
    if (tn__sched_drives(n, writer, TN__AXIS_REDUCE)) loop = n->parent;
  return loop != NULL && loop->var != NULL && say(p, "reverse_compute_at \"%s\" \"%s\"", block->name, loop->name);
}

static inline bool propose_on_block(proposal *p, const char *step, bool (*accept)(proposal *p, tn__snode *node)) {
  const tn__snode *block = choose(p, true, accept);
  return block != NULL && say(p, "%s \"%s\"", step, block->name);
}
static inline bool propose_compute_root(proposal *p) { return propose_on_block(p, "compute_root", is_moved); }
static inline bool propose_inline(proposal *p) { return propose_on_block(p, "inline", can_inline); }
static inline bool propose_reverse_inline(proposal *p) {
  return propose_on_block(p, "reverse_inline", can_reverse_inline);
}

static inline int scope(proposal *p) { return TN__SCOPE_WORKSPACE + (roll(p->d, 3) == 0 ? 1 : 0); }

static inline bool propose_cache_write(proposal *p) {
  const tn__snode *block = choose(p, true, is_thawed);
  return block != NULL &&
         say(p, "cache_write \"%s\" %d %d", block->name, roll(p->d, block->block.write_count), scope(p));
}

static inline bool read_to_cache(proposal *p, const tn__snode **block, int *at) {
  *block = choose(p, true, is_thawed);
  if (*block == NULL || (*block)->block.read_count == 0) return false;
  const tn__block *b = &(*block)->block;
  *at = roll(p->d, b->read_count);
  for (int i = 0; i < b->read_count && tn__sched_writes(*block, b->reads[*at].buffer); i++)
    *at = (*at + 1) % b->read_count;
  return true;
}

static inline bool propose_cache_read(proposal *p) {
  const tn__snode *block;
  int at;
  return read_to_cache(p, &block, &at) && say(p, "cache_read \"%s\" %d %d", block->name, at, scope(p));
}

/* Seldom does a block cast what it reads: what casts nothing is proposed now and then, to be refused. */
static inline bool propose_cache_read_cast(proposal *p) {
  const tn__snode *block;
  tn_dtype dtype;
  int at;
  if (!read_to_cache(p, &block, &at)) return false;
  if (!tn__sched_casts(p->s, block, block->block.reads[at].buffer, &dtype) && roll(p->d, 16) > 0)
    return say(p, "cache_read \"%s\" %d %d", block->name, at, scope(p));
  return say(p, "cache_read_cast \"%s\" %d %d", block->name, at, scope(p));
}

static inline bool propose_cache_read_in_order(proposal *p) {
  const tn__snode *block;
  int at;
  if (!read_to_cache(p, &block, &at)) return false;
  int rank = block->block.reads[at].buffer->rank, first = rank == 0 ? 0 : roll(p->d, rank);
  int length = snprintf(p->text, STEP_TEXT, "cache_read_in_order \"%s\" %d %d", block->name, at, scope(p));
  for (int i = 0; i < rank && length < STEP_TEXT; i++)
    length += snprintf(p->text + length, STEP_TEXT - (size_t)length, " %d", (first + i) % rank);
  return length < STEP_TEXT;
}

/* Is all that uses what the block writes inside of a loop over blocks? */
static inline bool is_used_in_block(proposal *p, const tn__snode *block) {
  tn__snodes users = {0};
  tn__sched_users(p->s, block->block.writes[0].buffer, &users);
  const tn__snode *at = users.data[0];
  for (int i = 1; i < users.count; i++) at = tn__sched_common_ancestor(users.data[i], at);
  while (at->parent != NULL && (at->is_block || !tn__ir_loop_is_block(at->kind))) at = at->parent;
  return at->parent != NULL;
}

static inline bool has_part(proposal *p, tn__snode *block) {
  return block->block.predicate == tn__ir_bool(p->s->ir, true) && tn__sched_hoistable(block, 0) != NULL;
}

static inline bool propose_hoist(proposal *p) {
  const tn__snode *block = choose(p, true, has_part);
  if (block == NULL) return false;
  int count = 0;
  while (count < 4 && tn__sched_hoistable(block, count) != NULL) count++;
  return say(p, "hoist \"%s\" %d %d", block->name, roll(p->d, count + 1), roll(p->d, 2));
}

static inline bool propose_set_scope(proposal *p) {
  const tn__snode *block = choose(p, true, writes_intermediate);
  if (block == NULL) return false;
  int rare = is_used_in_block(p, block) ? TN__SCOPE_SHARED : TN__SCOPE_REGISTER;
  return say(p, "set_scope \"%s\" 0 %d", block->name, roll(p->d, 4) == 0 ? rare : scope(p));
}

/* Those that islands have, or one that no device has to give. */
static inline bool propose_set_memory(proposal *p) {
  int inputs = tn__te_input_count(p->s->te), count = inputs + tn__te_output_count(p->s->te), at = roll(p->d, count);
  for (int i = 0; i < count && p->s->memories.count < count; i++, at = (at + 1) % count) {
    bool set = false;
    for (int m = 0; m < p->s->memories.count; m++) set |= p->s->memories.data[m].argument == at;
    if (!set) break;
  }
  const tn__buffer *argument = at < inputs ? tn__te_input_at(p->s->te, at) : tn__te_output_at(p->s->te, at - inputs);
  int memory = roll(p->d, 12) == 0 ? TN__MEMORY_TILE : roll(p->d, 2) == 0 ? TN__MEMORY_TEXTURE : TN__MEMORY_GLOBAL;
  return say(p, "set_memory \"%s\" %d", argument->name, memory);
}

static inline bool propose_decompose_reduction(proposal *p) {
  const tn__snode *block = choose(p, true, has_init), *top = NULL;
  if (block == NULL) return false;
  for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent)
    if (tn__sched_drives(n, block, TN__AXIS_REDUCE)) top = n;
  if (top != NULL && top->parent->var != NULL && roll(p->d, 3) == 0) top = top->parent;
  return top != NULL && say(p, "decompose_reduction \"%s\" \"%s\"", block->name, top->name);
}

static inline bool propose_storage_align(proposal *p) {
  const tn__snode *block = choose(p, true, can_align);
  if (block == NULL) return false;
  int rank = block->block.writes[0].buffer->rank, by = (int[]){4, 8, 16, 3}[roll(p->d, 4)];
  return say(p, "storage_align \"%s\" 0 %d %d %d", block->name, rank < 2 ? 0 : rank - 2, by, roll(p->d, by));
}

static inline bool propose_fold_storage(proposal *p) {
  const tn__snode *block = choose(p, true, writes_intermediate);
  if (block == NULL || block->parent->var == NULL) return false;
  const tn__snode *loop = block->parent;
  for (int up = roll(p->d, 4); up > 0 && loop->parent->var != NULL; up--) loop = loop->parent;
  return say(p, "fold_storage \"%s\" \"%s\" 0", block->name, loop->name);
}

/* Of a scan's tensor, the results of which a copy takes along first where they are an output. */
static inline bool propose_fold_scan(proposal *p) {
  for (int first = p->block_count == 0 ? 0 : roll(p->d, p->block_count), i = 0; i < p->block_count; i++) {
    const tn__snode *block = p->blocks[(first + i) % p->block_count];
    if (!scans(block) || is_frozen(block)) continue;
    int at = roll(p->d, block->block.write_count);
    const tn__buffer *buffer = block->block.writes[at].buffer;
    if (!is_intermediate(p, buffer)) return say(p, "cache_write \"%s\" %d %d", block->name, at, scope(p));
    int64_t rows = tn__sched_scan_rows(p->s, block, buffer);
    return rows > 0 && say(p, "fold_scan \"%s\" %d %d", block->name, at, (int)rows + roll(p->d, 3));
  }
  return false;
}

/* What can slide in a loop around it; a step towards it where nothing can. */
static inline bool propose_slide(proposal *p) {
  tn__sched_window window;
  for (int first = p->block_count == 0 ? 0 : roll(p->d, p->block_count), i = 0; i < p->block_count; i++) {
    tn__snode *block = p->blocks[(first + i) % p->block_count];
    if (!writes_intermediate(p, block) || tn__sched_slides(p->s, block->block.writes[0].buffer, &window)) continue;
    for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent)
      if (tn__sched_cannot_slide(p->s, block->block.writes[0].buffer, n, &window) == NULL)
        return say(p, "slide \"%s\" \"%s\"", block->name, n->name);
  }
  const tn__snode *block = choose(p, true, is_producer), *loop = block == NULL ? NULL : loop_around(p, block);
  if (roll(p->d, 6) == 0) return loop != NULL && say(p, "slide \"%s\" \"%s\"", block->name, loop->name);
  tn__snodes readers = {0};
  tn__snode *path[TN__MAX_LOOPS];
  if (block == NULL) return false;
  tn__sched_readers(p->s, block->block.writes[0].buffer, &readers);
  if (readers.count == 0 || tn__sched_path(p->s, p->s->root, readers.data[0], path) == 0) return false;
  return say(p, "compute_at \"%s\" \"%s\"", block->name, path[0]->name);
}

static inline bool propose_store_over(proposal *p) {
  const tn__snode *block = choose(p, true, writes_intermediate);
  if (block == NULL || block->block.read_count == 0) return false;
  return say(p, "store_over \"%s\" %d", block->name, roll(p->d, block->block.read_count));
}

static inline bool propose_declare_constant(proposal *p) {
  int count = tn__te_input_count(p->s->te), at = roll(p->d, count);
  for (int i = 0; i < count; i++) {
    bool known = false;
    for (int c = 0; c < p->s->constants.count; c++) known |= p->s->constants.data[c].input == at;
    if (!known) break;
    at = (at + 1) % count;
  }
  return say(p, "declare_constant \"%s\"", tn__te_input_at(p->s->te, at)->name);
}

/* Any order of the dimensions, one of them in blocks. */
static inline bool propose_transform_layout(proposal *p) {
  const tn__buffer *choices[MOST_NODES];
  int count = 0;
  for (int i = 0; i < p->s->buffers.count && count < MOST_NODES / 2; i++) choices[count++] = p->s->buffers.data[i];
  for (int i = 0; i < p->s->constants.count; i++)
    if (p->s->constants.data[i].packed == NULL)
      choices[count++] = tn__te_input_at(p->s->te, p->s->constants.data[i].input);
  if (count == 0) return false;
  const tn__buffer *buffer = choices[roll(p->d, count)];
  if (buffer->rank == 0) return false;
  int first = roll(p->d, buffer->rank), blocked = roll(p->d, buffer->rank + 1), by = 2 + roll(p->d, 4);
  int64_t size;
  bool divides = blocked < buffer->rank && tn__ir_as_int(buffer->shape[blocked], &size) && size % by == 0;
  if (!divides && is_intermediate(p, buffer) && roll(p->d, 12) != 0) blocked = buffer->rank;
  int length = snprintf(p->text, STEP_TEXT, "transform_layout \"%s\"", buffer->name);
  for (int i = 0; i < buffer->rank && length < STEP_TEXT; i++) {
    int dim = (first + i) % buffer->rank;
    length += snprintf(p->text + length, STEP_TEXT - (size_t)length, " %d %d 0", dim, dim == blocked ? by : 1);
  }
  if (blocked < buffer->rank && length < STEP_TEXT)
    length += snprintf(p->text + length, STEP_TEXT - (size_t)length, " %d 1 %d", blocked, by);
  return length < STEP_TEXT;
}

static inline bool has_extent(const tn__snode *loop, int64_t extent) {
  return tn__ir_is_int_value(loop->var->extent, extent);
}

/* Where a nest is not yet what an instruction wants, a step towards it. */
static inline bool propose_tensorize(proposal *p) {
  for (int first = p->block_count == 0 ? 0 : roll(p->d, p->block_count), i = 0; i < p->block_count; i++) {
    const tn__snode *block = p->blocks[(first + i) % p->block_count], *lanes = NULL, *top = NULL;
    if (block->combiner == NULL || is_frozen(block) || block->block.body->kind != TN__STMT_STORE) continue;
    const tn__snode *inner = block->parent;
    tn_dtype sum = block->block.body->as.store.buffer->dtype;
    const char *op = sum == TN_I32 ? "x86.avx512vnni.dpbusd" : "x86.avx512bf16.dpbf16ps";
    for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent) {
      if (tn__sched_drives(n, block, TN__AXIS_REDUCE)) top = n;
      if (has_extent(n, 16) && tn__sched_drives(n, block, TN__AXIS_SPATIAL) && lanes == NULL) lanes = n;
      if (n->kind != TN__LOOP_SERIAL && lanes == NULL) inner = NULL;
    }
    if (lanes == NULL || top == NULL || inner == NULL || !has_extent(inner, sum == TN_I32 ? 4 : 2)) continue;
    const tn__snode *between = only_loop_in(lanes);
    if (between != NULL && between != inner && only_loop_in(between) == inner && is_free(p, p->loops[0]))
      return say(p, "reorder \"%s\" \"%s\"", between->name, lanes->name);
    if (block->block.init != NULL)
      return say(p, "decompose_reduction \"%s\" \"%s\"", block->name,
                 tn__sched_is_under(top, lanes) ? lanes->name : top->name);
    return say(p, "tensorize \"%s\" \"%s\"", lanes->name, op);
  }
  return false;
}

/* The block's two innermost loops, or their exchange where vectors are not along what its output has contiguous, or a
 * split of what is too long. */
static inline bool propose_transpose(proposal *p) {
  for (int first = p->block_count == 0 ? 0 : roll(p->d, p->block_count), i = 0; i < p->block_count; i++) {
    tn__snode *block = p->blocks[(first + i) % p->block_count], *lanes = block->parent, *rows = lanes->parent;
    int64_t extents[2];
    if (!is_map(block) || is_frozen(block) || lanes->var == NULL || rows == NULL || rows->var == NULL) continue;
    if (only_loop_in(rows) != lanes || lanes->children.count != 1) continue;
    if (!is_whole(p, lanes) || !is_whole(p, rows)) continue;
    if (!tn__ir_as_int(lanes->var->extent, &extents[0]) || !tn__ir_as_int(rows->var->extent, &extents[1]))
      return say(p, "split \"%s\" 0 %d", tn__ir_as_int(lanes->var->extent, &extents[0]) ? rows->name : lanes->name,
                 2 + roll(p->d, 6));
    int other = roll(p->d, 5);
    if (other == 0) return say(p, "reorder \"%s\" \"%s\"", lanes->name, rows->name);
    if (other == 1 && rows->parent->var != NULL && only_loop_in(rows->parent) == rows && is_free(p, rows->parent))
      return say(p, "reorder \"%s\" \"%s\"", rows->name, rows->parent->name);
    return say(p, "transpose \"%s\" \"%s\" \"%s\"", block->name, rows->name, lanes->name);
  }
  return false;
}

typedef struct primitive {
  const char *name;
  bool (*propose)(proposal *p);
} primitive;

static const primitive primitives[] = {
    {"split", propose_split},
    {"fuse", propose_fuse},
    {"reorder", propose_reorder},
    {"tile", propose_tile},
    {"parallel", propose_parallel},
    {"vectorize", propose_vectorize},
    {"unroll", propose_unroll},
    {"bind", propose_bind},
    {"pragma", propose_pragma},
    {"prefetch", propose_prefetch},
    {"stream", propose_stream},
    {"prefetch_ahead", propose_prefetch_ahead},
    {"prefetch_spread", propose_prefetch_spread},
    {"compute_at", propose_compute_at},
    {"reverse_compute_at", propose_reverse_compute_at},
    {"compute_root", propose_compute_root},
    {"inline", propose_inline},
    {"reverse_inline", propose_reverse_inline},
    {"cache_write", propose_cache_write},
    {"cache_read", propose_cache_read},
    {"cache_read_in_order", propose_cache_read_in_order},
    {"cache_read_cast", propose_cache_read_cast},
    {"hoist", propose_hoist},
    {"set_scope", propose_set_scope},
    {"set_memory", propose_set_memory},
    {"rfactor", propose_rfactor},
    {"rfactor_at", propose_rfactor_at},
    {"privatize", propose_privatize},
    {"peel", propose_peel},
    {"decompose_reduction", propose_decompose_reduction},
    {"storage_align", propose_storage_align},
    {"fold_storage", propose_fold_storage},
    {"fold_scan", propose_fold_scan},
    {"slide", propose_slide},
    {"store_over", propose_store_over},
    {"declare_constant", propose_declare_constant},
    {"transform_layout", propose_transform_layout},
    {"tensorize", propose_tensorize},
    {"transpose", propose_transpose},
};
enum { PRIMITIVES = sizeof(primitives) / sizeof(primitives[0]) };

/* Writes a step into `text`, of the primitive `which` or one that leads to it; false when nothing offers itself. */
static inline bool propose(tn__schedule *s, dice *d, int which, char text[STEP_TEXT]) {
  proposal p = {.s = s, .d = d};
  collect_nodes(&p, s->root);
  if (p.loop_count == 0 || p.block_count == 0 || !primitives[which].propose(&p)) return false;
  memcpy(text, p.text, STEP_TEXT);
  return true;
}

static inline int primitive_of(const char *line) {
  size_t length = strcspn(line, " ");
  for (int i = 0; i < PRIMITIVES; i++)
    if (strlen(primitives[i].name) == length && memcmp(primitives[i].name, line, length) == 0) return i;
  return -1;
}

#endif
