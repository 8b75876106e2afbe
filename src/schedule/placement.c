/* Primitives that move whole blocks under loops of others: compute_at and reverse_compute_at. */
#include "base/invariant.h"
#include "ir/linear.h"
#include "schedule/internal.h"

/* ---- compute_at -------------------------------------------------------------------------------------------------- */

/* What one access needs in one iteration, by dimension: from `low` to `high`, NULL where that is not known. */
typedef struct need {
  int rank;
  const tn__expr *low[TN__MAX_RANK], *high[TN__MAX_RANK];
} need;

typedef struct move {
  tn__schedule *s;
  tn__snode *block, *loop;
  int axis_of_dim[TN__MAX_RANK];
  TN__VEC(need) needs;
  const tn__expr *min[TN__MAX_RANK], *extent[TN__MAX_RANK]; /* of what all of them need */
  int at;                                                   /* place among the loop's children */
  const tn__buffer *output;                                 /* that it writes: all of it is wanted */
  tn__snode *elsewhere;                                     /* a reader behind the loop's nest, which wants all, too */
} move;

/* Puts the loop inside of those that were nested before. */
static void nest_loop(tn__schedule *s, tn__snode **outermost, tn__snode **innermost, tn__snode *loop) {
  if (*innermost == NULL)
    *outermost = loop;
  else
    tn__sched_append(s, *innermost, loop);
  *innermost = loop;
}

/* New loops over the block's axes would have terms that there are not. */
static void check_not_ragged(const tn__schedule *s, const char *step, const tn__snode *block) {
  if (block->ragged)
    tn__sched_refuse(s, "%s of \"%s\": not all of its partial results have as many terms", step, block->name);
}

static void check_producers_done(move *m) {
  tn__schedule *s = m->s;
  for (int r = 0; r < m->block->block.read_count; r++) {
    tn__snodes writers = {0};
    tn__sched_writers(s, m->block->block.reads[r].buffer, &writers);
    for (int i = 0; i < writers.count; i++) {
      tn__snode *writer = writers.data[i];
      if (writer == m->block) continue;
      if (tn__sched_root_nest(s, writer) == tn__sched_root_nest(s, m->loop))
        tn__sched_refuse(s, "compute_at of \"%s\": it reads what \"%s\" writes in the same nest", m->block->name,
                         writer->name);
    }
  }
}

/* What was placed in the block's loops for it alone stays there when it leaves. Where iterations of such a loop compute
 * the same elements, threads would then write them at once. */
static void check_leaves_no_race(tn__schedule *s, const char *step, tn__snode *block) {
  for (int r = 0; r < block->block.read_count; r++) {
    tn__snodes writers = {0};
    tn__sched_writers(s, block->block.reads[r].buffer, &writers);
    for (int i = 0; i < writers.count; i++) {
      if (writers.data[i] == block) continue;
      for (tn__snode *n = tn__sched_common_ancestor(block->parent, writers.data[i]); n->var != NULL; n = n->parent)
        if (n->kind != TN__LOOP_SERIAL && n->kind != TN__LOOP_UNROLLED && !tn__sched_disjoint(s, n, writers.data[i]))
          tn__sched_refuse(s, "%s of \"%s\": \"%s\" computes in each iteration of \"%s\" what it reads there", step,
                           block->name, writers.data[i]->name, n->name);
    }
  }
}

/* All steps of a scan move together, for some places of the other axes: each of these must need none of the others. */
static void check_scan(tn__schedule *s, const tn__snode *block) {
  int scans = 0;
  for (int i = 0; i < block->block.axis_count; i++) scans += block->block.axes[i].kind == TN__AXIS_SCAN;
  if (scans == 0) return;
  for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent)
    if (n->children.count != 1)
      tn__sched_refuse(s, "compute_at of \"%s\": the steps of its scan compute other tensors, too", block->name);
  if (scans > 1 || tn__sched_scan_stage(s, block) == NULL)
    tn__sched_refuse(s, "compute_at of \"%s\": it is a part of a scan", block->name);
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_SCAN && !tn__sched_scan_keeps_axis(s, block, i))
      tn__sched_refuse(s, "compute_at of \"%s\": the scan reads other positions of %s", block->name,
                       block->block.axes[i].var->name);
}

