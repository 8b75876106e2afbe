/* Primitives that put tensors into other memory: cache_write, cache_read and set_scope. */
#include "schedule/internal.h"

/* Where a copy of a tensor goes: among the children of `parent`, at the positions `fixed` along the dimensions that
 * loops around it drive (NULL: along none). */
typedef struct copy_place {
  tn__snode *parent;
  int at;
  const tn__block_axis *const *fixed;
} copy_place;

/* A nest that copies one tensor into another; dimension d of `to` is dimension order[d] of `from`, and elements are
 * of the type of `to`. */
static tn__snode *insert_copy(tn__schedule *s, const char *name, const tn__buffer *to, const tn__buffer *from,
                              const int *order, const copy_place *place) {
  tn__ir *ir = s->ir;
  tn__block block = {.name = name, .axis_count = to->rank, .predicate = tn__ir_bool(ir, true)};
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, to->rank, tn__block_axis);
  const tn__expr *indices[TN__MAX_RANK], *source[TN__MAX_RANK];
  tn__snode *outermost = NULL, *innermost = NULL;
  for (int d = 0; d < to->rank; d++) {
    const tn__var *axis =
        tn__var_create(ir, tn__arena_printf(s->arena, "a%d", d), TN_I64, tn__ir_index(ir, 0), to->shape[d]);
    indices[d] = axis->self;
    source[order[d]] = axis->self;
    if (place->fixed != NULL && place->fixed[d] != NULL) {
      axes[d] = (tn__block_axis){.var = axis, .kind = place->fixed[d]->kind, .binding = place->fixed[d]->binding};
      continue;
    }
    tn__snode *loop =
        tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.a%d", name, d), to->shape[d], TN__LOOP_SERIAL);
    axes[d] = (tn__block_axis){.var = axis, .kind = TN__AXIS_SPATIAL, .binding = loop->var->self};
    if (innermost == NULL)
      outermost = loop;
    else
      tn__sched_append(s, innermost, loop);
    innermost = loop;
  }
  block.axes = axes;
  tn__snode *node = tn__sched_new_block(s, &block);
  const tn__expr *value = tn__ir_load(ir, from, source);
  if (to->dtype != from->dtype) value = tn__ir_cast(ir, to->dtype, value);
  tn__sched_set_body(s, node, NULL, tn__ir_store(ir, to, indices, value));
  if (innermost == NULL)
    outermost = node;
  else
    tn__sched_append(s, innermost, node);
  tn__sched_insert(s, place->parent, place->at, outermost);
  return node;
}

