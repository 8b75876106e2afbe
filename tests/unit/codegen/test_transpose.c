/* The transpose primitive: what it does to the loop IR, that the code has shuffles instead of gathers, and that every
 * element type and odd size comes out right on every vector width. */
#include <math.h>

#include "schedule/rules/choose.h"
#include "schedule/rules/rules.h"
#include "target/text/text.h"
#include "unit/kernel.h"
#include "unit/schedule_check.h"

/* ---- declarations ------------------------------------------------------------------------------------------------ */

typedef enum shape_kind { PLAIN, BIASED, PADDED, BATCHED, SUMMED, KINDS } shape_kind;

typedef struct turning {
  shape_kind kind;
  tn_dtype from, to;
  int64_t high, wide; /* of the result */
  bool streams;       /* past the caches, where the vectors allow it */
} turning;

static const tn__expr *as(tn__ir *ir, const turning *t, const tn__expr *e) {
  return t->from == t->to ? e : tn__ir_cast(ir, t->to, e);
}

/* C[i, j] = A[j, i], and what goes along with it: a bias along j and a maximum; a border of zeros; several matrices
 * whose rows are two axes; a second tensor that is read as it lies and a third that is turned, too. */
static tn__te *turned(tn__ir *ir, const turning *t) {
  tn__te *te = tn__te_create(ir, "turned");
  const tn__expr *h = tn__ir_index(ir, t->high), *w = tn__ir_index(ir, t->wide), *two = tn__ir_index(ir, 2);
  if (t->kind == BATCHED) { /* [2, w, h, 2] to [2, h, 2, w] */
    const tn__buffer *a = tn__te_input(te, "A", t->from, 4, (const tn__expr *[]){two, w, h, two});
    tn__te_axes x = tn__te_axes_create(te, "i", 4, (const tn__expr *[]){two, h, two, w});
    const tn__expr *indices[] = {x.index[0], x.index[3], x.index[1], x.index[2]};
    tn__te_output(te, tn__te_compute(te, "C", &x, as(ir, t, tn__ir_load(ir, a, indices))));
    return te;
  }
  const tn__buffer *a = tn__te_input(te, "A", t->from, 2, (const tn__expr *[]){w, h});
  int64_t border = t->kind == PADDED ? 2 : 0;
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){t->high + border, t->wide});
  const tn__expr *i = x.index[0], *j = x.index[1], *value = at(ir, a, 2, j, tn__ir_add_i(ir, i, -border / 2), NULL);
  if (t->kind == PADDED) {
    const tn__expr *from = tn__ir_add_i(ir, i, -1), *zero = tn__ir_index(ir, 0);
    const tn__expr *inside = tn__ir_and(ir, tn__ir_le(ir, zero, from), tn__ir_lt(ir, from, h));
    value = tn__ir_select(ir, inside, value, tn__ir_constant(ir, t->from, 0));
  }
  value = as(ir, t, value);
  if (t->kind == BIASED) {
    const tn__buffer *bias = tn__te_input(te, "bias", t->to, 1, &w);
    value = tn__ir_max(ir, tn__ir_add(ir, value, at(ir, bias, 1, j, NULL, NULL)), tn__ir_constant(ir, t->to, 1));
  }
  if (t->kind == SUMMED) {
    const tn__buffer *b = tn__te_input(te, "B", t->to, 2, (const tn__expr *[]){h, w});
    const tn__buffer *d = tn__te_input(te, "D", t->from, 2, (const tn__expr *[]){w, h});
    value = tn__ir_sub(ir, tn__ir_add(ir, value, at(ir, b, 2, i, j, NULL)), as(ir, t, at(ir, d, 2, j, i, NULL)));
  }
  tn__te_output(te, tn__te_compute(te, "C", &x, value));
  return te;
}

