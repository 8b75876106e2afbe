/* Caches that grow in their buffers: present = Concat(past, new) with a declared alias and a capacity. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/compile_onnx.h"
#include "unit/failing_allocator.h"

enum { HEADS = 2, WIDTH = 1024, CAPACITY = 1000, BUFFER = HEADS * CAPACITY * WIDTH }; /* a row is a page */

/* Attention of x [1, HEADS, seq, WIDTH] to what was before and itself, without a mask:
 * present = concat(past, x), y = softmax(x present^T / WIDTH) present. */
static pb attention_model(void) {
  static const float scale = 1.0F / WIDTH;
  pb graph = {0};
  onnx_input(&graph, "x", ONNX_FLOAT, "1,2,seq,1024");
  onnx_input(&graph, "past", ONNX_FLOAT, "1,2,past_length,1024");
  onnx_raw(&graph, "scale", ONNX_FLOAT, (int64_t[]){1}, 1, &scale, sizeof scale);
  pb concat = onnx_node_begin("Concat", "grow", "past,x", "present");
  onnx_attr_int(&concat, "axis", 2);
  pb_message(&graph, 1, &concat);
  pb transpose = onnx_node_begin("Transpose", "turn", "present", "keys");
  onnx_attr_ints(&transpose, "perm", (int64_t[]){0, 1, 3, 2}, 4);
  pb_message(&graph, 1, &transpose);
  onnx_node(&graph, "MatMul", "score", "x,keys", "scores");
  onnx_node(&graph, "Mul", "scaled", "scores,scale", "logits");
  pb softmax = onnx_node_begin("Softmax", "weigh", "logits", "weights");
  onnx_attr_int(&softmax, "axis", -1);
  pb_message(&graph, 1, &softmax);
  onnx_node(&graph, "MatMul", "mix", "weights,present", "y");
  onnx_output(&graph, "y", ONNX_FLOAT, "1,2,seq,1024");
  onnx_output(&graph, "present", ONNX_FLOAT, "1,2,total,1024");
  return onnx_model(18, &graph);
}

static const tn_alias_setting alias = {"present", "past"};
static const tn_dim_setting room = {"past_length", CAPACITY};

static tn_compile_options growing(void) {
  tn_compile_options options = plain();
  options.aliases = &alias, options.alias_count = 1;
  options.capacities = &room, options.capacity_count = 1;
  return options;
}

/* The first `rows` rows of each head of a buffer; strides NULL: of a tensor that has no more. */
typedef struct rows {
  int64_t shape[4], strides[4];
  DLTensor tensor;
} rows;

static void rows_of(rows *r, float *data, int64_t count, bool in_buffer) {
  memcpy(r->shape, (int64_t[]){1, HEADS, count, WIDTH}, sizeof r->shape);
  memcpy(r->strides, (int64_t[]){(int64_t)BUFFER, (int64_t)CAPACITY * WIDTH, WIDTH, 1}, sizeof r->strides);
  r->tensor = tensor_of(TN_F32, 4, r->shape, data);
  if (in_buffer) r->tensor.strides = r->strides;
}

typedef struct step {
  rows inputs[2], outputs[2]; /* x, past; y, present */
} step;

/* `seq` rows go in behind `past` ones; caches of the given kinds. */
static void bind_step(tn_session *session, step *s, float *x, float *y, int64_t seq, int64_t past, float *from,
                      float *to, bool in_buffer, tn_binding binding) {
  rows_of(&s->inputs[0], x, seq, false);
  rows_of(&s->inputs[1], from, past, in_buffer);
  rows_of(&s->outputs[0], y, seq, false);
  rows_of(&s->outputs[1], to, past + seq, in_buffer);
  DLTensor inputs[2] = {s->inputs[0].tensor, s->inputs[1].tensor};
  DLTensor outputs[2] = {s->outputs[0].tensor, s->outputs[1].tensor};
  check_ok(tn_session_set_inputs(session, NULL, NULL, inputs, 2, binding));
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, binding));
}

