/* Dispatch of intrinsics: what is one instruction stays inline; the rest becomes one function of the module per type
 * and lane count. */
#include "codegen/llvm/math.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

typedef struct family_row {
  const char *name;
  tn__cg_v (*unary)(tn__cg *cg, tn__cg_v x);
  tn__cg_v (*binary)(tn__cg *cg, tn__cg_v x, tn__cg_v y);
  bool inlined;    /* short and hot: into the loop; otherwise a call */
  bool f32_by_f64; /* rare: f32 is computed in f64 lanes and rounded once */
} family_row;

static const family_row families[TN__CALL_COUNT] = {
    [TN__CALL_EXP] = {"exp", tn__cg_exp, .inlined = true},
    [TN__CALL_EXPM1] = {"expm1", tn__cg_expm1, .inlined = true},
    [TN__CALL_RSQRT] = {"rsqrt", tn__cg_rsqrt, .inlined = true},
    [TN__CALL_LOG] = {"log", tn__cg_log, .inlined = true},
    [TN__CALL_LOG1P] = {"log1p", tn__cg_log1p, .f32_by_f64 = true},
    [TN__CALL_POW] = {"pow", .binary = tn__cg_pow},
    [TN__CALL_SIN] = {"sin", tn__cg_sin, .inlined = true},
    [TN__CALL_COS] = {"cos", tn__cg_cos, .inlined = true},
    [TN__CALL_TAN] = {"tan", tn__cg_tan, .f32_by_f64 = true},
    [TN__CALL_ASIN] = {"asin", tn__cg_asin, .f32_by_f64 = true},
    [TN__CALL_ACOS] = {"acos", tn__cg_acos, .f32_by_f64 = true},
    [TN__CALL_ATAN] = {"atan", tn__cg_atan, .f32_by_f64 = true},
    [TN__CALL_ATAN2] = {"atan2", .binary = tn__cg_atan2, .f32_by_f64 = true},
    [TN__CALL_SINH] = {"sinh", tn__cg_sinh, .f32_by_f64 = true},
    [TN__CALL_COSH] = {"cosh", tn__cg_cosh, .f32_by_f64 = true},
    [TN__CALL_TANH] = {"tanh", tn__cg_tanh, .inlined = true},
    [TN__CALL_ASINH] = {"asinh", tn__cg_asinh, .f32_by_f64 = true},
    [TN__CALL_ACOSH] = {"acosh", tn__cg_acosh, .f32_by_f64 = true},
    [TN__CALL_ATANH] = {"atanh", tn__cg_atanh, .f32_by_f64 = true},
    [TN__CALL_ERF] = {"erf", tn__cg_erf, .inlined = true},
};

static LLVMValueRef family_body(tn__cg *cg, const family_row *row, tn__cg_v x, tn__cg_v y) {
  bool widen = row->f32_by_f64 && !is_f64(cg, x);
  if (widen) x = to_f64(cg, x);
  if (widen && y != NULL) y = to_f64(cg, y);
  cg->narrow = widen;
  tn__cg_v r = row->unary != NULL ? row->unary(cg, x) : row->binary(cg, x, y);
  cg->narrow = false;
  return widen ? to_f32(cg, r) : r;
}

static LLVMValueRef family_call(tn__cg *cg, const family_row *row, LLVMValueRef *args) {
  LLVMTypeRef type = type_of(args[0]), params[] = {type, type};
  int count = row->unary != NULL ? 1 : 2;
  char name[64];
  /* Most of what a function of two numbers asks about the second is known then. */
  if (count == 2 && (LLVMIsConstant(args[0]) || LLVMIsConstant(args[1]))) return family_body(cg, row, args[0], args[1]);
  snprintf(name, sizeof(name), "tn.%s.%s.%d", row->name, is_f64(cg, args[0]) ? "f64" : "f32", tn__cg_lanes(type));
  LLVMTypeRef function_type = LLVMFunctionType(type, params, (unsigned)count, 0);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  if (tn__cg_helper_begin(cg, name, function_type, row->inlined, &function, &saved)) {
    tn__cg_helper_is_pure(cg, function);
    tn__cg_v y = count == 2 ? LLVMGetParam(function, 1) : NULL;
    LLVMBuildRet(cg->builder, family_body(cg, row, LLVMGetParam(function, 0), y));
    tn__cg_helper_end(cg, saved);
  }
  return LLVMBuildCall2(cg->builder, function_type, function, args, (unsigned)count, "");
}

