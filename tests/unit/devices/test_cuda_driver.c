/* The driver of NVIDIA's devices: what it says when something is wrong, the limits that it keeps, and programs on disk.
 * It runs on a libcuda.so.1 that is the test's own (tests/fake_cuda), with the real compiler. What all devices do is in
 * test_device_conformance.c. */
#include <dlfcn.h>

#include "tenon/compile.h"
#include "unit/kept_programs.h"
#include "unit/source_maker.h"

static const tn__device_driver *driver;
#define NAME "cuda:0 (Fake GPU): "
static const char counting[] =
    "extern \"C\" __global__ void count_on(long long *y, long long k, int *tn_status) {\n"
    "  y[0] = 3 * y[0] + k;\n"
    "}\n";
static const made_kernel usual = {.buffers = 1, .text_scalars = 1, .scalars = 1, .launches = {{.name = "count_on"}}};

static int find_device(void **state) {
  *state = test_cache_folder();
  assert_int_equal(plugin_devices(kDLCUDA, "cuda", &driver), 1);
  return 0;
}

static int remove_caches(void **state) {
  remove_folder(*state);
  return 0;
}

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

static tn_status *load(tn__device *device, uint32_t language, const char *text, const made_kernel *kernel,
                       tn__device_code *code) {
  made_unit unit = make_unit(language, text, kernel, 1);
  tn_status *status = driver->load_code(device, unit.bytes, unit.size, false, code);
  free(unit.bytes);
  return status;
}

static tn_status *launch_on(const tn__device_code *code, void *memory) {
  void *buffers[] = {memory};
  int64_t scalars[] = {5};
  tn__device_launch launch = {.code = code,
                              .offset = sizeof(tn__source_unit),
                              .buffers = buffers,
                              .scalars = scalars,
                              .buffer_count = 1,
                              .scalar_count = 1};
  return driver->launch(&stream, &launch);
}

static void test_limits_are_told(void **state) {
  tn__device device;
  tn__device_limits limits;
  begin(&device);
  driver->limits(&device, &limits);
  assert_string_equal(limits.about, "Fake GPU; sm_90, driver of CUDA 12.4");
  assert_int_equal(limits.threads_of_block, 1024);
  assert_int_equal(limits.shared_bytes, 48 << 10);
  assert_int_equal(limits.memory_bytes, 1 << 30);
  const tn__device_nature *nature = &limits.nature;
  assert_false(nature->is_cpu || nature->shares_memory);
  assert_int_equal(nature->units, 132);
  assert_int_equal(nature->megahertz, 1980);
  assert_int_equal(nature->memory_rate, 3352320);
  end(&device);
}

/* A context outlives the devices that are open, since making one takes long, but for one that failed. */
static void test_contexts_are_kept(void **state) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  int (*references)(int);
  void (*break_context)(int);
  *(void **)&references = dlsym(library, "fake_cuda_references");
  *(void **)&break_context = dlsym(library, "fake_cuda_break");
  assert_non_null(references);
  assert_non_null(break_context);
  tn__device one, two;
  begin(&one);
  tn__stream of_one = stream;
  begin(&two);
  assert_int_equal(references(0), 3);
  end(&two);
  stream = of_one;
  end(&one);
  assert_int_equal(references(0), 1);
  begin(&one);
  of_one = stream;
  begin(&two);
  break_context(0);
  driver->close_stream(&of_one);
  driver->close(&one);
  assert_int_equal(references(0), 1);
  end(&two);
  assert_int_equal(references(0), 0);
  begin(&one); /* a new context, which works */
  assert_int_equal(references(0), 2);
  /* One that has no stream any more failed, too. */
  of_one = (tn__stream){.device = &one};
  break_context(0);
  check_fails(driver->open_stream(&of_one), TN_FAILED_PRECONDITION,
              NAME "there is no stream for it: the driver says CUDA_ERROR_UNKNOWN (700)");
  end(&one);
  begin(&one);
  assert_int_equal(references(0), 2);
  end(&one);
  dlclose(library);
}

