/* The driver of OpenCL: what it says when something is wrong, the limits that it keeps, addresses, and programs on
 * disk. What all devices do is in test_device_conformance.c. */
#include <pthread.h>

#include "unit/kept_programs.h"
#include "unit/source_maker.h"
#include "unit/unprivileged.h"

#define PARAMETERS "(__global uchar *y, long y_at, long n, __global int *tn_status)"
#define KERNEL "__kernel void "

static const tn__device_driver *driver;
static int found;
static char name[300]; /* "opencl:0 (...)" */

/* Of the device that is open. */
static tn__stream stream;

static void begin(tn__device *device) {
  *device = (tn__device){.driver = driver};
  check_ok(driver->open(device));
  stream = (tn__stream){.device = device};
  check_ok(driver->open_stream(&stream));
}

static void end(tn__device *device) {
  driver->close_stream(&stream);
  driver->close(device);
}

/* The first that this process does with OpenCL. */
enum { OPENERS = 8 };
static int opened_at_first;

static void *open_at_first(void *own) {
  const tn__device_driver *at_first;
  tn__device device = {0};
  tn_status *status = tn__plugin_driver(kDLOpenCL, "opencl", &at_first);
  pthread_barrier_wait(own);
  if (status == NULL) status = at_first->open(&device);
  if (status == NULL) at_first->close(&device);
  bool good = status == NULL;
  tn_status_free(status);
  return good ? own : NULL;
}

static void open_in_threads(void) {
  pthread_t threads[OPENERS];
  pthread_barrier_t all;
  void *good;
  pthread_barrier_init(&all, NULL, OPENERS);
  for (int i = 0; i < OPENERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_at_first, &all), 0);
  for (int i = 0; i < OPENERS; i++) {
    assert_int_equal(pthread_join(threads[i], &good), 0);
    opened_at_first += good != NULL;
  }
  pthread_barrier_destroy(&all);
}

static int find_device(void **state) {
  *state = test_cache_folder();
  open_in_threads();
  found = plugin_devices(kDLOpenCL, "opencl", &driver);
  if (found == 0) return 0;
  tn__device device;
  tn__device_limits limits;
  begin(&device);
  driver->limits(&device, &limits);
  snprintf(name, sizeof name, "opencl:0 (%.*s)", (int)strcspn(limits.about, ";"), limits.about);
  end(&device);
  return 0;
}

static int remove_caches(void **state) {
  remove_folder(*state);
  return 0;
}

#define NEEDS_A_DEVICE \
  if (found == 0) skip_because("there is no device of OpenCL")

static const char *message(const char *words) {
  static char text[900];
  snprintf(text, sizeof text, "%s: %s", name, words);
  return text;
}

static tn_status *load(tn__device *device, const char *text, const made_kernel *kernel, tn__device_code *code) {
  made_unit unit = make_unit(TN__SOURCE_OPENCL, text, kernel, 1);
  tn_status *status = driver->load_code(device, unit.bytes, unit.size, false, code);
  free(unit.bytes);
  return status;
}

/* Launches the unit's one kernel on `memory` with n = 5 and three blocks. */
static tn_status *launch_on(const tn__device_code *code, void *memory) {
  void *buffers[] = {memory};
  int64_t scalars[] = {5, 3};
  tn__device_launch launch = {.code = code,
                              .offset = sizeof(tn__source_unit),
                              .buffers = buffers,
                              .scalars = scalars,
                              .buffer_count = 1,
                              .scalar_count = 2};
  return driver->launch(&stream, &launch);
}

static const made_kernel usual = {.buffers = 1, .text_scalars = 1, .scalars = 2, .launches = {{.name = "usual"}}};
static const char usual_text[] = KERNEL "usual" PARAMETERS " { ((__global long *)(y + y_at))[get_group_id(0)] = n; }\n";

/* ---- programs that are wrong ------------------------------------------------------------------------------------- */

