/* The command line: habit over the public API and the table of its options, no logic of its own. One file a command,
 * one row in main.c's table. */
#ifndef TENON_CLI_CLI_H
#define TENON_CLI_CLI_H

#include <pthread.h>
#include <stdio.h>

#include "base/file.h"
#include "base/shown.h"
#include "options/options.h"
#include "tenon/te.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2 };

/* ---- arguments --------------------------------------------------------------------------------------------------- */

typedef tn__cli_option cli_option;

/* Rows that stand for those of the table of options (options/options.h) that are on the command line. */
#define CLI_COMPILE_OPTIONS {.name = "compile"}   /* of every command that compiles */
#define CLI_MODULE_OPTIONS {.name = "module"}     /* of `tenon compile` alone */
#define CLI_DECLARED_OPTIONS {.name = "declared"} /* of declarations */
#define CLI_SCHEDULE_OPTIONS {.name = "schedule"} /* of declarations alone */

typedef struct cli_setting { /* one option as given */
  const cli_option *option;
  const char *value;
} cli_setting;

enum { CLI_MOST_FILES = 64, CLI_NO_FILES = -1, CLI_MOST_SETTINGS = 256 };

typedef struct cli_args {
  const char *command, *file;        /* the first positional argument */
  const char *files[CLI_MOST_FILES]; /* all of them */
  int file_count;
  cli_setting settings[CLI_MOST_SETTINGS];
  int count;
} cli_args;

typedef struct cli_command {
  const char *name, *arguments, *summary;
  const cli_option *options; /* ends with a NULL name */
  int (*run)(const cli_args *args);
  int most_files;    /* that it takes; 0: one; CLI_NO_FILES: none */
  const char *takes; /* what its words are; NULL: files */
  bool optional;     /* none of them will do, too */
} cli_command;

/* Commands of one program, or of one command of it. */
typedef struct cli_group {
  const char *name, *arguments, *summary, *ending; /* "tenon", "COMMAND FILE [OPTIONS]", ... */
  const cli_command *const *commands;              /* named "list" or, within another command, "db list" */
  int count;
} cli_group;

/* Does what argv[1] says, and the program's result. */
int cli_dispatch(const cli_group *group, int argc, char **argv);
int cli_do(const cli_command *command, int argc, char **argv);              /* the same of one, whose name is argv[0] */
int cli_unknown(const cli_group *group, const char *text, const char *why); /* says so; returns EXIT_MISUSED */
int cli_finished(int result); /* once all is printed: the result, or EXIT_FAILED where that did not arrive */

/* Parses; on misuse says so on stderr and returns false. "--name=value" and "--name value" are the same. */
TN_MUST_USE bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out);
bool cli_flag(const cli_args *args, const char *name);
const char *cli_value(const cli_args *args, const char *name);               /* the last one given, or NULL */
const char *cli_next(const cli_args *args, const char *name, int *position); /* each in turn; *position starts at 0 */
/* What the command reads, file or value of an option, and `output` would take the place of: the same file, by whatever
 * name. NULL: nothing. */
const char *cli_taken_place(const cli_args *args, const char *output);
/* A whole number in [low, high]; false after saying what is wrong. Untouched when the option was not given. */
TN_MUST_USE bool cli_number(const cli_args *args, const char *name, int64_t low, int64_t high, int64_t *out);
/* Reads a tolerance of comparisons, which must be finite and non-negative. Writes -1 without the option. */
TN_MUST_USE bool cli_tolerance(const cli_args *args, const char *name, double *out);

/* Says why options that were given cannot be: the first of `names`, up to NULL, and the reason. True when one was. */
bool cli_refuse(const cli_args *args, const char *const *names, const char *format, ...) TN_PRINTF(3, 4);
/* Is the option's value, if it was given, one of the words? False after saying which there are. */
bool cli_word(const cli_args *args, const char *name, const char *const *words);

