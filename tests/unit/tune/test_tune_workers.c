/* Builders and runners of worker processes: what they make of candidates, and what becomes of those that end them. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "te/text.h"
#include "tenon/tune.h"
#include "tune/message/message.h"
#include "unit/check.h"

static const char gemm[] =
    "kernel gemm(A: f32[50, 70], B: f32[70, 90]) -> C: f32[50, 90] {\n"
    "  C[i: 50, j: 90] = sum(k: 70) A[i, k] * B[k, j]\n"
    "}\n";

static tn_tune_task task_of(const char *name) {
  return (tn_tune_task){
      .size = sizeof(tn_tune_task), .name = name, .declaration = gemm, .target = "native", .threads = 1};
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct planning {
  const tn_tune_task *task;
  int64_t other;                 /* -1: the static choice; otherwise one of those that decide one thing differently */
  char rule[64], schedule[2048]; /* rule "": the schedule is a trace */
} planning;

/* Changes one decision, so that the point can be. */
static void choose_other(const tn__sketch *k, int64_t other, int64_t *values) {
  while (other >= 0) {
    int64_t tried = 0;
    for (int d = 0; d < k->decision_count && other >= 0; d++) {
      int64_t chosen = values[d];
      for (int i = 0; i < k->decisions[d].count && other >= 0; i++) {
        values[d] = k->decisions[d].choices[i];
        if (tn__sketch_cost(k, values, NULL) < (double)INFINITY) tried++, other--;
      }
      if (other >= 0) values[d] = chosen;
    }
    assert_true(tried > 0);
  }
}