/* Repeated squaring, until the exponents of all lanes are zero (eval_pow in ir/intrinsic.c). */
static LLVMValueRef whole_power(tn__cg *cg, LLVMValueRef x, LLVMValueRef y, bool is_signed) {
  LLVMTypeRef type = type_of(x), params[] = {type, type}, function_type = LLVMFunctionType(type, params, 2, 0);
  unsigned bits = LLVMGetIntTypeWidth(LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type);
  LLVMValueRef function;
  LLVMBasicBlockRef saved;
  char name[64];
  snprintf(name, sizeof(name), "tn.pow.%c%u.%d", is_signed ? 'i' : 'u', bits, tn__cg_lanes(type));
  if (tn__cg_helper_begin(cg, name, function_type, false, &function, &saved)) {
    tn__cg_helper_is_pure(cg, function);
    LLVMValueRef base = LLVMGetParam(function, 0), exponent = LLVMGetParam(function, 1), zero = iconst(base, 0);
    LLVMValueRef one = iconst(base, 1), first[] = {one, base, exponent}, phis[3], next[3];
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(cg->builder);
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(cg->context, function, "loop");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(cg->context, function, "done");
    LLVMBuildBr(cg->builder, loop);
    tn__cg_at(cg, loop);
    for (int i = 0; i < 3; i++) phis[i] = LLVMBuildPhi(cg->builder, type, "");
    LLVMValueRef odd = LLVMBuildICmp(cg->builder, LLVMIntNE, LLVMBuildAnd(cg->builder, phis[2], one, ""), zero, "");
    LLVMValueRef factor = LLVMBuildSelect(cg->builder, odd, phis[1], one, "");
    next[0] = LLVMBuildMul(cg->builder, phis[0], factor, "");
    next[1] = LLVMBuildMul(cg->builder, phis[1], phis[1], "");
    next[2] = LLVMBuildLShr(cg->builder, phis[2], one, "");
    for (int i = 0; i < 3; i++) {
      LLVMValueRef values[] = {first[i], next[i]};
      LLVMAddIncoming(phis[i], values, (LLVMBasicBlockRef[]){entry, loop}, 2);
    }
    LLVMValueRef more = tn__cg_any(cg, LLVMBuildICmp(cg->builder, LLVMIntNE, next[2], zero, ""));
    LLVMBuildCondBr(cg->builder, more, loop, done);
    tn__cg_at(cg, done);
    LLVMValueRef result = next[0];
    if (is_signed) {
      LLVMValueRef minus = iconst(base, -1), most = iconst(base, (int64_t)(UINT64_MAX >> (65 - bits)));
      LLVMValueRef last = LLVMBuildICmp(cg->builder, LLVMIntNE, LLVMBuildAnd(cg->builder, exponent, one, ""), zero, "");
      LLVMValueRef sign = LLVMBuildSelect(cg->builder, last, minus, one, "");
      LLVMValueRef inverse =
          LLVMBuildSelect(cg->builder, LLVMBuildICmp(cg->builder, LLVMIntEQ, base, minus, ""), sign, zero, "");
      inverse = LLVMBuildSelect(cg->builder, LLVMBuildICmp(cg->builder, LLVMIntEQ, base, one, ""), one, inverse, "");
      inverse = LLVMBuildSelect(cg->builder, LLVMBuildICmp(cg->builder, LLVMIntEQ, base, zero, ""), most, inverse, "");
      LLVMValueRef negative = LLVMBuildICmp(cg->builder, LLVMIntSLT, exponent, zero, "");
      result = LLVMBuildSelect(cg->builder, negative, inverse, result, "");
    }
    LLVMBuildRet(cg->builder, result);
    tn__cg_helper_end(cg, saved);
  }
  return LLVMBuildCall2(cg->builder, function_type, function, (LLVMValueRef[]){x, y}, 2, "");
}

static LLVMValueRef int_call(tn__cg *cg, const tn__expr *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef type = type_of(x), types[] = {type};
  LLVMValueRef args[] = {x, LLVMConstInt(cg->i1, 0, 0)};
  switch (e->intrinsic) {
    case TN__CALL_NEG: return LLVMBuildNeg(cg->builder, x, "");
    case TN__CALL_ABS: return tn__dtype_is_signed(e->dtype) ? tn__cg_intrinsic(cg, "llvm.abs", types, 1, args, 2) : x;
    case TN__CALL_POW: return whole_power(cg, x, y, tn__dtype_is_signed(e->dtype));
    case TN__CALL_POPCOUNT: return tn__cg_intrinsic1(cg, "llvm.ctpop", x);
    case TN__CALL_CLZ: return tn__cg_intrinsic(cg, "llvm.ctlz", types, 1, args, 2);
    default: tn__cg_fail(cg, "intrinsic %d on integers", (int)e->intrinsic);
  }
}

