/* tenon db: what tuning records there are, and what becomes of them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "tune_cli/db_print.h"
#include "tune_cli/tune_cli.h"

#define DATABASE_OPTIONS                                                                                         \
  {"--database", "FILE", "the records (default: $TENON_TUNE_DB, else tuning.db in the compile cache's folder)"}, \
      {"--wait", "SECONDS", "wait so long for other processes that write (default 10)"}
#define TASK_OPTIONS                                                                                           \
  {"--task", "HASH", "of this task: its hash, or how it begins"}, {"--name", "NAME", "of tasks of this name"}, \
      {"--target", "TARGET", "for this target"}
#define RECORD_OPTIONS                                                                                                 \
  TASK_OPTIONS, {"--machine", "TEXT", "measured on the machine of this fingerprint"},                                  \
      {"--ended", "HOW", "that ended so: ok, instantiation, \"host compile\", ...; may be repeated", .repeats = true}, \
      {"--failed", NULL, "that have no time"},                                                                         \
      {"--origin", "WORD", "that came from static, search, exhaustive or import; may be repeated", .repeats = true},   \
      {"--verified", NULL, "whose results were compared"},                                                             \
      {"--newer-than", "AGE", "measured since then: 90s, 30m, 12h, 7d, 4w"},                                           \
      {"--older-than", "AGE", "not measured since then"}
#define JSON_OPTION {"--json", NULL, "print the result as JSON"}

/* ---- what commands share ----------------------------------------------------------------------------------------- */

/* A number above or equal to 0, and the letter behind it, if there is one; false when it is neither. */
TN_MUST_USE static bool read_amount(const char *text, double *number, char *letter) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  *letter = *end;
  bool plain = text[0] >= '0' && text[0] <= '9' && strspn(text, "0123456789.") == (size_t)(end - text);
  return plain && !errno && isfinite(*number) && (!*end || !end[1]);
}

/* The time that was so long ago; untouched without the option. */
TN_MUST_USE static bool read_age(const cli_args *args, const char *name, double *out) {
  static const char letters[] = "smhdw";
  static const double seconds[] = {1, 60, 3600, 86400, 7 * 86400.0};
  const char *text = cli_value(args, name), *unit;
  double number;
  char letter;
  if (!text) return true;
  if (!read_amount(text, &number, &letter) || !letter || !(unit = strchr(letters, letter))) {
    cli_misused(args->command, "%s takes a time like 90s, 30m, 12h, 7d or 4w, not \"%s\"", name, text);
    return false;
  }
  double then = (double)time(NULL) - number * seconds[unit - letters];
  *out = then < 1 ? 1 : then;
  return true;
}

/* EXIT_DONE, or why not. */
TN_MUST_USE static int open_database(const cli_args *args, bool read_only, tn_database **out) {
  tn_database_options options = {.size = sizeof options, .read_only = read_only};
  const char *wait = cli_value(args, "--wait");
  char letter;
  *out = NULL;
  if (wait && (!read_amount(wait, &options.wait_seconds, &letter) || letter))
    return cli_misused(args->command, "--wait takes a number of seconds, not \"%s\"", wait);
  if (wait && options.wait_seconds == 0) options.wait_seconds = -1;
  return cli_report(tn_database_open(cli_value(args, "--database"), &options, out));
}

