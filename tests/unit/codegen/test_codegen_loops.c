/* Shapes of loops, accesses and conditions that code generation treats apart, each against the interpreter; then random
 * kernels. Buffers lie between pages that may not be touched, so a lane that reads where its mask forbids it ends the
 * test. */
#include "unit/kernel.h"

#include <math.h>
#include <unistd.h>

#include "base/dtype.h"

typedef const tn__expr *ex;

/* ---- building ---------------------------------------------------------------------------------------------------- */

enum { MAX_PARAMS = 8 };

typedef struct builder {
  tn__ir *ir;
  const tn__buffer *params[MAX_PARAMS];
  int inputs, outputs;
  const tn__var *scalars[2];
  int64_t scalar_values[2];
  int scalar_count;
} builder;

static ex number(builder *b, int64_t value) { return tn__ir_index(b->ir, value); }

static tn__var *loop(builder *b, const char *name, int64_t extent) {
  return tn__var_create(b->ir, name, TN_I64, number(b, 0), number(b, extent));
}

static const tn__buffer *input(builder *b, tn_dtype dtype, ex size) {
  const tn__buffer *buffer = tn__buffer_create(b->ir, "in", dtype, TN__SCOPE_PARAM, 1, &size);
  b->params[b->inputs++] = buffer;
  return buffer;
}

static const tn__buffer *output(builder *b, tn_dtype dtype, ex size) { /* after all inputs */
  const tn__buffer *buffer = tn__buffer_create(b->ir, "out", dtype, TN__SCOPE_PARAM, 1, &size);
  b->params[b->inputs + b->outputs++] = buffer;
  return buffer;
}

static ex scalar(builder *b, const char *name, int64_t value) {
  tn__var *var = tn__var_create(b->ir, name, TN_I64, number(b, 0), NULL);
  b->scalar_values[b->scalar_count] = value;
  b->scalars[b->scalar_count++] = var;
  return var->self;
}

