/* tenon compile: a model to an executable, or any stage in between. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/beside.h"
#include "base/file.h"
#include "cli/cli.h"

static const cli_option options[] = {
    {"--output", "FILE", "where the executable goes (also -o); with --emit: where the stage goes, default the screen",
     .writes = true},
    {"--emit", "STAGE",
     "write this stage instead: graph, te, schedule, tir, llvm, asm or obj; or c: FILE.h and FILE.o (of c99: FILE.c)"},
    {"--constants", "FILE", "put the constants into a file of their own, which executables may share", .writes = true},
    {"--key", "FILE", "sign the executable with the key in this file (HMAC-SHA-256)"},
    CLI_MODULE_OPTIONS,
    CLI_COMPILE_OPTIONS,
    {"--json", NULL, "print the result as JSON"},
    {0}};

static const char *const stages[] = {"graph", "te", "schedule", "tir", "llvm", "asm", "obj", "c", NULL};

/* Options of the executable, when something else is made. */
static bool wrong_options(const cli_args *args, bool standalone) {
  static const char *const whole[] = {"--constants", "--key", "--texts", "--json", NULL};
  const char *stage = cli_value(args, "--emit");
  if (stage && cli_refuse(args, whole, "is of executables, and --emit %s makes none", stage)) return true;
  if (stage && !standalone && args->file_count > 1) {
    cli_misused("compile", "--emit %s is of one model, and %d are given", stage, args->file_count);
    return true;
  }
  return false;
}

static int emit(const cli_args *args, const char *model, const cli_compile *setup, const char *stage) {
  char *text;
  size_t size;
  const char *path = cli_value(args, "--output");
  if (!path && strcmp(stage, "obj") == 0) return cli_misused("compile", "--emit obj is binary: say where with -o FILE");
  tn_status *status = tn_compile_emit(model, NULL, 0, &setup->options, stage, &text, &size);
  if (setup->options.progress) setup->options.progress(setup->options.user, "done", 1, 1);
  if (status) return cli_report(status);
  if (path) {
    status = tn__file_write_atomic(path, &(tn__bytes){text, size}, 1, 0644);
  } else {
    fwrite(text, 1, size, stdout);
  }
  free(text);
  return cli_report(status);
}

static void describe(const cli_args *args, const char *path, tn_module *module) {
  size_t size;
  tn_module_data(module, &size);
  const tn_phase_time *const *times;
  int count = tn_module_times(module, &times);
  if (cli_flag(args, "--json")) {
    tn__strbuf json;
    tn__strbuf_init(&json, NULL);
    tn__strbuf_append(&json, "{\"output\": ");
    tn__strbuf_json_string(&json, path);
    uint64_t most, steps = tn_module_steps(module, &most);
    tn__strbuf_printf(&json,
                      ", \"bytes\": %zu, \"from_cache\": %s, \"steps\": %" PRIu64 ", \"most_steps\": %" PRIu64
                      ", \"seconds\": {",
                      size, tn_module_from_cache(module) ? "true" : "false", steps, most);
    for (int i = 0; i < count; i++) {
      tn__strbuf_append(&json, i ? ", " : "");
      tn__strbuf_json_string(&json, times[i]->name);
      tn__strbuf_printf(&json, ": %.6f", times[i]->seconds);
    }
    tn__strbuf_append(&json, "}}\n");
    fputs(tn__strbuf_text(&json), stdout);
    tn__strbuf_release(&json);
    return;
  }
  char bytes[32];
  cli_format_bytes((double)size, bytes, sizeof bytes);
  printf("%s: %s%s\n", path, bytes, tn_module_from_cache(module) ? " (from the cache)" : "");
}

