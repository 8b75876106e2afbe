/* Primitives beyond the loops: layouts, instructions, axes of a GPU, pragmas, prefetches. Legal uses give what the
 * declaration says and replay from their trace; illegal ones are refused in words. */
#include "schedule/internal.h"
#include "target/text/text.h"
#include "unit/kernel.h"
#include "unit/schedule_check.h"

static const char *const target_name = "x86-64-v4+avx512bf16+avx512vnni";

static tn__schedule *start_on(tn__ir *ir, declaration make, const char *name) {
  tn__target *target = tn__arena_alloc(tn__ir_arena(ir), sizeof(*target));
  *target = test_target(name);
  return tn__schedule_of(make(ir), target);
}
static tn__schedule *start(tn__ir *ir, declaration make) { return start_on(ir, make, target_name); }

/* Right, and its trace gives the same function again. */
static void check_all(const tn__schedule *s) {
  tn__target target = *s->target;
  tn__schedule *again;
  check_same(s);
  check_ok(tn__sched_trace_replay(tn__schedule_te(s), &target, schedule_text(s, false), &again));
  assert_string_equal(schedule_text(again, false), schedule_text(s, false));
  assert_string_equal(schedule_text(again, true), schedule_text(s, true));
}

/* ---- legal uses -------------------------------------------------------------------------------------------------- */

static void tiles(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_tile(s, (const char *[]){"C.i0", "C.i1", "C.k0"}, (int64_t[]){3, 4, 2}, 3);
  tn__sched_split(s, "D.i1", (int64_t[]){2, 0}, 2);
  const char *names[8];
  assert_int_equal(tn__sched_loops_of(s, "C", names, 8), 6);
  assert_string_equal(names[2], "C.k0.0");
  assert_string_equal(names[3], "C.i0.1");
  assert_non_null(strstr(schedule_text(s, false), "tile \"C.i0\" \"C.i1\" \"C.k0\" 3 4 2\nsplit \"D.i1\" 2 0\n"));
  check_all(s);
}

static void roots(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__sched_compute_at(s, "Q", "R.i0");
  tn__sched_compute_at(s, "P", "R.i0");
  tn__sched_compute_root(s, "P"); /* before the nest */
  tn__sched_reverse_compute_at(s, "R", "Q.i1");
  tn__sched_compute_root(s, "R"); /* behind the nest */
  check_all(s);
}

/* P and Q, of the one before at the same place or, where `wide`, at the next place, too; all are wanted. */
static tn__te *wanted_of(tn__ir *ir, bool wide) {
  tn__te *te = tn__te_create(ir, "outputs");
  const tn__buffer *x = input(te, "X", 2, 7, 9, 0);
  tn__te_axes a = axes_of(te, "i", 2, (int64_t[]){7, 9}), b = axes_of(te, "i", 2, (int64_t[]){7, 9}),
              c = axes_of(te, "i", 2, (int64_t[]){7, 9});
  const tn__expr *two = tn__ir_constant(ir, TN_F32, 2);
  const tn__buffer *p = tn__te_compute(te, "P", &a, tn__ir_mul(ir, tn__ir_load(ir, x, a.index), two));
  const tn__expr *value = tn__ir_add(ir, tn__ir_load(ir, p, b.index), two);
  const tn__expr *next = tn__ir_min(ir, tn__ir_add_i(ir, b.index[0], 1), tn__ir_index(ir, 6));
  if (wide) value = tn__ir_add(ir, value, at(ir, p, 2, next, b.index[1], NULL));
  const tn__buffer *q = tn__te_compute(te, "Q", &b, value);
  const tn__expr *sum = tn__ir_add(ir, tn__ir_load(ir, p, c.index), tn__ir_load(ir, q, c.index));
  tn__te_output(te, p);
  tn__te_output(te, q);
  tn__te_output(te, tn__te_compute(te, "R", &c, sum));
  return te;
}
static tn__te *outputs(tn__ir *ir) { return wanted_of(ir, false); }
static tn__te *wide_outputs(tn__ir *ir) { return wanted_of(ir, true); }

/* Outputs that are read element by element are written where they are read, also what others read behind. */
static void outputs_move(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, outputs);
  tn__sched_compute_at(s, "P", "Q.i0");
  check_all(s);
  s = start(ir, outputs);
  tn__sched_split(s, "Q.i0", (int64_t[]){0, 3}, 2);
  tn__sched_compute_at(s, "P", "Q.i0.0");
  tn__sched_reverse_compute_at(s, "R", "Q.i0.0");
  check_all(s);
  s = start(ir, outputs);
  tn__sched_reorder(s, (const char *[]){"R.i1", "R.i0"}, 2);
  tn__sched_compute_at(s, "Q", "R.i1");
  tn__sched_compute_at(s, "P", "R.i1");
  check_all(s);
}

/* A weighted operand with its rows innermost, the block of which then moves as any other does. */
static void hoists(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, three_factors);
  assert_string_equal(tn__sched_hoist(s, "C", 1, 0), "C.part");
  assert_non_null(strstr(schedule_text(s, true), "C.part[k0, i0] = A[i0, k0]*w[k0]"));
  assert_non_null(strstr(schedule_text(s, false), "hoist \"C\" 1 0\n"));
  tn__sched_compute_at(s, "C.part", "C.i0");
  check_all(s);
}

static void bound(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_tile(s, (const char *[]){"C.i0", "C.i1"}, (int64_t[]){2, 4}, 2);
  tn__sched_bind(s, "C.i0.0", "block.y");
  tn__sched_bind(s, "C.i1.0", "block.x");
  tn__sched_bind(s, "C.i0.1", "thread.y");
  tn__sched_bind(s, "C.i1.1", "thread.x");
  tn__sched_reverse_compute_at(s, "D", "C.i1.0");
  const char *text = schedule_text(s, true);
  assert_non_null(strstr(text, "block.y C.i0.0 in"));
  assert_non_null(strstr(text, "thread.x C.i1.1 in"));
  assert_null(strstr(text, "parallel"));
  check_all(s);
}

/* Tiles of C that the threads of a block share. */
static void share_tiles(tn__schedule *s) {
  tn__sched_tile(s, (const char *[]){"C.i0", "C.i1"}, (int64_t[]){2, 4}, 2);
  tn__sched_bind(s, "C.i0.0", "block.y");
  tn__sched_bind(s, "C.i1.0", "block.x");
  tn__sched_bind(s, "C.i0.1", "thread.y");
  tn__sched_bind(s, "C.i1.1", "thread.x");
  tn__sched_reverse_compute_at(s, "D", "C.i1.0");
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_SHARED);
}

static void shared(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  share_tiles(s);
  const char *text = schedule_text(s, true);
  assert_non_null(strstr(text, "alloc C: f32[2, 4] shared"));
  assert_true(strstr(text, "block.x C.i1.0") < strstr(text, "alloc C"));
  assert_true(strstr(text, "alloc C") < strstr(text, "thread.y C.i0.1"));
  check_all(s);
  tn__sched_limit_shared(s, 0);
  tn__sched_limit_shared(s, 32);
  s = start_on(ir, product, "gpu,shared_bytes=32");
  share_tiles(s);
  tn__schedule_func(s);
}

/* What several threads read is computed once in each block, together with what reaches into the next one. */
static void shared_halo(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__sched_split(s, "Q.i0", (int64_t[]){0, 3}, 2);
  tn__sched_bind(s, "Q.i0.0", "block.x");
  tn__sched_bind(s, "Q.i0.1", "thread.x");
  tn__sched_compute_at(s, "P", "Q.i0.0");
  tn__sched_set_scope(s, "P", 0, TN__SCOPE_SHARED);
  assert_non_null(strstr(schedule_text(s, true), " shared {"));
  check_all(s);
}

static void pragmas(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 4}, 2);
  tn__sched_pragma(s, "C.i1.0", "whole", 1);
  tn__sched_unroll(s, "C.i1.1");
  tn__sched_pragma(s, "C.i1.1", "unroll_limit", 2);
  assert_non_null(strstr(schedule_text(s, true), "for C.i1.0 in [0, +3) pragma whole 1 {"));
  assert_non_null(strstr(schedule_text(s, true), "unrolled C.i1.1 in [0, +4) pragma unroll_limit 2 {"));
  check_all(s);
}

