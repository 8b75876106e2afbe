/* How long a kernel takes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tune/worker/internal.h"

static int call_kernel(const tn__worker_call *c) {
  return c->kernel->code(c->env, c->buffers, c->kernel->head.scalars);
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

static void flush_memory(const tn__worker_memory *memory) {
#if defined(__x86_64__)
  for (size_t at = 0; at < memory->bytes; at += TN__LINE_BYTES) __builtin_ia32_clflush(memory->data + at);
#elif defined(__aarch64__)
  for (size_t at = 0; at < memory->bytes; at += TN__LINE_BYTES)
    __asm__ volatile("dc civac, %0" : : "r"(memory->data + at) : "memory");
#else
  (void)memory;
#endif
}

static void flush(const tn__worker_call *c) {
  for (int i = 0; i < c->operands->count; i++)
    if (c->operands->buffers[i].pages != NULL) flush_memory(&c->operands->buffers[i]);
  if (c->kernel->workspace.pages != NULL) flush_memory(&c->kernel->workspace);
#if defined(__x86_64__)
  __builtin_ia32_mfence();
#endif
}

/* ---- repeats ----------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct repeats {
  double median, spread;
  int64_t calls;
} repeats;

static repeats summarise(double *seconds, int count, int64_t number) {
  qsort(seconds, (size_t)count, sizeof(double), by_size);
  double median = count % 2 ? seconds[count / 2] : (seconds[count / 2 - 1] + seconds[count / 2]) / 2;
  double quartiles = seconds[(count - 1) * 3 / 4] - seconds[(count - 1) / 4];
  return (repeats){median, median > 0 ? quartiles / median : 0, number * count};
}

/* Of a kernel on one thread what the thread takes counts: other work on the machine makes that hardly longer. That
 * clock is read through the operating system, which short repeats would feel. */
static double clock_of(const tn__worker_call *c, bool is_short) {
  if (c->env->thread_count > 1 || is_short) return tn__now();
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `number` calls to a repeat; as many repeats as the options ask for, or time is left for. */
TN_MUST_USE static int time_once(const tn__worker_call *c, const tn_timing_options *t, int64_t number, double each,
                                 double *seconds, double until, repeats *out) {
  const double little = 1e-4;
  bool is_short = (double)number * each < little;
  double total = 0;
  int count = 0;
  while (count < t->most_repeats && (count < t->least_repeats || total < t->least_seconds)) {
    if (t->cache == TN_CACHE_FLUSHED) flush(c);
    double start = clock_of(c, is_short);
    for (int64_t i = 0; i < number; i++) {
      int result = call_kernel(c);
      if (result != TN_KERNEL_OK) return result;
    }
    double all = clock_of(c, is_short) - start;
    seconds[count++] = all / (double)number;
    total += all;
    if (tn__now() > until) break;
  }
  *out = summarise(seconds, count, number);
  return TN_KERNEL_OK;
}

/* Seconds of a call, roughly, from those that warm caches, pages and the processor up. */
TN_MUST_USE static int warm_up(const tn__worker_call *c, const tn_timing_options *t, double *each) {
  double start = tn__now(), end;
  *each = INFINITY;
  do {
    double before = tn__now();
    int result = call_kernel(c);
    if (result != TN_KERNEL_OK) return result;
    end = tn__now();
    *each = fmin(*each, end - before);
  } while (end - start < t->warm_seconds);
  return TN_KERNEL_OK;
}

static void rest(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (seconds > 0 && nanosleep(&t, &t) != 0) continue;
}

/* Of a kernel that is too slow to be of interest a few calls say enough. */
static void hurry(tn_timing_options *t) {
  enum { CALLS = 3 };
  t->least_seconds = 0;
  t->again = -1;
  if (t->least_repeats > CALLS) t->least_repeats = CALLS;
}

int tn__worker_time(const tn__worker_call *call, const tn_timing_options *timing, double slow_seconds,
                    tn_run_result *out) {
  tn_timing_options options = *timing, *t = &options;
  double each, start, *seconds = calloc((size_t)t->most_repeats, sizeof(double));
  if (seconds == NULL) abort();
  rest(t->rest_seconds);
  start = clock_of(call, false);
  int result = warm_up(call, t, &each);
  if (result == TN_KERNEL_OK && t->cache == TN_CACHE_WARM && each >= fmax(t->most_seconds, t->warm_seconds)) {
    /* One call has all the time that there is, and what warming up gains is nothing to it. */
    out->median = clock_of(call, false) - start;
    out->calls = 1;
    free(seconds);
    return result;
  }
  if (slow_seconds > 0 && each > slow_seconds) hurry(t);
  double share = t->least_seconds / t->least_repeats, until = tn__now() + t->most_seconds;
  int64_t number = t->cache == TN_CACHE_WARM && each < share ? (int64_t)ceil(share / fmax(each, 1e-9)) : 1;
  for (int again = 0; result == TN_KERNEL_OK && again <= (t->again > 0 ? t->again : 0); again++) {
    repeats r;
    result = time_once(call, t, number, each, seconds, until, &r);
    if (result != TN_KERNEL_OK) break;
    out->calls += r.calls;
    if (again == 0 || r.spread < out->spread) out->median = r.median, out->spread = r.spread;
    if (out->spread <= t->noise || tn__now() > until) break;
  }
  free(seconds);
  return result;
}