static void test_a_text_that_is_refused(void **state) {
  tn__device device;
  tn__device_code code;
  NEEDS_A_DEVICE;
  begin(&device);
  tn_status *status =
      load(&device, "/* one */\n\n" KERNEL "usual" PARAMETERS " {\n  y[0] = nobody_knows;\n}\n", &usual, &code);
  assert_int_equal(tn_status_code_of(status), TN_INTERNAL);
  const char *said = tn_status_message(status);
  const char *begins = message("the device's compiler refuses the program's kernels (please report it), in line 4: ");
  assert_memory_equal(said, begins, strlen(begins));
  assert_non_null(strstr(said, "\n    y[0] = nobody_knows;\nit says:\n")); /* the line itself */
  assert_non_null(strstr(said, "undeclared identifier 'nobody_knows'"));
  tn_status_free(status);
  assert_null(code.kept);
  /* A unit that is none, or in another language. */
  made_unit unit = make_unit(TN__SOURCE_CUDA, usual_text, &usual, 1);
  check_fails(driver->load_code(&device, unit.bytes, unit.size, false, &code), TN_INVALID_ARGUMENT,
              message("its kernels are not in OpenCL C"));
  check_fails(driver->load_code(&device, unit.bytes, 7, false, &code), TN_INVALID_ARGUMENT,
              message("the source of a device's kernels is damaged: it does not begin as one"));
  free(unit.bytes);
  end(&device);
}

