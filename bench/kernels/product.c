/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <stdio.h>
#include <stdlib.h>

bool product_read(const bench_case *given, product *out, bench_work *work) {
  if (!bench_is(given, "kind", "gemm")) {
    snprintf(work->unsupported, sizeof work->unsupported, "products only");
    return false;
  }
  free(out->a);
  free(out->b);
  free(out->c);
  *out = (product){.m = bench_int(given, "m"),
                   .k = bench_int(given, "k"),
                   .n = bench_int(given, "n"),
                   .batch = bench_int(given, "batch")};
  size_t count;
  out->a = bench_read_f32(bench_text(given, "a"), &count);
  out->b = bench_read_f32(bench_text(given, "b"), &count);
  size_t results = (size_t)(out->batch * out->m * out->n);
  out->c = bench_floats(results);
  work->output = out->c;
  work->output_bytes = results * sizeof(float);
  return true;
}
