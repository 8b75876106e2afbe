/* Bytes as text (RFC 4648, with padding). */
#ifndef TENON_BASE_BASE64_H
#define TENON_BASE_BASE64_H

#include "base/strbuf.h"

void tn__base64_append(tn__strbuf *out, const void *data, size_t size);
/* Writes the bytes of `length` characters to `out`, which has room for length / 4 * 3 of them, and says how many there
 * are. False when the text is not what tn__base64_append writes. */
TN_MUST_USE bool tn__base64_decode(const char *text, size_t length, void *out, size_t *size);

#endif
