/* Programs on several devices in queues: the host goes through the code, gives each device what is its own, and
 * waits at HOST_AWAIT and at the end. Without queues (one device, all of them mapped to the host, files of before
 * events) the host does, or waits for, each step.
 *
 * Memory moves only when nobody works: before a block grows or is handed to another register, and before a frame is
 * laid out for other sizes, the host waits for all devices. Runs that find all as the last one left it never do. */
#ifndef TENON_RUNTIME_VM_QUEUED_H
#define TENON_RUNTIME_VM_QUEUED_H

#include "runtime/queue/queue.h"
#include "runtime/vm/vm.h"

/* Waits for all devices, when there are queues. */
static inline void tn__vm_drain(const tn__vm *vm) {
  if (vm->queues != NULL) tn__queues_drain(vm->queues);
}
/* As tn__block_reserve_on(), when nobody uses the block, which is the frame's, any more. When there is no memory,
 * what is kept for later is given back first, once. */
TN_MUST_USE tn_status *tn__vm_reserve(tn__vm *vm, tn__frame *frame, uint32_t device, tn__block *block, int64_t bytes);

/* Around all of an invoke, when there are queues: what is to be told when the code has ended with `status`, and all
 * devices are done. */
void tn__vm_begin_queues(tn__vm *vm, const tn__function *f);
TN_MUST_USE tn_status *tn__vm_end_queues(tn__vm *vm, tn_status *status);
/* Room for ways through calls, a power of two; those that there are stay. */
TN_MUST_USE tn_status *tn__vm_make_paths(tn__vm *vm, uint32_t capacity);
void tn__vm_release_paths(tn__vm *vm);
/* Around a call: failures name the calls that they are in. */
TN_MUST_USE tn_status *tn__vm_enter_call(tn__vm *vm, const tn__instruction *in, const tn__function *callee);

/* A kernel whose buffers and scalars are in the machine, by its device: now (`*result`), or in its queue. */
TN_MUST_USE tn_status *tn__vm_launch(tn__vm *vm, const tn__instruction *in, int32_t *result);
/* A copy of which one end is not on the first device. */
TN_MUST_USE tn_status *tn__vm_copy(tn__vm *vm, const tn__instruction *in, const tn__register *to, void *destination,
                                   const tn__register *from, const void *source, size_t bytes);
/* Brings input `index` of the function from the host to memory of its device, or an output to the host. */
TN_MUST_USE tn_status *tn__vm_carry(tn__vm *vm, const tn__function *f, bool output, uint32_t index, void *there,
                                    void *host, size_t bytes);
/* RECORD, AWAIT, HOST_AWAIT */
TN_MUST_USE tn_status *tn__vm_event(tn__vm *vm, const tn__function *f, const tn__instruction *in);
/* The status of a kernel that failed. */
TN_MUST_USE TN_NEVER_NULL tn_status *tn__vm_kernel_failed(const tn__vm *vm, const tn__instruction *in, int32_t result);

#endif
