/* What the commands share: compile options, opening models, describing shapes. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/invariant.h"
#include "cli/cli.h"

static void write_log(void *user, tn_log_level level, const char *line) {
  cli_compile *setup = user;
  if (level < TN_LOG_WARNING) return;
  pthread_mutex_lock(&setup->log_lock);
  bool again = setup->last_warning != NULL && strcmp(setup->last_warning, line) == 0; /* each kernel may say so */
  if (!again) {
    free(setup->last_warning);
    setup->last_warning = strdup(line);
    setup->warned = true;
  }
  pthread_mutex_unlock(&setup->log_lock);
  if (again) return;
  fputs("tenon: ", stderr);
  cli_put_shown(stderr, line);
  fputc('\n', stderr);
}

/* How far it is, and for how long it will go on, once there is something to tell that from. */
static void show_progress(void *user, const char *phase, int done, int total) {
  cli_compile *setup = user;
  double elapsed = tn__now() - setup->phase_start;
  fprintf(stderr, "\r\033[K");
  if (done == 0) setup->phase_start = tn__now();
  if (strcmp(phase, "done") != 0) fprintf(stderr, "%s", phase);
  if (strcmp(phase, "done") != 0 && total > 1) fprintf(stderr, " %.0f %%", 100.0 * done / total);
  if (done > 0 && done < total && elapsed > 0.5)
    fprintf(stderr, ", %.0f s left", ceil(elapsed / done * (total - done)));
  fflush(stderr);
}

void cli_format_bytes(double bytes, char *out, size_t size) {
  static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 999.95 && unit < 4) {
    bytes /= 1000;
    unit++;
  }
  snprintf(out, size, "%.*f %s", unit > 0, bytes, units[unit]);
}

static void show_pass(void *user, const char *pass, const char *text) {
  (void)user;
  fprintf(stderr, "# after %s\n", pass);
  cli_put_lines(stderr, text, strlen(text));
  fputc('\n', stderr);
}

/* Declarations have no special sizes, and the row says so to those that build them alone. */
static bool one_size(const cli_args *args, const tn__option_row *row) {
  for (int i = 0; i < args->count; i++)
    if (args->settings[i].option == &row->declaration) return true;
  return false;
}

static bool wrong_dim(const cli_args *args, const tn__option_row *row, const char *text) {
  cli_misused(args->command, "%s takes NAME=N or %s, with N at least 0, not \"%s\"", row->cli.name,
              one_size(args, row) ? "NAME=N,NAME=N" : "NAME=N,N...", text);
  return false;
}

static bool no_memory(void) {
  cli_report(tn_status_create(TN_OUT_OF_MEMORY, "out of memory"));
  return false;
}

/* Grows the list by one item. Returns false after reporting that memory is exhausted. */
static bool make_room(cli_list *list, int count, size_t item_bytes) {
  if (count < list->capacity) return true;
  int capacity = list->capacity > 0 ? 2 * list->capacity : 16;
  void *items = realloc(list->of.items, (size_t)capacity * item_bytes);
  if (items == NULL) return no_memory();
  list->of.items = items;
  list->capacity = capacity;
  return true;
}

/* Returns a copy that lives as long as the process. */
static char *keep_text(const char *text, size_t length) {
  char *kept = strndup(text, length);
  if (kept == NULL) no_memory();
  return kept;
}

/* Two sizes for one dimension are a slip, or special sizes, which are written with a comma. */
static bool known_dim(const cli_args *args, const cli_compile *setup, const tn__option_row *row, const char *name,
                      const char *sizes) {
  const tn_compile_options *o = &setup->options;
  const tn_dim_setting *known = NULL;
  for (int i = 0; i < o->dim_count; i++) {
    TN__INVARIANT(o->dims[i].name != NULL);
    if (strcmp(o->dims[i].name, name) == 0) known = &o->dims[i];
  }
  for (int i = 0; i < o->special_dim_count; i++) {
    TN__INVARIANT(o->special_dims[i].name != NULL);
    if (strcmp(o->special_dims[i].name, name) == 0) known = &o->special_dims[i];
  }
  if (!known) return false;
  if (one_size(args, row))
    cli_misused(args->command, "%s %s is given twice: %lld and %s", row->cli.name, name, (long long)known->size, sizes);
  else
    cli_misused(args->command, "%s %s is given twice; for several sizes write %s %s=N,N", row->cli.name, name,
                row->cli.name, name);
  return true;
}

