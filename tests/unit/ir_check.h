/* What the tests of the loop IR share: a context for each test, and comparison by text. */
#ifndef TENON_TESTS_UNIT_IR_CHECK_H
#define TENON_TESTS_UNIT_IR_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "ir/stmt.h"
#include "unit/check.h"

typedef struct ir_fixture {
  tn__arena arena;
  tn__escape escape; /* not armed: a defect ends the test program */
  tn__ir *ir;
} ir_fixture;

static inline int ir_set_up(void **state) {
  ir_fixture *f = calloc(1, sizeof(*f));
  tn__arena_init(&f->arena, NULL, &f->escape);
  f->ir = tn__ir_create(&f->arena);
  *state = f;
  return 0;
}

static inline int ir_tear_down(void **state) {
  ir_fixture *f = *state;
  tn__arena_release(&f->arena);
  free(f);
  return 0;
}

static inline tn__ir *ir_of(void **state) { return ((ir_fixture *)*state)->ir; }

static inline void check_text(const tn__expr *e, const char *text) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__expr_print(e, &buf);
  assert_string_equal(tn__strbuf_text(&buf), text);
  tn__strbuf_release(&buf);
}

#endif