static const int same_order[TN__MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static const tn__region *region_at(const tn__schedule *s, const char *step, const char *name, const tn__region *regions,
                                   int count, int index) {
  if (index < 0 || index >= count)
    tn__sched_refuse(s, "%s of \"%s\": there is no tensor %d, it has %d", step, name, index, count);
  return &regions[index];
}

static void record(tn__schedule *s, const char *step, const char *name, int index, tn__scope scope) {
  const int64_t numbers[] = {index, (int64_t)scope};
  tn__sched_record(s, step, &name, 1, numbers, 2);
}

static void check_scope(const tn__schedule *s, const char *step, const char *name, tn__scope scope) {
  if (scope != TN__SCOPE_WORKSPACE && scope != TN__SCOPE_STACK && scope != TN__SCOPE_REGISTER &&
      scope != TN__SCOPE_SHARED)
    tn__sched_refuse(s, "%s of \"%s\": the scope must be workspace, stack, register or shared", step, name);
}

static void check_plain(const tn__schedule *s, const char *step, const tn__snode *block) {
  if (block->block.axis_count == 0 && block->block.body->kind != TN__STMT_STORE)
    tn__sched_refuse(s, "%s of \"%s\": an imperative block keeps its tensors", step, block->name);
}

/* The innermost loop around the block and all that reads the buffer behind it in the same nest; the root where nothing
 * there does. NULL: something reads it before, and finds what other iterations wrote. */
static tn__snode *place_of_copy(tn__schedule *s, tn__snode *block, const tn__snodes *readers, const char **reader) {
  tn__snode *place = NULL, *nest = tn__sched_root_nest(s, block);
  for (int i = 0; i < readers->count; i++) {
    if (readers->data[i] == block || tn__sched_root_nest(s, readers->data[i]) != nest) continue;
    *reader = readers->data[i]->name;
    tn__snode *both = tn__sched_common_ancestor(block->parent, readers->data[i]);
    if (place == NULL || tn__sched_is_under(place, both)) place = both;
  }
  for (int i = 0; i < readers->count && place != NULL; i++)
    if (readers->data[i] != block && tn__sched_is_under(readers->data[i], place) &&
        tn__sched_index(tn__sched_child_around(place, readers->data[i])) <=
            tn__sched_index(tn__sched_child_around(place, block)))
      return NULL;
  return place != NULL ? place : s->root;
}

/* Is the value the same in all iterations of the loops inside of `place` around the block? */
static bool stands_still(const tn__schedule *s, const tn__expr *value, const tn__snode *place, const tn__snode *block) {
  tn__snode *inner[TN__MAX_LOOPS];
  int count = tn__sched_path(s, place, block, inner);
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(value, inner[i]->var)) return false;
  return true;
}

/* Has the block all terms of its results, and all positions along axes that no loop from `place` outwards drives, in
 * one iteration of `place`? `fixed`: the axes of the other dimensions. */
TN_MUST_USE static bool is_complete_in(tn__schedule *s, const tn__snode *block, tn__snode *place,
                                       const tn__block_axis **fixed) {
  tn__snode *around[TN__MAX_LOOPS + 1];
  int count = tn__sched_path(s, s->root, place, around), axis_of_dim[TN__MAX_RANK];
  around[count++] = place;
  if (!tn__ir_is_true(block->block.predicate) || !tn__sched_identity_write(block, axis_of_dim)) return false;
  for (int i = 0; i < count; i++)
    if (tn__sched_drives(around[i], block, TN__AXIS_REDUCE)) return false;
  for (int d = 0; d < block->block.writes[0].buffer->rank; d++) {
    const tn__block_axis *axis = axis_of_dim[d] < 0 ? NULL : &block->block.axes[axis_of_dim[d]];
    fixed[d] = NULL;
    for (int i = 0; axis != NULL && i < count; i++)
      if (tn__expr_uses_var(axis->binding, around[i]->var)) fixed[d] = axis;
    if (fixed[d] != NULL && !stands_still(s, axis->binding, place, block)) return false;
  }
  return true;
}

void tn__sched_cache_write(tn__schedule *s, const char *name, int index, tn__scope scope) {
  tn__snode *block = tn__sched_block(s, "cache_write", name);
  check_scope(s, "cache_write", name, scope);
  check_plain(s, "cache_write", block);
  tn__sched_check_not_frozen(s, "cache_write", block);
  const tn__buffer *buffer =
      region_at(s, "cache_write", name, block->block.writes, block->block.write_count, index)->buffer;
  tn__snodes writers = {0}, readers = {0};
  tn__sched_check_filled(s, "cache_write", buffer);
  tn__sched_writers(s, buffer, &writers);
  tn__sched_readers(s, buffer, &readers);
  if (writers.count != 1)
    tn__sched_refuse(s, "cache_write of \"%s\": %s is written by other blocks too", name, buffer->name);
  const char *reader = NULL, *copy = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", name));
  tn__snode *place = place_of_copy(s, block, &readers, &reader);
  const tn__block_axis *fixed[TN__MAX_RANK] = {NULL};
  if (place == NULL || (place != s->root && !is_complete_in(s, block, place, fixed)))
    tn__sched_refuse(s, "cache_write of \"%s\": \"%s\" reads %s in the same nest", name, reader, buffer->name);
  const tn__buffer *local = tn__sched_add_buffer(s, tn__arena_printf(s->arena, "%s.local", buffer->name), buffer->dtype,
                                                 scope, buffer->rank, buffer->shape);
  const copy_place behind = {place, tn__sched_index(tn__sched_child_around(place, block)) + 1, fixed};
  insert_copy(s, copy, buffer, local, same_order, &behind)->exact = place == s->root || block->exact;
  tn__sched_redirect(s, block, buffer, local);
  record(s, "cache_write", name, index, scope);
}

