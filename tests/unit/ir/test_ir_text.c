/* Text to function and back, errors of the parser and of the verifier in their own words. */
#include "ir/passes.h"
#include "unit/ir_check.h"

static char *text_of(const tn__func *func) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__func_print(func, &buf);
  char *text = strdup(tn__strbuf_text(&buf));
  tn__strbuf_release(&buf);
  return text;
}

static tn__func *parsed(tn__ir *ir, const char *text) {
  tn__func *func;
  check_ok(tn__func_parse(ir, "test", text, strlen(text), &func));
  return func;
}

/* Printed, the function is `text` again. */
static void check_round_trip(tn__ir *ir, const char *text) {
  tn__func *func = parsed(ir, text);
  check_ok(tn__func_verify(ir, func));
  char *again = text_of(func);
  assert_string_equal(again, text);
  free(again);
}

static void test_every_statement_round_trips(void **state) {
  check_round_trip(ir_of(state),
                   "func all[M, N in [1, +64), K in [?, ?)](A: f32[M, 8], B: i64[]) -> (C: f32[M, 8]) {\n"
                   "  alloc T: f32[8] register {\n"
                   "    parallel i in [0, +M) {\n"
                   "      vectorized j in [0, +8) {\n"
                   "        T[j] = A[i, j]*2.5f32\n"
                   "      }\n"
                   "      if likely(i < N) {\n"
                   "        unrolled j in [2, +6) {\n"
                   "          C[i, j] = T[j] + C[i, j - 2]\n"
                   "        }\n"
                   "      } else {\n"
                   "        fail 3\n"
                   "      }\n"
                   "      let x: i64 in [0, +4) = B[] {\n"
                   "        C[i, x] = f32(inf)\n"
                   "      }\n"
                   "      let y: f16 = -0.0f16 {\n"
                   "        while B[] != 0 {\n"
                   "          C[i, 0] = f32(y)\n"
                   "        }\n"
                   "      }\n"
                   "    }\n"
                   "  }\n"
                   "}\n");
  check_round_trip(ir_of(state),
                   "func hints(A: bf16[4, 2], B: bf16[64, 2]) -> (C: f32[4, 16]) {\n"
                   "  for i in [0, +4) pragma unroll_limit 8 pragma whole 1 {\n"
                   "    prefetch A[i + 2, 0]\n"
                   "    prefetch_far A[i + 3, 0]\n"
                   "    stream C[i, 0] = 0.0f32\n"
                   "    tensor \"x86.avx512bf16.dpbf16ps\" (C[i, 0], A[i, 0], B[i*16, 0]) {\n"
                   "      for j in [0, +16) {\n"
                   "        for p in [0, +2) {\n"
                   "          C[i, j] = C[i, j] + f32(A[i, p])*f32(B[i*16 + j, p])\n"
                   "        }\n"
                   "      }\n"
                   "    }\n"
                   "  }\n"
                   "}\n");
  check_round_trip(ir_of(state),
                   "func sums(A: f32[10, 16]) -> (C: f32[10]) {\n"
                   "  for i in [0, +12) {\n"
                   "    for k in [0, +16) {\n"
                   "      block \"the \\\"sum\\\"\" {\n"
                   "        where i < 10\n"
                   "        axis vi: spatial in [0, +10) = i\n"
                   "        axis vk: reduce in [0, +16) = k\n"
                   "        axis vs: scan in [0, +1) = 0\n"
                   "        reads A[vi:+1, vk:+1]\n"
                   "        writes C[vi:+1]\n"
                   "        init {\n"
                   "          C[vi] = 0.0f32\n"
                   "        }\n"
                   "        C[vi] = C[vi] + A[vi, vk]\n"
                   "      }\n"
                   "    }\n"
                   "  }\n"
                   "}\n");
}

