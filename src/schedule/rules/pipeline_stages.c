/* What the stages of a declaration read of each other, and what they cost: the pipeline's view of a schedule in which
 * small maps have been inlined. */
#include <math.h>

#include "base/dtype.h"
#include "ir/linear.h"
#include "schedule/rules/pipeline.h"

/* ---- what a body costs ------------------------------------------------------------------------------------------- */

typedef struct body_cost {
  tn__ir *ir;
  const tn__var *along; /* the axis that vectors run along; NULL: none */
  double sums, products, others, loads, shuffles, gathers;
  int64_t widest;
  bool floats;
} body_cost;

static void add_load(body_cost *c, const tn__expr *e) {
  double slope = 0;
  if (c->along == NULL || !tn__expr_uses_var(e, c->along)) return; /* one element for all: before the loop */
  for (int d = 0; d < e->arg_count; d++) {
    double own = tn__rule_slope(tn__ir_interior(c->ir, e->args[d]), c->along);
    slope = d < e->arg_count - 1 && own != 0 ? NAN : own;
    if (isnan(slope)) break;
  }
  /* Where it is clamped, loops are cut at the borders: twice as many of them, and more in a larger body. */
  for (int d = 0; d < e->arg_count; d++) c->others += tn__ir_interior(c->ir, e->args[d]) != e->args[d];
  if (slope == 1) {
    c->loads++;
  } else if (fabs(slope) <= 4 && fabs(slope) >= 0.25) { /* whole vectors, and shuffles */
    c->loads += fabs(slope) > 1 ? fabs(slope) : 1;
    c->shuffles += fabs(slope) > 1 ? fabs(slope) : 1;
  } else {
    c->gathers++;
  }
}

/* Arithmetic on indices is for the borders, or done before the loop. */
static bool is_of_indices(const tn__expr *e) {
  if (e->dtype == TN_I64) return true;
  return e->arg_count > 0 && e->args[0]->dtype == TN_I64 && e->kind != TN__EXPR_LOAD;
}

static void add_node(const tn__expr *e, void *user) {
  body_cost *c = user;
  int64_t bytes = (int64_t)tn_dtype_size(e->dtype);
  if (e->kind == TN__EXPR_LOAD) add_load(c, e);
  if (is_of_indices(e)) return;
  if (bytes > c->widest) c->widest = bytes;
  c->floats |= tn__dtype_is_float(e->dtype);
  switch (e->kind) {
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT:
    case TN__EXPR_VAR:
    case TN__EXPR_LOAD: return;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB: c->sums++; return;
    case TN__EXPR_MUL: c->products++; return;
    case TN__EXPR_DIV: c->others += tn__dtype_is_float(e->dtype) ? TN__RULE_ROOT_COST : TN__RULE_DIVISION_COST; return;
    default: c->others += (double)tn__rule_cost_of_node(e); return;
  }
}

static void add_value(const tn__expr *e, void *user) {
  body_cost *c = user;
  tn__te_visit(c->ir, e, add_node, c);
}

static const tn__var *last_spatial(const tn__block *block) {
  const tn__var *last = NULL;
  for (int i = 0; i < block->axis_count; i++)
    if (block->axes[i].kind == TN__AXIS_SPATIAL && !tn__ir_is_int_value(block->axes[i].var->extent, 1))
      last = block->axes[i].var;
  return last;
}

/* Cycles for one vector of what the body stores. */
static double body_cycles(tn__ir *ir, const tn__target *target, const tn__block *block, const tn__stmt *body,
                          int64_t *lanes) {
  body_cost c = {.ir = ir, .along = last_spatial(block), .widest = 1};
  tn__stmt_walk_exprs(body, add_value, &c);
  int64_t stored = (int64_t)tn_dtype_size(block->writes[0].buffer->dtype);
  if (stored > c.widest) c.widest = stored;
  *lanes = target->cpu.vector_bytes / c.widest;
  int64_t extent;
  if (c.along != NULL && tn__ir_as_int(c.along->extent, &extent))
    while (*lanes > extent) *lanes /= 2; /* the rest of a vector would be empty */
  /* A product of floats that is added is one operation with the sum. */
  double fused = !c.floats ? c.sums + c.products : c.sums > c.products ? c.sums : c.products;
  tn__operations ops = {.vector_bytes = target->cpu.vector_bytes,
                        .fma = fused + c.others,
                        .loads = c.loads,
                        .stores = block->init == NULL ? 1 : 0,
                        .shuffles = c.shuffles,
                        .gathers = c.gathers * (double)*lanes,
                        .other = TN__RULE_TURN};
  return tn__sketch_operation_cycles(target, &ops);
}

/* ---- inlining ---------------------------------------------------------------------------------------------------- */

static double points_of(const tn__snode *block) {
  double points = 1;
  int64_t extent;
  for (int i = 0; i < block->block.axis_count; i++)
    points *= tn__ir_as_int(block->block.axes[i].var->extent, &extent) ? (double)extent : TN__OPEN_EXTENT;
  return points;
}

/* Is it cheaper when its readers compute it, each where it needs it, than when they read it? A reader's operations are
 * counted with it inside: what two of its uses share is there once. */
static bool is_cheaper_inside(tn__schedule *s, const tn__target *target, const tn__snode *block) {
  const tn__buffer *buffer = block->block.writes[0].buffer;
  tn__snodes readers = {0};
  int64_t lanes;
  double own = body_cycles(s->ir, target, &block->block, block->block.body, &lanes);
  double apart = points_of(block) / (double)lanes * own, inside = 0;
  tn__sched_readers(s, buffer, &readers);
  for (int i = 0; i < readers.count; i++) {
    const tn__block *reader = &readers.data[i]->block;
    const tn__stmt *body = tn__sched_body_with(s, block, readers.data[i]);
    if (body == NULL || reader->axis_count == 0) return false;
    double points = points_of(readers.data[i]);
    apart += points / (double)lanes * body_cycles(s->ir, target, reader, reader->body, &lanes);
    inside += points / (double)lanes * body_cycles(s->ir, target, reader, body, &lanes);
  }
  return readers.count > 0 && inside <= apart;
}

