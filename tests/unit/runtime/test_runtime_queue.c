/* Queues of devices, and islands, on which they are tried: random programs against the same ones in one thread,
 * failure, back-pressure, and memory that nobody else may touch. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/island/island.h"
#include "runtime/queue/queue.h"
#include "unit/check.h"

enum { WORDS = 64, MOST_DEVICES = 8, BUFFERS = 6, OPERATIONS = 150, PROGRAMS = 40, BAD = 3 };

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* z = 3x + y + n, and a failure where n is -1. */
static int32_t mix(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  if (scalars[0] == -1) return BAD;
  const int64_t *x = buffers[0], *y = buffers[1];
  int64_t *z = buffers[2];
  for (int i = 0; i < WORDS; i++)
    z[i] = (int64_t)(3 * (uint64_t)x[i] + (uint64_t)y[i] + (uint64_t)scalars[0] + (uint64_t)i);
  return TN_KERNEL_OK;
}

/* Waits until as many of these run at once as its scalar says. */
static atomic_int met;
static int32_t meet(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < scalars[0]) usleep(100);
  return TN_KERNEL_OK;
}

static int32_t wait_and_fail(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  usleep(2000);
  return BAD + 1;
}

static tn__device_code code_of(tn_kernel kernel) {
  tn__device_code code = {0};
  memcpy(&code.base, &kernel, sizeof kernel);
  return code;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

typedef struct scene {
  int count;
  tn__device devices[MOST_DEVICES];
  tn__stream streams[MOST_DEVICES], *list[MOST_DEVICES];
  tn__queues *queues;
  pthread_mutex_t turn;
} scene;

static void begin(scene *s, const tn__device_driver *driver, int count, int slots) {
  *s = (scene){.count = count};
  pthread_mutex_init(&s->turn, NULL);
  for (int i = 0; i < count; i++) {
    s->devices[i] = (tn__device){.driver = driver, .id = i, .turn = &s->turn};
    s->streams[i] = (tn__stream){.device = &s->devices[i]};
    s->list[i] = &s->streams[i];
    check_ok(driver->open(&s->devices[i]));
    check_ok(driver->open_stream(&s->streams[i]));
  }
  const tn__queues_options options = {
      .streams = s->list, .device_count = count, .slot_count = slots, .most_arguments = 4};
  check_ok(tn__queues_create(&options, &s->queues));
}

static void end(scene *s) {
  tn__queues_release(s->queues);
  for (int i = 0; i < s->count; i++) {
    s->devices[i].driver->close_stream(&s->streams[i]);
    s->devices[i].driver->close(&s->devices[i]);
  }
  pthread_mutex_destroy(&s->turn);
}

static void *allocate(scene *s, int device) {
  void *memory;
  check_ok(s->devices[device].driver->allocate(&s->devices[device], WORDS * sizeof(int64_t), &memory));
  return memory;
}

static void launch(scene *s, int device, const tn__device_code *code, void *x, void *y, void *z, int64_t n,
                   uint64_t label) {
  void *buffers[] = {x, y, z};
  const tn__device_launch l = {.code = code, .buffers = buffers, .scalars = &n, .buffer_count = 3, .scalar_count = 1};
  tn__queue_launch(s->queues, device, &l, label);
}

/* ---- random programs --------------------------------------------------------------------------------------------- */

static uint64_t random_state;
static int below(int n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)n);
}

/* A buffer of a device, and what has to be over before it may be read or written by another queue: operations, each of
 * which records its own slot. */
typedef struct place {
  int device;
  void *memory;
  int64_t expected[WORDS];
  int written; /* the operation; -1: none */
  int readers[OPERATIONS], reader_count;
} place;

static void await(scene *s, int device, int operation) {
  if (operation >= 0) tn__queue_await(s->queues, device, operation);
}

static void before_writing(scene *s, int device, place *p) {
  await(s, device, p->written);
  for (int i = 0; i < p->reader_count; i++) await(s, device, p->readers[i]);
  p->reader_count = 0;
}

