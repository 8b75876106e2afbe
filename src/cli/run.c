/* tenon run: a model or an executable, with inputs from files or random ones. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/nearest.h"
#include "cli/cli.h"

static const cli_option options[] = {
    {"--input", "NAME=FILE",
     "an input from a .npy, .npz or ONNX TensorProto .pb file; an .npz may hold several (FILE alone)", true},
    {"--function", "NAME", "run this function of the executable (default: its first)"},
    {"--seed", "N", "seed of the random values for inputs that have no file (default 0)"},
    {"--output", "DIR", "write each output to DIR/NAME.npy (also -o)"},
    {"--compare", "DIR", "take inputs from an ONNX test_data_set folder and compare the outputs with its own"},
    {"--check", NULL, "compare the outputs with the model as imported, and every kernel with the interpreter"},
    {"--rtol", "R", "relative tolerance of --compare and --check: atol + R * |expected| (default: by type)"},
    {"--atol", "A", "absolute tolerance of --compare and --check: A + rtol * |expected| (default: by type)"},
    {"--repeat", "N", "run N times and print a table of latencies"},
    {"--profile", "[FILE.json]", "print the time that each kernel took; with a file: a trace for Perfetto, too",
     .writes = true},
    CLI_COMPILE_OPTIONS,
    CLI_LOAD_OPTIONS,
    {"--device-memory", "D=SIZE,...", "take no more memory of a device than this: opencl:0=2GiB", .repeats = true},
    {"--concurrent-islands", NULL, "let islands work at the same time, with no check of whose memory is used"},
    {"--json", NULL, "print the result as JSON"},
    {0}};

typedef struct run {
  const cli_args *args;
  cli_compile setup;
  tn_executable *exe;
  tn_module *module;
  tn_session *session;
  const char *function; /* NULL: the first */
  int input_count, result_count;
  tn_tensor **inputs;    /* owned */
  bool *named;           /* inputs that --input gave, which it does once */
  tn_named_tensor *list; /* tensors of inputs that are sequences or optional: each with the input's name */
  int list_count;
  cli_result *results;
  uint64_t seed;
  double rtol, atol; /* of --compare and --check; negative: use the type's tolerance */
  bool random;       /* at least one input was random */
  int64_t repeat;
  double *seconds;
  tn_profile *profile;
} run;

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Sequences get their tensors one after another, in the order in which they are given. */
static tn_status *add_to_list(run *r, int index, tn_tensor **tensor) {
  tn_named_tensor *more = realloc(r->list, ((size_t)r->list_count + 1) * sizeof *more);
  if (more) {
    r->list = more;
    more[r->list_count].name = strdup(tn_executable_input(r->exe, r->function, index)->name);
  }
  if (!more || !more[r->list_count].name)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the tensors of a sequence");
  r->list[r->list_count++].tensor = *tensor;
  *tensor = NULL;
  return NULL;
}

/* The tensors of an input that is no tensor, into memory for all of them. What has none is an empty sequence, or an
 * optional without value. */
static int collect_list(const run *r, int index, DLTensor *tensors) {
  const tn_value_info *info = tn_executable_input(r->exe, r->function, index);
  int count = 0;
  for (int i = 0; i < r->list_count; i++)
    if (strcmp(r->list[i].name, info->name) == 0) tensors[count++] = *tn_tensor_dl(r->list[i].tensor);
  return count == 0 && info->kind != TN_VALUE_SEQUENCE ? -1 : count;
}

static bool has_default(const run *r, int index) {
  return tn_executable_input(r->exe, r->function, index)->fallback != NULL;
}

static tn_status *bind_list(run *r, int index) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)r->list_count, sizeof(DLTensor), 0, &memory));
  int count = collect_list(r, index, memory);
  tn_status *status = tn_session_set_input_list(r->session, r->function, index, memory, count);
  tn__free(NULL, memory, (size_t)r->list_count * sizeof(DLTensor), 0);
  return status;
}

/* A file of the data set; what --input names takes its place. */
static tn_status *give_input(run *r, const char *file, int index, tn_tensor **tensor) {
  if (index < 0 || index >= r->input_count)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: the model has %d inputs", file, r->input_count);
  if (tn_executable_input(r->exe, r->function, index)->kind != TN_VALUE_TENSOR) return add_to_list(r, index, tensor);
  tn_tensor_release(r->inputs[index]);
  r->inputs[index] = *tensor;
  *tensor = NULL;
  return NULL;
}