static void plan_body(tn__arena *arena, void *user) {
  planning *p = user;
  tn__te_source *source;
  tn__te *te;
  tn__target target;
  const tn__schedule_options options = {.threads = p->task->threads};
  tn__check(arena->escape, tn__target_parse(p->task->target, &target));
  tn__check(arena->escape, tn__te_parse(arena, "task", p->task->declaration, strlen(p->task->declaration), &source));
  tn__check(arena->escape, tn__te_declare(source, 0, NULL, 0, tn__ir_create(arena), &te));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);
  const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  int64_t values[TN__MAX_DECISIONS];
  memcpy(values, plan->values, sizeof values);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  if (plan->sketch != NULL) {
    choose_other(plan->sketch, p->other, values);
    tn__sketch_print(plan->sketch, values, &text);
    snprintf(p->rule, sizeof p->rule, "%s", tn__sketch_name(plan->sketch));
  } else {
    tn__sched_trace_print(plan->schedule, &text);
  }
  assert_true(text.length < sizeof p->schedule);
  snprintf(p->schedule, sizeof p->schedule, "%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

/* ---- a bench of both --------------------------------------------------------------------------------------------- */

typedef struct bench {
  uv_loop_t *loop; /* on the heap, as a test that fails leaves it */
  tn_builder *builder;
  tn_runner *runner;
  int callbacks;
} bench;

/* A trial from its candidate to its end. */
typedef struct trial {
  bench *bench;
  planning plan;
  tn_build_input input;
  tn_trial_handle handle; /* of the build */
  tn_build_result build;  /* its texts are copies */
  tn_run_result run;
  char *copies[8]; /* of what lives for a callback */
  int copy_count, built, ran;
} trial;

static char *copy(trial *t, const void *data, size_t size) {
  char *made = malloc(size + 1);
  assert_non_null(made);
  assert_true(t->copy_count < 8);
  if (size > 0) memcpy(made, data, size);
  made[size] = 0;
  t->copies[t->copy_count++] = made;
  return made;
}

static void on_run(void *user, const tn_build_input *input, const tn_run_result *result) {
  trial *t = user;
  assert_ptr_equal(input->task, t->input.task);
  t->run = *result;
  t->run.message = copy(t, result->message, strlen(result->message));
  t->ran++;
  t->bench->callbacks++;
}

static void on_build(void *user, const tn_build_input *input, const tn_build_result *result) {
  trial *t = user;
  t->build = *result;
  t->build.message = copy(t, result->message, strlen(result->message));
  t->build.trace = copy(t, result->trace, result->trace == NULL ? 0 : strlen(result->trace));
  t->build.code = copy(t, result->code, result->code_size);
  t->built++;
  t->bench->callbacks++;
  if (result->error == TN_TRIAL_OK && t->bench->runner != NULL)
    check_ok(tn_runner_submit(t->bench->runner, input, &t->build, on_run, t, NULL));
}

static void free_trial(trial *t) {
  for (int i = 0; i < t->copy_count; i++) free(t->copies[i]);
}

/* A limit beyond any candidate that ends, on however busy a machine. */
static const double long_time = 10000;

static void open_bench_with(bench *b, const char *program, int builders, double wall_seconds, double cpu_seconds) {
  *b = (bench){.loop = malloc(sizeof(uv_loop_t))};
  assert_int_equal(uv_loop_init(b->loop), 0);
  tn_worker_options options = {.size = sizeof options,
                               .loop = b->loop,
                               .program = program,
                               .workers = builders,
                               .waiting = 100,
                               .wall_seconds = wall_seconds,
                               .cpu_seconds = cpu_seconds,
                               .memory_bytes = (uint64_t)256 << 20};
  check_ok(tn_worker_builder_create(&options, &b->builder));
  options.workers = 1;
  const tn_timing_options timing = {.size = sizeof timing, .least_seconds = 0.002, .warm_seconds = 0.001};
  check_ok(tn_worker_runner_create(&options, &timing, &b->runner));
}

static void open_bench(bench *b, const char *program, int builders) {
  open_bench_with(b, program, builders, long_time, 0);
}

static void close_bench(bench *b) {
  tn_builder_release(b->builder);
  tn_runner_release(b->runner);
  uv_run(b->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(b->loop), 0);
  free(b->loop);
}

static void plan(trial *t, bench *b, const tn_tune_task *task, int64_t other) {
  *t = (trial){.bench = b, .plan = {.task = task, .other = other}};
  check_ok(tn__with_arena(NULL, plan_body, &t->plan));
  t->input = (tn_build_input){.id = 1, .task = task, .schedule = t->plan.schedule};
  if (t->plan.rule[0] != 0) t->input.rule = t->plan.rule;
}

static void submit(bench *b, trial *t, const tn_tune_task *task, int64_t other) {
  plan(t, b, task, other);
  check_ok(tn_builder_submit(b->builder, &t->input, on_build, t, &t->handle));
}

/* Until the trial has its end. */
static void wait_for(bench *b, const trial *t) {
  while (t->ran == 0 && !(t->built && t->build.error != TN_TRIAL_OK)) assert_true(uv_run(b->loop, UV_RUN_ONCE));
}

static tn_worker_statistics builder_statistics(const bench *b) {
  tn_worker_statistics s = {.size = sizeof s};
  check_ok(tn_worker_builder_statistics(b->builder, &s));
  return s;
}

static tn_worker_statistics runner_statistics(const bench *b) {
  tn_worker_statistics s = {.size = sizeof s};
  check_ok(tn_worker_runner_statistics(b->runner, &s));
  return s;
}

static void check_good(const trial *t) {
  if (t->build.error != TN_TRIAL_OK) fail_msg("%s", t->build.message);
  assert_int_equal(t->ran, 1);
  if (t->run.error != TN_TRIAL_OK) fail_msg("%s", t->run.message);
  assert_int_equal(t->built, 1);
  assert_true(t->run.verified);
  assert_true(t->run.median > 0 && t->run.calls >= 1 && t->run.spread >= 0);
}

static void a_candidate_is_built_run_and_verified(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  check_good(&t);
  assert_int_equal(t.build.buffer_count, 3);
  assert_int_equal(strncmp(t.build.trace, "trace 1 ", 8), 0);
  assert_true(t.build.seconds > 0 && t.run.seconds >= t.run.median);
  free_trial(&t);
  close_bench(&b);
}

static void a_trace_is_built_too(void **state) {
  bench b;
  trial t, again;
  const tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  again = (trial){.bench = &b, .input = {.id = 2, .task = &task, .schedule = t.build.trace}};
  check_ok(tn_builder_submit(b.builder, &again.input, on_build, &again, NULL));
  wait_for(&b, &again);
  check_good(&again);
  assert_string_equal(again.build.trace, t.build.trace);
  assert_int_equal(again.build.code_size, t.build.code_size);
  assert_memory_equal(again.build.code, t.build.code, t.build.code_size);
  free_trial(&t);
  free_trial(&again);
  close_bench(&b);
}

static void no_worker_is_started_while_none_ends(void **state) {
  enum { CANDIDATES = 50 };
  static trial trials[CANDIDATES];
  bench b;
  const tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 2);
  for (int i = 0; i < CANDIDATES; i++) submit(&b, &trials[i], &task, i);
  for (int i = 0; i < CANDIDATES; i++) {
    wait_for(&b, &trials[i]);
    assert_int_equal(trials[i].built, 1);
    check_good(&trials[i]);
    free_trial(&trials[i]);
  }
  assert_int_equal(builder_statistics(&b).started, 2);
  assert_int_equal(runner_statistics(&b).started, 1);
  assert_int_equal(builder_statistics(&b).replaced, 0);
  close_bench(&b);
}

