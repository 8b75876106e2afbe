#include "target/probe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "target/fma_loops.h"

enum { ROUNDS = 7, SHORT_ROUNDS = 40 };
/* How many times as much as L2 holds is read from beyond it, if as much is sure to be in L3: some caches keep a part of
 * what is read over and over, which is little of that then. */
enum { PAST = 8 };
#define SHORT_SECONDS 0.02 /* in which there are more rounds: some are between what else the machine does */

/* Of two registers: additions of a constant to one are done by the renamer of some cores, six of them in a cycle though
 * each waits for the one before (Golden Cove's). */
#if defined(__x86_64__)
#define ADD "add %1, %0\n"
#else
#define ADD "add %0, %0, %1\n"
#endif

double tn__probe_clock(void) {
  enum { STEPS = 100000 };
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t x = 0, one = 1;
    double start = tn__now();
    for (int i = 0; i < STEPS; i++) /* ten additions, each waiting for the one before */
      __asm__ volatile(ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD : "+r"(x) : "r"(one) : "cc");
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
static void read_all(const char *memory, size_t bytes) {
  const void *found = memchr(memory, 0, bytes);
  __asm__ volatile("" ::"r"(found) : "memory");
}

/* All of it goes from all caches to memory. */
static void send_away(const char *memory, size_t bytes) {
#if defined(__x86_64__)
#define FLUSH "clflush (%0)\n"
#define FENCE "mfence\n"
#else
#define FLUSH "dc civac, %0\n"
#define FENCE "dsb sy\n"
#endif
  for (size_t at = 0; at < bytes; at += TN__LINE_BYTES) __asm__ volatile(FLUSH ::"r"(memory + at) : "memory");
  __asm__ volatile(FENCE ::: "memory");
}

typedef struct reader {
  int64_t bytes; /* that are read over and over */
  bool far;      /* from memory */
} reader;

static tn_status *rate_of_reading(reader r, double *out) {
  void *memory;
  *out = 0;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, (size_t)r.bytes, 1, 64, &memory));
  memset(memory, 1, (size_t)r.bytes);
  int64_t passes = r.far ? 1 : ((int64_t)8 << 20) / r.bytes;
  if (passes < 1) passes = 1;
  double begun = tn__now();
  for (int round = 0; round < ROUNDS || (round < SHORT_ROUNDS && tn__now() - begun < SHORT_SECONDS); round++) {
    if (r.far) send_away(memory, (size_t)r.bytes);
    double start = tn__now();
    for (int64_t pass = 0; pass < passes; pass++) read_all(memory, (size_t)r.bytes);
    double rate = (double)(r.bytes * passes) / (tn__now() - start);
    if (rate > *out) *out = rate;
  }
  tn__free(NULL, memory, (size_t)r.bytes, 64);
  return NULL;
}

tn_status *tn__probe_reading(const tn__machine *machine, tn__reading_rates *out) {
  int64_t past_l2 = PAST * machine->l2_bytes,
          half = machine->l2_bytes + (machine->l3_bytes / 2 - machine->l2_bytes) / 2;
  if (past_l2 > half) past_l2 = half;
  if (past_l2 < machine->l2_bytes) past_l2 = machine->l2_bytes;
  TN_RETURN_IF_ERROR(rate_of_reading((reader){machine->l2_bytes / 2, false}, &out->l2));
  TN_RETURN_IF_ERROR(rate_of_reading((reader){past_l2, false}, &out->l3));
  TN_RETURN_IF_ERROR(rate_of_reading((reader){past_l2, true}, &out->memory));
  return NULL;
}