static void test_records_that_do_not_fit(void **state) {
  tn__device device;
  tn__device_code code;
  NEEDS_A_DEVICE;
  begin(&device);
  made_kernel other = usual;
  other.launches[0].name = "another";
  check_fails(load(&device, usual_text, &other, &code), TN_FAILED_PRECONDITION,
              message("its program has no kernel \"another\": the driver says CL_INVALID_KERNEL_NAME (-46)"));
  other = usual;
  other.buffers = 2;
  check_fails(load(&device, usual_text, &other, &code), TN_DATA_LOSS,
              message("the kernel \"usual\" takes 4 arguments, and its record says 6"));
  check_ok(load(&device, usual_text, &usual, &code));
  tn__device_launch launch = {.code = &code, .offset = sizeof(tn__source_unit)};
  check_fails(driver->launch(&stream, &launch), TN_INVALID_ARGUMENT,
              message("a kernel is launched with 0 buffers and 0 scalars, and its record says 1 and 2"));
  launch.offset = 3;
  check_fails(driver->launch(&stream, &launch), TN_INVALID_ARGUMENT, message("its program has no kernel at 3"));
  driver->unload_code(&device, &code);
  end(&device);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void test_launches_beyond_the_limits(void **state) {
  tn__device device;
  tn__device_code code;
  tn__device_limits limits;
  char text[512];
  void *memory;
  NEEDS_A_DEVICE;
  begin(&device);
  driver->limits(&device, &limits);
  check_ok(driver->allocate(&device, 64, &memory));
  made_kernel wide = usual;
  wide.launches[0].block[0] = wide.launches[0].block[1] = (uint32_t)limits.threads_of_block;
  check_ok(load(&device, usual_text, &wide, &code));
  snprintf(text, sizeof text,
           "the kernel \"usual\" has blocks of %d x %d x 1 threads, and the device takes %d at most: compile for "
           "\"opencl -threads=%d\"",
           limits.threads_of_block, limits.threads_of_block, limits.threads_of_block, limits.threads_of_block);
  check_fails(launch_on(&code, memory), TN_UNSUPPORTED, message(text));
  driver->unload_code(&device, &code);
  /* What threads share, by the record and by the text. */
  made_kernel sharing = usual;
  sharing.launches[0].shared_bytes = (uint32_t)limits.shared_bytes + 8;
  check_ok(load(&device, usual_text, &sharing, &code));
  snprintf(text, sizeof text,
           "the kernel \"usual\" has %zu bytes that a block's threads share, and the device %zu: compile for "
           "\"opencl -shared_bytes=%zu\"",
           limits.shared_bytes + 8, limits.shared_bytes, limits.shared_bytes);
  check_fails(launch_on(&code, memory), TN_UNSUPPORTED, message(text));
  driver->unload_code(&device, &code);
  /* A grid of as many blocks as no number of threads counts. */
  made_kernel grid = usual;
  grid.launches[0].block[0] = 16;
  grid.launches[0].grid[0].value = INT64_MAX / 8;
  check_ok(load(&device, usual_text, &grid, &code));
  check_fails(launch_on(&code, memory), TN_UNSUPPORTED,
              message("the kernel \"usual\" is to run with 1152921504606846975 blocks along x, and the device "
                      "takes 576460752303423487 at most"));
  driver->unload_code(&device, &code);
  check_fails(driver->allocate(&device, limits.memory_bytes, &memory), TN_OUT_OF_MEMORY,
              message((snprintf(text, sizeof text,
                                limits.memory_bytes > limits.most_bytes
                                    ? "out of memory: %zu bytes are asked for, and one allocation may have %zu"
                                    : "out of memory: it has %zu bytes, 64 of them in use, and %zu more are asked for",
                                limits.memory_bytes,
                                limits.memory_bytes > limits.most_bytes ? limits.most_bytes : limits.memory_bytes),
                       text)));
  end(&device);
}

static void test_grids_come_from_scalars(void **state) {
  tn__device device;
  tn__device_code code;
  void *memory;
  int64_t words[4] = {0}, expected[4] = {5, 5, 5, 0};
  int32_t result;
  NEEDS_A_DEVICE;
  begin(&device);
  check_ok(driver->allocate(&device, sizeof words, &memory));
  check_ok(driver->copy(&stream, TN__COPY_IN, memory, words, sizeof words));
  made_kernel kernel = usual;
  kernel.launches[0].grid[0] = (tn__source_extent){.symbolic = 1, .value = 1};
  check_ok(load(&device, usual_text, &kernel, &code));
  check_ok(launch_on(&code, memory));
  check_ok(driver->wait(&stream, &result));
  assert_int_equal(result, TN_KERNEL_OK);
  check_ok(driver->copy(&stream, TN__COPY_OUT, words, memory, sizeof words));
  assert_memory_equal(words, expected, sizeof words);
  driver->unload_code(&device, &code);
  driver->free(&device, memory, sizeof words);
  end(&device);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static void test_addresses(void **state) {
  tn__device device;
  tn__device_code code;
  void *memory, *second;
  char bytes[8] = {0}, text[512];
  int ends[2];
  NEEDS_A_DEVICE;
  begin(&device);
  check_ok(driver->allocate(&device, 100, &memory));
  check_ok(driver->allocate(&device, 100, &second));
  assert_true(labs((char *)memory - (char *)second) > 100); /* the end of one is not the begin of the other */
  /* The host can neither read nor write there: EFAULT, and no signal, for the system does it. */
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], memory, 8), -1);
  close(ends[0]);
  close(ends[1]);
  char *late = (char *)memory + 93;
  snprintf(text, sizeof text, "8 bytes at %p are not in memory of this device", (void *)late);
  check_fails(driver->copy(&stream, TN__COPY_IN, late, bytes, 8), TN_INVALID_ARGUMENT, message(text));
  check_fails(driver->copy(&stream, TN__COPY_WITHIN, memory, late, 8), TN_INVALID_ARGUMENT, message(text));
  snprintf(text, sizeof text, "8 bytes at %p are not in memory of this device", (void *)bytes);
  check_fails(driver->copy(&stream, TN__COPY_OUT, bytes, bytes, 8), TN_INVALID_ARGUMENT, message(text));
  check_ok(load(&device, usual_text, &usual, &code));
  char whole[1000];
  snprintf(text, sizeof text, "0 bytes at %p are not in memory of this device", (void *)bytes);
  snprintf(whole, sizeof whole, "buffer 0 of the kernel \"usual\": %s", message(text));
  check_fails(launch_on(&code, bytes), TN_INVALID_ARGUMENT, whole);
  driver->unload_code(&device, &code);
  driver->free(&device, memory, 100);
  driver->free(&device, second, 100);
  end(&device);
}

/* A device that is the CPU has no memory of its own for constants: what the host has there is what kernels read. */
static void test_memory_of_the_host(void **state) {
  static _Alignas(64) int64_t host[64];
  tn__device device;
  void *memory;
  NEEDS_A_DEVICE;
  begin(&device);
  tn__device_limits limits;
  driver->limits(&device, &limits);
  check_ok(driver->borrow(&device, host, sizeof host, &memory));
  if (strstr(limits.about, "PoCL") != NULL) assert_ptr_equal(memory, host);
  if (memory != NULL) {
    int64_t got = 0;
    host[5] = 55; /* which a constant's owner does not do */
    check_ok(driver->copy(&stream, TN__COPY_OUT, &got, &host[5], sizeof got));
    assert_int_equal(got, 55);
    driver->free(&device, memory, sizeof host);
  }
  end(&device);
}

