/* The text of a status: a printf format whose arguments may be names of somebody's model, paths or texts. */
#ifndef TENON_BASE_MESSAGE_H
#define TENON_BASE_MESSAGE_H

#include <stdarg.h>

#include "base/arena.h"
#include "base/strbuf.h"

/* The formatted text on the heap, with room for `tail` more bytes behind it; NULL when out of memory.
 *
 * What is not seen (base/shown.h) is written as it is shown. Line ends and tabs stay, as texts of several lines are
 * built from others, but not in what stands in quotes: "%s" is a name. */
char *tn__shown_format(const char *format, va_list args, size_t tail) TN_PRINTF(1, 0);
/* The same in an arena: a part of a message, as the place that it speaks of. */
TN_NEVER_NULL const char *tn__shown_text(tn__arena *arena, const char *format, ...) TN_PRINTF(2, 3);
/* The same behind a text. */
void tn__strbuf_shown_printf(tn__strbuf *buf, const char *format, ...) TN_PRINTF(2, 3);
/* A name as it is shown, for a message where it stands in no quotes. */
TN_NEVER_NULL const char *tn__shown_name(tn__arena *arena, const char *name);

#endif
