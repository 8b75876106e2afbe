/* Executables of several functions, functions for special sizes, and outputs that take their inputs' memory: compiled
 * from ONNX models, run through the public API. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/compile_onnx.h"
#include "unit/failing_allocator.h"

/* ---- a cache that is updated in place --------------------------------------------------------------------------- */

enum { TOKENS = 1000, WIDTH = 1024 }; /* a row is a page */

typedef enum cache_kind {
  SCATTER_ND,
  SCATTER_ELEMENTS,
  TENSOR_SCATTER,
  TRANSPOSED_ND, /* [batch, heads, rows, WIDTH], and a ScatterND between transposes that bring the rows in front */
  TRANSPOSED_ELEMENTS, /* the same by ScatterElements */
  ONE_HEAD,            /* as TRANSPOSED_ND, but the transposes are reshapes */
  MASKED,              /* [batch, heads, rows, WIDTH], by a Where over a mask of positions */
  OPEN_SIZES,          /* as TRANSPOSED_ND, for any number of sequences and of rows */
  CACHE_KINDS
} cache_kind;

/* As exporters write Tensor.index_copy_ of a cache [1, heads, rows, WIDTH]. */
static pb transposed_model(cache_kind kind) {
  const char *cache = kind == ONE_HEAD ? "1,1,1000,1024" : kind == OPEN_SIZES ? "n,2,rows,1024" : "1,2,1000,1024";
  const char *row = kind == ONE_HEAD ? "1,1,1,1024" : kind == OPEN_SIZES ? "n,2,1,1024" : "1,2,1,1024";
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, row);
  onnx_input(&graph, "at", ONNX_INT64, kind == TRANSPOSED_ELEMENTS ? "1,1,2,1024" : "1,1");
  onnx_input(&graph, "past.0.key", ONNX_FLOAT, cache);
  onnx_input(&graph, "row", ONNX_INT64, "1");
  static const char *const moved[2][2] = {{"past.0.key", "rows"}, {"x", "update"}};
  for (int i = 0; i < 2; i++) {
    pb transpose = onnx_node_begin("Transpose", moved[i][1], moved[i][0], moved[i][1]);
    onnx_attr_ints(&transpose, "perm", (int64_t[]){2, 0, 1, 3}, 4);
    pb_message(&graph, 1, &transpose);
  }
  onnx_node(&graph, kind == TRANSPOSED_ELEMENTS ? "ScatterElements" : "ScatterND", "write", "rows,at,update",
            "written");
  pb back = onnx_node_begin("Transpose", "back", "written", "present.0.key");
  onnx_attr_ints(&back, "perm", (int64_t[]){1, 2, 0, 3}, 4);
  pb_message(&graph, 1, &back);
  pb gather = onnx_node_begin("Gather", "read", "present.0.key,row", "got");
  onnx_attr_int(&gather, "axis", 2);
  pb_message(&graph, 1, &gather);
  onnx_node(&graph, "Add", "double", "got,got", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, row);
  onnx_output(&graph, "present.0.key", ONNX_FLOAT, cache);
  return onnx_model(18, &graph);
}

/* present = Where(arange == at, x, past), as exporters write a cache that is updated by a one-hot mask. */
static pb masked_model(void) {
  static int64_t places[TOKENS];
  for (int64_t i = 0; i < TOKENS; i++) places[i] = i;
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "1,2,1,1024");
  onnx_input(&graph, "at", ONNX_INT64, "1,1");
  onnx_input(&graph, "past.0.key", ONNX_FLOAT, "1,2,1000,1024");
  onnx_input(&graph, "row", ONNX_INT64, "1");
  onnx_raw(&graph, "places", ONNX_INT64, (int64_t[]){TOKENS}, 1, places, sizeof places);
  onnx_raw(&graph, "axes", ONNX_INT64, (int64_t[]){2}, 1, (int64_t[]){1, 3}, 16);
  onnx_node(&graph, "Equal", "compare", "places,at", "hit");
  onnx_node(&graph, "Unsqueeze", "widen", "hit,axes", "mask");
  onnx_node(&graph, "Where", "write", "mask,x,past.0.key", "present.0.key");
  pb gather = onnx_node_begin("Gather", "read", "present.0.key,row", "got");
  onnx_attr_int(&gather, "axis", 2);
  pb_message(&graph, 1, &gather);
  onnx_node(&graph, "Add", "double", "got,got", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "1,2,1,1024");
  onnx_output(&graph, "present.0.key", ONNX_FLOAT, "1,2,1000,1024");
  return onnx_model(18, &graph);
}

