/* Each primitive: legal uses give what the declaration says, illegal ones are refused in words. */
#include "schedule/internal.h"
#include "schedule/rules/choose.h"
#include "unit/schedule_check.h"

static tn__schedule *start(tn__ir *ir, declaration make) {
  static const char *const name = "x86-64-v4";
  tn__target *target = tn__arena_alloc(tn__ir_arena(ir), sizeof(*target));
  *target = test_target(name);
  return tn__schedule_of(make(ir), target);
}

typedef struct chosen {
  declaration make;
  const char *target;
  int threads;
} chosen;

static void default_of(tn__ir *ir, const void *arg) {
  const chosen *c = arg;
  tn__target target = test_target(c->target);
  tn__schedule_options options = {.threads = c->threads};
  tn__te *te = c->make(ir);
  check_ok(tn__te_verify(te));
  check_same(default_schedule(te, &target, &options));
}

static void defaults(void **state) {
  static const char *const targets[] = {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"};
  for (int i = 0; i < DECLARATION_COUNT; i++)
    for (int t = 0; t < 4; t++) {
      chosen c = {.make = declarations[i], .target = targets[t], .threads = 1 + t % 2};
      check_ok(in_context(default_of, &c));
    }
}

/* The default schedule must not be the plain nest: it tiles the product with accumulators in registers. */
static void product_tile(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  const char *trace = schedule_text(default_schedule(wide_product(ir), &target, NULL), false);
  assert_string_equal(trace + 24,
                      "\n"
                      "set_scope \"C\" 0 3\n"
                      "split \"C.i1\" 0 4 16\n"
                      "split \"C.i0\" 0 6\n"
                      "reorder \"C.i0.0\" \"C.i1.0\" \"C.k0\" \"C.i0.1\" \"C.i1.1\" \"C.i1.2\"\n"
                      "unroll \"C.i0.1\"\n"
                      "unroll \"C.i1.1\"\n"
                      "vectorize \"C.i1.2\"\n"
                      "reverse_compute_at \"D\" \"C.i1.0\"\n"
                      "decompose_reduction \"C\" \"C.k0\"\n"
                      "end\n");
}

typedef struct kinds {
  tn__expr_kind kind;
  int count;
} kinds;

static void count_kind(const tn__expr *e, void *user) {
  kinds *found = user;
  if (e->kind == found->kind) found->count++;
  for (int i = 0; i < e->arg_count; i++) count_kind(e->args[i], user);
}

static int count_in(tn__ir *ir, const tn__schedule *s, tn__expr_kind kind) {
  kinds found = {.kind = kind};
  tn__stmt_walk_exprs(tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL)->body, count_kind, &found);
  return found.count;
}

/* Padding that a convolution reads in place leaves no condition behind: interiors have none, and at the borders it is
 * known, loop by loop, what is outside. */
static void padding_in_place(tn__ir *ir, const void *arg) {
  const depthwise_shape *shape = arg;
  tn__target target = test_target("x86-64-v4");
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *s = default_schedule(depthwise_of(ir, shape), &target, &options);
  assert_non_null(strstr(schedule_text(s, false), "\ninline \"pad\"\n"));
  assert_int_equal(count_in(ir, s, TN__EXPR_SELECT), 0);
}

/* Two groups of 20 columns in vectors of 8 or 16: in the partial one, too, all lanes are of one group. */
static void groups_in_partial_vectors(tn__ir *ir, const void *arg) {
  for (int64_t lanes = 8; lanes <= 16; lanes *= 2) {
    tn__schedule *s = start(ir, grouped);
    tn__sched_split(s, "C.i1", (int64_t[]){0, 20}, 2);
    tn__sched_split(s, "C.i1.1", (int64_t[]){0, 3, lanes}, 3);
    tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i1.1.0", "C.i0", "C.k0", "C.i1.1.1", "C.i1.1.2"}, 6);
    tn__sched_unroll(s, "C.i1.1.1");
    tn__sched_vectorize(s, "C.i1.1.2");
    assert_int_equal(count_in(ir, s, TN__EXPR_DIV), 0);
    check_same(s);
  }
}

/* What is more than padding is computed a channel vector at a time, in private memory: the whole of it is never in
 * memory. */
