#include "options/options.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"

#define FIELD(field) \
  .name = #field, .at = offsetof(tn_compile_options, field), .bytes = sizeof(((tn_compile_options *)0)->field)
#define LIST(field, count) FIELD(field), .count_name = #count, .count_at = offsetof(tn_compile_options, count)
#define DECLARED(field) .declared_at = offsetof(tn_schedule_options, field)

/* NOLINTBEGIN(bugprone-sizeof-expression): the size of a field is meant, whether it is a pointer or not */
const tn__option_row tn__option_rows[] = {
    {FIELD(target), .kind = TN__OPTION_TEXT, .flags = TN__OPTION_CODE | TN__OPTION_DECLARED, .usual = "this machine",
     .help = "what to compile for ([targets.md](targets.md))",
     .cli = {"--target", "TARGET", "compile for x86-64-v3, x86-64-v4, aarch64, ... instead of this machine"},
     .python = "target", .position = 1},
    {LIST(dims, dim_count), .kind = TN__OPTION_DIMS, .flags = TN__OPTION_CODE | TN__OPTION_RUNS | TN__OPTION_DECLARED,
     .low = 0, .high = INT64_MAX, .usual = "open dimensions stay open",
     .help = "sizes of symbolic dimensions, which are fixed then",
     .cli = {"--dim", "NAME=N[,N...]", "fix a symbolic dimension; or, with several sizes, compile for each and for any",
             true},
     .declaration = {"--dim", "NAME=N,...", "fix dimensions; may be given several times", true}, .python = "dims",
     .position = 3},
    {LIST(special_dims, special_dim_count), .kind = TN__OPTION_SIZES, .flags = TN__OPTION_CODE, .low = 0,
     .high = INT64_MAX, .usual = "none",
     .help = "sizes of symbolic dimensions that get functions of their own (`--dim` and `dims` with several sizes)"},
    {LIST(aliases, alias_count), .kind = TN__OPTION_PAIRS, .flags = TN__OPTION_CODE, .usual = "none",
     .help = "outputs that may take the memory of an input",
     .cli = {"--alias", "OUT=IN", "let an output take the memory of an input; '*' stands for the same in both", true},
     .python = "aliases"},
    {LIST(capacities, capacity_count), .kind = TN__OPTION_SIZES, .flags = TN__OPTION_CODE, .low = 1, .high = INT64_MAX,
     .usual = "none", .help = "the most that dimensions will be along which outputs grow in inputs' memory",
     .cli = {"--capacity", "NAME=N", "the most a dimension will be along which outputs grow in inputs' memory", true},
     .python = "capacities"},
    {LIST(strided, strided_count), .kind = TN__OPTION_NAMES, .flags = TN__OPTION_CODE, .usual = "none",
     .help = "inputs that are used where they lie whatever their strides",
     .cli = {"--strided", "NAME[,NAME...]",
             "inputs that are used where they lie whatever their strides; '*' as in --alias", true},
     .python = "strided"},
    {FIELD(run_threads), .kind = TN__OPTION_COUNT, .flags = TN__OPTION_CODE | TN__OPTION_RUNS | TN__OPTION_DECLARED,
     DECLARED(threads), .low = 0, .high = 1024, .usual = "what this process may use; 1 for other targets",
     .help = "threads to run with, and to schedule for",
     .cli = {"--threads", "N", "threads to run with, and to schedule for (default: what this process may use)"},
     .declaration = {"--threads", "N",
                     "threads to schedule for; more than 1 says --parallel (default: 1, with --parallel this "
                     "machine's)"},
     .python = "threads", .position = 2},
    {FIELD(machine), .kind = TN__OPTION_PATH, .flags = TN__OPTION_CODE | TN__OPTION_DECLARED, DECLARED(machine),
     .usual = "what was measured here, or is usual for the target",
     .help = "a machine file: what caches and cores do ([targets.md](targets.md))",
     .cli = {"--machine", "FILE",
             "choose schedules for the caches and cores in this file, as `tenon machine` prints it"},
     .python = "machine"},
    {FIELD(no_measure), .kind = TN__OPTION_FLAG, .flags = TN__OPTION_CODE | TN__OPTION_DECLARED | TN__OPTION_REVERSED,
     DECLARED(no_measure), .usual = "this machine is measured once",
     .help = "schedules for this machine are chosen from what is usual for CPUs like it",
     .cli = {"--no-measure", NULL, "choose schedules from what is usual for CPUs like this one; nothing is measured"},
     .python = "measure"},
    {FIELD(tuned), .kind = TN__OPTION_PATH, .flags = TN__OPTION_CODE | TN__OPTION_DECLARED, DECLARED(tuned),
     .usual = "all schedules are chosen", .help = "a file of tuned schedules ([tuning.md](tuning.md))",
     .cli = {"--tuned", "FILE", "take the schedules that `tenon tune` found and wrote to this file"},
     .python = "tuned"},
    {FIELD(host), .kind = TN__OPTION_TEXT, .flags = TN__OPTION_CODE,
     .usual = "the one that a target names, else the only CPU among them",
     .help = "the target of what is no kernel ([devices.md](devices.md))",
     .cli = {"--host", "TARGET", "the target of what is no kernel: shapes, conditions, lists and strings"},
     .python = "host"},
    {LIST(place, place_count), .kind = TN__OPTION_NAMES, .flags = TN__OPTION_CODE,
     .usual = "everything is on the first target",
     .help = "which nodes run on which device, as `encoder/*=opencl:0`, `@placement.json` or `auto` "
             "([devices.md](devices.md))",
     .cli = {"--place", "NAMES=DEVICE,...",
             "run the nodes of these names on a device; '*' is any text; also @FILE.json, and auto", true},
     .python = "place"},
    {LIST(memory, memory_count), .kind = TN__OPTION_NAMES, .flags = TN__OPTION_CODE, .usual = "as much as there is",
     .help = "how much memory of a device a program may take, as `opencl:0=2GiB` ([devices.md](devices.md))",
     .cli = {"--memory", "DEVICE=SIZE,...", "how much memory of a device to plan for: opencl:0=2GiB", true},
     .python = "memory"},
    {LIST(annotations, annotation_count), .kind = TN__OPTION_ON_DEVICE, .flags = TN__OPTION_CODE, .usual = "none",
     .help = "which values live on which device, by name ([devices.md](devices.md))",
     .cli = {"--on-device", "VALUE=DEVICE",
             "a value of this name lives there; DEVICE,result: is read there; DEVICE,body,result: both", true},
     .python = "annotations"},
    {FIELD(devices), .kind = TN__OPTION_CALLER, .usual = "nothing is told",
     .help = "is told the devices, and where each node runs",
     .cli = {"--explain-devices", NULL, "print the devices, and where each node runs and why, on stderr"}},
    {FIELD(compile_threads), .kind = TN__OPTION_COUNT, .low = 0, .high = 1024, .usual = "what this process may use",
     .help = "threads to compile with", .python = "compile_threads"},
    {FIELD(no_cache), .kind = TN__OPTION_FLAG, .flags = TN__OPTION_REVERSED, .usual = "the cache is used",
     .help = "neither read nor write the compile cache",
     .cli = {"--no-cache", NULL, "neither read nor write the compile cache"}, .python = "cache", .position = 4},
    {FIELD(cache_directory), .kind = TN__OPTION_PATH,
     .usual = "`$TENON_CACHE_DIR`, else `$XDG_CACHE_HOME/tenon`, else `~/.cache/tenon`",
     .help = "where the compile cache is", .python = "cache_directory"},
    {FIELD(cache_limit_bytes), .kind = TN__OPTION_BYTES, .usual = "2 GiB",
     .help = "how large the compile cache may become; 0: the default"},
    {FIELD(direct_convolutions), .kind = TN__OPTION_FLAG, .flags = TN__OPTION_CODE,
     .usual = "Winograd's algorithm where it is faster", .help = "every convolution as the sums of products that it is",
     .cli = {"--direct-convolutions", NULL, "no Winograd: convolutions as the sums of products that they are"},
     .python = "direct_convolutions"},
    {FIELD(fold_defaults), .kind = TN__OPTION_FLAG, .flags = TN__OPTION_CODE, .usual = "callers may replace defaults",
     .help = "defaults of inputs (initializers of the same name) as constants",
     .cli = {"--fold-defaults", NULL, "make inputs that have defaults constants: faster, and no longer inputs"},
     .python = "fold_defaults"},
    {FIELD(texts), .kind = TN__OPTION_WORDS, .flags = TN__OPTION_CODE | TN__OPTION_MODULE, .usual = "schedules",
     .help = "what the executable keeps for people and tools: schedules, graph, declarations, loops; all; none",
     .cli = {"--texts", "LIST",
             "what to keep for `tenon inspect`: schedules (default), graph, declarations, loops; all; none"},
     .python = "texts"},
    {FIELD(print_after), .kind = TN__OPTION_TEXT, .usual = "nothing is printed",
     .help = "the pass after which `print` is called",
     .cli = {"--print-after", "PASS", "print the graph or loop nests after this pass (\"all\": every one) on stderr"}},
    {FIELD(print), .kind = TN__OPTION_CALLER, .usual = "nothing is printed", .help = "gets what passes leave"},
    {FIELD(times), .kind = TN__OPTION_CALLER, .usual = "nothing is told",
     .help = "is told at the end where the time went",
     .cli = {"--time-passes", NULL, "print where the compile time went on stderr"}},
    {FIELD(progress), .kind = TN__OPTION_CALLER, .usual = "nothing is told", .help = "is told how far the work is"},
    {FIELD(cancelled), .kind = TN__OPTION_CALLER, .usual = "the work is done",
     .help = "is asked whether the compilation shall end (`TN_CANCELLED`)"},
    {FIELD(user), .kind = TN__OPTION_CALLER, .usual = "NULL", .help = "what these functions are given"},
    {FIELD(log), .kind = TN__OPTION_CALLER, .usual = "nothing is told", .help = "gets warnings"},
    {FIELD(allocator), .kind = TN__OPTION_CALLER, .usual = "malloc, realloc and free", .help = "gives memory"},
    {0}};

