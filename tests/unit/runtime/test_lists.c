/* Sequences and optional values: in the machine, at the boundary, and what the verifier says about them. */
#include <stdlib.h>
#include <string.h>

#include "unit/compile_check.h"
#include "unit/failing_allocator.h"
#include "unit/trampoline.h"

static float ramp[6] = {1, 2, 3, 4, 5, 6};

static DLTensor number(const int64_t *value) {
  return (DLTensor){.data = (void *)(uintptr_t)value, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLInt, 64, 1}};
}

/* ---- sequences grown in a loop ----------------------------------------------------------------------------------- */

static tn__value *list_input(tn__graph *g, const char *name, tn__value_holds holds) {
  tn__value *list = tn__graph_input(g, name, TN_F32, 0, NULL);
  list->holds = holds;
  list->item_rank = 1;
  return list;
}

static tn__value *vector(tn__graph *g, const char *name, const char *symbol) {
  tn__value *x = tn__graph_input(g, name, TN_F32, 1, (const tn__expr *const[]){NULL});
  tn__graph_input_symbol(g, symbol, x, 0);
  return x;
}

static tn__value *scalar(tn__graph *g, const char *name) { return tn__graph_input(g, name, TN_I64, 0, NULL); }

/* `number` rounds, each of which adds x times (what is left) to a sequence; then all of them one after another. */
static tn__value *grow(tn__graph *g) {
  tn__value *x = vector(g, "x", "n"), *count = scalar(g, "number");
  tn__graph *condition = tn__graph_create(tn__graph_ir(g), "condition");
  tn__graph *body = tn__graph_create(tn__graph_ir(g), "body");
  tn__value *left = scalar(condition, "left");
  vector(condition, "kept", "n");
  list_input(condition, "list", TN__HOLDS_SEQUENCE);
  tn__graph_output(condition, "more",
                   tn__g_compare(condition, TN__CMP_GT, left, tn__g_scalar_i64(condition, TN_I64, 0)));
  tn__value *now = scalar(body, "left"), *kept = vector(body, "kept", "n");
  tn__value *list = list_input(body, "list", TN__HOLDS_SEQUENCE);
  tn__value *scaled = tn__g_binary(body, "multiply", kept, tn__g_convert(body, now, TN_F32));
  tn__graph_output(body, "left_out", tn__g_binary_s(body, "subtract", now, 1));
  tn__graph_output(body, "kept_out", kept);
  tn__graph_output(body, "list_out", tn__g_sequence_insert(body, list, scaled, NULL));
  tn__value *start[] = {count, x, tn__g_sequence_empty(g, TN_F32, 1, TN__HOLDS_SEQUENCE)};
  tn__value *all = tn__g_while(g, condition, body, start, 3)->outputs[2];
  tn__graph_output(g, "y", tn__g_sequence_join(g, all, 0, false, NULL, NULL));
  return all;
}

static void build_grown(tn__graph *g) { (void)grow(g); }

static void a_sequence_grows_in_a_loop(void **state) {
  compile_case k = {.build = build_grown, .threads = 1};
  tn_session *session = compile(&k);
  float *memory = aligned_alloc(TN_KERNEL_ALIGNMENT, 64 * sizeof(float));
  assert_non_null(memory);
  for (int64_t rounds = 1; rounds < 20; rounds += 3) {
    int64_t shape[1] = {2}, total[1] = {2 * rounds};
    DLTensor in[2] = {f32(ramp, 1, shape), number(&rounds)}, got, bound = f32(memory, 1, total);
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    assert_int_equal(got.shape[0], 2 * rounds);
    for (int i = 0; i < 2 * rounds; i++)
      assert_true(((float *)got.data)[i] == ramp[i % 2] * (float)(rounds - i / 2)); /* whole numbers: exact */
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, &bound, 1));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    assert_ptr_equal(got.data, memory);
    for (int i = 0; i < 2 * rounds; i++) assert_true(memory[i] == ramp[i % 2] * (float)(rounds - i / 2));
  }
  int64_t none = 0, shape[1] = {2};
  DLTensor in[2] = {f32(ramp, 1, shape), number(&none)};
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_INVALID_ARGUMENT,
              "an empty sequence cannot be concatenated");
  free(memory);
  finish(&k, session);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tn_status *run_rounds(tn_session *session, int64_t rounds) {
  int64_t shape[1] = {2};
  DLTensor in[2] = {f32(ramp, 1, shape), number(&rounds)};
  return tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0);
}

