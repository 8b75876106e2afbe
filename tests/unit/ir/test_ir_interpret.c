/* What the operations mean, type by type, as the interpreter runs them and as the constructors fold them. */
#include <math.h>

#include "ir/passes.h"
#include "unit/ir_check.h"

static tn__func *parsed(tn__ir *ir, const char *text) {
  tn__func *func;
  check_ok(tn__func_parse(ir, "test", text, strlen(text), &func));
  check_ok(tn__func_verify(ir, func));
  return func;
}

/* Runs `out = expr` with x and y in memory, so that nothing folds, and with the constants in place, so that everything
 * does. */
static void check_operation(tn__ir *ir, const char *expr, const char *x_type, const char *x, const char *y,
                            const char *out_type, const char *expected) {
  char text[1024];
  tn_dtype in = tn_dtype_parse(x_type), to = tn_dtype_parse(out_type);
  unsigned char x_bytes[8] = {0}, y_bytes[8] = {0}, want[8] = {0}, run[8] = {0}, folded[8] = {0};
  void *constants[3] = {x_bytes, y_bytes, want};
  snprintf(text, sizeof(text), "func f() -> (x: %s[], y: %s[], w: %s[]) { x[] = %s y[] = %s w[] = %s }", x_type, x_type,
           out_type, x, y, expected);
  check_ok(tn__ir_interpret(ir, parsed(ir, text), constants, NULL, NULL));
  snprintf(text, sizeof(text),
           "func f(X: %s[], Y: %s[]) -> (out: %s[]) { let x: %s = X[] { let y: %s = Y[] { out[] = %s } } }", x_type,
           x_type, out_type, x_type, x_type, expr);
  void *buffers[3] = {x_bytes, y_bytes, run};
  check_ok(tn__ir_interpret(ir, parsed(ir, text), buffers, NULL, NULL));
  /* The same expression over constants: substitute the lets. */
  tn__func *func = parsed(ir, text);
  const tn__stmt *outer = func->body, *inner = outer->as.let.body;
  const tn__var *vars[2] = {outer->as.let.var, inner->as.let.var};
  const tn__expr *values[2];
  for (int i = 0; i < 2; i++) {
    const unsigned char *bytes = i == 0 ? x_bytes : y_bytes;
    values[i] = tn__dtype_is_float(in) ? tn__ir_float(ir, in, tn__load_f64(in, bytes, 0))
                                       : tn__ir_int(ir, in, tn__load_i64(in, bytes, 0));
  }
  const tn__stmt *store = tn__stmt_substitute(ir, inner->as.let.body, vars, values, 2);
  const tn__expr *value = store->as.store.value;
  assert_true(value->kind == TN__EXPR_INT || value->kind == TN__EXPR_FLOAT);
  if (tn__dtype_is_float(to))
    tn__store_f64(to, folded, 0, value->value.f);
  else
    tn__store_i64(to, folded, 0, value->value.i);
  if (memcmp(run, want, 8) != 0 || memcmp(folded, want, 8) != 0)
    fail_msg("%s with %s x = %s, y = %s: run %g, folded %g, not %s", expr, x_type, x, y, tn__load_f64(to, run, 0),
             tn__load_f64(to, folded, 0), expected);
}

typedef struct operation {
  const char *expr, *in, *x, *y, *out, *expected;
} operation;

static void check_operations(tn__ir *ir, const operation *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    check_operation(ir, list[i].expr, list[i].in, list[i].x, list[i].y, list[i].out, list[i].expected);
}
#define CHECK_OPERATIONS(list) check_operations(ir_of(state), list, sizeof(list) / sizeof(list[0]))

