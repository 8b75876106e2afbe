/* Escaping of untrusted text for display. Names in models, paths and arguments can contain any character, but must
 * not send terminal commands, end a line or reverse the order of letters. */
#ifndef TENON_BASE_SHOWN_H
#define TENON_BASE_SHOWN_H

#include <stdint.h>

#include "base/strbuf.h"

#define TN__SHOWN_CHAR 12 /* maximum bytes of an escaped character */

/* Returns true for control characters and for invisible characters that affect others: text direction, line and
 * paragraph separators, joiners, byte order marks and tags. */
bool tn__is_unseen(uint32_t code);
/* Writes the character at `text`, NUL-terminated. Visible characters of any length are copied, invisible ones become
 * \n, \t, \uXXXX or \UXXXXXXXX, and invalid UTF-8 bytes become \xXX. Returns the number of bytes read from `text`. */
TN_MUST_USE size_t tn__shown_char(const char *text, char out[TN__SHOWN_CHAR]);
/* Appends all of `text` as it is shown: on one line. */
void tn__strbuf_shown(tn__strbuf *buf, const char *text);

#endif
