/* tenon inspect: what a model or executable is made of. The facts come from tn_inspect() as JSON; this prints them for
 * people. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const cli_option options[] = {
    CLI_COMPILE_OPTIONS,
    CLI_LOAD_OPTIONS,
    {"--text", NULL, "for executables: the bytecode and schedules too"},
    {"--schedules", NULL, "the trace of every kernel's schedule, and nothing else"},
    {"--kernel", "NAME", "what the kernels are made of whose names begin with NAME, as far as the file keeps it"},
    {"--json", NULL, "print everything as JSON"},
    {0}};

/* Walks JSON that this program's own library wrote, and prints it as an indented outline: objects in arrays take one
 * line each. */
static const char *print_json_value(const char *at, int depth, bool inline_object);

static const char *skip_string(const char *at) {
  for (at++; *at && *at != '"'; at++)
    if (*at == '\\' && at[1]) at++;
  return *at ? at + 1 : at;
}

/* Names are the model's and may have anything in them, so escapes stay; of quotes nothing depends here. */
static void print_string(const char *at, const char *end) {
  for (at++; at < end - 1;) {
    if (*at != '\\') {
      char shown[TN__SHOWN_CHAR];
      at += tn__shown_char(at, shown);
      fputs(shown, stdout);
      continue;
    }
    if (at[1] != '"') putchar(*at);
    putchar(at[1]);
    at += 2;
  }
}

static const char *skip_space(const char *at) {
  while (*at == ' ' || *at == '\n' || *at == ',' || *at == ':') at++;
  return at;
}

static const char *print_members(const char *at, int depth, bool inline_object) {
  bool first = true;
  for (at = skip_space(at + 1); *at && *at != '}'; at = skip_space(at)) {
    const char *end = skip_string(at);
    if (inline_object) {
      printf("%s", first ? "" : "  ");
    } else {
      printf("%s%*s", first && depth == 0 ? "" : "\n", depth * 2, "");
    }
    print_string(at, end);
    printf(inline_object ? " " : ": ");
    at = print_json_value(skip_space(end), depth + 1, inline_object);
    first = false;
  }
  return *at ? at + 1 : at;
}

static const char *print_items(const char *at, int depth, bool inline_object) {
  bool first = true;
  for (at = skip_space(at + 1); *at && *at != ']'; at = skip_space(at)) {
    if (*at == '{') {
      printf("\n%*s", depth * 2, "");
      at = print_members(at, depth, true);
    } else {
      printf("%s", first ? inline_object ? "[" : "" : ", ");
      at = print_json_value(at, depth, true);
    }
    first = false;
    if (inline_object && *skip_space(at) == ']' && at[-1] != '}') printf("]");
  }
  if (first) printf(inline_object ? "[]" : "none");
  return *at ? at + 1 : at;
}

static const char *print_json_value(const char *at, int depth, bool inline_object) {
  if (*at == '{') return print_members(at, depth, inline_object);
  if (*at == '[') return print_items(at, depth, inline_object);
  if (*at == '"') {
    const char *end = skip_string(at);
    print_string(at, end);
    return end;
  }
  while (*at && !strchr(",]}\n", *at)) putchar(*at++);
  return at;
}

static int print_texts(const cli_args *args, cli_compile *setup) {
  tn_executable *exe;
  tn_module *module;
  tn_status *status = cli_open(args, setup, args->file, &exe, &module);
  char *code = NULL;
  if (!status) status = tn_executable_disassemble(exe, &code);
  if (!status) {
    size_t size = 0;
    const char *schedules = tn_executable_text(exe, "schedules", &size);
    cli_put_lines(stdout, code, strlen(code));
    putchar('\n');
    if (schedules) cli_put_lines(stdout, schedules, size);
  }
  free(code);
  tn_executable_release(exe);
  tn_module_release(module);
  return cli_report(status);
}

static int print_schedules(const cli_args *args, cli_compile *setup) {
  tn_executable *exe;
  tn_module *module;
  size_t size = 0;
  tn_status *status = cli_open(args, setup, args->file, &exe, &module);
  const char *schedules = status ? NULL : tn_executable_text(exe, "schedules", &size);
  if (!status && !schedules)
    status = tn_status_create(TN_NOT_FOUND, "%s has no traces of its schedules: they were left out of it", args->file);
  if (schedules) fwrite(schedules, 1, size, stdout);
  tn_executable_release(exe);
  tn_module_release(module);
  return cli_report(status);
}

/* The kernel's part of a text: between the line that names it, a comment, and the next kernel's. */
static const char *kernel_part(const char *text, size_t size, const char *kernel, size_t *length) {
  const char *end = text + size, *part = NULL;
  for (const char *line = text, *next; line < end; line = next) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    next = stop ? stop + 1 : end;
    size_t mark = *line == '#' ? 2 : end - line > 3 && memcmp(line, "// ", 3) == 0 ? 3 : 0, name = strlen(kernel);
    if (mark == 0) continue;
    if (part) {
      end = line;
      break;
    }
    if ((size_t)(next - line) == mark + name + 1 && memcmp(line + mark, kernel, name) == 0) part = next;
  }
  if (!part) return NULL;
  *length = (size_t)(end - part);
  while (*length > 0 && part[*length - 1] == '\n') --*length;
  return part;
}