static void test_integers_wrap_and_divide_down(void **state) {
  static const operation list[] = {
      {"x + y", "i8", "127i8", "1i8", "i8", "-128i8"},
      {"x - y", "u8", "0u8", "1u8", "u8", "255u8"},
      {"x*y", "i16", "300i16", "300i16", "i16", "24464i16"},
      {"x*y", "u32", "4294967295u32", "2u32", "u32", "4294967294u32"},
      {"x + y", "u64", "18446744073709551615u64", "2u64", "u64", "1u64"},
      {"x/y", "i32", "-7i32", "2i32", "i32", "-4i32"},
      {"x%y", "i32", "-7i32", "2i32", "i32", "1i32"},
      {"x/y", "i32", "7i32", "-2i32", "i32", "-4i32"},
      {"x%y", "i32", "7i32", "-2i32", "i32", "-1i32"},
      {"x/y", "i8", "-128i8", "-1i8", "i8", "-128i8"},
      {"x%y", "i64", "-9223372036854775808", "-1", "i64", "0"},
      {"x/y", "i64", "-9223372036854775808", "-1", "i64", "-9223372036854775808"},
      {"x/y", "u64", "18446744073709551615u64", "2u64", "u64", "9223372036854775807u64"},
      {"x < y", "u64", "1u64", "18446744073709551615u64", "bool", "true"},
      {"max(x, y)", "u64", "1u64", "18446744073709551615u64", "u64", "18446744073709551615u64"},
      {"x < y", "i64", "1", "-1", "bool", "false"},
      {"x & y", "u8", "12u8", "10u8", "u8", "8u8"},
      {"x | y", "i8", "12i8", "-128i8", "i8", "-116i8"},
      {"x ^ y", "i64", "12", "10", "i64", "6"},
      {"!x", "u16", "1u16", "0u16", "u16", "65534u16"},
      {"x << y", "i8", "3i8", "6i8", "i8", "-64i8"},
      {"x << y", "i32", "1i32", "32i32", "i32", "0i32"},
      {"x >> y", "i8", "-128i8", "3i8", "i8", "-16i8"},
      {"x >> y", "i8", "-1i8", "100i8", "i8", "-1i8"},
      {"x >> y", "u8", "128u8", "3u8", "u8", "16u8"},
      {"x >> y", "u64", "18446744073709551615u64", "64u64", "u64", "0u64"},
      {"x >> y", "i64", "-8", "-1", "i64", "-1"},
      {"abs(x)", "i8", "-128i8", "0i8", "i8", "-128i8"},
      {"neg(x)", "u8", "1u8", "0u8", "u8", "255u8"},
      {"clz(x)", "u16", "1u16", "0u16", "u16", "15u16"},
      {"clz(x)", "i8", "0i8", "0i8", "i8", "8i8"},
      {"popcount(x)", "i8", "-1i8", "0i8", "i8", "8i8"},
      {"pow(x, y)", "i64", "-3", "39", "i64", "-4052555153018976267"},
      {"pow(x, y)", "i64", "3", "9223372036854775807", "i64", "-6148914691236517205"}, /* the inverse of 3 */
      {"pow(x, y)", "i32", "7i32", "12i32", "i32", "956385313i32"},
      {"pow(x, y)", "u8", "3u8", "255u8", "u8", "171u8"},
      {"pow(x, y)", "i8", "-1i8", "-3i8", "i8", "-1i8"},
      {"pow(x, y)", "i16", "0i16", "-3i16", "i16", "32767i16"},
      {"pow(x, y)", "i64", "2", "-1", "i64", "0"},
      {"dot4(x, y)", "i32", "-1i32", "-2139062144i32", "i32", "-130560i32"}, /* four times 255 by -128 */
      {"dot4(x, y)", "i32", "-1i32", "2139062143i32", "i32", "129540i32"},   /* and by 127 */
      {"dot4(x, y)", "i32", "67305985i32", "-1i32", "i32", "-10i32"},        /* 1, 2, 3, 4 by -1 */
  };
  CHECK_OPERATIONS(list);
}

static void test_logic(void **state) {
  static const operation list[] = {
      {"x && y", "bool", "true", "false", "bool", "false"},   {"x || y", "bool", "false", "true", "bool", "true"},
      {"x ^ y", "bool", "true", "true", "bool", "false"},     {"!x", "bool", "true", "true", "bool", "false"},
      {"max(x, y)", "bool", "true", "false", "bool", "true"}, {"likely(x)", "bool", "true", "false", "bool", "true"},
      {"i32(x)", "bool", "true", "false", "i32", "1i32"},
  };
  CHECK_OPERATIONS(list);
}

