/* Tensors of strings: at the boundary, in the machine, in the file, and what a hostile file gets. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "import/onnx/regex_compile.h"
#include "text/regex.h"
#include "unit/compile_check.h"
#include "unit/failing_allocator.h"
#include "unit/rehash.h"
#include "unit/trampoline.h"

enum { MOST = 8 };

static tn_string text(const char *s) { return (tn_string){s, strlen(s)}; }

static DLTensor strings(tn_string *data, int rank, int64_t *shape) {
  return (DLTensor){
      .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = {kDLOpaqueHandle, 128, 1}, .shape = shape};
}

static void check_text(const DLTensor *tensor, int64_t at, const char *expected, size_t length) {
  const tn_string *got = (const tn_string *)tensor->data + at;
  assert_int_equal(got->length, length);
  if (length > 0) assert_memory_equal(got->data, expected, length);
}
#define check_is(tensor, at, literal) check_text(tensor, at, literal, sizeof(literal) - 1)

/* ---- a function with all kinds of results ------------------------------------------------------------------------ */

static tn__value *string_vector(tn__graph *g, const char *name) {
  tn__value *x = tn__graph_input(g, name, TN_STRING, 1, (const tn__expr *const[]){NULL});
  tn__graph_input_symbol(g, "n", x, 0);
  return x;
}

static tn__value *one_string(tn__graph *g, const char *s) {
  const tn__text *made = tn__text_create(tn__graph_arena(g), s, strlen(s));
  return tn__graph_strings(g, 0, NULL, &made);
}

/* joined: a and b; same: a is b; pieces of a between commas, and their number; picked: two of a constant; passed: b. */
static void build_all(tn__graph *g) {
  tn__value *a = string_vector(g, "a"), *b = string_vector(g, "b");
  const tn__text *known[3] = {NULL, tn__text_create(tn__graph_arena(g), "one", 3),
                              tn__text_create(tn__graph_arena(g), "zw\0ei", 5)};
  tn__value *constant = tn__graph_strings(g, 1, (const int64_t[]){3}, known);
  tn__value *split_operands[] = {a, one_string(g, ",")};
  const tn__attr most = tn__attr_int(g, "most", -1);
  const tn__node *split = tn__g_node(g, "string_split", split_operands, 2, &most, 1);
  tn__graph_output(g, "joined", tn__g_binary(g, "string_concat", a, b));
  tn__graph_output(g, "same", tn__g_compare(g, TN__CMP_EQ, a, b));
  tn__graph_output(g, "pieces", split->outputs[0]);
  tn__graph_output(g, "counts", split->outputs[1]);
  tn__graph_output(g, "picked", tn__g_take(g, constant, tn__g_i64s(g, (const int64_t[]){2, 0, -2}, 3), 0));
  tn__graph_output(g, "passed", b);
}

static tn_status *run_all(tn_session *session, tn_string *a, tn_string *b, int64_t n) {
  DLTensor in[2] = {strings(a, 1, &n), strings(b, 1, &n)};
  return tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0);
}

static void strings_go_in_and_out(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[3] = {text("x,y"), text(""), {"q\0r\xff", 4}}, b[3] = {text("1"), {NULL, 0}, {"q\0r\xff", 4}};
  DLTensor got;
  check_ok(run_all(session, a, b, 3));
  memset(a, 0xee, sizeof(a)); /* the session has its own */
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  assert_int_equal(tn_dtype_of_dl(got.dtype), TN_STRING);
  check_is(&got, 0, "x,y1");
  check_is(&got, 1, "");
  check_is(&got, 2, "q\0r\xffq\0r\xff");
  check_ok(tn_session_get_output(session, NULL, 1, &got));
  assert_memory_equal(got.data, ((const uint8_t[]){0, 1, 1}), 3);
  check_ok(tn_session_get_output(session, NULL, 2, &got));
  assert_int_equal(got.shape[0], 3);
  assert_int_equal(got.shape[1], 2);
  check_is(&got, 0, "x");
  check_is(&got, 1, "y");
  check_is(&got, 2, "");
  check_is(&got, 4, "q\0r\xff");
  check_is(&got, 5, "");
  check_ok(tn_session_get_output(session, NULL, 3, &got));
  assert_memory_equal(got.data, ((const int64_t[]){2, 1, 1}), 3 * sizeof(int64_t));
  check_ok(tn_session_get_output(session, NULL, 4, &got));
  check_is(&got, 0, "zw\0ei");
  check_is(&got, 1, "");
  check_is(&got, 2, "one");
  check_ok(tn_session_get_output(session, NULL, 5, &got));
  check_is(&got, 2, "q\0r\xff");
  finish(&k, session);
}

/* Results are there until the next invoke, which begins with a look at its inputs. */
static void results_are_the_next_inputs(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[2] = {text("start:"), text("-")}, b[2] = {text("+one"), text("")}, wrong[2] = {text(""), {NULL, 1}};
  int64_t two = 2;
  DLTensor in[2] = {strings(a, 1, &two), strings(b, 1, &two)}, unreadable[2] = {in[0], strings(wrong, 1, &two)};
  char expected[100] = "start:";
  for (int run = 0; run < 12; run++) {
    if (run > 0) check_ok(tn_session_get_output(session, NULL, 0, &in[0]));
    if (run == 5) { /* an invoke that fails leaves them alone */
      unreadable[0] = in[0];
      check_fails(tn_session_invoke_with_outputs(session, NULL, unreadable, 2, NULL, 0), TN_INVALID_ARGUMENT,
                  "input \"b\": its strings: string 1 has 1 bytes and no data");
    }
    check_ok(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0));
    memcpy(expected + strlen(expected), "+one", 5);
    DLTensor got;
    check_ok(tn_session_get_output(session, NULL, 0, &got));
    check_text(&got, 0, expected, strlen(expected));
    check_is(&got, 1, "-");
  }
  finish(&k, session);
}

