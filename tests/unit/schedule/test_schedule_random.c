/* Random traces over random declarations: a trace that the primitives accept must compute the declaration's results and
 * replay to the same function. Every ordered pair of primitives must occur in some trace.
 *
 * usage: unit_schedule schedule_random [PART [TEST]]: other parts draw other pairs. TENON_RANDOM_TRACES sets their
 * number. */
#include "unit/schedule_compiled.h"
#include "unit/schedule_oracle.h"

static int part;

static uint64_t seed_of(int64_t number) { return (uint64_t)part * UINT64_C(1000003) + (uint64_t)number * 7919 + 1; }

static int pairs_wanted(void) {
  const char *wanted = getenv("TENON_RANDOM_TRACES");
  return wanted == NULL ? 2600 : atoi(wanted);
}

/* ---- the oracle -------------------------------------------------------------------------------------------------- */

static void print_tally(const tally *t) {
  print_message("%-20s accepted refused, and how often it came before", "");
  for (int j = 0; j < PRIMITIVES; j++) print_message(" %d:%s", j, primitives[j].name);
  print_message("\n");
  for (int i = 0; i < PRIMITIVES; i++) {
    print_message("%2d %-20s %6ld %6ld |", i, primitives[i].name, t->accepted[i], t->refused[i]);
    for (int j = 0; j < PRIMITIVES; j++) print_message(" %5ld", t->before[i][j]);
    print_message("\n");
  }
}

/* Looks for a trace in which one primitive comes before the other. */
static bool find_order(int first, int second, tally *t) {
  /* Only narrow dot products become instructions, and few declarations have windows to slide. */
  int tensorize = primitive_of("tensorize "), slide = primitive_of("slide ");
  wish w = {first == tensorize || second == tensorize ? recipe_kind_of("dots") : -1, first, second};
  if (first == second && first == primitive_of("transpose "))
    w.kind = recipe_kind_of("turned"); /* two blocks to turn */
  if ((first == slide || second == slide) && (w.kind >= 0 || first == second)) w.kind = recipe_kind_of("windows");
  for (int i = 0; i < 1000 && t->before[first][second] == 0; i++) {
    dice d = {.state = seed_of(1000000 + (first * PRIMITIVES + second) * 1000 + i)};
    check_ok(oracle_pair(&d, 24, &w, t, check_pair, NULL));
  }
  return t->before[first][second] > 0;
}

static void random_pairs(void **state) {
  tally t = {{0}};
  int count = pairs_wanted();
  for (int i = 0; i < count; i++) {
    dice d = {.state = seed_of(i)};
    tn_status *status = oracle_pair(&d, 8 + roll(&d, 10), &no_wish, &t, check_pair, NULL);
    if (status != NULL) fail_msg("part %d, pair %d: %s", part, i, tn_status_message(status));
  }
  long accepted = 0, refused = 0;
  for (int i = 0; i < PRIMITIVES; i++) {
    accepted += t.accepted[i];
    refused += t.refused[i];
  }
  int missing = 0;
  for (int i = 0; i < PRIMITIVES && count >= 1000; i++)
    for (int j = 0; j < PRIMITIVES; j++) {
      if (t.before[i][j] > 0 || find_order(i, j, &t)) continue;
      print_error("no trace has %s before %s\n", primitives[i].name, primitives[j].name);
      missing++;
    }
  print_tally(&t);
  print_message("of %d pairs that were drawn freely %ld steps were accepted, %ld refused\n", count, accepted, refused);
  assert_int_equal(missing, 0);
  assert_true(accepted >= refused);
  assert_true(refused > 0);
}

/* Few free pairs have a window that slides, so these begin with one, in declarations that have windows. */
static void sliding_pairs(void **state) {
  static const char *const kinds[] = {"windows", "stencil", "convolution"};
  tally t = {{0}};
  int count = pairs_wanted() / 10, slide = primitive_of("slide ");
  for (int i = 0; i < count; i++) {
    dice d = {.state = seed_of(700000 + i)};
    wish w = {recipe_kind_of(kinds[i % 3]), slide, -1};
    tn_status *status = oracle_pair(&d, 30, &w, &t, check_pair, NULL);
    if (status != NULL) fail_msg("part %d, sliding pair %d: %s", part, i, tn_status_message(status));
  }
  print_message("in %d pairs %ld windows slide\n", count, t.accepted[slide]);
  assert_true(t.accepted[slide] >= count / 4);
}

/* ---- the same through compiled code ------------------------------------------------------------------------------ */

