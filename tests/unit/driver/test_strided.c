/* Inputs of any strides (tn_compile_options.strided): used where they lie, with the results of dense ones to the
 * bit. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/format/format.h"
#include "unit/compile_onnx.h"
#include "unit/failing_allocator.h"
#include "unit/rehash.h"

enum { MOST_ROWS = 300, ALL = MOST_ROWS * 40, OUTPUTS = 9, WIDTH = 5 };

static pb branch(const char *op, const char *operands) {
  pb graph = {0};
  onnx_node(&graph, op, "in_branch", operands, "chosen");
  onnx_output(&graph, "chosen", ONNX_FLOAT, "?,?");
  return graph;
}

/* Everything that a value can be wanted by, x of [n, 40]: maps, moves, rows, products, views, lists, branches, what the
 * caller gets as it is, and another input y, which stays dense. */
static pb every_kind(void) {
  pb graph = {0};
  static float weights[40 * WIDTH];
  for (int i = 0; i < 40 * WIDTH; i++) weights[i] = (float)(i % 11 - 5) / 8;
  onnx_input(&graph, "x", ONNX_FLOAT, "n,40");
  onnx_input(&graph, "y", ONNX_FLOAT, "n,40");
  onnx_input(&graph, "c", ONNX_BOOL, "");
  onnx_raw(&graph, "w", ONNX_FLOAT, (int64_t[]){40, WIDTH}, 2, weights, sizeof weights);
  onnx_raw(&graph, "zero", ONNX_INT64, (int64_t[]){1}, 1, &(int64_t){0}, sizeof(int64_t));
  onnx_raw(&graph, "flat", ONNX_INT64, (int64_t[]){1}, 1, &(int64_t){-1}, sizeof(int64_t));
  onnx_node(&graph, "Tanh", "bend", "x", "bent");
  onnx_node(&graph, "Add", "map", "bent,y", "mapped");
  pb turn = onnx_node_begin("Transpose", "turn", "x", "turned");
  onnx_attr_ints(&turn, "perm", (int64_t[]){1, 0}, 2);
  pb_message(&graph, 1, &turn);
  pb softmax = onnx_node_begin("Softmax", "weigh", "x", "weighed");
  onnx_attr_int(&softmax, "axis", 1);
  pb_message(&graph, 1, &softmax);
  onnx_node(&graph, "ReduceSum", "sum", "x,zero", "summed");
  onnx_node(&graph, "MatMul", "multiply", "x,w", "product");
  onnx_node(&graph, "Reshape", "shape", "x,flat", "shaped");
  onnx_node(&graph, "SequenceConstruct", "list", "x,y", "both");
  pb join = onnx_node_begin("ConcatFromSequence", "join", "both", "joined");
  onnx_attr_int(&join, "axis", 0);
  pb_message(&graph, 1, &join);
  pb choose = onnx_node_begin("If", "choose", "c", "branched"), yes = branch("Neg", "x"), no = branch("Add", "x,y");
  onnx_attr_graph(&choose, "then_branch", &yes);
  onnx_attr_graph(&choose, "else_branch", &no);
  pb_message(&graph, 1, &choose);
  onnx_node(&graph, "Identity", "pass", "x", "same");
  onnx_output(&graph, "mapped", ONNX_FLOAT, "n,40");
  onnx_output(&graph, "turned", ONNX_FLOAT, "40,n");
  onnx_output(&graph, "weighed", ONNX_FLOAT, "n,40");
  onnx_output(&graph, "summed", ONNX_FLOAT, "1,40");
  onnx_output(&graph, "product", ONNX_FLOAT, "n,5");
  onnx_output(&graph, "shaped", ONNX_FLOAT, "size");
  onnx_output(&graph, "joined", ONNX_FLOAT, "twice,40");
  onnx_output(&graph, "branched", ONNX_FLOAT, "?,?");
  onnx_output(&graph, "same", ONNX_FLOAT, "n,40");
  return onnx_model(18, &graph);
}

