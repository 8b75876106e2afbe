/* Compares generated code with the reference evaluation for every operation on every element type, in scalar loops
 * and in masked vectors. The results form the table of docs/dtypes.md: "unit_codegen codegen_types --write" writes
 * it, and the test checks it. */
#include "unit/kernel.h"

#include <math.h>

#include "base/strbuf.h"
#include "ir/scalar.h"
#include "unit/page.h"

typedef const tn__expr *ex;

static const tn_dtype dtypes[] = {TN_BOOL, TN_I8,  TN_I16,  TN_I32, TN_I64, TN_U8, TN_U16,
                                  TN_U32,  TN_U64, TN_BF16, TN_F16, TN_F32, TN_F64};
enum { DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef enum op_class { BINARY, NOT, SELECT, CALL, CAST, BITCAST } op_class;

typedef struct op {
  const char *name;
  op_class class;
  int code; /* tn__expr_kind, tn__intrinsic, or the dtype to cast to */
} op;

static const op plain_ops[] = {
    {"+", BINARY, TN__EXPR_ADD},         {"-", BINARY, TN__EXPR_SUB},       {"*", BINARY, TN__EXPR_MUL},
    {"/ (floor)", BINARY, TN__EXPR_DIV}, {"mod", BINARY, TN__EXPR_MOD},     {"min", BINARY, TN__EXPR_MIN},
    {"max", BINARY, TN__EXPR_MAX},       {"==", BINARY, TN__EXPR_EQ},       {"!=", BINARY, TN__EXPR_NE},
    {"<", BINARY, TN__EXPR_LT},          {"<=", BINARY, TN__EXPR_LE},       {"and", BINARY, TN__EXPR_AND},
    {"or", BINARY, TN__EXPR_OR},         {"xor", BINARY, TN__EXPR_XOR},     {"not", NOT, 0},
    {"shl", BINARY, TN__EXPR_SHL},       {"shr", BINARY, TN__EXPR_SHR},     {"select", SELECT, 0},
    {"abs", CALL, TN__CALL_ABS},         {"neg", CALL, TN__CALL_NEG},       {"floor", CALL, TN__CALL_FLOOR},
    {"ceil", CALL, TN__CALL_CEIL},       {"trunc", CALL, TN__CALL_TRUNC},   {"round_even", CALL, TN__CALL_ROUND_EVEN},
    {"sqrt", CALL, TN__CALL_SQRT},       {"fma", CALL, TN__CALL_FMA},       {"pow of integers", CALL, TN__CALL_POW},
    {"is_nan", CALL, TN__CALL_IS_NAN},   {"is_inf", CALL, TN__CALL_IS_INF}, {"popcount", CALL, TN__CALL_POPCOUNT},
    {"clz", CALL, TN__CALL_CLZ},         {"dot4", CALL, TN__CALL_DOT4},     {"dot2", CALL, TN__CALL_DOT2},
    {"sum8", CALL, TN__CALL_SUM8},
};
enum { PLAIN_OPS = sizeof(plain_ops) / sizeof(plain_ops[0]), MAX_OPS = PLAIN_OPS + 2 * DTYPES };

static int all_ops(op *out) {
  int count = 0;
  for (int i = 0; i < PLAIN_OPS; i++) out[count++] = plain_ops[i];
  for (int i = 0; i < DTYPES; i++) out[count++] = (op){tn_dtype_name(dtypes[i]), CAST, dtypes[i]};
  for (int i = 0; i < DTYPES; i++) out[count++] = (op){tn_dtype_name(dtypes[i]), BITCAST, dtypes[i]};
  return count;
}

static bool takes(const op *o, tn_dtype dtype) {
  bool is_float = tn__dtype_is_float(dtype), is_int = tn__dtype_is_int(dtype);
  if (o->class == CALL && o->code == TN__CALL_POW) return is_int; /* unit.codegen_math tests floats, in ulp */
  if (o->class == CALL) return tn__intrinsic_takes(tn__intrinsic_of((tn__intrinsic)o->code), dtype);
  if (o->class == BITCAST)
    return tn_dtype_size((tn_dtype)o->code) == tn_dtype_size(dtype) && dtype != TN_BOOL && o->code != TN_BOOL;
  if (o->class == NOT) return !is_float;
  if (o->class != BINARY) return true;
  switch ((tn__expr_kind)o->code) {
    case TN__EXPR_AND:
    case TN__EXPR_OR: return !is_float;
    case TN__EXPR_XOR:
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return is_int;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: return is_float || is_int;
    default: return true;
  }
}

static ex build(tn__ir *ir, const op *o, tn_dtype dtype, const ex *args) {
  switch (o->class) {
    case BINARY: return tn__ir_binary(ir, (tn__expr_kind)o->code, args[0], args[1]);
    case NOT: return tn__ir_not(ir, args[0]);
    case SELECT: return tn__ir_select(ir, tn__ir_lt(ir, args[0], args[1]), args[1], args[2]);
    case CAST: return tn__ir_cast(ir, (tn_dtype)o->code, args[0]);
    case BITCAST: return tn__ir_bitcast(ir, (tn_dtype)o->code, args[0]);
    default: break;
  }
  const tn__intrinsic_row *row = tn__intrinsic_of((tn__intrinsic)o->code);
  return tn__ir_call(ir, (tn__intrinsic)o->code, row->to_bool ? TN_BOOL : dtype, args, row->arity);
}

static tn__scalar evaluate(const op *o, tn_dtype dtype, const tn__scalar *args) {
  tn__scalar out = {0};
  switch (o->class) {
    case BINARY: assert_true(tn__scalar_binary((tn__expr_kind)o->code, dtype, args[0], args[1], &out)); return out;
    case NOT: return tn__scalar_not(dtype, args[0]);
    case SELECT:
      assert_true(tn__scalar_binary(TN__EXPR_LT, dtype, args[0], args[1], &out));
      return out.i ? args[1] : args[2];
    case CAST: return tn__scalar_cast((tn_dtype)o->code, dtype, args[0]);
    case BITCAST: return tn__scalar_bitcast((tn_dtype)o->code, dtype, args[0]);
    default: return tn__scalar_call((tn__intrinsic)o->code, dtype, args);
  }
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static const double float_specials[] = {0.0,      -0.0,      1.0,       -1.0,           0.5,      -2.5,     1.5,
                                        INFINITY, -INFINITY, NAN,       65504.0,        65520.0,  -65519.9, 0x1p-24,
                                        0x1p-25,  0x1.8p-25, 0x1p-14,   0x1.fffffep127, 1e-40,    1e300,    0x1p31,
                                        -0x1p31,  0x1p32,    0x1p63,    -0x1p63,        0x1p64,   255.5,    -128.7,
                                        3.0,      7.0,       8388607.5, -8388608.5,     0x1p-1074};
static const int64_t int_specials[] = {0,
                                       1,
                                       -1,
                                       2,
                                       -2,
                                       3,
                                       -3,
                                       7,
                                       8,
                                       -8,
                                       15,
                                       16,
                                       31,
                                       32,
                                       63,
                                       64,
                                       65,
                                       127,
                                       -128,
                                       255,
                                       -32768,
                                       32767,
                                       65535,
                                       INT32_MIN,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       INT64_MIN,
                                       INT64_MAX,
                                       INT64_MIN + 1,
                                       1000003,
                                       -1000003,
                                       65519,
                                       0x7fffffffffffff};
enum {
  FLOAT_SPECIALS = sizeof(float_specials) / sizeof(float_specials[0]),
  INT_SPECIALS = sizeof(int_specials) / sizeof(int_specials[0]),
  ELEMENTS = 33 * 33 + 3000 + 5 /* not a multiple of a vector */
};

static tn__scalar operand(tn_dtype dtype, uint64_t *state, int64_t index, int which) {
  uint64_t r = next_random(state);
  tn__scalar s = {0};
  if (tn__dtype_is_float(dtype)) {
    if (index < FLOAT_SPECIALS * FLOAT_SPECIALS) {
      s.f = float_specials[which == 0 ? index % FLOAT_SPECIALS : index / FLOAT_SPECIALS % FLOAT_SPECIALS];
    } else if (index % 2 == 0) { /* any bits */
      return tn__scalar_load(dtype, &r, 0);
    } else {
      s.f = (double)(int64_t)r * (index % 3 == 0 ? 0x1p-62 : index % 3 == 1 ? 0x1p-47 : 0x1p-77);
    }
    s.f = tn__scalar_round(dtype, s.f);
    return s;
  }
  s.i = (int64_t)r >> (r % 64);
  if (index < INT_SPECIALS * INT_SPECIALS)
    s.i = int_specials[which == 0 ? index % INT_SPECIALS : index / INT_SPECIALS % INT_SPECIALS];
  s.i = dtype == TN_BOOL ? (int64_t)(r >> 40 & 1) : tn__scalar_wrap(dtype, s.i);
  return s;
}

/* ---- one kernel for all operations of a type --------------------------------------------------------------------- */

typedef struct job {
  tn_dtype dtype;
  int lanes; /* 1: a serial loop */
} job;

static tn_kernel compile_all(kernel_test *t, const job *j, const op *ops, int count) {
  tn__ir *ir = t->ir;
  ex size = tn__ir_index(ir, ELEMENTS);
  const tn__buffer *params[3 + MAX_OPS];
  for (int i = 0; i < 3; i++) params[i] = tn__buffer_create(ir, "in", j->dtype, TN__SCOPE_PARAM, 1, &size);
  tn__var *block =
      tn__var_create(ir, "i", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, (ELEMENTS + j->lanes - 1) / j->lanes));
  tn__var *lane = tn__var_create(ir, "v", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, j->lanes));
  ex i = tn__ir_add(ir, tn__ir_mul_i(ir, block->self, j->lanes), lane->self), args[3];
  for (int k = 0; k < 3; k++) args[k] = tn__ir_load(ir, params[k], &i);
  const tn__stmt *stores[MAX_OPS];
  for (int k = 0; k < count; k++) {
    ex value = build(ir, &ops[k], j->dtype, args);
    params[3 + k] = tn__buffer_create(ir, "out", value->dtype, TN__SCOPE_PARAM, 1, &size);
    stores[k] = tn__ir_store(ir, params[3 + k], &i, value);
  }
  const tn__stmt *body = tn__ir_if(ir, tn__ir_lt(ir, i, size), tn__ir_seq(ir, stores, count), NULL);
  body = tn__ir_for(ir, block, TN__LOOP_SERIAL, tn__ir_for(ir, lane, TN__LOOP_VECTORIZED, body));
  return kernel_compile(t, tn__func_create(ir, "all_operations", params, 3, params + 3, count, NULL, 0, body));
}

