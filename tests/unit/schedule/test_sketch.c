/* Sketches: which rule takes what, that every point of a space computes the same, facts that the cost function must
 * obey. */
#include "schedule/rules/choose.h"

#include <math.h>

#include "ir/context.h"
#include "schedule/internal.h"
#include "unit/schedule_check.h"

static const char *trace_of(tn__ir *ir, const tn__schedule *s) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(s, &text);
  const char *copy = tn__arena_strdup(tn__ir_arena(ir), tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static const struct {
  declaration make;
  const char *rule;
} classes[] = {
    {product, "contraction"},
    {open_product, "groups"}, /* six columns */
    {stencil, "direct compute"},
    {rows, "row reduction"},
    {convolution, "contraction"},
    {running, "stages"},
    {chain, "sequence"}, /* in rows, each sum would be taken again for every row of the next */
    {network, "sequence"},
    {pool, "structure"},
    {column_sums, "stages"},
    {repeated_sums, "stages"},
    {packed_product, "contraction"},
    {transposed_product, "contraction"},
    {grouped, "contraction"},
    {depthwise, "contraction"},
    {skewed, "stages"},
    {pairs, "direct compute"},
    {unit_points, "groups"},
    {turned_points, "groups"},
};

static void classify(tn__ir *ir, const void *arg) {
  size_t i = *(const size_t *)arg;
  tn__target target = test_target("x86-64-v4");
  tn__plan plan;
  choose_schedule(classes[i].make(ir), &target, NULL, &plan);
  assert_non_null(plan.sketch);
  assert_string_equal(tn__sketch_name(plan.sketch), classes[i].rule);
}

static void rules_classify(void **state) {
  for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) check_ok(in_context(classify, &i));
}

/* A product of products: too large to be private. */
static tn__te *two_products(tn__ir *ir) {
  static const int64_t sides[] = {256, 256};
  tn__te *te = tn__te_create(ir, "twice");
  const tn__buffer *left = input(te, "A", 2, 256, 256, 0);
  for (int i = 0; i < 2; i++) {
    const tn__buffer *right = input(te, i == 0 ? "B" : "C", 2, 256, 256, 0);
    tn__te_axes x = axes_of(te, "i", 2, sides), k = axes_of(te, "k", 1, sides);
    left = tn__te_reduce(
        te, i == 0 ? "T" : "D", &x, &k, TN__TE_SUM,
        tn__ir_mul(ir, at(ir, left, 2, x.index[0], k.index[0], NULL), at(ir, right, 2, k.index[0], x.index[1], NULL)));
  }
  tn__te_output(te, left);
  return te;
}

static void schedule_two(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__plan plan;
  const char *trace = trace_of(ir, choose_schedule(two_products(ir), &target, NULL, &plan));
  assert_non_null(plan.sketch);
  assert_int_equal(plan.refused, 0);
  assert_string_equal(tn__sketch_name(plan.sketch), "sequence");
  assert_non_null(strstr(trace, "vectorize \"T."));
  assert_non_null(strstr(trace, "vectorize \"D."));
  /* The rule behind it takes each by itself, too. */
  const tn__sketch *k = tn__sketch_next(plan.sketch);
  int64_t values[TN__MAX_DECISIONS];
  tn__sketch_choose(k, values, NULL);
  assert_non_null(strstr(trace_of(ir, tn__sketch_apply(k, values)), "vectorize \"T."));
}

/* Every part has the steps that the rules choose for it alone: tiles in registers with their epilogue, rows. */
static void schedule_network(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1, .results_read = true};
  tn__te *te = network(ir);
  tn__plan plan, alone;
  const char *trace = trace_of(ir, choose_schedule(te, &target, &options, &plan)), *from = strchr(trace, '\n') + 1;
  static const struct {
    int first, count;
    const char *rule;
  } parts[] = {{0, 3, "contraction"}, {3, 1, "contraction"}, {4, 2, "row reduction"}};
  double cycles = 0;
  for (int i = 0; i < 3; i++) {
    const tn__te *part = tn__te_part(tn__te_uses_of(te, tn__ir_arena(ir)), parts[i].first, parts[i].count,
                                     tn__ir_create(tn__ir_arena(ir)));
    const char *own = trace_of(ir, choose_schedule(part, &target, &options, &alone));
    const char *steps = strchr(own, '\n') + 1;
    size_t length = strlen(steps) - strlen("end\n");
    assert_string_equal(tn__sketch_name(alone.sketch), parts[i].rule);
    assert_true(strncmp(from, steps, length) == 0);
    from += length;
    cycles += alone.cost.cycles;
  }
  assert_string_equal(from, "end\n");
  assert_true(plan.cost.cycles > 0.99 * cycles && plan.cost.cycles < 1.01 * cycles);
}

static void parts_are_scheduled_as_alone(void **state) { check_ok(in_context(schedule_network, NULL)); }

static void products_of_products_are_scheduled(void **state) { check_ok(in_context(schedule_two, NULL)); }

