/* Maps whose elements are computed in other ways at other places of a small tile, in two steps: Winograd's transforms,
 * rows first and then columns, and whatever else chooses among expressions by a position that it compares with
 * constants. The first step is computed along the second, a tile at a time for a few vectors, so that it stays in the
 * L1. In both, the positions that an element is chosen by are unrolled around a vector: each becomes the one
 * expression that it chooses, and what several of them share is computed once.
 *
 *   parallel over tiles:  for vectors:
 *     for position:  for vector:  for chosen position (unrolled):  first[...] = its expression
 *     for position:  for vector:  for chosen position (unrolled):  out[...] = its expression and the epilogue
 *
 * Several vectors in a row are read from one plane of positions before the next: planes often lie a round number of
 * pages apart, and as many vectors as there are planes would share one set of the cache.
 *
 * What the first step reads is computed before, as several tiles read it; what reads the second is computed with it. */
#include "schedule/rules/rules.h"

enum { MAX_POSITIONS = 8, MAX_VECTORS = 4 };

/* ---- recognising ------------------------------------------------------------------------------------------------- */

/* An axis that counts the places in a tile, or does so modulo something. */
typedef struct position {
  const tn__var *axis;
  int64_t modulus; /* 0: the axis itself */
  bool chosen;     /* compared with constants: other places, other expressions */
} position;

typedef struct positions {
  int count;
  bool mixed; /* one axis in two ways */
  position list[TN__MAX_RANK];
  const tn__buffer *first; /* the tensor of the first step, and the positions that it is chosen by; NULL: none */
  unsigned first_chosen;
} positions;

static void note(positions *found, const tn__expr *at, bool chosen) {
  int64_t modulus = 0;
  if (at->kind == TN__EXPR_MOD && tn__ir_as_int(at->args[1], &modulus)) at = at->args[0];
  if (at->kind != TN__EXPR_VAR) return;
  int i = 0;
  while (i < found->count && found->list[i].axis != at->value.var) i++;
  if (i == TN__MAX_RANK) return;
  if (i == found->count) found->list[found->count++] = (position){.axis = at->value.var, .modulus = modulus};
  found->mixed |= found->list[i].modulus != modulus;
  found->list[i].chosen |= chosen;
}

static void find_position(const tn__expr *e, void *user) {
  positions *found = user;
  if (e->kind == TN__EXPR_LOAD && e->value.buffer == found->first)
    for (int d = 0; d < e->arg_count; d++)
      if (found->first_chosen >> d & 1) note(found, e->args[d], false);
  if (e->kind != TN__EXPR_SELECT || !tn__dtype_is_float(e->dtype) || e->args[0]->kind != TN__EXPR_EQ) return;
  const tn__expr *a = e->args[0]->args[0], *b = e->args[0]->args[1];
  if (tn__ir_is_int(a) != tn__ir_is_int(b)) note(found, tn__ir_is_int(a) ? b : a, true);
}

/* The positions of a value, few enough of them to unroll; false when it is not chosen by any. */
TN_MUST_USE static bool find_positions(tn__ir *ir, const tn__expr *value, const tn__buffer *first,
                                       unsigned first_chosen, positions *out) {
  *out = (positions){.first = first, .first_chosen = first_chosen};
  bool any = false;
  tn__te_visit(ir, value, find_position, out);
  for (int i = 0; i < out->count; i++) {
    int64_t places = out->list[i].modulus;
    if (places == 0 && !tn__ir_as_int(out->list[i].axis->extent, &places)) return false;
    if (places < 2 || places > MAX_POSITIONS) return false;
    any |= out->list[i].chosen;
  }
  return any && !out->mixed;
}

static bool chooses(const tn__te *te, const tn__te_stage *stage) {
  positions found;
  return find_positions(tn__te_ir(te), stage->values[0], NULL, 0, &found);
}

static bool reads(const tn__te_stage *reader, const tn__te_stage *producer) {
  return tn__expr_uses_buffer(reader->values[0], producer->tensors[0]);
}

/* The two steps; false when there are not just two, one reading the other. */
TN_MUST_USE static bool find_steps(const tn__te *te, const tn__te_stage *steps[2]) {
  int count = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    if (stage->kind != TN__TE_COMPUTE) return false;
    if (!chooses(te, stage)) continue;
    if (count == 2) return false;
    steps[count++] = stage;
  }
  return count == 2 && reads(steps[1], steps[0]);
}