#undef FIELD
#define FIELD(field)                                                                   \
  .name = #field, .declared_at = offsetof(tn_schedule_options, field), .flags = FLAGS, \
  .bytes = sizeof(((tn_schedule_options *)0)->field)
#define FLAGS TN__OPTION_CODE | TN__OPTION_DECLARED
const tn__option_row tn__option_declared_rows[] = {
    {FIELD(schedule), .kind = TN__OPTION_FILE, .usual = "the declaration's own, else a choice",
     .help = "a schedule that people write, or a trace ([schedules.md](schedules.md))",
     .cli = {"--schedule", "FILE", "the schedule in this file, or the trace, instead of the declaration's or a choice"},
     .python = "schedule"},
    {FIELD(schedule_name), .kind = TN__OPTION_PATH, .usual = "\"schedule\"",
     .help = "what messages call the text of `schedule`"},
    {FIELD(no_schedule), .kind = TN__OPTION_FLAG, .usual = "the schedules in a declaration's text are used",
     .help = "passes over the schedules in the declaration's own text",
     .cli = {"--no-schedule", NULL, "choose, also where the file has a schedule for the kernel"},
     .python = "no_schedule"},
    {FIELD(plain), .kind = TN__OPTION_FLAG, .usual = "a schedule is chosen",
     .help = "no choice: the declaration's own loops",
     .cli = {"--plain", NULL, "no choice: the declaration's own loops"}, .python = "plain"},
    {FIELD(vector_bytes), .kind = TN__OPTION_COUNT, .low = 16, .high = 64, .usual = "the target's",
     .help = "how wide vectors are: 16, 32 or 64, and no more than the target has",
     .cli = {"--vector-bytes", "N", "how wide vectors are: 16, 32 or 64"}, .python = "vector_bytes"},
    {FIELD(cache_bytes), .kind = TN__OPTION_BYTES, .low = 4096, .high = 1 << 30, .usual = "the target's L2",
     .help = "bytes of L2 that one thread may fill",
     .cli = {"--cache-bytes", "N", "bytes of L2 that one thread may fill"}, .python = "cache_bytes"},
    {FIELD(registers), .kind = TN__OPTION_COUNT, .low = 4, .high = 64, .usual = "the target's",
     .help = "vector registers to plan for", .cli = {"--registers", "N", "vector registers to plan for"},
     .python = "registers"},
    {FIELD(search_space), .kind = TN__OPTION_COUNT, .low = 1, .high = 1000000, .usual = "2,000",
     .help = "candidates that a search weighs",
     .cli = {"--search-space", "N", "candidates that a search weighs (default 2000)"}, .python = "search_space"},
    {0}};
