/* Primitives on reductions: decompose_reduction, rfactor, rfactor_at and privatize. */
#include "base/invariant.h"
#include "schedule/internal.h"

TN_MUST_USE static int spatial_axes(tn__schedule *s, const tn__snode *block, const tn__block_axis **out, int extra) {
  int count = 0;
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, block->block.axis_count + extra, tn__block_axis);
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_REDUCE) axes[count++] = block->block.axes[i];
  *out = axes;
  return count;
}

/* A block with the spatial axes of `from` under copies of its spatial loops among `path`. Returns the block; *outermost
 * is what is to be inserted. `extra` leaves room for that many more axes. What the predicate says about loops of the
 * reduction, and about `lane` (NULL: none), does not hold for the new block. */
static tn__snode *derive_block(tn__schedule *s, const tn__snode *from, const char *name, tn__snode *const *path,
                               int count, const tn__snode *lane, int extra, tn__snode **outermost) {
  tn__snode *other[TN__MAX_LOOPS], *innermost;
  const tn__var *vars[TN__MAX_LOOPS];
  const tn__expr *values[TN__MAX_LOOPS];
  int other_count = 0;
  for (int i = 0; i < count; i++)
    if (path[i] == lane || !tn__sched_drives(path[i], from, TN__AXIS_SPATIAL)) other[other_count++] = path[i];
  tn__block block = {.name = tn__sched_fresh_name(s, true, name)};
  block.axis_count = spatial_axes(s, from, &block.axes, extra);
  block.predicate = tn__sched_conjuncts_without(s->ir, from->block.predicate, other, other_count);
  tn__snode *node = tn__sched_new_block(s, &block);
  int cloned = tn__sched_clone_spatial(s, from, block.name, path, count, vars, values, outermost, &innermost);
  tn__sched_substitute(s, node, vars, values, cloned);
  node->exact = from->exact;
  if (innermost == NULL)
    *outermost = node;
  else
    tn__sched_append(s, innermost, node);
  return node;
}

/* The initialisation leaves the loops from `loop` on, so none of them may repeat the reduction of an element. */
static void check_not_repeated(tn__schedule *s, const char *step, const char *name, const tn__snode *block,
                               const tn__snode *loop) {
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, loop->parent, block, path);
  for (int i = 0; i < count; i++)
    if (!tn__sched_drives(path[i], block, TN__AXIS_REDUCE) && !tn__sched_disjoint(s, path[i], block))
      tn__sched_refuse(s, "%s of \"%s\": loop \"%s\" computes elements of \"%s\" more than once", step, name,
                       path[i]->name, block->name);
}

/* The combiner's identities in all that the block writes. */
static const tn__stmt *identities(tn__schedule *s, const tn__snode *block) {
  const tn__stmt *stores[4] = {NULL};
  for (int t = 0; t < block->combiner->count; t++)
    stores[t] =
        tn__ir_store(s->ir, block->block.writes[t].buffer, block->block.writes[t].min, block->combiner->identity[t]);
  return tn__ir_seq(s->ir, stores, block->combiner->count);
}

/* Lanes of a factored reduction that have no terms are initialised, too. */
static void split_off_init(tn__schedule *s, tn__snode *block, tn__snode *loop, const tn__snode *lane) {
  tn__snode *path[TN__MAX_LOOPS], *outermost;
  int count = tn__sched_path(s, loop->parent, block, path);
  tn__snode *init =
      derive_block(s, block, tn__arena_printf(s->arena, "%s.init", block->name), path, count, lane, 0, &outermost);
  tn__sched_set_body(s, init, NULL, block->block.init != NULL ? block->block.init : identities(s, block));
  tn__sched_set_body(s, block, NULL, block->block.body);
  tn__sched_insert(s, loop->parent, tn__sched_index(loop), outermost);
}

