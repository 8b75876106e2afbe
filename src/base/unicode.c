#include "base/unicode.h"

#include <stdbool.h>
#include <stddef.h>

uint32_t tn__utf8_next(const char **at, const char *end) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const char *p = *at;
  uint8_t head = (uint8_t)*p;
  *at = p + 1;
  if (head < 0x80) return head;
  int length = head >= 0xf0 && head < 0xf8 ? 4 : head >= 0xe0 && head < 0xf0 ? 3 : head >= 0xc0 && head < 0xe0 ? 2 : 0;
  if (length == 0 || end - p < length) return TN__NOT_UTF8;
  uint32_t code = head & (0x7fu >> length);
  for (int i = 1; i < length; i++) {
    if (((uint8_t)p[i] & 0xc0) != 0x80) return TN__NOT_UTF8;
    code = code << 6 | ((uint8_t)p[i] & 0x3f);
  }
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return TN__NOT_UTF8;
  *at = p + length;
  return code;
}

char *tn__utf8_put(char *at, uint32_t code) {
  if (code < 0x80) {
    *at++ = (char)code;
    return at;
  }
  int rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  *at++ = (char)((0xff00u >> (rest + 1) & 0xff) | code >> 6 * rest);
  while (rest-- > 0) *at++ = (char)(0x80 | (code >> 6 * rest & 0x3f));
  return at;
}

typedef struct case_run {
  uint32_t first;
  uint16_t span; /* from the first to the last */
  uint8_t step;
  int32_t delta;
} case_run;

#include "base/case_table.inc"

static uint32_t change(const case_run *runs, size_t count, uint32_t code) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (runs[middle].first <= code)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return code;
  const case_run *run = &runs[low - 1];
  uint32_t offset = code - run->first;
  return offset <= run->span && offset % run->step == 0 ? (uint32_t)((int32_t)code + run->delta) : code;
}

uint32_t tn__to_lower(uint32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return change(to_lower, sizeof(to_lower) / sizeof(to_lower[0]), code);
}

uint32_t tn__to_upper(uint32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  return change(to_upper, sizeof(to_upper) / sizeof(to_upper[0]), code);
}