static void test_a_text_that_is_refused(void **state) {
  tn__device device;
  tn__device_code code;
  begin(&device);
  tn_status *status = load(&device, TN__SOURCE_CUDA,
                           "\n\nextern \"C\" __global__ void count_on(long long *y, long long k, int *tn_status) {\n"
                           "  y[0] = nobody_knows;\n"
                           "}\n",
                           &usual, &code);
  static const char begins[] = NAME
      "the device's compiler refuses the program's kernels (please report it), in line 4: error: identifier "
      "\"nobody_knows\" is undefined\n    y[0] = nobody_knows;\nit says:\nkernels.cu(4): error:";
  assert_int_equal(tn_status_code_of(status), TN_INTERNAL);
  char *said = strndup(tn_status_message(status), sizeof begins - 1);
  assert_string_equal(said, begins);
  free(said);
  tn_status_free(status);
  assert_null(code.kept);
  check_fails(load(&device, TN__SOURCE_OPENCL, counting, &usual, &code), TN_INVALID_ARGUMENT,
              NAME "its kernels are not in CUDA C");
  made_kernel other = usual;
  other.launches[0].name = "another";
  check_fails(load(&device, TN__SOURCE_CUDA, counting, &other, &code), TN_FAILED_PRECONDITION,
              NAME "its program has no kernel \"another\": the driver says CUDA_ERROR_NOT_FOUND (500)");
  end(&device);
}

static const char wide_graph[] =
    "graph \"main\" {\n"
    "  input x: f32[64, 64]\n"
    "  y: f32[64, 64] = abs(x)\n"
    "  output \"y\" = y\n"
    "}\n";

static void keep_text(void *user, const char *text) { snprintf(user, 4096, "%s", text); }

/* What `tenon compile --explain-devices` would tell. */
static void explain(const char *target, bool no_measure, char text[4096]) {
  static const char *const place[] = {"*=cuda"};
  tn_module *module;
  tn_compile_options o = {.size = sizeof o, .target = target, .place = place, .place_count = 1, .no_cache = true};
  o.devices = keep_text, o.user = text, o.no_measure = no_measure;
  check_ok(tn_compile("wide.tng", wide_graph, strlen(wide_graph), &o, &module));
  tn_module_release(module);
}

/* What the driver tells becomes a part of the target where it is less than usual, and the text does not say it. */
static void test_kernels_keep_to_the_devices_limits(void **state) {
  char text[4096];
  explain("x86-64; cuda", false, text);
  assert_non_null(strstr(text, "  cuda:0     cuda -arch=sm_80 -device=0\n"));
  assert_null(strstr(text, "kernels for"));
  setenv("FAKE_CUDA_THREADS", "64", 1);
  setenv("FAKE_CUDA_SHARED", "16384", 1);
  explain("x86-64; cuda", false, text);
  assert_non_null(strstr(text, "  cuda:0     cuda -arch=sm_80 -threads=64 -shared_bytes=16384 -device=0\n"));
  assert_non_null(strstr(text,
                         "kernels for cuda:0 keep to what its driver says of it, 64 threads of a block, which "
                         "share 16384 bytes: Fake GPU; sm_90"));
  explain("x86-64; cuda -threads=128", false, text);
  assert_non_null(strstr(text, "  cuda:0     cuda -arch=sm_80 -threads=128 -shared_bytes=16384 -device=0\n"));
  static const char *const said[] = {"x86-64; cuda -threads=128 -shared_bytes=20000", "x86-64; cuda"};
  for (int i = 0; i < 2; i++) { /* all of it is said, or nobody is to be asked */
    explain(said[i], i == 1, text);
    assert_null(strstr(text, "kernels for"));
    assert_null(strstr(text, "16384"));
  }
  unsetenv("FAKE_CUDA_THREADS");
  unsetenv("FAKE_CUDA_SHARED");
}

