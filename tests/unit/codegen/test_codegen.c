/* The LLVM code generator end to end: loops, vectors, masks, register tiles, parallel loops, images. */
#include "unit/kernel.h"

#include <math.h>
#include <pthread.h>

typedef const tn__expr *ex;

static ex load1(tn__ir *ir, const tn__buffer *b, ex i) { return tn__ir_load(ir, b, &i); }
static ex load2(tn__ir *ir, const tn__buffer *b, ex i, ex j) { return tn__ir_load(ir, b, (ex[]){i, j}); }
static const tn__stmt *store1(tn__ir *ir, const tn__buffer *b, ex i, ex v) { return tn__ir_store(ir, b, &i, v); }
static const tn__stmt *store2(tn__ir *ir, const tn__buffer *b, ex i, ex j, ex v) {
  return tn__ir_store(ir, b, (ex[]){i, j}, v);
}
static tn__var *loop_var(tn__ir *ir, const char *name, int64_t extent) {
  return tn__var_create(ir, name, TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, extent));
}
static const tn__buffer *param(tn__ir *ir, const char *name, tn_dtype dtype, ex a, ex b) {
  return tn__buffer_create(ir, name, dtype, TN__SCOPE_PARAM, b == NULL ? 1 : 2, (ex[]){a, b});
}

/* y[i] = max(x[i] * 2 + 1, 0) over a symbolic length: whole vectors and a masked tail. */
static void elementwise(kernel_test *t, void *user) {
  tn__ir *ir = t->ir;
  tn__var *n = tn__var_create(ir, "n", TN_I64, tn__ir_index(ir, 0), NULL);
  const tn__buffer *x = param(ir, "x", TN_F32, n->self, NULL), *y = param(ir, "y", TN_F32, n->self, NULL);
  tn__var *block =
      tn__var_create(ir, "i", TN_I64, tn__ir_index(ir, 0), tn__ir_ceildiv(ir, n->self, tn__ir_index(ir, 16)));
  tn__var *lane = loop_var(ir, "v", 16);
  ex i = tn__ir_add(ir, tn__ir_mul_i(ir, block->self, 16), lane->self);
  ex value = tn__ir_add(ir, tn__ir_mul(ir, load1(ir, x, i), tn__ir_float(ir, TN_F32, 2)), tn__ir_float(ir, TN_F32, 1));
  const tn__stmt *body = store1(ir, y, i, tn__ir_max(ir, value, tn__ir_float(ir, TN_F32, 0)));
  body = tn__ir_if(ir, tn__ir_lt(ir, i, n->self), body, NULL);
  body = tn__ir_for(ir, block, TN__LOOP_PARALLEL, tn__ir_for(ir, lane, TN__LOOP_VECTORIZED, body));
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

/* C[8 mr, 2 nr] = A[8 mr, 100] B[100, 2 nr] in tiles of mr x nr held in registers, as vectors of `width`. */
enum { K = 100, MAX_MR = 14, MAX_PARTS = 4 };

typedef struct tiling {
  int mr, nr, width;
  const char *target;
} tiling;

static const tn__func *tiled_matmul(tn__ir *ir, const tiling *tile) {
  ex rows = tn__ir_index(ir, 8 * tile->mr), columns = tn__ir_index(ir, 2 * tile->nr);
  const tn__buffer *params[3] = {param(ir, "A", TN_F32, rows, tn__ir_index(ir, K)),
                                 param(ir, "B", TN_F32, tn__ir_index(ir, K), columns),
                                 param(ir, "C", TN_F32, rows, columns)};
  ex shape[2] = {tn__ir_index(ir, tile->mr), tn__ir_index(ir, tile->nr)};
  const tn__buffer *acc = tn__buffer_create(ir, "acc", TN_F32, TN__SCOPE_REGISTER, 2, shape);
  tn__var *mo = loop_var(ir, "mo", 8), *no = loop_var(ir, "no", 2), *k = loop_var(ir, "k", K);
  const tn__stmt *parts[3][MAX_MR * MAX_PARTS];
  int count = 0;
  for (int m = 0; m < tile->mr; m++)
    for (int h = 0; h < tile->nr / tile->width; h++, count++) {
      ex row = tn__ir_index(ir, m), i = tn__ir_add_i(ir, tn__ir_mul_i(ir, mo->self, tile->mr), m);
      for (int p = 0; p < 3; p++) {
        tn__var *v = loop_var(ir, "v", tile->width);
        ex column = tn__ir_add_i(ir, v->self, tile->width * h);
        ex j = tn__ir_add(ir, tn__ir_mul_i(ir, no->self, tile->nr), column), sum = load2(ir, acc, row, column);
        ex product = tn__ir_mul(ir, load2(ir, params[0], i, k->self), load2(ir, params[1], k->self, j));
        const tn__stmt *body = p == 0   ? store2(ir, acc, row, column, tn__ir_float(ir, TN_F32, 0))
                               : p == 1 ? store2(ir, acc, row, column, tn__ir_add(ir, sum, product))
                                        : store2(ir, params[2], i, j, sum);
        parts[p][count] = tn__ir_for(ir, v, TN__LOOP_VECTORIZED, body);
      }
    }
  const tn__stmt *steps[3] = {tn__ir_seq(ir, parts[0], count),
                              tn__ir_for(ir, k, TN__LOOP_SERIAL, tn__ir_seq(ir, parts[1], count)),
                              tn__ir_seq(ir, parts[2], count)};
  const tn__stmt *body = tn__ir_alloc_stmt(ir, acc, tn__ir_seq(ir, steps, 3));
  body = tn__ir_for(ir, mo, TN__LOOP_PARALLEL, tn__ir_for(ir, no, TN__LOOP_SERIAL, body));
  return tn__func_create(ir, "matmul", params, 2, params + 2, 1, NULL, 0, body);
}

static void matmul(kernel_test *t, void *user) {
  const tiling *tile = user;
  tn_kernel kernel = kernel_compile(t, tiled_matmul(t->ir, tile));
  int rows = 8 * tile->mr, columns = 2 * tile->nr;
  size_t bytes[3] = {(size_t)(rows * K) * 4, (size_t)(K * columns) * 4, (size_t)(rows * columns) * 4};
  float *a = kernel_alloc(bytes[0]), *b = kernel_alloc(bytes[1]), *c = kernel_alloc(bytes[2]);
  for (int i = 0; i < rows * K; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * columns; i++) b[i] = (float)(i % 5 - 2);
  assert_int_equal(kernel_run(kernel, (void *[]){a, b, c}, NULL), TN_KERNEL_OK);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += a[i * K + k] * b[k * columns + j];
      assert_true(c[i * columns + j] == want);
    }
  kernel_free(a, bytes[0]);
  kernel_free(b, bytes[1]);
  kernel_free(c, bytes[2]);
}

