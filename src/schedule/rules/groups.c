/* Elements that lie in small groups: pixels of three channels, pairs, points of a few coordinates, small matrices. An
 * axis of three steps fills no vector, so vectors run along the axis outside of it, over as many groups as there are
 * lanes, and the steps inside of a group are unrolled around them:
 *
 *   for groups:  for step (unrolled):  for group (vector):  out[group, step] = its expression
 *
 * Conditions on the step fold then, what several steps of a group read is loaded once, as whole vectors that shuffles
 * take apart, and what the steps make is woven on its way to memory (emit_memory.c). Reductions within a group are
 * unrolled in the same way and keep their results in registers, so that a group never waits for memory. */
#include "schedule/rules/groups.h"

#include "base/invariant.h"

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static void see_access(tn__group_reads *g, const tn__buffer *buffer, const tn__expr *const *indices) {
  tn__ir *ir = g->s->ir;
  int64_t stride;
  for (int d = 0; d < buffer->rank; d++)
    if (tn__expr_has_load(indices[d])) return; /* from anywhere, whatever the vectors run along */
  const tn__expr *flat = tn__buffer_flatten(ir, buffer, indices);
  flat = tn__sched_substitute_axes(ir, g->block, flat);
  if (!tn__expr_uses_var(flat, g->loop->var)) return;
  for (const tn__snode *loop = g->loop->parent; loop != g->s->root; loop = loop->parent)
    g->shared |= !tn__ir_is_int_value(loop->var->extent, 1) && !tn__expr_uses_var(flat, loop->var);
  if (!tn__ir_stride_in(ir, flat, g->loop->var, &stride) || stride < 0 || stride > TN__GROUP_DISTANCE) {
    g->far = true;
    return;
  }
  if (stride < 2) return;
  g->apart = true;
  for (int i = 0; i < g->seen.count; i++)
    if (g->seen.data[i] == buffer) return;
  tn__vec_push(g->s->arena, &g->seen, buffer);
  g->tensors++;
}

static void see_node(const tn__expr *e, void *user) {
  tn__group_reads *g = user;
  int64_t bytes = (int64_t)tn_dtype_size(e->dtype);
  if (e->dtype != TN_I64 && bytes > g->widest) g->widest = bytes; /* as of indices */
  if (e->kind == TN__EXPR_LOAD) see_access(g, e->value.buffer, e->args);
}