static void loops_allocate_once(void **state) {
  compile_case k = {.build = build_grown, .threads = 1};
  tn_session *other = compile(&k), *session;
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session_options options = {.size = sizeof options, .threads = 1, .allocator = &memory.allocator};
  check_ok(tn_session_create(k.executable, &options, &session));
  check_ok(run_rounds(session, 12));
  check_ok(run_rounds(session, 12));
  int calls = memory.calls;
  for (int i = 0; i < 5; i++) check_ok(run_rounds(session, 12 - i));
  assert_int_equal(memory.calls, calls);
  tn_session_release(session);
  assert_int_equal(memory.live_count, 0);
  finish(&k, other);
}

static tn_status *run_twelve(tn_session *session) { return run_rounds(session, 12); }

static void check_three(tn_session *session) {
  DLTensor got;
  check_ok(run_rounds(session, 3));
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  assert_memory_equal(got.data, ((const float[]){3, 6, 2, 4, 1, 2}), 6 * sizeof(float));
}

static void loops_survive_a_lack_of_memory(void **state) {
  compile_case k = {.build = build_grown, .threads = 1};
  tn_session *session = compile(&k);
  assert_true(refuse_each_allocation(k.executable, run_twelve, check_three) > 10);
  finish(&k, session);
}

/* ---- at the boundary --------------------------------------------------------------------------------------------- */

/* The list with x put in at `number` and its last tensor taken out; its length before; the tensor at `number`. */
static void build_edited(tn__graph *g) {
  tn__value *list = list_input(g, "list", TN__HOLDS_SEQUENCE), *x = vector(g, "x", "n"), *at = scalar(g, "number");
  tn__graph_output(g, "edited", tn__g_sequence_erase(g, tn__g_sequence_insert(g, list, x, at), NULL));
  tn__graph_output(g, "length", tn__g_sequence_length(g, list));
  tn__graph_output(g, "one", tn__g_sequence_at(g, list, at, 1));
}

static void sequences_go_in_and_out(void **state) {
  compile_case k = {.build = build_edited, .threads = 1};
  tn_session *session = compile(&k);
  assert_int_equal(tn_executable_input(k.executable, NULL, 0)->kind, TN_VALUE_SEQUENCE);
  assert_int_equal(tn_executable_input(k.executable, NULL, 1)->kind, TN_VALUE_TENSOR);
  int64_t shapes[3][1] = {{1}, {3}, {2}}, position = -1;
  DLTensor items[2] = {f32(ramp, 1, shapes[0]), f32(ramp + 1, 1, shapes[1])}, got;
  DLTensor in[3] = {{0}, f32(ramp + 4, 1, shapes[2]), number(&position)};
  check_ok(tn_session_set_input_list(session, NULL, 0, items, 2));
  for (int round = 0; round < 2; round++) { /* the input is as it was */
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 3, NULL, 0));
    int count;
    check_ok(tn_session_get_output_count(session, NULL, 0, &count));
    assert_int_equal(count, 2);
    check_ok(tn_session_get_output_item(session, NULL, 0, 0, &got));
    assert_true(got.shape[0] == 1 && *(float *)got.data == 1);
    check_ok(tn_session_get_output_item(session, NULL, 0, 1, &got));
    assert_true(got.shape[0] == 2 && ((float *)got.data)[1] == 6);
    check_ok(tn_session_get_output(session, NULL, 1, &got));
    assert_int_equal(*(int64_t *)got.data, 2);
    check_ok(tn_session_get_output(session, NULL, 2, &got));
    assert_true(got.shape[0] == 3 && ((float *)got.data)[2] == 4);
  }
  position = 3;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 3, NULL, 0), TN_OUT_OF_RANGE,
              "position 3 is outside of a sequence of 2 tensors");
  finish(&k, session);
}

