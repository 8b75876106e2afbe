/* What the stages of a declaration read of each other, and what they cost: the pipeline's view of a schedule in which
 * small maps have been inlined. */
#include <math.h>

#include "base/dtype.h"
#include "ir/linear.h"
#include "schedule/rules/pipeline.h"
#include "schedule/rules/reduce.h"

/* ---- what a body costs ------------------------------------------------------------------------------------------- */

typedef struct body_cost {
  tn__ir *ir;
  const tn__block *block;
  const tn__var *along; /* the axis that vectors run along; NULL: none */
  int turned;           /* another axis that something lies along, where the block is a map; -1: none */
  double ends;          /* of a reduction: the share of a row that is in vectors at its ends */
  double sums, products, others, loads, shuffles, gathers;
  tn__schedule *near; /* whose stages leave what they make in registers; NULL: in a cache */
  int64_t widest;
  bool floats;
} body_cost;

/* The axis along which neighbours lie side by side where a map reads them, so that tiles of it are turned; -1: none. */
static int axis_to_turn(const body_cost *c, const tn__expr *load) {
  int found = -1;
  int64_t extent;
  for (int a = 0; a < c->block->axis_count; a++) {
    const tn__block_axis *axis = &c->block->axes[a];
    double slope = NAN;
    if (axis->kind != TN__AXIS_SPATIAL || c->block->init != NULL) return -1;
    if (axis->var == c->along || !tn__expr_uses_var(load, axis->var)) continue;
    for (int d = 0; d < load->arg_count; d++) {
      double own = tn__rule_slope(load->args[d], axis->var);
      slope = d < load->arg_count - 1 && own != 0 ? NAN : own;
      if (isnan(slope)) break;
    }
    if (slope == 1 && (!tn__ir_as_int(axis->var->extent, &extent) || extent >= TN__RULE_LEAST_TURNED)) found = a;
  }
  return found;
}

static bool is_made(tn__schedule *s, const tn__buffer *buffer) {
  tn__snodes writers = {0};
  tn__sched_writers(s, buffer, &writers);
  return writers.count > 0;
}