static tn__schedule *scheduled(tn__ir *ir, const turning *t, const tn__target *target, int64_t rows, int64_t lanes) {
  tn__schedule *s = tn__schedule_of(turned(ir, t), target);
  if (t->kind == BATCHED) tn__sched_fuse(s, "C.i1", "C.i2");
  const char *high = t->kind == BATCHED ? "C.i1+C.i2" : "C.i0", *wide = t->kind == BATCHED ? "C.i3" : "C.i1";
  const char *parts[2][2];
  for (int i = 0; i < 2; i++) {
    tn__sched_split(s, i == 0 ? high : wide, (int64_t[]){0, i == 0 ? rows : lanes}, 2);
    for (int p = 0; p < 2; p++) parts[i][p] = tn__arena_printf(tn__ir_arena(ir), "%s.%d", i == 0 ? high : wide, p);
  }
  tn__sched_reorder(s, (const char *[]){parts[1][0], parts[0][1]}, 2);
  tn__sched_transpose(s, "C", parts[0][1], parts[1][1]);
  tn__sched_parallel(s, parts[0][0]);
  if (t->streams) tn__rule_stream(s, "C");
  return s;
}

/* ---- the loop IR ------------------------------------------------------------------------------------------------- */

static void check_text(tn__ir *ir, const void *arg) {
  static const turning plain = {PLAIN, TN_F32, TN_F32, 10, 21, false};
  const tn__target target = test_target("x86-64-v4");
  tn__schedule *s = scheduled(ir, &plain, &target, 4, 8), *again;
  const char *function = schedule_text(s, true), *steps = schedule_text(s, false);
  assert_non_null(strstr(steps, "\ntranspose \"C\" \"C.i0.1\" \"C.i1.1\"\n"));
  assert_non_null(strstr(function,
                         "      alloc C.tile0: f32[1, 1, 8, 4] register {\n"
                         "        unrolled C.rows.lane in [0, +8) {\n"
                         "          vectorized C.rows.row in [0, +4) {\n"
                         "            block \"C.rows\" {\n"));
  assert_non_null(strstr(function,
                         "        unrolled C.i0.1 in [0, +4) {\n"
                         "          vectorized C.i1.1 in [0, +8) {\n"
                         "            block \"C\" {\n"));
  assert_non_null(strstr(function, "[i0, i1] = C.tile0[")); /* a row of the output is a column of the tile */
  check_ok(tn__sched_trace_replay(tn__schedule_te(s), &target, schedule_text(s, false), &again));
  assert_string_equal(schedule_text(again, true), schedule_text(s, true));
}

static void text(void **state) { check_ok(in_context(check_text, NULL)); }

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void check_interpreted(tn__ir *ir, const void *arg) {
  const tn__target target = test_target("x86-64-v4");
  check_same(scheduled(ir, arg, &target, 4, 8));
}

static void interpreted(void **state) {
  static const int64_t sizes[] = {2, 7, 8, 13};
  for (int kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < 16; i++) {
      turning t = {(shape_kind)kind, TN_F32, i % 3 == 0 ? TN_F32 : TN_F64, sizes[i / 4], sizes[i % 4], i % 2};
      check_ok(in_context(check_interpreted, &t));
    }
}

typedef struct compiled {
  turning t;
  int64_t rows, lanes;
} compiled;

static void run_compiled(kernel_test *k, void *user) {
  const compiled *c = user;
  tn__schedule *s = scheduled(k->ir, &c->t, &k->target, c->rows, c->lanes);
  const tn__te *te = tn__schedule_te(s);
  const tn__func *func = tn__schedule_func(s);
  size_t size, most = 0;
  uint8_t *plain;
  check_ok(outputs_of(te, tn__te_lower(te), NULL, 3, &plain, &size));
  tn_kernel kernel = kernel_compile(k, tn__ir_lower_for_codegen(k->ir, func, NULL));
  void *made[8], *buffers[8];
  int count = func->input_count + 1;
  make_inputs(te, 3, made);
  for (int i = 0; i < count; i++) most = byte_count(func->params[i]) > most ? byte_count(func->params[i]) : most;
  for (int i = 0; i < count; i++) {
    buffers[i] = kernel_alloc(most);
    if (i == func->input_count) continue;
    memcpy(buffers[i], made[i], byte_count(func->params[i]));
    free(made[i]);
  }
  assert_int_equal(kernel_run_anywhere(k, kernel, buffers, count, most, NULL, 0), TN_KERNEL_OK);
  if (memcmp(buffers[count - 1], plain, size) != 0)
    fail_msg("%s: kind %d, %s to %s, %lld x %lld by tiles of %lld x %lld", k->target.name, (int)c->t.kind,
             tn_dtype_name(c->t.from), tn_dtype_name(c->t.to), (long long)c->t.high, (long long)c->t.wide,
             (long long)c->rows, (long long)c->lanes);
  for (int i = 0; i < count; i++) kernel_free(buffers[i], most);
  free(plain);
}

