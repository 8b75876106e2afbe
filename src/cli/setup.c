/* What the commands share: compile options, opening models, describing shapes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"

static void write_log(void *user, tn_log_level level, const char *line) {
  (void)user;
  if (level >= TN_LOG_WARNING) fprintf(stderr, "tenon: %s\n", line);
}

static void show_progress(void *user, const char *phase, int done, int total) {
  (void)user;
  if (strcmp(phase, "done") == 0) {
    fprintf(stderr, "\r\033[K");
  } else if (total > 1) {
    fprintf(stderr, "\r\033[K%s %d/%d", phase, done, total);
  } else {
    fprintf(stderr, "\r\033[K%s", phase);
  }
  fflush(stderr);
}

static void show_pass(void *user, const char *pass, const char *text) {
  (void)user;
  fprintf(stderr, "# after %s\n%s\n", pass, text);
}

static bool wrong_dim(const cli_args *args, const char *text) {
  cli_misused(args->command, "--dim takes NAME=N or NAME=N,N..., with N at least 0, not \"%s\"", text);
  return false;
}

/* Two sizes for one dimension are a slip, or special sizes, which are written with a comma. */
static bool known_dim(const cli_args *args, const cli_compile *setup, const char *name) {
  const tn_compile_options *o = &setup->options;
  const tn_dim_setting *other = NULL;
  for (int i = 0; i < o->dim_count; i++)
    if (strcmp(setup->dims[i].name, name) == 0) other = &setup->dims[i];
  for (int i = 0; i < o->special_dim_count; i++)
    if (strcmp(setup->special[i].name, name) == 0) other = &setup->special[i];
  if (!other) return false;
  cli_misused(args->command, "--dim %s is given twice; for several sizes write --dim %s=N,N", name, name);
  return true;
}

/* The sizes of one --dim: one is fixed, several are special. */
static bool read_sizes(const cli_args *args, cli_compile *setup, const char *text, const char *name,
                       const char *sizes) {
  tn_compile_options *o = &setup->options;
  bool several = strchr(sizes, ',') != NULL;
  for (;;) {
    char *end;
    errno = 0;
    long long size = strtoll(sizes, &end, 10);
    if (end == sizes || (*end && *end != ',') || size < 0 || errno) return wrong_dim(args, text);
    if (o->dim_count == 64 || o->special_dim_count == 64) {
      cli_misused(args->command, "more than 64 --dim");
      return false;
    }
    if (several)
      setup->special[o->special_dim_count++] = (tn_dim_setting){name, size};
    else
      setup->dims[o->dim_count++] = (tn_dim_setting){name, size};
    if (!*end) return true;
    sizes = end + 1;
  }
}

/* NAME=N[,N...] up to `end`, which is a part of `text`. */
static bool read_dim(const cli_args *args, cli_compile *setup, const char *text, const char *at, const char *end,
                     int *count) {
  const char *equals = memchr(at, '=', (size_t)(end - at));
  char sizes[1024];
  size_t length = equals ? (size_t)(equals - at) : 0, rest = equals ? (size_t)(end - equals) - 1 : 0;
  if (length == 0 || length >= sizeof setup->dim_names[0] || rest >= sizeof sizes) return wrong_dim(args, text);
  if (*count == 64) {
    cli_misused(args->command, "more than 64 --dim");
    return false;
  }
  char *name = setup->dim_names[(*count)++];
  memcpy(name, at, length);
  name[length] = 0;
  memcpy(sizes, equals + 1, rest);
  sizes[rest] = 0;
  return !known_dim(args, setup, name) && read_sizes(args, setup, text, name, sizes);
}

/* Each --dim, and each NAME=N of "NAME=N,NAME=N". */
static bool read_dims(const cli_args *args, cli_compile *setup) {
  int position = 0, count = 0;
  setup->options.dims = setup->dims;
  setup->options.special_dims = setup->special;
  for (const char *text = cli_next(args, "--dim", &position); text; text = cli_next(args, "--dim", &position)) {
    const char *at = text;
    for (;;) {
      const char *equals = strchr(at, '='), *next = equals ? strchr(equals + 1, '=') : NULL, *end = next;
      while (end && end > equals && *end != ',') end--; /* the comma in front of the next name */
      if (next && end == equals) return wrong_dim(args, text);
      if (!read_dim(args, setup, text, at, end ? end : at + strlen(at), &count)) return false;
      if (!end) break;
      at = end + 1;
    }
  }
  return true;
}