static void test_every_operation_round_trips(void **state) {
  check_round_trip(ir_of(state),
                   "func ops(A: f32[4], B: i32[4], P: bool[4], U: u64[4], H: bf16[4]) -> (C: f32[4], D: i32[4], E: "
                   "bool[4], V: u64[4]) {\n"
                   "  for i in [0, +4) {\n"
                   "    C[i] = (A[i] + 1.0f32)*(A[i] - (2.0f32 - A[0]))/A[1]%A[2]\n"
                   "    C[i] = min(max(A[i], -1e-05f32), f32(nan)) - neg(A[i])\n"
                   "    C[i] = select(is_nan(A[i]) || P[i] && !P[0], fma(A[0], A[1], A[2]), pow(A[0], f32(H[1])))\n"
                   "    C[i] = bitcast(f32, B[i]) + f32(B[i]) + f32(f16(A[i]))\n"
                   "    D[i] = B[i] << 3i32 >> 1i32 & 7i32 ^ B[0] | -2147483648i32\n"
                   "    D[i] = clz(B[i]) + popcount(!B[0]) + i32(-i + 3)\n"
                   "    E[i] = A[i] < 1.0f32 && B[i] <= 3i32 && !(A[0] <= 2.0f32)\n"
                   "    E[i] = (A[i] == A[0]) == P[0] || A[1] != 2.0f32\n"
                   "    V[i] = 18446744073709551615u64 + U[i]/7u64\n"
                   "  }\n"
                   "}\n");
}

/* Ninety levels that use each other twice are 2^90 operations as text. */
static void test_short_prints_are_short(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__var *n = tn__var_create(ir, "n", TN_I64, tn__ir_index(ir, 0), NULL);
  const tn__expr *e = n->self;
  for (int i = 0; i < 90; i++) e = tn__ir_max(ir, tn__ir_mod(ir, e, tn__ir_index(ir, 1000 + i)), tn__ir_mul(ir, e, e));
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  tn__expr_print_short(n->self, &out);
  tn__strbuf_append(&out, " and ");
  tn__expr_print_short(e, &out);
  assert_int_equal(out.length, strlen("n and ") + 200 + strlen("..."));
  assert_memory_equal(tn__strbuf_text(&out), "n and max(", 10);
  assert_string_equal(tn__strbuf_text(&out) + out.length - 3, "...");
  tn__strbuf_release(&out);
}

/* Variables made in another order than the text names them, names that collide or are no names, the same loop twice. */
static void test_printing_is_stable(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *ten = tn__ir_index(ir, 10), *zero = tn__ir_index(ir, 0);
  const tn__var *inner = tn__var_create(ir, "i", TN_I64, zero, ten),
                *outer = tn__var_create(ir, "i", TN_I64, zero, ten);
  const tn__buffer *out = tn__buffer_create(ir, "layer/1:0", TN_I64, TN__SCOPE_PARAM, 0, NULL);
  const tn__expr *value = tn__ir_add(ir, tn__ir_mul(ir, inner->self, outer->self),
                                     tn__ir_add(ir, inner->self, tn__ir_mul_i(ir, outer->self, 3)));
  const tn__stmt *s = tn__ir_for(ir, inner, TN__LOOP_SERIAL, tn__ir_store(ir, out, NULL, value));
  s = tn__ir_for(ir, outer, TN__LOOP_SERIAL, tn__ir_seq2(ir, s, s));
  const tn__func *func = tn__func_create(ir, "f", NULL, 0, &out, 1, NULL, 0, s);
  check_ok(tn__func_verify(ir, func));
  char *text = text_of(func);
  assert_string_equal(text,
                      "func f() -> (layer_1_0: i64[]) {\n"
                      "  for i in [0, +10) {\n"
                      "    for i_1 in [0, +10) {\n"
                      "      layer_1_0[] = i*3 + i_1 + i*i_1\n"
                      "    }\n"
                      "    for i_1 in [0, +10) {\n"
                      "      layer_1_0[] = i*3 + i_1 + i*i_1\n"
                      "    }\n"
                      "  }\n"
                      "}\n");
  check_round_trip(ir, text);
  free(text);
}

#define BODY(text) "func f(A: f32[4]) -> (C: f32[4]) {\n  for i in [0, +4) {\n    " text "\n  }\n}\n"

