/* Names, types, numbers and conversions in text. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codegen/c/emit.h"

void tn__cc_fail(const tn__cc *cc, const char *format, ...) {
  char words[256];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(words, sizeof(words), format, args);
  va_end(args);
  tn__throwf(cc->arena->escape, TN_INTERNAL, "%s for %s: %s", cc->dialect->name, cc->func->name, words);
}

static void release_text(void *text) { tn__strbuf_release(text); }

tn__strbuf *tn__cc_text(tn__arena *arena) {
  tn__strbuf *text = TN__NEW(arena, tn__strbuf);
  tn__strbuf_init(text, NULL);
  tn__arena_defer(arena, release_text, text);
  return text;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void indent(tn__cc *cc) {
  for (int i = 0; i < cc->indent; i++) tn__strbuf_append(cc->out, "  ");
}

static void append(tn__cc *cc, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) tn__cc_fail(cc, "a text that cannot be printed");
  char *text = tn__arena_alloc(cc->arena, (size_t)length + 1);
  (void)vsnprintf(text, (size_t)length + 1, format, args);
  indent(cc);
  tn__strbuf_append_n(cc->out, text, (size_t)length);
}

void tn__cc_line(tn__cc *cc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append(cc, format, args);
  va_end(args);
  tn__strbuf_char(cc->out, '\n');
}

void tn__cc_open(tn__cc *cc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append(cc, format, args);
  va_end(args);
  tn__strbuf_append(cc->out, format[0] == '\0' ? "{\n" : " {\n");
  cc->indent++;
}

/* Returns whether the first parenthesis is closed by the last one. */
static bool is_enclosed(const char *text, size_t length) {
  int depth = 0;
  if (length < 2 || text[0] != '(') return false;
  for (size_t i = 0; i < length; i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0) return i + 1 == length;
  }
  return false;
}

/* clang warns that `if ((a == b))` may be meant as an assignment. */
void tn__cc_open_if(tn__cc *cc, const char *condition) {
  size_t length = strlen(condition);
  while (is_enclosed(condition, length)) condition++, length -= 2;
  tn__cc_open(cc, "if (%.*s)", (int)length, condition);
}