static const char *const any[] = {"x"};

static tn_compile_options strided(void) {
  tn_compile_options options = plain();
  options.strided = any, options.strided_count = 1;
  return options;
}

/* Strides of a view of rows of 40, for `rows` of them. */
typedef struct arrangement {
  const char *name;
  int64_t row, column; /* 0 and 0 with `turned`: of a transposed tensor */
  bool turned;
} arrangement;

static const arrangement arrangements[] = {
    {"transposed", 0, 0, true},        {"every second column", 80, 2, false}, {"every third row", 120, 1, false},
    {"rows backwards", -40, 1, false}, {"columns backwards", 40, -1, false},  {"both backwards", -80, -2, false},
    {"one row for all", 0, 1, false},  {"one element for all", 0, 0, false},  {"one column for all", 1, 0, false},
    {"overlapping rows", 3, 1, false},
};

typedef struct view {
  int64_t shape[2], strides[2];
  DLTensor tensor;
} view;

static int64_t below(int64_t size, int64_t stride) { return stride < 0 ? (1 - size) * stride : 0; }
static int64_t above(int64_t size, int64_t stride) { return stride > 0 ? (size - 1) * stride : 0; }

static int64_t span_of(const view *v) {
  int64_t span = 1;
  for (int i = 0; i < 2; i++) span += below(v->shape[i], v->strides[i]) + above(v->shape[i], v->strides[i]);
  return span;
}

static void arrange(view *v, const arrangement *a, int64_t rows) {
  *v = (view){.shape = {rows, 40}, .strides = {a->turned ? 1 : a->row, a->turned ? rows : a->column}};
  v->tensor = tensor_of(TN_F32, 2, v->shape, NULL);
  v->tensor.strides = v->strides;
}

static void place_at(view *v, float *lowest) {
  v->tensor.data = lowest + below(v->shape[0], v->strides[0]) + below(v->shape[1], v->strides[1]);
}

static void make_dense(const view *v, float *out) {
  const float *data = v->tensor.data;
  for (int64_t i = 0; i < v->shape[0]; i++)
    for (int64_t j = 0; j < v->shape[1]; j++) out[i * 40 + j] = data[i * v->strides[0] + j * v->strides[1]];
}

static float value_at(int64_t i) { return (float)(i * 31 % 101 - 50) / 16; }

/* Memory for `count` floats at the end of pages, or the start, that nothing but reading is allowed in; next to them
 * nothing is. */
typedef struct fence {
  char *pages;
  size_t size;
  float *data;
} fence;

static void put_up(fence *f, int64_t count, bool at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)count * sizeof(float);
  size_t inside = (bytes + page - 1) / page * page;
  f->size = inside + 2 * page;
  f->pages = mmap(NULL, f->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(f->pages != MAP_FAILED);
  assert_int_equal(mprotect(f->pages + page, inside, PROT_READ | PROT_WRITE), 0);
  f->data = (float *)(void *)(f->pages + page + (at_end ? inside - bytes : 0));
  for (int64_t i = 0; i < count; i++) f->data[i] = value_at(i);
  assert_int_equal(mprotect(f->pages + page, inside, PROT_READ), 0);
}

typedef struct results {
  float *data[OUTPUTS];
  int64_t count[OUTPUTS];
} results;

static void take_results(tn_session *session, results *r) {
  for (int i = 0; i < OUTPUTS; i++) {
    DLTensor out;
    check_ok(tn_session_get_output(session, NULL, i, &out));
    r->count[i] = tn_element_count(out.ndim, out.shape);
    r->data[i] = realloc(r->data[i], (size_t)r->count[i] * sizeof(float));
    assert_non_null(r->data[i]);
    memcpy(r->data[i], out.data, (size_t)r->count[i] * sizeof(float));
  }
}

