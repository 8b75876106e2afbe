#include "ir/lex.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/scalar.h"

enum { SHOWN = 40, MAX_NUMBER = 64 };

tn_status *tn__lexer_place(const tn__lexer *lex, const tn__token *at, tn_status *status) {
  tn__place place = {at->text, at->line, at->column};
  tn_status *whole = tn__error_status(lex->name, lex->text, lex->end, &place, status);
  tn_status_free(status);
  return whole;
}

void tn__lexer_fail(const tn__lexer *lex, const tn__token *at, const char *format, ...) {
  tn__arena *arena = tn__ir_arena(lex->ir);
  tn__place place = {at->text, at->line, at->column};
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INVALID_ARGUMENT, format, args);
  va_end(args);
  if (lex->errors != NULL) tn__errors_throw(lex->errors, arena, &place, status);
  tn__throw(arena->escape, tn__lexer_place(lex, at, status));
}

typedef struct reading {
  tn__arena *arena;
  void (*body)(locale_t locale, void *user);
  void *user;
  locale_t locale;
} reading;

static void read_in(tn__escape *escape, void *arg) {
  reading *r = arg;
  r->arena->escape = escape;
  r->body(r->locale, r->user);
}

tn_status *tn__lexer_read(tn__arena *arena, const char *name, void (*body)(locale_t locale, void *user), void *user) {
  reading r = {arena, body, user, newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (r.locale == (locale_t)0) return tn_status_create(TN_OUT_OF_MEMORY, "%s: no memory for the C locale", name);
  tn__escape escape, *outer = arena->escape;
  tn_status *status = tn__protect(&escape, read_in, &r);
  arena->escape = outer;
  freelocale(r.locale);
  return status;
}

void tn__lexer_open(tn__lexer *lex, tn__ir *ir, const char *name, const char *text, size_t length, locale_t locale) {
  *lex = (tn__lexer){
      .ir = ir, .name = name, .text = text, .at = text, .end = text + length, .line_start = text, .line = 1};
  lex->locale = locale;
}

void tn__lexer_init(tn__lexer *lex, tn__ir *ir, const char *name, const char *text, size_t length, locale_t locale) {
  tn__lexer_open(lex, ir, name, text, length, locale);
  tn__lexer_advance(lex);
}

static void skip_blanks(tn__lexer *lex) {
  while (lex->at < lex->end) {
    if (*lex->at == '\n') {
      lex->line++;
      lex->line_start = ++lex->at;
    } else if (*lex->at == ' ' || *lex->at == '\t' || *lex->at == '\r') {
      lex->at++;
    } else if (lex->end - lex->at >= 2 && lex->at[0] == '/' && lex->at[1] == '/') {
      while (lex->at < lex->end && *lex->at != '\n') lex->at++;
    } else {
      return;
    }
  }
}

static bool is_digit(const tn__lexer *lex, const char *p) { return p < lex->end && isdigit((unsigned char)*p); }

/* digits [. digits] [e [sign] digits] [type] */
static const char *end_of_number(const tn__lexer *lex, const char *p) {
  while (is_digit(lex, p)) p++;
  if (p < lex->end && *p == '.' && is_digit(lex, p + 1))
    for (p++; is_digit(lex, p);) p++;
  if (lex->end - p >= 2 && p[0] == '.' && p[1] == '.') return p; /* 0..n */
  if (p < lex->end && *p == 'e') {
    const char *exponent = p + 1;
    if (exponent < lex->end && (*exponent == '-' || *exponent == '+')) exponent++;
    if (is_digit(lex, exponent))
      for (p = exponent; is_digit(lex, p);) p++;
  }
  while (p < lex->end && tn__ir_text_is_name_char(*p)) p++;
  return p;
}

static const char *end_of_string(const tn__lexer *lex, const char *p) {
  for (p++; p < lex->end && *p != '"' && *p != '\n'; p++)
    if (*p == '\\' && p + 1 < lex->end) p++;
  bool ends = p < lex->end && *p == '"';
  if (!ends && !lex->lenient) tn__lexer_fail(lex, &lex->token, "a string without an end");
  return ends ? p + 1 : p < lex->end ? p : lex->end;
}

void tn__lexer_advance(tn__lexer *lex) {
  skip_blanks(lex);
  tn__token *t = &lex->token;
  *t = (tn__token){
      .kind = TN__TOKEN_END, .text = lex->at, .line = lex->line, .column = (int)(lex->at - lex->line_start) + 1};
  if (lex->at >= lex->end) return;
  const char *p = lex->at;
  if (isalpha((unsigned char)*p) || *p == '_') {
    t->kind = TN__TOKEN_NAME;
    while (p < lex->end && tn__ir_text_is_name_char(*p)) p++;
  } else if (is_digit(lex, p)) {
    t->kind = TN__TOKEN_NUMBER;
    p = end_of_number(lex, p);
  } else if (*p == '"') {
    t->kind = TN__TOKEN_STRING;
    p = end_of_string(lex, p);
  } else {
    t->kind = TN__TOKEN_SIGN;
    size_t left = (size_t)(lex->end - p);
    const tn__operator_row *op = tn__ir_operator_at(p, left);
    if (left >= 2 && ((p[0] == '-' && p[1] == '>') || (p[0] == '.' && p[1] == '.')))
      p += 2;
    else if (op != NULL)
      p += strlen(op->text);
    else if ((strchr("()[]{},:;=?!", *p) != NULL && *p != '\0') || lex->lenient)
      p++;
    else if (isprint((unsigned char)*p))
      tn__lexer_fail(lex, t, "'%c' has no meaning here", *p);
    else
      tn__lexer_fail(lex, t, "byte 0x%02x has no meaning here", (unsigned)(unsigned char)*p);
  }
  t->length = (size_t)(p - t->text);
  lex->at = p;
}

bool tn__lexer_begins_line(const tn__lexer *lex) {
  const char *p = lex->token.text;
  while (p > lex->text && (p[-1] == ' ' || p[-1] == '\t' || p[-1] == '\r')) p--;
  return p == lex->text || p[-1] == '\n';
}

bool tn__lexer_is(const tn__lexer *lex, const char *text) {
  const tn__token *t = &lex->token;
  return (t->kind == TN__TOKEN_SIGN || t->kind == TN__TOKEN_NAME) && t->length == strlen(text) &&
         memcmp(t->text, text, t->length) == 0;
}

bool tn__lexer_take(tn__lexer *lex, const char *text) {
  if (!tn__lexer_is(lex, text)) return false;
  tn__lexer_advance(lex);
  return true;
}

/* What stands there instead, shortened. */
static const char *shown(const tn__lexer *lex) {
  const tn__token *t = &lex->token;
  if (t->kind == TN__TOKEN_END) return "the end of the text";
  int length = t->length > SHOWN ? SHOWN : (int)t->length;
  return tn__arena_printf(tn__ir_arena(lex->ir), "'%.*s'%s", length, t->text, t->length > SHOWN ? "..." : "");
}

void tn__lexer_expect(tn__lexer *lex, const char *text, const char *where) {
  if (!tn__lexer_take(lex, text)) tn__lexer_fail(lex, &lex->token, "expected '%s' %s, not %s", text, where, shown(lex));
}

tn__token tn__lexer_name(tn__lexer *lex, const char *what) {
  tn__token t = lex->token;
  if (t.kind != TN__TOKEN_NAME) tn__lexer_fail(lex, &t, "expected a name for %s, not %s", what, shown(lex));
  if (tn__ir_text_is_reserved(t.text, t.length))
    tn__lexer_fail(lex, &t, "'%.*s' is a word of the language and no name for %s", (int)t.length, t.text, what);
  if (t.length > 255) tn__lexer_fail(lex, &t, "a name of %zu characters; at most 255 are allowed", t.length);
  tn__lexer_advance(lex);
  return t;
}

static const tn__expr *integer(tn__lexer *lex, const tn__token *t, const char *digits, tn_dtype dtype, bool negative) {
  errno = 0;
  unsigned long long magnitude = strtoull(digits, NULL, 10);
  int bits = tn__dtype_bits(dtype);
  bool is_signed = tn__dtype_is_signed(dtype);
  uint64_t limit = is_signed    ? (UINT64_C(1) << (bits - 1)) - !negative
                   : bits == 64 ? UINT64_MAX
                                : (UINT64_C(1) << bits) - 1;
  if (errno == ERANGE || magnitude > limit || (negative && !is_signed && magnitude != 0))
    tn__lexer_fail(lex, t, "%s%s does not fit into %s", negative ? "-" : "", digits, tn_dtype_name(dtype));
  return tn__ir_int(lex->ir, dtype, (int64_t)(negative ? 0 - (uint64_t)magnitude : (uint64_t)magnitude));
}

const tn__expr *tn__lexer_number(tn__lexer *lex, const tn__token *t, bool negative) {
  char digits[MAX_NUMBER];
  size_t length = 0;
  bool fraction = false;
  while (length < t->length) { /* up to the type */
    char c = t->text[length];
    bool exponent = c == 'e' && length + 1 < t->length && strchr("+-0123456789", t->text[length + 1]) != NULL;
    if (!isdigit((unsigned char)c) && c != '.' && !exponent) break;
    fraction |= c == '.' || exponent;
    length += exponent ? 2 : 1;
  }
  if (length >= sizeof(digits))
    tn__lexer_fail(lex, t, "a number of %zu characters; at most %d are allowed", length, MAX_NUMBER - 1);
  memcpy(digits, t->text, length);
  digits[length] = '\0';
  tn_dtype dtype = fraction ? TN_F64 : TN_I64;
  if (length < t->length) dtype = tn__ir_dtype_find(t->text + length, t->length - length);
  if (dtype == TN_DTYPE_INVALID || dtype == TN_BOOL)
    tn__lexer_fail(lex, t, "'%.*s' is no type for a number", (int)(t->length - length), t->text + length);
  if (tn__dtype_is_float(dtype)) {
    double value = strtod_l(digits, NULL, lex->locale);
    const tn__expr *rounded = tn__ir_float(lex->ir, dtype, negative ? -value : value);
    if (isinf(rounded->value.f))
      tn__lexer_fail(lex, t, "%s%s does not fit into %s; the infinite value is %sinf", negative ? "-" : "", digits,
                     tn_dtype_name(dtype), negative ? "-" : "");
    return rounded;
  }
  if (fraction) tn__lexer_fail(lex, t, "%s is no number of type %s", digits, tn_dtype_name(dtype));
  return integer(lex, t, digits, dtype, negative);
}

char *tn__lexer_string(tn__lexer *lex, const tn__token *t) {
  char *out = tn__arena_alloc(tn__ir_arena(lex->ir), t->length);
  size_t length = 0;
  for (size_t i = 1; i + 1 < t->length; i++) {
    char c = t->text[i];
    if (c == '\0') tn__lexer_fail(lex, t, "a zero byte in a string");
    if (c != '\\') {
      out[length++] = c;
      continue;
    }
    c = t->text[++i];
    if (c == 'u' && i + 4 < t->length - 1 && t->text[i + 1] == '0' && t->text[i + 2] == '0') {
      char hex[3] = {t->text[i + 3], t->text[i + 4], '\0'};
      char *end;
      long code = strtol(hex, &end, 16);
      if (*end != '\0' || code <= 0 || code > 0x7f) tn__lexer_fail(lex, t, "the escape \\u00%s is not known", hex);
      out[length++] = (char)code;
      i += 4;
    } else if (c == 'n' || c == 't') {
      out[length++] = c == 'n' ? '\n' : '\t';
    } else if (c == '"' || c == '\\') {
      out[length++] = c;
    } else {
      tn__lexer_fail(lex, t, "the escape \\%c is not known", isprint((unsigned char)c) ? c : '?');
    }
  }
  out[length] = '\0';
  return out;
}