static void prefetches(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, wide_product);
  tn__sched_prefetch_block(s, "C", 2, "C.k0", 4);
  tn__sched_prefetch_block(s, "D", 0, "D.i0", 1);
  const char *text = schedule_text(s, true);
  assert_non_null(strstr(text, "prefetch B[C.k0 + 4, C.i1]"));
  assert_non_null(strstr(text, "prefetch C[D.i0 + 1, 48]")); /* four lines of a row of 64 */
  assert_null(strstr(text, "prefetch C[D.i0 + 1, 64]"));
  check_all(s);
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  assert_null(strstr(schedule_text(s, true), "prefetch C["));
  tn__sched_parallel(s, "D.i0"); /* the task must know the tensor */
  check_all(s);
}

/* Hints of blocks that came to do something else are gone in the end. */
static void streams(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, wide_product);
  tn__sched_split(s, "D.i1", (int64_t[]){0, 16}, 2);
  tn__sched_vectorize(s, "D.i1.1");
  tn__sched_stream(s, "D", 0);
  assert_non_null(strstr(schedule_text(s, true), " stream D[i0, i1] = "));
  tn__sched_parallel(s, "D.i0");
  check_all(s);
  tn__sched_cache_write(s, "D", 0, TN__SCOPE_STACK);
  assert_null(strstr(schedule_text(s, true), "stream"));
  check_all(s);
}

/* The next panel of columns, row by row while this one is in use. */
static void prefetches_ahead(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, wide_product);
  tn__sched_split(s, "C.i1", (const int64_t[]){0, 16}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i0", "C.k0", "C.i1.1"}, 4);
  tn__sched_prefetch_ahead(s, "C", 2, "C.k0", "C.i1.0", 1);
  assert_non_null(strstr(schedule_text(s, true), "prefetch B[C.k0, C.i1.0*16 + 16]"));
  check_all(s);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i0", "C.i1.0"}, 3); /* the loop stands around no longer */
  assert_null(strstr(schedule_text(s, true), "prefetch"));
  check_all(s);
}

/* The next three rows of eleven once, spread over the 704 turns of the loops around these. */
static void prefetches_spread(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, wide_product);
  tn__sched_split(s, "C.i0", (const int64_t[]){0, 3}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i0.0", "C.i1", "C.k0", "C.i0.1"}, 4);
  tn__sched_prefetch_spread(s, "C", 1, "C.k0", "C.i0.0", 1);
  assert_non_null(strstr(schedule_text(s, true), "prefetch_far A[C.i0.0*3 + 3, C.i1*11 + C.k0]"));
  check_all(s);
  tn__sched_prefetch_spread(s, "C", 2, "C.k0", "C.i0.0", 1); /* the same in each iteration: 704 elements */
  assert_non_null(strstr(schedule_text(s, true), "prefetch_far B[0, C.i1*11 + C.k0]"));
  check_all(s);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i1", "C.i0.0"}, 3); /* the loop stands around no longer */
  assert_null(strstr(schedule_text(s, true), "prefetch"));
  check_all(s);
}

/* Columns of rows that go on beside them do not lie in one piece. */
static void prefetches_no_pieces(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, wide_product);
  tn__sched_split(s, "C.i1", (const int64_t[]){0, 16}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i0", "C.k0", "C.i1.1"}, 4);
  tn__sched_prefetch_spread(s, "C", 2, "C.k0", "C.i1.0", 1);
  assert_null(strstr(schedule_text(s, true), "prefetch"));
  check_all(s);
}

static void aligned(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, convolution);
  tn__sched_storage_align(s, "pad", 0, 0, 16, 4); /* [8, 9, 2] becomes [8, 10, 2]: 20 is 4 modulo 16 */
  tn__sched_storage_align(s, "C", 0, 1, 8, 0);
  assert_non_null(strstr(schedule_text(s, true), "alloc pad: f32[8, 10, 2] workspace"));
  assert_non_null(strstr(schedule_text(s, true), "alloc C: f32[6, 7, 8] workspace"));
  check_all(s);
  tn__sched_compute_at(s, "pad", "C.o0");
  tn__sched_set_scope(s, "pad", 0, TN__SCOPE_STACK);
  assert_non_null(strstr(schedule_text(s, true), "alloc pad: f32[3, 10, 2] stack"));
  check_all(s);
}

/* Rows of one iteration, for each iteration that threads may share; the whole tensor again once a reader is
 * elsewhere. */
static void folded(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, open_product);
  tn__sched_compute_at(s, "C", "D.i0");
  tn__sched_fold_storage(s, "C", 0, "D.i0");
  assert_non_null(strstr(schedule_text(s, true), "alloc C: f32[1, 6] workspace"));
  check_all(s);
  tn__sched_parallel(s, "D.i0");
  assert_non_null(strstr(schedule_text(s, true), "alloc C: f32[M, 1, 6] workspace"));
  check_all(s);
  tn__sched_compute_root(s, "C");
  assert_non_null(strstr(schedule_text(s, true), "alloc C: f32[M, 6] workspace"));
  check_all(s);
}

/* masked, power and weights of attention in one tensor, as long as nobody needs the one before behind the next. */
static void stored_over(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, attention);
  static const char *const maps[] = {"masked", "power", "weights"};
  for (int i = 0; i < 3; i++) {
    char alloc[32];
    tn__sched_store_over(s, maps[i], 0);
    snprintf(alloc, sizeof(alloc), "alloc %s:", maps[i]);
    assert_null(strstr(schedule_text(s, true), alloc));
    check_all(s);
  }
}

/* A tensor that has other room than the one it should lie over has its own again. */
static void stored_over_elsewhere(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, attention);
  tn__sched_store_over(s, "weights", 0);
  assert_null(strstr(schedule_text(s, true), "alloc weights:"));
  tn__sched_compute_at(s, "weights", "result.i1");
  tn__sched_set_scope(s, "weights", 0, TN__SCOPE_STACK);
  assert_non_null(strstr(schedule_text(s, true), "alloc weights:"));
  check_all(s);
}

static void aligned_open(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, open_product);
  tn__sched_storage_align(s, "C", 0, 0, 4, 1);
  check_all(s);
}

/* B[k, n] as [n / 4, k, n % 4]: the constant operand of a product in panels. */
static const tn__layout panels = {.rank = 3, .parts = {{1, 4, 0}, {0, 1, 0}, {1, 1, 4}}};

static void packed_constant(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__sched_declare_constant(s, "B");
  assert_null(tn__schedule_packing(s, 1));
  tn__sched_transform_layout(s, "B", &panels);
  assert_null(tn__schedule_packing(s, 0));
  assert_non_null(tn__schedule_packing(s, 1));
  tn__sched_split(s, "C.i1", (int64_t[]){0, 4}, 2);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i1.1"}, 2);
  tn__sched_vectorize(s, "C.i1.1");
  assert_non_null(strstr(schedule_text(s, true), "B.packed: f32[3, 5, 4]"));
  assert_non_null(
      strstr(schedule_text(s, false), "declare_constant \"B\"\ntransform_layout \"B\" 1 4 0 0 1 0 1 1 4\n"));
  check_all(s);
}

/* An intermediate tensor, transposed and blocked twice; its readers follow. */
static void blocked_intermediate(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__layout layout = {.rank = 5, .parts = {{1, 5, 0}, {0, 4, 0}, {0, 2, 2}, {1, 1, 5}, {0, 1, 2}}};
  tn__sched_transform_layout(s, "P", &layout);
  tn__sched_compute_at(s, "Q", "R.i0");
  tn__sched_parallel(s, "R.i0");
  check_all(s);
}

/* The sums of a step in registers, copied out behind them in the loop over the steps, where the scan reads them. */
static void registers_in_step(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, recurrent);
  tn__sched_cache_write(s, "P", 0, TN__SCOPE_REGISTER);
  tn__sched_split(s, "P.i1", (const int64_t[]){0, 4}, 2);
  tn__sched_reorder(s, (const char *[]){"P.i1.0", "P.k0", "P.i1.1"}, 3);
  tn__sched_vectorize(s, "P.i1.1");
  tn__sched_reverse_compute_at(s, "P.write", "P.i1.0");
  tn__sched_decompose_reduction(s, "P", "P.k0");
  tn__sched_set_scope(s, "P.write", 0, TN__SCOPE_STACK);
  tn__sched_inline(s, "M");
  check_all(s);
}