void tn__sched_decompose_reduction(tn__schedule *s, const char *block_name, const char *loop_name) {
  tn__snode *block = tn__sched_block(s, "decompose_reduction", block_name);
  tn__snode *loop = tn__sched_loop(s, "decompose_reduction", loop_name);
  if (block->block.init == NULL)
    tn__sched_refuse(s, "decompose_reduction of \"%s\": it has no initialisation", block_name);
  if (!tn__sched_is_under(block, loop))
    tn__sched_refuse(s, "decompose_reduction of \"%s\": it is not under \"%s\"", block_name, loop_name);
  for (const tn__snode *n = loop->parent; n->var != NULL; n = n->parent)
    if (tn__sched_drives(n, block, TN__AXIS_REDUCE))
      tn__sched_refuse(s, "decompose_reduction of \"%s\": it reduces over \"%s\", which is around \"%s\"", block_name,
                       n->name, loop_name);
  check_not_repeated(s, "decompose_reduction", block_name, block, loop);
  split_off_init(s, block, loop, NULL);
  const char *names[] = {block_name, loop_name};
  tn__sched_record(s, "decompose_reduction", names, 2, NULL, 0);
}

/* ---- rfactor ----------------------------------------------------------------------------------------------------- */

typedef struct factoring {
  tn__schedule *s;
  tn__snode *block, *loop, *top;  /* top: the outermost loop of the reduction */
  tn__snode *path[TN__MAX_LOOPS]; /* from top to the block */
  int path_count;
  const tn__expr *lane; /* the new axis */
  bool outside;         /* it is the first dimension of partial results, not the last */
} factoring;

static void check_factored(factoring *f, const char *step, const char *name) {
  tn__schedule *s = f->s;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, f->loop, &blocks);
  if (blocks.count != 1) tn__sched_refuse(s, "%s of \"%s\": the loop holds more than one block", step, name);
  f->block = blocks.data[0];
  if (!tn__sched_drives(f->loop, f->block, TN__AXIS_REDUCE))
    tn__sched_refuse(s, "%s of \"%s\": block \"%s\" does not reduce over the loop", step, name, f->block->name);
  if (f->block->combiner == NULL)
    tn__sched_refuse(s, "%s of \"%s\": \"%s\" has no combiner", step, name, f->block->name);
  if (!f->block->combiner->reorderable)
    tn__sched_refuse(s, "%s of \"%s\": the combiner of \"%s\" must be applied in order", step, name, f->block->name);
  tn__sched_check_free(s, step, f->loop, false);
}

static void check_axis_by_axis(const factoring *f, const char *step, const char *name) {
  int dims[TN__MAX_RANK];
  if (!tn__sched_identity_write(f->block, dims) || f->block->block.writes[0].buffer->rank == TN__MAX_RANK)
    tn__sched_refuse(f->s, "%s of \"%s\": \"%s\" does not write its tensor axis by axis", step, name, f->block->name);
}

static void check_rfactor(factoring *f, const char *name) {
  tn__schedule *s = f->s;
  check_factored(f, "rfactor", name);
  f->top = f->loop;
  for (tn__snode *n = f->loop->parent; n->var != NULL; n = n->parent)
    if (tn__sched_drives(n, f->block, TN__AXIS_REDUCE)) f->top = n;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, f->top, &blocks);
  if (blocks.count != 1)
    tn__sched_refuse(s, "rfactor of \"%s\": loop \"%s\" holds more than one block", name, f->top->name);
  /* First: data mostly say it for each element, and then both are so. */
  if (tn__expr_has_load(f->loop->var->extent))
    tn__sched_refuse(s, "rfactor of \"%s\": the loop is as long as data say", name);
  for (const tn__snode *n = f->loop; n->var != NULL; n = n->parent)
    if (n != f->loop && tn__expr_uses_var(f->loop->var->extent, n->var))
      tn__sched_refuse(s, "rfactor of \"%s\": the loop is as long as \"%s\" says", name, n->name);
  f->path_count = tn__sched_path(s, f->top->parent, f->block, f->path);
  for (int i = 0; i < f->path_count; i++)
    if (f->path[i]->kind != TN__LOOP_SERIAL)
      tn__sched_refuse(s, "rfactor of \"%s\": loop \"%s\" is not serial any more", name, f->path[i]->name);
  check_not_repeated(s, "rfactor", name, f->block, f->top);
  check_axis_by_axis(f, "rfactor", name);
}

static void add_lane(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  const factoring *f = user;
  int rank = f->block->block.writes[0].buffer->rank;
  for (int d = 0; d < rank; d++) out[d + f->outside] = indices[d];
  out[f->outside ? 0 : rank] = f->lane;
}