/* Writes x into row `at` of the cache, and reads that row back: y = 2 row. */
static pb cache_model(cache_kind kind) {
  if (kind == MASKED) return masked_model();
  if (kind >= TRANSPOSED_ND) return transposed_model(kind);
  pb graph = {0};
  const char *cache = kind == TENSOR_SCATTER ? "1,1000,1024" : "1000,1024";
  onnx_input(&graph, "x", ONNX_FLOAT, kind == TENSOR_SCATTER ? "1,1,1024" : "1,1024");
  onnx_input(&graph, "at", ONNX_INT64, kind == SCATTER_ND ? "1,1" : kind == SCATTER_ELEMENTS ? "1,1024" : "1");
  onnx_input(&graph, "past.0.key", ONNX_FLOAT, cache);
  onnx_input(&graph, "row", ONNX_INT64, "1");
  if (kind == SCATTER_ND) onnx_node(&graph, "ScatterND", "update", "past.0.key,at,x", "present.0.key");
  if (kind == SCATTER_ELEMENTS) onnx_node(&graph, "ScatterElements", "update", "past.0.key,at,x", "present.0.key");
  if (kind == TENSOR_SCATTER) onnx_node(&graph, "TensorScatter", "update", "past.0.key,x,at", "present.0.key");
  pb gather = onnx_node_begin("Gather", "read", "present.0.key,row", "got");
  onnx_attr_int(&gather, "axis", kind == TENSOR_SCATTER ? 1 : 0);
  pb_message(&graph, 1, &gather);
  onnx_node(&graph, "Add", "double", "got,got", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, kind == TENSOR_SCATTER ? "1,1,1024" : "1,1024");
  onnx_output(&graph, "present.0.key", ONNX_FLOAT, cache);
  return onnx_model(kind == TENSOR_SCATTER ? 24 : 18, &graph);
}

typedef struct decode {
  tn_session *session;
  float *cache;
  int heads; /* caches of TOKENS rows each, one behind the other */
  _Alignas(64) float x[2 * WIDTH], y[2 * WIDTH];
  _Alignas(64) int64_t at[2 * WIDTH], row[8];
} decode;

