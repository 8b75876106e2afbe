/* What every device must do, whatever it is: the suite that drivers (runtime/device.h) are held to. It runs on the CPU,
 * on islands, on every device of OpenCL and of NVIDIA that this machine has, in each of their memories, and, as far as
 * nothing is computed, on the null device. The same three kernels are written in C for devices that are the CPU, in
 * OpenCL C and in CUDA C. */
#include <pthread.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "runtime/island/island.h"
#include "runtime/queue/queue.h"
#include "unit/devices.h"
#include "unit/failing_allocator.h"
#include "unit/null_device.h"
#include "unit/source_maker.h"
#include "unit/trampoline.h"

enum { MIX, TURN, COUNT, KERNELS };
enum { N = 1003, BLOCK = 16 };

/* ---- the kernels, in C ------------------------------------------------------------------------------------------- */

/* z[i] = 3 x[i] + y[i]; TN_KERNEL_BAD_VALUE where an x is -1. Scalars: n and how many blocks that is. */
static int32_t mix(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const int64_t *x = buffers[0], *y = buffers[1];
  int64_t *z = buffers[2];
  for (int64_t i = 0; i < scalars[0]; i++) {
    if (x[i] == -1) return TN_KERNEL_BAD_VALUE;
    z[i] = 3 * x[i] + y[i];
  }
  return TN_KERNEL_OK;
}

/* y = x from its end, through the workspace. */
static int32_t turn(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const int64_t *x = buffers[0];
  int64_t *y = buffers[1], *w = buffers[2], n = scalars[0];
  for (int64_t i = 0; i < n; i++) w[i] = x[i];
  for (int64_t i = 0; i < n; i++) y[i] = w[n - 1 - i];
  return TN_KERNEL_OK;
}

/* y[0] = 3 y[0] + scalar: what comes out depends on the order. */
static int32_t count(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  uint64_t *y = buffers[0];
  y[0] = 3 * y[0] + (uint64_t)scalars[0];
  return TN_KERNEL_OK;
}

/* ---- and in OpenCL C --------------------------------------------------------------------------------------------- */

#define BUFFER(name) "__global uchar *" name "_memory, long " name "_at"
#define AT(name) "__global long *" name " = (__global long *)(" name "_memory + " name "_at);\n"
#define RESULT "__global int *tn_status"
static const char text[] =
    "__kernel void mix_of(" BUFFER("x") ", " BUFFER("y") ", " BUFFER("z") ", long n, " RESULT ") {\n"
    AT("x") AT("y") AT("z")
    "  long i = get_global_id(0);\n"
    "  if (i >= n) return;\n"
    "  if (x[i] == -1) { atomic_cmpxchg((volatile __global int *)tn_status, 0, 3); return; }\n"
    "  z[i] = 3 * x[i] + y[i];\n"
    "}\n"
    "__kernel void turn_in(" BUFFER("x") ", " BUFFER("y") ", " BUFFER("w") ", long n, " RESULT ") {\n"
    AT("x") AT("w")
    "  long i = get_global_id(0);\n"
    "  if (i < n) w[i] = x[i];\n"
    "}\n"
    "__kernel void turn_out(" BUFFER("x") ", " BUFFER("y") ", " BUFFER("w") ", long n, " RESULT ") {\n"
    AT("y") AT("w")
    "  long i = get_global_id(0);\n"
    "  if (i < n) y[i] = w[n - 1 - i];\n"
    "}\n"
    "__kernel void count_on(" BUFFER("y") ", long k, " RESULT ") {\n"
    AT("y")
    "  y[0] = 3 * y[0] + k;\n"
    "}\n";

/* ---- and in CUDA C ----------------------------------------------------------------------------------------------- */

