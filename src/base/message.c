#include "base/message.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"

/* ---- texts without special characters: the common case ----------------------------------------------------------- */

static bool is_plain(const char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f) return false;
  return true;
}

/* ---- a growing text (base/strbuf.h cannot be used: it creates statuses itself) ----------------------------------- */

typedef struct growing {
  char *text;
  size_t length, capacity;
  bool failed;
} growing;

static void put_bytes(growing *out, const char *bytes, size_t size) {
  if (out->failed) return;
  if (out->capacity - out->length <= size) {
    size_t capacity = 2 * out->capacity + size + 64;
    char *more = realloc(out->text, capacity);
    if (more == NULL) {
      out->failed = true;
      return;
    }
    out->text = more;
    out->capacity = capacity;
  }
  memcpy(out->text + out->length, bytes, size);
  out->length += size;
  out->text[out->length] = '\0';
}

/* ---- texts with special characters, one conversion at a time ----------------------------------------------------- */

typedef struct conversion {
  char spec[32]; /* "%-*.*lld" */
  int stars[2];  /* values of '*' */
  int star_count;
  int precision; /* -1: none */
  char size;     /* 0, 'h', 'l', 'L' for ll, 'z', 't', 'j', 'D' for long double */
  char kind;     /* 'd', 's', ... */
} conversion;

static char read_size(const char **at) {
  switch (**at) {
    case 'h': *at += (*at)[1] == 'h' ? 2 : 1; return 'h';
    case 'l': *at += (*at)[1] == 'l' ? 2 : 1; return (*at)[-2] == 'l' ? 'L' : 'l';
    case 'L': ++*at; return 'D';
    case 'z':
    case 't':
    case 'j': return *(*at)++;
    default: return 0;
  }
}

/* Parses a conversion at '%' and moves `*at` past it. Returns false for conversions that messages do not use. */
TN_MUST_USE static bool read_conversion(const char **at, va_list *args, conversion *c) {
  const char *from = (*at)++;
  *c = (conversion){.precision = -1};
  *at += strspn(*at, "-+ #0");
  for (int part = 0; part < 2; part++) {
    int value = -1;
    if (part == 1 && **at != '.') break;
    *at += part;
    if (**at == '*') {
      value = c->stars[c->star_count++] = va_arg(*args, int);
      ++*at;
    } else {
      char *end;
      long number = strtol(*at, &end, 10);
      value = (int)number;
      *at = end;
    }
    if (part == 1) c->precision = value;
  }
  c->size = read_size(at);
  c->kind = *(*at)++;
  size_t length = (size_t)(*at - from);
  if (length >= sizeof(c->spec) || c->kind == '\0' || strchr("diouxXcspeEfFgGaA%", c->kind) == NULL) return false;
  memcpy(c->spec, from, length);
  return true;
}

/* Appends up to `most` bytes, escaped. Keeps newlines and tabs unless `name` is set. */
static void put_text(growing *out, const char *text, size_t most, bool name) {
  char shown[TN__SHOWN_CHAR];
  size_t length = strnlen(text, most);
  char *copy = strndup(text, length);
  if (copy == NULL) {
    out->failed = true;
    return;
  }
  for (const char *at = copy; *at != '\0';) {
    if (!name && (*at == '\n' || *at == '\t')) {
      put_bytes(out, at++, 1);
      continue;
    }
    at += tn__shown_char(at, shown);
    put_bytes(out, shown, strlen(shown));
  }
  free(copy);
}

/* Ignores the width, because no message pads a name. */
static void put_string(growing *out, const char *text, const conversion *c, bool quoted) {
  put_text(out, text == NULL ? "(null)" : text, c->precision < 0 ? SIZE_MAX : (size_t)c->precision, quoted);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#define PUT(value)                                                                  \
  (c->star_count == 0   ? snprintf(text, sizeof(text), c->spec, value)              \
   : c->star_count == 1 ? snprintf(text, sizeof(text), c->spec, c->stars[0], value) \
                        : snprintf(text, sizeof(text), c->spec, c->stars[0], c->stars[1], value))

static void put_number(growing *out, const conversion *c, va_list *args) {
  char text[512];
  if (c->kind == 'p')
    PUT(va_arg(*args, void *));
  else if (strchr("eEfFgGaA", c->kind) != NULL && c->size == 'D')
    PUT(va_arg(*args, long double));
  else if (strchr("eEfFgGaA", c->kind) != NULL)
    PUT(va_arg(*args, double));
  else if (c->size == 'L')
    PUT(va_arg(*args, long long));
  else if (c->size == 'l')
    PUT(va_arg(*args, long));
  else if (c->size == 'z')
    PUT(va_arg(*args, size_t));
  else if (c->size == 't')
    PUT(va_arg(*args, ptrdiff_t));
  else if (c->size == 'j')
    PUT(va_arg(*args, intmax_t));
  else
    PUT(va_arg(*args, int));
  put_text(out, text, SIZE_MAX, c->kind == 'c');
}
#undef PUT
#pragma GCC diagnostic pop

/* Returns false for conversions that messages do not use. */
TN_MUST_USE static bool put_all(growing *out, const char *format, va_list *args) {
  for (const char *at = format; *at != '\0';) {
    const char *percent = strchrnul(at, '%');
    conversion c;
    put_bytes(out, at, (size_t)(percent - at)); /* literal text of the format */
    bool quoted = percent > format && percent[-1] == '"';
    at = percent;
    if (*at == '\0') break;
    if (!read_conversion(&at, args, &c)) return false;
    if (c.kind == '%')
      put_bytes(out, "%", 1);
    else if (c.kind == 's')
      put_string(out, va_arg(*args, const char *), &c, quoted && *at == '"');
    else
      put_number(out, &c, args);
  }
  return true;
}

/* Formats with escaped arguments. Returns NULL when out of memory. */
static char *format_careful(const char *format, va_list *args, size_t tail) {
  growing out = {.text = NULL};
  put_bytes(&out, "", 0);
  char *text = put_all(&out, format, args) && !out.failed ? realloc(out.text, out.length + 1 + tail) : NULL;
  if (text == NULL) free(out.text);
  return text;
}

char *tn__shown_format(const char *format, va_list args, size_t tail) {
  va_list again, shown;
  va_copy(again, args);
  va_copy(shown, args);
  int length = vsnprintf(NULL, 0, format, args);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1 + tail);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  if (text != NULL && !is_plain(text)) {
    free(text);
    text = format_careful(format, &shown, tail);
  }
  va_end(shown);
  va_end(again);
  return text;
}
