/* Moves on an outline, and the same on a schedule. */
#include "schedule/outline/outline.h"

#include <string.h>

#include "base/invariant.h"

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

/* Is there room for so many more? Without it the outline is none. */
static bool has_room(tn__outline *o, int nodes) {
  if (o->count + nodes > TN__OUTLINE_NODES) o->full = true;
  if (o->full && o->s != NULL)
    tn__sched_refuse(o->s, "an outline has no room for more than %d loops and blocks", TN__OUTLINE_NODES);
  return !o->full;
}

static int add_node(tn__outline *o, const tn__outline_node *node) {
  TN__INVARIANT(o->count < TN__OUTLINE_NODES); /* has_room() was asked */
  o->node[o->count] = *node;
  o->node[o->count].parent = o->node[o->count].first = o->node[o->count].next = -1;
  return o->count++;
}

/* Puts the node behind `before` among the children of `parent`; -1: in front of all. */
static void insert_behind(tn__outline *o, int parent, int before, int node) {
  int16_t *link = before < 0 ? &o->node[parent].first : &o->node[before].next;
  o->node[node].parent = (int16_t)parent;
  o->node[node].next = *link;
  *link = (int16_t)node;
}

static int sibling_before(const tn__outline *o, int node) {
  int before = -1;
  for (int n = o->node[o->node[node].parent].first; n != node; n = o->node[n].next) before = n;
  return before;
}

static int last_child(const tn__outline *o, int parent) {
  int last = -1;
  for (int n = o->node[parent].first; n >= 0; n = o->node[n].next) last = n;
  return last;
}

static void detach(tn__outline *o, int node) {
  int before = sibling_before(o, node), parent = o->node[node].parent;
  *(before < 0 ? &o->node[parent].first : &o->node[before].next) = o->node[node].next;
  o->node[node].parent = o->node[node].next = -1;
}

/* Takes a leaf out together with the loops that have nothing else in them. */
static void remove_leaf(tn__outline *o, int leaf) {
  while (true) {
    int parent = o->node[leaf].parent;
    detach(o, leaf);
    if (parent == 0 || o->node[parent].first >= 0) return;
    leaf = parent;
  }
}

static void give_children(tn__outline *o, int from, int to) {
  o->node[to].first = o->node[from].first;
  for (int n = o->node[to].first; n >= 0; n = o->node[n].next) o->node[n].parent = (int16_t)to;
  if (from != to) o->node[from].first = -1;
}

int tn__outline_path(const tn__outline *o, int node, int *out) {
  int count = 0;
  for (int n = o->node[node].parent; n > 0; n = o->node[n].parent) out[count++] = n;
  for (int i = 0; i < count / 2; i++) {
    int swapped = out[i];
    out[i] = out[count - 1 - i];
    out[count - 1 - i] = swapped;
  }
  return count;
}

int tn__outline_block(const tn__outline *o, tn__outline_role role) {
  for (int n = 1; n < o->count; n++)
    if (o->node[n].is_block && o->node[n].role == role && o->node[n].parent >= 0) return n;
  return -1;
}

int tn__outline_stage_block(const tn__outline *o, int stage) {
  for (int n = 1; n < o->count; n++) {
    const tn__outline_node *b = &o->node[n];
    if (b->is_block && b->stage == stage && b->parent >= 0 &&
        b->role == (o->facts[stage]->map ? TN__OUTLINE_COPY : TN__OUTLINE_REDUCE))
      return n;
  }
  return -1;
}

static const tn__outline_facts *facts_of(const tn__outline *o, int block) { return o->facts[o->node[block].stage]; }

bool tn__outline_reduces(const tn__outline_facts *facts, const tn__outline_node *loop) {
  if (loop->partial || loop->axis < 0) return !loop->partial;
  for (int x = facts->spatial; x < facts->reduce.nest.axis_count; x++)
    if (facts->axis[x] == loop->axis) return true;
  return false;
}

/* Does the loop reduce the results of the block? */
static bool reduces(const tn__outline *o, int block, int loop) {
  return tn__outline_reduces(facts_of(o, block), &o->node[loop]);
}

/* ---- the schedule beside it -------------------------------------------------------------------------------------- */

