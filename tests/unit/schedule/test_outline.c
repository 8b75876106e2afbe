/* Outlines: after any moves an outline is what the schedule is after the same steps, and the cost of a point is that of
 * the schedule that it becomes. */
#include "schedule/rules/structure.h"

#include <math.h>

#include "schedule/rules/reduce.h"
#include "te/text.h"
#include "unit/schedule_check.h"
#include "unit/schedule_recipes.h"

/* ---- declarations ------------------------------------------------------------------------------------------------ */

/* A reduction of one or two tensors whose axes stand in any order, with or without a map behind it. */
static tn__te *make_odd(tn__ir *ir, dice *d) {
  tn__te *te = tn__te_create(ir, "odd");
  int rank = 2 + roll(d, 3), kept = 1 + roll(d, rank - 1), order[2][4], combiner = roll(d, 4);
  const tn__expr *extents[4], *shape[4], *index[4], *term = NULL;
  for (int x = 0; x < rank; x++) extents[x] = tn__ir_index(ir, roll(d, 3) == 0 ? 1 + roll(d, 40) : 1 + roll(d, 9));
  if (roll(d, 3) == 0) extents[roll(d, rank)] = tn__te_dim(te, "n", 0)->self; /* known when it runs */
  tn__te_axes results = tn__te_axes_create(te, "i", kept, extents);
  tn__te_axes reduced = tn__te_axes_create(te, "k", rank - kept, extents + kept);
  for (int t = 0; t < 1 + roll(d, 2); t++) {
    for (int x = 0; x < rank; x++) { /* any permutation */
      int at = roll(d, x + 1);
      order[t][x] = order[t][at];
      order[t][at] = x;
    }
    for (int x = 0; x < rank; x++) {
      int axis = order[t][x];
      shape[x] = extents[axis];
      index[x] = axis < kept ? results.index[axis] : reduced.index[axis - kept];
    }
    const tn__buffer *tensor = tn__te_input(te, t == 0 ? "A" : "B", TN_F32, rank, shape);
    const tn__expr *load = tn__ir_load(ir, tensor, index);
    term = term == NULL ? load : tn__ir_sub(ir, term, load);
  }
  if (combiner == 3) {
    const tn__te_combiner *c = tn__te_arg_combiner(te, TN_F32, TN_I64, true, false);
    const tn__buffer *out[2];
    tn__te_reduce_with(te, "best", &results, &reduced, c, (const tn__expr *[]){term, reduced.index[0]}, out);
    tn__te_output(te, out[0]);
    tn__te_output(te, out[1]);
    return te;
  }
  static const tn__te_reducer reducers[] = {TN__TE_SUM, TN__TE_MAX, TN__TE_MIN};
  const tn__buffer *out = tn__te_reduce(te, "S", &results, &reduced, reducers[combiner], term);
  if (roll(d, 3) == 0) {
    tn__te_axes y = tn__te_axes_create(te, "o", kept, extents);
    out = tn__te_compute(te, "Y", &y, tn__ir_mul(ir, tn__ir_load(ir, out, y.index), tn__ir_constant(ir, TN_F32, 2)));
  }
  tn__te_output(te, out);
  return te;
}

typedef struct drawn_chain {
  tn__ir *ir;
  dice *d;
  tn__te *te;
  int rank, reduced; /* axes, and the one that reductions are over */
  const tn__expr *extents[3];
} drawn_chain;

/* What some tensor has at the position: all of it, or without the reduced axis. */
static const tn__expr *read_chain(const drawn_chain *c, const tn__buffer *tensor, const tn__expr *const *at) {
  const tn__expr *index[3];
  int n = 0;
  for (int x = 0; x < c->rank; x++)
    if (tensor->rank == c->rank || x != c->reduced) index[n++] = at[x];
  return tn__ir_load(c->ir, tensor, index);
}

