#include "text/unicode.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct case_run {
  uint32_t first;
  uint16_t span; /* from the first to the last */
  uint8_t step;
  int32_t delta;
} case_run;

#include "text/case_table.inc"

static uint32_t change(const case_run *runs, size_t count, uint32_t code) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (runs[middle].first <= code)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return code;
  const case_run *run = &runs[low - 1];
  uint32_t offset = code - run->first;
  return offset <= run->span && offset % run->step == 0 ? (uint32_t)((int32_t)code + run->delta) : code;
}

uint32_t tn__text_to_lower(uint32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return change(to_lower, sizeof(to_lower) / sizeof(to_lower[0]), code);
}

uint32_t tn__text_to_upper(uint32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  return change(to_upper, sizeof(to_upper) / sizeof(to_upper[0]), code);
}
