/* Scans as they are scheduled: along either axis and in either direction, of one tensor and two, up to three steps
 * back, of every type, of odd and of open sizes, and with reductions in their steps, interpreted and compiled. Results
 * must be those of the plain nest. */
#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "te/text.h"
#include "unit/kernel.h"
#include "unit/schedule_check.h"
#include "unit/schedule_recipes.h"

enum { WORKSPACE_BYTES = 4 << 20, SHAPES = 6 };

static const int shapes[SHAPES][2] = {{1, 40}, {19, 23}, {9, 1}, {3, 17}, {33, 8}, {2, 5}};

static recipe steps_of(int dtype, int shape, int variant, int back, bool open) {
  return (recipe){.kind = recipe_kind_of("steps"),
                  .dtype = recipe_dtypes[dtype],
                  .dims = {shapes[shape][0], shapes[shape][1], 1},
                  .stride = back,
                  .variant = variant,
                  .open = open,
                  .seed = 7};
}

typedef struct interpreted {
  recipe r;
  const char *target;
} interpreted;

static void interpret(tn__ir *ir, const void *arg) {
  const interpreted *c = arg;
  tn__target target;
  check_ok(tn__target_parse(c->target, &target));
  tn__te *te = make_recipe(ir, &c->r);
  check_ok(tn__te_verify(te));
  tn__schedule_options options = {.threads = 2}; /* which share what is open, as that may be large */
  tn__schedule *s = default_schedule(te, &target, &options);
  tn_status *status = compare_results(s, c->r.seed);
  if (status == NULL) return;
  print_recipe(&c->r, stdout);
  fail_msg("%s:\n%s%s", tn_status_message(status), schedule_text(s, false), schedule_text(s, true));
}

static void interpreted_scans(void **state) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "aarch64"};
  for (int shape = 0; shape < SHAPES; shape++)
    for (int variant = 0; variant < 16; variant++)
      for (int back = 1; back <= 3; back++) {
        int number = (shape * 16 + variant) * 3 + back;
        bool open = number % 4 == 0 || number % 7 == 0;
        interpreted c = {steps_of(number % RECIPE_DTYPES, shape, variant, back, open), targets[number % 3]};
        check_ok(in_context(interpret, &c));
      }
}

/* Rows of 201 floats from beyond L2 are no whole lines: vectors of half of one along rows. */
static void far_rows(tn__ir *ir, const void *arg) {
  const recipe *r = arg;
  tn__target target;
  check_ok(tn__target_parse("x86-64-v4", &target));
  for (int far = 0; far < 2; far++) {
    target.cpu.machine.l2_bytes = far ? 1 << 12 : 1 << 20;
    tn__schedule *s = default_schedule(make_recipe(ir, r), &target, NULL);
    assert_true((strstr(schedule_text(s, false), "split \"S.i1\" 0 8\n") != NULL) == far);
    check_ok(compare_results(s, r->seed));
  }
}

static void interpreted_far_rows(void **state) {
  recipe r = steps_of(0, 1, 4, 1, false);
  r.dims[0] = 17, r.dims[1] = 201;
  check_ok(in_context(far_rows, &r));
}

static recipe recurrence_of(int dtype, int shape, int variant, int batch, bool open) {
  recipe r = steps_of(dtype, shape, variant, batch, open);
  r.kind = recipe_kind_of("recurrence");
  return r;
}

static void interpreted_recurrences(void **state) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "aarch64"};
  for (int shape = 0; shape < SHAPES; shape++)
    for (int variant = 0; variant < 16; variant++)
      for (int batch = 1; batch <= 5; batch += 2) {
        int number = (shape * 16 + variant) * 3 + batch / 2;
        bool open = number % 4 == 0 || number % 7 == 0;
        interpreted c = {recurrence_of(number % RECIPE_DTYPES, shape, variant, batch, open), targets[number % 3]};
        check_ok(in_context(interpret, &c));
      }
}

static void check_compiled(kernel_test *t, const recipe *r) {
  static const int64_t scalars[] = {OPEN_DIM};
  uint8_t *plain, *compiled;
  size_t size, other_size;
  void *buffers[MOST_BUFFERS] = {NULL};
  tn__te *te = make_recipe(t->ir, r);
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *s = default_schedule(te, &t->target, &options);
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  tn_kernel kernel = kernel_compile(t, func);
  check_ok(outputs_of(te, tn__te_lower(te), NULL, r->seed, &plain, &size));
  make_inputs(te, r->seed, buffers);
  int count = func->input_count + func->output_count;
  for (int i = func->input_count; i < count; i++) buffers[i] = fresh_bytes(func->params[i]);
  void *workspace = buffers[count] = kernel_alloc(WORKSPACE_BYTES);
  int32_t result = kernel_run(kernel, buffers, scalars);
  compiled = take_outputs(func, buffers, &other_size);
  bool same = result == TN_KERNEL_OK && size == other_size && memcmp(plain, compiled, size) == 0;
  if (!same) {
    print_recipe(r, stdout);
    fail_msg("the compiled kernel ends with %d and other results\n%s", (int)result, schedule_text(s, true));
  }
  free(plain);
  free(compiled);
  kernel_free(workspace, WORKSPACE_BYTES);
}

static void compile_scans(kernel_test *t, void *user) {
  for (int dtype = 0; dtype < RECIPE_DTYPES; dtype++)
    for (int shape = 0; shape < 2; shape++) {
      int number = dtype * 2 + shape;
      recipe r = steps_of(dtype, shape, number % 16 | 1, 1 + number % 3, number % 5 == 0);
      check_compiled(t, &r);
    }
}