static void test_parser_errors(void **state) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"", "test:1:1: expected 'func' at the start, not the end of the text"},
      {"func for() -> () {}", "test:1:6: 'for' is a word of the language and no name for the function"},
      {"func f(A: f31[4]) -> () {}", "test:1:11: expected a type"},
      {"func f(A: f32[4], A: f32[4]) -> () {}", "test:1:19: the name A is taken already"},
      {"func f(A: f32[4.0]) -> () {}", "test:1:15: a dimension must be of type i64, not f64"},
      {"func f() -> () { } }", "test:1:20: text after the end of the function"},
      {"func f() -> () {", "test:1:17: expected '}' at the end of the body, not the end of the text"},
      {BODY("C[i] = exp(A[i]"), "test:4:3: expected ')' after the argument of exp, not '}'"},
      {BODY("C[i] = A[i] + 1"), "test:3:17: the operands of + are of type f32 and i64; they must agree"},
      {BODY("C[i] = A[i, 0]"), "test:3:12: A has 1 dimension: that many indices are needed"},
      {BODY("C[i] = B[i]"), "test:3:12: nothing here is called B"},
      {BODY("D[i] = A[i]"), "test:3:5: there is no buffer D here"},
      {BODY("i[0] = A[i]"), "test:3:5: i is a variable, not a buffer"},
      {BODY("C[i] = i"), "test:3:12: a value of type i64 into C, whose elements are f32"},
      {BODY("C[i] = 300i8"), "test:3:12: 300 does not fit into i8"},
      {BODY("C[i] = -1u8"), "test:3:13: -1 does not fit into u8"},
      {BODY("C[i] = -1e39f32"), "test:3:13: -1e39 does not fit into f32; the infinite value is -inf"},
      {BODY("C[i] = 70000.0f16"), "test:3:12: 70000.0 does not fit into f16; the infinite value is inf"},
      {BODY("C[i] = 1.5i32"), "test:3:12: 1.5 is no number of type i32"},
      {BODY("C[i] = 1x"), "test:3:12: 'x' is no type for a number"},
      {BODY("C[i] = A[i] && A[0]"), "test:3:17: && does not take f32"},
      {BODY("C[i] = select(i, A[i], A[0])"), "test:3:12: the condition of select is of type i64, not bool"},
      {BODY("C[i] = bitcast(f64, A[i])"), "test:3:12: bitcast from f32 to f64: their sizes differ"},
      {BODY("C[i] = dot4(A[i], A[i])"), "test:3:12: dot4 does not take f32"},
      {BODY("C[i] = popcount(A[i])"), "test:3:12: popcount does not take f32"},
      {BODY("C[i] = select(0 < i < 3, A[i], A[0])"), "test:3:25: comparisons do not chain: use && between them"},
      {BODY("C[i] = $"), "test:3:12: '$' has no meaning here"},
      {BODY("C[i] = \x01"), "test:3:12: byte 0x01 has no meaning here"},
      {BODY("if A[i] { }"), "test:3:8: the condition of if must be of type bool, not f32"},
      {BODY("for i in [0, +3) { }"), "test:3:9: the name i is taken already"},
      {BODY("for j in [0, 3) { }"), "test:3:18: expected '+' before the extent, not '3'"},
      {BODY("alloc T: f32[4] param { }"), "test:3:21: expected workspace, stack, register, shared or local"},
      {BODY("fail 0"), "test:3:10: expected a result code, a number from 1 on"},
      {BODY("block b { }"), "test:3:11: expected the block's name in quotes"},
      {BODY("block \"b { }"), "test:3:11: a string without an end"},
      {BODY("block \"b\" { axis v: linear in [0, +3) = i }"), "test:3:25: expected spatial, reduce or scan"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    tn__func *func;
    check_placed_error(tn__func_parse(ir_of(state), "test", cases[i].text, strlen(cases[i].text), &func),
                       cases[i].error);
    assert_null(func);
  }
}

static void test_depth_is_bounded(void **state) {
  tn__ir *ir = ir_of(state);
  tn__func *func;
  size_t size = 100000;
  char *text = malloc(size + 100);
  size_t start = (size_t)sprintf(text, "func f(A: f32[]) -> (C: f32[]) { C[] = ");
  memset(text + start, '(', size);
  check_placed_error(tn__func_parse(ir, "test", text, start + size, &func),
                     "test:1:239: nested more than 200 levels deep");
  for (size_t i = 0; i < 3000; i++) memcpy(text + start + i * 6, "A[] + ", 6);
  check_placed_error(tn__func_parse(ir, "test", text, start + 18000, &func),
                     "test:1:6044: an expression of more than 1000 levels");
  for (size_t i = 0; i < 10000; i++) memcpy(text + i * 10, "if true { ", 10);
  memcpy(text, "func f() -> () {", 16);
  memcpy(text + 16, "    ", 4);
  check_placed_error(tn__func_parse(ir, "test", text, size, &func), "test:1:2014: nested more than 200 levels deep");
  free(text);
}

