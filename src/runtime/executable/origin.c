/* What failing instructions say: where in the model they come from, and with which sizes. */
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "runtime/executable/executable.h"

const char *tn__function_origin(const tn_executable *exe, const tn__function *f, uint32_t word) {
  uint32_t low = 0, high = f->origin_count; /* the records before `low` are at or before the word */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (f->origins[middle].word <= word)
      low = middle + 1;
    else
      high = middle;
  }
  uint32_t text = low == 0 ? TN__NO_STRING : f->origins[low - 1].origin;
  return text == TN__NO_STRING ? NULL : exe->strings + text;
}

tn_status *tn__exe_at_origin(const tn_executable *exe, const tn__function *f, const tn__instruction *in,
                             tn_status *status) {
  const char *origin = tn__function_origin(exe, f, in->word);
  return origin == NULL ? status : tn_status_prefix(status, "%s", origin);
}

/* The end of a mark at `text` and its scalar's number; NULL when there is none. */
static const char *read_mark(const char *text, unsigned long *scalar) {
  char *end;
  if (*text != TN__SCALAR_MARK || text[1] < '0' || text[1] > '9') return NULL;
  *scalar = strtoul(text + 1, &end, 10);
  return *end == TN__SCALAR_MARK ? end + 1 : NULL;
}

tn_status *tn__exe_assert_failed(const tn_executable *exe, const tn__function *f, const tn__instruction *in,
                                 const int64_t *scalars, const uint8_t *known) {
  tn__strbuf text;
  tn__strbuf_init(&text, exe->region.allocator);
  for (const char *at = exe->strings + in->callee; *at != '\0';) {
    unsigned long scalar = 0;
    const char *end = read_mark(at, &scalar);
    if (end == NULL) {
      tn__strbuf_char(&text, *at++);
      continue;
    }
    if (scalar < f->scalar_count && (known == NULL || known[scalar]))
      tn__strbuf_printf(&text, "%lld", (long long)scalars[scalar]);
    else
      tn__strbuf_char(&text, '?');
    at = end;
  }
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL) status = tn_status_create(TN_INVALID_ARGUMENT, "%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return status;
}