/* The shapes without their leading dimensions of 1, as far as `rank`. */
static void bind_cache(decode *d, cache_kind kind) {
  int rank = kind < TENSOR_SCATTER ? 2 : kind == TENSOR_SCATTER ? 3 : 4, skip = 4 - rank;
  int64_t small[4] = {1, d->heads, 1, WIDTH}, large[4] = {1, d->heads, TOKENS, WIDTH}, one[1] = {1};
  int64_t at[4] = {1, 1, d->heads, WIDTH}; /* of TRANSPOSED_ELEMENTS; a part of it for the others */
  if (kind != SCATTER_ELEMENTS && kind != TRANSPOSED_ELEMENTS) at[2] = at[3] = 1;
  int at_rank = kind == TRANSPOSED_ELEMENTS ? 4 : kind == TENSOR_SCATTER ? 1 : 2;
  DLTensor inputs[4] = {tensor_of(TN_F32, rank, small + skip, d->x),
                        tensor_of(TN_I64, at_rank, at + 4 - at_rank, d->at),
                        tensor_of(TN_F32, rank, large + skip, d->cache), tensor_of(TN_I64, 1, one, d->row)};
  DLTensor outputs[2] = {tensor_of(TN_F32, rank, small + skip, d->y), inputs[2]};
  check_ok(tn_session_set_inputs(d->session, NULL, NULL, inputs, 4, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_outputs(d->session, NULL, NULL, outputs, 2, TN_BIND_PERSISTENT_IN_PLACE));
}

/* The rows but those that a step writes are not writable: a copy of the cache would be the end of the test. */
static void run_tokens(decode *d, failing_allocator *memory) {
  size_t page = WIDTH * sizeof(float), all = (size_t)d->heads * TOKENS * page;
  for (int64_t token = 0; token < TOKENS; token++) {
    for (int i = 0; i < d->heads * WIDTH; i++) d->x[i] = (float)(token * 7 + i), d->at[i] = token;
    d->row[0] = token;
    assert_int_equal(mprotect(d->cache, all, PROT_READ), 0);
    for (int h = 0; h < d->heads; h++)
      assert_int_equal(mprotect(d->cache + (h * TOKENS + token) * WIDTH, page, PROT_READ | PROT_WRITE), 0);
    if (token == 1) memory->fail_at = memory->calls; /* from the second on, nothing is allocated */
    check_ok(tn_session_invoke(d->session, NULL));
    for (int i = 0; i < d->heads * WIDTH; i += 97) assert_true(d->y[i] == 2 * d->x[i]);
  }
  assert_int_equal(memory->calls, memory->fail_at);
  for (int h = 0; h < d->heads; h++)
    for (int64_t token = 0; token < TOKENS; token++)
      assert_true(d->cache[(h * TOKENS + token) * WIDTH + 3] == (float)(token * 7 + h * WIDTH + 3));
}

static void caches_are_updated_in_place(void **state) {
  if (sysconf(_SC_PAGESIZE) != WIDTH * sizeof(float)) skip_because("a row of the cache is not a page of this machine");
  tn_alias_setting alias = {"present.*", "past.*"};
  tn_compile_options options = plain();
  options.aliases = &alias, options.alias_count = 1;
  static decode d;
  for (cache_kind kind = 0; kind < CACHE_KINDS; kind++) {
    tn_executable *exe = compile_one(cache_model(kind), &options);
    assert_int_equal(tn_executable_output_alias(exe, NULL, 1), 2);
    failing_allocator memory;
    failing_allocator_init(&memory, -1);
    d.session = open_session(exe, &memory.allocator);
    d.heads = kind >= TRANSPOSED_ND && kind != ONE_HEAD ? 2 : 1;
    size_t bytes = (size_t)d.heads * TOKENS * WIDTH * sizeof(float);
    d.cache = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(d.cache != MAP_FAILED);
    bind_cache(&d, kind);
    run_tokens(&d, &memory);
    memory.fail_at = -1;
    tn_session_release(d.session);
    munmap(d.cache, bytes);
    tn_executable_release(exe);
  }
}

/* b2 = Where(arange(n) `operator` at, x, b), with a position for each of two batches. */
static pb open_mask_model(const char *operator) {
  pb graph = {0};
  onnx_input(&graph, "b", ONNX_FLOAT, "2,n,3");
  onnx_input(&graph, "at", ONNX_INT32, "2,1");
  onnx_input(&graph, "x", ONNX_FLOAT, "2,1,3");
  onnx_raw(&graph, "one", ONNX_INT64, (int64_t[]){1}, 0, (int64_t[]){1}, 8);
  onnx_raw(&graph, "zero", ONNX_INT64, (int64_t[]){1}, 0, (int64_t[]){0}, 8);
  onnx_raw(&graph, "last", ONNX_INT64, (int64_t[]){1}, 1, (int64_t[]){-1}, 8);
  onnx_node(&graph, "Shape", "measure", "b", "shape");
  onnx_node(&graph, "Gather", "pick", "shape,one", "n");
  onnx_node(&graph, "Range", "count", "zero,n,one", "places");
  pb cast = onnx_node_begin("Cast", "cast", "at", "wide");
  onnx_attr_int(&cast, "to", ONNX_INT64);
  pb_message(&graph, 1, &cast);
  onnx_node(&graph, operator, "compare", "places,wide", "hit");
  onnx_node(&graph, "Unsqueeze", "widen", "hit,last", "mask");
  onnx_node(&graph, "Where", "write", "mask,x,b", "b2");
  onnx_output(&graph, "b2", ONNX_FLOAT, "2,n,3");
  return onnx_model(18, &graph);
}

/* What is written by a mask is the same as a write of its positions, of those that are none, too; other masks are left
 * as they are. */
static void masks_of_positions_are_writes(void **state) {
  enum { ROWS = 4, SIZE = 2 * ROWS * 3 };
  static const tn_alias_setting alias = {"b2", "b"};
  static const char *const operators[] = {"Equal", "LessOrEqual"};
  static const int32_t positions[][2] = {{0, 3}, {2, 2}, {-1, 1}, {3, 4}, {INT32_MIN, INT32_MAX}};
  for (int k = 0; k < 2; k++) {
    tn_compile_options options = plain(), copies = plain();
    options.aliases = &alias, options.alias_count = 1;
    tn_executable *exe = compile_one(open_mask_model(operators[k]), &options);
    tn_executable *other = compile_one(open_mask_model(operators[k]), &copies);
    bool written = false;
    for (int i = 0; i < tn_executable_summarize(exe)->kernel_count; i++)
      written = written || strncmp(tn_executable_kernel(exe, i)->name, "write_at", 8) == 0;
    assert_true(written == (k == 0));
    tn_session *session = open_session(exe, NULL), *copying = open_session(other, NULL);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
      static _Alignas(64) float b[SIZE], want[SIZE], x[6] = {-1, -2, -3, -4, -5, -6};
      _Alignas(64) int32_t at[2] = {positions[i][0], positions[i][1]};
      for (int e = 0; e < SIZE; e++) b[e] = (float)e;
      int64_t shape[3] = {2, ROWS, 3}, places[2] = {2, 1}, row[3] = {2, 1, 3};
      DLTensor inputs[3] = {tensor_of(TN_F32, 3, shape, b), tensor_of(TN_I32, 2, places, at),
                            tensor_of(TN_F32, 3, row, x)};
      DLTensor output = tensor_of(TN_F32, 3, shape, want);
      check_ok(tn_session_invoke_with_outputs(copying, NULL, inputs, 3, &output, 1));
      output = inputs[0];
      check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, 3, &output, 1));
      assert_memory_equal(b, want, sizeof b);
    }
    tn_session_release(session), tn_session_release(copying);
    tn_executable_release(exe), tn_executable_release(other);
  }
}

