/* tenon explain: for each kernel how it is scheduled, what the cost function expects, how long it takes, and how near
 * that is to what the machine can do. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "tenon/te.h"

static const cli_option options[] = {{"--kernel", "NAME", "of declarations, this kernel only"},
                                     {"--repeat", "N", "runs whose shortest time per kernel counts (default 10)"},
                                     {"--seed", "N", "seed of the inputs' random values (default 0)"},
                                     {"--no-run", NULL, "measure nothing: predictions only"},
                                     CLI_COMPILE_OPTIONS,
                                     CLI_SCHEDULE_OPTIONS,
                                     {"--json", NULL, "print the result as JSON"},
                                     {0}};

typedef struct explain {
  const cli_args *args;
  cli_compile setup;
  tn_explanation *explanation;
  tn_executable *exe;
  tn_module *module;
  tn_session *session;
  tn_profile *profile;
  tn_te **tes; /* of a file of declarations; none: it is a model */
  tn_schedule **schedules;
  int te_count;
  char *schedule_text;
  int input_count;
  tn_tensor **inputs; /* owned */
  int64_t repeat, seed;
} explain;

/* One row of the table: a kernel's plan beside what was measured. */
typedef struct row {
  const tn_kernel_plan *plan;
  int calls;         /* of one run; 0: it did not run */
  double seconds;    /* of one call */
  double least;      /* seconds that arithmetic or memory need at the least */
  const char *limit; /* which of them that is */
} row;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void release_inputs(explain *e) {
  for (int i = 0; i < e->input_count; i++) tn_tensor_release(e->inputs[i]);
  tn__free(NULL, e->inputs, (size_t)e->input_count * sizeof(tn_tensor *), 0);
  e->inputs = NULL;
  e->input_count = 0;
}

static tn_status *bind_inputs(explain *e, const char *function) {
  int count = tn_executable_input_count(e->exe, function);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)count, sizeof(tn_tensor *), 0, &memory));
  e->inputs = memory;
  e->input_count = count;
  memset(e->inputs, 0, (size_t)count * sizeof(tn_tensor *));
  uint64_t state = (uint64_t)e->seed;
  for (int i = 0; i < count; i++) {
    const tn_value_info *info = tn_executable_input(e->exe, function, i);
    if (info->kind != TN_VALUE_TENSOR) { /* empty, or without value */
      int none = info->kind == TN_VALUE_SEQUENCE ? 0 : -1;
      TN_RETURN_IF_ERROR(tn_session_set_input_list(e->session, function, i, NULL, none));
      continue;
    }
    if (info->fallback) continue;
    TN_RETURN_IF_ERROR(cli_random_input(e->exe, function, &e->setup, i, &state, &e->inputs[i]));
    TN_RETURN_IF_ERROR(
        tn_session_set_input_at(e->session, function, i, tn_tensor_dl(e->inputs[i]), TN_BIND_PERSISTENT));
  }
  return NULL;
}

/* Runs the model, or the kernels one after another, and keeps one profile of all. */
static tn_status *measure(explain *e) {
  tn_session_options session = {.size = sizeof session, .threads = e->setup.options.run_threads};
  TN_RETURN_IF_ERROR(tn_session_create(e->exe, &session, &e->session));
  int functions = e->te_count > 0 ? e->te_count : 1;
  for (int f = 0; f < functions; f++) {
    const char *function = e->te_count > 0 ? tn_te_name(e->tes[f]) : NULL;
    TN_RETURN_IF_ERROR(bind_inputs(e, function));
    TN_RETURN_IF_ERROR(tn_session_invoke(e->session, function)); /* warm: not counted */
    if (!e->profile) TN_RETURN_IF_ERROR(tn_session_start_profile(e->session, &e->profile));
    for (int64_t i = 0; i < e->repeat; i++) TN_RETURN_IF_ERROR(tn_session_invoke(e->session, function));
    for (int i = 0; i < e->input_count; i++)
      if (e->inputs[i]) TN_RETURN_IF_ERROR(tn_session_set_input_at(e->session, function, i, NULL, TN_BIND_NEXT));
    release_inputs(e);
  }
  return NULL;
}

static row row_of(const explain *e, const tn_kernel_plan *plan) {
  row r = {.plan = plan};
  const tn_profile_kernel *ran = e->profile ? cli_profile_find(e->profile, plan->kernel) : NULL;
  if (ran) {
    /* Kernels of declarations run alone; those of a model as often as it calls them. */
    r.calls = e->te_count > 0 ? 1 : (int)(((int64_t)ran->calls + e->repeat - 1) / e->repeat);
    r.seconds = (double)ran->least_ns * 1e-9;
  }
  r.least = cli_profile_least(e->profile, plan->kernel, tn_explanation_limits(e->explanation), plan->flops, plan->bytes,
                              &r.limit);
  return r;
}

