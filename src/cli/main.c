#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/cli.h"

/* What tenon-tune does, a program of its own that not every build has: these are for the list of commands. */
static const cli_command tune = {.name = "tune",
                                 .summary = "Measure schedules for models and declarations, and keep the fastest"};
static const cli_command db = {.name = "db", .summary = "List, ask, tidy, merge, export and import tuning records"};
static const cli_command worker = {.name = "worker", .summary = "Build and time candidates for a tuner; started by it"};

static const cli_command *const commands[] = {&cli_run_command,
                                              &cli_compile_command,
                                              &cli_build_command,
                                              &cli_inspect_command,
                                              &cli_explain_command,
                                              &cli_strip_command,
                                              &cli_machine_command,
                                              &cli_targets_command,
                                              &tune,
                                              &db,
                                              &worker};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static bool is_of_tenon_tune(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (commands[i]->run == NULL && strcmp(commands[i]->name, name) == 0) return true;
  return false;
}

/* Does not come back but to fail. */
static int run_tenon_tune(char **argv) {
  static const char program[] = "tenon-tune";
  static char path[4096];
  if (!tn__program_beside(program, path, sizeof path) || access(path, F_OK) != 0) {
    fprintf(stderr,
            "tenon: \"%s\" needs the program %s beside this one, and it is not there: this build was made without the "
            "tuner (-DTENON_TUNE=ON, with libuv, SQLite and XGBoost)\n",
            argv[1], program);
    return EXIT_FAILED;
  }
  argv[0] = path;
  execv(path, argv);
  fprintf(stderr, "tenon: cannot start %s: %s\n", path, strerror(errno));
  return EXIT_FAILED;
}

/* Records are read by the program that has the database. */
static bool reads_records(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "machine") != 0) return false;
  bool found = false;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return false;
    found |= strcmp(argv[i], "--from-records") == 0 || strncmp(argv[i], "--from-records=", 15) == 0;
  }
  return found;
}

int main(int argc, char **argv) {
  static const cli_group group = {"tenon",
                                  "COMMAND FILE [OPTIONS]",
                                  "Tenon compiles tensor programs to native code",
                                  "`tenon COMMAND --help` tells more. `tenon --version` prints the version.",
                                  commands,
                                  COMMAND_COUNT};
  static char asking[] = "--help";
  if (argc > 2 && strcmp(argv[1], "help") == 0 && is_of_tenon_tune(argv[2])) argv[1] = argv[2], argv[2] = asking;
  if (reads_records(argc, argv) || (argc > 1 && is_of_tenon_tune(argv[1]))) return run_tenon_tune(argv);
  if (argc < 2 || strcmp(argv[1], "--version") != 0) return cli_dispatch(&group, argc, argv);
  if (argc > 2) return cli_unknown(&group, argv[2], "--version goes with no other word, and not with");
  printf("tenon %s\n", tn_version());
  return cli_finished(EXIT_DONE);
}
