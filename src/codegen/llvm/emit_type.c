/* LLVM types, constants and small instruction sequences that do not know about tensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/llvm/emit.h"

void tn__cg_fail(tn__cg *cg, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INTERNAL, format, args);
  va_end(args);
  if (cg->func != NULL) status = tn_status_prefix(status, "kernel %s", cg->func->name);
  tn__throw(cg->arena->escape, status);
}

LLVMTypeRef tn__cg_value_type(const tn__cg *cg, tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return cg->i1;
    case TN_I8:
    case TN_U8: return cg->i8;
    case TN_I16:
    case TN_U16: return cg->i16;
    case TN_I32:
    case TN_U32: return cg->i32;
    case TN_I64:
    case TN_U64: return cg->i64;
    case TN_F64: return cg->f64;
    default: return cg->f32;
  }
}

LLVMTypeRef tn__cg_memory_type(const tn__cg *cg, tn_dtype dtype) {
  if (dtype == TN_BOOL) return cg->i8;
  if (dtype == TN_F16 || dtype == TN_BF16) return cg->i16;
  return tn__cg_value_type(cg, dtype);
}

LLVMTypeRef tn__cg_lanes_type(LLVMTypeRef element, int lanes) {
  return lanes == 1 ? element : LLVMVectorType(element, (unsigned)lanes);
}

static bool is_vector(LLVMTypeRef type) { return LLVMGetTypeKind(type) == LLVMVectorTypeKind; }
LLVMTypeRef tn__cg_element(LLVMTypeRef type) { return is_vector(type) ? LLVMGetElementType(type) : type; }
int tn__cg_lanes(LLVMTypeRef type) { return is_vector(type) ? (int)LLVMGetVectorSize(type) : 1; }
LLVMTypeRef tn__cg_like(LLVMTypeRef type, LLVMTypeRef element) {
  return tn__cg_lanes_type(element, tn__cg_lanes(type));
}
LLVMValueRef tn__cg_undef(LLVMTypeRef type) { return LLVMGetPoison(type); }

#define MAX_LANES 4096 /* of a vectorised loop; far above what a schedule has a use for */

static LLVMValueRef splat_constant(LLVMTypeRef type, LLVMValueRef element) {
  if (!is_vector(type)) return element;
  LLVMValueRef elements[MAX_LANES];
  unsigned lanes = LLVMGetVectorSize(type);
  for (unsigned i = 0; i < lanes; i++) elements[i] = element;
  return LLVMConstVector(elements, lanes);
}

LLVMValueRef tn__cg_float(LLVMTypeRef type, double value) {
  return splat_constant(type, LLVMConstReal(tn__cg_element(type), value));
}

LLVMValueRef tn__cg_int(LLVMTypeRef type, int64_t value) {
  LLVMTypeRef element = tn__cg_element(type);
  unsigned bits = LLVMGetIntTypeWidth(element);
  uint64_t kept = bits >= 64 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << bits) - 1);
  return splat_constant(type, LLVMConstInt(element, kept, bits > 64));
}

LLVMValueRef tn__cg_iota(LLVMTypeRef element, int lanes, int64_t step) {
  LLVMValueRef elements[MAX_LANES];
  for (int i = 0; i < lanes; i++) elements[i] = LLVMConstInt(element, (uint64_t)(i * step), 1);
  return lanes == 1 ? elements[0] : LLVMConstVector(elements, (unsigned)lanes);
}

LLVMValueRef tn__cg_shuffle(tn__cg *cg, LLVMValueRef a, LLVMValueRef b, const int *indices, int count) {
  LLVMValueRef elements[MAX_LANES];
  for (int i = 0; i < count; i++)
    elements[i] = indices[i] < 0 ? LLVMGetPoison(cg->i32) : LLVMConstInt(cg->i32, (unsigned)indices[i], 0);
  return LLVMBuildShuffleVector(cg->builder, a, b, LLVMConstVector(elements, (unsigned)count), "");
}

LLVMValueRef tn__cg_broadcast(tn__cg *cg, LLVMValueRef scalar, int lanes) {
  if (lanes == 1) return scalar;
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)lanes);
  if (LLVMIsConstant(scalar)) return splat_constant(type, scalar);
  LLVMValueRef first =
      LLVMBuildInsertElement(cg->builder, LLVMGetPoison(type), scalar, LLVMConstInt(cg->i64, 0, 0), "");
  LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(cg->i32, (unsigned)lanes));
  return LLVMBuildShuffleVector(cg->builder, first, LLVMGetPoison(type), zeros, "");
}

LLVMValueRef tn__cg_widen(tn__cg *cg, tn__cg_value value, int lanes) {
  return value.lanes == lanes ? value.v : tn__cg_broadcast(cg, value.v, lanes);
}

LLVMValueRef tn__cg_slice(tn__cg *cg, LLVMValueRef vector, int first, int count) {
  int lanes = tn__cg_lanes(LLVMTypeOf(vector)), indices[MAX_LANES];
  if (count == lanes) return vector;
  if (count == 1) return LLVMBuildExtractElement(cg->builder, vector, LLVMConstInt(cg->i64, (unsigned)first, 0), "");
  for (int i = 0; i < count; i++) indices[i] = first + i;
  return tn__cg_shuffle(cg, vector, LLVMGetPoison(LLVMTypeOf(vector)), indices, count);
}