/* ---- other results over their inputs ---------------------------------------------------------------------------- */

/* a2 = a * a (element by element), b2 = transpose(b) + a2 (not so: made elsewhere), c passed through; a and b are read
 * by both. */
static pb mixed_model(void) {
  pb graph = {0};
  onnx_input(&graph, "a", ONNX_FLOAT, "n,n");
  onnx_input(&graph, "b", ONNX_FLOAT, "n,n");
  onnx_input(&graph, "c", ONNX_FLOAT, "n,n");
  onnx_node(&graph, "Mul", "square", "a,a", "a2");
  onnx_node(&graph, "Transpose", "turn", "b", "bt");
  onnx_node(&graph, "Add", "sum", "bt,a2", "b2");
  onnx_node(&graph, "Identity", "same", "c", "c2");
  onnx_output(&graph, "a2", ONNX_FLOAT, "n,n");
  onnx_output(&graph, "b2", ONNX_FLOAT, "n,n");
  onnx_output(&graph, "c2", ONNX_FLOAT, "n,n");
  return onnx_model(18, &graph);
}

static void any_output_may_alias(void **state) {
  static const tn_alias_setting alias[2] = {{"*2", "*"}, {"b2", "b"}};
  tn_compile_options options = plain();
  options.aliases = alias, options.alias_count = 2;
  pb model = mixed_model();
  tn_module *module;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
              "no output \"b2\" with an input \"b\" to alias"); /* the first pattern had it */
  options.alias_count = 1;
  tn_executable *exe = compile_one(model, &options);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float data[3][256];
  for (int64_t n = 2; n <= 16; n += 7) {
    int64_t shape[2] = {n, n};
    DLTensor tensors[3];
    for (int t = 0; t < 3; t++) {
      assert_int_equal(tn_executable_output_alias(exe, NULL, t), t);
      tensors[t] = tensor_of(TN_F32, 2, shape, data[t]);
      for (int i = 0; i < n * n; i++) data[t][i] = (float)(t * 100 + i);
    }
    check_ok(tn_session_invoke_with_outputs(session, NULL, tensors, 3, tensors, 3));
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        float a = (float)(i * n + j);
        assert_true(data[0][i * n + j] == a * a);
        assert_true(data[1][i * n + j] == (float)(100 + j * n + i) + a * a);
        assert_true(data[2][i * n + j] == 200 + a);
      }
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

static void aliases_need_equal_types(void **state) {
  pb graph = {0};
  onnx_input(&graph, "a", ONNX_FLOAT, "4,2");
  onnx_node(&graph, "Transpose", "turn", "a", "b");
  onnx_output(&graph, "b", ONNX_FLOAT, "2,4");
  pb model = onnx_model(18, &graph);
  tn_alias_setting alias = {"b", "a"};
  tn_compile_options options = plain();
  options.aliases = &alias, options.alias_count = 1;
  tn_module *module;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
              "output \"b\" cannot alias input \"a\": their types or shapes differ");
  pb_free(&model);
}

