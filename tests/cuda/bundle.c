/* Makes a bundle of CUDA kernels for run.c: `bundle --nvrtc LIBRARY -o FOLDER [--arch ARCH]... [--drawn COUNT]
 * [--big] [--only WORD] FILE.te...`, the latter for kernels with the word in their names. Each kernel is scheduled for
 * a GPU, run by the interpreter as it is scheduled, which sees races, compiled by NVRTC for each architecture, and its
 * results, those of the plain declaration, are put beside it. What is big is computed by the C99 of the same
 * declaration instead. */
#include <dlfcn.h>
#include <sys/stat.h>

#include "cuda/kernels.h"
#include "target/text/text.h"
#include "unit/c99.h"

enum { MOST_ARCHS = 4, MOST_FILES = 64 };

typedef struct bundle {
  const char *folder, *only, *files[MOST_FILES], *archs[MOST_ARCHS];
  int file_count, arch_count, drawn, made, failed;
  bool big;
  FILE *plan;
  void *nvrtc;
} bundle;

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */

typedef struct nvrtc {
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*code_size)(void *, size_t *);
  int (*code)(void *, char *);
  int (*destroy)(void **);
} nvrtc;

static void find(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  if (found == NULL) abort();
  memcpy(place, &found, sizeof found);
}

static void write_file(const bundle *b, const char *name, const char *ending, const void *data, size_t size) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s%s", b->folder, name, ending);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

/* Compiles for one architecture; false after it said why not. */
static bool compile_cuda(const bundle *b, const char *name, const char *text, const char *arch) {
  nvrtc n;
  void *program;
  char option[64], ending[64];
  size_t size = 0;
  find(b->nvrtc, "nvrtcCreateProgram", &n.create);
  find(b->nvrtc, "nvrtcCompileProgram", &n.compile);
  find(b->nvrtc, "nvrtcGetProgramLogSize", &n.log_size);
  find(b->nvrtc, "nvrtcGetProgramLog", &n.log);
  find(b->nvrtc, "nvrtcGetCUBINSize", &n.code_size);
  find(b->nvrtc, "nvrtcGetCUBIN", &n.code);
  find(b->nvrtc, "nvrtcDestroyProgram", &n.destroy);
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  snprintf(ending, sizeof ending, ".%s.cubin", arch);
  const char *options[] = {option, "--fmad=false"};
  if (n.create(&program, text, name, 0, NULL, NULL) != 0) abort();
  bool ok = n.compile(program, 2, options) == 0;
  n.log_size(program, &size);
  char *log = calloc(1, size + 1);
  if (log == NULL) abort();
  n.log(program, log);
  if (!ok) fprintf(stderr, "%s for %s:\n%s\n", name, arch, log);
  free(log);
  if (ok && n.code_size(program, &size) == 0) {
    char *code = malloc(size);
    if (code == NULL || n.code(program, code) != 0) abort();
    write_file(b, name, ending, code, size);
    free(code);
  }
  n.destroy(&program);
  return ok;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int32_t serial_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return task(env, closure, 0, count);
}