static tn_status *unknown_input(run *r, const char *name) {
  tn__strbuf names;
  tn__strbuf_init(&names, NULL);
  tn__nearest n = {.name = name, .length = strlen(name)};
  char advice[TN__ADVICE];
  for (int i = 0; i < r->input_count; i++) {
    const char *own = tn_executable_input(r->exe, r->function, i)->name;
    tn__nearest_consider(&n, own, strlen(own));
    tn__strbuf_shown_printf(&names, "%s\"%s\"", i ? ", " : "", own);
  }
  tn_status *status =
      tn_status_create(TN_INVALID_ARGUMENT, "the model has no input \"%s\"; it has %s%s", name,
                       r->input_count ? tn__strbuf_text(&names) : "none", tn__nearest_advice(&n, advice));
  tn__strbuf_release(&names);
  return status;
}

/* Where NAME of NAME=FILE ends, NULL when `text` is a FILE alone. Names and paths may both have a = in them: the name
 * is the shortest that an input has; without one, a file of the whole name is taken, else the first = was meant. */
static const char *end_of_name(const run *r, const char *text) {
  char name[512];
  struct stat info;
  const char *first = strchr(text, '=');
  for (const char *at = first; at && (size_t)(at - text) < sizeof name; at = strchr(at + 1, '=')) {
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = 0;
    if (tn_executable_input_index(r->exe, r->function, name) >= 0) return at;
  }
  return first && (size_t)(first - text) < sizeof name && stat(text, &info) != 0 ? first : NULL;
}

static tn_status *give_named_input(run *r, const char *file, int index, tn_tensor **tensor) {
  const tn_value_info *info = tn_executable_input(r->exe, r->function, index);
  if (r->named[index] && info->kind == TN_VALUE_TENSOR)
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: input \"%s\" has its tensor already: --input gives it twice",
                            file, info->name);
  r->named[index] = true;
  return give_input(r, file, index, tensor);
}

/* NAME=FILE, or FILE whose members' names are the inputs' (one nameless tensor goes to the only input). */
static tn_status *read_input(run *r, const char *text) {
  const char *equals = end_of_name(r, text);
  char name[512] = "";
  const char *file = text;
  if (equals) {
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    file = equals + 1;
    if (tn_executable_input_index(r->exe, r->function, name) < 0) return unknown_input(r, name);
  }
  tn_named_tensor *tensors;
  int count;
  TN_RETURN_IF_ERROR(tn_tensors_read(file, NULL, &tensors, &count));
  tn_status *status = NULL;
  if (name[0] && count != 1)
    status = tn_status_create(TN_INVALID_ARGUMENT, "%s holds %d tensors; input \"%s\" takes one", file, count, name);
  for (int i = 0; i < count && !status; i++) {
    const char *to = name[0] ? name : tensors[i].name;
    int index = to[0] ? tn_executable_input_index(r->exe, r->function, to) : r->input_count == 1 ? 0 : -1;
    status = index < 0 ? unknown_input(r, to) : give_named_input(r, file, index, &tensors[i].tensor);
  }
  tn_tensors_free(tensors, count);
  return status;
}

TN_MUST_USE static bool data_set_file(const char *directory, const char *what, int index, char *path, size_t size) {
  struct stat info;
  snprintf(path, size, "%s/%s_%d.pb", directory, what, index);
  return stat(path, &info) == 0;
}

/* What a file of the data set holds, by the kind of the input or output. */
static tn_status *read_value(const char *path, const tn_value_info *info, tn_named_tensor **tensors, int *count) {
  if (info->kind == TN_VALUE_TENSOR) return tn_tensors_read(path, NULL, tensors, count);
  return tn_tensors_read_list(path, info->kind != TN_VALUE_SEQUENCE, NULL, tensors, count);
}

