/* Device drivers: what every table promises, held against the CPU's, the islands' and one made here, whose memory the
 * host cannot touch outside of the table's functions, and whose kernels run when they are waited for. */
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/island/island.h"
#include "target/text/text.h"
#include "unit/kernel.h"

/* ---- a device with memory of its own ----------------------------------------------------------------------------- */

/* Its memory is one mapping without access, which `copy` and kernels open while they work. Kernels run when they are
 * waited for. */
enum { APART_BYTES = 1 << 20, MOST_LAUNCHES = 16, MOST_ARGUMENTS = 8 };

typedef struct queued {
  tn_kernel kernel;
  const tn_kernel_env *env;
  void *buffers[MOST_ARGUMENTS];
  int64_t scalars[MOST_ARGUMENTS];
} queued;

typedef struct apart {
  char *memory;
  size_t used;
  queued queue[MOST_LAUNCHES];
  int count;
} apart;

static void touchable(apart *a, bool yes) {
  assert_int_equal(mprotect(a->memory, APART_BYTES, yes ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}

static tn_status *apart_open(tn__device *device) {
  apart *a = calloc(1, sizeof(*a));
  a->memory = mmap(NULL, APART_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  device->state = a;
  return a->memory == MAP_FAILED ? tn_status_create(TN_OUT_OF_MEMORY, "no memory apart") : NULL;
}

static void apart_close(tn__device *device) {
  apart *a = device->state;
  munmap(a->memory, APART_BYTES);
  free(a);
}

static void apart_limits(const tn__device *device, tn__device_limits *out) {
  *out = (tn__device_limits){
      .alignment = TN_KERNEL_ALIGNMENT, .most_bytes = APART_BYTES, .memory_bytes = APART_BYTES, .threads_of_block = 1};
}

static tn_status *apart_allocate(tn__device *device, size_t bytes, void **out) {
  apart *a = device->state;
  if (bytes > APART_BYTES - a->used)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of the device's memory: %zu bytes", bytes);
  *out = a->memory + a->used;
  a->used += (bytes + TN_KERNEL_ALIGNMENT - 1) / TN_KERNEL_ALIGNMENT * TN_KERNEL_ALIGNMENT;
  return NULL;
}

static void apart_free(tn__device *device, void *memory, size_t bytes) {}

static void *apart_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

/* What was launched, in order. */
static int32_t run_queue(apart *a) {
  int32_t result = TN_KERNEL_OK;
  touchable(a, true);
  for (int i = 0; i < a->count && result == TN_KERNEL_OK; i++)
    result = a->queue[i].kernel(a->queue[i].env, a->queue[i].buffers, a->queue[i].scalars);
  touchable(a, false);
  a->count = 0;
  return result;
}

/* All streams of it are one. */
static tn_status *apart_open_stream(tn__stream *stream) { return NULL; }
static void apart_close_stream(tn__stream *stream) {}

static tn_status *apart_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  apart *a = stream->device->state;
  int32_t result = run_queue(a);
  if (result != TN_KERNEL_OK) return tn_status_create(TN_INTERNAL, "a kernel failed with %d", result);
  touchable(a, true);
  memmove(to, from, bytes);
  touchable(a, false);
  return NULL;
}

static tn_status *apart_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                  tn__device_code *out) {
  return tn__device_cpu.load_code(device, bytes, size, false, out);
}

static void apart_unload_code(tn__device *device, tn__device_code *code) { tn__device_cpu.unload_code(device, code); }

static tn_status *apart_launch(tn__stream *stream, const tn__device_launch *launch) {
  apart *a = stream->device->state;
  assert_true(a->count < MOST_LAUNCHES && launch->buffer_count <= MOST_ARGUMENTS &&
              launch->scalar_count <= MOST_ARGUMENTS);
  queued *q = &a->queue[a->count++];
  const char *entry = (const char *)launch->code->base + launch->offset;
  memcpy(&q->kernel, &entry, sizeof(entry));
  q->env = launch->env;
  for (uint32_t i = 0; i < launch->buffer_count; i++) q->buffers[i] = launch->buffers[i];
  for (uint32_t i = 0; i < launch->scalar_count; i++) q->scalars[i] = launch->scalars[i];
  return NULL;
}

static tn_status *apart_wait(tn__stream *stream, int32_t *result) {
  *result = run_queue(stream->device->state);
  return NULL;
}

static const tn__device_driver apart_driver = {.name = "apart",
                                               .type = kDLOpenCL,
                                               .open = apart_open,
                                               .close = apart_close,
                                               .limits = apart_limits,
                                               .allocate = apart_allocate,
                                               .free = apart_free,
                                               .view = apart_view,
                                               .load_code = apart_load_code,
                                               .unload_code = apart_unload_code,
                                               .open_stream = apart_open_stream,
                                               .close_stream = apart_close_stream,
                                               .copy = apart_copy,
                                               .launch = apart_launch,
                                               .wait = apart_wait};

/* ---- what every table promises ----------------------------------------------------------------------------------- */

/* y[i] = x[i] * 2 + i, and a failure when x[0] is 9. */
static const char doubling[] =
    "func doubling[n](x: i64[n]) -> (y: i64[n]) {\n"
    "  if x[0] == 9 { fail 3 }\n"
    "  for i in [0, +n) { y[i] = x[i]*2 + i }\n"
    "}\n";

static tn__image compile_doubling(kernel_test *t) {
  tn__func *func;
  check_ok(tn__func_parse(t->ir, "doubling", doubling, strlen(doubling), &func));
  tn__code object =
      kernel_code(&t->arena, t->ir, tn__ir_lower_for_codegen(t->ir, func, NULL), &t->target, TN__EMIT_OBJECT);
  return tn__cg_link_image(&t->arena, &object, 1);
}

static void check_driver(const tn__device_driver *driver, const tn__image *image) {
  enum { N = 100 };
  tn__device device = {.driver = driver};
  tn__stream stream = {.device = &device};
  check_ok(driver->open(&device));
  check_ok(driver->open_stream(&stream));
  tn__device_limits limits;
  driver->limits(&device, &limits);
  assert_true(limits.alignment >= TN_KERNEL_ALIGNMENT && limits.most_bytes >= 3 * N * sizeof(int64_t));
  tn__device_code code;
  check_ok(driver->load_code(&device, image->data, image->size, false, &code));
  void *x, *ys;
  check_ok(driver->allocate(&device, N * sizeof(int64_t), &x));
  check_ok(driver->allocate(&device, 2 * N * sizeof(int64_t), &ys));
  assert_true((uintptr_t)x % limits.alignment == 0 && (uintptr_t)ys % limits.alignment == 0);
  void *y = driver->view(&device, ys, N * sizeof(int64_t)); /* the second half */
  int64_t in[N], out[N], n = N;
  for (int i = 0; i < N; i++) in[i] = 3 * i;
  check_ok(driver->copy(&stream, TN__COPY_IN, x, in, sizeof(in)));
  tn_kernel_env env = {
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof(env), .parallel_for = kernel_parallel_for, .thread_count = 1};
  void *there[] = {x, y}, *back[] = {y, x};
  tn__device_launch first = {.code = &code,
                             .offset = image->symbols[0].offset,
                             .env = &env,
                             .buffers = there,
                             .scalars = &n,
                             .buffer_count = 2,
                             .scalar_count = 1},
                    second = first;
  second.buffers = back;
  int32_t result = -1;
  check_ok(driver->launch(&stream, &first)); /* one behind the other, which reads what that wrote */
  check_ok(driver->launch(&stream, &second));
  there[0] = back[0] = NULL; /* the lists were read */
  check_ok(driver->wait(&stream, &result));
  assert_int_equal(result, TN_KERNEL_OK);
  check_ok(driver->copy(&stream, TN__COPY_OUT, out, x, sizeof(out)));
  for (int i = 0; i < N; i++) assert_int_equal(out[i], (in[i] * 2 + i) * 2 + i);
  check_ok(driver->copy(&stream, TN__COPY_WITHIN, ys, y, sizeof(out)));
  check_ok(driver->copy(&stream, TN__COPY_OUT, out, ys, sizeof(out)));
  for (int i = 0; i < N; i++) assert_int_equal(out[i], in[i] * 2 + i);
  /* A kernel that fails tells its result once, and what is launched behind it does no harm. */
  in[0] = 9, there[0] = x;
  check_ok(driver->copy(&stream, TN__COPY_IN, x, in, sizeof(in)));
  check_ok(driver->launch(&stream, &first));
  check_ok(driver->launch(&stream, &first));
  check_ok(driver->wait(&stream, &result));
  assert_int_equal(result, 3);
  check_ok(driver->wait(&stream, &result));
  assert_int_equal(result, TN_KERNEL_OK);
  driver->free(&device, x, N * sizeof(int64_t));
  driver->free(&device, ys, 2 * N * sizeof(int64_t));
  driver->free(&device, NULL, 0);
  driver->close_stream(&stream);
  driver->unload_code(&device, &code);
  driver->close(&device);
}

static void check_all(tn__escape *escape, void *arg) {
  kernel_test *t = arg;
  tn__image image = compile_doubling(t);
  check_driver(&tn__device_cpu, &image);
  check_driver(&apart_driver, &image);
  check_driver(&tn__device_island, &image);
  check_driver(&tn__device_island_concurrent, &image);
}

static void test_drivers_keep_their_promises(void **state) {
  kernel_test t = {0};
  tn__arena_init(&t.arena, NULL, &t.escape);
  check_ok(tn__target_parse("native", &t.target));
  t.ir = tn__ir_create(&t.arena);
  check_ok(tn__protect(&t.escape, check_all, &t));
  tn__arena_release(&t.arena);
}

static void test_all_cpus_are_this_one(void **state) {
  tn__device device = {.driver = &tn__device_cpu, .id = 2};
  check_ok(device.driver->open(&device));
  device.driver->close(&device);
}

/* The host cannot read what is on the device: the test's device would be no device otherwise. */
static void test_memory_is_apart(void **state) {
  tn__device device = {.driver = &apart_driver};
  void *memory;
  check_ok(apart_open(&device));
  check_ok(apart_allocate(&device, 64, &memory));
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], memory, 8), -1); /* EFAULT, and no signal */
  close(ends[0]);
  close(ends[1]);
  apart_close(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drivers_keep_their_promises),
      cmocka_unit_test(test_all_cpus_are_this_one),
      cmocka_unit_test(test_memory_is_apart),
  };
  return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