static void add_load(body_cost *c, const tn__expr *e) {
  double slope = 0;
  if (c->near != NULL && is_made(c->near, e->value.buffer)) return;
  if (c->along == NULL || !tn__expr_uses_var(e, c->along)) return; /* one element for all: before the loop */
  for (int d = 0; d < e->arg_count; d++) {
    double own = tn__rule_slope(tn__ir_interior(c->ir, e->args[d]), c->along);
    slope = d < e->arg_count - 1 && own != 0 ? NAN : own;
    if (isnan(slope)) break;
  }
  /* Where it is clamped, loops are cut at the borders: twice as many of them, and more in a larger body. */
  for (int d = 0; d < e->arg_count; d++) {
    if (tn__ir_interior(c->ir, e->args[d]) == e->args[d]) continue;
    c->others++;
    if (tn__expr_uses_var(e->args[d], c->along))
      c->gathers += c->ends; /* of each term, and of all that it is made of */
  }
  if (slope == 1) {
    c->loads++;
  } else if (fabs(slope) <= 4 && fabs(slope) >= 0.25) { /* whole vectors, and shuffles */
    c->loads += fabs(slope) > 1 ? fabs(slope) : 1;
    c->shuffles += fabs(slope) > 1 ? fabs(slope) : 1;
  } else {
    int axis = c->gathers > 0 || e->dtype == TN_I64 ? -1 : axis_to_turn(c, e);
    if (axis < 0 || (c->turned >= 0 && c->turned != axis)) {
      c->gathers++;
      return;
    }
    c->turned = axis;
    c->loads++;
    c->shuffles += TN__RULE_TURN_SHUFFLES;
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

/* ---- pixels of a few channels ------------------------------------------------------------------------------------ */

typedef struct pixels {
  tn__ir *ir;
  const tn__var *pixel, *channel;
  int64_t channels;
  bool fuse;
} pixels;

/* The same channel of some pixel, or the same element for all: a load is `channels` times as far away as its pixel. */
static void see_pixels(const tn__expr *e, void *user) {
  pixels *p = user;
  if (e == p->pixel->self || e == p->channel->self) return; /* in an index, which is seen below */
  if (!tn__expr_uses_var(e, p->pixel) && !tn__expr_uses_var(e, p->channel)) return;
  if (e->dtype == TN_I64 && e->kind != TN__EXPR_LOAD) {
    p->fuse &= e->kind != TN__EXPR_DIV && e->kind != TN__EXPR_MOD;
    return;
  }
  if (e->kind != TN__EXPR_LOAD) { /* conditions are those of borders, which are cut off */
    bool of_border = e->dtype == TN_BOOL && !tn__expr_uses_var(e, p->channel);
    for (int i = 0; i < e->arg_count; i++) p->fuse &= of_border || e->args[i]->dtype != TN_I64;
    return;
  }
  const tn__buffer *buffer = e->value.buffer;
  int rank = buffer->rank;
  p->fuse &= rank >= 2 && e->args[rank - 1] == p->channel->self &&
             tn__ir_is_int_value(buffer->shape[rank - 1], p->channels) &&
             tn__rule_slope(tn__ir_interior(p->ir, e->args[rank - 2]), p->pixel) == 1;
  for (int d = 0; d < rank - 1 && p->fuse; d++)
    p->fuse &=
        !tn__expr_uses_var(e->args[d], p->channel) && (d == rank - 2 || !tn__expr_uses_var(e->args[d], p->pixel));
}

/* Do the map's last two axes, pixels and their few channels, make one row, in which all that is read lies side by side,
 * too? */
static bool fuses_pixels(tn__ir *ir, const tn__block *block, const tn__stmt *body) {
  const tn__buffer *buffer = block->writes[0].buffer;
  int64_t channels;
  if (block->init != NULL || body->kind != TN__STMT_STORE || buffer->rank < 2 || block->axis_count < 2) return false;
  pixels p = {.ir = ir, .fuse = true};
  for (int i = 0; i < 2; i++) {
    const tn__block_axis *axis = &block->axes[block->axis_count - 2 + i];
    if (axis->kind != TN__AXIS_SPATIAL || body->as.store.indices[buffer->rank - 2 + i] != axis->var->self) return false;
    *(i == 0 ? &p.pixel : &p.channel) = axis->var;
  }
  if (!tn__ir_as_int(p.channel->extent, &channels) || channels < 2 || channels > TN__RULE_MOST_CHANNELS) return false;
  p.channels = channels;
  tn__te_visit(ir, body->as.store.value, see_pixels, &p);
  return p.fuse;
}

static const tn__var *last_spatial(const tn__block *block) {
  const tn__var *last = NULL;
  for (int i = 0; i < block->axis_count; i++)
    if (block->axes[i].kind == TN__AXIS_SPATIAL && !tn__ir_is_int_value(block->axes[i].var->extent, 1))
      last = block->axes[i].var;
  return last;
}

/* Where a body's results are: a reduction takes up what is in memory again; what the schedule's stages make is in
 * registers. */
typedef enum results { STORED, ADDED_TO, NEAR } results;

/* Cycles for one vector of what the body stores. */
static double body_cycles(tn__schedule *s, const tn__target *target, const tn__block *block, const tn__stmt *body,
                          results where, int64_t *lanes, int *turned) {
  tn__ir *ir = s->ir;
  body_cost c = {.ir = ir, .block = block, .along = last_spatial(block), .turned = -1, .widest = 1};
  if (where == NEAR) c.near = s;
  int64_t row;
  const double side_by_side =
      4 * (double)target->cpu.vector_bytes / (double)tn_dtype_size(block->writes[0].buffer->dtype);
  if (block->init != NULL && c.along != NULL && tn__ir_as_int(c.along->extent, &row) && row > 0)
    c.ends = fmin(1, 2 * side_by_side / (double)row);
  tn__stmt_walk_exprs(body, add_value, &c);
  int64_t stored = (int64_t)tn_dtype_size(block->writes[0].buffer->dtype);
  if (stored > c.widest) c.widest = stored;
  *lanes = target->cpu.vector_bytes / c.widest;
  int64_t extent;
  if (c.along != NULL && tn__ir_as_int(c.along->extent, &extent) && !fuses_pixels(ir, block, body))
    while (*lanes > extent && *lanes > 1) *lanes /= 2; /* the rest of a vector would be empty */
  /* A product of floats that is added is one operation with the sum. */
  double fused = !c.floats ? c.sums + c.products : c.sums > c.products ? c.sums : c.products;
  tn__operations ops = {
      .vector_bytes = target->cpu.vector_bytes,
      .fma = fused + c.others,
      .loads = c.loads + (block->init != NULL && where == ADDED_TO ? 1 : 0),
      .stores = where == ADDED_TO || (where == STORED && block->init == NULL) ? block->write_count : 0,
      .shuffles = c.shuffles,
      .gathers = c.gathers * (double)*lanes,
      .other = TN__RULE_TURN};
  *turned = c.gathers > 0 ? -1 : c.turned;
  return tn__sketch_operation_cycles(target, &ops);
}

/* ---- inlining ---------------------------------------------------------------------------------------------------- */

static double points_of(const tn__snode *block) {
  double points = 1;
  for (int i = 0; i < block->block.axis_count; i++) points *= tn__ir_extent_estimate(block->block.axes[i].var->extent);
  return points;
}

/* Is it cheaper when its readers compute it, each where it needs it, than when they read it? A reader's operations are
 * counted with it inside: what two of its uses share is there once. */
static bool is_cheaper_inside(tn__schedule *s, const tn__target *target, const tn__snode *block) {
  const tn__buffer *buffer = block->block.writes[0].buffer;
  tn__snodes readers = {0};
  int64_t lanes;
  int turned;
  double own = body_cycles(s, target, &block->block, block->block.body, STORED, &lanes, &turned);
  double apart = points_of(block) / (double)lanes * own, inside = 0;
  tn__sched_readers(s, buffer, &readers);
  for (int i = 0; i < readers.count; i++) {
    const tn__block *reader = &readers.data[i]->block;
    const tn__stmt *body = tn__sched_body_with(s, block, readers.data[i]);
    if (body == NULL || reader->axis_count == 0) return false;
    double points = points_of(readers.data[i]);
    double before = body_cycles(s, target, reader, reader->body, STORED, &lanes, &turned);
    apart += points / (double)lanes * before;
    double with_it = body_cycles(s, target, reader, body, STORED, &lanes, &turned);
    inside += points / (double)lanes * with_it;
  }
  return readers.count > 0 && inside <= apart;
}

static bool is_map(const tn__snode *block) {
  int axis_of_dim[TN__MAX_RANK];
  if (block->combiner != NULL || block->block.init != NULL || block->block.body->kind != TN__STMT_STORE) return false;
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
  if (!is_map(block) || tn__sched_is_output(s, block->block.writes[0].buffer) || is_read_by_statements(s, block))
    return false;
  tn__snodes writers = {0}, readers = {0}; /* what an accumulation starts from is not all of its tensor */
  tn__sched_writers(s, block->block.writes[0].buffer, &writers);
  tn__sched_readers(s, block->block.writes[0].buffer, &readers);
  bool scattered = false;
  for (int i = 0; i < readers.count; i++) {
    const tn__te_stage *reader = tn__te_stage_of(s->te, readers.data[i]->block.writes[0].buffer);
    scattered |= reader != NULL && tn__reduce_scatters(reader);
  }
  return writers.count == 1 &&
         !(scattered && tn__rule_cost(s->ir, block->block.body->as.store.value) >= TN__RULE_SCATTERED_COST);
}

/* The only reader of the block's tensor, when it is a map that reads it nowhere but at its own element. */
static const tn__snode *reader_of_same(tn__schedule *s, const tn__snode *block) {
  const tn__buffer *buffer = block->block.writes[0].buffer;
  const tn__region *region = NULL;
  tn__snodes readers = {0};
  tn__sched_readers(s, buffer, &readers);
  if (readers.count != 1 || !is_map(readers.data[0])) return NULL;
  const tn__block *reader = &readers.data[0]->block;
  for (int r = 0; r < reader->read_count; r++) {
    if (reader->reads[r].buffer != buffer) continue;
    if (region != NULL) return NULL;
    region = &reader->reads[r];
  }
  if (region == NULL || reader->axis_count != buffer->rank) return NULL;
  for (int d = 0; d < buffer->rank; d++)
    if (region->min[d] != reader->writes[0].min[d] || !tn__ir_is_int_value(region->extent[d], 1)) return NULL;
  return readers.data[0];
}

/* Maps in a row of which each has the one before it as its operand: nothing is computed twice, and a store and a load
 * go. The first ones first, which takes a step the time of its own operations and not that of the whole row. The last
 * of the row is left as it is: what reads it decides on. */
static void inline_rows(tn__schedule *s) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    if (!tn__pipe_can_inline(s, blocks.data[i])) continue;
    const tn__snode *next = reader_of_same(s, blocks.data[i]);
    if (next != NULL && (tn__sched_is_output(s, next->block.writes[0].buffer) || reader_of_same(s, next) != NULL))
      tn__sched_inline_if_small(s, blocks.data[i]->name);
  }
}