static void open_dimensions_have_the_sizes_of_the_task(void **state) {
  static const char text[] = "kernel scale(X: f32[n, m]) -> Y: f32[n, m] {\n  Y[i: n, j: m] = X[i, j] * 2\n}\n";
  static const char *const names[] = {"n", "m"};
  static const int64_t sizes[] = {33, 65};
  bench b;
  trial t;
  tn_tune_task task = task_of("scale");
  task.declaration = text;
  task.dims = names, task.sizes = sizes, task.dim_count = 2;
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  check_good(&t);
  free_trial(&t);
  task.dim_count = 1;
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_HOST_COMPILE);
  assert_string_equal(t.build.message, "task scale: dimension m has no size (dims, sizes)");
  free_trial(&t);
  close_bench(&b);
}

static void threads_and_inputs_are_the_tasks(void **state) {
  static const char text[] =
      "kernel pick(X: f32[40, 30], I: i64[70]) -> Y: f32[70, 30] {\n  Y[i: 70, j: 30] = X[I[i], j]\n}\n";
  bench b;
  trial t;
  tn_tune_task task = task_of("pick");
  task.declaration = text;
  task.threads = 2;
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  check_good(&t);
  free_trial(&t);
  close_bench(&b);
}

static void timing_is_as_asked(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  tn_runner_release(b.runner);
  const tn_worker_options options = {.size = sizeof options, .loop = b.loop, .program = TN_TUNE_PROGRAM};
  const tn_timing_options timing = {.size = sizeof timing,
                                    .cache = TN_CACHE_FLUSHED,
                                    .verify = TN_VERIFY_NEVER,
                                    .least_repeats = 4,
                                    .most_repeats = 4,
                                    .again = -1};
  check_ok(tn_worker_runner_create(&options, &timing, &b.runner));
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.run.error, TN_TRIAL_OK);
  assert_int_equal(t.run.calls, 4); /* one to a repeat, as the caches are flushed before each */
  assert_false(t.run.verified);
  free_trial(&t);
  close_bench(&b);
}

/* ---- what cannot be ---------------------------------------------------------------------------------------------- */

static void check_refused(bench *b, const tn_tune_task *task, const char *rule, const char *schedule,
                          const char *message) {
  trial t = {.bench = b, .input = {.id = 1, .task = task, .rule = rule, .schedule = schedule}};
  check_ok(tn_builder_submit(b->builder, &t.input, on_build, &t, NULL));
  assert_int_equal(t.built, 0);
  wait_for(b, &t);
  assert_string_equal(t.build.message, message);
  assert_int_equal(t.build.error, TN_TRIAL_INSTANTIATION);
  assert_int_equal(t.build.code_size, 0);
  free_trial(&t);
}

static void candidates_that_cannot_be_are_refused(void **state) {
  bench b;
  tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  check_refused(&b, &task, "scan", "", "the rule scan does not fit the kernel");
  check_refused(&b, &task, "contraction", "rows 3", "rule contraction decides on lanes, and the candidate does not");
  check_refused(&b, &task, "contraction", "height 3", "rule contraction decides on no \"height\"");
  check_refused(&b, &task, "contraction", "rows x", "\"rows x\" is no decision, or the second of its name");
  check_refused(&b, &task, "contraction", "rows 3, rows 3", "\"rows 3\" is no decision, or the second of its name");
  check_refused(&b, NULL, "contraction", "", "the candidate has no task that workers know of (declaration)");
  task.declaration = "kernel gemm";
  task.name = "half";
  trial t = {.bench = &b, .input = {.id = 1, .task = &task, .schedule = ""}};
  check_ok(tn_builder_submit(b.builder, &t.input, on_build, &t, NULL));
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_INSTANTIATION);
  assert_non_null(strstr(t.build.message, "task half: half:1:"));
  free_trial(&t);
  assert_int_equal(builder_statistics(&b).replaced, 0);
  close_bench(&b);
}

