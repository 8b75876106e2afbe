/* Windows that slide: what an iteration of a loop shares with the one before it is computed once. Each schedule
 * computes what its declaration says, replays from its trace, and has the memory that it should; what cannot slide is
 * refused in words, and what later steps take its ground from is whole again. */
#include "te/text.h"
#include "unit/schedule_check.h"

static const char steps_down[] =
    "kernel chain(A: f32[12, 9]) -> D: f32[8, 9] {\n"
    "  B[y: 12, x: 9] = A[y, x] * 3\n"
    "  C[y: 10, x: 9] = B[y, x] + B[y + 1, x] - B[y + 2, x]\n"
    "  D[y: 8, x: 9] = C[y, x] + C[y + 2, x] * 2\n"
    "}\n";
/* Windows of a sum, of one that goes down by two rows, and of a reduction's own terms. */
static const char sums[] =
    "kernel sums(A: f32[19, 9]) -> D: f32[8, 9] {\n"
    "  B[y: 18, x: 9] = sum(k: 2) A[y + k, x]\n"
    "  D[y: 8, x: 9] = max(k: 3) B[2 * y + k, x]\n"
    "}\n";
static const char diagonal[] =
    "kernel diagonal(A: f32[9, 9]) -> D: f32[6] {\n"
    "  B[y: 9, x: 9] = A[y, x] * 3\n"
    "  D[y: 6] = B[y, y] + B[y + 1, y + 1]\n"
    "}\n";
static const char twice[] =
    "kernel twice(A: f32[7, 9]) -> D: f32[6, 9] {\n"
    "  B[y: 7, x: 9] = A[y, x] * 3\n"
    "  C[y: 6, x: 9] = B[y, x] + 1\n"
    "  D[y: 6, x: 9] = C[y, x] + B[y, x] + B[y + 1, x]\n"
    "}\n";
static const char square[] =
    "kernel square(A: f32[9, 8]) -> D: f32[8, 8] {\n"
    "  B[x: 8, y: 9] = A[y, x] * 3\n"
    "  D[x: 8, y: 8] = B[x, y] + B[x, y + 1]\n"
    "}\n";
/* A declaration, steps of a trace over it, parts of the function, or words of the last step's refusal. */
typedef struct use {
  const char *declaration;
  const char *steps[12];
  const char *has[3];
} use;

static tn__schedule *apply_use(tn__ir *ir, const use *u) {
  tn__target *target = tn__arena_alloc(tn__ir_arena(ir), sizeof(*target));
  *target = test_target("x86-64-v4");
  tn__schedule *s = tn__schedule_of(declare_text(ir, u->declaration), target);
  for (int i = 0; u->steps[i] != NULL; i++) tn__sched_trace_step(s, u->steps[i]);
  return s;
}

static const use legal_uses[] = {
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "compute_at \"B\" \"D.y\"", "slide \"C\" \"D.y\"", "slide \"B\" \"D.y\"",
      "set_scope \"B\" 0 2", "set_scope \"C\" 0 2"},
     {"alloc C: f32[4, 9] stack", "alloc B: f32[8, 9] stack", "where D.y < 1 || 3 < B.y"}},
    /* Strips that threads share have rings of their own. */
    {steps_down,
     {"split \"D.y\" 0 3", "compute_at \"C\" \"D.y.1\"", "compute_at \"B\" \"D.y.1\"", "slide \"C\" \"D.y.1\"",
      "slide \"B\" \"D.y.1\"", "parallel \"D.y.0\""},
     {"alloc B: f32[3, 8, 9] workspace", "alloc C: f32[3, 4, 9] workspace", "D.y.1 < 1"}},
    /* Two rows in each iteration, of which the window is split, with vectors inside. */
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "split \"D.y\" 0 2", "compute_root \"C\"", "compute_at \"C\" \"D.y.0\"",
      "slide \"C\" \"D.y.0\"", "split \"C.y\" 2 2", "split \"C.x\" 0 4", "vectorize \"C.x.1\""},
     {"alloc C: f32[4, 9] workspace", "where C.x.0*4 + C.x.1 < 9 && (D.y.0 < 1 || 1 < C.y.0*2 + C.y.1)"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"D.y\"", "unroll \"D.y\"", "set_scope \"C\" 0 3"},
     {"alloc C: f32[4, 9] register"}},
    /* One dimension further in, and another order in memory. */
    {square,
     {"reorder \"D.y\" \"D.x\"", "compute_at \"B\" \"D.y\"", "slide \"B\" \"D.y\"",
      "transform_layout \"B\" 1 1 0 0 1 0"},
     {"alloc B: f32[2, 8] workspace"}},
    {sums,
     {"compute_at \"B\" \"D.y\"", "slide \"B\" \"D.y\"", "set_scope \"B\" 0 2"},
     {"alloc B: f32[4, 9] stack", "where D.y < 1 || 0 < B.y"}},
    /* The window moves along the reduction. */
    {sums,
     {"reorder \"D.k\" \"D.y\"", "compute_at \"B\" \"D.k\"", "slide \"B\" \"D.k\""},
     {"alloc B: f32[16, 9] workspace", "where D.k < 1 || 13 < B.y"}},
    /* What later steps change, is whole again. */
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"D.y\"", "compute_root \"C\""},
     {"alloc C: f32[10, 9] workspace"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "set_scope \"C\" 0 2", "slide \"C\" \"D.y\"", "parallel \"D.y\""},
     {"alloc C: f32[3, 9] stack"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"D.y\"", "split \"C.y\" 0 2"},
     {"where C.y.0*2 + C.y.1 < 3\n", "alloc C: f32[10, 9] workspace"}},
};