/* Bound to stay they would be read again when they are gone. */
static void results_are_the_next_inputs_only(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[2] = {text("start"), text("-")}, b[2] = {text("+"), text("")};
  int64_t two = 2;
  DLTensor in[2] = {strings(a, 1, &two), strings(b, 1, &two)}, got, older;
  const char *words =
      "input \"a\": its strings lie in memory of the session, which lasts for one invoke after the one "
      "that made them: bind them for the next one only, or a copy of them";
  check_ok(tn_session_set_input(session, NULL, "b", &in[1], TN_BIND_PERSISTENT));
  check_ok(run_all(session, a, b, 2));
  check_ok(tn_session_get_output(session, NULL, 0, &older));
  check_ok(tn_session_set_input(session, NULL, "a", &older, TN_BIND_PERSISTENT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, words);
  check_ok(tn_session_set_input(session, NULL, "a", &older, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  check_is(&got, 0, "start++");
  check_is(&got, 1, "-");
  check_ok(tn_session_set_input(session, NULL, "a", &older, TN_BIND_NEXT)); /* of the invoke before the last */
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, words);
  finish(&k, session);
}

/* ---- bound outputs ----------------------------------------------------------------------------------------------- */

static void outputs_fill_the_callers_memory(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[2] = {text("x,y"), text("abc")}, b[2] = {text("1"), text("22")}, joined[2], pieces[MOST], strided[4];
  int64_t two = 2, room[2] = {2, 3}, four_apart = 2;
  char bytes[16];
  DLTensor in = strings(a, 1, &two), in_b = strings(b, 1, &two), got, out = strings(joined, 1, &two);
  check_ok(tn_session_set_input(session, NULL, "a", &in, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_input(session, NULL, "b", &in_b, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(session, NULL, "joined", &out, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output_bytes(session, NULL, 0, bytes, 9));
  DLTensor late = strings(pieces, 2, room), passed = strings(strided, 1, &two);
  passed.strides = &four_apart;
  check_ok(tn_session_set_output(session, NULL, "pieces", &late, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(session, NULL, "passed", &passed, TN_BIND_PERSISTENT));
  memset(strided, 0, sizeof(strided));
  check_ok(tn_session_invoke(session, NULL));
  assert_ptr_equal(joined[0].data, bytes);
  assert_memory_equal(bytes, "x,y1abc22", 9);
  check_is(&out, 1, "abc22");
  check_is(&late, 0, "x");
  check_is(&late, 3, "");
  check_is(&passed, 2, "22");
  assert_null(strided[1].data);
  /* One byte more than there is room for: everything else is there, and so is the value. */
  a[0] = text("x,yz");
  memset(bytes, '-', sizeof(bytes));
  check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
              "output \"joined\": its strings have 10 bytes together, and the bound memory has 9; "
              "tn_session_get_output() has the value");
  assert_int_equal(bytes[0], '-');
  check_is(&late, 1, "yz");
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  check_is(&got, 0, "x,yz1");
  check_ok(tn_session_set_output_bytes(session, NULL, 0, bytes, 10));
  check_ok(tn_session_invoke(session, NULL));
  check_is(&out, 0, "x,yz1");
  /* More pieces than the array has elements. */
  a[1] = text("1,2,3,4");
  check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
              "output \"joined\": its strings have 14 bytes together, and the bound memory has 10; "
              "tn_session_get_output() has the value");
  check_ok(tn_session_set_output(session, NULL, "joined", NULL, TN_BIND_PERSISTENT));
  check_fails(tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
              "output \"pieces\": the value has shape [2, 4] and needs 128 bytes, and the bound tensor of shape [2, 3] "
              "has 96; tn_session_get_output() has the value");
  check_ok(tn_session_get_output(session, NULL, 2, &got));
  check_is(&got, 7, "4");
  finish(&k, session);
}

static void outputs_of_strings_share_nothing(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[2] = {text("x"), text("y")}, b[2] = {text("1"), text("22")}, made[4], other[2];
  int64_t two = 2, apart = 2;
  DLTensor in[2] = {strings(a, 1, &two), strings(b, 1, &two)}, out = strings(made, 1, &two);
  check_ok(tn_session_set_inputs(session, NULL, NULL, in, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(session, NULL, "joined", &out, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_output(session, NULL, "passed", &out, TN_BIND_PERSISTENT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"passed\" shares memory with output \"joined\"");
  out.strides = &apart;
  check_ok(tn_session_set_output(session, NULL, "joined", &out, TN_BIND_PERSISTENT));
  out.data = made + 1; /* every second one each */
  check_ok(tn_session_set_output(session, NULL, "passed", &out, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_invoke(session, NULL)); /* as everything is kept: nothing is checked again, but what is new is */
  check_ok(tn_session_set_output_bytes(session, NULL, 0, made, sizeof(made)));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"joined\" shares memory with the bytes of its strings");
  check_ok(tn_session_set_output_bytes(session, NULL, 0, other, sizeof(other)));
  check_ok(tn_session_set_output_bytes(session, NULL, 5, other, sizeof(other)));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"passed\" shares memory with output \"joined\"");
  check_ok(tn_session_set_output_bytes(session, NULL, 5, (char *)a + sizeof(a) - 1, 1));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT,
              "output \"passed\" shares memory with input \"a\"");
  check_ok(tn_session_set_output_bytes(session, NULL, 5, NULL, 0));
  check_ok(tn_session_invoke(session, NULL));
  check_text(&(DLTensor){.data = made}, 0, "x1", 2);
  check_text(&(DLTensor){.data = made}, 3, "22", 2);
  finish(&k, session);
}

static void wrong_strings_are_refused(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  tn_string a[2] = {text("x"), {NULL, 3}}, b[2] = {text("1"), text("2")};
  int64_t two = 2;
  uint64_t words[4] = {0};
  check_fails(run_all(session, a, b, 2), TN_INVALID_ARGUMENT,
              "input \"a\": its strings: string 1 has 3 bytes and no data");
  a[1] = (tn_string){"x", UINT64_MAX - 4};
  check_fails(run_all(session, a, b, 2), TN_INVALID_ARGUMENT,
              "input \"a\": its strings: string 1 has 18446744073709551611 bytes, and no memory has so many");
  a[0].length = a[1].length = (uint64_t)1 << 62;
  check_fails(run_all(session, a, b, 2), TN_INVALID_ARGUMENT,
              "input \"a\": its strings: string 1 has 4611686018427387904 bytes, and no memory has so many");
  DLTensor t = strings(b, 1, &two), numbers = t;
  check_fails(tn_session_set_input(session, NULL, "a", &t, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT,
              "input \"a\": strings are copied, they cannot be used in place");
  numbers.data = words;
  numbers.dtype = (DLDataType){kDLUInt, 64, 1};
  check_fails(tn_session_set_input(session, NULL, "a", &numbers, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"a\": the tensor is u64 and the executable wants string");
  check_fails(tn_session_set_output_bytes(session, NULL, 0, words, 8), TN_FAILED_PRECONDITION,
              "output \"joined\": its strings are bound before the memory for their bytes");
  check_fails(tn_session_set_output_bytes(session, NULL, 1, words, 8), TN_INVALID_ARGUMENT,
              "output \"same\": it is no tensor of strings, whose bytes would need memory");
  check_fails(tn_session_set_output_bytes(session, NULL, 6, words, 8), TN_INVALID_ARGUMENT,
              "function \"main\" has 6 outputs; there is no number 6");
  a[0] = text("x"), a[1] = text("y");
  check_ok(run_all(session, a, b, 2)); /* as good as before */
  finish(&k, session);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void later_runs_allocate_nothing(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *other = compile(&k), *session;
  failing_allocator memory;
  failing_allocator_init(&memory, -1);
  tn_session_options options = {.size = sizeof options, .threads = 1, .allocator = &memory.allocator};
  check_ok(tn_session_create(k.executable, &options, &session));
  char large[5000];
  memset(large, 'l', sizeof(large));
  tn_string a[2] = {{large, sizeof(large)}, text("m")}, b[2] = {text("1"), {large, sizeof(large)}};
  DLTensor got;
  int calls = 0;
  for (int i = 0; i < 6; i++) {
    if (i == 1) calls = memory.calls;
    check_ok(run_all(session, a, b, 2));
    for (int o = 0; o < 6; o++) check_ok(tn_session_get_output(session, NULL, o, &got));
    assert_int_equal(((const tn_string *)got.data)[1].length, b[1].length);
    b[1].length -= 100;
  }
  assert_int_equal(memory.calls, calls);
  tn_session_release(session);
  assert_int_equal(memory.live_count, 0);
  finish(&k, other);
}

static tn_status *run_two(tn_session *session) {
  tn_string a[2] = {text("x,y"), text("m")}, b[2] = {text("1"), text("2")};
  DLTensor got;
  TN_RETURN_IF_ERROR(run_all(session, a, b, 2));
  return tn_session_get_output(session, NULL, 2, &got);
}

static void check_two(tn_session *session) {
  DLTensor got;
  check_ok(run_two(session));
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  check_is(&got, 0, "x,y1");
}

static void a_lack_of_memory_is_survived(void **state) {
  compile_case k = {.build = build_all, .threads = 1};
  tn_session *session = compile(&k);
  assert_true(refuse_each_allocation(k.executable, run_two, check_two) > 5);
  finish(&k, session);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* The list with x behind it, and the tensor at the start. */
static void build_list(tn__graph *g) {
  tn__value *list = tn__graph_input(g, "list", TN_STRING, 0, NULL);
  list->holds = TN__HOLDS_SEQUENCE;
  list->item_rank = 1;
  tn__value *longer = tn__g_sequence_insert(g, list, string_vector(g, "x"), NULL);
  tn__graph_output(g, "longer", longer);
  tn__graph_output(g, "all", tn__g_sequence_join(g, longer, 0, false, NULL, NULL));
}

static void sequences_hold_strings(void **state) {
  compile_case k = {.build = build_list, .threads = 1};
  tn_session *session = compile(&k);
  tn_string first[2] = {text("a"), text("bc")}, second[1] = {text("defghijkl")}, x[1] = {text("m")};
  int64_t two = 2, one = 1, zero = 0;
  DLTensor items[3] = {strings(first, 1, &two), strings(NULL, 1, &zero), strings(second, 1, &one)}, got;
  DLTensor in = strings(x, 1, &one);
  check_ok(tn_session_set_input_list(session, NULL, 0, items, 3));
  memset(first, 0xee, sizeof(first));
  check_ok(tn_session_set_input_at(session, NULL, 1, &in, TN_BIND_PERSISTENT));
  for (int run = 0; run < 3; run++) {
    int count;
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output_count(session, NULL, 0, &count));
    assert_int_equal(count, 4);
    check_ok(tn_session_get_output_item(session, NULL, 0, 0, &got));
    check_is(&got, 1, "bc");
    DLTensor last;
    check_ok(tn_session_get_output_item(session, NULL, 0, 3, &last));
    check_is(&last, 0, "m");
    check_is(&got, 0, "a"); /* still there */
    check_ok(tn_session_get_output(session, NULL, 1, &got));
    assert_int_equal(got.shape[0], 4);
    check_is(&got, 2, "defghijkl");
  }
  /* Three arrays of 64 bytes and an empty one, 13 bytes; then what is there is the caller's alone. */
  _Alignas(64) char memory[3 * 64 + 13];
  check_ok(tn_session_set_output_list(session, NULL, 0, memory, sizeof(memory) - 1));
  check_fails(
      tn_session_invoke(session, NULL), TN_OUT_OF_RANGE,
      "output \"longer\": its 4 tensors need 205 bytes, each at a multiple of 64, and the bound memory has 204; "
      "tn_session_get_output_item() has them");
  check_ok(tn_session_get_output_item(session, NULL, 0, 3, &got));
  check_is(&got, 0, "m");
  assert_false((char *)got.data >= memory && (char *)got.data < memory + sizeof(memory));
  check_ok(tn_session_set_output_list(session, NULL, 0, memory, sizeof(memory)));
  for (int run = 0; run < 2; run++) {
    memset(memory, 0xee, sizeof(memory));
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output_item(session, NULL, 0, 3, &got));
    assert_ptr_equal(got.data, memory + 128);
    check_is(&got, 0, "m");
    const tn_string *whole = (const tn_string *)(const void *)memory;
    assert_ptr_equal(whole[0].data, memory + 3 * 64);
    assert_memory_equal(memory + 3 * 64, "abcdefghijklm", 13);
  }
  check_ok(tn_session_set_output_list(session, NULL, 0, NULL, 0));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output_item(session, NULL, 0, 0, &got));
  check_is(&got, 1, "bc");
  second[0] = (tn_string){NULL, 1};
  check_fails(tn_session_set_input_list(session, NULL, 0, &items[2], 1), TN_INVALID_ARGUMENT,
              "input \"list\": tensor 0: its strings: string 0 has 1 bytes and no data");
  finish(&k, session);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const tn__operand three = {0, 0, 3};

/* A function that returns a constant of three strings, as a file. */
static tn__bytes constant_file(test_exe *t) {
  test_exe_init(t, NULL);
  uint64_t references[3] = {tn__exe_string(t->exe, "eins", 4), 0, tn__exe_string(t->exe, "zwei, drei", 10)};
  assert_int_equal(references[0], TN__STRING_CONST);
  assert_int_equal(tn__exe_string(t->exe, "eins", 4), TN__STRING_CONST);
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int constant = tn__exe_constant(t->exe, "c", TN_STRING, 1, (const int64_t[]){3},
                                  tn__arena_copy(&t->arena, references, sizeof(references)), sizeof(references));
  tn__exe_output(f, "y", TN_STRING, 1, &three);
  int from = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_CONSTANT, constant, tn__prog_operand_const(0));
  int to = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_OUTPUT, 0, tn__prog_operand_const(0));
  tn__exe_emit(f, TN__OP_COPY, (uint32_t[]){(uint32_t)to, (uint32_t)from}, 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static const tn__file_section *section_of(const uint8_t *file, tn__section_kind kind) {
  const tn__file_header *header = (const void *)file;
  const tn__file_section *sections = (const void *)(file + header->header_size);
  for (uint32_t i = 0; i < header->section_count; i++)
    if (sections[i].kind == (uint32_t)kind) return &sections[i];
  fail_msg("no section %d", (int)kind);
  return NULL;
}

static tn_status *load_spoilt(const tn__bytes *bytes, tn__section_kind kind, size_t at, uint64_t word) {
  uint8_t *copy = aligned_alloc(64, (bytes->size + 63) / 64 * 64);
  assert_non_null(copy);
  memcpy(copy, bytes->data, bytes->size);
  memcpy(copy + section_of(copy, kind)->offset + at, &word, sizeof(word));
  rehash(copy, bytes->size);
  tn_executable *exe;
  tn_status *status = tn_executable_load_memory(copy, bytes->size, NULL, &exe);
  tn_executable_release(exe);
  free(copy);
  return status;
}

#define NOT_SOUND "the executable is damaged: its string data is not one string after another"
#define NO_STRING(n) "the executable is damaged: element " #n " of constant \"c\" is no string of its string data"

static void constants_are_checked(void **state) {
  test_exe t;
  tn__bytes bytes = constant_file(&t);
  check_ok(load_spoilt(&bytes, TN__SECTION_CONSTANTS, 0, 0));
  check_fails(load_spoilt(&bytes, TN__SECTION_STRING_DATA, 0, UINT64_MAX), TN_DATA_LOSS, NOT_SOUND);
  check_fails(load_spoilt(&bytes, TN__SECTION_STRING_DATA, 0, 1 << 20), TN_DATA_LOSS, NOT_SOUND);
  check_fails(load_spoilt(&bytes, TN__SECTION_STRING_DATA, 16, 17), TN_DATA_LOSS, NOT_SOUND);
  check_fails(load_spoilt(&bytes, TN__SECTION_CONSTANTS, 0, 8), TN_DATA_LOSS, NO_STRING(0));
  check_fails(load_spoilt(&bytes, TN__SECTION_CONSTANTS, 8, TN__STRING_CONST | 4), TN_DATA_LOSS, NO_STRING(1));
  check_fails(load_spoilt(&bytes, TN__SECTION_CONSTANTS, 16, TN__STRING_CONST | 40), TN_DATA_LOSS, NO_STRING(2));
  check_fails(load_spoilt(&bytes, TN__SECTION_CONSTANTS, 16, UINT64_MAX - 7), TN_DATA_LOSS, NO_STRING(2));
  tn_executable *exe;
  tn_session *session;
  DLTensor got;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output(session, NULL, 0, &got));
  check_is(&got, 0, "eins");
  check_is(&got, 1, "");
  check_is(&got, 2, "zwei, drei");
  test_exe_close(&t, exe, session);
}

/* Numbers seen as strings: whatever they are, nothing outside of the session is read. */
static void made_up_references_lead_nowhere(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_input(f, "x", TN_I64, 1, &three);
  tn__exe_output(f, "y", TN_STRING, 1, &three);
  int x = tn__exe_register(f, TN_I64, 1, &three, TN__STORAGE_INPUT, 0, tn__prog_operand_const(0));
  int seen = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_VIEW, x, tn__prog_operand_const(0));
  int y = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_OUTPUT, 0, tn__prog_operand_const(0));
  tn__exe_emit_builtin(f, TN__BUILTIN_STRING_CONCAT, (int[]){seen, seen}, 2, &y, 1, NULL, 0);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = test_exe_open(&t, &exe);
  int64_t shape = 3, numbers[3] = {0, 0, 0};
  DLTensor in = {.data = numbers, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 64, 1}, .shape = &shape};
  static const int64_t tried[] = {8, 16, 4096, -1, -8, INT64_MIN, INT64_MIN + 8, INT64_MAX, INT64_MAX - 7};
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, NULL, 0));
  for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
    numbers[2] = tried[i];
    tn_status *status = tn_session_invoke_with_outputs(session, NULL, &in, 1, NULL, 0);
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_RANGE);
    assert_non_null(strstr(tn_status_message(status), "is not a string of this function's"));
    tn_status_free(status);
  }
  test_exe_close(&t, exe, session);
}

