/* x86-64: dot products of bytes and of bf16, scaling by powers of two, and the fence behind non-temporal stores. */
#include "codegen/llvm/arch.h"

static bool has(const tn__cg *cg, tn__features features) { return (cg->target->cpu.features & features) == features; }

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

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

static bool tensor(tn__cg *cg, const tn__stmt *s) {
  const tn__access *operands = s->as.tensor.operands;
  switch (s->as.tensor.op) {
    case TN__TENSOR_DPBF16PS:
      if (!tn__target_can(cg->target, TN__CAN_DPBF16PS)) return false;
      emit_dot(cg, operands, "llvm.x86.avx512bf16.dpbf16ps.512", LLVMVectorType(cg->f32, 16),
               LLVMVectorType(LLVMBFloatTypeInContext(cg->context), 32));
      return true;
    case TN__TENSOR_DPBUSD:
      if (!tn__target_can(cg->target, TN__CAN_DPBUSD)) return false;
      emit_dot(cg, operands, "llvm.x86.avx512.vpdpbusd.512", LLVMVectorType(cg->i32, 16), LLVMVectorType(cg->i32, 16));
      return true;
    default: break; /* of another machine */
  }
  return false;
}

/* ---- dot4 -------------------------------------------------------------------------------------------------------- */
/* One instruction (VNNI's vpdpbusd), where there is one. Else the bytes become numbers of 16 bits, those at even and at
 * odd places by themselves, which vpmaddwd multiplies and adds in pairs: 255 * -128 * 2 fits 32 bits. (vpmaddubsw takes
 * bytes as they are, but its sums saturate at 16 bits.) */

typedef struct dot_way {
  const char *name; /* the intrinsic */
  int lanes;        /* of 32 bits */
} dot_way;

static bool has_vnni(const tn__cg *cg, int lanes) {
  tn__features features = TN__X86_AVX512VNNI | (lanes == 16 ? TN__X86_AVX512F : TN__X86_AVX512VL);
  return has(cg, features) || (lanes < 16 && has(cg, TN__X86_AVXVNNI));
}

/* The widest instruction of which whole ones make up the lanes; lanes 0: there is none. */
static dot_way vnni_way(const tn__cg *cg, int lanes) {
  static const dot_way ways[] = {
      {"llvm.x86.avx512.vpdpbusd.512", 16}, {"llvm.x86.avx512.vpdpbusd.256", 8}, {"llvm.x86.avx512.vpdpbusd.128", 4}};
  for (int i = 0; i < 3; i++)
    if (lanes % ways[i].lanes == 0 && has_vnni(cg, ways[i].lanes)) return ways[i];
  return (dot_way){NULL, 0};
}

static dot_way pair_way(const tn__cg *cg, int lanes) {
  if (lanes % 16 == 0 && has(cg, TN__X86_AVX512BW)) return (dot_way){"llvm.x86.avx512.pmaddw.d.512", 16};
  if (lanes % 8 == 0 && has(cg, TN__X86_AVX2)) return (dot_way){"llvm.x86.avx2.pmadd.wd", 8};
  if (lanes % 4 == 0 && has(cg, 0)) return (dot_way){"llvm.x86.sse2.pmadd.wd", 4};
  return (dot_way){NULL, 0};
}

/* Bytes 0 and 2 (odd: 1 and 3) of each lane as numbers of 16 bits. What is the same in all lanes stays one number. */
static LLVMValueRef unsigned_halves(tn__cg *cg, const tn__cg_value *x, int lanes, bool odd) {
  LLVMTypeRef type = LLVMTypeOf(x->v);
  LLVMValueRef v = odd ? LLVMBuildLShr(cg->builder, x->v, tn__cg_int(type, 8), "") : x->v;
  tn__cg_value two = {.v = LLVMBuildAnd(cg->builder, v, tn__cg_int(type, 0x00ff00ff), ""), .lanes = x->lanes};
  return LLVMBuildBitCast(cg->builder, tn__cg_widen(cg, two, lanes), LLVMVectorType(cg->i16, 2 * (unsigned)lanes), "");
}

static LLVMValueRef signed_halves(tn__cg *cg, const tn__cg_value *x, int lanes, bool odd) {
  LLVMTypeRef words = LLVMVectorType(cg->i16, 2 * (unsigned)lanes);
  LLVMValueRef v = LLVMBuildBitCast(cg->builder, tn__cg_widen(cg, *x, lanes), words, ""), eight = tn__cg_int(words, 8);
  return LLVMBuildAShr(cg->builder, odd ? v : LLVMBuildShl(cg->builder, v, eight, ""), eight, "");
}

static LLVMValueRef add_pairs(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes,
                              const dot_way *way) {
  for (int odd = 0; odd < 2; odd++) {
    LLVMValueRef x = unsigned_halves(cg, a, lanes, odd), y = signed_halves(cg, b, lanes, odd);
    LLVMValueRef sums = tn__cg_undef(LLVMTypeOf(acc));
    for (int first = 0; first < lanes; first += way->lanes) {
      LLVMValueRef args[] = {tn__cg_slice(cg, x, 2 * first, 2 * way->lanes),
                             tn__cg_slice(cg, y, 2 * first, 2 * way->lanes)};
      sums = tn__cg_splice(cg, sums, tn__cg_intrinsic(cg, way->name, NULL, 0, args, 2), first);
    }
    acc = LLVMBuildAdd(cg->builder, acc, sums, "");
  }
  return acc;
}

