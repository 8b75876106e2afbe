/* The database of tuning records: what is kept, what is told, what is refused. What processes do to each other is in
 * tests/python/test_tune_database.py. */
#include <math.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "json/json.h"
#include "tenon/database.h"
#include "tune/database/database.h"
#include "tune/database/leases.h"
#include "unit/check.h"

/* Every test starts in its own empty folder, with an open database in a.db. */
typedef struct place {
  char folder[64];
  tn_database *db;
  char task[TN_TASK_HASH_BYTES];
} place;

static const char *const dim_names[] = {"N", "M"};
static const int64_t dim_sizes[] = {64, 128};

static tn_tune_task task_named(const char *name) {
  return (tn_tune_task){.size = sizeof(tn_tune_task),
                        .name = name,
                        .declaration = "kernel gemm(...)",
                        .target = "x86-64-v4",
                        .machine = "megahertz 2000",
                        .threads = 2,
                        .results_read = true,
                        .dims = dim_names,
                        .sizes = dim_sizes,
                        .dim_count = 2};
}

static int set_up(void **state) {
  place *p = calloc(1, sizeof(*p));
  const tn_tune_task task = task_named("gemm");
  strcpy(p->folder, "/tmp/tenon-test-database-XXXXXX");
  if (mkdtemp(p->folder) == NULL || chdir(p->folder) != 0) return -1;
  check_ok(tn_database_open("a.db", NULL, &p->db));
  check_ok(tn_database_add_task(p->db, &task, p->task));
  *state = p;
  return 0;
}

static int tear_down(void **state) {
  place *p = *state;
  char command[128];
  tn_database_release(p->db);
  snprintf(command, sizeof(command), "rm -rf %s", p->folder);
  free(p);
  return chdir("/") != 0 || system(command) != 0;
}

static tn_record record_of(const place *p, const char *decisions, double median) {
  return (tn_record){.size = sizeof(tn_record),
                     .task = p->task,
                     .machine = "zen 4",
                     .rule = "contraction",
                     .decisions = decisions,
                     .trace = "trace 1 9221c2e344f99d29\nsplit \"C.i0\" 0 8\nend\n",
                     .origin = TN_ORIGIN_SEARCH,
                     .median = median,
                     .spread = 0.01,
                     .calls = 100,
                     .verified = true,
                     .build_seconds = 0.5,
                     .run_seconds = 0.25,
                     .predicted = 2e-5,
                     .when = 1000};
}

static tn_record failure_of(const place *p, const char *decisions, tn_trial_error error, const char *message) {
  tn_record r = record_of(p, decisions, 0);
  r.error = error;
  r.message = message;
  r.verified = false;
  r.spread = 0;
  r.calls = 0;
  return r;
}

static tn_added add(const place *p, const tn_record *record, bool again) {
  tn_added added;
  check_ok(tn_database_add(p->db, record, again, &added));
  return added;
}

/* What a query told: as one line each, "DECISIONS median error verified measurements". */
typedef struct told {
  char text[4096];
  int count;
} told;

static bool tell(void *user, const tn_record *r) {
  told *t = user;
  size_t used = strlen(t->text);
  snprintf(t->text + used, sizeof(t->text) - used, "%s %g %s%s %lld\n", r->rule[0] != '\0' ? r->decisions : "trace",
           r->median, tn_trial_error_name(r->error), r->verified ? " verified" : "", (long long)r->measurements);
  t->count++;
  return true;
}

static const char *told_by(tn_database *db, const tn_record_filter *filter) {
  static told t;
  t = (told){0};
  check_ok(tn_database_query(db, filter, tell, &t, NULL));
  return t.text;
}

/* ---- tasks and records ------------------------------------------------------------------------------------------- */

static void a_task_has_an_identity(void **state) {
  const place *p = *state;
  char hash[TN_TASK_HASH_BYTES];
  tn_tune_task task = task_named("another name");
  static const char *const turned_names[] = {"M", "N"};
  static const int64_t turned_sizes[] = {128, 64};
  /* It is kept in databases: the number must not change. */
  assert_string_equal(p->task, "dba53063668665e0fc5dc12e7f13bdb0222675906a4e4598ef59d7e4866c7a1e");
  task.machine = NULL;
  task.dims = turned_names;
  task.sizes = turned_sizes;
  check_ok(tn_tune_task_hash(&task, hash));
  assert_string_equal(hash, p->task);
  tn_tune_task others[6];
  for (int i = 0; i < 6; i++) others[i] = task;
  others[0].declaration = "kernel gemm(..)";
  others[1].target = "x86-64-v3";
  others[2].threads = 1;
  others[3].results_read = false;
  others[4].sizes = dim_sizes;
  others[5].dim_count = 1;
  for (int i = 0; i < 6; i++) {
    check_ok(tn_tune_task_hash(&others[i], hash));
    assert_string_not_equal(hash, p->task);
  }
}

static bool count_task(void *user, const tn_task_records *t) {
  assert_string_equal(t->kernel->name, "gemm"); /* the first name stays */
  assert_string_equal(t->kernel->declaration, "kernel gemm(...)");
  assert_string_equal(t->kernel->target, "x86-64-v4");
  assert_null(t->kernel->machine);
  assert_int_equal(t->kernel->threads, 2);
  assert_true(t->kernel->results_read);
  assert_int_equal(t->kernel->dim_count, 2);
  assert_string_equal(t->kernel->dims[0], "M");
  assert_int_equal(t->kernel->sizes[0], 128);
  ++*(int *)user;
  return true;
}

static void a_task_is_there_once(void **state) {
  const place *p = *state;
  const tn_tune_task task = task_named("later");
  int count = 0;
  check_ok(tn_database_add_task(p->db, &task, NULL));
  check_ok(tn_database_tasks(p->db, NULL, count_task, &count));
  assert_int_equal(count, 1);
}

static void wrong_tasks_are_refused(void **state) {
  const place *p = *state;
  static const int64_t negative[] = {1, -1};
  static const char *const twice[] = {"N", "N"};
  tn_tune_task t = task_named("gemm");
  t.declaration = "";
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT, "field \"declaration\": it is missing");
  t = task_named("gemm");
  t.target = "x86 64";
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT,
              "field \"target\": it is one word, without spaces");
  t = task_named("\xff");
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT, "field \"name\": its text is not UTF-8");
  t = task_named("gemm");
  t.threads = 0;
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT,
              "field \"threads\": 0, where a kernel runs on at least one");
  t = task_named("gemm");
  t.sizes = negative;
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT,
              "field \"dims\": the size of M is -1, which is less than none");
  t = task_named("gemm");
  t.dims = twice;
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT, "field \"dims\": N is there twice");
  t.size = 0;
  check_fails(tn_database_add_task(p->db, &t, NULL), TN_INVALID_ARGUMENT,
              "tn_tune_task: its size is 0, so no field of it counts: set .size = sizeof(tn_tune_task)");
}

static bool see_all_fields(void *user, const tn_record *r) {
  const place *p = user;
  assert_string_equal(r->task, p->task);
  assert_string_equal(r->kernel->name, "gemm");
  assert_string_equal(r->machine, "zen 4");
  assert_int_equal(r->format, TN_RECORD_FORMAT);
  assert_int_equal(r->schedule_version, TN_SCHEDULE_VERSION);
  assert_string_equal(r->rule, "contraction");
  assert_string_equal(r->decisions, "rows 14");
  assert_string_equal(r->trace, "trace 1 9221c2e344f99d29\nsplit \"C.i0\" 0 8\nend\n");
  assert_int_equal(r->origin, TN_ORIGIN_SEARCH);
  assert_int_equal(r->error, TN_TRIAL_OK);
  assert_string_equal(r->message, "");
  assert_true(r->median == 1.23e-5 && r->best == 1.23e-5 && r->spread == 0.01);
  assert_int_equal(r->calls, 100);
  assert_true(r->verified && r->build_seconds == 0.5 && r->run_seconds == 0.25 && r->when == 1000);
  assert_true(r->predicted == 2e-5);
  assert_string_equal(r->tenon, tn_version());
  assert_int_equal(r->measurements, 1);
  assert_int_equal(r->id, 1);
  assert_false(r->other_machine);
  return true;
}

static void a_record_comes_back(void **state) {
  place *p = *state;
  const tn_record r = record_of(p, "rows 14", 1.23e-5);
  assert_int_equal(add(p, &r, false), TN_ADDED_RECORD);
  check_ok(tn_database_query(p->db, NULL, see_all_fields, p, NULL));
  tn_database_release(p->db);
  check_ok(
      tn_database_open("a.db", &(tn_database_options){.size = sizeof(tn_database_options), .read_only = true}, &p->db));
  check_ok(tn_database_query(p->db, NULL, see_all_fields, p, NULL));
}

