/* Conversions of the 16-bit floating types, and facts about element types. */
#ifndef TENON_BASE_DTYPE_H
#define TENON_BASE_DTYPE_H

#include "tenon/base.h"

float tn__f16_to_f32(uint16_t bits);
uint16_t tn__f32_to_f16(float value);  /* round to nearest even; overflow to infinity; NaN stays NaN */
uint16_t tn__f64_to_f16(double value); /* directly, without double rounding */
float tn__bf16_to_f32(uint16_t bits);
uint16_t tn__f32_to_bf16(float value); /* round to nearest even; NaN stays NaN */
uint16_t tn__f64_to_bf16(double value);

static inline int tn__dtype_bits(tn_dtype t) { return t == TN_BOOL ? 1 : (int)(t & 0xff); }
static inline bool tn__dtype_is_float(tn_dtype t) { return (t >> 8) == 2 || (t >> 8) == 4; }
static inline bool tn__dtype_is_signed(tn_dtype t) { return (t >> 8) == 0 && t != TN_DTYPE_INVALID; }
static inline bool tn__dtype_is_unsigned(tn_dtype t) { return (t >> 8) == 1; }
/* Bool is not one. */
static inline bool tn__dtype_is_int(tn_dtype t) { return tn__dtype_is_signed(t) || tn__dtype_is_unsigned(t); }

/* Bytes of an element in the machine's memory, in a graph and in a file: of strings that is a reference to one
 * (runtime/values/strings.h), not the tn_string that callers see. 0 for an invalid type. */
static inline size_t tn__dtype_stored(tn_dtype t) { return t == TN_STRING ? 8 : tn_dtype_size(t); }

/* Element `index` of `data` as f64 or i64 (integers: exact; floats: truncated), and back (wrapped, rounded). */
/* `data` may be at any address. */
double tn__load_f64(tn_dtype dtype, const void *data, int64_t index);
int64_t tn__load_i64(tn_dtype dtype, const void *data, int64_t index);
void tn__store_f64(tn_dtype dtype, void *data, int64_t index, double value);
void tn__store_i64(tn_dtype dtype, void *data, int64_t index, int64_t value);

#endif