static void drop_results(results *r) {
  for (int i = 0; i < OUTPUTS; i++) free(r->data[i]);
}

static void check_same(const arrangement *a, const results *got, const results *want) {
  for (int i = 0; i < OUTPUTS; i++)
    if (got->count[i] != want->count[i] ||
        memcmp(got->data[i], want->data[i], (size_t)got->count[i] * sizeof(float)) != 0)
      fail_msg("%s: output %d differs", a->name, i);
}

static _Alignas(64) float other[ALL], dense[ALL];

static void bind_others(tn_session *session, int64_t *shape, bool *condition) {
  DLTensor y = tensor_of(TN_F32, 2, shape, other), c = tensor_of(TN_BOOL, 0, NULL, condition);
  check_ok(tn_session_set_input(session, NULL, "y", &y, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(session, NULL, "c", &c, TN_BIND_PERSISTENT));
}

static void any_strides_give_the_same(void **state) {
  tn_compile_options with = strided(), without = plain();
  tn_executable *exe = compile_one(every_kind(), &with), *plainly = compile_one(every_kind(), &without);
  assert_true(tn_executable_input(exe, NULL, 0)->strided);
  assert_false(tn_executable_input(exe, NULL, 1)->strided || tn_executable_output(exe, NULL, 0)->strided);
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session *session = open_session(exe, &memory.allocator), *reference = open_session(plainly, NULL);
  results got = {0}, want = {0};
  for (int i = 0; i < ALL; i++) other[i] = value_at(3 * i);
  static const int64_t sizes[] = {1, 6, MOST_ROWS};
  for (size_t k = 0; k < 3 * sizeof arrangements / sizeof *arrangements; k++) {
    const arrangement *a = &arrangements[k / 3];
    view v;
    arrange(&v, a, sizes[k % 3]);
    fence f;
    put_up(&f, span_of(&v), k % 2 == 0);
    place_at(&v, f.data);
    make_dense(&v, dense);
    bool condition = k % 2 == 0;
    bind_others(session, v.shape, &condition);
    bind_others(reference, v.shape, &condition);
    DLTensor x = tensor_of(TN_F32, 2, v.shape, dense);
    check_ok(tn_session_set_input(reference, NULL, "x", &x, TN_BIND_NEXT));
    check_ok(tn_session_invoke(reference, NULL));
    take_results(reference, &want);
    check_ok(tn_session_set_input(session, NULL, "x", &v.tensor, TN_BIND_PERSISTENT_IN_PLACE));
    check_ok(tn_session_invoke(session, NULL));
    take_results(session, &got);
    check_same(a, &got, &want);
    memory.fail_at = memory.calls; /* what is bound persistently is run again without a thing allocated */
    for (int again = 0; again < 2; again++) check_ok(tn_session_invoke(session, NULL));
    assert_int_equal(memory.calls, memory.fail_at);
    memory.fail_at = -1;
    take_results(session, &got);
    check_same(a, &got, &want);
    check_ok(tn_session_set_input(session, NULL, "x", &x, TN_BIND_NEXT)); /* dense for once */
    check_ok(tn_session_invoke(session, NULL));
    take_results(session, &got);
    check_same(a, &got, &want);
    munmap(f.pages, f.size);
  }
  drop_results(&got), drop_results(&want);
  tn_session_release(session);
  tn_session_release(reference);
  tn_executable_release(exe);
  tn_executable_release(plainly);
}

/* z = 2 x + y */
static pb sum_model(void) {
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "n,4");
  onnx_input(&graph, "y", ONNX_FLOAT, "n,4");
  onnx_node(&graph, "Add", "twice", "x,x", "xx");
  onnx_node(&graph, "Add", "add", "xx,y", "z");
  onnx_output(&graph, "z", ONNX_FLOAT, "n,4");
  return onnx_model(18, &graph);
}