static void test_verifier_errors(void **state) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {BODY("A[i] = 0.0f32"), "function f: a store to the input A"},
      {BODY("alloc T: f32[4] stack { stream T[0] = 0.0f32 }"),
       "function f: a store that streams to T, which is private"},
      {BODY("parallel j in [0, +2) { parallel k in [0, +2) { } }"),
       "function f: parallel loop k is inside of a parallel loop"},
      {BODY("vectorized j in [0, +2) { for k in [0, +2) { } }"),
       "function f: loop k is inside of the vectorized loop j"},
      {BODY("vectorized j in [0, +i) { }"), "function f: vectorized loop j has no constant extent"},
      {BODY("unrolled j in [0, +i) { }"), "function f: unrolled loop j has no constant extent"},
      {BODY("alloc T: f32[i] register { }"), "function f: dimension 0 of T is not constant, as its scope wants it"},
      {BODY("alloc T: f32[16385] stack { }"), "function f: T has 65540 bytes; its scope allows 65536"},
      {BODY("block \"b\" { axis v: spatial in [0, +4) = i writes C[v:+1] C[v] = A[v] }"),
       "function f: block \"b\" reads A without stating it"},
      {BODY("block \"b\" { axis v: spatial in [0, +4) = i reads A[v:+1] C[v] = A[v] }"),
       "function f: block \"b\" writes C without stating it"},
      {BODY("block \"b\" { axis v: spatial in [0, +4) = i reads A[v:+1] writes C[v:+1] C[v] = A[v + 1] }"),
       "function f: block \"b\" reads A outside of the region that it states"},
      {BODY("block \"b\" { axis v: spatial in [0, +4) = i } block \"b\" { axis v: spatial in [0, +4) = i }"),
       "function f: two blocks are called \"b\""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    check_fails(tn__func_verify(ir_of(state), parsed(ir_of(state), cases[i].text)), TN_INTERNAL, cases[i].error);
}

static void test_verifier_sees_scopes(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__expr *four = tn__ir_index(ir, 4), *zero = tn__ir_index(ir, 0);
  const tn__var *i = tn__var_create(ir, "i", TN_I64, zero, four), *j = tn__var_create(ir, "j", TN_I64, zero, four);
  const tn__buffer *out = tn__buffer_create(ir, "C", TN_I64, TN__SCOPE_PARAM, 1, &four);
  const tn__buffer *temporary = tn__buffer_create(ir, "T", TN_I64, TN__SCOPE_STACK, 1, &four);
  const tn__stmt *store = tn__ir_store(ir, out, &i->self, tn__ir_mul(ir, i->self, j->self));
  const tn__stmt *body = tn__ir_for(ir, i, TN__LOOP_SERIAL, store);
  check_fails(tn__func_verify(ir, tn__func_create(ir, "f", NULL, 0, &out, 1, NULL, 0, body)), TN_INTERNAL,
              "function f: the value of the store to C reads the variable j, which is not bound there");
  body = tn__ir_for(ir, i, TN__LOOP_SERIAL, tn__ir_for(ir, i, TN__LOOP_SERIAL, tn__ir_fail(ir, 1)));
  check_fails(tn__func_verify(ir, tn__func_create(ir, "f", NULL, 0, &out, 1, NULL, 0, body)), TN_INTERNAL,
              "function f: loop i is bound a second time inside of its own scope");
  body = tn__ir_store(ir, out, &zero, tn__ir_load(ir, temporary, &zero));
  check_fails(tn__func_verify(ir, tn__func_create(ir, "f", NULL, 0, &out, 1, NULL, 0, body)), TN_INTERNAL,
              "function f: the value of the store to C reads the buffer T, which is not allocated there");
  check_fails(tn__func_verify(ir, tn__func_create(ir, "a b", NULL, 0, &out, 1, NULL, 0, tn__ir_fail(ir, 1))),
              TN_INTERNAL, "function a b: its name is no C identifier");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_every_statement_round_trips, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_every_operation_round_trips, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_printing_is_stable, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_parser_errors, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_short_prints_are_short, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_depth_is_bounded, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_verifier_errors, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_verifier_sees_scopes, ir_set_up, ir_tear_down),
  };
  return cmocka_run_group_tests_name("ir_text", tests, NULL, NULL);
}
