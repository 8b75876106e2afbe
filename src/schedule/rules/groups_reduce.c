/* The rule "groups" computes maps and reductions within small groups of elements, all of a group at once (groups.c). */
#include <string.h>

#include "schedule/rules/groups.h"
#include "schedule/rules/reduce.h"

/* The points of axes that are counted out, -1 where they are more than a group has or not known. */
static int64_t steps_of(const tn__te_axes *axes, int from) {
  int64_t steps = 1, extent;
  for (int a = from; a < axes->count; a++) {
    if (!tn__ir_as_int(axes->var[a]->extent, &extent) || extent * steps > TN__GROUP_STEPS) return -1;
    steps *= extent;
  }
  return steps;
}

/* How many axes stand outside of the groups: of the output, all but those at the end that are a few steps together. */
static int outer_axes(const tn__te_stage *output) {
  int outer = output->axes.count;
  while (outer > 0 && steps_of(&output->axes, outer - 1) > 0) outer--;
  return outer;
}

static const tn__te_stage *output_of(const tn__te *te) { return tn__te_stage_of(te, tn__te_output_at(te, 0)); }

static bool matches(const tn__te *te) {
  if (tn__te_output_count(te) != 1) return false;
  const tn__te_stage *output = output_of(te);
  int outer = outer_axes(output), reductions = 0;
  if (outer < 1) return false;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if ((stage->kind != TN__TE_COMPUTE && stage->kind != TN__TE_REDUCE) || stage->step_of != NULL) return false;
    if (stage->kind == TN__TE_COMPUTE) continue;
    reductions++;
    if (stage->tensor_count > 1 || stage->axes.count < outer || steps_of(&stage->axes, outer) < 0) return false;
    if (steps_of(&stage->reduce_axes, 0) < 0) return false;
    for (int a = 0; a < outer; a++)
      if (stage->axes.var[a]->extent != output->axes.var[a]->extent) return false;
  }
  return reductions > 0;
}

/* What is computed for each group, and how many lanes that has. */
typedef struct groups {
  tn__nest nest; /* of the output */
  int outer, stages;
  int64_t lanes;
  bool large;
  double points; /* groups */
  double operations[TN__NEST_AXES], loads[TN__NEST_AXES];
} groups;

/* Of a stage that is left, per group; throws where vectors along the groups are no use for it. */
static void see_stage(tn__schedule *s, const tn__te_stage *stage, groups *all, int64_t *widest, bool *apart) {
  const tn__snode *block = tn__sched_find(s, stage->name, true);
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, block, path);
  int64_t steps = steps_of(&stage->axes, all->outer);
  if (stage->axes.count < all->outer || steps < 0 || count < all->outer || all->stages == TN__NEST_AXES)
    tn__sched_refuse(s, "groups: \"%s\" has no groups", stage->name);
  const tn__group_reads g = tn__group_reads_of(s, block, path[all->outer - 1]);
  if (g.far || g.shared) tn__sched_refuse(s, "groups: \"%s\" reads more than groups of its own", stage->name);
  *apart |= g.apart;
  if (g.widest > *widest) *widest = g.widest;
  steps *= steps_of(&stage->reduce_axes, 0);
  all->operations[all->stages] = (double)(steps * (1 + tn__rule_cost(s->ir, block->block.body->as.store.value)));
  all->loads[all->stages++] = (double)(steps * (g.tensors + 1));
}