/* What stands in the schedule where the node stands in the outline. */
static const tn__snode *beside(const tn__outline *o, int node) {
  int path[TN__OUTLINE_NODES], count = tn__outline_path(o, node, path);
  const tn__snode *at = o->s->root;
  path[count++] = node;
  for (int i = 0; i < count; i++) {
    int place = 0;
    for (int n = o->node[o->node[path[i]].parent].first; n != path[i]; n = o->node[n].next) place++;
    while (i + 1 < count && o->node[path[i]].fused) i++; /* the same loop there */
    TN__INVARIANT(at->children.count > place);           /* the outline is that of the schedule */
    at = at->children.data[place];
  }
  TN__INVARIANT(at->is_block == o->node[node].is_block);
  return at;
}

static const char *name_of(const tn__outline *o, int node) { return beside(o, node)->name; }

/* ---- the start --------------------------------------------------------------------------------------------------- */

/* A block under loops over the first `count` axes of its stage, at the end of the root's nests. */
static int add_nest(tn__outline *o, int count, const tn__outline_node *block, int behind) {
  const tn__outline_facts *f = o->facts[block->stage];
  int outermost = -1, innermost = -1;
  for (int x = 0; x < count; x++) {
    const tn__outline_node loop = {.axis = f->axis[x], .extent = f->reduce.nest.extent[x], .step = 1};
    int n = add_node(o, &loop);
    if (innermost < 0)
      outermost = n;
    else
      insert_behind(o, innermost, -1, n);
    innermost = n;
  }
  int leaf = add_node(o, block);
  if (innermost < 0)
    outermost = leaf;
  else
    insert_behind(o, innermost, -1, leaf);
  insert_behind(o, 0, behind, outermost);
  return leaf;
}

static void start(tn__outline *o, tn__schedule *s) {
  static const tn__outline_node root = {.axis = -1};
  o->stage_count = 0;
  o->s = s;
  o->count = 0;
  o->full = false;
  add_node(o, &root);
}

/* The nest of one more stage, behind a nest. */
static int add_stage(tn__outline *o, const tn__outline_facts *facts, int behind) {
  int stage = o->stage_count++;
  tn__outline_node block = {.is_block = true, .stage = (int16_t)stage, .copy = -1};
  block.role = facts->map ? TN__OUTLINE_COPY : TN__OUTLINE_REDUCE;
  block.starts = !facts->map;
  if (facts->map) block.copy = 0;
  o->facts[stage] = facts;
  o->place[stage] = o->moved[stage] = 0;
  o->last[stage] = -1;
  if (has_room(o, facts->reduce.nest.axis_count + 1))
    o->last[stage] = add_nest(o, facts->reduce.nest.axis_count, &block, behind);
  return o->last[stage];
}

void tn__outline_start(tn__outline *o, const tn__outline_facts *facts, tn__schedule *s) {
  start(o, s);
  add_stage(o, facts, -1);
  const tn__outline_node copy = {.is_block = true, .role = TN__OUTLINE_COPY};
  if (facts->epilogue != NULL && has_room(o, facts->spatial + 1)) add_nest(o, facts->spatial, &copy, o->node[0].first);
}

