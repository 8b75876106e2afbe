/* Pages of the documentation that a test program writes with --write and otherwise holds to what it would write. */
#ifndef TENON_TESTS_UNIT_PAGE_H
#define TENON_TESTS_UNIT_PAGE_H

#include <stdlib.h>

#include "base/strbuf.h"
#include "unit/check.h"

static inline void page_check(const char *path, void (*write)(tn__strbuf *out)) {
  tn__strbuf want;
  tn__strbuf_init(&want, NULL);
  write(&want);
  char *have = calloc(1, want.length + 2);
  FILE *page = fopen(path, "r");
  assert_non_null(page);
  have[fread(have, 1, want.length + 1, page)] = '\0';
  fclose(page);
  assert_string_equal(have, tn__strbuf_text(&want));
  free(have);
  tn__strbuf_release(&want);
}

/* The exit status of the program. */
static inline int page_write(const char *path, void (*write)(tn__strbuf *out)) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  write(&text);
  FILE *page = fopen(path, "w");
  bool ok = page != NULL && fputs(tn__strbuf_text(&text), page) >= 0 && fclose(page) == 0;
  tn__strbuf_release(&text);
  return ok ? 0 : 1;
}

#endif
