/* Growing text, for printers. Lives on the heap of an allocator; an allocation failure makes it sticky-bad. */
#ifndef TENON_BASE_STRBUF_H
#define TENON_BASE_STRBUF_H

#include "tenon/base.h"

typedef struct tn__strbuf {
  const tn_allocator *allocator;
  char *text; /* NUL-terminated; "" before the first append is tn__strbuf_text() */
  size_t length, capacity;
  bool failed;
} tn__strbuf;

void tn__strbuf_init(tn__strbuf *buf, const tn_allocator *allocator);
void tn__strbuf_release(tn__strbuf *buf);
void tn__strbuf_append(tn__strbuf *buf, const char *text);
void tn__strbuf_append_n(tn__strbuf *buf, const char *text, size_t length);
void tn__strbuf_char(tn__strbuf *buf, char c);
void tn__strbuf_printf(tn__strbuf *buf, const char *format, ...) TN_PRINTF(2, 3);
/* Appends a JSON string literal with quotes; bytes that are not UTF-8 become U+FFFD. */
void tn__strbuf_json_string(tn__strbuf *buf, const char *text);
/* The next member of a JSON object, which has others before it: `, "key": "text"`, and a number, null where it is not
 * finite. */
void tn__strbuf_json_text(tn__strbuf *buf, const char *key, const char *text);
void tn__strbuf_json_f64(tn__strbuf *buf, const char *key, double number);
/* Shortest decimal text that reads back as the same f64 ("0.1", "1e-05", "inf", "-inf", "nan"), always with '.', 'e' or
 * a name. */
void tn__strbuf_f64(tn__strbuf *buf, double value);
const char *tn__strbuf_text(const tn__strbuf *buf);              /* never NULL */
TN_MUST_USE tn_status *tn__strbuf_status(const tn__strbuf *buf); /* out of memory when any append failed */

/* May the text be a part of C's identifiers: 1 to 127 letters, digits and _? */
bool tn__is_c_word(const char *text);

/* What "dimension" ends in when there are so many. */
static inline const char *tn__plural(int64_t count) { return count == 1 ? "" : "s"; }

#endif