/* By the C compiler. */
static tn_status *compute(tn__arena *arena, const tn__te *te, void **buffers) {
  tn__ir *ir = tn__te_ir(te);
  tn__target target;
  TN_RETURN_IF_ERROR(tn__target_parse("x86-64-v3", &target));
  const tn__schedule *s = default_schedule(te, &target, &(tn__schedule_options){.threads = 1});
  const tn__func *func = tn__ir_lower_for_codegen(ir, tn__schedule_func(s), NULL);
  tn__code code =
      tn__codegen_c99(arena, &(tn__codegen_module){.irs = &ir, .funcs = &func, .count = 1, .target = &target});
  setenv("TENON_TEST_CFLAGS", "-O3 -march=native", 1);
  tn_kernel kernel = c99_kernel(c99_load(code.data, code.size), func->name);
  if (kernel == NULL) return tn_status_create(TN_INTERNAL, "its C99 does not compile");
  buffers[func->input_count + func->output_count] = aligned_alloc(64, 256 << 20);
  tn_kernel_env env = {.version = TN_KERNEL_ABI_VERSION, .size = sizeof env, .parallel_for = serial_for, 1, 0, NULL};
  const int64_t scalars[] = {open_dim, open_dim, open_dim, open_dim, open_dim, open_dim};
  int32_t result = kernel(&env, buffers, scalars);
  free(buffers[func->input_count + func->output_count]);
  return result == 0 ? NULL : tn_status_create(TN_INTERNAL, "its C99 ends with %d", (int)result);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static tn_status *write_results(bundle *b, const char *name, const tn__func *func, void *const *buffers,
                                int64_t stride) {
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  for (int i = func->input_count; i < func->input_count + func->output_count; i++) {
    size_t size = tn_dtype_size(func->params[i]->dtype);
    for (int64_t e = 0; e < element_count(func->params[i]); e += stride)
      tn__strbuf_append_n(&out, (const char *)buffers[i] + (size_t)e * size, size);
  }
  write_file(b, name, ".expected", tn__strbuf_text(&out), out.length);
  tn__strbuf_release(&out);
  return NULL;
}

static void write_plan(bundle *b, const char *name, const tn__te *te, const tn__func *func,
                       const tn__launches *launches, uint64_t seed, double operations, int64_t stride) {
  fprintf(b->plan, "kernel %s %.17g %g %llu\n", name, operations, tolerance_of(func), (unsigned long long)seed);
  for (int i = 0; i < func->input_count + func->output_count; i++)
    fprintf(b->plan, "%s %s %lld %lld\n", i < func->input_count ? "input" : "output",
            tn_dtype_name(func->params[i]->dtype), (long long)element_count(func->params[i]), (long long)stride);
  tn__kernel_info info = tn__backend_cuda.measure(tn__te_ir(te), func);
  if (info.workspace_expr != NULL || info.workspace_bytes > 0)
    fprintf(b->plan, "workspace %lld\n",
            (long long)(info.workspace_expr != NULL ? size_of_dim(info.workspace_expr) : info.workspace_bytes));
  for (int i = 0; i < func->scalar_count; i++) fprintf(b->plan, "scalar %lld\n", (long long)OPEN_DIM);
  for (int i = 0; i < launches->items.count; i++) {
    const tn__launch *l = &launches->items.data[i];
    fprintf(b->plan, "launch %s %lld %lld %lld %d %d %d\n", l->name, (long long)size_of_dim(l->grid[0]),
            (long long)size_of_dim(l->grid[1]), (long long)size_of_dim(l->grid[2]), l->block[0], l->block[1],
            l->block[2]);
  }
  fprintf(b->plan, "end\n");
}

static void add_kernel(bundle *b, tn__arena *arena, tn__ir *ir, const tn__te *te, const char *name, bool big) {
  enum { SAMPLED = 997 };
  tn__escape *escape = arena->escape;
  tn__target target;
  void *buffers[MOST_BUFFERS] = {NULL};
  uint64_t seed = 20261126 + (uint64_t)b->made;
  tn__check(escape, tn__target_parse("cuda -arch=sm_90", &target));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, NULL);
  tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
  const tn__func *scheduled = tn__schedule_func(plan->schedule);
  tn__func *func = renamed(ir, tn__backend_cuda.lower(ir, scheduled, NULL), name);
  const tn__func *one = func;
  tn__launches launches = {{0}};
  make_bundle_inputs(te, seed, buffers);
  make_outputs(func, buffers);
  tn_status *status = big ? compute(arena, te, buffers) : interpret(te, tn__te_lower(te), buffers);
  if (status == NULL) write_results(b, name, func, buffers, big ? SAMPLED : 1);
  if (status == NULL && !big) { /* and the schedule, with an eye on races */
    void *again[MOST_BUFFERS];
    memcpy(again, buffers, sizeof again);
    make_outputs(func, again);
    status = interpret(te, func, again);
    for (int i = func->input_count; i < func->input_count + func->output_count; i++) free(again[i]);
  }
  for (int i = 0; i < func->input_count + func->output_count; i++) free(buffers[i]);
  tn__check(escape, status);
  tn__code code = tn__codegen_cuda(
      arena, &(tn__codegen_module){.irs = &ir, .funcs = &one, .count = 1, .target = &target}, &launches);
  write_file(b, name, ".cu", code.data, code.size);
  bool ok = true;
  for (int i = 0; i < b->arch_count; i++) ok &= compile_cuda(b, name, code.data, b->archs[i]);
  b->failed += !ok;
  b->made++;
  double operations = big || operations_of(te) > 1e6 ? operations_of(te) : 0;
  if (ok) write_plan(b, name, te, func, &launches, seed, operations, big ? SAMPLED : 1);
  printf("%-24s %s, %d launch%s\n", name, plan->rule, launches.items.count, launches.items.count == 1 ? "" : "es");
}