/* A reduction over one axis of what two tensors have, or a map of it. */
static const tn__buffer *add_to_chain(drawn_chain *c, int number, bool reduces, const tn__buffer *a,
                                      const tn__buffer *b) {
  static const tn__te_reducer reducers[] = {TN__TE_SUM, TN__TE_MAX};
  const char *name = tn__arena_printf(tn__ir_arena(c->ir), "s%d", number);
  const tn__expr *kept[3], *at[3];
  int n = 0;
  for (int x = 0; x < c->rank; x++)
    if (!reduces || x != c->reduced) kept[n++] = c->extents[x];
  tn__te_axes own = tn__te_axes_create(c->te, "i", n, kept), over = {0};
  if (reduces) over = tn__te_axes_create(c->te, "k", 1, &c->extents[c->reduced]);
  n = 0;
  for (int x = 0; x < c->rank; x++) at[x] = reduces && x == c->reduced ? over.index[0] : own.index[n++];
  const tn__expr *left = read_chain(c, a, at);
  const tn__expr *right = read_chain(c, b, at);
  const tn__expr *value = number == 1 ? tn__ir_mul(c->ir, left, right) : tn__ir_sub(c->ir, left, right);
  if (roll(c->d, 3) == 0) { /* work that is better done once, and whose value is exact */
    const tn__expr *work = tn__ir_call1(c->ir, TN__CALL_TANH, value);
    value = tn__ir_add(c->ir, value, tn__ir_mul(c->ir, work, tn__ir_constant(c->ir, TN_F32, 0)));
  }
  if (!reduces) return tn__te_compute(c->te, name, &own, value);
  return tn__te_reduce(c->te, name, &own, &over, reducers[roll(c->d, 2)], value);
}

/* Stages that read each other at their own positions, of which some reduce an axis: normalisations along any axis,
 * moments, and what nobody has a name for. */
static tn__te *make_chain(tn__ir *ir, dice *d) {
  drawn_chain c = {.ir = ir, .d = d, .te = tn__te_create(ir, "chain"), .rank = 2 + roll(d, 2)};
  const tn__buffer *made[5];
  int count = 2 + roll(d, 3);
  bool any = false;
  c.reduced = roll(d, c.rank);
  for (int x = 0; x < c.rank; x++) c.extents[x] = tn__ir_index(ir, 4 + roll(d, 30));
  made[0] = tn__te_input(c.te, "X", TN_F32, c.rank, c.extents);
  for (int i = 1; i <= count; i++) {
    bool reduces = roll(d, 2) == 0 || (i == count && !any), whole = false;
    const tn__buffer *a = made[i - 1], *b = made[roll(d, i)];
    whole = a->rank == c.rank || b->rank == c.rank;
    if (!whole) b = made[0];
    any |= reduces;
    made[i] = add_to_chain(&c, i, reduces, a, b);
  }
  tn__te_output(c.te, made[count]);
  return c.te;
}

static tn__te *draw_declaration(tn__ir *ir, dice *d) {
  if (roll(d, 2) == 0) return make_odd(ir, d);
  recipe r = draw_recipe(d);
  return make_recipe(ir, &r);
}

/* ---- the same views ---------------------------------------------------------------------------------------------- */

static void print_views(const tn__outline_views *views) {
  static const char *const roles[] = {"reduce", "combine", "init", "copy"}, *const kinds = "sPVU";
  for (int b = 0; b < views->count; b++) {
    const tn__outline_view *v = &views->view[b];
    print_message("  %s%s, %d shared:", roles[v->role], v->near ? ", near" : "", v->shared);
    for (int l = 0; l < v->loop_count; l++)
      print_message(" %c%lld%s", kinds[v->loops[l].kind], (long long)v->loops[l].extent,
                    v->loops[l].reduces ? "r" : "");
    print_message("; %d accesses\n", v->access_count);
    for (int a = 0; a < v->access_count; a++) {
      print_message("    %s", v->access[a].store ? "store" : "load");
      for (int l = 0; l < v->loop_count; l++) print_message(" %lld", (long long)v->access[a].stride[l]);
      print_message("\n");
    }
  }
}

static bool same_views(const tn__outline_views *own, const tn__outline_views *read) {
  bool same = own->count == read->count;
  for (int b = 0; b < own->count && same; b++) {
    const tn__outline_view *a = &own->view[b], *c = &read->view[b];
    same = a->role == c->role && a->near == c->near && a->loop_count == c->loop_count && a->shared == c->shared &&
           a->with_last == c->with_last && a->access_count == c->access_count && a->results == c->results;
    for (int l = 0; l < a->loop_count && same; l++)
      same = a->loops[l].kind == c->loops[l].kind && a->loops[l].extent == c->loops[l].extent &&
             a->loops[l].reduces == c->loops[l].reduces;
    for (int i = 0; i < a->access_count && same; i++) {
      same = a->access[i].element == c->access[i].element && a->access[i].store == c->access[i].store &&
             a->access[i].tensor == c->access[i].tensor;
      for (int l = 0; l < a->loop_count && !a->access[i].scattered && same; l++)
        same = a->loops[l].extent == 1 ||
               (a->access[i].stride[l] == c->access[i].stride[l] && a->access[i].panel[l] == c->access[i].panel[l] &&
                a->access[i].far[l] == c->access[i].far[l]);
    }
  }
  return same;
}