/* NOLINTEND(bugprone-sizeof-expression) */

const tn__option_row *tn__options_find(const char *name) {
  for (const tn__option_row *row = tn__option_rows; row->name; row++)
    if (strcmp(row->name, name) == 0) return row;
  for (const tn__option_row *row = tn__option_declared_rows; row->name; row++)
    if (strcmp(row->name, name) == 0) return row;
  return NULL;
}

const char *tn__option_kind_name(tn__option_kind kind) {
  static const char *const names[] = {"flag",  "count", "bytes", "text",        "path", "words", "dims",
                                      "sizes", "pairs", "names", "annotations", "file", "caller"};
  return names[kind];
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

#define TYPE "tn_compile_options"

static const void *field(const tn_compile_options *options, size_t at) { return (const char *)options + at; }
static int int_at(const tn_compile_options *options, size_t at) { return *(const int *)field(options, at); }
static const void *pointer_at(const tn_compile_options *options, size_t at) {
  return *(const void *const *)field(options, at);
}

static const char *missing_name(const tn__option_row *row, const void *list, int i) {
  const tn_alias_setting *pair = (const tn_alias_setting *)list + i;
  const tn_on_device *said = (const tn_on_device *)list + i;
  switch (row->kind) {
    case TN__OPTION_ON_DEVICE: return !said->value ? "value" : !said->device ? "device" : NULL;
    case TN__OPTION_DIMS:
    case TN__OPTION_SIZES: return ((const tn_dim_setting *)list)[i].name ? NULL : "name";
    case TN__OPTION_PAIRS: return !pair->output ? "output" : !pair->input ? "input" : NULL;
    default: return ((const char *const *)list)[i] ? NULL : "name";
  }
}

static tn_status *check_sides(const tn__option_row *row, const tn_on_device *said, int i) {
  if (said->constrain_body || said->constrain_result) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT,
                          TYPE ": %s[%d] says nothing of \"%s\": set constrain_body, constrain_result or both",
                          row->name, i, said->value);
}

