/* Declarations of several computations: sums of products, each with the maps around it, and what stands between them.
 * Every part is scheduled as a declaration of its own would be, by the other rules; its steps speak of blocks and loops
 * by name, so they apply to the whole. */
#include <string.h>

#include "base/invariant.h"
#include "schedule/rules/contraction.h"
#include "schedule/rules/reduce.h"
#include "schedule/sketch/plan.h"

/* ---- parts ------------------------------------------------------------------------------------------------------- */

typedef struct part {
  int first, count;
  bool sums_products;
} part;

typedef struct partition {
  const tn__te *te;
  int *reader; /* by stage: the last one that reads it */
  int *wanted; /* by stage: how many read it, counted once each; an output is read once more, behind all */
  int stage;   /* that is being looked at */
  TN__VEC(part) parts;
} partition;

/* The order of terms may change, and each is a product of two different things; or what a term reads is used again for
 * others, as that of points is where there are several results of each pair. */
static bool sums_products(const tn__te *te, const tn__te_stage *stage) {
  if (stage->step_of != NULL) return false; /* a part with all of its scan */
  if (tn__contraction_reuses(tn__te_ir(te), stage) || tn__reduce_meets_pairs(te, stage)) return true;
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || !stage->combiner->reorderable) return false;
  const tn__expr *value = stage->values[0];
  return stage->combiner->result[0]->kind == TN__EXPR_ADD && value->kind == TN__EXPR_MUL &&
         value->args[0] != value->args[1];
}

static int stage_of(const tn__te *te, const tn__buffer *tensor) {
  for (int i = 0; i < tn__te_stage_count(te); i++)
    for (int t = 0; t < tn__te_stage_at(te, i)->tensor_count; t++)
      if (tn__te_stage_at(te, i)->tensors[t] == tensor) return i;
  return -1;
}

static void note_reader(const tn__buffer *tensor, void *user) {
  partition *p = user;
  int from = stage_of(p->te, tensor);
  if (from < 0 || from == p->stage || p->reader[from] == p->stage) return;
  p->reader[from] = p->stage;
  p->wanted[from]++;
}

/* Is the stage a map that nobody but stage `reader` reads? */
static bool serves(const partition *p, int stage, int reader) {
  return tn__te_stage_at(p->te, stage)->kind == TN__TE_COMPUTE && p->wanted[stage] == 1 && p->reader[stage] == reader;
}

typedef struct alike {
  const tn__te_stage *stage;
  const tn__buffer *tensor;
  bool same;
} alike;

static void check_place(const tn__expr *e, void *user) {
  alike *a = user;
  if (e->kind != TN__EXPR_LOAD || e->value.buffer != a->tensor) return;
  for (int d = 0; d < e->arg_count; d++) a->same &= e->args[d] == a->stage->axes.var[d]->self;
}

/* Does the map, and it alone, read the stage before it, and make one element of each element of that? */
static bool is_epilogue(const partition *p, int stage) {
  const tn__te_stage *map = tn__te_stage_at(p->te, stage), *from = tn__te_stage_at(p->te, stage - 1);
  alike a = {.stage = map, .tensor = from->tensors[0], .same = map->axes.count == from->axes.count};
  if (p->wanted[stage - 1] != 1 || p->reader[stage - 1] != stage) return false;
  for (int i = 0; i < map->axes.count && a.same; i++) a.same = map->axes.var[i]->extent == from->axes.var[i]->extent;
  if (a.same) tn__te_visit(tn__te_ir(p->te), map->values[0], check_place, &a);
  return a.same;
}

static bool is_stored(const partition *p, int stage) {
  return stage >= 0 && tn__te_stage_at(p->te, stage)->hint == TN__TE_STORED;
}

static void add_stage(partition *p, int stage) {
  part none = {0}, *last = p->parts.count > 0 ? &p->parts.data[p->parts.count - 1] : &none;
  bool sums = sums_products(p->te, tn__te_stage_at(p->te, stage));
  bool is_map = tn__te_stage_at(p->te, stage)->kind == TN__TE_COMPUTE;
  bool in_step = stage > 0 && tn__te_stage_at(p->te, stage - 1)->step_of != NULL;
  bool follows = in_step || (last->count > 0 && !is_stored(p, stage - 1) &&
                             (!last->sums_products || (is_map && is_epilogue(p, stage))));
  if (!sums && follows) {
    last->count++;
    return;
  }
  int before = 0; /* maps that make an operand */
  while (sums && !last->sums_products && before < last->count && serves(p, stage - before - 1, stage - before) &&
         !is_stored(p, stage - before - 1))
    before++;
  if (before > 0 && before == last->count) {
    last->count++;
    last->sums_products = true;
    return;
  }
  if (before > 0) last->count -= before;
  part fresh = {.first = stage - before, .count = 1 + before, .sums_products = sums};
  tn__vec_push(tn__ir_arena(tn__te_ir(p->te)), &p->parts, fresh);
}

