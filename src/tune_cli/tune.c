/* tenon tune: measures candidates for the schedules of models and declarations, and keeps what was found. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "tune/search/table.h"
#include "tune/tuner/tuner.h"
#include "tune_cli/tune_cli.h"
#include "tune_cli/tune_records.h"
#include "tune_cli/tune_view.h"

static const cli_option options[] = {
    {"--budget", "TIME", "tune for so long: 90s, 10m, 2h"},
    {"--trials", "N", "measure so many candidates, those that were measured before counted"},
    {"--target-speedup", "X", "stop when all kernels together run X times as fast as with the static choices"},
    {"--patience", "N", "leave a kernel alone after N trials that gained less than a hundredth (default 128)"},
    {"--kernel", "NAME", "tune this kernel of a file of declarations alone; of a model, those whose names begin so"},
    {"--database", "FILE",
     "keep records there (default: $TENON_TUNE_DB, else tuning.db in the compile cache's folder)"},
    {"--output", "FILE",
     "write the schedules that are faster to a file (also -o; default: the first file's name with "
     ".schedules), for --tuned",
     .writes = true},
    {"--seed", "N", "of what the search draws (default: another each time, so that several tuners differ)"},
    {"--builders", "N", "processes that compile (default: one for each core that no kernel is timed on)"},
    {"--mode", "MODE", "async (default), batched or blocking: whether candidates wait for each other"},
    {"--window", "N", "candidates that are built ahead of the timing (default 16)"},
    {"--cold", NULL, "time kernels with nothing of their tensors in the caches"},
    {"--random", NULL, "draw all candidates by chance, to compare searches with"},
    {"--no-comparison", NULL, "take the best candidates without timing them beside the static choices in the end"},
    {"--exhaustive", "N",
     "measure about N points of each kernel's space, all of them, and write a table of each, "
     "NAME.table.gz: what searches are compared on"},
    {"--quiet", NULL, "show nothing while it works"},
    CLI_COMPILE_OPTIONS,
    {NULL}};

typedef struct tuning {
  const cli_args *args;
  cli_compile setup;
  tn__task_list *tasks;
  tn__tuner_options options;
  tn__tuner *tuner;
  tune_records records;
  tn_builder *builder;
  tn_runner *runner;
  uv_loop_t loop;
  uv_signal_t interrupt, terminate;
  uv_timer_t tick;
  tune_view view;
  int interrupts;
  char output[4096];
} tuning;

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* A number above 0, and what stands behind it; false when it is none. */
static bool read_positive(const char *text, double *out, const char **rest) {
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  *rest = end;
  return text[0] >= '0' && text[0] <= '9' && !errno && isfinite(*out) && *out > 0;
}

static bool read_budget(tuning *t) {
  const char *text = cli_value(t->args, "--budget"), *unit;
  if (text == NULL) return true;
  double seconds = 0;
  bool good = read_positive(text, &seconds, &unit) && (*unit == 0 || unit[1] == 0);
  if (good && *unit == 'm') seconds *= 60;
  if (good && *unit == 'h') seconds *= 3600;
  if (!good || (*unit != 0 && strchr("smh", *unit) == NULL)) {
    cli_misused("tune", "--budget takes a time above 0 like 90s, 10m or 2h, not \"%s\"", text);
    return false;
  }
  t->options.budget_seconds = seconds;
  return true;
}

static bool read_speedup(tuning *t) {
  const char *text = cli_value(t->args, "--target-speedup"), *rest;
  if (text == NULL) return true;
  if (read_positive(text, &t->options.target_speedup, &rest) && *rest == 0 && t->options.target_speedup > 1)
    return true;
  cli_misused("tune", "--target-speedup takes a number above 1, not \"%s\"", text);
  return false;
}

static bool read_numbers(tuning *t) {
  int64_t patience = 0, seed = 0, window = 0;
  static const char *const modes[] = {"async", "batched", "blocking", NULL};
  if (!cli_number(t->args, "--trials", 1, INT64_C(1000000000), &t->options.trials) ||
      !cli_number(t->args, "--patience", 1, 1000000, &patience) ||
      !cli_number(t->args, "--seed", 0, INT64_MAX, &seed) || !cli_number(t->args, "--window", 1, 65536, &window) ||
      !cli_word(t->args, "--mode", modes))
    return false;
  const char *mode = cli_value(t->args, "--mode");
  for (int i = 0; mode != NULL && modes[i] != NULL; i++)
    if (strcmp(mode, modes[i]) == 0) t->options.mode = (tn_measure_mode)i;
  t->options.patience = (int)patience;
  t->options.seed =
      cli_value(t->args, "--seed") != NULL ? (uint64_t)seed : tn__hash_mix(tn__clock(), (uint64_t)getpid());
  t->options.window = (int)window;
  t->options.kind = cli_flag(t->args, "--random") ? TN__SEARCH_RANDOM : TN__SEARCH_EVOLUTION;
  t->options.no_comparison = cli_flag(t->args, "--no-comparison");
  if (!cli_number(t->args, "--exhaustive", 10, 1000000, &t->options.space)) return false;
  if (t->options.space > 0) {
    t->options.kind = TN__SEARCH_ALL;
    t->options.no_comparison = true;
    t->options.patience = INT_MAX;
  }
  return true;
}

