#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"

static int say_misused(const char *command, const char *message) {
  fprintf(stderr, "tenon %s: ", command);
  cli_put_shown(stderr, message);
  fprintf(stderr, "; `tenon %s --help` tells more\n", command);
  return EXIT_MISUSED;
}

int cli_misused(const char *command, const char *format, ...) {
  char message[8192]; /* more than two paths, and a cut one is better than none */
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return say_misused(command, message);
}

int cli_misused_status(const char *command, tn_status *status) {
  if (!status) return EXIT_DONE;
  say_misused(command, tn_status_message(status));
  tn_status_free(status);
  return EXIT_MISUSED;
}

void cli_put_shown(FILE *out, const char *text) {
  char shown[TN__SHOWN_CHAR];
  for (const char *at = text; *at;) {
    at += tn__shown_char(at, shown);
    fputs(shown, out);
  }
}

void cli_put_lines(FILE *out, const char *text, size_t size) {
  char shown[TN__SHOWN_CHAR];
  for (const char *at = text; at < text + size && *at;) {
    bool plain = *at == '\n' || *at == '\t';
    if (plain) fputc(*at++, out);
    if (plain) continue;
    at += tn__shown_char(at, shown);
    fputs(shown, out);
  }
}

int cli_report(tn_status *status) {
  if (!status) return EXIT_DONE;
  const char *message = tn_status_message(status), *error = strstr(message, ": error: ");
  bool placed = error && !memchr(message, '\n', (size_t)(error - message)); /* as editors want it: FILE:LINE:COLUMN */
  if (!placed) fputs("tenon: ", stderr);
  if (placed) /* of texts: with the faulty lines below the message */
    cli_put_lines(stderr, message, strlen(message));
  else
    cli_put_shown(stderr, message);
  fputc('\n', stderr);
  tn_status_free(status);
  return EXIT_FAILED;
}

static bool refuse(const cli_args *args, const char *name, const char *format, va_list list) {
  char why[512];
  if (!cli_flag(args, name)) return false;
  vsnprintf(why, sizeof why, format, list);
  cli_misused(args->command, "%s %s", name, why);
  return true;
}

bool cli_refuse(const cli_args *args, const char *const *names, const char *format, ...) {
  bool refused = false;
  for (; *names && !refused; names++) {
    va_list list;
    va_start(list, format);
    refused = refuse(args, *names, format, list);
    va_end(list);
  }
  return refused;
}

bool cli_refuse_rows(const cli_args *args, unsigned flag, const char *format, ...) {
  bool refused = false;
  for (const tn__option_row *row = tn__option_rows; row->name && !refused; row++) {
    if (!row->cli.name || (row->flags & flag)) continue;
    va_list list;
    va_start(list, format);
    refused = refuse(args, row->cli.name, format, list);
    va_end(list);
  }
  return refused;
}

bool cli_refuse_declared(const cli_args *args, const char *format, ...) {
  bool refused = false;
  for (const tn__option_row *row = tn__option_declared_rows; row->name && !refused; row++) {
    if (!row->cli.name) continue;
    va_list list;
    va_start(list, format);
    refused = refuse(args, row->cli.name, format, list);
    va_end(list);
  }
  return refused;
}

