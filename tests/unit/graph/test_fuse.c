/* Which nodes share a kernel: the groups of small graphs, as text. */
#include <pthread.h>
#include <string.h>

#include "graph/passes/passes.h"
#include "unit/check.h"

typedef struct fuse_case {
  void (*build)(tn__graph *g);
  bool attends; /* behind the pass of that name */
  char text[1024];
} fuse_case;

static void run_fuse(tn__escape *escape, void *arg) {
  fuse_case *c = arg;
  tn__arena arena;
  tn__arena_init(&arena, NULL, escape);
  tn__graph *g = tn__graph_create(tn__ir_create(&arena), "test");
  c->build(g);
  const tn__optimize_options options = {0};
  if (c->attends) tn__pass_attention(g, &options);
  tn__groups groups = tn__pass_fuse(g, NULL);
  size_t at = 0;
  for (int i = 0; i < groups.count; i++) {
    const tn__group *group = &groups.groups[i];
    at += (size_t)snprintf(c->text + at, sizeof c->text - at, "%s%s", i ? "; " : "",
                           group->view       ? "view "
                           : group->constant ? "constant "
                                             : "");
    for (int j = 0; j < group->node_count; j++)
      at += (size_t)snprintf(c->text + at, sizeof c->text - at, "%s%s", j ? "+" : "", group->nodes[j]->op->name);
    at += (size_t)snprintf(c->text + at, sizeof c->text - at, " ->%d", group->output_count);
  }
  tn__arena_release(&arena);
}

static void expect(void (*build)(tn__graph *g), const char *text) {
  fuse_case c = {.build = build};
  tn__escape escape;
  check_ok(tn__protect(&escape, run_fuse, &c));
  assert_string_equal(c.text, text);
}

static void expect_attending(void (*build)(tn__graph *g), const char *text) {
  fuse_case c = {.build = build, .attends = true};
  tn__escape escape;
  check_ok(tn__protect(&escape, run_fuse, &c));
  assert_string_equal(c.text, text);
}

static tn__value *input(tn__graph *g, const char *name, int64_t rows, int64_t columns) {
  tn__ir *ir = tn__graph_ir(g);
  return tn__graph_input(g, name, TN_F32, 2,
                         (const tn__expr *const[]){tn__ir_index(ir, rows), tn__ir_index(ir, columns)});
}

static void build_chain(tn__graph *g) {
  tn__value *x = input(g, "x", 4, 8);
  tn__graph_output(g, "y", tn__g_unary(g, "tanh", tn__g_unary(g, "exponential", tn__g_unary(g, "negate", x))));
}

static void build_softmax(tn__graph *g) {
  tn__graph_output(g, "y", tn__g_softmax(g, input(g, "x", 4, 8), 1, TN__SOFTMAX_PLAIN));
}

/* A normalisation with what stands before and behind it, and a number of each of its rows. */
static void build_normalised_sum(tn__graph *g) {
  const int64_t row = 1;
  tn__value *sum = tn__g_binary(g, "add", input(g, "a", 4, 8), input(g, "b", 4, 8));
  tn__value *y = tn__g_layer_norm(g, sum, &row, 1, 1e-5, TN__NORM_RSQRT);
  y = tn__g_binary(g, "multiply", y, input(g, "scale", 1, 8));
  tn__graph_output(g, "y", y);
  tn__graph_output(g, "length", tn__g_unary(g, "sqrt", tn__g_reduce(g, TN__REDUCE_SUM, y, &row, 1, true)));
}

static void build_two_directions(tn__graph *g) {
  tn__value *across = tn__g_softmax(g, input(g, "x", 4, 8), 0, TN__SOFTMAX_PLAIN);
  tn__graph_output(g, "y", tn__g_softmax(g, across, 1, TN__SOFTMAX_PLAIN));
}

static void build_epilogue(tn__graph *g) {
  tn__value *p = tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32);
  tn__graph_output(g, "y", tn__g_unary(g, "tanh", tn__g_binary(g, "add", p, input(g, "c", 4, 16))));
}

/* The product is an output too: its epilogue must not swallow it. */
static void build_shared_product(tn__graph *g) {
  tn__value *p = tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32);
  tn__graph_output(g, "p", p);
  tn__graph_output(g, "y", tn__g_unary(g, "tanh", p));
}

