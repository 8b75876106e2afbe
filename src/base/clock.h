/* The monotonic clock. */
#ifndef TENON_BASE_CLOCK_H
#define TENON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some time in the past. Never fails, and any thread may ask. */
static inline uint64_t tn__clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The same in seconds. */
static inline double tn__now(void) { return 1e-9 * (double)tn__clock(); }

#endif
