/* Memory through the public API, from an ONNX model to its runs: refused allocations, and what many runs cost. */
#include <malloc.h>
#include <unistd.h>

#include "unit/check.h"

#include "tenon/compile.h"
#include "unit/failing_allocator.h"
#include "unit/onnx_build.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OTHER_HEAP 1 /* its heap knows no mallinfo, and keeps freed blocks and stacks resident for a while */
#endif
#endif
#ifndef OTHER_HEAP
#define OTHER_HEAP 0
#endif

enum { INNER = 24, OUTER = 10, ROWS = 5 };

/* y = softmax(relu(x w + b) w2), with `rows` rows of x: weights that get packed, a row kernel, a value in the arena. */
static pb perceptron(const char *rows) {
  float numbers[INNER * INNER];
  for (int i = 0; i < INNER * INNER; i++) numbers[i] = (float)(i * 7 % 13 - 6) / 20.0f;
  char in[32], out[32];
  snprintf(in, sizeof in, "%s,%d", rows, INNER);
  snprintf(out, sizeof out, "%s,%d", rows, OUTER);
  pb graph = {0};
  onnx_node(&graph, "Gemm", "first", "x,w,b", "h");
  onnx_node(&graph, "Relu", "relu", "h", "r");
  onnx_node(&graph, "MatMul", "second", "r,w2", "l");
  onnx_node(&graph, "Softmax", "softmax", "l", "y");
  onnx_raw(&graph, "w", ONNX_FLOAT, (int64_t[]){INNER, INNER}, 2, numbers, sizeof numbers);
  onnx_raw(&graph, "b", ONNX_FLOAT, (int64_t[]){INNER}, 1, numbers, INNER * sizeof(float));
  onnx_raw(&graph, "w2", ONNX_FLOAT, (int64_t[]){INNER, OUTER}, 2, numbers, INNER * OUTER * sizeof(float));
  onnx_input(&graph, "x", ONNX_FLOAT, in);
  onnx_output(&graph, "y", ONNX_FLOAT, out);
  return onnx_model(17, &graph);
}

static tn_compile_options plain_options(const tn_allocator *allocator) {
  return (tn_compile_options){.size = sizeof(tn_compile_options),
                              .no_cache = true,
                              .run_threads = 1,
                              .compile_threads = 1,
                              .allocator = allocator};
}

/* ---- many runs --------------------------------------------------------------------------------------------------- */

typedef struct loaded {
  failing_allocator memory;
  tn_executable *executable;
  tn_session *session;
} loaded;

/* Loads and prepares with an allocator that counts. `k` must stay where it is. */
static void load(loaded *k, const char *rows, int threads) {
  pb model = perceptron(rows);
  tn_compile_options options = plain_options(NULL);
  tn_module *module;
  check_ok(tn_compile("m.onnx", model.data, model.size, &options, &module));
  failing_allocator_init(&k->memory, -1);
  tn_load_options load_options = {.size = sizeof load_options, .allocator = &k->memory.allocator};
  check_ok(tn_module_load(module, &load_options, &k->executable));
  tn_session_options session_options = {
      .size = sizeof session_options, .allocator = &k->memory.allocator, .threads = threads};
  check_ok(tn_session_create(k->executable, &session_options, &k->session));
  tn_module_release(module);
  pb_free(&model);
}

/* A weight is packed from where the model has it to where the executable will. */
static void compiling_holds_weights_once(void **state) {
  enum { SIDE = 2048, BASE = 4 << 20 };
  const size_t weights = (size_t)SIDE * SIDE * sizeof(float);
  float *numbers = test_malloc(weights);
  for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) numbers[i] = (float)(i * 7 % 13) / 20.0f;
  pb graph = {0};
  onnx_node(&graph, "MatMul", "product", "x,w", "y");
  onnx_raw(&graph, "w", ONNX_FLOAT, (int64_t[]){SIDE, SIDE}, 2, numbers, weights);
  onnx_input(&graph, "x", ONNX_FLOAT, "16,2048");
  onnx_output(&graph, "y", ONNX_FLOAT, "16,2048");
  pb model = onnx_model(17, &graph);
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_compile_options options = plain_options(&memory.allocator);
  tn_module *module;
  check_ok(tn_compile("m.onnx", model.data, model.size, &options, &module));
  assert_true(memory.peak_bytes > weights); /* or nothing was measured */
  assert_true(memory.peak_bytes < weights + BASE);
  assert_true(memory.live_bytes > weights && memory.live_bytes < weights + BASE);
  tn_module_release(module);
  assert_int_equal(memory.live_count, 0);
  pb_free(&model);
  test_free(numbers);
}

static void unload(loaded *k) {
  tn_session_release(k->session);
  tn_executable_release(k->executable);
  assert_int_equal(k->memory.live_count, 0);
}

static void invoke(loaded *k, int rows) {
  static _Alignas(64) float x[ROWS * INNER];
  for (int i = 0; i < ROWS * INNER; i++) x[i] = (float)(i % 11) / 11.0f;
  int64_t shape[] = {rows, INNER};
  DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_F32), .shape = shape}, out;
  check_ok(tn_session_set_input(k->session, NULL, "x", &in, TN_BIND_NEXT));
  check_ok(tn_session_invoke(k->session, NULL));
  check_ok(tn_session_get_output(k->session, NULL, 0, &out));
  double sum = 0;
  for (int i = 0; i < OUTER; i++) sum += (double)((const float *)out.data)[(rows - 1) * OUTER + i];
  assert_true(sum > 0.999 && sum < 1.001);
}

