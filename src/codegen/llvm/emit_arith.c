/* Arithmetic on values of one shape: integers with the meaning that ir/expr.h states, floats, comparisons. */
#include "codegen/llvm/arch.h"

/* Floor division and remainder by the sign's correction; -1 is kept from the instruction, which traps on the smallest
 * value. */
static LLVMValueRef signed_divmod(tn__cg *cg, bool is_div, const tn__interval *divisor, LLVMValueRef a,
                                  LLVMValueRef b) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = LLVMTypeOf(a);
  bool may_be_minus_one = divisor->min <= -1 && divisor->max >= -1;
  LLVMValueRef safe = b, minus_one = NULL;
  if (may_be_minus_one) {
    minus_one = LLVMBuildICmp(at, LLVMIntEQ, b, tn__cg_int(type, -1), "");
    safe = LLVMBuildSelect(at, minus_one, tn__cg_int(type, 1), b, "");
  }
  LLVMValueRef quotient = LLVMBuildSDiv(at, a, safe, "");
  LLVMValueRef rest = LLVMBuildSub(at, a, LLVMBuildMul(at, quotient, safe, ""), "");
  LLVMValueRef zero = tn__cg_int(type, 0), wrong;
  if (divisor->min > 0) {
    wrong = LLVMBuildICmp(at, LLVMIntSLT, rest, zero, "");
  } else {
    LLVMValueRef signs = LLVMBuildICmp(at, LLVMIntSLT, LLVMBuildXor(at, rest, safe, ""), zero, "");
    wrong = LLVMBuildAnd(at, signs, LLVMBuildICmp(at, LLVMIntNE, rest, zero, ""), "");
  }
  if (!is_div) {
    LLVMValueRef fixed = LLVMBuildAdd(at, rest, LLVMBuildSelect(at, wrong, safe, zero, ""), "");
    return may_be_minus_one ? LLVMBuildSelect(at, minus_one, zero, fixed, "") : fixed;
  }
  LLVMValueRef fixed = LLVMBuildAdd(at, quotient, LLVMBuildSExt(at, wrong, type, ""), "");
  return may_be_minus_one ? LLVMBuildSelect(at, minus_one, LLVMBuildNeg(at, a, ""), fixed, "") : fixed;
}

LLVMValueRef tn__cg_int_divmod(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef at = cg->builder;
  bool is_div = e->kind == TN__EXPR_DIV;
  tn__interval divisor = tn__interval_of(cg->ir, e->args[1]);
  int64_t c;
  bool is_signed = tn__dtype_is_signed(e->dtype);
  if (tn__ir_as_int(e->args[1], &c) && c > 0 && (c & (c - 1)) == 0) { /* shifts floor already */
    int shift = __builtin_ctzll((uint64_t)c);
    LLVMTypeRef type = LLVMTypeOf(a);
    if (!is_div) return LLVMBuildAnd(at, a, tn__cg_int(type, c - 1), "");
    LLVMValueRef by = tn__cg_int(type, shift);
    return is_signed ? LLVMBuildAShr(at, a, by, "") : LLVMBuildLShr(at, a, by, "");
  }
  bool non_negative = tn__interval_of(cg->ir, e->args[0]).min >= 0 && divisor.min >= 0;
  if (!is_signed || non_negative) return is_div ? LLVMBuildUDiv(at, a, b, "") : LLVMBuildURem(at, a, b, "");
  return signed_divmod(cg, is_div, &divisor, a, b);
}