/* ---- several functions ------------------------------------------------------------------------------------------ */

enum { SIDE = 16 };

/* y = relu(x w), with the same weights in every model; `bias` sets them apart. */
static pb layer(const char *rows, float bias) {
  float w[SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE; i++) w[i] = (float)(i % 7 - 3);
  char shape[32];
  snprintf(shape, sizeof shape, "%s,%d", rows, SIDE);
  pb graph = {0};
  onnx_node(&graph, "MatMul", "product", "x,w", "p");
  onnx_node(&graph, "Add", "add", "p,b", "s");
  onnx_node(&graph, "Relu", "relu", "s", "y");
  onnx_raw(&graph, "w", ONNX_FLOAT, (int64_t[]){SIDE, SIDE}, 2, w, sizeof w);
  onnx_raw(&graph, "b", ONNX_FLOAT, NULL, 0, &bias, sizeof bias);
  onnx_input(&graph, "x", ONNX_FLOAT, shape);
  onnx_output(&graph, "y", ONNX_FLOAT, shape);
  return onnx_model(18, &graph);
}

static void check_layer(tn_session *session, const char *function, int64_t rows, float bias) {
  static _Alignas(64) float x[64 * SIDE], y[64 * SIDE];
  int64_t shape[2] = {rows, SIDE};
  for (int i = 0; i < rows * SIDE; i++) x[i] = (float)(i % 5 - 2), y[i] = -1;
  DLTensor in = tensor_of(TN_F32, 2, shape, x), out = tensor_of(TN_F32, 2, shape, y);
  check_ok(tn_session_invoke_with_outputs(session, function, &in, 1, &out, 1));
  for (int64_t r = 0; r < rows; r++)
    for (int c = 0; c < SIDE; c++) {
      float sum = bias;
      for (int k = 0; k < SIDE; k++) sum += x[r * SIDE + k] * (float)((k * SIDE + c) % 7 - 3);
      assert_true(y[r * SIDE + c] == (sum > 0 ? sum : 0));
    }
}

