/* The table of intrinsics: what each takes, gives and means. Floating functions are evaluated in f64 and rounded once
 * by the caller, which is closer to the exact value than any generated code has to be. */
#include <math.h>
#include <string.h>

#include "ir/context.h"
#include "ir/scalar.h"

typedef tn__scalar scalar;

static double reciprocal_sqrt(double x) { return 1.0 / sqrt(x); }

static double round_even(double x) {
  double below = floor(x);
  double rest = x - below;
  if (!(rest == 0.5)) return copysign(rest < 0.5 ? below : isnan(x) || isinf(x) ? x : ceil(x), x);
  return copysign(fmod(below, 2.0) == 0 ? below : below + 1, x);
}

static scalar eval_abs(tn_dtype dtype, const scalar *args) {
  if (tn__dtype_is_float(dtype)) return (scalar){.f = fabs(args[0].f)};
  bool negative = tn__dtype_is_signed(dtype) && args[0].i < 0;
  return (scalar){.i = negative ? (int64_t)(0 - (uint64_t)args[0].i) : args[0].i};
}

static scalar eval_neg(tn_dtype dtype, const scalar *args) {
  if (tn__dtype_is_float(dtype)) return (scalar){.f = -args[0].f};
  return (scalar){.i = (int64_t)(0 - (uint64_t)args[0].i)};
}

static uint64_t own_bits(tn_dtype dtype, int64_t value) {
  int bits = tn__dtype_bits(dtype);
  return bits == 64 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << bits) - 1);
}

/* Integer power by squaring, modulo two to the number of bits. A negative exponent truncates the exact power towards
 * zero; for a base of 0, whose power is infinite, the result is the type's maximum. */
static scalar eval_pow(tn_dtype dtype, const scalar *args) {
  if (tn__dtype_is_float(dtype)) return (scalar){.f = pow(args[0].f, args[1].f)};
  if (tn__dtype_is_signed(dtype) && args[1].i < 0) {
    bool odd = (args[1].i & 1) != 0;
    int64_t most = (int64_t)(UINT64_MAX >> (65 - tn__dtype_bits(dtype)));
    return (scalar){.i = args[0].i == 0 ? most : args[0].i == 1 ? 1 : args[0].i == -1 ? (odd ? -1 : 1) : 0};
  }
  uint64_t result = 1, base = (uint64_t)args[0].i;
  for (uint64_t y = own_bits(dtype, args[1].i); y != 0; y >>= 1, base *= base)
    if ((y & 1) != 0) result *= base;
  return (scalar){.i = (int64_t)result};
}

static scalar eval_fma(tn_dtype dtype, const scalar *args) {
  if (dtype == TN_F64) return (scalar){.f = fma(args[0].f, args[1].f, args[2].f)};
  /* For f32 the f64 result would be rounded twice. */
  return (scalar){.f = (double)fmaf((float)args[0].f, (float)args[1].f, (float)args[2].f)};
}

static scalar eval_is_nan(tn_dtype dtype, const scalar *args) { return (scalar){.i = isnan(args[0].f) != 0}; }
static scalar eval_is_inf(tn_dtype dtype, const scalar *args) { return (scalar){.i = isinf(args[0].f) != 0}; }

static scalar eval_popcount(tn_dtype dtype, const scalar *args) {
  return (scalar){.i = __builtin_popcountll(own_bits(dtype, args[0].i))};
}

static scalar eval_clz(tn_dtype dtype, const scalar *args) {
  uint64_t x = own_bits(dtype, args[0].i);
  int bits = tn__dtype_bits(dtype);
  return (scalar){.i = x == 0 ? bits : __builtin_clzll(x) - (64 - bits)};
}

static scalar eval_dot4(tn_dtype dtype, const scalar *args) {
  uint32_t a = (uint32_t)args[0].i, b = (uint32_t)args[1].i;
  int64_t sum = 0;
  for (int i = 0; i < 32; i += 8) sum += (int64_t)(uint8_t)(a >> i) * (int8_t)(uint8_t)(b >> i);
  return (scalar){.i = sum};
}

static scalar eval_dot2(tn_dtype dtype, const scalar *args) {
  uint32_t a = (uint32_t)args[0].i, b = (uint32_t)args[1].i;
  int64_t sum = 0;
  for (int i = 0; i < 32; i += 16) sum += (int64_t)(int16_t)(uint16_t)(a >> i) * (int16_t)(uint16_t)(b >> i);
  return (scalar){.i = sum};
}

static scalar eval_sum8(tn_dtype dtype, const scalar *args) {
  int64_t sum = 0;
  for (int i = 0; i < 64; i += 8) sum += (uint8_t)((uint64_t)args[0].i >> i);
  return (scalar){.i = sum};
}

static scalar eval_likely(tn_dtype dtype, const scalar *args) { return args[0]; }

