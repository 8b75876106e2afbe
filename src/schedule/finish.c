/* From the tree back to a function: decides where intermediate tensors are allocated and how small they may be
 * there. */
#include <stdlib.h>

#include "base/invariant.h"
#include "schedule/internal.h"

typedef struct placement {
  tn__snode *at; /* allocated around this node's children */
  const tn__buffer *buffer;
  const tn__expr **min;              /* what is subtracted from indices; NULL: nothing */
  const tn__expr *run[TN__MAX_RANK]; /* leading indices: which iteration of the loops that threads share */
  int run_count;
  int64_t rows; /* the index along ring_dim counts modulo these; 0: it does not */
  int ring_dim;
  const tn__expr *ring_end; /* from which it is counted backwards; NULL: it is not */
  int over;                 /* the placement whose room this one takes, -1: it has its own */
  int before;               /* the one before it at the same node, counted from 1; 0: there is none */
} placement;

typedef TN__VEC(placement) placements;
typedef TN__VEC(const tn__stmt *) stmts;

static bool in_vector(const tn__snode *node) {
  for (; node->parent != NULL; node = node->parent)
    if (!node->is_block && node->kind == TN__LOOP_VECTORIZED) return true;
  return false;
}

/* The hull of all accesses to the buffer in one iteration of the loops around `at`: what is written, and what is read
 * as far as it can be compared with that. The rest lies inside, since what a block reads is complete before it: of
 * A[max(i - 1, 0)] in a tile, say, nobody knows how far it is from the tile's first row. */
static void access_hull(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, const tn__snode *at,
                        const tn__expr **min, const tn__expr **extent) {
  const tn__expr *other_min[TN__MAX_RANK], *other_extent[TN__MAX_RANK];
  bool first = true;
  for (int reads = 0; reads < 2; reads++)
    for (int i = 0; i < users->count; i++) {
      tn__snode *block = users->data[i], *inner[TN__MAX_LOOPS];
      int count = tn__sched_path(s, at, block, inner);
      for (int r = 0; r < (reads ? block->block.read_count : block->block.write_count); r++) {
        const tn__region *region = reads ? &block->block.reads[r] : &block->block.writes[r];
        if (region->buffer != buffer) continue;
        tn__sched_hull(s, block, region, inner, count, first ? min : other_min, first ? extent : other_extent);
        if (!first) tn__sched_hull_union(s->ir, buffer->rank, min, extent, other_min, other_extent, reads);
        first = false;
      }
    }
}

/* What storage_align asks of the buffer, for the shape that it will have. */
static void pad(tn__schedule *s, const tn__buffer *buffer, const tn__expr **shape) {
  for (int i = 0; i < s->aligns.count; i++)
    if (s->aligns.data[i].buffer == buffer && !tn__sched_aligned_shape(s->ir, &s->aligns.data[i], buffer->rank, shape))
      tn__sched_refuse(s, "the storage of %s cannot be aligned where it is used", buffer->name);
}

/* Does an access of the block to the buffer move along dimension `dim` with the loop, and not around in it? */
static bool moves_along(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer, int dim,
                        const tn__snode *loop) {
  for (int r = 0; r < block->block.read_count + block->block.write_count; r++) {
    bool is_read = r < block->block.read_count;
    const tn__region *region = is_read ? &block->block.reads[r] : &block->block.writes[r - block->block.read_count];
    if (region->buffer != buffer) continue;
    const tn__expr *last = tn__sched_substitute_axes(s->ir, &block->block, region->min[dim]);
    int64_t stride;
    if (tn__expr_uses_var(last, loop->var) && tn__ir_stride_in(s->ir, last, loop->var, &stride)) return true;
  }
  return false;
}

/* The widest vectorised loop along dimension `dim`. */
static int64_t widest_vector(tn__schedule *s, const tn__buffer *buffer, int dim, const tn__snodes *users) {
  int64_t widest = 1, extent;
  for (int i = 0; i < users->count; i++)
    for (const tn__snode *n = users->data[i]->parent; n->parent != NULL; n = n->parent)
      if (n->kind == TN__LOOP_VECTORIZED && tn__ir_as_int(n->var->extent, &extent) && extent > widest &&
          moves_along(s, users->data[i], buffer, dim, n))
        widest = extent;
  return widest;
}