/* As the task says it, not as this machine is. */
static void other_targets_are_built_and_not_run(void **state) {
  bench b;
  trial t;
  tn_tune_task task = task_of("gemm");
#if defined(__aarch64__)
  task.target = "x86-64-v3";
#else
  task.target = "aarch64";
#endif
  char message[128];
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_OK);
  snprintf(message, sizeof message, "this machine does not run code for %s", task.target);
  assert_int_equal(t.run.error, TN_TRIAL_RUN_TIME);
  assert_string_equal(t.run.message, message);
  free_trial(&t);
  task.machine = "tenon machine 1\narch neither\n";
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_INSTANTIATION);
  assert_int_equal(strncmp(t.build.message, "task gemm: machine:2: ", 22), 0);
  free_trial(&t);
  close_bench(&b);
}

static void code_of_others_is_refused(void **state) {
  bench b;
  const tn_tune_task task = task_of("gemm");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  static const char bytes[400] = "no code";
  trial t = {.bench = &b, .input = {.id = 1, .task = &task, .schedule = ""}};
  const tn_build_result build = {.message = "", .code = bytes, .code_size = sizeof bytes};
  check_ok(tn_runner_submit(b.runner, &t.input, &build, on_run, &t, NULL));
  wait_for(&b, &t);
  assert_int_equal(t.run.error, TN_TRIAL_RUN_TIME);
  assert_string_equal(t.run.message, "the code is not what a builder of worker processes made");
  free_trial(&t);
  close_bench(&b);
}

/* The program that is named by nobody is that of the environment, or one that is found. */
static void the_program_is_found(void **state) {
  uv_loop_t loop;
  tn_builder *builder;
  char path[4200];
  const char *old = getenv("PATH");
  char *kept = strdup(old == NULL ? "" : old);
  assert_int_equal(uv_loop_init(&loop), 0);
  const tn_worker_options o = {.size = sizeof o, .loop = &loop};
  setenv("TENON_WORKER", "/nowhere/worker", 1);
  check_fails(tn_worker_builder_create(&o, &builder), TN_NOT_FOUND,
              "the worker program /nowhere/worker cannot be run: No such file or directory");
  unsetenv("TENON_WORKER");
  setenv("PATH", "/nowhere:", 1);
  check_fails(
      tn_worker_builder_create(&o, &builder), TN_NOT_FOUND,
      "there is no program tenon-tune beside the running one or in $PATH, and $TENON_WORKER names none: install "
      "it, or say where it is (tn_worker_options.program)");
  snprintf(path, sizeof path, "/nowhere:%.*s", (int)(strrchr(TN_TUNE_PROGRAM, '/') - TN_TUNE_PROGRAM), TN_TUNE_PROGRAM);
  setenv("PATH", path, 1);
  check_ok(tn_worker_builder_create(&o, &builder));
  tn_builder_release(builder);
  setenv("PATH", kept, 1);
  free(kept);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
}

static void do_nothing(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input) {}

static void other_builders_have_no_statistics(void **state) {
  const tn_builder_functions functions = {.size = sizeof functions, .start = do_nothing};
  tn_builder *builder;
  tn_worker_statistics s = {.size = sizeof s};
  check_ok(tn_builder_create(&functions, NULL, NULL, &builder));
  check_fails(tn_worker_builder_statistics(builder, &s), TN_FAILED_PRECONDITION,
              "the builder owns no worker processes");
  tn_builder_release(builder);
}

