/* Spaces of declarations that are scheduled part by part: their points are decisions of parts, as text and as traces,
 * and a search finds the best of each part. */
#include <math.h>

#include "base/hash.h"
#include "schedule/sketch/decided.h"
#include "tune/search/points.h"
#include "tune/search/search.h"
#include "unit/check.h"
#include "unit/schedule_check.h"

static const char two_products[] =
    "kernel two(A: f32[48, 40], B: f32[40, 56], D: f32[56, 24]) -> E: f32[48, 24] {\n"
    "  C[i, j] = sum(k: 40) A[i, k] * B[k, j]\n"
    "  E[i, j] = sum(k: 56) C[i, k] * D[k, j]\n"
    "}\n";

static tn_tune_task task_of(const char *text) {
  return (tn_tune_task){
      .size = sizeof(tn_tune_task), .name = "two", .declaration = text, .target = "x86-64-v3", .threads = 1};
}

static tn__space *open_space(const tn_tune_task *task) {
  tn__space *space;
  check_ok(tn__space_open(task, &space));
  return space;
}

/* The trace of a point, replayed on the declaration as a file of schedules is, computes what the declaration does. */
typedef struct replayed {
  const tn__space *space;
  const char *trace;
} replayed;

static void replay(tn__ir *ir, const void *arg) {
  const replayed *r = arg;
  tn__plan_unit unit;
  tn__space_declare(tn__ir_arena(ir), r->space->task, &r->space->target, &unit);
  const tn__recorded recorded = {.traces = &r->trace, .count = 1};
  const tn__chooser chooser = tn__chooser_recorded(&recorded);
  check_same(tn__plan_kernel(&unit, &chooser)->schedule);
}

static int parts_apart(const tn__space *space, const tn__space_point *a, const tn__space_point *b) {
  int count = 0;
  for (int i = 0; i < space->part_count; i++) count += memcmp(&a->parts[i], &b->parts[i], sizeof a->parts[i]) != 0;
  return count;
}

static void test_points_have_parts(void **state) {
  const tn_tune_task task = task_of(two_products);
  tn__space *space = open_space(&task);
  uint64_t random = 5;
  int made = 0;
  assert_string_equal(space->static_rule, "sequence");
  assert_true(space->parts_of >= 0 && space->parts_of == space->static_point.rule);
  assert_int_equal(space->part_count, 2);
  assert_string_equal(space->parts[0].name, "C");
  assert_string_equal(space->parts[1].name, "E");
  assert_float_equal(tn__space_weigh(space, &space->static_point).cycles,
                     space->parts[0].cycles + space->parts[1].cycles, 1);
  for (int i = 0; i < 3000 && made < 12; i++) { /* most points cannot be */
    tn__space_point point = space->static_point, again;
    int part = i % 2 == 0 ? tn__space_mutate(space, &random, &point)
                          : tn__space_draw(space, space->parts_of, &space->static_point, &random, &point);
    for (int other = 0; other < 2; other++)
      if (other != part)
        assert_memory_equal(&point.parts[other], &space->static_point.parts[other], sizeof point.parts[other]);
    char *text = tn__space_decisions(space, &point), *trace;
    assert_true(tn__space_read(space, "sequence", text, &again) && tn__space_same(space, &again, &point));
    if (isfinite(tn__space_weigh(space, &point).cycles)) {
      tn_status *status = tn__space_trace(space, &point, &trace);
      if (status == NULL) {
        const replayed r = {space, trace};
        check_ok(in_context(replay, &r));
        made += strcmp(trace, space->static_trace) != 0;
        free(trace);
      }
      tn_status_free(status); /* refused by a primitive */
    }
    free(text);
  }
  assert_int_equal(made, 12);
  tn__space_close(space);
}

static void test_the_static_choice_is_a_point(void **state) {
  const tn_tune_task task = task_of(two_products);
  tn__space *space = open_space(&task);
  char *trace;
  check_ok(tn__space_trace(space, &space->static_point, &trace));
  assert_string_equal(trace, space->static_trace);
  free(trace);
  tn__space_close(space);
}

/* What a text lacks, or says of other parts, is no point. */
static void test_texts_of_parts(void **state) {
  const tn_tune_task task = task_of(two_products);
  tn__space *space = open_space(&task);
  char *text = tn__space_decisions(space, &space->static_point);
  tn__space_point point;
  assert_true(strncmp(text, "\"C\" contraction: lanes ", 23) == 0 && strstr(text, "; \"E\" contraction: ") != NULL);
  assert_true(tn__space_read(space, "sequence", text, &point));
  assert_false(tn__space_read(space, "sequence", "parts 2", &point));
  assert_false(tn__space_read(space, "sequence", strstr(text, "\"E\""), &point));
  assert_false(tn__space_read(space, "stages", text, &point));
  assert_false(tn__space_read(space, "sequence", "\"C\" scan: rows 3; \"E\" scan: rows 3", &point));
  assert_false(tn__space_read(space, "sequence", "\"C\" contraction", &point));
  assert_false(tn__space_read(space, "sequence", "\"C", &point));
  free(text);
  tn__space_close(space);
}

