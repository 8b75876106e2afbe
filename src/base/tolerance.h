/* By how much results of a type may differ from what is wanted, where the order of summation is free. */
#ifndef TENON_BASE_TOLERANCE_H
#define TENON_BASE_TOLERANCE_H

#include "tenon/base.h"

typedef struct tn__tolerance {
  double rtol, atol;
} tn__tolerance;

/* Of a type, for a tensor whose finite elements are at most `greatest` in absolute value: f64 1e-5 and 1e-7; f32 1e-3
 * and 1e-5; f16 and bf16 eight steps, and one step of the greatest element; bytes one step, as quantised numbers round
 * to either neighbour; exact for others. */
tn__tolerance tn__tolerance_of(tn_dtype dtype, double greatest);
/* The absolute difference, 0 for equal elements and two NaN; infinite or NaN when one of them is. */
double tn__tolerance_difference(double got, double want);
static inline double tn__tolerance_allows(const tn__tolerance *t, double want) {
  return t->atol + t->rtol * (want < 0 ? -want : want);
}
/* The greatest absolute value of finite elements, 0 without any. */
double tn__tolerance_greatest(tn_dtype dtype, const void *data, int64_t count);

#endif
