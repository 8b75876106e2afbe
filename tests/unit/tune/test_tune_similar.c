/* What a search begins with: candidates that were fast for the same kernel on another machine or target, and for
 * kernels that differ in names and sizes only. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tune/tuner/similar.h"
#include "unit/check.h"

static const char here[] = "x86-64-v3";
static const char product[] =
    "kernel kernel(A: f32[96, 64], B: f32[64, 80]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n";
static const char larger[] =
    "kernel kernel(X: f32[480, 320], W: f32[320, 400]) -> Y: f32[480, 400] { Y[r, c] = sum(q: 320) X[r, q] * W[q, c] "
    "}\n";
static const char other_type[] =
    "kernel kernel(A: f64[96, 64], B: f64[64, 80]) -> C: f64[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[k, j] }\n";
static const char turned[] =
    "kernel kernel(A: f32[96, 64], B: f32[80, 64]) -> C: f32[96, 80] { C[i, j] = sum(k: 64) A[i, k] * B[j, k] }\n";

static tn_tune_task task_of(const char *text, const char *target) {
  return (tn_tune_task){
      .size = sizeof(tn_tune_task), .name = "a kernel", .declaration = text, .target = target, .threads = 1};
}

static void test_structures(void **state) {
  assert_true(tn__similar_structure(product) == tn__similar_structure(larger));
  assert_true(tn__similar_structure(product) != tn__similar_structure(other_type));
  assert_true(tn__similar_structure(product) != tn__similar_structure(turned));
  assert_true(tn__similar_structure("A[i] = exp(B[i])") != tn__similar_structure("A[i] = log(B[i])"));
  assert_true(tn__similar_structure("A[i] = B[i] + 2") == tn__similar_structure("C[j] = D[j] + 0.5"));
  assert_true(tn__similar_structure("A[i] = A[i]") != tn__similar_structure("A[i] = B[i]"));
  assert_true(tn__similar_structure("\"a b\"[i] = x") == tn__similar_structure("c[i] = y"));
  assert_true(tn__similar_structure("") == tn__similar_structure(" \n"));
  assert_true(tn__similar_structure("\"") != tn__similar_structure("")); /* no end of a name */
}

typedef struct scene {
  char path[64];
  tn_database *database;
} scene;

static void begin(scene *s) {
  strcpy(s->path, "/tmp/tenon-similar-XXXXXX");
  int file = mkstemp(s->path);
  assert_true(file >= 0);
  close(file);
  unlink(s->path);
  check_ok(tn_database_open(s->path, NULL, &s->database));
}

static void end(scene *s) {
  static const char *const endings[] = {"", "-wal", "-shm"};
  tn_database_release(s->database);
  for (int i = 0; i < 3; i++) {
    char path[80];
    snprintf(path, sizeof path, "%s%s", s->path, endings[i]);
    unlink(path);
  }
}

/* Records of the first proposals of a search, the later the faster. */
static void record(scene *s, const char *text, const char *target, const char *machine, int count) {
  const tn_tune_task task = task_of(text, target);
  char hash[TN_TASK_HASH_BYTES];
  tn__space *space;
  tn__search *search;
  check_ok(tn_database_add_task(s->database, &task, hash));
  check_ok(tn__space_open(&task, &space));
  check_ok(tn__search_create(space, NULL, TN__SEARCH_EVOLUTION, 4, &search));
  for (int i = 0; i < count; i++) {
    const tn__proposal *p;
    check_ok(tn__search_next(search, &p));
    const tn_record r = {.size = sizeof r,
                         .task = hash,
                         .machine = machine,
                         .rule = p->rule,
                         .decisions = p->decisions,
                         .trace = p->trace,
                         .error = i % 3 == 0 ? TN_TRIAL_RUN_TIME : TN_TRIAL_OK,
                         .message = "",
                         .median = i % 3 == 0 ? 0 : 1.0 / (1 + i)};
    check_ok(tn_database_add(s->database, &r, false, NULL));
  }
  tn__search_release(search);
  tn__space_close(space);
}

/* How many seeds a search of the product gets; as many of its first 16 proposals are seeds, behind the static choice.
 */
