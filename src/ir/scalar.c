#include "ir/scalar.h"

#include <math.h>
#include <string.h>

#include "ir/context.h"

int64_t tn__scalar_wrap(tn_dtype dtype, int64_t value) {
  switch (dtype) {
    case TN_BOOL: return value != 0;
    case TN_I8: return (int8_t)(uint64_t)value;
    case TN_I16: return (int16_t)(uint64_t)value;
    case TN_I32: return (int32_t)(uint64_t)value;
    case TN_U8: return (uint8_t)value;
    case TN_U16: return (uint16_t)value;
    case TN_U32: return (uint32_t)value;
    default: return value;
  }
}

double tn__scalar_round(tn_dtype dtype, double value) {
  switch (dtype) {
    case TN_F32: return (double)(float)value;
    case TN_F16: return (double)tn__f16_to_f32(tn__f64_to_f16(value));
    case TN_BF16: return (double)tn__bf16_to_f32(tn__f64_to_bf16(value));
    default: return value;
  }
}

bool tn__ir_binary_takes(tn__expr_kind kind, tn_dtype dtype) {
  if (kind < TN__EXPR_ADD || kind > TN__EXPR_SHR || kind == TN__EXPR_NOT || dtype == TN_DTYPE_INVALID) return false;
  if (tn__dtype_is_float(dtype)) return kind <= TN__EXPR_LE;
  if (dtype == TN_BOOL) return kind >= TN__EXPR_MIN && kind <= TN__EXPR_XOR;
  return true;
}

TN_MUST_USE static bool binary_float(tn__expr_kind kind, tn_dtype dtype, double a, double b, tn__scalar *out) {
  /* f64 has more than twice the bits of the narrower types, so rounding a result of + - * / again gives what that
   * type's own operation gives (Figueroa, "When is double rounding innocuous?", 1995); fmod is exact. */
  double r = 0;
  switch (kind) {
    case TN__EXPR_ADD: r = a + b; break;
    case TN__EXPR_SUB: r = a - b; break;
    case TN__EXPR_MUL: r = a * b; break;
    case TN__EXPR_DIV: r = a / b; break;
    case TN__EXPR_MOD: r = fmod(a, b); break;
    case TN__EXPR_MIN: r = isnan(a) ? a : isnan(b) ? b : a < b || (a == b && signbit(a)) ? a : b; break;
    case TN__EXPR_MAX: r = isnan(a) ? a : isnan(b) ? b : a > b || (a == b && !signbit(a)) ? a : b; break;
    case TN__EXPR_EQ: out->i = a == b; return true;
    case TN__EXPR_NE: out->i = a != b; return true;
    case TN__EXPR_LT: out->i = a < b; return true;
    case TN__EXPR_LE: out->i = a <= b; return true;
    default: return false;
  }
  out->f = tn__scalar_round(dtype, r);
  return true;
}

static int64_t shift_right(tn_dtype dtype, int64_t a, uint64_t by) {
  if (by >= (uint64_t)tn__dtype_bits(dtype)) return tn__dtype_is_signed(dtype) && a < 0 ? -1 : 0;
  /* Arithmetic on signed values with both supported compilers. */
  return tn__dtype_is_signed(dtype) ? a >> by : (int64_t)((uint64_t)a >> by);
}

static bool less(tn_dtype dtype, int64_t a, int64_t b) { return dtype == TN_U64 ? (uint64_t)a < (uint64_t)b : a < b; }

