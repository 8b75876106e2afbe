/* Primitives that change loops: split, fuse, reorder and the kinds. */
#include <string.h>

#include "schedule/internal.h"

/* ---- split ------------------------------------------------------------------------------------------------------- */

typedef struct guarding {
  tn__ir *ir;
  const tn__expr *condition;
} guarding;

static void guard(tn__snode *block, void *user) {
  const guarding *g = user;
  block->block.predicate = tn__and(g->ir, block->block.predicate, g->condition);
}

void tn__split(tn__schedule *s, const char *name, const int64_t *factors, int count) {
  tn__snode *loop = tn__sched_loop(s, "split", name);
  tn__ir *ir = s->ir;
  int64_t product = 1;
  int open = -1;
  if (count < 2 || count > 8) tn__sched_refuse(s, "split of \"%s\": takes 2 to 8 factors, not %d", name, count);
  if (loop->kind != TN__LOOP_SERIAL) tn__sched_refuse(s, "split of \"%s\": the loop is not serial any more", name);
  for (int i = 0; i < count; i++) {
    if (factors[i] < 0 || factors[i] > 1 << 30 || product > 1 << 30)
      tn__sched_refuse(s, "split of \"%s\": factor %lld is out of range", name, (long long)factors[i]);
    if (factors[i] == 0 && open >= 0) tn__sched_refuse(s, "split of \"%s\": only one factor can be 0", name);
    if (factors[i] == 0)
      open = i;
    else
      product *= factors[i];
  }
  const tn__expr *extent = loop->var->extent, *index = tn__index(ir, 0);
  if (open < 0 && !tn__prove(ir, tn__le(ir, extent, tn__index(ir, product))))
    tn__sched_refuse(s, "split of \"%s\": the factors do not cover the loop's extent", name);
  tn__snode *outer = NULL, *inner = NULL;
  for (int i = 0; i < count; i++) {
    const tn__expr *size = i == open ? tn__ceildiv(ir, extent, tn__index(ir, product)) : tn__index(ir, factors[i]);
    tn__snode *part = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.%d", loop->name, i), size, TN__LOOP_SERIAL);
    if (inner == NULL)
      outer = part;
    else
      tn__sched_append(s, inner, part);
    inner = part;
    index = tn__add(ir, tn__mul(ir, index, size), part->var->self);
  }
  tn__sched_substitute(s, loop, &loop->var, &index, 1);
  guarding inside = {.ir = ir, .condition = tn__lt(ir, index, extent)};
  if (!tn__prove(ir, inside.condition)) tn__sched_each_block(loop, guard, &inside);
  inner->children = loop->children;
  for (int i = 0; i < inner->children.count; i++) inner->children.data[i]->parent = inner;
  tn__snode *parent = loop->parent;
  int at = tn__sched_index(loop);
  parent->children.data[at] = outer;
  outer->parent = parent;
  tn__sched_record(s, "split", &name, 1, factors, count);
}

/* ---- fuse -------------------------------------------------------------------------------------------------------- */

static bool drives_any(const tn__snode *loop, const tn__snode *block) {
  return tn__sched_drives(loop, block, TN__AXIS_SPATIAL) || tn__sched_drives(loop, block, TN__AXIS_REDUCE) ||
         tn__sched_drives(loop, block, TN__AXIS_SCAN);
}

/* The fused loop must drive axes of one kind; a loop that only repeats a reduction must not become part of the
 * reduction. */
static bool can_fuse(tn__schedule *s, const tn__snode *outer, tn__snode *inner) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, inner, &blocks);
  for (int i = 0; i < blocks.count; i++)
    for (int kind = TN__AXIS_SPATIAL; kind <= TN__AXIS_SCAN; kind++) {
      const tn__snode *block = blocks.data[i];
      bool a = tn__sched_drives(outer, block, (tn__axis_kind)kind),
           b = tn__sched_drives(inner, block, (tn__axis_kind)kind);
      if (a == b) continue;
      const tn__snode *other = a ? inner : outer;
      if (drives_any(other, block) || (kind != TN__AXIS_SPATIAL && !tn__is_int_value(other->var->extent, 1)))
        return false;
    }
  return true;
}

