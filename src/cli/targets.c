/* tenon targets: what there is to compile for, and what this machine is. */
#include <stdlib.h>

#include "cli/cli.h"

static const cli_option options[] = {{0}};

static int run(const cli_args *args) {
  char *text = NULL;
  tn_status *status = tn_targets_text(&text);
  if (!status) fputs(text, stdout);
  free(text);
  return cli_report(status);
}

const cli_command cli_targets_command = {
    "targets", "[OPTIONS]", "List what there is to compile for, and what this machine has", options, run, CLI_NO_FILES};