static void options_are_checked(void **state) {
  uv_loop_t loop;
  tn_builder *builder;
  tn_runner *runner;
  assert_int_equal(uv_loop_init(&loop), 0);
  tn_worker_options o = {.size = sizeof o};
  check_fails(tn_worker_builder_create(&o, &builder), TN_INVALID_ARGUMENT, "worker processes need a libuv loop (loop)");
  o.loop = &loop;
  o.program = "/nowhere/tenon-tune";
  check_fails(tn_worker_builder_create(&o, &builder), TN_NOT_FOUND,
              "the worker program /nowhere/tenon-tune cannot be run: No such file or directory");
  assert_null(builder);
  o.workers = 1000;
  check_fails(tn_worker_builder_create(&o, &builder), TN_INVALID_ARGUMENT, "1 to 256 workers, not 1000");
  o.workers = 1, o.wall_seconds = -1;
  check_fails(tn_worker_builder_create(&o, &builder), TN_INVALID_ARGUMENT,
              "wall_seconds: a time is 0 to 1e9 s, not -1");
  o.wall_seconds = 0, o.nice = 40;
  check_fails(tn_worker_builder_create(&o, &builder), TN_INVALID_ARGUMENT,
              "a worker's nice value is raised by 0 to 19, not 40");
  o.nice = 0;
  const tn_timing_options timing = {.size = sizeof timing, .least_repeats = 9, .most_repeats = 3};
  check_fails(tn_worker_runner_create(&o, &timing, &runner), TN_INVALID_ARGUMENT,
              "a kernel is timed 1 to 1048576 times, and no 9 to 3");
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* What becomes of a candidate of each task, and how many workers that costs. */
static void each_fault_is_its_own_error(void **state) {
  static const struct {
    const char *task;
    bool runs;
    tn_trial_error error;
    int ended;
    const char *message; /* its beginning */
  } faults[] = {
      {"compiler aborts", false, TN_TRIAL_HOST_COMPILE, 1,
       "building ended the worker by signal 6 (Aborted); its last words: Assertion `isa<X>(Val)' failed.\\n\\tin a "
       "pass"},
      {"compiler eats memory", false, TN_TRIAL_BUILD_TIMEOUT, 1,
       "building needed more memory than 256 MiB: the worker ended by signal 6 (Aborted); its last words: LLVM ERROR: "
       "out of memory"},
      {"compiler is killed", false, TN_TRIAL_WORKER_LOST, 1, "building ended the worker by signal 9 (Killed)"},
      {"compiler exits", false, TN_TRIAL_HOST_COMPILE, 1, "building ended the worker by exit status 3"},
      {"compiler babbles", false, TN_TRIAL_WORKER_LOST, 1,
       "building left the worker with answers that cannot be understood, and it was ended"},
      {"kernel crashes", true, TN_TRIAL_RUN_TIME, 1, "running ended the worker by signal 11 (Segmentation fault)"},
      {"kernel corrupts heap", true, TN_TRIAL_RUN_TIME, 1, "running ended the worker by "},
      {"kernel eats memory", true, TN_TRIAL_RUN_TIMEOUT, 1, "running needed more memory than 256 MiB"},
      {"kernel is wrong", true, TN_TRIAL_WRONG_ANSWER, 0, "C[3, 5] is 1000, and "},
      {"kernel leaves out", true, TN_TRIAL_WRONG_ANSWER, 0, "C[0, 0] is NaN, and "},
      {"kernel writes behind", true, TN_TRIAL_RUN_TIME, 0, "the kernel wrote beside the elements of C"},
      {"kernel writes before", true, TN_TRIAL_RUN_TIME, 0, "the kernel wrote beside the elements of C"},
      {"kernel writes far", true, TN_TRIAL_RUN_TIME, 1, "running ended the worker by signal 11 (Segmentation fault)"},
      {"kernel writes input", true, TN_TRIAL_RUN_TIME, 1, "running ended the worker by signal 11 (Segmentation fault)"},
      {"kernel fails", true, TN_TRIAL_RUN_TIME, 0, "the kernel returned 1"},
      {"runner is killed", true, TN_TRIAL_WORKER_LOST, 1, "running ended the worker by signal 9 (Killed)"},
  };
  bench b;
  const tn_tune_task good = task_of("good");
  int builds_ended = 0, runs_ended = 0;
  open_bench(&b, TN_FAULTY_WORKER, 1);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    trial bad, after;
    const tn_tune_task task = task_of(faults[i].task);
    submit(&b, &bad, &task, -1);
    submit(&b, &after, &good, -1);
    wait_for(&b, &bad);
    wait_for(&b, &after);
    const tn_trial_error error = faults[i].runs ? bad.run.error : bad.build.error;
    const char *message = faults[i].runs ? bad.run.message : bad.build.message;
    if (error != faults[i].error || strncmp(message, faults[i].message, strlen(faults[i].message)) != 0)
      fail_msg("%s: %s: %s", faults[i].task, tn_trial_error_name(error), message);
    check_good(&after);
    assert_int_equal(bad.built, 1);
    assert_int_equal(bad.ran, faults[i].runs);
    builds_ended += faults[i].runs ? 0 : faults[i].ended;
    runs_ended += faults[i].runs ? faults[i].ended : 0;
    assert_int_equal(builder_statistics(&b).replaced, builds_ended);
    assert_int_equal(runner_statistics(&b).replaced, runs_ended);
    free_trial(&bad);
    free_trial(&after);
  }
  assert_false(builder_statistics(&b).ended);
  close_bench(&b);
}

