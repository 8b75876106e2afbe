/* dot4: sums of four products of bytes in each lane of 32 bits.
 *
 * x86 has them as one instruction (VNNI's vpdpbusd). Elsewhere on x86 the bytes become numbers of 16 bits, those at
 * even and at odd places by themselves, which vpmaddwd multiplies and adds in pairs: 255 * -128 * 2 fits 32 bits.
 * (vpmaddubsw takes bytes as they are, but its sums saturate at 16 bits.) All ways give the same numbers. */
#include "codegen/llvm/emit.h"

typedef struct dot_way {
  const char *name; /* the intrinsic */
  int lanes;        /* of 32 bits */
} dot_way;

static bool has_vnni(const tn__cg *cg, int lanes) {
  tn__features features = TN__X86_AVX512VNNI | (lanes == 16 ? TN__X86_AVX512F : TN__X86_AVX512VL);
  return tn__cg_x86_has(cg, features) || (lanes < 16 && tn__cg_x86_has(cg, TN__X86_AVXVNNI));
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
  if (lanes % 16 == 0 && tn__cg_x86_has(cg, TN__X86_AVX512BW)) return (dot_way){"llvm.x86.avx512.pmaddw.d.512", 16};
  if (lanes % 8 == 0 && tn__cg_x86_has(cg, TN__X86_AVX2)) return (dot_way){"llvm.x86.avx2.pmadd.wd", 8};
  if (lanes % 4 == 0 && tn__cg_x86_has(cg, 0)) return (dot_way){"llvm.x86.sse2.pmadd.wd", 4};
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

/* Any target: byte by byte. */
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
  dot_way pairs = pair_way(cg, lanes), vnni = vnni_way(cg, lanes);
  if (vnni.lanes == 0 && pairs.lanes > 0) return add_pairs(cg, acc, a, b, lanes, &pairs);
  LLVMValueRef x = tn__cg_widen(cg, *a, lanes), y = tn__cg_widen(cg, *b, lanes);
  if (vnni.lanes == 0) return add_bytes(cg, acc, x, y);
  for (int first = 0; first < lanes; first += vnni.lanes) {
    LLVMValueRef args[] = {tn__cg_slice(cg, acc, first, vnni.lanes), tn__cg_slice(cg, x, first, vnni.lanes),
                           tn__cg_slice(cg, y, first, vnni.lanes)};
    acc = tn__cg_splice(cg, acc, tn__cg_intrinsic(cg, vnni.name, NULL, 0, args, 3), first);
  }
  return acc;
}
