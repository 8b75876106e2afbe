/* Runs kernels as OpenCL C on the first device that there is, and holds their results to what the interpreter gives:
 * `run [--target TARGET]... [--drawn COUNT] [--first NUMBER] [--open SIZE] FILE.te...`, where SIZE is that of open
 * dimensions. Ends with 77, and says so, where there is no device. All buffers of a kernel lie in one allocation, with
 * bytes between them that nobody may write. */
#include "codegen/backend.h"
#include "cuda/kernels.h"
#include "opencl/device.h"
#include "target/text/text.h"

enum { MOST_TARGETS = 8, MOST_FILES = 16, SKIPPED = 77, GAP = 256, POISON = 0x5a };

typedef struct running {
  cl_test device;
  const char *files[MOST_FILES], *targets[MOST_TARGETS];
  int file_count, target_count, drawn, first;
  int made, failed;
} running;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct memory {
  char *bytes; /* as they were, and as they are */
  size_t size;
  int64_t offsets[MOST_BUFFERS + 1];
} memory;

static void place(memory *m, const tn__func *func, int64_t workspace, void *const *buffers) {
  int count = func->input_count + func->output_count;
  m->size = GAP;
  for (int i = 0; i <= count; i++) {
    size_t bytes = i < count ? byte_count(func->params[i]) : (size_t)workspace;
    m->offsets[i] = (int64_t)m->size;
    m->size = (m->size + bytes + 2 * GAP - 1) / GAP * GAP;
  }
  m->bytes = malloc(m->size);
  if (m->bytes == NULL) abort();
  memset(m->bytes, POISON, m->size);
  for (int i = 0; i < count; i++) memcpy(m->bytes + m->offsets[i], buffers[i], byte_count(func->params[i]));
}

/* Did a kernel write between buffers, or into inputs? */
static bool gaps_are_whole(const memory *m, const tn__func *func, int64_t workspace, void *const *buffers) {
  int count = func->input_count + func->output_count;
  size_t at = 0;
  for (int i = 0; i <= count; i++) {
    for (; at < (size_t)m->offsets[i]; at++)
      if (m->bytes[at] != POISON) return false;
    at += i < count ? byte_count(func->params[i]) : (size_t)workspace;
    if (i < func->input_count && memcmp(m->bytes + m->offsets[i], buffers[i], byte_count(func->params[i])) != 0)
      return false;
  }
  for (; at < m->size; at++)
    if (m->bytes[at] != POISON) return false;
  return true;
}

static bool outputs_are_right(const memory *m, const tn__func *func, void *const *expected, const char *label) {
  for (int i = func->input_count; i < func->input_count + func->output_count; i++) {
    const element_type *type = type_named(tn_dtype_name(func->params[i]->dtype));
    for (int64_t e = 0; e < element_count(func->params[i]); e++) {
      double got = number_at(type, m->bytes + m->offsets[i], e), want = number_at(type, expected[i], e);
      if (is_same(type, got, want, tolerance_of(func))) continue;
      printf("%s: WRONG: %s[%lld] is %.9g, not %.9g\n", label, func->params[i]->name, (long long)e, got, want);
      return false;
    }
  }
  return true;
}

/* ---- one kernel -------------------------------------------------------------------------------------------------- */

typedef struct trial {
  const tn__func *func;
  tn__source source;
  int64_t workspace;
  int64_t scalars[MOST_BUFFERS];
} trial;

static bool run_on_device(running *r, const trial *t, memory *m, const char *label) {
  const tn__source_unit *unit = t->source.data;
  const tn__source_kernel *kernel = tn__source_unit_kernel(unit, t->source.kernels[0].offset);
  cl_program program = cl_test_build(&r->device, unit);
  cl_launches launches;
  int32_t result = 0;
  if (program == NULL) return false;
  cl_call call = {.memory = cl_test_memory(&r->device, m->size), .status = cl_test_memory(&r->device, sizeof result)};
  call.offsets = m->offsets;
  call.scalars = t->scalars;
  cl_command_queue queue = r->device.queue;
  cl_check(cl.clEnqueueWriteBuffer(queue, call.memory, CL_TRUE, 0, m->size, m->bytes, 0, NULL, NULL), "copy");
  cl_check(cl.clEnqueueWriteBuffer(queue, call.status, CL_TRUE, 0, sizeof result, &result, 0, NULL, NULL), "copy");
  cl_prepare(unit, kernel, program, &call, &launches);
  cl_launch(&r->device, &launches);
  cl_check(cl.clFinish(queue), label);
  cl_check(cl.clEnqueueReadBuffer(queue, call.memory, CL_TRUE, 0, m->size, m->bytes, 0, NULL, NULL), "copy");
  cl_check(cl.clEnqueueReadBuffer(queue, call.status, CL_TRUE, 0, sizeof result, &result, 0, NULL, NULL), "copy");
  cl_done(&launches);
  cl_check(cl.clReleaseMemObject(call.memory), "memory");
  cl_check(cl.clReleaseMemObject(call.status), "memory");
  cl_check(cl.clReleaseProgram(program), "program");
  if (result != 0) printf("%s: ends with %d\n", label, (int)result);
  return result == 0;
}

