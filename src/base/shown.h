/* Other people's text where people read it: names in models, paths and arguments may hold anything, and what commands a
 * terminal, ends a line or turns the order of letters around must do neither. */
#ifndef TENON_BASE_SHOWN_H
#define TENON_BASE_SHOWN_H

#include <stdint.h>

#include "base/strbuf.h"

#define TN__SHOWN_CHAR 12 /* bytes of a character as it is shown */

/* Is it a control character, or one of those that are not seen and change how others are: directions of writing, line
 * and paragraph separators, joiners, marks of byte order, tags? */
bool tn__is_unseen(uint32_t code);
/* How the character at `text` is shown, NUL-terminated: as it is, of any length; one that is not seen as \n, \t, \uXXXX
 * or \UXXXXXXXX; a byte that is no UTF-8 as \xXX. Returns how many bytes of `text` that was. */
TN_MUST_USE size_t tn__shown_char(const char *text, char out[TN__SHOWN_CHAR]);
/* Appends all of `text` as it is shown: on one line. */
void tn__strbuf_shown(tn__strbuf *buf, const char *text);

#endif
