/* Declarations to loops: every stage becomes one perfect nest around one block; an accumulation two. */
#include <string.h>

#include "te/internal.h"

/* ---- regions of blocks ------------------------------------------------------------------------------------------ */

typedef struct regions {
  tn__ir *ir;
  tn__arena *arena;
  TN__VEC(tn__region) list, more; /* the first of each tensor; others */
} regions;

/* Regions of one tensor in one block; what is read beyond them widens the last one to whole dimensions. */
enum { MOST_REGIONS = 32 };

/* How far the index lies from the region's start; false when that is no number. */
TN_MUST_USE static bool offset_in(tn__ir *ir, const tn__region *r, const tn__expr *index, int d, int64_t *offset,
                                  int64_t *extent) {
  return tn__ir_as_int(r->extent[d], extent) && tn__ir_as_int(tn__ir_sub(ir, index, r->min[d]), offset);
}

static bool is_whole(const tn__region *r, int d) {
  return tn__ir_is_int_value(r->min[d], 0) && r->extent[d] == r->buffer->shape[d];
}

/* Is the access at `indices` a number of elements away from the region, in every dimension of which it is a part? */
static bool is_near(tn__ir *ir, const tn__region *r, const tn__expr *const *indices) {
  int64_t offset, extent;
  for (int d = 0; d < r->buffer->rank; d++)
    if (tn__expr_has_load(indices[d]) ? !is_whole(r, d)
                                      : !is_whole(r, d) && !offset_in(ir, r, indices[d], d, &offset, &extent))
      return false;
  return true;
}

/* Widens `r` to cover the access at `indices` too. Indices that are not plain arithmetic (they load) cover the
 * dimension. */
static void widen(regions *out, tn__region *r, const tn__expr *const *indices) {
  tn__ir *ir = out->ir;
  int rank = r->buffer->rank;
  const tn__expr **min = TN__NEW_ARRAY(out->arena, rank, const tn__expr *);
  const tn__expr **extent = TN__NEW_ARRAY(out->arena, rank, const tn__expr *);
  for (int d = 0; d < rank; d++) {
    const tn__expr *index = indices[d];
    min[d] = tn__ir_index(ir, 0);
    extent[d] = r->buffer->shape[d];
    if (tn__expr_has_load(index)) continue;
    if (r->min == NULL) {
      min[d] = index;
      extent[d] = tn__ir_index(ir, 1);
      continue;
    }
    int64_t offset, old_extent;
    if (offset_in(ir, r, index, d, &offset, &old_extent)) {
      min[d] = offset < 0 ? index : r->min[d];
      int64_t end = offset + 1 > old_extent ? offset + 1 : old_extent;
      extent[d] = tn__ir_index(ir, offset < 0 ? end - offset : end);
    }
  }
  r->min = min;
  r->extent = extent;
}

/* Accesses that lie apart by what is no number, x / 2 and (x + 1) / 2 say, are regions of their own: where a tile of
 * the block's axes is computed, each of them has an extent. They stand behind all first ones, whose numbers steps of
 * schedules know. */
static void add_access(regions *out, const tn__buffer *buffer, const tn__expr *const *indices) {
  tn__region *last = NULL;
  int count = 0;
  for (int list = 0; list < 2; list++)
    for (int i = 0; i < (list ? out->more.count : out->list.count); i++) {
      tn__region *r = list ? &out->more.data[i] : &out->list.data[i];
      if (r->buffer != buffer) continue;
      last = r;
      count++;
      if (!is_near(out->ir, r, indices)) continue;
      widen(out, r, indices);
      return;
    }
  if (count == MOST_REGIONS) {
    widen(out, last, indices);
    return;
  }
  tn__region region = {.buffer = buffer};
  widen(out, &region, indices);
  if (count == 0)
    tn__vec_push(out->arena, &out->list, region);
  else
    tn__vec_push(out->arena, &out->more, region);
}