/* The sequence itself besides. */
static void build_sequence_grown(tn__graph *g) { tn__graph_output(g, "list", grow(g)); }

static void check_rounds(tn_session *session, int64_t rounds, const char *memory, size_t size) {
  int count;
  DLTensor got;
  check_ok(tn_session_get_output_count(session, NULL, 1, &count));
  assert_int_equal(count, rounds);
  for (int i = 0; i < count; i++) {
    check_ok(tn_session_get_output_item(session, NULL, 1, i, &got));
    assert_int_equal((char *)got.data >= memory && (char *)got.data < memory + size, size > 0);
    assert_int_equal((uintptr_t)got.data % TN_KERNEL_ALIGNMENT, 0);
    assert_int_equal(got.shape[0], 2);
    for (int e = 0; e < 2; e++) assert_true(((float *)got.data)[e] == ramp[e] * (float)(rounds - i));
  }
}

static void a_sequence_comes_into_bound_memory(void **state) {
  compile_case k = {.build = build_sequence_grown, .threads = 1};
  tn_session *other = compile(&k), *session;
  failing_allocator counts;
  failing_allocator_init(&counts, -1);
  tn_session_options options = {.size = sizeof options, .threads = 1, .allocator = &counts.allocator};
  check_ok(tn_session_create(k.executable, &options, &session));
  _Alignas(64) char memory[5 * 64];
  check_ok(tn_session_set_output_list(session, NULL, 1, memory, sizeof memory - 64));
  memset(memory, 7, sizeof memory);
  check_ok(run_rounds(session, 4));
  check_rounds(session, 4, memory, sizeof memory - 64);
  for (size_t i = sizeof memory - 64; i < sizeof memory; i++) assert_int_equal(memory[i], 7);
  check_ok(run_rounds(session, 3));
  check_rounds(session, 3, memory, sizeof memory - 64);
  /* Too many: nothing is lost, and the next one that fits is in place again. */
  for (int round = 0, calls = 0; round < 3; round++) {
    check_fails(run_rounds(session, 5), TN_OUT_OF_RANGE,
                "output \"list\": its 5 tensors need 320 bytes, each at a multiple of 64, and the bound memory has "
                "256; tn_session_get_output_item() has them");
    check_rounds(session, 5, memory, 0);
    check_ok(run_rounds(session, 4));
    check_rounds(session, 4, memory, sizeof memory - 64);
    if (round == 1) calls = counts.calls;
    if (round == 2) assert_int_equal(counts.calls, calls);
  }
  check_ok(tn_session_set_output_list(session, NULL, 1, NULL, 0));
  check_rounds(session, 4, memory, sizeof memory - 64); /* until the next invoke */
  memset(memory, 7, sizeof memory);
  check_ok(run_rounds(session, 4));
  check_rounds(session, 4, memory, 0);
  for (size_t i = 0; i < sizeof memory; i++) assert_int_equal(memory[i], 7);
  tn_session_release(session);
  assert_int_equal(counts.live_count, 0);
  finish(&k, other);
}

