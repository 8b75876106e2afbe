/* What the loops of a candidate do: on small functions, whose numbers are counted by hand; and how well times were
 * predicted. */
#include <math.h>

#include "target/text/text.h"
#include "tune/search/accuracy.h"
#include "tune/search/space.h"
#include "unit/check.h"

enum { MOST = 8 };

typedef struct scene {
  tn__arena arena;
  tn__target target;
  tn__ir *ir;
  tn__loop_statement statements[MOST];
  int count;
  float row[TN__FEATURES];
} scene;

static void keep(const tn__loop_statement *statement, void *user) {
  scene *s = user;
  assert_true(s->count < MOST);
  s->statements[s->count++] = *statement;
}

typedef struct describing {
  scene *scene;
  const char *text;
} describing;

static void describe_body(tn__escape *escape, void *user) {
  const describing *d = user;
  scene *s = d->scene;
  tn__func *func;
  s->arena.escape = escape;
  s->ir = tn__ir_create(&s->arena);
  check_ok(tn__func_parse(s->ir, "test", d->text, strlen(d->text), &func));
  tn__features_walk(s->ir, func, &s->target, keep, s);
  tn__features_of(s->ir, func, &s->target, s->row);
}

static void describe(scene *s, const char *text) {
  describing d = {s, text};
  tn__escape escape;
  *s = (scene){.count = 0};
  check_ok(tn__target_parse("haswell", &s->target)); /* lines of 64 bytes, an L1 of 32 KB, an L2 of 256 KB */
  tn__arena_init(&s->arena, NULL, NULL);
  check_ok(tn__protect(&escape, describe_body, &d));
}

static void end(scene *s) { tn__arena_release(&s->arena); }

static void check_access(const tn__loop_access *a, const char *buffer, bool store, tn__feature_pattern pattern,
                         const double numbers[6]) {
  const double own[6] = {a->bytes, a->unique_bytes, a->unique_lines, a->reuse, a->distance, a->stride};
  assert_string_equal(a->buffer->name, buffer);
  assert_int_equal(a->store, store);
  assert_int_equal(a->pattern, pattern);
  for (int i = 0; i < 6; i++) assert_float_equal(own[i], numbers[i], 1e-9);
}

static void test_a_product(void **state) {
  scene s;
  describe(&s,
           "func f(A: f32[96, 64], B: f32[64, 80]) -> (C: f32[96, 80]) {\n"
           "  for i in [0, +96) { for j in [0, +80) {\n"
           "    C[i, j] = 0.0f32\n"
           "    for k in [0, +64) { C[i, j] = C[i, j] + A[i, k] * B[k, j] }\n"
           "  } }\n"
           "}\n");
  assert_int_equal(s.count, 2);
  const tn__loop_statement *zero = &s.statements[0], *sum = &s.statements[1];
  assert_float_equal(zero->trips, 96 * 80, 0);
  assert_int_equal(zero->access_count, 1);
  /* Lines of 16 elements: 5 of a row of 320 bytes. */
  check_access(&zero->access[0], "C", true, TN__FEATURE_SCALAR, (double[]){30720, 30720, 480, 1, 0, 4});
  assert_float_equal(sum->trips, 96 * 80 * 64, 0);
  assert_float_equal(sum->steps, sum->trips, 0);
  assert_float_equal(sum->operations[TN__FEATURE_MULADD], 1, 0);
  assert_float_equal(sum->operations[TN__FEATURE_ADD] + sum->operations[TN__FEATURE_MUL], 0, 0);
  assert_float_equal(sum->reduced, 64, 0);
  assert_float_equal(sum->serial[0], 64, 0);
  assert_float_equal(sum->serial[1], 80, 0);
  assert_float_equal(sum->serial[2], 96, 0);
  assert_float_equal(sum->serial[3], 1, 0);
  assert_int_equal(sum->access_count, 4);
  /* C stands still in k: 4 lines in an iteration of it. A in j, where 64 + 64 + 256 bytes and 64 lines of B are
   * touched; B in i: rows of C twice, of A, and all of B. */
  const double all = 96 * 80 * 64 * 4, row = 64 + 64 + 256 + 64 * 64, rows = 320 + 320 + 256 + 20480;
  check_access(&sum->access[0], "C", true, TN__FEATURE_SCALAR, (double[]){all, 30720, 480, 64, 256, 0});
  check_access(&sum->access[1], "A", false, TN__FEATURE_SCALAR, (double[]){all, 24576, 384, 80, row, 4});
  check_access(&sum->access[2], "B", false, TN__FEATURE_SCALAR, (double[]){all, 20480, 320, 96, rows, 320});
  check_access(&sum->access[3], "C", false, TN__FEATURE_SCALAR, (double[]){all, 30720, 480, 64, 256, 0});
  /* In 4 KiB fits an iteration of k, in 16 KiB one of j, in 64 KiB one of i, in more all of it. */
  const double whole = 30720 + 30720 + 24576 + 20480;
  const double traffic[] = {row * 96 * 80, rows * 96, whole, whole, whole, whole, whole};
  for (int i = 0; i < TN__FEATURE_SIZES; i++) assert_float_equal(sum->traffic[i], traffic[i], 1e-6);
  assert_float_equal(s.row[0], log2(1 + 2), 1e-5); /* statements */
  assert_float_equal(s.row[4], log2(1 + 2 * sum->trips), 1e-4);
  end(&s);
}