static void test_floats_follow_ieee(void **state) {
  static const operation list[] = {
      {"x + y", "f32", "16777216f32", "1f32", "f32", "16777216f32"},
      {"x + y", "f16", "2048f16", "1f16", "f16", "2048f16"},
      {"x*y", "f16", "300f16", "300f16", "f16", "f16(inf)"},
      {"x + y", "bf16", "256bf16", "1bf16", "bf16", "256bf16"},
      {"x/y", "f64", "1.0", "3.0", "f64", "0.3333333333333333"},
      {"x/y", "f32", "-1f32", "0f32", "f32", "f32(-inf)"},
      {"x%y", "f32", "-7.5f32", "2f32", "f32", "-1.5f32"},
      {"x%y", "f64", "7.5", "-2.0", "f64", "1.5"},
      {"min(x, y)", "f32", "f32(nan)", "1f32", "f32", "f32(nan)"},
      {"max(x, y)", "f32", "1f32", "f32(nan)", "f32", "f32(nan)"},
      {"max(x, y)", "f32", "-0.0f32", "0.0f32", "f32", "0.0f32"},
      {"min(x, y)", "f64", "0.0", "-0.0", "f64", "-0.0"},
      {"x == y", "f32", "f32(nan)", "f32(nan)", "bool", "false"},
      {"x != y", "f32", "f32(nan)", "f32(nan)", "bool", "true"},
      {"x < y", "f32", "f32(nan)", "1f32", "bool", "false"},
      {"!(x < y)", "f32", "f32(nan)", "1f32", "bool", "true"},
      {"x == y", "f64", "0.0", "-0.0", "bool", "true"},
      {"fma(x, y, -1f32)", "f32", "1.000244140625f32", "1.000244140625f32", "f32", "0.0004883408546447754f32"},
      {"round_even(x)", "f32", "2.5f32", "0f32", "f32", "2f32"},
      {"round_even(x)", "f32", "-3.5f32", "0f32", "f32", "-4f32"},
      {"round_even(x)", "f32", "-0.3f32", "0f32", "f32", "-0.0f32"},
      {"round_even(x)", "f64", "0.49999999999999994", "0.0", "f64", "0.0"},
      {"floor(x)", "f16", "-1.5f16", "0f16", "f16", "-2f16"},
      {"rsqrt(x)", "f32", "4f32", "0f32", "f32", "0.5f32"},
      {"is_nan(x)", "f16", "f16(nan)", "0f16", "bool", "true"},
      {"is_inf(x)", "bf16", "bf16(-inf)", "0bf16", "bool", "true"},
      {"neg(x)", "f32", "0.0f32", "0f32", "f32", "-0.0f32"},
      {"abs(x)", "f64", "-0.0", "0.0", "f64", "0.0"},
      {"select(x < y, x, y)", "f32", "1f32", "2f32", "f32", "1f32"},
  };
  CHECK_OPERATIONS(list);
}

