/* tenon build: declarations in a .te file to an object file and a C header. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tenon/te.h"

static const cli_option options[] = {
    {"--output", "BASE", "write BASE.o and BASE.h (also -o); with --emit: the file for the stage, default the screen"},
    {"--emit", "STAGE", "write this stage instead: te, schedule, trace, tir, llvm, asm, c99, opencl, cuda or obj"},
    {"--kernel", "NAME", "build this kernel only, not all of the file"},
    {"--constant", "NAME", "an input that never changes: packed once, by KERNEL_pack_NAME; for one kernel", true},
    {"--parallel", NULL, "functions take a kernel environment first and use its threads"},
    {"--workspace", NULL, "functions take working memory last; KERNEL_workspace_size() tells how much"},
    CLI_DECLARED_OPTIONS,
    {0}};

static const char *const stages[] = {"te",  "schedule", "trace", "tir", "llvm", "asm",
                                     "c99", "opencl",   "cuda",  "obj", NULL};

typedef struct work {
  tn_te **tes;
  tn_schedule **schedules;
  int count;
  tn__file_map tuned; /* the file of --tuned, read once; or nothing */
  char *tuned_text;
} work;

static void release(work *w) {
  for (int i = 0; w->schedules != NULL && i < w->count; i++) tn_schedule_release(w->schedules[i]);
  free(w->schedules);
  free(w->tuned_text);
  tn__file_map_close(&w->tuned);
  tn_te_list_release(w->tes, w->count);
}

/* Does the message begin with a place in a file? */
static bool has_place(const cli_args *args, const tn_status *status) {
  const char *const files[] = {args->file, cli_value(args, "--schedule")}, *message = tn_status_message(status);
  for (int i = 0; i < 2; i++)
    if (files[i] != NULL && strncmp(message, files[i], strlen(files[i])) == 0 && message[strlen(files[i])] == ':')
      return true;
  return false;
}

/* Kernels that a file of schedules says nothing of are chosen for, as long as it is about one of them. */
static tn_status *schedule(const cli_args *args, tn_schedule_options options_now, work *w) {
  const char *target = cli_value(args, "--target");
  const char *stage = cli_value(args, "--emit");
  options_now.plain |= stage != NULL && strcmp(stage, "te") == 0; /* nothing is asked of the schedule */
  const char *constants[CLI_MOST_SETTINGS];
  int position = 0;
  for (const char *c; (c = cli_next(args, "--constant", &position)) != NULL;)
    constants[options_now.constant_count++] = c;
  options_now.constants = constants;
  if (options_now.constant_count > 0 && w->count > 1)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s has %d kernels, and --constant is for one: name it with --kernel",
                            args->file, w->count);
  w->schedules = calloc((size_t)w->count, sizeof *w->schedules);
  if (w->schedules == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory");
  char *text;
  int scheduled = 0;
  tn_status *status = cli_read_schedule(args, &options_now, &text), *missing = NULL;
  for (int i = 0; status == NULL && i < w->count; i++) {
    status = tn_schedule_create(w->tes[i], target, &options_now, &w->schedules[i]);
    scheduled += status == NULL;
    if (text != NULL && w->count > 1 && tn_status_code_of(status) == TN_NOT_FOUND) {
      tn_schedule_options chosen = options_now;
      chosen.schedule = NULL;
      tn_status_free(missing);
      missing = status;
      status = tn_schedule_create(w->tes[i], target, &chosen, &w->schedules[i]);
    }
    if (status != NULL && !has_place(args, status))
      status = tn_status_prefix(status, "kernel %s", tn_te_name(w->tes[i]));
  }
  free(text);
  if (status != NULL || scheduled > 0) {
    tn_status_free(missing);
    return status;
  }
  return missing;
}