static bool is_at_most(tn__ir *ir, const tn__expr *a, const tn__expr *b) {
  if (a->kind == TN__EXPR_MAX) return is_at_most(ir, a->args[0], b) && is_at_most(ir, a->args[1], b);
  if (b->kind == TN__EXPR_MIN) return is_at_most(ir, a, b->args[0]) && is_at_most(ir, a, b->args[1]);
  if (a->kind == TN__EXPR_MIN && (is_at_most(ir, a->args[0], b) || is_at_most(ir, a->args[1], b))) return true;
  if (b->kind == TN__EXPR_MAX && (is_at_most(ir, a, b->args[0]) || is_at_most(ir, a, b->args[1]))) return true;
  return tn__ir_proves_le(ir, a, b);
}

/* What clamped or mirrored positions need has no number of elements at the borders. Without them it has; what lies
 * outside of the tensor is guarded. */
static void without_borders(tn__ir *ir, const tn__expr **min, const tn__expr **extent) {
  enum { LARGEST = 64 };
  int64_t n;
  if (*extent == NULL || tn__ir_as_int(*extent, &n)) return;
  const tn__expr *low = *min, *high = tn__ir_add_i(ir, tn__ir_add(ir, low, *extent), -1);
  if (tn__expr_size(low) > LARGEST || tn__expr_size(high) > LARGEST) return;
  const tn__expr *first = tn__ir_interior(ir, low);
  const tn__expr *count = tn__ir_add_i(ir, tn__ir_sub(ir, tn__ir_interior(ir, high), first), 1);
  if (!tn__ir_as_int(count, &n)) return;
  *min = first;
  *extent = count;
}

/* Single positions that are clamped cannot be compared, as max(0, i - 2) and max(0, i - 1): the box of all accesses is
 * that of what they are away from the borders. */
static void join_inside(move *m, int d) {
  tn__ir *ir = m->s->ir;
  const tn__expr *min = NULL, *extent = NULL;
  for (int i = 0; i < m->needs.count; i++) {
    const need *n = &m->needs.data[i];
    if (d >= n->rank || n->low[d] == NULL) return;
    const tn__expr *low = n->low[d], *size = tn__ir_add_i(ir, tn__ir_sub(ir, n->high[d], low), 1);
    const tn__expr *inside = tn__ir_interior(ir, low);
    without_borders(ir, &low, &size);
    if (low != inside && tn__ir_interior(ir, tn__ir_add(ir, low, size)) == tn__ir_add(ir, inside, size)) low = inside;
    if (i == 0) {
      min = low;
      extent = size;
    } else {
      tn__sched_hull_union(ir, 1, &min, &extent, &low, &size, false);
    }
  }
  m->min[d] = min;
  m->extent[d] = extent;
}

/* The box is that of all accesses away from the borders: at a border, too, each of them must lie in it. In the last
 * tile of an open size min(i + 1, N - 1) may be in front of all i + 1, but behind i. */
static void check_borders(move *m, int rank) {
  tn__ir *ir = m->s->ir;
  for (int d = 0; d < rank; d++) {
    if (m->extent[d] == NULL) continue;
    const tn__expr *last = tn__ir_add_i(ir, tn__ir_add(ir, m->min[d], m->extent[d]), -1);
    for (int i = 0; i < m->needs.count && m->extent[d] != NULL; i++) {
      const need *n = &m->needs.data[i];
      if (n->rank != rank || n->low[d] == NULL || !is_at_most(ir, m->min[d], n->low[d]) ||
          !is_at_most(ir, n->high[d], last))
        m->extent[d] = NULL;
    }
  }
}