static void bindings_follow_their_memory(void **state) {
  tn_compile_options options = strided();
  tn_executable *exe = compile_one(sum_model(), &options);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float x[64], y[64], z[64];
  static _Alignas(64) char apart[64];
  int64_t shape[2] = {3, 4}, turned[2] = {1, 3};
  DLTensor in[2] = {tensor_of(TN_F32, 2, shape, x), tensor_of(TN_F32, 2, shape, y)};
  DLTensor out = tensor_of(TN_F32, 2, shape, z), result;
  in[0].strides = turned;
  for (int i = 0; i < 12; i++) x[i] = (float)i, y[i] = 100.0F * (float)i;
  check_ok(tn_session_set_inputs(session, NULL, NULL, in, 2, TN_BIND_PERSISTENT_IN_PLACE));
  check_ok(tn_session_set_outputs(session, NULL, NULL, &out, 1, TN_BIND_PERSISTENT_IN_PLACE));
  for (int round = 0; round < 3; round++) {
    x[4] = (float)round;
    check_ok(tn_session_invoke(session, NULL));
    for (int i = 0; i < 12; i++) assert_true(z[i] == 2 * x[i / 4 + i % 4 * 3] + y[i]);
  }
  check_ok(tn_session_get_output(session, NULL, 0, &result));
  assert_ptr_equal(result.data, z);
  /* Strided, and where no float may lie: copied once, or refused. */
  memcpy(apart + 2, x, 12 * sizeof(float));
  in[0].data = apart, in[0].byte_offset = 2;
  check_fails(tn_session_set_input(session, NULL, "x", &in[0], TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's data is aligned to 2 bytes; to be used in place it must be to 4");
  memset(z, 0, sizeof z);
  check_ok(tn_session_set_input(session, NULL, "x", &in[0], TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  for (int i = 0; i < 12; i++) assert_true(z[i] == 2 * x[i / 4 + i % 4 * 3] + y[i]);
  /* The other input was not named: it is copied, or refused. */
  DLTensor ys = in[1];
  ys.strides = turned;
  check_fails(tn_session_set_input(session, NULL, "y", &ys, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
              "input \"y\": the tensor of shape [3, 4] has strides [1, 3]: to be used in place it must be dense and "
              "row-major");
  in[0] = tensor_of(TN_F32, 2, shape, x), in[0].strides = turned;
  DLTensor both[2] = {in[0], ys};
  check_ok(tn_session_invoke_with_outputs(session, NULL, both, 2, &out, 1));
  for (int i = 0; i < 12; i++) assert_true(z[i] == 2 * x[i / 4 + i % 4 * 3] + y[i / 4 + i % 4 * 3]);
  /* Between the first and the last element of an input, nothing may be written. */
  int64_t wide[2] = {8, 2};
  in[0].strides = wide;
  out.data = x + 18;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1), TN_INVALID_ARGUMENT,
              "output \"z\" shares memory with input \"x\"");
  out.data = x + 24;
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
  int64_t backwards[2] = {-8, -2};
  in[0].data = x + 22, in[0].strides = backwards;
  out.data = x - 0;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1), TN_INVALID_ARGUMENT,
              "output \"z\" shares memory with input \"x\"");
  shape[0] = 0; /* nothing at all */
  out.data = z;
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
  tn_session_release(session);
  tn_executable_release(exe);
}

/* Sums of columns, whose order depends on how the operand lies, are made of it in order. */
static void sums_are_the_same(void **state) {
  enum { ROWS = 300, COLUMNS = 77 };
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "300,77");
  onnx_raw(&graph, "zero", ONNX_INT64, (int64_t[]){1}, 1, &(int64_t){0}, sizeof(int64_t));
  onnx_node(&graph, "ReduceSum", "sum", "x,zero", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "1,77");
  tn_compile_options options = strided();
  tn_executable *exe = compile_one(onnx_model(18, &graph), &options);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float turned[ROWS * COLUMNS], rows[ROWS * COLUMNS], y[2][COLUMNS];
  int64_t shape[2] = {ROWS, COLUMNS}, sums[2] = {1, COLUMNS}, strides[2] = {1, ROWS};
  for (int i = 0; i < ROWS * COLUMNS; i++) turned[i] = value_at(i) / 3;
  for (int i = 0; i < ROWS * COLUMNS; i++) rows[i] = turned[i / COLUMNS + i % COLUMNS * ROWS];
  for (int k = 0; k < 2; k++) {
    DLTensor x = tensor_of(TN_F32, 2, shape, k == 0 ? rows : turned), out = tensor_of(TN_F32, 2, sums, y[k]);
    if (k == 1) x.strides = strides;
    check_ok(tn_session_invoke_with_outputs(session, NULL, &x, 1, &out, 1));
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  tn_session_release(session);
  tn_executable_release(exe);
}

/* Every allocation of a session and of invokes with strides, refused once: a status, and nothing lost. */
static void allocations_may_fail(void **state) {
  tn_compile_options options = strided();
  tn_executable *exe = compile_one(sum_model(), &options);
  static _Alignas(64) float x[16], y[16];
  int64_t shape[2] = {3, 4}, turned[2] = {1, 3};
  DLTensor in[2] = {tensor_of(TN_F32, 2, shape, x), tensor_of(TN_F32, 2, shape, y)};
  bool done = false;
  for (int refused = 0; !done; refused++) {
    failing_allocator memory;
    failing_allocator_init(&memory, refused);
    tn_session *session;
    tn_session_options own = {.size = sizeof own, .threads = 1, .allocator = &memory.allocator};
    tn_status *status = tn_session_create(exe, &own, &session);
    for (int round = 0; round < 4 && status == NULL; round++) {
      in[0].strides = round % 2 == 0 ? turned : NULL;
      status = tn_session_invoke_stateful(session, NULL, in, 2);
    }
    done = status == NULL;
    assert_int_equal(tn_status_code_of(status), done ? TN_OK : TN_OUT_OF_MEMORY);
    tn_status_free(status);
    tn_session_release(session);
    assert_int_equal(memory.live_count, 0);
    assert_true(refused < 1000);
  }
  tn_executable_release(exe);
}

/* Sizes of their own for x: what is strided runs in the function for any. */
static void special_sizes_stay(void **state) {
  tn_dim_setting two = {"n", 2};
  tn_compile_options options = strided();
  options.special_dims = &two, options.special_dim_count = 1;
  tn_executable *exe = compile_one(sum_model(), &options);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float x[16], y[16], z[16];
  for (int i = 0; i < 16; i++) x[i] = (float)i, y[i] = 1;
  for (int64_t n = 2; n <= 3; n++) {
    int64_t shape[2] = {n, 4}, strides[2] = {1, n};
    DLTensor in[2] = {tensor_of(TN_F32, 2, shape, x), tensor_of(TN_F32, 2, shape, y)};
    DLTensor out = tensor_of(TN_F32, 2, shape, z);
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
    for (int i = 0; i < 4 * n; i++) assert_true(z[i] == 2 * x[i] + 1);
    in[0].strides = strides;
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &out, 1));
    for (int i = 0; i < 4 * n; i++) assert_true(z[i] == 2 * x[i / 4 + i % 4 * n] + 1);
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refused(pb model, const char *name, const tn_alias_setting *aliases, const char *words) {
  tn_compile_options options = strided();
  options.strided = &name, options.aliases = aliases, options.alias_count = aliases != NULL;
  tn_module *module;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT, words);
  pb_free(&model);
}