static void collect_load(const tn__expr *e, void *user) {
  if (e->kind == TN__EXPR_LOAD) add_access(user, e->value.buffer, e->args);
}

static void collect_loads(const tn__expr *e, void *user) {
  regions *out = user;
  tn__te_visit(out->ir, e, collect_load, out);
}

static bool collect_store(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_STORE) add_access(user, s->as.store.buffer, s->as.store.indices);
  return true;
}

void tn__te_block_regions(tn__ir *ir, tn__block *block) {
  regions reads = {.ir = ir, .arena = tn__ir_arena(ir)}, writes = reads;
  if (block->init != NULL) tn__stmt_walk_exprs(block->init, collect_loads, &reads);
  tn__stmt_walk_exprs(block->body, collect_loads, &reads);
  if (block->init != NULL) tn__stmt_walk(block->init, collect_store, &writes);
  tn__stmt_walk(block->body, collect_store, &writes);
  for (int i = 0; i < reads.more.count; i++) tn__vec_push(reads.arena, &reads.list, reads.more.data[i]);
  for (int i = 0; i < writes.more.count; i++) tn__vec_push(reads.arena, &writes.list, writes.more.data[i]);
  block->reads = reads.list.data;
  block->read_count = reads.list.count;
  block->writes = writes.list.data;
  block->write_count = writes.list.count;
}

