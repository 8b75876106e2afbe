/* For tests of .te text: text to a declaration to text. */
#ifndef TENON_TESTS_UNIT_TE_TEXT_CHECK_H
#define TENON_TESTS_UNIT_TE_TEXT_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "te/text.h"
#include "unit/check.h"

typedef struct te_text_job {
  tn__arena arena;
  const char *text;
  const tn__te_dim_value *dims;
  int dim_count;
  void (*then)(tn__te *te, void *user); /* with the last kernel's declaration */
  void *user;
} te_text_job;

static void te_text_body(tn__escape *escape, void *user) {
  te_text_job *j = user;
  j->arena.escape = escape;
  tn__te_source *source;
  tn_status *status = tn__te_parse(&j->arena, "t.te", j->text, strlen(j->text), &source);
  if (source == NULL || tn__te_kernel_count(source) == 0) tn__check(escape, status);
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    tn__te *te;
    tn_status_free(status);
    status = tn__te_declare(source, i, j->dims, j->dim_count, tn__ir_create(&j->arena), &te);
    if (status != NULL) continue;
    if (i + 1 == tn__te_kernel_count(source) && j->then != NULL) j->then(te, j->user);
  }
  tn__check(escape, status);
}

static inline tn_status *te_text_run(te_text_job *j) {
  tn__escape escape;
  tn__arena_init(&j->arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, te_text_body, j);
  tn__arena_release(&j->arena);
  return status;
}

static void te_text_keep(tn__te *te, void *user) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__te_print(te, &text);
  *(char **)user = strdup(tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

/* The text of the last kernel, fully stated; free it. */
static inline char *te_text_print(const char *text) {
  char *out = NULL;
  te_text_job j = {.text = text, .then = te_text_keep, .user = &out};
  check_ok(te_text_run(&j));
  return out;
}

#endif
