/* Small executables for tests of sessions, with kernels in C: main (an arena of symbolic size), nonzero (sizes that
 * depend on values), apply and power (a loop, a call). */
#ifndef TENON_TESTS_UNIT_SESSION_MODELS_H
#define TENON_TESTS_UNIT_SESSION_MODELS_H

#include "unit/check.h"
#include "unit/trampoline.h"

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

typedef struct add_job {
  const float *a, *b;
  float *c;
} add_job;

static inline int32_t add_piece(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  add_job *job = closure;
  for (int64_t i = begin; i < end; i++) job->c[i] = job->a[i] + job->b[i];
  return TN_KERNEL_OK;
}

/* c = a + b over scalars[0] elements, in parallel */
static inline int32_t add_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  add_job job = {buffers[0], buffers[1], buffers[2]};
  return env->parallel_for(env, add_piece, &job, scalars[0]);
}

/* b = 2 * a over scalars[0] elements */
static inline int32_t double_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  float *b = buffers[1];
  for (int64_t i = 0; i < scalars[0]; i++) b[i] = 2 * a[i];
  return TN_KERNEL_OK;
}

/* the i64 count of elements that are not zero */
static inline int32_t count_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  int64_t *count = buffers[1];
  *count = 0;
  for (int64_t i = 0; i < scalars[0]; i++) *count += a[i] != 0;
  return TN_KERNEL_OK;
}

/* the indices of elements that are not zero */
static inline int32_t find_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  int64_t *found = buffers[1];
  for (int64_t i = 0; i < scalars[0]; i++)
    if (a[i] != 0) *found++ = i;
  return TN_KERNEL_OK;
}

/* ---- executables ------------------------------------------------------------------------------------------------ */

#define DIM(v) tn__prog_operand_const(v)
#define SYM(s) tn__prog_operand_scalar(s)
static const tn__operand nowhere = {0, 0, 0};

/* main(x: f32[n, 4], y: f32[n, 4]) -> (z: f32[n, 4]): t = x + y in the arena; z = 2 t + constant */
static inline tn__bytes build_main(test_exe *t) {
  static const float ones[4] = {1, 1, 1, 1};
  int add = test_exe_kernel(t, "add_0", add_kernel, 3, 1);
  int twice = test_exe_kernel(t, "double_1", double_kernel, 2, 1);
  int constant = tn__exe_constant(t->exe, "ones", TN_F32, 1, (int64_t[]){4}, ones, sizeof(ones));
  tn__exe_func *f = tn__exe_function(t->exe, "main");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[2] = {SYM(n), DIM(4)}, row[1] = {DIM(4)};
  tn__exe_input(f, "x", TN_F32, 2, dims);
  tn__exe_input(f, "y", TN_F32, 2, dims);
  tn__exe_output(f, "z", TN_F32, 2, dims);
  int x = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 0, nowhere);
  int y = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_INPUT, 1, nowhere);
  int z = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  int sum = tn__exe_register(f, TN_F32, 2, dims, TN__STORAGE_ARENA, 0, DIM(0));
  int ones_reg = tn__exe_register(f, TN_F32, 1, row, TN__STORAGE_CONSTANT, constant, nowhere);
  int four = tn__exe_emit_const(f, 4), sixteen = tn__exe_emit_const(f, 16), align = tn__exe_emit_const(f, 63);
  int mask = tn__exe_emit_const(f, -64);
  int count = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, four);
  int bytes = tn__exe_emit_scalar_op(f, TN__SCALAR_MUL, n, sixteen);
  int offset = tn__exe_emit_scalar_op(f, TN__SCALAR_AND, tn__exe_emit_scalar_op(f, TN__SCALAR_ADD, bytes, align), mask);
  int total = tn__exe_emit_scalar_op(f, TN__SCALAR_ADD, offset, sixteen);
  int tail = tn__exe_register(f, TN_F32, 1, row, TN__STORAGE_ARENA, 0, SYM(offset));
  tn__exe_arena(f, SYM(total));
  tn__exe_emit_kernel(f, add, (int[]){x, y}, 2, &sum, 1, &count, 1);
  tn__exe_emit_kernel(f, twice, &ones_reg, 1, &tail, 1, &four, 1); /* at a symbolic offset */
  tn__exe_emit_kernel(f, twice, &sum, 1, &z, 1, &count, 1);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static inline tn_executable *loaded(tn__bytes bytes) {
  tn_executable *exe;
  check_ok(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe));
  return exe;
}