static void check_views(const tn__schedule *s, const tn__outline_views *own, const tn__outline_views *read) {
  if (same_views(own, read)) return;
  print_message("the outline:\n");
  print_views(own);
  print_message("the schedule:\n");
  print_views(read);
  fail_msg("%s%s", schedule_text(s, false), schedule_text(s, true));
}

typedef struct counts {
  int fits, points, moves, refused, beaten, alone;
} counts;

typedef struct drawing {
  uint64_t seed;
  counts *counts;
  bool chain; /* several stages */
} drawing;

/* ---- points of the rule ------------------------------------------------------------------------------------------ */

/* The search chooses the same each time, weighs no more than it may, and finds what a random point does not beat, for
 * one thread: more of them take the order of terms that one likes best. */
static void check_search(const tn__sketch *k, double random_cost, counts *all) {
  int64_t chosen[TN__MAX_DECISIONS], again[TN__MAX_DECISIONS];
  tn__cost cost;
  int64_t weighed = tn__sketch_choose_counting(k, chosen, &cost);
  tn__sketch_choose(k, again, NULL);
  assert_memory_equal(chosen, again, (size_t)k->decision_count * sizeof chosen[0]);
  assert_true(weighed <= (k->options.threads > 1 ? 4 : 1) * (int64_t)k->options.search_space);
  all->alone += k->options.threads == 1;
  all->beaten += k->options.threads == 1 && random_cost < cost.cycles * (1 - 1e-9);
}

static void check_point(tn__ir *ir, const void *arg) {
  const drawing *drawn = arg;
  dice d = {.state = drawn->seed};
  static const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"};
  tn__target target = test_target(names[roll(&d, 4)]);
  tn__schedule_options options = {.threads = 1 + roll(&d, 2)};
  const tn__te *te = drawn->chain ? make_chain(ir, &d) : draw_declaration(ir, &d);
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
  const tn__sketch *k =
      tn__sketch_named(unit.rules, unit.te, &target, &options, drawn->chain ? "chain" : "structure", NULL);
  if (k == NULL) return;
  drawn->counts->fits++;
  tn__outline *o = TN__NEW(tn__ir_arena(ir), tn__outline);
  tn__outline_views *own = TN__NEW(tn__ir_arena(ir), tn__outline_views),
                    *read = TN__NEW(tn__ir_arena(ir), tn__outline_views);
  int64_t values[TN__MAX_DECISIONS];
  double cost = INFINITY;
  uint64_t state = drawn->seed;
  for (int tries = 0; tries < 2000 && !isfinite(cost); tries++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    tn__sketch_at(k, (int64_t)((state >> 16) % (uint64_t)tn__sketch_points(k)), values);
    cost = tn__sketch_cost(k, values, NULL);
  }
  if (!isfinite(cost)) return;
  drawn->counts->points++;
  check_search(k, cost, drawn->counts);
  assert_true(drawn->chain ? tn__rule_chain_outline_of(k, values, o) : tn__rule_outline_of(k, values, o));
  assert_true(tn__outline_views_of(o, own));
  tn__schedule *s = tn__sketch_apply(k, values);
  assert_true(tn__outline_read(s, o->facts[0]->price, read));
  check_views(s, own, read);
  double read_cost = tn__sketch_weigh(k, k, values, NULL);
  if (fabs(read_cost - cost) > 0.02 * cost) fail_msg("%g cycles by the outline, %g by the schedule", cost, read_cost);
  check_same(s);
}

static void points_are_what_they_become(void **state) {
  counts all = {0};
  for (uint64_t seed = 0; seed < 1000; seed++) {
    drawing d = {seed, &all, false};
    tn_status *status = in_context(check_point, &d);
    if (status != NULL) fail_msg("seed %d: %s", (int)seed, tn_status_message(status));
  }
  print_message("%d declarations are one reduction, %d points\n", all.fits, all.points);
  print_message("%d times of %d a random point was better than what was chosen\n", all.beaten, all.alone);
  assert_true(all.points > 150 && all.alone > 75 && 50 * all.beaten <= all.alone);
}