/* "NAME=FILE", or a file alone, whose function is "main". */
TN_MUST_USE static int read_functions(const cli_args *args, tn_model_function *functions, char names[][128]) {
  for (int i = 0; i < args->file_count; i++) {
    const char *text = args->files[i], *equals = strchr(text, '='), *slash = strchr(text, '/');
    bool named = equals && (!slash || equals < slash);
    if (!named && args->file_count > 1)
      return cli_misused("compile", "several models become functions of one executable: NAME=%s", text);
    size_t length = named ? (size_t)(equals - text) : 0;
    if (length >= 128) return cli_misused("compile", "the name of a function has less than 128 characters");
    memcpy(names[i], text, length);
    names[i][length] = 0;
    if (named && !equals[1]) return cli_misused("compile", "\"%s\" names no file: NAME=FILE", text);
    functions[i] = (tn_model_function){.name = named ? names[i] : "main", .path = named ? equals + 1 : text};
    if (cli_is_executable(functions[i].path))
      return cli_misused("compile", "%s is compiled already", functions[i].path);
    if (cli_wrong_file(args, functions[i].path)) return EXIT_MISUSED;
  }
  return cli_misused_status("compile", tn_compile_arguments_check(functions, args->file_count, NULL));
}

/* The files that the path stands for. */
static int check_output(const cli_args *args, const char *path, const char *ending) {
  char name[4096];
  if (snprintf(name, sizeof name, "%s%s", path, ending) >= (int)sizeof name) return EXIT_DONE; /* refused later */
  const char *taken = cli_taken_place(args, name);
  return taken ? cli_misused("compile", "the result would take the place of \"%s\", which it is made from", taken)
               : EXIT_DONE;
}

/* Of what --emit c writes: the object, or the C file in its place, and the header. */
static const char *const object_endings[] = {".o", ".h"}, *const source_endings[] = {".c", ".h"};
enum { ENDINGS = 2 };

/* Wrong options are said before, and later. */
static const char *const *endings_of(const cli_compile *setup) {
  bool source;
  tn_status_free(tn_compile_makes_source(&setup->options, &source));
  return source ? source_endings : object_endings;
}

/* The part of the path that C functions are named by. */
static const char *c_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What is written takes the place of what was there, so it must be neither a model nor the other file. */
static int check_outputs(const cli_args *args, const cli_compile *setup, const tn_model_function *functions,
                         const char *path) {
  const char *constants = cli_value(args, "--constants");
  if (constants && tn__same_file(path, constants))
    return cli_misused("compile", "the executable and its constants can't be one file: \"%s\"", path);
  for (int i = 0; i < args->file_count; i++) {
    const char *model = functions[i].path;
    if (tn__same_file(path, model) || (constants && tn__same_file(constants, model)))
      return cli_misused("compile", "the result would take the place of the model \"%s\"", model);
  }
  const char *stage = cli_value(args, "--emit");
  bool standalone = stage && strcmp(stage, "c") == 0;
  int misused = standalone ? EXIT_DONE : check_output(args, path, "");
  for (int i = 0; i < ENDINGS && !misused && standalone; i++) misused = check_output(args, path, endings_of(setup)[i]);
  if (!misused && standalone && !tn__is_c_word(c_name(path)))
    misused = cli_misused("compile", "\"%s\" cannot be a part of C's names: use letters, digits and _", c_name(path));
  return !misused && constants ? check_output(args, constants, "") : misused;
}

/* Before the work, not after it: can everything be written, and is the key there? */
static tn_status *check_places(const cli_args *args, cli_compile *setup, const char *path, bool standalone) {
  const char *constants = cli_value(args, "--constants");
  if (!standalone) TN_RETURN_IF_ERROR(cli_check_place(path, ""));
  for (int i = 0; i < ENDINGS && standalone; i++) TN_RETURN_IF_ERROR(cli_check_place(path, endings_of(setup)[i]));
  if (constants) TN_RETURN_IF_ERROR(cli_check_place(constants, ""));
  return cli_read_key(args, setup);
}