/* "model.onnx" gives "model.schedules" in the folder where the command runs. */
static void name_output(tuning *t) {
  const char *given = cli_value(t->args, "--output"), *name = strrchr(t->args->file, '/');
  name = name != NULL ? name + 1 : t->args->file;
  const char *dot = strrchr(name, '.');
  int length = dot != NULL && dot != name ? (int)(dot - name) : (int)strlen(name);
  if (given != NULL)
    snprintf(t->output, sizeof t->output, "%s", given);
  else
    snprintf(t->output, sizeof t->output, "%.*s.schedules", length, name);
}

static int read_arguments(tuning *t) {
  static const char *const taken_in[] = {"--tuned", NULL};
  if (!read_budget(t) || !read_speedup(t) || !read_numbers(t)) return EXIT_MISUSED;
  if (cli_refuse(t->args, taken_in, "is for compiling: what was measured before is in the database"))
    return EXIT_MISUSED;
  if (!cli_compile_setup(t->args, &t->setup)) return EXIT_MISUSED;
  t->setup.options.progress = NULL;
  name_output(t);
  const char *taken = cli_taken_place(t->args, t->output);
  if (taken != NULL) return cli_misused("tune", "%s would take the place of %s", t->output, taken);
  return cli_report(cli_check_place(t->output, ""));
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* Candidates are timed here. */
static int check_machine(const tuning *t) {
  tn__target target;
  if (tn__tasks_count(t->tasks) == 0) return EXIT_DONE;
  tn_status *status = tn__target_parse(tn__tasks_at(t->tasks, 0)->task.target, &target);
  if (status == NULL && !tn__target_runs_here(&target))
    status = tn_status_create(TN_UNSUPPORTED,
                              "this machine does not run code for %s, and candidates are timed on the machine that "
                              "tunes: tune on one that does, or write a runner for such a device (<tenon/tune.h>, "
                              "docs/howto-runner.md)",
                              target.name);
  return cli_report(status);
}

static int add_tasks(tuning *t) {
  for (int i = 0; i < t->args->file_count; i++) {
    const char *path = t->args->files[i];
    int left_out = 0;
    const char *kernel = cli_value(t->args, "--kernel");
    tn_status *status = cli_is_declarations(path)
                            ? tn__tasks_add_declarations(t->tasks, path, kernel, &t->setup.options)
                            : tn__tasks_add_model(t->tasks, path, kernel, &t->setup.options, &left_out);
    if (status != NULL) return cli_report(status);
    if (left_out > 0)
      fprintf(stderr, "tenon: %s: %d kernel%s of open sizes %s not tuned; --dim NAME=N fixes a size\n", path, left_out,
              left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
  }
  return check_machine(t);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Do the trials fail as there are no workers any more? The message says why. */
static bool workers_ended(const tuning *t) {
  tn_worker_statistics build = {.size = sizeof build}, run = {.size = sizeof run};
  tn_status_free(tn_worker_builder_statistics(t->builder, &build));
  tn_status_free(tn_worker_runner_statistics(t->runner, &run));
  return build.ended || run.ended;
}

static tn_status *add(void *user, const tn__tuner_record *r) {
  tuning *t = user;
  if (r->result->error == TN_TRIAL_WORKER_LOST && workers_ended(t))
    return tn_status_create(TN_FAILED_PRECONDITION, "%s", r->result->message);
  return tune_records_add(&t->records, r);
}

static tn_status *known(void *user, const tn_tune_task *task, tn__search *search) {
  return tune_records_known(&((tuning *)user)->records, task, search);
}

static tn_status *compared(void *user, const tn_tune_task *task, const tn__compared *c) {
  return tune_records_compared(&((tuning *)user)->records, task, c);
}

/* ---- the processes ----------------------------------------------------------------------------------------------- */

/* Kernels are timed on the last cores, and candidates built on the others; where kernels want them all, builds stand
 * still meanwhile. */
static int start_workers(tuning *t) {
  cpu_set_t set;
  int cores[CPU_SETSIZE], count = 0, threads = 1;
  int64_t builders = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &set)) cores[count++] = i;
  for (int i = 0; i < tn__tasks_count(t->tasks); i++)
    if (tn__tasks_at(t->tasks, i)->task.threads > threads) threads = tn__tasks_at(t->tasks, i)->task.threads;
  t->options.exclusive = threads >= count;
  int building = t->options.exclusive ? count : count - threads;
  if (!cli_number(t->args, "--builders", 1, 256, &builders)) return EXIT_MISUSED;
  const tn_worker_options build = {.size = sizeof build,
                                   .loop = &t->loop,
                                   .workers = builders > 0   ? (int)builders
                                              : building < 1 ? 1
                                                             : building,
                                   .cores = cores,
                                   .core_count = building,
                                   .nice = t->options.exclusive ? 0 : 5};
  const tn_worker_options run = {.size = sizeof run,
                                 .loop = &t->loop,
                                 .workers = 1,
                                 .cores = &cores[t->options.exclusive ? 0 : count - threads],
                                 .core_count = t->options.exclusive ? count : threads};
  const tn_timing_options timing = {.size = sizeof timing,
                                    .cache = cli_flag(t->args, "--cold") ? TN_CACHE_FLUSHED : TN_CACHE_WARM,
                                    .verify = TN_VERIFY_FIRST};
  tn_status *status = tn_worker_builder_create(&build, &t->builder);
  if (status == NULL) status = tn_worker_runner_create(&run, &timing, &t->runner);
  return cli_report(status);
}

static void on_interrupt(uv_signal_t *handle, int number) {
  tuning *t = handle->data;
  t->interrupts++;
  tune_view_say(&t->view, t->interrupts == 1 ? "finishing what is in flight; once more, and it stops at once"
                                             : "stopping at once; all that has ended is kept");
  tn__tuner_stop(t->tuner, t->interrupts > 1);
}

static void on_tick(uv_timer_t *handle) {
  tuning *t = handle->data;
  tn_status *status = tune_records_flush(&t->records);
  if (status != NULL) tn__tuner_fail(t->tuner, status);
  tune_view_show(&t->view, t->tuner);
}

static tn_status *run_loop(tuning *t) {
  uv_signal_init(&t->loop, &t->interrupt);
  uv_signal_init(&t->loop, &t->terminate);
  uv_timer_init(&t->loop, &t->tick);
  t->interrupt.data = t->terminate.data = t->tick.data = t;
  uv_signal_start(&t->interrupt, on_interrupt, SIGINT);
  uv_signal_start(&t->terminate, on_interrupt, SIGTERM);
  uv_timer_start(&t->tick, on_tick, 0, 250);
  tn_status *status = tn__tuner_start(t->tuner, t->builder, &t->runner, 1);
  while (status == NULL && !tn__tuner_is_done(t->tuner)) uv_run(&t->loop, UV_RUN_ONCE);
  tune_view_end(&t->view, t->tuner);
  uv_close((uv_handle_t *)&t->interrupt, NULL);
  uv_close((uv_handle_t *)&t->terminate, NULL);
  uv_close((uv_handle_t *)&t->tick, NULL);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Kernels of several files may have one name. */
static int same_names_before(const tuning *t, int task) {
  int count = 0;
  for (int i = 0; i < task; i++)
    count += strcmp(tn__tasks_at(t->tasks, i)->task.name, tn__tasks_at(t->tasks, task)->task.name) == 0;
  return count;
}

/* A table of each task whose space was gone through. */
static int save_tables(tuning *t) {
  int made = 0;
  for (int i = 0; i < tn__tuner_task_count(t->tuner); i++) {
    tn__tuner_view v = tn__tuner_view_of(t->tuner, i);
    char path[256];
    int before = same_names_before(t, i);
    if (before == 0)
      snprintf(path, sizeof path, "%.200s.table.gz", v.item->task.name);
    else
      snprintf(path, sizeof path, "%.200s-%d.table.gz", v.item->task.name, before + 1);
    if (!v.stopped) {
      printf("%s: not all of its space was measured; start again to go on\n", v.item->task.name);
      continue;
    }
    const tn__proposal *best = tn__search_best(v.search);
    if (best == NULL) {
      printf("%s: no candidate of it works, and there is no table\n", v.item->task.name);
      continue;
    }
    tn_status *status = tn__table_write(v.space, v.search, path);
    if (status != NULL) return cli_report(status);
    printf("%s: %lld candidates, the static choice takes %.2f times the best\n", path, (long long)v.trials,
           v.static_seconds / best->median);
    made++;
  }
  return made > 0 ? EXIT_DONE : EXIT_FAILED;
}

/* The command that takes the schedules, which are for one target and number of threads: `tenon build` has one thread by
 * itself. */
static void print_use(const tuning *t, const char *file) {
  bool declared = cli_is_declarations(file);
  const char *target = cli_value(t->args, "--target"), *name = strrchr(file, '/');
  name = name != NULL ? name + 1 : file;
  const char *dot = strrchr(name, '.');
  int position = 0;
  printf("  tenon %s %s --tuned %s", declared ? "build" : "compile", file, t->output);
  if (target != NULL) printf(" --target %s", target);
  if (declared || cli_value(t->args, "--threads") != NULL)
    printf(" --threads %d", tn__tasks_at(t->tasks, 0)->task.threads);
  for (const char *dim; (dim = cli_next(t->args, "--dim", &position)) != NULL;) printf(" --dim %s", dim);
  printf(" -o %.*s%s\n", dot != NULL ? (int)(dot - name) : (int)strlen(name), name, declared ? "" : ".tnx");
}

static int save(tuning *t) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  int count = tune_print_schedules(t->tuner, &text);
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL)
    status = tn__file_write_atomic(t->output, &(tn__bytes){tn__strbuf_text(&text), text.length}, 1, 0644);
  tn__strbuf_release(&text);
  if (status != NULL) return cli_report(status);
  printf("%s: %d schedule%s faster than the static choice%s", t->output, count, count == 1 ? "" : "s",
         count > 0 ? "; --tuned takes them:\n" : "\n");
  for (int i = 0; i < t->args->file_count && count > 0; i++) print_use(t, t->args->files[i]);
  return EXIT_DONE;
}

