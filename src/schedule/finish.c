/* From the tree back to a function: decides where intermediate tensors are allocated and how small they may be there.
 */
#include "schedule/internal.h"

typedef struct placement {
  tn__snode *at; /* allocated around this node's children */
  const tn__buffer *buffer;
  const tn__expr **min; /* what is subtracted from indices; NULL: nothing */
} placement;

typedef TN__VEC(placement) placements;

static tn__snode *common_ancestor(tn__snode *a, const tn__snode *b) {
  while (!tn__sched_is_under(b, a)) a = a->parent;
  return a;
}

static bool in_vector(const tn__snode *node) {
  for (; node->parent != NULL; node = node->parent)
    if (!node->is_block && node->kind == TN__LOOP_VECTORIZED) return true;
  return false;
}

/* The hull of all accesses to the buffer in one iteration of the loops around `at`. */
static void access_hull(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, const tn__snode *at,
                        const tn__expr **min, const tn__expr **extent) {
  const tn__expr *other_min[TN__MAX_RANK], *other_extent[TN__MAX_RANK];
  bool first = true;
  for (int i = 0; i < users->count; i++) {
    tn__snode *block = users->data[i], *inner[TN__MAX_LOOPS];
    int count = tn__sched_path(s, at, block, inner);
    for (int r = 0; r < block->block.read_count + block->block.write_count; r++) {
      bool is_read = r < block->block.read_count;
      const tn__region *region = is_read ? &block->block.reads[r] : &block->block.writes[r - block->block.read_count];
      if (region->buffer != buffer) continue;
      tn__sched_hull(s, block, region, inner, count, first ? min : other_min, first ? extent : other_extent);
      if (!first) tn__sched_hull_union(s->ir, buffer->rank, min, extent, other_min, other_extent);
      first = false;
    }
  }
}

static void place_private(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, placements *out) {
  tn__snode *at = users->data[0]->parent;
  for (int i = 1; i < users->count; i++) at = common_ancestor(at, users->data[i]);
  while (at->parent != NULL && in_vector(at)) at = at->parent;
  const tn__expr **min = TN__NEW_ARRAY(s->arena, buffer->rank, const tn__expr *), *extent[TN__MAX_RANK];
  access_hull(s, buffer, users, at, min, extent);
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype);
  for (int d = 0; d < buffer->rank; d++) {
    int64_t size, whole;
    bool known = tn__as_int(buffer->shape[d], &whole);
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): regions have their buffer's rank */
    if (extent[d] == NULL || !tn__as_int(extent[d], &size) || (known && size >= whole)) {
      if (!known)
        tn__sched_refuse(s, "%s cannot be kept private: dimension %d has no constant bound where it is used",
                         buffer->name, d);
      size = whole;
      min[d] = tn__index(s->ir, 0);
    }
    extent[d] = tn__index(s->ir, size);
    bytes = size > 65536 ? INT64_MAX / 65536 : bytes * size;
    if (bytes > 65536)
      tn__sched_refuse(s, "%s cannot be kept private: it would need more than 64 KiB where it is used", buffer->name);
  }
  const tn__buffer *small = tn__buffer_create(s->ir, buffer->name, buffer->dtype, buffer->scope, buffer->rank, extent);
  placement p = {.at = at, .buffer = small, .min = min};
  tn__vec_push(s->arena, out, p);
}

static void shift_indices(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const placement *p = user;
  for (int d = 0; d < p->buffer->rank; d++) out[d] = tn__sub(ir, indices[d], p->min[d]);
}

typedef struct builder {
  tn__schedule *s;
  const tn__buffer **from; /* buffers that shrink, parallel to private_places */
  placements private_places, shared;
} builder;

static const tn__stmt *build(builder *b, const tn__snode *node);