/* Adds what one consumer needs; the first consumer also says where the block goes. */
static void add_consumer(move *m, tn__snode *reader, bool first) {
  tn__schedule *s = m->s;
  const tn__expr *min[TN__MAX_RANK], *extent[TN__MAX_RANK];
  tn__snode *inner[TN__MAX_LOOPS];
  int count = tn__sched_path(s, m->loop, reader, inner);
  for (int r = 0; r < reader->block.read_count; r++) {
    const tn__region *region = &reader->block.reads[r];
    if (!tn__sched_writes(m->block, region->buffer)) continue;
    bool start = first && m->extent[0] == NULL && m->min[0] == NULL;
    tn__sched_hull(s, reader, region, inner, count, start ? m->min : min, start ? m->extent : extent);
    need n = {.rank = region->buffer->rank};
    for (int d = 0; d < region->buffer->rank; d++) {
      const tn__expr **low = start ? &m->min[d] : &min[d], **size = start ? &m->extent[d] : &extent[d];
      if (*size != NULL) n.high[d] = tn__ir_add_i(s->ir, tn__ir_add(s->ir, *low, *size), -1);
      if (*size != NULL) n.low[d] = *low;
      without_borders(s->ir, low, size);
    }
    tn__vec_push(s->arena, &m->needs, n);
    if (!start) tn__sched_hull_union(s->ir, region->buffer->rank, m->min, m->extent, min, extent, false);
  }
  int at = tn__sched_index(tn__sched_child_around(m->loop, reader));
  if (first || at < m->at) m->at = at;
}

static bool is_behind(tn__schedule *s, tn__snode *reader, tn__snode *loop) {
  tn__snode *nest = tn__sched_root_nest(s, loop), *other = tn__sched_root_nest(s, reader);
  return other != nest && tn__sched_index(other) > tn__sched_index(nest);
}

static void refuse_elsewhere(const move *m) {
  tn__sched_refuse(m->s, "compute_at of \"%s\": its reader \"%s\" is not under \"%s\"", m->block->name,
                   m->elsewhere->name, m->loop->name);
}

/* Do all iterations together need each element, and in order? Of each axis an iteration needs all, or as much as the
 * steps of one loop are apart. */
static bool covers_all(const move *m) {
  tn__ir *ir = m->s->ir;
  tn__snodes taken = {0};
  for (int d = 0; d < m->needs.data[0].rank; d++) {
    const tn__expr *whole = m->block->block.writes[0].buffer->shape[d];
    int64_t size, full, steps;
    bool found = false;
    if (m->extent[d] == NULL || !tn__ir_as_int(m->extent[d], &size) || m->extent[d] == whole) continue;
    if (!tn__ir_as_int(whole, &full)) full = INT64_MAX;
    if (size >= full) continue;
    for (tn__snode *n = m->loop; n->var != NULL && !found; n = n->parent) {
      if (m->min[d] != tn__ir_mul_i(ir, n->var->self, size)) continue;
      found = size == 1 && n->var->extent == whole;
      if (tn__ir_as_int(n->var->extent, &steps)) found |= tn__ir_bound_mul(steps, size) >= full;
      for (int i = 0; i < taken.count; i++) found &= taken.data[i] != n;
      tn__vec_push(m->s->arena, &taken, n);
    }
    if (!found) return false;
  }
  return true;
}