static float *pages(size_t count) {
  float *p = mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return p;
}

static void fill(float *x, int64_t count, int64_t seed) {
  for (int64_t i = 0; i < count; i++) x[i] = (float)((i * 31 + seed * 17) % 101 - 50) / 25;
}

static bool about_equal(const float *a, const float *b, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-4F * (1 + fabsf(b[i])))) return false;
  return true;
}

/* The same step by an executable of the same model without alias, which copies: what the cache and y must be. */
static void check_against_copying(tn_session *copying, float *x, const float *y, const float *cache, int64_t seq,
                                  int64_t past) {
  static _Alignas(64) float dense[BUFFER], present[BUFFER], want[16 * HEADS * WIDTH];
  for (int h = 0; h < HEADS; h++)
    memcpy(dense + h * past * WIDTH, cache + (size_t)h * CAPACITY * WIDTH, (size_t)past * WIDTH * sizeof(float));
  step s;
  bind_step(copying, &s, x, want, seq, past, dense, present, false, TN_BIND_NEXT);
  check_ok(tn_session_invoke(copying, NULL));
  assert_true(about_equal(y, want, HEADS * seq * WIDTH));
  int64_t total = past + seq;
  for (int h = 0; h < HEADS; h++)
    assert_memory_equal(cache + (size_t)h * CAPACITY * WIDTH, present + h * total * WIDTH,
                        (size_t)total * WIDTH * sizeof(float));
}

