/* Products of matrices on GPUs: what is drawn of them, in every type, with operands turned and sizes of all kinds, is
 * scheduled as instructions on matrices, computes what the declaration says whatever tiles are taken, without races,
 * and has its sums in registers where CUDA C is made of it. */
#include "codegen/backend.h"
#include "codegen/c/source.h"
#include "cuda/kernels.h"
#include "target/text/text.h"
#include "unit/schedule_check.h"

typedef struct type_row {
  const char *left, *right, *sum, *instruction;
} type_row;

static const type_row types[] = {
    {"f16", "f16", "f32", "cuda.mma.m16n8k16.f16"},
    {"bf16", "bf16", "f32", "cuda.mma.m16n8k16.bf16"},
    {"i8", "i8", "i32", "cuda.mma.m16n8k32.i8.i8"},
    {"i8", "u8", "i32", "cuda.mma.m16n8k32.i8.u8"},
    {"u8", "i8", "i32", "cuda.mma.m16n8k32.u8.i8"},
    {"u8", "u8", "i32", "cuda.mma.m16n8k32.u8.u8"},
    {"f64", "f64", "f64", "cuda.mma.m8n8k4.f64"},
    {"f32", "f32", "f32", NULL},
    {"i32", "i32", "i32", NULL},
    {"f16", "f16", "f16", NULL},
};
enum { TYPES = sizeof(types) / sizeof(types[0]), DRAWN = 60, POINTS = 3 };

typedef struct drawn {
  dice dice;
  const type_row *type;
  char text[1024];
  bool open; /* its rows are */
} drawn;

/* C[b, i, j] = sum(k) A * B, then perhaps a map. */
static void draw_product(drawn *d, int number) {
  const type_row *t = d->type = &types[number % TYPES];
  const int m = 16 + roll(&d->dice, 60), n = 16 + roll(&d->dice, 60), k = 16 + roll(&d->dice, 40);
  const int batch = roll(&d->dice, 3), shape = roll(&d->dice, 4), map = roll(&d->dice, 3);
  char rows[16], head[16] = "", b[16] = "", a_shape[64], b_shape[64];
  d->open = roll(&d->dice, 5) == 0;
  snprintf(rows, sizeof rows, d->open ? "M" : "%d", m);
  if (batch > 0) snprintf(head, sizeof head, "%d, ", batch + 1), snprintf(b, sizeof b, "b, ");
  const bool left = (shape & 1) != 0, right = (shape & 2) != 0,
             own = batch > 1; /* turned; has the right one a batch? */
  if (left)
    snprintf(a_shape, sizeof a_shape, "%s%d, %s", head, k, rows);
  else
    snprintf(a_shape, sizeof a_shape, "%s%s, %d", head, rows, k);
  snprintf(b_shape, sizeof b_shape, "%s%d, %d", own ? head : "", right ? n : k, right ? k : n);
  const char *cast[2] = {strcmp(t->left, t->sum) == 0 ? "" : t->sum, strcmp(t->right, t->sum) == 0 ? "" : t->sum};
  snprintf(d->text, sizeof d->text,
           "kernel product(A: %s[%s], B: %s[%s], D: %s[%d]) -> C: %s[%s%s, %d] {\n"
           "  S[%si, j] = sum(k: %d) %s(A[%s%s]) * %s(B[%s%s])\n"
           "  C[%si, j] = %s\n}\n",
           t->left, a_shape, t->right, b_shape, t->sum, n, t->sum, head, rows, n, b, k, cast[0], b,
           left ? "k, i" : "i, k", cast[1], own ? b : "", right ? "j, k" : "k, j", b,
           map == 0   ? (batch > 0 ? "S[b, i, j]" : "S[i, j]")
           : map == 1 ? (batch > 0 ? "max(S[b, i, j] + D[j], 0)" : "max(S[i, j] + D[j], 0)")
                      : (batch > 0 ? "S[b, i, j] * D[j]" : "S[i, j] * D[j]"));
}

/* The function computes what `want` has, and races nowhere. */
static void check_results(const tn__te *te, const tn__func *func, void *const *want, const drawn *d) {
  void *got[MOST_BUFFERS];
  memcpy(got, want, sizeof got);
  make_outputs(func, got);
  tn_status *status = interpret(te, func, got);
  if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), d->text);
  for (int i = func->input_count; i < func->input_count + func->output_count; i++) {
    const element_type *type = type_named(tn_dtype_name(func->params[i]->dtype));
    for (int64_t e = 0; e < element_count(func->params[i]); e++)
      if (!is_same(type, number_at(type, got[i], e), number_at(type, want[i], e), tolerance_of(func)))
        fail_msg("%s: element %lld is %g, not %g", d->text, (long long)e, number_at(type, got[i], e),
                 number_at(type, want[i], e));
    free(got[i]);
  }
}