static ex at(builder *b, const tn__buffer *buffer, ex index) { return tn__ir_load(b->ir, buffer, &index); }
static const tn__stmt *put(builder *b, const tn__buffer *buffer, ex index, ex value) {
  return tn__ir_store(b->ir, buffer, &index, value);
}
static const tn__stmt *serial(builder *b, const tn__var *v, const tn__stmt *s) {
  return tn__ir_for(b->ir, v, TN__LOOP_SERIAL, s);
}
static const tn__stmt *parallel(builder *b, const tn__var *v, const tn__stmt *s) {
  return tn__ir_for(b->ir, v, TN__LOOP_PARALLEL, s);
}
static const tn__stmt *lanes(builder *b, const tn__var *v, const tn__stmt *s) {
  return tn__ir_for(b->ir, v, TN__LOOP_VECTORIZED, s);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct guarded {
  char *map, *data;
  size_t map_size, size;
} guarded;

/* Up to 63 bytes lie between the end and the forbidden page when the size is not a multiple of the alignment. */
static guarded guarded_alloc(size_t size) {
  guarded g = {.size = size};
  size_t pages = (size + 4095) / 4096 * 4096;
  g.map_size = pages + 2 * 4096;
  g.map = mmap(NULL, g.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  if (pages > 0) assert_int_equal(mprotect(g.map + 4096, pages, PROT_READ | PROT_WRITE), 0);
  g.data = g.map + 4096 + pages - (size + 63) / 64 * 64;
  return g;
}

static int64_t byte_size(builder *b, const tn__buffer *buffer) {
  const tn__var *vars[2] = {b->scalars[0], b->scalars[1]};
  ex values[2];
  for (int i = 0; i < b->scalar_count; i++) values[i] = number(b, b->scalar_values[i]);
  ex bytes = tn__ir_mul_i(b->ir, buffer->shape[0], (int64_t)tn_dtype_size(buffer->dtype));
  bytes = tn__ir_substitute(b->ir, bytes, vars, values, b->scalar_count);
  int64_t size = -1;
  assert_true(tn__ir_as_int(bytes, &size));
  return size;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void fill(const tn__buffer *buffer, char *data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes / (int64_t)tn_dtype_size(buffer->dtype); i++) {
    int64_t r = (int64_t)(next_random(&seed) % 9) - (tn__dtype_is_unsigned(buffer->dtype) ? 0 : 4);
    tn__store_i64(buffer->dtype, data, i,
                  buffer->dtype == TN_BOOL ? r & 1 : r); /* small, so that sums of products are exact */
  }
}

/* On this machine in the guarded buffers; emulated in a copy, all buffers of one size. */
static int32_t run_kernel(kernel_test *t, builder *b, tn_kernel kernel, const guarded *buffers, int count) {
  void *data[MAX_PARAMS + 1];
  for (int i = 0; i < count; i++) data[i] = buffers[i].data;
  if (t->target.cpu.arch == tn__host_arch()) return kernel_run(kernel, data, b->scalar_values);
  size_t each = 64;
  for (int i = 0; i < count; i++)
    if (buffers[i].size > each) each = buffers[i].size;
  char *copies = kernel_alloc((size_t)count * each);
  for (int i = 0; i < count; i++) {
    data[i] = copies + (size_t)i * each;
    if (buffers[i].size > 0) memcpy(data[i], buffers[i].data, buffers[i].size);
  }
  int32_t result = kernel_run_anywhere(t, kernel, data, count, each, b->scalar_values, b->scalar_count);
  for (int i = 0; i < count; i++)
    if (buffers[i].size > 0) memcpy(buffers[i].data, data[i], buffers[i].size);
  kernel_free(copies, (size_t)count * each);
  return result;
}

/* Compiled and interpreted on the same inputs: the same outputs, the same result. `want` is the kernel's result. */
static void agree(kernel_test *t, builder *b, const tn__stmt *body, int32_t want) {
  const tn__func *func = tn__func_create(t->ir, "kernel", b->params, b->inputs, b->params + b->inputs, b->outputs,
                                         b->scalars, b->scalar_count, body);
  tn_kernel kernel = kernel_compile(t, func);
  guarded compiled[MAX_PARAMS + 1], reference[MAX_PARAMS];
  void *r[MAX_PARAMS];
  int count = b->inputs + b->outputs;
  for (int i = 0; i < count; i++) {
    int64_t bytes = byte_size(b, b->params[i]);
    compiled[i] = guarded_alloc((size_t)bytes);
    reference[i] = guarded_alloc((size_t)bytes);
    fill(b->params[i], compiled[i].data, bytes, (uint64_t)i + 1);
    if (bytes > 0) memcpy(reference[i].data, compiled[i].data, (size_t)bytes);
    r[i] = reference[i].data;
  }
  tn__kernel_info info = tn__cg_kernel_workspace(t->ir, func);
  int64_t workspace = info.workspace_bytes;
  if (info.workspace_expr != NULL) {
    ex values[2];
    for (int i = 0; i < b->scalar_count; i++) values[i] = number(b, b->scalar_values[i]);
    assert_true(
        tn__ir_as_int(tn__ir_substitute(t->ir, info.workspace_expr, b->scalars, values, b->scalar_count), &workspace));
  }
  compiled[count] = guarded_alloc((size_t)workspace);
  assert_int_equal(run_kernel(t, b, kernel, compiled, count + 1), want);
  tn_status *status = tn__ir_interpret(t->ir, func, r, b->scalar_values, NULL);
  assert_int_equal(status != NULL, want != TN_KERNEL_OK);
  tn_status_free(status);
  for (int i = 0; i < count && want == TN_KERNEL_OK; i++)
    for (size_t k = 0; k < compiled[i].size; k++)
      if (compiled[i].data[k] != reference[i].data[k])
        fail_msg("%s: buffer %d differs at element %zu (%s)", t->target.name, i, k / tn_dtype_size(b->params[i]->dtype),
                 tn_dtype_name(b->params[i]->dtype));
  for (int i = 0; i <= count; i++) munmap(compiled[i].map, compiled[i].map_size);
  for (int i = 0; i < count; i++) munmap(reference[i].map, reference[i].map_size);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* if (v < n) y = x else y = -1, and inside of it another condition on data. */
static void nested_masks(kernel_test *t, void *user) {
  const int64_t *n = user;
  builder b = {.ir = t->ir};
  ex size = scalar(&b, "n", *n);
  const tn__buffer *x = input(&b, TN_F32, size), *y = output(&b, TN_F32, number(&b, 16));
  tn__var *v = loop(&b, "v", 16);
  ex value = at(&b, x, v->self), zero = tn__ir_float(t->ir, TN_F32, 0), minus = tn__ir_float(t->ir, TN_F32, -9);
  const tn__stmt *inner = tn__ir_if(t->ir, tn__ir_lt(t->ir, zero, value),
                                    put(&b, y, v->self, tn__ir_add(t->ir, value, value)), put(&b, y, v->self, zero));
  agree(t, &b, lanes(&b, v, tn__ir_if(t->ir, tn__ir_lt(t->ir, v->self, size), inner, put(&b, y, v->self, minus))), 0);
}

/* The side of a select that is not chosen must not be read: the border of a convolution. */
static void lazy_borders(kernel_test *t, void *user) {
  const int *width = user;
  for (int is_vector = 0; is_vector < 2; is_vector++) {
    builder b = {.ir = t->ir};
    ex n = scalar(&b, "n", 32);
    const tn__buffer *x = input(&b, TN_F32, n), *y = output(&b, TN_F32, tn__ir_add_i(t->ir, n, 32));
    tn__var *o =
        tn__var_create(t->ir, "o", TN_I64, number(&b, 0), tn__ir_div_i(t->ir, tn__ir_add_i(t->ir, n, 32), *width));
    tn__var *v = loop(&b, "v", *width);
    ex i = tn__ir_add(t->ir, tn__ir_mul_i(t->ir, o->self, *width), v->self), k = tn__ir_add_i(t->ir, i, -16);
    ex inside = tn__ir_and(t->ir, tn__ir_le(t->ir, number(&b, 0), k), tn__ir_lt(t->ir, k, n));
    ex value = tn__ir_select(t->ir, inside, at(&b, x, k), tn__ir_float(t->ir, TN_F32, 7));
    const tn__stmt *s = put(&b, y, i, tn__ir_add(t->ir, value, tn__ir_float(t->ir, TN_F32, 1)));
    agree(t, &b, serial(&b, o, is_vector ? lanes(&b, v, s) : serial(&b, v, s)), 0);
  }
}

/* and / or whose second side may only be evaluated when the first says so. */
static void lazy_logic(kernel_test *t, void *user) {
  for (int is_vector = 0; is_vector < 2; is_vector++) {
    builder b = {.ir = t->ir};
    const tn__buffer *x = input(&b, TN_F32, number(&b, 16));
    const tn__buffer *y = output(&b, TN_BOOL, number(&b, 32)), *z = output(&b, TN_BOOL, number(&b, 32));
    tn__var *v = loop(&b, "v", 32);
    ex inside = tn__ir_lt(t->ir, v->self, number(&b, 16));
    ex positive = tn__ir_lt(t->ir, tn__ir_float(t->ir, TN_F32, 0), at(&b, x, v->self));
    const tn__stmt *s = tn__ir_seq2(t->ir, put(&b, y, v->self, tn__ir_and(t->ir, inside, positive)),
                                    put(&b, z, v->self, tn__ir_or(t->ir, tn__ir_not(t->ir, inside), positive)));
    agree(t, &b, is_vector ? lanes(&b, v, s) : serial(&b, v, s), 0);
  }
}

/* ---- access shapes ----------------------------------------------------------------------------------------------- */

typedef struct access_case {
  int width;
  tn_dtype dtype;
  int64_t stride;
  bool masked;
} access_case;

/* y[s v] = x[s v + 3] with constant strides of either sign. */
static void strided(kernel_test *t, void *user) {
  const access_case *c = user;
  builder b = {.ir = t->ir};
  int64_t span = (c->width - 1) * llabs(c->stride) + 4;
  const tn__buffer *x = input(&b, c->dtype, number(&b, span)), *y = output(&b, c->dtype, number(&b, span));
  tn__var *v = loop(&b, "v", c->width);
  ex i = tn__ir_mul_i(t->ir, v->self, c->stride);
  if (c->stride < 0) i = tn__ir_add_i(t->ir, i, -c->stride * (c->width - 1));
  const tn__stmt *s = put(&b, y, i, at(&b, x, tn__ir_add_i(t->ir, i, 3)));
  if (c->masked) s = tn__ir_if(t->ir, tn__ir_lt(t->ir, v->self, scalar(&b, "n", c->width / 2)), s, NULL);
  agree(t, &b, lanes(&b, v, s), 0);
}

/* Indices from data, within a remainder or clamped, from quotients and remainders of the lane, and with a symbolic
 * stride. */
static void gathered(kernel_test *t, void *user) {
  const access_case *c = user;
  builder b = {.ir = t->ir};
  ex n = scalar(&b, "n", 3);
  const tn__buffer *x = input(&b, c->dtype, number(&b, 64)), *index = input(&b, TN_I32, number(&b, c->width));
  const tn__buffer *wide = input(&b, TN_I64, number(&b, c->width));
  const tn__buffer *y = output(&b, c->dtype, number(&b, 6 * c->width));
  tn__var *v = loop(&b, "v", c->width);
  ex zero = number(&b, 0), last = number(&b, 63);
  ex clamped = tn__ir_min(t->ir, last, tn__ir_max(t->ir, zero, at(&b, wide, v->self)));
  ex narrow = tn__ir_max(t->ir, zero, tn__ir_cast(t->ir, TN_I64, at(&b, index, v->self)));
  narrow = tn__ir_min(t->ir, last, narrow);
  ex data = tn__ir_mod_i(t->ir, tn__ir_cast(t->ir, TN_I64, at(&b, index, v->self)), 5);
  ex rest = tn__ir_mod_i(t->ir, v->self, 3), half = tn__ir_div_i(t->ir, v->self, 2);
  ex from[6] = {data, rest, half, tn__ir_mul(t->ir, v->self, n), clamped, narrow};
  const tn__stmt *stores[6];
  for (int i = 0; i < 6; i++) stores[i] = put(&b, y, tn__ir_add_i(t->ir, v->self, i * c->width), at(&b, x, from[i]));
  const tn__stmt *s = tn__ir_seq(t->ir, stores, 6);
  if (c->masked) s = tn__ir_if(t->ir, tn__ir_le(t->ir, number(&b, 2), v->self), s, NULL);
  agree(t, &b, lanes(&b, v, s), 0);
}

static void access_shapes(const char *target) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_I64, TN_F16, TN_U8, TN_BOOL};
  static const int64_t strides[] = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  static const int widths[] = {4, 8, 16};
  for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
    for (int masked = 0; masked < 2; masked++) {
      access_case c = {.width = widths[d % 3], .dtype = dtypes[d], .masked = masked};
      kernel_with(target, gathered, &c);
      for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
        c.stride = strides[s];
        kernel_with(target, strided, &c);
      }
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What was loaded before a store is not what is there after it: a running sum, and a swap through a let. */
static void stores_are_seen(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  const tn__buffer *x = input(&b, TN_I64, number(&b, 20)), *y = output(&b, TN_I64, number(&b, 21));
  tn__var *i = loop(&b, "i", 20), *held = tn__var_create(t->ir, "held", TN_I64, NULL, NULL), *k = loop(&b, "k", 10);
  ex next = tn__ir_add_i(t->ir, i->self, 1), other = tn__ir_sub(t->ir, number(&b, 20), k->self);
  const tn__stmt *sum = serial(&b, i, put(&b, y, next, tn__ir_add(t->ir, at(&b, y, i->self), at(&b, x, i->self))));
  const tn__stmt *swap = tn__ir_seq2(t->ir, put(&b, y, k->self, at(&b, y, other)), put(&b, y, other, held->self));
  swap = serial(&b, k, tn__ir_let(t->ir, held, at(&b, y, k->self), swap));
  const tn__stmt *twice =
      tn__ir_seq2(t->ir, put(&b, y, number(&b, 0), tn__ir_add_i(t->ir, at(&b, y, number(&b, 0)), 1)),
                  put(&b, y, number(&b, 0), tn__ir_mul_i(t->ir, at(&b, y, number(&b, 0)), 3)));
  const tn__stmt *all[] = {put(&b, y, number(&b, 0), number(&b, 0)), sum, swap, twice};
  agree(t, &b, tn__ir_seq(t->ir, all, 4), 0);
}

/* Register buffers: a reduction by halves over one vector, single lanes, and accesses that force a stack array. */
static void register_slots(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  const tn__buffer *x = input(&b, TN_F32, number(&b, 160)), *y = output(&b, TN_F32, number(&b, 10));
  ex width = number(&b, 16);
  const tn__buffer *acc = tn__buffer_create(t->ir, "acc", TN_F32, TN__SCOPE_REGISTER, 1, &width);
  const tn__stmt *steps[8];
  int count = 0;
  tn__var *v = loop(&b, "v", 16), *k = loop(&b, "k", 10);
  steps[count++] = lanes(&b, v, put(&b, acc, v->self, tn__ir_float(t->ir, TN_F32, 0)));
  tn__var *w = loop(&b, "w", 16);
  ex element = at(&b, x, tn__ir_add(t->ir, tn__ir_mul_i(t->ir, k->self, 16), w->self));
  steps[count++] = serial(&b, k, lanes(&b, w, put(&b, acc, w->self, tn__ir_add(t->ir, at(&b, acc, w->self), element))));
  steps[count++] = put(&b, y, number(&b, 1), at(&b, acc, number(&b, 5)));
  for (int half = 8; half >= 1; half /= 2) {
    tn__var *h = loop(&b, "h", half);
    ex sum = tn__ir_add(t->ir, at(&b, acc, h->self), at(&b, acc, tn__ir_add_i(t->ir, h->self, half)));
    steps[count++] = lanes(&b, h, put(&b, acc, h->self, sum));
  }
  steps[count++] = put(&b, y, number(&b, 0), at(&b, acc, number(&b, 0)));
  const tn__stmt *s = tn__ir_alloc_stmt(t->ir, acc, tn__ir_seq(t->ir, steps, count));
  const tn__buffer *odd = tn__buffer_create(t->ir, "odd", TN_F32, TN__SCOPE_REGISTER, 1, &width);
  tn__var *i = loop(&b, "i", 16), *u = loop(&b, "u", 8);
  const tn__stmt *fill_odd = serial(&b, i, put(&b, odd, i->self, at(&b, x, i->self)));
  const tn__stmt *read_odd =
      lanes(&b, u, put(&b, y, tn__ir_add_i(t->ir, u->self, 2), at(&b, odd, tn__ir_add_i(t->ir, u->self, 3))));
  s = tn__ir_seq2(t->ir, s, tn__ir_alloc_stmt(t->ir, odd, tn__ir_seq2(t->ir, fill_odd, read_odd)));
  agree(t, &b, s, 0);
}

/* A masked register accumulator: only the lanes of the row may change. */
static void masked_registers(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  ex n = scalar(&b, "n", 11), width = number(&b, 16);
  const tn__buffer *x = input(&b, TN_F32, n), *y = output(&b, TN_F32, width);
  const tn__buffer *acc = tn__buffer_create(t->ir, "acc", TN_F32, TN__SCOPE_REGISTER, 1, &width);
  tn__var *a = loop(&b, "a", 16), *c = loop(&b, "c", 16), *d = loop(&b, "d", 16);
  const tn__stmt *add = put(&b, acc, c->self, tn__ir_add(t->ir, at(&b, acc, c->self), at(&b, x, c->self)));
  const tn__stmt *steps[] = {lanes(&b, a, put(&b, acc, a->self, tn__ir_float(t->ir, TN_F32, -5))),
                             lanes(&b, c, tn__ir_if(t->ir, tn__ir_lt(t->ir, c->self, n), add, NULL)),
                             lanes(&b, d, put(&b, y, d->self, at(&b, acc, d->self)))};
  agree(t, &b, tn__ir_alloc_stmt(t->ir, acc, tn__ir_seq(t->ir, steps, 3)), 0);
}

/* What looks like lanes but has to run one after another: memory of its own in the body, two lanes for one element of a
 * register.
 */
static void serial_after_all(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  const tn__buffer *x = input(&b, TN_F32, number(&b, 16)), *y = output(&b, TN_F32, number(&b, 17));
  ex width = number(&b, 16), zero = number(&b, 0), one = tn__ir_float(t->ir, TN_F32, 1);
  const tn__buffer *acc = tn__buffer_create(t->ir, "acc", TN_F32, TN__SCOPE_REGISTER, 1, &width);
  tn__var *v = loop(&b, "v", 16), *u = loop(&b, "u", 16), *w = loop(&b, "w", 16);
  ex single = number(&b, 1);
  const tn__buffer *own = tn__buffer_create(t->ir, "own", TN_F32, TN__SCOPE_STACK, 1, &single);
  const tn__stmt *count = tn__ir_seq2(t->ir, put(&b, own, zero, tn__ir_add(t->ir, at(&b, acc, v->self), one)),
                                      put(&b, acc, v->self, at(&b, own, zero)));
  count = tn__ir_alloc_stmt(t->ir, own, count);
  const tn__stmt *steps[] = {
      lanes(&b, v, tn__ir_seq2(t->ir, put(&b, acc, v->self, at(&b, x, v->self)), count)),
      lanes(&b, w, put(&b, y, w->self, at(&b, acc, w->self))),
      lanes(&b, u,
            tn__ir_if(t->ir, tn__ir_lt(t->ir, u->self, number(&b, 9)), put(&b, acc, zero, at(&b, x, u->self)), NULL)),
      put(&b, y, number(&b, 16), at(&b, acc, zero))};
  agree(t, &b, tn__ir_alloc_stmt(t->ir, acc, tn__ir_seq(t->ir, steps, 4)), 0);
}

/* Workspaces of constant and symbolic size, written by one parallel loop and read by the next; stack buffers inside of
 * tasks. */
static void memories_of_parallel_loops(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  ex n = scalar(&b, "n", 37);
  const tn__buffer *x = input(&b, TN_F32, n), *y = output(&b, TN_F32, n);
  const tn__buffer *first = tn__buffer_create(t->ir, "first", TN_F32, TN__SCOPE_WORKSPACE, 1, &n);
  ex eight = number(&b, 8), seven = number(&b, 7);
  const tn__buffer *second = tn__buffer_create(t->ir, "second", TN_F32, TN__SCOPE_WORKSPACE, 1, &seven);
  const tn__buffer *stack = tn__buffer_create(t->ir, "stack", TN_F32, TN__SCOPE_STACK, 1, &eight);
  tn__var *i = tn__var_create(t->ir, "i", TN_I64, number(&b, 0), n),
          *j = tn__var_create(t->ir, "j", TN_I64, number(&b, 2), tn__ir_add_i(t->ir, n, -2));
  tn__var *k = loop(&b, "k", 8), *m = loop(&b, "m", 8), *s = loop(&b, "s", 7);
  const tn__stmt *work = serial(
      &b, k, put(&b, stack, k->self, tn__ir_mul(t->ir, at(&b, x, i->self), tn__ir_cast(t->ir, TN_F32, k->self))));
  ex sum = tn__ir_add(t->ir, at(&b, first, i->self), at(&b, stack, m->self));
  work = tn__ir_seq2(t->ir, work, serial(&b, m, put(&b, first, i->self, sum)));
  work = tn__ir_seq2(t->ir, put(&b, first, i->self, tn__ir_float(t->ir, TN_F32, 0)),
                     tn__ir_alloc_stmt(t->ir, stack, work));
  ex back = tn__ir_add(t->ir, at(&b, first, tn__ir_sub(t->ir, tn__ir_add_i(t->ir, n, -1), j->self)),
                       at(&b, second, tn__ir_mod_i(t->ir, j->self, 7)));
  const tn__stmt *steps[] = {serial(&b, s, put(&b, second, s->self, tn__ir_cast(t->ir, TN_F32, s->self))),
                             parallel(&b, i, work), parallel(&b, j, put(&b, y, j->self, back))};
  agree(t, &b, tn__ir_alloc_stmt(t->ir, second, tn__ir_alloc_stmt(t->ir, first, tn__ir_seq(t->ir, steps, 3))), 0);
}

/* An output that takes the place of an input of its size. */
static void in_place(kernel_test *t, void *user) {
  if (t->target.cpu.arch != tn__host_arch()) return; /* the emulator gets copies, apart from each other */
  tn__ir *ir = t->ir;
  ex size = tn__ir_index(ir, 64);
  const tn__buffer *x = tn__buffer_create(ir, "x", TN_F32, TN__SCOPE_PARAM, 1, &size),
                   *y = tn__buffer_create(ir, "y", TN_F32, TN__SCOPE_PARAM, 1, &size);
  tn__var *o = tn__var_create(ir, "o", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, 4)),
          *v = tn__var_create(ir, "v", TN_I64, tn__ir_index(ir, 0), tn__ir_index(ir, 16));
  ex i = tn__ir_add(ir, tn__ir_mul_i(ir, o->self, 16), v->self), value = tn__ir_load(ir, x, &i);
  const tn__stmt *body =
      tn__ir_store(ir, y, &i, tn__ir_add(ir, tn__ir_mul(ir, value, value), tn__ir_float(ir, TN_F32, 1)));
  body = tn__ir_for(ir, o, TN__LOOP_SERIAL, tn__ir_for(ir, v, TN__LOOP_VECTORIZED, body));
  tn_kernel kernel = kernel_compile(t, tn__func_create(ir, "in_place", &x, 1, &y, 1, NULL, 0, body));
  float *data = kernel_alloc(256);
  for (int k = 0; k < 64; k++) data[k] = (float)k;
  assert_int_equal(kernel_run(kernel, (void *[]){data, data}, NULL), 0);
  for (int k = 0; k < 64; k++) assert_true(data[k] == (float)(k * k + 1));
  kernel_free(data, 256);
}

/* ---- control flow and failure ------------------------------------------------------------------------------------ */

/* Binary search by a loop with a condition that loads. */
static void while_loops(kernel_test *t, void *user) {
  builder b = {.ir = t->ir};
  ex one = number(&b, 1);
  const tn__buffer *x = input(&b, TN_I32, number(&b, 16)), *y = output(&b, TN_I64, number(&b, 16));
  const tn__buffer *state = tn__buffer_create(t->ir, "state", TN_I64, TN__SCOPE_STACK, 1, &one);
  tn__var *i = loop(&b, "i", 16);
  ex zero = number(&b, 0), now = at(&b, state, zero);
  ex more = tn__ir_and(t->ir, tn__ir_lt(t->ir, now, i->self),
                       tn__ir_le(t->ir, at(&b, x, tn__ir_max(t->ir, tn__ir_min(t->ir, now, number(&b, 15)), zero)),
                                 tn__ir_int(t->ir, TN_I32, 3)));
  const tn__stmt *round = put(&b, state, zero, tn__ir_add_i(t->ir, now, 1));
  const tn__stmt *steps[] = {put(&b, state, zero, zero), tn__ir_while(t->ir, more, round), put(&b, y, i->self, now)};
  agree(t, &b, serial(&b, i, tn__ir_alloc_stmt(t->ir, state, tn__ir_seq(t->ir, steps, 3))), 0);
}

typedef struct failure {
  bool vector, parallel, division, guarded;
} failure;

/* A bad element makes the kernel fail, in every kind of loop; under a mask that leaves it out it does not. */
static void failures(kernel_test *t, void *user) {
  const failure *f = user;
  builder b = {.ir = t->ir};
  const tn__buffer *x = input(&b, TN_I32, number(&b, 64)), *y = output(&b, TN_I32, number(&b, 64));
  tn__var *o = loop(&b, "o", 4), *v = loop(&b, "v", 16);
  ex i = tn__ir_add(t->ir, tn__ir_mul_i(t->ir, o->self, 16), v->self), value = at(&b, x, i),
     hundred = tn__ir_int(t->ir, TN_I32, 100);
  ex bad = tn__ir_eq(t->ir, value, tn__ir_int(t->ir, TN_I32, 0)), good = tn__ir_not(t->ir, bad);
  const tn__stmt *s;
  if (f->division && f->guarded)
    s = put(&b, y, i, tn__ir_select(t->ir, good, tn__ir_div(t->ir, hundred, value), value));
  else if (f->division)
    s = put(&b, y, i, tn__ir_mod(t->ir, hundred, value));
  else
    s = tn__ir_seq2(t->ir,
                    tn__ir_if(t->ir, f->guarded ? tn__ir_and(t->ir, bad, good) : bad,
                              tn__ir_fail(t->ir, TN_KERNEL_INDEX_OUT_OF_RANGE), NULL),
                    put(&b, y, i, value));
  s = f->vector ? lanes(&b, v, s) : serial(&b, v, s);
  s = f->parallel ? parallel(&b, o, s) : serial(&b, o, s);
  agree(t, &b, s, f->guarded ? TN_KERNEL_OK : f->division ? TN_KERNEL_DIVISION_BY_ZERO : TN_KERNEL_INDEX_OUT_OF_RANGE);
}

/* ---- random kernels ---------------------------------------------------------------------------------------------- */

typedef struct generator {
  builder b;
  uint64_t state;
  tn__var *loops[3]; /* outer, inner, lane */
  const tn__buffer *inputs[3];
  ex limit; /* elements of each input */
} generator;

static int pick(generator *g, int count) { return (int)(next_random(&g->state) % (uint64_t)count); }

static ex random_index(generator *g, int depth) {
  tn__ir *ir = g->b.ir;
  ex sum = number(&g->b, pick(g, 5));
  for (int i = 0; i < 3; i++) {
    static const int64_t strides[] = {0, 1, 1, 1, 2, 3, 7};
    ex term = g->loops[i]->self;
    if (pick(g, 6) == 0)
      term = pick(g, 2) ? tn__ir_div_i(ir, term, 2 + pick(g, 3)) : tn__ir_mod_i(ir, term, 2 + pick(g, 3));
    sum = tn__ir_add(ir, sum, tn__ir_mul_i(ir, term, strides[pick(g, 7)]));
  }
  if (depth > 0 && pick(g, 8) == 0) /* through data */
    return tn__ir_mod(ir, tn__ir_cast(ir, TN_I64, tn__ir_load(ir, g->inputs[2], (ex[]){random_index(g, 0)})),
                      number(&g->b, 50));
  return sum;
}

static ex random_bool(generator *g, int depth);

static ex random_value(generator *g, tn_dtype dtype, int depth) {
  tn__ir *ir = g->b.ir;
  if (depth == 0 || pick(g, 5) == 0) {
    const tn__buffer *from = g->inputs[pick(g, 3)];
    if (pick(g, 4) == 0) return tn__ir_constant(ir, dtype, (double)(pick(g, 4)));
    return tn__ir_cast(ir, dtype, tn__ir_load(ir, from, (ex[]){random_index(g, 1)}));
  }
  ex a = random_value(g, dtype, depth - 1);
  switch (pick(g, 7)) {
    case 0: return tn__ir_select(ir, random_bool(g, depth - 1), a, random_value(g, dtype, depth - 1));
    case 1: { /* a load that is only right under its condition */
      ex index = tn__ir_add_i(ir, random_index(g, 0), -20);
      ex inside = tn__ir_and(ir, tn__ir_le(ir, number(&g->b, 0), index), tn__ir_lt(ir, index, g->limit));
      return tn__ir_select(ir, inside, tn__ir_cast(ir, dtype, tn__ir_load(ir, g->inputs[pick(g, 3)], &index)), a);
    }
    case 2: return tn__ir_mul(ir, a, tn__ir_constant(ir, dtype, 2));
    case 3: return tn__ir_min(ir, a, random_value(g, dtype, depth - 1));
    case 4: return tn__ir_max(ir, a, random_value(g, dtype, depth - 1));
    case 5: return tn__ir_sub(ir, a, random_value(g, dtype, depth - 1));
    default: return tn__ir_add(ir, a, random_value(g, dtype, depth - 1));
  }
}

static ex random_bool(generator *g, int depth) {
  tn__ir *ir = g->b.ir;
  switch (pick(g, 4)) {
    case 0: return tn__ir_lt(ir, random_value(g, TN_F32, depth), random_value(g, TN_F32, depth));
    case 1: return tn__ir_le(ir, random_index(g, 0), number(&g->b, pick(g, 20)));
    case 2: return tn__ir_eq(ir, tn__ir_mod_i(ir, g->loops[pick(g, 3)]->self, 3), number(&g->b, 1));
    default:
      return tn__ir_or(ir, tn__ir_lt(ir, g->loops[2]->self, number(&g->b, pick(g, 10))),
                       tn__ir_not(ir, tn__ir_le(ir, random_index(g, 0), number(&g->b, 9))));
  }
}

/* Stores to out[(o * I + i) * L + v], perhaps accumulated in a register over the inner loop, under conditions. */
static void random_kernel(kernel_test *t, void *user) {
  const uint64_t *seed = user;
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_F16, TN_U8, TN_I16, TN_BF16};
  generator g = {.b = {.ir = t->ir}, .state = *seed * 977 + 5};
  tn__ir *ir = t->ir;
  int64_t extents[3] = {1 + pick(&g, 5), 1 + pick(&g, 4), 1 + pick(&g, 19)};
  static const char *const names[] = {"o", "i", "v"};
  for (int i = 0; i < 3; i++) g.loops[i] = loop(&g.b, names[i], extents[i]);
  g.limit = pick(&g, 2) ? number(&g.b, 256) : scalar(&g.b, "n", 256);
  for (int i = 0; i < 3; i++) g.inputs[i] = input(&g.b, i == 2 ? TN_I32 : dtypes[pick(&g, 8)], g.limit);
  tn_dtype dtype = dtypes[pick(&g, 8)];
  const tn__buffer *y = output(&g.b, dtype, number(&g.b, extents[0] * extents[1] * extents[2]));
  ex v = g.loops[2]->self, width = number(&g.b, extents[2]);
  ex row = tn__ir_add(ir, tn__ir_mul_i(ir, g.loops[0]->self, extents[1]), g.loops[1]->self);
  ex place = tn__ir_add(ir, tn__ir_mul_i(ir, row, extents[2]), v), value = random_value(&g, dtype, 3);
  tn__loop_kind outer = pick(&g, 2) ? TN__LOOP_PARALLEL : TN__LOOP_SERIAL,
                inner = pick(&g, 5) ? TN__LOOP_VECTORIZED : TN__LOOP_SERIAL;
  const tn__stmt *s;
  if (pick(&g, 3) == 0) {
    const tn__buffer *acc = tn__buffer_create(ir, "acc", dtype, TN__SCOPE_REGISTER, 1, &width);
    tn__var *a = loop(&g.b, "a", extents[2]), *c = loop(&g.b, "c", extents[2]);
    const tn__stmt *add = put(&g.b, acc, v, tn__ir_add(ir, at(&g.b, acc, v), value));
    if (pick(&g, 2)) add = tn__ir_if(ir, random_bool(&g, 1), add, NULL);
    ex first = tn__ir_add(ir, tn__ir_mul_i(ir, g.loops[0]->self, extents[1] * extents[2]), c->self);
    const tn__stmt *steps[] = {lanes(&g.b, a, put(&g.b, acc, a->self, tn__ir_constant(ir, dtype, 1))),
                               serial(&g.b, g.loops[1], lanes(&g.b, g.loops[2], add)),
                               lanes(&g.b, c, put(&g.b, y, first, at(&g.b, acc, c->self)))};
    s = tn__ir_alloc_stmt(ir, acc, tn__ir_seq(ir, steps, 3));
  } else {
    s = put(&g.b, y, place, value);
    if (pick(&g, 2))
      s = tn__ir_if(ir, random_bool(&g, 1), s, pick(&g, 2) ? put(&g.b, y, place, tn__ir_constant(ir, dtype, 3)) : NULL);
    s = serial(&g.b, g.loops[1], tn__ir_for(ir, g.loops[2], inner, s));
  }
  s = tn__ir_for(ir, g.loops[0], outer, s);
  agree(t, &g.b, s, 0);
}