/* Only this build has the limit, because a busy machine can exceed it. */
static void wall_time_is_limited(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("compiler spins");
  open_bench_with(&b, TN_FAULTY_WORKER, 1, 0.2, 0);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_BUILD_TIMEOUT);
  assert_string_equal(t.build.message, "building took more than 0.2 s");
  assert_int_equal(builder_statistics(&b).replaced, 1);
  free_trial(&t);
  close_bench(&b);
}

/* The build has no limit, so that the kernel is run. */
static void wall_time_of_runs_is_limited(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("kernel spins");
  open_bench(&b, TN_FAULTY_WORKER, 1);
  tn_runner_release(b.runner);
  const tn_worker_options options = {
      .size = sizeof options, .loop = b.loop, .program = TN_FAULTY_WORKER, .workers = 1, .wall_seconds = 0.2};
  const tn_timing_options timing = {.size = sizeof timing};
  check_ok(tn_worker_runner_create(&options, &timing, &b.runner));
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.run.error, TN_TRIAL_RUN_TIMEOUT);
  assert_string_equal(t.run.message, "running took more than 0.2 s");
  assert_int_equal(runner_statistics(&b).replaced, 1);
  free_trial(&t);
  close_bench(&b);
}

static void cpu_time_is_limited(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("compiler spins");
  open_bench_with(&b, TN_FAULTY_WORKER, 1, long_time, 0.2);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_BUILD_TIMEOUT);
  assert_string_equal(t.build.message, "building took more than 0.2 s of CPU time");
  free_trial(&t);
  close_bench(&b);
}

static void workers_that_end_at_their_start_end_all(void **state) {
  bench b;
  trial t, late;
  const tn_tune_task task = task_of("gemm");
  char message[4300];
  setenv("TENON_FAULTY_START", "1", 1);
  open_bench(&b, TN_FAULTY_WORKER, 1);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  snprintf(message, sizeof message,
           "the worker program %s ended 3 times in a row before it did anything, at last by exit status 7; its last "
           "words: no library of this name",
           TN_FAULTY_WORKER);
  assert_int_equal(t.build.error, TN_TRIAL_WORKER_LOST);
  assert_string_equal(t.build.message, message);
  assert_true(builder_statistics(&b).ended);
  assert_int_equal(builder_statistics(&b).started, 3);
  submit(&b, &late, &task, -1); /* whatever comes then ends alike, and later than it was submitted */
  assert_int_equal(late.built, 0);
  wait_for(&b, &late);
  assert_string_equal(late.build.message, message);
  free_trial(&t);
  free_trial(&late);
  close_bench(&b);
  unsetenv("TENON_FAULTY_START");
}

/* A killed worker, or one that the system has no memory for, is no evidence about the program. */
static void workers_that_are_killed_at_their_start_come_again(void **state) {
  enum { KILLED = 6 }; /* more failures than would end the builder if the workers had ended by themselves */
  bench b;
  trial t;
  const tn_tune_task task = task_of("good");
  setenv("TENON_FAULTY_START", "killed", 1);
  open_bench(&b, TN_FAULTY_WORKER, 1);
  submit(&b, &t, &task, -1);
  while (builder_statistics(&b).started < KILLED) uv_run(b.loop, UV_RUN_ONCE);
  assert_int_equal(t.built, 0);
  unsetenv("TENON_FAULTY_START");
  wait_for(&b, &t);
  check_good(&t);
  assert_false(builder_statistics(&b).ended || runner_statistics(&b).ended);
  free_trial(&t);
  close_bench(&b);
}

/* A candidate is charged with the CPU time of its worker, not with time in which the worker was stopped. */
static void a_worker_that_stands_still_charges_nobody(void **state) {
  bench b;
  trial t;
  const tn_tune_task task = task_of("compiler is stopped");
  open_bench(&b, TN_FAULTY_WORKER, 1);
  tn_builder_release(b.builder);
  const tn_worker_options options = {
      .size = sizeof options, .loop = b.loop, .program = TN_FAULTY_WORKER, .wall_seconds = 0.1};
  check_ok(tn_worker_builder_create(&options, &b.builder));
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  assert_int_equal(t.build.error, TN_TRIAL_WORKER_LOST);
  assert_string_equal(t.build.message,
                      "building was not done in 0.5 s, in which its worker got hardly any time of a processor");
  assert_false(builder_statistics(&b).ended);
  free_trial(&t);
  close_bench(&b);
}