static void before_reading(scene *s, int device, place *p, int operation) {
  await(s, device, p->written);
  p->readers[p->reader_count++] = operation;
}

/* One operation: a kernel on buffers of one device, or a copy between any two. */
static void operate(scene *s, place *places, const tn__device_code *code, int operation) {
  int device = below(s->count);
  place *own = places + device * BUFFERS;
  place *to = &own[below(BUFFERS)];
  if (below(3) > 0) {
    place *x = &own[below(BUFFERS)], *y = &own[below(BUFFERS)];
    before_reading(s, device, x, operation);
    before_reading(s, device, y, operation);
    before_writing(s, device, to);
    int64_t n = below(1000);
    void *list[] = {x->expected, y->expected, to->expected};
    launch(s, device, code, x->memory, y->memory, to->memory, n, (uint32_t)operation);
    assert_int_equal(mix(NULL, list, &n), TN_KERNEL_OK);
  } else {
    place *from = &places[below(s->count * BUFFERS)];
    if (from == to) from = &own[(to - own + 1) % BUFFERS];
    before_reading(s, device, from, operation);
    before_writing(s, device, to);
    tn__queue_copy(s->queues, device, to->memory, from->device, from->memory, sizeof to->expected, (uint32_t)operation);
    memcpy(to->expected, from->expected, sizeof to->expected);
  }
  to->written = operation;
  tn__queue_record(s->queues, device, operation);
}

static void run_program(const tn__device_driver *driver, int count, uint64_t seed) {
  static place places[MOST_DEVICES * BUFFERS];
  static int64_t found[MOST_DEVICES * BUFFERS][WORDS];
  const tn__device_code code = code_of(mix);
  scene s;
  random_state = seed;
  begin(&s, driver, count, OPERATIONS);
  for (int i = 0; i < count * BUFFERS; i++) {
    place *p = &places[i];
    *p = (place){.device = i / BUFFERS, .memory = allocate(&s, i / BUFFERS), .written = -1};
    for (int w = 0; w < WORDS; w++) p->expected[w] = below(1 << 20);
    memcpy(found[i], p->expected, sizeof found[i]);
    tn__queue_copy(s.queues, p->device, p->memory, TN__QUEUE_HOST, found[i], sizeof found[i], 0);
  }
  tn__queue_failure failure;
  assert_true(tn__queues_finish(s.queues, &failure));
  for (int i = 0; i < OPERATIONS; i++) operate(&s, places, &code, i);
  for (int i = 0; i < count * BUFFERS; i++) {
    await(&s, places[i].device, places[i].written);
    tn__queue_copy(s.queues, TN__QUEUE_HOST, found[i], places[i].device, places[i].memory, sizeof found[i], 0);
  }
  assert_true(tn__queues_finish(s.queues, &failure));
  for (int i = 0; i < count * BUFFERS; i++) assert_memory_equal(found[i], places[i].expected, sizeof found[i]);
  for (int i = 0; i < count * BUFFERS; i++)
    s.devices[places[i].device].driver->free(&s.devices[places[i].device], places[i].memory, sizeof found[i]);
  end(&s);
}

static void test_any_program_as_in_one_thread(void **state) {
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
    run_program(&tn__device_island, 1 + (int)seed % MOST_DEVICES, seed);
    run_program(&tn__device_island_concurrent, 1 + (int)seed % MOST_DEVICES, seed);
  }
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static void test_devices_work_at_the_same_time(void **state) {
  const tn__device_code code = code_of(meet);
  scene s;
  tn__queue_failure failure;
  begin(&s, &tn__device_island_concurrent, 4, 1);
  atomic_store(&met, 0);
  for (int i = 0; i < 4; i++) launch(&s, i, &code, NULL, NULL, NULL, 4, 0);
  assert_true(tn__queues_finish(s.queues, &failure));
  end(&s);
}

