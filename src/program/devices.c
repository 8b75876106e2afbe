/* Values on several devices. Callers, calls, lists and whatever reads single elements have the host's memory: a value
 * that lives elsewhere is copied on its way into a call and out of it, however the plan of devices came about. */
#include "program/builder.h"

void tn__prog_emit_copy(tn__builder *b, int to, int from) {
  uint32_t words[] = {(uint32_t)to, (uint32_t)from};
  tn__exe_emit(b->func, TN__OP_COPY, words, 2);
}

int tn__prog_host_variable(tn__builder *b, const tn__value *v) {
  tn__operand dims[TN_MAX_RANK];
  for (int i = 0; i < v->rank; i++) dims[i] = tn__scalars_operand(&b->scalars, v->dims[i]);
  return tn__exe_register(b->func, v->dtype, v->rank, dims, TN__STORAGE_DYNAMIC, 0, tn__prog_operand_const(0));
}

int tn__prog_host_register_of(tn__builder *b, tn__value *v) {
  int own = tn__prog_register_of(b, v);
  if (tn__prog_device_of(b, v) == 0) return own;
  int host = tn__prog_host_variable(b, v);
  tn__prog_emit_word(b, TN__OP_ALLOC, host);
  tn__prog_emit_copy(b, host, own);
  return host;
}

int tn__prog_host_destination_of(tn__builder *b, tn__value *v, bool allocate) {
  if (tn__prog_device_of(b, v) == 0) return tn__prog_destination_of(b, v, allocate);
  int host = tn__prog_host_variable(b, v);
  if (allocate) tn__prog_emit_word(b, TN__OP_ALLOC, host);
  return host;
}

void tn__prog_send(tn__builder *b, tn__value *v, int from) {
  if (tn__prog_device_of(b, v) == 0) return;
  tn__prog_emit_copy(b, tn__prog_destination_of(b, v, true), from);
}

void tn__prog_send_inputs(tn__builder *b) {
  const tn__program_function *p = b->function;
  for (int i = 0; i < p->input_count; i++) {
    const tn__place *at = tn__place_of(b, p->inputs[i]);
    if (at->kind == TN__PLACE_DYNAMIC) tn__prog_emit_copy(b, tn__prog_destination_of(b, p->inputs[i], true), at->given);
  }
}