static void find_need(move *m) {
  tn__schedule *s = m->s;
  bool first = true;
  for (int w = 0; w < m->block->block.write_count; w++) {
    const tn__buffer *buffer = m->block->block.writes[w].buffer;
    if (tn__sched_is_output(s, buffer)) m->output = buffer;
    tn__snodes writers = {0}, readers = {0};
    tn__sched_writers(s, buffer, &writers);
    tn__sched_readers(s, buffer, &readers);
    if (writers.count != 1)
      tn__sched_refuse(s, "compute_at of \"%s\": %s is written by other blocks too", m->block->name, buffer->name);
    for (int i = 0; i < readers.count; i++) {
      if (readers.data[i] == m->block) continue;
      if (!tn__sched_is_under(readers.data[i], m->loop)) {
        if (m->elsewhere == NULL || is_behind(s, m->elsewhere, m->loop)) m->elsewhere = readers.data[i];
        continue;
      }
      add_consumer(m, readers.data[i], first);
      first = false;
    }
  }
  if (m->elsewhere != NULL && !is_behind(s, m->elsewhere, m->loop)) refuse_elsewhere(m);
  if (first && m->output != NULL)
    tn__sched_refuse(s, "compute_at of \"%s\": it writes the output %s, which nothing under \"%s\" reads",
                     m->block->name, m->output->name, m->loop->name);
  if (first) tn__sched_refuse(s, "compute_at of \"%s\": nothing under \"%s\" reads it", m->block->name, m->loop->name);
  for (int d = 0; d < m->needs.data[0].rank; d++)
    if (m->extent[d] == NULL) join_inside(m, d);
  check_borders(m, m->needs.data[0].rank);
  if ((m->output != NULL || m->elsewhere != NULL) && !covers_all(m)) {
    if (m->output == NULL) refuse_elsewhere(m);
    tn__sched_refuse(s, "compute_at of \"%s\": it writes the output %s, and \"%s\" does not need each element once",
                     m->block->name, m->output->name, m->loop->name);
  }
}

/* A new loop for one axis and its binding; what may lie outside of the tensor is guarded. */
static const tn__expr *place_axis(move *m, const tn__block_axis *axis, int dim, const tn__expr **predicate,
                                  tn__snode **loop) {
  tn__schedule *s = m->s;
  tn__ir *ir = s->ir;
  const tn__expr *whole = axis->var->extent, *min = tn__ir_index(ir, 0), *extent = whole;
  int64_t size, full;
  bool scans = axis->kind == TN__AXIS_SCAN;
  if (!scans && dim >= 0 && m->extent[dim] != NULL && tn__ir_as_int(m->extent[dim], &size) && size >= 1 &&
      !(tn__ir_as_int(whole, &full) && size >= full)) {
    min = m->min[dim];
    extent = m->extent[dim];
  }
  const char *name = tn__arena_printf(s->arena, "%s.%s", m->block->name, axis->var->name);
  *loop = tn__sched_new_loop(s, name, extent, TN__LOOP_SERIAL);
  const tn__expr *binding = tn__ir_add(ir, min, (*loop)->var->self);
  if (scans && tn__sched_scan_stage(s, m->block)->backwards)
    binding = tn__ir_sub(ir, tn__ir_add_i(ir, whole, -1), (*loop)->var->self);
  if (extent != whole || !tn__ir_is_int_value(min, 0)) {
    *predicate = tn__ir_and(ir, *predicate, tn__ir_le(ir, tn__ir_index(ir, 0), binding));
    *predicate = tn__ir_and(ir, *predicate, tn__ir_lt(ir, binding, whole));
  }
  return binding;
}

static bool places_everywhere_disjoint(move *m) {
  m->block->exact = false;
  for (tn__snode *n = m->loop; n->var != NULL; n = n->parent)
    if (!tn__sched_disjoint(m->s, n, m->block)) return false;
  return true;
}