void tn__fuse(tn__schedule *s, const char *outer_name, const char *inner_name) {
  tn__snode *outer = tn__sched_loop(s, "fuse", outer_name), *inner = tn__sched_loop(s, "fuse", inner_name);
  tn__ir *ir = s->ir;
  if (inner->parent != outer || outer->children.count != 1)
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": they are not perfectly nested", outer_name, inner_name);
  if (outer->kind != TN__LOOP_SERIAL || inner->kind != TN__LOOP_SERIAL)
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": a loop is not serial any more", outer_name, inner_name);
  if (!can_fuse(s, outer, inner))
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": they drive axes of different kinds", outer_name, inner_name);
  const tn__expr *size = inner->var->extent;
  tn__snode *fused = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s+%s", outer->name, inner->name),
                                        tn__mul(ir, outer->var->extent, size), TN__LOOP_SERIAL);
  const tn__var *vars[] = {outer->var, inner->var};
  const tn__expr *values[] = {tn__div(ir, fused->var->self, size), tn__mod(ir, fused->var->self, size)};
  tn__sched_substitute(s, inner, vars, values, 2);
  fused->children = inner->children;
  for (int i = 0; i < fused->children.count; i++) fused->children.data[i]->parent = fused;
  tn__snode *parent = outer->parent;
  parent->children.data[tn__sched_index(outer)] = fused;
  fused->parent = parent;
  const char *names[] = {outer_name, inner_name};
  tn__sched_record(s, "fuse", names, 2, NULL, 0);
}

/* ---- reorder ------------------------------------------------------------------------------------------------------
 */

typedef struct self_reads {
  tn__ir *ir;
  const tn__block *block;
  int axis;
  bool all_same; /* every read of an own tensor is at the element's own position along the axis */
} self_reads;

static void check_self_read(const tn__expr *e, void *user) {
  self_reads *check = user;
  if (e->kind != TN__EXPR_LOAD) return;
  for (int w = 0; w < check->block->write_count; w++) {
    const tn__region *write = &check->block->writes[w];
    if (write->buffer != e->value.buffer) continue;
    const tn__expr *axis = check->block->axes[check->axis].var->self;
    for (int d = 0; d < e->arg_count; d++)
      if (write->min[d] == axis && e->args[d] != axis) check->all_same = false;
  }
}

static void check_self_reads(const tn__expr *e, void *user) {
  self_reads *check = user;
  tn__te_visit(check->ir, e, check_self_read, check);
}

/* May steps of a scan at different values of this loop be taken in any order? */
static bool scan_private(tn__schedule *s, const tn__snode *block, const tn__snode *loop) {
  for (int i = 0; i < block->block.axis_count; i++) {
    if (!tn__expr_uses_var(block->block.axes[i].binding, loop->var)) continue;
    self_reads check = {.ir = s->ir, .block = &block->block, .axis = i, .all_same = true};
    tn__stmt_walk_exprs(block->block.body, check_self_reads, &check);
    if (!check.all_same) return false;
  }
  return true;
}

/* Would `now_outer`, which stood inside of `was_outer`, change a result by going around it? */
static const char *forbidden_swap(tn__schedule *s, const tn__snodes *blocks, const tn__snode *was_outer,
                                  const tn__snode *now_outer) {
  for (int i = 0; i < blocks->count; i++) {
    const tn__snode *block = blocks->data[i];
    bool outer_scans = tn__sched_drives(was_outer, block, TN__AXIS_SCAN);
    bool inner_scans = tn__sched_drives(now_outer, block, TN__AXIS_SCAN);
    if (outer_scans && inner_scans) return "both loops drive one scan axis";
    if ((outer_scans && !scan_private(s, block, now_outer)) || (inner_scans && !scan_private(s, block, was_outer)))
      return "the scan reads other positions of that axis";
    if (tn__sched_drives(was_outer, block, TN__AXIS_REDUCE) && tn__sched_drives(now_outer, block, TN__AXIS_REDUCE) &&
        block->combiner != NULL && !block->combiner->reorderable)
      return "the combiner must be applied in order";
    if (tn__sched_drives(now_outer, block, TN__AXIS_REDUCE) && !tn__sched_drives(was_outer, block, TN__AXIS_REDUCE) &&
        !tn__sched_disjoint(s, was_outer, block))
      return "a reduction is repeated by the outer loop";
  }
  return NULL;
}