static void test_kinds_of_loops(void **state) {
  scene s;
  describe(&s,
           "func f(A: f32[64, 128], I: i64[64]) -> (C: f32[64, 128], D: f32[128, 64]) {\n"
           "  parallel i in [0, +8) {\n"
           "    alloc T: f32[2, 8] register {\n"
           "      for j in [0, +16) {\n"
           "        unrolled u in [0, +2) { vectorized v in [0, +8) {\n"
           "          T[u, v] = A[I[i*2 + u], j*8 + v] * 2.0f32\n"
           "        } }\n"
           "        unrolled u in [0, +2) { vectorized v in [0, +8) {\n"
           "          C[i*2 + u, j*8 + v] = max(T[u, v], A[i*2 + u, 3]) + exp(T[u, v])\n"
           "          D[j*8 + v, i*2 + u] = T[u, v]\n"
           "        } }\n"
           "      }\n"
           "    }\n"
           "  }\n"
           "}\n");
  assert_int_equal(s.count, 3);
  const tn__loop_statement *t = &s.statements[0], *c = &s.statements[1], *d = &s.statements[2];
  for (int i = 0; i < 3; i++) {
    assert_float_equal(s.statements[i].trips, 8 * 16 * 2 * 8, 0);
    assert_float_equal(s.statements[i].steps, 8 * 16 * 2, 0);
    assert_float_equal(s.statements[i].parallel, 8, 0);
    assert_float_equal(s.statements[i].lanes, 8, 0);
    assert_float_equal(s.statements[i].unrolled, 2, 0);
    assert_float_equal(s.statements[i].independent, 2, 0);
    assert_float_equal(s.statements[i].serial[0], 16, 0);
  }
  /* The row is chosen by data: A is scattered, and I a broadcast, which j does not move. */
  assert_int_equal(t->access_count, 2);
  assert_float_equal(t->register_accesses, 1, 0);
  assert_float_equal(t->reduced, 8 * 16, 0);
  assert_float_equal(t->operations[TN__FEATURE_MUL], 1, 0);
  assert_string_equal(t->access[0].buffer->name, "A");
  assert_int_equal(t->access[0].pattern, TN__FEATURE_SCATTERED);
  assert_int_equal(t->access[1].pattern, TN__FEATURE_BROADCAST);
  assert_float_equal(t->access[1].bytes, 8 * 16 * 2 * 8, 0);
  assert_float_equal(t->access[1].unique_bytes, 16 * 8, 0);
  assert_float_equal(c->operations[TN__FEATURE_MINMAX], 1, 0);
  assert_float_equal(c->operations[TN__FEATURE_CALL], 1, 0);
  assert_float_equal(c->operations[TN__FEATURE_ADD], 1, 0);
  assert_float_equal(c->register_accesses, 1, 0); /* one value, used twice */
  assert_int_equal(c->access[0].pattern, TN__FEATURE_CONTIGUOUS);
  assert_int_equal(c->access[1].pattern, TN__FEATURE_BROADCAST);
  assert_int_equal(d->access[0].pattern, TN__FEATURE_STRIDED);
  assert_float_equal(d->access[0].stride, 8 * 64 * 4, 0);
  assert_float_equal(d->access[0].unique_bytes, 16 * 128 * 4, 0);
  end(&s);
}