static const tn__buffer *lane_buffer(factoring *f, const tn__buffer *buffer) {
  const tn__expr *shape[TN__MAX_RANK];
  for (int d = 0; d < buffer->rank; d++) shape[d + f->outside] = buffer->shape[d];
  shape[f->outside ? 0 : buffer->rank] = f->loop->var->extent;
  return tn__sched_add_buffer(f->s, tn__arena_printf(f->s->arena, "%s.rf", buffer->name), buffer->dtype,
                              TN__SCOPE_WORKSPACE, buffer->rank + 1, shape);
}

/* The statement that combines lane `lane` of the partial results into the block's own tensors. */
static const tn__stmt *combine(factoring *f, const tn__buffer *const *tensors, const tn__expr *const *indices,
                               const tn__buffer *const *partial, const tn__expr *lane) {
  tn__ir *ir = f->s->ir;
  const tn__te_combiner *c = f->block->combiner;
  const tn__var *vars[8], *lets[4];
  const tn__expr *values[8], *results[4], *with_lane[TN__MAX_RANK];
  const tn__stmt *stores[4];
  TN__INVARIANT(tensors[0] != NULL); /* a block writes one tensor at least */
  for (int d = 0; d < tensors[0]->rank; d++) with_lane[d + f->outside] = indices[d];
  with_lane[f->outside ? 0 : tensors[0]->rank] = lane;
  for (int t = 0; t < c->count; t++) {
    vars[t] = c->lhs[t];
    values[t] = tn__ir_load(ir, tensors[t], indices);
    vars[c->count + t] = c->rhs[t];
    values[c->count + t] = tn__ir_load(ir, partial[t], with_lane);
  }
  for (int t = 0; t < c->count; t++) {
    results[t] = tn__ir_substitute(ir, c->result[t], vars, values, 2 * c->count);
    lets[t] = tn__var_create(ir, "combined", results[t]->dtype, NULL, NULL);
    stores[t] = tn__ir_store(ir, tensors[t], indices, c->count == 1 ? results[t] : lets[t]->self);
  }
  const tn__stmt *body = tn__ir_seq(ir, stores, c->count);
  for (int t = c->count - 1; t >= 0 && c->count > 1; t--) body = tn__ir_let(ir, lets[t], results[t], body);
  return body;
}

/* Turns the reducing block into one that reduces per value of the loop. */
static void make_partial(factoring *f, const tn__buffer *const *tensors, const tn__buffer *const *partial,
                         int tensor_count) {
  tn__schedule *s = f->s;
  tn__ir *ir = s->ir;
  tn__block *b = &f->block->block;
  const tn__block_axis *kept;
  int count = spatial_axes(s, f->block, &kept, f->path_count + 1);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, count + f->path_count + 1, tn__block_axis);
  const tn__var *loops[TN__MAX_LOOPS], *old_axes[3 * TN__MAX_RANK];
  const tn__expr *in_axes[TN__MAX_LOOPS], *old_values[3 * TN__MAX_RANK];
  int loop_count = 0, old_count = 0;
  for (int i = 0; i < count; i++) axes[i] = kept[i];
  for (int i = 0; i < f->path_count; i++) {
    tn__snode *loop = f->path[i];
    if (!tn__sched_drives(loop, f->block, TN__AXIS_REDUCE)) continue;
    const tn__var *axis =
        tn__var_create(ir, loop == f->loop ? "lane" : "step", TN_I64, tn__ir_index(ir, 0), loop->var->extent);
    if (loop == f->loop) f->lane = axis->self;
    axes[count++] = (tn__block_axis){
        .var = axis, .kind = loop == f->loop ? TN__AXIS_SPATIAL : TN__AXIS_REDUCE, .binding = loop->var->self};
    loops[loop_count] = loop->var;
    in_axes[loop_count++] = axis->self;
  }
  for (int i = 0; i < b->axis_count; i++) {
    if (b->axes[i].kind != TN__AXIS_REDUCE) continue;
    old_axes[old_count] = b->axes[i].var;
    old_values[old_count++] = tn__ir_substitute(ir, b->axes[i].binding, loops, in_axes, loop_count);
  }
  const tn__stmt *init = b->init, *body = tn__stmt_substitute(ir, b->body, old_axes, old_values, old_count);
  for (int t = 0; t < tensor_count; t++) {
    if (init != NULL) init = tn__stmt_replace_buffer(ir, init, tensors[t], partial[t], add_lane, f);
    body = tn__stmt_replace_buffer(ir, body, tensors[t], partial[t], add_lane, f);
  }
  b->axes = axes;
  b->axis_count = count;
  b->name = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rf", f->block->name));
  tn__sched_name(s, f->block, b->name);
  tn__sched_set_body(s, f->block, init, body);
}