/* ---- the ends of submissions and of workers ---------------------------------------------------------------------- */

static void what_is_cancelled_is_told_once(void **state) {
  bench b;
  trial slow, waiting, after;
  const tn_tune_task slow_task = task_of("compiler is slow"), task = task_of("good");
  tn_trial_handle first, second;
  open_bench(&b, TN_FAULTY_WORKER, 1);
  submit(&b, &slow, &slow_task, -1);
  submit(&b, &waiting, &task, -1);
  first = slow.handle, second = waiting.handle;
  for (int i = 0; i < 5; i++) uv_run(b.loop, UV_RUN_NOWAIT);
  assert_true(tn_builder_cancel(b.builder, first));
  assert_true(tn_builder_cancel(b.builder, second));
  assert_int_equal(slow.built, 1);
  assert_int_equal(slow.build.error, TN_TRIAL_CANCELLED);
  assert_int_equal(waiting.build.error, TN_TRIAL_CANCELLED);
  submit(&b, &after, &task, -1);
  wait_for(&b, &after);
  check_good(&after);
  assert_int_equal(slow.built, 1);
  assert_int_equal(waiting.built, 1);
  assert_int_equal(builder_statistics(&b).replaced, 0);
  free_trial(&slow);
  free_trial(&waiting);
  free_trial(&after);
  close_bench(&b);
}

static void release_in_flight_tells_all(void **state) {
  enum { CANDIDATES = 6 };
  trial trials[CANDIDATES];
  bench b;
  const tn_tune_task task = task_of("compiler is slow");
  open_bench(&b, TN_FAULTY_WORKER, 2);
  for (int i = 0; i < CANDIDATES; i++) submit(&b, &trials[i], &task, -1);
  for (int i = 0; i < 5; i++) uv_run(b.loop, UV_RUN_NOWAIT);
  tn_builder_release(b.builder);
  b.builder = NULL;
  for (int i = 0; i < CANDIDATES; i++) {
    assert_int_equal(trials[i].built, 1);
    assert_int_equal(trials[i].build.error, TN_TRIAL_CANCELLED);
  }
  close_bench(&b);
  assert_int_equal(b.callbacks, CANDIDATES);
  for (int i = 0; i < CANDIDATES; i++) free_trial(&trials[i]);
}

static void release_all(void *user, const tn_build_input *input, const tn_build_result *result) {
  bench *b = user;
  b->callbacks++;
  if (b->builder == NULL) return;
  tn_builder *builder = b->builder;
  b->builder = NULL;
  tn_builder_release(builder);
}

static void release_within_a_callback(void **state) {
  static const char *const tasks[] = {"good", "compiler aborts"};
  for (int i = 0; i < 2; i++) {
    bench b;
    trial t[3];
    const tn_tune_task task = task_of(tasks[i]);
    open_bench(&b, TN_FAULTY_WORKER, 2);
    for (int k = 0; k < 3; k++) {
      plan(&t[k], &b, &task, -1);
      check_ok(tn_builder_submit(b.builder, &t[k].input, release_all, &b, NULL));
    }
    while (b.builder != NULL) uv_run(b.loop, UV_RUN_ONCE);
    assert_int_equal(b.callbacks, 3);
    close_bench(&b);
  }
}

/* The processes that this one has started and that still run. */
static int count_children(pid_t *pids, int most) {
  char path[64];
  int count = 0, pid;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *file = fopen(path, "r");
  if (file == NULL) return -1;
  while (fscanf(file, "%d", &pid) == 1)
    if (count < most) pids[count++] = pid;
  fclose(file);
  return count;
}

static void a_worker_that_is_killed_idle_is_replaced(void **state) {
  bench b;
  trial t;
  pid_t pids[4];
  const tn_tune_task task = task_of("good");
  open_bench(&b, TN_TUNE_PROGRAM, 1);
  int count = count_children(pids, 4);
  if (count < 0) {
    close_bench(&b);
    skip_because("this kernel does not list children of processes");
  }
  assert_int_equal(count, 2);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  check_good(&t);
  free_trial(&t);
  for (int i = 0; i < count; i++) kill(pids[i], SIGKILL);
  while (builder_statistics(&b).replaced == 0 || runner_statistics(&b).replaced == 0) uv_run(b.loop, UV_RUN_ONCE);
  submit(&b, &t, &task, -1);
  wait_for(&b, &t);
  check_good(&t);
  free_trial(&t);
  close_bench(&b);
  assert_int_equal(count_children(pids, 4), 0);
}