static const char cuda_text[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "KERNEL mix_of(long long *x, long long *y, long long *z, long long n, int *tn_status) {\n"
    "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  if (x[i] == -1) { atomicCAS(tn_status, 0, 3); return; }\n"
    "  z[i] = 3 * x[i] + y[i];\n"
    "}\n"
    "KERNEL turn_in(long long *x, long long *y, long long *w, long long n, int *tn_status) {\n"
    "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) w[i] = x[i];\n"
    "}\n"
    "KERNEL turn_out(long long *x, long long *y, long long *w, long long n, int *tn_status) {\n"
    "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = w[n - 1 - i];\n"
    "}\n"
    "KERNEL count_on(long long *y, long long k, int *tn_status) { y[0] = 3 * y[0] + k; }\n";

#define OVER_N .block = {BLOCK}, .grid = {{.symbolic = 1, .value = 1}}
static const made_kernel source_kernels[KERNELS] = {
    [MIX] = {.buffers = 3, .text_scalars = 1, .scalars = 2, .launches = {{.name = "mix_of", OVER_N}}},
    [TURN] = {.buffers = 2,
              .workspace = 1,
              .text_scalars = 1,
              .scalars = 2,
              .launches = {{.name = "turn_in", OVER_N}, {.name = "turn_out", OVER_N}}},
    [COUNT] = {.buffers = 1, .text_scalars = 1, .scalars = 1, .launches = {{.name = "count_on"}}},
};

/* ---- the devices ------------------------------------------------------------------------------------------------- */

typedef struct subject {
  const tn__device_driver *driver;
  int id;
  const void *code;
  size_t code_size;
  uint64_t offsets[KERNELS];
  tn__memory_scope scope; /* whose memory it is about */
  bool in_our_memory;     /* what close cannot release */
  bool computes;
} subject;

enum { MOST_SUBJECTS = 32 };
static subject subjects[MOST_SUBJECTS];
static int subject_count;
static test_exe native;
static made_unit source, cuda_source;

static void add_native(const tn__device_driver *driver, int id) {
  subject *s = &subjects[subject_count++];
  *s = (subject){.driver = driver, .id = id, .code = native.image, .code_size = sizeof native.image};
  s->in_our_memory = driver->inline_host;
  s->computes = true;
  for (int k = 0; k < KERNELS; k++) s->offsets[k] = (uint64_t)k * TRAMPOLINE_SIZE;
}

static void add_compiled(DLDeviceType type, const char *name, const made_unit *unit) {
  const tn__device_driver *driver;
  int found = plugin_devices(type, name, &driver);
  for (int id = 0; id < found && subject_count < MOST_SUBJECTS; id++) {
    subject *s = &subjects[subject_count++];
    *s = (subject){.driver = driver, .id = id, .code = unit->bytes, .code_size = unit->size, .computes = true};
    memcpy(s->offsets, unit->offsets, sizeof s->offsets);
  }
}

/* The same of each other memory that a device has. */
static void add_memories(void) {
  for (int i = 0, count = subject_count; i < count; i++)
    for (int scope = 1; scope < TN__MEMORY_SCOPES && subject_count < MOST_SUBJECTS; scope++)
      if (tn__device_has_scope(subjects[i].driver, (tn__memory_scope)scope)) {
        subjects[subject_count] = subjects[i];
        subjects[subject_count++].scope = (tn__memory_scope)scope;
      }
}

static int find_subjects(void **state) {
  test_exe_init(&native, "native");
  test_exe_kernel(&native, "mix", mix, 3, 2);
  test_exe_kernel(&native, "turn", turn, 3, 2);
  test_exe_kernel(&native, "count", count, 1, 1);
  add_native(&tn__device_cpu, 0);
  add_native(&tn__device_island, 3);
  add_native(&tn__device_island_concurrent, 0);
  source = make_unit(TN__SOURCE_OPENCL, text, source_kernels, KERNELS);
  cuda_source = make_unit(TN__SOURCE_CUDA, cuda_text, source_kernels, KERNELS);
  *state = test_cache_folder();
  static tn__device_driver null;
  null = null_driver(kDLExtDev);
  add_native(&null, 1);
  subjects[subject_count - 1].computes = false;
  subjects[subject_count - 1].in_our_memory = true;
  add_compiled(kDLOpenCL, "opencl", &source);
  add_compiled(kDLCUDA, "cuda", &cuda_source);
  add_memories();
  return 0;
}

static int forget_subjects(void **state) {
  test_exe_release(&native);
  free(source.bytes);
  free(cuda_source.bytes);
  remove_folder(*state);
  return 0;
}

/* ---- an open device with the code, and a stream ------------------------------------------------------------------ */

typedef struct open_device {
  const subject *of;
  const tn__device_driver *driver;
  tn__device device;
  tn__stream stream;
  tn__device_code code;
  tn_kernel_env env;
} open_device;

static int32_t alone(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t pieces) {
  return task(env, closure, 0, pieces);
}

static tn_status *try_open(open_device *d, const subject *s, const tn_allocator *allocator) {
  *d = (open_device){.of = s, .driver = s->driver};
  d->env = (tn_kernel_env){
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof d->env, .parallel_for = alone, .thread_count = 1};
  d->device = (tn__device){.driver = s->driver, .allocator = allocator, .id = s->id};
  TN_RETURN_IF_ERROR(s->driver->open(&d->device));
  d->stream = (tn__stream){.device = &d->device, .allocator = allocator};
  tn_status *status = s->driver->load_code(&d->device, s->code, s->code_size, false, &d->code);
  if (status == NULL) {
    status = s->driver->open_stream(&d->stream);
    if (status != NULL) s->driver->unload_code(&d->device, &d->code);
  }
  if (status != NULL) s->driver->close(&d->device);
  if (status == NULL) d->device.scope = s->scope;
  return status;
}

static void begin(open_device *d, const subject *s) { check_ok(try_open(d, s, NULL)); }

static void end(open_device *d) {
  d->driver->close_stream(&d->stream);
  d->device.scope = TN__MEMORY_GLOBAL;
  d->driver->unload_code(&d->device, &d->code);
  d->driver->close(&d->device);
}

static void *get(open_device *d, size_t bytes) {
  void *memory;
  check_ok(d->driver->allocate(&d->device, bytes, &memory));
  assert_non_null(memory);
  return memory;
}

static void put_back(open_device *d, void *memory, size_t bytes) { d->driver->free(&d->device, memory, bytes); }
static void in(open_device *d, void *to, const void *from, size_t bytes) {
  check_ok(d->driver->copy(&d->stream, TN__COPY_IN, to, from, bytes));
}
static void out(open_device *d, void *to, const void *from, size_t bytes) {
  check_ok(d->driver->copy(&d->stream, TN__COPY_OUT, to, from, bytes));
}
static char *part(open_device *d, void *memory, size_t offset) { return d->driver->view(&d->device, memory, offset); }

/* The lists are gone when it returns. */
static tn__device_launch launch_of(open_device *d, int kernel, void *const *buffers, uint32_t buffer_count,
                                   const int64_t *scalars, uint32_t scalar_count) {
  return (tn__device_launch){.code = &d->code,
                             .offset = d->of->offsets[kernel],
                             .env = &d->env,
                             .buffers = buffers,
                             .scalars = scalars,
                             .buffer_count = buffer_count,
                             .scalar_count = scalar_count};
}

static tn_status *try_launch(open_device *d, int kernel, void *a, void *b, void *c, int64_t n) {
  void *buffers[] = {a, b, c};
  int64_t scalars[] = {n, (n + BLOCK - 1) / BLOCK};
  tn__device_launch l = launch_of(d, kernel, buffers, kernel == COUNT ? 1 : 3, scalars, kernel == COUNT ? 1 : 2);
  tn_status *status = d->driver->launch(&d->stream, &l);
  memset(buffers, 0, sizeof buffers);
  memset(scalars, 0, sizeof scalars);
  return status;
}

static void launch(open_device *d, int kernel, void *a, void *b, void *c, int64_t n) {
  check_ok(try_launch(d, kernel, a, b, c, n));
}

static int32_t result_of(open_device *d) {
  int32_t result = -1;
  check_ok(d->driver->wait(&d->stream, &result));
  return result;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void fill(unsigned char *bytes, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)((i * 31 + seed) ^ (i >> 7));
}

static void check_addresses(const subject *s) {
  enum { COUNT_OF = 20 };
  char *memory[COUNT_OF];
  size_t sizes[COUNT_OF];
  open_device d;
  tn__device_limits limits;
  begin(&d, s);
  d.driver->limits(&d.device, &limits);
  assert_true(limits.alignment >= TN_KERNEL_ALIGNMENT && limits.threads_of_block >= 1);
  for (int i = 0; i < COUNT_OF; i++) {
    sizes[i] = 1 + (size_t)i * i * 37;
    memory[i] = get(&d, sizes[i]);
    assert_int_equal((uintptr_t)memory[i] % limits.alignment, 0);
    assert_ptr_equal(part(&d, memory[i], 0), memory[i]);
    for (int k = 0; k < i; k++) /* an address belongs to one of them, whatever its offset */
      assert_true(memory[i] + sizes[i] <= memory[k] || memory[k] + sizes[k] <= memory[i]);
  }
  for (int i = 0; i < COUNT_OF; i++) put_back(&d, memory[i], sizes[i]);
  put_back(&d, NULL, 0);
  end(&d);
}

static void check_memory(const subject *s) {
  static const size_t sizes[] = {1, 3, 64, 4096, 100003, 1};
  enum { SIZES = sizeof sizes / sizeof sizes[0], LARGEST = 100003 };
  static unsigned char given[SIZES][LARGEST], got[LARGEST];
  open_device d;
  void *memory[SIZES];
  begin(&d, s);
  for (int i = 0; i < SIZES; i++) {
    memory[i] = get(&d, sizes[i]);
    fill(given[i], sizes[i], (unsigned)i);
    in(&d, memory[i], given[i], sizes[i]);
  }
  for (int i = 0; i < SIZES; i++) { /* nothing overlaps */
    out(&d, got, memory[i], sizes[i]);
    assert_memory_equal(got, given[i], sizes[i]);
  }
  /* Parts, at any offset and of any size. */
  for (size_t offset = 0; offset < 200; offset += 7)
    for (size_t bytes = 0; bytes < 100; bytes += 9) {
      in(&d, part(&d, memory[4], offset), given[3] + bytes, bytes);
      memcpy(given[4] + offset, given[3] + bytes, bytes);
      memset(got, 0x5a, bytes + 1);
      out(&d, got, part(&d, memory[4], offset), bytes);
      assert_memory_equal(got, given[4] + offset, bytes);
      assert_int_equal(got[bytes], 0x5a);
    }
  out(&d, got, memory[4], LARGEST);
  assert_memory_equal(got, given[4], LARGEST);
  for (int i = 0; i < SIZES; i++) put_back(&d, memory[i], sizes[i]);
  end(&d);
}

static void check_copies_within(const subject *s) {
  enum { BYTES = 10007 };
  static unsigned char host[2][BYTES], got[BYTES];
  static const struct {
    size_t to, from, bytes;
  } moves[] = {{5000, 1, 4001}, {3, 9, 6000}, {9, 3, 6000}, {17, 17, 100}, {1, 0, BYTES - 1}, {0, 1, BYTES - 1}};
  open_device d;
  void *memory[2];
  begin(&d, s);
  for (int i = 0; i < 2; i++) {
    memory[i] = get(&d, BYTES);
    fill(host[i], BYTES, (unsigned)(40 + i));
    in(&d, memory[i], host[i], BYTES);
  }
  for (size_t m = 0; m < sizeof moves / sizeof moves[0]; m++) /* within one allocation, as memmove does */
    for (int i = 0; i < 2; i++) {
      check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, part(&d, memory[i], moves[m].to),
                              part(&d, memory[i], moves[m].from), moves[m].bytes));
      memmove(host[i] + moves[m].to, host[i] + moves[m].from, moves[m].bytes);
      out(&d, got, memory[i], BYTES);
      assert_memory_equal(got, host[i], BYTES);
    }
  check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, part(&d, memory[1], 11), part(&d, memory[0], 5), 7001));
  memcpy(host[1] + 11, host[0] + 5, 7001);
  out(&d, got, memory[1], BYTES);
  assert_memory_equal(got, host[1], BYTES);
  for (int i = 0; i < 2; i++) put_back(&d, memory[i], BYTES);
  end(&d);
}

