/* What passes and fusion have to do grows with the graph and no faster, however many read one value. Work is counted,
 * in steps (base/arena.h), and never timed; a graph of twice as many nodes may take a little more than twice as many
 * of them. */
#include "graph/passes/passes.h"
#include "unit/check.h"

enum { SIZES = 3, SMALLEST = 500 };
static const double growth = 2.3;

typedef struct work_case {
  void (*build)(tn__graph *g, int n);
  int n;
  uint64_t passes, fusion;
} work_case;

static tn__value *input(tn__graph *g, const char *name, int64_t rows, int64_t columns) {
  tn__ir *ir = tn__graph_ir(g);
  return tn__graph_input(g, name, TN_F32, 2,
                         (const tn__expr *const[]){tn__ir_index(ir, rows), tn__ir_index(ir, columns)});
}

/* Row i, and all columns. */
static tn__value *row(tn__graph *g, tn__value *x, const tn__expr *i) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *const starts[] = {i, tn__ir_index(ir, 0)}, *const limits[] = {tn__ir_add_i(ir, i, 1), x->dims[1]};
  return tn__g_slice(g, x, starts, limits, (const int64_t[]){1, 1});
}

static tn__value **rows(tn__graph *g, int n) {
  tn__value *x = tn__g_unary(g, "exponential", input(g, "x", n, 4));
  tn__value **all = TN__NEW_ARRAY(tn__graph_arena(g), n, tn__value *);
  for (int i = 0; i < n; i++) all[i] = row(g, x, tn__ir_index(tn__graph_ir(g), n - 1 - i));
  return all;
}

static void build_slices_joined(tn__graph *g, int n) {
  tn__graph_output(g, "y", tn__g_concatenate(g, rows(g, n), n, 0));
}

static void build_slices_added(tn__graph *g, int n) {
  tn__value **all = rows(g, n), *sum = all[0];
  for (int i = 1; i < n; i++) sum = tn__g_binary(g, "add", sum, all[i]);
  tn__graph_output(g, "y", sum);
}

static void build_slices_handed_out(tn__graph *g, int n) {
  tn__value **all = rows(g, n);
  for (int i = 0; i < n; i++) tn__graph_output(g, tn__arena_printf(tn__graph_arena(g), "y%d", i), all[i]);
}

static void build_equal_results(tn__graph *g, int n) {
  tn__value *x = input(g, "x", 3, 4);
  for (int i = 0; i < n; i++)
    tn__graph_output(g, tn__arena_printf(tn__graph_arena(g), "y%d", i), tn__g_unary(g, "exponential", x));
}

static void build_equal_operands(tn__graph *g, int n) {
  tn__value *x = input(g, "x", 3, 4), **all = TN__NEW_ARRAY(tn__graph_arena(g), n, tn__value *);
  for (int i = 0; i < n; i++) all[i] = tn__g_unary(g, "exponential", x);
  tn__graph_output(g, "y", tn__g_concatenate(g, all, n, 0));
}

/* Nodes that differ in a number alone. */
static void build_numbers(tn__graph *g, int n) {
  const int64_t shape[] = {1 << 15};
  tn__value *x = input(g, "x", 1, shape[0]);
  float *data = TN__NEW_ARRAY(tn__graph_arena(g), shape[0] + n, float);
  for (int64_t i = 0; i < shape[0] + n; i++) data[i] = (float)i;
  for (int i = 0; i < n; i++) {
    tn__value *c = tn__g_constant_value(g, TN_F32, 1, shape, data + i, false);
    const tn__expr *dims[] = {tn__ir_index(tn__graph_ir(g), 1), c->dims[0]};
    tn__graph_output(g, tn__arena_printf(tn__graph_arena(g), "y%d", i),
                     tn__g_binary(g, "add", x, tn__g_reshape(g, c, 2, dims)));
  }
}

static tn__value *product(tn__graph *g, tn__value *x, tn__value *w) {
  const int64_t left = 1, right = 0;
  return tn__g_dot_general(g, x, w, NULL, NULL, 0, &left, &right, 1, TN_F32);
}

/* A chain of products whose results are added to one value: each into the next, */
static void build_residuals(tn__graph *g, int n) {
  tn__value *w = input(g, "w", 4, 4), *e = tn__g_unary(g, "exponential", input(g, "x", 4, 4)), *t = e;
  for (int i = 0; i < n; i++) t = tn__g_binary(g, "add", product(g, t, w), e);
  tn__graph_output(g, "y", t);
}