LLVMValueRef tn__cg_splice(tn__cg *cg, LLVMValueRef vector, LLVMValueRef part, int first) {
  int lanes = tn__cg_lanes(LLVMTypeOf(vector)), count = tn__cg_lanes(LLVMTypeOf(part)), indices[MAX_LANES];
  if (count == lanes) return part;
  if (count == 1)
    return LLVMBuildInsertElement(cg->builder, vector, part, LLVMConstInt(cg->i64, (unsigned)first, 0), "");
  for (int i = 0; i < lanes; i++) indices[i] = i < count ? i : -1;
  LLVMValueRef wide = tn__cg_shuffle(cg, part, LLVMGetPoison(LLVMTypeOf(part)), indices, lanes);
  for (int i = 0; i < lanes; i++) indices[i] = i >= first && i < first + count ? lanes + i - first : i;
  return tn__cg_shuffle(cg, vector, wide, indices, lanes);
}

LLVMValueRef tn__cg_intrinsic(tn__cg *cg, const char *name, LLVMTypeRef *types, int type_count, LLVMValueRef *args,
                              int arg_count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) tn__cg_fail(cg, "LLVM has no intrinsic %s", name);
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(cg->module, id, types, (size_t)type_count);
  LLVMTypeRef type = LLVMIntrinsicGetType(cg->context, id, types, (size_t)type_count);
  return LLVMBuildCall2(cg->builder, type, function, args, (unsigned)arg_count, "");
}

LLVMValueRef tn__cg_intrinsic1(tn__cg *cg, const char *name, LLVMValueRef a) {
  LLVMTypeRef type = LLVMTypeOf(a);
  return tn__cg_intrinsic(cg, name, &type, 1, &a, 1);
}

LLVMValueRef tn__cg_intrinsic2(tn__cg *cg, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[] = {a, b};
  return tn__cg_intrinsic(cg, name, &type, 1, args, 2);
}

LLVMValueRef tn__cg_any(tn__cg *cg, LLVMValueRef mask) {
  return is_vector(LLVMTypeOf(mask)) ? tn__cg_intrinsic1(cg, "llvm.vector.reduce.or", mask) : mask;
}

LLVMBasicBlockRef tn__cg_block(tn__cg *cg, const char *name) {
  return LLVMAppendBasicBlockInContext(cg->context, cg->frame->function, name);
}

void tn__cg_at(tn__cg *cg, LLVMBasicBlockRef block) { LLVMPositionBuilderAtEnd(cg->builder, block); }

void tn__cg_branch_seldom(tn__cg *cg, LLVMValueRef condition, LLVMBasicBlockRef seldom, LLVMBasicBlockRef other) {
  static const char name[] = "branch_weights";
  LLVMValueRef branch = LLVMBuildCondBr(cg->builder, condition, seldom, other);
  LLVMMetadataRef weights[] = {LLVMMDStringInContext2(cg->context, name, sizeof(name) - 1),
                               LLVMValueAsMetadata(tn__cg_int(cg->i32, 1)),
                               LLVMValueAsMetadata(tn__cg_int(cg->i32, 1 << 20))};
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(cg->context, "prof", 4),
                  LLVMMetadataAsValue(cg->context, LLVMMDNodeInContext2(cg->context, weights, 3)));
}

void tn__cg_return_if(tn__cg *cg, LLVMValueRef condition, LLVMValueRef code) {
  LLVMBasicBlockRef fail = tn__cg_block(cg, "fail"), go_on = tn__cg_block(cg, "ok");
  LLVMBuildCondBr(cg->builder, condition, fail, go_on);
  tn__cg_at(cg, fail);
  LLVMBuildRet(cg->builder, code);
  tn__cg_at(cg, go_on);
}

LLVMValueRef tn__cg_alloca(tn__cg *cg, LLVMTypeRef type, int64_t count, unsigned align) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->builder);
  tn__cg_at(cg, cg->frame->entry);
  LLVMValueRef memory = count == 1 ? LLVMBuildAlloca(cg->builder, type, "")
                                   : LLVMBuildAlloca(cg->builder, LLVMArrayType2(type, (uint64_t)count), "");
  if (align != 0) LLVMSetAlignment(memory, align);
  tn__cg_at(cg, here);
  return memory;
}

static void add_attribute(tn__cg *cg, LLVMValueRef function, const char *kind) {
  unsigned id = LLVMGetEnumAttributeKindForName(kind, strlen(kind));
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(cg->context, id, 0));
}

void tn__cg_helper_is_pure(tn__cg *cg, LLVMValueRef function) {
  static const char *const kinds[] = {"memory", "nounwind", "willreturn", "speculatable"}; /* 0: no memory */
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) add_attribute(cg, function, kinds[i]);
}

bool tn__cg_helper_begin(tn__cg *cg, const char *name, LLVMTypeRef type, bool inlined, LLVMValueRef *function,
                         LLVMBasicBlockRef *saved) {
  *function = LLVMGetNamedFunction(cg->module, name);
  if (*function != NULL) return false;
  *function = LLVMAddFunction(cg->module, name, type);
  LLVMSetLinkage(*function, LLVMInternalLinkage);
  add_attribute(cg, *function, inlined ? "alwaysinline" : "noinline");
  *saved = LLVMGetInsertBlock(cg->builder);
  tn__cg_at(cg, LLVMAppendBasicBlockInContext(cg->context, *function, "entry"));
  return true;
}

void tn__cg_helper_end(tn__cg *cg, LLVMBasicBlockRef saved) { tn__cg_at(cg, saved); }
