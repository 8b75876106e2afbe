/* UTF-8. */
#ifndef TENON_BASE_UTF8_H
#define TENON_BASE_UTF8_H

#include <stdint.h>

#define TN__NOT_UTF8 UINT32_MAX

/* The code point at `*at` < `end`, which moves behind it. A byte that no well-formed sequence begins with, or whose
 * sequence is cut off, overlong, a surrogate or beyond U+10FFFF, is TN__NOT_UTF8 by itself. */
uint32_t tn__utf8_next(const char **at, const char *end);
/* Writes a code point, at most 4 bytes; returns behind it. */
char *tn__utf8_put(char *at, uint32_t code);

#endif