/* More than a ring holds, and a slot that is recorded again and again. */
static void test_long_programs(void **state) {
  const tn__device_code code = code_of(mix);
  scene s;
  int64_t sum[WORDS] = {0}, zero[WORDS] = {0};
  tn__queue_failure failure;
  begin(&s, &tn__device_island_concurrent, 2, 2);
  void *a = allocate(&s, 0), *b = allocate(&s, 1), *z = allocate(&s, 0);
  tn__queue_copy(s.queues, 0, a, TN__QUEUE_HOST, zero, sizeof zero, 0);
  tn__queue_copy(s.queues, 0, z, TN__QUEUE_HOST, zero, sizeof zero, 0);
  for (int i = 0; i < 5 * TN__QUEUE_DEPTH; i++) { /* a = a/1 there and back, plus i */
    tn__queue_record(s.queues, 0, 0);
    tn__queue_await(s.queues, 1, 0);
    tn__queue_copy(s.queues, 1, b, 0, a, sizeof zero, 0);
    tn__queue_record(s.queues, 1, 1);
    tn__queue_await(s.queues, 0, 1);
    tn__queue_copy(s.queues, 0, a, 1, b, sizeof zero, 0);
    launch(&s, 0, &code, z, a, a, i, 0);
  }
  tn__queue_record(s.queues, 0, 0);
  assert_true(tn__queues_await(s.queues, 0));
  tn__queue_copy(s.queues, TN__QUEUE_HOST, sum, 0, a, sizeof sum, 0);
  assert_true(tn__queues_finish(s.queues, &failure));
  const int64_t n = 5 * TN__QUEUE_DEPTH;
  for (int w = 0; w < WORDS; w++) assert_int_equal(sum[w], n * (n - 1) / 2 + n * w);
  end(&s);
}

/* ---- failure ----------------------------------------------------------------------------------------------------- */

static void test_what_fails_stops_everything_behind_it(void **state) {
  const tn__device_driver *drivers[] = {&tn__device_island, &tn__device_island_concurrent};
  const tn__device_code code = code_of(mix);
  for (int d = 0; d < 2; d++) {
    scene s;
    int64_t before[WORDS] = {7}, after[WORDS];
    tn__queue_failure failure = {0};
    begin(&s, drivers[d], 2, 1);
    void *a = allocate(&s, 0), *b = allocate(&s, 1);
    tn__queue_copy(s.queues, 0, a, TN__QUEUE_HOST, before, sizeof before, 0);
    tn__queue_copy(s.queues, 1, b, TN__QUEUE_HOST, before, sizeof before, 0);
    assert_true(tn__queues_finish(s.queues, &failure));
    launch(&s, 0, &code, a, a, a, -1, 41);
    launch(&s, 0, &code, a, a, a, -1, 42);
    tn__queue_record(s.queues, 0, 0);
    tn__queue_await(s.queues, 1, 0);
    launch(&s, 1, &code, b, b, b, 5, 43);
    assert_false(tn__queues_finish(s.queues, &failure));
    assert_int_equal(failure.device, 0);
    assert_int_equal(failure.kernel, BAD);
    assert_int_equal(failure.label, 41);
    assert_null(failure.status);
    tn__queue_copy(s.queues, TN__QUEUE_HOST, after, 1, b, sizeof after, 0);
    assert_true(tn__queues_finish(s.queues, &failure)); /* told once */
    assert_memory_equal(after, before, sizeof after);
    end(&s);
  }
}