bool tn__scalar_binary(tn__expr_kind kind, tn_dtype dtype, tn__scalar sa, tn__scalar sb, tn__scalar *out) {
  if (tn__dtype_is_float(dtype)) return binary_float(kind, dtype, sa.f, sb.f, out);
  int64_t a = sa.i, b = sb.i, r = 0;
  bool is_signed = tn__dtype_is_signed(dtype);
  switch (kind) {
    case TN__EXPR_ADD: r = tn__ir_wrap_add(a, b); break;
    case TN__EXPR_SUB: r = (int64_t)((uint64_t)a - (uint64_t)b); break;
    case TN__EXPR_MUL: r = tn__ir_wrap_mul(a, b); break;
    case TN__EXPR_DIV:
      if (b == 0) return false;
      r = is_signed ? tn__ir_floordiv_i64(a, b) : (int64_t)((uint64_t)a / (uint64_t)b);
      break;
    case TN__EXPR_MOD:
      if (b == 0) return false;
      r = is_signed ? tn__ir_floormod_i64(a, b) : (int64_t)((uint64_t)a % (uint64_t)b);
      break;
    case TN__EXPR_MIN: r = less(dtype, b, a) ? b : a; break;
    case TN__EXPR_MAX: r = less(dtype, a, b) ? b : a; break;
    case TN__EXPR_EQ: r = a == b; break;
    case TN__EXPR_NE: r = a != b; break;
    case TN__EXPR_LT: r = less(dtype, a, b); break;
    case TN__EXPR_LE: r = !less(dtype, b, a); break;
    case TN__EXPR_AND: r = a & b; break;
    case TN__EXPR_OR: r = a | b; break;
    case TN__EXPR_XOR: r = a ^ b; break;
    case TN__EXPR_SHL:
      r = (uint64_t)b >= (uint64_t)tn__dtype_bits(dtype) ? 0 : (int64_t)((uint64_t)a << (uint64_t)b);
      break;
    case TN__EXPR_SHR: r = shift_right(dtype, a, (uint64_t)b); break;
    default: return false;
  }
  out->i = kind >= TN__EXPR_EQ && kind <= TN__EXPR_LE ? r : tn__scalar_wrap(dtype, r);
  return true;
}

tn__scalar tn__scalar_not(tn_dtype dtype, tn__scalar a) {
  return (tn__scalar){.i = dtype == TN_BOOL ? !a.i : tn__scalar_wrap(dtype, ~a.i)};
}

static int64_t int_of_float(tn_dtype to, double value) {
  if (isnan(value)) return 0;
  if (to == TN_BOOL) return value != 0;
  value = trunc(value);
  if (to == TN_U64) {
    if (value <= 0) return 0;
    return value >= 0x1p64 ? -1 : (int64_t)(uint64_t)value;
  }
  tn__interval range = tn__ir_dtype_interval(to);
  if (value <= (double)range.min) return range.min;
  if (value >= (double)range.max) return range.max;
  return (int64_t)value;
}

/* One rounding from the integer to the float: the way through f64 would round i64 twice. */
static double float_of_int(tn_dtype to, tn_dtype from, int64_t value) {
  if (from == TN_U64 && value < 0) {
    uint64_t bits = (uint64_t)value;
    if (to == TN_F64) return (double)bits;
    if (to == TN_F32) return (double)(float)bits;
    /* Above 2^63 the last bit is far below the half of any 16-bit format's step: keep it as a sticky bit. */
    return tn__scalar_round(to, 2 * (double)(int64_t)(bits >> 12 << 11 | (uint64_t)((bits & 0xfff) != 0) << 11));
  }
  unsigned char element[8];
  tn__store_i64(to, element, 0, value);
  return tn__load_f64(to, element, 0);
}

tn__scalar tn__scalar_cast(tn_dtype to, tn_dtype from, tn__scalar a) {
  if (tn__dtype_is_float(from)) {
    if (tn__dtype_is_float(to)) return (tn__scalar){.f = tn__scalar_round(to, a.f)};
    if (to == TN_BOOL) return (tn__scalar){.i = a.f != 0}; /* true for NaN: it is not zero */
    return (tn__scalar){.i = int_of_float(to, a.f)};
  }
  if (tn__dtype_is_float(to)) return (tn__scalar){.f = float_of_int(to, from, a.i)};
  return (tn__scalar){.i = tn__scalar_wrap(to, a.i)};
}

tn__scalar tn__scalar_load(tn_dtype dtype, const void *data, int64_t index) {
  if (tn__dtype_is_float(dtype)) return (tn__scalar){.f = tn__load_f64(dtype, data, index)};
  return (tn__scalar){.i = tn__load_i64(dtype, data, index)};
}

void tn__scalar_store(tn_dtype dtype, void *data, int64_t index, tn__scalar value) {
  if (tn__dtype_is_float(dtype))
    tn__store_f64(dtype, data, index, value.f);
  else
    tn__store_i64(dtype, data, index, value.i);
}

tn__scalar tn__scalar_bitcast(tn_dtype to, tn_dtype from, tn__scalar a) {
  unsigned char element[8] = {0};
  tn__scalar_store(from, element, 0, a);
  return tn__scalar_load(to, element, 0);
}
