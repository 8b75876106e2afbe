/* Expressions as text. What a statement uses more than once, and what would be long, becomes a variable in front of it;
 * C's own ?:, && and || keep what is not chosen from being evaluated, and where that needs statements, an if does. */
#include <string.h>

#include "codegen/c/emit.h"

/* A side of a choice that has no more nodes than this is written inside of the expression. */
enum { MOST_INLINE = 40, MOST_TEXT = 120 };

/* ---- what a statement shares ------------------------------------------------------------------------------------- */

static tn__cc_use *slot_of(tn__cc *cc, const tn__expr *e) {
  uint32_t mask = (uint32_t)cc->use_slots - 1, at = (uint32_t)(e->hash ^ (e->hash >> 32)) & mask;
  while (cc->uses[at].e != NULL && cc->uses[at].e != e) at = (at + 1) & mask;
  return &cc->uses[at];
}

void tn__cc_begin(tn__cc *cc) {
  enum { FIRST_SLOTS = 64 };
  if (cc->uses == NULL) {
    cc->use_slots = FIRST_SLOTS;
    cc->uses = TN__NEW_ARRAY(cc->arena, cc->use_slots, tn__cc_use);
  }
  if (cc->use_count > 0) memset(cc->uses, 0, (size_t)cc->use_slots * sizeof(*cc->uses));
  cc->use_count = 0;
  cc->held.count = 0;
}

static tn__cc_use *use_of(tn__cc *cc, const tn__expr *e) {
  if (2 * cc->use_count >= cc->use_slots) {
    tn__cc_use *old = cc->uses;
    int slots = cc->use_slots;
    cc->use_slots = 4 * slots;
    cc->uses = TN__NEW_ARRAY(cc->arena, cc->use_slots, tn__cc_use);
    for (int i = 0; i < slots; i++)
      if (old[i].e != NULL) *slot_of(cc, old[i].e) = old[i];
  }
  tn__cc_use *use = slot_of(cc, e);
  if (use->e == NULL) cc->use_count++;
  use->e = e;
  return use;
}

const tn__expr *tn__cc_place(const tn__cc *cc, const tn__buffer *buffer, const tn__expr *const *indices) {
  return tn__buffer_flatten(cc->ir, buffer, indices);
}

const tn__expr *tn__cc_contracted(const tn__expr *e) {
  if ((e->kind != TN__EXPR_ADD && e->kind != TN__EXPR_SUB) || (e->dtype != TN_F32 && e->dtype != TN_F64)) return NULL;
  bool left = e->args[0]->kind == TN__EXPR_MUL, right = e->args[1]->kind == TN__EXPR_MUL;
  return left == right ? NULL : e->args[left ? 0 : 1];
}

void tn__cc_count(tn__cc *cc, const tn__expr *e) {
  if (e->arg_count == 0 && e->kind != TN__EXPR_LOAD) return;
  if (use_of(cc, e)->uses++ > 0) return;
  tn__work_step(cc->arena, 1);
  if (e->kind == TN__EXPR_LOAD) {
    tn__cc_count(cc, tn__cc_first_place(cc, tn__cc_place(cc, e->value.buffer, e->args)));
    return;
  }
  const tn__expr *product = tn__cc_contracted(e);
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i] != product) tn__cc_count(cc, e->args[i]);
  for (int i = 0; product != NULL && i < product->arg_count; i++) tn__cc_count(cc, product->args[i]);
}

/* Is it an index that GPUs, whose registers have 32 bits, compute in these? */
bool tn__cc_is_narrow(const tn__cc *cc, const tn__expr *e) {
  if (!cc->dialect->launches || cc->on_cpu || e->dtype != TN_I64) return false;
  tn__interval range = tn__interval_of(cc->ir, e);
  if (range.min <= INT32_MIN || range.max >= INT32_MAX) return false;
  switch (e->kind) {
    case TN__EXPR_INT: return true;
    case TN__EXPR_VAR: return e->value.var->min != NULL && e->value.var->extent != NULL;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
    case TN__EXPR_DIV:
    case TN__EXPR_MOD:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return tn__cc_is_narrow(cc, e->args[0]) && tn__cc_is_narrow(cc, e->args[1]);
    default: return false;
  }
}

const char *tn__cc_type_of(const tn__cc *cc, const tn__expr *e) {
  if (tn__cc_varies(cc, e)) return tn__cc_vector_type(cc, e->dtype);
  return tn__cc_is_narrow(cc, e) ? "tn_i32" : tn__cc_value_type(e->dtype);
}