/* The sizes of one --dim: one is fixed, several are special. */
static bool read_sizes(const cli_args *args, cli_compile *setup, const tn__option_row *row, cli_list *list,
                       const char *text, const char *name, const char *sizes) {
  tn_compile_options *o = &setup->options;
  bool several = strchr(sizes, ',') != NULL;
  if (several && one_size(args, row)) return wrong_dim(args, row, text);
  for (;;) {
    char *end;
    errno = 0;
    long long size = strtoll(sizes, &end, 10);
    if (end == sizes || (*end && *end != ',') || size < 0 || errno) return wrong_dim(args, row, text);
    int *count = several ? &o->special_dim_count : &o->dim_count;
    if (!make_room(&list[several], *count, sizeof(tn_dim_setting))) return false;
    list[several].of.sizes[(*count)++] = (tn_dim_setting){name, size};
    *(several ? &o->special_dims : &o->dims) = list[several].of.sizes;
    if (!*end) return true;
    sizes = end + 1;
  }
}

/* NAME=N[,N...] up to `end`, which is a part of `text`. */
TN_MUST_USE static bool read_dim(const cli_args *args, cli_compile *setup, const tn__option_row *row, cli_list *list,
                                 const char *text, const char *at, const char *end) {
  const char *equals = memchr(at, '=', (size_t)(end - at));
  size_t length = equals ? (size_t)(equals - at) : 0;
  if (length == 0) return wrong_dim(args, row, text);
  char *name = keep_text(at, length), *sizes = keep_text(equals + 1, (size_t)(end - equals) - 1);
  bool right = name && sizes && !known_dim(args, setup, row, name, sizes) &&
               read_sizes(args, setup, row, list, text, name, sizes);
  free(sizes);
  if (!right) free(name);
  return right; /* NOLINT(clang-analyzer-unix.Malloc): the list has the name */
}

/* Each --dim, and each NAME=N of "NAME=N,NAME=N". The row behind it is that of the special sizes. */
static bool read_dims(const cli_args *args, cli_compile *setup, const tn__option_row *row, cli_list *list) {
  int position = 0;
  for (const char *text; (text = cli_next(args, row->cli.name, &position)) != NULL;) {
    const char *at = text;
    for (;;) {
      const char *equals = strchr(at, '='), *next = equals ? strchr(equals + 1, '=') : NULL, *end = next;
      while (end && end > equals && *end != ',') end--; /* the comma in front of the next name */
      if (next && end == equals) return wrong_dim(args, row, text);
      if (!read_dim(args, setup, row, list, text, at, end ? end : at + strlen(at))) return false;
      if (!end) break;
      at = end + 1;
    }
  }
  return true;
}

/* Returns whether the text is LEFT=RIGHT, with both parts non-empty. */
static bool is_pair(const char *text) {
  const char *equals = strchr(text, '=');
  return equals != NULL && equals != text && equals[1] != 0;
}

/* Returns a copy of LEFT. Returns NULL after reporting an earlier item with the same LEFT and another RIGHT. */
static char *keep_left(const cli_args *args, const tn__option_row *row, const char *text) {
  size_t length = strcspn(text, "=");
  int position = 0;
  for (const char *before; (before = cli_next(args, row->cli.name, &position)) != NULL && before != text;) {
    if (strncmp(before, text, length + 1) != 0 || strcmp(before, text) == 0) continue;
    cli_misused(args->command, "%s %.*s is given twice: \"%s\" and \"%s\"", row->cli.name, (int)length, text,
                before + length + 1, text + length + 1);
    return NULL;
  }
  return keep_text(text, length);
}