typedef struct permuting {
  const int *order;
  int rank;
} permuting;

static void permute(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const permuting *p = user;
  for (int d = 0; d < p->rank; d++) out[d] = indices[p->order[d]];
}

/* Casts of what is loaded from a tensor; what becomes of them are loads of `to`, or in a trial (`to` is NULL) zeros. */
typedef struct casting {
  const tn__buffer *from, *to;
  tn_dtype dtype; /* of the first one that was met, once `any` was */
  bool any;
} casting;

static const tn__expr *replace_cast(tn__ir *ir, const tn__expr *e, void *user) {
  casting *c = user;
  if (e->kind != TN__EXPR_CAST || e->args[0]->kind != TN__EXPR_LOAD || e->args[0]->value.buffer != c->from) return NULL;
  if (!c->any) c->dtype = e->dtype, c->any = true;
  if (e->dtype != c->dtype) return NULL;
  return c->to != NULL ? tn__ir_load(ir, c->to, e->args[0]->args) : tn__ir_cast(ir, e->dtype, tn__ir_index(ir, 0));
}

bool tn__sched_casts(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer, tn_dtype *dtype) {
  casting trial = {.from = buffer};
  const tn__stmt *body = block->block.body;
  if (body->kind != TN__STMT_STORE) return false;
  const tn__expr *rest = tn__expr_rewrite(s->ir, body->as.store.value, replace_cast, &trial);
  *dtype = trial.dtype;
  return trial.any && !tn__expr_uses_buffer(rest, buffer);
}

static void redirect_reads(tn__schedule *s, tn__snode *block, const tn__buffer *from, const tn__buffer *to,
                           const int *order) {
  permuting p = {.order = order, .rank = to->rank};
  const tn__stmt *init = block->block.init, *body = block->block.body;
  if (from->dtype != to->dtype) {
    casting c = {.from = from, .to = to};
    const tn__expr *value = tn__expr_rewrite(s->ir, body->as.store.value, replace_cast, &c);
    tn__sched_set_body(s, block, init, tn__ir_store(s->ir, body->as.store.buffer, body->as.store.indices, value));
    return;
  }
  if (init != NULL) init = tn__stmt_replace_buffer(s->ir, init, from, to, permute, &p);
  tn__sched_set_body(s, block, init, tn__stmt_replace_buffer(s->ir, body, from, to, permute, &p));
}