/* Of several failures it is the first in the program's order, whichever was the first in time. */
static void test_the_first_failure_is_told(void **state) {
  const tn__device_code code = code_of(mix), late = code_of(wait_and_fail);
  for (int i = 0; i < 20; i++) {
    scene s;
    tn__queue_failure failure = {0};
    begin(&s, &tn__device_island_concurrent, 3, 2);
    void *b = allocate(&s, 1), *c = allocate(&s, 2);
    launch(&s, 0, &late, NULL, NULL, NULL, 0, (uint64_t)1 << 40); /* a label may be any */
    launch(&s, 1, &code, b, b, b, -1, 7);
    tn__queue_record(s.queues, 1, 0);
    tn__queue_await(s.queues, 2, 0);
    launch(&s, 2, &code, c, c, c, -1, 8);
    tn__queue_record(s.queues, 2, 1);
    assert_false(tn__queues_await(s.queues, 1));
    tn__queues_drain(s.queues);
    assert_false(tn__queues_finish(s.queues, &failure));
    assert_int_equal(failure.device, 0);
    assert_true(failure.label == (uint64_t)1 << 40);
    assert_int_equal(failure.kernel, BAD + 1);
    end(&s);
  }
}

static void test_what_is_cancelled_does_not_begin(void **state) {
  const tn__device_code code = code_of(mix);
  scene s;
  tn__queue_failure failure = {0};
  int64_t n = -1;
  const tn_kernel_env env = {.cancel = 1};
  begin(&s, &tn__device_island_concurrent, 1, 1);
  const tn__device_launch l = {.code = &code, .env = &env, .scalars = &n, .scalar_count = 1};
  tn__queue_launch(s.queues, 0, &l, 3);
  assert_false(tn__queues_finish(s.queues, &failure));
  assert_int_equal(failure.kernel, TN_KERNEL_CANCELLED);
  assert_int_equal(failure.label, 3);
  end(&s);
}

/* A driver that cannot says why, and release takes what nobody asked for. */
static tn_status *no_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  return tn_status_create(TN_IO, "the device is gone");
}

static void test_a_device_that_is_gone(void **state) {
  tn__device_driver driver = tn__device_island_concurrent;
  driver.copy = no_copy;
  for (int told = 0; told < 2; told++) {
    scene s;
    int64_t words[WORDS] = {0};
    tn__queue_failure failure;
    begin(&s, &driver, 2, 1);
    tn__queue_copy(s.queues, 1, allocate(&s, 1), TN__QUEUE_HOST, words, sizeof words, 9);
    tn__queue_copy(s.queues, 1, allocate(&s, 1), TN__QUEUE_HOST, words, sizeof words, 10);
    if (told) {
      assert_false(tn__queues_finish(s.queues, &failure));
      assert_int_equal(failure.device, 1);
      assert_int_equal(failure.label, 9);
      check_fails(failure.status, TN_IO, "the device is gone");
    }
    end(&s);
  }
}

/* ---- islands ----------------------------------------------------------------------------------------------------- */

/* Does the child that runs `what` end by a fault? */
static bool faults(void (*what)(const tn__device *devices, void *const *memory), const tn__device *devices,
                   void *const *memory) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    what(devices, memory);
    _exit(0);
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFSIGNALED(result) || WEXITSTATUS(result) == 0);
  return WIFSIGNALED(result) && WTERMSIG(result) == SIGSEGV;
}

/* A kernel of island 0 reads what is on island 1. */
static void read_another_island(const tn__device *devices, void *const *memory) {
  const tn__device_code code = code_of(mix);
  void *buffers[] = {memory[0], memory[1], memory[0]};
  int64_t n = 0;
  const tn__device_launch l = {.code = &code, .buffers = buffers, .scalars = &n, .buffer_count = 3, .scalar_count = 1};
  tn__device device = devices[0];
  tn__stream stream = {.device = &device};
  tn_status_free(device.driver->launch(&stream, &l));
}

static atomic_bool it_works;

static int32_t work_for_ever(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  *(volatile int64_t *)buffers[0] = 1;
  atomic_store(&it_works, true);
  while (atomic_load(&it_works)) pause();
  return TN_KERNEL_OK;
}

static void *launch_work(void *closure) {
  void *const *given = closure;
  const tn__device_code code = code_of(work_for_ever);
  void *buffers[] = {given[1]};
  const tn__device_launch l = {.code = &code, .buffers = buffers, .buffer_count = 1};
  tn__stream stream = {.device = given[0]};
  tn_status_free(stream.device->driver->launch(&stream, &l));
  return NULL;
}