int cli_misused(const char *command, const char *format, ...) TN_PRINTF(2, 3); /* returns EXIT_MISUSED */
/* The same with what the status says, which is freed; EXIT_DONE for NULL. */
int cli_misused_status(const char *command, tn_status *status);
/* Prints other people's text, a name or a path, as it is shown (base/shown.h). */
void cli_put_shown(FILE *out, const char *text);
/* The same for text of several lines. Stops at a NUL or after `size` bytes. */
void cli_put_lines(FILE *out, const char *text, size_t size);
/* Prints "tenon: message", frees the status, returns EXIT_FAILED (EXIT_DONE for NULL). */
int cli_report(tn_status *status);

/* ---- what several commands share --------------------------------------------------------------------------------- */

enum { CLI_MOST_ROWS = 48 };

/* The items of a list option. Neither their number nor the length of names is limited. */
typedef struct cli_list {
  union {
    void *items;
    tn_dim_setting *sizes;
    tn_alias_setting *pairs;
    const char **names;
    tn_on_device *said;
  } of;
  int capacity;
} cli_list;

typedef struct cli_compile {
  const char *command;
  tn_compile_options options;
  tn__file_map key;               /* the contents of --key FILE, or nothing */
  cli_list *lists[CLI_MOST_ROWS]; /* of options that were given, by row of the table; the process has them to its end */
  tn_log_sink log;
  pthread_mutex_t log_lock;
  bool warned;            /* something was told */
  char *last_warning;     /* which is not told twice in a row; the process has it to its end */
  double phase_start;     /* of the progress that is shown: seconds of a steady clock */
  bool inspect_only;      /* what is opened is not run, and may be for another machine */
  cli_list *map, *memory; /* of --map and --device-memory; NULL: not given; the process has them to its end */
  int map_count, memory_count;
} cli_compile;
/* Calls `see` with each option of a command, those of the table among them, until it says that it has seen enough. */
void cli_each_option(const cli_command *command, bool (*see)(void *user, const cli_option *option), void *user);
/* The options of the table that the caller's kind of file does not have, of those that were given: true after saying
 * why. `flag`: of rows that it has (TN__OPTION_RUNS ...). */
bool cli_refuse_rows(const cli_args *args, unsigned flag, const char *format, ...) TN_PRINTF(3, 4);
/* The same for options of declarations alone. */
bool cli_refuse_declared(const cli_args *args, const char *format, ...) TN_PRINTF(2, 3);
/* The fields of tn_schedule_options that the table has, as they were given. */
bool cli_schedule_setup(const cli_args *args, tn_schedule_options *options);
/* The text in the file of --schedule, if there is one, which the caller frees; names it in the options. */
TN_MUST_USE tn_status *cli_read_schedule(const cli_args *args, tn_schedule_options *options, char **text);
/* False after saying what is wrong. `setup` must stay where it is while its options are in use. */
TN_MUST_USE bool cli_compile_setup(const cli_args *args, cli_compile *setup);
/* Loads an executable, or compiles an ONNX model and loads that. Reports times when asked to. */
tn_status *cli_open(const cli_args *args, cli_compile *setup, const char *path, tn_executable **executable,
                    tn_module **module);
/* A size as people read it, as every command tells it: "338.0 MB", of 1000 KB each. */
void cli_format_bytes(double bytes, char *out, size_t size);
/* tn__file_check_place of `path` with an ending behind it. */
tn_status *cli_check_place(const char *path, const char *ending);
bool cli_is_executable(const char *path);
/* EXIT_DONE when the command's file is an executable; else says `why` it is refused, or that it cannot be read. */
int cli_need_executable(const cli_args *args, const char *why);
bool cli_is_declarations(const char *path); /* by its name: FILE.te */
/* Options that do nothing for an executable, those that do nothing for a model, and files that are neither: true after
 * saying so. */
