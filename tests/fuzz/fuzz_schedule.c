/* The oracle of schedules with its dice thrown by the fuzzer: a declaration and steps over it, which must compute what
 * the declaration says. A failing pair is printed in its smallest form. */
#include "unit/schedule_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tally t = {{0}};
  dice d = {.data = data, .size = size};
  if (size < 12 || size > 400) return 0;
  tn_status *status = oracle_pair(&d, 14, &no_wish, &t, check_pair, NULL);
  if (status != NULL) __builtin_trap();
  return 0;
}