/* One point of the space; NULL where it cannot be. */
static const tn__func *scheduled(const tn__sketch *k, int64_t index) {
  int64_t values[TN__MAX_DECISIONS];
  tn__sketch_at(k, index, values);
  if (!(tn__sketch_cost(k, values, NULL) < (double)INFINITY)) return NULL;
  return tn__schedule_func(tn__sketch_apply(k, values));
}

static void check_code(tn__ir *ir, const tn__target *target, const tn__func *func, const drawn *d) {
  tn__code code = tn__codegen_cuda(
      tn__ir_arena(ir), &(tn__codegen_module){.irs = &ir, .funcs = &func, .count = 1, .target = target}, NULL);
  const char *text = code.data;
  if (d->type->instruction != NULL && strstr(text, "  tn_mma_") == NULL)
    fail_msg("no instructions: %s%s", d->text, text);
  if (strstr(text, "TN_SHARED tn_f32 S_tiles") != NULL || strstr(text, "TN_SHARED tn_i32 S_tiles") != NULL ||
      strstr(text, "TN_SHARED tn_f64 S_tiles") != NULL)
    fail_msg("sums are not in registers: %s", d->text);
}

static void check_product(tn__ir *ir, const void *arg) {
  drawn own = *(const drawn *)arg, *d = &own;
  tn__te_source *source;
  tn__te *te;
  tn__target target;
  void *buffers[MOST_BUFFERS] = {NULL};
  tn__escape *escape = tn__ir_arena(ir)->escape;
  tn__check(escape, tn__target_parse("cuda -arch=sm_80", &target));
  tn__check(escape, tn__te_parse(tn__ir_arena(ir), "drawn", d->text, strlen(d->text), &source));
  tn__check(escape, tn__te_declare(source, 0, NULL, 0, ir, &te));
  open_dim = 16 + roll(&d->dice, 40);
  tn__func *plain = tn__te_lower(te);
  make_bundle_inputs(te, d->dice.state, buffers);
  make_outputs(plain, buffers);
  tn__check(escape, interpret(te, plain, buffers));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, NULL);
  tn__check(escape, tn__te_verify(unit.te));
  tn__sketch *k = tn__plan_sketch(&unit, &tn__chooser_static);
  assert_string_equal(tn__sketch_name(k), d->type->instruction != NULL ? "gpu matrix" : "gpu product");
  int tried = 0;
  for (int i = 0; i < 64 && tried < POINTS; i++) {
    const tn__func *func = scheduled(k, roll(&d->dice, (int)tn__sketch_points(k)));
    if (func == NULL) continue;
    func = tn__backend_cuda.lower(ir, func, NULL);
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__func_print(func, &text);
    assert_true(d->type->instruction == NULL || strstr(tn__strbuf_text(&text), d->type->instruction) != NULL);
    tn__strbuf_release(&text);
    check_results(te, func, buffers, d);
    check_code(ir, &target, func, d);
    tried++;
  }
  assert_true(tried > 0);
  for (int i = 0; i < plain->input_count + plain->output_count; i++) free(buffers[i]);
}

static void products_are_right_in_all_tiles(void **state) {
  for (int i = 0; i < DRAWN; i++) {
    drawn d = {.dice = {.state = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 20261127}};
    draw_product(&d, i);
    check_ok(tn_status_prefix(in_context(check_product, &d), "%s", d.text));
  }
  open_dim = OPEN_DIM;
}

/* Sums of few terms, of few rows, or that are no sums of products, stay with the other rule. */
static void others_are_left_alone(tn__ir *ir, const void *arg) {
  static const char *const texts[] = {
      "kernel few(A: f16[64, 8], B: f16[8, 64]) -> C: f32[64, 64] { C[i, j] = sum(k: 8) f32(A[i, k]) * f32(B[k, j]) }",
      "kernel vector(A: f16[64, 64], B: f16[64]) -> C: f32[64] { C[i] = sum(k: 64) f32(A[i, k]) * f32(B[k]) }",
      "kernel m(A: f16[9, 64], B: f16[64, 9]) -> C: f32[9, 9] { C[i, j] = max(k: 64) f32(A[i, k]) * f32(B[k, j]) }",
      "kernel square(A: f32[64, 64]) -> C: f32[64] { C[i] = sum(k: 64) A[i, k] * A[i, k] }"};
  tn__escape *escape = tn__ir_arena(ir)->escape;
  tn__target target;
  tn__check(escape, tn__target_parse("cuda -arch=sm_80", &target));
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    tn__te_source *source;
    tn__te *te;
    tn__check(escape, tn__te_parse(tn__ir_arena(ir), "text", texts[i], strlen(texts[i]), &source));
    tn__check(escape, tn__te_declare(source, 0, NULL, 0, ir, &te));
    tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, NULL);
    assert_ptr_equal(unit.te, te);
  }
}

static void other_products_are_left_alone(void **state) { check_ok(in_context(others_are_left_alone, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right_in_all_tiles),
                                     cmocka_unit_test(other_products_are_left_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
