#include <errno.h>
#include <string.h>

#include "cli/cli.h"

static const cli_command *const commands[] = {&cli_run_command,     &cli_compile_command, &cli_build_command,
                                              &cli_inspect_command, &cli_explain_command, &cli_strip_command,
                                              &cli_machine_command};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void usage(FILE *out) {
  fprintf(out, "usage: tenon COMMAND FILE [OPTIONS]\n\nTenon compiles tensor programs to native code.\n\n");
  for (int i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(out,
          "\n`tenon COMMAND --help` tells more. `tenon --version` prints the version.\n"
          "Exit status: 0 done, 1 failed, 2 misused.\n");
}

static bool print_option(void *user, const cli_option *o) {
  char left[48];
  (void)user;
  snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
  printf("  %-26s %s\n", left, o->help);
  return false;
}

static void help(const cli_command *c) {
  printf("usage: tenon %s %s\n\n%s.\n\n", c->name, c->arguments, c->summary);
  cli_each_option(c, print_option, NULL);
}

static bool is_help(const char *text) { return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0; }

/* What was printed and did not arrive (a full disk) makes a failure of success. */
static int finished(int result) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return result;
  fprintf(stderr, "tenon: cannot write to standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
  return EXIT_FAILED;
}

static int unknown(const char *text, const char *why) {
  fprintf(stderr, "tenon: %s \"", why);
  cli_put_shown(stderr, text);
  fputs("\"; `tenon --help` lists them\n", stderr);
  return EXIT_MISUSED;
}

int main(int argc, char **argv) {
  static char asking[] = "--help";
  if (argc < 2) {
    usage(stderr);
    return EXIT_MISUSED;
  }
  if (strcmp(argv[1], "--version") == 0) {
    if (argc > 2) return unknown(argv[2], "--version goes with no other word, and not with");
    printf("tenon %s\n", tn_version());
    return finished(EXIT_DONE);
  }
  if (strcmp(argv[1], "help") == 0 && argc > 2) { /* the same as COMMAND --help */
    argv[1] = argv[2];
    argv[2] = asking;
  }
  if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
    usage(stdout);
    return finished(EXIT_DONE);
  }
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(argv[1], commands[i]->name) != 0) continue;
    for (int a = 2; a < argc; a++)
      if (is_help(argv[a])) {
        help(commands[i]);
        return finished(EXIT_DONE);
      }
    static cli_args args; /* large; the process has one command */
    if (!cli_parse(commands[i], argc - 2, argv + 2, &args)) return EXIT_MISUSED;
    return finished(commands[i]->run(&args));
  }
  return unknown(argv[1], "there is no command");
}