static const char *suffix_of(const tn__cc *cc, const tn__expr *e) {
  return tn__cc_is_narrow(cc, e) ? "i32" : tn__cc_suffix(e->dtype);
}

const char *tn__cc_named(tn__cc *cc, const char *type, const char *value) {
  const char *name = TN__CC_TEXT(cc, "t%d", cc->temps++);
  tn__cc_line(cc, "const %s %s = %s;", type, name, value);
  return name;
}

/* From here on the variable is the expression, until the scope ends. */
static const char *hold(tn__cc *cc, const tn__expr *e, const char *text) {
  tn__cc_use *use = use_of(cc, e);
  const char *name = tn__cc_named(cc, tn__cc_type_of(cc, e), text);
  use->name = name;
  tn__vec_push(cc->arena, &cc->held, e);
  return name;
}

void tn__cc_forget_from(tn__cc *cc, int held) {
  for (int i = held; i < cc->held.count; i++) slot_of(cc, cc->held.data[i])->name = NULL;
  cc->held.count = held;
}

/* ---- what may be evaluated though nobody asked ------------------------------------------------------------------- */

static bool divides(const tn__expr *e) {
  return (e->kind == TN__EXPR_DIV || e->kind == TN__EXPR_MOD) && !tn__dtype_is_float(e->dtype);
}

static bool divisor_is_safe(tn__cc *cc, const tn__expr *divisor) {
  tn__interval range = tn__interval_of(cc->ir, divisor);
  return range.min > 0 || (range.max < 0 && !tn__dtype_is_unsigned(divisor->dtype));
}

static bool load_is_inside(tn__cc *cc, const tn__expr *e) {
  for (int i = 0; i < e->arg_count; i++) {
    if (tn__expr_has_load(e->args[i])) return false;
    if (!tn__ir_prove(cc->ir, tn__ir_le(cc->ir, tn__ir_index(cc->ir, 0), e->args[i])) ||
        !tn__ir_prove(cc->ir, tn__ir_lt(cc->ir, e->args[i], e->value.buffer->shape[i])))
      return false;
  }
  return true;
}

static bool may_fail(tn__cc *cc, tn__expr_set *seen, const tn__expr *e, bool loads_too) {
  if (e->arg_count == 0 && e->kind != TN__EXPR_LOAD) return false;
  if (!tn__expr_set_add(seen, e)) return false;
  if (loads_too && e->kind == TN__EXPR_LOAD && !load_is_inside(cc, e)) return true;
  if (divides(e) && !divisor_is_safe(cc, e->args[1])) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (may_fail(cc, seen, e->args[i], loads_too)) return true;
  return false;
}

/* `loads_too`: may it be evaluated in vain? Else: has it divisions that need a check in front? */
static bool is_harmless(tn__cc *cc, const tn__expr *e, bool loads_too) {
  tn__expr_set seen = {.ir = cc->ir};
  bool fails = may_fail(cc, &seen, e, loads_too);
  tn__expr_set_clear(&seen);
  return !fails;
}

bool tn__cc_is_harmless(tn__cc *cc, const tn__expr *e) { return is_harmless(cc, e, true); }