static void memory_that_cannot_be_bound_for_a_sequence(void **state) {
  compile_case k = {.build = build_sequence_grown, .threads = 1};
  tn_session *session = compile(&k);
  _Alignas(64) char memory[256];
  int64_t shape[1] = {2}, rounds = 2;
  DLTensor in[2] = {f32((float *)(void *)memory, 1, shape), number(&rounds)};
  check_fails(tn_session_set_output_list(session, NULL, 0, memory, 256), TN_INVALID_ARGUMENT,
              "output \"y\" is a tensor, neither a sequence nor optional");
  check_fails(tn_session_set_output_list(session, NULL, 2, memory, 256), TN_INVALID_ARGUMENT,
              "function \"main\" has 2 outputs; there is no number 2");
  check_fails(tn_session_set_output_list(session, NULL, 1, memory + 4, 64), TN_INVALID_ARGUMENT,
              "output \"list\": the memory is aligned to 4 bytes; that of a sequence must be to 64");
  check_fails(tn_session_set_output_at(session, NULL, 1, &in[0], TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "output \"list\": it is a sequence or optional, not a tensor: tn_session_set_output_list() binds memory "
              "for it");
  check_ok(tn_session_set_output_list(session, NULL, 1, memory, 256));
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_INVALID_ARGUMENT,
              "output \"list\" shares memory with input \"x\"");
  /* Nor with an output that is written through a copy, because it is unaligned. */
  float apart[2] = {1, 2};
  int64_t room[1] = {4};
  DLTensor out[2] = {f32((float *)(void *)memory, 1, room), {0}};
  in[0] = f32(apart, 1, shape), out[0].byte_offset = 255 - 16;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, out, 2), TN_INVALID_ARGUMENT,
              "output \"list\" shares memory with output \"y\"");
  check_ok(tn_session_set_output_list(session, NULL, 1, memory, 192));
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, out, 2));
  check_ok(tn_session_set_output_list(session, NULL, 1, memory, 0)); /* no memory, nothing shared */
  out[0].byte_offset = 0;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, out, 2), TN_OUT_OF_RANGE,
              "output \"list\": its 2 tensors need 128 bytes, each at a multiple of 64, and the bound memory has 0; "
              "tn_session_get_output_item() has them");
  finish(&k, session);
}

/* x before a sequence. */
static void build_put_before(tn__graph *g) {
  tn__value *list = list_input(g, "list", TN__HOLDS_SEQUENCE), *x = vector(g, "x", "n");
  tn__graph_output(g, "longer", tn__g_sequence_insert(g, list, x, tn__g_scalar_i64(g, TN_I64, 0)));
}

/* An item of the last result is the next input: the list that is made of it goes elsewhere. */
static void items_are_fed_back(void **state) {
  compile_case k = {.build = build_put_before, .threads = 1};
  for (int way = 0; way < 2; way++) {
    tn_session *other = compile(&k), *session;
    failing_allocator counts;
    failing_allocator_init(&counts, -1);
    tn_session_options options = {.size = sizeof options, .threads = 1, .allocator = &counts.allocator};
    check_ok(tn_session_create(k.executable, &options, &session));
    _Alignas(64) char memory[64];
    int64_t shape[1] = {1};
    int calls = 0;
    /* In the session's memory because nothing is bound, or because what is bound is too small. */
    if (way == 1) check_ok(tn_session_set_output_list(session, NULL, 0, memory, sizeof memory));
    DLTensor in[2] = {{0}, f32(ramp, 1, shape)};
    for (int times = 1; times < 6; times++) {
      DLTensor item = f32(ramp + times, 1, shape), got;
      check_ok(tn_session_set_input_list(session, NULL, 0, &item, 1));
      tn_status *status = tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0);
      assert_int_equal(tn_status_code_of(status), way == 1 ? TN_OUT_OF_RANGE : TN_OK);
      tn_status_free(status);
      check_ok(tn_session_get_output_item(session, NULL, 0, 0, &got));
      assert_true(*(float *)got.data == ramp[times - 1]);
      check_ok(tn_session_get_output_item(session, NULL, 0, 1, &in[1]));
      assert_true(*(float *)in[1].data == ramp[times]);
      if (times == 3) calls = counts.calls;
    }
    assert_int_equal(counts.calls, calls);
    tn_session_release(session);
    assert_int_equal(counts.live_count, 0);
    finish(&k, other);
  }
}

