#include "base/strbuf.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/shown.h"
#include "base/utf8.h"

void tn__strbuf_init(tn__strbuf *buf, const tn_allocator *allocator) { *buf = (tn__strbuf){.allocator = allocator}; }

void tn__strbuf_release(tn__strbuf *buf) {
  tn__free(buf->allocator, buf->text, buf->capacity, 0);
  tn__strbuf_init(buf, buf->allocator);
}

/* Makes room for `extra` bytes and a NUL; false when the buffer is bad. */
static bool reserve(tn__strbuf *buf, size_t extra) {
  if (buf->failed) return false;
  size_t needed;
  if (__builtin_add_overflow(buf->length + 1, extra, &needed) || needed > SIZE_MAX / 4) {
    buf->failed = true;
    return false;
  }
  if (needed <= buf->capacity) return true;
  size_t capacity = buf->capacity == 0 ? 64 : buf->capacity * 2;
  if (capacity < needed) capacity = needed;
  char *text = tn__realloc(buf->allocator, buf->text, buf->capacity, capacity, 0);
  if (text == NULL) {
    buf->failed = true;
    return false;
  }
  buf->text = text;
  buf->capacity = capacity;
  buf->text[buf->length] = '\0';
  return true;
}

void tn__strbuf_append_n(tn__strbuf *buf, const char *text, size_t length) {
  if (!reserve(buf, length)) return;
  if (length > 0) memcpy(buf->text + buf->length, text, length);
  buf->length += length;
  buf->text[buf->length] = '\0';
}

void tn__strbuf_append(tn__strbuf *buf, const char *text) { tn__strbuf_append_n(buf, text, strlen(text)); }

void tn__strbuf_char(tn__strbuf *buf, char c) { tn__strbuf_append_n(buf, &c, 1); }

void tn__strbuf_printf(tn__strbuf *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) buf->failed = true;
  if (length < 0 || !reserve(buf, (size_t)length)) return;
  va_start(args, format);
  vsnprintf(buf->text + buf->length, (size_t)length + 1, format, args);
  va_end(args);
  buf->length += (size_t)length;
}

/* Bytes of the well-formed UTF-8 sequence at `s` (Unicode 15, table 3-7), or 0. `s` is NUL-terminated. */
static size_t utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0; /* overlong */
  if (s[0] == 0xed && s[1] > 0x9f) return 0; /* a surrogate */
  if (s[0] == 0xf0 && s[1] < 0x90) return 0; /* overlong */
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0; /* beyond U+10FFFF */
  return length;
}

static uint32_t code_of(const unsigned char *s, size_t length) {
  const char *at = (const char *)s;
  return tn__utf8_next(&at, at + length);
}

/* Also protects readers of the raw file: JSON strings may contain these characters unescaped. */
static bool is_unseen(const unsigned char *s, size_t length) { return tn__is_unseen(code_of(s, length)); }

/* Appends \u escapes: a surrogate pair beyond U+FFFF. */
static void put_units(tn__strbuf *buf, const unsigned char *s, size_t length) {
  uint32_t code = code_of(s, length);
  if (code > 0xffff)
    tn__strbuf_printf(buf, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)), (unsigned)(0xdc00 + (code & 0x3ff)));
  else
    tn__strbuf_printf(buf, "\\u%04x", (unsigned)code);
}

void tn__strbuf_json_string(tn__strbuf *buf, const char *text) {
  tn__strbuf_char(buf, '"');
  const unsigned char *s = (const unsigned char *)text;
  while (*s != '\0') {
    size_t length = utf8_length(s);
    if (*s == '"' || *s == '\\') {
      tn__strbuf_printf(buf, "\\%c", *s);
    } else if (*s == '\n') {
      tn__strbuf_append(buf, "\\n");
    } else if (*s == '\t') {
      tn__strbuf_append(buf, "\\t");
    } else if (length == 0) {
      tn__strbuf_append(buf, "\xef\xbf\xbd");
    } else if (is_unseen(s, length)) {
      put_units(buf, s, length);
    } else {
      tn__strbuf_append_n(buf, (const char *)s, length);
    }
    s += length == 0 ? 1 : length;
  }
  tn__strbuf_char(buf, '"');
}

void tn__strbuf_json_text(tn__strbuf *buf, const char *key, const char *text) {
  tn__strbuf_printf(buf, ", \"%s\": ", key);
  tn__strbuf_json_string(buf, text);
}

void tn__strbuf_json_f64(tn__strbuf *buf, const char *key, double number) {
  tn__strbuf_printf(buf, ", \"%s\": ", key);
  if (isfinite(number))
    tn__strbuf_f64(buf, number);
  else
    tn__strbuf_append(buf, "null");
}

void tn__strbuf_f64(tn__strbuf *buf, double value) {
  if (isnan(value) || isinf(value)) {
    tn__strbuf_append(buf, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return;
  }
  /* Any decimal of at most 15 digits survives the way through a normal f64, so "%.15g" finds it; a subnormal has
   * fewer. */
  char text[64];
  int digits = fabs(value) < DBL_MIN ? 1 : 15;
  for (; digits <= 17; digits++) {
    snprintf(text, sizeof(text), "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  /* The process's locale may write the decimal point otherwise, even as several bytes. */
  bool number_like = true;
  for (const char *s = text; *s != '\0';) {
    if (strchr("0123456789+-e", *s) != NULL) {
      if (*s == 'e') number_like = false;
      tn__strbuf_char(buf, *s++);
    } else {
      number_like = false;
      tn__strbuf_char(buf, '.');
      while (*s != '\0' && strchr("0123456789+-e", *s) == NULL) s++;
    }
  }
  if (number_like) tn__strbuf_append(buf, ".0");
}

const char *tn__strbuf_text(const tn__strbuf *buf) { return buf->text == NULL ? "" : buf->text; }

tn_status *tn__strbuf_status(const tn__strbuf *buf) {
  return buf->failed ? tn_status_create(TN_OUT_OF_MEMORY, "out of memory: a text of more than %zu bytes", buf->length)
                     : NULL;
}

bool tn__is_c_word(const char *text) {
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return text[0] != '\0' && strlen(text) < 128;
}