static bool same(const op *o, tn_dtype dtype, tn__scalar got, tn__scalar want) {
  if (!tn__dtype_is_float(dtype)) return got.i == want.i;
  if (isnan(want.f) || isnan(got.f)) return isnan(want.f) && isnan(got.f);
  bool zero_free = o->class == BINARY && (o->code == TN__EXPR_MIN || o->code == TN__EXPR_MAX); /* either zero will do */
  return got.f == want.f && (zero_free || !signbit(got.f) == !signbit(want.f));
}

/* docs/numerics.md: emulated fma of f64 rounds twice far out. */
static bool is_exempt(const op *o, tn_dtype dtype, const tn__scalar *args, bool has_fma) {
  if (has_fma || o->class != CALL || o->code != TN__CALL_FMA || dtype != TN_F64) return false;
  double product = fabs(args[0].f * args[1].f);
  bool inside = product > 0x1p-900 && product < 0x1p900;
  for (int k = 0; k < 3; k++) inside = inside && fabs(args[k].f) < 0x1p900;
  return !inside;
}

static void check_op(const job *j, const op *o, void *const *in, const void *out, const tn__target *target) {
  tn_dtype result = j->dtype;
  if (o->class == CAST || o->class == BITCAST) result = (tn_dtype)o->code;
  if (o->class == BINARY && o->code >= TN__EXPR_EQ && o->code <= TN__EXPR_LE) result = TN_BOOL;
  if (o->class == CALL && tn__intrinsic_of((tn__intrinsic)o->code)->to_bool) result = TN_BOOL;
  bool has_fma = target->cpu.arch == TN__ARCH_AARCH64 || (target->cpu.features & TN__X86_FMA) != 0;
  if (kernel_is_c99()) has_fma = false; /* of the compiler, which is not told of any */
  for (int64_t i = 0; i < ELEMENTS; i++) {
    tn__scalar args[3];
    for (int k = 0; k < 3; k++) args[k] = tn__scalar_load(j->dtype, in[k], i);
    if (is_exempt(o, j->dtype, args, has_fma)) continue;
    if (o->class == BITCAST && tn__dtype_is_float(j->dtype) && isnan(args[0].f))
      continue; /* a NaN's payload is not specified */
    tn__scalar want = evaluate(o, j->dtype, args), got = tn__scalar_load(result, out, i);
    if (!same(o, result, got, want))
      fail_msg("%s: %s of %s, %d lanes: (%a | %lld, %a | %lld, %a | %lld) gave %a | %lld, not %a | %lld", target->name,
               o->name, tn_dtype_name(j->dtype), j->lanes, args[0].f, (long long)args[0].i, args[1].f,
               (long long)args[1].i, args[2].f, (long long)args[2].i, got.f, (long long)got.i, want.f,
               (long long)want.i);
  }
}