static void test_missing_devices(void **state) {
  NEEDS_A_DEVICE;
  tn__device device = {.driver = driver, .id = 99};
  tn_status *status = driver->open(&device);
  char begins[400];
  snprintf(begins, sizeof begins, "there is no opencl:99; there is %s", name);
  assert_int_equal(tn_status_code_of(status), TN_NOT_FOUND);
  assert_memory_equal(tn_status_message(status), begins, strlen(begins));
  tn_status_free(status);
}

/* ---- programs on disk -------------------------------------------------------------------------------------------- */

static void load_and_run(tn__device *device, int64_t expected) {
  tn__device_code code;
  void *memory;
  int32_t result;
  int64_t word = 0;
  char text[512];
  snprintf(text, sizeof text, "/* %lld */ " KERNEL "usual" PARAMETERS " { *(__global long *)(y + y_at) = n + %lld; }\n",
           (long long)expected, (long long)expected - 5);
  check_ok(load(device, text, &usual, &code));
  check_ok(driver->allocate(device, 8, &memory));
  check_ok(launch_on(&code, memory));
  check_ok(driver->wait(&stream, &result));
  check_ok(driver->copy(&stream, TN__COPY_OUT, &word, memory, 8));
  assert_int_equal(word, expected);
  driver->free(device, memory, 8);
  driver->unload_code(device, &code);
}

static void test_programs_are_kept(void **state) {
  tn__device device;
  NEEDS_A_DEVICE;
  begin(&device);
  check_programs_are_kept(&device, load_and_run, *state);
  end(&device);
}

static int denied_lines;
static void see_denied(void *user, tn_log_level level, const char *line) {
  assert_int_equal(level, TN_LOG_WARNING);
  assert_non_null(strstr(line, "/devices/dev-"));
  assert_non_null(strstr(line, "cannot write: Permission denied"));
  denied_lines++;
}

/* What is there is used, and what is not there is not kept, of which whoever listens is told. */
static void test_programs_in_a_folder_to_read(void **state) {
  static const struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  char own[] = "/tmp/tenon-programs-XXXXXX", path[512], folder[64];
  const tn_log_sink sink = {.write = see_denied};
  tn__device device;
  struct stat used;
  NEEDS_A_DEVICE;
  assert_non_null(mkdtemp(own));
  setenv("TENON_CACHE_DIR", own, 1);
  begin(&device);
  load_and_run(&device, 1234);
  assert_true(find_kept_program(own, path, sizeof path));
  assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
  snprintf(folder, sizeof folder, "%s/devices", own);
  assert_int_equal(chmod(folder, 0555), 0);
  obey_permissions(true);
  denied_lines = 0;
  device.log = &sink;
  load_and_run(&device, 1234);
  assert_int_equal(denied_lines, 0);
  assert_int_equal(stat(path, &used), 0);
  assert_true(used.st_mtim.tv_sec > long_ago[0].tv_sec);
  load_and_run(&device, 4323);
  assert_int_equal(denied_lines, 1);
  obey_permissions(false);
  assert_int_equal(chmod(folder, 0755), 0);
  setenv("TENON_CACHE_DIR", *state, 1);
  end(&device);
  remove_folder(own);
}

static void test_first_opened_by_several_threads(void **state) {
  NEEDS_A_DEVICE;
  assert_int_equal(opened_at_first, OPENERS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_opened_by_several_threads),
      cmocka_unit_test(test_a_text_that_is_refused),
      cmocka_unit_test(test_records_that_do_not_fit),
      cmocka_unit_test(test_launches_beyond_the_limits),
      cmocka_unit_test(test_grids_come_from_scalars),
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_memory_of_the_host),
      cmocka_unit_test(test_missing_devices),
      cmocka_unit_test(test_programs_are_kept),
      cmocka_unit_test(test_programs_in_a_folder_to_read),
  };
  return cmocka_run_group_tests_name("opencl", tests, find_device, remove_caches);
}
