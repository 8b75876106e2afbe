/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine's own limits, as computations like any other: fused multiply-adds of f32 in the widest vectors, reading
 * and copying memory of a given footprint, and starting and joining threads. */
#include "server.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define MAX_THREADS 64
/* A call shares out this much work, so that waking the threads does not count. */
static const double CALL_NS = 2e6;

typedef struct part { /* one thread's share */
  float *from, *to;   /* `to` is NULL for reading */
  size_t count;       /* floats, a multiple of 64 */
  float sink;
} part;

typedef void kernel(part *mine, int64_t repeats);
typedef struct way { /* of reading or copying */
  const char *name;
  kernel *work;
} way;

static struct {
  pthread_barrier_t begin, end;
  part parts[MAX_THREADS];
  kernel *work;
  int64_t repeats;
  int threads;
} state;

/* ---- kernels --------------------------------------------------------------------------------------------------------
 * Twelve chains hide the latency of two multiply-adds a cycle with five cycles each. A unit of fma is 12 * 64
 * rounds. */

#define FMA_CHAINS 12
#define FMA_ROUNDS 64

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f")))
#define HALF __attribute__((target("avx2,fma")))

WIDE static void fma_512(part *mine, int64_t repeats) {
  __m512 sum[FMA_CHAINS], scale = _mm512_set1_ps(0.999f), shift = _mm512_set1_ps(0.001f);
  for (int c = 0; c < FMA_CHAINS; c++) {
    sum[c] = _mm512_set1_ps((float)c);
  }
  for (int64_t i = 0; i < repeats * FMA_ROUNDS; i++) {
#pragma GCC unroll 12
    for (int c = 0; c < FMA_CHAINS; c++) {
      sum[c] = _mm512_fmadd_ps(sum[c], scale, shift);
    }
  }
  for (int c = 0; c < FMA_CHAINS; c++) {
    mine->sink += _mm512_reduce_add_ps(sum[c]);
  }
}

WIDE static void read_512(part *mine, int64_t repeats) {
  __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; c++) {
        sum[c] = _mm512_add_ps(sum[c], _mm512_load_ps(mine->from + i + 16 * c));
      }
    }
  }
  mine->sink += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

/* Four streams at once: a single one does not keep enough cache lines on their way. */
WIDE static void read_streams_512(part *mine, int64_t repeats) {
  __m512 sum[8];
  for (int c = 0; c < 8; c++) {
    sum[c] = _mm512_setzero_ps();
  }
  size_t quarter = mine->count / 4 / 32 * 32;
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < quarter; i += 32) {
#pragma GCC unroll 8
      for (size_t c = 0; c < 8; c++) {
        const float *at = mine->from + (c / 2) * quarter + i + 16 * (c % 2);
        _mm_prefetch((const char *)(at + 512), _MM_HINT_T0);
        sum[c] = _mm512_add_ps(sum[c], _mm512_load_ps(at));
      }
    }
    for (size_t i = 4 * quarter; i < mine->count; i += 16) {
      sum[0] = _mm512_add_ps(sum[0], _mm512_load_ps(mine->from + i));
    }
  }
  for (int c = 0; c < 8; c++) {
    mine->sink += _mm512_reduce_add_ps(sum[c]);
  }
}

/* One stream, prefetched four kilobytes ahead, across the page that the hardware's prefetcher stops at. */
WIDE static void read_ahead_512(part *mine, int64_t repeats) {
  __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; c++) {
        _mm_prefetch((const char *)(mine->from + i + 16 * c + 1024), _MM_HINT_T0);
        sum[c] = _mm512_add_ps(sum[c], _mm512_load_ps(mine->from + i + 16 * c));
      }
    }
  }
  mine->sink += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

WIDE static void copy_512(part *mine, int64_t repeats) {
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; c++) {
        _mm512_store_ps(mine->to + i + 16 * c, _mm512_load_ps(mine->from + i + 16 * c));
      }
    }
  }
}

/* Past the caches, so that the lines written are not read first. */
WIDE static void stream_512(part *mine, int64_t repeats) {
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; c++) {
        _mm512_stream_ps(mine->to + i + 16 * c, _mm512_load_ps(mine->from + i + 16 * c));
      }
    }
  }
  _mm_sfence();
}

