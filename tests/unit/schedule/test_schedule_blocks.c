/* Reductions in blocks: products whose sum goes on from block to block, or whose blocks threads share. Whatever the
 * size of a block and the place of the loop over blocks, results are what the declaration says, and which blocks there
 * are does not depend on the number of threads. */
#include <math.h>

#include "ir/context.h"
#include "schedule/rules/choose.h"
#include "unit/schedule_check.h"

typedef struct blocked {
  tn_dtype dtype, sum;
  int64_t batch, rows, columns, depth; /* batch 0: none; 0: open */
  bool epilogue, turned;               /* turned: the left operand has its rows side by side */
} blocked;

static tn__te *blocked_product(tn__ir *ir, const blocked *b) {
  tn__te *te = tn__te_create(ir, "blocked");
  int batched = b->batch > 0;
  const tn__expr *m = b->rows > 0 ? tn__ir_index(ir, b->rows) : tn__te_dim(te, "M", 1)->self;
  const tn__expr *k = b->depth > 0 ? tn__ir_index(ir, b->depth) : tn__te_dim(te, "K", 1)->self;
  const tn__expr *n = tn__ir_index(ir, b->columns), *batch = tn__ir_index(ir, b->batch);
  const tn__expr *left[] = {batch, b->turned ? k : m, b->turned ? m : k}, *right[] = {batch, k, n},
                 *result[] = {batch, m, n};
  const tn__buffer *a = tn__te_input(te, "A", b->dtype, 2 + batched, left + !batched);
  const tn__buffer *w = tn__te_input(te, "B", b->dtype, 2 + batched, right + !batched);
  tn__te_axes x = tn__te_axes_create(te, "i", 2 + batched, result + !batched), r = tn__te_axes_create(te, "k", 1, &k);
  const tn__expr *row = x.index[batched];
  const tn__expr *of_a[] = {x.index[0], b->turned ? r.index[0] : row, b->turned ? row : r.index[0]};
  const tn__expr *of_b[] = {x.index[0], r.index[0], x.index[batched + 1]};
  const tn__expr *term = tn__ir_mul(ir, tn__ir_cast(ir, b->sum, tn__ir_load(ir, a, of_a + !batched)),
                                    tn__ir_cast(ir, b->sum, tn__ir_load(ir, w, of_b + !batched)));
  const tn__buffer *c = tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, term);
  if (!b->epilogue) {
    tn__te_output(te, c);
    return te;
  }
  tn__te_axes y = tn__te_axes_create(te, "o", 2 + batched, result + !batched);
  const tn__expr *value = tn__ir_max(ir, tn__ir_load(ir, c, y.index), tn__ir_constant(ir, b->sum, 0));
  tn__te_output(te, tn__te_compute(te, "D", &y, value));
  return te;
}

static int decision(const tn__sketch *k, const char *name) {
  for (int i = 0; i < k->decision_count; i++)
    if (strcmp(k->decisions[i].name, name) == 0) return i;
  fail_msg("no decision is called %s", name);
  return -1;
}

static void check_replay(const tn__schedule *s) {
  tn__schedule *again;
  tn__target target = test_target("x86-64-v4");
  check_ok(tn__sched_trace_replay(tn__schedule_te(s), &target, schedule_text(s, false), &again));
  assert_string_equal(schedule_text(s, true), schedule_text(again, true));
}

typedef struct tally {
  blocked b;
  int applied, shared, nested, copied;
} tally;

