/* What the targets that compile share: an input with an arena of its own, and requirements that end the process. */
#ifndef TENON_FUZZ_FUZZ_H
#define TENON_FUZZ_FUZZ_H

#include <stdint.h>

#include "base/arena.h"
#include "base/escape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_input {
  tn__arena arena;
  const uint8_t *data; /* never NULL */
  size_t size;
} fuzz_input;

static inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

/* Calls `body` with a fuzz_input, whose arena goes when it is done; what it throws comes back. */
static inline tn_status *fuzz_with(const uint8_t *data, size_t size, void (*body)(tn__escape *escape, void *input)) {
  tn__escape escape;
  fuzz_input in = {.data = data == NULL ? (const uint8_t *)"" : data, .size = size};
  tn__arena_init(&in.arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, body, &in);
  tn__arena_release(&in.arena);
  return status;
}

/* A reader of text says what is wrong with its input; it neither breaks nor runs out of memory. */
static inline void fuzz_reader(const uint8_t *data, size_t size, void (*body)(tn__escape *escape, void *input)) {
  tn_status *status = fuzz_with(data, size, body);
  tn_status_code code = tn_status_code_of(status);
  require(code != TN_OUT_OF_MEMORY && code != TN_INTERNAL);
  tn_status_free(status);
}

#endif