typedef struct job {
  bundle *b;
  const char *text, *label;
  bool big;
} job;

/* All kernels of a text, each in a context of its own. */
static void add_text(tn__arena *arena, void *user) {
  job *j = user;
  tn__te_source *source;
  tn__check(arena->escape, tn__te_parse(arena, j->label, j->text, strlen(j->text), &source));
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    tn__ir *ir = tn__ir_create(arena);
    tn__te *te;
    tn__check(arena->escape, tn__te_declare(source, i, NULL, 0, ir, &te));
    if (j->b->only != NULL && strstr(tn__te_name(te), j->b->only) == NULL) continue;
    const char *name = tn__arena_printf(arena, "%s_%d", tn__te_name(te), j->b->made);
    add_kernel(j->b, arena, ir, te, name, j->big);
  }
}

static void add(bundle *b, const char *text, const char *label, bool big) {
  job j = {b, text, label, big};
  tn_status *status = tn__with_arena(NULL, add_text, &j);
  if (status == NULL) return;
  if (tn_status_code_of(status) != TN_CANCELLED) { /* too many operations for the interpreter is no failure */
    fprintf(stderr, "%s: %s\n%s\n", label, tn_status_message(status), text);
    b->failed++;
  }
  tn_status_free(status);
}

static const char big[] =
    "kernel mm1024(A: f32[1024, 1024], B: f32[1024, 1024]) -> C: f32[1024, 1024] { C[i, j] = sum(k: 1024) A[i, k] * "
    "B[k, j] }\n"
    "kernel mm2048(A: f32[2048, 2048], B: f32[2048, 2048]) -> C: f32[2048, 2048] { C[i, j] = sum(k: 2048) A[i, k] * "
    "B[k, j] }\n"
    "kernel mm4096(A: f32[4096, 4096], B: f32[4096, 4096]) -> C: f32[4096, 4096] { C[i, j] = sum(k: 4096) A[i, k] * "
    "B[k, j] }\n"
    "kernel mm_odd(A: f32[1000, 777], B: f32[777, 1234]) -> C: f32[1000, 1234] { C[i, j] = sum(k: 777) A[i, k] * B[k, "
    "j] }\n"
    "kernel mm_turned(A: f32[2048, 2048], B: f32[2048, 2048]) -> C: f32[2048, 2048] { C[i, j] = sum(k: 2048) A[i, k] * "
    "B[j, k] }\n"
    "kernel half2048(A: f16[2048, 2048], B: f16[2048, 2048]) -> C: f32[2048, 2048] { C[i, j] = sum(k: 2048) "
    "f32(A[i, k]) * f32(B[k, j]) }\n"
    "kernel half4096(A: f16[4096, 4096], B: f16[4096, 4096]) -> C: f32[4096, 4096] { C[i, j] = sum(k: 4096) "
    "f32(A[i, k]) * f32(B[k, j]) }\n"
    "kernel half4096_nt(A: f16[4096, 4096], B: f16[4096, 4096]) -> C: f32[4096, 4096] { C[i, j] = sum(k: 4096) "
    "f32(A[i, k]) * f32(B[j, k]) }\n"
    "kernel half_odd(A: f16[1000, 777], B: f16[777, 1234]) -> C: f32[1000, 1234] { C[i, j] = sum(k: 777) f32(A[i, k]) "
    "* f32(B[k, j]) }\n"
    "kernel bytes2048_nt(A: i8[2048, 2048], B: i8[2048, 2048]) -> C: i32[2048, 2048] { C[i, j] = sum(k: 2048) "
    "i32(A[i, k]) * i32(B[j, k]) }\n"
    "kernel doubles2048(A: f64[2048, 2048], B: f64[2048, 2048]) -> C: f64[2048, 2048] { C[i, j] = sum(k: 2048) "
    "A[i, k] * B[k, j] }\n"
    "kernel image7(X: f32[1, 512, 9, 9], W: f32[512, 512, 3, 3]) -> Y: f32[1, 512, 7, 7] {\n"
    "  Y[n, o, y, x] = sum(c: 512, a: 3, b: 3) X[n, c, y + a, x + b] * W[o, c, a, b]\n"
    "}\n"
    "kernel image56(X: f32[1, 64, 58, 58], W: f32[64, 64, 3, 3]) -> Y: f32[1, 64, 56, 56] {\n"
    "  Y[n, o, y, x] = sum(c: 64, a: 3, b: 3) X[n, c, y + a, x + b] * W[o, c, a, b]\n"
    "}\n"
    "kernel add(A: f32[16777216], B: f32[16777216]) -> C: f32[16777216] { C[i] = A[i] + B[i] }\n"
    "kernel rows(A: f32[4096, 4096]) -> C: f32[4096] { C[i] = sum(k: 4096) A[i, k] }\n"
    "kernel total(A: f32[16777216]) -> C: f32 { C = sum(k: 16777216) A[k] }\n"
    "kernel softmax(X: f32[4096, 1024]) -> Y: f32[4096, 1024] {\n"
    "  Y[i, j] = exp(X[i, j] - (max(k: 1024) X[i, k])) / (sum(k: 1024) exp(X[i, k] - (max(l: 1024) X[i, l])))\n"
    "}\n";