/* y is read twice, but all that comes of it ends in one value. */
static void build_gelu(tn__graph *g) {
  tn__value *p = tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32);
  tn__value *y = tn__g_binary(g, "add", p, input(g, "c", 4, 16));
  tn__value *bell = tn__g_binary_s(g, "add", tn__g_unary(g, "erf", y), 1);
  tn__graph_output(g, "y", tn__g_binary_s(g, "multiply", tn__g_binary(g, "multiply", y, bell), 0.5));
}

/* Two such parts, one behind the other, and a second product that one of them reads. */
static void build_gated(tn__graph *g) {
  tn__value *p = tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32);
  tn__value *q = tn__g_matmul(g, input(g, "d", 4, 8), input(g, "e", 8, 16), TN_F32);
  tn__value *x = tn__g_binary(g, "multiply", p, tn__g_binary(g, "multiply", tn__g_unary(g, "logistic", p), q));
  tn__graph_output(g, "y", tn__g_binary(g, "add", x, tn__g_unary(g, "tanh", x)));
}

/* As GELU, but what is computed on the way is an output too. */
static void build_leaking_gelu(tn__graph *g) {
  tn__value *p = tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32);
  tn__value *bell = tn__g_unary(g, "erf", p);
  tn__graph_output(g, "bell", bell);
  tn__graph_output(g, "y", tn__g_binary(g, "multiply", p, bell));
}

typedef struct heads {
  int64_t rows, keys;
  bool open, shared, turned; /* keys of any number; the weights are an output too; values that lie along the keys */
  bool more, leaks;          /* the result goes through an addition; the scores' row sums are an output */
} heads;

/* softmax(q k^T / 2 + mask) v */
static void build_heads(tn__graph *g, const heads *h) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *rows = tn__ir_index(ir, h->rows), *keys = tn__ir_index(ir, h->keys), *two = tn__ir_index(ir, 2);
  const tn__expr *wide = tn__ir_index(ir, 8), *none = NULL;
  if (h->open) {
    tn__value *any = tn__graph_input(g, "any", TN_F32, 1, &none);
    tn__graph_input_symbol(g, "n", any, 0);
    keys = any->dims[0];
  }
  tn__value *q = tn__graph_input(g, "q", TN_F32, 3, (const tn__expr *[]){two, rows, wide});
  tn__value *k = tn__graph_input(g, "k", TN_F32, 3, (const tn__expr *[]){two, keys, wide});
  tn__value *v = tn__graph_input(
      g, "v", TN_F32, 3, h->turned ? (const tn__expr *[]){two, wide, keys} : (const tn__expr *[]){two, keys, wide});
  const int64_t batch = 0, last = 2;
  tn__value *scores = tn__g_dot_general(g, q, k, &batch, &batch, 1, &last, &last, 1, TN_F32);
  tn__value *mask = tn__graph_input(g, "mask", TN_F32, 3, scores->dims);
  scores = tn__g_binary(g, "add", tn__g_binary_s(g, "multiply", scores, 0.5), mask);
  tn__value *weights = tn__g_softmax(g, scores, 2, TN__SOFTMAX_PLAIN);
  if (h->shared) tn__graph_output(g, "weights", weights);
  const int64_t contract = h->turned ? 2 : 1;
  tn__value *y = tn__g_dot_general(g, weights, v, &batch, &batch, 1, &last, &contract, 1, TN_F32);
  if (h->more) y = tn__g_binary(g, "add", y, tn__graph_input(g, "rest", TN_F32, 3, y->dims));
  tn__graph_output(g, "y", y);
  if (h->leaks) tn__graph_output(g, "sums", tn__g_reduce(g, TN__REDUCE_SUM, scores, &last, 1, true));
}

static void build_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 49}); }
static void build_open_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .open = true}); }
static void build_shared_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 49, .shared = true}); }
static void build_turned_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 49, .turned = true}); }
static void build_more_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 49, .more = true}); }
static void build_leaking_attention(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 49, .leaks = true}); }
static void build_one_row(tn__graph *g) { build_heads(g, &(heads){.rows = 1, .keys = 49}); }
static void build_many_keys(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 16384}); }
static void build_too_many_keys(tn__graph *g) { build_heads(g, &(heads){.rows = 13, .keys = 16385}); }

/* exp joins neither the map before the product nor makes a kernel that needs its own result: x -> a -> product ->
 * add(a). */
static void build_no_cycle(tn__graph *g) {
  tn__value *a = tn__g_unary(g, "exponential", input(g, "x", 8, 8));
  tn__value *p = tn__g_matmul(g, a, a, TN_F32);
  tn__graph_output(g, "y", tn__g_binary(g, "add", a, tn__g_unary(g, "tanh", p)));
}

