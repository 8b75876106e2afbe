/* Writing traces: what primitives record, and what names the declaration. Reading them, which calls the primitives, is
 * in replay.c. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "schedule/internal.h"

void tn__sched_record(tn__schedule *s, const char *name, const char *const *names, int name_count,
                      const int64_t *numbers, int number_count) {
  const char *text = name;
  for (int i = 0; i < name_count; i++) text = tn__arena_printf(s->arena, "%s \"%s\"", text, names[i]);
  for (int i = 0; i < number_count; i++) text = tn__arena_printf(s->arena, "%s %" PRId64, text, numbers[i]);
  tn__vec_push(s->arena, &s->steps, text);
  s->func = NULL;
}

void tn__sched_digest(const tn__te *te, char out[17]) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print_as(te, "kernel", &text); /* what it computes is what counts, not what it is called */
  tn__sha256 hasher;
  tn__sha256_init(&hasher);
  tn__sha256_update_string(&hasher, tn__strbuf_text(&text));
  tn__digest digest = tn__sha256_final(&hasher);
  tn__strbuf_release(&text);
  char hex[65];
  tn__digest_hex(&digest, hex);
  memcpy(out, hex, 16);
  out[16] = 0;
}

bool tn__sched_trace_is_of(const char *trace, const char digest[17]) {
  int length = 0;
  if (sscanf(trace, "trace %*9d %n", &length) != 0 || length == 0) return false;
  return strncmp(trace + length, digest, 16) == 0 && isspace((unsigned char)trace[length + 16]);
}

void tn__sched_trace_print(const tn__schedule *s, tn__strbuf *out) {
  char digest[17];
  tn__sched_digest(s->te, digest);
  tn__strbuf_printf(out, "trace %d %s\n", TN__TRACE_VERSION, digest);
  for (int i = 0; i < s->steps.count; i++) tn__strbuf_printf(out, "%s\n", s->steps.data[i]);
  tn__strbuf_append(out, "end\n");
}