static void streamed_map(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  const depthwise_shape shapes[] = {{56, 56, 96, 3, 2, 1, true}, {9, 3000, 96, 3, 1, 1, true}};
  const char *trace = schedule_text(default_schedule(depthwise_of(ir, &shapes[0]), &target, NULL), false);
  assert_non_null(strstr(trace, "\ncompute_at \"pad\" \"C.i2.0\"\nset_scope \"pad\" 0 2\n"));
  assert_non_null(strstr(trace, "\nvectorize \"pad.p2.1\"\n"));
  trace = schedule_text(default_schedule(depthwise_of(ir, &shapes[1]), &target, NULL), false);
  assert_non_null(strstr(trace, "\ncompute_at \"pad\""));
}

/* Attention is one nest over blocks of rows: nothing of the size of the scores is in the workspace. */
static void blocked_attention(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  const char *trace = schedule_text(default_schedule(attention(ir), &target, NULL), false);
  static const char *const stages[] = {"scores", "masked", "top", "power", "total", "weights"};
  for (int i = 0; i < 6; i++) {
    const char *name = stages[i], *at = strstr(trace, tn__arena_printf(tn__ir_arena(ir), "compute_at \"%s\"", name));
    const char *scope = strstr(trace, tn__arena_printf(tn__ir_arena(ir), "\nset_scope \"%s\" 0 ", name));
    if (at == NULL || scope == NULL) fail_msg("%s is not computed in private memory in\n%s", name, trace);
  }
  assert_non_null(strstr(trace, "\nreverse_compute_at \"masked\" \"scores.i2.0\"\n"));
}

/* Where there is nothing to move, no tile divides anything. */
static void empty_transposition(tn__ir *ir, const void *arg) {
  const int64_t *sizes = arg;
  tn__target target = test_target("x86-64-v4");
  tn__te *te = tn__te_create(ir, "turn");
  const tn__buffer *a = input(te, "A", 3, sizes[0], sizes[1], sizes[2]);
  tn__te_axes x = axes_of(te, "i", 3, (const int64_t[]){sizes[0], sizes[2], sizes[1]});
  tn__te_output(te, tn__te_compute(te, "C", &x, at(ir, a, 3, x.index[0], x.index[2], x.index[1])));
  for (int threads = 1; threads <= 2; threads++) {
    tn__schedule_options options = {.threads = threads};
    check_same(default_schedule(te, &target, &options));
  }
}

/* What is reduced over nothing is what the reduction starts from, in the interpreter, too. */
static void empty_reductions(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  for (int rank = 0; rank < 2; rank++) {
    tn__te *te = tn__te_create(ir, "nothing");
    const tn__buffer *a = input(te, "A", 2, 3, 0, 0);
    tn__te_axes x = axes_of(te, "i", rank, (const int64_t[]){3}), y = axes_of(te, "j", rank, (const int64_t[]){3});
    tn__te_axes r = axes_of(te, "k", 2, (const int64_t[]){2, 0});
    const tn__expr *row = rank == 0 ? tn__ir_index(ir, 0) : x.index[0];
    const tn__buffer *product = tn__te_reduce(te, "P", &x, &r, TN__TE_PROD, at(ir, a, 2, row, r.index[1], NULL));
    const tn__expr *value = tn__ir_load(ir, product, y.index);
    tn__te_output(te, tn__te_compute(te, "C", &y, tn__ir_sub(ir, value, tn__ir_constant(ir, TN_F32, 3))));
    float results[3] = {7, 7, 7}, none = 0;
    void *buffers[] = {&none, results};
    check_ok(tn__ir_interpret(ir, tn__te_lower(te), buffers, NULL, &(tn__interpret_options){0}));
    for (int i = 0; i < (rank == 0 ? 1 : 3); i++) assert_true(results[i] == -2);
    for (int threads = 1; threads <= 2; threads++) {
      tn__schedule_options options = {.threads = threads};
      check_same(default_schedule(te, &target, &options));
    }
  }
}

