/* The LLVM code generator end to end: loops, vectors, masks, register tiles, parallel loops, images. */
#include "unit/kernel.h"

#include <math.h>

typedef const tn__expr *ex;

static ex load1(tn__ir *ir, const tn__buffer *b, ex i) { return tn__load(ir, b, &i); }
static ex load2(tn__ir *ir, const tn__buffer *b, ex i, ex j) { return tn__load(ir, b, (ex[]){i, j}); }
static const tn__stmt *store1(tn__ir *ir, const tn__buffer *b, ex i, ex v) { return tn__store(ir, b, &i, v); }
static const tn__stmt *store2(tn__ir *ir, const tn__buffer *b, ex i, ex j, ex v) {
  return tn__store(ir, b, (ex[]){i, j}, v);
}
static tn__var *loop_var(tn__ir *ir, const char *name, int64_t extent) {
  return tn__var_create(ir, name, TN_I64, tn__index(ir, 0), tn__index(ir, extent));
}
static const tn__buffer *param(tn__ir *ir, const char *name, tn_dtype dtype, ex a, ex b) {
  return tn__buffer_create(ir, name, dtype, TN__SCOPE_PARAM, b == NULL ? 1 : 2, (ex[]){a, b});
}

/* y[i] = max(x[i] * 2 + 1, 0) over a symbolic length: whole vectors and a masked tail. */
static void elementwise(kernel_test *t, void *user) {
  tn__ir *ir = t->ir;
  tn__var *n = tn__var_create(ir, "n", TN_I64, tn__index(ir, 0), NULL);
  const tn__buffer *x = param(ir, "x", TN_F32, n->self, NULL), *y = param(ir, "y", TN_F32, n->self, NULL);
  tn__var *block = tn__var_create(ir, "i", TN_I64, tn__index(ir, 0), tn__ceildiv(ir, n->self, tn__index(ir, 16)));
  tn__var *lane = loop_var(ir, "v", 16);
  ex i = tn__add(ir, tn__mul_i(ir, block->self, 16), lane->self);
  ex value = tn__add(ir, tn__mul(ir, load1(ir, x, i), tn__float(ir, TN_F32, 2)), tn__float(ir, TN_F32, 1));
  const tn__stmt *body = store1(ir, y, i, tn__max(ir, value, tn__float(ir, TN_F32, 0)));
  body = tn__if(ir, tn__lt(ir, i, n->self), body, NULL);
  body = tn__for(ir, block, TN__LOOP_PARALLEL, tn__for(ir, lane, TN__LOOP_VECTORIZED, body));
  const tn__var *scalars[] = {n};
  tn_kernel kernel = kernel_compile(t, tn__func_create(ir, "elementwise", &x, 1, &y, 1, scalars, 1, body));
  for (int64_t count = 0; count < 70; count++) {
    size_t size = (size_t)count * sizeof(float);
    float *in = kernel_alloc(size), *out = kernel_alloc(size);
    for (int64_t k = 0; k < count; k++) in[k] = (float)k - 20;
    assert_int_equal(kernel_run(kernel, (void *[]){in, out}, &count), TN_KERNEL_OK);
    for (int64_t k = 0; k < count; k++) assert_true(out[k] == fmaxf(in[k] * 2 + 1, 0));
    kernel_free(in, size);
    kernel_free(out, size);
  }
}

/* C[64, 64] = A[64, 100] B[100, 64] in tiles of 8 x 32 held in registers. */
enum { M = 64, N = 64, K = 100, MR = 8, NR = 32 };

static const tn__func *tiled_matmul(tn__ir *ir) {
  const tn__buffer *params[3] = {param(ir, "A", TN_F32, tn__index(ir, M), tn__index(ir, K)),
                                 param(ir, "B", TN_F32, tn__index(ir, K), tn__index(ir, N)),
                                 param(ir, "C", TN_F32, tn__index(ir, M), tn__index(ir, N))};
  ex tile[2] = {tn__index(ir, MR), tn__index(ir, NR)};
  const tn__buffer *acc = tn__buffer_create(ir, "acc", TN_F32, TN__SCOPE_REGISTER, 2, tile);
  tn__var *mo = loop_var(ir, "mo", M / MR), *no = loop_var(ir, "no", N / NR), *k = loop_var(ir, "k", K);
  const tn__stmt *parts[3][MR * 2];
  for (int m = 0; m < MR; m++)
    for (int h = 0; h < 2; h++) {
      tn__var *v[3] = {loop_var(ir, "v", 16), loop_var(ir, "v", 16), loop_var(ir, "v", 16)};
      ex row = tn__index(ir, m), i = tn__add_i(ir, tn__mul_i(ir, mo->self, MR), m);
      for (int p = 0; p < 3; p++) {
        ex column = tn__add_i(ir, v[p]->self, 16 * h), j = tn__add(ir, tn__mul_i(ir, no->self, NR), column);
        ex sum = load2(ir, acc, row, column);
        ex product = tn__mul(ir, load2(ir, params[0], i, k->self), load2(ir, params[1], k->self, j));
        const tn__stmt *body = p == 0   ? store2(ir, acc, row, column, tn__float(ir, TN_F32, 0))
                               : p == 1 ? store2(ir, acc, row, column, tn__add(ir, sum, product))
                                        : store2(ir, params[2], i, j, sum);
        parts[p][2 * m + h] = tn__for(ir, v[p], TN__LOOP_VECTORIZED, body);
      }
    }
  const tn__stmt *steps[3] = {tn__seq(ir, parts[0], MR * 2),
                              tn__for(ir, k, TN__LOOP_SERIAL, tn__seq(ir, parts[1], MR * 2)),
                              tn__seq(ir, parts[2], MR * 2)};
  const tn__stmt *body = tn__alloc_stmt(ir, acc, tn__seq(ir, steps, 3));
  body = tn__for(ir, mo, TN__LOOP_PARALLEL, tn__for(ir, no, TN__LOOP_SERIAL, body));
  return tn__func_create(ir, "matmul", params, 2, params + 2, 1, NULL, 0, body);
}

static void matmul(kernel_test *t, void *user) {
  tn_kernel kernel = kernel_compile(t, tiled_matmul(t->ir));
  float *a = kernel_alloc(M * K * 4), *b = kernel_alloc(K * N * 4), *c = kernel_alloc(M * N * 4);
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 5 - 2);
  assert_int_equal(kernel_run(kernel, (void *[]){a, b, c}, NULL), TN_KERNEL_OK);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += a[i * K + k] * b[k * N + j];
      assert_true(c[i * N + j] == want);
    }
  kernel_free(a, M * K * 4);
  kernel_free(b, K * N * 4);
  kernel_free(c, M * N * 4);
}

static void runs_elementwise(void **state) { kernel_with(NULL, elementwise, NULL); }
static void runs_tiled_matmul(void **state) { kernel_with(NULL, matmul, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_elementwise),
      cmocka_unit_test(runs_tiled_matmul),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