static bool fits_inline(tn__cc *cc, const tn__expr *e) {
  return tn__expr_size(e) <= MOST_INLINE && is_harmless(cc, e, false);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static void make_part(void *cc, const tn__expr *part) { tn__cc_expr(cc, part); }

/* `variable = e` in a scope of its own. */
static void assign_in_scope(tn__cc *cc, const char *variable, const tn__expr *e) {
  int held = cc->held.count;
  tn__cc_line(cc, "%s = %s;", variable, tn__cc_expr(cc, e));
  tn__cc_forget_from(cc, held);
}

static const char *branched_select(tn__cc *cc, const tn__expr *e, const char *condition) {
  tn__expr_common_parts(cc->ir, e->args[1], e->args[2], make_part, cc);
  const char *name = TN__CC_TEXT(cc, "t%d", cc->temps++);
  tn__cc_line(cc, "%s %s;", tn__cc_value_type(e->dtype), name);
  tn__cc_open_if(cc, condition);
  assign_in_scope(cc, name, e->args[1]);
  cc->indent--;
  tn__cc_open(cc, "} else");
  assign_in_scope(cc, name, e->args[2]);
  tn__cc_close(cc);
  return name;
}

static const char *plain_expr(tn__cc *cc, const tn__expr *e) {
  cc->plain++;
  const char *text = tn__cc_expr(cc, e);
  cc->plain--;
  return text;
}

static const char *select_text(tn__cc *cc, const tn__expr *e) {
  const char *condition = tn__cc_expr(cc, e->args[0]), *sides[2];
  bool in_place = cc->plain > 0 || (fits_inline(cc, e->args[1]) && fits_inline(cc, e->args[2]));
  if (!in_place && (cc->lane == NULL || !is_harmless(cc, e->args[1], true) || !is_harmless(cc, e->args[2], true)))
    return branched_select(cc, e, condition);
  for (int i = 0; i < 2; i++) sides[i] = in_place ? plain_expr(cc, e->args[1 + i]) : tn__cc_expr(cc, e->args[1 + i]);
  return TN__CC_TEXT(cc, "(%s ? %s : %s)", condition, sides[0], sides[1]);
}

static const char *logical_text(tn__cc *cc, const tn__expr *e) {
  bool is_and = e->kind == TN__EXPR_AND;
  const char *left = tn__cc_expr(cc, e->args[0]);
  bool in_place = cc->plain > 0 || fits_inline(cc, e->args[1]);
  if (in_place || is_harmless(cc, e->args[1], true)) {
    const char *right = in_place ? plain_expr(cc, e->args[1]) : tn__cc_expr(cc, e->args[1]);
    return TN__CC_TEXT(cc, "(%s %s %s)", left, is_and ? "&&" : "||", right);
  }
  const char *name = TN__CC_TEXT(cc, "t%d", cc->temps++);
  tn__cc_line(cc, "int %s = %s;", name, left);
  tn__cc_open(cc, is_and ? "if (%s)" : "if (!%s)", name);
  assign_in_scope(cc, name, e->args[1]);
  tn__cc_close(cc);
  return name;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* Sums of indices do not overflow, but what was loaded or cast may be anything. */
bool tn__cc_is_index(const tn__expr *e) {
  if (e->dtype != TN_I64) return false;
  switch (e->kind) {
    case TN__EXPR_INT: return true;
    case TN__EXPR_VAR: return e->value.var->min != NULL;
    case TN__EXPR_ADD:
    case TN__EXPR_SUB:
    case TN__EXPR_MUL:
    case TN__EXPR_DIV:
    case TN__EXPR_MOD:
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return tn__cc_is_index(e->args[0]) && tn__cc_is_index(e->args[1]);
    default: return false;
  }
}

/* What may wrap around goes through numbers without a sign, which do. */
static const char *whole_text(tn__cc *cc, const tn__expr *e, const char *op, const char *a, const char *b) {
  bool wide = tn__dtype_bits(e->dtype) == 64;
  if (e->dtype == TN_U32 || e->dtype == TN_U64 || tn__cc_is_narrow(cc, e))
    return TN__CC_TEXT(cc, "(%s %s %s)", a, op, b);
  if (tn__expr_size(e) <= MOST_INLINE && tn__cc_is_index(e))
    return TN__CC_TEXT(cc, cc->dialect->launches && !cc->on_cpu ? "((tn_i64)%s %s %s)" : "(%s %s %s)", a, op, b);
  const char *type = wide ? "tn_u64" : "tn_u32";
  return TN__CC_TEXT(cc, "((%s)((%s)%s %s (%s)%s))", tn__cc_value_type(e->dtype), type, a, op, type, b);
}

const char *tn__cc_failing(tn__cc *cc, int code) {
  cc->fails = true;
  return TN__CC_TEXT(cc, cc->dialect->launches ? "TN_FAIL(%d)" : "return %d", code);
}

/* Threads that may wait for each other go on with another divisor. */
static const char *checked_divisor(tn__cc *cc, const tn__expr *e, const char *divisor) {
  const char *ending = tn__cc_failing(cc, TN_KERNEL_DIVISION_BY_ZERO);
  if (cc->launch == NULL || tn__cc_threads(cc->launch) == 1) {
    tn__cc_line(cc, "if (%s == 0) %s;", divisor, ending);
    return divisor;
  }
  const char *type = tn__cc_type_of(cc, e), *name = TN__CC_TEXT(cc, "t%d", cc->temps++);
  tn__cc_line(cc, "if (%s == 0) *tn_status = %d;", divisor, TN_KERNEL_DIVISION_BY_ZERO);
  tn__cc_line(cc, "const %s %s = %s == 0 ? (%s)1 : %s;", type, name, divisor, type, divisor);
  return name;
}

static const char *divmod_text(tn__cc *cc, const tn__expr *e, const char *a, const char *b) {
  bool is_div = e->kind == TN__EXPR_DIV, is_signed = tn__dtype_is_signed(e->dtype);
  tn__interval divisor = tn__interval_of(cc->ir, e->args[1]), whole = tn__interval_of(cc->ir, e->args[0]);
  int64_t c;
  if (!divisor_is_safe(cc, e->args[1])) b = checked_divisor(cc, e->args[1], b);
  if (!is_signed || (whole.min >= 0 && divisor.min >= 0))
    return TN__CC_TEXT(cc, "((%s)(%s %c %s))", tn__cc_type_of(cc, e), a, is_div ? '/' : '%', b);
  if (tn__ir_as_int(e->args[1], &c) && c > 0 && (c & (c - 1)) == 0) { /* shifts floor already */
    if (!is_div) return TN__CC_TEXT(cc, "((%s)(%s & %lld))", tn__cc_type_of(cc, e), a, (long long)(c - 1));
    return TN__CC_TEXT(cc, "((%s)(%s >> %d))", tn__cc_type_of(cc, e), a, __builtin_ctzll((uint64_t)c));
  }
  return TN__CC_TEXT(cc, "tn_%s_%s(%s, %s)", is_div ? "div" : "mod", suffix_of(cc, e), a, b);
}

static const char *shift_text(tn__cc *cc, const tn__expr *e, const char *a, const char *b) {
  bool left = e->kind == TN__EXPR_SHL;
  int64_t by;
  if (tn__ir_as_int(e->args[1], &by) && by >= 0 && by < tn__dtype_bits(e->dtype)) {
    const char *type = tn__cc_value_type(e->dtype);
    if (left) return TN__CC_TEXT(cc, "((%s)((tn_u64)%s << %d))", type, a, (int)by);
    return TN__CC_TEXT(cc, "((%s)(%s >> %d))", type, a, (int)by);
  }
  return TN__CC_TEXT(cc, "tn_%s_%s(%s, %s)", left ? "shl" : "shr", tn__cc_suffix(e->dtype), a, b);
}

static const char *rounded(tn__cc *cc, tn_dtype dtype, const char *text) {
  if (dtype == TN_F16) return TN__CC_TEXT(cc, "tn_round_f16(%s)", text);
  return dtype == TN_BF16 ? TN__CC_TEXT(cc, "tn_round_bf16(%s)", text) : text;
}

static const char *extremum_text(tn__cc *cc, const tn__expr *e, const char *a, const char *b) {
  bool is_max = e->kind == TN__EXPR_MAX;
  if (e->dtype == TN_BOOL) return TN__CC_TEXT(cc, "(%s %c %s)", a, is_max ? '|' : '&', b);
  return TN__CC_TEXT(cc, "tn_%s_%s(%s, %s)", is_max ? "max" : "min", suffix_of(cc, e), a, b);
}

static const char *binary_text(tn__cc *cc, const tn__expr *e) {
  const char *a = tn__cc_expr(cc, e->args[0]), *b = tn__cc_expr(cc, e->args[1]);
  bool floats = tn__dtype_is_float(e->args[0]->dtype);
  switch (e->kind) {
    case TN__EXPR_EQ: return TN__CC_TEXT(cc, "(%s == %s)", a, b);
    case TN__EXPR_NE: return TN__CC_TEXT(cc, "(%s != %s)", a, b);
    case TN__EXPR_LT: return TN__CC_TEXT(cc, "(%s < %s)", a, b);
    case TN__EXPR_LE: return TN__CC_TEXT(cc, "(%s <= %s)", a, b);
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return extremum_text(cc, e, a, b);
    case TN__EXPR_DIV:
      return floats ? rounded(cc, e->dtype, TN__CC_TEXT(cc, "(%s / %s)", a, b)) : divmod_text(cc, e, a, b);
    case TN__EXPR_MOD:
      if (!floats) return divmod_text(cc, e, a, b);
      return rounded(cc, e->dtype, TN__CC_TEXT(cc, "tn_fmod_%s(%s, %s)", tn__cc_suffix(e->dtype), a, b));
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return shift_text(cc, e, a, b);
    default: break;
  }
  static const char ops[] = {[TN__EXPR_ADD] = '+', [TN__EXPR_SUB] = '-', [TN__EXPR_MUL] = '*',
                             [TN__EXPR_AND] = '&', [TN__EXPR_OR] = '|',  [TN__EXPR_XOR] = '^'};
  const char op[] = {ops[e->kind], '\0'};
  if (floats) return rounded(cc, e->dtype, TN__CC_TEXT(cc, "(%s %s %s)", a, op, b));
  if (e->dtype == TN_BOOL) return TN__CC_TEXT(cc, "(%s %s %s)", a, op, b);
  return whole_text(cc, e, op, a, b);
}

static const char *contracted_text(tn__cc *cc, const tn__expr *e) {
  const tn__expr *product = tn__cc_contracted(e);
  if (product == NULL) return NULL;
  bool left = product == e->args[0];
  const char *a = tn__cc_expr(cc, product->args[0]), *b = tn__cc_expr(cc, product->args[1]);
  const char *c = tn__cc_expr(cc, e->args[left ? 1 : 0]);
  bool minus = e->kind == TN__EXPR_SUB;
  return TN__CC_TEXT(cc, "tn_muladd_%s(%s%s, %s, %s%s)", tn__cc_suffix(e->dtype), minus && !left ? "-" : "", a, b,
                     minus && left ? "-" : "", c);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const char *call_text(tn__cc *cc, const tn__expr *e) {
  const char *args[4];
  if (e->arg_count > 4) tn__cc_fail(cc, "an intrinsic of %d arguments", e->arg_count);
  for (int i = 0; i < e->arg_count; i++) args[i] = tn__cc_expr(cc, e->args[i]);
  return tn__cc_call(cc, e, args);
}

static const char *load_text(tn__cc *cc, const tn__expr *e) {
  const tn__buffer *buffer = e->value.buffer;
  if (cc->kept != NULL && cc->kept->buffer == buffer) return cc->kept->name;
  const char *place = tn__cc_expr(cc, tn__cc_place(cc, buffer, e->args));
  return tn__cc_loaded(cc, buffer->dtype, TN__CC_TEXT(cc, "%s[%s]", tn__cc_buffer_name(cc, buffer), place));
}

static const char *text_of(tn__cc *cc, const tn__expr *e) {
  const char *text;
  if (tn__cc_varies(cc, e)) return tn__cc_vector_text(cc, e);
  switch (e->kind) {
    case TN__EXPR_SELECT: return select_text(cc, e);
    case TN__EXPR_NOT:
      if (e->dtype == TN_BOOL) return TN__CC_TEXT(cc, "(!%s)", tn__cc_expr(cc, e->args[0]));
      return TN__CC_TEXT(cc, "((%s)~%s)", tn__cc_value_type(e->dtype), tn__cc_expr(cc, e->args[0]));
    case TN__EXPR_CAST: return tn__cc_cast(cc, e->args[0]->dtype, e->dtype, tn__cc_expr(cc, e->args[0]));
    case TN__EXPR_BITCAST: return tn__cc_bitcast(cc, e->args[0]->dtype, e->dtype, tn__cc_expr(cc, e->args[0]));
    case TN__EXPR_CALL: return call_text(cc, e);
    case TN__EXPR_LOAD: return load_text(cc, e);
    case TN__EXPR_AND:
    case TN__EXPR_OR: return e->dtype == TN_BOOL ? logical_text(cc, e) : binary_text(cc, e);
    default: text = contracted_text(cc, e); return text != NULL ? text : binary_text(cc, e);
  }
}

const char *tn__cc_expr(tn__cc *cc, const tn__expr *e) {
  if (e->kind == TN__EXPR_INT) return tn__cc_integer(cc, e->dtype, e->value.i);
  if (e->kind == TN__EXPR_FLOAT) return tn__cc_float(cc, e->dtype, e->value.f);
  if (e->kind == TN__EXPR_VAR)
    return tn__cc_varies(cc, e) ? tn__cc_vector_var(cc, e->value.var) : tn__cc_var_name(cc, e->value.var);
  const tn__cc_use *use = use_of(cc, e);
  if (use->name != NULL) return use->name;
  bool shared = use->uses > 1;
  const char *text = text_of(cc, e);
  if (cc->plain > 0 || (!shared && strlen(text) <= MOST_TEXT)) return text;
  return hold(cc, e, text);
}

const char *tn__cc_whole(tn__cc *cc, const tn__expr *e) {
  tn__cc_begin(cc);
  tn__cc_count(cc, e);
  return tn__cc_expr(cc, e);
}
