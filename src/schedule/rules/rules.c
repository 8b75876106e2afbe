#include "schedule/rules/rules.h"

#include <math.h>

/* ---- what rules share -------------------------------------------------------------------------------------------- */

int64_t tn__rule_loop_extent(const tn__schedule *s, const char *loop) {
  int64_t extent;
  return tn__ir_as_int(tn__sched_loop(s, "loop_extent", loop)->var->extent, &extent) ? extent : -1;
}

bool tn__rule_fills(int64_t extent, int64_t step) {
  return extent >= 0 && (extent % step == 0 || extent >= TN__RULE_FILLED * step);
}

int64_t tn__rule_cost_of_node(const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_INT:
    case TN__EXPR_FLOAT:
    case TN__EXPR_VAR:
    case TN__EXPR_CAST:
    case TN__EXPR_BITCAST: return 0;
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: return TN__RULE_DIVISION_COST;
    case TN__EXPR_CALL:
      switch (e->intrinsic) {
        case TN__CALL_ABS:
        case TN__CALL_NEG:
        case TN__CALL_FLOOR:
        case TN__CALL_CEIL:
        case TN__CALL_TRUNC:
        case TN__CALL_ROUND_EVEN:
        case TN__CALL_FMA:
        case TN__CALL_IS_NAN:
        case TN__CALL_IS_INF:
        case TN__CALL_POPCOUNT:
        case TN__CALL_CLZ:
        case TN__CALL_DOT4:
        case TN__CALL_DOT2:
        case TN__CALL_SUM8:
        case TN__CALL_LIKELY: return 1;
        case TN__CALL_SQRT:
        case TN__CALL_RSQRT: return TN__RULE_ROOT_COST;
        default: return TN__RULE_FUNCTION_COST;
      }
    default: return 1;
  }
}

static void add_cost(const tn__expr *e, void *user) {
  int64_t *cost = user;
  *cost += tn__rule_cost_of_node(e);
}

int64_t tn__rule_cost(tn__ir *ir, const tn__expr *value) {
  int64_t cost = 0;
  tn__te_visit(ir, value, add_cost, &cost);
  return cost;
}

double tn__rule_slope(const tn__expr *e, const tn__var *var) {
  if (!tn__expr_uses_var(e, var)) return 0;
  switch (e->kind) {
    case TN__EXPR_VAR: return 1;
    case TN__EXPR_ADD: return tn__rule_slope(e->args[0], var) + tn__rule_slope(e->args[1], var);
    case TN__EXPR_SUB: return tn__rule_slope(e->args[0], var) - tn__rule_slope(e->args[1], var);
    case TN__EXPR_MUL:
      if (tn__ir_is_int(e->args[1])) return tn__rule_slope(e->args[0], var) * (double)e->args[1]->value.i;
      return tn__ir_is_int(e->args[0]) ? tn__rule_slope(e->args[1], var) * (double)e->args[0]->value.i : NAN;
    case TN__EXPR_DIV:
      return tn__ir_is_int(e->args[1]) ? tn__rule_slope(e->args[0], var) / (double)e->args[1]->value.i : NAN;
    case TN__EXPR_MIN: /* a clamp stands still at its ends only */
    case TN__EXPR_MAX: {
      double a = tn__rule_slope(e->args[0], var), b = tn__rule_slope(e->args[1], var);
      return fabs(a) > fabs(b) ? a : b;
    }
    default: return NAN;
  }
}

bool tn__rule_is_large(const tn__te *te) {
  tn__ir *ir = tn__te_ir(te);
  double work = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind == TN__TE_EXTERN) continue;
    double points = 1;
    for (int a = 0; a < stage->axes.count + stage->reduce_axes.count; a++) {
      const tn__var *var = a < stage->axes.count ? stage->axes.var[a] : stage->reduce_axes.var[a - stage->axes.count];
      int64_t extent;
      if (a < stage->axes.count && !tn__te_keeps_axis(stage, a)) continue;
      if (!tn__ir_as_int(var->extent, &extent)) return true;
      points *= (double)extent;
    }
    int64_t cost = 1;
    for (int t = 0; t < stage->tensor_count; t++) cost += tn__rule_cost(ir, stage->values[t]);
    work += points * (double)cost;
  }
  return work > TN__RULE_LARGE;
}

