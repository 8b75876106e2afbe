/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenBLAS: cblas_sgemm, which packs both operands in every call, and cblas_sgemv for one row. */
#include "product.h"

#include <cblas.h>
#include <stdio.h>

static product given_product;

void engine_prepare(const bench_case *given, int threads, bench_work *work) {
  openblas_set_num_threads(threads);
  if (product_read(given, &given_product, work)) {
    snprintf(work->note, sizeof work->note, "%s", given_product.m == 1 ? "sgemv" : "sgemm");
  }
}

void engine_run(void) {
  const product *p = &given_product;
  int m = (int)p->m, n = (int)p->n, k = (int)p->k;
  if (m == 1 && p->batch == 1) {
    cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1.0f, p->b, n, p->a, 1, 0.0f, p->c, 1);
    return;
  }
  for (int64_t i = 0; i < p->batch; i++) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, p->a + i * m * k, k, p->b + i * k * n, n,
                0.0f, p->c + i * m * n, n);
  }
}

void engine_finish_output(void) {}

const char *engine_version(void) { return openblas_get_config(); }