static void *get_in(open_device *d, tn__memory_scope scope) {
  d->device.scope = scope;
  return get(d, N * sizeof(int64_t));
}

/* Kernels and copies that have to do with two memories of the device. */
static void check_between(const subject *s) {
  static int64_t x[N], y[N], z[N];
  open_device d;
  if (s->scope == TN__MEMORY_GLOBAL) return;
  begin(&d, s);
  void *there = get_in(&d, s->scope), *here = get_in(&d, TN__MEMORY_GLOBAL), *also_there = get_in(&d, s->scope);
  for (int i = 0; i < N; i++) x[i] = 5 * i - 7, y[i] = i ^ 99;
  in(&d, there, x, sizeof x);
  in(&d, here, y, sizeof y);
  launch(&d, MIX, there, here, also_there, N);
  out(&d, z, also_there, sizeof z);
  for (int i = 0; i < N; i++) assert_int_equal(z[i], 3 * x[i] + y[i]);
  launch(&d, MIX, also_there, there, here, N);
  check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, part(&d, there, 8), part(&d, here, 16), sizeof x - 16));
  check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, part(&d, also_there, 0), part(&d, there, 8), sizeof x - 16));
  check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, part(&d, here, 8), part(&d, also_there, 8), sizeof x - 24));
  out(&d, y, here, sizeof y);
  assert_int_equal(y[0], 3 * z[0] + x[0]);
  for (int i = 1; i < N - 2; i++) assert_int_equal(y[i], 3 * z[i + 2] + x[i + 2]);
  d.device.scope = s->scope;
  put_back(&d, there, sizeof x);
  put_back(&d, also_there, sizeof x);
  d.device.scope = TN__MEMORY_GLOBAL;
  put_back(&d, here, sizeof x);
  end(&d);
}