static void whole_buffers(tn__ir *ir, const tn__buffer *const *buffers, int count, const tn__region **out) {
  tn__arena *arena = tn__ir_arena(ir);
  tn__region *list = TN__NEW_ARRAY(arena, count, tn__region);
  for (int i = 0; i < count; i++) {
    const tn__expr **min = TN__NEW_ARRAY(arena, buffers[i]->rank, const tn__expr *);
    for (int d = 0; d < buffers[i]->rank; d++) min[d] = tn__ir_index(ir, 0);
    list[i] = (tn__region){.buffer = buffers[i], .min = min, .extent = buffers[i]->shape};
  }
  *out = list;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static const tn__stmt *store_all(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *values) {
  const tn__stmt *items[4];
  for (int t = 0; t < stage->tensor_count; t++)
    items[t] = tn__ir_store(te->ir, stage->tensors[t], stage->axes.index, values[t]);
  return tn__ir_seq(te->ir, items, stage->tensor_count);
}

/* Is the position of the scan's axis behind those of first values? */
static const tn__expr *is_later(tn__ir *ir, const tn__te_stage *scan, const tn__var *axis) {
  const tn__expr *depth = tn__ir_index(ir, scan->scan_depth), *end = tn__ir_sub(ir, axis->extent, depth);
  return scan->backwards ? tn__ir_lt(ir, axis->self, end) : tn__ir_le(ir, depth, axis->self);
}

/* Values at the first positions of a scan's axis, and elsewhere. There are few of these: their loop is cut off. */
static const tn__expr *from_first_on(const tn__te *te, const tn__te_stage *stage, const tn__expr *first,
                                     const tn__expr *value) {
  tn__ir *ir = te->ir;
  const tn__te_stage *scan = tn__te_scan_of(te, stage);
  if (scan == NULL || scan->scan_depth == 0) return value;
  const tn__expr *later = tn__ir_call1(ir, TN__CALL_LIKELY, is_later(ir, scan, tn__te_scan_axis(stage)));
  return tn__ir_select(ir, later, value, first);
}

/* All results are computed from what is there before the first one is stored. */
static const tn__stmt *store_together(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *indices,
                                      const tn__expr *const *results, int count) {
  tn__ir *ir = te->ir;
  const tn__stmt *items[4];
  const tn__var *lets[4] = {NULL};
  for (int t = 0; t < count; t++) {
    lets[t] =
        tn__var_create(ir, tn__arena_printf(te->arena, "%s_new%d", stage->name, t), results[t]->dtype, NULL, NULL);
    items[t] = tn__ir_store(ir, stage->tensors[t], indices, lets[t]->self);
  }
  const tn__stmt *body = tn__ir_seq(ir, items, count);
  for (int t = count - 1; t >= 0; t--) body = tn__ir_let(ir, lets[t], results[t], body);
  return body;
}

/* Combines the terms into the elements at `indices`. */
static const tn__stmt *combine(const tn__te *te, const tn__te_stage *stage, const tn__expr *const *indices) {
  tn__ir *ir = te->ir;
  const tn__te_combiner *c = stage->combiner;
  const tn__var *vars[8];
  const tn__expr *values[8], *results[4] = {NULL};
  for (int t = 0; t < c->count; t++) {
    vars[t] = c->lhs[t];
    values[t] = tn__ir_load(ir, stage->tensors[t], indices);
    vars[c->count + t] = c->rhs[t];
    values[c->count + t] = from_first_on(te, stage, c->identity[t], stage->values[t]);
  }
  for (int t = 0; t < c->count; t++) results[t] = tn__ir_substitute(ir, c->result[t], vars, values, 2 * c->count);
  if (c->count == 1) return tn__ir_store(ir, stage->tensors[0], indices, results[0]);
  return store_together(te, stage, indices, results, c->count);
}

static const tn__stmt *map_body(const tn__te *te, const tn__te_stage *stage) {
  tn__ir *ir = te->ir;
  const tn__stmt *items[4];
  if (stage->kind == TN__TE_COMPUTE && stage->tensor_count > 1)
    return store_together(te, stage, stage->axes.index, stage->values, stage->tensor_count);
  for (int t = 0; t < stage->tensor_count; t++) {
    const tn__expr *first =
        stage->kind == TN__TE_SCAN ? stage->first[t] : tn__ir_constant(ir, stage->tensors[t]->dtype, 0);
    const tn__expr *value = from_first_on(te, stage, first, stage->values[t]);
    items[t] = tn__ir_store(ir, stage->tensors[t], stage->axes.index, value);
  }
  return tn__ir_seq(ir, items, stage->tensor_count);
}

static const tn__stmt *lower_extern(const tn__te *te, const tn__te_stage *stage) {
  tn__block block = {.name = stage->name, .predicate = tn__ir_bool(te->ir, true), .body = stage->body};
  block.read_count = stage->extern_read_count;
  whole_buffers(te->ir, stage->extern_reads, stage->extern_read_count, &block.reads);
  block.write_count = stage->tensor_count;
  whole_buffers(te->ir, stage->tensors, stage->tensor_count, &block.writes);
  return tn__block_stmt(te->ir, &block);
}

/* Loops that stand around several blocks. */
typedef struct shared_loops {
  int count;
  const tn__var *loops[TN__MAX_RANK];
} shared_loops;

/* One block of the stage and the loops around it, outermost first: `around` has the places of the axes. The outermost
 * may be loops that are there already (`shared`, or NULL), and are left to the caller. The axis of a scan that runs
 * backwards goes from its end. */
static const tn__stmt *nest_of(const tn__te *te, const tn__te_stage *stage, tn__block *block, const int *around,
                               const shared_loops *shared) {
  const tn__te_stage *scan = tn__te_scan_of(te, stage);
  const tn__var *backwards = scan != NULL && scan->backwards ? tn__te_scan_axis(stage) : NULL;
  tn__ir *ir = te->ir;
  const tn__var *vars[2 * TN__MAX_RANK], *loops[2 * TN__MAX_RANK];
  const tn__expr *positions[2 * TN__MAX_RANK];
  tn__block_axis *axes = TN__NEW_ARRAY(te->arena, block->axis_count, tn__block_axis);
  for (int i = 0; i < block->axis_count; i++) {
    const tn__var *var = block->axes[around[i]].var;
    const char *name = tn__arena_printf(te->arena, "%s.%s", block->name, var->name);
    const tn__expr *extent = tn__ir_substitute(ir, var->extent, vars, positions, i);
    bool given = shared != NULL && i < shared->count;
    vars[i] = var;
    loops[i] = given ? shared->loops[i] : tn__var_create(ir, name, TN_I64, var->min, extent);
    positions[i] = loops[i]->self;
    if (var == backwards) positions[i] = tn__ir_sub(ir, tn__ir_add_i(ir, var->extent, -1), positions[i]);
    axes[around[i]] = block->axes[around[i]];
    axes[around[i]].binding = positions[i];
  }
  block->axes = axes;
  block->predicate = tn__ir_bool(ir, true);
  tn__te_block_regions(ir, block);
  const tn__stmt *nest = tn__block_stmt(ir, block);
  int first = shared == NULL ? 0 : shared->count;
  for (int i = block->axis_count - 1; i >= first; i--) nest = tn__ir_for(ir, loops[i], TN__LOOP_SERIAL, nest);
  return nest;
}

static void add_axis(tn__block *block, tn__block_axis *axes, const tn__var *var, tn__axis_kind kind) {
  axes[block->axis_count++] = (tn__block_axis){.var = var, .kind = kind};
  block->axes = axes;
}

/* Is it the axis of a scan, of the stage itself or of the one in whose steps it is? */
static tn__axis_kind kind_of(const tn__te *te, const tn__te_stage *stage, int axis) {
  return tn__te_scan_of(te, stage) != NULL && stage->axes.var[axis] == tn__te_scan_axis(stage) ? TN__AXIS_SCAN
                                                                                               : TN__AXIS_SPATIAL;
}

/* `shared`: the loop over a scan's steps, if it is there already. */
static const tn__stmt *lower_nest(const tn__te *te, const tn__te_stage *stage, const shared_loops *shared) {
  int around[2 * TN__MAX_RANK], count = 0;
  tn__block_axis axes[2 * TN__MAX_RANK];
  tn__block block = {.name = stage->name};
  /* Elements may read any position of the other axes at earlier steps: the scan axis goes around them all. */
  if (stage->kind == TN__TE_SCAN) around[count++] = stage->scan_axis;
  for (int i = 0; i < stage->axes.count; i++) {
    add_axis(&block, axes, stage->axes.var[i], kind_of(te, stage, i));
    if (stage->kind != TN__TE_SCAN || i != stage->scan_axis) around[count++] = i;
  }
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    add_axis(&block, axes, stage->reduce_axes.var[i], TN__AXIS_REDUCE);
    around[count++] = stage->axes.count + i;
  }
  if (stage->kind == TN__TE_REDUCE) {
    block.init = store_all(te, stage, stage->combiner->identity);
    block.body = combine(te, stage, stage->axes.index);
  } else {
    block.body = map_body(te, stage);
  }
  return nest_of(te, stage, &block, around, shared);
}