/* NULL when the declaration is no sequence of several parts, some of which sum products or end in what is stored. */
static partition *split_up(const tn__te *te) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  int count = tn__te_stage_count(te), products = 0;
  for (int i = 0; i < count; i++) products += sums_products(te, tn__te_stage_at(te, i));
  if ((products == 0 && !tn__te_has_stored(te)) || count < 2) return NULL;
  partition *p = TN__NEW(arena, partition);
  *p = (partition){.te = te, .reader = TN__NEW_ARRAY(arena, count, int), .wanted = TN__NEW_ARRAY(arena, count, int)};
  for (int i = 0; i < count; i++) p->reader[i] = -1;
  for (p->stage = 0; p->stage < count; p->stage++) tn__te_reads(te, tn__te_stage_at(te, p->stage), note_reader, p);
  for (int i = 0; i < tn__te_output_count(te); i++) note_reader(tn__te_output_at(te, i), p);
  for (int i = 0; i < count; i++) add_stage(p, i);
  return p->parts.count > 1 ? p : NULL;
}

static bool matches_sequence(const tn__te *te) { return split_up(te) != NULL; }

/* ---- the sketch -------------------------------------------------------------------------------------------------- */

typedef struct sequence {
  TN__VEC(const char *) steps;
  double cycles;
  int registers;
} sequence;

static void schedule_part(tn__sketch *k, sequence *q, const tn__te_uses *uses, const part *p) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(k->te));
  tn__te *te = tn__te_part(uses, p->first, p->count, tn__ir_create(arena));
  tn__schedule_options options = k->options;
  options.results_read = true;
  tn__plan_unit unit = tn__plan_unit_with(k->rules, te, k->target, &options);
  unit.part = tn__te_stage_at(k->te, p->first)->name;
  const tn__plan *plan = tn__plan_kernel(&unit, k->chooser != NULL ? k->chooser : &tn__chooser_static);
  const tn__schedule *s = plan->schedule;
  if (plan->sketch == NULL && s->steps.count == 0 && !tn__te_has_stored(k->te))
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "sequence: no rule fits \"%s\"",
               tn__te_stage_at(k->te, p->first)->name);
  for (int i = 0; i < s->steps.count; i++) tn__vec_push(arena, &q->steps, s->steps.data[i]);
  q->cycles += plan->cost.cycles;
  if (plan->cost.registers > q->registers) q->registers = plan->cost.registers;
}

static void apply_steps(tn__schedule *s, const sequence *q) {
  for (int i = 0; i < q->steps.count; i++) /* what is an output of its part only is read soon */
    if (strncmp(q->steps.data[i], "stream ", strlen("stream ")) != 0) tn__sched_trace_step(s, q->steps.data[i]);
}

static void open_sequence(tn__sketch *k, tn__schedule *scratch) {
  const partition *p = split_up(k->te);
  sequence *q = TN__NEW(scratch->arena, sequence);
  TN__INVARIANT(p != NULL); /* matches_sequence() said so */
  k->data = q;
  const tn__te_uses *uses = tn__te_uses_of(k->te, scratch->arena);
  for (int i = 0; i < p->parts.count; i++) schedule_part(k, q, uses, &p->parts.data[i]);
  apply_steps(scratch, q);
  const int64_t parts = p->parts.count;
  tn__sketch_open(k, "parts", &parts, 1);
}

/* What the parts cost, one after the other. */
static const tn__nest *sequence_features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  static const tn__nest nothing = {.axis_count = 0};
  const sequence *q = k->data;
  f->work_cycles = q->cycles;
  f->registers = q->registers;
  return &nothing;
}

static void apply_sequence(const tn__sketch *k, const int64_t *values, tn__schedule *s) { apply_steps(s, k->data); }

const tn__rule tn__rule_sequence = {"sequence",     matches_sequence,    open_sequence,       sequence_features,
                                    apply_sequence, .takes_steps = true, .takes_stored = true};