static tn_status *read_data_set(run *r, const char *directory) {
  char path[4096];
  if (!data_set_file(directory, "output", 0, path, sizeof path))
    return tn_status_create(TN_NOT_FOUND, "%s: there is no output_0.pb: not an ONNX test_data_set folder", directory);
  for (int i = 0; i < r->input_count && data_set_file(directory, "input", i, path, sizeof path); i++) {
    tn_named_tensor *tensors;
    int count;
    TN_RETURN_IF_ERROR(read_value(path, tn_executable_input(r->exe, r->function, i), &tensors, &count));
    tn_status *status = NULL;
    for (int k = 0; k < count && !status; k++) status = give_input(r, path, i, &tensors[k].tensor);
    tn_tensors_free(tensors, count > 0 ? count : 0);
    TN_RETURN_IF_ERROR(status);
  }
  return NULL;
}

/* A size that is asked for and has no say is an error: the dimension is not there, or an input that was given has
 * another. */
static tn_status *check_dims(const run *r) {
  for (int k = 0; k < r->setup.options.dim_count; k++) {
    const tn_dim_setting *dim = &r->setup.options.dims[k];
    bool found = !cli_is_executable(r->args->file); /* fixed when it was compiled, and checked there */
    for (int i = 0; i < r->input_count; i++) {
      const tn_value_info *info = tn_executable_input(r->exe, r->function, i);
      for (int d = 0; d < info->rank; d++) {
        if (!info->dims[d]->name || strcmp(info->dims[d]->name, dim->name) != 0) continue;
        found = true;
        const DLTensor *given = r->inputs[i] ? tn_tensor_dl(r->inputs[i]) : NULL;
        if (given && given->ndim == info->rank && given->shape[d] != dim->size)
          return tn_status_create(TN_INVALID_ARGUMENT, "--dim %s=%lld, but dimension %d of input \"%s\" is %lld",
                                  dim->name, (long long)dim->size, d, info->name, (long long)given->shape[d]);
      }
    }
    if (!found)
      return tn_status_create(TN_INVALID_ARGUMENT, "no dimension of an input of %s is open and named \"%s\"",
                              r->args->file, dim->name);
  }
  return NULL;
}

/* An empty sequence leaves a check little to compare, so that gets random tensors, and an optional a random value. */
static tn_status *fill_list(run *r, int index, uint64_t *state) {
  const tn_value_info *info = tn_executable_input(r->exe, r->function, index);
  if (!cli_flag(r->args, "--check")) return NULL;
  for (int i = 0; i < r->list_count; i++)
    if (strcmp(r->list[i].name, info->name) == 0) return NULL;
  int count = info->kind == TN_VALUE_OPTIONAL ? 1 : CLI_LIST_TENSORS;
  for (int i = 0; i < count; i++) {
    tn_tensor *tensor = NULL;
    TN_RETURN_IF_ERROR(cli_random_input(r->exe, r->function, &r->setup, index, state, &tensor));
    tn_status *status = add_to_list(r, index, &tensor);
    tn_tensor_release(tensor);
    TN_RETURN_IF_ERROR(status);
  }
  return NULL;
}

static tn_status *prepare_inputs(run *r) {
  const char *data_set = cli_value(r->args, "--compare");
  if (data_set) TN_RETURN_IF_ERROR(read_data_set(r, data_set));
  int position = 0;
  for (const char *text = cli_next(r->args, "--input", &position); text; text = cli_next(r->args, "--input", &position))
    TN_RETURN_IF_ERROR(read_input(r, text));
  TN_RETURN_IF_ERROR(check_dims(r));
  uint64_t state = r->seed;
  for (int i = 0; i < r->input_count; i++) {
    if (tn_executable_input(r->exe, r->function, i)->kind != TN_VALUE_TENSOR) {
      TN_RETURN_IF_ERROR(fill_list(r, i, &state));
      continue;
    }
    if (r->inputs[i] || has_default(r, i)) continue;
    TN_RETURN_IF_ERROR(cli_random_input(r->exe, r->function, &r->setup, i, &state, &r->inputs[i]));
    r->random = true;
  }
  return NULL;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static tn_status *check_function(const run *r) {
  if (!r->function || tn_executable_input_count(r->exe, r->function) >= 0) return NULL;
  tn__strbuf names;
  tn__strbuf_init(&names, NULL);
  tn__nearest n = {.name = r->function, .length = strlen(r->function)};
  char advice[TN__ADVICE];
  for (int i = 0; i < tn_executable_function_count(r->exe); i++) {
    const char *own = tn_executable_function_name(r->exe, i);
    tn__nearest_consider(&n, own, strlen(own));
    tn__strbuf_shown_printf(&names, "%s\"%s\"", i ? ", " : "", own);
  }
  tn_status *status = tn_status_create(TN_NOT_FOUND, "%s has no function \"%s\"; it has %s%s", r->args->file,
                                       r->function, tn__strbuf_text(&names), tn__nearest_advice(&n, advice));
  tn__strbuf_release(&names);
  return status;
}

static tn_status *start(run *r) {
  TN_RETURN_IF_ERROR(cli_open(r->args, &r->setup, r->args->file, &r->exe, &r->module));
  TN_RETURN_IF_ERROR(check_function(r));
  r->input_count = tn_executable_input_count(r->exe, r->function);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)r->input_count, sizeof(tn_tensor *), 0, &memory));
  r->inputs = memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)r->input_count, sizeof(bool), 0, &memory));
  r->named = memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)r->repeat, sizeof(double), 0, &memory));
  r->seconds = memory;
  tn_session_options session = {.size = sizeof session, .threads = r->setup.options.run_threads};
  return tn_session_create(r->exe, &session, &r->session);
}