/* Does the number of terms depend on the axis? */
static bool bounds_terms(const tn__te_stage *stage, const tn__var *axis) {
  for (int i = 0; i < stage->reduce_axes.count; i++)
    if (tn__expr_uses_var(stage->reduce_axes.var[i]->extent, axis)) return true;
  return false;
}

/* The block of an accumulation's terms: axes that it keeps before the first dimension whose positions it computes, then
 * the reduction, then the other axes that it keeps, so that what is contiguous is innermost. Where all are kept the
 * last one is innermost, unless the terms' number depends on it. Returns how many are outside of the reduction. */
TN_MUST_USE static int terms_block(const tn__te *te, const tn__te_stage *stage, tn__block *terms, tn__block_axis *axes,
                                   int *around) {
  tn__ir *ir = te->ir;
  int count = 0, inside[TN__MAX_RANK] = {0}, inside_count = 0, rank = stage->axes.count;
  bool before = true, all_kept = true;
  for (int i = 0; i < rank; i++) all_kept &= tn__te_keeps_axis(stage, i);
  for (int i = 0; i < rank; i++) {
    before &= tn__te_keeps_axis(stage, i);
    if (!tn__te_keeps_axis(stage, i)) continue;
    bool last = all_kept && i == rank - 1 && rank > 1;
    if ((before && !last) || bounds_terms(stage, stage->axes.var[i]))
      around[count++] = terms->axis_count;
    else
      inside[inside_count++] = terms->axis_count;
    add_axis(terms, axes, stage->axes.var[i], kind_of(te, stage, i));
  }
  int outside = count;
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    around[count++] = terms->axis_count;
    add_axis(terms, axes, stage->reduce_axes.var[i], TN__AXIS_REDUCE);
  }
  for (int i = 0; i < inside_count; i++) around[count++] = inside[i];
  const tn__expr *here = tn__ir_bool(ir, true);
  for (int d = 0; d < rank; d++) {
    int shown = tn__te_into_inside(te, stage, d);
    if (shown == 0) { /* one comparison: what is below 0 is large */
      const tn__expr *place = tn__ir_cast(ir, TN_U64, stage->into[d]);
      here = tn__ir_and(ir, here, tn__ir_lt(ir, place, tn__ir_cast(ir, TN_U64, stage->axes.var[d]->extent)));
      continue;
    }
    if ((shown & 1) == 0) here = tn__ir_and(ir, here, tn__ir_le(ir, tn__ir_index(ir, 0), stage->into[d]));
    if ((shown & 2) == 0) here = tn__ir_and(ir, here, tn__ir_lt(ir, stage->into[d], stage->axes.var[d]->extent));
  }
  terms->body = tn__ir_is_false(here) ? NULL : combine(te, stage, stage->into);
  if (!tn__ir_is_true(here) && terms->body != NULL) terms->body = tn__ir_if(ir, here, terms->body, NULL);
  return all_kept ? outside : 0;
}