static void what_does_not_fit_a_sequence(void **state) {
  compile_case k = {.build = build_edited, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[2] = {1, 1}, position = 0;
  DLTensor wrong = f32(ramp, 2, shape), in[3] = {{0}, f32(ramp, 1, shape), number(&position)}, got;
  check_fails(tn_session_set_input_list(session, NULL, 0, &wrong, 1), TN_INVALID_ARGUMENT,
              "input \"list\": tensor 0 has 2 dimensions and the executable wants 1");
  wrong.dtype.bits = 64;
  check_fails(tn_session_set_input_list(session, NULL, 0, &wrong, 1), TN_INVALID_ARGUMENT,
              "input \"list\": tensor 0 is f64 and the executable wants f32");
  DLTensor elsewhere[2] = {in[1], in[1]};
  elsewhere[1].device.device_id = 3;
  check_fails(tn_session_set_input_list(session, NULL, 0, elsewhere, 2), TN_INVALID_ARGUMENT,
              "input \"list\": tensor 1: the tensor is on the CPU with device_id 3; there is one CPU, number 0: set "
              "device_id to 0");
  elsewhere[1].device = (DLDevice){kDLCUDA, 0};
  check_fails(tn_session_set_input_list(session, NULL, 0, elsewhere, 2), TN_INVALID_ARGUMENT,
              "input \"list\": tensor 1: the tensor is on cuda:0 and must be on cpu:0: copy it there first");
  check_fails(tn_session_set_input_list(session, NULL, 0, NULL, -1), TN_INVALID_ARGUMENT,
              "input \"list\" is a sequence, which cannot be absent or have -1 tensors");
  check_fails(tn_session_set_input_list(session, NULL, 1, NULL, 0), TN_INVALID_ARGUMENT,
              "input \"x\" is a tensor, neither a sequence nor optional");
  check_fails(tn_session_set_input_at(session, NULL, 0, &in[1], TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"list\": it is a sequence or optional, not a tensor: tn_session_set_input_list() gives it");
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 3, NULL, 0), TN_FAILED_PRECONDITION,
              "input \"list\" of function \"main\" is not bound");
  check_ok(tn_session_set_input_list(session, NULL, 0, &in[1], 1));
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 3, NULL, 0));
  check_fails(tn_session_get_output(session, NULL, 0, &got), TN_INVALID_ARGUMENT,
              "output \"edited\" is a sequence or optional: tn_session_get_output_count() and "
              "tn_session_get_output_item() read it");
  check_fails(tn_session_get_output_item(session, NULL, 0, 1, &got), TN_INVALID_ARGUMENT,
              "output \"edited\" has 1 tensors; there is no number 1");
  finish(&k, session);
}

static void build_optional(tn__graph *g) {
  tn__value *maybe = list_input(g, "maybe", TN__HOLDS_OPTIONAL);
  tn__graph_output(g, "there", tn__g_optional_has(g, maybe));
  tn__graph_output(g, "same", maybe);
}

static void build_needed(tn__graph *g) {
  tn__graph_output(g, "value", tn__g_sequence_at(g, list_input(g, "maybe", TN__HOLDS_OPTIONAL), NULL, 1));
}

static void optional_values_are_there_or_not(void **state) {
  compile_case k = {.build = build_optional, .threads = 1}, needed = {.build = build_needed, .threads = 1};
  tn_session *session = compile(&k), *other = compile(&needed);
  int64_t shape[1] = {3};
  DLTensor item = f32(ramp, 1, shape), got;
  for (int count = -1; count <= 1; count += 2) {
    int told;
    check_ok(tn_session_set_input_list(session, NULL, 0, &item, count));
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    assert_int_equal(*(uint8_t *)got.data, count == 1);
    check_ok(tn_session_get_output_count(session, NULL, 1, &told));
    assert_int_equal(told, count);
  }
  check_ok(tn_session_get_output_item(session, NULL, 1, 0, &got));
  assert_memory_equal(got.data, ramp, 3 * sizeof(float));
  check_fails(tn_session_set_input_list(session, NULL, 0, &item, 0), TN_INVALID_ARGUMENT,
              "input \"maybe\" is an optional tensor: it is one or absent, not 0");
  check_ok(tn_session_set_input_list(other, NULL, 0, NULL, -1));
  check_fails(tn_session_invoke(other, NULL), TN_INVALID_ARGUMENT, "an optional value is needed, and it is absent");
  finish(&needed, other);
  finish(&k, session);
}

/* ---- splitting --------------------------------------------------------------------------------------------------- */

static void build_split(tn__graph *g) {
  tn__ir *ir = tn__graph_ir(g);
  const tn__expr *const shape[] = {tn__ir_index(ir, 2), tn__ir_index(ir, 3)};
  tn__value *x = tn__graph_input(g, "x", TN_F32, 2, shape);
  tn__value *lengths = tn__graph_input(g, "lengths", TN_I64, 1, (const tn__expr *const[]){NULL});
  tn__graph_input_symbol(g, "pieces", lengths, 0);
  tn__graph_output(g, "pieces", tn__g_sequence_split(g, x, lengths, 1, true));
}