/* A thread that is none of the island's reads there while the island works. */
static void read_a_working_island(const tn__device *devices, void *const *memory) {
  tn__device device = devices[0];
  void *given[] = {&device, memory[0]};
  pthread_t thread;
  if (pthread_create(&thread, NULL, launch_work, given) != 0) _exit(1);
  while (!atomic_load(&it_works)) sched_yield();
  _exit(*(volatile int64_t *)memory[0] == 1 ? 0 : 2);
}

/* Where the CPU has protection keys, both with keys and when all are taken. */
static void test_nobody_else_touches_an_island(void **state) {
  int taken[16], count = 0;
  for (int all_taken = 0; all_taken < 2; all_taken++) {
    tn__device devices[2];
    void *memory[2];
    const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    const bool has_keys = key > 0;
    if (has_keys) pkey_free(key);
    for (int i = 0; i < 2; i++) {
      devices[i] = (tn__device){.driver = &tn__device_island, .id = i};
      check_ok(devices[i].driver->open(&devices[i]));
      check_ok(devices[i].driver->allocate(&devices[i], 1000, &memory[i]));
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], memory[0], 8), -1); /* EFAULT, and no signal */
    close(ends[0]);
    close(ends[1]);
    assert_true(faults(read_another_island, devices, memory));
    assert_int_equal(faults(read_a_working_island, devices, memory), has_keys);
    for (int i = 0; i < 2; i++) devices[i].driver->close(&devices[i]);
    while (!all_taken && count < 16 && (taken[count] = pkey_alloc(0, PKEY_DISABLE_ACCESS)) > 0) count++;
  }
  while (count > 0) pkey_free(taken[--count]);
}

static void test_an_islands_memory(void **state) {
  tn__device device = {.driver = &tn__device_island, .id = TN__ISLAND_MOST};
  check_fails(device.driver->open(&device), TN_NOT_FOUND,
              "there is no island with number 256: the numbers go from 0 to 255");
  tn__stream stream = {.device = &device};
  device.id = 3;
  check_ok(device.driver->open(&device));
  void *blocks[40], *again;
  for (int i = 0; i < 40; i++) check_ok(device.driver->allocate(&device, 5000, &blocks[i]));
  for (int i = 0; i < 40; i++)
    for (int k = 0; k < i; k++) assert_true((char *)blocks[i] - (char *)blocks[k] >= 5000);
  device.driver->free(&device, blocks[7], 5000);
  check_ok(device.driver->allocate(&device, 8192, &again));
  assert_ptr_equal(again, blocks[7]); /* the gap, when it is large enough */
  int64_t word = 5;
  check_ok(device.driver->copy(&stream, TN__COPY_IN, again, &word, sizeof word));
  device.driver->free(&device, again, 8192);
  check_ok(device.driver->allocate(&device, 8, &again));
  check_ok(device.driver->copy(&stream, TN__COPY_OUT, &word, again, sizeof word));
  assert_int_equal(word, 0); /* nothing of what was there */
  check_fails(device.driver->allocate(&device, TN__ISLAND_BYTES - 8192, &again), TN_OUT_OF_MEMORY,
              "out of memory: island 3 has 4294967296 bytes, 327680 of them in use, and 4294959104 more are asked for");
  check_fails(device.driver->allocate(&device, SIZE_MAX, &again), TN_OUT_OF_MEMORY,
              "out of memory: island 3 has 4294967296 bytes, and 18446744073709551615 are asked for");
  device.driver->close(&device);
}