/* or beside the chain, of which only the first product reads it. */
static void build_heads(tn__graph *g, int n) {
  tn__value *w = input(g, "w", 4, 4), *e = tn__g_unary(g, "exponential", input(g, "x", 4, 4)), *t = e;
  tn__value **heads = TN__NEW_ARRAY(tn__graph_arena(g), n, tn__value *);
  for (int i = 0; i < n; i++) {
    t = product(g, t, w);
    heads[i] = tn__g_binary(g, "add", t, e);
  }
  tn__graph_output(g, "y", tn__g_concatenate(g, heads, n, 0));
}

/* Maps of one value, each added to another product of a chain. */
static void build_ladder(tn__graph *g, int n) {
  tn__value *w = input(g, "w", 4, 4), *x = input(g, "x", n, 4), *t = input(g, "t", 1, 4);
  tn__value **steps = TN__NEW_ARRAY(tn__graph_arena(g), n, tn__value *);
  for (int i = 0; i < n; i++) steps[i] = tn__g_unary(g, "tanh", row(g, x, tn__ir_index(tn__graph_ir(g), i)));
  for (int i = 0; i < n; i++) t = tn__g_binary(g, "add", product(g, t, w), steps[i]);
  tn__graph_output(g, "y", t);
}

/* Rows whose numbers only the run knows: as many symbols as nodes. */
static void build_rows_by_data(tn__graph *g, int n) {
  tn__value *x = input(g, "x", 64, 4), **all = TN__NEW_ARRAY(tn__graph_arena(g), n, tn__value *);
  const tn__expr *const one[] = {tn__ir_index(tn__graph_ir(g), 1)};
  for (int i = 0; i < n; i++) {
    int count;
    tn__value *at = tn__graph_input(g, tn__arena_printf(tn__graph_arena(g), "at%d", i), TN_I64, 1, one);
    all[i] = row(g, x, tn__graph_elements(g, at, &count)[0]);
  }
  tn__graph_output(g, "y", tn__g_concatenate(g, all, n, 0));
}

static void run(tn__escape *escape, void *arg) {
  work_case *c = arg;
  const tn__optimize_options options = {0};
  tn__arena arena;
  tn__arena_init(&arena, NULL, escape);
  tn__graph *g = tn__graph_create(tn__ir_create(&arena), "test");
  c->build(g, c->n);
  uint64_t built = arena.steps;
  tn__graph_optimize(g, &options);
  tn__check(escape, tn__graph_verify(g));
  uint64_t optimized = arena.steps;
  tn__pass_fuse(g, NULL);
  c->passes = optimized - built;
  c->fusion = arena.steps - optimized;
  tn__arena_release(&arena);
}

static void expect_growth(void (*build)(tn__graph *g, int n)) {
  work_case cases[SIZES];
  for (int i = 0; i < SIZES; i++) {
    tn__escape escape;
    cases[i] = (work_case){.build = build, .n = SMALLEST << i};
    check_ok(tn__protect(&escape, run, &cases[i]));
    if (i == 0) continue;
    if ((double)cases[i].passes > growth * (double)cases[i - 1].passes)
      fail_msg("passes: %llu steps at %d, %llu at half of it", (unsigned long long)cases[i].passes, cases[i].n,
               (unsigned long long)cases[i - 1].passes);
    if ((double)cases[i].fusion > growth * (double)cases[i - 1].fusion)
      fail_msg("fusion: %llu steps at %d, %llu at half of it", (unsigned long long)cases[i].fusion, cases[i].n,
               (unsigned long long)cases[i - 1].fusion);
  }
}

#define GROWTH(name) \
  static void name##_take_their_number(void **state) { expect_growth(build_##name); }
GROWTH(slices_joined)
GROWTH(slices_added)
GROWTH(slices_handed_out)
GROWTH(equal_results)
GROWTH(equal_operands)
GROWTH(numbers)
GROWTH(residuals)
GROWTH(heads)
GROWTH(ladder)
GROWTH(rows_by_data)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slices_joined_take_their_number),
                                     cmocka_unit_test(slices_added_take_their_number),
                                     cmocka_unit_test(slices_handed_out_take_their_number),
                                     cmocka_unit_test(equal_results_take_their_number),
                                     cmocka_unit_test(equal_operands_take_their_number),
                                     cmocka_unit_test(numbers_take_their_number),
                                     cmocka_unit_test(residuals_take_their_number),
                                     cmocka_unit_test(heads_take_their_number),
                                     cmocka_unit_test(ladder_take_their_number),
                                     cmocka_unit_test(rows_by_data_take_their_number)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
