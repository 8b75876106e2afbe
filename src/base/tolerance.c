#include "base/tolerance.h"

#include <math.h>

#include "base/dtype.h"

tn__tolerance tn__tolerance_of(tn_dtype dtype, double greatest) {
  switch (dtype) {
    case TN_F64: return (tn__tolerance){1e-5, 1e-7};
    case TN_F32: return (tn__tolerance){1e-3, 1e-5};
    case TN_F16: return (tn__tolerance){1.0 / 128, greatest / 1024};
    case TN_BF16: return (tn__tolerance){1.0 / 16, greatest / 128};
    case TN_I8:
    case TN_U8: return (tn__tolerance){0, 1};
    default: return (tn__tolerance){0, 0};
  }
}

double tn__tolerance_difference(double got, double want) {
  return got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
}

double tn__tolerance_greatest(tn_dtype dtype, const void *data, int64_t count) {
  double greatest = 0;
  for (int64_t i = 0; tn__dtype_is_float(dtype) && i < count; i++) {
    double size = fabs(tn__load_f64(dtype, data, i));
    if (isfinite(size) && size > greatest) greatest = size;
  }
  return greatest;
}

double tn__tolerance_apart(tn_dtype dtype, const void *got, const void *want, int64_t index) {
  if (dtype != TN_I64 && dtype != TN_U64)
    return tn__tolerance_difference(tn__load_f64(dtype, got, index), tn__load_f64(dtype, want, index));
  uint64_t a = ((const uint64_t *)got)[index], b = ((const uint64_t *)want)[index];
  bool is_less = dtype == TN_I64 ? (int64_t)a < (int64_t)b : a < b;
  return (double)(is_less ? b - a : a - b);
}
