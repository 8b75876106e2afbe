/* Times kernels on the first OpenCL device that there is against this compiler's own code of the same schedule:
 * `time [--target TARGET] [--threads COUNT] [--open SIZE] FILE.te...`, where SIZE is that of open dimensions. Of both
 * the shortest of several rounds counts, in time of this process's threads together, so that it can be busy here; a
 * round has as many calls as fill some ticks of that clock. With more than one thread schedules are for so many, and
 * one runs them in both. */
#include <sys/mman.h>
#include <time.h>

#include "codegen/llvm/codegen.h"
#include "cuda/kernels.h"
#include "opencl/device.h"
#include "target/text/text.h"
#include "tenon/kernel_abi.h"

enum { ROUNDS = 7, MOST_CALLS = 4096 };
static const double least_seconds = 0.05;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of one call: the least of several rounds. */
static double time_calls(void (*call)(void *user), void (*wait)(void *user), void *user) {
  double best = 1e30;
  int calls = 1;
  for (int i = 0; i < ROUNDS;) {
    double start = now();
    for (int k = 0; k < calls; k++) call(user);
    wait(user);
    double took = now() - start;
    if (took < least_seconds && calls < MOST_CALLS) {
      calls *= 2;
      continue;
    }
    if (took / calls < best) best = took / calls;
    i++;
  }
  return best;
}

typedef struct timing {
  cl_test device;
  const char *target;
  int threads;
} timing;

static int32_t serial_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return task(env, closure, 0, count);
}

static tn_kernel own_kernel(tn__arena *arena, tn__ir *ir, const tn__func *func, const tn__target *target) {
  tn__code object = tn__codegen_llvm(
      arena, &(tn__codegen_module){.irs = &ir, .funcs = &func, .count = 1, .target = target}, TN__EMIT_OBJECT);
  tn__image image = tn__cg_link_image(arena, &object, 1);
  char *at = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, image.data, image.size);
  mprotect(at, image.size, PROT_READ | PROT_EXEC);
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = at + image.symbols[0].offset};
  return entry.code;
}

static tn__func *scheduled(const tn__te *te, const tn__target *target, int threads, const char **rule) {
  tn__plan_unit unit = tn__rule_plan_unit_of(te, target, &(tn__schedule_options){.threads = threads});
  tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  *rule = plan->rule;
  tn__ir *ir = tn__te_ir(te);
  const tn__func *func = tn__schedule_func(plan->schedule);
  const tn__backend *row = target->kind == TN__TARGET_OPENCL ? &tn__backend_opencl : &tn__backend_llvm;
  return renamed(ir, row->lower(ir, func, NULL), tn__te_name(te));
}

static size_t workspace_of(tn__ir *ir, const tn__func *func) {
  tn__kernel_info info = tn__backend_opencl.measure(ir, func);
  return (size_t)(info.workspace_expr != NULL ? size_of_dim(info.workspace_expr) : info.workspace_bytes);
}

typedef struct own_call {
  tn_kernel kernel;
  const tn_kernel_env *env;
  void *const *buffers;
} own_call;

static void call_own(void *user) {
  own_call *c = user;
  const int64_t scalars[] = {open_dim, open_dim, open_dim, open_dim, open_dim, open_dim};
  c->kernel(c->env, c->buffers, scalars);
}

static void wait_for_own(void *user) { (void)user; }

typedef struct device_call {
  cl_test *device;
  const cl_launches *launches;
} device_call;

static void call_device(void *user) {
  device_call *c = user;
  cl_launch(c->device, c->launches);
}

static void wait_for_device(void *user) {
  device_call *c = user;
  cl_check(cl.clFinish(c->device->queue), "a round");
}

static double time_own(timing *t, tn__arena *arena, const tn__te *te, void **buffers) {
  tn__target target;
  const char *rule;
  tn__check(arena->escape, tn__target_parse("native", &target));
  tn__ir *ir = tn__te_ir(te);
  const tn__func *func = scheduled(te, &target, t->threads, &rule);
  tn_kernel kernel = own_kernel(arena, ir, func, &target);
  int count = func->input_count + func->output_count;
  buffers[count] = aligned_alloc(64, (workspace_of(ir, func) + 64) / 64 * 64 + 64);
  tn_kernel_env env = {.version = TN_KERNEL_ABI_VERSION, .size = sizeof env, .parallel_for = serial_for, 1, 0, NULL};
  double best = time_calls(call_own, wait_for_own, &(own_call){kernel, &env, buffers});
  free(buffers[count]);
  return best;
}

