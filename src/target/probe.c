#include "target/probe.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"

enum { ROUNDS = 7, SHORT_ROUNDS = 40 };
#define SHORT_SECONDS 0.02 /* in which there are more rounds: some are between what else the machine does */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
#define ADD_ONE "add $1, %0\n"
#else
#define ADD_ONE "add %0, %0, #1\n"
#endif

double tn__probe_clock(void) {
  enum { STEPS = 100000 };
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t x = 0;
    double start = now();
    for (int i = 0; i < STEPS; i++) /* ten additions, each waiting for the one before */
      __asm__ volatile(ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE : "+r"(x)::"cc");
    double rate = 10.0 * STEPS / (now() - start);
    if (rate > best) best = rate;
  }
  return best;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* One turn: ten multiply-adds, none of which waits for another, which hides a latency of five cycles on two ports. In
 * assembly, so that a build without optimisation measures the same. Registers start at zero. */
enum { CHAINS = 10, TURNS = 60000 };

#if defined(__x86_64__)

#define REGISTERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#define TEN(op, a)                                                                                               \
  op " %%" a "10, %%" a "11, %%" a "0\n" op " %%" a "10, %%" a "11, %%" a "1\n" op " %%" a "10, %%" a "11, %%" a \
     "2\n" op " %%" a "10, %%" a "11, %%" a "3\n" op " %%" a "10, %%" a "11, %%" a "4\n" op " %%" a "10, %%" a   \
     "11, %%" a "5\n" op " %%" a "10, %%" a "11, %%" a "6\n" op " %%" a "10, %%" a "11, %%" a "7\n" op " %%" a   \
     "10, %%" a "11, %%" a "8\n" op " %%" a "10, %%" a "11, %%" a "9\n"

__attribute__((target("avx512f"))) static void turn_512(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN("vfmadd231ps", "zmm")::: REGISTERS);
}

__attribute__((target("avx2,fma"))) static void turn_256(void) {
  __asm__ volatile("vzeroall" ::: REGISTERS);
  for (int i = 0; i < TURNS; i++) __asm__ volatile(TEN("vfmadd231ps", "ymm")::: REGISTERS);
}

static void turn_128(void) { /* a multiplication and an addition count as a multiply-add */
  for (int i = 0; i < TURNS; i++)
    __asm__ volatile(
        "mulps %%xmm10, %%xmm0\naddps %%xmm10, %%xmm1\nmulps %%xmm10, %%xmm2\naddps %%xmm10, %%xmm3\n"
        "mulps %%xmm10, %%xmm4\naddps %%xmm10, %%xmm5\nmulps %%xmm10, %%xmm6\naddps %%xmm10, %%xmm7\n"
        "mulps %%xmm10, %%xmm8\naddps %%xmm10, %%xmm9\n" ::
            : REGISTERS);
}

static void (*turns_of(const tn__target *target, double *flops))(void) {
  *flops = 2.0 * CHAINS * TURNS * target->vector_bytes / 4;
  if (target->arch != TN__ARCH_X86_64) return NULL;
  if (target->vector_bytes == 64) return turn_512;
  if (target->vector_bytes == 32 && (target->features & TN__X86_FMA)) return turn_256;
  *flops = 1.0 * CHAINS * TURNS * 4;
  return turn_128;
}

#elif defined(__aarch64__)

static void turn_neon(void) {
  for (int i = 0; i < TURNS; i++)
    __asm__ volatile(
        "fmla v0.4s, v10.4s, v11.4s\nfmla v1.4s, v10.4s, v11.4s\nfmla v2.4s, v10.4s, v11.4s\n"
        "fmla v3.4s, v10.4s, v11.4s\nfmla v4.4s, v10.4s, v11.4s\nfmla v5.4s, v10.4s, v11.4s\n"
        "fmla v6.4s, v10.4s, v11.4s\nfmla v7.4s, v10.4s, v11.4s\nfmla v8.4s, v10.4s, v11.4s\n"
        "fmla v9.4s, v10.4s, v11.4s\n" ::
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9");
}

static void (*turns_of(const tn__target *target, double *flops))(void) {
  *flops = 2.0 * CHAINS * TURNS * 4;
  return target->arch == TN__ARCH_AARCH64 ? turn_neon : NULL;
}

#endif

double tn__probe_flops(const tn__target *target) {
  double flops, best = 0;
  void (*turns)(void) = turns_of(target, &flops);
  if (turns == NULL) return 0;
  turns(); /* wide units may have to wake up */
  for (int round = 0; round < ROUNDS; round++) {
    double start = now();
    turns();
    double rate = flops / (now() - start);
    if (rate > best) best = rate;
  }
  return best;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The C library's search for a byte that is not there reads as fast as anything can, in any build of this file. */
tn_status *tn__probe_read(int64_t bytes, double *out) {
  void *memory;
  *out = 0;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)bytes, 1, 64, &memory));
  memset(memory, 1, (size_t)bytes);
  int64_t passes = ((int64_t)8 << 20) / bytes;
  if (passes < 1) passes = 1;
  double begun = now();
  for (int round = 0; round < ROUNDS || (round < SHORT_ROUNDS && now() - begun < SHORT_SECONDS); round++) {
    double start = now();
    for (int64_t pass = 0; pass < passes; pass++) {
      const void *found = memchr(memory, 0, (size_t)bytes);
      __asm__ volatile("" ::"r"(found) : "memory");
    }
    double rate = (double)(bytes * passes) / (now() - start);
    if (rate > *out) *out = rate;
  }
  tn__free(NULL, memory, (size_t)bytes, 64);
  return NULL;
}
