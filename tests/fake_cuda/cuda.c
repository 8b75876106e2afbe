/* A libcuda.so.1 without a GPU, for the test of the driver that stands on it: one device, whose memory the host cannot
 * read at its addresses but for what is the host's own and pinned, streams that do at once what they are asked, and
 * modules whose kernels are C functions of the same names, provided that the image, which is a real one of NVRTC's, has
 * them. What callers must do is checked: a context is current, addresses are the device's, sizes fit. FAKE_CUDA_DEVICES
 * says how many devices there are, and FAKE_CUDA_ARCHITECTURE which (90 is sm_90). A test may ask how many hold a
 * device's context, and have its streams fail until nobody does. */
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

/* What the driver takes the functions for. */
#define DECLARE(name, parameters) TN_API tn__cuda_result name parameters;
TN__CUDA_FUNCTIONS(DECLARE)
TN_API int cuGetExportTable(const void **table, const void *id);
TN_API int fake_cuda_references(int device);
TN_API void fake_cuda_break(int device);

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700
};
enum { MOST_BLOCKS = 1024, DEPTH = 8 };
#define BIAS ((uint64_t)1 << 60) /* no address of the host has it */
#define MEMORY ((size_t)1 << 30)

static struct {
  char *memory;
  size_t bytes;
  bool pinned; /* at the host's own address */
} blocks[MOST_BLOCKS];
static uint64_t address_of(int block) {
  return (uint64_t)(uintptr_t)blocks[block].memory + (blocks[block].pinned ? 0 : BIAS);
}
static size_t used;
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of blocks and contexts, as streams work in several threads */
static struct {
  int references;
  bool broken;
} contexts[DEPTH]; /* a device's is the address of one */
static _Thread_local void *stack[DEPTH];
static _Thread_local int depth;

static int setting(const char *name, int usual) {
  const char *text = getenv(name);
  return text == NULL ? usual : atoi(text);
}
static int device_count(void) { return setting("FAKE_CUDA_DEVICES", 1); }

/* Where the bytes are in the host's memory; NULL: that is no memory of the device. */
static char *locate(uint64_t address, size_t bytes, bool *pinned) {
  char *found = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_BLOCKS && found == NULL; i++) {
    uint64_t begin = address_of(i);
    if (blocks[i].memory != NULL && address >= begin && address - begin <= blocks[i].bytes &&
        bytes <= blocks[i].bytes - (address - begin))
      found = blocks[i].memory + (address - begin), *pinned = blocks[i].pinned;
  }
  pthread_mutex_unlock(&lock);
  return found;
}
static char *behind(uint64_t address, size_t bytes) {
  bool pinned;
  return locate(address, bytes, &pinned);
}
/* The same, and it is the device's own: what is pinned the host copies without asking. */
static char *inside(uint64_t address, size_t bytes) {
  bool pinned = false;
  char *found = locate(address, bytes, &pinned);
  return pinned ? NULL : found;
}
static int need_context(void) { return depth > 0 ? SUCCESS : INVALID_CONTEXT; }

/* ---- devices, contexts, streams ---------------------------------------------------------------------------------- */

int cuInit(unsigned flags) { return device_count() > 0 ? SUCCESS : NO_DEVICE; }
int cuDriverGetVersion(int *version) { return *version = 12040, SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = device_count(), SUCCESS; }
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? SUCCESS : INVALID_DEVICE;
}
int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake GPU");
  return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = MEMORY, SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int architecture = setting("FAKE_CUDA_ARCHITECTURE", 90);
  switch (attribute) {
    case 1: /* threads of a block */
    case 2:
    case 3: *value = setting("FAKE_CUDA_THREADS", 1024); break; /* along x and y */
    case 4: *value = 64; break;                                 /* along z */
    case 5: *value = INT32_MAX; break;                          /* blocks along x */
    case 6:
    case 7: *value = 65535; break;                                 /* along y and z */
    case 8: *value = setting("FAKE_CUDA_SHARED", 48 << 10); break; /* bytes that a block's threads share */
    case 13: *value = 1980000; break;                              /* kHz */
    case 16: *value = 132; break;                                  /* multiprocessors */
    case 19: *value = 1; break;                                    /* maps the host's memory */
    case 41: *value = setting("FAKE_CUDA_UNIFIED", 1); break;      /* at its addresses */
    case 36: *value = 2619000; break;                              /* kHz of the memory */
    case 37: *value = 5120; break;                                 /* bits that it moves at once */
    case 75: *value = architecture / 10; break;                    /* the architecture's numbers */
    case 76: *value = architecture % 10; break;
    default: return INVALID_VALUE;
  }
  return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  pthread_mutex_lock(&lock);
  contexts[device].references++;
  pthread_mutex_unlock(&lock);
  return *context = &contexts[device], SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&lock);
  if (--contexts[device].references == 0) contexts[device].broken = false;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