static pb sizes_model(void) {
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "n,4");
  onnx_input(&graph, "s", ONNX_INT64, "2");
  onnx_node(&graph, "Reshape", "shape", "x,s", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "a,b");
  return onnx_model(18, &graph);
}

static void what_cannot_be_is_refused(void **state) {
  static const tn_alias_setting alias = {"z", "x"};
  refused(sum_model(), "w", NULL, "no input \"w\" that could have any strides");
  refused(sum_model(), "*", &alias,
          "input \"x\" cannot have any strides: output \"z\" is written in its memory, which must be dense");
  refused(sizes_model(), "s", NULL,
          "input \"s\" cannot have any strides: its elements are sizes, which are read before kernels run");
  tn_compile_options options = strided();
  tn_module *module;
  pb model = sum_model();
  check_ok(tn_compile("model.onnx", model.data, model.size, &options, &module));
  pb_free(&model);
  check_fails(tn_module_emit_c(module, "m", "m.o", "m.h"), TN_UNSUPPORTED,
              "function \"main\" cannot become a C function: input \"x\" may have any strides (--strided), which only "
              "the runtime looks at");
  tn_module_release(module);
}

typedef struct change { /* of a 32-bit number in the section of functions */
  const char *words;
  int function;  /* -1: of an input's record */
  int index;     /* of the input */
  size_t offset; /* in the record */
  uint32_t value;
} change;