/* `count` convolutions of 3x3 over plain images, one behind the other. */
static tn__te *convolutions(tn__ir *ir, int count) {
  tn__te *te = tn__te_create(ir, "convolutions");
  int64_t side = 60;
  const tn__buffer *image = input(te, "X", 3, 64, side, side);
  for (int i = 0; i < count; i++) {
    side -= 2;
    tn__te_axes x = axes_of(te, "i", 3, (int64_t[]){64, side, side}), k = axes_of(te, "k", 3, (int64_t[]){64, 3, 3});
    const tn__expr *shape[] = {tn__ir_index(ir, 64), tn__ir_index(ir, 64), tn__ir_index(ir, 3), tn__ir_index(ir, 3)};
    const tn__buffer *f = tn__te_input(te, tn__arena_printf(tn__ir_arena(ir), "F%d", i), TN_F32, 4, shape);
    const tn__expr *weight[] = {x.index[0], k.index[0], k.index[1], k.index[2]};
    const tn__expr *pixel =
        at(ir, image, 3, k.index[0], tn__ir_add(ir, x.index[1], k.index[1]), tn__ir_add(ir, x.index[2], k.index[2]));
    image = tn__te_reduce(te, tn__arena_printf(tn__ir_arena(ir), "Y%d", i), &x, &k, TN__TE_SUM,
                          tn__ir_mul(ir, pixel, tn__ir_load(ir, f, weight)));
  }
  tn__te_output(te, image);
  return te;
}

static int statements_of(tn__ir *ir, int count) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *s = default_schedule(convolutions(ir, count), &target, &options);
  return (int)tn__stmt_weight(tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL)->body);
}

/* Nests that follow each other are all cut into interiors and tails: none takes the room of the next. */
static void cut_each(tn__ir *ir, const void *arg) {
  int one = statements_of(ir, 1), two = statements_of(ir, 2);
  assert_in_range(two, 2 * one * 9 / 10, 2 * one * 11 / 10);
}

static void nests_are_cut_apart(void **state) { check_ok(in_context(cut_each, NULL)); }

/* ---- points ------------------------------------------------------------------------------------------------------ */

typedef struct drawn {
  declaration make;
  const char *target;
  int threads;
  uint64_t seed;
} drawn;

/* A random point whose cost is finite computes what the declaration says, or is refused in words. */
static void random_point(tn__ir *ir, const void *arg) {
  const drawn *d = arg;
  tn__target target = test_target(d->target);
  tn__schedule_options options = {.threads = d->threads};
  uint64_t seed = d->seed;
  int64_t values[TN__MAX_DECISIONS];
  const tn__te *te = d->make(ir);
  for (const tn__sketch *k = tn__rule_create_sketch(te, &target, &options); k != NULL; k = tn__sketch_next(k)) {
    double cost = INFINITY;
    for (int tries = 0; tries < 60000 && !isfinite(cost); tries++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
      tn__sketch_at(k, (int64_t)((seed >> 16) % (uint64_t)tn__sketch_points(k)), values);
      cost = tn__sketch_cost(k, values, NULL);
    }
    if (!(isfinite(cost) && cost > 0))
      fail_msg("%s: \"%s\" has no point that costs something: %g", tn__te_name(te), tn__sketch_name(k), cost);
    check_same(tn__sketch_apply(k, values));
  }
}

static void every_point_computes_the_same(void **state) {
  static const char *const targets[] = {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"};
  int refused = 0, total = 0;
  for (int i = 0; i < DECLARATION_COUNT; i++)
    for (uint64_t seed = 0; seed < 24; seed++) {
      drawn d = {declarations[i], targets[seed % 4], 1 + (int)(seed / 4 % 2), seed * 977 + (uint64_t)i};
      tn_status *status = in_context(random_point, &d);
      total++;
      if (status == NULL) continue;
      if (tn_status_code_of(status) != TN_INVALID_ARGUMENT) fail_msg("%s", tn_status_message(status));
      refused++;
      tn_status_free(status);
    }
  if (refused * 3 > total) fail_msg("%d of %d were refused", refused, total);
}

/* ---- partial vectors --------------------------------------------------------------------------------------------- */

/* In the last vector of a row of accumulators only the load has a condition: 26 columns are one vector and 10 lanes. */
static void partial_vector(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *s = default_schedule(product_of(ir, 52, 26, 40), &target, &options);
  check_same(s);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__func_print(tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL), &text);
  size_t at = 0, line, before;
  const char *code = tn__strbuf_text(&text);
  while (code[at] != 0 && strncmp(code + at, "select(likely(", 14) != 0) at++;
  if (code[at] == 0) fail_msg("%s", code);
  /* The multiply-add around it is not inside of an if. */
  for (line = at; line > 0 && code[line - 1] != '\n'; line--) continue;
  for (before = line - 1; before > 0 && code[before - 1] != '\n'; before--) continue;
  const char *loop = strstr(code + before, "vectorized");
  assert_true(loop != NULL && loop < code + line);
  tn__strbuf_release(&text);
}

/* Of 48 columns in tiles of two vectors the last tile is one: the other is not computed for nothing. */
static void empty_vector(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__sketch *k = tn__rule_create_sketch(product_of(ir, 26, 48, 40), &target, &options);
  int64_t values[TN__MAX_DECISIONS];
  for (int i = 0; i < k->decision_count; i++) values[i] = k->decisions[i].choices[0];
  values[0] = 16, values[1] = 2, values[2] = 13; /* lanes, vectors, rows */
  const tn__schedule *s = tn__sketch_apply(k, values);
  check_same(s);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__func_print(tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL), &text);
  assert_null(strstr(tn__strbuf_text(&text), "*0.0f32"));
  int sums = 0;
  for (const char *at = tn__strbuf_text(&text); (at = strstr(at, "*B[")) != NULL; at++) sums++;
  assert_int_equal(sums, 13 * 2 + 13);
  tn__strbuf_release(&text);
}