static void a_candidate_is_measured_once(void **state) {
  const place *p = *state;
  tn_record r = record_of(p, "rows 14", 2e-6), slower = record_of(p, "rows 14", 9e-6);
  bool known;
  tn_trial_error error = TN_TRIAL_CANCELLED;
  check_ok(tn_database_has(p->db, &r, &known, &error));
  assert_false(known);
  assert_int_equal(add(p, &r, false), TN_ADDED_RECORD);
  assert_int_equal(add(p, &r, false), TN_ADDED_NOTHING);
  assert_int_equal(add(p, &slower, false), TN_ADDED_NOTHING);
  assert_int_equal(add(p, &r, true), TN_ADDED_NOTHING); /* the very same measurement */
  assert_string_equal(told_by(p->db, NULL), "rows 14 2e-06 ok verified 1\n");
  check_ok(tn_database_has(p->db, &r, &known, &error));
  assert_true(known);
  assert_int_equal(error, TN_TRIAL_OK);
  /* Each of these makes it another candidate; the trace does not where there is a rule. */
  tn_record others[] = {r, r, r, r, r};
  others[0].machine = "haswell";
  others[1].rule = "rows";
  others[2].decisions = "rows 15";
  others[3].rule = NULL;
  others[4].trace = "trace 1 0\nend\n";
  for (int i = 0; i < 5; i++) {
    check_ok(tn_database_has(p->db, &others[i], &known, NULL));
    assert_int_equal(known, i == 4);
    assert_int_equal(add(p, &others[i], false), i == 4 ? TN_ADDED_NOTHING : TN_ADDED_RECORD);
  }
  others[0].machine = NULL; /* any */
  check_ok(tn_database_has(p->db, &others[0], &known, NULL));
  assert_true(known);
}

/* All orders in which measurements may come say the same. */
static void measure_in_any_order(const place *p, const char *decisions, const tn_record *of, int count,
                                 const char *expected) {
  int order[4] = {0, 1, 2, 3}, orders = 1;
  for (int i = 2; i <= count; i++) orders *= i;
  for (int n = 0; n < orders; n++) {
    char name[64], line[128];
    snprintf(name, sizeof(name), "%s order %d", decisions, n);
    for (int i = 0, rest = n; i < count; i++) { /* the n-th order: which of those that are left comes next */
      int left[4], many = 0;
      for (int k = 0; k < count; k++) {
        bool taken = false;
        for (int j = 0; j < i; j++) taken |= order[j] == k;
        if (!taken) left[many++] = k;
      }
      order[i] = left[rest % many];
      rest /= many;
      tn_record r = of[order[i]];
      r.decisions = name;
      assert_int_equal(add(p, &r, true), i == 0 ? TN_ADDED_RECORD : TN_ADDED_MEASUREMENT);
      assert_int_equal(add(p, &r, true), TN_ADDED_NOTHING);
    }
    snprintf(line, sizeof(line), "%s %s", name, expected);
    assert_string_equal(told_by(p->db, &(tn_record_filter){.size = sizeof(tn_record_filter), .order = TN_ORDER_ADDED}),
                        line);
    check_ok(tn_database_prune(
        p->db, &(tn_prune_options){.size = sizeof(tn_prune_options), .older_than = 1e9, .failed = true}, NULL));
    sqlite3_exec(p->db->handle, "DELETE FROM record", NULL, NULL, NULL);
  }
}

static tn_record at(tn_record r, double when) {
  r.when = when;
  return r;
}

static void measurements_add_up(void **state) {
  const place *p = *state;
  const tn_record fast = at(record_of(p, "", 2e-6), 10), slow = at(record_of(p, "", 4e-6), 20),
                  slower = at(record_of(p, "", 7e-6), 30),
                  wrong = at(failure_of(p, "", TN_TRIAL_WRONG_ANSWER, "1"), 25),
                  late = at(failure_of(p, "", TN_TRIAL_RUN_TIMEOUT, "2"), 40),
                  lost = at(failure_of(p, "", TN_TRIAL_WORKER_LOST, "3"), 50);
  tn_record unverified = at(record_of(p, "", 5e-6), 60);
  unverified.verified = false;
  measure_in_any_order(p, "a", (const tn_record[]){fast, slow, slower}, 3, "4e-06 ok verified 3\n");
  measure_in_any_order(p, "b", (const tn_record[]){fast, slow}, 2, "3e-06 ok verified 2\n");
  measure_in_any_order(p, "c", (const tn_record[]){fast, slow, wrong}, 3, "0 wrong answer 3\n");
  measure_in_any_order(p, "d", (const tn_record[]){fast, slow, wrong, slower}, 4, "7e-06 ok verified 4\n");
  measure_in_any_order(p, "e", (const tn_record[]){fast, late, lost}, 3, "2e-06 ok verified 3\n");
  measure_in_any_order(p, "f", (const tn_record[]){late, lost}, 2, "0 worker lost 2\n");
  measure_in_any_order(p, "g", (const tn_record[]){wrong, lost}, 2, "0 wrong answer 2\n");
  measure_in_any_order(p, "h", (const tn_record[]){slower, wrong, unverified}, 3, "6e-06 ok verified 3\n");
  measure_in_any_order(p, "i", (const tn_record[]){fast, wrong, unverified}, 3, "5e-06 ok 3\n");
}

static void a_cancelled_trial_is_none(void **state) {
  const place *p = *state;
  const tn_record stopped = failure_of(p, "rows 14", TN_TRIAL_CANCELLED, "it was cancelled"),
                  done = at(record_of(p, "rows 14", 2e-6), 2000);
  bool known;
  assert_int_equal(add(p, &stopped, false), TN_ADDED_RECORD);
  check_ok(tn_database_has(p->db, &stopped, &known, NULL));
  assert_false(known);
  assert_int_equal(add(p, &done, false), TN_ADDED_MEASUREMENT);
  assert_string_equal(told_by(p->db, NULL), "rows 14 2e-06 ok verified 2\n");
}

static void wrong_records_are_refused(void **state) {
  const place *p = *state;
  const tn_record good = record_of(p, "rows 14", 2e-6);
  tn_record r = good;
  r.task = "12ab";
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"task\": it is no task's hash, 64 hexadecimal digits");
  r.task = "0000000000000000000000000000000000000000000000000000000000000000";
  check_fails(
      tn_database_add(p->db, &r, false, NULL), TN_NOT_FOUND,
      "field \"task\": there is no task 0000000000000000000000000000000000000000000000000000000000000000 in a.db: "
      "add the task before its records");
  r = good, r.machine = NULL;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT, "field \"machine\": it is missing");
  r = good, r.rule = r.trace = NULL;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"trace\": a record needs a rule or a trace, and has neither");
  static const char *const no_traces[] = {"split", "trace 1 0\n", "trace 1 0\nend\nend\n", "trace 1 0\nend\nsplit"};
  for (int i = 0; i < 4; i++) {
    r = good, r.trace = no_traces[i];
    check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
                "field \"trace\": it is no trace: it begins with `trace VERSION DIGEST` and ends with a line `end`");
  }
  r = good, r.median = 0;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"median\": 0, where the trial was timed");
  r = good, r.median = NAN;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"median\": nan is no such number: it is 0 or more");
  r = good, r.error = (tn_trial_error)10;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT, "field \"error\": there is no kind 10");
  r = good, r.origin = (tn_record_origin)4;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT, "field \"origin\": there is no origin 4");
  r = good, r.schedule_version = 2;
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"schedule_version\": there is no such version for this Tenon (0.2.0), which has format 1 and "
              "schedule_version 1");
  r = good, r.tenon = "0.2 beta";
  check_fails(tn_database_add(p->db, &r, false, NULL), TN_INVALID_ARGUMENT,
              "field \"tenon\": it is one word, without spaces");
  assert_string_equal(told_by(p->db, NULL), "");
}

