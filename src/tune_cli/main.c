/* tenon-tune: what `tenon tune`, `tenon db` and `tenon worker` are. A program of its own, so that tenon needs neither
 * an event loop nor a database. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "tenon/base.h"
#include "tune_cli/tune_cli.h"

static const struct command {
  const char *name, *summary;
  int (*main)(int argc, char **argv); /* argv[0] is the command's name */
} commands[] = {
    {"tune", "Measure schedules for models and declarations, and keep the fastest", tune_tune_main},
    {"db", "List, ask, tidy, merge, export and import tuning records", tune_db_main},
    {"machine", "Fit a machine's numbers to the tuning records of it", tune_machine_main},
    {"worker", "Build and time candidates for a tuner; started by it", tune_worker_main},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], EXIT_MISUSED = 2 };

TN_MUST_USE static int usage(FILE *out, int result) {
  fprintf(out, "usage: tenon-tune COMMAND [OPTIONS]\n\n");
  for (int i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\n`tenon COMMAND` is the same.\n");
  return result;
}

int main(int argc, char **argv) {
  if (argc < 2) return usage(stderr, EXIT_MISUSED);
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return usage(stdout, 0);
  if (strcmp(argv[1], "--version") == 0) {
    printf("tenon-tune %s\n", tn_version());
    return 0;
  }
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].main(argc - 1, argv + 1);
  tn__nearest n = {.name = argv[1], .length = strlen(argv[1])};
  char advice[TN__ADVICE];
  for (int i = 0; i < COMMAND_COUNT; i++) tn__nearest_consider(&n, commands[i].name, strlen(commands[i].name));
  fprintf(stderr, "tenon-tune: there is no command \"%s\"%s; `tenon-tune --help` lists them\n", argv[1],
          tn__nearest_advice(&n, advice));
  return EXIT_MISUSED;
}
