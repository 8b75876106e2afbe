#include "ir/running.h"

#include "base/dtype.h"

/* Operations that are associative to the last bit, but for the sign of a zero. */
static bool is_exact(const tn__expr *e) {
  switch (e->kind) {
    case TN__EXPR_MIN:
    case TN__EXPR_MAX:
    case TN__EXPR_AND:
    case TN__EXPR_OR: return true;
    case TN__EXPR_ADD:
    case TN__EXPR_MUL: return !tn__dtype_is_float(e->dtype);
    default: return false;
  }
}

static const tn__expr *without_likely(const tn__expr *e) {
  return e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY ? e->args[0] : e;
}

bool tn__ir_running_of(tn__ir *ir, const tn__expr *value, const tn__buffer *buffer, tn__ir_running *out) {
  *out = (tn__ir_running){0};
  if (value->kind == TN__EXPR_SELECT) {
    const tn__expr *follows = without_likely(value->args[0]);
    if (follows->kind != TN__EXPR_LT || !tn__ir_is_int_value(follows->args[0], 0) ||
        follows->args[1]->dtype != TN_I64 || tn__interval_of(ir, follows->args[1]).min < 0 ||
        tn__expr_uses_buffer(value->args[2], buffer) || tn__expr_has_load(follows))
      return false;
    out->follows = follows;
    out->first = value->args[2];
    value = value->args[1];
  }
  if (!is_exact(value)) return false;
  for (int side = 0; side < 2; side++) {
    const tn__expr *before = value->args[side], *term = value->args[1 - side];
    if (before->kind != TN__EXPR_LOAD || before->value.buffer != buffer || tn__expr_uses_buffer(term, buffer)) continue;
    out->combine = value;
    out->before = before;
    out->term = term;
    return true;
  }
  return false;
}
