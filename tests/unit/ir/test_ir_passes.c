/* The pipeline on a tiled product: init hoisted, tails partitioned, tiles unrolled. */
#include "ir/passes.h"
#include "unit/ir_check.h"

typedef struct product {
  const tn__buffer *a, *b, *c;
  const tn__func *func;
} product;

static const tn__var *loop(tn__ir *ir, const char *name, const tn__expr *extent) {
  return tn__var_create(ir, name, TN_I64, tn__ir_index(ir, 0), extent);
}

static tn__region region(tn__ir *ir, const tn__buffer *buffer, const tn__expr *i, const tn__expr *j) {
  const tn__expr *min[2] = {i, j}, *extent[2] = {tn__ir_index(ir, 1), tn__ir_index(ir, 1)};
  return (tn__region){.buffer = buffer,
                      .min = tn__arena_copy(tn__ir_arena(ir), min, sizeof(min)),
                      .extent = tn__arena_copy(tn__ir_arena(ir), extent, sizeof(extent))};
}

/* C[m, n] = sum(k, A[m, k] * B[k, n]) with m split by 4 and unrolled inside, n split by 8 and vectorised inside. */
static product tiled_product(tn__ir *ir, const tn__expr *m, int64_t n, int64_t k, tn__loop_kind outer,
                             const tn__var *scalar) {
  product p;
  const tn__expr *size_n = tn__ir_index(ir, n), *size_k = tn__ir_index(ir, k);
  const tn__expr *shape_a[2] = {m, size_k}, *shape_b[2] = {size_k, size_n}, *shape_c[2] = {m, size_n};
  p.a = tn__buffer_create(ir, "A", TN_F32, TN__SCOPE_PARAM, 2, shape_a);
  p.b = tn__buffer_create(ir, "B", TN_F32, TN__SCOPE_PARAM, 2, shape_b);
  p.c = tn__buffer_create(ir, "C", TN_F32, TN__SCOPE_PARAM, 2, shape_c);
  const tn__var *mo = loop(ir, "mo", tn__ir_ceildiv(ir, m, tn__ir_index(ir, 4)));
  const tn__var *no = loop(ir, "no", tn__ir_ceildiv(ir, size_n, tn__ir_index(ir, 8))), *vk = loop(ir, "vk", size_k);
  const tn__var *ko = loop(ir, "k", size_k), *mi = loop(ir, "mi", tn__ir_index(ir, 4)),
                *ni = loop(ir, "ni", tn__ir_index(ir, 8));
  const tn__var *vm = loop(ir, "vm", m), *vn = loop(ir, "vn", size_n);
  const tn__expr *bind_m = tn__ir_add(ir, tn__ir_mul_i(ir, mo->self, 4), mi->self);
  const tn__expr *bind_n = tn__ir_add(ir, tn__ir_mul_i(ir, no->self, 8), ni->self);
  tn__block_axis axes[3] = {
      {vm, TN__AXIS_SPATIAL, bind_m}, {vn, TN__AXIS_SPATIAL, bind_n}, {vk, TN__AXIS_REDUCE, ko->self}};
  const tn__expr *at_a[2] = {vm->self, vk->self}, *at_b[2] = {vk->self, vn->self}, *at_c[2] = {vm->self, vn->self};
  const tn__expr *value = tn__ir_mul(ir, tn__ir_load(ir, p.a, at_a), tn__ir_load(ir, p.b, at_b));
  tn__region reads[2] = {region(ir, p.a, at_a[0], at_a[1]), region(ir, p.b, at_b[0], at_b[1])};
  tn__region write = region(ir, p.c, at_c[0], at_c[1]);
  tn__block block = {.name = "C",
                     .axis_count = 3,
                     .read_count = 2,
                     .write_count = 1,
                     .axes = tn__arena_copy(tn__ir_arena(ir), axes, sizeof(axes)),
                     .reads = tn__arena_copy(tn__ir_arena(ir), reads, sizeof(reads)),
                     .writes = tn__arena_copy(tn__ir_arena(ir), &write, sizeof(write)),
                     .predicate = tn__ir_and(ir, tn__ir_lt(ir, bind_m, m), tn__ir_lt(ir, bind_n, size_n)),
                     .init = tn__ir_store(ir, p.c, at_c, tn__ir_float(ir, TN_F32, 0)),
                     .body = tn__ir_store(ir, p.c, at_c, tn__ir_add(ir, tn__ir_load(ir, p.c, at_c), value))};
  const tn__stmt *s = tn__block_stmt(ir, &block);
  s = tn__ir_for(ir, mi, TN__LOOP_UNROLLED, tn__ir_for(ir, ni, TN__LOOP_VECTORIZED, s));
  s = tn__ir_for(ir, mo, outer, tn__ir_for(ir, no, TN__LOOP_SERIAL, tn__ir_for(ir, ko, TN__LOOP_SERIAL, s)));
  const tn__buffer *inputs[2] = {p.a, p.b};
  p.func = tn__func_create(ir, "product", inputs, 2, &p.c, 1, &scalar, scalar != NULL, s);
  return p;
}