static tn_status *invoke(run *r) {
  for (int i = 0; i < r->input_count; i++) {
    if (!r->inputs[i]) {
      if (!has_default(r, i)) TN_RETURN_IF_ERROR(bind_list(r, i));
      continue;
    }
    TN_RETURN_IF_ERROR(
        tn_session_set_input_at(r->session, r->function, i, tn_tensor_dl(r->inputs[i]), TN_BIND_PERSISTENT));
  }
  if (r->repeat > 1) TN_RETURN_IF_ERROR(tn_session_invoke(r->session, r->function)); /* warm: not counted */
  if (cli_flag(r->args, "--profile")) TN_RETURN_IF_ERROR(tn_session_start_profile(r->session, &r->profile));
  for (int64_t i = 0; i < r->repeat; i++) {
    double began = tn__now();
    TN_RETURN_IF_ERROR(tn_session_invoke(r->session, r->function));
    r->seconds[i] = tn__now() - began;
  }
  return cli_results(r->exe, r->session, r->function, &r->results, &r->result_count);
}

/* One output against its file: a tensor, or each of a sequence's. */
static void compare_value(const cli_result *results, int had, const tn_value_info *info, const tn_named_tensor *wanted,
                          int count, const run *r, tn__strbuf *report, bool *agree) {
  bool sequence = info->kind == TN_VALUE_SEQUENCE || info->kind == TN_VALUE_OPTIONAL_SEQUENCE;
  int tensors = results[0].note ? 0 : had;
  if (tensors != (count > 0 ? count : 0) ||
      (results[0].note && strcmp(results[0].note, "no value") == 0) != (count < 0)) {
    *agree = false;
    tn__strbuf_shown(report, info->name);
    tn__strbuf_append(report, ": DIFFERS: ");
    if (results[0].note) {
      tn__strbuf_append(report, results[0].note);
    } else {
      tn__strbuf_printf(report, "%d tensor%s", tensors, tn__plural(tensors));
    }
    tn__strbuf_printf(report, count < 0 ? ", and no value is wanted\n" : ", and %d %s wanted\n", count,
                      count == 1 ? "is" : "are");
    return;
  }
  if (tensors == 0) {
    tn__strbuf_shown(report, info->name);
    tn__strbuf_printf(report, ": agrees: %s\n", results[0].note ? results[0].note : "no tensors");
  }
  for (int i = 0; i < tensors; i++) {
    char why[512];
    bool same = cli_agree(&results[i].tensor, tn_tensor_dl(wanted[i].tensor), r->rtol, r->atol, why, sizeof why);
    tn__strbuf_shown(report, sequence ? results[i].name : info->name);
    tn__strbuf_printf(report, ": %s: ", same ? "agrees" : "DIFFERS");
    tn__strbuf_shown(report, why); /* strings that differ are in it */
    tn__strbuf_char(report, '\n');
    *agree = *agree && same;
  }
}