static void empty_vectors_are_dropped(void **state) { check_ok(in_context(empty_vector, NULL)); }

static void partial_vectors_load_less(void **state) { check_ok(in_context(partial_vector, NULL)); }

/* ---- determinism and limits -------------------------------------------------------------------------------------- */

static void choose_twice(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__te *te = product_of(ir, 197, 300, 64);
  tn__schedule_options options = {.threads = 2, .search_space = 500};
  const tn__sketch *k = tn__rule_create_sketch(te, &target, &options);
  int64_t first[TN__MAX_DECISIONS], second[TN__MAX_DECISIONS];
  tn__cost cost, again;
  assert_true(tn__sketch_points(k) > 500);
  assert_int_equal(tn__sketch_choose_counting(k, first, &cost), 2 * 500); /* with the right operand copied or not */
  tn__sketch_choose(k, second, &again);
  assert_memory_equal(first, second, (size_t)k->decision_count * sizeof(first[0]));
  assert_true(cost.cycles == again.cycles && isfinite(cost.cycles));
  /* A larger search is never worse. */
  options.search_space = 4000;
  tn__sketch_choose(tn__rule_create_sketch(te, &target, &options), second, &again);
  assert_true(again.cycles <= cost.cycles);
}

static void choices_are_deterministic(void **state) { check_ok(in_context(choose_twice, NULL)); }

static void options_have_ranges(void **state) {
  tn__target target = test_target("x86-64-v3");
  tn__schedule_options filled;
  check_ok(tn__schedule_options_fill(NULL, &target, &filled));
  assert_int_equal(filled.threads, target.cpu.cores);
  assert_int_equal(filled.vector_bytes, 32);
  assert_int_equal(filled.registers, 16);
  assert_int_equal(filled.cache_bytes, target.cpu.machine.l2_bytes);
  assert_int_equal(filled.search_space, 2000);
  assert_int_equal(filled.shared_memory, 0); /* no CPU has it */
  check_fails(tn__schedule_options_fill(&(tn__schedule_options){.threads = -1}, &target, &filled), TN_INVALID_ARGUMENT,
              "schedule option threads is -1; it must be between 1 and 1024, or 0 for what the target has");
  check_fails(tn__schedule_options_fill(&(tn__schedule_options){.vector_bytes = 64}, &target, &filled),
              TN_INVALID_ARGUMENT,
              "schedule option vector_bytes is 64; it must be between 16 and 32, or 0 for what the target has");
  check_fails(tn__schedule_options_fill(&(tn__schedule_options){.vector_bytes = 24}, &target, &filled),
              TN_INVALID_ARGUMENT, "schedule option vector_bytes is 24; it must be a power of two");
  check_fails(tn__schedule_options_fill(&(tn__schedule_options){.registers = 3}, &target, &filled), TN_INVALID_ARGUMENT,
              "schedule option registers is 3; it must be between 4 and 16, or 0 for what the target has");
  check_fails(
      tn__schedule_options_fill(&(tn__schedule_options){.cache_bytes = 100}, &target, &filled), TN_INVALID_ARGUMENT,
      "schedule option cache_bytes is 100; it must be between 4096 and 1073741824, or 0 for what the target has");
  check_fails(
      tn__schedule_options_fill(&(tn__schedule_options){.search_space = 2000000}, &target, &filled),
      TN_INVALID_ARGUMENT,
      "schedule option search_space is 2000000; it must be between 1 and 1000000, or 0 for what the target has");
  check_fails(tn__schedule_options_fill(&(tn__schedule_options){.shared_memory = -5}, &target, &filled),
              TN_INVALID_ARGUMENT,
              "schedule option shared_memory is -5; it must be between 1 and 1073741824, or 0 for what the target has");
}

/* Narrower vectors, smaller caches and more threads are seen in what is chosen. */
static void choose_otherwise(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__te *te = product_of(ir, 384, 640, 512);
  tn__plan usual, narrow, small, few;
  tn__schedule_options one = {.threads = 1}, halves = {.threads = 1, .vector_bytes = 32},
                       cache = {.threads = 1, .cache_bytes = 8192}, space = {.threads = 1, .search_space = 100};
  const char *trace = trace_of(ir, choose_schedule(te, &target, &one, &usual));
  assert_null(strstr(trace, "parallel"));
  choose_schedule(te, &target, &halves, &narrow);
  assert_int_equal(usual.values[0], 16); /* lanes */
  assert_int_equal(narrow.values[0], 8);
  assert_true(narrow.cost.cycles > usual.cost.cycles);
  choose_schedule(te, &target, &cache, &small);
  assert_true(small.cost.bytes[1] > usual.cost.bytes[1]);
  choose_schedule(te, &target, &space, &few);
  assert_int_equal(few.weighed, 2 * 100); /* the right operand copied, or not */
  assert_non_null(strstr(trace_of(ir, default_schedule(te, &target, NULL)), "parallel")); /* two cores */
}

