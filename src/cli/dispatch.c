/* Which command it is, and help. */
#include <errno.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"

/* "list" of the command "db list". */
static const char *word_of(const cli_command *command) {
  const char *space = strrchr(command->name, ' ');
  return space ? space + 1 : command->name;
}

static void usage(const cli_group *group, FILE *out) {
  fprintf(out, "usage: %s %s\n\n%s.\n\n", group->name, group->arguments, group->summary);
  for (int i = 0; i < group->count; i++)
    fprintf(out, "  %-9s %s\n", word_of(group->commands[i]), group->commands[i]->summary);
  fprintf(out, "\n%s\nExit status: 0 done, 1 failed, 2 misused.\n", group->ending);
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
int cli_finished(int result) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return result;
  fprintf(stderr, "tenon: cannot write to standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
  return EXIT_FAILED;
}

int cli_unknown(const cli_group *group, const char *text, const char *why) {
  tn__nearest n = {.name = text, .length = strlen(text)};
  char advice[TN__ADVICE];
  for (int i = 0; i < group->count; i++) {
    const char *word = word_of(group->commands[i]);
    tn__nearest_consider(&n, word, strlen(word));
  }
  fprintf(stderr, "%s: %s \"", group->name, why);
  cli_put_shown(stderr, text);
  fprintf(stderr, "\"%s; `%s --help` lists them\n", tn__nearest_advice(&n, advice), group->name);
  return EXIT_MISUSED;
}

int cli_do(const cli_command *command, int argc, char **argv) {
  for (int a = 1; a < argc; a++)
    if (is_help(argv[a])) {
      help(command);
      return cli_finished(EXIT_DONE);
    }
  static cli_args args; /* large; the process has one command */
  if (!cli_parse(command, argc - 1, argv + 1, &args)) return EXIT_MISUSED;
  return cli_finished(command->run(&args));
}

int cli_dispatch(const cli_group *group, int argc, char **argv) {
  static char asking[] = "--help";
  if (argc < 2) {
    usage(group, stderr);
    return EXIT_MISUSED;
  }
  if (strcmp(argv[1], "help") == 0 && argc > 2) { /* the same as COMMAND --help */
    argv[1] = argv[2];
    argv[2] = asking;
  }
  if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
    usage(group, stdout);
    return cli_finished(EXIT_DONE);
  }
  for (int i = 0; i < group->count; i++) {
    if (strcmp(argv[1], word_of(group->commands[i])) != 0) continue;
    return cli_do(group->commands[i], argc - 1, argv + 1);
  }
  return cli_unknown(group, argv[1], "there is no command");
}
