/* A machine that is fitted to times: those that the cost function says of another machine are explained by it. */
#include <math.h>

#include "machine/machine_file.h"
#include "target/text/text.h"
#include "tune/search/fit.h"
#include "tune/search/points.h"
#include "unit/check.h"

static const char *const declarations[] = {
    "kernel product(A: f32[300, 500], B: f32[500, 400]) -> C: f32[300, 400] { C[i, j] = sum(k: 500) A[i, k] * B[k, j] "
    "}\n",
    "kernel rows(X: f32[900, 3000]) -> S: f32[900] { S[i] = sum(k: 3000) X[i, k] }\n",
    "kernel distances(A: f32[500, 60], B: f32[400, 60]) -> D: f32[500, 400] { D[i, j] = sum(k: 60) abs(A[i, k] - B[j, "
    "k]) }\n",
};
enum { KERNELS = sizeof declarations / sizeof declarations[0], OF_EACH = 60 };

static tn_tune_task task_of(int kernel) {
  return (tn_tune_task){.size = sizeof(tn_tune_task),
                        .name = "kernel",
                        .declaration = declarations[kernel],
                        .target = "haswell",
                        .threads = 1};
}

/* Adds what points take by the cost function on this machine; in a noise that is the same each time. */
static void add_times(tn__fit *fit, int kernel, const tn__machine *machine, double noise) {
  const tn_tune_task task = task_of(kernel);
  tn__space *space;
  uint64_t random = 12345;
  int added = 0;
  check_ok(tn__space_open(&task, &space));
  tn__target_use(&space->target, machine);
  check_ok(tn__fit_task(fit, &task));
  for (int tries = 0; added < OF_EACH && tries < 100000; tries++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    tn__space_point p;
    int rule = (int)((random >> 33) % (uint64_t)space->rule_count);
    tn__space_at(space, rule, (int64_t)((random >> 11) % (uint64_t)space->rules[rule].points), &p);
    double cycles = tn__space_weigh(space, &p).cycles;
    if (!isfinite(cycles)) continue;
    char *decisions = tn__space_decisions(space, &p);
    int before = tn__fit_records(fit);
    double off = exp(noise * ((double)(random >> 40) / (1 << 23) - 1));
    check_ok(tn__fit_record(fit, space->rules[p.rule].name, decisions, off * cycles / (1e6 * machine->core.megahertz)));
    added += tn__fit_records(fit) - before;
    free(decisions);
  }
  assert_int_equal(added, OF_EACH);
  tn__space_close(space);
}

static tn__fit_result fit_to(const tn__machine *machine, double noise) {
  tn__target target;
  tn__fit *fit;
  tn__fit_result result;
  check_ok(tn__target_parse("haswell", &target));
  check_ok(tn__fit_create(&target, &fit));
  for (int i = 0; i < KERNELS; i++) add_times(fit, i, machine, noise);
  check_ok(tn__fit_run(fit, &result));
  tn__fit_release(fit);
  assert_int_equal(result.tasks, KERNELS);
  assert_int_equal(result.records, KERNELS * OF_EACH);
  assert_int_equal(result.kept_apart, KERNELS * OF_EACH / 4);
  return result;
}

static tn__machine usual(void) {
  tn__target target;
  check_ok(tn__target_parse("haswell", &target));
  return target.cpu.machine;
}

static void test_finds_another_machine(void **state) {
  tn__machine other = usual(), before = other;
  other.core.l2_bytes /= 2;
  other.core.l3_bytes /= 2;
  other.costs.unhidden *= 2;
  other.costs.loop_entry *= 3;
  other.costs.broadcast *= 2;
  tn__fit_result r = fit_to(&other, 0.05);
  print_message("correlation %.3f, then %.3f; error %.3f, then %.3f\n", r.correlation[0], r.correlation[1], r.error[0],
                r.error[1]);
  assert_true(r.better);
  assert_true(r.error[1] < 1 + 0.5 * (r.error[0] - 1));
  assert_true(r.correlation[1] > r.correlation[0] - 0.005);
  /* What nobody fits is as it was. */
  assert_int_equal(r.machine.l1_bytes, before.l1_bytes);
  assert_int_equal(r.machine.core.fma_bytes, before.core.fma_bytes);
  assert_int_equal(r.machine.core.megahertz, before.core.megahertz);
  tn__fit_result again = fit_to(&other, 0.05);
  assert_memory_equal(&again.machine, &r.machine, sizeof r.machine);
}

static void test_leaves_what_is_right(void **state) {
  tn__machine same = usual();
  tn__fit_result r = fit_to(&same, 0);
  assert_false(r.better);
  assert_memory_equal(&r.machine, &same, sizeof same);
  assert_float_equal(r.error[0], 1, 1e-9);
}

static void test_what_is_passed_over(void **state) {
  tn__target target;
  tn__fit *fit;
  tn__fit_result result;
  check_ok(tn__target_parse("haswell", &target));
  check_ok(tn__fit_create(&target, &fit));
  tn_tune_task task = task_of(0);
  task.declaration = "kernel k(A: f32[3]) -> B: f32[3] { this is none }\n";
  check_ok(tn__fit_task(fit, &task));
  check_ok(tn__fit_record(fit, "contraction", "rows 4", 1e-3));
  task = task_of(0);
  check_ok(tn__fit_task(fit, &task));
  check_ok(tn__fit_record(fit, "no such rule", "rows 4", 1e-3));
  check_ok(tn__fit_record(fit, "contraction", "rows 4", 1e-3)); /* not all of its decisions */
  check_ok(tn__fit_record(fit, NULL, NULL, 1e-3));
  check_ok(tn__fit_record(fit, "contraction", "", NAN));
  assert_int_equal(tn__fit_records(fit), 0);
  check_fails(tn__fit_run(fit, &result), TN_FAILED_PRECONDITION,
              "0 records are too few to fit a machine to: 40 are wanted at least");
  tn__fit_release(fit);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_finds_another_machine),
      cmocka_unit_test(test_leaves_what_is_right),
      cmocka_unit_test(test_what_is_passed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