static _Alignas(64) float xs[64], ys[64], zs[64];

static inline void fill(void) {
  for (int i = 0; i < 64; i++) xs[i] = (float)i, ys[i] = 100.0f * (float)i, zs[i] = -1;
}

static inline tn_session *session_of(const tn_executable *exe) {
  tn_session *session;
  tn_session_options options = {.size = sizeof(options), .threads = 2};
  check_ok(tn_session_create(exe, &options, &session));
  return session;
}

/* nonzero(x: f32[n]) -> (found: i64[count], doubled: f32[count / 2, 2]), the second through a DYNAMIC register and a
 * view of it */
static inline tn__bytes build_nonzero(test_exe *t) {
  int count_k = test_exe_kernel(t, "count", count_kernel, 2, 1), find_k = test_exe_kernel(t, "find", find_kernel, 2, 1);
  int twice = test_exe_kernel(t, "double", double_kernel, 2, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "nonzero");
  int n = tn__exe_symbol(f, "n"), count = tn__exe_symbol(f, "count"), half = tn__exe_scalar(f);
  tn__operand in[1] = {SYM(n)}, out[1] = {SYM(count)}, pairs[2] = {SYM(half), DIM(2)};
  tn__exe_input(f, "x", TN_F32, 1, in);
  tn__exe_output(f, "found", TN_I64, 1, out);
  tn__exe_output(f, "doubled", TN_F32, 2, pairs);
  int x = tn__exe_register(f, TN_F32, 1, in, TN__STORAGE_INPUT, 0, nowhere);
  int found = tn__exe_register(f, TN_I64, 1, out, TN__STORAGE_OUTPUT, 0, nowhere);
  int doubled = tn__exe_register(f, TN_F32, 2, pairs, TN__STORAGE_OUTPUT, 1, nowhere);
  int counted = tn__exe_register(f, TN_I64, 0, NULL, TN__STORAGE_ARENA, 0, nowhere);
  int part = tn__exe_register(f, TN_F32, 1, out, TN__STORAGE_DYNAMIC, 0, nowhere);
  int moved = tn__exe_register(f, TN_F32, 1, out, TN__STORAGE_DYNAMIC, 0, nowhere);
  int view = tn__exe_register(f, TN_F32, 2, pairs, TN__STORAGE_VIEW, moved, nowhere);
  tn__exe_arena(f, DIM(64));
  tn__exe_emit_kernel(f, count_k, &x, 1, &counted, 1, &n, 1);
  tn__exe_emit(f, TN__OP_SCALAR_LOAD, (uint32_t[]){(uint32_t)count, (uint32_t)counted, 0}, 3);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)found}, 1);
  tn__exe_emit_kernel(f, find_k, &x, 1, &found, 1, &n, 1);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)part}, 1);
  tn__exe_emit_kernel(f, twice, &x, 1, &part, 1, &count, 1);
  tn__exe_emit(f, TN__OP_MOVE, (uint32_t[]){(uint32_t)moved, (uint32_t)part}, 2);
  int two = tn__exe_emit_const(f, 2);
  uint32_t divide[4] = {(uint32_t)half, (uint32_t)count, (uint32_t)two, TN__SCALAR_FLOORDIV};
  tn__exe_emit(f, TN__OP_SCALAR_OP, divide, 4);
  tn__exe_emit(f, TN__OP_ALLOC, (uint32_t[]){(uint32_t)doubled}, 1);
  tn__exe_emit(f, TN__OP_COPY, (uint32_t[]){(uint32_t)doubled, (uint32_t)view}, 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

#define W(...) \
  (uint32_t[]) { __VA_ARGS__ }

/* power(x: f32[n], k: i64[]) -> 2^k x: a loop over two DYNAMIC registers; not recursive. apply(x, k) -> power(x, k),
 * through a DYNAMIC and then an OUTPUT destination. `is_inner`: callers cannot call power. */
static inline tn__bytes build_loop_with(test_exe *t, bool is_inner) {
  int twice = test_exe_kernel(t, "double", double_kernel, 2, 1);
  tn__exe_func *main_f = tn__exe_function(t->exe, "apply"), *f = tn__exe_function(t->exe, "power");
  tn__exe_func *functions[2] = {main_f, f};
  if (is_inner) tn__exe_inner(f);
  int n[2], x[2], k[2], y[2];
  for (int i = 0; i < 2; i++) {
    n[i] = tn__exe_symbol(functions[i], "n");
    tn__operand dims[1] = {SYM(n[i])};
    tn__exe_input(functions[i], "x", TN_F32, 1, dims);
    tn__exe_input(functions[i], "k", TN_I64, 0, NULL);
    tn__exe_output(functions[i], "y", TN_F32, 1, dims);
    x[i] = tn__exe_register(functions[i], TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
    k[i] = tn__exe_register(functions[i], TN_I64, 0, NULL, TN__STORAGE_INPUT, 1, nowhere);
    y[i] = tn__exe_register(functions[i], TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  }
  tn__operand dims[1] = {SYM(n[0])};
  int made = tn__exe_register(main_f, TN_F32, 1, dims, TN__STORAGE_DYNAMIC, 0, nowhere);
  tn__exe_emit_call(main_f, 1, (int[]){x[0], k[0]}, 2, &made, 1);
  tn__exe_emit_call(main_f, 1, (int[]){x[0], k[0]}, 2, &y[0], 1);
  tn__exe_emit(main_f, TN__OP_COPY, W((uint32_t)y[0], (uint32_t)made), 2);
  tn__exe_emit(main_f, TN__OP_RETURN, NULL, 0);

  int a = tn__exe_register(f, TN_F32, 1, (tn__operand[]){SYM(n[1])}, TN__STORAGE_DYNAMIC, 0, nowhere);
  int b = tn__exe_register(f, TN_F32, 1, (tn__operand[]){SYM(n[1])}, TN__STORAGE_DYNAMIC, 0, nowhere);
  int i = tn__exe_scalar(f), more = tn__exe_scalar(f);
  int one = tn__exe_emit_const(f, 1);
  tn__exe_emit(f, TN__OP_SCALAR_LOAD, W((uint32_t)i, (uint32_t)k[1], 0), 3);
  tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)a), 1);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)a, (uint32_t)x[1]), 2);
  uint32_t head = tn__exe_here(f);
  tn__exe_emit(f, TN__OP_SCALAR_SELECT, W((uint32_t)more, (uint32_t)i, (uint32_t)one, (uint32_t)i), 4);
  uint32_t leave = tn__exe_emit(f, TN__OP_JUMP_IF_ZERO, W((uint32_t)more, 0), 2);
  tn__exe_emit(f, TN__OP_ALLOC, W((uint32_t)b), 1);
  tn__exe_emit_kernel(f, twice, &a, 1, &b, 1, &n[1], 1);
  tn__exe_emit(f, TN__OP_MOVE, W((uint32_t)a, (uint32_t)b), 2);
  tn__exe_emit(f, TN__OP_SCALAR_OP, W((uint32_t)i, (uint32_t)i, (uint32_t)one, TN__SCALAR_SUB), 4);
  tn__exe_emit(f, TN__OP_JUMP, &head, 1);
  tn__exe_patch(f, leave, 1, tn__exe_here(f));
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)y[1], (uint32_t)a), 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static inline tn__bytes build_loop(test_exe *t) { return build_loop_with(t, false); }

typedef struct fixture {
  tn_executable *exe;
  tn_session *session;
  int64_t shape[2];
  DLTensor x, y, z;
} fixture;

static inline void open_main(fixture *m) {
  test_exe t;
  test_exe_init(&t, NULL);
  m->exe = loaded(build_main(&t));
  test_exe_release(&t);
  m->session = session_of(m->exe);
  fill();
  m->shape[0] = 3, m->shape[1] = 4;
  m->x = test_tensor(TN_F32, 2, m->shape, xs);
  m->y = test_tensor(TN_F32, 2, m->shape, ys);
  m->z = test_tensor(TN_F32, 2, m->shape, zs);
}

static inline void close_main(fixture *m) {
  tn_session_release(m->session);
  tn_executable_release(m->exe);
}

static inline void check_z(const float *z, int count) {
  for (int i = 0; i < count; i++) assert_true(z[i] == 202.0f * (float)i);
}

#endif