static void points_of_several_stages_are_what_they_become(void **state) {
  counts all = {0};
  for (uint64_t seed = 0; seed < 900; seed++) {
    drawing d = {seed, &all, true};
    tn_status *status = in_context(check_point, &d);
    if (status != NULL) fail_msg("seed %d: %s", (int)seed, tn_status_message(status));
  }
  print_message("%d declarations are of several stages, %d points\n", all.fits, all.points);
  print_message("%d times of %d a random point was better than what was chosen\n", all.beaten, all.alone);
  assert_true(all.points > 200 && all.alone > 100 && 50 * all.beaten <= all.alone);
}

/* ---- one decision after the other -------------------------------------------------------------------------------- */

/* Points of which each differs from the one before in one decision cost what they cost alone. */
static void check_steps(tn__ir *ir, const void *arg) {
  enum { STEPS = 60 };
  const drawing *drawn = arg;
  dice d = {.state = drawn->seed};
  tn__target target = test_target("x86-64-v4");
  const tn__schedule_options options = {.threads = 1};
  const tn__te *te = make_chain(ir, &d);
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
  const tn__sketch *k = tn__sketch_named(unit.rules, unit.te, &target, &options, "chain", NULL);
  if (k == NULL) return;
  tn__outline *o = TN__NEW(tn__ir_arena(ir), tn__outline);
  tn__outline_work_room *room = TN__NEW(tn__ir_arena(ir), tn__outline_work_room),
                        *fresh = TN__NEW(tn__ir_arena(ir), tn__outline_work_room);
  int64_t values[TN__MAX_DECISIONS];
  memset(room, 0, sizeof *room);
  tn__sketch_at(k, 0, values);
  for (int i = 0; i < STEPS; i++) {
    int at = roll(&d, k->decision_count);
    int64_t before = values[at];
    values[at] = k->decisions[at].choices[roll(&d, k->decisions[at].count)];
    if (!tn__rule_chain_outline_of(k, values, o) || !tn__outline_views_of(o, &room->views)) {
      values[at] = before;
      continue;
    }
    memset(fresh, 0, sizeof *fresh);
    fresh->views = room->views;
    tn__cost cost, alone;
    double cycles = tn__outline_weigh(room, &target, &k->options, &cost);
    assert_true(cycles == tn__outline_weigh(fresh, &target, &k->options, &alone));
    assert_memory_equal(cost.bytes, alone.bytes, sizeof cost.bytes);
    assert_int_equal(cost.registers, alone.registers);
    assert_int_equal(cost.bound, alone.bound);
  }
  drawn->counts->points += (int)room->weighed;
  drawn->counts->moves += (int)room->found;
}

static void steps_cost_what_points_cost(void **state) {
  counts all = {0};
  for (uint64_t seed = 0; seed < 200; seed++) {
    drawing d = {seed, &all, true};
    tn_status *status = in_context(check_steps, &d);
    if (status != NULL) fail_msg("seed %d: %s", (int)seed, tn_status_message(status));
  }
  print_message("%d of %d blocks were known\n", all.moves, all.points);
  assert_true(all.points > 5000 && 3 * all.moves > all.points);
}

/* ---- any moves --------------------------------------------------------------------------------------------------- */

typedef struct try {
  tn__outline *o;
  dice *dice;
}
try;

static int some_node(const tn__outline *o, dice *d, bool block) {
  for (int tries = 0; tries < 50; tries++) {
    int n = 1 + roll(d, o->count - 1);
    if (o->node[n].is_block == block && o->node[n].parent >= 0) return n;
  }
  return -1;
}

static bool is_fused(const tn__outline *o, int loop) {
  return o->node[loop].fused || o->node[o->node[loop].parent].fused;
}

/* A loop and the only other one in it. */
static void fuse_somehow(tn__outline *o, int loop) {
  int inner = o->node[loop].first;
  bool apart = o->node[inner].axis != o->node[loop].axis && o->node[loop].extent > 1 && o->node[inner].extent > 1;
  bool known = o->node[inner].axis >= 0 && !o->facts[0]->reduce.nest.open[o->node[inner].axis];
  if (!o->node[inner].is_block && o->node[inner].next < 0 && apart && known && !is_fused(o, inner))
    tn__outline_fuse(o, loop, inner);
}