static void test_launches_beyond_the_limits(void **state) {
  static const struct {
    uint32_t block[3], shared;
    int64_t blocks[3];
    const char *says;
  } cases[] = {
      {{600, 1, 1},
       0,
       {1, 1, 1},
       "has blocks of 600 x 1 x 1 threads, and the device takes 512 at most: compile for \"cuda -threads=512\""},
      {{1, 1, 65},
       0,
       {1, 1, 1},
       "has blocks of 65 threads along z, and the device takes 64 at most: compile for \"cuda -threads=64\""},
      {{1, 1, 1},
       50000,
       {1, 1, 1},
       "has 50000 bytes that a block's threads share, and the device 49152: compile for \"cuda "
       "-shared_bytes=49152\""},
      {{1, 1, 1}, 0, {1, 65536, 1}, "is to run with 65536 blocks along y, and the device takes 65535 at most"},
  };
  tn__device device;
  tn__device_code code;
  void *memory;
  begin(&device);
  check_ok(driver->allocate(&device, 8, &memory));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    made_kernel kernel = usual;
    char says[400];
    kernel.launches[0].shared_bytes = cases[i].shared;
    memcpy(kernel.launches[0].block, cases[i].block, sizeof cases[i].block);
    for (int a = 0; a < 3; a++) kernel.launches[0].grid[a].value = cases[i].blocks[a];
    check_ok(load(&device, TN__SOURCE_CUDA, counting, &kernel, &code));
    snprintf(says, sizeof says, NAME "the kernel \"count_on\" %s", cases[i].says);
    check_fails(launch_on(&code, memory), TN_UNSUPPORTED, says);
    driver->unload_code(&device, &code);
  }
  void *none;
  check_fails(driver->allocate(&device, 1 << 30, &none), TN_OUT_OF_MEMORY,
              NAME
              "out of memory: it has 1073741824 bytes, and 1073741824 more are asked for: the driver says "
              "CUDA_ERROR_OUT_OF_MEMORY (2)");
  driver->free(&device, memory, 8);
  end(&device);
}

/* A device that is newer than the compiler gets PTX of what that knows. */
static void test_newer_and_older_devices(void **state) {
  tn__device device;
  tn__device_code code;
  void *memory;
  int32_t result;
  int64_t word = 1;
  setenv("FAKE_CUDA_ARCHITECTURE", "9999", 1);
  begin(&device);
  check_ok(load(&device, TN__SOURCE_CUDA, counting, &usual, &code));
  check_ok(driver->allocate(&device, 8, &memory));
  check_ok(driver->copy(&stream, TN__COPY_IN, memory, &word, 8));
  check_ok(launch_on(&code, memory));
  check_ok(driver->wait(&stream, &result));
  check_ok(driver->copy(&stream, TN__COPY_OUT, &word, memory, 8));
  assert_int_equal(word, 8);
  driver->free(&device, memory, 8);
  driver->unload_code(&device, &code);
  end(&device);
  setenv("FAKE_CUDA_ARCHITECTURE", "20", 1);
  begin(&device);
  check_fails(load(&device, TN__SOURCE_CUDA, counting, &usual, &code), TN_UNSUPPORTED,
              NAME "the compiler for its kernels knows nothing that sm_20 runs: install another NVRTC");
  end(&device);
  unsetenv("FAKE_CUDA_ARCHITECTURE");
}