static bool matches(const tn__te *te) {
  const tn__te_stage *steps[2];
  return tn__te_output_count(te) == 1 && find_steps(te, steps);
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static const char *part(tn__schedule *s, const char *loop, int index) {
  return tn__arena_printf(s->arena, "%s.%d", loop, index);
}

static const position *position_of(const positions *all, const tn__var *axis) {
  for (int i = 0; i < all->count; i++)
    if (all->list[i].axis == axis) return &all->list[i];
  return NULL;
}

static positions positions_of(const tn__schedule *s, const tn__snode *block, const tn__buffer *first,
                              unsigned first_chosen) {
  positions found;
  const tn__stmt *body = block->block.body;
  if (body->kind != TN__STMT_STORE || !find_positions(s->ir, body->as.store.value, first, first_chosen, &found))
    tn__sched_refuse(s, "transform: \"%s\" has no positions to unroll", block->name);
  return found;
}

/* The loops of one step, outermost first: tiles, `outside` (several vectors), positions, vectors, the positions to
 * choose by, one vector. `loops` are those of the block's axes. `tiles` and `partial` receive the `*count` loops
 * over tiles. */
static void arrange(tn__schedule *s, const tn__snode *block, const positions *found, const char *const *loops,
                    int64_t lanes, int64_t vectors, bool outside, const char **tiles, bool *partial, int *count) {
  const char *order[TN__MAX_LOOPS], *plain[TN__MAX_RANK], *chosen[TN__MAX_RANK];
  int last = block->block.axis_count - 1, tile_count = 0, plain_count = 0, chosen_count = 0, n = 0;
  for (int a = 0; a < last; a++) {
    const position *p = position_of(found, block->block.axes[a].var);
    const char *within = loops[a];
    if (p == NULL || p->modulus > 0) {
      int64_t extent = tn__rule_loop_extent(s, loops[a]);
      partial[tile_count] = p != NULL && (extent < 0 || extent % p->modulus != 0);
      if (p != NULL) tn__sched_split(s, loops[a], (const int64_t[]){0, p->modulus}, 2);
      tiles[tile_count++] = p == NULL ? loops[a] : part(s, loops[a], 0);
      if (p == NULL) continue;
      within = part(s, loops[a], 1);
    }
    if (p->chosen)
      chosen[chosen_count++] = within;
    else
      plain[plain_count++] = within;
  }
  const char *vector = loops[last];
  if (outside)
    tn__sched_split(s, vector, (const int64_t[]){0, vectors, lanes}, 3);
  else
    tn__sched_split(s, vector, (const int64_t[]){vectors, lanes}, 2);
  for (int i = 0; i < tile_count; i++) order[n++] = tiles[i];
  if (outside) order[n++] = part(s, vector, 0);
  for (int i = 0; i < plain_count; i++) order[n++] = plain[i];
  order[n++] = part(s, vector, outside);
  for (int i = 0; i < chosen_count; i++) order[n++] = chosen[i];
  order[n++] = part(s, vector, 1 + outside);
  tn__sched_reorder(s, order, n);
  for (int i = 0; i < chosen_count; i++) tn__sched_unroll(s, chosen[i]);
  tn__sched_vectorize(s, order[n - 1]);
  *count = tile_count;
}

/* Of the loops over tiles, outermost first, as many as it takes to occupy the threads. Those whose last tile is partial
 * stay by themselves, so that it can be cut off. */
static void share_out(tn__schedule *s, const char *const *tiles, const bool *partial, int count, int threads) {
  int first = 0;
  while (first < count - 1 && tn__rule_loop_extent(s, tiles[first]) == 1) first++;
  const char *outermost = tiles[first];
  for (int i = first + 1; i < count && !partial[i - 1] && !partial[i]; i++) {
    int64_t extent = tn__rule_loop_extent(s, outermost);
    if (extent < 0 || extent >= 4 * threads) break;
    tn__sched_fuse(s, outermost, tiles[i]);
    outermost = tn__arena_printf(s->arena, "%s+%s", outermost, tiles[i]);
  }
  tn__sched_parallel(s, outermost);
}

static void place_others(const tn__sketch *k, tn__schedule *s, const tn__te_stage *const steps[2]) {
  const tn__buffer *output = tn__te_output_at(s->te, 0);
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (stage->tensors[0] == output || stage == steps[0]) continue;
    if (stage != steps[1] && (reads(steps[0], stage) || reads(steps[1], stage)))
      tn__rule_nest(s, stage->name, &k->options);
    else
      tn__sched_inline(s, stage->name);
  }
}