/* The partial tensors, in the combiner's order, which is the order of the stores in the initialisation. */
TN_MUST_USE static int partial_tensors(factoring *f, const tn__buffer *tensors[4], const tn__buffer *partial[4]) {
  int count = f->block->block.write_count;
  for (int t = 0; t < count; t++) {
    tensors[t] = f->block->block.writes[t].buffer;
    partial[t] = lane_buffer(f, tensors[t]);
  }
  return count;
}

/* Makes `final`, which has the spatial axes already, the block that combines partial results lane by lane. */
static void make_final(factoring *f, tn__snode *final, const char *name, const tn__var *lane, const tn__expr *binding,
                       const tn__stmt *init, const tn__stmt *body) {
  tn__block_axis *axes = TN__NEW_ARRAY(f->s->arena, final->block.axis_count + 1, tn__block_axis);
  for (int i = 0; i < final->block.axis_count; i++) axes[i] = final->block.axes[i];
  axes[final->block.axis_count++] = (tn__block_axis){.var = lane, .kind = TN__AXIS_REDUCE, .binding = binding};
  final->block.axes = axes;
  final->block.name = name;
  tn__sched_name(f->s, final, name);
  final->combiner = f->block->combiner;
  tn__sched_set_body(f->s, final, init, body);
}

static bool adds_floats(const tn__te_combiner *c) {
  for (int t = 0; t < c->count; t++) {
    const tn__expr *sum = c->result[t], *lhs = c->lhs[t]->self, *rhs = c->rhs[t]->self;
    bool both = sum->kind == TN__EXPR_ADD &&
                (sum->args[0] == lhs ? sum->args[1] == rhs : sum->args[0] == rhs && sum->args[1] == lhs);
    if (!both || c->identity[t]->kind != TN__EXPR_FLOAT || c->identity[t]->value.f != 0) return false;
  }
  return true;
}

static const tn__stmt *start_from_minus_zero(tn__ir *ir, const tn__stmt *s, void *user) {
  if (s->kind != TN__STMT_STORE || s->as.store.value->kind != TN__EXPR_FLOAT) return NULL;
  const tn__expr *minus_zero = tn__ir_float(ir, s->as.store.value->dtype, -0.0);
  return tn__ir_store(ir, s->as.store.buffer, s->as.store.indices, minus_zero);
}

/* What the block that adds partial results up starts from. A sum of floats that starts from 0 is never -0: so adding
 * it to -0 gives just that, where adding it to 0 takes an operation. There is a partial result, where lanes are
 * numbered. */
static const tn__stmt *start_of_final(const factoring *f, const tn__stmt *init) {
  int64_t lanes;
  bool some = tn__ir_as_int(f->loop->var->extent, &lanes) && lanes > 0;
  if (init == NULL || !some || !adds_floats(f->block->combiner)) return init;
  return tn__stmt_rewrite(f->s->ir, init, start_from_minus_zero, NULL, NULL);
}

