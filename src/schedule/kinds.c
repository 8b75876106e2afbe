/* Primitives that say how a loop runs: parallel, vectorize, unroll, bind; and what goes along with it: pragma,
 * prefetch, stream. */
#include <string.h>

#include "ir/text.h"
#include "schedule/internal.h"

/* ---- asking about loops ------------------------------------------------------------------------------------------ */

typedef bool (*loop_test)(const tn__snode *loop, const void *what);

static bool has_kind(const tn__snode *loop, const void *kind) { return loop->kind == *(const tn__loop_kind *)kind; }
static bool is_bound(const tn__snode *loop, const void *unused) { return tn__ir_loop_is_bound(loop->kind); }
static bool is_over_blocks(const tn__snode *loop, const void *unused) { return tn__ir_loop_is_block(loop->kind); }
static bool is_over_threads(const tn__snode *loop, const void *unused) { return tn__ir_loop_is_thread(loop->kind); }

/* A loop around the node, or inside of it, that the test accepts; NULL when there is none. */
static const tn__snode *find_around(const tn__snode *node, loop_test test, const void *what) {
  for (node = node->parent; node->var != NULL; node = node->parent)
    if (test(node, what)) return node;
  return NULL;
}

static const tn__snode *find_inside(const tn__snode *node, loop_test test, const void *what) {
  for (int i = 0; i < node->children.count; i++) {
    const tn__snode *child = node->children.data[i];
    if (child->is_block) continue;
    if (test(child, what)) return child;
    const tn__snode *found = find_inside(child, test, what);
    if (found != NULL) return found;
  }
  return NULL;
}

static bool around(const tn__snode *node, tn__loop_kind kind) { return find_around(node, has_kind, &kind) != NULL; }
static bool inside(const tn__snode *node, tn__loop_kind kind) { return find_inside(node, has_kind, &kind) != NULL; }

static bool is_private(tn__schedule *s, const tn__snode *loop, const tn__buffer *buffer) {
  const tn__snode *folded_in = buffer->scope == TN__SCOPE_WORKSPACE ? tn__sched_folded_in(s, buffer) : NULL;
  if (folded_in != NULL) return tn__sched_is_under(folded_in, loop);
  if (buffer->scope == TN__SCOPE_PARAM || buffer->scope == TN__SCOPE_WORKSPACE) return false;
  tn__snodes users = {0};
  tn__sched_users(s, buffer, &users);
  for (int i = 0; i < users.count; i++)
    if (!tn__sched_is_under(users.data[i], loop)) return false;
  return true;
}

void tn__sched_check_independent(tn__schedule *s, const char *step, tn__snode *loop, bool privates) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, loop, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    tn__snode *block = blocks.data[i];
    if (tn__sched_drives(loop, block, TN__AXIS_REDUCE))
      tn__sched_refuse(s, "%s of \"%s\": block \"%s\" reduces over the loop", step, loop->name, block->name);
    if (!privates && tn__sched_runs_in_vector(s, loop, block)) continue;
    if (tn__sched_drives(loop, block, TN__AXIS_SCAN))
      tn__sched_refuse(s, "%s of \"%s\": block \"%s\" scans along the loop", step, loop->name, block->name);
    if (tn__sched_disjoint(s, loop, block)) continue;
    for (int w = 0; w < block->block.write_count; w++)
      if (!privates || !is_private(s, loop, block->block.writes[w].buffer))
        tn__sched_refuse(s,
                         "%s of \"%s\": block \"%s\" writes the same elements in several iterations; "
                         "fold its tensor in the loop, or give it a private scope, before",
                         step, loop->name, block->name);
  }
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

void tn__sched_parallel(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "parallel", name);
  tn__sched_check_free(s, "parallel", loop, false);
  if (around(loop, TN__LOOP_PARALLEL) || inside(loop, TN__LOOP_PARALLEL))
    tn__sched_refuse(s, "parallel of \"%s\": parallel loops do not nest", name);
  if (find_around(loop, is_bound, NULL) != NULL || find_inside(loop, is_bound, NULL) != NULL)
    tn__sched_refuse(s, "parallel of \"%s\": it would share a nest with a loop bound to an axis of a GPU", name);
  if (around(loop, TN__LOOP_UNROLLED))
    tn__sched_refuse(s, "parallel of \"%s\": the loop stands in an unrolled one", name);
  tn__sched_check_independent(s, "parallel", loop, true);
  loop->kind = TN__LOOP_PARALLEL;
  tn__sched_record(s, "parallel", &name, 1, NULL, 0);
}