/* What is printed beforehand is kept to: constants in the file's pages, the rest through the allocator. */
static void memory_stays_below_what_was_promised(void **state) {
  loaded k;
  load(&k, "5", 2);
  const tn_executable_summary *summary = tn_executable_summarize(k.executable);
  for (int i = 0; i < 5; i++) invoke(&k, ROWS);
  assert_true(summary->constant_bytes > INNER * INNER * sizeof(float));
  assert_true((int64_t)(k.memory.peak_bytes + summary->constant_bytes) <= summary->peak_bytes);
  assert_true(summary->peak_bytes < (5 << 20)); /* or it promised nothing */
  unload(&k);
  load(&k, "rows", 1);
  summary = tn_executable_summarize(k.executable);
  assert_int_equal(summary->peak_bytes, -1);
  unload(&k);
}

static long resident_pages(void) {
  long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
  fclose(file);
  return resident;
}

static void expect_constant_memory(const char *rows, int least_rows, int threads) {
  loaded k;
  load(&k, rows, threads);
  for (int n = least_rows; n <= ROWS; n++) invoke(&k, n);
  int calls = k.memory.calls;
  size_t live = k.memory.live_bytes, heap = mallinfo2().uordblks;
  long pages = resident_pages();
  for (int i = 0; i < 1000; i++) invoke(&k, least_rows + i % (ROWS + 1 - least_rows));
  assert_int_equal(k.memory.calls, calls);
  assert_int_equal(k.memory.live_bytes, live);
  assert_int_equal(mallinfo2().uordblks, heap); /* nothing beside the allocator either */
  if (!OTHER_HEAP) assert_true((resident_pages() - pages) * sysconf(_SC_PAGESIZE) < 512 * 1024);
  unload(&k);
}

static void a_thousand_runs_allocate_nothing(void **state) { expect_constant_memory("5", ROWS, 1); }

static void a_thousand_runs_of_changing_shapes_allocate_nothing(void **state) { expect_constant_memory("rows", 1, 1); }

static void a_thousand_runs_on_two_threads_allocate_nothing(void **state) { expect_constant_memory("rows", 1, 2); }

/* ---- no memory --------------------------------------------------------------------------------------------------- */

static int compile_with_refusal(const pb *model, int fail_at, bool *done) {
  failing_allocator memory;
  failing_allocator_init(&memory, fail_at);
  tn_compile_options options = plain_options(&memory.allocator);
  tn_module *module;
  tn_status *status = tn_compile("m.onnx", model->data, model->size, &options, &module);
  *done = status == NULL;
  if (status != NULL && tn_status_code_of(status) != TN_OUT_OF_MEMORY)
    fail_msg("refused allocation %d: %s", fail_at, tn_status_message(status));
  tn_status_free(status);
  tn_module_release(module);
  if (memory.live_count != 0) fail_msg("refused allocation %d: %d are lost", fail_at, memory.live_count);
  return memory.calls;
}

/* Some dozens of them: each is a whole compilation. The first and last steps of a compilation are tried one by one. */
static void compiling_survives_every_refused_allocation(void **state) {
  pb model = perceptron("rows");
  bool done;
  int calls = compile_with_refusal(&model, -1, &done);
  assert_true(done);
  assert_true(calls > 20);
  int step = calls / 40 + 1, refused = 0;
  for (int i = 0; i < calls; i += i < 10 || i > calls - 20 ? 1 : step) {
    compile_with_refusal(&model, i, &done);
    refused += !done;
  }
  assert_true(refused > 20);
  pb_free(&model);
}

static void loading_survives_every_refused_allocation(void **state) {
  pb model = perceptron("rows");
  tn_compile_options options = plain_options(NULL);
  tn_module *module;
  check_ok(tn_compile("m.onnx", model.data, model.size, &options, &module));
  int refused = 0;
  for (int fail_at = 0;; fail_at++) {
    loaded k = {0};
    failing_allocator_init(&k.memory, fail_at);
    tn_load_options load_options = {.size = sizeof load_options, .allocator = &k.memory.allocator};
    tn_session_options session_options = {
        .size = sizeof session_options, .allocator = &k.memory.allocator, .threads = 2};
    tn_status *status = tn_module_load(module, &load_options, &k.executable);
    if (status == NULL) status = tn_session_create(k.executable, &session_options, &k.session);
    if (status != NULL) assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    bool done = status == NULL;
    refused += !done;
    tn_status_free(status);
    unload(&k);
    if (done) break;
  }
  assert_true(refused > 5);
  tn_module_release(module);
  pb_free(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(compiling_holds_weights_once),
                                     cmocka_unit_test(memory_stays_below_what_was_promised),
                                     cmocka_unit_test(a_thousand_runs_allocate_nothing),
                                     cmocka_unit_test(a_thousand_runs_of_changing_shapes_allocate_nothing),
                                     cmocka_unit_test(a_thousand_runs_on_two_threads_allocate_nothing),
                                     cmocka_unit_test(compiling_survives_every_refused_allocation),
                                     cmocka_unit_test(loading_survives_every_refused_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
