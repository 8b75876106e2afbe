/* tenon machine --from-records: the machine's numbers, fitted to what candidates took on it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "machine/identity.h"
#include "machine/machine_file.h"
#include "target/text/text.h"
#include "tenon/database.h"
#include "tune/search/fit.h"
#include "tune_cli/tune_cli.h"

static const cli_option options[] = {
    {"--from-records", "FILE", "the database of tuning records"},
    {"--target", "TARGET", "fit to records of this target, beginning with what is usual for it"},
    {"--no-measure", NULL, "begin with what is usual for CPUs like this one, not with what was measured"},
    {"--output", "FILE", "write it to a file (also -o), for --machine; default: the screen", .writes = true},
    {0}};

typedef struct fitting {
  const char *path;
  tn_database *database;
  tn__target target;
  char machine[TN__MACHINE_IDENTITY_BYTES]; /* the fingerprint of this machine */
  tn__fit *fit;
  tn_status *status;
  int64_t elsewhere, other_target; /* records that are passed over */
  char other_machine[128], target_seen[256];
} fitting;

/* ---- records ----------------------------------------------------------------------------------------------------- */

static bool add_record(void *user, const tn_record *record) {
  fitting *f = user;
  f->status = tn__fit_record(f->fit, record->rule, record->decisions, record->median);
  return f->status == NULL;
}

static bool add_task(void *user, const tn_task_records *task) {
  fitting *f = user;
  if (task->records == 0) return true;
  if (strcmp(task->kernel->target, f->target.name) != 0) {
    f->other_target += task->records;
    snprintf(f->target_seen, sizeof f->target_seen, "%s", task->kernel->target);
    return true;
  }
  const tn_record_filter filter = {
      .size = sizeof filter, .task = task->hash, .machine = f->machine, .errors = 1u << TN_TRIAL_OK};
  f->status = tn__fit_task(f->fit, task->kernel);
  tn_status *asked = f->status == NULL ? tn_database_query(f->database, &filter, add_record, f, NULL) : NULL;
  if (f->status == NULL)
    f->status = asked;
  else
    tn_status_free(asked);
  return f->status == NULL;
}

static bool count_elsewhere(void *user, const tn_record *record) {
  fitting *f = user;
  if (strcmp(record->machine, f->machine) == 0) return true;
  if (f->elsewhere++ == 0) snprintf(f->other_machine, sizeof f->other_machine, "%s", record->machine);
  return true;
}

/* Why there are not enough. */
static tn_status *too_few(fitting *f) {
  int count = tn__fit_records(f->fit);
  const tn_record_filter timed = {.size = sizeof timed, .errors = 1u << TN_TRIAL_OK};
  TN_RETURN_IF_ERROR(tn_database_query(f->database, &timed, count_elsewhere, f, NULL));
  if (count == 0 && f->other_target > 0)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "%s: none of this machine's records is for %s, and %lld are for other targets, as %s: "
                            "--target names one",
                            f->path, f->target.name, (long long)f->other_target, f->target_seen);
  if (count == 0 && f->elsewhere > 0)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "%s: none of its %lld times was measured on this machine, %s, but on others, as %s: "
                            "`tenon tune` measures here",
                            f->path, (long long)f->elsewhere, f->machine, f->other_machine);
  if (count == 0)
    return tn_status_create(TN_FAILED_PRECONDITION, "%s: no record has a time: `tenon tune` measures some", f->path);
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "%s: %d record%s of this machine and target %s too few to fit numbers to: `tenon tune` "
                          "measures more, and %d are wanted at least",
                          f->path, count, count == 1 ? "" : "s", count == 1 ? "is" : "are", TN__FIT_LEAST);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* The target with the machine that `tenon machine` would print. */
