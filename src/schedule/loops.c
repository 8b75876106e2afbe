/* Primitives that change loops: split, fuse, reorder and the kinds. */
#include <string.h>

#include "ir/text.h"
#include "schedule/internal.h"

/* ---- split ------------------------------------------------------------------------------------------------------- */

typedef struct guarding {
  tn__ir *ir;
  const tn__expr *condition;
} guarding;

static void guard(tn__snode *block, void *user) {
  const guarding *g = user;
  block->block.predicate = tn__ir_and(g->ir, block->block.predicate, g->condition);
}

static bool uses_any(const tn__expr *e, tn__snode *const *loops, int count) {
  for (int i = 0; i < count; i++)
    if (tn__expr_uses_var(e, loops[i]->var)) return true;
  return false;
}

/* Extents that read tensors at positions of the parts must not do so beyond the end. */
static void guard_extents(tn__schedule *s, tn__snode *node, const tn__expr *condition, tn__snode *const *parts,
                          int count) {
  for (int i = 0; i < node->children.count; i++) {
    tn__snode *child = node->children.data[i];
    if (child->is_block) continue;
    const tn__expr *extent = child->var->extent;
    if (tn__expr_has_load(extent) && uses_any(extent, parts, count))
      tn__sched_set_extent(s, child, tn__ir_select(s->ir, condition, extent, tn__ir_index(s->ir, 0)));
    guard_extents(s, child, condition, parts, count);
  }
}

/* Finds the position of the factor 0 (-1: none) and the product of the others. */
typedef struct split {
  int open;
  int64_t product;
} split;

/* Throws if the factors cannot split the loop. */
static split check_split(tn__schedule *s, const char *step, const tn__snode *loop, const int64_t *factors, int count) {
  const char *name = loop->name;
  int64_t product = 1;
  int open = -1;
  if (count < 2 || count > TN__MAX_FACTORS)
    tn__sched_refuse(s, "%s of \"%s\": takes 2 to %d factors, not %d", step, name, TN__MAX_FACTORS, count);
  tn__sched_check_free(s, step, loop, true);
  for (int i = 0; i < count; i++) {
    if (factors[i] < 0 || factors[i] > 1 << 30 || product > 1 << 30)
      tn__sched_refuse(s, "%s of \"%s\": factor %lld is out of range", step, name, (long long)factors[i]);
    if (factors[i] == 0 && open >= 0) tn__sched_refuse(s, "%s of \"%s\": only one factor can be 0", step, name);
    if (factors[i] == 0)
      open = i;
    else
      product *= factors[i];
  }
  if (open < 0 && !tn__ir_prove(s->ir, tn__ir_le(s->ir, loop->var->extent, tn__ir_index(s->ir, product))))
    tn__sched_refuse(s, "%s of \"%s\": the factors do not cover the loop's extent", step, name);
  return (split){open, product};
}

/* Splits without recording; `parts` gets the new loops, outermost first. */
static void apply_split(tn__schedule *s, tn__snode *loop, const int64_t *factors, int count, int open, int64_t product,
                        tn__snode **parts) {
  tn__ir *ir = s->ir;
  const tn__expr *extent = loop->var->extent, *index = tn__ir_index(ir, 0);
  for (int i = 0; i < count; i++) {
    const tn__expr *size =
        i == open ? tn__ir_ceildiv(ir, extent, tn__ir_index(ir, product)) : tn__ir_index(ir, factors[i]);
    parts[i] = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s.%d", loop->name, i), size, TN__LOOP_SERIAL);
    if (i > 0) tn__sched_append(s, parts[i - 1], parts[i]);
    index = tn__ir_add(ir, tn__ir_mul(ir, index, size), parts[i]->var->self);
  }
  tn__sched_substitute(s, loop, &loop->var, &index, 1);
  guarding inside = {.ir = ir, .condition = tn__ir_lt(ir, index, extent)};
  if (!tn__ir_prove(ir, inside.condition)) {
    tn__sched_each_block(loop, guard, &inside);
    guard_extents(s, loop, inside.condition, parts, count);
  }
  tn__snode *inner = parts[count - 1], *parent = loop->parent;
  inner->children = loop->children;
  for (int i = 0; i < inner->children.count; i++) inner->children.data[i]->parent = inner;
  parent->children.data[tn__sched_index(loop)] = parts[0];
  parts[0]->parent = parent;
  loop->parent = NULL;
}