static void chooses(void **state) {
  check_ok(in_context(empty_reductions, NULL));
  static const int64_t empty[][3] = {{4, 0, 8}, {4, 8, 0}, {0, 8, 16}};
  for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) check_ok(in_context(empty_transposition, empty[i]));
  check_ok(in_context(blocked_attention, NULL));
  check_ok(in_context(product_tile, NULL));
  static const depthwise_shape padded[] = {{112, 112, 32, 3, 1, 1, false}, {112, 112, 96, 3, 2, 1, false},
                                           {7, 7, 64, 3, 1, 1, false},     {29, 31, 48, 5, 1, 2, false},
                                           {30, 43, 16, 7, 2, 3, false},   {13, 9, 32, 5, 3, 1, false}};
  for (size_t i = 0; i < sizeof(padded) / sizeof(padded[0]); i++) check_ok(in_context(padding_in_place, &padded[i]));
  check_ok(in_context(streamed_map, NULL));
  check_ok(in_context(groups_in_partial_vectors, NULL));
}

static void widths(void **state) {
  tn__target v4 = test_target("x86-64-v4"), v3 = test_target("x86-64-v3"), arm = test_target("aarch64");
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 1000), 32);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 10), 16);
  assert_int_equal(tn__schedule_pack_width(&v3, TN_F32, 1000), 16);
  /* Narrower or wider panels where the last one would be padding for a good part. */
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 144), 48);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 24), 32);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 112), 16);
  v4.cpu.machine.core.fma_bytes = 64; /* two halves as fast as one vector */
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 24), 24);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 40), 8);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 6), 8);
  assert_int_equal(tn__schedule_pack_width(&v4, TN_F32, 1000), 32);
  assert_int_equal(tn__schedule_pack_width(&v3, TN_F64, 1000), 8);
  assert_int_equal(tn__schedule_pack_width(&arm, TN_F16, 1000), 8);
}

static void loops_of_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_split(s, "C.i0", (int64_t[]){0, 3}, 2);
  tn__sched_split(s, "C.i1", (int64_t[]){2, 0, 4}, 3);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i0.1", "C.i1.2"}, 3);
  tn__sched_unroll(s, "C.i0.1");
  tn__sched_fuse(s, "D.i0", "D.i1");
  tn__sched_split(s, "D.i0+D.i1", (int64_t[]){0, 8}, 2);
  tn__sched_vectorize(s, "D.i0+D.i1.1");
  tn__sched_parallel(s, "D.i0+D.i1.0");
  check_same(s);
}

static void tiled_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_split(s, "C.i0", (int64_t[]){0, 3}, 2);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 4}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i0.0", "C.i1.0", "C.k0", "C.i0.1", "C.i1.1"}, 5);
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_REGISTER);
  tn__sched_vectorize(s, "C.i1.1");
  tn__sched_unroll(s, "C.i0.1");
  tn__sched_reverse_compute_at(s, "D", "C.i1.0");
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_parallel(s, "C.i0.0");
  check_same(s);
}

/* The copy is of the type that the sum's terms have, and they cast no more. */
static void cast_once(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, bf16_dots);
  tn__sched_cache_read_cast(s, "C", 1, TN__SCOPE_WORKSPACE);
  tn__sched_compute_at(s, "C.read1", "C.i0");
  tn__sched_set_scope(s, "C.read1", 0, TN__SCOPE_STACK);
  const char *text = schedule_text(s, true);
  assert_non_null(strstr(text, "alloc A.read: f32[1, 6] stack"));
  assert_null(strstr(text, "*f32(A"));
  check_same(s);
}

static void cached_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_cache_write(s, "D", 0, TN__SCOPE_STACK);
  tn__sched_cache_read(s, "C", 1, TN__SCOPE_WORKSPACE);
  tn__sched_split(s, "D.write.a0", (int64_t[]){0, 2}, 2);
  tn__sched_compute_at(s, "D", "D.write.a0.0");
  tn__sched_compute_at(s, "C", "D.write.a0.0");
  tn__sched_parallel(s, "D.write.a0.0");
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  check_same(s);
}

static void moved_stencil(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__sched_inline(s, "Q");
  tn__sched_split(s, "R.i1", (int64_t[]){0, 4}, 2);
  tn__sched_compute_at(s, "P", "R.i1.0");
  tn__sched_set_scope(s, "P", 0, TN__SCOPE_STACK);
  tn__sched_parallel(s, "R.i0");
  check_same(s);
}

