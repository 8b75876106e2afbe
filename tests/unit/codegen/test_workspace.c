/* Where intermediate tensors lie in the workspace of a function. */
#include "codegen/workspace.h"
#include "te/text.h"
#include "unit/schedule_check.h"

static tn__func *lowered(tn__ir *ir, const char *text) { return tn__te_lower(declare_text(ir, text)); }

static const tn__cg_place *place_named(const tn__cg_layout *layout, const char *name) {
  for (int i = 0; i < layout->places.count; i++)
    if (strcmp(layout->places.data[i].buffer->name, name) == 0) return &layout->places.data[i];
  fail_msg("%s is not in the workspace", name);
  return NULL;
}

/* P is done with before R is made; Q and R are in use together, and S is read behind both. */
static void what_is_done_with_makes_room(tn__ir *ir, const void *arg) {
  const tn__cg_layout *layout = tn__cg_layout_of(ir, lowered(ir,
                                                             "kernel steps(A: f32[100]) -> D: f32[100] {\n"
                                                             "  S[i] = A[i] * 3\n"
                                                             "  P[i] = A[i] + 1\n"
                                                             "  Q[i] = P[i] * 2\n"
                                                             "  R[i] = Q[i] + 3\n"
                                                             "  D[i] = R[i] - S[i]\n"
                                                             "}\n"));
  int64_t total;
  assert_int_equal(layout->places.count, 4);
  assert_true(tn__ir_as_int(layout->total, &total));
  assert_int_equal(total, 3 * 448); /* 400 bytes in whole lines */
  assert_int_equal(place_named(layout, "P")->start, place_named(layout, "R")->start);
  assert_true(tn__cg_places_share(place_named(layout, "P"), place_named(layout, "R")));
  assert_false(tn__cg_places_share(place_named(layout, "P"), place_named(layout, "Q")));
  for (int i = 0; i < layout->places.count; i++)
    if (layout->places.data[i].buffer != place_named(layout, "S")->buffer)
      assert_false(tn__cg_places_share(&layout->places.data[i], place_named(layout, "S")));
  assert_null(tn__cg_place_of(layout, lowered(ir, "kernel one(A: f32[4]) -> B: f32[4] { B[i] = A[i] }")->params[0]));
}

static void open_sizes_have_places_of_their_own(tn__ir *ir, const void *arg) {
  const tn__cg_layout *layout = tn__cg_layout_of(ir, lowered(ir,
                                                             "kernel steps(A: f32[N]) -> D: f32[N] {\n"
                                                             "  P[i] = A[i] + 1\n"
                                                             "  F[j: 8] = P[0] + 1\n"
                                                             "  Q[i] = P[i] * F[0]\n"
                                                             "  R[i] = Q[i] + 3\n"
                                                             "  D[i] = R[i]\n"
                                                             "}\n"));
  assert_int_equal(place_named(layout, "F")->start, 0);
  const tn__expr *p = place_named(layout, "P")->offset, *q = place_named(layout, "Q")->offset,
                 *r = place_named(layout, "R")->offset;
  assert_true(p != q && q != r && p != r && layout->total != r);
}

static void fixed_sizes(void **state) { check_ok(in_context(what_is_done_with_makes_room, NULL)); }
static void open_sizes(void **state) { check_ok(in_context(open_sizes_have_places_of_their_own, NULL)); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fixed_sizes), cmocka_unit_test(open_sizes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