static void build_view(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  tn__value *y = tn__g_unary(g, "tanh", input(g, "x", 4, 8));
  tn__graph_output(g, "y", tn__g_reshape(g, y, 1, (const tn__expr *const[]){tn__ir_index(ir, 32)}));
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

enum { DEEP = 60000, SMALL_STACK = 256 * 1024 };

/* A kernel at both ends of a chain of other kernels, then one of nodes that have none, which are copied. */
static void build_deep(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *flat[] = {tn__ir_index(ir, 32)}, *square[] = {tn__ir_index(ir, 4), tn__ir_index(ir, 8)};
  tn__value *x = input(g, "x", 4, 8), *end = x, *first = tn__g_unary(g, "tanh", x);
  for (int i = 0; i < DEEP / 3; i++) {
    end = tn__g_reshape(g, end, 1, flat);
    end = tn__g_reshape(g, tn__g_unary(g, "negate", end), 2, square);
  }
  const tn__attr attrs[] = {tn__attr_exprs(g, "shape", square, 2), tn__attr_ints(g, "axes", (int64_t[]){0, 1}, 2)};
  tn__value *copied = tn__g_unary(g, "exponential", x);
  for (int i = 0; i < DEEP; i++) copied = tn__g_node(g, "broadcast_in_dim", &copied, 1, attrs, 2)->outputs[0];
  tn__graph_output(g, "y", tn__g_binary(g, "add", tn__g_binary(g, "add", first, end), copied));
}

static void fuse_deep(tn__escape *escape, void *arg) {
  tn__groups *groups = arg;
  tn__arena arena;
  tn__arena_init(&arena, NULL, escape);
  tn__graph *g = tn__graph_create(tn__ir_create(&arena), "deep");
  build_deep(g);
  *groups = tn__pass_fuse(g, NULL);
  tn__arena_release(&arena);
}

static void *run_deep(void *arg) {
  tn__escape escape;
  return tn__protect(&escape, fuse_deep, arg);
}

static void depth_takes_no_stack(void **state) {
  tn__groups groups = {0};
  pthread_attr_t attributes;
  pthread_t thread;
  void *status;
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
  assert_int_equal(pthread_create(&thread, &attributes, run_deep, &groups), 0);
  assert_int_equal(pthread_join(thread, &status), 0);
  pthread_attr_destroy(&attributes);
  check_ok(status);
  /* The chain's kernels and views, and the maps at its ends. */
  assert_true(groups.count > DEEP / 3 && groups.count <= DEEP + 3);
}

static void maps_become_one_kernel(void **state) { expect(build_chain, "negate+exponential+tanh ->1"); }

static void what_is_over_the_same_rows_is_one_kernel(void **state) {
  expect(build_softmax, "softmax ->1");
  expect(build_normalised_sum, "add+layer_norm+broadcast_in_dim+multiply+reduce+sqrt ->2");
  expect(build_two_directions, "softmax ->1; softmax ->1");
}

static void epilogues_join_their_product(void **state) { expect(build_epilogue, "dot_general+add+tanh ->1"); }

typedef struct turn {
  int64_t batch, rows, columns;
  int64_t order[3];
  bool shared; /* somebody else reads the product as it is */
} turn;

/* relu(transpose(product)) of [batch, rows, columns]. */
static void build_turn(tn__graph *g, const turn *t) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *batch = tn__ir_index(ir, t->batch), *deep = tn__ir_index(ir, 8);
  const tn__expr *left[3] = {batch, tn__ir_index(ir, t->rows), deep},
                 *right[3] = {batch, deep, tn__ir_index(ir, t->columns)};
  tn__value *a = tn__graph_input(g, "a", TN_F32, 3, left), *b = tn__graph_input(g, "b", TN_F32, 3, right);
  tn__value *product = tn__g_matmul(g, a, b, TN_F32);
  if (t->shared) tn__graph_output(g, "p", product);
  tn__graph_output(g, "y", tn__g_unary(g, "tanh", tn__g_transpose(g, product, t->order)));
}

static void build_turned_rows(tn__graph *g) { build_turn(g, &(turn){2, 16, 32, {0, 2, 1}}); }
static void build_moved_batch(tn__graph *g) { build_turn(g, &(turn){2, 1, 32, {1, 0, 2}}); }
static void build_few_turned_rows(tn__graph *g) { build_turn(g, &(turn){2, 7, 32, {0, 2, 1}}); }
static void build_batch_last(tn__graph *g) { build_turn(g, &(turn){16, 16, 32, {1, 2, 0}}); }
static void build_read_before(tn__graph *g) { build_turn(g, &(turn){2, 16, 32, {0, 2, 1}, true}); }

