/* Sums of products of narrow numbers in each lane of 32 bits, four of bytes (dot4) or two of 16 bits (dot2), and of
 * eight bytes in each lane of 64 (sum8). All ways give the same numbers. */
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

/* ---- dot2 -------------------------------------------------------------------------------------------------------- */

LLVMValueRef tn__cg_dot2(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = tn__cg_lanes_type(cg->i32, lanes);
  if (acc == NULL) acc = tn__cg_int(type, 0);
  LLVMValueRef x = tn__cg_widen(cg, *a, lanes), y = tn__cg_widen(cg, *b, lanes), sixteen = tn__cg_int(type, 16);
  LLVMValueRef sums = cg->arch->dot2 ? cg->arch->dot2(cg, acc, x, y, lanes) : NULL;
  if (sums) return sums;
  LLVMValueRef high = LLVMBuildMul(at, LLVMBuildAShr(at, x, sixteen, ""), LLVMBuildAShr(at, y, sixteen, ""), "");
  x = LLVMBuildAShr(at, LLVMBuildShl(at, x, sixteen, ""), sixteen, "");
  y = LLVMBuildAShr(at, LLVMBuildShl(at, y, sixteen, ""), sixteen, "");
  return LLVMBuildAdd(at, LLVMBuildAdd(at, acc, LLVMBuildMul(at, x, y, ""), ""), high, "");
}

/* ---- sum8 -------------------------------------------------------------------------------------------------------- */

static LLVMValueRef add_fields(tn__cg *cg, LLVMValueRef x, int bits, int64_t mask) {
  LLVMTypeRef type = LLVMTypeOf(x);
  LLVMValueRef low = LLVMBuildAnd(cg->builder, x, tn__cg_int(type, mask), "");
  LLVMValueRef high = LLVMBuildLShr(cg->builder, x, tn__cg_int(type, bits), "");
  return LLVMBuildAdd(cg->builder, low, LLVMBuildAnd(cg->builder, high, tn__cg_int(type, mask), ""), "");
}

/* The sums of the eight bytes in each of the lanes. */
static LLVMValueRef sum_of_bytes(tn__cg *cg, LLVMValueRef words) {
  words = add_fields(cg, words, 8, INT64_C(0x00ff00ff00ff00ff));
  words = add_fields(cg, words, 16, INT64_C(0x0000ffff0000ffff));
  return add_fields(cg, words, 32, INT64_C(0x00000000ffffffff));
}

LLVMValueRef tn__cg_sum8(tn__cg *cg, LLVMValueRef words) {
  int lanes = tn__cg_lanes(LLVMTypeOf(words));
  LLVMTypeRef bytes = LLVMVectorType(cg->i8, 8 * (unsigned)lanes);
  if (cg->arch->sum_of_distances != NULL && lanes > 1) {
    LLVMValueRef a = LLVMBuildBitCast(cg->builder, words, bytes, "");
    LLVMValueRef sums = cg->arch->sum_of_distances(cg, a, LLVMConstNull(bytes), lanes);
    if (sums != NULL) return sums;
  }
  return sum_of_bytes(cg, words);
}