static void on_timer(uv_timer_t *timer) { *(bool *)timer->data = true; }

static void a_paused_builder_stands_still(void **state) {
  bench b;
  trial t;
  uv_timer_t timer;
  bool rung = false;
  const tn_tune_task task = task_of("compiler is slow"); /* 0.3 s */
  open_bench_with(&b, TN_FAULTY_WORKER, 1, 10, 0);
  uv_timer_init(b.loop, &timer);
  timer.data = &rung;
  submit(&b, &t, &task, -1);
  for (int i = 0; i < 5; i++) uv_run(b.loop, UV_RUN_NOWAIT);
  tn_builder_pause(b.builder, true);
  uv_timer_start(&timer, on_timer, 10500, 0); /* longer than a trial's limit */
  while (!rung) uv_run(b.loop, UV_RUN_ONCE);
  assert_int_equal(t.built, 0);
  tn_builder_pause(b.builder, false);
  wait_for(&b, &t);
  check_good(&t);
  assert_int_equal(builder_statistics(&b).replaced, 0);
  uv_close((uv_handle_t *)&timer, NULL);
  free_trial(&t);
  close_bench(&b);
}

static bool has_ended(pid_t pid) {
  char path[64], state = 'Z';
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return true;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(file);
  return state == 'Z' || state == 'X';
}

static void no_worker_outlives_its_tuner(void **state) {
  int ends[2];
  pid_t pids[2] = {0};
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t tuner = fork();
  assert_true(tuner >= 0);
  if (tuner == 0) {
    bench b;
    trial t;
    const tn_tune_task task = task_of("kernel spins");
    open_bench(&b, TN_FAULTY_WORKER, 1);
    submit(&b, &t, &task, -1);
    while (t.built == 0) uv_run(b.loop, UV_RUN_ONCE);
    if (count_children(pids, 2) != 2) memset(pids, 0, sizeof pids);
    if (write(ends[1], pids, sizeof pids) != sizeof pids) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
  kill(tuner, SIGKILL);
  waitpid(tuner, NULL, 0);
  close(ends[0]), close(ends[1]);
  for (int i = 0; i < 2 && pids[i] != 0; i++)
    while (!has_ended(pids[i])) usleep(10000);
}

/* A sanitizer would end a worker in its own way. */
static void leave_signals_alone(void) {
  char options[1024];
  const char *given = getenv("ASAN_OPTIONS");
  snprintf(options, sizeof options, "%s:handle_segv=0:handle_abort=0:allocator_may_return_null=1",
           given == NULL ? "" : given);
  setenv("ASAN_OPTIONS", options, 1);
}

int main(void) {
  leave_signals_alone();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_candidate_is_built_run_and_verified),
      cmocka_unit_test(a_trace_is_built_too),
      cmocka_unit_test(no_worker_is_started_while_none_ends),
      cmocka_unit_test(open_dimensions_have_the_sizes_of_the_task),
      cmocka_unit_test(threads_and_inputs_are_the_tasks),
      cmocka_unit_test(timing_is_as_asked),
      cmocka_unit_test(candidates_that_cannot_be_are_refused),
      cmocka_unit_test(other_targets_are_built_and_not_run),
      cmocka_unit_test(code_of_others_is_refused),
      cmocka_unit_test(other_builders_have_no_statistics),
      cmocka_unit_test(the_program_is_found),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(each_fault_is_its_own_error),
      cmocka_unit_test(wall_time_is_limited),
      cmocka_unit_test(wall_time_of_runs_is_limited),
      cmocka_unit_test(cpu_time_is_limited),
      cmocka_unit_test(workers_that_end_at_their_start_end_all),
      cmocka_unit_test(workers_that_are_killed_at_their_start_come_again),
      cmocka_unit_test(a_worker_that_stands_still_charges_nobody),
      cmocka_unit_test(what_is_cancelled_is_told_once),
      cmocka_unit_test(release_in_flight_tells_all),
      cmocka_unit_test(release_within_a_callback),
      cmocka_unit_test(a_worker_that_is_killed_idle_is_replaced),
      cmocka_unit_test(a_paused_builder_stands_still),
      cmocka_unit_test(no_worker_outlives_its_tuner),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
