/* What is done differently for each architecture: a row of hooks, in a file of its own. Everything else in this folder
 * is the same for all of them. */
#ifndef TENON_CODEGEN_LLVM_ARCH_H
#define TENON_CODEGEN_LLVM_ARCH_H

#include "codegen/llvm/emit.h"

/* A hook that is NULL, or gives NULL or false, leaves the work to code for any architecture. */
typedef struct tn__cg_arch {
  /* Emits the instruction of a tensor statement. */
  bool (*tensor)(tn__cg *cg, const tn__stmt *s);
  /* acc + dot4(a, b) in that many lanes. */
  LLVMValueRef (*dot4)(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes);
  /* acc + dot2(a, b), all of that many lanes. */
  LLVMValueRef (*dot2)(tn__cg *cg, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b, int lanes);
  /* Of bytes: in each of the lanes of 64 bits the sum of |a - b| over eight of them. */
  LLVMValueRef (*sum_of_distances)(tn__cg *cg, LLVMValueRef a, LLVMValueRef b, int lanes);
  /* value 2^count, rounded once; both of the same type, f32 or f64. */
  LLVMValueRef (*scale)(tn__cg *cg, LLVMValueRef value, LLVMValueRef count);
  /* Orders non-temporal stores before those that follow. */
  void (*fence)(tn__cg *cg);
} tn__cg_arch;

const tn__cg_arch *tn__cg_arch_of(const tn__target *target); /* NULL: there is no row for it */

/* The rows. */
extern const tn__cg_arch tn__cg_arch_x86, tn__cg_arch_arm;

#endif