/* A scan along one axis keeps to the others in any layout; but the loops of blocks are not told apart any more. */
static void blocked_scan(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, skewed);
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__layout layout = {.rank = 4, .parts = {{2, 3, 0}, {0, 1, 0}, {1, 1, 0}, {2, 1, 3}}};
  tn__sched_transform_layout(s, "S.local", &layout);
  tn__sched_reorder(s, (const char *[]){"S.i1", "S.i0"}, 2);
  check_all(s);
}

/* Copies for lanes, some of which have one term less, and for threads. */
static void private_copies(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, occurrences);
  tn__sched_split(s, "H.k0", (int64_t[]){3, 0, 4}, 3);
  tn__sched_privatize(s, "H.k0.2");
  tn__sched_privatize(s, "H.k0.0");
  tn__sched_parallel(s, "H.k0.0");
  tn__sched_unroll(s, "H.k0.2");
  tn__sched_vectorize(s, "H.a0");
  check_all(s);
}

/* Rows of any length: several vectors of terms at a time while there are as many, then one, then what is left one by
 * one. */
static void peels_rows(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, segments);
  tn__sched_peel(s, "y.k", 8);
  tn__sched_rfactor(s, "y.k.1");
  tn__sched_vectorize(s, "y.k.1");
  tn__sched_set_scope(s, "y.rf", 0, TN__SCOPE_STACK);
  tn__sched_peel(s, "y.k.rest", 4);
  tn__sched_rfactor(s, "y.k.rest.1");
  tn__sched_unroll(s, "y.lane");
  check_all(s);
}

/* A reduction whose initialisation stands in front goes on from there, lane by lane. */
static void factors_late(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, argmax);
  tn__sched_decompose_reduction(s, "top", "top.k0");
  tn__sched_split(s, "top.k0", (int64_t[]){0, 3}, 2);
  tn__sched_rfactor(s, "top.k0.1");
  check_all(s);
}

/* The guard of a lane without terms speaks of the lane alone: it must be initialised all the same. */
static void empty_lanes(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, argmax);
  tn__sched_split(s, "top.k0", (int64_t[]){0, 7}, 2);
  tn__sched_fuse(s, "top.k0.0", "top.k0.1");
  tn__sched_rfactor(s, "top.k0.0+top.k0.1");
  check_all(s);
}

/* Partial sums of some terms in registers, taken up by the whole behind each part; the last part has fewer. */
static tn__te *deep_product(tn__ir *ir) { return product_of(ir, 7, 9, 0); }

static void parts_of_terms(tn__ir *ir, const void *arg) {
  static const declaration declarations_of_parts[] = {product, open_product, deep_product};
  tn__schedule *s = start(ir, declarations_of_parts[*(const int *)arg]);
  tn__sched_split(s, "C.k0", (int64_t[]){0, 3}, 2);
  tn__sched_split(s, "C.i0", (int64_t[]){0, 2}, 2);
  tn__sched_reorder(s, (const char *[]){"C.k0.0", "C.i0.0", "C.k0.1", "C.i0.1", "C.i1"}, 5);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 4}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.k0.1", "C.i0.1", "C.i1.1"}, 4);
  tn__sched_unroll(s, "C.i0.1");
  tn__sched_vectorize(s, "C.i1.1");
  tn__sched_rfactor_at(s, "C.k0.0", "C.i1.0");
  tn__sched_set_scope(s, "C.rf", 0, TN__SCOPE_REGISTER);
  if (tn__sched_find(s, "C.rf", true)->block.init != NULL) tn__sched_decompose_reduction(s, "C.rf", "C.k0.1");
  tn__sched_decompose_reduction(s, "C", "C.k0.0");
  check_all(s);
}

/* Partial results that have as many terms each go on by themselves, and in parallel. */
static void parts_apart(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, argmax);
  tn__sched_split(s, "top.k0", (int64_t[]){0, 1}, 2);
  tn__sched_rfactor_at(s, "top.k0.0", "top.k0.0");
  tn__sched_compute_root(s, "top");
  tn__sched_parallel(s, "top.k0.0");
  check_all(s);
}

/* What follows a scan inside of another axis loops over the scan's axis, too. */
static void behind_scan(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, running);
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__sched_reorder(s, (const char *[]){"S.i1", "S.i0"}, 2);
  tn__sched_reverse_compute_at(s, "S.write", "S.i1");
  check_all(s);
}

/* One step in registers, written out behind each; all of them again once the copy stands behind the scan. */
static void folded_scan(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, running);
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_STACK);
  tn__sched_reorder(s, (const char *[]){"S.i1", "S.i0"}, 2);
  tn__sched_reverse_compute_at(s, "S.write", "S.i0");
  tn__sched_fold_scan(s, "S", 0, 1);
  assert_non_null(strstr(schedule_text(s, true), "alloc S.local: f32[1, 1] stack"));
  check_all(s);
  tn__sched_compute_root(s, "S.write");
  assert_non_null(strstr(schedule_text(s, true), "alloc S.local: f32[6, 9] stack"));
  check_all(s);
}

/* Steps that read their neighbours' need the step before in a place of its own, one of three here. */
static void folded_skewed(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, skewed);
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__sched_reverse_compute_at(s, "S.write", "S.i0");
  tn__sched_fold_scan(s, "S", 0, 3);
  assert_non_null(strstr(schedule_text(s, true), "alloc S.local: f32[3, 3, 6] workspace"));
  check_all(s);
}

static void tensorize_dots(tn__schedule *s, int64_t depth, const char *instruction) {
  tn__layout pairs = {.rank = 3, .parts = {{0, depth, 0}, {1, 1, 0}, {0, 1, depth}}};
  tn__sched_declare_constant(s, "B");
  tn__sched_transform_layout(s, "B", &pairs);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 16}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i0", "C.k0", "C.i1.1", "C.k1"}, 5);
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  tn__sched_reverse_compute_at(s, "D", "C.i0");
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_tensorize(s, "C.i1.1", instruction);
  tn__sched_vectorize(s, "C.init.i1.1");
  tn__sched_parallel(s, "C.i1.0");
}

static void tensorized_bf16(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, bf16_dots);
  tensorize_dots(s, 2, "x86.avx512bf16.dpbf16ps");
  assert_non_null(strstr(schedule_text(s, true),
                         "tensor \"x86.avx512bf16.dpbf16ps\" (C[0, 0], A[C.i0, C.k0*2], "
                         "B.packed[C.k0, C.i1.0*16, 0]) {"));
  check_all(s);
}

static void tensorized_int8(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, int8_dots);
  tensorize_dots(s, 4, "x86.avx512vnni.dpbusd");
  check_all(s);
}

/* Code is the same wherever arguments are, and each may be said to be anywhere, once. */
static void memories(tn__ir *ir, const void *arg) {
  tn__schedule *s = start_on(ir, product, "island -mcpu=x86-64-v3");
  const char *without = schedule_text(s, true);
  tn__sched_set_memory(s, "B", TN__MEMORY_TEXTURE);
  tn__sched_set_memory(s, "A", TN__MEMORY_GLOBAL);
  tn__sched_set_memory(s, "D", TN__MEMORY_TEXTURE);
  assert_string_equal(schedule_text(s, true), without);
  assert_int_equal(tn__schedule_memory(s, 0), TN__MEMORY_GLOBAL);
  assert_int_equal(tn__schedule_memory(s, 1), TN__MEMORY_TEXTURE);
  check_all(s);
}

static void legal(void **state) {
  check_ok(in_context(memories, NULL));
  check_ok(in_context(tiles, NULL));
  check_ok(in_context(roots, NULL));
  check_ok(in_context(outputs_move, NULL));
  check_ok(in_context(hoists, NULL));
  check_ok(in_context(bound, NULL));
  check_ok(in_context(shared, NULL));
  check_ok(in_context(shared_halo, NULL));
  check_ok(in_context(pragmas, NULL));
  check_ok(in_context(prefetches, NULL));
  check_ok(in_context(streams, NULL));
  check_ok(in_context(prefetches_ahead, NULL));
  check_ok(in_context(prefetches_spread, NULL));
  check_ok(in_context(prefetches_no_pieces, NULL));
  check_ok(in_context(aligned, NULL));
  check_ok(in_context(aligned_open, NULL));
  check_ok(in_context(folded, NULL));
  check_ok(in_context(stored_over, NULL));
  check_ok(in_context(stored_over_elsewhere, NULL));
  check_ok(in_context(packed_constant, NULL));
  check_ok(in_context(blocked_intermediate, NULL));
  check_ok(in_context(blocked_scan, NULL));
  check_ok(in_context(registers_in_step, NULL));
  check_ok(in_context(private_copies, NULL));
  check_ok(in_context(empty_lanes, NULL));
  check_ok(in_context(peels_rows, NULL));
  check_ok(in_context(factors_late, NULL));
  for (int i = 0; i < 3; i++) check_ok(in_context(parts_of_terms, &i));
  check_ok(in_context(parts_apart, NULL));
  check_ok(in_context(behind_scan, NULL));
  check_ok(in_context(folded_scan, NULL));
  check_ok(in_context(folded_skewed, NULL));
  check_ok(in_context(tensorized_bf16, NULL));
  check_ok(in_context(tensorized_int8, NULL));
}