#define FLOATS .floats = true
#define INTEGERS .integers = true
static const tn__intrinsic_row rows[TN__CALL_COUNT] = {
    [TN__CALL_ABS] = {"abs", 1, FLOATS, INTEGERS, .evaluate = eval_abs},
    [TN__CALL_NEG] = {"neg", 1, FLOATS, INTEGERS, .evaluate = eval_neg},
    [TN__CALL_SQRT] = {"sqrt", 1, FLOATS, .unary = sqrt},
    [TN__CALL_RSQRT] = {"rsqrt", 1, FLOATS, .unary = reciprocal_sqrt},
    [TN__CALL_EXP] = {"exp", 1, FLOATS, .unary = exp},
    [TN__CALL_EXPM1] = {"expm1", 1, FLOATS, .unary = expm1},
    [TN__CALL_LOG] = {"log", 1, FLOATS, .unary = log},
    [TN__CALL_LOG1P] = {"log1p", 1, FLOATS, .unary = log1p},
    [TN__CALL_POW] = {"pow", 2, FLOATS, INTEGERS, .evaluate = eval_pow},
    [TN__CALL_SIN] = {"sin", 1, FLOATS, .unary = sin},
    [TN__CALL_COS] = {"cos", 1, FLOATS, .unary = cos},
    [TN__CALL_TAN] = {"tan", 1, FLOATS, .unary = tan},
    [TN__CALL_ASIN] = {"asin", 1, FLOATS, .unary = asin},
    [TN__CALL_ACOS] = {"acos", 1, FLOATS, .unary = acos},
    [TN__CALL_ATAN] = {"atan", 1, FLOATS, .unary = atan},
    [TN__CALL_ATAN2] = {"atan2", 2, FLOATS, .binary = atan2},
    [TN__CALL_SINH] = {"sinh", 1, FLOATS, .unary = sinh},
    [TN__CALL_COSH] = {"cosh", 1, FLOATS, .unary = cosh},
    [TN__CALL_TANH] = {"tanh", 1, FLOATS, .unary = tanh},
    [TN__CALL_ASINH] = {"asinh", 1, FLOATS, .unary = asinh},
    [TN__CALL_ACOSH] = {"acosh", 1, FLOATS, .unary = acosh},
    [TN__CALL_ATANH] = {"atanh", 1, FLOATS, .unary = atanh},
    [TN__CALL_ERF] = {"erf", 1, FLOATS, .unary = erf},
    [TN__CALL_FLOOR] = {"floor", 1, FLOATS, .unary = floor},
    [TN__CALL_CEIL] = {"ceil", 1, FLOATS, .unary = ceil},
    [TN__CALL_TRUNC] = {"trunc", 1, FLOATS, .unary = trunc},
    [TN__CALL_ROUND_EVEN] = {"round_even", 1, FLOATS, .unary = round_even},
    [TN__CALL_FMA] = {"fma", 3, FLOATS, .evaluate = eval_fma},
    [TN__CALL_IS_NAN] = {"is_nan", 1, FLOATS, .to_bool = true, .evaluate = eval_is_nan},
    [TN__CALL_IS_INF] = {"is_inf", 1, FLOATS, .to_bool = true, .evaluate = eval_is_inf},
    [TN__CALL_POPCOUNT] = {"popcount", 1, INTEGERS, .evaluate = eval_popcount},
    [TN__CALL_CLZ] = {"clz", 1, INTEGERS, .evaluate = eval_clz},
    [TN__CALL_DOT4] = {"dot4", 2, .words = TN_I32, .evaluate = eval_dot4},
    [TN__CALL_DOT2] = {"dot2", 2, .words = TN_I32, .evaluate = eval_dot2},
    [TN__CALL_SUM8] = {"sum8", 1, .words = TN_I64, .evaluate = eval_sum8},
    [TN__CALL_LIKELY] = {"likely", 1, .bools = true, .to_bool = true, .evaluate = eval_likely},
};

const tn__intrinsic_row *tn__intrinsic_of(tn__intrinsic intrinsic) { return &rows[intrinsic]; }

int tn__intrinsic_find(const char *name, size_t length) {
  for (int i = 0; i < TN__CALL_COUNT; i++)
    if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) return i;
  return -1;
}

bool tn__intrinsic_takes(const tn__intrinsic_row *row, tn_dtype dtype) {
  return tn__dtype_is_float(dtype) ? row->floats : dtype == TN_BOOL ? row->bools : row->integers || dtype == row->words;
}

tn__scalar tn__scalar_call(tn__intrinsic intrinsic, tn_dtype dtype, const tn__scalar *args) {
  const tn__intrinsic_row *row = &rows[intrinsic];
  tn__scalar r;
  if (row->unary != NULL)
    r.f = row->unary(args[0].f);
  else if (row->binary != NULL)
    r.f = row->binary(args[0].f, args[1].f);
  else
    r = row->evaluate(dtype, args);
  if (row->to_bool) return r;
  if (tn__dtype_is_float(dtype)) return (tn__scalar){.f = tn__scalar_round(dtype, r.f)};
  return (tn__scalar){.i = tn__scalar_wrap(dtype, r.i)};
}