static void check_constant(tn__schedule *s, const char *step, const tn__snode *loop, int64_t most) {
  int64_t extent;
  if (!tn__ir_as_int(loop->var->extent, &extent) || extent > most)
    tn__sched_refuse(s, "%s of \"%s\": the extent must be a constant of at most %lld", step, loop->name,
                     (long long)most);
}

void tn__sched_vectorize(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "vectorize", name);
  tn__sched_check_free(s, "vectorize", loop, false);
  if (loop->prefetches.count > 0) tn__sched_refuse(s, "vectorize of \"%s\": the loop prefetches", name);
  check_constant(s, "vectorize", loop, 256);
  for (int i = 0; i < loop->children.count; i++)
    if (!loop->children.data[i]->is_block) tn__sched_refuse(s, "vectorize of \"%s\": the loop is not innermost", name);
  tn__sched_check_independent(s, "vectorize", loop, false);
  loop->kind = TN__LOOP_VECTORIZED;
  tn__sched_record(s, "vectorize", &name, 1, NULL, 0);
}

void tn__sched_unroll(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "unroll", name);
  tn__sched_check_free(s, "unroll", loop, false);
  check_constant(s, "unroll", loop, 256);
  if (inside(loop, TN__LOOP_PARALLEL)) tn__sched_refuse(s, "unroll of \"%s\": the loop holds a parallel one", name);
  loop->kind = TN__LOOP_UNROLLED;
  tn__sched_record(s, "unroll", &name, 1, NULL, 0);
}

/* ---- bind -------------------------------------------------------------------------------------------------------- */

/* A launch has one size: throws when another loop of the nest has the axis with another extent. */
static void check_extents(tn__schedule *s, const tn__snode *node, const tn__snode *loop, tn__loop_kind axis) {
  if (node->kind == axis && node->var->extent != loop->var->extent)
    tn__sched_refuse(s, "bind of \"%s\": \"%s\" is bound to %s with another extent", loop->name, node->name,
                     tn__loop_kind_name(axis));
  for (int i = 0; i < node->children.count; i++) check_extents(s, node->children.data[i], loop, axis);
}

/* The greatest number of threads along a path below the node, `loop` counted as one of their axes. */
static int64_t thread_count(const tn__snode *node, const tn__snode *loop) {
  int64_t most = 1, extent = 1;
  for (int i = 0; i < node->children.count; i++) {
    int64_t below = thread_count(node->children.data[i], loop);
    if (below > most) most = below;
  }
  if (node == loop || (tn__ir_loop_is_thread(node->kind))) extent = tn__ir_int_or(node->var->extent, extent);
  return most * extent;
}

/* Of a block. CPUs run them one after the other, as many as a usual GPU has. */
static int most_threads(const tn__target *target) {
  enum { USUAL = 1024 };
  return tn__target_is_gpu(target) ? target->gpu.threads : USUAL;
}

void tn__sched_bind(tn__schedule *s, const char *name, const char *axis_name) {
  const int most = most_threads(s->target);
  tn__snode *loop = tn__sched_loop(s, "bind", name), *nest = loop;
  int found = tn__loop_kind_find(axis_name, strlen(axis_name));
  if (found < 0 || !tn__ir_loop_is_bound((tn__loop_kind)found))
    tn__sched_refuse(s, "bind of \"%s\": there is no axis \"%.20s\": use block.x, .y, .z or thread.x, .y, .z", name,
                     axis_name);
  tn__loop_kind axis = (tn__loop_kind)found;
  tn__sched_check_free(s, "bind", loop, false);
  if (around(loop, TN__LOOP_PARALLEL) || inside(loop, TN__LOOP_PARALLEL))
    tn__sched_refuse(s, "bind of \"%s\": it would share a nest with a parallel loop", name);
  const tn__snode *other = find_around(loop, has_kind, &axis);
  if (other == NULL) other = find_inside(loop, has_kind, &axis);
  if (other != NULL)
    tn__sched_refuse(s, "bind of \"%s\": \"%s\" on the same path is bound to %s already", name, other->name, axis_name);
  other =
      tn__ir_loop_is_block(axis) ? find_around(loop, is_over_threads, NULL) : find_inside(loop, is_over_blocks, NULL);
  if (other != NULL)
    tn__sched_refuse(s, "bind of \"%s\": blocks stand around threads, and \"%s\" is bound to %s", name, other->name,
                     tn__loop_kind_name(other->kind));
  while (nest->parent != s->root) nest = nest->parent;
  check_extents(s, nest, loop, axis);
  if (tn__ir_loop_is_thread(axis)) {
    check_constant(s, "bind", loop, most);
    if (thread_count(nest, loop) > most)
      tn__sched_refuse(s, "bind of \"%s\": a block would have more than %d threads", name, most);
  }
  tn__sched_check_independent(s, "bind", loop, true);
  loop->kind = axis;
  const char *names[] = {name, axis_name};
  tn__sched_record(s, "bind", names, 2, NULL, 0);
}