/* ---- compiled ---------------------------------------------------------------------------------------------------- */

typedef struct compiled_dots {
  declaration make;
  int64_t depth;
  const char *instruction;
} compiled_dots;

/* The kernel on this machine gives what the interpreter gives for the declaration. */
static void run_dots(kernel_test *t, void *user) {
  const compiled_dots *c = user;
  tn__schedule *s = tn__schedule_of(c->make(t->ir), &t->target);
  tensorize_dots(s, c->depth, c->instruction);
  const tn__te *te = tn__schedule_te(s);
  size_t size;
  uint8_t *plain;
  check_ok(outputs_of(te, tn__te_lower(te), NULL, 3, &plain, &size));
  tn_kernel kernel = kernel_compile(t, tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL));
  void *buffers[3];
  make_inputs(te, 3, buffers);
  check_ok(pack_inputs(s, buffers));
  buffers[2] = malloc(size);
  assert_int_equal(kernel_run(kernel, buffers, NULL), TN_KERNEL_OK);
  assert_memory_equal(buffers[2], plain, size);
  for (int i = 0; i < 3; i++) free(buffers[i]);
  free(plain);
}

static const compiled_dots bf16_case = {bf16_dots, 2, "x86.avx512bf16.dpbf16ps"};
static const compiled_dots int8_case = {int8_dots, 4, "x86.avx512vnni.dpbusd"};

static void run_where_possible(const compiled_dots *c, tn__features needed, const char *words) {
  char missing[128];
  if (tn__host_arch() != TN__ARCH_X86_64 ||
      tn__target_missing(TN__ARCH_X86_64, needed, tn__host_features(), missing, sizeof(missing)))
    skip_because("this machine has no %s: %s was interpreted, not run", words, c->instruction);
  compiled_dots copy = *c;
  kernel_with(NULL, run_dots, &copy);
}

static void runs_bf16(void **state) {
  run_where_possible(&bf16_case, TN__X86_AVX512BF16 | TN__X86_AVX512F, "AVX512-BF16");
}
static void runs_int8(void **state) {
  run_where_possible(&int8_case, TN__X86_AVX512VNNI | TN__X86_AVX512F, "AVX512-VNNI");
}

static const char *assembly(kernel_test *t, declaration make, int64_t depth, const char *instruction,
                            const char *target) {
  tn__target other;
  tn__schedule *s = tn__schedule_of(make(t->ir), &t->target);
  tensorize_dots(s, depth, instruction);
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  check_ok(tn__target_parse(target, &other));
  tn__code code = kernel_code(&t->arena, t->ir, func, &other, TN__EMIT_ASSEMBLY);
  return tn__arena_strndup(&t->arena, code.data, code.size);
}

/* The instructions are in the code where the target has them, and their loops where it has not. */
static void emits(kernel_test *t, void *user) {
  assert_non_null(strstr(assembly(t, bf16_dots, 2, bf16_case.instruction, target_name), "vdpbf16ps"));
  assert_null(strstr(assembly(t, bf16_dots, 2, bf16_case.instruction, "x86-64-v3"), "vdpbf16ps"));
  assert_non_null(strstr(assembly(t, int8_dots, 4, int8_case.instruction, target_name), "vpdpbusd"));
  tn__schedule *s = tn__schedule_of(wide_product(t->ir), &t->target);
  tn__sched_prefetch_block(s, "C", 2, "C.k0", 4);
  tn__sched_parallel(s, "C.i0");
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  tn__code code = kernel_code(&t->arena, t->ir, func, &t->target, TN__EMIT_ASSEMBLY);
  assert_non_null(strstr(tn__arena_strndup(&t->arena, code.data, code.size), "prefetcht0"));
}
static void code(void **state) { kernel_with(target_name, emits, NULL); }

static tn__schedule *streamed(kernel_test *t, int64_t columns, bool parallel) {
  tn__schedule *s = tn__schedule_of(product_of(t->ir, 21, columns, 11), &t->target);
  tn__sched_split(s, "D.i1", (int64_t[]){0, 16}, 2);
  tn__sched_vectorize(s, "D.i1.1");
  tn__sched_stream(s, "D", 0);
  if (parallel) tn__sched_parallel(s, "D.i0");
  return s;
}

static const char *streamed_assembly(kernel_test *t, int64_t columns, bool parallel, const char *target) {
  tn__target other;
  check_ok(tn__target_parse(target, &other));
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(streamed(t, columns, parallel)), NULL);
  tn__code code = kernel_code(&t->arena, t->ir, func, &other, TN__EMIT_ASSEMBLY);
  return tn__arena_strndup(&t->arena, code.data, code.size);
}

/* Stores past the caches stand behind a question: of the buffer, where rows lie on multiples of 16 bytes in it, else of
 * the place. A fence stands once in each function that has them. */
static void emits_streams(kernel_test *t, void *user) {
  const char *wide = streamed_assembly(t, 64, false, target_name);
  assert_non_null(strstr(wide, "vmovntps\t%zmm"));
  assert_non_null(strstr(wide, "sfence"));
  assert_null(strstr(strstr(wide, "sfence") + 1, "sfence"));
  assert_non_null(strstr(wide, "$63"));
  assert_non_null(strstr(streamed_assembly(t, 64, true, target_name), "sfence"));
  const char *shorter = streamed_assembly(t, 72, false, target_name); /* rows of 288 bytes */
  assert_non_null(strstr(shorter, "vmovntps\t%ymm"));
  assert_non_null(strstr(shorter, "$31"));
  assert_null(strstr(shorter, "$63"));
  const char *odd = streamed_assembly(t, 67, false, target_name);
  assert_non_null(strstr(odd, "vmovntps\t%zmm"));
  assert_non_null(strstr(odd, "$63"));
  assert_non_null(strstr(streamed_assembly(t, 64, false, "x86-64"), "movntps\t%xmm"));
  assert_null(strstr(streamed_assembly(t, 64, false, "aarch64"), "fence"));
}
static void stream_code(void **state) { kernel_with(target_name, emits_streams, NULL); }

