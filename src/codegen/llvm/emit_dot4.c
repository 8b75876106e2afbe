/* dot4: sums of four products of bytes in each lane of 32 bits. All ways give the same numbers. */
#include "codegen/llvm/arch.h"

/* Byte by byte. */
static LLVMValueRef add_bytes(tn__cg *cg, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(acc);
  for (int i = 0; i < 4; i++) {
    LLVMValueRef x = LLVMBuildAnd(cg->builder, LLVMBuildLShr(cg->builder, a, tn__cg_int(type, 8 * i), ""),
                                  tn__cg_int(type, 255), "");
    LLVMValueRef y = LLVMBuildAShr(cg->builder, LLVMBuildShl(cg->builder, b, tn__cg_int(type, 24 - 8 * i), ""),
                                   tn__cg_int(type, 24), "");
    acc = LLVMBuildAdd(cg->builder, acc, LLVMBuildMul(cg->builder, x, y, ""), "");
  }
  return acc;
}

LLVMValueRef tn__cg_dot4(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes) {
  if (acc == NULL) acc = tn__cg_int(tn__cg_lanes_type(cg->i32, lanes), 0);
  LLVMValueRef sums = cg->arch->dot4 ? cg->arch->dot4(cg, acc, a, b, lanes) : NULL;
  if (sums) return sums;
  LLVMValueRef x = tn__cg_widen(cg, *a, lanes), y = tn__cg_widen(cg, *b, lanes);
  return add_bytes(cg, acc, x, y);
}