static void check_private_size(const tn__schedule *s, const tn__buffer *buffer, const tn__expr *const *shape) {
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype), size;
  for (int d = 0; d < buffer->rank; d++) {
    bytes = tn__ir_as_int(shape[d], &size) && size <= 65536 ? bytes * size : INT64_MAX / 65536;
    if (bytes > 65536)
      tn__sched_refuse(s, "%s cannot be kept private: it would need more than 64 KiB where it is used", buffer->name);
  }
}

/* A loop that carries the buffer's values from one iteration to the next has it allocated around it: that of a value of
 * an argmax that nobody reads, say, whose only user is the reduction itself. */
static tn__snode *outside_of_carriers(tn__schedule *s, tn__snode *at, const tn__buffer *buffer,
                                      const tn__snodes *users) {
  tn__snode *outside = at;
  for (tn__snode *loop = at; loop->parent != NULL; loop = loop->parent)
    for (int i = 0; i < users->count; i++) {
      const tn__snode *block = users->data[i];
      if (!tn__sched_writes(block, buffer) || !tn__sched_is_under(block, loop)) continue;
      if (tn__sched_carries(s, loop, block, buffer)) outside = loop->parent;
    }
  return outside;
}

/* What fold_scan or slide leaves of the buffer. */
static void fold_ring(tn__schedule *s, const tn__buffer *buffer, placement *p, const tn__expr **extent) {
  bool backwards = false;
  p->rows = tn__sched_rows_of(s, buffer, &p->ring_dim, &backwards);
  if (p->rows == 0) return;
  if (backwards) p->ring_end = tn__ir_add_i(s->ir, buffer->shape[p->ring_dim], -1);
  extent[p->ring_dim] = tn__ir_index(s->ir, p->rows);
  if (p->min != NULL) p->min[p->ring_dim] = tn__ir_index(s->ir, 0);
}

/* Around all that uses the buffer, and outside of the loop that it slides in. */
static tn__snode *innermost_place(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users) {
  tn__snode *at = users->data[0]->parent;
  tn__sched_window window;
  for (int i = 1; i < users->count; i++) at = tn__sched_common_ancestor(at, users->data[i]);
  if (tn__sched_slides(s, buffer, &window)) at = tn__sched_common_ancestor(at, window.loop->parent);
  while (at->parent != NULL && in_vector(at)) at = at->parent;
  return outside_of_carriers(s, at, buffer, users);
}

/* Rows of registers are whole vectors, so that a partial tile's rows don't straddle them. They run along the last
 * dimension that has more than one element. */
static void fill_rows(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, const tn__expr **extent) {
  int64_t size = 1;
  int row = buffer->rank;
  while (row > 0 && size == 1) size = tn__ir_int_or(extent[--row], size);
  int64_t lanes = size > 1 && size < 65536 ? widest_vector(s, buffer, row, users) : 1;
  if (lanes > 1) extent[row] = tn__ir_index(s->ir, (size + lanes - 1) / lanes * lanes);
}

/* Room for the region that is used inside of `at`. */
static void place_at(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, tn__snode *at,
                     placements *out) {
  const tn__expr **min = TN__NEW_ARRAY(s->arena, buffer->rank, const tn__expr *), *extent[TN__MAX_RANK] = {NULL};
  access_hull(s, buffer, users, at, min, extent);
  placement p = {.at = at, .min = min, .over = -1};
  fold_ring(s, buffer, &p, extent);
  for (int d = 0; d < buffer->rank; d++) {
    int64_t size, whole;
    bool known = tn__ir_as_int(buffer->shape[d], &whole);
    if (extent[d] == NULL || !tn__ir_as_int(extent[d], &size) || (known && size >= whole)) {
      if (!known)
        tn__sched_refuse(s, "%s cannot be kept %s: dimension %d has no constant bound where it is used", buffer->name,
                         buffer->scope == TN__SCOPE_SHARED ? "in shared memory" : "private", d);
      size = whole;
      min[d] = tn__ir_index(s->ir, 0);
    }
    extent[d] = tn__ir_index(s->ir, size);
  }
  if (buffer->scope == TN__SCOPE_REGISTER) fill_rows(s, buffer, users, extent);
  pad(s, buffer, extent);
  if (buffer->scope != TN__SCOPE_SHARED) check_private_size(s, buffer, extent);
  p.buffer = tn__buffer_create(s->ir, buffer->name, buffer->dtype, buffer->scope, buffer->rank, extent);
  tn__vec_push(s->arena, out, p);
}