/* ---- pragma ------------------------------------------------------------------------------------------------------ */

void tn__sched_pragma(tn__schedule *s, const char *name, const char *key, int64_t value) {
  tn__snode *loop = tn__sched_loop(s, "pragma", name);
  int32_t most = 0;
  tn__sched_check_not_frozen(s, "pragma", loop);
  int which = tn__loop_pragma_find(key, strlen(key), &most);
  if (which < 0)
    tn__sched_refuse(s, "pragma of \"%s\": there is no key \"%.40s\": use %s", name, key, TN__LOOP_PRAGMAS);
  if (value < 0 || value > most)
    tn__sched_refuse(s, "pragma of \"%s\": %s is 0 to %lld, not %lld", name, key, (long long)most, (long long)value);
  loop->pragmas.value[which] = (int32_t)value;
  const char *names[] = {name, key};
  tn__sched_record(s, "pragma", names, 2, &value, 1);
}

/* ---- prefetch ---------------------------------------------------------------------------------------------------- */

static void add_prefetch(tn__schedule *s, const char *block_name, int read_index, const char *loop_name,
                         const char *ahead_name, int64_t distance, bool spread) {
  const tn__snode *block = tn__sched_block(s, "prefetch", block_name), *ahead = NULL;
  tn__snode *loop = tn__sched_loop(s, "prefetch", loop_name);
  if (read_index < 0 || read_index >= block->block.read_count)
    tn__sched_refuse(s, "prefetch of \"%s\": there is no tensor %d, it reads %d", block_name, read_index,
                     block->block.read_count);
  const tn__region *region = &block->block.reads[read_index];
  const tn__buffer *buffer = region->buffer;
  if (!tn__sched_is_under(block, loop))
    tn__sched_refuse(s, "prefetch of \"%s\": it is not under \"%s\"", block_name, loop_name);
  tn__sched_check_not_frozen(s, "prefetch", loop);
  if (loop->kind == TN__LOOP_VECTORIZED)
    tn__sched_refuse(s, "prefetch of \"%s\": loop \"%s\" is vectorised", block_name, loop_name);
  if (buffer->scope != TN__SCOPE_PARAM && buffer->scope != TN__SCOPE_WORKSPACE)
    tn__sched_refuse(s, "prefetch of \"%s\": %s is private and near already", block_name, buffer->name);
  if (tn__sched_writes(block, buffer))
    tn__sched_refuse(s, "prefetch of \"%s\": it writes %s itself", block_name, buffer->name);
  if (distance < 1 || distance > 4096)
    tn__sched_refuse(s, "prefetch of \"%s\": the distance is 1 to 4096 iterations, not %lld", block_name,
                     (long long)distance);
  if (ahead_name != NULL) {
    ahead = tn__sched_loop(s, "prefetch", ahead_name);
    if (ahead == loop || !tn__sched_is_under(loop, ahead))
      tn__sched_refuse(s, "prefetch of \"%s\": \"%s\" does not stand around \"%s\"", block_name, ahead_name, loop_name);
  }
  tn__sched_prefetch p = {.block = block, .buffer = buffer, .ahead = ahead, .distance = distance, .spread = spread};
  if (!tn__sched_prefetch_start(s, spread ? ahead : loop, &p, NULL, NULL))
    tn__sched_refuse(s, "prefetch of \"%s\": where it reads %s under \"%s\" is not known", block_name, buffer->name,
                     loop_name);
  tn__vec_push(s->arena, &loop->prefetches, p);
}

