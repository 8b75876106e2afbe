/* A tuner's way into its database: what is kept of a task beside its records, and how long the tuner waits for a
 * database that another process holds, on a clock of the test's own. */
#include <math.h>
#include <sqlite3.h>
#include <unistd.h>

#include "declarations/handle.h"
#include "tune/tuner/records.h"
#include "unit/check.h"

/* A clock that goes on by `step` each time that it is looked at. */
typedef struct clock {
  double now, step;
  int looks;
} clock;

static double look(void *user) {
  clock *c = user;
  c->looks++;
  return c->now += c->step;
}

/* Records of one kernel, in a folder of its own. */
typedef struct place {
  char folder[64];
  tn__task_list *tasks;
  tn__records records;
  clock clock;
  sqlite3 *other; /* another process */
} place;

static int set_up(void **state) {
  static const char kernel[] =
      "kernel f(A: f32[64, 64], B: f32[64, 64]) -> C: f32[64, 64] "
      "{ C[i, j] = sum(k: 64) A[i, k] * B[k, j] }";
  const tn_compile_options options = {.size = sizeof options, .run_threads = 1, .no_measure = true};
  double spent;
  place *p = calloc(1, sizeof *p);
  strcpy(p->folder, "/tmp/tenon-test-records-XXXXXX");
  if (mkdtemp(p->folder) == NULL || chdir(p->folder) != 0) return -1;
  p->clock = (clock){.now = 1000};
  p->records.waits = look;
  p->records.waits_user = &p->clock;
  check_ok(tn__tasks_create(&p->tasks));
  check_ok(tn__tasks_add_declarations(p->tasks, "f.te", kernel, sizeof kernel - 1, NULL, &options));
  check_ok(tn__records_open(&p->records, "a.db", "this one", 10));
  check_ok(tn__records_of(&p->records, p->tasks, &spent));
  assert_int_equal(sqlite3_open("a.db", &p->other), SQLITE_OK);
  p->clock.looks = 0;
  *state = p;
  return 0;
}

static int tear_down(void **state) {
  place *p = *state;
  char command[128];
  sqlite3_close(p->other);
  tn__records_close(&p->records);
  tn__tasks_release(p->tasks);
  snprintf(command, sizeof command, "rm -rf %s", p->folder);
  free(p);
  return chdir("/") != 0 || system(command) != 0;
}