/* Is the prediction so far off that the choice may be wrong? Calls of some microseconds are mostly their own start. */
static bool mispredicted(const row *r) {
  return r->plan->seconds > 0 && r->seconds > 5e-6 && r->seconds > 3 * r->plan->seconds;
}

static int slowest_first(const void *a, const void *b) {
  const row *x = a, *y = b;
  double s = x->seconds > 0 ? x->seconds * x->calls : x->plan->seconds;
  double t = y->seconds > 0 ? y->seconds * y->calls : y->plan->seconds;
  return s != t ? (s < t ? 1 : -1) : strcmp(x->plan->kernel, y->plan->kernel);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* A number of the given width, or a dash when it is not known. */
static void print_number(double value, bool known, int width, int digits) {
  if (known) {
    printf(" %*.*f", width, digits, value);
  } else {
    printf(" %*s", width, "-");
  }
}

static void print_text(const explain *e, const row *rows, int count) {
  const tn_machine_limits *m = tn_explanation_limits(e->explanation);
  printf("%s, %d thread%s\n", m->target, m->threads, tn__plural(m->threads));
  printf("one core%s: %.2f GHz, %.1f GFLOP/s; reads GB/s: L2 %.1f, L3 %.1f, memory %.1f\n",
         m->measured ? ", measured" : " of this kind, usually", m->clock_hz * 1e-9, m->flops_per_second * 1e-9,
         m->l2_bytes_per_second * 1e-9, m->l3_bytes_per_second * 1e-9, m->memory_bytes_per_second * 1e-9);
  double total = 0;
  for (int i = 0; i < count; i++) total += rows[i].seconds * rows[i].calls;
  printf("\n%6s %5s %12s %12s %10s %8s %9s %9s %9s  %-10s kernel\n", "share", "calls", "predicted us", "measured us",
         "MFLOP", "GFLOP/s", "MB", "FLOP/byte", "roofline", "bound by");
  for (int i = 0; i < count; i++) {
    const row *r = &rows[i];
    const tn_kernel_plan *p = r->plan;
    bool ran = r->seconds > 0, sized = p->flops >= 0 && p->bytes >= 0;
    if (ran) {
      printf("%5.1f%% %5d", 100 * r->seconds * r->calls / total, r->calls);
    } else {
      printf("%6s %5s", "-", "-");
    }
    print_number(p->seconds * 1e6, p->seconds > 0, 12, 2);
    print_number(r->seconds * 1e6, ran, 12, 2);
    print_number(p->flops * 1e-6, p->flops >= 0, 10, 3);
    print_number(p->flops / r->seconds * 1e-9, ran && p->flops >= 0, 8, 1);
    print_number(p->bytes * 1e-6, p->bytes >= 0, 9, 3);
    print_number(p->flops / p->bytes, sized && p->bytes > 0, 9, 2);
    print_number(100 * r->least / r->seconds, ran && sized, 8, 1);
    printf("%s  %-10s ", ran && sized ? "%" : " ", r->limit);
    cli_put_shown(stdout, p->kernel);
    putchar('\n');
    printf("       %s%s%s; ", p->rule, p->decisions[0] ? ": " : "", p->decisions);
    if (p->cycles > 0)
      printf("predicted cycles: work %.0f, L2 %.0f, L3 %.0f, memory %.0f, threads %.0f\n", p->work_cycles, p->l2_cycles,
             p->l3_cycles, p->memory_cycles, p->overhead_cycles);
    else
      printf("nothing is predicted\n");
    for (int v = 0; v < p->rival_count; v++) {
      const tn_plan_rival *rival = &p->rivals[v];
      printf("       not %s%s%s: %s\n", rival->rule, rival->decisions[0] ? ": " : "", rival->decisions, rival->why);
    }
    if (mispredicted(r))
      printf("       warning: it takes %.1f times what is predicted, so a better schedule may have been passed over\n",
             r->seconds / p->seconds);
  }
}

static void json_number(tn__strbuf *json, const char *name, double value, bool known) {
  if (known) {
    tn__strbuf_printf(json, ", \"%s\": %.9g", name, value);
  } else {
    tn__strbuf_printf(json, ", \"%s\": null", name);
  }
}

static void print_json(const explain *e, const row *rows, int count) {
  const tn_machine_limits *m = tn_explanation_limits(e->explanation);
  tn__strbuf json;
  tn__strbuf_init(&json, NULL);
  tn__strbuf_append(&json, "{\"machine\": {\"target\": ");
  tn__strbuf_json_string(&json, m->target);
  tn__strbuf_printf(&json, ", \"threads\": %d, \"measured\": %s", m->threads, m->measured ? "true" : "false");
  json_number(&json, "clock_hz", m->clock_hz, true);
  json_number(&json, "flops_per_second", m->flops_per_second, true);
  json_number(&json, "l2_bytes_per_second", m->l2_bytes_per_second, true);
  json_number(&json, "l3_bytes_per_second", m->l3_bytes_per_second, true);
  json_number(&json, "memory_bytes_per_second", m->memory_bytes_per_second, true);
  tn__strbuf_append(&json, "},\n\"kernels\": [");
  for (int i = 0; i < count; i++) {
    const row *r = &rows[i];
    const tn_kernel_plan *p = r->plan;
    bool ran = r->seconds > 0, sized = p->flops >= 0 && p->bytes > 0;
    tn__strbuf_append(&json, i ? ",\n {\"name\": " : "\n {\"name\": ");
    tn__strbuf_json_string(&json, p->kernel);
    tn__strbuf_json_text(&json, "template", p->rule);
    tn__strbuf_json_text(&json, "decisions", p->decisions);
    tn__strbuf_printf(&json, ", \"candidates\": %lld, \"calls\": %d", (long long)p->weighed, r->calls);
    json_number(&json, "predicted_seconds", p->seconds, p->seconds > 0);
    json_number(&json, "measured_seconds", r->seconds, ran);
    json_number(&json, "flops", p->flops, p->flops >= 0);
    json_number(&json, "bytes", p->bytes, p->bytes >= 0);
    json_number(&json, "flops_per_byte", p->flops / p->bytes, sized);
    json_number(&json, "roofline_share", r->least / r->seconds, ran && sized);
    tn__strbuf_json_text(&json, "bound_by", r->limit);
    tn__strbuf_append(&json, ", \"predicted_cycles\": {\"bound_by\": ");
    tn__strbuf_json_string(&json, p->bound);
    json_number(&json, "all", p->cycles, true);
    json_number(&json, "work", p->work_cycles, true);
    json_number(&json, "l2", p->l2_cycles, true);
    json_number(&json, "l3", p->l3_cycles, true);
    json_number(&json, "memory", p->memory_cycles, true);
    json_number(&json, "threads", p->overhead_cycles, true);
    tn__strbuf_append(&json, "}");
    json_number(&json, "tail_share", p->tail, true);
    tn__strbuf_printf(&json, ", \"registers\": %d, \"mispredicted\": %s, \"rivals\": [", p->registers,
                      mispredicted(r) ? "true" : "false");
    for (int v = 0; v < p->rival_count; v++) {
      tn__strbuf_append(&json, v ? ", {\"template\": " : "{\"template\": ");
      tn__strbuf_json_string(&json, p->rivals[v].rule);
      tn__strbuf_json_text(&json, "decisions", p->rivals[v].decisions);
      tn__strbuf_json_text(&json, "why_not", p->rivals[v].why);
      json_number(&json, "predicted_cycles", p->rivals[v].cycles, true);
      tn__strbuf_append(&json, "}");
    }
    tn__strbuf_append(&json, "]}");
  }
  tn__strbuf_append(&json, "]}\n");
  fputs(tn__strbuf_text(&json), stdout);
  tn__strbuf_release(&json);
}

static tn_status *report(explain *e) {
  const tn_kernel_plan *const *plans;
  int count = tn_explanation_kernels(e->explanation, &plans);
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)count, sizeof(row), 0, &memory));
  row *rows = memory;
  for (int i = 0; i < count; i++) rows[i] = row_of(e, plans[i]);
  qsort(rows, (size_t)count, sizeof *rows, slowest_first);
  if (cli_flag(e->args, "--json")) {
    print_json(e, rows, count);
  } else {
    print_text(e, rows, count);
  }
  tn__free(NULL, rows, (size_t)count * sizeof(row), 0);
  return NULL;
}