void tn__sched_compute_at(tn__schedule *s, const char *block_name, const char *loop_name) {
  move m = {.s = s};
  m.block = tn__sched_block(s, "compute_at", block_name);
  m.loop = tn__sched_loop(s, "compute_at", loop_name);
  tn__snode *block = m.block;
  if (tn__sched_is_under(block, m.loop))
    tn__sched_refuse(s, "compute_at of \"%s\": it is under \"%s\" already", block_name, loop_name);
  if (block->block.axis_count == 0)
    tn__sched_refuse(s, "compute_at of \"%s\": an imperative block cannot move", block_name);
  check_scan(s, block);
  if (!tn__sched_identity_write(block, m.axis_of_dim))
    tn__sched_refuse(s, "compute_at of \"%s\": it does not write its tensor axis by axis", block_name);
  check_not_ragged(s, "compute_at", block);
  for (int w = 0; w < block->block.write_count; w++)
    tn__sched_check_not_bounding(s, "compute_at", block->block.writes[w].buffer);
  tn__sched_check_not_frozen(s, "compute_at", block);
  tn__sched_check_not_frozen(s, "compute_at", m.loop);
  if (m.loop->kind == TN__LOOP_VECTORIZED)
    tn__sched_refuse(s, "compute_at of \"%s\": loop \"%s\" is vectorised", block_name, loop_name);
  find_need(&m);
  check_producers_done(&m);
  check_leaves_no_race(s, "compute_at", block);

  tn__sched_remove(block);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block->block.axis_count, tn__block_axis);
  const tn__expr *predicate = tn__ir_bool(s->ir, true);
  tn__snode *outermost = NULL, *innermost = NULL;
  for (int pass = 0; pass < 2; pass++) /* a scan's steps around all else, as it is lowered */
    for (int i = 0; i < block->block.axis_count; i++) {
      int dim = -1;
      tn__snode *loop;
      if ((block->block.axes[i].kind == TN__AXIS_SCAN) != (pass == 0)) continue;
      for (int d = 0; d < block->block.writes[0].buffer->rank; d++)
        if (m.axis_of_dim[d] == i) dim = d;
      axes[i] = block->block.axes[i];
      axes[i].binding = place_axis(&m, &block->block.axes[i], dim, &predicate, &loop);
      nest_loop(s, &outermost, &innermost, loop);
    }
  block->block.axes = axes;
  block->block.predicate = predicate;
  tn__sched_append(s, innermost, block);
  tn__sched_insert(s, m.loop, m.at, outermost);
  block->exact = places_everywhere_disjoint(&m);
  const char *names[] = {block_name, loop_name};
  tn__sched_record(s, "compute_at", names, 2, NULL, 0);
}

/* ---- compute_root ------------------------------------------------------------------------------------------------ */

/* Do the loops of the nest hold nothing but this block? */
static bool is_alone(const tn__snode *nest, const tn__snode *block) {
  for (; nest != block; nest = nest->children.data[0])
    if (nest->children.count != 1) return false;
  return true;
}

/* Blocks of the nest other than `block` that write what it reads (or, when `readers`, read what it writes). */
static tn__snode *neighbour(tn__schedule *s, tn__snode *nest, const tn__snode *block, bool readers) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, nest, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *from = readers ? block : blocks.data[i], *to = readers ? blocks.data[i] : block;
    if (blocks.data[i] == block) continue;
    for (int w = 0; w < from->block.write_count; w++)
      if (tn__sched_reads(to, from->block.writes[w].buffer)) return blocks.data[i];
  }
  return NULL;
}

void tn__sched_compute_root(tn__schedule *s, const char *name) {
  tn__snode *block = tn__sched_block(s, "compute_root", name);
  tn__snode *nest = tn__sched_root_nest(s, block), *outermost = NULL, *innermost = NULL;
  if (block->block.axis_count == 0) tn__sched_refuse(s, "compute_root of \"%s\": it has no axes to loop over", name);
  if (is_alone(nest, block)) tn__sched_refuse(s, "compute_root of \"%s\": it has a nest of its own already", name);
  check_not_ragged(s, "compute_root", block);
  tn__sched_check_not_frozen(s, "compute_root", block);
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind == TN__AXIS_SCAN)
      tn__sched_refuse(s, "compute_root of \"%s\": a scan cannot move", name);
  for (int w = 0; w < block->block.write_count; w++) {
    tn__snodes writers = {0};
    tn__sched_writers(s, block->block.writes[w].buffer, &writers);
    if (writers.count != 1)
      tn__sched_refuse(s, "compute_root of \"%s\": %s is written by other blocks too", name,
                       block->block.writes[w].buffer->name);
  }
  const tn__snode *producer = neighbour(s, nest, block, false), *reader = neighbour(s, nest, block, true);
  if (producer != NULL && reader != NULL)
    tn__sched_refuse(s, "compute_root of \"%s\": it stands between \"%s\" and \"%s\" in one nest", name, producer->name,
                     reader->name);
  check_leaves_no_race(s, "compute_root", block);
  int at = tn__sched_index(nest) + (producer != NULL);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block->block.axis_count, tn__block_axis);
  tn__sched_remove(block);
  for (int i = 0; i < block->block.axis_count; i++) {
    axes[i] = block->block.axes[i];
    const char *loop_name = tn__arena_printf(s->arena, "%s.%s", name, axes[i].var->name);
    tn__snode *loop = tn__sched_new_loop(s, loop_name, axes[i].var->extent, TN__LOOP_SERIAL);
    axes[i].binding = loop->var->self;
    nest_loop(s, &outermost, &innermost, loop);
  }
  block->block.axes = axes;
  block->block.predicate = tn__ir_bool(s->ir, true);
  block->exact = true;
  tn__sched_append(s, innermost, block);
  tn__sched_insert(s, s->root, at, outermost);
  tn__sched_record(s, "compute_root", &name, 1, NULL, 0);
}

