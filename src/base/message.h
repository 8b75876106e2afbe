/* Formats status texts whose arguments may be untrusted names, paths or texts. */
#ifndef TENON_BASE_MESSAGE_H
#define TENON_BASE_MESSAGE_H

#include <stdarg.h>

#include "base/arena.h"
#include "base/strbuf.h"

/* Returns the formatted text on the heap, with `tail` spare bytes after it, or NULL when out of memory.
 *
 * Escapes invisible characters (base/shown.h). Keeps newlines and tabs, because multi-line texts are nested, but
 * escapes them too inside quotes, because "%s" is a name. */
char *tn__shown_format(const char *format, va_list args, size_t tail) TN_PRINTF(1, 0);
/* The same in an arena, for a part of a message such as a location. */
TN_NEVER_NULL const char *tn__shown_text(tn__arena *arena, const char *format, ...) TN_PRINTF(2, 3);
/* The same, appended to a text. */
void tn__strbuf_shown_printf(tn__strbuf *buf, const char *format, ...) TN_PRINTF(2, 3);
/* Escapes a name for a message that does not quote it. */
TN_NEVER_NULL const char *tn__shown_name(tn__arena *arena, const char *name);

#endif
