/* Prefetches, and instructions on small tensors. */
#include "codegen/llvm/emit.h"

void tn__cg_prefetch(tn__cg *cg, const tn__stmt *s) {
  if (tn__cg_storage_of(cg, s->as.prefetch.buffer)->slots != NULL) return; /* it became values */
  LLVMValueRef pointer = tn__cg_address(cg, s->as.prefetch.buffer, s->as.prefetch.indices);
  /* For reading, into all levels or all but the nearest, data. */
  LLVMValueRef args[] = {pointer, LLVMConstInt(cg->i32, 0, 0), LLVMConstInt(cg->i32, s->as.prefetch.far ? 2 : 3, 0),
                         LLVMConstInt(cg->i32, 1, 0)};
  tn__cg_intrinsic(cg, "llvm.prefetch", &cg->ptr, 1, args, 4);
}

static LLVMValueRef load_at(tn__cg *cg, const tn__access *a, LLVMTypeRef type) {
  LLVMValueRef load = LLVMBuildLoad2(cg->builder, type, tn__cg_address(cg, a->buffer, a->indices), "");
  LLVMSetAlignment(load, (unsigned)tn_dtype_size(a->buffer->dtype));
  return load;
}

/* c[0:16] += a[p] * b[0:16, p], with as many products for each element as fit 32 bits. */
static void emit_dot(tn__cg *cg, const tn__access *operands, const char *intrinsic, LLVMTypeRef result,
                     LLVMTypeRef packed) {
  LLVMValueRef group = tn__cg_broadcast(cg, load_at(cg, &operands[1], cg->i32), 16);
  LLVMValueRef args[] = {load_at(cg, &operands[0], result), LLVMBuildBitCast(cg->builder, group, packed, ""),
                         load_at(cg, &operands[2], packed)};
  LLVMValueRef sum = tn__cg_intrinsic(cg, intrinsic, NULL, 0, args, 3);
  const tn__access *c = &operands[0];
  LLVMValueRef store = LLVMBuildStore(cg->builder, sum, tn__cg_address(cg, c->buffer, c->indices));
  LLVMSetAlignment(store, (unsigned)tn_dtype_size(c->buffer->dtype));
  tn__cg_storage_of(cg, c->buffer)->version = ++cg->frame->version;
}

bool tn__cg_x86_has(const tn__cg *cg, tn__features features) {
  return cg->target->arch == TN__ARCH_X86_64 && (cg->target->features & features) == features;
}

void tn__cg_tensor(tn__cg *cg, const tn__stmt *s) {
  const tn__access *operands = s->as.tensor.operands;
  switch (s->as.tensor.op) {
    case TN__TENSOR_DPBF16PS:
      if (!tn__cg_x86_has(cg, TN__X86_AVX512BF16 | TN__X86_AVX512F)) break;
      emit_dot(cg, operands, "llvm.x86.avx512bf16.dpbf16ps.512", LLVMVectorType(cg->f32, 16),
               LLVMVectorType(LLVMBFloatTypeInContext(cg->context), 32));
      return;
    case TN__TENSOR_DPBUSD:
      if (!tn__cg_x86_has(cg, TN__X86_AVX512VNNI | TN__X86_AVX512F)) break;
      emit_dot(cg, operands, "llvm.x86.avx512.vpdpbusd.512", LLVMVectorType(cg->i32, 16), LLVMVectorType(cg->i32, 16));
      return;
    case TN__TENSOR_COUNT: break;
  }
  tn__cg_stmt(cg, s->as.tensor.body);
}
