#include "base/shown.h"

#include <stdio.h>

size_t tn__shown_char(const char *text, char out[8]) {
  const unsigned char *at = (const unsigned char *)text;
  bool second = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* U+0080 to U+009F */
  if (at[0] == '\n' || at[0] == '\t')
    snprintf(out, 8, "\\%c", at[0] == '\n' ? 'n' : 't');
  else if (second || at[0] == 0x7f || at[0] < 0x20)
    snprintf(out, 8, "\\u%04x", (unsigned)at[second]);
  else
    snprintf(out, 8, "%c", text[0]);
  return second ? 2 : 1;
}

void tn__strbuf_shown(tn__strbuf *buf, const char *text) {
  char shown[8];
  for (const char *at = text; *at;) {
    at += tn__shown_char(at, shown);
    tn__strbuf_append(buf, shown);
  }
}
