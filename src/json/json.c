#include "json/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"

enum { MOST_LEVELS = 8 };

typedef struct reader {
  tn__arena *arena;
  const char *start, *at, *end; /* start: of the line */
  int line;                     /* 0: there is one */
} reader;

_Noreturn static void wrong(const reader *r, const char *what) {
  const char *line = r->line > 0 ? tn__arena_printf(r->arena, "line %d, ", r->line) : "";
  tn__throwf(r->arena->escape, TN_INVALID_ARGUMENT, "%scolumn %lld: %s", line, (long long)(r->at - r->start + 1), what);
}

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || (*r->at == '\n' && r->line > 0))) {
    bool breaks = *r->at == '\n';
    r->at++;
    if (breaks) r->line++, r->start = r->at;
  }
}

static bool take(reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool take_word(reader *r, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

static uint32_t read_hex(reader *r) {
  uint32_t code = 0;
  for (int i = 0; i < 4; i++) {
    static const char digits[] = "0123456789abcdef";
    char c = r->at < r->end ? *r->at : '\0';
    const char *digit = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    if (digit == NULL) wrong(r, "expected four hexadecimal digits");
    code = code * 16 + (uint32_t)(digit - digits);
    r->at++;
  }
  return code;
}

static char *read_escape(reader *r, char *out) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  char c = r->at < r->end ? *r->at : '\0';
  const char *letter = c == '\0' ? NULL : strchr(letters, c);
  if (letter != NULL) {
    r->at++;
    *out = meanings[letter - letters];
    return out + 1;
  }
  if (c != 'u') wrong(r, "there is no such escape in a text");
  r->at++;
  uint32_t code = read_hex(r);
  if (code >= 0xd800 && code < 0xdc00) {
    if (!take_word(r, "\\u")) wrong(r, "expected the second half of a surrogate pair");
    uint32_t low = read_hex(r);
    if (low < 0xdc00 || low >= 0xe000) wrong(r, "expected the second half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    wrong(r, "expected the first half of a surrogate pair");
  }
  if (code == 0) wrong(r, "a text holds a NUL");
  return tn__utf8_put(out, code);
}

/* Behind the first quote. What is decoded is never longer than what is written. */
static const char *read_text(reader *r) {
  const char *quote = r->at;
  while (quote < r->end && *quote != '"') quote += *quote == '\\' && quote + 1 < r->end ? 2 : 1;
  if (quote >= r->end) wrong(r, "a text does not end");
  char *text = tn__arena_alloc(r->arena, (size_t)(quote - r->at) + 1), *out = text;
  while (r->at < quote) {
    if (*r->at == '\\') {
      r->at++;
      out = read_escape(r, out);
      continue;
    }
    const char *next = r->at;
    uint32_t code = tn__utf8_next(&next, quote);
    if (code == TN__NOT_UTF8) wrong(r, "a text is not UTF-8");
    if (code < 0x20) wrong(r, "a text holds a control character");
    memcpy(out, r->at, (size_t)(next - r->at));
    out += next - r->at;
    r->at = next;
  }
  r->at++;
  *out = '\0';
  return text;
}

static void skip_digits(reader *r) {
  if (r->at == r->end || *r->at < '0' || *r->at > '9') wrong(r, "expected a digit");
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
}

static void read_number(reader *r, tn__json *value) {
  const char *start = r->at;
  if (*r->at == '-') r->at++;
  if (r->at < r->end && *r->at == '0')
    r->at++;
  else
    skip_digits(r);
  if (r->at < r->end && *r->at == '.') {
    r->at++;
    skip_digits(r);
  }
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    r->at++;
    if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
    skip_digits(r);
  }
  value->kind = TN__JSON_NUMBER;
  value->text = tn__arena_strndup(r->arena, start, (size_t)(r->at - start));
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* the program's may write 0,5 */
  value->number = plain == (locale_t)0 ? NAN : strtod_l(value->text, NULL, plain);
  if (plain != (locale_t)0) freelocale(plain);
  if (!isfinite(value->number)) wrong(r, "the number is too large");
}

static tn__json *read_value(reader *r, int level);

static void read_members(reader *r, tn__json *parent, int level) {
  bool object = parent->kind == TN__JSON_OBJECT;
  tn__map names;
  tn__map_init(&names, r->arena);
  char last = object ? '}' : ']';
  tn__json **end = &parent->first;
  if (level == MOST_LEVELS) wrong(r, "the values are nested too deeply");
  if (take(r, last)) return;
  do {
    const char *key = NULL;
    if (object) {
      if (!take(r, '"')) wrong(r, "expected a name in quotes");
      key = read_text(r);
      if (tn__map_has(&names, key)) wrong(r, "the name is there twice");
      tn__map_set(&names, key, parent);
      if (!take(r, ':')) wrong(r, "expected a colon");
    }
    *end = read_value(r, level + 1);
    (*end)->key = key;
    end = &(*end)->next;
  } while (take(r, ','));
  if (!take(r, last))
    wrong(r, object ? "expected a comma or a closing brace" : "expected a comma or a closing bracket");
}

static tn__json *read_value(reader *r, int level) {
  tn__json *value = TN__NEW(r->arena, tn__json);
  skip_space(r);
  value->line = r->line > 0 ? r->line : 1;
  if (r->at == r->end)
    wrong(r, r->line > 0 ? "the text ends where a value is expected" : "the line ends where a value is expected");
  if (take(r, '{')) {
    value->kind = TN__JSON_OBJECT;
    read_members(r, value, level);
  } else if (take(r, '[')) {
    value->kind = TN__JSON_LIST;
    read_members(r, value, level);
  } else if (take(r, '"')) {
    value->kind = TN__JSON_TEXT;
    value->text = read_text(r);
  } else if (take_word(r, "true")) {
    value->kind = TN__JSON_BOOL;
    value->truth = true;
  } else if (take_word(r, "false")) {
    value->kind = TN__JSON_BOOL;
  } else if (take_word(r, "null")) {
    value->kind = TN__JSON_NULL;
  } else if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) {
    read_number(r, value);
  } else {
    wrong(r, "expected a value");
  }
  return value;
}

static tn__json *read_all(reader *r) {
  tn__json *value = read_value(r, 0);
  skip_space(r);
  if (r->at != r->end) wrong(r, "something follows the value");
  return value;
}

tn__json *tn__json_read(tn__arena *arena, const char *line, size_t length) {
  reader r = {arena, line, line, line + length, 0};
  return read_all(&r);
}

tn__json *tn__json_read_text(tn__arena *arena, const char *text, size_t length) {
  reader r = {arena, text, text, text + length, 1};
  return read_all(&r);
}

tn__json *tn__json_member(const tn__json *object, const char *key) {
  for (tn__json *m = object->first; m != NULL; m = m->next)
    if (strcmp(m->key, key) == 0) {
      m->used = true;
      return m;
    }
  return NULL;
}

const char *tn__json_kind_name(tn__json_kind kind) {
  static const char *const names[] = {"null", "true or false", "a number", "a text", "a list", "an object"};
  return names[kind];
}