static const char *cache_read(tn__schedule *s, const char *name, int index, tn__scope scope, const int *order, int rank,
                              bool casts) {
  tn__snode *block = tn__sched_block(s, "cache_read", name);
  check_scope(s, "cache_read", name, scope);
  check_plain(s, "cache_read", block);
  tn__sched_check_not_frozen(s, "cache_read", block);
  const tn__buffer *buffer =
      region_at(s, "cache_read", name, block->block.reads, block->block.read_count, index)->buffer;
  tn__sched_check_filled(s, "cache_read", buffer);
  unsigned seen = 0;
  for (int d = 0; d < rank; d++) seen |= order[d] >= 0 && order[d] < rank ? 1u << order[d] : 0;
  if (rank != buffer->rank || seen != (1u << rank) - 1)
    tn__sched_refuse(s, "cache_read of \"%s\": the order is no permutation of the %d dimensions of %s", name,
                     buffer->rank, buffer->name);
  if (tn__sched_writes(block, buffer))
    tn__sched_refuse(s, "cache_read of \"%s\": it writes %s itself", name, buffer->name);
  tn__snode *nest = tn__sched_root_nest(s, block);
  tn__snodes writers = {0};
  tn__sched_writers(s, buffer, &writers);
  for (int i = 0; i < writers.count; i++)
    if (tn__sched_index(tn__sched_root_nest(s, writers.data[i])) >= tn__sched_index(nest))
      tn__sched_refuse(s, "cache_read of \"%s\": \"%s\" writes %s in the same nest", name, writers.data[i]->name,
                       buffer->name);
  tn_dtype dtype = buffer->dtype;
  if (casts && !tn__sched_casts(s, block, buffer, &dtype))
    tn__sched_refuse(s, "cache_read_cast of \"%s\": it does not cast all that it reads of %s to one type", name,
                     buffer->name);
  const tn__expr *shape[TN__MAX_RANK];
  for (int d = 0; d < rank; d++) shape[d] = buffer->shape[order[d]];
  const tn__buffer *local =
      tn__sched_add_buffer(s, tn__arena_printf(s->arena, "%s.read", buffer->name), dtype, scope, rank, shape);
  redirect_reads(s, block, buffer, local, order);
  const char *copy = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.read%d", name, index));
  const copy_place before = {.parent = s->root, .at = tn__sched_index(nest)};
  insert_copy(s, copy, local, buffer, order, &before);
  return copy;
}

void tn__sched_cache_read(tn__schedule *s, const char *name, int index, tn__scope scope) {
  const tn__snode *block = tn__sched_block(s, "cache_read", name);
  int rank = region_at(s, "cache_read", name, block->block.reads, block->block.read_count, index)->buffer->rank;
  cache_read(s, name, index, scope, same_order, rank, false);
  record(s, "cache_read", name, index, scope);
}

void tn__sched_cache_read_cast(tn__schedule *s, const char *name, int index, tn__scope scope) {
  const tn__snode *block = tn__sched_block(s, "cache_read_cast", name);
  int rank = region_at(s, "cache_read_cast", name, block->block.reads, block->block.read_count, index)->buffer->rank;
  cache_read(s, name, index, scope, same_order, rank, true);
  record(s, "cache_read_cast", name, index, scope);
}

const char *tn__sched_cache_read_in_order(tn__schedule *s, const char *name, int index, tn__scope scope,
                                          const int *order, int rank) {
  int64_t numbers[2 + TN__MAX_RANK] = {index, (int64_t)scope};
  const char *copy = cache_read(s, name, index, scope, order, rank, false);
  for (int d = 0; d < rank; d++) numbers[2 + d] = order[d];
  tn__sched_record(s, "cache_read_in_order", &name, 1, numbers, 2 + rank);
  return copy;
}

void tn__sched_set_scope(tn__schedule *s, const char *name, int index, tn__scope scope) {
  tn__snode *block = tn__sched_block(s, "set_scope", name);
  check_scope(s, "set_scope", name, scope);
  const tn__buffer *buffer =
      region_at(s, "set_scope", name, block->block.writes, block->block.write_count, index)->buffer;
  tn__sched_check_not_bounding(s, "set_scope", buffer);
  if (tn__sched_is_output(s, buffer)) tn__sched_refuse(s, "set_scope of \"%s\": %s is an output", name, buffer->name);
  tn__snodes users = {0};
  tn__sched_users(s, buffer, &users);
  for (int i = 0; i < users.count; i++) check_plain(s, "set_scope", users.data[i]);
  const tn__buffer *moved = tn__buffer_create(s->ir, buffer->name, buffer->dtype, scope, buffer->rank, buffer->shape);
  tn__sched_replace_buffer(s, buffer, moved, NULL, NULL);
  record(s, "set_scope", name, index, scope);
}
