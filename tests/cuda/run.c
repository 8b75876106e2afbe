/* Runs the kernels of a bundle (bundle.c) on an NVIDIA GPU, through the driver alone, and holds their results to what
 * the interpreter gave: `run BUNDLE [ARCH]`. Times those that say how many operations they are. It needs no other file,
 * so that a bundle can go to another machine. Ends with 77 where there is no driver or no GPU. */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "inputs.h"

enum { MOST_BUFFERS = 32, MOST_LAUNCHES = 64, SKIPPED = 77, POISON = 0x5a };

/* ---- the driver -------------------------------------------------------------------------------------------------- */

typedef int cu_result;
typedef uint64_t cu_pointer;
static struct {
  cu_result (*init)(unsigned);
  cu_result (*device_get)(int *, int);
  cu_result (*device_name)(char *, int, int);
  cu_result (*attribute)(int *, int, int);
  cu_result (*context_create)(void **, unsigned, int);
  cu_result (*module_load)(void **, const void *);
  cu_result (*module_unload)(void *);
  cu_result (*function)(void **, void *, const char *);
  cu_result (*allocate)(cu_pointer *, size_t);
  cu_result (*release)(cu_pointer);
  cu_result (*to_device)(cu_pointer, const void *, size_t);
  cu_result (*to_host)(void *, cu_pointer, size_t);
  cu_result (*set)(cu_pointer, unsigned char, size_t);
  cu_result (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);
  cu_result (*wait)(void);
  cu_result (*event_create)(void **, unsigned);
  cu_result (*event_record)(void *, void *);
  cu_result (*event_wait)(void *);
  cu_result (*event_time)(float *, void *, void *);
  cu_result (*error_name)(cu_result, const char **);
} cu;

static void find(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    printf("the driver has no %s\n", name);
    exit(1);
  }
  memcpy(place, &found, sizeof found);
}

static void open_driver(void) {
  void *d = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (d == NULL) {
    printf("SKIPPED: no driver of NVIDIA's here (%s)\n", dlerror());
    exit(SKIPPED);
  }
  find(d, "cuInit", &cu.init);
  find(d, "cuDeviceGet", &cu.device_get);
  find(d, "cuDeviceGetName", &cu.device_name);
  find(d, "cuDeviceGetAttribute", &cu.attribute);
  find(d, "cuCtxCreate_v2", &cu.context_create);
  find(d, "cuModuleLoadData", &cu.module_load);
  find(d, "cuModuleUnload", &cu.module_unload);
  find(d, "cuModuleGetFunction", &cu.function);
  find(d, "cuMemAlloc_v2", &cu.allocate);
  find(d, "cuMemFree_v2", &cu.release);
  find(d, "cuMemcpyHtoD_v2", &cu.to_device);
  find(d, "cuMemcpyDtoH_v2", &cu.to_host);
  find(d, "cuMemsetD8_v2", &cu.set);
  find(d, "cuLaunchKernel", &cu.launch);
  find(d, "cuCtxSynchronize", &cu.wait);
  find(d, "cuEventCreate", &cu.event_create);
  find(d, "cuEventRecord", &cu.event_record);
  find(d, "cuEventSynchronize", &cu.event_wait);
  find(d, "cuEventElapsedTime", &cu.event_time);
  find(d, "cuGetErrorName", &cu.error_name);
}

static void check(cu_result result, const char *what) {
  const char *name = "?";
  if (result == 0) return;
  cu.error_name(result, &name);
  printf("%s: %s\n", what, name);
  exit(1);
}

/* ---- bundles ----------------------------------------------------------------------------------------------------- */

typedef struct buffer {
  const element_type *type;
  int64_t count, stride; /* of outputs: every so many elements are compared */
  int is_output;
  void *host;
  cu_pointer device;
} buffer;

typedef struct launch {
  char name[160];
  unsigned grid[3], block[3];
  void *function;
} launch;