static tn_status *check_compiled_pair(const tn__schedule *s, const pair *p, void *user) {
  return compare_compiled(user, s, p->r.seed, false);
}

static void compile_pairs(kernel_test *t, void *user) {
  tally unused = {{0}};
  for (int i = 0; i < pairs_wanted() / 50; i++) {
    dice d = {.state = seed_of(500000 + i)};
    tn_status *status = oracle_pair(&d, 12, &no_wish, &unused, check_compiled_pair, t);
    if (status != NULL) fail_msg("part %d, compiled pair %d: %s", part, i, tn_status_message(status));
  }
}

static void compiled_pairs(void **state) { kernel_with(NULL, compile_pairs, NULL); }

/* ---- shrinking --------------------------------------------------------------------------------------------------- */

static bool has_step(const pair *p, const char *start) {
  for (int i = 0; i < p->count; i++)
    if (strncmp(p->steps[i], start, strlen(start)) == 0) return true;
  return false;
}

/* "Fails" when a loop was split and one is unrolled, in a product with at least 3 rows whose type is an integer. */
static tn_status *broken_check(const tn__schedule *s, const pair *p, void *user) {
  ++*(int *)user;
  bool fails = has_step(p, "split ") && has_step(p, "unroll ") && p->r.dims[0] >= 3 && p->r.dtype == TN_I16;
  return fails ? tn_status_create(TN_INTERNAL, "as arranged") : NULL;
}

/* The smallest pair has nothing that the failure does not need. */
static void shrinks(void **state) {
  static pair p;
  int calls = 0;
  static const char *const steps[] = {"split \"C.i1\" 0 4",        "parallel \"C.i0\"",    "fuse \"D.i0\" \"D.i1\"",
                                      "split \"D.i0+D.i1\" 0 8",   "cache_read \"C\" 1 1", "unroll \"C.i1.1\"",
                                      "vectorize \"D.i0+D.i1.1\"", "set_scope \"C\" 0 1"};
  p.r = (recipe){.dtype = TN_I16, .dims = {17, 9, 6}, .stride = 3, .variant = 7, .seed = 99};
  p.count = sizeof(steps) / sizeof(steps[0]);
  for (int i = 0; i < p.count; i++) snprintf(p.steps[i], STEP_TEXT, "%s", steps[i]);
  assert_true(still_fails(&p, broken_check, &calls));
  shrink(&p, broken_check, &calls);
  assert_int_equal(p.count, 2);
  assert_string_equal(p.steps[0], "split \"C.i1\" 0 4");
  assert_string_equal(p.steps[1], "unroll \"C.i1.1\"");
  assert_int_equal(p.r.dims[0], 3);
  assert_int_equal(p.r.dims[1], 1);
  assert_int_equal(p.r.dims[2], 1);
  assert_int_equal(p.r.stride, 1);
  assert_int_equal(p.r.variant, 0);
  assert_int_equal(p.r.seed, 0);
  assert_int_equal(p.r.dtype, TN_I16);
  assert_in_range(calls, 10, 1000);
}

/* Found by drawing, too: the oracle sees the arranged failure and gives the pair. */
static tn_status *refuse_tiles(const tn__schedule *s, const pair *p, void *user) {
  pair *found = user;
  if (!has_step(p, "tile ")) return NULL;
  *found = *p;
  return tn_status_create(TN_INTERNAL, "a tile, as arranged");
}

static void finds(void **state) {
  static pair found;
  static tally t;
  tn_status *status = NULL;
  int at = 0;
  for (; at < 200 && status == NULL; at++) {
    dice d = {.state = seed_of(at)};
    status = oracle_pair(&d, 16, &no_wish, &t, refuse_tiles, &found);
  }
  assert_non_null(status);
  assert_string_equal(tn_status_message(status), "a tile, as arranged");
  tn_status_free(status);
  /* The last failing pair is the one that was printed: without any of its steps it does not fail. */
  static pair smallest, fewer, unused;
  smallest = found;
  assert_true(still_fails(&smallest, refuse_tiles, &unused));
  for (int i = 0; i < smallest.count; i++) {
    fewer = smallest;
    memmove(fewer.steps[i], fewer.steps[i + 1], (size_t)(fewer.count - i - 1) * STEP_TEXT);
    fewer.count--;
    assert_false(still_fails(&fewer, refuse_tiles, &unused));
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_pairs), cmocka_unit_test(sliding_pairs), cmocka_unit_test(compiled_pairs),
      cmocka_unit_test(shrinks),      cmocka_unit_test(finds),
  };
  if (argc > 1) part = atoi(argv[1]);
  if (argc > 2) cmocka_set_test_filter(argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
