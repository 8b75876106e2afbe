/* Branches and loops as whoever imports a model asks for them: what becomes of them follows from the graph alone. */
#include "graph/build/control.h"
#include "unit/graph_check.h"

static int live_nodes(const tn__graph *g, const char *op) {
  int count = 0;
  for (int i = 0; i < tn__graph_node_count(g); i++)
    count += !tn__graph_node_at(g, i)->dead && tn__g_is_op(tn__graph_node_at(g, i), op);
  return count;
}

typedef struct model {
  tn__graph *g;
  tn__value *x;
  bool dear; /* its bodies reduce */
} model;

static tn__value *seen(const model *m, tn__body *body) { return body == NULL ? m->x : tn__body_capture(body, m->x); }

static tn__value *work(const model *m, tn__graph *g, tn__value *x) {
  const int64_t axis = 0;
  return m->dear ? tn__g_reduce(g, TN__REDUCE_SUM, x, &axis, 1, true) : tn__g_binary_s(g, "multiply", x, 2);
}

/* x + 1, and x times 2 or its sum. */
static void make_branch(tn__body *body, bool yes, tn__value **results, void *user) {
  const model *m = user;
  tn__graph *g = body == NULL ? m->g : body->g;
  tn__value *x = seen(m, body);
  results[0] = yes ? tn__g_binary_s(g, "add", x, 1) : work(m, g, x);
}

static void branch(void **state, bool dear, int ifs, int selects) {
  static const int64_t shape[] = {1, -1}, none[1] = {0};
  tn__graph *g = graph_of(state);
  model m = {g, input_of(g, "x", TN_F32, 2, shape), dear};
  tn__branches b = {
      .g = g, .condition = input_of(g, "c", TN_BOOL, 0, none), .count = 1, .make = make_branch, .user = &m};
  tn__value *result;
  assert_int_equal(tn__branches_make(&b, &result), -1);
  assert_int_equal(result->rank, 2);
  assert_int_equal(live_nodes(g, "if"), ifs);
  assert_int_equal(live_nodes(g, "select"), selects);
}

static void computes_both_cheap_branches(void **state) { branch(state, false, 0, 1); }
static void runs_one_of_dear_branches(void **state) { branch(state, true, 1, 0); }

/* The state becomes twice itself; each round shows it and the number of the round. */
static void make_round(tn__round *round, void *user) {
  const model *m = user;
  tn__graph *g = round->body == NULL ? m->g : round->body->g;
  tn__value *number = tn__g_convert(g, round->index, TN_F32);
  round->pieces[0] = tn__g_binary(g, "add", round->states[0], number);
  round->next[0] = work(m, g, round->states[0]);
}

static tn__value *loop(void **state, tn__value *trips, int whiles, bool as_list) {
  static const int64_t shape[] = {3};
  const int64_t axes[] = {-1};
  tn__graph *g = graph_of(state);
  model m = {.g = g};
  tn__value *states[] = {input_of(g, "s", TN_F32, 1, shape)}, *pieces[1];
  tn__loop l = {.g = g,
                .trips = trips,
                .states = states,
                .state_count = 1,
                .piece_count = 1,
                .axes = as_list ? NULL : axes,
                .ends_by_count = true,
                .cost = 3,
                .round = make_round,
                .user = &m};
  tn__loop_make(&l, pieces);
  assert_int_equal(live_nodes(g, "while"), whiles);
  assert_int_equal(tn__g_dim_const(states[0], 0), 3);
  return pieces[0];
}

static void writes_few_rounds_out(void **state) {
  const tn__value *piece = loop(state, tn__g_scalar_i64(graph_of(state), TN_I64, 4), 0, false);
  assert_int_equal(piece->rank, 2);
  assert_int_equal(tn__g_dim_const(piece, 0), 3);
  assert_int_equal(tn__g_dim_const(piece, 1), 4);
}

static void runs_many_rounds(void **state) {
  const tn__value *piece = loop(state, tn__g_scalar_i64(graph_of(state), TN_I64, 400), 1, false);
  assert_int_equal(piece->rank, 2);
  assert_int_equal(tn__g_dim_const(piece, 0), 3);
}

static void runs_rounds_that_a_run_counts(void **state) {
  static const int64_t none[1] = {0};
  loop(state, input_of(graph_of(state), "n", TN_I64, 0, none), 1, false);
}

static void keeps_pieces_as_a_list(void **state) {
  const tn__value *piece = loop(state, tn__g_scalar_i64(graph_of(state), TN_I64, 4), 1, true);
  assert_int_equal(piece->holds, TN__HOLDS_SEQUENCE);
  assert_int_equal(piece->item_rank, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {TEST(computes_both_cheap_branches),  TEST(runs_one_of_dear_branches),
                                     TEST(writes_few_rounds_out),         TEST(runs_many_rounds),
                                     TEST(runs_rounds_that_a_run_counts), TEST(keeps_pieces_as_a_list)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
