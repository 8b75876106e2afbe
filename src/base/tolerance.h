/* Tolerances for comparing results whose order of summation is unspecified. */
#ifndef TENON_BASE_TOLERANCE_H
#define TENON_BASE_TOLERANCE_H

#include "tenon/base.h"

typedef struct tn__tolerance {
  double rtol, atol;
} tn__tolerance;

/* Returns the tolerance of a type, for a tensor whose finite elements are at most `greatest` in absolute value.
 * Relative and absolute: f64 1e-5 and 1e-7; f32 1e-3 and 1e-5; f16 and bf16 eight steps, and one step of the
 * greatest element. Bytes: one step, because quantised numbers round to either neighbour. Other types: exact. */
tn__tolerance tn__tolerance_of(tn_dtype dtype, double greatest);
/* Returns the absolute difference: 0 for equal elements and for two NaNs, infinite or NaN if one operand is. */
double tn__tolerance_difference(double got, double want);
/* Returns the same for two elements of a type. 64-bit integers are subtracted exactly, because f64 has only 53 bits. */
double tn__tolerance_apart(tn_dtype dtype, const void *got, const void *want, int64_t index);
static inline double tn__tolerance_allows(const tn__tolerance *t, double want) {
  return t->atol + t->rtol * (want < 0 ? -want : want);
}
/* Returns the greatest absolute value of the finite elements, or 0 if there are none. */
double tn__tolerance_greatest(tn_dtype dtype, const void *data, int64_t count);

#endif