bool tn__rule_shares(tn__schedule *s, const tn__schedule_options *options) {
  if (options->threads <= 1) return false;
  if (!s->size_known) s->large = tn__rule_is_large(s->te);
  s->size_known = true;
  return s->large;
}

void tn__rule_open_stream(tn__sketch *k) {
  static const int64_t choices[] = {0, 1};
  tn__sketch_open(k, "stream", choices, 2);
}

void tn__rule_stream(tn__schedule *s, const char *block) {
  const tn__snode *node = tn__sched_find(s, block, true);
  for (int w = 0; node != NULL && w < node->block.write_count; w++)
    if (tn__sched_cannot_stream(s, node, node->block.writes[w].buffer) == NULL) tn__sched_stream(s, block, w);
}

/* ---- features of a plain nest ------------------------------------------------------------------------------------ */

typedef struct plain {
  tn__nest nest;
  double touched;               /* bytes of all inputs and outputs */
  double stored, unseen;        /* bytes of all outputs, and of those that other stages write */
  double cost, others;          /* operations of one point of this stage; of all other stages, as many for each point */
  int element, vector, spatial; /* bytes of an element; the axis that vectors run along; axes before the reduction's */
  int64_t run;                  /* steps that the axis and those around it make one long walk of */
  bool reduces, large;
  double accumulated; /* terms that go into elements which data choose, one after the other */
} plain;

static double points_of(const tn__te_stage *stage) {
  double points = 1;
  for (int a = 0; a < stage->axes.count; a++)
    if (tn__te_keeps_axis(stage, a)) points *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  for (int a = 0; a < stage->reduce_axes.count; a++)
    points *= tn__ir_extent_estimate(stage->reduce_axes.var[a]->extent);
  return points;
}

/* The last axis of the reduction, where something lies along it that would have to be gathered across the results: what
 * belongs to each result, as a row's mean, is no reason for that. -1: vectors may run across them. */
static int axis_of_terms(const plain *p) {
  const tn__nest *nest = &p->nest;
  int terms = nest->axis_count - 1;
  while (terms >= p->spatial && nest->extent[terms] == 1) terms--;
  if (!p->reduces || p->vector >= p->spatial || terms < p->spatial) return -1;
  for (int i = 0; i < nest->access_count; i++) {
    const tn__nest_access *a = &nest->access[i];
    int64_t across = a->along[p->vector].stride;
    bool strided = nest->extent[terms] < TN__RULE_SHORT_ROW && across <= TN__RULE_SHUFFLED_STRIDE * a->element;
    if (!a->store && !a->scattered && a->along[terms].stride == a->element && across != 0 && across != a->element &&
        !strided)
      return terms;
  }
  return -1;
}

/* The axis along which most accesses are contiguous, and how far that goes on over the axes outside of it. */
static void find_vector(plain *p) {
  const tn__nest *nest = &p->nest;
  int most = 0;
  for (int x = 0; x < nest->axis_count; x++) {
    int contiguous = 0;
    for (int i = 0; i < nest->access_count; i++)
      contiguous += nest->access[i].along[x].stride == nest->access[i].element;
    if (contiguous < most || nest->extent[x] == 1) continue;
    most = contiguous;
    p->vector = x;
  }
  int terms = axis_of_terms(p);
  if (terms >= 0) p->vector = terms;
  p->run = nest->axis_count > 0 ? nest->extent[p->vector] : 1;
  const int last = !p->reduces ? 0 : p->vector >= p->spatial ? p->spatial : p->vector;
  for (int x = p->vector - 1; x >= last; x--) {
    for (int i = 0; i < nest->access_count; i++) {
      const tn__nest_access *a = &nest->access[i];
      if (a->scattered || a->along[x].stride != tn__ir_bound_mul(a->along[p->vector].stride, p->run)) return;
    }
    p->run = tn__ir_bound_mul(p->run, nest->extent[x]);
  }
}