static int tune(tuning *t) {
  int result = add_tasks(t);
  if (result != EXIT_DONE) return result;
  tn_status *status = tune_records_open(&t->records, cli_value(t->args, "--database"));
  const tn__tuner_sink sink = {add, known, compared, t};
  if (status != NULL || (result = start_workers(t)) != EXIT_DONE) return status != NULL ? cli_report(status) : result;
  status = tn__tuner_create(t->tasks, &sink, &t->options, &t->tuner);
  if (status == NULL) status = run_loop(t);
  if (status != NULL) return cli_report(status);
  tune_print_result(t->tuner, stdout);
  const tn_status *failure = tn__tuner_failure(t->tuner);
  if (t->options.space > 0)
    result = save_tables(t);
  else if (failure != NULL || t->interrupts > 1) /* what is there may be of comparisons that were not made now */
    printf("%s is left as it is: not all that is known was compared; start again to go on\n", t->output);
  else
    result = save(t);
  status = tune_records_finish(&t->records);
  if (failure != NULL) { /* it came first */
    tn_status_free(status);
    status = tn_status_create(tn_status_code_of(failure), "%s", tn_status_message(failure));
  }
  return status != NULL ? cli_report(status) : result;
}

static int run(const cli_args *args) {
  static tuning t;          /* large; the process has one command */
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told like a full disk */
  t.args = args;
  int result = read_arguments(&t);
  if (result != EXIT_DONE) return result;
  uv_loop_init(&t.loop);
  tune_view_begin(&t.view, cli_flag(args, "--quiet"));
  result = cli_report(tn__tasks_create(&t.tasks));
  if (result == EXIT_DONE) result = tune(&t);
  tn__tuner_release(t.tuner);
  tn_builder_release(t.builder);
  tn_runner_release(t.runner);
  tune_records_close(&t.records);
  tn__tasks_release(t.tasks);
  uv_run(&t.loop, UV_RUN_DEFAULT); /* what is closed ends */
  uv_loop_close(&t.loop);
  return result;
}

static const cli_command command = {.name = "tune",
                                    .arguments = "FILE... [OPTIONS]",
                                    .summary =
                                        "Measure schedules for models and declarations, and keep the fastest; "
                                        "`tenon tune report` tells of it",
                                    .options = options,
                                    .run = run,
                                    .most_files = CLI_MOST_FILES};

/* A file of that name is ./report. */
int tune_tune_main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "report") == 0) return tune_report_main(argc - 1, argv + 1);
  return cli_do(&command, argc, argv);
}
