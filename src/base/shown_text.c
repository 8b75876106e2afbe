/* Escaped texts in buffers and arenas. */
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/shown.h"

void tn__strbuf_shown(tn__strbuf *buf, const char *text) {
  char shown[TN__SHOWN_CHAR];
  for (const char *at = text; *at;) {
    at += tn__shown_char(at, shown);
    tn__strbuf_append(buf, shown);
  }
}

const char *tn__shown_text(tn__arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = tn__shown_format(format, args, 0);
  va_end(args);
  if (text == NULL) tn__throwf(arena->escape, TN_OUT_OF_MEMORY, "out of memory for a message");
  size_t length = strlen(text);
  return tn__arena_take(arena, &(tn__strbuf){.text = text, .length = length, .capacity = length + 1});
}

const char *tn__shown_name(tn__arena *arena, const char *name) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_shown(&text, name);
  return tn__arena_take(arena, &text);
}

void tn__strbuf_shown_printf(tn__strbuf *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = tn__shown_format(format, args, 0);
  va_end(args);
  if (text == NULL)
    buf->failed = true;
  else
    tn__strbuf_append(buf, text);
  free(text);
}