/* ---- reverse_compute_at ------------------------------------------------------------------------------------------ */

typedef struct reverse_move {
  tn__schedule *s;
  tn__snode *block, *loop, *producer;
  int dim_of_axis[3 * TN__MAX_RANK];       /* which dimension of the producer's tensor the axis indexes; -1: none */
  const tn__expr *shift[3 * TN__MAX_RANK]; /* index = axis + shift */
} reverse_move;

/* The last block under the loop that writes something the moving block reads. */
static void find_producer(reverse_move *m) {
  tn__snodes blocks = {0};
  tn__sched_blocks(m->s, m->loop, &blocks);
  for (int i = 0; i < blocks.count; i++)
    for (int r = 0; r < m->block->block.read_count; r++)
      if (blocks.data[i] != m->block && tn__sched_writes(blocks.data[i], m->block->block.reads[r].buffer))
        m->producer = blocks.data[i];
  if (m->producer == NULL)
    tn__sched_refuse(m->s, "reverse_compute_at of \"%s\": nothing under \"%s\" writes what it reads", m->block->name,
                     m->loop->name);
}

/* Reads must be of single elements at axis + constant. */
static bool match_region(reverse_move *m, const tn__region *region, bool first) {
  tn__ir *ir = m->s->ir;
  for (int d = 0; d < region->buffer->rank; d++) {
    if (!tn__ir_is_int_value(region->extent[d], 1)) return false;
    int found = -1;
    const tn__expr *shift = NULL;
    for (int i = 0; i < m->block->block.axis_count && found < 0; i++) {
      shift = tn__ir_sub(ir, region->min[d], m->block->block.axes[i].var->self);
      if (tn__ir_is_int(shift) && !tn__ir_is_int(m->block->block.axes[i].var->self)) found = i;
    }
    if (found < 0) {
      if (!tn__ir_is_int_value(region->buffer->shape[d], 1)) return false;
      continue;
    }
    if (first && m->dim_of_axis[found] >= 0) return false; /* a diagonal */
    if (!first && (m->dim_of_axis[found] != d || m->shift[found] != shift)) return false;
    m->dim_of_axis[found] = d;
    m->shift[found] = shift;
  }
  return true;
}

/* Is it the axis of a scan, and do only loops drive it that stand around both the block and its new place? Then it is
 * moved within a step. */
static bool is_at_step(const reverse_move *m, const tn__block_axis *axis) {
  if (axis->kind != TN__AXIS_SCAN) return false;
  for (const tn__snode *n = m->block->parent; n->var != NULL; n = n->parent)
    if (tn__expr_uses_var(axis->binding, n->var) && !tn__sched_is_under(m->loop, n)) return false;
  return true;
}

