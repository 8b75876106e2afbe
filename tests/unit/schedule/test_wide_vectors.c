/* Targets whose vectors are wider than those of any CPU of the table, as SVE's and RVV's may be: rules choose schedules
 * for them, and these compute the same. Nothing generates code for them; the interpreter runs them. */
#include "schedule/internal.h"
#include "unit/schedule_check.h"

/* A core like others, with all that it does in vectors `times` as wide. */
static tn__target widened(int vector_bytes) {
  tn__target target = test_target("x86-64-v4");
  int times = vector_bytes / target.cpu.vector_bytes;
  tn__core *core = &target.cpu.machine.core;
  target.cpu.vector_bytes = vector_bytes;
  core->fma_bytes *= times, core->load_bytes *= times, core->store_bytes *= times, core->shuffle_bytes *= times;
  target.cpu.row = target.cpu.machine;
  return target;
}

/* y = 2 x, along one long axis. */
static tn__te *doubled(tn__ir *ir) {
  tn__te *te = tn__te_create(ir, "doubled");
  const tn__buffer *x = input(te, "X", 1, 2048, 0, 0);
  tn__te_axes i = axes_of(te, "i", 1, (int64_t[]){2048});
  tn__te_output(
      te, tn__te_compute(te, "Y", &i, tn__ir_mul(ir, tn__ir_load(ir, x, i.index), tn__ir_constant(ir, TN_F32, 2))));
  return te;
}

static tn__te *turned_of(tn__ir *ir, tn_dtype dtype) {
  tn__te *te = tn__te_create(ir, "turned");
  const tn__expr *shape[] = {tn__ir_index(ir, 96), tn__ir_index(ir, 160)};
  const tn__buffer *x = tn__te_input(te, "X", dtype, 2, shape);
  tn__te_axes i = axes_of(te, "i", 2, (int64_t[]){160, 96});
  tn__te_output(te, tn__te_compute(te, "Y", &i, at(ir, x, 2, i.index[1], i.index[0], NULL)));
  return te;
}
static tn__te *turned(tn__ir *ir) { return turned_of(ir, TN_F32); }
static tn__te *turned_bytes(tn__ir *ir) { return turned_of(ir, TN_U8); }
static tn__te *large_product(tn__ir *ir) { return product_of(ir, 12, 256, 9); }

typedef struct wide_case {
  declaration make;
  int vector_bytes;
  int most; /* bytes of the widest vectors that the schedule has */
} wide_case;

static bool see_vectors(const tn__stmt *s, void *user) {
  int64_t extent, *most = user;
  if (s->kind == TN__STMT_FOR && s->as.loop.kind == TN__LOOP_VECTORIZED &&
      tn__ir_as_int(s->as.loop.var->extent, &extent) && extent > *most)
    *most = extent;
  return true;
}

static void schedule_wide(tn__ir *ir, const void *arg) {
  const wide_case *c = arg;
  tn__target target = widened(c->vector_bytes);
  tn__plan plan;
  tn__te *te = c->make(ir);
  tn__schedule *s = choose_schedule(te, &target, NULL, &plan);
  int64_t lanes = 1;
  tn__stmt_walk(tn__schedule_func(s)->body, see_vectors, &lanes);
  lanes *= (int64_t)tn_dtype_size(tn__te_output_at(te, 0)->dtype);
  if (c->most > 0 && lanes != c->most)
    fail_msg("%d bytes: vectors of %d bytes, not %d\n%s", c->vector_bytes, (int)lanes, c->most,
             schedule_text(s, false));
  check_same(s);
}

static void wide_vectors_are_used(void **state) {
  static const wide_case cases[] = {{doubled, 64, 64},         {doubled, 128, 128},       {doubled, 256, 256},
                                    {large_product, 128, 128}, {large_product, 256, 256}, {turned, 128, 0},
                                    {turned, 256, 0},          {turned_bytes, 128, 0},    {turned_bytes, 256, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_ok(in_context(schedule_wide, &cases[i]));
}

/* Every kind of declaration, at widths that are no CPU's. */
static void wide_vectors_compute_the_same(void **state) {
  for (int i = 0; i < DECLARATION_COUNT; i++)
    for (int bytes = 128; bytes <= 256; bytes *= 2)
      check_ok(in_context(schedule_wide, &(wide_case){declarations[i], bytes, 0}));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wide_vectors_are_used),
      cmocka_unit_test(wide_vectors_compute_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
