#include "tune/search/accuracy.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

typedef struct ranked {
  double value;
  int index;
} ranked;

static int by_value(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->index - y->index;
}

/* Replaces values by their ranks; equal ones have the mean of theirs. */
static void rank(ranked *sorted, double *values, int count) {
  for (int i = 0; i < count; i++) sorted[i] = (ranked){values[i], i};
  qsort(sorted, (size_t)count, sizeof *sorted, by_value);
  for (int i = 0, end = 0; i < count; i = end) {
    while (end < count && sorted[end].value == sorted[i].value) end++;
    for (int k = i; k < end; k++) values[sorted[k].index] = 0.5 * (i + end - 1);
  }
}

static double correlation(const double *x, const double *y, int count) {
  double mean = 0.5 * (count - 1), xy = 0, xx = 0, yy = 0; /* the mean of ranks */
  for (int i = 0; i < count; i++) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

static int by_number(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_error(const double *predicted, const double *measured, double *room, int count) {
  for (int i = 0; i < count; i++) room[i] = exp(fabs(log(predicted[i] / measured[i])));
  if (count == 0) return NAN;
  qsort(room, (size_t)count, sizeof *room, by_number);
  return count % 2 == 1 ? room[count / 2] : 0.5 * (room[count / 2 - 1] + room[count / 2]);
}

/* By ranks, which begin at 0. */
static double recall(const double *predicted, const double *measured, int count, int top) {
  int found = 0, meant = 0;
  for (int i = 0; i < count; i++) {
    if (measured[i] >= top) continue;
    meant++;
    found += predicted[i] < top;
  }
  return meant > 0 ? (double)found / meant : (double)NAN;
}

tn_status *tn__accuracy_of(const double *predicted, const double *measured, int count, tn__accuracy *out) {
  *out = (tn__accuracy){.correlation = NAN, .recall = NAN, .error = NAN};
  size_t size = (size_t)(count > 0 ? count : 1);
  double *x = malloc(size * sizeof *x), *y = malloc(size * sizeof *y), *room = malloc(size * sizeof *room);
  ranked *sorted = malloc(size * sizeof *sorted);
  bool good = x != NULL && y != NULL && room != NULL && sorted != NULL;
  for (int i = 0; good && i < count; i++) {
    if (!(predicted[i] > 0) || !(measured[i] > 0) || !isfinite(predicted[i]) || !isfinite(measured[i])) continue;
    x[out->count] = predicted[i];
    y[out->count++] = measured[i];
  }
  if (good) out->error = median_error(x, y, room, out->count);
  if (good && out->count >= TN__ACCURACY_LEAST) {
    out->top = out->count / 10 > 4 ? out->count / 10 : 4;
    rank(sorted, x, out->count);
    rank(sorted, y, out->count);
    out->correlation = correlation(x, y, out->count);
    out->recall = recall(x, y, out->count, out->top);
  }
  free(x);
  free(y);
  free(room);
  free(sorted);
  return good ? NULL : tn_status_create(TN_OUT_OF_MEMORY, "out of memory to compare %d times", count);
}