/* The unit of one kernel as it is scheduled for the target. */
static void make_trial(tn__arena *arena, tn__ir *ir, const tn__te *te, const tn__target *target, const char *name,
                       trial *out) {
  tn__plan_unit unit = tn__rule_plan_unit_of(te, target, &(tn__schedule_options){.threads = 2});
  tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  const tn__backend *row = &tn__backend_opencl;
  out->func = renamed(ir, row->lower(ir, tn__schedule_func(plan->schedule), NULL), name);
  tn__ir **irs = TN__NEW(arena, tn__ir *);
  irs[0] = ir;
  out->source = row->unit(arena, &(tn__codegen_module){.irs = irs, .funcs = &out->func, .count = 1, .target = target});
  tn__check(arena->escape, tn__source_unit_check(out->source.data, out->source.size));
  tn__kernel_info info = row->measure(ir, out->func);
  out->workspace = info.workspace_expr != NULL ? size_of_dim(info.workspace_expr) : info.workspace_bytes;
  int count = 0;
  for (; count < out->func->scalar_count; count++) out->scalars[count] = open_dim;
  const tn__source_kernel_use *use = &out->source.kernels[0];
  for (int i = 0; i < use->extents.count; i++) out->scalars[count++] = size_of_dim(use->extents.data[i]);
}

static void run_kernel(running *r, tn__arena *arena, tn__ir *ir, const tn__te *te, const char *name) {
  void *buffers[MOST_BUFFERS] = {NULL};
  tn__func *plain = tn__te_lower(te);
  make_bundle_inputs(te, 20261126 + (uint64_t)r->made, buffers);
  make_outputs(plain, buffers);
  tn_status *status = interpret(te, plain, buffers);
  for (int i = 0; i < r->target_count && status == NULL; i++) {
    tn__target target;
    trial t = {.workspace = 0};
    memory m;
    const char *label = tn__arena_printf(arena, "%s for %s", name, r->targets[i]);
    tn__check(arena->escape, tn__target_parse(r->targets[i], &target));
    make_trial(arena, ir, te, &target, name, &t);
    place(&m, t.func, t.workspace, buffers);
    for (int k = t.func->input_count; k < t.func->input_count + t.func->output_count; k++)
      memset(m.bytes + m.offsets[k], POISON, byte_count(t.func->params[k]));
    bool right = run_on_device(r, &t, &m, label) && outputs_are_right(&m, t.func, buffers, label);
    if (right && !gaps_are_whole(&m, t.func, t.workspace, buffers)) {
      printf("%s: WRONG: it writes where it may not\n", label);
      right = false;
    }
    free(m.bytes);
    if (!right) printf("%s\n", (const char *)t.source.data + ((const tn__source_unit *)t.source.data)->text);
    r->failed += !right;
    r->made++;
  }
  for (int i = 0; i < plain->input_count + plain->output_count; i++) free(buffers[i]);
  tn__check(arena->escape, status);
}

typedef struct job {
  running *r;
  const char *text, *label;
} job;

static void run_text(tn__arena *arena, void *user) {
  job *j = user;
  tn__te_source *source;
  tn__check(arena->escape, tn__te_parse(arena, j->label, j->text, strlen(j->text), &source));
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    tn__ir *ir = tn__ir_create(arena);
    tn__te *te;
    tn__check(arena->escape, tn__te_declare(source, i, NULL, 0, ir, &te));
    run_kernel(j->r, arena, ir, te, tn__te_name(te));
  }
}

static void run(running *r, const char *text, const char *label) {
  job j = {r, text, label};
  int failed = r->failed;
  tn_status *status = tn__with_arena(NULL, run_text, &j);
  if (status != NULL && tn_status_code_of(status) != TN_CANCELLED) { /* too much for the interpreter is no failure */
    printf("%s: %s\n", label, tn_status_message(status));
    r->failed++;
  }
  if (r->failed > failed) printf("%s:\n%s\n", label, text);
  fflush(stdout);
  tn_status_free(status);
}

int main(int argc, char **argv) {
  running r = {.made = 0};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--target") == 0 && i + 1 < argc && r.target_count < MOST_TARGETS)
      r.targets[r.target_count++] = argv[++i];
    else if (strcmp(argv[i], "--drawn") == 0 && i + 1 < argc)
      r.drawn = atoi(argv[++i]);
    else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
      r.first = atoi(argv[++i]);
    else if (strcmp(argv[i], "--open") == 0 && i + 1 < argc)
      open_dim = atoi(argv[++i]);
    else if (r.file_count < MOST_FILES)
      r.files[r.file_count++] = argv[i];
  }
  const char *missing = cl_test_open(&r.device);
  if (missing != NULL) {
    printf("SKIPPED: %s\n", missing);
    return SKIPPED;
  }
  printf("%s\n", r.device.name);
  for (int i = 0; i < r.file_count; i++) {
    char *text = read_text(r.files[i]);
    run(&r, text, r.files[i]);
    free(text);
  }
  draw d = {.count = 0};
  for (int i = r.first; i < r.first + r.drawn; i++) {
    char label[32];
    snprintf(label, sizeof label, "drawn %d", i);
    d.dice = (dice){.state = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 20261126};
    draw_kernel(&d);
    run(&r, tn__strbuf_text(&d.text), label);
    tn__strbuf_release(&d.text);
  }
  cl_test_close(&r.device);
  printf("%d of %d kernels are right\n", r.made - r.failed, r.made);
  return r.failed > 0;
}