/* A sketch's rows become the nearest choice, and what no text speaks of stays. */
static void test_the_nearest_point(void **state) {
  const tn_tune_task task = task_of(two_products);
  static const char other[] =
      "kernel two(P: f32[480, 400], Q: f32[400, 560], R: f32[560, 240]) -> T: f32[480, 240] {\n"
      "  S[i, j] = sum(k: 400) P[i, k] * Q[k, j]\n"
      "  T[i, j] = sum(k: 560) S[i, k] * R[k, j]\n"
      "}\n";
  const tn_tune_task large = task_of(other);
  tn__space *space = open_space(&task), *from = open_space(&large);
  tn__space_point point;
  uint64_t random = 3;
  int other_parts = 0;
  for (int i = 0; i < 40; i++) {
    tn__space_point there = from->static_point;
    assert_true(tn__space_mutate(from, &random, &there) >= 0);
    char *text = tn__space_decisions(from, &there), *here;
    assert_true(tn__space_nearest(space, "sequence", text, &point));
    here = tn__space_decisions(space, &point);
    assert_true(tn__space_read(space, "sequence", here, &point)); /* all are choices */
    other_parts += parts_apart(space, &point, &space->static_point) > 0;
    free(here);
    free(text);
  }
  assert_true(other_parts >= 20);
  assert_false(tn__space_nearest(space, "scan", "rows 3", &point));
  assert_false(tn__space_nearest(space, "sequence", "rows 3", &point));
  tn__space_close(from);
  tn__space_close(space);
}

/* What a candidate says of parts that cannot be is told, and nothing else is taken. */
static void decide(tn__ir *ir, const void *arg) {
  const tn_tune_task task = task_of(two_products);
  const tn__decided decided = {"sequence", arg};
  const tn__chooser chooser = tn__chooser_decided(&decided);
  tn__target target = test_target("x86-64-v3");
  tn__plan_unit unit;
  tn__space_declare(tn__ir_arena(ir), &task, &target, &unit);
  check_same(tn__plan_kernel(&unit, &chooser)->schedule);
}

static void test_decided_parts(void **state) {
  static const struct {
    const char *text, *words;
    tn_status_code code;
  } cases[] = {{"\"C\" scan: rows 3; \"E\" stages: vectors 1", "part \"C\": the rule scan does not fit the kernel",
                TN_FAILED_PRECONDITION},
               {"\"C\" stages: height 3", "part \"C\": rule stages decides on no \"height\"", TN_FAILED_PRECONDITION},
               {"\"E\" stages: vectors 1", "part \"E\": rule stages decides on prefetch, and the candidate does not",
                TN_FAILED_PRECONDITION},
               {"\"E\" stages: vectors x", "part \"E\": \"vectors x\" is no decision, or the second of its name",
                TN_FAILED_PRECONDITION},
               {"\"E\" stages: vectors 77, prefetch 0, whole rows 0, parts 1",
                "the rule sequence does not fit the kernel, or one of its parts cannot be as it is decided",
                TN_INVALID_ARGUMENT},
               {"\"E", "rule sequence decides on no \"\"", TN_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    check_fails(in_context(decide, cases[i].text), cases[i].code, cases[i].words);
  check_ok(in_context(decide, "\"E\" stages: vectors 1, prefetch 0, whole rows 0, parts 1")); /* C: statically */
  check_ok(in_context(decide, "parts 2"));
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

static double part_seconds(const tn__space *space, const tn__space_point *point, int part) {
  const tn__space_setting *s = &point->parts[part];
  return 1e-5 * (1 + (double)(tn__hash_bytes(7 + (uint64_t)part, s, sizeof *s) % 1000) / 1000);
}

/* Times that add up from made-up ones of the parts: a search that goes part by part gets near the best of both, which
 * chance of the same number of trials on the product of both spaces does not. */
static void test_a_search_goes_part_by_part(void **state) {
  const tn_tune_task task = task_of(two_products);
  tn__space *space = open_space(&task);
  tn__search *search;
  int of_parts = 0, one_apart = 0;
  check_ok(tn__search_create(space, NULL, TN__SEARCH_EVOLUTION, 11, &search));
  for (int i = 0; i < 150; i++) {
    const tn__proposal *p;
    check_ok(tn__search_next(search, &p));
    assert_non_null(p);
    double seconds = 1;
    if (p->point.rule == space->parts_of) {
      seconds = part_seconds(space, &p->point, 0) + part_seconds(space, &p->point, 1);
      for (int j = 0; j < i; j++) {
        const tn__proposal *q = tn__search_at(search, j);
        if (q->point.rule == p->point.rule && parts_apart(space, &p->point, &q->point) == 1) {
          one_apart++;
          break;
        }
      }
      of_parts++;
      assert_string_equal(p->rule, "sequence");
    }
    check_ok(tn__search_tell(search, p->index, seconds));
  }
  assert_true(of_parts >= 60);
  assert_true(10 * one_apart >= 8 * (of_parts - 1));
  assert_true(tn__search_best(search)->median < 2.35e-5); /* 2e-5 is the least that there can be, 3e-5 the mean */
  tn__search_release(search);
  tn__space_close(space);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_points_have_parts), cmocka_unit_test(test_the_static_choice_is_a_point),
      cmocka_unit_test(test_texts_of_parts),    cmocka_unit_test(test_decided_parts),
      cmocka_unit_test(test_the_nearest_point), cmocka_unit_test(test_a_search_goes_part_by_part)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