static void apply(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  const tn__te_stage *steps[2];
  const tn__buffer *output = tn__te_output_at(s->te, 0);
  const char *loops[TN__MAX_LOOPS], *tiles[TN__MAX_RANK], *ignored[TN__MAX_RANK];
  bool partial[TN__MAX_RANK];
  (void)values;
  if (!find_steps(s->te, steps)) tn__sched_refuse(s, "transform: it has not two steps");
  place_others(k, s, steps);
  const char *name = tn__te_stage_of(s->te, output)->name;
  const tn__snode *first = tn__sched_block(s, "transform", steps[0]->name),
                  *second = tn__sched_block(s, "transform", name);
  const positions own = positions_of(s, first, NULL, 0);
  unsigned chosen = 0;
  for (int a = 0; a < first->block.axis_count; a++)
    chosen |= (unsigned)(position_of(&own, first->block.axes[a].var) != NULL) << a;
  const positions found = positions_of(s, second, steps[0]->tensors[0], chosen);
  int count = tn__sched_loops_of(s, name, loops, TN__MAX_LOOPS), last = second->block.axis_count - 1;
  if (last < 1 || count != last + 1 || position_of(&found, second->block.axes[last].var) != NULL)
    tn__sched_refuse(s, "transform: \"%s\" has no vectors beside its positions", name);
  int64_t lanes = k->options.vector_bytes / (int64_t)tn_dtype_size(output->dtype);
  int64_t width = tn__rule_loop_extent(s, loops[last]), vectors = width < 0 ? 1 : MAX_VECTORS;
  while (width >= 0 && lanes > width) lanes /= 2;
  while (vectors > 1 && width % (vectors * lanes) != 0) vectors--;
  if (lanes < 2) tn__sched_refuse(s, "transform: \"%s\" has no vectors", name);
  int tile_count;
  arrange(s, second, &found, loops, lanes, vectors, true, tiles, partial, &tile_count);
  tn__sched_compute_at(s, steps[0]->name, part(s, loops[last], 0));
  tn__sched_set_scope(s, steps[0]->name, 0, TN__SCOPE_STACK);
  count = tn__sched_loops_of(s, steps[0]->name, loops, TN__MAX_LOOPS);
  bool unused[TN__MAX_RANK];
  const char *const *axes = loops + count - first->block.axis_count;
  int unused_count;
  arrange(s, first, &own, axes, lanes, vectors, false, ignored, unused, &unused_count);
  if (tn__rule_shares(s, &k->options)) share_out(s, tiles, partial, tile_count, k->options.threads);
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

/* What an element of each step takes: the places that it is chosen by share the terms of all its expressions. */
typedef struct cost {
  tn__nest nest; /* of the second step */
  double points[2], operations[2], loads[2];
  int element;
  bool large;
} cost;

static void count_load(const tn__expr *e, void *user) {
  double *loads = user;
  *loads += e->kind == TN__EXPR_LOAD;
}

/* Nothing is open: the positions are all unrolled, and how many vectors there are in a row follows from the width. */
static void open_transform(tn__sketch *k, tn__schedule *scratch) {
  const tn__te_stage *steps[2];
  positions found;
  cost *c = TN__NEW(scratch->arena, cost);
  if (!find_steps(k->te, steps)) tn__sched_refuse(scratch, "transform: it has not two steps");
  for (int i = 0; i < 2; i++) {
    const tn__expr *value = steps[i]->values[0];
    int64_t extent;
    double places = 1;
    c->points[i] = 1;
    for (int a = 0; a < steps[i]->axes.count; a++)
      c->points[i] *= tn__ir_extent_estimate(steps[i]->axes.var[a]->extent);
    if (!find_positions(scratch->ir, value, NULL, 0, &found))
      tn__sched_refuse(scratch, "transform: a step chooses nothing");
    for (int p = 0; p < found.count; p++)
      if (found.list[p].modulus > 0)
        places *= (double)found.list[p].modulus;
      else if (tn__ir_as_int(found.list[p].axis->extent, &extent))
        places *= (double)extent;
    c->operations[i] = (double)tn__rule_cost(scratch->ir, value) / places;
    tn__te_visit(scratch->ir, value, count_load, &c->loads[i]);
    c->loads[i] /= places;
  }
  tn__nest_of_block(scratch, steps[1]->name, &c->nest);
  c->element = (int)tn_dtype_size(steps[1]->tensors[0]->dtype);
  c->large = tn__rule_is_large(k->te);
  k->data = c;
}

static const tn__nest *features(const tn__sketch *k, const int64_t *values, tn__sketch_features *f) {
  const cost *c = k->data;
  double lanes = (double)k->options.vector_bytes / c->element;
  (void)values;
  f->chunks = c->large ? 4 * k->options.threads : 1;
  for (int a = 0; a < c->nest.axis_count; a++) f->loops[f->loop_count++] = (tn__nest_loop){a, c->nest.extent[a], 1};
  for (int i = 0; i < 2; i++) {
    tn__operations ops = {.vector_bytes = k->options.vector_bytes, .fma = c->operations[i]};
    ops.loads = c->loads[i];
    ops.stores = 1;
    tn__cost_phase(f, k->target, &ops, c->points[i] / lanes);
  }
  f->useful = f->spent = c->points[1];
  return &c->nest;
}

const tn__rule tn__rule_transform = {"tile transform", matches, open_transform, features, apply};