void tn__sched_prefetch_block(tn__schedule *s, const char *block, int read_index, const char *loop, int64_t distance) {
  const char *names[] = {block, loop};
  const int64_t numbers[] = {read_index, distance};
  add_prefetch(s, block, read_index, loop, NULL, distance, false);
  tn__sched_record(s, "prefetch", names, 2, numbers, 2);
}

void tn__sched_prefetch_ahead(tn__schedule *s, const char *block, int read_index, const char *loop, const char *ahead,
                              int64_t distance) {
  const char *names[] = {block, loop, ahead};
  const int64_t numbers[] = {read_index, distance};
  add_prefetch(s, block, read_index, loop, ahead, distance, false);
  tn__sched_record(s, "prefetch_ahead", names, 3, numbers, 2);
}

void tn__sched_prefetch_spread(tn__schedule *s, const char *block, int read_index, const char *loop, const char *ahead,
                               int64_t distance) {
  const char *names[] = {block, loop, ahead};
  const int64_t numbers[] = {read_index, distance};
  add_prefetch(s, block, read_index, loop, ahead, distance, true);
  tn__sched_record(s, "prefetch_spread", names, 3, numbers, 2);
}

/* ---- stream ------------------------------------------------------------------------------------------------------ */

/* A vector store of less than this has no non-temporal instruction. */
#define LEAST_STREAMED_BYTES 16

typedef struct store_search {
  const tn__buffer *buffer;
  const tn__stmt *found;
  int count;
} store_search;

static bool find_store(const tn__stmt *stmt, void *user) {
  store_search *search = user;
  if (stmt->kind != TN__STMT_STORE || stmt->as.store.buffer != search->buffer) return true;
  search->found = stmt;
  search->count++;
  return true;
}

const char *tn__sched_cannot_stream(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer) {
  const tn__snode *loop = block->parent;
  store_search search = {.buffer = buffer};
  tn__snodes users = {0};
  int64_t lanes = 1, stride;
  if (!tn__sched_is_output(s, buffer)) return "which is no output";
  tn__sched_readers(s, buffer, &users);
  tn__sched_writers(s, buffer, &users);
  if (users.count != 1 || users.data[0] != block || block->combiner != NULL || block->block.init != NULL)
    return "which is read or written elsewhere, too, so that it is needed near";
  tn__stmt_walk(block->block.body, find_store, &search);
  if (search.count != 1) return "which it stores to in several places";
  if (loop->var == NULL || loop->kind != TN__LOOP_VECTORIZED || !tn__ir_as_int(loop->var->extent, &lanes))
    return "and not in vectors";
  if (lanes * (int64_t)tn_dtype_size(buffer->dtype) % LEAST_STREAMED_BYTES != 0)
    return "in vectors that are no multiple of 16 bytes";
  const tn__expr *flat = tn__buffer_flatten(s->ir, buffer, search.found->as.store.indices);
  flat = tn__sched_substitute_axes(s->ir, &block->block, flat);
  if (!tn__ir_stride_in(s->ir, flat, loop->var, &stride) || stride != 1) return "in vectors whose lanes lie apart";
  return NULL;
}

void tn__sched_stream(tn__schedule *s, const char *name, int write_index) {
  tn__snode *block = tn__sched_block(s, "stream", name);
  if (write_index < 0 || write_index >= block->block.write_count)
    tn__sched_refuse(s, "stream of \"%s\": there is no tensor %d, it writes %d", name, write_index,
                     block->block.write_count);
  const tn__buffer *buffer = block->block.writes[write_index].buffer;
  const char *why = tn__sched_cannot_stream(s, block, buffer);
  if (why != NULL) tn__sched_refuse(s, "stream of \"%s\": it writes %s, %s", name, buffer->name, why);
  if (block->streams != NULL && block->streams != buffer)
    tn__sched_refuse(s, "stream of \"%s\": it streams to %s already", name, block->streams->name);
  block->streams = buffer;
  int64_t number = write_index;
  tn__sched_record(s, "stream", &name, 1, &number, 1);
}