/* Elements of a table at places that are read, with some arithmetic around them, and places from two tensors. */
static void table_places(kernel_test *t, void *user) {
  static const tn_dtype types[] = {TN_F32, TN_U8, TN_F64, TN_I16};
  for (int k = 0; k < 8; k++) {
    builder b = {.ir = t->ir};
    const tn__buffer *x = input(&b, TN_U8, number(&b, 40)), *other = input(&b, TN_U16, number(&b, 40));
    const tn__buffer *table = input(&b, types[k % 4], number(&b, 40));
    const tn__buffer *y = output(&b, types[k % 4], number(&b, 40));
    tn__var *o = loop(&b, "o", 5), *v = loop(&b, "v", 8);
    ex i = tn__ir_add(t->ir, tn__ir_mul_i(t->ir, o->self, 8), v->self);
    ex place = tn__ir_add_i(t->ir, tn__ir_mul_i(t->ir, tn__ir_cast(t->ir, TN_I64, at(&b, x, i)), 2), 3);
    if (k >= 4) place = tn__ir_add(t->ir, place, tn__ir_cast(t->ir, TN_I64, at(&b, other, i)));
    agree(t, &b, serial(&b, o, lanes(&b, v, put(&b, y, i, at(&b, table, place)))), 0);
  }
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

/* This machine first; then what it can run or emulate. */
static const char *const all_targets[] = {NULL, "x86-64", "x86-64-v3", "aarch64"};
static int target_count(void) {
  if (tn__host_arch() != TN__ARCH_X86_64) return 1;
#ifdef TN_TEST_RUNNER
  return 4;
#else
  return 3;
#endif
}

static void on_targets(void (*body)(kernel_test *, void *), void *user) {
  for (int i = 0; i < target_count(); i++) kernel_with(all_targets[i], body, user);
}

static void masks(void **state) {
  for (int64_t n = 0; n <= 16; n += 4) on_targets(nested_masks, &n);
  on_targets(nested_masks, &(int64_t){13});
}
static void borders(void **state) {
  for (int width = 4; width <= 16; width *= 2) on_targets(lazy_borders, &width);
}
static void logic(void **state) { on_targets(lazy_logic, NULL); }
static void accesses(void **state) {
  on_targets(table_places, NULL);
  for (int i = 0; i < target_count(); i++) access_shapes(all_targets[i]);
}
static void memory(void **state) {
  on_targets(stores_are_seen, NULL);
  on_targets(memories_of_parallel_loops, NULL);
  on_targets(in_place, NULL);
}
static void registers(void **state) {
  on_targets(register_slots, NULL);
  on_targets(masked_registers, NULL);
  on_targets(serial_after_all, NULL);
}
static void control(void **state) { on_targets(while_loops, NULL); }
static void failing(void **state) {
  for (int bits = 0; bits < 16; bits++) on_targets(failures, &(failure){bits & 1, bits & 2, bits & 4, bits & 8});
}
static void random_kernels(void **state) {
  for (uint64_t seed = 0; seed < 200; seed++)
    kernel_with(all_targets[seed % (uint64_t)target_count()], random_kernel, &seed);
}

int main(int argc, char **argv) {
  if (argc == 2) { /* one random kernel */
    uint64_t seed = strtoull(argv[1], NULL, 10);
    kernel_with(all_targets[seed % (uint64_t)target_count()], random_kernel, &seed);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(masks),    cmocka_unit_test(borders), cmocka_unit_test(logic),
      cmocka_unit_test(accesses), cmocka_unit_test(memory),  cmocka_unit_test(registers),
      cmocka_unit_test(control),  cmocka_unit_test(failing), cmocka_unit_test(random_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