static void reverse_inlined(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__sched_reverse_inline(s, "R");
  check_same(s);
}

static void factored_rows(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, rows);
  tn__sched_compute_at(s, "sum", "out.i0");
  tn__sched_compute_at(s, "e", "out.i0");
  tn__sched_compute_at(s, "top", "out.i0");
  tn__sched_split(s, "sum.k0", (int64_t[]){0, 8}, 2);
  tn__sched_rfactor(s, "sum.k0.1");
  tn__sched_split(s, "top.k0", (int64_t[]){0, 64}, 2); /* more lanes than elements */
  tn__sched_rfactor(s, "top.k0.1");
  tn__sched_vectorize(s, "sum.k0.1");
  tn__sched_set_scope(s, "sum.rf", 0, TN__SCOPE_STACK);
  tn__sched_set_scope(s, "e", 0, TN__SCOPE_STACK);
  tn__sched_parallel(s, "out.i0");
  check_same(s);
}

/* The map's two readers need different parts of it. */
static void shared_producer(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, two_readers);
  tn__sched_split(s, "R.i1", (int64_t[]){0, 5}, 2);
  tn__sched_compute_at(s, "T", "R.i1.0");
  tn__sched_compute_at(s, "Q", "R.i1.0");
  tn__sched_compute_at(s, "P", "R.i1.0");
  tn__sched_set_scope(s, "P", 0, TN__SCOPE_STACK);
  check_same(s);
}

static void factored_argmax(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, argmax);
  tn__sched_split(s, "top.k0", (int64_t[]){0, 8}, 2);
  tn__sched_rfactor(s, "top.k0.1");
  check_same(s);
}

