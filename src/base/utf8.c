#include "base/utf8.h"

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