static void options_change_choices(void **state) { check_ok(in_context(choose_otherwise, NULL)); }

/* Fewer registers never make the best choice cheaper, and the choice keeps to them. */
static void keep_to_registers(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__te *te = product_of(ir, 196, 320, 64);
  double before = 0;
  for (int registers = 32; registers >= 4; registers /= 2) {
    tn__schedule_options options = {.threads = 1, .registers = registers, .search_space = 100000};
    tn__plan plan;
    choose_schedule(te, &target, &options, &plan);
    assert_true(plan.cost.registers <= registers);
    assert_true(plan.cost.cycles >= before);
    before = plan.cost.cycles;
  }
}

static void registers_limit_tiles(void **state) { check_ok(in_context(keep_to_registers, NULL)); }

/* ---- places ------------------------------------------------------------------------------------------------------ */

static const tn__decision *decision(const tn__sketch *k, const char *name) {
  for (int i = 0; i < k->decision_count; i++)
    if (strcmp(k->decisions[i].name, name) == 0) return &k->decisions[i];
  fail_msg("no decision %s", name);
  return NULL;
}

/* Every place that a decision offers is applied to what the static choice says otherwise: the results are the same, the
 * traces differ, and at least `least` places of those that the cost function allows are not refused. */
static void every_place(tn__ir *ir, tn__te *te, const char *name, int least) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__sketch *k = tn__rule_create_sketch(te, &target, &options);
  const tn__decision *d = decision(k, name);
  int64_t values[TN__MAX_DECISIONS];
  const char *traces[TN__MAX_CHOICES];
  int made = 0;
  tn__sketch_choose(k, values, NULL);
  for (int i = 0; i < d->count; i++) {
    values[d - k->decisions] = d->choices[i];
    if (!isfinite(tn__sketch_cost(k, values, NULL))) continue;
    const tn__schedule *s = tn__sketch_apply(k, values);
    check_same(s);
    traces[made] = trace_of(ir, s);
    for (int j = 0; j < made; j++) assert_string_not_equal(traces[j], traces[made]);
    made++;
  }
  if (made < least) fail_msg("%s: %d of %d places", name, made, d->count);
}

/* A product whose left operand is computed: 2 A + 1. */
static tn__te *computed_product(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "scaled");
  const tn__buffer *a = input(te, "A", 2, 30, 64, 0), *b = input(te, "B", 2, 64, 40, 0);
  tn__te_axes p = axes_of(te, "p", 2, (int64_t[]){30, 64}), x = axes_of(te, "i", 2, (int64_t[]){30, 40});
  tn__te_axes r = axes_of(te, "k", 1, (int64_t[]){64});
  const tn__expr *one = tn__ir_constant(ir, TN_F32, 1), *read = tn__ir_load(ir, a, p.index);
  const tn__buffer *s = tn__te_compute(te, "S", &p, tn__ir_add(ir, tn__ir_add(ir, read, read), one));
  const tn__expr *term =
      tn__ir_mul(ir, at(ir, s, 2, x.index[0], r.index[0], NULL), at(ir, b, 2, r.index[0], x.index[1], NULL));
  tn__te_output(te, tn__te_reduce(te, "C", &x, &r, TN__TE_SUM, term));
  return te;
}

static void places(tn__ir *ir, const void *arg) {
  every_place(ir, convolution(ir), "left", 1);      /* short sums: padding in place */
  every_place(ir, computed_product(ir), "left", 4); /* before, apart, at each use, in a loop */
  every_place(ir, product_of(ir, 52, 64, 96), "left", 2);
  every_place(ir, product_of(ir, 52, 64, 40), "right", 2);
  every_place(ir, product_of(ir, 52, 320, 40), "ahead", 2);
  every_place(ir, product_of(ir, 52, 64, 40), "epilogue", 3); /* behind each tile, in a loop, behind everything */
  every_place(ir, convolution(ir), "epilogue", 3);
}

static void operands_are_placed_anywhere(void **state) { check_ok(in_context(places, NULL)); }

/* ---- orders ------------------------------------------------------------------------------------------------------ */

typedef struct counted {
  int64_t rows, depth, columns;
  int threads, search_space;
  int64_t values[TN__MAX_DECISIONS]; /* out: of decisions that order terms; 0 of others */
} counted;

static void choose_for(tn__ir *ir, const void *arg) {
  counted *c = (counted *)(uintptr_t)arg;
  tn__target target = test_target("x86-64-v3");
  tn__schedule_options options = {.threads = c->threads, .search_space = c->search_space};
  const tn__sketch *k = tn__rule_create_sketch(product_of(ir, c->rows, c->depth, c->columns), &target, &options);
  tn__sketch_choose(k, c->values, NULL);
  for (int i = 0; i < TN__MAX_DECISIONS; i++)
    if (i >= k->decision_count || !k->decisions[i].orders) c->values[i] = 0;
}

/* Answers are the same for any number of threads that a declaration is scheduled for, also where so few candidates are
 * weighed that other decisions would lead to others. */