/* The number of pairs, -1 after saying what is wrong. */
static int read_pairs(const cli_args *args, const tn__option_row *row, cli_list *list) {
  int position = 0, count = 0;
  for (const char *text, *left; (text = cli_next(args, row->cli.name, &position)) != NULL; count++) {
    if (!is_pair(text)) {
      cli_misused(args->command, "%s takes %s, not \"%s\"", row->cli.name, row->cli.value, text);
      return -1;
    }
    if (!make_room(list, count, sizeof *list->of.pairs) || (left = keep_left(args, row, text)) == NULL) return -1;
    list->of.pairs[count] = (tn_alias_setting){left, strchr(text, '=') + 1};
  }
  return count;
}

static int read_named_sizes(const cli_args *args, const tn__option_row *row, cli_list *list) {
  int position = 0, count = 0;
  for (const char *text, *left; (text = cli_next(args, row->cli.name, &position)) != NULL; count++) {
    char *end = NULL;
    errno = 0;
    long long size = is_pair(text) ? strtoll(strchr(text, '=') + 1, &end, 10) : 0;
    if (!end || *end || errno || size < row->low || size > row->high) {
      cli_misused(args->command, "%s takes %s with N at least %lld, not \"%s\"", row->cli.name, row->cli.value,
                  (long long)row->low, text);
      return -1;
    }
    if (!make_room(list, count, sizeof *list->of.sizes) || (left = keep_left(args, row, text)) == NULL) return -1;
    list->of.sizes[count] = (tn_dim_setting){left, size};
  }
  return count;
}

/* Each time that the option is given, and each NAME of "NAME,NAME". */
static int read_names(const cli_args *args, const cli_option *option, cli_list *list) {
  int position = 0, count = 0;
  for (const char *text; (text = cli_next(args, option->name, &position)) != NULL;) {
    for (const char *at = text;; at++) {
      size_t length = strcspn(at, ",");
      if (length == 0) {
        cli_misused(args->command, "%s takes %s, not \"%s\"", option->name, option->value, text);
        return -1;
      }
      if (!make_room(list, count, sizeof *list->of.names)) return -1;
      if ((list->of.names[count++] = keep_text(at, length)) == NULL) return -1;
      at += length;
      if (!*at) break;
    }
  }
  return count;
}

/* VALUE=DEVICE[,body][,result], which is cut into its words. Names of values may have any sign, those of devices no
 * '='. */
TN_MUST_USE static bool read_side(char *text, tn_on_device *out) {
  char *equals = strrchr(text, '=');
  if (!equals || equals == text || equals[1] == 0 || equals[1] == ',') return false;
  *equals = 0;
  *out = (tn_on_device){.value = text, .device = equals + 1};
  for (char *word = strchr(equals + 1, ','), *next; word; word = next) {
    next = strchr(word + 1, ',');
    *word++ = 0;
    if (next) *next = 0;
    bool *side = strcmp(word, "body") == 0     ? &out->constrain_body
                 : strcmp(word, "result") == 0 ? &out->constrain_result
                                               : NULL;
    if (!side || *side) return false;
    *side = true;
  }
  out->constrain_body |= !out->constrain_result;
  return true;
}

static int read_on_device(const cli_args *args, const tn__option_row *row, cli_list *list) {
  int position = 0, count = 0;
  for (const char *text; (text = cli_next(args, row->cli.name, &position)) != NULL; count++) {
    char *words = make_room(list, count, sizeof *list->of.said) ? keep_text(text, strlen(text)) : NULL;
    if (!words) return -1;
    if (read_side(words, &list->of.said[count])) continue;
    free(words);
    cli_misused(args->command, "%s takes %s, and behind it ,body or ,result or both, not \"%s\"", row->cli.name,
                row->cli.value, text);
    return -1;
  }
  return count;
}

/* Reads what was given for a row that is no list into the field at `out`. */
TN_MUST_USE static bool read_value(const cli_args *args, const tn__option_row *row, void *out) {
  switch (row->kind) {
    case TN__OPTION_FLAG: *(bool *)out = cli_flag(args, row->cli.name); return true;
    case TN__OPTION_COUNT: {
      int64_t number = 0; /* which is what is not given; nobody asks for none */
      if (!cli_number(args, row->cli.name, row->low > 0 ? row->low : 1, row->high, &number)) return false;
      *(int *)out = (int)number;
      return true;
    }
    case TN__OPTION_BYTES: {
      int64_t number = 0;
      if (!cli_number(args, row->cli.name, row->low, row->high, &number)) return false;
      *(uint64_t *)out = (uint64_t)number;
      return true;
    }
    case TN__OPTION_TEXT:
    case TN__OPTION_PATH:
    case TN__OPTION_WORDS: *(const char **)out = cli_value(args, row->cli.name); return true;
    default: return true; /* lists are read on their own, and what is the caller's is no value */
  }
}

