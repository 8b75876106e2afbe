/* Arithmetic that several rooms need. */
#ifndef TENON_BASE_NUMBERS_H
#define TENON_BASE_NUMBERS_H

#include <stdint.h>

/* The greatest common divisor of two magnitudes; of 0 and x, x's. Not for INT64_MIN. */
static inline int64_t tn__common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

#endif