/* For all kernels. A byte 0 in the text is found where it is read, which the file's own text is for then. */
static tn_status *read_tuned(const cli_compile *setup, tn_schedule_options *schedules, work *w) {
  if (schedules->tuned == NULL) return NULL;
  TN_RETURN_IF_ERROR(tn__file_map_open(schedules->tuned, &w->tuned));
  w->tuned_text = strndup((const char *)w->tuned.data, w->tuned.size);
  if (w->tuned_text == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory");
  if (strlen(w->tuned_text) == w->tuned.size) schedules->tuned_text = w->tuned_text;
  schedules->log = setup->options.log;
  return NULL;
}

/* A file of tuned schedules for another target, number of threads or version of the declarations would be of no use
 * without a word. */
static tn_status *tell_of_tuned(const cli_compile *setup, const char *path, const work *w) {
  bool taken = setup->warned; /* or told */
  tn_status *status = NULL;
  for (int i = 0; i < w->count && status == NULL && !taken; i++) {
    char *trace;
    status = tn_schedule_trace(w->schedules[i], &trace);
    if (status != NULL) break;
    taken = memmem(w->tuned.data, w->tuned.size, trace, strlen(trace)) != NULL;
    free(trace);
  }
  if (status == NULL && !taken)
    fprintf(stderr,
            "tenon: %s has no schedule that fits these declarations, target and number of threads, and all are chosen "
            "without it\n",
            path);
  return status;
}

static tn_status *write_stage(const char *stage, const char *path, const tn_build_options *build, work *w) {
  char *text;
  size_t size;
  tn_status *status = tn_te_emit(w->schedules, w->count, build, stage, &text, &size);
  if (status != NULL) return status;
  if (path != NULL)
    status = tn__file_write_atomic(path, &(tn__bytes){text, size}, 1, 0644);
  else
    fwrite(text, 1, size, stdout);
  free(text);
  return status;
}

static tn_status *write_files(const char *base, const tn_build_options *options_now, work *w) {
  tn_build *build;
  tn_status *status = tn_te_build(w->schedules, w->count, options_now, &build);
  if (status != NULL) return status;
  status = tn_build_save(build, base);
  size_t size;
  tn_build_object(build, &size);
  char bytes[32];
  cli_format_bytes((double)size, bytes, sizeof bytes);
  if (status == NULL) printf("%s.o, %s.h: %d kernel%s, %s\n", base, base, w->count, tn__plural(w->count), bytes);
  tn_build_release(build);
  return status;
}

/* What is written takes the place of what was there, so it must be nothing that is read. */
static int check_outputs(const cli_args *args, const char *stage, const char *path) {
  static const char *const endings[] = {".o", ".h"};
  const char *taken = stage != NULL && path != NULL ? cli_taken_place(args, path) : NULL;
  for (int i = 0; i < 2 && stage == NULL && taken == NULL; i++) {
    tn__strbuf name;
    tn__strbuf_init(&name, NULL);
    tn__strbuf_printf(&name, "%s%s", path, endings[i]);
    taken = cli_taken_place(args, tn__strbuf_text(&name));
    tn__strbuf_release(&name);
  }
  if (taken == NULL) return EXIT_DONE;
  const char *what = tn__same_file(taken, args->file) ? "the declarations in " : "";
  return cli_misused("build", "the result would take the place of %s\"%s\"", what, taken);
}

/* Before the work, not after it. */
static tn_status *check_places(const char *stage, const char *path) {
  if (stage != NULL) return path != NULL ? tn__file_check_place(path) : NULL;
  tn_status *status = cli_check_place(path, ".o");
  return status != NULL ? status : cli_check_place(path, ".h");
}

static bool is_model(const char *path) {
  const char *dot = strrchr(path, '.');
  return cli_is_executable(path) || (dot != NULL && strcmp(dot, ".onnx") == 0);
}

static int run(const cli_args *args) {
  static cli_compile setup;
  tn_schedule_options options_now = {.size = sizeof options_now};
  const char *stage = cli_value(args, "--emit"), *path = cli_value(args, "--output");
  static const char *const written[] = {"--schedule", NULL};
  if (!cli_compile_setup(args, &setup) || !cli_schedule_setup(args, &options_now) || !cli_word(args, "--emit", stages))
    return EXIT_MISUSED;
  if (is_model(args->file)) return cli_misused("build", "%s is a model: `tenon compile` takes it", args->file);
  if (stage != NULL && strcmp(stage, "te") == 0 &&
      cli_refuse(args, written, "changes no declaration, and --emit te prints nothing else"))
    return EXIT_MISUSED;
  if (path == NULL && stage == NULL) return cli_misused("build", "where to? -o BASE");
  if (path == NULL && strcmp(stage, "obj") == 0)
    return cli_misused("build", "--emit obj is binary: say where with -o FILE");
  if (check_outputs(args, stage, path) != EXIT_DONE) return EXIT_MISUSED;
  if (path != NULL && path[strlen(path) - 1] == '/')
    return cli_misused("build", "--output %s is a folder: name the files in it, as in %sNAME", path, path);
  tn_build_options build = {.size = sizeof build, .parallel = cli_flag(args, "--parallel") || options_now.threads > 1};
  build.workspace = cli_flag(args, "--workspace");
  if (options_now.threads == 0 && !build.parallel) options_now.threads = 1;
  work w = {0};
  tn_status *status = check_places(stage, path);
  if (status == NULL)
    status = tn_te_parse_file(args->file, cli_value(args, "--kernel"), setup.options.dims, setup.options.dim_count,
                              &w.tes, &w.count);
  if (status == NULL) status = read_tuned(&setup, &options_now, &w);
  if (status == NULL) status = schedule(args, options_now, &w);
  if (status == NULL && options_now.tuned != NULL) status = tell_of_tuned(&setup, options_now.tuned, &w);
  if (status == NULL) status = stage != NULL ? write_stage(stage, path, &build, &w) : write_files(path, &build, &w);
  release(&w);
  return cli_report(status);
}

const cli_command cli_build_command = {"build", "KERNELS.te -o BASE [OPTIONS]",
                                       "Compile declarations to an object file and a C header", options, run};