void tn__reorder(tn__schedule *s, const char *const *names, int count) {
  tn__snode *loops[TN__MAX_LOOPS], *chain[TN__MAX_LOOPS], *result[TN__MAX_LOOPS];
  if (count < 1 || count > TN__MAX_LOOPS) tn__sched_refuse(s, "reorder: takes 1 to %d loops", TN__MAX_LOOPS);
  for (int i = 0; i < count; i++) {
    loops[i] = tn__sched_loop(s, "reorder", names[i]);
    for (int j = 0; j < i; j++)
      if (loops[j] == loops[i]) tn__sched_refuse(s, "reorder: \"%s\" is named twice", names[i]);
  }
  tn__snode *top = loops[0], *bottom = loops[0];
  for (int i = 1; i < count; i++) {
    if (tn__sched_is_under(top, loops[i])) top = loops[i];
    if (tn__sched_is_under(loops[i], bottom)) bottom = loops[i];
  }
  int length = 0, found = 0;
  for (tn__snode *n = bottom;; n = n->parent) {
    if (n->var == NULL || length == TN__MAX_LOOPS) break;
    chain[length++] = n;
    for (int i = 0; i < count; i++) found += loops[i] == n;
    if (n == top) break;
  }
  if (found != count) tn__sched_refuse(s, "reorder: the loops are not nested in each other");
  for (int i = 1; i < length; i++)
    if (chain[i]->children.count != 1)
      tn__sched_refuse(s, "reorder: loop \"%s\" holds more than the next loop", chain[i]->name);
  for (int i = 0; i < length / 2; i++) {
    tn__snode *n = chain[i];
    chain[i] = chain[length - 1 - i];
    chain[length - 1 - i] = n;
  }
  int next = 0;
  for (int i = 0; i < length; i++) {
    bool moves = false;
    for (int j = 0; j < count; j++) moves |= loops[j] == chain[i];
    result[i] = moves ? loops[next++] : chain[i];
  }
  tn__snodes blocks = {0};
  tn__sched_blocks(s, bottom, &blocks);
  for (int i = 0; i < length; i++) /* pairs whose order turns around */
    for (int j = i + 1; j < length; j++)
      for (int k = 0; k < length && result[k] != chain[i]; k++) {
        if (result[k] != chain[j]) continue;
        const char *why = forbidden_swap(s, &blocks, chain[i], chain[j]);
        if (why != NULL)
          tn__sched_refuse(s, "reorder: \"%s\" cannot go around \"%s\": %s", chain[j]->name, chain[i]->name, why);
      }
  for (int i = 0; i < length - 1; i++) /* a vectorised loop stays innermost */
    if (result[i]->kind == TN__LOOP_VECTORIZED)
      tn__sched_refuse(s, "reorder: the vectorised loop \"%s\" must stay innermost", result[i]->name);
  tn__snode *parent = chain[0]->parent;
  int at = tn__sched_index(chain[0]);
  for (int i = 1; i < length; i++)
    if (result[i]->kind == TN__LOOP_PARALLEL)
      for (int k = 0; k < i; k++)
        if (result[k]->kind == TN__LOOP_UNROLLED)
          tn__sched_refuse(s, "reorder: the parallel loop \"%s\" cannot go into an unrolled one", result[i]->name);
  tn__snode *last = chain[length - 1];
  tn__snodes rest = {.data = last->children.data, .count = last->children.count, .capacity = last->children.capacity};
  for (int i = 0; i < length; i++) {
    memset(&result[i]->children, 0, sizeof(result[i]->children));
    if (i > 0) tn__sched_append(s, result[i - 1], result[i]);
  }
  for (int i = 0; i < rest.count; i++) tn__sched_append(s, result[length - 1], rest.data[i]);
  parent->children.data[at] = result[0];
  result[0]->parent = parent;
  tn__sched_record(s, "reorder", names, count, NULL, 0);
}

/* ---- kinds --------------------------------------------------------------------------------------------------------
 */

static bool inside_kind(const tn__snode *node, tn__loop_kind kind) {
  for (node = node->parent; node->var != NULL; node = node->parent)
    if (node->kind == kind) return true;
  return false;
}