double tn__rule_bytes(const tn__buffer *buffer) {
  return (double)tn_dtype_size(buffer->dtype) * tn__ir_elements_estimate(buffer);
}

void tn__plain_open(tn__sketch *k, tn__schedule *scratch) {
  const tn__te_stage *heaviest = NULL;
  plain *p = TN__NEW(scratch->arena, plain);
  k->data = p;
  p->large = tn__rule_is_large(k->te);
  for (int i = 0; i < tn__te_stage_count(k->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(k->te, i);
    if (stage->kind == TN__TE_EXTERN) continue;
    for (int t = 0; t < stage->tensor_count; t++)
      p->cost += points_of(stage) * (double)tn__rule_cost(scratch->ir, stage->values[t]);
    if (stage->kind == TN__TE_ACCUMULATE) { /* there is nothing to decide for it */
      p->accumulated += points_of(stage);
      continue;
    }
    bool later = heaviest == NULL || heaviest->kind != TN__TE_REDUCE || stage->kind == TN__TE_REDUCE;
    if (heaviest == NULL || points_of(stage) > points_of(heaviest) ||
        (points_of(stage) == points_of(heaviest) && later))
      heaviest = stage;
  }
  if (heaviest == NULL) return;
  tn__nest_of_block(scratch, heaviest->name, &p->nest);
  double own = 0;
  for (int t = 0; t < heaviest->tensor_count; t++) own += (double)tn__rule_cost(scratch->ir, heaviest->values[t]);
  p->others = p->cost / points_of(heaviest) - own;
  p->cost = heaviest->kind == TN__TE_REDUCE ? own + 1 : own;
  p->element = (int)tn_dtype_size(heaviest->tensors[0]->dtype);
  p->spatial = heaviest->axes.count;
  for (int i = 0; i < tn__te_input_count(k->te); i++) p->touched += tn__rule_bytes(tn__te_input_at(k->te, i));
  for (int i = 0; i < tn__te_output_count(k->te); i++) {
    const tn__buffer *output = tn__te_output_at(k->te, i);
    double bytes = tn__rule_bytes(output);
    p->stored += bytes;
    p->touched += bytes;
    if (tn__te_stage_of(k->te, output) != heaviest) p->unseen += bytes;
  }
  p->reduces = heaviest->kind == TN__TE_REDUCE;
  find_vector(p);
}

/* What one vector costs: loads that move with it, a store for a map. */
static tn__operations plain_operations(const tn__target *target, const plain *p, int vector_bytes, double lanes) {
  tn__operations ops = {.vector_bytes = vector_bytes, .fma = p->cost > 0 ? p->cost : 0.1};
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *a = &p->nest.access[i];
    int64_t stride = a->along[p->vector].stride;
    double crossing = tn__nest_crossing(target, a, p->nest.axis_count, p->vector, vector_bytes);
    if (p->run > p->nest.extent[p->vector]) crossing = 0; /* one long walk stays as aligned as its start */
    double pieces = a->store || a->scattered ? 0 : tn__nest_shuffled(a->element, stride, lanes);
    if (pieces > 0) {
      ops.loads += pieces * (1 + crossing);
      ops.shuffles += pieces - 1;
    } else if (stride != a->element && (stride != 0 || a->scattered))
      ops.gathers += lanes;
    else if (stride != 0 && !a->store)
      ops.loads += 1 + crossing;
    else if (stride != 0 && !p->reduces)
      ops.stores += 1 + crossing;
  }
  return ops;
}

/* How many accesses of a vector as wide as a line lie across two lines, almost always, as in rows of odd lengths: of
 * maps that do little else than move elements of one size side by side. */