static LLVMValueRef dot4(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes) {
  dot_way pairs = pair_way(cg, lanes), vnni = vnni_way(cg, lanes);
  if (vnni.lanes == 0) return pairs.lanes > 0 ? add_pairs(cg, acc, a, b, lanes, &pairs) : NULL;
  LLVMValueRef x = tn__cg_widen(cg, *a, lanes), y = tn__cg_widen(cg, *b, lanes);
  for (int first = 0; first < lanes; first += vnni.lanes) {
    LLVMValueRef args[] = {tn__cg_slice(cg, acc, first, vnni.lanes), tn__cg_slice(cg, x, first, vnni.lanes),
                           tn__cg_slice(cg, y, first, vnni.lanes)};
    acc = tn__cg_splice(cg, acc, tn__cg_intrinsic(cg, vnni.name, NULL, 0, args, 3), first);
  }
  return acc;
}

/* ---- dot2, sums of distances ------------------------------------------------------------------------------------- */

static LLVMValueRef dot2(tn__cg *cg, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b, int lanes) {
  static const char *const names[] = {"llvm.x86.avx512.vpdpwssd.128", "llvm.x86.avx512.vpdpwssd.256",
                                      "llvm.x86.avx512.vpdpwssd.512"};
  dot_way way = pair_way(cg, lanes);
  if (way.lanes == 0) return NULL;
  const char *fused = has_vnni(cg, way.lanes) ? names[way.lanes / 8] : NULL;
  LLVMTypeRef halves = LLVMVectorType(cg->i16, 2 * (unsigned)way.lanes);
  for (int first = 0; first < lanes; first += way.lanes) {
    LLVMValueRef x = tn__cg_slice(cg, a, first, way.lanes), y = tn__cg_slice(cg, b, first, way.lanes);
    LLVMValueRef sum = tn__cg_slice(cg, acc, first, way.lanes);
    if (fused != NULL) {
      LLVMValueRef args[] = {sum, x, y};
      sum = tn__cg_intrinsic(cg, fused, NULL, 0, args, 3);
    } else {
      LLVMValueRef args[] = {LLVMBuildBitCast(cg->builder, x, halves, ""),
                             LLVMBuildBitCast(cg->builder, y, halves, "")};
      sum = LLVMBuildAdd(cg->builder, sum, tn__cg_intrinsic(cg, way.name, NULL, 0, args, 2), "");
    }
    acc = tn__cg_splice(cg, acc, sum, first);
  }
  return acc;
}

static LLVMValueRef sum_of_distances(tn__cg *cg, LLVMValueRef a, LLVMValueRef b, int lanes) {
  dot_way way = {"llvm.x86.sse2.psad.bw", 2};
  if (lanes % 4 == 0 && has(cg, TN__X86_AVX2)) way = (dot_way){"llvm.x86.avx2.psad.bw", 4};
  if (lanes % 8 == 0 && has(cg, TN__X86_AVX512BW)) way = (dot_way){"llvm.x86.avx512.psad.bw.512", 8};
  if (lanes % way.lanes != 0) return NULL;
  LLVMValueRef sums = tn__cg_undef(LLVMVectorType(cg->i64, (unsigned)lanes));
  for (int first = 0; first < lanes; first += way.lanes) {
    LLVMValueRef args[] = {tn__cg_slice(cg, a, 8 * first, 8 * way.lanes),
                           tn__cg_slice(cg, b, 8 * first, 8 * way.lanes)};
    sums = tn__cg_splice(cg, sums, tn__cg_intrinsic(cg, way.name, NULL, 0, args, 2), first);
  }
  return sums;
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

/* By AVX-512's own instruction, a register at a time. */
static LLVMValueRef scale(tn__cg *cg, LLVMValueRef value, LLVMValueRef count) {
  LLVMTypeRef type = LLVMTypeOf(value);
  bool wide = tn__cg_element(type) == cg->f64;
  int lanes = tn__cg_lanes(type), unit = wide ? 8 : 16;
  if (!has(cg, TN__X86_AVX512F) || lanes % unit != 0) return NULL;
  LLVMValueRef result = tn__cg_undef(type);
  for (int i = 0; i < lanes; i += unit) {
    LLVMValueRef part = tn__cg_slice(cg, value, i, unit);
    LLVMValueRef all = LLVMConstAllOnes(wide ? cg->i8 : cg->i16), current_rounding = LLVMConstInt(cg->i32, 4, 0);
    LLVMValueRef args[] = {part, tn__cg_slice(cg, count, i, unit), part, all, current_rounding};
    const char *name = wide ? "llvm.x86.avx512.mask.scalef.pd.512" : "llvm.x86.avx512.mask.scalef.ps.512";
    result = tn__cg_splice(cg, result, tn__cg_intrinsic(cg, name, NULL, 0, args, 5), i);
  }
  return result;
}

/* For vectors of every width. */
static void fence(tn__cg *cg) { tn__cg_intrinsic(cg, "llvm.x86.sse.sfence", NULL, 0, NULL, 0); }

const tn__cg_arch tn__cg_arch_x86 = {
    .tensor = tensor, .dot4 = dot4, .dot2 = dot2, .sum_of_distances = sum_of_distances, .scale = scale, .fence = fence};