/* Rows of every alignment, with tails, written past the caches and otherwise: the same. */
static void runs_streams(kernel_test *t, void *user) {
  enum { ROWS = 21, DEPTH = 11, MOST = 80 };
  static _Alignas(64) float a[ROWS * DEPTH], b[DEPTH * MOST], bias[MOST], plain[ROWS * MOST], stream[ROWS * MOST];
  for (int i = 0; i < ROWS * DEPTH; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < DEPTH * MOST; i++) b[i] = (float)(i % 5 - 2);
  for (int i = 0; i < MOST; i++) bias[i] = (float)i;
  for (int64_t columns = 62; columns <= 67; columns++) {
    tn__kernel_info info;
    memset(plain, 0xff, sizeof plain);
    memset(stream, 0xff, sizeof stream);
    for (int which = 0; which < 2; which++) {
      const tn__schedule *s = which == 0 ? tn__schedule_of(product_of(t->ir, ROWS, columns, DEPTH), &t->target)
                                         : streamed(t, columns, columns % 2 == 0);
      const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
      info = tn__cg_kernel_workspace(t->ir, func);
      void *workspace = aligned_alloc(64, ((size_t)info.workspace_bytes + 64) & ~(size_t)63);
      void *buffers[] = {a, b, bias, which == 0 ? plain : stream, workspace};
      assert_int_equal(kernel_run(kernel_compile(t, func), buffers, NULL), TN_KERNEL_OK);
      free(workspace);
    }
    assert_memory_equal(plain, stream, sizeof plain);
  }
}
static void stream_runs(void **state) { kernel_with(NULL, runs_streams, NULL); }

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void tile_apart(tn__schedule *s) { tn__sched_tile(s, (const char *[]){"C.i0", "C.k0"}, (int64_t[]){2, 2}, 2); }
static void tile_zero(tn__schedule *s) { tn__sched_tile(s, (const char *[]){"C.i0", "C.i1"}, (int64_t[]){2, 0}, 2); }
static void tile_one(tn__schedule *s) { tn__sched_tile(s, (const char *[]){"C.i0"}, (int64_t[]){2}, 1); }
static void tile_scan(tn__schedule *s) {
  tn__sched_tile(s, (const char *[]){"S.i0", "S.i1", "S.i2"}, (int64_t[]){2, 2, 2}, 3);
}
static void root_already(tn__schedule *s) { tn__sched_compute_root(s, "P"); }
static void at_overlapping(tn__schedule *s) { tn__sched_compute_at(s, "P", "Q.i0"); }
static void at_one_column(tn__schedule *s) {
  tn__sched_split(s, "R.i0", (int64_t[]){0, 3}, 2);
  tn__sched_compute_at(s, "Q", "R.i0.1");
}
static void at_behind(tn__schedule *s) { tn__sched_compute_at(s, "P", "R.i0"); }
static void root_between(tn__schedule *s) {
  tn__sched_compute_at(s, "Q", "R.i0");
  tn__sched_compute_at(s, "P", "R.i0");
  tn__sched_compute_root(s, "Q");
}
static void root_two_writers(tn__schedule *s) {
  tn__sched_reverse_compute_at(s, "D", "C.i0");
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_compute_root(s, "C");
}
static void bind_nowhere(tn__schedule *s) { tn__sched_bind(s, "C.i0", "warp.x"); }
static void bind_sum(tn__schedule *s) { tn__sched_bind(s, "C.k0", "thread.x"); }
static void bind_twice(tn__schedule *s) {
  tn__sched_bind(s, "C.i0", "thread.x");
  tn__sched_bind(s, "C.i1", "thread.x");
}
static void bind_inside_out(tn__schedule *s) {
  tn__sched_bind(s, "C.i0", "thread.x");
  tn__sched_bind(s, "C.i1", "block.x");
}
static void bind_uneven(tn__schedule *s) {
  tn__sched_reverse_compute_at(s, "D", "C.i0");
  tn__sched_split(s, "C.i1", (int64_t[]){0, 3}, 2);
  tn__sched_bind(s, "C.i1.1", "thread.x");
  tn__sched_bind(s, "D.i12", "thread.x");
}
static void bind_many(tn__schedule *s) {
  tn__sched_split(s, "C.i0", (int64_t[]){0, 64}, 2);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 32}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i0.1"}, 2);
  tn__sched_bind(s, "C.i0.1", "thread.y");
  tn__sched_bind(s, "C.i1.1", "thread.x");
}
static void bind_open(tn__schedule *s) { tn__sched_bind(s, "C.i0", "thread.x"); }
static void bind_parallel(tn__schedule *s) {
  tn__sched_parallel(s, "C.i0");
  tn__sched_bind(s, "C.i1", "thread.x");
}
static void parallel_bound(tn__schedule *s) {
  tn__sched_bind(s, "C.i1", "thread.x");
  tn__sched_parallel(s, "C.i0");
}
static void split_bound(tn__schedule *s) {
  tn__sched_bind(s, "C.i1", "thread.x");
  tn__sched_split(s, "C.i1", (int64_t[]){0, 2}, 2);
}
static void reorder_bound(tn__schedule *s) {
  tn__sched_bind(s, "C.i0", "block.x");
  tn__sched_bind(s, "C.i1", "thread.x");
  tn__sched_reorder(s, (const char *[]){"C.i1", "C.i0"}, 2);
}
static void shared_nowhere(tn__schedule *s) {
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_SHARED);
  tn__schedule_func(s);
}
static void shared_alone(tn__schedule *s) {
  tn__sched_bind(s, "C.i0", "block.x");
  tn__sched_bind(s, "C.i1", "thread.x");
  tn__sched_reverse_compute_at(s, "D", "C.i1");
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_SHARED);
  tn__schedule_func(s);
}
static void shared_apart(tn__schedule *s) {
  tn__sched_bind(s, "C.i0", "block.x");
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_SHARED);
  tn__schedule_func(s);
}
static void shared_more(tn__schedule *s) {
  share_tiles(s);
  tn__sched_limit_shared(s, 31);
}
static void pragma_unknown(tn__schedule *s) { tn__sched_pragma(s, "C.i0", "fast", 1); }
static void pragma_range(tn__schedule *s) { tn__sched_pragma(s, "C.i0", "whole", 2); }
static void pragma_split(tn__schedule *s) {
  tn__sched_pragma(s, "C.i0", "whole", 1);
  tn__sched_split(s, "C.i0", (int64_t[]){0, 2}, 2);
}
static void prefetch_elsewhere(tn__schedule *s) { tn__sched_prefetch_block(s, "C", 0, "D.i0", 1); }
static void prefetch_nothing(tn__schedule *s) { tn__sched_prefetch_block(s, "D", 5, "D.i0", 1); }
static void prefetch_own(tn__schedule *s) { tn__sched_prefetch_block(s, "C", 0, "C.i0", 1); }
static void prefetch_here(tn__schedule *s) { tn__sched_prefetch_block(s, "C", 1, "C.i0", 0); }
static void prefetch_inside(tn__schedule *s) { tn__sched_prefetch_ahead(s, "C", 1, "C.i0", "C.k0", 1); }
static void prefetch_spread_inside(tn__schedule *s) { tn__sched_prefetch_spread(s, "C", 1, "C.i0", "C.k0", 1); }
static void prefetch_private(tn__schedule *s) {
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  tn__sched_prefetch_block(s, "D", 0, "D.i0", 1);
}
static void prefetch_vector(tn__schedule *s) {
  tn__sched_vectorize(s, "D.i1");
  tn__sched_prefetch_block(s, "D", 0, "D.i1", 1);
}
static void vector_prefetch(tn__schedule *s) {
  tn__sched_prefetch_block(s, "D", 0, "D.i1", 1);
  tn__sched_vectorize(s, "D.i1");
}
static void align_output(tn__schedule *s) { tn__sched_storage_align(s, "D", 0, 0, 16, 0); }
static void align_last(tn__schedule *s) { tn__sched_storage_align(s, "C", 0, 1, 16, 0); }
static void align_odd(tn__schedule *s) { tn__sched_storage_align(s, "C", 0, 0, 16, 16); }
static void align_never(tn__schedule *s) {
  tn__sched_storage_align(s, "pad", 0, 0, 16, 3);
} /* rows of pairs are even */
static void align_twice(tn__schedule *s) {
  tn__sched_storage_align(s, "C", 0, 0, 16, 0);
  tn__sched_storage_align(s, "C", 0, 0, 16, 0);
}
static void fold_output(tn__schedule *s) { tn__sched_fold_storage(s, "D", 0, "D.i0"); }
static void fold_apart(tn__schedule *s) { tn__sched_fold_storage(s, "C", 0, "C.i0"); }
static void fold_carried(tn__schedule *s) {
  tn__sched_reverse_compute_at(s, "D", "C.i1");
  tn__sched_fold_storage(s, "C", 0, "C.k0");
}
static void fold_twice(tn__schedule *s) {
  tn__sched_reverse_compute_at(s, "D", "C.i1");
  tn__sched_fold_storage(s, "C", 0, "C.i0");
  tn__sched_fold_storage(s, "C", 0, "C.i1");
}
static void fold_second(tn__schedule *s) { tn__sched_fold_storage(s, "C", 1, "C.i0"); }
static void folded_split(tn__schedule *s) {
  tn__sched_reverse_compute_at(s, "D", "C.i1");
  tn__sched_fold_storage(s, "C", 0, "C.i0");
  tn__sched_split(s, "C.i0", (int64_t[]){0, 2}, 2);
}
static void fold_scan_output(tn__schedule *s) { tn__sched_fold_scan(s, "S", 0, 2); }
static void fold_scan_read_later(tn__schedule *s) {
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__sched_fold_scan(s, "S", 0, 2);
}
static void fold_scan_near(tn__schedule *s) {
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__sched_reverse_compute_at(s, "S.write", "S.i0");
  tn__sched_fold_scan(s, "S", 0, 1);
}
static void fold_scan_sum(tn__schedule *s) { tn__sched_fold_scan(s, "C", 0, 2); }
static void fold_scan_none(tn__schedule *s) { tn__sched_fold_scan(s, "C", 0, 0); }
static void fold_scan_second(tn__schedule *s) { tn__sched_fold_scan(s, "S", 1, 2); }
static void fold_scan_twice(tn__schedule *s) {
  tn__sched_cache_write(s, "S", 0, TN__SCOPE_WORKSPACE);
  tn__sched_reverse_compute_at(s, "S.write", "S.i0");
  tn__sched_fold_scan(s, "S", 0, 2);
  tn__sched_fold_scan(s, "S", 0, 4);
}
static void store_over_input(tn__schedule *s) { tn__sched_store_over(s, "P", 0); }
static void store_over_read_later(tn__schedule *s) { tn__sched_store_over(s, "Q", 0); }
static void store_over_nothing(tn__schedule *s) { tn__sched_store_over(s, "P", 3); }
static void store_over_sum(tn__schedule *s) { tn__sched_store_over(s, "C", 1); }
static void store_over_twice(tn__schedule *s) {
  tn__sched_store_over(s, "masked", 0);
  tn__sched_store_over(s, "masked", 0);
}
static void constant_stranger(tn__schedule *s) { tn__sched_declare_constant(s, "C"); }
static void constant_twice(tn__schedule *s) {
  tn__sched_declare_constant(s, "B");
  tn__sched_declare_constant(s, "B");
}
static void constant_open(tn__schedule *s) { tn__sched_declare_constant(s, "A"); }
static void layout_input(tn__schedule *s) { tn__sched_transform_layout(s, "B", &panels); }
static void layout_output(tn__schedule *s) { tn__sched_transform_layout(s, "D", &panels); }
static void layout_nothing(tn__schedule *s) { tn__sched_transform_layout(s, "X", &panels); }
static void layout_twice(tn__schedule *s) {
  tn__sched_declare_constant(s, "B");
  tn__sched_transform_layout(s, "B", &panels);
  tn__sched_transform_layout(s, "B", &panels);
}
static void layout_again(tn__schedule *s) {
  tn__sched_declare_constant(s, "B");
  tn__sched_transform_layout(s, "B", &panels);
  tn__sched_transform_layout(s, "B.packed", &panels);
}
static void layout_gap(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 3, .parts = {{1, 8, 0}, {0, 1, 0}, {1, 1, 4}}});
}
static void layout_overlap(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 3, .parts = {{1, 1, 0}, {0, 1, 0}, {1, 1, 4}}});
}
static void layout_dimension(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 2, .parts = {{1, 1, 0}, {2, 1, 0}}});
}
static void layout_ragged(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &panels);
  tn__sched_cache_read(s, "D", 0, TN__SCOPE_WORKSPACE);
}
static void layout_ragged_write(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &panels);
  tn__sched_cache_write(s, "C", 0, TN__SCOPE_WORKSPACE);
}
static void layout_ragged_again(tn__schedule *s) {
  tn__sched_transform_layout(s, "C", &panels);
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 3, .parts = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}});
}
static void layout_aligned(tn__schedule *s) {
  tn__sched_storage_align(s, "C", 0, 0, 16, 0);
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 2, .parts = {{1, 1, 0}, {0, 1, 0}}});
}
static void factor_blocked(tn__schedule *s) { /* one of the two tensors lies otherwise */
  tn__sched_transform_layout(s, "top", &(tn__layout){.rank = 2, .parts = {{0, 5, 0}, {0, 1, 5}}});
  tn__sched_rfactor(s, "top.k0");
}
static void private_elements(tn__schedule *s) { tn__sched_privatize(s, "G.g1"); }
static void private_blocked(tn__schedule *s) {
  tn__sched_decompose_reduction(s, "top", "top.i0");
  tn__sched_transform_layout(s, "top", &(tn__layout){.rank = 2, .parts = {{0, 5, 0}, {0, 1, 5}}});
  tn__sched_privatize(s, "top.k0");
}
static void private_reduction(tn__schedule *s) { tn__sched_privatize(s, "C.k0"); }
static void private_together(tn__schedule *s) {
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_privatize(s, "C.k0");
}
/* Rows of a triangle, as long as each row's number says. */
static tn__te *triangle_rows(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "triangle_rows");
  const tn__buffer *x = input(te, "X", 2, 9, 9, 0);
  tn__te_axes i = axes_of(te, "i", 1, (int64_t[]){9}), k = {.count = 1};
  k.var[0] = tn__var_create(ir, "k", TN_I64, tn__ir_index(ir, 0), i.index[0]);
  k.index[0] = k.var[0]->self;
  tn__te_output(te, tn__te_reduce(te, "y", &i, &k, TN__TE_SUM, at(ir, x, 2, i.index[0], k.index[0], NULL)));
  return te;
}
static void factor_rows(tn__schedule *s) { tn__sched_rfactor(s, "y.k"); }
static void peel_blocked(tn__schedule *s) {
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_split(s, "C.k0", (int64_t[]){0, 2}, 2);
  tn__sched_peel(s, "C.k0.1", 2);
}
static void peel_early(tn__schedule *s) { tn__sched_peel(s, "C.k0", 4); }
static void peel_space(tn__schedule *s) { tn__sched_peel(s, "D.i1", 4); }
static void peel_outer(tn__schedule *s) { tn__sched_peel(s, "C.i0", 4); }
static void peel_single(tn__schedule *s) { tn__sched_peel(s, "C.k0", 1); }
static void factor_at_outside(tn__schedule *s) { tn__sched_rfactor_at(s, "C.k0", "C.i0"); }
static void factor_at_empty(tn__schedule *s) { tn__sched_rfactor_at(s, "C.k0", "C.k0"); }
static void factor_at_twice(tn__schedule *s) {
  tn__sched_split(s, "C.k0", (int64_t[]){0, 4, 2}, 3);
  tn__sched_rfactor_at(s, "C.k0.1", "C.k0.1");
}
static void factor_at_ragged(tn__schedule *s) {
  tn__sched_split(s, "C.k0", (int64_t[]){0, 4}, 2);
  tn__sched_rfactor_at(s, "C.k0.0", "C.k0.0");
  tn__sched_compute_root(s, "C.rf");
}
static void align_large(tn__schedule *s) { /* more than private memory has, with the padding */
  tn__sched_storage_align(s, "C", 0, 0, 4096, 0);
  tn__sched_set_scope(s, "C", 0, TN__SCOPE_STACK);
  tn__schedule_func(s);
}
static void tensorize_unknown(tn__schedule *s) { tn__sched_tensorize(s, "C.i1", "x86.dot"); }
static void tensorize_early(tn__schedule *s) {
  tn__sched_split(s, "C.i1", (int64_t[]){0, 16}, 2);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i1.1"}, 2);
  tn__sched_tensorize(s, "C.i1.1", "x86.avx512bf16.dpbf16ps");
}
static void tensorize_strided(tn__schedule *s) { /* B is not in pairs */
  tn__sched_split(s, "C.i1", (int64_t[]){0, 16}, 2);
  tn__sched_reorder(s, (const char *[]){"C.k0", "C.i1.1"}, 2);
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_tensorize(s, "C.i1.1", "x86.avx512bf16.dpbf16ps");
}
static void tensorize_map(tn__schedule *s) { tn__sched_tensorize(s, "D.i1", "x86.avx512bf16.dpbf16ps"); }
static void tensorize_float(tn__schedule *s) {
  tn__sched_decompose_reduction(s, "C", "C.k0");
  tn__sched_tensorize(s, "C.k0", "x86.avx512bf16.dpbf16ps");
}
static void tensorized(tn__schedule *s) { tensorize_dots(s, 2, "x86.avx512bf16.dpbf16ps"); }
static void tensorized_split(tn__schedule *s) {
  tensorized(s);
  tn__sched_split(s, "C.k1", (int64_t[]){2, 1}, 2);
}
static void tensorized_layout(tn__schedule *s) {
  tensorized(s);
  tn__sched_transform_layout(s, "C", &(tn__layout){.rank = 2, .parts = {{1, 1, 0}, {0, 1, 0}}});
}
static void stream_vector(tn__schedule *s, const char *loop, const char *block) {
  tn__sched_split(s, loop, (int64_t[]){0, 4}, 2);
  tn__sched_vectorize(s, tn__arena_printf(tn__ir_arena(tn__te_ir(tn__schedule_te(s))), "%s.1", loop));
  tn__sched_stream(s, block, 0);
}
static void stream_inner(tn__schedule *s) { tn__sched_stream(s, "C", 0); }
static void stream_scalar(tn__schedule *s) { tn__sched_stream(s, "D", 0); }
static void stream_apart(tn__schedule *s) {
  tn__sched_reorder(s, (const char *[]){"D.i1", "D.i0"}, 2);
  stream_vector(s, "D.i0", "D");
}
static void stream_short(tn__schedule *s) {
  tn__sched_split(s, "D.i1", (int64_t[]){0, 2}, 2);
  tn__sched_vectorize(s, "D.i1.1");
  tn__sched_stream(s, "D", 0);
}
static void stream_sums(tn__schedule *s) { tn__sched_stream(s, "M", 0); }
static void stream_second(tn__schedule *s) { tn__sched_stream(s, "D", 1); }
static void hoist_nothing(tn__schedule *s) { tn__sched_hoist(s, "C", 1, 0); }
static void hoist_axis(tn__schedule *s) { tn__sched_hoist(s, "C", 1, 2); }
static void hoist_guarded(tn__schedule *s) {
  tn__sched_split(s, "C.i0", (const int64_t[]){0, 4}, 2);
  tn__sched_hoist(s, "C", 1, 1);
}
static void hoist_from_nest(tn__schedule *s) {
  tn__sched_compute_at(s, "P", "Q.i0");
  tn__sched_hoist(s, "Q", 0, 0);
}
static void tensorized_reorder(tn__schedule *s) {
  tensorized(s);
  tn__sched_reorder(s, (const char *[]){"C.i1.1", "C.k0"}, 2);
}
static void tensorized_read(tn__schedule *s) {
  tensorized(s);
  tn__sched_cache_read(s, "C", 1, TN__SCOPE_WORKSPACE);
}

