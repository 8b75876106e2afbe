/* Other people's text where people read it: names in models, paths and arguments may hold anything, and what commands a
 * terminal or ends a line must do neither. */
#ifndef TENON_BASE_SHOWN_H
#define TENON_BASE_SHOWN_H

#include "base/strbuf.h"

/* How the byte at `text` is shown, NUL-terminated: as it is; a control character, which may take two bytes of UTF-8, as
 * \n, \t or \uXXXX. Returns how many bytes of `text` that was. */
TN_MUST_USE size_t tn__shown_char(const char *text, char out[8]);
/* Appends all of `text` as it is shown: on one line. */
void tn__strbuf_shown(tn__strbuf *buf, const char *text);

#endif