static void check_type(kernel_test *t, void *user) {
  const job *j = user;
  op ops[MAX_OPS];
  int count = 0, all = all_ops(ops);
  for (int i = 0; i < all; i++)
    if (takes(&ops[i], j->dtype)) ops[count++] = ops[i];
  void *buffers[3 + MAX_OPS];
  for (int i = 0; i < 3 + count; i++) buffers[i] = kernel_alloc(ELEMENTS * 8);
  uint64_t state = 7;
  for (int64_t i = 0; i < ELEMENTS; i++)
    for (int k = 0; k < 3; k++) {
      tn__scalar s = operand(j->dtype, &state, i, k);
      if (k == 1 && s.i == 0 && tn__dtype_is_int(j->dtype)) s.i = 1; /* division by zero has its own test */
      tn__scalar_store(j->dtype, buffers[k], i, s);
    }
  tn_kernel kernel = compile_all(t, j, ops, count);
  assert_int_equal(kernel_run_anywhere(t, kernel, buffers, 3 + count, ELEMENTS * 8, NULL, 0), TN_KERNEL_OK);
  for (int i = 0; i < count; i++) check_op(j, &ops[i], buffers, buffers[3 + i], &t->target);
  for (int i = 0; i < 3 + count; i++) kernel_free(buffers[i], ELEMENTS * 8);
}