static void check_func_text(const tn__func *func, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__func_print(func, &buf);
  assert_string_equal(tn__strbuf_text(&buf), text);
  tn__strbuf_release(&buf);
}

static void test_init_moves_in_front_of_the_reduction(void **state) {
  tn__ir *ir = ir_of(state);
  const tn__var *m = tn__var_create(ir, "M", TN_I64, tn__ir_index(ir, 0), NULL);
  product p = tiled_product(ir, m->self, 8, 16, TN__LOOP_SERIAL, m);
  check_func_text(tn__ir_partition_loops(ir, tn__ir_lower_blocks(ir, p.func)),
                  "func product[M](A: f32[M, 16], B: f32[16, 8]) -> (C: f32[M, 8]) {\n"
                  "  for mo in [0, +M/4) {\n"
                  "    unrolled mi in [0, +4) {\n"
                  "      vectorized ni in [0, +8) {\n"
                  "        C[mo*4 + mi, ni] = 0.0f32\n"
                  "      }\n"
                  "    }\n"
                  "    for k in [0, +16) {\n"
                  "      unrolled mi in [0, +4) {\n"
                  "        vectorized ni in [0, +8) {\n"
                  "          C[mo*4 + mi, ni] = C[mo*4 + mi, ni] + A[mo*4 + mi, k]*B[k, ni]\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "  for mo in [M/4, +-(M/4) + (M + 3)/4) {\n"
                  "    unrolled mi in [0, +4) {\n"
                  "      vectorized ni in [0, +8) {\n"
                  "        if likely(mo*4 + mi < M) {\n"
                  "          C[mo*4 + mi, ni] = 0.0f32\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "    for k in [0, +16) {\n"
                  "      unrolled mi in [0, +4) {\n"
                  "        vectorized ni in [0, +8) {\n"
                  "          if likely(mo*4 + mi < M) {\n"
                  "            C[mo*4 + mi, ni] = C[mo*4 + mi, ni] + A[mo*4 + mi, k]*B[k, ni]\n"
                  "          }\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
}

static void run_product(tn__ir *ir, const tn__func *func, int64_t m, int64_t n, int64_t k, float *c, bool wide) {
  float *a = calloc((size_t)(m * k), sizeof(float)), *b = calloc((size_t)(k * n), sizeof(float));
  for (int64_t i = 0; i < m * k; i++) a[i] = (float)((i * 7) % 13) - 6.0f;
  for (int64_t i = 0; i < k * n; i++) b[i] = (float)((i * 5) % 11) / 8.0f;
  void *buffers[3] = {a, b, c};
  tn__interpret_options options = {.wide = wide};
  check_ok(tn__ir_interpret(ir, func, buffers, &m, &options));
  free(a);
  free(b);
}

/* Every stage computes what the declaration with its blocks does, for sizes that divide and sizes that do not. */
static void test_passes_keep_the_result(void **state) {
  for (int64_t m = 1; m <= 13; m++) {
    for (int variant = 0; variant < 4; variant++) {
      void *fresh;
      assert_int_equal(ir_set_up(&fresh), 0);
      tn__ir *ir = ir_of(&fresh);
      const tn__var *scalar = variant & 1 ? tn__var_create(ir, "M", TN_I64, tn__ir_index(ir, 0), NULL) : NULL;
      int64_t n = 5 + 3 * (m % 4), k = 3;
      float expected[13 * 14], actual[13 * 14];
      product p = tiled_product(ir, scalar != NULL ? scalar->self : tn__ir_index(ir, m), n, k,
                                variant & 2 ? TN__LOOP_PARALLEL : TN__LOOP_SERIAL, scalar);
      run_product(ir, p.func, m, n, k, expected, true);
      const tn__func *func = p.func;
      for (int pass = 0; tn__ir_pass_name(pass) != NULL; pass++) {
        func = tn__ir_run_pass(ir, pass, func, NULL);
        memset(actual, 0xff, sizeof(actual));
        run_product(ir, func, m, n, k, actual, false);
        assert_memory_equal(actual, expected, (size_t)(m * n) * sizeof(float));
      }
      ir_tear_down(&fresh);
    }
  }
}

/* ---- random nests ------------------------------------------------------------------------------------------------ */

typedef struct nest {
  tn__ir *ir;
  uint64_t state;
  const tn__var *loops[8];
  tn__loop_kind kinds[8];
  int count;
  const tn__expr *guard;
} nest;

static int64_t pick(nest *n, int64_t low, int64_t high) {
  n->state ^= n->state << 13;
  n->state ^= n->state >> 7;
  n->state ^= n->state << 17;
  return low + (int64_t)(n->state % (uint64_t)(high - low + 1));
}

static const tn__expr *add_loop(nest *n, const char *name, const tn__expr *extent, tn__loop_kind kind) {
  n->kinds[n->count] = kind;
  n->loops[n->count] = loop(n->ir, name, extent);
  return n->loops[n->count++]->self;
}

/* A value that runs over [0, size) in one loop, or in two with a guard when the factor need not divide. */
static const tn__expr *add_dimension(nest *n, const char *name, const tn__expr *size, const tn__expr *outer) {
  if (outer == NULL && pick(n, 0, 3) == 0) return add_loop(n, name, size, TN__LOOP_SERIAL);
  int64_t factor = pick(n, 2, 6);
  const tn__expr *blocks = tn__ir_ceildiv(n->ir, size, tn__ir_index(n->ir, factor));
  if (outer == NULL) outer = add_loop(n, name, blocks, n->count == 0 ? TN__LOOP_PARALLEL : TN__LOOP_SERIAL);
  tn__loop_kind kind = pick(n, 0, 1) ? TN__LOOP_UNROLLED : TN__LOOP_SERIAL;
  const tn__expr *inner = add_loop(n, name, tn__ir_index(n->ir, factor), kind);
  const tn__expr *value = tn__ir_add(n->ir, tn__ir_mul_i(n->ir, outer, factor), inner);
  n->guard = tn__ir_and(n->ir, n->guard, tn__ir_call1(n->ir, TN__CALL_LIKELY, tn__ir_lt(n->ir, value, size)));
  return value;
}

static const tn__stmt *guarded(tn__ir *ir, const tn__expr *guard, const tn__stmt *body) {
  if (guard->kind != TN__EXPR_AND) return tn__ir_if(ir, guard, body, NULL);
  return guarded(ir, guard->args[0], guarded(ir, guard->args[1], body));
}

/* out[i, j] = out[i, j] * 3 + i * 7 + j * 5 + k, which tells every order and every missing or repeated instance
 * apart. */
static tn__func *random_nest(nest *n, const tn__expr *const *sizes, const tn__var *const *scalars, int scalar_count,
                             const tn__buffer *out) {
  tn__ir *ir = n->ir;
  const tn__expr *values[3], *outer[2] = {NULL, NULL};
  n->guard = tn__ir_bool(ir, true);
  if (scalar_count == 0 &&
      pick(n, 0, 2) == 0) { /* one loop over the blocks of both dimensions, more of them than needed */
    const tn__expr *fused = add_loop(n, "f", tn__ir_index(ir, 12 * 12), TN__LOOP_PARALLEL);
    outer[0] = tn__ir_div_i(ir, fused, 12);
    outer[1] = tn__ir_mod_i(ir, fused, 12);
  }
  values[0] = add_dimension(n, "i", sizes[0], outer[0]);
  values[1] = add_dimension(n, "j", sizes[1], outer[1]);
  values[2] = add_dimension(n, "k", sizes[2], NULL);
  const tn__expr *sum =
      tn__ir_add(ir, tn__ir_mul_i(ir, values[0], 7), tn__ir_add(ir, tn__ir_mul_i(ir, values[1], 5), values[2]));
  const tn__expr *old = tn__ir_load(ir, out, values);
  const tn__stmt *s = tn__ir_store(ir, out, values, tn__ir_add(ir, tn__ir_mul_i(ir, old, 3), sum));
  s = guarded(ir, n->guard, s);
  for (int i = n->count - 1; i >= 0; i--) s = tn__ir_for(ir, n->loops[i], n->kinds[i], s);
  return tn__func_create(ir, "nest", NULL, 0, &out, 1, scalars, scalar_count, s);
}

static void test_random_nests_keep_their_order(void **state) {
  for (uint64_t seed = 1; seed <= 150; seed++) {
    void *fresh;
    assert_int_equal(ir_set_up(&fresh), 0);
    nest n = {.ir = ir_of(&fresh), .state = seed * UINT64_C(0x9e3779b97f4a7c15)};
    int64_t numbers[3], expected[24 * 24] = {0};
    const tn__expr *sizes[3];
    const tn__var *scalars[3];
    int scalar_count = (int)pick(&n, 0, 3);
    for (int i = 0; i < 3; i++) {
      numbers[i] = pick(&n, 1, i < 2 ? 24 : 5);
      sizes[i] = tn__ir_index(n.ir, numbers[i]);
      if (i >= scalar_count) continue;
      scalars[i] = tn__var_create(n.ir, "N", TN_I64, tn__ir_index(n.ir, 0), NULL);
      sizes[i] = scalars[i]->self;
    }
    const tn__buffer *out = tn__buffer_create(n.ir, "out", TN_I64, TN__SCOPE_PARAM, 2, sizes);
    const tn__func *func = random_nest(&n, sizes, scalars, scalar_count, out);
    for (int64_t i = 0; i < numbers[0]; i++)
      for (int64_t j = 0; j < numbers[1]; j++)
        for (int64_t k = 0; k < numbers[2]; k++)
          expected[i * numbers[1] + j] = expected[i * numbers[1] + j] * 3 + i * 7 + j * 5 + k;
    for (int pass = -1; pass < 0 || tn__ir_pass_name(pass) != NULL; pass++) {
      int64_t actual[24 * 24] = {0};
      void *buffers[1] = {actual};
      if (pass >= 0) func = tn__ir_run_pass(n.ir, pass, func, NULL);
      check_ok(tn__ir_interpret(n.ir, func, buffers, numbers, NULL));
      if (memcmp(actual, expected, sizeof(actual)) != 0)
        fail_msg("seed %llu: %s changed the result", (unsigned long long)seed,
                 pass < 0 ? "building" : tn__ir_pass_name(pass));
    }
    ir_tear_down(&fresh);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_init_moves_in_front_of_the_reduction, ir_set_up, ir_tear_down),
      cmocka_unit_test(test_passes_keep_the_result),
      cmocka_unit_test(test_random_nests_keep_their_order),
  };
  return cmocka_run_group_tests_name("ir_passes", tests, NULL, NULL);
}