bool cli_wrong_file(const cli_args *args, const char *path);
/* The rows of options for executables that are loaded. */
#define CLI_LOAD_OPTIONS                                                                                          \
  {"--key", "FILE", "accept only executables that were signed with this key"},                                    \
      {"--constants", "FILE", "the executable's file of constants, when it is not beside it under its own name"}, \
      {"--verify-only", NULL, "check an executable, all of it, and run nothing"}, {                               \
    "--map", "DEVICE=DEVICE,...", "run on another device what was placed on one: island:1=cpu:0", .repeats = true \
  }
/* The options for loading that were given: `setup` holds what they point to. */
tn_load_options cli_load_options(const cli_args *args, const cli_compile *setup);
/* Maps the file of --key into setup->key; without the option it stays empty. */
tn_status *cli_read_key(const cli_args *args, cli_compile *setup);
/* tn_executable_verify() with the options of the command line, and a line about it. */
int cli_verify(const cli_args *args, cli_compile *setup);

void cli_print_shape(FILE *out, int rank, const int64_t *shape);
const char *cli_dims_text(const tn_value_info *info, char *text, size_t size); /* "[batch, 3, 224, 224]" */

enum { CLI_LIST_TENSORS = 2, CLI_LIST_TENSOR_SIZE = 2 }; /* of random sequences; signatures have only their ranks */
/* A tensor for an input, or for the list of one: floats uniform in [-1, 1); integers and bools 0 or 1, which are
 * indices and lengths that most models take. Open dimensions are those of --dim. */
tn_status *cli_random_input(const tn_executable *exe, const char *function, const cli_compile *setup, int index,
                            uint64_t *state, tn_tensor **out);

extern const cli_command cli_run_command, cli_compile_command, cli_build_command, cli_inspect_command,
    cli_explain_command, cli_strip_command, cli_machine_command, cli_targets_command;

/* profile.c */
const tn_profile_kernel *cli_profile_find(const tn_profile *profile, const char *kernel); /* NULL: it did not run */
/* The roofline of a kernel, by what its device can do where the profile, which may be NULL, has it on one; else by the
 * limits of this machine. */
double cli_profile_least(const tn_profile *profile, const char *kernel, const tn_machine_limits *here, double flops,
                         double bytes, const char **bound);
void cli_profile_print(const tn_profile *profile, const tn_machine_limits *limits);

/* run_report.c: what `tenon run` says about tensors and latencies. */
/* A tensor that came out, or what is said instead of one. */
typedef struct cli_result {
  char *name;       /* of the output; "NAME[2]" for a tensor of a sequence */
  const char *note; /* "empty sequence", "no value": there is no tensor */
  DLTensor tensor;  /* a view, dense */
  tn_tensor *dense; /* that it is of, when the session's own is not; NULL */
  int output;
} cli_result;
tn_status *cli_results(const tn_executable *exe, tn_session *session, const char *function, cli_result **out,
                       int *count);
void cli_free_results(cli_result *results, int count);
void cli_print_outputs(const cli_result *results, int count);
void cli_json_outputs(tn__strbuf *json, const cli_result *results, int count);
typedef struct cli_latency {
  double minimum, median, mean, p90, maximum; /* seconds */
  int runs;
} cli_latency;
cli_latency cli_summarize_latency(double *seconds, int runs); /* sorts them */
/* Compares with the suite's tolerances; false when they differ. `why` says how, or how large the greatest difference
 * is. */
TN_MUST_USE bool cli_agree(const DLTensor *got, const DLTensor *want, double rtol, double atol, char *why, size_t size);
/* The same for strings (run_strings.c), behind a name: the first, as JSON writes them; and whether all are equal. */
void cli_print_strings(const DLTensor *t);
void cli_json_strings(tn__strbuf *json, const DLTensor *t);
TN_MUST_USE bool cli_strings_agree(const DLTensor *got, const DLTensor *want, char *why, size_t size);
/* NAME.npy with characters outside of [A-Za-z0-9_.-] as '_'. */
tn_status *cli_write_outputs(const cli_args *args, const cli_result *results, int count, const char *directory);

#endif