static void check_reverse(reverse_move *m) {
  tn__schedule *s = m->s;
  tn__snode *block = m->block;
  const char *name = block->name;
  if (block->block.axis_count == 0)
    tn__sched_refuse(s, "reverse_compute_at of \"%s\": an imperative block cannot move", name);
  for (int i = 0; i < block->block.axis_count; i++) {
    m->dim_of_axis[i] = -1;
    if (block->block.axes[i].kind != TN__AXIS_SPATIAL && !is_at_step(m, &block->block.axes[i]))
      tn__sched_refuse(s, "reverse_compute_at of \"%s\": it reduces or scans", name);
  }
  for (const tn__snode *n = m->loop; n->var != NULL; n = n->parent) {
    if (tn__sched_drives(n, m->producer, TN__AXIS_REDUCE))
      tn__sched_refuse(s, "reverse_compute_at of \"%s\": \"%s\" is not complete inside of \"%s\"", name,
                       m->producer->name, m->loop->name);
    if (n->kind == TN__LOOP_VECTORIZED)
      tn__sched_refuse(s, "reverse_compute_at of \"%s\": loop \"%s\" is vectorised", name, n->name);
  }
  const tn__region *source = NULL;
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    if (!tn__sched_writes(m->producer, region->buffer)) continue;
    if (!match_region(m, region, source == NULL))
      tn__sched_refuse(s, "reverse_compute_at of \"%s\": it does not read %s element by element", name,
                       region->buffer->name);
    source = region;
  }
  /* The block is executed where the producer is, which must be everywhere: a guarded read may reach beyond the
   * tensor. */
  for (int i = 0; i < block->block.axis_count; i++) {
    if (m->dim_of_axis[i] < 0) continue;
    const tn__expr *end = tn__ir_add(s->ir, block->block.axes[i].var->extent, m->shift[i]);
    if (!tn__ir_prove(s->ir, tn__ir_le(s->ir, tn__ir_index(s->ir, 0), m->shift[i])) ||
        !tn__ir_prove(s->ir, tn__ir_le(s->ir, end, source->buffer->shape[m->dim_of_axis[i]])))
      tn__sched_refuse(s, "reverse_compute_at of \"%s\": its elements reach beyond those of %s", name,
                       source->buffer->name);
  }
}

/* Everything else that the block reads must be complete: written in nests before the producer's, or under the loop over
 * just the region that the producer covers there. */
static void check_other_producers(reverse_move *m, const int *axis_of_dim) {
  tn__schedule *s = m->s;
  tn__snode *nest = tn__sched_root_nest(s, m->loop), *inner[TN__MAX_LOOPS], *other_inner[TN__MAX_LOOPS];
  int count = tn__sched_path(s, m->loop, m->producer, inner);
  for (int r = 0; r < m->block->block.read_count; r++) {
    const tn__region *region = &m->block->block.reads[r];
    tn__snodes writers = {0};
    tn__sched_writers(s, region->buffer, &writers);
    for (int i = 0; i < writers.count; i++) {
      tn__snode *writer = writers.data[i];
      int dims[TN__MAX_RANK];
      if (writer == m->producer || tn__sched_index(tn__sched_root_nest(s, writer)) < tn__sched_index(nest)) continue;
      bool same = tn__sched_is_under(writer, m->loop) && tn__sched_identity_write(writer, dims) &&
                  region->buffer->rank == m->producer->block.writes[0].buffer->rank && match_region(m, region, false);
      if (same && !tn__sched_writes(m->producer, region->buffer)) {
        const tn__expr *min[TN__MAX_RANK], *extent[TN__MAX_RANK], *min2[TN__MAX_RANK], *extent2[TN__MAX_RANK];
        tn__sched_hull(s, m->producer, &m->producer->block.writes[0], inner, count, min, extent);
        tn__sched_hull(s, writer, &writer->block.writes[0], other_inner,
                       tn__sched_path(s, m->loop, writer, other_inner), min2, extent2);
        for (int d = 0; d < region->buffer->rank; d++)
          same &= extent[d] != NULL && min[d] == min2[d] && extent[d] == extent2[d] && axis_of_dim[d] >= 0;
      }
      if (!same)
        tn__sched_refuse(s, "reverse_compute_at of \"%s\": it reads %s, which \"%s\" writes later or elsewhere",
                         m->block->name, region->buffer->name, writer->name);
    }
  }
}