static bool holds_kind(const tn__snode *node, tn__loop_kind kind) {
  for (int i = 0; i < node->children.count; i++) {
    const tn__snode *child = node->children.data[i];
    if ((!child->is_block && child->kind == kind) || holds_kind(child, kind)) return true;
  }
  return false;
}

static bool is_private(tn__schedule *s, const tn__snode *loop, const tn__buffer *buffer) {
  if (buffer->scope != TN__SCOPE_STACK && buffer->scope != TN__SCOPE_REGISTER) return false;
  tn__snodes all = {0};
  tn__sched_blocks(s, s->root, &all);
  for (int i = 0; i < all.count; i++)
    if ((tn__sched_reads(all.data[i], buffer) || tn__sched_writes(all.data[i], buffer)) &&
        !tn__sched_is_under(all.data[i], loop))
      return false;
  return true;
}

/* Iterations must not depend on each other: no reduction or scan along the loop, and no element written in two of them
 * unless the buffer belongs to the iteration. */
static void check_independent(tn__schedule *s, const char *step, tn__snode *loop, bool privates) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, loop, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    tn__snode *block = blocks.data[i];
    if (tn__sched_drives(loop, block, TN__AXIS_REDUCE))
      tn__sched_refuse(s, "%s of \"%s\": block \"%s\" reduces over the loop", step, loop->name, block->name);
    if (tn__sched_drives(loop, block, TN__AXIS_SCAN))
      tn__sched_refuse(s, "%s of \"%s\": block \"%s\" scans along the loop", step, loop->name, block->name);
    if (tn__sched_disjoint(s, loop, block)) continue;
    for (int w = 0; w < block->block.write_count; w++)
      if (!privates || !is_private(s, loop, block->block.writes[w].buffer))
        tn__sched_refuse(s, "%s of \"%s\": block \"%s\" writes the same elements in several iterations", step,
                         loop->name, block->name);
  }
}

void tn__parallel(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "parallel", name);
  if (loop->kind != TN__LOOP_SERIAL) tn__sched_refuse(s, "parallel of \"%s\": the loop is not serial any more", name);
  if (inside_kind(loop, TN__LOOP_PARALLEL) || holds_kind(loop, TN__LOOP_PARALLEL))
    tn__sched_refuse(s, "parallel of \"%s\": parallel loops do not nest", name);
  if (inside_kind(loop, TN__LOOP_UNROLLED))
    tn__sched_refuse(s, "parallel of \"%s\": the loop stands in an unrolled one", name);
  check_independent(s, "parallel", loop, true);
  loop->kind = TN__LOOP_PARALLEL;
  tn__sched_record(s, "parallel", &name, 1, NULL, 0);
}

void tn__vectorize(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "vectorize", name);
  int64_t extent;
  if (loop->kind != TN__LOOP_SERIAL) tn__sched_refuse(s, "vectorize of \"%s\": the loop is not serial any more", name);
  if (!tn__as_int(loop->var->extent, &extent) || extent > 256)
    tn__sched_refuse(s, "vectorize of \"%s\": the extent must be a constant of at most 256", name);
  for (int i = 0; i < loop->children.count; i++)
    if (!loop->children.data[i]->is_block) tn__sched_refuse(s, "vectorize of \"%s\": the loop is not innermost", name);
  check_independent(s, "vectorize", loop, false);
  loop->kind = TN__LOOP_VECTORIZED;
  tn__sched_record(s, "vectorize", &name, 1, NULL, 0);
}

void tn__unroll(tn__schedule *s, const char *name) {
  tn__snode *loop = tn__sched_loop(s, "unroll", name);
  int64_t extent;
  if (loop->kind != TN__LOOP_SERIAL) tn__sched_refuse(s, "unroll of \"%s\": the loop is not serial any more", name);
  if (!tn__as_int(loop->var->extent, &extent) || extent > 256)
    tn__sched_refuse(s, "unroll of \"%s\": the extent must be a constant of at most 256", name);
  if (holds_kind(loop, TN__LOOP_PARALLEL)) tn__sched_refuse(s, "unroll of \"%s\": the loop holds a parallel one", name);
  loop->kind = TN__LOOP_UNROLLED;
  tn__sched_record(s, "unroll", &name, 1, NULL, 0);
}