static double time_device(timing *t, tn__arena *arena, const tn__te *te, void *const *buffers, const char **rule) {
  tn__target target;
  int64_t offsets[MOST_BUFFERS + 1], scalars[MOST_BUFFERS];
  size_t size = 0;
  int32_t zero = 0;
  tn__check(arena->escape, tn__target_parse(t->target, &target));
  tn__ir *ir = tn__te_ir(te);
  const tn__func *func = scheduled(te, &target, t->threads, rule);
  tn__source source =
      tn__backend_opencl.unit(arena, &(tn__codegen_module){.irs = &ir, .funcs = &func, .count = 1, .target = &target});
  const tn__source_unit *unit = source.data;
  if (getenv("TENON_SHOW") != NULL) printf("%s\n", (const char *)source.data + unit->text);
  int count = func->input_count + func->output_count;
  for (int i = 0; i <= count; i++) {
    offsets[i] = (int64_t)size;
    size += ((i < count ? byte_count(func->params[i]) : workspace_of(ir, func)) + 255) / 128 * 128;
  }
  for (int i = 0; i < func->scalar_count; i++) scalars[i] = open_dim;
  for (int i = 0; i < source.kernels[0].extents.count; i++)
    scalars[func->scalar_count + i] = size_of_dim(source.kernels[0].extents.data[i]);
  cl_program program = cl_test_build(&t->device, unit);
  if (program == NULL) return -1;
  cl_call call = {cl_test_memory(&t->device, size), cl_test_memory(&t->device, 4), offsets, scalars};
  for (int i = 0; i < count; i++)
    cl_check(cl.clEnqueueWriteBuffer(t->device.queue, call.memory, CL_TRUE, (size_t)offsets[i],
                                     byte_count(func->params[i]), buffers[i], 0, NULL, NULL),
             "copy");
  cl_check(cl.clEnqueueWriteBuffer(t->device.queue, call.status, CL_TRUE, 0, 4, &zero, 0, NULL, NULL), "copy");
  cl_launches launches;
  cl_prepare(unit, tn__source_unit_kernel(unit, source.kernels[0].offset), program, &call, &launches);
  double best = time_calls(call_device, wait_for_device, &(device_call){&t->device, &launches});
  cl_done(&launches);
  cl_check(cl.clReleaseMemObject(call.memory), "memory");
  cl_check(cl.clReleaseMemObject(call.status), "memory");
  cl_check(cl.clReleaseProgram(program), "program");
  return best;
}

typedef struct job {
  timing *t;
  const char *text;
} job;

static void time_text(tn__arena *arena, void *user) {
  job *j = user;
  tn__te_source *source;
  tn__check(arena->escape, tn__te_parse(arena, "time", j->text, strlen(j->text), &source));
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    tn__ir *ir = tn__ir_create(arena);
    void *buffers[MOST_BUFFERS + 1] = {NULL};
    const char *rule;
    tn__te *te;
    tn__check(arena->escape, tn__te_declare(source, i, NULL, 0, ir, &te));
    tn__func *plain = tn__te_lower(te);
    make_bundle_inputs(te, 20261126, buffers);
    make_outputs(plain, buffers);
    double own = time_own(j->t, arena, te, buffers), device = time_device(j->t, arena, te, buffers, &rule);
    printf("%-24s %-14s own %9.3f ms, device %9.3f ms: %6.2f\n", tn__te_name(te), rule, own * 1e3, device * 1e3,
           device / own);
    fflush(stdout);
    for (int k = 0; k < plain->input_count + plain->output_count; k++) free(buffers[k]);
  }
}

int main(int argc, char **argv) {
  timing t = {.target = "opencl -type=cpu", .threads = 1};
  setenv("POCL_MAX_PTHREAD_COUNT", "1", 0);
  const char *missing = cl_test_open(&t.device);
  if (missing != NULL) {
    printf("%s\n", missing);
    return 1;
  }
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--target") == 0 && i + 1 < argc) {
      t.target = argv[++i];
    } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      t.threads = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--open") == 0 && i + 1 < argc) {
      open_dim = atoi(argv[++i]);
    } else {
      char *text = read_text(argv[i]);
      tn_status *status = tn__with_arena(NULL, time_text, &(job){&t, text});
      if (status != NULL) printf("%s\n", tn_status_message(status));
      tn_status_free(status);
      free(text);
    }
  }
  return 0;
}