static void a_product_writes_its_result_transposed(void **state) {
  (void)state;
  expect(build_turned_rows, "dot_general+transpose+tanh ->1");
  expect(build_moved_batch, "dot_general+transpose+tanh ->1");
  expect(build_few_turned_rows, "dot_general ->1; transpose+tanh ->1");
  expect(build_batch_last, "dot_general ->1; transpose+tanh ->1");
  expect(build_read_before, "dot_general ->1; transpose+tanh ->1");
}

static void a_product_that_others_read_stays_alone(void **state) {
  expect(build_shared_product, "dot_general ->1; tanh ->1");
}

static void build_whole_gelu(tn__graph *g) {
  tn__graph_output(g, "y", tn__g_gelu(g, tn__g_matmul(g, input(g, "a", 4, 8), input(g, "b", 8, 16), TN_F32), false));
}

static void an_epilogue_may_read_a_value_twice(void **state) {
  expect(build_gelu, "dot_general+add+erf+add+multiply+multiply ->1");
  expect(build_whole_gelu, "dot_general+gelu ->1");
  expect(build_gated, "dot_general ->1; dot_general+logistic+multiply+multiply+tanh+add ->1");
  expect(build_leaking_gelu, "dot_general ->1; erf+multiply ->2");
}

static void attention_is_one_kernel(void **state) {
  static const char apart[] = "dot_general+multiply+add ->1; softmax ->1; dot_general ->1";
  expect_attending(build_attention, "attention ->1");
  expect_attending(build_open_attention, "attention ->1");
  expect_attending(build_many_keys, "attention ->1");
  expect_attending(build_more_attention, "attention+add ->1");
  expect_attending(build_shared_attention, apart);
  expect_attending(build_turned_attention, apart);
  expect_attending(build_one_row, apart);
  expect_attending(build_too_many_keys, apart);
  expect_attending(build_leaking_attention, "dot_general+multiply+add ->1; softmax ->1; dot_general ->1; reduce ->1");
}

/* Fusion itself looks for nothing. */
static void what_is_not_raised_stays_apart(void **state) {
  expect(build_attention, "dot_general+multiply+add ->1; softmax ->1; dot_general ->1");
}

static void kernels_never_need_their_own_results(void **state) {
  expect(build_no_cycle, "exponential ->1; dot_general+tanh+add ->1");
}

static void reshapes_are_views(void **state) { expect(build_view, "tanh ->1; view reshape ->1"); }

/* Six tensors of 64 MiB that are made of four numbers each. */
static void build_large_constants(tn__graph *g) {
  static const float numbers[4] = {1, 2, 3, 4};
  tn__ir *ir = tn__graph_ir(g);
  const int64_t shape[] = {4}, last[] = {1};
  const tn__expr *const dims[] = {tn__ir_index(ir, 1 << 22), tn__ir_index(ir, 4)};
  for (int i = 0; i < 6; i++) {
    tn__value *four = tn__g_constant_value(g, TN_F32, 1, shape, numbers, false);
    tn__value *wide = tn__g_broadcast_in_dim(g, four, 2, dims, last);
    tn__graph_output(g, (const char *const[]){"a", "b", "c", "d", "e", "f"}[i], tn__g_unary(g, "exponential", wide));
  }
}

static void large_constants_are_computed_by_the_run(void **state) {
  expect(build_large_constants,
         "constant broadcast_in_dim+exponential ->1; constant broadcast_in_dim+exponential ->1; constant "
         "broadcast_in_dim+exponential ->1; constant broadcast_in_dim+exponential ->1; broadcast_in_dim+exponential "
         "->1; broadcast_in_dim+exponential ->1");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(large_constants_are_computed_by_the_run),
                                     cmocka_unit_test(maps_become_one_kernel),
                                     cmocka_unit_test(what_is_over_the_same_rows_is_one_kernel),
                                     cmocka_unit_test(epilogues_join_their_product),
                                     cmocka_unit_test(a_product_writes_its_result_transposed),
                                     cmocka_unit_test(a_product_that_others_read_stays_alone),
                                     cmocka_unit_test(an_epilogue_may_read_a_value_twice),
                                     cmocka_unit_test(attention_is_one_kernel),
                                     cmocka_unit_test(what_is_not_raised_stays_apart),
                                     cmocka_unit_test(kernels_never_need_their_own_results),
                                     cmocka_unit_test(reshapes_are_views),
                                     cmocka_unit_test(depth_takes_no_stack)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