/* The least that the expression may be, if it is not NaN; looked for in sums, squares and their like. */
static double least_of(const tn__expr *e, int depth) {
  const double unknown = -INFINITY;
  if (e->kind == TN__EXPR_FLOAT) return e->value.f;
  if (depth == 0 || e->arg_count == 0) return unknown;
  double a = least_of(e->args[0], depth - 1), b = e->arg_count > 1 ? least_of(e->args[1], depth - 1) : unknown;
  switch (e->kind) {
    case TN__EXPR_ADD: return a >= 0 && b >= 0 ? fmax(a, b) : unknown; /* however it is rounded */
    case TN__EXPR_MUL: return e->args[0] == e->args[1] || (a >= 0 && b >= 0) ? 0 : unknown;
    case TN__EXPR_MAX: return fmax(a, b);
    case TN__EXPR_CALL:
      return e->intrinsic == TN__CALL_ABS || e->intrinsic == TN__CALL_SQRT || e->intrinsic == TN__CALL_EXP ? 0
                                                                                                           : unknown;
    default: return unknown;
  }
}

/* Is the operand, of f32 or f64, a normal number above zero, an infinity or NaN? */
static bool is_above_zero(const tn__expr *e) {
  enum { MOST_DEPTH = 8 };
  double least = e->dtype == TN_F32 ? (double)FLT_MIN : DBL_MIN;
  return (e->dtype == TN_F32 || e->dtype == TN_F64) && least_of(e, MOST_DEPTH) >= least;
}

static LLVMValueRef float_call(tn__cg *cg, const tn__expr *e, LLVMValueRef *args) {
  LLVMValueRef x = args[0];
  switch (e->intrinsic) {
    case TN__CALL_ABS: return size_of(cg, x);
    case TN__CALL_NEG: return neg(cg, x);
    case TN__CALL_SQRT: return tn__cg_intrinsic1(cg, "llvm.sqrt", x);
    case TN__CALL_RSQRT:
      if (is_above_zero(e->args[0])) return tn__cg_rsqrt_above_zero(cg, x);
      break;
    case TN__CALL_FLOOR: return tn__cg_floor(cg, x);
    case TN__CALL_CEIL: return tn__cg_ceil(cg, x);
    case TN__CALL_TRUNC: return tn__cg_trunc(cg, x);
    case TN__CALL_ROUND_EVEN: return tn__cg_round_even(cg, x);
    case TN__CALL_FMA: return tn__cg_fma(cg, x, args[1], args[2]);
    case TN__CALL_IS_NAN: return fcmp(cg, LLVMRealUNO, x, x);
    case TN__CALL_IS_INF: return fcmp(cg, LLVMRealOEQ, size_of(cg, x), real(x, INFINITY));
    default: break;
  }
  const family_row *row = &families[e->intrinsic];
  if (row->name == NULL) tn__cg_fail(cg, "intrinsic %d on floats", (int)e->intrinsic);
  return family_call(cg, row, args);
}

LLVMValueRef tn__cg_call(tn__cg *cg, const tn__expr *e, const tn__cg_value *values, int lanes) {
  LLVMValueRef args[4] = {NULL};
  tn_dtype dtype = e->args[0]->dtype;
  if (e->intrinsic == TN__CALL_LIKELY) return values[0].v;
  for (int i = 0; i < e->arg_count; i++) args[i] = tn__cg_widen(cg, values[i], lanes);
  if (e->intrinsic == TN__CALL_DOT4) return tn__cg_dot4(cg, NULL, &values[0], &values[1], lanes);
  if (e->intrinsic == TN__CALL_DOT2) return tn__cg_dot2(cg, NULL, &values[0], &values[1], lanes);
  if (e->intrinsic == TN__CALL_SUM8) return tn__cg_sum8(cg, args[0]);
  if (!tn__dtype_is_float(dtype)) return int_call(cg, e, args[0], args[1]);
  LLVMValueRef v = float_call(cg, e, args);
  return e->dtype == TN_BOOL ? v : tn__cg_round_to(cg, e->dtype, v);
}