static void pieces_add_up(void **state) {
  compile_case k = {.build = build_split, .threads = 1};
  tn_session *session = compile(&k);
  int64_t shape[2] = {2, 3}, pieces[1] = {2}, lengths[2] = {1, 2};
  DLTensor got, in[2] = {f32(ramp, 2, shape), test_tensor(TN_I64, 1, pieces, lengths)};
  check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0));
  check_ok(tn_session_get_output_item(session, NULL, 0, 1, &got));
  assert_true(got.shape[0] == 2 && got.shape[1] == 2);
  assert_memory_equal(got.data, ((const float[]){2, 3, 5, 6}), 4 * sizeof(float));
  lengths[1] = 1;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_INVALID_ARGUMENT,
              "the pieces of a split have 2 elements together, not 3");
  lengths[1] = 3;
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_INVALID_ARGUMENT,
              "piece 1 of a split has length 3, and 2 of 3 are left");
  finish(&k, session);
}

/* ---- the verifier ------------------------------------------------------------------------------------------------ */

typedef struct sample {
  test_exe t;
  tn__exe_func *f;
  int list, other, tensor, kernel;
} sample;

static int32_t nothing_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return TN_KERNEL_OK;
}

static void begin(sample *s) {
  static const tn__operand no_dims[1];
  tn__operand three = tn__prog_operand_const(3);
  test_exe_init(&s->t, NULL);
  s->kernel = test_exe_kernel(&s->t, "nothing", nothing_kernel, 1, 0);
  s->f = tn__exe_function(s->t.exe, "main");
  tn__exe_input(s->f, "list", TN_F32, 1, no_dims);
  tn__exe_holds(s->f, false, 0, TN__CONTAINER_SEQUENCE);
  s->list = tn__exe_list(s->f, TN_F32, 1, TN__CONTAINER_SEQUENCE, TN__STORAGE_INPUT, 0);
  s->other = tn__exe_list(s->f, TN_F64, 1, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  s->tensor = tn__exe_register(s->f, TN_F32, 1, &three, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
}

static void expect_refused(sample *s, const char *words) {
  tn_executable *exe;
  tn__exe_emit(s->f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&s->t);
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS, words);
  test_exe_release(&s->t);
}

static void emit_two(sample *s, tn__opcode op, int a, int b) {
  tn__exe_emit(s->f, op, (uint32_t[]){(uint32_t)a, (uint32_t)b}, 2);
}

static void lists_are_no_tensors(void **state) {
  sample s;
  begin(&s);
  tn__exe_emit_kernel(s.f, s.kernel, &s.list, 1, NULL, 0, NULL, 0);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 0, KERNEL: register 0 is a list, not a "
                 "tensor");
  begin(&s);
  emit_two(&s, TN__OP_COPY, s.other, s.list);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 0, COPY: registers 1 and 0 are not two "
                 "lists of one type");
  begin(&s);
  int position = tn__exe_emit_const(s.f, 0);
  tn__exe_emit_builtin(s.f, TN__BUILTIN_LIST_AT, &s.other, 1, &s.tensor, 1, &position, 1);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 5, BUILTIN: builtin \"list_at\": register "
                 "2 is of another type");
  begin(&s);
  tn__operand three = tn__prog_operand_const(3);
  tn__exe_register(s.f, TN_F32, 1, &three, TN__STORAGE_VIEW, s.list, tn__prog_operand_const(0));
  expect_refused(&s,
                 "the executable is damaged: function \"main\": register 3 is a view of register 0, which holds a "
                 "list");
}

static void lists_are_filled_before_they_are_read(void **state) {
  sample s;
  begin(&s);
  int mine = tn__exe_list(s.f, TN_F32, 1, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  emit_two(&s, TN__OP_COPY, s.list, mine);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 0, COPY: register 3 is read but not written "
                 "on every path to here");
  begin(&s);
  mine = tn__exe_list(s.f, TN_F32, 1, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  emit_two(&s, TN__OP_MOVE, mine, s.list);
  emit_two(&s, TN__OP_COPY, mine, s.list);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 4, COPY: register 0 is read but not written "
                 "on every path to here");
}