/* T11 reads T10 twice, which reads T9 twice ... */
static tn__te *doublings(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "doublings");
  const tn__buffer *t = input(te, "T", 1, 8, 0, 0);
  for (int i = 0; i < 12; i++) {
    tn__te_axes x = axes_of(te, "i", 1, (const int64_t[]){8});
    const tn__expr *before = tn__ir_load(ir, t, x.index);
    t = tn__te_compute(te, tn__arena_printf(tn__ir_arena(ir), "T%d", i), &x, tn__ir_mul(ir, before, before));
  }
  tn__te_output(te, t);
  return te;
}
static void inline_too_much(tn__schedule *s) {
  for (int i = 0; i < 11; i++) tn__sched_inline(s, tn__te_stage_at(tn__schedule_te(s), i)->name);
}

static void memory_of_intermediate(tn__schedule *s) { tn__sched_set_memory(s, "C", TN__MEMORY_GLOBAL); }
static void memory_that_is_not_there(tn__schedule *s) { tn__sched_set_memory(s, "A", TN__MEMORY_TEXTURE); }
static void memory_twice(tn__schedule *s) {
  tn__sched_set_memory(s, "D", TN__MEMORY_GLOBAL);
  tn__sched_set_memory(s, "D", TN__MEMORY_GLOBAL);
}