/* Registers of the arena that overlap: each string that is made is read again, later, in place of one that was
 * measured. */
static void overlapping_registers_lead_nowhere(void **state) {
  enum { COUNT = 64, SHIFT = 64, LONG = 1000 };
  static const tn__operand many = {0, 0, COUNT};
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_input(f, "a", TN_STRING, 1, &many);
  tn__exe_input(f, "b", TN_STRING, 1, &many);
  tn__exe_arena(f, tn__prog_operand_const(COUNT * 8 + SHIFT));
  int a = tn__exe_register(f, TN_STRING, 1, &many, TN__STORAGE_INPUT, 0, tn__prog_operand_const(0));
  int b = tn__exe_register(f, TN_STRING, 1, &many, TN__STORAGE_INPUT, 1, tn__prog_operand_const(0));
  int x = tn__exe_register(f, TN_STRING, 1, &many, TN__STORAGE_ARENA, 0, tn__prog_operand_const(0));
  int y = tn__exe_register(f, TN_STRING, 1, &many, TN__STORAGE_ARENA, 0, tn__prog_operand_const(SHIFT));
  tn__exe_emit(f, TN__OP_COPY, (uint32_t[]){(uint32_t)x, (uint32_t)a}, 2);
  tn__exe_emit_builtin(f, TN__BUILTIN_STRING_CONCAT, (int[]){x, b}, 2, &y, 1, NULL, 0);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = test_exe_open(&t, &exe);
  char long_text[LONG];
  memset(long_text, 'l', sizeof(long_text));
  tn_string first[COUNT], second[COUNT];
  for (int i = 0; i < COUNT; i++) first[i] = text("a"), second[i] = (tn_string){long_text, LONG};
  int64_t count = COUNT;
  DLTensor in[2] = {strings(first, 1, &count), strings(second, 1, &count)};
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_OUT_OF_RANGE,
              "the executable is wrong: a string changes while an instruction reads it");
  test_exe_close(&t, exe, session);
}