static bool is_map(const tn__schedule *s, const tn__snode *block) {
  int axis_of_dim[TN__MAX_RANK];
  if (block->combiner != NULL || block->block.init != NULL || block->block.body->kind != TN__STMT_STORE) return false;
  if (tn__sched_is_output(s, block->block.writes[0].buffer)) return false;
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_SPATIAL) return false;
  return block->block.axis_count > 0 && tn__sched_identity_write(block, axis_of_dim);
}

static bool is_read_by_statements(tn__schedule *s, const tn__snode *block) {
  tn__snodes readers = {0};
  tn__sched_readers(s, block->block.writes[0].buffer, &readers);
  for (int i = 0; i < readers.count; i++)
    if (readers.data[i]->block.axis_count == 0) return true;
  return false;
}

bool tn__pipe_can_inline(tn__schedule *s, const tn__snode *block) {
  return is_map(s, block) && !is_read_by_statements(s, block);
}

/* Last stages first, so that what reads one element of one tensor is gone before it is decided how often that tensor
 * is read; again and again, since each stage that goes changes what its readers cost. */
void tn__pipe_inline(tn__schedule *s, const tn__target *target) {
  for (bool changed = true; changed;) {
    tn__snodes blocks = {0};
    changed = false;
    tn__sched_blocks(s, s->root, &blocks);
    for (int i = blocks.count - 1; i >= 0; i--) {
      const tn__snode *block = blocks.data[i];
      if (tn__pipe_can_inline(s, block) && is_cheaper_inside(s, target, block))
        changed |= tn__sched_inline_if_small(s, block->name);
    }
  }
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static int stage_of(const tn__pipe *p, const tn__buffer *buffer) {
  for (int i = 0; i < p->count; i++)
    if (tn__sched_writes(p->stages[i].block, buffer)) return i;
  return -1;
}

static void read_axes(tn__pipe_stage *stage, const tn__snode *block) {
  stage->movable = block->block.axis_count > 0 && block->block.axis_count <= TN__PIPE_AXES &&
                   block->block.write_count == 1 && tn__sched_identity_write(block, stage->axis_of_dim) &&
                   block->block.body->kind == TN__STMT_STORE;
  stage->terms = 1;
  for (int kind = 0; kind < 2; kind++)
    for (int i = 0; i < block->block.axis_count && stage->movable; i++) {
      const tn__block_axis *axis = &block->block.axes[i];
      if ((axis->kind == TN__AXIS_SPATIAL) != (kind == 0)) continue;
      if (kind == 0 && i != stage->axis_count) stage->movable = false; /* axes of a reduction stand behind the others */
      stage->movable &= axis->kind != TN__AXIS_SCAN;
      stage->axis[stage->axis_count] = axis->var;
      stage->movable &= tn__ir_as_int(axis->var->extent, &stage->extent[stage->axis_count]);
      if (stage->movable && kind == 1) stage->terms *= (double)stage->extent[stage->axis_count];
      stage->axis_count++;
      stage->spatial += kind == 0;
    }
  for (int d = 0; d < stage->buffer->rank && stage->movable; d++) {
    int64_t extent;
    stage->movable &= tn__ir_as_int(stage->buffer->shape[d], &extent);
  }
}

static void read_reads(tn__pipe *p, tn__pipe_stage *stage, const tn__snode *block) {
  tn__schedule *s = p->s;
  tn__pipe_read *reads = TN__NEW_ARRAY(s->arena, block->block.read_count, tn__pipe_read);
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    if (tn__sched_writes(block, region->buffer)) continue; /* its sums so far */
    tn__pipe_read *read = &reads[stage->read_count++];
    *read = (tn__pipe_read){.from = stage_of(p, region->buffer), .buffer = region->buffer};
    for (int d = 0; d < region->buffer->rank; d++) {
      read->min[d] = region->min[d];
      read->last[d] = tn__ir_add_i(s->ir, tn__ir_add(s->ir, region->min[d], region->extent[d]), -1);
    }
  }
  stage->reads = reads;
}

tn__pipe *tn__pipe_create(tn__schedule *s, const tn__target *target) {
  tn__pipe *p = TN__NEW(s->arena, tn__pipe);
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  if (blocks.count > TN__PIPE_STAGES)
    tn__sched_refuse(s, "pipeline: %d stages are more than %d", blocks.count, TN__PIPE_STAGES);
  *p = (tn__pipe){.s = s, .target = target, .cache_bytes = target->cpu.machine.l2_bytes};
  p->stages = TN__NEW_ARRAY(s->arena, blocks.count, tn__pipe_stage);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *block = blocks.data[i];
    tn__pipe_stage *stage = &p->stages[i];
    *stage = (tn__pipe_stage){.block = block, .name = block->name, .buffer = block->block.writes[0].buffer};
    read_axes(stage, block);
    read_reads(p, stage, block);
    for (int w = 0; w < block->block.write_count; w++)
      stage->is_output |= tn__sched_is_output(s, block->block.writes[w].buffer);
    stage->lanes = 1;
    if (stage->movable) stage->cycles = body_cycles(s->ir, target, &block->block, block->block.body, &stage->lanes);
    p->count++;
  }
  return p;
}