static int seeds_of(scene *s, const char *text, const char *machine, int known) {
  const tn_tune_task task = task_of(text, here);
  tn__space *space;
  tn__search *search;
  tn__similar *similar;
  int marked = 0;
  check_ok(tn__space_open(&task, &space));
  check_ok(tn__search_create(space, NULL, TN__SEARCH_EVOLUTION, 9, &search));
  for (int i = 0; i < known; i++) {
    const tn__proposal *p;
    check_ok(tn__search_next(search, &p));
    check_ok(tn__search_tell(search, p->index, 1));
  }
  check_ok(tn__similar_open(s->database, &similar));
  check_ok(tn__similar_seed(similar, &task, machine, search));
  tn__similar_release(similar);
  int seeds = tn__search_seeds(search);
  assert_true(seeds <= TN__SEARCH_SEEDS);
  for (int i = known; i < 16; i++) {
    const tn__proposal *p;
    check_ok(tn__search_next(search, &p));
    assert_non_null(p);
    marked += p->seed;
    assert_true(i > 0 || (!p->seed && strcmp(p->trace, space->static_trace) == 0));
  }
  assert_true(marked <= seeds && marked >= seeds - 3); /* primitives refuse some, and some are other points' steps */
  tn__search_release(search);
  tn__space_close(space);
  return seeds;
}

static void test_the_same_kernel_elsewhere(void **state) {
  scene s;
  begin(&s);
  assert_int_equal(seeds_of(&s, product, "mine", 0), 0);
  record(&s, product, here, "mine", 12);
  assert_int_equal(seeds_of(&s, product, "mine", 0), 0); /* known, and no seeds */
  assert_in_range(seeds_of(&s, product, "another", 0), 2, 4);
  record(&s, product, "x86-64-v4", "mine", 12);
  assert_in_range(seeds_of(&s, product, "mine", 0), 1, 4);
  assert_in_range(seeds_of(&s, product, "another", 0), 3, 8);
  assert_int_equal(seeds_of(&s, product, "another", 15), 0); /* it is past its beginning */
  end(&s);
}

static void test_other_sizes(void **state) {
  scene s;
  begin(&s);
  record(&s, larger, here, "mine", 20);
  assert_in_range(seeds_of(&s, product, "mine", 0), 2, 4);
  assert_int_equal(seeds_of(&s, turned, "mine", 0), 0);
  assert_int_equal(seeds_of(&s, other_type, "mine", 0), 0);
  end(&s);
}

/* The best of the other kernel is tried at once: a search that is told the truth finds it in its second trial. */
static void test_the_best_comes_first(void **state) {
  scene s;
  begin(&s);
  const tn_tune_task task = task_of(product, here);
  tn__space *space;
  tn__search *search;
  tn__similar *similar;
  const tn__proposal *p;
  char hash[TN_TASK_HASH_BYTES];
  const tn_tune_task other = task_of(larger, here);
  check_ok(tn_database_add_task(s.database, &other, hash));
  const tn_record r = {.size = sizeof r,
                       .task = hash,
                       .machine = "mine",
                       .rule = "contraction",
                       .decisions = "rows 4, vectors 2, of old 3",
                       .median = 1e-3};
  check_ok(tn_database_add(s.database, &r, false, NULL));
  check_ok(tn__space_open(&task, &space));
  check_ok(tn__search_create(space, NULL, TN__SEARCH_EVOLUTION, 9, &search));
  check_ok(tn__similar_open(s.database, &similar));
  check_ok(tn__similar_seed(similar, &task, "mine", search));
  check_ok(tn__search_next(search, &p));
  assert_false(p->seed);
  check_ok(tn__search_next(search, &p));
  assert_true(p->seed && strstr(p->decisions, "vectors 2, rows 4, ") != NULL); /* what the record lacks is as liked */
  tn__similar_release(similar);
  tn__search_release(search);
  tn__space_close(space);
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_structures),
                                     cmocka_unit_test(test_the_same_kernel_elsewhere),
                                     cmocka_unit_test(test_other_sizes), cmocka_unit_test(test_the_best_comes_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