static void move_somehow(tn__escape *escape, void *arg) {
  const try *t = arg;
  tn__outline *o = t->o;
  dice *d = t->dice;
  int parts[3], path[TN__OUTLINE_NODES], loop = some_node(o, d, false), block = some_node(o, d, true);
  o->s->arena->escape = escape;
  if (loop < 0 || block < 0) return;
  int count = tn__outline_path(o, block, path);
  bool fused = is_fused(o, loop);
  for (int i = 0; i < count; i++) fused |= is_fused(o, path[i]);
  int move = roll(d, 9);
  if (fused && move != 3 && move != 4) return; /* such loops stay as they are */
  switch (move) {
    case 0: tn__outline_split(o, loop, (int64_t[]){0, 1 + roll(d, 5)}, 2, parts); break;
    case 1: tn__outline_split(o, loop, (int64_t[]){0, 1 + roll(d, 3), 1 + roll(d, 4)}, 3, parts); break;
    case 2:
      for (int i = 0; i < count; i++) {
        int at = roll(d, i + 1), swapped = path[at];
        path[at] = path[i];
        path[i] = swapped;
      }
      if (count > 1) tn__outline_reorder(o, path, 1 + roll(d, count));
      break;
    case 3: {
      static const tn__loop_kind kinds[] = {TN__LOOP_PARALLEL, TN__LOOP_VECTORIZED, TN__LOOP_UNROLLED};
      tn__outline_kind(o, loop, kinds[roll(d, 3)]);
      break;
    }
    case 4:
      if (block == o->last[0] && !o->node[block].near && o->facts[0]->epilogue == NULL)
        tn__outline_cache_write(o, block, 0);
      break;
    case 5:
      if (o->node[block].role == TN__OUTLINE_COPY) tn__outline_reverse_compute_at(o, block, loop);
      break;
    case 7: fuse_somehow(o, loop); break;
    case 6:
      if (o->node[block].role == TN__OUTLINE_REDUCE && count > 0) tn__outline_decompose(o, block, path[roll(d, count)]);
      break;
    default:
      if (o->node[block].role != TN__OUTLINE_COPY && o->node[block].role != TN__OUTLINE_INIT && count > 0)
        tn__outline_rfactor(o, block, path[roll(d, count)]);
  }
}

