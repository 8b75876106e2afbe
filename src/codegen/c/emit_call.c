/* Intrinsics: functions of support.txt. */
#include "codegen/c/emit.h"
#include "ir/scalar.h"

static const char *whole_call(tn__cc *cc, const tn__expr *e, const char *const *args) {
  const char *type = tn__cc_value_type(e->dtype);
  int bits = tn__dtype_bits(e->dtype);
  const char *x = args[0];
  const char *word = TN__CC_TEXT(cc, "(tn_u64)(tn_u%d)%s", bits, x);
  switch (e->intrinsic) {
    case TN__CALL_NEG: return TN__CC_TEXT(cc, "((%s)(0 - (tn_u64)%s))", type, x);
    case TN__CALL_ABS:
      return tn__dtype_is_signed(e->dtype) ? TN__CC_TEXT(cc, "tn_abs_%s(%s)", tn__cc_suffix(e->dtype), x) : x;
    case TN__CALL_POW:
      if (!tn__dtype_is_signed(e->dtype)) return TN__CC_TEXT(cc, "((%s)tn_pow_u64(%s, %s))", type, x, args[1]);
      return TN__CC_TEXT(cc, "((%s)tn_pow_i64(%s, %s, %d))", type, x, args[1], bits);
    case TN__CALL_POPCOUNT: return TN__CC_TEXT(cc, "((%s)tn_popcount(%s))", type, word);
    case TN__CALL_CLZ: return TN__CC_TEXT(cc, "((%s)(tn_clz(%s) - %d))", type, word, 64 - bits);
    default: tn__cc_fail(cc, "intrinsic %d on integers", (int)e->intrinsic);
  }
}

const char *tn__cc_call(tn__cc *cc, const tn__expr *e, const char *const *args) {
  tn_dtype dtype = e->args[0]->dtype;
  const char *name = tn__intrinsic_of(e->intrinsic)->name, *text;
  if (e->intrinsic == TN__CALL_LIKELY) return args[0];
  if (e->intrinsic == TN__CALL_DOT4 || e->intrinsic == TN__CALL_DOT2)
    return TN__CC_TEXT(cc, "tn_%s(%s, %s)", name, args[0], args[1]);
  if (e->intrinsic == TN__CALL_SUM8) return TN__CC_TEXT(cc, "tn_sum8(%s)", args[0]);
  if (!tn__dtype_is_float(dtype)) return whole_call(cc, e, args);
  if (e->intrinsic == TN__CALL_NEG) return TN__CC_TEXT(cc, "(-%s)", args[0]);
  text = TN__CC_TEXT(cc, "tn_%s_%s(%s", name, tn__cc_suffix(dtype), args[0]);
  for (int i = 1; i < e->arg_count; i++) text = TN__CC_TEXT(cc, "%s, %s", text, args[i]);
  text = TN__CC_TEXT(cc, "%s)", text);
  if (e->dtype == TN_F16) return TN__CC_TEXT(cc, "tn_round_f16(%s)", text);
  return e->dtype == TN_BF16 ? TN__CC_TEXT(cc, "tn_round_bf16(%s)", text) : text;
}