/* A builtin whose operand is a view of its own result, of which it makes another one. */
static void check_reads_what_it_makes(int builtin, int rank) {
  static const tn__operand pieces[2] = {{0, 0, 3}, {0, 0, 1}}, one = {0, 0, 1};
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_input(f, "x", TN_STRING, 1, &three);
  tn__exe_input(f, "word", TN_STRING, 1, &one);
  tn__exe_arena(f, tn__prog_operand_const(64));
  int x = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_INPUT, 0, tn__prog_operand_const(0));
  int word = tn__exe_register(f, TN_STRING, 1, &one, TN__STORAGE_INPUT, 1, tn__prog_operand_const(0));
  int made = tn__exe_register(f, TN_STRING, rank, pieces, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  int view = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_VIEW, made, tn__prog_operand_const(0));
  int counts = tn__exe_register(f, TN_I64, 1, &three, TN__STORAGE_ARENA, 0, tn__prog_operand_const(0));
  int flags[2] = {tn__exe_emit_const(f, 2), tn__exe_emit_const(f, 1)}, writes = rank;
  tn__exe_emit_builtin(f, builtin, (int[]){x, word}, 2, (int[]){made, counts}, writes, flags, 3 - rank);
  tn__exe_emit_builtin(f, builtin, (int[]){view, word}, 2, (int[]){made, counts}, writes, flags, 3 - rank);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn_executable *exe;
  tn_session *session = test_exe_open(&t, &exe);
  tn_string given[3] = {text("a"), text("b"), text("c")}, given_word = text("-");
  int64_t dims[2] = {3, 1};
  DLTensor in[2] = {strings(given, 1, &dims[0]), strings(&given_word, 1, &dims[1])};
  check_fails(tn_session_invoke_with_outputs(session, NULL, in, 2, NULL, 0), TN_OUT_OF_RANGE,
              "the executable is wrong: a builtin on strings reads what it makes");
  test_exe_close(&t, exe, session);
}