/* Memory of the host's that nobody may write, read where it is. */
static void check_borrowed(const subject *s) {
  static int64_t got[N];
  open_device d;
  void *memory;
  if (s->driver->borrow == NULL) return;
  begin(&d, s);
  int64_t *host = mmap(NULL, sizeof got, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(host != MAP_FAILED);
  for (int i = 0; i < N; i++) host[i] = 7 * i;
  assert_int_equal(mprotect(host, sizeof got, PROT_READ), 0);
  check_ok(s->driver->borrow(&d.device, host, sizeof got, &memory));
  if (memory != NULL) {
    void *a = get(&d, sizeof got), *again;
    for (int i = 0; i < 3; i++) {
      launch(&d, MIX, memory, memory, a, N);
      assert_int_equal(result_of(&d), TN_KERNEL_OK);
      out(&d, got, a, sizeof got);
      for (int k = 0; k < N; k++) assert_int_equal(got[k], 28 * k);
    }
    launch(&d, MIX, part(&d, memory, 80), memory, a, 100);
    assert_int_equal(result_of(&d), TN_KERNEL_OK);
    out(&d, got, a, 800);
    for (int k = 0; k < 100; k++) assert_int_equal(got[k], 7 * (3 * (k + 10) + k));
    check_ok(d.driver->copy(&d.stream, TN__COPY_WITHIN, a, memory, sizeof got));
    out(&d, got, part(&d, memory, 8), sizeof got - 8);
    for (int k = 1; k < N; k++) assert_int_equal(got[k - 1], 7 * k);
    check_ok(s->driver->borrow(&d.device, host + 8, 64, &again)); /* it is one block, or none */
    assert_null(again);
    put_back(&d, a, sizeof got);
    put_back(&d, memory, sizeof got);
    check_ok(s->driver->borrow(&d.device, host + 8, 64, &again));
    assert_non_null(again);
    put_back(&d, again, 64);
  }
  end(&d);
  munmap(host, sizeof got);
}

/* Many allocations that come and go in no order. */
static void check_reuse(const subject *s) {
  enum { PLACES = 37, ROUNDS = 400 };
  open_device d;
  void *memory[PLACES] = {0};
  size_t sizes[PLACES] = {0};
  uint64_t random = 7;
  begin(&d, s);
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    int p = (int)(random >> 33) % PLACES;
    int64_t word = i, got;
    put_back(&d, memory[p], sizes[p]);
    sizes[p] = 8 + (size_t)(random >> 50);
    memory[p] = get(&d, sizes[p]);
    in(&d, memory[p], &word, sizeof word);
    out(&d, &got, memory[p], sizeof got);
    assert_int_equal(got, word);
  }
  for (int p = 0; p < PLACES; p++) put_back(&d, memory[p], sizes[p]);
  end(&d);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void check_kernels(const subject *s) {
  static int64_t x[N], y[N], got[N];
  const size_t bytes = sizeof x;
  open_device d;
  begin(&d, s);
  for (int i = 0; i < N; i++) x[i] = i * 5 + 1, y[i] = 1000 - i;
  void *a = get(&d, 3 * bytes), *w = get(&d, bytes);
  void *b = part(&d, a, bytes), *c = part(&d, a, 2 * bytes); /* arguments are parts of an allocation */
  in(&d, a, x, bytes);
  in(&d, b, y, bytes);
  launch(&d, MIX, a, b, c, N);
  launch(&d, MIX, c, a, b, N); /* reads what that wrote */
  launch(&d, TURN, b, c, w, N);
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  out(&d, got, c, bytes);
  for (int i = 0; i < N; i++) {
    int k = N - 1 - i;
    assert_int_equal(got[i], 3 * (3 * x[k] + y[k]) + x[k]);
  }
  launch(&d, MIX, a, b, c, 0); /* nothing to do */
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  /* In the order of the calls, with copies between. */
  uint64_t expected = 1;
  in(&d, w, &expected, sizeof expected);
  for (int i = 0; i < 200; i++) {
    launch(&d, COUNT, w, NULL, NULL, i);
    expected = 3 * expected + (uint64_t)i;
    if (i % 50 != 49) continue;
    uint64_t seen;
    out(&d, &seen, w, sizeof seen); /* returns behind what was launched */
    assert_true(seen == expected);
  }
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  put_back(&d, a, 3 * bytes);
  put_back(&d, w, bytes);
  end(&d);
}

static void check_results(const subject *s) {
  static int64_t x[N], got[N];
  open_device d;
  begin(&d, s);
  void *a = get(&d, sizeof x), *b = get(&d, sizeof x), *c = get(&d, sizeof x);
  for (int i = 0; i < N; i++) x[i] = i;
  in(&d, b, x, sizeof x);
  x[N / 2] = -1;
  in(&d, a, x, sizeof x);
  assert_int_equal(result_of(&d), TN_KERNEL_OK); /* nothing was launched */
  launch(&d, MIX, a, b, c, N);
  for (int i = 0; i < 5; i++) launch(&d, MIX, b, b, c, N); /* behind it, and harmless */
  assert_int_equal(result_of(&d), TN_KERNEL_BAD_VALUE);
  assert_int_equal(result_of(&d), TN_KERNEL_OK); /* it is told once */
  launch(&d, MIX, b, b, c, N);
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  out(&d, got, c, sizeof got);
  for (int i = 0; i < N; i++) assert_int_equal(got[i], 4 * i);
  put_back(&d, a, sizeof x);
  put_back(&d, b, sizeof x);
  put_back(&d, c, sizeof x);
  end(&d);
}

/* Two devices that are open share nothing, also with one number. */
static void check_two(const subject *s) {
  open_device d[2];
  void *memory[2];
  for (int i = 0; i < 2; i++) {
    begin(&d[i], s);
    memory[i] = get(&d[i], 8);
    in(&d[i], memory[i], &(int64_t){i}, 8);
  }
  for (int64_t k = 0; k < 10; k++)
    for (int i = 0; i < 2; i++) launch(&d[i], COUNT, memory[i], NULL, NULL, k + i);
  for (int i = 0; i < 2; i++) {
    int64_t expected = i, got;
    for (int64_t k = 0; k < 10; k++) expected = 3 * expected + k + i;
    assert_int_equal(result_of(&d[i]), TN_KERNEL_OK);
    out(&d[i], &got, memory[i], 8);
    assert_int_equal(got, expected);
    put_back(&d[i], memory[i], 8);
  }
  end(&d[1]);
  end(&d[0]);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

enum { STREAMS = 3, STEPS = 60 };

/* What a stream does in a thread of its own, on memory of its own. */
typedef struct streaming {
  open_device d; /* with a stream of its own */
  pthread_barrier_t *all;
  void *memory[3];
  uint64_t counted;
  int64_t got[N];
  bool good;
} streaming;

static tn_status *stream_steps(streaming *s, const int64_t *x) {
  int32_t result = TN_KERNEL_OK;
  uint64_t zero = 0;
  TN_RETURN_IF_ERROR(s->d.driver->copy(&s->d.stream, TN__COPY_IN, s->memory[0], x, N * sizeof *x));
  TN_RETURN_IF_ERROR(s->d.driver->copy(&s->d.stream, TN__COPY_IN, s->memory[1], &zero, sizeof zero));
  for (int i = 0; i < STEPS; i++) {
    TN_RETURN_IF_ERROR(try_launch(&s->d, MIX, s->memory[0], s->memory[0], s->memory[2], N));
    TN_RETURN_IF_ERROR(try_launch(&s->d, COUNT, s->memory[1], NULL, NULL, i));
    if (i % 7 == 0)
      TN_RETURN_IF_ERROR(s->d.driver->copy(&s->d.stream, TN__COPY_OUT, &s->counted, s->memory[1], sizeof s->counted));
    if (i % 11 == 0) TN_RETURN_IF_ERROR(s->d.driver->wait(&s->d.stream, &result));
    if (result != TN_KERNEL_OK) break;
  }
  TN_RETURN_IF_ERROR(s->d.driver->wait(&s->d.stream, &result));
  TN_RETURN_IF_ERROR(s->d.driver->copy(&s->d.stream, TN__COPY_OUT, &s->counted, s->memory[1], sizeof s->counted));
  TN_RETURN_IF_ERROR(s->d.driver->copy(&s->d.stream, TN__COPY_OUT, s->got, s->memory[2], sizeof s->got));
  s->good = result == TN_KERNEL_OK;
  return NULL;
}

static void *stream_in_thread(void *own) {
  streaming *s = own;
  int64_t x[N];
  for (int i = 0; i < N; i++) x[i] = i + (int64_t)(s->memory[0] != NULL);
  pthread_barrier_wait(s->all);
  tn_status *status = stream_steps(s, x);
  s->good = s->good && status == NULL;
  tn_status_free(status);
  return NULL;
}

/* Streams of one device work at the same time, with its code, while memory of it comes and goes. */
static void check_streams(const subject *s) {
  static streaming all[STREAMS];
  open_device d;
  pthread_t threads[STREAMS];
  pthread_barrier_t barrier;
  begin(&d, s);
  pthread_barrier_init(&barrier, NULL, STREAMS + 1);
  for (int i = 0; i < STREAMS; i++) {
    all[i] = (streaming){.d = d, .all = &barrier};
    all[i].d.stream = (tn__stream){.device = &d.device};
    check_ok(s->driver->open_stream(&all[i].d.stream));
    for (int k = 0; k < 3; k++) all[i].memory[k] = get(&d, N * sizeof(int64_t));
    assert_int_equal(pthread_create(&threads[i], NULL, stream_in_thread, &all[i]), 0);
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 50; i++) {
    void *memory = get(&d, 1000 + (size_t)i * 100);
    put_back(&d, memory, 1000 + (size_t)i * 100);
  }
  uint64_t expected = 0;
  for (int i = 0; i < STEPS; i++) expected = 3 * expected + (uint64_t)i;
  for (int i = 0; i < STREAMS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(all[i].good);
    assert_true(all[i].counted == expected);
    for (int k = 0; k < N; k++) assert_int_equal(all[i].got[k], 4 * (k + 1));
    s->driver->close_stream(&all[i].d.stream);
    for (int k = 0; k < 3; k++) put_back(&d, all[i].memory[k], N * sizeof(int64_t));
  }
  pthread_barrier_destroy(&barrier);
  end(&d);
}

/* What one stream has waited for, the other finds in the device's memory; and it is told of its own kernels alone. */
static void check_two_streams(const subject *s) {
  static int64_t x[N], got[N];
  open_device d, second;
  begin(&d, s);
  second = d;
  second.stream = (tn__stream){.device = &d.device};
  check_ok(s->driver->open_stream(&second.stream));
  void *a = get(&d, sizeof x), *b = get(&second, sizeof x), *c = get(&d, sizeof x);
  for (int i = 0; i < N; i++) x[i] = i;
  in(&d, a, x, sizeof x);
  launch(&second, MIX, a, a, b, N);
  assert_int_equal(result_of(&second), TN_KERNEL_OK);
  launch(&d, MIX, b, a, c, N);
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  check_ok(s->driver->copy(&second.stream, TN__COPY_WITHIN, a, c, sizeof x));
  out(&d, got, a, sizeof x);
  for (int i = 0; i < N; i++) assert_int_equal(got[i], 13 * i);
  x[3] = -1;
  in(&d, a, x, sizeof x);
  launch(&d, MIX, a, a, c, N);
  launch(&second, MIX, b, b, c, N);
  assert_int_equal(result_of(&second), TN_KERNEL_OK);
  assert_int_equal(result_of(&d), TN_KERNEL_BAD_VALUE);
  s->driver->close_stream(&second.stream);
  launch(&d, MIX, b, b, c, N); /* one goes on when another is closed */
  assert_int_equal(result_of(&d), TN_KERNEL_OK);
  put_back(&d, a, sizeof x);
  put_back(&d, b, sizeof x);
  put_back(&d, c, sizeof x);
  end(&d);
}

/* ---- limits and failures ----------------------------------------------------------------------------------------- */

static void check_limits(const subject *s) {
  open_device d;
  tn__device_limits limits;
  begin(&d, s);
  d.driver->limits(&d.device, &limits);
  void *memory = &limits;
  tn_status *status = d.driver->allocate(&d.device, limits.most_bytes + 1, &memory);
  assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
  assert_non_null(strstr(tn_status_message(status), "out of memory"));
  tn_status_free(status);
  memory = get(&d, 16); /* it goes on */
  put_back(&d, memory, 16);
  end(&d);
  if (s->driver == &tn__device_cpu) return; /* all numbers are this one */
  tn__device none = {.driver = s->driver, .id = 100000};
  status = s->driver->open(&none);
  assert_int_equal(tn_status_code_of(status), TN_NOT_FOUND);
  assert_non_null(strstr(tn_status_message(status), "100000"));
  tn_status_free(status);
}

/* Memory that nobody gave back goes with the device. */
static void check_left(const subject *s) {
  failing_allocator allocator;
  open_device d;
  failing_allocator_init(&allocator, -1);
  if (s->in_our_memory) return;
  check_ok(try_open(&d, s, &allocator.allocator));
  for (int i = 0; i < 40; i++) (void)get(&d, 1000);
  launch(&d, COUNT, get(&d, 8), NULL, NULL, 1); /* and with what was launched */
  end(&d);
  assert_int_equal(allocator.live_count, 0);
}

static tn_status *work(open_device *d) {
  int32_t result;
  int64_t one = 1;
  void *memory[20];
  size_t count = 0;
  tn_status *status = NULL;
  for (; count < 20 && status == NULL; count++) status = d->driver->allocate(&d->device, 8, &memory[count]);
  if (status != NULL) count--;
  if (status == NULL) status = d->driver->copy(&d->stream, TN__COPY_IN, memory[3], &one, 8);
  if (status == NULL) status = try_launch(d, COUNT, memory[3], NULL, NULL, 5);
  if (status == NULL) status = d->driver->wait(&d->stream, &result);
  while (count > 0) d->driver->free(&d->device, memory[--count], 8);
  return status;
}

/* Each allocation of the host's memory fails once. */
static void check_host_memory(const subject *s) {
  for (int at = 0;; at++) {
    failing_allocator allocator;
    open_device d;
    failing_allocator_init(&allocator, at);
    tn_status *status = try_open(&d, s, &allocator.allocator);
    if (status == NULL) {
      status = work(&d);
      end(&d);
    }
    assert_int_equal(allocator.live_count, 0);
    if (status == NULL) {
      assert_true(allocator.calls <= at); /* none failed any more */
      break;
    }
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
  }
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

/* A pipeline over two devices of the kind: the first's results are the second's operands, and events say when. */
static void check_queues(const subject *s) {
  enum { INPUTS = 12 };
  static int64_t x[INPUTS][N], y[INPUTS][N];
  open_device d[2];
  tn__stream *streams[2];
  void *memory[2][2];
  if (s->driver->inline_host) return; /* the host has no queue */
  for (int i = 0; i < 2; i++) {
    begin(&d[i], s);
    streams[i] = &d[i].stream;
    for (int k = 0; k < 2; k++) memory[i][k] = get(&d[i], sizeof x[0]);
  }
  tn__queues_options options = {.streams = streams, .device_count = 2, .slot_count = 2, .most_arguments = 8};
  tn__queues *queues;
  check_ok(tn__queues_create(&options, &queues));
  for (int i = 0; i < INPUTS; i++) {
    for (int k = 0; k < N; k++) x[i][k] = 100 * i + k;
    int64_t scalars[] = {N, (N + BLOCK - 1) / BLOCK};
    tn__queue_copy(queues, 0, memory[0][0], TN__QUEUE_HOST, x[i], sizeof x[0], 1);
    tn__queue_await(queues, 0, 1); /* the other has read what is to be overwritten */
    void *first[] = {memory[0][0], memory[0][0], memory[0][1]};
    tn__device_launch l = launch_of(&d[0], MIX, first, 3, scalars, 2);
    tn__queue_launch(queues, 0, &l, 2);
    tn__queue_record(queues, 0, 0);
    tn__queue_await(queues, 1, 0);
    tn__queue_copy(queues, 1, memory[1][0], 0, memory[0][1], sizeof x[0], 3);
    tn__queue_record(queues, 1, 1);
    void *second[] = {memory[1][0], memory[1][0], memory[1][1]};
    l = launch_of(&d[1], MIX, second, 3, scalars, 2);
    tn__queue_launch(queues, 1, &l, 4);
    tn__queue_copy(queues, TN__QUEUE_HOST, y[i], 1, memory[1][1], sizeof y[0], 5);
  }
  tn__queue_failure failure;
  assert_true(tn__queues_finish(queues, &failure));
  for (int i = 0; i < INPUTS; i++)
    for (int k = 0; k < N; k++) assert_int_equal(y[i][k], 16 * x[i][k]);
  /* A kernel that fails stops both. */
  x[0][5] = -1, y[0][0] = 77;
  tn__queue_copy(queues, 0, memory[0][0], TN__QUEUE_HOST, x[0], sizeof x[0], 6);
  void *buffers[] = {memory[0][0], memory[0][0], memory[0][1]};
  tn__device_launch l = launch_of(&d[0], MIX, buffers, 3, (int64_t[]){N, (N + BLOCK - 1) / BLOCK}, 2);
  tn__queue_launch(queues, 0, &l, 7);
  tn__queue_record(queues, 0, 0);
  tn__queue_await(queues, 1, 0);
  tn__queue_copy(queues, TN__QUEUE_HOST, y[0], 1, memory[1][1], sizeof y[0], 8);
  assert_false(tn__queues_finish(queues, &failure));
  assert_int_equal(failure.device, 0);
  assert_int_equal(failure.kernel, TN_KERNEL_BAD_VALUE);
  assert_int_equal(failure.label, 7);
  assert_null(failure.status);
  assert_int_equal(y[0][0], 77);
  tn__queues_release(queues);
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2; k++) put_back(&d[i], memory[i][k], sizeof x[0]);
    end(&d[i]);
  }
}

/* ---- the suite --------------------------------------------------------------------------------------------------- */

static void on_each(void (*check)(const subject *), bool computing) {
  for (int i = 0; i < subject_count; i++) {
    const subject *s = &subjects[i];
    if (computing && !s->computes) continue;
    print_message("  on %s:%d%s%s\n", s->driver->name, s->id, tn__memory_scope_behind(s->scope),
                  s->driver == &tn__device_island_concurrent ? ", not checked" : "");
    check(s);
  }
}

/* holds() knows single allocations, to the byte. */
static void check_holds(const subject *s) {
  enum { SIZES = 5 };
  static const size_t sizes[SIZES] = {1, 64, 1000, 4000, 5000};
  open_device d;
  char *memory[SIZES];
  begin(&d, s);
  for (int i = 0; i < SIZES; i++) memory[i] = get(&d, sizes[i]);
  for (int i = 0; i < SIZES && d.driver->holds != NULL && !s->driver->inline_host; i++) {
    assert_true(d.driver->holds(&d.device, memory[i], sizes[i]));
    assert_true(d.driver->holds(&d.device, memory[i] + sizes[i] - 1, 1));
    assert_false(d.driver->holds(&d.device, memory[i], sizes[i] + 1));
    assert_false(d.driver->holds(&d.device, memory[i] + 1, sizes[i]));
    assert_false(d.driver->holds(&d.device, memory[i] + sizes[i], 1));
    assert_false(d.driver->holds(&d.device, memory[i], SIZE_MAX));
    assert_false(d.driver->holds(&d.device, &d, 1));
  }
  for (int i = 0; i < SIZES; i++) {
    put_back(&d, memory[i], sizes[i]);
    if (d.driver->holds != NULL) assert_false(d.driver->holds(&d.device, memory[i], 1));
  }
  end(&d);
}

static void test_addresses(void **state) { on_each(check_addresses, false); }
static void test_memory(void **state) { on_each(check_memory, true); }
static void test_copies_within(void **state) { on_each(check_copies_within, true); }
static void test_between(void **state) { on_each(check_between, true); }
static void test_borrowed(void **state) { on_each(check_borrowed, true); }
static void test_reuse(void **state) { on_each(check_reuse, true); }
static void test_kernels(void **state) { on_each(check_kernels, true); }
static void test_results(void **state) { on_each(check_results, true); }
static void test_two(void **state) { on_each(check_two, true); }
static void test_streams(void **state) { on_each(check_streams, true); }
static void test_two_streams(void **state) { on_each(check_two_streams, true); }
static void test_limits(void **state) { on_each(check_limits, false); }
static void test_left(void **state) { on_each(check_left, false); }
static void test_host_memory(void **state) { on_each(check_host_memory, false); }
static void test_holds(void **state) { on_each(check_holds, false); }
static void test_queues(void **state) { on_each(check_queues, true); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_addresses),   cmocka_unit_test(test_memory),      cmocka_unit_test(test_copies_within),
      cmocka_unit_test(test_reuse),       cmocka_unit_test(test_kernels),     cmocka_unit_test(test_results),
      cmocka_unit_test(test_two),         cmocka_unit_test(test_limits),      cmocka_unit_test(test_left),
      cmocka_unit_test(test_host_memory), cmocka_unit_test(test_queues),      cmocka_unit_test(test_borrowed),
      cmocka_unit_test(test_streams),     cmocka_unit_test(test_two_streams), cmocka_unit_test(test_between),
      cmocka_unit_test(test_holds),
  };
  return cmocka_run_group_tests_name("device conformance", tests, find_subjects, forget_subjects);
}
