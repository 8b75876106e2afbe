/* A function that calls one of several others, by the sizes of its inputs: a chain of comparisons and calls, whose
 * results go into the caller's buffers at once. */
#include <string.h>

#include "compile/builder.h"

typedef struct arguments {
  int *inputs, *outputs;
} arguments;

static int function_named(const tn__builder *b, const char *name) {
  for (int i = 0; i < b->program->function_count; i++)
    if (strcmp(b->program->functions[i].name, name) == 0) return i;
  tn__throwf(b->arena->escape, TN_INTERNAL, "there is no function \"%s\"", name);
}

static void emit_choice(tn__builder *b, const char *name, const arguments *a) {
  const tn__program_function *f = b->function;
  tn__exe_emit_call(b->func, function_named(b, name), a->inputs, f->input_count, a->outputs, f->output_count);
  tn__exe_emit(b->func, TN__OP_RETURN, NULL, 0);
}

/* A scalar that is not zero when every dimension has the case's size. */
static int emit_condition(tn__builder *b, const tn__dispatch_case *c) {
  int all = -1;
  for (int i = 0; i < c->dim_count; i++) {
    int size = tn__exe_emit_const(b->func, c->dims[i].size);
    int same = tn__exe_emit_scalar_op(b->func, TN__SCALAR_EQ, tn__exe_symbol(b->func, c->dims[i].name), size);
    all = all < 0 ? same : tn__exe_emit_scalar_op(b->func, TN__SCALAR_AND, all, same);
  }
  return all;
}

static void require_tensor(tn__builder *b, const tn__value *v, const char *what, const char *name) {
  if (v->holds != TN__HOLDS_TENSOR)
    tn__throwf(b->arena->escape, TN_UNSUPPORTED,
               "%s \"%s\" is no tensor: the model cannot be compiled for special sizes", what, name);
}

static void declare_outputs(tn__builder *b, arguments *a) {
  const tn__program_function *f = b->function;
  for (int i = 0; i < f->output_count; i++) {
    const tn__value *v = f->outputs[i];
    require_tensor(b, v, "output", f->output_names[i]);
    tn__operand dims[TN_MAX_RANK];
    for (int d = 0; d < v->rank; d++) {
      if (!tn__builder_knows(b, v->dims[d]))
        tn__throwf(
            b->arena->escape, TN_UNSUPPORTED,
            "output \"%s\" has a size that only running the model tells: it cannot be compiled for special sizes",
            f->output_names[i]);
      dims[d] = tn__scalars_operand(&b->scalars, v->dims[d]);
    }
    tn__exe_output(b->func, f->output_names[i], v->dtype, v->rank, dims);
    tn__declare_output_extent(b, i);
    if (f->aliases && f->aliases[i] >= 0) tn__exe_alias(b->func, i, f->aliases[i]);
    a->outputs[i] = tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_OUTPUT, i, tn__operand_const(0));
  }
}

void tn__emit_dispatch(tn__builder *b) {
  const tn__program_function *f = b->function;
  const tn__dispatch *d = f->dispatch;
  arguments a = {TN__NEW_ARRAY(b->arena, f->input_count, int), TN__NEW_ARRAY(b->arena, f->output_count, int)};
  for (int i = 0; i < f->input_count; i++) {
    require_tensor(b, f->inputs[i], "input", f->input_names[i]);
    a.inputs[i] = tn__place_of(b, f->inputs[i])->reg;
  }
  declare_outputs(b, &a);
  int *conditions = TN__NEW_ARRAY(b->arena, d->case_count, int);
  for (int i = 0; i < d->case_count; i++) conditions[i] = emit_condition(b, &d->cases[i]);
  for (int i = 0; i < d->case_count; i++) {
    uint32_t words[] = {(uint32_t)conditions[i], 0};
    uint32_t jump = tn__exe_emit(b->func, TN__OP_JUMP_IF_ZERO, words, 2);
    emit_choice(b, d->cases[i].function, &a);
    tn__exe_patch(b->func, jump, 1, tn__exe_here(b->func));
  }
  emit_choice(b, d->otherwise, &a);
}
