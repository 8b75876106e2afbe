/* Vectorised loops as OpenCL's vectors, on devices that are CPUs: what depends on the lane is a vector, all else stays
 * scalar and is spread where it meets one. A loop is written twice at the most: what cannot be said in vectors (memory
 * of its own, conditions whose lanes are not known, functions that support.txt has for single numbers alone) sets
 * `vector_failed`, and the loop is a plain one, of which the device's compiler makes what it can.
 *
 * Conditions that are known in each lane, as where a row ends in a vector, leave loads and stores of fewer lanes.
 *
 * Bools of lanes are vectors of i32 that are 0 or -1, as comparisons give them. */
#include <stdlib.h>
#include <string.h>

#include "codegen/c/emit.h"
#include "ir/scalar.h"

enum { MOST_LANES = 16, LEAST_LANES = 4 }; /* that OpenCL has; fewer only where the loop has no more */

static const char *fail(tn__cc *cc) {
  cc->vector_failed = true;
  return "0";
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const char *vector_suffix(const tn__cc *cc, tn_dtype dtype) {
  return TN__CC_TEXT(cc, "%sx%d", dtype == TN_BOOL ? "i32" : tn__cc_suffix(dtype), cc->lanes);
}

const char *tn__cc_vector_type(const tn__cc *cc, tn_dtype dtype) {
  return TN__CC_TEXT(cc, "tn_%s", vector_suffix(cc, dtype));
}

static const char *memory_type(const tn__cc *cc, tn_dtype dtype) {
  return TN__CC_TEXT(cc, "%sx%d", tn__cc_memory_type(dtype), cc->lanes);
}

static int value_bits(tn_dtype dtype) {
  if (dtype == TN_BOOL || dtype == TN_F16 || dtype == TN_BF16) return 32;
  return tn__dtype_bits(dtype);
}

static const char *convert(const tn__cc *cc, const char *value, const char *type) {
  return TN__CC_TEXT(cc, "TN_CONVERT(%s, %s)", value, type);
}

/* Whole numbers of so many bits, for masks. */
static const char *mask_type(const tn__cc *cc, int bits) { return TN__CC_TEXT(cc, "tn_i%dx%d", bits, cc->lanes); }

/* ---- what varies ------------------------------------------------------------------------------------------------- */

bool tn__cc_varies(const tn__cc *cc, const tn__expr *e) {
  if (cc->lanes == 0) return false;
  if (tn__expr_uses_var(e, cc->wide)) return true;
  for (int i = 0; i < cc->varying.count; i++)
    if (tn__expr_uses_var(e, cc->varying.data[i])) return true;
  return false;
}

/* Does a place move by a known number of elements from lane to lane? */
TN_MUST_USE static bool stride_of(const tn__cc *cc, const tn__expr *place, int64_t *stride) {
  for (int i = 0; i < cc->varying.count; i++)
    if (tn__expr_uses_var(place, cc->varying.data[i])) return false;
  return tn__ir_stride_in(cc->ir, place, cc->wide, stride);
}

/* Of the first lane, where the others follow from it. */
const tn__expr *tn__cc_first_place(const tn__cc *cc, const tn__expr *place) {
  int64_t stride;
  const tn__expr *first = cc->wide_first;
  if (!tn__cc_varies(cc, place) || !stride_of(cc, place, &stride)) return place;
  return tn__ir_substitute(cc->ir, place, &cc->wide, &first, 1);
}

/* The expression as a vector. */
static const char *spread(tn__cc *cc, const tn__expr *e) {
  const char *text = tn__cc_expr(cc, e);
  if (tn__cc_varies(cc, e)) return text;
  return TN__CC_TEXT(cc, e->dtype == TN_BOOL ? "((%s)(-(%s)))" : "((%s)(%s))", tn__cc_vector_type(cc, e->dtype), text);
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static unsigned all_lanes(const tn__cc *cc) { return (1U << cc->lanes) - 1; }

/* The lanes in which a condition holds, where nothing but the lane decides it. */
TN_MUST_USE static bool lanes_of(const tn__cc *cc, const tn__expr *condition, unsigned *out) {
  *out = 0;
  for (int l = 0; l < cc->lanes; l++) {
    const tn__expr *lane = tn__ir_add(cc->ir, cc->wide_first, tn__ir_index(cc->ir, l));
    const tn__expr *e = tn__ir_substitute(cc->ir, condition, &cc->wide, &lane, 1);
    while (e->kind == TN__EXPR_CALL && e->intrinsic == TN__CALL_LIKELY) e = e->args[0];
    if (!tn__ir_is_int(e)) return false;
    if (e->value.i != 0) *out |= 1U << l;
  }
  return true;
}

static const char *mask_text(const tn__cc *cc, unsigned mask, int bits) {
  const char *text = TN__CC_TEXT(cc, "((%s)(", mask_type(cc, bits));
  for (int l = 0; l < cc->lanes; l++)
    text = TN__CC_TEXT(cc, "%s%s%s", text, l > 0 ? ", " : "", mask >> l & 1 ? "-1" : "0");
  return TN__CC_TEXT(cc, "%s))", text);
}

/* Active lanes from `from` on that lie side by side, as many as a vector has at the most. */
static int run_from(const tn__cc *cc, int from) {
  int count = 0, size = 1;
  while (from + count < cc->lanes && (cc->active >> (from + count) & 1) != 0) count++;
  while (2 * size <= count) size *= 2;
  return count == 0 ? 0 : size;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static const char *space_of(const tn__buffer *buffer) {
  return buffer->scope == TN__SCOPE_PARAM || buffer->scope == TN__SCOPE_WORKSPACE ? "TN_GLOBAL" : "__private";
}

static const char *lane_name(const tn__cc *cc, int lane) { return TN__CC_TEXT(cc, "s%x", (unsigned)lane); }

/* The index of one lane. */
static const char *lane_place(tn__cc *cc, const char *first, int64_t stride, bool known, int lane) {
  if (!known) return TN__CC_TEXT(cc, "%s.%s", first, lane_name(cc, lane));
  return TN__CC_TEXT(cc, "%s + (%lld)", first, (long long)(lane * stride));
}

static const char *loaded(tn__cc *cc, tn_dtype dtype, const char *elements) {
  if (dtype == TN_BOOL) return TN__CC_TEXT(cc, "(%s != 0)", convert(cc, elements, mask_type(cc, 32)));
  if (dtype != TN_F16 && dtype != TN_BF16) return elements;
  return TN__CC_TEXT(cc, "tn_%s_load_f32x%d(%s)", tn_dtype_name(dtype), cc->lanes, elements);
}

static const char *stored(tn__cc *cc, tn_dtype dtype, const char *value) {
  if (dtype == TN_BOOL) return convert(cc, TN__CC_TEXT(cc, "(%s & 1)", value), memory_type(cc, dtype));
  if (dtype != TN_F16 && dtype != TN_BF16) return value;
  return TN__CC_TEXT(cc, "tn_%s_store_f32x%d(%s)", tn_dtype_name(dtype), cc->lanes, value);
}

/* Side by side, of active lanes alone. */
static const char *load_active(tn__cc *cc, const tn__buffer *buffer, const char *first) {
  const char *name = tn__cc_buffer_name(cc, buffer), *type = tn__cc_memory_type(buffer->dtype);
  const char *text = TN__CC_TEXT(cc, "((%s)(", memory_type(cc, buffer->dtype));
  for (int l = 0, size; l < cc->lanes; l += size > 0 ? size : 1) {
    size = run_from(cc, l);
    if (l > 0) text = TN__CC_TEXT(cc, "%s, ", text);
    if (size == 0)
      text = TN__CC_TEXT(cc, "%s0", text);
    else if (size == 1)
      text = TN__CC_TEXT(cc, "%s%s[%s + %d]", text, name, first, l);
    else
      text = TN__CC_TEXT(cc, "%sTN_LOAD(%sx%d, %d, %s, %s + %s + %d)", text, type, size, size, space_of(buffer), name,
                         first, l);
  }
  return TN__CC_TEXT(cc, "%s))", text);
}

static void store_active(tn__cc *cc, const tn__buffer *buffer, const char *first, const char *value) {
  const char *name = tn__cc_buffer_name(cc, buffer), *type = tn__cc_memory_type(buffer->dtype);
  for (int l = 0, size; l < cc->lanes; l += size > 0 ? size : 1) {
    size = run_from(cc, l);
    const char *lanes = "";
    for (int i = l; i < l + size; i++) lanes = TN__CC_TEXT(cc, "%s%x", lanes, (unsigned)i);
    if (size == 1)
      tn__cc_line(cc, "%s[%s + %d] = %s.s%s;", name, first, l, value, lanes);
    else if (size > 1)
      tn__cc_line(cc, "TN_STORE(%sx%d, %d, %s, %s + %s + %d, %s.s%s);", type, size, size, space_of(buffer), name, first,
                  l, value, lanes);
  }
}

/* Digits of a swizzle: `count` lanes from `first` on, `step` apart. */
static const char *swizzle(const tn__cc *cc, int first, int step, int count) {
  const char *text = "s";
  for (int i = 0; i < count; i++) text = TN__CC_TEXT(cc, "%s%x", text, (unsigned)(first + i * step));
  return text;
}

/* Every second or fourth element, or all of them backwards: whole vectors and shuffles, which read nothing outside of
 * the span. NULL: another stride. */
static const char *load_apart(tn__cc *cc, const tn__buffer *buffer, const char *first, int64_t stride) {
  const char *name = tn__cc_buffer_name(cc, buffer), *type = memory_type(cc, buffer->dtype), *space = space_of(buffer);
  const int lanes = cc->lanes, step = (int)stride, each = lanes / (step > 0 ? step : 1);
  if (stride == -1)
    return TN__CC_TEXT(cc, "TN_LOAD(%s, %d, %s, %s + %s - %d).%s", type, lanes, space, name, first, lanes - 1,
                       swizzle(cc, lanes - 1, -1, lanes));
  if ((stride != 2 && stride != 4) || lanes < step) return NULL;
  const char *text = TN__CC_TEXT(cc, "((%s)(", type);
  for (int v = 0; v < step; v++) { /* the last vector ends with the last lane's element */
    const bool last = v == step - 1;
    text =
        TN__CC_TEXT(cc, "%s%sTN_LOAD(%s, %d, %s, %s + %s + %d).%s", text, v > 0 ? ", " : "", type, lanes, space, name,
                    first, last ? (lanes - 1) * (step - 1) : v * lanes, swizzle(cc, last ? step - 1 : 0, step, each));
  }
  return TN__CC_TEXT(cc, "%s))", text);
}

static const char *load_text(tn__cc *cc, const tn__expr *e) {
  const tn__buffer *buffer = e->value.buffer;
  const tn__expr *place = tn__cc_place(cc, buffer, e->args);
  const char *name = tn__cc_buffer_name(cc, buffer), *type = memory_type(cc, buffer->dtype);
  int64_t stride = 0;
  bool known = stride_of(cc, place, &stride);
  const char *first = tn__cc_expr(cc, tn__cc_first_place(cc, place));
  const bool partly = cc->active != all_lanes(cc) && !tn__cc_is_harmless(cc, e);
  if (known && stride == 0 && cc->active != 0)
    return loaded(cc, buffer->dtype, TN__CC_TEXT(cc, "((%s)(%s[%s]))", type, name, first));
  if (known && stride == 1 && partly) {
    first = tn__cc_named(cc, "tn_i64", first);
    return loaded(cc, buffer->dtype, load_active(cc, buffer, first));
  }
  if (known && stride == 1)
    return loaded(cc, buffer->dtype,
                  TN__CC_TEXT(cc, "TN_LOAD(%s, %d, %s, %s + %s)", type, cc->lanes, space_of(buffer), name, first));
  first = tn__cc_named(cc, TN__CC_TEXT(cc, known ? "tn_i64" : "%s", tn__cc_vector_type(cc, TN_I64)), first);
  const char *text = known && !partly ? load_apart(cc, buffer, first, stride) : NULL;
  if (text != NULL) return loaded(cc, buffer->dtype, text);
  text = TN__CC_TEXT(cc, "((%s)(", type);
  for (int l = 0; l < cc->lanes; l++) {
    bool active = !partly || (cc->active >> l & 1) != 0;
    text = active
               ? TN__CC_TEXT(cc, "%s%s%s[%s]", text, l > 0 ? ", " : "", name, lane_place(cc, first, stride, known, l))
               : TN__CC_TEXT(cc, "%s%s0", text, l > 0 ? ", " : "");
  }
  return loaded(cc, buffer->dtype, TN__CC_TEXT(cc, "%s))", text));
}

static void emit_store(tn__cc *cc, const tn__stmt *s) {
  const tn__buffer *buffer = s->as.store.buffer;
  const tn__expr *place = tn__cc_place(cc, buffer, s->as.store.indices), *at = tn__cc_first_place(cc, place);
  int64_t stride = 0;
  bool known = stride_of(cc, place, &stride);
  if (known && stride == 0) {
    fail(cc);
    return;
  }
  tn__cc_begin(cc);
  tn__cc_count(cc, at);
  tn__cc_count(cc, s->as.store.value);
  const char *first = tn__cc_expr(cc, at), *name = tn__cc_buffer_name(cc, buffer);
  const char *type = memory_type(cc, buffer->dtype), *value = stored(cc, buffer->dtype, spread(cc, s->as.store.value));
  if (known && stride == 1 && cc->active == all_lanes(cc)) {
    tn__cc_line(cc, "TN_STORE(%s, %d, %s, %s + %s, %s);", type, cc->lanes, space_of(buffer), name, first, value);
    return;
  }
  value = tn__cc_named(cc, type, value);
  first = tn__cc_named(cc, TN__CC_TEXT(cc, known ? "tn_i64" : "%s", tn__cc_vector_type(cc, TN_I64)), first);
  if (known && stride == 1) {
    store_active(cc, buffer, first, value);
    return;
  }
  for (int l = 0; l < cc->lanes; l++)
    if ((cc->active >> l & 1) != 0)
      tn__cc_line(cc, "%s[%s] = %s.%s;", name, lane_place(cc, first, stride, known, l), value, lane_name(cc, l));
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static const char *as_type(const tn__cc *cc, const char *suffix, const char *value) {
  return TN__CC_TEXT(cc, "tn_as_%sx%d(%s)", suffix, cc->lanes, value);
}

static const char *unsigned_suffix(const tn__cc *cc, tn_dtype dtype) {
  return TN__CC_TEXT(cc, "u%d", tn__dtype_bits(dtype));
}

/* What may wrap around goes through numbers without a sign. */
static const char *whole_text(tn__cc *cc, const tn__expr *e, const char *op, const char *a, const char *b) {
  if (tn__dtype_is_unsigned(e->dtype) || tn__cc_is_index(e)) return TN__CC_TEXT(cc, "(%s %s %s)", a, op, b);
  const char *u = unsigned_suffix(cc, e->dtype);
  return as_type(cc, tn__cc_suffix(e->dtype), TN__CC_TEXT(cc, "%s %s %s", as_type(cc, u, a), op, as_type(cc, u, b)));
}

static const char *divmod_text(tn__cc *cc, const tn__expr *e) {
  const bool is_div = e->kind == TN__EXPR_DIV, is_signed = tn__dtype_is_signed(e->dtype);
  tn__interval divisor = tn__interval_of(cc->ir, e->args[1]), whole = tn__interval_of(cc->ir, e->args[0]);
  int64_t c;
  bool counts = tn__ir_as_int(e->args[1], &c) && c > 0, power = counts && (c & (c - 1)) == 0;
  if (!counts || (is_signed && !power && (whole.min < 0 || divisor.min < 0))) return fail(cc);
  const char *a = spread(cc, e->args[0]);
  if (!power) return TN__CC_TEXT(cc, "(%s %c %s)", a, is_div ? '/' : '%', spread(cc, e->args[1]));
  if (is_div) return TN__CC_TEXT(cc, "(%s >> %d)", a, __builtin_ctzll((uint64_t)c));
  return TN__CC_TEXT(cc, "(%s & %s)", a, spread(cc, tn__ir_int(cc->ir, e->dtype, c - 1)));
}

static const char *shift_text(tn__cc *cc, const tn__expr *e) {
  int64_t by;
  if (!tn__ir_as_int(e->args[1], &by) || by < 0 || by >= tn__dtype_bits(e->dtype)) return fail(cc);
  const char *a = spread(cc, e->args[0]), *u = unsigned_suffix(cc, e->dtype);
  if (e->kind == TN__EXPR_SHR) return TN__CC_TEXT(cc, "(%s >> %d)", a, (int)by);
  return as_type(cc, tn__cc_suffix(e->dtype), TN__CC_TEXT(cc, "%s << %d", as_type(cc, u, a), (int)by));
}

static const char *rounded(tn__cc *cc, tn_dtype dtype, const char *text) {
  if (dtype != TN_F16 && dtype != TN_BF16) return text;
  return TN__CC_TEXT(cc, "tn_%s_nearest_f32x%d(%s)", tn_dtype_name(dtype), cc->lanes, text);
}

static const char *compared(tn__cc *cc, const tn__expr *e, const char *op) {
  tn_dtype dtype = e->args[0]->dtype;
  if (dtype == TN_BOOL && op[0] == '<') return fail(cc);
  const char *a = spread(cc, e->args[0]), *b = spread(cc, e->args[1]);
  const char *text = TN__CC_TEXT(cc, "(%s %s %s)", a, op, b);
  return value_bits(dtype) == 32 ? text : convert(cc, text, mask_type(cc, 32));
}

static const char *binary_text(tn__cc *cc, const tn__expr *e) {
  const bool floats = tn__dtype_is_float(e->args[0]->dtype);
  switch (e->kind) {
    case TN__EXPR_EQ: return compared(cc, e, "==");
    case TN__EXPR_NE: return compared(cc, e, "!=");
    case TN__EXPR_LT: return compared(cc, e, "<");
    case TN__EXPR_LE: return compared(cc, e, "<=");
    case TN__EXPR_MOD:
      if (floats) return fail(cc);
      return divmod_text(cc, e);
    case TN__EXPR_DIV:
      if (!floats) return divmod_text(cc, e);
      break;
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return shift_text(cc, e);
    default: break;
  }
  static const char ops[] = {[TN__EXPR_ADD] = '+', [TN__EXPR_SUB] = '-', [TN__EXPR_MUL] = '*', [TN__EXPR_DIV] = '/',
                             [TN__EXPR_AND] = '&', [TN__EXPR_OR] = '|',  [TN__EXPR_XOR] = '^'};
  const char *a = spread(cc, e->args[0]), *b = spread(cc, e->args[1]);
  if (e->kind == TN__EXPR_MIN || e->kind == TN__EXPR_MAX) {
    if (e->dtype == TN_BOOL) return TN__CC_TEXT(cc, "(%s %c %s)", a, e->kind == TN__EXPR_MAX ? '|' : '&', b);
    return TN__CC_TEXT(cc, "tn_%s_%s(%s, %s)", e->kind == TN__EXPR_MAX ? "max" : "min", vector_suffix(cc, e->dtype), a,
                       b);
  }
  const char op[] = {ops[e->kind], '\0'};
  if (floats) return rounded(cc, e->dtype, TN__CC_TEXT(cc, "(%s %s %s)", a, op, b));
  if (e->dtype == TN_BOOL || strchr("&|^", op[0]) != NULL) return TN__CC_TEXT(cc, "(%s %s %s)", a, op, b);
  return whole_text(cc, e, op, a, b);
}

static const char *contracted_text(tn__cc *cc, const tn__expr *e) {
  const tn__expr *product = tn__cc_contracted(e);
  const bool left = product == e->args[0], minus = e->kind == TN__EXPR_SUB;
  const char *a = spread(cc, product->args[0]), *b = spread(cc, product->args[1]);
  const char *c = spread(cc, e->args[left ? 1 : 0]);
  return TN__CC_TEXT(cc, "tn_muladd_%s(%s%s, %s, %s%s)", vector_suffix(cc, e->dtype), minus && !left ? "-" : "", a, b,
                     minus && left ? "-" : "", c);
}

/* A side of a choice, which `without` do not take. */
static const char *side_text(tn__cc *cc, const tn__expr *e, unsigned without) {
  unsigned active = cc->active;
  int held = cc->held.count;
  cc->active = active & ~without;
  const char *text = spread(cc, e);
  if (cc->active != active) tn__cc_forget_from(cc, held);
  cc->active = active;
  return text;
}

/* One side or the other for all lanes, and nothing of the other is evaluated. */
static const char *branch_text(tn__cc *cc, const char *condition, const tn__expr *yes, const tn__expr *no) {
  const char *name = TN__CC_TEXT(cc, "t%d", cc->temps++);
  tn__cc_line(cc, "%s %s;", tn__cc_vector_type(cc, yes->dtype), name);
  tn__cc_open_if(cc, condition);
  int held = cc->held.count;
  tn__cc_line(cc, "%s = %s;", name, spread(cc, yes));
  tn__cc_forget_from(cc, held);
  cc->indent--;
  tn__cc_open(cc, "} else");
  tn__cc_line(cc, "%s = %s;", name, spread(cc, no));
  tn__cc_forget_from(cc, held);
  tn__cc_close(cc);
  return name;
}

/* Of lanes that differ: where the condition is not known in each, both sides are evaluated in all. */
static const char *mixed_text(tn__cc *cc, const tn__expr *e) {
  const tn__expr *condition = e->args[0];
  unsigned lanes;
  if (lanes_of(cc, condition, &lanes)) {
    if ((cc->active & lanes) == 0) return spread(cc, e->args[2]);
    if ((cc->active & ~lanes) == 0) return spread(cc, e->args[1]);
    const char *yes = side_text(cc, e->args[1], ~lanes), *no = side_text(cc, e->args[2], lanes);
    return TN__CC_TEXT(cc, "(%s ? %s : %s)", mask_text(cc, lanes, value_bits(e->dtype)), yes, no);
  }
  for (int i = 0; i < 2 && condition->kind == TN__EXPR_AND; i++)
    if (!tn__cc_varies(cc, condition->args[i])) {
      const tn__expr *some = tn__ir_select(cc->ir, condition->args[1 - i], e->args[1], e->args[2]);
      return branch_text(cc, tn__cc_expr(cc, condition->args[i]), some, e->args[2]);
    }
  if (!tn__cc_is_harmless(cc, e->args[1]) || !tn__cc_is_harmless(cc, e->args[2])) return fail(cc);
  const char *a = spread(cc, e->args[1]), *b = spread(cc, e->args[2]), *c = tn__cc_expr(cc, condition);
  if (value_bits(e->dtype) != 32) c = convert(cc, c, mask_type(cc, value_bits(e->dtype)));
  return TN__CC_TEXT(cc, "(%s ? %s : %s)", c, a, b);
}

static const char *select_text(tn__cc *cc, const tn__expr *e) {
  if (tn__cc_varies(cc, e->args[0])) return mixed_text(cc, e);
  const char *condition = tn__cc_expr(cc, e->args[0]);
  if (!tn__cc_is_harmless(cc, e->args[1]) || !tn__cc_is_harmless(cc, e->args[2]))
    return branch_text(cc, condition, e->args[1], e->args[2]);
  const char *a = spread(cc, e->args[1]), *b = spread(cc, e->args[2]);
  return TN__CC_TEXT(cc, "(%s ? %s : %s)", condition, a, b);
}

static const char *cast_text(tn__cc *cc, const tn__expr *e) {
  tn_dtype from = e->args[0]->dtype, to = e->dtype;
  const bool from_float = tn__dtype_is_float(from), to_float = tn__dtype_is_float(to);
  const char *value = spread(cc, e->args[0]), *type = tn__cc_vector_type(cc, to);
  if (from == to) return value;
  if (to == TN_BOOL) {
    value = TN__CC_TEXT(cc, "(%s != 0)", value);
    return value_bits(from) == 32 ? value : convert(cc, value, mask_type(cc, 32));
  }
  if (from == TN_BOOL) return convert(cc, TN__CC_TEXT(cc, "(%s & 1)", value), type);
  if (from_float && !to_float) {
    if (value_bits(from) != 32) return fail(cc);
    return TN__CC_TEXT(cc, "tn_%s_of_%s(%s)", tn__cc_suffix(to), vector_suffix(cc, from), value);
  }
  const bool halves = to == TN_F16 || to == TN_BF16;
  if (!halves) return value_bits(from) == value_bits(to) && from_float && to_float ? value : convert(cc, value, type);
  if (from == TN_F64 || (!from_float && tn__dtype_bits(from) > 16)) return fail(cc); /* two roundings */
  return rounded(cc, to, from_float ? value : convert(cc, value, type));
}

static const char *bitcast_text(tn__cc *cc, const tn__expr *e) {
  tn_dtype from = e->args[0]->dtype, to = e->dtype;
  const bool halves = from == TN_F16 || from == TN_BF16 || to == TN_F16 || to == TN_BF16;
  if (halves || from == TN_BOOL || to == TN_BOOL) return fail(cc);
  return as_type(cc, tn__cc_suffix(to), spread(cc, e->args[0]));
}

/* Has support.txt the function for vectors of this type? */
static bool has_vectors(tn__intrinsic intrinsic, tn_dtype dtype) {
  switch (intrinsic) {
    case TN__CALL_ABS:
    case TN__CALL_SQRT:
    case TN__CALL_RSQRT:
    case TN__CALL_FLOOR:
    case TN__CALL_CEIL:
    case TN__CALL_TRUNC:
    case TN__CALL_ROUND_EVEN:
    case TN__CALL_FMA: return true;
    case TN__CALL_EXP:
    case TN__CALL_EXPM1:
    case TN__CALL_LOG:
    case TN__CALL_TANH:
    case TN__CALL_ERF: return dtype != TN_F64;
    default: return false;
  }
}

static const char *call_text(tn__cc *cc, const tn__expr *e) {
  tn_dtype dtype = e->args[0]->dtype;
  if (e->intrinsic == TN__CALL_LIKELY) return spread(cc, e->args[0]);
  if (e->intrinsic == TN__CALL_DOT4 || e->intrinsic == TN__CALL_DOT2) {
    const char *words = spread(cc, e->args[0]), *others = spread(cc, e->args[1]);
    return TN__CC_TEXT(cc, "tn_%s_%s(%s, %s)", tn__intrinsic_of(e->intrinsic)->name, vector_suffix(cc, dtype), words,
                       others);
  }
  if (!tn__dtype_is_float(dtype)) return fail(cc);
  const char *a = spread(cc, e->args[0]);
  if (e->intrinsic == TN__CALL_NEG) return TN__CC_TEXT(cc, "(-%s)", a);
  if (e->intrinsic == TN__CALL_IS_NAN) {
    const char *text = TN__CC_TEXT(cc, "(%s != %s)", a, a);
    return value_bits(dtype) == 32 ? text : convert(cc, text, mask_type(cc, 32));
  }
  if (!has_vectors(e->intrinsic, dtype)) return fail(cc);
  const char *text = TN__CC_TEXT(cc, "tn_%s_%s(%s", tn__intrinsic_of(e->intrinsic)->name, vector_suffix(cc, dtype), a);
  for (int i = 1; i < e->arg_count; i++) text = TN__CC_TEXT(cc, "%s, %s", text, spread(cc, e->args[i]));
  return rounded(cc, e->dtype, TN__CC_TEXT(cc, "%s)", text));
}

const char *tn__cc_vector_text(tn__cc *cc, const tn__expr *e) {
  if (cc->vector_failed) return "0";
  switch (e->kind) {
    case TN__EXPR_SELECT: return select_text(cc, e);
    case TN__EXPR_NOT: return TN__CC_TEXT(cc, "(~%s)", spread(cc, e->args[0]));
    case TN__EXPR_CAST: return cast_text(cc, e);
    case TN__EXPR_BITCAST: return bitcast_text(cc, e);
    case TN__EXPR_CALL: return call_text(cc, e);
    case TN__EXPR_LOAD: return load_text(cc, e);
    case TN__EXPR_AND:
    case TN__EXPR_OR:
      if (e->dtype == TN_BOOL && !tn__cc_is_harmless(cc, e->args[1])) return fail(cc);
      return binary_text(cc, e);
    default: return tn__cc_contracted(e) != NULL ? contracted_text(cc, e) : binary_text(cc, e);
  }
}

const char *tn__cc_vector_var(tn__cc *cc, const tn__var *var) {
  if (var != cc->wide) return tn__cc_var_name(cc, var);
  return TN__CC_TEXT(cc, "((%s)(%s) + TN_LANES_%d)", tn__cc_vector_type(cc, TN_I64), tn__cc_expr(cc, cc->wide_first),
                     cc->lanes);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void emit_let(tn__cc *cc, const tn__stmt *s) {
  const tn__var *var = s->as.let.var;
  const char *value = tn__cc_whole(cc, s->as.let.value);
  int bound = cc->bound.count, varying = cc->varying.count;
  const char *type = tn__cc_type_of(cc, s->as.let.value), *name = tn__cc_bind_var(cc, var);
  if (tn__cc_varies(cc, s->as.let.value)) tn__vec_push(cc->arena, &cc->varying, var);
  tn__cc_line(cc, "const %s %s = %s;", type, name, value);
  tn__cc_stmt(cc, s->as.let.body);
  cc->varying.count = varying;
  cc->bound.count = bound;
}

/* Of a condition that lanes are asked for. */
static void emit_if(tn__cc *cc, const tn__stmt *s) {
  const tn__expr *condition = s->as.branch.condition;
  unsigned lanes, active = cc->active;
  if (lanes_of(cc, condition, &lanes)) {
    cc->active = active & lanes;
    if (cc->active != 0) tn__cc_stmt(cc, s->as.branch.then_body);
    cc->active = active & ~lanes;
    if (cc->active != 0 && s->as.branch.else_body != NULL) tn__cc_stmt(cc, s->as.branch.else_body);
    cc->active = active;
    return;
  }
  for (int i = 0; i < 2 && condition->kind == TN__EXPR_AND && s->as.branch.else_body == NULL; i++)
    if (!tn__cc_varies(cc, condition->args[i])) {
      tn__cc_open_if(cc, tn__cc_whole(cc, condition->args[i]));
      tn__cc_stmt(cc, tn__ir_if(cc->ir, condition->args[1 - i], s->as.branch.then_body, NULL));
      tn__cc_close(cc);
      return;
    }
  fail(cc);
}

/* What a loop over vectors cannot have inside. Everything else is what it is elsewhere, in terms of vectors. */
bool tn__cc_vector_stmt(tn__cc *cc, const tn__stmt *s) {
  if (cc->vector_failed) return true;
  switch (s->kind) {
    case TN__STMT_STORE: emit_store(cc, s); return true;
    case TN__STMT_LET: emit_let(cc, s); return true;
    case TN__STMT_FOR:
      if (s->as.loop.kind != TN__LOOP_SERIAL || tn__cc_varies(cc, s->as.loop.var->min) ||
          tn__cc_varies(cc, s->as.loop.var->extent))
        break;
      return false;
    case TN__STMT_IF:
      if (!tn__cc_varies(cc, s->as.branch.condition)) return false;
      emit_if(cc, s);
      return true;
    case TN__STMT_SEQ:
    case TN__STMT_PREFETCH: return false;
    default: break;
  }
  fail(cc);
  return true;
}

static int lanes_for(int64_t extent) {
  int lanes = MOST_LANES;
  while (lanes > 1 && extent % lanes != 0) lanes /= 2;
  return lanes >= LEAST_LANES || lanes == extent ? lanes : 1;
}

/* A piece of the loop: the lanes from `first` on. */
static void emit_piece(tn__cc *cc, const tn__stmt *s, const tn__expr *first) {
  int bound = cc->bound.count;
  cc->wide_first = first;
  cc->active = all_lanes(cc);
  tn__cc_open(cc, "%s", "");
  tn__cc_stmt(cc, s->as.loop.body);
  tn__cc_close(cc);
  cc->bound.count = bound;
}

/* Few pieces are written out, since conditions are known there. */
static void emit_pieces(tn__cc *cc, const tn__stmt *s, int64_t extent) {
  enum { MOST_PIECES = 4 };
  const tn__var *var = s->as.loop.var;
  int bound = cc->bound.count;
  if (extent <= MOST_PIECES * cc->lanes) {
    for (int64_t at = 0; at < extent; at += cc->lanes)
      emit_piece(cc, s, tn__ir_add(cc->ir, var->min, tn__ir_index(cc->ir, at)));
    return;
  }
  const char *min = tn__cc_whole(cc, var->min);
  tn__var *first = tn__var_create(cc->ir, var->name, TN_I64, var->min, var->extent);
  const char *name = tn__cc_bind_var(cc, first);
  tn__cc_open(cc, "for (tn_i64 %s = %s; %s < %s + %lld; %s += %d)", name, min, name, min, (long long)extent, name,
              cc->lanes);
  emit_piece(cc, s, first->self);
  tn__cc_close(cc);
  cc->bound.count = bound;
}

bool tn__cc_vector_loop(tn__cc *cc, const tn__stmt *s) {
  int64_t extent;
  if (!cc->on_cpu || cc->dialect->append_vectors == NULL || cc->lanes > 0 ||
      !tn__ir_as_int(s->as.loop.var->extent, &extent))
    return false;
  int lanes = lanes_for(extent), indent = cc->indent, bound = cc->bound.count;
  if (lanes <= 1) return false;
  tn__strbuf *out = cc->out;
  bool fails = cc->fails;
  cc->out = tn__cc_text(cc->arena);
  cc->lanes = lanes;
  cc->wide = s->as.loop.var;
  cc->varying.count = 0;
  cc->vector_failed = false;
  emit_pieces(cc, s, extent);
  cc->lanes = 0;
  cc->bound.count = bound;
  cc->indent = indent;
  const char *text = tn__arena_take(cc->arena, cc->out);
  cc->out = out;
  if (cc->vector_failed) {
    cc->fails = fails;
    return false;
  }
  tn__strbuf_append(out, text);
  cc->has_vectors = true;
  return true;
}