static void check_target(const char *target, int widths) {
  static const int lanes[] = {1, 16, 4, 7};
  for (int d = 0; d < DTYPES; d++)
    for (int i = 0; i < widths; i++) kernel_with(target, check_type, &(job){dtypes[d], lanes[i]});
}

static void native(void **state) { check_target(NULL, 4); }

static void older_x86(void **state) {
  if (tn__host_arch() != TN__ARCH_X86_64) skip_because("code for baseline x86-64 does not run here");
  check_target("x86-64", 2);
  check_target("x86-64-v3", 2);
}

#ifdef TN_TEST_RUNNER
static void emulated_aarch64(void **state) {
  if (tn__host_arch() == TN__ARCH_AARCH64) skip_because("AArch64 needs no emulator here: it was measured natively");
  check_target("aarch64", 2);
}
#endif

/* Not run here, but nothing may be left for a C library to supply. */
static void links_only(kernel_test *t, void *user) {
  const job *j = user;
  op ops[MAX_OPS];
  int count = 0, all = all_ops(ops);
  for (int i = 0; i < all; i++)
    if (takes(&ops[i], j->dtype)) ops[count++] = ops[i];
  compile_all(t, j, ops, count);
}

static void every_target_links(void **state) {
  static const char *const targets[] = {"aarch64", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
    for (int d = 0; d < DTYPES; d++) {
      kernel_with(targets[i], links_only, &(job){dtypes[d], 1});
      kernel_with(targets[i], links_only, &(job){dtypes[d], 8});
    }
}

/* ---- docs/dtypes.md ---------------------------------------------------------------------------------------------- */

static void write_page(tn__strbuf *out) {
  op ops[MAX_OPS];
  int count = all_ops(ops);
  tn__strbuf_append(
      out,
      "# Operations and element types\n\n"
      "What generated code computes on which type, as `unit.codegen_types` checks it, operation by "
      "operation, against the "
      "reference\nevaluation. Written by `unit_codegen codegen_types --write`; do not edit.\n\n| operation |");
  for (int d = 0; d < DTYPES; d++) tn__strbuf_printf(out, " %s |", tn_dtype_name(dtypes[d]));
  tn__strbuf_append(out, "\n| --- |");
  for (int d = 0; d < DTYPES; d++) tn__strbuf_append(out, " --- |");
  for (int i = 0; i < count; i++) {
    const char *prefix = ops[i].class == CAST ? "cast to " : ops[i].class == BITCAST ? "bits as " : "";
    tn__strbuf_printf(out, "\n| %s%s |", prefix, ops[i].name);
    for (int d = 0; d < DTYPES; d++) tn__strbuf_append(out, takes(&ops[i], dtypes[d]) ? " yes |" : " |");
  }
  tn__strbuf_append(out,
                    "\n\nThe elementary functions (`exp`, `sin` ...) take every floating type; docs/numerics.md states "
                    "their bounds.\n");
}

#define PAGE TN_TEST_ROOT "/docs/dtypes.md"

static void page_is_fresh(void **state) { page_check(PAGE, write_page); }

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--write") == 0) return page_write(PAGE, write_page);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(native),           cmocka_unit_test(older_x86), cmocka_unit_test(every_target_links),
      cmocka_unit_test(page_is_fresh),
#ifdef TN_TEST_RUNNER
      cmocka_unit_test(emulated_aarch64),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
