/* tenon machine: what the cost function knows of a machine, as a machine file. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"--target", "TARGET", "what is usual for x86-64-v3, x86-64-v4, aarch64, ... instead of this machine"},
    {"--no-measure", NULL, "what is usual for CPUs like this one"},
    {"--refresh", NULL, "measure this machine again"},
    {"--from-records", "FILE",
     "fit what is not measured to the tuning records of this machine in a database, and say how well it predicts"},
    {"--output", "FILE", "write it to a file (also -o), for --machine; default: the screen"},
    {0}};

static int run(const cli_args *args) {
  static cli_compile setup;
  char *text = NULL;
  const char *path = cli_value(args, "--output");
  bool refresh = cli_flag(args, "--refresh");
  static const char *const others[] = {"--target", "--no-measure", NULL};
  if (refresh && cli_refuse(args, others, "is not of what --refresh measures")) return EXIT_MISUSED;
  if (!cli_compile_setup(args, &setup)) return EXIT_MISUSED;
  tn_status *status = tn_machine_text(&setup.options, refresh, &text);
  if (!status && path)
    status = tn__file_write_atomic(path, &(tn__bytes){text, strlen(text)}, 1, 0644);
  else if (!status)
    fputs(text, stdout);
  free(text);
  return cli_report(status);
}

const cli_command cli_machine_command = {
    "machine", "[OPTIONS]", "Tell what schedules are chosen for: caches and cores, measured once",
    options,   run,         CLI_NO_FILES};
