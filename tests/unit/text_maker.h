/* Drawn texts of declarations: numbers from a seed, and text that is put together piece by piece. */
#ifndef TENON_TESTS_UNIT_TEXT_MAKER_H
#define TENON_TESTS_UNIT_TEXT_MAKER_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "target/text/text.h"
#include "unit/check.h"
#include "unit/te_text_check.h"

enum { MAKER_TEXT = 1 << 12 };

typedef struct maker {
  uint64_t state; /* the seed, at first */
  char text[MAKER_TEXT];
  int count; /* of characters */
} maker;

static inline uint64_t next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

/* 0 .. sides-1 */
static inline int any(maker *m, int sides) { return (int)(next(&m->state) % (uint64_t)sides); }

__attribute__((format(printf, 2, 3))) static inline void add(maker *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  m->count += vsnprintf(m->text + m->count, (size_t)(MAKER_TEXT - m->count), format, args);
  va_end(args);
  assert_true(m->count < MAKER_TEXT);
}

/* So many drawn declarations, for two targets in turn, each of which `then` gets with its target. */
static inline void check_drawn_texts(int count, void (*make)(maker *m), void (*then)(tn__te *te, void *target)) {
  tn__target targets[2];
  check_ok(tn__target_parse("x86-64-v3", &targets[0]));
  check_ok(tn__target_parse("x86-64-v4", &targets[1]));
  for (int k = 0; k < count; k++) {
    maker m = {.state = (uint64_t)k};
    make(&m);
    te_text_job j = {.text = m.text, .then = then, .user = &targets[k % 2]};
    tn_status *status = te_text_run(&j);
    if (status != NULL) print_message("%s", m.text);
    check_ok(status);
  }
}

#endif