HALF static void fma_256(part *mine, int64_t repeats) {
  __m256 sum[FMA_CHAINS], scale = _mm256_set1_ps(0.999f), shift = _mm256_set1_ps(0.001f);
  for (int c = 0; c < FMA_CHAINS; c++) {
    sum[c] = _mm256_set1_ps((float)c);
  }
  for (int64_t i = 0; i < repeats * FMA_ROUNDS; i++) {
#pragma GCC unroll 12
    for (int c = 0; c < FMA_CHAINS; c++) {
      sum[c] = _mm256_fmadd_ps(sum[c], scale, shift);
    }
  }
  for (int c = 0; c < FMA_CHAINS; c++) {
    float lanes[8];
    _mm256_storeu_ps(lanes, sum[c]);
    mine->sink += lanes[0] + lanes[7];
  }
}

HALF static void read_256(part *mine, int64_t repeats) {
  __m256 sum[8];
  for (int c = 0; c < 8; c++) {
    sum[c] = _mm256_setzero_ps();
  }
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 8
      for (int c = 0; c < 8; c++) {
        sum[c] = _mm256_add_ps(sum[c], _mm256_load_ps(mine->from + i + 8 * c));
      }
    }
  }
  for (int c = 0; c < 8; c++) {
    float lanes[8];
    _mm256_storeu_ps(lanes, sum[c]);
    mine->sink += lanes[0] + lanes[7];
  }
}

HALF static void stream_256(part *mine, int64_t repeats) {
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 64) {
#pragma GCC unroll 8
      for (int c = 0; c < 8; c++) {
        _mm256_stream_ps(mine->to + i + 8 * c, _mm256_load_ps(mine->from + i + 8 * c));
      }
    }
  }
  _mm_sfence();
}
#elif defined(__aarch64__)
static void fma_neon(part *mine, int64_t repeats) {
  float32x4_t sum[2 * FMA_CHAINS], scale = vdupq_n_f32(0.999f), shift = vdupq_n_f32(0.001f);
  for (int c = 0; c < 2 * FMA_CHAINS; c++) {
    sum[c] = vdupq_n_f32((float)c);
  }
  for (int64_t i = 0; i < repeats * FMA_ROUNDS; i++) {
#pragma GCC unroll 24
    for (int c = 0; c < 2 * FMA_CHAINS; c++) {
      sum[c] = vfmaq_f32(shift, sum[c], scale);
    }
  }
  for (int c = 0; c < 2 * FMA_CHAINS; c++) {
    mine->sink += vaddvq_f32(sum[c]);
  }
}
#endif

/* Whatever the compiler makes of it. */
static void read_plain(part *mine, int64_t repeats) {
  float sum[16] = {0};
  for (int64_t r = 0; r < repeats; r++) {
    for (size_t i = 0; i < mine->count; i += 16) {
      for (int c = 0; c < 16; c++) {
        sum[c] += mine->from[i + (size_t)c];
      }
    }
  }
  for (int c = 0; c < 16; c++) {
    mine->sink += sum[c];
  }
}

static void copy_plain(part *mine, int64_t repeats) {
  for (int64_t r = 0; r < repeats; r++) {
    memcpy(mine->to, mine->from, mine->count * sizeof(float));
    __asm__ volatile("" ::: "memory");
  }
}

static void fork_join(part *mine, int64_t repeats) { mine->sink += (float)repeats; }

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Each thread on a CPU of its own: a woken thread may stay on the CPU of the one that woke it for longer than a call
 * takes, and the limit of two CPUs would be that of one. */
static void stay_on_cpu(int index) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && index-- == 0) {
      CPU_ZERO(&mine);
      CPU_SET(cpu, &mine);
      sched_setaffinity(0, sizeof mine, &mine);
      return;
    }
  }
}

static void *worker(void *argument) {
  part *mine = argument;
  stay_on_cpu((int)(mine - state.parts));
  for (;;) {
    pthread_barrier_wait(&state.begin);
    state.work(mine, state.repeats);
    pthread_barrier_wait(&state.end);
  }
  return NULL;
}

static void start_threads(int threads) {
  if (state.threads) {
    return;
  }
  if (threads > MAX_THREADS) {
    bench_fail("at most %d threads", MAX_THREADS);
  }
  state.threads = threads;
  pthread_barrier_init(&state.begin, NULL, (unsigned)threads);
  pthread_barrier_init(&state.end, NULL, (unsigned)threads);
  for (int i = 1; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, &state.parts[i]) != 0) {
      bench_fail("no thread");
    }
  }
  if (threads > 1) {
    stay_on_cpu(0); /* last: threads inherit the set they choose from */
  }
}