static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I8, TN_U16, TN_I32, TN_U64, TN_BOOL};
enum { DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

static void run_on(const char *target) {
  static const int64_t sizes[] = {7, 13, 49, 64, 197}, tiles[][2] = {{4, 8}, {8, 8}, {16, 16}, {2, 4}, {3, 5}, {16, 4}};
  enum { SIZES = 5, TILES = 6 };
  if (target == NULL || strncmp(target, "x86", 3) == 0) {
    tn__target wanted;
    char missing[128];
    check_ok(tn__target_parse(target, &wanted));
    if (tn__host_arch() != wanted.cpu.arch ||
        tn__target_missing(wanted.cpu.arch, wanted.cpu.features, tn__host_features(), missing, sizeof(missing)))
      skip_because("this machine cannot run code for %s", wanted.name);
  }
  for (int i = 0; i < DTYPES * KINDS; i++) {
    tn_dtype from = dtypes[i % DTYPES];
    shape_kind kind = (shape_kind)(i / DTYPES % KINDS);
    bool casts = (kind == PLAIN || kind == BIASED) && i % 2 == 0;
    if (from == TN_BOOL && (kind == BIASED || kind == SUMMED)) continue;
    bool streams = i % 3 == 1;
    compiled c = {
        {kind, from, casts && from != TN_BOOL ? TN_F32 : from, sizes[i % SIZES], sizes[(i / 3 + i) % SIZES], streams},
        tiles[i % TILES][0],
        tiles[i % TILES][1]};
    kernel_with(target, run_compiled, &c);
  }
}

static void runs_v4(void **state) { run_on("x86-64-v4"); }
static void runs_v3(void **state) { run_on("x86-64-v3"); }
static void runs_v1(void **state) { run_on("x86-64"); }
#ifdef TN_TEST_RUNNER
static void runs_aarch64(void **state) { run_on("aarch64"); }
#endif

/* Sides that nothing divides, and long ones: every way of cutting and joining rows. */
static void sides(void **state) {
  static const int64_t sides[] = {2, 3, 8, 12, 31, 64};
  for (int i = 0; i < 36; i++) {
    tn_dtype dtype = i % 5 == 0 ? TN_F32 : i % 5 < 3 ? TN_U8 : TN_F64;
    compiled c = {{PLAIN, dtype, dtype, 65, 67, false}, sides[i / 6], sides[i % 6]};
    if (c.rows * c.lanes * (int64_t)tn_dtype_size(dtype) <= 4096) kernel_with(NULL, run_compiled, &c);
  }
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static int count_of(const char *text, const char *word) {
  int count = 0;
  for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word)) count++;
  return count;
}

static const char *assembly_of(kernel_test *k, const turning *t, const char *target_name, int64_t rows, int64_t lanes) {
  tn__target target;
  check_ok(tn__target_parse(target_name, &target));
  const tn__func *func =
      tn__ir_lower_for_codegen(k->ir, tn__schedule_func(scheduled(k->ir, t, &target, rows, lanes)), NULL);
  tn__code code = kernel_code(&k->arena, k->ir, func, &target, TN__EMIT_ASSEMBLY);
  return tn__arena_strndup(&k->arena, code.data, code.size);
}

static const char *assembly(kernel_test *k, const char *target_name, int64_t rows, int64_t lanes) {
  static const turning plain = {PLAIN, TN_F32, TN_F32, 64, 128, false};
  return assembly_of(k, &plain, target_name, rows, lanes);
}