/* Agreement is agreement of all: an output without a file, or a file without an output, is none. */
static tn_status *compare(run *r, const char *directory, tn__strbuf *report, bool *agree) {
  char path[4096];
  int outputs = tn_executable_output_count(r->exe, r->function);
  for (int i = 0; i < r->result_count;) {
    int output = r->results[i].output, had = 0, count;
    while (i + had < r->result_count && r->results[i + had].output == output) had++;
    const tn_value_info *info = tn_executable_output(r->exe, r->function, output);
    if (!data_set_file(directory, "output", output, path, sizeof path)) {
      tn__strbuf_shown(report, info->name);
      tn__strbuf_append(report, ": not compared: there is no ");
      tn__strbuf_shown(report, path);
      tn__strbuf_char(report, '\n');
      *agree = false;
      i += had;
      continue;
    }
    tn_named_tensor *tensors;
    TN_RETURN_IF_ERROR(read_value(path, info, &tensors, &count));
    compare_value(&r->results[i], had, info, tensors, count, r, report, agree);
    tn_tensors_free(tensors, count > 0 ? count : 0);
    i += had;
  }
  if (data_set_file(directory, "output", outputs, path, sizeof path)) {
    tn__strbuf_printf(report, "%s: not compared: the model has %d output%s\n", path, outputs, tn__plural(outputs));
    *agree = false;
  }
  return tn__strbuf_status(report);
}

static void print_json(run *r, const char *comparison, bool agree, const cli_latency *latency) {
  tn__strbuf json;
  tn__strbuf_init(&json, NULL);
  tn__strbuf_char(&json, '{');
  if (r->random) tn__strbuf_printf(&json, "\"seed\": %llu, ", (unsigned long long)r->seed);
  cli_json_outputs(&json, r->results, r->result_count);
  if (comparison) {
    tn__strbuf_printf(&json, ", \"agrees\": %s, \"comparison\": ", agree ? "true" : "false");
    tn__strbuf_json_string(&json, comparison);
  }
  tn__strbuf_printf(
      &json,
      ", \"latency_seconds\": {\"runs\": %d, \"min\": %.9f, \"median\": %.9f, \"mean\": %.9f, \"p90\": %.9f, "
      "\"max\": %.9f}}\n",
      latency->runs, latency->minimum, latency->median, latency->mean, latency->p90, latency->maximum);
  fputs(tn__strbuf_text(&json), stdout);
  tn__strbuf_release(&json);
}

static void print_text(run *r, const char *comparison, const cli_latency *latency) {
  if (r->random) printf("random inputs, seed %llu\n", (unsigned long long)r->seed);
  cli_print_outputs(r->results, r->result_count);
  if (comparison) fputs(comparison, stdout);
  if (r->repeat > 1) {
    printf("\n%8s %12s %12s %12s %12s %12s\n", "runs", "min ms", "median ms", "mean ms", "p90 ms", "max ms");
    printf("%8d %12.4f %12.4f %12.4f %12.4f %12.4f\n", latency->runs, latency->minimum * 1e3, latency->median * 1e3,
           latency->mean * 1e3, latency->p90 * 1e3, latency->maximum * 1e3);
  }
}

/* tn_check uses 0 for the type's tolerance, so an explicit 0 becomes DBL_MIN. */
static double given_tolerance(double tolerance) { return tolerance < 0 ? 0 : tolerance == 0 ? DBL_MIN : tolerance; }

/* The check gets the inputs that are tensors, and per input a list, whose tensors follow one another. */
static tn_status *run_check(run *r, tn_check_result *result) {
  size_t count = (size_t)r->input_count, in_lists = (size_t)r->list_count;
  size_t bytes = (count + in_lists) * sizeof(DLTensor) + count * sizeof(tn_check_list);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, bytes, 0, &memory));
  DLTensor *tensors = memory, *next = tensors + count;
  tn_check_list *lists = (tn_check_list *)(next + in_lists);
  for (int i = 0; i < r->input_count; i++) {
    if (r->inputs[i]) {
      tensors[i] = *tn_tensor_dl(r->inputs[i]);
      continue;
    }
    if (has_default(r, i)) continue; /* zeros select it */
    lists[i] = (tn_check_list){next, collect_list(r, i, next)};
    if (lists[i].count > 0) next += lists[i].count;
  }
  tn_check_options wanted = {
      .size = sizeof wanted, .rtol = given_tolerance(r->rtol), .atol = given_tolerance(r->atol), .lists = lists};
  tn_status *status = tn_check(r->args->file, NULL, 0, &r->setup.options, tensors, r->input_count, &wanted, result);
  tn__free(NULL, memory, bytes, 0);
  return status;
}

