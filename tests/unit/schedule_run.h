/* Running declarations and schedules of them in the interpreter, for tests and fuzz targets: nothing in here needs
 * cmocka.
 */
#ifndef TENON_TESTS_UNIT_SCHEDULE_RUN_H
#define TENON_TESTS_UNIT_SCHEDULE_RUN_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "ir/passes.h"
#include "schedule/rules/choose.h"
#include "te/te.h"

enum { OPEN_DIM = 5, MOST_BUFFERS = 16 };

/* The value that symbolic dimensions get. */
static int64_t open_dim = OPEN_DIM;

/* The static choice, and what it is like. */
static inline tn__schedule *choose_schedule(const tn__te *te, const tn__target *target,
                                            const tn__schedule_options *options, tn__plan *plan) {
  tn__plan_unit unit = tn__rule_plan_unit_of(te, target, options);
  *plan = *tn__plan_kernel(&unit, &tn__chooser_static);
  return plan->schedule;
}

static inline tn__schedule *default_schedule(const tn__te *te, const tn__target *target,
                                             const tn__schedule_options *options) {
  tn__plan plan;
  return choose_schedule(te, target, options, &plan);
}

/* A dimension: sums, products and quotients of numbers and symbolic dimensions. */
static inline int64_t size_of_dim(const tn__expr *e) {
  if (e->kind == TN__EXPR_INT) return e->value.i;
  if (e->kind == TN__EXPR_VAR) return open_dim;
  if (e->arg_count != 2) abort();
  const int64_t a = size_of_dim(e->args[0]), b = size_of_dim(e->args[1]);
  switch (e->kind) {
    case TN__EXPR_ADD: return a + b;
    case TN__EXPR_SUB: return a - b;
    case TN__EXPR_MUL: return a * b;
    case TN__EXPR_DIV: return a / b;
    case TN__EXPR_MAX: return a > b ? a : b;
    case TN__EXPR_MIN: return a < b ? a : b;
    default: abort();
  }
}

static inline int64_t element_count(const tn__buffer *buffer) {
  int64_t count = 1;
  for (int d = 0; d < buffer->rank; d++) count *= size_of_dim(buffer->shape[d]);
  return count;
}

static inline size_t byte_count(const tn__buffer *buffer) {
  return (size_t)element_count(buffer) * tn_dtype_size(buffer->dtype);
}

static inline void *fresh_bytes(const tn__buffer *buffer) {
  void *memory = aligned_alloc(64, (byte_count(buffer) + 127) / 64 * 64); /* as kernels want it */
  if (memory == NULL) abort();
  memset(memory, 0x5a, byte_count(buffer));
  return memory;
}

/* Values whose sums are exact in any order: small whole numbers, smaller ones where there are few bits. */
static inline int span_of(tn_dtype dtype) { return dtype == TN_BF16 ? 1 : dtype == TN_F16 ? 2 : 4; }

/* The inputs of the declaration, made from `seed`; the caller frees each. */
static inline void make_inputs(const tn__te *te, uint64_t seed, void **buffers) {
  for (int i = 0; i < tn__te_input_count(te); i++) {
    const tn__buffer *buffer = tn__te_input_at(te, i);
    int span = span_of(buffer->dtype);
    buffers[i] = fresh_bytes(buffer);
    for (int64_t e = 0; e < element_count(buffer); e++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
      tn__store_f64(buffer->dtype, buffers[i], e, (double)((int)(seed >> 40) % (2 * span + 1) - span));
    }
  }
}

/* Replaces the inputs that the schedule wants packed. */
static inline tn_status *pack_inputs(const tn__schedule *s, void **buffers) {
  tn__ir *ir = tn__te_ir(tn__schedule_te(s));
  for (int i = 0; i < tn__te_input_count(tn__schedule_te(s)); i++) {
    const tn__te *packing = tn__schedule_packing(s, i);
    if (packing == NULL) continue;
    void *in_out[] = {buffers[i], fresh_bytes(tn__te_output_at(packing, 0))};
    buffers[i] = in_out[1];
    tn_status *status = tn__te_verify(packing);
    if (status == NULL) status = tn__ir_interpret(ir, tn__te_lower(packing), in_out, NULL, NULL);
    free(in_out[0]);
    TN_RETURN_IF_ERROR(status);
  }
  return NULL;
}

/* The outputs one after the other; frees the buffers. */
static inline uint8_t *take_outputs(const tn__func *func, void **buffers, size_t *size) {
  *size = 0;
  for (int i = 0; i < func->output_count; i++) *size += byte_count(func->params[func->input_count + i]);
  uint8_t *result = malloc(*size + 1);
  if (result == NULL) abort();
  size_t at = 0;
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    if (buffers[i] == NULL) abort();
    if (i >= func->input_count) {
      memcpy(result + at, buffers[i], byte_count(func->params[i]));
      at += byte_count(func->params[i]);
    }
    free(buffers[i]);
  }
  return result;
}

/* Runs a function of the declaration on inputs made from `seed`, packed as the schedule (NULL: not at all) wants them.
 * The caller frees *out. */
static inline tn_status *outputs_of(const tn__te *te, const tn__func *func, const tn__schedule *s, uint64_t seed,
                                    uint8_t **out, size_t *size) {
  const int64_t scalars[] = {open_dim, open_dim, open_dim, open_dim};
  const tn__interpret_options options = {.max_operations = 50000000};
  void *buffers[MOST_BUFFERS] = {NULL};
  make_inputs(te, seed, buffers);
  tn_status *status = s == NULL ? NULL : pack_inputs(s, buffers);
  for (int i = 0; i < func->output_count; i++) {
    int at = func->input_count + i;
    buffers[at] = fresh_bytes(func->params[at]);
  }
  if (status == NULL) status = tn__ir_interpret(tn__te_ir(te), func, buffers, scalars, &options);
  *out = take_outputs(func, buffers, size);
  return status;
}

/* The schedule, as it is and as it goes to code generation, must compute what the plain lowering does: NULL then. */
static inline tn_status *compare_results(const tn__schedule *s, uint64_t seed) {
  const tn__te *te = tn__schedule_te(s);
  tn__ir *ir = tn__te_ir(te);
  const tn__func *func = tn__schedule_func(s);
  uint8_t *plain, *scheduled;
  size_t size, other_size;
  TN_RETURN_IF_ERROR(tn__func_verify(ir, func));
  tn_status *status = outputs_of(te, tn__te_lower(te), NULL, seed, &plain, &size);
  for (int lowered = 0; lowered < 2 && status == NULL; lowered++) {
    if (lowered) func = tn__ir_lower_for_codegen(ir, func, NULL);
    status = outputs_of(te, func, s, seed, &scheduled, &other_size);
    if (status == NULL && (size != other_size || memcmp(plain, scheduled, size) != 0))
      status = tn_status_create(TN_INTERNAL, "the %s function differs from the declaration",
                                lowered ? "lowered" : "scheduled");
    free(scheduled);
  }
  free(plain);
  return status;
}

/* Into the arena of the declaration: the trace, or the function. */
static inline const char *schedule_text(const tn__schedule *s, bool function) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  if (function)
    tn__func_print(tn__schedule_func(s), &text);
  else
    tn__sched_trace_print(s, &text);
  const char *copy = tn__arena_strdup(tn__ir_arena(tn__te_ir(tn__schedule_te(s))), tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}

#endif