void tn__sched_reverse_compute_at(tn__schedule *s, const char *block_name, const char *loop_name) {
  reverse_move m = {.s = s};
  m.block = tn__sched_block(s, "reverse_compute_at", block_name);
  m.loop = tn__sched_loop(s, "reverse_compute_at", loop_name);
  tn__snode *block = m.block;
  tn__ir *ir = s->ir;
  int axis_of_dim[TN__MAX_RANK];
  if (tn__sched_is_under(block, m.loop))
    tn__sched_refuse(s, "reverse_compute_at of \"%s\": it is under \"%s\" already", block_name, loop_name);
  tn__sched_check_not_frozen(s, "reverse_compute_at", block);
  tn__sched_check_not_frozen(s, "reverse_compute_at", m.loop);
  find_producer(&m);
  if (!tn__sched_identity_write(m.producer, axis_of_dim))
    tn__sched_refuse(s, "reverse_compute_at of \"%s\": \"%s\" does not write its tensor axis by axis", block_name,
                     m.producer->name);
  check_reverse(&m);
  check_other_producers(&m, axis_of_dim);
  check_leaves_no_race(s, "reverse_compute_at", block);

  tn__snode *path[TN__MAX_LOOPS], *reducing[TN__MAX_LOOPS], *outermost, *innermost;
  const tn__var *vars[TN__MAX_LOOPS];
  const tn__expr *values[TN__MAX_LOOPS];
  int count = tn__sched_path(s, m.loop, m.producer, path), reduce_count = 0;
  bool vectorized = false;
  for (int i = 0; i < count; i++) {
    if (!tn__sched_drives_elements(path[i], m.producer))
      reducing[reduce_count++] = path[i];
    else
      vectorized |= path[i]->kind == TN__LOOP_VECTORIZED;
  }
  int cloned = tn__sched_clone_spatial(s, m.producer, block->name, path, count, vars, values, &outermost, &innermost);
  const tn__expr *predicate = tn__sched_conjuncts_without(ir, m.producer->block.predicate, reducing, reduce_count);
  predicate = tn__ir_substitute(ir, predicate, vars, values, cloned);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block->block.axis_count, tn__block_axis);
  for (int i = 0; i < block->block.axis_count; i++) {
    axes[i] = block->block.axes[i];
    const tn__expr *extent = axes[i].var->extent;
    int d = m.dim_of_axis[i];
    if (d < 0) {
      tn__snode *loop = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.%s", block->name, axes[i].var->name),
                                           extent, TN__LOOP_SERIAL);
      axes[i].binding = loop->var->self;
      if (vectorized) { /* a vectorised loop has no loops inside */
        tn__sched_append(s, loop, outermost);
        outermost = loop;
        continue;
      }
      if (innermost == NULL)
        outermost = loop;
      else
        tn__sched_append(s, innermost, loop);
      innermost = loop;
      continue;
    }
    const tn__expr *binding = axis_of_dim[d] < 0 ? tn__ir_index(ir, 0) : m.producer->block.axes[axis_of_dim[d]].binding;
    TN__INVARIANT(m.shift[i] != NULL);
    binding = tn__ir_sub(ir, tn__ir_substitute(ir, binding, vars, values, cloned), m.shift[i]);
    axes[i].binding = binding;
    const tn__expr *written = m.producer->block.writes[0].buffer->shape[d];
    if (tn__ir_is_int_value(m.shift[i], 0) && extent == written) continue; /* the producer's predicate covers it */
    predicate = tn__ir_and(ir, predicate, tn__ir_le(ir, tn__ir_index(ir, 0), binding));
    predicate = tn__ir_and(ir, predicate, tn__ir_lt(ir, binding, extent));
  }
  tn__sched_remove(block);
  block->block.axes = axes;
  block->block.predicate = predicate;
  block->exact = m.producer->exact;
  if (innermost == NULL)
    outermost = block;
  else
    tn__sched_append(s, innermost, block);
  tn__sched_append(s, m.loop, outermost);
  const char *names[] = {block_name, loop_name};
  tn__sched_record(s, "reverse_compute_at", names, 2, NULL, 0);
}
