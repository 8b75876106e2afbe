/* A function that calls one of several others, by the sizes of its inputs: a chain of comparisons and calls, whose
 * results go into the caller's buffers at once. */
#include <string.h>

#include "program/builder.h"

typedef struct late_size { /* of an output: only running a case tells it */
  int scalar, reg, axis;
} late_size;

typedef struct arguments {
  int *inputs, *outputs;
  TN__VEC(late_size) late;
} arguments;

static int function_named(const tn__builder *b, const char *name) {
  for (int i = 0; i < b->program->function_count; i++)
    if (strcmp(b->program->functions[i].name, name) == 0) return i;
  tn__throwf(b->arena->escape, TN_INTERNAL, "there is no function \"%s\"", name);
}

static void emit_choice(tn__builder *b, const char *name, const arguments *a) {
  const tn__program_function *f = b->function;
  tn__exe_emit_call(b->func, function_named(b, name), a->inputs, f->input_count, a->outputs, f->output_count);
  for (int i = 0; i < a->late.count; i++) {
    const late_size *size = &a->late.data[i];
    uint32_t words[] = {(uint32_t)size->scalar, (uint32_t)size->reg, (uint32_t)size->axis};
    tn__exe_emit(b->func, TN__OP_SCALAR_SHAPE, words, 3);
  }
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

static void declare_list(tn__builder *b, arguments *a, int output) {
  static const tn__operand no_dims[TN_MAX_RANK];
  const tn__value *v = b->function->outputs[output];
  tn__exe_output(b->func, b->function->output_names[output], v->dtype, v->item_rank, no_dims);
  tn__exe_holds(b->func, true, output, (tn__container)v->holds);
  a->outputs[output] = tn__builder_register(b, v, TN__STORAGE_OUTPUT, output, tn__prog_operand_const(0));
}

static void declare_tensor(tn__builder *b, arguments *a, int output) {
  const tn__program_function *f = b->function;
  const tn__value *v = f->outputs[output];
  tn__operand dims[TN_MAX_RANK];
  int first_late = a->late.count;
  for (int d = 0; d < v->rank; d++) {
    if (tn__builder_knows(b, v->dims[d])) {
      dims[d] = tn__scalars_operand(&b->scalars, v->dims[d]);
      continue;
    }
    late_size size = {tn__exe_scalar(b->func), -1, d};
    dims[d] = (tn__operand){.symbolic = 1, .value = size.scalar};
    tn__vec_push(b->arena, &a->late, size);
  }
  tn__exe_output(b->func, f->output_names[output], v->dtype, v->rank, dims);
  tn__prog_declare_output_extent(b, output);
  if (f->aliases && f->aliases[output] >= 0) tn__exe_alias(b->func, output, f->aliases[output]);
  int reg = tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_OUTPUT, output, tn__prog_operand_const(0));
  tn__exe_register_on(b->func, tn__prog_given_device(b, true, output), reg);
  for (int i = first_late; i < a->late.count; i++) a->late.data[i].reg = reg;
  a->outputs[output] = reg;
}

void tn__prog_emit_dispatch(tn__builder *b) {
  const tn__program_function *f = b->function;
  const tn__dispatch *d = f->dispatch;
  arguments a = {.inputs = TN__NEW_ARRAY(b->arena, f->input_count, int),
                 .outputs = TN__NEW_ARRAY(b->arena, f->output_count, int)};
  for (int i = 0; i < f->input_count; i++) a.inputs[i] = tn__place_of(b, f->inputs[i])->reg;
  for (int i = 0; i < f->output_count; i++)
    if (f->outputs[i]->holds == TN__HOLDS_TENSOR)
      declare_tensor(b, &a, i);
    else
      declare_list(b, &a, i);
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