/* The elements' first values, then the terms: in one nest, along the axes that stand around both where each element
 * keeps its terms, else in two; where all terms fall away only the first. `step`: the loop over the steps that evaluate
 * it, which is around both, or NULL. */
static const tn__stmt *lower_accumulation(const tn__te *te, const tn__te_stage *stage, const shared_loops *step) {
  tn__ir *ir = te->ir;
  int in_order[TN__MAX_RANK], around[2 * TN__MAX_RANK];
  tn__block_axis first_axes[TN__MAX_RANK], axes[2 * TN__MAX_RANK];
  tn__block first = {.name = tn__arena_printf(te->arena, "%s.init", stage->name)}, terms = {.name = stage->name};
  for (int i = 2; tn__te_has_name(te, first.name); i++)
    first.name = tn__arena_printf(te->arena, "%s.init%d", stage->name, i);
  shared_loops shared = {.count = terms_block(te, stage, &terms, axes, around)};
  for (int i = 0; i < stage->axes.count; i++) {
    add_axis(&first, first_axes, stage->axes.var[i], kind_of(te, stage, i));
    in_order[i] = i;
  }
  for (int i = 0, at = shared.count; i < stage->axes.count && shared.count > 0; i++) {
    bool is_shared = false;
    for (int l = 0; l < shared.count; l++) is_shared |= around[l] == i;
    if (!is_shared) in_order[at++] = i;
  }
  for (int l = 0; l < shared.count; l++) {
    const tn__var *var = stage->axes.var[around[l]];
    in_order[l] = around[l];
    shared.loops[l] = l == 0 && step != NULL
                          ? step->loops[0]
                          : tn__var_create(ir, tn__arena_printf(te->arena, "%s.%s", stage->name, var->name), TN_I64,
                                           var->min, var->extent);
  }
  first.body = store_all(te, stage, stage->first);
  const tn__stmt *init = nest_of(te, stage, &first, in_order, &shared);
  const tn__stmt *both = init;
  if (terms.body != NULL) both = tn__ir_seq2(ir, init, nest_of(te, stage, &terms, around, &shared));
  for (int l = shared.count - 1; l >= (step != NULL ? 1 : 0); l--)
    both = tn__ir_for(ir, shared.loops[l], TN__LOOP_SERIAL, both);
  return both;
}

