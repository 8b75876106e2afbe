#include "base/shown.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* The subset of Unicode's categories Cc, Cf, Zl and Zp that does not belong to a single script. */
bool tn__is_unseen(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},      {0x61c, 0x61c},
                {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
                {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  return false;
}

size_t tn__shown_char(const char *text, char out[TN__SHOWN_CHAR]) {
  const char *next = text;
  uint32_t code = tn__utf8_next(&next, text + strnlen(text, 4));
  size_t length = (size_t)(next - text);
  if (code == TN__NOT_UTF8)
    snprintf(out, TN__SHOWN_CHAR, "\\x%02x", (unsigned)(unsigned char)*text);
  else if (code == '\n' || code == '\t')
    snprintf(out, TN__SHOWN_CHAR, "\\%c", code == '\n' ? 'n' : 't');
  else if (tn__is_unseen(code))
    snprintf(out, TN__SHOWN_CHAR, code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
  else
    snprintf(out, TN__SHOWN_CHAR, "%.*s", (int)length, text);
  return length;
}