static tn_status *check_list(const tn__option_row *row, const tn_compile_options *options) {
  const void *list = pointer_at(options, row->at);
  int count = int_at(options, row->count_at);
  TN_RETURN_IF_ERROR(tn__options_check_list(TYPE, row->name, list, row->count_name, count));
  for (int i = 0; i < count; i++) {
    const char *missing = missing_name(row, list, i);
    if (missing) return tn_status_create(TN_INVALID_ARGUMENT, TYPE ": %s[%d] has no %s", row->name, i, missing);
    if (row->kind == TN__OPTION_ON_DEVICE) TN_RETURN_IF_ERROR(check_sides(row, (const tn_on_device *)list + i, i));
  }
  return NULL;
}

static tn_status *check_range(const tn__option_row *row, int64_t value) {
  if (value >= row->low && value <= row->high) return NULL;
  return tn_status_create(TN_INVALID_ARGUMENT, TYPE ": %s is %lld: it can be %lld to %lld", row->name, (long long)value,
                          (long long)row->low, (long long)row->high);
}

tn_status *tn__options_check(const tn_compile_options *options) {
  for (const tn__option_row *row = tn__option_rows; row->name; row++) {
    if (row->count_at) TN_RETURN_IF_ERROR(check_list(row, options));
    if (row->kind == TN__OPTION_COUNT) TN_RETURN_IF_ERROR(check_range(row, int_at(options, row->at)));
  }
  return NULL;
}

/* ---- the key ----------------------------------------------------------------------------------------------------- */

static void hash_list(const tn__option_row *row, const void *list, int count, tn__sha256 *hash) {
  tn__sha256_update_u64(hash, (uint64_t)count);
  for (int i = 0; i < count; i++) {
    if (row->kind == TN__OPTION_PAIRS) {
      const tn_alias_setting *pair = (const tn_alias_setting *)list + i;
      tn__sha256_update_string(hash, pair->output);
      tn__sha256_update_string(hash, pair->input);
    } else if (row->kind == TN__OPTION_NAMES) {
      tn__sha256_update_string(hash, ((const char *const *)list)[i]);
    } else if (row->kind == TN__OPTION_ON_DEVICE) {
      const tn_on_device *said = (const tn_on_device *)list + i;
      tn__sha256_update_string(hash, said->value);
      tn__sha256_update_string(hash, said->device);
      tn__sha256_update_u64(hash, (uint64_t)said->constrain_body << 1 | (uint64_t)said->constrain_result);
    } else {
      const tn_dim_setting *dim = (const tn_dim_setting *)list + i;
      tn__sha256_update_string(hash, dim->name);
      tn__sha256_update_u64(hash, (uint64_t)dim->size);
    }
  }
}

static void hash_value(const tn__option_row *row, const tn_compile_options *options, tn__sha256 *hash) {
  const void *value = field(options, row->at);
  switch (row->kind) {
    case TN__OPTION_FLAG: tn__sha256_update_u64(hash, *(const bool *)value); break;
    case TN__OPTION_COUNT: tn__sha256_update_u64(hash, (uint64_t)*(const int *)value); break;
    case TN__OPTION_BYTES: tn__sha256_update_u64(hash, *(const uint64_t *)value); break;
    case TN__OPTION_TEXT:
    case TN__OPTION_PATH:
    case TN__OPTION_WORDS: {
      const char *text = pointer_at(options, row->at);
      tn__sha256_update_u64(hash, text != NULL); /* none is not an empty one */
      tn__sha256_update_string(hash, text ? text : "");
      break;
    }
    case TN__OPTION_CALLER: break; /* what a program does with what it is told */
    default: hash_list(row, pointer_at(options, row->at), int_at(options, row->count_at), hash);
  }
}

void tn__options_hash(const tn_compile_options *options, tn__sha256 *hash) {
  for (const tn__option_row *row = tn__option_rows; row->name; row++) {
    if (!(row->flags & TN__OPTION_CODE)) continue;
    tn__sha256_update_string(hash, row->name);
    hash_value(row, options, hash);
  }
}