/* Every place of the loop over blocks, with and without threads that share it, and operands copied inside of it. */
static void try_blocks(tn__ir *ir, const void *arg) {
  tally *t = *(tally *const *)arg;
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 2, .search_space = 300};
  const tn__sketch *k = tn__rule_create_sketch(blocked_product(ir, &t->b), &target, &options);
  assert_string_equal(tn__sketch_name(k), "contraction");
  int depth = decision(k, "depth"), at = decision(k, "depth at"), shared = decision(k, "shared"),
      right = decision(k, "right"), rows = decision(k, "rows"), unroll = decision(k, "unroll");
  int64_t values[TN__MAX_DECISIONS];
  assert_true(k->decisions[depth].count > 1);
  tn__sketch_choose(k, values, NULL);
  values[unroll] = 1;
  for (int a = 0; a < k->decisions[at].count; a++)
    for (int s = 0; s < k->decisions[shared].count; s++)
      for (int c = 0; c < k->decisions[right].count; c++) {
        values[depth] = k->decisions[depth].choices[1];
        values[at] = k->decisions[at].choices[a];
        values[shared] = k->decisions[shared].choices[s];
        values[right] = k->decisions[right].choices[c];
        values[rows] = k->decisions[rows].choices[(a + s + c) % 3 < k->decisions[rows].count ? (a + s + c) % 3 : 0];
        if (!isfinite(tn__sketch_cost(k, values, NULL))) continue;
        const tn__schedule *schedule = tn__sketch_apply(k, values);
        check_same(schedule);
        check_replay(schedule);
        t->applied++;
        t->shared += values[shared] > values[at];
        t->nested += values[at] > 0;
        t->copied += c > 0;
      }
}

static void blocks_compute_the_same(void **state) {
  tally tallies[] = {
      {.b = {TN_F32, TN_F32, 0, 3, 19, 1024, true}}, {.b = {TN_F32, TN_F32, 0, 3, 16, 1031, false}},
      {.b = {TN_F64, TN_F64, 0, 2, 9, 1031, true}},  {.b = {TN_F16, TN_F32, 0, 2, 17, 1040, true}},
      {.b = {TN_BF16, TN_F32, 0, 3, 8, 1025, true}}, {.b = {TN_I8, TN_I32, 0, 2, 20, 1024, true}},
      {.b = {TN_U8, TN_I32, 0, 3, 5, 1100, false}},  {.b = {TN_I64, TN_I64, 0, 2, 8, 1031, true}},
      {.b = {TN_F32, TN_F32, 2, 2, 12, 1024, true}}, {.b = {TN_F32, TN_F32, 2, 3, 8, 1027, false}},
      {.b = {TN_F32, TN_F32, 0, 7, 48, 1024, true}}, {.b = {TN_BF16, TN_F32, 2, 5, 36, 1024, false}},
      {.b = {TN_F32, TN_F32, 0, 0, 17, 1024, true}}, {.b = {TN_F32, TN_F32, 0, 5, 18, 0, true}},
      {.b = {TN_F32, TN_F32, 0, 0, 16, 0, false}},
  };
  int shared = 0, nested = 0, copied = 0;
  for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++) {
    tally *t = &tallies[i];
    check_ok(in_context(try_blocks, &t));
    assert_true(tallies[i].applied > 0);
    shared += tallies[i].shared, nested += tallies[i].nested, copied += tallies[i].copied;
  }
  if (shared < 10 || nested < 20 || copied < 10) fail_msg("%d shared, %d nested, %d copied", shared, nested, copied);
}

/* The right operand in panels as wide as each tile, with and without blocks of the reduction. */
static void try_panels(tn__ir *ir, const void *arg) {
  tally *t = *(tally *const *)arg;
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 2, .search_space = 100};
  const tn__sketch *k = tn__rule_create_sketch(blocked_product(ir, &t->b), &target, &options);
  int panels = decision(k, "panels"), vectors = decision(k, "vectors"), depth = decision(k, "depth"),
      rows = decision(k, "rows"), unroll = decision(k, "unroll");
  int64_t values[TN__MAX_DECISIONS];
  tn__sketch_choose(k, values, NULL);
  values[decision(k, "right")] = values[decision(k, "ahead")] = 0;
  values[decision(k, "left")] = 0; /* with types that are widened, 1 is the same copy */
  values[rows] = k->decisions[rows].choices[1];
  values[unroll] = 1;
  for (int p = 0; p < k->decisions[panels].count; p++)
    for (int w = 0; w < k->decisions[vectors].count; w++)
      for (int d = 0; d < k->decisions[depth].count && d < 2; d++) {
        values[panels] = k->decisions[panels].choices[p];
        values[vectors] = k->decisions[vectors].choices[w];
        values[depth] = k->decisions[depth].choices[d];
        if (p == 0 || !isfinite(tn__sketch_cost(k, values, NULL))) continue;
        const tn__schedule *schedule = tn__sketch_apply(k, values);
        check_same(schedule);
        check_replay(schedule);
        assert_non_null(strstr(schedule_text(schedule, false), "transform_layout"));
        t->applied++;
      }
}