static void change_module(const tn_module *module, const change *k) {
  size_t size;
  const void *data = tn_module_data(module, &size);
  uint8_t *bytes = aligned_alloc(64, (size + 63) / 64 * 64), *functions = NULL;
  if (bytes == NULL || data == NULL) abort();
  memcpy(bytes, data, size);
  const tn__file_header *header = (const void *)bytes;
  for (uint32_t i = 0; i < header->section_count; i++) {
    const tn__file_section *s = (const void *)(bytes + header->header_size + (size_t)i * header->section_record_size);
    if (s->kind == TN__SECTION_FUNCTIONS) functions = bytes + s->offset;
  }
  if (functions == NULL) abort();
  tn__function_record *records = (void *)(functions + sizeof(tn__functions_header));
  uint8_t *record = (uint8_t *)&records[k->function];
  if (k->index >= 0) record = functions + records[k->function].inputs + (size_t)k->index * sizeof(tn__value_record);
  memcpy(record + k->offset, &k->value, sizeof k->value);
  rehash(bytes, size);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(bytes, size, NULL, &exe), TN_DATA_LOSS, k->words);
  free(bytes);
}

#define DAMAGED "the executable is damaged: "
#define OTHER "function \"main\": function \"main@strided\", for inputs of any strides, takes or gives something else"

static void wrong_files_are_refused(void **state) {
  static const size_t to = offsetof(tn__function_record, strided), flag = offsetof(tn__value_record, strided);
  static const size_t alignment = offsetof(tn__value_record, alignment);
  const change changes[] = {
      {DAMAGED "function \"main\" has 1 inputs of any strides, and function -1 of 2 for them", 0, -1, to, 0},
      {DAMAGED "function \"main\" has 1 inputs of any strides, and function 0 of 2 for them", 0, -1, to, 1},
      {DAMAGED "function \"main\" has 1 inputs of any strides, and function 2 of 2 for them", 0, -1, to, 3},
      {DAMAGED OTHER, 0, 0, flag, 0},
      {DAMAGED OTHER, 0, 1, flag, 1},
      {DAMAGED OTHER, 1, 1, alignment, 16},
      {DAMAGED "function \"main\": \"x\" may have any strides, and its memory is of another type", 1, 2, alignment, 16},
  };
  tn_compile_options options = strided();
  tn_module *module;
  pb model = sum_model();
  check_ok(tn_compile("model.onnx", model.data, model.size, &options, &module));
  pb_free(&model);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) change_module(module, &changes[i]);
  tn_module_release(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_strides_give_the_same), cmocka_unit_test(bindings_follow_their_memory),
      cmocka_unit_test(sums_are_the_same),         cmocka_unit_test(allocations_may_fail),
      cmocka_unit_test(special_sizes_stay),        cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(wrong_files_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