int fake_cuda_references(int device) { return contexts[device].references; }
void fake_cuda_break(int device) { contexts[device].broken = true; }
int cuCtxPushCurrent_v2(void *context) {
  if (depth == DEPTH) return INVALID_VALUE;
  stack[depth++] = context;
  return SUCCESS;
}
int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return INVALID_CONTEXT;
  *context = stack[--depth];
  return SUCCESS;
}
int cuStreamCreate(void **stream, unsigned flags) {
  *stream = malloc(1);
  return need_context();
}
int cuStreamDestroy_v2(void *stream) {
  free(stream);
  return need_context();
}
/* The run-time compiler asks for one that is NVIDIA's own affair, and does without. */
int cuGetExportTable(const void **table, const void *id) { return NOT_FOUND; }
int cuStreamSynchronize(void *stream) {
  for (int i = 0; i < DEPTH; i++)
    if (depth > 0 && stack[depth - 1] == &contexts[i] && contexts[i].broken) return ILLEGAL_ADDRESS;
  return need_context();
}
int cuGetErrorName(int result, const char **name) {
  *name = result == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
          : result == INVALID_IMAGE   ? "CUDA_ERROR_INVALID_IMAGE"
          : result == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
          : result == NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
                                      : "CUDA_ERROR_UNKNOWN";
  return SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int allocate(uint64_t *address, size_t bytes, bool pinned) {
  int place = 0;
  while (place < MOST_BLOCKS && blocks[place].memory != NULL) place++;
  if (place == MOST_BLOCKS || bytes > MEMORY - used) return OUT_OF_MEMORY;
  void *memory = NULL;
  if (posix_memalign(&memory, 256, bytes) != 0) return OUT_OF_MEMORY;
  blocks[place].memory = memory;
  blocks[place].bytes = bytes;
  blocks[place].pinned = pinned;
  used += bytes;
  *address = address_of(place);
  return SUCCESS;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (depth == 0) return INVALID_CONTEXT;
  if (bytes == 0) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  int result = allocate(address, bytes, false);
  pthread_mutex_unlock(&lock);
  return result;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  uint64_t there = 0;
  if (depth == 0) return INVALID_CONTEXT;
  if (bytes == 0 || flags != 2) return INVALID_VALUE; /* it is to be mapped for devices */
  pthread_mutex_lock(&lock);
  int result = allocate(&there, bytes, true);
  pthread_mutex_unlock(&lock);
  *address = (void *)(uintptr_t)there;
  return result;
}
static int release(uint64_t address, bool pinned) {
  for (int i = 0; i < MOST_BLOCKS; i++) {
    if (blocks[i].memory == NULL || blocks[i].pinned != pinned || address_of(i) != address) continue;
    used -= blocks[i].bytes;
    free(blocks[i].memory);
    blocks[i].memory = NULL;
    return need_context();
  }
  return INVALID_VALUE;
}
int cuMemFree_v2(uint64_t address) {
  pthread_mutex_lock(&lock);
  int result = release(address, false);
  pthread_mutex_unlock(&lock);
  return result;
}
int cuMemFreeHost(void *address) {
  pthread_mutex_lock(&lock);
  int result = release((uint64_t)(uintptr_t)address, true);
  pthread_mutex_unlock(&lock);
  return result;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
  bool pinned;
  if (depth == 0) return INVALID_CONTEXT;
  if (attribute != 2 || locate(address, 1, &pinned) == NULL) return INVALID_VALUE;
  unsigned type = pinned ? 1 : 2; /* the host's, or the device's */
  memcpy(value, &type, sizeof type);
  return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  char *there = inside(to, bytes);
  if (there == NULL || depth == 0) return INVALID_VALUE;
  memcpy(there, from, bytes);
  return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  const char *there = inside(from, bytes);
  if (there == NULL || depth == 0) return INVALID_VALUE;
  memcpy(to, there, bytes);
  return SUCCESS;
}
/* Of parts that overlap the result is undefined, which is another byte here. */
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  char *target = inside(to, bytes);
  const char *source = inside(from, bytes);
  if (target == NULL || source == NULL || depth == 0) return INVALID_VALUE;
  bool overlap = source < target + bytes && target < source + bytes;
  if (overlap)
    memset(target, 0xee, bytes);
  else
    memcpy(target, source, bytes);
  return SUCCESS;
}
/* Between any memory of the device and the host's that is pinned. */
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  char *target = behind(to, bytes);
  const char *source = behind(from, bytes);
  if (target == NULL || source == NULL || depth == 0) return INVALID_VALUE;
  memcpy(target, source, bytes);
  return SUCCESS;
}
int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream) {
  char *there = behind(to, 4 * count);
  if (there == NULL || depth == 0) return INVALID_VALUE;
  for (size_t i = 0; i < count; i++) memcpy(there + 4 * i, &value, 4);
  return SUCCESS;
}

