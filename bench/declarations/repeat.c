/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function with an array of its arguments, `count` times, and tells the seconds on the wall or, with `cpu`,
 * those that the process had a CPU; the function's result with its sign turned where one is not 0. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

double repeat(int32_t (*function)(void *const *arguments), void *const *arguments, long count, bool cpu) {
  clockid_t clock = cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  struct timespec start, end;
  clock_gettime(clock, &start);
  for (long i = 0; i < count; i++) {
    int32_t code = function(arguments);
    if (code) return -(double)code;
  }
  clock_gettime(clock, &end);
  return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