static void many_are_all_or_none(void **state) {
  const place *p = *state;
  tn_record a = record_of(p, "rows 1", 1e-6), b = record_of(p, "rows 2", 2e-6), wrong = record_of(p, "rows 3", 0);
  const tn_record *const with_wrong[] = {&a, &b, &wrong}, *const twice[] = {&a, &b, &a};
  tn_added added[3];
  check_fails(tn_database_add_many(p->db, with_wrong, 3, false, NULL), TN_INVALID_ARGUMENT,
              "record 2: field \"median\": 0, where the trial was timed");
  assert_string_equal(told_by(p->db, NULL), "");
  check_ok(tn_database_add_many(p->db, twice, 3, false, added));
  assert_int_equal(added[0], TN_ADDED_RECORD);
  assert_int_equal(added[1], TN_ADDED_RECORD);
  assert_int_equal(added[2], TN_ADDED_NOTHING);
  check_ok(tn_database_add_many(p->db, NULL, 0, false, NULL));
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void fill(const place *p) {
  tn_record r[] = {record_of(p, "rows 1", 3e-6), record_of(p, "rows 2", 1e-6),
                   failure_of(p, "rows 3", TN_TRIAL_RUN_TIME, "signal 11"),
                   failure_of(p, "rows 4", TN_TRIAL_BUILD_TIMEOUT, "10 s"), record_of(p, "rows 5", 2e-6)};
  r[1].verified = false;
  r[4].machine = "haswell";
  r[4].origin = TN_ORIGIN_STATIC;
  for (int i = 0; i < 5; i++) {
    r[i].when = 100 * (5 - i);
    assert_int_equal(add(p, &r[i], false), TN_ADDED_RECORD);
  }
}

#define FILTER(...) (&(tn_record_filter){.size = sizeof(tn_record_filter), __VA_ARGS__})

static void filters_choose(void **state) {
  const place *p = *state;
  char begin[9];
  fill(p);
  static const char one[] = "rows 1 3e-06 ok verified 1\n", two[] = "rows 2 1e-06 ok 1\n",
                    three[] = "rows 3 0 run time 1\n", four[] = "rows 4 0 build timeout 1\n",
                    five[] = "rows 5 2e-06 ok verified 1\n";
  char all[256], text[256];
  snprintf(all, sizeof(all), "%s%s%s%s%s", one, two, three, four, five);
  snprintf(begin, sizeof(begin), "%.8s", p->task);
  assert_string_equal(told_by(p->db, NULL), all);
  assert_string_equal(told_by(p->db, FILTER(.task = p->task)), all);
  assert_string_equal(told_by(p->db, FILTER(.task = begin, .name = "gemm", .target = "x86-64-v4")), all);
  assert_string_equal(told_by(p->db, FILTER(.task = "0")), p->task[0] == '0' ? all : "");
  assert_string_equal(told_by(p->db, FILTER(.name = "conv")), "");
  assert_string_equal(told_by(p->db, FILTER(.target = "x86-64-v3")), "");
  assert_string_equal(told_by(p->db, FILTER(.machine = "haswell")), five);
  assert_string_equal(told_by(p->db, FILTER(.errors = 1u << TN_TRIAL_RUN_TIME)), three);
  snprintf(text, sizeof(text), "%s%s", three, four);
  assert_string_equal(told_by(p->db, FILTER(.errors = ~1u)), text);
  assert_string_equal(told_by(p->db, FILTER(.origins = 1u << TN_ORIGIN_STATIC)), five);
  snprintf(text, sizeof(text), "%s%s", one, five);
  assert_string_equal(told_by(p->db, FILTER(.verified = true)), text);
  snprintf(text, sizeof(text), "%s%s", two, three);
  assert_string_equal(told_by(p->db, FILTER(.since = 300, .until = 500)), text);
  assert_string_equal(told_by(p->db, FILTER(.limit = 1)), one);
  snprintf(text, sizeof(text), "%s%s%s", two, five, one);
  assert_string_equal(told_by(p->db, FILTER(.limit = 3, .order = TN_ORDER_FASTEST)), text);
  snprintf(text, sizeof(text), "%s%s", one, two);
  assert_string_equal(told_by(p->db, FILTER(.limit = 2, .order = TN_ORDER_NEWEST)), text);
  check_fails(tn_database_query(p->db, FILTER(.task = "xyz"), tell, NULL, NULL), TN_INVALID_ARGUMENT,
              "\"xyz\" is no task's hash, and no beginning of one");
  check_fails(tn_database_query(p->db, FILTER(.limit = -1), tell, NULL, NULL), TN_INVALID_ARGUMENT,
              "a limit of -1 is less than none");
  check_fails(tn_database_query(p->db, FILTER(.order = (tn_record_order)3), tell, NULL, NULL), TN_INVALID_ARGUMENT,
              "there is no order 3");
}

typedef struct writing {
  const place *p;
  int count;
} writing;

static bool write_meanwhile(void *user, const tn_record *r) {
  writing *w = user;
  bool known;
  const tn_record more = record_of(w->p, "rows 9", 1e-6);
  check_fails(tn_database_add(w->p->db, &more, false, NULL), TN_FAILED_PRECONDITION,
              "a.db: the database is telling what it has, and cannot be changed in that callback: keep what is to be "
              "written until it has returned");
  check_ok(tn_database_has(w->p->db, r, &known, NULL)); /* asking is fine */
  assert_true(known);
  assert_int_equal(strlen(told_by(w->p->db, FILTER(.limit = 1))) > 0, true);
  return ++w->count < 2;
}

static void callbacks_ask_and_do_not_write(void **state) {
  const place *p = *state;
  writing w = {p, 0};
  fill(p);
  check_ok(tn_database_query(p->db, NULL, write_meanwhile, &w, NULL));
  assert_int_equal(w.count, 2); /* false ended it */
  const tn_record more = record_of(p, "rows 9", 1e-6);
  assert_int_equal(add(p, &more, false), TN_ADDED_RECORD);
}

static void the_best_is_of_this_machine_first(void **state) {
  place *p = *state;
  tn_record *best;
  check_ok(tn_database_best(p->db, p->task, "zen 4", &best));
  assert_null(best);
  fill(p);
  check_ok(tn_database_best(p->db, p->task, "zen 4", &best));
  assert_string_equal(best->decisions, "rows 1"); /* not rows 2, which nobody verified */
  assert_false(best->other_machine);
  tn_record_release(best);
  check_ok(tn_database_best(p->db, p->task, "skylake", &best));
  assert_string_equal(best->decisions, "rows 5");
  assert_true(best->other_machine);
  tn_record_release(best);
  check_ok(tn_database_best(p->db, p->task, NULL, &best));
  assert_string_equal(best->decisions, "rows 5");
  assert_false(best->other_machine);
  tn_database_release(p->db); /* it outlives the database */
  p->db = NULL;
  assert_string_equal(best->kernel->dims[1], "N");
  assert_int_equal(best->kernel->sizes[1], 64);
  assert_string_equal(best->kernel->declaration, "kernel gemm(...)");
  assert_string_equal(best->task, p->task);
  tn_record_release(best);
  tn_record_release(NULL);
}

static bool see_statistics(void *user, const tn_task_records *t) {
  *(tn_task_records *)user = *t;
  return true;
}

static void tasks_have_statistics(void **state) {
  const place *p = *state;
  tn_task_records t;
  tn_tune_task other = task_named("conv");
  other.declaration = "kernel conv(...)";
  check_ok(tn_database_add_task(p->db, &other, NULL));
  fill(p);
  check_ok(tn_database_tasks(p->db, FILTER(.name = "gemm"), see_statistics, &t));
  assert_int_equal(t.records, 5);
  assert_int_equal(t.measurements, 5);
  assert_int_equal(t.errors[TN_TRIAL_OK], 3);
  assert_int_equal(t.errors[TN_TRIAL_RUN_TIME], 1);
  assert_int_equal(t.errors[TN_TRIAL_BUILD_TIMEOUT], 1);
  assert_true(t.best == 2e-6 && t.first == 100 && t.last == 500);
  check_ok(tn_database_tasks(p->db, FILTER(.machine = "zen 4"), see_statistics, &t)); /* conv is told last */
  assert_int_equal(t.records, 0);
  assert_true(t.best == 0 && t.first == 0);
  check_ok(tn_database_tasks(p->db, FILTER(.machine = "zen 4", .limit = 1), see_statistics, &t));
  assert_int_equal(t.records, 4);
  assert_true(t.best == 3e-6);
}

/* ---- tidying ----------------------------------------------------------------------------------------------------- */

static int64_t prune(const place *p, tn_prune_options options) {
  int64_t removed = -1, counted = -1;
  options.size = sizeof(options);
  options.only_count = true;
  check_ok(tn_database_prune(p->db, &options, &counted));
  options.only_count = false;
  check_ok(tn_database_prune(p->db, &options, &removed));
  assert_int_equal(counted, removed);
  return removed;
}

static void failures_are_pruned(void **state) {
  const place *p = *state;
  fill(p);
  assert_int_equal(prune(p, (tn_prune_options){.failed = true}), 2);
  assert_string_equal(told_by(p->db, NULL),
                      "rows 1 3e-06 ok verified 1\nrows 2 1e-06 ok 1\nrows 5 2e-06 ok verified 1\n");
  assert_int_equal(prune(p, (tn_prune_options){.failed = true}), 0);
}

static void the_old_and_the_many_are_pruned(void **state) {
  const place *p = *state;
  fill(p);
  assert_int_equal(prune(p, (tn_prune_options){.older_than = 450}), 3); /* rows 5 is old, and the best of its machine */
  assert_string_equal(told_by(p->db, NULL), "rows 1 3e-06 ok verified 1\nrows 5 2e-06 ok verified 1\n");
  const tn_record fast = record_of(p, "rows 6", 4e-6), faster = record_of(p, "rows 7", 2e-6),
                  slow = record_of(p, "rows 8", 9e-6);
  const tn_record *const more[] = {&fast, &faster, &slow};
  check_ok(tn_database_add_many(p->db, more, 3, false, NULL));
  assert_int_equal(prune(p, (tn_prune_options){.keep = 2}), 2); /* of each machine */
  assert_string_equal(told_by(p->db, NULL),
                      "rows 1 3e-06 ok verified 1\nrows 5 2e-06 ok verified 1\nrows 7 2e-06 ok verified 1\n");
  assert_int_equal(prune(p, (tn_prune_options){.keep = 100, .older_than = 1}), 0);
}

static void other_tasks_are_pruned(void **state) {
  const place *p = *state;
  char other_hash[TN_TASK_HASH_BYTES], begin[13];
  tn_tune_task other = task_named("conv");
  other.declaration = "kernel conv(...)";
  check_ok(tn_database_add_task(p->db, &other, other_hash));
  fill(p);
  snprintf(begin, sizeof(begin), "%.12s", p->task);
  const char *kept = begin, *unknown = "ffffffffffffffff", *no_hash = "x";
  check_fails(
      tn_database_prune(
          p->db, &(tn_prune_options){.size = sizeof(tn_prune_options), .tasks = &unknown, .task_count = 1}, NULL),
      TN_NOT_FOUND, "there is no task ffffffffffffffff in a.db, so nothing was removed");
  check_fails(
      tn_database_prune(
          p->db, &(tn_prune_options){.size = sizeof(tn_prune_options), .tasks = &no_hash, .task_count = 1}, NULL),
      TN_INVALID_ARGUMENT, "\"x\" is no task's hash, and no beginning of one");
  assert_int_equal(prune(p, (tn_prune_options){.tasks = &kept, .task_count = 1}), 0);
  int count = 0;
  check_ok(tn_database_tasks(p->db, NULL, count_task, &count)); /* conv is gone */
  assert_int_equal(count, 1);
  check_ok(tn_database_add_task(p->db, &other, other_hash));
  kept = other_hash;
  assert_int_equal(prune(p, (tn_prune_options){.tasks = &kept, .task_count = 1}), 5);
  assert_string_equal(told_by(p->db, NULL), "");
}

/* ---- newer versions ---------------------------------------------------------------------------------------------- */

static void make_newer(tn_database *db, const char *decisions, const char *field) {
  char sql[128];
  snprintf(sql, sizeof(sql), "UPDATE record SET %s = 2, verified = 1 WHERE decisions = '%s'", field, decisions);
  assert_int_equal(sqlite3_exec(db->handle, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void newer_records_are_kept_and_passed_over(void **state) {
  const place *p = *state;
  told t = {0};
  int64_t newer = -1;
  bool known;
  tn_record *best;
  tn_database_change change = {.size = sizeof(change)};
  tn_task_records of_task;
  fill(p);
  make_newer(p->db, "rows 1", "format");
  make_newer(p->db, "rows 2", "schedule_version");
  check_ok(tn_database_query(p->db, FILTER(.limit = 1), tell, &t, &newer));
  assert_int_equal(newer, 2);
  assert_string_equal(t.text, "rows 3 0 run time 1\n");
  check_ok(tn_database_tasks(p->db, NULL, see_statistics, &of_task));
  assert_int_equal(of_task.records, 3);
  assert_int_equal(of_task.newer, 2);
  check_ok(tn_database_best(p->db, p->task, NULL, &best));
  assert_string_equal(best->decisions, "rows 5");
  tn_record_release(best);
  const tn_record again = record_of(p, "rows 1", 3e-6);
  check_ok(tn_database_has(p->db, &again, &known, NULL));
  assert_false(known); /* in this format nobody measured it */
  check_ok(tn_database_export(p->db, NULL, "a.jsonl", &change));
  assert_int_equal(change.records, 3);
  assert_int_equal(change.newer, 2);
  assert_int_equal(prune(p, (tn_prune_options){.older_than = 1e9, .failed = true}), 2);
  check_ok(tn_database_query(p->db, NULL, tell, &t, &newer));
  assert_int_equal(newer, 2);
  tn_database *other;
  check_ok(tn_database_open("b.db", NULL, &other));
  check_ok(tn_database_merge(other, "a.db", &change));
  assert_int_equal(change.newer, 2);
  assert_int_equal(change.records, 3);
  check_ok(tn_database_query(other, NULL, tell, &t, &newer));
  assert_int_equal(newer, 2);
  tn_database_release(other);
}

/* ---- records of other machines and files ------------------------------------------------------------------------- */

static bool see_record(void *user, const tn_record *r) {
  tn_record *seen = user;
  *seen = (tn_record){.proven = r->proven,
                      .median = r->median,
                      .verdict = r->verdict,
                      .ratio = r->ratio,
                      .verified = r->verified,
                      .measurements = r->measurements,
                      .error = r->error};
  return true;
}

static tn_record only_record(tn_database *db) {
  tn_record seen = {0};
  check_ok(tn_database_query(db, NULL, see_record, &seen, NULL));
  return seen;
}

/* Imports from a file of lines, and from another database. */
static void records_of_others_are_unproven(void **state) {
  for (int merged = 0; merged < 2; merged++) {
    place *p = *state;
    tn_database *db;
    tn_record *best, r = record_of(p, "rows 14", 1e-8); /* impossibly fast, but unverified here */
    tn_task_records task;
    bool known = true;
    char name[] = "other0.db";
    name[5] = (char)('0' + merged);
    if (merged == 0) add(p, &r, false);
    check_ok(tn_database_open(name, NULL, &db));
    if (merged) {
      check_ok(tn_database_merge(db, "a.db", NULL));
    } else {
      check_ok(tn_database_export(p->db, NULL, "a.jsonl", NULL));
      check_ok(tn_database_import(db, "a.jsonl", NULL));
    }
    assert_false(only_record(db).proven);
    check_ok(tn_database_has(db, &r, &known, NULL));
    assert_false(known);
    check_ok(tn_database_tasks(db, NULL, see_statistics, &task));
    assert_true(task.best == 0);
    check_fails(tn_database_judge(db, &r, true, 0.5, 9), TN_NOT_FOUND,
                "cannot judge a candidate that was not measured here: add its record first");
    check_ok(tn_database_winner(db, p->task, NULL, &best));
    assert_null(best);
    /* Measured here, only this machine's result counts. */
    r.median = 4e-6;
    r.when = 2000;
    check_ok(tn_database_add(db, &r, false, NULL));
    tn_record now = only_record(db);
    assert_true(now.proven && now.median == 4e-6 && now.measurements == 2);
    check_ok(tn_database_has(db, &r, &known, NULL));
    assert_true(known);
    if (merged) /* repeat; nothing may be counted */
      check_ok(tn_database_merge(db, "a.db", NULL));
    else
      check_ok(tn_database_import(db, "a.jsonl", NULL));
    assert_true(only_record(db).median == 4e-6);
    tn_database_release(db);
  }
}

static void times_that_cannot_be_are_refused(void **state) {
  const place *p = *state;
  static const double times[] = {1e-300, 9e-11, 0, -1, INFINITY, NAN};
  for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
    const tn_record r = record_of(p, "rows 14", times[i]);
    tn_status *status = tn_database_add(p->db, &r, false, NULL);
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    assert_non_null(strstr(tn_status_message(status), "field \"median\": "));
    tn_status_free(status);
  }
  const tn_record fast = record_of(p, "rows 14", 1e-9);
  add(p, &fast, false);
}

static void the_newest_verdict_counts(void **state) {
  const place *p = *state;
  tn_record a = record_of(p, "rows 1", 3e-6), b = record_of(p, "rows 2", 2e-6), *best;
  add(p, &a, false);
  add(p, &b, false);
  check_ok(tn_database_judge(p->db, &a, true, 0.9, 9));
  check_ok(tn_database_judge(p->db, &b, true, 0.95, 9));
  check_ok(tn_database_winner(p->db, p->task, "zen 4", &best));
  assert_string_equal(best->decisions, "rows 1"); /* by the ratio, not by a time */
  assert_int_equal(best->verdict, TN_VERDICT_BETTER);
  assert_true(best->ratio == 0.9 && best->proven);
  tn_record_release(best);
  a.when = 999; /* an older comparison changes nothing */
  check_ok(tn_database_judge(p->db, &a, false, 1.1, 9));
  check_ok(tn_database_winner(p->db, p->task, "zen 4", &best));
  assert_string_equal(best->decisions, "rows 1");
  tn_record_release(best);
  a.when = 1001;
  check_ok(tn_database_judge(p->db, &a, false, 1.1, 9));
  check_ok(tn_database_winner(p->db, p->task, "zen 4", &best));
  assert_string_equal(best->decisions, "rows 2");
  tn_record_release(best);
  assert_int_equal(prune((place *)(uintptr_t)p, (tn_prune_options){.older_than = 1e9}), 1); /* the winner is kept */
  check_ok(tn_database_winner(p->db, p->task, NULL, &best));
  assert_string_equal(best->decisions, "rows 2");
  tn_record_release(best);
  check_fails(tn_database_judge(p->db, &b, true, NAN, 9), TN_INVALID_ARGUMENT,
              "cannot judge a candidate by a ratio of nan in 9 turns: both are above 0");
}

static tn__database_claim_state claim(const place *p, const tn_record *r, const char *owner, double now) {
  tn__database_claimed claimed;
  check_ok(tn__database_claim(p->db, r, &(tn__lease){owner, now, 60}, &claimed));
  return claimed.state;
}

/* Uses a clock of the test. */
static void leases_are_exclusive_and_expire(void **state) {
  const place *p = *state;
  tn_record r = record_of(p, "rows 1", 3e-6), other = record_of(p, "rows 2", 3e-6), elsewhere = r;
  elsewhere.machine = "haswell";
  assert_int_equal(claim(p, &r, "a", 100), TN__CLAIM_GRANTED);
  assert_int_equal(claim(p, &r, "a", 110), TN__CLAIM_GRANTED); /* its own claim */
  assert_int_equal(claim(p, &r, "b", 120), TN__CLAIM_TAKEN);
  assert_int_equal(claim(p, &other, "b", 120), TN__CLAIM_GRANTED);
  assert_int_equal(claim(p, &elsewhere, "b", 120), TN__CLAIM_GRANTED);
  check_ok(tn__database_renew(p->db, &(tn__lease){"a", 160, 60}));
  assert_int_equal(claim(p, &r, "b", 219), TN__CLAIM_TAKEN);
  assert_int_equal(claim(p, &r, "b", 220), TN__CLAIM_GRANTED); /* its owner died */
  assert_int_equal(claim(p, &r, "a", 221), TN__CLAIM_TAKEN);
  check_ok(tn__database_yield(p->db, "b", &r));
  assert_int_equal(claim(p, &r, "a", 222), TN__CLAIM_GRANTED);
  add(p, &r, false);
  check_ok(tn__database_yield(p->db, "a", NULL));
  assert_int_equal(claim(p, &r, "b", 223), TN__CLAIM_KNOWN);
}

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

static void run_sql(const char *path, const char *sql) {
  sqlite3 *handle;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

/* Records imported before verdicts existed are recognised by their origin. */
static void imports_of_schema_3_are_unproven(void **state) {
  place *p = *state;
  tn_record r = record_of(p, "rows 14", 3e-6);
  r.origin = TN_ORIGIN_IMPORT;
  add(p, &r, false);
  tn_database_release(p->db);
  p->db = NULL;
  run_sql("a.db",
          "DROP TABLE facts; DROP TABLE verdict; DROP TABLE lease; ALTER TABLE record DROP COLUMN ratio;"
          "ALTER TABLE record DROP COLUMN verdict; ALTER TABLE record DROP COLUMN proven;"
          "ALTER TABLE measurement DROP COLUMN proven; PRAGMA user_version = 3");
  check_ok(tn_database_open("a.db", NULL, &p->db));
  assert_false(only_record(p->db).proven);
}

static bool see_prediction(void *user, const tn_record *r) {
  double *predicted = user;
  *predicted = r->predicted;
  return true;
}

/* What a database of schema 1 holds has no predictions, and gets them from then on. */
static void records_of_schema_1_stay(void **state) {
  place *p = *state;
  const tn__database_schema first = {tn__database_schema_known.steps, 1};
  double predicted = -1;
  char *before = NULL, *after = NULL;
  tn_record r = record_of(p, "rows 14", 1.23e-5);
  r.predicted = 0;
  add(p, &r, false);
  check_ok(tn_database_export_text(p->db, NULL, &before, NULL));
  tn_database_release(p->db);
  p->db = NULL;
  run_sql(
      "a.db",
      "DROP TABLE facts; DROP TABLE spent; DROP TABLE verdict; DROP TABLE lease; ALTER TABLE record DROP COLUMN ratio;"
      "ALTER TABLE record DROP COLUMN verdict; ALTER TABLE record DROP COLUMN proven;"
      "ALTER TABLE measurement DROP COLUMN proven; ALTER TABLE measurement DROP COLUMN predicted;"
      "PRAGMA user_version = 1");
  check_ok(tn__database_open_schema("a.db", NULL, &first, &p->db)); /* it is what an older one made */
  tn_database_release(p->db);
  check_ok(tn_database_open("a.db", NULL, &p->db));
  check_ok(tn_database_export_text(p->db, NULL, &after, NULL));
  assert_string_equal(after, before);
  free(before);
  free(after);
  r.predicted = 3e-5;
  r.when++;
  assert_int_equal(add(p, &r, true), TN_ADDED_MEASUREMENT);
  r.predicted = 4e-5; /* what was said first is what was said before anybody knew */
  r.when++;
  assert_int_equal(add(p, &r, true), TN_ADDED_MEASUREMENT);
  check_ok(tn_database_query(p->db, NULL, see_prediction, &predicted, NULL));
  assert_true(predicted == 3e-5);
}

typedef struct measurements_told {
  tn_database *db;
  double when[8];
  int count, most;
} measurements_told;

static bool see_measurement(void *user, const tn_record *r) {
  measurements_told *t = user;
  assert_string_equal(r->decisions, "rows 14");
  t->when[t->count++] = r->when;
  return t->count < t->most;
}

static bool ask_for_measurements(void *user, const tn_record *r) {
  measurements_told *t = user;
  check_ok(tn_database_measurements(t->db, r, see_measurement, t));
  return true;
}

static void measurements_are_told(void **state) {
  place *p = *state;
  tn_record r = record_of(p, "rows 14", 1.23e-5);
  add(p, &r, false);
  for (int i = 1; i < 3; i++) {
    r.when = 1000 - i; /* added later, and earlier by the clock */
    add(p, &r, true);
  }
  measurements_told all = {.db = p->db, .most = 8}, one = {.db = p->db, .most = 1};
  check_ok(tn_database_query(p->db, NULL, ask_for_measurements, &all, NULL));
  assert_int_equal(all.count, 3);
  assert_true(all.when[0] == 998 && all.when[1] == 999 && all.when[2] == 1000);
  check_ok(tn_database_query(p->db, NULL, ask_for_measurements, &one, NULL));
  assert_int_equal(one.count, 1);
  r.size = 0;
  check_fails(tn_database_measurements(p->db, &r, see_measurement, &one), TN_INVALID_ARGUMENT,
              "tn_record: its size is 0, so no field of it counts: set .size = sizeof(tn_record)");
}

static void what_was_spent_adds_up(void **state) {
  place *p = *state;
  const char *const one[] = {"b", "a"}, *const other[] = {"a", "b"};
  double total = -1;
  check_ok(tn_database_spend(p->db, one, 2, "here", 0, &total));
  assert_true(total == 0);
  check_ok(tn_database_spend(p->db, one, 2, "here", 1.5, NULL));
  check_ok(tn_database_spend(p->db, other, 2, "here", 2, &total)); /* in any order */
  assert_true(total == 3.5);
  check_ok(tn_database_spend(p->db, one, 1, "here", 0, &total)); /* of other tasks, and other machines */
  assert_true(total == 0);
  check_ok(tn_database_spend(p->db, one, 2, "there", 4, &total));
  assert_true(total == 4);
  check_fails(tn_database_spend(p->db, one, 2, "here", -1, &total), TN_INVALID_ARGUMENT,
              "seconds that were spent are 0 or more, not -1");
  check_fails(tn_database_spend(p->db, one, 0, "here", 1, &total), TN_INVALID_ARGUMENT,
              "seconds are spent on tasks, on a machine");
}

/* The known schema and two further steps. */
static tn__database_schema later_schema(const char **steps, const char *first, const char *second) {
  int count = tn__database_schema_known.count;
  for (int i = 0; i < count; i++) steps[i] = tn__database_schema_known.steps[i];
  steps[count] = first;
  steps[count + 1] = second;
  return (tn__database_schema){steps, count + 2};
}

static void older_schemas_are_brought_up(void **state) {
  place *p = *state;
  const char *steps[16];
  const tn__database_schema later =
      later_schema(steps, "CREATE TABLE note (text TEXT) STRICT",
                   "INSERT INTO note VALUES ('migrated'); ALTER TABLE note ADD COLUMN more INTEGER");
  assert_int_equal(tn__database_schema_known.count, 5);
  const tn_database_options reading = {.size = sizeof(reading), .read_only = true};
  tn_database *db;
  int64_t number = 0;
  fill(p);
  tn_database_release(p->db);
  p->db = NULL;
  check_fails(
      tn__database_open_schema("a.db", &reading, &later, &db), TN_FAILED_PRECONDITION,
      "a.db: the database has schema 5 of an older Tenon, and is to be read only: open it once to be written to, "
      "which brings it to schema 7");
  check_ok(tn__database_open_schema("a.db", NULL, &later, &db));
  check_ok(tn__database_number(db, &number, "SELECT count(*) FROM note WHERE more IS NULL", ""));
  assert_int_equal(number, 1);
  assert_int_equal(strlen(told_by(db, FILTER(.limit = 1))) > 0, true);
  tn_database_release(db);
  check_ok(tn__database_open_schema("a.db", NULL, &later, &db)); /* nothing is done twice */
  check_ok(tn__database_number(db, &number, "SELECT count(*) FROM note", ""));
  assert_int_equal(number, 1);
  tn_database_release(db);
  check_fails(
      tn_database_open("a.db", NULL, &db), TN_UNSUPPORTED,
      "a.db: the database has schema 7, and this Tenon (0.2.0) knows those up to 5: use the Tenon that wrote it, "
      "or export the records with that one and import them into another file");
  assert_null(db);
}

static void a_step_that_fails_changes_nothing(void **state) {
  place *p = *state;
  const char *steps[16];
  const tn__database_schema later = later_schema(steps, "CREATE TABLE note (text TEXT) STRICT", "nonsense");
  tn_database *db;
  int64_t number = -1;
  tn_database_release(p->db);
  check_fails(tn__database_open_schema("a.db", NULL, &later, &p->db), TN_INTERNAL,
              "a.db: SQLite: near \"nonsense\": syntax error");
  check_ok(tn_database_open("a.db", NULL, &db));
  check_ok(tn__database_number(db, &number, "SELECT count(*) FROM sqlite_schema WHERE name = 'note'", ""));
  assert_int_equal(number, 0);
  tn_database_release(db);
}

/* A file's bytes, which must not change. */
static void expect_same(const char *path, const tn__file_map *before) {
  tn__file_map now;
  check_ok(tn__file_map_open(path, &now));
  assert_int_equal(now.size, before->size);
  assert_memory_equal(now.data, before->data, now.size);
  tn__file_map_close(&now);
}

static void expect_refused(const char *path, tn_status_code code, const char *words) {
  tn__file_map before;
  tn_database *db;
  char copy[64];
  check_ok(tn__file_map_open(path, &before));
  snprintf(copy, sizeof(copy), "%s.before", path);
  check_ok(tn__file_write_atomic(copy, &(tn__bytes){before.data, before.size}, 1, 0600));
  tn__file_map_close(&before);
  check_ok(tn__file_map_open(copy, &before));
  check_fails(tn_database_open(path, NULL, &db), code, words);
  expect_same(path, &before);
  tn__file_map_close(&before);
}

static void other_files_are_refused_and_left(void **state) {
  tn_database *db;
  static const char text[] = "This is a text that somebody wrote, and would like to keep.\n";
  check_ok(tn__file_write_atomic("text", &(tn__bytes){text, sizeof(text) - 1}, 1, 0644));
  expect_refused("text", TN_INVALID_ARGUMENT,
                 "text: this is no database of tuning records: name another file; this one was left as it is");
  run_sql("foreign.db", "CREATE TABLE bookmark (address TEXT); INSERT INTO bookmark VALUES ('here')");
  expect_refused("foreign.db", TN_INVALID_ARGUMENT,
                 "foreign.db: this is an SQLite database of another program, not one of tuning records: name another "
                 "file; this one was left as it is");
  run_sql("marked.db", "PRAGMA application_id = 77");
  expect_refused("marked.db", TN_INVALID_ARGUMENT,
                 "marked.db: this is an SQLite database of another program, not one of tuning records: name another "
                 "file; this one was left as it is");
  check_fails(tn_database_open(".", NULL, &db), TN_INVALID_ARGUMENT,
              ".: this is no regular file, and a database is one");
  check_fails(tn_database_open("", NULL, &db), TN_INVALID_ARGUMENT, "the name of the database's file is empty");
  check_fails(tn_database_open("text/a.db", NULL, &db), TN_IO, "text: cannot make the folder: Not a directory");
}

/* Damage in a page of the middle: nobody would notice before it is read. */
static void damaged_files_are_refused_and_left(void **state) {
  place *p = *state;
  char decisions[32];
  for (int i = 0; i < 200; i++) {
    snprintf(decisions, sizeof(decisions), "rows %d", i);
    const tn_record r = record_of(p, decisions, 1e-6 * (i + 1));
    add(p, &r, false);
  }
  tn_database_release(p->db);
  p->db = NULL;
  struct stat info;
  assert_int_equal(stat("a.db", &info), 0);
  FILE *file = fopen("a.db", "r+");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)(info.st_size / 4096 / 2 * 4096), SEEK_SET), 0);
  for (int i = 0; i < 512; i++) fputc(0x5a, file);
  fclose(file);
  tn__file_map before;
  tn_database *db;
  check_ok(tn__file_map_open("a.db", &before));
  check_ok(tn__file_write_atomic("before", &(tn__bytes){before.data, before.size}, 1, 0600));
  tn__file_map_close(&before);
  tn_status *status = tn_database_open("a.db", NULL, &db);
  assert_non_null(status);
  assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
  assert_int_equal(strncmp(tn_status_message(status), "a.db: the database is damaged (", 31), 0);
  assert_non_null(
      strstr(tn_status_message(status), "): move it away, and import what was exported before; it was left as it is"));
  tn_status_free(status);
  check_ok(tn__file_map_open("before", &before));
  expect_same("a.db", &before);
  tn__file_map_close(&before);
  /* Cut off. */
  assert_int_equal(truncate("a.db", 4096 * 3 + 100), 0);
  status = tn_database_open("a.db", NULL, &db);
  assert_non_null(status);
  assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
  tn_status_free(status);
}

static void files_are_found_and_made(void **state) {
  const tn_database_options reading = {.size = sizeof(reading), .read_only = true};
  tn_database *db;
  check_fails(tn_database_open("none.db", &reading, &db), TN_NOT_FOUND,
              "none.db: there is no such database of tuning records");
  assert_int_equal(access("none.db", F_OK), -1);
  check_ok(tn__file_write_atomic("empty.db", NULL, 0, 0644));
  check_fails(tn_database_open("empty.db", &reading, &db), TN_NOT_FOUND,
              "empty.db: the file is empty: there are no tuning records in it yet");
  check_ok(tn_database_open("empty.db", NULL, &db)); /* SQLite makes such a file before the first page */
  tn_database_release(db);
  check_ok(tn_database_open("new/folder/a.db", NULL, &db));
  assert_string_equal(tn_database_path(db), "new/folder/a.db");
  tn_database_release(db);
  const tn_database_options synced = {.size = sizeof(synced), .synced = true};
  int64_t level = 0;
  check_ok(tn_database_open("new/folder/a.db", &synced, &db));
  check_ok(tn__database_number(db, &level, "PRAGMA synchronous", ""));
  assert_int_equal(level, 2); /* FULL: docs of SQLite */
  tn_database_release(db);
  check_ok(tn_database_open(":memory:", NULL, &db));
  tn_database_release(db);
  assert_int_equal(access(":memory:", F_OK), 0);
  assert_int_equal(setenv("TENON_TUNE_DB", "given.db", 1), 0);
  check_ok(tn_database_open(NULL, NULL, &db));
  assert_string_equal(tn_database_path(db), "given.db");
  tn_database_release(db);
  assert_int_equal(setenv("TENON_TUNE_DB", "", 1), 0);
  assert_int_equal(setenv("TENON_CACHE_DIR", "cache", 1), 0);
  check_ok(tn_database_open(NULL, NULL, &db));
  assert_string_equal(tn_database_path(db), "cache/tuning.db");
  tn_database_release(db);
  assert_int_equal(unsetenv("TENON_CACHE_DIR") + unsetenv("XDG_CACHE_HOME") + unsetenv("HOME"), 0);
  check_fails(tn_database_open(NULL, NULL, &db), TN_NOT_FOUND,
              "there is no folder to keep tuning records in: name a file, or set TENON_TUNE_DB to one");
}

static void a_locked_database_has_its_own_words(void **state) {
  const place *p = *state;
  const tn_database_options short_wait = {.size = sizeof(short_wait), .wait_seconds = 0.05},
                            no_wait = {.size = sizeof(no_wait), .wait_seconds = -1},
                            reading = {.size = sizeof(reading), .read_only = true};
  tn_database *db, *reader;
  sqlite3 *other;
  const tn_record r = record_of(p, "rows 1", 1e-6);
  check_ok(tn_database_open("a.db", &short_wait, &db));
  assert_int_equal(sqlite3_open("a.db", &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  check_fails(tn_database_add(db, &r, false, NULL), TN_FAILED_PRECONDITION,
              "a.db: the database is locked: another process has been writing for more than 0.05 s; try again when it "
              "is done (nothing was written)");
  tn_database_release(db);
  check_ok(tn_database_open("a.db", &no_wait, &db)); /* opening and reading do not wait for a writer */
  assert_string_equal(told_by(db, NULL), "");
  check_fails(tn_database_add(db, &r, false, NULL), TN_FAILED_PRECONDITION,
              "a.db: the database is locked: another process has been writing for more than 0 s; try again when it is "
              "done (nothing was written)");
  assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  check_ok(tn_database_add(db, &r, false, NULL));
  tn_database_release(db);
  check_ok(tn_database_open("a.db", &reading, &reader));
  check_fails(tn_database_add(reader, &r, false, NULL), TN_FAILED_PRECONDITION,
              "a.db: the database was opened to be read only");
  tn_database_release(reader);
}

/* ---- other files ------------------------------------------------------------------------------------------------- */

/* Several measurements, an open task, texts with all that JSON escapes. */
static void fill_with_odd_texts(const place *p) {
  tn_record r =
      failure_of(p, "rows 6", TN_TRIAL_HOST_COMPILE, "line 1\n\"quoted\" \\ \t\x01 \xc3\xa9 \xf0\x9f\x98\x80");
  tn_record again = record_of(p, "rows 1", 5e-6);
  tn_record trace = record_of(p, "", 0.125);
  fill(p);
  trace.rule = trace.decisions = NULL;
  add(p, &r, false);
  again.when = 900.5;
  add(p, &again, true);
  add(p, &trace, false);
}

static void export_to(tn_database *db, char **text) { check_ok(tn_database_export_text(db, NULL, text, NULL)); }

static void merging_takes_over_all_once(void **state) {
  const place *p = *state;
  tn_database *other;
  tn_database_change change = {.size = sizeof(change)};
  fill_with_odd_texts(p);
  check_ok(tn_database_open("b.db", NULL, &other));
  check_ok(tn_database_merge(other, "a.db", &change));
  assert_int_equal(change.tasks, 1);
  assert_int_equal(change.records, 7);
  assert_int_equal(change.measurements, 0);
  assert_int_equal(change.known, 0);
  char *here, *there;
  export_to(p->db, &here);
  export_to(other, &there);
  assert_string_equal(here, there);
  free(here);
  free(there);
  check_ok(tn_database_merge(other, "a.db", &change));
  assert_int_equal(change.tasks + change.records + change.measurements, 0);
  assert_int_equal(change.known, 7);
  const tn_record again = at(record_of(p, "rows 2", 4e-6), 5000), fresh = record_of(p, "rows 10", 4e-6);
  add(p, &again, true);
  add(p, &fresh, true);
  check_ok(tn_database_merge(other, "a.db", &change));
  assert_int_equal(change.records, 1);
  assert_int_equal(change.measurements, 1);
  assert_int_equal(change.known, 6);
  tn_database_release(other);
  check_fails(tn_database_merge(p->db, "./a.db", NULL), TN_INVALID_ARGUMENT,
              "./a.db: the database cannot be merged into itself");
  check_fails(tn_database_merge(p->db, "c.db", NULL), TN_NOT_FOUND,
              "c.db: there is no such database of tuning records");
}

static void lines_come_back(void **state) {
  const place *p = *state;
  tn_database *other;
  tn_database_change change = {.size = sizeof(change)};
  fill_with_odd_texts(p);
  check_ok(tn_database_export(p->db, NULL, "a.jsonl", &change));
  assert_int_equal(change.tasks, 1);
  assert_int_equal(change.records, 7);
  check_ok(tn_database_open("b.db", NULL, &other));
  check_ok(tn_database_import(other, "a.jsonl", &change));
  assert_int_equal(change.tasks, 1);
  assert_int_equal(change.records, 7);
  assert_int_equal(change.unknown_fields, 0);
  char origins[200], *here, *there;
  snprintf(origins, sizeof(origins), "UPDATE record SET origin = %d", TN_ORIGIN_IMPORT);
  assert_int_equal(sqlite3_exec(p->db->handle, origins, NULL, NULL, NULL), SQLITE_OK);
  export_to(p->db, &here);
  export_to(other, &there);
  assert_string_equal(here, there);
  free(here);
  free(there);
  check_ok(tn_database_import(other, "a.jsonl", &change));
  assert_int_equal(change.known, 7);
  assert_int_equal(change.tasks + change.records + change.measurements, 0);
  tn_database_release(other);
}

static void write_text(const char *path, const char *text) {
  check_ok(tn__file_write_atomic(path, &(tn__bytes){text, strlen(text)}, 1, 0644));
}

/* A good line, in which `old` is replaced. */
static void expect_line_refused(const place *p, const char *lines, const char *old, const char *fresh,
                                const char *words) {
  char text[4096];
  const char *place_of = strstr(lines, old);
  assert_non_null(place_of);
  snprintf(text, sizeof(text), "%.*s%s%s", (int)(place_of - lines), lines, fresh, place_of + strlen(old));
  write_text("wrong.jsonl", text);
  check_fails(tn_database_import(p->db, "wrong.jsonl", NULL), TN_INVALID_ARGUMENT, words);
  assert_string_equal(told_by(p->db, NULL), "");
}

static void wrong_lines_are_refused(void **state) {
  const place *p = *state;
  const tn_record r = record_of(p, "rows 1", 3e-6);
  add(p, &r, false);
  char *lines, text[4096];
  export_to(p->db, &lines);
  sqlite3_exec(p->db->handle, "DELETE FROM record", NULL, NULL, NULL);
  static const struct {
    const char *old, *fresh, *words;
  } cases[] = {
      {"{\"format\": 1, \"kind\": \"record\"", "[\"format\"",
       "wrong.jsonl:2: column 18: expected a comma or a closing bracket"},
      {"\"kind\": \"record\"", "\"kind\": \"recrod\"",
       "wrong.jsonl:2: field \"kind\": \"recrod\" is neither \"task\" nor \"record\""},
      {"\"kind\": \"record\", ", "", "wrong.jsonl:2: field \"kind\": it is missing"},
      {"\"median\": 3e-06", "\"median\": \"3e-06\"", "wrong.jsonl:2: field \"median\": it is a text, and not a number"},
      {"\"median\": 3e-06", "\"median\": -3e-06",
       "wrong.jsonl:2: field \"median\": -3e-06 is no such number: it is 0 or more"},
      {"\"median\": 3e-06", "\"median\": 1e999", "wrong.jsonl:2: column 361: the number is too large"},
      {"\"calls\": 100", "\"calls\": 1.5",
       "wrong.jsonl:2: field \"calls\": 1.5 is no whole number from 0 to 9007199254740992"},
      {"\"verified\": true", "\"verified\": 1",
       "wrong.jsonl:2: field \"verified\": it is a number, and not true or false"},
      {"\"error\": \"ok\"", "\"error\": \"fine\"",
       "wrong.jsonl:2: field \"error\": \"fine\" is none of \"ok\", \"instantiation\", \"host compile\", \"device "
       "compile\", "
       "\"run time\", \"wrong answer\", \"build timeout\", \"run timeout\", \"worker lost\", \"cancelled\""},
      {"\"origin\": \"search\"", "\"origin\": \"\"",
       "wrong.jsonl:2: field \"origin\": \"\" is none of \"static\", \"search\", \"exhaustive\", \"import\""},
      {"\"machine\": \"zen 4\"", "\"machine\": \"\"", "wrong.jsonl:2: field \"machine\": it is missing"},
      {"\"machine\": \"zen 4\"", "\"machine\": \"a\", \"machine\": \"b\"",
       "wrong.jsonl:2: column 134: the name is there twice"},
      {"\"when\": 1000.0", "\"when\": 0", "wrong.jsonl:2: field \"when\": it is 0, where a time since 1970 is wanted"},
      {"\"threads\": 2", "\"threads\": 3",
       "wrong.jsonl:1: field \"task\": it is not the hash of what the line says of the task"},
      {"\"threads\": 2", "\"threads\": 0", "wrong.jsonl:1: field \"threads\": 0, where a kernel runs on at least one"},
      {"\"M\": 128", "\"M\": \"128\"", "wrong.jsonl:1: field \"dims\": a dimension's size is a number"},
      {"\"format\": 1", "\"format\": 0", "wrong.jsonl:1: field \"format\": there is no format 0"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    expect_line_refused(p, lines, cases[i].old, cases[i].fresh, cases[i].words);
  snprintf(text, sizeof(text), "%s\n\n[1]\n", lines);
  write_text("wrong.jsonl", text);
  check_fails(tn_database_import(p->db, "wrong.jsonl", NULL), TN_INVALID_ARGUMENT,
              "wrong.jsonl:5: it is a list, and not an object");
  assert_string_equal(told_by(p->db, NULL), ""); /* the good lines before it, too */
  /* Without the task, and where nobody has it. */
  tn_database *other;
  check_ok(tn_database_open("b.db", NULL, &other));
  write_text("wrong.jsonl", strchr(lines, '\n') + 1);
  snprintf(text, sizeof(text),
           "wrong.jsonl:1: field \"task\": there is no task %s in b.db: add the task before its records", p->task);
  check_fails(tn_database_import(other, "wrong.jsonl", NULL), TN_NOT_FOUND, text);
  tn_database_release(other);
  check_fails(tn_database_import(p->db, "none", NULL), TN_NOT_FOUND, "none: cannot open: No such file or directory");
  free(lines);
}

static void unknown_fields_and_newer_lines_are_told(void **state) {
  const place *p = *state;
  const tn_record r = record_of(p, "rows 1", 3e-6);
  tn_database_change change = {.size = sizeof(change)};
  add(p, &r, false);
  char *lines, text[4096];
  export_to(p->db, &lines);
  sqlite3_exec(p->db->handle, "DELETE FROM record", NULL, NULL, NULL);
  const char *brace = strstr(lines, "{\"when\"");
  snprintf(text, sizeof(text),
           "%.*s{\"energy\": 3, \"phases\": [{\"a\": null}], %s{\"format\": 2, \"strange\": []}\r\n \t\n",
           (int)(brace - lines), lines, brace + 1);
  write_text("a.jsonl", text);
  check_ok(tn_database_import(p->db, "a.jsonl", &change));
  assert_int_equal(change.unknown_fields, 2);
  assert_int_equal(change.newer, 1);
  assert_int_equal(change.records, 1);
  assert_string_equal(told_by(p->db, NULL), "rows 1 3e-06 ok verified 1\n");
  free(lines);
}

static void the_best_are_written_for_the_compiler(void **state) {
  const place *p = *state;
  tn_tune_task other = task_named("attention\nof a model"), empty = task_named("empty");
  char hash[TN_TASK_HASH_BYTES], expected[2000];
  tn_database_change change = {.size = sizeof(change)};
  other.declaration = "kernel attention(...)";
  other.results_read = false;
  other.dim_count = 0;
  empty.declaration = "kernel empty(...)";
  check_ok(tn_database_add_task(p->db, &empty, NULL));
  check_ok(tn_database_add_task(p->db, &other, hash));
  fill(p);
  tn_record r = record_of(p, "", 7.5e-6), no_trace = record_of(p, "rows 2", 1e-6);
  r.task = no_trace.task = hash;
  r.rule = r.decisions = no_trace.trace = NULL;
  r.trace = "trace 1 77\nend";
  add(p, &r, false);
  add(p, &no_trace, false); /* faster, and of no use to who has no rule */
  const tn_record gemm = record_of(p, "rows 1", 3e-6), unverified = record_of(p, "rows 2", 1e-6);
  check_ok(tn_database_judge(p->db, &r, true, 0.9, 9));
  check_ok(tn_database_judge(p->db, &no_trace, true, 0.5, 9));
  check_ok(tn_database_save_best(p->db, NULL, "zen 4", "best.txt", &change));
  assert_int_equal(change.tasks, 1); /* gemm was never compared with its static choice */
  check_ok(tn_database_judge(p->db, &gemm, true, 0.8, 9));
  check_ok(tn_database_judge(p->db, &unverified, true, 0.3, 9));
  check_ok(tn_database_save_best(p->db, NULL, "zen 4", "best.txt", &change));
  assert_int_equal(change.tasks, 2);
  assert_int_equal(change.without_trace, 1);
  snprintf(expected, sizeof(expected),
           "tenon schedules 1\n\n"
           "# attention\\nof a model\n"
           "target x86-64-v4 threads 2 median 7.5e-06 tenon 0.2.0 machine zen 4\n"
           "task %s\n"
           "trace 1 77\nend\n\n"
           "# gemm\n"
           "target x86-64-v4 threads 2 median 3e-06 tenon 0.2.0 machine zen 4\n"
           "task %s\n"
           "results read\n"
           "size 128 M\n"
           "size 64 N\n"
           "trace 1 9221c2e344f99d29\nsplit \"C.i0\" 0 8\nend\n",
           hash, p->task);
  tn__file_map map;
  check_ok(tn__file_map_open("best.txt", &map));
  assert_int_equal(map.size, strlen(expected));
  assert_memory_equal(map.data, expected, map.size);
  tn__file_map_close(&map);
  check_ok(tn_database_save_best(p->db, FILTER(.target = "x86-64-v3"), NULL, "best.txt", &change));
  assert_int_equal(change.tasks, 0);
  check_fails(tn_database_save_best(p->db, NULL, NULL, "a.db", NULL), TN_INVALID_ARGUMENT,
              "a.db: what is written would take the place of the database");
  check_fails(tn_database_save_best(p->db, NULL, NULL, "none/best.txt", NULL), TN_NOT_FOUND,
              "none/best.txt: cannot write: there is no folder none");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void read_json(tn__arena *arena, void *user) {
  const char *const *text = user;
  const tn__json *value = tn__json_read(arena, text[0], strlen(text[0]));
  if (text[1] == NULL) return;
  assert_int_equal(value->kind, TN__JSON_TEXT);
  assert_string_equal(value->text, text[1]);
}

static void json_is_read_strictly(void **state) {
  static const char *const good[][2] = {{"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t"},
                                        {"\"\\u00e9\\uD83D\\ude00\xc3\xa9\"", "\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9"},
                                        {" [1, -0.5e+3, 0, {}, [], null, true, false] ", NULL},
                                        {"[[[[[[[[]]]]]]]]", NULL}};
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
    const char *text[] = {good[i][0], good[i][1]};
    check_ok(tn__with_arena(NULL, read_json, text));
  }
  static const char *const bad[][2] = {{"", "column 1: the line ends where a value is expected"},
                                       {"tru", "column 1: expected a value"},
                                       {"1 2", "column 3: something follows the value"},
                                       {"01", "column 2: something follows the value"},
                                       {"1.", "column 3: expected a digit"},
                                       {"-", "column 2: expected a digit"},
                                       {"1e", "column 3: expected a digit"},
                                       {"[1", "column 3: expected a comma or a closing bracket"},
                                       {"[1,]", "column 4: expected a value"},
                                       {"{\"a\" 1}", "column 6: expected a colon"},
                                       {"{a: 1}", "column 2: expected a name in quotes"},
                                       {"{\"a\": 1", "column 8: expected a comma or a closing brace"},
                                       {"\"a", "column 2: a text does not end"},
                                       {"\"a\\\"", "column 2: a text does not end"},
                                       {"\"\\x\"", "column 3: there is no such escape in a text"},
                                       {"\"\\u12\"", "column 6: expected four hexadecimal digits"},
                                       {"\"\\u0000\"", "column 8: a text holds a NUL"},
                                       {"\"\\ud800x\"", "column 8: expected the second half of a surrogate pair"},
                                       {"\"\\udc00\"", "column 8: expected the first half of a surrogate pair"},
                                       {"\"\x01\"", "column 2: a text holds a control character"},
                                       {"\"\xff\"", "column 2: a text is not UTF-8"},
                                       {"[[[[[[[[[]]]]]]]]]", "column 10: the values are nested too deeply"}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    const char *text[] = {bad[i][0], NULL};
    check_fails(tn__with_arena(NULL, read_json, text), TN_INVALID_ARGUMENT, bad[i][1]);
  }
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

static int64_t allocations_left = -1; /* then one fails; below 0: none */

static bool fails(void) { return allocations_left >= 0 && allocations_left-- == 0; }

void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size) { return fails() ? NULL : __real_realloc(pointer, size); }
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }

/* SQLite's own. */
static sqlite3_mem_methods usual_memory;
static void *sqlite_malloc(int size) { return fails() ? NULL : usual_memory.xMalloc(size); }
static void *sqlite_realloc(void *pointer, int size) { return fails() ? NULL : usual_memory.xRealloc(pointer, size); }

static bool ignore_record(void *user, const tn_record *record) { return user == NULL && record != NULL; }
static bool ignore_task(void *user, const tn_task_records *task) { return user == NULL && task != NULL; }

static tn_status *use_everything(tn_database *db, const place *p) {
  const tn_tune_task task = task_named("gemm");
  const tn_record r = record_of(p, "rows 1", 1e-6), again = at(record_of(p, "rows 1", 3e-6), 2000),
                  failed = failure_of(p, "rows 2", TN_TRIAL_RUN_TIME, "signal 11");
  const tn_record *const both[] = {&again, &failed};
  const tn_prune_options pruning = {.size = sizeof(pruning), .keep = 1};
  tn_record *best;
  bool known;
  tn_status *status = tn_database_add_task(db, &task, NULL);
  if (status == NULL) status = tn_database_add(db, &r, false, NULL);
  if (status == NULL) status = tn_database_add_many(db, both, 2, true, NULL);
  if (status == NULL) status = tn_database_has(db, &r, &known, NULL);
  if (status == NULL) status = tn_database_query(db, NULL, ignore_record, NULL, NULL);
  if (status == NULL) status = tn_database_tasks(db, NULL, ignore_task, NULL);
  if (status == NULL) status = tn_database_best(db, p->task, "zen 4", &best);
  if (status == NULL) tn_record_release(best);
  if (status == NULL) status = tn_database_export(db, NULL, "all.jsonl", NULL);
  if (status == NULL) status = tn_database_save_best(db, NULL, NULL, "best.txt", NULL);
  if (status == NULL) status = tn_database_import(db, "all.jsonl", NULL);
  if (status == NULL) status = tn_database_merge(db, "a.db", NULL);
  if (status == NULL) status = tn_database_prune(db, &pruning, NULL);
  return status;
}

/* One allocation after the other fails, once: that is told, and the database is sound. */
static void without_memory_it_says_so(void **state) {
  const place *p = *state;
  int64_t failures = 0;
  bool done = false;
  fill(p);
  for (int64_t n = 0; !done; n += 1 + n / 10) {
    tn_database *db, *after;
    allocations_left = n;
    tn_status *status = tn_database_open("b.db", NULL, &db);
    if (status == NULL) status = use_everything(db, p);
    done = allocations_left >= 0;
    allocations_left = -1;
    tn_database_release(db);
    if (status != NULL && tn_status_code_of(status) != TN_OUT_OF_MEMORY)
      fail_msg("allocation %lld: %s", (long long)n, tn_status_message(status));
    failures += status != NULL;
    tn_status_free(status);
    check_ok(tn_database_open("b.db", NULL, &after));
    tn_database_release(after);
    assert_int_equal(unlink("b.db"), 0);
  }
  assert_true(failures > 30);
}

static void prepare_memory(void) {
  sqlite3_mem_methods failing;
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual_memory);
  failing = usual_memory;
  failing.xMalloc = sqlite_malloc;
  failing.xRealloc = sqlite_realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}

int main(void) {
  prepare_memory();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(a_task_has_an_identity),
                                     TEST(a_task_is_there_once),
                                     TEST(wrong_tasks_are_refused),
                                     TEST(a_record_comes_back),
                                     TEST(a_candidate_is_measured_once),
                                     TEST(measurements_add_up),
                                     TEST(a_cancelled_trial_is_none),
                                     TEST(wrong_records_are_refused),
                                     TEST(many_are_all_or_none),
                                     TEST(filters_choose),
                                     TEST(callbacks_ask_and_do_not_write),
                                     TEST(the_best_is_of_this_machine_first),
                                     TEST(tasks_have_statistics),
                                     TEST(failures_are_pruned),
                                     TEST(the_old_and_the_many_are_pruned),
                                     TEST(other_tasks_are_pruned),
                                     TEST(newer_records_are_kept_and_passed_over),
                                     TEST(what_was_spent_adds_up),
                                     TEST(records_of_schema_1_stay),
                                     TEST(measurements_are_told),
                                     TEST(older_schemas_are_brought_up),
                                     TEST(records_of_others_are_unproven),
                                     TEST(imports_of_schema_3_are_unproven),
                                     TEST(times_that_cannot_be_are_refused),
                                     TEST(the_newest_verdict_counts),
                                     TEST(leases_are_exclusive_and_expire),
                                     TEST(a_step_that_fails_changes_nothing),
                                     TEST(other_files_are_refused_and_left),
                                     TEST(damaged_files_are_refused_and_left),
                                     TEST(files_are_found_and_made),
                                     TEST(a_locked_database_has_its_own_words),
                                     TEST(merging_takes_over_all_once),
                                     TEST(lines_come_back),
                                     TEST(wrong_lines_are_refused),
                                     TEST(unknown_fields_and_newer_lines_are_told),
                                     TEST(the_best_are_written_for_the_compiler),
                                     TEST(without_memory_it_says_so),
                                     cmocka_unit_test(json_is_read_strictly)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