/* As many shuffles as the network has stages, no gather and no spill. */
static void check_code(kernel_test *k, void *user) {
  const char *wide = assembly(k, "x86-64-v4", 16, 16), *narrow = assembly(k, "x86-64-v3", 8, 8),
             *neon = assembly(k, "aarch64", 4, 4), *joined = assembly(k, "x86-64-v3", 4, 8);
  assert_int_equal(count_of(wide, "vunpck"), 32);
  assert_int_equal(count_of(wide, "vshuff") + count_of(wide, "vperm") + count_of(wide, "vinsertf"), 32);
  assert_int_equal(count_of(wide, "gather") + count_of(narrow, "gather") + count_of(strstr(wide, "task0:"), "(%rsp)"),
                   0);
  assert_int_equal(count_of(narrow, "vunpck"), 16);
  assert_int_equal(count_of(narrow, "vperm2f128") + count_of(narrow, "vinsertf128"), 8);
  assert_int_equal(count_of(joined, "vinsertf128"), 4);
  assert_int_equal(count_of(joined, "vunpck"), 8);
  assert_in_range(count_of(neon, "zip1") + count_of(neon, "zip2"), 6, 8); /* LLVM moves some halves instead */
  /* Rows that lie anywhere are asked where they lie before they stream; the tile is transposed once all the same. */
  static const turning anywhere = {PLAIN, TN_F32, TN_F32, 64, 8 * 9 + 1, true};
  const char *asked = assembly_of(k, &anywhere, "x86-64-v3", 8, 8);
  assert_in_range(count_of(asked, "vmovntps"), 8, 9);
  assert_in_range(count_of(asked, "vunpck"), 16, 20); /* and a tail of one lane */
}
static void code(void **state) { kernel_with(NULL, check_code, NULL); }

/* ---- the default schedule ---------------------------------------------------------------------------------------- */

static void check_default(kernel_test *k, void *user) {
  const turning *t = user;
  const tn__te *te = turned(k->ir, t);
  tn__plan plan;
  tn__schedule *s = choose_schedule(te, &k->target, NULL, &plan);
  if (plan.sketch == NULL || strcmp(tn__sketch_name(plan.sketch), "transposition") != 0)
    fail_msg("kind %d, %lld x %lld, is no transposition", (int)t->kind, (long long)t->high, (long long)t->wide);
  check_same(s);
  const tn__func *func = tn__ir_lower_for_codegen(k->ir, tn__schedule_func(s), NULL);
  tn__code code = kernel_code(&k->arena, k->ir, func, &k->target, TN__EMIT_ASSEMBLY);
  const char *text = tn__arena_strndup(&k->arena, code.data, code.size);
  assert_int_equal(count_of(text, "gather") + count_of(text, "scatter"), 0);
}