static void check_use(tn__ir *ir, const void *arg) {
  const use *u = arg;
  tn__schedule *s = apply_use(ir, u), *again;
  tn__target target = test_target("x86-64-v4");
  const char *text = schedule_text(s, true);
  for (int i = 0; i < 3 && u->has[i] != NULL; i++)
    if (strstr(text, u->has[i]) == NULL) fail_msg("no \"%s\" in\n%s", u->has[i], text);
  check_same(s);
  check_ok(tn__sched_trace_replay(tn__schedule_te(s), &target, schedule_text(s, false), &again));
  assert_string_equal(schedule_text(again, false), schedule_text(s, false));
  assert_string_equal(schedule_text(again, true), text);
}

static void slides(void **state) {
  for (size_t i = 0; i < sizeof(legal_uses) / sizeof(legal_uses[0]); i++)
    check_ok(in_context(check_use, &legal_uses[i]));
}

static const use refusals[] = {
    {steps_down, {"slide \"D\" \"D.y\""}, {"slide of \"D\": D is an output"}},
    {steps_down, {"slide \"C\" \"D.y\""}, {"slide of \"C\" in \"D.y\": it is not computed in the loop"}},
    {steps_down, {"slide \"C\" \"D.z\""}, {"slide: there is no loop \"D.z\""}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"D.y\"", "slide \"C\" \"D.y\""},
     {"slide of \"C\": C slides already"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"D.y\"", "split \"D.y\" 0 2"},
     {"split of \"D.y\": C slides in the loop; do that before"}},
    {steps_down,
     {"split \"D.y\" 0 4", "compute_at \"C\" \"D.y.0\"", "fold_storage \"C\" \"D.y.0\" 0", "slide \"C\" \"D.y.0\""},
     {"slide of \"C\" in \"D.y.0\": its storage is folded"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "set_scope \"C\" 0 2", "parallel \"D.y\"", "slide \"C\" \"D.y\""},
     {"slide of \"C\" in \"D.y\": the loop's iterations do not run one after the other"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "parallel \"C.x\"", "slide \"C\" \"D.y\""},
     {"slide of \"C\" in \"D.y\": loops inside run in parallel"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "parallel \"D.x\"", "slide \"C\" \"D.y\""},
     {"slide of \"C\" in \"D.y\": loops inside run in parallel"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "set_scope \"C\" 0 4", "slide \"C\" \"D.y\""},
     {"slide of \"C\" in \"D.y\": it is in shared memory"}},
    {steps_down,
     {"compute_at \"C\" \"D.x\"", "slide \"C\" \"D.x\""},
     {"slide of \"C\" in \"D.x\": nothing that an iteration needs was made by the one before"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "slide \"C\" \"C.y\""},
     {"slide of \"C\" in \"C.y\": nothing that an iteration needs was made by the one before"}},
    {steps_down,
     {"compute_at \"C\" \"D.y\"", "split \"C.y\" 0 2", "slide \"C\" \"D.y\""},
     {"slide of \"C\" in \"D.y\": rows of its window are left out"}},
    {sums,
     {"decompose_reduction \"B\" \"B.k\"", "slide \"B\" \"B.y\""},
     {"slide of \"B\" in \"B.y\": one block must write it, and nothing else, axis by axis"}},
    {sums, {"slide \"B\" \"B.k\""}, {"slide of \"B\" in \"B.k\": the loop carries its values on"}},
    {diagonal,
     {"compute_at \"B\" \"D.y\"", "slide \"B\" \"D.y\""},
     {"slide of \"B\" in \"D.y\": the loop moves it along more than one dimension"}},
    {steps_down,
     {"fuse \"D.y\" \"D.x\"", "compute_at \"C\" \"D.y+D.x\"", "slide \"C\" \"D.y+D.x\""},
     {"slide of \"C\" in \"D.y+D.x\": its window does not move by a constant, or has gaps"}},
    {square,
     {"compute_at \"B\" \"D.x\"", "slide \"B\" \"D.x\""},
     {"slide of \"B\" in \"D.x\": nothing that an iteration needs was made by the one before"}},
    {twice,
     {"compute_at \"C\" \"D.y\"", "compute_at \"B\" \"D.y\"", "slide \"B\" \"C.y\""},
     {"slide of \"B\" in \"C.y\": it is not computed in the loop"}},
};

static void refuse_use(tn__ir *ir, const void *arg) { apply_use(ir, arg); }

static void refuses(void **state) {
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
    check_words(in_context(refuse_use, &refusals[i]), refusals[i].has[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slides), cmocka_unit_test(refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