static double crossings(const tn__target *target, const plain *p, int64_t bytes) {
  double count = 0;
  if (bytes < target->cpu.machine.costs.line_bytes || p->run > p->nest.extent[p->vector]) return 0;
  if (p->cost + p->others > TN__RULE_UNROLL_TWO) return 0;
  for (int i = 0; i < p->nest.access_count; i++) {
    const tn__nest_access *a = &p->nest.access[i];
    int64_t stride = a->along[p->vector].stride;
    if (a->scattered || a->element != p->element || (stride != 0 && stride != a->element)) return 0;
    if (stride != 0) count += tn__nest_crossing(target, a, p->nest.axis_count, p->vector, bytes);
  }
  return count;
}

/* Short rows end in the middle of lines, of which the rest is not streamed: each of those goes to memory twice, and
 * whoever writes the rest waits for it. */
static bool cuts_lines(const tn__target *target, const plain *p) {
  int64_t line = target->cpu.machine.costs.line_bytes, row = tn__ir_bound_mul(p->run, p->element);
  return row % line != 0 && row < TN__RULE_STREAMED_LINES * line;
}

const tn__nest *tn__plain_features(const tn__sketch *k, int vector_bytes, int64_t vectors, int64_t rows,
                                   tn__sketch_features *f) {
  const plain *p = k->data;
  f->chunks = p->large ? 4 * k->options.threads : 1;
  f->stored_bytes = p->stored;
  f->unseen_bytes = p->unseen;
  const tn__operations update = {.vector_bytes = 16, .fma = 1, .loads = 2, .stores = 1, .other = 2};
  if (p->accumulated > 0) tn__cost_phase(f, k->target, &update, p->accumulated);
  double points = 1;
  if (f->streams && p->element > 0 && cuts_lines(k->target, p)) return NULL;
  for (int a = 0; a < p->nest.axis_count; a++) {
    f->loops[f->loop_count++] = (tn__nest_loop){a, p->nest.extent[a], 1};
    points *= (double)p->nest.extent[a];
  }
  if (p->nest.axis_count == 0 || p->element == 0) return vectors == 1 ? &p->nest : NULL;
  int64_t lanes = vector_bytes / p->element > 0 ? vector_bytes / p->element : 1;
  bool along = p->reduces && p->vector >= p->spatial, open = p->nest.open[p->vector];
  if (vectors > 1 && p->run < vectors * lanes) return NULL;
  if (vectors > TN__RULE_CHAINS && along) return NULL;
  /* From far rows come while the one before is computed, and two at a time come late. */
  if (rows > 1 && p->touched > TN__RULE_NEAR * (double)k->options.cache_bytes) return NULL;
  if (vectors > 1 && !p->reduces && (double)vectors * (p->cost + p->others) > TN__RULE_MOST_UNROLLED) return NULL;
  if (vectors > 1 && !along &&
      (open || (p->reduces ? !tn__rule_fills(p->run, vectors * lanes) : p->run % (vectors * lanes) != 0)))
    return NULL;
  tn__operations ops = plain_operations(k->target, p, (int)(lanes * p->element), (double)lanes);
  double walks = points / (double)p->run, steps = ceil((double)p->run / (double)(lanes * vectors));
  double latency = p->reduces ? k->target->cpu.machine.core.fma_latency : 0;
  tn__operations step = {.vector_bytes = ops.vector_bytes,
                         .fma = vectors * ops.fma,
                         .loads = vectors * ops.loads,
                         .stores = vectors * ops.stores,
                         .gathers = vectors * ops.gathers,
                         .shuffles = vectors * ops.shuffles,
                         .other = TN__RULE_TURN,
                         .chain = latency};
  f->registers = p->reduces ? (int)vectors + 2 : 0;
  tn__cost_phase(f, k->target, &step, walks * steps);
  tn__cost_loop(f, k->target, walks, steps);
  tn__operations rest = {.vector_bytes = ops.vector_bytes, .fma = p->others, .other = 2};
  if (p->others > 0) tn__cost_phase(f, k->target, &rest, points / (double)lanes);
  if (along) { /* vectors are added to one, and its lanes to one */
    double halvings = log2((double)lanes) + log2((double)vectors), each = halvings * (double)rows;
    tn__operations end = {.vector_bytes = ops.vector_bytes, .fma = each, .shuffles = each, .other = 8 * (double)rows};
    end.chain = 2 * halvings * latency; /* of all rows at hand beside each other */
    tn__cost_phase(f, k->target, &end, walks / (double)rows);
  }
  if (!p->reduces && p->touched > (double)k->target->cpu.machine.l1_bytes)
    f->extra_cycles +=
        TN__RULE_CROSSED_LINE * crossings(k->target, p, lanes * p->element) * walks * steps * (double)vectors;
  f->useful = points;
  f->spent = walks * steps * (double)(lanes * vectors);
  return &p->nest;
}

