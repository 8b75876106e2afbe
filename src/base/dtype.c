#include "base/dtype.h"

#include <math.h>
#include <string.h>

static float f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* `value` as the 16-bit IEEE-like format with `mantissa` stored mantissa bits and 15 - mantissa exponent bits: to
 * nearest, ties to even. */
static uint16_t narrow(double value, int mantissa) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  int bias = (1 << (14 - mantissa)) - 1;
  uint16_t infinity = (uint16_t)(0x7fff >> mantissa << mantissa);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  if (exponent == 1024) {
    if (fraction == 0) return sign | infinity;
    uint16_t quiet = (uint16_t)(1 << (mantissa - 1));
    return (uint16_t)(sign | infinity | quiet | fraction >> (52 - mantissa));
  }
  if (exponent > bias) return sign | infinity;
  int drop = 52 - mantissa; /* low bits that do not fit */
  int low = 1 - bias;       /* exponent of the smallest normal number */
  uint64_t kept;
  if (exponent >= low) {
    kept = (uint64_t)(exponent - low + 1) << 52 | fraction;
  } else {
    drop += low - exponent;
    if (drop > 54) return sign; /* less than half of the smallest subnormal, f64 subnormals included */
    kept = UINT64_C(1) << 52 | fraction;
  }
  uint64_t rest = kept & ((UINT64_C(1) << drop) - 1);
  uint64_t half = UINT64_C(1) << (drop - 1);
  kept >>= drop;
  /* A carry out of the mantissa raises the exponent, up to infinity, as it should. */
  if (rest > half || (rest == half && (kept & 1) != 0)) kept++;
  return (uint16_t)(sign | kept);
}

float tn__f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return f32_of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

float tn__bf16_to_f32(uint16_t bits) { return f32_of_bits((uint32_t)bits << 16); }

uint16_t tn__f64_to_f16(double value) { return narrow(value, 10); }
uint16_t tn__f64_to_bf16(double value) { return narrow(value, 7); }
/* Every f32 is an f64, so the way through f64 rounds once. */
uint16_t tn__f32_to_f16(float value) { return narrow((double)value, 10); }
uint16_t tn__f32_to_bf16(float value) { return narrow((double)value, 7); }

/* Truncated; what lies outside of i64 becomes its nearest end, NaN becomes 0. */
static int64_t i64_of_f64(double value) {
  if (isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return (int64_t)value;
}

/* Elements of mapped files lie at any address; memcpy of a known size compiles to one plain load. Numbers are
 * little-endian, here as in every file. */
static inline uint64_t bits_at(const void *data, int64_t index, size_t size) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)index * size, size);
  return bits;
}

static int64_t load_int(tn_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
    case TN_BOOL: return bits_at(data, index, 1) != 0;
    case TN_I8: return (int8_t)bits_at(data, index, 1);
    case TN_I16: return (int16_t)bits_at(data, index, 2);
    case TN_I32: return (int32_t)bits_at(data, index, 4);
    case TN_U8: return (int64_t)bits_at(data, index, 1);
    case TN_U16: return (int64_t)bits_at(data, index, 2);
    case TN_U32: return (int64_t)bits_at(data, index, 4);
    case TN_I64:
    case TN_U64: return (int64_t)bits_at(data, index, 8);
    default: return 0;
  }
}

double tn__load_f64(tn_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
    case TN_F16: return (double)tn__f16_to_f32((uint16_t)bits_at(data, index, 2));
    case TN_BF16: return (double)tn__bf16_to_f32((uint16_t)bits_at(data, index, 2));
    case TN_F32: return (double)f32_of_bits((uint32_t)bits_at(data, index, 4));
    case TN_F64: {
      double value;
      memcpy(&value, (const char *)data + (size_t)index * sizeof value, sizeof value);
      return value;
    }
    case TN_U64: return (double)bits_at(data, index, 8);
    default: return (double)load_int(dtype, data, index);
  }
}

int64_t tn__load_i64(tn_dtype dtype, const void *data, int64_t index) {
  return tn__dtype_is_float(dtype) ? i64_of_f64(tn__load_f64(dtype, data, index)) : load_int(dtype, data, index);
}

void tn__store_f64(tn_dtype dtype, void *data, int64_t index, double value) {
  switch (dtype) {
    case TN_F16: ((uint16_t *)data)[index] = tn__f64_to_f16(value); break;
    case TN_BF16: ((uint16_t *)data)[index] = tn__f64_to_bf16(value); break;
    case TN_F32: ((float *)data)[index] = (float)value; break;
    case TN_F64: ((double *)data)[index] = value; break;
    case TN_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    case TN_U64:
      ((uint64_t *)data)[index] = value >= 0x1p64   ? UINT64_MAX
                                  : value >= 0x1p63 ? (uint64_t)value
                                                    : (uint64_t)i64_of_f64(value);
      break;
    default: tn__store_i64(dtype, data, index, i64_of_f64(value)); break;
  }
}

/* An f64 that rounds to every narrower format as `value` itself would: bits that f64 cannot hold become one sticky
 * bit. */
static double f64_for_rounding(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (magnitude >> 53 != 0) magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
  return value < 0 ? -(double)magnitude : (double)magnitude;
}

void tn__store_i64(tn_dtype dtype, void *data, int64_t index, int64_t value) {
  switch (dtype) {
    case TN_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    case TN_I8:
    case TN_U8: ((uint8_t *)data)[index] = (uint8_t)value; break;
    case TN_I16:
    case TN_U16: ((uint16_t *)data)[index] = (uint16_t)value; break;
    case TN_I32:
    case TN_U32: ((uint32_t *)data)[index] = (uint32_t)value; break;
    case TN_I64:
    case TN_U64: ((uint64_t *)data)[index] = (uint64_t)value; break;
    case TN_F16: ((uint16_t *)data)[index] = tn__f64_to_f16(f64_for_rounding(value)); break;
    case TN_BF16: ((uint16_t *)data)[index] = tn__f64_to_bf16(f64_for_rounding(value)); break;
    case TN_F32: ((float *)data)[index] = (float)value; break;
    case TN_F64: ((double *)data)[index] = (double)value; break;
    default: break;
  }
}