static void test_casts(void **state) {
  static const operation list[] = {
      {"i32(x)", "f32", "-1.9f32", "0f32", "i32", "-1i32"},
      {"i8(x)", "f32", "200.7f32", "0f32", "i8", "127i8"},
      {"i8(x)", "f64", "-inf", "0.0", "i8", "-128i8"},
      {"i32(x)", "f32", "f32(nan)", "0f32", "i32", "0i32"},
      {"u8(x)", "f32", "-3f32", "0f32", "u8", "0u8"},
      {"i64(x)", "f64", "1e30", "0.0", "i64", "9223372036854775807"},
      {"i64(x)", "f32", "9223372036854775808f32", "0f32", "i64", "9223372036854775807"},
      {"u64(x)", "f64", "1e30", "0.0", "u64", "18446744073709551615u64"},
      {"u64(x)", "f64", "18446744073709549568.0", "0.0", "u64", "18446744073709549568u64"},
      {"bool(x)", "f32", "0.5f32", "0f32", "bool", "true"},
      {"bool(x)", "f32", "-0.0f32", "0f32", "bool", "false"},
      {"bool(x)", "f32", "f32(nan)", "0f32", "bool", "true"},
      {"bool(x)", "i32", "256i32", "0i32", "bool", "true"},
      {"i8(x)", "i32", "384i32", "0i32", "i8", "-128i8"},
      {"u32(x)", "i8", "-1i8", "0i8", "u32", "4294967295u32"},
      {"i64(x)", "u64", "18446744073709551615u64", "0u64", "i64", "-1"},
      {"f32(x)", "i64", "16777217", "0", "f32", "16777216f32"},
      /* Once: the way through f64 would give the neighbour above. */
      {"f32(x)", "i64", "9007199791611905", "0", "f32", "9007200328482816f32"},
      {"f32(x)", "u64", "18446744073709551615u64", "0u64", "f32", "18446744073709551616f32"},
      {"f64(x)", "u64", "18446744073709551615u64", "0u64", "f64", "18446744073709551616.0"},
      {"f16(x)", "f32", "65520f32", "0f32", "f16", "f16(inf)"},
      {"f16(x)", "f32", "65519f32", "0f32", "f16", "65504f16"},
      {"f16(x)", "f64", "1.00048828125000001", "0.0", "f16", "1f16"},
      {"f16(x)", "f64", "1.0004882812500002", "0.0", "f16", "1.001f16"},
      {"bf16(x)", "f32", "1.00390625f32", "0f32", "bf16", "1bf16"},
      {"bf16(x)", "f32", "1.01171875f32", "0f32", "bf16", "1.015625bf16"},
      {"bitcast(i32, x)", "f32", "1f32", "0f32", "i32", "1065353216i32"},
      {"bitcast(f16, x)", "u16", "15360u16", "0u16", "f16", "1f16"},
  };
  CHECK_OPERATIONS(list);
}

static const char lazy_text[] =
    "func f(A: f32[4], I: i64[4]) -> (C: f32[4]) {\n"
    "  for i in [0, +4) {\n"
    "    C[i] = select(I[i] >= 0 && I[i] < 4 && A[I[i]] > 0.0f32, A[I[i]], select(I[i] == 9 || 12/(I[i] - 9) > 3, "
    "5.0f32, -1.0f32))\n"
    "  }\n"
    "}\n";

static void test_selection_and_logic_are_lazy(void **state) {
  float a[4] = {1, -2, 3, 4}, c[4];
  int64_t at[4] = {2, 1, 9, -100};
  void *buffers[3] = {a, at, c};
  check_ok(tn__ir_interpret(ir_of(state), parsed(ir_of(state), lazy_text), buffers, NULL, NULL));
  const float expected[4] = {3, -1, 5, -1};
  assert_memory_equal(c, expected, sizeof(c));
}

static void test_failures(void **state) {
  tn__ir *ir = ir_of(state);
  float a[4] = {0}, c[4];
  int64_t at[1] = {7};
  void *buffers[3] = {a, at, c};
  static const struct {
    const char *body, *error;
    tn_status_code code;
  } cases[] = {
      {"C[0] = A[I[0]]", "f: load of A: index 0 is 7, outside of [0, 4)", TN_OUT_OF_RANGE},
      {"C[I[0]] = 0.0f32", "f: store of C: index 0 is 7, outside of [0, 4)", TN_OUT_OF_RANGE},
      {"C[0] = f32(1/(I[0] - 7))", "f: integer division by zero", TN_OUT_OF_RANGE},
      {"C[0] = f32(i32(1)%i32(I[0] - 7))", "f: integer division by zero", TN_OUT_OF_RANGE},
      {"fail 1", "f: an index is out of range", TN_OUT_OF_RANGE},
      {"fail 3", "f: a value is outside of what the operator allows", TN_OUT_OF_RANGE},
      {"while I[0] == 7 { C[0] = 1.0f32 }", "f: more operations than allowed", TN_CANCELLED},
      {"for i in [0, +1000000000000) { C[0] = 1.0f32 }", "f: more operations than allowed", TN_CANCELLED},
      {"alloc T: f32[I[0] - 9] workspace { T[0] = 0.0f32 }", "f: dimension 0 of T is -2", TN_OUT_OF_RANGE},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[512];
    snprintf(text, sizeof(text), "func f(A: f32[4], I: i64[1]) -> (C: f32[4]) { %s }", cases[i].body);
    tn__interpret_options options = {.max_operations = 100000};
    check_fails(tn__ir_interpret(ir, parsed(ir, text), buffers, NULL, &options), cases[i].code, cases[i].error);
  }
}

