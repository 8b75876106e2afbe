/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of the BLAS libraries share: cases of the kind "gemm", C[b] = A[b] B[b] for b < batch,
 * row-major. */
#ifndef TENON_BENCH_KERNELS_PRODUCT_H
#define TENON_BENCH_KERNELS_PRODUCT_H

#include "server.h"

typedef struct product {
  int64_t m, k, n, batch;
  float *a, *b, *c; /* owned */
} product;

/* Reads the operands `a` and `b` of a case in place of those that `out` had; false, with the reason in `work`, when it
 * is of another kind. */
bool product_read(const bench_case *given, product *out, bench_work *work);

#endif