void tn__sched_rfactor(tn__schedule *s, const char *name) {
  factoring f = {.s = s, .loop = tn__sched_loop(s, "rfactor", name)};
  tn__ir *ir = s->ir;
  check_rfactor(&f, name);
  tn__snode *block = f.block, *outermost;
  const char *block_name = block->name;
  const tn__buffer *tensors[4] = {NULL}, *partial[4] = {NULL};
  int tensor_count = partial_tensors(&f, tensors, partial);
  const tn__expr *const *indices = block->block.writes[0].min;
  const tn__stmt *init = block->block.init;
  const char *lane_name = tn__arena_printf(s->arena, "%s.lane", block_name);
  tn__snode *final = derive_block(s, block, tn__arena_printf(s->arena, "%s.combine", block_name), f.path, f.path_count,
                                  NULL, 1, &outermost);
  make_partial(&f, tensors, partial, tensor_count);
  split_off_init(s, block, f.top, f.loop);

  tn__snode *lanes = tn__sched_new_loop(s, lane_name, f.loop->var->extent, TN__LOOP_SERIAL);
  const tn__var *lane = tn__var_create(ir, "lane", TN_I64, tn__ir_index(ir, 0), f.loop->var->extent);
  init = start_of_final(&f, init);
  make_final(&f, final, block_name, lane, lanes->var->self, init, combine(&f, tensors, indices, partial, lane->self));
  tn__snode *holder = final->parent;
  if (holder == NULL) {
    outermost = lanes;
  } else {
    tn__sched_detach(final);
    tn__sched_append(s, holder, lanes);
  }
  tn__sched_append(s, lanes, final);
  tn__sched_insert(s, f.top->parent, tn__sched_index(f.top) + 1, outermost);
  tn__sched_record(s, "rfactor", &name, 1, NULL, 0);
}

/* ---- rfactor_at -------------------------------------------------------------------------------------------------- */

static void check_rfactor_at(factoring *f, const char *name, tn__snode *place) {
  tn__schedule *s = f->s;
  if (!tn__sched_is_under(place, f->loop))
    tn__sched_refuse(s, "rfactor_at of \"%s\": \"%s\" is not inside of it", name, place->name);
  check_factored(f, "rfactor_at", name);
  if (f->block->block.init == NULL)
    tn__sched_refuse(s, "rfactor_at of \"%s\": the initialisation of \"%s\" has been split off already", name,
                     f->block->name);
  bool reduces = false;
  for (const tn__snode *n = f->block->parent; n->var != NULL; n = n->parent) {
    bool outside = tn__sched_is_under(place, n);
    if (n == f->loop || !tn__sched_drives(n, f->block, TN__AXIS_REDUCE)) continue;
    if (outside)
      tn__sched_refuse(s, "rfactor_at of \"%s\": \"%s\" reduces over \"%s\", which is around \"%s\", too", name,
                       f->block->name, n->name, place->name);
    reduces = true;
  }
  if (!reduces)
    tn__sched_refuse(s, "rfactor_at of \"%s\": there is nothing left to reduce inside of \"%s\"", name, place->name);
  tn__sched_check_not_frozen(s, "rfactor_at", f->block);
  f->path_count = tn__sched_path(s, f->loop->parent, f->block, f->path);
  check_not_repeated(s, "rfactor_at", name, f->block, f->loop);
  check_axis_by_axis(f, "rfactor_at", name);
}

/* Is the first term of each lane there, wherever the block writes at all? */
static bool starts_with_term(tn__schedule *s, const tn__snode *block, const tn__expr *predicate) {
  const tn__var *vars[TN__MAX_LOOPS];
  const tn__expr *zeros[TN__MAX_LOOPS];
  int count = 0;
  if (predicate->kind == TN__EXPR_AND)
    return starts_with_term(s, block, predicate->args[0]) && starts_with_term(s, block, predicate->args[1]);
  for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent)
    if (tn__sched_drives(n, block, TN__AXIS_REDUCE) && tn__expr_uses_var(predicate, n->var)) {
      vars[count] = n->var;
      zeros[count++] = tn__ir_index(s->ir, 0);
    }
  return count == 0 || tn__ir_prove(s->ir, tn__ir_substitute(s->ir, predicate, vars, zeros, count));
}