static void builtins_read_nothing_that_they_make(void **state) {
  check_reads_what_it_makes(TN__BUILTIN_STRING_NORMALIZE, 1);
  check_reads_what_it_makes(TN__BUILTIN_STRING_SPLIT, 2);
}

static void builtins_want_strings(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_input(f, "x", TN_I64, 1, &three);
  tn__exe_output(f, "y", TN_STRING, 1, &three);
  int x = tn__exe_register(f, TN_I64, 1, &three, TN__STORAGE_INPUT, 0, tn__prog_operand_const(0));
  int y = tn__exe_register(f, TN_STRING, 1, &three, TN__STORAGE_OUTPUT, 0, tn__prog_operand_const(0));
  tn__exe_emit_builtin(f, TN__BUILTIN_STRING_CONCAT, (int[]){x, x}, 2, &y, 1, NULL, 0);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
              "the executable is damaged: function \"main\", code word 0, BUILTIN: builtin \"string_concat\": register "
              "0 is of another type");
  test_exe_release(&t);
}

/* ---- tensors of the caller's ------------------------------------------------------------------------------------- */

static void tensors_own_their_strings(void **state) {
  failing_allocator memory;
  tn_string given[2] = {text("first"), {NULL, 0}};
  int64_t two = 2;
  tn_tensor *tensor;
  for (int refused = 0;; refused++) {
    failing_allocator_init(&memory, refused);
    tn_status *status = tn_tensor_create_strings(1, &two, given, &memory.allocator, &tensor);
    if (status == NULL) break;
    assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    assert_null(tensor);
    assert_int_equal(memory.live_count, 0);
    tn_status_free(status);
  }
  given[0] = text("other");
  check_is(tn_tensor_dl(tensor), 0, "first");
  check_is(tn_tensor_dl(tensor), 1, "");
  tn_tensor_release(tensor);
  assert_int_equal(memory.live_count, 0);
}