static void run_other(const place *p, const char *sql) {
  assert_int_equal(sqlite3_exec(p->other, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void add(place *p, const char *decisions) {
  const tn_measure_result result = {.error = TN_TRIAL_OK, .run = {.median = 1e-3, .calls = 9, .verified = true}};
  const tn__tuner_record record = {.task = &tn__tasks_at(p->tasks, 0)->task,
                                   .trial = 1,
                                   .origin = "search",
                                   .rule = "contraction",
                                   .decisions = decisions,
                                   .predicted = NAN,
                                   .result = &result};
  check_ok(tn__records_add(&p->records, &record));
}

/* ---- a database that another process holds ----------------------------------------------------------------------- */

static void a_held_database_is_tried_once_a_second(void **state) {
  enum { TRIALS = 200 };
  place *p = *state;
  char decisions[32] = "rows 1";
  const tn__proposal candidate = {.index = 1, .rule = "contraction", .decisions = decisions};
  tn__tuner_claim claim;
  run_other(p, "BEGIN IMMEDIATE");
  for (int i = 0; i < TRIALS; i++) {
    snprintf(decisions, sizeof decisions, "rows %d", i);
    add(p, decisions);
  }
  assert_int_equal(p->clock.looks, TRIALS + 1); /* only one trial got as far as the database */
  check_ok(tn__records_claim(&p->records, &tn__tasks_at(p->tasks, 0)->task, &candidate, &claim));
  check_ok(tn__records_renew(&p->records));
  check_ok(tn__records_spend(&p->records, 5));
  check_ok(tn__records_exhausted(&p->records, 0, 7));
  assert_int_equal(claim.state, TN__TUNER_FREE);
  assert_int_equal(p->clock.looks, TRIALS + 1 + 4); /* nor did any of these */
  run_other(p, "ROLLBACK");
  p->clock.now += 1.5;
  check_ok(tn__records_finish(&p->records, 5));
  int64_t count = 0;
  sqlite3_stmt *s;
  assert_int_equal(sqlite3_prepare_v2(p->other, "SELECT count(*) FROM record", -1, &s, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  count = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  assert_int_equal(count, TRIALS);
}

static void the_end_waits_for_the_budget_and_two_seconds(void **state) {
  place *p = *state;
  const double step = 0.5;
  enum { LOOKS_OF_A_TRY = 3 };
  run_other(p, "BEGIN IMMEDIATE");
  add(p, "rows 1");
  add(p, "rows 2");
  assert_true(tn__records_patience(60, 59) == 3);
  assert_true(tn__records_patience(60, 70) == 2); /* it is over, and trials in flight ended behind it */
  assert_true(tn__records_patience(600, 0) == 60);
  assert_true(tn__records_patience(0, 100) == 60); /* no budget */
  p->clock.step = step;
  double begin = p->clock.now, patience = tn__records_patience(60, 59);
  check_fails(tn__records_finish(&p->records, patience), TN_FAILED_PRECONDITION,
              "a.db: cannot write the last 2 trials: another process holds the database, and the budget is over; tune "
              "again when it is free");
  assert_true(p->clock.now - begin >= patience);
  assert_true(p->clock.now - begin <= patience + LOOKS_OF_A_TRY * step);
  run_other(p, "ROLLBACK");
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static void tasks_have_facts_with_their_first_record(void **state) {
  place *p = *state;
  tn__task_work work;
  int64_t candidates;
  bool known;
  const double elements = 64 * 64;
  const tn__task_work *own = &tn__tasks_at(p->tasks, 0)->work;
  assert_true(own->flops == elements * 64 * 2 && own->bytes == elements * 4 * 3);
  assert_true(own->least > 0);
  assert_true(own->floor == 0); /* nothing is measured */
  check_ok(tn__records_facts(p->records.database, p->records.hashes[0], "this one", &work, &candidates, &known));
  assert_false(known);
  assert_true(work.flops < 0 && work.least < 0 && work.floor == 0 && candidates == 0);
  add(p, "rows 1");
  check_ok(tn__records_facts(p->records.database, p->records.hashes[0], "this one", &work, &candidates, &known));
  assert_true(known);
  assert_true(work.flops == own->flops && work.bytes == own->bytes && work.least == own->least && work.floor == 0);
  assert_int_equal(candidates, 0);
  check_ok(tn__records_exhausted(&p->records, 0, 7));
  check_ok(tn__records_facts(p->records.database, p->records.hashes[0], "this one", &work, &candidates, &known));
  assert_true(work.flops == own->flops && candidates == 7);
  check_ok(tn__records_facts(p->records.database, p->records.hashes[0], "another", &work, &candidates, &known));
  assert_false(known);
}

/* Operations that are the same along an axis, or stand in a choice, are no lower bound: code may do them once. */
static void floors_count_what_every_schedule_does(void **state) {
  static const struct {
    const char *kernel;
    double flops;
  } cases[] = {
      {"kernel f(A: f32[8, 4], B: f32[4, 3]) -> C: f32[8, 3] { C[i, j] = sum(k: 4) A[i, k] * B[k, j] }", 8 * 3 * 4},
      {"kernel f(A: f32[8], B: f32[4]) -> C: f32[8, 4] { C[i, j] = exp(A[i]) * B[j] }", 8 * 4},
      {"kernel f(A: f32[1], B: f32[8]) -> C: f32[8] { C[i] = exp(exp(A[0])) }", 0},
      {"kernel f(A: f32[8, 4]) -> C: f32[8] { C[i] = sum(k: 4) A[i, 0] * 3.0 }", 0},
      {"kernel f(A: f32[8]) -> C: f32[8] { C[i] = select(i < 2, exp(A[i]), A[i]) + 1.0 }", 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn_te **tes;
    int count;
    check_ok(tn_te_parse_all("f.te", cases[i].kernel, strlen(cases[i].kernel), NULL, NULL, 0, &tes, &count));
    double least, written, flops, bytes;
    tn__te_least_work(tes[0]->te, &least, &written);
    tn__decl_work(tes[0]->te, &flops, &bytes);
    if (least != cases[i].flops || least > flops || !(written > 0 && written < bytes))
      fail_msg("%s: %g, of %g", cases[i].kernel, least, flops);
    tn_te_list_release(tes, count);
  }
}

/* ---- times that no schedule reaches ------------------------------------------------------------------------------ */

static void write_lines(const char *path, const char *task, double median) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "{\"format\": 1, \"kind\": \"record\", \"task\": \"%s\", \"machine\": \"this one\", "
          "\"schedule_version\": 1, \"rule\": \"contraction\", \"decisions\": \"rows %g\", \"trace\": \"\", "
          "\"origin\": \"search\", \"measurements\": [{\"when\": 5, \"error\": \"ok\", \"message\": \"\", "
          "\"median\": %g, \"spread\": 0, \"calls\": 9, \"verified\": true, \"build_seconds\": 0, "
          "\"run_seconds\": 0, \"tenon\": \"0.2.0\"}]}\n",
          task, median, median);
  assert_int_equal(fclose(file), 0);
}

static void records_of_others_below_the_floor_are_refused(void **state) {
  place *p = *state;
  tn__task_list *tasks = p->tasks;
  tn_tune_task task = tn__tasks_at(tasks, 0)->task;
  tn_database *from;
  add(p, "rows 1");
  run_other(p, "UPDATE facts SET floor = 2e-6"); /* as where the machine is measured */
  write_lines("slow.jsonl", p->records.hashes[0], 3e-6);
  write_lines("fast.jsonl", p->records.hashes[0], 1e-6);
  check_ok(tn_database_import(p->records.database, "slow.jsonl", NULL));
  static const char refusal[] =
      "field \"median\": 1e-06 s is less than the 2e-06 s that this machine needs at the least for the kernel's "
      "operations and outputs; leave the record out";
  tn_status *status = tn_database_import(p->records.database, "fast.jsonl", NULL);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  assert_non_null(strstr(tn_status_message(status), refusal));
  tn_status_free(status);
  check_ok(tn_database_open("b.db", NULL, &from)); /* which knows nothing of the machine */
  check_ok(tn_database_add_task(from, &task, NULL));
  check_ok(tn_database_import(from, "fast.jsonl", NULL));
  tn_database_release(from);
  status = tn_database_merge(p->records.database, "b.db", NULL);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  assert_non_null(strstr(tn_status_message(status), refusal));
  tn_status_free(status);
}

static void pruning_takes_facts_along(void **state) {
  place *p = *state;
  tn__task_work work;
  int64_t candidates;
  bool known;
  add(p, "rows 1");
  run_other(p, "DELETE FROM measurement; DELETE FROM record");
  const tn_prune_options what_nothing_reads = {.size = sizeof what_nothing_reads};
  check_ok(tn_database_prune(p->records.database, &what_nothing_reads, NULL));
  check_ok(tn__records_facts(p->records.database, p->records.hashes[0], "this one", &work, &candidates, &known));
  assert_false(known);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_held_database_is_tried_once_a_second),        TEST(the_end_waits_for_the_budget_and_two_seconds),
      TEST(tasks_have_facts_with_their_first_record),      TEST(floors_count_what_every_schedule_does),
      TEST(records_of_others_below_the_floor_are_refused), TEST(pruning_takes_facts_along)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