static int occurrences(const char *text, const char *end, const char *word) {
  int count = 0;
  while ((text = strstr(text, word)) != NULL && text < end) {
    count++;
    text++;
  }
  return count;
}

/* The tile stays in registers: as many multiply-adds as it has vectors, each row's element broadcast once, nothing on
 * the stack. */
static void tile_assembly(kernel_test *t, void *user) {
  const tiling *tile = user;
  const tn__func *func = tiled_matmul(t->ir, tile);
  const char *text = kernel_code(&t->arena, t->ir, func, &t->target, TN__EMIT_ASSEMBLY).data;
  const char *first = strstr(text, "vfmadd"), *last = first;
  assert_non_null(first);
  while (strstr(last + 1, "vfmadd") != NULL) last = strstr(last + 1, "vfmadd");
  int lanes = t->target.cpu.vector_bytes / 4, vectors = tile->mr * tile->nr / lanes;
  assert_int_equal(occurrences(text, text + strlen(text), "vfmadd"), vectors);
  assert_true(occurrences(text, text + strlen(text), "vbroadcastss") <= tile->mr);
  assert_int_equal(occurrences(first, last, "%rsp"), 0);
  assert_true(occurrences(first, last, "\n") <= vectors + tile->mr + tile->nr / lanes);
}

/* ---- several at once --------------------------------------------------------------------------------------------- */

enum { THREADS = 4, MAX_OBJECT = 65536 };
typedef struct compilation {
  uint8_t object[MAX_OBJECT];
  size_t size;
  int padding; /* allocations made first, so that no two compilations see the same addresses */
} compilation;

static void compile_to_bytes(kernel_test *t, void *user) {
  compilation *c = user;
  tn__arena_alloc(&t->arena, (size_t)c->padding * 1000);
  const tn__func *func = tiled_matmul(t->ir, &(tiling){8, 32, 16, NULL});
  tn__code object = kernel_code(&t->arena, t->ir, func, &t->target, TN__EMIT_OBJECT);
  if (object.size > MAX_OBJECT) tn__throwf(&t->escape, TN_INTERNAL, "the object has %zu bytes", object.size);
  memcpy(c->object, object.data, object.size);
  c->size = object.size;
}

static void *compile_thread(void *user) { return kernel_try("x86-64-v4", compile_to_bytes, user); }

static void gives_the_same_bytes_in_every_thread(void **state) {
  compilation *c = calloc(THREADS, sizeof(*c));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    c[i].padding = i;
    assert_int_equal(pthread_create(&threads[i], NULL, compile_thread, &c[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *status;
    pthread_join(threads[i], &status);
    check_ok(status);
    assert_int_equal(c[i].size, c[0].size);
    assert_memory_equal(c[i].object, c[0].object, c[0].size);
  }
  free(c);
}

static const tiling tilings[] = {{8, 32, 16, NULL},        {14, 32, 16, "x86-64-v4"}, {12, 32, 16, "x86-64-v4"},
                                 {6, 64, 16, "x86-64-v4"}, {14, 32, 32, "x86-64-v4"}, {6, 16, 8, "x86-64-v3"}};

static void runs_elementwise(void **state) { kernel_with(NULL, elementwise, NULL); }
static void runs_tiled_matmul(void **state) {
  tiling tile = tilings[0];
  kernel_with(NULL, matmul, &tile);
}
static void keeps_tiles_in_registers(void **state) {
  for (size_t i = 1; i < sizeof(tilings) / sizeof(tilings[0]); i++) {
    tiling tile = tilings[i];
    kernel_with(tile.target, tile_assembly, &tile);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_elementwise),
      cmocka_unit_test(runs_tiled_matmul),
      cmocka_unit_test(keeps_tiles_in_registers),
      cmocka_unit_test(gives_the_same_bytes_in_every_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