static void threads_have_no_say_in_orders(void **state) {
  static const int64_t sizes[][3] = {{4, 20000, 16}, {16, 8192, 32}, {64, 3000, 64}, {52, 4096, 40}, {130, 2048, 100}};
  static const int threads[] = {2, 100}, spaces[] = {0, 20, 100};
  for (int i = 0; i < 5; i++)
    for (int space = 0; space < 3; space++) {
      counted one = {sizes[i][0], sizes[i][1], sizes[i][2], 1, spaces[space], {0}};
      check_ok(in_context(choose_for, &one));
      for (int t = 0; t < 2; t++) {
        counted many = {sizes[i][0], sizes[i][1], sizes[i][2], threads[t], spaces[space], {0}};
        check_ok(in_context(choose_for, &many));
        for (int d = 0; d < TN__MAX_DECISIONS; d++)
          if (one.values[d] != many.values[d])
            fail_msg("product %d, space %d, %d threads: decision %d is %lld, not %lld", i, spaces[space], threads[t], d,
                     (long long)many.values[d], (long long)one.values[d]);
      }
    }
}

/* ---- the cost function ------------------------------------------------------------------------------------------- */

static tn__sketch *sketch_of(tn__ir *ir, tn__te *te, int threads) {
  static tn__target target;
  target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = threads};
  return tn__rule_create_sketch(te, &target, &options);
}

static int place(const tn__sketch *k, const char *name) {
  for (int i = 0; i < k->decision_count; i++)
    if (strcmp(k->decisions[i].name, name) == 0) return i;
  fail_msg("no decision %s", name);
  return 0;
}

static tn__cost cost_of(const tn__sketch *k, int64_t vectors, int64_t rows_of_tile, int64_t shared) {
  int64_t values[TN__MAX_DECISIONS];
  tn__cost cost;
  for (int i = 0; i < k->decision_count; i++) values[i] = k->decisions[i].choices[0];
  values[place(k, "lanes")] = 16;
  values[place(k, "vectors")] = vectors;
  values[place(k, "rows")] = rows_of_tile;
  values[place(k, "shared")] = shared;
  tn__sketch_cost(k, values, &cost);
  return cost;
}

/* The same tile in vectors of 16 and of 8 lanes. */
static double halves_to_wholes(tn__ir *ir, int fma_bytes) {
  tn__target target = test_target("x86-64-v4");
  target.cpu.machine.core.fma_bytes = fma_bytes;
  tn__schedule_options options = {.threads = 1};
  const tn__sketch *k = tn__rule_create_sketch(product_of(ir, 168, 16, 64), &target, &options);
  int64_t values[TN__MAX_DECISIONS];
  tn__cost whole, halves;
  for (int i = 0; i < k->decision_count; i++) values[i] = k->decisions[i].choices[0];
  values[place(k, "rows")] = 12;
  values[place(k, "lanes")] = 16;
  tn__sketch_cost(k, values, &whole);
  values[place(k, "lanes")] = 8;
  values[place(k, "vectors")] = 2;
  tn__sketch_cost(k, values, &halves);
  return halves.work / whole.work;
}

/* A core that takes whole vectors in halves loses multiply-adds to what it loads beside vectors half as wide. */
static void halves_cost(tn__ir *ir, const void *arg) {
  double ratio = halves_to_wholes(ir, 64);
  if (!(ratio > 1.1 && ratio < 1.4)) fail_msg("%g", ratio);
  assert_true(halves_to_wholes(ir, 128) > ratio); /* one that does not has half of its rate there */
}

static void half_vectors_multiply_less(void **state) { check_ok(in_context(halves_cost, NULL)); }

static void cost_facts(tn__ir *ir, const void *arg) {
  tn__sketch *even = sketch_of(ir, product_of(ir, 112, 224, 128), 1),
             *odd = sketch_of(ir, product_of(ir, 111, 218, 128), 1);
  tn__cost a = cost_of(even, 2, 14, 0), b = cost_of(odd, 2, 14, 0);
  /* The same tiles, some of them partly empty: no tail, a tail. */
  assert_true(a.tail == 0 && b.tail > 0 && b.tail < 0.1);
  assert_true(b.work > 0.9 * a.work);
  /* Per result the tails cost. */
  assert_true(b.work / (111 * 218) > a.work / (112 * 224));
  /* Larger tiles load less. */
  assert_true(cost_of(even, 2, 7, 0).work > a.work);
  assert_true(cost_of(even, 1, 1, 0).work > cost_of(even, 1, 2, 0).work);
  /* More than the registers hold is impossible. */
  assert_true(isinf(cost_of(even, 4, 14, 0).cycles));
  /* Nothing takes less than its arithmetic at the ports' rate, and that bounds a product of this size. */
  assert_true(a.cycles >= 112.0 * 224 * 128 / 16 / 2);
  assert_int_equal(a.bound, TN__BOUND_WORK);
  /* Rows of the right operand that lie a round number of lines apart meet in few sets of L1. */
  tn__sketch *round = sketch_of(ir, product_of(ir, 112, 256, 128), 1);
  assert_true(cost_of(round, 2, 14, 0).work * 224 > a.work * 256 * 1.005);
  /* Threads share the work evenly or not, and cost something. */
  tn__sketch *shared = sketch_of(ir, product_of(ir, 1120, 2560, 256), 2);
  tn__cost alone = cost_of(shared, 2, 14, 0), both = cost_of(shared, 2, 14, 1);
  assert_true(both.cycles < alone.cycles && both.cycles > alone.cycles / 2);
  assert_true(both.balance == 0.5 && alone.balance == 1);
}