static cli_list *new_list(void) {
  cli_list *list = calloc(2, sizeof *list); /* of the special sizes, too */
  if (!list) no_memory();
  return list;
}

/* An option for loading, which is in no table. */
TN_MUST_USE static bool read_list(const cli_args *args, const char *name, cli_list **list, int *count) {
  for (int i = 0; i < args->count && *list == NULL; i++) {
    if (strcmp(args->settings[i].option->name, name) != 0) continue;
    *list = new_list();
    *count = *list ? read_names(args, args->settings[i].option, *list) : -1;
  }
  return *count >= 0;
}

static bool read_row(const cli_args *args, cli_compile *setup, const tn__option_row *row) {
  char *options = (char *)&setup->options;
  int count;
  if (!row->count_at) return read_value(args, row, options + row->at);
  if (!cli_flag(args, row->cli.name)) return true;
  cli_list *list = new_list();
  if (!list) return false;
  setup->lists[row - tn__option_rows] = list;
  switch (row->kind) {
    case TN__OPTION_DIMS: return read_dims(args, setup, row, list);
    case TN__OPTION_PAIRS: count = read_pairs(args, row, list); break;
    case TN__OPTION_ON_DEVICE: count = read_on_device(args, row, list); break;
    case TN__OPTION_SIZES: count = read_named_sizes(args, row, list); break;
    default: count = read_names(args, &row->cli, list);
  }
  if (count < 0) return false;
  *(void **)(void *)(options + row->at) = list->of.items;
  *(int *)(void *)(options + row->count_at) = count;
  return true;
}

bool cli_schedule_setup(const cli_args *args, tn_schedule_options *options) {
  for (const tn__option_row *row = tn__option_rows; row->name; row++)
    if (row->declared_at && row->cli.name && !read_value(args, row, (char *)options + row->declared_at)) return false;
  for (const tn__option_row *row = tn__option_declared_rows; row->name; row++)
    if (row->cli.name && !read_value(args, row, (char *)options + row->declared_at)) return false;
  static const char *const written[] = {"--schedule", NULL};
  return !options->plain || !cli_refuse(args, written, "says how to compute, and --plain leaves the loops as declared");
}

tn_status *cli_read_schedule(const cli_args *args, tn_schedule_options *options, char **text) {
  const char *path = cli_value(args, "--schedule");
  tn__file_map map;
  *text = NULL;
  if (!path) return NULL;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  if ((*text = malloc(map.size + 1)) != NULL) {
    tn__copy(*text, map.data, map.size);
    (*text)[map.size] = 0;
  }
  bool whole = *text != NULL && strlen(*text) == map.size;
  tn__file_map_close(&map);
  if (!*text) return tn_status_create(TN_OUT_OF_MEMORY, "%s: no memory", path);
  if (!whole) return tn_status_create(TN_INVALID_ARGUMENT, "%s: a zero byte in a text", path);
  options->schedule = *text;
  options->schedule_name = path;
  return NULL;
}

static void print_devices(void *user, const char *text) { cli_put_lines(stderr, text, strlen(text)); }

static void print_times(void *user, const tn_phase_time *const *times, int count) {
  double total = 0;
  for (int i = 0; i < count; i++) total += times[i]->seconds;
  fprintf(stderr, "%-20s %10s %6s\n", "phase", "ms", "%");
  for (int i = 0; i < count; i++)
    fprintf(stderr, "%-20s %10.2f %6.1f\n", times[i]->name, times[i]->seconds * 1e3,
            total > 0 ? 100 * times[i]->seconds / total : 0);
  fprintf(stderr, "%-20s %10.2f (kernels' phases are summed over threads)\n", "sum", total * 1e3);
}