tn__group_reads tn__group_reads_of(const tn__schedule *s, const tn__snode *block, const tn__snode *loop) {
  tn__group_reads g = {.s = s, .block = &block->block, .loop = loop, .widest = 1};
  const tn__stmt *body = block->block.body;
  if (body->kind != TN__STMT_STORE) {
    g.far = true;
    return g;
  }
  int64_t bytes = (int64_t)tn_dtype_size(body->as.store.buffer->dtype);
  if (bytes > g.widest) g.widest = bytes;
  see_access(&g, body->as.store.buffer, body->as.store.indices);
  tn__te_visit(s->ir, body->as.store.value, see_node, &g);
  return g;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Vectors along an axis of `steps`, one group after the other: how many it takes of which the last ones are halves,
 * quarters, and so on. */
static int pieces_of(int64_t steps, int64_t lanes) {
  int pieces = 0;
  for (int64_t left = steps; left > 0; pieces++) {
    int64_t width = lanes;
    while (width > left) width /= 2;
    left -= width;
  }
  return pieces;
}

/* Does it take less to compute `lanes` groups at a time than one after the other? Taking one group's steps apart is a
 * shuffle for each pair of them. */
static bool gains(const tn__group_reads *g, int64_t steps, int64_t lanes, int64_t cost) {
  int64_t moved = g->tensors + (g->tensors == 0);
  return steps * cost + steps * (steps - 1) * moved < lanes * pieces_of(steps, lanes) * (cost + moved);
}

/* What is read at a place that data choose, as a colour of a palette or a row of a table. */
typedef struct chosen {
  const tn__schedule *s;
  const tn__block *block;
  const tn__snode *step; /* the loop over a group's elements */
  int count, narrow;     /* of such reads that are side by side in a group, and of these of 1 or 2 bytes */
  int64_t arithmetic;    /* operations of an element that are no loads */
  bool apart;            /* something is neither side by side nor the same for all of a group */
} chosen;

static void see_place(chosen *c, const tn__buffer *buffer, const tn__expr *const *indices) {
  tn__ir *ir = c->s->ir;
  int64_t stride = 0;
  bool by_data = false;
  for (int d = 0; d < buffer->rank; d++) by_data |= tn__expr_has_load(indices[d]);
  const tn__expr *flat = tn__sched_substitute_axes(ir, c->block, tn__buffer_flatten(ir, buffer, indices));
  bool moves = tn__expr_uses_var(flat, c->step->var);
  c->apart |= moves && (!tn__ir_stride_in(ir, flat, c->step->var, &stride) || stride != 1);
  c->count += by_data && stride == 1;
  c->narrow += by_data && stride == 1 && tn_dtype_size(buffer->dtype) < 4;
}

static void see_chosen(const tn__expr *e, void *user) {
  chosen *c = user;
  if (e->kind == TN__EXPR_LOAD)
    see_place(c, e->value.buffer, e->args);
  else if (e->dtype != TN_I64)
    c->arithmetic += tn__rule_cost_of_node(e);
}

/* What one load of a whole group would make, and lanes that belong to groups would be put together of one by one. */
static chosen chosen_reads(const tn__schedule *s, const tn__snode *block, const tn__snode *step) {
  const tn__stmt *body = block->block.body;
  chosen c = {.s = s, .block = &block->block, .step = step};
  see_place(&c, body->as.store.buffer, body->as.store.indices);
  tn__te_visit(s->ir, body->as.store.value, see_chosen, &c);
  return c;
}

/* Does it take less to compute one group after the other, then? In halves of operations: a lane that is looked up is
 * five of these as a rule. Of vectors of 64 bytes it is less where an instruction gathers, and more where bytes have to
 * come into the upper parts. Few lanes are brought to another width and back around each operation. */
static bool within_gains(const tn__group_reads *g, const chosen *c, int64_t steps, int64_t lanes, int64_t cost,
                         bool wide) {
  enum { LOOKED_UP = 5, GATHERED_WIDE = 3, INSERTED_WIDE = 8 };
  int64_t moved = g->tensors + (g->tensors == 0);
  int64_t looked_up = wide ? GATHERED_WIDE * (c->count - c->narrow) + INSERTED_WIDE * c->narrow : LOOKED_UP * c->count;
  if (c->apart || c->count == 0) return false;
  if (c->arithmetic == 0) return true;
  return 2 * lanes * (cost + c->arithmetic + moved * pieces_of(steps, lanes)) <=
         2 * steps * cost + 2 * steps * (steps - 1) * moved + steps * lanes * looked_up;
}

/* A group is a vector, however few elements it has, and several of them make a turn. */
static void vectorize_within(tn__schedule *s, const char *groups, const char *step) {
  enum { IN_A_TURN = 4 };
  int64_t extent = tn__rule_loop_extent(s, groups);
  tn__sched_vectorize(s, step);
  if (extent >= 0 && extent < IN_A_TURN) return;
  tn__sched_split(s, groups, (const int64_t[]){0, IN_A_TURN}, 2);
  tn__sched_unroll(s, tn__arena_printf(s->arena, "%s.1", groups));
}

bool tn__rule_vectorize_groups(tn__schedule *s, const char *name, int64_t lanes) {
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path), inner = 0, n = 0;
  int64_t steps = 1, extent;
  const char *order[TN__MAX_LOOPS];
  if (block->block.body->kind != TN__STMT_STORE) return false;
  while (inner < count && tn__ir_as_int(path[count - 1 - inner]->var->extent, &extent) &&
         extent * steps <= TN__GROUP_STEPS) {
    steps *= extent;
    inner++;
  }
  if (inner == 0 || inner == count || steps < 2) return false;
  tn__snode *groups = path[count - 1 - inner];
  extent = tn__rule_loop_extent(s, groups->name);
  int64_t cost = tn__rule_cost(s->ir, block->block.body->as.store.value);
  const tn__group_reads g = tn__group_reads_of(s, block, groups);
  const chosen c = chosen_reads(s, block, path[count - 1]);
  if (inner == 1 && within_gains(&g, &c, steps, lanes, cost, lanes * g.widest >= 64)) {
    vectorize_within(s, groups->name, path[count - 1]->name);
    return true;
  }
  if (steps >= lanes || (extent >= 0 && extent < lanes) || g.far || !g.apart || steps * cost > TN__GROUP_OPERATIONS)
    return false;
  if (!gains(&g, steps, lanes, cost)) return false;
  tn__sched_split(s, groups->name, (const int64_t[]){0, lanes}, 2);
  int parts = tn__sched_path(s, s->root, block, path); /* the loop of groups was split into two */
  TN__INVARIANT(parts == count + 1);
  for (int i = count - 1 - inner; i < count + 1; i++)
    if (i != count - inner) order[n++] = path[i]->name;
  const char *vector = order[n++] = path[count - inner]->name;
  tn__sched_reorder(s, order, n);
  for (int i = 1; i < n - 1; i++) tn__sched_unroll(s, order[i]);
  tn__sched_vectorize(s, vector);
  return true;
}