static void cost_obeys_facts(void **state) { check_ok(in_context(cost_facts, NULL)); }

/* Open dimensions cost what the extents cost that they are taken for, but for the unrolling that needs to know more. */
static void open_costs(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  tn__plan open, closed;
  for (int64_t rows = 0; rows <= TN__OPEN_EXTENT; rows += TN__OPEN_EXTENT) {
    choose_schedule(product_of(ir, rows, 64, 0), &target, &options, &open);
    choose_schedule(product_of(ir, TN__OPEN_EXTENT, 64, TN__OPEN_EXTENT), &target, &options, &closed);
    assert_true(open.cost.cycles >= closed.cost.cycles && open.cost.cycles < 1.2 * closed.cost.cycles);
  }
}

static void open_dimensions_have_costs(void **state) { check_ok(in_context(open_costs, NULL)); }
/* ---- past the caches --------------------------------------------------------------------------------------------- */

static const char *trace_of_map(tn__ir *ir, int64_t rows, bool results_read, bool normalize) {
  tn__target target = test_target("x86-64-v4");
  target.cpu.machine.l3_bytes = 32 << 20;
  tn__te *te = tn__te_create(ir, "map");
  const tn__buffer *a = input(te, "A", 2, rows, 1024, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){rows, 1024}), r = axes_of(te, "r", 1, &rows),
              k = axes_of(te, "k", 1, (int64_t[]){1024});
  const tn__expr *value = tn__ir_max(ir, tn__ir_load(ir, a, x.index), tn__ir_constant(ir, TN_F32, 0));
  if (normalize) {
    const tn__buffer *sum = tn__te_reduce(te, "sum", &r, &k, TN__TE_SUM, at(ir, a, 2, r.index[0], k.index[0], NULL));
    value = tn__ir_div(ir, value, at(ir, sum, 1, x.index[0], NULL, NULL));
  }
  tn__te_output(te, tn__te_compute(te, "out", &x, value));
  tn__schedule_options options = {.threads = 1, .results_read = results_read};
  return trace_of(ir, default_schedule(te, &target, &options));
}

/* Outputs go past the caches when they would not stay there: never where everything fits, nor where another kernel
 * reads what fits alone. */
static void stream_facts(tn__ir *ir, const void *arg) {
  for (int normalize = 0; normalize < 2; normalize++) {
    assert_non_null(strstr(trace_of_map(ir, 4096, false, normalize), "stream \"out\" 0")); /* 16 MiB in, 16 out */
    assert_null(strstr(trace_of_map(ir, 4096, true, normalize), "stream"));
    assert_non_null(strstr(trace_of_map(ir, 16384, true, normalize), "stream"));
    assert_null(strstr(trace_of_map(ir, 32, false, normalize), "stream"));
    assert_null(strstr(trace_of_map(ir, 1024, false, normalize), "stream"));
  }
}
static void outputs_stream_when_large(void **state) { check_ok(in_context(stream_facts, NULL)); }

/* The next row is fetched where rows come from L3 and there is more to do than one reduction. */
static void next_row_facts(tn__ir *ir, const void *arg) {
  assert_non_null(strstr(trace_of_map(ir, 1024, false, true), "prefetch_ahead \"sum.rf\" \"sum.k0.0\" \"out.i0\" 1 1"));
  assert_null(strstr(trace_of_map(ir, 1024, false, false), "prefetch"));
  assert_null(strstr(trace_of_map(ir, 32, false, true), "prefetch"));
  assert_null(strstr(trace_of_map(ir, 16384, false, true), "prefetch"));
}
static void next_rows_are_fetched(void **state) { check_ok(in_context(next_row_facts, NULL)); }

static tn__te *sums_of_columns(tn__ir *ir, int64_t rows, int64_t columns) {
  tn__te *te = tn__te_create(ir, "columns");
  const tn__buffer *a = input(te, "A", 2, rows, columns, 0);
  tn__te_axes x = axes_of(te, "i", 1, &columns), r = axes_of(te, "k", 1, &rows);
  tn__te_output(te, tn__te_reduce(te, "sum", &x, &r, TN__TE_SUM, at(ir, a, 2, r.index[0], x.index[0], NULL)));
  return te;
}

/* Sums over the rows of a large matrix step from page to page. They take whole rows where L1 holds the
 * sums; else many columns at a time, and fetch ahead. */
static void page_facts(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  for (int64_t rows = 64; rows <= 4096; rows *= 64)
    for (int64_t columns = 1024; columns <= 8192; columns *= 8) {
      const char *trace = trace_of(ir, default_schedule(sums_of_columns(ir, rows, columns), &target, &options));
      bool far = rows == 4096, near_sums = columns == 1024;
      assert_int_equal(strstr(trace, "split \"sum.k0\" 0 8") != NULL, far && near_sums);
      assert_int_equal(strstr(trace, "prefetch \"sum\" \"sum.k0\"") != NULL, far && !near_sums);
      assert_int_equal(strstr(trace, "split \"sum.i0\" 0 16 16") != NULL, far && !near_sums);
    }
}
static void large_columns_take_whole_rows(void **state) { check_ok(in_context(page_facts, NULL)); }

/* Whole rows, eight at a time and some left over, alone and with threads that have columns of their own. A turn reads
 * and writes a sum once. */
