/* Strings in what `tenon run` says. */
#include <string.h>

#include "cli/cli.h"

enum { SHOWN = 8 };

static tn_string string_at(const DLTensor *t, int64_t i) {
  return ((const tn_string *)(const void *)((const char *)t->data + t->byte_offset))[i];
}

/* As JSON has it, so that any bytes make one line; NUL ends the part that is shown. */
static void append(tn__strbuf *out, tn_string s) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_printf(&text, "%.*s", s.length > 1 << 20 ? 1 << 20 : (int)s.length, s.length == 0 ? "" : s.data);
  tn__strbuf_json_string(out, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

void cli_print_strings(const DLTensor *t) {
  int64_t count = tn_element_count(t->ndim, t->shape);
  tn__strbuf line;
  tn__strbuf_init(&line, NULL);
  for (int64_t i = 0; i < count && i < SHOWN; i++) {
    tn__strbuf_append(&line, " ");
    append(&line, string_at(t, i));
  }
  printf(": string ");
  cli_print_shape(stdout, t->ndim, t->shape);
  printf("\n %s%s\n", tn__strbuf_text(&line), count == 0 ? " (empty)" : count > SHOWN ? " ..." : "");
  tn__strbuf_release(&line);
}

void cli_json_strings(tn__strbuf *json, const DLTensor *t) {
  int64_t count = tn_element_count(t->ndim, t->shape);
  tn__strbuf_append(json, ", \"dtype\": \"string\", \"shape\": [");
  for (int d = 0; d < t->ndim; d++) tn__strbuf_printf(json, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
  tn__strbuf_append(json, "], \"first\": [");
  for (int64_t i = 0; i < count && i < SHOWN; i++) {
    if (i) tn__strbuf_append(json, ", ");
    append(json, string_at(t, i));
  }
  tn__strbuf_append(json, "]}");
}

bool cli_strings_agree(const DLTensor *got, const DLTensor *want, char *why, size_t size) {
  int64_t bad = 0, first = -1, count = tn_element_count(got->ndim, got->shape);
  for (int64_t i = 0; i < count; i++) {
    tn_string a = string_at(got, i), b = string_at(want, i);
    if (a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0)) continue;
    if (first < 0) first = i;
    bad++;
  }
  if (bad == 0) {
    snprintf(why, size, "the same strings");
    return true;
  }
  tn_string a = string_at(got, first), b = string_at(want, first);
  snprintf(why, size, "%lld of %lld strings differ, first at %lld: \"%.*s\", expected \"%.*s\"", (long long)bad,
           (long long)count, (long long)first, a.length > 99 ? 99 : (int)a.length, a.length == 0 ? "" : a.data,
           b.length > 99 ? 99 : (int)b.length, b.length == 0 ? "" : b.data);
  return false;
}