static void open_groups(tn__sketch *k, tn__schedule *scratch) {
  groups *all = TN__NEW(scratch->arena, groups);
  const tn__te_stage *output = output_of(k->te);
  int64_t widest = 1, extent;
  double operations = 0;
  bool apart = false;
  all->outer = outer_axes(output);
  all->large = tn__rule_is_large(k->te);
  tn__reduce_dissolve_maps(scratch);
  tn__reduce_refuse_repeated(scratch, all->outer, "groups");
  for (int i = 0; i < tn__te_stage_count(k->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(k->te, i);
    if (tn__sched_find(scratch, stage->name, true) != NULL) see_stage(scratch, stage, all, &widest, &apart);
  }
  for (int i = 0; i < all->stages; i++) operations += all->operations[i];
  all->lanes = k->options.vector_bytes / widest;
  all->points = 1;
  for (int a = 0; a < all->outer; a++) all->points *= tn__ir_extent_estimate(output->axes.var[a]->extent);
  bool known = tn__ir_as_int(output->axes.var[all->outer - 1]->extent, &extent);
  if (!apart || all->lanes < 4 || (known && extent < all->lanes) || operations > TN__GROUP_OPERATIONS)
    tn__sched_refuse(scratch, "groups: there is nothing to take apart, or too few or too large groups");
  tn__nest_of_block(scratch, output->name, &all->nest);
  k->data = all;
}

static const tn__nest *features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  const groups *all = k->data;
  (void)values;
  f->chunks = all->large ? 4 * k->options.threads : 1;
  for (int a = 0; a < all->nest.axis_count; a++) f->loops[f->loop_count++] = (tn__nest_loop){a, all->nest.extent[a], 1};
  for (int i = 0; i < all->stages; i++) {
    tn__operations ops = {
        .vector_bytes = k->options.vector_bytes, .fma = all->operations[i], .shuffles = all->loads[i]};
    ops.loads = all->loads[i];
    tn__cost_phase(f, k->target, &ops, all->points / (double)all->lanes);
  }
  f->useful = f->spent = all->points;
  return &all->nest;
}

/* The loops of a block under the one over groups: all unrolled around the vector, which is number `vector` of them. */
static void unroll_steps(tn__schedule *s, const char *name, const char *around, int vector) {
  const char *order[TN__MAX_LOOPS], *reduce = NULL;
  tn__snode *block = tn__sched_find(s, name, true), *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, tn__sched_find(s, around, false), block, path), n = 0;
  for (int i = 0; i < count; i++) {
    if (i == vector) continue;
    if (reduce == NULL && tn__sched_drives(path[i], block, TN__AXIS_REDUCE)) reduce = path[i]->name;
    order[n++] = path[i]->name;
  }
  order[n++] = path[vector]->name;
  if (n > 1) tn__sched_reorder(s, order, n);
  for (int i = 0; i < n - 1; i++) tn__sched_unroll(s, order[i]);
  tn__sched_vectorize(s, order[n - 1]);
  if (reduce != NULL) tn__sched_decompose_reduction(s, name, reduce);
}

/* Vectors lie side by side in registers: the axis of the groups comes last in the tensor. */
static void keep_in_registers(tn__schedule *s, const char *name, int outer) {
  const tn__buffer *buffer = tn__sched_find(s, name, true)->block.writes[0].buffer;
  tn__layout layout = {.rank = buffer->rank};
  for (int d = 0; d < buffer->rank; d++)
    layout.parts[d] = (tn__layout_part){d < outer - 1 ? d : d == buffer->rank - 1 ? outer - 1 : d + 1, 1, 0};
  tn__sched_set_scope(s, name, 0, TN__SCOPE_REGISTER);
  if (buffer->rank > outer) tn__sched_transform_layout(s, buffer->name, &layout);
}

static void apply(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const groups *all = k->data;
  const tn__te_stage *output = output_of(s->te);
  const char *anchor = output->name, *loops[TN__MAX_LOOPS];
  (void)values;
  tn__reduce_dissolve_maps(s);
  if (output->kind == TN__TE_REDUCE) {
    anchor = tn__sched_fresh_name(s, true, tn__arena_printf(s->arena, "%s.write", output->name));
    tn__sched_cache_write(s, output->name, 0, TN__SCOPE_REGISTER);
  }
  tn__sched_first_loops(s, anchor, loops, all->outer);
  const char *last = loops[all->outer - 1], *around = tn__arena_printf(s->arena, "%s.0", last),
             *outermost = all->outer > 1 ? loops[0] : around;
  tn__sched_split(s, last, (const int64_t[]){0, all->lanes}, 2);
  for (int i = tn__te_stage_count(s->te) - 1; i >= 0; i--) {
    const char *name = tn__te_stage_at(s->te, i)->name;
    if (strcmp(name, anchor) == 0 || tn__sched_find(s, name, true) == NULL) continue;
    tn__sched_compute_at(s, name, around);
    keep_in_registers(s, name, all->outer);
  }
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const char *name = tn__te_stage_at(s->te, i)->name;
    if (strcmp(name, anchor) != 0 && tn__sched_find(s, name, true) != NULL)
      unroll_steps(s, name, around, all->outer - 1);
  }
  unroll_steps(s, anchor, around, 0);
  if (tn__rule_shares(s, &k->options)) tn__sched_parallel(s, outermost);
}

const tn__rule tn__rule_groups = {"groups", matches, open_groups, features, apply};