static void legal(void **state) {
  check_ok(in_context(loops_of_product, NULL));
  check_ok(in_context(tiled_product, NULL));
  check_ok(in_context(cached_product, NULL));
  check_ok(in_context(cast_once, NULL));
  check_ok(in_context(moved_stencil, NULL));
  check_ok(in_context(reverse_inlined, NULL));
  check_ok(in_context(factored_rows, NULL));
  check_ok(in_context(factored_argmax, NULL));
  check_ok(in_context(shared_producer, NULL));
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

typedef struct refusal {
  declaration make;
  void (*steps)(tn__schedule *s); /* all but the last are legal */
  const char *words;
} refusal;

static void no_loop(tn__schedule *s) { tn__sched_unroll(s, "C.x"); }
static void no_block(tn__schedule *s) { tn__sched_inline(s, "X"); }
static void short_factors(tn__schedule *s) { tn__sched_split(s, "C.i0", (int64_t[]){2, 3}, 2); }
static void two_open(tn__schedule *s) { tn__sched_split(s, "C.i0", (int64_t[]){0, 0}, 2); }
static void not_nested(tn__schedule *s) { tn__sched_fuse(s, "C.i0", "C.k0"); }
static void mixed(tn__schedule *s) { tn__sched_fuse(s, "C.i1", "C.k0"); }
static void other_nest(tn__schedule *s) { tn__sched_reorder(s, (const char *[]){"C.i0", "D.i0"}, 2); }
static void twice(tn__schedule *s) { tn__sched_reorder(s, (const char *[]){"C.i0", "C.i0"}, 2); }
static void parallel_sum(tn__schedule *s) { tn__sched_parallel(s, "C.k0"); }
static void vector_outside(tn__schedule *s) { tn__sched_vectorize(s, "D.i0"); }
static void vector_open(tn__schedule *s) { tn__sched_vectorize(s, "D.i0"); }
static void unroll_open(tn__schedule *s) { tn__sched_unroll(s, "C.i0"); }
static void nested_parallel(tn__schedule *s) {
  tn__sched_parallel(s, "D.i0");
  tn__sched_parallel(s, "D.i1");
}
static void scan_parallel(tn__schedule *s) { tn__sched_parallel(s, "S.i0"); }
static void overlap_parallel(tn__schedule *s) {
  tn__sched_inline(s, "Q");
  tn__sched_compute_at(s, "P", "R.i0");
  tn__sched_parallel(s, "R.i0");
}
/* Rows that each iteration keeps for itself, until they get a place that all of them write to. */
static void shared_parallel(tn__schedule *s) {
  tn__sched_inline(s, "Q");
  tn__sched_compute_at(s, "P", "R.i0");
  tn__sched_set_scope(s, "P", 0, TN__SCOPE_STACK);
  tn__sched_parallel(s, "R.i0");
  tn__sched_set_scope(s, "P", 0, TN__SCOPE_WORKSPACE);
  tn__schedule_func(s);
}
/* Threads that each pad what they read, and go on to do so when what reads it has gone. */
static void leave_shared(tn__schedule *s) {
  tn__sched_parallel(s, "C.o1");
  tn__sched_compute_at(s, "pad", "C.k2");
  tn__sched_compute_at(s, "C", "D.o1");
}
static void inline_sum(tn__schedule *s) { tn__sched_inline(s, "C"); }
static void inline_output(tn__schedule *s) { tn__sched_inline(s, "D"); }
static void inline_in_nest(tn__schedule *s) {
  tn__sched_compute_at(s, "P", "Q.i0");
  tn__sched_inline(s, "Q");
}
static void inline_back(tn__schedule *s) { tn__sched_reverse_inline(s, "D"); }
static void at_stranger(tn__schedule *s) { tn__sched_compute_at(s, "P", "R.i0"); }
static void at_output(tn__schedule *s) { tn__sched_compute_at(s, "D", "C.i0"); }
static void at_own(tn__schedule *s) { tn__sched_compute_at(s, "C", "C.i0"); }
static void behind_reduction(tn__schedule *s) {
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i0"}, 2);
  tn__sched_reverse_compute_at(s, "D", "C.i0");
}
static void behind_stencil(tn__schedule *s) { tn__sched_reverse_compute_at(s, "Q", "P.i0"); }
static void behind_stranger(tn__schedule *s) { tn__sched_reverse_compute_at(s, "R", "P.i0"); }
static void behind_padding(tn__schedule *s) {
  tn__sched_cache_read(s, "pad", 0, TN__SCOPE_WORKSPACE);
  tn__sched_reverse_compute_at(s, "pad", "pad.read0.a0");
}
static void no_init(tn__schedule *s) { tn__sched_decompose_reduction(s, "D", "D.i0"); }
static void init_inside(tn__schedule *s) { tn__sched_decompose_reduction(s, "C", "D.i0"); }
static void init_late(tn__schedule *s) {
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i1"}, 2);
  tn__sched_decompose_reduction(s, "C", "C.i1");
}
static void init_repeated(tn__schedule *s) {
  tn__sched_compute_at(s, "sum", "out.i1");
  tn__sched_decompose_reduction(s, "sum", "out.i0");
}
static void scan_sideways(tn__schedule *s) {
  tn__sched_reorder(s, (const char *[]){"S.i1", "S.i0"}, 2);
  tn__sched_reorder(s, (const char *[]){"S.i2", "S.i0"}, 2);
}
static void factor_space(tn__schedule *s) { tn__sched_rfactor(s, "C.i0"); }
static void factor_late(tn__schedule *s) {
  tn__sched_split(s, "C.k0", (int64_t[]){0, 2}, 2);
  tn__sched_decompose_reduction(s, "C", "C.k0.0");
  tn__sched_rfactor_at(s, "C.k0.0", "C.k0.0");
}
static void scope_output(tn__schedule *s) { tn__sched_set_scope(s, "D", 0, TN__SCOPE_STACK); }
static void scope_param(tn__schedule *s) { tn__sched_set_scope(s, "C", 0, TN__SCOPE_PARAM); }
static void no_tensor(tn__schedule *s) { tn__sched_cache_write(s, "C", 1, TN__SCOPE_STACK); }
static void no_cast(tn__schedule *s) { tn__sched_cache_read_cast(s, "C", 1, TN__SCOPE_STACK); }
static void no_read(tn__schedule *s) { tn__sched_cache_read(s, "C", 7, TN__SCOPE_STACK); }
static void private_open(tn__schedule *s) {
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  tn__schedule_func(s);
}
static void vector_inside(tn__schedule *s) {
  tn__sched_vectorize(s, "D.i1");
  tn__sched_reorder(s, (const char *[]){"D.i1", "D.i0"}, 2);
}

static const refusal refusals[] = {
    {product, no_loop, "there is no loop \"C.x\""},
    {product, no_block, "there is no block \"X\""},
    {product, short_factors, "split of \"C.i0\": the factors do not cover the loop's extent"},
    {product, two_open, "split of \"C.i0\": only one factor can be 0"},
    {product, not_nested, "fuse of \"C.i0\" and \"C.k0\": they are not perfectly nested"},
    {product, mixed, "fuse of \"C.i1\" and \"C.k0\": they drive axes of different kinds"},
    {product, other_nest, "reorder: the loops are not nested in each other"},
    {product, twice, "reorder: \"C.i0\" is named twice"},
    {product, parallel_sum, "parallel of \"C.k0\": block \"C\" reduces over the loop"},
    {product, vector_outside, "vectorize of \"D.i0\": the loop is not innermost"},
    {open_product, vector_open, "vectorize of \"D.i0\": the extent must be a constant of at most 256"},
    {open_product, unroll_open, "unroll of \"C.i0\": the extent must be a constant of at most 256"},
    {product, nested_parallel, "parallel of \"D.i1\": parallel loops do not nest"},
    {running, scan_parallel, "parallel of \"S.i0\": block \"S\" scans along the loop"},
    {stencil, overlap_parallel,
     "parallel of \"R.i0\": block \"P\" writes the same elements in several iterations; fold its tensor in "
     "the loop, or give it a private scope, before"},
    {stencil, shared_parallel, "P is shared by the threads of loop \"R.i0\", whose iterations write the same elements"},
    {convolution, leave_shared,
     "compute_at of \"C\": \"pad\" computes in each iteration of \"C.o1\" what it reads there"},
    {product, inline_sum, "inline of \"C\": it is not element-wise"},
    {product, inline_output, "inline of \"D\": it writes the output D"},
    {stencil, inline_in_nest, "inline of \"Q\": it reads what \"P\" writes in the same nest"},
    {product, inline_back, "reverse_inline of \"C\": it is not element-wise"},
    {stencil, at_stranger, "compute_at of \"P\": its reader \"Q\" is not under \"R.i0\""},
    {product, at_output, "compute_at of \"D\": it writes the output D"},
    {product, at_own, "compute_at of \"C\": it is under \"C.i0\" already"},
    {product, behind_reduction, "reverse_compute_at of \"D\": \"C\" is not complete inside of \"C.i0\""},
    {stencil, behind_stencil, "reverse_compute_at of \"Q\": it does not read P element by element"},
    {stencil, behind_stranger, "reverse_compute_at of \"R\": nothing under \"P.i0\" writes what it reads"},
    {convolution, behind_padding, "reverse_compute_at of \"pad\": its elements reach beyond those of A.read"},
    {product, no_init, "decompose_reduction of \"D\": it has no initialisation"},
    {product, init_inside, "decompose_reduction of \"C\": it is not under \"D.i0\""},
    {product, init_late, "decompose_reduction of \"C\": it reduces over \"C.k0\", which is around \"C.i1\""},
    {rows, init_repeated,
     "decompose_reduction of \"sum\": loop \"out.i1\" computes elements of \"sum\" more than once"},
    {skewed, scan_sideways, "reorder: \"S.i2\" cannot go around \"S.i0\": the scan reads other positions of that axis"},
    {product, factor_space, "rfactor of \"C.i0\": block \"C\" does not reduce over the loop"},
    {product, factor_late, "rfactor_at of \"C.k0.0\": the initialisation of \"C\" has been split off already"},
    {product, scope_output, "set_scope of \"D\": D is an output"},
    {product, scope_param, "set_scope of \"C\": the scope must be workspace, stack, register or shared"},
    {product, no_tensor, "cache_write of \"C\": there is no tensor 1, it has 1"},
    {product, no_cast, "cache_read_cast of \"C\": it does not cast all that it reads of A to one type"},
    {product, no_read, "cache_read of \"C\": there is no tensor 7, it has 3"},
    {open_product, private_open, "C cannot be kept private: dimension 0 has no constant bound where it is used"},
    {product, vector_inside, "reorder: the vectorised loop \"D.i1\" must stay innermost"},
};

static void refuse(tn__ir *ir, const void *arg) {
  const refusal *r = arg;
  r->steps(start(ir, r->make));
}

static void illegal(void **state) {
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
    tn_status *status = in_context(refuse, &refusals[i]);
    if (status == NULL) fail_msg("not refused: %s", refusals[i].words);
    const char *text = strstr(tn_status_message(status), ": ");
    assert_non_null(text);
    if (strstr(text, refusals[i].words) == NULL) fail_msg("\"%s\" instead of \"%s\"", text, refusals[i].words);
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    tn_status_free(status);
  }
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

static void replay_all(tn__ir *ir, const void *arg) {
  const chosen *c = arg;
  tn__target target = test_target(c->target);
  tn__schedule_options options = {.threads = c->threads};
  tn__te *te = c->make(ir);
  const tn__schedule *s = default_schedule(te, &target, &options);
  const char *trace = schedule_text(s, false);
  tn__schedule *again;
  check_ok(tn__sched_trace_replay(te, &target, trace, &again));
  assert_string_equal(schedule_text(again, false), trace);
  tn__strbuf first, second;
  tn__strbuf_init(&first, NULL);
  tn__strbuf_init(&second, NULL);
  tn__func_print(tn__schedule_func(s), &first);
  tn__func_print(tn__schedule_func(again), &second);
  assert_string_equal(tn__strbuf_text(&first), tn__strbuf_text(&second));
  tn__strbuf_release(&first);
  tn__strbuf_release(&second);
}

static void replays(void **state) {
  for (int i = 0; i < DECLARATION_COUNT; i++) {
    chosen c = {.make = declarations[i], .target = "x86-64-v4", .threads = 2};
    check_ok(in_context(replay_all, &c));
  }
}

static void refuse_traces(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  tn__te *te = product(ir), *other = stencil(ir);
  tn__schedule *s = tn__schedule_of(te, &target), *out;
  const char *whole = schedule_text(s, false);
  tn_status *status = tn__sched_trace_replay(other, &target, whole, &out);
  assert_non_null(status);
  assert_null(out);
  assert_non_null(strstr(tn_status_message(status), "trace:1: the trace is of another declaration ("));
  assert_non_null(strstr(tn_status_message(status), ") than stencil ("));
  tn_status_free(status);
  const char *head = tn__arena_strndup(tn__ir_arena(ir), whole, strlen(whole) - strlen("end\n"));
  static const char *const cases[][2] = {
      {"", "trace:2: the trace breaks off: \"end\" is missing"},
      {"unroll \"D.i1\"\n", "trace:3: the trace breaks off: \"end\" is missing"},
      {"end\nunroll \"D.i1\"\n", "trace:3: text behind the end of the trace"},
      {"end\n\n \nend\n", "trace:5: text behind the end of the trace"},
      {"end of it\n", "trace:2: there is no step \"end\""},
      {" end\n", "trace:2: there is no step \"\""},
      {"\n", "trace:2: there is no step \"\""},
      {"tile \"C.i0\" \"C.i1\" 2 2 2\n", "trace:2: tile takes as many sizes as loops, not 3 for 2"},
      {"transform_layout \"C\" 0 1 0 1\n", "trace:2: transform_layout takes three numbers for each part, not 4"},
      {"split \"C.i0\" 0\n", "trace:2: split takes 1 to 1 names and 2 to 8 numbers, not 1 and 1"},
      {"turn \"C.i0\"\n", "trace:2: there is no step \"turn\""},
      {"unroll \"C.i0\n", "trace:2: a name lacks its closing quote"},
      {"unroll C.i0\n", "trace:2: expected a name in quotes or a number at \"C.i0\""},
      {"split \"C.i0\" 0 99999999999\n", "trace:2: expected a name in quotes or a number at \"99999999999\""},
      {"unroll \"D.i1\"\nunroll \"C.x\"\n", "trace:3: schedule of product: unroll: there is no loop \"C.x\""},
      {"cache_read_in_order \"C\" 1 1 0 0\n",
       "trace:2: schedule of product: cache_read of \"C\": the order is no permutation of the 2 dimensions of A"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    check_fails(
        tn__sched_trace_replay(te, &target, tn__arena_printf(tn__ir_arena(ir), "%s%s", head, cases[i][0]), &out),
        TN_INVALID_ARGUMENT, cases[i][1]);
  static const char *const ends[] = {"end", "end\n\n", "end \t\n", "end\r\n\r\n", "end\n  \n\t"};
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
    check_ok(tn__sched_trace_replay(te, &target, tn__arena_printf(tn__ir_arena(ir), "%s%s", head, ends[i]), &out));
  check_fails(tn__sched_trace_replay(te, &target, "", &out), TN_INVALID_ARGUMENT,
              "trace:1: expected \"trace 1 DIGEST\"");
  check_fails(tn__sched_trace_replay(te, &target, "trace x\n", &out), TN_INVALID_ARGUMENT,
              "trace:1: expected \"trace 1 DIGEST\"");
  check_fails(tn__sched_trace_replay(te, &target, "trace 2 0123456789abcdef\nend\n", &out), TN_INVALID_ARGUMENT,
              "trace:1: the trace has version 2, and this Tenon reads version 1; use a newer one");
}

static void refuses_traces(void **state) { check_ok(in_context(refuse_traces, NULL)); }

/* ---- many stages ------------------------------------------------------------------------------------------------- */

/* Searches by name look at as many nodes however many stages there are. */
static void find_among(tn__ir *ir, const void *arg) {
  enum { STAGES = 2000 };
  tn__te *te = tn__te_create(ir, "stages");
  const tn__expr *shape[] = {tn__ir_index(ir, 64)};
  const tn__buffer *tensor = tn__te_input(te, "X", TN_F32, 1, shape);
  for (int i = 0; i < STAGES; i++) {
    tn__te_axes axes = tn__te_axes_create(te, "i", 1, shape);
    const char *name = tn__arena_printf(tn__ir_arena(ir), "S%d", i);
    tensor = tn__te_compute(te, name, &axes,
                            tn__ir_add(ir, tn__ir_load(ir, tensor, axes.index), tn__ir_constant(ir, TN_F32, 1)));
  }
  tn__te_output(te, tensor);
  tn__target target = test_target("x86-64-v4");
  tn__schedule *s = tn__schedule_of(te, &target);
  for (int i = 0; i < STAGES; i++) {
    const char *loop = tn__arena_printf(tn__ir_arena(ir), "S%d.i0", i);
    tn__sched_split(s, loop, (int64_t[]){0, 16}, 2);
    assert_null(tn__sched_find(s, loop, false));
    assert_non_null(tn__sched_find(s, tn__arena_printf(tn__ir_arena(ir), "%s.1", loop), false));
    assert_non_null(tn__sched_find(s, tn__te_stage_at(te, i)->name, true));
    assert_null(tn__sched_find(s, tn__te_stage_at(te, i)->name, false));
  }
  assert_in_range(s->visited, STAGES, STAGES * 20);
}

static void finds_among_many_stages(void **state) { check_ok(in_context(find_among, NULL)); }

/* So do those by tensor: the default schedule of many reductions takes as much for each as that of few. */
static void visit_users(tn__ir *ir, const void *arg) {
  tn__target target = test_target("x86-64-v4");
  for (int threads = 1; threads <= 2; threads++) {
    tn__schedule_options options = {.threads = threads};
    int64_t visited[2];
    for (int i = 0; i < 2; i++) {
      int stages = i == 0 ? 100 : 400;
      const tn__schedule *s =
          default_schedule(chain_of(tn__ir_create(tn__ir_arena(ir)), stages, 64), &target, &options);
      assert_true(s->steps.count >= 10 * stages);
      visited[i] = s->visited / stages;
    }
    assert_in_range(visited[1], 1, visited[0] * 3 / 2);
  }
}

static void users_are_found_among_many_stages(void **state) { check_ok(in_context(visit_users, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(legal),
      cmocka_unit_test(illegal),
      cmocka_unit_test(defaults),
      cmocka_unit_test(chooses),
      cmocka_unit_test(widths),
      cmocka_unit_test(replays),
      cmocka_unit_test(refuses_traces),
      cmocka_unit_test(finds_among_many_stages),
      cmocka_unit_test(users_are_found_among_many_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
