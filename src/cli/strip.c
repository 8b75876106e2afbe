/* tenon strip: an executable without the texts that nothing at run time needs. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"--output", "FILE", "where the result goes (also -o; default: the executable's own place)", .writes = true},
    {"--texts", "LIST", "texts that stay: schedules, graph, declarations, loops (default: none)"},
    {"--key", "FILE", "the key that the executable is signed with: the result is signed with it again"},
    {"--constants", "FILE", "the executable's file of constants, when it is not beside it under its own name"},
    {0}};

static int run(const cli_args *args) {
  static cli_compile setup;
  if (!cli_compile_setup(args, &setup)) return EXIT_MISUSED;
  int wrong = cli_need_executable(args, "is no executable");
  if (wrong) return wrong;
  const char *output = cli_value(args, "--output"), *constants = cli_value(args, "--constants");
  if (!output) output = args->file;
  if (constants && tn__same_file(output, constants))
    return cli_misused("strip", "the result would take the place of the constants in \"%s\"", constants);
  const char *key = cli_value(args, "--key");
  if (key && tn__same_file(output, key))
    return cli_misused("strip", "the result would take the place of the key in \"%s\"", key);
  tn_status *status = cli_read_key(args, &setup);
  tn_load_options load = cli_load_options(args, &setup);
  if (!status) status = tn_executable_strip(args->file, cli_value(args, "--texts"), &load, output);
  tn__file_map_close(&setup.key);
  return cli_report(status);
}

const cli_command cli_strip_command = {"strip", "MODEL.tnx [OPTIONS]",
                                       "Leave out of an executable what only people and tools read", options, run};
