/* tenon tune: measures candidates for the schedules of models and declarations, and keeps what was found. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tune_cli/tune_cli.h"
#include "tune_cli/tune_sites.h"
#include "tune_cli/tune_view.h"

static const cli_option options[] = {
    {"--budget", "TIME", "tune for so long: 90s, 10m, 2h, what was spent on these kernels before counted"},
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
    {"--variants", NULL,
     "measure what the graph of a model decides first, for a quarter of the budget: Winograd's algorithm or none, "
     "one kernel or several"},
    {"--no-seeds", NULL, "begin without candidates that were fast for similar kernels or on other machines"},
    {"--no-comparison", NULL, "take the best candidates without timing them beside the static choices in the end"},
    {"--exhaustive", "N",
     "measure about N points of each kernel's space, all of them, and write a table of each, "
     "NAME.table.gz: what searches are compared on"},
    {"--deterministic", NULL,
     "build and time nothing, but let kernels take what the static cost function and the seed say, on a simulated "
     "clock: the same each time"},
    {"--quiet", NULL, "show nothing while it works"},
    CLI_COMPILE_OPTIONS,
    {NULL}};

typedef struct tuning {
  const cli_args *args;
  cli_compile setup;
  tn_tuner_options options;
  tn_tuner *tuner;
  tune_view view;
  int interrupts; /* that were told */
  char output[4096];
  tn__strbuf variants; /* of what graphs decide otherwise, for the output */
} tuning;

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* A number above 0, and what stands behind it; false when it is none. */
TN_MUST_USE static bool read_positive(const char *text, double *out, const char **rest) {
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
  int64_t patience = 0, seed = 0, window = 0, builders = 0;
  static const char *const modes[] = {"async", "batched", "blocking", NULL};
  if (!cli_number(t->args, "--trials", 1, INT64_C(1000000000), &t->options.trials) ||
      !cli_number(t->args, "--patience", 1, 1000000, &patience) ||
      !cli_number(t->args, "--seed", 0, INT64_MAX, &seed) || !cli_number(t->args, "--window", 1, 65536, &window) ||
      !cli_number(t->args, "--builders", 1, 256, &builders) ||
      !cli_number(t->args, "--exhaustive", 10, 1000000, &t->options.points) || !cli_word(t->args, "--mode", modes))
    return false;
  const char *mode = cli_value(t->args, "--mode");
  for (int i = 0; mode != NULL && modes[i] != NULL; i++)
    if (strcmp(mode, modes[i]) == 0) t->options.mode = (tn_measure_mode)i;
  t->options.patience = (int)patience;
  t->options.seed = (uint64_t)seed;
  t->options.deterministic = cli_flag(t->args, "--deterministic");
  t->options.draws_seed = cli_value(t->args, "--seed") == NULL && !t->options.deterministic;
  t->options.window = (int)window;
  t->options.builders = (int)builders;
  t->options.cache = cli_flag(t->args, "--cold") ? TN_CACHE_FLUSHED : TN_CACHE_WARM;
  t->options.database = cli_value(t->args, "--database");
  t->options.search = t->options.points > 0           ? TN_SEARCH_EXHAUSTIVE
                      : cli_flag(t->args, "--random") ? TN_SEARCH_RANDOM
                                                      : TN_SEARCH_EVOLUTION;
  t->options.no_seeds = cli_flag(t->args, "--no-seeds");
  t->options.no_comparison = cli_flag(t->args, "--no-comparison");
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

/* ---- tuning ------------------------------------------------------------------------------------------------------ */

static tn_status *add_file(const tuning *t, const char *path) {
  int left_out = 0;
  const char *kernel = cli_value(t->args, "--kernel");
  if (cli_is_declarations(path)) return tn_tuner_add_declarations(t->tuner, path, NULL, 0, kernel, &t->setup.options);
  TN_RETURN_IF_ERROR(tn_tuner_add_model(t->tuner, path, NULL, 0, kernel, &t->setup.options, &left_out));
  if (left_out > 0)
    fprintf(stderr, "tenon: %s: %d kernel%s of open sizes %s not tuned; --dim NAME=N fixes a size\n", path, left_out,
            left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
  return NULL;
}

/* What a handler of signals needs; the process tunes once. */
static tn_tuner *interrupted;
static atomic_int interrupts;

/* Signals sent by users, closing terminals and system shutdown. */
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

static void on_interrupt(int number) { tn_tuner_stop(interrupted, atomic_fetch_add(&interrupts, 1) > 0); }

static void on_progress(void *user, const tn_tuner *tuner) {
  tuning *t = user;
  int count = atomic_load(&interrupts);
  if (count > t->interrupts)
    tune_view_say(&t->view, count == 1 ? "finishing what is in flight; once more, and it stops at once"
                                       : "stopping at once; all that has ended is kept");
  t->interrupts = count;
  tune_view_show(&t->view, tuner);
}

static tn_status *run_tuner(tuning *t) {
  enum { SIGNALS = sizeof ending / sizeof ending[0] };
  const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
  struct sigaction before[SIGNALS];
  interrupted = t->tuner;
  for (int i = 0; i < SIGNALS; i++) { /* keep ignored signals ignored, as under nohup */
    sigaction(ending[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(ending[i], &action, NULL);
  }
  tn_status *status = tn_tuner_run(t->tuner);
  for (int i = 0; i < SIGNALS; i++) sigaction(ending[i], &before[i], NULL);
  tune_view_end(&t->view);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static const char *name_of(const tuning *t, int task) {
  tn_task_view v = {.size = sizeof v};
  tn_status_free(tn_tuner_look_at(t->tuner, task, &v));
  return v.task->name;
}

/* Kernels of several files may have one name. */
static int same_names_before(const tuning *t, int task) {
  int count = 0;
  for (int i = 0; i < task; i++) count += strcmp(name_of(t, i), name_of(t, task)) == 0;
  return count;
}

static tn_status *save_table(const tuning *t, int task, int *made) {
  char path[256];
  tn_task_view v = {.size = sizeof v};
  TN_RETURN_IF_ERROR(tn_tuner_look_at(t->tuner, task, &v));
  int before = same_names_before(t, task);
  if (before == 0)
    snprintf(path, sizeof path, "%.200s.table.gz", v.task->name);
  else
    snprintf(path, sizeof path, "%.200s-%d.table.gz", v.task->name, before + 1);
  tn_status *status = tn_tuner_save_table(t->tuner, task, path);
  tn_status_code code = tn_status_code_of(status);
  if (status == NULL) {
    printf("%s: %lld candidates, the static choice takes %.2f times the best\n", path, (long long)v.trials,
           v.static_seconds / v.best_seconds);
    ++*made;
  } else if (code == TN_FAILED_PRECONDITION || code == TN_NOT_FOUND) { /* the others may have one */
    printf("%s\n", tn_status_message(status));
    tn_status_free(status);
    status = NULL;
  }
  return status;
}

/* A table of each task whose space was gone through. */
static int save_tables(const tuning *t, int tasks) {
  int made = 0;
  for (int i = 0; i < tasks; i++) {
    tn_status *status = save_table(t, i, &made);
    if (status != NULL) return cli_report(status);
  }
  return made > 0 ? EXIT_DONE : EXIT_FAILED;
}

static int threads_of(const tuning *t) {
  tn_task_view v = {.size = sizeof v};
  tn_status_free(tn_tuner_look_at(t->tuner, 0, &v));
  return v.task->threads;
}

/* As a shell reads it: targets have blanks and semicolons, patterns stars. */
static void print_word(const char *option, const char *word) {
  bool plain = word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+./,:=@%")] == '\0';
  printf(" %s %s", option, plain ? word : "'");
  if (plain) return;
  for (; *word != '\0'; word++) fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, stdout);
  putchar('\'');
}

/* The command that takes the schedules, which are for one target and number of threads: `tenon build` has one thread by
 * itself. */
static void print_use(const tuning *t, const char *file) {
  bool declared = cli_is_declarations(file);
  static const char *const of_models[] = {"--host", "--place", "--memory"};
  const char *target = cli_value(t->args, "--target"), *name = strrchr(file, '/');
  name = name != NULL ? name + 1 : file;
  const char *dot = strrchr(name, '.');
  printf("  tenon %s %s --tuned %s", declared ? "build" : "compile", file, t->output);
  if (target != NULL) print_word("--target", target);
  for (size_t i = 0; i < sizeof of_models / sizeof of_models[0] && !declared; i++) {
    int position = 0;
    for (const char *said; (said = cli_next(t->args, of_models[i], &position)) != NULL;) print_word(of_models[i], said);
  }
  if (declared || cli_value(t->args, "--threads") != NULL) printf(" --threads %d", threads_of(t));
  int position = 0;
  for (const char *dim; (dim = cli_next(t->args, "--dim", &position)) != NULL;) printf(" --dim %s", dim);
  printf(" -o %.*s%s\n", dot != NULL ? (int)(dot - name) : (int)strlen(name), name, declared ? "" : ".tnx");
}

static tn_status *write_schedules(const tuning *t, const char *schedules) {
  const tn__bytes parts[] = {{schedules, strlen(schedules)}, {tn__strbuf_text(&t->variants), t->variants.length}};
  return tn__file_write_atomic(t->output, parts, 2, 0644);
}

static int save(tuning *t) {
  int count = 0;
  char *text;
  tn_status *status = tn_tuner_schedules(t->tuner, &text, &count);
  if (status != NULL) return cli_report(status);
  status = write_schedules(t, text);
  free(text);
  if (status != NULL) return cli_report(status);
  printf("%s: %d schedule%s faster than the static choice%s", t->output, count, count == 1 ? "" : "s",
         count > 0 ? "; --tuned takes them:\n" : "\n");
  for (int i = 0; i < t->args->file_count && count > 0; i++) print_use(t, t->args->files[i]);
  return EXIT_DONE;
}

/* What graphs decide comes first, and is in the file from then on: kernels are those of the graphs as they are decided.
 */
static tn_status *decide_variants(tuning *t) {
  if (!cli_flag(t->args, "--variants")) return NULL;
  double started = tn__now(), *budget = &t->options.budget_seconds;
  const tune_sites words = {.options = &t->setup.options,
                            .database = t->options.database,
                            .most_seconds = *budget / 4,
                            .quiet = cli_flag(t->args, "--quiet")};
  for (int i = 0; i < t->args->file_count; i++)
    if (!cli_is_declarations(t->args->files[i]))
      TN_RETURN_IF_ERROR(tune_sites_decide(&words, t->args->files[i], &t->variants));
  TN_RETURN_IF_ERROR(tn__strbuf_status(&t->variants));
  if (*budget > 0) *budget = fmax(*budget - (tn__now() - started), *budget / 2);
  if (t->variants.length == 0) return NULL;
  TN_RETURN_IF_ERROR(write_schedules(t, "tenon schedules 1\n"));
  t->setup.options.tuned = t->output;
  return NULL;
}

static int tune(tuning *t) {
  tn_tuner_view v = {.size = sizeof v};
  tn_status *status = NULL;
  int result = EXIT_DONE;
  for (int i = 0; i < t->args->file_count && status == NULL; i++) status = add_file(t, t->args->files[i]);
  if (status == NULL) status = run_tuner(t);
  tn_status_free(tn_tuner_look(t->tuner, &v));
  if (v.phase != TN_TUNER_DONE || v.trials + v.known == 0) /* nothing was begun */
    return status != NULL ? cli_report(status) : EXIT_DONE;
  tune_print_result(t->tuner, stdout);
  if (t->options.points > 0)
    result = save_tables(t, v.tasks);
  else if (v.end == TN_TUNER_FAILED || v.end == TN_TUNER_STOPPED_AT_ONCE)
    /* what is there may be of comparisons that were not made now */
    printf("%s is left as it is: not all that is known was compared; start again to go on\n", t->output);
  else
    result = save(t);
  return status != NULL ? cli_report(status) : result;
}

static int run(const cli_args *args) {
  static tuning t;          /* large; the process has one command */
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told like a full disk */
  t.args = args;
  int result = read_arguments(&t);
  if (result != EXIT_DONE) return result;
  tune_view_begin(&t.view, cli_flag(args, "--quiet"));
  t.options.size = sizeof t.options;
  t.options.log = t.setup.options.log;
  t.options.progress = on_progress;
  t.options.user = &t;
  tn__strbuf_init(&t.variants, NULL);
  result = cli_report(decide_variants(&t));
  if (result == EXIT_DONE) result = cli_report(tn_tuner_create(&t.options, &t.tuner));
  if (result == EXIT_DONE) result = tune(&t);
  tn_tuner_release(t.tuner);
  tn__strbuf_release(&t.variants);
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