/* Code for another machine can be explained, but not run. */
static tn_status *opened(const explain *e, tn_status *status) {
  if (!status || e->module == NULL || !e->setup.options.target) return status;
  return tn_status_prefix(status, "nothing can be measured; --no-run predicts only");
}

static tn_status *explain_model(explain *e) {
  TN_RETURN_IF_ERROR(tn_explain(e->args->file, NULL, 0, &e->setup.options, &e->explanation));
  if (!cli_flag(e->args, "--no-run")) {
    TN_RETURN_IF_ERROR(opened(e, cli_open(e->args, &e->setup, e->args->file, &e->exe, &e->module)));
    TN_RETURN_IF_ERROR(measure(e));
  }
  return report(e);
}

static tn_status *build_kernels(explain *e, const tn_schedule_options *options_now) {
  const char *target = e->setup.options.target;
  e->schedules = calloc((size_t)e->te_count, sizeof *e->schedules);
  if (!e->schedules) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < e->te_count; i++)
    TN_RETURN_IF_ERROR(tn_schedule_create(e->tes[i], target, options_now, &e->schedules[i]));
  TN_RETURN_IF_ERROR(tn_te_module(e->schedules, e->te_count, NULL, &e->module));
  return opened(e, tn_module_load(e->module, NULL, &e->exe));
}