/* An .npy file of NumPy's strings, by its type, shape and bytes. */
static tn_status *read_npy(const char *descr, const char *shape, const void *body, size_t size, tn_tensor **out) {
  char file[1024];
  int length =
      snprintf(file + 10, sizeof(file) - 10, "{'descr': '%s', 'fortran_order': True, 'shape': (%s), }", descr, shape);
  assert_true(length > 0 && (size_t)length + 10 + size <= sizeof(file));
  memcpy(file, "\x93NUMPY\x01\x00", 8);
  file[8] = (char)length, file[9] = 0;
  memcpy(file + 10 + length, body, size);
  return tn_tensor_read_npy_memory("x.npy", file, 10 + (size_t)length + size, NULL, out);
}

static void files_hold_strings(void **state) {
  static const uint32_t body[6] = {'a', 0, 0x20ac, 'c', 0x1f600, 0}, broken[2] = {0xd800, 0};
  tn_tensor *tensor;
  check_ok(read_npy("<U2", "1, 3", body, sizeof(body), &tensor));
  check_is(tn_tensor_dl(tensor), 0, "a");
  check_is(tn_tensor_dl(tensor), 1,
           "\xe2\x82\xac"
           "c");
  check_is(tn_tensor_dl(tensor), 2, "\xf0\x9f\x98\x80");
  tn_tensor_release(tensor);
  check_ok(read_npy("<U1", "2, 3", body, sizeof(body), &tensor)); /* the first dimension runs fastest */
  check_is(tn_tensor_dl(tensor), 1, "\xe2\x82\xac");
  check_is(tn_tensor_dl(tensor), 4, "c");
  tn_tensor_release(tensor);
  check_ok(read_npy("|S4", "2,",
                    "ab\0\0\xff"
                    "efg",
                    8, &tensor));
  check_is(tn_tensor_dl(tensor), 0, "ab");
  check_is(tn_tensor_dl(tensor), 1,
           "\xff"
           "efg");
  tn_tensor_release(tensor);
  check_fails(read_npy("<U2", "1,", broken, sizeof(broken), &tensor), TN_DATA_LOSS,
              "x.npy: string 0 holds what is no character");
  check_fails(read_npy("<U2", "4,", body, sizeof(body), &tensor), TN_DATA_LOSS,
              "x.npy: string[4] needs more than the 24 bytes that follow its header");
  check_fails(read_npy("<U0", "4000000,", body, 0, &tensor), TN_DATA_LOSS,
              "x.npy: more empty strings than the file has bytes");
  check_fails(read_npy("<U99999999999", "1,", body, 0, &tensor), TN_UNSUPPORTED,
              "x.npy: elements of NumPy's type \"<U99999999999\" are not supported");
  tn_string not_text = {"\xff", 1};
  int64_t one = 1;
  DLTensor bad = strings(&not_text, 1, &one);
  check_fails(tn_tensor_write_npy(&bad, "never.npy"), TN_UNSUPPORTED,
              "never.npy: string 0 is not UTF-8, and .npy files hold characters");
}