/* A loop that reads what it wrote, conditions that write, and an allocation that starts afresh in each round. */
static void test_memory_is_read_when_it_is_asked(void **state) {
  static const char text[] =
      "func f(n: i64[]) -> (fib: i64[10], fresh: bool[3]) {\n"
      "  fib[0] = 0\n"
      "  fib[1] = 1\n"
      "  for i in [2, +8) {\n"
      "    if i%2 == 0 { fib[i] = fib[i - 1] + fib[i - 2] } else { fib[i] = fib[i - 2] fib[i] = fib[i] + fib[i - 1] }\n"
      "  }\n"
      "  for i in [0, +3) { alloc T: f32[2] stack { fresh[i] = is_nan(T[1]) T[1] = 1.0f32 } }\n"
      "  alloc S: i64[1] workspace { S[0] = 0 while S[0] < n[] { fib[0] = fib[0] + S[0] S[0] = S[0] + 1 } }\n"
      "}\n";
  int64_t n = 5, fib[10];
  uint8_t fresh[3];
  void *buffers[3] = {&n, fib, fresh};
  check_ok(tn__ir_interpret(ir_of(state), parsed(ir_of(state), text), buffers, NULL, NULL));
  const int64_t expected[10] = {10, 1, 1, 2, 3, 5, 8, 13, 21, 34};
  assert_memory_equal(fib, expected, sizeof(fib));
  assert_true(fresh[0] && fresh[1] && fresh[2]);
}

static void test_wide_accumulation_rounds_once(void **state) {
  static const char text[] =
      "func f(A: f32[1001], H: f16[3000]) -> (C: f32[1], D: f16[1]) {\n"
      "  for k in [0, +1001) {\n"
      "    block \"C\" {\n"
      "      axis v: reduce in [0, +1001) = k\n"
      "      reads A[v:+1]\n"
      "      writes C[0:+1]\n"
      "      init { C[0] = 0.0f32 }\n"
      "      C[0] = C[0] + A[v]\n"
      "    }\n"
      "  }\n"
      "  for k in [0, +3000) {\n"
      "    block \"D\" {\n"
      "      axis v: reduce in [0, +3000) = k\n"
      "      reads H[v:+1]\n"
      "      writes D[0:+1]\n"
      "      init { D[0] = 0.0f16 }\n"
      "      D[0] = D[0] + H[v]*H[v]\n"
      "    }\n"
      "  }\n"
      "}\n";
  static float a[1001];
  static uint16_t h[3000];
  a[0] = 16777216.0f;
  for (int i = 1; i < 1001; i++) a[i] = 1.0f;
  for (int i = 0; i < 3000; i++) h[i] = tn__f32_to_f16(1.0f);
  float c;
  uint16_t d;
  void *buffers[4] = {a, h, &c, &d};
  tn__func *func = parsed(ir_of(state), text);
  check_ok(tn__ir_interpret(ir_of(state), func, buffers, NULL, NULL));
  assert_true(c == 16777216.0f && tn__f16_to_f32(d) == 2048.0f);
  check_ok(tn__ir_interpret(ir_of(state), func, buffers, NULL, &(tn__interpret_options){.wide = true}));
  assert_true(c == 16778216.0f && tn__f16_to_f32(d) == 3000.0f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_integers_wrap_and_divide_down, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_logic, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_floats_follow_ieee, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_casts, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_selection_and_logic_are_lazy, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_failures, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_memory_is_read_when_it_is_asked, ir_set_up, ir_tear_down),
      cmocka_unit_test_setup_teardown(test_wide_accumulation_rounds_once, ir_set_up, ir_tear_down),
  };
  return cmocka_run_group_tests_name("ir_interpret", tests, NULL, NULL);
}