static const tn__stmt *build_block(builder *b, const tn__snode *node) {
  tn__ir *ir = b->s->ir;
  tn__block block = node->block;
  bool changed = false;
  for (int i = 0; i < b->private_places.count; i++) {
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a block has loops and writes one tensor at least */
    if (!tn__sched_reads(node, b->from[i]) && !tn__sched_writes(node, b->from[i])) continue;
    placement *p = &b->private_places.data[i];
    block.body = tn__stmt_replace_buffer(ir, block.body, b->from[i], p->buffer, shift_indices, p);
    if (block.init != NULL)
      block.init = tn__stmt_replace_buffer(ir, block.init, b->from[i], p->buffer, shift_indices, p);
    changed = true;
  }
  if (changed) tn__te_block_regions(ir, &block);
  return tn__block_stmt(ir, &block);
}

static const tn__stmt *build_children(builder *b, const tn__snode *node) {
  tn__ir *ir = b->s->ir;
  const tn__stmt **items = TN__NEW_ARRAY(b->s->arena, node->children.count, const tn__stmt *);
  for (int i = 0; i < node->children.count; i++) items[i] = build(b, node->children.data[i]);
  const tn__stmt *body = tn__seq(ir, items, node->children.count);
  const placements *lists[] = {&b->private_places, &b->shared};
  for (int l = 0; l < 2; l++)
    for (int i = lists[l]->count - 1; i >= 0; i--)
      if (lists[l]->data[i].at == node) body = tn__alloc_stmt(ir, lists[l]->data[i].buffer, body);
  return body;
}

static const tn__stmt *build(builder *b, const tn__snode *node) {
  if (node->is_block) return build_block(b, node);
  const tn__stmt *body = build_children(b, node);
  return node->var == NULL ? body : tn__for(b->s->ir, node->var, node->kind, body);
}

/* What is shared between the threads of a parallel loop must not be written twice by them. Checked here for buffers in
 * the workspace, because their scope may change after the loop became parallel. */
static void check_shared(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users) {
  for (int i = 0; i < users->count; i++) {
    const tn__snode *block = users->data[i];
    if (!tn__sched_writes(block, buffer)) continue;
    for (const tn__snode *n = block->parent; n->parent != NULL; n = n->parent)
      if (n->kind == TN__LOOP_PARALLEL && !tn__sched_disjoint(s, n, block))
        tn__sched_refuse(s, "%s is shared by the threads of loop \"%s\", whose iterations write the same elements",
                         buffer->name, n->name);
  }
}

const tn__func *tn__sched_finish(tn__schedule *s) {
  builder b = {.s = s};
  TN__VEC(const tn__buffer *) from = {0};
  for (int i = 0; i < s->buffers.count; i++) {
    const tn__buffer *buffer = s->buffers.data[i];
    tn__snodes all = {0}, users = {0};
    tn__sched_blocks(s, s->root, &all);
    for (int j = 0; j < all.count; j++)
      if (tn__sched_reads(all.data[j], buffer) || tn__sched_writes(all.data[j], buffer))
        tn__vec_push(s->arena, &users, all.data[j]);
    if (users.count == 0) continue;
    if (buffer->scope == TN__SCOPE_WORKSPACE) {
      check_shared(s, buffer, &users);
      placement p = {.at = s->root, .buffer = buffer};
      tn__vec_push(s->arena, &b.shared, p);
    } else {
      place_private(s, buffer, &users, &b.private_places);
      tn__vec_push(s->arena, &from, buffer);
    }
  }
  b.from = from.data;
  const tn__stmt *body = build(&b, s->root);
  const tn__te *te = s->te;
  const tn__buffer **params =
      TN__NEW_ARRAY(s->arena, tn__te_input_count(te) + tn__te_output_count(te), const tn__buffer *);
  const tn__var **dims = TN__NEW_ARRAY(s->arena, tn__te_dim_count(te), const tn__var *);
  int inputs = tn__te_input_count(te);
  for (int i = 0; i < inputs; i++) params[i] = tn__te_input_at(te, i);
  for (int i = 0; i < tn__te_output_count(te); i++) params[inputs + i] = tn__te_output_at(te, i);
  for (int i = 0; i < tn__te_dim_count(te); i++) dims[i] = tn__te_dim_at(te, i);
  return tn__func_create(s->ir, tn__te_name(te), params, inputs, params + inputs, tn__te_output_count(te), dims,
                         tn__te_dim_count(te), body);
}
