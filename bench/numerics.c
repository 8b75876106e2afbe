// SPDX-License-Identifier: Apache-2.0
/* Every f32 (or every STEPth bit pattern) through one generated elementary function, beside libm in f64. Prints the
 * largest error in units in the last place, the argument and, for functions of two, the second one.
 *
 *   bench_numerics FUNCTION STEP THREADS */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics_kernels.h"

enum { CHUNK = 1 << 14, MAX_THREADS = 256, MAX_SECONDS = 8 };

typedef struct function_row {
  const char *name;
  int32_t (*map)(int64_t count, const float *restrict x, float *restrict y);
  double (*exact)(double x);
  int32_t (*map2)(int64_t count, const float *restrict x, float z, float *restrict y);
  double (*exact2)(double x, double z);
  float seconds[MAX_SECONDS]; /* each with every first argument; 0 ends them */
} function_row;

static double rsqrt_f64(double x) { return 1.0 / sqrt(x); }

#define ROW(function, wide) {.name = #function, .map = map_##function, .exact = (wide)}
static const function_row functions[] = {
    ROW(sqrt, sqrt),
    ROW(rsqrt, rsqrt_f64),
    ROW(exp, exp),
    ROW(expm1, expm1),
    ROW(log, log),
    ROW(log1p, log1p),
    ROW(sin, sin),
    ROW(cos, cos),
    ROW(tan, tan),
    ROW(asin, asin),
    ROW(acos, acos),
    ROW(atan, atan),
    ROW(sinh, sinh),
    ROW(cosh, cosh),
    ROW(tanh, tanh),
    ROW(asinh, asinh),
    ROW(acosh, acosh),
    ROW(atanh, atanh),
    ROW(erf, erf),
    {.name = "pow", .map2 = map_pow, .exact2 = pow, .seconds = {0.5F, -0.5F, 1.0F / 3, 2.2F, -1.7F, 3, -7, 0.01F}},
    {.name = "atan2", .map2 = map_atan2, .exact2 = atan2, .seconds = {1, -1, 1e-3F, -1e-3F, 3e5F, -3e5F}},
};

/* What all threads share. */
typedef struct work {
  const function_row *function;
  float second;
  uint64_t step;
  atomic_uint_fast64_t next; /* in values, of 2^32 / step */
  atomic_bool failed;
} work;

/* What one thread found. */
typedef struct found {
  work *work;
  double error;
  float x, got;
  uint64_t tested;
} found;

/* |got - want| in units of the last place that `want` has in f32. 0 for NaN and zeros that agree, infinity for those
 * that do not; where `want` rounds to an infinity, the largest finite number is one off. */
static double error_of(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
  float nearest = (float)want;
  if (got == nearest && isinf(nearest)) return 0;
  if (isinf(got)) return fabs(want) >= 0x1.fffffep127 && !signbit(got) == !signbit(want) ? 1 : INFINITY;
  if (isnan(got)) return INFINITY;
  if (isinf(nearest)) return fabsf(got) == 0x1.fffffep127F && !signbit(got) == !signbit(want) ? 1 : INFINITY;
  uint64_t bits;
  memcpy(&bits, &want, sizeof bits);
  int64_t place = (int64_t)(bits >> 52 & 2047) - 1023 - 23;
  bits = (uint64_t)(1023 - (place < -149 ? -149 : place)) << 52;
  double units;
  memcpy(&units, &bits, sizeof units);
  return fabs(got - want) * units;
}

/* One of the `step` patterns of each stretch, anyhow chosen: always the first would leave out odd fractions. */
static uint32_t bits_of(uint64_t index, uint64_t step) {
  uint64_t bits = index * step + (index * UINT64_C(0x9e3779b97f4a7c15) >> 32) % step;
  return bits > UINT32_MAX ? UINT32_MAX : (uint32_t)bits;
}

static void *test_chunks(void *user) {
  found *mine = user;
  work *all = mine->work;
  const function_row *f = all->function;
  static _Thread_local float x[CHUNK], y[CHUNK];
  uint64_t total = ((UINT64_C(1) << 32) + all->step - 1) / all->step, begin;
  while ((begin = atomic_fetch_add(&all->next, CHUNK)) < total) {
    int64_t count = (int64_t)(total - begin < CHUNK ? total - begin : CHUNK);
    for (int64_t i = 0; i < count; i++) {
      uint32_t bits = bits_of(begin + (uint64_t)i, all->step);
      memcpy(&x[i], &bits, sizeof bits);
    }
    if ((f->map != NULL ? f->map(count, x, y) : f->map2(count, x, all->second, y)) != 0) {
      atomic_store(&all->failed, true);
      return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
      double error = error_of(y[i], f->exact != NULL ? f->exact(x[i]) : f->exact2(x[i], all->second));
      if (error > mine->error) {
        mine->error = error;
        mine->x = x[i];
        mine->got = y[i];
      }
    }
    mine->tested += (uint64_t)count;
  }
  return NULL;
}

/* Adds to `worst`, false when a kernel or a thread failed. */
static bool test_second(const function_row *function, float second, uint64_t step, int threads, found *worst) {
  work all = {.function = function, .second = second, .step = step};
  found each[MAX_THREADS];
  pthread_t ids[MAX_THREADS];
  int started = 0;
  for (; started < threads; started++) {
    each[started] = (found){.work = &all};
    if (pthread_create(&ids[started], NULL, test_chunks, &each[started]) != 0) break;
  }
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < started; i++) {
    worst->tested += each[i].tested;
    if (!(each[i].error > worst->error)) continue;
    worst->error = each[i].error;
    worst->x = each[i].x;
    worst->got = each[i].got;
  }
  return started > 0 && !atomic_load(&all.failed);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: bench_numerics FUNCTION STEP THREADS\n");
    return 2;
  }
  const function_row *function = NULL;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    if (strcmp(functions[i].name, argv[1]) == 0) function = &functions[i];
  unsigned long long step = strtoull(argv[2], NULL, 10);
  int threads = atoi(argv[3]);
  if (function == NULL || step < 1 || step > UINT32_MAX || threads < 1 || threads > MAX_THREADS) {
    fprintf(stderr, "bench_numerics: no function %s, or STEP %s is not from 1 to 2^32 - 1, or THREADS %s not to %d\n",
            argv[1], argv[2], argv[3], MAX_THREADS);
    return 2;
  }
  found worst = {.error = 0};
  float at_second = 0;
  int count = 0;
  while (function->map2 != NULL && count < MAX_SECONDS && function->seconds[count] != 0) count++;
  for (int i = 0; i < (count == 0 ? 1 : count); i++) {
    double before = worst.error;
    if (!test_second(function, function->seconds[i], step, threads, &worst)) {
      fprintf(stderr, "bench_numerics: the kernel of %s failed\n", function->name);
      return 1;
    }
    if (worst.error > before) at_second = function->seconds[i];
  }
  printf("%llu %.4f %.9g %.9g %.9g\n", (unsigned long long)worst.tested, worst.error, (double)worst.x,
         (double)worst.got, (double)at_second);
  return 0;
}
