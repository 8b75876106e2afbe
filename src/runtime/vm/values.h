/* What the machine calls of values that are not tensors of numbers (runtime/executable/values.h). */
#ifndef TENON_RUNTIME_VM_VALUES_H
#define TENON_RUNTIME_VM_VALUES_H

#include "runtime/executable/values.h"
#include "runtime/vm/vm.h"

typedef struct tn__vm_values {
  size_t list_size; /* bytes of a tn__list, of which a frame has some: zeroed at first */
  void (*release_lists)(tn__vm *vm, tn__frame *frame);
  /* COPY and MOVE of lists; builtins that are about lists or strings */
  tn_status *(*copy)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
  tn_status *(*move)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
  tn_status *(*run)(tn__vm *vm, tn__frame *frame, const tn__instruction *in);
} tn__vm_values;

/* The list of a frame's own that a register has. */
static inline void *tn__frame_list(const tn__vm *vm, const tn__frame *frame, const tn__register *r) {
  return (char *)frame->lists + r->list * vm->exe->values->vm->list_size;
}

#endif