static tn_status *check(run *r, bool *agree) {
  tn_check_result result = {.size = sizeof result};
  TN_RETURN_IF_ERROR(run_check(r, &result));
  *agree = result.agrees;
  if (cli_flag(r->args, "--json")) {
    tn__strbuf json;
    tn__strbuf_init(&json, NULL);
    tn__strbuf_printf(&json, "{\"agrees\": %s, \"outputs\": %d, \"kernels\": %d, \"bodies_skipped\": %d",
                      result.agrees ? "true" : "false", result.outputs_checked, result.nodes_checked,
                      result.bodies_skipped);
    if (!result.agrees) {
      if (result.pass[0]) tn__strbuf_printf(&json, ", \"pass\": \"%s\"", result.pass);
      tn__strbuf_append(&json, ", \"node\": ");
      tn__strbuf_json_string(&json, result.node);
      tn__strbuf_append(&json, ", \"value\": ");
      tn__strbuf_json_string(&json, result.value);
      tn__strbuf_printf(&json, ", \"index\": %lld, \"allowed\": %.9g, \"difference\": ", (long long)result.index,
                        result.allowed);
      tn__strbuf_printf(&json, isfinite(result.difference) ? "%.9g" : "null", result.difference);
    }
    tn__strbuf_append(&json, "}\n");
    fputs(tn__strbuf_text(&json), stdout);
    tn__strbuf_release(&json);
  } else if (result.agrees) {
    printf(
        "every output (%d) agrees with the model as imported, before any pass\n"
        "every kernel (%d) agrees with the interpreter%s\n",
        result.outputs_checked, result.nodes_checked,
        result.bodies_skipped > 0 ? "; those inside of branches and loops were not compared" : "");
  } else if (!result.node[0]) {
    fputs("output \"", stdout);
    cli_put_shown(stdout, result.value);
    fputs("\" departs from the model as imported, before any pass: ", stdout);
    if (result.index < 0)
      printf("it has another type or shape");
    else
      printf("element %lld is off by %.6g, allowed %.6g", (long long)result.index, result.difference, result.allowed);
    if (result.pass[0]) printf("; the first pass that changes it is \"%s\"", result.pass);
    putchar('\n');
  } else {
    cli_put_shown(stdout, result.node);
    fputs(" departs from the interpreter: value \"", stdout);
    cli_put_shown(stdout, result.value);
    printf("\", element %lld is off by %.6g, allowed %.6g\n", (long long)result.index, result.difference,
           result.allowed);
  }
  return NULL;
}

static tn_status *run_model(run *r, bool *agree) {
  TN_RETURN_IF_ERROR(start(r));
  TN_RETURN_IF_ERROR(prepare_inputs(r));
  if (cli_flag(r->args, "--check")) return check(r, agree);
  TN_RETURN_IF_ERROR(invoke(r));
  const char *data_set = cli_value(r->args, "--compare"), *directory = cli_value(r->args, "--output");
  tn__strbuf report;
  tn__strbuf_init(&report, NULL);
  tn_status *status = data_set ? compare(r, data_set, &report, agree) : NULL;
  cli_latency latency = cli_summarize_latency(r->seconds, (int)r->repeat);
  if (!status) {
    const char *comparison = data_set ? tn__strbuf_text(&report) : NULL;
    if (cli_flag(r->args, "--json")) {
      print_json(r, comparison, *agree, &latency);
    } else {
      print_text(r, comparison, &latency);
      if (r->profile) {
        tn_machine_limits limits = {.size = sizeof limits};
        status = tn_machine_measure(r->setup.options.run_threads, &limits);
        if (!status) cli_profile_print(r->profile, &limits);
      }
    }
    const char *trace = cli_value(r->args, "--profile");
    if (trace && trace[0] && !status) status = tn_profile_write_trace(r->profile, trace);
    if (directory && !status) status = cli_write_outputs(r->args, r->results, r->result_count, directory);
  }
  tn__strbuf_release(&report);
  return status;
}