/* What is shared between the threads of a parallel loop must not be written twice by them; from the loop `folded` on,
 * if there is one, each iteration has its own. Checked here for buffers in
 * the workspace, because their scope may change after the loop became parallel. */
static void check_shared(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, const tn__snode *folded) {
  for (int i = 0; i < users->count; i++) {
    const tn__snode *block = users->data[i];
    if (!tn__sched_writes(block, buffer)) continue;
    for (const tn__snode *n = block->parent; n->parent != NULL && n != folded; n = n->parent)
      if ((n->kind == TN__LOOP_PARALLEL || tn__ir_loop_is_bound(n->kind)) && !tn__sched_disjoint(s, n, block))
        tn__sched_refuse(s, "%s is shared by the threads of loop \"%s\", whose iterations write the same elements",
                         buffer->name, n->name);
  }
}

/* Inside of the loops over blocks, which share nothing, and outside of those over threads. */
static void place_in_block(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, placements *out) {
  tn__snode *at = innermost_place(s, buffer, users);
  bool in_block = false;
  for (int i = 0; i < users->count; i++)
    for (const tn__snode *n = users->data[i]->parent; n != at; n = n->parent)
      if (tn__ir_loop_is_block(n->kind))
        tn__sched_refuse(s,
                         "%s cannot be in shared memory: it is used outside of \"%s\", too, whose blocks share nothing",
                         buffer->name, n->name);
  for (const tn__snode *n = at; n->parent != NULL; n = n->parent) {
    if (tn__ir_loop_is_thread(n->kind))
      tn__sched_refuse(s, "%s cannot be in shared memory: each thread of \"%s\" has it for itself", buffer->name,
                       n->name);
    in_block = in_block || tn__ir_loop_is_block(n->kind);
  }
  if (!in_block)
    tn__sched_refuse(s, "%s cannot be in shared memory: what uses it is in no loop over blocks", buffer->name);
  check_shared(s, buffer, users, at);
  place_at(s, buffer, users, at, out);
}

static void place_shared(tn__schedule *s, const tn__buffer *buffer, placements *out) {
  const tn__expr *shape[TN__MAX_RANK] = {NULL};
  for (int d = 0; d < buffer->rank; d++) shape[d] = buffer->shape[d];
  placement p = {.at = s->root, .buffer = buffer, .over = -1};
  fold_ring(s, buffer, &p, shape);
  pad(s, buffer, shape);
  bool changed = p.rows > 0;
  for (int i = 0; i < s->aligns.count; i++) changed |= s->aligns.data[i].buffer == buffer;
  if (changed) p.buffer = tn__buffer_create(s->ir, buffer->name, buffer->dtype, buffer->scope, buffer->rank, shape);
  tn__vec_push(s->arena, out, p);
}