static bool read_aliases(const cli_args *args, cli_compile *setup) {
  int position = 0, count = 0;
  for (const char *text = cli_next(args, "--alias", &position); text; text = cli_next(args, "--alias", &position)) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0, size = sizeof setup->alias_names[0][0];
    if (!equals || length == 0 || !equals[1] || length >= size || strlen(equals + 1) >= size || count == 64) {
      cli_misused(args->command, "--alias takes OUTPUT=INPUT, at most 64 times, not \"%s\"", text);
      return false;
    }
    memcpy(setup->alias_names[count][0], text, length);
    setup->alias_names[count][0][length] = 0;
    memcpy(setup->alias_names[count][1], equals + 1, strlen(equals + 1) + 1);
    setup->aliases[count] = (tn_alias_setting){setup->alias_names[count][0], setup->alias_names[count][1]};
    count++;
  }
  setup->options.aliases = setup->aliases;
  setup->options.alias_count = count;
  return true;
}

static bool read_capacities(const cli_args *args, cli_compile *setup) {
  int position = 0, count = 0, most = sizeof setup->capacities / sizeof *setup->capacities;
  const char *text;
  while ((text = cli_next(args, "--capacity", &position)) != NULL) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    char *end = NULL;
    long long size = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (length == 0 || length >= sizeof setup->capacity_names[0] || *end || size < 1 || count == most) {
      cli_misused(args->command, "--capacity takes NAME=N with N at least 1, at most %d times, not \"%s\"", most, text);
      return false;
    }
    memcpy(setup->capacity_names[count], text, length);
    setup->capacity_names[count][length] = 0;
    setup->capacities[count] = (tn_dim_setting){setup->capacity_names[count], size};
    count++;
  }
  setup->options.capacities = setup->capacities;
  setup->options.capacity_count = count;
  return true;
}

/* Each --strided, and each NAME of "NAME,NAME". */
static bool read_strided(const cli_args *args, cli_compile *setup) {
  int position = 0, count = 0, most = sizeof setup->strided / sizeof *setup->strided;
  const char *text;
  while ((text = cli_next(args, "--strided", &position)) != NULL) {
    for (const char *at = text;; at++) {
      size_t length = strcspn(at, ",");
      if (length == 0 || length >= sizeof setup->strided_names[0] || count == most) {
        cli_misused(args->command, "--strided takes NAME[,NAME...], at most %d names, not \"%s\"", most, text);
        return false;
      }
      memcpy(setup->strided_names[count], at, length);
      setup->strided_names[count][length] = 0;
      setup->strided[count] = setup->strided_names[count];
      count++;
      at += length;
      if (!*at) break;
    }
  }
  setup->options.strided = setup->strided;
  setup->options.strided_count = count;
  return true;
}

static void print_times(void *user, const tn_phase_time *const *times, int count) {
  double total = 0;
  for (int i = 0; i < count; i++) total += times[i]->seconds;
  fprintf(stderr, "%-20s %10s %6s\n", "phase", "ms", "%");
  for (int i = 0; i < count; i++)
    fprintf(stderr, "%-20s %10.2f %6.1f\n", times[i]->name, times[i]->seconds * 1e3,
            total > 0 ? 100 * times[i]->seconds / total : 0);
  fprintf(stderr, "%-20s %10.2f (kernels' phases are summed over threads)\n", "sum", total * 1e3);
}

bool cli_compile_setup(const cli_args *args, cli_compile *setup) {
  *setup = (cli_compile){.command = args->command, .options.size = sizeof setup->options, .log.write = write_log};
  int64_t threads = 0;
  if (!cli_number(args, "--threads", 1, 1024, &threads) || !read_dims(args, setup) || !read_aliases(args, setup) ||
      !read_capacities(args, setup) || !read_strided(args, setup))
    return false;
  setup->options.target = cli_value(args, "--target");
  setup->options.run_threads = (int)threads;
  setup->options.no_cache = cli_flag(args, "--no-cache");
  setup->options.direct_convolutions = cli_flag(args, "--direct-convolutions");
  setup->options.log = &setup->log;
  setup->options.print_after = cli_value(args, "--print-after");
  if (setup->options.print_after) setup->options.print = show_pass;
  if (cli_flag(args, "--time-passes")) setup->options.times = print_times;
  if (isatty(STDERR_FILENO) && !setup->options.print) setup->options.progress = show_progress;
  return true;
}

bool cli_is_executable(const char *path) {
  char magic[4] = {0};
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  size_t n = fread(magic, 1, 4, f);
  fclose(f);
  return n == 4 && memcmp(magic, "\x7fTNX", 4) == 0;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), last = strlen(end);
  return length > last && strcmp(text + length - last, end) == 0;
}

bool cli_is_declarations(const char *path) { return ends_with(path, ".te"); }