bool cli_word(const cli_args *args, const char *name, const char *const *words) {
  const char *value = cli_value(args, name);
  if (!value) return true;
  tn__strbuf all;
  tn__strbuf_init(&all, NULL);
  bool found = false;
  tn__nearest n = {.name = value, .length = strlen(value)};
  char advice[TN__ADVICE];
  for (int i = 0; words[i]; i++) {
    tn__nearest_consider(&n, words[i], strlen(words[i]));
    found |= strcmp(words[i], value) == 0;
    tn__strbuf_printf(&all, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
  }
  if (!found)
    cli_misused(args->command, "%s takes %s, not \"%s\"%s", name, tn__strbuf_text(&all), value,
                tn__nearest_advice(&n, advice));
  tn__strbuf_release(&all);
  return found;
}

/* The option that a row of the table is on the command line of commands with `marker`; NULL: none. */
static const cli_option *option_of(const tn__option_row *row, const char *marker) {
  bool declared = strcmp(marker, "declared") == 0, module = strcmp(marker, "module") == 0;
  if (!row->cli.name) return NULL;
  if (declared) {
    if (!(row->flags & TN__OPTION_DECLARED)) return NULL;
    return row->declaration.name ? &row->declaration : &row->cli;
  }
  return module == ((row->flags & TN__OPTION_MODULE) != 0) ? &row->cli : NULL;
}

void cli_each_option(const cli_command *command, bool (*see)(void *user, const cli_option *option), void *user) {
  for (const cli_option *o = command->options; o->name; o++) {
    if (o->name[0] == '-') {
      if (see(user, o)) return;
      continue;
    }
    bool alone = strcmp(o->name, "schedule") == 0;
    for (const tn__option_row *row = tn__option_rows; row->name && !alone; row++) {
      const cli_option *option = option_of(row, o->name);
      if (option && see(user, option)) return;
    }
    for (const tn__option_row *row = tn__option_declared_rows; row->name; row++)
      if (row->cli.name && (alone || strcmp(o->name, "declared") == 0) && see(user, &row->cli)) return;
  }
}

typedef struct looking {
  const char *text;
  size_t length;
  const cli_option *found;
} looking;

static bool is_wanted(void *user, const cli_option *option) {
  looking *l = user;
  bool wanted = strlen(option->name) == l->length && strncmp(option->name, l->text, l->length) == 0;
  if (wanted) l->found = option;
  return wanted;
}

static const cli_option *find_option(const cli_command *command, const char *text, size_t length) {
  looking l = {text, length, NULL};
  cli_each_option(command, is_wanted, &l);
  return l.found;
}

/* The file that the text is, or names as NAME=FILE, when it is the one at `output`. */
static const char *same_as(const char *text, const char *output) {
  const char *equals = strchr(text, '=');
  if (tn__same_file(text, output)) return text;
  return equals && tn__same_file(equals + 1, output) ? equals + 1 : NULL;
}

const char *cli_taken_place(const cli_args *args, const char *output) {
  const char *taken = NULL;
  for (int i = 0; i < args->file_count && !taken; i++) taken = same_as(args->files[i], output);
  for (int i = 0; i < args->count && !taken; i++) {
    const cli_option *option = args->settings[i].option;
    if (option->value && strstr(option->value, "FILE") && !option->writes && args->settings[i].value)
      taken = same_as(args->settings[i].value, output);
  }
  return taken;
}

/* Does the text end like an optional value, "[FILE.json]"? */
static bool is_like(const char *text, const char *value) {
  const char *dot = strchr(value, '.');
  size_t length = dot ? strlen(dot) - 1 : 0, all = strlen(text);
  return dot && all > length && strncmp(text + all - length, dot, length) == 0;
}

/* Two values of one option: neither is more right than the other. */
static bool contradicts(const cli_args *args, const cli_option *option, const char *value) {
  for (int i = 0; i < args->count && !option->repeats; i++) {
    const char *other = args->settings[i].value;
    if (args->settings[i].option != option || (!other && !value)) continue;
    if (other && value && strcmp(other, value) == 0) continue;
    cli_misused(args->command, "%s is given twice: \"%s\" and \"%s\"", option->name, other ? other : "",
                value ? value : "");
    return true;
  }
  return false;
}

static bool see_name(void *nearest, const cli_option *option) {
  tn__nearest_consider(nearest, option->name, strlen(option->name));
  return false;
}

static void no_option(const cli_command *command, const char *text, size_t length) {
  tn__nearest n = {.name = text, .length = length};
  cli_each_option(command, see_name, &n);
  if (n.best)
    cli_misused(command->name, "there is no option %.*s; did you mean %s?", (int)length, text, n.best);
  else
    cli_misused(command->name, "there is no option %.*s", (int)length, text);
}

TN_MUST_USE static bool parse_option(const cli_command *command, int argc, char **argv, int *at, cli_args *out) {
  const char *text = argv[*at], *equals = strchr(text, '=');
  size_t length = equals ? (size_t)(equals - text) : strlen(text);
  const cli_option *o = find_option(command, text, length);
  if (!o) {
    no_option(command, text, length);
    return false;
  }
  const char *value = NULL;
  if (o->value && o->value[0] == '[') {
    value = equals ? equals + 1 : *at + 1 < argc && is_like(argv[*at + 1], o->value) ? argv[++*at] : NULL;
  } else if (o->value) {
    value = equals ? equals + 1 : *at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0 ? argv[++*at] : NULL;
    if (!value || !value[0]) {
      cli_misused(command->name, "%s needs a value: %s %s", o->name, o->name, o->value);
      return false;
    }
  } else if (equals) {
    cli_misused(command->name, "%s takes no value", o->name);
    return false;
  }
  if (contradicts(out, o, value)) return false;
  if (out->count == CLI_MOST_SETTINGS) {
    cli_misused(command->name, "too many options");
    return false;
  }
  out->settings[out->count++] = (cli_setting){o, value};
  return true;
}

bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out) {
  *out = (cli_args){.command = command->name};
  for (int i = 0; i < argc; i++) {
    bool option = argv[i][0] == '-' && argv[i][1];
    if (option && strcmp(argv[i], "-o") == 0) {
      static char long_name[] = "--output";
      argv[i] = long_name;
    }
    if (option) {
      if (!parse_option(command, argc, argv, &i, out)) return false;
    } else if (command->most_files == CLI_NO_FILES) {
      cli_misused(command->name, "it takes no file, and \"%s\" is one", argv[i]);
      return false;
    } else if (out->file_count > 0 && out->file_count >= command->most_files) {
      if (command->most_files == 0)
        cli_misused(command->name, "one %s at a time: \"%s\" and \"%s\"", command->takes ? command->takes : "file",
                    out->file, argv[i]);
      else
        cli_misused(command->name, "more than %d files", command->most_files);
      return false;
    } else if (!argv[i][0]) {
      cli_misused(command->name, "the name of a file is empty");
      return false;
    } else {
      if (!out->file) out->file = argv[i];
      out->files[out->file_count++] = argv[i];
    }
  }
  if (!out->file && command->most_files != CLI_NO_FILES && !command->optional) {
    cli_misused(command->name, "which %s?", command->takes ? command->takes : "file");
    return false;
  }
  return true;
}