/* A bit for each name that the option was given; false after saying which there are. */
TN_MUST_USE static bool read_names(const cli_args *args, const char *option, int count, const char *(*name_of)(int),
                                   unsigned *bits) {
  int position = 0;
  for (const char *v = cli_next(args, option, &position); v; v = cli_next(args, option, &position)) {
    int found = 0;
    while (found < count && strcmp(name_of(found), v) != 0) found++;
    if (found == count) {
      tn__strbuf all;
      tn__strbuf_init(&all, NULL);
      for (int i = 0; i < count; i++)
        tn__strbuf_printf(&all, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", name_of(i));
      cli_misused(args->command, "%s takes %s, not \"%s\"", option, tn__strbuf_text(&all), v);
      tn__strbuf_release(&all);
      return false;
    }
    *bits |= 1u << found;
  }
  return true;
}

static const char *error_name(int number) { return tn_trial_error_name((tn_trial_error)number); }
static const char *origin_name(int number) { return tn_record_origin_name((tn_record_origin)number); }

TN_MUST_USE static bool read_filter(const cli_args *args, tn_record_filter *out) {
  static const char *const orders[] = {"added", "newest", "fastest", NULL};
  const char *order = cli_value(args, "--order");
  *out = (tn_record_filter){.size = sizeof *out,
                            .task = cli_value(args, "--task"),
                            .name = cli_value(args, "--name"),
                            .target = cli_value(args, "--target"),
                            .machine = cli_value(args, "--machine"),
                            .verified = cli_flag(args, "--verified")};
  if (!cli_word(args, "--order", orders) || !cli_number(args, "--limit", 1, INT64_MAX, &out->limit) ||
      !read_age(args, "--newer-than", &out->since) || !read_age(args, "--older-than", &out->until) ||
      !read_names(args, "--ended", TN_TRIAL_ERRORS, error_name, &out->errors) ||
      !read_names(args, "--origin", TN_RECORD_ORIGINS, origin_name, &out->origins))
    return false;
  if (cli_flag(args, "--failed") && out->errors) {
    cli_misused(args->command, "--failed and --ended say two things: give one of them");
    return false;
  }
  if (cli_flag(args, "--failed")) out->errors = ~1u;
  for (int i = 0; order && orders[i]; i++)
    if (strcmp(orders[i], order) == 0) out->order = (tn_record_order)i;
  return true;
}

/* What a command prints, once all of it is there. */
typedef struct output {
  tn__strbuf text;
  bool json;
  int64_t count, newer;
} output;

TN_MUST_USE static int print(output *out, tn_status *status) {
  if (!status) status = tn__strbuf_status(&out->text);
  if (!status) fputs(tn__strbuf_text(&out->text), stdout);
  tn__strbuf_release(&out->text);
  return cli_report(status);
}

/* Records that a newer Tenon wrote are never passed over in silence. */
static void tell_newer(int64_t count, const char *what) {
  if (count > 0)
    fprintf(stderr, "tenon: %lld record%s in formats of a newer Tenon %s\n", (long long)count, tn__plural(count), what);
}

/* ---- list, query, show ------------------------------------------------------------------------------------------- */

/* Each kind of line in text and in JSON, and what asks for them. */
typedef struct listing {
  const char *json_begin, *newer;
  void (*heading)(tn__strbuf *out);
  tn_status *(*ask)(tn_database *db, const tn_record_filter *filter, output *out);
} listing;

static bool list_task(void *user, const tn_task_records *task) {
  output *out = user;
  out->newer += task->newer;
  if (out->json && out->count > 0) tn__strbuf_append(&out->text, ",\n");
  (out->json ? tune_db_json_task : tune_db_put_task)(&out->text, task);
  out->count++;
  return true;
}

static bool list_record(void *user, const tn_record *record) {
  output *out = user;
  if (out->json && out->count > 0) tn__strbuf_append(&out->text, ",\n");
  (out->json ? tune_db_json_record : tune_db_put_record)(&out->text, record);
  out->count++;
  return true;
}

static tn_status *ask_tasks(tn_database *db, const tn_record_filter *filter, output *out) {
  return tn_database_tasks(db, filter, list_task, out);
}

static tn_status *ask_records(tn_database *db, const tn_record_filter *filter, output *out) {
  return tn_database_query(db, filter, list_record, out, &out->newer);
}

static int print_listing(const cli_args *args, const listing *l) {
  output out = {.json = cli_flag(args, "--json")};
  tn_record_filter filter;
  tn_database *db;
  if (!read_filter(args, &filter)) return EXIT_MISUSED;
  int result = open_database(args, true, &db);
  if (result) return result;
  tn__strbuf_init(&out.text, NULL);
  if (out.json)
    tn__strbuf_append(&out.text, l->json_begin);
  else
    l->heading(&out.text);
  tn_status *status = l->ask(db, &filter, &out);
  if (out.json) tn__strbuf_printf(&out.text, "\n], \"newer\": %lld}\n", (long long)out.newer);
  tn_database_release(db);
  if (!status) tell_newer(out.newer, l->newer);
  return print(&out, status);
}

static int list(const cli_args *args) {
  static const listing tasks = {"{\"tasks\": [\n", "are not counted", tune_db_task_heading, ask_tasks};
  return print_listing(args, &tasks);
}

static int query(const cli_args *args) {
  static const listing records = {"{\"records\": [\n", "were passed over", tune_db_record_heading, ask_records};
  return print_listing(args, &records);
}

typedef struct showing {
  output out;
  tn_database *db;
  const char *machine;
  tn_status *status;
} showing;

static bool show_task(void *user, const tn_task_records *task) {
  showing *s = user;
  tn_record *best;
  s->status = tn_database_winner(s->db, task->hash, s->machine, &best);
  if (!s->status && !best) s->status = tn_database_best(s->db, task->hash, s->machine, &best);
  if (s->status) return false;
  tn__strbuf *text = &s->out.text;
  if (s->out.count++ > 0) tn__strbuf_append(text, s->out.json ? ",\n" : "\n");
  if (s->out.json) {
    tn__strbuf_append(text, "{\"task\": ");
    tune_db_json_task(text, task);
    tn__strbuf_append(text, ", \"declaration\": ");
    tn__strbuf_json_string(text, task->kernel->declaration);
    tn__strbuf_append(text, ", \"best\": ");
    if (best)
      tune_db_json_record(text, best);
    else
      tn__strbuf_append(text, "null");
    tn__strbuf_char(text, '}');
  } else {
    tune_db_describe(text, task, best);
    if (best && best->other_machine) tn__strbuf_append(text, "(of another machine than the one asked for)\n");
  }
  s->out.newer += task->newer;
  tn_record_release(best);
  return true;
}

static int show(const cli_args *args) {
  showing s = {.out.json = cli_flag(args, "--json"), .machine = cli_value(args, "--machine")};
  tn_record_filter by_hash = {.size = sizeof by_hash, .task = args->file};
  tn_record_filter by_name = {.size = sizeof by_name, .name = args->file};
  int result = open_database(args, true, &s.db);
  if (result) return result;
  tn__strbuf_init(&s.out.text, NULL);
  if (s.out.json) tn__strbuf_append(&s.out.text, "{\"tasks\": [\n");
  tn_status *status = NULL;
  if (strspn(args->file, "0123456789abcdef") == strlen(args->file) && strlen(args->file) <= 64)
    status = tn_database_tasks(s.db, &by_hash, show_task, &s);
  if (!status && !s.status && s.out.count == 0) status = tn_database_tasks(s.db, &by_name, show_task, &s);
  if (!status) status = s.status;
  if (!status && s.out.count == 0)
    status = tn_status_create(TN_NOT_FOUND, "%s: there is no task \"%s\"; `tenon db list` lists them",
                              tn_database_path(s.db), args->file);
  if (s.out.json) tn__strbuf_append(&s.out.text, "\n]}\n");
  tn_database_release(s.db);
  if (!status) tell_newer(s.out.newer, "are not counted");
  return print(&s.out, status);
}

/* ---- prune ------------------------------------------------------------------------------------------------------- */

static int prune(const cli_args *args) {
  static const char *tasks[CLI_MOST_SETTINGS];
  tn_prune_options options = {.size = sizeof options,
                              .failed = cli_flag(args, "--failed"),
                              .tasks = tasks,
                              .only_count = cli_flag(args, "--dry-run")};
  tn_database *db;
  int position = 0;
  int64_t removed = 0;
  for (const char *v = cli_next(args, "--only", &position); v; v = cli_next(args, "--only", &position))
    tasks[options.task_count++] = v;
  if (!cli_number(args, "--keep", 1, INT64_MAX, &options.keep) || !read_age(args, "--older-than", &options.older_than))
    return EXIT_MISUSED;
  if (!options.failed && !options.task_count && !options.keep && options.older_than == 0)
    return cli_misused(args->command, "what goes? Say --older-than, --keep, --only or --failed");
  int result = open_database(args, false, &db);
  if (result) return result;
  tn_status *status = tn_database_prune(db, &options, &removed);
  tn_database_release(db);
  if (status) return cli_report(status);
  if (cli_flag(args, "--json"))
    printf("{\"removed\": %lld, \"dry_run\": %s}\n", (long long)removed, options.only_count ? "true" : "false");
  else
    printf("%lld record%s %s\n", (long long)removed, tn__plural(removed),
           options.only_count ? "would be removed" : "removed");
  return EXIT_DONE;
}

/* ---- merge, import, export --------------------------------------------------------------------------------------- */

static void put_change(tn__strbuf *out, const char *path, const tn_database_change *c, bool json) {
  if (json) {
    tn__strbuf_append(out, "{\"file\": ");
    tn__strbuf_json_string(out, path);
    tn__strbuf_printf(out,
                      ", \"tasks\": %lld, \"records\": %lld, \"measurements\": %lld, \"known\": %lld, \"newer\": "
                      "%lld, \"unknown_fields\": %lld, \"without_trace\": %lld}",
                      (long long)c->tasks, (long long)c->records, (long long)c->measurements, (long long)c->known,
                      (long long)c->newer, (long long)c->unknown_fields, (long long)c->without_trace);
    return;
  }
  tn__strbuf_shown(out, path);
  tn__strbuf_printf(out, ": %lld new task%s, %lld new record%s, %lld measured again, %lld known", (long long)c->tasks,
                    tn__plural(c->tasks), (long long)c->records, tn__plural(c->records), (long long)c->measurements,
                    (long long)c->known);
  if (c->unknown_fields > 0)
    tn__strbuf_printf(out, "; %lld unknown field%s passed over", (long long)c->unknown_fields,
                      tn__plural(c->unknown_fields));
  tn__strbuf_char(out, '\n');
}

typedef tn_status *(*taking)(tn_database *database, const char *path, tn_database_change *out);

/* Each file is a transaction of its own: what came before one that is wrong is told, and stays. */
static int take_files(const cli_args *args, taking take, const char *newer) {
  output out = {.json = cli_flag(args, "--json")};
  tn_database *db;
  tn_database_change change = {.size = sizeof change};
  tn_status *status = NULL;
  int result = open_database(args, false, &db);
  if (result) return result;
  tn__strbuf_init(&out.text, NULL);
  if (out.json) tn__strbuf_append(&out.text, "{\"files\": [");
  for (int i = 0; i < args->file_count && !status; i++) {
    status = take(db, args->files[i], &change);
    if (status) break;
    if (out.json && i > 0) tn__strbuf_append(&out.text, ",\n");
    put_change(&out.text, args->files[i], &change, out.json);
    tell_newer(change.newer, newer);
  }
  if (out.json) tn__strbuf_append(&out.text, "]}\n");
  tn_database_release(db);
  fputs(tn__strbuf_text(&out.text), stdout);
  if (!status) status = tn__strbuf_status(&out.text);
  tn__strbuf_release(&out.text);
  return cli_report(status);
}

static int merge(const cli_args *args) {
  return take_files(args, tn_database_merge, "were taken over, for a newer one to read");
}

static int import(const cli_args *args) {
  return take_files(args, tn_database_import, "were left out: import them with that one");
}

static int write_export(const cli_args *args, tn_database *db, const tn_record_filter *filter) {
  tn_database_change change = {.size = sizeof change};
  const char *path = cli_value(args, "--output"), *machine = cli_value(args, "--machine");
  char *text = NULL;
  bool best = cli_flag(args, "--best");
  tn_status *status = best   ? tn_database_save_best(db, filter, machine, path, &change)
                      : path ? tn_database_export(db, filter, path, &change)
                             : tn_database_export_text(db, filter, &text, &change);
  if (!status && text) fputs(text, stdout);
  free(text);
  if (status) return cli_report(status);
  tell_newer(change.newer, "were left out");
  if (change.without_trace > 0)
    fprintf(stderr, "tenon: %lld task%s left out: no schedule was shown to be faster than the static choice here\n",
            (long long)change.without_trace, tn__plural(change.without_trace));
  if (path && cli_flag(args, "--json")) {
    output out = {.json = true};
    tn__strbuf_init(&out.text, NULL);
    put_change(&out.text, path, &change, true);
    tn__strbuf_char(&out.text, '\n');
    return print(&out, NULL);
  }
  if (path) {
    cli_put_shown(stdout, path);
    printf(": %lld task%s, %lld record%s\n", (long long)change.tasks, tn__plural(change.tasks),
           (long long)change.records, tn__plural(change.records));
  }
  return EXIT_DONE;
}

static int export_records(const cli_args *args) {
  static const char *const of_records[] = {"--ended",      "--failed", "--origin", "--verified", "--newer-than",
                                           "--older-than", "--limit",  "--order",  NULL};
  const char *path = cli_value(args, "--output");
  tn_record_filter filter;
  tn_database *db;
  bool best = cli_flag(args, "--best");
  if (!read_filter(args, &filter)) return EXIT_MISUSED;
  if (best && !path) return cli_misused(args->command, "--best writes a file: --output FILE");
  if (best && cli_refuse(args, of_records, "does not go with --best, which takes the best of each task"))
    return EXIT_MISUSED;
  if (cli_flag(args, "--json") && !path)
    return cli_misused(args->command, "--json tells what was written, and without --output that is the records");
  int result = open_database(args, true, &db);
  if (result) return result;
  if (path && tn__same_file(path, tn_database_path(db)))
    result = cli_misused(args->command, "the result would take the place of the database \"%s\"", path);
  else
    result = write_export(args, db, &filter);
  tn_database_release(db);
  return result;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

static const cli_option list_options[] = {DATABASE_OPTIONS, TASK_OPTIONS, JSON_OPTION, {0}};
static const cli_option query_options[] = {DATABASE_OPTIONS,
                                           RECORD_OPTIONS,
                                           {"--order", "WORD", "added (default), newest or fastest first"},
                                           {"--limit", "N", "the first N"},
                                           JSON_OPTION,
                                           {0}};
static const cli_option show_options[] = {
    DATABASE_OPTIONS, {"--machine", "TEXT", "the best on the machine of this fingerprint first"}, JSON_OPTION, {0}};
static const cli_option prune_options[] = {
    DATABASE_OPTIONS,
    {"--older-than", "AGE", "what was not measured since then: 90s, 30m, 12h, 7d, 4w"},
    {"--keep", "N", "of each task, on each machine, all but the N fastest"},
    {"--only", "HASH", "all tasks but this one: its hash, or how it begins; may be repeated", .repeats = true},
    {"--failed", NULL, "what has no time"},
    {"--dry-run", NULL, "remove nothing, and say how many would go"},
    JSON_OPTION,
    {0}};
static const cli_option take_options[] = {DATABASE_OPTIONS, JSON_OPTION, {0}};
static const cli_option export_options[] = {
    DATABASE_OPTIONS,
    RECORD_OPTIONS,
    {"--order", "WORD", "added (default), newest or fastest first"},
    {"--limit", "N", "the first N"},
    {"--output", "FILE", "write it to a file (also -o; default: the screen)", .writes = true},
    {"--best", NULL, "traces shown to be faster than the static choice, for the compiler, instead of records"},
    {"--json", NULL, "say what was written as JSON"},
    {0}};

static const cli_command list_command = {
    "db list", "[OPTIONS]", "List the tasks, how far they are and their best times", list_options, list, CLI_NO_FILES};
static const cli_command show_command = {.name = "db show",
                                         .arguments = "HASH|NAME [OPTIONS]",
                                         .summary = "Show a task, how its trials ended, and its best schedule",
                                         .options = show_options,
                                         .run = show,
                                         .takes = "task"};
static const cli_command query_command = {"db query", "[OPTIONS]", "List records", query_options, query, CLI_NO_FILES};
static const cli_command prune_command = {"db prune",    "[OPTIONS]", "Remove records; the best of each task stay",
                                          prune_options, prune,       CLI_NO_FILES};
static const cli_command merge_command = {
    "db merge", "FILE... [OPTIONS]", "Take over the records of other databases", take_options, merge, CLI_MOST_FILES};
static const cli_command export_command = {"db export",    "[OPTIONS]",    "Write records as JSON lines",
                                           export_options, export_records, CLI_NO_FILES};
static const cli_command import_command = {
    "db import", "FILE... [OPTIONS]", "Take over records from JSON lines", take_options, import, CLI_MOST_FILES};

int tune_db_main(int argc, char **argv) {
  static const cli_command *const commands[] = {&list_command,  &show_command,   &query_command, &prune_command,
                                                &merge_command, &export_command, &import_command};
  static const cli_group group = {"tenon db",
                                  "COMMAND [OPTIONS]",
                                  "What was measured while tuning: one database of records",
                                  "`tenon db COMMAND --help` tells more.",
                                  commands,
                                  sizeof commands / sizeof commands[0]};
  return cli_dispatch(&group, argc, argv);
}