void tn__sched_rfactor_at(tn__schedule *s, const char *name, const char *place_name) {
  factoring f = {.s = s, .loop = tn__sched_loop(s, "rfactor_at", name)};
  tn__snode *place = tn__sched_loop(s, "rfactor_at", place_name), *outermost, *inside[TN__MAX_LOOPS];
  check_rfactor_at(&f, name, place);
  tn__snode *block = f.block, *nest = block;
  while (nest->parent != place) nest = nest->parent;
  const char *block_name = block->name;
  const tn__buffer *tensors[4] = {NULL}, *partial[4] = {NULL};
  int tensor_count = partial_tensors(&f, tensors, partial);
  const tn__expr *const *indices = block->block.writes[0].min;
  const tn__stmt *init = block->block.init;
  int count = tn__sched_path(s, place, block, inside);
  tn__snode *final =
      derive_block(s, block, tn__arena_printf(s->arena, "%s.combine", block_name), inside, count, NULL, 1, &outermost);
  make_partial(&f, tensors, partial, tensor_count);
  const tn__var *lane = tn__var_create(s->ir, "lane", TN_I64, tn__ir_index(s->ir, 0), f.loop->var->extent);
  make_final(&f, final, block_name, lane, f.loop->var->self, init, combine(&f, tensors, indices, partial, lane->self));
  tn__sched_insert(s, place, tn__sched_index(nest) + 1, outermost);
  tn__snode *reducing[TN__MAX_LOOPS] = {f.loop};
  int reducing_count = 1;
  for (int i = 0; i < count; i++)
    if (tn__sched_drives(inside[i], block, TN__AXIS_REDUCE)) reducing[reducing_count++] = inside[i];
  const tn__expr *predicate = block->block.predicate;
  block->ragged = tn__sched_conjuncts_without(s->ir, predicate, reducing, reducing_count) != predicate;
  if (!starts_with_term(s, block, predicate)) split_off_init(s, block, nest, NULL);
  const char *names[] = {name, place_name};
  tn__sched_record(s, "rfactor_at", names, 2, NULL, 0);
}

/* ---- peel -------------------------------------------------------------------------------------------------------- */

typedef struct peeling {
  tn__schedule *s;
  tn__snode *loop, *block;
  int axis;                   /* of the block: the loop runs along it from end to end */
  const tn__expr *turns;      /* how often `factor` iterations are there */
  const tn__expr *axis_first; /* where the rest begins, in terms of the block's axes */
  const tn__expr *axis_rest;  /* how long it is */
} peeling;

static void check_peeled(peeling *p, const char *name, int64_t factor) {
  tn__schedule *s = p->s;
  if (factor < 2 || factor > 1 << 16)
    tn__sched_refuse(s, "peel of \"%s\": %lld iterations at a time are out of range", name, (long long)factor);
  if (p->loop->children.count != 1 || !p->loop->children.data[0]->is_block)
    tn__sched_refuse(s, "peel of \"%s\": the loop holds more than one block", name);
  p->block = p->loop->children.data[0];
  const char *block = p->block->name;
  if (p->block->combiner == NULL || !tn__sched_drives(p->loop, p->block, TN__AXIS_REDUCE))
    tn__sched_refuse(s, "peel of \"%s\": block \"%s\" does not reduce over the loop", name, block);
  if (p->block->block.init != NULL)
    tn__sched_refuse(s, "peel of \"%s\": \"%s\" has its initialisation still; decompose_reduction first", name, block);
  p->axis = -1;
  int driven = 0;
  for (int i = 0; i < p->block->block.axis_count; i++) {
    const tn__expr *binding = p->block->block.axes[i].binding;
    driven += tn__expr_uses_var(binding, p->loop->var);
    if (binding == p->loop->var->self) p->axis = i;
  }
  if (p->axis < 0 || driven > 1)
    tn__sched_refuse(s, "peel of \"%s\": the loop is a part of what \"%s\" reduces over", name, block);
  tn__sched_check_free(s, "peel", p->loop, true);
  tn__sched_check_not_frozen(s, "peel", p->block);
}

/* So many iterations at a time, and the number of those that are left. */
static const tn__expr *turns_of(tn__ir *ir, const tn__expr *extent, int64_t factor, const tn__expr **rest) {
  if (tn__interval_of(ir, extent).min < 0) extent = tn__ir_max(ir, extent, tn__ir_index(ir, 0));
  const tn__expr *turns = tn__ir_div_i(ir, extent, factor);
  *rest = tn__ir_mod_i(ir, extent, factor);
  return turns;
}