/* Room for one iteration of the loop `in`, as often as there are iterations of parallel loops from it outwards. */
static void place_folded(tn__schedule *s, const tn__buffer *buffer, const tn__snodes *users, const tn__snode *in,
                         placements *out) {
  placement p = {.at = s->root, .min = TN__NEW_ARRAY(s->arena, buffer->rank, const tn__expr *), .over = -1};
  const tn__expr *shape[TN__MAX_RANK] = {NULL}, *extent[TN__MAX_RANK] = {NULL};
  access_hull(s, buffer, users, in, p.min, extent);
  for (int d = 0; d < buffer->rank; d++) {
    int64_t size, whole;
    if (extent[d] != NULL && tn__ir_as_int(extent[d], &size) &&
        !(tn__ir_as_int(buffer->shape[d], &whole) && size >= whole))
      continue;
    extent[d] = buffer->shape[d];
    p.min[d] = tn__ir_index(s->ir, 0);
  }
  fold_ring(s, buffer, &p, extent);
  pad(s, buffer, extent);
  for (const tn__snode *n = in; n->parent != NULL; n = n->parent) {
    if (n->kind != TN__LOOP_PARALLEL && !tn__ir_loop_is_bound(n->kind)) continue;
    if (p.run_count + buffer->rank == TN__MAX_RANK)
      tn__sched_refuse(s, "%s cannot be folded in \"%s\": it would have more than %d dimensions", buffer->name,
                       in->name, TN__MAX_RANK);
    p.run[p.run_count] = n->var->self;
    shape[p.run_count++] = n->var->extent;
  }
  for (int d = 0; d < buffer->rank; d++) shape[p.run_count + d] = extent[d];
  p.buffer = tn__buffer_create(s->ir, buffer->name, buffer->dtype, buffer->scope, p.run_count + buffer->rank, shape);
  tn__vec_push(s->arena, out, p);
}

static void shift_indices(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const placement *p = user;
  const tn__expr **own = out + p->run_count;
  for (int r = 0; r < p->run_count; r++) out[r] = p->run[r];
  for (int d = 0; d < p->buffer->rank - p->run_count; d++) {
    own[d] = p->min == NULL ? indices[d] : tn__ir_sub(ir, indices[d], p->min[d]);
    if (p->rows == 0 || d != p->ring_dim) continue;
    if (p->ring_end != NULL) own[d] = tn__ir_sub(ir, p->ring_end, own[d]);
    own[d] = tn__ir_mod_i(ir, own[d], p->rows);
  }
}

typedef struct numbered {
  uint32_t id; /* of the buffer */
  int place;
} numbered;

typedef struct builder {
  tn__schedule *s;
  const tn__buffer **from; /* the intermediate tensors that `places` are for */
  numbered *by_id;         /* the same in the order of their numbers */
  placements places;
} builder;