/* ---- regular expressions ----------------------------------------------------------------------------------------- */

typedef struct pattern_case {
  const char *pattern;
  size_t length;
  const char *text;
  size_t text_length;
  bool matches;
} pattern_case;

static void match_pattern(tn__arena *arena, void *user) {
  pattern_case *p = user;
  tn__regex regex;
  int count;
  const int64_t *program = tn__onnx_compile_regex(arena, NULL, p->pattern, p->length, &count);
  assert_true(tn__regex_open(program, count, &regex));
  /* What is cut off or leads outside is no program. */
  assert_false(tn__regex_open(program, 0, &regex));
  int opened = 0;
  for (int i = 1; i < count && i < 30; i++) opened += tn__regex_open(program, i, &regex);
  assert_true(opened < 30);
  assert_true(tn__regex_open(program, count, &regex));
  void *scratch = tn__arena_alloc(arena, (size_t)tn__regex_scratch(&regex));
  p->matches = tn__regex_matches(&regex, p->text, p->text_length, scratch);
}

static bool matches_bytes(const char *pattern, const char *s, size_t length) {
  pattern_case p = {pattern, strlen(pattern), s, length, false};
  check_ok(tn__with_arena(NULL, match_pattern, &p));
  return p.matches;
}
static bool matches(const char *pattern, const char *s) { return matches_bytes(pattern, s, strlen(s)); }

static void patterns_match(void **state) {
  static const struct {
    const char *pattern, *yes[4], *no[4];
  } rows[] = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"ab", "abcd", "xabc"}},
      {"a|bc|", {"a", "bc", ""}, {"ab", "b"}},
      {"a*b+c?", {"b", "aabbc", "bc"}, {"a", "ac", "bcc"}},
      {"(ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
      {"x{2}", {"xx"}, {"x", "xxx"}},
      {"x{2,}y*?", {"xx", "xxxx", "xxyy"}, {"x"}},
      {"x{,2}", {"x{,2}"}, {"x", "xx"}},
      {"[a-cx-]+", {"abcx-"}, {"d", ""}},
      {"[^a-c]", {"d", "\xc3\xa9", "\n"}, {"a", "dd"}},
      {"[]a]+", {"]a"}, {"b"}},
      {"[[:alpha:][:^digit:]]", {"a", "-"}, {"7"}},
      {"\\d+\\.\\w\\s\\D\\W\\S", {"12.a b-c"}, {"12.a b-", "12xa b-c"}},
      {"[\\d_]+", {"1_2"}, {"a"}},
      {".", {"a", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}, {"\n", "ab", ""}},
      {"(?s).", {"\n"}, {""}},
      {"(?i)straSSe", {"STRASSE", "strasse"}, {"strase"}},
      {"(?i:K)k", {"kk", "Kk", "\xe2\x84\xaak"}, {"kK"}},
      {"(?i)\xc3\xa4[b-d]",
       {"\xc3\x84"
        "C"},
       {"a"}},
      {"(?P<name>a)(?<other>b)(?:c)", {"abc"}, {"ab"}},
      {"^a$", {"a"}, {"a\n"}},
      {"(?m)a$\\n^b", {"a\nb"}, {"ab"}},
      {"\\Aa\\z", {"a"}, {"aa"}},
      {"\\bab\\b.\\Bc|.*\\bx", {"a x", "x"}, {"ab c", "ax"}},
      {"\\x41\\x{20AC}\\101\\n",
       {"A\xe2\x82\xac"
        "A\n"},
       {"A"}},
      {"\\Qa.b*\\Ec", {"a.b*c"}, {"axbbc"}},
      {"\\Qab\\E+", {"ab", "abbb"}, {"abab", "a"}},
      {"\\Qab*\\E{2}", {"ab**"}, {"ab*", "ab*ab*"}},
      {"a\\Q\\E+", {"aa"}, {""}},
      {"a(?i)+b", {"aaB"}, {"AB"}},
      {"(?i)\\W", {"-"}, {"s", "K", "\xc5\xbf", "\xe2\x84\xaa"}},
      {"(?i)\\w+", {"sK", "\xc5\xbf\xe2\x84\xaa"}, {"-"}},
      {"(?i)[^\\W]", {"s", "\xc5\xbf"}, {"-"}},
      {"(?i)[[:^lower:]]", {"-", "1"}, {"k", "K"}},
      {"(?i)[[:upper:]\\d]+", {"kK1"}, {"-"}},
      {"\\W", {"\xc5\xbf"}, {"s"}},
      {"(a*)*b", {"b", "aab"}, {"aa"}},
      {"(((){1000}){1000}){1000}", {""}, {"a"}},
      {"(a|b|c|d|e)(f|g)", {"ag", "ef"}, {"a", "af "}},
      {"[\\w.+-]+@[\\w-]+\\.[\\w.]+", {"a.b+c@d-e.fg"}, {"a.b@", "@b.c"}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    for (int k = 0; k < 4 && rows[i].yes[k] != NULL; k++)
      if (!matches(rows[i].pattern, rows[i].yes[k])) fail_msg("%s: not \"%s\"", rows[i].pattern, rows[i].yes[k]);
    for (int k = 0; k < 4 && rows[i].no[k] != NULL; k++)
      if (matches(rows[i].pattern, rows[i].no[k])) fail_msg("%s: \"%s\"", rows[i].pattern, rows[i].no[k]);
  }
  assert_true(matches_bytes("a.b", "a\0b", 3));
  assert_false(matches_bytes(".*", "a\xff", 2)); /* bytes that are not UTF-8 are no characters */
  assert_false(matches_bytes("[^a]", "\xc3", 1));
  assert_false(matches_bytes(".", "\xed\xa0\x80", 3)); /* a surrogate */
}