LLVMValueRef tn__cg_min_max(tn__cg *cg, bool is_max, tn_dtype dtype, LLVMValueRef a, LLVMValueRef b) {
  if (dtype == TN_BOOL) return is_max ? LLVMBuildOr(cg->builder, a, b, "") : LLVMBuildAnd(cg->builder, a, b, "");
  if (!tn__dtype_is_float(dtype)) {
    bool is_signed = tn__dtype_is_signed(dtype);
    return tn__cg_intrinsic2(
        cg, is_max ? (is_signed ? "llvm.smax" : "llvm.umax") : (is_signed ? "llvm.smin" : "llvm.umin"), a, b);
  }
  if (tn__target_can(cg->target, TN__CAN_KEEP_NAN))
    return tn__cg_intrinsic2(cg, is_max ? "llvm.maximum" : "llvm.minimum", a, b);
  /* The instruction is `a > b ? a : b`: it gives b when either is NaN. With a constant as `a` that is all; otherwise a
   * NaN in `a` is put back. */
  if (LLVMIsConstant(b)) {
    LLVMValueRef other = a;
    a = b;
    b = other;
  }
  LLVMRealPredicate better = is_max ? LLVMRealOGT : LLVMRealOLT;
  LLVMValueRef chosen = LLVMBuildSelect(cg->builder, LLVMBuildFCmp(cg->builder, better, a, b, ""), a, b, "");
  if (LLVMIsConstant(a)) return chosen;
  return LLVMBuildSelect(cg->builder, LLVMBuildFCmp(cg->builder, LLVMRealUNO, a, a, ""), a, chosen, "");
}

LLVMValueRef tn__cg_compare(tn__cg *cg, tn__expr_kind kind, tn_dtype dtype, LLVMValueRef a, LLVMValueRef b) {
  int row = (int)kind - (int)TN__EXPR_EQ;
  if (tn__dtype_is_float(dtype)) {
    static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE};
    return LLVMBuildFCmp(cg->builder, real[row], a, b, "");
  }
  static const LLVMIntPredicate ints[2][4] = {{LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE},
                                              {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE}};
  return LLVMBuildICmp(cg->builder, ints[tn__dtype_is_signed(dtype)][row], a, b, "");
}

/* A shift by the width or more gives 0, or the sign: amounts are clamped, because LLVM leaves them undefined. */
static LLVMValueRef shifted(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef by) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = LLVMTypeOf(a);
  int bits = tn__dtype_bits(e->dtype);
  LLVMValueRef last = tn__cg_int(type, bits - 1);
  if (e->kind == TN__EXPR_SHR && tn__dtype_is_signed(e->dtype))
    return LLVMBuildAShr(at, a, tn__cg_intrinsic2(cg, "llvm.umin", by, last), "");
  LLVMValueRef fits = LLVMBuildICmp(at, LLVMIntULE, by, last, "");
  LLVMValueRef amount = LLVMBuildSelect(at, fits, by, tn__cg_int(type, 0), "");
  LLVMValueRef v = e->kind == TN__EXPR_SHL ? LLVMBuildShl(at, a, amount, "") : LLVMBuildLShr(at, a, amount, "");
  return LLVMBuildSelect(at, fits, v, tn__cg_int(type, 0), "");
}

static LLVMValueRef float_arith(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef at = cg->builder;
  switch (e->kind) {
    case TN__EXPR_ADD: return LLVMBuildFAdd(at, a, b, "");
    case TN__EXPR_SUB: return LLVMBuildFSub(at, a, b, "");
    case TN__EXPR_MUL: return LLVMBuildFMul(at, a, b, "");
    case TN__EXPR_DIV: return LLVMBuildFDiv(at, a, b, "");
    case TN__EXPR_MOD: return tn__cg_fmod(cg, a, b);
    default: tn__cg_fail(cg, "operation %d on floats", (int)e->kind);
  }
}

LLVMValueRef tn__cg_arith(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef at = cg->builder;
  if (e->kind == TN__EXPR_MIN || e->kind == TN__EXPR_MAX)
    return tn__cg_min_max(cg, e->kind == TN__EXPR_MAX, e->dtype, a, b);
  if (tn__dtype_is_float(e->dtype)) return tn__cg_round_to(cg, e->dtype, float_arith(cg, e, a, b));
  switch (e->kind) {
    case TN__EXPR_ADD: return LLVMBuildAdd(at, a, b, "");
    case TN__EXPR_SUB: return LLVMBuildSub(at, a, b, "");
    case TN__EXPR_MUL: return LLVMBuildMul(at, a, b, "");
    case TN__EXPR_AND: return LLVMBuildAnd(at, a, b, "");
    case TN__EXPR_OR: return LLVMBuildOr(at, a, b, "");
    case TN__EXPR_XOR: return LLVMBuildXor(at, a, b, "");
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return shifted(cg, e, a, b);
    default: tn__cg_fail(cg, "operation %d on integers", (int)e->kind);
  }
}