void tn__sched_split(tn__schedule *s, const char *name, const int64_t *factors, int count) {
  tn__snode *loop = tn__sched_loop(s, "split", name), *parts[TN__MAX_FACTORS];
  const split by = check_split(s, "split", loop, factors, count);
  apply_split(s, loop, factors, count, by.open, by.product, parts);
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
      if (drives_any(other, block) || (kind != TN__AXIS_SPATIAL && !tn__ir_is_int_value(other->var->extent, 1)))
        return false;
    }
  return true;
}

void tn__sched_fuse(tn__schedule *s, const char *outer_name, const char *inner_name) {
  tn__snode *outer = tn__sched_loop(s, "fuse", outer_name), *inner = tn__sched_loop(s, "fuse", inner_name);
  tn__ir *ir = s->ir;
  if (inner->parent != outer || outer->children.count != 1)
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": they are not perfectly nested", outer_name, inner_name);
  tn__sched_check_free(s, "fuse", outer, true);
  tn__sched_check_free(s, "fuse", inner, true);
  if (tn__expr_uses_var(inner->var->extent, outer->var))
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": the second is as long as the first says", outer_name, inner_name);
  if (!can_fuse(s, outer, inner))
    tn__sched_refuse(s, "fuse of \"%s\" and \"%s\": they drive axes of different kinds", outer_name, inner_name);
  const tn__expr *size = inner->var->extent;
  tn__snode *fused = tn__sched_new_loop(s, tn__arena_printf(s->arena, "%s+%s", outer->name, inner->name),
                                        tn__ir_mul(ir, outer->var->extent, size), TN__LOOP_SERIAL);
  const tn__var *vars[] = {outer->var, inner->var};
  const tn__expr *values[] = {tn__ir_div(ir, fused->var->self, size), tn__ir_mod(ir, fused->var->self, size)};
  tn__sched_substitute(s, inner, vars, values, 2);
  fused->children = inner->children;
  for (int i = 0; i < fused->children.count; i++) fused->children.data[i]->parent = fused;
  tn__snode *parent = outer->parent;
  parent->children.data[tn__sched_index(outer)] = fused;
  fused->parent = parent;
  outer->parent = NULL;
  const char *names[] = {outer_name, inner_name};
  tn__sched_record(s, "fuse", names, 2, NULL, 0);
}

/* ---- reorder ----------------------------------------------------------------------------------------------------- */

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
    const tn__var *axis = check->block->axes[check->axis].var;
    for (int d = 0; d < e->arg_count; d++)
      if (tn__expr_uses_var(write->min[d], axis) && e->args[d] != write->min[d]) check->all_same = false;
  }
}

static void check_self_reads(const tn__expr *e, void *user) {
  self_reads *check = user;
  tn__te_visit(check->ir, e, check_self_read, check);
}

bool tn__sched_scan_keeps_axis(tn__schedule *s, const tn__snode *block, int axis) {
  self_reads check = {.ir = s->ir, .block = &block->block, .axis = axis, .all_same = true};
  tn__stmt_walk_exprs(block->block.body, check_self_reads, &check);
  return check.all_same;
}

bool tn__sched_scan_keeps_to(tn__schedule *s, const tn__snode *block, const tn__snode *loop) {
  for (int i = 0; i < block->block.axis_count; i++)
    if (tn__expr_uses_var(block->block.axes[i].binding, loop->var) && !tn__sched_scan_keeps_axis(s, block, i))
      return false;
  return true;
}