void engine_run(void) {
  if (state.threads > 1) {
    pthread_barrier_wait(&state.begin);
  }
  state.work(&state.parts[0], state.repeats);
  if (state.threads > 1) {
    pthread_barrier_wait(&state.end);
  }
}

static double time_call(void) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  engine_run();
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
}

/* Nanoseconds of one repeat of a kernel: the least of some calls; leaves it chosen, with repeats for CALL_NS. */
static double try_kernel(kernel *work) {
  state.work = work;
  state.repeats = 1;
  while (time_call() < CALL_NS / 4) {
    state.repeats *= 2;
  }
  double best = time_call();
  for (int i = 0; i < 4; i++) {
    double took = time_call();
    best = took < best ? took : best;
  }
  double each = best / (double)state.repeats;
  state.repeats = (int64_t)(CALL_NS / each) + 1;
  return each;
}

static void choose_fma(bench_work *work) {
  int flops = 0;
  kernel *chosen = NULL;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    chosen = fma_512, flops = 2 * 16 * FMA_CHAINS * FMA_ROUNDS;
  } else if (__builtin_cpu_supports("fma")) {
    chosen = fma_256, flops = 2 * 8 * FMA_CHAINS * FMA_ROUNDS;
  }
#elif defined(__aarch64__)
  chosen = fma_neon, flops = 2 * 4 * 2 * FMA_CHAINS * FMA_ROUNDS;
#endif
  if (!chosen) {
    snprintf(work->unsupported, sizeof work->unsupported, "no multiply-add for this CPU");
    return;
  }
  try_kernel(chosen);
  snprintf(work->note, sizeof work->note, "%lld", (long long)flops * state.threads);
}

/* The fastest way of copying or reading at this footprint. */
static void choose_memory(const way *ways, int count, bench_work *work) {
  const way *best = NULL;
  double least = 0;
  for (int i = 0; i < count; i++) {
    double took = try_kernel(ways[i].work);
    if (!best || took < least) {
      best = &ways[i];
      least = took;
    }
  }
  try_kernel(best->work);
  snprintf(work->note, sizeof work->note, "%s", best->name);
}

static void prepare_memory(size_t bytes, bool copy, bench_work *work) {
  size_t each = bytes / sizeof(float) / (size_t)state.threads / (copy ? 2 : 1) / 64 * 64;
  each = each ? each : 64;
  for (int i = 0; i < state.threads; i++) {
    free(state.parts[i].from);
    free(state.parts[i].to);
    state.parts[i] = (part){.from = bench_floats(each), .to = copy ? bench_floats(each) : NULL, .count = each};
  }
  way readers[4] = {{"plain", read_plain}}, copiers[4] = {{"memcpy", copy_plain}};
  int reader_count = 1, copier_count = 1;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    readers[reader_count++] = (way){"one stream", read_512};
    readers[reader_count++] = (way){"one stream, prefetched", read_ahead_512};
    readers[reader_count++] = (way){"four streams", read_streams_512};
    copiers[copier_count++] = (way){"stores", copy_512};
    copiers[copier_count++] = (way){"non-temporal stores", stream_512};
  } else if (__builtin_cpu_supports("fma")) {
    readers[reader_count++] = (way){"one stream", read_256};
    copiers[copier_count++] = (way){"non-temporal stores", stream_256};
  }
#endif
  choose_memory(copy ? copiers : readers, copy ? copier_count : reader_count, work);
}

void engine_prepare(const bench_case *given, int threads, bench_work *work) {
  start_threads(threads);
  if (bench_is(given, "kind", "fma")) {
    choose_fma(work);
  } else if (bench_is(given, "kind", "read") || bench_is(given, "kind", "copy")) {
    prepare_memory((size_t)bench_int(given, "bytes"), bench_is(given, "kind", "copy"), work);
  } else if (bench_is(given, "kind", "join")) {
    state.work = fork_join;
    state.repeats = 1;
  } else {
    snprintf(work->unsupported, sizeof work->unsupported, "no such limit");
  }
  work->units = state.repeats;
}

void engine_finish_output(void) {}

const char *engine_version(void) { return "limits"; }