typedef struct kernel {
  char name[160];
  double operations; /* 0: it is not timed */
  double tolerance;  /* of floats, relative */
  uint64_t seed;
  int64_t workspace, scalars[MOST_BUFFERS];
  int buffer_count, launch_count, scalar_count;
  buffer buffers[MOST_BUFFERS];
  launch launches[MOST_LAUNCHES];
} kernel;

static void *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    printf("cannot read %s\n", path);
    exit(1);
  }
  long size = ftell(file);
  rewind(file);
  char *data = calloc(1, (size_t)size + 1);
  if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) exit(1);
  fclose(file);
  return data;
}

static void read_line(kernel *k, const char *line) {
  char word[32], type[16];
  buffer *b = &k->buffers[k->buffer_count];
  launch *l = &k->launches[k->launch_count];
  if (sscanf(line, "%31s", word) != 1) return;
  if (strcmp(word, "kernel") == 0) {
    memset(k, 0, sizeof *k);
    k->workspace = -1; /* there is none */
    sscanf(line, "%*s %159s %lf %lf %" SCNu64, k->name, &k->operations, &k->tolerance, &k->seed);
  } else if (strcmp(word, "input") == 0 || strcmp(word, "output") == 0) {
    *b = (buffer){.stride = 1, .is_output = word[0] == 'o'};
    sscanf(line, "%*s %15s %" SCNd64 " %" SCNd64, type, &b->count, &b->stride);
    b->type = type_named(type);
    k->buffer_count++;
  } else if (strcmp(word, "workspace") == 0) {
    sscanf(line, "%*s %" SCNd64, &k->workspace);
  } else if (strcmp(word, "scalar") == 0) {
    sscanf(line, "%*s %" SCNd64, &k->scalars[k->scalar_count++]);
  } else if (strcmp(word, "launch") == 0) {
    sscanf(line, "%*s %159s %u %u %u %u %u %u", l->name, &l->grid[0], &l->grid[1], &l->grid[2], &l->block[0],
           &l->block[1], &l->block[2]);
    k->launch_count++;
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static int compare(const kernel *k, const char *expected) {
  for (int i = 0; i < k->buffer_count; i++) {
    const buffer *b = &k->buffers[i];
    for (int64_t e = 0; b->is_output && e < b->count; e += b->stride, expected += b->type->bytes) {
      double got = number_at(b->type, b->host, e), want = number_at(b->type, expected, 0);
      if (is_same(b->type, got, want, k->tolerance)) continue;
      printf("%-28s WRONG: buffer %d[%" PRId64 "] is %.9g, not %.9g\n", k->name, i, e, got, want);
      return 0;
    }
  }
  return 1;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void launch_all(const kernel *k, void **arguments) {
  for (int i = 0; i < k->launch_count; i++) {
    const launch *l = &k->launches[i];
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0) continue;
    check(cu.launch(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], 0, NULL,
                    arguments, NULL),
          l->name);
  }
}

static void time_kernel(const kernel *k, void **arguments) {
  enum { ROUNDS = 20 };
  void *begin, *end;
  float best = 1e30F, took;
  check(cu.event_create(&begin, 0), "event");
  check(cu.event_create(&end, 0), "event");
  for (int i = 0; i < ROUNDS; i++) {
    check(cu.event_record(begin, NULL), "event");
    launch_all(k, arguments);
    check(cu.event_record(end, NULL), "event");
    check(cu.event_wait(end), "event");
    check(cu.event_time(&took, begin, end), "event");
    if (took < best) best = took;
  }
  printf("%-28s %8.3f ms, %7.2f T/s\n", k->name, (double)best, k->operations / (double)best / 1e9);
}

static int run_kernel(kernel *k, const char *folder, const char *arch) {
  char path[1024];
  void *module, *arguments[2 * MOST_BUFFERS + 2];
  int count = 0;
  int32_t result = 0;
  uint64_t seed = k->seed;
  cu_pointer workspace, status;
  snprintf(path, sizeof path, "%s/%s.%s.cubin", folder, k->name, arch);
  void *code = read_file(path);
  check(cu.module_load(&module, code), path);
  for (int i = 0; i < k->launch_count; i++)
    check(cu.function(&k->launches[i].function, module, k->launches[i].name), k->launches[i].name);
  for (int i = 0; i < k->buffer_count; i++) {
    buffer *b = &k->buffers[i];
    size_t bytes = (size_t)b->count * (size_t)b->type->bytes;
    b->host = calloc(1, bytes + 8);
    if (b->host == NULL) exit(1);
    check(cu.allocate(&b->device, bytes + 8), "memory");
    check(cu.set(b->device, POISON, bytes + 8), "memory");
    if (!b->is_output) {
      fill_input(b->type, b->host, b->count, &seed);
      check(cu.to_device(b->device, b->host, bytes), "copy");
    }
    arguments[count++] = &b->device;
  }
  size_t workspace_bytes = k->workspace > 0 ? (size_t)k->workspace : 0;
  check(cu.allocate(&workspace, workspace_bytes + 64), "workspace");
  check(cu.set(workspace, POISON, workspace_bytes + 64), "workspace");
  if (k->workspace >= 0) arguments[count++] = &workspace;
  for (int i = 0; i < k->scalar_count; i++) arguments[count++] = &k->scalars[i];
  check(cu.allocate(&status, 4), "status");
  check(cu.set(status, 0, 4), "status");
  arguments[count++] = &status;
  launch_all(k, arguments);
  check(cu.wait(), k->name);
  check(cu.to_host(&result, status, 4), "status");
  for (int i = 0; i < k->buffer_count; i++) {
    buffer *b = &k->buffers[i];
    if (b->is_output) check(cu.to_host(b->host, b->device, (size_t)b->count * (size_t)b->type->bytes), "copy");
  }
  snprintf(path, sizeof path, "%s/%s.expected", folder, k->name);
  char *expected = read_file(path);
  int right = result == 0 && compare(k, expected);
  if (result != 0) printf("%-28s ends with %d\n", k->name, (int)result);
  if (right && k->operations > 0) time_kernel(k, arguments);
  for (int i = 0; i < k->buffer_count; i++) {
    check(cu.release(k->buffers[i].device), "memory");
    free(k->buffers[i].host);
  }
  check(cu.release(workspace), "memory");
  check(cu.release(status), "memory");
  check(cu.module_unload(module), "module");
  free(expected);
  free(code);
  return right;
}

int main(int argc, char **argv) {
  static kernel k;
  char path[1024], name[128] = "", arch[32];
  int device, major, minor, right = 0, all = 0;
  void *context;
  if (argc < 2) {
    printf("run BUNDLE [ARCH]\n");
    return 2;
  }
  open_driver();
  if (cu.init(0) != 0 || cu.device_get(&device, 0) != 0) {
    printf("SKIPPED: no GPU here\n");
    return SKIPPED;
  }
  check(cu.device_name(name, sizeof name, device), "device");
  check(cu.attribute(&major, 75, device), "device");
  check(cu.attribute(&minor, 76, device), "device");
  snprintf(arch, sizeof arch, "%s", argc > 2 ? argv[2] : major >= 9 ? "sm_90" : "sm_80");
  printf("%s, compute capability %d.%d, code for %s\n", name, major, minor, arch);
  check(cu.context_create(&context, 0, device), "context");
  snprintf(path, sizeof path, "%s/plan", argv[1]);
  char *plan = read_file(path);
  for (char *line = strtok(plan, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (strcmp(line, "end") != 0) {
      read_line(&k, line);
      continue;
    }
    all++;
    right += run_kernel(&k, argv[1], arch);
    fflush(stdout);
  }
  free(plan);
  printf("%d of %d kernels are right\n", right, all);
  return right == all ? 0 : 1;
}