static void test_positions_that_are_not_sums(void **state) {
  scene s;
  describe(&s,
           "func f[N](A: f32[12, N]) -> (C: f32[12, N]) {\n"
           "  for f in [0, +48) { let r: i64 = f / 4 { if (r < 11) { for j in [0, +N) {\n"
           "    C[r, j] = A[r, j]\n"
           "  } } } }\n"
           "}\n");
  assert_int_equal(s.count, 1);
  const tn__loop_statement *c = &s.statements[0];
  assert_float_equal(c->trips, 48 * TN__OPEN_EXTENT, 0);
  /* A row for each four iterations: 11 rows in 47 steps on the average. */
  assert_float_equal(c->access[0].stride, 4, 0);
  assert_float_equal(c->access[0].unique_bytes, 12 * TN__OPEN_EXTENT * 4, 0); /* no more than there is */
  assert_float_equal(c->access[0].reuse, 4, 0);
  end(&s);
}

static void test_the_same_gives_the_same(void **state) {
  static const char text[] = "func f(A: f32[100]) -> (C: f32[100]) { for i in [0, +100) { C[i] = A[i] / 3.0f32 } }\n";
  scene a, b;
  describe(&a, text);
  describe(&b, text);
  assert_memory_equal(a.row, b.row, sizeof a.row);
  for (int i = 0; i < TN__FEATURES; i++) assert_true(isfinite(a.row[i]));
  end(&a);
  end(&b);
}

static void test_of_points(void **state) {
  const tn_tune_task task = {
      .size = sizeof task,
      .name = "product",
      .declaration =
          "kernel k(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n",
      .target = "haswell",
      .threads = 1};
  tn__space *space;
  float first[TN__FEATURES], again[TN__FEATURES], other[TN__FEATURES];
  check_ok(tn__space_open(&task, &space));
  assert_true(space->static_point.rule >= 0);
  check_ok(tn__space_features(space, &space->static_point, first));
  check_ok(tn__space_features(space, &space->static_point, again));
  assert_memory_equal(first, again, sizeof first);
  int different = 0, refused = 0;
  for (int r = 0; r < space->rule_count; r++) {
    for (int64_t i = 0; i < space->rules[r].points; i += 1 + space->rules[r].points / 20) {
      tn__space_point p = {.rule = r};
      tn__sketch_at(space->rules[r].sketch, i, p.values);
      tn_status *status = tn__space_features(space, &p, other);
      refused += status != NULL;
      if (status == NULL) different += memcmp(first, other, sizeof first) != 0;
      for (int f = 0; status == NULL && f < TN__FEATURES; f++) assert_true(isfinite(other[f]));
      tn_status_free(status);
    }
  }
  assert_true(different > 10);
  assert_true(refused < 2 * different);
  tn__space_close(space);
}

static void test_accuracy(void **state) {
  double predicted[50], measured[50];
  tn__accuracy a;
  for (int i = 0; i < 50; i++) predicted[i] = measured[i] = 1 + i;
  check_ok(tn__accuracy_of(predicted, measured, 50, &a));
  assert_int_equal(a.count, 50);
  assert_int_equal(a.top, 5);
  assert_float_equal(a.correlation, 1, 1e-12);
  assert_float_equal(a.recall, 1, 0);
  assert_float_equal(a.error, 1, 1e-12);
  for (int i = 0; i < 50; i++) predicted[i] = 2.0 / measured[i];
  check_ok(tn__accuracy_of(predicted, measured, 50, &a));
  assert_float_equal(a.correlation, -1, 1e-12);
  assert_float_equal(a.recall, 0, 0);
  for (int i = 0; i < 50; i++) predicted[i] = i % 2 == 0 ? 2 * measured[i] : measured[i] / 2;
  predicted[7] = NAN; /* left out */
  measured[8] = INFINITY;
  check_ok(tn__accuracy_of(predicted, measured, 50, &a));
  assert_int_equal(a.count, 48);
  assert_int_equal(a.top, 4);
  assert_float_equal(a.error, 2, 1e-12);
  assert_float_equal(a.recall, 0.75, 0); /* predicted fastest are 2, 1, 4, 6, in 1 to 3 */
  check_ok(tn__accuracy_of(predicted, measured, TN__ACCURACY_LEAST - 1, &a));
  assert_true(isnan(a.correlation) && isnan(a.recall));
  assert_float_equal(a.error, 2, 1e-12);
  check_ok(tn__accuracy_of(predicted, measured, 0, &a));
  assert_true(isnan(a.error));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_product),
      cmocka_unit_test(test_kinds_of_loops),
      cmocka_unit_test(test_positions_that_are_not_sums),
      cmocka_unit_test(test_the_same_gives_the_same),
      cmocka_unit_test(test_of_points),
      cmocka_unit_test(test_accuracy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