/* Nothing could be done with it. */
static tn_status *check_kind(const tn_module *module) {
  bool source;
  TN_RETURN_IF_ERROR(tn_module_is_source(module, &source));
  if (!source) return NULL;
  return tn_status_create(
      TN_UNSUPPORTED,
      "kernels for c99 are C, which no executable runs: --emit c writes the model as FILE.c and FILE.h");
}

/* The constants of an executable that is there stay when the new one cannot be written. */
static tn_status *save(const cli_args *args, const cli_compile *setup, tn_module *module, const char *path) {
  const char *constants = cli_value(args, "--constants");
  const tn__file_map *key = &setup->key;
  if (constants)
    return tn_module_save_split(module, path, constants, NULL, key->size > 0 ? key->data : NULL, key->size);
  if (key->size > 0) TN_RETURN_IF_ERROR(tn_module_sign(module, key->data, key->size));
  return tn_module_save(module, path);
}

/* In another folder the result finds its constants only when they are brought there. */
static void tell_of_constants(const cli_args *args, const cli_compile *setup, const char *path) {
  const char *constants = cli_value(args, "--constants"), *slash = strrchr(path, '/');
  if (!constants) return;
  const char *last = strrchr(constants, '/');
  tn__strbuf wanted;
  tn__strbuf_init(&wanted, NULL);
  tn__strbuf_printf(&wanted, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, last ? last + 1 : constants);
  tn__tell_of_constants(&setup->log, path, tn__strbuf_text(&wanted), constants);
  tn__strbuf_release(&wanted);
}

static int write_c(const char *path, tn_module *module) {
  char object[4096], header[4096];
  bool source;
  tn_status *status = tn_module_is_source(module, &source);
  snprintf(object, sizeof object, "%s%s", path, status || !source ? ".o" : ".c");
  if (!status && snprintf(header, sizeof header, "%s.h", path) >= (int)sizeof header)
    status = tn_status_create(TN_INVALID_ARGUMENT, "the path is too long");
  if (!status) status = tn_module_emit_c(module, c_name(path), object, header);
  if (!status) printf("%s, %s\n", object, header);
  tn_module_release(module);
  return cli_report(status);
}

static int run(const cli_args *args) {
  static cli_compile setup;
  if (!cli_compile_setup(args, &setup) || !cli_word(args, "--emit", stages)) return EXIT_MISUSED;
  const char *stage = cli_value(args, "--emit"), *path = cli_value(args, "--output");
  bool standalone = stage && strcmp(stage, "c") == 0;
  if (wrong_options(args, standalone)) return EXIT_MISUSED;
  static tn_model_function functions[CLI_MOST_FILES];
  static char names[CLI_MOST_FILES][128];
  int misused = read_functions(args, functions, names);
  if (!misused && path) misused = check_outputs(args, &setup, functions, path);
  if (misused) return misused;
  if (stage && !standalone) return emit(args, functions[0].path, &setup, stage);
  if (!path)
    return cli_misused(
        "compile", standalone ? "where to? -o FILE, for FILE.h and FILE.o (of c99: FILE.c)" : "where to? -o FILE.tnx");
  tn_module *module;
  tn_status *status = check_places(args, &setup, path, standalone);
  if (status) return cli_report(status);
  status = tn_compile_functions(functions, args->file_count, &setup.options, &module);
  if (setup.options.progress) setup.options.progress(setup.options.user, "done", 1, 1);
  if (status) return cli_report(status);
  if (standalone) return write_c(path, module);
  status = check_kind(module);
  if (!status) status = save(args, &setup, module, path);
  tn__file_map_close(&setup.key);
  if (!status) describe(args, path, module);
  if (!status) tell_of_constants(args, &setup, path);
  tn_module_release(module);
  return cli_report(status);
}

const cli_command cli_compile_command = {"compile",
                                         "[NAME=]MODEL.onnx|MODEL.tng... -o MODEL.tnx [OPTIONS]",
                                         "Compile a model, or several as functions, to one executable",
                                         options,
                                         run,
                                         CLI_MOST_FILES};
