/* SPDX-License-Identifier: Apache-2.0 */
/* What a person writes who wants the answer and leaves the rest to the compiler: a loop for each axis, in the order of
 * the output's dimensions. */
#ifndef TENON_BENCH_PLAIN_H
#define TENON_BENCH_PLAIN_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FOR(i, n) for (long i = 0; i < (n); i++)

static inline long at_most(long a, long b) { return a < b ? a : b; }
static inline long at_least(long a, long b) { return a > b ? a : b; }
static inline long clamped(long a, long low, long high) { return at_least(low, at_most(a, high)); }

#endif