typedef struct refusal {
  declaration make;
  void (*steps)(tn__schedule *s); /* all but the last are legal */
  const char *words;
} refusal;

static const refusal refusals[] = {
    {product, tile_apart, "tile: \"C.k0\" is not perfectly nested in \"C.i0\""},
    {product, tile_zero, "tile of \"C.i1\": the size must be positive"},
    {product, tile_one, "tile: takes 2 to 8 loops, not 1"},
    {skewed, tile_scan, "tile: \"S.i2\" cannot go around \"S.i0\": the scan reads other positions of that axis"},
    {wide_outputs, at_overlapping,
     "compute_at of \"P\": it writes the output P, and \"Q.i0\" does not need each element once"},
    {outputs, at_one_column,
     "compute_at of \"Q\": it writes the output Q, and \"R.i0.1\" does not need each element once"},
    {outputs, at_behind, "compute_at of \"P\": its reader \"Q\" is not under \"R.i0\""},
    {stencil, root_already, "compute_root of \"P\": it has a nest of its own already"},
    {stencil, root_between, "compute_root of \"Q\": it stands between \"P\" and \"R\" in one nest"},
    {product, root_two_writers, "compute_root of \"C\": C is written by other blocks too"},
    {product, bind_nowhere, "bind of \"C.i0\": there is no axis \"warp.x\": use block.x, .y, .z or thread.x, .y, .z"},
    {product, bind_sum, "bind of \"C.k0\": block \"C\" reduces over the loop"},
    {product, bind_twice, "bind of \"C.i1\": \"C.i0\" on the same path is bound to thread.x already"},
    {product, bind_inside_out, "bind of \"C.i1\": blocks stand around threads, and \"C.i0\" is bound to thread.x"},
    {product, bind_uneven, "bind of \"D.i12\": \"C.i1.1\" is bound to thread.x with another extent"},
    {wide_product, bind_many, "bind of \"C.i1.1\": a block would have more than 1024 threads"},
    {open_product, bind_open, "bind of \"C.i0\": the extent must be a constant of at most 1024"},
    {product, bind_parallel, "bind of \"C.i1\": it would share a nest with a parallel loop"},
    {product, parallel_bound, "parallel of \"C.i0\": it would share a nest with a loop bound to an axis of a GPU"},
    {product, split_bound, "split of \"C.i1\": the loop is bound to thread.x"},
    {product, reorder_bound, "reorder: \"C.i0\", bound to block.x, cannot go into \"C.i1\", bound to thread.x"},
    {product, shared_nowhere, "C cannot be in shared memory: what uses it is in no loop over blocks"},
    {product, shared_alone, "C cannot be in shared memory: each thread of \"C.i1\" has it for itself"},
    {product, shared_apart,
     "C cannot be in shared memory: it is used outside of \"C.i0\", too, whose blocks share nothing"},
    {product, shared_more, "blocks of the nest \"C.i0.0\" need 32 bytes of shared memory, and may have 31"},
    {product, pragma_unknown, "pragma of \"C.i0\": there is no key \"fast\": use unroll_limit or whole"},
    {product, pragma_range, "pragma of \"C.i0\": whole is 0 to 1, not 2"},
    {product, pragma_split, "split of \"C.i0\": the loop has a pragma; give it to the new loops instead"},
    {product, prefetch_elsewhere, "prefetch of \"C\": it is not under \"D.i0\""},
    {product, prefetch_nothing, "prefetch of \"D\": there is no tensor 5, it reads 2"},
    {product, prefetch_spread_inside, "prefetch of \"C\": \"C.k0\" does not stand around \"C.i0\""},
    {product, prefetch_inside, "prefetch of \"C\": \"C.k0\" does not stand around \"C.i0\""},
    {product, prefetch_own, "prefetch of \"C\": it writes C itself"},
    {product, prefetch_here, "prefetch of \"C\": the distance is 1 to 4096 iterations, not 0"},
    {product, prefetch_private, "prefetch of \"D\": C is private and near already"},
    {product, prefetch_vector, "prefetch of \"D\": loop \"D.i1\" is vectorised"},
    {product, vector_prefetch, "vectorize of \"D.i1\": the loop prefetches"},
    {product, stream_inner, "stream of \"C\": it writes C, which is no output"},
    {product, stream_scalar, "stream of \"D\": it writes D, and not in vectors"},
    {product, stream_apart, "stream of \"D\": it writes D, in vectors whose lanes lie apart"},
    {product, stream_short, "stream of \"D\": it writes D, in vectors that are no multiple of 16 bytes"},
    {pool, stream_sums,
     "stream of \"M\": it writes M, which is read or written elsewhere, too, so that it is needed near"},
    {product, stream_second, "stream of \"D\": there is no tensor 1, it writes 1"},
    {product, hoist_nothing, "hoist of \"C\": it has no part 1 to compute before"},
    {three_factors, hoist_axis, "hoist of \"C\": the part has 2 axes, and no axis 2"},
    {three_factors, hoist_guarded, "hoist of \"C\": it is not executed at all positions of its axes"},
    {stencil, hoist_from_nest, "hoist of \"Q\": \"P\" writes P in the same nest"},
    {product, memory_of_intermediate, "set_memory: there is no input or output \"C\""},
    {product, memory_that_is_not_there, "set_memory of \"A\": the target has no memory \"texture\": it has global"},
    {product, memory_twice, "set_memory of \"D\": it is set already"},
    {product, align_output, "storage_align of \"D\": D is an output"},
    {product, align_last, "storage_align of \"C\": dimension 1 of C, of rank 2, has none behind it"},
    {product, align_odd, "storage_align of \"C\": the factor is 1 to 4096 and the offset less than it"},
    {convolution, align_never, "storage_align of \"pad\": no width makes the stride 3 modulo 16"},
    {product, align_twice, "storage_align of \"C\": C is aligned already"},
    {product, fold_output, "fold_storage of \"D\": D is an output"},
    {product, fold_apart, "fold_storage of \"C\" in \"C.i0\": \"D\" uses it outside of the loop"},
    {product, fold_carried, "fold_storage of \"C\" in \"C.k0\": \"D\" uses it outside of the loop"},
    {product, fold_twice, "fold_storage of \"C\": C is folded already"},
    {product, fold_second, "fold_storage of \"C\": there is no tensor 1, it has 1"},
    {product, folded_split, "split of \"C.i0\": C is folded in the loop; do that before"},
    {running, fold_scan_output, "fold_scan of \"S\": S is an output"},
    {running, fold_scan_read_later,
     "fold_scan of \"S\": S.local cannot keep 2 positions: others read positions that are further back, or not known"},
    {skewed, fold_scan_near,
     "fold_scan of \"S\": S.local cannot keep 1 positions: the scan reads positions that are further back, or not "
     "known"},
    {product, fold_scan_sum, "fold_scan of \"C\": C cannot keep 2 positions: no dimension of it is a scan's axis"},
    {product, fold_scan_none, "fold_scan of \"C\": it keeps 1 to 64 positions, not 0"},
    {running, fold_scan_second, "fold_scan of \"S\": there is no tensor 1, it has 1"},
    {running, fold_scan_twice, "fold_scan of \"S\": S.local is folded already"},
    {two_readers, store_over_input, "store_over of \"P\": it reads A, which is no other intermediate tensor"},
    {two_readers, store_over_read_later,
     "store_over of \"Q\": it reads P, and does not map each element of that to its own"},
    {two_readers, store_over_nothing, "store_over of \"P\": there is no tensor 3, it reads 1"},
    {product, store_over_sum, "store_over of \"C\": it reads A, which is no other intermediate tensor"},
    {attention, store_over_twice, "store_over of \"masked\": it is stored over scores already"},
    {product, constant_stranger, "declare_constant: there is no input \"C\""},
    {product, constant_twice, "declare_constant of \"B\": it is declared already"},
    {open_product, constant_open, "declare_constant of \"A\": dimension 0 is open"},
    {product, layout_input, "transform_layout of \"B\": an input must be declared constant first"},
    {product, layout_output, "transform_layout of \"D\": it is an output"},
    {product, layout_nothing, "transform_layout: there is no tensor \"X\""},
    {product, layout_twice, "transform_layout of \"B\": it has been packed already"},
    {product, layout_again, "transform_layout of \"B.packed\": an input must be declared constant first"},
    {product, layout_gap, "transform_layout of \"C\": the parts of dimension 1 leave a gap or never end"},
    {product, layout_overlap, "transform_layout of \"C\": its parts overlap"},
    {product, layout_dimension, "transform_layout of \"C\": it has no dimension 2"},
    {product, layout_ragged, "cache_read: the layout of C has blocks that are filled in part"},
    {product, layout_ragged_write, "cache_write: the layout of C has blocks that are filled in part"},
    {product, layout_ragged_again, "transform_layout: the layout of C has blocks that are filled in part"},
    {product, layout_aligned, "transform_layout of \"C\": its storage is aligned; do that afterwards"},
    {argmax, factor_blocked, "rfactor of \"top.k0\": \"top\" does not write its tensor axis by axis"},
    {selected_rows, private_elements, "privatize of \"G.g1\": block \"G\" does not reduce over the loop"},
    {argmax, private_blocked, "privatize of \"top.k0\": the tensors of \"top\" have different layouts"},
    {product, private_reduction, "privatize of \"C.k0\": \"C\" has its initialisation still; use rfactor"},
    {product, private_together, "privatize of \"C.k0\": the nest holds more than one block"},
    {segments, factor_rows, "rfactor of \"y.k\": the loop is as long as data say"},
    {triangle_rows, factor_rows, "rfactor of \"y.k\": the loop is as long as \"y.i0\" says"},
    {product, peel_blocked, "peel of \"C.k0.1\": the loop is a part of what \"C\" reduces over"},
    {product, peel_early, "peel of \"C.k0\": \"C\" has its initialisation still; decompose_reduction first"},
    {product, peel_space, "peel of \"D.i1\": block \"D\" does not reduce over the loop"},
    {product, peel_outer, "peel of \"C.i0\": the loop holds more than one block"},
    {product, peel_single, "peel of \"C.k0\": 1 iterations at a time are out of range"},
    {product, factor_at_outside, "rfactor_at of \"C.k0\": \"C.i0\" is not inside of it"},
    {product, factor_at_empty, "rfactor_at of \"C.k0\": there is nothing left to reduce inside of \"C.k0\""},
    {product, factor_at_twice,
     "rfactor_at of \"C.k0.1\": \"C\" reduces over \"C.k0.0\", which is around \"C.k0.1\", too"},
    {product, factor_at_ragged, "compute_root of \"C.rf\": not all of its partial results have as many terms"},
    {product, align_large, "C cannot be kept private: it would need more than 64 KiB where it is used"},
    {doublings, inline_too_much, "inline of \"T8\": what reads it would have more than 2048 operations"},
    {bf16_dots, tensorize_unknown, "tensorize of \"C.i1\": there is no instruction \"x86.dot\""},
    {bf16_dots, tensorize_early,
     "tensorize of \"C.i1.1\" to x86.avx512bf16.dpbf16ps: its initialisation is still inside; use decompose_reduction"},
    {bf16_dots, tensorize_strided,
     "tensorize of \"C.i1.1\" to x86.avx512bf16.dpbf16ps: the loops have other extents, or compute something else"},
    {bf16_dots, tensorize_map, "tensorize of \"D.i1\": block \"D\" is no reduction that may be reordered"},
    {product, tensorize_float,
     "tensorize of \"C.k0\" to x86.avx512bf16.dpbf16ps: the loops have other extents, or compute something else"},
    {bf16_dots, tensorized_split,
     "split of \"C.k1\": it is part of \"C.i1.1\", which became the instruction x86.avx512bf16.dpbf16ps"},
    {bf16_dots, tensorized_layout, "transform_layout of \"C\": it is part of \"C.i1.1\", which became the instruction"},
    {bf16_dots, tensorized_reorder, "reorder of \"C.i1.1\": it is part of \"C.i1.1\", which became the instruction"},
    {bf16_dots, tensorized_read, "cache_read of \"C\": it is part of \"C.i1.1\", which became the instruction"},
};