/* Declarations and machines have one target; several are for models. */
static bool has_wrong_targets(const cli_args *args) {
  const char *target = cli_value(args, "--target");
  bool one = strcmp(args->command, "build") == 0 || strcmp(args->command, "machine") == 0;
  const char *what = "what it tells is about one";
  for (int i = 0; i < args->file_count; i++) {
    if (!one && !cli_is_declarations(args->files[i])) continue;
    one = true;
    what = "declarations are compiled for one";
  }
  if (!one || target == NULL || strchr(target, ';') == NULL) return false;
  cli_misused(args->command, "--target \"%s\" are several, and %s: \"%.*s\", say", target, what,
              (int)strcspn(target, ";"), target);
  return true;
}

bool cli_compile_setup(const cli_args *args, cli_compile *setup) {
  *setup = (cli_compile){.command = args->command, .options.size = sizeof setup->options, .log = {write_log, setup}};
  pthread_mutex_init(&setup->log_lock, NULL);
  for (const tn__option_row *row = tn__option_rows; row->name; row++)
    if (row->cli.name && !read_row(args, setup, row)) return false;
  if (!read_list(args, "--map", &setup->map, &setup->map_count)) return false;
  if (!read_list(args, "--device-memory", &setup->memory, &setup->memory_count)) return false;
  if (cli_misused_status(args->command, tn_compile_arguments_check(NULL, 0, &setup->options))) return false;
  if (has_wrong_targets(args)) return false;
  setup->options.log = &setup->log;
  if (setup->options.print_after) setup->options.print = show_pass;
  if (cli_flag(args, "--time-passes")) setup->options.times = print_times;
  if (cli_flag(args, "--explain-devices")) setup->options.devices = print_devices;
  if (isatty(STDERR_FILENO) && !setup->options.print) {
    setup->options.progress = show_progress;
    setup->options.user = setup;
  }
  return true;
}

tn_status *cli_check_place(const char *path, const char *ending) {
  tn__strbuf name;
  tn__strbuf_init(&name, NULL);
  tn__strbuf_printf(&name, "%s%s", path, ending);
  tn_status *status = tn__strbuf_status(&name);
  if (!status) status = tn__file_check_place(tn__strbuf_text(&name));
  tn__strbuf_release(&name);
  return status;
}

bool cli_is_executable(const char *path) {
  char magic[4] = {0};
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe may have no writer */
  if (fd < 0) return false;
  ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? read(fd, magic, sizeof magic) : 0;
  close(fd);
  return n == sizeof magic && memcmp(magic, "\x7fTNX", sizeof magic) == 0;
}

int cli_need_executable(const cli_args *args, const char *why) {
  if (cli_is_executable(args->file)) return EXIT_DONE;
  tn__file_map map;
  tn_status *status = tn__file_map_open(args->file, &map); /* why it is none may be that it is not there */
  if (status) return cli_report(status);
  tn__file_map_close(&map);
  return cli_misused(args->command, "%s %s", args->file, why);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), last = strlen(end);
  return length > last && strcmp(text + length - last, end) == 0;
}

bool cli_is_declarations(const char *path) { return ends_with(path, ".te"); }

bool cli_wrong_file(const cli_args *args, const char *path) {
  static const char *const loading[] = {"--key", "--constants", NULL};
  if (cli_is_executable(path))
    return cli_refuse_rows(args, TN__OPTION_RUNS, "is for compiling, and %s is compiled already", path);
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

tn_load_options cli_load_options(const cli_args *args, const cli_compile *setup) {
  tn_load_options load = {.size = sizeof load, .log = &setup->log, .perf_map = secure_getenv("TENON_PERF_MAP") != NULL};
  load.constants_path = cli_value(args, "--constants");
  load.inspect_only = setup->inspect_only;
  if (setup->map_count > 0) load.device_map = setup->map->of.names, load.device_map_count = setup->map_count;
  if (setup->memory_count > 0) load.memory = setup->memory->of.names, load.memory_count = setup->memory_count;
  load.concurrent_islands = cli_flag(args, "--concurrent-islands");
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
  if (!only_verifies(args)) return EXIT_MISUSED;
  int wrong = cli_need_executable(args, "is no executable, which --verify-only needs");
  if (wrong) return wrong;
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
    if (setup->options.progress) setup->options.progress(setup->options.user, "done", 1, 1);
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