static tn_status *explain_declarations(explain *e) {
  TN_RETURN_IF_ERROR(tn_te_parse_file(e->args->file, cli_value(e->args, "--kernel"), e->setup.options.dims,
                                      e->setup.options.dim_count, &e->tes, &e->te_count));
  tn_schedule_options schedule = {.size = sizeof schedule};
  cli_schedule_setup(e->args, &schedule); /* which was read before, and is right */
  schedule.log = e->setup.options.log;
  schedule.dense = true;
  TN_RETURN_IF_ERROR(cli_read_schedule(e->args, &schedule, &e->schedule_text));
  TN_RETURN_IF_ERROR(tn_te_explain(e->tes, e->te_count, e->setup.options.target, &schedule, &e->explanation));
  schedule.log = NULL; /* all was told */
  if (!cli_flag(e->args, "--no-run")) {
    TN_RETURN_IF_ERROR(build_kernels(e, &schedule));
    TN_RETURN_IF_ERROR(measure(e));
  }
  return report(e);
}

static int run(const cli_args *args) {
  static explain e;
  e = (explain){.args = args, .repeat = 10};
  if (!cli_compile_setup(args, &e.setup) || !cli_number(args, "--repeat", 1, 1000000, &e.repeat) ||
      !cli_number(args, "--seed", 0, INT64_MAX, &e.seed))
    return EXIT_MISUSED;
  if (cli_is_executable(args->file)) return cli_misused("explain", "it needs the model, not an executable");
  static const char *const measuring[] = {"--repeat", "--seed", NULL};
  if (cli_flag(args, "--no-run") && cli_refuse(args, measuring, "is for measuring, which --no-run leaves out"))
    return EXIT_MISUSED;
  bool declarations = cli_is_declarations(args->file);
  static const char *const of_declarations[] = {"--kernel", NULL}, *const dims[] = {"--dim", NULL};
  if (declarations &&
      cli_refuse_rows(args, TN__OPTION_DECLARED, "is for models, and %s holds declarations", args->file))
    return EXIT_MISUSED;
  if (!declarations && cli_refuse_declared(args, "is for declarations, and %s is a model", args->file))
    return EXIT_MISUSED;
  tn_schedule_options checked = {.size = sizeof checked};
  if (declarations && !cli_schedule_setup(args, &checked)) return EXIT_MISUSED;
  if (!declarations && cli_refuse(args, of_declarations, "is for declarations, and %s is a model", args->file))
    return EXIT_MISUSED;
  if (declarations && e.setup.options.special_dim_count > 0 &&
      cli_refuse(args, dims, "takes one size for declarations"))
    return EXIT_MISUSED;
  tn_status *status = declarations ? explain_declarations(&e) : explain_model(&e);
  tn_session_release(e.session);
  release_inputs(&e);
  for (int i = 0; e.schedules && i < e.te_count; i++) tn_schedule_release(e.schedules[i]);
  free(e.schedules);
  tn_te_list_release(e.tes, e.te_count);
  free(e.schedule_text);
  tn_executable_release(e.exe);
  tn_module_release(e.module);
  tn_explanation_release(e.explanation);
  return cli_report(status);
}

const cli_command cli_explain_command = {"explain", "MODEL.onnx|MODEL.tng|KERNELS.te [OPTIONS]",
                                         "Tell how each kernel is scheduled, what that should cost and what it does",
                                         options, run};