/* The rows but the new ones are not writable, and from the second step on nothing is allocated. */
static void caches_grow_in_place(void **state) {
  if (sysconf(_SC_PAGESIZE) != WIDTH * sizeof(float)) skip_because("a row of the cache is not a page of this machine");
  tn_compile_options options = growing(), copies = plain();
  tn_executable *exe = compile_one(attention_model(), &options), *other = compile_one(attention_model(), &copies);
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session *session = open_session(exe, &memory.allocator), *copying = open_session(other, NULL);
  static _Alignas(64) float x[16 * HEADS * WIDTH], y[16 * HEADS * WIDTH];
  float *cache = pages(BUFFER);
  step s;
  for (int64_t past = 0, seq = 16; past < CAPACITY; past += seq, seq = 1) {
    fill(x, HEADS * seq * WIDTH, past);
    assert_int_equal(mprotect(cache, BUFFER * sizeof(float), PROT_READ), 0);
    for (int h = 0; h < HEADS; h++)
      assert_int_equal(
          mprotect(cache + (h * CAPACITY + past) * WIDTH, (size_t)seq * WIDTH * sizeof(float), PROT_READ | PROT_WRITE),
          0);
    if (past == 17) memory.fail_at = memory.calls;
    bind_step(session, &s, x, y, seq, past, cache, cache, true, TN_BIND_PERSISTENT_IN_PLACE);
    check_ok(tn_session_invoke(session, NULL));
    if (past % 100 < 2) check_against_copying(copying, x, y, cache, seq, past);
  }
  assert_int_equal(memory.calls, memory.fail_at);
  memory.fail_at = -1;
  /* Full: nothing runs and nothing is written. */
  fill(y, HEADS * WIDTH, 5);
  float before = y[7];
  bind_step(session, &s, x, y, 1, CAPACITY - 1, cache, cache, true, TN_BIND_NEXT);
  rows_of(&s.inputs[1], cache, CAPACITY, true);
  check_ok(tn_session_set_input(session, NULL, "past", &s.inputs[1].tensor, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "node \"grow\" (Concat, opset 18): 1001 elements along dimension 2 do not fit into 1000");
  assert_true(y[7] == before);
  tn_session_release(session), tn_session_release(copying);
  tn_executable_release(exe), tn_executable_release(other);
  munmap(cache, BUFFER * sizeof(float));
}

/* Whatever the caller binds, the results are the same bytes. */
static void every_binding_gives_the_same(void **state) {
  enum { PAST = 5, SEQ = 3, TOTAL = PAST + SEQ };
  tn_compile_options options = growing();
  tn_executable *exe = compile_one(attention_model(), &options);
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float x[SEQ * HEADS * WIDTH], y[SEQ * HEADS * WIDTH], want[SEQ * HEADS * WIDTH];
  static _Alignas(64) float dense[PAST * HEADS * WIDTH], present[TOTAL * HEADS * WIDTH];
  float *cache = pages(BUFFER), *second = pages(BUFFER);
  fill(x, SEQ * HEADS * WIDTH, 1);
  fill(dense, PAST * HEADS * WIDTH, 2);
  for (int h = 0; h < HEADS; h++)
    memcpy(cache + h * CAPACITY * WIDTH, dense + h * PAST * WIDTH, PAST * WIDTH * sizeof(float));
  step s;
  /* dense in, dense out */
  bind_step(session, &s, x, want, SEQ, PAST, dense, present, false, TN_BIND_NEXT);
  check_ok(tn_session_invoke(session, NULL));
  for (int h = 0; h < HEADS; h++) {
    assert_memory_equal(present + h * TOTAL * WIDTH, dense + h * PAST * WIDTH, PAST * WIDTH * sizeof(float));
    assert_memory_equal(present + (h * TOTAL + PAST) * WIDTH, x + h * SEQ * WIDTH, SEQ * WIDTH * sizeof(float));
  }
  /* from one buffer into another, which gets the valid rows and no more */
  second[TOTAL * WIDTH] = 123;
  bind_step(session, &s, x, y, SEQ, PAST, cache, second, true, TN_BIND_NEXT_IN_PLACE);
  check_ok(tn_session_invoke(session, NULL));
  assert_memory_equal(y, want, sizeof want);
  assert_true(second[TOTAL * WIDTH] == 123 && cache[PAST * WIDTH] == 0);
  for (int h = 0; h < HEADS; h++)
    assert_memory_equal(second + h * CAPACITY * WIDTH, present + h * TOTAL * WIDTH, TOTAL * WIDTH * sizeof(float));
  /* into the session's own buffer, whose view goes in again as the past of the next step */
  DLTensor grown, inputs[2] = {s.inputs[0].tensor, s.inputs[1].tensor};
  for (int64_t total = TOTAL; total <= TOTAL + SEQ; total += SEQ) {
    check_ok(tn_session_invoke_stateful(session, NULL, inputs, 2));
    check_ok(tn_session_get_output(session, NULL, 1, &grown));
    assert_true(grown.shape[2] == total && grown.strides[1] == CAPACITY * WIDTH);
    assert_true(total == TOTAL || grown.data == inputs[1].data);
    inputs[1] = grown;
  }
  for (int h = 0; h < HEADS; h++)
    assert_memory_equal((float *)grown.data + (h * CAPACITY + TOTAL) * WIDTH, x + h * SEQ * WIDTH,
                        SEQ * WIDTH * sizeof(float));
  static float copied[(TOTAL + SEQ) * HEADS * WIDTH];
  rows_of(&s.outputs[1], copied, TOTAL + SEQ, false);
  tn_tensor_copy(&grown, &s.outputs[1].tensor);
  assert_memory_equal(copied + (TOTAL + SEQ) * WIDTH, (float *)grown.data + CAPACITY * WIDTH, TOTAL * WIDTH * 4);
  tn_session_release(session);
  tn_executable_release(exe);
  munmap(cache, BUFFER * sizeof(float)), munmap(second, BUFFER * sizeof(float));
}

static void signatures_tell_the_capacity(void **state) {
  tn_compile_options options = growing();
  tn_executable *exe = compile_one(attention_model(), &options);
  const tn_value_info *past = tn_executable_input(exe, NULL, 1), *present = tn_executable_output(exe, NULL, 1);
  assert_true(past->dims[2]->size == -1 && past->dims[2]->capacity == CAPACITY && past->dims[1]->capacity == 0);
  assert_string_equal(past->dims[2]->name, "past_length");
  assert_true(present->dims[2]->size == -1 && present->dims[2]->capacity == CAPACITY);
  assert_int_equal(tn_executable_output_alias(exe, NULL, 1), 1);
  int64_t x[4] = {1, 2, 3, WIDTH}, rows_in[4] = {1, 2, 10, WIDTH}, shapes[2][TN_MAX_RANK];
  const int64_t *in[2] = {x, rows_in};
  check_ok(tn_function_infer_shapes(exe, NULL, in, shapes));
  assert_true(shapes[1][2] == 13 && shapes[0][2] == 3);
  rows_in[2] = CAPACITY - 2;
  check_fails(tn_function_infer_shapes(exe, NULL, in, shapes), TN_INVALID_ARGUMENT,
              "node \"grow\" (Concat, opset 18): 1001 elements along dimension 2 do not fit into 1000");
  tn_session *session = open_session(exe, NULL);
  static _Alignas(64) float data[1];
  rows r;
  rows_of(&r, data, 4, false);
  check_fails(
      tn_session_set_input(session, NULL, "past", &r.tensor, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
      "input \"past\": to be used in place its strides must be [2048000, 1024000, 1024, 1], those of the buffer "
      "that it grows in");
  r.shape[2] = CAPACITY + 1;
  check_fails(tn_session_set_input(session, NULL, "past", &r.tensor, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"past\": the tensor has shape [1, 2, 1001, 1024] and the executable wants [1, 2, "
              "past_length<=1000, 1024]");
  tn_session_release(session);
  tn_executable_release(exe);
}

/* A function for each of two sizes and one for any: the buffers pass through the calls. */
static void special_sizes_grow_too(void **state) {
  tn_compile_options options = growing();
  static const tn_dim_setting sizes[2] = {{"seq", 1}, {"seq", 4}};
  options.special_dims = sizes, options.special_dim_count = 2;
  tn_executable *exe = compile_one(attention_model(), &options);
  tn_compile_options copies = plain();
  tn_executable *other = compile_one(attention_model(), &copies);
  tn_session *session = open_session(exe, NULL), *copying = open_session(other, NULL);
  static _Alignas(64) float x[16 * HEADS * WIDTH], y[16 * HEADS * WIDTH];
  float *cache = pages(BUFFER);
  static const int64_t lengths[] = {4, 1, 3, 1, 16, 4};
  int64_t past = 0;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; past += lengths[i++]) {
    fill(x, HEADS * lengths[i] * WIDTH, past);
    step s;
    bind_step(session, &s, x, y, lengths[i], past, cache, cache, true, TN_BIND_NEXT_IN_PLACE);
    check_ok(tn_session_invoke(session, NULL));
    check_against_copying(copying, x, y, cache, lengths[i], past);
  }
  tn_session_release(session), tn_session_release(copying);
  tn_executable_release(exe), tn_executable_release(other);
  munmap(cache, BUFFER * sizeof(float));
}

static void wrong_capacities_are_told(void **state) {
  pb model = attention_model();
  tn_module *module;
  tn_compile_options options = growing();
  options.capacity_count = 0;
  check_fails(
      tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
      "output \"present\" cannot alias input \"past\": it is longer along dimension \"past_length\", which needs a "
      "capacity (--capacity past_length=N)");
  static const tn_dim_setting other = {"seq", 10}, nothing = {"past_length", 0};
  options.capacity_count = 1, options.capacities = &other;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
              "no output aliases an input and grows along its dimension \"seq\": a capacity is for results that are an "
              "input with new elements behind it (Concat)");
  options.capacities = &nothing;
  check_fails(tn_compile("model.onnx", model.data, model.size, &options, &module), TN_INVALID_ARGUMENT,
              "the capacity of dimension \"past_length\" is 0");
  pb_free(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches_grow_in_place),         cmocka_unit_test(every_binding_gives_the_same),
      cmocka_unit_test(signatures_tell_the_capacity), cmocka_unit_test(special_sizes_grow_too),
      cmocka_unit_test(wrong_capacities_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