static void defaults(void **state) {
  static const char *const targets[] = {"x86-64-v4", "x86-64-v3", "aarch64"};
  static const int64_t sizes[] = {7, 49, 197, 13, 64};
  for (int i = 0; i < 3 * KINDS; i++) {
    turning t = {(shape_kind)(i / 3), i % 2 ? TN_F32 : TN_U8, TN_F32, sizes[i % 5], sizes[(i + 1 + i / 5) % 5], false};
    kernel_with(targets[i % 3], check_default, &t);
  }
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* Past the last cache the tensors go in strips of 32 tiles, whose lines are fetched two tiles ahead; 533 rows are a
 * strip, a part of one and 5 rows. */
static void check_strips(tn__ir *ir, const void *arg) {
  const turning *t = arg;
  tn__target target = test_target("x86-64-v4");
  target.cpu.machine.l3_bytes = 64 << 10;
  tn__te *te = turned(ir, t);
  tn__plan plan;
  tn__schedule *s = choose_schedule(te, &target, NULL, &plan);
  assert_string_equal(tn__sketch_name(plan.sketch), "transposition");
  int64_t values[TN__MAX_DECISIONS], points = tn__sketch_points(plan.sketch);
  int strips = 0;
  for (int64_t p = 0; p < points; p++) {
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__sketch_at(plan.sketch, p, values);
    tn__sketch_print(plan.sketch, values, &text);
    bool strip = strstr(tn__strbuf_text(&text), "strip 32") != NULL;
    tn__strbuf_release(&text);
    if (!strip || !isfinite(tn__sketch_cost(plan.sketch, values, NULL)) || strips++ % 3 != 0) continue;
    s = tn__sketch_apply(plan.sketch, values);
    const char *fetch = values[1] > 8 ? "prefetch_far A" : "prefetch A"; /* a line for each lane */
    assert_int_equal(count_of(schedule_text(s, true), fetch), values[1]);
    check_same(s);
  }
  assert_in_range(strips, 2, points / 2);
  target.cpu.machine.l3_bytes = 1 << 30;
  choose_schedule(te, &target, NULL, &plan);
  assert_true(tn__sketch_points(plan.sketch) == points / 2);
}

static void strips(void **state) {
  const turning plain = {PLAIN, TN_F32, TN_F32, 48, 533, false}, biased = {BIASED, TN_F32, TN_F32, 64, 1024, false};
  check_ok(in_context(check_strips, &plain));
  check_ok(in_context(check_strips, &biased));
}

/* What is contiguous along the same axis on both sides, or turned by shuffles anyway, is none. */
static void check_not(tn__ir *ir, const void *arg) {
  const tn__target target = test_target("x86-64-v4");
  tn__te *te = tn__te_create(ir, "narrow");
  const tn__buffer *a = input(te, "A", 2, 100, 3, 0);
  tn__te_axes x = axes_of(te, "i", 2, (int64_t[]){3, 100});
  tn__te_output(te, tn__te_compute(te, "C", &x, at(ir, a, 2, x.index[1], x.index[0], NULL)));
  tn__plan plan;
  check_same(choose_schedule(te, &target, NULL, &plan));
  assert_string_equal(tn__sketch_name(plan.sketch), "direct compute");
}
static void others(void **state) { check_ok(in_context(check_not, NULL)); }

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse_sides(tn__schedule *s) { tn__sched_transpose(s, "C", "C.i1", "C.i0"); }
static void refuse_long(tn__schedule *s) { tn__sched_transpose(s, "C", "C.i0", "C.i1"); }
static void refuse_nothing(tn__schedule *s) {
  tn__sched_split(s, "C.i0", (int64_t[]){0, 8}, 2);
  tn__sched_split(s, "C.i1", (int64_t[]){0, 8}, 2);
  tn__sched_reorder(s, (const char *[]){"C.i0.0", "C.i1.0", "C.i1.1", "C.i0.1"}, 4);
  tn__sched_transpose(s, "C", "C.i1.1", "C.i0.1");
}
static void tile(tn__schedule *s) {
  tn__sched_tile(s, (const char *[]){"C.i0", "C.i1"}, (int64_t[]){4, 8}, 2);
  tn__sched_transpose(s, "C", "C.i0.1", "C.i1.1");
}
static void refuse_pragma(tn__schedule *s) {
  tile(s);
  tn__sched_pragma(s, "C.i0.1", "unroll_limit", 2);
}
static void refuse_again(tn__schedule *s) {
  tile(s);
  tn__sched_transpose(s, "C", "C.i0.1", "C.i1.1");
}
static void refuse_root(tn__schedule *s) {
  tile(s);
  tn__sched_compute_root(s, "C.rows");
}
static void refuse_unrolled(tn__schedule *s) {
  tn__sched_tile(s, (const char *[]){"C.i0", "C.i1"}, (int64_t[]){4, 8}, 2);
  tn__sched_unroll(s, "C.i0.1");
  tn__sched_transpose(s, "C", "C.i0.1", "C.i1.1");
}

typedef struct refusal {
  void (*steps)(tn__schedule *s);
  const char *words;
} refusal;

static void refuse(tn__ir *ir, const void *arg) {
  static const turning plain = {PLAIN, TN_F32, TN_F32, 80, 24, false};
  const tn__target target = test_target("x86-64-v4");
  ((const refusal *)arg)->steps(tn__schedule_of(turned(ir, &plain), &target));
}

static void refusals(void **state) {
  static const refusal list[] = {
      {refuse_sides, "are not its two innermost loops"},
      {refuse_long, "the extent of \"C.i0\" must be a constant of 2 to 64"},
      {refuse_nothing, "it reads nothing that is contiguous along \"C.i1.1\" and not along \"C.i0.1\""},
      {refuse_pragma, "it is part of \"C.i0.1\", which was transposed"},
      {refuse_again, "the loop is not serial any more"},
      {refuse_root, "compute_root of \"C.rows\": it is part of \"C.rows.row\", which was transposed"},
      {refuse_unrolled, "the loop is not serial any more"},
  };
  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) check_words(in_context(refuse, &list[i]), list[i].words);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text),         cmocka_unit_test(interpreted), cmocka_unit_test(runs_v4),
      cmocka_unit_test(runs_v3),      cmocka_unit_test(runs_v1),
#ifdef TN_TEST_RUNNER
      cmocka_unit_test(runs_aarch64),
#endif
      cmocka_unit_test(defaults),     cmocka_unit_test(strips),      cmocka_unit_test(others),
      cmocka_unit_test(sides),        cmocka_unit_test(code),        cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