/* The stage of a step with bounds that read nothing at the first positions: there are no terms there. */
static const tn__te_stage *with_guarded_bounds(const tn__te *te, const tn__te_stage *stage) {
  tn__ir *ir = te->ir;
  tn__te_stage *guarded = TN__NEW(te->arena, tn__te_stage);
  const tn__te_stage *scan = tn__te_scan_of(te, stage);
  const tn__var *from[TN__MAX_RANK];
  const tn__expr *to[TN__MAX_RANK];
  *guarded = *stage;
  for (int i = 0; i < stage->reduce_axes.count; i++) {
    const tn__var *axis = stage->reduce_axes.var[i];
    const tn__expr *extent = tn__ir_substitute(ir, axis->extent, from, to, i);
    if (tn__expr_has_load(extent) && scan->scan_depth > 0)
      extent = tn__ir_select(ir, is_later(ir, scan, tn__te_scan_axis(stage)), extent, tn__ir_index(ir, 0));
    from[i] = axis;
    guarded->reduce_axes.var[i] = tn__var_create(ir, axis->name, TN_I64, axis->min, extent);
    to[i] = guarded->reduce_axes.index[i] = guarded->reduce_axes.var[i]->self;
  }
  for (int t = 0; t < stage->tensor_count; t++)
    guarded->values[t] = tn__ir_substitute(ir, stage->values[t], from, to, stage->reduce_axes.count);
  return guarded;
}

static const tn__stmt *lower_stage(const tn__te *te, const tn__te_stage *stage, const shared_loops *step) {
  if (stage->kind == TN__TE_EXTERN) return lower_extern(te, stage);
  if (stage->step_of != NULL) stage = with_guarded_bounds(te, stage);
  return stage->kind == TN__TE_ACCUMULATE ? lower_accumulation(te, stage, step) : lower_nest(te, stage, step);
}

/* A scan, the last of `count` stages, with what its steps evaluate before: one loop over the steps around them all. */
static const tn__stmt *lower_steps(const tn__te *te, tn__te_stage *const *stages, int count) {
  const tn__te_stage *scan = stages[count - 1];
  const tn__var *axis = tn__te_scan_axis(scan);
  const char *name = tn__arena_printf(te->arena, "%s.%s", scan->name, axis->name);
  shared_loops step = {.count = 1};
  step.loops[0] = tn__var_create(te->ir, name, TN_I64, axis->min, axis->extent);
  const tn__stmt **items = TN__NEW_ARRAY(te->arena, count, const tn__stmt *);
  for (int i = 0; i < count; i++) items[i] = lower_stage(te, stages[i], &step);
  return tn__ir_for(te->ir, step.loops[0], TN__LOOP_SERIAL, tn__ir_seq(te->ir, items, count));
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

tn__func *tn__te_lower(const tn__te *te) {
  tn__ir *ir = te->ir;
  const tn__stmt **items = TN__NEW_ARRAY(te->arena, te->stages.count, const tn__stmt *);
  int nests = 0;
  for (int s = 0, first; s < te->stages.count; s++) {
    for (first = s; te->stages.data[s]->step_of != NULL;) s++;
    items[nests++] =
        first < s ? lower_steps(te, te->stages.data + first, s + 1 - first) : lower_stage(te, te->stages.data[s], NULL);
  }
  const tn__stmt *body = tn__ir_seq(ir, items, nests);
  for (int s = te->stages.count - 1; s >= 0; s--)
    for (int t = te->stages.data[s]->tensor_count - 1; t >= 0; t--)
      if (!tn__te_is_output(te, te->stages.data[s]->tensors[t]))
        body = tn__ir_alloc_stmt(ir, te->stages.data[s]->tensors[t], body);
  return tn__func_create(ir, te->name, te->inputs.data, te->inputs.count, te->outputs.data, te->outputs.count,
                         te->dims.data, te->dims.count, body);
}