int64_t tn__plain_pieces(const tn__sketch *k, int64_t vectors) {
  const plain *p = k->data;
  if (p->spatial == 0) return 1;
  if (p->vector >= p->spatial) return p->nest.extent[0];
  int64_t lanes = k->options.vector_bytes / p->element, pieces = 1;
  for (int a = 0; a < p->spatial; a++) {
    int64_t extent = p->nest.extent[a];
    if (a == p->spatial - 1 && lanes > 0) extent = (extent + lanes * vectors - 1) / (lanes * vectors);
    pieces = pieces > INT32_MAX / extent ? INT32_MAX : pieces * extent;
  }
  return pieces;
}

bool tn__plain_next_row(const tn__sketch *k, bool ahead, tn__sketch_features *f) {
  const plain *p = k->data;
  bool far = p->touched > TN__RULE_NEAR * (double)k->options.cache_bytes &&
             p->touched <= TN__RULE_LAST * (double)k->target->cpu.machine.l3_bytes;
  if (!far) return !ahead;
  double lines = (p->touched - p->stored) / k->target->cpu.machine.costs.line_bytes;
  f->extra_cycles += ahead ? lines / k->target->cpu.machine.core.load_ports : lines * TN__RULE_LINE_WAIT;
  return true;
}

bool tn__plain_pages(const tn__sketch *k, int64_t vectors, bool prefetches, int64_t whole, tn__sketch_features *f) {
  const plain *p = k->data;
  const tn__machine *machine = &k->target->cpu.machine;
  double points = 1;
  int far = 0;
  for (int a = 0; a < p->nest.axis_count; a++) points *= (double)p->nest.extent[a];
  for (int i = 0; i < p->nest.access_count && p->nest.axis_count > 0; i++)
    far +=
        !p->nest.access[i].store && p->nest.access[i].along[p->nest.axis_count - 1].stride >= machine->costs.page_bytes;
  if (!p->reduces || p->vector >= p->spatial || p->touched <= (double)k->target->cpu.machine.l3_bytes / 4) far = 0;
  if (far == 0) return vectors <= 8 && !prefetches && whole == 0;
  if (whole > 0) { /* a row of sums is read and written for so many rows */
    int64_t row = p->nest.extent[p->vector], lanes = k->options.vector_bytes / p->element;
    if (prefetches || vectors != 8 || row * p->element > k->target->cpu.machine.l1_bytes / 2 || row % lanes != 0)
      return false;
    tn__operations sums = {.vector_bytes = k->options.vector_bytes, .loads = 1, .stores = 1, .other = TN__RULE_TURN};
    f->extra_cycles += points / (double)(lanes * whole) * tn__sketch_operation_cycles(k->target, &sums);
    return p->nest.axis_count == 2;
  }
  double turns = points * p->element / (double)(vectors * k->options.vector_bytes),
         lines = points * p->element / machine->costs.line_bytes;
  f->extra_cycles += far * (prefetches ? turns * TN__RULE_PAGE_WAIT / 2 + lines / k->target->cpu.machine.core.load_ports
                                       : turns * TN__RULE_PAGE_WAIT);
  return true;
}