/* ---- kernels: those of tests/unit/devices/test_device_conformance.c and test_cuda_driver.c ----------------------- */

typedef void kernel(int64_t thread, void **parameters);

static int64_t *array(void *parameter) {
  uint64_t address;
  memcpy(&address, parameter, sizeof address);
  return (int64_t *)(void *)behind(address, 8);
}
static int64_t number(void *parameter) {
  int64_t value;
  memcpy(&value, parameter, sizeof value);
  return value;
}
static void mix_of(int64_t i, void **p) {
  if (i >= number(p[3])) return;
  uint64_t status;
  memcpy(&status, p[4], sizeof status);
  int32_t *result = (int32_t *)(void *)behind(status, 4);
  if (array(p[0])[i] == -1 && *result == 0) *result = 3;
  if (array(p[0])[i] != -1) array(p[2])[i] = 3 * array(p[0])[i] + array(p[1])[i];
}
static void turn_in(int64_t i, void **p) {
  if (i < number(p[3])) array(p[2])[i] = array(p[0])[i];
}
static void turn_out(int64_t i, void **p) {
  if (i < number(p[3])) array(p[1])[i] = array(p[2])[number(p[3]) - 1 - i];
}
static void count_on(int64_t i, void **p) {
  uint64_t *y = (uint64_t *)(void *)array(p[0]);
  y[0] = 3 * y[0] + (uint64_t)number(p[1]);
}
static const struct known {
  const char *name;
  kernel *run;
} known[] = {{"mix_of", mix_of}, {"turn_in", turn_in}, {"turn_out", turn_out}, {"count_on", count_on}};

typedef struct module {
  char *image;
  size_t size;
} module;

int cuModuleLoadDataEx(void **out, const void *image, unsigned count, int *options, void **values) {
  Elf64_Ehdr head;
  size_t size = 0;
  if (depth == 0) return INVALID_CONTEXT;
  memcpy(&head, image, 4);
  if (memcmp(&head, ELFMAG, 4) == 0) {
    memcpy(&head, image, sizeof head);
    size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
  } else if (strstr(image, ".target sm_") != NULL) {
    size = strlen(image); /* PTX */
  } else {
    return INVALID_IMAGE;
  }
  module *m = malloc(sizeof *m);
  if (m == NULL) return OUT_OF_MEMORY;
  m->image = malloc(size);
  m->size = size;
  if (m->image == NULL) {
    free(m);
    return OUT_OF_MEMORY;
  }
  memcpy(m->image, image, size);
  *out = m;
  return SUCCESS;
}
int cuModuleUnload(void *handle) {
  module *m = handle;
  free(m->image);
  free(m);
  return need_context();
}
int cuModuleGetFunction(void **function, void *handle, const char *name) {
  const module *m = handle;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(known[i].name, name) == 0 && memmem(m->image, m->size, name, strlen(name)) != NULL) {
      *function = (void *)(uintptr_t)&known[i];
      return need_context();
    }
  return NOT_FOUND;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
  *value = attribute == 0 ? 512 : 0; /* fewer threads than the device has, as of a kernel with many registers */
  return SUCCESS;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  const struct known *k = function;
  if (depth == 0) return INVALID_CONTEXT;
  if (x == 0 || y != 1 || z != 1 || block_y != 1 || block_z != 1) return INVALID_VALUE;
  for (int64_t i = 0; i < (int64_t)x * block_x; i++) k->run(i, parameters);
  return SUCCESS;
}