static void check_moves(tn__ir *ir, const void *arg) {
  enum { MOVES = 8 };
  const drawing *drawn = arg;
  dice d = {.state = drawn->seed};
  tn__target target = test_target("x86-64-v4");
  const tn__te *te = draw_declaration(ir, &d);
  const tn__outline_facts *facts = tn__rule_outline_facts(tn__schedule_of(te, &target));
  if (facts == NULL || facts->results > 1) return;
  drawn->counts->fits++;
  tn__schedule *s = tn__schedule_of(te, &target);
  tn__rule_outline_facts(s); /* which dissolves maps */
  s = tn__schedule_of(te, &target);
  tn__reduce_dissolve_maps(s);
  tn__outline *o = TN__NEW(tn__ir_arena(ir), tn__outline);
  tn__outline_views *own = TN__NEW(tn__ir_arena(ir), tn__outline_views),
                    *read = TN__NEW(tn__ir_arena(ir), tn__outline_views);
  tn__outline_start(o, facts, s);
  for (int i = 0; i < MOVES; i++) {
    try t = {o, &d};
    tn__escape escape, *outer = s->arena->escape;
    tn_status *status = tn__protect(&escape, move_somehow, &t);
    s->arena->escape = outer;
    drawn->counts->moves++;
    if (status != NULL && tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
    drawn->counts->refused += status != NULL;
    tn_status_free(status);
    assert_true(tn__outline_read(s, facts->price, read));
    assert_true(tn__outline_views_of(o, own));
    check_views(s, own, read);
  }
}

static void moves_are_primitives(void **state) {
  counts all = {0};
  for (uint64_t seed = 0; seed < 1500; seed++) {
    drawing d = {seed * 7919 + 11, &all, false};
    tn_status *status = in_context(check_moves, &d);
    if (status != NULL) fail_msg("seed %d: %s", (int)seed, tn_status_message(status));
  }
  print_message("%d outlines, %d moves, %d refused\n", all.fits, all.moves, all.refused);
  assert_true(all.moves - all.refused > 2000);
}

/* ---- what other rules do ----------------------------------------------------------------------------------------- */

/* Weights of half a byte: a tile whose results are turned on their way is weighed, and what lies at k / 2 is read along
 * the reduction instead. */
static void check_half_bytes(tn__ir *ir, const void *arg) {
  static const char text[] =
      "kernel half_bytes(X: f32[7, 128], Q: u8[61, 64], s: f32[61, 4]) -> Y: f32[7, 61] {\n"
      "  Y[t, o] = sum(k: 128) X[t, k] * (f32(select(k % 2 == 0, Q[o, k / 2] & 15u8, Q[o, k / 2] >> 4u8)) - 8)"
      " * s[o, k / 32]\n}\n";
  tn__arena *arena = tn__ir_arena(ir);
  tn__target target = test_target("x86-64-v4");
  tn__te_source *source;
  tn__te *te;
  tn__check(arena->escape, tn__te_parse(arena, "half_bytes.te", text, strlen(text), &source));
  tn__check(arena->escape, tn__te_declare(source, 0, NULL, 0, ir, &te));
  const tn__schedule_options options = {.threads = 1};
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
  const tn__sketch *own = tn__sketch_named(unit.rules, te, &target, &options, "structure", NULL),
                   *other = tn__sketch_named(unit.rules, te, &target, &options, "contraction", NULL);
  int64_t values[TN__MAX_DECISIONS];
  assert_true(own != NULL && other != NULL && !other->firm);
  tn__sketch_choose(other, values, NULL);
  double turned = tn__sketch_weigh(own, other, values, NULL);
  assert_true(isfinite(turned));
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  assert_string_equal(plan->rule, "structure");
  assert_true(plan->cost.cycles < turned);
  check_same(plan->schedule);
}

/* A window's terms are weighed by what neighbouring windows share; a product's more closely than outlines do. */
static void check_firm(tn__ir *ir, const void *arg) {
  static const char *const texts[] = {
      "kernel window(I: f32[61, 77], F: f32[11, 11]) -> O: f32[51, 67] {\n"
      "  O[y, x] = sum(r: 11, q: 11) I[y + r, x + q] * F[r, q]\n}\n",
      "kernel product(A: f32[61, 77], B: f32[77, 53]) -> C: f32[61, 53] { C[i, j] = sum(k) A[i, k] * B[k, j] }\n"};
  tn__arena *arena = tn__ir_arena(ir);
  tn__target target = test_target("x86-64-v4");
  const tn__schedule_options options = {.threads = 1};
  for (int i = 0; i < 2; i++) {
    tn__te_source *source;
    tn__te *te;
    tn__check(arena->escape, tn__te_parse(arena, "text.te", texts[i], strlen(texts[i]), &source));
    tn__check(arena->escape, tn__te_declare(source, 0, NULL, 0, tn__ir_create(arena), &te));
    const tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
    const tn__sketch *k = tn__sketch_first(unit.rules, te, &target, &options, NULL);
    assert_string_equal(tn__sketch_name(k), "contraction");
    assert_int_equal(k->firm, i == 1);
    assert_int_equal(tn__sketch_competing(k) != NULL, i == 0);
  }
}

/* Sums of pairs, which a map behind the reduction weaves or puts in another order. */
static void check_behind(tn__ir *ir, const void *arg) {
  static const char *const places[] = {"C[j, q]", "C[q, j]"};
  int *found = *(int *const *)arg;
  tn__arena *arena = tn__ir_arena(ir);
  for (int i = 0; i < 40; i++) {
    const int columns = 16 + 7 * i, terms = 70 + 3 * i;
    const bool woven = i % 4 < 2;
    char text[512];
    snprintf(text, sizeof text,
             "kernel weave(A: f32[%d, %d, 2], B: f32[%d, %d, 2]) -> C: f32[%d, %d] {\n"
             "  %s = sum(i) select(q == 0, A[i, j, 0] * B[i, j, 0] + A[i, j, 1] * B[i, j, 1],\n"
             "    A[i, j, 0] * B[i, j, 1] - A[i, j, 1] * B[i, j, 0])\n}\n",
             terms, columns, terms, columns, woven ? columns : 2, woven ? 2 : columns, places[!woven]);
    tn__target target = test_target(i % 2 ? "x86-64-v4" : "x86-64-v3");
    tn__te_source *source;
    tn__te *te;
    tn__check(arena->escape, tn__te_parse(arena, "weave.te", text, strlen(text), &source));
    tn__check(arena->escape, tn__te_declare(source, 0, NULL, 0, tn__ir_create(arena), &te));
    const tn__schedule_options options = {.threads = 1 + i % 3};
    const tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
    const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
    *found += strcmp(plan->rule, "structure") == 0;
    check_same(plan->schedule);
  }
}

static void maps_behind_come_after(void **state) {
  int found = 0, *arg = &found;
  tn_status *status = in_context(check_behind, &arg);
  if (status != NULL) fail_msg("%s", tn_status_message(status));
  print_message("%d of 40 sums of pairs are scheduled from their structure\n", found);
  assert_true(found > 20);
}

static void products_do_not_yield(void **state) {
  tn_status *status = in_context(check_firm, NULL);
  if (status != NULL) fail_msg("%s", tn_status_message(status));
}

static void tiles_that_are_turned_are_weighed(void **state) {
  tn_status *status = in_context(check_half_bytes, NULL);
  if (status != NULL) fail_msg("%s", tn_status_message(status));
}

/* ---- more than there is room for --------------------------------------------------------------------------------- */

static tn__te *make_sum(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "sum");
  const tn__expr *extents[] = {tn__ir_index(ir, 64), tn__ir_index(ir, 1024)};
  tn__te_axes x = tn__te_axes_create(te, "i", 1, extents), k = tn__te_axes_create(te, "k", 1, extents + 1);
  const tn__buffer *a = tn__te_input(te, "A", TN_F32, 2, extents);
  const tn__expr *term = tn__ir_load(ir, a, (const tn__expr *[]){x.index[0], k.index[0]});
  tn__te_output(te, tn__te_reduce(te, "S", &x, &k, TN__TE_SUM, term));
  return te;
}