void tn__outline_start_stages(tn__outline *o, const tn__outline_facts *const *facts, int count, tn__schedule *s) {
  start(o, s);
  for (int i = 0; i < count; i++) add_stage(o, facts[i], last_child(o, 0));
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

void tn__outline_split(tn__outline *o, int loop, const int64_t *factors, int count, int *parts) {
  for (int i = 0; i < count; i++) parts[i] = loop;
  if (!has_room(o, count - 1)) return;
  int64_t product = 1, step = o->node[loop].step, extent = o->node[loop].extent;
  if (o->s != NULL) tn__sched_split(o->s, name_of(o, loop), factors, count);
  for (int i = 0; i < count; i++) product *= factors[i] > 0 ? factors[i] : 1;
  for (int i = count - 1; i >= 0; i--) {
    parts[i] = i == 0 ? loop : add_node(o, &o->node[loop]);
    o->node[parts[i]].extent = factors[i] > 0 ? factors[i] : (extent + product - 1) / product;
    o->node[parts[i]].step = step;
    step *= o->node[parts[i]].extent;
  }
  give_children(o, loop, parts[count - 1]);
  for (int i = 1; i < count; i++) insert_behind(o, parts[i - 1], -1, parts[i]);
}

void tn__outline_reorder(tn__outline *o, const int *loops, int count) {
  int chain[TN__OUTLINE_NODES] = {0}, result[TN__OUTLINE_NODES] = {0}, length = 0, next = 0;
  if (o->full) return;
  if (o->s != NULL) {
    const char *names[TN__OUTLINE_NODES];
    for (int i = 0; i < count; i++) names[i] = name_of(o, loops[i]);
    tn__sched_reorder(o->s, names, count);
  }
  bool moved[TN__OUTLINE_NODES] = {false};
  for (int i = 0; i < count; i++) moved[loops[i]] = true;
  int top = loops[0];
  for (int n = top; n > 0; n = o->node[n].parent)
    if (moved[n]) top = n;
  for (int n = top, found = 0; found < count; n = o->node[n].first) {
    chain[length++] = n;
    found += moved[n];
  }
  for (int i = 0; i < length; i++) result[i] = moved[chain[i]] ? loops[next++] : chain[i];
  int parent = o->node[top].parent, before = sibling_before(o, top), behind = o->node[top].next,
      inside = o->node[chain[length - 1]].first;
  *(before < 0 ? &o->node[parent].first : &o->node[before].next) = (int16_t)result[0];
  for (int i = 0; i < length; i++) {
    o->node[result[i]].parent = (int16_t)(i == 0 ? parent : result[i - 1]);
    o->node[result[i]].next = (int16_t)(i == 0 ? behind : -1);
    o->node[result[i]].first = (int16_t)(i + 1 < length ? result[i + 1] : inside);
  }
  give_children(o, result[length - 1], result[length - 1]);
}

void tn__outline_kind(tn__outline *o, int loop, tn__loop_kind kind) {
  if (o->full) return;
  if (o->s != NULL) {
    const char *name = name_of(o, loop);
    if (kind == TN__LOOP_PARALLEL)
      tn__sched_parallel(o->s, name);
    else if (kind == TN__LOOP_VECTORIZED)
      tn__sched_vectorize(o->s, name);
    else
      tn__sched_unroll(o->s, name);
  }
  o->node[loop].kind = kind;
  if (o->node[o->node[loop].parent].fused) o->node[o->node[loop].parent].kind = kind;
  if (o->node[loop].fused) o->node[o->node[loop].first].kind = kind;
}

void tn__outline_fuse(tn__outline *o, int outer, int inner) {
  if (o->full) return;
  if (o->s != NULL) {
    const char *name = name_of(o, outer);
    tn__sched_fuse(o->s, name, name_of(o, inner));
  }
  o->node[outer].fused = true;
  o->node[outer].kind = o->node[inner].kind = TN__LOOP_SERIAL;
}

int tn__outline_cache_write(tn__outline *o, int block, int result) {
  const tn__outline_facts *f = facts_of(o, block);
  int nest = block;
  if (!has_room(o, f->spatial + 1)) return -1;
  if (o->s != NULL && f->out[result])
    tn__sched_cache_write(o->s, name_of(o, block), result, TN__SCOPE_REGISTER);
  else if (o->s != NULL)
    tn__sched_set_scope(o->s, name_of(o, block), result, TN__SCOPE_REGISTER);
  o->node[block].near = true;
  if (!f->out[result]) return -1;
  while (o->node[nest].parent != 0) nest = o->node[nest].parent;
  const tn__outline_node copy = {
      .is_block = true, .stage = o->node[block].stage, .role = TN__OUTLINE_COPY, .copy = (int16_t)result};
  return add_nest(o, f->spatial, &copy, nest);
}

/* Copies of the loops among `path` that drive elements of the block, one in the other. Returns the innermost, or -1. */
TN_MUST_USE static int clone_spatial(tn__outline *o, int block, const int *path, int count, int *outermost) {
  int innermost = -1;
  *outermost = -1;
  for (int i = 0; i < count; i++) {
    if (reduces(o, block, path[i])) continue;
    int loop = add_node(o, &o->node[path[i]]);
    if (innermost < 0)
      *outermost = loop;
    else
      insert_behind(o, innermost, -1, loop);
    innermost = loop;
  }
  return innermost;
}

/* The loops from below `top` around the node. */
TN_MUST_USE static int path_below(const tn__outline *o, int top, int node, int *out) {
  int path[TN__OUTLINE_NODES], count = tn__outline_path(o, node, path), from = 0;
  while (top > 0 && from < count && path[from] != top) from++;
  if (top > 0) from++;
  for (int i = from; i < count; i++) out[i - from] = path[i];
  return count - from;
}

/* The last block under the loop that reduces. */
static int producer_under(const tn__outline *o, int loop) {
  int found = -1;
  for (int n = o->node[loop].first; n >= 0; n = o->node[n].next) {
    bool makes = o->node[n].role == TN__OUTLINE_REDUCE || o->node[n].role == TN__OUTLINE_COMBINE;
    int inside = o->node[n].is_block ? (makes ? n : -1) : producer_under(o, n);
    if (inside >= 0) found = inside;
  }
  return found;
}

static void hang(tn__outline *o, int parent, int behind, int outermost, int innermost, int leaf) {
  if (innermost >= 0) insert_behind(o, innermost, -1, leaf);
  insert_behind(o, parent, behind, innermost >= 0 ? outermost : leaf);
}

void tn__outline_reverse_compute_at(tn__outline *o, int copy, int loop) {
  int path[TN__OUTLINE_NODES] = {0}, outermost;
  if (!has_room(o, TN__NEST_AXES + 1)) return;
  if (o->s != NULL) {
    const char *name = name_of(o, copy);
    tn__sched_reverse_compute_at(o->s, name, name_of(o, loop));
  }
  int producer = producer_under(o, loop), count = path_below(o, loop, producer, path);
  remove_leaf(o, copy);
  int innermost = clone_spatial(o, producer, path, count, &outermost);
  hang(o, loop, last_child(o, loop), outermost, innermost, copy);
}

/* Does the block read what the stage makes? Copies read their reduction's results, which are near. */
static bool reads_stage(const tn__outline *o, int block, int stage, bool near) {
  const tn__outline_node *n = &o->node[block];
  const tn__outline_facts *f = o->facts[n->stage];
  const tn__outline_body *body = n->role == TN__OUTLINE_COPY ? &f->copy[n->copy] : &f->reduce;
  if (near) return n->stage == stage && n->role == TN__OUTLINE_COPY;
  if (n->stage == stage || n->role == TN__OUTLINE_INIT || n->role == TN__OUTLINE_COMBINE) return false;
  if (n->role == TN__OUTLINE_COPY && !f->map) return false;
  for (int a = 0; a < body->nest.access_count; a++)
    if (!body->nest.access[a].store && body->tensor[a] == o->facts[stage]->tensor) return true;
  return false;
}

static bool reads_under(const tn__outline *o, int node, int stage, bool near) {
  if (o->node[node].is_block) return reads_stage(o, node, stage, near);
  for (int n = o->node[node].first; n >= 0; n = o->node[n].next)
    if (reads_under(o, n, stage, near)) return true;
  return false;
}

/* How much of an axis one iteration of the loops needs: the steps of the innermost loop along it. */
static int64_t needed(const tn__outline *o, const int *path, int count, int axis, int64_t extent) {
  for (int i = 0; i < count; i++)
    if (o->node[path[i]].axis == axis && o->node[path[i]].step < extent) extent = o->node[path[i]].step;
  return extent;
}

void tn__outline_compute_at(tn__outline *o, int block, int loop) {
  const tn__outline_facts *f = facts_of(o, block);
  const tn__outline_node *own = &o->node[block];
  int path[TN__OUTLINE_NODES] = {0}, before = -1, outermost = -1, innermost = -1, stage = own->stage;
  int axes = own->role == TN__OUTLINE_COPY ? f->spatial : f->reduce.nest.axis_count;
  bool near = own->near;
  if (!has_room(o, axes)) return;
  if (o->s != NULL) {
    const char *name = name_of(o, block);
    tn__sched_compute_at(o->s, name, name_of(o, loop));
  }
  remove_leaf(o, block);
  int count = tn__outline_path(o, loop, path);
  path[count++] = loop;
  for (int x = 0; x < axes; x++) {
    const tn__outline_node made = {
        .axis = f->axis[x],
        .step = 1,
        .extent = needed(o, path, x < f->spatial ? count : 0, f->axis[x], f->reduce.nest.extent[x])};
    int n = add_node(o, &made);
    if (innermost < 0)
      outermost = n;
    else
      insert_behind(o, innermost, -1, n);
    innermost = n;
  }
  for (int n = o->node[loop].first; n >= 0 && !reads_under(o, n, stage, near); n = o->node[n].next) before = n;
  hang(o, loop, before, outermost, innermost, block);
  if (!near) o->moved[stage] = loop;
}

void tn__outline_keep(tn__outline *o, int stage, bool stack) {
  if (o->full) return;
  int block = tn__outline_stage_block(o, stage);
  for (int n = 1; n < o->count && o->node[block].near; n++)
    if (o->node[n].is_block && o->node[n].stage == stage && o->node[n].role == TN__OUTLINE_COPY) block = n;
  if (o->s != NULL) {
    const char *name = name_of(o, block);
    if (stack)
      tn__sched_set_scope(o->s, name, 0, TN__SCOPE_STACK);
    else
      tn__sched_fold_storage(o->s, name, 0, name_of(o, o->moved[stage]));
  }
  o->place[stage] = o->moved[stage];
}

static void split_off_init(tn__outline *o, int block, int loop) {
  int path[TN__OUTLINE_NODES] = {0}, outermost, parent = o->node[loop].parent;
  int count = path_below(o, parent, block, path), innermost = clone_spatial(o, block, path, count, &outermost);
  tn__outline_node init = o->node[block];
  init.role = TN__OUTLINE_INIT;
  init.starts = false;
  o->node[block].starts = false;
  int leaf = add_node(o, &init);
  hang(o, parent, sibling_before(o, loop), outermost, innermost, leaf);
}

void tn__outline_decompose(tn__outline *o, int block, int loop) {
  if (!has_room(o, TN__NEST_AXES + 1)) return;
  if (o->s != NULL) {
    const char *name = name_of(o, block);
    tn__sched_decompose_reduction(o->s, name, name_of(o, loop));
  }
  split_off_init(o, block, loop);
}

void tn__outline_set_scope(tn__outline *o, int block, tn__scope scope) {
  if (o->full) return;
  if (o->s != NULL) {
    const tn__snode *node = beside(o, block);
    int count = node->block.write_count;
    for (int w = 0; w < count; w++) tn__sched_set_scope(o->s, node->name, w, scope);
  }
  o->node[block].near = true;
  /* The initialisation writes the same tensor; it stands right in front. */
  int top = block;
  while (o->node[top].parent > 0 && sibling_before(o, top) < 0) top = o->node[top].parent;
  int before = o->node[block].starts || o->node[top].parent < 0 ? -1 : sibling_before(o, top);
  while (before >= 0 && !o->node[before].is_block) before = o->node[before].first;
  if (before >= 0 && o->node[before].role == TN__OUTLINE_INIT) o->node[before].near = true;
}

int tn__outline_rfactor(tn__outline *o, int block, int loop) {
  int path[TN__OUTLINE_NODES] = {0}, outermost, top = loop;
  if (!has_room(o, 2 * TN__NEST_AXES + 3)) return block;
  if (o->s != NULL) tn__sched_rfactor(o->s, name_of(o, loop));
  for (int n = loop; n > 0; n = o->node[n].parent)
    if (reduces(o, block, n)) top = n;
  int parent = o->node[top].parent, count = path_below(o, parent, block, path);
  int innermost = clone_spatial(o, block, path, count, &outermost);
  tn__outline_node combine = o->node[block];
  combine.role = TN__OUTLINE_COMBINE;
  combine.starts = true;
  const tn__outline_node lanes = {.axis = -1, .extent = o->node[loop].extent, .step = 1};
  o->node[loop].partial = true;
  split_off_init(o, block, top);
  int lane = add_node(o, &lanes), leaf = add_node(o, &combine);
  insert_behind(o, lane, -1, leaf);
  hang(o, parent, top, outermost, innermost, lane);
  int stage = o->node[block].stage;
  if (o->last[stage] == block) o->last[stage] = leaf;
  tn__outline_set_scope(o, block, TN__SCOPE_STACK);
  return leaf;
}

void tn__outline_turn(tn__outline *o, int block, int dim) {
  int rank = facts_of(o, block)->spatial;
  tn__layout layout = {.rank = rank};
  if (o->s == NULL || o->full || dim == rank - 1) return;
  const tn__block *own = &beside(o, block)->block;
  const tn__buffer *buffers[TN__OUTLINE_RESULTS];
  int count = own->write_count;
  for (int d = 0; d < rank; d++) layout.parts[d] = (tn__layout_part){d < dim ? d : d < rank - 1 ? d + 1 : dim, 1, 0};
  for (int w = 0; w < count; w++) buffers[w] = own->writes[w].buffer;
  for (int w = 0; w < count; w++) tn__sched_transform_layout(o->s, buffers[w]->name, &layout);
}