static void print_kernel(const tn_executable *exe, const tn_kernel_summary *kernel) {
  static const struct {
    const char *title, *text;
  } parts[] = {{"declaration", "declarations"}, {"schedule", "schedules"}, {"loop nest", "loops"}};
  char size_text[32];
  cli_format_bytes((double)kernel->code_bytes, size_text, sizeof size_text);
  printf("# ");
  cli_put_shown(stdout, kernel->name);
  printf(": %s of code", size_text);
  if (kernel->flops >= 0) printf(", %.0f operations", kernel->flops);
  cli_format_bytes(kernel->bytes, size_text, sizeof size_text);
  if (kernel->bytes >= 0) printf(" and %s of operands and results a call", size_text);
  printf("\n");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t size, length = 0;
    const char *text = tn_executable_text(exe, parts[i].text, &size);
    const char *part = text ? kernel_part(text, size, kernel->name, &length) : NULL;
    printf("\n# %s", parts[i].title);
    if (part) {
      putchar('\n');
      cli_put_lines(stdout, part, length);
      putchar('\n');
    } else {
      printf(" left out of the file; `tenon compile --texts %s` keeps it\n", parts[i].text);
    }
  }
}

static int print_kernels(const cli_args *args, cli_compile *setup, const char *name) {
  tn_executable *exe;
  tn_module *module;
  setup->options.texts = "all";
  tn_status *status = cli_open(args, setup, args->file, &exe, &module);
  int count = status ? 0 : tn_executable_summarize(exe)->kernel_count;
  int found = 0;
  for (int i = 0; i < count; i++) {
    const tn_kernel_summary *kernel = tn_executable_kernel(exe, i);
    if (strncmp(kernel->name, name, strlen(name)) != 0) continue;
    if (found++) printf("\n");
    print_kernel(exe, kernel);
  }
  if (!status && found == 0)
    status =
        tn_status_create(TN_NOT_FOUND, "%s has no kernel whose name begins with \"%s\"; `tenon inspect` lists its %d",
                         args->file, name, count);
  tn_executable_release(exe);
  tn_module_release(module);
  return cli_report(status);
}

/* Options that would be silently without effect. */
static bool wrong_options(const cli_args *args) {
  static const char *const compiling[] = {"--dim", "--threads", NULL}, *const others[] = {"--text", "--json", NULL};
  static const char *const loading[] = {"--key", "--constants", NULL}, *const json[] = {"--json", NULL};
  static const char *const except_kernels[] = {"--text", "--schedules", "--json", NULL};
  if (cli_is_executable(args->file)) {
    if (cli_refuse(args, compiling, "is for compiling, and %s is compiled already", args->file)) return true;
    bool loads = cli_flag(args, "--text") || cli_flag(args, "--schedules") || cli_flag(args, "--kernel");
    if (!loads &&
        cli_refuse(args, loading, "needs --verify-only, --text, --schedules or --kernel: nothing is loaded otherwise"))
      return true;
  }
  if (cli_flag(args, "--kernel") &&
      cli_refuse(args, except_kernels, "does not go with --kernel, which prints nothing else"))
    return true;
  if (cli_flag(args, "--text") && cli_refuse(args, json, "does not go with --text, which is no JSON")) return true;
  return cli_flag(args, "--schedules") &&
         cli_refuse(args, others, "does not go with --schedules, which prints nothing else");
}

static int run(const cli_args *args) {
  static cli_compile setup;
  if (!cli_compile_setup(args, &setup)) return EXIT_MISUSED;
  setup.inspect_only = true;
  if (cli_flag(args, "--verify-only")) return cli_verify(args, &setup);
  if (cli_wrong_file(args, args->file) || wrong_options(args)) return EXIT_MISUSED;
  if (cli_flag(args, "--schedules")) return print_schedules(args, &setup);
  if (cli_flag(args, "--kernel")) return print_kernels(args, &setup, cli_value(args, "--kernel"));
  char *json;
  tn_status *status = tn_inspect(args->file, &setup.options, &json);
  if (setup.options.progress) setup.options.progress(setup.options.user, "done", 1, 1);
  if (status) return cli_report(status);
  if (cli_flag(args, "--json")) {
    fputs(json, stdout);
  } else {
    print_json_value(skip_space(json), 0, false);
    putchar('\n');
  }
  free(json);
  return cli_flag(args, "--text") ? print_texts(args, &setup) : EXIT_DONE;
}

const cli_command cli_inspect_command = {"inspect", "MODEL.onnx|MODEL.tng|MODEL.tnx [OPTIONS]",
                                         "Tell what a model or executable is made of", options, run};