static void panels_compute_the_same(void **state) {
  tally tallies[] = {
      {.b = {TN_F32, TN_F32, 0, 5, 96, 130, true}},        {.b = {TN_F32, TN_F32, 3, 4, 64, 70, false}},
      {.b = {TN_F64, TN_F64, 2, 3, 48, 1031, true}},       {.b = {TN_I32, TN_I32, 0, 3, 41, 1024, true}},
      {.b = {TN_F32, TN_F32, 0, 7, 128, 1100, false}},     {.b = {TN_F32, TN_F32, 2, 7, 70, 20, true}},
      {.b = {TN_F32, TN_F32, 0, 7, 33, 1100, true, true}}, {.b = {TN_F64, TN_F64, 2, 5, 20, 30, false, true}},
      {.b = {TN_F16, TN_F32, 0, 4, 70, 1031, true}},       {.b = {TN_BF16, TN_F32, 2, 5, 33, 40, false, true}},
  };
  for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++) {
    tally *t = &tallies[i];
    check_ok(in_context(try_panels, &t));
    if (tallies[i].applied < 2) fail_msg("case %zu: %d", i, tallies[i].applied);
  }
}

/* ---- what is chosen ---------------------------------------------------------------------------------------------- */

typedef struct choice {
  blocked b;
  bool blocks, shares; /* expected: blocks at all; shared by threads */
} choice;

static void choose_blocks(tn__ir *ir, const void *arg) {
  const choice *c = arg;
  tn__target target = test_target("x86-64-v4");
  int64_t depth = -1;
  for (int threads = 1; threads <= 16; threads *= 2) {
    int64_t values[TN__MAX_DECISIONS];
    tn__schedule_options options = {.threads = threads};
    const tn__sketch *k = tn__rule_create_sketch(blocked_product(ir, &c->b), &target, &options);
    tn__sketch_choose(k, values, NULL);
    int64_t chosen = values[decision(k, "depth")];
    if (depth >= 0 && chosen != depth)
      fail_msg("blocks of %lld steps for %d threads, but of %lld for one", (long long)chosen, threads,
               (long long)depth);
    depth = chosen;
    if ((chosen > 0) != c->blocks)
      fail_msg("%lld x %lld x %lld in blocks of %lld", (long long)c->b.rows, (long long)c->b.depth,
               (long long)c->b.columns, (long long)chosen);
    bool shares = chosen > 0 && values[decision(k, "shared")] > values[decision(k, "depth at")];
    if (threads == 16 && shares != c->shares) fail_msg("shared: %d", shares);
    assert_true(threads > 1 || !shares);
  }
}

/* Rows that are 50 KB apart, but so few that their pages are all remembered: a panel is read where it lies, and the
 * next one fetched meanwhile. A copy takes 1.3 times as long. */
static void choose_in_place(tn__ir *ir, const void *arg) {
  (void)arg;
  const blocked few = {TN_F32, TN_F32, 0, 64, 12544, 147, false};
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__sketch *k = tn__rule_create_sketch(blocked_product(ir, &few), &target, &options);
  int64_t values[TN__MAX_DECISIONS];
  tn__sketch_choose(k, values, NULL);
  assert_int_equal(values[decision(k, "right")], 0);
  assert_int_equal(values[decision(k, "ahead")], 1);
}

/* Rows that are a round number of bytes apart find few sets of L2: those of a large operand go into panels, those of
 * one that is read a few times stay. */
