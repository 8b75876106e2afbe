/* tenon tune report: what a database tells of tuning, as one page for a browser. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "tune/tuner/tasks.h"
#include "tune_cli/report.h"
#include "tune_cli/tune_cli.h"

static const cli_option options[] = {
    {"--database", "FILE", "the records (default: $TENON_TUNE_DB, else tuning.db in the compile cache's folder)"},
    {"--task", "HASH|NAME", "of this task alone: its hash, how it begins, or its name; may be repeated",
     .repeats = true},
    {"--measured-on", "TEXT", "of the machine of this fingerprint (default: that of the newest record)"},
    {"--output", "FILE", "where to write the page (also -o; default: report.html)", .writes = true},
    CLI_COMPILE_OPTIONS,
    {0}};

typedef struct reporting {
  const cli_args *args;
  cli_compile setup;
  tn__task_list *inputs;
  tn_database *database;
  report_words words;
  const char *output;
  report report;
} reporting;

/* The inputs' tasks, and how often each is called. */
static int read_inputs(reporting *rp) {
  tn_status *status = tn__tasks_create(&rp->inputs);
  for (int i = 0; i < rp->args->file_count && status == NULL; i++) {
    const char *path = rp->args->files[i];
    int left_out = 0;
    if (cli_is_declarations(path))
      status = tn__tasks_add_declarations(rp->inputs, path, NULL, 0, NULL, &rp->setup.options);
    else
      status = tn__tasks_add_model(rp->inputs, path, NULL, 0, NULL, &rp->setup.options, NULL, &left_out);
    if (status == NULL && left_out > 0)
      fprintf(stderr, "tenon: %s: %d kernel%s of open sizes %s not in it; --dim NAME=N fixes a size\n", path, left_out,
              tn__plural(left_out), left_out == 1 ? "is" : "are");
  }
  rp->words.inputs = rp->inputs;
  return cli_report(status);
}

static void make(tn__arena *arena, void *user) {
  reporting *rp = user;
  tn__strbuf page;
  rp->report = (report){.arena = arena};
  tune_report_read(&rp->report, rp->database, &rp->words);
  tune_report_sum_up(&rp->report);
  tn__strbuf_init(&page, NULL);
  tune_report_print(&rp->report, &page);
  size_t length = page.length;
  const char *text = tn__arena_take(arena, &page);
  tn__check(arena->escape, tn__file_write_atomic(rp->output, &(tn__bytes){text, length}, 1, 0644));
}

static int write_report(reporting *rp) {
  const tn_database_options opening = {.size = sizeof opening, .read_only = true};
  int result = cli_report(tn_database_open(cli_value(rp->args, "--database"), &opening, &rp->database));
  if (result != EXIT_DONE) return result;
  if (tn__same_file(rp->output, tn_database_path(rp->database)))
    return cli_misused(rp->args->command, "the page would take the place of the database \"%s\"", rp->output);
  result = cli_report(tn__with_arena(NULL, make, rp));
  if (result != EXIT_DONE) return result;
  const report *r = &rp->report; /* its arena is gone: numbers alone */
  cli_put_shown(stdout, rp->output);
  printf(": %d task%s\n", r->tasks.count, tn__plural(r->tasks.count));
  if (r->newer > 0)
    fprintf(stderr, "tenon: %lld record%s in formats of a newer Tenon %s not in it\n", (long long)r->newer,
            tn__plural(r->newer), r->newer == 1 ? "is" : "are");
  if (r->elsewhere > 0)
    fprintf(stderr, "tenon: %lld record%s of other machines %s not in it; --measured-on chooses another\n",
            (long long)r->elsewhere, tn__plural(r->elsewhere), r->elsewhere == 1 ? "is" : "are");
  return EXIT_DONE;
}

static int run(const cli_args *args) {
  static reporting rp; /* large; the process has one command */
  static const char *tasks[CLI_MOST_SETTINGS];
  int position = 0, result = EXIT_DONE;
  rp.args = args;
  rp.words = (report_words){.machine = cli_value(args, "--measured-on"), .tasks = tasks};
  for (const char *v = cli_next(args, "--task", &position); v; v = cli_next(args, "--task", &position))
    tasks[rp.words.task_count++] = v;
  rp.output = cli_value(args, "--output") ? cli_value(args, "--output") : "report.html";
  if (!cli_compile_setup(args, &rp.setup)) return EXIT_MISUSED;
  rp.setup.options.progress = NULL;
  const char *taken = cli_taken_place(args, rp.output);
  if (taken) return cli_misused(args->command, "%s would take the place of %s", rp.output, taken);
  result = cli_report(cli_check_place(rp.output, ""));
  if (result == EXIT_DONE && args->file_count > 0) result = read_inputs(&rp);
  if (result == EXIT_DONE) result = write_report(&rp);
  tn_database_release(rp.database);
  tn__tasks_release(rp.inputs);
  return result;
}

static const cli_command command = {.name = "tune report",
                                    .arguments = "[FILE...] [OPTIONS]",
                                    .summary =
                                        "Write a page about what was measured: of these files' kernels, with "
                                        "how often each is called, or of all",
                                    .options = options,
                                    .run = run,
                                    .most_files = CLI_MOST_FILES,
                                    .optional = true};

int tune_report_main(int argc, char **argv) { return cli_do(&command, argc, argv); }
