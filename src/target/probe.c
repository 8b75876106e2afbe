#include "target/probe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "target/fma_loops.h"

enum { ROUNDS = 7, SHORT_ROUNDS = 40 };
#define SHORT_SECONDS 0.02 /* in which there are more rounds: some are between what else the machine does */

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
    double start = tn__now();
    for (int i = 0; i < STEPS; i++) /* ten additions, each waiting for the one before */
      __asm__ volatile(ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE ADD_ONE : "+r"(x)::"cc");
    double rate = 10.0 * STEPS / (tn__now() - start);
    if (rate > best) best = rate;
  }
  return best;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

enum { TURNS = 60000 };

#if defined(__x86_64__)

static void turn_128(int turns) { /* a multiplication and an addition count as a multiply-add */
  for (int i = 0; i < turns; i++)
    __asm__ volatile(
        "mulps %%xmm10, %%xmm0\naddps %%xmm10, %%xmm1\nmulps %%xmm10, %%xmm2\naddps %%xmm10, %%xmm3\n"
        "mulps %%xmm10, %%xmm4\naddps %%xmm10, %%xmm5\nmulps %%xmm10, %%xmm6\naddps %%xmm10, %%xmm7\n"
        "mulps %%xmm10, %%xmm8\naddps %%xmm10, %%xmm9\n" ::
            : TN__FMA_REGISTERS);
}

static void (*turns_of(const tn__target *target, double *flops))(int) {
  *flops = 2.0 * TN__FMA_CHAINS * TURNS * target->cpu.vector_bytes / 4;
  if (target->cpu.arch != TN__ARCH_X86_64) return NULL;
  if (target->cpu.vector_bytes == 64) return tn__fma_512;
  if (target->cpu.vector_bytes == 32 && (target->cpu.features & TN__X86_FMA)) return tn__fma_256;
  *flops = 1.0 * TN__FMA_CHAINS * TURNS * 4;
  return turn_128;
}

#elif defined(__aarch64__)

static void (*turns_of(const tn__target *target, double *flops))(int) {
  *flops = 2.0 * TN__FMA_CHAINS * TURNS * 4;
  return target->cpu.arch == TN__ARCH_AARCH64 ? tn__fma_128 : NULL;
}

#endif

double tn__probe_flops(const tn__target *target) {
  double flops, best = 0;
  void (*turn)(int) = turns_of(target, &flops);
  if (turn == NULL) return 0;
  turn(TURNS); /* wide units may have to wake up */
  for (int round = 0; round < ROUNDS; round++) {
    double start = tn__now();
    turn(TURNS);
    double rate = flops / (tn__now() - start);
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
  double begun = tn__now();
  for (int round = 0; round < ROUNDS || (round < SHORT_ROUNDS && tn__now() - begun < SHORT_SECONDS); round++) {
    double start = tn__now();
    for (int64_t pass = 0; pass < passes; pass++) {
      const void *found = memchr(memory, 0, (size_t)bytes);
      __asm__ volatile("" ::"r"(found) : "memory");
    }
    double rate = (double)(bytes * passes) / (tn__now() - start);
    if (rate > *out) *out = rate;
  }
  tn__free(NULL, memory, (size_t)bytes, 64);
  return NULL;
}
