/* SPDX-License-Identifier: Apache-2.0
 *
 * MKL: products with a constant operand packed beforehand, strided batches, and for one row the faster of the packed
 * product and cblas_sgemv. */
#include "product.h"

#include <mkl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef enum way { WAY_PACKED_A, WAY_PACKED_B, WAY_BATCH, WAY_VECTOR } way;
static const char *const WAY_NAMES[] = {"packed A", "packed B", "batch", "sgemv"};

static product given_product;
static float *packed;
static way chosen;

void engine_run(void) {
  const product *p = &given_product;
  int m = (int)p->m, n = (int)p->n, k = (int)p->k;
  switch (chosen) {
    case WAY_PACKED_A:
      cblas_sgemm_compute(CblasRowMajor, CblasPacked, CblasNoTrans, m, n, k, packed, k, p->b, n, 0.0f, p->c, n);
      break;
    case WAY_PACKED_B:
      cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, m, n, k, p->a, k, packed, n, 0.0f, p->c, n);
      break;
    case WAY_BATCH:
      cblas_sgemm_batch_strided(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, p->a, k, m * k, p->b, n,
                                k * n, 0.0f, p->c, n, m * n, (int)p->batch);
      break;
    case WAY_VECTOR: cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1.0f, p->b, n, p->a, 1, 0.0f, p->c, 1); break;
  }
}

static double time_way(way candidate) {
  chosen = candidate;
  engine_run();
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < 10; i++) {
    engine_run();
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
}

static void pack(bool a) {
  const product *p = &given_product;
  int m = (int)p->m, n = (int)p->n, k = (int)p->k;
  CBLAS_IDENTIFIER operand = a ? CblasAMatrix : CblasBMatrix;
  packed = bench_floats(cblas_sgemm_pack_get_size(operand, m, n, k) / sizeof(float) + 1);
  cblas_sgemm_pack(CblasRowMajor, operand, CblasNoTrans, m, n, k, 1.0f, a ? p->a : p->b, a ? k : n, packed);
}

void engine_prepare(const bench_case *given, int threads, bench_work *work) {
  mkl_set_num_threads(threads);
  mkl_set_dynamic(0);
  if (!product_read(given, &given_product, work)) {
    return;
  }
  free(packed);
  packed = NULL;
  if (given_product.batch > 1 || bench_is_constant(given, "none")) {
    chosen = WAY_BATCH;
  } else {
    bool a = bench_is_constant(given, "a");
    pack(a);
    chosen = a ? WAY_PACKED_A : WAY_PACKED_B;
    if (given_product.m == 1) {
      chosen = time_way(WAY_PACKED_B) < time_way(WAY_VECTOR) ? WAY_PACKED_B : WAY_VECTOR;
    }
  }
  snprintf(work->note, sizeof work->note, "%s", WAY_NAMES[chosen]);
}

void engine_finish_output(void) {}

const char *engine_version(void) {
  static char text[64];
  MKLVersion version;
  mkl_get_version(&version);
  snprintf(text, sizeof text, "%d.%d", version.MajorVersion, version.UpdateVersion);
  return text;
}