static void compiled_scans(void **state) { kernel_with(NULL, compile_scans, NULL); }

static void compile_recurrences(kernel_test *t, void *user) {
  for (int dtype = 0; dtype < RECIPE_DTYPES; dtype++)
    for (int shape = 1; shape < 5; shape++) {
      int number = dtype * 4 + shape;
      recipe r = recurrence_of(dtype, shape, number % 16, 1 + number % 5, number % 5 == 0);
      check_compiled(t, &r);
    }
}

static void compiled_recurrences(void **state) { kernel_with(NULL, compile_recurrences, NULL); }

/* A scan of columns moves with all of its steps, forwards or backwards. */
static const char columns[] =
    "kernel columns(A: f32[7, 9]) -> D: f32[9, 7] {\n"
    "  F[t: 7, x: 9] = scan(t) A[0, x] then F[t - 1, x] * 2 + A[t, x]\n"
    "  B[t: 7, x: 9] = scan(-t) F[6, x] then B[t + 1, x] * 3 - F[t, x]\n"
    "  D[x, y] = B[y, x] + B[6 - y, x]\n"
    "}\n";
static const char neighbours_of[] =
    "kernel slanted(A: f32[7, 9]) -> D: f32[9, 7] {\n"
    "  F[t: 7, x: 9] = scan(t) A[0, x] then F[t - 1, max(x - 1, 0)] + A[t, x]\n"
    "  D[x, y] = F[y, x]\n"
    "}\n";
static const char with_steps[] =
    "kernel parts(A: f32[7, 9]) -> D: f32[9, 7] {\n"
    "  F[t: 7, x: 9] = scan(t) A[0, x] then sum(k: 9) F[t - 1, k] * A[k % 7, x]\n"
    "  D[x, y] = F[y, x]\n"
    "}\n";

typedef struct moved {
  const char *declaration, *steps[8], *words; /* words of the last step's refusal, or parts of the function */
  bool refused;
} moved;

static void move(tn__ir *ir, const void *arg) {
  const moved *m = arg;
  tn__target *target = tn__arena_alloc(tn__ir_arena(ir), sizeof(*target));
  *target = test_target("x86-64-v4");
  tn__schedule *s = tn__schedule_of(declare_text(ir, m->declaration), target);
  for (int i = 0; m->steps[i] != NULL; i++) tn__sched_trace_step(s, m->steps[i]);
  if (strstr(schedule_text(s, true), m->words) == NULL) fail_msg("no %s in\n%s", m->words, schedule_text(s, true));
  check_same(s);
}

/* Steps whose operation is exactly associative are lanes of a vector, with their state in one register. */
static const char running_sum[] =
    "kernel running(A: i32[3, 40]) -> S: i32[3, 40] {\n"
    "  S[r, i] = scan(i) A[r, 0] * 2 then S[r, i - 1] + A[r, i]\n"
    "}\n";
static const char running_floats[] =
    "kernel running(A: f32[3, 40]) -> S: f32[3, 40] {\n"
    "  S[r, i] = scan(i) A[r, 0] then S[r, i - 1] + A[r, i]\n"
    "}\n";
static const char running_max[] =
    "kernel running(A: f32[3, 40]) -> S: f32[3, 40] {\n"
    "  S[r, i] = scan(i) A[r, 0] then max(A[r, i], S[r, i - 1])\n"
    "}\n";
#define RUNNING \
  "reorder \"S.r\" \"S.i\"", "split \"S.i\" 0 16", "cache_write \"S\" 0 3", "reverse_compute_at \"S.write\" \"S.i.1\""

static void moved_scans(void **state) {
  static const moved cases[] = {
      {running_sum, {RUNNING, "fold_scan \"S\" 0 1", "vectorize \"S.i.1\""}, "vectorized S.i.1", false},
      {running_max, {RUNNING, "fold_scan \"S\" 0 1", "vectorize \"S.i.1\""}, "vectorized S.i.1", false},
      {running_sum, {RUNNING, "vectorize \"S.i.1\""}, "block \"S\" scans along the loop", true},
      {running_floats,
       {RUNNING, "fold_scan \"S\" 0 1", "vectorize \"S.i.1\""},
       "block \"S\" scans along the loop",
       true},
      {running_sum, {RUNNING, "fold_scan \"S\" 0 1", "parallel \"S.i.1\""}, "block \"S\" scans along the loop", true},
      {columns, {"split \"D.x\" 0 4", "compute_at \"B\" \"D.x.0\"", "compute_at \"F\" \"D.x.0\""}, "in [0, +4)", false},
      {columns, {"compute_at \"B\" \"D.x\"", "fold_storage \"B\" \"D.x\" 0"}, "alloc B: f32[7, 1]", false},
      {neighbours_of, {"compute_at \"F\" \"D.x\""}, "compute_at of \"F\": the scan reads other positions of x", true},
      {with_steps,
       {"compute_at \"F\" \"D.x\""},
       "compute_at of \"F\": the steps of its scan compute other tensors, too",
       true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tn_status *status = in_context(move, &cases[i]);
    if (cases[i].refused)
      check_words(status, cases[i].words);
    else
      check_ok(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(moved_scans),
                                     cmocka_unit_test(interpreted_scans),
                                     cmocka_unit_test(compiled_scans),
                                     cmocka_unit_test(interpreted_far_rows),
                                     cmocka_unit_test(interpreted_recurrences),
                                     cmocka_unit_test(compiled_recurrences)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