static void choose_panels(tn__ir *ir, const void *arg) {
  (void)arg;
  static const struct {
    blocked b;
    int panels;
  } all[] = {{{TN_F32, TN_F32, 0, 2048, 2048, 2048, false}, 1},
             {{TN_F32, TN_F32, 0, 1100, 1100, 1100, false}, 1},
             {{TN_F32, TN_F32, 0, 1024, 1024, 1024, false, true}, 3},
             {{TN_F32, TN_F32, 0, 8, 1024, 1024, false}, 0},
             {{TN_F32, TN_F32, 0, 512, 64, 64, false}, 0}};
  tn__target target = test_target("sapphirerapids");
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    for (int threads = 1; threads <= 2; threads++) {
      tn__schedule_options options = {.threads = threads};
      const tn__sketch *k = tn__rule_create_sketch(blocked_product(ir, &all[i].b), &target, &options);
      int64_t values[TN__MAX_DECISIONS];
      tn__sketch_choose(k, values, NULL);
      if (values[decision(k, "panels")] != all[i].panels) fail_msg("case %zu on %d threads", i, threads);
    }
}

static void large_operands_go_into_panels(void **state) { check_ok(in_context(choose_panels, NULL)); }

static void few_rows_far_apart_stay_in_place(void **state) { check_ok(in_context(choose_in_place, NULL)); }

static void blocks_are_chosen_where_they_pay(void **state) {
  static const choice choices[] = {
      {{TN_F32, TN_F32, 0, 1024, 1024, 16384, false}, true, false}, /* rows of a panel in pages of their own */
      {{TN_F32, TN_F32, 0, 64, 64, 65536, true}, true, true},
      {{TN_F32, TN_F32, 0, 4, 16, 1000000, false}, true, true}, /* one tile */
      {{TN_F32, TN_F32, 0, 128, 3072, 768, true}, false, false},
      {{TN_F32, TN_F32, 12, 128, 128, 64, false}, false, false},
  };
  for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) check_ok(in_context(choose_blocks, &choices[i]));
}

/* ---- parts of plain reductions ----------------------------------------------------------------------------------- */

typedef enum shape { WHOLE, ACROSS, ROWS, PLANES, PLACES } shape;

typedef struct reduced {
  shape shape;
  tn_dtype dtype;
  int64_t results, terms;
  bool mean; /* a map behind it */
} reduced;

/* Of all elements; of columns; of rows; of the outer and inner axes of three; the place of the greatest of each row. */
static tn__te *reduction(tn__ir *ir, const reduced *d) {
  tn__te *te = tn__te_create(ir, "reduction");
  if (d->shape == PLACES) {
    const tn__buffer *out[2];
    top_of_rows(te, d->results, d->terms, out);
    tn__te_output(te, out[1]);
    return te;
  }
  const int64_t terms[] = {d->terms, 5}, extents[3][3] = {{d->terms}, {d->terms, d->results}, {d->results, d->terms}};
  const int64_t planes[] = {d->terms, d->results, 5};
  int rank = d->shape == WHOLE ? 1 : d->shape == PLANES ? 3 : 2;
  const tn__expr *shape_of[3];
  for (int i = 0; i < rank; i++) shape_of[i] = tn__ir_index(ir, d->shape == PLANES ? planes[i] : extents[d->shape][i]);
  const tn__buffer *a = tn__te_input(te, "A", d->dtype, rank, shape_of);
  tn__te_axes x = axes_of(te, "i", d->shape != WHOLE, &d->results), r = axes_of(te, "k", rank == 3 ? 2 : 1, terms);
  const tn__expr *at_a[] = {d->shape == ROWS ? x.index[0] : r.index[0], d->shape == ROWS ? r.index[0] : x.index[0],
                            r.index[1]};
  const tn__buffer *sum = tn__te_reduce(te, "S", &x, &r, TN__TE_SUM, tn__ir_load(ir, a, at_a));
  if (!d->mean) {
    tn__te_output(te, sum);
    return te;
  }
  tn__te_axes y = axes_of(te, "o", d->shape != WHOLE, &d->results);
  tn__te_output(
      te, tn__te_compute(te, "M", &y, tn__ir_mul(ir, tn__ir_load(ir, sum, y.index), tn__ir_constant(ir, d->dtype, 2))));
  return te;
}

