/* Prefetches, and instructions on small tensors. */
#include "codegen/llvm/arch.h"

void tn__cg_prefetch(tn__cg *cg, const tn__stmt *s) {
  if (tn__cg_storage_of(cg, s->as.prefetch.buffer)->slots != NULL) return; /* it became values */
  LLVMValueRef pointer = tn__cg_address(cg, s->as.prefetch.buffer, s->as.prefetch.indices);
  /* For reading, into all levels or all but the nearest, data. */
  LLVMValueRef args[] = {pointer, LLVMConstInt(cg->i32, 0, 0), LLVMConstInt(cg->i32, s->as.prefetch.far ? 2 : 3, 0),
                         LLVMConstInt(cg->i32, 1, 0)};
  tn__cg_intrinsic(cg, "llvm.prefetch", &cg->ptr, 1, args, 4);
}

void tn__cg_tensor(tn__cg *cg, const tn__stmt *s) {
  if (cg->arch->tensor && cg->arch->tensor(cg, s)) return;
  tn__cg_stmt(cg, s->as.tensor.body);
}
