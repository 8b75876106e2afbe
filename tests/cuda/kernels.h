/* What tests of kernels on devices share: inputs, the interpreter's results, names, and how exact results must be. */
#ifndef TENON_TESTS_CUDA_KERNELS_H
#define TENON_TESTS_CUDA_KERNELS_H

#include <stdio.h>

#include "cuda/inputs.h"
#include "te/text.h"
#include "unit/draw_declaration.h"

static inline void make_bundle_inputs(const tn__te *te, uint64_t seed, void **buffers) {
  for (int i = 0; i < tn__te_input_count(te); i++) {
    const tn__buffer *input = tn__te_input_at(te, i);
    buffers[i] = fresh_bytes(input);
    fill_input(type_named(tn_dtype_name(input->dtype)), buffers[i], element_count(input), &seed);
  }
}

static inline void make_outputs(const tn__func *func, void **buffers) {
  for (int i = 0; i < func->output_count; i++)
    buffers[func->input_count + i] = fresh_bytes(func->params[func->input_count + i]);
}

/* The declaration's results by the interpreter. */
static inline tn_status *interpret(const tn__te *te, const tn__func *func, void **buffers) {
  const tn__interpret_options options = {.max_operations = 100000000};
  const int64_t scalars[] = {open_dim, open_dim, open_dim, open_dim, open_dim, open_dim};
  return tn__ir_interpret(tn__te_ir(te), func, buffers, scalars, &options);
}

static inline double tolerance_of(const tn__func *func) {
  double most = 0;
  for (int i = func->input_count; i < func->input_count + func->output_count; i++) {
    tn_dtype t = func->params[i]->dtype;
    /* of sums, too, with a term of error for each of some thousand */
    double own = t == TN_F16 ? 2e-3 : t == TN_BF16 ? 1.6e-2 : t == TN_F32 ? 1e-5 : t == TN_F64 ? 1e-14 : 0;
    if (own > most) most = own;
  }
  return most;
}

/* The function under a name that is its own in the bundle. */
static inline tn__func *renamed(tn__ir *ir, const tn__func *func, const char *name) {
  tn__func *out = tn__func_with_body(ir, func, func->body);
  out->name = name;
  return out;
}

static inline double operations_of(const tn__te *te) {
  double most = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    double points = 2;
    for (int a = 0; a < stage->axes.count; a++) points *= (double)size_of_dim(stage->axes.var[a]->extent);
    for (int a = 0; a < stage->reduce_axes.count; a++) points *= (double)size_of_dim(stage->reduce_axes.var[a]->extent);
    if (points > most) most = points;
  }
  return most;
}

static inline char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 20);
  if (file == NULL || text == NULL) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(2);
  }
  size_t size = fread(text, 1, (1 << 20) - 1, file);
  text[size] = '\0';
  fclose(file);
  return text;
}

#endif
