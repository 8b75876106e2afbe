/* Calls the public functions of libtenon_tune with NULL and with nonsensical arguments. */
#include "misuse/misuse.h"
#include "tenon/database.h"
#include "tenon/tune.h"

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static void start_build(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {}
static void start_run(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                      const tn_build_result *build) {}
static const tn_builder_functions builder_functions = {.size = sizeof builder_functions, .start = start_build};
static const tn_runner_functions runner_functions = {.size = sizeof runner_functions, .start = start_run};
static void build_now(void *self, const tn_build_input *input, tn_build_result *result) {}
static void run_now(void *self, const tn_build_input *input, const tn_build_result *build, tn_run_result *result) {}
static const tn_thread_builder_functions thread_builder_functions = {.size = sizeof thread_builder_functions,
                                                                     .build = build_now};
static const tn_thread_runner_functions thread_runner_functions = {.size = sizeof thread_runner_functions,
                                                                   .run = run_now};

static tn_builder *builder(void) {
  tn_builder *b;
  need(tn_builder_create(&builder_functions, NULL, NULL, &b));
  return b;
}

static tn_runner *runner(void) {
  tn_runner *r;
  need(tn_runner_create(&runner_functions, NULL, NULL, &r));
  return r;
}

static tn_runner *const *one_runner(void) {
  static tn_runner *list[1];
  list[0] = runner();
  return list;
}

static tn_source_answer nothing(void *user, tn_build_input *input) { return TN_SOURCE_END; }
static void told(void *user, const tn_build_input *input, const tn_measure_result *result) {}
static const tn_measure_source source = {nothing, told, NULL};

static tn_measurer *measurer(void) {
  tn_measurer *m;
  need(tn_measurer_create(builder(), one_runner(), 1, &source, NULL, &m));
  return m;
}

static tn_tuner *tuner(void) {
  tn_tuner *t;
  need(tn_tuner_create(NULL, &t));
  return t;
}

static tn_simulator *simulator(void) {
  tn_simulator *s;
  need(tn_simulator_create(1, &s));
  return s;
}

static const tn_tune_task task = {
    .size = sizeof task, .name = "twice", .declaration = text, .target = "x86-64-v2", .threads = 1};
static char hash[TN_TASK_HASH_BYTES], a_hash[TN_TASK_HASH_BYTES];
static const char *const one_hash[1] = {a_hash};

static tn_database *database(void) {
  static tn_database *d;
  if (d == NULL) need(tn_database_open(place("records.db"), NULL, &d));
  need(tn_database_add_task(d, &task, a_hash));
  return d;
}

static const tn_record *record(void) {
  static tn_record r;
  need(tn_tune_task_hash(&task, a_hash));
  r = (tn_record){
      .size = sizeof r, .task = a_hash, .machine = "m", .trace = "trace 1 0\nend\n", .median = 1e-3, .calls = 1};
  return &r;
}

static const tn_record *const *one_record(void) {
  static const tn_record *list[1];
  list[0] = record();
  return list;
}

static const tn_build_input build_input = {.id = 1, .task = &task, .schedule = ""};
static const tn_build_result build_result = {.message = ""};
static const tn_run_result run_result = {.message = "", .median = 1};
static const tn_time_distribution times = {.mean = 1};
static const tn_worker_options workers = {.size = sizeof workers};
static const tn_thread_options threads = {.size = sizeof threads};
static void on_build(void *user, const tn_build_input *input, const tn_build_result *result) {}
static void on_run(void *user, const tn_build_input *input, const tn_run_result *result) {}
static bool on_record(void *user, const tn_record *r) { return true; }
static bool on_task(void *user, const tn_task_records *t) { return true; }

#include "calls_tune.inc"

/* ---- misuse ------------------------------------------------------------------------------------------------------ */

static void misuse_all(void) {
  tn_builder *b;
  tn_runner *r;
  tn_measurer *m;
  tn_tuner *t;
  tn_database *d;
  tn_record *best;
  double total;
  tn_tuner_view view = {0};
  tn_task_view kernel = {.size = sizeof kernel};
  static tn_runner *const no_runner[1] = {NULL};
  static const tn_record *const no_record[1] = {NULL};
  static const char *const no_text[1] = {NULL};
  static const tn_measure_source empty = {NULL, NULL, NULL};
  REFUSES(tn_builder_create(&(tn_builder_functions){.size = sizeof builder_functions}, NULL, NULL, &b), "start");
  REFUSES(tn_builder_create(&(tn_builder_functions){.size = 3}, NULL, NULL, &b), "size is 3");
  REFUSES(tn_builder_create(&builder_functions, NULL,
                            &(tn_station_options){.size = sizeof(tn_station_options), .slots = -1}, &b),
          "slots");
  REFUSES(tn_runner_create(&(tn_runner_functions){.size = sizeof runner_functions}, NULL, NULL, &r), "start");
  REFUSES(tn_worker_builder_create(&workers, &b), "loop");
  REFUSES(tn_worker_runner_create(&workers, NULL, &r), "loop");
  REFUSES(tn_thread_builder_create(&thread_builder_functions, NULL, &threads, &b), "loop");
  REFUSES(tn_thread_runner_create(&thread_runner_functions, NULL, &threads, &r), "loop");
  REFUSES(tn_measurer_create(builder(), NULL, 1, &source, NULL, &m), "NULL");
  REFUSES(tn_measurer_create(builder(), no_runner, 1, &source, NULL, &m), "NULL");
  REFUSES(tn_measurer_create(builder(), one_runner(), 0, &source, NULL, &m), "runner");
  REFUSES(tn_measurer_create(builder(), one_runner(), -1, &source, NULL, &m), "runners, not -1");
  REFUSES(tn_measurer_create(builder(), one_runner(), 1, &empty, NULL, &m), "both functions");
  REFUSES(tn_tuner_create(&(tn_tuner_options){.size = sizeof(tn_tuner_options), .trials = -1}, &t), "trials");
  REFUSES(tn_tuner_create(&(tn_tuner_options){.size = 7}, &t), "size is 7");
  REFUSES(tn_tuner_run(tuner()), "");
  REFUSES(tn_tuner_look(tuner(), &view), "size is 0");
  REFUSES(tn_tuner_look_at(tuner(), 0, &kernel), "0");
  REFUSES(tn_tuner_look_at(tuner(), -1, &kernel), "-1");
  REFUSES(tn_tuner_add_model(tuner(), place("none.onnx"), NULL, 0, NULL, NULL, NULL), "none.onnx");
  REFUSES(tn_database_open("/", NULL, &d), "/");
  REFUSES(tn_database_open(place("none.db"),
                           &(tn_database_options){.size = sizeof(tn_database_options), .read_only = true}, &d),
          "none.db");
  REFUSES(tn_database_add_many(database(), no_record, 1, false, NULL), "NULL");
  REFUSES(tn_database_add_many(database(), one_record(), -1, false, NULL), "-1");
  REFUSES(tn_database_spend(database(), no_text, 1, "m", 1, &total), "NULL");
  REFUSES(tn_database_spend(database(), one_hash, -1, "m", 1, &total), "-1");
  REFUSES(tn_tune_task_hash(&(tn_tune_task){.size = sizeof task}, hash), "it is missing");
  REFUSES(tn_tune_task_hash(&(tn_tune_task){.size = 0}, hash), "size is 0");
  REFUSES(tn_database_best(database(), NULL, "m", &best), "NULL");
  HOLDS(strcmp(tn_trial_error_name((tn_trial_error)-1), "unknown") == 0);
  HOLDS(strcmp(tn_trial_error_name((tn_trial_error)1000), "unknown") == 0);
  HOLDS(!tn_builder_cancel(builder(), 12345));
  HOLDS((tn_builder_finish(builder(), 12345, &build_result), true));
}

int main(void) {
  begin();
  size_t count = sizeof rows / sizeof rows[0];
  int wrong = check_rows(rows, count);
  misuse_all();
  return finish(wrong, count);
}