static void refuse(tn__ir *ir, const void *arg) {
  const refusal *r = arg;
  r->steps(start(ir, r->make));
}

static void refuse_target(tn__ir *ir, const void *arg) {
  tensorize_dots(start_on(ir, bf16_dots, "x86-64-v4"), 2, "x86.avx512bf16.dpbf16ps");
}

static void refuse_shared(tn__ir *ir, const void *arg) {
  tn__schedule *s = start_on(ir, product, "gpu,shared_bytes=16");
  share_tiles(s);
  tn__schedule_func(s);
}

static void refuse_threads(tn__ir *ir, const void *arg) {
  tn__schedule *s = start_on(ir, product, "gpu,warp=4,threads=8");
  tn__sched_split(s, "C.i0", (int64_t[]){0, 2}, 2);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 8}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i1.0", "C.i0.1"}, 2);
  tn__sched_bind(s, "C.i0.1", "thread.y");
  tn__sched_bind(s, "C.i1.1", "thread.x");
}

static void illegal(void **state) {
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
    check_words(in_context(refuse, &refusals[i]), refusals[i].words);
  check_words(in_context(refuse_target, NULL),
              "tensorize of \"C.i1.1\": the target x86-64-v4 has no x86.avx512bf16.dpbf16ps");
  check_words(in_context(refuse_threads, NULL), "bind of \"C.i1.1\": a block would have more than 8 threads");
  check_words(in_context(refuse_shared, NULL),
              "blocks of the nest \"C.i0.0\" need 32 bytes of shared memory, and may have 16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(legal),       cmocka_unit_test(illegal), cmocka_unit_test(runs_bf16),
      cmocka_unit_test(runs_int8),   cmocka_unit_test(code),    cmocka_unit_test(stream_code),
      cmocka_unit_test(stream_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