const char *cli_next(const cli_args *args, const char *name, int *position) {
  for (int i = *position; i < args->count; i++) {
    if (strcmp(args->settings[i].option->name, name) != 0) continue;
    *position = i + 1;
    return args->settings[i].value ? args->settings[i].value : "";
  }
  return NULL;
}

const char *cli_value(const cli_args *args, const char *name) {
  const char *last = NULL;
  int position = 0;
  for (const char *v = cli_next(args, name, &position); v; v = cli_next(args, name, &position)) last = v;
  return last;
}

bool cli_flag(const cli_args *args, const char *name) { return cli_value(args, name) != NULL; }

bool cli_number(const cli_args *args, const char *name, int64_t low, int64_t high, int64_t *out) {
  const char *text = cli_value(args, name);
  if (!text) return true;
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < low || v > high) {
    cli_misused(args->command, "%s takes a whole number from %lld to %lld, not \"%s\"", name, (long long)low,
                (long long)high, text);
    return false;
  }
  *out = v;
  return true;
}

bool cli_tolerance(const cli_args *args, const char *name, double *out) {
  const char *text = cli_value(args, name);
  *out = -1;
  if (!text) return true;
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v) || v < 0 || signbit(v)) {
    cli_misused(args->command, "%s takes a finite number from 0 on, not \"%s\"", name, text);
    return false;
  }
  *out = v;
  return true;
}
