/* Values that are wanted elsewhere than they live: copies of them, which calls pass. */
#include "program/builder.h"

void tn__prog_emit_copy(tn__builder *b, int to, int from) {
  uint32_t words[] = {(uint32_t)to, (uint32_t)from};
  tn__exe_emit(b->func, TN__OP_COPY, words, 2);
}

int tn__prog_variable_on(tn__builder *b, const tn__value *v, int device) {
  tn__operand dims[TN_MAX_RANK];
  for (int i = 0; i < v->rank; i++) dims[i] = tn__scalars_operand(&b->scalars, v->dims[i]);
  int reg = tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
  tn__exe_register_on(b->func, device, reg);
  return reg;
}

int tn__prog_register_on(tn__builder *b, tn__value *v, int device) {
  int own = tn__prog_register_of(b, v);
  if (tn__prog_device_of(b, v) == device) return own;
  int there = tn__prog_variable_on(b, v, device);
  tn__prog_emit_word(b, TN__OP_ALLOC, there);
  tn__prog_emit_copy(b, there, own);
  return there;
}

int tn__prog_destination_on(tn__builder *b, tn__value *v, int device, bool allocate) {
  if (tn__prog_device_of(b, v) == device) return tn__prog_destination_of(b, v, allocate);
  int there = tn__prog_variable_on(b, v, device);
  if (allocate) tn__prog_emit_word(b, TN__OP_ALLOC, there);
  return there;
}

void tn__prog_send(tn__builder *b, tn__value *v, int device, int from) {
  if (tn__prog_device_of(b, v) == device) return;
  tn__prog_emit_copy(b, tn__prog_destination_of(b, v, true), from);
}

void tn__prog_send_inputs(tn__builder *b) {
  const tn__program_function *p = b->function;
  for (int i = 0; i < p->input_count; i++) {
    const tn__place *at = tn__place_of(b, p->inputs[i]);
    if (at->kind == TN__PLACE_DYNAMIC) tn__prog_emit_copy(b, tn__prog_destination_of(b, p->inputs[i], true), at->given);
  }
}