bool cli_wrong_file(const cli_args *args, const char *path) {
  static const char *const compiling[] = {"--target",   "--alias",       "--capacity",    "--direct-convolutions",
                                          "--no-cache", "--print-after", "--time-passes", "--strided",
                                          NULL};
  static const char *const loading[] = {"--key", "--constants", NULL};
  if (cli_is_executable(path)) return cli_refuse(args, compiling, "is for compiling, and %s is compiled already", path);
  if (cli_is_declarations(path)) {
    cli_misused(args->command, "%s holds declarations: `tenon build` compiles them and `tenon explain` tells of them",
                path);
    return true;
  }
  if (strcmp(args->command, "compile") == 0) return false; /* there they are of what is made */
  return cli_refuse(args, loading, "is for executables, and %s is a model", path);
}

tn_status *cli_read_key(const cli_args *args, cli_compile *setup) {
  const char *path = cli_value(args, "--key");
  if (!path) return NULL;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &setup->key));
  if (setup->key.size > 0) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, "%s: a key has at least one byte", path);
}

tn_load_options cli_load_options(const cli_args *args, cli_compile *setup) {
  tn_load_options load = {.size = sizeof load, .log = &setup->log, .perf_map = getenv("TENON_PERF_MAP") != NULL};
  load.constants_path = cli_value(args, "--constants");
  load.inspect_only = setup->inspect_only;
  if (setup->key.size > 0) load.key = setup->key.data, load.key_size = setup->key.size;
  return load;
}

/* Everything else that was given would be without effect. */
static bool only_verifies(const cli_args *args) {
  static const char *const goes[] = {"--verify-only", "--key", "--constants"};
  for (int i = 0; i < args->count; i++) {
    const char *name = args->settings[i].option->name;
    if (strcmp(name, goes[0]) == 0 || strcmp(name, goes[1]) == 0 || strcmp(name, goes[2]) == 0) continue;
    cli_misused(args->command, "%s does not go with --verify-only, which checks the file and nothing else", name);
    return false;
  }
  return true;
}

int cli_verify(const cli_args *args, cli_compile *setup) {
  if (!cli_is_executable(args->file)) return cli_misused(args->command, "--verify-only needs an executable");
  if (!only_verifies(args)) return EXIT_MISUSED;
  tn_status *status = cli_read_key(args, setup);
  tn_load_options load = cli_load_options(args, setup);
  if (!status) status = tn_executable_verify(args->file, &load);
  if (!status) printf("%s: sound%s\n", args->file, load.key ? ", and signed with this key" : "");
  tn__file_map_close(&setup->key);
  return cli_report(status);
}

tn_status *cli_open(const cli_args *args, cli_compile *setup, const char *path, tn_executable **executable,
                    tn_module **module) {
  *module = NULL;
  *executable = NULL;
  TN_RETURN_IF_ERROR(cli_read_key(args, setup));
  tn_load_options load = cli_load_options(args, setup);
  tn_status *status;
  if (cli_is_executable(path) || ends_with(path, ".tnx")) { /* what only is called one is refused there, in words */
    status = tn_executable_load(path, &load, executable);
  } else {
    status = tn_compile(path, NULL, 0, &setup->options, module);
    if (setup->options.progress) setup->options.progress(NULL, "done", 1, 1);
    load.borrow_data = true; /* the module outlives the executable */
    load.key = NULL;         /* what was just made here needs no signature */
    if (!status) status = tn_module_load(*module, &load, executable);
  }
  tn__file_map_close(&setup->key);
  return status;
}

void cli_print_shape(FILE *out, int rank, const int64_t *shape) {
  fputc('[', out);
  for (int i = 0; i < rank; i++) fprintf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
  fputc(']', out);
}

const char *cli_dims_text(const tn_value_info *info, char *text, size_t size) {
  size_t at = 0;
  at += (size_t)snprintf(text, size, info->rank == TN_ANY_RANK ? "[..." : "[");
  for (int i = 0; i < info->rank && at < size; i++) {
    const tn_dim_info *d = info->dims[i];
    const char *comma = i ? ", " : "";
    if (d->size >= 0) {
      at += (size_t)snprintf(text + at, size - at, "%s%lld", comma, (long long)d->size);
    } else {
      at += (size_t)snprintf(text + at, size - at, "%s%s", comma, d->name ? d->name : "?");
    }
    if (d->capacity > 0 && at < size) at += (size_t)snprintf(text + at, size - at, "<=%lld", (long long)d->capacity);
  }
  if (at < size) snprintf(text + at, size - at, "]");
  return text;
}