static void models_become_functions(void **state) {
  pb a = layer("seq", 1), b = layer("1", 2);
  tn_model_function functions[2] = {{"prefill", "a.onnx", a.data, a.size}, {"decode", "b.onnx", b.data, b.size}};
  tn_compile_options options = plain();
  tn_module *module;
  check_ok(tn_compile_functions(functions, 2, &options, &module));
  tn_executable *exe = load_module(module);
  assert_int_equal(tn_executable_function_count(exe), 2);
  assert_string_equal(tn_executable_function_name(exe, 0), "prefill");
  assert_string_equal(tn_executable_function_name(exe, 1), "decode");
  tn_session *session = open_session(exe, NULL);
  check_layer(session, NULL, 5, 1);
  check_layer(session, "prefill", 9, 1);
  check_layer(session, "decode", 1, 2);
  /* Each has its own bindings. */
  static _Alignas(64) float x[SIDE];
  int64_t shape[2] = {1, SIDE};
  DLTensor in = tensor_of(TN_F32, 2, shape, x);
  check_ok(tn_session_set_input(session, "decode", "x", &in, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(session, "decode"));
  check_fails(tn_session_invoke(session, "prefill"), TN_FAILED_PRECONDITION,
              "input \"x\" of function \"prefill\" is not bound");
  check_fails(tn_session_invoke(session, "train"), TN_NOT_FOUND,
              "the executable has no function \"train\"; it has \"prefill\", \"decode\"");
  tn_session_release(session);
  tn_executable_release(exe);
  functions[1].name = "prefill";
  check_fails(tn_compile_functions(functions, 2, &options, &module), TN_INVALID_ARGUMENT,
              "two functions are named \"prefill\"");
  functions[1].name = "a@b";
  check_fails(tn_compile_functions(functions, 2, &options, &module), TN_INVALID_ARGUMENT,
              "\"a@b\" cannot name a function: it is empty or has a '@'");
  pb_free(&a), pb_free(&b);
}

static void functions_share_constants_and_kernels(void **state) {
  pb a = layer("4", 1);
  tn_model_function functions[3] = {
      {"f", "a.onnx", a.data, a.size}, {"g", "a.onnx", a.data, a.size}, {"h", "a.onnx", a.data, a.size}};
  tn_compile_options options = plain();
  tn_executable_summary one, three;
  for (int count = 1; count <= 3; count += 2) {
    tn_module *module;
    check_ok(tn_compile_functions(functions, count, &options, &module));
    tn_executable *exe = load_module(module);
    *(count == 1 ? &one : &three) = *tn_executable_summarize(exe);
    tn_session *session = open_session(exe, NULL);
    for (int i = 0; i < count; i++) check_layer(session, functions[i].name, 4, 1);
    tn_session_release(session);
    tn_executable_release(exe);
  }
  assert_int_equal(one.constant_bytes, three.constant_bytes);
  assert_int_equal(one.kernel_count, three.kernel_count);
  assert_int_equal(one.code_bytes, three.code_bytes);
  pb_free(&a);
}

/* ---- special sizes ---------------------------------------------------------------------------------------------- */

static void note(void *user, const char *kernel, uint64_t start, uint64_t end) { *(const char **)user = kernel; }

static void special_sizes_have_their_own_code(void **state) {
  static const tn_dim_setting dims[2] = {{"seq", 1}, {"seq", 8}}, wrong = {"batch", 3};
  tn_compile_options options = plain();
  options.special_dims = dims, options.special_dim_count = 2;
  tn_executable *exe = compile_one(layer("seq", 3), &options);
  assert_int_equal(tn_executable_function_count(exe), 1); /* functions specialised for a size are inner */
  assert_string_equal(tn_executable_function_name(exe, 0), "main");
  assert_int_equal(tn_executable_input_count(exe, "main@seq=8"), -1);
  assert_int_equal(tn_executable_input(exe, NULL, 0)->dims[0]->size, -1);
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session *session = open_session(exe, &memory.allocator);
  const char *kernel = NULL, *of_8 = NULL, *of_9 = NULL, *of_10 = NULL;
  check_ok(tn_session_set_profile(session, note, (void *)&kernel));
  int calls = 0;
  for (int round = 0; round < 3; round++) {
    for (int64_t rows = 1; rows <= 40; rows++) {
      check_layer(session, NULL, rows, 3);
      if (rows == 8) of_8 = kernel;
      if (rows == 9) of_9 = kernel;
      if (rows == 10) of_10 = kernel;
    }
    if (round == 0) calls = memory.calls;
  }
  assert_int_equal(memory.calls, calls); /* shapes seen before allocate nothing */
  assert_string_equal(of_9, of_10);
  assert_string_not_equal(of_8, of_9);
  tn_session_release(session);
  tn_executable_release(exe);
  options.special_dims = &wrong, options.special_dim_count = 1;
  pb model = layer("seq", 3);
  tn_module *module;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
              "no dimension of an input is named \"batch\"");
  pb_free(&model);
}

static void several_special_dimensions_combine(void **state) {
  static const tn_dim_setting dims[4] = {{"rows", 1}, {"columns", 3}, {"rows", 2}, {"columns", 4}};
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "rows,columns");
  onnx_node(&graph, "Relu", "relu", "x", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "rows,columns");
  tn_compile_options options = plain();
  options.special_dims = dims, options.special_dim_count = 4;
  tn_executable *exe = compile_one(onnx_model(18, &graph), &options);
  static const char *const names[6] = {"function \"main\"(",
                                       "\nfunction \"main@any\"(",
                                       "\nfunction \"main@rows=1,columns=3\"(",
                                       "\nfunction \"main@rows=1,columns=4\"(",
                                       "\nfunction \"main@rows=2,columns=3\"(",
                                       "\nfunction \"main@rows=2,columns=4\"("};
  assert_int_equal(tn_executable_function_count(exe), 1);
  char *text;
  check_ok(tn_executable_disassemble(exe, &text));
  const char *at = text;
  for (int i = 0; i < 6; i++) {
    at = strstr(at, names[i]);
    assert_non_null(at);
    const char *inner = strstr(at, ", inner\n");
    assert_true((inner != NULL && inner < strchr(at + 1, '\n')) == (i > 0));
  }
  free(text);
  tn_executable_release(exe);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches_are_updated_in_place),
      cmocka_unit_test(masks_of_positions_are_writes),
      cmocka_unit_test(any_output_may_alias),
      cmocka_unit_test(aliases_need_equal_types),
      cmocka_unit_test(models_become_functions),
      cmocka_unit_test(functions_share_constants_and_kernels),
      cmocka_unit_test(special_sizes_have_their_own_code),
      cmocka_unit_test(several_special_dimensions_combine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