/* Would `now_outer`, which stood inside of `was_outer`, change a result by going around it? */
static const char *forbidden_swap(tn__schedule *s, const tn__snodes *blocks, const tn__snode *was_outer,
                                  const tn__snode *now_outer) {
  if (tn__expr_uses_var(now_outer->var->extent, was_outer->var)) return "it is as long as that one says";
  for (int i = 0; i < blocks->count; i++) {
    const tn__snode *block = blocks->data[i];
    bool outer_scans = tn__sched_drives(was_outer, block, TN__AXIS_SCAN);
    bool inner_scans = tn__sched_drives(now_outer, block, TN__AXIS_SCAN);
    if (outer_scans && inner_scans) return "both loops drive one scan axis";
    if ((outer_scans && !tn__sched_scan_keeps_to(s, block, now_outer)) ||
        (inner_scans && !tn__sched_scan_keeps_to(s, block, was_outer)))
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

/* The loops of the chain take each other's places. */
static void nest_in_order(tn__schedule *s, tn__snode *const *chain, tn__snode *const *result, int length) {
  tn__snode *parent = chain[0]->parent, *last = chain[length - 1];
  int at = tn__sched_index(chain[0]);
  tn__snodes rest = {.data = last->children.data, .count = last->children.count, .capacity = last->children.capacity};
  for (int i = 0; i < length; i++) {
    memset(&result[i]->children, 0, sizeof(result[i]->children));
    if (i > 0) tn__sched_append(s, result[i - 1], result[i]);
  }
  for (int i = 0; i < rest.count; i++) tn__sched_append(s, result[length - 1], rest.data[i]);
  parent->children.data[at] = result[0];
  result[0]->parent = parent;
}

/* Loops from `chain[0]` down to `chain[length - 1]`, one in the other, and the order they are to have. */
typedef struct new_order {
  tn__snode *chain[TN__MAX_LOOPS], *result[TN__MAX_LOOPS];
  int length;
} new_order;

/* The chain that spans all of `loops`; throws when they are not nested in each other and nothing else. */
static void find_chain(tn__schedule *s, tn__snode *const *loops, int count, new_order *o) {
  tn__snode *top = loops[0], *bottom = loops[0];
  for (int i = 1; i < count; i++) {
    if (tn__sched_is_under(top, loops[i])) top = loops[i];
    if (tn__sched_is_under(loops[i], bottom)) bottom = loops[i];
  }
  int found = 0, length = 0;
  for (tn__snode *n = bottom;; n = n->parent) {
    if (n->var == NULL || length == TN__MAX_LOOPS) break;
    o->chain[length++] = n;
    for (int i = 0; i < count; i++) found += loops[i] == n;
    if (n == top) break;
  }
  if (found != count) tn__sched_refuse(s, "reorder: the loops are not nested in each other");
  for (int i = 1; i < length; i++)
    if (o->chain[i]->children.count != 1)
      tn__sched_refuse(s, "reorder: loop \"%s\" holds more than the next loop", o->chain[i]->name);
  for (int i = 0; i < length / 2; i++) {
    tn__snode *n = o->chain[i];
    o->chain[i] = o->chain[length - 1 - i];
    o->chain[length - 1 - i] = n;
  }
  o->length = length;
}

/* What the kinds of the loops have to say about the new order. */
static void check_kinds_in_order(tn__schedule *s, const new_order *o) {
  for (int i = 0; i < o->length; i++) {
    const tn__snode *loop = o->result[i];
    if (loop != o->chain[i]) tn__sched_check_not_frozen(s, "reorder", loop);
    if (i + 1 < o->length && loop->kind == TN__LOOP_VECTORIZED)
      tn__sched_refuse(s, "reorder: the vectorised loop \"%s\" must stay innermost", loop->name);
    for (int k = 0; k < i; k++) {
      if (loop->kind == TN__LOOP_PARALLEL && o->result[k]->kind == TN__LOOP_UNROLLED)
        tn__sched_refuse(s, "reorder: the parallel loop \"%s\" cannot go into an unrolled one", loop->name);
      if (tn__ir_loop_is_block(loop->kind) && tn__ir_loop_is_thread(o->result[k]->kind))
        tn__sched_refuse(s, "reorder: \"%s\", bound to %s, cannot go into \"%s\", bound to %s", loop->name,
                         tn__loop_kind_name(loop->kind), o->result[k]->name, tn__loop_kind_name(o->result[k]->kind));
    }
  }
}

void tn__sched_reorder(tn__schedule *s, const char *const *names, int count) {
  tn__snode *loops[TN__MAX_LOOPS];
  new_order o;
  if (count < 1 || count > TN__MAX_LOOPS) tn__sched_refuse(s, "reorder: takes 1 to %d loops", TN__MAX_LOOPS);
  for (int i = 0; i < count; i++) {
    loops[i] = tn__sched_loop(s, "reorder", names[i]);
    for (int j = 0; j < i; j++)
      if (loops[j] == loops[i]) tn__sched_refuse(s, "reorder: \"%s\" is named twice", names[i]);
  }
  find_chain(s, loops, count, &o);
  int next = 0;
  for (int i = 0; i < o.length; i++) {
    bool moves = false;
    for (int j = 0; j < count; j++) moves |= loops[j] == o.chain[i];
    o.result[i] = moves ? loops[next++] : o.chain[i];
  }
  tn__snodes blocks = {0};
  tn__sched_blocks(s, o.chain[o.length - 1], &blocks);
  for (int i = 0; i < o.length; i++) /* pairs whose order turns around */
    for (int j = i + 1; j < o.length; j++)
      for (int k = 0; k < o.length && o.result[k] != o.chain[i]; k++) {
        if (o.result[k] != o.chain[j]) continue;
        const char *why = forbidden_swap(s, &blocks, o.chain[i], o.chain[j]);
        if (why != NULL)
          tn__sched_refuse(s, "reorder: \"%s\" cannot go around \"%s\": %s", o.chain[j]->name, o.chain[i]->name, why);
      }
  check_kinds_in_order(s, &o);
  nest_in_order(s, o.chain, o.result, o.length);
  tn__sched_record(s, "reorder", names, count, NULL, 0);
}

/* ---- tile -------------------------------------------------------------------------------------------------------- */

void tn__sched_tile(tn__schedule *s, const char *const *names, const int64_t *sizes, int count) {
  enum { MOST = TN__MAX_FACTORS };
  tn__snode *loops[MOST], *chain[2 * MOST], *result[2 * MOST];
  if (count < 2 || count > MOST) tn__sched_refuse(s, "tile: takes 2 to %d loops, not %d", MOST, count);
  for (int i = 0; i < count; i++) {
    loops[i] = tn__sched_loop(s, "tile", names[i]);
    if (sizes[i] < 1) tn__sched_refuse(s, "tile of \"%s\": the size must be positive", names[i]);
    if (i > 0 && (loops[i]->parent != loops[i - 1] || loops[i - 1]->children.count != 1))
      tn__sched_refuse(s, "tile: \"%s\" is not perfectly nested in \"%s\"", names[i], names[i - 1]);
    check_split(s, "tile", loops[i], (int64_t[]){0, sizes[i]}, 2);
  }
  tn__snodes blocks = {0};
  tn__sched_blocks(s, loops[count - 1], &blocks);
  for (int i = 0; i < count; i++) /* tiles of inner loops go around what is left of outer ones */
    for (int j = i + 1; j < count; j++) {
      const char *why = forbidden_swap(s, &blocks, loops[i], loops[j]);
      if (why != NULL) tn__sched_refuse(s, "tile: \"%s\" cannot go around \"%s\": %s", names[j], names[i], why);
    }
  for (int i = 0; i < count; i++) {
    apply_split(s, loops[i], (int64_t[]){0, sizes[i]}, 2, 0, sizes[i], &chain[2 * i]);
    result[i] = chain[2 * i];
    result[count + i] = chain[2 * i + 1];
  }
  nest_in_order(s, chain, result, 2 * count);
  tn__sched_record(s, "tile", names, count, sizes, count);
}