/* What a backtracking matcher takes longer than the universe for. */
static void matching_is_linear(void **state) {
  char long_text[20001];
  memset(long_text, 'a', sizeof(long_text) - 1);
  long_text[20000] = '\0';
  assert_false(matches("(a*)*(a|aa)*(a?){30}a{30}b", long_text));
  assert_true(matches("(a*)*(a|aa)*(a?){30}a{30}", long_text));
}

static void expect_bad_pattern(const char *pattern, tn_status_code code, const char *why) {
  pattern_case p = {pattern, strlen(pattern), "", 0, false};
  check_fails(tn__with_arena(NULL, match_pattern, &p), code, why);
}

static void wrong_patterns_are_explained(void **state) {
  expect_bad_pattern("a(b", TN_INVALID_ARGUMENT, "the pattern \"a(b\" at byte 3: ( has no )");
  expect_bad_pattern("a)b", TN_INVALID_ARGUMENT, "the pattern \"a)b\" at byte 1: ) has no (");
  expect_bad_pattern("[a", TN_INVALID_ARGUMENT, "the pattern \"[a\" at byte 2: [ has no ]");
  expect_bad_pattern("[z-a]", TN_INVALID_ARGUMENT, "the pattern \"[z-a]\" at byte 4: a range ends before it begins");
  expect_bad_pattern("*a", TN_INVALID_ARGUMENT, "the pattern \"*a\" at byte 0: nothing is there to be repeated");
  expect_bad_pattern("(?i)*a", TN_INVALID_ARGUMENT,
                     "the pattern \"(?i)*a\" at byte 4: nothing is there to be repeated");
  expect_bad_pattern("a|{2}", TN_INVALID_ARGUMENT, "the pattern \"a|{2}\" at byte 2: nothing is there to be repeated");
  expect_bad_pattern("\\Q\\E+", TN_INVALID_ARGUMENT,
                     "the pattern \"\\Q\\E+\" at byte 4: nothing is there to be repeated");
  expect_bad_pattern("a+(?i)?", TN_INVALID_ARGUMENT,
                     "the pattern \"a+(?i)?\" at byte 7: two repetitions follow each other");
  expect_bad_pattern("a**", TN_INVALID_ARGUMENT, "the pattern \"a**\" at byte 3: two repetitions follow each other");
  expect_bad_pattern("a{1001}", TN_INVALID_ARGUMENT,
                     "the pattern \"a{1001}\" at byte 7: repetitions are counted up to 1000, the least number first");
  expect_bad_pattern("(a)\\1", TN_INVALID_ARGUMENT, "the pattern \"(a)\\1\" at byte 4: no such escape in RE2's syntax");
  expect_bad_pattern("(?=a)", TN_INVALID_ARGUMENT, "the pattern \"(?=a)\" at byte 2: no such group in RE2's syntax");
  expect_bad_pattern("a\\", TN_INVALID_ARGUMENT, "the pattern \"a\\\" at byte 2: it ends with a backslash");
  expect_bad_pattern("\\pL", TN_UNSUPPORTED,
                     "the pattern \"\\pL\" at byte 1: classes by Unicode property are not supported");
  expect_bad_pattern("\xff", TN_INVALID_ARGUMENT, "the pattern \"\\xff\" at byte 0: it is not UTF-8");
  expect_bad_pattern("((a{1000}){1000})", TN_UNSUPPORTED,
                     "the pattern \"((a{1000}){1000})\" at byte 17: it is too large: its repetitions are written out");
  char deep[600];
  memset(deep, '(', 599);
  deep[599] = '\0';
  pattern_case p = {deep, 599, "", 0, false};
  tn_status *status = tn__with_arena(NULL, match_pattern, &p);
  assert_int_equal(tn_status_code_of(status), TN_UNSUPPORTED);
  tn_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_go_in_and_out),
      cmocka_unit_test(outputs_fill_the_callers_memory),
      cmocka_unit_test(wrong_strings_are_refused),
      cmocka_unit_test(later_runs_allocate_nothing),
      cmocka_unit_test(a_lack_of_memory_is_survived),
      cmocka_unit_test(sequences_hold_strings),
      cmocka_unit_test(constants_are_checked),
      cmocka_unit_test(made_up_references_lead_nowhere),
      cmocka_unit_test(results_are_the_next_inputs),
      cmocka_unit_test(results_are_the_next_inputs_only),
      cmocka_unit_test(outputs_of_strings_share_nothing),
      cmocka_unit_test(overlapping_registers_lead_nowhere),
      cmocka_unit_test(builtins_read_nothing_that_they_make),
      cmocka_unit_test(builtins_want_strings),
      cmocka_unit_test(tensors_own_their_strings),
      cmocka_unit_test(files_hold_strings),
      cmocka_unit_test(patterns_match),
      cmocka_unit_test(matching_is_linear),
      cmocka_unit_test(wrong_patterns_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