static void check_full(tn__ir *ir, const void *arg) {
  const bool *beside = arg; /* a schedule */
  tn__target target = test_target("x86-64-v3");
  const tn__te *te = make_sum(ir);
  const tn__outline_facts *facts = tn__rule_outline_facts(tn__schedule_of(te, &target));
  tn__outline *o = TN__NEW(tn__ir_arena(ir), tn__outline);
  tn__outline_views *views = TN__NEW(tn__ir_arena(ir), tn__outline_views);
  int parts[2], path[TN__OUTLINE_NODES];
  tn__outline_start(o, facts, *beside ? tn__schedule_of(te, &target) : NULL);
  int block = tn__outline_block(o, TN__OUTLINE_REDUCE), count = tn__outline_path(o, block, path);
  assert_true(tn__outline_views_of(o, views));
  for (int i = 0; i < 2 * TN__OUTLINE_NODES; i++) tn__outline_split(o, path[0], (int64_t[]){0, 1}, 2, parts);
  assert_true(o->full);
  assert_int_equal(o->count, TN__OUTLINE_NODES);
  assert_false(tn__outline_views_of(o, views));
  tn__outline_reorder(o, (const int[]){path[1], path[0]}, 2);
  tn__outline_kind(o, path[count - 1], TN__LOOP_UNROLLED);
  tn__outline_decompose(o, block, path[1]);
  tn__outline_rfactor(o, block, path[1]);
  assert_int_equal(tn__outline_cache_write(o, block, 0), -1);
  assert_int_equal(o->count, TN__OUTLINE_NODES);
}

static void full_outlines_are_none(void **state) {
  bool beside = false;
  tn_status *status = in_context(check_full, &beside);
  if (status != NULL) fail_msg("%s", tn_status_message(status));
  beside = true;
  status = in_context(check_full, &beside);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  assert_non_null(strstr(tn_status_message(status), "an outline has no room for more than 192 loops and blocks"));
  tn_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(points_are_what_they_become),
      cmocka_unit_test(points_of_several_stages_are_what_they_become),
      cmocka_unit_test(steps_cost_what_points_cost),
      cmocka_unit_test(moves_are_primitives),
      cmocka_unit_test(tiles_that_are_turned_are_weighed),
      cmocka_unit_test(maps_behind_come_after),
      cmocka_unit_test(products_do_not_yield),
      cmocka_unit_test(full_outlines_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