static const tn__sketch *sketch_of_stages(const tn__te *te, const tn__target *target,
                                          const tn__schedule_options *options) {
  const tn__sketch *k = tn__rule_create_sketch(te, target, options);
  while (k != NULL && strcmp(tn__sketch_name(k), "stages") != 0) k = tn__sketch_next(k);
  assert_non_null(k);
  return k;
}

static void try_parts(tn__ir *ir, const void *arg) {
  const reduced *d = arg;
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 2};
  const tn__sketch *k = sketch_of_stages(reduction(ir, d), &target, &options);
  int parts = decision(k, "parts");
  assert_int_equal(k->decisions[parts].count, 4);
  for (int p = 1; p < 3; p++) {
    int64_t values[TN__MAX_DECISIONS];
    tn__sketch_choose(k, values, NULL);
    values[parts] = k->decisions[parts].choices[p];
    const tn__schedule *s = tn__sketch_apply(k, values);
    check_same(s);
    check_replay(s);
    const char *function = schedule_text(s, true);
    if (d->terms * d->results >= 420000) assert_non_null(strstr(function, "parallel"));
    assert_non_null(strstr(function, ".rf"));
  }
}

static void parts_compute_the_same(void **state) {
  static const reduced all[] = {
      {WHOLE, TN_F32, 1, 420001, true},  {WHOLE, TN_I32, 1, 140000, false}, {WHOLE, TN_F64, 1, 131072, false},
      {ACROSS, TN_F32, 8, 60001, true},  {ACROSS, TN_F32, 33, 4001, false}, {ACROSS, TN_I64, 5, 30011, true},
      {ROWS, TN_F32, 3, 50021, true},    {PLANES, TN_F32, 40, 700, false},  {PLANES, TN_F64, 3, 10007, true},
      {PLACES, TN_F32, 2, 70001, false},
  };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) check_ok(in_context(try_parts, &all[i]));
}

/* One thread's order is every number of threads' order, and long reductions with few results are cut. */
static void choose_parts(tn__ir *ir, const void *arg) {
  static const struct {
    reduced d;
    bool cut;
  } all[] = {{{WHOLE, TN_F32, 1, 16000000, false}, true},
             {{ACROSS, TN_F32, 8, 1000000, false}, true},
             {{ROWS, TN_F32, 2, 4000000, false}, true},
             {{ROWS, TN_F32, 1000, 1000, false}, false}};
  tn__target target = test_target("x86-64-v4");
  for (int i = 0; i < 4; i++) {
    int64_t first = 0;
    for (int threads = 1; threads <= 8; threads *= 2) {
      int64_t values[TN__MAX_DECISIONS];
      tn__schedule_options options = {.threads = threads};
      const tn__sketch *k = tn__rule_create_sketch(reduction(ir, &all[i].d), &target, &options);
      assert_int_equal(strcmp(tn__sketch_name(k), "stages") == 0, all[i].cut);
      if (!all[i].cut) continue;
      tn__sketch_choose(k, values, NULL);
      int64_t parts = values[decision(k, "parts")];
      if (threads == 1) first = parts;
      assert_true(parts > 1 && parts == first);
    }
  }
}

static void parts_do_not_depend_on_threads(void **state) { check_ok(in_context(choose_parts, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_compute_the_same),           cmocka_unit_test(parts_do_not_depend_on_threads),
      cmocka_unit_test(blocks_compute_the_same),          cmocka_unit_test(blocks_are_chosen_where_they_pay),
      cmocka_unit_test(few_rows_far_apart_stay_in_place), cmocka_unit_test(panels_compute_the_same),
      cmocka_unit_test(large_operands_go_into_panels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