static int compare_ids(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* The placement of the buffer; -1: it is no intermediate tensor. */
static int place_of(const builder *b, const tn__buffer *buffer) {
  const numbered key = {.id = buffer->id}, *found = NULL;
  if (b->places.count > 0) found = bsearch(&key, b->by_id, (size_t)b->places.count, sizeof(numbered), compare_ids);
  return found == NULL ? -1 : found->place;
}

static int compare_places(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The placements of what the block uses, in order, each once. */
TN_MUST_USE static int places_of(const builder *b, const tn__snode *node, int *out) {
  const tn__block *block = &node->block;
  int count = 0, kept = 0;
  for (int r = 0; r < block->read_count + block->write_count; r++) {
    bool is_read = r < block->read_count;
    int place = place_of(b, (is_read ? &block->reads[r] : &block->writes[r - block->read_count])->buffer);
    if (place >= 0) out[count++] = place;
  }
  qsort(out, (size_t)count, sizeof(int), compare_places);
  for (int i = 0; i < count; i++)
    if (i == 0 || out[i] != out[i - 1]) out[kept++] = out[i];
  return kept;
}

static const tn__stmt *build(builder *b, const tn__snode *node);

/* When the block's results are new rows of windows that slide; NULL: they are of none. */
static const tn__expr *new_rows(tn__schedule *s, const tn__snode *node) {
  const tn__expr *when = NULL;
  for (int w = 0; w < node->block.write_count; w++) {
    tn__sched_window window;
    if (tn__sched_slides(s, node->block.writes[w].buffer, &window))
      when = when == NULL ? window.is_new : tn__ir_and(s->ir, when, window.is_new);
  }
  return when;
}

/* The same for what only serves to make such rows, in the loops that tell which: sums in registers, say, that a block
 * of their own writes. */
static const tn__expr *serves_new_rows(tn__schedule *s, const tn__snode *node) {
  const tn__snode *reader = NULL;
  const tn__buffer *buffer = node->block.write_count == 1 ? node->block.writes[0].buffer : NULL;
  if (s->slides.count == 0 || buffer == NULL || tn__sched_is_output(s, buffer)) return NULL;
  tn__snodes readers = {0};
  tn__sched_readers(s, buffer, &readers);
  for (int i = 0; i < readers.count; i++) {
    if (tn__sched_writes(readers.data[i], buffer)) continue; /* its sums so far */
    if (reader != NULL) return NULL;
    reader = readers.data[i];
  }
  const tn__expr *when = reader == NULL ? NULL : new_rows(s, reader);
  if (when == NULL) return NULL;
  for (const tn__snode *n = reader->parent; n->var != NULL; n = n->parent)
    if (tn__expr_uses_var(when, n->var) && !tn__sched_is_under(node, n)) return NULL;
  return when;
}

static const tn__stmt *build_block(builder *b, const tn__snode *node) {
  tn__ir *ir = b->s->ir;
  tn__block block = node->block;
  bool changed = false;
  const tn__expr *when = new_rows(b->s, node);
  if (when == NULL) when = serves_new_rows(b->s, node);
  if (when != NULL) block.predicate = tn__ir_and(ir, block.predicate, when);
  int *used = TN__NEW_ARRAY(b->s->arena, block.read_count + block.write_count, int);
  int count = places_of(b, node, used);
  for (int i = 0; i < count; i++) {
    TN__INVARIANT(b->from != NULL); /* there are as many as places */
    const tn__buffer *from = b->from[used[i]];
    placement *p = &b->places.data[used[i]];
    if (p->buffer == from) continue;
    block.body = tn__stmt_replace_buffer(ir, block.body, from, p->buffer, shift_indices, p);
    if (block.init != NULL) block.init = tn__stmt_replace_buffer(ir, block.init, from, p->buffer, shift_indices, p);
    changed = true;
  }
  if (changed) tn__te_block_regions(ir, &block);
  if (node->streams != NULL && tn__sched_cannot_stream(b->s, node, node->streams) == NULL)
    block.body = tn__stmt_stream(ir, block.body, node->streams);
  return tn__block_stmt(ir, &block);
}

static const tn__stmt *build_children(builder *b, const tn__snode *node) {
  tn__ir *ir = b->s->ir;
  const tn__stmt **items = TN__NEW_ARRAY(b->s->arena, node->children.count, const tn__stmt *);
  for (int i = 0; i < node->children.count; i++) items[i] = build(b, node->children.data[i]);
  const tn__stmt *body = tn__ir_seq(ir, items, node->children.count);
  for (int shared = 0; shared < 2; shared++) /* what threads share goes around what they do not */
    for (int i = node->placed; i > 0; i = b->places.data[i - 1].before) {
      const placement *p = &b->places.data[i - 1];
      if (p->over < 0 && (p->buffer->scope == TN__SCOPE_WORKSPACE) == (shared == 1))
        body = tn__ir_alloc_stmt(ir, p->buffer, body);
    }
  return body;
}

/* The buffer as the function has it. */
static const tn__buffer *placed(const builder *b, const tn__buffer *buffer) {
  int place = place_of(b, buffer);
  return place < 0 ? buffer : b->places.data[place].buffer;
}

/* Not what is private in the end, or does not lie as its indices say. */
static bool may_prefetch(const builder *b, const tn__sched_prefetch *p, const tn__buffer *buffer) {
  int dim;
  bool backwards;
  if (buffer->scope != TN__SCOPE_PARAM && buffer->scope != TN__SCOPE_WORKSPACE) return false;
  return tn__sched_folded_in(b->s, p->buffer) == NULL && tn__sched_rows_of(b->s, p->buffer, &dim, &backwards) == 0;
}

/* One prefetch for every line of the rows that will be read, up to a few of each. Rows lie along the innermost other
 * dimension of which there are several. More rows than L1 may have room for in a set go to L2:
 * a power of two apart, they would drive each other out before they are used. */
static void build_prefetch(builder *b, const tn__snode *loop, const tn__sched_prefetch *p, stmts *out) {
  enum { MOST_LINES = 16, MOST_ROWS = 16, MOST_PLACES = 128 };
  tn__ir *ir = b->s->ir;
  const tn__expr *first[TN__MAX_RANK], *extent[TN__MAX_RANK], *indices[TN__MAX_RANK];
  const tn__buffer *buffer = placed(b, p->buffer);
  int last = buffer->rank - 1, down = last - 1;
  if (!may_prefetch(b, p, buffer)) return;
  if (!tn__sched_prefetch_start(b->s, loop, p, first, extent)) return;
  int64_t per_line = b->s->target->cpu.machine.costs.line_bytes / (int64_t)tn_dtype_size(buffer->dtype), lines = 1,
          rows = 1, size;
  if (last >= 0 && extent[last] != NULL && tn__ir_as_int(extent[last], &size)) lines = (size + per_line - 1) / per_line;
  if (lines > MOST_LINES) lines = MOST_LINES;
  while (down > 0 && extent[down] != NULL && tn__ir_is_int_value(extent[down], 1)) down--;
  if (down >= 0 && extent[down] != NULL && tn__ir_as_int(extent[down], &size)) rows = size;
  for (int d = 0; d <= last; d++) indices[d] = first[d];
  for (int64_t r = 0; r < rows && r < MOST_ROWS; r++)
    for (int64_t l = 0; l < lines && r * lines < MOST_PLACES; l++) {
      if (down >= 0) indices[down] = tn__ir_add_i(ir, first[down], r);
      if (last >= 0) indices[last] = tn__ir_add_i(ir, first[last], l * per_line);
      tn__vec_push(b->s->arena, out, tn__ir_prefetch_stmt(ir, buffer, indices, rows > TN__RULE_ROWS_TO_L1));
    }
}

/* The elements of a region that lies in one piece; 0: it does not, or it is not known. */
static int64_t piece_of(const tn__buffer *buffer, const tn__expr *const *extent) {
  int64_t piece = 1, size, shape;
  bool whole = true; /* all dimensions so far: the next one goes on behind them */
  if (buffer->strides != NULL) return 0;
  for (int d = buffer->rank - 1; d >= 0; d--) {
    if (extent[d] == NULL || !tn__ir_as_int(extent[d], &size) || !tn__ir_as_int(buffer->shape[d], &shape)) return 0;
    if (size > 1 && !whole) return 0;
    piece = tn__ir_bound_mul(piece, size);
    whole = whole && size == shape;
  }
  return piece;
}

/* The share of one iteration of `loop`: the region's elements in order, as the loops go by. */
static void build_spread(builder *b, const tn__snode *loop, const tn__sched_prefetch *p, stmts *out) {
  enum { MOST_LINES = 16 };
  tn__ir *ir = b->s->ir;
  const tn__expr *first[TN__MAX_RANK], *extent[TN__MAX_RANK], *turn = tn__ir_index(ir, 0);
  const tn__buffer *buffer = placed(b, p->buffer);
  int64_t turns = 1, trips, per_line = b->s->target->cpu.machine.costs.line_bytes;
  if (!may_prefetch(b, p, buffer) || !tn__sched_is_under(loop, p->ahead)) return;
  for (const tn__snode *at = loop; at != p->ahead; at = at->parent) {
    if (!tn__ir_as_int(at->var->extent, &trips)) return;
    const tn__expr *steps = tn__ir_mul_i(ir, at->var->self, turns);
    turn = tn__ir_add(ir, steps, turn);
    turns = tn__ir_bound_mul(turns, trips);
  }
  if (!tn__sched_prefetch_start(b->s, p->ahead, p, first, extent)) return;
  int64_t piece = piece_of(buffer, extent), share;
  per_line /= (int64_t)tn_dtype_size(buffer->dtype);
  if (piece == 0 || buffer->rank == 0 || per_line < 1 || turns < 1) return;
  share = piece / turns + (piece % turns > 0);
  const tn__expr *last = first[buffer->rank - 1], *begin = tn__ir_mul_i(ir, turn, share);
  for (int64_t l = 0; l < MOST_LINES && l * per_line < share; l++) {
    const tn__expr *past = tn__ir_add_i(ir, begin, l * per_line);
    first[buffer->rank - 1] = tn__ir_add(ir, last, past);
    tn__vec_push(b->s->arena, out, tn__ir_prefetch_stmt(ir, buffer, first, true));
  }
}

/* Steps of a scan are lanes while its state is what it was when that was said. */
static tn__loop_kind kind_of(tn__schedule *s, const tn__snode *loop) {
  for (int i = 0; i < loop->children.count && loop->kind == TN__LOOP_VECTORIZED; i++) {
    const tn__snode *block = loop->children.data[i];
    if (block->is_block && tn__sched_drives(loop, block, TN__AXIS_SCAN) && !tn__sched_runs_in_vector(s, loop, block))
      return TN__LOOP_SERIAL;
  }
  return loop->kind;
}

static const tn__stmt *build(builder *b, const tn__snode *node) {
  if (node->is_block) return build_block(b, node);
  const tn__stmt *body = build_children(b, node);
  if (node->var == NULL) return body;
  if (node->prefetches.count > 0) {
    stmts items = {0};
    for (int i = 0; i < node->prefetches.count; i++) {
      const tn__sched_prefetch *p = &node->prefetches.data[i];
      (p->spread ? build_spread : build_prefetch)(b, node, p, &items);
    }
    tn__vec_push(b->s->arena, &items, body);
    body = tn__ir_seq(b->s->ir, items.data, items.count);
  }
  body = tn__ir_for_with(b->s->ir, node->var, kind_of(b->s, node), &node->pragmas, body);
  if (node->tensor == NULL) return body;
  const char *why;
  const tn__stmt *tensor = tn__sched_tensor_stmt(b->s, node->tensor, body, &why);
  if (tensor == NULL)
    tn__sched_refuse(b->s, "\"%s\" cannot be the instruction %s in the end: %s", node->name,
                     tn__ir_tensor_name(node->tensor->op), why);
  return tensor;
}

static bool have_same_room(const placement *a, const placement *b) {
  if (a->rows > 0 || b->rows > 0) return false;
  if (a->at != b->at || a->buffer->scope != b->buffer->scope || a->buffer->scope == TN__SCOPE_REGISTER) return false;
  if (a->buffer->rank != b->buffer->rank || a->run_count != b->run_count || (a->min == NULL) != (b->min == NULL))
    return false;
  for (int d = 0; d < a->buffer->rank; d++)
    if (a->buffer->shape[d] != b->buffer->shape[d]) return false;
  for (int r = 0; r < a->run_count; r++)
    if (a->run[r] != b->run[r]) return false;
  for (int d = 0; a->min != NULL && d < a->buffer->rank - a->run_count; d++)
    if (a->min[d] != b->min[d]) return false;
  return true;
}

/* What store_over asks for, where it still may. */
static void share_room(builder *b) {
  tn__schedule *s = b->s;
  for (int o = 0; o < s->overs.count; o++) {
    int from = place_of(b, s->overs.data[o].buffer), to = place_of(b, s->overs.data[o].over);
    if (from >= 0 && to >= 0 && have_same_room(&b->places.data[from], &b->places.data[to]) &&
        tn__sched_cannot_store_over(s, b->from[from], b->from[to]) == NULL)
      b->places.data[from].over = to;
  }
  for (int i = 0; i < b->places.count; i++) {
    int room = i;
    while (b->places.data[room].over >= 0) room = b->places.data[room].over;
    b->places.data[i].buffer = b->places.data[room].buffer;
  }
}

static void forget_places(tn__snode *node) {
  node->placed = 0;
  for (int i = 0; i < node->children.count; i++) forget_places(node->children.data[i]);
}

/* Decides for every intermediate tensor that is used where it is allocated. */
static void place_all(builder *b) {
  tn__schedule *s = b->s;
  TN__VEC(const tn__buffer *) from = {0};
  for (int i = 0; i < s->buffers.count; i++) {
    const tn__buffer *buffer = s->buffers.data[i];
    tn__snodes users = {0};
    tn__sched_users(s, buffer, &users);
    if (users.count == 0) continue;
    if (buffer->scope == TN__SCOPE_WORKSPACE) {
      const tn__snode *folded = tn__sched_folded_in(s, buffer);
      check_shared(s, buffer, &users, folded);
      if (folded != NULL)
        place_folded(s, buffer, &users, folded, &b->places);
      else
        place_shared(s, buffer, &b->places);
    } else if (buffer->scope == TN__SCOPE_SHARED) {
      place_in_block(s, buffer, &users, &b->places);
    } else {
      place_at(s, buffer, &users, innermost_place(s, buffer, &users), &b->places);
    }
    tn__vec_push(s->arena, &from, buffer);
  }
  b->from = from.data;
  b->by_id = TN__NEW_ARRAY(s->arena, from.count, numbered);
  for (int i = 0; i < from.count; i++) b->by_id[i] = (numbered){from.data[i]->id, i};
  if (from.count > 0) qsort(b->by_id, (size_t)from.count, sizeof(numbered), compare_ids);
  forget_places(s->root);
  for (int i = 0; i < b->places.count; i++) {
    placement *p = &b->places.data[i];
    p->before = p->at->placed;
    p->at->placed = i + 1;
  }
}

static int64_t bytes_of(const tn__buffer *buffer) {
  int64_t bytes = (int64_t)tn_dtype_size(buffer->dtype), size;
  for (int d = 0; d < buffer->rank; d++)
    if (tn__ir_as_int(buffer->shape[d], &size)) bytes = tn__ir_bound_mul(bytes, size);
  return bytes;
}

/* A nest is started as one, with all that its blocks share. */
static void add_up_shared(builder *b) {
  tn__schedule *s = b->s;
  s->shared_bytes = 0;
  for (int n = 0; n < s->root->children.count; n++) {
    const tn__snode *nest = s->root->children.data[n];
    int64_t bytes = 0;
    for (int i = 0; i < b->places.count; i++) {
      const placement *p = &b->places.data[i];
      if (p->buffer->scope == TN__SCOPE_SHARED && p->over < 0 && tn__sched_is_under(p->at, nest))
        bytes = tn__ir_bound_add(bytes, bytes_of(p->buffer));
    }
    if (bytes > s->shared_bytes) s->shared_bytes = bytes, s->shared_by = nest->name;
  }
}

static void limit_shared(const tn__schedule *s, int64_t most) {
  if (s->shared_bytes > most)
    tn__sched_refuse(s, "blocks of the nest \"%s\" need %lld bytes of shared memory, and may have %lld", s->shared_by,
                     (long long)s->shared_bytes, (long long)most);
}

/* Also notes what the schedule shares. */
static const tn__func *finish(tn__schedule *s) {
  builder b = {.s = s};
  place_all(&b);
  share_room(&b);
  add_up_shared(&b);
  if (tn__target_is_gpu(s->target)) limit_shared(s, s->target->gpu.shared_bytes);
  const tn__stmt *body = build(&b, s->root);
  const tn__te *te = s->te;
  const tn__buffer **params =
      TN__NEW_ARRAY(s->arena, tn__te_input_count(te) + tn__te_output_count(te), const tn__buffer *);
  const tn__var **dims = TN__NEW_ARRAY(s->arena, tn__te_dim_count(te), const tn__var *);
  int inputs = tn__te_input_count(te);
  for (int i = 0; i < inputs; i++) params[i] = tn__te_input_at(te, i);
  for (int i = 0; i < s->constants.count; i++)
    if (s->constants.data[i].packed != NULL) params[s->constants.data[i].input] = s->constants.data[i].packed;
  for (int i = 0; i < tn__te_output_count(te); i++) params[inputs + i] = tn__te_output_at(te, i);
  for (int i = 0; i < tn__te_dim_count(te); i++) dims[i] = tn__te_dim_at(te, i);
  return tn__func_create(s->ir, tn__te_name(te), params, inputs, params + inputs, tn__te_output_count(te), dims,
                         tn__te_dim_count(te), body);
}

const tn__func *tn__schedule_func(const tn__schedule *s) {
  if (s->func == NULL) tn__sched_mutable(s)->func = finish(tn__sched_mutable(s));
  return s->func;
}

void tn__sched_limit_shared(const tn__schedule *s, int64_t most) {
  tn__schedule_func(s);
  if (most > 0) limit_shared(s, most);
}