/* Last stages first, so that what reads one element of one tensor is gone before it is decided how often that tensor
 * is read; again and again, since each stage that goes changes what its readers cost. */
void tn__pipe_inline(tn__schedule *s, const tn__target *target) {
  inline_rows(s);
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

/* ---- parts that are computed before ------------------------------------------------------------------------------ */

static void add_dear(const tn__expr *e, void *user) {
  double *cycles = user;
  bool divides = e->kind == TN__EXPR_DIV && tn__dtype_is_float(e->dtype);
  if (!is_of_indices(e)) *cycles += divides ? TN__RULE_ROOT_COST : (double)tn__rule_cost_of_node(e);
}

/* Does the part take work, and is it the same for many positions? What does not change along vectors is computed in
 * front of their loop anyway. Gives the place of that axis among the part's. */
TN_MUST_USE static bool is_worth_hoisting(tn__schedule *s, const tn__snode *block, const tn__expr *part, int *last) {
  const tn__var *along = last_spatial(&block->block);
  double times = 1, cost = 0;
  int seen = 0;
  if (along == NULL || part->dtype == TN_I64 || !tn__expr_uses_var(part, along)) return false;
  for (int a = 0; a < block->block.axis_count; a++) {
    const tn__block_axis *axis = &block->block.axes[a];
    if (axis->kind == TN__AXIS_SCAN) return false;
    if (axis->var == along) *last = seen;
    if (tn__expr_uses_var(part, axis->var))
      seen++;
    else
      times *= tn__ir_extent_estimate(axis->var->extent);
  }
  tn__te_visit(s->ir, part, add_dear, &cost);
  return cost >= TN__RULE_ROOT_COST && times >= TN__RULE_HOISTED_TIMES && seen <= TN__MAX_RANK;
}

int tn__pipe_hoist(tn__schedule *s) {
  tn__snodes blocks = {0};
  int hoisted = 0;
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *block = blocks.data[i];
    const tn__expr *part;
    for (int n = 0; block->block.axis_count > 0 && (part = tn__sched_hoistable(block, n)) != NULL;) {
      int last = 0;
      if (hoisted == TN__PIPE_STAGES || !is_worth_hoisting(s, block, part, &last)) {
        n++;
        continue;
      }
      tn__sched_hoist(s, block->name, n, last);
      hoisted++;
    }
  }
  return hoisted;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* Which stage writes a tensor. */
typedef struct writers {
  tn__schedule *s;
  tn__map numbers; /* by the block's name: its number, counted from 1 */
} writers;

static int stage_of(writers *w, const tn__buffer *buffer) {
  tn__snodes blocks = {0};
  tn__sched_writers(w->s, buffer, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    const int *number = tn__map_get(&w->numbers, blocks.data[i]->name);
    if (number != NULL) return *number;
  }
  return -1;
}

/* With every open size taken for TN__PIPE_OPEN. */
static const tn__expr *with_sizes(const tn__schedule *s, const tn__expr *e) {
  const tn__expr *size = tn__ir_index(s->ir, TN__PIPE_OPEN);
  for (int i = 0; i < tn__te_dim_count(s->te); i++) {
    const tn__var *dim = tn__te_dim_at(s->te, i);
    e = tn__ir_substitute(s->ir, e, &dim, &size, 1);
  }
  return e;
}

TN_MUST_USE static bool read_shape(const tn__schedule *s, const tn__buffer *buffer, int64_t *shape) {
  for (int d = 0; d < buffer->rank; d++)
    if (!tn__ir_as_int(with_sizes(s, buffer->shape[d]), &shape[d])) return false;
  return true;
}

/* May all steps of the scan be computed together for some places of the other axes, in vectors along the last one? */
static bool scan_may_move(tn__schedule *s, const tn__pipe_stage *stage, const tn__snode *block) {
  if (tn__sched_scan_stage(s, block) == NULL || stage->scan_dim == stage->buffer->rank - 1) return false;
  for (const tn__snode *n = block->parent; n->var != NULL; n = n->parent)
    if (n->children.count != 1) return false;
  for (int i = 0; i < block->block.axis_count; i++)
    if (block->block.axes[i].kind != TN__AXIS_SCAN && !tn__sched_scan_keeps_axis(s, block, i)) return false;
  return true;
}

/* Is there one tensor, or several of a scan that lie alike? */
static bool writes_alike(const tn__snode *block) {
  const tn__region *first = &block->block.writes[0];
  if (block->block.write_count == 1) return block->block.body->kind == TN__STMT_STORE;
  bool scans = false;
  for (int i = 0; i < block->block.axis_count; i++) scans |= block->block.axes[i].kind == TN__AXIS_SCAN;
  for (int w = 1; w < block->block.write_count; w++) {
    const tn__region *write = &block->block.writes[w];
    scans &= write->buffer->rank == first->buffer->rank;
    for (int d = 0; d < first->buffer->rank && scans; d++)
      scans = write->min[d] == first->min[d] && write->buffer->shape[d] == first->buffer->shape[d];
  }
  return scans;
}

static void read_axes(tn__schedule *s, tn__pipe_stage *stage, const tn__snode *block) {
  stage->movable = block->block.axis_count > 0 && block->block.axis_count <= TN__PIPE_AXES && writes_alike(block) &&
                   tn__sched_identity_write(block, stage->axis_of_dim);
  stage->terms = 1;
  for (int kind = 0; kind < 2; kind++)
    for (int i = 0; i < block->block.axis_count && stage->movable; i++) {
      const tn__block_axis *axis = &block->block.axes[i];
      if ((axis->kind != TN__AXIS_REDUCE) != (kind == 0)) continue;
      if (kind == 0 && i != stage->axis_count) stage->movable = false; /* axes of a reduction stand behind the others */
      if (axis->kind == TN__AXIS_SCAN) {
        stage->movable &= stage->scan_axis < 0;
        stage->scan_axis = stage->axis_count;
      }
      stage->axis[stage->axis_count] = axis->var;
      stage->open[stage->axis_count] = !tn__ir_is_int(axis->var->extent);
      stage->movable &= tn__ir_as_int(with_sizes(s, axis->var->extent), &stage->extent[stage->axis_count]);
      stage->movable &= kind == 0 || !stage->open[stage->axis_count];
      /* Others are less than any tensor has: 2,000 fewer than an open size, say. */
      stage->movable &= stage->extent[stage->axis_count] > 0;
      if (stage->movable && kind == 1) stage->terms *= (double)stage->extent[stage->axis_count];
      stage->axis_count++;
      stage->spatial += kind == 0;
    }
  for (int d = 0; d < stage->buffer->rank && stage->scan_axis >= 0 && stage->movable; d++)
    if (stage->axis_of_dim[d] == stage->scan_axis) stage->scan_dim = d;
  if (stage->scan_axis >= 0) stage->movable = stage->movable && scan_may_move(s, stage, block);
  stage->movable &= read_shape(s, stage->buffer, stage->shape);
}

static tn__pipe_index index_of(tn__ir *ir, const tn__pipe_stage *stage, const tn__expr *e) {
  tn__linear l;
  tn__linear_init(&l);
  tn__linear_add(ir, &l, e, 1);
  tn__pipe_index out = {.is_simple = l.count == 0, .axis = -1, .offset = l.constant};
  for (int a = 0; a < stage->axis_count && l.count == 1; a++) {
    if (stage->axis[a]->self != l.terms[0].atom) continue;
    out = (tn__pipe_index){.is_simple = true, .axis = a, .scale = l.terms[0].coefficient, .offset = l.constant};
  }
  return out;
}

static void read_reads(tn__pipe *p, writers *w, tn__pipe_stage *stage, const tn__snode *block) {
  tn__schedule *s = p->s;
  tn__pipe_read *reads = TN__NEW_ARRAY(s->arena, block->block.read_count, tn__pipe_read);
  for (int r = 0; r < block->block.read_count; r++) {
    const tn__region *region = &block->block.reads[r];
    if (tn__sched_writes(block, region->buffer)) continue; /* its sums so far */
    tn__pipe_read *read = &reads[stage->read_count++];
    *read = (tn__pipe_read){.from = stage_of(w, region->buffer), .buffer = region->buffer};
    stage->movable &= read_shape(s, region->buffer, read->shape);
    for (int d = 0; d < region->buffer->rank; d++) {
      const tn__expr *end = tn__ir_add(s->ir, region->min[d], region->extent[d]);
      /* As it is away from the borders: a tile behind the last one tells as much as any other. */
      read->min[d] = with_sizes(s, tn__ir_interior(s->ir, region->min[d]));
      read->last[d] = with_sizes(s, tn__ir_interior(s->ir, tn__ir_add_i(s->ir, end, -1)));
      read->first_index[d] = index_of(s->ir, stage, read->min[d]);
      read->last_index[d] = index_of(s->ir, stage, read->last[d]);
    }
    if (read->from >= 0) tn__vec_push(s->arena, &p->stages[read->from].readers, (int)(stage - p->stages));
  }
  stage->reads = reads;
}

tn__pipe *tn__pipe_create(tn__schedule *s, const tn__target *target) {
  tn__pipe *p = TN__NEW(s->arena, tn__pipe);
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  *p = (tn__pipe){.s = s, .target = target, .cache_bytes = target->cpu.machine.l2_bytes};
  p->stages = TN__NEW_ARRAY(s->arena, blocks.count, tn__pipe_stage);
  writers made = {.s = s};
  tn__map_init(&made.numbers, s->arena);
  int *numbers = TN__NEW_ARRAY(s->arena, blocks.count, int);
  for (int i = 0; i < blocks.count; i++) {
    const tn__snode *block = blocks.data[i];
    tn__pipe_stage *stage = &p->stages[i];
    *stage = (tn__pipe_stage){.block = block, .name = block->name, .buffer = block->block.writes[0].buffer};
    stage->scan_axis = stage->scan_dim = stage->turned_axis = -1;
    read_axes(s, stage, block);
    read_reads(p, &made, stage, block);
    for (int w = 0; w < block->block.write_count; w++)
      stage->is_output |= tn__sched_is_output(s, block->block.writes[w].buffer);
    stage->lanes = 1;
    if (stage->movable) {
      const tn__stmt *body = block->block.body;
      stage->added_cycles = body_cycles(s, target, &block->block, body, ADDED_TO, &stage->lanes, &stage->turned_axis);
      stage->cycles = body_cycles(s, target, &block->block, body, STORED, &stage->lanes, &stage->turned_axis);
      int turned;
      stage->register_cycles = body_cycles(s, target, &block->block, body, NEAR, &stage->lanes, &turned);
      stage->fuses = fuses_pixels(s->ir, &block->block, body);
      stage->has_lanes = stage->axis_count > stage->spatial && tn__reduce_runs_across(s, block);
    }
    numbers[i] = i;
    tn__map_set(&made.numbers, block->name, &numbers[i]);
    p->count++;
  }
  return p;
}
