/* Operands of builtins. */
#include "base/alloc.h"
#include "runtime/values/strings.h"

tn_status *tn__values_operand_at(tn__frame *frame, uint32_t number, tn__operand_tensor *out) {
  *out = (tn__operand_tensor){.r = &frame->f->registers[number]};
  TN_RETURN_IF_ERROR(tn__frame_current_dims(frame, number, &out->dims));
  out->count = tn_element_count(out->r->rank, out->dims);
  out->data = frame->data[out->r->root];
  return NULL;
}

tn_status *tn__values_same_count(const tn__operand_tensor *a, const tn__operand_tensor *b) {
  if (a->count == b->count) return NULL;
  char first[256], second[256];
  tn__rt_format_shape(a->dims, a->r->rank, first, sizeof(first));
  tn__rt_format_shape(b->dims, b->r->rank, second, sizeof(second));
  return tn_status_create(TN_INVALID_ARGUMENT, "a value of shape %s does not fit where %s is wanted", first, second);
}
