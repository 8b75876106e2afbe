/* Each primitive: legal uses give what the declaration says, illegal ones are refused in words. */
#include "unit/schedule_check.h"

static tn__schedule *start(tn__ir *ir, declaration make) {
  static const char *const name = "x86-64-v4";
  tn__target *target = tn__arena_alloc(tn__ir_arena(ir), sizeof(*target));
  *target = test_target(name);
  return tn__schedule_of(make(ir), target);
}

static void default_of(tn__ir *ir, const void *arg) {
  const declaration *make = arg;
  tn__te *te = (*make)(ir);
  tn__target target = test_target("x86-64-v4");
  check_same(tn__schedule_default(te, &target, NULL));
}

static void defaults(void **state) {
  for (int i = 0; i < DECLARATION_COUNT; i++) check_ok(in_context(default_of, &declarations[i]));
}

static void loops_of_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__split(s, "C.i0", (int64_t[]){0, 3}, 2);
  tn__split(s, "C.i1", (int64_t[]){2, 0, 4}, 3);
  tn__reorder(s, (const char *[]){"C.k0", "C.i0.1", "C.i1.2"}, 3);
  tn__unroll(s, "C.i0.1");
  tn__fuse(s, "D.i0", "D.i1");
  tn__split(s, "D.i0+D.i1", (int64_t[]){0, 8}, 2);
  tn__vectorize(s, "D.i0+D.i1.1");
  tn__parallel(s, "D.i0+D.i1.0");
  check_same(s);
}

static void tiled_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__split(s, "C.i0", (int64_t[]){0, 3}, 2);
  tn__split(s, "C.i1", (int64_t[]){0, 4}, 2);
  tn__reorder(s, (const char *[]){"C.i0.0", "C.i1.0", "C.k0", "C.i0.1", "C.i1.1"}, 5);
  tn__set_scope(s, "C", 0, TN__SCOPE_REGISTER);
  tn__vectorize(s, "C.i1.1");
  tn__unroll(s, "C.i0.1");
  tn__reverse_compute_at(s, "D", "C.i1.0");
  tn__decompose_reduction(s, "C", "C.k0");
  tn__parallel(s, "C.i0.0");
  check_same(s);
}

static void cached_product(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, product);
  tn__cache_write(s, "D", 0, TN__SCOPE_STACK);
  tn__cache_read(s, "C", 1, TN__SCOPE_WORKSPACE);
  tn__split(s, "D.write.a0", (int64_t[]){0, 2}, 2);
  tn__compute_at(s, "D", "D.write.a0.0");
  tn__compute_at(s, "C", "D.write.a0.0");
  tn__parallel(s, "D.write.a0.0");
  tn__set_scope(s, "C", 0, TN__SCOPE_STACK);
  check_same(s);
}

static void moved_stencil(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__inline(s, "Q");
  tn__split(s, "R.i1", (int64_t[]){0, 4}, 2);
  tn__compute_at(s, "P", "R.i1.0");
  tn__set_scope(s, "P", 0, TN__SCOPE_STACK);
  tn__parallel(s, "R.i0");
  check_same(s);
}

static void reverse_inlined(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, stencil);
  tn__reverse_inline(s, "R");
  check_same(s);
}

static void factored_rows(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, rows);
  tn__compute_at(s, "sum", "out.i0");
  tn__compute_at(s, "e", "out.i0");
  tn__compute_at(s, "top", "out.i0");
  tn__split(s, "sum.k0", (int64_t[]){0, 8}, 2);
  tn__rfactor(s, "sum.k0.1");
  tn__split(s, "top.k0", (int64_t[]){0, 64}, 2); /* more lanes than elements */
  tn__rfactor(s, "top.k0.1");
  tn__vectorize(s, "sum.k0.1");
  tn__set_scope(s, "sum.rf", 0, TN__SCOPE_STACK);
  tn__set_scope(s, "e", 0, TN__SCOPE_STACK);
  tn__parallel(s, "out.i0");
  check_same(s);
}

static void factored_argmax(tn__ir *ir, const void *arg) {
  tn__schedule *s = start(ir, argmax);
  tn__split(s, "top.k0", (int64_t[]){0, 8}, 2);
  tn__rfactor(s, "top.k0.1");
  check_same(s);
}

static void legal(void **state) {
  check_ok(in_context(loops_of_product, NULL));
  check_ok(in_context(tiled_product, NULL));
  check_ok(in_context(cached_product, NULL));
  check_ok(in_context(moved_stencil, NULL));
  check_ok(in_context(reverse_inlined, NULL));
  check_ok(in_context(factored_rows, NULL));
  check_ok(in_context(factored_argmax, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(legal), cmocka_unit_test(defaults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