static tn_status *begin(fitting *f, const tn_compile_options *words) {
  char *text;
  TN_RETURN_IF_ERROR(tn__target_parse(words->target, &f->target));
  TN_RETURN_IF_ERROR(tn_machine_text(words, false, &text));
  tn__machine machine = f->target.cpu.row;
  tn_status *status = tn__machine_read("the machine", text, strlen(text), f->target.cpu.arch, &machine);
  free(text);
  if (status != NULL) return status;
  tn__target_use(&f->target, &machine);
  tn__machine_identity("", f->machine);
  return tn__fit_create(&f->target, &f->fit);
}

static void print_correlation(tn__strbuf *out, double correlation) {
  if (isnan(correlation))
    tn__strbuf_append(out, "unknown");
  else
    tn__strbuf_printf(out, "%.2f", correlation);
}

/* How good it is, as comments of the file. */
static void print_result(const fitting *f, const tn__fit_result *r, tn__strbuf *out) {
  tn__strbuf_printf(out, "# %s, %s\n", f->machine, f->target.name);
  tn__strbuf_printf(out, "# fitted to %d records of %d kernel%s, and judged by %d others:\n",
                    r->records - r->kept_apart, r->tasks, r->tasks == 1 ? "" : "s", r->kept_apart);
  tn__strbuf_append(out, "# rank correlation of predicted and measured times ");
  print_correlation(out, r->correlation[0]);
  tn__strbuf_append(out, " before, ");
  print_correlation(out, r->correlation[1]);
  tn__strbuf_printf(out, " after; median error %.2f times before, %.2f after\n", r->error[0], r->error[1]);
  if (!r->better) tn__strbuf_append(out, "# that is no better, and so all numbers are as they were\n");
}

static tn_status *fit(fitting *f, tn__strbuf *out) {
  tn__fit_result result;
  if (tn__fit_records(f->fit) < TN__FIT_LEAST) return too_few(f);
  TN_RETURN_IF_ERROR(tn__fit_run(f->fit, &result));
  print_result(f, &result, out);
  tn__machine_print(&result.machine, f->target.cpu.arch, out);
  return tn__strbuf_status(out);
}

static tn_status *read_records(fitting *f) {
  const tn_database_options words = {.size = sizeof words, .read_only = true};
  const tn_record_filter filter = {.size = sizeof filter, .machine = f->machine, .errors = 1u << TN_TRIAL_OK};
  TN_RETURN_IF_ERROR(tn_database_open(f->path, &words, &f->database));
  TN_RETURN_IF_ERROR(tn_database_tasks(f->database, &filter, add_task, f));
  return f->status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run(const cli_args *args) {
  static cli_compile setup;
  static fitting f;
  const char *output = cli_value(args, "--output");
  tn__strbuf text;
  f.path = cli_value(args, "--from-records");
  if (f.path == NULL) return cli_misused("machine", "here it is --from-records FILE that is wanted");
  if (!cli_compile_setup(args, &setup)) return EXIT_MISUSED;
  const char *taken = output != NULL ? cli_taken_place(args, output) : NULL;
  if (taken != NULL) return cli_misused("machine", "%s would take the place of %s", output, taken);
  tn__strbuf_init(&text, NULL);
  tn_status *status = begin(&f, &setup.options);
  if (status == NULL) status = read_records(&f);
  if (status == NULL) status = fit(&f, &text);
  if (status == NULL && output != NULL)
    status = tn__file_write_atomic(output, &(tn__bytes){tn__strbuf_text(&text), text.length}, 1, 0644);
  else if (status == NULL)
    fputs(tn__strbuf_text(&text), stdout);
  tn__strbuf_release(&text);
  tn__fit_release(f.fit);
  tn_database_release(f.database);
  return cli_report(status);
}

static const cli_command command = {.name = "machine",
                                    .arguments = "--from-records FILE [OPTIONS]",
                                    .summary = "Tell a machine's numbers as the tuning records of it have them",
                                    .options = options,
                                    .run = run,
                                    .most_files = CLI_NO_FILES};

int tune_machine_main(int argc, char **argv) { return cli_do(&command, argc, argv); }