/* The second memory has pages and a limit of its own; it is open while the island works, and then alone. */
static void test_an_islands_second_memory(void **state) {
  tn__device device = {.driver = &tn__device_island, .id = 3};
  tn__device_limits limits;
  void *plain, *texture, *none;
  int64_t word = 5, back = 0;
  check_ok(device.driver->open(&device));
  tn__stream stream = {.device = &device};
  check_ok(device.driver->open_stream(&stream));
  tn__device second = device;
  second.scope = TN__MEMORY_TEXTURE;
  assert_true(tn__device_has_scope(device.driver, TN__MEMORY_TEXTURE));
  assert_false(tn__device_has_scope(device.driver, TN__MEMORY_TILE));
  second.driver->limits(&second, &limits);
  assert_int_equal(limits.memory_bytes, TN__ISLAND_TEXTURE_BYTES);
  check_ok(device.driver->allocate(&device, 64, &plain));
  check_ok(second.driver->allocate(&second, 64, &texture));
  assert_int_equal(tn__island_scope_of(&device, plain), TN__MEMORY_GLOBAL);
  assert_int_equal(tn__island_scope_of(&device, texture), TN__MEMORY_TEXTURE);
  assert_int_equal(tn__island_scope_of(&device, &word), TN__MEMORY_SCOPES);
  check_ok(device.driver->copy(&stream, TN__COPY_IN, texture, &word, sizeof word));
  check_ok(device.driver->copy(&stream, TN__COPY_WITHIN, plain, texture, sizeof word));
  check_ok(device.driver->copy(&stream, TN__COPY_OUT, &back, plain, sizeof word));
  assert_int_equal(back, 5);
  check_fails(second.driver->allocate(&second, TN__ISLAND_TEXTURE_BYTES, &none), TN_OUT_OF_MEMORY,
              "out of memory: island 3 has 268435456 bytes of texture, and 268435456 are asked for");
  check_ok(device.driver->allocate(&device, TN__ISLAND_TEXTURE_BYTES, &none)); /* as much as fits there is here */
  device.driver->free(&device, none, TN__ISLAND_TEXTURE_BYTES);
  second.driver->free(&second, texture, 64);
  device.driver->free(&device, plain, 64);
  device.driver->close_stream(&stream);
  device.driver->close(&device);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *refuse_large(void *user, void *pointer, size_t old_size, size_t new_size, size_t align) {
  return new_size >= (size_t)1 << 20 ? NULL : tn__realloc(NULL, pointer, old_size, new_size, align);
}

/* Copies between two devices go through a megabyte of the host; the host, which has no queue, and one device beside it
 * need none. */
static void test_one_device_needs_little(void **state) {
  const tn_allocator small = {refuse_large, NULL};
  tn__device devices[2] = {{.driver = &tn__device_cpu}, {.driver = &tn__device_cpu, .id = 1}};
  tn__stream streams[2] = {{.device = &devices[0]}, {.device = &devices[1]}};
  tn__stream *const one[3] = {NULL, &streams[0], NULL}, *const two[3] = {NULL, &streams[0], &streams[1]};
  tn__queues_options options = {.allocator = &small, .streams = one, .device_count = 3, .most_arguments = 4};
  tn__queues *queues;
  check_ok(tn__queues_create(&options, &queues));
  tn__queues_release(queues);
  options.streams = two;
  check_fails(tn__queues_create(&options, &queues), TN_OUT_OF_MEMORY, "out of memory for copies between devices");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_program_as_in_one_thread),
      cmocka_unit_test(test_devices_work_at_the_same_time),
      cmocka_unit_test(test_long_programs),
      cmocka_unit_test(test_what_fails_stops_everything_behind_it),
      cmocka_unit_test(test_the_first_failure_is_told),
      cmocka_unit_test(test_what_is_cancelled_does_not_begin),
      cmocka_unit_test(test_a_device_that_is_gone),
      cmocka_unit_test(test_nobody_else_touches_an_island),
      cmocka_unit_test(test_an_islands_memory),
      cmocka_unit_test(test_an_islands_second_memory),
      cmocka_unit_test(test_one_device_needs_little),
  };
  return cmocka_run_group_tests_name("runtime_queue", tests, NULL, NULL);
}