void tn__cc_close(tn__cc *cc) {
  cc->indent--;
  tn__cc_line(cc, "}");
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

const char *tn__cc_suffix(tn_dtype dtype) {
  switch (dtype) {
    case TN_I8: return "i8";
    case TN_I16: return "i16";
    case TN_I32: return "i32";
    case TN_I64: return "i64";
    case TN_BOOL:
    case TN_U8: return "u8";
    case TN_U16: return "u16";
    case TN_U32: return "u32";
    case TN_U64: return "u64";
    case TN_F64: return "f64";
    default: return "f32"; /* and what is computed in it */
  }
}

const char *tn__cc_memory_type(tn_dtype dtype) {
  switch (dtype) {
    case TN_I8: return "tn_i8";
    case TN_I16: return "tn_i16";
    case TN_I32: return "tn_i32";
    case TN_I64: return "tn_i64";
    case TN_BOOL:
    case TN_U8: return "tn_u8";
    case TN_F16:
    case TN_BF16:
    case TN_U16: return "tn_u16";
    case TN_U32: return "tn_u32";
    case TN_U64: return "tn_u64";
    case TN_F64: return "tn_f64";
    default: return "tn_f32";
  }
}

const char *tn__cc_value_type(tn_dtype dtype) {
  if (dtype == TN_BOOL) return "int";
  return dtype == TN_F16 || dtype == TN_BF16 ? "tn_f32" : tn__cc_memory_type(dtype);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A name that nothing else has: letters and digits of the one it has in the IR, and a number. */
static const char *fresh_name(tn__cc *cc, const char *name) {
  char *text = TN__CC_TEXT(cc, "%.40s_%d", name, cc->names++);
  for (char *p = text; *p != '\0'; p++) {
    bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_';
    if (!word) *p = '_';
  }
  return text;
}

const char *tn__cc_bind_var(tn__cc *cc, const tn__var *var) {
  while ((uint32_t)cc->var_names.count <= var->id) tn__vec_push(cc->arena, &cc->var_names, NULL);
  cc->var_names.data[var->id] = fresh_name(cc, var->name);
  tn__vec_push(cc->arena, &cc->bound, (tn__cc_bound){.var = var});
  return cc->var_names.data[var->id];
}

const char *tn__cc_bind_buffer(tn__cc *cc, const tn__buffer *buffer) {
  while ((uint32_t)cc->buffer_names.count <= buffer->id) tn__vec_push(cc->arena, &cc->buffer_names, NULL);
  cc->buffer_names.data[buffer->id] = fresh_name(cc, buffer->name);
  tn__vec_push(cc->arena, &cc->bound, (tn__cc_bound){.buffer = buffer});
  return cc->buffer_names.data[buffer->id];
}

const char *tn__cc_var_name(tn__cc *cc, const tn__var *var) {
  if (var->id >= (uint32_t)cc->var_names.count || cc->var_names.data[var->id] == NULL)
    tn__cc_fail(cc, "variable %s is not bound", var->name);
  return cc->var_names.data[var->id];
}

const char *tn__cc_buffer_name(tn__cc *cc, const tn__buffer *buffer) {
  if (buffer->id >= (uint32_t)cc->buffer_names.count || cc->buffer_names.data[buffer->id] == NULL)
    tn__cc_fail(cc, "buffer %s is not bound", buffer->name);
  return cc->buffer_names.data[buffer->id];
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Of 64-bit numbers. */
static const char *wide_suffix(const tn__cc *cc) { return cc->dialect->plain_long ? "l" : "ll"; }

const char *tn__cc_integer(tn__cc *cc, tn_dtype dtype, int64_t value) {
  if (dtype == TN_BOOL) return value != 0 ? "1" : "0";
  if (dtype == TN_U64) return TN__CC_TEXT(cc, "%lluu%s", (unsigned long long)value, wide_suffix(cc));
  if (tn__dtype_is_unsigned(dtype)) return TN__CC_TEXT(cc, "%lluu", (unsigned long long)value);
  if (value == INT64_MIN) return TN__CC_TEXT(cc, "(-9223372036854775807%s - 1)", wide_suffix(cc));
  const char *suffix = value < -INT32_MAX || value > INT32_MAX ? wide_suffix(cc) : "";
  if (dtype == TN_I32 && value == INT32_MIN) return "(-2147483647 - 1)";
  return TN__CC_TEXT(cc, value < 0 ? "(%lld%s)" : "%lld%s", (long long)value, suffix);
}

static const char *special(tn__cc *cc, bool wide, uint64_t bits) {
  return wide ? TN__CC_TEXT(cc, "tn_special_f64(0x%016llxu%s)", (unsigned long long)bits, wide_suffix(cc))
              : TN__CC_TEXT(cc, "tn_special_f32(0x%08xu)", (unsigned)bits);
}

const char *tn__cc_float(tn__cc *cc, tn_dtype dtype, double value) {
  bool wide = dtype == TN_F64;
  if (isnan(value)) return special(cc, wide, wide ? 0x7ff8000000000000 : 0x7fc00000);
  if (isinf(value) && value > 0) return special(cc, wide, wide ? 0x7ff0000000000000 : 0x7f800000);
  if (isinf(value)) return special(cc, wide, wide ? 0xfff0000000000000 : 0xff800000);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_f64(&text, value);
  const char *digits = tn__arena_take(cc->arena, &text);
  return TN__CC_TEXT(cc, digits[0] == '-' ? "(%s%s)" : "%s%s", digits, wide ? "" : "f");
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

const char *tn__cc_loaded(tn__cc *cc, tn_dtype dtype, const char *element) {
  if (dtype == TN_BOOL) return TN__CC_TEXT(cc, "(%s != 0)", element);
  if (dtype == TN_F16) return TN__CC_TEXT(cc, "tn_load_f16(%s)", element);
  if (dtype == TN_BF16) return TN__CC_TEXT(cc, "tn_load_bf16(%s)", element);
  return element;
}

const char *tn__cc_stored(tn__cc *cc, tn_dtype dtype, const char *value) {
  if (dtype == TN_BOOL) return TN__CC_TEXT(cc, "(tn_u8)(%s)", value);
  if (dtype == TN_F16) return TN__CC_TEXT(cc, "tn_store_f16(%s)", value);
  if (dtype == TN_BF16) return TN__CC_TEXT(cc, "tn_store_bf16(%s)", value);
  return value;
}

static const char *rounded(tn__cc *cc, tn_dtype dtype, const char *value) {
  if (dtype == TN_F16) return TN__CC_TEXT(cc, "tn_round_f16(%s)", value);
  return dtype == TN_BF16 ? TN__CC_TEXT(cc, "tn_round_bf16(%s)", value) : value;
}

/* Converts an integer to f32 or f64. */
static const char *widened(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value) {
  const char *text = TN__CC_TEXT(cc, "((%s)%s)", tn__cc_value_type(to), value);
  bool folded = cc->dialect == &tn__cc_c99 && !tn__dtype_is_unsigned(from); /* support.txt: tn_whole_f32 */
  return folded ? TN__CC_TEXT(cc, "tn_whole_%s%s", tn__cc_suffix(to), text) : text;
}

/* One rounding: whole numbers of 64 bits go to 16-bit floats by way of one that keeps that it was rounded. */
static const char *whole_to_float(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value) {
  int bits = tn__dtype_bits(from);
  if (to == TN_F32 || to == TN_F64) return widened(cc, from, to, value);
  if (bits <= 16) return rounded(cc, to, widened(cc, from, TN_F32, value));
  const char *wide = bits == 64 ? TN__CC_TEXT(cc, "tn_sticky_f64_of_%s(%s)", tn__cc_suffix(from), value)
                                : widened(cc, from, TN_F64, value);
  return rounded(cc, to, TN__CC_TEXT(cc, "tn_odd_f32(%s)", wide));
}

const char *tn__cc_cast(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value) {
  if (from == to) return value;
  if (to == TN_BOOL) return TN__CC_TEXT(cc, "(%s != 0)", value);
  bool from_float = tn__dtype_is_float(from), to_float = tn__dtype_is_float(to);
  if (from_float && to_float) {
    if (to == TN_F64 || (from == TN_F64 && to == TN_F32))
      return TN__CC_TEXT(cc, "((%s)%s)", tn__cc_value_type(to), value);
    return rounded(cc, to, from == TN_F64 ? TN__CC_TEXT(cc, "tn_odd_f32(%s)", value) : value);
  }
  if (from_float) return TN__CC_TEXT(cc, "tn_%s_of_%s(%s)", tn__cc_suffix(to), tn__cc_suffix(from), value);
  if (to_float)
    return from == TN_BOOL ? TN__CC_TEXT(cc, "((%s)%s)", tn__cc_value_type(to), value)
                           : whole_to_float(cc, from, to, value);
  return TN__CC_TEXT(cc, "((%s)%s)", tn__cc_value_type(to), value);
}

const char *tn__cc_bitcast(tn__cc *cc, tn_dtype from, tn_dtype to, const char *value) {
  bool from_float = from == TN_F32 || from == TN_F64, to_float = to == TN_F32 || to == TN_F64;
  if (from == to) return value;
  const char *bits =
      from_float ? TN__CC_TEXT(cc, "tn_bits_%s(%s)", tn__cc_suffix(from), value) : tn__cc_stored(cc, from, value);
  if (to_float)
    return TN__CC_TEXT(cc, "tn_from_%s((%s)%s)", tn__cc_suffix(to), to == TN_F64 ? "tn_u64" : "tn_u32", bits);
  return tn__cc_loaded(cc, to, TN__CC_TEXT(cc, "((%s)%s)", tn__cc_memory_type(to), bits));
}