/* What makes one rank of any, or a rank out of nothing, is refused: builtins rely on it. */
static void lists_of_any_rank_are_told_apart(void **state) {
  sample s;
  static const tn__operand no_dims[TN_MAX_RANK];
  begin(&s);
  int any = tn__exe_list(s.f, TN_F32, TN__ANY_RANK, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  int position = tn__exe_emit_const(s.f, 0);
  emit_two(&s, TN__OP_COPY, any, s.list);
  tn__exe_emit_builtin(s.f, TN__BUILTIN_LIST_JOIN, &any, 1, &s.tensor, 1, &position, 1);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 9, BUILTIN: builtin \"list_join\": register "
                 "2 is of another type");
  begin(&s);
  any = tn__exe_list(s.f, TN_F32, TN__ANY_RANK, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  tn__operand one = tn__prog_operand_const(1);
  int lengths = tn__exe_register(s.f, TN_I64, 1, &one, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  position = tn__exe_emit_const(s.f, 0);
  tn__exe_emit_builtin(s.f, TN__BUILTIN_LIST_SPLIT, (int[]){s.tensor, lengths}, 2, &any, 1, &position, 1);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 5, BUILTIN: builtin \"list_split\": register "
                 "2 is of another type");
  begin(&s);
  any = tn__exe_list(s.f, TN_F32, TN__ANY_RANK, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  int narrow = tn__exe_list(s.f, TN_F32, 1, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  emit_two(&s, TN__OP_COPY, any, s.list);
  emit_two(&s, TN__OP_MOVE, narrow, any);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 4, MOVE: registers 4 and 3 are not two lists "
                 "of one type");
  begin(&s);
  any = tn__exe_list(s.f, TN_F32, TN__ANY_RANK, TN__CONTAINER_SEQUENCE, TN__STORAGE_DYNAMIC, 0);
  position = tn__exe_emit_const(s.f, 0);
  tn__exe_emit_builtin(s.f, TN__BUILTIN_LIST_ERASE, &s.list, 1, &any, 1, &position, 1);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 5, BUILTIN: builtin \"list_erase\": register "
                 "0 is of another type");
  begin(&s); /* a tensor of any rank: there is none */
  tn__exe_register(s.f, TN_F32, TN__ANY_RANK, no_dims, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  expect_refused(&s,
                 "the executable is damaged: function \"main\": register 3 has type 544, rank 4294967295 and device 0");
  begin(&s); /* a callee's list is its caller's */
  tn__exe_func *callee = tn__exe_function(s.t.exe, "callee");
  tn__exe_input(callee, "list", TN_F32, TN__ANY_RANK, no_dims);
  tn__exe_holds(callee, false, 0, TN__CONTAINER_SEQUENCE);
  tn__exe_emit(callee, TN__OP_RETURN, NULL, 0);
  tn__exe_emit_call(s.f, 1, &s.list, 1, NULL, 0);
  expect_refused(&s,
                 "the executable is damaged: function \"main\", code word 0, CALL: the argument for \"list\" differs "
                 "in type or shape");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sequence_grows_in_a_loop),
      cmocka_unit_test(loops_allocate_once),
      cmocka_unit_test(loops_survive_a_lack_of_memory),
      cmocka_unit_test(sequences_go_in_and_out),
      cmocka_unit_test(a_sequence_comes_into_bound_memory),
      cmocka_unit_test(memory_that_cannot_be_bound_for_a_sequence),
      cmocka_unit_test(items_are_fed_back),
      cmocka_unit_test(what_does_not_fit_a_sequence),
      cmocka_unit_test(optional_values_are_there_or_not),
      cmocka_unit_test(pieces_add_up),
      cmocka_unit_test(lists_are_no_tensors),
      cmocka_unit_test(lists_are_filled_before_they_are_read),
      cmocka_unit_test(lists_of_any_rank_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