/* A block for what is left: along an axis of its own, from where the others end. */
static tn__snode *rest_of(const peeling *p, int64_t factor, const tn__expr *left) {
  tn__schedule *s = p->s;
  const tn__block *from = &p->block->block;
  tn__block copy = *from;
  copy.name = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.rest", from->name));
  tn__snode *loop = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.rest", p->loop->name), left, TN__LOOP_SERIAL);
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, from->axis_count, tn__block_axis);
  for (int i = 0; i < from->axis_count; i++) axes[i] = from->axes[i];
  const tn__var *was = axes[p->axis].var;
  const tn__var *var = tn__var_create(s->ir, was->name, TN_I64, tn__ir_index(s->ir, 0), p->axis_rest);
  axes[p->axis].var = var;
  axes[p->axis].binding = loop->var->self;
  copy.axes = axes;
  const tn__expr *place = tn__ir_add(s->ir, tn__ir_mul_i(s->ir, p->turns, factor), loop->var->self);
  copy.predicate = tn__ir_substitute(s->ir, from->predicate, &p->loop->var, &place, 1);
  const tn__expr *position = tn__ir_add(s->ir, p->axis_first, var->self);
  tn__snode *rest = tn__sched_new_block(s, &copy);
  rest->exact = p->block->exact;
  rest->combiner = p->block->combiner;
  tn__sched_set_body(s, rest, NULL, tn__stmt_substitute(s->ir, from->body, &was, &position, 1));
  tn__sched_append(s, loop, rest);
  return loop;
}

void tn__sched_peel(tn__schedule *s, const char *name, int64_t factor) {
  peeling p = {.s = s, .loop = tn__sched_loop(s, "peel", name)};
  check_peeled(&p, name, factor);
  tn__ir *ir = s->ir;
  tn__snode *block = p.block, *parent = p.loop->parent;
  const tn__expr *left;
  p.axis_first = turns_of(ir, block->block.axes[p.axis].var->extent, factor, &p.axis_rest);
  p.axis_first = tn__ir_mul_i(ir, p.axis_first, factor);
  p.turns = turns_of(ir, p.loop->var->extent, factor, &left);
  tn__snode *rest = rest_of(&p, factor, left);
  tn__snode *outer = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.0", name), p.turns, TN__LOOP_SERIAL);
  const tn__expr *steps = tn__ir_index(ir, factor);
  tn__snode *inner = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.1", name), steps, TN__LOOP_SERIAL);
  const tn__expr *place = tn__ir_add(ir, tn__ir_mul_i(ir, outer->var->self, factor), inner->var->self);
  tn__sched_substitute(s, p.loop, &p.loop->var, &place, 1);
  block->block.predicate = tn__ir_and(ir, block->block.predicate, tn__ir_lt(ir, tn__ir_index(ir, 0), p.turns));
  int at = tn__sched_index(p.loop);
  tn__sched_detach(block);
  tn__sched_detach(p.loop);
  tn__sched_append(s, outer, inner);
  tn__sched_append(s, inner, block);
  tn__sched_insert(s, parent, at, rest);
  tn__sched_insert(s, parent, at, outer);
  tn__sched_record(s, "peel", &name, 1, &factor, 1);
}

/* ---- privatize --------------------------------------------------------------------------------------------------- */

/* Do both have an element at the same indices? A tensor in another layout has not. */
static bool is_alike(const tn__region *a, const tn__region *b) {
  if (a->buffer->rank != b->buffer->rank) return false;
  for (int d = 0; d < a->buffer->rank; d++)
    if (a->buffer->shape[d] != b->buffer->shape[d] || a->min[d] != b->min[d]) return false;
  return true;
}

static void check_privatized(factoring *f, const char *name) {
  tn__schedule *s = f->s;
  tn__snodes blocks = {0};
  tn__sched_blocks(s, tn__sched_root_nest(s, f->loop), &blocks);
  if (blocks.count != 1) tn__sched_refuse(s, "privatize of \"%s\": the nest holds more than one block", name);
  f->block = blocks.data[0];
  const char *block = f->block->name;
  if (f->block->combiner == NULL || !tn__sched_drives(f->loop, f->block, TN__AXIS_REDUCE))
    tn__sched_refuse(s, "privatize of \"%s\": block \"%s\" does not reduce over the loop", name, block);
  if (f->block->block.init != NULL)
    tn__sched_refuse(s, "privatize of \"%s\": \"%s\" has its initialisation still; use rfactor", name, block);
  if (!f->block->combiner->reorderable)
    tn__sched_refuse(s, "privatize of \"%s\": the combiner of \"%s\" must be applied in order", name, block);
  if (!f->block->exact || f->block->block.writes[0].buffer->rank == TN__MAX_RANK)
    tn__sched_refuse(s, "privatize of \"%s\": \"%s\" was moved, or has too many dimensions", name, block);
  for (int w = 1; w < f->block->block.write_count; w++)
    if (!is_alike(&f->block->block.writes[0], &f->block->block.writes[w]))
      tn__sched_refuse(s, "privatize of \"%s\": the tensors of \"%s\" have different layouts", name, block);
  f->path_count = tn__sched_path(s, s->root, f->block, f->path);
  tn__sched_check_free(s, "privatize", f->loop, false);
  tn__sched_check_not_frozen(s, "privatize", f->block);
  for (int i = 0; i < f->path_count; i++) {
    bool varies = tn__expr_has_load(f->path[i]->var->extent);
    for (int j = 0; j < i; j++) varies |= tn__expr_uses_var(f->path[i]->var->extent, f->path[j]->var);
    if (varies)
      tn__sched_refuse(s, "privatize of \"%s\": \"%s\" is as long as data or other loops say", name, f->path[i]->name);
  }
}