static void whole_rows(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  for (int threads = 1; threads <= 2; threads++) {
    tn__schedule_options options = {.threads = threads};
    const tn__sketch *k = tn__rule_create_sketch(sums_of_columns(ir, threads == 1 ? 21 : 4099, 64), &target, &options);
    const tn__schedule *s = tn__sketch_apply(k, (int64_t[]){8, 0, 8, 1});
    check_same(s);
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__func_print(tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL), &text);
    const char *code = tn__strbuf_text(&text), *first = strstr(code, "] + A[");
    if (first == NULL || strncmp(strchr(first + 6, ']'), "] + A[", 6) != 0) fail_msg("%s", code);
    assert_int_equal(strstr(code, "parallel") != NULL, threads == 2);
    tn__strbuf_release(&text);
  }
}
static void whole_rows_are_added_up(void **state) { check_ok(in_context(whole_rows, NULL)); }

/* Partial results of a row become one without a loop over memory: what is left between the passes are registers. */
static void halves(tn__ir *ir, const void *arg) {
  const char *trace = trace_of_map(ir, 32, false, true);
  assert_non_null(strstr(trace, "vectorize \"sum.lane.1\""));
  for (const char *at = strstr(trace, "rfactor"); at != NULL; at = strstr(at + 1, "rfactor"))
    assert_non_null(strstr(at, "unroll"));
  tn__te *te = rows(ir);
  tn__target target = test_target("x86-64-v4");
  const tn__func *func = tn__ir_lower_for_codegen(ir, tn__schedule_func(default_schedule(te, &target, NULL)), NULL);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__func_print(func, &text);
  assert_null(strstr(tn__strbuf_text(&text), "lane in "));
  tn__strbuf_release(&text);
}
static void rows_add_up_by_halves(void **state) { check_ok(in_context(halves, NULL)); }

static void footprints_are_exact(void **state) {
  tn__target target = test_target("x86-64-v4");
  /* A window of 3 rows of 5 steps over an image of 4 channels, 10 steps wide: rows are 160 bytes apart. */
  tn__nest nest = {.axis_count = 4, .access_count = 1, .extent = {3, 5, 4, 3}};
  tn__nest_access *a = &nest.access[0];
  a->element = 4;
  a->along[0].stride = 160, a->along[1].stride = 16, a->along[2].stride = 4, a->along[3].stride = 16;
  tn__nest_finish(&nest);
  assert_int_equal(a->moving, 4);
  /* 5 + 3 - 1 steps of 16 bytes in each of 3 rows: 112 bytes are 2 lines. */
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){3, 5, 4, 3}) == 3 * 2 * 64);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){1, 1, 1, 1}) == 64);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){3, 10, 4, 1}) == 8 * 64); /* whole rows join up: 480 bytes */
  /* Panels of 32: [2][7][32], 40 columns. */
  tn__nest packed = {.axis_count = 2, .access_count = 1, .extent = {7, 64}};
  a = &packed.access[0];
  a->element = 4;
  a->along[0].stride = 128;
  a->along[1] = (tn__nest_stride){.stride = 4, .panel = 32, .far = 7 * 128};
  tn__nest_finish(&packed);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){7, 32}) == 7 * 128);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){7, 40}) == 2 * 7 * 128);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){1, 16}) == 64);
  target.cpu.machine.costs.line_bytes = 128;
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){1, 16}) == 128);
  target.cpu.machine.costs.line_bytes = 64;
  /* Vectors of 64 bytes that start anywhere cross lines; aligned ones do not. */
  assert_true(tn__nest_crossing(&target, a, 2, 1, 64) == 0);
  a->along[0].stride = 4 * 33;
  assert_true(tn__nest_crossing(&target, a, 2, 1, 64) > 0.9 && tn__nest_crossing(&target, a, 2, 1, 16) < 0.2);
  /* Pieces of 64 bytes, of rows of 508: almost all of them touch two lines. */
  tn__nest rows = {.axis_count = 2, .access_count = 1, .extent = {10, 127}};
  a = &rows.access[0];
  a->element = 4;
  a->along[0].stride = 508, a->along[1].stride = 4;
  tn__nest_finish(&rows);
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){10, 16}) == 10 * 64);
  a->straddles = true;
  assert_true(tn__nest_footprint(&target, a, (int64_t[]){10, 16}) == 10 * 64 * (1 + 60.0 / 64));
  assert_int_equal(tn__nest_piece(&target, a, (int64_t[]){10, 16}), 64);
  assert_int_equal(tn__nest_piece(&target, a, (int64_t[]){10, 127}), 5080);
}

/* A panel of 1800 rows of 128 bytes, 1 KB apart, is 230 KB, but uses an eighth of L2's sets: it does not stay there
 * from one use to the next. 1000 rows do, and so do all where they were copied together. */