/* Memory of the host's that both know by one address: what is copied there is there, for the device as for the host. */
static void test_pinned_memory(void **state) {
  static const int64_t word = 41;
  tn__device device;
  tn__device_limits limits;
  void *memory = &device;
  int64_t got;
  begin(&device);
  device.scope = TN__MEMORY_HOST_PINNED;
  driver->limits(&device, &limits);
  assert_int_equal(limits.memory_bytes, 0); /* so no quarter of it is kept for later */
  check_ok(driver->allocate(&device, 8, &memory));
  check_ok(driver->copy(&stream, TN__COPY_IN, memory, &word, 8));
  memcpy(&got, memory, 8);
  assert_int_equal(got, word);
  driver->free(&device, memory, 8);
  char words[256];
  snprintf(words, sizeof words,
           NAME "out of memory: this machine has %zu bytes, and %zu are asked for of host-pinned memory",
           limits.most_bytes, limits.most_bytes + 1);
  check_fails(driver->allocate(&device, limits.most_bytes + 1, &memory), TN_OUT_OF_MEMORY, words);
  assert_null(memory);
  check_fails(driver->allocate(&device, (size_t)2 << 30, &memory), TN_OUT_OF_MEMORY,
              NAME
              "out of memory: 2147483648 bytes are asked for of host-pinned memory: the driver says "
              "CUDA_ERROR_OUT_OF_MEMORY (2)");
  assert_null(memory);
  device.scope = TN__MEMORY_GLOBAL;
  end(&device);
  setenv("FAKE_CUDA_UNIFIED", "0", 1);
  begin(&device);
  device.scope = TN__MEMORY_HOST_PINNED;
  check_fails(driver->allocate(&device, 8, &memory), TN_UNSUPPORTED,
              NAME "it does not read the host's memory at the host's addresses, so there is no host-pinned memory");
  device.scope = TN__MEMORY_GLOBAL;
  end(&device);
  unsetenv("FAKE_CUDA_UNIFIED");
}

static void test_missing_devices(void **state) {
  tn__device device = {.driver = driver, .id = 2};
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  check_fails(driver->open(&device), TN_NOT_FOUND,
              "there is no cuda:2; there is cuda:0 (Fake GPU), cuda:1 (Fake GPU), which may take its place: --map "
              "cuda:2=cuda:1 (tn_load_options.device_map)");
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  check_fails(driver->open(&device), TN_NOT_FOUND,
              "there is no cuda:2: NVIDIA's driver knows no device on this machine");
  unsetenv("FAKE_CUDA_DEVICES");
  /* Without the compiler there are devices, but no kernels for them. */
  const char *nvrtc = getenv("TENON_NVRTC");
  assert_non_null(nvrtc);
  char *own = strdup(nvrtc == NULL ? "" : nvrtc);
  tn__device_code code;
  setenv("TENON_NVRTC", "/none/libnvrtc.so", 1);
  begin(&device);
  check_fails(load(&device, TN__SOURCE_CUDA, counting, &usual, &code), TN_NOT_FOUND,
              NAME
              "there is no compiler for its kernels (/none/libnvrtc.so: cannot open shared object file: No such "
              "file or directory): install NVRTC of CUDA 11.2 or later, or name its libnvrtc.so in TENON_NVRTC");
  end(&device);
  setenv("TENON_NVRTC", own, 1);
  free(own);
}

/* ---- programs on disk -------------------------------------------------------------------------------------------- */

static void load_and_run(tn__device *device, int64_t number) {
  tn__device_code code;
  void *memory;
  int32_t result;
  int64_t word = number;
  char text[sizeof counting + 32];
  snprintf(text, sizeof text, "/* %lld */ %s", (long long)number, counting);
  check_ok(load(device, TN__SOURCE_CUDA, text, &usual, &code));
  check_ok(driver->allocate(device, 8, &memory));
  check_ok(driver->copy(&stream, TN__COPY_IN, memory, &word, 8));
  check_ok(launch_on(&code, memory));
  check_ok(driver->wait(&stream, &result));
  check_ok(driver->copy(&stream, TN__COPY_OUT, &word, memory, 8));
  assert_int_equal(word, 3 * number + 5);
  driver->free(device, memory, 8);
  driver->unload_code(device, &code);
}

static void test_programs_are_kept(void **state) {
  tn__device device;
  begin(&device);
  check_programs_are_kept(&device, load_and_run, *state);
  end(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limits_are_told),
      cmocka_unit_test(test_contexts_are_kept),
      cmocka_unit_test(test_a_text_that_is_refused),
      cmocka_unit_test(test_launches_beyond_the_limits),
      cmocka_unit_test(test_kernels_keep_to_the_devices_limits),
      cmocka_unit_test(test_newer_and_older_devices),
      cmocka_unit_test(test_missing_devices),
      cmocka_unit_test(test_pinned_memory),
      cmocka_unit_test(test_programs_are_kept),
  };
  return cmocka_run_group_tests_name("cuda driver", tests, find_device, remove_caches);
}
