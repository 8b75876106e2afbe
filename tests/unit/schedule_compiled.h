/* Schedules of declarations, compiled for this machine and called. */
#ifndef TENON_TESTS_UNIT_SCHEDULE_COMPILED_H
#define TENON_TESTS_UNIT_SCHEDULE_COMPILED_H

#include "unit/kernel.h"
#include "unit/schedule_run.h"

/* The outputs, one after the other. Sign and payload of a NaN are not specified (docs/numerics.md), nor is which zero
 * min(-0, +0) gives: with `any_zero` one stands for the other. */
static inline bool same_outputs(const tn__func *func, const uint8_t *a, const uint8_t *b, bool any_zero) {
  for (int i = func->input_count; i < func->input_count + func->output_count; i++) {
    const tn__buffer *buffer = func->params[i];
    size_t size = tn_dtype_size(buffer->dtype);
    for (int64_t e = 0; e < element_count(buffer); e++, a += size, b += size) {
      if (memcmp(a, b, size) == 0) continue;
      if (!tn__dtype_is_float(buffer->dtype)) return false;
      double x = tn__load_f64(buffer->dtype, a, 0), y = tn__load_f64(buffer->dtype, b, 0);
      bool same = (x != x && y != y) || (any_zero && x == 0 && y == 0);
      if (!same) return false;
    }
  }
  return true;
}

/* The compiled schedule, of a declaration of any context, must compute what the plain lowering does: NULL then. */
static inline tn_status *compare_compiled(kernel_test *t, const tn__schedule *s, uint64_t seed, bool any_zero) {
  const int64_t scalars[] = {open_dim, open_dim, open_dim, open_dim};
  const tn__te *te = tn__schedule_te(s);
  uint8_t *plain, *compiled;
  size_t size, other_size;
  void *buffers[MOST_BUFFERS] = {NULL};
  t->ir = tn__te_ir(te);
  const tn__func *func = tn__ir_lower_for_codegen(t->ir, tn__schedule_func(s), NULL);
  tn_kernel kernel = kernel_compile(t, func);
  tn__kernel_info info = tn__cg_kernel_workspace(t->ir, func);
  size_t workspace_bytes = (size_t)(info.workspace_expr ? size_of_dim(info.workspace_expr) : info.workspace_bytes);
  check_ok(outputs_of(te, tn__te_lower(te), NULL, seed, &plain, &size));
  make_inputs(te, seed, buffers);
  check_ok(pack_inputs(s, buffers));
  int count = func->input_count + func->output_count;
  for (int i = func->input_count; i < count; i++) buffers[i] = fresh_bytes(func->params[i]);
  void *workspace = buffers[count] = kernel_alloc(workspace_bytes);
  int32_t result = kernel_run(kernel, buffers, scalars);
  compiled = take_outputs(func, buffers, &other_size);
  bool same = result == TN_KERNEL_OK && size == other_size && same_outputs(func, plain, compiled, any_zero);
  free(plain);
  free(compiled);
  kernel_free(workspace, workspace_bytes);
  return same ? NULL : tn_status_create(TN_INTERNAL, "the compiled kernel ends with %d and other results", (int)result);
}

#endif