static void round_strides_crowd_sets(void **state) {
  tn__target target = test_target("sapphirerapids");
  tn__schedule_options options = {.threads = 1, .cache_bytes = target.cpu.machine.l2_bytes, .registers = 32};
  double bytes[3];
  for (int i = 0; i < 3; i++) {
    int64_t steps = i == 1 ? 1000 : 1800;
    tn__nest nest = {.axis_count = 3, .access_count = 1, .extent = {20, steps, 32}};
    nest.access[0].element = 4;
    nest.access[0].along[1].stride = 1024, nest.access[0].along[2].stride = 4;
    tn__nest_finish(&nest);
    tn__sketch_features f = {.loops = {{0, 20, 1}, {1, steps, 1}, {2, 32, 1}}, .loop_count = 3, .chunks = 1};
    f.work_cycles = 1;
    f.unseen_bytes = (double)target.cpu.machine.l2_bytes; /* nothing was there before */
    f.copied[0] = i == 2;
    tn__cost cost;
    tn__cost_of(&target, &options, &nest, &f, &cost);
    bytes[i] = cost.bytes[1] - 2 * f.unseen_bytes;
  }
  assert_true(bytes[0] == 20 * 1800 * 128 && bytes[1] == 1000 * 128 && bytes[2] == 1800 * 128);
}

/* A load into all lanes takes a port as any other does: as much as a vector that fits the port, half of one that takes
 * two loads. */
static void broadcasts_take_a_port(void **state) {
  tn__target intel = test_target("sapphirerapids"), amd = test_target("znver4");
  assert_true(tn__cost_broadcast(&intel, 64) == intel.cpu.machine.costs.broadcast);
  assert_true(tn__cost_broadcast(&amd, 64) == amd.cpu.machine.costs.broadcast / 2);
  assert_true(tn__cost_broadcast(&amd, 32) == amd.cpu.machine.costs.broadcast);
}

/* Y[t, o] = W[e[t], o] and X[C[t, o]]: rows that data choose lie side by side, elements are scattered. */
static void find_chosen_rows(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__te *te = tn__te_create(ir, "chosen");
  const tn__expr *sizes[] = {tn__ir_index(ir, 8), tn__ir_index(ir, 127)}, *rows[] = {tn__ir_index(ir, 60), sizes[1]};
  const tn__buffer *w = tn__te_input(te, "W", TN_F32, 2, sizes), *e = tn__te_input(te, "e", TN_I64, 1, rows);
  const tn__buffer *x = tn__te_input(te, "X", TN_F32, 1, sizes), *c = tn__te_input(te, "C", TN_I64, 2, rows);
  tn__te_axes y = tn__te_axes_create(te, "i", 2, rows);
  const tn__expr *chosen = tn__ir_load(ir, e, y.index), *place = tn__ir_load(ir, c, y.index);
  const tn__expr *row = tn__ir_load(ir, w, (const tn__expr *[]){chosen, y.index[1]});
  tn__te_output(te, tn__te_compute(te, "Y", &y, tn__ir_add(ir, row, tn__ir_load(ir, x, &place))));
  tn__nest nest;
  tn__nest_of_block(tn__schedule_of(te, &target), "Y", &nest);
  int found = 0;
  for (int a = 0; a < nest.access_count; a++) {
    const tn__nest_access *access = &nest.access[a];
    if (access->buffer == w) {
      assert_false(access->scattered);
      assert_int_equal(access->along[0].stride, 508);
      assert_int_equal(access->along[1].stride, 4);
      /* 60 steps choose among 8 rows; of 5 two choose the same as a rule. Rows that are chosen are no long walk. */
      assert_true(tn__nest_footprint(&target, access, (int64_t[]){60, 16}) == 8 * 64);
      assert_true(tn__nest_footprint(&target, access, (int64_t[]){5, 16}) == 4 * 64);
      assert_int_equal(tn__nest_piece(&target, access, (int64_t[]){60, 127}), 508);
      found++;
    }
    if (access->buffer == x) {
      assert_true(access->scattered);
      assert_true(tn__nest_footprint(&target, access, (int64_t[]){60, 127}) == 64); /* all there is */
      found++;
    }
  }
  assert_int_equal(found, 2);
}

static void chosen_rows_lie_side_by_side(void **state) { check_ok(in_context(find_chosen_rows, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_classify),
      cmocka_unit_test(chosen_rows_lie_side_by_side),
      cmocka_unit_test(products_of_products_are_scheduled),
      cmocka_unit_test(parts_are_scheduled_as_alone),
      cmocka_unit_test(nests_are_cut_apart),
      cmocka_unit_test(options_change_choices),
      cmocka_unit_test(empty_vectors_are_dropped),
      cmocka_unit_test(every_point_computes_the_same),
      cmocka_unit_test(threads_have_no_say_in_orders),
      cmocka_unit_test(choices_are_deterministic),
      cmocka_unit_test(options_have_ranges),
      cmocka_unit_test(registers_limit_tiles),
      cmocka_unit_test(operands_are_placed_anywhere),
      cmocka_unit_test(cost_obeys_facts),
      cmocka_unit_test(open_dimensions_have_costs),
      cmocka_unit_test(outputs_stream_when_large),
      cmocka_unit_test(next_rows_are_fetched),
      cmocka_unit_test(large_columns_take_whole_rows),
      cmocka_unit_test(whole_rows_are_added_up),
      cmocka_unit_test(rows_add_up_by_halves),
      cmocka_unit_test(half_vectors_multiply_less),
      cmocka_unit_test(footprints_are_exact),
      cmocka_unit_test(round_strides_crowd_sets),
      cmocka_unit_test(broadcasts_take_a_port),
      cmocka_unit_test(partial_vectors_load_less),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