static void finish(run *r) {
  tn_session_release(r->session);
  for (int i = 0; r->inputs && i < r->input_count; i++) tn_tensor_release(r->inputs[i]);
  tn__free(NULL, r->inputs, (size_t)r->input_count * sizeof(tn_tensor *), 0);
  tn__free(NULL, r->named, (size_t)r->input_count * sizeof(bool), 0);
  tn_tensors_free(r->list, r->list_count);
  cli_free_results(r->results, r->result_count);
  tn__free(NULL, r->seconds, (size_t)r->repeat * sizeof(double), 0);
  tn_executable_release(r->exe);
  tn_module_release(r->module);
}

/* Options that would be silently without effect together. */
static bool wrong_options(const cli_args *args, const cli_compile *setup) {
  static const char *const running[] = {"--function", "--output", "--compare", "--repeat", "--profile", NULL};
  static const char *const tables[] = {"--profile", NULL}, *const check[] = {"--check", NULL};
  static const char *const dims[] = {"--dim", NULL}, *const tolerances[] = {"--rtol", "--atol", NULL};
  if (!cli_flag(args, "--check") && !cli_flag(args, "--compare") &&
      cli_refuse(args, tolerances, "needs --compare or --check"))
    return true;
  if (cli_flag(args, "--check") &&
      cli_refuse(args, running, "does not go with --check, which compares the model with itself instead"))
    return true;
  const char *trace = cli_value(args, "--profile");
  if (trace && !trace[0] && cli_flag(args, "--json") &&
      cli_refuse(args, tables, "prints a table, which is no JSON: name a file for it, --profile FILE.json"))
    return true;
  const char *taken = trace && trace[0] ? cli_taken_place(args, trace) : NULL;
  if (taken) {
    cli_misused(args->command, "the trace would take the place of \"%s\", which is read", taken);
    return true;
  }
  int position = 0;
  for (const char *input; (input = cli_next(args, "--input", &position)) != NULL;)
    if (input[strlen(input) - 1] == '=') {
      cli_misused(args->command, "--input takes NAME=FILE, not \"%s\"", input);
      return true;
    }
  if (!cli_is_executable(args->file)) return false;
  if (cli_refuse(args, check, "needs the model, not an executable")) return true;
  return setup->options.special_dim_count > 0 &&
         cli_refuse(args, dims, "gives one size to random inputs here: %s is compiled already", args->file);
}

/* Where results go must be a folder, or not there yet; the trace goes into one that is there. */
static tn_status *check_places(const cli_args *args) {
  const char *directory = cli_value(args, "--output"), *trace = cli_value(args, "--profile");
  struct stat info;
  if (directory && stat(directory, &info) == 0 && !S_ISDIR(info.st_mode))
    return tn_status_create(TN_INVALID_ARGUMENT, "%s: it is no folder, which --output names", directory);
  return trace && trace[0] ? tn__file_check_place(trace) : NULL;
}

static int run_command(const cli_args *args) {
  static run r;
  r = (run){.args = args, .repeat = 1};
  int64_t seed = 0;
  if (!cli_compile_setup(args, &r.setup) || !cli_number(args, "--repeat", 1, 1000000, &r.repeat) ||
      !cli_number(args, "--seed", 0, INT64_MAX, &seed) || !cli_tolerance(args, "--rtol", &r.rtol) ||
      !cli_tolerance(args, "--atol", &r.atol))
    return EXIT_MISUSED;
  if (cli_flag(args, "--verify-only")) return cli_verify(args, &r.setup);
  if (cli_wrong_file(args, args->file) || wrong_options(args, &r.setup)) return EXIT_MISUSED;
  r.function = cli_value(args, "--function");
  r.seed = (uint64_t)seed;
  bool agree = true;
  tn_status *status = check_places(args); /* before the work, not after it */
  if (!status) status = run_model(&r, &agree);
  finish(&r);
  if (status) return cli_report(status);
  return agree ? EXIT_DONE : EXIT_FAILED;
}

const cli_command cli_run_command = {"run", "MODEL.onnx|MODEL.tng|MODEL.tnx [OPTIONS]",
                                     "Run a model and say what comes out", options, run_command};