/* A block over `rank` axes of these extents in a nest of its own, which `outermost` gets; without a body yet. */
static tn__snode *nest_over(tn__schedule *s, const char *name, int rank, const tn__expr *const *shape, int reduce,
                            tn__snode **outermost) {
  tn__block_axis *axes = TN__NEW_ARRAY(s->arena, rank, tn__block_axis);
  tn__block block = {
      .name = tn__sched_fresh_name(s, true, name), .axis_count = rank, .predicate = tn__ir_bool(s->ir, true)};
  tn__snode *innermost = NULL;
  for (int d = 0; d < rank; d++) {
    const char *axis = d == 0 ? "lane" : tn__arena_printf(s->arena, "a%d", d - 1);
    tn__snode *loop = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.%s", name, axis), shape[d], TN__LOOP_SERIAL);
    axes[d] = (tn__block_axis){.var = tn__var_create(s->ir, axis, TN_I64, tn__ir_index(s->ir, 0), shape[d]),
                               .kind = d == reduce ? TN__AXIS_REDUCE : TN__AXIS_SPATIAL,
                               .binding = loop->var->self};
    if (innermost == NULL)
      *outermost = loop;
    else
      tn__sched_append(s, innermost, loop);
    innermost = loop;
  }
  block.axes = axes;
  tn__snode *node = tn__sched_new_block(s, &block);
  tn__sched_append(s, innermost, node);
  return node;
}

void tn__sched_privatize(tn__schedule *s, const char *name) {
  factoring f = {.s = s, .loop = tn__sched_loop(s, "privatize", name), .outside = true};
  check_privatized(&f, name);
  tn__snode *block = f.block, *nest = tn__sched_root_nest(s, block), *outermost = NULL;
  const char *block_name = block->name;
  const tn__buffer *tensors[4] = {NULL}, *partial[4] = {NULL};
  const tn__expr *positions[TN__MAX_RANK + 1] = {NULL};
  const tn__stmt *stores[4] = {NULL};
  int count = partial_tensors(&f, tensors, partial);
  TN__INVARIANT(tensors[0] != NULL); /* what is made private has tensors */
  int rank = tensors[0]->rank;
  make_partial(&f, tensors, partial, count);

  const char *init_name = tn__arena_printf(s->arena, "%s.init", block->name);
  tn__snode *init = nest_over(s, init_name, rank + 1, partial[0]->shape, -1, &outermost);
  for (int d = 0; d <= rank; d++) positions[d] = init->block.axes[d].var->self;
  for (int t = 0; t < count; t++) stores[t] = tn__ir_store(s->ir, partial[t], positions, block->combiner->identity[t]);
  tn__sched_set_body(s, init, NULL, tn__ir_seq(s->ir, stores, count));
  tn__sched_insert(s, s->root, tn__sched_index(nest), outermost);

  tn__snode *final = nest_over(s, block_name, rank + 1, partial[0]->shape, 0, &outermost);
  for (int d = 0; d <= rank; d++) positions[d] = final->block.axes[d].var->self;
  final->combiner = block->combiner;
  tn__sched_set_body(s, final, NULL, combine(&f, tensors, positions + 1, partial, positions[0]));
  tn__sched_insert(s, s->root, tn__sched_index(nest) + 1, outermost);
  tn__sched_record(s, "privatize", &name, 1, NULL, 0);
}