static void read_options(bundle *b, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--nvrtc") == 0 && i + 1 < argc) {
      b->nvrtc = dlopen(argv[++i], RTLD_NOW | RTLD_LOCAL);
      if (b->nvrtc == NULL) fprintf(stderr, "%s\n", dlerror());
    } else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
      b->folder = argv[++i];
    } else if (strcmp(argv[i], "--arch") == 0 && i + 1 < argc && b->arch_count < MOST_ARCHS) {
      b->archs[b->arch_count++] = argv[++i];
    } else if (strcmp(argv[i], "--drawn") == 0 && i + 1 < argc) {
      b->drawn = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      b->only = argv[++i];
    } else if (strcmp(argv[i], "--big") == 0) {
      b->big = true;
    } else if (b->file_count < MOST_FILES) {
      b->files[b->file_count++] = argv[i];
    }
  }
}

int main(int argc, char **argv) {
  bundle b = {.folder = NULL};
  char path[1024];
  read_options(&b, argc, argv);
  if (b.nvrtc == NULL || b.folder == NULL) {
    fprintf(stderr,
            "bundle --nvrtc LIBRARY -o FOLDER [--arch ARCH]... [--drawn COUNT] [--big] [--only WORD] FILE.te...\n");
    return 2;
  }
  mkdir(b.folder, 0777);
  snprintf(path, sizeof path, "%s/plan", b.folder);
  b.plan = fopen(path, "w");
  if (b.plan == NULL) return 2;
  for (int i = 0; i < b.file_count; i++) {
    char *text = read_text(b.files[i]);
    add(&b, text, b.files[i], false);
    free(text);
  }
  draw d = {.count = 0};
  for (int i = 0; i < b.drawn; i++) {
    d.dice = (dice){.state = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 20261126};
    draw_kernel(&d);
    add(&b, tn__strbuf_text(&d.text), "drawn", false);
    tn__strbuf_release(&d.text);
  }
  if (b.big) add(&b, big, "big", true);
  fclose(b.plan);
  printf("%d kernels, %d failed\n", b.made, b.failed);
  return b.failed > 0;
}
